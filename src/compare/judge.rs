//! Whether cases changed: times of several runs in, what became of each case and of groups of cases
//! out.
//!
//! Samples of one run know nothing of what differs between runs. Where each side has several
//! runs, their scatter is that noise: a case is judged by a t-test on the logarithms of its
//! medians, whose variance learns from that of the other cases ([`student::moderated`]), against
//! the hypothesis that it changed by no more than the threshold. Cases are many, so that the share
//! of wrong ones among those found is what is controlled ([`student::false_discovery`]). A group of
//! cases is judged in the same way by its mean, which a change shows that all of them share.
//!
//! A single run on a side tells no such scatter: three runs of A do not say how far a single run of
//! B may lie from them by what is its own, and a t-test calls 30 to 80 % of unchanged B slower.
//! There, as between two single runs, whatever differs by more than the threshold is said to
//! differ. It counts as slower only if it is out of all proportion to what the other cases show:
//! `BEYOND` times as far from equal as the outermost twentieth of them. Changes that many cases
//! share are never that, since a neighbour or a clock explains them too.

use crate::stats::{
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
    /// It differs by more than the threshold, and a side has a single run, which may differ by
    /// itself.
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
    let replicated: Vec<bool> =
        observed.iter().map(|one| is_replicated(one.before.len(), one.after.len())).collect();
    let mut cases: Vec<Judged> = observed.iter().map(|one| alone(one, rule)).collect();
    let tests = tests(observed);
    if replicated.contains(&true) {
        by_scatter(&mut cases, &tests, &replicated, rule);
    } else {
        by_drift(&mut cases, observed, rule);
    }
    let deviations: Vec<f64> = tests
        .iter()
        .zip(&replicated)
        .filter(|(_, replicated)| **replicated)
        .map(|(test, _)| test.own.value.sqrt())
        .collect();
    let scatter = (!deviations.is_empty()).then(|| quantile::median(&deviations));
    let groups = groups(observed, &cases, rule);
    Judgement { cases, groups, scatter }
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

/// A t-test of the difference of means.
#[derive(Clone, Copy, Debug)]
struct Test {
    difference: f64,
    /// The variance of a run, from these runs alone, and with what other cases tell.
    own: Variance,
    moderated: Variance,
    /// 1 / runs of A + 1 / runs of B.
    share: f64,
}

impl Test {
    fn of(before: &[f64], after: &[f64]) -> Test {
        let (a, in_a) = student::mean_and_variance(before);
        let (b, in_b) = student::mean_and_variance(after);
        let freedom = in_a.freedom + in_b.freedom;
        let squares = in_a.value * in_a.freedom + in_b.value * in_b.freedom;
        let own = Variance { value: if freedom > 0.0 { squares / freedom } else { 0.0 }, freedom };
        let share = 1.0 / before.len() as f64 + 1.0 / after.len() as f64;
        Test { difference: b - a, own, moderated: own, share }
    }

    fn error(&self) -> f64 {
        (self.moderated.value * self.share).sqrt()
    }

    /// The probability of such a difference or a larger one in the direction of `sign`, if it is no
    /// more than `limit` in truth.
    fn p_value(&self, sign: f64, limit: f64) -> f64 {
        student::upper_tail((sign * self.difference - limit) / self.error(), self.moderated.freedom)
    }
}

fn tests(observed: &[Observed]) -> Vec<Test> {
    let mut tests: Vec<Test> =
        observed.iter().map(|one| Test::of(&one.before, &one.after)).collect();
    let variances: Vec<Variance> = tests.iter().map(|test| test.own).collect();
    for (test, moderated) in tests.iter_mut().zip(student::moderated(&variances)) {
        test.moderated = moderated;
    }
    tests
}

/// Judges by the scatter of runs.
fn by_scatter(cases: &mut [Judged], tests: &[Test], replicated: &[bool], rule: &Rule) {
    let limit = rule.threshold.ln_1p();
    let judged: Vec<usize> = (0..cases.len()).filter(|&at| replicated[at]).collect();
    let found = |sign: f64| {
        let p_values: Vec<f64> = judged.iter().map(|&at| tests[at].p_value(sign, limit)).collect();
        student::false_discovery(&p_values, rule.false_discoveries)
    };
    let (slower, faster) = (found(1.0), found(-1.0));
    let mut quantile = (0.0, 0.0);
    for (place, &at) in judged.iter().enumerate() {
        let test = &tests[at];
        if quantile.0 != test.moderated.freedom {
            let freedom = test.moderated.freedom;
            quantile = (freedom, student::exceeded_with(TAIL, freedom));
        }
        let reach = test.error() * quantile.1;
        let middle = test.difference;
        let (low, high) = (middle - reach, middle + reach);
        let (way, reason) = if slower[place] {
            (Direction::Slower, None)
        } else if faster[place] {
            (Direction::Faster, None)
        } else if middle.abs() <= limit && reach <= limit {
            (Direction::Same, None)
        } else if low > limit || high < -limit {
            let rate = rule.false_discoveries * 100.0;
            let words = "alone it would count, but not among all cases at a false discovery";
            (Direction::Unclear, Some(format!("{words} rate of {rate:.0} %")))
        } else {
            (Direction::Unclear, Some(wide(low, high)))
        };
        cases[at] = Judged { way, ratio: middle.exp(), low: low.exp(), high: high.exp(), reason };
    }
    for (case, _) in cases.iter_mut().zip(replicated).filter(|(_, replicated)| !**replicated) {
        case.way = Direction::Unclear;
        case.reason = Some("too few of the runs measured it undisturbed".to_owned());
    }
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

/// Which way each group went as a whole, by the means of its runs; `Same` where that does not show.
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
    let limit = rule.threshold.ln_1p();
    let p_values = |sign: f64| -> Vec<f64> {
        let of_group = |members: &Vec<usize>| {
            let whole = |at: &&usize| {
                observed[**at].before.len() == of_a && observed[**at].after.len() == of_b
            };
            let whole: Vec<&Observed> =
                members.iter().filter(whole).map(|&at| &observed[at]).collect();
            if whole.len() < GROUP_MIN {
                return 1.0;
            }
            let mean = |select: fn(&Observed) -> &Vec<f64>, run: usize| {
                whole.iter().map(|one| select(one)[run]).sum::<f64>() / whole.len() as f64
            };
            let before: Vec<f64> = (0..of_a).map(|run| mean(|one| &one.before, run)).collect();
            let after: Vec<f64> = (0..of_b).map(|run| mean(|one| &one.after, run)).collect();
            Test::of(&before, &after).p_value(sign, limit)
        };
        members.values().map(of_group).collect()
    };
    let slower = student::false_discovery(&p_values(1.0), rule.false_discoveries);
    let faster = student::false_discovery(&p_values(-1.0), rule.false_discoveries);
    let way = |(slower, faster)| match (slower, faster) {
        (true, _) => Direction::Slower,
        (_, true) => Direction::Faster,
        _ => Direction::Same,
    };
    slower.into_iter().zip(faster).map(way).collect()
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
