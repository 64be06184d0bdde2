"""Accidents of honest fleets: how often a survey is wrong or loud. Each accident of scripts/fleet_attacks.py is
planted in fleets with other noise each time, once with all nodes healthy and once with n0005 10 % slow. Prints
a table; the exit code is 1 where a healthy GPU fails, or the slow node is neither failed nor named.

Arguments: the program, how many nodes (60 where none is given), how many fleets of each kind (20)."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import fleet_attacks
from fleet_attacks import GPUS, SLOW, WAYS, Fleet, bundle, count, fizeau, healthy

fleets = int(sys.argv[3]) if len(sys.argv) > 3 else 20
VERDICTS = {0: "pass", 1: "fail", 4: "inconclusive"}


def surveyed(base, plant, is_slow):
    """The verdict, how many GPUs of other nodes than the slow one fail and are open, and whether it is found."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="fleet-accidents-"))
    try:
        fleet = Fleet(base)
        if is_slow:
            fleet.heal = lambda: None
        plant(fleet)
        fleet.write(place)
        done = subprocess.run([fizeau, "fleet", "survey", "bundles", "--json"], cwd=place, capture_output=True,
                              text=True, check=False)
        report = json.loads(done.stdout)
        others = [one for one in report["by_node"] if one["node"] != SLOW or not is_slow]
        slow = [one for one in report["by_node"] if one["node"] == SLOW and one["verdict"] == "fail"]
        return (VERDICTS[done.returncode], sum(one["fail"] for one in others),
                sum(one["inconclusive"] for one in others), bool(slow))
    finally:
        shutil.rmtree(place)


def main():
    wrong = 0
    print(f"| accident | healthy: pass, inconclusive, fail of {fleets} | healthy GPUs failed | GPUs left open | "
          f"10 % slow node failed, of {fleets} | others failed |")
    print("| --- | --- | --- | --- | --- | --- |")
    accidents = [(words, plant) for kind, words, *_, plant in WAYS if kind == "accident"]
    told = {words: [[], []] for words, _ in accidents}
    for number in range(fleets):
        fleet_attacks.SEED = f"{number} "
        base = pathlib.Path(tempfile.mkdtemp(prefix="fleet-accidents-"))
        try:
            for at in range(count):
                bundle(base / f"n{at:04}", *healthy(f"n{at:04}"))
            for words, plant in accidents:
                for is_slow in (False, True):
                    told[words][is_slow].append(surveyed(base, plant, is_slow))
        finally:
            shutil.rmtree(base)
    for words, (well, slow) in told.items():
        verdicts = [sum(one[0] == name for one in well) for name in ("pass", "inconclusive", "fail")]
        failed, open_ = (sum(one[at] for one in well) for at in (1, 2))
        found, others = sum(one[3] for one in slow), sum(one[1] for one in slow)
        gpus = fleets * count * GPUS
        print(f"| {words} | {', '.join(map(str, verdicts))} | {failed} of {gpus} | {open_} ({open_ / gpus:.2%}) | "
              f"{found} | {others} |")
        wrong += failed + others + (fleets - found)
    return int(wrong > 0)


sys.exit(main())
