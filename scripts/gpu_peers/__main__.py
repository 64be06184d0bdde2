"""Times other people's kernels for scripts/gpu.py, which asks by lines of JSON.

`{"peer": NAME, "point": POINT}` is answered by one line: `{"seconds": S, "way": "graph"}`, `{"error":
WHY}`, or `{"other": true}` where the peer is for other points. `"way": "eager"` marks what cannot be captured in a
CUDA graph. The first line that is written names the peers, and what is missing.

A peer is a function of one of the other files of this folder: each has `peers(torch)`, which gives pairs
of a name and `make(point)`. `make` gives a function without arguments that does one iteration of the
point, or None where it is for other points. `point` is the dictionary that stands in the record.
"""

import importlib.util
import json
import os
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
# As the suite gpu-figures has it for the program's own kernels: the least time of a batch, and how long
# batches are timed after a warm-up of as long.
BATCH, SAMPLING = 0.0002, 0.15


def load():
    """PyTorch, the peers by name, and what is missing, in words."""
    try:
        import torch
    except ImportError as error:
        return None, {}, [f"no peers: {error} (a python3 with PyTorch: PYTHON=...)"]
    if not torch.cuda.is_available():
        return None, {}, ["no peers: this PyTorch sees no GPU"]
    peers, missing = {}, []
    for path in sorted(HERE.glob("[!_]*.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
            peers.update(module.peers(torch))
        except Exception as error:  # A peer's own trouble is none of ours.
            missing.append(f"{path.name}: {words(error)}")
    return torch, peers, missing


def words(error):
    """An error in one line."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def timed(torch, batch, count):
    """Seconds of one iteration in a batch. A kernel that sleeps holds the stream until all of it has
    been enqueued."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    getattr(torch.cuda, "_sleep", lambda cycles: None)(200_000)
    start.record()
    batch()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3 / count


def captured(torch, function, count):
    """Iterations as one graph, and how: or one by one, where the function cannot be captured."""
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            for _ in range(count):
                function()
        return graph.replay, "graph"
    except Exception:
        # An error of capturing may stay with the context until it is asked for.
        try:
            torch.cuda.synchronize()
        except Exception:
            pass

    def one_by_one():
        for _ in range(count):
            function()
    return one_by_one, "eager"


def measure(torch, function):
    """Median of batches of iterations that follow one another."""
    # Before capturing, libraries choose and load their kernels: on a stream of its own, as CUDA graphs
    # in PyTorch ask for.
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()

    def three():
        for _ in range(3):
            function()
    once = timed(torch, three, 3)
    count = max(1, min(1000, int(BATCH / max(once, 1e-7)) + 1))
    batch, way = captured(torch, function, count)
    until = time.monotonic() + SAMPLING
    while time.monotonic() < until:
        timed(torch, batch, count)
    until, times = time.monotonic() + SAMPLING, []
    while len(times) < 5 or time.monotonic() < until:
        times.append(timed(torch, batch, count))
    return {"seconds": statistics.median(times), "way": way}


def is_broken(torch):
    """Whether the GPU's context is: nothing more can run in this process then."""
    try:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return False
    except Exception:
        return True


def main():
    # What libraries print does not go among the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    torch, peers, missing = load()
    print(json.dumps({"peers": list(peers), "missing": missing}), file=answers)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            function = peers[asked["peer"]](asked["point"])
            answer = {"other": True} if function is None else measure(torch, function)
        except Exception as error:
            answer = {"error": words(error)}
        function = None
        if "other" not in answer:
            answer["broken"] = is_broken(torch)
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main()
