"""Medians of `vllm bench serve` and `fizeau load` round by round, from the folder of vllm.sh.

    vllm_table.py FOLDER ROUNDS

Both clients' rows are read here, so that no code of either decides what a median is. `fizeau` counts
from the scheduled moment, `vllm bench serve` from the one of sending: both are shown for fizeau.
"""

import json
import pathlib
import statistics
import sys


def theirs(folder, number):
    value = json.loads((folder / f"vllm-{number}.json").read_text())
    firsts = value["ttfts"]
    ends = [first + sum(gaps) for first, gaps in zip(firsts, value["itls"])]
    tokens = [
        (end - first) / (count - 1)
        for first, end, count in zip(firsts, ends, value["output_lens"])
        if count > 1
    ]
    user, system = map(float, (folder / f"cpu-{number}").read_text().split()[-2:])
    return {
        "TTFT": statistics.median(firsts),
        "TPOT": statistics.median(tokens),
        "ITL": statistics.median(gap for gaps in value["itls"] for gap in gaps),
        "CPU for a token": (user + system) / sum(value["output_lens"]),
    }


def ours(folder, number):
    lines = [json.loads(line) for line in open(folder / f"fizeau-{number}" / "requests.jsonl")]
    rows = [line["request"] for line in lines if "request" in line]
    rows = [row for row in rows if row["ending"] == "answered"]
    cpu = next(line["end"]["cpu_seconds"] for line in lines if "end" in line)
    return {
        "TTFT": statistics.median(row["first"] - row["sent"] for row in rows),
        "TTFT from the scheduled moment": statistics.median(
            row["first"] - row["scheduled"] for row in rows
        ),
        "TPOT": statistics.median(
            (row["last"] - row["first"]) / (row["output"] - 1) for row in rows if row["output"] > 1
        ),
        "ITL": statistics.median(gap for row in rows for gap in row["gaps"]),
        "CPU for a token": cpu / sum(row["output"] for row in rows),
    }


def main():
    folder, rounds = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    both = [(theirs(folder, number), ours(folder, number)) for number in range(1, rounds + 1)]
    print("| round | client | TTFT | TPOT | ITL | TTFT, scheduled | CPU time for a token |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for number, pair in enumerate(both, 1):
        for name, one in zip(("vllm bench serve", "fizeau load"), pair):
            scheduled = one.get("TTFT from the scheduled moment")
            scheduled = "not stated" if scheduled is None else f"{scheduled * 1e3:.2f} ms"
            times = " | ".join(f"{one[key] * 1e3:.2f} ms" for key in ("TTFT", "TPOT", "ITL"))
            cpu = f"{one['CPU for a token'] * 1e6:.0f} us"
            print(f"| {number} | `{name}` | {times} | {scheduled} | {cpu} |")
    print()
    for key in ("TTFT", "TPOT", "ITL"):
        columns = [[one[key] for one in column] for column in zip(*both)]
        medians = [statistics.median(column) for column in columns]
        ranges = [f"{min(column) * 1e3:.2f} to {max(column) * 1e3:.2f} ms" for column in columns]
        scatter = max(max(column) - min(column) for column in columns)
        word = "within" if abs(medians[1] - medians[0]) <= scatter else "beyond"
        print(
            f"{key}: median of rounds {medians[0] * 1e3:.2f} ms by `vllm bench serve` ({ranges[0]}), "
            f"{medians[1] * 1e3:.2f} ms by `fizeau load` ({ranges[1]}): the difference is {word} "
            "the range of a client's own rounds."
        )
        print()


if __name__ == "__main__":
    main()
