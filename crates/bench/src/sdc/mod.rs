//! The operation `sdc`: silent data corruption. The same work is repeated and its results compared
//! bit by bit, since a fault of this kind changes a few bits of few results, and seldom makes a
//! NaN.
//!
//! What is found stands in the record as [`Integrity`]: how often was
//! compared, what differed and where, and the rate that this many comparisons would have shown. A
//! case with a mismatch has failed. docs/methodology.md has what these comparisons cannot see.

pub mod all_reduce;
mod copy;
mod memory;
pub mod planted;
mod product;
mod tally;

use super::{Prepared, Rank, gemm};
use fizeau_domain::{
    case::{Case, Contents, GemmPoint, KernelName, Layout, Point, SdcPoint},
    dtype::Dtype,
    kernel::Operation,
    outcome::{Integrity, WrongWord},
    spec::Properties,
    suite::{SdcAxes, Suite},
    tuning::TUNED,
    units::Bytes,
};
use tally::Tally;

/// Whether a kernel of products leaves the same bits each time: each of its sums has one order. Not
/// where what blocks leave of a tile is added up, nor where a library chooses its algorithm by
/// itself, nor where the fastest of several is taken, which can be another one on the next node.
fn is_deterministic(kernel: &KernelName) -> bool {
    !kernel.is_of_library() && !kernel.0.contains("stream_k") && kernel.0 != TUNED
}

/// The cases of a suite: of products every kernel that leaves the same bits each time.
pub fn cases(suite: &Suite, rank: Rank<'_>) -> Vec<Case> {
    let Some(axes) = &suite.sdc else { return Vec::new() };
    let SdcAxes { dtypes, shapes, products, patterns, memory, rounds, copies, .. } = axes;
    let has = |operation| !rank.device.kernels(operation).is_empty();
    if !has(Operation::Hash) {
        return Vec::new();
    }
    let mut cases = Vec::new();
    let mut add = |point, kernels: Vec<KernelName>| {
        let point = Point::Sdc(point);
        cases.extend(kernels.into_iter().map(|kernel| Case { kernel, point }));
    };
    for &dtype in dtypes {
        let mut kernels = rank.device.kernels(Operation::Gemm(dtype, Layout::Nn));
        kernels.retain(is_deterministic);
        for &[m, n, k] in shapes {
            add(SdcPoint::Product { dtype, m, n, k, rounds: *products }, kernels.clone());
        }
    }
    let rounds = *rounds;
    for &pattern in patterns {
        for size in memory.iter().map(|&size| Bytes(size)) {
            let kernels = rank.device.kernels(Operation::Pattern);
            add(SdcPoint::Memory { pattern, size, rounds }, kernels);
        }
    }
    // A device without copies is the host, whose memory is its own.
    for &size in copies {
        let size = Bytes(size);
        add(SdcPoint::Copy { size, rounds }, rank.device.kernels(Operation::Copy));
    }
    cases
}

/// Makes a case ready.
pub fn prepare<'r>(point: &SdcPoint, kernel: &KernelName, rank: Rank<'r>) -> Prepared<'r> {
    match *point {
        SdcPoint::Product { dtype, m, n, k, rounds } => {
            product::prepare(product_of(dtype, [m, n, k]), rounds, kernel, rank)
        }
        SdcPoint::Memory { pattern, size, rounds } => {
            memory::prepare(pattern, size, rounds, rank.device)
        }
        SdcPoint::Copy { size, rounds } => copy::prepare(size, rounds, kernel, rank.device),
        SdcPoint::AllReduce { dtype, size, ranks, rounds } => {
            all_reduce::prepare((dtype, size, ranks, rounds), kernel, rank)
        }
    }
}

/// The product that is repeated: its operands are random and the same in every run.
fn product_of(dtype: Dtype, [m, n, k]: [u32; 3]) -> GemmPoint {
    GemmPoint { dtype, m, n, k, layout: Layout::Nn, contents: Contents::Random }
}

/// Memory that a case takes on a device; of ranks, on all of their devices together.
pub fn memory(point: &SdcPoint, properties: &Properties) -> Bytes {
    match *point {
        SdcPoint::Product { dtype, m, n, k, .. } => {
            let point = product_of(dtype, [m, n, k]);
            let c = u64::from(m) * u64::from(n) * dtype.output().bits() / 8;
            let copies = u64::from(gemm::copies(&point, properties));
            let operands = Point::Gemm(point).work().memory * (1 + copies);
            operands + gemm::beside(&point) + Tally::memory(c.div_ceil(8))
        }
        SdcPoint::Memory { size, .. } => size + Bytes::MIB,
        // Three of the contents on their ways and two at their sources; what is kept of each.
        SdcPoint::Copy { size, .. } => size * 5 + Tally::memory(size.0 / 8) * 2,
        // Two contents, what is received, and what is kept of the sum of each.
        SdcPoint::AllReduce { size, ranks, .. } => {
            (size * 3 + Tally::memory(size.0 / 8) * 2) * u64::from(ranks)
        }
    }
}

/// A word as 16 hexadecimal digits.
fn hexadecimal(word: u64) -> String {
    format!("{word:016x}")
}

/// The first words that differ from what they should be. Of a matrix, row by row, `matrix` has the
/// columns and the bytes of an element.
fn first_differences(
    of: &str,
    found: &[u64],
    expected: &[u64],
    matrix: Option<[u64; 2]>,
) -> Vec<WrongWord> {
    let differs = |(_, (found, expected)): &(usize, (&u64, &u64))| found != expected;
    let word = |(at, (&found, &expected)): (usize, (&u64, &u64))| {
        let byte = 8 * at as u64 + u64::from((found ^ expected).trailing_zeros() / 8);
        let element = matrix.map(|[columns, bytes]| {
            let element = byte / bytes.max(1);
            [element / columns.max(1), element % columns.max(1)].map(|place| place as u32)
        });
        WrongWord {
            of: of.into(),
            at: at as u64,
            row: element.map(|[row, _]| row),
            column: element.map(|[_, column]| column),
            found: hexadecimal(found),
            expected: hexadecimal(expected),
        }
    };
    let words = found.iter().zip(expected).enumerate().filter(differs).map(word);
    words.take(Integrity::WORDS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_whose_sums_have_several_orders_are_left_out() {
        let is = |name: &str| is_deterministic(&KernelName(name.into()));
        assert!(is("sm90_wgmma") && is("portable") && is("avx512"));
        assert!(!is("cublaslt") && !is("openblas") && !is("sm80_mma_stream_k"));
    }

    #[test]
    fn a_wrong_element_has_its_row_and_column() {
        let right = [0u64; 12];
        let mut found = right;
        // Two bytes each, five columns: element 22.
        found[5] ^= 1 << 37;
        let words = first_differences("c", &found, &right, Some([5, 2]));
        assert_eq!(words.len(), 1);
        assert_eq!((words[0].at, words[0].row, words[0].column), (5, Some(4), Some(2)));
        assert_eq!((&*words[0].found, &*words[0].expected), ("0000002000000000", &*"0".repeat(16)));
    }

    #[test]
    fn what_a_case_takes_has_its_copies() {
        let copy = SdcPoint::Copy { size: Bytes::MIB, rounds: 1 };
        assert!(memory(&copy, &Properties::default()) >= Bytes::MIB * 9);
        let (dtype, size, ranks, rounds) = (Dtype::Int8, Bytes::MIB, 4, 1);
        let reduced = SdcPoint::AllReduce { dtype, size, ranks, rounds };
        assert!(memory(&reduced, &Properties::default()) >= Bytes::MIB * 28);
    }
}
