//! The step `decode`: attention over selected tokens.
//!
//! It is attention whose pages have one token each, and is checked as such: random contents with
//! the definition in f64 (`attention::reference`), and before them contents whose sums are exact,
//! of which each selected token that weighs shows (`attention::planted`). Rows may be dequantised
//! to bf16, whose rounding is less than what weights of bf16 may be off by.

use super::cache::Tokens;
use crate::{
    Rank, Unready, Workload,
    attention::{
        operands::{Operand, Operands, Places},
        planted::{self, Planted},
        reference::{self, Reference},
    },
    filled,
};
use fizeau_device::{Buffer, Device, DeviceError, Function, Launch};
use fizeau_domain::{
    case::{AttentionKind, AttentionPoint, KernelName, Mask, Sparse, SparseDecode, SparsePoint},
    dtype::Dtype,
    kernel::{Operation, SparseDecodeParams},
    outcome::Check,
    units::Bytes,
};
use half::bf16;

/// The same as attention.
fn attention(point: &SparseDecode) -> AttentionPoint {
    let SparseDecode { batch, heads, selected, .. } = *point;
    let shape = [batch, heads, 1, 1, selected, SparseDecode::KEY, SparseDecode::LATENT];
    let plain = AttentionPoint::new(AttentionKind::Mla, Dtype::Fp8, shape, Mask::Full);
    AttentionPoint { page: Some(1), ..plain }
}

/// Memory of its arrays on the device, and of the tokens that the cache repeats.
pub(super) fn memory(point: &SparseDecode) -> Bytes {
    let step = SparsePoint::Decode(*point);
    point.cache() + step.work().memory + step.written() + planted::memory(&attention(point)) * 3
}

/// Queries, and the tokens that a cache repeats.
struct Contents {
    queries: Operand<bf16>,
    tokens: Tokens,
}

/// A point made ready.
pub(super) struct Decode<'d> {
    pub device: &'d dyn Device,
    function: Function,
    pub params: SparseDecodeParams,
    point: SparseDecode,
    /// Where the selected tokens stand, as pages of one token.
    places: Places,
    queries: Buffer,
    pub cache: Buffer,
    #[cfg_attr(not(test), expect(dead_code, reason = "keeps the memory that kernels read"))]
    pub indices: Buffer,
    pub output: Buffer,
    exact: Contents,
    random: Contents,
    planted: Planted,
    reference: Reference,
    /// What came of the exact contents.
    found: Check,
}

impl<'d> Decode<'d> {
    pub fn new(
        point: &SparseDecode,
        kernel: &KernelName,
        rank: Rank<'d>,
    ) -> Result<Decode<'d>, Unready> {
        let mut decode = Decode::with_exact(point, kernel, rank)?;
        decode.poison()?;
        decode.device.timed(&mut || decode.launch(1))?;
        decode.found = decode.check_exact()?;
        decode.lay_random()?;
        Ok(decode)
    }

    /// With the contents whose sums are exact.
    pub fn with_exact(
        point: &SparseDecode,
        kernel: &KernelName,
        rank: Rank<'d>,
    ) -> Result<Decode<'d>, Unready> {
        let device = rank.device;
        let function = device.load(Operation::Sparse(Sparse::Decode), kernel)?;
        let same = attention(point);
        let seed = u128::from(point.context) << 64 | u128::from(point.selected);
        let mut random = oorandom::Rand64::new(seed);
        let places = selected(point, &same, &mut random);
        let length = u64::from(point.batch) * u64::from(point.heads) * u64::from(same.dim_qk);
        let planted = Planted::new(&same, &places);
        let exact = Contents {
            queries: planted.q(length),
            tokens: Tokens::exact(&planted.tokens(), &mut random),
        };
        let queries = Operand::random(length, 1.0, &mut random);
        let tokens = Tokens::random(&mut random);
        let operands = Operands { q: queries, k: tokens.keys(), v: None, places };
        let reference = Reference::new(&same, &operands);
        let Operands { q: queries, places, .. } = operands;
        let random = Contents { queries, tokens };
        let pages = places.pages.as_deref().unwrap_or_default();
        let indices = device.allocate(Bytes(4 * pages.len() as u64))?;
        device.write(&indices, Bytes(0), bytemuck::cast_slice(pages))?;
        let queries = device.allocate(Bytes(2 * length))?;
        let cache = device.allocate(point.cache())?;
        let output = device.allocate(point.written())?;
        let params = SparseDecodeParams {
            queries: queries.address,
            cache: cache.address,
            indices: indices.address,
            output: output.address,
            batch: point.batch,
            heads: point.heads,
            selected: point.selected,
            scale: reference::scale(&same) as f32,
        };
        device.takes(&function, &params.into())?;
        let (point, found) = (*point, Check::NONE);
        let decode = Decode {
            device,
            function,
            params,
            point,
            places,
            queries,
            cache,
            indices,
            output,
            exact,
            random,
            planted,
            reference,
            found,
        };
        decode.lay(&decode.exact)?;
        Ok(decode)
    }

    /// Lays the random contents in the place of the others.
    pub fn lay_random(&self) -> Result<(), DeviceError> {
        self.lay(&self.random)
    }

    fn lay(&self, contents: &Contents) -> Result<(), DeviceError> {
        contents.queries.replace(self.device, &self.queries)?;
        let words: Vec<u64> = contents.tokens.bytes.chunks_exact(8).map(word).collect();
        self.device.fill(&self.cache, Bytes(0), &words, self.cache.size.0 / 8)
    }

    pub fn launch(&self, repeat: u32) -> Result<(), DeviceError> {
        let blocks = self.device.properties().units;
        let (function, params) = (&self.function, self.params.into());
        self.device.launch(&Launch { function, blocks, repeat, params })
    }

    /// Compares what came of the exact contents.
    pub fn check_exact(&self) -> Result<Check, DeviceError> {
        let output = self.read()?;
        Ok(self.planted.check(&attention(&self.point), &self.places, &output))
    }

    /// Compares what came of the random ones.
    pub fn check_random(&self) -> Result<Check, DeviceError> {
        Ok(self.reference.check(&self.read()?))
    }

    fn read(&self) -> Result<Vec<bf16>, DeviceError> {
        let mut output = filled(bf16::NAN, self.reference.elements)?;
        self.device.read(&self.output, Bytes(0), bytemuck::cast_slice_mut(&mut output))?;
        Ok(output)
    }
}

/// A word of the cache.
fn word(bytes: &[u8]) -> u64 {
    bytemuck::pod_read_unaligned(bytes)
}

/// Draws the tokens of each sequence's context that it attends over, in random order.
fn selected(point: &SparseDecode, same: &AttentionPoint, random: &mut oorandom::Rand64) -> Places {
    let SparseDecode { batch, selected, context, .. } = *point;
    let mut order: Vec<u32> = (0..context).collect();
    let mut pages = Vec::new();
    for sequence in 0..batch {
        // The beginning of a shuffle (Fisher and Yates).
        for at in 0..selected as usize {
            let other = random.rand_range(at as u64..u64::from(context)) as usize;
            order.swap(at, other);
        }
        let drawn = order[..selected as usize].iter();
        pages.extend(drawn.map(|token| sequence * context + token));
    }
    Places {
        sequences: same.sequences(),
        pages: Some(pages),
        page: 1,
        query_tokens: batch,
        key_tokens: batch * context,
    }
}

impl Workload for Decode<'_> {
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        self.launch(repeat)
    }

    /// All bits set: no number.
    fn poison(&mut self) -> Result<(), DeviceError> {
        self.device.fill(&self.output, Bytes(0), &[u64::MAX], self.output.size.0 / 8)
    }

    fn verify(&mut self) -> Result<Check, DeviceError> {
        if !self.found.passed() {
            return Ok(self.found);
        }
        self.check_random()
    }
}
