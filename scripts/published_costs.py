#!/usr/bin/env python3
"""Writes the part of data/costs that is taken from ai-dynamo/aiconfigurator (Apache 2.0).

Usage: published_costs.py CLONE OUT, with a git clone of
https://github.com/ai-dynamo/aiconfigurator, and pyarrow and pandas installed.

That repository holds times of single kernels and messages of TensorRT-LLM, vLLM, SGLang and NCCL
on several parts, each captured in a CUDA graph (collector/helper.py). Of each engine the newest
version is taken. Nothing is fitted. The time of a kernel at a size is the least of all published
rows, of any engine and shape, that read at least as many bytes: no published kernel of this size is
faster. The time of a message is that of the fastest library at its size, and never above that of a
larger one.
"""

import io
import pathlib
import re
import subprocess
import sys

import pandas

DATA = "aic-core/src/aiconfigurator_core/systems/data"
PARTS = {
    "a100_sxm": "a100-sxm4-80",
    "h100_sxm": "h100-sxm",
    "h200_sxm": "h200-sxm",
    "b200_sxm": "b200-hgx",
    "b300_sxm": "b300-hgx",
    "gb200": "gb200",
    "gb300": "gb300",
}
ENGINES = ["trtllm", "vllm", "sglang"]
FORMATS = {
    "bfloat16": ("bf16", 2.0),
    "fp8": ("fp8", 1.0),
    "fp8_block": ("fp8", 1.0),
    "nvfp4": ("nvfp4", 0.5625),
    "w4a16_mxfp4": ("mxfp4", 0.53125),
    "w4a8_mxfp4_mxfp8": ("mxfp4", 0.53125),
    "int4_wo": ("int4-g128", 0.515625),
    "int8_wo": ("int8", 1.0),
    "sq": ("int8", 1.0),
}
# Bytes: a power of four each.
SIZES = [4**at for at in range(7, 15)]
MESSAGES = [2 * 4**at for at in range(4, 15)]


class Clone:
    def __init__(self, path):
        self.path = path
        self.commit = self.git("rev-parse", "HEAD").decode().strip()
        names = self.git("ls-tree", "-r", "--name-only", "HEAD", DATA).decode().split()
        self.names = [name for name in names if name.endswith(".parquet")]

    def git(self, *words):
        return subprocess.run(["git", "-C", self.path, *words], capture_output=True, check=True).stdout

    def newest(self, system, kind, engine, file):
        """The rows of an engine's newest version, and its version."""
        begin = f"{DATA}/{system}/{kind}/{engine}/"
        found = [n for n in self.names if n.startswith(begin) and n.endswith("/" + file)]
        if not found:
            return None, None

        def order(name):
            return [int(part) for part in re.findall(r"\d+", name[len(begin) :].split("/")[0])]

        name = max(found, key=order)
        rows = pandas.read_parquet(io.BytesIO(self.git("show", f"HEAD:{name}")))
        rows = rows.assign(latency=rows.latency.astype(float))
        return rows[rows.latency > 0], f"{engine} {name[len(begin):].split('/')[0]}"


def near(rows, sizes):
    """The least time of the rows that read at least each size, where one is within an octave."""
    times = {}
    for size in sizes:
        above = rows[rows.size_bytes >= size]
        if len(above) and above.size_bytes.min() < 2 * size:
            times[size] = above.latency.min() * 1e-3
    return times


def least(tables):
    """Of several tables the least time at each size, none above that of a larger size."""
    sizes = sorted({size for table, _ in tables for size in table})
    times, best = [], float("inf")
    for size in reversed(sizes):
        best = min([best] + [table[size] for table, _ in tables if size in table])
        times.append(best)
    words = sorted({words for table, words in tables if table})
    return sizes, times[::-1], words


def products(clone, system):
    by_format = {}
    for engine in ENGINES:
        rows, version = clone.newest(system, "gemm", engine, "gemm_perf.parquet")
        if rows is None:
            continue
        for dtype, (name, each) in FORMATS.items():
            one = rows[(rows.gemm_dtype == dtype) & (rows.m == 1)]
            one = one.assign(size_bytes=one.n * one.k * each)
            by_format.setdefault(name, []).append((near(one, SIZES), f"{version} {dtype}"))
    return by_format


def experts(clone, system):
    by_format = {}
    for engine in ENGINES:
        rows, version = clone.newest(system, "moe", engine, "moe_perf.parquet")
        if rows is None:
            continue
        # Two matrices an expert and not three.
        rows = rows[~rows.kernel_source.str.contains("nongated")]
        for dtype, (name, each) in FORMATS.items():
            one = rows[(rows.moe_dtype == dtype) & (rows.num_tokens == 1) & (rows.moe_ep_size == 1)]
            weights = 3 * one.hidden_size * one.inter_size / one.moe_tp_size * one.topk * each
            one = one.assign(size_bytes=weights)
            for source, its in one.groupby("kernel_source"):
                by_format.setdefault(name, []).append((near(its, SIZES), f"{version} {source}"))
    return by_format


def attention(clone, system):
    tables = []
    for engine in ENGINES:
        rows, version = clone.newest(
            system, "attention", engine, "generation_attention_perf.parquet"
        )
        if rows is None:
            continue
        one = rows[rows.batch_size <= 8]
        if "window_size" in one:
            one = one[one.window_size == 0]
        each = one.kv_cache_dtype.map({"bfloat16": 2, "fp8": 1})
        keys = one.batch_size * (one.step + 1) * one.num_key_value_heads * 2 * one.head_dim
        one = one.assign(size_bytes=keys * each)
        tables.append((near(one, [4**at for at in range(5, 14)]), version))
    return tables


def small(clone, system):
    """The fastest elementwise kernel: a row of at most 8192 numbers made fp8."""
    found = []
    for engine in ENGINES:
        rows, version = clone.newest(system, "quantize", engine, "scale_matrix_perf.parquet")
        if rows is not None:
            one = rows[(rows.m == 1) & (rows.k <= 8192)]
            found.append((one.latency.median() * 1e-3, version))
    return min(found, default=None)


def sums(clone, system):
    by_ranks = {}
    for engine in ENGINES:
        rows, version = clone.newest(system, "comm", engine, "custom_allreduce_perf.parquet")
        if rows is None:
            continue
        if "backend" in rows:
            rows = rows[rows.backend.str.contains("graph")]
        for ranks, one in rows.groupby("num_gpus"):
            by_ranks.setdefault(int(ranks), []).append((exact(one), version))
    add_nccl(clone, system, "all_reduce", by_ranks)
    return by_ranks


def exchanges(clone, system):
    by_ranks = {}
    add_nccl(clone, system, "alltoall", by_ranks)
    return by_ranks


def add_nccl(clone, system, name, by_ranks):
    rows, version = clone.newest(system, "comm", "nccl", "nccl_perf.parquet")
    if rows is None:
        return
    one = rows[(rows.op_name == name) & (rows.nccl_dtype == "half")]
    for ranks, its in one.groupby("num_gpus"):
        by_ranks.setdefault(int(ranks), []).append((exact(its), version))


def exact(rows):
    # message_size counts elements of 16 bits (collector/network/collect_all_reduce.py, collect_nccl.py).
    times = rows.groupby("message_size").latency.median() * 1e-3
    return {2 * size: time for size, time in times.items() if 2 * size in MESSAGES}


def number(value):
    return f"{value:.4g}"


def table(head, fields, sizes, times, source):
    lines = [f"[[{head}]]"] + [f"{key} = {value}" for key, value in fields]
    lines.append(f'source = "{source}"')
    lines.append("bytes = [" + ", ".join(str(size) for size in sizes) + "]")
    lines.append("seconds = [" + ", ".join(number(time) for time in times) + "]")
    return "\n".join(lines) + "\n"


def main():
    clone, out = Clone(sys.argv[1]), pathlib.Path(sys.argv[2])
    where = f"ai-dynamo/aiconfigurator at {clone.commit[:12]}"
    for system, part in PARTS.items():
        text = [
            "# Published fixed costs of this part: what a kernel or a message takes at its size, in a CUDA graph.\n"
            "# Written by scripts/published_costs.py; data/README.md says what the fields are. Source:\n"
            f"# https://github.com/ai-dynamo/aiconfigurator/tree/{clone.commit}/{DATA}/{system}\n"
        ]
        one = small(clone, system)
        if one:
            text.append(
                table("kernel", [("of", '"small"'), ("way", '"graph"')], [0], [one[0]],
                      f"{where}, quantize: one row of at most 8192 numbers to fp8, {one[1]}")
            )
        for of, tables, words in [
            ("product", products(clone, system), "gemm, one row"),
            ("experts", experts(clone, system), "moe, one token, whole layer"),
        ]:
            for format, its in tables.items():
                sizes, times, engines = least(its)
                if sizes:
                    fields = [("of", f'"{of}"'), ("format", f'"{format}"'), ("way", '"graph"')]
                    source = f"{where}, {words}: the fastest of {len(engines)} kernels"
                    text.append(table("kernel", fields, sizes, times, source))
        sizes, times, engines = least(attention(clone, system))
        if sizes:
            fields = [("of", '"attention"'), ("way", '"graph"')]
            source = f"{where}, generation_attention, 8 sequences at most: {', '.join(engines)}"
            text.append(table("kernel", fields, sizes, times, source))
        for head, by_ranks in [
            ("all_reduce", sums(clone, system)),
            ("all_to_all", exchanges(clone, system)),
        ]:
            for ranks, its in sorted(by_ranks.items()):
                sizes, times, engines = least(its)
                if sizes:
                    fields = [("ranks", ranks)]
                    source = f"{where}, comm: the fastest of {', '.join(engines)}"
                    text.append(table(head, fields, sizes, times, source))
        (out / f"{part}.toml").write_text("\n".join(text))


if __name__ == "__main__":
    main()
