"""Models of kernels that multiply into tensor memory, as compute capability 10 does: what a case's time is made
of. Called by scripts/expected_shares.py.

One thread has everything multiplied, so the tensor cores wait for nothing but its instructions, the stages that
come, and where scores become weights, the warps that make them. Cycles are of the SM's clock.
"""

import math
import re

import share_models
import sm_timing
from share_models import Time, memory_rate, simulated

MULTIPLY = re.compile(r"UTC([HQIO])MMA")
MULTIPLICATIONS = tuple(f"UTC{letter}MMA" for letter in "HQIO")
# Bytes along k of one multiplication, and rows of A that an SM has of it.
STEP, ROWS = 32, 128
# Bytes along k of a stage.
STAGE_STEP = 128
# Columns of tensor memory that one load of a warp reads, and the turns of a loop that are simulated.
WORDS, TURNS = 32, 10
# Types whose elements share scales: bytes of an element, and elements for each scale of a byte.
SCALED = {"mxfp8": (1, 32), "mxfp4": (0.5, 32), "nvfp4": (0.5, 16)}


def innermost(machine, opcode):
    """Loops with such an instruction and without another such loop inside, in the order of the text."""
    def count(loop):
        return sum(machine.code[at].text.startswith(opcode) for at in loop.body)
    return [loop for loop in machine.loops if count(loop) and not any(count(one) for one in machine.inner(loop))]


def largest(machine, opcode):
    """Of loops with such an instruction, as innermost has them, the one with most of them, and of two with as many
    the one that has more scales copied: of whole tiles, where another is of halves."""
    found = innermost(machine, opcode)
    if not found:
        raise sm_timing.Disagreement(f"no loop with {opcode}")
    return max(found, key=lambda loop: [sum(machine.code[at].text.startswith(one) for at in loop.body)
                                        for one in (opcode, "UTCCP")])


def letters_of(machine):
    """The letter of each multiplication on the usual way through the loop that has most of them."""
    way = way_of(machine, largest(machine, MULTIPLICATIONS), MULTIPLICATIONS)
    found = (MULTIPLY.match(machine.code[at].text) for at in way)
    return [match[1] for match in found if match]


def way_of(machine, loop, opcodes):
    """The usual way through a loop: that with the most of some opcodes."""
    return sm_timing.usual_ways(machine, loop, lambda text: 1000 if text.startswith(opcodes) else 0)[0]


@simulated
def turn_of(kernel, rates, opcode):
    """Cycles of a turn of the loop with an opcode by one warp, where all that it waits for is there."""
    return sm_timing.Quarter([steps_of(kernel, rates, opcode)], TURNS, rates).run().turn()


def steps_of(kernel, rates, opcode):
    way = way_of(kernel.machine, largest(kernel.machine, opcode), opcode)
    return sm_timing.steps_of(kernel.machine, kernel.control, way, rates, 0, 1, ((), ()))


def rate(kernel, rates, letter):
    """Operations of the tensor cores of an SM, each clock."""
    return rates.flops["T" if "/tf32" in kernel.row["operation"] else letter]


def multiplication(rates, flops, columns, read):
    """Cycles of one multiplication of 128 rows and 32 bytes along k of an SM: by its operations or by the bytes of
    shared memory that it reads, and those between two."""
    return max(flops, read / rates.shared_bytes) + rates.times["between"]


def element_bytes(kernel):
    names = {"fp8": 1, "int8": 1, "bf16": 2, "f16": 2, "tf32": 4, **{name: one for name, (one, _) in SCALED.items()}}
    return next(names[part] for part in kernel.row["operation"].split("/") if part in names)


def scale_bytes(kernel):
    """Bytes of scales for each element."""
    scaled = SCALED.get(kernel.row["operation"].split("/")[1])
    return 1 / scaled[1] if scaled else 0.0


def copies_of_scales(machine):
    """Copies of scales to tensor memory on the usual way through the loop that multiplies."""
    way = way_of(machine, largest(machine, MULTIPLICATIONS), MULTIPLICATIONS)
    return sum(machine.code[at].text.startswith("UTCCP") for at in way)


def shared_columns(design, rates):
    """Cycles from the end of a tile until those of its columns are read that the next tile's sums need."""
    loads = design.get("shared_columns", 0) / WORDS
    return loads and rates.times["product"] + loads * (rates.times["columns"] + rates.latency("LDTM"))


def product(kernel, rates, part, shape):
    """A product whose tiles are made by one block, or by a pair of blocks."""
    m, n, k = shape["m"], shape["n"], shape["k"]
    machine, design, size = kernel.machine, kernel.design, element_bytes(kernel)
    blocks, columns = kernel.row.get("cluster", 1), design["columns"]
    workers = kernel.target["units"] // blocks
    letters, scale = letters_of(machine), scale_bytes(kernel)
    # Bytes along k of a multiplication, and stages that a turn of the loop takes.
    step = design.get("step", STEP)
    depth, taken = int(len(letters) * step / size), len(letters) * step / STAGE_STEP
    tensor = rate(kernel, rates, letters[0])
    one = 2 * ROWS * columns * step / size / tensor
    pure = len(letters) * one
    read = (ROWS + columns / blocks) * step
    bytes_of_turn = (ROWS + columns // blocks) * (len(letters) * step + depth * scale)
    stages = design["stages"]
    # The tensor cores have scales copied between multiplications.
    copied = copies_of_scales(machine) * rates.times["scales"] if scale else 0.0
    times = {"loop": max(turn_of(kernel, rates, MULTIPLICATIONS),
                         len(letters) * multiplication(rates, one, columns, read) + copied),
             "copies": turn_of(kernel, rates, "UTMALDG"),
             "L2": bytes_of_turn / rates.times["l2"],
             "latency": rates.times["memory_latency"] / (stages - 1) * taken}
    tiles = math.ceil(m / ROWS / blocks), math.ceil(n / columns)
    count, turns = tiles[0] * tiles[1], math.ceil(k * size / step) / len(letters)
    rounds = math.ceil(count / workers)
    # A last round that is at most half full is of halves of tiles, which need more bytes for each operation.
    halves = design.get("halves", False) and 0 < 2 * (count % workers) <= workers
    traffic = share_models.raster_bytes(tiles, workers, design["raster"], (ROWS * blocks, columns),
                                        k * (size + scale),
                                        kernel.target["l2_kept"])
    work = 2 * m * n * k / tensor / kernel.target["units"]
    out = 2 if size <= 2 and "int8" not in kernel.row["operation"] else 4
    moved = (m * k + n * k) * (size + scale) + out * m * n
    units = kernel.target["units"]
    memory = moved / units / memory_rate(part, rates, clock="tensor_clock", units=units)
    times["memory"] = traffic / units / memory_rate(part, rates, clock="tensor_clock", units=units) / (
        rounds * turns)
    slowest = max(times, key=times.get)
    # A turn reads as many columns of sums as it has loads.
    loads = sum(machine.code[at].text.startswith("LDTM") for at in largest(machine, "LDTM").body)
    written = turn_of(kernel, rates, "LDTM") * columns / (WORDS * loads)
    # A block that makes a half with another has scales of all of its columns copied.
    half_stage = (ROWS + columns / 2 / blocks) * len(letters) * step + (ROWS + columns / 2) * depth * scale
    # Halves have no longer multiplications than others.
    half = max(times[slowest] / 2 * step / STEP, half_stage / rates.times["l2"])
    saved = turns * (times[slowest] - half) if halves else 0.0
    terms = {"last wave": rounds * turns * pure - work - saved,
             slowest: rounds * turns * (times[slowest] - pure),
             # Columns that two tiles share are read between them.
             "shared columns": (rounds - 1) * shared_columns(design, rates),
             # A tile's sums are written while the next one is made; the last one's while nothing is.
             "epilogue": max(0.0, written - turns * times[slowest]) * (rounds - 1) + written,
             "first stage": rates.times["memory_latency"] + rates.times["product"],
             "launch": rates.times["launch"]}
    return Time(work, "tensor", terms, "gemm", 2 * m * n * k, moved, (stages - 1) * bytes_of_turn / taken,
                memory=memory + rates.times["launch"])


def few(kernel, rates, part, shape):
    """A product of few rows, whose operands are turned: tiles of 128 columns of C by one block, or by the blocks of
    a cluster, each with a part of k. B must come as fast as memory gives it."""
    m, n, k = shape["m"], shape["n"], shape["k"]
    units, size, design = kernel.target["units"], element_bytes(kernel), kernel.design
    blocks, [rows, _] = kernel.row.get("cluster", 1), kernel.row.get("tiles", [design.get("rows"), ROWS])
    letters = letters_of(kernel.machine)
    stage = (ROWS + rows) * len(letters) * STEP
    in_flight = design["stages"] * stage
    if in_flight > kernel.row["shared"]:
        raise sm_timing.Disagreement(f"{design['stages']} stages of {stage} bytes in {kernel.row['shared']}")
    steps = math.ceil(k * size / (len(letters) * STEP) / blocks)
    tensor = rate(kernel, rates, letters[0])
    one = 2 * ROWS * rows * STEP / size / tensor
    multiplied = len(letters) * multiplication(rates, one, rows, (ROWS + rows) * STEP)
    memory = units * memory_rate(part, rates, units=units)
    pull = min(rates.times["l2_alone"], in_flight / rates.times["memory_latency"], stage / multiplied)
    tiles, cycles = math.ceil(n / ROWS), 0.0
    while tiles > 0:
        now = min(tiles, units // blocks)
        # All blocks need the rows of A, which L2 has after the first of them.
        asked = now * blocks * steps * stage
        cycles += max(asked / (now * blocks * pull), now * ROWS * k * size / memory)
        tiles -= now
    moved = (m * k + n * k) * size + 2 * m * n
    limit = moved / memory
    exchanged = rows * ROWS * 4 * (blocks - 1) / blocks
    terms = {"bytes in flight": max(0.0, cycles - limit),
             "first stage": rates.times["memory_latency"] + rates.times["product"],
             "combine": exchanged / rates.times["l2"] + 2 * rates.times["l2_latency"] if blocks > 1 else 0.0,
             "epilogue": rows * ROWS * 4 / rates.shared_bytes * 2, "launch": rates.times["launch"]}
    return Time(limit, "memory", terms, "decode", 2 * m * n * k, moved, in_flight)


@simulated
def softmax_turns(kernel, rates):
    """Cycles of a turn of the warps that make weights: until the first half of a tile's are told and until all are,
    where those of one tile work alone; and of both tiles' and the correcting warps beside each other."""
    machine = kernel.machine
    weights = max(innermost(machine, "MUFU"), key=lambda loop: len(loop.body))
    correcting = [loop for loop in machine.loops if not any(
        machine.code[at].text.startswith(("MUFU", "UTC", "UTMALDG")) for at in loop.body) and any(
        machine.code[at].text.startswith("SYNCS") for at in loop.body)]
    make = sm_timing.steps_of(machine, kernel.control, way_of(machine, weights, ("MUFU", "LDTM", "STTM")), rates,
                              0, 1, ((), ()))
    told = [sm_timing.steps_of(machine, kernel.control, way_of(machine, loop, "SYNCS"), rates, 0, 1, ((), ()))
            for loop in correcting[:1]]
    # Told are corrections, the first half of the weights, and the second.
    arrivals = [at for at, step in enumerate(make) if step.text.startswith("SYNCS.ARRIVE")]
    if len(arrivals) != 3:
        raise sm_timing.Disagreement(f"{len(arrivals)} arrivals in a turn of softmax, not 3")
    first, alone = (sm_timing.Quarter([make[:at + 1]], 1, rates).run().total() for at in arrivals[1:])
    # The tensor cores have one tile's scores while the other's become weights: half a turn lies between them.
    later = sm_timing.Step("", sm_timing.Control(1, 7, 7, 0), "front", 1, alone / 2, "pause")
    both = sm_timing.Quarter([make * TURNS, [later, *make * TURNS], *(steps * 2 * TURNS for steps in told)], 1, rates)
    return first, alone, (both.run().total() - alone / 2) / TURNS


@simulated
def prefill_turn(kernel, rates):
    """Cycles of a turn of both tiles of queries through one of keys: of the tensor cores alone, and of all."""
    dim_qk, dim_v = (int(one) for one in kernel.row["operation"].split("/")[-1].split("x"))
    size, keys = element_bytes(kernel), kernel.row["products"]["keys"]
    tensor = rate(kernel, rates, kernel.row["products"]["scores"][3])
    step = STEP // size
    # Scores: both operands come from shared memory. Sums: weights come from tensor memory.
    one = 2 * ROWS * keys * step / tensor
    scores = dim_qk / step * multiplication(rates, one, keys, (ROWS + keys) * STEP)
    sums = keys / step * multiplication(rates, one * dim_v / keys, dim_v, dim_v * STEP)
    found = len(letters_of(kernel.machine))
    if found != dim_qk / step + keys / step:
        raise sm_timing.Disagreement(f"{found} multiplications for a tile, not {(dim_qk + keys) / step}")
    return (2 * 2 * ROWS * keys * (dim_qk + dim_v) / tensor,
            turn_by(kernel, rates, softmax_turns(kernel, rates), scores, sums), scores)


def turn_by(kernel, rates, softmax, scores, sums):
    """Cycles of a turn of both tiles, by those of the warps that make weights and of a tile's two products."""
    first, alone, both = softmax
    dim_v, size = int(kernel.row["operation"].split("x")[-1]), element_bytes(kernel)
    # A tile's next scores wait for its sums where its weights stand in the place of its scores, and the second half
    # of the sums for the first and for its weights.
    chain = scores + rates.times["product"] + alone
    if size == 1 or dim_v not in kernel.design.get("apart", []):
        chain += max(first + sums / 2 - alone, 0.0) + sums / 2 + rates.times["product"]
    # Where shared memory has one stage of values, the next ones are asked for when both tiles' sums are done.
    copied = 0.0
    if kernel.design.get("value_stages", 2) == 1:
        copied = (2 * sums + scores + rates.times["value_latency"]
                  + kernel.row["products"]["keys"] * dim_v * size / rates.times["l2"])
    return max(2 * (scores + sums), both, chain, copied)


def prefill(kernel, rates, part, shape):
    dim_v = int(kernel.row["operation"].split("x")[-1])
    pure, turn, scores = prefill_turn(kernel, rates)
    machine, (_, alone, _) = kernel.machine, softmax_turns(kernel, rates)
    leaving = [loop for loop in innermost(machine, "LDTM") if any(
        machine.code[at].text.startswith("STG") for at in loop.body)]
    steps = sm_timing.steps_of(machine, kernel.control, way_of(machine, leaving[0], "STG"), rates, 0, 1, ((), ()))
    left = sm_timing.Quarter([steps], TURNS, rates).run().turn() * dim_v / WORDS * 2
    exposed = (rates.times["memory_latency"] + scores + 2 * rates.times["product"] + alone + left
               + rates.times["block"])
    return share_models.prefill_of(kernel, rates, part, shape, share_models.PrefillBlock(
        2 * ROWS, kernel.row["products"]["keys"], turn, pure, exposed,
        rate(kernel, rates, kernel.row["products"]["scores"][3])))


def planted(kernel, rates):
    """A fault in words, and cycles of a turn without it and with it."""
    if kernel.row["operation"].startswith("gemm"):
        fence = sm_timing.Step("MEMBAR.ALL.GPU", sm_timing.Control(1, 7, 7, 0), "load", 4,
                               rates.times["fence"], "pause")
        steps = steps_of(kernel, rates, MULTIPLICATIONS)
        turns = (sm_timing.Quarter([one], TURNS, rates).run().turn() for one in (steps, [*steps, fence]))
        return ("cycles of the thread that multiplies, with a fence", *turns)
    first, alone, both = softmax_turns(kernel, rates)
    turns = (turn_by(kernel, rates, one, 500, 500) for one in ((first, alone, both), (alone, alone * 2, both)))
    return ("cycles of a turn whose weights are made twice", *turns)
