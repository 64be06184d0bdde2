//! The shapes of a model as a suite that `fizeau run` takes, and those that a record lacks most.

use super::{
    layout::{Layout, Split},
    operation::{Kind, Operation, Phase, Routing, Work, operations},
    step::{Row, Step},
    sweep::Scenario,
};
use fizeau_domain::{
    case::{AttentionKind, Mask, limits},
    dtype::Dtype,
    model::{FeedForward, Mixer, Model, Reach},
};
use std::{collections::BTreeSet, fmt::Write as _};

/// The shapes that steps of a model have on one device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shapes {
    /// Element type, and rows x outputs x inputs.
    pub products: BTreeSet<(Dtype, [u32; 3])>,
    /// Element type, and rows in all x outputs x inputs x experts.
    pub grouped: BTreeSet<(Dtype, [u32; 4])>,
    /// Attention.
    pub attention: BTreeSet<AttentionShape>,
    /// Bytes that are summed over devices.
    pub sums: BTreeSet<u64>,
    /// Bytes that devices exchange for experts.
    pub exchanges: BTreeSet<u64>,
    /// Bytes from a stage of a pipeline to the next.
    pub sends: BTreeSet<u64>,
    /// What no suite can measure, in words.
    pub left_out: BTreeSet<String>,
}

/// Which products of a layer that read the same input are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forms {
    /// Those that engines put together are one: queries, keys and values; gate and up. What
    /// projections look up.
    Fused,
    /// Each is its own.
    Separate,
    /// Both.
    Both,
}

/// Attention of one layer on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttentionShape {
    kind: &'static str,
    mask: Mask,
    is_narrow: bool,
    batch: u32,
    heads: u32,
    kv_heads: u32,
    queries: u32,
    keys: u32,
    dim_qk: u32,
    dim_v: u32,
}

fn whole(number: f64) -> u32 {
    number.round().clamp(1.0, f64::from(u32::MAX)) as u32
}

impl Shapes {
    /// The shapes of a layout: decode with each number of requests at once, and one prompt.
    pub fn of(
        model: &Model,
        layout: Layout,
        scenario: &Scenario,
        concurrency: &[u32],
        forms: Forms,
    ) -> Shapes {
        let mut shapes = Shapes::default();
        let routing = Routing::Chance;
        for &requests in concurrency {
            let sequences = f64::from(requests.div_ceil(layout.replicas));
            let phase = Phase::Decode { context: scenario.middle() };
            let work = scenario.work(layout.split, phase, sequences);
            shapes.add(model, Work { routing, ..work }, forms);
        }
        let new = f64::from(scenario.input - scenario.prefix);
        let phase = Phase::Prefill { new, old: f64::from(scenario.prefix) };
        shapes.add(model, scenario.work(layout.split, phase, 1.0), forms);
        shapes
    }

    fn add(&mut self, model: &Model, work: Work, forms: Forms) {
        for operation in operations(model, work) {
            let parts = parts(model, work.split, &operation);
            if forms == Forms::Fused || parts.is_empty() || forms == Forms::Both {
                self.add_operation(&operation);
            }
            if forms != Forms::Fused {
                parts.iter().for_each(|part| self.add_operation(part));
            }
        }
        for layers in &model.layers {
            if let Some(mixer) = &layers.mixer {
                self.add_attention(mixer, &work);
            }
        }
    }

    fn add_operation(&mut self, operation: &Operation) {
        let dtype = operation.format.measured_as();
        match operation.kind {
            Kind::Gemm(shape) => {
                self.products.insert((dtype, shape.map(whole)));
            }
            Kind::Grouped([rows, n, k, groups]) => {
                let [rows, groups] = [whole(rows), whole(groups)];
                self.grouped.insert((dtype, [rows.max(groups), whole(n), whole(k), groups]));
            }
            Kind::AllReduce(bytes) => {
                self.sums.insert(bytes as u64);
            }
            Kind::AllToAll(bytes) => {
                self.exchanges.insert(bytes as u64);
            }
            Kind::Send(bytes) => {
                self.sends.insert(bytes as u64);
            }
            Kind::Attention { .. } | Kind::Small => {}
        }
    }

    fn add_attention(&mut self, mixer: &Mixer, work: &Work) {
        let cut = match work.split {
            Split::Tensor(n) | Split::Pipeline { tensor: n, .. } => n,
            Split::Expert(_) | Split::Even(_) => 1,
        };
        let sequences = work.sequences / f64::from(work.split.prompts());
        let (queries, tokens, is_prefill) = match work.phase {
            Phase::Decode { context } => (1, context, false),
            Phase::Verify { context, tokens } => (whole(tokens), context, false),
            Phase::Prefill { new, old } => (whole(new), new + old, true),
        };
        let is_narrow = work.kv.measured_as() == Dtype::Fp8;
        let plain = if is_prefill { Mask::Causal } else { Mask::Full };
        let shape = match mixer {
            Mixer::Grouped(mixer) => {
                // A token of decode stands anywhere in its chunk: it sees half of one on average.
                let (mask, keys) = match mixer.reach {
                    Reach::Window(window) if tokens > f64::from(window) => {
                        (Mask::Window(window), tokens)
                    }
                    Reach::Chunk(chunk) if is_prefill && tokens > f64::from(chunk) => {
                        (Mask::Chunk(chunk), tokens)
                    }
                    Reach::Chunk(_) if is_prefill => (plain, tokens),
                    reach => (plain, reach.seen(tokens)),
                };
                AttentionShape {
                    kind: if is_prefill { "prefill" } else { "decode" },
                    mask,
                    is_narrow,
                    batch: whole(sequences.ceil()),
                    heads: (mixer.heads / cut).max(1),
                    kv_heads: (mixer.kv_heads / cut).max(1),
                    queries,
                    keys: whole(keys.max(f64::from(queries))),
                    dim_qk: mixer.dim_qk,
                    dim_v: mixer.dim_v,
                }
            }
            Mixer::Latent(mixer) if is_prefill => AttentionShape {
                kind: "prefill",
                mask: plain,
                is_narrow,
                batch: whole(sequences.ceil()),
                heads: (mixer.heads / cut).max(1),
                kv_heads: (mixer.heads / cut).max(1),
                queries,
                keys: whole(tokens),
                dim_qk: mixer.nope + mixer.rope,
                dim_v: mixer.dim_v,
            },
            Mixer::Latent(mixer) => AttentionShape {
                kind: "mla",
                mask: plain,
                is_narrow,
                batch: whole(sequences.ceil()),
                heads: (mixer.heads / cut).max(1),
                kv_heads: 1,
                queries,
                keys: whole(mixer.indexer.map_or(tokens, |i| tokens.min(f64::from(i.top)))),
                dim_qk: mixer.kv_rank + mixer.rope,
                dim_v: mixer.kv_rank,
            },
            Mixer::Compressed(_) => {
                self.left_out.insert("attention over compressed tokens".into());
                return;
            }
            Mixer::Linear(mixer) => {
                self.left_out.insert(format!("linear attention ({})", mixer.kind));
                return;
            }
        };
        self.attention.insert(shape);
    }

    /// As a suite that `fizeau run --suite FILE` takes. A matrix product of one element type; what
    /// is stored in others is in `left_out`.
    pub fn suite(&self, name: &str, description: &str) -> String {
        let mut text = format!(
            "name = {name:?}\ndescription = {description:?}\n\n[measure]\nsamples_min = 10\n\
             samples_max = 1000\nnoise_max = 0.01\ntime_min = 0.05\ntime_max = 0.5\n\
             warmup_max = 0.3\nsample_min = 0.0002\ndeadline = 60.0\n"
        );
        let dtypes = |all: BTreeSet<Dtype>| {
            all.iter()
                .map(|dtype| format!("{:?}", dtype.to_string()))
                .collect::<Vec<_>>()
                .join(", ")
        };
        text.push_str(&limits_of_a_host(&dtypes(self.arithmetic())));
        if !self.products.is_empty() {
            let types = dtypes(self.products.iter().map(|(dtype, _)| *dtype).collect());
            let shapes: BTreeSet<_> = self.products.iter().map(|(_, shape)| shape).collect();
            let _ = write!(text, "\n# Tokens x outputs x inputs.\n[gemm]\ndtypes = [{types}]\n");
            text.push_str("# Weights as a linear layer holds them.\nlayouts = [\"nt\"]\n");
            let _ = write!(text, "shapes = [\n{}]\n", rows(shapes.into_iter()));
        }
        if !self.grouped.is_empty() {
            let types = dtypes(self.grouped.iter().map(|(dtype, _)| *dtype).collect());
            let shapes: BTreeSet<_> = self.grouped.iter().map(|(_, shape)| shape).collect();
            let _ = write!(text, "\n# Rows of all experts x outputs x inputs x experts.\n");
            let _ = write!(text, "[grouped]\ndtypes = [{types}]\nroutings = [\"balanced\"]\n");
            let _ = write!(text, "shapes = [\n{}]\n", rows(shapes.into_iter()));
        }
        for shape in &self.attention {
            text.push_str(&shape.table());
        }
        self.messages(&mut text);
        text
    }

    /// Element types of all products, and 32-bit floats, which any operands may be widened to.
    fn arithmetic(&self) -> BTreeSet<Dtype> {
        let products = self.products.iter().map(|(dtype, _)| *dtype);
        let grouped = self.grouped.iter().map(|(dtype, _)| *dtype);
        products.chain(grouped).chain([Dtype::F32]).collect()
    }

    fn messages(&self, text: &mut String) {
        let mut list = Vec::new();
        if !self.sums.is_empty() {
            list.push("\"all_reduce\"");
        }
        if !self.exchanges.is_empty() {
            list.push("\"all_to_all\"");
        }
        if !self.sends.is_empty() {
            list.push("\"send_receive\"");
        }
        // Messages are of whole elements on every rank.
        let round = |bytes: &u64| (bytes / 4096).max(1) * 4096;
        let all = self.sums.iter().chain(&self.exchanges).chain(&self.sends);
        let sizes: BTreeSet<u64> = all.map(round).collect();
        let sizes: Vec<_> =
            sizes.into_iter().filter(|size| *size <= limits::MESSAGE_MAX.0).collect();
        let (Some(from), Some(to)) = (sizes.first(), sizes.last()) else { return };
        let quoted = sizes.iter().map(|size| format!("\"{size}\"")).collect::<Vec<_>>().join(", ");
        let _ = write!(
            text,
            "\n# Bytes, rounded down to 4 KiB.\n[collective]\ncollectives = [{}]\n\
             dtypes = [\"bf16\"]\nfrom = \"{from}\"\nto = \"{to}\"\nfactor = 2\n\
             sizes = [{quoted}]\nplaces = [\"out_of_place\"]\n",
            list.join(", ")
        );
    }
}

/// The products that an engine without fused ones does in the place of one: queries, keys and
/// values; gate and up. Nothing where there is but one.
fn parts(model: &Model, split: Split, operation: &Operation) -> Vec<Operation> {
    let of = |shape: [f64; 3]| Operation { kind: Kind::Gemm(shape), ..*operation };
    let halves = |n: f64| n / 2.0;
    match (operation.name, operation.kind) {
        ("gate and up" | "shared gate and up", Kind::Gemm([m, n, k])) if has_gate(model) => {
            vec![of([m, halves(n), k])]
        }
        ("experts gate and up", Kind::Grouped([rows, n, k, groups])) if has_gate(model) => {
            vec![Operation { kind: Kind::Grouped([rows, halves(n), k, groups]), ..*operation }]
        }
        ("qkv", Kind::Gemm([m, n, k])) => {
            let cut = f64::from(split.group());
            let cut = if matches!(split, Split::Expert(_)) { 1.0 } else { cut };
            let mixers = model.layers.iter().filter_map(|layers| match &layers.mixer {
                Some(Mixer::Grouped(mixer)) => Some(mixer),
                _ => None,
            });
            let outputs = mixers.flat_map(|mixer| {
                let heads = f64::from(mixer.heads) / cut;
                let kv_heads = (f64::from(mixer.kv_heads) / cut).max(1.0);
                let [qk, v] = [mixer.dim_qk, mixer.dim_v].map(f64::from);
                let gate = if mixer.gate { heads * v } else { 0.0 };
                let all = heads * qk + kv_heads * (qk + v) + gate;
                // Of a model with several kinds of layers, those that make up this one.
                let wanted = if all == n {
                    vec![heads * qk, kv_heads * qk, kv_heads * v, gate]
                } else {
                    Vec::new()
                };
                wanted.into_iter().filter(|n| *n > 0.0)
            });
            outputs.map(|n| of([m, n, k])).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether feed-forward layers have a gate.
fn has_gate(model: &Model) -> bool {
    model.layers.iter().any(|layers| match &layers.feed_forward {
        Some(FeedForward::Dense(dense)) => dense.matrices == 3,
        Some(FeedForward::Mixture(mixture)) => mixture.matrices == 3,
        None => false,
    })
}

/// What a record needs to be hardware where no datasheet is (`Hardware::of_record`): streams over
/// memory, and arithmetic from registers.
fn limits_of_a_host(dtypes: &str) -> String {
    format!(
        "\n# Limits of memory and arithmetic, for a device that no datasheet has.\n[compute]\n\
         dtypes = [{dtypes}]\n\n[stream]\nmemory = [\"read\", \"triad\"]\nscaling = []\n\
         sweep = []\nsweep_units = [\"one\"]\nsweep_points_per_octave = 1\n"
    )
}

fn rows<'a, const N: usize>(shapes: impl Iterator<Item = &'a [u32; N]>) -> String {
    let row = |shape: &[u32; N]| {
        let numbers = shape.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        format!("    [{numbers}],\n")
    };
    shapes.map(row).collect()
}

impl AttentionShape {
    fn table(&self) -> String {
        let AttentionShape { kind, batch, heads, kv_heads, queries, keys, .. } = self;
        let mask = match self.mask {
            Mask::Full | Mask::Causal => format!("\"{}\"", self.mask),
            Mask::Window(window) => format!("{{ window = {window} }}"),
            Mask::Chunk(chunk) => format!("{{ chunk = {chunk} }}"),
        };
        let dtype = if self.is_narrow { "fp8" } else { "bf16" };
        format!(
            "\n[[attention]]\nattention = {kind:?}\ndtype = {dtype:?}\nbatch = {batch}\n\
             heads = {heads}\nkv_heads = {kv_heads}\nqueries = {queries}\nkeys = {keys}\n\
             dim_qk = {}\ndim_v = {}\nmask = {mask}\n",
            self.dim_qk, self.dim_v
        )
    }

    /// The kind that cases have, for tests.
    pub fn kind(&self) -> (AttentionKind, Mask) {
        let kind = match self.kind {
            "prefill" => AttentionKind::Prefill,
            "mla" => AttentionKind::Mla,
            _ => AttentionKind::Decode,
        };
        (kind, self.mask)
    }
}

/// A shape whose L2 rests on no near measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Missing {
    /// The operation.
    pub name: &'static str,
    /// Its shape.
    pub kind: Kind,
    /// By how much a measurement would raise the coverage of the step.
    pub share: f64,
}

/// What a run should measure to raise the coverage of a step, the most first.
pub fn missing(step: &Step) -> Vec<Missing> {
    let all = step.serial.0.max(f64::MIN_POSITIVE);
    let is_far = |row: &&Row| row.basis.as_ref().is_some_and(|basis| !basis.is_near);
    // Kernels with nothing to do have no shape.
    let far = step.rows.iter().filter(is_far).filter(|row| row.operation.kind != Kind::Small);
    let of = |row: &Row| {
        let (name, kind) = (row.operation.name, row.operation.kind);
        Missing { name, kind, share: row.serial.0 / all }
    };
    // Layers that differ elsewhere have products of one shape.
    let mut list: Vec<Missing> = Vec::new();
    for one in far.map(of) {
        match list.iter_mut().find(|known| (known.name, known.kind) == (one.name, one.kind)) {
            Some(known) => known.share += one.share,
            None => list.push(one),
        }
    }
    list.sort_by(|one, other| other.share.total_cmp(&one.share));
    list
}
