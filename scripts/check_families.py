"""Compares the machine code of each kernel for sm_120a with that for its family, sm_120f, and for
sm_121a: where all three are equal byte by byte, what scripts/kernels.sh proves of the first holds for
the others, and the program may load the family's binaries on both devices.

    check_families.py FOLDER    which has an NVRTC of CUDA 12.9 or newer
"""

import ctypes
import pathlib
import struct
import sys
import tempfile
import tomllib

from kernels import ROOT, nvrtc

TARGETS = ["sm_120a", "sm_120f", "sm_121a"]


def machine_code(cubin):
    """The sections of a cubin that hold instructions, by name."""
    table, = struct.unpack_from("<Q", cubin, 40)
    count, names = struct.unpack_from("<HH", cubin, 60)
    sections = [struct.unpack_from("<IIQQQQ", cubin, table + 64 * at) for at in range(count)]
    start = sections[names][4]

    def name(section):
        begin = start + section[0]
        return cubin[begin:cubin.index(b"\0", begin)].decode()

    code = {name(one): cubin[one[4]:one[4] + one[5]] for one in sections}
    return {name: text for name, text in code.items() if name.startswith(".text.")}


def differing(codes):
    """Names of the sections that are not the same in all; all of them where one has others."""
    first = codes[0]
    every = set().union(*codes)
    return sorted(name for name in every if any(one.get(name) != first.get(name) for one in codes))


def check_differing():
    """That one byte is seen, and one kernel that is missing."""
    assert not differing([{"a": b"12"}, {"a": b"12"}])
    assert differing([{"a": b"12"}, {"a": b"13"}]) == ["a"]
    assert differing([{"a": b"12", "b": b""}, {"a": b"12"}]) == ["b"]


def main():
    check_differing()
    files = tomllib.loads((ROOT / "kernels.toml").read_text())["file"]
    paths = [file["path"] for file in files if TARGETS[0] in file["targets"]]
    faults, count = [], 0
    with tempfile.TemporaryDirectory() as folder:
        cubin = pathlib.Path(folder) / "kernel.cubin"
        for path in paths:
            codes = []
            for target in TARGETS:
                nvrtc(pathlib.Path(sys.argv[1]), ROOT / path, target, cubin)
                codes.append(machine_code(cubin.read_bytes()))
            assert codes[0], f"{path} has no machine code"
            count += len(codes[0])
            faults += [f"{path}: {name}" for name in differing(codes)]
    for fault in faults:
        print(f"fault: {fault} is not the same for {', '.join(TARGETS)}")
    print(f"{count} kernels of {len(paths)} files for {', '.join(TARGETS)}, {len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
