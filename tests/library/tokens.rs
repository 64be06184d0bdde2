//! `project`, `shapes` and `claim` as a user calls them: their documents in every format, their
//! exit codes, and what they say of a command line that cannot be.

use fizeau::{
    cmd::document::{ReportFormat, render},
    data::Catalogue,
};
use fizeau_domain::{model::Format, units::Seconds};
use fizeau_projection::project::{
    Alternative, Demand, Hardware, MediansFile, Offer, Projection, Public, Scenario, Seen, Serving,
    Slo, project_with,
};
use fizeau_report::{
    self as report,
    format::{
        csv,
        terminal::{Colour, Terminal},
    },
};
use serde_json::Value;
use std::process::{Command, Output};

const PLAIN: Terminal = Terminal { width: Some(80), colour: Colour::Never };

/// The program with arguments, from its start to its end.
pub fn fizeau(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fizeau")).args(args).output().expect("it starts")
}

/// Fails unless the program refused its arguments with these words, and printed nothing else.
#[track_caller]
pub fn assert_refused(said: &Output, words: &str) {
    let error = String::from_utf8_lossy(&said.stderr);
    assert_eq!(said.status.code(), Some(2), "{words}: {error}");
    assert!(error.contains(words), "{words}: {error}");
    assert!(said.stdout.is_empty(), "{words}");
}

pub fn json(args: &[&str]) -> Value {
    let said = fizeau(args);
    assert!(said.status.success(), "{args:?}: {}", String::from_utf8_lossy(&said.stderr));
    serde_json::from_slice(&said.stdout).expect("JSON")
}

/// A part of the catalogue, with or without what was published of it.
pub fn part(id: &str, is_published: bool) -> Hardware {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let part = catalogue.parts.iter().find(|part| part.id == id).expect("a part");
    let mut hardware = Hardware::of_part(part).expect("whole");
    if let Some((_, text)) = catalogue.medians(id).filter(|_| is_published) {
        let file: MediansFile = toml::from_str(text).expect("a file of rates");
        hardware.public = Some(Public::of(&file, &hardware).expect("rates that can be"));
    }
    hardware
}

fn projection() -> Projection {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let offer = |id: &str, layouts: &[&str], price| Offer {
        hardware: part(id, true),
        layouts: layouts.iter().map(|text| text.parse().expect("a layout")).collect(),
        price: Some(price),
        power: None,
    };
    let demand = Demand {
        model: catalogue.model("gpt-oss-120b").expect("a model"),
        precision: None,
        serving: Serving::default(),
        scenario: Scenario {
            input: 1024,
            prefix: 0,
            output: 512,
            kv: Format::Bf16,
            memory_share: 0.9,
        },
        concurrency: vec![1, 16, 256],
        slo: Slo { token: Some(Seconds(0.02)), ..Slo::default() },
        seen: Seen { first_token: None, token: Some(Seconds(0.05)) },
    };
    let offers =
        vec![offer("h200-sxm", &["tp1", "tp2", "ep2"], 2.5), offer("mi300x", &["tp1"], 2.0)];
    let rated = |name: &str, accuracy: f64, format: Format| {
        let mut demand = demand.clone();
        demand.model.precision = demand.model.precision.with_linear(format);
        let (name, notes) = (name.into(), vec!["a note".into()]);
        Alternative { name, demand, offer: offers[0].clone(), accuracy: Some(accuracy), notes }
    };
    let alternatives = vec![
        rated("precision=bf16", 80.0, Format::Bf16),
        rated("precision=fp8", 79.5, Format::Fp8),
    ];
    project_with(demand, offers.clone(), alternatives).expect("projected")
}

#[test]
fn every_format_of_a_projection() {
    let document = report::projection(&projection());
    let shown = |format| render(&document, format, PLAIN).expect("it renders");
    let said = shown(ReportFormat::Terminal);
    for words in ["Where the time goes", "TPOT L0", "mi300x: run tp1", "One request by its context"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(shown(ReportFormat::Markdown).contains("h200-sxm"));
    let read: Value = serde_json::from_str(&shown(ReportFormat::Json)).expect("JSON");
    assert_eq!(read["tables"]["points"].as_array().map(Vec::len), Some(12));
    let page = shown(ReportFormat::Html);
    assert!(page.contains("<svg") && page.contains("Where the time goes"), "{page}");
    let csv = csv::of_tables(&document, &["points", "what_if_points"]).expect("CSV");
    insta::assert_snapshot!("projection.txt", said);
    insta::assert_snapshot!("projection.md", shown(ReportFormat::Markdown));
    insta::assert_snapshot!("projection.csv", csv);
    insta::assert_snapshot!("projection.json", shown(ReportFormat::Json));
    insta::assert_snapshot!("projection.html", page);
    if let Some(dir) = std::env::var_os("FIZEAU_REPORT_DIR") {
        let path = std::path::Path::new(&dir).join("projection.html");
        std::fs::write(path, page).expect("it can be written");
    }
}

#[test]
fn what_cannot_be_projected_is_a_clear_error() {
    let llama = ["project", "llama-3.1-8b", "--on", "h200"];
    let with = |more: &[&str]| fizeau(&[&llama[..], more].concat());
    for (more, words) in [
        (&["--isl", "-5"][..], "-5"),
        (&["--isl", "0"], "from 1 to"),
        (&["--isl", "131072"], "max_position_embeddings"),
        (&["--concurrency", "0"], "whole numbers"),
        (&["--concurrency", "8..4"], "is empty"),
        (&["--layout", "tp3"], "do not divide its 32 heads"),
        (&["--layout", "ep4"], "no experts"),
        (&["--precision", "fp7"], "no format of weights"),
        (&["--precision", "heads=fp8"], "is none of"),
        (&["--slo", "tpot=20"], "write ttft="),
        (&["--precision", "experts=fp8,experts=bf16"], "states experts twice"),
        (&["--slo", "tpot=1,5s"], "with a point"),
        (&["--slo", "tpot=20ms,tpot=30ms"], "stands twice"),
        (&["--slo", "tpot=infs"], "write ttft="),
        (&["--price", "1,2"], "2 numbers, and --on 1; if it is one number, write 1.2"),
        (&["--price", "1,979"], "write 1979"),
        (&["--price", "2.5,2.2"], "2 numbers"),
        (&["--price", "1e3"], "1e3"),
        (&["--power", "nan"], "nan"),
        (&["--link", "inf"], "--link"),
        (&["--concurrency", "1,024"], "write 1024"),
        (&["--format", "superbench"], "invalid value 'superbench'"),
        (&["--price", "-1"], "-1"),
        (&["--memory-share", "2"], "--memory-share"),
        (&["--on", "h300"], "no part has this name"),
        (&["--on", "a100"], "which of"),
        (&["--on", "epyc-9005"], "is a CPU"),
    ] {
        assert_refused(&with(more), words);
    }
    let said = fizeau(&["project", "llama-9", "--on", "h200"]);
    assert_eq!(said.status.code(), Some(2));
}

/// Of two prices with a comma between them, and one with a decimal comma, only the user knows which
/// was meant; where the second cannot be meant, nobody is asked.
#[test]
fn numbers_of_several_parts_are_not_guessed() {
    let both = ["project", "llama-3.1-8b", "--on", "h200", "--on", "mi300x", "--json"];
    let with = |more: &[&str]| fizeau(&[&both[..], more].concat());
    for (more, words) in [
        (["--price", "2,5"], "write --price 2.5, or --price 2 --price 5"),
        (["--power", "1,200"], "write --power 1200, or --power 1 --power 200"),
    ] {
        assert_refused(&with(&more), words);
    }
    for more in [
        &["--price", "2.5,2.2"][..],
        &["--price", "2", "--price", "5"],
        &["--power", "700,750"],
        &["--price", "3"],
    ] {
        let said = with(more);
        assert!(said.status.success(), "{more:?}: {}", String::from_utf8_lossy(&said.stderr));
    }
}

#[test]
fn a_claim_that_cannot_be_read_is_a_clear_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty.toml");
    std::fs::write(&empty, "").expect("written");
    let empty = empty.to_str().expect("UTF-8");
    for (args, words) in [
        (&[][..], "give a figure"),
        (&["480 parsecs", "--on", "h200"], "parsecs"),
        (&["4.8 TB/s write on 3 GPUs of unicorn", "--on", "h200"], "\"unicorn\""),
        (&["4,8 TB/s", "--on", "h200"], "may mean 4.8 or 48"),
        (&["4.8 TB/s", "--on", "unicorn"], "no part has this name"),
        (&["4.8 TB/s", "--on", "h2000"], "(nearest: h200-nvl, h200-sxm)"),
        (&["9 tok/s", "--on", "h200", "--model", "llama3-70b"], "llama-3.1-70b); there are"),
        (&["4.8 TB/s", "--on", "h200", "--isl", "8"], "has no isl"),
        (&["9 tok/s", "--on", "h200", "--model", "llama-9"], "llama-9"),
        (&["9 tok/s", "--on", "h200", "--gpus", "-1"], "--gpus"),
        (&["9 tok/s", "--on", "h200", "--format", "nccl-tests"], "possible values: terminal"),
        (&["--from", empty], "no claim"),
        (&["--from", empty, "--gpus", "8"], "--gpus"),
    ] {
        assert_refused(&fizeau(&[&["claim"][..], args].concat()), words);
    }
    let shown = fizeau(&["claim", "1,979 TFLOP/s fp8", "--on", "h200", "--format", "csv"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("\"1,979 TFLOP/s fp8\",h200,,possible"), "{shown}");
}

#[test]
fn machines_read_what_people_read() {
    let shown =
        json(&["project", "llama-3.1-8b", "--on", "h200", "--concurrency", "1,8", "--json"]);
    let points = shown["tables"]["points"].as_array().expect("points");
    assert_eq!(points.len(), 2);
    for point in points {
        let light = point["tpot_light_seconds"].as_f64().expect("L0");
        assert!(light > 0.0 && light <= point["tpot_serial_seconds"].as_f64().expect("L1"));
        let first = ["ttft_light_seconds", "ttft_serial_seconds", "ttft_seconds"];
        let [light, serial, best] = first.map(|key| point[key].as_f64().expect("a time"));
        assert!(light > 0.0 && light <= serial && serial <= best);
    }
    let notes = shown["notes"].to_string();
    assert!(notes.contains("h200-sxm is used"), "{notes}");
    let host = "results/epyc-9005/2026-11-21-kvm-2-cores";
    let shown = json(&["project", "llama-3.2-1b", "--on", host, "--concurrency", "1", "--json"]);
    let point = &shown["tables"]["points"][0];
    assert!(point["tpot_measured_seconds"].as_f64() >= point["tpot_serial_seconds"].as_f64());
    let said = shown["text"].to_string();
    assert!(said.contains("fizeau shapes Llama-3.2-1B") && said.contains("not bounds"), "{said}");
    let claims = json(&["claim", "--from", "built-in", "--json"]);
    assert!(claims["tables"]["claims"].as_array().expect("claims").len() >= 30);
}

#[test]
fn shapes_can_be_planned() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("shapes.toml");
    let path = path.to_str().expect("UTF-8");
    let said = fizeau(&[
        "shapes",
        "llama-3.2-1b",
        "--layout",
        "tp2",
        "--concurrency",
        "1,8",
        "--out",
        path,
    ]);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let said = fizeau(&["list", "--suite", path, "--device", "host"]);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let listed = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(listed.contains("gemm/bf16/nt/8x8192x2048"), "{listed}");
}
