//! The shapes of a model as a suite that `fizeau run` takes, and those that a record lacks most.

use super::{
    layout::{Layout, Split},
    operation::{Kind, Operation, Phase, Routing, Work, operations},
    step::Step,
    sweep::Scenario,
};
use crate::{
    case::{AttentionKind, Mask, limits},
    dtype::Dtype,
    model::{Mixer, Model},
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
    /// What no suite can measure, in words.
    pub left_out: BTreeSet<String>,
}

/// Attention of one layer on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttentionShape {
    kind: &'static str,
    mask: &'static str,
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
    pub fn of(model: &Model, layout: Layout, scenario: &Scenario, concurrency: &[u32]) -> Shapes {
        let mut shapes = Shapes::default();
        let routing = Routing::Chance;
        for &requests in concurrency {
            let sequences = f64::from(requests.div_ceil(layout.replicas));
            let phase = Phase::Decode { context: scenario.middle() };
            let work = scenario.work(layout.split, phase, sequences);
            shapes.add(model, Work { routing, ..work });
        }
        let new = f64::from(scenario.input - scenario.prefix);
        let phase = Phase::Prefill { new, old: f64::from(scenario.prefix) };
        shapes.add(model, scenario.work(layout.split, phase, 1.0));
        shapes
    }

    fn add(&mut self, model: &Model, work: Work) {
        for operation in operations(model, work) {
            self.add_operation(&operation);
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
            Kind::Attention { .. } => {}
        }
    }

    fn add_attention(&mut self, mixer: &Mixer, work: &Work) {
        let cut = match work.split {
            Split::Tensor(n) => n,
            Split::Expert(_) | Split::Even(_) => 1,
        };
        let sequences = match work.split {
            Split::Expert(n) => work.sequences / f64::from(n),
            _ => work.sequences,
        };
        let (queries, tokens, is_prefill) = match work.phase {
            Phase::Decode { context } => (1, context, false),
            Phase::Prefill { new, old } => (whole(new), new + old, true),
        };
        let is_narrow = work.kv.measured_as() == Dtype::Fp8;
        let shape = match mixer {
            Mixer::Grouped(mixer) => AttentionShape {
                kind: if is_prefill { "prefill" } else { "decode" },
                mask: if is_prefill { "causal" } else { "full" },
                is_narrow,
                batch: whole(sequences.ceil()),
                heads: (mixer.heads / cut).max(1),
                kv_heads: (mixer.kv_heads / cut).max(1),
                queries,
                keys: whole(mixer.reach.seen(tokens).max(f64::from(queries))),
                dim_qk: mixer.dim_qk,
                dim_v: mixer.dim_v,
            },
            Mixer::Latent(mixer) if is_prefill => AttentionShape {
                kind: "prefill",
                mask: "causal",
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
                mask: "full",
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
        if !self.products.is_empty() {
            let types = dtypes(self.products.iter().map(|(dtype, _)| *dtype).collect());
            let shapes: BTreeSet<_> = self.products.iter().map(|(_, shape)| shape).collect();
            let _ = write!(text, "\n# Tokens x outputs x inputs.\n[gemm]\ndtypes = [{types}]\n");
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

    fn messages(&self, text: &mut String) {
        let mut list = Vec::new();
        if !self.sums.is_empty() {
            list.push("\"all_reduce\"");
        }
        if !self.exchanges.is_empty() {
            list.push("\"all_to_all\"");
        }
        // Messages are of whole elements on every rank.
        let round = |bytes: &u64| (bytes / 4096).max(1) * 4096;
        let sizes: BTreeSet<u64> = self.sums.iter().chain(&self.exchanges).map(round).collect();
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

fn rows<'a, const N: usize>(shapes: impl Iterator<Item = &'a [u32; N]>) -> String {
    let row = |shape: &[u32; N]| {
        let numbers = shape.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        format!("    [{numbers}],\n")
    };
    shapes.map(row).collect()
}

impl AttentionShape {
    fn table(&self) -> String {
        let AttentionShape { kind, mask, batch, heads, kv_heads, queries, keys, .. } = self;
        let dtype = if self.is_narrow { "fp8" } else { "bf16" };
        format!(
            "\n[[attention]]\nattention = {kind:?}\ndtype = {dtype:?}\nbatch = {batch}\n\
             heads = {heads}\nkv_heads = {kv_heads}\nqueries = {queries}\nkeys = {keys}\n\
             dim_qk = {}\ndim_v = {}\nmask = {mask:?}\n",
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
        (kind, if self.mask == "causal" { Mask::Causal } else { Mask::Full })
    }
}

/// Operations of a step whose L2 rests on no near measurement, the longest in L1 first: what a run
/// should measure.
pub fn missing(step: &Step) -> Vec<(&'static str, Kind, f64)> {
    let far = step.rows.iter().filter(|row| row.basis.as_ref().is_some_and(|b| !b.is_near));
    let mut list: Vec<_> =
        far.map(|row| (row.operation.name, row.operation.kind, row.serial.0)).collect();
    list.sort_by(|one, other| other.2.total_cmp(&one.2));
    list
}
