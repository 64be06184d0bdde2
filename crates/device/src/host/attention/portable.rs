//! Plain Rust in lanes that any compiler makes vectors of.

use super::{
    engine::{COLUMNS, EXP2, Element, Engine, Softmax},
    gathered, kernel,
    keys::{KEYS, Rows},
};
use crate::host::kernel::HostKernel;
use fizeau_domain::dtype::Dtype;
use half::bf16;
use std::{marker::PhantomData, ops::Range};

pub(super) fn kernels() -> Vec<HostKernel> {
    vec![
        kernel::<Portable<f32>>(Dtype::F32, "portable"),
        kernel::<Portable<bf16>>(Dtype::Bf16, "portable"),
    ]
}

pub(super) fn sparse_decode() -> HostKernel {
    gathered::kernel::<Portable<bf16>>("portable", gathered::widen)
}

/// As many as the widest vectors have.
const LANES: usize = 16;

struct Portable<E>(PhantomData<E>);

impl<E: Element> Engine for Portable<E> {
    type Element = E;

    fn output(sum: f32) -> E {
        E::narrow(sum)
    }

    #[inline(always)]
    unsafe fn scores<const R: usize>(
        queries: [*const E; R],
        keys: &Rows<E>,
        factor: f32,
        scores: *mut f32,
    ) {
        for index in 0..keys.count {
            let mut sums = [[0f32; LANES]; R];
            let mut rest = [0f32; R];
            // SAFETY: the caller's promise.
            unsafe {
                let key = keys.start.add(index * keys.stride);
                let whole = keys.length / LANES * LANES;
                for at in (0..whole).step_by(LANES) {
                    let key: [f32; LANES] =
                        std::array::from_fn(|lane| (*key.add(at + lane)).wide());
                    for (sums, query) in sums.iter_mut().zip(&queries) {
                        for (lane, sum) in sums.iter_mut().enumerate() {
                            *sum += key[lane] * (*query.add(at + lane)).wide();
                        }
                    }
                }
                for at in whole..keys.length {
                    for (rest, query) in rest.iter_mut().zip(&queries) {
                        *rest += (*key.add(at)).wide() * (*query.add(at)).wide();
                    }
                }
                for row in 0..R {
                    let score = factor * (sum_of(&sums[row]) + rest[row]);
                    scores.add(row * KEYS + index).write(score);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn weigh(
        scores: *mut f32,
        seen: Range<usize>,
        count: usize,
        softmax: &mut Softmax,
    ) -> f32 {
        // SAFETY: the caller's promise.
        let row = unsafe { std::slice::from_raw_parts_mut(scores, count) };
        row[..seen.start].fill(0.0);
        row[seen.end..].fill(0.0);
        let row = &mut row[seen];
        let max = row.iter().fold(softmax.max, |max, &score| max.max(score));
        let correction = exp2(softmax.max - max);
        let mut sums = [0f32; LANES];
        for chunk in row.chunks_mut(LANES) {
            for (score, sum) in chunk.iter_mut().zip(&mut sums) {
                *score = exp2(*score - max);
                *sum += *score;
            }
        }
        *softmax = Softmax { max, sum: softmax.sum * correction + sum_of(&sums) };
        correction
    }

    #[inline(always)]
    unsafe fn accumulate<const R: usize>(
        corrections: [f32; R],
        weights: *const f32,
        values: &Rows<E>,
        sums: *mut f32,
        stride: usize,
    ) {
        for panel in (0..values.length).step_by(LANES) {
            let width = LANES.min(values.length - panel);
            // SAFETY: the caller's promise; a panel is a part of a whole one of COLUMNS.
            unsafe {
                let mut made = [[0f32; LANES]; R];
                for (row, made) in made.iter_mut().enumerate() {
                    let before = sums.add(row * stride + panel).cast::<[f32; LANES]>().read();
                    *made = before.map(|sum| sum * corrections[row]);
                }
                for index in 0..values.count {
                    let value = values.start.add(index * values.stride + panel);
                    let value: [f32; LANES] = if width == LANES {
                        std::array::from_fn(|lane| (*value.add(lane)).wide())
                    } else {
                        std::array::from_fn(|lane| {
                            if lane < width { (*value.add(lane)).wide() } else { 0.0 }
                        })
                    };
                    for (row, made) in made.iter_mut().enumerate() {
                        let weight = *weights.add(row * KEYS + index);
                        for (made, value) in made.iter_mut().zip(&value) {
                            *made += weight * value;
                        }
                    }
                }
                for (row, made) in made.iter().enumerate() {
                    sums.add(row * stride + panel).cast::<[f32; LANES]>().write(*made);
                }
            }
        }
    }
}

const _: () = assert!(COLUMNS.is_multiple_of(LANES) && KEYS.is_multiple_of(LANES));

#[inline(always)]
fn sum_of(lanes: &[f32; LANES]) -> f32 {
    let mut sums = *lanes;
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}

/// 2^x for x that is not positive, off by less than 2.5e-7 of itself; 0 below 2^-125, without a
/// branch.
#[inline(always)]
fn exp2(x: f32) -> f32 {
    /// 1.5 x 2^23: added, it leaves the nearest integer in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    let within = x.max(-125.0);
    let rounded = within + ROUND;
    let rest = within - (rounded - ROUND);
    let [c0, c1, c2, c3, c4, c5] = EXP2;
    let power = c0 + rest * (c1 + rest * (c2 + rest * (c3 + rest * (c4 + rest * c5))));
    let scaled = f32::from_bits(power.to_bits().wrapping_add(rounded.to_bits() << 23));
    if x < -125.0 { 0.0 } else { scaled }
}

#[cfg(test)]
mod tests {
    #[test]
    fn exp2_is_within_its_error() {
        super::super::engine::check_exp2(super::exp2);
    }
}
