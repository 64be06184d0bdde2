//! A run's transfers as `nvbandwidth` would have reported them: a test for each kind of copy, a
//! matrix of devices in each.

use fizeau_domain::{
    case::{HostMemory, Point, Transfer, TransferPoint},
    outcome::{Measurement, Outcome},
};
use fizeau_record::Record;

/// What `nvbandwidth` would have reported of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Bandwidths {
    /// Name of the host, unless the records leave it out.
    pub host: Option<String>,
    /// Version of NVIDIA's driver, where it is known.
    pub driver: Option<String>,
    /// The program's version, and the commit it was built from.
    pub program: [Option<String>; 2],
    /// The devices that measured: the driver's number and the product.
    pub devices: Vec<(u32, String)>,
    /// The tests, in the order of `nvbandwidth`.
    pub tests: Vec<Test>,
}

/// One of its tests.
#[derive(Clone, Debug, PartialEq)]
pub struct Test {
    /// Its name, `host_to_device_memcpy_ce`.
    pub name: String,
    /// What stands above its matrix.
    pub description: String,
    /// What a row is: `cpu` or `gpu`.
    pub row: &'static str,
    /// The standard deviation of samples as a share of their mean: of the cell where it is largest.
    pub variation: Option<f64>,
    /// What became of it.
    pub end: End,
}

/// What became of a test.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// GB/s, or of a latency ns, by row and column; `None` where there is nothing to measure, or
    /// nothing was measured.
    Passed(Vec<Vec<Option<f64>>>),
    /// Why it could not be measured here.
    Waived(String),
    /// What went wrong.
    Error(String),
}

impl Test {
    /// Whether its numbers are times and not rates.
    pub fn is_latency(&self) -> bool {
        self.description.ends_with("(ns)")
    }

    /// How its sum and its variation are called: of copies both ways this is the third matrix.
    pub fn total(&self) -> String {
        let both = self.description.ends_with(" Total bandwidth (GB/s)");
        format!("{}{}", self.name, if both { "_total" } else { "" })
    }

    /// What was measured of it.
    pub fn values(&self) -> Vec<f64> {
        match &self.end {
            End::Passed(matrix) => matrix.iter().flatten().flatten().copied().collect(),
            End::Waived(_) | End::Error(_) => Vec::new(),
        }
    }
}

/// What performs the copies.
#[derive(Clone, Copy, PartialEq)]
enum By {
    CopyEngine,
    Kernel,
    Bulk,
}

impl By {
    /// How the tests' names abbreviate it.
    fn abbreviated(self) -> &'static str {
        match self {
            CopyEngine => "CE",
            Kernel => "SM",
            Bulk => "TMA",
        }
    }
}

use By::{Bulk, CopyEngine, Kernel};
use Transfer::*;

/// Tests of `nvbandwidth` that are measured here, in its order. What one device reads from all its
/// peers at once is `one_to_all_read` there, and `all_to_one_read` is what they read from it.
const TESTS: [(Transfer, By, &str); 28] = [
    (HostToDeviceMemcpy, CopyEngine, "host_to_device_memcpy_ce"),
    (DeviceToHostMemcpy, CopyEngine, "device_to_host_memcpy_ce"),
    (HostToDeviceBidirectionalMemcpy, CopyEngine, "host_to_device_bidirectional_memcpy_ce"),
    (DeviceToDeviceMemcpyRead, CopyEngine, "device_to_device_memcpy_read_ce"),
    (DeviceToDeviceMemcpyWrite, CopyEngine, "device_to_device_memcpy_write_ce"),
    (
        DeviceToDeviceBidirectionalMemcpyRead,
        CopyEngine,
        "device_to_device_bidirectional_memcpy_read_ce",
    ),
    (AllToHostMemcpy, CopyEngine, "all_to_host_memcpy_ce"),
    (HostToAllMemcpy, CopyEngine, "host_to_all_memcpy_ce"),
    (OneToAllWrite, CopyEngine, "one_to_all_write_ce"),
    (AllToOneRead, CopyEngine, "one_to_all_read_ce"),
    (HostToDeviceMemcpy, Kernel, "host_to_device_memcpy_sm"),
    (DeviceToHostMemcpy, Kernel, "device_to_host_memcpy_sm"),
    (HostToDeviceBidirectionalMemcpy, Kernel, "host_to_device_bidirectional_memcpy_sm"),
    (DeviceToDeviceMemcpyRead, Kernel, "device_to_device_memcpy_read_sm"),
    (DeviceToDeviceMemcpyWrite, Kernel, "device_to_device_memcpy_write_sm"),
    (
        DeviceToDeviceBidirectionalMemcpyRead,
        Kernel,
        "device_to_device_bidirectional_memcpy_read_sm",
    ),
    (AllToHostMemcpy, Kernel, "all_to_host_memcpy_sm"),
    (HostToAllMemcpy, Kernel, "host_to_all_memcpy_sm"),
    (OneToAllWrite, Kernel, "one_to_all_write_sm"),
    (AllToOneRead, Kernel, "one_to_all_read_sm"),
    (HostDeviceLatency, Kernel, "host_device_latency_sm"),
    (DeviceToDeviceLatency, Kernel, "device_to_device_latency_sm"),
    (DeviceToDeviceMemcpyRead, Bulk, "device_to_device_memcpy_read_tma"),
    (DeviceToDeviceMemcpyWrite, Bulk, "device_to_device_memcpy_write_tma"),
    (DeviceLocalCopy, CopyEngine, "device_local_copy"),
    (DeviceLocalCopy, Kernel, "device_local_copy_sm"),
    (DeviceToDeviceLatency, Bulk, "device_to_device_latency_tma"),
    (DeviceLocalCopy, Bulk, "device_local_copy_tma"),
];

/// How the names of tests of copies within one device begin.
pub const LOCAL: &str = "device_local_copy";

/// The report of a node's records, one of each GPU. Of each test it has the largest size that was
/// measured; host memory is pinned.
pub fn nvbandwidth(records: &[&Record]) -> Bandwidths {
    let tests = TESTS.into_iter();
    let header = |record: &&Record| record.header.clone();
    let first = records.first().map(header);
    let environment = first.as_ref().map(|header| header.environment.clone()).unwrap_or_default();
    let driver = environment.libraries.iter().find_map(|one| one.strip_prefix("NVML "));
    let devices = records.iter().map(|record| {
        let device = &record.header.device;
        (device.ordinal, device.name.clone())
    });
    Bandwidths {
        driver: driver.map(str::to_owned),
        host: environment.host,
        program: match first {
            Some(header) => [Some(header.fizeau), header.build],
            None => [None, None],
        },
        devices: devices.collect(),
        tests: tests.filter_map(|(transfer, by, name)| test(records, transfer, by, name)).collect(),
    }
}

/// One test; none where no record plans it.
fn test(records: &[&Record], transfer: Transfer, by: By, name: &str) -> Option<Test> {
    let of = |outcome: &Outcome| {
        let Point::Transfer(point) = outcome.case().point else { return None };
        let is_by = match outcome.case().kernel.0.as_str() {
            "ce" => CopyEngine,
            "tma" => Bulk,
            _ => Kernel,
        };
        let is_pinned = !transfer.with_host() || point.host == HostMemory::Pinned;
        // nvbandwidth copies from the node that the GPU is attached to.
        let is_near = point.node.is_none();
        (point.transfer == transfer && is_by == by && is_pinned && is_near).then_some(point)
    };
    let all: Vec<(&Outcome, TransferPoint)> = records
        .iter()
        .flat_map(|record| &record.outcomes)
        .filter_map(|outcome| Some((outcome, of(outcome)?)))
        .collect();
    let size = all.iter().map(|(_, point)| point.size).max()?;
    let all: Vec<&(&Outcome, TransferPoint)> =
        all.iter().filter(|(_, point)| point.size == size).collect();
    let of_gpus = transfer.with_peer() || matches!(transfer, OneToAllWrite | AllToOneRead);
    let row = if of_gpus { "gpu" } else { "cpu" };
    let end = match all.iter().find_map(|(outcome, _)| broken(outcome)) {
        Some(why) => End::Error(why),
        None => matrix(&all, transfer).map_or_else(
            || {
                End::Waived(
                    all.iter().find_map(|(outcome, _)| skipped(outcome)).unwrap_or_default(),
                )
            },
            End::Passed,
        ),
    };
    let measured = all.iter().filter_map(|(outcome, _)| outcome.measured());
    let variation = measured.filter_map(variation).reduce(f64::max);
    let description = description(transfer, by);
    Some(Test { name: name.into(), description, row, variation, end })
}

/// The standard deviation of a case's samples as a share of their mean; none of a single one.
fn variation(measured: &Measurement) -> Option<f64> {
    let times = &measured.samples.times;
    let count = times.len() as f64;
    if times.len() < 2 {
        return None;
    }
    let mean = times.iter().map(|time| time.0).sum::<f64>() / count;
    let squares: f64 = times.iter().map(|time| (time.0 - mean).powi(2)).sum();
    Some((squares / (count - 1.0)).sqrt() / mean)
}

fn broken(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Failed { error, .. } => Some(format!("{}: {error}", outcome.case())),
        Outcome::Invalid { reason, .. } => Some(format!("{}: {reason}", outcome.case())),
        Outcome::Measured(_) | Outcome::Skipped { .. } => None,
    }
}

fn skipped(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Skipped { reason, .. } => Some(reason.clone()),
        _ => None,
    }
}

/// GB/s or ns by row and column; none where nothing was measured.
fn matrix(all: &[&(&Outcome, TransferPoint)], transfer: Transfer) -> Option<Vec<Vec<Option<f64>>>> {
    let measured: Vec<(&Measurement, TransferPoint)> =
        all.iter().filter_map(|(outcome, point)| Some((outcome.measured()?, *point))).collect();
    let largest = measured.iter().map(|(_, point)| point.device.max(point.peer.unwrap_or(0)));
    let columns = largest.max()? as usize + 1;
    let rows = if transfer.with_peer() { columns } else { 1 };
    let mut matrix: Vec<Vec<Option<f64>>> = vec![vec![None; columns]; rows];
    for (one, point) in measured {
        let other = point.peer.unwrap_or(point.device) as usize;
        let row = if transfer.with_peer() { point.device as usize } else { 0 };
        let median = one.summary.median;
        let value = match transfer.is_latency() {
            true => median.0 * 1e9,
            false => (point.moved() / median).0 / 1e9,
        };
        // Of several kernels the best.
        let best = match (matrix[row][other], transfer.is_latency()) {
            (Some(known), true) => known.min(value),
            (Some(known), false) => known.max(value),
            (None, _) => value,
        };
        matrix[row][other] = Some(best);
    }
    Some(matrix)
}

/// What `nvbandwidth` writes above the matrix of a test (`testcases_ce.cpp` and `testcases_sm.cpp`
/// of version 0.8; those of bulk copies, which came with 0.10, are worded alike).
fn description(transfer: Transfer, by: By) -> String {
    let engine = by.abbreviated();
    let rate = |ends: &str| format!("memcpy {engine} {ends} bandwidth (GB/s)");
    match transfer {
        HostToDeviceMemcpy | HostToAllMemcpy => rate("CPU(row) -> GPU(column)"),
        DeviceToHostMemcpy | AllToHostMemcpy => rate("CPU(row) <- GPU(column)"),
        HostToDeviceBidirectionalMemcpy => rate("CPU(row) <-> GPU(column)"),
        DeviceToDeviceMemcpyRead | OneToAllWrite => rate("GPU(row) -> GPU(column)"),
        DeviceToDeviceMemcpyWrite | AllToOneRead => rate("GPU(row) <- GPU(column)"),
        DeviceToDeviceBidirectionalMemcpyRead => rate("GPU(row) <-> GPU(column) Total"),
        DeviceLocalCopy if by == CopyEngine => "memcpy local GPU(column) bandwidth (GB/s)".into(),
        DeviceLocalCopy => format!("memcpy {engine} local GPU(column) bandwidth (GB/s)"),
        HostDeviceLatency => format!("memory latency {engine} CPU(row) <-> GPU(column) (ns)"),
        DeviceToDeviceLatency => {
            format!("Device to Device Latency {engine} GPU(row) <-> GPU(column) (ns)")
        }
    }
}
