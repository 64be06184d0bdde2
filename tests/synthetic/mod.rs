//! A synthetic record: what a run on a two-core machine might leave, made from formulas, the same
//! every time. Its numbers are no measurements.

use fizeau_domain::{
    case::*,
    dtype::Dtype,
    outcome::*,
    spec::{Bound, CacheLevel, CpuId, Properties, SpeedOfLight, Tier},
    stats::{Interval, Summary},
    units::*,
};
use fizeau_record::{Environment, Footer, Header, Record, Timer};
use std::collections::BTreeMap;

const MEMORY_PEAK: f64 = 51.2e9;

/// The record.
pub fn record() -> Record {
    let mut outcomes = Vec::new();
    outcomes.extend(computes());
    outcomes.extend(streams());
    outcomes.extend(latencies());
    outcomes.extend(gemms());
    outcomes.extend(attentions());
    outcomes.extend(collectives());
    spoil(&mut outcomes);
    let plan = outcomes.iter().map(|outcome| outcome.case().clone()).collect();
    Record {
        header: header(plan),
        outcomes,
        footer: Some(Footer {
            ended: "2026-03-01T12:00:52Z".into(),
            elapsed: Seconds(52.0),
            interrupted: false,
        }),
        notes: vec![],
    }
}

/// The measurements of a record, to be changed.
pub fn measured_in(record: &mut Record) -> impl Iterator<Item = &mut Measurement> {
    record.outcomes.iter_mut().filter_map(|outcome| match outcome {
        Outcome::Measured(one) => Some(&mut **one),
        _ => None,
    })
}

fn header(plan: Vec<Case>) -> Header {
    Header {
        run: "7f3a19c2".into(),
        fizeau: "0.1.0".into(),
        build: Some("v0.1.0-3-g0a1b2c3d4e5f".into()),
        command: ["fizeau", "run", "--label", "one of many"].map(str::to_owned).to_vec(),
        started: "2026-03-01T12:00:00Z".into(),
        label: None,
        suite: "quick".into(),
        suite_text: "name = \"quick\"\n".into(),
        selectors: vec![],
        suite_cases: None,
        user_kernels: Vec::new(),
        device: device(),
        part: Some("epyc-9005".into()),
        environment: Environment {
            host: Some("node-17".into()),
            os: "linux 6.12".into(),
            cpu: "AMD EPYC 9575F".into(),
            cpus: 2,
            pinned: true,
            huge_pages: "transparent".into(),
            governor: Some("performance".into()),
            boost: Some(true),
            microcode: Some("0xb002151".into()),
            settings: None,
            board: None,
            unknown_architecture: None,
            kernels_left_out: vec![],
            load: Some(0.31),
            memory_free: Some(Bytes(29 << 30)),
            memory_limit: None,
            cpu_quota: None,
            cpus_online: None,
            libraries: vec!["openblas 0.3.29".into()],
            ranks: Vec::new(),
            network: None,
            host_memory_node: None,
            side_by_side: Vec::new(),
            warnings: vec![
                "A virtual machine (kvm): neighbours may take cache and bandwidth.".into(),
            ],
        },
        timer: Timer { resolution: Seconds(20e-9), overhead: Seconds(41e-9) },
        plan,
    }
}

fn device() -> Properties {
    let cache = |level, size, shared_by| CacheLevel { level, size, shared_by, line: Bytes(64) };
    Properties {
        backend: "host".into(),
        name: "AMD EPYC 9575F".into(),
        vendor: "AMD".into(),
        units: 2,
        clock: Some(Megahertz(3300.0)),
        memory: Bytes(31 << 30),
        caches: vec![
            cache(1, Bytes(48 << 10), 1),
            cache(2, Bytes(1 << 20), 1),
            cache(3, Bytes(32 << 20), 2),
        ],
        flops_per_clock: BTreeMap::from([(Dtype::F32, 64.0), (Dtype::F64, 32.0)]),
        cpu: Some(CpuId { family: 26, model: 2, stepping: 1 }),
        features: vec!["avx512f".into(), "avx512_bf16".into()],
        virtualised: Some("kvm".into()),
        ..Properties::default()
    }
}

fn peak(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F64 => 290e9,
        Dtype::F32 => 580e9,
        Dtype::Bf16 => 1160e9,
        _ => 2320e9,
    }
}

/// A spread of samples about a median, the same every time.
fn times(median: f64, noise: f64, count: u32) -> Vec<Seconds> {
    (0..count)
        .map(|n| {
            let wave = f64::from((n * 7919 + 13) % 101) / 50.0 - 1.0;
            Seconds(median * (1.0 + noise * 2.0 * wave))
        })
        .collect()
}

fn summary(median: f64, noise: f64, count: u32) -> Summary {
    let at = |shift: f64| Seconds(median * (1.0 + noise * shift));
    Summary {
        count: u64::from(count),
        median: Seconds(median),
        min: at(-1.9),
        max: at(2.4),
        p5: at(-1.6),
        p25: at(-0.9),
        p75: at(1.0),
        p95: at(1.8),
        p99: at(2.2),
        p999: None,
        noise,
        interval: Interval { low: at(-0.2), high: at(0.3), confidence: 0.95, independent: None },
    }
}

fn measurement(kernel: &str, point: Point, median: f64, cache: Cache) -> Measurement {
    let case = Case { kernel: KernelName(kernel.into()), point };
    let work = point.work();
    let salt = case.to_string().bytes().fold(7u32, |sum, byte| sum * 31 % 997 + u32::from(byte));
    let noise = 0.001 + f64::from(salt % 13) * 0.0006;
    let count = 20 + salt % 60;
    let speed_of_light = lights(&point, &work);
    let tier = speed_of_light.last().map(|light| light.tier);
    let check = match point {
        Point::Latency(_) => Check::NONE,
        _ => Check { error: 1e-7, tolerance: 1e-5, compared: 4096, wrong: 0 },
    };
    Measurement {
        case,
        started: None,
        code: Vec::new(),
        tuning: None,
        work,
        cache,
        samples: Samples {
            times: times(median, noise, count),
            batch: if median < 1e-4 { (1e-3 / median) as u32 } else { 1 },
            throttled: vec![],
            warmup: Warmup { iterations: 5, time: Seconds(median * 5.0), settled: true },
            stop: if salt % 3 == 0 { StopReason::Quiet } else { StopReason::TimeBudget },
        },
        summary: summary(median, noise, count),
        regime: None,
        beside: None,
        contrast: None,
        clock: Some(Megahertz(4530.0)),
        speed_of_light,
        tier,
        check,
        rank_times: Vec::new(),
        available: None,
        stopped_by_quota: None,
        waited: None,
        stolen: None,
        telemetry: None,
        integrity: None,
    }
}

/// Memory of the datasheet for large streams, arithmetic at the observed clock for the rest.
fn lights(point: &Point, work: &Work) -> Vec<SpeedOfLight> {
    match point {
        Point::Stream(stream) if stream.working_set.0 > 128 << 20 => vec![SpeedOfLight {
            time: Seconds(work.memory.0 as f64 / MEMORY_PEAK),
            bound: Bound::Memory,
            tier: Tier::Datasheet,
        }],
        Point::Compute(_) | Point::Gemm(_) => {
            let dtype = point.dtype().unwrap_or(Dtype::F32);
            let time = |peak: f64| Seconds(work.flops.0 / peak);
            let light = |tier, time| SpeedOfLight { time, bound: Bound::Compute, tier };
            vec![
                light(Tier::Datasheet, time(peak(dtype) * 0.9)),
                light(Tier::Observed, time(peak(dtype))),
            ]
        }
        _ => vec![],
    }
}

fn measured(kernel: &str, point: Point, median: f64, cache: Cache) -> Outcome {
    Outcome::Measured(Box::new(measurement(kernel, point, median, cache)))
}

fn computes() -> Vec<Outcome> {
    [Dtype::F64, Dtype::F32, Dtype::Bf16, Dtype::Int8]
        .into_iter()
        .map(|dtype| {
            let point = Point::Compute(ComputePoint { dtype, units: 2 });
            let median = point.work().flops.0 / (peak(dtype) * 0.985);
            measured("avx512_fma", point, median, Cache::Hot)
        })
        .collect()
}

/// A smooth step down at each level.
fn level(size: f64, levels: &[(f64, f64)], last: f64) -> f64 {
    let mut value = last;
    for &(at, of) in levels.iter().rev() {
        let share = 1.0 / (1.0 + (size / at).powf(6.0));
        value = of * share + value * (1.0 - share);
    }
    value
}

fn stream_rate(size: f64, units: f64, weight: f64) -> f64 {
    let kib = 1024.0;
    let levels = [
        (48.0 * kib * units, 270e9 * units * weight),
        (1024.0 * kib * units, 118e9 * units * weight),
        (28.0 * 1024.0 * kib, 52e9 * units * weight),
    ];
    level(size, &levels, if units > 1.0 { 44e9 * weight.sqrt() } else { 27e9 * weight.sqrt() })
}

fn stream(operation: StreamOperation, size: u64, units: u32, kernel: &str, gain: f64) -> Outcome {
    let point = StreamPoint { stream: operation, working_set: Bytes(size), units };
    let weight = match operation {
        StreamOperation::Read => 1.0,
        StreamOperation::Copy => 0.86,
        _ => 0.8,
    };
    let rate = stream_rate(size as f64, f64::from(units), weight) * gain;
    let point = Point::Stream(point);
    measured(kernel, point, point.work().memory.0 as f64 / rate, Cache::Hot)
}

fn streams() -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for operation in [StreamOperation::Read, StreamOperation::Triad] {
        for step in 0..17u32 {
            // Whole multiples of three arrays of cache lines.
            let size = 12_288 << step;
            outcomes.push(stream(operation, size, 2, "avx512", 1.0));
        }
    }
    let memory = 768 << 20;
    for operation in StreamOperation::ALL {
        outcomes.push(stream(operation, memory, 2, "avx512_nt", 1.05));
        outcomes.push(stream(operation, memory, 2, "plain", 0.9));
    }
    for operation in [StreamOperation::Read, StreamOperation::Triad] {
        outcomes.push(stream(operation, memory, 1, "avx512_nt", 1.05));
    }
    outcomes
}

fn latencies() -> Vec<Outcome> {
    let kib = 1024.0;
    let levels = [(48.0 * kib, 0.9e-9), (1000.0 * kib, 3.1e-9), (26.0 * 1024.0 * kib, 12e-9)];
    (0..18)
        .map(|step| {
            let size = 8192u64 << step;
            let point =
                Point::Latency(LatencyPoint { working_set: Bytes(size), side: None, pair: None });
            measured("chase", point, level(size as f64, &levels, 118e-9), Cache::Hot)
        })
        .collect()
}

fn gemms() -> Vec<Outcome> {
    let shapes = [
        (512, 512, 512),
        (1024, 1024, 1024),
        (2048, 2048, 2048),
        (16, 4096, 4096),
        (4096, 4096, 64),
    ];
    let mut outcomes = Vec::new();
    for dtype in [Dtype::F32, Dtype::F64, Dtype::Bf16] {
        for (kernel, gain) in [("openblas", 0.93), ("portable", 0.55)] {
            if dtype == Dtype::Bf16 && kernel == "openblas" {
                continue;
            }
            for (m, n, k) in shapes {
                let point = Point::Gemm(GemmPoint {
                    dtype,
                    m,
                    n,
                    k,
                    layout: Default::default(),
                    contents: Contents::Random,
                });
                let small = f64::from(m.min(n).min(k));
                let rate = peak(dtype) * gain * small / (small + 18.0);
                let median = point.work().flops.0 / rate;
                let mut of = measurement(kernel, point, median, Cache::Hot);
                of.contrast = Some(Contrast {
                    cache: Cache::Cold,
                    samples: of.samples.clone(),
                    summary: summary(median * 1.21, 0.01, 20),
                });
                outcomes.push(Outcome::Measured(Box::new(of)));
            }
        }
    }
    outcomes
}

fn attentions() -> Vec<Outcome> {
    let of = |attention, queries, keys, heads, kv_heads, dims: (u32, u32), mask| {
        let shape = [1, heads, kv_heads, queries, keys, dims.0, dims.1];
        AttentionPoint::new(attention, Dtype::Bf16, shape, mask)
    };
    let shapes = [
        (of(AttentionKind::Prefill, 1024, 1024, 16, 16, (128, 128), Mask::Causal), 0.46),
        (of(AttentionKind::Prefill, 1024, 1024, 32, 8, (128, 128), Mask::Full), 0.51),
        (of(AttentionKind::Decode, 1, 8192, 32, 8, (128, 128), Mask::Full), 0.033),
        (of(AttentionKind::Mla, 1, 8192, 16, 1, (576, 512), Mask::Full), 0.21),
    ];
    shapes
        .into_iter()
        .map(|(shape, share)| {
            let point = Point::Attention(shape);
            let median = point.work().flops.0 / (peak(Dtype::Bf16) * share);
            let mut of = measurement("blocked", point, median, Cache::Cold);
            of.contrast = Some(Contrast {
                cache: Cache::Hot,
                samples: of.samples.clone(),
                summary: summary(median * 0.96, 0.01, 20),
            });
            Outcome::Measured(Box::new(of))
        })
        .collect()
}

fn collectives() -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for collective in &Collective::ALL[..6] {
        let collective = *collective;
        for shift in (12..=28).step_by(4) {
            let message = Bytes(1 << shift);
            let point = CollectivePoint::new(collective, Dtype::F32, message, 2);
            let rate = 9e9 + 2.5e9 * collective.bus_factor(2);
            let median = 2.4e-6 * collective.bus_factor(2) + message.0 as f64 / rate;
            outcomes.push(measured("threads", Point::Collective(point), median, Cache::Hot));
        }
    }
    outcomes
}

/// One of each thing that goes wrong.
fn spoil(outcomes: &mut Vec<Outcome>) {
    let case = |point, kernel: &str| Case { kernel: KernelName(kernel.into()), point };
    let gemm = |m| {
        Point::Gemm(GemmPoint {
            dtype: Dtype::Bf16,
            m,
            n: m,
            k: m,
            layout: Default::default(),
            contents: Contents::Random,
        })
    };
    outcomes.push(Outcome::Skipped {
        case: case(gemm(2048), "onednn"),
        reason: "libdnnl.so.3 is not installed".into(),
    });
    outcomes.push(Outcome::Failed {
        case: case(gemm(1024), "experimental"),
        failure: Failure::WrongResult,
        error: "12 of 4096 elements are off by up to 0.31, tolerance 0.01".into(),
        integrity: None,
    });
    let fast = measurement("impossible", gemm(512), 1e-6, Cache::Hot);
    outcomes.push(Outcome::Invalid {
        invalidity: Invalidity::FasterThanLight,
        reason: "268 TFLOP/s is 231 times the peak; was the work skipped?".into(),
        measurement: Box::new(fast),
    });
    // A noisy one, and one that was held down.
    if let Some(Outcome::Measured(of)) = outcomes.get_mut(40) {
        of.summary.noise = 0.083;
        of.samples.throttled = vec![3, 4];
    }
}

/// A run on a GPU of copies, launches and sensors alone.
pub fn with_a_gpu() -> Record {
    let link = |transfer, peer, rate: f64| {
        let point = TransferPoint {
            transfer,
            size: Bytes(256 << 20),
            host: HostMemory::Pinned,
            node: None,
            device: 0,
            peer,
            copies: 1,
        };
        let time = point.size.0 as f64 / rate;
        measurement("ce", Point::Transfer(point), time, Cache::Hot)
    };
    let launch = |launching, kernels, time| {
        measurement("portable", Point::Launch(LaunchPoint { launching, kernels }), time, Cache::Hot)
    };
    let mut all = vec![
        link(Transfer::HostToDeviceMemcpy, None, 50e9),
        link(Transfer::DeviceToDeviceMemcpyRead, Some(1), 300e9),
        link(Transfer::DeviceToDeviceMemcpyRead, Some(2), 90e9),
        launch(Launching::Waited, 1, 9e-6),
        launch(Launching::Queued, 1, 2e-6),
    ];
    all[0].telemetry = Some(Telemetry {
        power_max: Some(Watts(690.0)),
        held_by: vec!["power cap".into()],
        ..Telemetry::default()
    });
    let outcomes: Vec<_> = all.into_iter().map(|one| Outcome::Measured(Box::new(one))).collect();
    let mut record = record();
    record.header.device.backend = "cuda".into();
    record.header.plan = outcomes.iter().map(|one| one.case().clone()).collect();
    Record { outcomes, ..record }
}
