//! Suites: TOML files that say what to measure and how long. The definitions *are* the benchmark:
//! `data/suites/quick.toml`, `data/suites/full.toml`, or a file of the user's.

mod fused;
mod gemm;
mod recurrence;
mod sparse;

pub use fused::FusedAxes;
pub use gemm::{GemmAxes, GroupedAxes};
pub use recurrence::RecurrenceAxes;
pub use sparse::SparseAxes;

use crate::{
    case::{
        Access, AttentionPoint, Buffers, CacheSide, Collective, HostMemory, Instruction,
        LatencyPoint, Launching, MemoryPattern, Place, SdcPoint, StreamOperation, Transfer, limits,
    },
    dtype::Dtype,
    outcome::Regime,
    spec::Properties,
    units::{Bytes, Seconds},
};
use serde::Deserialize;

/// One suite.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// Its name, as `--suite` takes it.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// Which kernels of each point are measured.
    #[serde(default)]
    pub kernels: KernelChoice,
    /// How long to sample.
    pub measure: MeasureSettings,
    /// The limits of power and clock at which all of it is measured; absent: as the device is set.
    pub power: Option<PowerLadder>,
    /// Absent: none planned.
    pub compute: Option<ComputeAxes>,
    /// Absent: none planned.
    pub instruction: Option<InstructionAxes>,
    /// Absent: none planned.
    pub stream: Option<StreamAxes>,
    /// Absent: none planned.
    pub latency: Option<LatencyAxes>,
    /// Absent: none planned.
    pub access: Option<AccessAxes>,
    /// Absent: none planned.
    pub transfer: Option<TransferAxes>,
    /// Absent: none planned.
    pub launch: Option<LaunchAxes>,
    /// Absent: none planned.
    pub gemm: Option<GemmAxes>,
    /// Absent: none planned.
    pub grouped: Option<GroupedAxes>,
    /// One shape each.
    #[serde(default)]
    pub attention: Vec<AttentionPoint>,
    /// Fused operations; absent: none planned.
    #[serde(default)]
    pub fused: Vec<FusedAxes>,
    /// Recurrences; absent: none planned.
    #[serde(default)]
    pub recurrence: Vec<RecurrenceAxes>,
    /// Steps of sparse attention; absent: none planned.
    #[serde(default)]
    pub sparse: Vec<SparseAxes>,
    /// Absent: none planned.
    pub sdc: Option<SdcAxes>,
    /// Absent: none planned.
    pub collective: Option<CollectiveAxes>,
}

/// Limits of power and clock, highest first. They are set with `--set-limits` alone.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerLadder {
    /// Power limits, as shares of the device's default limit.
    #[serde(default)]
    pub caps: Vec<f64>,
    /// Clocks, as shares of the highest that the device states.
    #[serde(default)]
    pub clocks: Vec<f64>,
}

/// The most rungs of a ladder's two lists each.
const RUNGS_MAX: usize = 32;

impl PowerLadder {
    fn check(&self) -> Result<(), String> {
        for (name, shares) in [("caps", &self.caps), ("clocks", &self.clocks)] {
            let is_share = |share: &f64| (0.05..=1.0).contains(share);
            if shares.len() > RUNGS_MAX || !shares.iter().all(is_share) {
                return Err(format!("[power] {name}: up to {RUNGS_MAX} shares from 0.05 to 1"));
            }
        }
        Ok(())
    }
}

/// Which of the kernels that a device has for a point are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelChoice {
    /// All of them, each by itself.
    #[default]
    All,
    /// The fastest of them, found by trying them where the device can, else the one that it lists
    /// first, as its best guess; and vendors' libraries.
    Best,
}

/// How long to sample one case. See docs/methodology.md for the rules these feed.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasureSettings {
    /// Never fewer samples than this.
    pub samples_min: u32,
    /// Never more.
    pub samples_max: u32,
    /// Stop when noise (MAD / median) is below this.
    pub noise_max: f64,
    /// Never stop before this much measured time.
    pub time_min: Seconds,
    /// Stop at this much measured time.
    pub time_max: Seconds,
    /// Longest warm-up.
    pub warmup_max: Seconds,
    /// A sample shorter than this is batched.
    pub sample_min: Seconds,
    /// Time after which work counts as hung.
    pub deadline: Seconds,
    /// The state of power and heat in which the cases are timed whose speed depends on it; absent:
    /// whichever the warm-up leaves.
    #[serde(default)]
    pub regime: Option<Regime>,
    /// The other one, measured beside it.
    #[serde(default)]
    pub beside: Option<Regime>,
}

/// The arithmetic ceilings.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComputeAxes {
    /// Element types.
    pub dtypes: Vec<Dtype>,
}

/// The stream cases.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamAxes {
    /// Over memory, all units, every kernel the device has.
    pub memory: Vec<StreamOperation>,
    /// Over memory with 1, 2, 4 .. all units, best kernel of the operation.
    pub scaling: Vec<StreamOperation>,
    /// Working-set sweep from the first cache to memory.
    pub sweep: Vec<StreamOperation>,
    /// How many units stream through each working set of the sweep together.
    pub sweep_units: Vec<Units>,
    /// Sizes in each doubling of the sweep.
    pub sweep_points_per_octave: u32,
    /// Over half of the last-level cache, all units.
    #[serde(default)]
    pub last_cache: Vec<StreamOperation>,
}

/// How many of a device's units work together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Units {
    /// One alone.
    One,
    /// All of them.
    All,
}

impl Units {
    /// Their number on a device.
    pub fn of(self, properties: &Properties) -> u32 {
        match self {
            Units::One => 1,
            Units::All => properties.units.max(1),
        }
    }
}

/// The latency sweep.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyAxes {
    /// Sizes in each doubling.
    pub points_per_octave: u32,
    /// Beside the sizes, parts of the last cache by how far they are.
    #[serde(default)]
    pub sides: Vec<CacheSide>,
    /// Memory alone, and no sweep.
    #[serde(default)]
    pub memory_alone: bool,
    /// Bytes from the first to the second of two loads in a block, by which the size of a line
    /// shows: multiples of 16, less than 512.
    #[serde(default)]
    pub pairs: Vec<u64>,
}

/// The latencies of instructions, all of the one list with all of the other.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstructionAxes {
    /// Which instructions.
    pub instructions: Vec<Instruction>,
    /// Element types.
    pub dtypes: Vec<Dtype>,
}

/// Access other than in streams.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessAxes {
    /// Access patterns.
    pub ways: Vec<Access>,
    /// Bytes of a gather's rows, each a power of two from 16 on: a sector, pages of KV caches.
    pub rows: Vec<u64>,
}

/// Bytes from one memory to another.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransferAxes {
    /// Which; those that need peers only where there are some.
    pub transfers: Vec<Transfer>,
    /// Bytes of one copy, each a multiple of 8.
    pub sizes: Vec<u64>,
    /// How host memory is allocated.
    pub host: Vec<HostMemory>,
    /// Whether copies with the host are made from each of its NUMA nodes in turn, and not from the
    /// device's own.
    #[serde(default)]
    pub each_node: bool,
}

/// Launches of next to nothing.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchAxes {
    /// How work is given to the device.
    pub ways: Vec<Launching>,
    /// Kernels of one graph.
    pub graph: Vec<u32>,
}

/// What is repeated to find silent corruption.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SdcAxes {
    /// Element types of products.
    #[serde(default)]
    pub dtypes: Vec<Dtype>,
    /// `[m, n, k]` of each product.
    #[serde(default)]
    pub shapes: Vec<[u32; 3]>,
    /// Products of one iteration.
    #[serde(default = "one")]
    pub products: u32,
    /// What memory is filled with.
    #[serde(default)]
    pub patterns: Vec<MemoryPattern>,
    /// Bytes of memory, each a multiple of 16.
    #[serde(default)]
    pub memory: Vec<u64>,
    /// Bytes of copies to the device and back, each a multiple of 16.
    #[serde(default)]
    pub copies: Vec<u64>,
    /// Element types of all_reduces: those whose sums of small whole numbers are exact.
    #[serde(default)]
    pub reduced: Vec<Dtype>,
    /// Bytes of one rank's message, each a multiple of 16.
    #[serde(default)]
    pub all_reduces: Vec<u64>,
    /// Rounds of patterns, of copies and of all_reduces in one iteration.
    #[serde(default = "one")]
    pub rounds: u32,
}

fn one() -> u32 {
    1
}

impl SdcAxes {
    fn check(&self) -> Result<(), String> {
        let (dtype, rounds, pattern) = (Dtype::F32, self.rounds, MemoryPattern::Random);
        let product =
            |&[m, n, k]: &[u32; 3]| SdcPoint::Product { dtype, m, n, k, rounds: self.products };
        let memory = |&size: &u64| SdcPoint::Memory { pattern, size: Bytes(size), rounds };
        let copy = |&size: &u64| SdcPoint::Copy { size: Bytes(size), rounds };
        let points = self.shapes.iter().map(product).chain(self.memory.iter().map(memory));
        let reduced =
            |&size: &u64| SdcPoint::AllReduce { dtype, size: Bytes(size), ranks: 2, rounds };
        let points = points.chain(self.copies.iter().map(copy));
        let mut all = points.chain(self.all_reduces.iter().map(reduced));
        all.try_for_each(|point| point.check()).map_err(|why| format!("[sdc] {why}"))
    }
}

/// The collectives.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectiveAxes {
    /// The collectives.
    pub collectives: Vec<Collective>,
    /// Element types.
    pub dtypes: Vec<Dtype>,
    /// Each rank's part is a multiple of this many bytes, and of whole elements: a power of two, as
    /// `nccl-tests` has it where nothing is said.
    #[serde(default = "granule_of_nccl_tests")]
    pub granule: u64,
    /// Smallest message, such as `"4KiB"`.
    pub from: String,
    /// Largest message; bounded by memory too.
    pub to: String,
    /// From one size to the next.
    pub factor: u64,
    /// Where there are any, these sizes within the two and no others.
    #[serde(default)]
    pub sizes: Vec<String>,
    /// In place, out of place, unaligned.
    pub places: Vec<Place>,
    /// How buffers are allocated, between GPUs.
    #[serde(default = "plain_alone")]
    pub buffers: Vec<Buffers>,
    /// Enqueued one by one (`queued`) or as graphs, between GPUs.
    #[serde(default = "queued_alone")]
    pub ways: Vec<Launching>,
    /// Collectives of one graph.
    #[serde(default)]
    pub graph: Vec<u32>,
}

fn plain_alone() -> Vec<Buffers> {
    vec![Buffers::Plain]
}

fn queued_alone() -> Vec<Launching> {
    vec![Launching::Queued]
}

impl CollectiveAxes {
    /// How many collectives are enqueued as one, by each of the ways: 0 stands for one by one.
    pub fn graphs(&self) -> Vec<u32> {
        let counts = |way: &Launching| match way {
            Launching::Graph => self.graph.clone(),
            Launching::Queued | Launching::Waited => vec![0],
        };
        self.ways.iter().flat_map(counts).collect()
    }

    fn check(&self) -> Result<(), String> {
        if !self.granule.is_power_of_two() || self.granule > 4096 {
            return Err("[collective] granule: a power of two from 1 to 4096 bytes".into());
        }
        let size = |text: &String| {
            let size = text.parse::<Bytes>().map_err(|error| format!("[collective] {error}"))?;
            if size < Bytes(1) || size > limits::MESSAGE_MAX {
                return Err(format!("[collective] {text:?}: messages are from 1 B to 1 TiB"));
            }
            Ok(size)
        };
        let (from, to) = (size(&self.from)?, size(&self.to)?);
        self.sizes.iter().try_for_each(|text| size(text).map(drop))?;
        if from > to {
            return Err(format!("[collective] from {from} to {to}: nothing lies between"));
        }
        if self.factor < 2 && self.sizes.is_empty() {
            return Err("[collective] factor: 2 at least".into());
        }
        if self.ways.is_empty() || self.buffers.is_empty() {
            return Err("[collective] ways and buffers: at least one of each".into());
        }
        if self.ways.contains(&Launching::Waited) {
            return Err("[collective] ways: queued and graph".into());
        }
        if self.ways.contains(&Launching::Graph) == self.graph.is_empty() {
            return Err("[collective] graph: how many in one, where graph is among the ways".into());
        }
        if self.graph.iter().any(|count| !(1..=limits::GRAPH_MAX).contains(count)) {
            return Err(format!("[collective] graph: from 1 to {} collectives", limits::GRAPH_MAX));
        }
        Ok(())
    }
}

/// 16 bytes, the widest access of a GPU's thread.
fn granule_of_nccl_tests() -> u64 {
    16
}

/// The longest time a suite may set: a day.
const TIME_LIMIT: Seconds = Seconds(86_400.0);

/// The most samples of a case: all of them are kept in memory, and on one line of the record.
const SAMPLES_LIMIT: u32 = 250_000;

/// The most points in a doubling of a sweep: sizes lie on a grid of 64ths.
const POINTS_LIMIT: u32 = 64;

/// The most points that the lists of one table make when all are combined with all.
const COMBINATIONS_LIMIT: usize = 20_000;

/// Longest text of a suite, in bytes.
pub const TEXT_MAX: u64 = 1 << 20;

impl Suite {
    /// A suite from its text, held to [`Suite::check`].
    ///
    /// # Errors
    /// In words: what cannot be read, or which number cannot be.
    pub fn parse(text: &str) -> Result<Suite, String> {
        if text.len() as u64 > TEXT_MAX {
            return Err(format!("a suite is {TEXT_MAX} bytes long at most"));
        }
        let suite: Suite = toml::from_str(text).map_err(|error| error.to_string())?;
        suite.check()?;
        Ok(suite)
    }

    /// What is wrong with its numbers, if anything is.
    pub fn check(&self) -> Result<(), String> {
        self.measure.check()?;
        self.power.as_ref().map_or(Ok(()), PowerLadder::check)?;
        self.check_combinations()?;
        let mut rows = self.access.iter().flat_map(|access| &access.rows);
        if rows.any(|row| !row.is_power_of_two() || *row < 16 || *row > limits::ROW_MAX.0) {
            return Err("[access] rows: powers of two from 16 to 2^30".into());
        }
        for &pair in self.latency.iter().flat_map(|latency| &latency.pairs) {
            let working_set = LatencyPoint::BLOCK * 2;
            let point = LatencyPoint { working_set, side: None, pair: Some(Bytes(pair)) };
            point.check().map_err(|why| format!("[latency] pairs: {why}"))?;
        }
        let mut sizes = self.transfer.iter().flat_map(|transfer| &transfer.sizes);
        if sizes.any(|&size| size == 0 || size > Bytes::MOST.0 || !size.is_multiple_of(8)) {
            return Err("[transfer] sizes: multiples of 8 bytes, 2^50 at most".into());
        }
        let graphs = self.launch.iter().flat_map(|launch| &launch.graph);
        for &kernels in graphs {
            limits::within("[launch] graph", kernels, 1..=limits::KERNELS_MAX)?;
        }
        self.collective.as_ref().map_or(Ok(()), CollectiveAxes::check)?;
        let sweeps = [
            self.stream.as_ref().map(|axes| axes.sweep_points_per_octave),
            self.latency.as_ref().map(|axes| axes.points_per_octave),
        ];
        if sweeps.into_iter().flatten().any(|points| !(1..=POINTS_LIMIT).contains(&points)) {
            return Err(format!("points in an octave of a sweep are from 1 to {POINTS_LIMIT}"));
        }
        self.gemm.as_ref().map_or(Ok(()), GemmAxes::check)?;
        self.grouped.as_ref().map_or(Ok(()), GroupedAxes::check)?;
        self.sdc.as_ref().map_or(Ok(()), SdcAxes::check)?;
        self.fused.iter().try_for_each(FusedAxes::check)?;
        self.recurrence.iter().try_for_each(RecurrenceAxes::check)?;
        self.sparse.iter().try_for_each(SparseAxes::check)?;
        let faults = self.attention.iter().map(AttentionPoint::check);
        faults.collect::<Result<(), _>>().map_err(|why| format!("[attention] {why}"))
    }

    /// Refuses lists that make too many points together, before a plan is made of them.
    fn check_combinations(&self) -> Result<(), String> {
        let mut lengths: Vec<(&str, Vec<usize>)> = vec![("attention", vec![self.attention.len()])];
        if let Some(ComputeAxes { dtypes }) = &self.compute {
            lengths.push(("compute", vec![dtypes.len()]));
        }
        if let Some(of) = &self.stream {
            let operations = of.memory.len() + of.scaling.len() + of.sweep.len();
            lengths.push(("stream", vec![operations, of.sweep_units.len().max(1)]));
        }
        if let Some(LatencyAxes { sides, pairs, .. }) = &self.latency {
            lengths.push(("latency", vec![sides.len() + pairs.len()]));
        }
        if let Some(InstructionAxes { instructions, dtypes }) = &self.instruction {
            lengths.push(("instruction", vec![instructions.len(), dtypes.len()]));
        }
        if let Some(AccessAxes { ways, rows }) = &self.access {
            lengths.push(("access", vec![ways.len(), rows.len().max(1)]));
        }
        if let Some(TransferAxes { transfers, sizes, host, each_node: _ }) = &self.transfer {
            lengths.push(("transfer", vec![transfers.len(), sizes.len(), host.len()]));
        }
        if let Some(LaunchAxes { ways, graph }) = &self.launch {
            lengths.push(("launch", vec![ways.len(), graph.len().max(1)]));
        }
        if let Some(GemmAxes { dtypes, shapes, layouts, contents }) = &self.gemm {
            let lists = [dtypes.len(), shapes.len(), layouts.len(), contents.len()];
            lengths.push(("gemm", lists.to_vec()));
        }
        if let Some(GroupedAxes { dtypes, shapes, routings }) = &self.grouped {
            lengths.push(("grouped", vec![dtypes.len(), shapes.len(), routings.len()]));
        }
        for FusedAxes { outputs, rows, widths, .. } in &self.fused {
            lengths.push(("fused", vec![outputs.len(), rows.len(), widths.len()]));
        }
        for RecurrenceAxes { states, batches, .. } in &self.recurrence {
            lengths.push(("recurrence", vec![states.len(), batches.len()]));
        }
        lengths.extend(self.sparse.iter().map(|axes| ("sparse", axes.lengths())));
        if let Some(SdcAxes { dtypes, shapes, patterns, memory, reduced, all_reduces, .. }) =
            &self.sdc
        {
            lengths.push(("sdc", vec![dtypes.len(), shapes.len()]));
            lengths.push(("sdc", vec![reduced.len(), all_reduces.len()]));
            lengths.push(("sdc", vec![patterns.len(), memory.len()]));
        }
        if let Some(of) = &self.collective {
            let variants = [of.buffers.len(), of.ways.len(), of.graph.len().max(1)];
            let sizes = of.sizes.len().max(1);
            let lists = [of.collectives.len(), of.dtypes.len(), of.places.len(), sizes];
            lengths.push(("collective", [&variants[..], &lists[..]].concat()));
        }
        for (table, lengths) in lengths {
            let all = lengths.iter().try_fold(1usize, |all, &length| all.checked_mul(length));
            if all.is_none_or(|all| all > COMBINATIONS_LIMIT) {
                return Err(format!(
                    "[{table}] its lists make more than {COMBINATIONS_LIMIT} points together"
                ));
            }
        }
        Ok(())
    }
}

impl MeasureSettings {
    /// Refuses times and counts by which no case could be measured.
    ///
    /// # Errors
    /// In words: which setting, and what it can be.
    pub fn check(&self) -> Result<(), String> {
        let times = [
            ("time_min", self.time_min),
            ("time_max", self.time_max),
            ("warmup_max", self.warmup_max),
            ("sample_min", self.sample_min),
            ("deadline", self.deadline),
        ];
        for (name, time) in times {
            if !(0.0..=TIME_LIMIT.0).contains(&time.0) {
                let limit = TIME_LIMIT.0;
                return Err(format!("[measure] {name} = {}: seconds, from 0 to {limit}", time.0));
            }
        }
        if self.deadline.0 == 0.0 {
            return Err("[measure] deadline = 0: every case would count as hung".into());
        }
        if self.samples_min == 0 || self.samples_min > self.samples_max {
            return Err("[measure] samples_min is 1 at least and samples_max at most".into());
        }
        if self.samples_max > SAMPLES_LIMIT {
            return Err(format!("[measure] samples_max is {SAMPLES_LIMIT} at most"));
        }
        if self.beside.is_some() && (self.regime.is_none() || self.beside == self.regime) {
            return Err("[measure] beside is the regime that `regime` is not".into());
        }
        if !self.noise_max.is_finite() || self.noise_max < 0.0 {
            return Err("[measure] noise_max is a share, such as 0.01".into());
        }
        Ok(())
    }
}
