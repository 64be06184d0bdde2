//! Attention by its definition in `f64`, and what rounding may do to it; see the text of
//! [`super`].

use super::operands::{Element, Operands, Roundoff};
use fizeau_domain::{case::AttentionPoint, outcome::Check};

/// Rows compared with the definition where not all are.
const SAMPLED: usize = 64;

/// Multiply-adds of a reference that compares all rows.
const ALL_ROWS_MAX: u64 = 1 << 24;

/// Deviations allowed of a random walk.
const DEVIATIONS: f64 = 8.0;

/// Error allowed in an exponential, relative to it: that of NVIDIA's `ex2.approx`, 2^-22.5 (PTX
/// manual), and of the subtraction before it.
const EXP_ERROR: f64 = 1.0 / (1u64 << 21) as f64;

/// What right attention is known by.
pub(crate) struct Reference {
    /// Of the whole output.
    pub elements: usize,
    /// Elements of one row of it.
    dim_v: usize,
    pub rows: Vec<OutputRow>,
    /// No element is larger in magnitude.
    largest: f64,
    /// Largest error allowed relative to a weighted sum of magnitudes, but for narrow weights and
    /// output.
    tolerance: f64,
    roundoff: Roundoff,
}

/// One row of the output, known by itself.
pub(crate) struct OutputRow {
    pub at: usize,
    /// Value and error allowed, element by element.
    pub elements: Vec<(f64, f64)>,
}

impl Reference {
    pub fn new<Q: Element, C: Element>(
        point: &AttentionPoint,
        operands: &Operands<Q, C>,
    ) -> Reference {
        let rows = operands.places.query_tokens as usize * point.heads as usize;
        let dim_v = point.dim_v as usize;
        let largest = operands.v.as_ref().unwrap_or(&operands.k).largest();
        let roundoff = Roundoff::of(point);
        let sampled = sample(point, rows);
        let known: Vec<(OutputRow, f64)> =
            sampled.into_iter().map(|at| row(point, operands, roundoff, at)).collect();
        let tolerance = known.iter().map(|(_, tolerance)| *tolerance).fold(0.0, f64::max);
        let known = known.into_iter().map(|(row, _)| row).collect();
        Reference { elements: rows * dim_v, dim_v, rows: known, largest, tolerance, roundoff }
    }

    pub fn check<O: Element>(&self, output: &[O]) -> Check {
        let roundoff = self.roundoff.output.max(self.roundoff.weights);
        let limit = self.largest * (1.0 + self.tolerance + 2.0 * roundoff);
        let beyond = |value: &&O| is_beyond(value.value().abs(), limit);
        let mut wrong = output.iter().filter(beyond).count() as u64;
        let mut worst = if wrong > 0 { f64::INFINITY } else { 0f64 };
        let mut compared = 0;
        for row in &self.rows {
            let found = &output[row.at * self.dim_v..][..self.dim_v];
            for (found, &(expected, allowed)) in found.iter().zip(&row.elements) {
                let error = (found.value() - expected).abs();
                compared += 1;
                wrong += u64::from(is_beyond(error, allowed));
                let share = if error > 0.0 { error / allowed * self.tolerance } else { error };
                worst = if share.is_nan() { f64::INFINITY } else { worst.max(share) };
            }
        }
        Check { error: worst, tolerance: self.tolerance, compared, wrong }
    }
}

/// Whether a value is above a limit, or no number at all.
pub(crate) fn is_beyond(value: f64, limit: f64) -> bool {
    value.is_nan() || value > limit
}

/// Which rows are compared with the definition.
fn sample(point: &AttentionPoint, rows: usize) -> Vec<usize> {
    let row = u64::from(point.keys) * u64::from(point.dim_qk + point.dim_v);
    if rows <= SAMPLED || rows as u64 * row <= ALL_ROWS_MAX {
        return (0..rows).collect();
    }
    let mut random = oorandom::Rand64::new(rows as u128);
    let drawn = (2..SAMPLED).map(|_| random.rand_range(0..rows as u64) as usize);
    [0, rows - 1].into_iter().chain(drawn).collect()
}

/// The smaller of the bound for certain and the one for independent roundings.
fn roundings(terms: f64, roundoff: f64) -> f64 {
    terms.min(DEVIATIONS * terms.sqrt()) * roundoff
}

/// The usual one: scores of random data have a variance of one.
pub(crate) fn scale(point: &AttentionPoint) -> f64 {
    1.0 / f64::from(point.dim_qk).sqrt()
}

/// A row of the output by the definition, and its tolerance.
fn row<Q: Element, C: Element>(
    point: &AttentionPoint,
    operands: &Operands<Q, C>,
    roundoff: Roundoff,
    at: usize,
) -> (OutputRow, f64) {
    let (heads, kv_heads) = (point.heads as usize, u64::from(point.kv_heads));
    let (dim_qk, dim_v) = (point.dim_qk as usize, point.dim_v as usize);
    let places = &operands.places;
    let (token, head) = ((at / heads) as u32, at % heads);
    let which = places.sequences.partition_point(|one| one.query_first <= token) - 1;
    let sequence = &places.sequences[which];
    let query = token - sequence.query_first;
    let kv_head = (head / (heads / point.kv_heads as usize)) as u64;
    let seen = point.mask.seen(sequence, query);
    let key_row = |key: u32| places.key(sequence, key) * kv_heads + kv_head;
    let q: Vec<f64> = operands.q.values((at * dim_qk) as u64, dim_qk).collect();
    let mut magnitude = 0f64;
    let mut weights: Vec<f64> = Vec::with_capacity(seen.len());
    for key in seen.clone() {
        let (mut score, mut terms, mut largest) = (0f64, 0f64, 0f64);
        for (q, k) in q.iter().zip(operands.k.values(key_row(key) * dim_qk as u64, dim_qk)) {
            let term = q * k;
            score += term;
            terms += term.abs();
            largest = largest.max(term.abs()).max(score.abs());
        }
        weights.push(score * scale(point));
        let relative_to = if roundoff.is_aligned { largest } else { terms };
        magnitude = magnitude.max(relative_to * scale(point));
    }
    let max = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    weights.iter_mut().for_each(|weight| *weight = (*weight - max).exp());
    let total: f64 = weights.iter().sum();
    let mut sums = vec![Sums::default(); dim_v];
    let mut squares = 0.0;
    for (key, weight) in seen.clone().zip(&weights) {
        let weight = weight / total;
        squares += weight * weight;
        let values = match &operands.v {
            Some(v) => v.values(key_row(key) * dim_v as u64, dim_v),
            None => operands.k.values(key_row(key) * dim_qk as u64, dim_v),
        };
        sums.iter_mut().zip(values).for_each(|(sum, v)| sum.add(weight, v));
    }
    // The scale and the change of base are two more roundings of a score.
    let of_scores = (roundings(addends(dim_qk as f64, roundoff), roundoff.sums)
        + 3.0 * roundoff.sums)
        * magnitude;
    let error = |sum: &Sums| match roundoff.is_aligned {
        false => {
            let of_sums = roundings(f64::from(point.keys), roundoff.sums);
            2.0 * (of_scores + EXP_ERROR + of_sums) * sum.magnitude
        }
        true => {
            // Errors of scores are independent from key to key: this many deviations of one are as
            // many of their walk. What they have in common cancels.
            let apart = sum.squares.sqrt() + sum.value.abs() * squares.sqrt();
            let of_scores = of_scores * 2.0 * sum.magnitude.min(apart);
            // A part of the keys is the difference of two sums from the first one on.
            let of_sums = roundings(addends(seen.len() as f64, roundoff), roundoff.sums);
            of_scores + 2.0 * EXP_ERROR * sum.magnitude + of_sums * 2.0 * sum.largest
        }
    };
    let element = |sum: Sums| {
        let of_weights = roundoff.weights * sum.magnitude.min(DEVIATIONS * sum.squares.sqrt())
            + roundoff.weights_least / total.max(1.0) * DEVIATIONS * sum.values.sqrt();
        (sum.value, error(&sum) + of_weights + roundoff.output * sum.value.abs())
    };
    let relative = |sum: &Sums| error(sum) / sum.magnitude.max(f64::MIN_POSITIVE);
    let tolerance = sums.iter().map(relative).fold(0.0, f64::max);
    (OutputRow { at, elements: sums.into_iter().map(element).collect() }, tolerance)
}

/// What is known of an element of the output: sums over the keys.
#[derive(Clone, Default)]
struct Sums {
    /// Of the weighted values: the element itself.
    value: f64,
    /// Of their magnitudes.
    magnitude: f64,
    /// Of their squares.
    squares: f64,
    /// Of the squares of the values alone.
    values: f64,
    /// The largest of the weighted values and of their partial sums.
    largest: f64,
}

impl Sums {
    fn add(&mut self, weight: f64, v: f64) {
        let term = weight * v;
        self.value += term;
        self.magnitude += term.abs();
        self.squares += term * term;
        self.values += v * v;
        self.largest = self.largest.max(term.abs()).max(self.value.abs());
    }
}

/// Addends that are cut in a sum: a matrix unit takes 32 products of 8-bit floats at once, and with
/// them the sum so far.
fn addends(terms: f64, roundoff: Roundoff) -> f64 {
    if roundoff.is_aligned { terms * 33.0 / 32.0 } else { terms }
}

#[cfg(test)]
mod tests {
    use super::super::operands::{Operand, Places};
    use super::*;
    use crate::element::E4m3;
    use fizeau_domain::{
        case::{AttentionKind, Lengths, Mask},
        dtype::Dtype,
    };
    use half::{bf16, f16};
    use proptest::prelude::*;

    fn point(attention: AttentionKind, dtype: Dtype) -> AttentionPoint {
        AttentionPoint::new(attention, dtype, [2, 4, 2, 5, 70, 24, 16], Mask::Causal)
    }

    /// A reference and the right output for it.
    fn made<Q: Element, C: Element, O: Element>(point: &AttentionPoint) -> (Reference, Vec<O>) {
        let reference = Reference::new(point, &Operands::<Q, C>::random(point, 3.0));
        let elements = reference.rows.iter().flat_map(|row| &row.elements);
        let output = elements.map(|&(value, _)| O::of(value)).collect();
        (reference, output)
    }

    #[test]
    fn right_attention_passes() {
        for attention in [AttentionKind::Prefill, AttentionKind::Mla] {
            let (reference, output) = made::<f32, f32, f32>(&point(attention, Dtype::F32));
            assert!(reference.check(&output).passed());
            assert_eq!(reference.check(&output).compared, 2 * 5 * 4 * 16);
            let (reference, output) = made::<bf16, bf16, bf16>(&point(attention, Dtype::Bf16));
            assert!(reference.check(&output).passed());
            let (reference, output) = made::<f16, f16, f16>(&point(attention, Dtype::F16));
            assert!(reference.check(&output).passed());
        }
        let narrow = point(AttentionKind::Prefill, Dtype::Fp8);
        let (reference, output) = made::<E4m3, E4m3, bf16>(&narrow);
        assert!(reference.check(&output).passed());
        let paged = AttentionPoint {
            lengths: Lengths::Ragged,
            page: Some(16),
            ..point(AttentionKind::Decode, Dtype::Fp8)
        };
        let (reference, output) = made::<bf16, E4m3, bf16>(&paged);
        assert!(reference.check(&output).passed());
    }

    /// One query, two keys, by hand: weights 3/4 and 1/4.
    #[test]
    fn the_definition_is_the_definition() {
        let (kind, dtype) = (AttentionKind::Decode, Dtype::F32);
        let point = AttentionPoint::new(kind, dtype, [1, 1, 1, 1, 2, 1, 2], Mask::Full);
        let k = Operand::given(vec![3f32.ln(), 0.0]);
        let v = Some(Operand::given(vec![4.0, 0.0, 8.0, -4.0]));
        let q = Operand::given(vec![1f32]);
        let operands = Operands { q, k, v, places: Places::new(&point) };
        let (row, _) = row(&point, &operands, Roundoff::of(&point), 0);
        assert!((row.elements[0].0 - 5.0).abs() < 1e-6);
        assert!((row.elements[1].0 + 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_query_before_all_keys_is_nothing() {
        let early = AttentionPoint { keys: 3, ..point(AttentionKind::Prefill, Dtype::F32) };
        let (reference, output) = made::<f32, f32, f32>(&early);
        assert!(output[..2 * 4 * 16].iter().all(|&value| value == 0.0));
        assert!(reference.check(&output).passed());
        let mut spoilt = output;
        spoilt[0] = 1e-3;
        assert!(!reference.check(&spoilt).passed());
    }

    proptest! {
        #[test]
        fn one_wrong_element_is_found(at in 0usize..2 * 5 * 4 * 16) {
            let prefill = point(AttentionKind::Prefill, Dtype::F32);
            let (reference, mut output) = made::<f32, f32, f32>(&prefill);
            output[at] += 1e-3;
            prop_assert!(!reference.check(&output).passed());
            output[at] = f32::NAN;
            prop_assert!(!reference.check(&output).passed());
            let mla = point(AttentionKind::Mla, Dtype::Bf16);
            let (reference, mut output) = made::<bf16, bf16, bf16>(&mla);
            output[at] = bf16::from_f64(output[at].to_f64() + 0.1);
            prop_assert!(!reference.check(&output).passed());
            output[at] = bf16::INFINITY;
            prop_assert!(!reference.check(&output).passed());
        }
    }

    /// What a kernel gets wrong that leaves out the last block of keys.
    #[test]
    fn a_key_left_out_is_found() {
        let whole = AttentionPoint {
            mask: Mask::Full,
            keys: 4096,
            batch: 1,
            ..point(AttentionKind::Decode, Dtype::Bf16)
        };
        let mut operands = Operands::<bf16, bf16>::random(&whole, 1.0);
        let short = AttentionPoint { keys: 4095, ..whole };
        let output = |reference: &Reference| -> Vec<f32> {
            let elements = reference.rows.iter().flat_map(|row| &row.elements);
            elements.map(|element| element.0 as f32).collect()
        };
        let reference = Reference::new(&whole, &operands);
        assert!(reference.check(&output(&reference)).passed());
        operands.places = Places::new(&short);
        let less = Reference::new(&short, &operands);
        assert!(!reference.check(&output(&less)).passed());
    }

    /// A sum as matrix units of 8-bit floats make it (`Roundoff::is_aligned`): 32 products at a
    /// time and the sum so far, each cut 13 places below the largest.
    fn cut_sum(terms: &[f64]) -> f64 {
        terms.chunks(32).fold(0.0, |sum: f64, some| {
            let all = || some.iter().copied().chain([sum]);
            let largest = all().map(f64::abs).fold(f64::MIN_POSITIVE, f64::max);
            let last = largest.log2().floor().exp2() / 8192.0;
            all().map(|addend| (addend / last).trunc() * last).sum()
        })
    }

    /// Prefill of 8-bit floats as such units make it: weights of 8 bits, 2^8 times as large.
    fn narrow(point: &AttentionPoint, operands: &Operands<E4m3, E4m3>) -> Vec<bf16> {
        let (dim_qk, dim_v, heads) =
            (point.dim_qk as usize, point.dim_v as usize, point.heads as usize);
        let places = &operands.places;
        let v = operands.v.as_ref().expect("values of their own");
        let rows = places.query_tokens as usize * heads;
        let row = |at: usize| -> Vec<bf16> {
            let (token, head) = ((at / heads) as u32, at % heads);
            let which = places.sequences.partition_point(|one| one.query_first <= token) - 1;
            let sequence = &places.sequences[which];
            let seen = point.mask.seen(sequence, token - sequence.query_first);
            let kv_heads = u64::from(point.kv_heads);
            let kv_head = (head * point.kv_heads as usize / heads) as u64;
            let key_row = |key: u32| places.key(sequence, key) * kv_heads + kv_head;
            let q: Vec<f64> = operands.q.values((at * dim_qk) as u64, dim_qk).collect();
            let scores: Vec<f64> = seen
                .clone()
                .map(|key| {
                    let k = operands.k.values(key_row(key) * dim_qk as u64, dim_qk);
                    let terms: Vec<f64> = q.iter().zip(k).map(|(q, k)| q * k).collect();
                    cut_sum(&terms) * scale(point)
                })
                .collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
            let total: f64 = weights.iter().sum();
            let rounded = |weight: &f64| E4m3::from_f64(weight * 256.0).to_f64() / 256.0;
            let weights: Vec<f64> = weights.iter().map(rounded).collect();
            let element = |at: usize| {
                let terms: Vec<f64> = seen
                    .clone()
                    .zip(&weights)
                    .map(|(key, weight)| {
                        let place = key_row(key) * dim_v as u64 + at as u64;
                        weight * v.values(place, 1).next().unwrap_or(f64::NAN)
                    })
                    .collect();
                bf16::from_f64(cut_sum(&terms) / total)
            };
            (0..dim_v).map(element).collect()
        };
        (0..rows).flat_map(row).collect()
    }

    /// The tolerance of 8-bit prefill is a few times what its arithmetic costs, and no more: what a
    /// wrong row or factor does is beyond it.
    #[test]
    fn narrow_prefill_is_tight() {
        for (queries, keys, mask) in [(24, 24, Mask::Causal), (6, 301, Mask::Full)] {
            let point = AttentionPoint {
                batch: 1,
                heads: 2,
                kv_heads: 2,
                queries,
                keys,
                dim_qk: 128,
                dim_v: 64,
                mask,
                ..point(AttentionKind::Prefill, Dtype::Fp8)
            };
            let operands = Operands::<E4m3, E4m3>::random(&point, 1.0);
            let reference = Reference::new(&point, &operands);
            let output = narrow(&point, &operands);
            let check = reference.check(&output);
            let share = check.error / check.tolerance;
            assert!(check.passed() && (0.1..0.7).contains(&share), "{share} {check:?}");
            assert!(check.tolerance < 0.12, "{check:?}");
            let found = |name: &str, wrong: Vec<bf16>| {
                let check = reference.check(&wrong);
                assert!(check.wrong > 0, "{name}, {keys} keys: {check:?}");
            };
            found("nothing", vec![bf16::ZERO; output.len()]);
            let larger = output.iter().map(|one| bf16::from_f64(one.to_f64() * 1.4));
            found("too large", larger.collect());
            let mut turned = output.clone();
            turned.rotate_left(64);
            found("another head's rows", turned);
        }
    }
}
