//! `fizeau fleet retest`: the plan's scripts run by a shell, and results taken in by the survey.

use super::fleet::{planted, survey};
use crate::program::{Place, say};
use serde_json::Value;
use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _, process::Command};

fn plan(place: &Place) -> Value {
    place.json("retest/plan.json")
}

/// Leaves a row for each measurement of a plan: what failed reaches this share of its partner.
fn measure(place: &Place, plan: &Value, share: f64) {
    for (at, pair) in plan["pairs"].as_array().expect("pairs").iter().enumerate() {
        let sessions = pair["sessions"].as_u64().expect("a number");
        for (side, who, rate) in [("a", "failed", 0.8 * share), ("b", "partner", 0.8)] {
            for session in 1..=sessions {
                for turn in 1..=7 {
                    let folder =
                        format!("retest/results/{:05}/session-{session}/{turn:02}-{side}", at + 1);
                    fs::create_dir_all(place.path(&folder)).expect("made");
                    let rate = rate * (1.0 + 0.0005 * f64::from(turn));
                    let row = serde_json::json!({
                        "format": 1, "session": "again", "time": "2026-11-20T10:00:00Z",
                        "node": pair[who]["node"], "device": pair[who]["device"],
                        "metric": pair["metric"], "unit": pair["unit"], "values": [rate],
                        "least_effect": 0.02,
                    });
                    fs::write(place.path(&folder).join("row.jsonl"), row.to_string())
                        .expect("written");
                }
            }
        }
    }
}

#[test]
fn what_fails_is_planned_measured_in_turn_and_confirmed_or_not() {
    let place = planted(&["--set", "faulty=0.05", "--seed", "3"]);
    let retest = || {
        let args = ["fleet", "retest", "fleet/store", "--out", "retest"];
        say(&mut place.fizeau(args))
    };
    let said = retest();
    assert_eq!(said.code, Some(0), "{}", said.err);
    let plan = plan(&place);
    let pairs = plan["pairs"].as_array().expect("pairs");
    assert!(pairs.len() >= 5, "{}", said.out);
    assert!(
        said.out.contains(&format!("{} failures to measure anew", pairs.len())),
        "{}",
        said.out
    );
    let again = retest();
    assert!(again.code == Some(2) && again.err.contains("it has a plan already"), "{}", again.err);
    runs_in_turn(&place, &plan);
    let page = ["fleet/store", "--retest", "retest", "--html", "page.html", "--json"];
    let report = || -> Value {
        let said = survey(&place, &page);
        assert!(matches!(said.code, Some(1 | 4)), "{}", said.err);
        serde_json::from_str(&said.out).expect("JSON")
    };
    let confirmed = |report: &Value| {
        let flagged = report["flagged"].as_array().expect("a list");
        flagged.iter().filter(|one| one["confirmed"] == true).count()
    };
    let before = report();
    assert_eq!(confirmed(&before), 0, "nothing was measured yet");
    measure(&place, &plan, 0.5);
    let slow = report();
    assert_eq!(confirmed(&slow), pairs.len(), "{}", slow["flagged"]);
    let text = fs::read_to_string(place.path("page.html")).expect("a page");
    assert!(text.starts_with("<!doctype html>") && text.contains("slow again in turn with n"));
    let elements = text.as_bytes().windows(2).filter(|two| two[0] == b'<' && two[1] != b'/');
    assert!(elements.count() < 20_000);
    measure(&place, &plan, 1.0);
    let gone = report();
    assert_eq!((confirmed(&gone), gone["devices"]["fail"].as_u64()), (0, Some(0)));
    // Slow again, and measured on another node.
    measure(&place, &plan, 0.5);
    let first = place.path("retest/results/00001");
    for session in fs::read_dir(first).expect("sessions").flatten() {
        for step in fs::read_dir(session.path()).expect("steps").flatten() {
            let path = step.path().join("row.jsonl");
            let mut row: Value =
                serde_json::from_slice(&fs::read(&path).expect("a row")).expect("JSON");
            row["node"] = "another".into();
            fs::write(path, row.to_string()).expect("written");
        }
    }
    let other = report();
    assert_eq!(confirmed(&other), pairs.len() - 1, "{}", other["flagged"]);
    let notes = other["notes"].to_string();
    assert!(notes.contains("which was to be measured: refused"), "{notes}");
    let nowhere = survey(&place, &["fleet/store", "--retest", "nowhere"]);
    assert!(nowhere.code == Some(3) && nowhere.err.contains("plan.json"), "{}", nowhere.err);
}

#[test]
fn what_is_said_can_be_given_to_a_shell_as_it_is() {
    let place = planted(&["--set", "faulty=0.05", "--seed", "3"]);
    let args = ["fleet", "retest", "fleet/store", "--out", "of two words"];
    let said = say(&mut place.fizeau(args)).ended(0);
    let start = "start: sbatch 'of two words/session-1.sbatch', \
                 or bash 'of two words/session-1.sh' (ssh)";
    assert!(said.out.lines().any(|line| line == start), "{}", said.out);
    assert!(said.out.trim_end().ends_with("--retest 'of two words'"), "{}", said.out);
}

/// Runs the plan's list of commands with a program in the place of ssh that writes down what it is
/// to start.
fn runs_in_turn(place: &Place, plan: &Value) {
    let on = place.path("on");
    fs::write(&on, "#!/bin/sh\necho \"$@\" >>\"$FIZEAU_TOLD\"\n").expect("written");
    fs::set_permissions(&on, fs::Permissions::from_mode(0o755)).expect("executable");
    for script in ["session-1.sbatch", "session-1.sh"] {
        let path = place.path("retest").join(script);
        let read = Command::new("bash").arg("-n").arg(&path).status().expect("bash");
        assert!(read.success(), "{script}");
    }
    let told = place.path("told");
    let status = Command::new("bash")
        .arg(place.path("retest/session-1.sh"))
        .env("FIZEAU_ON", &on)
        .env("FIZEAU_TOLD", &told)
        .status();
    assert!(status.expect("bash").success());
    let told = fs::read_to_string(told).expect("commands");
    let mut turns: BTreeMap<String, String> = BTreeMap::new();
    for line in told.lines() {
        let at = line.find("/results/").expect("a folder");
        let folder = line[at..].split(' ').next().expect("a word");
        let side = folder.chars().last().expect("a side");
        turns.entry(folder[9..14].to_owned()).or_default().push(side);
    }
    assert_eq!(turns.len(), plan["pairs"].as_array().expect("pairs").len());
    assert!(turns.values().all(|turns| turns == "abbaabbaabbaab"), "{turns:?}");
    let first = &plan["pairs"][0]["failed"];
    let device = first["device"].as_str().expect("a device");
    let start = format!("{} fizeau run", first["node"].as_str().expect("a node"));
    let is_its = |line: &str| line.starts_with(&start) && line.contains(device);
    assert!(told.lines().any(is_its), "{told}");
}

#[test]
fn drift_needs_sessions_and_says_what_changed() {
    let place = planted(&["--set", "faulty=0"]);
    let drift = |path: &str| say(&mut place.fizeau(["fleet", "drift", path, "--json"]));
    let few = drift("fleet/store");
    assert_eq!(few.code, Some(4), "{}{}", few.out, few.err);
    // The same figures on eight days, of which one GPU loses a fifth from the sixth on.
    let mut rows = String::new();
    for day in fs::read_dir(place.path("fleet/store")).expect("days").flatten() {
        for file in fs::read_dir(day.path()).expect("files").flatten() {
            rows += &fs::read_to_string(file.path()).expect("rows");
        }
    }
    let mut all = String::new();
    for day in 1..=8 {
        for line in rows.lines() {
            let mut row: Value = serde_json::from_str(line).expect("a row");
            row["time"] = format!("2026-03-{day:02}T10:00:00Z").into();
            row["session"] = format!("{} {day}", row["node"]).into();
            let is_slow = row["device"] == "cuda:0" && row["node"] == "n00001" && day >= 6;
            for (at, value) in row["values"].as_array_mut().expect("values").iter_mut().enumerate()
            {
                let noise = 1.0 + 0.001 * f64::from((day * 5 + at as u32 * 3) % 7);
                let factor = if is_slow { 0.8 } else { 1.0 };
                *value = (value.as_f64().expect("a number") * noise * factor).into();
            }
            all += &(row.to_string() + "\n");
        }
    }
    fs::write(place.path("course.jsonl"), all).expect("written");
    let said = drift("course.jsonl");
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    let found: Value = serde_json::from_str(&said.out).expect("JSON");
    let changes = found["changes"].as_array().expect("changes");
    assert_eq!(changes.len(), 6, "each metric of the one GPU: {}", said.out);
    assert!(changes.iter().all(|one| one["device"] == "cuda:0" && one["node"] == "n00001"));
    assert!(changes.iter().all(|one| one["since"] == "2026-03-06T10:00:00Z"), "{}", said.out);
    let text = say(&mut place.fizeau(["fleet", "drift", "course.jsonl"])).out;
    assert!(text.starts_with("6 changes of ") && text.contains("n00001 cuda:0: "), "{text}");
}
