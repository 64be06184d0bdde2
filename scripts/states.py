"""Whether samples are of one state of the machine or of two: crates/domain/src/stats/states.rs in Python.

tests/library/consistency.rs and scripts/check_peers.py hold both to the committed records.
"""

import bisect
import math
import statistics

SAMPLES_MIN, SAMPLES_MANY, COUNT_MIN = 10, 50, 2
SHARE_MIN, SHARE_MIN_OF_MANY = 0.13, 0.1
STEP_MIN, STEP_PROBABILITY = 0.03, 1e-3
APART_MIN, EXPLAINED_MIN = 0.08, 0.8


def two_states(times):
    """Medians and shares of two states, that of most samples first; none of one state."""
    if len(times) < SAMPLES_MIN or any(not 0 < time < math.inf for time in times):
        return None
    logs = [math.log(time) for time in times]
    return in_value(logs) or in_time(logs)


def states(one, other):
    count = len(one) + len(other)
    both = [(math.exp(statistics.median(logs)), len(logs) / count) for logs in (one, other)]
    return sorted(both, key=lambda state: -state[1])


def is_fair(at, count):
    least = min(at, count - at)
    share = SHARE_MIN_OF_MANY if count >= SAMPLES_MANY else SHARE_MIN
    return least >= COUNT_MIN and least >= share * count


def in_time(logs):
    """A change of level in the course of time, by Pettitt's statistic."""
    count, ordered = len(logs), sorted(logs)
    total, most, place = 0.0, -1.0, 0
    for at, log in enumerate(logs[:-1], 1):
        total += (bisect.bisect_left(ordered, log) + bisect.bisect_right(ordered, log) + 1) / 2
        statistic = abs(2 * total - at * (count + 1))
        # The last of equal ones.
        if statistic >= most:
            most, place = statistic, at
    probability = 2 * math.exp(-6 * most ** 2 / (count ** 3 + count ** 2))
    before, after = logs[:place], logs[place:]
    step = abs(statistics.median(after) - statistics.median(before))
    is_step = probability < STEP_PROBABILITY and step > math.log1p(STEP_MIN) and is_fair(place, count)
    return states(before, after) if is_step else None


def in_value(logs):
    """Two clusters, by the cut that leaves the least variance within its sides."""
    ordered, count = sorted(logs), len(logs)
    mean = sum(ordered) / count
    variance = sum((log - mean) ** 2 for log in ordered) / count
    below, place, most = 0.0, 0, 0.0
    for at, log in enumerate(ordered[:-1], 1):
        below += log - mean
        between = below ** 2 / (at * (count - at))
        if between > most:
            place, most = at, between
    if not (most > (EXPLAINED_MIN + 1.3 / count) * variance and is_fair(place, count)):
        return None
    low, high = states(ordered[:place], ordered[place:])
    apart = max(low[0], high[0]) / min(low[0], high[0]) - 1
    return [low, high] if apart > APART_MIN else None
