//! `fizeau project --validate`, and the waterfall that explains a step.

use crate::tokens::{assert_refused, fizeau, json};
use fizeau::data::Catalogue;
use fizeau_projection::project::{Hardware, MediansFile, Public};
use serde_json::Value;
use std::path::{Path, PathBuf};

const HEAD: &str = "model,part,layout,precision,isl,osl,concurrency,value,unit,source\n";

/// A list in a folder of its own.
fn list(folder: &Path, lines: &str) -> PathBuf {
    let path = folder.join("list.csv");
    std::fs::write(&path, format!("{HEAD}{lines}")).expect("a file");
    path
}

#[test]
fn the_exit_code_says_whether_one_is_above_the_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    let of = |value: &str| {
        let line = format!("llama-3.1-8b,h200-sxm,tp1,,1024,1024,8,{value},made up\n");
        let path = list(folder.path(), &line);
        let path = path.to_str().expect("UTF-8");
        fizeau(&["project", "--validate", path, "--json"])
    };
    // 16 GB of weights at 4.8 TB/s are 3.3 ms a token.
    let below = of("6.5,ms/token");
    assert_eq!(below.status.code(), Some(0), "{}", String::from_utf8_lossy(&below.stderr));
    let shown: Value = serde_json::from_slice(&below.stdout).expect("JSON");
    let point = &shown["tables"]["measurements"][0];
    let share = |key: &str| point[key].as_f64().expect("a share");
    assert!(share("of_light") <= share("of_serial") && share("of_serial") <= share("of_measured"));
    assert!((0.4..1.0).contains(&share("of_measured")), "{point}");
    for above in ["1.5,ms/token", "700,tok/s/user", "90000,tok/s", "90000,tok/s/GPU"] {
        let said = of(above);
        assert_eq!(said.status.code(), Some(1), "{above}");
        let shown: Value = serde_json::from_slice(&said.stdout).expect("JSON");
        assert_eq!(shown["tables"]["above_l0"].as_array().map(Vec::len), Some(1), "{above}");
    }
}

#[test]
fn lists_that_cannot_be_are_refused_by_line() {
    let folder = tempfile::tempdir().expect("a folder");
    for (line, words) in [
        ("llama-3.1-8b,h200-sxm,tp1,,1024,1024,8,fast,tok/s,s", "line 2, value"),
        ("llama-3.1-8b,h200-sxm,tp1,,1024,1024,8,1,knots,s", "line 2, unit"),
        ("llama-9,h200-sxm,tp1,,1024,1024,8,1,tok/s,s", "line 2: no model is called"),
        ("llama-3.1-8b,h9,tp1,,1024,1024,8,1,tok/s,s", "line 2: --on \"h9\": no part"),
        ("llama-3.1-8b,h200-sxm,tp3,,1024,1024,8,1,tok/s,s", "line 2: tp3 does not fit"),
        ("llama-3.1-8b,h200-sxm,tp1,fp3,1024,1024,8,1,tok/s,s", "line 2: "),
        ("llama-3.1-405b,h200-sxm,tp1,,1024,1024,8,1,tok/s,s", "does not fit on h200-sxm"),
        ("llama-3.1-8b,h200-sxm,tp1,,1024,1024,8", "found record with 7 fields"),
    ] {
        let path = list(folder.path(), &format!("{line}\n"));
        let path = path.to_str().expect("UTF-8");
        assert_refused(&fizeau(&["project", "--validate", path]), words);
    }
    let both = ["project", "llama-3.1-8b", "--on", "h200", "--validate", "built-in"];
    assert_refused(&fizeau(&both), "--validate");
    assert_refused(&fizeau(&["project"]), "MODEL");
    let none = fizeau(&["project", "--validate", "/nowhere/list.csv"]);
    assert_ne!(none.status.code(), Some(0));
}

/// The list of the repository: nothing is above L0, and what is above L2 stands in the page with
/// its reason.
#[test]
fn published_measurements_are_below_the_bound() {
    let shown = json(&["project", "--validate", "built-in", "--json"]);
    let points = shown["tables"]["measurements"].as_array().expect("measurements");
    let few = |point: &&Value| point["concurrency"].as_f64().is_some_and(|count| count <= 8.0);
    assert!(points.len() >= 60 && points.iter().filter(few).count() >= 20, "{}", points.len());
    assert!(points.iter().all(|point| point["source"].as_str().is_some_and(|it| !it.is_empty())));
    assert!(shown["tables"].get("above_l0").is_none(), "{}", shown["tables"]["above_l0"]);
    let page = std::fs::read_to_string("docs/project.md").expect("the page");
    for point in shown["tables"]["above_l2"].as_array().into_iter().flatten() {
        let id = point["id"].as_str().expect("an id");
        assert!(page.contains(id), "{id} is above L2, and docs/project.md does not say why");
    }
    let ratios = shown["tables"]["ratios"].as_array().expect("ratios");
    let of_l2: Vec<_> = ratios.iter().filter(|row| row["tier"] == "L2").collect();
    let [all, few, many] = of_l2.as_slice() else { panic!("{of_l2:?}") };
    let number = |row: &Value, key: &str| row[key].as_f64().expect("a share");
    for row in [all, few, many] {
        assert!((0.5..1.0).contains(&number(row, "median")), "{row}");
    }
    assert!(number(few, "least") > 0.3, "{few}");
    // Without what others published no part has an L2.
    let bare = json(&["project", "--validate", "built-in", "--no-published", "--json"]);
    let ratios = bare["tables"]["ratios"].as_array().expect("ratios");
    assert!(ratios.iter().filter(|row| row["tier"] == "L2").all(|row| row["count"] == 0));
}

/// What is published of each part is understood, has sources, and is of a size that can be.
#[test]
fn published_costs_are_of_a_size_that_can_be() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let mut with_launches = 0;
    for part in &catalogue.parts {
        let Some((origin, text)) = catalogue.medians(&part.id) else { continue };
        let file: MediansFile =
            toml::from_str(text).unwrap_or_else(|why| panic!("{origin}: {why}"));
        let hardware = Hardware::of_part(part).expect("whole");
        let public = Public::of(&file, &hardware).unwrap_or_else(|why| panic!("{origin}: {why}"));
        for kernel in &file.kernel {
            assert!(!kernel.source.is_empty(), "{origin}");
            assert!(kernel.seconds.iter().all(|time| (1e-7..1e-2).contains(time)), "{origin}");
        }
        for sums in file.all_reduce.iter().chain(&file.all_to_all) {
            assert!(!sums.source.is_empty() && sums.ranks >= 2, "{origin}");
            assert!(sums.bytes.is_sorted() && sums.seconds.is_sorted(), "{origin}: {sums:?}");
        }
        let start = public.start().map(|(start, _)| start.time.0);
        assert!(start.is_none_or(|time| (0.5e-6..5e-6).contains(&time)), "{origin}: {start:?}");
        with_launches += u32::from(start.is_some());
    }
    assert!(with_launches >= 6, "{with_launches}");
}

/// The parts of each waterfall add up to the step, and name launches, messages and experts.
#[test]
fn the_parts_of_a_waterfall_add_up_to_the_step() {
    for (model, on, layout) in [
        ("llama-2-7b", "a100-sxm4-80", "tp8"),
        ("gpt-oss-120b", "h200-sxm", "tp1"),
        ("deepseek-v3", "b200-hgx", "ep8"),
        ("llama-3.1-8b", "l40s", "tp2"),
    ] {
        let args = ["project", model, "--on", on, "--layout", layout, "--concurrency", "4"];
        let shown = json(&[&args[..], &["--isl", "512", "--osl", "256", "--json"]].concat());
        let steps = shown["tables"][format!("steps_{}", on.replace('-', "_"))].as_array();
        let steps = steps.unwrap_or_else(|| panic!("{:?}", shown["tables"])).clone();
        for phase in ["decode", "prefill"] {
            let name = format!("waterfall_{phase}_{}", on.replace('-', "_"));
            let parts = shown["tables"][&name].as_array().expect("a waterfall");
            let added: f64 = parts.iter().filter_map(|part| part["added_seconds"].as_f64()).sum();
            let reached = parts.last().and_then(|part| part["reached_seconds"].as_f64());
            let reached = reached.expect("a time");
            let tier = if on == "l40s" { "serial_seconds" } else { "measured_seconds" };
            let of_phase = steps.iter().filter(|row| row["phase"] == phase);
            let whole: f64 = of_phase.filter_map(|row| row[tier].as_f64()).sum();
            for one in [added, reached] {
                assert!((one / whole - 1.0).abs() < 1e-9, "{model}: {one} of {whole}: {parts:?}");
            }
            let has = |words: &str| {
                parts.iter().any(|part| part["part"].as_str().is_some_and(|it| it.contains(words)))
            };
            assert_eq!(has("random routing"), model != "llama-2-7b" && model != "llama-3.1-8b");
            assert_eq!(has("launches"), on != "l40s", "{parts:?}");
            assert_eq!(has("all_reduce: 64 messages"), model == "llama-2-7b", "{parts:?}");
        }
    }
}
