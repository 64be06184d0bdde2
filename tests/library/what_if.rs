//! What-ifs of projections: speculative decoding, prefill apart, power caps, prefixes, quality; and
//! what is said of a command line that cannot be.

use super::tokens::{self, assert_refused, fizeau};
use fizeau::data::Catalogue;
use fizeau_domain::{
    model::{Format, Model},
    units::BytesPerSecond,
};
use fizeau_projection::project::{
    Apart, DraftCost, Hardware, Layout, Phase, Point, Routing, Scenario, Serving, Speculation,
    Speed, Work, point, served, step,
};
use serde_json::Value;

fn json(args: &[&str]) -> Value {
    tokens::json(&[args, &["--json"]].concat())
}

fn catalogue() -> Catalogue {
    Catalogue::load(None).expect("the embedded catalogue")
}

fn model(name: &str) -> Model {
    catalogue().model(name).expect("a model")
}

fn h200() -> Hardware {
    let catalogue = catalogue();
    let part = catalogue.parts.iter().find(|part| part.id == "h200-sxm").expect("a part");
    Hardware::of_part(part).expect("whole")
}

fn layout(text: &str) -> Layout {
    text.parse().expect("a layout")
}

fn scenario() -> Scenario {
    Scenario { input: 8192, prefix: 0, output: 1000, kv: Format::Fp8, memory_share: 0.9 }
}

fn with(model: &Model, serving: &Serving, requests: u32) -> Point {
    let asked = (&scenario(), serving);
    served(model, &h200(), layout("tp1"), asked, requests).expect("a point")
}

fn speculation(accepted: f64, drafted: u32, cost: DraftCost) -> Serving {
    Serving { speculation: Some(Speculation { accepted, drafted, cost }), apart: None }
}

#[test]
fn tokens_that_are_checked_together_read_weights_and_cache_once() {
    let model = model("llama-3.1-8b");
    let work = |phase| Work {
        phase,
        sequences: 4.0,
        split: layout("tp1").split,
        kv: Format::Fp8,
        routing: Routing::Chance,
    };
    let context = 2000.0;
    let once = step(&model, &h200(), work(Phase::Decode { context })).expect("a step").bound;
    let tokens = 5.0;
    let checked = step(&model, &h200(), work(Phase::Verify { context, tokens })).expect("a step");
    assert_eq!(checked.bound.bytes, once.bytes);
    assert!((checked.bound.flops / once.flops - tokens).abs() < 1e-9);
}

#[test]
fn speculative_decoding_costs_its_draft() {
    let model = model("llama-3.1-70b").into_fp8();
    let small = catalogue().model("llama-3.2-1b").expect("a model");
    let plain = with(&model, &Serving::default(), 1);
    let free = with(&model, &speculation(3.0, 4, DraftCost::Nothing), 1);
    // One request is bound by memory: five tokens take as long as one.
    assert!((free.token.serial * 3.0 / plain.token.serial - 1.0).abs() < 0.01);
    let shared = with(&model, &speculation(3.0, 4, DraftCost::Share(0.2)), 1);
    assert!((shared.token.serial / free.token.serial - 1.2).abs() < 1e-9);
    let drafted = with(&model, &speculation(3.0, 4, DraftCost::Model(Box::new(small.clone()))), 1);
    let each = with(&small, &Serving::default(), 1).token.serial;
    let expected = free.token.serial + 4.0 * each / 3.0;
    assert!((drafted.token.serial / expected - 1.0).abs() < 1e-9);
    // Its weights and caches take room, and its prefill time.
    assert_eq!(drafted.fit.weights, plain.fit.weights + small.weight_bytes());
    assert!(drafted.fit.sequence > plain.fit.sequence);
    assert!(drafted.first_token.serial > plain.first_token.serial);
    // A large batch is bound by arithmetic: tokens that are not accepted are lost.
    let short = Scenario { input: 128, output: 64, ..scenario() };
    let of = |serving: &Serving| {
        let asked = (&short, serving);
        served(&model, &h200(), layout("tp1"), asked, 512).expect("a point").token.serial
    };
    let free = of(&speculation(1.2, 4, DraftCost::Nothing));
    assert!(free > of(&Serving::default()));
    for (accepted, drafted) in [(0.5, 3), (4.5, 3), (f64::NAN, 3), (1.0, 0), (1.0, 65)] {
        let wrong = Speculation { accepted, drafted, cost: DraftCost::Nothing };
        assert!(wrong.check().is_err(), "{accepted} of {drafted}");
    }
}

trait InFp8 {
    fn into_fp8(self) -> Self;
}

impl InFp8 for Model {
    fn into_fp8(mut self) -> Model {
        self.precision = self.precision.with_linear(Format::Fp8);
        self
    }
}

#[test]
fn prefill_apart_moves_the_keys_and_values_of_the_prompt() {
    // 8,192 tokens in 8 bits: 1.34 GB of Llama-3.1-70B, 288 MB of DeepSeek-V3.
    for (name, bytes) in [("llama-3.1-70b", 1.342e9), ("deepseek-v3", 287.8e6)] {
        let model = model(name).into_fp8();
        let rate = Some(BytesPerSecond(50e9));
        let apart = Some(Apart { layout: layout("2xtp2"), rate });
        let serving = Serving { speculation: None, apart };
        let both = served(&model, &h200(), layout("tp4"), (&scenario(), &serving), 64);
        let both = both.expect("a point");
        let apart = both.apart.expect("prefill apart");
        assert!((apart.moved.bytes / bytes - 1.0).abs() < 0.01, "{name}: {}", apart.moved.bytes);
        let alone = point(&model, &h200(), layout("tp2"), &scenario(), 1).expect("a point");
        let expected = alone.first_token.serial + apart.moved.time.serial;
        assert!((both.first_token.serial / expected - 1.0).abs() < 1e-9, "{name}");
        // Decode is not held up, and all eight devices count.
        let decode = point(&model, &h200(), layout("tp4"), &scenario(), 64).expect("a point");
        assert_eq!(both.token, decode.token);
        assert_eq!(both.devices(), 8.0);
        let slowest = apart.prompts.serial.min(apart.answers.serial);
        assert_eq!(both.requests.serial, slowest.min(apart.moved.requests.serial));
        assert!(apart.prompts.serial > 1.9 / alone.first_token.serial);
    }
    // Latents are copied to each device; key heads are divided.
    let time = |name: &str| {
        let apart = Apart { layout: layout("tp8"), rate: Some(BytesPerSecond(1e9)) };
        let model = model(name).into_fp8();
        apart.moved(&model, &h200(), &scenario(), layout("tp8")).expect("moved")
    };
    let (copied, divided) = (time("deepseek-v3"), time("llama-3.1-70b"));
    assert!((copied.time.serial - copied.bytes / 1e9).abs() < 1e-9);
    assert!((divided.time.serial - divided.bytes / 8e9).abs() < 1e-9);
}

#[test]
fn a_cap_slows_l1_by_what_was_measured_and_leaves_the_bound() {
    let model = model("llama-3.1-8b");
    let of = |speed| {
        let hardware = Hardware { speed, ..h200() };
        point(&model, &hardware, layout("tp1"), &scenario(), 1).expect("a point")
    };
    let (full, capped) = (of(Speed::FULL), of(Speed { memory: 0.8, compute: 0.5 }));
    assert!((capped.token.serial / full.token.serial - 1.25).abs() < 1e-9);
    assert!((capped.first_token.serial / full.first_token.serial - 2.0).abs() < 0.01);
    assert_eq!(
        (capped.token.light, capped.first_token.light),
        (full.token.light, full.first_token.light)
    );
}

/// Four key heads: on eight devices each holds as much of the cache as on four.
#[test]
fn two_copies_on_four_hold_more_than_one_on_eight_and_answer_later() {
    let model = model("qwen3-235b-a22b").into_fp8();
    let scenario = Scenario { input: 1000, output: 1000, ..scenario() };
    let of = |text: &str| point(&model, &h200(), layout(text), &scenario, 64).expect("a point");
    let (one, two) = (of("tp8"), of("2xtp4"));
    let held = |point: &Point| point.fit.sequences.expect("they fit") as f64;
    assert!((1.3..1.6).contains(&(held(&two) / held(&one))), "{} {}", held(&two), held(&one));
    assert!(one.token.serial < two.token.serial);
}

const ASKED: [&str; 10] = [
    "project",
    "llama-3.1-70b",
    "--on",
    "h200",
    "--layout",
    "tp8",
    "--concurrency",
    "1,16,64",
    "--slo",
    "tpot=50ms",
];

#[test]
fn what_ifs_stand_side_by_side() {
    let asked = [
        "precision=fp8",
        "precision=fp8,kv=bf16",
        "isl=64000",
        "prefix=50%",
        "layout=2xtp4",
        "layout=tp4pp2",
        "on=mi300x",
        "accept=2.6,draft=3,draft-model=llama-3.2-1b",
        "accept=2.6,draft=3,draft-cost=0.1",
        "layout=tp4,prefill=tp4,transfer=50",
        "cap=500,compute-speed=0.9,memory-speed=1",
    ];
    let flags: Vec<&str> = asked.iter().flat_map(|text| ["--what-if", text]).collect();
    let shown = json(&[&ASKED[..], &flags, &["--price", "2.5"]].concat());
    let rows = shown["tables"]["what_if"].as_array().expect("rows");
    assert_eq!(rows.len(), asked.len() + 1);
    let of = |row: &Value, key: &str| {
        let value = &row[key];
        value.as_f64().or(value["value"].as_f64()).unwrap_or_else(|| panic!("{key}: {row}"))
    };
    let row = |name: &str| rows.iter().find(|row| row["what_if"] == name).expect("a row");
    let base = row("as asked");
    assert_eq!(of(base, "rate_relative"), 1.0);
    assert!(of(row("precision=fp8"), "rate_relative") > 1.1);
    assert!(of(row("isl=64000"), "ttft_seconds") > 40.0 * of(base, "ttft_seconds"));
    let hit = of(row("prefix=50%"), "ttft_seconds") / of(base, "ttft_seconds");
    assert!((0.4..0.75).contains(&hit), "{hit}");
    assert_eq!(row("on=mi300x")["on"], "mi300x");
    assert_eq!(row("layout=2xtp4")["layout"], "2xtp4");
    assert!(of(row("accept=2.6,draft=3,draft-model=llama-3.2-1b"), "draft_seconds") > 0.0);
    assert_eq!(of(row("layout=tp4,prefill=tp4,transfer=50"), "devices"), 8.0);
    assert!(of(row("layout=tp4,prefill=tp4,transfer=50"), "transfer_seconds") > 0.0);
    let energy = of(row(asked[10]), "joules_per_token") / of(base, "joules_per_token");
    assert!((0.6..0.9).contains(&energy), "500 W in place of 700 W: {energy}");
    let said = shown["text"].to_string();
    for words in ["drafted by Llama-3.2-1B", "(given)", "prefill on 4 devices of its own"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let map = shown["heat_maps"]["what_if_rates"].as_array().expect("a map");
    assert_eq!(map.len(), (asked.len() + 1) * 3);
    // A line for each point of each in CSV.
    let csv = fizeau(&[&ASKED[..], &flags, &["--format", "csv"]].concat());
    let csv = String::from_utf8_lossy(&csv.stdout).into_owned();
    assert_eq!(csv.lines().count(), 1 + 3 * (asked.len() + 1), "{csv}");
    assert!(csv.starts_with("what_if,on,layout,concurrency,"), "{csv}");
}

#[test]
fn quality_stands_beside_cost() {
    let figures = "published=79.0,fp8=78.9,f32=70.0,mxfp4=77.5";
    let shown = json(&[&ASKED[..], &["--accuracy", figures, "--price", "2.5"]].concat());
    let rows = shown["tables"]["quality"].as_array().expect("rows");
    let front: Vec<_> = rows.iter().map(|row| row["front"].as_str().expect("a word")).collect();
    // 32 bits are dearer than 8, and here worse.
    assert_eq!(front[1..3], ["not beaten", "beaten in both"], "{rows:#?}");
    assert_eq!((front[0], rows.len()), ("not beaten", 4));
    assert!(rows.iter().all(|row| row["accuracy"].as_f64().is_some()), "{rows:#?}");
}

#[test]
fn what_is_seen_is_set_beside_what_is_expected() {
    let host = "results/epyc-9005/2026-11-21-kvm-2-cores";
    let asked = ["project", "llama-3.2-1b", "--on", host, "--concurrency", "1", "--isl", "512"];
    let shown = json(&[&asked[..], &["--seen", "ttft=30s,tpot=900ms"]].concat());
    let said = shown["text"].to_string();
    assert!(said.contains("TPOT: 900.0 ms seen") && said.contains("times as long"), "{said}");
    let name = "symptoms_results_epyc_9005_2026_11_21_kvm_2_cores";
    let rows = shown["tables"][name].as_array().expect("rows");
    let lost = |row: &Value| row["lost_seconds"].as_f64().expect("a time");
    for (symptom, tail) in [("TPOT 900.0 ms", 0.9), ("TTFT 30.00 s", 30.0)] {
        let of: Vec<_> = rows.iter().filter(|row| row["symptom"] == symptom).collect();
        assert!(of.len() > 1, "{symptom}: {rows:#?}");
        let (rest, resources) = of.split_last().expect("rows");
        assert_eq!(rest["resource"], "in none of these");
        assert!(lost(rest) < tail);
        let share: f64 = of.iter().filter_map(|row| row["share_of_lost"].as_f64()).sum();
        assert!((share - 1.0).abs() < 1e-9, "{share}");
        // What nothing is known of has no loss, and comes last.
        let known = resources.iter().take_while(|row| row["rests_on"] == "record");
        let (known, unknown) = resources.split_at(known.count());
        assert!(!known.is_empty() && known.iter().all(|row| lost(row) < tail), "{rows:#?}");
        assert!(known.windows(2).all(|pair| lost(pair[0]) >= lost(pair[1])), "{rows:#?}");
        for row in unknown {
            assert_eq!(row["rests_on"], "not known");
            assert!(row["lost_seconds"].is_null() && row["reached_ceiling_share"].is_null());
        }
    }
    let shown = json(&[&asked[..], &["--seen", "tpot=1ms"]].concat());
    assert!(shown["text"].to_string().contains("below the bound"), "{}", shown["text"]);
}

#[test]
fn several_records_of_one_machine_can_be_named() {
    let host = "results/epyc-9005/2026-11-21-kvm-2-cores";
    let both = format!("{host}+{host}");
    let of = |on: &str| {
        let shown = json(&["project", "llama-3.2-1b", "--on", on, "--concurrency", "1"]);
        shown["tables"]["points"][0]["tpot_measured_seconds"].as_f64().expect("L2")
    };
    assert_eq!(of(host), of(&both));
}

#[test]
fn a_wrong_what_if_is_a_clear_error() {
    for (text, words) in [
        ("precision", "has no value"),
        ("speed=2", "is not understood"),
        ("precision=fp7", "no format of weights"),
        ("isl=-5", "isl=-5"),
        ("isl=0", "from 1 to"),
        ("isl=131072", "max_position_embeddings"),
        ("layout=tp3", "do not divide its 64 heads"),
        ("layout=ep8", "no experts"),
        ("layout=pp81", "81 stages are more than its 80 layers"),
        ("prefix=100%", "below 100 %"),
        ("prefix=9999", "one new token"),
        ("accept=2", "needs accept="),
        ("draft=2", "needs accept="),
        ("accept=9,draft=3", "from 1 to 4 tokens"),
        ("accept=-1,draft=3", "a number above 0"),
        ("accept=2,5,draft=3", "a point, not a comma"),
        ("price=1e3", "a number above 0"),
        ("isl=100,isl=200", "isl= stands twice"),
        ("accept=2,draft=3,draft-cost=-1", "from 0 to 10"),
        ("accept=2,draft=3,draft-model=llama-9", "no model is called"),
        ("accept=2,draft=3,draft-cost=0.1,draft-model=llama-3.2-1b", "exclude each other"),
        ("transfer=50", "needs prefill="),
        ("prefill=tp3", "do not divide its 64 heads"),
        ("prefill=tp4,transfer=0", "a number above 0"),
        ("cap=500", "its speed was not measured"),
        ("cap=500,compute-speed=0.9", "its speed was not measured"),
        ("cap=500,compute-speed=1.2,memory-speed=1", "1 at most"),
        ("compute-speed=0.9", "need cap="),
        ("on=nowhere", "no part has this name"),
    ] {
        assert_refused(&fizeau(&[&ASKED[..], &["--what-if", text]].concat()), words);
    }
    for (more, words) in [
        (["--accuracy", "fp7=1"], "no format of weights"),
        (["--accuracy", "fp8"], "write bf16=72.1"),
        (["--accuracy", "fp8=good"], "no number"),
        (["--accuracy", "fp8=72,1"], "with a point"),
        (["--accuracy", "fp8=72,fp8=71"], "stands twice"),
        (["--seen", "e2el=3s"], "ttft and tpot"),
        (["--seen", "tpot=-3s"], "write ttft="),
        (["--on", "results/epyc-9005/2026-11-21-kvm-2-cores+nowhere"], "there is no record"),
        (["--format", "nccl-tests"], "possible values: terminal"),
    ] {
        assert_refused(&fizeau(&[&ASKED[..], &more].concat()), words);
    }
}
