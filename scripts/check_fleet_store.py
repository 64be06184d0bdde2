"""The queries of docs/fleet.md by DuckDB, beside what `fizeau fleet survey` says. Argument: a folder with
planted/store, survey.json and all.csv."""

import csv
import json
import os
import pathlib
import re
import sys

import duckdb

place = pathlib.Path(sys.argv[1])
page = (pathlib.Path(__file__).parent.parent / "docs/fleet.md").read_text()
queries = re.findall(r"```sql\n(.*?)```", page, re.S)
assert len(queries) == 3, f"docs/fleet.md has {len(queries)} queries"
os.chdir(place / "planted")
survey = json.loads((place / "survey.json").read_text())
table = list(csv.DictReader((place / "all.csv").open()))
rows = sum(len(path.read_text().splitlines()) for path in pathlib.Path("store").rglob("*.jsonl"))

duckdb.sql(queries[0])
count = duckdb.sql("SELECT count(*) FROM rates").fetchone()[0]
assert count == rows == len(table), f"{count} rows by DuckDB, {rows} lines, {len(table)} verdicts"


def near(a, b):
    return abs(a / b - 1) < 1e-9


of_device = {(one["node"], one["device"], one["metric"]): float(one["median"]) for one in table}
for node, device, metric, rate in duckdb.sql("SELECT node, device, metric, rate FROM rates").fetchall():
    assert near(rate, of_device[node, device, metric]), f"{node} {device} {metric}: {rate}"

medians = duckdb.sql(queries[1]).fetchall()
assert len(medians) == len(survey["reach"]), f"{len(medians)} medians"
for metric, driver, devices, median in medians:
    # The planted lots are called so themselves.
    words = driver if driver.startswith("driver ") else f"driver {driver}"
    its = [
        one
        for one in survey["reach"]
        if one["metric"] == metric and f"{words}," in survey["strata"][one["stratum"]]
    ]
    assert len(its) == 1 and its[0]["gpus"] == devices, f"{metric} {driver}: {its}"
    assert near(median, its[0]["median"]), f"{metric} {driver}: {median} and {its[0]['median']}"

slow = {(node, device, metric) for node, device, metric, _ in duckdb.sql(queries[2]).fetchall()}
failed = {(one["node"], one["device"], one["metric"]) for one in table if one["verdict"] == "fail"}
assert failed and failed <= slow, f"{failed - slow} fail, and DuckDB does not find them"
print(f"DuckDB {duckdb.__version__}: {count} rows, {len(medians)} medians as the survey's; {len(slow)}")
print(f"figures lose more than the least effect, {len(failed)} of them fail")
