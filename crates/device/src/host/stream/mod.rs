//! The host's kernels of the operation `stream`.
//!
//! A variant is an instruction set and a kind of store. `_nt` stores past the caches: a line that
//! is written whole need not be read first, which saves a third of the traffic of copy and triad
//! and half of that of write, but sends what would have stayed in a cache to memory. `_4s` walks
//! four places at once in each block, so that more of the hardware's prefetchers are at work.

#![expect(unsafe_code, reason = "kernels work on the addresses of their parameters")]

mod plain;
#[cfg(target_arch = "x86_64")]
mod vector;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::{kernel::HostKernel, pool::Block};
use fizeau_domain::{
    case::StreamOperation,
    kernel::{Operation, StreamParams},
};
use std::hint;

/// Elements that blocks are divided in: whole cache lines, whole turns of every unrolled loop.
const GRANULE: usize = 512;

/// One block's part of the arrays.
struct Part {
    a: *mut f64,
    b: *const f64,
    c: *const f64,
    length: usize,
    scale: f64,
}

/// One iteration over a part; reductions return their sum, the others anything. `read` adds up the
/// bits of its elements as integers, since additions of `f64` are not what it measures; of other
/// sums the bits are returned.
///
/// # Safety
///
/// The arrays that the operation touches have the part's length, nobody else writes to them
/// meanwhile, `a` stands on a line's first byte, and the CPU has the variant's instructions.
type Body = unsafe fn(&Part) -> u64;

/// The bodies of one variant, in the order of [`fizeau_domain::case::StreamOperation::ALL`]; none
/// where the variant means nothing.
type Bodies = [Option<Body>; 7];

/// All of them, best for memory first; the device leaves out those whose instruction set is not
/// there.
pub(super) fn kernels() -> Vec<HostKernel> {
    let mut kernels = Vec::new();
    #[cfg(target_arch = "x86_64")]
    for (name, features, bodies) in x86::variants() {
        kernels.extend(variant(name, features, bodies));
    }
    kernels.extend(variant("plain", &[], plain::BODIES));
    kernels
}

/// One kernel for each operation that a variant has.
fn variant(
    name: &'static str,
    features: &'static [&'static str],
    bodies: Bodies,
) -> impl Iterator<Item = HostKernel> {
    StreamOperation::ALL.into_iter().zip(bodies).filter_map(move |(stream, body)| {
        let body = body?;
        let run = move |block: &Block<'_>| run(block, body);
        Some(HostKernel::new(Operation::Stream(stream), name, features, run))
    })
}

fn run(block: &Block<'_>, body: Body) {
    let params: &StreamParams = block.params();
    let range = block.part(params.length as usize, GRANULE);
    let at = |address: u64| (address as *mut f64).wrapping_add(range.start);
    let part = Part {
        a: at(params.a),
        b: at(params.b),
        c: at(params.c),
        length: range.len(),
        scale: params.scale,
    };
    let mut sum = 0;
    for _ in 0..block.repeat {
        // SAFETY: whoever launches owns arrays of `length` elements at these addresses, blocks
        // have different parts, and the device lists only variants that the CPU can run.
        sum = unsafe { body(hint::black_box(&part)) };
    }
    // SAFETY: `partial` has a line of 64 bytes for each block.
    unsafe { (params.partial as *mut u64).add(8 * block.index as usize).write(sum) };
}
