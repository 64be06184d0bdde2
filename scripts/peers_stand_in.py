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
state = SimpleNamespace(clock=0.0, rested=0.0, load=0.0, cycles=0.0, allocated=0, captures=None,
                        broken=False)
# Of the GPU's units where nothing slows it down, and bytes.
MEGAHERTZ, UNITS, CACHE = 1500.0, 4, 1 << 20
int64 = "int64"
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
        state.cycles += piece * 1e3 * MEGAHERTZ
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

class Counted(list):
    def cpu(self): return self
    def tolist(self): return list(self)

def zeros(shape, dtype, device):
    if not shape: return 0
    return Counted(zeros(shape[1:], dtype, device) for _ in range(shape[0]))

def _compile_kernel(text, name):
    if "NO_COMPILER" in os.environ: raise RuntimeError("no compiler here")
    def counters(grid, block, args):
        counted, units = args
        assert units == UNITS and grid[0] >= UNITS and block == (1, 1, 1), (grid, block, units)
        for unit, of in enumerate(counted):
            assert of[0] == 0, "counters are left in the same place twice"
            # Units were not switched on at the same time.
            of[:] = 1, state.cycles + 1e6 * unit, 1e6 * (state.clock + state.rested)
    return counters

def synchronize():
    if state.broken: raise RuntimeError("an illegal memory access")

def empty_cache():
    synchronize()

stream = SimpleNamespace(wait_stream=lambda other: None)
properties = SimpleNamespace(multi_processor_count=UNITS, L2_cache_size=CACHE)
cuda = SimpleNamespace(
    Event=Event, CUDAGraph=CUDAGraph, graph=graph, synchronize=synchronize,
    is_available=lambda: True, get_device_properties=lambda at: properties,
    Stream=lambda: stream, current_stream=lambda: stream,
    stream=lambda one: contextlib.nullcontext(), _sleep=lambda cycles: None,
    memory_allocated=lambda: state.allocated, empty_cache=empty_cache,
    _compile_kernel=_compile_kernel)
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
    def raises():
        raise ValueError("an odd shape")
    def exits():
        raise SystemExit("a package that wants to end the process")
    def copies():
        torch.work(2.0)
    copies.captures = False
    functions = {"graph": lambda: torch.work(2.0), "eager": eager, "breaks": breaks,
                 "raises": raises, "exits": exits, "copies": copies,
                 "ends": lambda: os._exit(1), "hangs": lambda: signal.pause()}
    last = []
    def cold(point):
        # A quarter of the cache, which a second iteration in a row would find there.
        torch.state.allocated += torch.CACHE // 4
        def function():
            if last == [function]: raise RuntimeError("its operands are still in the cache")
            last[:] = [function]
            torch.work(0.25)
        return function
    def states(point):
        # Most of its memory is not read.
        function = cold(point)
        torch.state.allocated += 100 * torch.CACHE
        function.bytes = torch.CACHE // 4
        return function
    return [("cold", cold), ("states", states)] + [
        (name, lambda point, function=function: function if point["m"] == 1 else None)
        for name, function in functions.items()]
"""


def make(place):
    """Leaves gpu_peers in a folder, with a PyTorch and peers that need no GPU."""
    shutil.copytree(SCRIPTS / "gpu_peers", place / "gpu_peers")
    (place / "gpu_peers" / "these.py").write_text(PEERS)
    (place / "torch.py").write_text(TIMED)
