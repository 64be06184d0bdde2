//! The host's kernels of the operation `gemm`, one set for each element type.
//!
//! The bundled ones are three rings around one loop nest: [`product`] cuts the output into one
//! rectangle for each thread, blocks it for the caches after Goto and van de Geijn ("Anatomy of
//! high-performance matrix multiplication", 2008), packs operands into panels, and leaves the
//! arithmetic on a tile that fits the registers to a `Tile`. Few rows, which have nothing to reuse,
//! go to `stream` instead with AVX-512, to `few` with AVX2,
//! and to `dots` where B stands column by column.

#![expect(unsafe_code, reason = "operands are reached through addresses, tiles through intrinsics")]

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod amx_product;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avxvnni;
#[cfg(target_arch = "x86_64")]
mod dots;
#[cfg(target_arch = "x86_64")]
mod few;
mod grouped;
pub mod library;
mod planted;
mod portable;
mod product;
#[cfg(target_arch = "x86_64")]
mod stream;
mod tile;
mod weights;
#[cfg(target_arch = "x86_64")]
mod words;

use super::kernel::HostKernel;
pub use planted::plant_in_sum;
pub(super) use product::Scratch;

/// All of them that this CPU can run, by operation, best guess first.
///
/// The instruction sets are asked for here and not through [`HostKernel::features`], because the
/// intrinsics are sound only where the compiler's own detection says so.
pub(super) fn kernels() -> Vec<HostKernel> {
    let mut kernels = Vec::new();
    #[cfg(target_arch = "x86_64")]
    kernels.extend(amx::kernels());
    #[cfg(target_arch = "x86_64")]
    kernels.extend(avx512::kernels());
    #[cfg(target_arch = "x86_64")]
    kernels.extend(avxvnni::kernels());
    #[cfg(target_arch = "x86_64")]
    kernels.extend(avx2::kernels());
    kernels.extend(portable::kernels());
    kernels.extend(weights::kernels());
    kernels.extend(library::kernels());
    kernels
}
