"""A stand-in for PyTorch and for peers, by which scripts/gpu_peers runs without a GPU: it has a clock that
work moves, and a regulator of power where the variable REGULATOR has the seed of its steps."""

import pathlib
import shutil

SCRIPTS = pathlib.Path(__file__).resolve().parent

# What `gpu_peers/__main__.py` takes of PyTorch to time a peer, with a clock that it moves by hand.
TIMED = """
import contextlib
import os
import random
import time
from types import SimpleNamespace
# Milliseconds: of the GPU's clock, of rests, and of the load that a regulator of power knows of. What
# peers sleep is a rest of the GPU and takes no time of a test.
state = SimpleNamespace(clock=0.0, rested=0.0, load=0.0, captures=None, broken=False)
STEPS = [(24.0, 1.05), (45.0, 1.10), (70.0, 1.16), (120.0, 1.21)]
FORGOTTEN = 0.25
if "REGULATOR" in os.environ:
    seeded = random.Random(int(os.environ["REGULATOR"]))
    STEPS = [(after * seeded.uniform(0.9, 1.1), slowdown) for after, slowdown in STEPS]
else:
    STEPS = []

def sleep(seconds):
    state.rested += 1e3 * seconds
    state.load = max(0.0, state.load - 1e3 * seconds * FORGOTTEN)

def passes(milliseconds):
    # In pieces, so that a step falls into the middle of long work.
    while milliseconds > 0.0:
        piece = min(milliseconds, 0.25)
        slowdown = ([1.0] + [by for after, by in STEPS if state.load >= after])[-1]
        state.clock += piece * slowdown
        state.load += piece * slowdown
        milliseconds -= piece

time.sleep = sleep
time.monotonic = lambda: (state.clock + state.rested) / 1e3

class Event:
    def __init__(self, enable_timing): pass
    def record(self): self.at = state.clock
    def synchronize(self): synchronize()
    def elapsed_time(self, end): return end.at - self.at

class CUDAGraph:
    def replay(self): passes(self.milliseconds)

@contextlib.contextmanager
def graph(made):
    state.captures, made.milliseconds = made, 0.0
    try:
        yield
    finally:
        state.captures = None

def work(milliseconds):
    if state.captures: state.captures.milliseconds += milliseconds
    # A launch by Python takes a quarter of it more.
    else: passes(1.25 * milliseconds)

def synchronize():
    if state.broken: raise RuntimeError("an illegal memory access")

stream = SimpleNamespace(wait_stream=lambda other: None)
cuda = SimpleNamespace(
    Event=Event, CUDAGraph=CUDAGraph, graph=graph, synchronize=synchronize,
    is_available=lambda: True, get_device_properties=lambda at: SimpleNamespace(multi_processor_count=4), Stream=lambda: stream, current_stream=lambda: stream,
    stream=lambda one: contextlib.nullcontext(), _sleep=lambda cycles: None, empty_cache=lambda: None)
"""
PEERS = """
import os, signal
def peers(torch):
    def eager():
        if torch.state.captures: raise RuntimeError("not while capturing")
        torch.work(2.0)
    def breaks():
        torch.state.broken = True
        torch.synchronize()
    functions = {"graph": lambda: torch.work(2.0), "eager": eager, "breaks": breaks,
                 "ends": lambda: os._exit(1), "hangs": lambda: signal.pause()}
    return [(name, lambda point, function=function: function if point["m"] == 1 else None)
            for name, function in functions.items()]
"""


def make(place):
    """Leaves gpu_peers in a folder, with a PyTorch and peers that need no GPU."""
    shutil.copytree(SCRIPTS / "gpu_peers", place / "gpu_peers")
    (place / "gpu_peers" / "these.py").write_text(PEERS)
    (place / "torch.py").write_text(TIMED)
