//! Two records against each other, case by case.
//!
//! Each case that both records measured gets the ratio of its medians, B / A, with a 95 %
//! interval: both sample sets are resampled, and the interval is then widened by the drift between
//! runs. A case's samples lie within a second of each other; a second run has other pages, other
//! clocks, other neighbours, and differs by more than they show. How much more is read off the
//! records themselves: cases next to each other in the plan use like resources at a like time, so
//! the spread of their ratios around their middle is that drift. A change of one case among them,
//! or one shared by all of them, does not move it; on a machine that drifts, changes as small as
//! its drift are `unclear`, neither `slower` nor `same`.

use crate::{
    case::Case,
    outcome::{Measurement, Outcome},
    record::{Environment, Header, Record},
    selector::{Selector, SelectorError},
    stats::{interval, quantile},
    units::Seconds,
    verdict::Verdict,
};
use std::{collections::HashMap, fmt, str::FromStr};

/// The change that counts where nothing else is asked for.
pub const THRESHOLD: f64 = 0.05;

/// The drift at a case is the spread of so many ratios around it in the plan. With fewer cases in
/// all their spread says nothing, and [`DRIFT_ASSUMED`] stands for it.
const CASES_FOR_DRIFT: usize = 11;

/// Standard deviation between runs on a quiet machine, as a share.
const DRIFT_ASSUMED: f64 = 0.01;

/// Load average for each CPU above which others' work shows in a run.
const BUSY: f64 = 0.75;

/// Standard deviations on each side of the middle 95 % of a normal distribution.
const DEVIATIONS: f64 = 1.96;

/// A normal distribution's standard deviation / its median absolute deviation.
const DEVIATION_OF_MAD: f64 = 1.4826;

/// Two records, compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// A: what is compared against.
    pub before: Side,
    /// B: what is judged.
    pub after: Side,
    /// The relative change that counts, such as 0.05.
    pub threshold: f64,
    /// The standard deviation of ratios between runs, as a share, by which intervals were widened:
    /// median over all cases.
    pub drift: f64,
    /// One for each case that either record planned: in A's order, then what only B has.
    pub rows: Vec<Row>,
    /// Why the comparison may mislead, in words.
    pub warnings: Vec<String>,
}

/// One of the two records.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// The run's name.
    pub run: String,
    /// Its start, RFC 3339 in UTC.
    pub started: String,
    /// The program's version.
    pub fizeau: String,
    /// The suite's name.
    pub suite: String,
    /// The device's name.
    pub device: String,
}

/// One case.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Which.
    pub case: Case,
    /// What became of it.
    pub fate: Fate,
    /// In numbers, where both records measured it.
    pub change: Option<Change>,
    /// Why there are no numbers, or why they tell nothing.
    pub note: Option<String>,
}

/// A change in numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Median of A.
    pub before: Seconds,
    /// Median of B.
    pub after: Seconds,
    /// B / A: above one is slower.
    pub ratio: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// What became of a case from A to B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// Measured in A; failed or invalid in B.
    Broken,
    /// The whole interval lies above 1 + threshold.
    Slower,
    /// The interval cannot tell.
    Unclear,
    /// The whole interval lies below 1 / (1 + threshold).
    Faster,
    /// The ratio is within the threshold, and its interval narrow enough that a change of twice
    /// the threshold would have shown.
    Same,
    /// Slower or broken, which a waiver says not to count.
    Waived,
    /// Measured in A; skipped or not reached in B.
    Lost,
    /// A did not measure it.
    NotMeasured,
    /// Not in B's plan.
    OnlyBefore,
    /// Not in A's plan.
    OnlyAfter,
}

impl Fate {
    /// All of them, worst first.
    pub const ALL: [Fate; 10] = [
        Fate::Broken,
        Fate::Slower,
        Fate::Unclear,
        Fate::Faster,
        Fate::Same,
        Fate::Waived,
        Fate::Lost,
        Fate::NotMeasured,
        Fate::OnlyBefore,
        Fate::OnlyAfter,
    ];
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fate::Broken => "broken",
            Fate::Slower => "slower",
            Fate::Unclear => "unclear",
            Fate::Faster => "faster",
            Fate::Same => "same",
            Fate::Waived => "waived",
            Fate::Lost => "not run in B",
            Fate::NotMeasured => "not measured",
            Fate::OnlyBefore => "only in A",
            Fate::OnlyAfter => "only in B",
        })
    }
}

/// Says beforehand that some cases may be slower or broken.
#[derive(Clone, Debug)]
pub struct Waiver {
    selector: Selector,
    reason: Option<String>,
    /// As it was written.
    words: String,
}

impl FromStr for Waiver {
    type Err = SelectorError;

    /// From `SELECTOR` or `SELECTOR=REASON`.
    fn from_str(words: &str) -> Result<Waiver, SelectorError> {
        let (selector, reason) = match words.split_once('=') {
            Some((selector, reason)) => (selector, Some(reason.trim().to_owned())),
            None => (words, None),
        };
        let selector = Selector::parse(&[selector.to_owned()])?;
        Ok(Waiver { selector, reason, words: words.to_owned() })
    }
}

/// Why two records cannot be compared.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Incomparable {
    /// They were measured on different devices.
    #[error("A was measured on {before} and B on {after}; only records of like devices compare")]
    DifferentDevices {
        /// A's.
        before: String,
        /// B's.
        after: String,
    },
    /// One of them is of a stub driver, and the other is not.
    #[error(
        "one of A and B is of a stub driver, which measures nothing that a GPU's compares with"
    )]
    Stub,
    /// The threshold is not a share.
    #[error("the threshold {0} is not between 0 and 1; write 0.05 for 5 %")]
    Threshold(f64),
}

impl Comparison {
    /// Compares B, `after`, with A, `before`.
    ///
    /// # Errors
    ///
    /// Where the devices differ, or the threshold is not between 0 and 1.
    pub fn of(before: &Record, after: &Record, threshold: f64) -> Result<Comparison, Incomparable> {
        if !(threshold > 0.0 && threshold < 1.0) {
            return Err(Incomparable::Threshold(threshold));
        }
        let (a, b) = (&before.header, &after.header);
        if a.device.is_stub() != b.device.is_stub() {
            return Err(Incomparable::Stub);
        }
        let device = |header: &Header| {
            let device = &header.device;
            format!("{} ({}, {} units)", device.name, device.backend, device.units)
        };
        if device(a) != device(b) {
            let (before, after) = (device(a), device(b));
            return Err(Incomparable::DifferentDevices { before, after });
        }
        let mut rows = join(before, after);
        // A disturbed case says nothing of the machine, and nothing of the drift of others.
        let changed = rows.iter().filter(|row| row.note.is_none());
        let drifts = drifts(changed.filter_map(|row| row.change));
        let changed = rows.iter_mut().filter(|row| row.note.is_none() && row.change.is_some());
        for (row, &drift) in changed.zip(&drifts) {
            judge(row, threshold, drift);
        }
        let drift = if drifts.is_empty() { DRIFT_ASSUMED } else { quantile::median(&drifts) };
        let warnings = warnings(before, after);
        let (before, after) = (Side::of(a), Side::of(b));
        Ok(Comparison { before, after, threshold, drift, rows, warnings })
    }

    /// How many cases have a fate.
    pub fn count(&self, fate: Fate) -> usize {
        self.rows.iter().filter(|row| row.fate == fate).count()
    }

    /// How many cases are worse in B, slower or broken, and not waived.
    pub fn regressions(&self) -> usize {
        self.count(Fate::Slower) + self.count(Fate::Broken)
    }

    /// Waives cases that are slower or broken: they are no regressions any more. A waiver that
    /// waives nothing is no error, since the next run may need it again; one whose selector knows
    /// no case is a warning.
    pub fn waive(&mut self, waivers: &[Waiver]) {
        for waiver in waivers {
            let mut knows_any = false;
            for row in &mut self.rows {
                if !waiver.selector.selects(&row.case.to_string()) {
                    continue;
                }
                knows_any = true;
                if matches!(row.fate, Fate::Slower | Fate::Broken) {
                    let why = waiver.reason.iter().map(|reason| format!("waived: {reason}"));
                    let notes = std::iter::once(row.fate.to_string()).chain(why);
                    let notes: Vec<String> = notes.chain(row.note.take()).collect();
                    (row.fate, row.note) = (Fate::Waived, Some(notes.join("; ")));
                }
            }
            if !knows_any {
                self.warnings.push(format!("--waive {:?} knows no case", waiver.words));
            }
        }
    }

    /// The verdict on B. A regression fails it. It is inconclusive where more cases are unclear or
    /// not run than are judged, or none is.
    pub fn verdict(&self) -> Verdict {
        let judged = self.count(Fate::Same) + self.count(Fate::Faster);
        let unknown = self.count(Fate::Unclear) + self.count(Fate::Lost);
        let regressed = (self.regressions() > 0).then_some(Verdict::Fail);
        let waived = (self.count(Fate::Waived) > 0).then_some(Verdict::Waived);
        let passed = (judged > 0).then_some(Verdict::Pass);
        let unclear = (unknown > judged).then_some(Verdict::Inconclusive);
        Verdict::on_all([regressed, waived, passed, unclear].into_iter().flatten())
    }
}

impl Side {
    fn of(header: &Header) -> Side {
        Side {
            run: header.run.clone(),
            started: header.started.clone(),
            fizeau: header.fizeau.clone(),
            suite: header.suite.clone(),
            device: header.device.name.clone(),
        }
    }
}

/// Pairs the cases of both plans; intervals hold what the samples show, and fates are yet to come
/// where there are numbers.
fn join(before: &Record, after: &Record) -> Vec<Row> {
    let (old, new) = (by_case(before), by_case(after));
    let row = |case: &Case, fate, change, note| Row { case: case.clone(), fate, change, note };
    let of_before = before.header.plan.iter().map(|case| {
        if !after.header.plan.contains(case) {
            return row(case, Fate::OnlyBefore, None, None);
        }
        match (old.get(case).copied(), new.get(case).copied()) {
            (Some(Outcome::Measured(a)), Some(Outcome::Measured(b))) => {
                row(case, Fate::Unclear, Some(change(a, b)), disturbance(a, b))
            }
            (
                Some(Outcome::Measured(_)),
                Some(b @ (Outcome::Failed { .. } | Outcome::Invalid { .. })),
            ) => row(case, Fate::Broken, None, Some(format!("B: {}", describe(Some(b))))),
            (a, b) => {
                let note = format!("A: {}; B: {}", describe(a), describe(b));
                let measured = a.is_some_and(|a| a.measured().is_some());
                let fate = if measured { Fate::Lost } else { Fate::NotMeasured };
                row(case, fate, None, Some(note))
            }
        }
    });
    let new_in_after = after.header.plan.iter().filter(|case| !before.header.plan.contains(case));
    let of_after = new_in_after.map(|case| row(case, Fate::OnlyAfter, None, None));
    of_before.chain(of_after).collect()
}

fn by_case(record: &Record) -> HashMap<&Case, &Outcome> {
    record.outcomes.iter().map(|outcome| (outcome.case(), outcome)).collect()
}

/// Why nothing can be told from these two, where others worked on the cores of one of them.
fn disturbance(before: &Measurement, after: &Measurement) -> Option<String> {
    let side = |name: &str, one: &Measurement| {
        let share = one.available.filter(|_| one.disturbed())?;
        Some(format!("{name} had {:.0} % of its cores", share * 100.0))
    };
    let sides: Vec<_> = [side("A", before), side("B", after)].into_iter().flatten().collect();
    (!sides.is_empty()).then(|| format!("disturbed: {}", sides.join(", ")))
}

fn describe(outcome: Option<&Outcome>) -> String {
    match outcome {
        None => "not run".into(),
        Some(Outcome::Measured(_)) => "measured".into(),
        Some(Outcome::Skipped { reason, .. }) => format!("skipped: {reason}"),
        Some(Outcome::Failed { error, .. }) => format!("failed: {error}"),
        Some(Outcome::Invalid { reason, .. }) => format!("invalid: {reason}"),
    }
}

fn change(before: &Measurement, after: &Measurement) -> Change {
    let values = |measurement: &Measurement| -> Vec<f64> {
        measurement.samples.times.iter().map(|time| time.0).collect()
    };
    let ratio = after.summary.median / before.summary.median;
    let (a, b) = (values(before), values(after));
    // Raw samples can be left out of a record; the summary's interval is then all there is.
    let (low, high) = if a.is_empty() || b.is_empty() {
        let (a, b) = (&before.summary.interval, &after.summary.interval);
        (b.low / a.high, b.high / a.low)
    } else {
        let (low, high, _) = interval::ratio_interval(&a, &b);
        (low, high)
    };
    Change { before: before.summary.median, after: after.summary.median, ratio, low, high }
}

/// The standard deviation between runs at each case that has numbers, from the spread of the
/// ratios around it.
fn drifts(changes: impl Iterator<Item = Change>) -> Vec<f64> {
    let logs: Vec<f64> = changes.map(|change| change.ratio.ln()).collect();
    let Some(last_start) = logs.len().checked_sub(CASES_FOR_DRIFT) else {
        return vec![DRIFT_ASSUMED; logs.len()];
    };
    let around = |at: usize| {
        let start = at.saturating_sub(CASES_FOR_DRIFT / 2).min(last_start);
        let near = &logs[start..start + CASES_FOR_DRIFT];
        quantile::median_absolute_deviation(near) * DEVIATION_OF_MAD
    };
    (0..logs.len()).map(around).collect()
}

/// Widens the interval by the drift between runs and decides what became of the case. In
/// logarithms, where twice as fast and twice as slow are equally far from one.
fn judge(row: &mut Row, threshold: f64, drift: f64) {
    let Some(change) = &mut row.change else { return };
    let limit = threshold.ln_1p();
    let between = DEVIATIONS * drift;
    let middle = change.ratio.ln();
    let below = (middle - change.low.ln()).max(0.0).hypot(between);
    let above = (change.high.ln() - middle).max(0.0).hypot(between);
    (change.low, change.high) = ((middle - below).exp(), (middle + above).exp());
    row.fate = if middle - below > limit {
        Fate::Slower
    } else if middle + above < -limit {
        Fate::Faster
    } else if middle.abs() <= limit && below + above <= 2.0 * limit {
        Fate::Same
    } else {
        Fate::Unclear
    };
}

fn warnings(before: &Record, after: &Record) -> Vec<String> {
    let (a, b) = (&before.header, &after.header);
    let mut warnings = Vec::new();
    let mut warn = |when: bool, words: String| {
        if when {
            warnings.push(words);
        }
    };
    warn(a.run == b.run, format!("both are the run {}", a.run));
    warn(a.fizeau != b.fizeau, format!("Fizeau {} in A, {} in B", a.fizeau, b.fizeau));
    warn(a.suite_text != b.suite_text, "the suites differ".into());
    let (a, b) = (&a.environment, &b.environment);
    warn(a.cpu != b.cpu, format!("CPU {} in A, {} in B", a.cpu, b.cpu));
    warn(a.os != b.os, format!("{} in A, {} in B", a.os, b.os));
    warn(a.pinned != b.pinned, "threads were pinned in only one of the runs".into());
    warn(a.huge_pages != b.huge_pages, "huge pages were set differently".into());
    warn(a.governor != b.governor, "the frequency governors differ".into());
    for (name, record) in [("A", before), ("B", after)] {
        let complete = record.footer.as_ref().is_some_and(|footer| !footer.interrupted);
        warn(!complete, format!("{name} did not run to its end"));
        let Environment { load, cpus, .. } = record.header.environment;
        if let Some(load) = load.filter(|load| *load > BUSY * f64::from(cpus)) {
            warn(true, format!("{name} started on a busy machine: load average {load:.1}"));
        }
    }
    warnings
}
