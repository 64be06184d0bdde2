"""Kills `fizeau accept` by SIGKILL at a random time, continues it within 100 ms, and verifies the bundle: a
bundle of an honest acceptance must never be called a forgery (exit code 1). Arguments: the program, how many
kills (100 where none is given)."""

import collections
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SUITE = """
name = "small"
description = "a few products"

[gemm]
dtypes = ["f32"]
shapes = [[64, 64, 64], [128, 128, 128], [256, 256, 256]]

[measure]
samples_min = 5
samples_max = 60
noise_max = 0.001
time_min = 0.02
time_max = 0.3
warmup_max = 0.002
sample_min = 0.0002
deadline = 30.0
"""
PROFILE = """
name = "tiny"
description = "small checks"
kind = "derived"
host = true
suite = "small.toml"

[[check]]
name = "product"
cases = ["gemm/f32/*"]
resource = "arithmetic"
least_effect = 0.05
"""

fizeau = pathlib.Path(sys.argv[1]).resolve()
count = int(sys.argv[2]) if len(sys.argv) > 2 else 100
place = pathlib.Path(tempfile.mkdtemp(prefix="resume-kills-"))
(place / "small.toml").write_text(SUITE)
(place / "profile.toml").write_text(PROFILE)
out = place / "out"
own = [fizeau, "accept", "--profile", "profile.toml", "--device", "host", "--budget", "60s"]
quiet = {"cwd": place, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
codes, forged, ended, delays = collections.Counter(), [], 0, []
began = time.monotonic()
subprocess.run([*own, "--out", "out"], check=False, **quiet)
total = time.monotonic() - began
try:
    while sum(codes.values()) < count:
        shutil.rmtree(out, ignore_errors=True)
        first = subprocess.Popen([*own, "--out", "out"], **quiet)
        time.sleep(random.random() * total)
        if first.poll() is not None:
            ended += 1
            continue
        first.send_signal(signal.SIGKILL)
        first.wait()
        if not (out / "rounds").exists() or (out / "manifest.json").exists():
            ended += 1
            continue
        killed = time.monotonic()
        time.sleep(random.random() * 0.05)
        second = subprocess.Popen([*own, "--resume", "out"], **quiet)
        delays.append(time.monotonic() - killed)
        second.wait()
        said = subprocess.run([fizeau, "verify", "out"], cwd=place, capture_output=True, text=True)
        codes[said.returncode] += 1
        if said.returncode == 1:
            forged.append(said.stdout.splitlines()[0])
            print(forged[-1], flush=True)
finally:
    shutil.rmtree(place)
told = ", ".join(f"{number} with {code}" for code, number in sorted(codes.items()))
print(f"{sum(codes.values())} killed, continued after {max(delays) * 1000:.0f} ms at most, and verified: {told} "
      f"({len(forged)} called a forgery); {ended} starts had nothing to continue")
sys.exit(bool(forged))
