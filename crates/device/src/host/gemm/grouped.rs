//! The kernels of an element type: one product with B of either layout, and one product for each
//! group of rows by the kernels of single ones, of which every thread makes its part of every
//! group's, and none waits for another.

use super::{product::Share, tile::Tile};
use crate::host::{kernel::HostKernel, pool::Block};
use bytemuck::Zeroable;
use fizeau_domain::{
    case::Layout,
    dtype::Dtype,
    kernel::{GemmParams, GroupedParams, Operation},
};
use std::slice;

/// Makes one thread's share of a product. All threads of a block that is given take part at once,
/// and may wait for each other; without one, each works by itself.
pub(super) type One = unsafe fn(&GemmParams, Share, Option<&Block<'_>>);

/// As [`both`], and products of B column by column, whose parameters `one` tells from the others by
/// [`GemmParams::layout`].
pub(super) fn all<T: Tile>(dtype: Dtype, name: &'static str, one: One) -> [HostKernel; 3] {
    let nt = move |block: &Block<'_>| {
        // SAFETY: whoever launches passes operands that live; the CPU can run it.
        unsafe { one(block.params(), Share::of(block), Some(block)) }
    };
    let [single, groups] = both::<T>(dtype, name, one);
    [single, HostKernel::new(Operation::Gemm(dtype, Layout::Nt), name, &[], nt), groups]
}

/// The kernels of an element type whose products `one` makes, on a CPU that can run it: one
/// product with B row by row, and one for each group of rows.
pub(super) fn both<T: Tile>(dtype: Dtype, name: &'static str, one: One) -> [HostKernel; 2] {
    let single = move |block: &Block<'_>| {
        // SAFETY: whoever launches passes operands that live; the CPU can run it.
        unsafe { one(block.params(), Share::of(block), Some(block)) }
    };
    let groups = move |block: &Block<'_>| {
        // SAFETY: as above.
        unsafe { grouped(block, [size_of::<T::Input>(), size_of::<T::Output>()], one) }
    };
    [
        HostKernel::new(Operation::Gemm(dtype, Layout::Nn), name, &[], single),
        HostKernel::new(Operation::Grouped(dtype), name, &[], groups),
    ]
}

/// Runs a launch's iterations for one thread.
///
/// # Safety
///
/// The launch's parameters describe operands that live, of elements of the given bytes in A and B,
/// and in C; `one` may run on this CPU.
unsafe fn grouped(block: &Block<'_>, sizes: [usize; 2], one: One) {
    let params: &GroupedParams = block.params();
    let groups = params.groups as usize;
    // SAFETY: the caller's promise: one number for each group, and one behind them.
    let firsts = unsafe { slice::from_raw_parts(params.firsts as *const u32, groups + 1) };
    let [size, size_of_c] = sizes.map(|size| size as u64);
    let [n, k] = [params.n, params.k].map(u64::from);
    let share = Share { repeat: 1, ..Share::of(block) };
    for _ in 0..block.repeat {
        for (group, pair) in firsts.windows(2).enumerate() {
            let (first, m) = (u64::from(pair[0]), pair[1] - pair[0]);
            if m == 0 {
                continue;
            }
            let of_group = GemmParams {
                a: params.a + first * k * size,
                b: params.b + group as u64 * k * n * size,
                c: params.c + first * n * size_of_c,
                m,
                n: params.n,
                k: params.k,
                ..GemmParams::zeroed()
            };
            // SAFETY: the caller's promise; a group's operands are parts of all.
            unsafe { one(&of_group, share, None) };
        }
    }
}
