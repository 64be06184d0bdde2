"""Matrix products of PyTorch (cuBLASLt beneath) and of Triton.

What `torch._scaled_mm` asks of elements and scales stands in PyTorch's
aten/src/ATen/native/cuda/ScaledBlas.cpp (`is_blockwise_..._scaling`); scripts/check_peers.py holds
these peers against it without a GPU.
"""

import math

from _optional import imported


def up(length, multiple):
    """The next multiple."""
    return -(-length // multiple) * multiple


def dealt(point):
    """Rows of each group, as `Routing::deal` of crates/domain/src/case/grouped.rs, largest first."""
    rows, groups = point["m"], point["groups"]
    if point["routing"] == "balanced":
        return [rows // groups + (group < rows % groups) for group in range(groups)]
    shares = [1 / math.sqrt(rank + 1) for rank in range(groups)]
    left, of, result = rows, sum(shares), []
    for rank, share in enumerate(shares):
        wanted = math.floor(left * (share / of) + 0.5) if rank + 1 < groups else left
        result.append(min(wanted, left))
        of -= share
        left -= result[-1]
    return result


def peers(torch):
    """torch.matmul, torch._scaled_mm, torch._int_mm, torch._grouped_mm; Triton by torch.compile."""
    dtypes = {"f64": torch.float64, "f32": torch.float32, "tf32": torch.float32,
              "f16": torch.float16, "bf16": torch.bfloat16}

    def operands(point, dtype):
        m, n, k = point["m"], point["n"], point["k"]
        a = torch.randn(m, k, device="cuda", dtype=torch.float32)
        b = torch.randn(k, n, device="cuda", dtype=torch.float32).to(dtype)
        # Layout nt: n rows of k elements.
        return a.to(dtype), b.t().contiguous().t() if point.get("layout") == "nt" else b

    def matmul(point):
        if point["operation"] != "gemm" or point["dtype"] not in dtypes:
            return None
        tf32 = point["dtype"] == "tf32"
        a, b = operands(point, dtypes[point["dtype"]])
        c = torch.empty(point["m"], point["n"], device="cuda", dtype=a.dtype)

        def function():
            torch.backends.cuda.matmul.allow_tf32 = tf32
            torch.matmul(a, b, out=c)
        return function

    def by_columns(point):
        if point["operation"] != "gemm" or point["dtype"] != "tf32" or "layout" in point:
            return None
        a, b = operands(point, torch.float32)
        b = b.t().contiguous().t()
        c = torch.empty(point["m"], point["n"], device="cuda", dtype=a.dtype)

        def function():
            torch.backends.cuda.matmul.allow_tf32 = True
            torch.matmul(a, b, out=c)
        return function

    def scaled(point):
        if point["operation"] != "gemm" or point["dtype"] != "fp8":
            return None
        a, b = operands(point, torch.float8_e4m3fn)
        b = b.t().contiguous().t()
        one = torch.ones((), device="cuda")
        return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one,
                                        out_dtype=torch.bfloat16, use_fast_accum=True)

    def powers(lines, blocks):
        # For whole tiles of 128 lines and 4 blocks; 127 is one.
        count = up(lines, 128) * up(blocks, 4)
        exponents = torch.randint(125, 129, (count,), device="cuda", dtype=torch.uint8)
        return exponents.view(torch.float8_e8m0fnu)

    def fours(lines, k):
        """Near normal numbers as e2m1, two in a byte, the first the lower."""
        edges = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0], device="cuda")
        drawn = torch.randn(lines, k, device="cuda") * 2
        codes = torch.bucketize(drawn.abs(), edges).to(torch.uint8)
        codes = codes + (drawn < 0).to(torch.uint8) * 8
        return (codes[:, ::2] + codes[:, 1::2] * 16).view(torch.float4_e2m1fn_x2)

    def eights(lines, blocks):
        # From 0.5 on, below 2.
        count = up(lines, 128) * up(blocks, 4)
        scales = torch.randint(0x30, 0x40, (count,), device="cuda", dtype=torch.uint8)
        return scales.view(torch.float8_e4m3fn)

    def elements(lines, k):
        return torch.randn(lines, k, device="cuda").to(torch.float8_e4m3fn)

    def block_scaled(point):
        if point["operation"] != "gemm" or point["dtype"] not in ("mxfp8", "nvfp4", "fp8block"):
            return None
        m, n, k = point["m"], point["n"], point["k"]
        if point["dtype"] == "mxfp8":
            a, b = elements(m, k), elements(n, k)
            scale_a, scale_b = powers(m, up(k, 32) // 32), powers(n, up(k, 32) // 32)
        elif point["dtype"] == "nvfp4":
            a, b = fours(m, k), fours(n, k)
            scale_a, scale_b = eights(m, up(k, 16) // 16), eights(n, up(k, 16) // 16)
        else:
            a, b = elements(m, k), elements(n, k)
            blocks, lines = up(k, 128) // 128, up(n, 128) // 128
            # A: a column for each 128 along k. B: rows of 128 columns, 4 blocks or a multiple.
            scale_a = (torch.rand(blocks, m, device="cuda") + 0.5).t()
            scale_b = (torch.rand(lines, up(blocks, 4), device="cuda") + 0.5)[:, :blocks].t()
        return lambda: torch._scaled_mm(a, b.t(), scale_a=scale_a, scale_b=scale_b,
                                        out_dtype=torch.bfloat16)

    def deep_gemm(module):
        """Products with scales of blocks, and grouped ones of bf16, B by columns as its name ends on nt."""
        def block_scaled(point):
            m, n, k = point["m"], point["n"], point["k"]
            a, b = elements(m, k), elements(n, k)
            blocks, lines = up(k, 128) // 128, up(n, 128) // 128
            # For each 128 along k of A's rows, and each 128 x 128 of B.
            scale_a = torch.rand(m, blocks, device="cuda") + 0.5
            scale_a = module.get_mn_major_tma_aligned_tensor(scale_a)
            scale_b = torch.rand(lines, blocks, device="cuda") + 0.5
            c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
            return lambda: module.fp8_gemm_nt((a, scale_a), (b, scale_b), c)

        def grouped(point):
            # Each group begins at a tile, and belongs to the rows that are there: others are -1.
            tile, group_of = module.get_m_alignment_for_contiguous_layout(), []
            for group, rows in enumerate(dealt(point)):
                group_of += [group] * rows + [-1] * (up(rows, tile) - rows)
            rows, n, k = len(group_of), point["n"], point["k"]
            a = torch.randn(rows, k, device="cuda", dtype=torch.bfloat16)
            b = torch.randn(point["groups"], n, k, device="cuda", dtype=torch.bfloat16)
            c = torch.empty(rows, n, device="cuda", dtype=torch.bfloat16)
            group_of = torch.tensor(group_of, device="cuda", dtype=torch.int32)
            return lambda: module.m_grouped_bf16_gemm_nt_contiguous(a, b, c, group_of)

        def make(point):
            kind = point["operation"], point["dtype"]
            of = {("gemm", "fp8block"): block_scaled, ("grouped", "bf16"): grouped}
            return of[kind](point) if kind in of else None
        return make

    def grouped(point):
        if point["operation"] != "grouped" or point["dtype"] != "bf16":
            return None
        shape = point["groups"], point["n"], point["k"]
        a = torch.randn(point["m"], point["k"], device="cuda", dtype=torch.bfloat16)
        # Kept by columns, as the library wants them.
        b = torch.randn(*shape, device="cuda", dtype=torch.bfloat16).transpose(-2, -1)
        ends, end = [], 0
        for rows in dealt(point):
            end += rows
            ends.append(end)
        offsets = torch.tensor(ends, device="cuda", dtype=torch.int32)
        return lambda: torch._grouped_mm(a, b, offs=offsets)

    def integers(point):
        if point["operation"] != "gemm" or point["dtype"] != "int8":
            return None
        shape = [(point["m"], point["k"]), (point["k"], point["n"])]
        a, b = (torch.randint(-128, 128, size, device="cuda", dtype=torch.int8) for size in shape)
        # By columns: no kernel of tensor cores takes B by rows.
        b = b.t().contiguous().t()
        return lambda: torch._int_mm(a, b)

    def triton(point):
        # Large ones only: choosing a kernel takes seconds for each shape.
        large = point["operation"] == "gemm" and point["m"] >= 4096
        if not large or point["dtype"] not in ("bf16", "f16"):
            return None
        a, b = operands(point, dtypes[point["dtype"]])
        options = {"max_autotune_gemm_backends": "TRITON", "max_autotune_gemm": True}
        function = torch.compile(lambda x, y: x @ y, options=options)
        function(a, b)
        return lambda: function(a, b)

    module = imported("deep_gemm")
    found = [("DeepGEMM", deep_gemm(module))] if module else []
    return [*found, ("torch.matmul", matmul), ("torch.matmul, B by columns", by_columns),
            ("torch._scaled_mm", scaled),
            ("torch._scaled_mm in blocks", block_scaled), ("torch._int_mm, B by columns", integers),
            ("torch._grouped_mm", grouped), ("triton", triton)]
