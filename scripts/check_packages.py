"""Holds what the peers of other packages than PyTorch give them against what they ask for, without any of
them. Stand-ins have the rules of deep_gemm (tokenspeed-deepgemm 2.5.0), flash_attn_interface (fa3-fwd
0.0.3), flashinfer 0.6.7 and flash_mla (tokenspeed-flashmla 1.0.0), and the tensors of check_peers.py have
no numbers. Needs Python alone.
"""

import contextlib
import importlib.util
import itertools
import math
import sys
import types

from check_peers import SCRIPTS, SIZES, Tensor, Torch, up

FP8, PAGE_SIZES = "float8_e4m3fn", (16, 32, 64, 128)
calls = []


class Array(Tensor):
    """With what the peers of attention do to tensors."""

    def numel(self):
        return math.prod(self.shape)

    def element_size(self):
        return SIZES[self.dtype]

    def to(self, dtype):
        return Array(self.shape, dtype, self.strides, self.values)

    def view(self, dtype):
        return Array(self.shape, super().view(dtype).dtype, self.strides, self.values)

    def cumsum(self, at, dtype):
        assert at == 0
        return Array(self.shape, dtype, values=list(itertools.accumulate(self.values)))

    def transpose(self, one, other):
        other = super().transpose(one, other)
        return Array(other.shape, other.dtype, other.strides)

    def __getitem__(self, places):
        places = places if isinstance(places, tuple) else (places,)
        places = [slice(at, at + 1) if isinstance(at, int) else at for at in places]
        part = super().__getitem__(places)
        return Array(part.shape, part.dtype, part.strides)

    def __setitem__(self, places, values):
        assert self[places].numel() == values.numel(), "a part of another length"

    def __add__(self, other):
        return Array(super().__add__(other).shape, self.dtype)


class Torch(Torch):
    """With what the peers of attention ask for. Random numbers of 8 bits are not to be had."""

    def randn(self, *shape, device, dtype="float32"):
        assert dtype in ("float32", "bfloat16", "float16"), f"no random numbers of {dtype}"
        return Array(shape, dtype)

    rand = randn

    def empty(self, *shape, device, dtype):
        return Array(shape, dtype)

    def zeros(self, *shape, device, dtype):
        return Array(shape, dtype)

    def randperm(self, count, device, dtype):
        return Array((count,), dtype)

    def tensor(self, values, device, dtype="float32"):
        return Array((len(values),), dtype, values=values)


def holds(array, shape, dtype, what):
    assert array.shape == tuple(shape) and array.dtype == dtype, (what, array.shape, array.dtype)
    assert array.strides[-1] == 1, f"{what}: not by rows"


class DeepGemm:
    TILE = 128

    def get_mn_major_tma_aligned_tensor(self, scales):
        lines, blocks = scales.shape
        assert scales.is_contiguous() and scales.dtype == "float32"
        return Array(scales.shape, "float32", (1, up(lines, 4)))

    def get_m_alignment_for_contiguous_layout(self):
        return self.TILE

    def fp8_gemm_nt(self, one, other, c):
        (a, scale_a), (b, scale_b) = one, other
        (m, k), (n, _) = a.shape, b.shape
        holds(a, (m, k), FP8, "A")
        holds(b, (n, k), FP8, "B")
        holds(c, (m, n), "bfloat16", "C")
        assert scale_a.shape == (m, up(k, 128) // 128) and scale_a.strides == (1, up(m, 4))
        holds(scale_b, (up(n, 128) // 128, up(k, 128) // 128), "float32", "scales of B")
        calls.append(("fp8block", m, n, k))

    def m_grouped_bf16_gemm_nt_contiguous(self, a, b, c, group_of):
        (m, k), (groups, n, _) = a.shape, b.shape
        holds(a, (m, k), "bfloat16", "A")
        holds(b, (groups, n, k), "bfloat16", "B")
        holds(c, (m, n), "bfloat16", "C")
        holds(group_of, (m,), "int32", "groups of rows")
        assert m % self.TILE == 0
        for at in range(0, m, self.TILE):
            tile = group_of.values[at:at + self.TILE]
            there = [group for group in tile if group >= 0]
            assert there and set(there) == {there[0]} and tile == there + [-1] * (len(tile) - len(there))
        rows = [group_of.values.count(group) for group in range(groups)]
        calls.append(("grouped", rows, n, k))


class FlashAttention:
    def flash_attn_func(self, q, k, v, causal=False):
        batch, queries, heads, dim_qk = q.shape
        _, keys, kv_heads, dim_v = v.shape
        assert q.dtype in ("float16", "bfloat16", FP8), q.dtype
        holds(k, (batch, keys, kv_heads, dim_qk), q.dtype, "K")
        holds(v, (batch, keys, kv_heads, dim_v), q.dtype, "V")
        assert heads % kv_heads == 0
        calls.append(("FA3", q.dtype, causal))

    def flash_attn_with_kvcache(self, q, k, v, cache_seqlens, causal, page_table=None):
        pages, page, kv_heads, dim = k.shape
        assert q.dtype in ("float16", "bfloat16"), q.dtype
        holds(v, k.shape, q.dtype, "V")
        holds(cache_seqlens, q.shape[:1], "int32", "lengths")
        assert max(cache_seqlens.values) <= page * (pages if page_table else 1)
        calls.append(("FA3 decode", q.dtype, causal))


class FlashInfer:
    def __init__(self):
        outer = self
        self.decode = self

        class Wrapper:
            def __init__(self, space, layout, use_tensor_cores):
                assert space.dtype == "uint8" and layout == "NHD"

            def plan(self, starts, order, last, heads, kv_heads, dim, page, q_data_type, kv_data_type):
                batch = starts.shape[0] - 1
                holds(starts, (batch + 1,), "int32", "starts")
                holds(last, (batch,), "int32", "last pages")
                holds(order, (starts.values[-1],), "int32", "pages")
                assert heads % kv_heads == 0 and all(1 <= count <= page for count in last.values)
                self.q = (batch, heads, dim), q_data_type
                self.cache = (order.shape[0], page, kv_heads, dim), kv_data_type

            def run(self, q, cache):
                holds(q, *self.q, "Q")
                for part in cache:
                    holds(part, *self.cache, "cache")
                outer.said("FlashInfer", q, cache)
        self.BatchDecodeWithPagedKVCacheWrapper = Wrapper

    def said(self, name, q, cache):
        assert q.dtype in ("float16", "bfloat16"), q.dtype
        assert cache[0].dtype in (q.dtype, FP8)
        calls.append((name, q.dtype, cache[0].dtype))

    def xqa_batch_decode_with_kv_cache(self, q, cache, work, table, lengths, longest, bmm1_scale, out):
        batch, heads, dim = q.shape
        pages, page, kv_heads, _ = cache[0].shape
        assert page in PAGE_SIZES and work.dtype == "uint8" and work.shape[0] > 8 << 20
        for part in cache:
            holds(part, (pages, page, kv_heads, dim), cache[0].dtype, "cache")
        holds(lengths, (batch,), "uint32", "lengths")
        holds(table, (batch, up(longest, page) // page), "int32", "table")
        holds(out, q.shape, q.dtype, "output")
        assert max(lengths.values) == longest and math.isclose(bmm1_scale, dim**-0.5)
        self.said("XQA", q, cache)


class FlashMla:
    def get_mla_metadata(self, *_):
        return "plan", None

    def flash_mla_with_kvcache(self, q, cache, table, have, dim_v, plan, splits, causal):
        pages, page, heads, dim = cache.shape
        assert (page, heads, dim, dim_v) == (64, 1, 576, 512) and q.dtype == cache.dtype
        assert (plan, splits) == ("plan", None)
        holds(have, q.shape[:1], "int32", "lengths")
        calls.append(("FlashMLA", q.dtype, causal))


def sdpa(q, k, v, is_causal, enable_gqa):
    assert q.dtype == k.dtype == v.dtype and q.shape[1] % k.shape[1] == 0
    assert enable_gqa == (q.shape[1] != k.shape[1])
    calls.append(("SDPA", q.dtype, is_causal))


def peers(name, torch):
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / "gpu_peers" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, dict(module.peers(torch))


def plant():
    """The stand-ins, under the names by which they are imported."""
    nn = types.ModuleType("torch.nn")
    nn.attention = types.SimpleNamespace(
        SDPBackend=types.SimpleNamespace(CUDNN_ATTENTION=0, FLASH_ATTENTION=1, EFFICIENT_ATTENTION=2),
        sdpa_kernel=lambda which: contextlib.nullcontext())
    nn.functional = types.SimpleNamespace(scaled_dot_product_attention=sdpa)
    # A module that cannot be loaded stands for one that is not installed, or was built for another PyTorch.
    sys.modules.update({
        "torch": types.ModuleType("torch"), "torch.nn": nn, "flash_attn_interface": None,
        "fa3_fwd_interface": FlashAttention(), "flash_attn": None, "flash_attn.cute": None,
        "flashinfer": FlashInfer(), "flash_mla": FlashMla(), "deep_gemm": DeepGemm()})


def check_products(torch):
    module, found = peers("gemm", torch)
    make = found["DeepGEMM"]
    for m, n, k in ((1, 4096, 4096), (131, 272, 640), (4096, 7168, 16384)):
        make({"operation": "gemm", "dtype": "fp8block", "m": m, "n": n, "k": k})()
        assert calls.pop() == ("fp8block", m, n, k)
    for routing, m in itertools.product(("balanced", "skewed"), (1280, 32768)):
        point = {"operation": "grouped", "dtype": "bf16", "m": m, "n": 256, "k": 128, "groups": 8,
                 "routing": routing}
        make(point)()
        assert calls.pop() == ("grouped", module.dealt(point), 256, 128)
    for other in ({"operation": "gemm", "dtype": "bf16"}, {"operation": "grouped", "dtype": "fp8"}):
        assert make({**point, **other}) is None, other


def check_attention(torch):
    """Each point is one that a peer does as it stands, or none of it."""
    _, found = peers("attention", torch)
    prefill = {"operation": "attention", "attention": "prefill", "dtype": "fp8", "batch": 4, "heads": 16,
               "kv_heads": 4, "queries": 512, "keys": 512, "dim_qk": 128, "dim_v": 128, "mask": "causal"}
    decode = {**prefill, "attention": "decode", "queries": 1, "keys": 8192, "mask": "full", "page": 64}
    mla = {**decode, "attention": "mla", "kv_heads": 1, "dim_qk": 576, "dim_v": 512}
    fp8, bf16 = {"dtype": "fp8"}, {"dtype": "bf16"}
    names = {FP8: "fp8", "bfloat16": "bf16"}
    ragged = {"lengths": "ragged"}
    said = {}
    for point in ({**of, **dtype, **more} for of in (prefill, decode, mla) for dtype in (fp8, bf16)
                  for more in ({}, ragged, {"mask": {"window": 128}}, {"mask": {"chunk": 256}})):
        done = set()
        for name, make in found.items():
            function = make(point)
            calls.clear()
            if function is None:
                continue
            function()
            assert len(calls) == 1, (name, point)
            (call,) = calls
            # The cache's element type is the point's.
            cache = call[2] if name.startswith("FlashInfer") else call[1]
            assert names[cache] == point["dtype"], (name, point, call)
            if not isinstance(call[2], str):
                assert call[2] == (point["mask"] == "causal"), (name, point)
            done.add(name)
            if name.startswith("FlashInfer"):
                check_bytes(function, point)
        assert isinstance(point["mask"], str) or not done, f"{done} do more than {point}"
        said[point["attention"], point["dtype"], "lengths" in point, str(point["mask"])] = done
    backends = {"torch SDPA cuDNN", "torch SDPA flash", "torch SDPA efficient"}
    assert said["prefill", "fp8", False, "causal"] == {"FlashAttention-3"}, said
    assert said["prefill", "bf16", False, "causal"] == {"FlashAttention-3", *backends}, said
    assert said["prefill", "bf16", True, "causal"] == set(), said
    for lengths in (False, True):
        served = {"FlashInfer", "FlashInfer XQA"}
        assert said["decode", "fp8", lengths, "full"] == served, said
        assert said["decode", "bf16", lengths, "full"] == {"FlashAttention-3 decode", *served}, said
        assert said["mla", "bf16", lengths, "full"] == {"FlashMLA"}, said
        assert said["mla", "fp8", lengths, "full"] == set(), said


def check_bytes(function, point):
    """What is read is the queries and the cache, and not the library's own space."""
    size = 1 if point["dtype"] == "fp8" else 2
    cache = 2 * point["batch"] * point["keys"] * point["kv_heads"] * point["dim_qk"] * size
    queries = 2 * point["batch"] * point["heads"] * point["dim_qk"]
    if "lengths" not in point:
        assert function.bytes == queries + cache, (function.bytes, queries + cache)
    assert function.bytes <= queries + cache


def check_missing():
    """A package that is not there is named, with the reason."""
    import _optional
    said = "\n".join(_optional.missing)
    assert "flash_attn_interface: " in said and "flash_attn.cute: " in said, said
    assert "flash_mla" not in said and "deep_gemm" not in said, said


def check_copies(torch):
    """No copy goes into a graph."""
    torch.cuda = types.SimpleNamespace(
        get_device_properties=lambda at: types.SimpleNamespace(multi_processor_count=4))
    torch.empty = lambda *shape, dtype, device=None, pin_memory=False: Array(shape, dtype)
    torch.float64 = "float32"
    _, found = peers("memory", torch)
    stream = {"operation": "stream", "stream": "copy", "units": 4, "working_set": 1 << 31}
    points = [("torch", stream)] + [
        ("torch copy_", {"operation": "transfer", "transfer": f"{way}_memcpy", "size": 1 << 20,
                         "host": host})
        for way in ("host_to_device", "device_to_host") for host in ("pinned", "pageable")]
    for name, point in points:
        assert found[name](point).captures is False, point
    assert getattr(found["torch"]({**stream, "stream": "scale"}), "captures", True)


def main():
    plant()
    torch = Torch()
    check_products(torch)
    check_attention(torch)
    check_missing()
    check_copies(torch)
    print("peers of other packages have the arguments that these ask for, and do whole points or none")


if __name__ == "__main__":
    main()
