#!/usr/bin/env python3
"""Reads the machine code of the host's kernels and fails where the compiler left a call in a loop.

    check_host_code.py PROGRAM..    which must have their symbols

A closure or an intrinsic that is not inlined into a function with `target_feature` lacks its
instructions and is called for each vector: results stay right, and the kernel is many times slower.
Three things are faults:

- a function of `core::arch` in the program: intrinsics are for inlining;
- in a function with vector instructions (VEX or EVEX), a loop without a loop within it that calls a
  function which has no loop of its own, or none of those instructions;
- a call through a register in such a loop.

What ends the program, or copies and fills memory, may be called anywhere. Before it reads a program,
this script compiles a kernel with each fault planted, and fails where it does not find it.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

import machine_code

KERNELS = re.compile(r"\bfizeau_device::host::(gemm|attention|stream|compute|fused|instruction|recurrence|sdc|sparse)::")
INTRINSIC = re.compile(r"\bcore_arch::x86(_64)?::\w+::_mm")
# Neither `vzeroupper` nor prefetches tell of a function's instruction set.
VECTOR = re.compile(r"v(?!zero)\w+ .*\b[xyz]mm\d")
ALLOWED = re.compile(r"\b(panicking|panic\w*|unwrap_failed|expect_failed|handle_alloc_error"
                     r"|give_up|process_abort|memcpy|memset|memmove)\b|_fail\b|_panic")
ENDS = re.compile(r"\b(panicking|unwrap_failed|expect_failed|handle_alloc_error)\b|_fail\b|_panic")

HEAD = """
#![crate_type = "cdylib"]
pub mod fizeau_device { pub mod host { pub mod gemm {
    use std::arch::x86_64::*;
    #[unsafe(no_mangle)]
    pub unsafe fn start(from: *const f32, count: usize, to: *mut f32) { kernel(from, count, to) }
    #[inline(never)]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn kernel(from: *const f32, count: usize, to: *mut f32) {
        let mut sum = _mm256_setzero_ps();
        for at in 0..count { sum = BODY; }
        _mm256_storeu_ps(to, sum);
    }
    OTHER
}}}
"""
LOAD = "_mm256_loadu_ps(from.add(8 * at))"
# What is planted, and what is said of it.
PLANTED = [
    (f"_mm256_add_ps(sum, {LOAD})", "", None),
    (f"plus(sum, {LOAD})", "#[inline(never)] unsafe fn plus(a: __m256, b: __m256) -> __m256 {"
     " _mm256_add_ps(a, b) }", "intrinsic"),
    (f"_mm256_add_ps(sum, _mm256_set1_ps(half(*from.add(at))))",
     "#[inline(never)] fn half(value: f32) -> f32 { value * 0.5 }", "a loop calls planted"),
    (f"(std::hint::black_box(plus as unsafe fn(__m256, __m256) -> __m256))(sum, {LOAD})",
     "#[target_feature(enable = \"avx2\")] unsafe fn plus(a: __m256, b: __m256) -> __m256 {"
     " _mm256_add_ps(a, b) }", "register"),
]


def functions(program):
    """The code of each function, and the names of what its calls reach, by the function's name."""
    command = ["objdump", "--disassemble", "--no-show-raw-insn", "--demangle", "-M", "intel", program]
    found, name, start = {}, None, {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listing:
        for line in listing.stdout:
            if match := re.match(r"([0-9a-f]+) <(.*)>:$", line):
                name = f"{match[2]} at {match[1]}"
                found[name] = []
                start[int(match[1], 16)] = name
            elif name and (match := re.match(r" *([0-9a-f]+):\t(.*\S)", line)):
                found[name].append((int(match[1], 16), match[2]))
    if listing.returncode:
        sys.exit(f"fault: objdump cannot read {program}")
    return found, start


def flow(lines):
    """Where the instructions of a function go on."""
    places = {address: at for at, (address, _) in enumerate(lines)}
    code = []
    # Of functions of other libraries, which loops call through a register, the names.
    imported = re.compile(r"mov +(r\w+),QWORD PTR \[rip.*(<.*>)")
    names = dict(match.groups() for _, text in lines if (match := imported.match(text)))
    for _, text in lines:
        if match := re.match(r"call +(r\w+)$", text):
            text += " " + names.get(match[1], "")
        one = machine_code.Instruction(text)
        words = text.split()
        name = words[1] if words[0] in ("notrack", "bnd", "rep", "lock") and words[1:] else words[0]
        if name in ("jmp", "ret", "ud2", "hlt", "int3") or name == "call" and ENDS.search(text):
            one.falls = False
        if name.startswith("j") and (match := re.search(r"\bj\w+ +([0-9a-f]+)\b", text)):
            one.jump = places.get(int(match[1], 16))
        code.append(one)
    return code


def faults(program):
    """What is wrong, and how many kernels' functions and loops were read."""
    found, start = functions(program)
    said, read, of_kernels = [], 0, 0
    uses_vectors = {name for name, lines in found.items() if any(VECTOR.match(l) for _, l in lines)}
    said += [f"{name}: an intrinsic that is not inlined" for name in found if INTRINSIC.search(name)]
    for name in sorted(uses_vectors):
        if not KERNELS.search(name):
            continue
        of_kernels += 1
        code = flow(found[name])
        for loop in machine_code.loops(code):
            if loop.inner:
                continue
            read += 1
            for at in loop.body:
                text = code[at].text
                if not text.startswith("call") or ALLOWED.search(text):
                    continue
                match = re.match(r"call +([0-9a-f]+)\b", text)
                callee = match and start.get(int(match[1], 16))
                if callee is None:
                    said.append(f"{name}: a loop calls through a register: {text}")
                elif callee not in uses_vectors or not machine_code.loops(flow(found[callee])):
                    said.append(f"{name}: a loop calls {callee}")
    return said, of_kernels, read


def prove():
    """Finds each fault that is planted, and none where none is."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = pathlib.Path(folder, "planted.rs"), pathlib.Path(folder, "planted.so")
        for body, other, words in PLANTED:
            source.write_text(HEAD.replace("BODY", body).replace("OTHER", other))
            subprocess.run(["rustc", "--edition", "2024", "-O", "--cap-lints", "allow",
                            "-o", program, source], check=True)
            said, of_kernels, _ = faults(program)
            if not of_kernels or bool(said) != bool(words) or words and words not in "\n".join(said):
                sys.exit(f"fault: of {words or 'no fault'} planted in `{body}` is said: {said}")


def main():
    programs = sys.argv[1:]
    if not programs:
        sys.exit(__doc__)
    prove()
    wrong = False
    for program in programs:
        said, of_kernels, read = faults(program)
        for one in said:
            print(f"fault: {one}", file=sys.stderr)
        if not of_kernels:
            print(f"fault: {program} has no symbols of kernels", file=sys.stderr)
        wrong |= bool(said) or not of_kernels
        print(f"{program}: {of_kernels} functions of kernels with vectors, {read} innermost loops,"
              f" {len(said)} faults; {len(PLANTED) - 1} of {len(PLANTED) - 1} planted faults found")
    sys.exit(wrong)


if __name__ == "__main__":
    main()
