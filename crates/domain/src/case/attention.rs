//! Points of attention: which sequences they have, and what must be moved and computed for them.

use super::Work;
use crate::{
    dtype::Dtype,
    units::{Bytes, Flops},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{fmt, ops::Range};

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
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Mask {
    /// Every key.
    Full,
    /// Those not after it, the last query aligned with the last key.
    Causal,
    /// Causal, and at most this many keys: a sliding window that ends with the query's own key.
    Window(u32),
    /// Causal, and only keys of the query's own chunk: chunks have this many tokens, the first
    /// begins with the sequence's first key.
    Chunk(u32),
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

impl Mask {
    /// The keys that a query of a sequence sees, by their numbers in it: always one run. Neither
    /// end falls from one query to the next, and a run begins no later than the one before ended.
    pub fn seen(self, sequence: &Sequence, query: u32) -> Range<u32> {
        let later = sequence.queries.saturating_sub(query + 1);
        let end = sequence.keys.saturating_sub(later);
        match self {
            Mask::Full => 0..sequence.keys,
            Mask::Causal => 0..end,
            Mask::Window(window) => end.saturating_sub(window)..end,
            Mask::Chunk(chunk) => end.saturating_sub(1) / chunk.max(1) * chunk..end,
        }
    }

    /// The keys of a sequence that any of its queries sees: always one run.
    fn seen_by_any(self, sequence: &Sequence) -> Range<u32> {
        self.seen(sequence, 0).start..sequence.keys
    }

    /// Whether queries see no later key.
    pub fn is_causal(self) -> bool {
        self != Mask::Full
    }

    /// How many keys the queries at the first `tokens` keys of a sequence see together, where the
    /// mask is causal.
    fn pairs_before(self, tokens: u32) -> u64 {
        let tokens = u64::from(tokens);
        let triangle = |side: u64| side * (side + 1) / 2;
        match self {
            Mask::Full | Mask::Causal => triangle(tokens),
            Mask::Window(window) => {
                let growing = tokens.min(u64::from(window));
                triangle(growing) + (tokens - growing) * u64::from(window)
            }
            Mask::Chunk(chunk) => {
                let chunk = u64::from(chunk.max(1));
                tokens / chunk * triangle(chunk) + triangle(tokens % chunk)
            }
        }
    }
}

/// The mask's part of a case id: `causal-window128`.
impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mask::Full => f.write_str("full"),
            Mask::Causal => f.write_str("causal"),
            Mask::Window(window) => write!(f, "causal-window{window}"),
            Mask::Chunk(chunk) => write!(f, "causal-chunk{chunk}"),
        }
    }
}

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
    /// Equally long sequences, keys and values in one piece. Numbers are in the order of a case's
    /// id: sequences, query heads, key and value heads, query tokens, key and value tokens,
    /// dimensions of a key and of a value.
    pub fn new(
        attention: AttentionKind,
        dtype: Dtype,
        [batch, heads, kv_heads, queries, keys, dim_qk, dim_v]: [u32; 7],
        mask: Mask,
    ) -> AttentionPoint {
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
            lengths: Lengths::Equal,
            page: None,
        }
    }

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

    /// Bytes of K and V that are allocated and never read: keys that no query sees, and what only
    /// fills pages.
    pub fn unread(&self) -> Bytes {
        let seen = |sequence: Sequence| self.mask.seen_by_any(&sequence).len() as u64;
        let keys: u64 = self.each_sequence().map(seen).sum();
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

    /// Causal, queries before the first key see none.
    fn pairs_of(&self, sequence: &Sequence) -> f64 {
        if !self.mask.is_causal() {
            return f64::from(sequence.queries) * f64::from(sequence.keys);
        }
        let before = sequence.keys.saturating_sub(sequence.queries);
        (self.mask.pairs_before(sequence.keys) - self.mask.pairs_before(before)) as f64
    }

    /// 2 (d_qk + d_v) operations and an exponential for each query, head and key seen; Q read once,
    /// those of K and V that any query sees, O written once, and the page table read as far. In
    /// multi-head latent attention V is a part of K and is not counted again.
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
            let seen = self.mask.seen_by_any(&sequence);
            queries += u64::from(sequence.queries);
            keys += seen.len() as u64;
            let page_of = |page: u32| u64::from(seen.end.div_ceil(page) - seen.start / page);
            let pages_of = |page: u32| page_of(page.max(1));
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
        AttentionPoint::new(
            AttentionKind::Decode,
            Dtype::Bf16,
            [4, 32, 8, 1, 4096, 128, 128],
            Mask::Full,
        )
    }

    #[test]
    fn ids_say_what_is_not_usual() {
        assert_eq!(point().to_string(), "decode/bf16/b4-h32-kv8-q1-k4096-d128x128-full");
        let paged = AttentionPoint { lengths: Lengths::Ragged, page: Some(64), ..point() };
        let id = "decode/bf16/b4-h32-kv8-q1-k4096-d128x128-full-ragged-page64";
        assert_eq!(paged.to_string(), id);
        let paged = AttentionPoint { mask: Mask::Window(128), ..paged };
        let id = "decode/bf16/b4-h32-kv8-q1-k4096-d128x128-causal-window128-ragged-page64";
        assert_eq!(paged.to_string(), id);
        let chunked = AttentionPoint { mask: Mask::Chunk(8192), ..point() };
        let id = "decode/bf16/b4-h32-kv8-q1-k4096-d128x128-causal-chunk8192";
        assert_eq!(chunked.to_string(), id);
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
    fn pages_are_allocated_whole() {
        let paged = |keys, page| AttentionPoint { keys, page: Some(page), batch: 2, ..point() };
        assert_eq!(paged(128, 64).unread(), Bytes(0));
        // 8 heads of 2 x 128 elements of 2 bytes.
        assert_eq!(paged(70, 64).unread(), Bytes(2 * 58 * 8 * 256 * 2));
        assert!(paged(70, 1 << 30).can_be_counted() && !paged(70, 1 << 31).can_be_counted());
        let long = AttentionPoint { batch: 70_000, keys: 70_000, ..point() };
        assert!(!long.can_be_counted());
    }

    #[test]
    fn a_window_reads_its_own_keys_alone() {
        let window = AttentionPoint { mask: Mask::Window(128), ..point() };
        let as_short = AttentionPoint { keys: 128, ..point() };
        assert_eq!(window.work(), as_short.work());
        assert_eq!(window.unread(), Bytes(4 * (4096 - 128) * 8 * 256 * 2));
        // The window of 100 begins in the middle of a page of 64.
        let paged = AttentionPoint { mask: Mask::Window(100), page: Some(64), ..point() };
        let bytes = 4 * 100 * 8 * 256 * 2 + 2 * (4 * 32 * 128 * 2) + 4 * 2 * 4;
        assert_eq!(paged.work().memory, Bytes(bytes));
        // Token 8999 is the 808th of its chunk.
        let chunk = AttentionPoint { mask: Mask::Chunk(8192), keys: 9000, ..point() };
        assert_eq!(chunk.work(), AttentionPoint { keys: 808, ..point() }.work());
    }

    /// One of the four masks, for property tests.
    fn mask_of(number: u32, length: u32) -> Mask {
        [Mask::Full, Mask::Causal, Mask::Window(length), Mask::Chunk(length)][number as usize]
    }

    proptest! {
        /// Formulas against counting, by the definition of each mask.
        #[test]
        fn queries_see_what_their_mask_lets_them(
            queries in 1u32..50, keys in 1u32..50, mask in 0u32..4, length in 1u32..60,
            page in 1u32..9,
        ) {
            let mask = mask_of(mask, length);
            let point = AttentionPoint {
                mask, batch: 1, queries, keys, page: Some(page), ..point()
            };
            let is_seen = |query: u32, key: u32| {
                let [i, j] = [keys + query, queries + key].map(i64::from);
                let [i, j] = [i - i64::from(queries), j - i64::from(queries)];
                let length = i64::from(length);
                match mask {
                    Mask::Full => true,
                    Mask::Causal => j <= i,
                    Mask::Window(_) => i - length < j && j <= i,
                    Mask::Chunk(_) => j <= i && j / length == i / length,
                }
            };
            let sequence = point.sequences()[0];
            let mut counted = 0u32;
            for query in 0..queries {
                let seen: Vec<u32> = (0..keys).filter(|&key| is_seen(query, key)).collect();
                counted += seen.len() as u32;
                prop_assert_eq!(seen, mask.seen(&sequence, query).collect::<Vec<u32>>());
            }
            prop_assert_eq!(point.work().exps, f64::from(counted) * 32.0);
            let by_any = |key: &u32| (0..queries).any(|query| is_seen(query, *key));
            let keys: Vec<u32> = (0..keys).filter(by_any).collect();
            let pages: std::collections::BTreeSet<u32> =
                keys.iter().map(|key| key / page).collect();
            let memory = keys.len() * 8 * 256 * 2 + queries as usize * 32 * 256 * 2
                + pages.len() * 4;
            prop_assert_eq!(point.work().memory, Bytes(memory as u64));
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
