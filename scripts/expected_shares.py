"""Computes from machine code and a model what share of the hardware and of public kernels to expect.

Called by scripts/expected_shares.sh, which installs the compilers. No GPU is used and nothing is measured.
"""

import argparse
import fnmatch
import json
import pathlib
import re
import sys
import tempfile
import tomllib

import claims
import kernels
import machine_code
import share_models
import sm_timing
import tensor_memory_models
import verdicts

# The part of a row that names none.
PART = "H100 SXM"


def machine(tools, file, entries, target, cache):
    """Of some entries of a file for a target: instructions, control bits and statistics."""
    source = kernels.ROOT / file["path"]
    names = sorted(entries)

    def compiled():
        with tempfile.TemporaryDirectory() as folder:
            cubin = pathlib.Path(folder) / "kernel.cubin"
            counted = kernels.statistics(kernels.nvcc(tools, source, target, cubin))
            listing = kernels.run([tools / "cuobjdump", "-sass", cubin],
                                  env=dict(kernels.os.environ, PATH=f"{tools}:{kernels.os.environ['PATH']}"))
        code, control = machine_code.nvidia(listing), sm_timing.controls(listing)
        rows = []
        for name in names:
            assert len(code[name]) == len(control[name]), name
            rows.append([name, counted[name],
                         [[one.text, one.jump, one.falls, *vars(bits).values()]
                          for one, bits in zip(code[name], control[name])]])
        return rows, []
    rows, _ = cache.rows([verdicts.included(source, kernels.INCLUDE), names, target], compiled)
    found = {}
    for name, counted, lines in rows:
        code = [machine_code.Instruction(*line[:3]) for line in lines]
        control = [sm_timing.Control(*line[3:]) for line in lines]
        found[name] = (claims.Machine(code, kernels.is_meant), control, counted)
    return found


def rates_of(target, times):
    units = [(re.compile(pattern), name, times.get(cycles, cycles)) for pattern, name, cycles in target["opcodes"]]
    latencies = [(re.compile(pattern), times.get(cycles, cycles)) for pattern, cycles in target["latencies"]]
    return sm_timing.Rates(units, latencies, target["tensor"], target["shared_bytes"], times)


def family(operation, design):
    """The model of a kernel's family."""
    first, second = operation.split("/")[:2]
    if design.get("tensor_memory"):
        if first != "gemm":
            return tensor_memory_models.prefill
        return tensor_memory_models.few if design.get("turned") else tensor_memory_models.product
    if "least" in design:
        return share_models.few
    if "letter" in design:
        return share_models.fragments if first == "gemm" else share_models.fragments_prefill
    return share_models.FAMILIES[second if first == "attention" else first]


def evaluate(kernel, row, part, target, changed=None):
    """The time of a row, and what it is with what the model does not know; `changed`: a rate's name and
    `slow` or `fast`."""
    times = {name: one["value"] for name, one in target["rates"].items()}
    unknown = {name: one["value"] for name, one in target["unknown"].items()}
    if changed and changed[0] in times:
        times[changed[0]] = target["rates"][changed[0]][changed[1]]
    time = family(kernel.row["operation"], kernel.design)(
        kernel, rates_of(target, times), part, row["shape"])
    if changed and changed[0] == "unknown" and time.unknown in unknown:
        unknown[time.unknown] = target["unknown"][time.unknown][changed[1]]
    return time, time.total(unknown.get(time.unknown, 1.0))


def speed(time, cycles, part, unit):
    """TFLOP/s or TB/s."""
    clock = part["tensor_clock" if time.bound == "tensor" else "memory_clock"]
    return (time.operations if unit == "tflops" else time.moved) / cycles * clock / 1e12


class Row:
    """One case of one kernel, and what is expected of it."""

    def __init__(self, told, kernel, parts, peers):
        self.told, self.kernel, self.target = told, kernel, kernel.target
        self.part = parts[told.get("part", PART)]
        self.peer = peers.get(told.get("peer"))
        self.time, self.cycles = evaluate(kernel, told, self.part, self.target)
        self.unit = "tflops" if self.time.operations and (
            self.time.bound == "tensor" or "tflops" in (self.peer or {})) else "tbs"
        self.speed = speed(self.time, self.cycles, self.part, self.unit)
        self.share = self.time.limit / self.cycles
        if self.peer and self.unit not in self.peer:
            raise sm_timing.Disagreement(f"{told['peer']} is not in {self.unit}")
        # Rates of memory are compared as shares of each part's own.
        self.theirs = self.peer and (self.peer.get("tflops") or (
            self.peer["tbs"] * self.part["memory"] / parts[self.peer["part"]]["memory"]))
        self.of_peer = self.theirs and self.speed / self.theirs

    def point(self):
        """The case's point, as a record has it, as far as the shape says."""
        shape, names = self.told["shape"], self.kernel.row["operation"].split("/")
        if names[0] == "attention":
            dim_qk, dim_v = (int(one) for one in names[3].split("x"))
            queries = shape["length"] if names[1] == "prefill" else 1
            return {"operation": "attention", "attention": names[1], "dtype": names[2],
                    "batch": shape["batch"], "heads": shape["heads"], "kv_heads": shape["kv_heads"],
                    "queries": queries, "keys": shape.get("keys", queries), "dim_qk": dim_qk,
                    "dim_v": dim_v, "mask": "causal" if shape.get("causal") else "full",
                    "page": shape.get("page")}
        if names[0] == "gemm":
            return {"operation": "gemm", "dtype": names[1], **shape}
        if names[0] == "stream":
            return {"operation": "stream", "stream": names[1], "working_set": shape["bytes"]}
        return {"operation": names[0], "dtype": names[1]}

    def name(self):
        """Like a case's id."""
        at, kernel = self.point(), self.kernel.row["name"]
        if at["operation"] == "attention":
            page = f"-page{at['page']}" if at["page"] else ""
            return (f"{at['attention']}/{at['dtype']}/b{at['batch']}-h{at['heads']}-kv{at['kv_heads']}"
                    f"-q{at['queries']}-k{at['keys']}-d{at['dim_qk']}x{at['dim_v']}-{at['mask']}{page}"
                    f"/{kernel}")
        if at["operation"] == "gemm":
            return f"gemm/{at['dtype']}/{at['m']}x{at['n']}x{at['k']}/{kernel}"
        return f"{self.kernel.row['operation']}/{kernel}"

    def blocks(self):
        """How many of its blocks an SM can have at once."""
        threads = self.kernel.row["threads"]
        of_registers = kernels.REGISTERS // (-(-self.kernel.registers // 8) * 8 * threads)
        shared = self.kernel.row.get("shared", 0) + 1024
        of_unit = kernels.SHARED[re.search(r"\d+", self.part["target"])[0]]
        return min(of_registers, (of_unit + 1 << 10) // shared, 2048 // threads)

    def effects(self):
        """How much each rate changes the time, as a share of it: the slow and the fast end of its range."""
        found = {}
        for name in [*self.target["rates"], "unknown"]:
            found[name] = tuple(
                self.cycles / evaluate(self.kernel, self.told, self.part, self.target, (name, end))[1] - 1
                for end in ("slow", "fast"))
        return found

    def span(self, effects):
        """The lower and upper end of the share of the peer, or of the limit where there is none: rates are
        off independently."""
        middle = self.of_peer or self.share
        down = sum(min(0.0, *one) ** 2 for one in effects.values()) ** 0.5
        up = sum(max(0.0, *one) ** 2 for one in effects.values()) ** 0.5
        return middle * (1 - down), middle, middle * (1 + up)

    def limiting(self):
        """The largest of what is added to the hardware's limit."""
        terms = dict(self.time.terms)
        inside = (self.time.limit + sum(terms.values()))
        terms["memory traffic"] = max(0.0, self.time.memory - inside)
        if not terms["memory traffic"]:
            terms["unknown"] = self.cycles - inside
        return max(terms, key=terms.get) if max(terms.values()) > 0.02 * self.cycles else "none"


NOTE = """<!-- Written by scripts/expected_shares.sh. -->
# Expected shares of kernels for Hopper, Blackwell, Ampere and Ada

**Nothing here was measured.** `scripts/expected_shares.sh` computed every figure, on a machine without a
GPU, from three things: the machine code that nvcc 13.0 makes of each kernel, what
[kernels/rates.toml](../../kernels/rates.toml) has of the hardware, and what others published of other machines
([kernels/shares.toml](../../kernels/shares.toml)). It is there to decide what to improve first, and to be
compared with what a GPU will say ([tuning.md](../tuning.md)).

How a row comes about: `scripts/sm_timing.py` follows the usual way of each warpgroup through the loop that is
timed and issues its instructions one by one on a model of a quarter of an SM. Stall cycles and scoreboards
are those of the machine code; tensor cores, exponentials, shared memory, barriers, fences and loads take
what rates.toml says. `scripts/share_models.py` adds what is around the loop: L2 and memory traffic, the
prologue and the stores of a tile where they are not overlapped, the last wave over all SMs, the combination
of split parts. Where products go into tensor memory, `scripts/tensor_memory_models.py` does the same: one
thread asks for them, so the tensor cores wait for stages from L2, and in prefill for the warps that make
weights of a tile's scores.

- **limit**: what the case takes where the tensor cores, or reads of memory, do nothing else.
- **exposed**: cycles that are added, by cause. *loop*: the loop's turns beyond their products; *types*:
  products of wider types than the operands; *unknown*: what no term explains, by which the model is off for
  the public kernel itself. *memory traffic*: memory takes longer than all of these.
- **in flight**: KiB of loads on their way or in use, for each SM.
- **share of peer**: the published figure is of another machine and another shape near this one, so this
  column is an estimate of a ratio and no result. In brackets: where rates that sources leave open are at the
  ends of their ranges, each independently of the others.
- **most open**: the rate whose range changes the share most, and by how much.

"""

UNKNOWN = """
## What the model cannot know

- How many products the tensor cores queue: it assumes all that a warpgroup asked for.
- How registers' banks and ports slow other instructions beside products: one factor (`contention`), which is
  set so that the loop of prefill with heads of 128, without overlap inside the warpgroup, is as much slower
  as FlashAttention-3's is.
- The clock under the power limit, and how operands change it: one clock is assumed for all products. B200's
  follows from one published speed and one published share of another machine, so its shares of peers say less
  than its shares of the limit.
- How fast warps load and store tensor memory: nobody published it.
- L2's two halves, its clock beside the SM's, hashing, and order: one sustained rate, and a size that it keeps.
- What memory and L2 do to each other's latency: one latency under load, whatever the load is.
- Branches that are seldom taken: masks of the diagonal, corrections of sums, retries of barriers.
"""


# What each term that can limit a row is, in words.
REASONS = {
    "loop": "a turn of the loop takes longer than its products or its reads of memory: what the turn does "
            "beside them is not hidden behind them",
    "starts and ends of parts": "between two parts of a schedule queries come, sums of warpgroups are added "
                                "and stored, and no tile is multiplied meanwhile",
    "combine": "sums of parts are left in scratch memory, a fence and counts follow, and only then are they "
               "read and added",
    "uneven": "parts are whole blocks of keys, so that some units have one more than others",
    "first stage": "the first stage comes from memory while nothing is multiplied",
    "launch": "the case is so short that the launch and its end weigh",
    "latency": "bytes in flight are too few for the latency of memory",
    "memory": "rounds of tiles pull more bytes than memory gives meanwhile",
    "L2": "stages take longer from L2 than they take to multiply",
    "last wave": "tiles do not fill the last round of all units",
    "epilogue": "sums are stored while nothing is multiplied",
    "memory traffic": "memory takes longer than all terms of the units",
    "bytes in flight": "bytes in flight are too few for the latency of memory",
    "unknown": "what no term of the model has, as for the public kernel",
    "types": "products are of wider types than the operands",
}


def reasons(rows):
    """Of each row whose share is below 0.90 what limits it, in words."""
    lines = ["", "## Why shares are below 0.90", ""]
    for row in rows:
        share, limiting = row.of_peer or row.share, row.limiting()
        if share < 0.9:
            cycles = row.time.terms.get(limiting, 0.0)
            much = f" ({cycles / 1e3:.0f} of {row.cycles / 1e3:.0f} thousand cycles)" if cycles else ""
            lines.append(f"- `{row.name()}`, {share:.2f}: {limiting}{much}. "
                         f"{REASONS[limiting][0].upper()}{REASONS[limiting][1:]}.")
    return "\n".join(lines) + "\n"


def table(rows):
    heads = ["case", "part", "limit", "exposed, thousands of cycles", "registers", "blocks an SM",
             "in flight", "share of limit", "expected", "peer, as published", "share of peer",
             "limiting", "most open"]
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for row in rows:
        effects = row.effects()
        low, middle, high = row.span(effects)
        most = max(effects, key=lambda name: max(map(abs, effects[name])))
        unit = {"tflops": "TFLOP/s", "tbs": "TB/s"}[row.unit]
        terms = {name: value for name, value in row.time.terms.items() if value > 0.01 * row.cycles}
        peer = row.peer and (f"{row.peer['name']}: {row.peer.get('tflops') or row.peer['tbs']} {unit}, "
                             f"{row.peer['of']}")
        number = ".0f" if row.unit == "tflops" else ".2f"
        lines.append("| " + " | ".join([
            row.name(), row.part["name"], f"{row.time.bound}, {row.time.limit / 1e3:.0f}",
            ", ".join(f"{name} {value / 1e3:.0f}" for name, value in terms.items()) or "none",
            str(row.kernel.registers), str(row.blocks()),
            f"{row.time.in_flight / 1024:.0f}" if row.time.in_flight else "",
            f"{row.share:.2f}", f"{row.speed:{number}} {unit}", peer or "",
            f"{middle:.2f} ({low:.2f} to {high:.2f})" if row.peer else "", row.limiting(),
            f"{most}: {100 * min(effects[most]):+.0f} to {100 * max(effects[most]):+.0f} %"]) + " |")
    return "\n".join(lines) + "\n"


# --- What will be measured first.

TUNING = """<!-- Written by scripts/expected_shares.sh. -->
# Tuning on a GPU: what to measure first

Predictions of [expected-shares.md](appendix/expected-shares.md) beside what records say. The cases whose shares are
expected to be lowest come first, since there is most to win and most to learn of the model. Where a
measurement is off by more than a tenth, look at the named rate first: the model, or the kernel, is wrong.

`scripts/expected_shares.sh` fills the column *measured* from every `record.jsonl` below `results/` that was
made on an H100 or H200, not by a stub driver. {found}

"""


def measured(folder, parts):
    """Measurements of records below a folder that were made on one of these parts, in the order of time: part,
    point, kernel, outcome."""
    records = []
    for path in folder.glob("**/record.jsonl"):
        part, started, lines = None, "", []
        for text in path.read_text().splitlines():
            try:
                line = json.loads(text)
            except json.JSONDecodeError:
                continue
            if line.get("line") == "header":
                device = line.get("device", {})
                fitting = (one for one in parts if one.split()[0] in device.get("name", ""))
                part = None if device.get("vendor") == "stub" else next(fitting, None)
                started = line.get("started", "")
            elif part and line.get("outcome") == "measured":
                lines.append((part, line["case"]["point"], line["case"]["kernel"], line))
        records.append((started, lines))
    records.sort(key=lambda one: one[0])
    return [line for _, lines in records for line in lines]


def of_row(row, records, parts):
    """The last measurement of a row's case, in the row's unit: on the row's part, or else, where arithmetic
    bounds it, on another one whose arithmetic is the same."""
    wanted, unit, found = row.point(), row.unit, {}
    for part, point, kernel, line in records:
        if (kernel == row.kernel.row["name"]
                and all(point.get(name) == value for name, value in wanted.items())):
            work = line["work"]["flops" if unit == "tflops" else "memory"]
            found[part] = work / line["summary"]["median"] / 1e12
    own = row.part["name"]
    if own in found:
        return f"{found[own]:.2f}"
    alike = {part: speed for part, speed in found.items()
             if unit == "tflops" and parts[part]["target"] == row.part["target"]}
    return ", ".join(f"{speed:.2f} on {part}" for part, speed in alike.items())


def tuning(rows, records, parts):
    found = f"There are {len(records)} such measurements." if records else "There is none yet."
    heads = ["case", "part", "predicted", "measured", "share of peer, predicted", "what limits"]
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for row in sorted(rows, key=lambda one: one.of_peer or one.share):
        unit = {"tflops": "TFLOP/s", "tbs": "TB/s"}[row.unit]
        lines.append(f"| {row.name()} | {row.part['name']} | {row.speed:.2f} {unit} "
                     f"| {of_row(row, records, parts)} | "
                     + (f"{row.of_peer:.2f}" if row.of_peer else f"{row.share:.2f} of the limit")
                     + f" | {row.limiting()} |")
    return TUNING.format(found=found) + "\n".join(lines) + "\n"


# --- That the model reacts.

def check(rows):
    """Faults planted into a kernel's steps must make it slower: those that do not."""
    faults = []
    for row in rows:
        kernel, entry = row.kernel, row.told["entry"]
        times = {name: one["value"] for name, one in row.target["rates"].items()}
        rates = rates_of(row.target, times)

        def costs(what, before, after):
            print(f"{entry}: {what}: {before:.0f} become {after:.0f}")
            return [] if after > 1.02 * before else [f"{entry}: {what} costs nothing"]
        if kernel.design.get("tensor_memory"):
            faults += costs(*tensor_memory_models.planted(kernel, rates))
            continue
        if kernel.row["operation"].startswith("gemm") and not kernel.design.keys() & {"least", "letter"}:
            faults += costs("cycles of a turn with three fences", share_models.loop_turn(kernel, rates),
                            planted(kernel, rates, sm_timing.fenced))
        if kernel.row["operation"].startswith("attention/prefill") and "letter" not in kernel.design:
            faults += costs("cycles of a turn without overlap inside the warpgroup",
                            planted(kernel, rates, sm_timing.together),
                            planted(kernel, rates, sm_timing.apart))
    widths = [("STG.E.128", 1), ("STG.E", 4)]
    wide, narrow = (count * share_models.stored(text) for text, count in widths)
    print(f"bytes of L2 for 16 bytes of a thread by one store: {wide}; by four: {narrow}")
    return faults + ([] if narrow > wide else ["narrow stores cost nothing"])


def planted(kernel, rates, change):
    """A turn of the main loop with a change of each warpgroup's steps."""
    made = [change(share_models.steps(kernel, rates, way, group))
            for group, way in enumerate(kernel.ways())]
    return sm_timing.Quarter(made, share_models.TURNS, rates).run().turn()


def rows_of(given):
    told, rates = (tomllib.loads((kernels.ROOT / name).read_text())
                   for name in ("shares.toml", "rates.toml"))
    for target in (one for one in rates.values() if "like" in one):
        target.update({**rates[target["like"]], **target})
    parts = {part["name"]: part for part in rates["part"]}
    peers = {peer["name"]: peer for peer in told["peer"]}
    files = tomllib.loads((kernels.ROOT / "kernels.toml").read_text())["file"]
    cache = verdicts.Verdicts(sm_timing.__file__, machine_code.__file__, kernels.__file__, __file__)
    wanted = [row for row in told["row"] if given.only in row["entry"]]
    made, of_target = {}, {row["entry"]: parts[row.get("part", PART)]["target"] for row in wanted}
    for file in files:
        entries = {kernel["entry"]: kernel for kernel in file["kernels"] if kernel["entry"] in of_target}
        for target in {of_target[name] for name in entries} & set(file["targets"]):
            names = {name: row for name, row in entries.items() if of_target[name] == target}
            for name, (code, control, counted) in machine(given.bin, file, names, target, cache).items():
                design = next((one for one in told["design"] if any(
                    fnmatch.fnmatchcase(name, pattern) for pattern in one["entries"])), {})
                made[name] = share_models.Kernel(entries[name], code, control, counted["registers"], design,
                                                 rates[target])
    missing = of_target.keys() - made.keys()
    if missing:
        print(f"rows of no kernel are left out: {', '.join(sorted(missing))}", file=sys.stderr)
    rows = []
    for row in wanted:
        try:
            if row["entry"] in made:
                rows.append(Row(row, made[row["entry"]], parts, peers))
        except (sm_timing.Disagreement, KeyError) as error:
            raise sm_timing.Disagreement(f"{row['entry']}: {error}") from error
    return rows


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--bin", type=pathlib.Path, required=True, help="folder of nvcc")
    arguments.add_argument("--only", default="", help="entries that contain this")
    arguments.add_argument("--check", action="store_true", help="plant faults; write nothing")
    arguments.add_argument("--out", type=pathlib.Path, help="where both pages are written")
    given = arguments.parse_args()
    try:
        rows = rows_of(given)
    except sm_timing.Disagreement as error:
        sys.exit(f"kernels/shares.toml is not what the machine code has: {error}")
    if given.check:
        faults = check(rows)
        print("\n".join(f"fault: {fault}" for fault in faults) or "planted faults cost what they should")
        return 1 if faults else 0
    page = table(rows)
    print(page)
    if given.out:
        parts = {row.part["name"]: row.part for row in rows}
        records = measured(kernels.ROOT.parent / "results", parts)
        (given.out / "appendix" / "expected-shares.md").write_text(NOTE + page + reasons(rows) + UNKNOWN)
        (given.out / "tuning.md").write_text(tuning(rows, records, parts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
