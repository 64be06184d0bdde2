"""One kernel timed by both harnesses, `fizeau contend` on a stub driver and scripts/gpu_peers on a stand-in
for PyTorch, under a regulator of power like that of an H100: in each regime they agree. Called by a
test, with the program's path and the environment that its stub driver needs. No number of it is of a GPU.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
SCRIPTS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(SCRIPTS))
import peers_stand_in  # noqa: E402
import tune  # noqa: E402

CASE, POINT = "compute/f32/4u/vector", {"operation": "compute", "m": 1}
DRIVER = "units=4,capability=90"
SEEDS, ENOUGH, APART = 20, 19, 0.02
# Seeds that are also run as it was without regimes.
BEFORE = 6
# As a suite was before there were regimes: it ends when times are quiet.
SUITE = """
name = "regimes"
description = "One case"

[measure]
samples_min = 10
samples_max = 500
noise_max = 0.005
time_min = {time_min}
time_max = 0.15
warmup_max = 0.008
sample_min = 0.0002
deadline = 60.0

[compute]
dtypes = ["f32"]
"""


def contend(program, place, log, seed):
    """The program's process of contenders, under a regulator's seed or none."""
    driver = DRIVER if seed is None else f"{DRIVER},regulator={seed}"
    command = [program, "contend", "--device", "cuda:0", "--suite", str(place / "suite.toml")]
    return tune.Process("program", command, {"FIZEAU_STUB": driver}, log)


def peers(place, log, seed):
    """The peers' process, likewise."""
    variables = {"PYTHONPATH": str(place)}
    if seed is not None:
        variables["REGULATOR"] = str(seed)
    return tune.Process("peers", [sys.executable, str(place / "gpu_peers")], variables, log)


def ask(process, **asked):
    process.ask(**asked)
    answer = process.answer(60.0)
    assert "failed" not in answer, (process.name, answer)
    return answer


def times(process, request):
    """Medians of both regimes, settled samples first: the rest after them is a harness's own."""
    ask(process, do="prepare", name="one", **request)
    said = {regime: ask(process, do="sample", name="one", regime=regime, count=5, load=0.003)
            for regime in ("settled", "burst")}
    process.end()
    return {regime: statistics.median(answer["times"]) for regime, answer in said.items()}


def without_regime(program, place, seed):
    """The median of a run that ends when times are quiet."""
    out = place / f"run-{seed}"
    driver = {**os.environ, "FIZEAU_STUB": f"{DRIVER},regulator={seed}"}
    command = [program, "run", "--device", "cuda:0", "--suite", place / "suite.toml", "--out", out, CASE]
    subprocess.run(command, env=driver, check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    lines = [json.loads(line) for line in (out / "record.jsonl").read_text().splitlines()]
    return next(line["summary"]["median"] for line in lines if line.get("outcome") == "measured")


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        peers_stand_in.make(place)
        (place / "suite.toml").write_text(SUITE.format(time_min=0.02))
        log = open(place / "said.txt", "w")
        ours, theirs = {"case": CASE}, {"peer": "graph", "point": POINT, "cache": "hot"}
        base = [times(contend(program, place, log, None), ours), times(peers(place, log, None), theirs)]
        alike, slowdowns, before = {"burst": 0, "settled": 0}, {"burst": [], "settled": []}, 0
        for seed in range(SEEDS):
            said = [times(contend(program, place, log, seed), ours), times(peers(place, log, seed), theirs)]
            for regime in alike:
                one, other = (of[regime] / idle["burst"] for of, idle in zip(said, base))
                alike[regime] += abs(one / other - 1) <= APART
                slowdowns[regime] += [one, other]
            # As it was: the peer after 150 ms of load, the program when its times were quiet.
            if seed < BEFORE:
                run = without_regime(program, place, seed) / base[0]["burst"]
                before += abs(run / (said[1]["settled"] / base[1]["burst"]) - 1) <= APART
        log.close()
    for regime, count in alike.items():
        low, high = min(slowdowns[regime]), max(slowdowns[regime])
        print(f"{regime}: both harnesses within {APART:.0%} in {count} of {SEEDS} seeds, times {low:.3f} to "
              f"{high:.3f} of those without a regulator (stub)")
    print(f"without regimes: in {before} of {BEFORE} seeds (stub)")
    assert all(count >= ENOUGH for count in alike.values()), alike
    assert before < BEFORE // 2, before


if __name__ == "__main__":
    main()
