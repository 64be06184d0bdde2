//! A bundle whose acceptance was killed and continued, and bundles whose hashes somebody made anew:
//! an honest one is never called a forgery, and what was changed is named.

use super::{
    evidence::verify,
    small_node::{self, plant},
};
use crate::program::{Place, Said, say};
use fizeau_judge::evidence::manifest::{Entry, Manifest};
use oorandom::Rand64;
use std::{fs, path::Path, process::Stdio, thread, time::Duration};

/// Kills of one acceptance; scripts/resume_kills.py makes as many as it is asked for.
const KILLS: usize = 4;

fn accept(place: &Place, more: &[&str]) -> std::process::Command {
    let args = ["accept", "--root", "root", "--profile", "profile.toml", "--device", "host"];
    place.fizeau(args.iter().chain(more))
}

#[test]
fn a_bundle_that_was_killed_and_continued_is_no_forgery() {
    let mut random = Rand64::new(u128::from(std::process::id()));
    let place = small_node::place();
    for _ in 0..KILLS {
        let _ = fs::remove_dir_all(place.path("out"));
        let mut first = accept(&place, &["--out", "out", "--budget", "5min"]);
        first.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = first.spawn().expect("the program starts");
        // Until it measures, and then at any time.
        while !place.path("out/rounds").exists() && child.try_wait().expect("asked").is_none() {
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_secs_f64(2.0 * random.rand_float()));
        let _ = child.kill();
        child.wait().expect("it ended");
        if place.path("out/manifest.json").exists() || !place.path("out").exists() {
            continue;
        }
        let said = say(&mut accept(&place, &["--resume", "out", "--budget", "5min"]));
        assert_eq!(said.code, Some(4), "{}{}", said.out, said.err);
        let said = verify(&place, &[]);
        assert_eq!(said.code, Some(4), "{}{}", said.out, said.err);
        assert!(!said.out.contains("FAIL"), "{}", said.out);
    }
}

/// All plain files below a folder, by their paths in it.
fn files(folder: &Path, prefix: &str, all: &mut Vec<Entry>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            files(&entry.path(), &format!("{name}/"), all);
        } else if !name.starts_with("manifest.json") {
            all.push(Entry::of(&name, &fs::read(entry.path()).expect("a file")));
        }
    }
}

/// Verifies the bundle after a change of one file, with a manifest that fits; and changes it back.
fn forged(place: &Place, file: &str, change: &dyn Fn(String) -> String) -> Said {
    let path = place.path("out").join(file);
    let before = fs::read(&path).ok();
    let text = String::from_utf8(before.clone().unwrap_or_default()).expect("text");
    let changed = change(text.clone());
    assert_ne!(changed, text, "{file}");
    fs::write(&path, changed).expect("written");
    seal(place);
    let said = verify(place, &[]);
    match before {
        Some(bytes) => fs::write(&path, bytes).expect("written"),
        None => fs::remove_file(&path).expect("removed"),
    }
    seal(place);
    said
}

fn seal(place: &Place) {
    let mut all = Vec::new();
    files(&place.path("out"), "", &mut all);
    all.sort_by(|a, b| a.path.cmp(&b.path));
    fs::write(place.path("out/manifest.json"), Manifest::of(all).text()).expect("written");
}

#[test]
fn what_is_made_of_the_evidence_is_made_again_and_longer_records_are_unclear() {
    let place = small_node::place();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    plant(&place, "proc/sys/kernel/hostname", &host);
    let host = host.trim();
    let said =
        say(&mut accept(&place, &["--out", "out", "--budget", "5min", "--challenge", "heron"]));
    assert_eq!(said.code, Some(4), "{}{}", said.out, said.err);
    let asked = ["--node", host, "--since", "2025-01-01", "--challenge", "heron"];
    let whole = verify(&place, &asked);
    assert_eq!(whole.code, Some(4), "{}", whole.out);
    let lines: Vec<&str> = whole.out.lines().filter(|line| line.starts_with('?')).collect();
    assert_eq!(lines.len(), 1, "it is not signed, and nothing else is unclear: {}", whole.out);
    assert!(whole.out.contains(&format!("it is of {host}, from 20")), "{}", whole.out);
    let same = "made again and the same: junit.xml, metrics.prom, verdict.html";
    assert!(whole.out.contains(same), "{}", whole.out);
    for (args, words) in [
        (["--node", "another"], "another node: it is of"),
        (["--since", "2099-01-01"], "too old: it is of"),
        (["--challenge", "crane"], "another acceptance: it was not given"),
    ] {
        let said = verify(&place, &args);
        assert!(said.code == Some(1) && said.out.contains(words), "{}", said.out);
    }
    for (word, refused) in [("heron", false), ("crane", true)] {
        let said = say(&mut place.fizeau(["fleet", "survey", "out", "--challenge", word]));
        let words = "it was not made for the word of --challenge";
        assert_eq!(format!("{}{}", said.out, said.err).contains(words), refused, "{}", said.err);
    }
    let found = |file: &str, from: &str, to: &str, words: &str| {
        let said = forged(&place, file, &|text| text.replacen(from, to, 1));
        assert_eq!(said.code, Some(1), "{file}: {}{}", said.out, said.err);
        assert!(said.out.starts_with(&format!("FAIL  {words}")), "{file}: {}", said.out);
    };
    found("verdict.html", "INCONCLUSIVE", "PASS", "verdict.html does not follow");
    found("junit.xml", "<testsuite", "<testsuite skipped=\"0\"", "junit.xml does not follow");
    found("metrics.prom", "fizeau", "fizeaux", "metrics.prom does not follow");
    found("identity.json", host, "victim", "identity.json does not follow: its host is victim");
    found("verdict.json", "\"words\": \"", "\"words\": \"forged: ", "");
    // A line that came later is not what was decided on, and no forgery.
    let record = "rounds/0001-host/record.jsonl";
    let last = |text: &str| text.lines().last().unwrap_or_default().to_owned();
    let longer = forged(&place, record, &|text| format!("{text}{}\n", last(&text)));
    assert_eq!(longer.code, Some(4), "{}{}", longer.out, longer.err);
    assert!(longer.out.contains("1 line that came after the decision"), "{}", longer.out);
    // What was decided on is.
    let other = forged(&place, record, &|text| text.replacen("\"elapsed\":", "\"elapsed\": ", 1));
    assert_eq!(other.code, Some(1), "{}{}", other.out, other.err);
    assert!(other.out.contains("is not the record that was decided on"), "{}", other.out);
    // A hole of 1 TiB takes no room until somebody copies it.
    let hole = fs::File::create(place.path("out/hole")).expect("made");
    hole.set_len(1 << 40).expect("its length");
    let long = verify(&place, &[]);
    assert_eq!(long.code, Some(1), "{}{}", long.out, long.err);
    assert!(long.out.contains("hole: it is longer than any file of a bundle"), "{}", long.out);
    fs::remove_file(place.path("out/hole")).expect("removed");
    let stray = forged(&place, "notes.txt", &|_| "PASS".into());
    assert_eq!(stray.code, Some(4), "{}", stray.out);
    assert!(stray.out.contains("notes.txt: it is no evidence"), "{}", stray.out);
    // What nobody vouches for is named, though all hashes fit.
    let torn = forged(&place, record, &|text| format!("{text}{{\"kind\":\"outc"));
    assert_eq!(torn.code, Some(4), "{}", torn.out);
    let words = format!("{record} has the beginning of a line that came after the decision");
    assert!(torn.out.contains(&words), "{}", torn.out);
    let own = fs::read_to_string(place.path("out").join(record)).expect("a record");
    let run = own.split_once("\"run\":\"").expect("a run").1.split('"').next().expect("its name");
    let other = |_: String| own.replace(run, "2020-01-01T00:00:00Z-run");
    for (file, text, words) in [
        ("rounds/0999-host/record.jsonl", other(String::new()), "nothing was decided on it"),
        ("rounds/0999-host/record.jsonl", own.clone(), "another record is of the same run"),
        ("rounds/0999-host/record.jsonl", "PASS\n".into(), "it is no record that can be read"),
        ("rounds/0999-cuda7/messages.txt", "PASS".into(), "it is of no device that was measured"),
        ("profiles/9.toml", small_node::PROFILE.into(), "nothing was judged by it"),
        ("localise/notes.json", "{}".into(), "it is no evidence"),
        ("earlier/better/verdict.json", "{}".into(), "it is no evidence"),
    ] {
        fs::create_dir_all(place.path("out").join(file).parent().expect("a folder")).expect("made");
        let said = forged(&place, file, &|_| text.clone());
        assert_eq!(said.code, Some(4), "{file}: {}", said.out);
        assert!(said.out.contains(&format!("{file}: {words}")), "{file}: {}", said.out);
    }
    // A key that no program reads today may be believed by somebody tomorrow.
    for file in ["verdict.json", "identity.json", "state.json", "state-after.json"] {
        let said = forged(&place, file, &|text| text.replacen('{', "{\"approved\": true,", 1));
        assert_eq!(said.code, Some(1), "{file}: {}{}", said.out, said.err);
        let words = format!("FAIL  changed: {file}: \"approved\" is no key of it");
        assert!(said.out.starts_with(&words), "{file}: {}", said.out);
    }
    found("account.json", "{", "{\"approved\": true,", "changed: account.json: unknown field");
    let gpu = r#""gpus": [{"device": "cuda:7", "serial": "1"}]"#;
    found("identity.json", "\"gpus\": []", gpu, "identity.json does not follow: its GPU cuda:7");
    assert_eq!(verify(&place, &[]).out, whole.out);
}
