"""Attention of PyTorch's backends, FlashAttention-3 and -4, FlashInfer and FlashMLA, each where its
package can be imported. PyTorch's have run beside us; the others are written by their documentation and
the texts of fa3-fwd 0.0.3, flashinfer-python 0.6.7 and tokenspeed-flashmla 1.0.0."""

from _optional import imported

GOLDEN = 2_654_435_769


def lengths(point):
    """Keys of each sequence, as `Lengths::keys` of crates/domain/src/case/attention.rs has them."""
    longest = point["keys"]
    if point.get("lengths", "equal") == "equal":
        return [longest] * point["batch"]
    fractions = [(number + 1) * GOLDEN % 2**32 for number in range(point["batch"])]
    return [1 + ((longest - 1) * fraction >> 32) for fraction in fractions]


def peers(torch):
    """Prefill by scaled_dot_product_attention and flash attention; decode by what serves it."""
    dtypes = {"f16": torch.float16, "bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}
    wide = ("f16", "bf16")

    def is_plain(point, kinds, elements=wide):
        """A point of some kinds and element types, with a mask that is no window and no chunk: a peer
        that is told of neither would do more than the point asks for."""
        return (point["operation"] == "attention" and point["attention"] in kinds
                and point["dtype"] in elements and point["mask"] in ("full", "causal"))

    def is_even(point):
        """Sequences of one length, in one piece, whose mask every library means alike."""
        aligned = point["mask"] == "full" or point["queries"] == point["keys"]
        return "lengths" not in point and "page" not in point and aligned

    def normal(dtype, *shape):
        # PyTorch draws no numbers of 8 bits.
        drawn = torch.bfloat16 if dtype == torch.float8_e4m3fn else dtype
        return torch.randn(*shape, device="cuda", dtype=drawn).to(dtype)

    def operands(point):
        """Tokens before heads, as fizeau and flash attention have them."""
        dtype = dtypes[point["dtype"]]
        batch, heads, kv_heads = point["batch"], point["heads"], point["kv_heads"]
        q = normal(dtype, batch, point["queries"], heads, point["dim_qk"])
        k = normal(dtype, batch, point["keys"], kv_heads, point["dim_qk"])
        v = normal(dtype, batch, point["keys"], kv_heads, point["dim_v"])
        return q, k, v

    def scaled_dot_product(backend):
        from torch.nn import attention, functional

        def make(point):
            if not is_plain(point, ("prefill", "decode")) or not is_even(point):
                return None
            # The same memory, heads first by a view.
            q, k, v = (operand.transpose(1, 2) for operand in operands(point))
            causal, grouped = point["mask"] == "causal", point["heads"] != point["kv_heads"]
            which = getattr(attention.SDPBackend, backend)

            def function():
                with attention.sdpa_kernel(which):
                    functional.scaled_dot_product_attention(
                        q, k, v, is_causal=causal, enable_gqa=grouped)
            function()
            return function
        return make

    def flash(module, elements=wide):
        def make(point):
            if not is_plain(point, ("prefill",), elements) or not is_even(point):
                return None
            q, k, v = operands(point)
            causal = point["mask"] == "causal"
            return lambda: module.flash_attn_func(q, k, v, causal=causal)
        return make

    def pages(point, page):
        """The pool's pages in any order: a table for each sequence, and how many keys each has."""
        keys = lengths(point)
        counts = [(count + page - 1) // page for count in keys]
        order = torch.randperm(sum(counts), device="cuda", dtype=torch.int32)
        table = torch.zeros(len(keys), max(counts), device="cuda", dtype=torch.int32)
        at = 0
        for number, count in enumerate(counts):
            table[number, :count] = order[at:at + count]
            at += count
        return keys, counts, order, table

    def pool(point, total, page):
        dtype = dtypes[point["dtype"]]
        return [normal(dtype, total, page, point["kv_heads"], point[dim])
                for dim in ("dim_qk", "dim_v")]

    def flash_decode(module):
        def make(point):
            if not is_plain(point, ("decode",)):
                return None
            # One page that holds a sequence where the cache is in one piece.
            page = point.get("page", point["keys"])
            keys, counts, _, table = pages(point, page)
            q = normal(dtypes[point["dtype"]], point["batch"], point["queries"], point["heads"],
                       point["dim_qk"])
            k, v = pool(point, sum(counts), page)
            have = torch.tensor(keys, device="cuda", dtype=torch.int32)
            options = {"cache_seqlens": have, "causal": point["mask"] == "causal"}
            if "page" in point:
                options["page_table"] = table
            return lambda: module.flash_attn_with_kvcache(q, k, v, **options)
        return make

    # What a library keeps parts of its results in: the same for all its iterations, which take turns.
    spaces = {}

    def space(name, size=256 << 20):
        if name not in spaces:
            spaces[name] = torch.zeros(size, dtype=torch.uint8, device="cuda")
        return spaces[name]

    def with_bytes(function, *read):
        """A function whose operands are not all that was allocated for it."""
        function.bytes = sum(operand.numel() * operand.element_size() for operand in read)
        return function

    # A cache of 8-bit floats has queries of bfloat16.
    of_queries = {**dtypes, "fp8": torch.bfloat16}

    def flashinfer_decode(module):
        def make(point):
            if not is_plain(point, ("decode",), dtypes) or point["queries"] != 1:
                return None
            page = point.get("page", 64)
            keys, counts, order, _ = pages(point, page)
            dtype = of_queries[point["dtype"]]
            q = normal(dtype, point["batch"], point["heads"], point["dim_qk"])
            cache = tuple(pool(point, sum(counts), page))
            starts = torch.tensor([0, *counts], device="cuda", dtype=torch.int32)
            starts = starts.cumsum(0, dtype=torch.int32)
            last = torch.tensor([(count - 1) % page + 1 for count in keys], device="cuda",
                                dtype=torch.int32)
            wrapper = module.BatchDecodeWithPagedKVCacheWrapper(
                space("FlashInfer"), "NHD", use_tensor_cores=point["heads"] // point["kv_heads"] >= 4)
            wrapper.plan(starts, order, last, point["heads"], point["kv_heads"], point["dim_qk"],
                         page, q_data_type=dtype, kv_data_type=dtypes[point["dtype"]])
            return with_bytes(lambda: wrapper.run(q, cache), q, *cache)
        return make

    def xqa_decode(module):
        """FlashInfer's kernels of TensorRT-LLM, which multiply a cache of 8-bit floats as such."""
        def make(point):
            page = point.get("page", 64)
            if not is_plain(point, ("decode",), dtypes) or point["queries"] != 1:
                return None
            if page not in (16, 32, 64, 128) or point["dim_qk"] != point["dim_v"]:
                return None
            keys, counts, _, table = pages(point, page)
            dtype, dim = of_queries[point["dtype"]], point["dim_qk"]
            q = normal(dtype, point["batch"], point["heads"], dim)
            cache = tuple(pool(point, sum(counts), page))
            have = torch.tensor(keys, device="cuda", dtype=torch.int32).view(torch.uint32)
            out = torch.empty(point["batch"], point["heads"], dim, device="cuda", dtype=dtype)
            work = space("XQA")
            return with_bytes(lambda: module.xqa_batch_decode_with_kv_cache(
                q, cache, work, table, have, max(keys), bmm1_scale=dim**-0.5, out=out), q, *cache)
        return make

    def flash_mla(module):
        def make(point):
            if not is_plain(point, ("mla",)) or point.get("page", 64) != 64:
                return None
            keys, counts, _, table = pages(point, 64)
            dtype = dtypes[point["dtype"]]
            q = normal(dtype, point["batch"], point["queries"], point["heads"], point["dim_qk"])
            cache = normal(dtype, sum(counts), 64, 1, point["dim_qk"])
            have = torch.tensor(keys, device="cuda", dtype=torch.int32)
            try:
                plan, splits = module.get_mla_metadata(have, point["queries"] * point["heads"], 1)
            except TypeError:  # Newer ones plan at the first call.
                plan, splits = module.get_mla_metadata()
            return lambda: module.flash_mla_with_kvcache(
                q, cache, table, have, point["dim_v"], plan, splits,
                causal=point["mask"] == "causal")
        return make

    found = [(f"torch SDPA {name}", scaled_dot_product(backend)) for name, backend in (
        ("cuDNN", "CUDNN_ATTENTION"), ("flash", "FLASH_ATTENTION"),
        ("efficient", "EFFICIENT_ATTENTION"))]
    # fa3-fwd is the same without the way back, and without pages.
    module = imported("flash_attn_interface") or imported("fa3_fwd_interface")
    if module:
        found.append(("FlashAttention-3", flash(module, dtypes)))
        found.append(("FlashAttention-3 decode", flash_decode(module)))
    if module := imported("flash_attn.cute"):
        found.append(("FlashAttention-4", flash(module)))
    if module := imported("flashinfer"):
        found.append(("FlashInfer", flashinfer_decode(module)))
        if hasattr(module.decode, "xqa_batch_decode_with_kv_cache"):
            found.append(("FlashInfer XQA", xqa_decode(module.decode)))
    if module := imported("flash_mla"):
        found.append(("FlashMLA", flash_mla(module)))
    return found
