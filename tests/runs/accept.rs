//! `fizeau accept` as an operator calls it: verdicts, exit codes, files, and what survives a kill.

use super::{
    evidence::{all_follow, verify},
    small_node::{PROFILE, place, plant},
};
use crate::program::{Place, Said, say};
use serde_json::Value;
use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

fn accept(place: &Place, more: &[&str]) -> Said {
    let args = ["accept", "--root", "root", "--profile", "profile.toml", "--no-host-name"];
    say(&mut place.fizeau(args.iter().chain(more)))
}

fn verdict(place: &Place, out: &str) -> Value {
    let text = fs::read_to_string(place.path(out).join("verdict.json")).expect("a verdict");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_node_at_rest_is_judged_without_load_and_leaves_nothing() {
    let place = place();
    plant(&place, "proc/meminfo", "MemTotal: 1048576 kB\n");
    plant(&place, "dev/kmsg", "6,1,2,-;all is well\n");
    let began = Instant::now();
    let said = accept(&place, &["--level", "passive"]);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert!(said.out.starts_with("PASS  this node: "), "{}", said.out);
    assert!(began.elapsed() < Duration::from_secs(5));
    assert!(!place.path("results").exists());
    // A file that cannot be written takes the verdict from nobody.
    let nowhere = ["--level", "passive", "--textfile", "nowhere/node.prom"];
    let said = accept(&place, &nowhere);
    assert_eq!(said.code, Some(3), "{}{}", said.out, said.err);
    assert!(said.out.starts_with("PASS  this node: "), "{}", said.out);
    assert!(said.err.contains("cannot write nowhere/node.prom"), "{}", said.err);

    let gpu = "sys/bus/pci/devices/0000:1a:00.0";
    for (file, text) in [
        ("class", "0x030200"),
        ("vendor", "0x10de"),
        ("device", "0x2335"),
        ("current_link_width", "8"),
        ("max_link_width", "16"),
    ] {
        plant(&place, &format!("{gpu}/{file}"), text);
    }
    plant(&place, "dev/kmsg", "6,1,2,-;NVRM: Xid (PCI:0000:1a:00): 79, pid=1, off the bus\n");
    let said = accept(&place, &["--level", "passive", "--textfile", "node.prom"]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(lines[0].starts_with("FAIL") && lines[1].contains("CONTACT_SUPPORT"), "{}", said.out);
    assert!(said.out.contains("x8 of x16") && said.out.contains("Xid 79"), "{}", said.out);
    assert!(lines.len() <= 20);
    let metrics = fs::read_to_string(place.path("node.prom")).expect("metrics");
    assert!(metrics.contains("fizeau_accept_verdict{level=\"passive\""), "{metrics}");
    let said = accept(&place, &nowhere);
    assert_eq!(said.code, Some(1), "a node that fails is drained all the same: {}", said.err);
    assert!(said.out.starts_with("FAIL") && said.err.contains("nowhere/node.prom"), "{}", said.err);
}

#[test]
fn gpus_that_are_all_gone_fail_a_node_that_should_have_some() {
    let args = ["accept", "--level", "passive", "--root", "root", "--one-line", "--profile"];
    let place = place();
    let said = say(&mut place.fizeau(args.iter().chain(&["h100-sxm"]))).ended(1);
    assert!(said.out.starts_with("FAIL node GPU count: 0 of 8 GPUs"), "{}", said.out);
    let text = PROFILE.replace("host = true\n", "");
    fs::write(place.path("some.toml"), text).expect("written");
    let said = say(&mut place.fizeau(args.iter().chain(&["some.toml"]))).ended(1);
    assert!(said.out.starts_with("FAIL node GPU count: 0 of 1 GPUs"), "{}", said.out);
    assert_eq!(said.out.lines().count(), 1);
}

#[test]
fn floors_from_the_speed_of_light_pass_nothing_and_a_kill_keeps_what_was_judged() {
    let place = place();
    let args = ["accept", "--root", "root", "--profile", "profile.toml", "--out", "out"];
    let mut child = place.fizeau(args).spawn().expect("it starts");
    let file = place.path("out/verdict.json");
    let limit = Instant::now() + Duration::from_secs(60);
    let is_judged = || fs::read_to_string(&file).is_ok_and(|text| text.contains("\"product\""));
    while !is_judged() && Instant::now() < limit {
        thread::sleep(Duration::from_millis(10));
    }
    child.kill().expect("killed");
    child.wait().expect("ended");
    let kept = verdict(&place, "out");
    assert_eq!((&kept["complete"], &kept["verdict"]), (&false.into(), &"inconclusive".into()));

    let said = accept(&place, &["--out", "out"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("--resume continues it"), "{}", said.err);
    let said = accept(&place, &["--resume", "out", "--budget", "5min"]);
    assert_eq!(said.code, Some(4), "{}{}", said.out, said.err);
    let whole = verdict(&place, "out");
    assert_eq!(whole["complete"], true);
    all_follow(&place, &verify(&place, &[]));
    let checks = whole["checks"].as_array().expect("checks");
    let one = checks.iter().find(|one| one["check"] == "product").expect("the check");
    assert_eq!(one["verdict"], "inconclusive");
    // Repeats that other tests on this machine disturb count for nothing.
    if one["cause"] != "busy_host" {
        assert!(one["words"].as_str().expect("words").contains("passes nothing"), "{one}");
        assert!(one["repeats"].as_u64() >= Some(5) && one["value"]["unit"] == "FLOP/s", "{one}");
    }
    let junit = fs::read_to_string(place.path("out/junit.xml")).expect("JUnit");
    assert!(junit.contains("<error type=\"inconclusive\""), "{junit}");
}

/// Takes out of a record that other tests on this machine took its cores meanwhile.
fn leave_out_others(record: &Path) {
    fn quiet(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match &**name {
                        "waited" => *value = 0.into(),
                        "available" => *value = 1.into(),
                        _ => quiet(value),
                    }
                }
            }
            Value::Array(values) => values.iter_mut().for_each(quiet),
            _ => {}
        }
    }
    let text = fs::read_to_string(record).expect("a record");
    let lines = text.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).expect("a line");
        quiet(&mut line);
        format!("{line}\n")
    });
    fs::write(record, lines.collect::<String>()).expect("written");
}

#[test]
fn profiles_are_learnt_from_enough_runs_and_refused_for_other_machines() {
    let place = place();
    let learn = |more: &[&str]| {
        let args = ["profile", "learn", "--base", "profile.toml"];
        say(&mut place.fizeau(args.iter().chain(more)))
    };
    // What others on this machine disturb is left out, so that three runs may be too few.
    let learnt = (0..5).find_map(|attempt| {
        let runs = ["a", "b", "c"].map(|run| format!("{run}{attempt}"));
        for out in &runs {
            let args = ["run", "gemm", "--suite", "small.toml", "--device", "host", "--out", out];
            say(&mut place.fizeau(args)).ended(0);
            leave_out_others(&place.path(&format!("{out}/record.jsonl")));
        }
        let runs = runs.each_ref().map(String::as_str);
        let said = learn(&runs[..2]);
        assert!(said.code == Some(2) && said.err.contains("too few"), "{}", said.err);
        let said = learn(&[&runs[..], &["--out", "good.toml"]].concat());
        // Where others are busy no metric of it may be able to fail, which it says.
        let is_useless = said.out.contains("; 0 of the metrics may fail");
        assert_eq!(said.err.contains("this profile is useless"), is_useless, "{}", said.err);
        assert_eq!(said.code, Some(if is_useless { 4 } else { 0 }), "{}", said.err);
        assert!(said.err.contains("1 node"), "{}", said.err);
        let text = fs::read_to_string(place.path("good.toml")).expect("a profile");
        assert!(text.contains("kind = \"learnt\""), "{text}");
        fs::remove_file(place.path("good.toml")).expect("removed");
        text.contains("runs = 3").then_some(text)
    });
    let text = learnt.expect("a point is measured undisturbed in three runs, of five times three");
    // The same machine with another driver, as far as the key tells.
    let other = text.replace("[key]\n", "[key]\nfirmware = \"x\"\n");
    assert_ne!(other, text);
    fs::write(place.path("good.toml"), other).expect("written");
    let args = ["accept", "--root", "root", "--profile", "good.toml", "--out", "no"];
    let said = say(&mut place.fizeau(args)).ended(2);
    assert!(said.err.contains("learnt on something else"), "{}", said.err);
}

#[test]
fn what_dcgm_says_is_in_the_verdict_and_in_the_bundle() {
    let place = place();
    plant(&place, "proc/meminfo", "MemTotal: 1048576 kB\n");
    plant(&place, "dev/kmsg", "6,1,2,-;all is well\n");
    let told = |status: &str| {
        let warned = serde_json::json!([{ "warning": "DBE", "error_severity": 6 }]);
        let warnings = if status == "Pass" { serde_json::json!([]) } else { warned };
        let text = serde_json::json!({
            "metadata": { "version": "4.2.3" },
            "DCGM Diagnostic": { "test_categories": [{ "category": "Hardware", "tests": [{
                "name": "memory", "test_summary": { "status": status },
                "results": [{
                    "entity_group": "GPU", "entity_id": 3, "status": status,
                    "warnings": warnings
                }]
            }]}]}
        })
        .to_string();
        fs::write(place.path("diag.json"), text).expect("written");
    };
    let args = ["--level", "passive", "--dcgm", "diag.json"];
    told("Pass");
    let said = accept(&place, &[&args[..], &["--out", "out"]].concat());
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    let all = verdict(&place, "out");
    let checks = all["checks"].as_array().expect("checks");
    let one = checks.iter().find(|one| one["check"] == "DCGM memory").expect("a check");
    assert_eq!((&one["device"], &one["verdict"]), (&"DCGM GPU 3".into(), &"pass".into()));
    all_follow(&place, &verify(&place, &[]));
    told("Fail");
    let said = accept(&place, &args);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(said.out.contains("DCGM 4.2.3: fail: DBE -> RESET_GPU"), "{}", said.out);
    told("Skip");
    let said = accept(&place, &args);
    assert_eq!(said.code, Some(4), "{}{}", said.out, said.err);
    fs::write(place.path("diag.json"), "Error: no GPU").expect("written");
    let said = accept(&place, &args);
    assert_eq!(said.code, Some(3), "{}{}", said.out, said.err);
    assert!(said.err.contains("--dcgm diag.json") && said.err.contains("no JSON"), "{}", said.err);
}

#[test]
fn a_plan_measures_nothing_and_bad_input_is_refused() {
    let place = place();
    let said = accept(&place, &["--plan"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.contains("least effect 5.0 %") && said.out.contains("gemm/f32/64x64x64"));
    assert!(!place.path("results").exists());
    for (more, words) in [
        (&["--device", "cuda:7"][..], "--device \"cuda:7\""),
        (&["--budget", "soon"], "90s"),
        (&["--profile", "h100-sxm", "--device", "host"], "no device here is one"),
        (&["--profile", "nothing"], "no profile is called"),
    ] {
        let said = accept(&place, more);
        assert_eq!(said.code, Some(2), "{}", said.err);
        assert!(said.err.contains(words), "{}", said.err);
    }
    // A profile names its suite from its own folder, wherever the program is called.
    fs::create_dir(place.path("site")).expect("made");
    for file in ["profile.toml", "small.toml"] {
        fs::rename(place.path(file), place.path("site").join(file)).expect("moved");
    }
    let args = ["accept", "--root", "root", "--plan", "--profile", "site/profile.toml"];
    let said = say(&mut place.fizeau(args)).ended(0);
    assert!(said.out.contains("gemm/f32/64x64x64"), "{}{}", said.out, said.err);
}
