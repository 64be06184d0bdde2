//! L2 of records: of a GPU's, made up at random, and what they lack.

use crate::{
    synthetic,
    tightness::{self, Class},
};
use fizeau::data::Catalogue;
use fizeau_domain::{
    case::{
        AttentionKind, AttentionPoint, Case, Collective, CollectivePoint, Contents, GemmPoint,
        GroupedPoint, KernelName, LaunchPoint, Launching, Mask, Point, Routing,
    },
    dtype::Dtype,
    model::Model,
    outcome::{Cache, Measurement, Outcome},
    spec::Part,
    units::{Bytes, Seconds},
};
use fizeau_projection::project::{
    Hardware, Layout, MediansFile, Public, Scenario, Way, Whence,
    joined::joined,
    point,
    step::Step,
    symptom::{Resource, losses},
};
use fizeau_record::Record;

/// What a made-up record is of.
const PART: &str = "h200-sxm";

fn part(catalogue: &Catalogue) -> &Part {
    catalogue.parts.iter().find(|part| part.id == PART).expect("a part")
}

/// Random numbers that repeat exactly.
struct Chance(oorandom::Rand64);

impl Chance {
    fn new(seed: u64) -> Chance {
        Chance(oorandom::Rand64::new(u128::from(seed)))
    }

    fn power(&mut self, low: u64, high: u64) -> u32 {
        1 << self.0.rand_range(low..high + 1)
    }

    fn one<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.0.rand_range(0..all.len() as u64) as usize]
    }

    fn gemm(&mut self) -> Point {
        let dtype = self.one(&[Dtype::Bf16, Dtype::Fp8]);
        let [m, n, k] = [(0, 14), (8, 15), (8, 15)].map(|(low, high)| self.power(low, high));
        Point::Gemm(GemmPoint {
            dtype,
            m,
            n,
            k,
            layout: Default::default(),
            contents: Contents::Random,
        })
    }

    fn grouped(&mut self) -> Point {
        let dtype = self.one(&[Dtype::Bf16, Dtype::Fp8]);
        let groups = self.power(2, 7);
        let [m, n, k] = [(7, 14), (8, 13), (8, 13)].map(|(low, high)| self.power(low, high));
        Point::Grouped(GroupedPoint { dtype, m, n, k, groups, routing: Routing::Balanced })
    }

    fn attention(&mut self) -> Point {
        let is_prefill = self.0.rand_u64().is_multiple_of(2);
        let keys = self.power(7, 14);
        Point::Attention(AttentionPoint::new(
            if is_prefill { AttentionKind::Prefill } else { AttentionKind::Decode },
            Dtype::Bf16,
            [self.power(0, 6), 32, 8, if is_prefill { keys } else { 1 }, keys, 128, 128],
            if is_prefill { Mask::Causal } else { Mask::Full },
        ))
    }

    fn collective(&mut self) -> Point {
        let all = [Collective::AllReduce, Collective::AllToAll, Collective::SendReceive];
        let message = Bytes(u64::from(self.power(10, 28)));
        let ranks = self.power(1, 3);
        Point::Collective(CollectivePoint::new(self.one(&all), Dtype::Bf16, message, ranks))
    }

    /// From a third of the limit's time, which cannot be, to a hundred times as long.
    fn factor(&mut self) -> f64 {
        10f64.powf(self.0.rand_float() * 2.5 - 0.5)
    }
}

/// The time of a point at the limits of L1.
fn limit(hardware: &Hardware, point: &Point) -> f64 {
    let work = point.work();
    let memory = work.memory.0 as f64 / hardware.memory.0;
    let peak = point.dtype().and_then(|dtype| hardware.peaks.get(&dtype));
    let compute = peak.map_or(0.0, |peak| work.flops.0 / peak.0);
    let link = hardware.link.as_ref().map_or(0.0, |link| work.link.0 as f64 / link.inside.0);
    memory.max(compute).max(link).max(1e-6)
}

/// A record of a GPU: each point with its time.
fn record(points: Vec<(Point, f64)>) -> Record {
    let mut record = synthetic::record();
    let is_gemm = |outcome: &&Outcome| outcome.case().point.operation() == "gemm";
    let like: Measurement =
        record.outcomes.iter().filter(is_gemm).find_map(Outcome::measured).expect("one").clone();
    let device = &mut record.header.device;
    (device.backend, device.vendor) = ("cuda".into(), "NVIDIA".into());
    (device.name, device.cpu) = ("NVIDIA H200".into(), None);
    device.caches.clear();
    device.memory = Bytes(141_000_000_000);
    record.outcomes = points
        .into_iter()
        .map(|(point, time)| {
            let mut one = like.clone();
            one.case = Case { kernel: KernelName("made_up".into()), point };
            one.work = one.case.point.work();
            (one.cache, one.contrast) = (Cache::Cold, None);
            one.summary.median = Seconds(time);
            Outcome::Measured(Box::new(one))
        })
        .collect();
    record
}

fn made_up(seed: u64, limits: &Hardware) -> Record {
    let mut chance = Chance::new(seed);
    let mut points = Vec::new();
    for at in 0..seed % 60 {
        let point = match at % 4 {
            0 => chance.gemm(),
            1 => chance.grouped(),
            2 => chance.attention(),
            _ => chance.collective(),
        };
        let time = limit(limits, &point) * chance.factor();
        points.push((point, time));
    }
    if seed.is_multiple_of(3) {
        let launch = LaunchPoint { launching: Launching::Queued, kernels: 1 };
        points.push((Point::Launch(launch), 2e-6));
    }
    if seed.is_multiple_of(5) {
        let launch = LaunchPoint { launching: Launching::Graph, kernels: 32 };
        points.push((Point::Launch(launch), 40e-6));
    }
    record(points)
}

fn published(catalogue: &Catalogue, hardware: &Hardware) -> Public {
    let (_, text) = catalogue.medians(PART).expect("published rates");
    let file: MediansFile = toml::from_str(text).expect("a file of rates");
    Public::of(&file, hardware).expect("rates that can be")
}

fn scenario() -> Scenario {
    let kv = fizeau_domain::model::Format::Bf16;
    Scenario { input: 1000, prefix: 0, output: 500, kv, memory_share: 0.9 }
}

/// L1 <= L2 of every operation, step and time, and every efficiency is at most 1; a step without L2
/// says why. Whether the point has an L2.
fn check(model: &Model, hardware: &Hardware, layout: &str, requests: u32) -> Result<bool, String> {
    let layout: Layout = layout.parse()?;
    if layout.check(model).is_err() {
        return Ok(false);
    }
    let point = point(model, hardware, layout, &scenario(), requests);
    let point = point.map_err(|error| error.to_string())?;
    let close = 1.0 + 1e-12;
    let check = |step: &Step| {
        let rows = step.rows.iter().filter_map(|row| row.measured);
        let measured: f64 = rows.map(|time| time.0).sum();
        let of_step = step.measured.map_or(measured, |time| time.0);
        if step.measured.is_some() == step.unknown.is_some() || of_step != measured {
            return Err(format!("L2 {:?}, {:?}", step.measured, step.unknown));
        }
        if step.serial.0 > measured * close || step.light().0 > step.serial.0 * close {
            return Err(format!("L0 {}, L1 {}, L2 {measured}", step.light(), step.serial));
        }
        if !step.coverage.is_none_or(|coverage| (0.0..=1.0).contains(&coverage)) {
            return Err(format!("coverage {:?}", step.coverage));
        }
        for row in &step.rows {
            let basis = row.basis.as_ref().ok_or("no basis")?;
            let is_slower = row.measured.is_some_and(|time| time.0 * close >= row.serial.0);
            let share = basis.efficiency.unwrap_or(1.0);
            if !is_slower || !(0.0..=1.0).contains(&share) || basis.words.is_empty() {
                return Err(format!("{row:?}"));
            }
            if basis.is_near && basis.whence != Whence::Record {
                return Err(format!("covered by no record: {row:?}"));
            }
        }
        Ok(())
    };
    check(&point.decode)?;
    check(&point.prefill)?;
    for times in [point.first_token, point.token, point.requests.map(|rate| 1.0 / rate)] {
        let is_below = times.measured.is_none_or(|measured| times.serial <= measured * close);
        if !is_below || times.measured.is_some() == point.unknown.is_some() {
            return Err(format!("{times:?}, {:?}", point.unknown));
        }
    }
    Ok(point.unknown.is_none())
}

fn check_many(count: u64) {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let models = ["llama-3.1-8b", "gpt-oss-120b", "deepseek-v3", "qwen3.5-122b-a10b"];
    let models = models.map(|name| catalogue.model(name).expect("a model"));
    let layouts = ["tp1", "tp2", "ep8", "tp2pp2", "pp4", "2xtp4"];
    let limits = Hardware::of_part(part(&catalogue)).expect("whole");
    let (mut clamped, mut known) = (0, 0);
    for seed in 0..count {
        let record = made_up(seed, &limits);
        let hardware = Hardware::of_record("made up", &record, Some(part(&catalogue)));
        let mut hardware = hardware.expect("whole");
        if seed % 2 == 0 {
            hardware.public = Some(published(&catalogue, &limits));
        }
        clamped += hardware.measured.as_ref().expect("a record").clamped.len();
        let model = &models[(seed % 4) as usize];
        let layout = layouts[(seed / 4 % 6) as usize];
        let requests = 1 << (seed % 9);
        match check(model, &hardware, layout, requests) {
            Ok(is_known) => known += u64::from(is_known),
            Err(why) => panic!("seed {seed}, {} by {layout} with {requests}: {why}", model.name),
        }
    }
    assert!(known > count / 10, "{known} of {count} have L2: too few to prove anything");
    assert!(clamped as u64 > count / 2, "{clamped} of {count} records: too few to prove anything");
}

#[test]
fn l2_is_never_below_l1_on_made_up_gpus() {
    check_many(400);
}

#[test]
#[ignore = "20,000 records: scripts/check_long.sh"]
fn l2_is_never_below_l1_over_20_000_made_up_gpus() {
    check_many(20_000);
}

#[test]
fn an_efficiency_above_one_is_clamped_and_told() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let limits = Hardware::of_part(part(&catalogue)).expect("whole");
    let (m, n, k) = (8, 8192, 4096);
    let gemm = GemmPoint {
        dtype: Dtype::Bf16,
        m,
        n,
        k,
        layout: Default::default(),
        contents: Contents::Random,
    };
    let gemm = Point::Gemm(gemm);
    let time = limit(&limits, &gemm) / 1.3;
    let record = record(vec![(gemm, time)]);
    let hardware = Hardware::of_record("hot", &record, Some(part(&catalogue))).expect("whole");
    let clamped = &hardware.measured.as_ref().expect("a record").clamped;
    let [(case, factor)] = clamped.as_slice() else { panic!("{clamped:?}") };
    assert!(case.contains("8x8192x4096") && (factor - 1.3).abs() < 0.01, "{clamped:?}");
    let told = hardware.notes.iter().find(|note| note.contains(case)).expect("a note");
    assert!(told.contains("30 % above its limit") && told.contains("counted as 100 %"), "{told}");
    let model = catalogue.model("llama-3.1-8b").expect("a model");
    let layout: Layout = "tp1".parse().expect("a layout");
    let point = point(&model, &hardware, layout, &scenario(), 8).expect("a point");
    let row = point.decode.rows.iter().find(|row| row.operation.name == "qkv").expect("a row");
    assert_eq!(row.basis.as_ref().expect("the case").efficiency, Some(1.0));
    // With operands from memory, as the case was measured: no credit for caches.
    let cold = row.operation.count * row.operation.bytes / hardware.memory.0;
    assert!((row.measured.expect("L2").0 / cold - 1.0).abs() < 1e-12, "{row:?}");
}

/// A record without products falls back to what is published, or to L1, and says so.
#[test]
fn a_record_without_products_falls_back_and_says_so() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let limits = Hardware::of_part(part(&catalogue)).expect("whole");
    let mut chance = Chance::new(7);
    let attention = chance.attention();
    let time = limit(&limits, &attention) * 2.0;
    let record = record(vec![(attention, time)]);
    let of = |record: &Record| Hardware::of_record("lacks", record, Some(part(&catalogue)));
    let mut hardware = of(&record).expect("whole");
    assert!(hardware.notes.iter().any(|note| note.contains("no matrix products")));
    let model = catalogue.model("llama-3.1-8b").expect("a model");
    let layout: Layout = "tp1".parse().expect("a layout");
    let qkv = |hardware: &Hardware| {
        let point = point(&model, hardware, layout, &scenario(), 8).expect("a point");
        let row = point.decode.rows.iter().find(|row| row.operation.name == "qkv");
        let row = row.expect("a row").clone();
        (row.basis.expect("a basis"), row.measured.expect("L2").0 / row.serial.0)
    };
    let (basis, factor) = qkv(&hardware);
    assert_eq!((basis.whence, factor), (Whence::Limits, 1.0));
    assert!(basis.words.contains("not in the record"), "{}", basis.words);
    hardware.public = Some(published(&catalogue, &limits));
    let (basis, factor) = qkv(&hardware);
    assert!(basis.whence == Whence::Published && !basis.is_near && factor > 1.0, "{basis:?}");
    assert!(basis.words.starts_with("published"), "{}", basis.words);
}

#[test]
fn records_of_one_machine_are_joined_and_others_refused() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let limits = Hardware::of_part(part(&catalogue)).expect("whole");
    let mut chance = Chance::new(3);
    let (gemm, attention) = (chance.gemm(), chance.attention());
    let of = |points: Vec<&Point>, factor: f64| {
        let time = |point: &Point| (*point, limit(&limits, point) * factor);
        record(points.into_iter().map(time).collect())
    };
    let named = |record: Record| ("a record".to_owned(), record);
    let both = [of(vec![&gemm], 2.0), of(vec![&gemm, &attention], 4.0)].map(named);
    let all = joined(both.into()).expect("of one machine");
    assert_eq!(all.outcomes.len(), 2);
    let gemm_time = all.outcomes[0].measured().expect("measured").summary.median.0;
    assert_eq!(gemm_time, limit(&limits, &all.outcomes[0].case().point) * 4.0, "the last counts");
    let mut other = of(vec![&attention], 1.0);
    other.header.device.name = "NVIDIA H100".into();
    let why = joined([of(vec![&gemm], 1.0), other].map(named).into()).expect_err("refused");
    assert!(why.contains("records of one machine"), "{why}");
    assert!(joined(Vec::new()).is_err());
}

/// The page has what is computed now, and published points lie where they should.
#[test]
fn published_points_are_near_l2_and_never_above_l0() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let all = tightness::all(&catalogue);
    let table = tightness::table(&all);
    let page = std::fs::read_to_string("docs/appendix/project-figures.md").expect("the page");
    assert!(page.contains(&table), "scripts/project_figures.sh writes the page anew:\n{table}");
    assert!(all.len() >= 100, "{} points", all.len());
    let close = 1.0 + 1e-12;
    for one in &all {
        let [light, serial, measured] = one.shares;
        let (light, serial) = (light.expect("L0"), serial.expect("L1"));
        let is_below = light < 1.0 && light <= serial * close && serial <= 1.0;
        let measured = measured.unwrap_or(serial);
        assert!(is_below && serial <= measured * close, "{}: {:?}", one.id, one.shares);
    }
    for class in [Class::Dense, Class::Mixture, Class::LowBatch] {
        assert!(all.iter().filter(|one| one.class == class).count() >= 10, "{class:?}");
    }
    let median = tightness::median(&all);
    assert!((0.3..=1.0).contains(&median), "{median}\n{table}");
}

/// Grouped products are looked up as such, and else as plain ones.
#[test]
fn experts_take_the_grouped_products_of_a_record() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let limits = Hardware::of_part(part(&catalogue)).expect("whole");
    let model = catalogue.model("qwen3-30b-a3b").expect("a model");
    let layout: Layout = "tp1".parse().expect("a layout");
    let dtype = Dtype::Bf16;
    let (m, n, k, groups) = (128, 1536, 2048, 51);
    let routing = Routing::Balanced;
    let grouped = Point::Grouped(GroupedPoint { dtype, m, n, k, groups, routing });
    let plain = Point::Gemm(GemmPoint {
        dtype,
        m: 2,
        n,
        k,
        layout: Default::default(),
        contents: Contents::Random,
    });
    let times = [(&grouped, 5.0), (&plain, 2.0)];
    let times = times.map(|(point, factor)| (*point, limit(&limits, point) * factor));
    let of = |points: Vec<(Point, f64)>| {
        let record = record(points);
        let hardware = Hardware::of_record("experts", &record, Some(part(&catalogue)));
        let point = point(&model, &hardware.expect("whole"), layout, &scenario(), 16);
        let rows = point.expect("a point").decode.rows;
        let name = "experts gate and up";
        let row = rows.iter().find(|row| row.operation.name == name).expect("a row").clone();
        row.basis.expect("a basis")
    };
    let basis = of(times.to_vec());
    assert!(basis.words.starts_with("grouped/"), "{basis:?}");
    assert!((basis.efficiency.expect("a share") - 0.2).abs() < 1e-9, "{basis:?}");
    let basis = of(times[1..].to_vec());
    assert!(basis.words.starts_with("gemm/") && basis.efficiency == Some(0.5), "{basis:?}");
}

/// A resource that is made slow comes out first.
#[test]
fn a_planted_slow_resource_comes_out_first() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let limits = Hardware::of_part(part(&catalogue)).expect("whole");
    let model = catalogue.model("llama-3.1-70b").expect("a model");
    let layout: Layout = "tp8".parse().expect("a layout");
    let of = |slow: &str| {
        let mut points = Vec::new();
        let mut chance = Chance::new(11);
        for _ in 0..60 {
            points.extend([chance.gemm(), chance.attention()]);
        }
        for power in 10..25 {
            let message = Bytes(1 << power);
            let sum = CollectivePoint::new(Collective::AllReduce, Dtype::Bf16, message, 8);
            points.push(Point::Collective(sum));
        }
        let time = |point: Point| {
            let factor = if point.operation() == slow { 40.0 } else { 1.1 };
            let time = limit(&limits, &point) * factor;
            (point, time)
        };
        let mut points: Vec<_> = points.into_iter().map(time).collect();
        let launch = Point::Launch(LaunchPoint { launching: Launching::Queued, kernels: 1 });
        points.push((launch, if slow == "launch" { 200e-6 } else { 1e-9 }));
        let record = record(points);
        let hardware = Hardware::of_record("slow", &record, Some(part(&catalogue)));
        let point = point(&model, &hardware.expect("whole"), layout, &scenario(), 8);
        let losses = losses(&point.expect("a point").decode);
        let all: f64 = losses.iter().map(|loss| loss.lost().0).sum();
        assert!(losses[0].lost().0 > all / 2.0, "{slow}: {losses:#?}");
        assert!(losses.windows(2).all(|pair| pair[0].lost().0 >= pair[1].lost().0));
        losses[0].resource
    };
    assert_eq!(of("gemm"), Resource::Weights);
    assert_eq!(of("attention"), Resource::Cache);
    assert_eq!(of("collective"), Resource::Sums);
    assert_eq!(of("launch"), Resource::Launches);
}

/// The time at the limits of L1, however short.
fn least(hardware: &Hardware, point: &Point) -> f64 {
    let work = point.work();
    let memory = work.memory.0 as f64 / hardware.memory.0;
    let peak = point.dtype().and_then(|dtype| hardware.peaks.get(&dtype)).expect("a peak");
    memory.max(work.flops.0 / peak.0)
}

/// A step of Llama 3.1 8B over 8 devices from launches, small messages and products of one row, as
/// computed by hand.
#[test]
fn launches_and_small_messages_of_a_record_make_l2_as_by_hand() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let limits = Hardware::of_part(part(&catalogue)).expect("whole");
    let model = catalogue.model("llama-3.1-8b").expect("a model");
    let layout: Layout = "tp8".parse().expect("a layout");
    let of = |points: Vec<(Point, f64)>| {
        let record = record(points);
        let hardware = Hardware::of_record("by hand", &record, Some(part(&catalogue)));
        point(&model, &hardware.expect("whole"), layout, &scenario(), 1).expect("a point").decode
    };
    let gemm = |[n, k]: [u32; 2]| {
        let (dtype, contents) = (Dtype::Bf16, Contents::Random);
        let gemm =
            Point::Gemm(GemmPoint { dtype, m: 1, n, k, layout: Default::default(), contents });
        (gemm, least(&limits, &gemm) * 2.0)
    };
    let launch =
        |launching, kernels, time| (Point::Launch(LaunchPoint { launching, kernels }), time);
    let sum = |bytes, time| {
        let kind = Collective::AllReduce;
        (Point::Collective(CollectivePoint::new(kind, Dtype::Bf16, Bytes(bytes), 8)), time)
    };
    // 32 query heads and 8 of keys of 128 over 8 devices; an inner width of 14,336; 128,256 words.
    let products = [[768, 4096], [4096, 512], [3584, 4096], [4096, 1792], [16032, 4096]];
    let mut points = products.map(gemm).to_vec();
    points.push(launch(Launching::Queued, 1, 3e-6));
    points.push(launch(Launching::Graph, 32, 48e-6));
    points.extend([sum(4096, 5e-6), sum(16384, 8e-6)]);
    let step = of(points);
    let layer: f64 = products[..4].iter().map(|[n, k]| f64::from(n * k)).sum();
    let weights = (32.0 * layer + 16032.0 * 4096.0) * 2.0;
    let attention = step.rows.iter().find(|row| row.operation.name == "attention").expect("a row");
    // Products take twice their limit as measured, launches and all. Attention, which the record
    // has not, takes L1 and a launch of a graph, 48 us / 32, in each layer. Two messages of 8 KiB
    // in a layer are a third of the way from 5 to 8 us. Of other kernels there are two in a layer.
    let by_hand = weights / limits.memory.0 * 2.0
        + attention.serial.0
        + 32.0 * 1.5e-6
        + 64.0 * 6e-6
        + 64.0 * 1.5e-6;
    let measured = step.measured.expect("L2").0;
    assert!((measured / by_hand - 1.0).abs() < 1e-9, "{measured} and {by_hand}: {step:#?}");
    assert_eq!(step.start.map(|start| start.way), Some(Way::Graph));

    // The rate of another shape has no launch in it: 3 us of its time were one, queued.
    let (far, time) = gemm([3072, 1536]);
    let step = of(vec![
        (far, time + 3e-6),
        launch(Launching::Queued, 1, 3e-6),
        launch(Launching::Graph, 32, 48e-6),
    ]);
    let row = step.rows.iter().find(|row| row.operation.name == "gate and up").expect("a row");
    let by_hand = 32.0 * (3584.0 * 4096.0 * 2.0 / limits.memory.0 * 2.0 + 1.5e-6);
    assert!((row.measured.expect("L2").0 / by_hand - 1.0).abs() < 1e-9, "{row:?}");
    assert!((row.launches.0 - 32.0 * 1.5e-6).abs() < 1e-12, "{row:?}");
}

/// What is lost by resource is what lies between L1 and L2.
#[test]
fn losses_add_up_to_the_gap() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let limits = Hardware::of_part(part(&catalogue)).expect("whole");
    let model = catalogue.model("deepseek-v3").expect("a model");
    let mut known = 0;
    for seed in 0..50 {
        let record = made_up(seed, &limits);
        let hardware = Hardware::of_record("made up", &record, Some(part(&catalogue)));
        let layout: Layout = "ep8".parse().expect("a layout");
        let point = point(&model, &hardware.expect("whole"), layout, &scenario(), 64);
        for step in point.map(|point| [point.decode, point.prefill]).expect("a point") {
            let lost: f64 = losses(&step).iter().map(|loss| loss.lost().0).sum();
            let gap = step.measured.map_or(0.0, |measured| measured.0 - step.serial.0);
            assert!((lost - gap).abs() <= gap * 1e-9 + 1e-15, "seed {seed}: {lost} of {gap}");
            known += u32::from(step.measured.is_some());
        }
    }
    assert!(known >= 10, "{known} of 100 steps have L2");
}
