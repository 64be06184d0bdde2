"""The table of scripts/accept_stub.sh. Arguments: the folder with the program and its stub libraries,
then --gpus N, --seeds N, --faults NAME,NAME."""

import argparse
import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile

SUITE = """
name = "own"
description = "What a stub node measures: few and small"

[measure]
samples_min = 11
samples_max = 11
noise_max = 1.0
time_min = 0.0
time_max = 60.0
warmup_max = 0.0001
sample_min = 0.00001
deadline = 60.0

[transfer]
transfers = ["host_to_device_memcpy", "device_to_device_memcpy_read"]
sizes = [1048576]
host = ["pinned"]
each_node = true

[gemm]
dtypes = ["bf16"]
shapes = [[128, 128, 128]]
"""

# What Rust's tests of a stub node have too: a suite of copies, a profile, checks of links.
NODE = pathlib.Path(__file__).resolve().parent.parent / "tests/stub/node"

ARITHMETIC = """
[[check]]
name = "gemm bf16"
cases = ["gemm/bf16/*"]
resource = "arithmetic"
least_effect = 0.04
at_clock = true
"""


def profile(gpus):
    text = (NODE / "profile.toml").read_text()
    text = text.replace("gpus = 4\n", f"gpus = {gpus}\npeer_links = 18\n")
    return text + (NODE / "links.toml").read_text() + ARITHMETIC


# One pair of ports, as perftest prints it. A slow port is a share of the rest.
PERFTEST = """#!/bin/sh
# A made-up ib_write_bw: a server ends with its client; the rate is by the port.
client= device=
while [ $# -gt 0 ]; do
    case $1 in
    -d) device=$2 && shift ;;
    localhost) client=1 ;;
    esac
    shift
done
folder=$(dirname "$0")
if [ -z "$client" ]; then
    echo "$device" >"$folder/server"
    sleep 0.02
    exit
fi
rate=39
case "$device $(cat "$folder/server")" in
*SLOW*) rate=30 ;;
esac
echo " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]"
echo " 65536      5000           0.00               $rate$(($$ % 10)).$(($$ % 97 + 100))     0.74"
"""

# What is planted on GPU 3: words of the stub's script, or a slow port; which check fails where, and
# by which cause.
FAULTS = {
    "memory": ("a memory stack of six", "gpu3.hbm=0.8333", "memory copy", "memory_stack"),
    "heat": ("heat", "gpu3.clock=0.82,gpu3.reasons=64@1", "gemm bf16: clock", "thermal"),
    "link": ("one link of 18", "gpu3.link=0.944", "peer read", "peer_link"),
    "pair": ("the link of one pair", "link2-3=0.5", "peer read", "peer_link"),
    "pcie": ("PCI Express at half width", "gpu3.pcie=0.5", "host to device", "half_width"),
    "node": ("another NUMA node than the kernel says", "", "host to device", "numa_node"),
    "silicon": ("weak silicon", "gpu3.tensor=0.89", "gemm bf16", "weak_silicon"),
    "network": ("a slow network interface", "", "network bandwidth", "network_interface"),
}


class Node:
    def __init__(self, built, gpus):
        self.folder = tempfile.TemporaryDirectory(prefix="fizeau-accept-stub-")
        self.place = pathlib.Path(self.folder.name)
        self.program = built / "fizeau"
        self.gpus = gpus
        lib = self.place / "lib"
        lib.mkdir()
        for name in ["libcuda.so.1", "libnvidia-ml.so.1", "libnvrtc.so.13"]:
            (lib / name).symlink_to(built / "libfizeau_stub_driver.so")
        (self.place / "own.toml").write_text(SUITE + (NODE / "copies.toml").read_text())
        (self.place / "profile.toml").write_text(profile(gpus))
        # Two NUMA nodes, the CPUs dealt to them in turn as the stub does, the second half of the GPUs on
        # the second one.
        nodes = self.place / "root/sys/devices/system/node"
        for node in range(2):
            (nodes / f"node{node}").mkdir(parents=True)
            cpus = ",".join(map(str, range(node, 1024, 2)))
            (nodes / f"node{node}/cpulist").write_text(f"{cpus}\n")
            (nodes / f"node{node}/distance").write_text(["10 21\n", "21 10\n"][node])
        for name in ["online", "has_memory", "has_cpu"]:
            (nodes / name).write_text("0-1\n")
        for gpu in range(gpus):
            folder = self.place / f"root/sys/bus/pci/devices/0000:{gpu + 1:02x}:00.0"
            folder.mkdir(parents=True)
            (folder / "numa_node").write_text(f"{self.node_of(gpu)}\n")
        for port in range(4):
            folder = self.place / f"root/sys/class/infiniband/mlx5_{port}/ports/1"
            folder.mkdir(parents=True)
            (folder / "state").write_text("4: ACTIVE\n")
            (folder / "rate").write_text("400 Gb/sec (4X NDR)\n")

    def node_of(self, gpu):
        return 2 * gpu // self.gpus

    def attached(self, misplaced):
        """The nodes that the stub's GPUs are attached to; one of them to another one."""
        nodes = [self.node_of(gpu) ^ (gpu == misplaced) for gpu in range(self.gpus)]
        return ",".join(f"gpu{gpu}.node={node}" for gpu, node in enumerate(nodes))

    def perftest(self, slow):
        folder = self.place / "bin"
        folder.mkdir(exist_ok=True)
        file = folder / "ib_write_bw"
        file.write_text(PERFTEST.replace("SLOW", slow or "no_such_port"))
        file.chmod(file.stat().st_mode | stat.S_IXUSR)

    def run(self, script, out, *words, misplaced=None):
        host = f"nodes=2,far=0.8,{self.attached(misplaced)}"
        gpus = f"devices={self.gpus},nvlinks=18,noise=0.012"
        script = ",".join(filter(None, [gpus, host, script]))
        environment = {
            **os.environ,
            "FIZEAU_LIBRARY_PATH": str(self.place / "lib"),
            "FIZEAU_STUB": script,
            "FIZEAU_STUB_CACHE": str(self.place),
            "XDG_CACHE_HOME": str(self.place / "cache"),
            "PATH": f"{self.place / 'bin'}:{os.environ['PATH']}",
        }
        devices = [word for gpu in range(self.gpus) for word in ("--device", f"cuda:{gpu}")]
        command = [self.program, "accept", "--root", "root", "--level", "full", "--out", out]
        said = subprocess.run(
            [*command, *devices, *words],
            cwd=self.place,
            env=environment,
            capture_output=True,
            text=True,
        )
        file = self.place / out / "verdict.json"
        if not file.exists():
            sys.exit(f"{command} {words}: exit code {said.returncode}\n{said.stdout}{said.stderr}")
        for line in said.stdout.splitlines():
            assert line.endswith("(stub)"), line
        verdict = json.loads(file.read_text())
        self.verify(out, len(verdict["checks"]))
        return said.returncode, verdict

    def verify(self, out, checks):
        """Every check of the verdict has to follow from what was kept. Nobody signed it: code 4."""
        said = subprocess.run(
            [self.program, "verify", out], cwd=self.place, capture_output=True, text=True
        )
        if said.returncode != 4 or f": {checks} checks decided again" not in said.stdout:
            sys.exit(f"verify {out}: exit code {said.returncode}\n{said.stdout}{said.stderr}")


def failed(verdict):
    return [one for one in verdict["checks"] if one["verdict"] == "fail"]


def is_of(name, one):
    """Whether a failed check is of what was planted: on GPU 3, on a pair with it, or on the port."""
    if name == "network":
        return one["device"] == "mlx5_3/1"
    pair = (one.get("point") or "").rsplit("/", 1)[-1].split("-")
    of_pair = "3" in pair and len(pair) == 2
    if name == "pair":
        return set(pair) == {"2", "3"}
    return of_pair if name == "link" else one["device"] == "cuda:3"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("built", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--faults", default=",".join(FAULTS))
    options = parser.parse_args()
    chosen = options.faults.split(",")
    node = Node(options.built, options.gpus)
    node.perftest(None)
    for run in range(3):
        node.run(f"seed={100 + run}/run", f"learn{run}", "--profile", "profile.toml")
    said = subprocess.run(
        [node.program, "profile", "learn", "learn0", "learn1", "learn2", "--base", "profile.toml"]
        + ["--out", "good.toml"],
        cwd=node.place,
        capture_output=True,
        text=True,
    )
    if said.returncode:
        sys.exit(f"profile learn: {said.stderr}")
    print("# `fizeau accept` on a stub node\n")
    print("Made by `scripts/accept_stub.sh`. No part of this was measured on a GPU: a stub driver")
    print(f"stands in for {options.gpus} GPUs, its times scatter by a noise of its own in each")
    print("process, and what is planted is planted in the stub. It shows that the whole program, its")
    print("processes, records, profile and verdicts, does what docs/appendix/accept-rates.md simulates of its")
    print("rules. The profile was learnt from three runs of a healthy stub node. Four network ports")
    print("are made up, and so is the `ib_write_bw` that measures them.\n")
    print("| planted | seeds | found | cause named | failed elsewhere | passed | inconclusive |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    wrong = 0
    codes = []
    for seed in range(options.seeds):
        code, verdict = node.run(f"seed={seed}/run", f"well{seed}", "--profile", "good.toml")
        codes.append(code)
        for one in failed(verdict):
            print(f"a healthy node fails: {one}", file=sys.stderr)
    wrong += codes.count(1)
    cells = [options.seeds, "", "", codes.count(1), codes.count(0), codes.count(4)]
    print(f"| nothing | {' | '.join(map(str, cells))} |")
    for name in chosen:
        words, script, check, cause = FAULTS[name]
        found = named = elsewhere = passed = unclear = 0
        node.perftest("mlx5_3" if name == "network" else None)
        for seed in range(options.seeds):
            script_of = ",".join(filter(None, [f"seed={seed}/run", script]))
            out = f"{name}{seed}"
            misplaced = 3 if name == "node" else None
            code, verdict = node.run(
                script_of, out, "--profile", "good.toml", misplaced=misplaced
            )
            its = [one for one in failed(verdict) if is_of(name, one)]
            hits = [one for one in its if one["check"] == check]
            found += bool(hits)
            named += any(one["cause"] == cause for one in hits)
            others = [one for one in failed(verdict) if not is_of(name, one)]
            elsewhere += bool(others)
            passed += code == 0
            unclear += code == 4
            for one in [] if hits and not others else others or verdict["checks"]:
                if one["verdict"] != "pass":
                    print(f"{name} {seed}: {one}", file=sys.stderr)
        wrong += (options.seeds - found) + (options.seeds - named) + elsewhere
        cells = [words, options.seeds, found, named, elsewhere, passed, unclear]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
