//! The kernels of the host and its pool of pinned threads, which take all cores.

mod attention;
mod collective;
mod gemm;
mod memory;
mod pool;
