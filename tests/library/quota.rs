//! What a CPU quota took from a case is told as such, and nobody else is blamed for it.

use crate::synthetic;
use fizeau_domain::{
    outcome::{Measurement, Outcome},
    units::Bytes,
};
use fizeau_judge::compare::{Comparison, Options};
use fizeau_record::{CURRENT, Line, Record};
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
    assert_eq!(found.rows[0].note.as_deref(), Some("disturbed: B had 50 % of its cores"));
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
