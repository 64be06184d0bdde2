//! Every AMD part of the data is recognised by what its driver says of it, and gets its peaks:
//! units x operations per clock x the clock observed, and the rate of the memory's pins. What is
//! stated of a package of two dies is halved for each of the two devices that it shows.
//!
//! A row has what HIP and the kernel's files tell of one device. No row was captured on a machine:
//! they are put together from published specifications, and a capture goes before one of them. The
//! last column is the dense 16-bit peak at that clock in TFLOP/s, where the part's operations per
//! clock are known.

use fizeau::{
    case::{Contents, GemmPoint, Point, StreamOperation, StreamPoint},
    data::Catalogue,
    dtype::Dtype,
    spec::{self, Bound, CacheLevel, Match, Part, Properties, Tier},
    units::{Bytes, Megahertz},
};

struct Row {
    part: &'static str,
    name: &'static str,
    pci: &'static str,
    units: u32,
    mebibytes: u64,
    clock: f64,
    memory_mts: f64,
    bus: u32,
    peak: Option<f64>,
}

const fn row(
    (part, name, pci): (&'static str, &'static str, &'static str),
    (units, clock, peak): (u32, f64, Option<f64>),
    (mebibytes, memory_mts, bus): (u64, f64, u32),
) -> Row {
    Row { part, name, pci, units, mebibytes, clock, memory_mts, bus, peak }
}

const MI250: &str = "AMD Instinct MI250X/MI250";
const MI60: &str = "AMD Instinct MI60 / MI50";

const ROWS: &[Row] = &[
    row(("mi50", MI60, "66a1"), (60, 1725.0, None), (16_368, 2_000.0, 4_096)),
    row(("mi60", MI60, "66a1"), (64, 1800.0, None), (32_752, 2_000.0, 4_096)),
    row(
        ("mi100", "AMD Instinct MI100", "738c"),
        (120, 1502.0, Some(184.6)),
        (32_752, 2_400.0, 4_096),
    ),
    row(
        ("mi210", "AMD Instinct MI210", "740f"),
        (104, 1700.0, Some(181.0)),
        (65_520, 3_200.0, 4_096),
    ),
    // One of two devices of a package each.
    row(("mi250", MI250, "740c"), (104, 1700.0, Some(181.0)), (65_520, 3_200.0, 4_096)),
    row(("mi250x", MI250, "740c"), (110, 1700.0, Some(191.5)), (65_520, 3_200.0, 4_096)),
    row(
        ("mi300a", "AMD Instinct MI300A", "74a0"),
        (228, 2100.0, Some(980.6)),
        (131_056, 5_200.0, 8_192),
    ),
    row(
        ("mi300x", "AMD Instinct MI300X", "74a1"),
        (304, 2100.0, Some(1307.4)),
        (196_592, 5_200.0, 8_192),
    ),
    row(
        ("mi308x", "AMD Instinct MI308X", "74a2"),
        (80, 2100.0, Some(344.1)),
        (196_592, 5_200.0, 8_192),
    ),
    row(
        ("mi325x", "AMD Instinct MI325X", "74a5"),
        (304, 2100.0, Some(1307.4)),
        (262_128, 6_000.0, 8_192),
    ),
    row(
        ("mi350x", "AMD Instinct MI350X", "75a0"),
        (256, 2200.0, Some(2306.9)),
        (294_896, 8_000.0, 8_192),
    ),
    row(
        ("mi355x", "AMD Instinct MI355X", "75a3"),
        (256, 2400.0, Some(2516.6)),
        (294_896, 8_000.0, 8_192),
    ),
    row(
        ("mi455x", "AMD Instinct MI455X", ""),
        (256, 2400.0, Some(5033.2)),
        (442_352, 7_600.0, 24_576),
    ),
    row(
        ("rx-7900-xtx", "AMD Radeon RX 7900 XTX", "744c"),
        (96, 2498.0, Some(122.8)),
        (24_560, 20_000.0, 384),
    ),
    row(
        ("w7900", "AMD Radeon PRO W7900", "7448"),
        (96, 2495.0, Some(122.6)),
        (46_064, 18_000.0, 384),
    ),
    row(
        ("rx-9070-xt", "AMD Radeon RX 9070 XT", "7550"),
        (64, 2970.0, Some(194.6)),
        (16_304, 20_000.0, 256),
    ),
    row(
        ("r9700", "AMD Radeon AI PRO R9700", "7551"),
        (64, 2920.0, Some(191.4)),
        (32_624, 20_000.0, 256),
    ),
    row(
        ("strix-halo-8060s", "AMD Radeon 8060S Graphics", "1586"),
        (40, 2900.0, Some(59.4)),
        (122_880, 8_000.0, 256),
    ),
];

/// Parts that no driver names yet.
const UNNAMED: [&str; 2] = ["mi430x", "mi440x"];

fn properties(row: &Row) -> Properties {
    let level = |level, size, shared_by| CacheLevel { level, size, shared_by, line: Bytes(128) };
    Properties {
        backend: "hip".into(),
        name: row.name.into(),
        vendor: "AMD".into(),
        units: row.units,
        clock: Some(Megahertz(row.clock)),
        memory: Bytes(row.mebibytes << 20),
        memory_mts: Some(row.memory_mts),
        memory_bus_bits: Some(row.bus),
        caches: vec![
            level(2, Bytes::MIB * 4, row.units.div_ceil(8)),
            level(3, Bytes::MIB * 256, row.units),
        ],
        pci_id: (!row.pci.is_empty()).then(|| format!("1002:{}", row.pci)),
        ..Properties::default()
    }
}

fn catalogue() -> Catalogue {
    Catalogue::load(None).expect("the data")
}

fn found<'c>(catalogue: &'c Catalogue, properties: &Properties) -> &'c Part {
    match catalogue.identify(properties) {
        Match::One(part) => part,
        other => panic!("{}: {other:?}", properties.name),
    }
}

/// The rate that a tier sets some work against.
fn rate(point: &Point, properties: &Properties, part: &Part, tier: Tier) -> Option<(Bound, f64)> {
    let lights = spec::lights(point, properties, Some(part), properties.clock);
    let light = lights.into_iter().find(|light| light.tier == tier)?;
    let work = point.work();
    let amount = match light.bound {
        Bound::Memory => work.memory.0 as f64,
        _ => work.flops.0,
    };
    Some((light.bound, amount / light.time.0))
}

#[test]
fn every_part_of_the_data_has_a_row() {
    let catalogue = catalogue();
    let amd = catalogue.parts.iter().filter(|part| part.vendor == "AMD" && !part.is_host());
    let mut wanted: Vec<&str> = amd.map(|part| part.id.as_str()).collect();
    wanted.retain(|id| !UNNAMED.contains(id));
    let mut rows: Vec<&str> = ROWS.iter().map(|row| row.part).collect();
    rows.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(rows, wanted);
}

#[test]
fn a_part_is_known_by_name_and_number_and_by_either() {
    let catalogue = catalogue();
    for row in ROWS {
        let whole = properties(row);
        assert_eq!(found(&catalogue, &whole).id, row.part);
        let named = Properties { pci_id: None, ..whole.clone() };
        assert_eq!(found(&catalogue, &named).id, row.part, "by its name alone");
        if whole.pci_id.is_some() {
            let numbered = Properties { name: "a name of tomorrow".into(), ..whole };
            assert_eq!(found(&catalogue, &numbered).id, row.part, "by its number alone");
        }
    }
}

#[test]
fn products_are_set_against_units_times_operations_times_the_clock() {
    let catalogue = catalogue();
    let mut known = 0;
    for row in ROWS {
        let properties = properties(row);
        let part = found(&catalogue, &properties);
        let dtype = if row.part == "mi100" { Dtype::F16 } else { Dtype::Bf16 };
        let point = Point::Gemm(GemmPoint {
            dtype,
            m: 16_384,
            n: 16_384,
            k: 16_384,
            contents: Contents::Random,
        });
        let observed = rate(&point, &properties, part, Tier::Observed);
        match row.peak {
            Some(tera) => {
                let (bound, rate) = observed.expect(row.part);
                assert_eq!(bound, Bound::Compute, "{}", row.part);
                let off = rate / (tera * 1e12) - 1.0;
                assert!(off.abs() < 2e-3, "{}: {:.1}, not {tera}", row.part, rate / 1e12);
                known += 1;
            }
            None => {
                let compute = observed.filter(|found| found.0 == Bound::Compute);
                assert_eq!(compute, None, "{}", row.part)
            }
        }
    }
    assert!(known > 14, "{known}");
}

#[test]
fn memory_is_set_against_the_rate_of_its_pins() {
    let catalogue = catalogue();
    for row in ROWS {
        let properties = properties(row);
        let part = found(&catalogue, &properties);
        let working_set = Bytes::GIB * 2;
        let (stream, units) = (StreamOperation::Triad, properties.units);
        let point = Point::Stream(StreamPoint { stream, working_set, units });
        let (bound, pins) = rate(&point, &properties, part, Tier::Observed).expect(row.part);
        let (_, sheet) = rate(&point, &properties, part, Tier::Datasheet).expect(row.part);
        assert_eq!(bound, Bound::Memory, "{}", row.part);
        let off = pins / sheet - 1.0;
        assert!((-0.02..0.07).contains(&off), "{}: pins {pins:.4e}, sheet {sheet:.4e}", row.part);
    }
}

#[test]
fn a_die_of_a_package_gets_half_of_what_the_package_is_stated_for() {
    let catalogue = catalogue();
    for (id, package, units) in [("mi250x", 383.0, 110), ("mi250", 362.1, 104)] {
        let part = catalogue.parts.iter().find(|part| part.id == id).expect(id);
        let die = part.peaks[&Dtype::Bf16].0 / 1e12;
        assert!((die - package / 2.0).abs() < 0.1, "{id}: {die}");
        assert_eq!(part.units, Some(units), "{id}");
        assert_eq!(part.memory.map(|memory| memory.0), Some(64_000_000_000), "{id}");
        let bandwidth = part.memory_bandwidth.expect("stated").0 / 1e9;
        assert!((bandwidth - 1638.5).abs() < 1.0, "{id}: {bandwidth}");
    }
    let part = catalogue.parts.iter().find(|part| part.id == "mi300x").expect("mi300x");
    assert_eq!((part.units, part.memory.map(|m| m.0)), (Some(304), Some(192_000_000_000)));
}

#[test]
fn a_partition_of_a_gpu_is_no_part() {
    let whole = properties(ROWS.iter().find(|row| row.part == "mi300x").expect("a row"));
    let name = format!("{} CPX/NPS4", whole.name);
    let partition = Properties { name, pci_id: None, units: 38, ..whole };
    assert_eq!(catalogue().identify(&partition), Match::None);
}
