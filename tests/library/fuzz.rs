//! A few strange inputs of each kind, and the committed ones, go through the readers: none may
//! panic, none may be shown so that it acts upon a reader. `scripts/fuzz.sh` feeds as many as
//! wanted, with limits on memory and time.

#[path = "../../examples/fuzz/mutate.rs"]
mod mutate;
#[path = "../../examples/fuzz/others.rs"]
mod others;
#[path = "../../examples/fuzz/served.rs"]
mod served;
#[path = "../../examples/fuzz/targets.rs"]
mod targets;

use fizeau_domain::python;
use fizeau_projection::load::{self, level::Limits};
use fizeau_record::store;
use serde_json::Value;
use targets::Kind;

/// Another seed than that of the long run.
const SEED: u64 = 2;

#[track_caller]
fn feed(kind: Kind, count: u64) {
    let first = kind.corpus().len() as u64;
    let has_none = [Kind::Perftest, Kind::Metrics, Kind::Answer, Kind::Claim].contains(&kind);
    assert!(first > 2 || has_none, "the corpus of {} is gone", kind.name());
    let accepted = (0..first + count).filter(|&number| kind.read(&kind.input(SEED, number)));
    let (accepted, all) = (accepted.count() as u64, first + count);
    // Where all is refused, or all is taken, little is tried.
    assert!(accepted > all / 50 && accepted < all, "{} of {all} accepted", accepted);
}

#[test]
fn strange_records_are_refused_or_shown_harmlessly() {
    feed(Kind::Record, 250);
}

#[test]
fn strange_suites_are_refused_or_planned() {
    feed(Kind::Suite, 200);
}

#[test]
fn strange_parts_selectors_and_rates_do_no_harm() {
    feed(Kind::Part, 150);
    feed(Kind::Selector, 300);
    feed(Kind::Rates, 300);
}

#[test]
fn strange_results_and_traces_have_no_cell_that_is_none() {
    feed(Kind::Served, 200);
    feed(Kind::Trace, 300);
    feed(Kind::Dcgm, 300);
}

/// Where the numbers of a JSON value stand, as JSON pointers (RFC 6901): of lists those of the
/// first item alone.
fn places(value: &Value) -> Vec<String> {
    fn collect(value: &Value, at: &str, all: &mut Vec<String>) {
        match value {
            Value::Number(_) => all.push(at.to_owned()),
            Value::Array(items) => {
                items.iter().take(1).for_each(|item| collect(item, &format!("{at}/0"), all));
            }
            Value::Object(fields) => fields.iter().for_each(|(name, of)| {
                let name = name.replace('~', "~0").replace('/', "~1");
                collect(of, &format!("{at}/{name}"), all);
            }),
            _ => {}
        }
    }
    let mut all = Vec::new();
    collect(value, "", &mut all);
    all
}

#[test]
fn whatever_a_number_becomes_no_time_is_believed_that_cannot_be() {
    let mut tried = 0;
    for (client, text) in served::FILES.iter().filter(|(name, _)| !name.starts_with("trace")) {
        let text_of_json = python::json(text);
        let all = serde_json::Deserializer::from_str(&text_of_json).into_iter::<Value>();
        let lines: Vec<Value> = all.map_while(Result::ok).collect();
        let all = places(&lines[0]);
        let level_names = |source: &load::Source| {
            let level = &source.levels[0];
            [
                ("TTFT", level.ttft.is_some()),
                ("TPOT", level.tpot.is_some()),
                ("E2EL", level.e2el.is_some()),
            ]
        };
        let before = level_names(&load::read(text, &Limits::default()).expect(client));
        for place in &all {
            for new in ["0", "-1", "1e-300", "1e300", "18446744073709551615", "NaN"] {
                let mut changed = lines.clone();
                *changed[0].pointer_mut(place).expect("a number") = Value::String("HERE".into());
                let changed: String = changed.iter().map(|line| format!("{line}\n")).collect();
                let changed = changed.replace("\"HERE\"", new);
                let limits = Limits { ttft: Some(0.2), tpot: Some(0.02), e2el: Some(2.0) };
                tried += 1;
                let source = match load::read(&changed, &limits) {
                    Ok(source) => source,
                    Err(why) => {
                        assert!(why.len() < 400, "{client} {place} {new}: {why}");
                        continue;
                    }
                };
                for level in &source.levels {
                    for times in [&level.ttft, &level.tpot, &level.itl, &level.e2el] {
                        let times = times.iter().flat_map(|one| {
                            one.mean.into_iter().chain(one.quantiles.iter().map(|one| one.value))
                        });
                        times.for_each(|time| {
                            assert!(load::times::is_time(time), "{client} {place} {new}")
                        });
                    }
                    for rate in [level.request_rate(), level.token_rate(), level.duration] {
                        assert!(rate.is_finite() && rate >= 0.0, "{client} {place} {new}: {rate}");
                    }
                }
                let of_levels = source.levels.iter().flat_map(|level| &level.notes);
                let said: Vec<&String> = source.notes.iter().chain(of_levels).collect();
                let said = format!("{said:?}");
                for ((name, was), (_, is)) in before.iter().zip(level_names(&source)) {
                    let is_empty = source.levels[0].answered == 0;
                    let is_told = said.contains(name) || new == "NaN" || is_empty;
                    assert!(is || !was || is_told, "{client} {place} {new}: {name} {said}");
                }
            }
        }
    }
    assert!(tried > 1_500, "{tried}");
}

#[test]
fn no_cell_is_longer_than_a_number_whatever_a_number_of_a_file_becomes() {
    let mut shown = 0;
    for (name, text) in served::FILES.iter().filter(|(name, _)| !name.starts_with("trace")) {
        let plain = text.replace("NaN", "null").replace("Infinity", "\"inf\"");
        let values = serde_json::Deserializer::from_str(&plain).into_iter::<Value>();
        let values: Vec<Value> = values.map_while(Result::ok).collect();
        for (number, place) in places(&values[0]).iter().enumerate() {
            // Each number becomes two of these, and each file all of them.
            let news = ["0", "1e-300", "1e300", "5e-7", "1e9", "-1", "1e15", "NaN"];
            for new in [news[number % news.len()], news[(number + 3) % news.len()]] {
                let mut changed = values.clone();
                *changed[0].pointer_mut(place).expect("a number") = Value::String("HERE".into());
                let changed: String = changed.iter().map(|one| format!("{one}\n")).collect();
                let changed = changed.replace("\"HERE\"", new);
                let Ok(source) = load::read(&changed, &Limits::default()) else { continue };
                // Which one it was, where it panics.
                println!("{name} {place} {new}");
                served::show(source, Limits::default(), [true, false, false]);
                shown += 1;
            }
        }
    }
    assert!(shown > 400, "{shown}");
}

#[test]
fn strange_ranks_do_no_harm() {
    feed(Kind::Rendezvous, 500);
}

#[test]
fn kinds_have_names_and_planted_faults_are_faults() {
    for kind in Kind::ALL.into_iter().chain([Kind::Planted]) {
        assert_eq!(Kind::named(kind.name()), Some(kind));
    }
    assert!(Kind::Planted.read(&Kind::Planted.input(SEED, 9)));
    let planted = std::panic::catch_unwind(|| Kind::Planted.read(&Kind::Planted.input(SEED, 10)));
    assert!(planted.is_err());
}

#[test]
fn strange_tables_metrics_answers_and_claims_do_no_harm() {
    feed(Kind::Perftest, 400);
    feed(Kind::Metrics, 400);
    feed(Kind::Answer, 400);
    feed(Kind::Claim, 400);
}

/// Functions of the crates that read words of others, by the end of their file's path: what feeds
/// them, or why nothing has to.
const READERS: [(&str, &str, &str); 20] = [
    ("accept/dcgm.rs", "read", "dcgm"),
    ("accept/network.rs", "parse", "perftest"),
    ("accept/profile.rs", "parse", "a profile is the user's own TOML, read as suites are"),
    ("claim/mod.rs", "parse", "a file of claims is TOML; its claims are those of `claim`"),
    ("claim/tools.rs", "line_of", "claim"),
    ("evidence/manifest.rs", "parse", "tests/runs forge manifests byte by byte"),
    ("fleet/plan.rs", "parse", "the operator's own plan"),
    ("fleet/recipe.rs", "parse", "what simulates a fleet, for tests"),
    ("fleet/row.rs", "parse", "tests/library/fleet_survey.rs: any bytes in a row"),
    ("fleet/row.rs", "parse_date", "tests/library/fleet_survey.rs: any bytes in a row"),
    ("fleet/site.rs", "parse", "the operator's own list"),
    ("localise/raw.rs", "parse", "rates"),
    ("load/aiperf.rs", "records", "served"),
    ("load/metrics.rs", "read", "metrics"),
    ("load/read.rs", "lines", "served"),
    ("load/read.rs", "read", "served"),
    ("load/received.rs", "message", "answer"),
    ("load/target.rs", "parse", "the URL that the user types"),
    ("load/trace.rs", "read", "trace"),
    ("validate/entry.rs", "read", "a catalogue of this project, read in its own tests"),
];

/// Functions of the two crates that take in what others wrote, whose first argument is their text.
fn readers() -> Vec<(String, String)> {
    let is_reader = |line: &str| {
        let (name, rest) = line.trim().strip_prefix("pub fn ")?.split_once('(')?;
        let name = name.split('<').next()?;
        let is_named = ["read", "parse", "records", "lines", "line_of", "message", "parse_date"];
        let takes_text = rest.contains(": &str") || rest.contains("[u8]");
        let is_of_value = !rest.starts_with('&') && !rest.starts_with("self");
        (is_named.contains(&name) && takes_text && is_of_value).then(|| name.to_owned())
    };
    let mut found = Vec::new();
    for folder in ["crates/judge/src", "crates/projection/src"] {
        let mut folders = vec![std::path::PathBuf::from(folder)];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let text = std::fs::read_to_string(&path).expect("a file");
                let place = path.to_string_lossy().into_owned();
                found.extend(text.lines().filter_map(is_reader).map(|name| (place.clone(), name)));
            }
        }
    }
    found
}

#[test]
fn every_reader_of_what_others_wrote_is_fed() {
    let found = readers();
    for (place, name) in &found {
        let known = READERS.iter().any(|(end, of, _)| place.ends_with(end) && name == of);
        assert!(known, "{place}: {name} is fed by no kind of examples/fuzz: add it to READERS");
    }
    for (end, name, by) in READERS {
        let is_there = found.iter().any(|(place, of)| place.ends_with(end) && of == name);
        assert!(is_there, "{end}: there is no {name} any more");
        assert!(Kind::named(by).is_some() || by.contains(' '), "{by} is no kind");
    }
    let script = include_str!("../../scripts/fuzz.sh");
    for kind in Kind::ALL {
        assert!(script.contains(kind.name()), "scripts/fuzz.sh leaves {} out", kind.name());
    }
}

/// How long it takes is for `scripts/fuzz.sh` to say, where little else runs.
#[test]
fn long_records_are_read_whole() {
    let record = store::parse_text(&targets::long_record(2_000)).expect("a record");
    assert_eq!(record.outcomes.len(), 2_000);
}
