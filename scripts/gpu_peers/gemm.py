"""Matrix products of PyTorch (cuBLASLt beneath) and of Triton."""


def peers(torch):
    """torch.matmul, torch._scaled_mm, torch._int_mm; torch.compile's Triton kernels."""
    dtypes = {"f64": torch.float64, "f32": torch.float32, "tf32": torch.float32,
              "f16": torch.float16, "bf16": torch.bfloat16}

    def operands(point, dtype):
        m, n, k = point["m"], point["n"], point["k"]
        a = torch.randn(m, k, device="cuda", dtype=torch.float32)
        b = torch.randn(k, n, device="cuda", dtype=torch.float32)
        return a.to(dtype), b.to(dtype)

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

    def scaled(point):
        if point["operation"] != "gemm" or point["dtype"] != "fp8":
            return None
        a, b = operands(point, torch.float8_e4m3fn)
        b = b.t().contiguous().t()
        one = torch.ones((), device="cuda")
        return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one,
                                        out_dtype=torch.bfloat16, use_fast_accum=True)

    def integers(point):
        if point["operation"] != "gemm" or point["dtype"] != "int8":
            return None
        shape = [(point["m"], point["k"]), (point["k"], point["n"])]
        a, b = (torch.randint(-128, 128, size, device="cuda", dtype=torch.int8) for size in shape)
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

    return [("torch.matmul", matmul), ("torch._scaled_mm", scaled), ("torch._int_mm", integers),
            ("triton", triton)]
