//! Whether cases changed: times of several runs in, what became of each case and of groups of cases
//! out.
//!
//! Samples of one run know nothing of what differs between runs. Where each side has several
//! runs, their scatter is that noise: a case is judged by a t-test on the logarithms of its
//! medians, whose variance learns from that of the other cases ([`student::typical`]), against
//! the hypothesis that it changed by no more than the threshold. Cases are many, so that the share
//! of wrong ones among those found is what is controlled ([`student::false_discovery`]). What the
//! test finds has to stand out from the other divisions of the same runs too (`divisions`): runs
//! may fall into modes, of which no variance tells. A group of cases is judged in the same way by
//! the middle of its cases, which a change moves that they share.
//!
//! Two runs on each side have few other divisions: a case by itself then differs, and counts as
//! slower only as one of a group that is slower as a whole.
//!
//! A single run on a side tells no such scatter: three runs of A do not say how far a single run of
//! B may lie from them by what is its own, and a t-test calls 30 to 80 % of unchanged B slower.
//! There, as between two single runs, whatever differs by more than the threshold is said to
//! differ. It counts as slower only if it is out of all proportion to what the other cases show:
//! `BEYOND` times as far from equal as the outermost twentieth of them. Changes that many cases
//! share are never that, since a neighbour or a clock explains them too.

use super::divisions;
use fizeau_domain::stats::{
    quantile,
    student::{self, Variance},
};
use std::collections::BTreeMap;

/// A single case among two single runs counts as changed when its ratio is this many times as far
/// from equal as the outermost twentieth of the others. If the drift between runs falls off as
/// slowly as Student's t with two degrees of freedom, the largest of all is beyond that in 4 % of
/// pairs: with k of n cases in the twentieth, the chance is k / c^2, and k = 8 for the 168 cases of
/// suite quick.
const BEYOND: f64 = 14.0;

/// The share of cases whose ratios tell how far single runs drift.
const OUTERMOST: f64 = 0.05;

/// With fewer cases there is no telling how far single runs drift.
const CASES_FOR_DRIFT: usize = 10;

/// Fewer cases are no group.
const GROUP_MIN: usize = 3;

/// A group is mentioned where at least this share of its cases changed in the same direction.
const GROUP_SHARE: f64 = 0.25;

/// Tail probability on each side of a 95 % interval.
const TAIL: f64 = 0.025;

/// The medians of one case that were measured on both sides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Its id, by which cases are grouped.
    pub id: String,
    /// Logarithms of its medians in the runs of A.
    pub before: Vec<f64>,
    /// The same for B.
    pub after: Vec<f64>,
    /// How far the logarithm of B / A may lie below and above itself by the samples within the
    /// runs. What counts where a side has a single run.
    pub within: [f64; 2],
    /// Whether it counts in groups. A case that is waived does not.
    pub counts: bool,
}

impl Observed {
    /// Whether each of its times is a number above zero.
    fn is_finite(&self) -> bool {
        self.before.iter().chain(&self.after).all(|log| log.is_finite())
    }
}

/// What counts as a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// The relative change up to which a case counts as the same, such as 0.05.
    pub threshold: f64,
    /// Expected share of wrong ones among the cases that are called slower (and likewise faster).
    pub false_discoveries: f64,
}

/// Which way a case or a group went, as far as can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Slower by more than the threshold.
    Slower,
    /// Faster by more than the threshold.
    Faster,
    /// It differs by more than the threshold, and so few runs may differ by themselves.
    Differs,
    /// Not changed by more than the threshold.
    Same,
    /// The runs cannot tell.
    Unclear,
}

/// One case, judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Which way it went.
    pub way: Direction,
    /// B / A.
    pub ratio: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Why nothing can be told, where it cannot.
    pub reason: Option<String>,
}

/// Cases whose ids have a part in common.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// A glob that selects them; `*` for all cases.
    pub name: String,
    /// How many cases it has.
    pub cases: usize,
    /// How many of them changed in the direction in which most changed.
    pub changed: usize,
    /// Which way the group as a whole went; `Same` also where its runs cannot tell.
    pub way: Direction,
    /// Median B / A of the cases that changed, or of all where the group changed as a whole.
    pub ratio: f64,
}

/// The judgement on all cases.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// One for each case observed.
    pub cases: Vec<Judged>,
    /// Groups in which many cases changed, or that changed as a whole; the largest first.
    pub groups: Vec<Group>,
    /// Standard deviation of a case between runs, as a share; median over the cases. `None` where a
    /// side has a single run, which does not tell.
    pub scatter: Option<f64>,
}

/// Whether there are runs enough for their scatter to be known: two at least on each side. What a
/// single run has of its own cannot be told from a change.
pub fn is_replicated(before: usize, after: usize) -> bool {
    before.min(after) >= 2
}

/// Judges all cases together.
pub fn judge(observed: &[Observed], rule: &Rule) -> Judgement {
    let has_runs = |one: &Observed| is_replicated(one.before.len(), one.after.len());
    let replicated: Vec<bool> =
        observed.iter().map(|one| has_runs(one) && one.is_finite()).collect();
    let mut cases: Vec<Judged> = observed.iter().map(|one| alone(one, rule)).collect();
    let known = observed.iter().zip(&replicated).filter(|(_, replicated)| **replicated);
    let variances: Vec<Variance> =
        known.map(|(one, _)| own_variance(&one.before, &one.after)).collect();
    if replicated.contains(&true) {
        by_scatter(&mut cases, observed, student::typical(&variances), &replicated, rule);
    } else {
        by_drift(&mut cases, observed, rule);
    }
    let deviations: Vec<f64> = variances.iter().map(|variance| variance.value.sqrt()).collect();
    let scatter = (!deviations.is_empty()).then(|| quantile::median(&deviations));
    let groups = groups(observed, &cases, rule);
    let of_replicated = cases.iter_mut().zip(observed).zip(&replicated);
    for ((case, one), _) in of_replicated.filter(|(_, replicated)| **replicated) {
        take_from_groups(case, one, &groups);
    }
    Judgement { cases, groups, scatter }
}

/// What differs is slower, or faster, where a group that it belongs to is so as a whole.
fn take_from_groups(case: &mut Judged, observed: &Observed, groups: &[Group]) {
    let way = if case.ratio > 1.0 { Direction::Slower } else { Direction::Faster };
    let names = groups_of(&observed.id);
    let is_shared = groups.iter().any(|group| group.way == way && names.contains(&group.name));
    if case.way == Direction::Differs && is_shared && observed.counts {
        (case.way, case.reason) = (way, None);
    }
}

/// What the samples within two single runs say.
fn alone(observed: &Observed, rule: &Rule) -> Judged {
    let limit = rule.threshold.ln_1p();
    let mean = |logs: &[f64]| logs.iter().sum::<f64>() / logs.len() as f64;
    let middle = mean(&observed.after) - mean(&observed.before);
    let (low, high) = (middle - observed.within[0], middle + observed.within[1]);
    let (way, reason) = if low > limit || high < -limit {
        let runs = match (observed.before.len(), observed.after.len()) {
            (1, 1) => "two single runs",
            _ => "a single run on one side",
        };
        (Direction::Differs, Some(format!("{runs}; two and more on each would tell")))
    } else if middle.abs() <= limit && high - low <= 2.0 * limit {
        (Direction::Same, None)
    } else {
        (Direction::Unclear, Some(wide(low, high)))
    };
    Judged { way, ratio: middle.exp(), low: low.exp(), high: high.exp(), reason }
}

fn wide(low: f64, high: f64) -> String {
    let percent = |log: f64| format!("{:+.1} %", log.exp_m1() * 100.0);
    format!("anything from {} to {} is possible", percent(low), percent(high))
}

/// The variance of a run about the mean of its side.
fn own_variance(before: &[f64], after: &[f64]) -> Variance {
    let [(_, a), (_, b)] = [before, after].map(student::mean_and_variance);
    let freedom = a.freedom + b.freedom;
    let squares = a.value * a.freedom + b.value * b.freedom;
    Variance { value: if freedom > 0.0 { squares / freedom } else { 0.0 }, freedom }
}

/// A t-test of the difference of means.
#[derive(Clone, Copy, Debug)]
struct Test {
    difference: f64,
    /// Standard error of the difference.
    error: f64,
    freedom: f64,
}

impl Test {
    /// `typical` is the variance of a run that other cases tell.
    fn of(before: &[f64], after: &[f64], typical: Option<Variance>) -> Test {
        let mean = |runs: &[f64]| runs.iter().sum::<f64>() / runs.len() as f64;
        let Variance { value, freedom } = own_variance(before, after).drawn_to(typical);
        let share = 1.0 / before.len() as f64 + 1.0 / after.len() as f64;
        let difference = mean(after) - mean(before);
        Test { difference, error: (value * share).sqrt(), freedom }
    }

    /// The probability of such a difference or a larger one in the direction of `sign`, if it is no
    /// more than `limit` in truth.
    fn p_value(&self, sign: f64, limit: f64) -> f64 {
        student::upper_tail((sign * self.difference - limit) / self.error, self.freedom)
    }
}

/// The runs of a case, or of a group of cases: those of A and of B.
type Runs<'r> = [&'r [f64]; 2];

/// What is found of a case in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// Nothing.
    No,
    /// A change, which other divisions of the runs show as well.
    AsOthers,
    /// A change.
    Yes,
}

/// What changed by more than the threshold in the direction of `sign`.
fn found(runs: &[Runs<'_>], typical: Option<Variance>, sign: f64, rule: &Rule) -> Vec<Found> {
    let limit = rule.threshold.ln_1p();
    let p_value = |[a, b]: &Runs<'_>| Test::of(a, b, typical).p_value(sign, limit);
    let p_values: Vec<f64> = runs.iter().map(p_value).collect();
    let by_test = student::false_discovery(&p_values, rule.false_discoveries);
    if !by_test.contains(&true) {
        return vec![Found::No; runs.len()];
    }
    let mut divisions: BTreeMap<[usize; 2], Vec<Vec<bool>>> = BTreeMap::new();
    let mut in_others = |[a, b]: &Runs<'_>| -> Vec<f64> {
        let sizes = [a.len(), b.len()];
        let others =
            divisions.entry(sizes).or_insert_with(|| divisions::others(sizes[0], sizes[1]));
        let other = |division: &Vec<bool>| {
            let [a, b] = divisions::divided(a, b, division);
            p_value(&[&a, &b])
        };
        others.iter().map(other).collect()
    };
    let others: Vec<Vec<f64>> = runs.iter().map(&mut in_others).collect();
    let standing = divisions::stand_out(&by_test, &p_values, &others, rule.false_discoveries);
    let found = |(by_test, stands_out)| match (by_test, stands_out) {
        (false, _) => Found::No,
        (true, false) => Found::AsOthers,
        (true, true) => Found::Yes,
    };
    by_test.into_iter().zip(standing).map(found).collect()
}

/// Judges by the scatter of runs.
fn by_scatter(
    cases: &mut [Judged],
    observed: &[Observed],
    typical: Option<Variance>,
    replicated: &[bool],
    rule: &Rule,
) {
    let limit = rule.threshold.ln_1p();
    let judged: Vec<usize> = (0..cases.len()).filter(|&at| replicated[at]).collect();
    let runs_of = |at: usize| [&observed[at].before[..], &observed[at].after[..]];
    let runs: Vec<Runs<'_>> = judged.iter().map(|&at| runs_of(at)).collect();
    let [slower, faster] = [1.0, -1.0].map(|sign| found(&runs, typical, sign, rule));
    let mut quantile = (0.0, 0.0);
    for (place, &at) in judged.iter().enumerate() {
        let [a, b] = runs[place];
        let test = Test::of(a, b, typical);
        if quantile.0 != test.freedom {
            quantile = (test.freedom, student::exceeded_with(TAIL, test.freedom));
        }
        let reach = test.error * quantile.1;
        let middle = test.difference;
        let (low, high) = (middle - reach, middle + reach);
        let is_few = a.len().min(b.len()) < divisions::RUNS_MIN;
        let (way, reason) = match (slower[place], faster[place]) {
            (Found::Yes, _) | (_, Found::Yes) if is_few => {
                (Direction::Differs, Some(few(a.len(), b.len())))
            }
            (Found::Yes, _) => (Direction::Slower, None),
            (_, Found::Yes) => (Direction::Faster, None),
            (Found::AsOthers, _) | (_, Found::AsOthers) => {
                let words = "the runs divided otherwise differ as much: runs may fall into modes";
                (Direction::Unclear, Some(words.to_owned()))
            }
            _ if middle.abs() <= limit && reach <= limit => (Direction::Same, None),
            _ if low > limit || high < -limit => {
                let rate = rule.false_discoveries * 100.0;
                let words = "alone it would count, but not among all cases at a false discovery";
                (Direction::Unclear, Some(format!("{words} rate of {rate:.0} %")))
            }
            _ => (Direction::Unclear, Some(wide(low, high))),
        };
        cases[at] = Judged { way, ratio: middle.exp(), low: low.exp(), high: high.exp(), reason };
    }
    for at in (0..cases.len()).filter(|&at| !replicated[at]) {
        let why = match observed[at].is_finite() {
            true => "too few of the runs measured it undisturbed",
            false => "a run has a time that is no number above zero",
        };
        (cases[at].way, cases[at].reason) = (Direction::Unclear, Some(why.to_owned()));
    }
}

/// Why a case that the test finds does not count by itself.
fn few(before: usize, after: usize) -> String {
    format!("{before} + {after} runs of two modes fall so by chance too often; 3 + 3 would tell")
}

/// Judges single runs by the ratios of all the others.
fn by_drift(cases: &mut [Judged], observed: &[Observed], rule: &Rule) {
    if cases.len() < CASES_FOR_DRIFT {
        return;
    }
    let limit = rule.threshold.ln_1p();
    let distances: Vec<f64> = cases.iter().map(|case| case.ratio.ln().abs()).collect();
    let rising = quantile::sorted(&distances);
    // Of the others: the farthest cases are themselves among those that are counted.
    let outermost = (OUTERMOST * cases.len() as f64).ceil() as usize;
    let drift = rising[cases.len() - 1 - outermost];
    let reach = (BEYOND * drift).max(limit);
    for (case, observed) in cases.iter_mut().zip(observed) {
        let middle = case.ratio.ln();
        if case.way == Direction::Differs && middle - observed.within[0] > reach {
            (case.way, case.reason) = (Direction::Slower, None);
        } else if case.way == Direction::Differs && middle + observed.within[1] < -reach {
            (case.way, case.reason) = (Direction::Faster, None);
        }
    }
}

/// The groups that a case belongs to: all, its operation, that with its next part (an element
/// type, a kind of stream), and its kernel within the operation.
fn groups_of(id: &str) -> Vec<String> {
    let parts: Vec<&str> = id.split('/').collect();
    let mut groups = vec!["*".to_owned()];
    if let [operation, next, .., kernel] = parts[..] {
        groups.extend([
            format!("{operation}/*"),
            format!("{operation}/{next}/*"),
            format!("{operation}/*/{kernel}"),
        ]);
    }
    groups
}

/// Groups of cases in which many changed, or that changed as a whole; the largest first. Of groups
/// that say the same of the same cases only the largest is kept.
pub fn groups(observed: &[Observed], cases: &[Judged], rule: &Rule) -> Vec<Group> {
    let mut members: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, one) in observed.iter().enumerate().filter(|(_, one)| one.counts) {
        for group in groups_of(&one.id) {
            members.entry(group).or_default().push(at);
        }
    }
    members.retain(|_, members| members.len() >= GROUP_MIN);
    let ways = ways_of_groups(observed, &members, rule);
    let mut groups: Vec<Group> = members
        .iter()
        .zip(ways)
        .filter_map(|((name, members), way)| group(name, members, way, cases))
        .collect();
    // The largest first; of two that say the same of the same cases, the more general one.
    groups.sort_by(|a, b| b.cases.cmp(&a.cases).then(a.name.len().cmp(&b.name.len())));
    let mut told: Vec<Group> = Vec::new();
    for group in groups {
        let is_told = told.iter().any(|one| {
            let covers = one.name == "*"
                || group.name.starts_with(one.name.trim_end_matches('*'))
                    && one.name.ends_with("/*");
            let alike = (one.ratio.ln() - group.ratio.ln()).abs() < rule.threshold.ln_1p() / 2.0;
            let as_many = one.changed * group.cases >= group.changed * one.cases;
            covers && alike && as_many && one.way == group.way
        });
        if !is_told {
            told.push(group);
        }
    }
    told
}

/// Which way each group went as a whole, by the middle of its cases in each run; `Same` where that
/// does not show.
fn ways_of_groups(
    observed: &[Observed],
    members: &BTreeMap<String, Vec<usize>>,
    rule: &Rule,
) -> Vec<Direction> {
    let runs = |select: fn(&Observed) -> &Vec<f64>| {
        observed.iter().map(|one| select(one).len()).max().unwrap_or(0)
    };
    let (of_a, of_b) = (runs(|one| &one.before), runs(|one| &one.after));
    if !is_replicated(of_a, of_b) {
        return vec![Direction::Same; members.len()];
    }
    let runs: Vec<[Vec<f64>; 2]> = members
        .values()
        .map(|members| {
            let members = members.iter().map(|&at| &observed[at]);
            let is_whole = |one: &&Observed| {
                one.before.len() == of_a && one.after.len() == of_b && one.is_finite()
            };
            middles(&members.filter(is_whole).collect::<Vec<_>>(), [of_a, of_b])
        })
        .collect();
    // A group of which too few cases were measured in all runs is none.
    let known: Vec<usize> = (0..runs.len()).filter(|&at| !runs[at][0].is_empty()).collect();
    let of_known: Vec<Runs<'_>> =
        known.iter().map(|&at| [&runs[at][0][..], &runs[at][1]]).collect();
    let [slower, faster] = [1.0, -1.0].map(|sign| found(&of_known, None, sign, rule));
    let mut ways = vec![Direction::Same; runs.len()];
    for (place, &at) in known.iter().enumerate() {
        ways[at] = match (slower[place], faster[place]) {
            (Found::Yes, _) => Direction::Slower,
            (_, Found::Yes) => Direction::Faster,
            _ => Direction::Same,
        };
    }
    ways
}

/// Of each run, by how much the middle one of these cases is off from its mean over all runs; none
/// where there are too few cases. The middle, since a single case of a small group moves its mean.
fn middles(cases: &[&Observed], [of_a, of_b]: [usize; 2]) -> [Vec<f64>; 2] {
    if cases.len() < GROUP_MIN {
        return [Vec::new(), Vec::new()];
    }
    let mean =
        |one: &&Observed| one.before.iter().chain(&one.after).sum::<f64>() / (of_a + of_b) as f64;
    let means: Vec<f64> = cases.iter().map(mean).collect();
    let middle = |select: fn(&Observed) -> &Vec<f64>, run: usize| {
        let off = |(one, mean): (&&Observed, &f64)| select(one)[run] - mean;
        quantile::median(&cases.iter().zip(&means).map(off).collect::<Vec<f64>>())
    };
    [
        (0..of_a).map(|run| middle(|one| &one.before, run)).collect(),
        (0..of_b).map(|run| middle(|one| &one.after, run)).collect(),
    ]
}

fn group(name: &str, members: &[usize], whole: Direction, cases: &[Judged]) -> Option<Group> {
    let changed_to = |is_up: bool| -> Vec<f64> {
        let changed = |case: &&Judged| {
            matches!(case.way, Direction::Slower | Direction::Faster | Direction::Differs)
                && (case.ratio > 1.0) == is_up
        };
        members.iter().map(|&at| &cases[at]).filter(changed).map(|case| case.ratio).collect()
    };
    let (up, down) = (changed_to(true), changed_to(false));
    let most = if up.len() >= down.len() { up } else { down };
    let enough = most.len() >= GROUP_MIN && most.len() as f64 >= GROUP_SHARE * members.len() as f64;
    if !enough && whole == Direction::Same {
        return None;
    }
    let all: Vec<f64> = members.iter().map(|&at| cases[at].ratio).collect();
    let ratio = quantile::median(if whole == Direction::Same { &most } else { &all });
    Some(Group {
        name: name.to_owned(),
        cases: members.len(),
        changed: most.len(),
        way: whole,
        ratio,
    })
}
