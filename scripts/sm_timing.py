"""Times the loops of NVIDIA machine code on a model of one streaming multiprocessor (SM). No GPU is needed.

An SM has four equal quarters, and a warpgroup has a warp in each. So one quarter is simulated, with a warp
of each warpgroup. The machine code itself says how long each instruction of fixed latency takes (stall
cycles) and which results it waits for (scoreboards), in the control bits that the assembler leaves in every
instruction. Everything else, how fast each unit is and how long a load takes, comes from kernels/rates.toml.
"""

import collections
import dataclasses
import re

import machine_code

# Control bits in the upper 64 bits of an instruction (Jia, Maggioni, Staiger and Scarpazza, "Dissecting the
# NVIDIA Volta GPU Architecture via Microbenchmarking", 2018, section 2.1; the same to this day).
STALL, WRITE, READ, WAIT = (41, 15), (46, 7), (49, 7), (52, 63)
NO_SCOREBOARD = 7

PRODUCT = re.compile(r"([HQI])GMMA\.(\d+)x(\d+)x(\d+)\.(\S+)")


@dataclasses.dataclass
class Control:
    """What the assembler says of one instruction: cycles until the warp's next one, the scoreboards that it
    holds until its result is there and until its operands are read, and those that it waits for."""
    stall: int
    write: int
    read: int
    wait: int


def controls(listing):
    """The control bits of each entry's instructions, in the order of machine_code.nvidia."""
    found, entry, is_upper = {}, None, False
    for line in listing.splitlines():
        if match := re.search(r"Function : (\w+)", line):
            entry, is_upper = match[1], False
            found[entry] = []
        elif entry and re.match(r"\s+/\*[0-9a-f]{4,}\*/", line):
            is_upper = True
        elif entry and is_upper and (match := re.match(r"\s+/\* 0x([0-9a-f]{16}) \*/", line)):
            word, is_upper = int(match[1], 16), False
            found[entry].append(Control(*(word >> at & mask for at, mask in (
                STALL, WRITE, READ, WAIT))))
    return found


# --- The way that threads usually take.

def usual_ways(machine, loop, worth):
    """The ways through a loop that do its work, as lists of indices: first the way with the most worth, by
    the shortest route; then, while some of what is worth anything stands on none of these, the way with the
    most of that. Branches that wait, mask or correct have no work of their own, so these ways avoid them."""
    body = set(loop.body)
    header = min({to for at in range(len(machine.after)) if at not in body
                  for to in machine.after[at] if to in body} or body)
    ends = {at for at in loop.body if header in machine.after[at]}
    left = {at: worth(machine.code[at].text) for at in loop.body}
    left = {at: value for at, value in left.items() if value}
    ways = []
    while left:
        way = heaviest(machine.after, header, body, ends, left)
        if not any(at in left for at in way):
            break
        ways.append(way)
        left = {at: value for at, value in left.items() if at not in way}
    return ways


def heaviest(after, start, body, ends, worth):
    """The way from `start` to one of `ends` within a body with the most worth, less one for each step."""
    order, forward = [], {start: []}
    open_ones, stack = {start}, [(start, iter(after[start]))]
    while stack:
        at, rest = stack[-1]
        for to in rest:
            # Ways back, of inner loops too, are not taken.
            if to not in body or to in open_ones:
                continue
            forward[at].append(to)
            if to not in forward:
                forward[to] = []
                open_ones.add(to)
                stack.append((to, iter(after[to])))
                break
        else:
            open_ones.discard(at)
            order.append(at)
            stack.pop()
    best = {}
    for at in order:
        choices = [(best[to][0], to) for to in forward[at] if to in best]
        if at in ends:
            choices.append((0, -1))
        if choices:
            value, to = max(choices)
            best[at] = (value + worth.get(at, 0) - 1, to)
    way, at = [], start
    while at in best:
        way.append(at)
        at = best[at][1]
    return way


# --- One quarter of an SM.

class Disagreement(Exception):
    """What kernels/shares.toml says of a kernel's text is not what its machine code has."""


@dataclasses.dataclass
class Rates:
    """Of one target: units and times of kernels/rates.toml."""
    units: list  # (pattern of opcodes, name of the unit, cycles that a warp's instruction takes it)
    latencies: list  # (pattern of opcodes, cycles until its result is there)
    flops: dict  # of the tensor cores of an SM, each clock, by the letter that GEMM opcodes begin with
    shared_bytes: float  # of shared memory, each clock
    times: dict  # cycles of what is not in the machine code

    def unit(self, opcode):
        return next(((name, cycles) for pattern, name, cycles in self.units
                     if pattern.match(opcode)), ("alu", 2.0))

    def latency(self, opcode):
        return next((cycles for pattern, cycles in self.latencies if pattern.match(opcode)), 20.0)

    def product(self, text):
        """Cycles that the tensor cores take for a product: by its operations, or by what it reads of
        shared memory."""
        letter, m, n, k, types = PRODUCT.match(text).groups()
        m, n, k = int(m), int(n), int(k)
        size = 4 if "TF32" in types else 1 if letter in "QI" else 2
        from_registers = not re.search(r"GMMA\S+ R\d+, gdesc", text)
        read = (n + (0 if from_registers else m)) * k * size
        return max(2 * m * n * k / self.flops["T" if "TF32" in types else letter],
                   read / self.shared_bytes)


@dataclasses.dataclass
class Step:
    """One instruction of a way, as the simulation takes it."""
    text: str
    control: Control
    unit: str
    cycles: float
    latency: float
    kind: str = "plain"
    what: object = None  # open groups of a wait, number of a barrier, name of a buffer


def steps_of(machine, control, way, rates, group, groups, buffers):
    """The steps of a warpgroup's way. `buffers`: the names of what it waits for and of what it gives
    back, in the order in which they stand there, all of them or none; where there are none, all is there at
    once. Several that are given back at once stand in one text. A third item says which use of a buffer the
    first of the first turn is, and how many uses a turn is: where warpgroups take one buffer's in turn."""
    if buffers[0] or buffers[1]:
        for what, opcode, named_ones in (("waits for", "SYNCS.PHASECHK", buffers[0]),
                                         ("gives back", "SYNCS.ARRIVE", buffers[1])):
            count = sum(machine.code[at].text.startswith(opcode) for at in way)
            if count != len(named_ones):
                raise Disagreement(f"warpgroup {group} {what} {count} buffers in a turn ({opcode}), "
                                   f"kernels/shares.toml names {len(named_ones)}")
    first, stride = buffers[2] if len(buffers) > 2 else (0, None)
    steps, waits, releases = [], list(buffers[0]), list(buffers[1])
    taken = collections.Counter()
    for at in way:
        text = machine.code[at].text
        opcode = text.split()[0]
        unit, cycles = rates.unit(opcode)
        step = Step(text, control[at], unit, cycles, rates.latency(opcode))
        if PRODUCT.match(opcode):
            step.kind, step.cycles = "product", rates.product(text)
            step.what = "gsb0" in text
        elif opcode.startswith("WARPGROUP.DEPBAR"):
            step.kind, step.what = "products", int(text.rsplit("0x", 1)[1], 16)
        elif opcode.startswith("SYNCS.PHASECHK"):
            step.kind = "data"
            if waits:
                name = waits.pop(0)
                step.what = (name, first + taken[name], stride or buffers[0].count(name))
                taken[name] += 1
        elif opcode.startswith("SYNCS.ARRIVE"):
            step.kind, step.what = "release", releases.pop(0) if releases else None
        elif match := re.match(r"BAR\.(SYNC|ARV)\S* (\w+), (0x[0-9a-f]+|R\d+)", text):
            threads = int(match[3], 16) if match[3].startswith("0x") else 128
            if threads > 128 and groups > 1:
                step.kind = "sync" if match[1] == "SYNC" else "arrive"
                step.what = (named(match[2], step.kind, group, groups), threads // 128)
            else:
                step.latency = rates.times["barrier"]
                step.kind = "pause" if match[1] == "SYNC" else "plain"
        elif opcode.startswith("MEMBAR") and re.search(r"\.(GPU|SYS)", opcode):
            step.kind, step.latency = "pause", rates.times["fence"]
        steps.append(step)
    return steps


def named(operand, kind, group, groups):
    """Which barrier: a number; where a register has it, the warpgroup's own where it waits and the next
    one's where it only arrives, as warpgroups that take turns do."""
    if operand.startswith("0x"):
        return operand
    return f"turn {group if kind == 'sync' else (group + 1) % groups}"


class Loads:
    """What warpgroups wait for: a ring of slots for each buffer, filled one after the other.

    A slot is filled anew each time that one is given back: its `producer`, who does one thing after the
    other, needs `lead` cycles for it, the memory its latency, and all buffers share its rate. Buffers of no
    bytes do not come from memory: one warpgroup tells another of them. `ahead`: a slot is shown only when
    the producer has asked for so many more.
    """

    @dataclasses.dataclass
    class Buffer:
        bytes: float
        slots: int
        producer: str
        lead: float = 0.0
        ahead: int = 0

    def __init__(self, buffers, rate, latency):
        self.buffers, self.rate, self.latency = buffers, rate, latency
        self.free = 0.0
        self.filled = {name: [] for name in buffers}
        self.asked = {name: [] for name in buffers}
        self.leads = collections.Counter()
        for use in range(max((one.slots for one in buffers.values()), default=0)):
            for name, one in buffers.items():
                if use < one.slots:
                    self.fill(name, 0.0)

    def fill(self, name, time):
        buffer = self.buffers[name]
        if not buffer.bytes:
            self.asked[name].append(time)
            self.filled[name].append(time)
            return
        asked = max(self.leads[buffer.producer], time) + buffer.lead
        self.leads[buffer.producer] = asked
        self.free = max(self.free, asked) + buffer.bytes / self.rate
        self.asked[name].append(asked)
        self.filled[name].append(self.free + self.latency)

    def there(self, what, turn):
        """When the data of a use are there; never, as far as is known yet, where they are not asked for."""
        name, number, of_turn = what
        use = turn * of_turn + number
        shown = use + self.buffers[name].ahead
        if shown >= len(self.filled[name]):
            return float("inf")
        return max(self.filled[name][use], self.asked[name][shown])

    def release(self, names, time):
        for name in names.split():
            self.fill(name, time)


class Warp:
    """A warp of one warpgroup on its way, which it takes `turns` times."""

    def __init__(self, steps, turns):
        self.steps, self.turns = steps, turns
        self.at, self.turn, self.ready, self.last = 0, 0, 0.0, -1.0
        self.scoreboards = [0.0] * 6
        self.groups = []
        self.ends = []

    def step(self):
        return self.steps[self.at]


class Quarter:
    """A quarter of an SM with a warp of each warpgroup. `ends` of each warp has when its turns ended;
    `busy` has how long each unit was."""

    def __init__(self, ways, turns, rates, loads=None):
        self.warps = [Warp(steps, turns) for steps in ways]
        self.rates, self.loads = rates, loads
        self.free, self.busy, self.barriers = {}, collections.Counter(), {}
        # Before loops in which warpgroups take turns, the last lets the first begin.
        self.barriers["turn 0"] = [(None, 0.0)]

    def run(self):
        while True:
            ready = [(self.earliest(number, warp), warp.last, number)
                     for number, warp in enumerate(self.warps) if warp.turn < warp.turns]
            if not ready:
                return self
            time, _, number = min(ready)
            if time == float("inf"):
                raise RuntimeError("nothing goes on: " + "; ".join(
                    warp.step().text for warp in self.warps if warp.turn < warp.turns))
            self.go(self.warps[number], number, time)

    def turn(self):
        """Cycles of a turn once all is on its way: of the second half of the turns."""
        return max((warp.ends[-1] - warp.ends[warp.turns // 2 - 1])
                   / (warp.turns - warp.turns // 2) for warp in self.warps)

    def total(self):
        return max(warp.ends[-1] for warp in self.warps)

    def earliest(self, number, warp):
        """When a warp can issue its next instruction; infinity where that hangs on another warp."""
        step, time = warp.step(), max(warp.ready, self.free.get("issue", 0.0))
        for i in range(6):
            if step.control.wait >> i & 1:
                time = max(time, warp.scoreboards[i])
        if step.kind == "products":
            done = warp.groups[:len(warp.groups) - step.what]
            return max(time, done[-1] + self.rates.times["product"]) if done else time
        if step.kind == "data" and self.loads and step.what:
            time = max(time, self.loads.there(step.what, warp.turn))
        if step.kind == "sync":
            return max(time, self.met(number, warp, time))
        return time if step.kind == "product" else max(time, self.free.get(step.unit, 0.0))

    def met(self, number, warp, time):
        """When all warpgroups of a barrier have come."""
        name, groups = warp.step().what
        came, mine = self.barriers.setdefault(name, []), (number, warp.turn, warp.at)
        if mine not in (one for one, _ in came):
            came.append((mine, time))
        position = next(i for i, (one, _) in enumerate(came) if one == mine)
        whole = came[position // groups * groups:][:groups]
        if len(whole) < groups:
            return float("inf")
        return max(one[1] for one in whole) + self.rates.times["barrier"]

    def go(self, warp, number, time):
        # While the tensor cores work, they take turns with all else at the registers.
        is_beside = self.free.get("tensor", 0.0) > time
        step, slow = warp.step(), self.rates.times["contention"] if is_beside else 1.0
        self.free["issue"] = time + slow
        self.busy["issue"] += slow
        after = time + max(step.control.stall, 1) * slow
        if step.kind == "product":
            done = max(time, self.free.get("tensor", 0.0)) + step.cycles
            self.free["tensor"] = done
            self.busy["tensor"] += step.cycles
            if step.what:
                warp.groups.append(done)
            done = time + 2
        else:
            self.free[step.unit] = max(self.free.get(step.unit, 0.0), time) + step.cycles
            self.busy[step.unit] += step.cycles
            done = max(time + step.latency, self.free[step.unit])
        if step.kind == "arrive":
            self.barriers.setdefault(step.what[0], []).append(((number, warp.turn, warp.at), time))
        elif step.kind == "release" and self.loads and step.what:
            self.loads.release(step.what, time)
        elif step.kind == "pause":
            after = max(after, time + step.latency)
        # Operands are read long before the result is there.
        read = min(done, self.free.get(step.unit, 0.0) + self.rates.times["operands"])
        for held, until in ((step.control.write, done), (step.control.read, read)):
            if held < NO_SCOREBOARD - 1:
                warp.scoreboards[held] = max(warp.scoreboards[held], until)
        warp.ready, warp.last = after, time
        warp.at += 1
        if warp.at == len(warp.steps):
            warp.at, warp.turn = 0, warp.turn + 1
            warp.ends.append(after)


# --- Changes of steps, by which it is tried whether the model reacts.

def last(steps, is_one):
    return max((at for at, step in enumerate(steps) if is_one(step)), default=None)


def fenced(steps):
    """With fences of the whole GPU behind the last wait for products, one after the other."""
    at = last(steps, lambda step: step.kind == "products")
    fence = Step("MEMBAR.ALL.GPU", Control(1, NO_SCOREBOARD, NO_SCOREBOARD, 0), "load", 4, 700, "pause")
    return [*steps[:at + 1], fence, fence, fence, *steps[at + 1:]]


def together(steps):
    """With the last wait for products behind the last exponential."""
    wait = last(steps, lambda step: step.kind == "products")
    behind = last(steps, lambda step: step.text.startswith("MUFU.EX2"))
    if wait > behind:
        return steps
    return [*steps[:wait], *steps[wait + 1:behind + 1], steps[wait], *steps[behind + 1:]]


def apart(steps):
    """With the last wait for products before the first largest score."""
    wait = last(steps, lambda step: step.kind == "products")
    before = next(at for at, step in enumerate(steps) if step.text.startswith("FMNMX"))
    if wait < before:
        return steps
    return [*steps[:before], steps[wait], *steps[before:wait], *steps[wait + 1:]]
