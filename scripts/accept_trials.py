"""The table of scripts/accept_trials.sh: what `fizeau accept` said in each of its trials.

Arguments: the folder of the trials, and how many of each kind were asked for. Exit code 1 where a
trial says what it must not.
"""

import json
import pathlib
import statistics
import sys
import textwrap
import tomllib

ARITHMETIC = ["arithmetic f32", "gemm f32", "gemm bf16"]
FAULTS = {
    "quota": ("half of the CPU time, by a control group", {"cpu_quota"}),
    "slow": ("one kernel 20 % slower (gemm f32)", set()),
    "busy": ("one core taken by a busy process", {"busy_host"}),
    "hog": ("a process that writes to memory without end", {"busy_host", "noisy_neighbour"}),
}


def trials(place, kind):
    found = []
    for number in range(1, 1000):
        folder = place / f"{kind}-{number}"
        if not (folder / "code").exists():
            continue
        file = folder / "out" / "verdict.json"
        verdict = json.loads(file.read_text()) if file.exists() else None
        code = int((folder / "code").read_text())
        seconds = int((folder / "seconds").read_text())
        found.append((number, code, seconds, verdict))
    return found


def failed(verdict):
    return [one for one in verdict["checks"] if one["verdict"] == "fail"] if verdict else []


def causes(verdict):
    """Causes of what did not pass, the most frequent first."""
    checks = verdict["checks"] if verdict else []
    named = [one["cause"] for one in checks if one["verdict"] != "pass" and "cause" in one]
    return sorted(set(named), key=lambda cause: -named.count(cause))


def arithmetic_passes(verdict):
    checks = verdict["checks"] if verdict else []
    of = [one for one in checks if one["check"] in ARITHMETIC]
    return bool(of) and all(one["verdict"] == "pass" for one in of)


def is_right(kind, code, verdict):
    """Whether a fault was found: it fails, or the right cause is named; for a hog, whose work may
    not show, also that nothing could be concluded."""
    if verdict is None:
        return False
    if kind == "slow":
        return any(one["check"] == "gemm f32" for one in failed(verdict))
    named = bool(FAULTS[kind][1] & set(causes(verdict)))
    return named or (kind == "hog" and code == 4) or (kind != "hog" and code == 1)


def counts(found):
    codes = [code for _, code, _, _ in found]
    others = [code for code in codes if code not in (0, 1, 4)]
    seconds = statistics.median(seconds for _, _, seconds, _ in found) if found else 0
    cells = [len(found), codes.count(0), codes.count(1), codes.count(4), len(others)]
    return " | ".join(map(str, cells)) + f" | {seconds:.0f} s"


def main():
    place = pathlib.Path(sys.argv[1])
    asked = {"learn": int(sys.argv[2]), "as-is": int(sys.argv[3])}
    asked |= {kind: int(sys.argv[4]) for kind in FAULTS} | {"hog": int(sys.argv[5])}
    cpus = next(
        line.split(":")[1].strip()
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    )
    as_is = trials(place, "as-is")
    started = sorted(
        verdict["started"]
        for kind in asked
        for *_, verdict in trials(place, kind)
        if verdict
    )
    print("# `fizeau accept` on a real machine\n")
    words = f"Made by `scripts/accept_trials.sh --write` on a virtual machine ({cpus}), host CPU"
    if started:
        words += f", from {started[0]} to {started[-1]}"
    words += f". The profile was learnt from {asked['learn']} own runs of level `quick`. Kinds took "
    words += "turns. A fault counts as found where the run fails, or names the right cause; for the "
    words += "hog also where it says that nothing can be concluded."
    print(textwrap.fill(words, 104, break_on_hyphens=False) + "\n")
    head = ["trial", "asked for", "done", "PASS", "FAIL", "INCONCLUSIVE", "other exit codes"]
    head += ["median time", "found"]
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    fine = sum(arithmetic_passes(verdict) for *_, verdict in as_is)
    wrong = 0
    print(
        f"| as it is | {asked['as-is']} | {counts(as_is)} | all arithmetic checks PASS in {fine} |"
    )
    wrong += any(code not in (0, 4) for _, code, _, _ in as_is) or 4 * fine < 3 * len(as_is)
    for kind, (words, _) in FAULTS.items():
        found = trials(place, kind)
        right = sum(is_right(kind, code, verdict) for _, code, _, verdict in found)
        print(f"| {words} | {asked[kind]} | {counts(found)} | {right} |")
        # Nine of ten.
        wrong += 10 * right < 9 * len(found)
    print("\n## Each trial\n\n| trial | exit code | failed checks | causes named |")
    print("| --- | --- | --- | --- |")
    for kind in ["learn", "as-is", *FAULTS]:
        for number, code, _, verdict in trials(place, kind):
            checks = ", ".join(sorted({one["check"] for one in failed(verdict)})) or "none"
            named = ", ".join(causes(verdict)).replace("_", " ") or "none"
            print(f"| {kind} {number} | {code} | {checks} | {named} |")
    print("\n## The profile\n")
    print("How far this machine's own runs are from each other, by what the profile was learnt from.")
    print("Above a third of a check's least effect a reference may fail nobody.\n")
    print("| point | spread of runs |\n| --- | --- |")
    profile = place / "learnt.toml"
    if profile.exists():
        for one in tomllib.loads(profile.read_text()).get("reference", []):
            spread = one.get("spread_of_runs")
            words = "unknown" if spread is None else f"{100 * spread:.2f} %"
            print(f"| {one['point']} ({one['aspect']}) | {words} |")
    sys.exit(1 if wrong else 0)


main()
