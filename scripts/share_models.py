"""Models of kernels by family: what a case's time is made of. Called by scripts/expected_shares.py.

Each model gives a `Time`: the hardware's limit for the case, and terms whose sum, or largest where they
overlap, is the time that is expected. Cycles are of the SM's clock.
"""

import collections
import dataclasses
import heapq
import math
import re

import sm_timing
from sm_timing import PRODUCT

# Turns of a loop that are simulated, of which the second half counts.
TURNS = 10
# Rates on which a simulation depends by itself.
SIMULATED = ("product", "barrier", "operands", "contention", "fence", "l1_latency", "l2_latency",
             "memory_latency", "columns", "between", "value_latency", "l2")


def simulated(function):
    """Keeps what a simulation of a kernel gave: rates that it does not depend on change nothing."""
    def kept(kernel, rates, *rest):
        key = (function.__name__, repr(rest), *(rates.times.get(name) for name in SIMULATED))
        if key not in kernel.cache:
            kernel.cache[key] = function(kernel, rates, *rest)
        return kernel.cache[key]
    return kept


@dataclasses.dataclass
class Time:
    """Cycles from launch to end. `limit`: by the hardware alone, of which `bound` says what; `terms`: what
    is added to it, by name; `unknown`: what loss applies that no term has."""
    limit: float
    bound: str
    terms: dict
    unknown: str
    operations: float
    moved: float  # bytes that memory has to give and take at least
    in_flight: float = 0.0
    notes: list = dataclasses.field(default_factory=list)
    memory: float = 0.0  # cycles that memory takes beside all of these, if they do not take longer

    def total(self, unknown):
        """With a loss that no term has: a share of the time of all but the memory."""
        return max((self.limit + sum(self.terms.values())) / unknown, self.memory)


@dataclasses.dataclass
class Kernel:
    """One entry: its row of kernels.toml, its machine code, what its text says beside it, a target."""
    row: dict
    machine: object
    control: list
    registers: int
    design: dict
    target: dict
    cache: dict = dataclasses.field(default_factory=dict)

    def groups(self):
        """Warpgroups that multiply; of others those that do not give registers away."""
        told = self.row.get("registers")
        return told.count(max(told)) if told else self.design.get("groups", 1)

    def products(self, way):
        return [PRODUCT.match(self.machine.code[at].text) for at in way
                if PRODUCT.match(self.machine.code[at].text)]

    def main(self):
        """The loop that multiplies: of those without another such loop inside the one with the most
        products, and then the shortest, which masks nothing."""
        if "main" not in self.cache:
            def count(loop):
                return sum(bool(PRODUCT.match(self.machine.code[at].text)) for at in loop.body)
            loops = [loop for loop in self.machine.loops if count(loop)
                     and not any(count(one) for one in self.machine.inner(loop))]
            self.cache["main"] = max(loops, key=lambda loop: (count(loop), -len(loop.body)))
        return self.cache["main"]

    def ways(self):
        """The way of each warpgroup through the main loop."""
        if "ways" not in self.cache:
            ways = sm_timing.usual_ways(self.machine, self.main(), worth_of_turn)
            most = max(len(self.products(way)) for way in ways)
            # Ways of half a turn, such as the last one's, are not the usual ones.
            ways = [way for way in ways if len(self.products(way)) == most][:self.groups()]
            self.cache["ways"] = (ways * self.groups())[:self.groups()]
        return self.cache["ways"]

    def element(self):
        """Bytes of an element of the first product of the main loop."""
        opcode = self.products(self.ways()[0])[0]
        return 4 if "TF32" in opcode[5] else 1 if opcode[1] in "QI" else 2


def worth_of_turn(text):
    """What every turn of a main loop does. One lane's giving a buffer back is worth a short way round."""
    if PRODUCT.match(text):
        return 1000
    return 100 if text.startswith("MUFU.EX2") else 12 if text.startswith("SYNCS.ARRIVE") else 0


def worth(text):
    """The same with what a block does once."""
    once = text.startswith(("LDG", "STG", "UTMASTG", "STSM", "LDGSTS"))
    return 100 if once else worth_of_turn(text)


def steps(kernel, rates, way, group, buffers=((), ())):
    return sm_timing.steps_of(kernel.machine, kernel.control, way, rates, group, kernel.groups(), buffers)


@simulated
def loop_turn(kernel, rates, fed=None):
    """Cycles of a turn of the main loop, by all warpgroups at once. `fed`: what it waits for where that is
    not there at once, as `Fed` has it."""
    buffers = [((), ())] * kernel.groups()
    loads = None
    if fed:
        buffers = [(waits, releases, (group, kernel.groups()) if fed.in_turn else (0, None))
                   for group, (waits, releases) in enumerate(zip(fed.waits, fed.releases))]
        loads = sm_timing.Loads(dict(fed.buffers), fed.rate, rates.times["memory_latency"])
    ways = [steps(kernel, rates, way, group, buffers[group])
            for group, way in enumerate(kernel.ways())]
    if fed and fed.widening:
        # In a turn of the others, who have a tile each, the one that widens has a tile for each.
        ways.append(steps(kernel, rates, list(fed.widening) * kernel.groups(), kernel.groups(),
                          (["raw", "place"] * kernel.groups(), ["wide", "raw"] * kernel.groups())))
    return sm_timing.Quarter(ways, 2 * TURNS if loads else TURNS, rates, loads).run().turn()


@dataclasses.dataclass
class Fed:
    """What a loop waits for and gives back: names of buffers, in the order of each warpgroup's machine code;
    the buffers; bytes of memory a clock; whether warpgroups take one buffer's slots in turn; the way of the
    warpgroup that widens tiles, if one does."""
    waits: list
    releases: list
    buffers: list
    rate: float
    in_turn: bool
    widening: list


def tensor_turn(kernel, rates):
    """Cycles of the tensor cores in a turn: by their operations alone, and with what they read."""
    pure = busy = 0.0
    for way in kernel.ways():
        for match in kernel.products(way):
            letter, m, n, k = match[1], int(match[2]), int(match[3]), int(match[4])
            pure += 2 * m * n * k / rates.flops["T" if "TF32" in match[5] else letter]
        busy += sum(rates.product(kernel.machine.code[at].text) for at in way
                    if PRODUCT.match(kernel.machine.code[at].text))
    return pure, busy


@simulated
def around(kernel, rates):
    """What a block does before its main loop and after it, or between two tiles where it has several:
    cycles that are added to those of the turns, bytes of stores."""
    machine, main = kernel.machine, kernel.main()
    body, after = set(main.body), machine.after
    if any(machine.code[at].text.startswith("STG") for at in body):
        return within(kernel, rates)
    outer = [loop for loop in machine.loops if loop.depth < main.depth and body < set(loop.body)]
    around_it = set(outer[-1].body) if outer else set(range(len(after)))
    header = min({to for at in range(len(after)) if at not in body for to in after[at] if to in body})
    left = around_it - body
    combining = {at for loop in machine.loops if any(
        "LDG.E.STRONG" in machine.code[one].text or "LDG.E.128.STRONG" in machine.code[one].text
        for one in loop.body) and not body & set(loop.body) for at in loop.body}
    left -= combining
    entries = {at for at in left if header in after[at]}
    exits = {to for at in body for to in after[at] if to in left}
    values = {at: worth(machine.code[at].text) for at in left if worth(machine.code[at].text)}
    ends = entries if outer else {at for at in left if machine.code[at].text.startswith("EXIT")}
    behind = max((sm_timing.heaviest(after, start, left, ends, values) for start in sorted(exits)),
                 key=lambda way: sum(values.get(at, 0) for at in way), default=[])
    before = [] if outer else sm_timing.heaviest(after, 0, left, entries, values)
    ways = []
    for group, way in enumerate(kernel.ways()):
        first, last = (steps(kernel, rates, one, group) for one in (before, behind))
        for step in first:
            if step.kind == "data":
                # The first of all waits is for the memory.
                step.kind, step.latency = "pause", rates.times["memory_latency"]
                break
        ways.append((first, steps(kernel, rates, way, group), last))
    turn = loop_turn(kernel, rates)
    repeats = 3 if outer else 1
    whole = sm_timing.Quarter([(first + loop * TURNS + last) * repeats for first, loop, last in ways],
                              1, rates).run().total()
    stores = sum(stored(machine.code[at].text) for at in behind) * 128 * len(ways)
    return max(0.0, whole / repeats - TURNS * turn), stores


def within(kernel, rates):
    """The same where the main loop goes on from tile to tile: what a turn takes longer that leaves sums."""
    usual, way = kernel.ways(), sm_timing.usual_ways(
        kernel.machine, kernel.main(), lambda text: 1000 if text.startswith("STG") else worth(text))[0]
    made = [[*steps(kernel, rates, usual[group], group) * 4, *steps(kernel, rates, way, group)]
            for group in range(kernel.groups())]
    longer = sm_timing.Quarter(made, 4, rates).run().turn() - 5 * loop_turn(kernel, rates)
    stores = sum(stored(kernel.machine.code[at].text) for at in way) * 128 * len(usual)
    return max(0.0, longer), stores


def stored(text):
    """Bytes that go to L2 for a thread's store: whole sectors of 32 bytes, of which the four threads of a
    row of sums fill a part."""
    if not text.startswith("STG"):
        return 0
    width = 16 if ".128" in text else 8 if ".64" in text else 2 if ".U16" in text else 4
    return max(width, 8)


def memory_rate(part, rates, what="memory_read", clock="memory_clock", units=132):
    """Bytes a clock for each SM."""
    return part["memory"] * rates.times[what] / part[clock] / units


# --- Matrix products.

def gemm(kernel, rates, part, shape):
    m, n, k = shape["m"], shape["n"], shape["k"]
    turned = kernel.design.get("turned", False)
    if turned:
        # C is made transposed: its columns are the products' rows.
        m, n = n, m
    units, size, cluster = kernel.target["units"], kernel.element(), kernel.row.get("cluster", 1)
    # Blocks of a cluster that make one tile together, each along a part of k, and others.
    along_k, side = (cluster, 1) if turned else (1, cluster)
    products = kernel.products(kernel.ways()[0])
    rows, columns = 64 * kernel.groups(), int(products[0][3])
    depth = int(products[0][4]) * len(products)
    stage = (rows + columns) * depth * size
    stages = stages_of(kernel, stage)
    # Where tiles are shared, a cluster has one together.
    shares = kernel.design.get("split", False)
    workers = units // cluster if shares or along_k > 1 else units
    tiles = math.ceil(m / rows), math.ceil(n / columns / (side if shares else 1))
    count, turns = tiles[0] * tiles[1], math.ceil(math.ceil(k / depth) / along_k)
    turn, (pure, _) = loop_turn(kernel, rates), tensor_turn(kernel, rates)
    # A cluster's blocks need the same columns of B, where tiles are shared the same rows of A.
    needed = rows / side + columns if shares else rows + columns / side
    from_l2 = needed * depth * size / rates.times["l2"]
    traffic = raster_bytes(tiles, units // along_k, kernel.design.get("raster", 8),
                           (rows, columns * (side if shares else 1)), k * size, kernel.target["l2_kept"])
    work = 2 * m * n * k / (pure_rate(kernel, rates) * units)
    moved = (m * k + n * k) * size + 2 * m * n
    clocks = {name: part[f"{name}_clock"] for name in ("tensor", "memory")}
    memory = moved / units / memory_rate(part, rates)
    bound = "tensor" if work / clocks["tensor"] >= memory / clocks["memory"] else "memory"
    limit = work if bound == "tensor" else memory
    # Where there are fewer tiles than SMs and they are shared, each SM has an equal stretch of all stages.
    rounds = count / workers if shares else math.ceil(count / workers)
    # Where tiles run on without a pause, memory gives those of the last round more than their part.
    pulled = traffic / units / (rounds * turns) / memory_rate(part, rates, clock=f"{bound}_clock")
    waited = rates.times["memory_latency"] / (stages - 1)
    stage_time = max(turn, from_l2, pulled, waited)
    exposed, _ = around(kernel, rates)
    work_time = rounds * turns * pure if bound == "tensor" else limit
    terms = {"last wave": max(0.0, work_time - limit)}
    rest = rounds * turns * stage_time - max(work_time, limit)
    name = {turn: "loop", from_l2: "L2", pulled: "memory", waited: "latency"}[stage_time]
    terms[name] = max(0.0, rest)
    terms["epilogue"] = math.ceil(rounds) * exposed
    if shares and count % workers:
        terms["combine"] = shared_sums(kernel, rates, count, workers, turns)
    if along_k > 1:
        terms["combine"] = rounds * exchanged_sums(rates, rows * columns * 4, along_k)
    if turned:
        # The first stage comes while nothing else is under way.
        terms["first stage"] = rates.times["memory_latency"]
    terms["launch"] = rates.times["launch"]
    # What memory bounds loses what decode does, which memory bounds too.
    unknown = "decode" if turned and bound == "memory" else "gemm"
    return Time(limit, bound, terms, unknown, 2 * m * n * k, moved, (stages - 1) * stage)


def exchanged_sums(rates, tile, blocks):
    """Cycles in which the blocks of a cluster send each other the sums of a tile, so that each has all of a
    part, as fast as from L2: two barriers of the cluster stand around it."""
    return tile * (blocks - 1) / blocks / rates.times["l2"] + 2 * rates.times["l2_latency"]


# --- Products by fragments in registers (kernels/gemm/sm80_mma.cu), whose warps meet once a stage.

FRAGMENTS = re.compile(r"[HIDQ]MMA")


@simulated
def fragments_turn(kernel, rates, warps):
    """Cycles of a turn of so many warps of a quarter through the loop with the most products, and how many products of
    a warp it has."""
    machine = kernel.machine

    def count(loop):
        return sum(bool(FRAGMENTS.match(machine.code[at].text)) for at in loop.body)
    loop = max((loop for loop in machine.loops if count(loop) and not any(count(one) for one in machine.inner(loop))),
               key=count)
    way = sm_timing.usual_ways(machine, loop, lambda text: 1000 if FRAGMENTS.match(text) else
                               100 if text.startswith(("LDGSTS", "MUFU.EX2")) else 0)[0]
    made = steps(kernel, rates, way, 0)
    return sm_timing.Quarter([made] * warps, TURNS, rates).run().turn(), count(loop)


def fragments(kernel, rates, part, shape):
    m, n, k = shape["m"], shape["n"], shape["k"]
    design, units, size = kernel.design, kernel.target["units"], kernel.design["bytes"]
    rows, columns, stages = design["rows"], design["columns"], design["stages"]
    stage = (rows + columns) * design["stage_bytes"]
    tensor = rates.flops[design["letter"]]
    turn, products = fragments_turn(kernel, rates, kernel.row["threads"] // 128)
    # Of a warp of a quarter of the tensor cores: what a product's unit takes for it.
    one = next(cycles for pattern, name, cycles in rates.units if name == "tensor" and pattern.match(design["opcode"]))
    pure = products * one * kernel.row["threads"] / 128
    depth = design["stage_bytes"] // size
    of_turn = round(pure * tensor / (2 * rows * columns * depth))
    tiles = math.ceil(m / rows), math.ceil(n / columns)
    rounds, turns = math.ceil(tiles[0] * tiles[1] / units), math.ceil(k / depth) / of_turn
    traffic = raster_bytes(tiles, units, design["raster"], (rows, columns), k * size, kernel.target["l2_kept"])
    work = 2 * m * n * k / tensor / units
    out = design.get("out", 4 if size == 1 else size)
    moved = (m * k + n * k) * size + out * m * n
    times = {"loop": turn, "L2": of_turn * stage / rates.times["l2"],
             "latency": of_turn * rates.times["memory_latency"] / (stages - 2),
             "memory": traffic / units / (rounds * turns) / memory_rate(part, rates, clock="tensor_clock", units=units)}
    slowest = max(times, key=times.get)
    terms = {"last wave": rounds * turns * pure - work, slowest: rounds * turns * (times[slowest] - pure),
             "epilogue": rounds * rows * columns * out / rates.times["l2"],
             "first stage": rates.times["memory_latency"], "launch": rates.times["launch"]}
    memory = moved / units / memory_rate(part, rates, clock="tensor_clock", units=units)
    return Time(work, "tensor", terms, "gemm", 2 * m * n * k, moved, (stages - 1) * stage,
                memory=memory + rates.times["launch"])


# --- Products of few rows by fragments (kernels/gemm/sm80_mma_skinny.cu), whose warps divide k.

@simulated
def few_turn(kernel, rates, down):
    """Cycles of a turn of all warps through the loop of tiles of 16 x `down` rows: a stage of each. Two warps
    share a quarter."""
    machine, design = kernel.machine, kernel.design

    def count(loop, opcode):
        return sum(machine.code[at].text.startswith(opcode) for at in loop.body)
    products = design["columns"] // 8 * design["depth"] // 16 * down
    found = [loop for loop in machine.loops if count(loop, "LDGSTS") and count(loop, "HMMA") == products
             and not any(count(one, "HMMA") for one in machine.inner(loop))]
    copies = {count(loop, "LDGSTS") for loop in found}
    stage = (design["columns"] + 16 * down) * design["depth"] * 2
    if copies != {stage // 512}:
        raise sm_timing.Disagreement(f"a stage of {stage} bytes, but a lane's copies are {sorted(copies)}")
    way = sm_timing.usual_ways(machine, found[0], lambda text: 1000 if text.startswith(("HMMA", "LDGSTS"))
                               else 0)[0]
    return sm_timing.Quarter([steps(kernel, rates, way, 0)] * (design["warps"] // 4), TURNS, rates).run().turn()


def few(kernel, rates, part, shape):
    m, n, k = shape["m"], shape["n"], shape["k"]
    design, units = kernel.design, kernel.target["units"]
    down = 1 if m <= 16 else 2 if m <= 32 else 4
    columns, depth, warps = (design[name] for name in ("columns", "depth", "warps"))
    stage = (columns + 16 * down) * depth * 2
    ring = min(design["stages"], kernel.row["shared"] // (warps * stage))
    tiles, stages = math.ceil(n / columns), math.ceil(k / depth)
    workers = min(units, max(tiles, tiles * stages // design["least"]))
    whole = tiles if tiles % workers == 0 else max(0, tiles // workers - 1) * workers
    line = (tiles - whole) * stages
    most = whole // workers * stages + math.ceil(line / workers)
    # Stretches of one block: whole tiles, and parts of at most as many as a stretch of the line touches.
    stretches = whole // workers + (math.ceil(line / workers / stages) + 1 if line else 0)
    sharers = math.ceil(stages * workers / line) + 1 if line else 1
    moved = (m * k + n * k) * 2 + 2 * m * n
    limit = moved / units / memory_rate(part, rates, units=units)
    times = {"loop": (most / warps + stretches) * few_turn(kernel, rates, down),
             "L2": most * stage / rates.times["l2"],
             "latency": most * stage * rates.times["memory_latency"] / ((ring - 1) * warps * stage),
             "memory": limit}
    slowest = max(times, key=times.get)
    terms = {slowest: max(times.values()) - limit} if slowest != "memory" else {}
    # The first stages come while nothing else is under way; a tile's sums are added in rounds of two barriers.
    added = 2 * down * (2 * rates.times["barrier"] + 2 * 33) + rates.times["barrier"]
    terms["starts and ends of parts"] = rates.times["memory_latency"] + stretches * added
    if line:
        terms["combine"] = (2 * rates.times["fence"] + rates.times["l2_latency"]
                            * (1 + math.ceil(sharers / design["at_once"])))
    terms["launch"] = rates.times["launch"]
    return Time(limit, "memory", terms, "few", 2 * m * n * k, moved, (ring - 1) * warps * stage)


def stages_of(kernel, stage):
    """Stages, as kernels/shares.toml has them: what is left of shared memory before the barriers, whose
    address the machine code has, must be two or three buffers of 8 KiB of each warpgroup."""
    text = next(kernel.machine.code[at].text for at in kernel.ways()[0]
                if kernel.machine.code[at].text.startswith("SYNCS.PHASECHK"))
    match = re.search(r"\+(0x[0-9a-f]+)\]", text)
    stages = kernel.design["stages"]
    if kernel.design.get("turned"):
        # Barriers stand behind the ring, or behind what is exchanged in its memory where that is longer.
        behind = int(match[1], 16) - stages * stage if match else -1
        if not 0 <= behind < stage:
            raise sm_timing.Disagreement(f"{stages} stages of {stage} bytes, but a barrier at {text}")
        return stages
    if not match or (int(match[1], 16) - stages * stage) / kernel.groups() / 8192 not in (2, 3):
        raise sm_timing.Disagreement(f"{stages} stages of {stage} bytes, but a barrier at {text}")
    return stages


def pure_rate(kernel, rates):
    match = kernel.products(kernel.ways()[0])[0]
    return rates.flops["T" if "TF32" in match[5] else match[1]]


def raster_bytes(tiles, units, group, lengths, row_bytes, kept):
    """Bytes that rounds of tiles read from memory: each round its rows of A and columns of B once, all of
    them once where L2 keeps both operands."""
    rows, columns = tiles
    whole = (rows * lengths[0] + columns * lengths[1]) * row_bytes
    if whole <= kept:
        return whole
    order = [(first + row, column) for first in range(0, rows, group) for column in range(columns)
             for row in range(min(group, rows - first))]
    total = 0
    for start in range(0, len(order), units):
        now = order[start:start + units]
        total += (len({row for row, _ in now}) * lengths[0]
                  + len({column for _, column in now}) * lengths[1]) * row_bytes
    return max(total, whole)


def shared_sums(kernel, rates, count, workers, turns):
    """Cycles of adding the sums of a tile that several blocks share: the last of them reads all."""
    alone = 0 if count < workers else count // workers - 1
    line = (count - alone * workers) * turns
    sharers = max(1, math.ceil(turns / (line / workers)))
    slot = 64 * kernel.groups() * int(kernel.products(kernel.ways()[0])[0][3]) * 4
    moved = slot / rates.times["l2"]
    return (moved + rates.times["fence"] * 2 + rates.times["l2_latency"] * (2 + sharers)
            + sharers * slot / rates.times["l2_alone"])


# --- Prefill.

@dataclasses.dataclass
class PrefillBlock:
    """Of a block of prefill: queries and keys of a turn, cycles of a turn of all and of the tensor cores alone, those
    that are added to its turns, and operations of the tensor cores of an SM each clock."""
    rows: int
    keys: int
    turn: float
    pure: float
    exposed: float
    rate: float


def prefill(kernel, rates, part, shape):
    size = 1 if "/fp8/" in kernel.row["operation"] else 2
    exposed, stores = around(kernel, rates)
    persistent = kernel.design.get("persistent", False)
    exposed = max(exposed, stores / rates.times["l2"]) + (0.0 if persistent else rates.times["block"])
    return prefill_of(kernel, rates, part, shape, PrefillBlock(
        64 * kernel.groups(), kernel.row["exps"]["keys"], loop_turn(kernel, rates), tensor_turn(kernel, rates)[0],
        exposed, kernel.target["tensor"]["Q" if size == 1 else "H"]))


def fragments_prefill(kernel, rates, part, shape):
    """By fragments in registers: several blocks of 4 warps share a unit, and take their turns at the same time."""
    dims = kernel.row["operation"].split("/")[-1].split("x")
    blocks = min(65536 // (128 * -(-kernel.registers // 8) * 8), kernel.design["blocks"])
    together, products = fragments_turn(kernel, rates, blocks)
    turn = together / blocks
    rows, keys, tensor = kernel.row["tile"], kernel.row["exps"]["keys"], rates.flops[kernel.design["letter"]]
    pure = 2 * rows * keys * sum(map(int, dims)) / tensor
    # Of 16 x 8 x 16, by 4 warps.
    if products != pure * tensor / (2 * 16 * 8 * 16) / 4:
        raise sm_timing.Disagreement(f"{products} products in a turn, not those of {rows} rows and {keys} keys")
    exposed = rates.times["memory_latency"] + turn + rates.times["block"]
    return prefill_of(kernel, rates, part, shape, PrefillBlock(rows, keys, turn, pure, exposed / blocks, tensor))


def prefill_of(kernel, rates, part, shape, block):
    dim_qk, dim_v = (int(one) for one in kernel.row["operation"].split("/")[-1].split("x"))
    units, keys, rows = kernel.target["units"], block.keys, block.rows
    batch, heads, kv_heads, length = (shape[name] for name in ("batch", "heads", "kv_heads", "length"))
    causal = shape.get("causal", False)
    size = 1 if "/fp8/" in kernel.row["operation"] else 2
    turn, pure = block.turn, block.pure
    tiles = math.ceil(length / rows)
    turns = [math.ceil(min(length, (tile + 1) * rows) / keys) if causal else math.ceil(length / keys)
             for tile in range(tiles)]
    head = (dim_qk + dim_v) * size
    section = kernel.design.get("order", "tiles")
    if section == "sections":
        # As many heads as L2 keeps keys and values of; where all tiles are alike, head by head.
        fitting = int(kernel.target["l2_kept"] // (length * head)) * heads // kv_heads
        section = max(heads // kv_heads, fitting) if causal else 0
    order = block_order(section, batch * heads, tiles)
    ideal, loops, blocks = (makespan([one(turns[tile]) for _, tile in order], units) for one in (
        lambda n: n * pure, lambda n: n * turn, lambda n: n * turn + block.exposed))
    # Causal: half of the operations count, as peers count them.
    operations = 2 * batch * heads * length * length * (dim_qk + dim_v) / (2 if causal else 1)
    # Where both products would be of the operands' own type.
    limit = operations / block.rate / units
    moved = kv_bytes(order, units, heads // kv_heads, heads, [n * keys * head for n in turns],
                     length * head, kernel.target["l2_kept"])
    moved += batch * heads * length * (dim_qk * size + dim_v * 2)
    reading = moved / units / memory_rate(part, rates, clock="tensor_clock", units=units)
    terms = {"types": sum(turns) * batch * heads * pure / units - sum(turns) * batch * heads
             * 2 * rows * keys * (dim_qk + dim_v) / block.rate / units}
    terms["mask and last wave"] = max(0.0, ideal - limit - terms["types"])
    terms["loop"] = loops - ideal
    terms["prologue and epilogue"] = blocks - loops
    terms["launch"] = rates.times["launch"]
    return Time(limit, "tensor", terms, "attention", operations, moved, 2 * keys * head,
                [f"{moved / 1e9:.2f} GB of memory"], reading + rates.times["launch"])


def makespan(durations, units):
    """When the last block ends: each goes to the SM that is free first."""
    free = [0.0] * units
    heapq.heapify(free)
    for duration in durations:
        heapq.heapreplace(free, free[0] + duration)
    return max(free)


def block_order(order, heads, tiles):
    """Blocks as (head, tile), in the order in which they start: one tile of every head and then the next,
    all of a section's heads so (a number), or head by head (0)."""
    if order == "tiles":
        return [(head, tile) for tile in reversed(range(tiles)) for head in range(heads)]
    if order > 0:
        return [(head, tile) for first in range(0, heads, order) for tile in reversed(range(tiles))
                for head in range(first, min(heads, first + order))]
    return [(head, tile) for head in range(heads) for tile in reversed(range(tiles))]


def kv_bytes(order, units, sharing, heads, of_tile, whole, kept):
    """Bytes of keys and values that come from memory: blocks that run together and need the same ones read
    them once; what L2 keeps is not read again."""
    total, recent = 0.0, collections.OrderedDict()
    for start in range(0, len(order), units):
        now = {}
        for head, tile in order[start:start + units]:
            kv = head // sharing
            now[kv] = max(now.get(kv, 0.0), of_tile[tile])
        for kv, needed in now.items():
            total += max(0.0, needed - recent.pop(kv, 0.0))
        # All of this round go through L2 together: only as much of them stays as it keeps.
        share = min(1.0, kept / sum(now.values()))
        for kv, needed in now.items():
            recent[kv] = needed if share == 1.0 else 0.0
        while sum(recent.values()) > kept:
            recent.popitem(last=False)
    return total


# --- Decode, which follows a schedule (crates/bench/src/attention/schedule.rs).

KEYS_OF_BLOCK = 64


def dealt(tasks, workers):
    """Blocks of each part of each worker, with how many parts its task has."""
    total = sum(tasks)
    cut = [total * (worker + 1) // workers for worker in range(workers)]
    parts, worker, at = [[] for _ in range(workers)], 0, 0
    for blocks in tasks:
        of_task, end = [], at + blocks
        while at < end:
            while cut[worker] <= at:
                worker += 1
            to = min(end, cut[worker])
            of_task.append((worker, to - at, to == cut[worker]))
            at = to
        # Who has nothing else to do helps; the last one combines anyway.
        helpers = max(1, sum(is_last for _, _, is_last in of_task))
        for one, count, _ in of_task:
            parts[one].append((count, len(of_task), helpers))
    return parts


def decode(kernel, rates, part, shape):
    dim_qk, dim_v = (int(one) for one in kernel.row["operation"].split("/")[-1].split("x"))
    latent, units = "/mla/" in kernel.row["operation"], kernel.target["units"]
    size = 1 if "/fp8/" in kernel.row["operation"] else 2
    batch, heads, kv_heads, keys = (shape[name] for name in ("batch", "heads", "kv_heads", "keys"))
    token = dim_qk * size if latent else (dim_qk + dim_v) * size
    of_rows = math.ceil(heads / kv_heads / 64)
    rows = min(64, heads // kv_heads)
    moved = batch * kv_heads * keys * token
    operations = 2 * batch * heads * keys * (dim_qk + dim_v)
    by_memory, by_tensor = (moved / units / memory_rate(part, rates),
                            operations / kernel.target["tensor"]["H"] / units)
    bound = "tensor" if by_tensor * part["memory_clock"] > by_memory * part["tensor_clock"] else "memory"
    clock = f"{bound}_clock"
    limit = by_tensor if bound == "tensor" else by_memory
    tile, tile_keys, in_flight = tile_time(kernel, rates, part, shape, token, of_rows, clock)
    parts = dealt([math.ceil(keys / KEYS_OF_BLOCK)] * (batch * kv_heads * of_rows), units)
    per_part, stores = around(kernel, rates)
    per_part = max(per_part, stores / rates.times["l2"])
    body = max(sum(one[0] for one in of) for of in parts) * KEYS_OF_BLOCK / tile_keys * tile
    starts = max(len(one) for one in parts) * per_part
    slots = max(one[1] for of in parts for one in of)
    terms = {"uneven": body * (1 - sum(one[0] for of in parts for one in of) / units
                               / max(sum(one[0] for one in of) for of in parts))}
    terms["loop"] = max(0.0, body - limit - terms["uneven"])
    terms["starts and ends of parts"] = starts
    shared = {one[1:] for of in parts for one in of if one[1] > 1}
    terms["combine"] = max((combine(kernel, rates, rows, dim_v, *one) for one in shared), default=0.0)
    terms["launch"] = rates.times["launch"]
    return Time(limit, bound, terms, "decode" if bound == "memory" else "attention",
                operations, moved, in_flight, [f"{slots} parts of a sequence"])


def tile_time(kernel, rates, part, shape, token, of_rows, clock):
    """Cycles of a tile of keys when all is on its way, its keys, and bytes in flight."""
    design = kernel.design
    keys = kernel.row["exps"]["keys"]
    tile = keys * token
    # Sets of rows of the same keys run at the same time: memory gives them once.
    rate = min(rates.times["l2"], of_rows * memory_rate(part, rates, clock=clock))
    # How many tiles a turn of all warpgroups is.
    of_turn = kernel.groups()
    if boxes := design.get("boxes"):
        if shape.get("page", 64) % 64:
            raise sm_timing.Disagreement("pages of no whole tiles do not come by boxes")
        lead, names = producing(kernel, rates, tile, False) / boxes, {}
        for name in (one for waits in design["waits"] for one in waits.split()):
            # One thread asks for a whole tile's: the name begins with the tile's.
            names[name] = sm_timing.Loads.Buffer(tile / boxes, 1, name[0], lead)
        released = sorted(one for releases in design["releases"] for group in releases
                          for one in group.split())
        if len(names) != boxes * of_turn or released != sorted(names):
            raise sm_timing.Disagreement("boxes that are waited for and given back are not the same")
        fed = Fed([one.split() for one in design["waits"]], design["releases"], list(names.items()), rate,
                  False, [])
        return loop_turn(kernel, rates, fed) / of_turn, keys, tile * of_turn
    lead = producing(kernel, rates, tile, bool(shape.get("page")))
    ahead, slots = ahead_of(kernel), design["slots"]
    wide = widening(kernel)
    check_stages(kernel, slots["place" if wide else "tile"])
    if bool(wide) != ("place" in slots):
        raise sm_timing.Disagreement("a loop widens tiles, or none does, against what `slots` says")
    name = "raw" if wide else "tile"
    buffers = [(name, sm_timing.Loads.Buffer(tile, slots[name], "copies", lead, ahead))]
    if wide:
        buffers += [("place", sm_timing.Loads.Buffer(0, slots["place"], "")),
                    ("wide", sm_timing.Loads.Buffer(0, 0, ""))]
    fed = Fed([["wide" if wide else "tile"]] * of_turn, [["place" if wide else "tile"]] * of_turn, buffers,
              rate, True, wide)
    return loop_turn(kernel, rates, fed) / of_turn, keys, ahead * tile


def ahead_of(kernel):
    """Tiles that threads have asked for after the one that they show: of the machine code, where copying
    threads wait until no more groups of copies are under way."""
    texts = [kernel.machine.code[at].text for loop in kernel.machine.loops for at in loop.body]
    found = {int(match[1], 16) for text in texts
             if (match := re.match(r"DEPBAR\.LE SB\d+, (0x[0-9a-f]+)", text))}
    if found != {kernel.design["ahead"]}:
        raise sm_timing.Disagreement(
            f"copies under way are {found}, kernels/shares.toml says {kernel.design['ahead']}")
    return kernel.design["ahead"]


def check_stages(kernel, stages):
    """A stage's two barriers are as many words of 8 bytes apart as there are stages."""
    texts = [kernel.machine.code[at].text for at in kernel.ways()[0]]
    waits, gives = (next(text for text in texts if text.startswith(opcode))
                    for opcode in ("SYNCS.PHASECHK", "SYNCS.ARRIVE"))

    def address(text):
        match = re.search(r"\[(R\d+)\+URZ(?:\+(0x[0-9a-f]+))?\]", text)
        return match[1], int(match[2] or "0", 16)
    (first, at), (second, behind) = address(waits), address(gives)
    if first != second or behind - at != 8 * stages:
        raise sm_timing.Disagreement(f"{stages} slots, but barriers at {waits} and {gives}")


def widening(kernel):
    """The way of a warpgroup that makes wider elements of a tile by itself, for the others; empty where none
    does."""
    machine = kernel.machine
    loops = [loop for loop in machine.loops if any(
        "UNPACK" in machine.code[at].text for at in loop.body) and not any(
        machine.code[at].text.startswith("LDGSTS") or PRODUCT.match(machine.code[at].text)
        for at in loop.body)]
    if not loops:
        return []

    def value(text):
        return 100 if text.startswith(("F2FP", "STS.128")) else 12 if text.startswith("SYNCS.ARRIVE") else 0
    return sm_timing.usual_ways(machine, max(loops, key=lambda loop: loop.depth), value)[0]


@simulated
def producing(kernel, rates, tile, is_paged):
    """Cycles that those who copy need for a tile: of the loop that asks for copies, its inner turns as many
    as a tile has."""
    machine, boxes = kernel.machine, kernel.design.get("boxes")
    # Page tables are read line by line: most look-ups find theirs in L1.
    rates = dataclasses.replace(rates, latencies=[
        (re.compile("LDG(?!STS)"), rates.times["l1_latency"]), *rates.latencies])
    asks = "UTMALDG" if boxes else "LDGSTS"

    def asked(loop):
        return sum(machine.code[at].text.startswith(asks) for at in loop.body)
    loops = [loop for loop in machine.loops if asked(loop)]
    if not loops:
        raise sm_timing.Disagreement(f"no loop asks for copies by {asks}")

    def value(text):
        if text.startswith(asks):
            return 1000
        return 100 if is_paged and text.startswith(("LDG", "SHFL")) else 0
    deepest = max(loops, key=lambda loop: loop.depth)
    way = sm_timing.usual_ways(machine, deepest, value)[0]
    count = sum(machine.code[at].text.startswith(asks) for at in way)
    expected = boxes or tile / (16 * kernel.design["copy_threads"])
    if count != expected:
        raise sm_timing.Disagreement(
            f"a tile is {expected:.0f} times {asks} of a thread, its loop has {count}")
    return sm_timing.Quarter([steps(kernel, rates, way, 0)], TURNS, rates).run().turn()


# As kernels/include/attention_parts.h has them: columns that a warp's vector has, slots up to which a warp
# combines whole rows.
STRIP, SLOTS_FEW = 128, 8


@simulated
def combine(kernel, rates, rows, dim_v, slots, helpers):
    """Cycles of adding the sums of a task's parts by `helpers` blocks: each warp takes a row, or a strip of
    one where there are many slots, and adds some slots while the next are on their way."""
    machine, strips, warps = kernel.machine, math.ceil(dim_v / STRIP), 4 * kernel.groups()

    def strong(loop, width):
        return sum(machine.code[at].text.startswith(f"LDG.E.{width}.STRONG") for at in loop.body)
    found = {}
    for loop in machine.loops:
        vectors, shares = strong(loop, 128), strong(loop, 64)
        if vectors and not machine.inner(loop):
            found[vectors / shares] = shares, loop
    if found.keys() != {1, strips}:
        raise sm_timing.Disagreement(f"loops that combine load {sorted(found)} vectors of 16 bytes for each "
                                     f"slot, not 1 and {strips}")
    many = slots > SLOTS_FEW
    at_once, loop = found[1 if many else strips]
    way = sm_timing.usual_ways(machine, loop, lambda text: 100 * text.startswith("LDG"))[0]
    turn = sm_timing.Quarter([steps(kernel, rates, way, 0)] * kernel.groups(), TURNS, rates).run().turn()
    pieces = rows * strips if many else rows
    slices = min(math.ceil(pieces / warps), slots)
    of_block = math.ceil(slices / min(helpers, slices))
    latency = rates.times["l2_latency"]
    piece = latency + math.ceil(slots / at_once) * turn
    chain = of_block * (math.ceil(pieces / (slices * warps)) * piece + latency)
    read = slots * rows * dim_v * 4 * of_block / slices / rates.times["l2"]
    # Counts of parts and of slices, and the fence behind them.
    return max(chain, read) + 2 * latency + rates.times["fence"]


# --- Streams and bare arithmetic.

def stream(kernel, rates, part, shape):
    units, moved = kernel.target["units"], shape["bytes"]
    what = {"read": "memory_read", "dot": "memory_read", "write": "memory_write"}.get(
        kernel.row["operation"].split("/")[1], "memory_mixed")
    rate = memory_rate(part, rates, what)
    in_flight = kernel.row.get("shared", 0) or kernel.design["in_flight"]
    limit = moved / units / rate
    waited = moved / units * rates.times["memory_latency"] / in_flight
    terms = {"bytes in flight": max(0.0, waited - limit), "launch": rates.times["launch"]}
    return Time(limit, "memory", terms, "stream", 0, moved, in_flight)


def arithmetic(kernel, rates, part, shape):
    turn, (pure, _) = loop_turn(kernel, rates), tensor_turn(kernel, rates)
    turns = shape["turns"]
    operations = turns * pure * pure_rate(kernel, rates) * kernel.target["units"]
    terms = {"loop": turns * (turn - pure), "launch": rates.times["launch"]}
    return Time(turns * pure, "tensor", terms, "none", operations, 0)


FAMILIES = {"gemm": gemm, "prefill": prefill, "decode": decode, "mla": decode, "stream": stream,
            "compute": arithmetic}
