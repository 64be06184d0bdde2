"""Computes from machine code and a model what share of the hardware and of public kernels to expect.

Called by scripts/expected_shares.sh, which installs the compilers. No GPU is used and nothing is measured.
"""

import argparse
import fnmatch
import json
import pathlib
import re
import sys
import tempfile
import tomllib

import claims
import kernels
import machine_code
import share_models
import sm_timing
import verdicts

TARGET = "sm_90a"


def machine(tools, file, entries, cache):
    """Of some entries of a file: instructions, control bits and statistics."""
    source = kernels.ROOT / file["path"]
    names = sorted(entries)

    def compiled():
        with tempfile.TemporaryDirectory() as folder:
            cubin = pathlib.Path(folder) / "kernel.cubin"
            counted = kernels.statistics(kernels.nvcc(tools, source, TARGET, cubin))
            listing = kernels.run([tools / "cuobjdump", "-sass", cubin],
                                  env=dict(kernels.os.environ, PATH=f"{tools}:{kernels.os.environ['PATH']}"))
        code, control = machine_code.nvidia(listing), sm_timing.controls(listing)
        rows = []
        for name in names:
            assert len(code[name]) == len(control[name]), name
            rows.append([name, counted[name],
                         [[one.text, one.jump, one.falls, *vars(bits).values()]
                          for one, bits in zip(code[name], control[name])]])
        return rows, []
    rows, _ = cache.rows([verdicts.included(source, kernels.INCLUDE), names, TARGET], compiled)
    found = {}
    for name, counted, lines in rows:
        code = [machine_code.Instruction(*line[:3]) for line in lines]
        control = [sm_timing.Control(*line[3:]) for line in lines]
        found[name] = (claims.Machine(code, kernels.is_meant), control, counted)
    return found


def rates_of(target, times):
    units = [(re.compile(pattern), name, cycles) for pattern, name, cycles in target["opcodes"]]
    latencies = [(re.compile(pattern), times.get(cycles, cycles)) for pattern, cycles in target["latencies"]]
    return sm_timing.Rates(units, latencies, target["tensor"], target["shared_bytes"], times)


def evaluate(kernel, row, part, target, changed=None):
    """The time of a row, and what it is with what the model does not know; `changed`: a rate's name and
    `slow` or `fast`."""
    times = {name: one["value"] for name, one in target["rates"].items()}
    unknown = {name: one["value"] for name, one in target["unknown"].items()}
    if changed and changed[0] in times:
        times[changed[0]] = target["rates"][changed[0]][changed[1]]
    time = share_models.family(kernel.row["operation"])(
        kernel, rates_of(target, times), part, row["shape"])
    if changed and changed[0] == "unknown" and time.unknown in unknown:
        unknown[time.unknown] = target["unknown"][time.unknown][changed[1]]
    return time, time.total(unknown.get(time.unknown, 1.0))


def speed(time, cycles, part, unit):
    """TFLOP/s or TB/s."""
    clock = part["tensor_clock" if time.bound == "tensor" else "memory_clock"]
    return (time.operations if unit == "tflops" else time.moved) / cycles * clock / 1e12


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--bin", type=pathlib.Path, required=True)
    arguments.add_argument("--only", default="")
    arguments.add_argument("--quick", action="store_true")
    given = arguments.parse_args()
    target = tomllib.loads((kernels.ROOT / "rates.toml").read_text())
    parts = {part["name"]: part for part in target["part"]}
    target = target[TARGET]
    told = tomllib.loads((kernels.ROOT / "shares.toml").read_text())
    peers = {peer["name"]: peer for peer in told["peer"]}
    files = tomllib.loads((kernels.ROOT / "kernels.toml").read_text())["file"]
    cache = verdicts.Verdicts(sm_timing.__file__, machine_code.__file__, kernels.__file__)
    rows = [row for row in told["row"] if given.only in row["entry"]]
    wanted = {row["entry"] for row in rows}
    made = {}
    for file in files:
        entries = {kernel["entry"]: kernel for kernel in file["kernels"] if kernel["entry"] in wanted}
        if entries and TARGET in file["targets"]:
            for name, (code, control, counted) in machine(given.bin, file, entries, cache).items():
                design = next((one for one in told["design"] if any(
                    fnmatch.fnmatchcase(name, pattern) for pattern in one["entries"])), {})
                made[name] = share_models.Kernel(entries[name], code, control, counted["registers"],
                                                 design, target)
    for row in rows:
        kernel, part = made[row["entry"]], parts[row.get("part", "H100 SXM")]
        time, cycles = evaluate(kernel, row, part, target)
        unit = "tflops" if "tflops" in peers.get(row.get("peer"), {}) else "tbs"
        ours = speed(time, cycles, part, unit)
        line = f"{row['entry']} {row['shape']} {time.bound} limit {time.limit:.0f} "
        line += " ".join(f"{name}:{value:.0f}" for name, value in time.terms.items())
        line += f" share {time.limit/cycles:.3f} speed {ours:.2f}"
        if "peer" in row:
            peer = peers[row["peer"]]
            theirs = peer.get("tflops") or peer["tbs"] * part["memory"] / parts[peer["part"]]["memory"]
            line += f" of peer {ours/theirs:.3f} ({row['peer']})"
        print(line, time.notes)


if __name__ == "__main__":
    sys.exit(main())
