//! Selectors: globs over case ids, such as `gemm/bf16/*`.
