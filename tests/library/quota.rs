//! What a CPU quota, a hypervisor or other processes took from a case: the report, `compare`,
//! `accept`, `profile learn` and `project --on RECORD` name the same cause, and judge nothing by
//! such a case.

use crate::synthetic;
use fizeau::data::Catalogue;
use fizeau_domain::{
    outcome::{Measurement, Outcome},
    units::Bytes,
};
use fizeau_judge::{
    accept::{
        learn::{self, Run},
        profile::Profile,
        reading,
    },
    compare::{Comparison, Options},
};
use fizeau_projection::project::hardware::Hardware;
use fizeau_record::{CURRENT, Line, Record, store};
use fizeau_report::{self as report, Block, Cell};

/// A record whose measured cases a quota, or others, left as much of their cores as is said.
fn record(stopped: Option<f64>, available: Option<f64>) -> Record {
    let mut record = synthetic::record();
    record.header.environment.cpu_quota = stopped.map(|_| 0.5);
    record.header.environment.memory_limit = stopped.map(|_| Bytes(100 << 20));
    for one in measured(&mut record) {
        (one.stopped_by_quota, one.available) = (stopped, available);
    }
    record
}

fn measured(record: &mut Record) -> impl Iterator<Item = &mut Measurement> {
    record.outcomes.iter_mut().filter_map(|outcome| match outcome {
        Outcome::Measured(one) => Some(one.as_mut()),
        _ => None,
    })
}

/// The warnings of a report, as one text.
fn warnings(record: &Record) -> String {
    let blocks = report::run(record).blocks.into_iter();
    let warnings = blocks.filter_map(|block| match block {
        Block::Warning(text) => Some(text),
        _ => None,
    });
    warnings.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_quota_that_stopped_cases_is_blamed_alone() {
    let (quota, others) = ("A CPU quota of 0.50 CPUs stopped the program", "other processes");
    for (stopped, available, told) in [
        (None, None, [false, false]),
        (None, Some(0.5), [false, true]),
        (Some(0.5), Some(0.99), [true, false]),
        // The probe of what is available was stopped too.
        (Some(0.5), Some(0.5), [true, false]),
        // A quota that took next to nothing explains nothing.
        (Some(0.01), Some(0.5), [false, true]),
        (Some(0.01), Some(0.99), [false, false]),
    ] {
        let text = warnings(&record(stopped, available));
        let found = [text.contains(quota), text.contains(others)];
        assert_eq!(found, told, "{stopped:?} {available:?}: {text}");
    }
}

#[test]
fn what_others_took_while_a_case_ran_decides_although_probes_saw_all_cores() {
    let with = |waited: f64| {
        let mut record = record(None, Some(0.99));
        measured(&mut record).for_each(|one| one.waited = Some(waited));
        record
    };
    let (quiet, taken) = (with(0.15), with(0.5));
    assert!(!warnings(&quiet).contains("other processes"), "{}", warnings(&quiet));
    let words = warnings(&taken);
    assert!(words.contains("other processes took CPU time") && words.contains("50 %"), "{words}");
    let found = Comparison::of(&[quiet], &[taken], &Options::default()).expect("like machines");
    let note = "disturbed: B had 50 % of its cores, which other processes left to it";
    assert_eq!(found.rows[0].note.as_deref(), Some(note));
}

#[test]
fn the_share_that_a_quota_took_stands_beside_each_case_and_only_where_there_is_a_quota() {
    let column = |record: &Record| {
        let document = report::run(record);
        let table = document.tables().find(|table| table.name == "cases").expect("cases").clone();
        let at = table.columns.iter().position(|column| column.key == "stopped_by_quota")?;
        Some(table.rows.iter().map(|row| row[at].clone()).collect::<Vec<_>>())
    };
    assert_eq!(column(&record(None, None)), None);
    let mut with = record(Some(0.5), None);
    measured(&mut with).next().expect("a case").stopped_by_quota = None;
    let cells = column(&with).expect("a column");
    assert_eq!((&cells[0], &cells[1]), (&Cell::Absent, &Cell::Share(0.5)));
}

#[test]
fn a_case_that_a_quota_stopped_is_not_judged_and_the_limits_are_differences_of_runs() {
    let (mut without, with) = (record(None, None), record(Some(0.5), None));
    // A difference is told where both runs know the limit.
    without.header.environment.cpu_quota = Some(1.5);
    without.header.environment.memory_limit = Some(Bytes(1 << 30));
    let found = Comparison::of(&[without], &[with], &Options::default()).expect("like machines");
    let note = found.rows[0].note.clone().unwrap_or_default();
    assert_eq!(note, "disturbed: B had 50 % of its cores, which a CPU quota left to it");
    let differences = format!("{found:?}");
    for words in ["0.50 CPUs", "100 MiB"] {
        assert!(differences.contains(words), "{words}");
    }
}

#[test]
fn limits_are_kept_and_read_again_and_left_out_where_there_are_none() {
    for (record, is_there) in [(record(Some(0.25), None), true), (record(None, None), false)] {
        let lines = [
            Line::Header(Box::new(record.header.clone())),
            Line::Outcome(record.outcomes[0].clone()),
        ];
        for (line, names) in
            lines.into_iter().zip([&["cpu_quota", "memory_limit"][..], &["stopped_by_quota"]])
        {
            let text = CURRENT.write(&line).expect("JSON");
            let value = serde_json::from_str(&text).expect("JSON");
            assert_eq!(CURRENT.read(value).expect("a line"), line);
            for name in names {
                assert_eq!(text.contains(name), is_there, "{name}: {text}");
            }
        }
    }
}

/// How a case loses CPU time, and the words for who took it.
type Theft = (fn(&mut Measurement), Option<&'static str>);

/// Each way in which a case loses CPU time, and what is too little to count.
const THEFTS: &[Theft] = &[
    (|one| one.waited = Some(0.5), Some("50 % of its cores, which other processes left to it")),
    (|one| one.available = Some(0.6), Some("60 % of its cores, which other processes left to it")),
    (|one| one.stolen = Some(0.3), Some("70 % of its cores, which the hypervisor left to it")),
    (
        |one| one.stopped_by_quota = Some(0.4),
        Some("60 % of its cores, which a CPU quota left to it"),
    ),
    // A thread that a quota stops waits too, and one on a stolen CPU does not.
    (
        |one| (one.stopped_by_quota, one.waited) = (Some(0.4), Some(0.5)),
        Some("50 % of its cores, which a CPU quota left to it"),
    ),
    (
        |one| (one.stolen, one.waited) = (Some(0.3), Some(0.25)),
        Some("70 % of its cores, which the hypervisor left to it"),
    ),
    (
        |one| (one.stolen, one.waited) = (Some(0.25), Some(0.6)),
        Some("40 % of its cores, which other processes left to it"),
    ),
    (|_| (), None),
    (
        |one| {
            (one.waited, one.stolen, one.stopped_by_quota) = (Some(0.15), Some(0.15), Some(0.15));
            one.available = Some(0.85);
        },
        None,
    ),
];

#[test]
fn all_that_judge_leave_out_what_was_disturbed_and_name_the_same_cause() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let base = catalogue.profile("derived-host").expect("a profile");
    let base = Profile::parse(&base).expect("a profile");
    let path = "results/epyc-9005/2026-11-21-kvm-2-cores";
    let mut healthy = store::read(path.as_ref()).expect("a record");
    healthy.header.command = ["fizeau", "run", "--suite", "accept-host"].map(Into::into).into();
    measured(&mut healthy).for_each(|one| one.available = None);
    for (steal, cause) in THEFTS {
        let mut record = healthy.clone();
        measured(&mut record).for_each(steal);
        let words = cause.unwrap_or("% of its cores");
        let told = |text: &str, who: &str| {
            assert_eq!(text.contains(words), cause.is_some(), "{who}, {words}: {text}");
        };
        let compared = Comparison::of(
            std::slice::from_ref(&healthy),
            std::slice::from_ref(&record),
            &Options::default(),
        );
        let notes = compared.expect("one machine").rows.into_iter().filter_map(|row| row.note);
        told(&notes.collect::<Vec<_>>().join("\n"), "compare");
        let found = reading::readings(&record, &base).into_values().flatten();
        let found: Vec<_> = found.map(|one| one.disturbed).collect();
        assert!(found.len() > 3 && found.iter().all(|one| one.is_some() == cause.is_some()));
        let by_quota = cause.is_some_and(|words| words.contains("quota"));
        for disturbance in found.into_iter().flatten() {
            told(&disturbance.words, "accept");
            assert_eq!(disturbance.is_quota, by_quota);
        }
        let runs = [(); 3].map(|()| Run { records: vec![record.clone()] });
        match learn::learn("learnt", &runs, &base, true) {
            Ok(learnt) => assert!(cause.is_none() && !learnt.profile.references.is_empty()),
            Err(error) => told(&error.to_string(), "profile learn"),
        }
        match Hardware::of_record("here", &record, None) {
            Ok(hardware) => told(&hardware.notes.join("\n"), "project"),
            Err(error) => told(&error, "project"),
        }
        let is_disturbed = |one: &mut Measurement| one.disturbance().is_some();
        assert!(measured(&mut record).all(|one| is_disturbed(one) == cause.is_some()), "ab");
    }
}

#[test]
fn a_projection_leaves_out_the_disturbed_cases_alone() {
    let path = "results/epyc-9005/2026-11-21-kvm-2-cores";
    let mut record = store::read(path.as_ref()).expect("a record");
    measured(&mut record).for_each(|one| one.available = None);
    let memory = |record: &Record| Hardware::of_record("here", record, None).expect("enough");
    let healthy = memory(&record);
    let is_slowed = |one: &Measurement| one.case.to_string().starts_with("stream/triad/128MiB/2u");
    for one in measured(&mut record).filter(|one| is_slowed(one)) {
        // Faster than the machine: what counts would be seen.
        one.summary.median = one.summary.median * 0.1;
        one.stolen = Some(0.5);
    }
    let found = memory(&record);
    assert!(found.memory.0 <= healthy.memory.0, "{} {}", found.memory, healthy.memory);
    let note = found.notes.iter().find(|note| note.contains("left out as disturbed"));
    let note = note.expect("a note");
    assert!(note.contains("stream/triad/128MiB/2u") && note.contains("quiet machine"), "{note}");
}
