//! A few strange inputs of each kind, and the committed ones, go through the readers: none may
//! panic, none may be shown so that it acts upon a reader. `scripts/fuzz.sh` feeds as many as
//! wanted, with limits on memory and time.

#[path = "../../examples/fuzz/bundles.rs"]
mod bundles;
#[path = "../../examples/fuzz/files.rs"]
mod files;
#[path = "../../examples/fuzz/kinds.rs"]
pub mod kinds;
#[path = "../../examples/fuzz/machine.rs"]
mod machine;
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

/// Another seed than that of the long run.
const SEED: u64 = 2;

#[track_caller]
fn feed(name: &str, count: u64) {
    let kind = kinds::named(name).expect("a kind");
    let first = kind.corpus().len() as u64;
    let accepted = (0..first + count).filter(|&number| (kind.read)(&kind.input(SEED, number)));
    let (accepted, all) = (accepted.count() as u64, first + count);
    // Where all is refused, or all is taken, little is tried.
    assert!(accepted > all / 50 && accepted < all, "{name}: {accepted} of {all} accepted");
}

#[test]
fn strange_records_are_refused_or_shown_harmlessly() {
    feed("record", 250);
}

#[test]
fn strange_suites_are_refused_or_planned() {
    feed("suite", 200);
}

#[test]
fn strange_parts_selectors_and_rates_do_no_harm() {
    feed("part", 150);
    feed("selector", 300);
    feed("rates", 300);
}

#[test]
fn strange_results_and_traces_have_no_cell_that_is_none() {
    feed("served", 200);
    feed("trace", 300);
    feed("dcgm", 300);
}

#[test]
fn strange_claims_models_and_profiles_do_no_harm() {
    feed("claims", 200);
    feed("published", 200);
    feed("config", 200);
    feed("checkpoint", 100);
    feed("model", 150);
    feed("medians", 150);
    feed("profile", 150);
    feed("kernels", 200);
}

#[test]
fn strange_words_of_an_operator_do_no_harm() {
    feed("expected", 300);
    feed("labels", 300);
    feed("recipe", 100);
    feed("plan", 200);
}

#[test]
fn strange_folders_do_no_harm() {
    feed("reproduction", 60);
    feed("frontier", 60);
}

#[test]
fn strange_bundles_are_surveyed_and_nobody_vouches_for_them() {
    feed("manifest", 200);
    feed("row", 60);
    feed("bundle", 60);
    feed("archive", 60);
}

#[test]
fn strange_words_of_machines_and_clients_do_no_harm() {
    feed("machine", 400);
    feed("request", 400);
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
    feed("rendezvous", 500);
}

#[test]
fn kinds_have_names_and_planted_faults_are_faults() {
    let names: std::collections::BTreeSet<&str> = kinds::names().into_iter().collect();
    assert_eq!(names.len(), kinds::ALL.len(), "two kinds have one name");
    let read = |number| (kinds::PLANTED.read)(&kinds::PLANTED.input(SEED, number));
    assert!(read(9));
    let planted = std::panic::catch_unwind(|| read(10));
    assert!(planted.is_err());
}

#[test]
fn strange_tables_metrics_answers_and_claims_do_no_harm() {
    feed("perftest", 400);
    feed("metrics", 400);
    feed("answer", 400);
    feed("claim", 400);
}

/// How long it takes is for `scripts/fuzz.sh` to say, where little else runs.
#[test]
fn long_records_are_read_whole() {
    let record = store::parse_text(&targets::long_record(2_000)).expect("a record");
    assert_eq!(record.outcomes.len(), 2_000);
}
