//! Records against each other, case by case: those of A, one or several runs, and those of B.
//!
//! What may be compared is for [`machine`] to say, whether a case changed for [`judge`]. This
//! module joins the records and gives each case its fate.

mod change;
mod divisions;
pub mod judge;
pub mod machine;
mod quantity;
mod waiver;

pub use judge::Group;
pub use quantity::Quantity;
pub use waiver::Waiver;

use change::{change, disturbance, other_choice, states};
use fizeau_domain::{
    case::Case,
    outcome::{Measurement, Outcome},
    units::Seconds,
    verdict::Verdict,
};
use fizeau_record::{Header, Record};
use judge::{Direction, Judged, Observed, Rule};
use std::{
    collections::{HashMap, HashSet},
    fmt,
};

/// The change that counts where nothing else is asked for.
pub const THRESHOLD: f64 = 0.05;

/// The false discovery rate where nothing else is asked for.
pub const FALSE_DISCOVERIES: f64 = 0.05;

/// What to compare by.
#[derive(Clone, Debug)]
pub struct Options {
    /// The relative change that counts, such as 0.05.
    pub threshold: f64,
    /// Expected share of wrong ones among the cases called slower.
    pub false_discoveries: f64,
    /// Whether records of different machines are compared.
    pub across: bool,
    /// What may get slower.
    pub waivers: Vec<Waiver>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            threshold: THRESHOLD,
            false_discoveries: FALSE_DISCOVERIES,
            across: false,
            waivers: Vec::new(),
        }
    }
}

/// Records, compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// A: what is compared against, one or several runs.
    pub before: Vec<RunSummary>,
    /// B: what is judged.
    pub after: Vec<RunSummary>,
    /// The relative change that counts, such as 0.05.
    pub threshold: f64,
    /// Expected share of wrong ones among the cases called slower.
    pub false_discoveries: f64,
    /// Standard deviation of a case between runs, as a share; median over the cases. `None` where a
    /// side has a single run, which does not tell.
    pub scatter: Option<f64>,
    /// Groups of cases that changed together.
    pub groups: Vec<Group>,
    /// One for each case that any record planned: in A's order, then what only B has.
    pub rows: Vec<ComparedCase>,
    /// Why the comparison may mislead, in words.
    pub warnings: Vec<String>,
}

/// One of the records.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
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
    /// The user's words for the run.
    pub label: Option<String>,
    /// The directory that it was read from, as the command line names it.
    pub place: Option<String>,
}

/// One case.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedCase {
    /// Which.
    pub case: Case,
    /// What became of it.
    pub fate: Fate,
    /// In numbers, where both sides measured it.
    pub change: Option<Change>,
    /// Why there are no numbers, or why they tell nothing.
    pub note: Option<String>,
    /// Whether the single run of B has a state that is slower by more than the threshold than every
    /// state of the single run of A, whatever the medians say.
    pub slower_state: bool,
}

/// A change in numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Median of A; of several runs the geometric mean of their medians.
    pub before: Seconds,
    /// The same of B.
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
    /// Slower by more than the threshold.
    Slower,
    /// Slower or faster by more than the threshold where the runs are so few that they may differ
    /// by themselves: a single run on a side, or a case alone among fewer than 3 + 3 runs.
    Differs,
    /// The runs cannot tell.
    Unclear,
    /// Faster by more than the threshold.
    Faster,
    /// Not changed by more than the threshold, and its interval is narrow enough that a change of
    /// twice the threshold would have shown.
    Same,
    /// Slower, broken or different, which a waiver says not to count.
    Waived,
    /// Measured in A; skipped or not reached in B.
    Lost,
    /// Measured in both, but not the same quantity: in another state of the caches, or with other
    /// work under the same id.
    Incomparable,
    /// A did not measure it.
    NotMeasured,
    /// Not in B's plan.
    OnlyBefore,
    /// Not in A's plan.
    OnlyAfter,
}

impl Fate {
    /// All of them, worst first.
    pub const ALL: [Fate; 12] = [
        Fate::Broken,
        Fate::Slower,
        Fate::Differs,
        Fate::Unclear,
        Fate::Faster,
        Fate::Same,
        Fate::Waived,
        Fate::Lost,
        Fate::Incomparable,
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
            Fate::Differs => "differs",
            Fate::Unclear => "unclear",
            Fate::Faster => "faster",
            Fate::Same => "same",
            Fate::Waived => "waived",
            Fate::Lost => "not run in B",
            Fate::Incomparable => "incomparable",
            Fate::NotMeasured => "not measured",
            Fate::OnlyBefore => "only in A",
            Fate::OnlyAfter => "only in B",
        })
    }
}

/// Why records cannot be compared.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Incomparable {
    /// There is nothing on one side.
    #[error("each side needs at least one record")]
    Nothing,
    /// They were measured on different machines.
    #[error(
        "the records are of different machines ({}): a change may be the machine's. If it is one \
         machine, or if you want the machines compared, add --across", .0.join("; ")
    )]
    DifferentMachines(
        /// What differs, in words.
        Vec<String>,
    ),
    /// One of them is of a stub driver, and another is not.
    #[error(
        "some of the records are of a stub driver, which measures nothing that compares with a GPU"
    )]
    Stub,
    /// A run is given twice as if it were two.
    #[error("the run {0} is given twice: replicates are runs of their own")]
    SameRun(String),
    /// The threshold is not a share.
    #[error("the threshold {0} is not between 0 and 1; write 0.05 for 5 %")]
    Threshold(f64),
    /// The false discovery rate is not a share.
    #[error("the false discovery rate {0} is not between 0 and 1; write 0.05 for 5 %")]
    FalseDiscoveries(f64),
}

impl Comparison {
    /// Compares the runs of B, `after`, with those of A, `before`.
    ///
    /// # Errors
    ///
    /// Where a side has no record, the machines differ, a run is given twice, or an option is not
    /// between 0 and 1.
    pub fn of(
        before: &[Record],
        after: &[Record],
        options: &Options,
    ) -> Result<Comparison, Incomparable> {
        let is_share = |value: f64| value > 0.0 && value < 1.0;
        if !is_share(options.threshold) {
            return Err(Incomparable::Threshold(options.threshold));
        }
        if !is_share(options.false_discoveries) {
            return Err(Incomparable::FalseDiscoveries(options.false_discoveries));
        }
        let mut warnings = comparable(before, after, options.across)?;
        let mut rows = join(before, after);
        let rule =
            Rule { threshold: options.threshold, false_discoveries: options.false_discoveries };
        let mut observed = Vec::new();
        for row in &mut rows {
            row.observed.counts = !options.waivers.iter().any(|one| one.knows(&row.observed.id));
            row.row.slower_state = row.observed.counts && row.slower_by > options.threshold;
            if row.is_judged() {
                observed.push(std::mem::take(&mut row.observed));
            }
        }
        let judgement = judge::judge(&observed, &rule);
        let judged = rows.iter_mut().filter(|row| row.is_judged());
        for ((row, judged), observed) in judged.zip(judgement.cases).zip(&observed) {
            row.take(judged, observed);
        }
        let mut rows: Vec<ComparedCase> = rows.into_iter().map(|row| row.row).collect();
        warnings.extend(waive(&mut rows, &options.waivers));
        Ok(Comparison {
            before: before.iter().map(|record| RunSummary::of(&record.header)).collect(),
            after: after.iter().map(|record| RunSummary::of(&record.header)).collect(),
            threshold: options.threshold,
            false_discoveries: options.false_discoveries,
            scatter: judgement.scatter,
            groups: judgement.groups,
            rows,
            warnings,
        })
    }

    /// How many cases have a fate.
    pub fn count(&self, fate: Fate) -> usize {
        self.rows.iter().filter(|row| row.fate == fate).count()
    }

    /// How many cases are worse in B, slower or broken, and not waived.
    pub fn regressions(&self) -> usize {
        self.count(Fate::Slower) + self.count(Fate::Broken)
    }

    /// Groups that are slower as a whole.
    pub fn slower_groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().filter(|group| group.way == Direction::Slower)
    }

    /// How many cases took longer in B, which so few runs may do by themselves.
    pub fn longer(&self) -> usize {
        let longer = |row: &&ComparedCase| {
            row.fate == Fate::Differs && row.change.is_some_and(|change| change.ratio > 1.0)
        };
        self.rows.iter().filter(longer).count()
    }

    /// How many cases that the runs cannot judge have a slower state in B alone.
    pub fn slower_states(&self) -> usize {
        self.rows.iter().filter(|row| row.fate == Fate::Unclear && row.slower_state).count()
    }

    /// The verdict on B. A case or a group that got slower, or a case that broke, fails it. It is
    /// inconclusive where too few runs differ to the worse, where a case has a slower state in B
    /// alone, or where more cases are unclear, not run or incomparable than are judged, or none is.
    /// A case that differs to the better is judged: it has not got worse.
    pub fn verdict(&self) -> Verdict {
        let count = |fate| self.count(fate);
        let shorter = count(Fate::Differs) - self.longer();
        let judged = count(Fate::Same) + count(Fate::Faster) + shorter;
        let unknown = count(Fate::Unclear) + count(Fate::Lost) + count(Fate::Incomparable);
        let is_worse = self.regressions() > 0 || self.slower_groups().next().is_some();
        let regressed = is_worse.then_some(Verdict::Fail);
        let waived = (self.count(Fate::Waived) > 0).then_some(Verdict::Waived);
        let passed = (judged > 0).then_some(Verdict::Pass);
        let may_be_worse = self.longer() + self.slower_states() > 0;
        let unclear = (unknown > judged || may_be_worse).then_some(Verdict::Inconclusive);
        Verdict::on_all([regressed, waived, passed, unclear].into_iter().flatten())
    }
}

/// Applies waivers; what they waived that they should not is told in words. A waiver that waives
/// nothing is no error, since the next run may need it again; one whose selector knows no case is a
/// warning.
fn waive(rows: &mut [ComparedCase], waivers: &[Waiver]) -> Vec<String> {
    let mut warnings = Vec::new();
    for waiver in waivers {
        let mut knows_any = false;
        for row in rows.iter_mut().filter(|row| waiver.knows(&row.case.to_string())) {
            knows_any = true;
            if matches!(row.fate, Fate::Slower | Fate::Broken | Fate::Differs) {
                let why = waiver.reason.iter().map(|reason| format!("waived: {reason}"));
                let notes = std::iter::once(row.fate.to_string()).chain(why);
                let notes: Vec<String> = notes.chain(row.note.take()).collect();
                (row.fate, row.note) = (Fate::Waived, Some(notes.join("; ")));
            }
        }
        if !knows_any {
            warnings.push(format!("--waive {:?} knows no case", waiver.words));
        }
    }
    warnings
}

impl RunSummary {
    fn of(header: &Header) -> RunSummary {
        RunSummary {
            run: header.run.clone(),
            started: header.started.clone(),
            fizeau: header.fizeau.clone(),
            suite: header.suite.clone(),
            device: header.device.name.clone(),
            label: header.label.clone(),
            place: None,
        }
    }
}

/// A name for each record: A and B, or A1, A2, ... where there are several.
fn names(letter: &str, records: &[Record]) -> Vec<String> {
    match records {
        [_] => vec![letter.to_owned()],
        several => (1..=several.len()).map(|number| format!("{letter}{number}")).collect(),
    }
}

/// Whether records may be compared; if so, what could explain a change besides B.
fn comparable(
    before: &[Record],
    after: &[Record],
    across: bool,
) -> Result<Vec<String>, Incomparable> {
    let (Some(first), Some(_)) = (before.first(), after.first()) else {
        return Err(Incomparable::Nothing);
    };
    let all: Vec<(String, &Record)> = std::iter::empty()
        .chain(names("A", before).into_iter().zip(before))
        .chain(names("B", after).into_iter().zip(after))
        .collect();
    if all.iter().any(|(_, one)| one.header.device.is_stub() != first.header.device.is_stub()) {
        return Err(Incomparable::Stub);
    }
    let mut runs = HashSet::new();
    let twice = all.iter().find(|(_, one)| !runs.insert(&one.header.run));
    let mut warnings = Vec::new();
    match twice {
        Some((_, one)) if all.len() > 2 => {
            return Err(Incomparable::SameRun(one.header.run.clone()));
        }
        Some((_, one)) => warnings.push(format!("both are the run {}", one.header.run)),
        None => {}
    }
    let against = &all[0];
    let differences: Vec<machine::Difference> = all[1..]
        .iter()
        .flat_map(|(name, one)| {
            let names = [against.0.as_str(), name.as_str()];
            let code = machine::other_code(names, against.1, one);
            machine::differences(names, &against.1.header, &one.header).into_iter().chain(code)
        })
        .collect();
    let machines: Vec<String> =
        differences.iter().filter(|one| one.is_machine).map(|one| one.words.clone()).collect();
    if !machines.is_empty() && !across {
        return Err(Incomparable::DifferentMachines(machines));
    }
    warnings.extend(differences.into_iter().map(|one| one.words));
    warnings.extend(circumstances(&all));
    let last = before.iter().map(|one| &one.header.started).max();
    let next = after.iter().map(|one| &one.header.started).min();
    if all.len() > 2 && last < next {
        warnings.push(
            "all runs of A were made before all of B: what changed on the machine meanwhile looks \
             like a change of B. Take runs in turn, or use `fizeau ab`"
                .into(),
        );
    }
    Ok(warnings)
}

fn circumstances(all: &[(String, &Record)]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (name, record) in all {
        if record.footer.as_ref().is_none_or(|footer| footer.interrupted) {
            warnings.push(format!("{name} did not run to its end"));
        }
        if let Some(load) = record.header.environment.busy_load() {
            warnings.push(format!("{name} started on a busy machine: load average {load:.1}"));
        }
    }
    warnings
}

/// A row with what it is judged by.
struct Joined {
    row: ComparedCase,
    observed: Observed,
    is_single: bool,
    /// By what share the slowest state of B is above that of A; 0 where neither is of two states,
    /// or a side has several runs.
    slower_by: f64,
    /// What the single runs say against themselves, and where they took different candidates.
    doubts: Vec<String>,
}

impl Joined {
    /// Whether there are times on both sides.
    fn is_judged(&self) -> bool {
        self.row.change.is_some() && (self.row.note.is_none() || !self.is_single)
    }

    /// Takes over what was judged.
    fn take(&mut self, judged: Judged, observed: &Observed) {
        let mean = |logs: &[f64]| Seconds((logs.iter().sum::<f64>() / logs.len() as f64).exp());
        let Judged { way, ratio, low, high, reason } = judged;
        let (before, after) = (mean(&observed.before), mean(&observed.after));
        self.row.change = Some(Change { before, after, ratio, low, high });
        self.row.fate = match way {
            Direction::Slower => Fate::Slower,
            Direction::Faster => Fate::Faster,
            Direction::Differs => Fate::Differs,
            Direction::Same => Fate::Same,
            Direction::Unclear => Fate::Unclear,
        };
        let notes = reason.into_iter().chain(std::mem::take(&mut self.doubts));
        let notes: Vec<String> = notes.chain(self.row.note.take()).collect();
        self.row.note = (!notes.is_empty()).then(|| notes.join("; "));
    }
}

/// Pairs the cases of all plans by their ids; fates are yet to come where there are times on both
/// sides.
fn join(before: &[Record], after: &[Record]) -> Vec<Joined> {
    let sides = [Runs::of("A", before), Runs::of("B", after)];
    let mut seen = HashSet::new();
    let planned = before.iter().chain(after).flat_map(|record| &record.header.plan);
    planned.filter(|case| seen.insert(case.to_string())).map(|case| row(case, &sides)).collect()
}

/// The runs of one side.
struct Runs<'r> {
    names: Vec<String>,
    /// Ids of the cases that any of them planned.
    planned: HashSet<String>,
    /// Outcomes of each run by id.
    outcomes: Vec<HashMap<String, &'r Outcome>>,
}

impl<'r> Runs<'r> {
    fn of(letter: &str, records: &'r [Record]) -> Runs<'r> {
        let by_id = |record: &'r Record| {
            record.outcomes.iter().map(|outcome| (outcome.case().to_string(), outcome)).collect()
        };
        let plans = records.iter().flat_map(|record| &record.header.plan);
        Runs {
            names: names(letter, records),
            planned: plans.map(Case::to_string).collect(),
            outcomes: records.iter().map(by_id).collect(),
        }
    }

    /// What became of a case in each run.
    fn each<'s>(
        &'s self,
        id: &'s str,
    ) -> impl Iterator<Item = (&'s str, Option<&'r Outcome>)> + 's {
        let outcomes = self.outcomes.iter().map(move |of| of.get(id).copied());
        self.names.iter().map(String::as_str).zip(outcomes)
    }

    fn measured<'s>(
        &'s self,
        id: &'s str,
    ) -> impl Iterator<Item = (&'s str, &'r Measurement)> + 's {
        self.each(id).filter_map(|(name, outcome)| Some((name, outcome?.measured()?)))
    }

    fn described(&self, id: &str) -> String {
        let each = self.each(id).map(|(name, one)| format!("{name}: {}", describe(one)));
        each.collect::<Vec<_>>().join("; ")
    }
}

fn row<'r>(case: &Case, [a, b]: &[Runs<'r>; 2]) -> Joined {
    let id = case.to_string();
    let is_single = a.names.len() == 1 && b.names.len() == 1;
    let without = |fate, note| {
        let case = case.clone();
        let row = ComparedCase { case, fate, change: None, note, slower_state: false };
        let observed = Observed { id: id.clone(), ..Observed::default() };
        Joined { row, observed, is_single, slower_by: 0.0, doubts: Vec::new() }
    };
    match (a.planned.contains(&id), b.planned.contains(&id)) {
        (true, false) => return without(Fate::OnlyBefore, None),
        (false, _) => return without(Fate::OnlyAfter, None),
        _ => {}
    }
    let is_measured = a.measured(&id).next().is_some();
    let broken = b.each(&id).find(|(_, outcome)| {
        matches!(outcome, Some(Outcome::Failed { .. } | Outcome::Invalid { .. }))
    });
    if let (true, Some((name, outcome))) = (is_measured, broken) {
        return without(Fate::Broken, Some(format!("{name}: {}", describe(outcome))));
    }
    if !is_measured || b.measured(&id).next().is_none() {
        let fate = if is_measured { Fate::Lost } else { Fate::NotMeasured };
        return without(fate, Some(format!("{}; {}", a.described(&id), b.described(&id))));
    }
    let all: Vec<_> = a.measured(&id).chain(b.measured(&id)).collect();
    if let Some(why) = Quantity::mixed(&all) {
        return without(Fate::Incomparable, Some(why));
    }
    let choice = other_choice(&all);
    let note = disturbance(all.into_iter());
    // A disturbed case says nothing of the machine. Of two single runs nothing would be left.
    let counting = |runs: &Runs<'r>| -> Vec<&'r Measurement> {
        let counts = |one: &&'r Measurement| is_single || !one.disturbed();
        runs.measured(&id).map(|(_, one)| one).filter(counts).collect()
    };
    let (of_a, of_b) = (counting(a), counting(b));
    let logs = |runs: &[&Measurement]| -> Vec<f64> {
        runs.iter().map(|one| one.summary.median.0.ln()).collect()
    };
    let (before, after) = (logs(&of_a), logs(&of_b));
    let change = of_a.first().zip(of_b.first()).map(|(a, b)| change(a, b));
    let distance = |of: Change| {
        let middle = of.ratio.ln();
        [(middle - of.low.ln()).max(0.0), (of.high.ln() - middle).max(0.0)]
    };
    let within = change.map_or([0.0; 2], distance);
    let (slower_by, mut doubts) = match (&of_a[..], &of_b[..]) {
        ([a], [b]) if is_single => states(a, b),
        _ => (0.0, Vec::new()),
    };
    doubts.extend(choice);
    let fate = Fate::Unclear;
    let row = ComparedCase { case: case.clone(), fate, change, note, slower_state: false };
    let observed = Observed { id, before, after, within, counts: true };
    Joined { row, observed, is_single, slower_by, doubts }
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
