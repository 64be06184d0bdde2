//! Copies between the host and GPUs, and from GPU to GPU, as matrices.

use super::{Cell, Heat, HeatMap, HeatRow, case_table, chart::measurements, standing::shade};
use fizeau_domain::{
    case::{HostMemory, MemoryNode, Point, Transfer, TransferPoint},
    outcome::Measurement,
};
use fizeau_record::Record;
use std::collections::{BTreeMap, BTreeSet};

/// The best that was measured for a place of a matrix.
#[derive(Clone)]
struct Best {
    value: Cell,
    /// Bytes each second; of a latency loads each second.
    rate: f64,
    share: Option<f64>,
}

/// Places of a matrix: from a row's name and a column's.
type Places = BTreeMap<(Place, Place), Best>;

/// A row or a column: its order first.
type Place = (u32, String);

/// The matrices of records, each by its GPU's name (`cuda:3`): host links, then each way of copying
/// between GPUs; of several records also each of those relative to the median pair.
pub fn maps(records: &[(&str, &Record)]) -> Vec<HeatMap> {
    let mut maps: Vec<HeatMap> = host_links(records).into_iter().collect();
    maps.extend(from_each_node(records));
    for (transfer, title, caption) in PEERS {
        let places = peers(records, transfer);
        if places.is_empty() {
            continue;
        }
        let name = format!("transfer_{}", transfer.name());
        let shaded = "; the shade is relative to the best pair";
        let caption = format!("{caption} {}{shaded}.", chosen(transfer));
        maps.push(matrix(name, title.into(), caption, &places, |best, most| Heat {
            value: best.value.clone(),
            share: Some(best.rate / most),
        }));
        if records.len() > 1 {
            maps.extend(beside_the_median(transfer, title, &places));
        }
    }
    maps
}

/// The transfers between two GPUs, in words.
const PEERS: [(Transfer, &str, &str); 4] = [
    (
        Transfer::DeviceToDeviceMemcpyWrite,
        "Copies from GPU to GPU, written",
        "The GPU of the row writes to the memory of the GPU of the column.",
    ),
    (
        Transfer::DeviceToDeviceMemcpyRead,
        "Copies from GPU to GPU, read",
        "The GPU of the row reads from the memory of the GPU of the column.",
    ),
    (
        Transfer::DeviceToDeviceBidirectionalMemcpyRead,
        "Copies between GPUs, both ways at once",
        "Each of the two GPUs reads from the other at the same time; the rate is of both together.",
    ),
    (
        Transfer::DeviceToDeviceLatency,
        "Latency of loads from another GPU",
        "One load of the row's GPU that waits for the one before, from the column's memory.",
    ),
];

/// What stands in a place where several cases have it.
fn chosen(transfer: Transfer) -> &'static str {
    match transfer.is_latency() {
        true => "The lowest of its kernels",
        false => "Of the largest size, the faster of its kernels",
    }
}

/// Pairs of which the median says something.
const PAIRS_MIN: usize = 4;

/// The same matrix relative to the median of all pairs: a slow link stands out.
fn beside_the_median(transfer: Transfer, title: &str, places: &Places) -> Option<HeatMap> {
    let rates: Vec<f64> = places.values().map(|best| best.rate).collect();
    if rates.len() < PAIRS_MIN {
        return None;
    }
    let median = fizeau_domain::stats::quantile::median(&rates);
    let name = format!("transfer_{}_relative", transfer.name());
    let title = format!("{title}, relative to the median pair");
    let caption = "Below 1 is slower than the median of all pairs. Shades begin at 0.8.".into();
    Some(matrix(name, title, caption, places, |best, _| {
        let value = best.rate / median;
        Heat { value: Cell::Relative { value, is_stub: false }, share: Some(shade(value)) }
    }))
}

/// A map of places; `heat` is given a place's best and the best rate of all.
fn matrix(
    name: String,
    title: String,
    caption: String,
    places: &Places,
    heat: impl Fn(&Best, f64) -> Heat,
) -> HeatMap {
    let rows: BTreeSet<&Place> = places.keys().map(|(row, _)| row).collect();
    let columns: BTreeSet<&Place> = places.keys().map(|(_, column)| column).collect();
    let most = places.values().map(|best| best.rate).fold(f64::MIN_POSITIVE, f64::max);
    let of = |row: &Place, column: &Place| {
        let found = places.get(&(row.clone(), column.clone()));
        found.map_or(Heat { value: Cell::Absent, share: None }, |best| heat(best, most))
    };
    let row = |row: &Place| HeatRow {
        label: row.1.clone(),
        values: columns.iter().map(|column| of(row, column)).collect(),
    };
    HeatMap {
        name,
        title,
        caption,
        corner: "GPU".into(),
        columns: columns.iter().map(|(_, name)| name.clone()).collect(),
        rows: rows.into_iter().map(row).collect(),
    }
}

/// The transfers of a record.
fn transfers(record: &Record) -> impl Iterator<Item = (&Measurement, TransferPoint)> {
    measurements(record).filter_map(|measurement| match measurement.case.point {
        Point::Transfer(point) => Some((measurement, point)),
        _ => None,
    })
}

/// The largest size that a record has of a transfer.
fn largest(record: &Record, of: Transfer) -> u64 {
    let sizes = transfers(record).filter(|(_, point)| point.transfer == of);
    sizes.map(|(_, point)| point.size.0).max().unwrap_or(0)
}

fn best_of(measurement: &Measurement, point: &TransferPoint) -> Best {
    let median = measurement.summary.median;
    let rate = match point.transfer.is_latency() {
        true => 1.0 / median.0,
        false => (point.moved() / median).0,
    };
    Best { value: case_table::rate(measurement), rate, share: measurement.utilisation() }
}

fn keep(places: &mut Places, at: (Place, Place), best: Best) {
    let slot = places.entry(at).or_insert_with(|| best.clone());
    if slot.rate < best.rate {
        *slot = best;
    }
}

/// The family of a GPU's name: `cuda` of `cuda:3`.
fn family(name: &str) -> &str {
    name.split(':').next().unwrap_or(name)
}

fn peers(records: &[(&str, &Record)], of: Transfer) -> Places {
    let mut places = Places::new();
    for (name, record) in records {
        let size = largest(record, of);
        let its = transfers(record).filter(|(_, p)| p.transfer == of && p.size.0 == size);
        for (measurement, point) in its {
            let Some(peer) = point.peer else { continue };
            let row = (point.device, (*name).to_owned());
            let column = (peer, format!("{}:{peer}", family(name)));
            keep(&mut places, (row, column), best_of(measurement, &point));
        }
    }
    places
}

/// Ways between the host and a GPU, in words.
const WAYS: [(Transfer, &str); 6] = [
    (Transfer::HostToDeviceMemcpy, "host to GPU"),
    (Transfer::DeviceToHostMemcpy, "GPU to host"),
    (Transfer::HostToDeviceBidirectionalMemcpy, "host to GPU, while copies go back"),
    (Transfer::HostToAllMemcpy, "host to GPU, while all GPUs are copied to"),
    (Transfer::AllToHostMemcpy, "GPU to host, while all GPUs copy"),
    (Transfer::HostDeviceLatency, "latency"),
];

/// Copies with memory of each NUMA node of the host: a row for each GPU and node, a column for each
/// way.
fn from_each_node(records: &[(&str, &Record)]) -> Option<HeatMap> {
    let mut places = Places::new();
    for (name, record) in records {
        for (measurement, point) in transfers(record) {
            let Some(node) = point.node else { continue };
            let way = WAYS.iter().position(|(transfer, _)| *transfer == point.transfer);
            let Some(way) = way else { continue };
            let near = match node.distance {
                Some(MemoryNode::LOCAL) => " (its own)",
                _ => "",
            };
            // In the order of devices, and of nodes of each.
            let order = point.device.saturating_mul(1 << 10).saturating_add(node.number);
            let row = (order, format!("{name}, node {}{near}", node.number));
            let column = (way as u32, WAYS[way].1.to_owned());
            keep(&mut places, (row, column), best_of(measurement, &point));
        }
    }
    let caption = "Host memory is on the NUMA node of the row. The shade is the share of the \
                   link's peak, where one is known.";
    (!places.is_empty()).then(|| {
        let name = "transfer_host_nodes".into();
        let title = "Copies between each NUMA node of the host and GPU".into();
        matrix(name, title, caption.into(), &places, |best, _| Heat {
            value: best.value.clone(),
            share: best.share,
        })
    })
}

/// Copies with the host: a row for each GPU, a column for each way.
fn host_links(records: &[(&str, &Record)]) -> Option<HeatMap> {
    let mut places = Places::new();
    for (name, record) in records {
        for (order, (transfer, words)) in (0u32..).zip(WAYS) {
            let is_its = |point: &TransferPoint| point.transfer == transfer && point.node.is_none();
            let sizes = transfers(record).filter(|(_, point)| is_its(point));
            let size = sizes.map(|(_, point)| point.size.0).max().unwrap_or(0);
            let its = transfers(record).filter(|(_, p)| is_its(p) && p.size.0 == size);
            for (measurement, point) in its {
                let of = point.peer.unwrap_or(point.device);
                let row = match point.peer {
                    Some(peer) => format!("{}:{peer}", family(name)),
                    None => (*name).to_owned(),
                };
                let pageable = point.host == HostMemory::Pageable;
                let words = if pageable { format!("{words}, pageable") } else { words.into() };
                let column = (order * 2 + u32::from(pageable), words);
                keep(&mut places, ((of, row), column), best_of(measurement, &point));
            }
        }
    }
    let caption = "Of the largest size. Host memory is pinned where a column does not say \
                   otherwise; the shade is the share of the link's peak, where one is known.";
    (!places.is_empty()).then(|| {
        let (name, title) = ("transfer_host".into(), "Copies between host and GPU".into());
        matrix(name, title, caption.into(), &places, |best, _| Heat {
            value: best.value.clone(),
            share: best.share,
        })
    })
}
