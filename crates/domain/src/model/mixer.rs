//! What mixes tokens: attention of all kinds, and linear attention with a constant state.

use super::{Format, of};

/// Bytes of one token's latent in the 8-bit layout of DeepSeek's sparse attention: 512 values, 16
/// bytes of scales and 64 values of 16 bits (FlashMLA's README, "FP8 KV cache").
const SPARSE_LATENT_FP8: f64 = 656.0;

/// Bytes of a number in the cache of an indexer's keys: 8-bit floats.
const INDEX_KEY: f64 = 1.0;

/// The same for indexers whose keys engines may store in 4 bits (DeepSeek-V4; TensorRT-LLM's
/// `indexer_k_dtype`).
const INDEX_KEY_NARROW: f64 = 0.5;

/// What mixes tokens.
#[derive(Clone, Debug, PartialEq)]
pub enum Mixer {
    /// Multi-head, multi-query or grouped-query attention.
    Grouped(Grouped),
    /// Multi-head latent attention.
    Latent(Latent),
    /// DeepSeek-V4's attention over compressed tokens.
    Compressed(Compressed),
    /// Linear attention: a state of constant size.
    Linear(Linear),
}

/// Which tokens a token sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All before it.
    All,
    /// The last this many.
    Window(u32),
    /// Those before it in its own chunk of this many.
    Chunk(u32),
}

/// Multi-head, multi-query or grouped-query attention.
#[derive(Clone, Debug, PartialEq)]
pub struct Grouped {
    /// Query heads.
    pub heads: u32,
    /// Key and value heads.
    pub kv_heads: u32,
    /// Dimension of queries and keys.
    pub dim_qk: u32,
    /// Dimension of values.
    pub dim_v: u32,
    /// Whether the output is scaled by a gate as wide as the queries.
    pub gate: bool,
    /// Whether projections add a bias: of queries, keys and values; of the output.
    pub bias: [bool; 2],
    /// Which tokens a token sees.
    pub reach: Reach,
    /// What chooses a few of them.
    pub indexer: Option<Indexer>,
}

/// Chooses the tokens that attention reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Indexer {
    /// Its heads.
    pub heads: u32,
    /// Dimension of its keys.
    pub dim: u32,
    /// Tokens chosen for a query.
    pub top: u32,
    /// Whether the layer computes the choice; otherwise it takes that of a layer before it and
    /// holds no keys.
    pub is_own: bool,
}

/// Multi-head latent attention (DeepSeek-V2).
#[derive(Clone, Debug, PartialEq)]
pub struct Latent {
    /// Query heads.
    pub heads: u32,
    /// Width of the latent that queries come from; none where they are projected at once.
    pub q_rank: Option<u32>,
    /// Width of the latent that keys and values come from.
    pub kv_rank: u32,
    /// Dimension of a head's queries without position.
    pub nope: u32,
    /// Dimension with position, shared by all heads' keys.
    pub rope: u32,
    /// Dimension of a head's values.
    pub dim_v: u32,
    /// Whether the output is scaled by a gate of its width.
    pub gate: bool,
    /// What chooses a few tokens.
    pub indexer: Option<Indexer>,
}

/// DeepSeek-V4's attention: one key that is also the value, a window of tokens, and one entry for
/// every `ratio` tokens before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Compressed {
    /// Query heads.
    pub heads: u32,
    /// Dimension of the one key and value.
    pub dim: u32,
    /// Width of the latent that queries come from.
    pub q_rank: u32,
    /// Groups of heads whose outputs are projected together.
    pub out_groups: u32,
    /// Width that each group is projected to.
    pub out_rank: u32,
    /// Tokens that are seen as they are.
    pub window: u32,
    /// Tokens that one entry stands for; 0 where only the window is seen.
    pub ratio: u32,
    /// What chooses entries, where not all are read.
    pub indexer: Option<Indexer>,
}

/// Linear attention (Mamba-2, gated delta net, Kimi delta attention).
#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    /// What it is called.
    pub kind: &'static str,
    /// Its parameters.
    pub parameters: f64,
    /// Numbers in the state of one sequence, in 32 bits each.
    pub state: f64,
    /// Heads that ranks can divide.
    pub heads: u32,
}

impl Reach {
    /// Tokens whose keys are kept of `tokens`.
    pub fn held(self, tokens: f64) -> f64 {
        match self {
            Reach::All => tokens,
            Reach::Window(most) | Reach::Chunk(most) => tokens.min(of(most)),
        }
    }

    /// Tokens that one more token sees. In a chunk that is half of it on average over positions,
    /// and never more than there are.
    pub fn seen(self, tokens: f64) -> f64 {
        match self {
            Reach::All => tokens,
            Reach::Window(most) => tokens.min(of(most)),
            Reach::Chunk(most) => tokens.min(of(most) / 2.0),
        }
    }

    /// Pairs of a query and a key that it sees, for `new` tokens after `old`.
    pub fn pairs(self, new: f64, old: f64) -> f64 {
        let all = |new: f64| new * old + new * (new + 1.0) / 2.0;
        let within = |most: f64| {
            // Query i of 1.. sees min(old + i, most).
            let growing = (most - old).clamp(0.0, new);
            all(growing) + (new - growing) * most
        };
        match self {
            Reach::All => all(new),
            Reach::Window(most) => within(of(most)),
            Reach::Chunk(most) => within(of(most) / 2.0),
        }
    }
}

impl Indexer {
    /// Parameters, where queries come from a latent of `q_rank` (else from the residual stream).
    fn parameters(&self, hidden: f64, q_rank: f64) -> f64 {
        if !self.is_own {
            return 0.0;
        }
        let (heads, dim) = (of(self.heads), of(self.dim));
        q_rank * heads * dim + hidden * dim + hidden * heads
    }

    /// Operations for each pair of a query and a key, in 8-bit floats.
    pub fn operations(&self) -> f64 {
        if self.is_own { 2.0 * of(self.heads) * of(self.dim) } else { 0.0 }
    }

    /// Bytes of one token's key.
    pub fn key_bytes(&self) -> f64 {
        if self.is_own { of(self.dim) * INDEX_KEY } else { 0.0 }
    }
}

impl Mixer {
    /// Parameters.
    pub fn parameters(&self, hidden: f64) -> f64 {
        match self {
            Mixer::Grouped(mixer) => mixer.parameters(hidden),
            Mixer::Latent(mixer) => mixer.parameters(hidden),
            Mixer::Compressed(mixer) => mixer.parameters(hidden),
            Mixer::Linear(mixer) => mixer.parameters,
        }
    }

    /// Heads that tensor parallelism divides.
    pub fn heads(&self) -> u32 {
        match self {
            Mixer::Grouped(mixer) => mixer.heads,
            Mixer::Latent(mixer) => mixer.heads,
            Mixer::Compressed(mixer) => mixer.heads,
            Mixer::Linear(mixer) => mixer.heads,
        }
    }

    /// Bytes that a sequence of `tokens` tokens holds, all heads together.
    pub fn held(&self, tokens: f64, kv: Format) -> f64 {
        match self {
            Mixer::Grouped(mixer) => {
                let index = mixer.indexer.map_or(0.0, |indexer| indexer.key_bytes());
                mixer.token_bytes(kv) * mixer.reach.held(tokens) + index * tokens
            }
            Mixer::Latent(mixer) => {
                let index = mixer.indexer.map_or(0.0, |indexer| indexer.key_bytes());
                (mixer.token_bytes(kv) + index) * tokens
            }
            Mixer::Compressed(mixer) => {
                let entries = mixer.entries(tokens);
                mixer.token_bytes(kv) * (tokens.min(of(mixer.window)) + entries)
                    + mixer.index_bytes() * entries
            }
            Mixer::Linear(mixer) => mixer.state * 4.0,
        }
    }

    /// Of what a sequence holds, the share that every rank of `ranks` has under tensor
    /// parallelism: heads of keys are copied where there are fewer than ranks, latents always.
    pub fn held_share(&self, ranks: f64) -> f64 {
        match self {
            Mixer::Grouped(mixer) => 1.0 / ranks.min(of(mixer.kv_heads)),
            Mixer::Latent(_) | Mixer::Compressed(_) => 1.0,
            Mixer::Linear(_) => 1.0 / ranks,
        }
    }

    /// Whether each token chooses which of those before it are read.
    pub fn chooses(&self) -> bool {
        match self {
            Mixer::Grouped(mixer) => mixer.indexer.is_some(),
            Mixer::Latent(mixer) => mixer.indexer.is_some(),
            Mixer::Compressed(mixer) => mixer.indexer.is_some(),
            Mixer::Linear(_) => false,
        }
    }

    /// Bytes that a decode step reads for a sequence of `tokens` tokens, all heads together; of a
    /// linear state what it writes too.
    pub fn read_in_decode(&self, tokens: f64, kv: Format) -> f64 {
        match self {
            Mixer::Grouped(mixer) => {
                let seen = mixer.seen(tokens);
                let index = mixer.indexer.map_or(0.0, |indexer| indexer.key_bytes());
                mixer.token_bytes(kv) * seen + index * tokens
            }
            Mixer::Latent(mixer) => {
                let index = mixer.indexer.map_or(0.0, |indexer| indexer.key_bytes());
                mixer.token_bytes(kv) * mixer.seen(tokens) + index * tokens
            }
            Mixer::Compressed(mixer) => {
                mixer.token_bytes(kv) * mixer.seen(tokens)
                    + mixer.index_bytes() * mixer.entries(tokens)
            }
            Mixer::Linear(mixer) => 2.0 * mixer.state * 4.0,
        }
    }

    /// Operations of one token against `tokens` before it: scores, values and the indexer, all
    /// heads together. Latents are multiplied as they are (absorbed).
    pub fn operations_in_decode(&self, tokens: f64) -> f64 {
        match self {
            Mixer::Grouped(mixer) => {
                let pair = 2.0 * of(mixer.heads) * of(mixer.dim_qk + mixer.dim_v);
                let index = mixer.indexer.map_or(0.0, |indexer| indexer.operations());
                pair * mixer.seen(tokens) + index * tokens
            }
            Mixer::Latent(mixer) => {
                let pair = 2.0 * of(mixer.heads) * (2.0 * of(mixer.kv_rank) + of(mixer.rope));
                let index = mixer.indexer.map_or(0.0, |indexer| indexer.operations());
                pair * mixer.seen(tokens) + index * tokens
            }
            Mixer::Compressed(mixer) => {
                let pair = 4.0 * of(mixer.heads) * of(mixer.dim);
                let index = mixer.indexer.map_or(0.0, |indexer| indexer.operations());
                pair * mixer.seen(tokens) + index * mixer.entries(tokens)
            }
            Mixer::Linear(mixer) => 4.0 * mixer.state,
        }
    }

    /// Operations of `new` tokens after `old`: causal, all heads together. Latents are expanded.
    pub fn operations_in_prefill(&self, new: f64, old: f64) -> f64 {
        let chosen = |pairs: f64, indexer: &Option<Indexer>| {
            indexer.map_or((pairs, 0.0), |indexer| {
                (pairs.min(new * of(indexer.top)), indexer.operations() * pairs)
            })
        };
        match self {
            Mixer::Grouped(mixer) => {
                let (pairs, index) = chosen(mixer.reach.pairs(new, old), &mixer.indexer);
                2.0 * of(mixer.heads) * of(mixer.dim_qk + mixer.dim_v) * pairs + index
            }
            Mixer::Latent(mixer) => {
                let (pairs, index) = chosen(Reach::All.pairs(new, old), &mixer.indexer);
                2.0 * of(mixer.heads) * of(mixer.nope + mixer.rope + mixer.dim_v) * pairs + index
            }
            Mixer::Compressed(mixer) => {
                let near = Reach::Window(mixer.window).pairs(new, old);
                let entries = match mixer.ratio {
                    0 => 0.0,
                    ratio => Reach::All.pairs(new, old) / of(ratio),
                };
                let (far, index) = chosen(entries, &mixer.indexer);
                4.0 * of(mixer.heads) * of(mixer.dim) * (near + far) + index
            }
            Mixer::Linear(mixer) => 4.0 * mixer.state * new,
        }
    }
}

impl Grouped {
    fn parameters(&self, hidden: f64) -> f64 {
        let [heads, kv_heads] = [self.heads, self.kv_heads].map(of);
        let [dim_qk, dim_v] = [self.dim_qk, self.dim_v].map(of);
        let (queries, values) = (heads * dim_qk, kv_heads * (dim_qk + dim_v));
        let gate = if self.gate { hidden * heads * dim_v } else { 0.0 };
        let bias = [queries + values, hidden].into_iter().zip(self.bias);
        let bias: f64 = bias.filter(|(_, has)| *has).map(|(count, _)| count).sum();
        let index = self.indexer.map_or(0.0, |indexer| {
            // Its scores are not weighted by heads, and its queries come from the residual stream.
            hidden * of(indexer.heads) * of(indexer.dim) + hidden * of(indexer.dim)
        });
        hidden * (queries + values) + heads * dim_v * hidden + gate + bias + index
    }

    /// Bytes of one token's keys and values.
    pub fn token_bytes(&self, kv: Format) -> f64 {
        of(self.kv_heads) * of(self.dim_qk + self.dim_v) * kv.bytes()
    }

    fn seen(&self, tokens: f64) -> f64 {
        let top = self.indexer.map_or(f64::INFINITY, |indexer| of(indexer.top));
        self.reach.seen(tokens).min(top)
    }
}

impl Latent {
    fn parameters(&self, hidden: f64) -> f64 {
        let heads = of(self.heads);
        let [kv_rank, nope, rope] = [self.kv_rank, self.nope, self.rope].map(of);
        let dim_v = of(self.dim_v);
        let queries = heads * (nope + rope);
        let queries = match self.q_rank {
            Some(rank) => (hidden + queries) * of(rank),
            None => hidden * queries,
        };
        let keys = hidden * (kv_rank + rope) + kv_rank * heads * (nope + dim_v);
        let out = heads * dim_v * hidden * if self.gate { 2.0 } else { 1.0 };
        let q_rank = self.q_rank.map_or(hidden, of);
        let index = self.indexer.map_or(0.0, |indexer| indexer.parameters(hidden, q_rank));
        queries + keys + out + index
    }

    /// Bytes of one token's latent.
    pub fn token_bytes(&self, kv: Format) -> f64 {
        match (kv, self.indexer) {
            (Format::Fp8, Some(_)) if self.kv_rank == 512 && self.rope == 64 => SPARSE_LATENT_FP8,
            _ => (of(self.kv_rank) + of(self.rope)) * kv.bytes(),
        }
    }

    fn seen(&self, tokens: f64) -> f64 {
        self.indexer.map_or(tokens, |indexer| tokens.min(of(indexer.top)))
    }
}

impl Compressed {
    fn parameters(&self, hidden: f64) -> f64 {
        let [heads, dim, q_rank] = [self.heads, self.dim, self.q_rank].map(of);
        let [groups, out_rank] = [self.out_groups, self.out_rank].map(of);
        let queries = (hidden + heads * dim) * q_rank;
        let out = heads * dim * out_rank + groups * out_rank * hidden;
        // An entry is a weighted sum: values and weights are projected. Entries of 4 tokens
        // overlap, which doubles both.
        let overlap = if self.indexer.is_some() { 2.0 } else { 1.0 };
        let pooled = |dim: f64| 2.0 * overlap * hidden * dim;
        let compressor = if self.ratio == 0 { 0.0 } else { pooled(dim) };
        let index = self.indexer.map_or(0.0, |indexer| {
            let (heads, dim) = (of(indexer.heads), of(indexer.dim));
            q_rank * heads * dim + hidden * heads + pooled(dim)
        });
        queries + hidden * dim + out + compressor + index
    }

    /// Entries that stand for `tokens` tokens.
    pub fn entries(&self, tokens: f64) -> f64 {
        if self.ratio == 0 { 0.0 } else { tokens / of(self.ratio) }
    }

    fn seen(&self, tokens: f64) -> f64 {
        let top = self.indexer.map_or(f64::INFINITY, |indexer| of(indexer.top));
        tokens.min(of(self.window)) + self.entries(tokens).min(top)
    }

    /// Bytes of one entry.
    pub fn token_bytes(&self, kv: Format) -> f64 {
        of(self.dim) * kv.bytes()
    }

    fn index_bytes(&self) -> f64 {
        self.indexer.map_or(0.0, |indexer| of(indexer.dim) * INDEX_KEY_NARROW)
    }
}
