"""How often the rule of `fizeau fleet` is right on planted fleets: prints docs/appendix/fleet-rates.md, and fails
where a limit is not held. The fleets are those of examples/fleet/recipe.toml, of three sizes, whose counts
are added up. The last section tries the judges on the zoo of noises (tests/zoo), by the example `fleet_zoo`.
About ten minutes on one core.

    cargo build --release && python3 scripts/fleet_rates.py > docs/appendix/fleet-rates.md
    python3 scripts/fleet_rates.py --sizes 100:50,10000:1       # fleets of a size: how many
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys

RECIPE = "examples/fleet/recipe.toml"
OURS, AGAIN, ANY = (
    "**fleet**, Benjamini-Hochberg", "**fleet**, after the retest", "**fleet**, Benjamini-Yekutieli")
SIZES = "100:500,10000:50,100000:10"

# Words, changes of the recipe, and the limits that hold: of the first survey, after the retest.
WORLDS = [
    ("neighbours in one repeat", [], "repeat"),
    ("neighbours for a whole session", ["neighbour.whole_session=true"], "session"),
    ("all healthy", ["faulty=0"], "healthy"),
    ("all healthy, neighbours for a whole session", ["faulty=0", "neighbour.whole_session=true"], "healthy"),
]
SHAPES = [
    ("heavy tails", ["noise.shape=heavy_tails"]),
    ("two humps", ["noise.shape=two_humps"]),
    ("drift from repeat to repeat", ["noise.shape=drift"]),
    ("half of the noise is of the node", ["noise.within_node=0.5"]),
]


def simulate(program, sizes, changes):
    """The scores of all sizes, by size and added up."""
    by_size = {}
    for gpus, fleets in sizes:
        command = [program, "--json", "fleet", "simulate", RECIPE, "--gpus", str(gpus), "--fleets", str(fleets)]
        for change in changes:
            command += ["--set", change]
        print(" ".join(map(str, command)), file=sys.stderr, flush=True)
        by_size[gpus] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return by_size


def pooled(by_size, rule):
    total = collections.Counter()
    for scores in by_size.values():
        total.update(scores["rules"][rule])
    return total


def share(part, whole):
    return part / whole if whole else None


def shown(value, digits=4):
    return "-" if value is None else f"{value:.{digits}f}"


def figures(tally):
    """Mean share of false discoveries of a fleet, precision, recall, inconclusive share of the healthy."""
    return {
        "false": tally["wrong_shares"] / tally["fleets"],
        "precision": share(tally["failed"] - tally["wrong"], tally["failed"]),
        "recall": share(tally["found"], tally["bad"]),
        "inconclusive": share(tally["inconclusive"], tally["healthy"]),
        "open": share(tally["open_gpus"], tally["healthy_gpus"]),
        "clean": share(tally["fleets"] - tally["fleets_wrong"], tally["fleets"]),
    }


def retested(by_size):
    gpus = sum(scores["gpus"] * scores["fleets"] for scores in by_size.values())
    return sum(scores["retested"] for scores in by_size.values()) / gpus


def row(words, tally):
    its = figures(tally)
    print(f"| {words} | {tally['failed']} | {tally['wrong']} | {shown(its['precision'])} | {shown(its['recall'])} "
          f"| {its['false']:.4f} | {tally['fleets_wrong']} of {tally['fleets']} | {100 * its['inconclusive']:.2f} % |")


HEAD = ("| rule | failed | of these healthy | precision | recall | false discoveries of a fleet, mean "
        "| fleets with one | healthy and inconclusive |\n| --- | --- | --- | --- | --- | --- | --- | --- |")


class Limits:
    def __init__(self):
        self.faults = []

    def hold(self, words, value, least=None, most=None):
        bound = f"at least {least:g}" if least is not None else f"at most {most:g}"
        is_held = value is not None and (value >= least if least is not None else value <= most)
        if not is_held:
            self.faults.append(words)
        print(f"- {words}: {shown(value)}, to be {bound}: {'held' if is_held else '**not held**'}.")


def world(words, changes, kind, program, sizes, limits):
    by_size = simulate(program, sizes, changes)
    print(f"\n## {words.capitalize()}\n")
    if changes:
        print("`" + " ".join(f"--set {change}" for change in changes) + "`\n")
    print(HEAD)
    for rule in next(iter(by_size.values()))["rules"]:
        row(rule, pooled(by_size, rule))
    print()
    first, again = (figures(pooled(by_size, rule)) for rule in (OURS, AGAIN))
    if kind == "repeat":
        limits.hold("Mean share of false discoveries before the retest", first["false"], most=0.01)
        limits.hold("Precision before the retest", first["precision"], least=0.98)
        limits.hold("Recall before the retest", first["recall"], least=0.95)
    if kind == "session":
        limits.hold("Precision after the retest", again["precision"], least=0.995)
        limits.hold("Share of the GPUs that are measured anew", retested(by_size), most=0.05)
    if kind == "healthy":
        limits.hold("Share of fleets in which nobody failed after the retest", again["clean"], least=0.95)
        limits.hold("Share of the healthy GPUs that are inconclusive in any metric", first["open"], most=0.05)
    print("\nBy size:\n")
    print("| GPUs | fleets | precision | recall | false discoveries of a fleet, mean | measured anew "
          "| fleets with a false discovery after the retest |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for gpus, scores in by_size.items():
        its, again = figures(scores["rules"][OURS]), scores["rules"][AGAIN]
        print(f"| {gpus} | {scores['fleets']} | {shown(its['precision'])} | {shown(its['recall'])} "
              f"| {its['false']:.4f} | {100 * retested({gpus: scores}):.2f} % "
              f"| {again['fleets_wrong']} of {again['fleets']} |")


def shapes(program, sizes):
    print("\n## Noise that is not as the test assumes\n")
    print("The test assumes repeats that scatter normally and by themselves. *Missed* counts losses of at least "
          "twice the least effect that did not fail; *said so* counts the fleets whose survey says that its "
          "noise is not as assumed.\n")
    print("| noise | when | precision | recall | missed | false discoveries of a fleet, mean "
          "| fleets with one | healthy and inconclusive | said so |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for words, changes in SHAPES:
        by_size = simulate(program, sizes, changes)
        doubted = sum(scores["doubted"] for scores in by_size.values())
        for when, rule in [("first", OURS), ("any dependence", ANY), ("after the retest", AGAIN)]:
            tally = pooled(by_size, rule)
            its = figures(tally)
            print(f"| {words} | {when} | {shown(its['precision'])} | {shown(its['recall'])} "
                  f"| {tally['bad'] - tally['found']} of {tally['bad']} | {its['false']:.4f} "
                  f"| {tally['fleets_wrong']} of {tally['fleets']} | {100 * its['inconclusive']:.2f} % "
                  f"| {doubted} of {tally['fleets']} |")


def components(program, gpus, seeds, limits):
    print("\n## Components\n")
    print(f"{seeds} fleets of {gpus} GPUs ({gpus // 8} nodes, {gpus // 128} leaf switches of 16 nodes, 8 rails), of "
          "which one leaf or rail loses a share in the metric `network`. *Right*: it was named as what it is. "
          "*Another*: another leaf, rack or rail was named.\n")
    print("| slow | loses | right | another |\n| --- | --- | --- | --- |")
    right, wrong, planted = 0, 0, 0
    for kind in ("leaf", "rail"):
        for loss in (0.06, 0.1):
            change = f'component={{kind="{kind}",metrics=["network"],loss={loss}}}'
            its = simulate(program, [(gpus, seeds)], [change])[gpus]["components"]
            print(f"| {kind} | {100 * loss:.0f} % | {its['right']} of {its['planted']} | {its['wrong']} |")
            right, wrong, planted = right + its["right"], wrong + its["wrong"], planted + its["planted"]
    healthy = simulate(program, [(gpus, seeds)], ["faulty=0"])[gpus]["components"]["wrong"]
    print(f"| none | - | - | {healthy} of {seeds} |\n")
    limits.hold("Share of slow leaves and rails that are named as such", right / planted, least=0.95)
    limits.hold("Share of healthy fleets in which one is named", healthy / seeds, most=0.02)


def zoo(fleets):
    print("\n## A zoo of noises\n", flush=True)
    command = ["cargo", "run", "--quiet", "--release", "-p", "fizeau-judge", "--example", "fleet_zoo", "--", str(fleets)]
    print(" ".join(command), file=sys.stderr, flush=True)
    print(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout, end="")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=SIZES, help="GPUs of a fleet, and how many fleets of that size")
    parser.add_argument("--components", default="2048:100", help="the same of fleets with a slow component")
    parser.add_argument("--zoo", type=int, default=8, help="fleets of each row of the zoo of noises")
    args = parser.parse_args()
    sizes = [tuple(map(int, size.split(":"))) for size in args.sizes.split(",")]
    program = pathlib.Path(os.environ.get("FIZEAU", "target/release/fizeau"))
    fleets = ", ".join(f"{count} fleets of {gpus}" for gpus, count in sizes)
    print("# How often `fizeau fleet` is right\n")
    print(f"Simulated by `python3 scripts/fleet_rates.py`: {fleets} GPUs, with the losses, faults and spreads of "
          f"[{RECIPE}](../../{RECIPE}), which was written before any rule was tuned to it. The counts of all fleets "
          "are added up. A metric of a GPU whose true loss is at most the least effect is healthy; one that "
          "loses at least twice as much should be found (*recall*). *Precision* is the share of failures whose "
          "true loss is above the least effect. Every fleet is planted by its seed, so that the same command "
          "gives the same table. No row was measured on a machine.")
    limits = Limits()
    for words, changes, kind in WORLDS:
        world(words, changes, kind, program, sizes, limits)
    shapes(program, sizes)
    components(program, *map(int, args.components.split(":")), limits)
    zoo(args.zoo)
    if limits.faults:
        sys.exit(f"not held: {'; '.join(limits.faults)}")


main()
