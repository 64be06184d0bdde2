//! What collectives put on the wire at their longest message, by the algorithms that may have
//! carried them out, and on each network interface between nodes.

use super::{
    Cell, Column, Table, Weight,
    chart::{Swept, measurements},
};
use fizeau_domain::{
    case::{Algorithm, CollectivePoint, Point},
    outcome::Measurement,
    units::{Bytes, BytesPerSecond},
};
use fizeau_record::{Network, Record};
use std::collections::BTreeMap;

/// The longest message of each collective whose ranks have links or networks between them.
fn longest(record: &Record) -> BTreeMap<Swept, (CollectivePoint, &Measurement)> {
    let mut longest: BTreeMap<Swept, (CollectivePoint, &Measurement)> = BTreeMap::new();
    for measurement in measurements(record) {
        let Point::Collective(point) = measurement.case.point else { continue };
        let has_wires = match measurement.case.kernel.0.as_str() {
            "nccl" | "rccl" => true,
            _ => record.header.environment.network.is_some(),
        };
        if !has_wires || point.ranks < 2 {
            continue;
        }
        let slot = longest.entry(Swept::of(&point)).or_insert((point, measurement));
        let (is_longer, is_faster) =
            (point.message > slot.0.message, measurement.summary.median < slot.1.summary.median);
        if is_longer || point.message == slot.0.message && is_faster {
            *slot = (point, measurement);
        }
    }
    longest
}

/// Bytes of all of a node's interfaces each second, what each of them has of it, and its share of
/// their rate.
fn of_interfaces(network: Option<&Network>, bytes: Option<Bytes>, of: &Measurement) -> [Cell; 2] {
    let absent = [Cell::Absent, Cell::Absent];
    let (Some(network), Some(bytes)) = (network, bytes) else { return absent };
    if network.interfaces == 0 {
        return absent;
    }
    let rate = bytes / of.summary.median;
    let peak = BytesPerSecond(f64::from(network.gigabits) * 1e9 / 8.0);
    let each = rate * (1.0 / f64::from(network.interfaces));
    [Cell::Bandwidth(each), Cell::Share(rate / peak)]
}

/// One line for each collective.
pub fn table(record: &Record) -> Option<Table> {
    let network = record.header.environment.network.as_ref();
    let row = |(swept, (point, measurement)): (Swept, (CollectivePoint, &Measurement))| {
        let median = measurement.summary.median;
        let wire = |algorithm| {
            point.wire(algorithm).map_or(Cell::Absent, |bytes| Cell::Bandwidth(bytes / median))
        };
        let algbw = point.message / median;
        let nodes = network.map_or(1, |network| network.nodes);
        let [each, share] = of_interfaces(network, point.leaves_node(nodes), measurement);
        vec![
            Cell::Code(swept.named(record)),
            Cell::Size(point.message),
            Cell::Bandwidth(algbw),
            Cell::Bandwidth(algbw * point.collective.bus_factor(point.ranks)),
            wire(Algorithm::Ring),
            wire(Algorithm::Tree),
            wire(Algorithm::Switch),
            wire(Algorithm::Direct),
            each,
            share,
        ]
    };
    let rows: Vec<_> = longest(record).into_iter().map(row).collect();
    let title = "On the wire of one rank, by the algorithm that may have been chosen";
    let columns = vec![
        Column::new("collective", "collective", Weight::Essential),
        Column::new("message_bytes", "message", Weight::Essential),
        Column::new("algbw_bytes_per_second", "algbw", Weight::Useful),
        Column::new("busbw_bytes_per_second", "busbw", Weight::Essential),
        Column::new("ring_bytes_per_second", "ring", Weight::Essential),
        Column::new("tree_bytes_per_second", "tree", Weight::Useful),
        Column::new("switch_bytes_per_second", "in-switch", Weight::Essential),
        Column::new("direct_bytes_per_second", "direct", Weight::Essential),
        Column::new("interface_bytes_per_second", "each NIC", Weight::Essential),
        Column::new("interface_share", "of NICs", Weight::Essential),
    ];
    Table::unless_empty("wire", title, columns, rows)
}
