//! A run's collectives as the programs of `nccl-tests` would have reported them: one report for
//! each collective, kernel and element type, one row for each size, out of place beside in place.

use fizeau_domain::{
    case::{Buffers, Case, Collective, CollectivePoint, Place, Point},
    dtype::Dtype,
    outcome::{Failure, Outcome},
    units::{Bytes, BytesPerSecond, Seconds},
};
use fizeau_record::Record;
use std::collections::BTreeMap;

/// What one program of `nccl-tests` would have reported.
#[derive(Clone, Debug, PartialEq)]
pub struct NcclTest {
    /// The program's name: `all_reduce_perf`.
    pub program: String,
    /// What performed it: `nccl`, `threads`; `nccl, symmetric buffers, graphs of 16`.
    pub kernel: String,
    /// Ranks in all.
    pub ranks: u32,
    /// Where ranks run, as far as the record knows it, by rank; a record of threads on one host has
    /// none of its own for each, and one entry stands for all.
    pub devices: Vec<RankDevice>,
    /// Whether a stub driver made the times up.
    pub is_stub: bool,
    /// Start of the run, RFC 3339 in UTC.
    pub started: String,
    /// Its end; empty where it has none.
    pub ended: String,
    /// By size.
    pub rows: Vec<SizeRow>,
    /// What has no numbers, and why: one line for each case.
    pub missing: Vec<String>,
    /// Cases that failed by wrong elements: the footer's values out of bounds.
    pub wrong: u64,
}

/// Where ranks run.
#[derive(Clone, Debug, PartialEq)]
pub struct RankDevice {
    /// The first and the last of the ranks.
    pub ranks: [u32; 2],
    /// The host, unless the record leaves it out.
    pub host: Option<String>,
    /// The device as Fizeau names it: `cuda:3`, `host`.
    pub device: String,
    /// The product.
    pub product: String,
}

/// One size.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeRow {
    /// The `size` column.
    pub size: Bytes,
    /// The `count` column.
    pub count: u64,
    /// The `type` column: `float`.
    pub dtype: &'static str,
    /// The `redop` column.
    pub operation: &'static str,
    /// The `root` column; -1 where there is none.
    pub root: i32,
    /// Where it was measured.
    pub out_of_place: Option<BufferTimes>,
    /// Where it was measured.
    pub in_place: Option<BufferTimes>,
}

/// One side of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferTimes {
    /// Of each iteration (or of batches of them, divided), in their order.
    pub times: Vec<Seconds>,
    /// Size by mean time.
    pub algorithm_bandwidth: BytesPerSecond,
    /// That by the factor of the collective.
    pub bus_bandwidth: BytesPerSecond,
    /// Elements found wrong: none, or it would have failed.
    pub wrong: u64,
}

impl BufferTimes {
    /// The mean, which is what `nccl-tests` reports as `time`.
    pub fn mean(&self) -> Seconds {
        mean(&self.times)
    }
}

impl NcclTest {
    /// Mean bus bandwidth over all sides of all rows, as the footer has it. It says little: sizes
    /// from start-up time to full rate go into one number.
    pub fn average_bus_bandwidth(&self) -> BytesPerSecond {
        let sides = self.rows.iter().flat_map(|row| [&row.out_of_place, &row.in_place]).flatten();
        let rates: Vec<f64> = sides.map(|side| side.bus_bandwidth.0).collect();
        // Of none: 0, where their sum is -0.
        BytesPerSecond(rates.iter().fold(0.0, |all, rate| all + rate) / rates.len().max(1) as f64)
    }
}

/// The reports of a run, in the order of [`Collective::ALL`].
pub fn nccl_tests(record: &Record) -> Vec<NcclTest> {
    type Key = (Collective, String, Dtype, u32, Buffers, u32);
    let mut tests: BTreeMap<Key, (NcclTest, BTreeMap<Bytes, SizeRow>)> = BTreeMap::new();
    for outcome in &record.outcomes {
        let case = outcome.case();
        let Point::Collective(point) = case.point else { continue };
        // Its table has no column for them.
        if point.place == Place::Unaligned {
            continue;
        }
        let CollectivePoint { collective, dtype, ranks, buffers, graph, .. } = point;
        let key = (collective, case.kernel.0.clone(), dtype, ranks, buffers, graph);
        let new = || (empty(record, case, &point), BTreeMap::new());
        let (test, rows) = tests.entry(key).or_insert_with(new);
        let side = side(outcome, &point);
        if side.is_none() {
            test.missing.push(format!("{case}: {}", reason(outcome)));
        }
        if let Outcome::Failed { failure: Failure::WrongResult, .. } = outcome {
            test.wrong += 1;
        }
        let row = rows.entry(point.message).or_insert_with(|| row(&point));
        match point.place {
            Place::InPlace => row.in_place = side,
            Place::OutOfPlace => row.out_of_place = side,
            // Skipped above.
            Place::Unaligned => {}
        }
    }
    let finished = |(mut test, rows): (NcclTest, BTreeMap<Bytes, SizeRow>)| {
        let rows = rows.into_values();
        test.rows =
            rows.filter(|row| row.out_of_place.is_some() || row.in_place.is_some()).collect();
        test
    };
    tests.into_values().map(finished).collect()
}

fn empty(record: &Record, case: &Case, point: &CollectivePoint) -> NcclTest {
    let header = &record.header;
    NcclTest {
        program: program(point.collective).into(),
        kernel: format!("{}{}", case.kernel.0, point.variant()),
        ranks: point.ranks,
        devices: devices(record, point.ranks),
        is_stub: header.device.is_stub(),
        started: header.started.clone(),
        ended: record.footer.as_ref().map(|footer| footer.ended.clone()).unwrap_or_default(),
        rows: Vec::new(),
        missing: Vec::new(),
        wrong: 0,
    }
}

/// Most ranks whose devices a report names one by one.
const NAMED_MAX: usize = 128;

/// From the record's lines (`rank 3: node7, cuda:3 (NVIDIA H200)`), else of all ranks together.
fn devices(record: &Record, ranks: u32) -> Vec<RankDevice> {
    let environment = &record.header.environment;
    let named = |(rank, line): (u32, &String)| {
        let (_, place) = line.split_once(": ")?;
        let (host, device) = place.split_once(", ")?;
        let (device, product) = device.split_once(" (")?;
        Some(RankDevice {
            ranks: [rank, rank],
            host: Some(host.to_owned()),
            device: device.to_owned(),
            product: product.trim_end_matches(')').to_owned(),
        })
    };
    let all: Option<Vec<RankDevice>> =
        (0..ranks).zip(environment.ranks.iter().take(NAMED_MAX)).map(named).collect();
    all.filter(|all| !all.is_empty()).unwrap_or_else(|| {
        let device = &record.header.device;
        vec![RankDevice {
            ranks: [0, ranks.saturating_sub(1)],
            host: environment.host.clone(),
            device: device.backend.clone(),
            product: device.name.clone(),
        }]
    })
}

fn program(collective: Collective) -> &'static str {
    match collective {
        Collective::AllReduce => "all_reduce_perf",
        Collective::AllToAll => "alltoall_perf",
        Collective::AllGather => "all_gather_perf",
        Collective::ReduceScatter => "reduce_scatter_perf",
        Collective::Broadcast => "broadcast_perf",
        Collective::SendReceive => "sendrecv_perf",
        Collective::Reduce => "reduce_perf",
        Collective::Gather => "gather_perf",
        Collective::Scatter => "scatter_perf",
        Collective::AllToAllV => "alltoallv_perf",
    }
}

/// The names of `nccl-tests`.
fn type_name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F64 => "double",
        Dtype::F32 | Dtype::Tf32 => "float",
        Dtype::F16 => "half",
        Dtype::Bf16 => "bfloat16",
        Dtype::Fp8 => "f8e4m3",
        Dtype::Int8 => "int8",
        Dtype::Fp6 => "fp6",
        Dtype::Fp4 => "fp4",
        Dtype::Mxfp8 | Dtype::Mxfp4 | Dtype::Nvfp4 | Dtype::Fp8Block => dtype.name(),
        Dtype::Bf16Fp8 | Dtype::Bf16Int4 | Dtype::Bf16Mxfp4 => dtype.name(),
    }
}

fn row(point: &CollectivePoint) -> SizeRow {
    // sendrecv_perf goes through the operations too, and names the first.
    let named = point.collective.sums() || point.collective == Collective::SendReceive;
    SizeRow {
        size: point.message,
        count: point.count(),
        dtype: type_name(point.dtype),
        operation: if named { "sum" } else { "none" },
        root: if point.collective.has_root() { Collective::ROOT as i32 } else { -1 },
        out_of_place: None,
        in_place: None,
    }
}

fn side(outcome: &Outcome, point: &CollectivePoint) -> Option<BufferTimes> {
    let measurement = outcome.measured()?;
    let times = measurement.samples.times.clone();
    let algorithm_bandwidth = point.message / mean(&times);
    let factor = point.collective.bus_factor(point.ranks);
    let bus_bandwidth = algorithm_bandwidth * factor;
    Some(BufferTimes { times, algorithm_bandwidth, bus_bandwidth, wrong: measurement.check.wrong })
}

fn mean(times: &[Seconds]) -> Seconds {
    Seconds(times.iter().map(|time| time.0).sum::<f64>() / times.len().max(1) as f64)
}

fn reason(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Measured(_) => String::new(),
        Outcome::Skipped { reason, .. } => format!("skipped: {reason}"),
        Outcome::Failed { error, .. } => format!("failed: {error}"),
        Outcome::Invalid { reason, .. } => format!("invalid: {reason}"),
    }
}
