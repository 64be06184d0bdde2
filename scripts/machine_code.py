"""Control flow of machine code: basic blocks and loops, for NVIDIA's and AMD's instructions alike.

A kernel that is timed repeats its work in a loop. Whether an instruction merely stands in a kernel
says little: a compiler may have moved it before the loop, where it runs once. So proofs ask which
loop an instruction is in.
"""

import dataclasses
import re


@dataclasses.dataclass
class Instruction:
    """One instruction. `jump`: the index of the instruction that it may jump to. `falls`: whether
    the next one may follow it."""
    text: str
    jump: int | None = None
    falls: bool = True


@dataclasses.dataclass
class Loop:
    """Indices of a loop's instructions in order, how many loops it is in (itself counted), and the
    loops within it."""
    body: list
    depth: int
    inner: list


# Behind these nothing follows; `BREAK` and `BSYNC` go on where threads meet again, which is the
# next instruction that the assembler wrote.
NVIDIA_ENDS = re.compile(r"(BRA|BRX|BRXU|JMP|JMX|EXIT|RET|KILL|BPT)\b")
# A call is also how some loops are left: what it calls, or jumps to, is reached; so is the next one.
NVIDIA_JUMPS = re.compile(r"(BRA|JMP|CALL\.REL)\b")


def nvidia(listing):
    """The instructions of each entry of what cuobjdump prints."""
    found, entry, places = {}, None, {}
    for line in listing.splitlines():
        if match := re.search(r"Function : (\w+)", line):
            entry, places = match[1], {}
            found[entry] = (places, [])
        elif entry and (match := re.match(
                r"\s+/\*([0-9a-f]{4,})\*/\s+(@!?U?P[0-9T]+ +)?([A-Z].*?) *;", line)):
            places[int(match[1], 16)] = len(found[entry][1])
            # Of 10.7 those that a whole warp has the same operands for are called `USYNCS`.
            found[entry][1].append((match[2], re.sub(r"^USYNCS\b", "SYNCS", match[3])))
    return {entry: nvidia_flow(places, lines) for entry, (places, lines) in found.items()}


def nvidia_flow(places, lines):
    """Where the instructions of one entry go on. `places`: their indices by address."""
    code = []
    for predicate, text in lines:
        name = text.split()[0]
        one = Instruction(text)
        # `BRA P0, 0x..` and `BRA.DIV UR4, 0x..` have their condition as an operand.
        conditional = predicate is not None or bool(re.match(r"BRA\S* (!?U?P|~?UR|U,|DIV)", text))
        if NVIDIA_ENDS.match(name) and not conditional:
            one.falls = False
        if NVIDIA_JUMPS.match(name) and (match := re.search(r"(?:\(|\b)0x([0-9a-f]+)\)?$", text)):
            one.jump = places.get(int(match[1], 16))
        code.append(one)
    return code


def amd(listing, names):
    """The instructions of the named entries of what clang writes."""
    found, entry, labels, waiting = {}, None, {}, []
    for line in listing.splitlines():
        if match := re.match(r"(\.?\w+):", line):
            if match[1] in names:
                entry, labels = match[1], {}
                found[entry] = (labels, [])
            elif entry:
                labels[match[1]] = len(found[entry][1])
        elif line.startswith(".Lfunc_end"):
            entry = None
        elif entry and (match := re.match(r"\s+([a-z]\w+.*)", line)):
            found[entry][1].append(match[1].split(";")[0].strip())
    return {entry: amd_flow(labels, lines) for entry, (labels, lines) in found.items()}


def amd_flow(labels, lines):
    """Where the instructions of one entry go on."""
    code = []
    for text in lines:
        name, *operands = text.split()
        one = Instruction(text)
        if name in ("s_branch", "s_endpgm", "s_setpc_b64"):
            one.falls = False
        if name == "s_branch" or name.startswith("s_cbranch"):
            one.jump = labels[operands[-1]]
        code.append(one)
    return code


def successors(code):
    """For each instruction the indices of those that may follow it."""
    after = []
    for at, one in enumerate(code):
        next_ones = [at + 1] if one.falls and at + 1 < len(code) else []
        if one.jump is not None and one.jump not in next_ones:
            next_ones.append(one.jump)
        after.append(next_ones)
    return after


def loops(code):
    """All loops that the entry reaches, outer ones before those within them."""
    after, reached, left = successors(code), set(), [0]
    while left:
        at = left.pop()
        if at not in reached:
            reached.add(at)
            left += after[at]
    return nest(after, reached, set(), 1)


def nest(after, nodes, headers, depth):
    """The loops among some instructions, without the ways into these headers."""
    found = []
    for part in strongly_connected(after, nodes, headers):
        entered = {to for at in range(len(after)) if at not in part
                   for to in after[at] if to in part} or {min(part)}
        # A loop's second way in, where there is one, does not make it two.
        header = min(entered)
        inner = nest(after, part, headers | {header}, depth + 1)
        found.append(Loop(sorted(part), depth, [one for one in inner if one.depth == depth + 1]))
        found += inner
    return found


def strongly_connected(after, nodes, headers):
    """Sets of instructions each of which can be reached from each other one of its set: Tarjan's
    algorithm, without recursion. Ways into headers do not count."""
    index, low, path, on_path, sets = {}, {}, [], set(), []
    ways = {at: [to for to in after[at] if to in nodes and to not in headers] for at in nodes}
    for start in sorted(nodes):
        if start in index:
            continue
        work = [(start, iter(ways[start]))]
        index[start] = low[start] = len(index)
        path.append(start)
        on_path.add(start)
        while work:
            at, rest = work[-1]
            for to in rest:
                if to not in index:
                    index[to] = low[to] = len(index)
                    path.append(to)
                    on_path.add(to)
                    work.append((to, iter(ways[to])))
                    break
                if to in on_path:
                    low[at] = min(low[at], index[to])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[at])
                if low[at] == index[at]:
                    part = set()
                    while at not in part:
                        one = path.pop()
                        on_path.discard(one)
                        part.add(one)
                    if len(part) > 1 or at in ways[at]:
                        sets.append(part)
    return sets
