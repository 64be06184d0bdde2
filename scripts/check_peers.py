"""Holds what the peers of matrix products give PyTorch against what it asks for, without PyTorch.

A stand-in has the shapes, strides and element types of tensors and no numbers. Rules are those of
aten/src/ATen/native/cuda/ScaledBlas.cpp and ATen/native/GroupedMMUtils.h of PyTorch, with the padding
of scales of 128 x 128 that pull request 166752 asks for. Then the process that times peers runs with a
stand-in that has a clock and no tensors. Needs Python alone.
"""

import importlib.util
import math
import os
import pathlib
import sys
import tempfile
import types

sys.dont_write_bytecode = True
SCRIPTS = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(SCRIPTS), str(SCRIPTS / "gpu_peers")]
import peers_stand_in  # noqa: E402

SIZES = {"uint8": 1, "float8_e4m3fn": 1, "float8_e8m0fnu": 1, "float4_e2m1fn_x2": 1,
         "bfloat16": 2, "float16": 2, "float32": 4, "int32": 4, "uint32": 4, "int8": 1, "int64": 8,
         "float64": 8}


def packed(shape):
    """Strides of rows one after the other."""
    return tuple(math.prod(shape[at + 1:]) for at in range(len(shape)))


class Tensor:
    """Shape, strides and element type."""

    def __init__(self, shape, dtype="float32", strides=None, values=None):
        self.shape, self.dtype, self.values = tuple(shape), dtype, values
        self.strides = tuple(strides or packed(self.shape))

    def like(self, dtype=None):
        return Tensor(self.shape, dtype or self.dtype)

    def to(self, dtype):
        return self.like(dtype)

    def view(self, dtype):
        assert SIZES[dtype] == SIZES[self.dtype], f"{self.dtype} is not seen as {dtype}"
        return Tensor(self.shape, dtype, self.strides)

    def contiguous(self):
        return Tensor(self.shape, self.dtype)

    def is_contiguous(self):
        return self.strides == packed(self.shape)

    def transpose(self, one, other):
        shape, strides = list(self.shape), list(self.strides)
        shape[one], shape[other] = shape[other], shape[one]
        strides[one], strides[other] = strides[other], strides[one]
        return Tensor(shape, self.dtype, strides)

    def t(self):
        return self if len(self.shape) < 2 else self.transpose(0, 1)

    def abs(self):
        return self.like()

    def __add__(self, other):
        assert not isinstance(other, Tensor) or other.shape == self.shape, "shapes of a sum"
        return self.like()

    def __mul__(self, _):
        return self.like()

    def __lt__(self, _):
        return self.like("uint8")

    def __getitem__(self, places):
        shape, strides = [], []
        for place, length, stride in zip(places, self.shape, self.strides, strict=True):
            first, end, step = place.indices(length)
            shape.append(len(range(first, end, step)))
            strides.append(stride * step)
        return Tensor(shape, self.dtype, strides)


class Torch:
    """As much of the module as the peers use; a product is checked, not made."""

    def __init__(self):
        self.products = 0
        for name in SIZES:
            setattr(self, name, name)

    def randn(self, *shape, device, dtype="float32"):
        return Tensor(shape, dtype)

    rand = randn

    def ones(self, shape, device):
        return Tensor(shape)

    def randint(self, low, high, shape, device, dtype):
        assert low < high
        return Tensor(shape, dtype)

    def tensor(self, values, device, dtype="float32"):
        return Tensor((len(values),), dtype, values=values)

    def bucketize(self, values, edges):
        assert len(edges.shape) == 1
        return values.like("int64")

    def _scaled_mm(self, a, b, scale_a, scale_b, out_dtype, use_fast_accum=False):
        assert out_dtype == "bfloat16"
        (m, k), (inner, n) = a.shape, b.shape
        assert k == inner, f"{a.shape} times {b.shape}"
        assert a.strides == (k, 1) and b.strides == (1, k), "A by rows, B by columns"
        assert k % 16 == 0 and n % 16 == 0, "whole 16 bytes"
        scalings = {is_of_all, is_1x16, is_1x32, is_1x128, is_128x128}
        of = [{rule for rule in scalings if rule(matrix, scale)}
              for matrix, scale in ((a, scale_a), (b.t(), scale_b.t()))]
        allowed = [(is_of_all, is_of_all), (is_1x16, is_1x16), (is_1x32, is_1x32),
                   (is_1x128, is_128x128), (is_1x128, is_1x128)]
        assert any(one in of[0] and other in of[1] for one, other in allowed), "no such scaling"
        self.products += 1

    def _grouped_mm(self, a, b, offs):
        (m, k), (groups, inner, n) = a.shape, b.shape
        assert k == inner and offs.shape == (groups,) and offs.dtype == "int32"
        assert offs.values[-1] == m and sorted(offs.values) == offs.values
        assert a.dtype == b.dtype == "bfloat16"
        assert k * 2 % 16 == 0 and b.strides == (n * k, 1, k), "whole 16 bytes, by columns"
        self.products += 1


def up(length, multiple):
    return -(-length // multiple) * multiple


def has(scale, at, size, stride):
    return scale.shape[at] == size and (size <= 1 or scale.strides[at] == stride)


def is_of_all(matrix, scale):
    return matrix.dtype == "float8_e4m3fn" and scale.dtype == "float32" and scale.shape == ()


def tiles(lines, blocks):
    return up(lines, 128) * up(blocks, 4)


def is_1x16(matrix, scale):
    return (matrix.dtype == "float4_e2m1fn_x2" and scale.dtype == "float8_e4m3fn"
            and math.prod(scale.shape) == tiles(matrix.shape[0], up(matrix.shape[1] * 2, 16) // 16)
            and scale.is_contiguous())


def is_1x32(matrix, scale):
    return (matrix.dtype == "float8_e4m3fn" and scale.dtype == "float8_e8m0fnu"
            and math.prod(scale.shape) == tiles(matrix.shape[0], up(matrix.shape[1], 32) // 32)
            and scale.is_contiguous())


def is_1x128(matrix, scale):
    return (matrix.dtype == "float8_e4m3fn" and scale.dtype == "float32" and len(scale.shape) == 2
            and has(scale, 0, matrix.shape[0], 1)
            and has(scale, 1, up(matrix.shape[1], 128) // 128, matrix.shape[0]))


def is_128x128(matrix, scale):
    blocks = up(matrix.shape[1], 128) // 128
    return (matrix.dtype == "float8_e4m3fn" and scale.dtype == "float32" and len(scale.shape) == 2
            and has(scale, 0, up(matrix.shape[0], 128) // 128, up(blocks, 4))
            and has(scale, 1, blocks, 1))


def main():
    path = SCRIPTS / "gpu_peers" / "gemm.py"
    spec = importlib.util.spec_from_file_location("gemm", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch = Torch()
    peers = dict(module.peers(torch))
    made = 0
    for m, n, k in ((1, 4096, 4096), (131, 272, 640), (4096, 28672, 4096)):
        for dtype in ("fp8", "mxfp8", "nvfp4", "fp8block"):
            name = "torch._scaled_mm" + ("" if dtype == "fp8" else " in blocks")
            point = {"operation": "gemm", "dtype": dtype, "m": m, "n": n, "k": k}
            peers[name](point)()
            made += 1
        assert peers["torch._scaled_mm in blocks"]({**point, "dtype": "mxfp4"}) is None
    for routing in ("balanced", "skewed"):
        point = {"operation": "grouped", "dtype": "bf16", "m": 1280, "n": 256, "k": 128,
                 "groups": 128, "routing": routing}
        peers["torch._grouped_mm"](point)()
        made += 1
    # As the program deals them.
    assert [module.dealt(point)[rank] for rank in (0, 3)] == [60, 30]
    assert torch.products == made
    print(f"{made} products of peers have the arguments that PyTorch asks for")


def check_process():
    """The process of the peers times graphs as graphs, and no peer costs another its figure."""
    import gpu
    with tempfile.TemporaryDirectory() as place:
        gpu.HERE = pathlib.Path(place)
        peers_stand_in.make(gpu.HERE)
        os.environ["PYTHONPATH"] = place
        gpu.PEER_SECONDS = 3.0
        run = types.SimpleNamespace(folder=gpu.HERE, missing=[], left=lambda: 60.0,
                                    without=["graph"])
        peers = gpu.Peers(run)
        assert "graph" not in peers.names and "eager" in peers.names, peers.names
        assert "graph: left out, as asked" in run.missing, run.missing
        point = {"operation": "gemm", "m": 1}
        said = {name: peers.measure(name, point)
                for name in ("breaks", "graph", "ends", "hangs", "eager")}
        other = peers.measure("graph", {**point, "m": 2})
        peers.end()
    state = {"regime": "burst", "cache": "hot", "broken": False}
    for name, seconds in (("graph", 0.002), ("eager", 0.0025)):
        found = said[name].pop("seconds")
        assert math.isclose(found, seconds, rel_tol=1e-9), (name, found)
        assert said[name] == {"way": name, **state}, said
    assert said["breaks"]["broken"] and "illegal" in said["breaks"]["error"], said
    assert "no answer" in said["ends"]["error"] and "no answer" in said["hangs"]["error"], said
    assert other == {"other": True}, other
    print("peers that break, end and hang cost no other peer its figure")


def check_hot():
    """Our figures are hot as the peers' are: from the headline or from what was taken beside it."""
    import gpu

    figures = gpu.Figures()
    figures.take({"one": measured("cold", 3.0, 2.0), "other": measured("hot", 2.5, 4.0)})
    (times,) = figures.own.values()
    assert [side.seconds for side in times["portable"]] == [2.0, 2.5], times
    print("our figures beside peers are those of hot caches")


def measured(cache, headline, beside, **more):
    """A case of the program's, of one sample each way."""
    def side(cache, time):
        samples = {"times": [time], "batch": 1, "warmup": {"time": 0.0}}
        summary = {"median": time, "interval": {"low": time, "high": time}}
        return {"cache": cache, "summary": summary, "samples": samples}
    other = "cold" if cache == "hot" else "hot"
    return {"outcome": "measured", **side(cache, headline), "contrast": side(other, beside),
            "work": {"flops": 1.0, "memory": 0, "link": 0}, "speed_of_light": [],
            "case": {"kernel": "portable", "point": {"operation": "gemm", "m": 1}}, **more}


def check_sides():
    """A ratio of two sides that were not alike is not printed: each planted difference is found."""
    import gpu

    def ratio(own, peer, point=None):
        figures = gpu.Figures()
        if point is not None:
            own = {**own, "case": {**own["case"], "point": point}}
        point = own["case"]["point"]
        figures.take({"one": own})
        figures.take_peer({"point": point, "peer": "theirs", "way": "graph", **peer})
        (row,) = figures.rows()
        return row[-1]

    burst = measured("hot", 0.002, 0.003, regime="burst")
    alike = {"seconds": 0.0021, "regime": "burst", "cache": "hot"}
    assert ratio(burst, alike) == "1.050"
    assert ratio(burst, {**alike, "regime": "settled"}) == "regime: burst, settled"
    assert ratio(burst, {"seconds": 0.0021}) == "regime: burst, none"
    assert ratio(burst, {**alike, "cache": "cold"}) == "caches: hot, cold"
    # A peer that sleeps, and one that is given a layout which it has no good kernel for.
    for seconds in (0.1, 0.0029):
        assert ratio(burst, {**alike, "seconds": seconds}) == "peer not at its best"
    # Records of the first day: neither side says its regime.
    first = measured("hot", 0.002, 0.003)
    assert ratio(first, {"seconds": 0.0021}) == "load before: 1, 225 ms"
    copy = {"operation": "stream", "stream": "copy", "working_set": 1 << 31, "units": 4}
    assert ratio(first, {"seconds": 0.0021}, copy) == "peer not at its best: a copy in a graph"
    # Samples of two states, and hot ones that are slower than cold ones.
    stepped = measured("hot", 0.002, 0.003, regime="burst")
    stepped["samples"]["times"] = [0.002 if at < 30 else 0.0023 for at in range(50)]
    assert ratio(stepped, alike) == "own: two states"
    assert ratio(measured("hot", 0.002, 0.0015, regime="burst"), alike) == "own: slower hot than cold"
    read = {**copy, "stream": "read"}
    assert ratio(first, {"seconds": 0.0021}, read) == "1.050"
    print("a ratio of unlike sides is refused: regime, caches, load, a peer that sleeps, a wrong layout")


def check_states():
    """Two states are those that the program finds in the committed records."""
    import gpu
    import states
    root = SCRIPTS.parent
    listed = root / "tests/library/snapshots/library__consistency__contradictions.snap"
    lines = [line.split("\t") for line in listed.read_text().splitlines() if "two states:" in line]
    records = sorted((root / "results").rglob("record.jsonl"))
    found = 0
    for path in records:
        name = str(path.relative_to(root))
        told = [line for line in lines if line[0] == name]
        all_times = [outcome["samples"]["times"] for outcome in gpu.lines_of(path)
                     if outcome.get("outcome") == "measured"]
        own = [both for times in all_times if (both := states.two_states(times))]
        shares = [[f"({100 * share:.0f} %)" for _, share in both] for both in own]
        assert len(own) == len(told), (name, len(own), len(told))
        for line, both in zip(told, shares):
            assert all(share in line[2] for share in both), (line, both)
        found += len(own)
    print(f"two states: {found} cases of {len(records)} records, as the program has them")


if __name__ == "__main__":
    main()
    check_states()
    check_hot()
    check_sides()
    check_process()
