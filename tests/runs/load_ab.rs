//! `fizeau load ab` as a program, on servers in processes of their own.

use crate::{
    load_send::{Server, rows},
    program::{Place, Said, ignoring_nothing, said, say},
};
use fizeau_projection::load::{Ending, Row};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{fs, thread, time::Duration};

/// What all trials here are sent. One in a thousand trials of equal sides may name a winner.
const SHORT: [&str; 12] = [
    "--isl",
    "40",
    "--osl",
    "8",
    "--out",
    "out",
    "--cool-down",
    "20ms",
    "--warmup",
    "2",
    "--error-rate",
    "0.1%",
];

/// What was found of each metric.
fn found(place: &Place) -> Vec<(String, String)> {
    let text = fs::read_to_string(place.path("out/report.json")).expect("a report");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let rows = report["tables"]["verdicts"].as_array().expect("verdicts").clone();
    let word = |row: &Value, key: &str| match &row[key] {
        Value::String(text) => text.clone(),
        other => other["value"].as_str().unwrap_or_default().to_owned(),
    };
    rows.iter().map(|row| (word(row, "metric"), word(row, "found"))).collect()
}

/// What was asked in a run, in order: moment, lengths and prompt.
fn asked(rows: &[Row]) -> Vec<(f64, u32, u32, Option<String>)> {
    let one = |row: &Row| (row.scheduled, row.asked_input, row.asked_output, row.prompt.clone());
    rows.iter().map(one).collect()
}

/// What it printed, without its line breaks.
fn shown(told: &Said) -> String {
    told.out.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_server_beside_itself_is_no_winner() {
    let place = Place::new();
    let server = Server::start(&place, &["--slots", "8", "--service", "token=1ms"]);
    let args = ["load", "ab", &server.url, &server.url, "--rate", "80", "--requests", "16"];
    let args = [&args[..], &["--keep-prompts", "--slo", "e2el=5s"]].concat();
    let told = say(&mut place.fizeau(args.iter().chain(&SHORT))).ended(0);
    let found = found(&place);
    assert_eq!(found.len(), 6, "P99 takes 100 requests: {found:?}");
    assert!(found.iter().all(|(_, found)| found == "no difference"), "{found:?}\n{}", told.out);
    assert!(shown(&told).contains("No difference between A and B is shown"), "{}", told.out);
    assert!(shown(&told).contains("A and B are the same: whatever is found is a wrong finding"));
    let mut prompts = Vec::new();
    for round in 1..=6 {
        let [a, b] = ["a", "b"].map(|side| {
            let (rows, stop) = rows(&place, &format!("out/{side}{round}"));
            assert!(stop.is_some_and(|stop| !stop.interrupted), "{side}{round}");
            assert!(rows.iter().all(|row| row.ending == Ending::Answered));
            asked(&rows)
        });
        assert_eq!(a.len(), 18);
        // One server has the words of A in its prefix cache: those of B are others.
        for (a, b) in a.iter().zip(&b) {
            assert_eq!((a.0, a.1, a.2), (b.0, b.1, b.2), "the same load");
        }
        prompts.extend(a.into_iter().chain(b).filter_map(|one| one.3));
    }
    let all = prompts.len();
    prompts.sort();
    prompts.dedup();
    assert_eq!((all, prompts.len()), (6 * 2 * 18, all), "no prompt comes twice");
    // Which side was first, by the order of the files.
    let text = fs::read_to_string(place.path("out/rounds.csv")).expect("CSV");
    let order: String = text.lines().skip(1).filter_map(|line| line.split(',').nth(1)).collect();
    assert_eq!(order, "ABBAABBAABBA");
    assert!(fs::read_to_string(place.path("out/report.html")).expect("a page").contains("<svg"));
    assert!(fs::read_to_string(place.path("out/verdicts.csv")).expect("CSV").contains("TPOT P50"));
    // The same directory is never written over.
    let told = say(&mut place.fizeau(args.iter().chain(&SHORT))).ended(3);
    assert!(told.err.contains("is of another trial"), "{}", told.err);
}

#[test]
fn a_slower_server_is_named() {
    let place = Place::new();
    let a = Server::start(&place, &["--slots", "4", "--service", "token=1ms"]);
    let b = Server::start(&place, &["--slots", "4", "--service", "token=8ms"]);
    let args = ["load", "ab", &a.url, &b.url, "--concurrency", "2", "--requests", "12"];
    let args = [&args[..], &["--rounds", "5", "--set-b", "temperature=0.5"]].concat();
    let args = [&args[..], &["--keep-prompts"]].concat();
    let told = say(&mut place.fizeau(args.iter().chain(&SHORT))).ended(0);
    let found = found(&place);
    let of = |name: &str| found.iter().find(|(metric, _)| metric == name).map(|one| one.1.as_str());
    assert_eq!(of("TPOT P50"), Some("worse"), "{}", told.out);
    assert_eq!(of("share answered"), Some("no difference"), "{}", told.out);
    assert!(
        shown(&told).contains("B is worse in") && shown(&told).contains("% slower ("),
        "{}",
        told.out
    );
    assert!(shown(&told).contains("temperature=0.5"), "what B has of its own: {}", told.out);
    let sides = format!("A: {}/v1/completions, model known. B: {}", a.url, b.url);
    assert!(shown(&told).contains(&sides), "{}", told.out);
    for round in 1..=5 {
        let of = |side| asked(&rows(&place, &format!("out/{side}{round}")).0);
        let words = |side| of(side).into_iter().map(|one| one.3).collect::<Vec<_>>();
        assert_eq!(words("a"), words("b"), "two servers are sent the very same prompts");
        assert_eq!(words("a").len(), 14);
    }
}

#[test]
fn an_end_that_is_asked_for_reports_the_complete_rounds() {
    let place = Place::new();
    let server = Server::start(&place, &["--slots", "16", "--service", "fixed=20ms"]);
    let args = ["load", "ab", &server.url, &server.url, "--rate", "40", "--requests", "20"];
    let load = place.fizeau(args.iter().chain(&SHORT));
    let load = ignoring_nothing(&load).spawn().expect("it starts");
    let file = place.path("out/b2/requests.jsonl");
    while !fs::read_to_string(&file).is_ok_and(|text| text.lines().count() > 4) {
        thread::sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_raw(load.id() as i32).expect("a process"), Signal::INT).expect("sent");
    let told = said(load.wait_with_output().expect("it ends")).ended(130);
    assert!(shown(&told).contains("Nothing is judged: 1 round complete"), "{}", told.out);
    assert!(shown(&told).contains("round 2, B: it was interrupted"), "{}", told.out);
    let (rows, stop) = rows(&place, "out/b2");
    assert!(stop.is_some_and(|stop| stop.interrupted));
    assert!(rows.iter().all(|row| row.ending == Ending::Answered), "those under way ended well");
    assert!(place.path("out/report.html").exists() && !place.path("out/a2").exists());
}

#[test]
fn a_side_that_answers_nothing_is_no_verdict() {
    let place = Place::new();
    let a = Server::start(&place, &["--slots", "4"]);
    let b = Server::start(&place, &["--slots", "4", "--fault", "500/1"]);
    let args = ["load", "ab", &a.url, &b.url, "--concurrency", "4", "--requests", "8"];
    let told = say(&mut place.fizeau(args.iter().chain(&SHORT))).ended(1);
    for words in ["Nothing is judged", "round 6, B: none of 8 requests was answered", "status 5xx"]
    {
        assert!(shown(&told).contains(words), "{words}: {}", told.out);
    }
}

#[test]
fn trials_that_mean_nothing_are_refused() {
    let place = Place::new();
    let url = "http://127.0.0.1:9";
    for (args, code, words) in [
        (&[url][..], 2, "URL_B"),
        (&[url, url], 2, "--rate R (open loop)"),
        (&[url, url, "--rate", "4", "--rounds", "4"], 2, "5 at least"),
        (&[url, url, "--rate", "4,8"], 2, "at one level of load"),
        (&[url, "b:80", "--rate", "4"], 2, "a URL begins with http://"),
        (&[url, url, "--rate", "4", "--set-b", "max_tokens=4"], 2, "--length-field decide"),
        (&[url, url, "--rate", "4", "--least-effect", "2"], 2, "--least-effect"),
        (&[url, url, "--rate", "4", "--ready", "300ms"], 3, "is not ready after"),
    ] {
        let told = say(&mut place.fizeau(["load", "ab"].iter().chain(args)));
        assert_eq!(told.code, Some(code), "{args:?}: {}", told.err);
        assert!(told.err.contains(words), "{args:?}: {}", told.err);
    }
    let plan = ["load", "ab", url, url, "--rate", "4", "--plan", "--model-b", "other"];
    let told = say(&mut place.fizeau(plan)).clean();
    for words in
        ["6 rounds of A and B", "model other", "nothing was sent", "about 15 min 25 s in all"]
    {
        assert!(shown(&told).contains(words), "{words}: {}", told.out);
    }
}
