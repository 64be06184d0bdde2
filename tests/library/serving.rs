//! Projections beside a served model: the records of results/serving, as
//! docs/appendix/serving-trial.md sets them beside each other.

use fizeau_domain::{
    model::{Format, Model, Module, config},
    units::BytesPerSecond,
};
use fizeau_projection::project::{Hardware, Layout, Phase, Scenario, step};
use fizeau_record::store;
use serde_json::Value;
use std::{fs, path::Path};

const FOLDER: &str = "results/serving/2026-11-22-one-core";

/// A measured time, and what it is a time of.
struct Served {
    round: u64,
    format: &'static str,
    phase: Phase,
    requests: f64,
    seconds: f64,
}

fn json(name: &str) -> Value {
    let text = fs::read_to_string(Path::new(FOLDER).join(name)).expect("it is committed");
    serde_json::from_str(&text).expect("JSON")
}

fn served() -> Vec<Served> {
    let answer = json("trial.json")["answer"].as_f64().expect("a number of tokens");
    let text = fs::read_to_string(Path::new(FOLDER).join("serving.jsonl")).expect("committed");
    let mut list = Vec::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let number = |name: &str| line[name].as_f64().expect(name);
        let context = number("context");
        let format = if line["format"] == "bf16" { "bf16" } else { "q8_0" };
        let mut add = |phase, seconds| {
            let (round, requests) = (number("round") as u64, number("requests"));
            list.push(Served { round, format, phase, requests, seconds });
        };
        let decode = Phase::Decode { context: context + answer / 2.0 };
        add(decode, number("answer_seconds") / (answer - 1.0));
        if number("prompt_tokens") == context {
            add(Phase::Prefill { new: context, old: 0.0 }, number("prompt_seconds"));
        }
    }
    assert!(list.len() >= 60, "{} times", list.len());
    list
}

fn model(format: &str) -> Model {
    let mut model = config::parse("served", &json("trial.json")["config"].to_string())
        .expect("it is understood");
    if format == "q8_0" {
        model.precision = model.precision.with_linear(Format::Q8);
        model.precision.set(&[Module::Head], Format::Q8);
    }
    model
}

fn rounds() -> Vec<Hardware> {
    let count = json("trial.json")["rounds"].as_u64().expect("a number of rounds");
    let round = |at: u64| {
        let record = store::read(&Path::new(FOLDER).join(format!("round-{at}"))).expect("whole");
        Hardware::of_record("host", &record, None).expect("it has all that hardware needs")
    };
    (1..=count).map(round).collect()
}

/// L0, L1 and L2 in seconds.
fn tiers(served: &Served, hardware: &Hardware) -> [f64; 3] {
    let layout: Layout = "tp1".parse().expect("a layout");
    let scenario = Scenario { input: 1, prefix: 0, output: 1, kv: Format::Bf16, memory_share: 0.9 };
    let work = scenario.work(layout.split, served.phase, served.requests);
    let step = step(&model(served.format), hardware, work).expect("all is known");
    [step.light().0, step.serial.0, step.measured.expect("there is a record").0]
}

/// The least of measured time / L0, by the ceilings of any round.
fn nearest_to_bound(rounds: &[Hardware], served: &[Served]) -> f64 {
    let over = |one: &Served| {
        rounds.iter().map(|hardware| one.seconds / tiers(one, hardware)[0]).fold(f64::MAX, f64::min)
    };
    // Of several requests an engine's own time of one holds steps in which others had not begun.
    let alone = served.iter().filter(|one| one.requests == 1.0);
    alone.map(over).fold(f64::MAX, f64::min)
}

#[test]
fn nothing_served_is_faster_than_its_bound() {
    let (rounds, served) = (rounds(), served());
    let nearest = nearest_to_bound(&rounds, &served);
    assert!((1.0..5.0).contains(&nearest), "measured / L0 is {nearest}");
    for hardware in &rounds {
        for one in &served {
            let [light, serial, measured] = tiers(one, hardware);
            assert!(light >= serial / 2.0 && serial <= measured, "{light} {serial} {measured}");
        }
    }
    // Planted: memory and arithmetic that are thought to be slower than they are.
    let slow = |hardware: &Hardware| {
        let mut slow = hardware.clone();
        slow.memory_most = BytesPerSecond(slow.memory_most.0 / (nearest * 1.5));
        slow.peaks.values_mut().for_each(|rate| rate.0 /= nearest * 1.5);
        slow
    };
    assert!(nearest_to_bound(&rounds.iter().map(slow).collect::<Vec<_>>(), &served) < 1.0);
}

/// Mean of ln(L2 / measured) over rounds, of decode of one request.
fn error_of_decode(format: &str, rounds: &[Hardware], served: &[Served]) -> f64 {
    let is_decode = |one: &&Served| {
        let is_decode = matches!(one.phase, Phase::Decode { .. });
        is_decode && one.format == format && one.requests == 1.0 && one.round > 0
    };
    let log = |one: &Served| (tiers(one, &rounds[one.round as usize - 1])[2] / one.seconds).ln();
    let logs: Vec<_> = served.iter().filter(is_decode).map(log).collect();
    logs.iter().sum::<f64>() / logs.len() as f64
}

#[test]
fn decode_of_one_request_comes_out_as_the_page_says() {
    let (rounds, served) = (rounds(), served());
    let error = error_of_decode("bf16", &rounds, &served).exp_m1();
    assert!(error.abs() < 0.25, "bf16: {error}");
}
