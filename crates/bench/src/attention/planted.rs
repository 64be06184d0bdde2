//! Contents of Q, K and V of which every block of keys that is lost, taken twice or found in the
//! wrong place shows, up to some hundred thousand keys. Random ones cannot: among as many each
//! weighs less than what rounding may do.
//!
//! Every query is zero but for its last element, which is [`LARGE`]. The last element of a key is
//! zero, or `-LARGE`: drawn for each, so that a query gives the same weight to about half of the
//! keys it sees and none to the others, whose exponentials are zero in any arithmetic: of those,
//! one that is lost alone does not show. Values are -2, -1, 1 or 2. A row of the output is then a
//! sum of small whole numbers over a count. The sum walks at random for [`CYCLE`] tokens and then
//! repeats: a few tens for each time, some thousands for a hundred thousand keys. Sums kept in
//! f32 are exact; so are those of 14 binary places up to some ten thousand keys, and no suite asks
//! for more where they are used. A weight of one is exact in every type. What is left is the
//! rounding of the output, at most 2^-8 of the sum: less than the difference that a block of 64
//! keys makes in some column, up to half a million keys.
//!
//! Where keys fall out of a window or chunk, the last query of a sequence gives a weight to the
//! first key that it sees and to the one before that: a window that is a key too long or too short
//! shows (up to some ten thousand keys).
//!
//! What a row must be is counted for every row of the output, which costs two additions for each
//! value, or less: tokens repeat after [`CYCLE`].

use super::{
    operands::{Element, Operand, Places, Roundoff},
    reference::is_beyond,
};
use fizeau_domain::{
    case::{AttentionKind, AttentionPoint, Sequence},
    outcome::Check,
    units::Bytes,
};
use std::ops::Range;

/// Tokens after which contents repeat: a prime, so that blocks and pages whose distance is no
/// multiple of this number of them differ.
const CYCLE: usize = 1021;

/// `LARGE^2 / sqrt(d)` is beyond what any exponential makes anything of, for every dimension d
/// up to 2^18; 8-bit floats have it.
const LARGE: i16 = 256;

/// Sequences of which keys at the edge of a window are known to weigh: of a larger batch the first
/// ones, so that other keys stay as they are drawn.
const EDGES: usize = 32;

/// Elements that are repeated up to, so that copies are no small ones.
const LITTLE: usize = 1 << 20;

/// Of one key among as many as weigh: what sums of exponentials that are not exactly one may be
/// off by.
const SUMS: f64 = 0.25;

/// Relative: that exponentials of one row are not all the same, but some of them a polynomial's,
/// is rounded away; the count of keys, its reciprocal and the product are rounded.
const RATIO: f64 = 1.0 / (1 << 18) as f64;

/// Half the smallest 16-bit float.
const LEAST: f64 = 1.0 / (1 << 25) as f64;

/// Host memory that planted contents take: as they are drawn and as elements of 4 bytes at most.
pub(crate) fn memory(point: &AttentionPoint) -> Bytes {
    let [kv_heads, columns] = [point.kv_heads, point.dim_qk + point.dim_v].map(u64::from);
    Bytes(
        (CYCLE as u64 * kv_heads).saturating_mul(columns * 6).saturating_add(3 * LITTLE as u64 * 8),
    )
}

/// The contents of one cycle of tokens, row by row as K and V have them.
pub(crate) struct Planted {
    kv_heads: usize,
    dim_qk: usize,
    dim_v: usize,
    keys: Vec<i16>,
    /// None where they are a part of the keys.
    values: Option<Vec<i16>>,
}

impl Planted {
    pub fn new(point: &AttentionPoint, places: &Places) -> Planted {
        let [kv_heads, dim_qk, dim_v] =
            [point.kv_heads, point.dim_qk, point.dim_v].map(|length| length as usize);
        let mut random = oorandom::Rand64::new(u128::from(point.keys));
        let mut small = |count: usize| -> Vec<i16> {
            (0..count).map(|_| [-2, -1, 1, 2][(random.rand_u64() >> 62) as usize]).collect()
        };
        let values =
            (point.attention != AttentionKind::Mla).then(|| small(CYCLE * kv_heads * dim_v));
        let mut keys = small(CYCLE * kv_heads * dim_qk);
        for last in keys[dim_qk - 1..].iter_mut().step_by(dim_qk) {
            *last = if *last > 0 { 0 } else { -LARGE };
        }
        for token in edges(point, places) {
            let of_token = &mut keys[token * kv_heads * dim_qk..][..kv_heads * dim_qk];
            of_token[dim_qk - 1..].iter_mut().step_by(dim_qk).for_each(|last| *last = 0);
        }
        Planted { kv_heads, dim_qk, dim_v, keys, values }
    }

    pub fn q<Q: Element>(&self, length: u64) -> Operand<Q> {
        let mut query = vec![0; self.dim_qk];
        query[self.dim_qk - 1] = LARGE;
        operand(&query, length)
    }

    pub fn k<C: Element>(&self, length: u64) -> Operand<C> {
        operand(&self.keys, length)
    }

    pub fn v<C: Element>(&self, length: u64) -> Option<Operand<C>> {
        Some(operand(self.values.as_ref()?, length))
    }

    /// Keys of one cycle of tokens, row by row.
    pub fn tokens(&self) -> Vec<f64> {
        self.keys.iter().map(|&element| f64::from(element)).collect()
    }

    /// The values of a token's head.
    fn values(&self, token: usize, head: usize) -> &[i16] {
        let row = token * self.kv_heads + head;
        match &self.values {
            Some(values) => &values[row * self.dim_v..][..self.dim_v],
            None => &self.keys[row * self.dim_qk..][..self.dim_v],
        }
    }

    fn weighs(&self, token: usize, head: usize) -> bool {
        self.keys[(token * self.kv_heads + head + 1) * self.dim_qk - 1] == 0
    }

    /// Compares every element of the output with what it must be; `1.0` is what an element may be
    /// off by.
    pub fn check<O: Element>(
        &self,
        point: &AttentionPoint,
        places: &Places,
        output: &[O],
    ) -> Check {
        let mut check = Check { tolerance: 1.0, ..Check::NONE };
        let roundoff = Roundoff::of(point).output;
        let (heads, group) = (point.heads as usize, (point.heads / point.kv_heads) as usize);
        let mut rows = output.chunks_exact(self.dim_v);
        for sequence in &places.sequences {
            let mut sums = Sums::new(self);
            let mut before = point.mask.seen(sequence, 0);
            before.end = before.start;
            for query in 0..sequence.queries {
                let seen = point.mask.seen(sequence, query);
                let tokens = |keys: Range<u32>| keys.map(|key| in_cycle(places, sequence, key));
                sums.see(self, tokens(before.end..seen.end), 1);
                sums.see(self, tokens(before.start..seen.start), -1);
                before = seen;
                for (head, row) in rows.by_ref().take(heads).enumerate() {
                    sums.compare(head / group, row, roundoff, &mut check);
                }
            }
        }
        check
    }
}

/// The token of the cycle that stands at a key of a sequence.
fn in_cycle(places: &Places, sequence: &Sequence, key: u32) -> usize {
    (places.key(sequence, key) % CYCLE as u64) as usize
}

/// Tokens of the cycle at the edge of what the last query of a sequence sees, where that is not the
/// sequence's first key: the first that it sees, and the one before.
fn edges(point: &AttentionPoint, places: &Places) -> Vec<usize> {
    let of = |sequence: &Sequence| {
        let first = point.mask.seen(sequence, sequence.queries - 1).start;
        let keys = if first == 0 { 0..0 } else { first - 1..first + 1 };
        keys.map(|key| in_cycle(places, sequence, key)).collect::<Vec<usize>>()
    };
    places.sequences.iter().take(EDGES).flat_map(of).collect()
}

/// An operand that repeats these elements, often enough for a copy of it to be no small one.
fn operand<E: Element>(cycle: &[i16], length: u64) -> Operand<E> {
    let wanted = usize::try_from(length).unwrap_or(LITTLE).min(LITTLE);
    let times = wanted.div_ceil(cycle.len()).max(1);
    let once: Vec<E> = cycle.iter().map(|&element| E::of(f64::from(element))).collect();
    Operand::given(once.repeat(times))
}

/// What the keys that a query sees come to, head by head of K and V.
struct Sums {
    heads: Vec<Head>,
    /// Counts of each token of the cycle among some keys; all zeros between calls.
    times: Vec<i64>,
}

/// Of those that weigh, and of the others, which matter where there is none that does.
#[derive(Clone)]
struct Head {
    counts: [i64; 2],
    sums: [Vec<i64>; 2],
}

impl Sums {
    fn new(planted: &Planted) -> Sums {
        let nothing = vec![0; planted.dim_v];
        let head = Head { counts: [0; 2], sums: [nothing.clone(), nothing] };
        Sums { heads: vec![head; planted.kv_heads], times: vec![0; CYCLE] }
    }

    /// Adds tokens of the cycle `by` times, -1 where they are no longer seen. Where they are many,
    /// each is added so often at once.
    fn see(&mut self, planted: &Planted, tokens: impl ExactSizeIterator<Item = usize>, by: i64) {
        if tokens.len() < CYCLE {
            tokens.for_each(|token| self.add(planted, token, by));
            return;
        }
        let mut times = std::mem::take(&mut self.times);
        tokens.for_each(|token| times[token] += by);
        for (token, times) in times.iter_mut().enumerate() {
            self.add(planted, token, std::mem::take(times));
        }
        self.times = times;
    }

    fn add(&mut self, planted: &Planted, token: usize, times: i64) {
        for (number, head) in self.heads.iter_mut().enumerate() {
            let which = usize::from(!planted.weighs(token, number));
            head.counts[which] += times;
            for (sum, value) in head.sums[which].iter_mut().zip(planted.values(token, number)) {
                *sum += times * i64::from(*value);
            }
        }
    }

    fn compare<O: Element>(&self, head: usize, row: &[O], roundoff: f64, check: &mut Check) {
        let Head { counts, sums } = &self.heads[head];
        let which = usize::from(counts[0] == 0);
        let share = 1.0 / counts[which].max(1) as f64;
        for (found, &sum) in row.iter().zip(&sums[which]) {
            let expected = sum as f64 * share;
            let nothing = counts[which] == 0;
            let allowed = (roundoff + RATIO) * expected.abs() + SUMS * share + LEAST;
            let allowed = if nothing { 0.0 } else { allowed };
            let error = (found.value() - expected).abs();
            check.compared += 1;
            check.wrong += u64::from(is_beyond(error, allowed));
            let share = if error > 0.0 { error / allowed } else { error };
            let share = if share.is_nan() { f64::MAX } else { share.min(f64::MAX) };
            check.error = check.error.max(share);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::E4m3;
    use fizeau_domain::{
        case::{Lengths, Mask},
        dtype::Dtype,
    };
    use half::{bf16, f16};

    fn point(dtype: Dtype, keys: u32) -> AttentionPoint {
        AttentionPoint::new(AttentionKind::Decode, dtype, [2, 4, 2, 1, keys, 40, 32], Mask::Full)
    }

    fn made(point: &AttentionPoint) -> (Planted, Places) {
        let places = Places::new(point);
        (Planted::new(point, &places), places)
    }

    /// Of some keys: the largest score, the weights' sum, and that of the values that they weigh.
    #[derive(Clone)]
    struct Part {
        largest: f32,
        total: f32,
        values: Vec<f32>,
    }

    impl Part {
        fn nothing(point: &AttentionPoint) -> Part {
            let values = vec![0.0; point.dim_v as usize];
            Part { largest: f32::NEG_INFINITY, total: 0.0, values }
        }

        /// As split attention does.
        fn combine(&mut self, other: &Part) {
            let largest = self.largest.max(other.largest);
            if largest == f32::NEG_INFINITY {
                return;
            }
            let [mine, theirs] = [self.largest, other.largest].map(|one| (one - largest).exp());
            self.total = self.total * mine + other.total * theirs;
            for (value, other) in self.values.iter_mut().zip(&other.values) {
                *value = *value * mine + other * theirs;
            }
            self.largest = largest;
        }

        fn row<O: Element>(&self) -> impl Iterator<Item = O> + '_ {
            let total = if self.total == 0.0 { 1.0 } else { self.total };
            self.values.iter().map(move |value| O::of(f64::from(value / total)))
        }
    }

    /// Attention on 32-bit floats that reads Q, K and V as a kernel does, key by key.
    struct Plain<'p, Q, C> {
        point: &'p AttentionPoint,
        places: &'p Places,
        q: Operand<Q>,
        k: Operand<C>,
        v: Option<Operand<C>>,
    }

    impl<'p, Q: Element, C: Element> Plain<'p, Q, C> {
        fn new(point: &'p AttentionPoint, planted: &Planted, places: &'p Places) -> Self {
            let [q, k, v, _] = super::super::operands::lengths(point, places);
            Plain { point, places, q: planted.q(q), k: planted.k(k), v: planted.v(v) }
        }

        fn part(&self, sequence: &Sequence, row: u64, keys: std::ops::Range<u32>) -> Part {
            let AttentionPoint { heads, kv_heads, dim_qk, dim_v, .. } = *self.point;
            let kv_head = row % u64::from(heads) / u64::from(heads / kv_heads);
            let scale = 1.0 / (dim_qk as f32).sqrt();
            let mut part = Part::nothing(self.point);
            for key in keys {
                let at = self.places.key(sequence, key) * u64::from(kv_heads) + kv_head;
                let row = self.q.values(row * u64::from(dim_qk), dim_qk as usize);
                let of_key = |length| at * u64::from(length);
                let k = self.k.values(of_key(dim_qk), dim_qk as usize);
                let score: f32 = row.zip(k).map(|(q, k)| (q * k) as f32).sum();
                let v = match &self.v {
                    Some(v) => v.values(of_key(dim_v), dim_v as usize),
                    None => self.k.values(of_key(dim_qk), dim_v as usize),
                };
                let values = v.map(|value| value as f32).collect();
                part.combine(&Part { largest: score * scale, total: 1.0, values });
            }
            part
        }

        fn output<O: Element>(&self, mask: Mask) -> Vec<O> {
            let mut output = Vec::new();
            for sequence in &self.places.sequences {
                for query in 0..sequence.queries {
                    let seen = mask.seen(sequence, query);
                    let first = u64::from(sequence.query_first + query);
                    for head in 0..u64::from(self.point.heads) {
                        let row = first * u64::from(self.point.heads) + head;
                        output.extend(self.part(sequence, row, seen.clone()).row::<O>());
                    }
                }
            }
            output
        }
    }

    /// Right attention passes; with a block of 64 keys of the second sequence's first head lost or
    /// taken twice, it does not: any block, or each so-manieth.
    fn check_blocks<Q: Element, C: Element, O: Element>(point: &AttentionPoint, each: usize) {
        const BLOCK: u32 = 64;
        let (planted, places) = made(point);
        let plain: Plain<'_, Q, C> = Plain::new(point, &planted, &places);
        let sequence = &places.sequences[1];
        let row = u64::from(sequence.query_first * point.heads);
        let blocks: Vec<Part> = (0..sequence.keys)
            .step_by(BLOCK as usize)
            .map(|key| plain.part(sequence, row, key..(key + BLOCK).min(sequence.keys)))
            .collect();
        let mut output: Vec<O> = plain.output(point.mask);
        assert!(planted.check(point, &places, &output).passed());
        let mut with = |visited: &mut dyn Iterator<Item = usize>| {
            let mut whole = Part::nothing(point);
            visited.for_each(|block| whole.combine(&blocks[block]));
            let start = (row * u64::from(point.dim_v)) as usize;
            for (element, found) in output[start..].iter_mut().zip(whole.row::<O>()) {
                *element = found;
            }
            planted.check(point, &places, &output)
        };
        let all = 0..blocks.len();
        assert!(with(&mut all.clone()).passed());
        for block in all.clone().step_by(each) {
            let lost = with(&mut all.clone().filter(|&one| one != block));
            assert!(!lost.passed(), "block {block} is lost: {lost:?}");
            let twice = with(&mut all.clone().chain([block]));
            assert!(!twice.passed(), "block {block} is taken twice: {twice:?}");
        }
    }

    #[test]
    fn any_block_of_32_thousand_keys_shows() {
        let keys = 32_768;
        check_blocks::<bf16, bf16, bf16>(&point(Dtype::Bf16, keys), 1);
        check_blocks::<f16, f16, f16>(&point(Dtype::F16, keys), 1);
        check_blocks::<bf16, E4m3, bf16>(&point(Dtype::Fp8, keys), 1);
        let paged = AttentionPoint { page: Some(16), ..point(Dtype::Bf16, keys) };
        check_blocks::<bf16, bf16, bf16>(&paged, 3);
        let latent = AttentionPoint { attention: AttentionKind::Mla, ..point(Dtype::Bf16, keys) };
        check_blocks::<bf16, bf16, bf16>(&latent, 3);
    }

    #[test]
    fn any_block_of_128_thousand_keys_shows() {
        check_blocks::<bf16, bf16, bf16>(&point(Dtype::Bf16, 131_072), 37);
    }

    #[test]
    fn a_page_that_stands_elsewhere_shows() {
        let paged = AttentionPoint { page: Some(16), ..point(Dtype::Bf16, 32_768) };
        let (planted, places) = made(&paged);
        let mut astray = places.clone();
        let pages = astray.pages.as_mut().expect("there are pages");
        pages[77] = pages[78];
        let plain = Plain::<bf16, bf16>::new(&paged, &planted, &astray);
        let output: Vec<bf16> = plain.output(paged.mask);
        assert!(!planted.check(&paged, &places, &output).passed());
    }

    #[test]
    fn right_attention_of_odd_shapes_passes() {
        for attention in [AttentionKind::Prefill, AttentionKind::Mla] {
            for (keys, lengths, page, mask) in [
                (3, Lengths::Equal, None, Mask::Causal),
                (70, Lengths::Ragged, Some(7), Mask::Causal),
                (1100, Lengths::Equal, None, Mask::Causal),
                (3, Lengths::Equal, None, Mask::Window(2)),
                (70, Lengths::Ragged, Some(7), Mask::Window(3)),
                (1100, Lengths::Equal, None, Mask::Window(1050)),
                (1100, Lengths::Ragged, Some(16), Mask::Chunk(548)),
                (4097, Lengths::Equal, None, Mask::Chunk(2048)),
            ] {
                let dims = (24, if attention == AttentionKind::Mla { 24 } else { 17 });
                let odd = AttentionPoint {
                    attention,
                    queries: 5,
                    mask,
                    lengths,
                    page,
                    dim_qk: dims.0,
                    dim_v: dims.1,
                    ..point(Dtype::F32, keys)
                };
                let (planted, places) = made(&odd);
                let plain = Plain::<f32, f32>::new(&odd, &planted, &places);
                let output: Vec<f32> = plain.output(odd.mask);
                let check = planted.check(&odd, &places, &output);
                assert!(check.passed(), "{odd:?}: {check:?}");
                assert_eq!(check.compared, output.len() as u64);
            }
        }
    }

    /// A kernel that ignores the window or chunk, or whose window is one key too long or too short.
    #[test]
    fn keys_out_of_the_window_show() {
        for (mask, wrong) in [
            (Mask::Window(128), [Mask::Causal, Mask::Window(127), Mask::Window(129)]),
            (Mask::Window(4096), [Mask::Causal, Mask::Window(4095), Mask::Window(4097)]),
            (Mask::Chunk(8192), [Mask::Causal, Mask::Chunk(8191), Mask::Chunk(8193)]),
        ] {
            for queries in [1, 2] {
                let window = AttentionPoint { mask, queries, ..point(Dtype::Bf16, 16_384 + 999) };
                let (planted, places) = made(&window);
                let plain = Plain::<bf16, bf16>::new(&window, &planted, &places);
                let check = |mask| planted.check(&window, &places, &plain.output::<bf16>(mask));
                assert!(check(mask).passed(), "{mask}: {:?}", check(mask));
                for wrong in wrong {
                    assert!(!check(wrong).passed(), "{wrong} passes as {mask}");
                }
            }
        }
    }

    /// As long as a batch of long contexts gets: what is counted for it takes no minutes.
    #[test]
    fn a_large_batch_is_counted_by_the_cycle() {
        let large = AttentionPoint {
            batch: 256,
            kv_heads: 1,
            heads: 1,
            dim_qk: 16,
            dim_v: 16,
            ..point(Dtype::Bf16, 131_072)
        };
        let (planted, places) = made(&large);
        let nothing = vec![bf16::NAN; 256 * 16];
        let check = planted.check(&large, &places, &nothing);
        assert_eq!((check.compared, check.wrong), (256 * 16, 256 * 16));
        assert_eq!(check.error, f64::MAX);
    }
}
