"""Compiles every kernel of kernels/amd.toml for each of its targets and proves what it claims.

Called by scripts/kernels_amd.sh, which installs the compiler. Fails on a kernel that does not
compile or assemble, spills registers, uses scratch memory, lacks a claimed instruction, whose loops are not as
proofs.toml says (scripts/claims.py), or is missing from the machine code or the list. What was
proved before of the same text, row, proofs, target and compiler is not proved again:
scripts/verdicts.py.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tomllib

import claims
import machine_code
import sm_timing
from verdicts import Verdicts, included, of_files

ROOT = pathlib.Path(__file__).resolve().parent.parent / "kernels"


def assembly(compiler, source, target):
    """The text of a kernel's machine code with what the compiler says of it."""
    done = subprocess.run(
        [*compiler, "-x", "hip", "-nogpuinc", "-nogpulib", f"--offload-arch={target}",
         "--cuda-device-only", "-O3", "-std=c++17", "-Wall", "-Wno-unused-function",
         "-I", ROOT / "include", "-S", "-o", "-", source],
        capture_output=True, text=True)
    if done.returncode != 0 or "warning:" in done.stderr:
        raise RuntimeError(f"the compiler says:\n{done.stderr}")
    return done.stdout


def assembled(compiler, text, target):
    """What the assembler says of the text of machine code: a compiler writes what inline assembly says
    without looking at it."""
    done = subprocess.run(
        [*compiler, "-x", "assembler", "-target", "amdgcn-amd-amdhsa", f"-mcpu={target}", "-c", "-o",
         os.devnull, "-"], input=text, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"the assembler says:\n{done.stderr}")


def instructions(text):
    """The machine code of each entry."""
    return machine_code.amd(text, set(re.findall(r"^\s*\.amdhsa_kernel (\w+)", text, re.M)))


def statistics(text):
    """Numbers of each kernel: the metadata that a driver reads, and the occupancy the compiler
    reckons."""
    found = {}
    for block in text.split("  - .agpr_count:")[1:] if ".agpr_count" in text else \
            re.split(r"\n  - \.args:", text)[1:]:
        number = lambda field: int((re.search(rf"\.{field}:\s+(\d+)", block) or [0, 0])[1])
        agprs = re.match(r"\s+(\d+)", block)
        name = re.search(r"\.symbol:\s+(\w+)\.kd", block)[1]
        found[name] = {
            "vgprs": number("vgpr_count"), "agprs": int(agprs[1]) if agprs else 0,
            "sgprs": number("sgpr_count"), "lds": number("group_segment_fixed_size"),
            "scratch": number("private_segment_fixed_size"),
            # Scalar registers spill to lanes of vector ones, not to memory.
            "spills": number("vgpr_spill_count"),
        }
    for name in found:
        body = text[text.index(f"\n{name}:"):]
        found[name]["occupancy"] = int(re.search(r"; Occupancy: (\d+)", body)[1])
    return found


def judge(job):
    """One file for one target: rows to print, faults found, kept or proved now."""
    file, proofs, target, compiler, compiler_files, verdicts = job
    try:
        texts = included(ROOT / file["path"], ROOT / "include")
    except (OSError, RuntimeError) as error:
        return [], [str(error)]
    depends_on = [texts, file, proofs, target, compiler_files]
    return verdicts.rows(depends_on, lambda: prove(file, proofs, target, compiler))


def prove(file, proofs, target, compiler):
    """One file for one target: rows to print, faults found."""
    rows, faults = [], []
    place = f"{file['path']} {target}"
    try:
        text = assembly(compiler, ROOT / file["path"], target)
        assembled(compiler, text, target)
    except RuntimeError as error:
        return rows, [f"{place}: {error}"]
    code, counted = instructions(text), statistics(text)
    entries = {kernel["entry"] for kernel in file["kernels"]}
    faults += [f"{place}: {entry} is not listed" for entry in sorted(code.keys() - entries)]
    for kernel in file["kernels"]:
        entry = kernel["entry"]
        if entry not in code or entry not in counted:
            faults.append(f"{place}: no entry {entry}")
            continue
        lines = [one.text for one in code[entry]]
        lacking = [claim for claim in kernel["claims"]
                   if not any(re.match(claim, line) for line in lines)]
        faults += [f"{place}: {entry} has no {claim}" for claim in lacking]
        count = counted[entry]
        for what in ("spills", "scratch"):
            if count[what]:
                faults.append(f"{place}: {entry} has {count[what]} {what}")
        # Waves of 64 lanes on each of four SIMDs; registers and shared memory say how many there can be.
        if target.startswith("gfx9"):
            asked = kernel.get("per_unit", 1) * kernel["threads"] / 64 / 4
            if asked > count["occupancy"]:
                faults.append(f"{place}: {entry}: per_unit asks for {asked:g} waves on each SIMD; its registers "
                              f"and shared memory allow {count['occupancy']}")
        unmet, held, expected = claims.judged(proofs, entry, target, code[entry], re.match)
        faults += [f"{place}: {entry}: {fault}" for fault in unmet]
        seen = [next((line.split()[0] for line in lines if re.match(claim, line)), "-")
                for claim in kernel["claims"]]
        verdict = " ".join(dict.fromkeys(seen)) + f"; {held} of loops"
        verdict += f", {expected} fail as expected" if expected else ""
        rows.append((entry, target, count["vgprs"], count["agprs"], count["lds"], count["scratch"],
                     count["spills"], count["occupancy"], verdict))
    return rows, faults


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--only", default="", help="files whose path contains this")
    arguments.add_argument("--target", default="", help="this target alone")
    arguments.add_argument("--files", type=pathlib.Path, required=True,
                           help="folder of the compiler, which its hash is taken of")
    arguments.add_argument("compiler", nargs="+", help="a clang for AMD's targets")
    given = arguments.parse_args()
    files = tomllib.loads((ROOT / "amd.toml").read_text())["file"]
    proofs = tomllib.loads((ROOT / "proofs.toml").read_text())["amd"]
    verdicts = Verdicts(__file__, claims.__file__, machine_code.__file__, sm_timing.__file__)
    compiler_files = of_files([given.files])
    jobs = [(file, claims.concerning(proofs, file), target, given.compiler, compiler_files,
             verdicts)
            for file in files if given.only in file["path"]
            for target in file["targets"] if given.target in ("", target)]
    print(f"{'entry':34} {'target':8} {'VGPR':>4} {'AGPR':>4} {'LDS':>6} {'scratch':>7} "
          f"{'spills':>6} {'waves':>5}  claimed instructions")
    faults, count = claims.unproved(proofs, files), 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for rows, found in pool.map(judge, jobs):
            faults += found
            count += len(rows)
            for entry, target, vgprs, agprs, lds, scratch, spills, occupancy, verdict in rows:
                print(f"{entry:34} {target:8} {vgprs:4} {agprs:4} {lds:6} {scratch:7} {spills:6} "
                      f"{occupancy:5}  {verdict}")
    listed = {file["path"] for file in files}
    for path in sorted(ROOT.rglob("*.hip")):
        if str(path.relative_to(ROOT)) not in listed:
            faults.append(f"{path.relative_to(ROOT)} is not listed")
    for fault in faults:
        print(f"fault: {fault}", file=sys.stderr)
    print(f"{len(jobs)} compilations, {verdicts.reused} of them proved before")
    print(f"{count} kernels proved, {len(faults)} faults")
    return 1 if faults or not count else 0


if __name__ == "__main__":
    sys.exit(main())
