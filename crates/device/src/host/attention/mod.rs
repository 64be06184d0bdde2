//! The host's kernels of the operation `attention`, one set for each element type.
//!
//! [`blocks`] walks over blocks of queries and keys with the online softmax of FlashAttention (Dao
//! and others, 2022; Milakov and Gimelshein, 2018) and, where there are fewer blocks than threads,
//! splits the keys (Flash-Decoding, Dao and others, 2023). The arithmetic on one block is an
//! [`engine::Engine`]'s: few rows read keys and values in place, once for all query heads that
//! share them; many rows pack them first, where the engine can ([`packed`]). Attention over
//! selected tokens widens them to such blocks ([`gathered`]).

#![expect(unsafe_code, reason = "operands are reached through addresses, tiles through intrinsics")]

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512_packed;
mod blocks;
mod engine;
mod gathered;
mod keys;
mod packed;
mod portable;
mod room;
#[cfg(target_arch = "x86_64")]
mod wide;

use super::{kernel::HostKernel, pool::Block};
use engine::Engine;
use fizeau_domain::{dtype::Dtype, kernel::Operation};

/// All of them that this CPU can run, by `attention/<element type>`, best guess first.
pub(super) fn kernels() -> Vec<HostKernel> {
    let mut kernels = Vec::new();
    #[cfg(target_arch = "x86_64")]
    kernels.extend(avx512::kernels());
    #[cfg(target_arch = "x86_64")]
    kernels.extend(avx2::kernels());
    kernels.extend(portable::kernels());
    kernels
}

/// Those of `sparse/decode`, best guess first.
pub(super) fn sparse_decode() -> Vec<HostKernel> {
    let mut kernels = Vec::new();
    #[cfg(target_arch = "x86_64")]
    kernels.extend(avx512::sparse_decode());
    #[cfg(target_arch = "x86_64")]
    kernels.extend(avx2::sparse_decode());
    kernels.push(portable::sparse_decode());
    kernels
}

/// The kernel of an engine, whose instructions the CPU has.
fn kernel<E: Engine + 'static>(dtype: Dtype, name: &'static str) -> HostKernel {
    let run = |block: &Block<'_>| {
        // SAFETY: whoever launches passes operands that live; the CPU is asked before this kernel
        // is listed.
        unsafe { blocks::attention::<E>(block) }
    };
    HostKernel::new(Operation::any_attention(dtype), name, &[], run)
}
