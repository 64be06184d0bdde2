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
             "memory_latency")


def simulated(function):
    """Keeps what a simulation of a kernel gave: rates that it does not depend on change nothing."""
    def kept(kernel, rates, *rest):
        key = (function.__name__, repr(rest), *(rates.times[name] for name in SIMULATED))
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
        buffers = list(zip(fed.waits, fed.releases))
        loads = sm_timing.Loads({name: sm_timing.Loads.Buffer(
            fed.bytes, fed.slots, [group for group, one in enumerate(fed.releases) if name in one],
            fed.lead) for name in fed.names()}, fed.rate, rates.times["memory_latency"])
    ways = [steps(kernel, rates, way, group, buffers[group])
            for group, way in enumerate(kernel.ways())]
    return sm_timing.Quarter(ways, 2 * TURNS if loads else TURNS, rates, loads).run().turn()


@dataclasses.dataclass
class Fed:
    """Tiles that a loop waits for: names of buffers, in the order of each warpgroup's machine code; bytes and
    slots of each, cycles that asking for it takes, bytes a clock."""
    waits: list
    releases: list
    bytes: float
    slots: int
    lead: float
    rate: float

    def names(self):
        return sorted({name for one in self.waits for name in one})


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
    units, size, cluster = kernel.target["units"], kernel.element(), kernel.row.get("cluster", 1)
    products = kernel.products(kernel.ways()[0])
    rows, columns = 64 * kernel.groups(), int(products[0][3])
    depth = int(products[0][4]) * len(products)
    stage = (rows + columns) * depth * size
    stages = kernel.row["shared"] // stage
    tiles = math.ceil(m / rows), math.ceil(n / columns)
    count, turns = tiles[0] * tiles[1], math.ceil(k / depth)
    turn, (pure, _) = loop_turn(kernel, rates), tensor_turn(kernel, rates)
    from_l2 = (rows + columns / cluster) * depth * size / rates.times["l2"]
    traffic = raster_bytes(tiles, units, kernel.design.get("raster", 8), (rows, columns), k * size,
                           kernel.target["l2_kept"])
    # Where there are fewer tiles than SMs and they are shared, each SM has an equal stretch of all stages.
    shares = kernel.design.get("split", False)
    rounds = count / units if shares else math.ceil(count / units)
    pulled = traffic / units / (rounds * turns) / memory_rate(part, rates, clock="tensor_clock")
    waited = rates.times["memory_latency"] / (stages - 1)
    stage_time = max(turn, from_l2, pulled, waited)
    exposed, _ = around(kernel, rates)
    limit = max(2 * m * n * k / (pure_rate(kernel, rates) * units),
                (m * k + n * k + 2 * m * n / size) * size / units
                / memory_rate(part, rates, clock="tensor_clock"))
    bound = "tensor" if limit == 2 * m * n * k / (pure_rate(kernel, rates) * units) else "memory"
    work_time = rounds * turns * pure if bound == "tensor" else limit
    terms = {"last wave": max(0.0, work_time - limit)}
    rest = rounds * turns * stage_time - max(work_time, limit)
    name = {turn: "loop", from_l2: "L2", pulled: "memory", waited: "latency"}[stage_time]
    terms[name] = max(0.0, rest)
    terms["epilogue"] = math.ceil(rounds) * exposed
    if shares and count % units:
        terms["combine"] = shared_sums(kernel, rates, count, units, turns)
    terms["launch"] = rates.times["launch"]
    bytes_moved = (m * k + n * k) * size + 2 * m * n
    return Time(limit, bound, terms, "gemm", 2 * m * n * k, bytes_moved, (stages - 1) * stage)


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


def shared_sums(kernel, rates, count, units, turns):
    """Cycles of adding the sums of a tile that several blocks share: the last of them reads all."""
    alone = 0 if count < units else count // units - 1
    line = (count - alone * units) * turns
    sharers = max(1, math.ceil(turns / (line / units)))
    slot = 64 * kernel.groups() * int(kernel.products(kernel.ways()[0])[0][3]) * 4
    reading = kernel.design.get("reducers", 1)
    moved = slot / rates.times["l2"]
    return (moved + rates.times["fence"] * 2 + rates.times["l2_latency"] * (2 + sharers)
            + sharers * slot / rates.times["l2_alone"] / reading)


# --- Prefill.

def prefill(kernel, rates, part, shape):
    dim_qk, dim_v = (int(one) for one in kernel.row["operation"].split("/")[-1].split("x"))
    units, keys = kernel.target["units"], kernel.row["exps"]["keys"]
    rows = 64 * kernel.groups()
    batch, heads, kv_heads, length = (shape[name] for name in ("batch", "heads", "kv_heads", "length"))
    causal = shape.get("causal", False)
    size = 1 if "/fp8/" in kernel.row["operation"] else 2
    turn, (pure, _) = loop_turn(kernel, rates), tensor_turn(kernel, rates)
    exposed, stores = around(kernel, rates)
    exposed = max(exposed, stores / rates.times["l2"])
    persistent = kernel.design.get("persistent", False)
    start = 0.0 if persistent else rates.times["block"]
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
        lambda n: n * pure, lambda n: n * turn, lambda n: n * turn + exposed + start))
    # Causal: half of the operations count, as peers count them.
    operations = 2 * batch * heads * length * length * (dim_qk + dim_v) / (2 if causal else 1)
    # Where both products would be of the operands' own type.
    rate = kernel.target["tensor"]["Q" if size == 1 else "H"]
    limit = operations / rate / units
    moved = kv_bytes(order, units, heads // kv_heads, heads, [n * keys * head for n in turns],
                     length * head, kernel.target["l2_kept"])
    moved += batch * heads * length * (dim_qk * size + dim_v * 2)
    reading = moved / units / memory_rate(part, rates, clock="tensor_clock")
    terms = {"types": sum(turns) * batch * heads * pure / units - sum(turns) * batch * heads
             * 2 * rows * keys * (dim_qk + dim_v) / rate / units}
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


# --- Decode, which follows a schedule (src/bench/attention/schedule.rs).

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
            of_task.append((worker, to - at))
            at = to
        for one, count in of_task:
            parts[one].append((count, len(of_task)))
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
    body = max(sum(count for count, _ in one) for one in parts) * KEYS_OF_BLOCK / tile_keys * tile
    starts = max(len(one) for one in parts) * per_part
    slots = max((slots for one in parts for _, slots in one), default=1)
    terms = {"uneven": body * (1 - sum(count for one in parts for count, _ in one) / units
                               / max(sum(count for count, _ in one) for one in parts))}
    terms["loop"] = max(0.0, body - limit - terms["uneven"])
    terms["starts and ends of parts"] = starts
    terms["combine"] = combine(kernel, rates, rows, dim_v, slots) if slots > 1 else 0.0
    terms["launch"] = rates.times["launch"]
    return Time(limit, bound, terms, "decode" if bound == "memory" else "attention",
                operations, moved, in_flight, [f"{slots} parts of a sequence"])


def tile_time(kernel, rates, part, shape, token, of_rows, clock):
    """Cycles of a tile of keys when all is on its way, its keys, and bytes in flight."""
    design, units = kernel.design, kernel.target["units"]
    keys = kernel.row["exps"]["keys"]
    tile = keys * token
    # Sets of rows of the same keys run at the same time: memory gives them once.
    rate = min(rates.times["l2"], of_rows * memory_rate(part, rates, clock=clock))
    lead = producing(kernel, rates, tile, bool(shape.get("page")))
    fed = Fed(design["waits"], design["releases"], tile, design["slots"], lead, rate)
    of_turn = len(fed.names())
    # One producer makes tile after tile: where that takes longer than all else, it is what a tile takes.
    longest = lead if design.get("one_producer") else 0.0
    return max(loop_turn(kernel, rates, fed) / of_turn, longest), keys, fed.slots * of_turn * tile


@simulated
def producing(kernel, rates, tile, is_paged):
    """Cycles that those who copy need for a tile: of the loop that asks for copies, its inner turns as many
    as a tile has."""
    machine = kernel.machine
    # Page tables are read line by line: most look-ups find theirs in L1.
    rates = dataclasses.replace(rates, latencies=[
        (re.compile("LDG(?!STS)"), rates.times["l1_latency"]), *rates.latencies])
    asks = ("LDGSTS", "UTMALDG", "UBLKCP")

    def asked(loop):
        return [at for at in loop.body if machine.code[at].text.startswith(asks)]
    loops = [loop for loop in machine.loops if asked(loop)]
    if not loops:
        return 0.0

    def value(text):
        if text.startswith(asks):
            return 1000
        return 100 if text.startswith(("STS", "LDS.128")) or is_paged and text.startswith("LDG") else 0

    def cycles(loop):
        way = sm_timing.usual_ways(machine, loop, value)[0]
        one = sm_timing.Quarter([steps(kernel, rates, way, 0)], TURNS, rates).run().turn()
        return one, sum(machine.code[at].text.startswith("LDGSTS") for at in way)
    inner = [loop for loop in loops if not any(asked(one) for one in machine.inner(loop))]
    deepest = max(inner, key=lambda loop: loop.depth)
    turn, copies = cycles(deepest)
    if not copies:
        return turn
    passes = tile / (copies * 16 * kernel.design["copy_threads"])
    if passes <= 1:
        return turn * passes
    outer = [loop for loop in loops if deepest in loop.inner][-1]
    return cycles(outer)[0] + (passes - 1) * turn


@simulated
def combine(kernel, rates, rows, dim_v, slots):
    """Cycles of adding the sums of a task's parts, by those who do: a chain for each element of a thread."""
    machine = kernel.machine

    def strong(loop):
        return [machine.code[at].text for at in loop.body if machine.code[at].text.startswith("LDG")
                and "STRONG" in machine.code[at].text]
    outer = [loop for loop in machine.loops if strong(loop)
             and any(strong(one) for one in machine.inner(loop))
             and not any(PRODUCT.match(machine.code[at].text) for at in loop.body)]
    if not outer:
        return 0.0
    loop = max(outer, key=lambda one: one.depth)
    kinds = {"maximum": [], "sum": []}
    for one in machine.inner(loop):
        texts, way = strong(one), sm_timing.usual_ways(
            machine, one, lambda text: 100 * text.startswith("LDG"))[0]
        sums = any(machine.code[at].text.startswith("MUFU.EX2") for at in one.body)
        turn = sm_timing.Quarter([steps(kernel, rates, way, 0)], TURNS, rates).run().turn()
        kinds["sum" if sums else "maximum"].append((max(1, len(texts) // (3 if sums else 1)), turn))
    chain = 0.0
    for found in kinds.values():
        left = slots
        for unrolled, turn in sorted(found, reverse=True):
            chain += left // unrolled * turn
            left %= unrolled
        chain += left * (rates.times["l2_latency"] + 20) if found else 0.0
    width = max(16 if ".128" in text else 8 if ".64" in text else 4 for text in strong(loop))
    threads = 128 * kernel.groups()
    elements = rows * dim_v * 4 / (threads * width) / kernel.design.get("reducers", 1)
    return elements * chain + 2 * rates.times["fence"]


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


def family(operation):
    first, second = operation.split("/")[:2]
    return FAMILIES[second if first == "attention" else first]
