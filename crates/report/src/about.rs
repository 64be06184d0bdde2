//! What a program asks of a run first: which run it is, what became of its cases, and the verdict.

use super::case_table::missing;
use fizeau_domain::{outcome::Outcome, verdict::Verdict};
use fizeau_judge::{
    ab::{self, Trial},
    compare::{self, Comparison},
};
use fizeau_record::{Header, Record};

/// The fields of a JSON report beside its text and tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct About {
    /// The runs that the report is made of.
    pub runs: Vec<RunAbout>,
    /// How many cases had each outcome, by its name.
    pub counts: Vec<(String, u64)>,
    /// Of a run: `complete`, `incomplete` or `failed`, which say nothing about speed. Of a
    /// comparison or a trial: the name of its verdict on B.
    pub verdict: Option<&'static str>,
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunAbout {
    /// `A` or `B` in a comparison; none where the report is of one run.
    pub role: Option<&'static str>,
    /// The run's random name.
    pub id: String,
    /// The suite's name.
    pub suite: String,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    /// Version of the program.
    pub fizeau: String,
    /// The device's name.
    pub device: String,
    /// What only the report of one run has.
    pub details: Option<RunDetails>,
}

/// More about a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunDetails {
    /// Seconds from start to end; none for a run that was killed or is still running.
    pub elapsed_seconds: Option<f64>,
    /// The commit of the program, where the record has it.
    pub build: Option<String>,
    /// The user's words for this run.
    pub label: Option<String>,
    /// Host name, unless it was left out.
    pub host: Option<String>,
    /// The part of the catalogue that the device is.
    pub part: Option<String>,
    /// Whether a stub driver for tests made the figures.
    pub is_stub: bool,
}

/// Whether a run did what it planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// Each planned case was measured, or skipped with its reason.
    Complete,
    /// A case was not reached, or none was measured.
    Incomplete,
    /// A case failed, or its time cannot be believed.
    Failed,
}

impl RunState {
    /// As programs read it.
    pub const fn name(self) -> &'static str {
        match self {
            RunState::Complete => "complete",
            RunState::Incomplete => "incomplete",
            RunState::Failed => "failed",
        }
    }
}

/// What became of a run's cases. Planned = measured + skipped + failed + invalid + not reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cases of the plan.
    pub planned: usize,
    /// Cases with a result.
    pub measured: usize,
    /// Cases that cannot run here.
    pub skipped: usize,
    /// Cases that broke or whose result was wrong.
    pub failed: usize,
    /// Cases whose time cannot be believed.
    pub invalid: usize,
    /// Cases that the run ended before.
    pub not_reached: usize,
}

impl Counts {
    /// Those of a record.
    pub fn of(record: &Record) -> Counts {
        let mut counts = Counts {
            planned: record.header.plan.len(),
            not_reached: missing(record).len(),
            ..Counts::default()
        };
        for outcome in &record.outcomes {
            match outcome {
                Outcome::Measured(_) => counts.measured += 1,
                Outcome::Skipped { .. } => counts.skipped += 1,
                Outcome::Failed { .. } => counts.failed += 1,
                Outcome::Invalid { .. } => counts.invalid += 1,
            }
        }
        counts
    }

    /// Whether each planned case was measured, or skipped with its reason. Not the words of a
    /// verdict: a run does not judge speed, and `pass` would be read as if it did.
    pub fn state(&self) -> RunState {
        match self {
            Counts { failed: 1.., .. } | Counts { invalid: 1.., .. } => RunState::Failed,
            Counts { not_reached: 1.., .. } | Counts { measured: 0, .. } => RunState::Incomplete,
            _ => RunState::Complete,
        }
    }
}

/// About the report of a run.
pub fn of_run(record: &Record) -> About {
    let counts = Counts::of(record);
    let Counts { planned, measured, skipped, failed, invalid, not_reached } = counts;
    let named = [
        ("planned", planned),
        ("measured", measured),
        ("skipped", skipped),
        ("failed", failed),
        ("invalid", invalid),
        ("not_reached", not_reached),
    ];
    let Header { run, fizeau, build, started, label, suite, device, part, environment, .. } =
        &record.header;
    let details = RunDetails {
        elapsed_seconds: record.footer.as_ref().map(|footer| footer.elapsed.0),
        build: build.clone(),
        label: label.clone(),
        host: environment.host.clone(),
        part: part.clone(),
        is_stub: device.is_stub(),
    };
    let run = RunAbout {
        role: None,
        id: run.clone(),
        suite: suite.clone(),
        started: started.clone(),
        fizeau: fizeau.clone(),
        device: device.name.clone(),
        details: Some(details),
    };
    About {
        runs: vec![run],
        counts: named.map(|(name, count)| (name.to_owned(), count as u64)).to_vec(),
        verdict: Some(counts.state().name()),
    }
}

/// About the report of a comparison, or of one for each GPU.
pub fn of_comparisons(all: &[&Comparison]) -> About {
    let of_side = |role: &'static str, runs: &[compare::RunSummary]| -> Vec<RunAbout> {
        let about = |side: &compare::RunSummary| RunAbout {
            role: Some(role),
            id: side.run.clone(),
            suite: side.suite.clone(),
            started: side.started.clone(),
            fizeau: side.fizeau.clone(),
            device: side.device.clone(),
            details: None,
        };
        runs.iter().map(about).collect()
    };
    let sides = |one: &&Comparison| [of_side("A", &one.before), of_side("B", &one.after)].concat();
    let count = |fate: compare::Fate| {
        let cases: usize = all.iter().map(|one| one.count(fate)).sum();
        (key(&fate.to_string()), cases as u64)
    };
    About {
        runs: all.iter().flat_map(sides).collect(),
        counts: compare::Fate::ALL.into_iter().map(count).collect(),
        verdict: Some(Verdict::on_all(all.iter().map(|one| one.verdict())).name()),
    }
}

/// About the report of a trial, whose runs are those of its records.
pub fn of_trial(trial: &Trial) -> About {
    let count = |fate: ab::Fate| (key(fate.name()), trial.count(fate) as u64);
    About {
        runs: Vec::new(),
        counts: ab::Fate::ALL.into_iter().map(count).collect(),
        verdict: Some(trial.verdict().name()),
    }
}

/// A name as a key of JSON: `not measured` becomes `not_measured`.
fn key(name: &str) -> String {
    name.to_lowercase().replace(' ', "_")
}
