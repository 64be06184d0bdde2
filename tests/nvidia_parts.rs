//! Every NVIDIA part of the data is recognised by what its driver says of it, and gets its peaks:
//! units x operations per clock x the clock observed, and the rate of the memory's pins.
//!
//! A row has the form in which `nvidia-smi -q` and CUDA's `deviceQuery` print: name, PCI number,
//! SMs, memory in MiB, highest clock of the SMs and clock of the memory in MHz, width of its bus.
//! No row was captured on a machine: they are put together from published specifications, and a
//! capture goes before one of them. The last column is the dense bfloat16 peak (of compute
//! capability 7.x: binary16) at that clock in TFLOP/s, where the part's operations per clock are
//! known.

use fizeau::{
    case::{Contents, GemmPoint, Point, StreamOperation, StreamPoint},
    data::Catalogue,
    dtype::Dtype,
    spec::{self, Bound, CacheLevel, Match, Part, Properties, Tier},
    units::{Bytes, Megahertz},
};

/// Part, name, PCI number, SMs, memory, clock, memory's clock, bus, peak.
type Row = (&'static str, &'static str, &'static str, u32, u64, f64, f64, u32, Option<f64>);

const ROWS: &[Row] = &[
    ("a10", "NVIDIA A10", "2236", 72, 23_028, 1695.0, 6251.0, 384, Some(125.0)),
    ("a100-pcie-40", "NVIDIA A100-PCIE-40GB", "20f1", 108, 40_960, 1410.0, 1215.0, 5120, A100),
    ("a100-pcie-80", "NVIDIA A100 80GB PCIe", "20b5", 108, 81_920, 1410.0, 1512.0, 5120, A100),
    ("a100-sxm4-40", "NVIDIA A100-SXM4-40GB", "20b0", 108, 40_960, 1410.0, 1215.0, 5120, A100),
    ("a100-sxm4-80", "NVIDIA A100-SXM4-80GB", "20b2", 108, 81_920, 1410.0, 1593.0, 5120, A100),
    ("a30", "NVIDIA A30", "20b7", 56, 24_576, 1440.0, 1215.0, 3072, Some(165.1)),
    ("a40", "NVIDIA A40", "2235", 84, 46_068, 1740.0, 7251.0, 384, Some(149.7)),
    ("b100", "NVIDIA B100", "29bc", 144, 183_359, 1965.0, 3996.0, 8192, None),
    ("b200-hgx", "NVIDIA B200", "2901", 148, 183_359, 1965.0, 3996.0, 8192, Some(2382.4)),
    ("b300-hgx", "NVIDIA B300 SXM6 AC", "", 148, 275_040, 2032.0, 3996.0, 8192, Some(2463.6)),
    ("gb10", "NVIDIA GB10", "2e2a", 48, 124_610, 2543.0, 4266.5, 256, None),
    ("gb200", "NVIDIA GB200", "2941", 152, 189_471, 2062.0, 3996.0, 8192, Some(2567.6)),
    ("gb300", "NVIDIA GB300", "31c2", 152, 284_208, 2032.0, 3996.0, 8192, Some(2530.2)),
    ("gh200-96", "NVIDIA GH200 480GB", "2342", 132, 97_871, 1980.0, 2619.0, 6144, HOPPER),
    ("gh200-144", "NVIDIA GH200 144G HBM3e", "2348", 132, 146_831, 1980.0, 3201.0, 6144, HOPPER),
    ("h100-nvl", "NVIDIA H100 NVL", "2321", 132, 95_830, 1785.0, 2619.0, 6016, Some(965.1)),
    ("h100-pcie", "NVIDIA H100 PCIe", "2331", 114, 81_559, 1755.0, 1593.0, 5120, Some(819.5)),
    ("h100-sxm", "NVIDIA H100 80GB HBM3", "2330", 132, 81_559, 1980.0, 2619.0, 5120, HOPPER),
    ("h20", "NVIDIA H20", "2329", 78, 97_871, 1980.0, 2619.0, 6144, None),
    ("h20-3e", "NVIDIA H20-3e", "232c", 78, 143_771, 1980.0, 3201.0, 6144, None),
    ("h200-nvl", "NVIDIA H200 NVL", "233b", 132, 143_771, 1785.0, 3201.0, 6144, Some(965.1)),
    ("h200-sxm", "NVIDIA H200", "2335", 132, 143_771, 1980.0, 3201.0, 6144, HOPPER),
    ("h800-sxm", "NVIDIA H800", "2324", 132, 81_559, 1980.0, 2619.0, 5120, HOPPER),
    ("l4", "NVIDIA L4", "27b8", 58, 23_034, 2040.0, 6251.0, 192, Some(121.2)),
    ("l40", "NVIDIA L40", "26b5", 142, 46_068, 2490.0, 9001.0, 384, Some(181.0)),
    ("l40s", "NVIDIA L40S", "26b9", 142, 46_068, 2520.0, 9001.0, 384, Some(366.4)),
    ("rtx-3090", "NVIDIA GeForce RTX 3090", "2204", 82, 24_576, 1695.0, 9751.0, 384, Some(71.2)),
    (
        "rtx-4090",
        "NVIDIA GeForce RTX 4090",
        "2684",
        128,
        24_564,
        2520.0,
        10_501.0,
        384,
        Some(165.2),
    ),
    (
        "rtx-5090",
        "NVIDIA GeForce RTX 5090",
        "2b85",
        170,
        32_607,
        2407.0,
        14_001.0,
        512,
        Some(209.5),
    ),
    (
        "rtx-6000-ada",
        "NVIDIA RTX 6000 Ada Generation",
        "26b1",
        142,
        49_140,
        2505.0,
        10_001.0,
        384,
        Some(364.2),
    ),
    (
        "rtx-pro-6000-se",
        "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        "2bb5",
        188,
        97_887,
        2430.0,
        12_481.0,
        512,
        Some(467.8),
    ),
    (
        "rtx-pro-6000-ws",
        "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
        "2bb1",
        188,
        97_887,
        2617.0,
        14_001.0,
        512,
        Some(503.8),
    ),
    ("t4", "Tesla T4", "1eb8", 40, 15_360, 1590.0, 5001.0, 256, Some(65.1)),
    ("v100-pcie-16", "Tesla V100-PCIE-16GB", "1db4", 80, 16_384, 1380.0, 877.0, 4096, Some(113.0)),
    ("v100-pcie-32", "Tesla V100-PCIE-32GB", "1db6", 80, 32_768, 1380.0, 877.0, 4096, Some(113.0)),
    ("v100-sxm2-16", "Tesla V100-SXM2-16GB", "1db1", 80, 16_384, 1530.0, 877.0, 4096, Some(125.3)),
    ("v100-sxm2-32", "Tesla V100-SXM2-32GB", "1db5", 80, 32_768, 1530.0, 877.0, 4096, Some(125.3)),
];

/// 108 x 2048 x 1.41 GHz, and 132 x 4096 x 1.98 GHz.
const A100: Option<f64> = Some(311.9);
const HOPPER: Option<f64> = Some(1070.5);

/// Parts that no driver names yet.
const UNNAMED: [&str; 2] = ["rubin", "rubin-cpx"];

fn properties(row: &Row) -> Properties {
    let &(_, name, pci, units, mebibytes, clock, memory_clock, bus, _) = row;
    Properties {
        backend: "cuda".into(),
        name: name.into(),
        vendor: "NVIDIA".into(),
        units,
        clock: Some(Megahertz(clock)),
        memory: Bytes(mebibytes << 20),
        memory_mts: Some(2.0 * memory_clock),
        memory_bus_bits: Some(bus),
        caches: vec![CacheLevel {
            level: 2,
            size: Bytes::MIB * 50,
            shared_by: units,
            line: Bytes(128),
        }],
        pci_id: (!pci.is_empty()).then(|| format!("10de:{pci}")),
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
    let nvidia = catalogue.parts.iter().filter(|part| part.vendor == "NVIDIA" && !part.is_host());
    let mut wanted: Vec<&str> = nvidia.map(|part| part.id.as_str()).collect();
    wanted.retain(|id| !UNNAMED.contains(id));
    let mut rows: Vec<&str> = ROWS.iter().map(|row| row.0).collect();
    rows.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(rows, wanted);
}

#[test]
fn a_part_is_known_by_name_and_number_and_by_either() {
    let catalogue = catalogue();
    for row in ROWS {
        let whole = properties(row);
        assert_eq!(found(&catalogue, &whole).id, row.0);
        let named = Properties { pci_id: None, ..whole.clone() };
        assert_eq!(found(&catalogue, &named).id, row.0, "by its name alone");
        if whole.pci_id.is_some() {
            let numbered = Properties { name: "a name of tomorrow".into(), ..whole };
            assert_eq!(found(&catalogue, &numbered).id, row.0, "by its number alone");
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
        let old = part.id.starts_with('v') || part.id == "t4";
        let dtype = if old { Dtype::F16 } else { Dtype::Bf16 };
        let point = Point::Gemm(GemmPoint {
            dtype,
            m: 16_384,
            n: 16_384,
            k: 16_384,
            contents: Contents::Random,
        });
        let observed = rate(&point, &properties, part, Tier::Observed);
        match row.8 {
            Some(tera) => {
                let (bound, rate) = observed.expect(row.0);
                assert_eq!(bound, Bound::Compute, "{}", row.0);
                let off = rate / (tera * 1e12) - 1.0;
                assert!(off.abs() < 2e-3, "{}: {:.1} TFLOP/s, not {tera}", row.0, rate / 1e12);
                known += 1;
            }
            None => {
                assert_eq!(observed.filter(|found| found.0 == Bound::Compute), None, "{}", row.0)
            }
        }
    }
    assert!(known > 30, "{known}");
}

#[test]
fn memory_is_set_against_the_rate_of_its_pins() {
    let catalogue = catalogue();
    for row in ROWS {
        let properties = properties(row);
        let part = found(&catalogue, &properties);
        let working_set = Bytes::GIB;
        let (stream, units) = (StreamOperation::Triad, properties.units);
        let point = Point::Stream(StreamPoint { stream, working_set, units });
        let (bound, pins) = rate(&point, &properties, part, Tier::Observed).expect(row.0);
        let (_, datasheet) = rate(&point, &properties, part, Tier::Datasheet).expect(row.0);
        assert_eq!(bound, Bound::Memory, "{}", row.0);
        // A datasheet rounds, and B200's states what the pins carry less some part of it.
        let off = pins / datasheet - 1.0;
        assert!((-0.02..0.07).contains(&off), "{}: pins {pins:.4e}, sheet {datasheet:.4e}", row.0);
    }
}

#[test]
fn a_slice_of_a_gpu_is_no_part() {
    let whole = properties(&ROWS[21]);
    let name = format!("{} MIG 1g.18gb", whole.name);
    let slice = Properties { name, pci_id: None, units: 16, ..whole };
    assert_eq!(catalogue().identify(&slice), Match::None);
}
