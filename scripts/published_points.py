#!/usr/bin/env python3
"""Writes data/published/inferencex.csv: serving measurements of InferenceX, for
`fizeau project --validate`.

Usage: published_points.py CLONE OUT, with a git clone of
https://github.com/ai-dynamo/aiconfigurator (Apache 2.0), which holds 5,221 results of InferenceX
(https://github.com/SemiAnalysisAI/InferenceX) in systems/silicon_sample.csv.

What is taken, by rule and before any is set beside a projection:
- prefill and decode on the same devices; one node of 8 at most; no pipeline;
- models that the catalogue has and whose checkpoints have no heads for speculation, since the file
  does not say whether a result speculated;
- layouts that `fizeau project` knows: all tensor parallel, or attention data-parallel with experts
  dealt out;
- 1024 tokens in and 1024 out, or 8192 in and 1024 out; 4, 8 or 64 requests at once;
- of several results of one setting the fastest.
"""

import csv
import re
import subprocess
import sys

FILE = "aic-core/src/aiconfigurator_core/systems/silicon_sample.csv"
PARTS = {
    "h100_sxm": "h100-sxm",
    "h200_sxm": "h200-sxm",
    "b200_sxm": "b200-hgx",
    "b300_sxm": "b300-hgx",
    "gb200": "gb200",
}
# (model, precision) of the file: model and precision here; none: as published.
MODELS = {
    ("openai/gpt-oss-120b", "fp4"): ("gpt-oss-120b", ""),
    ("meta-llama/Llama-3.1-70B", "fp8"): ("llama-3.1-70b", "fp8"),
    ("meta-llama/Llama-3.1-70B", "fp4"): ("llama-3.1-70b", "nvfp4"),
    ("meta-llama/Llama-3.1-8B-Instruct", "fp8"): ("llama-3.1-8b", "fp8"),
    ("nvidia/Llama-3.1-8B-Instruct-FP8", "fp8"): ("llama-3.1-8b", "fp8"),
    ("Qwen/Qwen3-235B-A22B-FP8", "fp8"): ("qwen3-235b-a22b", "fp8"),
    ("Qwen/Qwen3-32B", "fp8"): ("qwen3-32b", "fp8"),
    ("MiniMaxAI/MiniMax-M2.5", "fp8"): ("minimax-m2.5", ""),
    ("MiniMaxAI/MiniMax-M2.5", "fp4"): ("minimax-m2.5", "nvfp4"),
    ("moonshotai/Kimi-K2.5", "int4"): ("kimi-k2.5", ""),
    ("moonshotai/Kimi-K2.5", "fp4"): ("kimi-k2.5", "nvfp4"),
}
LENGTHS = [(1024, 1024), (8192, 1024)]
CONCURRENCY = [4, 8, 64]
FIELDS = [
    "model", "part", "layout", "precision", "kv", "isl", "osl", "concurrency", "value", "unit",
    "source",
]


def layout(row):
    tensor, data, experts = (
        int(float(row[key] or 1)) for key in ["tp_size", "attention_dp_size", "moe_ep_size"]
    )
    if tensor * data > 8 or int(float(row["pp_size"] or 1)) != 1:
        return None
    if data == 1 and experts == 1:
        return f"tp{tensor}"
    if tensor == 1 and data == experts:
        return f"ep{data}"
    return None


def main():
    clone, out = sys.argv[1], sys.argv[2]
    git = ["git", "-C", clone]
    commit = subprocess.run(git + ["rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    commit = commit.stdout.strip()
    text = subprocess.run(git + ["show", f"HEAD:{FILE}"], capture_output=True, text=True, check=True)
    url = f"https://github.com/ai-dynamo/aiconfigurator/blob/{commit}/{FILE}"
    best = {}
    for row in csv.DictReader(text.stdout.splitlines()):
        model = MODELS.get((row["model_path"], row["precision"]))
        part, spread = PARTS.get(row["system"]), layout(row) if row["mode"] == "agg" else None
        found = re.search(r"silicon_concurrency=(\d+)", row["silicon_data_source"])
        if not (model and part and spread and found):
            continue
        lengths = (int(row["isl"]), int(row["osl"]))
        concurrency, token = int(found[1]), float(row["silicon_tpot_ms"])
        if lengths not in LENGTHS or concurrency not in CONCURRENCY:
            continue
        key = (*model, part, spread, lengths, concurrency)
        if key not in best or token < best[key][0]:
            best[key] = (token, float(row["silicon_ttft_ms"]), row["id"])
    with open(out, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        for key in sorted(best):
            model, precision, part, spread, (isl, osl), concurrency = key
            token, first, name = best[key]
            # Few requests: a token of a user. Many: what all get, prompts included.
            if concurrency <= 8:
                value, unit = f"{token:.2f}", "ms/token"
            else:
                rate = concurrency * osl / (first + (osl - 1) * token) * 1e3
                value, unit = f"{rate:.0f}", "tok/s"
            source = f"InferenceX, as {url} has it, row {name}"
            writer.writerow(
                [model, part, spread, precision, "fp8", isl, osl, concurrency, value, unit, source]
            )


if __name__ == "__main__":
    main()
