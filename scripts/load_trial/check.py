"""Checks what `fizeau load` kept of a run against llama.cpp, and prints a table of it.

    check.py REQUESTS.jsonl REPORT.json [--tolerance 0.01]

Fails where a request failed, where a prompt had another number of tokens than it was made for, where
the client's TPOT is not the server's own (median by level), or where the report does not count every
request whose chunks and tokens are not one to one.
"""

import argparse
import json
import statistics


def median(values):
    return statistics.median(values) if values else float("nan")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("requests")
    parser.add_argument("report")
    parser.add_argument("--tolerance", type=float, default=0.01)
    args = parser.parse_args()
    lines = [json.loads(line) for line in open(args.requests)]
    plans = next(line["load"] for line in lines if "load" in line)["levels"]
    plans += [line["level"] for line in lines if "level" in line]
    rows = [line["request"] for line in lines if "request" in line]
    rows = [row for row in rows if not row.get("is_warmup")]
    report = json.load(open(args.report))
    table = report["tables"]["levels"]
    faults = []
    print("level | one token a chunk | other | TPOT | server's own | client / server")
    measured = [level for level in range(len(plans)) if any(row["level"] == level for row in rows)]
    for level, shown in zip(measured, table, strict=True):
        of = [row for row in rows if row["level"] == level]
        name = f"level {level + 1}"
        for row in of:
            if row["ending"] != "answered":
                faults.append(f"{name}, request {row['number']}: {row['ending']}")
            elif row["input"] != row["asked_input"]:
                faults.append(f"{name}: {row['input']} tokens arrived, not {row['asked_input']}")
        answered = [row for row in of if row["ending"] == "answered" and row["output"] > 1]
        # Where the first chunk holds two tokens, the client's time is one token short.
        answered = [row for row in answered if row["output"] == row["chunks"]]
        client = [(row["last"] - row["first"]) / (row["output"] - 1) for row in answered]
        server = [row["server_answer"] / (row["output"] - 1) for row in answered]
        ratio = median([one / other for one, other in zip(client, server)])
        chunked = sum(row["output"] != row["chunks"] for row in of)
        if not abs(ratio - 1) <= args.tolerance:
            faults.append(f"{name}: TPOT of the client is {ratio:.4f} of the server's own")
        if shown["chunked"] != chunked or shown["answered"] != len(of):
            faults.append(f"{name}: the report has {shown}, the rows {chunked} of {len(of)}")
        times = f"{median(client) * 1e3:.3f} ms | {median(server) * 1e3:.3f} ms | {ratio:.4f}"
        print(f"{shown['level']} | {len(answered)} | {chunked} | {times}")
    if not any("server" in line for line in lines):
        faults.append("the server's own metrics are missing")
    for fault in faults[:20]:
        print(f"fault: {fault}")
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    main()
