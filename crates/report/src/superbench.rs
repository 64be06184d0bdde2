//! A node's results under the names of SuperBench's `results-summary.jsonl`:
//! `benchmark/metric:rank`. Names of its own benchmarks stand only where the quantity is theirs:
//! matrices of `nvbandwidth`, and sums over f32 by NCCL or RCCL. All other cases have names that
//! begin with `fizeau-`.

use super::nvbandwidth::{End, LOCAL, nvbandwidth};
use fizeau_domain::{
    case::{Buffers, Collective, CollectivePoint, Place, Point, SparsePoint},
    dtype::Dtype,
    outcome::{Measurement, Outcome},
};
use fizeau_record::Record;
use std::collections::BTreeMap;

/// One node's line.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeResults {
    /// The node: its name; the run's where the record leaves that out.
    pub node: String,
    /// By `benchmark/metric:rank`.
    pub metrics: BTreeMap<String, f64>,
}

/// SuperBench's code of a benchmark that ran to its end (its `return_code.py`).
const SUCCESS: f64 = 0.0;

/// SuperBench's code of a benchmark that did not (`MICROBENCHMARK_EXECUTION_FAILURE`).
const FAILED: f64 = 32.0;

/// The line of a node, from its records, one of each device.
pub fn superbench(records: &[&Record]) -> Option<NodeResults> {
    let first = records.first()?;
    let host = first.header.environment.host.clone();
    let node = host.unwrap_or_else(|| first.header.run.clone());
    let mut metrics = BTreeMap::new();
    for test in nvbandwidth(records).tests {
        // Of copies within a device SuperBench has no name.
        let is_local = test.name.starts_with(LOCAL);
        let benchmark = if is_local { "fizeau-transfer" } else { "nvbandwidth" };
        let code = match &test.end {
            End::Waived(_) => continue,
            End::Error(_) => FAILED,
            End::Passed(matrix) => {
                let kind = if test.is_latency() { "lat" } else { "bw" };
                let key = |middle: String| format!("{benchmark}/{}_{middle}_{kind}:0", test.name);
                for (row, values) in matrix.iter().enumerate() {
                    for (column, value) in values.iter().enumerate() {
                        if let Some(value) = value {
                            let place = match is_local {
                                true => format!("gpu{column}"),
                                false => format!("{}{row}_gpu{column}", test.row),
                            };
                            metrics.insert(key(place), *value);
                        }
                    }
                }
                metrics.insert(key("sum".into()), test.values().iter().sum());
                SUCCESS
            }
        };
        ended(&mut metrics, benchmark, 0, code);
    }
    for record in records {
        record.outcomes.iter().for_each(|outcome| add(&mut metrics, record, outcome));
    }
    Some(NodeResults { node, metrics })
}

/// Keeps the worst code of a benchmark.
fn ended(metrics: &mut BTreeMap<String, f64>, benchmark: &str, rank: u32, code: f64) {
    let known = metrics.entry(format!("{benchmark}/return_code:{rank}")).or_insert(SUCCESS);
    *known = known.max(code);
}

fn add(metrics: &mut BTreeMap<String, f64>, record: &Record, outcome: &Outcome) {
    let case = outcome.case();
    let rank = match case.point {
        // Their matrices are there already.
        Point::Transfer(_) => return,
        // Of all ranks together.
        Point::Collective(_) => 0,
        _ => record.header.device.ordinal,
    };
    let own = of_library(case.kernel.0.as_str(), &case.point);
    let operation = format!("fizeau-{}", case.point.operation());
    let benchmark = own.as_ref().map_or(operation.as_str(), |(benchmark, _)| benchmark);
    let code = match outcome {
        Outcome::Skipped { .. } => return,
        Outcome::Failed { .. } | Outcome::Invalid { .. } => FAILED,
        Outcome::Measured(one) => {
            let id = case.to_string();
            let rest = id.split_once('/').map_or(id.as_str(), |(_, rest)| rest);
            let name = own.as_ref().map_or_else(|| plain(rest), |(_, name)| name.clone());
            for (suffix, value) in values(one, own.is_some()) {
                metrics.insert(format!("{benchmark}/{name}_{suffix}:{rank}"), value);
            }
            SUCCESS
        }
    };
    ended(metrics, benchmark, rank, code);
}

/// Names of metrics have no colons, which separate the rank, and slashes separate benchmarks.
fn plain(id: &str) -> String {
    id.replace(['/', ':'], "_")
}

/// The benchmark and the name that SuperBench itself has for a case, where it has one.
fn of_library(kernel: &str, point: &Point) -> Option<(&'static str, String)> {
    let benchmark = match kernel {
        "nccl" => "nccl-bw",
        "rccl" => "rccl-bw",
        _ => return None,
    };
    let Point::Collective(point) = point else { return None };
    let CollectivePoint { collective, dtype, place, buffers, graph, .. } = *point;
    let is_theirs = dtype == Dtype::F32 && place == Place::OutOfPlace;
    if !is_theirs || buffers != Buffers::Plain || graph != 0 {
        return None;
    }
    let operation = match collective {
        Collective::AllReduce => "allreduce",
        Collective::AllGather => "allgather",
        Collective::Broadcast => "broadcast",
        Collective::Reduce => "reduce",
        Collective::ReduceScatter => "reducescatter",
        Collective::AllToAll => "alltoall",
        _ => return None,
    };
    Some((benchmark, format!("{operation}_{}", point.message.0)))
}

/// What is stated of a measurement: its time in microseconds, and its rate, where it has one, in
/// GB/s or GFLOPS. NCCL's own are means, as its tests have them; all others medians.
fn values(one: &Measurement, is_nccl: bool) -> Vec<(&'static str, f64)> {
    let median = one.summary.median;
    let of_mean = || {
        let times = &one.samples.times;
        times.iter().map(|time| time.0).sum::<f64>() / times.len().max(1) as f64
    };
    let time = if is_nccl { of_mean() } else { median.0 };
    let mut all = vec![("time", time * 1e6)];
    match &one.case.point {
        Point::Collective(point) => {
            let rate = point.message.0 as f64 / time / 1e9;
            let factor = point.collective.bus_factor(point.ranks);
            all.extend([("algbw", rate), ("busbw", rate * factor)]);
        }
        Point::Stream(_)
        | Point::Access(_)
        | Point::Fused(_)
        | Point::Recurrence(_)
        | Point::Sparse(SparsePoint::TopK(_)) => {
            all.push(("bw", (one.work.memory / median).0 / 1e9));
        }
        Point::Compute(_)
        | Point::Gemm(_)
        | Point::Grouped(_)
        | Point::Attention(_)
        | Point::Sparse(SparsePoint::Decode(_)) => {
            all.push(("flops", (one.work.flops / median).0 / 1e9));
        }
        Point::Latency(_) | Point::Instruction(_) | Point::Launch(_) | Point::Transfer(_) => {}
        Point::Sdc(_) => {
            let found = one.integrity.iter();
            all.extend(found.map(|found| ("mismatches", found.mismatches as f64)));
        }
    }
    all.retain(|(_, value)| value.is_finite());
    all
}
