"""Writes docs/gpu-figures.md: the figures of GPUs that records in results/ hold, beside their peers'.

A folder of figures is what `scripts/gpu.sh figures` measured: `results/PART/DATE-figures` with a record in
a folder for each operation, and peers.jsonl. Called without arguments, from anywhere.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import gpu  # noqa: E402
from gpu_peers.memory import LARGE  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "gpu-figures.md"
HEAD = """<!-- Written by scripts/gpu_table.py. -->
# Figures of GPUs

Every row is made from records in [results/](../results/README.md) by `python3 scripts/gpu_table.py`. `scripts/gpu.sh
figures` measured them: Fizeau's best kernel of a point, and the fastest of the kernels that were timed
beside it in the same run (cuBLASLt, which the program itself runs, and PyTorch 2.11 as CUDA graphs). All
times are hot, iteration after iteration: operands that fit the last cache come from it in part, as those of 16 x 4096
x 4096 do, and their records have the cold times beside these. Every result of Fizeau's kernels was checked against the reference before
and after it was timed.

A ratio has two sides that were timed in the same state: of caches, and of power and heat. Under load an H100 or
H200 lowers its clock in steps, after 20 to 26, 42 to 48 and 66 to 75 ms, by a fifth in all, so that a time
before a step and one behind it are of two different machines. Where the two sides were not in the same regime
([methodology.md](methodology.md)), or in records without regimes the load before their median samples differs
by more than a fifth, the reason stands in the place of the ratio. PyTorch's peers of 26 November 2026 were
timed from 150 ms of load on and the program's own kernels before: none of those has a ratio where power matters.
A peer below 0.7 of the program's rate is not at its best, and has no ratio either: a copy as a node of a
graph, and products of int8 whose B is given row by row, which cuBLASLt has no kernel of tensor cores for.

Where samples fall into two states of the machine, or hot caches seem slower than cold ones, the median is no
property of the machine ([methodology.md](methodology.md)): the reason stands in the place of shares and ratios.
Peaks of arithmetic are those of random numbers where a kernel multiplies them. Constant operands draw less power and
reach higher rates, which no product does.

Shares are of the datasheet's limit, and of the limit at the clock that was observed around the samples, between
which the regulator may have let go. Points without a peer are those for which nobody else's kernel was at hand.
"""
COLUMNS = ["point", "best kernel", "rate", "% datasheet", "% observed clock", "best peer", "its rate",
           "own / peer"]


def figures(folder):
    """What a folder holds, and the header of its first record."""
    taken, header = gpu.Figures(), None
    for path in sorted(folder.glob("*/record.jsonl")):
        for number, line in enumerate(gpu.lines_of(path)):
            if line.get("line") == "header":
                header = header or line
            elif line.get("outcome") == "measured":
                taken.take({f"{path}:{number}": line})
    for line in gpu.lines_of(folder / "peers.jsonl"):
        # Records of the first day have peers of smaller working sets too.
        if line["point"].get("working_set", LARGE) >= LARGE:
            taken.take_peer(line)
    return taken, header


def by_number(row):
    """The order of points: numbers by their size."""
    return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in row[0].split("/")]


def section(folder):
    """A folder's table."""
    taken, header = figures(folder)
    rows = ["| " + " | ".join(row) + " |" for row in sorted(taken.rows(), key=by_number)]
    name = re.sub(r" [0-9]+GB.*", "", header["device"]["name"])
    device, settings = header["device"], header["environment"]["settings"]
    driver = ", ".join(one for one in header["environment"]["libraries"] if "NV" in one)
    return "\n".join([
        f"\n## {name}, {folder.name[:10]}\n",
        f"{folder.relative_to(ROOT)}: {device['units']} units, power limit {settings['power_limit']:.0f} W, {driver}, "
        f"{header['environment']['os'].split()[0]} under KVM.\n",
        "| " + " | ".join(COLUMNS) + " |", "|" + " --- |" * len(COLUMNS), *rows]) + "\n"


def main():
    folders = sorted((ROOT / "results").glob("*/*-figures"))
    PAGE.write_text(HEAD + "".join(section(folder) for folder in folders))
    print(f"{PAGE}: {len(folders)} folders")


if __name__ == "__main__":
    main()
