//! Points of attention: which sequences they have, and what must be moved and computed for them.

use super::Work;
use crate::{
    dtype::Dtype,
    units::{Bytes, Flops},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Where one sequence's tokens stand among those of the whole batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    /// Its first token of Q and O.
    pub query_first: u32,
    /// Its number of tokens of Q and O.
    pub queries: u32,
    /// Its first token of K and V. In pages, token `i` of the batch stands in page `pages[i /
    /// page]` at `i % page`.
    pub key_first: u32,
    /// Its number of tokens of K and V.
    pub keys: u32,
}

/// Attention, forward, over a batch of sequences.
/// Suites have a table of these fields for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub struct AttentionPoint {
    /// Which of the shapes of attention.
    pub attention: AttentionKind,
    /// Element type of K and V; see [`AttentionPoint::queries_dtype`] for that of Q.
    pub dtype: Dtype,
    /// Sequences.
    pub batch: u32,
    /// Query heads.
    pub heads: u32,
    /// Key and value heads; `heads` is a multiple of it.
    pub kv_heads: u32,
    /// Query tokens of the longest sequence.
    pub queries: u32,
    /// Key and value tokens of the longest sequence.
    pub keys: u32,
    /// Dimension of a query and a key.
    pub dim_qk: u32,
    /// Dimension of a value.
    pub dim_v: u32,
    /// Which keys a query sees.
    pub mask: Mask,
    /// How long the sequences are.
    #[serde(default)]
    pub lengths: Lengths,
    /// Tokens of a page, where keys and values stand in pages in any order; absent: in one piece.
    pub page: Option<u32>,
}

/// The shapes of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttentionKind {
    /// Many query tokens at once.
    Prefill,
    /// One query token (or few) against a KV cache.
    Decode,
    /// Decode of multi-head latent attention, absorbed: one latent of `dim_qk` serves as key, its
    /// first `dim_v` as value, for all heads.
    Mla,
}

/// Which keys a query sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mask {
    /// Every key.
    Full,
    /// Those not after it, the last query aligned with the last key.
    Causal,
}

/// How long the sequences of a batch are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Lengths {
    /// All as the longest.
    #[default]
    Equal,
    /// Spread evenly from one token to the longest, in no order, odd ones among them.
    Ragged,
}

named!(AttentionKind { Prefill => "prefill", Decode => "decode", Mla => "mla" });
named!(Mask { Full => "full", Causal => "causal" });

impl Lengths {
    /// Whether all are as the longest.
    pub fn are_equal(&self) -> bool {
        *self == Lengths::Equal
    }

    /// Keys of sequence number `sequence`, where the longest has `longest`. Ragged ones follow the
    /// multiples of the golden ratio, whose fractions are spread evenly however many there are.
    fn keys(self, sequence: u32, longest: u32) -> u32 {
        /// 2^32 over the golden ratio.
        const GOLDEN: u32 = 2_654_435_769;
        match self {
            Lengths::Equal => longest,
            Lengths::Ragged => {
                let fraction = sequence.wrapping_add(1).wrapping_mul(GOLDEN);
                let rest = u64::from(longest.max(1) - 1);
                1 + ((rest * u64::from(fraction)) >> 32) as u32
            }
        }
    }
}

impl AttentionPoint {
    /// Element type of Q: that of K and V, but for decode on 8-bit floats, whose cache alone is
    /// narrow and whose queries are bfloat16.
    pub fn queries_dtype(&self) -> Dtype {
        match (self.attention, self.dtype) {
            (AttentionKind::Decode | AttentionKind::Mla, Dtype::Fp8) => Dtype::Bf16,
            (_, dtype) => dtype,
        }
    }

    /// Element type that both products multiply: that of Q, which is the wider one. What comes from
    /// an 8-bit cache is widened for it.
    pub fn multiplied_dtype(&self) -> Dtype {
        self.queries_dtype()
    }

    /// Where the tokens of each sequence stand among all of Q and O, and of K and V. In pages, each
    /// sequence starts with a page of its own.
    pub fn sequences(&self) -> Vec<Sequence> {
        self.each_sequence().collect()
    }

    fn each_sequence(&self) -> impl Iterator<Item = Sequence> {
        let (mut query_first, mut key_first) = (0, 0);
        (0..self.batch).map(move |at| {
            let keys = self.lengths.keys(at, self.keys);
            let queries = u64::from(self.queries) * u64::from(keys);
            let queries = queries.div_ceil(u64::from(self.keys.max(1))) as u32;
            let this = Sequence { query_first, queries, key_first, keys };
            query_first += queries;
            key_first += keys.next_multiple_of(self.page.unwrap_or(1).max(1));
            this
        })
    }

    /// Tokens of K and V in all, those in no sequence that fill pages among them.
    fn key_tokens(&self) -> u64 {
        let page = u64::from(self.page.unwrap_or(1).max(1));
        let keys = |at| u64::from(self.lengths.keys(at, self.keys));
        (0..self.batch).map(|at| keys(at).next_multiple_of(page)).sum()
    }

    /// Whether all tokens can be counted in 32 bits, as kernels count them.
    pub fn can_be_counted(&self) -> bool {
        let most = u64::from(u32::MAX);
        let queries = u64::from(self.batch) * u64::from(self.queries);
        queries <= most && self.key_tokens() <= most
    }

    /// Bytes of K and V that only fill pages: they are allocated and never read.
    pub fn padding(&self) -> Bytes {
        let keys: u64 = (0..self.batch).map(|at| u64::from(self.lengths.keys(at, self.keys))).sum();
        let width = match self.attention {
            AttentionKind::Mla => self.dim_qk,
            AttentionKind::Prefill | AttentionKind::Decode => self.dim_qk + self.dim_v,
        };
        let elements = u128::from(self.key_tokens() - keys)
            * u128::from(self.kv_heads)
            * u128::from(width)
            * u128::from(self.dtype.bits());
        Bytes(u64::try_from(elements / 8).unwrap_or(u64::MAX / 4))
    }

    /// How often a query of any sequence sees a key.
    fn pairs(&self) -> f64 {
        self.each_sequence().map(|sequence| self.pairs_of(&sequence)).sum()
    }

    /// Causal, the queries see one key more each, up to the last one, which sees all; those before
    /// the first key see none. (The average of first and last is that of FlashAttention's
    /// `bench_utils`.)
    fn pairs_of(&self, sequence: &Sequence) -> f64 {
        let (queries, keys) = (f64::from(sequence.queries), f64::from(sequence.keys));
        match self.mask {
            Mask::Full => queries * keys,
            Mask::Causal => {
                let seeing = queries.min(keys);
                seeing * (2.0 * keys - seeing + 1.0) / 2.0
            }
        }
    }

    /// 2 (d_qk + d_v) operations and an exponential for each query, head and key seen; Q, K and V
    /// read once, O written once, and the page table read. In multi-head latent attention V is a
    /// part of K and is not counted again.
    pub(super) fn work(&self) -> Work {
        let pairs = self.pairs() * f64::from(self.heads);
        let [heads, kv_heads, dim_qk, dim_v] =
            [self.heads, self.kv_heads, self.dim_qk, self.dim_v].map(u64::from);
        let dim_kv = match self.attention {
            AttentionKind::Prefill | AttentionKind::Decode => dim_qk + dim_v,
            AttentionKind::Mla => dim_qk,
        };
        let [mut queries, mut keys, mut pages] = [0; 3];
        for sequence in self.each_sequence() {
            queries += u64::from(sequence.queries);
            keys += u64::from(sequence.keys);
            let pages_of = |page: u32| u64::from(sequence.keys.div_ceil(page.max(1)));
            pages += self.page.map_or(0, pages_of);
        }
        let bits = queries * heads * dim_qk * self.queries_dtype().bits()
            + queries * heads * dim_v * self.dtype.output().bits()
            + keys * kv_heads * dim_kv * self.dtype.bits()
            + pages * 32;
        Work {
            memory: Bytes(bits.div_ceil(8)),
            flops: Flops(2.0 * pairs * (dim_qk + dim_v) as f64),
            exps: pairs,
            ..Work::default()
        }
    }
}

impl fmt::Display for AttentionPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AttentionPoint { batch, heads, kv_heads, queries, keys, dim_qk, dim_v, .. } = self;
        write!(f, "{}/{}/b{batch}-h{heads}-kv{kv_heads}", self.attention, self.dtype)?;
        write!(f, "-q{queries}-k{keys}-d{dim_qk}x{dim_v}-{}", self.mask)?;
        if self.lengths == Lengths::Ragged {
            f.write_str("-ragged")?;
        }
        match self.page {
            Some(page) => write!(f, "-page{page}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn point() -> AttentionPoint {
        AttentionPoint {
            attention: AttentionKind::Decode,
            dtype: Dtype::Bf16,
            batch: 4,
            heads: 32,
            kv_heads: 8,
            queries: 1,
            keys: 4096,
            dim_qk: 128,
            dim_v: 128,
            mask: Mask::Full,
            lengths: Lengths::Equal,
            page: None,
        }
    }

    #[test]
    fn ids_say_what_is_not_usual() {
        assert_eq!(point().to_string(), "decode/bf16/b4-h32-kv8-q1-k4096-d128x128-full");
        let paged = AttentionPoint { lengths: Lengths::Ragged, page: Some(64), ..point() };
        let id = "decode/bf16/b4-h32-kv8-q1-k4096-d128x128-full-ragged-page64";
        assert_eq!(paged.to_string(), id);
    }

    #[test]
    fn decode_moves_each_key_head_once() {
        // K and V: 4 sequences, 4096 keys, 8 heads, 2 x 128 elements of 2 bytes; Q and O.
        let moved = 4 * 4096 * 8 * 256 * 2 + 2 * (4 * 32 * 128 * 2);
        assert_eq!(point().work().memory, Bytes(moved));
        assert_eq!(point().work().flops, Flops(4.0 * 4096.0 * 32.0 * 2.0 * 256.0));
        let paged = AttentionPoint { page: Some(64), ..point() };
        assert_eq!(paged.work().memory, Bytes(moved + 4 * 64 * 4));
        let narrow = AttentionPoint { dtype: Dtype::Fp8, ..point() };
        assert_eq!(narrow.work().memory, Bytes(4 * 4096 * 8 * 256 + 2 * (4 * 32 * 128 * 2)));
        let mla = AttentionKind::Mla;
        let latent = AttentionPoint { attention: mla, kv_heads: 1, dim_qk: 576, ..point() };
        let latent = AttentionPoint { dim_v: 512, ..latent };
        assert_eq!(latent.work().memory, Bytes(4 * (4096 * 576 + 32 * (576 + 512)) * 2));
    }

    #[test]
    fn pages_are_had_whole() {
        let paged = |keys, page| AttentionPoint { keys, page: Some(page), batch: 2, ..point() };
        assert_eq!(paged(128, 64).padding(), Bytes(0));
        // 8 heads of 2 x 128 elements of 2 bytes.
        assert_eq!(paged(70, 64).padding(), Bytes(2 * 58 * 8 * 256 * 2));
        assert!(paged(70, 1 << 30).can_be_counted() && !paged(70, 1 << 31).can_be_counted());
        let long = AttentionPoint { batch: 70_000, keys: 70_000, ..point() };
        assert!(!long.can_be_counted());
    }

    proptest! {
        /// The formula against counting.
        #[test]
        fn causal_queries_see_what_they_see(queries in 1u32..50, keys in 1u32..50) {
            let point = AttentionPoint {
                mask: Mask::Causal, batch: 1, queries, keys, ..point()
            };
            let seen = |query: u32| (keys + query + 1).saturating_sub(queries);
            let counted: u32 = (0..queries).map(seen).sum();
            prop_assert_eq!(point.work().exps, f64::from(counted) * 32.0);
        }

        #[test]
        fn sequences_follow_each_other(
            batch in 1u32..80, keys in 1u32..5000, page in prop_oneof![Just(None), Just(Some(16))],
        ) {
            let lengths = Lengths::Ragged;
            let point = AttentionPoint { batch, keys, page, lengths, queries: keys, ..point() };
            let sequences = point.sequences();
            for (one, next) in sequences.iter().zip(&sequences[1..]) {
                prop_assert!(one.keys >= 1 && one.keys <= keys && one.queries == one.keys);
                prop_assert_eq!(one.query_first + one.queries, next.query_first);
                prop_assert!(one.key_first + one.keys <= next.key_first);
                prop_assert_eq!(next.key_first % page.unwrap_or(1), 0);
            }
            let mean = sequences.iter().map(|one| f64::from(one.keys)).sum::<f64>()
                / f64::from(batch);
            let allowed = 0.5 / f64::from(batch).sqrt() + 0.3;
            let expected = (f64::from(keys) + 1.0) / 2.0;
            prop_assert!((mean - expected).abs() < allowed * f64::from(keys));
        }
    }
}
