//! The floors of shipped profiles on what was measured: a node of eight GPUs as fast as the
//! machines of results/ passes, and one of them that is 8 % slower fails, by the shipped profile
//! alone.

use fizeau_domain::{outcome::Outcome, units::Seconds, verdict::Verdict};
use fizeau_judge::accept::{
    Judged, Level,
    node::{Device, Node},
    profile::Profile,
};
use fizeau_record::{Record, store};
use oorandom::Rand64;
use std::{collections::BTreeMap, f64::consts::TAU, fs};

/// GPUs of a node.
const GPUS: usize = 8;

/// The checks of the level `quick` whose cases these records have.
const CHECKS: [&str; 4] = ["memory read", "memory copy", "gemm bf16", "gemm fp8"];

/// Standard deviations of the logarithm of a rate: of a GPU among the healthy ones of its node, and
/// of one repeat. Assumed: few machines were measured, each once.
const SPREAD: f64 = 0.005;
const NOISE: f64 = 0.003;

/// The fastest outcome of each point that a check selects, of all records of a part, as one record
/// of the profile's suite.
fn measured(profile: &Profile, records: &[&str]) -> Record {
    let read = |place: &&str| store::read(format!("results/{place}").as_ref()).expect("a record");
    let all: Vec<Record> = records.iter().map(read).collect();
    let mut best: BTreeMap<String, Outcome> = BTreeMap::new();
    for outcome in all.iter().flat_map(|record| &record.outcomes) {
        let Some(one) = outcome.measured() else { continue };
        let point = one.case.point.to_string();
        let is_whole = |point: &str| point.contains("/2GiB/") || point.contains("8192x8192x8192");
        let its = profile.checks.iter().filter(|check| CHECKS.contains(&check.name.as_str()));
        if !{ its }.any(|check| check.has(&one.case.to_string())) || !is_whole(&format!("{point}/"))
        {
            continue;
        }
        let time =
            |outcome: &Outcome| outcome.measured().map_or(f64::INFINITY, |it| it.summary.median.0);
        let is_faster = best.get(&point).is_none_or(|known| time(known) > one.summary.median.0);
        if is_faster {
            best.insert(point, outcome.clone());
        }
    }
    let mut record = all.into_iter().next().expect("a record");
    record.header.command = ["fizeau", "run", "--suite", &profile.suite].map(str::to_owned).into();
    record.header.plan = best.values().map(|one| one.case().clone()).collect();
    record.outcomes = best.into_values().collect();
    for outcome in &mut record.outcomes {
        if let Outcome::Measured(one) = outcome {
            // What is judged is the median: repeats need not carry the samples.
            (one.samples.times, one.telemetry) = (Vec::new(), None);
        }
    }
    record
}

/// The same record of a GPU whose rates are so many times those, with a name of its own.
fn scaled(record: &Record, run: String, factor: f64) -> Record {
    let mut record = record.clone();
    record.header.run = run;
    for outcome in &mut record.outcomes {
        if let Outcome::Measured(one) = outcome {
            one.summary.median = Seconds(one.summary.median.0 / factor);
        }
    }
    record
}

fn normal(random: &mut Rand64) -> f64 {
    let [one, other] = [random.rand_float().max(1e-300), random.rand_float()];
    (-2.0 * one.ln()).sqrt() * (TAU * other).cos()
}

/// What becomes of a node whose GPU 3 has this share of the rates that it should have.
fn judged(profile: &Profile, record: &Record, third: f64, seed: u64) -> Vec<Judged> {
    let mut random = Rand64::new(u128::from(seed));
    let own: Vec<f64> = (0..GPUS)
        .map(|at| (SPREAD * normal(&mut random)).exp() * if at == 3 { third } else { 1.0 })
        .collect();
    let device =
        |at| Device { name: format!("cuda:{at}"), kind: "one".into(), ..Device::default() };
    let mut node = Node::new(profile, Level::Quick, (0..GPUS).map(device).collect());
    let mut count = 0;
    let mut repeat = |node: &mut Node<'_>, at: usize| {
        count += 1;
        let factor = own[at] * (NOISE * normal(&mut random)).exp();
        node.add(at, &scaled(record, format!("run-{count}"), factor));
    };
    (0..GPUS).for_each(|at| repeat(&mut node, at));
    // More rounds than any look needs.
    for _ in 0..60 {
        let wanted: Vec<usize> = node.wanted().into_keys().collect();
        match (wanted.is_empty(), node.is_over()) {
            (true, true) => break,
            (true, false) => node.judge(),
            _ => wanted.into_iter().for_each(|at| repeat(&mut node, at)),
        }
    }
    node.end();
    let rows = node.judged().into_iter();
    rows.filter(|one| CHECKS.contains(&one.check.as_str())).collect()
}

/// A profile and the records of its part.
fn part(name: &str) -> (Profile, Record) {
    let text = fs::read_to_string(format!("data/profiles/{name}.toml")).expect("a profile");
    let profile = Profile::parse(&text).expect("it is one");
    let records: &[&str] = match name {
        "h200-sxm" => &["h200-sxm/2026-11-26-discover", "h200-sxm/2026-11-26-figures/gemm"],
        _ => &[
            "h100-sxm/2026-11-26-stream-figures/stream",
            "h100-sxm/2026-11-26-products-figures/products",
        ],
    };
    let record = measured(&profile, records);
    assert_eq!(record.outcomes.len(), CHECKS.len(), "{name}: {:?}", record.header.plan);
    (profile, record)
}

#[test]
fn a_node_as_fast_as_what_was_measured_passes_and_a_gpu_that_is_slower_fails() {
    for name in ["h200-sxm", "h100-sxm"] {
        let (profile, record) = part(name);
        for seed in 0..3 {
            let all = judged(&profile, &record, 1.0, seed);
            assert_eq!(all.len(), GPUS * CHECKS.len(), "{name}");
            let open: Vec<_> = all.iter().filter(|one| one.verdict != Verdict::Pass).collect();
            assert!(open.is_empty(), "{name}, seed {seed}: {open:?}");
            let all = judged(&profile, &record, 0.92, seed);
            for one in all {
                let is_slow = one.device == "cuda:3";
                let wanted = if is_slow { Verdict::Fail } else { Verdict::Pass };
                assert_eq!(one.verdict, wanted, "{name}, seed {seed}: {one:?}");
            }
        }
    }
}
