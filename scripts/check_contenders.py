"""Holds the process of scripts/gpu_peers to what scripts/tune.py asks of it, by a stand-in for PyTorch
that has a clock and no tensors: every answer, and that no planted fault ends the process or costs
another peer its turn. Needs Python alone."""

import json
import math
import os
import pathlib
import random
import statistics
import sys
import tempfile

sys.dont_write_bytecode = True
SCRIPTS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(SCRIPTS))
import peers_stand_in  # noqa: E402
import tune  # noqa: E402

POINT = {"operation": "gemm", "m": 1}
MEGAHERTZ = 1500.0


class Peers:
    """The process, in a folder with a stand-in for PyTorch."""

    def __init__(self, place, **variables):
        self.log = open(place / "said.txt", "a")
        command = [sys.executable, str(place / "gpu_peers")]
        self.process = tune.Process("peers", command, {"PYTHONPATH": str(place), **variables}, self.log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.end()
        self.log.close()

    def ask(self, **asked):
        self.process.ask(**asked)
        return self.process.answer(20.0)

    def prepare(self, peer, point=POINT, **more):
        return self.ask(do="prepare", name=peer, peer=peer, point=point, **more)

    def sample(self, name, regime="burst", count=3, load=0.004):
        return self.ask(do="sample", name=name, regime=regime, count=count, load=load)

    def line(self, text):
        """What is answered to any line."""
        self.process.process.stdin.write(text + "\n")
        self.process.process.stdin.flush()
        return self.process.answer(20.0)

    def number(self):
        return self.process.process.pid


def check_answers(place):
    with Peers(place) as peers:
        for name, way in (("graph", "graph"), ("eager", "eager"), ("copies", "eager")):
            ready = peers.prepare(name, cache="hot")
            assert (ready["ready"], ready["way"], ready["cache"]) == (name, way, "hot"), ready
            assert ready["point"] == POINT and ready["copies"] == 1, ready
            # A launch by Python takes a quarter more.
            seconds = 0.002 if way == "graph" else 0.0025
            assert math.isclose(ready["seconds"], seconds, rel_tol=1e-9), ready
            for regime in ("burst", "settled"):
                said = peers.sample(name, regime)
                assert said["batch"] == 2, said
                assert len(said["times"]) == len(said["clocks"]) == 3, said
                assert all(math.isclose(time, seconds, rel_tol=1e-9) for time in said["times"]), said
                assert all(math.isclose(clock, MEGAHERTZ, rel_tol=1e-6) for clock in said["clocks"])
        assert peers.process.hello["protocol"] == 1, peers.process.hello
        assert peers.prepare("graph", {**POINT, "m": 2}) == {"other": True}
        assert peers.ask(do="forget", name="graph") == {"forgot": "graph"}
        assert "not prepared" in peers.sample("graph")["failed"]
        process = peers.process.process
        peers.process.ask(do="end")
        assert process.wait(20.0) == 0
    print("peers get ready, take samples in both regimes, are forgotten and end as they are asked to")


def check_regulator(place):
    """The clock is that of the batch itself: under a regulator of power cycles are the same in both
    regimes where times differ."""
    with Peers(place, REGULATOR="3") as peers:
        assert "ready" in peers.prepare("graph")
        # So many bursts that without rests the clock would be lowered.
        said = {regime: peers.sample("graph", regime, count=40) for regime in ("settled", "burst")}
    assert math.isclose(max(said["burst"]["times"]), 0.002, rel_tol=1e-9), said
    times, clocks = ({regime: statistics.median(of[key]) for regime, of in said.items()}
                     for key in ("times", "clocks"))
    assert math.isclose(times["burst"], 0.002, rel_tol=1e-9), times
    assert math.isclose(times["settled"], 0.002 * 1.21, rel_tol=1e-9), times
    cycles = [times[regime] * clocks[regime] for regime in times]
    assert math.isclose(*cycles, rel_tol=1e-6), (times, clocks)
    with Peers(place, NO_COMPILER="1") as peers:
        assert "ready" in peers.prepare("graph")
        assert peers.sample("graph")["clocks"] == [None] * 3
    print("the clock of a batch is that of the units while it ran, and none without a compiler")


def check_cold(place):
    """Iterations take turns among five caches of operands, in every graph; the peer fails where one has
    the operands of the one before it."""
    for peer in ("cold", "states"):
        with Peers(place) as peers:
            ready = peers.prepare(peer, cache="cold")
            assert ready.get("copies") == 20 and ready["cache"] == "cold", ready
            assert ready["way"] == "graph", ready
            assert math.isclose(ready["seconds"], 0.00025, rel_tol=1e-9), ready
            # Whole turns, the lead of a short batch too.
            for load, batch in ((0.012, 40), (0.0004, 20)):
                for regime in ("burst", "settled"):
                    said = peers.sample(peer, regime, load=load)
                    assert said["batch"] == batch, said
                    assert all(math.isclose(time, 0.00025, rel_tol=1e-9) for time in said["times"])
            hot = peers.prepare(peer, cache="hot")
            assert "still in the cache" in hot["failed"], hot
            assert "lukewarm" in peers.prepare(peer, cache="lukewarm")["failed"]
    print("cold iterations take turns among copies of operands that are five caches together")


def check_faults(place):
    """Each planted fault is answered by the process that was asked, which goes on."""
    sample = {"do": "sample", "name": "graph", "regime": "burst", "count": 3, "load": 0.004}
    with Peers(place) as peers:
        assert "ready" in peers.prepare("graph")
        process = peers.number()
        requests = [{"do": "dance"}, {"do": ["end"]}, {"do": None}, {}, [], 7, "end",
                    {"do": "prepare", "name": "x"}, {"do": "forget"}, {"do": "forget", "name": []},
                    {"do": "prepare", "name": "x", "peer": "nobody", "point": POINT},
                    {"do": "prepare", "name": "x", "peer": "graph", "point": {}},
                    {"do": "prepare", "name": [], "peer": "graph", "point": POINT},
                    *({"do": "prepare", "name": "x", "peer": peer, "point": POINT}
                      for peer in ("raises", "exits")),
                    *({**sample, **wrong} for wrong in (
                        {"name": "x"}, {"regime": "idle"}, {"count": 0}, {"count": 1.5},
                        {"count": "3"}, {"count": True}, {"count": 10**9}, {"load": 0.0},
                        {"load": -1.0}, {"load": 3600.0}, {"load": None}))]
        for line in [*map(json.dumps, requests), "", "{", "end", '{"do": "sample", "load": NaN}']:
            answer = peers.line(line)
            assert answer.get("failed") and not answer.get("broken"), (line, answer)
            assert "\n" not in answer["failed"], answer
        for peer in ("raises", "exits", "nobody"):
            answer = peers.line(json.dumps({"peer": peer, "point": POINT}))
            assert answer["error"] and answer["broken"] is False, answer
        assert "times" in peers.sample("graph") and peers.number() == process
        # Where the GPU's context is lost, every later answer says so.
        broken = peers.line(json.dumps({"do": "prepare", "name": "x", "peer": "breaks",
                                        "point": POINT, "cache": "hot"}))
        assert broken["broken"] and "illegal" in broken["failed"], broken
        # The one who asks starts a new process then, which knows nobody and works.
        assert "not prepared" in peers.sample("graph")["failed"] and peers.number() != process
        assert "ready" in peers.prepare("graph") and "times" in peers.sample("graph")
        assert "process ended" in peers.prepare("ends")["failed"]
        assert "ready" in peers.prepare("graph") and "times" in peers.sample("graph")
    print(f"{len(requests) + 7} faults of requests and peers end no process; a lost context is said")


def check_without(place):
    """Without PyTorch the process says so, and answers."""
    (place / "torch.py").write_text("raise ImportError('planted')\n")
    with Peers(place) as peers:
        answer = peers.prepare("graph")
        assert "not installed" in answer["failed"], answer
        assert "planted" in peers.process.hello["missing"][0], peers.process.hello
        assert peers.ask(do="forget", name="graph") == {"forgot": "graph"}
        answer = peers.line(json.dumps({"peer": "graph", "point": POINT}))
        assert answer["error"] and answer["broken"] is False, answer
    print("a machine without PyTorch is told of as such")


class Machine:
    """A simulated GPU with one kernel of 0.6 ms, noise, and a regulator of power like that of an H100: 4 to
    8 % slower after about 24, 46 and 70 ms of load each, forgotten at a quarter of the time of a rest."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.load = 0.0
        steps = [(after * self.random.uniform(0.9, 1.1), self.random.uniform(1.04, 1.08))
                 for after in (0.024, 0.046, 0.070)]
        self.steps = steps

    def rest(self, seconds):
        self.load = max(0.0, self.load - 0.25 * seconds)

    def iteration(self):
        slower = math.prod(by for after, by in self.steps if self.load >= after)
        time = 0.0006 * slower * (1.0 + 0.004 * self.random.gauss(0.0, 1.0))
        self.load += time
        return time


class Simulated:
    """A process of contenders on a simulated GPU, as tune.py asks it."""

    def __init__(self, machine):
        self.machine, self.asked = machine, {}

    def ask(self, **asked):
        self.asked = asked

    def answer(self, _seconds):
        machine, asked = self.machine, self.asked
        is_settled = asked["regime"] == "settled"
        machine.rest(10.0 if not is_settled else 0.0)
        before = 0.3 if is_settled else 0.002
        while machine.load < before:
            machine.iteration()
        times = []
        for _ in range(asked["count"]):
            sample, spent = [], 0.0
            while spent < asked["load"]:
                sample.append(machine.iteration())
                spent += sample[-1]
            times.append(statistics.mean(sample))
            machine.rest(0.0 if is_settled else 1.0)
        return {"times": times, "clocks": []}


def turns(seed):
    """Ratios of two equal kernels in rotation, by regime."""
    tuned = tune.Tune.__new__(tune.Tune)
    process = Simulated(Machine(seed))
    tuned.process = lambda _name: process
    row = {"samples": [], "contenders": {}}
    ready = [("a", "one"), ("b", "other")]
    for regime, rounds in (("burst", tune.ROUNDS), ("settled", tune.SETTLED_ROUNDS)):
        for number in range(rounds):
            tuned.round(regime, number, ready, row)
    return {regime: tune.ratio(row, "b", "a", regime)[0] for regime in ("burst", "settled")}


def one_after_the_other(seed):
    """The ratio of two equal kernels as it was before: each until its times are quiet, or for 150 ms."""
    machine = Machine(seed)

    def side():
        machine.rest(machine.random.choice([0.0, 0.1, 10.0]))
        times = []
        while sum(times) < 0.05 or (sum(times) < 0.15 and spread(times) > 0.005):
            times.append(machine.iteration())
        return statistics.median(times)

    def spread(times):
        middle = statistics.median(times)
        return statistics.median(abs(time - middle) for time in times) / middle
    return side() / side()


def check_ratio(_place):
    """Two kernels of equal speed under a regulator: the ratio is 1 within 0.5 % in 95 of 100 seeds."""
    seeds = range(100)
    found = [turns(seed) for seed in seeds]
    for regime in ("burst", "settled"):
        good = sum(abs(one[regime] - 1) <= 0.005 for one in found)
        assert good >= 95, (regime, good)
        print(f"{regime}: the ratio of two equal kernels in rotation is 1 within 0.5 % in {good} of 100 seeds")
    before = sum(abs(one_after_the_other(seed) - 1) > 0.02 for seed in seeds)
    assert before > 25, before
    print(f"one after the other, until each is quiet, it is off by more than 2 % in {before} of 100 (simulated)")


def main():
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        peers_stand_in.make(place)
        os.environ.pop("REGULATOR", None)
        for check in (check_ratio, check_answers, check_regulator, check_cold, check_faults,
                      check_without):
            check(place)


if __name__ == "__main__":
    main()
