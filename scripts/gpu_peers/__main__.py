"""Times other people's kernels for scripts/gpu.py, which asks by lines of JSON.

`{"peer": NAME, "point": POINT}` is answered by one line: `{"seconds": S, "way": "graph"}`, `{"error":
WHY}`, or `{"other": true}` where the peer is for other points. `"way": "eager"` marks what cannot be captured in a
CUDA graph. The first line that is written names the peers, and what is missing.

A peer is a function of one of the other files of this folder: each has `peers(torch)`, which gives pairs
of a name and `make(point)`. `make` gives a function without arguments that does one iteration of the
point, or None where it is for other points. `point` is the dictionary that stands in the record.

scripts/tune.py has peers take turns with other processes: lines with the key `do` are answered as
`fizeau contend` answers them (`Contenders`).
"""

import importlib.util
import json
import os
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
# As the suite gpu-figures has it for the program's own kernels: the least time of a batch, and how long
# batches are timed, with the rests between them.
BATCH, SAMPLING = 0.0002, 0.15
# As `fizeau contend` has them: the untimed part of a burst and the rest after it, as shares of the
# load; the longest rest, and the load before settled samples, in seconds.
LEAD, REST, REST_MAX, SETTLING = 0.25, 5.0, 0.1, 0.3
# Copies of operands that iterations take in turn, in last-level caches, and the most of them.
CACHES, COPIES_MAX = 5, 64
# What the counters of each multiprocessor show, left before and after what is timed.
COUNTERS = """
extern "C" __global__ void counters(long long* counted, int turn) {
  unsigned unit;
  long long now;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(unit));
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  counted[3 * unit] = turn;
  counted[3 * unit + 1] = clock64();
  counted[3 * unit + 2] = now;
}
"""


def load():
    """PyTorch, the peers by name, and what is missing, in words."""
    try:
        import torch
    except ImportError as error:
        return None, {}, [f"no peers: {error} (a python3 with PyTorch: PYTHON=...)"]
    if not torch.cuda.is_available():
        return None, {}, ["no peers: this PyTorch sees no GPU"]
    peers, missing = {}, []
    for path in sorted(HERE.glob("[!_]*.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
            peers.update(module.peers(torch))
        except Exception as error:  # A peer's own trouble is none of ours.
            missing.append(f"{path.name}: {words(error)}")
    return torch, peers, missing


def words(error):
    """An error in one line."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def timed(torch, batch, count, beside=lambda when: None):
    """Seconds of one iteration in a batch. A kernel that sleeps holds the stream until all of it has
    been enqueued. `beside(0)` and `beside(1)` enqueue what comes before and after it."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    getattr(torch.cuda, "_sleep", lambda cycles: None)(200_000)
    beside(0)
    start.record()
    batch()
    end.record()
    beside(1)
    end.synchronize()
    return start.elapsed_time(end) / 1e3 / count


def captured(torch, function, count):
    """Iterations as one graph, and how: or one by one, where the function cannot be captured."""
    try:
        # A copy in a graph is made by the driver, at 0.6 of the rate of one that is not.
        if getattr(function, "captures", True):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(count):
                    function()
            return graph.replay, "graph"
    except Exception:
        # An error of capturing may stay with the context until it is asked for.
        try:
            torch.cuda.synchronize()
        except Exception:
            pass

    def one_by_one():
        for _ in range(count):
            function()
    return one_by_one, "eager"


def measure(torch, function):
    """Median of batches of iterations that follow one another, each after a rest."""
    # Before capturing, libraries choose and load their kernels: on a stream of its own, as CUDA graphs
    # in PyTorch ask for.
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()

    def three():
        for _ in range(3):
            function()
    once = timed(torch, three, 3)
    count = max(1, min(1000, int(BATCH / max(once, 1e-7)) + 1))
    batch, way = captured(torch, function, count)
    lead, _ = captured(torch, function, max(1, int(count * LEAD)))
    until, times = time.monotonic() + SAMPLING, []
    while len(times) < 10 or time.monotonic() < until:
        begun = timed(torch, lead, 1)
        times.append(timed(torch, batch, count))
        time.sleep(min((begun + times[-1] * count) * REST, REST_MAX))
    return {"seconds": statistics.median(times), "way": way, "regime": "burst", "cache": "hot"}


class Counters:
    """The clock of the multiprocessors while a batch ran; None where no kernel can be compiled."""

    def __init__(self, torch):
        self.torch, self.turn = torch, 0
        units = torch.cuda.get_device_properties(0).multi_processor_count
        try:
            self.kernel = torch.cuda._compile_kernel(COUNTERS, "counters")
            shape = (2, units, 3)
            self.counted = torch.zeros(shape, dtype=torch.int64, device="cuda")
            self.units = units
            self.leave(0)
            torch.cuda.synchronize()
        except Exception as error:
            print(f"no clock: {words(error)}", file=sys.stderr)
            self.kernel = None

    def leave(self, when):
        if self.kernel is not None:
            self.turn += when == 0
            self.kernel(grid=(2 * self.units, 1, 1), block=(1, 1, 1),
                        args=[self.counted[when], self.turn])

    def clock(self):
        """In MHz."""
        if self.kernel is None:
            return None
        self.torch.cuda.synchronize()
        before, after = self.counted.cpu().tolist()
        clocks = [1e3 * (b[1] - a[1]) / (b[2] - a[2]) for a, b in zip(before, after)
                  if a[0] == b[0] == self.turn and b[2] > a[2]]
        return statistics.median(clocks) if clocks else None


class Contenders:
    """Peers that are ready, and take samples as they are asked for."""

    def __init__(self, torch, peers):
        self.torch, self.peers, self.ready, self.counters = torch, peers, {}, None
        # The load since the last rest that was long enough.
        self.worked = 0.0

    def answer(self, asked):
        what = asked.get("do")
        if what == "prepare":
            return self.prepare(asked)
        if what == "sample":
            return self.sample(**{key: asked[key] for key in ("name", "regime", "count", "load")})
        if what == "forget":
            self.ready.pop(asked["name"], None)
            self.torch.cuda.empty_cache()
            return {"forgot": asked["name"]}
        return {"failed": f"nobody knows how to {what}"}

    def prepare(self, asked):
        torch, point, name = self.torch, asked["point"], asked["peer"]
        if name not in self.peers:
            return {"failed": f"{name} is not installed here, or is for other GPUs"}
        self.counters = self.counters or Counters(torch)
        functions = [self.peers[name](point)]
        if functions[0] is None:
            return {"other": True}
        if asked.get("cache") == "cold":
            cache = torch.cuda.get_device_properties(0).L2_cache_size
            before = torch.cuda.memory_allocated()
            functions.append(self.peers[name](point))
            of_one = max(torch.cuda.memory_allocated() - before, 1)
            copies = min(max(-(-CACHES * cache // of_one), 2), COPIES_MAX)
            functions += [self.peers[name](point) for _ in range(copies - 2)]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for function in functions + functions[:2]:
                function()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()

        def all_of_them():
            for function in functions:
                function()
        all_of_them.captures = getattr(functions[0], "captures", True)
        count, seconds = len(functions), 0.0
        for times in (1, 8):
            def several():
                for _ in range(times):
                    all_of_them()
            seconds = timed(torch, several, times * count)
        self.ready[asked["name"]] = {"function": all_of_them, "count": count, "seconds": seconds,
                                     "batches": {}}
        way = self.batch(asked["name"], 0.003)[2]
        return {"ready": asked["name"], "seconds": seconds, "way": way, "point": point,
                "kernel": name, "cache": asked.get("cache", "hot")}

    def batch(self, name, load):
        """What enqueues about `load` seconds of work, its iterations, and how."""
        of = self.ready[name]
        turns = max(1, min(2000, round(load / max(of["seconds"] * of["count"], 1e-7))))
        if turns not in of["batches"]:
            batch, way = captured(self.torch, of["function"], turns)
            of["batches"][turns] = batch, turns * of["count"], way
        return of["batches"][turns]

    def sample(self, name, regime, count, load):
        if name not in self.ready:
            return {"failed": f"{name} was not prepared"}
        torch = self.torch
        batch, iterations, _ = self.batch(name, load)
        lead, of_lead, _ = self.batch(name, load * LEAD)
        if regime == "burst":
            time.sleep(self.worked * REST)
        self.worked = SETTLING + load * count if regime == "settled" else 0.0
        begun, times, clocks = time.monotonic(), [], []
        loaded = 0.0
        while regime == "settled" and loaded < SETTLING and time.monotonic() - begun < 4 * SETTLING:
            loaded += timed(torch, batch, iterations) * iterations
        for _ in range(count):
            before = 0.0
            if regime == "burst":
                before = timed(torch, lead, of_lead) * of_lead
            times.append(timed(torch, batch, iterations, self.counters.leave))
            clocks.append(self.counters.clock())
            if regime == "burst":
                time.sleep(min((before + times[-1] * iterations) * REST, REST_MAX))
        return {"times": times, "clocks": clocks, "batch": iterations}


def is_broken(torch):
    """Whether the GPU's context is: nothing more can run in this process then."""
    try:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return False
    except Exception:
        return True


def main():
    # What libraries print does not go among the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    torch, peers, missing = load()
    print(json.dumps({"peers": list(peers), "missing": missing}), file=answers)
    contenders = Contenders(torch, peers)
    for line in sys.stdin:
        asked = json.loads(line)
        if "do" in asked:
            if asked["do"] == "end":
                break
            try:
                answer = contenders.answer(asked)
            except Exception as error:
                answer = {"failed": words(error), "broken": is_broken(torch)}
            print(json.dumps(answer), file=answers)
            continue
        try:
            function = peers[asked["peer"]](asked["point"])
            answer = {"other": True} if function is None else measure(torch, function)
        except Exception as error:
            answer = {"error": words(error)}
        function = None
        if "other" not in answer:
            answer["broken"] = is_broken(torch)
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main()
