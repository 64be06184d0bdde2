//! The guard on measurements that are known to be possible, and on others that cannot be.
//!
//! A row of `limits.csv` is one measurement: a device, the clock that was seen, the case, what came
//! out, whether the guard must let it pass, and its source or arithmetic. Each goes through
//! [`guard::judge`], as every measurement of a run does, on a device that is matched to its part as
//! in a run. This prints the table, with the limit of each row:
//!
//! ```text
//! cargo test --test library limits -- --nocapture
//! ```

use fizeau::data::Catalogue;
use fizeau_domain::{
    case::{
        Access, AttentionKind, AttentionPoint, Case, Collective, CollectivePoint, ComputePoint,
        Contents, GemmPoint, HostMemory, KernelName, Layout, Mask, Point, StreamOperation,
        StreamPoint, Transfer, TransferPoint,
    },
    dtype::Dtype,
    outcome::{Cache, Check, Invalidity, Measurement, Outcome, Samples, StopReason, Warmup},
    spec::{
        self, CacheLevel, CpuId, Network, Part, Properties, Yardstick,
        part::{GpuFile, LinkFile},
        rates,
    },
    stats::Summary,
    units::{Bytes, Megahertz, Seconds},
};
use fizeau_record::{
    Timer,
    guard::{self, Witness},
};
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::LazyLock,
};

/// A row of `limits.csv`.
#[derive(Deserialize)]
struct Row {
    class: String,
    device: String,
    seen_mhz: Option<f64>,
    state: String,
    case: String,
    figure: String,
    verdict: String,
    share: Option<f64>,
    why: String,
}

/// What `parts.csv` has of a device, and `limits_devices.toml` of others.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Device {
    like: Option<String>,
    backend: Option<String>,
    vendor: Option<String>,
    name: Option<String>,
    pci: Option<String>,
    slice: Option<String>,
    capability: Option<(u32, u32)>,
    target: Option<String>,
    cpu: Option<[u32; 2]>,
    units: Option<u32>,
    sockets: Option<u32>,
    clock: Option<f64>,
    memory_mib: Option<u64>,
    mts: Option<f64>,
    bus_bits: Option<u32>,
    pcie: Option<[u32; 2]>,
    caches: Option<Vec<[u64; 3]>>,
    flops: Option<BTreeMap<Dtype, f64>>,
}

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| Catalogue::load(None).expect("the data"));

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| read(include_str!("../limits.csv")));

static DEVICES: LazyLock<BTreeMap<String, Device>> =
    LazyLock::new(|| toml::from_str(include_str!("../limits_devices.toml")).expect("devices"));

fn read<T: for<'d> Deserialize<'d>>(text: &str) -> Vec<T> {
    let rows = csv::Reader::from_reader(text.as_bytes()).into_deserialize();
    rows.collect::<Result<_, _>>().expect("a table")
}

fn file(part: &str) -> GpuFile {
    let path = Path::new("data/parts").join(format!("{part}.toml"));
    toml::from_str(&fs::read_to_string(path).expect("its file")).expect("a part")
}

fn capability(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// A device of `parts.csv` as its driver tells of it, caches as its file has them.
fn of_part(part: &str) -> Device {
    let row = crate::parts::Row::of(part);
    let file = file(part);
    let devices = u64::from(file.devices_per_package.unwrap_or(1));
    let kib = |mebibytes: f64| (mebibytes * 1024.0) as u64 / devices;
    let level = |level, size: Option<f64>| Some([level, kib(size?), u64::from(row.units)]);
    let caches = [level(2, file.l2_mb), level(3, file.infinity_cache_mb)];
    let backend = if row.vendor == "AMD" { "hip" } else { "cuda" };
    Device {
        like: None,
        backend: Some(backend.into()),
        vendor: Some(row.vendor.clone()),
        name: Some(row.name.clone()),
        pci: Some(row.pci.clone()),
        capability: file.compute_capability.as_deref().and_then(capability),
        target: file.gfx_target,
        units: Some(row.units),
        clock: Some(row.clock_mhz),
        memory_mib: Some(row.memory_mib),
        mts: Some(row.memory_mts),
        bus_bits: Some(row.bus_bits),
        caches: Some(caches.into_iter().flatten().collect()),
        ..Device::default()
    }
}

fn device(name: &str) -> Device {
    let Some(own) = DEVICES.get(name).cloned() else { return of_part(name) };
    let Some(like) = &own.like else { return own };
    let like = of_part(like);
    Device {
        like: None,
        backend: own.backend.or(like.backend),
        vendor: own.vendor.or(like.vendor),
        name: own.name.or(like.name),
        // A slice is matched by its name alone.
        pci: own.pci.or(like.pci).filter(|_| own.slice.is_none()),
        slice: own.slice,
        capability: own.capability.or(like.capability),
        target: own.target.or(like.target),
        cpu: own.cpu,
        units: own.units.or(like.units),
        sockets: own.sockets,
        clock: own.clock.or(like.clock),
        memory_mib: own.memory_mib.or(like.memory_mib),
        mts: own.mts.or(like.mts),
        bus_bits: own.bus_bits.or(like.bus_bits),
        pcie: own.pcie,
        caches: own.caches.or(like.caches),
        flops: own.flops,
    }
}

fn properties(device: Device) -> Properties {
    let backend = device.backend.expect("a backend");
    let line = Bytes(if backend == "host" { 64 } else { 128 });
    let level = |&[level, kib, shared_by]: &[u64; 3]| CacheLevel {
        level: level as u32,
        size: Bytes(kib << 10),
        shared_by: shared_by as u32,
        line,
    };
    let by_target = device.target.as_deref().map(rates::hip);
    let by_capability = device.capability.map(rates::cuda);
    let vendor_id = if backend == "hip" { "1002" } else { "10de" };
    Properties {
        vendor: device.vendor.expect("a vendor"),
        name: device.name.expect("a name"),
        units: device.units.expect("units"),
        sockets: device.sockets.unwrap_or(0),
        clock: device.clock.map(Megahertz),
        memory: Bytes(device.memory_mib.expect("memory") << 20),
        memory_mts: device.mts,
        memory_bus_bits: device.bus_bits,
        caches: device.caches.iter().flatten().map(level).collect(),
        flops_per_clock: device.flops.or(by_target).or(by_capability).unwrap_or_default(),
        cpu: device.cpu.map(|[family, model]| CpuId { family, model, stepping: 0 }),
        pci_id: device.pci.filter(|id| !id.is_empty()).map(|id| format!("{vendor_id}:{id}")),
        virtualised: device.slice,
        pcie: device.pcie,
        backend,
        ..Properties::default()
    }
}

fn named<T: Copy>(all: &[T], name: &str, of: impl Fn(T) -> &'static str) -> T {
    *all.iter().find(|&&one| of(one) == name).unwrap_or_else(|| panic!("{name}"))
}

fn dtype(name: &str) -> Dtype {
    *Dtype::ALL.iter().find(|dtype| dtype.to_string() == name).unwrap_or_else(|| panic!("{name}"))
}

fn size(text: &str) -> Bytes {
    text.parse().unwrap_or_else(|_| panic!("{text}"))
}

/// The numbers of `b64-h64-kv8-q1-k8192-d128`.
fn attention(kind: &str, of: &str, shape: &str) -> Point {
    let number = |name: &str| -> u32 {
        let words = shape.split('-');
        let numbers = words.filter_map(|word| word.strip_prefix(name)?.parse().ok());
        numbers.into_iter().next().unwrap_or_else(|| panic!("{shape}"))
    };
    let kind = named(&AttentionKind::ALL, kind, AttentionKind::name);
    let shape = ["b", "h", "kv", "q", "k", "d", "d"].map(number);
    Point::Attention(AttentionPoint::new(kind, dtype(of), shape, Mask::Full))
}

fn point(case: &str, properties: &Properties) -> Point {
    let units = |text: &str| match text {
        "all" => properties.units,
        number => number.parse().expect("units"),
    };
    match case.split('/').collect::<Vec<_>>()[..] {
        ["stream", stream, bytes, on] => Point::Stream(StreamPoint {
            stream: named(&StreamOperation::ALL, stream, StreamOperation::name),
            working_set: size(bytes),
            units: units(on),
        }),
        ["compute", of, on] => Point::Compute(ComputePoint { dtype: dtype(of), units: units(on) }),
        ["gemm", of, shape] => {
            let shape: Vec<u32> = shape.split('x').map(|n| n.parse().expect("a shape")).collect();
            let [m, n, k] = shape[..] else { panic!("{case}") };
            let contents = Contents::Random;
            Point::Gemm(GemmPoint { dtype: dtype(of), m, n, k, layout: Layout::Nn, contents })
        }
        ["attention", kind, of, shape] => attention(kind, of, shape),
        ["collective", collective, ranks] => Point::Collective(CollectivePoint::new(
            named(&Collective::ALL, collective, Collective::name),
            Dtype::Bf16,
            Bytes::GIB * 8,
            ranks.trim_end_matches('r').parse().expect("ranks"),
        )),
        ["transfer", transfer, bytes, ref copies @ ..] => {
            let transfer = named(&Transfer::ALL, transfer, Transfer::name);
            let copies = copies.first().map_or(1, |copies| copies.parse().expect("copies"));
            let peer = transfer.with_peer().then_some(1);
            let (size, host, node) = (size(bytes), HostMemory::Pinned, None);
            Point::Transfer(TransferPoint { transfer, size, host, node, device: 0, peer, copies })
        }
        _ => panic!("{case}"),
    }
}

impl Row {
    /// The time of one iteration that the figure stands for.
    fn time(&self, point: &Point) -> Seconds {
        let (number, unit) = self.figure.split_once(' ').expect("a number and its unit");
        let number: f64 = number.parse().expect("a number");
        let work = point.work();
        let amount = match (unit, point) {
            ("TFLOP/s", _) => work.flops.0 / 1e3,
            ("GB/s", Point::Transfer(transfer)) => transfer.moved().0 as f64,
            ("GB/s", Point::Collective(collective)) => {
                collective.message.0 as f64 * collective.collective.bus_factor(collective.ranks)
            }
            ("GB/s", _) => work.memory.0 as f64,
            _ => panic!("{}", self.figure),
        };
        Seconds(amount / (number * 1e9))
    }

    fn measurement(&self, point: Point) -> Measurement {
        let time = self.time(&point);
        let warmup = Warmup { iterations: 1, time, settled: true };
        let clock = self.seen_mhz.map(Megahertz);
        let samples = Samples {
            times: vec![time; 10],
            batch: 1,
            throttled: Vec::new(),
            warmup,
            stop: StopReason::Quiet,
        };
        let is_cold = self.state == "cold" || self.state.starts_with("turns:");
        Measurement {
            case: Case { kernel: KernelName("table".into()), point },
            work: point.work(),
            cache: if is_cold { Cache::Cold } else { Cache::Hot },
            summary: Summary::of(&samples.times).expect("samples"),
            samples,
            tuning: None,
            regime: None,
            beside: None,
            contrast: None,
            clock,
            speed_of_light: Vec::new(),
            tier: None,
            rank_times: Vec::new(),
            check: Check::NONE,
            available: None,
            stopped_by_quota: None,
            waited: None,
            stolen: None,
            telemetry: None,
            integrity: None,
            started: None,
            code: Vec::new(),
        }
    }

    /// What comes behind a word in the state: `nodes:8@3200`.
    fn told<T: std::str::FromStr>(&self, word: &str) -> Option<T> {
        self.state.strip_prefix(word)?.parse().ok()
    }

    fn network(&self) -> Option<Network> {
        let (nodes, gigabits) = self.state.strip_prefix("nodes:")?.split_once('@')?;
        let number = |text: &str| text.parse().expect("a number");
        Some(Network { nodes: number(nodes), interfaces: 1, gigabits: number(gigabits) })
    }

    /// What the guard says of it, and the share of the limit that it reaches.
    fn judged(&self) -> (Outcome, f64) {
        self.judged_by(|_, _| {})
    }

    /// The same by other numbers than those of the data and the device.
    fn judged_by(&self, spoil: impl Fn(&mut Properties, &mut Yardstick)) -> (Outcome, f64) {
        let mut properties = properties(device(&self.device));
        let point = point(&self.case, &properties);
        let mut yardstick = CATALOGUE.yardstick(&properties);
        yardstick.network = self.network();
        yardstick.links_up = self.told("links:");
        spoil(&mut properties, &mut yardstick);
        let copies = self.told("turns:").unwrap_or(1);
        let measurement = self.measurement(point);
        let (clock, is_hot) = (measurement.clock, measurement.cache == Cache::Hot || copies > 1);
        let witness = Witness { timer: Timer::default(), clock_max: clock, copies };
        let conditions = spec::Conditions { copies, ..yardstick.conditions(clock, is_hot) };
        let floor = spec::floor(&point, &properties, yardstick.most.as_ref(), &conditions);
        let share = floor.map_or(0.0, |floor| floor.time / measurement.summary.median);
        (guard::judge(measurement, witness, &properties, &yardstick), share)
    }

    fn has(&self, class: &str) -> bool {
        self.class.split(' ').any(|of| of == class)
    }
}

#[test]
fn limits_let_pass_what_is_possible_and_refuse_what_is_not() {
    let mut wrong = Vec::new();
    let mut near = 0;
    for row in ROWS.iter() {
        let (outcome, share) = row.judged();
        let (verdict, utilisation) = match &outcome {
            Outcome::Measured(measurement) => ("passes", measurement.utilisation()),
            Outcome::Invalid { invalidity: Invalidity::FasterThanLight, .. } => ("refused", None),
            other => panic!("{}: {other:?}", row.case),
        };
        let Row { device, case, figure, why, .. } = row;
        let line = format!(
            "{verdict:8} {:6.1} %  {device:18} {case:52} {figure:>14}  {:12} {why}",
            share * 100.0,
            row.state
        );
        println!("{line}");
        if verdict != row.verdict {
            wrong.push(format!("must be {}: {line}", row.verdict));
        }
        let is_known = |share: f64| utilisation.is_some_and(|of| (of - share).abs() < 6e-3);
        if row.share.is_some_and(|share| !is_known(share)) {
            wrong.push(format!("reads {utilisation:?} and not {:?}: {line}", row.share));
        }
        near += usize::from(row.verdict == "refused" && share <= 1.1);
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    let count = |keep: &dyn Fn(&Row) -> bool| ROWS.iter().filter(|row| keep(row)).count();
    assert!(count(&|row| row.verdict == "passes") >= 60);
    assert!(count(&|row| row.verdict == "refused") >= 60);
    assert!(near >= 20, "{near} of the impossible within a tenth above the limit");
    for (class, least) in [("amd", 25), ("link", 10), ("host", 10), ("unlisted", 10)] {
        assert!(count(&|row| row.has(class)) >= least, "{class}");
    }
    assert!(ROWS.iter().all(|row| !row.why.is_empty()), "a row without source or arithmetic");
}

/// A number that limits are made of, and how it is changed by a factor.
type Spoil = (&'static str, fn(&mut Properties, &mut Yardstick, f64));

fn scale<T: std::ops::Mul<f64, Output = T> + Copy>(value: &mut Option<T>, by: f64) {
    *value = value.map(|value| value * by);
}

fn scale_all<K: Ord, V: std::ops::Mul<f64, Output = V> + Copy>(of: &mut BTreeMap<K, V>, by: f64) {
    of.values_mut().for_each(|value| *value = *value * by);
}

const SPOILS: [Spoil; 11] = [
    ("memory", |of, to, by| {
        scale(&mut of.memory_mts, by);
        if let Some(part) = &mut to.most {
            scale(&mut part.memory_bandwidth, by);
            scale(&mut part.memory_bandwidth_most, by);
        }
    }),
    ("arithmetic of a part", |_, to, by| {
        if let Some(part) = &mut to.most {
            scale_all(&mut part.peaks, by);
            scale_all(&mut part.flops_per_clock, by);
        }
    }),
    ("arithmetic of an architecture", |of, _, by| scale_all(&mut of.flops_per_clock, by)),
    ("links of a pair", |_, to, by| of_most(to, |part| scale(&mut part.pair_bandwidth, by))),
    ("links to all peers", |_, to, by| of_most(to, |part| scale(&mut part.link_bandwidth, by))),
    ("link to the host", |_, to, by| of_most(to, |part| scale(&mut part.host_bandwidth, by))),
    ("first-level cache", |_, to, by| {
        of_most(to, |part| scale(&mut part.cache_load_per_clock, by));
    }),
    ("second-level cache", |_, to, by| of_most(to, |part| scale(&mut part.l2_per_clock, by))),
    ("cache on the memory's side", |_, to, by| {
        of_most(to, |part| scale(&mut part.memory_cache_bandwidth, by));
    }),
    ("port of a core", |_, to, by| of_most(to, |part| scale(&mut part.core_per_clock, by))),
    ("network", |_, to, by| {
        if let Some(network) = &mut to.network {
            network.gigabits = (f64::from(network.gigabits) * by) as u32;
        }
    }),
];

fn of_most(yardstick: &mut Yardstick, change: impl FnOnce(&mut Part)) {
    if let Some(part) = &mut yardstick.most {
        change(part);
    }
}

/// Every kind of number that a limit is made of is held by a row that passes and by one that does
/// not: with the number halved, or raised by a tenth, one of them comes out otherwise.
#[test]
fn a_wrong_number_of_any_kind_is_found() {
    for (what, spoil) in SPOILS {
        for by in [0.5, 1.1] {
            let changes = |row: &Row| {
                let (outcome, _) = row.judged_by(|of, yardstick| spoil(of, yardstick, by));
                matches!(outcome, Outcome::Measured(_)) != (row.verdict == "passes")
            };
            assert!(ROWS.iter().any(changes), "{what} x {by} changes no row");
        }
    }
}

#[test]
fn every_device_of_the_table_is_used_and_matched_as_it_says() {
    let used: BTreeSet<&str> = ROWS.iter().map(|row| row.device.as_str()).collect();
    let unused: Vec<_> = DEVICES.keys().filter(|name| !used.contains(name.as_str())).collect();
    assert!(unused.is_empty(), "{unused:?}");
    for row in ROWS.iter().filter(|row| row.has("unlisted") && row.device != "h100-4-units") {
        let properties = properties(device(&row.device));
        let yardstick = CATALOGUE.yardstick(&properties);
        assert_eq!((yardstick.part, yardstick.most), (None, None), "{}", row.device);
    }
}

/// The rates of an architecture are the most that any part of it has.
#[test]
fn architectures_have_the_rates_of_their_best_parts() {
    let mut best: BTreeMap<String, BTreeMap<Dtype, f64>> = BTreeMap::new();
    let links: BTreeMap<String, LinkFile> = CATALOGUE.links.clone();
    for entry in fs::read_dir("data/parts").expect("the data") {
        let path = entry.expect("a file").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let file = file(&name);
        let Some(target) = file.compute_capability.clone().or(file.gfx_target.clone()) else {
            continue;
        };
        let part = Part::of_gpu(&name, &file, &links).expect("a part");
        let known = best.entry(target).or_default();
        for (dtype, rate) in part.flops_per_clock {
            let most = known.entry(dtype).or_default();
            *most = most.max(rate);
        }
    }
    let mut compared = 0;
    for (target, known) in best {
        let rates = match capability(&target) {
            Some(capability) => rates::cuda(capability),
            None => rates::hip(&target),
        };
        for (dtype, rate) in known.iter().filter(|_| !rates.is_empty()) {
            // What a target can do is at least what its parts are sold with.
            let found = rates.get(dtype).copied();
            assert_eq!(found, Some(*rate), "{target} {dtype}");
            compared += 1;
        }
    }
    assert!(compared > 60, "{compared}");
    assert!(rates::cuda((3, 5)).is_empty() && rates::hip("gfx803").is_empty());
}

/// Shared memory is set against 128 bytes a clock, and no cache makes it faster.
#[test]
fn what_stays_on_the_chip_has_the_limit_of_its_banks() {
    let properties = properties(of_part("h100-sxm"));
    let yardstick = CATALOGUE.yardstick(&properties);
    let point = Point::Access(fizeau_domain::case::AccessPoint {
        access: Access::Shared,
        working_set: Bytes::MIB * 100,
        row: Bytes(16),
        units: 132,
    });
    let conditions = yardstick.conditions(Some(Megahertz(1980.0)), true);
    let floor = spec::floor(&point, &properties, yardstick.most.as_ref(), &conditions);
    let rate = (100 << 20) as f64 / floor.expect("a limit").time.0;
    assert!((rate / (132.0 * 128.0 * 1.98e9) - 1.0).abs() < 1e-9, "{rate}");
}

/// An equal rate has an equal share of memory's bandwidth wherever a share is printed, none where a
/// cache may keep an unknown part of the stream, and never one above 1: on every device with a last
/// cache that is listed.
#[test]
fn shares_of_an_equal_rate_do_not_jump_where_a_stream_leaves_the_last_cache() {
    let mut asked = 0;
    for name in ["h100-sxm", "h200-sxm", "a100-sxm4-80", "b200-hgx", "mi300x", "mi325x", "gb10"] {
        let properties = properties(of_part(name));
        let cache = properties.last_level_cache().0;
        let part = CATALOGUE.yardstick(&properties).part.expect("a part");
        let memory = part.memory_bandwidth.expect("a bandwidth").0;
        let share = |size: u64| {
            let row = Row {
                class: "nvidia".into(),
                device: name.into(),
                seen_mhz: None,
                state: "hot".into(),
                case: format!("stream/read/{}MiB/all", size >> 20),
                figure: format!("{} GB/s", 0.9 * memory / 1e9),
                verdict: "passes".into(),
                share: None,
                why: String::new(),
            };
            let (Outcome::Measured(one), _) = row.judged() else { panic!("{name} {size}") };
            one.utilisation()
        };
        for quarters in 5..16 {
            let size = cache / 4 * quarters;
            assert_eq!(share(size), None, "{name}: {quarters} quarters of the last cache");
        }
        let far: Vec<f64> = [4, 5, 8, 16, 32].iter().filter_map(|of| share(of * cache)).collect();
        assert!(far.len() >= 4, "{name}: {far:?}");
        for one in &far {
            assert!((0.85..=0.95).contains(one) && (one / far[0] - 1.0).abs() < 0.02, "{far:?}");
        }
        asked += 1;
    }
    assert_eq!(asked, 7);
}
