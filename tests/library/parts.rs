//! Every GPU of the data is recognised by what its driver says of it, and gets its peaks: units x
//! operations per clock x the clock observed, and the rate of the memory's pins. What is stated of
//! a package of two dies is halved for each of the two devices that it shows.
//!
//! A row of `parts.csv` has what a driver tells of one device: name, PCI number, SMs or compute
//! units, memory, highest clock, transfers per second and width of its memory. No row was captured
//! on a machine: they are put together from published specifications, and a capture goes before one
//! of them. The last column is the dense 16-bit peak at that clock, where the part's operations per
//! clock are known.

use fizeau::data::Catalogue;
use fizeau_domain::{
    case::{Contents, GemmPoint, Layout, Point, StreamOperation, StreamPoint},
    dtype::Dtype,
    spec::{self, Bound, CacheLevel, Conditions, Match, Part, Properties, Tier},
    units::{Bytes, Megahertz},
};
use serde::Deserialize;
use std::{collections::BTreeSet, sync::LazyLock};

/// What a part's driver tells: a row of tests/parts.csv.
#[derive(Deserialize)]
pub struct Row {
    pub vendor: String,
    pub part: String,
    pub name: String,
    pub pci: String,
    pub units: u32,
    pub memory_mib: u64,
    pub clock_mhz: f64,
    pub memory_mts: f64,
    pub bus_bits: u32,
    pub peak_tflops: Option<f64>,
}

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let rows = csv::Reader::from_reader(include_str!("../parts.csv").as_bytes()).into_deserialize();
    rows.collect::<Result<_, _>>().expect("a table of parts")
});

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| Catalogue::load(None).expect("the data"));

/// Parts that no driver names yet, or not apart from another.
const UNNAMED: [&str; 5] = ["gb200-nvl4", "mi430x", "mi440x", "rubin", "rubin-cpx"];

/// Parts before bfloat16, or whose operations per clock are known of binary16 alone.
const BINARY16: [&str; 6] =
    ["mi100", "t4", "v100-pcie-16", "v100-pcie-32", "v100-sxm2-16", "v100-sxm2-32"];

impl Row {
    pub fn of(part: &str) -> &'static Row {
        ROWS.iter().find(|row| row.part == part).expect(part)
    }

    fn properties(&self) -> Properties {
        let level = |level, mebibytes, shared_by| CacheLevel {
            level,
            size: Bytes::MIB * mebibytes,
            shared_by,
            line: Bytes(128),
        };
        let (backend, vendor, caches) = match self.vendor.as_str() {
            "AMD" => {
                let caches = vec![level(2, 4, self.units.div_ceil(8)), level(3, 256, self.units)];
                ("hip", "1002", caches)
            }
            _ => ("cuda", "10de", vec![level(2, 50, self.units)]),
        };
        Properties {
            backend: backend.into(),
            name: self.name.clone(),
            vendor: self.vendor.clone(),
            units: self.units,
            clock: Some(Megahertz(self.clock_mhz)),
            memory: Bytes(self.memory_mib << 20),
            memory_mts: Some(self.memory_mts),
            memory_bus_bits: Some(self.bus_bits),
            caches,
            pci_id: (!self.pci.is_empty()).then(|| format!("{vendor}:{}", self.pci)),
            ..Properties::default()
        }
    }
}

fn found(properties: &Properties) -> &'static Part {
    match CATALOGUE.identify(properties) {
        Match::One(part) => part,
        other => panic!("{}: {other:?}", properties.name),
    }
}

fn hot(clock: Option<Megahertz>) -> Conditions {
    Conditions { clock, hot: true, ..Conditions::default() }
}

/// The rate that a tier sets some work against.
fn rate(point: &Point, properties: &Properties, tier: Tier) -> Option<(Bound, f64)> {
    let lights = spec::lights(point, properties, Some(found(properties)), &hot(properties.clock));
    let light = lights.into_iter().find(|light| light.tier == tier)?;
    let work = point.work();
    let amount = match light.bound {
        Bound::Memory => work.memory.0 as f64,
        _ => work.flops.0,
    };
    Some((light.bound, amount / light.time.0))
}

#[test]
fn every_gpu_of_the_data_has_a_row() {
    let gpus = CATALOGUE.parts.iter().filter(|part| !part.is_host());
    let mut wanted: BTreeSet<&str> = gpus.map(|part| part.id.as_str()).collect();
    wanted.retain(|id| !UNNAMED.contains(id));
    let rows: BTreeSet<&str> = ROWS.iter().map(|row| row.part.as_str()).collect();
    assert_eq!(rows, wanted);
    assert_eq!(rows.len(), ROWS.len(), "a part has two rows");
}

#[test]
fn a_part_is_known_by_name_and_number_and_by_either() {
    for row in ROWS.iter() {
        let whole = row.properties();
        assert_eq!(found(&whole).id, row.part);
        let named = Properties { pci_id: None, ..whole.clone() };
        assert_eq!(found(&named).id, row.part, "by its name alone");
        if whole.pci_id.is_some() {
            let numbered = Properties { name: "a name of tomorrow".into(), ..whole };
            assert_eq!(found(&numbered).id, row.part, "by its number alone");
        }
    }
}

#[test]
fn products_are_set_against_units_times_operations_times_the_clock() {
    let mut known = 0;
    for row in ROWS.iter() {
        let binary16 = BINARY16.contains(&row.part.as_str());
        let point = Point::Gemm(GemmPoint {
            dtype: if binary16 { Dtype::F16 } else { Dtype::Bf16 },
            m: 16_384,
            n: 16_384,
            k: 16_384,
            layout: Layout::Nn,
            contents: Contents::Random,
        });
        let observed = rate(&point, &row.properties(), Tier::Observed);
        match row.peak_tflops {
            Some(tera) => {
                let (bound, rate) = observed.expect(&row.part);
                assert_eq!(bound, Bound::Compute, "{}", row.part);
                let off = rate / (tera * 1e12) - 1.0;
                assert!(off.abs() < 2e-3, "{}: {:.1} TFLOP/s, not {tera}", row.part, rate / 1e12);
                known += 1;
            }
            None => {
                let compute = observed.filter(|found| found.0 == Bound::Compute);
                assert_eq!(compute, None, "{}", row.part);
            }
        }
    }
    assert!(known > 44, "{known}");
}

#[test]
fn memory_is_set_against_the_rate_of_its_pins() {
    for row in ROWS.iter() {
        let properties = row.properties();
        // Beyond the last-level cache of each.
        let (stream, working_set) = (StreamOperation::Triad, Bytes::GIB * 2);
        let point = StreamPoint { stream, working_set, units: properties.units };
        let point = Point::Stream(point);
        let (bound, pins) = rate(&point, &properties, Tier::Observed).expect(&row.part);
        let (_, sheet) = rate(&point, &properties, Tier::Datasheet).expect(&row.part);
        assert_eq!(bound, Bound::Memory, "{}", row.part);
        // A datasheet rounds, and B200's states what the pins carry less some part of it.
        let off = pins / sheet - 1.0;
        assert!((-0.02..0.07).contains(&off), "{}: pins {pins:.4e}, sheet {sheet:.4e}", row.part);
    }
}

#[test]
fn a_die_of_a_package_gets_half_of_what_the_package_is_stated_for() {
    let part = |id: &str| CATALOGUE.parts.iter().find(|part| part.id == id).expect("a part");
    for (id, package, units) in [("mi250x", 383.0, 110), ("mi250", 362.1, 104)] {
        let part = part(id);
        let die = part.peaks[&Dtype::Bf16].0 / 1e12;
        assert!((die - package / 2.0).abs() < 0.1, "{id}: {die}");
        assert_eq!(part.units, Some(units), "{id}");
        assert_eq!(part.memory.map(|memory| memory.0), Some(64_000_000_000), "{id}");
        let bandwidth = part.memory_bandwidth.expect("stated").0 / 1e9;
        assert!((bandwidth - 1638.5).abs() < 1.0, "{id}: {bandwidth}");
    }
    let part = part("mi300x");
    assert_eq!((part.units, part.memory.map(|m| m.0)), (Some(304), Some(192_000_000_000)));
}

#[test]
fn a_slice_of_a_gpu_is_no_part() {
    for (part, slice, units) in [("h200-sxm", "MIG 1g.18gb", 16), ("mi300x", "CPX/NPS4", 38)] {
        let whole = Row::of(part).properties();
        let name = format!("{} {slice}", whole.name);
        let slice = Properties { name, pci_id: None, units, ..whole };
        assert_eq!(CATALOGUE.identify(&slice), Match::None);
    }
}
