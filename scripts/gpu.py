"""Verified figures of a GPU beside those of its peers. Called by scripts/gpu.sh.

The program measures and keeps records; what is here calls it in turn with the peers, on random data
of the same shapes, and writes one table. A peer is a function of `scripts/gpu_peers/*.py`: every
module there has `peers(torch)`, which gives `Peer`s. To add some, add a file.
"""

import argparse
import importlib.util
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
# A part ends before scripts/gpu.sh ends it.
BUDGET = 560.0
ROUNDS = 3


class Peer:
    """Somebody else's kernel for some of the points.

    `make(point)` gives a function without arguments that does one iteration of the point, or None
    where it is for other points. `point` is the dictionary that stands in the record.
    """

    def __init__(self, name, make):
        self.name, self.make = name, make


def load_peers():
    """The peers of all modules, and what is missing, in words."""
    try:
        import torch
    except ImportError as error:
        return None, [], [f"no peers: {error} (a python3 with PyTorch: PYTHON=...)"]
    if not torch.cuda.is_available():
        return None, [], ["no peers: this PyTorch sees no GPU"]
    peers, missing = [], []
    for path in sorted((HERE / "gpu_peers").glob("*.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
            peers += [Peer(name, make) for name, make in module.peers(torch)]
        except Exception as error:  # A peer's own trouble is none of ours.
            missing.append(f"{path.name}: {type(error).__name__}: {error}")
    return torch, peers, missing


class Fizeau:
    """The program on one device."""

    def __init__(self, given):
        self.program, self.device, self.out = given.program, given.device, given.out
        # A stub driver for tests, whose times mean nothing.
        self.is_stub = False
        self.selectors = given.selector

    def run(self, suite, selectors, name, seconds):
        """Runs, and reads the outcomes of the record. Exit code 1 says that something failed."""
        folder = self.out / name
        command = [self.program, "run", "--device", self.device, "--suite", suite, "--out", folder,
                   "--color", "never", *(self.selectors or selectors)]
        with open(self.out / f"{name}.txt", "w") as said:
            try:
                done = subprocess.run(command, stdout=said, stderr=subprocess.STDOUT,
                                      timeout=max(seconds, 10.0))
                code = done.returncode
            except subprocess.TimeoutExpired:
                code = "stopped: the part's time was over"
        record = folder / "record.jsonl"
        lines = record.read_text().splitlines() if record.exists() else []
        outcomes = []
        for line in lines:
            try:
                outcomes.append(json.loads(line))
            except json.JSONDecodeError:
                pass  # The last line of a run that was stopped.
        headers = [line for line in outcomes if line.get("line") == "header"]
        self.is_stub |= any(line["device"]["vendor"] == "stub" for line in headers)
        return code, [line for line in outcomes if line.get("line") == "outcome"]


def identity(point):
    """What two measurements of the same point have in common."""
    return json.dumps(point, sort_keys=True)


def spoken(point):
    """A point in a few words."""
    return "/".join(str(value) for value in point.values())


def measure_peer(torch, function, seconds=0.25):
    """Median of batches timed by events, after a warm-up, in seconds."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def batch(count):
        start.record()
        for _ in range(count):
            function()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3 / count

    once = batch(3)
    count = max(1, min(1000, int(2e-3 / max(once, 1e-7))))
    until = time.monotonic() + seconds
    batch(count)
    times = []
    while len(times) < 5 or time.monotonic() < until:
        times.append(batch(count))
    return statistics.median(times)


def share(measurement, tier):
    """The share of a tier's speed of light; none where it is unknown."""
    for light in measurement["speed_of_light"]:
        if light["tier"] == tier:
            return light["time"] / measurement["summary"]["median"]
    return None


def rate(point, work, seconds):
    """As a report quotes it."""
    if work["flops"] and point["operation"] != "stream":
        return f"{work['flops'] / seconds / 1e12:.1f} TFLOP/s"
    moved = work["memory"] or work["link"]
    return f"{moved / seconds / 1e9:.1f} GB/s" if moved else f"{seconds * 1e6:.2f} us"


def per_cent(value):
    return "" if value is None else f"{100 * value:.1f}"


def table(rows, path, title, missing, is_stub):
    """Writes rows of text as Markdown, and prints them; of a stub without a number."""
    if is_stub:
        rows = [row[:2] + ["stub" if value else "" for value in row[2:]] for row in rows]
    head = ["point", "best kernel", "rate", "% datasheet", "% observed clock", "best peer",
            "its rate", "own / peer"]
    lines = [f"# {title}", "", *(f"- {line}" for line in missing), "",
             "| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    path.write_text("\n".join(lines) + "\n")
    print("\n".join(lines[2:]))


# The vendor's library runs in the program itself, and is a peer all the same.
LIBRARIES = {"cublaslt", "hipblaslt", "ce"}


class Figures:
    """Times of every point, by kernel: one for each round."""

    def __init__(self):
        self.points, self.work = {}, {}
        self.own, self.others, self.lights = {}, {}, {}

    def take(self, outcomes):
        for outcome in outcomes:
            if outcome["outcome"] != "measured":
                continue
            kernel, point = outcome["case"]["kernel"], outcome["case"]["point"]
            key = identity(point)
            self.points[key], self.work[key] = point, outcome["work"]
            of = self.others if kernel in LIBRARIES else self.own
            times = of.setdefault(key, {}).setdefault(kernel, [])
            times.append(outcome["summary"]["median"])
            if kernel not in LIBRARIES:
                self.lights[key, kernel] = outcome

    def rows(self):
        for key, kernels in self.own.items():
            point, work = self.points[key], self.work[key]
            best = min(kernels, key=lambda name: statistics.median(kernels[name]))
            own = statistics.median(kernels[best])
            peers = {name: statistics.median(times)
                     for name, times in self.others.get(key, {}).items()}
            peer = min(peers, key=peers.get) if peers else None
            light = self.lights[key, best]
            yield [spoken(point), best, rate(point, work, own),
                   per_cent(share(light, "datasheet")), per_cent(share(light, "observed")),
                   peer or "", rate(point, work, peers[peer]) if peer else "",
                   f"{peers[peer] / own:.3f}" if peer else ""]


def verify(fizeau, _torch, _peers, missing, until):
    """Every kernel at small and odd shapes: an outcome for each, none wrong."""
    code, outcomes = fizeau.run("gpu-verify", [], "verify", until - time.monotonic())
    if not fizeau.selectors:
        # Products of more tiles than the GPU has units.
        large, more = fizeau.run("gpu-verify-large", [], "verify-large", until - time.monotonic())
        outcomes += more
        code = code if large == 0 else large
    counted = {}
    for outcome in outcomes:
        counted.setdefault(outcome["outcome"], []).append(outcome)
    for kind in ("failed", "invalid"):
        for outcome in counted.get(kind, []):
            case = outcome.get("case") or outcome["measurement"]["case"]
            why = outcome.get("error") or outcome.get("reason")
            print(f"{kind}: {spoken(case['point'])}/{case['kernel']}: {why}")
    reasons = {re.sub(r"[0-9]+", "N", outcome["reason"]) for outcome in counted.get("skipped", [])}
    for reason in sorted(reasons):
        print(f"skipped: {reason}")
    words = ", ".join(f"{len(counted.get(kind, []))} {kind}"
                      for kind in ("measured", "skipped", "failed", "invalid"))
    print(f"verify: {words}; exit code {code}")
    # Times of such small shapes may be invalid; results may not be wrong.
    wrong = len(counted.get("failed", []))
    return 0 if outcomes and not wrong and code in (0, 1) else 1


# Operations that have peers, or that are compared with each other: measured in every round.
IN_ROUNDS = ["stream", "gemm", "grouped", "attention"]


# AMD's own tools, by the names they have had, and what they are asked for. Each has points of its own:
# what it says is kept beside the figures as it is.
TOOLS = [
    (["rocm-bandwidth-test", "rocm_bandwidth_test"], []),
    (["TransferBench"], ["p2p", "256M"]),
    (["rvs"], ["-c", "/opt/rocm/share/rocm-validation-suite/conf/babel.conf"]),
]


def run_tools(fizeau, missing, until):
    """The vendor's tools on an AMD node, one after the other."""
    for names, arguments in TOOLS if fizeau.device.startswith("hip") else []:
        program = next(filter(None, map(shutil.which, names)), None)
        left = min(120.0, until - time.monotonic())
        if program is None or left < 5.0:
            missing.append(f"{names[0]}: " + ("the time was over" if program else "not found"))
            continue
        with open(fizeau.out / f"tool-{names[0]}.txt", "w") as said:
            try:
                code = subprocess.run([program, *arguments], stdout=said,
                                      stderr=subprocess.STDOUT, timeout=left).returncode
            except subprocess.TimeoutExpired:
                code = f"stopped after {left:.0f} s"
        if code != 0:
            missing.append(f"{names[0]}: exit code {code}")


def figures(fizeau, torch, peers, missing, until, suite="gpu-figures", name="figures"):
    """The program and the peers in turn, several rounds, the same points."""
    taken = Figures()
    raw = []
    for number in range(ROUNDS):
        left = until - time.monotonic()
        if number > 0 and left < 0.9 * (BUDGET - left) / number:
            missing.append(f"{number} of {ROUNDS} rounds: the time was over")
            break
        planned = {point["operation"] for point in taken.points.values()}
        selectors = [f"{name}/*" for name in IN_ROUNDS if name in planned]
        if number > 0 and not selectors:
            break
        code, outcomes = fizeau.run(suite, selectors, f"{name}-{number}", 0.7 * left)
        taken.take(outcomes)
        print(f"round {number}: {len(outcomes)} outcomes, exit code {code}", flush=True)
        if torch is None:
            continue
        for key, point in list(taken.points.items()):
            for peer in peers:
                if time.monotonic() > until - 5:
                    break
                try:
                    function = peer.make(point)
                    if function is None:
                        continue
                    seconds = measure_peer(torch, function)
                except Exception as error:
                    missing.append(f"{peer.name} at {spoken(point)}: {type(error).__name__}: "
                                   f"{str(error).splitlines()[0] if str(error) else ''}")
                    continue
                finally:
                    torch.cuda.empty_cache()
                taken.others.setdefault(key, {}).setdefault(peer.name, []).append(seconds)
                raw.append({"round": number, "point": point, "peer": peer.name,
                            "seconds": seconds})
    run_tools(fizeau, missing, until)
    (fizeau.out / f"{name}-peers.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in raw))
    rows = sorted(taken.rows())
    table(rows, fizeau.out / f"{name}.md", f"Figures of {fizeau.device}", sorted(set(missing)),
          fizeau.is_stub)
    return 0 if rows else 1


def tune(fizeau, torch, peers, missing, until):
    """Each kernel at the shapes of language models: the order that kernels.toml should have."""
    half = time.monotonic() + (until - time.monotonic()) / 2
    status = 0
    for suite, end in (("llm-decode", half), ("llm-prefill", until)):
        code, outcomes = fizeau.run(suite, [], f"tune-{suite}", end - time.monotonic())
        print(f"{suite}: {len(outcomes)} outcomes, exit code {code}")
        taken = Figures()
        taken.take(outcomes)
        wins = {}
        for row in taken.rows():
            wins.setdefault(row[1], []).append(row[0])
        for kernel, points in sorted(wins.items(), key=lambda item: -len(item[1])):
            print(f"  {kernel} is the best of ours at {len(points)} points")
        table(sorted(taken.rows()), fizeau.out / f"tune-{suite}.md", suite, missing,
              fizeau.is_stub)
        status = status or (0 if taken.own else 1)
    return status


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("part", choices=["verify", "figures", "tune"])
    arguments.add_argument("--program", required=True)
    arguments.add_argument("--device", required=True)
    arguments.add_argument("--out", type=pathlib.Path, required=True)
    arguments.add_argument("selector", nargs="*", help="only cases whose ids match")
    given = arguments.parse_args()
    given.out = given.out / time.strftime("%Y%m%d-%H%M%S")
    given.out.mkdir(parents=True)
    until = time.monotonic() + BUDGET
    torch, peers, missing = (None, [], [])
    if given.part == "figures":
        torch, peers, missing = load_peers()
    part = {"verify": verify, "figures": figures, "tune": tune}[given.part]
    status = part(Fizeau(given), torch, peers, missing, until)
    print(f"records and tables: {given.out}")
    return status


if __name__ == "__main__":
    sys.exit(main())
