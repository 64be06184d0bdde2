//! A few strange inputs of each kind, and the committed ones, go through the readers: none may
//! panic, none may be shown so that it acts upon a reader. `scripts/fuzz.sh` feeds as many as
//! wanted, with limits on memory and time.

#[path = "../../examples/fuzz/mutate.rs"]
mod mutate;
#[path = "../places/mod.rs"]
mod places;
#[path = "../../examples/fuzz/served.rs"]
mod served;
#[path = "../../examples/fuzz/targets.rs"]
mod targets;

use fizeau_projection::load::{self, level::Limits};
use fizeau_record::store;
use serde_json::Value;
use targets::Kind;

/// Another seed than that of the long run.
const SEED: u64 = 2;

#[track_caller]
fn feed(kind: Kind, count: u64) {
    let first = kind.corpus().len() as u64;
    assert!(first > 2, "the corpus of {} is gone", kind.name());
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

#[test]
fn no_cell_is_longer_than_a_number_whatever_a_number_of_a_file_becomes() {
    let mut shown = 0;
    for (name, text) in served::FILES.iter().filter(|(name, _)| !name.starts_with("trace")) {
        let plain = text.replace("NaN", "null").replace("Infinity", "\"inf\"");
        let values = serde_json::Deserializer::from_str(&plain).into_iter::<Value>();
        let values: Vec<Value> = values.map_while(Result::ok).collect();
        for (number, place) in places::places(&values[0]).iter().enumerate() {
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

/// How long it takes is for `scripts/fuzz.sh` to say, where little else runs.
#[test]
fn long_records_are_read_whole() {
    let record = store::parse_text(&targets::long_record(2_000)).expect("a record");
    assert_eq!(record.outcomes.len(), 2_000);
}
