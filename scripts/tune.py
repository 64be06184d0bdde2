"""Times variants of kernels, vendors' libraries and other people's kernels in rotation, so that each ratio
is of two sides in the same state. Called by `scripts/gpu.sh tune`.

Each file of experiments/ asks one question: which points, which contenders, and what each is predicted
to reach. A contender is a process that holds the GPU and takes a sample when it is asked to: `fizeau
contend`, once for the program itself and once for each variant of its kernels, and scripts/gpu_peers.

A round takes one sample of each contender of a point, in an order that changes from round to round. A
ratio is the median over the rounds of the ratio of two contenders in one round. It is made in two
regimes: *burst*, each sample after a rest, and *settled*, each after 0.3 s of the same load.

What was measured is appended to tune.jsonl, and the table is written anew after each point: a command
that was killed goes on with the next point when it is started again.
"""

import argparse
import json
import lzma
import os
import pathlib
import select
import shutil
import signal
import statistics
import subprocess
import sys
import time
import tomllib

from gpu import AT_BEST, lines_of

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
# Seconds after which it ends by itself; scripts/gpu.sh ends it a little later.
LIMIT = 540.0
# Seconds that a contender has to get ready (its kernels may have to be compiled), and for its samples.
PREPARE, SAMPLE = 90.0, 30.0
# Burst: rounds, and the load of a sample in seconds. Settled: rounds, samples of each, their load.
ROUNDS, LOAD = 12, 0.003
SETTLED_ROUNDS, SETTLED_COUNT, SETTLED_LOAD = 3, 8, 0.003
# The rest after settled samples, in seconds: five times the longest load.
RESTED = 1.8
# A change that counts, as a share.
LEAST = 0.01
# Of 12 rounds the 3rd and the 10th ratio hold their median with a confidence of 0.96; of fewer the
# extremes are given.
INTERVAL = {12: 2}
# The table at the end has to fit where 12,000 characters are kept.
TABLE_MAX = 11 << 10


class Stop(Exception):
    """Ended from outside, or the time is over."""


def broken(words):
    """The answer of a process that gave none."""
    return {"failed": words, "broken": True}


class Process:
    """One process of contenders. It is started when it is first asked, and anew when it broke."""

    def __init__(self, name, command, variables, log):
        self.name, self.command, self.log = name, command, log
        self.variables = {**os.environ, **variables}
        self.process, self.hello, self.waiting = None, {}, 0

    def start(self):
        self.process = subprocess.Popen(self.command, text=True, bufsize=1, env=self.variables,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log)
        self.hello = self.answer(120.0)

    def ask(self, **asked):
        """Sends a request without waiting for its answer."""
        try:
            if self.process is None:
                self.start()
            self.process.stdin.write(json.dumps(asked) + "\n")
            self.process.stdin.flush()
        except (OSError, ValueError):
            self.end()

    def answer(self, seconds):
        """The answer to the last request."""
        if self.process is None:
            return broken("its process ended")
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        line = self.process.stdout.readline() if ready else ""
        if not line.endswith("\n"):
            self.end()
            return broken(f"no answer within {seconds:.0f} s" if not ready else "its process ended")
        answer = json.loads(line)
        if answer.get("broken"):
            self.end()
        return answer

    def end(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            self.process = None


def contenders(point):
    """(name, process, request) of each contender of a point; the first is what others are set beside."""
    case, kernel = point["case"], point["kernel"]
    yield kernel, "program", {"case": f"{case}/{kernel}"}
    for variant in point.get("variants", []):
        yield variant, f"variant {variant}", {"case": f"{case}/{kernel}"}
    for other in point.get("kernels", []):
        yield other, "program", {"case": f"{case}/{other}"}
    for peer in point.get("peers", []):
        yield peer, "peers", {"peer": peer}


def load_experiments(folder, names):
    """The experiments by name, in the order of their numbers."""
    found = {}
    for path in sorted(folder.glob("[0-9]*.toml")):
        found[path.stem.split("-", 1)[1]] = tomllib.loads(path.read_text())
    unknown = [name for name in names if name not in found]
    if unknown:
        sys.exit(f"no experiment {', '.join(unknown)}: there are {', '.join(found)}")
    return {name: found[name] for name in names} if names else found


class Tune:
    """All of it: processes, what was measured, and the table."""

    def __init__(self, given):
        self.given, self.until = given, time.monotonic() + given.limit
        self.out = given.out
        self.out.mkdir(parents=True, exist_ok=True)
        self.kept = self.out / "tune.jsonl"
        self.log = open(self.out / "said.txt", "a")
        self.rows = lines_of(self.kept)
        self.is_stub = any(row.get("is_stub") for row in self.rows)
        self.missing = []
        self.processes = {}
        # When the last settled sample ended.
        self.settled = 0.0

    def left(self):
        return self.until - time.monotonic()

    def process(self, name):
        """The process of that name: `program`, `peers` or `variant NAME`."""
        if name not in self.processes:
            # All compile their kernels by the same compiler, and from texts.
            variables = {"FIZEAU_KERNELS_FROM": str(ROOT / "kernels")}
            command = [self.given.program, "contend", "--device", self.given.device]
            command += [word for suite in self.given.suite for word in ("--suite", suite)]
            if name == "peers":
                command = [sys.executable, HERE / "gpu_peers"]
            elif name != "program":
                variant = name.split(" ", 1)[1]
                variables = {"FIZEAU_KERNELS_FROM": str(self.variant(variant)),
                             **self.listed(variant).get("variables", {})}
            self.processes[name] = Process(name, command, variables, self.log)
        return self.processes[name]

    def variant(self, name):
        """The folder with a variant of kernels/: made of the patches that its name stands for."""
        folder = (self.given.variants / name).resolve()
        patches = self.listed(name).get("patches", [])
        if not patches:
            return ROOT / "kernels"
        if not folder.exists():
            draft = folder.with_suffix(".draft")
            shutil.rmtree(draft, ignore_errors=True)
            shutil.copytree(ROOT / "kernels", draft / "kernels")
            # As outside of any repository, whose rules on paths are none of the folder's.
            outside = {**os.environ, "GIT_CEILING_DIRECTORIES": str(draft.parent)}
            for patch in patches:
                path = ROOT / "experiments" / "variants" / f"{patch}.patch"
                subprocess.run(["git", "apply", path], cwd=draft, env=outside, check=True)
            (draft / "kernels").rename(folder)
            shutil.rmtree(draft)
        return folder

    def listed(self, name):
        """What the list of variants says of one."""
        path = self.given.experiments / "variants.toml"
        listed = tomllib.loads(path.read_text())["variant"] if path.exists() else {}
        if name not in listed:
            sys.exit(f"{path} has no variant {name}: it has {', '.join(listed) or 'none'}")
        return listed[name]

    def done(self, experiment, point):
        return any(row["experiment"] == experiment and row["case"] == point["case"]
                   and row["kernel"] == point["kernel"] for row in self.rows)

    def run(self, experiments):
        """Every point of every experiment, until the time is over: whether all were reached."""
        for name, experiment in experiments.items():
            for point in experiment["point"]:
                if self.done(name, point):
                    continue
                if self.left() < 25.0:
                    return False
                self.measure(name, point)
                self.write(experiments)
        return True

    def measure(self, experiment, point):
        """One point: all of its contenders get ready together, and then take turns."""
        begun, given = time.monotonic(), list(contenders(point))
        row = {"experiment": experiment, "case": point["case"], "kernel": point["kernel"],
               "predicted": point.get("predicted", {}), "contenders": {}, "samples": []}
        ready = self.prepare(point, given, row)
        # What the last point left settled is a burst's beginning again.
        time.sleep(max(self.settled + RESTED - time.monotonic(), 0.0))
        try:
            for regime, rounds in (("burst", self.given.rounds), ("settled", SETTLED_ROUNDS)):
                for number in range(rounds):
                    self.round(regime, number, ready, row)
                    if self.left() < 15.0:
                        break
        finally:
            for name, process in ready:
                self.process(process).ask(do="forget", name=name)
                self.process(process).answer(SAMPLE)
        row["seconds"] = round(time.monotonic() - begun, 2)
        row["is_stub"] = self.is_stub
        self.rows.append(row)
        with open(self.kept, "a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{experiment}: {point['case']} {point['kernel']}: {len(ready)} of {len(given)} "
              f"contenders, {row['seconds']:.0f} s", flush=True)

    def prepare(self, point, given, row):
        """(name, process) of the contenders that are ready; why others are not goes into the row."""
        ready, described = [], None
        # What the program says of the point is what peers are told. Each process is asked for one
        # thing at a time, all of them together.
        waiting = [one for one in given if one[1] != "peers"]
        peers = [one for one in given if one[1] == "peers"]
        while waiting or peers:
            asked = []
            for name, process, request in list(waiting):
                if process not in [other for _, other in asked]:
                    self.process(process).ask(do="prepare", name=name, **request)
                    asked.append((name, process))
                    waiting.remove((name, process, request))
            if described and peers:
                name, process, request = peers.pop(0)
                self.process(process).ask(do="prepare", name=name, **request, point=described["point"],
                                          cache=described["cache"])
                asked.append((name, process))
            if not asked:
                # The program itself is not ready: nobody can be told what the point is.
                for name, _, _ in peers:
                    row["contenders"][name] = {"failed": "the program has no such case"}
                break
            for name, process in asked:
                answer = self.process(process).answer(min(PREPARE, max(self.left(), 1.0)))
                row["contenders"][name] = answer
                if "ready" in answer:
                    ready.append((name, process))
                    described = described or (answer if process == "program" else None)
                hello = self.process(process).hello
                self.is_stub |= bool(hello.get("is_stub"))
                row.setdefault("device", hello.get("device"))
        return ready

    def round(self, regime, number, ready, row):
        """One sample of each, beginning with another one each time."""
        count, load = (1, LOAD) if regime == "burst" else (SETTLED_COUNT, SETTLED_LOAD)
        at = number % len(ready) if ready else 0
        for name, process in ready[at:] + ready[:at]:
            self.process(process).ask(do="sample", name=name, regime=regime, count=count, load=load)
            answer = self.process(process).answer(SAMPLE)
            if "times" not in answer:
                row["contenders"][name] = answer
                ready.remove((name, process))
                continue
            if regime == "settled":
                self.settled = time.monotonic()
            row["samples"].append({"name": name, "regime": regime, "round": number,
                                   "times": answer["times"], "clocks": answer["clocks"],
                                   "throttled": answer.get("throttled", 0)})

    def write(self, experiments):
        """The table and the samples, as they are now."""
        text = table(self.rows, experiments, self.is_stub, self.missing)
        (self.out / "tune.md").write_text(text)
        draft = self.out / "tune.jsonl.xz.draft"
        draft.write_bytes(lzma.compress(self.kept.read_bytes(), preset=1))
        draft.rename(self.out / "tune.jsonl.xz")
        return text

    def end(self):
        for process in self.processes.values():
            process.end()


def by_round(row, name, regime):
    """The median time of a contender in each round of a regime."""
    return {sample["round"]: statistics.median(sample["times"]) for sample in row["samples"]
            if sample["name"] == name and sample["regime"] == regime}


def clock_of(row, name, regime):
    """The median clock of the units while a contender's samples were taken, in MHz."""
    clocks = [clock for sample in row["samples"] if (sample["name"], sample["regime"]) == (name, regime)
              for clock in sample["clocks"] if clock]
    return statistics.median(clocks) if clocks else None


def ratio(row, name, base, regime):
    """How many times as fast a contender is as the base: median of the rounds, and its interval."""
    own, other = by_round(row, name, regime), by_round(row, base, regime)
    ratios = sorted(other[number] / own[number] for number in own.keys() & other.keys())
    if not ratios:
        return None
    cut = INTERVAL.get(len(ratios), 0)
    return statistics.median(ratios), ratios[cut], ratios[-1 - cut]


def verdict(found):
    """What an interval of ratios says."""
    if found is None:
        return ""
    _, low, high = found
    if low > 1 + LEAST:
        return "faster"
    if high < 1 - LEAST:
        return "slower"
    return "same" if low >= 1 - LEAST and high <= 1 + LEAST else "unclear"


def lines_of_row(row, is_stub):
    """A line for each contender of a point."""
    base = row["kernel"]
    ready = [name for name, said in row["contenders"].items() if by_round(row, name, "burst")]
    fastest = min((statistics.median(by_round(row, name, "burst").values()) for name in ready),
                  default=None)
    for name, said in row["contenders"].items():
        if name not in ready:
            yield f"  {name[:24]:24} {said.get('failed') or 'is for other points'}"[:110]
            continue
        times = [by_round(row, name, regime).values() for regime in ("burst", "settled")]
        times = [statistics.median(values) * 1e6 if values else None for values in times]
        clocks = [clock_of(row, name, regime) for regime in ("burst", "settled")]
        words = [f"{value:9.2f}" if value else " " * 9 for value in times]
        words += [f"{value:5.0f}" if value else " " * 5 for value in clocks]
        if times[0] and fastest and fastest * 1e6 < AT_BEST * times[0] and name != base:
            words.append("not at its best: no ratio")
        elif name != base:
            found = [ratio(row, name, base, regime) for regime in ("burst", "settled")]
            words += [f"{one[0]:.3f} [{one[1]:.3f},{one[2]:.3f}]" if one else " " * 19 for one in found]
            predicted = row["predicted"].get(name)
            words += [f"{predicted:5.2f}" if predicted else " " * 5, verdict(found[0])]
        if is_stub:
            is_ratio = name != base and not words[-1].endswith("no ratio")
            words = ["stub: no number"] if name == base or is_ratio else words[-1:]
            words += [verdict(found[0])] if is_ratio else []
        yield f"  {name[:24]:24} " + " ".join(words)


def table(rows, experiments, is_stub, missing):
    """What was found: a heading for each point, a line for each contender."""
    lines = ["contender: us burst, us settled, MHz burst, MHz settled, times as fast as the first",
             "(burst, settled: median of rounds [interval]), predicted, verdict"]
    if is_stub:
        lines.append("stub driver: times mean nothing, and none is shown")
    for name, experiment in experiments.items():
        of = [row for row in rows if row["experiment"] == name]
        lines += [f"# {name}: {experiment['question']}"] if of else []
        for row in of:
            lines += [row["case"]] + list(lines_of_row(row, is_stub))
    reached = {(row["experiment"], row["case"], row["kernel"]) for row in rows}
    for name, experiment in experiments.items():
        not_yet = [point for point in experiment["point"]
                   if (name, point["case"], point["kernel"]) not in reached]
        if not_yet:
            lines.append(f"{name}: {len(not_yet)} of {len(experiment['point'])} points not reached yet")
    return "\n".join(lines + sorted(set(missing))) + "\n"


def steps(tune, listed):
    """What no GPU has measured yet, most valuable first, as far as the time goes."""
    done = tune.out / "steps.txt"
    known = set(done.read_text().splitlines()) if done.exists() else set()
    for step in listed:
        name, seconds = step["name"], float(step["seconds"])
        if name in known or tune.left() < seconds + 5.0:
            continue
        command = [tune.given.program, *step["command"], "--device", tune.given.device, "--color",
                   "never", "--out", tune.out / "steps" / name]
        begun = time.monotonic()
        with open(tune.out / f"step-{name}.txt", "w") as said:
            process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT)
            try:
                code = process.wait(min(seconds * 2, tune.left() - 3.0))
            except subprocess.TimeoutExpired:
                process.terminate()
                try:
                    code = process.wait(8.0)
                except subprocess.TimeoutExpired:
                    process.kill()
                    code = process.wait()
        print(f"step {name}: exit code {code}, {time.monotonic() - begun:.0f} of {seconds:.0f} s", flush=True)
        with open(done, "a") as file:
            file.write(name + "\n")


def unmeasured(given):
    """The list of what no GPU has measured yet."""
    path = given.experiments / "unmeasured.toml"
    return tomllib.loads(path.read_text())["step"] if path.exists() else []


def check(tune, experiments):
    """Whether every case is planned, every variant can be made and every step has a command."""
    command = [tune.given.program, "list", "--json", "--device", tune.given.device]
    command += [word for suite in tune.given.suite for word in ("--suite", suite)]
    plan = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["cases"]
    known = {row["id"] for row in plan}
    wrong = []
    for name, experiment in experiments.items():
        for point in experiment["point"]:
            for contender, process, request in contenders(point):
                if "case" in request and request["case"] not in known:
                    wrong.append(f"{name}: no case {request['case']} is planned")
                if process.startswith("variant"):
                    tune.variant(contender)
            unknown = set(point.get("predicted", {})) - {one for one, _, _ in contenders(point)}
            wrong += [f"{name}: {one} is predicted and does not take part" for one in unknown]
    for step in unmeasured(tune.given):
        if step["command"][0] == "run":
            command = [tune.given.program, "list", "--device", tune.given.device, *step["command"][1:]]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            wrong += [f"step {step['name']}: {done.stderr.strip()}"] if done.returncode else []
    print("\n".join(wrong) or f"{len(experiments)} experiments can be run")
    return 1 if wrong else 0


def main():
    arguments = argparse.ArgumentParser(prog="scripts/gpu.sh tune", description=__doc__,
                                        formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("experiment", nargs="*", help="only these, by name [default: all]")
    arguments.add_argument("--out", type=pathlib.Path, help="where the table and the samples go")
    arguments.add_argument("--limit", type=float, default=LIMIT, help="seconds after which it ends")
    arguments.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of bursts (12)")
    arguments.add_argument("--suite", action="append", default=[],
                           help="suites that have the cases [points.toml beside the experiments]")
    arguments.add_argument("--variants", type=pathlib.Path, help="where folders of variants are")
    arguments.add_argument("--experiments", type=pathlib.Path, default=ROOT / "experiments")
    arguments.add_argument("--check", action="store_true", help="measure nothing: can all be run?")
    arguments.add_argument("--no-steps", action="store_true", help="leave out what no GPU has measured")
    for name in ("--program", "--device", "--work", "--default-out"):
        arguments.add_argument(name, required=True, help=argparse.SUPPRESS)
    given = arguments.parse_intermixed_args()
    if not 30.0 <= given.limit <= 600.0:
        arguments.error(f"--limit {given.limit:g}: seconds, from 30 to 600")
    points = given.experiments / "points.toml"
    given.suite = given.suite or [str(points)] * points.exists()
    given.out = given.out or pathlib.Path(given.default_out) / "tune"
    given.variants = given.variants or given.out / "variants"
    given.variants.mkdir(parents=True, exist_ok=True)
    experiments = load_experiments(given.experiments, given.experiment)

    def stop(_number, _frame):
        raise Stop

    signal.signal(signal.SIGTERM, stop)
    tune = Tune(given)
    code = 130
    if given.check:
        return check(tune, experiments)
    try:
        is_complete = tune.run(experiments)
        if not given.no_steps and not given.experiment:
            tune.end()
            steps(tune, unmeasured(given))
        code = 0 if is_complete else 4
    except (Stop, KeyboardInterrupt):
        print("ended from outside: the same command goes on", file=sys.stderr)
    finally:
        tune.end()
    if tune.rows:
        text = tune.write(experiments)
        print(text if len(text) <= TABLE_MAX else text[:TABLE_MAX] + "\n(cut: tune.md has all of it)")
    return code


if __name__ == "__main__":
    sys.exit(main())
