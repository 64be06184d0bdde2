//! What collectives put on the wire: the speed of light of links, and the report's table.

use crate::synthetic;
use fizeau::data::Catalogue;
use fizeau_domain::{
    case::{Algorithm, Case, Collective, CollectivePoint, KernelName, Point},
    dtype::Dtype,
    spec::{self, Bound, Conditions, Properties},
    units::{Bytes, Seconds},
};
use fizeau_record::{Network, Record};
use fizeau_report::{self as report, Block, Cell, Table};

const GIB_8: Bytes = Bytes(8 << 30);

fn all_reduce(ranks: u32) -> CollectivePoint {
    CollectivePoint::new(Collective::AllReduce, Dtype::Bf16, GIB_8, ranks)
}

/// 8 H200 reach 480 GB/s of bus bandwidth, more than the 450 that a link carries one way: their
/// switch reduces. That is no time faster than light; and on A100, whose switch does not, it is.
#[test]
fn bus_bandwidth_above_that_of_a_link_is_believed_where_the_switch_reduces() {
    let catalogue = Catalogue::load(None).expect("the data");
    let of = |id: &str| catalogue.parts.iter().find(|part| part.id == id).expect("the part");
    let point = all_reduce(8);
    let at_busbw = |busbw: f64| GIB_8.0 as f64 * 1.75 / busbw;
    for (id, link, factor) in [("h200-sxm", 450e9, 1.125), ("a100-sxm4-80", 300e9, 1.75)] {
        let part = of(id);
        let (point, nothing) = (Point::Collective(point), Conditions::default());
        let floor = spec::floor(&point, &Properties::default(), Some(part), &nothing);
        let floor = floor.expect("the link is known");
        assert_eq!(floor.bound, Bound::Link);
        let expected = GIB_8.0 as f64 * factor / link;
        assert!((floor.time.0 / expected - 1.0).abs() < 1e-9, "{id}: {}", floor.time);
        let lights = spec::lights(&point, &Properties::default(), Some(part), &nothing);
        assert!(lights.iter().all(|light| light.time == floor.time), "{id}: {lights:?}");
        assert_eq!(at_busbw(482e9) < floor.time.0, id == "a100-sxm4-80", "{id}");
    }
    // One rank has no link, and is bounded by none.
    let one = CollectivePoint::new(Collective::Broadcast, Dtype::F32, GIB_8, 1);
    let part = of("h200-sxm");
    let (point, nothing) = (Point::Collective(one), Conditions::default());
    let floor = spec::floor(&point, &Properties::default(), Some(part), &nothing);
    assert_eq!(floor, None);
}

fn table(record: &Record) -> Option<Table> {
    report::run(record).blocks.into_iter().find_map(|block| match block {
        Block::Table(table) if table.name == "wire" => Some(table),
        _ => None,
    })
}

/// The synthetic record, whose collectives another kernel carried out between so many ranks.
fn record(kernel: &str, ranks: u32, network: Option<Network>) -> Record {
    let mut record = synthetic::record();
    record.header.environment.network = network;
    for measurement in synthetic::measured_in(&mut record) {
        let Point::Collective(point) = measurement.case.point else { continue };
        let point = Point::Collective(CollectivePoint { ranks, ..point });
        measurement.case = Case { kernel: KernelName(kernel.into()), point };
        measurement.summary.median = Seconds(0.001);
    }
    record
}

#[test]
fn the_report_says_what_each_link_and_interface_carried() {
    assert_eq!(table(&record("threads", 2, None)), None, "threads have no wires");
    let network = Some(Network { nodes: 2, interfaces: 4, gigabits: 1600 });
    let table = table(&record("nccl", 8, network)).expect("a table");
    let column = |key: &str| {
        table.columns.iter().position(|column| column.key == key).expect("such a column")
    };
    let of = |collective: &str| {
        let named = |row: &&Vec<Cell>| matches!(&row[0], Cell::Code(name) if name == collective);
        table.rows.iter().find(named).expect("its row")
    };
    let rate = |row: &Vec<Cell>, key: &str| match &row[column(key)] {
        Cell::Bandwidth(rate) => Some(rate.0),
        _ => None,
    };
    // The longest message, 256 MiB, in a millisecond.
    let algbw = (256u64 << 20) as f64 / 0.001;
    let row = of("all_reduce");
    assert!(matches!(row[column("message_bytes")], Cell::Size(Bytes(size)) if size == 256 << 20));
    for (key, factor) in [
        ("busbw_bytes_per_second", Some(1.75)),
        ("ring_bytes_per_second", Some(1.75)),
        ("tree_bytes_per_second", Some(2.0)),
        ("switch_bytes_per_second", Some(1.125)),
        ("direct_bytes_per_second", None),
        ("interface_bytes_per_second", Some(0.25)),
    ] {
        let found = rate(row, key);
        let wanted = factor.map(|factor| algbw * factor);
        let near = found.zip(wanted).is_some_and(|(a, b)| (a / b - 1.0).abs() < 1e-6);
        assert!(near || found.is_none() && wanted.is_none(), "{key}: {found:?}");
    }
    let Cell::Share(share) = row[column("interface_share")] else { panic!("no share") };
    assert!((share - algbw / 200e9).abs() < 1e-6, "{share}");
    assert_eq!(rate(of("all_to_all"), "direct_bytes_per_second"), Some(algbw * 0.875));
    assert_eq!(all_reduce(8).wire(Algorithm::Direct), None);
}
