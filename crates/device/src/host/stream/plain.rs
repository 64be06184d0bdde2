//! Portable loops, left to the compiler's own vectoriser.

use super::{Bodies, Part};
use std::slice;

/// Sums kept apart, so that additions need not wait for each other.
const SUMS: usize = 16;

pub(super) const BODIES: Bodies =
    [Some(read), Some(write), Some(copy), Some(scale), Some(add), Some(triad), Some(dot)];

// The arrays of a part, by the contract of `Body`.
macro_rules! array {
    ($part:ident.$array:ident) => {
        // SAFETY: the caller promises that the array has this length, and that nobody writes to it
        // meanwhile.
        unsafe { slice::from_raw_parts($part.$array, $part.length) }
    };
    (mut $part:ident.$array:ident) => {
        // SAFETY: the caller promises that the array has this length, that nobody else reaches this
        // part of it meanwhile, and that it is none of the others.
        unsafe { slice::from_raw_parts_mut($part.$array, $part.length) }
    };
}

unsafe fn read(part: &Part) -> u64 {
    let a = array!(part.a);
    let mut sums = [0u64; SUMS];
    let (turns, rest) = a.as_chunks::<SUMS>();
    for turn in turns {
        for (sum, value) in sums.iter_mut().zip(turn) {
            *sum = sum.wrapping_add(value.to_bits());
        }
    }
    let rest = rest.iter().map(|value| value.to_bits());
    sums.into_iter().chain(rest).fold(0, u64::wrapping_add)
}

unsafe fn write(part: &Part) -> u64 {
    array!(mut part.a).fill(part.scale);
    0
}

unsafe fn copy(part: &Part) -> u64 {
    // Not `copy_from_slice`, which is the C library's and has stores past the caches.
    for (a, b) in array!(mut part.a).iter_mut().zip(array!(part.b)) {
        *a = *b;
    }
    0
}

unsafe fn scale(part: &Part) -> u64 {
    let scale = part.scale;
    for (a, b) in array!(mut part.a).iter_mut().zip(array!(part.b)) {
        *a = scale * b;
    }
    0
}

unsafe fn add(part: &Part) -> u64 {
    let sources = array!(part.b).iter().zip(array!(part.c));
    for (a, (b, c)) in array!(mut part.a).iter_mut().zip(sources) {
        *a = b + c;
    }
    0
}

unsafe fn triad(part: &Part) -> u64 {
    let scale = part.scale;
    let sources = array!(part.b).iter().zip(array!(part.c));
    for (a, (b, c)) in array!(mut part.a).iter_mut().zip(sources) {
        *a = b + scale * c;
    }
    0
}

unsafe fn dot(part: &Part) -> u64 {
    let (a, b) = (array!(part.a), array!(part.b));
    let mut sums = [0.0; SUMS];
    let ((turns, rest), (others, rest_b)) = (a.as_chunks::<SUMS>(), b.as_chunks::<SUMS>());
    for (turn, other) in turns.iter().zip(others) {
        for (sum, (a, b)) in sums.iter_mut().zip(turn.iter().zip(other)) {
            *sum += a * b;
        }
    }
    let rest: f64 = rest.iter().zip(rest_b).map(|(a, b)| a * b).sum();
    (sums.iter().sum::<f64>() + rest).to_bits()
}
