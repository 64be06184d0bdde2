//! The operation `attention`, forward, on random data.
//!
//! The kernels of an element type are those the device lists under `attention/<element type>`.
//!
//! # How attention is checked
//!
//! Rows of the output (one sequence, query and head each) are compared with the definition in
//! `f64`: all of them where that is little work, else a sample of at least 64 with the first and
//! last among them. Of every other row each element has to be a number no larger than the largest
//! value, which a weighted mean cannot exceed. The output is filled with NaN before.
//!
//! What rounding may do. With weights p that sum to one, an element is `sum p v`, and an error is
//! set against `sum p |v|`. A score is a dot product of d terms: it is off by at most
//! `d u sum |q k|` times its scale, and by `8 sqrt(d) u` of it where roundings are independent
//! (Higham and Mary, "A new approach to probabilistic rounding error analysis", 2019); the smaller
//! is taken. An error in a score is the same relative error in its weight. The weights are summed,
//! and so are the values, over n keys, which adds `min(n, 8 sqrt(n)) u` each; the exponential may
//! be off by 2^-21; and all of these come twice, above and below the fraction. Weights of 16 bits,
//! which a matrix unit takes, are off by v each, which adds up like a random walk: 8 v times
//! `sqrt(sum p^2 v^2)`, at most v. The last rounding adds v of the element.

use super::{Rank, Unready, Workload};
use crate::{
    case::{AttentionKind, AttentionPoint, Case, KernelName, Mask, Point},
    device::{Buffer, Device, DeviceError, Function, Launch},
    dtype::Dtype,
    kernel::AttentionParams,
    outcome::Check,
    suite::Suite,
    units::Bytes,
};
use bytemuck::Pod;
use half::bf16;

/// Rows compared with the definition where not all are.
const SAMPLED: usize = 64;

/// Multiply-adds of a reference that compares all rows.
const ALL_ROWS_MAX: u64 = 1 << 24;

/// Deviations allowed of a random walk.
const DEVIATIONS: f64 = 8.0;

/// Scratch memory is never more: a kernel splits the keys into as few parts as fit.
const SCRATCH_MAX: u64 = 64 << 20;

/// The cases of a suite: every kernel the device has for an element type.
pub fn cases(suite: &Suite, rank: Rank<'_>) -> Vec<Case> {
    let kernels = |point: &AttentionPoint| rank.device.kernels(&operation(point.dtype));
    let of = |point: &AttentionPoint| {
        let point = *point;
        let case = move |kernel| Case { kernel, point: Point::Attention(point) };
        kernels(&point).into_iter().map(case)
    };
    suite.attention.iter().flat_map(of).collect()
}

/// Makes a case ready.
pub fn prepare<'r>(
    point: &AttentionPoint,
    kernel: &KernelName,
    rank: Rank<'r>,
) -> Result<Box<dyn Workload + 'r>, Unready> {
    refuse_impossible(point)?;
    match point.dtype {
        Dtype::F32 => Ok(Box::new(Attention::<f32>::new(point, kernel, rank)?)),
        Dtype::Bf16 => Ok(Box::new(Attention::<bf16>::new(point, kernel, rank)?)),
        other => Err(Unready::Unsupported(format!("no data is made for attention of {other}"))),
    }
}

fn refuse_impossible(point: &AttentionPoint) -> Result<(), Unready> {
    let AttentionPoint { batch, heads, kv_heads, queries, keys, dim_qk, dim_v, .. } = *point;
    let refuse = |why: &str| Err(Unready::Unsupported(why.into()));
    if [batch, heads, kv_heads, queries, keys, dim_qk, dim_v].contains(&0) {
        return refuse("a length of zero leaves nothing to do");
    }
    if heads % kv_heads != 0 {
        return refuse("query heads are no multiple of key and value heads");
    }
    if point.attention == AttentionKind::Mla && dim_v > dim_qk {
        return refuse("latent values are a part of their keys, and cannot be longer");
    }
    Ok(())
}

/// Under which name a device lists the kernels of an element type.
fn operation(dtype: Dtype) -> String {
    format!("attention/{dtype}")
}

/// An element type, with what data and checks need to know of it.
trait Element: Pod {
    /// What stands in O before it is written.
    const POISON: Self;
    /// Unit roundoff of a weight and of the output, where narrower than the sums.
    const ROUNDOFF: f64;
    fn of(value: f64) -> Self;
    fn value(self) -> f64;
}

impl Element for f32 {
    const POISON: f32 = f32::NAN;
    const ROUNDOFF: f64 = 0.0;
    fn of(value: f64) -> f32 {
        value as f32
    }
    fn value(self) -> f64 {
        f64::from(self)
    }
}

impl Element for bf16 {
    const POISON: bf16 = bf16::NAN;
    /// 2^-8: half a unit in the last of 8 binary places.
    const ROUNDOFF: f64 = 1.0 / 256.0;
    fn of(value: f64) -> bf16 {
        bf16::from_f64(value)
    }
    fn value(self) -> f64 {
        self.to_f64()
    }
}

/// Unit roundoff of the sums.
const SUM_ROUNDOFF: f64 = f32::EPSILON as f64 / 2.0;

/// Error allowed in an exponential, relative to it.
const EXP_ERROR: f64 = 1.0 / (1u64 << 21) as f64;

/// Near normal with a variance of one (Irwin and Hall: the sum of four uniform values).
fn near_normal(random: &mut oorandom::Rand64) -> f64 {
    let halves = |bits: u64| (bits >> 32) + (bits & u64::from(u32::MAX));
    let sum = halves(random.rand_u64()) + halves(random.rand_u64());
    (sum as f64 / (1u64 << 32) as f64 - 2.0) * 3f64.sqrt()
}

/// Attention made ready.
struct Attention<'r, E> {
    device: &'r dyn Device,
    function: Function,
    params: AttentionParams,
    output: Buffer,
    /// Operands: only the device looks into them.
    _operands: Vec<Buffer>,
    reference: Reference,
    elements: std::marker::PhantomData<E>,
}

impl<'r, E: Element> Attention<'r, E> {
    fn new(point: &AttentionPoint, kernel: &KernelName, rank: Rank<'r>) -> Result<Self, Unready> {
        let device = rank.device;
        let function = device.load(&operation(point.dtype), kernel)?;
        let operands = Operands::<E>::random(point, 1.0);
        let place = |elements: &[E]| -> Result<Buffer, DeviceError> {
            let bytes = bytemuck::cast_slice(elements);
            let buffer = device.allocate(Bytes(bytes.len() as u64))?;
            device.write(&buffer, Bytes(0), bytes)?;
            Ok(buffer)
        };
        let [q, k] = [place(&operands.q)?, place(&operands.k)?];
        let v = operands.v.as_deref().map(place).transpose()?;
        let reference = Reference::new(point, &operands);
        let output = device.allocate(Bytes((reference.elements * size_of::<E>()) as u64))?;
        let scratch = device.allocate(scratch_wanted(point, device.properties().units))?;
        let params = AttentionParams {
            q: q.address,
            k: k.address,
            v: v.as_ref().map_or(0, |v| v.address),
            o: output.address,
            batch: point.batch,
            heads: point.heads,
            kv_heads: point.kv_heads,
            queries: point.queries,
            keys: point.keys,
            dim_qk: point.dim_qk,
            dim_v: point.dim_v,
            causal: u32::from(point.mask == Mask::Causal),
            dtype: Dtype::ALL.iter().position(|&dtype| dtype == point.dtype).unwrap_or(0) as u32,
            scale: scale(point) as f32,
            scratch: scratch.address,
            scratch_bytes: scratch.size.0,
        };
        let operands = [q, k, scratch].into_iter().chain(v).collect();
        let elements = std::marker::PhantomData;
        Ok(Attention { device, function, params, output, _operands: operands, reference, elements })
    }
}

/// For every row of the output and every unit, a part of its keys: sums in panels of 64 columns
/// and a cache line for its softmax.
fn scratch_wanted(point: &AttentionPoint, units: u32) -> Bytes {
    let rows = [point.batch, point.heads, point.queries].map(u64::from).iter().product::<u64>();
    let words = u64::from(point.dim_v).next_multiple_of(64) + 16;
    Bytes((u64::from(units) * rows * words * 4).min(SCRATCH_MAX))
}

/// The usual one: scores of random data have a variance of one.
fn scale(point: &AttentionPoint) -> f64 {
    1.0 / f64::from(point.dim_qk).sqrt()
}

impl<E: Element> Workload for Attention<'_, E> {
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        let blocks = self.device.properties().units;
        let (function, params) = (&self.function, &self.params);
        self.device.launch(&Launch { function, blocks, repeat, params })
    }

    fn poison(&mut self) -> Result<(), DeviceError> {
        let poison = vec![E::POISON; self.reference.elements];
        self.device.write(&self.output, Bytes(0), bytemuck::cast_slice(&poison))
    }

    fn verify(&mut self) -> Result<Check, DeviceError> {
        let mut output = vec![E::POISON; self.reference.elements];
        self.device.read(&self.output, Bytes(0), bytemuck::cast_slice_mut(&mut output))?;
        Ok(self.reference.check(&output))
    }
}

/// Q, K and V in the layouts of [`AttentionParams`].
struct Operands<E> {
    q: Vec<E>,
    k: Vec<E>,
    /// None where they are a part of the keys.
    v: Option<Vec<E>>,
}

impl<E: Element> Operands<E> {
    /// Near normal; queries `spread` times as large.
    fn random(point: &AttentionPoint, spread: f64) -> Operands<E> {
        let seed = u128::from(point.keys) << 64 | u128::from(point.queries);
        let mut random = oorandom::Rand64::new(seed);
        let mut make = |factors: [u32; 4], spread: f64| -> Vec<E> {
            let length = factors.iter().map(|&factor| factor as usize).product();
            (0..length).map(|_| E::of(near_normal(&mut random) * spread)).collect()
        };
        let AttentionPoint { batch, heads, kv_heads, queries, keys, dim_qk, dim_v, .. } = *point;
        let q = make([batch, queries, heads, dim_qk], spread);
        let k = make([batch, keys, kv_heads, dim_qk], 1.0);
        let v = match point.attention {
            AttentionKind::Mla => None,
            AttentionKind::Prefill | AttentionKind::Decode => {
                Some(make([batch, keys, kv_heads, dim_v], 1.0))
            }
        };
        Operands { q, k, v }
    }
}

/// What right attention is known by; see the module's text.
struct Reference {
    /// Of the whole output.
    elements: usize,
    /// Elements of one row of it.
    dim_v: usize,
    rows: Vec<Row>,
    /// No element is larger in magnitude.
    largest: f64,
    /// Error allowed relative to a weighted sum of magnitudes, but for 16-bit weights and output.
    tolerance: f64,
}

/// One row of the output, known by itself.
struct Row {
    at: usize,
    /// Value and error allowed, element by element.
    elements: Vec<(f64, f64)>,
}

impl Reference {
    fn new<E: Element>(point: &AttentionPoint, operands: &Operands<E>) -> Reference {
        let rows = [point.batch, point.queries, point.heads].map(|n| n as usize).iter().product();
        let dim_v = point.dim_v as usize;
        let magnitude = |v: &E| v.value().abs();
        let values = operands.v.as_ref().unwrap_or(&operands.k);
        let largest = values.iter().map(magnitude).fold(0.0, f64::max);
        let sampled = sample(point, rows);
        let rows_known: Vec<(Row, f64)> =
            sampled.into_iter().map(|at| row::<E>(point, operands, at)).collect();
        let tolerance = rows_known.iter().map(|(_, tolerance)| *tolerance).fold(0.0, f64::max);
        let rows_known = rows_known.into_iter().map(|(row, _)| row).collect();
        Reference { elements: rows * dim_v, dim_v, rows: rows_known, largest, tolerance }
    }

    fn check<E: Element>(&self, output: &[E]) -> Check {
        let limit = self.largest * (1.0 + self.tolerance + E::ROUNDOFF);
        let beyond = |value: &&E| is_beyond(value.value().abs(), limit);
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
fn is_beyond(value: f64, limit: f64) -> bool {
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
fn roundings(terms: f64) -> f64 {
    terms.min(DEVIATIONS * terms.sqrt()) * SUM_ROUNDOFF
}

/// A row of the output by the definition, and its tolerance.
fn row<E: Element>(point: &AttentionPoint, operands: &Operands<E>, at: usize) -> (Row, f64) {
    let [heads, kv_heads, queries, keys] =
        [point.heads, point.kv_heads, point.queries, point.keys].map(|n| n as usize);
    let (dim_qk, dim_v) = (point.dim_qk as usize, point.dim_v as usize);
    let (head, query) = (at % heads, at / heads % queries);
    let (sequence, kv_head) = (at / heads / queries, head / (heads / kv_heads));
    let seen = match point.mask {
        Mask::Full => keys,
        Mask::Causal => (keys + query + 1).saturating_sub(queries),
    };
    let key_row = |key: usize| (sequence * keys + key) * kv_heads + kv_head;
    let value = |key: usize| match &operands.v {
        Some(v) => &v[key_row(key) * dim_v..][..dim_v],
        None => &operands.k[key_row(key) * dim_qk..][..dim_v],
    };
    let q: Vec<f64> = operands.q[at * dim_qk..][..dim_qk].iter().map(|q| q.value()).collect();
    let mut magnitude = 0f64;
    let mut weights: Vec<f64> = Vec::with_capacity(seen);
    for key in 0..seen {
        let k = &operands.k[key_row(key) * dim_qk..][..dim_qk];
        let (mut score, mut terms) = (0.0, 0.0);
        for (q, k) in q.iter().zip(k) {
            let term = q * k.value();
            score += term;
            terms += term.abs();
        }
        weights.push(score * scale(point));
        magnitude = magnitude.max(terms * scale(point));
    }
    let max = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    weights.iter_mut().for_each(|weight| *weight = (*weight - max).exp());
    let total: f64 = weights.iter().sum();
    // (sum p v, sum p |v|, sum p^2 v^2)
    let mut sums = vec![(0f64, 0f64, 0f64); dim_v];
    for (key, weight) in weights.iter().enumerate() {
        let weight = weight / total;
        for (sum, v) in sums.iter_mut().zip(value(key)) {
            let term = weight * v.value();
            *sum = (sum.0 + term, sum.1 + term.abs(), sum.2 + term * term);
        }
    }
    // The scale and the change of base are two more roundings of a score.
    let of_scores = (roundings(dim_qk as f64) + 3.0 * SUM_ROUNDOFF) * magnitude;
    let tolerance = 2.0 * (of_scores + EXP_ERROR + roundings(keys as f64));
    let element = |(value, magnitude, squares): (f64, f64, f64)| {
        let of_weights = E::ROUNDOFF * magnitude.min(DEVIATIONS * squares.sqrt());
        (value, tolerance * magnitude + of_weights + E::ROUNDOFF * value.abs())
    };
    (Row { at, elements: sums.into_iter().map(element).collect() }, tolerance)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn point(attention: AttentionKind, dtype: Dtype) -> AttentionPoint {
        let (heads, kv_heads, mask) = (4, 2, Mask::Causal);
        let [batch, queries, keys, dim_qk, dim_v] = [2, 5, 70, 24, 16];
        AttentionPoint {
            attention,
            dtype,
            batch,
            heads,
            kv_heads,
            queries,
            keys,
            dim_qk,
            dim_v,
            mask,
        }
    }

    /// A reference and the right output for it.
    fn made<E: Element>(attention: AttentionKind, dtype: Dtype) -> (Reference, Vec<E>) {
        let point = point(attention, dtype);
        let reference = Reference::new(&point, &Operands::<E>::random(&point, 3.0));
        let elements = reference.rows.iter().flat_map(|row| &row.elements);
        let output = elements.map(|&(value, _)| E::of(value)).collect();
        (reference, output)
    }

    #[test]
    fn right_attention_passes() {
        for attention in [AttentionKind::Prefill, AttentionKind::Mla] {
            let (reference, output) = made::<f32>(attention, Dtype::F32);
            assert!(reference.check(&output).passed());
            assert_eq!(reference.check(&output).compared, 2 * 5 * 4 * 16);
            let (reference, output) = made::<bf16>(attention, Dtype::Bf16);
            assert!(reference.check(&output).passed());
        }
    }

    /// One query, two keys, by hand: weights 3/4 and 1/4.
    #[test]
    fn the_definition_is_the_definition() {
        let (attention, dtype, mask) = (AttentionKind::Decode, Dtype::F32, Mask::Full);
        let [batch, heads, kv_heads, queries, keys, dim_qk, dim_v] = [1, 1, 1, 1, 2, 1, 2];
        let point = AttentionPoint {
            attention,
            dtype,
            batch,
            heads,
            kv_heads,
            queries,
            keys,
            dim_qk,
            dim_v,
            mask,
        };
        let (q, k, v) = (vec![1.0], vec![3f32.ln(), 0.0], vec![4.0, 0.0, 8.0, -4.0]);
        let (row, _) = row::<f32>(&point, &Operands { q, k, v: Some(v) }, 0);
        assert!((row.elements[0].0 - 5.0).abs() < 1e-6);
        assert!((row.elements[1].0 + 1.0).abs() < 1e-6);
    }

    proptest! {
        #[test]
        fn one_wrong_element_is_found(at in 0usize..2 * 5 * 4 * 16) {
            let (reference, mut output) = made::<f32>(AttentionKind::Prefill, Dtype::F32);
            output[at] += 1e-3;
            prop_assert!(!reference.check(&output).passed());
            output[at] = f32::NAN;
            prop_assert!(!reference.check(&output).passed());
            let (reference, mut output) = made::<bf16>(AttentionKind::Mla, Dtype::Bf16);
            output[at] = bf16::from_f64(output[at].to_f64() + 0.1);
            prop_assert!(!reference.check(&output).passed());
            output[at] = bf16::INFINITY;
            prop_assert!(!reference.check(&output).passed());
        }
    }

    /// What a kernel gets wrong that leaves out the last block of keys.
    #[test]
    fn a_key_left_out_is_found() {
        let point = AttentionPoint {
            mask: Mask::Full,
            keys: 4096,
            ..point(AttentionKind::Decode, Dtype::Bf16)
        };
        let operands = Operands::<bf16>::random(&point, 1.0);
        let short = AttentionPoint { keys: 4095, batch: 1, ..point };
        let whole = Reference::new(&AttentionPoint { batch: 1, ..point }, &operands);
        let mut less = operands;
        less.k.truncate(4095 * 2 * 24);
        less.v.as_mut().expect("they are there").truncate(4095 * 2 * 16);
        let elements = Reference::new(&short, &less);
        let output: Vec<f32> = elements
            .rows
            .iter()
            .flat_map(|row| &row.elements)
            .map(|element| element.0 as f32)
            .collect();
        let exact: Vec<f32> = whole
            .rows
            .iter()
            .flat_map(|row| &row.elements)
            .map(|element| element.0 as f32)
            .collect();
        assert!(whole.check(&exact).passed());
        assert!(!whole.check(&output).passed());
    }
}
