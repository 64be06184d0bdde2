//! `fizeau localise` on stub GPUs: slow ranks are named, and the rates that were kept are judged
//! again.

use crate::{gpus::Machine, program::say};
use fizeau_judge::localise::plan;
use std::fs;

#[test]
fn a_slow_rank_is_localised_and_its_rates_are_judged_again() {
    let machine = Machine::new();
    let out = tempfile::tempdir().expect("a directory");
    let kept = out.path().join("rates");
    let kept = kept.to_str().expect("UTF-8");
    let args = ["localise", "--ranks", "8", "--size", "64KiB", "--out", kept];
    let said = say(&mut machine.fizeau("devices=8", "5:slow=8", &args)).ended(1);
    let lines: Vec<&str> = said.out.lines().collect();
    assert_eq!(lines.len(), 1, "{}", said.out);
    let named = lines[0].starts_with("rank 5: ") && lines[0].contains("(stub GPU): ");
    assert!(named && lines[0].contains("at stub of the healthy rate"), "{}", said.out);
    // What is planned is said before.
    assert!(said.err.contains("8 ranks, 4 rounds of 64 KiB planned"), "{}", said.err);
    assert!(said.err.contains("round 1: ") && said.err.contains("round 4: "), "{}", said.err);
    let csv = format!("{kept}/exchanges.csv");
    let lines = fs::read_to_string(&csv).expect("the rates are kept");
    assert!(lines.lines().skip(1).all(|line| line.ends_with(",stub")), "{lines}");
    for from in [kept, &format!("{kept}/exchanges.json"), &csv] {
        let again = say(&mut machine.fizeau("", "", &["localise", "--from", from]));
        assert_eq!((again.code, &again.out), (said.code, &said.out), "{}", again.err);
    }
    say(&mut machine.fizeau("", "", &["localise", "--device", "host"])).ended(2);
}

#[test]
fn where_no_rank_is_slow_nobody_is_named() {
    let machine = Machine::new();
    let out = tempfile::tempdir().expect("a directory");
    let out = out.path().to_str().expect("UTF-8");
    let args = ["localise", "--ranks", "4", "--size", "1MiB", "--out", out];
    let said = say(&mut machine.fizeau("devices=4", "", &args)).ended(0);
    assert!(said.out.contains("4 ranks, 4 rounds of 1 MiB: nobody is slow"), "{}", said.out);
}

#[test]
fn ranks_too_few_to_tell_are_an_exit_code_of_their_own() {
    let machine = Machine::new();
    let directory = tempfile::tempdir().expect("a directory");
    let out = |ranks: &str| directory.path().join(ranks).to_str().expect("UTF-8").to_owned();
    // There is nothing to keep of one rank.
    for ranks in ["1", "2"] {
        let out = out(ranks);
        let args = ["localise", "--ranks", ranks, "--size", "64KiB", "--out", &out];
        let said = say(&mut machine.fizeau("devices=2", "", &args)).ended(4);
        assert!(said.out.contains("who is slow cannot be told: "), "{}", said.out);
    }
    let args = "localise --ranks 4 --rounds 3 --size 64KiB --json --out";
    let out = out("4");
    let args: Vec<&str> = args.split(' ').chain([out.as_str()]).collect();
    let measure = || say(&mut machine.fizeau("devices=4", "2:slow=8", &args));
    let said = measure();
    assert_eq!(said.code, Some(1), "{} {}", said.out, said.err);
    let found: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(found["suspects"][0]["rank"], 2, "{found}");
    assert_eq!(found["suspects"].as_array().map(Vec::len), Some(1), "{found}");
    let again = measure();
    assert!(again.code == Some(2) && again.err.contains("has rates already"), "{}", again.err);
}

#[test]
fn rates_of_another_program_are_judged_too() {
    let machine = Machine::new();
    let out = tempfile::tempdir().expect("a directory");
    let file = out.path().join("pairs.csv");
    let from = file.to_str().expect("UTF-8").to_owned();
    let judge = |text: &str, more: &[&str]| {
        fs::write(&file, text).expect("written");
        say(&mut machine.fizeau("", "", &[&["localise", "--from", &from], more].concat()))
    };
    // All pairs of six, of which rank 4 is slow with each.
    let mut text = "rank_a,rank_b,bytes_per_second\n".to_owned();
    for a in 0..6u32 {
        for b in a + 1..6 {
            let rate =
                if a == 4 || b == 4 { 2.0e9 } else { 4.0e9 + f64::from(a * 7 % 5 + b) * 1e7 };
            text += &format!("{a},{b},{rate}\n");
        }
    }
    let said = judge(&text, &[]);
    assert_eq!(said.code, Some(1), "{} {}", said.out, said.err);
    assert!(said.out.starts_with("rank 4: 5 of 5 exchanges slow, at "), "{}", said.out);
    let healthy = text.replace(",2000000000\n", ",4010000000\n");
    let said = judge(&healthy, &["--loss", "30%", "--presence", "25%"]);
    assert_eq!(said.code, Some(0), "{} {}", said.out, said.err);
    assert!(said.out.contains("nobody is slow; a rank slower by "), "{}", said.out);
    assert!(said.out.contains("a rank slower by 30 % in 25 % of its exchanges"), "{}", said.out);
    // What was slow and nobody is named for is said, in words as in JSON.
    let once = healthy.replacen("0,1,", "0,1,0.5e9\n0,2,4.0e9\n0,3,4.0e9\n1,2,4.0e9\n0,1,", 1);
    let said = judge(&once, &[]);
    assert!(said.out.contains("nothing named explains it: 0-1; congestion does"), "{}", said.out);
    let said = judge(&once, &["--json"]);
    assert!(said.out.contains("\"unexplained\": [\n    [\n      0,\n      1"), "{}", said.out);
    // Four of six are slow: what stands out are the exchanges of the other two.
    let most = (0..4).map(|_| "4,5,8e9\n").collect::<String>();
    let said = judge(&healthy.replace("4,5,4010000000\n", &most), &[]);
    assert_eq!(said.code, Some(4), "{} {}", said.out, said.err);
    assert!(said.out.contains("ranks 4, 5 are faster with each other"), "{}", said.out);
    // One round, with its number and without: each rank met one partner.
    for columns in ["round,rank_a,rank_b,bytes_per_second\n", "rank_a,rank_b,bytes_per_second\n"] {
        let round = if columns.starts_with("round") { "0," } else { "" };
        let rates = ["0,5,4e9", "1,4,2e9", "2,3,4.2e9"].map(|line| format!("{round}{line}\n"));
        let said = judge(&format!("{columns}{}", rates.concat()), &[]);
        assert_eq!(said.code, Some(4), "{} {}", said.out, said.err);
        let words = ["who is slow cannot be told: ", " rounds would show a rank that is slower"];
        assert!(words.iter().all(|words| said.out.contains(words)), "{}", said.out);
    }
    let said = judge("0,1,5\n", &[]);
    assert_eq!(said.code, Some(3), "{}", said.err);
    assert!(said.err.contains("pairs.csv: there is no column rank_a"), "{}", said.err);
    let said = judge(&healthy, &["--rounds", "3"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    let said = judge(&healthy, &["--loss", "0"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
}

#[test]
fn labels_name_the_leaf_in_the_place_of_its_nodes() {
    let machine = Machine::new();
    let place = tempfile::tempdir().expect("a directory");
    let file = |name: &str| place.path().join(name).to_str().expect("UTF-8").to_owned();
    // 12 nodes: what leaves the third leaf of three nodes each is slow.
    let mut rates = "round,rank_a,host_a,rank_b,host_b,bytes_per_second\n".to_owned();
    for round in 0..11u32 {
        for (one, other) in plan::round(12, round) {
            let is_slow = (one / 3 == 2) != (other / 3 == 2);
            let rate =
                if is_slow { 3e10 } else { 5e10 } + f64::from(one * 7 + other * 5 + round) * 1e7;
            rates += &format!("{round},{one},n{one},{other},n{other},{rate}\n");
        }
    }
    fs::write(file("rates.csv"), rates).expect("written");
    let labels = (0..12).map(|node| format!("n{node},l{},r{}\n", node / 3, node / 6));
    fs::write(file("labels.csv"), format!("node,leaf,rack\n{}", labels.collect::<String>()))
        .expect("written");
    let (rates, labels) = (file("rates.csv"), file("labels.csv"));
    let judged = |more: &[&str]| {
        let args = [&["localise", "--from", &rates, "--labels", &labels][..], more].concat();
        say(&mut machine.fizeau("", "", &args))
    };
    let said = judged(&[]);
    assert_eq!(said.code, Some(1), "{} {}", said.out, said.err);
    let named = said.out.starts_with("leaf l2: 3 of its 3 ranks are slow with others, at 6");
    assert!(named && said.out.lines().count() == 1, "{}", said.out);
    let json: serde_json::Value = serde_json::from_str(&judged(&["--json"]).out).expect("JSON");
    assert_eq!(json["groups"][0]["component"], serde_json::json!(["leaf", "l2"]));
    // A file of other nodes, one that is none, and a kind that is not in it.
    for (text, words) in [
        ("node,leaf\nm1,l1\n", "has no line of n0 or of any other host"),
        ("name,leaf\nn1,l1\n", "there is no column `node`"),
    ] {
        fs::write(&labels, text).expect("written");
        let said = judged(&[]);
        assert!(said.code == Some(3) || said.code == Some(2), "{} {}", said.out, said.err);
        assert!(said.err.contains(words), "{}", said.err);
    }
}

#[test]
fn rounds_keep_leaves_apart_and_the_rates_keep_their_labels() {
    let machine = Machine::new();
    let place = tempfile::tempdir().expect("a directory");
    let file = |name: &str| place.path().join(name).to_str().expect("UTF-8").to_owned();
    let (labels, out) = (file("labels.csv"), file("out"));
    // Ranks of one node: devices have labels of their own.
    let host = say(std::process::Command::new("hostname").env_clear()).out.trim().to_owned();
    let lines = (0..8).map(|gpu| format!("{host},{gpu},s{}\n", gpu / 4)).collect::<String>();
    fs::write(&labels, format!("node,device,switch\n{lines}")).expect("written");
    let args = "localise --ranks 8 --rounds 2 --size 64KiB --apart switch";
    let mut args: Vec<&str> = args.split(' ').collect();
    args.extend(["--labels", &labels, "--out", &out]);
    let said = say(&mut machine.fizeau("devices=8", "", &args));
    assert!(
        said.err.contains("one exchange at most leaves each switch"),
        "{} {}",
        said.out,
        said.err
    );
    let kept = fs::read_to_string(format!("{out}/exchanges.csv")).expect("the rates");
    assert!(kept.lines().skip(1).all(|line| line.contains("switch=s")), "{kept}");
    args[8] = "rack";
    let other = file("other");
    args[12] = &other;
    let said = say(&mut machine.fizeau("devices=8", "", &args));
    assert!(said.err.contains("names no rack of these ranks"), "{} {}", said.out, said.err);
}
