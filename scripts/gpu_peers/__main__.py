"""Times other people's kernels for scripts/gpu.py, which asks by lines of JSON.

`{"peer": NAME, "point": POINT}` is answered by one line: `{"seconds": S, "way": "graph", "regime":
"burst"}`, `{"error": WHY}`, or `{"other": true}` where the peer is for other points. `"way": "eager"`
marks what is not captured in a CUDA graph. The first line that is written names the peers, and what is
missing.

A peer is a function of one of the other files of this folder: each has `peers(torch)`, which gives pairs
of a name and `make(point)`. `make` gives a function without arguments that does one iteration of the
point, or None where it is for other points. `point` is the dictionary that stands in the record. The
function may have the attribute `captures`, False where a graph would slow it down, and `bytes`, what one
iteration reads, where `make` takes more memory than that.

scripts/tune.py has peers take turns with other processes: lines with the key `do` are answered as
`fizeau contend` answers them (`Contenders`). No error ends the process. An answer with `"broken": true`
says that the GPU's context is lost: every later answer of the process will say so.
"""

import importlib.util
import json
import os
import pathlib
import statistics
import sys
import time

import _optional

HERE = pathlib.Path(__file__).resolve().parent
# As the suite gpu-figures has it for the program's own kernels: the least time of a batch, and how long
# batches are timed, with the rests between them.
BATCH, SAMPLING = 0.0002, 0.15
# As src/measure/regime.rs has them: the untimed part of a burst and the rest after it, as shares of what
# is timed; the longest timed part that has an untimed one; the longest rest, and the load before settled
# samples, in seconds.
LEAD, REST, LEAD_MAX, REST_MAX, SETTLING = 0.25, 5.0, 0.001, 0.1, 0.3
# As src/cmd/contend.rs has them: the longest load of a sample, in seconds, and the most samples.
LOAD_MAX, COUNT_MAX = 1.0, 10_000
# The load that finds how long an iteration takes, in seconds, and the most iterations of a graph.
LOOK, TURNS_MAX = 0.001, 2000
# Copies of operands that iterations take in turn, in last-level caches, and the most of them.
CACHES, COPIES_MAX = 5, 256
# How long the stream is held until everything is enqueued, in clocks: for whatever it is, for each
# launch, and the longest.
HOLD, HOLD_LAUNCH, HOLD_MAX = 200_000, 15_000, 20_000_000
# What a request has to have beside `do`.
FIELDS = {"prepare": ("name", "peer", "point"), "sample": ("name", "regime", "count", "load"),
          "forget": ("name",)}
# What the counters of each multiprocessor show, left before and after what is timed: by the first block
# that runs on it.
COUNTERS = """
extern "C" __global__ void counters(unsigned long long* counted, int units) {
  unsigned unit;
  unsigned long long now;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(unit));
  if (unit >= (unsigned)units || atomicExch(&counted[3 * unit], 1ull) != 0) return;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  counted[3 * unit + 1] = clock64();
  counted[3 * unit + 2] = now;
}
"""


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
    return torch, peers, missing + _optional.missing


def words(error):
    """An error in one line."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


class Batch:
    """Iterations that are enqueued together: as one graph, or one by one where the function cannot be
    captured."""

    def __init__(self, torch, function, turns, of_turn=1, captures=True):
        self.run, self.way, self.iterations = None, "eager", turns * of_turn
        try:
            # A copy in a graph is made by the driver, at 0.6 of the rate of one that is not.
            if captures and getattr(function, "captures", True):
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    for _ in range(turns):
                        function()
                self.run, self.way = graph.replay, "graph"
        except Exception:
            # An error of capturing may stay with the context until it is asked for.
            try:
                torch.cuda.synchronize()
            except Exception:
                pass

        def one_by_one():
            for _ in range(turns):
                function()
        self.run = self.run or one_by_one
        self.launches = 1 if self.way == "graph" else self.iterations


class Timing:
    """Work between two events on the current stream; `beside(0)` and `beside(1)` enqueue what comes
    before and after it."""

    def __init__(self, torch, batch, beside=lambda when: None):
        self.start, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        beside(0)
        self.start.record()
        batch.run()
        self.end.record()
        beside(1)

    def seconds(self):
        """Of all of it, once it is over."""
        self.end.synchronize()
        return self.start.elapsed_time(self.end) / 1e3


def timed(torch, batch, beside=lambda when: None):
    """Seconds of a batch. A kernel that sleeps holds the stream until all of it has been enqueued, so
    that the time is the GPU's and not that of launches by Python."""
    hold = min(HOLD + HOLD_LAUNCH * batch.launches, HOLD_MAX)
    getattr(torch.cuda, "_sleep", lambda cycles: None)(hold)
    return Timing(torch, batch, beside).seconds()


def warmed(torch, functions):
    """Before capturing, libraries choose and load their kernels: on a stream of its own, as CUDA graphs
    in PyTorch ask for."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for function in functions:
            function()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()


def burst(torch, batch, lead, beside=lambda when: None):
    """One sample of a burst: an untimed part where the timed one is short, the timed one, and a rest."""
    worked = timed(torch, lead) if lead else 0.0
    seconds = timed(torch, batch, beside)
    time.sleep(min((worked + seconds) * REST, REST_MAX))
    return seconds / batch.iterations


def measure(torch, function):
    """Median of batches of iterations that follow one another, each after a rest."""
    warmed(torch, [function] * 3)
    once = timed(torch, Batch(torch, function, 3, captures=False)) / 3
    count = max(1, min(1000, int(BATCH / max(once, 1e-7)) + 1))
    batch = Batch(torch, function, count)
    lead = None
    if once * count < LEAD_MAX:
        lead = Batch(torch, function, max(1, round(count * LEAD)), captures=batch.way == "graph")
    until, times = time.monotonic() + SAMPLING, []
    while len(times) < 10 or time.monotonic() < until:
        times.append(burst(torch, batch, lead))
    return {"seconds": statistics.median(times), "way": batch.way, "regime": "burst", "cache": "hot"}


def compiled(torch):
    """The kernel of `COUNTERS` as a function of its blocks, the tensor and the units: by PyTorch where
    it has a compiler, else by CuPy. It is enqueued on PyTorch's current stream."""
    try:
        kernel = torch.cuda._compile_kernel(COUNTERS, "counters")
        return lambda blocks, counted, units: kernel(
            grid=(blocks, 1, 1), block=(1, 1, 1), args=[counted, units])
    except Exception as error:
        why = words(error)
    try:
        import cupy
        function = cupy.RawModule(code=COUNTERS).get_function("counters")
    except Exception as error:
        raise RuntimeError(f"PyTorch: {why}; CuPy: {words(error)}") from None

    def enqueue(blocks, counted, units):
        stream = torch.cuda.current_stream().cuda_stream
        with cupy.cuda.ExternalStream(stream):
            function((blocks,), (1,), (cupy.uint64(counted.data_ptr()), cupy.int32(units)))
    return enqueue


class Counters:
    """Clocks of the multiprocessors while batches ran; None where no kernel can be compiled."""

    def __init__(self, torch):
        self.torch, self.counted = torch, None
        self.units = torch.cuda.get_device_properties(0).multi_processor_count
        try:
            self.kernel = compiled(torch)
            self.begin(1)
            self.beside(0)(0)
            torch.cuda.synchronize()
        except Exception as error:
            print(f"no clock: {words(error)}", file=sys.stderr)
            self.kernel = None

    def begin(self, count):
        """Makes room for so many batches."""
        if self.kernel is not None:
            shape = (count, 2, self.units, 3)
            self.counted = self.torch.zeros(shape, dtype=self.torch.int64, device="cuda")

    def beside(self, number):
        """What leaves the counters before and after a batch."""
        def leave(when):
            if self.kernel is not None:
                # More blocks than units, so that each has one.
                self.kernel(2 * self.units, self.counted[number][when], self.units)
        return leave

    def clocks(self, count):
        """Of each batch, in MHz: the median of the units."""
        if self.kernel is None:
            return [None] * count
        self.torch.cuda.synchronize()
        found = []
        for before, after in self.counted.cpu().tolist():
            clocks = [1e3 * (b[1] - a[1]) / (b[2] - a[2]) for a, b in zip(before, after)
                      if a[0] and b[0] and b[2] > a[2]]
            found.append(statistics.median(clocks) if clocks else None)
        return found


class Contenders:
    """Peers that are ready, and take samples as they are asked for."""

    def __init__(self, torch, peers):
        self.torch, self.peers, self.ready, self.counters = torch, peers, {}, None
        # The load since the last rest that was long enough.
        self.worked = 0.0

    def answer(self, asked):
        what = asked["do"]
        if what not in FIELDS:
            return {"failed": f"nobody knows how to {what}"}
        lacks = [field for field in FIELDS[what] if field not in asked]
        if lacks:
            return {"failed": f"a request to {what} lacks {', '.join(lacks)}"}
        if what == "prepare":
            return self.prepare(asked)
        if what == "sample":
            return self.sample(*(asked[field] for field in FIELDS[what]))
        self.ready.pop(asked["name"], None)
        if self.torch is not None:
            self.torch.cuda.empty_cache()
        return {"forgot": asked["name"]}

    def prepare(self, asked):
        torch, point, peer = self.torch, asked["point"], asked["peer"]
        cache = asked.get("cache", "hot")
        if peer not in self.peers:
            return {"failed": f"{peer} is not installed here, or is for other GPUs"}
        if cache not in ("hot", "cold"):
            return {"failed": f"caches are hot or cold, not {cache}"}
        self.counters = self.counters or Counters(torch)
        functions = self.copies(peer, point, cache)
        if functions is None:
            return {"other": True}
        warmed(torch, functions + functions[:2])

        def all_of_them():
            for function in functions:
                function()
        all_of_them.captures = getattr(functions[0], "captures", True)
        # Launches by Python may be slower than what they launch: what is captured tells.
        once = timed(torch, Batch(torch, all_of_them, 1, len(functions), captures=False))
        of = {"function": all_of_them, "count": len(functions), "seconds": once / len(functions),
              "captures": True, "batches": {}}
        look = self.batch(of, LOOK)
        of["captures"] = look.way == "graph"
        # The first time of a graph is that of moving it to the GPU, too.
        of["seconds"] = [timed(torch, look) for _ in range(2)][1] / look.iterations
        self.ready[asked["name"]] = of
        return {"ready": asked["name"], "seconds": of["seconds"], "way": look.way, "point": point,
                "kernel": peer, "cache": cache, "copies": len(functions)}

    def copies(self, peer, point, cache):
        """One function, or where caches are to be cold as many, each with operands of its own, as read
        five last-level caches together. None where the peer is for other points."""
        make, allocated = self.peers[peer], self.torch.cuda.memory_allocated
        functions = [make(point)]
        if functions[0] is None:
            return None
        if cache == "cold":
            before = allocated()
            functions.append(make(point))
            of_one = getattr(functions[0], "bytes", None) or max(allocated() - before, 1)
            size = CACHES * self.torch.cuda.get_device_properties(0).L2_cache_size
            wanted = max(-(-size // of_one), 2)
            if wanted > COPIES_MAX:
                raise ValueError(f"{wanted} copies would not be in caches, at most {COPIES_MAX} are made")
            functions += [make(point) for _ in range(wanted - 2)]
        return functions

    def batch(self, of, load):
        """About `load` seconds of work."""
        turns = max(1, min(TURNS_MAX, round(load / max(of["seconds"] * of["count"], 1e-7))))
        if turns not in of["batches"]:
            of["batches"][turns] = Batch(self.torch, of["function"], turns, of["count"], of["captures"])
        return of["batches"][turns]

    def sample(self, name, regime, count, load):
        if name not in self.ready:
            return {"failed": f"{name} was not prepared"}
        if regime not in ("burst", "settled"):
            return {"failed": f"regimes are burst and settled, not {regime}"}
        numbers = type(count) is int and type(load) in (int, float)
        if not numbers or not (0.0 < load <= LOAD_MAX and 1 <= count <= COUNT_MAX):
            return {"failed": f"load: seconds up to {LOAD_MAX}; count: from 1 to {COUNT_MAX}"}
        of = self.ready[name]
        batch = self.batch(of, load)
        self.counters.begin(count)
        if regime == "burst":
            lasts = of["seconds"] * batch.iterations
            lead = self.batch(of, load * LEAD) if lasts < LEAD_MAX else None
            # From what was settled before it.
            time.sleep(self.worked * REST)
            self.worked = 0.0
            times = [burst(self.torch, batch, lead, self.counters.beside(number))
                     for number in range(count)]
        else:
            self.worked = SETTLING + load * count
            times = self.settled(batch, count)
        return {"times": times, "clocks": self.counters.clocks(count), "batch": batch.iterations}

    def settled(self, batch, count):
        """Batches back to back: each is enqueued before the one before it has ended."""
        until, loaded, last, timings = time.monotonic() + 4 * SETTLING, 0.0, None, []
        while loaded < SETTLING and time.monotonic() < until:
            begun, last = last, Timing(self.torch, batch)
            loaded += begun.seconds() if begun else 0.0
        for number in range(count):
            timings.append(Timing(self.torch, batch, self.counters.beside(number)))
            last.end.synchronize()
            last = timings[-1]
        return [timing.seconds() / batch.iterations for timing in timings]


def is_broken(torch):
    """Whether the GPU's context is: nothing more can run in this process then."""
    if torch is None:
        return False
    try:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return False
    except Exception:
        return True


def answered(torch, contenders, asked):
    """The answer to one request; an error is one, too."""
    is_do = "do" in asked
    try:
        if is_do:
            return contenders.answer(asked)
        function = contenders.peers[asked["peer"]](asked["point"])
        answer = {"other": True} if function is None else measure(torch, function)
    except (Exception, SystemExit) as error:
        answer = {"failed" if is_do else "error": words(error)}
    function = None
    if "other" not in answer:
        answer["broken"] = is_broken(torch)
    return answer


def main():
    # What libraries print does not go among the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    torch, peers, missing = load()
    print(json.dumps({"peers": list(peers), "missing": missing, "protocol": 1}), file=answers)
    contenders = Contenders(torch, peers)
    for line in sys.stdin:
        try:
            asked = json.loads(line)
        except ValueError as error:
            asked, why = None, words(error)
        else:
            why = "it has neither do nor peer"
        if not isinstance(asked, dict) or not ("do" in asked or "peer" in asked):
            answer = {"failed": f"this is not asked for: {why}"}
        elif asked.get("do") == "end":
            break
        else:
            answer = answered(torch, contenders, asked)
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main()
