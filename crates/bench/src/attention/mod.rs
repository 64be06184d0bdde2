//! The operation `attention`, forward, on random data.
//!
//! The kernels of a point are those the device lists under `attention/<kind>/<element
//! type>/<dimensions>`, under the same without dimensions, and under `attention/<element type>`.
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
//! be off by 2^-21; and all of these come twice, above and below the fraction. Weights of 16 or 8
//! bits, which a matrix unit takes, are off by w each, which adds up like a random walk: 8 w times
//! `sqrt(sum p^2 v^2)`, at most w. Before they are divided by their sum S the largest weight is 1,
//! and small ones are off by half of the smallest number, s: that adds `8 s / S sqrt(sum v^2)`. The
//! last rounding adds w of the element.
//!
//! Prefill of 8-bit floats is multiplied by matrix units that align 32 products and the sum so far
//! to the largest of them and cut each 13 binary places below it (`bench::element`). A roundoff u =
//! 2^-13 is then relative to the largest product or partial sum, which is far less than all
//! products together, and `sum |q k|` and `sum p |v|` above are replaced by it. Errors of scores
//! are independent from key to key, and what they have in common cancels: they add up like a random
//! walk too, 2 e times `sqrt(sum p^2 v^2) + |o| sqrt(sum p^2)` where no score is off by more than
//! e. A test makes such sums bit by bit: their errors are 13 to 70 % of what is
//! allowed.
//!
//! Of random data a few keys among a hundred thousand are within all that. So before random data
//! stand in Q, K and V, others do once of which every block of keys shows: see `planted.rs`.

pub(crate) mod operands;
pub(crate) mod planted;
pub(crate) mod reference;
pub mod schedule;

use super::{Prepared, Rank, Unready, Workload, element::E4m3, filled};
use fizeau_device::{Buffer, Device, DeviceError, Function, Launch};
use fizeau_domain::{
    case::{AttentionKind, AttentionPoint, Case, KernelName, Mask, Point},
    dtype::Dtype,
    kernel::{AttentionParams, AttentionPart, AttentionSequence, Operation},
    outcome::Check,
    suite::Suite,
    units::Bytes,
};
use half::{bf16, f16};
use operands::{Element, Operands, Output, Places};
use planted::Planted;
use reference::Reference;
use schedule::{Schedule, Workers};

/// Scratch memory of the host's kernels is never more: they split the keys into as few parts as
/// fit.
const SCRATCH_MAX: u64 = 64 << 20;

/// The cases of a suite: every kernel the device has for a point.
pub fn cases(suite: &Suite, rank: Rank<'_>) -> Vec<Case> {
    let of = |point: &AttentionPoint| {
        let mut kernels: Vec<KernelName> = Vec::new();
        for kernel in operations(point).iter().flat_map(|&operation| rank.device.kernels(operation))
        {
            if !kernels.contains(&kernel) {
                kernels.push(kernel);
            }
        }
        let point = Point::Attention(*point);
        kernels.into_iter().map(move |kernel| Case { kernel, point })
    };
    suite.attention.iter().flat_map(of).collect()
}

/// Makes a case ready.
pub fn prepare<'r>(point: &AttentionPoint, kernel: &KernelName, rank: Rank<'r>) -> Prepared<'r> {
    refuse_impossible(point)?;
    match (point.dtype, point.queries_dtype()) {
        (Dtype::F32, _) => Ok(Box::new(made::<f32, f32, f32>(point, kernel, rank)?)),
        (Dtype::F16, _) => Ok(Box::new(made::<f16, f16, f16>(point, kernel, rank)?)),
        (Dtype::Bf16, _) => Ok(Box::new(made::<bf16, bf16, bf16>(point, kernel, rank)?)),
        (Dtype::Fp8, Dtype::Bf16) => Ok(Box::new(made::<bf16, E4m3, bf16>(point, kernel, rank)?)),
        (Dtype::Fp8, _) => Ok(Box::new(made::<E4m3, E4m3, bf16>(point, kernel, rank)?)),
        (other, _) => {
            Err(Unready::Unsupported(format!("no data is made for attention of {other}")))
        }
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
    if point.page == Some(0) {
        return refuse("a page of no tokens holds nothing");
    }
    Ok(())
}

/// Memory beside operands and result: what is worked in, and contents before they are written.
pub(super) fn beside(point: &AttentionPoint) -> Bytes {
    Bytes(SCRATCH_MAX) + planted::memory(point)
}

/// Under which names a device lists the kernels of a point: made for its very dimensions, for its
/// kind, for any.
fn operations(point: &AttentionPoint) -> [Operation; 3] {
    let AttentionPoint { attention, dtype, dim_qk, dim_v, .. } = *point;
    let of = |kind, dims| Operation::Attention { kind, dtype, dims };
    [of(Some(attention), Some([dim_qk, dim_v])), of(Some(attention), None), of(None, None)]
}

/// Attention made ready.
struct Attention<'r, O> {
    device: &'r dyn Device,
    function: Function,
    params: AttentionParams,
    output: Buffer,
    /// Operands, tables and scratch memory: only the device looks into them.
    held: Vec<Buffer>,
    reference: Reference,
    /// What came of the planted contents.
    planted: Check,
    elements: std::marker::PhantomData<O>,
}

/// Memory of the device with a table.
fn table<T: bytemuck::NoUninit>(device: &dyn Device, rows: &[T]) -> Result<Buffer, DeviceError> {
    let bytes = bytemuck::cast_slice(rows);
    let buffer = device.allocate(Bytes(bytes.len() as u64))?;
    device.write(&buffer, Bytes(0), bytes)?;
    Ok(buffer)
}

fn made<'r, Q: Element, C: Element, O: Output>(
    point: &AttentionPoint,
    kernel: &KernelName,
    rank: Rank<'r>,
) -> Result<Attention<'r, O>, Unready> {
    let device = rank.device;
    let listed = |operation: &&Operation| device.kernels(**operation).contains(kernel);
    let names = operations(point);
    let function = device.load(*names.iter().find(listed).unwrap_or(&names[2]), kernel)?;
    let operands = Operands::<Q, C>::random(point, 1.0);
    let places = &operands.places;
    let [q, k, v, _] = operands::lengths(point, places);
    let reference = Reference::new(point, &operands);
    let units = device.properties().units;
    let workers = Workers::of(units, function.cluster);
    let group = point.heads / point.kv_heads;
    let schedule = Schedule::new(point.mask, &places.sequences, point.kv_heads, group, workers);
    let planted = Planted::new(point, places);
    let q = planted.q::<Q>(q).place(device, q)?;
    let k = planted.k::<C>(k).place(device, k)?;
    let v = planted.v::<C>(v).map(|values| values.place(device, v)).transpose()?;
    let sequences: Vec<AttentionSequence> =
        places.sequences.iter().map(|&sequence| sequence.into()).collect();
    let sequences = table(device, &sequences)?;
    let pages = places.pages.as_ref().map(|pages| table(device, pages)).transpose()?;
    let parts = table(device, &schedule.parts)?;
    let firsts = table(device, &schedule.firsts)?;
    let scratch = device.allocate(scratch_wanted(point, places, &schedule, units))?;
    let output = device.allocate(Bytes((reference.elements * size_of::<O>()) as u64))?;
    let address = |buffer: &Option<Buffer>| buffer.as_ref().map_or(0, |buffer| buffer.address);
    let params = AttentionParams {
        q: q.address,
        k: k.address,
        v: address(&v),
        o: output.address,
        sequences: sequences.address,
        pages: address(&pages),
        parts: parts.address,
        part_firsts: firsts.address,
        scratch: scratch.address,
        scratch_bytes: scratch.size.0,
        workers: workers.count,
        query_tokens: places.query_tokens,
        key_tokens: places.key_tokens,
        ..shape(point)
    };
    let held = vec![sequences, parts, firsts, scratch].into_iter().chain(pages).collect();
    let elements = std::marker::PhantomData;
    let mut attention = Attention {
        device,
        function,
        params,
        output,
        held,
        reference,
        planted: Check::NONE,
        elements,
    };
    attention.poison()?;
    device.timed(&mut || attention.enqueue(1))?;
    attention.planted = planted.check(point, places, &attention.read()?);
    operands.q.replace(device, &q)?;
    operands.k.replace(device, &k)?;
    for (random, planted) in operands.v.iter().zip(&v) {
        random.replace(device, planted)?;
    }
    attention.held.extend([q, k].into_iter().chain(v));
    Ok(attention)
}

/// What the point alone says of the parameters.
fn shape(point: &AttentionPoint) -> AttentionParams {
    let (window, chunk) = match point.mask {
        Mask::Full | Mask::Causal => (0, 0),
        Mask::Window(window) => (window, 0),
        Mask::Chunk(chunk) => (0, chunk),
    };
    AttentionParams {
        batch: point.batch,
        heads: point.heads,
        kv_heads: point.kv_heads,
        queries: point.queries,
        keys: point.keys,
        dim_qk: point.dim_qk,
        dim_v: point.dim_v,
        causal: u32::from(point.mask.is_causal()),
        window,
        chunk,
        dtype: Dtype::ALL.iter().position(|&dtype| dtype == point.dtype).unwrap_or(0) as u32,
        page: point.page.unwrap_or(0),
        scale: reference::scale(point) as f32,
        ..bytemuck::Zeroable::zeroed()
    }
}

/// For kernels that follow the schedule, a part's rows, each with its sums, its largest score and
/// the sum of its weights, and a cache line for the count of those that are done. For those that
/// split the keys themselves, the same for every row of the output and every unit: sums in panels
/// of 64 columns and a cache line for its softmax.
fn scratch_wanted(
    point: &AttentionPoint,
    places: &Places,
    schedule: &Schedule,
    units: u32,
) -> Bytes {
    let columns = u64::from(point.dim_v);
    let slot = u64::from(AttentionPart::ROWS) * (columns + 2) + 16;
    let rows = u64::from(places.query_tokens.max(point.batch * point.queries));
    let rows = rows * u64::from(point.heads);
    let whole = u64::from(units) * rows * (columns.next_multiple_of(64) + 16) * 4;
    Bytes(whole.min(SCRATCH_MAX).max(u64::from(schedule.slots) * slot * 4).max(64))
}

impl<O: Output> Workload for Attention<'_, O> {
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        let blocks = self.device.properties().units;
        let (function, params) = (&self.function, &self.params);
        self.device.launch(&Launch { function, blocks, repeat, params: (*params).into() })
    }

    fn poison(&mut self) -> Result<(), DeviceError> {
        let poison = filled(O::POISON, self.reference.elements)?;
        self.device.write(&self.output, Bytes(0), bytemuck::cast_slice(&poison))
    }

    fn verify(&mut self) -> Result<Check, DeviceError> {
        if !self.planted.passed() {
            return Ok(self.planted);
        }
        Ok(self.reference.check(&self.read()?))
    }
}

impl<O: Output> Attention<'_, O> {
    fn read(&self) -> Result<Vec<O>, DeviceError> {
        let mut output = filled(O::POISON, self.reference.elements)?;
        self.device.read(&self.output, Bytes(0), bytemuck::cast_slice_mut(&mut output))?;
        Ok(output)
    }
}
