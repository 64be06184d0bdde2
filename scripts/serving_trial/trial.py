"""Measures `fizeau project` against llama.cpp: rounds in which a record of this host and the
serving of each format take turns.

    trial.py --fizeau PROGRAM --models FOLDER --out FOLDER [--rounds 5] [--core 0]

Keeps in --out: trial.json (what was asked and where), suite.toml, round-N/record.jsonl (by `fizeau
run`), serving.jsonl (a line a request) and operations.jsonl (llama.cpp's time by operation).
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib

from client import Server

HERE = pathlib.Path(__file__).resolve().parent
# Of ggml's files, with the output layer stored as the rest is.
FORMATS = {"bf16": "bf16", "q8_0": "q8_0,head=q8_0"}
CONTEXTS = [128, 512, 2048]
# The shortest prompt is read anew in every round. The longest is read once, before the rounds;
# after that its keys and values are loaded from a file, and cut to length.
READ_IN_EACH_ROUND, READ_ONCE = 128, 2048
AT_ONCE = 4
AT_ONCE_CONTEXTS = [512, 2048]
ANSWER = 8
SLOT_TOKENS = 2304
FIRST_WORD, WORDS = 259, 5885


def say(text):
    print(f"{datetime.datetime.now():%H:%M:%S} {text}", file=sys.stderr, flush=True)


def on_core(core, *command):
    return ["taskset", "-c", str(core), *map(str, command)]


def checked(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


# The suite: what `fizeau shapes` says of each prompt length and format, in one file.
def suite(args, limits):
    wanted, parts = {"gemm": {}, "attention": []}, []
    for stored in FORMATS.values():
        for context in CONTEXTS:
            for requests in (1, AT_ONCE):
                text = checked(
                    [args.fizeau, "shapes", args.models / "config.json", "--precision", stored]
                    + ["--isl", str(context), "--osl", str(ANSWER), "--concurrency", str(requests)]
                )
                part = tomllib.loads(text)
                parts.append(part)
                [dtype] = part["gemm"]["dtypes"]
                shapes = wanted["gemm"].setdefault(dtype, [])
                for shape in part["gemm"]["shapes"]:
                    # Products of longer prompts take long, and are looked up among these.
                    if shape[0] <= READ_IN_EACH_ROUND and shape not in shapes:
                        shapes.append(shape)
                for one in part["attention"]:
                    if one not in wanted["attention"]:
                        wanted["attention"].append(one)
    dtypes = list(wanted["gemm"])
    shapes = wanted["gemm"][dtypes[0]]
    if any(sorted(other) != sorted(shapes) for other in wanted["gemm"].values()):
        sys.exit("the formats have different shapes")
    measure = {**parts[0]["measure"], **limits}
    lines = ['name = "serving"', 'description = "fizeau shapes, of all contexts and formats"', ""]

    def table(name, fields):
        lines.append(name)
        lines.extend(f"{key} = {json.dumps(value)}" for key, value in fields.items())
        lines.append("")

    table("[measure]", measure)
    arithmetic = {dtype: None for part in parts for dtype in part["compute"]["dtypes"]}
    table("[compute]", {"dtypes": list(arithmetic)})
    table("[stream]", parts[0]["stream"])
    layouts = parts[0]["gemm"]["layouts"]
    table("[gemm]", {"dtypes": dtypes, "layouts": layouts, "shapes": sorted(shapes)})
    for one in wanted["attention"]:
        table("[[attention]]", one)
    return "\n".join(lines)


class Engine:
    """A server of one format, on its core."""

    def __init__(self, args, stored, port, folder):
        environment = {**os.environ, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
        environment.pop("OMP_NUM_THREADS", None)
        command = [sys.executable, HERE / "engine.py", args.models / f"{stored}.gguf", port]
        command = on_core(args.core, *command, AT_ONCE, SLOT_TOKENS, folder)
        self.log = (folder / f"{stored}.log").open("w")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
            text=True, env=environment,
        )
        line = self.process.stdout.readline()
        if not line.startswith("{"):
            log = (folder / f"{stored}.log").read_text()
            sys.exit(f"the server of {stored} did not start: {log}")
        self.told = json.loads(line)
        self.stored = stored
        self.server = Server(self.told["address"])
        self.server.wait()
        self.told["huge_pages"] = self.huge_pages()

    def huge_pages(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        found = [line.split()[1] for line in text.splitlines() if line.startswith("AnonHugePages")]
        return int(found[0]) * 1024

    def stop(self):
        self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        self.process.kill()
        self.log.close()


class Trial:
    def __init__(self, args, serving):
        self.args, self.serving = args, serving
        words = random.Random(1)
        # Shorter prompts are its beginning.
        self.long = [FIRST_WORD + words.randrange(WORDS) for _ in range(READ_ONCE)]

    def keep(self, turn, engine, context, requests, results):
        first = min(result["sent"] for result in results)
        for result in results:
            line = {
                "round": turn,
                "format": engine.stored,
                "context": context,
                "requests": requests,
                "prompt_tokens": result["prompt_tokens"],
                "prompt_seconds": round(result["prompt_seconds"], 6),
                "answer_seconds": round(result["answer_seconds"], 6),
                "sent": round(result["sent"] - first, 6),
                "arrived": [round(at - first, 6) for at in result["arrived"]],
            }
            self.serving.write(json.dumps(line) + "\n")
        self.serving.flush()
        [result, *_] = results
        step = (result["arrived"][-1] - result["arrived"][0]) / (ANSWER - 1)
        say(
            f"round {turn} {engine.stored} {requests} x {context}: "
            f"{result['prompt_tokens']} tokens read in {result['prompt_seconds']:.2f} s, "
            f"{step * 1e3:.1f} ms a token"
        )

    def prepare(self, engine):
        """Reads the longest prompt, and keeps its keys and values."""
        engine.server.complete(self.long[:8], 2, 0, False)
        self.keep(0, engine, READ_ONCE, 1, [engine.server.complete(self.long, ANSWER, 0, False)])
        engine.server.slot(0, "save", f"{engine.stored}.bin")

    def serve(self, turn, engine):
        result = engine.server.complete(self.long[:READ_IN_EACH_ROUND], ANSWER, 0, False)
        self.keep(turn, engine, READ_IN_EACH_ROUND, 1, [result])
        slots = list(range(AT_ONCE))
        for slot in slots:
            engine.server.slot(slot, "restore", f"{engine.stored}.bin")
        # Longer ones first: what a shorter one cuts off is gone.
        for context in sorted(AT_ONCE_CONTEXTS, reverse=True):
            results = engine.server.together(self.long[:context], ANSWER, slots, True)
            self.keep(turn, engine, context, AT_ONCE, results)
        engine.server.slot(0, "restore", f"{engine.stored}.bin")
        for context in sorted(set(CONTEXTS) - {READ_IN_EACH_ROUND}, reverse=True):
            result = engine.server.complete(self.long[:context], ANSWER, 0, True)
            self.keep(turn, engine, context, 1, [result])

    def record(self, turn):
        args = self.args
        started = time.monotonic()
        out = args.out / f"round-{turn}"
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder) / "record"
            command = [args.fizeau, "run", "--device", "host", "--suite", args.out / "suite.toml"]
            command += ["--out", folder, "--no-host-name", "--progress", "off", *args.cases]
            checked(on_core(args.core, *command))
            out.mkdir(exist_ok=True)
            shutil.copy(folder / "record.jsonl", out / "record.jsonl")
        say(f"round {turn} record: {time.monotonic() - started:.0f} s")


def about(args, engines):
    fields = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        fields[name.strip()] = value.strip()
    flags = ("avx2", "avx512_bf16", "avx512_vnni", "avx512f", "amx")
    return {
        "date": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC",
        "cpu": fields.get("model name", "unknown"),
        "cpu_flags": [one for one in fields.get("flags", "").split() if one.startswith(flags)],
        "kernel": platform.release(),
        "core": args.core,
        "rounds": args.rounds,
        "fizeau": checked([args.fizeau, "--version"]).strip(),
        "config": json.loads((args.models / "config.json").read_text()),
        "bytes": {name: (args.models / f"{name}.gguf").stat().st_size for name in FORMATS},
        "precision": FORMATS,
        "contexts": CONTEXTS,
        "read_in_each_round": READ_IN_EACH_ROUND,
        "read_once": READ_ONCE,
        "at_once": AT_ONCE,
        "at_once_contexts": AT_ONCE_CONTEXTS,
        "answer": ANSWER,
        "engine": {key: value for key, value in engines[0].told.items() if key != "address"},
        "load_at_start": os.getloadavg()[0],
    }


def operations(args):
    with (args.out / "operations.jsonl").open("w") as out:
        for stored in FORMATS:
            command = [sys.executable, HERE / "operations.py", args.models / f"{stored}.gguf"]
            command = on_core(args.core, *command, 128, ANSWER // 2)
            environment = {**os.environ, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True,
                env=environment,
            )
            for line in done.stdout.splitlines():
                if line.startswith("{"):
                    out.write(json.dumps({"format": stored, **json.loads(line)}) + "\n")
            say(f"operations of {stored}")


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fizeau", type=pathlib.Path, required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("cases", nargs="*", help="cases that a record leaves out or has, as globs")
    return parser.parse_args()


def main():
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    # Long cases are cut short: five rounds have as many samples.
    limits = {"samples_min": 3, "samples_max": 40, "time_min": 0.1, "time_max": 0.4}
    (args.out / "suite.toml").write_text(suite(args, {**limits, "warmup_max": 0.1}))
    # The client has the other core.
    others = os.sched_getaffinity(0) - {args.core}
    if others:
        os.sched_setaffinity(0, others)
    with tempfile.TemporaryDirectory(dir=args.models) as folder, contextlib.ExitStack() as stack:
        engines = []
        for index, stored in enumerate(FORMATS):
            engine = Engine(args, stored, 18470 + index, pathlib.Path(folder))
            stack.callback(engine.stop)
            engines.append(engine)
        with (args.out / "serving.jsonl").open("w") as serving:
            trial = Trial(args, serving)
            (args.out / "trial.json").write_text(json.dumps(about(args, engines), indent=1) + "\n")
            for engine in engines:
                trial.prepare(engine)
            for turn in range(1, args.rounds + 1):
                parts = [lambda turn=turn: trial.record(turn)]
                parts += [lambda turn=turn, e=engine: trial.serve(turn, e) for engine in engines]
                # Another one begins each round.
                first = (turn - 1) % len(parts)
                for part in parts[first:] + parts[:first]:
                    part()
    operations(args)


if __name__ == "__main__":
    main()
