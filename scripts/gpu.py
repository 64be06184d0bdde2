"""Verifies the kernels of a GPU, or sets its figures beside those of its peers. Called by scripts/gpu.sh.

The program measures and keeps records. This script starts it for a part of a suite at a time, ends by
itself when its time is over, and goes on where it stopped when it is started again: what is done is
read back from the records. A case that breaks the GPU's context, hangs or ends the program costs
itself and no other case: the rest is measured by a new process.
"""

import argparse
import json
import os
import pathlib
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile
import time

import states

HERE = pathlib.Path(__file__).resolve().parent
# Seconds after which a part ends by itself; scripts/gpu.sh ends it a minute later.
LIMITS = {"verify": 300.0, "figures": 510.0}
# Seconds that the program has for ending the case in flight when time is over.
GRACE = 15.0
# The operations of the figures, those that matter most first, and of these the few before the many.
OPERATIONS = ["stream", "attention", "gemm", "compute", "latency", "grouped", "transfer", "access",
              "launch"]
# Operations that have peers: measured in every round.
IN_ROUNDS = ["stream", "attention", "gemm", "grouped"]
# The vendor's library runs in the program itself, and is a peer all the same.
LIBRARIES = {"cublaslt", "hipblaslt", "ce"}
# Failed cases that run again under compute-sanitizer, and the seconds that each has there.
SANITIZED, SANITIZER_SECONDS = 6, 40.0
# Seconds that a peer has for one point, the compiling of its kernels included.
PEER_SECONDS = 60.0
# Archives have to fit where files of 16 MiB are the largest that travel.
ARCHIVE_MAX = 16 << 20


class Stop(Exception):
    """Ended from outside."""


def identity(point):
    """What two measurements of the same point have in common."""
    return json.dumps(point, sort_keys=True)


def spoken(point):
    """A point in a few words."""
    return "/".join(str(value) for value in point.values())


def lines_of(path):
    """The JSON of each line; a last line that was cut short is passed over."""
    made = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            made.append(json.loads(line))
        except json.JSONDecodeError:
            pass
    return made


class Run:
    """One part on one device: its folder, its time, and the program."""

    def __init__(self, given):
        self.program, self.device, self.selectors = given.program, given.device, given.selector
        self.part, self.out = given.part, given.out
        self.rounds, self.without = given.rounds, given.without
        self.until = time.monotonic() + given.limit
        # A stub driver for tests, whose times mean nothing.
        self.is_stub = False
        self.missing = []
        self.folder = self.unfinished(given.work, given.new)

    def unfinished(self, work, new):
        """The folder of the last run that did not come to its end with these selectors; else a new one."""
        work.mkdir(parents=True, exist_ok=True)
        numbers = [int(path.name.rsplit("-", 1)[1]) for path in work.glob(f"{self.part}-*")
                   if path.is_dir() and path.name.rsplit("-", 1)[1].isdigit()]
        last = work / f"{self.part}-{max(numbers, default=0)}"
        terms = json.dumps([self.device, self.selectors])
        is_same = (last / "terms.json").exists() and (last / "terms.json").read_text() == terms
        if is_same and not new and not (last / "finished").exists():
            print(f"going on with {last}", flush=True)
            return last
        folder = work / f"{self.part}-{max(numbers, default=0) + 1}"
        folder.mkdir()
        (folder / "terms.json").write_text(terms)
        return folder

    def left(self):
        return self.until - time.monotonic()

    def plan(self, suite):
        """The ids of a suite's cases, in the order in which they are run."""
        kept = self.folder / f"plan-{suite}.json"
        if not kept.exists():
            command = [self.program, "list", "--device", self.device, "--suite", suite, "--json",
                       *self.selectors]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            if done.returncode != 0:
                print(done.stderr.strip(), file=sys.stderr)
                sys.exit(done.returncode)
            kept.write_text(json.dumps([row["id"] for row in json.loads(done.stdout)["cases"]]))
        return json.loads(kept.read_text())

    def complete(self, suite, name, ids):
        """Measures the cases until each has its outcome or time is over: outcomes by id.

        Each pass is a process of its own with a record of its own: `NAME-1`, `NAME-2`...
        """
        outcomes, number = {}, 0
        while True:
            number += 1
            folder = self.folder / f"{name}-{number}"
            asked = [one for one in ids if one not in outcomes]
            if not folder.exists():
                # What remains is not worth a start.
                if not asked or self.left() < GRACE + 5.0:
                    return outcomes
                self.start(suite, folder, asked)
            outcomes.update(self.read(folder))

    def start(self, suite, folder, ids):
        """One pass: how it ended is left in the file `exit`, where it ended at all."""
        folder.mkdir()
        (folder / "ids.json").write_text(json.dumps(ids))
        command = [self.program, "run", "--device", self.device, "--suite", suite,
                   "--out", folder / "run", "--color", "never", *ids]
        with open(folder / "said.txt", "w") as said:
            process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT)
            try:
                code = self.wait(process)
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        (folder / "exit").write_text(str(code))
        print(f"{folder.name}: {len(self.read(folder))} of {len(ids)} cases, {code}", flush=True)

    def wait(self, process):
        """Waits for a pass; when time is over it has a while for the case in flight."""
        try:
            return f"exit code {process.wait(max(self.left() - GRACE, 1.0))}"
        except subprocess.TimeoutExpired:
            # Not SIGINT: it stays ignored where a script began this in the background.
            process.terminate()
        try:
            process.wait(GRACE)
            return "interrupted: time is over"
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return "killed: the case in flight did not end"

    def read(self, folder):
        """Outcomes of a pass by id. Cases behind one that broke the device have none, and are measured
        by the next pass; a case in which the program ended has failed."""
        ids = json.loads((folder / "ids.json").read_text())
        lines = lines_of(folder / "run" / "record.jsonl")
        headers = [line for line in lines if line.get("line") == "header"]
        ended = (folder / "exit").read_text() if (folder / "exit").exists() else None
        if not headers:
            if ended is not None and ended.startswith("exit code"):
                said = (folder / "said.txt").read_text().strip()
                sys.exit(f"the program measured nothing, {ended}: {said}")
            return {}
        self.is_stub |= any(line["device"]["vendor"] == "stub" for line in headers)
        plan = [(identity(case["point"]), case["kernel"]) for case in headers[0]["plan"]]
        id_of = dict(zip(plan, ids, strict=True))
        outcomes = {}
        for line in lines:
            if line.get("line") == "outcome" and line.get("failure") != "device_lost":
                case = line.get("case") or line["measurement"]["case"]
                outcomes[id_of[identity(case["point"]), case["kernel"]]] = line
        died = ended is not None and (ended.startswith("killed") or ended.startswith("exit code -")
                                      or ended == "exit code 101")
        for case, one in zip(headers[0]["plan"], ids):
            if died and one not in outcomes:
                outcomes[one] = {"outcome": "failed", "failure": "died", "case": case,
                                 "error": f"the program ended in it ({ended})"}
                break
        return outcomes

    def finish(self, text, is_complete):
        """Leaves the summary and the archive; without `is_complete` the next call goes on."""
        if is_complete:
            (self.folder / "finished").touch()
        self.out.mkdir(parents=True, exist_ok=True)
        summary = self.out / f"{self.part}.md"
        summary.write_text(text)
        (self.folder / "summary.md").write_text(text)
        archive = self.out / f"{self.part}.tar.gz"
        draft = archive.with_suffix(".draft")
        with tarfile.open(draft, "w:gz") as tar:
            tar.add(self.folder, self.folder.name)
        draft.rename(archive)
        if archive.stat().st_size > ARCHIVE_MAX:
            print(f"{archive} has {archive.stat().st_size >> 20} MiB: split it before it travels")
        return f"summary: {summary}, records and reports: {archive}"


def failures(outcomes):
    """Lines about what failed or cannot be believed."""
    for one, outcome in outcomes.items():
        if outcome["outcome"] in ("failed", "invalid"):
            yield f"{outcome['outcome']}: {one}: {outcome.get('error') or outcome.get('reason')}"


def verify(run):
    """Every kernel at small and odd shapes: an outcome for each, none wrong."""
    # The second suite has products of more tiles than the GPU has units.
    suites = ["gpu-verify"] if run.selectors else ["gpu-verify", "gpu-verify-large"]
    planned, outcomes, suite_of = 0, {}, {}
    for suite in suites:
        ids = run.plan(suite)
        planned += len(ids)
        found = run.complete(suite, suite, ids)
        suite_of.update(dict.fromkeys(found, suite))
        outcomes.update(found)
        # What is known so far is kept should the machine go away.
        run.finish(verified(run, outcomes, planned, []), False)
    said = sanitize(run, outcomes, suite_of)
    text = verified(run, outcomes, planned, said)
    print(text, flush=True)
    is_complete = len(outcomes) == planned
    print(run.finish(text, is_complete))
    # Times of such small shapes may be invalid; results may not be wrong.
    if any(outcome["outcome"] == "failed" for outcome in outcomes.values()) or not outcomes:
        return 1
    return 0 if is_complete else 4


def verified(run, outcomes, planned, said):
    """The summary of a verification."""
    counted = {kind: 0 for kind in ("measured", "skipped", "failed", "invalid")}
    for outcome in outcomes.values():
        counted[outcome["outcome"]] += 1
    reasons = {re.sub(r"[0-9]+", "N", outcome["reason"]) for outcome in outcomes.values()
               if outcome["outcome"] == "skipped"}
    words = ", ".join(f"{count} {kind}" for kind, count in counted.items())
    text = [f"# Kernels of {run.device}{' (stub)' if run.is_stub else ''}", "",
            f"{planned} cases planned: {words}, {planned - len(outcomes)} not reached yet", ""]
    text += [f"- {line}" for line in failures(outcomes)] + [f"- {line}" for line in said]
    return "\n".join(text + [f"- skipped: {reason}" for reason in sorted(reasons)]) + "\n"


def sanitize(run, outcomes, suite_of):
    """Failed cases once more under compute-sanitizer, where it is installed: what it found."""
    failed = [one for one, outcome in outcomes.items() if outcome["outcome"] == "failed"]
    tool = next(filter(None, map(shutil.which, ("compute-sanitizer",
                                                "/usr/local/cuda/bin/compute-sanitizer"))), None)
    if not failed or not run.device.startswith("cuda"):
        return []
    if tool is None:
        return ["compute-sanitizer is not installed: failed cases were not run under it"]
    said = []
    for number, one in enumerate(failed[:SANITIZED]):
        folder = run.folder / f"sanitizer-{number}"
        text = folder / "said.txt"
        if not text.exists():
            if run.left() < SANITIZER_SECONDS + GRACE:
                said.append(f"{one}: no time for compute-sanitizer")
                continue
            folder.mkdir(exist_ok=True)
            command = [tool, "--tool", "memcheck", "--print-limit", "10", run.program, "run",
                       "--device", run.device, "--suite", suite_of[one], "--color", "never",
                       "--out", folder / "run", one]
            with open(text, "w") as file:
                try:
                    subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False,
                                   timeout=SANITIZER_SECONDS)
                except subprocess.TimeoutExpired:
                    file.write(f"\nstopped after {SANITIZER_SECONDS:.0f} s\n")
        found = [line.strip("= \n") for line in text.read_text(errors="replace").splitlines()
                 if line.startswith("=========") and len(line) > 10]
        said.append(f"{one} under compute-sanitizer: {'; '.join(found[:1] + found[-1:])}")
    return said


class Peers:
    """The process with other people's kernels. It is started anew when it hangs or dies."""

    def __init__(self, run):
        self.run, self.process, self.names = run, None, []
        self.start()
        self.names = [name for name in self.names if name not in run.without]
        self.run.missing += [f"{name}: left out, as asked" for name in run.without]

    def start(self):
        log = open(self.run.folder / "peers.txt", "a")
        self.process = subprocess.Popen([sys.executable, HERE / "gpu_peers"], text=True, stderr=log,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1)
        hello = self.answer(min(120.0, self.run.left()))
        self.names = self.names or hello.get("peers", [])
        self.run.missing += hello.get("missing", ["peers: their process does not answer"])

    def answer(self, seconds):
        """The next line of the process; nothing where it is silent so long, or has died."""
        ready, _, _ = select.select([self.process.stdout], [], [], max(seconds, 0.0))
        line = self.process.stdout.readline() if ready else ""
        return json.loads(line) if line.endswith("\n") else {}

    def measure(self, name, point):
        """What the process says of one peer at one point."""
        if self.process is None:
            self.start()
        try:
            self.process.stdin.write(json.dumps({"peer": name, "point": point}) + "\n")
            answer = self.answer(min(PEER_SECONDS, self.run.left()))
        except BrokenPipeError:
            answer = {}
        if not answer or answer.get("broken"):
            self.end()
        return answer or {"error": "no answer: its process was ended"}

    def end(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.process = None


# A contender below this share of the fastest of its point is not at its best: it has no ratio.
AT_BEST = 0.7

# Hot caches may seem slower than cold ones by this share, by noise alone.
HOT_SLOWER = 0.02
# Loads before a median sample that differ by less, in seconds or as a share, are alike.
LOAD_SECONDS, LOAD_SHARE = 0.005, 0.2
# Operations whose speed is that of arithmetic, which a regulator of power lowers under load.
OF_POWER = {"compute", "gemm", "grouped", "attention"}


class Side:
    """One side of a ratio: seconds of an iteration, and the state of the machine in which it was timed.

    `load` is the time of the same work before the median sample, where there is no regime. `doubt` says
    why the time is no property of the machine.
    """

    def __init__(self, seconds, cache, regime, load, way="kernel", doubt=None):
        self.seconds, self.cache, self.regime, self.load, self.way = seconds, cache, regime, load, way
        self.doubt = doubt


def hot(measurement):
    """The side of iterations that follow one another: caches as they left them."""
    is_hot = measurement["cache"] == "hot"
    of = measurement if is_hot else measurement["contrast"]
    samples = of["samples"]
    load = samples["warmup"]["time"] + sum(samples["times"]) * samples["batch"] / 2
    return Side(of["summary"]["median"], "hot", measurement.get("regime"), load, doubt=doubt(measurement))


def doubt(measurement):
    """Why the hot time of a measurement is no property of the machine, in a few words."""
    is_hot = measurement["cache"] == "hot"
    beside = measurement.get("contrast")
    hot_side, cold = (measurement, beside) if is_hot else (beside, measurement)
    if states.two_states(hot_side["samples"]["times"]):
        return "two states"
    if cold and cold["cache"] != hot_side["cache"]:
        slower = hot_side["summary"]["median"] / cold["summary"]["median"] - 1
        apart = hot_side["summary"]["interval"]["low"] > cold["summary"]["interval"]["high"]
        if slower > HOT_SLOWER and apart:
            return "slower hot than cold"
    return None


def peers_side(line):
    """The side of a peer, by the answer of its process. Peers of the first days were timed from 0.15 s
    of load on, for as long, and did not say so."""
    load = None if "regime" in line else 1.5 * 0.15
    return Side(line["seconds"], line.get("cache", "hot"), line.get("regime"), load, line["way"])


def unlike(point, own, peer):
    """Why two sides are no ratio, in a few words; nothing where they are alike."""
    for name, side in (("own", own), ("peer", peer)):
        if side.doubt:
            return f"{name}: {side.doubt}"
    if own.cache != peer.cache:
        return f"caches: {own.cache}, {peer.cache}"
    if point["operation"] in OF_POWER:
        if own.regime != peer.regime:
            return f"regime: {own.regime or 'none'}, {peer.regime or 'none'}"
        if own.regime is None:
            apart = abs(own.load - peer.load)
            if apart > max(LOAD_SECONDS, LOAD_SHARE * max(own.load, peer.load)):
                return f"load before: {1e3 * own.load:.0f}, {1e3 * peer.load:.0f} ms"
    if point.get("stream") == "copy" and peer.way == "graph":
        # The driver makes such a copy, at two thirds of the rate.
        return "peer not at its best: a copy in a graph"
    if own.seconds < AT_BEST * peer.seconds:
        return "peer not at its best"
    return None


def middle(sides):
    """The median of those rounds that were timed in the same caches and regime as the first, without
    those of two states where others are left."""
    first = sides[0]
    alike = [side for side in sides if (side.cache, side.regime) == (first.cache, first.regime)]
    clear = [side for side in alike if not side.doubt] or alike
    seconds = statistics.median(side.seconds for side in clear)
    return Side(seconds, first.cache, first.regime, first.load, first.way, clear[0].doubt)


class Figures:
    """Hot times of every point, by kernel: one for each round."""

    def __init__(self):
        self.points, self.work = {}, {}
        self.own, self.others, self.lights, self.ids = {}, {}, {}, {}

    def take(self, outcomes):
        for one, outcome in outcomes.items():
            if outcome["outcome"] != "measured":
                continue
            kernel, point = outcome["case"]["kernel"], outcome["case"]["point"]
            key = identity(point)
            self.points[key], self.work[key] = point, outcome["work"]
            of = self.others if kernel in LIBRARIES else self.own
            of.setdefault(key, {}).setdefault(kernel, []).append(hot(outcome))
            self.ids[key, kernel] = one
            self.lights.setdefault((key, kernel), outcome)

    def take_peer(self, line):
        if "seconds" in line:
            name = line["peer"] + ("" if line["way"] == "graph" else f" ({line['way']})")
            of = self.others.setdefault(identity(line["point"]), {})
            of.setdefault(name, []).append(peers_side(line))

    def best(self, key):
        """The fastest kernel of a point. Of peaks of arithmetic, one of random numbers goes before one of
        constants."""
        kernels = self.own.get(key, {})
        is_compute = self.points[key]["operation"] == "compute"

        def order(name):
            is_constant = is_compute and not name.endswith("_random")
            return is_constant, middle(kernels[name]).seconds
        return min(kernels, key=order, default=None)

    def again(self, ids):
        """Of some cases those worth another round: each point's best kernel, and the vendor's."""
        wanted = {self.ids[key, self.best(key)] for key in self.own}
        wanted |= {one for (key, kernel), one in self.ids.items() if kernel in LIBRARIES}
        return [one for one in ids if one in wanted]

    def rows(self):
        for key in self.own:
            point, work, best = self.points[key], self.work[key], self.best(key)
            side = middle(self.own[key][best])
            own = side.seconds
            peers = {name: middle(sides) for name, sides in self.others.get(key, {}).items()}
            peer = min(peers, key=lambda name: peers[name].seconds) if peers else None
            why = unlike(point, side, peers[peer]) if peer else None
            light = self.lights[key, best]
            shares = [side.doubt or per_cent(share(light, tier, own)) for tier in ("datasheet", "observed")]
            yield [spoken(point), best, rate(point, work, own), *shares,
                   peer or "", rate(point, work, peers[peer].seconds) if peer else "",
                   why or f"{peers[peer].seconds / own:.3f}" if peer else ""]


def share(measurement, tier, seconds):
    """The share of a tier's speed of light; none where it is unknown."""
    for light in measurement["speed_of_light"]:
        if light["tier"] == tier:
            return light["time"] / seconds
    return None


def rate(point, work, seconds):
    """As a report quotes it."""
    if work["flops"] and point["operation"] != "stream":
        return f"{work['flops'] / seconds / 1e12:.1f} TFLOP/s"
    moved = work["memory"] or work["link"]
    if moved:
        return f"{moved / seconds / 1e9:.1f} GB/s"
    return f"{seconds * 1e9:.1f} ns" if seconds < 1e-6 else f"{seconds * 1e6:.2f} us"


def per_cent(value):
    return "" if value is None else f"{100 * value:.1f}"


def table(run, taken, wrong):
    """The figures as Markdown; of a stub without a number."""
    rows = sorted(taken.rows())
    if run.is_stub:
        rows = [row[:2] + ["stub" if value else "" for value in row[2:]] for row in rows]
    head = ["point", "best kernel", "rate", "% datasheet", "% observed clock", "best peer",
            "its rate", "own / peer"]
    notes = ["All times are hot: iterations follow one another. Peers run as CUDA graphs; \"eager\" "
             "marks those that cannot be captured, whose launches by Python may bound them."]
    notes += sorted(set(run.missing)) + wrong
    lines = [f"# Figures of {run.device}", "", *(f"- {line}" for line in notes), "",
             "| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def figures(run):
    """The program and the peers in turn, operation by operation and round by round."""
    peers, taken, wrong = Peers(run), Figures(), {}
    plan = run.plan("gpu-figures")
    kept = run.folder / "peers.jsonl"
    known = {(line["round"], identity(line["point"]), line["peer"]): line for line in lines_of(kept)}
    planned = measured = 0
    try:
        for number in range(run.rounds):
            for operation in OPERATIONS if number == 0 else IN_ROUNDS:
                ids = [one for one in plan if one.split("/")[0] == operation]
                if not ids:
                    continue
                ids = ids if number == 0 else taken.again(ids)
                steps = [lambda: own(run, taken, wrong, f"{number}-{operation}", ids),
                         lambda: others(run, peers, taken, kept, known, number, operation)]
                # Every other round the peers are first: neither side is always the warmer one.
                for step in steps if number % 2 == 0 else reversed(steps):
                    planned, measured = (sum(pair) for pair in zip((planned, measured), step()))
            run.finish(table(run, taken, list(failures(wrong))), False)
        run_tools(run)
    finally:
        peers.end()
    is_complete = planned == measured
    if not is_complete:
        run.missing.append(f"{planned - measured} measurements were not reached: the time was over")
    text = table(run, taken, list(failures(wrong)))
    print(text, flush=True)
    print(run.finish(text, is_complete))
    if any(outcome["outcome"] == "failed" for outcome in wrong.values()) or not taken.own:
        return 1
    return 0 if is_complete else 4


def own(run, taken, wrong, name, ids):
    """The program's own measurements: how many were planned, and how many there are."""
    outcomes = run.complete("gpu-figures", name, ids)
    taken.take(outcomes)
    wrong.update(outcomes)
    return len(ids), len(outcomes)


def others(run, peers, taken, kept, known, number, operation):
    """Every peer at every point of an operation: how many were planned, and how many there are."""
    points = [point for point in taken.points.values() if point["operation"] == operation]
    planned = measured = 0
    for point in points:
        for name in peers.names:
            line = known.get((number, identity(point), name))
            if line is None and run.left() < 5.0:
                planned += 1
                continue
            if line is None:
                said = peers.measure(name, point)
                if "other" in said:
                    continue
                line = {"round": number, "point": point, "peer": name, **said}
                with open(kept, "a") as file:
                    file.write(json.dumps(line) + "\n")
            planned, measured = planned + 1, measured + 1
            taken.take_peer(line)
            if "error" in line:
                run.missing.append(f"{name} at {spoken(point)}: {line['error']}")
    return planned, measured


# AMD's own tools, by the names they have had, and what they are asked for. Each has points of its own:
# what it says is kept beside the figures as it is.
TOOLS = [
    (["rocm-bandwidth-test", "rocm_bandwidth_test"], []),
    (["TransferBench"], ["p2p", "256M"]),
    (["rvs"], ["-c", "/opt/rocm/share/rocm-validation-suite/conf/babel.conf"]),
]


def run_tools(run):
    """The vendor's tools on an AMD node, one after the other."""
    for names, arguments in TOOLS if run.device.startswith("hip") else []:
        kept = run.folder / f"tool-{names[0]}.txt"
        program = next(filter(None, map(shutil.which, names)), None)
        left = min(60.0, run.left())
        if program is None or left < 5.0:
            run.missing.append(f"{names[0]}: " + ("the time was over" if program else "not found"))
            continue
        with open(kept, "w") as said:
            try:
                code = subprocess.run([program, *arguments], stdout=said, check=False,
                                      stderr=subprocess.STDOUT, timeout=left).returncode
            except subprocess.TimeoutExpired:
                code = f"stopped after {left:.0f} s"
        if code != 0:
            run.missing.append(f"{names[0]}: exit code {code}")


def main():
    arguments = argparse.ArgumentParser(prog="scripts/gpu.sh", description=__doc__)
    arguments.add_argument("part", choices=list(LIMITS))
    arguments.add_argument("selector", nargs="*", help="only cases whose ids match")
    arguments.add_argument("--out", type=pathlib.Path, help="where the summary and the archive go")
    arguments.add_argument("--limit", type=float, help="seconds after which it ends by itself")
    arguments.add_argument("--new", action="store_true", help="begin anew")
    arguments.add_argument("--rounds", type=int, default=2, help="how often figures are measured")
    arguments.add_argument("--without", action="append", default=[], metavar="PEER",
                           help="a peer that is left out, such as triton, which takes minutes")
    for name in ("--program", "--device", "--work", "--default-out"):
        arguments.add_argument(name, required=True, help=argparse.SUPPRESS)
    given = arguments.parse_intermixed_args()
    longest = LIMITS[given.part]
    given.limit = longest if given.limit is None else given.limit
    # What is less would be over before the first case.
    least = GRACE + 10.0
    if not least <= given.limit <= longest:
        arguments.error(f"--limit {given.limit:g}: seconds, from {least:g} to {longest:g}")
    given.work, given.out = pathlib.Path(given.work), given.out or pathlib.Path(given.default_out)

    def stop(_number, _frame):
        raise Stop

    signal.signal(signal.SIGTERM, stop)
    try:
        return {"verify": verify, "figures": figures}[given.part](Run(given))
    except (Stop, KeyboardInterrupt):
        print("ended from outside: the same command goes on", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
