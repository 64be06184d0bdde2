//! What one device has to do in a step, operation by operation.

use super::layout::Split;
use fizeau_domain::model::{
    Compressed, Dense, FeedForward, Format, Latent, Layers, Mixer, Mixture, Model, Module,
};

/// What a step does for its sequences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phase {
    /// One token more for each sequence with a context.
    Decode {
        /// Tokens before it.
        context: f64,
    },
    /// Several tokens of each sequence at once, against the same context: drafted tokens that the
    /// model checks, and the one that it adds.
    Verify {
        /// Tokens before them.
        context: f64,
        /// Tokens of each sequence.
        tokens: f64,
    },
    /// The prompt of each sequence.
    Prefill {
        /// Tokens of the prompt that are new.
        new: f64,
        /// Tokens before them whose keys and values are there.
        old: f64,
    },
}

/// Which experts tokens go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// All to the same, and to those of the device that they are on: the fewest bytes. A bound.
    Best,
    /// Each to its own by chance: an expectation.
    Chance,
}

/// A step of one copy of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// What it does.
    pub phase: Phase,
    /// Sequences of the whole copy.
    pub sequences: f64,
    /// How the copy is spread.
    pub split: Split,
    /// In what keys and values are stored.
    pub kv: Format,
    /// Which experts tokens go to.
    pub routing: Routing,
}

/// What kind of work an operation is, with the shape that measurements are looked up by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A matrix product of tokens x outputs x inputs.
    Gemm([f64; 3]),
    /// Products of all experts that are touched: rows in all, outputs, inputs, experts.
    Grouped([f64; 4]),
    /// Attention over a KV cache; linear attention over its state.
    Attention {
        /// Whether prompts are read.
        is_prefill: bool,
    },
    /// The sum over all devices of a copy, of this many bytes.
    AllReduce(f64),
    /// Tokens to the devices of their experts, or back: bytes that one device sends.
    AllToAll(f64),
    /// Activations of this many bytes from a stage of a pipeline to the next.
    Send(f64),
    /// Kernels with next to nothing to do: norms, rotations, activations. Neither their bytes nor
    /// their arithmetic count; what starting them takes does (L2).
    Small,
}

/// One operation of a step on one device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operation {
    /// For reports.
    pub name: &'static str,
    /// How often it happens in a step.
    pub count: f64,
    /// Bytes that come from memory, each time.
    pub bytes: f64,
    /// The same where all tokens choose the same experts: fewer for experts alone.
    pub agreed_bytes: f64,
    /// Arithmetic, each time.
    pub flops: f64,
    /// In what its operands are stored.
    pub format: Format,
    /// What kind of work it is.
    pub kind: Kind,
}

/// Bytes of a number that devices exchange: activations are summed in 16 bits.
const EXCHANGED: f64 = 2.0;

/// Bytes of a number of a token on its way to experts: 8 bits, and a scale of 32 bits for 128
/// (DeepEP).
const DISPATCHED: f64 = 1.0 + 4.0 / 128.0;

/// A norm and the sum with the residual before it, in one kernel (vLLM's `fused_add_rms_norm`,
/// <https://github.com/vllm-project/vllm/blob/main/csrc/layernorm_kernels.cu>). Where devices sum
/// before it, the sum's kernel does it too (TensorRT-LLM's, in SGLang since
/// <https://github.com/sgl-project/sglang/pull/7621>), so that it counts as none.
const NORM: u32 = 1;

/// The rotation of queries and keys and the writing of the cache, in one kernel (TensorRT-LLM's
/// `applyBiasRopeUpdateKVCache`, in NVIDIA/TensorRT-LLM,
/// cpp/tensorrt_llm/kernels/unfusedAttentionKernels.h).
const ROTATION: u32 = 1;

/// Of latent attention two more: the norm of its latents, and the second of the two products with
/// keys' and values' weights that decode does (DeepSeek-V3,
/// <https://github.com/vllm-project/vllm/blob/main/vllm/model_executor/layers/mla.py>).
const LATENT: u32 = 2;

/// Of a sparse indexer two: the scores of keys and the choice among them
/// (<https://github.com/vllm-project/vllm/blob/main/vllm/model_executor/models/deepseek_v2.py>).
const INDEXER: u32 = 2;

/// Of linear attention two beside its products and its state: the convolution, and the norm of what
/// it gives (vllm-project/vllm, vllm/model_executor/models/qwen3_next.py).
const LINEAR: u32 = 2;

/// The activation between the products of a feed-forward layer (vLLM's `silu_and_mul`,
/// <https://github.com/vllm-project/vllm/blob/main/csrc/activation_kernels.cu>). Experts' kernels
/// do their own, and choose experts.
const ACTIVATION: u32 = 1;

/// Kernels of a mixing layer beside its products, attention and messages, as few as engines have
/// that fuse them; the norm before it not counted.
fn small_of(mixer: &Mixer) -> u32 {
    let indexer = |has: bool| if has { INDEXER } else { 0 };
    match mixer {
        Mixer::Grouped(mixer) => ROTATION + indexer(mixer.indexer.is_some()),
        Mixer::Latent(mixer) => ROTATION + LATENT + indexer(mixer.indexer.is_some()),
        Mixer::Compressed(mixer) => ROTATION + LATENT + indexer(mixer.indexer.is_some()),
        Mixer::Linear(_) => LINEAR,
    }
}

fn number(of: u32) -> f64 {
    f64::from(of)
}

struct Builder<'a> {
    model: &'a Model,
    work: Work,
    /// Tokens that one device puts through what is not dealt out.
    tokens: f64,
    /// Tokens that choose experts together.
    all_tokens: f64,
    /// By how many heads and widths are divided.
    cut: f64,
    /// By how much every count is larger than in the model: the stage of a pipeline with the most
    /// layers sets the pace of all.
    pace: f64,
    operations: Vec<Operation>,
}

/// The operations of a step on one device. In a pipeline these are those that one group of
/// sequences meets on its way through all stages: while it is in one of them the other groups are
/// in the others, so that this is the time from one token of a sequence to its next.
pub fn operations(model: &Model, work: Work) -> Vec<Operation> {
    let each = match work.phase {
        Phase::Decode { .. } => 1.0,
        Phase::Verify { tokens, .. } => tokens,
        Phase::Prefill { new, .. } => new,
    };
    let (all, held) = (work.sequences * each, held_sequences(&work) * each);
    let group = number(work.split.group());
    let (tokens, all_tokens, cut) = match work.split {
        Split::Tensor(_) | Split::Even(_) => (all, all, group),
        Split::Expert(_) => (held, all, 1.0),
        Split::Pipeline { .. } => (held, held, group),
    };
    let pace = match work.routing {
        Routing::Best => 1.0,
        Routing::Chance => work.split.pace(model.layer_count()),
    };
    let operations = Vec::with_capacity(64);
    let mut builder = Builder { model, work, tokens, all_tokens, cut, pace, operations };
    for layers in &model.layers {
        builder.mixer(layers);
        builder.feed_forward(layers);
    }
    builder.pace = 1.0;
    builder.head();
    builder.sends();
    builder.operations
}

/// Sequences whose keys and values one device of a copy has while it works on a layer. By chance
/// one device has the rest of an uneven division; as a bound all have the mean.
fn held_sequences(work: &Work) -> f64 {
    let parts = match work.split {
        Split::Tensor(_) | Split::Even(_) => return work.sequences,
        Split::Expert(n) => n,
        Split::Pipeline { stages, .. } => stages,
    };
    let mean = work.sequences / number(parts);
    match work.routing {
        Routing::Best => mean,
        Routing::Chance => mean.ceil(),
    }
}

impl Builder<'_> {
    fn hidden(&self) -> f64 {
        number(self.model.hidden)
    }

    fn push(&mut self, operation: Operation) {
        if operation.count > 0.0 {
            let count = operation.count * self.pace;
            self.operations.push(Operation { count, ..operation });
        }
    }

    /// Kernels with next to nothing to do: `each` of them for each of `count` layers, beside the
    /// norm before the layer.
    fn small(&mut self, name: &'static str, count: u32, each: u32) {
        let is_summed =
            matches!(self.work.split, Split::Tensor(2..) | Split::Pipeline { tensor: 2.., .. });
        let norm = if is_summed { 0 } else { NORM };
        self.push(Operation {
            name,
            count: number(count * (each + norm)),
            bytes: 0.0,
            agreed_bytes: 0.0,
            flops: 0.0,
            format: Format::Bf16,
            kind: Kind::Small,
        });
    }

    /// A product of `tokens` x `n` x `k` with weights of a module.
    fn gemm(&mut self, name: &'static str, count: u32, module: Module, [m, n, k]: [f64; 3]) {
        let format = self.model.precision.of(module);
        if n * k > 0.0 {
            self.push(Operation {
                name,
                count: number(count),
                bytes: n * k * format.bytes(),
                agreed_bytes: n * k * format.bytes(),
                flops: 2.0 * m * n * k,
                format,
                kind: Kind::Gemm([m, n, k]),
            });
        }
    }

    fn mixer(&mut self, layers: &Layers) {
        let Some(mixer) = &layers.mixer else { return };
        for (name, [n, k]) in products(mixer, self.hidden(), self.cut, self.work.split) {
            self.gemm(name, layers.count, Module::Attention, [self.tokens, n, k]);
        }
        let sequences = held_sequences(&self.work);
        let share = match self.work.split {
            Split::Tensor(n) | Split::Pipeline { tensor: n, .. } => mixer.held_share(number(n)),
            Split::Even(n) => 1.0 / number(n),
            Split::Expert(_) => 1.0,
        };
        let kv = self.work.kv;
        let (bytes, flops, is_prefill) = match self.work.phase {
            Phase::Decode { context } => {
                (mixer.read_in_decode(context, kv), mixer.operations_in_decode(context), false)
            }
            Phase::Verify { context, tokens } => {
                let once = mixer.read_in_decode(context, kv);
                // Tokens that choose what they read choose the same at best.
                let bytes = match (self.work.routing, mixer.chooses()) {
                    (Routing::Chance, true) => {
                        (once * tokens).min(mixer.held(context, kv)).max(once)
                    }
                    _ => once,
                };
                (bytes, mixer.operations_in_decode(context) * tokens, false)
            }
            Phase::Prefill { new, old } => {
                (mixer.held(new + old, kv), mixer.operations_in_prefill(new, old), true)
            }
        };
        self.push(Operation {
            name: match mixer {
                Mixer::Linear(_) => "linear attention",
                _ => "attention",
            },
            count: number(layers.count),
            bytes: sequences * bytes * share,
            agreed_bytes: sequences * bytes * share,
            flops: sequences * flops / self.cut,
            format: kv,
            kind: Kind::Attention { is_prefill },
        });
        self.small("norms and rotations", layers.count, small_of(mixer));
        self.all_reduce(layers.count);
    }

    fn all_reduce(&mut self, count: u32) {
        if let Split::Tensor(2..) | Split::Pipeline { tensor: 2.., .. } = self.work.split {
            let bytes = self.tokens * self.hidden() * EXCHANGED;
            self.push(Operation {
                name: "all_reduce",
                count: number(count),
                bytes: 0.0,
                agreed_bytes: 0.0,
                flops: 0.0,
                format: Format::Bf16,
                kind: Kind::AllReduce(bytes),
            });
        }
    }

    fn feed_forward(&mut self, layers: &Layers) {
        match &layers.feed_forward {
            None => return,
            Some(FeedForward::Dense(dense)) => {
                self.dense(layers.count, Module::Dense, *dense, ["gate and up", "down"]);
                self.small("norms and activations", layers.count, ACTIVATION);
            }
            Some(FeedForward::Mixture(mixture)) => {
                self.mixture(layers.count, mixture);
                self.small("norms and activations", layers.count, 0);
            }
        }
        self.all_reduce(layers.count);
    }

    fn dense(&mut self, count: u32, module: Module, dense: Dense, names: [&'static str; 2]) {
        let (hidden, inner) = (self.hidden(), number(dense.inner) / self.cut);
        let first = number(dense.matrices - 1) * inner;
        self.gemm(names[0], count, module, [self.tokens, first, hidden]);
        self.gemm(names[1], count, module, [self.tokens, hidden, inner]);
    }

    fn mixture(&mut self, count: u32, mixture: &Mixture) {
        let hidden = self.hidden();
        let router = number(mixture.experts);
        let router = if let Split::Even(n) = self.work.split { router / number(n) } else { router };
        self.gemm("router", count, Module::Router, [self.tokens, router, hidden]);
        let shared = Dense { inner: mixture.shared, matrices: mixture.matrices };
        self.dense(count, Module::Shared, shared, ["shared gate and up", "shared down"]);
        let width = mixture.width(hidden);
        if mixture.latent.is_some() {
            let cut = self.cut;
            self.gemm("to latent", count, Module::Shared, [self.tokens, width / cut, hidden]);
            self.gemm("from latent", count, Module::Shared, [self.tokens, hidden / cut, width]);
        }
        let devices = number(self.work.split.group());
        // Each place of an expert is read, and reached, as if it were an expert of its own.
        let mut mixture = mixture.clone();
        if let Split::Expert(devices) = self.work.split {
            mixture.experts = mixture.held_by(devices) as u32 * devices;
        }
        let touched = match self.work.routing {
            Routing::Best => mixture.touched_at_least(),
            Routing::Chance => mixture.touched_by_chance(self.all_tokens),
        };
        let agreed = mixture.touched_at_least() / touched.max(f64::MIN_POSITIVE);
        let format = self.model.precision.of(Module::Experts);
        let rows = self.all_tokens * number(mixture.chosen);
        let inner = number(mixture.inner);
        // Tensor parallelism cuts every expert; else each device has some experts whole.
        let (groups, rows, cut) = match self.work.split {
            Split::Tensor(_) | Split::Pipeline { .. } => (touched, rows, devices),
            Split::Expert(_) | Split::Even(_) => (touched / devices, rows / devices, 1.0),
        };
        let first = number(mixture.matrices - 1) * inner / cut;
        for (name, n, k) in
            [("experts gate and up", first, width), ("experts down", width, inner / cut)]
        {
            self.push(Operation {
                name,
                count: number(count),
                bytes: groups * n * k * format.bytes(),
                agreed_bytes: groups * n * k * format.bytes() * agreed.min(1.0),
                flops: 2.0 * rows * n * k,
                format,
                kind: Kind::Grouped([rows, n, k, groups]),
            });
        }
        self.exchange(count, &mixture, width);
    }

    /// Tokens to their experts' devices and back.
    fn exchange(&mut self, count: u32, mixture: &Mixture, width: f64) {
        let Split::Expert(devices @ 2..) = self.work.split else { return };
        let remote = match self.work.routing {
            Routing::Best => mixture.remote_at_least(devices),
            Routing::Chance => mixture.remote_by_chance(devices),
        };
        for (name, each) in [("dispatch", DISPATCHED), ("combine", EXCHANGED)] {
            self.push(Operation {
                name,
                count: number(count),
                bytes: 0.0,
                agreed_bytes: 0.0,
                flops: 0.0,
                format: Format::Bf16,
                kind: Kind::AllToAll(self.tokens * remote * width * each),
            });
        }
    }

    /// Activations from each stage to the next. As a bound each device of a stage sends its part.
    fn sends(&mut self) {
        let Split::Pipeline { tensor, stages } = self.work.split else { return };
        let parts = match self.work.routing {
            Routing::Best => number(tensor),
            Routing::Chance => 1.0,
        };
        self.push(Operation {
            name: "to the next stage",
            count: number(stages - 1),
            bytes: 0.0,
            agreed_bytes: 0.0,
            flops: 0.0,
            format: Format::Bf16,
            kind: Kind::Send(self.tokens * self.hidden() * EXCHANGED / parts),
        });
    }

    /// The output layer, for the last token of each sequence; for every token that is checked.
    fn head(&mut self) {
        let each = match self.work.phase {
            Phase::Verify { tokens, .. } => tokens,
            Phase::Decode { .. } | Phase::Prefill { .. } => 1.0,
        };
        let tokens = held_sequences(&self.work) * each;
        let rows = number(self.model.vocabulary) / self.cut;
        // A tied output layer is stored as the embedding is.
        let module = if self.model.is_tied { Module::Embedding } else { Module::Head };
        let hidden = self.hidden();
        self.gemm("output layer", 1, module, [tokens, rows, hidden]);
    }
}

/// Products by name, each outputs x inputs.
type Products = Vec<(&'static str, [f64; 2])>;

/// The products of a layer that mixes, each outputs x inputs on one device of `cut`.
fn products(mixer: &Mixer, hidden: f64, cut: f64, split: Split) -> Products {
    // What tensor parallelism copies, an even division divides.
    let whole = if let Split::Even(n) = split { number(n) } else { 1.0 };
    match mixer {
        Mixer::Grouped(mixer) => {
            let heads = number(mixer.heads) / cut;
            let kv_heads = match split {
                Split::Even(_) => number(mixer.kv_heads) / cut,
                _ => (number(mixer.kv_heads) / cut).max(1.0),
            };
            let (dim_qk, dim_v) = (number(mixer.dim_qk), number(mixer.dim_v));
            let gate = if mixer.gate { heads * dim_v } else { 0.0 };
            let qkv = heads * dim_qk + kv_heads * (dim_qk + dim_v) + gate;
            let index = mixer
                .indexer
                .map_or(0.0, |indexer| number(indexer.dim) * (number(indexer.heads) + 1.0) / whole);
            vec![
                ("qkv", [qkv, hidden]),
                ("attention output", [hidden, heads * dim_v]),
                ("indexer", [index, hidden]),
            ]
        }
        Mixer::Latent(mixer) => latent_products(mixer, hidden, cut, whole),
        Mixer::Compressed(mixer) => compressed_products(mixer, hidden, cut, whole),
        // Projections in and out as one: a half is as wide as the other is deep.
        Mixer::Linear(mixer) => {
            vec![("linear attention projections", [mixer.parameters / hidden / cut, hidden])]
        }
    }
}

fn latent_products(mixer: &Latent, hidden: f64, cut: f64, whole: f64) -> Products {
    let heads = number(mixer.heads) / cut;
    let [kv_rank, nope, rope] = [mixer.kv_rank, mixer.nope, mixer.rope].map(number);
    let dim_v = number(mixer.dim_v);
    let queries = heads * (nope + rope);
    let mut list = match mixer.q_rank {
        Some(rank) => {
            let rank = number(rank);
            vec![
                ("latents", [(rank + kv_rank + rope) / whole, hidden]),
                ("queries", [queries, rank]),
            ]
        }
        None => vec![("queries and latent", [queries + (kv_rank + rope) / whole, hidden])],
    };
    // Decode multiplies queries and outputs with these, prefill the latents: as much.
    list.push(("keys and values", [heads * (nope + dim_v), kv_rank]));
    list.push(("attention output", [hidden, heads * dim_v]));
    if mixer.gate {
        list.push(("gate", [heads * dim_v, hidden]));
    }
    if let Some(indexer) = mixer.indexer.filter(|indexer| indexer.is_own) {
        let (heads, dim) = (number(indexer.heads), number(indexer.dim));
        let rank = mixer.q_rank.map_or(hidden, number);
        list.push(("indexer queries", [heads * dim / whole, rank]));
        list.push(("indexer", [(dim + heads) / whole, hidden]));
    }
    list
}

fn compressed_products(mixer: &Compressed, hidden: f64, cut: f64, whole: f64) -> Products {
    let heads = number(mixer.heads) / cut;
    let [dim, q_rank] = [mixer.dim, mixer.q_rank].map(number);
    let [groups, rank] = [mixer.out_groups, mixer.out_rank].map(number);
    let overlap = if mixer.indexer.is_some() { 4.0 } else { 2.0 };
    let pooled = if mixer.ratio == 0 { 0.0 } else { overlap * dim };
    let mut list = vec![
        ("latents", [(q_rank + dim + pooled) / whole, hidden]),
        ("queries", [heads * dim, q_rank]),
        ("output groups", [rank, heads * dim]),
        ("attention output", [hidden, groups * rank / cut]),
    ];
    if let Some(indexer) = mixer.indexer {
        let (heads, dim) = (number(indexer.heads), number(indexer.dim));
        list.push(("indexer queries", [heads * dim / whole, q_rank]));
        list.push(("indexer", [(heads + overlap * dim) / whole, hidden]));
    }
    list
}
