//! `fizeau fleet` as a program: planted fleets, and surveys of them and of bundles.

use super::small_node;
use crate::program::{Place, Said, say};
use fizeau_judge::evidence::manifest::{Entry, Manifest};
use serde_json::Value;
use std::{fs, os::unix::fs::symlink, path::Path};

/// Fleets to plant.
pub const RECIPE: &str = include_str!("../../examples/fleet/recipe.toml");

#[test]
fn a_planted_fleet_is_scored_and_the_same_seed_gives_the_same() {
    let place = Place::new();
    fs::write(place.path("fleet.toml"), RECIPE).expect("written");
    let simulate = |more: &[&str]| {
        let args = ["fleet", "simulate", "fleet.toml", "--gpus", "400", "--fleets", "2"];
        say(&mut place.fizeau(args.iter().chain(more)))
    };
    let table = simulate(&[]);
    assert_eq!(table.code, Some(0), "{}", table.err);
    assert!(table.out.starts_with("2 fleets of 400 GPUs, 6 metrics"), "{}", table.out);
    assert_eq!(table.out.lines().filter(|line| line.starts_with("| ")).count(), 12);
    assert_eq!(simulate(&[]).out, table.out);
    assert_ne!(simulate(&["--seed", "9"]).out, table.out);
    // Without a recipe it is the one that is printed.
    let built_in = ["fleet", "simulate", "--gpus", "400", "--fleets", "2"];
    assert_eq!(say(&mut place.fizeau(built_in)).ended(0).out, table.out);
    let printed = say(&mut place.fizeau(["fleet", "simulate", "--print-recipe"])).ended(0);
    assert_eq!(printed.out, RECIPE);
    say(&mut place.fizeau(["fleet", "simulate", "fleet.toml", "--print-recipe"])).ended(2);
    let json = simulate(&["--json", "--set", "faulty=0"]);
    let scores: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(scores["rules"]["**fleet**, after the retest"]["failed"], 0, "{}", json.out);
}

#[test]
fn a_recipe_that_is_wrong_is_a_wrong_command_line() {
    let place = Place::new();
    fs::write(place.path("fleet.toml"), RECIPE).expect("written");
    let simulate = |more: &[&str]| {
        let said = say(&mut place.fizeau(["fleet", "simulate"].iter().chain(more)));
        (said.code, said.err)
    };
    let (code, words) = simulate(&["fleet.toml", "--set", "faulty=2"]);
    assert!(code == Some(2) && words.contains("faulty is 2: it has to be from 0 to 1"), "{words}");
    let (code, words) = simulate(&["fleet.toml", "--set", "noise.shape=round"]);
    assert!(code == Some(2) && words.contains("round"), "{words}");
    let (code, words) = simulate(&["fleet.toml", "--set", "none.at.all=1"]);
    assert!(code == Some(2) && words.contains("no table \"none\""), "{words}");
    let (code, words) = simulate(&["fleet.toml", "--gpus", "10000000"]);
    assert!(code == Some(2) && words.contains("--gpus 10000000"), "{words}");
    let (code, words) = simulate(&["missing.toml"]);
    assert!(code == Some(3) && words.contains("missing.toml"), "{words}");
}

/// A planted fleet in `fleet/`.
pub fn planted(more: &[&str]) -> Place {
    let place = Place::new();
    fs::write(place.path("fleet.toml"), RECIPE).expect("written");
    let args = ["fleet", "simulate", "fleet.toml", "--gpus", "400", "--out", "fleet"];
    say(&mut place.fizeau(args.iter().chain(more))).ended(0);
    place
}

pub fn survey(place: &Place, more: &[&str]) -> Said {
    say(&mut place.fizeau(["fleet", "survey"].iter().chain(more)))
}

#[test]
fn a_planted_fleet_is_surveyed_with_labels_missing_nodes_and_tables() {
    let place = planted(&["--set", "missing_nodes=0.1", "--set", "faulty=0.1"]);
    let labels = ["--labels", "fleet/labels.csv", "--expected", "fleet/expected.csv"];
    let files = ["--csv", "all.csv", "--textfile", "fleet.prom"];
    let all: Vec<&str> = ["fleet/store"].iter().chain(&labels).chain(&files).copied().collect();
    let said = survey(&place, &all);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(
        lines[0].starts_with("FAIL  ") && lines[0].contains("nodes sent nothing"),
        "{}",
        said.out
    );
    assert!(lines.iter().all(|line| line.ends_with(" (simulated)")), "{}", said.out);
    assert!(lines.len() <= 24 && said.out.contains("50 nodes planned = "), "{}", said.out);
    let json = survey(&place, &[&all[..5], &["--json"]].concat());
    let report: Value = serde_json::from_str(&json.out).expect("JSON");
    let missing = report["presence"]["missing"].as_array().expect("a list").len();
    assert_eq!(report["presence"]["measured"], 50 - missing);
    assert_eq!(report["by_node"].as_array().expect("nodes").len(), 50 - missing);
    assert!(
        report["by_label"].as_array().expect("labels").iter().any(|one| one["label"] == "rail")
    );
    let csv = fs::read_to_string(place.path("all.csv")).expect("a table");
    assert_eq!(csv.lines().count(), 1 + (50 - missing) * 8 * 6);
    let metrics = fs::read_to_string(place.path("fleet.prom")).expect("metrics");
    assert!(metrics.contains("fizeau_fleet_verdict{mark=\"simulated\"} 1"), "{metrics}");
    assert!(metrics.contains(&format!("nodes_missing{{mark=\"simulated\"}} {missing}")));
    // What truly loses twice the least effect is found.
    let truth = fs::read_to_string(place.path("fleet/truth.csv")).expect("losses");
    let flagged: Vec<String> = { report["flagged"].as_array().expect("a list").iter() }
        .map(|one| format!("{},{},{}", one["node"], one["device"], one["metric"]).replace('"', ""))
        .collect();
    let sent: Vec<&str> = csv.lines().filter_map(|line| line.split(',').next()).collect();
    for line in truth.lines().skip(1) {
        let (who, loss) = line.rsplit_once(',').expect("a loss");
        let node = who.split(',').next().expect("a node");
        if loss.parse::<f64>().expect("a number") > 0.15 && sent.contains(&node) {
            assert!(flagged.iter().any(|one| one == who), "{line}: {flagged:?}");
        }
    }
    // The other ways to name a store.
    let first = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let glob = survey(&place, &["fl*t/store/date=*/*.jsonl", "--since", "2026-01-01"]);
    assert_eq!(first(&glob.out).replace("FAIL", ""), {
        let plain = survey(&place, &["fleet/store"]);
        first(&plain.out).replace("FAIL", "")
    });
    let none = survey(&place, &["fleet/store", "--until", "2020-01-01"]);
    assert_eq!(none.code, Some(4), "{}", none.out);
    for (args, words) in [
        (&["fleet/store", "--across", "colour"][..], "--across colour: it has to be one of part"),
        (&["fleet/store", "--since", "today"], "write a date as 2026-11-23"),
        (&["fleet/store", "--labels", "fleet/expected.csv", "--stratum", "row"], "--stratum row"),
        (&["fleet/store", "--labels", "fleet.toml"], "no column `node`"),
    ] {
        let said = survey(&place, args);
        assert!(said.code == Some(2) && said.err.contains(words), "{words}: {}", said.err);
    }
    let said = survey(&place, &["nowhere"]);
    assert!(said.code == Some(3) && said.err.contains("nothing to survey"), "{}", said.err);
}

#[test]
fn a_folder_of_anything_is_surveyed_to_its_end() {
    let place = planted(&["--set", "faulty=0"]);
    let store = place.path("fleet/store");
    symlink("..", store.join("loop")).expect("a link");
    symlink("nowhere", store.join("dangling")).expect("a link");
    fs::write(store.join("notes.txt"), "hello").expect("written");
    fs::write(store.join("node1.tar"), "hello").expect("written");
    fs::write(store.join("half.jsonl"), "{\"format\":1,\"node\":\"n1").expect("written");
    fs::write(store.join("other.jsonl"), "not rows\n").expect("written");
    fs::write(store.join("later.jsonl"), "{\"format\":99,\"tomorrow\":true}\n\n").expect("written");
    fs::create_dir_all(place.path("sent/bundle")).expect("made");
    fs::write(place.path("sent/bundle/verdict.json"), "{\"node\":").expect("written");
    let long = format!("{{\"format\":1,\"node\":\"{}\"}}\n", "x".repeat(2 << 20));
    fs::write(store.join("long.jsonl"), long).expect("written");
    let said = survey(&place, &["fleet", "sent", "--json"]);
    let report: Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(report["devices"]["pass"].as_u64().map(|count| count > 350), Some(true));
    let notes: Vec<&str> =
        report["notes"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    for words in [
        "fleet/store/dangling: No such file",
        "notes.txt: it is no bundle, record or store",
        "node1.tar: the archive cannot be read to its end",
        "half.jsonl at byte 0: its last line is cut short",
        "other.jsonl: it is no bundle, record or store",
        "later.jsonl at byte 0: it has format 99",
        "bundle: verdict.json: EOF",
        "long.jsonl at byte 0: a line is longer than 1 MiB",
    ] {
        assert!(notes.iter().any(|note| note.contains(words)), "{words}: {notes:#?}");
    }
}

/// What is measured while others have the cores is set aside, and then no node is there.
#[test]
#[ignore = "needs the cores for itself: scripts/check.sh runs it alone"]
fn bundles_are_collected_once_and_surveyed_also_half_written() {
    let place = small_node::place();
    // Without a floor, which a busy machine may be below.
    let profile = small_node::PROFILE.lines().filter(|line| !line.starts_with("floor"));
    let profile = profile.collect::<Vec<_>>().join("\n");
    fs::write(place.path("profile.toml"), profile).expect("written");
    let accept = |out: &str| {
        let args = ["accept", "--root", "root", "--profile", "profile.toml", "--out", out];
        say(&mut place.fizeau(args)).ended(4);
    };
    let json = |paths: &[&str]| -> Value {
        let said = survey(&place, &[paths, &["--json"]].concat());
        // One host is set beside no other; records have the derived floors, which a busy host or a
        // program that was not optimised may be below.
        assert!(matches!(said.code, Some(1 | 4)), "{}{}", said.out, said.err);
        serde_json::from_str(&said.out).expect("JSON")
    };
    // Others on this machine may take its cores meanwhile: then nothing counts as measured.
    let mut whole = Value::Null;
    for attempt in 0..10 {
        if attempt > 0 {
            fs::remove_dir_all(place.path("bundles")).expect("removed");
        }
        accept("bundles/a");
        whole = json(&["bundles"]);
        if whole["fleet"] == "1 node, 1 host" {
            break;
        }
    }
    let collect = || say(&mut place.fizeau(["fleet", "collect", "bundles", "--store", "store"]));
    let said = collect();
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.starts_with("store: 1 session added, "), "{}", said.out);
    assert!(collect().out.contains("0 sessions added, 0 rows; already there: 1 session"));
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    assert_eq!(whole["by_node"][0]["node"], host.trim());
    assert_eq!(whole["fleet"], "1 node, 1 host");
    let reach = &whole["reach"][0];
    assert_eq!((&reach["metric"], &reach["gpus"]), (&"product".into(), &1.into()));
    assert!(reach["repeats"].as_u64() >= Some(1), "{reach}");
    assert_eq!(reach["unit"], "FLOP/s");
    assert_eq!(json(&["store"])["reach"], whole["reach"], "the store has the same");
    rows_follow_from_records(&place, &whole);
    // Records alone: repeats of one session.
    let records = json(&["bundles/a/rounds"]);
    assert_eq!(records["fleet"], "1 node, 1 host");
    // The same bundle as its writer's kill would have left it, and by two names at once.
    let half = place.path("bundles/half");
    copy(&place.path("bundles/a/rounds"), &half.join("rounds"));
    fs::create_dir(half.join("rounds/last")).expect("made");
    fs::write(half.join("rounds/last/record.jsonl"), "{\"line\":\"head").expect("written");
    let report = json(&["bundles/half"]);
    let notes = report["notes"].to_string();
    assert!(notes.contains("it was not closed") && notes.contains("1 record is not whole"));
    assert_eq!(report["fleet"], "1 node, 1 host", "what is there of it counts");
    copy(&place.path("bundles/a"), &place.path("bundles/b"));
    let both = json(&["bundles/a", "bundles/b"]);
    assert!(both["notes"].to_string().contains(" there twice"), "{}", both["notes"]);
    // An archive of it, beside one that was cut.
    let tar = |from: &str, to: &str| {
        let mut tar = std::process::Command::new("tar");
        tar.current_dir(place.path("")).args(["-czf", to, from]);
        assert!(tar.status().expect("tar").success());
    };
    fs::create_dir(place.path("packed")).expect("made");
    tar("bundles/a", "packed/a.tar.gz");
    let packed = json(&["packed"]);
    assert_eq!(packed["reach"], whole["reach"], "{}", packed["notes"]);
    let bytes = fs::read(place.path("packed/a.tar.gz")).expect("an archive");
    fs::write(place.path("packed/a.tar.gz"), &bytes[..bytes.len() / 2]).expect("cut");
    let notes = json(&["packed", "bundles/a"])["notes"].to_string();
    assert!(notes.contains("a.tar.gz: the archive cannot be read to its end"), "{notes}");
}

/// The bundle `bundles/a` keeps its rows, which are those of its records; rows that were changed
/// are not taken, and forged ones are found.
fn rows_follow_from_records(place: &Place, whole: &Value) {
    let json = |folder: &str, more: &[&str]| -> Value {
        let said = survey(place, &[&[folder, "--json"], more].concat());
        serde_json::from_str(&said.out).expect("JSON")
    };
    assert_eq!(&json("bundles/a", &["--from-records"]), whole);
    let verified = |folder: &str| say(&mut place.fizeau(["verify", folder]));
    let said = verified("bundles/a");
    assert!(said.out.contains("ok    rows.jsonl follows from the records"), "{}", said.out);
    copy(&place.path("bundles/a"), &place.path("forged"));
    let rows = place.path("forged/rows.jsonl");
    let text = fs::read_to_string(&rows).expect("rows");
    let forged = text.replace("\"values\":[", "\"values\":[9e19,");
    assert_ne!(forged, text);
    fs::write(&rows, &forged).expect("written");
    assert_eq!(json("forged", &[])["reach"], whole["reach"], "the records are read");
    assert!(verified("forged").out.starts_with("FAIL  changed: rows.jsonl"));
    // With a manifest that fits.
    let path = place.path("forged/manifest.json");
    let manifest = fs::read(&path).expect("a manifest");
    let mut manifest = Manifest::parse(&manifest).expect("a manifest");
    for entry in manifest.files.iter_mut().filter(|entry| entry.path == "rows.jsonl") {
        *entry = Entry::of("rows.jsonl", forged.as_bytes());
    }
    fs::write(&path, manifest.text()).expect("written");
    assert_ne!(json("forged", &[])["reach"], whole["reach"], "the rows are read");
    assert_eq!(json("forged", &["--from-records"])["reach"], whole["reach"]);
    let said = verified("forged");
    assert_eq!(said.code, Some(1), "{}", said.out);
    assert!(said.out.contains("FAIL  rows.jsonl does not follow from the records"), "{}", said.out);
    fs::remove_dir_all(place.path("forged")).expect("removed");
}

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match from.is_dir() {
            true => copy(&from, &to),
            false => drop(fs::copy(&from, &to).expect("copied")),
        }
    }
}
