"""Sets what was served beside what `fizeau project` says of the same core, and writes a page.

    report.py --fizeau PROGRAM --trial FOLDER > docs/appendix/serving-trial.md

Reads what trial.py kept. Exits with 1 where a bound is broken.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

# Student's t, two-sided 95 %, by degrees of freedom.
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306}
ERROR_MAX = 0.25
TIERS = ("light", "serial", "measured")


def milliseconds(seconds):
    return f"{seconds * 1e3:.1f}"


def percent(share):
    return f"{share * 100:+.1f} %"


def interval(logarithms):
    """Mean and 95 % interval of ratios whose logarithms these are, less 1."""
    mean = statistics.fmean(logarithms)
    if len(logarithms) < 2:
        return math.expm1(mean), None
    spread = statistics.stdev(logarithms) / math.sqrt(len(logarithms))
    reach = STUDENT.get(len(logarithms) - 1, 2.0) * spread
    return math.expm1(mean), (math.expm1(mean - reach), math.expm1(mean + reach))


def shown(error):
    mean, reach = error
    if reach is None:
        return f"{percent(mean)} (once)"
    return f"{percent(mean)} ({percent(reach[0])} to {percent(reach[1])})"


class Trial:
    def __init__(self, fizeau, folder):
        self.fizeau, self.folder = fizeau, folder
        self.about = json.loads((folder / "trial.json").read_text())
        self.requests = self.lines("serving.jsonl")
        self.operations = self.lines("operations.jsonl")
        self.rounds = list(range(1, self.about["rounds"] + 1))
        self.projected = {}

    def lines(self, name):
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]

    def project(self, turn, stored, context, requests):
        """The tiers that `fizeau project` prints of a round's record, and its operations."""
        key = (turn, stored, context, requests)
        if key not in self.projected:
            with tempfile.TemporaryDirectory() as folder:
                config = pathlib.Path(folder) / "config.json"
                config.write_text(json.dumps(self.about["config"]))
                command = [self.fizeau, "project", config, "--json"]
                command += ["--on", self.folder / f"round-{turn}"]
                command += ["--precision", self.about["precision"][stored], "--isl", str(context)]
                command += ["--osl", str(self.about["answer"]), "--concurrency", str(requests)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
            document = json.loads(done.stdout)
            [point] = document["tables"]["points"]
            [name] = [name for name in document["tables"] if name.startswith("steps")]
            steps = document["tables"][name]
            self.projected[key] = {
                "decode": [point[f"tpot_{tier}_seconds"] for tier in TIERS],
                "prefill": [point[f"ttft_{tier}seconds"] for tier in ("light_", "serial_", "")],
                "steps": steps,
                "text": document["text"],
            }
        return self.projected[key]

    def coverage(self, turn, stored, context, requests, phase):
        steps = self.project(turn, stored, context, requests)["steps"]
        steps = [step for step in steps if step["phase"] == phase]
        near = sum(step["serial_seconds"] for step in steps if step["is_near"] == "near")
        return near / sum(step["serial_seconds"] for step in steps)

    def found(self, turn, stored, context, requests):
        return [
            one for one in self.requests
            if (one["round"], one["format"], one["context"], one["requests"])
            == (turn, stored, context, requests)
        ]


def step_together(group):
    """Seconds of a step while all requests of a group are answered, as the client sees it."""
    begin = max(one["arrived"][0] for one in group) - 1e-3
    end = min(one["arrived"][-1] for one in group) + 1e-3
    times = []
    for one in group:
        inside = [at for at in one["arrived"] if begin <= at <= end]
        times.append((inside[-1] - inside[0]) / (len(inside) - 1))
    return statistics.median(times)


class Row:
    """One kind of request over all rounds: measured times, and the tiers of each round."""

    def __init__(self, trial, phase, stored, context, requests, turns):
        self.phase, self.stored, self.context, self.requests = phase, stored, context, requests
        self.wall, self.engine, self.tiers, coverage = [], [], [], []
        answer = trial.about["answer"]
        for turn in turns:
            group = trial.found(turn, stored, context, requests)
            # What was read once before the rounds is set beside the first record.
            record = max(turn, 1)
            if phase == "decode":
                self.wall.append(step_together(group))
                # The engine's clock starts at the first token: N tokens are N - 1 steps.
                own = [one["answer_seconds"] / (answer - 1) for one in group]
                self.engine.append(statistics.median(own))
            else:
                [one] = group
                self.wall.append(one["arrived"][0] - one["sent"])
                self.engine.append(one["prompt_seconds"])
            self.tiers.append(trial.project(record, stored, context, requests)[phase])
            coverage.append(trial.coverage(record, stored, context, requests, phase))
        self.coverage = statistics.median(coverage)
        steps = trial.project(trial.rounds[0], stored, context, requests)["steps"]
        self.bytes = sum(step["bytes"] for step in steps if step["phase"] == phase)
        self.flops = sum(step["flops"]["value"] for step in steps if step["phase"] == phase)
        tiers = zip(*self.tiers)
        self.light, self.serial, self.measured = (statistics.median(tier) for tier in tiers)
        # The bound of the best ceilings that any round measured.
        self.least = min(
            trial.project(turn, stored, context, requests)[phase][0] for turn in trial.rounds
        )

    def rate(self, seconds):
        """Of bytes in decode, of arithmetic in prefill."""
        if self.phase == "decode":
            return f"{self.bytes / seconds / 1e9:.1f} GB/s"
        return f"{self.flops / seconds:.0f} GFLOP/s"

    def over_bound(self):
        """The least measured time over the least bound, and over that of its own round."""
        return (
            min(self.wall + self.engine) / self.least,
            min(min(wall, own) / tiers[0]
                for wall, own, tiers in zip(self.wall, self.engine, self.tiers)),
        )

    def logarithms(self):
        """Of L2 / measured in each round."""
        return [math.log(tiers[2] / wall) for tiers, wall in zip(self.tiers, self.wall)]

    def error(self):
        return interval(self.logarithms())

    def cells(self):
        wall, engine = statistics.median(self.wall), statistics.median(self.engine)
        return [
            self.stored, str(self.requests), str(self.context),
            *map(milliseconds, (self.light, self.serial, self.measured, wall, engine)),
            f"{self.light / wall * 100:.0f} %", f"{self.serial / wall * 100:.0f} %",
            shown(self.error()), f"{self.coverage * 100:.0f} %", self.rate(wall),
        ]


def rows(trial):
    about = trial.about
    for stored in about["precision"]:
        for context in about["contexts"]:
            yield Row(trial, "decode", stored, context, 1, trial.rounds)
        for context in about["at_once_contexts"]:
            yield Row(trial, "decode", stored, context, about["at_once"], trial.rounds)
        yield Row(trial, "prefill", stored, about["read_in_each_round"], 1, trial.rounds)
        yield Row(trial, "prefill", stored, about["read_once"], 1, [0])


def table(head, lines):
    text = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return "\n".join(text + ["| " + " | ".join(line) + " |" for line in lines])


def by_operation(trial, stored, phase):
    """Milliseconds of each operation: L1, L2 and the engine's, the largest difference first."""
    kind = (stored, phase)
    [own] = [one for one in trial.operations if (one["format"], one["phase"]) == kind]
    tiers = {}
    for turn in trial.rounds:
        for step in trial.project(turn, stored, own["prompt"], 1)["steps"]:
            if step["phase"] == phase:
                both = step["serial_seconds"], step["measured_seconds"]
                tiers.setdefault(step["operation"], []).append(both)
    lines = []
    for name, found in tiers.items():
        serial, measured = (statistics.median(tier) for tier in zip(*found))
        lines.append((name, serial, measured, own["by_operation"].get(name, 0.0)))
    lines.sort(key=lambda line: line[2] - line[3])
    rest = {name: seconds for name, seconds in own["by_operation"].items() if name not in tiers}
    if rest:
        most = max(rest, key=rest.get).removeprefix("other: ")
        lines.append((f"all others, most of it {most}", 0.0, 0.0, sum(rest.values())))
    return own, lines


def gap(lines):
    """Which operations the engine takes longer for than L2, in words."""
    beyond = [(name, engine - measured) for name, _, measured, engine in lines]
    whole = sum(engine for *_, engine in lines) - sum(measured for _, _, measured, _ in lines)
    longest = sorted((one for one in beyond if one[1] > 0), key=lambda one: -one[1])[:4]
    named = ", ".join(f"{name} {milliseconds(seconds)} ms" for name, seconds in longest)
    if whole <= 0:
        return f"llama.cpp takes {milliseconds(-whole)} ms less than L2 here."
    return f"Of {milliseconds(whole)} ms that llama.cpp takes beyond L2: {named}."


def operation_tables(trial):
    text = []
    for stored in trial.about["precision"]:
        for phase in ("decode", "prefill"):
            own, lines = by_operation(trial, stored, phase)
            shares = gap(lines)
            lines.append(("all", *(sum(line[index] for line in lines) for index in (1, 2, 3))))
            cells = [
                [name, *map(milliseconds, (serial, measured, engine, engine - measured))]
                for name, serial, measured, engine in lines
            ]
            prompt = f"a prompt of {own['prompt']} tokens"
            what = "a step of decode" if phase == "decode" else prompt
            title = f"{stored}, {what}: {milliseconds(own['seconds'])} ms in all"
            if "seconds_without_callback" in own:
                plain = milliseconds(own["seconds_without_callback"])
                title += f", {plain} ms without stops between operations"
            head = ["operation", "L1 ms", "L2 ms", "llama.cpp ms", "llama.cpp - L2"]
            text.append(f"{title}.\n\n{table(head, cells)}\n\n{shares}\n")
    return "\n".join(text)


def ceilings(trial):
    found = []
    for turn in trial.rounds:
        text = json.dumps(trial.project(turn, "bf16", 128, 1)["text"])
        begin = text.index("best rates of this record: ") + len("best rates of this record: ")
        found.append([str(turn), text[begin:text.index(". They are measured", begin)]])
    return table(["round", "best rates of one core"], found)


def checks(all_rows):
    """What must hold, each with whether it does."""
    least = min(all_rows, key=lambda row: row.over_bound()[0])
    own = min(row.over_bound()[1] for row in all_rows)
    flat = min(row.light / row.serial for row in all_rows)
    count = sum(len(row.wall) + len(row.engine) for row in all_rows)
    factor = least.over_bound()[0]
    yield (
        factor >= 1.0,
        f"no measured time is below L0 by the best ceilings of all rounds: of {count} times the "
        f"nearest is {factor:.2f} x L0 ({least.phase}, {least.stored}, {least.requests} x "
        f"{least.context} tokens), and {own:.2f} x L0 by the ceilings of its own round.",
    )
    yield flat >= 0.5, f"L0 is at least half of L1: {flat * 100:.0f} % or more."


def errors(all_rows):
    """L2's error by phase."""
    kinds = {}
    for row in all_rows:
        many = "several requests" if row.requests > 1 else "one request"
        # What was measured once has no interval, and stands in its table alone.
        if len(row.wall) == len(all_rows[0].wall):
            kinds.setdefault((row.stored, f"{row.phase}, {many}"), []).append(row)
    for (stored, what), group in kinds.items():
        # A round's error is the mean over its contexts: rounds are what is independent.
        ratios = [row.logarithms() for row in group]
        error = interval([statistics.fmean(turn) for turn in zip(*ratios)])
        worst = max(abs(row.error()[0]) for row in group)
        yield stored, what, error, worst


def page(trial):
    about = trial.about
    all_rows = list(rows(trial))
    held = list(checks(all_rows))
    engine = about["engine"]
    has = [name for name, there in engine["features"].items() if there]
    lacks = [name for name, there in engine["features"].items() if not there]
    found = list(errors(all_rows))
    head = ["format", "at once", "tokens", "L0 ms", "L1 ms", "L2 ms", "measured ms", "engine's ms"]
    head += ["L0 / measured", "L1 / measured", "L2's error", "covered", "measured rate"]
    decode = [row.cells() for row in all_rows if row.phase == "decode"]
    prefill = [row.cells() for row in all_rows if row.phase == "prefill"]
    sizes = ", ".join(f"{name} {size / 2**30:.2f} GiB" for name, size in about["bytes"].items())
    text = TEMPLATE.format(
        rounds=about["rounds"], date=about["date"], cpu=about["cpu"], fizeau=about["fizeau"],
        package=engine["package"], has=", ".join(has), lacks=", ".join(lacks),
        compiler=engine["compiler"], flags=", ".join(about["cpu_flags"]), sizes=sizes,
        folder=trial.folder, huge=f"{engine['huge_pages'] / 2**30:.2f}", at_once=about["at_once"],
        answer=about["answer"], contexts=", ".join(map(str, about["contexts"])),
        checks="\n".join(f"- {'holds' if good else '**BROKEN**'}: {words}" for good, words in held),
        errors=table(
            ["format", "phase", "L2's error, mean and 95 % interval", "largest of a context"]
            + ["within 25 %"],
            [
                [stored, what, shown(error), f"{worst * 100:.1f} %",
                 "yes" if worst <= ERROR_MAX else "no"]
                for stored, what, error, worst in found
            ],
        ),
        decode=table(head, decode), prefill=table(head, prefill),
        operations=operation_tables(trial), ceilings=ceilings(trial),
    )
    return text, all(good for good, _ in held)


TEMPLATE = (pathlib.Path(__file__).parent / "page.md").read_text()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fizeau", type=pathlib.Path, required=True)
    parser.add_argument("--trial", type=pathlib.Path, required=True)
    args = parser.parse_args()
    text, good = page(Trial(args.fizeau, args.trial))
    print(text, end="")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
