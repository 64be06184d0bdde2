//! The kernels of the host and its pool of pinned threads, which take all cores.

mod attention;
mod collective;
mod gemm;
mod memory;
mod pool;

use fizeau_bench::{self as bench, Prepared, Rank};
use fizeau_device::host::{fenced, library};
use fizeau_domain::case::Case;

/// Makes a case ready. A kernel of the program's own ends the process if it touches memory behind
/// an operand; vendor libraries may read there.
fn prepare<'r>(case: &Case, rank: Rank<'r>) -> Prepared<'r> {
    // Operands that an earlier case left would be taken again.
    bench::give_back();
    let prepared = || bench::prepare(case, rank);
    match library::version_of(&case.kernel.0) {
        Some(_) => prepared(),
        None => fenced(prepared),
    }
}
