"""Kills `fizeau accept` by SIGKILL at a random time, continues it within 100 ms, and verifies the bundle: a
bundle of an honest acceptance must never be called a forgery (exit code 1 of `verify`).

Arguments: the program (a release build starts ten times as fast); how many kills (100 where none is given);
how many at once (2 where none is given); `held` to make the race certain. Then the process that measures is
stopped before its parent is killed, and woken once the continued acceptance measures, so that it appends to a
record which was read before. A program that neither ends that process nor waits for its locks closes a bundle
over more than it decided on."""

import collections
import concurrent.futures
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# Cases of 0.1 s on one core: a kill is cheap, and a process that is left alive still measures when the
# acceptance is continued.
SUITE = """
name = "small"
description = "a few products"

[gemm]
dtypes = ["f32"]
shapes = [[64, 64, 64]]

[measure]
samples_min = 5
samples_max = 60
noise_max = 0.001
time_min = 0.08
time_max = 0.1
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
at_once = int(sys.argv[3]) if len(sys.argv) > 3 else 2
is_held = "held" in sys.argv[4:]
OWN = [fizeau, "accept", "--profile", "profile.toml", "--device", "host", "--budget", "500ms"]
DELAY = 0.05  # Seconds that a continuation comes later at most; the rest of 100 ms is to start it.
STARTS = 20  # Kills of one worker that found nothing to continue, before it gives up.


def measuring(parent):
    """The processes that measure: children of the acceptance."""
    try:
        text = pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def lines_of(out):
    """How long each record is."""
    return {str(path): path.stat().st_size for path in out.glob("rounds/*/record.jsonl")}


def wake(processes):
    for process in processes:
        try:
            os.kill(process, signal.SIGCONT)
        except ProcessLookupError:
            pass


def killed(place, total):
    """An acceptance that was killed while there was something to continue: when, what was held, and how many
    kills came too early or too late."""
    out, missed = place / "out", 0
    while True:
        shutil.rmtree(out, ignore_errors=True)
        first = subprocess.Popen([*OWN, "--out", "out"], cwd=place, **QUIET)
        while not lines_of(out) and first.poll() is None:
            time.sleep(0.005)
        time.sleep(random.random() * total)
        held = measuring(first.pid) if is_held else []
        for process in held:
            try:
                os.kill(process, signal.SIGSTOP)
            except ProcessLookupError:
                pass
        first.send_signal(signal.SIGKILL)
        moment = time.monotonic()
        was_over = first.wait() != -signal.SIGKILL
        begun = lines_of(out) and not (out / "manifest.json").exists()
        if not was_over and begun and (held or not is_held):
            return moment, held, missed
        wake(held)
        missed += 1
        if missed > STARTS * count:
            raise SystemExit("no kill left anything to continue")


def one(place, total):
    """Kills, continues, verifies: the code of `verify`, what it said, the delay, what was refused, how many
    kills had nothing to continue, and whether a record grew after the continuation began."""
    out = place / "out"
    moment, held, missed = killed(place, total)
    before = lines_of(out)
    time.sleep(random.random() * DELAY)
    delay = time.monotonic() - moment
    second = subprocess.Popen([*OWN, "--resume", "out"], cwd=place, **QUIET)
    if held:
        limit = time.monotonic() + 5
        while second.poll() is None and time.monotonic() < limit and not lines_of(out).keys() - before.keys():
            time.sleep(0.02)
        wake(held)
    refused = second.wait() == 3
    if refused:
        # Another process still has the directory: a user would ask again.
        time.sleep(1)
        subprocess.run([*OWN, "--resume", "out"], cwd=place, check=False, **QUIET)
    after = lines_of(out)
    grew = any(after.get(path, 0) > size for path, size in before.items())
    said = subprocess.run([fizeau, "verify", "out"], cwd=place, capture_output=True, text=True)
    return said.returncode, said.stdout.splitlines()[:1], delay, refused, missed, grew


QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def worker(number, kills):
    place = pathlib.Path(tempfile.mkdtemp(prefix=f"resume-kills-{number}-"))
    try:
        (place / "small.toml").write_text(SUITE)
        (place / "profile.toml").write_text(PROFILE)
        # How long it measures, from its first record on.
        first = subprocess.Popen([*OWN, "--out", "out"], cwd=place, **QUIET)
        while not lines_of(place / "out") and first.poll() is None:
            time.sleep(0.005)
        began = time.monotonic()
        first.wait()
        total = time.monotonic() - began
        all_of = []
        for _ in range(kills):
            all_of.append(one(place, total))
            code, said = all_of[-1][:2]
            if code == 1:
                print(*said, flush=True)
        return all_of
    finally:
        shutil.rmtree(place, ignore_errors=True)


def main():
    # On one core each acceptance has one thread that measures.
    os.sched_setaffinity(0, {random.choice(sorted(os.sched_getaffinity(0)))})
    shares = [count // at_once + (at < count % at_once) for at in range(at_once)]
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        all_of = sum(pool.map(worker, range(at_once), shares), [])
    codes = collections.Counter(one[0] for one in all_of)
    told = ", ".join(f"{number} with {code}" for code, number in sorted(codes.items()))
    delay = max(one[2] for one in all_of) * 1000
    refused, missed, grew = (sum(one[at] for one in all_of) for at in (3, 4, 5))
    print(f"{len(all_of)} killed, continued after {delay:.0f} ms at most, and verified: {told} "
          f"({codes[1]} called a forgery). In {grew} a record grew after the kill; {refused} continuations had "
          f"to wait for the process that was left; {missed} kills had nothing to continue")
    return 1 if codes[1] else 0


sys.exit(main())
