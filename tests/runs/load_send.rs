//! `fizeau load URL` as a program, on servers in processes of their own: what is sent, kept, and
//! said of each fault.

use crate::program::{Place, Said, ignoring_nothing, said, say};
use fizeau_projection::load::{Ending, Line, Row, Stop};
use rustix::process::{Pid, Signal, kill_process};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    process::{Child, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

/// A server with known laws, in a process of its own.
pub struct Server {
    child: Child,
    pub url: String,
}

impl Server {
    pub fn start(place: &Place, args: &[&str]) -> Server {
        let mut command = place.fizeau(["load", "serve"].iter().chain(args));
        command.env("FIZEAU_API_KEY", KEY).stderr(Stdio::null());
        let mut child = command.spawn().expect("the server starts");
        let mut url = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut url).expect("an address");
        Server { child, url: url.trim().to_owned() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A secret that no other text holds.
const KEY: &str = "sk-planted-7f31c0";

/// One in a header, and one in a query.
const HEADER: &str = "hd-planted-5b2e91";
const QUERY: &str = "qu-planted-c47d08";

const SHORT: [&str; 6] = ["--isl", "40", "--osl", "8", "--out", "out"];

fn load(place: &Place, url: &str, args: &[&str]) -> Said {
    say(&mut place.fizeau(["load", url].iter().chain(&SHORT).chain(args)))
}

/// The rows of a run by level and number, and its last line.
pub fn rows(place: &Place, out: &str) -> (Vec<Row>, Option<Stop>) {
    let text = fs::read_to_string(place.path(out).join("requests.jsonl")).expect("rows");
    let whole = &text[..text.rfind('\n').map_or(0, |at| at + 1)];
    let (mut rows, mut stop) = (Vec::new(), None);
    for line in whole.lines() {
        match serde_json::from_str(line).expect("a line") {
            Line::Load(header) => assert_eq!(header.version, 1),
            Line::Request(row) => rows.push(row),
            Line::End(end) => stop = Some(end),
            Line::Level(_) | Line::Server(_) => {}
        }
    }
    rows.sort_by_key(|row: &Row| (row.level, row.number));
    (rows, stop)
}

fn counts(rows: &[Row]) -> BTreeMap<Ending, usize> {
    let mut counts = BTreeMap::new();
    rows.iter().for_each(|row| *counts.entry(row.ending).or_insert(0) += 1);
    counts
}

#[test]
fn open_and_closed_loops_are_sent_counted_and_reported() {
    let place = Place::new();
    let server = Server::start(&place, &["--slots", "4", "--service", "token=1ms"]);
    let args = ["--rate", "40,80", "--duration", "500ms", "--warmup", "5", "--progress", "plain"];
    let told = load(&place, &server.url, &args);
    assert_eq!(told.code, Some(0), "{}", told.err);
    assert!(told.err.contains("level 2: open loop, 80 requests/s, Poisson; 40"), "{}", told.err);
    assert!(told.out.contains("80 requests/s, open loop"), "{}", told.out);
    let shown = told.out.lines().count();
    assert!(shown <= 17 && !told.out.contains("Quantiles"), "one screen: {}", told.out);
    let page = fs::read_to_string(place.path("out/report.html")).expect("a page");
    assert!(page.contains("Quantiles") && page.contains("TTFT P50"), "the page has all");
    let (all, stop) = rows(&place, "out");
    assert_eq!(counts(&all), [(Ending::Answered, 25 + 45)].into());
    assert_eq!(all.iter().filter(|row| row.is_warmup).count(), 10);
    assert!(stop.is_some_and(|stop| !stop.interrupted && stop.cpu_seconds > 0.0));
    for row in &all {
        assert_eq!((row.asked_input, row.input), (40, Some(40)), "prompts are counted exactly");
        assert_eq!((row.output, row.chunks, row.gaps.len()), (Some(8), 8, 7));
        assert!(row.sent >= row.scheduled && row.first > row.headers, "{row:?}");
        let (first, last) = (row.first.expect("a token"), row.last.expect("a token"));
        assert!(row.ended >= last && last >= first, "{row:?}");
        assert!(last - row.sent > 0.008, "eight tokens of 1 ms each: {row:?}");
        assert_eq!((row.prompt.as_deref(), row.answer.as_deref()), (None, None));
    }
    assert!(fs::read_to_string(place.path("out/report.html")).expect("a page").contains("<svg"));
    // The same directory is never written over.
    let again = load(&place, &server.url, &args);
    assert_eq!(again.code, Some(3), "{}", again.err);

    let chat = Server::start(&place, &["--slots", "4", "--tokenize", "llama-cpp", "--chunk", "3"]);
    let args = ["--concurrency", "1,3", "--requests", "12", "--warmup", "2", "--endpoint", "chat"];
    let args = [&args[..], &["--out", "chat", "--json"]].concat();
    let report = say(&mut place.fizeau(["load", &chat.url].iter().chain(&SHORT[..4]).chain(&args)))
        .ended(0)
        .json();
    assert!(report.to_string().contains("3 at once, closed loop"), "{report}");
    let (all, _) = rows(&place, "chat");
    assert_eq!(counts(&all), [(Ending::Answered, 28)].into());
    assert!(all.iter().all(|row| row.input == Some(40) && row.is_chunked() && row.chunks == 3));
    let most = |level: usize| {
        let of = || all.iter().filter(move |row| row.level == level);
        of().map(|row| of().filter(|other| (other.sent..other.ended).contains(&row.sent)).count())
            .max()
    };
    assert_eq!((most(0), most(1)), (Some(1), Some(3)));
}

#[test]
fn the_highest_rate_is_searched_and_a_plan_is_made() {
    let place = Place::new();
    // Two slots of 40 ms: 50 requests a second at most.
    let server = Server::start(&place, &["--slots", "2", "--service", "fixed=40ms"]);
    let args = ["--rate", "10..320", "--requests", "60", "--warmup", "0", "--search", "1"];
    let slo = ["--slo", "e2el=150ms", "--slo-share", "90%", "--target", "200", "--gpus", "4"];
    let arrivals = ["--arrivals", "constant", "--metrics-every", "100ms"];
    let told = load(&place, &server.url, &[&args[..], &slo, &arrivals].concat());
    assert_eq!(told.code, Some(0), "{}", told.err);
    let words = told.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = fs::read_to_string(place.path("out/requests.jsonl")).expect("rows");
    let lines: Vec<Line> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line")).collect();
    let added: Vec<f64> = lines
        .iter()
        .filter_map(|line| if let Line::Level(plan) = line { plan.rate } else { None })
        .collect();
    assert_eq!(added.len(), 1, "one level between the last that kept and the first that missed");
    let levels = lines.iter().filter_map(|line| match line {
        Line::Request(row) => Some(row.level),
        _ => None,
    });
    let levels: std::collections::BTreeSet<usize> = levels.collect();
    assert!(!levels.contains(&5), "320 a second was never sent: {levels:?}");
    let waiting = lines.iter().filter_map(|line| match line {
        Line::Server(sample) => sample.waiting,
        _ => None,
    });
    assert!(waiting.fold(0.0, f64::max) > 1.0, "the server's own view of its queue");
    assert!(words.contains("Highest rate that keeps the limits:"), "{words}");
    assert!(words.contains("200 requests/s take"), "{words}");
    let vllm = ["load", "report", "out/requests.jsonl", "--format", "vllm", "--out", "vllm.json"];
    say(&mut place.fizeau(vllm)).ended(0);
    say(&mut place.fizeau(["load", "report", "vllm.json", "--json"])).ended(0);
    // No level keeps a limit that the service itself exceeds.
    let report = ["load", "report", "out/requests.jsonl", "--slo", "e2el=20ms", "--target", "9"];
    let told = say(&mut place.fizeau(report));
    assert!(told.out.contains("cannot be met"), "{}", told.out);
    let wrong = ["load", &server.url, "--rate", "8..2"];
    let told = say(&mut place.fizeau(wrong));
    assert!(told.code == Some(2) && told.err.contains("write the smaller one first"));
}

#[test]
fn a_closed_loop_ends_by_its_time_and_a_trace_by_its_end() {
    let place = Place::new();
    let server = Server::start(&place, &["--service", "fixed=20ms", "--tokenize", "none"]);
    // The warm-up takes longer than what is measured, and no time from it.
    let args = ["--concurrency", "1", "--duration", "400ms", "--warmup", "25"];
    let told = load(&place, &server.url, &args);
    assert_eq!(told.code, Some(0), "{}", told.err);
    let words = told.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("of as many words as tokens"), "{words}");
    assert!(!words.contains("ended before the others did"), "its time was over: {words}");
    let count = rows(&place, "out").0.iter().filter(|row| !row.is_warmup).count();
    assert!((5..=20).contains(&count), "{count}");
    let trace: String = (0..12)
        .map(|at| {
            let (moment, input, output) = (1_000 + at * 20, 30 + at, 2 + at % 3);
            format!(
                "{{\"timestamp\":{moment},\"input_length\":{input},\"output_length\":{output}}}\n"
            )
        })
        .collect();
    fs::write(place.path("trace.jsonl"), trace).expect("written");
    let args = ["load", &server.url, "--trace", "trace.jsonl", "--warmup", "2", "--out", "traced"];
    say(&mut place.fizeau(args)).ended(0);
    let (all, _) = rows(&place, "traced");
    let lengths: Vec<(u32, u32)> =
        all.iter().map(|row| (row.asked_input, row.asked_output)).collect();
    let wanted: Vec<(u32, u32)> = (0..12).map(|at| (30 + at, 2 + at % 3)).collect();
    assert_eq!(lengths, wanted);
    assert!((all[11].scheduled - 0.22).abs() < 1e-9, "{:?}", all[11]);
}

#[test]
fn each_fault_is_counted_under_its_name_and_hangs_nothing() {
    let place = Place::new();
    let faults = [
        ("429", Ending::TooMany),
        ("400", Ending::ClientError),
        ("500", Ending::ServerError),
        ("302", Ending::OtherStatus),
        ("close", Ending::Closed),
        ("cut", Ending::Cut),
        ("stall", Ending::Stalled),
        ("slow-headers", Ending::SlowHeaders),
        ("no-first-token", Ending::NoFirstToken),
        ("wrong-json", Ending::Malformed),
        ("not-http", Ending::Malformed),
        ("no-stream", Ending::Malformed),
        ("stream-error", Ending::StreamError),
        ("empty", Ending::Empty),
        ("huge-chunk", Ending::TooLong),
        ("big-chunk", Ending::Answered),
    ];
    let args: Vec<String> = faults
        .iter()
        .enumerate()
        .map(|(at, (kind, _))| format!("--fault={kind}@{}", 2 * at))
        .collect();
    let mut args: Vec<&str> = args.iter().map(String::as_str).collect();
    // Every stream is cut into pieces at any byte, too.
    args.extend(["--slots", "16", "--service", "token=1ms", "--piece", "7"]);
    let server = Server::start(&place, &args);
    let args = ["--concurrency", "8", "--requests", "40", "--warmup", "0"];
    let more = ["--deadlines", "silence=300ms", "--max-failed", "100%"];
    let told = load(&place, &server.url, &[&args[..], &more].concat());
    assert_eq!(told.code, Some(0), "{}", told.err);
    let (all, _) = rows(&place, "out");
    assert_eq!(all.len(), 40);
    for row in &all {
        let number = row.number as usize;
        let wanted = match number % 2 {
            0 => faults.get(number / 2).map_or(Ending::Answered, |(_, ending)| *ending),
            _ => Ending::Answered,
        };
        assert_eq!(row.ending, wanted, "{row:?}");
        assert!(row.ended - row.sent < 3.0, "{row:?}");
    }
    assert_eq!((all[0].status, all[0].retry_after), (Some(429), Some(2.0)));
    assert_eq!((all[4].status, all[6].status), (Some(500), Some(302)));
    // None of them is in the latencies, and each stands in the report.
    let value = say(&mut place.fizeau(["load", "report", "out/requests.jsonl", "--json"])).out;
    let value: serde_json::Value = serde_json::from_str(&value).expect("JSON");
    let text = value.to_string();
    for (_, ending) in &faults {
        assert!(text.contains(ending.name()) || *ending == Ending::Answered, "{}", ending.name());
    }
    assert!(told.err.contains("planted") && told.err.contains("429 too many requests"));
}

#[test]
fn a_server_that_is_killed_and_restarted_is_met_again() {
    let place = Place::new();
    let port = TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr()).expect("a port");
    let (port, laws) = (port.port().to_string(), ["--slots", "8", "--service", "fixed=30ms"]);
    let args = [&laws[..], &["--port", &port]].concat();
    let server = Server::start(&place, &args);
    let mut load = place.fizeau(["load", &server.url].iter().chain(&SHORT));
    load.args(["--rate", "60", "--duration", "2s", "--warmup", "0", "--max-failed", "100%"]);
    let load = load.spawn().expect("it starts");
    let file = place.path("out/requests.jsonl");
    while !fs::read_to_string(&file).is_ok_and(|text| text.lines().count() > 20) {
        thread::sleep(Duration::from_millis(20));
    }
    drop(server);
    thread::sleep(Duration::from_millis(400));
    let _server = Server::start(&place, &args);
    said(load.wait_with_output().expect("it ends")).ended(0);
    let (all, _) = rows(&place, "out");
    let counts = counts(&all);
    assert_eq!(counts.values().sum::<usize>(), 120, "{counts:?}");
    assert!(counts[&Ending::Refused] > 5 && counts[&Ending::Answered] > 40, "{counts:?}");
    let last = all.iter().rev().take(5);
    assert!(last.clone().all(|row| row.ending == Ending::Answered), "{:?}", all.last());
    let others = |ending: &Ending| {
        matches!(ending, Ending::Refused | Ending::Answered | Ending::Cut | Ending::Closed)
    };
    assert!(counts.keys().all(others), "{counts:?}");
}

/// A load of 40 requests a second that is stopped for 1.5 s when some have ended.
fn stopped_for_a_while(place: &Place, url: &str, args: &[&str]) -> Said {
    let mut load = place.fizeau(["load", url].iter().chain(&SHORT).chain(args));
    load.args(["--warmup", "0", "--tokenizer", "words", "--arrivals", "constant"]);
    load.stdout(Stdio::piped()).stderr(Stdio::piped());
    let load = load.spawn().expect("it starts");
    let file = place.path("out/requests.jsonl");
    while !fs::read_to_string(&file).is_ok_and(|text| text.lines().count() > 30) {
        thread::sleep(Duration::from_millis(10));
    }
    let pid = Pid::from_raw(load.id() as i32).expect("a process");
    kill_process(pid, Signal::STOP).expect("a signal");
    thread::sleep(Duration::from_millis(1500));
    kill_process(pid, Signal::CONT).expect("a signal");
    said(load.wait_with_output().expect("it ends"))
}

#[test]
fn a_client_that_was_stopped_condemns_no_server() {
    let server_of =
        |place: &Place| Server::start(place, &["--slots", "64", "--service", "token=1ms"]);
    let accusations = ["cannot be met", "No rate was found", "misses them", "pile up"];
    let slo = ["--slo", "ttft=300ms", "--target", "100"];
    let words = |told: &Said| told.out.split_whitespace().collect::<Vec<_>>().join(" ");

    let place = Place::new();
    let server = server_of(&place);
    let args = [&["--rate", "40", "--duration", "3s"][..], &slo].concat();
    let told = stopped_for_a_while(&place, &server.url, &args).ended(4);
    let report = ["load", "report", "out/requests.jsonl", "--slo", "ttft=300ms", "--target", "100"];
    let report = say(&mut place.fizeau(report)).ended(4);
    for told in [&told, &report] {
        let said = words(told);
        assert!(
            said.contains("40 requests/s, open loop: the client itself was late: it sent 1."),
            "{said}"
        );
        assert!(said.contains("This level does not judge the server"), "{said}");
        assert!(said.contains("How many servers 100 requests/s take is not known"), "{said}");
        assert!(!accusations.iter().any(|one| said.contains(one)), "{said}");
    }
    assert!(words(&report).contains("is not judged: the client was late"), "{}", report.out);

    // A search sends that rate once more, and finds what it would have found.
    let place = Place::new();
    let server = server_of(&place);
    let args = [&["--rate", "40,50", "--duration", "3s", "--search", "1"][..], &slo].concat();
    let told = stopped_for_a_while(&place, &server.url, &args).ended(0);
    let again = "the client was late at 40 requests/s: the level is sent once more";
    assert!(told.err.contains(again), "{}", told.err);
    let said = words(&told);
    assert!(said.contains("Highest rate that keeps the limits: 50 requests/s"), "{said}");
    assert!(!accusations.iter().any(|one| said.contains(one)), "{said}");
}

#[test]
fn an_end_that_is_asked_for_drains_and_reports() {
    let place = Place::new();
    let server = Server::start(&place, &["--slots", "64", "--service", "fixed=300ms"]);
    let mut load = place.fizeau(["load", &server.url].iter().chain(&SHORT));
    load.args(["--rate", "40", "--duration", "60s", "--warmup", "0", "--tokenizer", "words"]);
    let load = ignoring_nothing(&load).spawn().expect("it starts");
    let file = place.path("out/requests.jsonl");
    while !fs::read_to_string(&file).is_ok_and(|text| text.lines().count() > 8) {
        thread::sleep(Duration::from_millis(20));
    }
    let pid = Pid::from_raw(load.id() as i32).expect("a process");
    kill_process(pid, Signal::INT).expect("a signal");
    let told = said(load.wait_with_output().expect("it ends")).ended(130);
    let (all, stop) = rows(&place, "out");
    assert_eq!(stop.map(|stop| stop.interrupted), Some(true));
    assert_eq!(counts(&all), [(Ending::Answered, all.len())].into(), "those under way ended well");
    assert!(told.out.contains("under load") && told.out.contains("interrupted"), "{}", told.out);
    // Columns whose names do not say what they are have a line, and a model is named as one.
    assert!(told.out.starts_with("Model known under load"), "{}", told.out);
    let page = fs::read_to_string(place.path("out/report.html")).expect("the page");
    assert!(page.contains("goodput: requests&#x2f;s that keep"), "{page}");
    assert!(told.err.contains("waiting for those under way"), "{}", told.err);
    // Where the server does not answer them in time, they are abandoned.
    let server = Server::start(&place, &["--service", "fixed=100s"]);
    let mut load = place.fizeau(["load", &server.url, "--out", "gone", "--rate", "100"]);
    load.args(["--requests", "10", "--warmup", "0", "--tokenizer", "words"]);
    let told = say(load.args(["--deadlines", "drain=300ms,silence=500ms"]));
    assert_eq!(told.code, Some(3), "the request before the load tells it: {}", told.err);
    assert!(told.err.contains("no first token in time"), "{}", told.err);
}

#[test]
fn what_is_under_way_at_the_end_is_abandoned_in_time() {
    let place = Place::new();
    let server = Server::start(&place, &["--slots", "1", "--service", "fixed=500ms"]);
    let mut load = place.fizeau(["load", &server.url].iter().chain(&SHORT));
    load.args(["--rate", "100", "--requests", "10", "--warmup", "0", "--tokenizer", "words"]);
    let told = say(load.args(["--deadlines", "drain=700ms"])).ended(1);
    assert!(told.err.contains("of a level failed: --max-failed is 5 %"), "{}", told.err);
    let counts = counts(&rows(&place, "out").0);
    assert!(counts[&Ending::Abandoned] >= 7 && counts[&Ending::Answered] >= 1, "{counts:?}");
}

#[test]
fn a_client_that_is_killed_has_kept_what_had_ended() {
    let place = Place::new();
    let server = Server::start(&place, &["--slots", "64", "--service", "fixed=20ms"]);
    let mut load = place.fizeau(["load", &server.url].iter().chain(&SHORT));
    load.args(["--rate", "100", "--warmup", "0", "--tokenizer", "words"]);
    let mut load = load.stderr(Stdio::null()).stdout(Stdio::null()).spawn().expect("it starts");
    let file = place.path("out/requests.jsonl");
    while !fs::read_to_string(&file).is_ok_and(|text| text.lines().count() > 40) {
        thread::sleep(Duration::from_millis(20));
    }
    load.kill().expect("SIGKILL");
    load.wait().expect("it ended");
    let (all, stop) = rows(&place, "out");
    assert!(all.len() >= 30 && stop.is_none(), "{}", all.len());
    let told = say(&mut place.fizeau(["load", "report", "out/requests.jsonl"])).ended(0);
    assert!(told.out.contains("the run was killed"), "{}", told.out);
}

/// Everything that a run has written, and what it said.
fn traces(place: &Place, out: &str, told: &Said) -> String {
    let mut text = format!("{}{}", told.out, told.err);
    for entry in fs::read_dir(place.path(out)).into_iter().flatten().flatten() {
        text += &fs::read_to_string(entry.path()).expect("text");
    }
    text
}

#[test]
fn keys_and_prompts_are_nowhere_unless_they_are_asked_for() {
    let place = Place::new();
    let server = Server::start(&place, &["--ask-for-key"]);
    let run = |out: &str, key: Option<&str>, more: &[&str]| {
        let args = ["load", &server.url, "--isl", "40", "--osl", "4", "--out", out];
        let mut load = place.fizeau(args.iter().chain(more));
        load.args(["--concurrency", "2", "--requests", "6", "--warmup", "0"]);
        load.env_remove("FIZEAU_API_KEY");
        key.map(|key| load.env("FIZEAU_API_KEY", key));
        say(&mut load)
    };
    let told = run("kept", Some(KEY), &["--keep-prompts"]);
    assert_eq!(told.code, Some(0), "{}", told.err);
    assert!(!traces(&place, "kept", &told).contains(KEY));
    let (all, _) = rows(&place, "kept");
    let prompts: Vec<String> = all.iter().filter_map(|row| row.prompt.clone()).collect();
    assert!(prompts.len() == 6 && all.iter().all(|row| row.answer.is_some()));
    fs::write(place.path("key"), format!("{KEY}\n")).expect("written");
    let told = run("plain", None, &["--api-key-file", "key"]);
    assert_eq!(told.code, Some(0), "{}", told.err);
    let text = traces(&place, "plain", &told);
    assert!(!text.contains(KEY) && !text.contains(" word word"), "{text}");
    for prompt in &prompts {
        let start: Vec<&str> = prompt.split(' ').take(3).collect();
        assert!(!text.contains(&start.join(" ")), "{prompt}");
    }
    // A server that sends the key back in its answers.
    let echo = Server::start(&place, &[&format!("--text={KEY} z")]);
    let args = ["load", &echo.url, "--isl", "4", "--osl", "4", "--out", "echo"];
    let mut load = place.fizeau(args);
    load.args(["--concurrency", "1", "--requests", "2", "--warmup", "0", "--keep-prompts"]);
    let told = say(load.env("FIZEAU_API_KEY", KEY));
    assert_eq!(told.code, Some(0), "{}", told.err);
    let text = traces(&place, "echo", &told);
    assert!(!text.contains(KEY) && text.contains("[API key]"), "{text}");
    // The server quotes a wrong key in its error.
    let told = run("wrong", Some("sk-wrong-key-55"), &[]);
    assert_eq!(told.code, Some(3), "{}", told.err);
    let text = traces(&place, "wrong", &told);
    assert!(text.contains("refuses access") && !text.contains("sk-wrong-key-55"), "{text}");
    let told = run("none", Some("with a space"), &[]);
    assert_eq!(told.code, Some(2), "{}", told.err);
    assert!(!told.err.contains("with a space"), "{}", told.err);
}

#[test]
fn headers_and_queries_reach_the_server_and_nothing_else() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = thread::spawn(move || {
        let mut heard = Vec::new();
        // The question for models, the request before the load, and the load.
        for answer in 0..4 {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut reader = BufReader::new(stream.try_clone().expect("a clone"));
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).expect("a line");
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a length");
                }
                head += &line;
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            heard.push((head, String::from_utf8(body).expect("text")));
            let (kind, body) = match answer {
                0 => ("application/json", "{}".to_owned()),
                _ => {
                    let events = [
                        format!(r#"{{"status":"queued {HEADER}"}}"#),
                        r#"{"choices":[{"delta":{"content":"a"}}]}"#.to_owned(),
                        r#"{"choices":[],"usage":{"completion_tokens":1.0}}"#.to_owned(),
                        "[DONE]".to_owned(),
                    ];
                    let lines = events.map(|event| format!("data: {event}\n\n"));
                    ("text/event-stream", lines.concat())
                }
            };
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
                 Connection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).expect("sent");
        }
        heard
    });
    fs::write(place.path("key.txt"), format!("{HEADER}\n")).expect("written");
    let url = format!("http://{address}/openai/deployments/d/chat/completions?api-version={QUERY}");
    let args = ["--model", "m", "--tokenizer", "words", "--no-metrics", "--no-ignore-eos"];
    let more = ["--header", "api-key=@key.txt", "--header", "X-Tenant=blue", "--min-tokens"];
    let form = ["--length-field", "max_completion_tokens", "--set", "stream_options="];
    let asked = ["--concurrency", "1", "--requests", "2", "--warmup", "0"];
    let args = [&args[..], &more, &form, &asked].concat();
    let told = load(&place, &url, &args);
    assert_eq!(told.code, Some(0), "{}\n{}", told.out, told.err);
    let heard = server.join().expect("it ended");
    let path = format!("/openai/deployments/d/chat/completions?api-version={QUERY} HTTP");
    for (head, body) in &heard[1..] {
        assert!(head.contains(&path), "{head}");
        let head = head.to_ascii_lowercase();
        assert!(head.contains(&format!("api-key: {HEADER}")) && head.contains("x-tenant: blue"));
        assert!(body.contains("\"max_completion_tokens\":8") && body.contains("\"min_tokens\":8"));
        assert!(!body.contains("stream_options") && !body.contains("\"max_tokens\""), "{body}");
    }
    let all = traces(&place, "out", &told);
    for secret in [HEADER, QUERY, KEY] {
        assert!(!all.contains(secret), "{secret}");
    }
    assert!(all.contains("api-version=..") && told.out.contains("of no known kind"), "{all}");
    for (header, words) in [
        ("api-key=sk-1", "write its value into a file and NAME=@FILE"),
        ("host=x", "the client itself decides about host"),
        ("a b=x", "no header has"),
        ("x=@missing", "missing"),
    ] {
        let told =
            say(&mut place.fizeau(["load", &url, "--rate", "1", "--header", header, "--plan"]));
        assert!(told.err.contains(words) && !told.err.contains("sk-1"), "{header}: {}", told.err);
    }
}

#[test]
fn hostile_answers_are_harmless_in_every_format() {
    let place = Place::new();
    let hostile = [
        "--text=\u{1b}[31m\u{1b}]0;owned\u{7}",
        "--text=<script>alert(1)</script>",
        "--text==cmd|' /C calc'!A0",
        "--text=\u{202e}\u{200b}\n\ndata: [DONE]\n\n",
        "--text=caf\u{e9}\u{1f600}",
    ];
    let args = [&hostile[..], &["--piece", "3"]].concat();
    let server = Server::start(&place, &args);
    let model = "=1+1\u{1b}[2J<script>x</script>";
    let args = ["--concurrency", "1", "--requests", "3", "--warmup", "0", "--keep-prompts"];
    let told = load(&place, &server.url, &[&args[..], &["--model", model]].concat());
    assert_eq!(told.code, Some(0), "{}", told.err);
    let (all, _) = rows(&place, "out");
    assert!(all.iter().all(|row| row.ending == Ending::Answered && row.chunks == 8), "{all:?}");
    assert!(all[0].answer.as_deref().is_some_and(|text| text.contains("\u{1b}[31m")));
    for format in ["terminal", "markdown", "html", "csv", "json"] {
        let report = ["load", "report", "out/requests.jsonl", "--format", format];
        let told = say(&mut place.fizeau(report));
        assert_eq!(told.code, Some(0), "{format}: {}", told.err);
        let acts = |c: char| c != '\n' && fizeau_domain::text::is_hidden(c);
        assert!(!told.out.contains(acts), "{format}");
        assert!(format != "html" || !told.out.contains("<script>x"), "a model's name is text");
        assert!(!told.out.contains("alert(1)"), "answers are in no report");
    }
    assert!(!told.err.contains('\u{1b}') && !told.out.contains('\u{1b}'), "{}", told.err);
}

#[test]
fn a_server_that_says_nothing_is_not_waited_for() {
    let place = Place::new();
    // Connections are made, and nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", silent.local_addr().expect("an address"));
    let told = load(&place, &url, &["--rate", "4", "--ready", "300ms"]);
    assert_eq!(told.code, Some(3), "{}", told.err);
    assert!(told.err.contains("is not ready after 300.0 ms"), "{}", told.err);
    let waiting = place.fizeau(["load", &url, "--rate", "4", "--out", "other"]);
    let waiting = ignoring_nothing(&waiting).spawn().expect("it starts");
    // The first client's connection, and then this one's: it asks, and so it listens to signals.
    for _ in 0..2 {
        silent.accept().expect("a connection");
    }
    let pid = Pid::from_raw(waiting.id() as i32).expect("a process");
    kill_process(pid, Signal::INT).expect("a signal");
    said(waiting.wait_with_output().expect("it ends")).ended(130);
}

#[test]
fn rows_that_cannot_be_are_refused_with_their_line() {
    let place = Place::new();
    let header = concat!(
        r#"{"load":{"version":1,"program":"p","date":"","url":"u","model":"m","endpoint":"chat","#,
        r#""workload":"w","prompts":"","seed":1,"levels":[{"rate":4,"requests":2,"warmup":0}]}}"#
    );
    let row = |more: &str| {
        let row = r#"{"request":{"level":0,"number":0,"scheduled":2,"sent":2,"asked_input":1,"#;
        format!(r#"{row}"asked_output":2,"chunks":2,{more}}}}}"#)
    };
    let good = row(r#""ended":3,"first":2.5,"last":3,"ending":"answered""#);
    for (second, words) in [
        (row(r#""ended":1,"ending":"cut""#), "line 2: request 0: ended is before sent"),
        (row(r#""ended":1e308,"ending":"cut""#), "ended is no moment of a level"),
        (row(r#""ended":3,"ending":"answered""#), "without a last token"),
        (format!("{good}\n{good}"), "line 3: request 0 of level 0 stands in the file twice"),
    ] {
        fs::write(place.path("rows.jsonl"), format!("{header}\n{second}\n")).expect("written");
        for format in ["terminal", "vllm"] {
            let told = say(&mut place.fizeau(["load", "report", "rows.jsonl", "--format", format]));
            assert_eq!(told.code, Some(3), "{second}: {}", told.err);
            assert!(told.err.contains(words), "{second}: {}", told.err);
        }
    }
}

#[test]
fn command_lines_that_mean_nothing_are_refused() {
    let place = Place::new();
    let url = "http://127.0.0.1:9";
    for (args, code, words) in [
        (&[][..], 2, "fizeau load http://host:8000 --rate 4"),
        (&["reprot"], 2, "a URL begins with http://"),
        (&[url], 2, "--rate R (open loop)"),
        (&[url, "--rate", "4", "--concurrency", "4"], 2, "cannot be used with"),
        (&[url, "--rate", "0"], 2, "it is not above 0"),
        (&[url, "--rate", "4", "--isl", "many"], 2, "write a number of tokens"),
        (&[url, "--rate", "4", "--set", "max_tokens=4"], 2, "--length-field decide"),
        (&[url, "--rate", "1000000", "--duration", "1h"], 2, "are more than"),
        (&[url, "--trace", "none.csv"], 3, "none.csv"),
        (&["http://u:p@127.0.0.1:9", "--rate", "4"], 2, "FIZEAU_API_KEY"),
        (&[url, "--rate", "4", "--ready", "300ms"], 3, "is not ready after"),
    ] {
        let told = say(&mut place.fizeau(["load"].iter().chain(args)));
        assert_eq!(told.code, Some(code), "{args:?}: {}", told.err);
        assert!(told.err.contains(words), "{args:?}: {}", told.err);
    }
    let plan = ["load", url, "--rate", "4,8", "--model", "m", "--plan"];
    let told = say(&mut place.fizeau(plan)).clean();
    assert!(told.out.contains("level 2: open loop, 8 requests/s, Poisson; 480 requests"));
    assert!(told.out.contains("nothing was sent"), "{}", told.out);
    // --duration is without the warm-up, whose time is stated beside the whole.
    assert!(told.out.contains(": the warm-up takes "), "{}", told.out);
    let whole = say(&mut place.fizeau(plan.iter().chain(&["--warmup", "0"]))).clean();
    assert!(!whole.out.contains("the warm-up takes"), "{}", whole.out);
}

/// Starts a server that speaks TLS with this certificate and key; its URL, and how many requests
/// have reached it.
fn over_tls(certificate: &[u8], key: &[u8]) -> (String, Arc<AtomicUsize>) {
    let certificates = CertificateDer::from_pem_slice(certificate);
    let key = PrivateKeyDer::from_pem_slice(key).expect("a key");
    let config =
        ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificates.expect("a certificate")], key)
            .expect("they belong together");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("https://{}", listener.local_addr().expect("an address"));
    let config = Arc::new(config);
    let reached = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reached);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (config, counted) = (Arc::clone(&config), Arc::clone(&counted));
            thread::spawn(move || {
                let Ok(connection) = ServerConnection::new(config) else { return };
                let mut stream = StreamOwned::new(connection, stream);
                let mut piece = [0; 4096];
                // Whatever is asked, two tokens; a request comes in one piece or two.
                while let Ok(1..) = stream.read(&mut piece) {
                    let text = String::from_utf8_lossy(&piece).into_owned();
                    piece = [0; 4096];
                    counted.fetch_add(1, Ordering::Relaxed);
                    if text.starts_with("GET") || text.contains("/tokenize") {
                        let _ = stream.write_all(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n");
                        continue;
                    }
                    if !text.contains("max_tokens") {
                        continue;
                    }
                    let events = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n\
                                  data: {\"choices\":[{\"text\":\"b\"}]}\n\n\
                                  data: [DONE]\n\n";
                    let answer = format!(
                        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                         Content-Length: {}\r\n\r\n{events}",
                        events.len()
                    );
                    let _ = stream.write_all(answer.as_bytes());
                }
            });
        }
    });
    (url, reached)
}

#[test]
fn tls_is_checked_by_certificates() {
    let place = Place::new();
    let key = include_bytes!("tls/server.key");
    let (url, _) = over_tls(include_bytes!("tls/server.pem"), key);
    fs::write(place.path("ca.pem"), include_bytes!("tls/ca.pem")).expect("written");
    let args = ["--model", "m", "--concurrency", "2", "--requests", "6", "--warmup", "0"];
    let trusted = load(&place, &url, &[&args[..], &["--ca", "ca.pem"]].concat());
    assert_eq!(trusted.code, Some(0), "{}", trusted.err);
    assert_eq!(counts(&rows(&place, "out").0), [(Ending::Answered, 6)].into());
    let args = [&args[..], &["--ready", "300ms"]].concat();
    let mut strange = place.fizeau(["load", &url].iter().chain(&SHORT[..4]).chain(&args));
    let strange = say(strange.args(["--out", "strange"])).ended(3);
    assert!(strange.err.contains("certificate") || strange.err.contains("certificates"));
    assert!(!place.path("strange").exists());
    // Of another name, and expired: both are by an authority that is trusted.
    fs::write(place.path("hostile.pem"), include_bytes!("tls/hostile-ca.pem")).expect("written");
    let key = include_bytes!("tls/hostile.key");
    for (certificate, words) in [
        (&include_bytes!("tls/hostile-name.pem")[..], "not valid for name \"127.0.0.1\""),
        (&include_bytes!("tls/hostile-expired.pem")[..], "certificate expired"),
    ] {
        let (url, reached) = over_tls(certificate, key);
        let hostile = [&args[..], &["--ca", "hostile.pem"]].concat();
        let mut command = place.fizeau(["load", &url].iter().chain(&SHORT[..4]).chain(&hostile));
        command.env("FIZEAU_API_KEY", "sk-hidden-4c1d9").args(["--out", "hostile"]);
        let said = say(&mut command).ended(3);
        assert!(said.err.contains(words), "{}", said.err);
        // Nothing was asked, so that nobody has the key.
        assert_eq!(reached.load(Ordering::Relaxed), 0, "{words}");
        assert!(!place.path("hostile").exists(), "{words}");
    }
}

#[test]
fn the_self_test_tells_what_it_tried() {
    let place = Place::new();
    let args = ["load", "self-test", "--rate", "40", "--tokens", "5", "--duration", "1s", "--json"];
    let told = say(&mut place.fizeau(args));
    // On a machine that is shared, times may be anything: what is judged by a clock may fail.
    assert!(matches!(told.code, Some(0 | 1)), "{}", told.err);
    let checks: serde_json::Value = serde_json::from_str(&told.out).expect("JSON");
    let checks = checks.as_array().expect("a list");
    let passed = |words: &str| {
        let one = checks.iter().find(|one| one["what"].as_str().is_some_and(|s| s.contains(words)));
        one.unwrap_or_else(|| panic!("{words}: {checks:?}"))["passes"].as_bool()
    };
    for words in ["M/M/4", "M/D/4", "answered at", "closed loop"] {
        assert_eq!(passed(words), Some(true), "{words}: {checks:?}");
    }
    for words in ["beside the recursion", "server's own stamps", "tokens received", "open loop"] {
        assert!(passed(words).is_some(), "{words}");
    }
}

#[test]
fn a_server_that_lacks_an_interface_leads_to_the_other_one() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut piece = [0; 4096];
                while let Ok(1..) = stream.read(&mut piece) {
                    let _ = stream.write_all(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n");
                }
            });
        }
    });
    let place = Place::new();
    for (endpoint, other) in [("completions", "chat"), ("chat", "completions")] {
        let args = ["load", &url, "--model", "m", "--rate", "4", "--endpoint", endpoint];
        let said = say(place.fizeau(args).args(SHORT)).ended(3);
        let words = format!(
            "(status 4xx: status 404), so that no load was sent; the server may \
                             offer the other interface: --endpoint {other}"
        );
        assert!(said.err.contains(&words), "{}", said.err);
    }
}
