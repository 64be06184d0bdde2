"""Compiles every kernel for each of its targets and proves what kernels.toml claims of it.

Called by scripts/kernels.sh, which installs the compilers. Fails on a kernel that does not compile,
spills registers, lacks a claimed instruction, has not as many products, exponentials or registers
as its row says, whose loops are not as proofs.toml says (scripts/claims.py), which does not fit its
target, or is missing from the machine code or the list. What was proved before of the same text,
row, proofs, target and compiler is not proved again: scripts/verdicts.py.
"""

import argparse
import collections
import concurrent.futures
import ctypes
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

import claims
import machine_code
import sm_timing
from verdicts import Verdicts, included, of_files

ROOT = pathlib.Path(__file__).resolve().parent.parent / "kernels"
INCLUDE = ROOT / "include"
# What the program gives to NVRTC; a test of the program holds this line against its own.
PROGRAM_OPTIONS = ["--gpu-architecture={target}", "-std=c++17"]


def run(command, **options):
    """A command's output; an error with everything it said where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def nvcc(tools, source, target, cubin):
    """Compiles with nvcc; gives the assembler's statistics."""
    arch = target.removeprefix("sm_")
    return run([
        tools / "nvcc", "-std=c++17", "-O3", "-I", INCLUDE, "-Xptxas", "-v", "-cubin",
        f"-gencode=arch=compute_{arch},code=sm_{arch}", "-o", cubin, source,
    ])


def nvrtc(library, source, target, cubin):
    """Compiles through NVRTC from text alone, as the backend does; gives the compiler's log.

    The program's tests prove that the text it embeds is the text of these files."""
    api = open_nvrtc(library)
    headers = sorted(INCLUDE.glob("*.h"))
    texts = (ctypes.c_char_p * len(headers))(*[header.read_bytes() for header in headers])
    names = (ctypes.c_char_p * len(headers))(*[header.name.encode() for header in headers])
    program = ctypes.c_void_p()
    name = source.name.encode()
    said(api, api.nvrtcCreateProgram(
        ctypes.byref(program), source.read_bytes(), name, len(headers), texts, names))
    options = [option.format(target=target).encode() for option in PROGRAM_OPTIONS]
    options.append(b"--ptxas-options=-v")
    given = (ctypes.c_char_p * len(options))(*options)
    code = api.nvrtcCompileProgram(program, len(options), given)
    log = fetch(api, program, "ProgramLog").decode().rstrip("\0")
    if code != 0:
        raise RuntimeError(f"NVRTC: {log}")
    cubin.write_bytes(fetch(api, program, "CUBIN"))
    api.nvrtcDestroyProgram(ctypes.byref(program))
    return log


def open_nvrtc(folder):
    """The library of a folder. Opened by path, it does not find its built-ins by itself."""
    built_ins = next(path for path in folder.iterdir() if "builtins.so" in path.name)
    ctypes.CDLL(str(built_ins), mode=ctypes.RTLD_GLOBAL)
    library = next(path for path in folder.iterdir() if path.name.startswith("libnvrtc.so."))
    api = ctypes.CDLL(str(library))
    api.nvrtcGetErrorString.restype = ctypes.c_char_p
    return api


def known_to_nvrtc(library):
    """The numbers of the targets that an NVRTC knows."""
    api, count = open_nvrtc(library), ctypes.c_int()
    said(api, api.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
    numbers = (ctypes.c_int * count.value)()
    said(api, api.nvrtcGetSupportedArchs(numbers))
    return list(numbers)


def said(api, code):
    if code != 0:
        raise RuntimeError(f"NVRTC: {api.nvrtcGetErrorString(code).decode()}")


def fetch(api, program, what):
    size = ctypes.c_size_t()
    said(api, getattr(api, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    text = ctypes.create_string_buffer(size.value)
    said(api, getattr(api, f"nvrtcGet{what}")(program, text))
    return text.raw


def statistics(log):
    """Registers, static shared memory and spilled bytes of each entry, from the assembler."""
    found = {}
    entry = None
    for line in log.splitlines():
        if match := re.search(r"Compiling entry function '(\w+)'", line):
            entry = match[1]
            found[entry] = {"registers": 0, "shared": 0, "spills": 0}
        elif entry and (match := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill", line)):
            found[entry]["spills"] += int(match[1]) + int(match[2])
        elif entry and (match := re.search(r"Used (\d+) registers", line)):
            found[entry]["registers"] = int(match[1])
            if shared := re.search(r"(\d+) bytes smem", line):
                found[entry]["shared"] = int(shared[1])
    return found


def instructions(tools, cubin):
    """The machine code of each entry, how often each opcode stands in it, and the registers that
    warpgroups exchange."""
    environment = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}")
    text = run([tools / "cuobjdump", "-sass", cubin], env=environment)
    passed = parameters(run([tools / "cuobjdump", "-elf", cubin], env=environment))
    return {entry: {
        "code": code,
        "parameters": passed.get(entry, []),
        "codes": collections.Counter(one.text.split()[0] for one in code),
        "registers": {int(re.search(r"0x[0-9a-f]+$", one.text)[0], 16) for one in code
                      if one.text.startswith("USETMAXREG")},
    } for entry, code in machine_code.nvidia(text).items()}


def parameters(text):
    """The sizes of each entry's parameters, in their order, from what `cuobjdump -elf` prints."""
    found, entry = {}, None
    for line in text.splitlines():
        if match := re.match(r"\.nv\.info\.(\w+)$", line):
            entry = match[1]
        elif entry and (match := re.search(r"Ordinal : 0x(\w+)\s+Offset\s+: 0x\w+\s+Size\s+: 0x(\w+)", line)):
            found.setdefault(entry, {})[int(match[1], 16)] = int(match[2], 16)
    return {entry: [size for _, size in sorted(sizes.items())] for entry, sizes in found.items()}


# Element types as opcodes of the matrix units name them; of 16-bit floats only bfloat16 has a name.
TYPES = {"BF16", "TF32", "E4M3", "E5M2", "E2M1", "S8", "U8"}


def is_one(code, name):
    """Whether an opcode starts with a name, and multiplies no other types than it says."""
    rest = code[len(name):].split(".")
    return code.startswith(name) and not rest[0] and (
        "MMA" not in name or TYPES.isdisjoint(rest))


def is_meant(claim, text):
    """Whether a claim, `A|B` where names differ, means an instruction: by its name alone, by its name's
    beginning (`A*`), or with the operands that it begins with."""
    return any(text.startswith(name.rstrip("*")) if " " in name or name.endswith("*")
               else is_one(text.split()[0], name) for name in claim.split("|"))


def missing_claims(claimed, opcodes):
    """The claims that no opcode satisfies."""
    return [claim for claim in claimed if not any(is_meant(claim, code) for code in opcodes)]


def check_claims():
    """That a product of one type is not taken for that of another."""
    assert missing_claims(["HMMA.16816.F32"], {"HMMA.16816.F32.BF16"})
    assert missing_claims(["HGMMA.64x64x16.F32"], {"HGMMA.64x64x16.F32.BF16"})
    assert missing_claims(["HGMMA.64x64x16.F32.BF16"], {"HGMMA.64x64x16.F32"})
    assert not missing_claims(["HMMA.16816.F32", "LDGSTS.E"], {"HMMA.16816.F32", "LDGSTS.E.128"})
    assert not missing_claims(["UTCHMMA"], {"UTCHMMA.2CTA"}) and missing_claims(["LDG"], {"LDGSTS"})


def products(kernel):
    """How many of each opcode of the matrix units the design has: kernels/README.md."""
    made, of, (dim_qk, dim_v) = kernel["exps"], kernel["products"], dimensions(kernel)
    rows, keys = made["rows"], of.get("keys", made["keys"])
    designed = collections.Counter()
    for code, columns, depth, copies, rounds in (
            (of["scores"], keys, dim_qk, of["copies"][0], of.get("rounds", 1)),
            (of["sums"], dim_v, keys, of["copies"][1], 1)):
        if shape := re.match(r"[HQ]GMMA\.(\d+)x(\d+)x(\d+)\.", code):
            one, lanes = [int(length) for length in shape.groups()], 128
        elif shape := re.match(r"[HQ]MMA\.168(\d\d)\.", code):
            one, lanes = [16, 8, int(shape[1])], 32
        else:
            depth *= of.get("terms", 1)
            narrow = code.split(".")[0] == "UTCQMMA"
            one, lanes = [rows, columns, 32 if narrow else 16], made["threads"]
        each = one[0] * one[1] * one[2] * made["threads"] // lanes * rounds
        whole = rows * columns * depth * copies
        assert whole % each == 0, kernel["entry"]
        designed[code] += whole // each
    return designed


def dimensions(kernel):
    """Of queries and of values."""
    return [int(length) for length in kernel["operation"].split("/")[-1].split("x")]


def exponentials(exps):
    """How many the design has, and at most: kernels/README.md."""
    tile = exps["rows"] * (exps["keys"] + exps["shared_by"])
    assert tile % exps["threads"] == 0, exps
    designed = exps["copies"] * tile // exps["threads"]
    assert exps.get("others", 0) < designed, "a doubled tile would pass"
    return designed, designed + exps.get("others", 0)


# Of a unit: registers, and KiB of shared memory that a block can have (CUDA programming guide,
# "Technical specifications per compute capability"; 10.7: CUTLASS, include/cutlass/arch/arch.h).
REGISTERS = 64 << 10
SHARED = {"80": 163, "89": 99, "90": 227, "100": 227, "103": 227, "107": 327, "120": 99}


def broken_plans(kernel, target, count, shared, found):
    """What of a launch does not fit the target, or is not as its row says."""
    threads, faults = kernel["threads"], []
    if count["registers"] * threads > REGISTERS:
        faults.append(f"{count['registers']} registers for {threads} threads")
    if shared > SHARED[re.search(r"\d+", target)[0]] << 10:
        faults.append(f"{shared} bytes of shared memory on {target}")
    told = kernel.get("registers", [])
    if found["registers"] != set(told):
        faults.append(f"registers {sorted(found['registers'])} for warpgroups, not {told}")
    if told and (len(told) * 128 != threads or sum(told) * 128 > REGISTERS):
        faults.append(f"{told} registers for the warpgroups of {threads} threads")
    # A driver reads as many addresses as the kernel has parameters: a struct, how often it repeats, scratch
    # memory, and each map.
    repeat = [4] if kernel.get("repeat") == "inside" else []
    scratch = [8] if kernel.get("scratch") else []
    behind = repeat + scratch + [128] * len(kernel.get("maps", []))
    if kernel.get("maps") and found["parameters"][1:] != behind:
        faults.append(f"parameters of {found['parameters']} bytes, not a struct and {behind}")
    # The assembler leaves out a multiplication whose result is overwritten, and puts a small one in its
    # place that keeps the order of what is asynchronous.
    lost = sum(bool(re.match(r"\S*MMA\S* RZ,", one.text)) for one in found["code"])
    if lost:
        faults.append(f"{lost} multiplications were left out: what they make is not read")
    if "exps" in kernel:
        least, most = exponentials(kernel["exps"])
        there = sum(n for code, n in found["codes"].items() if code.startswith("MUFU.EX2"))
        if not least <= there <= most:
            faults.append(f"{there} exponentials, not {least} to {most}")
    if "products" in kernel:
        for name, designed in products(kernel).items():
            there = sum(n for code, n in found["codes"].items() if is_one(code, name))
            if there != designed:
                faults.append(f"{there} {name}, not {designed}")
        claimed = {name.split(".")[0] for name in products(kernel)}
        for code in found["codes"]:
            if code.split(".")[0] in claimed and not any(
                    is_one(code, name) for name in products(kernel)):
                faults.append(f"{code}, which its design has not")
    return faults


# What the assembler says where it made asynchronous multiplications wait for each other, ignored
# the registers that warpgroups exchange, or keeps an array in memory: some as a warning, some as
# mere information with a number.
LOST = re.compile(r"warning|\(C\d{4}\)|Potential Performance Loss|\b[1-9]\d* bytes stack frame", re.I)


class Compiler:
    """A compiler, the targets that it knows, and the tools that read its machine code, with a hash of
    their files."""

    def __init__(self, name, compile_with, tools, files, known):
        self.name, self.compile_with, self.tools = name, compile_with, tools
        self.files = of_files([tools, *files])
        self.is_for_the_rest = False
        self.known = {f"sm_{number}" for number in re.findall(r"\d+", known)}

    def knows(self, target):
        return target.rstrip("af") in self.known


def judge(job):
    """One file for one target by one compiler: rows to print, faults found, kept or proved now."""
    file, proofs, target, compiler, verdicts = job
    try:
        texts = included(ROOT / file["path"], INCLUDE)
    except (OSError, RuntimeError) as error:
        return [], [str(error)]
    depends_on = [texts, file, proofs, target, compiler.name, compiler.files]
    return verdicts.rows(depends_on, lambda: prove(file, proofs, target, compiler))


def prove(file, proofs, target, compiler):
    """One file for one target by one compiler: rows to print, faults found."""
    compiler, compile_with, tools = compiler.name, compiler.compile_with, compiler.tools
    source = ROOT / file["path"]
    rows, faults = [], []
    place = f"{file['path']} {target} {compiler}"
    with tempfile.TemporaryDirectory() as folder:
        cubin = pathlib.Path(folder) / "kernel.cubin"
        try:
            log = compile_with(source, target, cubin)
            counted = statistics(log)
            opcodes = instructions(tools, cubin)
        except RuntimeError as error:
            return rows, [f"{place}: {error}"]
    faults += [f"{place}: {line.strip()}" for line in log.splitlines() if LOST.search(line)]
    listed = {kernel["entry"]: kernel for kernel in file["kernels"]}
    for entry in sorted(opcodes.keys() - listed.keys()):
        faults.append(f"{place}: {entry} is not listed")
    for entry, kernel in listed.items():
        if entry not in opcodes or entry not in counted:
            faults.append(f"{place}: no entry {entry}")
            continue
        lacking = missing_claims(kernel["claims"], opcodes[entry]["codes"])
        count = counted[entry]
        if count["spills"]:
            faults.append(f"{place}: {entry} spills {count['spills']} bytes")
        if lacking:
            faults.append(f"{place}: {entry} has no {', '.join(lacking)}")
        shared = count["shared"] + kernel.get("shared", 0)
        broken = broken_plans(kernel, target, count, shared, opcodes[entry])
        faults += [f"{place}: {entry}: {fault}" for fault in broken]
        unmet, held, expected = claims.judged(
            proofs, entry, target, opcodes[entry]["code"], is_meant)
        faults += [f"{place}: {entry}: {fault}" for fault in unmet]
        verdict = "no " + ", ".join(lacking) if lacking else "has " + ", ".join(kernel["claims"])
        verdict += f"; {held} of loops" + (f", {expected} fail as expected" if expected else "")
        rows.append((entry, target, compiler, count["registers"], shared, count["spills"], verdict))
    return rows, faults


def nvrtc_in_child(library):
    """NVRTC in a process of its own: two versions do not live in one."""
    def compile_with(source, target, cubin):
        return run([sys.executable, __file__, "--one", library, source, target, cubin])
    return compile_with


def find_compilers(given):
    """nvcc and NVRTC of each folder; behind them those for targets that none of these knows."""
    # nvcc preprocesses by g++, whose version is part of its name.
    toolkit, host = given.bin.parent, run(["g++", "--version"]).splitlines()[0]
    compilers = [Compiler("nvcc", lambda *a: nvcc(given.bin, *a), given.bin,
                          [toolkit / "nvvm", toolkit / "include"],
                          run([given.bin / "nvcc", "--list-gpu-code"]))]
    compilers[0].files += host
    for library in given.nvrtc + given.newer:
        name = next(path.name for path in library.iterdir() if "builtins.so" in path.name)
        version = ".".join(name.split(".so.")[1].split(".")[:2])
        # Tools read machine code that is not newer than they are.
        own = library.parent / "bin"
        tools = own if (own / "cuobjdump").exists() else given.bin
        compilers.append(Compiler(
            f"NVRTC {version}", nvrtc_in_child(library), tools, library.glob("libnvrtc*"),
            run([sys.executable, __file__, "--known", library])))
    older = set().union(*(one.known for one in compilers[:len(compilers) - len(given.newer)]))
    for compiler in compilers[len(compilers) - len(given.newer):]:
        compiler.known -= older
        compiler.is_for_the_rest = True
    return compilers


def left_to_others(chosen, compilers, by):
    """For each compiler and target that it does not know, how many files are left to others."""
    for compiler in (one for one in compilers if not one.is_for_the_rest):
        unknown = collections.Counter(
            target for _, target in chosen if by in compiler.name and not compiler.knows(target))
        for target, count in sorted(unknown.items()):
            others = [one.name for one in compilers if one.knows(target)]
            yield (f"skipped: {compiler.name} for {target}: {count} files are left to "
                   f"{', '.join(others) or 'no compiler'}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--bin", type=pathlib.Path, help="folder of nvcc and cuobjdump")
    arguments.add_argument("--nvrtc", type=pathlib.Path, action="append", default=[])
    arguments.add_argument("--newer", type=pathlib.Path, action="append", default=[],
                           help="folder of an NVRTC for targets that no other compiler knows")
    arguments.add_argument("--only", default="", help="files whose path contains this")
    arguments.add_argument("--target", default="", help="this target alone")
    arguments.add_argument("--by", default="", help="compilers whose name contains this")
    arguments.add_argument("--one", nargs=4, type=pathlib.Path, help=argparse.SUPPRESS)
    arguments.add_argument("--known", type=pathlib.Path, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.known:
        print(*known_to_nvrtc(given.known))
        return 0
    if given.one:
        library, source, target, cubin = given.one
        print(nvrtc(library, source, str(target), cubin))
        return 0

    check_claims()
    compilers = find_compilers(given)
    files = tomllib.loads((ROOT / "kernels.toml").read_text())["file"]
    proofs = tomllib.loads((ROOT / "proofs.toml").read_text())["nvidia"]
    verdicts = Verdicts(__file__, claims.__file__, machine_code.__file__, sm_timing.__file__)
    chosen = [(file, target) for file in files if given.only in file["path"]
              for target in file["targets"] if given.target in ("", target)]
    jobs = [(file, claims.concerning(proofs, file), target, compiler, verdicts)
            for file, target in chosen for compiler in compilers
            if given.by in compiler.name and compiler.knows(target)]

    for line in left_to_others(chosen, compilers, given.by):
        print(line)
    print(f"{'entry':34} {'target':8} {'compiler':10} {'registers':>9} {'shared':>7} "
          f"{'spills':>6}  claimed instructions")
    faults, count = claims.unproved(proofs, files), 0
    faults += [f"{file['path']}: no compiler knows {target}" for file, target in chosen
               if not any(compiler.knows(target) for compiler in compilers)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for rows, found in pool.map(judge, jobs):
            faults += found
            count += len(rows)
            for entry, target, compiler, registers, shared, spills, verdict in rows:
                print(f"{entry:34} {target:8} {compiler:10} {registers:9} {shared:7} {spills:6}  "
                      f"{verdict}")
    for path in sorted(ROOT.rglob("*.cu")):
        if str(path.relative_to(ROOT)) not in {file["path"] for file in files}:
            faults.append(f"{path.relative_to(ROOT)} is not listed")
    for fault in faults:
        print(f"fault: {fault}", file=sys.stderr)
    print(f"{len(jobs)} compilations, {verdicts.reused} of them proved before")
    print(f"{count} kernels proved, {len(faults)} faults")
    return 1 if faults or not count else 0


if __name__ == "__main__":
    sys.exit(main())
