//! `fizeau fleet survey` of a folder in which much is wrong: each has its own line, and what is
//! right is judged as if nothing else were there.

use super::fleet::RECIPE;
use crate::program::{Place, Said, say};
use serde_json::Value;
use std::{
    ffi::OsStr,
    fmt::Write as _,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::symlink},
    process::{Command, Stdio},
};

/// A record of a host, as a run left it.
const RECORD: &str = include_str!("../golden/v1.jsonl");

/// More GPUs than any node has; scripts/fleet_speed.sh has a million.
const MANY: usize = 20_000;

/// A planted fleet whose rows are not marked, so that they count beside others that are not.
fn place() -> Place {
    let place = Place::new();
    fs::write(place.path("fleet.toml"), RECIPE).expect("written");
    let args = ["fleet", "simulate", "fleet.toml", "--gpus", "240", "--out", "planted"];
    say(&mut place.fizeau(args.iter().chain(&["--set", "faulty=0"]))).ended(0);
    let mut rows = String::new();
    for day in fs::read_dir(place.path("planted/store")).expect("days").flatten() {
        for file in fs::read_dir(day.path()).expect("files").flatten() {
            rows += &fs::read_to_string(file.path()).expect("rows");
        }
    }
    fs::create_dir(place.path("all")).expect("made");
    fs::create_dir(place.path("sent")).expect("made");
    let rows = rows.replace("\"mark\":\"simulated\",", "");
    fs::write(place.path("all/good.jsonl"), rows).expect("written");
    place
}

fn survey(place: &Place, more: &[&str]) -> Said {
    say(&mut place.fizeau(["fleet", "survey", "all", "sent"].iter().chain(more)))
}

fn json(place: &Place) -> Value {
    let said = survey(place, &["--json"]);
    assert!(matches!(said.code, Some(0 | 1 | 4)), "{:?} {}", said.code, said.err);
    serde_json::from_str(&said.out).expect("JSON")
}

/// A row of a device with five repeats, but for what `more` says.
fn row(node: &str, device: &str, time: &str, more: &str) -> String {
    format!(
        "{{\"format\":1,\"session\":\"{node} {time}\",\"time\":\"{time}\",\"node\":\"{node}\",\
         \"device\":\"{device}\",\"part\":\"other\",\"metric\":\"memory read\",\"unit\":\"1\",\
         \"least_effect\":0.02,{more}}}\n"
    )
}

const VALUES: &str = "\"values\":[0.9,0.91,0.9,0.92,0.91]";

/// Puts all that is wrong beside what is right.
fn spoil(place: &Place) {
    let write = |name: &str, text: &str| {
        let path = place.path("all").join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    };
    // Half-written bundles, lines and archives.
    let cut = RECORD.lines().take(3).collect::<Vec<_>>().join("\n");
    write("../sent/half/rounds/1/record.jsonl", &(cut + "\n{\"line\":\"out"));
    write("../sent/half/rounds/2/record.jsonl", "{\"line\":\"head");
    write("../sent/torn/verdict.json", "{\"node\":\"n0");
    write("../sent/torn/account.json", "{\"format\":1");
    write("short.jsonl", "{\"format\":1,\"node\":\"n1");
    write("cut.tar", "bundle/verdict.json");
    // The same sessions a second time.
    let good = fs::read_to_string(place.path("all/good.jsonl")).expect("rows");
    write("copy.jsonl", &good);
    // Clocks.
    let day = |text: &str| text.replace("\"ended\":\"2026-", "\"ended\":\"2025-");
    assert_ne!(day(RECORD), RECORD, "the record has an end");
    write("../sent/back/record.jsonl", &day(RECORD));
    write("future.jsonl", &row("late", "cuda:0", "2038-01-19T03:14:07Z", VALUES));
    write("never.jsonl", &row("early", "cuda:0", "1970-01-01T00:00:10Z", VALUES));
    // Two machines with one name.
    let of = |machine: &str, time: &str| {
        row("twin", "cuda:0", time, &format!("\"machine\":\"{machine}\",{VALUES}"))
    };
    let (a, b) = (of("A", "2026-11-20T10:00:00Z"), of("B", "2026-11-20T11:00:00Z"));
    write("twins.jsonl", &(a + &b + &of("A", "2026-11-20T12:00:00Z")));
    // What is no number.
    let time = "2026-11-20T10:00:00Z";
    write("nan.jsonl", &row("nan", "cuda:0", time, "\"values\":[NaN,0.9]"));
    write("null.jsonl", &row("null", "cuda:0", time, "\"values\":[null,0.9,-1,0]"));
    // A node with more GPUs than any has.
    let mut many = String::new();
    for gpu in 0..MANY {
        let _ = write!(many, "{}", row("flood", &format!("cuda:{gpu}"), time, "\"values\":[0.9]"));
    }
    write("many.jsonl", &many);
    // Other versions.
    write("later.jsonl", "{\"format\":99,\"tomorrow\":true}\n");
    write("../sent/newer/record.jsonl", &RECORD.replacen("\"version\":1,", "\"version\":99,", 1));
    write("notes.txt", "hello");
    write("empty.jsonl", "");
    write("empty.tar", "");
    symlink(".", place.path("all/loop")).expect("a link");
    symlink("nowhere", place.path("all/dangling")).expect("a link");
}

/// What stands in a line of its own of each.
const LINES: [&str; 19] = [
    "sent/half: it was not closed",
    "sent/half: rounds: 1 record is not whole",
    "sent/torn: verdict.json: EOF",
    "sent/torn: account.json: EOF",
    "short.jsonl at byte 0: its last line is cut short",
    "cut.tar: the archive cannot be read to its end",
    "rows are there twice (the same session): counted once",
    "sent/back/record.jsonl: its clock ran backwards, from 2026-03-01T12:00:00Z to 2025-",
    "late: its session is dated 2038-01-19, which is yet to come: left out",
    "early: its session is dated 1970-01-01, which is before anything was measured: left out",
    "twin: 2 machines have this name (A, B): they are judged apart",
    "nan.jsonl at byte 0: expected value",
    "null cuda:0, memory read: 3 of 4 values no rate, left out",
    "flood reports more than 128 devices, which no node has",
    "later.jsonl at byte 0: it has format 99",
    "sent/newer/record.jsonl",
    "all/dangling: No such file",
    "all/empty.jsonl: it is empty",
    "empty.tar: the archive cannot be read to its end (it is empty)",
];

#[test]
fn each_thing_that_is_wrong_has_its_line_and_none_stops_the_survey() {
    let place = place();
    let before = json(&place);
    assert_eq!(before["notes"].as_array().map_or(0, Vec::len), 1, "{}", before["notes"]);
    spoil(&place);
    let after = json(&place);
    let notes: Vec<&str> =
        { after["notes"].as_array().expect("a list").iter() }.filter_map(Value::as_str).collect();
    for words in LINES {
        let its = notes.iter().filter(|note| note.contains(words)).count();
        assert_eq!(its, 1, "{words}: {notes:#?}");
    }
    // What was right is judged as before: it has strata of its own.
    let verdicts = |report: &Value| {
        let nodes = report["by_node"].as_array().expect("nodes");
        let own = nodes.iter().filter(|one| one["node"].as_str().is_some_and(is_planted));
        own.cloned().collect::<Vec<Value>>()
    };
    let sorted = |mut all: Vec<Value>| {
        all.sort_by_key(|one| one["node"].to_string());
        all
    };
    assert_eq!(sorted(verdicts(&after)), sorted(verdicts(&before)));
    assert_eq!(verdicts(&before).len(), 30);
    // The text has a line for each kind, and is short all the same.
    let said = survey(&place, &[]);
    assert!(!said.err.contains("panicked"), "{}", said.err);
    let lines: Vec<&str> = said.out.lines().filter(|line| line.starts_with("note: ")).collect();
    let kinds =
        ["come to their end", "times that cannot be", "there twice", "no rate", "format 99"];
    for words in kinds.into_iter().chain(["flood", "twin"]) {
        assert!(lines.iter().any(|line| line.contains(words)), "{words}: {}", said.out);
    }
    assert!(said.out.lines().count() <= 40, "{}", said.out);
}

/// Whether a node is one of the planted fleet: `n00012`.
fn is_planted(name: &str) -> bool {
    name.strip_prefix('n').is_some_and(|number| number.parse::<u32>().is_ok())
}

#[test]
fn an_archive_that_was_made_to_fill_a_disk_is_left_at_its_limit() {
    let place = place();
    let mut header = tar::Header::new_gnu();
    header.set_size(40 << 30);
    header.set_mode(0o644);
    header.set_path("rows.jsonl").expect("a name");
    header.set_cksum();
    fs::write(place.path("all/bomb.tar"), header.as_bytes()).expect("written");
    // A folder that nobody may enter must not stay behind.
    let mut locked = tar::Builder::new(Vec::new());
    let mut folder = tar::Header::new_gnu();
    folder.set_entry_type(tar::EntryType::Directory);
    folder.set_mode(0);
    folder.set_size(0);
    locked.append_data(&mut folder, "locked/", &[][..]).expect("written");
    let mut file = tar::Header::new_gnu();
    file.set_size(5);
    locked.append_data(&mut file, "locked/in.txt", &b"hello"[..]).expect("written");
    fs::write(place.path("all/locked.tar"), locked.into_inner().expect("bytes")).expect("written");
    fs::create_dir(place.path("scratch")).expect("made");
    let args = ["fleet", "survey", "all", "--json"];
    let said = say(place.fizeau(args).env("TMPDIR", place.path("scratch")));
    assert!(matches!(said.code, Some(0 | 4)), "{:?} {}", said.code, said.err);
    let words = "bomb.tar: the archive cannot be read to its end (it holds more than 1024 MiB";
    assert!(said.out.contains(words), "{}", said.out);
    assert!(said.out.contains("locked/in.txt: it is no bundle"), "{}", said.out);
    let left = fs::read_dir(place.path("scratch")).expect("a folder").count();
    assert_eq!(left, 0, "what was unpacked is gone");
}

#[test]
fn a_deep_archive_is_left_at_its_depth_and_what_is_there_twice_is_named() {
    let place = place();
    let archive = |name: &str, paths: &[String]| {
        let mut archive = tar::Builder::new(Vec::new());
        for path in paths {
            let mut header = tar::Header::new_gnu();
            header.set_size(1);
            header.set_mode(0o644);
            archive.append_data(&mut header, path, &b"x"[..]).expect("added");
        }
        let bytes = archive.into_inner().expect("bytes");
        fs::write(place.path("all").join(name), bytes).expect("written");
    };
    archive("deep.tar", &["a/".repeat(1_900) + "x"]);
    let twice = "logs/a.txt".to_owned();
    archive("twice.tar", &[twice.clone(), twice]);
    let notes = json(&place)["notes"].to_string();
    for words in [
        "deep.tar: the archive cannot be read to its end (it has more than 32 folders",
        "twice.tar: logs/a.txt is there more than once: the last one counts",
    ] {
        assert!(notes.contains(words), "{words}: {notes}");
    }
}

#[test]
fn a_list_of_paths_may_have_names_of_any_bytes() {
    let place = place();
    let name = OsStr::from_bytes(b"all/good\xff.jsonl");
    fs::rename(place.path("all/good.jsonl"), place.path("").join(name)).expect("renamed");
    let deep = place.path("deep/a/b");
    fs::create_dir_all(&deep).expect("made");
    fs::copy(place.path("").join(name), deep.join("c.jsonl")).expect("copied");
    let said = say(&mut place.fizeau(["fleet", "survey", "deep/**/*.jsonl"]));
    assert!(said.out.contains("240 GPUs"), "{}", said.err);
    fs::write(place.path("list"), b"all/good\xff.jsonl\r\n\nnowhere\n").expect("written");
    let list = fs::File::open(place.path("list")).expect("a list");
    let said = say(place.fizeau(["fleet", "survey", "-"]).stdin(list));
    assert!(matches!(said.code, Some(0 | 4)), "{:?} {}", said.code, said.err);
    assert!(said.out.contains("240 GPUs") && said.out.contains("nowhere: "), "{}", said.out);
}

#[test]
fn what_leaves_nothing_to_judge_is_said() {
    let place = place();
    let args = ["fleet", "survey", "all/good.jsonl", "--since", "2199-01-01"];
    let said = say(&mut place.fizeau(args));
    assert_eq!(said.code, Some(4), "{}", said.err);
    let words = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("no device was judged"), "{words}");
    assert!(words.contains("at --since and --until"), "{words}");
}

#[test]
fn many_days_are_collected_with_few_files_open_and_by_two_at_once() {
    let place = Place::new();
    for day in 0..90 {
        let folder = place.path(&format!("all/{day}"));
        fs::create_dir_all(&folder).expect("made");
        let date = format!("2026-{:02}-{:02}T", 1 + day / 28, 1 + day % 28);
        let run = format!("\"run\":\"{day:04}");
        let record = RECORD.replace("2026-03-01T", &date).replace("\"run\":\"", &run);
        fs::write(folder.join("record.jsonl"), record).expect("written");
    }
    let collect = || {
        let mut shell = Command::new("sh");
        let words = format!(
            "ulimit -n 64; exec {} fleet collect all --store store --json",
            env!("CARGO_BIN_EXE_fizeau")
        );
        shell.args(["-c", &words]).current_dir(place.path(""));
        shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
    };
    let both = [collect(), collect()];
    let mut sessions = 0;
    for one in both {
        let said = crate::program::said(one.wait_with_output().expect("it ends"));
        assert_eq!(said.code, Some(0), "{}", said.err);
        let report: Value = serde_json::from_str(&said.out).expect("JSON");
        sessions += report["sessions"].as_u64().expect("a number");
    }
    assert_eq!(sessions, 90, "none is added twice");
    assert_eq!(fs::read_dir(place.path("store")).expect("days").count(), 90);
}

#[test]
fn no_device_is_replaced_by_a_table() {
    let place = place();
    // Of its own, so that nothing of the machine is at stake. Only root may make a device.
    let makes = [("pipe", "mkfifo pipe"), ("null", "mknod null c 1 3")];
    for (name, make) in makes {
        let made = Command::new("sh").args(["-c", make]).current_dir(place.path("")).output();
        if !made.expect("a shell").status.success() {
            assert_eq!(name, "null", "anybody may make a FIFO");
            continue;
        }
        let kind = |name: &str| fs::symlink_metadata(place.path(name)).expect("there").file_type();
        let before = kind(name);
        symlink(name, place.path("link")).expect("a link");
        for target in [name, "link"] {
            let said = survey(&place, &["--csv", target]);
            assert_eq!(said.code, Some(3), "{}", said.out);
            let words = format!("{target}: it is a ");
            assert!(said.err.contains(&words), "{}", said.err);
            assert!(said.err.contains(" and not a plain file"), "{}", said.err);
        }
        assert!(kind(name) == before && kind("link").is_symlink());
        fs::remove_file(place.path("link")).expect("removed");
    }
}

#[test]
fn a_list_that_cannot_be_read_ends_a_survey() {
    let place = place();
    fs::write(place.path("bytes"), b"node,rack\n\xff,r1\n").expect("written");
    for option in ["--labels", "--expected"] {
        for path in ["nowhere", "all", "bytes"] {
            let said = survey(&place, &[option, path]);
            let code = if path == "nowhere" { 3 } else { 2 };
            assert_eq!(said.code, Some(code), "{option} {path}: {}", said.err);
            assert!(said.err.contains(&format!("{option} {path}: ")), "{}", said.err);
        }
    }
}
