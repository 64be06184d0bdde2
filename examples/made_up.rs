//! A record of a thousand cases that nobody measured, for looking at reports:
//! `made_up DIRECTORY` writes `DIRECTORY/record.jsonl`. Its device, its warnings and its label say
//! that it is made up. Numbers follow from formulas, and are the same every time.

use fizeau::data::Catalogue;
use fizeau_domain::{
    case::*,
    dtype::Dtype,
    outcome::*,
    spec::{self, CacheLevel, Properties, Yardstick},
    stats::Summary,
    units::*,
};
use fizeau_record::{
    Environment, Footer, Header, Line, Timer,
    guard::{self, Witness},
    store::Writer,
};
use std::path::Path;

const WARNING: &str = "This record is made up by examples/made_up.rs: nothing was measured.";

/// Of the made-up clock.
const CLOCK: Megahertz = Megahertz(1830.0);

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory] = &arguments[..] else { anyhow::bail!("usage: made_up DIRECTORY") };
    let catalogue = Catalogue::load(None)?;
    let properties = properties();
    let part = catalogue.parts.iter().find(|part| part.id == "h200-sxm").cloned();
    let yardstick = Yardstick { most: part.clone(), part, ..Yardstick::default() };
    let mut outcomes = Vec::new();
    for (kernel, point) in cases() {
        let place = outcomes.len();
        outcomes.push(outcome(kernel, point, place, &properties, &yardstick));
    }
    outcomes.extend(broken());
    let plan = outcomes.iter().map(|outcome| outcome.case().clone()).collect();
    let mut writer = Writer::create(Path::new(directory), &header(properties, plan))?;
    let count = outcomes.len();
    for outcome in outcomes {
        writer.append(&Line::Outcome(outcome))?;
    }
    let (ended, elapsed) = (time(count), Seconds(count as f64 * EACH));
    writer.append(&Line::Footer(Footer { ended, elapsed, interrupted: false }))?;
    println!("{count} cases, made up");
    Ok(())
}

/// Seconds from one case to the next.
const EACH: f64 = 0.45;

fn time(place: usize) -> String {
    let milliseconds = (place as f64 * EACH * 1e3) as u64;
    let (minutes, rest) = (milliseconds / 60_000, milliseconds % 60_000);
    format!("2026-03-01T12:{minutes:02}:{:02}.{:03}Z", rest / 1000, rest % 1000)
}

fn properties() -> Properties {
    let cache = |level, size, shared_by| CacheLevel { level, size, shared_by, line: Bytes(128) };
    Properties {
        backend: "cuda".into(),
        name: "Made-up GPU".into(),
        vendor: "nobody".into(),
        units: 132,
        clock: Some(Megahertz(1980.0)),
        memory: Bytes(141 << 30),
        caches: vec![cache(1, Bytes(256 << 10), 1), cache(2, Bytes(50 << 20), 132)],
        exps_per_clock: Some(16.0),
        features: vec!["sm_90a".into()],
        pcie: Some([5, 16]),
        ..Properties::default()
    }
}

fn header(device: Properties, plan: Vec<Case>) -> Header {
    Header {
        run: "0000000000000000".into(),
        fizeau: env!("CARGO_PKG_VERSION").into(),
        build: None,
        command: vec!["made_up".into()],
        started: time(0),
        label: Some("made up".into()),
        suite: "made-up".into(),
        suite_text: "name = \"made-up\"\n".into(),
        selectors: Vec::new(),
        suite_cases: None,
        user_kernels: Vec::new(),
        device,
        part: Some("h200-sxm".into()),
        environment: Environment {
            os: "none".into(),
            cpu: "none".into(),
            warnings: vec![WARNING.into()],
            ..Environment::default()
        },
        timer: Timer { resolution: Seconds(1e-9), overhead: Seconds(2e-6) },
        plan,
    }
}

/// A number in 0..1 that follows from a text.
fn chance(text: &str) -> f64 {
    let hash = text.bytes().fold(17u32, |hash, byte| hash.wrapping_mul(31) ^ u32::from(byte));
    f64::from(hash.wrapping_mul(2_654_435_761) >> 8) / f64::from(1u32 << 24)
}

/// What share of its limit a made-up case reaches.
fn share(case: &Case) -> f64 {
    let full = match &case.point {
        Point::Gemm(of) => f64::from(of.m.min(of.n).min(of.k)) / 700.0,
        Point::Attention(of) => f64::from(of.queries.max(of.batch * 8)) / 500.0,
        Point::Transfer(of) => of.size.0 as f64 / 4e6,
        Point::Stream(of) => of.working_set.0 as f64 / 1e6,
        _ => 20.0,
    };
    let kernel = if case.kernel.0 == "portable" { 0.45 } else { 0.88 };
    kernel * full / (1.0 + full) * (0.92 + 0.12 * chance(&case.to_string()))
}

/// The time of a case that no limit is known for.
fn plain_time(point: &Point) -> f64 {
    match point {
        Point::Latency(of) => 30e-9 + 12e-9 * (of.working_set.0 as f64).log2(),
        Point::Launch(of) => 2.1e-6 * f64::from(of.kernels),
        Point::Transfer(of) if of.transfer.is_latency() => 1.3e-6,
        Point::Transfer(of) => of.moved().0 as f64 / 310e9 + 4e-6,
        Point::Access(of) => of.working_set.0 as f64 / 3.1e12 + 2e-6,
        other => other.work().memory.0 as f64 / 3.6e12 + 2e-6,
    }
}

fn outcome(
    kernel: &str,
    point: Point,
    place: usize,
    properties: &Properties,
    yardstick: &Yardstick,
) -> Outcome {
    let case = Case { kernel: KernelName(kernel.into()), point };
    let conditions = yardstick.conditions(Some(CLOCK), !matches!(point, Point::Attention(_)));
    let lights = spec::lights(&point, properties, yardstick.part.as_ref(), &conditions);
    let tier = spec::headline(&lights);
    let light = lights.iter().find(|light| Some(light.tier) == tier);
    let median = light.map_or(plain_time(&point), |light| light.time.0 / share(&case));
    let noise = 0.001 + 0.006 * chance(&format!("{case} noise"));
    let waves = (0..30u32).map(|n| f64::from((n * 7919 + 13) % 101) / 50.0 - 1.0);
    let times: Vec<Seconds> = waves.map(|at| Seconds(median * (1.0 + noise * at))).collect();
    let Some(summary) = Summary::of(&times) else { return skipped(case) };
    let heat = 55.0 + 20.0 * (1.0 - (-(place as f64) / 250.0).exp());
    let busy = 320.0 + 340.0 * share(&case);
    let measurement = Measurement {
        work: point.work(),
        case,
        started: Some(time(place)),
        code: Vec::new(),
        tuning: None,
        cache: if matches!(point, Point::Attention(_)) { Cache::Cold } else { Cache::Hot },
        samples: Samples {
            times,
            batch: 1,
            throttled: Vec::new(),
            warmup: Warmup { iterations: 3, time: Seconds(median * 3.0), settled: true },
            stop: StopReason::Quiet,
        },
        summary,
        regime: None,
        beside: None,
        contrast: None,
        clock: Some(CLOCK),
        speed_of_light: Vec::new(),
        tier: None,
        rank_times: Vec::new(),
        check: Check { error: 1e-7, tolerance: 1e-5, compared: 4096, wrong: 0 },
        available: None,
        stopped_by_quota: None,
        waited: None,
        stolen: None,
        telemetry: Some(Telemetry {
            readings: 9,
            clock_min: Some(Megahertz(CLOCK.0 - 45.0)),
            clock_max: Some(Megahertz(1980.0 - busy / 8.0)),
            power_mean: Some(Watts(busy * 0.93)),
            power_max: Some(Watts(busy)),
            energy: Some(Joules(busy * EACH)),
            temperature_max: Some(Celsius(heat)),
            memory_temperature_max: Some(Celsius(heat + 11.0)),
            ..Telemetry::default()
        }),
        integrity: None,
    };
    let timer = Timer { resolution: Seconds(1e-12), overhead: Seconds(0.0) };
    let witness = Witness { timer, clock_max: Some(Megahertz(1980.0)), copies: 1 };
    guard::judge(measurement, witness, properties, yardstick)
}

fn skipped(case: Case) -> Outcome {
    Outcome::Skipped { case, reason: "made up: nothing to show".into() }
}

fn cases() -> Vec<(&'static str, Point)> {
    let mut cases = Vec::new();
    let computed = [Dtype::F32, Dtype::F16, Dtype::Bf16, Dtype::Fp8, Dtype::Int8]
        .map(|dtype| ("sm90_wgmma", Point::Compute(ComputePoint { dtype, units: 132 })));
    cases.extend(computed);
    for stream in StreamOperation::ALL {
        for shift in 14..34 {
            let point = StreamPoint { stream, working_set: Bytes(1 << shift), units: 132 };
            cases.push(("portable_v4", Point::Stream(point)));
        }
    }
    for shift in 24..64u32 {
        let size = (2f64.powf(f64::from(shift) / 2.0) as u64) & !127;
        let point = LatencyPoint { working_set: Bytes(size), side: None, pair: None };
        cases.push(("chase", Point::Latency(point)));
    }
    let way = |access, row| AccessPoint { access, working_set: Bytes(4 << 30), row, units: 132 };
    cases.extend((5..15).map(|shift| way(Access::Gather, Bytes(1 << shift))).map(accessed));
    cases.extend([Access::Mix3r1w, Access::Mix1r3w].map(|of| accessed(way(of, Bytes(16)))));
    cases.extend(transfers());
    for (launching, kernels) in [
        (Launching::Queued, 1),
        (Launching::Waited, 1),
        (Launching::Graph, 8),
        (Launching::Graph, 32),
        (Launching::Graph, 256),
    ] {
        cases.push(("empty", Point::Launch(LaunchPoint { launching, kernels })));
    }
    cases.extend(products());
    cases.extend(attentions());
    cases
}

fn accessed(point: AccessPoint) -> (&'static str, Point) {
    ("portable", Point::Access(point))
}

fn transfers() -> Vec<(&'static str, Point)> {
    let mut cases = Vec::new();
    for transfer in Transfer::ALL {
        let peers: Vec<Option<u32>> = match transfer.with_peer() {
            true => (1..8).map(Some).collect(),
            false => vec![None],
        };
        let kernels = if transfer.with_peer() { &["ce", "sm"][..] } else { &["ce"] };
        for peer in peers {
            for &kernel in kernels {
                let (size, host, node) = (Bytes(256 << 20), HostMemory::Pinned, None);
                let copies = if transfer.with_all() { 8 } else { 1 };
                let point = TransferPoint { transfer, size, host, node, device: 0, peer, copies };
                cases.push((kernel, Point::Transfer(point)));
            }
        }
    }
    cases
}

fn products() -> Vec<(&'static str, Point)> {
    let mut cases = Vec::new();
    let sides = [512, 1024, 2048, 3072, 4096, 6144, 8192, 16384];
    let squares = sides.map(|side| (side, side, side));
    let thin = [1, 8, 16, 32, 64, 128, 256].map(|m| (m, 8192, 8192));
    let wide = [(4096, 4096, 128), (8192, 28672, 8192), (8192, 8192, 28672), (4096, 14336, 4096)];
    let contents = Contents::Random;
    for dtype in [
        Dtype::F64,
        Dtype::F32,
        Dtype::Tf32,
        Dtype::F16,
        Dtype::Bf16,
        Dtype::Fp8,
        Dtype::Int8,
        Dtype::Fp8Block,
    ] {
        for (m, n, k) in squares.into_iter().chain(thin).chain(wide) {
            for kernel in ["cublaslt", "sm90_wgmma", "sm90_wgmma_pingpong", "portable"] {
                cases.push((
                    kernel,
                    Point::Gemm(GemmPoint { dtype, m, n, k, layout: Layout::Nn, contents }),
                ));
            }
        }
    }
    for dtype in [Dtype::Bf16, Dtype::Fp8] {
        for m in [512, 4096, 32768] {
            for routing in [Routing::Balanced, Routing::Skewed] {
                let point = GroupedPoint { dtype, m, n: 4096, k: 7168, groups: 32, routing };
                cases.push(("sm90_wgmma", Point::Grouped(point)));
            }
        }
    }
    cases
}

fn attentions() -> Vec<(&'static str, Point)> {
    let mut cases = Vec::new();
    for dtype in [Dtype::Bf16, Dtype::Fp8] {
        for keys in [1024, 2048, 4096, 8192, 16384, 32768] {
            for (attention, batch, queries, mask) in [
                (AttentionKind::Prefill, 1, keys, Mask::Causal),
                (AttentionKind::Prefill, 1, keys, Mask::Full),
                (AttentionKind::Decode, 32, 1, Mask::Full),
            ] {
                let point = AttentionPoint {
                    attention,
                    dtype,
                    batch,
                    heads: 32,
                    kv_heads: 8,
                    queries,
                    keys,
                    dim_qk: 128,
                    dim_v: 128,
                    mask,
                    lengths: Lengths::Equal,
                    page: None,
                };
                cases.push(("sm90_wgmma", Point::Attention(point)));
                cases.push(("portable", Point::Attention(point)));
            }
        }
    }
    cases
}

/// One of each thing that goes wrong.
fn broken() -> Vec<Outcome> {
    let case = |kernel: &str, m| {
        let (dtype, contents) = (Dtype::Bf16, Contents::Random);
        let point = Point::Gemm(GemmPoint { dtype, m, n: m, k: m, layout: Layout::Nn, contents });
        Case { kernel: KernelName(kernel.into()), point }
    };
    let failed = |case, failure, error: &str| {
        let (error, integrity) = (error.into(), None);
        Outcome::Failed { case, failure, error, integrity }
    };
    vec![
        failed(
            case("experimental", 4096),
            Failure::WrongResult,
            "12 of 16777216 elements are off by up to 0.31, tolerance 0.01",
        ),
        failed(case("experimental", 8192), Failure::Hang, "no end within 10 s"),
        skipped(case("none", 1024)),
        skipped(case("none", 2048)),
    ]
}
