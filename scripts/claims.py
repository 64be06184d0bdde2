"""The language of kernels/proofs.toml: what must stand in the loops of machine code, how often, in
which order, and what must not. kernels/README.md, "Proofs of loops", explains each form.
"""

import dataclasses
import fnmatch
import re

import machine_code
import sm_timing

# Loops that the assembler makes of one instruction (`elect.sync` for a thread chosen by its number)
# or that wait for a barrier are no turns of anything: they are part of the loop around them.
PART = ("ELECT", "SYNCS.PHASECHK")
PART_LENGTH = 14


class Malformed(Exception):
    """A claim that is not in the language."""


@dataclasses.dataclass
class Machine:
    """The machine code of one entry. `is_one(pattern, text)`: whether an instruction is meant."""
    code: list
    is_one: object

    def __post_init__(self):
        self.after = machine_code.successors(self.code)
        loops = machine_code.loops(self.code)
        self.parts = [loop for loop in loops if self.is_part(loop)]
        self.loops = [loop for loop in loops if not self.is_part(loop)]

    def is_part(self, loop):
        return len(loop.body) <= PART_LENGTH and any(
            self.code[at].text.startswith(PART) for at in loop.body)

    def inner(self, loop):
        return [one for one in loop.inner if not self.is_part(one)]

    def places(self, loop, pattern):
        """Where in a loop these instructions stand, in the order of their addresses."""
        return [at for at in loop.body if self.is_one(pattern, self.code[at].text)]


def innermost(machine, depth, pattern):
    """The loops that hold an instruction and have no loop within them that does."""
    return [loop for loop in machine.loops if loop.depth >= depth
            and machine.places(loop, pattern)
            and not any(machine.places(one, pattern) for one in machine.inner(loop))]


def failed(claim, machine):
    """Why a claim does not hold; nothing if it does."""
    head = re.fullmatch(r"(loops?|each loop)(?: (\d+))?: (.+)", claim)
    if not head:
        raise Malformed(f"{claim!r} does not begin with 'loop:', 'each loop:' or 'loops:'")
    depth, terms = int(head[2] or 1), [parsed(term) for term in head[3].split("; ")]
    if head[1] == "loops":
        loops = [loop for loop in machine.loops
                 if loop.depth >= depth and not machine.inner(loop)]
        if not loops:
            return f"no loop in {depth - 1} others"
        faults = [fault for loop in loops if (fault := failed_terms(terms, machine, loop))]
        return faults[0] if faults else None
    loops = innermost(machine, depth, terms[0].what)
    if not loops:
        return f"no loop in {depth - 1} others has {terms[0].what}"
    faults = [failed_terms(terms, machine, loop) for loop in loops]
    if head[1] == "each loop":
        return next((fault for fault in faults if fault), None)
    return None if None in faults else faults[0]


@dataclasses.dataclass
class Term:
    """One requirement. `kind`: `turns`, `least`, `order`, `none`, `usual`, `between`, `next` or `loop`."""
    kind: str
    what: str
    count: int = 0
    side: str = ""
    which: str = ""
    others: tuple = ()


def parsed(term):
    if match := re.fullmatch(r"(\d+) (.+) (before|after) the (first|last) (.+)", term):
        return Term("order", match[2], int(match[1]), match[3], match[4], (match[5],))
    if match := re.fullmatch(r"at most (\d+) instructions make the next (.+)", term):
        return Term("next", match[2], int(match[1]))
    if match := re.fullmatch(r"no loop of (.+)", term):
        return Term("loop", match[1])
    if match := re.fullmatch(r"no (.+) on the usual way", term):
        return Term("usual", match[1])
    if match := re.fullmatch(r"no (.+) from (.+) to (.+)", term):
        return Term("between", match[1], others=(match[2], match[3]))
    if match := re.fullmatch(r"no (.+)", term):
        return Term("none", match[1])
    if match := re.fullmatch(r"at least (\d+) (.+)", term):
        return Term("least", match[2], int(match[1]))
    if match := re.fullmatch(r"(\d+) (.+)", term):
        return Term("turns", match[2], int(match[1]))
    raise Malformed(f"{term!r} is no requirement")


def failed_terms(terms, machine, loop):
    """The first requirement that a loop does not meet, in words."""
    unrolled = set()
    for term in terms:
        places = machine.places(loop, term.what)
        if term.kind == "turns":
            if not places or len(places) % term.count:
                return f"{len(places)} {term.what} in a loop, not a multiple of {term.count}"
            unrolled.add(len(places) // term.count)
            if len(unrolled) > 1:
                return f"{len(places)} {term.what} in a loop that is unrolled {min(unrolled)} times"
        elif term.kind == "least":
            if len(places) < term.count:
                return f"{len(places)} {term.what} in a loop, not {term.count}"
        elif term.kind == "order":
            marks = machine.places(loop, term.others[0])
            if not marks:
                return f"no {term.others[0]} in a loop"
            mark = marks[0] if term.which == "first" else marks[-1]
            there = sum(at < mark if term.side == "before" else at > mark for at in places)
            if there < term.count:
                return (f"{there} {term.what} {term.side} the {term.which} {term.others[0]}, "
                        f"not {term.count}")
        elif term.kind == "none" and places:
            return f"{machine.code[places[0]].text} in a loop"
        elif term.kind == "usual" and (there := set(places) & usual(terms, machine, loop)):
            return f"{machine.code[min(there)].text} on the usual way through a loop"
        elif term.kind == "next" and (fault := made_anew(term, machine, places)):
            return fault
        elif term.kind == "loop" and (fault := loops_within(term, machine, loop)):
            return fault
        elif term.kind == "between" and (fault := between(term, machine, loop, set(places))):
            return fault
    return None


def usual(terms, machine, loop):
    """The way through a loop with the most of what a turn is to have, by the shortest route: what a thread
    does in every turn, without what it does once a tile."""
    wanted = [term.what for term in terms if term.kind in ("turns", "least")]

    def worth(text):
        return 1000 * any(machine.is_one(pattern, text) for pattern in wanted)
    return set(sm_timing.usual_ways(machine, loop, worth)[0])


def between(term, machine, loop, places):
    """Whether some way through a loop, its next turns included, passes an instruction behind one
    of the first kind and before the next of the second."""
    body, ends = set(loop.body), set(machine.places(loop, term.others[1]))
    starts = machine.places(loop, term.others[0])
    if not starts or not ends:
        return f"no {term.others[0 if not starts else 1]} in a loop"
    left, seen = [to for at in starts for to in machine.after[at]], set()
    while left:
        at = left.pop()
        if at in seen or at not in body or at in ends:
            continue
        if at in places:
            return (f"{machine.code[at].text} between {term.others[0]} and the next "
                    f"{term.others[1]}")
        seen.add(at)
        left += machine.after[at]
    return None


# Registers of threads and of warps, and predicates of both.
REGISTER = re.compile(r"\b(U?[RP])(\d+)\b")
GMMA = re.compile(r"[HQI]GMMA\.\S+ R\d+, (R\d+, )?gdesc\[UR(\d+)\]\S*, \S+?(?:, !?(UP\d+))?(?:,|$)")


def wide(name, found):
    """A register with those that follow it where the instruction's name says that it takes more."""
    count = 4 if ".128" in name else 2 if ".64" in name else 1
    return {(found[0], int(found[1]) + i) for i in range(count)}


def registers(text):
    """What an instruction writes and what it reads, as far as its operands say."""
    name, _, operands = text.partition(" ")
    first, _, rest = operands.partition(",")
    found = REGISTER.fullmatch(first.strip())
    written = wide(name, found.groups()) if found else set()
    if any(kind in ("P", "UP") for kind, _ in written):
        second, _, rest = rest.partition(",")
        written |= {(kind, int(number)) for kind, number in REGISTER.findall(second)}
    return written, set().union(*(wide(name, found) for found in REGISTER.findall(rest)))


def operands_of(text):
    """The registers of a multiplication's descriptors, of a left operand in registers and of the predicate
    that says whether sums are made new."""
    left, described, predicate = GMMA.match(text).groups()
    needed = {("UR", int(described) + i) for i in range(2 if left else 4)}
    if left:
        needed |= {("R", int(left[1:-2]) + i) for i in range(4)}
    return needed | ({("UP", int(predicate[2:]))} if predicate else set())


def made_anew(term, machine, places):
    """Whether between two multiplications that follow each other, without a jump or a wait for sums, more
    instructions than a number make what the second one is told."""
    targets = {one.jump for one in machine.code if one.jump is not None}
    for before, at in zip(places, places[1:]):
        between = range(before + 1, at)
        if at in targets or any(
                one in targets or machine.code[one].jump is not None or not machine.code[one].falls
                or machine.code[one].text.startswith("WARPGROUP.DEPBAR") for one in between):
            continue
        needed, count = operands_of(machine.code[at].text), 0
        for one in reversed(between):
            written, read = registers(machine.code[one].text)
            if written & needed:
                count, needed = count + 1, needed | read
        if count > term.count:
            return (f"{count} instructions make {machine.code[at].text} behind the one before, "
                    f"not at most {term.count}")
    return None


def loops_within(term, machine, loop):
    """Whether one of the loops within a loop, those that the assembler makes included, has an instruction."""
    within = [one for one in machine.parts + machine.loops
              if len(one.body) < len(loop.body) and set(one.body) <= set(loop.body)]
    for one in within:
        if places := machine.places(one, term.what):
            return f"{machine.code[places[0]].text} in a loop within a loop"
    return None


def applying(proofs, entry):
    """The proofs that concern an entry."""
    return [proof for proof in proofs
            if any(fnmatch.fnmatchcase(entry, name) for name in proof["entries"])]


def concerning(proofs, file):
    """The proofs of the entries of one file of a list: what its verdict depends on."""
    entries = {kernel["entry"] for kernel in file["kernels"]}
    return [proof for proof in proofs if any(applying([proof], entry) for entry in entries)]


def judged(proofs, entry, target, code, is_one):
    """Faults of one entry, how many claims held and how many failed as they were expected to."""
    faults, held, expected = [], 0, 0
    machine = Machine(code, is_one)
    for proof in applying(proofs, entry):
        if not any(fnmatch.fnmatchcase(target, name) for name in proof.get("targets", ["*"])):
            continue
        for claim in proof["claims"]:
            fault = failed(claim, machine)
            if "fails" not in proof:
                held += fault is None
                faults += [f"'{claim}': {fault}"] if fault else []
            elif fault:
                expected += 1
            else:
                faults.append(f"'{claim}' holds now: remove 'fails' from its proof")
    return faults, held, expected


def unproved(proofs, files):
    """Faults of the list of proofs itself: kernels that repeat inside without a proof of their
    loop, and proofs of no kernel."""
    kernels = [kernel for file in files for kernel in file["kernels"]]
    faults = []
    for kernel in kernels:
        of_loop = [proof for proof in applying(proofs, kernel["entry"]) if "fails" not in proof]
        needs = kernel.get("repeat") == "inside" or kernel["operation"].split("/")[0] in NEEDED
        if needs and not of_loop:
            faults.append(f"{kernel['entry']} has no proof of its loop")
    for proof in proofs:
        for name in proof["entries"]:
            if not any(fnmatch.fnmatchcase(kernel["entry"], name) for kernel in kernels):
                faults.append(f"a proof of {name}, which no list has")
    return faults


# Operations whose kernels are proved by their loops: all that a case times.
NEEDED = {"stream", "access", "transfer", "latency", "compute", "gemm", "grouped", "attention"}
