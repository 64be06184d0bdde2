//! The data's own arithmetic: vendor numbers that contradict each other are found here. Each rule
//! has a planted fault beside it.

use fizeau::data::Catalogue;
use fizeau_domain::{
    case::{
        Access, AccessPoint, AttentionKind, AttentionPoint, ComputePoint, Contents, GemmPoint,
        Layout, Mask, Point, StreamOperation, StreamPoint,
    },
    dtype::Dtype,
    outcome::Outcome,
    spec::{
        self, Bound, CacheLevel, Conditions, CpuId, Match, Properties, Tier,
        part::{GpuFile, HostFile, LinkFile},
    },
    units::{Bytes, Megahertz},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Figures of one text are printed with two or three digits.
const TOLERANCE: f64 = 0.03;

fn near(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * a.abs().max(b.abs())
}

pub fn files<F: serde::de::DeserializeOwned>(folder: &str) -> BTreeMap<String, F> {
    let folder = Path::new("data").join(folder);
    fs::read_dir(&folder)
        .expect("the data is there")
        .map(|entry| {
            let path = entry.expect("a file").path();
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).expect("UTF-8");
            (name, toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
        })
        .collect()
}

/// What contradicts itself in a GPU's file.
pub fn gpu_faults(file: &GpuFile) -> Vec<String> {
    let mut faults = Vec::new();
    let clock_of = |key: &str| {
        let clock = file.clock_mhz.as_ref()?;
        match key {
            "fp64_matrix" => clock.fp64_matrix.or(clock.matrix).or(Some(clock.vector)),
            "int8_matrix" => clock.int8_matrix.or(clock.matrix).or(Some(clock.vector)),
            key if key.contains("matrix") => clock.matrix.or(Some(clock.vector)),
            _ => Some(clock.vector),
        }
    };
    for (key, peak) in &file.peak {
        let rate = file.flop_per_clk_per_unit.get(key);
        if let (Some(units), Some(rate), Some(clock)) = (file.units, rate, clock_of(key)) {
            let computed = f64::from(units) * rate * clock / 1e6;
            let tolerance = file.check_tolerance.get(key).copied().unwrap_or(TOLERANCE);
            if !near(computed, *peak, tolerance) {
                faults.push(format!("{key}: {peak} printed, {computed:.1} computed"));
            }
        }
    }
    let bandwidth = file.memory_bandwidth_gb_per_s;
    if let (Some(bits), Some(rate), Some(printed)) =
        (file.memory_bus_bits, file.memory_data_rate_gbit_per_s_per_pin, bandwidth)
    {
        let computed = f64::from(bits) * rate / 8.0;
        if !near(computed, printed, file.bandwidth_check_tolerance.unwrap_or(TOLERANCE)) {
            faults.push(format!("bandwidth: {printed} printed, {computed:.1} computed"));
        }
    }
    if let Some(link) = &file.link
        && let (Some(links), Some(each), Some(total)) =
            (link.links, link.gb_per_s_per_link_per_dir, link.total_bidir_gb_per_s)
        && !near(f64::from(links) * each * 2.0, total, 0.01)
    {
        faults.push(format!("link: {links} x {each} x 2 is not {total}"));
    }
    let not_slower = [
        ("fp8_matrix", "fp16_matrix"),
        ("fp4_matrix", "fp8_matrix"),
        ("fp16_matrix", "tf32_matrix"),
        ("fp16_matrix", "fp32_vector"),
    ];
    for (narrow, wide) in not_slower {
        if let (Some(a), Some(b)) = (file.peak.get(narrow), file.peak.get(wide))
            && *a < b * (1.0 - TOLERANCE)
        {
            faults.push(format!("{narrow} {a} is below {wide} {b}"));
        }
    }
    let ambiguous = !file.ambiguous_aliases.is_empty() || !file.ambiguous_pci_ids.is_empty();
    if ambiguous && file.resolve_ambiguous_by.is_none() {
        faults.push("an ambiguous name without a way to resolve it".into());
    }
    let is_named = !file.arch.is_empty() && !file.memory_type.is_empty();
    if file.measured.is_empty() && (!is_named || file.form_factor.is_empty()) {
        faults.push("an architecture, a memory or a form without a name".into());
    }
    if file.source.is_empty() || file.source.iter().any(|source| source.title.is_empty()) {
        faults.push("no source".into());
    }
    faults
}

pub fn host_faults(file: &HostFile) -> Vec<String> {
    let mut faults = Vec::new();
    if let (Some(channels), Some(mts)) = (file.memory_channels, file.memory_mts) {
        let bytes = f64::from(file.memory_bus_bits_per_channel) / 8.0;
        let computed = f64::from(channels) * mts * bytes / 1e3;
        let printed = file.bandwidth_gb_per_s_per_socket.unwrap_or_default();
        if !near(computed, printed, 0.01) {
            faults.push(format!("bandwidth: {printed} printed, {computed:.1} computed"));
        }
    }
    let rate = |dtype| file.flop_per_clk_per_core.get(&dtype).copied().unwrap_or_default();
    // What was measured scatters.
    let tolerance = if file.measured.is_empty() { 0.0 } else { 0.1 };
    if !near(rate(Dtype::F32), rate(Dtype::F64) * 2.0, tolerance) {
        faults.push("f32 is not twice f64".into());
    }
    if file.measured.is_empty() && (file.core.is_empty() || file.memory_type.is_empty()) {
        faults.push("a core or a memory without a name".into());
    }
    if file.source.is_empty() {
        faults.push("no source".into());
    }
    faults
}

fn link_faults(file: &LinkFile) -> Vec<String> {
    let mut faults = Vec::new();
    let raw = file.raw_gb_per_s_per_dir;
    let mut hold = |what: &str, computed: Option<f64>| {
        if let Some(computed) = computed
            && !near(raw, computed, 0.01)
        {
            faults.push(format!("{what}: {raw} printed, {computed:.2} computed"));
        }
    };
    let per_lane = |rate: f64, lanes: u32| rate * f64::from(lanes) * file.encoding.unwrap_or(1.0);
    hold("lanes", file.gt_per_s.zip(file.lanes).map(|(rate, lanes)| per_lane(rate, lanes) / 8.0));
    let links = file.links.zip(file.gb_per_s_per_link_per_dir);
    hold("links", links.map(|(links, each)| f64::from(links) * each));
    hold("bits", file.gbit_per_s.map(|bits| bits / 8.0));
    if file.practical_gb_per_s_per_dir.is_some_and(|practical| practical > raw) {
        faults.push("practical is above raw".into());
    }
    faults
}

#[test]
fn every_suite_of_ours_can_be_run() {
    let catalogue = Catalogue::load(None).expect("the data");
    let names: Vec<&str> = catalogue.suite_names().collect();
    assert!(names.contains(&"quick") && names.contains(&"gpu-quick"), "{names:?}");
    for name in names {
        let (suite, _) = catalogue.suite(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(suite.name, name);
        let one_line = 1..=76;
        assert!(one_line.contains(&suite.description.chars().count()), "{}", suite.description);
    }
}

#[test]
fn every_file_agrees_with_itself() {
    let mut faults = Vec::new();
    let mut add = |name: &str, found: Vec<String>| {
        faults.extend(found.into_iter().map(|fault| format!("{name}: {fault}")));
    };
    let (gpus, hosts, links) =
        (files::<GpuFile>("parts"), files::<HostFile>("hosts"), files::<LinkFile>("links"));
    assert!(gpus.len() >= 90 && hosts.len() >= 70 && links.len() >= 30);
    gpus.iter().for_each(|(name, file)| add(name, gpu_faults(file)));
    hosts.iter().for_each(|(name, file)| add(name, host_faults(file)));
    links.iter().for_each(|(name, file)| add(name, link_faults(file)));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn numbers_with_sparsity_say_so_in_their_field_too() {
    for (name, file) in files::<GpuFile>("parts") {
        for also in &file.also_stated {
            assert!(also.sparse || !also.what.contains("sparsity"), "{name}: {}", also.what);
        }
    }
}

#[test]
fn planted_faults_are_found() {
    let gpus = files::<GpuFile>("parts");
    let spoilt = |spoil: &dyn Fn(&mut GpuFile)| {
        let mut file = gpus["h200-sxm"].clone();
        assert!(gpu_faults(&file).is_empty());
        spoil(&mut file);
        gpu_faults(&file).join("\n")
    };
    assert!(spoilt(&|file| *file.peak.get_mut("bf16_matrix").unwrap() *= 2.0).contains("bf16"));
    assert!(spoilt(&|file| file.memory_bandwidth_gb_per_s = Some(6e3)).contains("bandwidth"));
    assert!(spoilt(&|file| file.link.as_mut().unwrap().links = Some(17)).contains("link"));
    assert!(spoilt(&|file| file.source.clear()).contains("no source"));
    assert!(spoilt(&|file| file.arch.clear()).contains("without a name"));
    assert!(spoilt(&|file| file.ambiguous_pci_ids.push("1:2".into())).contains("ambiguous"));
    assert!(spoilt(&|file| *file.peak.get_mut("fp8_matrix").unwrap() = 1.0).contains("below"));
    let mut host = files::<HostFile>("hosts")["epyc-9005"].clone();
    host.memory_channels = Some(8);
    host.flop_per_clk_per_core.insert(Dtype::F32, 32.0);
    host.core.clear();
    assert_eq!(host_faults(&host).len(), 3);
    let mut link = files::<LinkFile>("links").into_values().find(|l| l.gbit_per_s.is_some());
    let link = link.as_mut().unwrap();
    link.raw_gb_per_s_per_dir *= 1.5;
    assert!(!link_faults(link).is_empty());
}

#[test]
fn unknown_fields_and_files_without_sources_are_refused() {
    let text = fs::read_to_string("data/parts/h200-sxm.toml").unwrap();
    assert!(toml::from_str::<GpuFile>(&format!("bandwith = 1\n{text}")).is_err());
    assert!(toml::from_str::<GpuFile>(&text.replace("[[source]]", "[[sauce]]")).is_err());
}

fn hot(clock: Option<Megahertz>) -> Conditions {
    Conditions { clock, hot: true, ..Conditions::default() }
}

fn gpu(name: &str, pci_id: &str, units: u32, gigabytes: u64) -> Properties {
    Properties {
        backend: "cuda".into(),
        name: name.into(),
        pci_id: Some(pci_id.into()),
        units,
        memory: Bytes(gigabytes * 1_000_000_000),
        ..Properties::default()
    }
}

fn turin() -> Properties {
    let cache = |level, size, shared_by| CacheLevel { level, size, shared_by, line: Bytes(64) };
    Properties {
        backend: "host".into(),
        name: "AMD EPYC".into(),
        vendor: "AMD".into(),
        units: 2,
        caches: vec![
            cache(1, Bytes::KIB * 48, 1),
            cache(2, Bytes::MIB, 1),
            cache(3, Bytes::MIB * 32, 2),
        ],
        cpu: Some(CpuId { family: 26, model: 2, stepping: 1 }),
        ..Properties::default()
    }
}

#[test]
fn devices_are_recognised() {
    let catalogue = Catalogue::load(None).unwrap();
    let id = |properties: &Properties| match catalogue.identify(properties) {
        Match::One(part) => part.id.clone(),
        Match::Ambiguous(parts) => format!("one of {}", parts.len()),
        Match::None => "none".into(),
    };
    assert_eq!(id(&gpu("NVIDIA H200", "10de:2335", 132, 141)), "h200-sxm");
    assert_eq!(id(&gpu("nvidia h200", "", 132, 141)), "h200-sxm");
    assert_eq!(id(&gpu("AMD Instinct MI300X", "1002:74a1", 304, 192)), "mi300x");
    let joint = "AMD Instinct MI250X / MI250";
    assert_eq!(id(&gpu(joint, "1002:740c", 110, 64)), "mi250x");
    assert_eq!(id(&gpu(joint, "1002:740c", 104, 64)), "mi250");
    assert_eq!(id(&gpu(joint, "1002:740c", 7, 1)), "one of 2");
    assert_eq!(id(&gpu("Voodoo 3", "121a:0005", 1, 1)), "none");
    assert_eq!(id(&turin()), "epyc-9005");
}

#[test]
fn a_package_of_two_dies_has_half_of_everything_for_each() {
    let catalogue = Catalogue::load(None).unwrap();
    let die = gpu("AMD Instinct MI250X / MI250", "1002:740c", 110, 64);
    let part = catalogue.part_of(&die).unwrap();
    assert_eq!(part.units, Some(110));
    assert!(near(part.peaks[&Dtype::Bf16].0, 191.5e12, 0.01));
    assert!(near(part.memory_bandwidth.unwrap().0, 1.638e12, 0.01));
}

#[test]
fn the_host_is_set_against_its_own_limits() {
    let (catalogue, properties) = (Catalogue::load(None).unwrap(), turin());
    let part = catalogue.part_of(&properties);
    let clock = Some(Megahertz(4000.0));
    let headline = |point: Point| {
        let lights = spec::lights(&point, &properties, part, &hot(clock));
        let tier = spec::headline(&lights)?;
        let light = lights.iter().find(|light| light.tier == tier)?;
        Some((tier, light.bound, point.work().memory.0 as f64 / light.time.0 / 1e9))
    };
    let stream = |size: Bytes| {
        Point::Stream(StreamPoint { stream: StreamOperation::Read, working_set: size, units: 1 })
    };
    let (tier, bound, rate) = headline(stream(Bytes::GIB)).unwrap();
    assert_eq!((tier, bound), (Tier::Datasheet, Bound::Memory));
    assert!(near(rate, 576.0, 1e-6), "{rate}");
    // 128 bytes each clock at 4 GHz.
    let (tier, bound, rate) = headline(stream(Bytes::KIB * 16)).unwrap();
    assert_eq!((tier, bound), (Tier::Observed, Bound::Cache));
    assert!(near(rate, 512.0, 1e-6), "{rate}");
    // Two cores, 64 operations each clock, 4 GHz.
    let compute = Point::Compute(ComputePoint { dtype: Dtype::F32, units: 2 });
    let floor = spec::floor(&compute, &properties, part, &hot(clock)).unwrap();
    assert_eq!(floor.bound, Bound::Compute);
    assert!(near(compute.work().flops.0 / floor.time.0, 512e9, 1e-6));
    let gemm = |m| {
        Point::Gemm(GemmPoint {
            dtype: Dtype::F32,
            m,
            n: 4096,
            k: 4096,
            layout: Layout::Nn,
            contents: Contents::Random,
        })
    };
    assert_eq!(headline(gemm(4096)).unwrap().1, Bound::Compute);
    // A machine in no table, of which nothing is known: no share is made up.
    let unknown = Properties { cpu: None, ..properties.clone() };
    assert_eq!(spec::floor(&compute, &unknown, None, &hot(clock)), None);
    assert!(spec::lights(&gemm(1), &unknown, None, &hot(clock)).is_empty());
}

/// A stream that a GPU's shared cache holds, and reads of what is each unit's own.
fn within_caches(units: u32) -> (Point, [Point; 2]) {
    let working_set = Bytes::MIB * u64::from(units);
    let stream = StreamPoint { stream: StreamOperation::Read, working_set: Bytes::MIB * 8, units };
    let own = [Access::Shared, Access::FirstCache].map(|access| {
        Point::Access(AccessPoint { access, working_set, row: Bytes::KIB * 16, units })
    });
    (Point::Stream(stream), own)
}

#[test]
fn a_working_set_within_a_cache_has_a_share_of_the_cache_that_is_asked() {
    let catalogue = Catalogue::load(None).unwrap();
    let clock = Megahertz(1500.0);
    let level = |level, size, shared_by| CacheLevel { level, size, shared_by, line: Bytes(128) };
    let mut stated = Vec::new();
    for part in catalogue.parts.iter().filter(|part| !part.is_host()) {
        let units = part.units.unwrap_or(64);
        let backend = if part.vendor == "NVIDIA" { "cuda" } else { "hip" };
        let properties = Properties {
            backend: backend.into(),
            units,
            clock: Some(clock),
            caches: vec![level(2, Bytes::MIB * 40, units)],
            ..Properties::default()
        };
        let lights =
            |point: &Point| spec::lights(point, &properties, Some(part), &hot(Some(clock)));
        let per_clock = |point: &Point, time: f64| point.work().memory.0 as f64 / time / 1500e6;
        let (stream, own) = within_caches(units);
        // The rate of the shared cache, or no limit at all: never that of the units' own.
        let rates: Vec<f64> =
            lights(&stream).iter().map(|light| per_clock(&stream, light.time.0)).collect();
        match part.l2_per_clock {
            Some(rate) => {
                stated.push(part.id.as_str());
                assert!(rates.iter().all(|&one| near(one, rate, 1e-9)), "{}: {rates:?}", part.id);
                assert!(!rates.is_empty(), "{}", part.id);
            }
            None => assert!(rates.is_empty(), "{}: {rates:?}", part.id),
        }
        // What is a unit's own is bound by nothing beyond it, neither as a share nor as a floor.
        for point in &own {
            let floor = spec::floor(point, &properties, Some(part), &hot(Some(clock)));
            let all = lights(point).into_iter().chain(floor);
            let rates: Vec<f64> = all.map(|light| per_clock(point, light.time.0)).collect();
            let wanted = f64::from(units) * 128.0;
            assert!(rates.iter().all(|&one| near(one, wanted, 1e-9)), "{}: {rates:?}", part.id);
            assert_eq!(rates.is_empty(), part.vendor != "NVIDIA", "{}", part.id);
        }
    }
    assert!(stated.contains(&"a100-sxm4-80") && stated.contains(&"mi300x"), "{stated:?}");
}

#[test]
fn a_record_of_before_has_no_share_of_a_cache_that_was_not_asked() {
    let path = Path::new("results/h100-sxm/2026-11-26-stream-figures/stream");
    let record = fizeau_record::store::read(path).expect("kept");
    let last = record.header.device.last_level_cache();
    let (mut within, mut beyond) = (0, 0);
    let measured = record.outcomes.iter().filter_map(|one| match one {
        Outcome::Measured(one) => Some(one),
        _ => None,
    });
    for one in measured {
        let Point::Stream(stream) = one.case.point else { continue };
        if stream.working_set <= last {
            within += 1;
            assert_eq!((one.tier, one.speed_of_light.len()), (None, 0), "{}", one.case);
        } else if stream.working_set >= last * 4 {
            beyond += 1;
            assert_eq!(one.tier, Some(Tier::Datasheet), "{}", one.case);
        }
    }
    assert!(within >= 4 && beyond > 20, "{within} {beyond}");
}

#[test]
fn two_sockets_have_twice_the_memory_and_modules_tell_what_is_plugged_in() {
    let catalogue = Catalogue::load(None).unwrap();
    let rates = |properties: &Properties| {
        let (datasheet, reported) = spec::memory_peaks(properties, catalogue.part_of(properties));
        (datasheet.map(|rate| rate.0 / 1e9), reported.map(|rate| rate.0 / 1e9))
    };
    assert_eq!(rates(&Properties { sockets: 2, ..turin() }), (Some(1152.0), None));
    // Eight modules in one socket; two on each of the twelve channels; the same in no table.
    let modules = |count: u32| Properties {
        sockets: 1,
        memory_mts: Some(4400.0),
        memory_bus_bits: Some(count * 64),
        ..turin()
    };
    assert_eq!(rates(&modules(8)), (Some(576.0), Some(281.6)));
    assert_eq!(rates(&modules(24)), (Some(576.0), Some(422.4)));
    assert_eq!(rates(&Properties { cpu: None, ..modules(2) }), (None, Some(70.4)));
}

#[test]
fn a_gpu_in_no_table_gets_its_peaks_from_its_properties() {
    let unknown = Properties {
        memory_mts: Some(6400.0),
        memory_bus_bits: Some(5120),
        flops_per_clock: BTreeMap::from([(Dtype::Bf16, 4096.0)]),
        ..gpu("Novel", "ffff:0001", 100, 96)
    };
    let point = Point::Gemm(GemmPoint {
        dtype: Dtype::Bf16,
        m: 8192,
        n: 8192,
        k: 8192,
        layout: Layout::Nn,
        contents: Contents::Random,
    });
    let lights = spec::lights(&point, &unknown, None, &hot(Some(Megahertz(2000.0))));
    assert_eq!(spec::headline(&lights), Some(Tier::Observed));
    let light = lights.iter().find(|light| light.tier == Tier::Observed).unwrap();
    assert!(near(point.work().flops.0 / light.time.0, 819.2e12, 1e-6));
}

#[test]
fn scales_are_counted_and_have_the_peak_of_their_elements() {
    let gemm = |dtype| {
        let (m, n, k) = (256, 192, 512);
        Point::Gemm(GemmPoint { dtype, m, n, k, layout: Layout::Nn, contents: Contents::Random })
    };
    // C of 2 bytes; A and B of 1, of 4 bits half of it; a scale for each 32 along k, 16 of nvfp4;
    // of fp8block 4 bytes for 128 of each row of A and for 128 x 128 of B, of which n has two.
    let (c, elements) = (256 * 192 * 2, (256 + 192) * 512);
    let scales = [
        (Dtype::Fp8, elements),
        (Dtype::Mxfp8, elements + (256 + 192) * 16),
        (Dtype::Mxfp4, elements / 2 + (256 + 192) * 16),
        (Dtype::Nvfp4, elements / 2 + (256 + 192) * 32),
        (Dtype::Fp8Block, elements + (256 + 2) * 4 * 4),
        // A of bf16; of B 4 bytes for each column, 2 for 128 along k, or 1 for 32.
        (Dtype::Bf16Fp8, 256 * 512 * 2 + 192 * 512 + 192 * 4),
        (Dtype::Bf16Int4, 256 * 512 * 2 + 192 * 256 + 192 * 4 * 2),
        (Dtype::Bf16Mxfp4, 256 * 512 * 2 + 192 * 256 + 192 * 16),
    ];
    for (dtype, bytes) in scales {
        assert_eq!(gemm(dtype).work().memory, Bytes(c + bytes), "{dtype}");
    }
    let catalogue = Catalogue::load(None).unwrap();
    let die = gpu("NVIDIA B200", "10de:2901", 148, 180);
    let part = catalogue.part_of(&die).unwrap();
    for (dtype, of) in [
        (Dtype::Mxfp8, Dtype::Fp8),
        (Dtype::Fp8Block, Dtype::Fp8),
        (Dtype::Mxfp4, Dtype::Fp4),
        (Dtype::Nvfp4, Dtype::Fp4),
    ] {
        assert!(part.peaks[&dtype] == part.peaks[&of] && dtype.unscaled() == of, "{dtype}");
        let light = spec::lights(&gemm(dtype), &die, Some(part), &hot(Some(Megahertz(1500.0))));
        assert!(light.iter().any(|light| light.tier == Tier::Observed), "{dtype}: {light:?}");
    }
}

/// Hopper, heads of 64: 8-bit products take half as long as the exponentials between them.
#[test]
fn exponentials_bind_attention_where_products_are_fast() {
    let hopper = Properties {
        memory_mts: Some(6400.0),
        memory_bus_bits: Some(6144),
        flops_per_clock: BTreeMap::from([(Dtype::Bf16, 4096.0), (Dtype::Fp8, 8192.0)]),
        exps_per_clock: Some(16.0),
        ..gpu("Novel", "ffff:0001", 132, 141)
    };
    let clock = Some(Megahertz(1500.0));
    let bound = |dtype, dim| {
        let point = Point::Attention(AttentionPoint::new(
            AttentionKind::Prefill,
            dtype,
            [1, 32, 32, 16384, 16384, dim, dim],
            Mask::Full,
        ));
        let lights = spec::lights(&point, &hopper, None, &hot(clock));
        let light = lights.iter().find(|light| light.tier == Tier::Algorithmic).unwrap();
        // No floor: a kernel may make exponentials by arithmetic.
        assert_eq!(spec::floor(&point, &hopper, None, &hot(clock)).unwrap().bound, Bound::Compute);
        light.bound
    };
    assert_eq!(bound(Dtype::Bf16, 128), Bound::Compute);
    assert_eq!(bound(Dtype::Fp8, 64), Bound::Exp);
}

/// Queries of 16 bits against an 8-bit cache: no product of 8-bit operands.
#[test]
fn an_8_bit_cache_is_multiplied_in_16_bits() {
    let point = |attention| {
        Point::Attention(AttentionPoint::new(
            attention,
            Dtype::Fp8,
            [1, 128, 1, 1, 8192, 576, 512],
            Mask::Full,
        ))
    };
    assert_eq!(point(AttentionKind::Mla).dtype(), Some(Dtype::Bf16));
    assert_eq!(point(AttentionKind::Decode).dtype(), Some(Dtype::Bf16));
    assert_eq!(point(AttentionKind::Prefill).dtype(), Some(Dtype::Fp8));
}

/// Every exponential, 16 each clock and unit, whatever else binds.
#[test]
fn the_time_of_exponentials_is_known_where_their_units_are() {
    let units = Properties { exps_per_clock: Some(16.0), ..gpu("Novel", "ffff:0001", 100, 1) };
    let point = Point::Attention(AttentionPoint::new(
        AttentionKind::Prefill,
        Dtype::Bf16,
        [1, 2, 1, 1000, 800, 64, 64],
        Mask::Full,
    ));
    let clock = Some(Megahertz(1000.0));
    let time = spec::exps_time(&point, &units, clock).expect("all is known");
    assert!((time.0 - 1e-6).abs() < 1e-12, "{time}");
    let unknown = Properties { exps_per_clock: None, ..units.clone() };
    assert_eq!(spec::exps_time(&point, &unknown, clock), None);
    assert_eq!(spec::exps_time(&point, &units, None), None);
}

#[test]
fn data_of_ones_own_overlays_the_built_in() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("hosts")).unwrap();
    let text = fs::read_to_string("data/hosts/epyc-9005.toml").unwrap();
    let file = folder.path().join("hosts/epyc-9005.toml");
    fs::write(&file, text.replace("EPYC 9005 (Turin)", "My own")).unwrap();
    let catalogue = Catalogue::load(Some(folder.path())).unwrap();
    assert_eq!(catalogue.part_of(&turin()).unwrap().name, "My own");
    fs::write(&file, "vendor = 1").unwrap();
    let error = Catalogue::load(Some(folder.path())).unwrap_err().to_string();
    assert!(error.contains("epyc-9005.toml"), "{error}");
    assert!(Catalogue::load(Some(&file)).is_err());
    // A directory that was named by mistake, and a folder that cannot be read.
    let empty = tempfile::tempdir().unwrap();
    let error = Catalogue::load(Some(empty.path())).unwrap_err().to_string();
    assert!(error.contains("none of the folders"), "{error}");
    fs::write(empty.path().join("parts"), "no folder").unwrap();
    assert!(Catalogue::load(Some(empty.path())).is_err());
}

#[test]
fn every_field_is_explained() {
    fn keys(table: &toml::Table, inner: bool, found: &mut BTreeSet<String>) {
        for (key, value) in table {
            found.insert(key.clone());
            match value {
                // What stands in these is named by element type.
                toml::Value::Table(_) if inner || BY_DTYPE.contains(&key.as_str()) => {}
                toml::Value::Table(table) => keys(table, true, found),
                toml::Value::Array(values) => {
                    for table in values.iter().filter_map(toml::Value::as_table) {
                        keys(table, true, found);
                    }
                }
                _ => {}
            }
        }
    }
    const BY_DTYPE: [&str; 6] = [
        "peak",
        "no_native_kernel",
        "sparse_multiplier",
        "check_tolerance",
        "flop_per_clk_per_unit",
        "flop_per_clk_per_core",
    ];
    let mut found = BTreeSet::new();
    for kind in ["parts", "hosts", "links"] {
        for entry in fs::read_dir(format!("data/{kind}")).unwrap() {
            let text = fs::read_to_string(entry.unwrap().path()).unwrap();
            keys(&text.parse().unwrap(), false, &mut found);
        }
    }
    let readme = fs::read_to_string("data/README.md").unwrap();
    let words: BTreeSet<&str> = readme.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let unexplained: Vec<_> = found.iter().filter(|key| !words.contains(key.as_str())).collect();
    assert!(found.len() > 50 && unexplained.is_empty(), "{unexplained:?}");
}

#[test]
fn pci_express_carries_what_its_generation_says() {
    let catalogue = Catalogue::load(None).unwrap();
    for (id, generation) in [("pcie3-x16", 3), ("pcie4-x16", 4), ("pcie5-x16", 5)] {
        let properties = Properties { pcie: Some([generation, 16]), ..Properties::default() };
        let carried = properties.pcie_bandwidth().expect("a known generation").0 / 1e9;
        assert!(near(carried, catalogue.links[id].raw_gb_per_s_per_dir, 1e-2), "{id}: {carried}");
    }
    let newer = Properties { pcie: Some([9, 16]), ..Properties::default() };
    assert_eq!(newer.pcie_bandwidth(), None);
}
