"""What a stage of AMD's matrix products takes of a unit, from the machine code: a page of predictions.

Called by scripts/amd_stages.sh, which installs the compiler. Nothing is measured. Of each product by the matrix
units of CDNA it counts what stands in the loop over stages, and divides by what kernels/rates.toml and
data/parts/ say that the hardware does each clock. Half of the waves multiply while the others read and write
shared memory (kernels/include/lane_product.h): a stage takes twice the longer of the two, or as long as what is
under way needs to come.
"""

import argparse
import dataclasses
import math
import pathlib
import re
import sys
import tomllib

import claims
import kernels_amd
import sm_timing

ROOT = kernels_amd.ROOT
SIMDS, LANES, WAVES, BLOCK_WAVES = 4, 64, 8, 4
# Cycles that an instruction of a wave's 64 lanes takes the 16 lanes of a SIMD.
VECTOR = 4
SIZE = 8192
# How data/parts names an element type, and its bytes.
TYPES = {"bf16": ("bf16", 2), "f16": ("fp16", 2), "tf32": ("tf32", 4), "fp8": ("fp8", 1),
         "f32": ("fp32", 4), "int8": ("int8", 1), "f64": ("fp64", 8), "mxfp8": ("fp8", 1),
         "mxfp4": ("fp4", 0.5)}
# Columns of C of a wave, and of a tile.
WAVE_COLUMNS, COLUMNS = 64, 256
BYTES = {"b32": 4, "b64": 8, "b128": 16, "dword": 4, "dwordx2": 8, "dwordx4": 16}
NOTE = """<!-- Written by scripts/amd_stages.sh. -->
# Matrix products and attention of CDNA: what a stage takes

**Predicted from machine code, not measured on a GPU.** Clang 22 made it; what hipRTC makes of the same text may
differ. What is counted is one stage of the loop: 64 bytes along k of a tile of C, 128 where one
instruction multiplies 128. Half of the waves multiply while the other half read fragments and write the next stage.

- *Instructions*, *VALU*: of one wave, without those of the matrix units in the second.
- *Registers*: VGPRs of a lane; 256 let two waves share a SIMD, as all of these do.
- *Matrix*, *LDS*: cycles of one half of the waves: instructions of the matrix units at their rate by the data
  sheet, and bytes of shared memory. `tests/kernel_arithmetic.rs` demands that none of them meets a bank
  twice, except what copies of `cdna4_mfma_direct` write, which it does not count.
- *Phase*: the longer of LDS and VALU, and the way to shared memory and back.
- *Ahead*: stages that stay under way while a stage is multiplied; *waits*: those inside of it for what was
  asked for in the same turn, which the proofs forbid.
- *L2*: bytes that a unit asks for each clock.
- *Loop*: the share of the matrix units' peak that the loop can reach, by the assumptions of
  `kernels/rates.toml` that are least and most favourable.
- *Rounds*: how full the rounds of tiles of an 8192 x 8192 x 8192 product are, a last round of half tiles counted as
  half, of which it is up to 1.07 times by the least favourable rates; the *share* that is left of the peak at whatever
  clock the device holds. Starts and ends of tiles, and what caches miss, are not counted.

"""
HEAD = ["kernel", "part", "instructions", "VALU", "registers", "matrix", "LDS", "phase", "ahead", "waits",
        "L2", "loop", "rounds", "share"]
# Of products of few rows: bytes of B that a wave loads in a stage, and stages that the loop has.
FEW_BYTES, FEW_STAGES = 8192, 2
FEW_NOTE = """
## Products of few rows

Each wave loads 8 KiB of B for a stage, and multiplies one stage while another is on its way (`lane_skinny.h`).
Cycles are those in which all 8 waves of a unit get and multiply one stage each.

- *Memory*: what a unit's share of the data sheet's bandwidth needs for B. *Matrix*, *VALU*: what the waves of
  one SIMD need of it.
- *Under way*: KiB of B that a unit has asked for while it multiplies, at least. *Needed*: KiB that bandwidth and the
  longest latency of `kernels/rates.toml` ask for.
- *Share*: of the bandwidth, that the loop can reach. Starts, ends and sums that blocks share are not counted.

"""
FEW_HEAD = ["kernel", "part", "rows", "instructions", "memory", "matrix", "VALU", "under way", "needed", "share"]

# Attention: of a wave's 64 lanes, cycles of an exponential beyond those of other instructions (a quarter of
# their rate: CDNA 3 ISA, transcendental instructions).
EXPONENTIAL = 12
PREFILL_NOTE = """
## Prefill

Where registers allow it two blocks of 4 waves share a unit, so that each SIMD has two waves, which neither wait for
each other nor meet. A turn of a wave is 32 queries and 64 keys. Instructions are those of the usual way through
the loop: a wave jumps over the correction of its sums where no weight became too large, and over the mask.

- *Matrix*, *vector*: cycles that a turn of one wave takes its SIMD's matrix unit and its other lanes. *LDS*: cycles
  that a turn of all waves takes the unit's shared memory.
- *Share*: of the peak of the matrix units. Lowest where nothing of one wave runs beside anything of the other;
  highest where one multiplies while the other makes weights, and the busier of the two is never idle.
- *Speed*: TFLOP/s of it at the data sheet's clock, for heads whose keys and values a cache holds; units are taken
  to be full. *Published*: what AITER reached of 8192 queries and keys without a mask (ROCm/aiter
  op_tests/cpp/mha/README.md), on another machine at whatever clock it held.

"""
PREFILL_HEAD = ["kernel", "part", "instructions", "VALU", "exponentials", "registers", "blocks", "matrix", "vector",
                "LDS", "share", "speed", "published"]
PUBLISHED = {("bf16_128", "MI300X"): "577", ("bf16_128", "MI355X"): "1323"}
DECODE_NOTE = """
## Decode

Each of a block's 4 waves takes its own keys of every tile and waits for no other wave; in latent attention (`mla`)
they take 16 heads each of the same keys. The next keys and values are on their way while these are in use.

- *Under way*: KiB of keys and values that the waves of a unit have asked for, at least. *Needed*: KiB that bandwidth
  and the longest latency of `kernels/rates.toml` ask for.
- *Memory*: cycles in which a unit's share of the data sheet's bandwidth brings a tile. *Matrix*, *vector*: those of
  the waves of one SIMD. *LDS*: those of shared memory.
- *Share*: of the bandwidth, that the loop can reach: by the longest latency, with shared memory beside nothing else;
  and by the shortest, with shared memory beside everything. Starts, ends and sums
  that blocks share are not counted.

"""
DECODE_HEAD = ["kernel", "part", "instructions", "VALU", "registers", "memory", "matrix", "vector", "LDS", "under way",
               "needed", "share"]


# Products whose tiles blocks share: rows of a tile, stages that a stretch has at least (lane_stream_k.h), the share of
# rounds that they fill at most (amd.toml), and shapes.
SHARED_ROWS, STRETCH_LEAST, FILLED_MAX = 128, 24, 0.7
SHARED_SIZES = ((2048, 2048, 2048), (256, 4096, 4096), (1024, 4096, 8192), (2304, 4608, 4096))
SHARED_NOTE = """
## Products whose tiles blocks share

Where tiles of 128 x 256 fill at most 0.7 of the rounds of all units, blocks share them along k (`lane_stream_k.h`).

- *Filled*: the share of their rounds, which is all that the kernels above can reach.
- *Stages*: what a block makes, at most. *Parts*: in how many a tile is made, at most; the last block to leave its
  part reads and adds those of the others.
- *Cycles*: thousands of whole tiles and halves, and of shared ones, by the middle of the assumed rates: stages, sums that
  are left, the latency of a load for these and twice for the count, and parts that are read. Starts and ends of tiles are
  not counted. *Times*: how much faster that is, by the rates that are least and most favourable to it.

"""
SHARED_HEAD = ["kernel", "part", "m, n, k", "instructions", "VALU", "registers", "filled", "stages", "parts", "cycles",
               "times"]


@dataclasses.dataclass
class Stage:
    """Of one stage: counts of one wave, bytes that a lane moves."""
    instructions: float
    vector: float
    operations: float
    read: float
    written: float
    asked: float
    ahead: int
    copied: bool
    waits: int


def moved(text):
    """Bytes of shared or global memory that one lane moves."""
    match = re.match(r"(?:ds|buffer|global)_(?:read|write|load|store)(2st64|2)?_(\w+)", text)
    return BYTES[match[2]] * (2 if match[1] else 1)


def multiplied(text):
    """Operations of one instruction of the matrix units."""
    return 2 * math.prod(int(side) for side in re.search(r"(\d+)x(\d+)x(\d+)", text).groups())


def stage_of(machine):
    """What the loop over stages of one entry does, by the stage."""
    loop = claims.innermost(machine, 2, "v_mfma")[0]
    texts = [machine.code[at].text for at in loop.body]
    stages = sum(text.startswith("s_barrier") for text in texts) // 2
    matching = lambda pattern: [text for text in texts if re.match(pattern, text)]
    total = lambda pattern: sum(map(moved, matching(pattern))) / stages
    copies = matching(r"buffer_load.* lds$")
    # What still is under way behind the last wait of a stage for what is kept.
    left = [int(count) for text in texts for count in re.findall(r"vmcnt\((\d+)\)", text)]
    loads = len(matching(r"(buffer|global)_load")) / stages
    return Stage(
        instructions=len(texts) / stages,
        vector=len(matching(r"v_(?!mfma)")) / stages,
        operations=sum(map(multiplied, matching("v_mfma"))) / stages,
        read=total("ds_read"), written=total("ds_write") + sum(map(moved, copies)) / stages,
        asked=total(r"(buffer|global)_load"),
        ahead=2 if stages == 2 and min(left) >= loads else 1,
        copied=len(copies) == len(matching(r"(buffer|global)_load")),
        waits=waits(machine, loop))


def waits(machine, loop):
    """Waits that a load of the same turn has to end for."""
    terms = claims.parsed(r"no s_waitcnt .*vmcnt\(0\) from (buffer|global)_load to ds_read")
    found, places = 0, set(machine.places(loop, terms.what))
    for place in sorted(places):
        found += claims.between(terms, machine, loop, {place}) is not None
    return found


def tile_rows(stage, size):
    """Rows of a tile, by what a wave reads of its rows and columns along k and how often it multiplies."""
    of_rows = stage.operations * size / (2 * WAVE_COLUMNS)
    along = (LANES * stage.read - of_rows) / WAVE_COLUMNS
    return 2 * of_rows / along


def predicted(stage, matrix, rates, which):
    """Cycles of shared memory, of the memory's half of a stage, and of a whole one."""
    rate = lambda name: rates[name].get(which, rates[name]["value"])
    lds = WAVES / 2 * LANES * (stage.read / rate("lds_read") + stage.written / rate("lds_write"))
    phase = max(lds, VECTOR * stage.vector) + rate("lds_latency")
    way = rate("load_latency") + (0 if stage.copied else phase)
    return lds, phase, max(2 * max(matrix, phase), way / stage.ahead) + stage.waits * rate("load_latency")


def row_of(entry, element, machine, registers, part, rates):
    units = part["units"] // part.get("devices_per_package", 1)
    name, size = TYPES[element]
    stage = stage_of(machine)
    matrix = stage.operations / (part["flop_per_clk_per_unit"][f"{name}_matrix"] / SIMDS)
    lds, phase, cycles = predicted(stage, matrix, rates, "value")
    shares = [2 * matrix / predicted(stage, matrix, rates, which)[2] for which in ("slow", "fast")]
    tiles = math.ceil(SIZE / tile_rows(stage, size)) * math.ceil(SIZE / COLUMNS)
    # Where half of the units would have no tile of the last round, kernels with a loop of their own for it
    # divide its tiles in two.
    halves = len(claims.innermost(machine, 1, "v_mfma")) > 1 and 2 * (tiles % units) <= units
    last = math.ceil(tiles / units) - tiles // units
    full = tiles / units / (tiles // units + (last / 2 if halves else last))
    span = lambda low, high: f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f}-{high:.2f}"
    return [entry, part["name"].split(" (")[0].replace("Instinct ", ""), f"{stage.instructions:.0f}",
            f"{stage.vector:.0f}", str(registers), f"{matrix:.0f}", f"{lds:.0f}", f"{phase:.0f}",
            str(stage.ahead), str(stage.waits), f"{WAVES * LANES * stage.asked / cycles:.0f}", span(*shares),
            f"{full:.2f}", span(*(share * full for share in shares))]


def few_rows_of(entry, element, machine, _, part, rates):
    """Of a product of few rows, a row for each number of fragments down that it is made for."""
    clock = part["clock_mhz"]["matrix"] * 1e6
    bandwidth = part["memory_bandwidth_gb_per_s"] * 1e9 / part["units"] / clock
    loops = claims.innermost(machine, 2, "v_mfma")
    texts = sorted(([machine.code[at].text for at in loop.body] for loop in loops),
                   key=lambda texts: sum(text.startswith("v_mfma") for text in texts))
    for rows, texts in zip((16, 32, 64), texts, strict=True):
        matching = lambda pattern: [text for text in texts if re.match(pattern, text)]
        each_simd = WAVES / SIMDS / FEW_STAGES
        name = TYPES[element][0]
        matrix = each_simd * sum(map(multiplied, matching("v_mfma"))) / (
            part["flop_per_clk_per_unit"][f"{name}_matrix"] / SIMDS)
        vector = each_simd * VECTOR * len(matching(r"v_(?!mfma)"))
        memory = WAVES * FEW_BYTES / bandwidth
        latency = rates["load_latency"]["slow"]
        cycles = max(memory, matrix, vector, (latency + matrix) / FEW_STAGES)
        yield [entry, part["name"].split(" (")[0].replace("Instinct ", ""), str(rows),
               f"{len(texts) / FEW_STAGES:.0f}", f"{memory:.0f}", f"{matrix:.0f}", f"{vector:.0f}",
               f"{WAVES * FEW_BYTES / 1024:.0f}", f"{bandwidth * latency / 1024:.0f}", f"{memory / cycles:.2f}"]


@dataclasses.dataclass
class Turn:
    """Of the usual way through attention's loop, of one wave: its instructions, and cycles of its SIMD."""
    texts: list
    matrix: float
    vector: float

    def matching(self, pattern):
        return [text for text in self.texts if re.match(pattern, text)]

    def moved(self, pattern):
        return sum(map(moved, self.matching(pattern)))


def turn_of(machine, element, part):
    """The loop over tiles of keys: of those that make weights, the one with the most products."""
    def worth(text):
        return 1000 if text.startswith(("v_mfma", "v_exp")) else 100 if text.startswith(("ds_", "buffer")) else 0
    def count(loop):
        return sum(machine.code[at].text.startswith("v_mfma") for at in loop.body)
    loop = max((loop for loop in machine.loops if any(machine.code[at].text.startswith("v_exp") for at in loop.body)
                and not any(count(one) for one in machine.inner(loop))), key=count)
    texts = [machine.code[at].text for at in sm_timing.usual_ways(machine, loop, worth)[0]]
    made = Turn(texts, 0.0, 0.0)
    rate = part["flop_per_clk_per_unit"][f"{element}_matrix"] / SIMDS
    made.matrix = sum(map(multiplied, made.matching("v_mfma"))) / rate
    made.vector = VECTOR * len(made.matching("v_(?!mfma)")) + EXPONENTIAL * len(made.matching("v_exp"))
    return made


def blocks_of(registers, per_unit):
    """Blocks that share a unit: a SIMD's lanes have 512 registers, and a block has one wave on each."""
    return min(per_unit, 512 // (-(-registers // 8) * 8))


def lds_of(turn, blocks, rates):
    """Cycles of shared memory for a turn of all waves of a unit."""
    return blocks * BLOCK_WAVES * LANES * (turn.moved("ds_read") / rates["lds_read"]["value"]
                                           + turn.moved("ds_write") / rates["lds_write"]["value"])


def prefill_of(entry, element, machine, registers, part, rates, per_unit):
    turn, waves = turn_of(machine, TYPES[element][0], part), blocks_of(registers, per_unit)
    lds = lds_of(turn, waves, rates)
    low = turn.matrix / (turn.matrix + turn.vector + lds / waves / SIMDS)
    high = waves * turn.matrix / max(waves * turn.matrix, waves * turn.vector, lds, turn.matrix + turn.vector)
    peak = part["flop_per_clk_per_unit"][f"{TYPES[element][0]}_matrix"] * part["units"] * (
        part["clock_mhz"]["matrix"] * 1e6 / 1e12)
    name = part["name"].split(" (")[0].replace("Instinct ", "")
    published = next((PUBLISHED[key] for key in PUBLISHED if key[0] in entry and key[1] == name), "")
    yield [entry, name, str(len(turn.texts)), str(len(turn.matching("v_(?!mfma)"))),
           str(len(turn.matching("v_exp"))), str(registers), str(waves), f"{turn.matrix:.0f}", f"{turn.vector:.0f}",
           f"{lds:.0f}", f"{low:.2f}-{high:.2f}", f"{low * peak:.0f}-{high * peak:.0f}", published]


def decode_of(entry, element, machine, registers, part, rates, per_unit):
    # An 8-bit cache is multiplied as the queries' 16-bit floats.
    turn = turn_of(machine, "bf16", part)
    bandwidth = part["memory_bandwidth_gb_per_s"] * 1e9 / part["units"] / (part["clock_mhz"]["matrix"] * 1e6)
    each_simd = blocks_of(registers, per_unit)
    lds = lds_of(turn, each_simd, rates)
    asked = SIMDS * each_simd * LANES * turn.moved("(buffer|global)_load_(dwordx|b)(2|4|64|128)")
    memory = asked / bandwidth
    shares = []
    for which, alone in (("slow", turn.matrix + turn.vector + lds / each_simd), ("fast", turn.matrix + turn.vector)):
        latency = rates["load_latency"].get(which, rates["load_latency"]["value"])
        cycles = max(memory, each_simd * turn.matrix, each_simd * turn.vector, lds, latency, alone)
        shares.append(f"{memory / cycles:.2f}")
    yield [entry, part["name"].split(" (")[0].replace("Instinct ", ""), str(len(turn.texts)),
           str(len(turn.matching("v_(?!mfma)"))), str(registers), f"{memory:.0f}",
           f"{each_simd * turn.matrix:.0f}", f"{each_simd * turn.vector:.0f}", f"{lds:.0f}", f"{asked / 1024:.0f}",
           f"{bandwidth * rates['load_latency']['slow'] / 1024:.0f}", "-".join(shares)]


def attention_rows(compiler, only, what, row):
    told = tomllib.loads((ROOT / "rates.toml").read_text())
    for file in tomllib.loads((ROOT / "amd.toml").read_text())["file"]:
        if not re.match(r"attention/cdna", file["path"]) or only not in file["path"]:
            continue
        for target in file["targets"]:
            part = tomllib.loads((ROOT.parent / "data/parts" / told[target]["part"]).read_text())
            text = kernels_amd.assembly(compiler, ROOT / file["path"], target)
            code, counted = kernels_amd.instructions(text), kernels_amd.statistics(text)
            for kernel in file["kernels"]:
                entry, (_, family, element, _) = kernel["entry"], kernel["operation"].split("/")
                if family in what and element != "f16":
                    yield from row(entry, element, claims.Machine(code[entry], re.match), counted[entry]["vgprs"],
                                   part, told[target], kernel.get("per_unit", 1))


def shared_rows_of(entry, element, machine, registers, part, rates):
    """Of a product whose tiles blocks share, a row for each shape that it is made for."""
    units = part["units"] // part.get("devices_per_package", 1)
    name, size = TYPES[element]
    stage = stage_of(machine)
    matrix = stage.operations / (part["flop_per_clk_per_unit"][f"{name}_matrix"] / SIMDS)
    depth = round(stage.operations * LANES * WAVES / LANES / (2 * SHARED_ROWS * COLUMNS))
    for m, n, k in SHARED_SIZES:
        tiles, steps = math.ceil(m / SHARED_ROWS) * math.ceil(n / COLUMNS), math.ceil(k / depth)
        rounds = math.ceil(tiles / units)
        if tiles / units / rounds > FILLED_MAX:
            continue
        wanted = max(tiles, tiles * steps // STRETCH_LEAST if steps >= 2 * STRETCH_LEAST else 0)
        workers = min(wanted, units)
        each = math.ceil(tiles * steps / workers)
        # Beyond one round a stretch is longer than a tile, which then is of two at most.
        parts = 1 if each % steps == 0 else 2 if rounds > 1 else math.ceil((steps - 1) / each) + 1

        def cycles(which):
            rate = lambda name: rates[name].get(which, rates[name]["value"])
            one = predicted(stage, matrix, rates, which)[2]
            part_of = SHARED_ROWS * COLUMNS * 4 / rate("shared_cache")
            combined = parts * part_of + 3 * rate("load_latency") if parts > 1 else 0
            return rounds * steps * one, each * one + combined
        whole, shared = cycles("value")
        times = sorted(before / after for before, after in (cycles("slow"), cycles("fast")))
        yield [entry, part["name"].split(" (")[0].replace("Instinct ", ""), f"{m}, {n}, {k}",
               f"{stage.instructions:.0f}", f"{stage.vector:.0f}", str(registers), f"{tiles / units / rounds:.2f}",
               str(each), str(parts), f"{whole / 1e3:.0f}, {shared / 1e3:.0f}", f"{times[0]:.1f}-{times[1]:.1f}"]


def rows(compiler, only, kind):
    told = tomllib.loads((ROOT / "rates.toml").read_text())
    for file in tomllib.loads((ROOT / "amd.toml").read_text())["file"]:
        if not re.match(r"gemm/cdna", file["path"]) or only not in file["path"]:
            continue
        if kind != next((kind for kind in ("skinny", "stream_k", "grouped") if kind in file["path"]), "whole"):
            continue
        target = file["targets"][0]
        part = tomllib.loads((ROOT.parent / "data/parts" / told[target]["part"]).read_text())
        text = kernels_amd.assembly(compiler, ROOT / file["path"], target)
        code, counted = kernels_amd.instructions(text), kernels_amd.statistics(text)
        for kernel in file["kernels"]:
            entry, element = kernel["entry"], kernel["operation"].split("/")[1]
            given = (entry, element, claims.Machine(code[entry], re.match), counted[entry]["vgprs"], part,
                     told[target])
            made = {"skinny": few_rows_of, "stream_k": shared_rows_of}.get(kind, lambda *given: [row_of(*given)])
            yield from made(*given)


def table(head, rows):
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, ["---"] * len(head), *rows))


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--only", default="", help="files whose path contains this")
    arguments.add_argument("--out", type=pathlib.Path, help="where the page is written")
    arguments.add_argument("compiler", nargs="+", help="a clang for AMD's targets")
    given = arguments.parse_args()
    page = table(HEAD, rows(given.compiler, given.only, "whole")) + FEW_NOTE
    page += table(FEW_HEAD, rows(given.compiler, given.only, "skinny")) + SHARED_NOTE
    page += table(SHARED_HEAD, rows(given.compiler, given.only, "stream_k")) + PREFILL_NOTE
    page += table(PREFILL_HEAD, attention_rows(given.compiler, given.only, ("prefill",), prefill_of)) + DECODE_NOTE
    page += table(DECODE_HEAD, attention_rows(given.compiler, given.only, ("decode", "mla"), decode_of))
    print(page)
    if given.out:
        given.out.write_text(NOTE + page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
