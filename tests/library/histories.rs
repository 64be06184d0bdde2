//! What a node was told decides the same again, by way of a file, whatever it was told.

use crate::synthetic;
use fizeau_domain::outcome::{Failure, Outcome};
use fizeau_judge::accept::{
    Judged, Level,
    cause::Cause,
    history::{self, Event},
    node::{Device, Node},
    profile::Profile,
};
use fizeau_record::Record;
use std::collections::BTreeMap;

const PROFILE: &str = r#"
name = "rates"
description = "one check of rates"
kind = "derived"
suite = "own"

[[check]]
name = "rate"
cases = ["OPERATION/*"]
resource = "memory"
least_effect = 0.02
"#;

/// A record of one case, by a name of its own: of a device that answers, or that does not.
fn record(run: &str, answers: bool) -> Record {
    let mut record = synthetic::record();
    let one = record.outcomes.iter().find_map(Outcome::measured).expect("one").clone();
    let case = one.case.clone();
    let outcome = match answers {
        true => Outcome::Measured(Box::new(one)),
        false => Outcome::Failed {
            case: case.clone(),
            failure: Failure::DeviceLost,
            error: "it does not answer".into(),
            integrity: None,
        },
    };
    record.header.run = run.into();
    record.header.plan = vec![case];
    record.outcomes = vec![outcome];
    record
}

fn devices() -> Vec<Device> {
    (0..4).map(|at| Device { name: format!("cuda:{at}"), ..Device::default() }).collect()
}

/// What is to blame on each device.
fn causes(judged: &[Judged]) -> Vec<Option<Cause>> {
    judged.iter().filter(|one| one.check == "rate").map(|one| one.cause).collect()
}

#[test]
fn all_that_a_node_was_told_decides_the_same_again() {
    let operation = record("", true).header.plan[0].point.operation();
    let profile = Profile::parse(&PROFILE.replace("OPERATION", operation)).expect("a profile");
    let names = [("a", false), ("b", false), ("c", true)];
    let records: BTreeMap<String, Record> =
        names.map(|(run, answers)| (run.to_owned(), record(run, answers))).into();
    let mut node = Node::new(&profile, Level::Quick, devices());
    // That a device did not answer before it was continued does not count.
    node.add_earlier(0, &records["a"]);
    node.add(1, &records["b"]);
    node.add(2, &records["c"]);
    node.lose(2, "a quota".into(), Some(Cause::CpuQuota));
    node.lose(3, "no plan".into(), None);
    node.judge();
    node.end();
    let blamed = [None, Some(Cause::DeviceLost), Some(Cause::CpuQuota), None];
    assert_eq!(causes(&node.judged()), blamed);

    let text = serde_json::to_string(node.history()).expect("JSON");
    let events: Vec<Event> = serde_json::from_str(&text).expect("events");
    let again = |events: &[Event]| {
        let node = history::again(&profile, Level::Quick, devices(), events, &records)?;
        Ok::<_, String>((node.judged(), node.history().to_vec()))
    };
    assert_eq!(again(&events), Ok((node.judged(), events.clone())));

    // Each of these would decide otherwise, or not at all.
    let with = |at: usize, event: Event| {
        let mut other = events.clone();
        other[at] = event;
        again(&other).map(|(judged, _)| causes(&judged))
    };
    let (device, run) = (0, "a".to_owned());
    let other = with(0, Event::Record { device, run }).expect("it can be told");
    assert_eq!(other[0], Some(Cause::DeviceLost));
    let (device, why) = (2, "a quota".to_owned());
    let other = with(3, Event::Lost { device, why, cause: None }).expect("it can be told");
    assert_eq!(other[2], None);
    let (device, run) = (0, "d".to_owned());
    let missing = with(0, Event::Earlier { device, run }).expect_err("no such record");
    assert!(missing.contains("run d is missing"), "{missing}");
    let (device, run) = (4, "a".to_owned());
    let beyond = with(0, Event::Earlier { device, run }).expect_err("no such device");
    assert!(beyond.contains("device 4"), "{beyond}");
}
