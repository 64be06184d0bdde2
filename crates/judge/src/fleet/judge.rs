//! The verdict on each GPU in each metric, by the decision of [`crate::accept::decide`].

use super::{
    Dependence, Group,
    between::{Neighbours, of_medians, session},
    doubt::{self, Doubt},
};
use crate::accept::decide::{
    Against, Bar, FALSE_DISCOVERIES, FALSE_PASS, MEDIAN, Others, PEERS_MIN, Standing,
    error_of_median, is_too_noisy, noise, noise_of, sum,
};
use fizeau_domain::{
    stats::{
        quantile::{median, median_absolute_deviation, sorted},
        student::{self, Variance},
    },
    verdict::Verdict,
};
use serde::Serialize;
use std::collections::{HashMap, HashSet};

/// Probability with which a GPU that loses what a metric is said to see is found.
pub const POWER: f64 = 0.9;

/// In a stratum of fewer nodes no GPU passes, since the GPUs of one node may all be slow; and of
/// two nodes none fails beside the other, since either may be the one that is not as it should be.
pub const NODES_MIN: usize = 3;

/// Rates of devices of one stratum above their median, at most: devices of the same part, firmware
/// and driver differ by a tenth. What is faster is none of their kind, or was measured wrongly.
pub const FASTER_MAX: f64 = 1.5;

/// More repeats than these are not proposed.
pub const REPEATS_MAX: usize = 99;

/// Of fewer GPUs the reference is made anew for each, without its own values. Of more, the own
/// values are left out of the median alone, since they cannot move the spread.
const EXACT_MAX: usize = 64;

/// How errors are controlled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Settings {
    /// Expected share of wrong ones among all that fail.
    pub false_discoveries: f64,
    /// How GPUs may depend on each other.
    pub dependence: Dependence,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { false_discoveries: FALSE_DISCOVERIES, dependence: Dependence::Positive }
    }
}

/// Why a verdict is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Above or below its bar, as sure as was asked for.
    Decided,
    /// Its stratum has too few other GPUs, and there is no floor.
    TooFew,
    /// Its stratum has fewer than [`NODES_MIN`] nodes: what slows all GPUs of a node down is not
    /// seen there.
    Alone,
    /// Two bundles that are not both signed say different things of it.
    Disputed,
    /// No GPU of the stratum was measured twice: the noise is not known.
    NoRepeats,
    /// Its repeats scatter by more than a third of the least effect.
    TooNoisy,
    /// Too near to its bar for its repeats.
    TooClose,
    /// Faster than a device of its stratum can be: a unit, a size or a name is wrong.
    TooFast,
    /// Below its bar in this session, by no more than sessions may differ: another one decides.
    OneSession,
}

/// One metric of one GPU, judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// Pass, fail or inconclusive.
    pub verdict: Verdict,
    /// Why.
    pub why: Why,
    /// Which bar decided, or was nearest.
    pub against: Against,
    /// 1 less the median rate over the floor, where there is one; negative above it.
    pub below_floor: Option<f64>,
    /// Whether there are others that it was set beside.
    pub has_peers: bool,
    /// Logarithm of the median rate.
    pub log: f64,
    /// 1 less the median rate over that of the others of the stratum.
    pub loss: f64,
    /// Standard error of `loss`.
    pub error: f64,
    /// The probability of so low a rate if the loss were just the least effect. 0.5 stands for all
    /// rates well above the bar.
    pub probability: f64,
    /// Repeats.
    pub repeats: u32,
    /// Repeats in all that may decide it, where it is too close; 0 where nothing is known.
    pub needed: u32,
}

/// One metric of one stratum, as a whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Whole {
    /// GPUs that were measured.
    pub gpus: usize,
    /// Median number of repeats.
    pub repeats: usize,
    /// Median rate, as a logarithm.
    pub log: f64,
    /// Standard deviation of one repeat, as a share.
    pub noise: f64,
    /// Degrees of freedom that `noise` was estimated with; 0 where no GPU has two repeats.
    pub freedom: f64,
    /// Standard deviation of the GPUs' medians, as a share, robust.
    pub spread: f64,
    /// Standard deviation of a session beyond that of its repeats, as a share.
    pub session: f64,
    /// Whether `session` is what earlier sessions show, and is not assumed.
    pub is_session_known: bool,
    /// Whether the repeats scatter too much for the stratum to fail a GPU.
    pub is_gated: bool,
    /// The least loss that these repeats find with a probability of [`POWER`]; none where the
    /// metric cannot fail a GPU.
    pub sees: Option<f64>,
    /// Repeats that would find a loss of twice the least effect with that probability.
    pub needed: Option<usize>,
    /// In what the noise is not as the test assumes.
    pub doubts: Vec<Doubt>,
}

/// The verdicts of a fleet.
#[derive(Clone, Debug, PartialEq)]
pub struct Survey {
    /// By group.
    pub wholes: Vec<Whole>,
    /// By group and row.
    pub judged: Vec<Vec<Judged>>,
    /// How many tests false discoveries were controlled over.
    pub tests: usize,
    /// The probability up to which a GPU fails.
    pub threshold: f64,
}

/// What is known of a row before false discoveries are controlled.
struct Row {
    log: f64,
    repeats: usize,
    /// Variance of `log`.
    error: Variance,
    /// By its stratum, where that may decide.
    stratum: Option<Standing>,
    floor: Option<Standing>,
    /// Beside a device of the stratum that loses nothing, in any of its sessions.
    healthy: Option<Standing>,
    /// The same two beside its node's other devices, where whole nodes differ and it is below the
    /// bar of its stratum.
    beside: Option<[Standing; 2]>,
    centre: f64,
}

/// What is known of a group.
struct Known {
    pooled: Variance,
    is_gated: bool,
    /// Variance of one session beyond that of its repeats.
    session: Variance,
    /// Where whole nodes differ.
    neighbours: Option<Neighbours>,
    rows: Vec<Row>,
    /// Nodes of its GPUs.
    nodes: usize,
}

/// Judges all groups of a fleet at once. `nodes` is the node of each GPU.
pub fn judge(groups: &[Group], nodes: &[u32], settings: &Settings) -> Survey {
    let known: Vec<Known> = groups.iter().map(|group| Known::of(group, nodes)).collect();
    let mut probabilities = Vec::new();
    for one in &known {
        let rows = one.rows.iter();
        probabilities.extend(rows.filter_map(|row| one.probability(row)));
    }
    let tests = probabilities.len();
    let rate = settings.dependence.rate(settings.false_discoveries, tests);
    let limit = student::false_discovery_limit(&probabilities, rate);
    let refused = |limit: f64| probabilities.iter().filter(|p| **p <= limit).count();
    // One more would be refused up to here. No probability is between the limit and this.
    let threshold = rate * (limit.map_or(0, refused) + 1) as f64 / tests.max(1) as f64;
    let mut survey = Survey { wholes: Vec::new(), judged: Vec::new(), tests, threshold };
    for (group, known) in groups.iter().zip(&known) {
        let mut critical = Critical::default();
        let judge = |row: &Row| known.judged(row, threshold, &mut critical);
        let judged: Vec<Judged> = known.rows.iter().map(judge).collect();
        survey.wholes.push(known.whole(group, nodes, threshold));
        survey.judged.push(judged);
    }
    survey
}

/// The t that a rate must have above its bar to pass, which is the same for nearly all rows.
#[derive(Default)]
struct Critical {
    freedom: f64,
    t: f64,
}

impl Critical {
    fn passes(&mut self, standing: &Standing) -> bool {
        if standing.t <= 0.0 {
            return false;
        }
        let freedom = standing.freedom.max(1.0);
        if self.freedom.to_bits() != freedom.to_bits() {
            *self = Critical { freedom, t: student::exceeded_with(FALSE_PASS, freedom) };
        }
        standing.t >= self.t
    }
}

/// A rate this many standard errors below its bar, or higher, is refused at no rate that is used:
/// its probability is above 0.15.
const CLEAR: f64 = -1.0;

fn probability(standing: &Standing) -> f64 {
    if standing.t > CLEAR { 0.5 } else { standing.below() }
}

/// No row has more weight in the noise of all than this many times the usual number of repeats: one
/// node could make every other one inconclusive by repeating itself.
const REPEATS_WEIGHED: usize = 4;

/// The repeats of each row that the noise of all is estimated from.
fn weighed<'v>(rows: &[&'v [f64]]) -> Vec<&'v [f64]> {
    let counts: Vec<f64> = rows.iter().map(|values| values.len() as f64).collect();
    let usual = if counts.is_empty() { 0 } else { median(&counts).ceil() as usize };
    let most = (usual * REPEATS_WEIGHED).max(REPEATS_WEIGHED);
    rows.iter().map(|values| &values[..values.len().min(most)]).collect()
}

impl Known {
    fn of(group: &Group, nodes: &[u32]) -> Known {
        let weights = Weights::of(group, nodes);
        let rows: Vec<&[f64]> = group.rows().collect();
        let pooled = noise(&weighed(&rows));
        let is_known = pooled.freedom > 0.0;
        let is_gated = is_known && is_too_noisy(pooled, group.least_effect);
        let centres: Vec<f64> = rows.iter().map(|values| median(values)).collect();
        let least = rows.iter().map(|values| values.len()).min().unwrap_or(1);
        let references = References::of(&centres, least, &weights.counts);
        let of_session = { rows.iter().enumerate() }
            .map(|(at, values)| values.len() / usize::from(group.of(at).sessions.max(1)));
        let of_session = of_session.min().unwrap_or(1);
        let session = session(group, &centres, pooled, of_session);
        let of_repeats = error_of_median(pooled, of_session.max(1)).value;
        let neighbours = Neighbours::of(group, &centres, nodes, of_repeats);
        let row = |(at, values): (usize, &&[f64])| {
            let own = noise_of(values, pooled);
            let error = error_of_median(own, values.len());
            let others = references.without(at);
            let may_fail = !is_gated && is_known && !is_too_noisy(own, group.least_effect);
            let beside_others = may_fail && weights.nodes != 2;
            let bar = others.map(|others| Bar {
                may_pass: true,
                may_fail: beside_others,
                ..others.bar(pooled, group.least_effect)
            });
            let stand = |bar: &Bar| Standing::of(centres[at], error, bar);
            let of = group.of(at);
            let beside_healthy = |bar: &Bar| {
                let value = session.value * of_medians(of.sessions);
                let of_sessions = Variance { value, ..session };
                let bar = Bar { log: bar.log - (1.0 - group.least_effect).ln(), ..*bar };
                Standing::of(centres[at], sum(&[error, of_sessions]), &bar)
            };
            let beside = neighbours.as_ref().filter(|_| beside_others);
            let beside = beside.and_then(|all| all.standings(group, at, (centres[at], error)));
            let is_below = bar.is_some_and(|bar| centres[at] < bar.log);
            let floor_may_fail = may_fail && of.floor_may_fail;
            let floor_bar = |log: f64| floor_bar(log, floor_may_fail);
            Row {
                log: centres[at],
                repeats: values.len(),
                error,
                stratum: bar.as_ref().map(stand).filter(|_| is_known),
                floor: group.floor.map(floor_bar).as_ref().map(stand).filter(|_| is_known),
                healthy: bar.as_ref().map(beside_healthy),
                beside: beside.filter(|_| is_below),
                centre: others.map_or(centres[at], |others| others.centre),
            }
        };
        let rows = rows.iter().enumerate().map(row).collect();
        Known { pooled, is_gated, session, neighbours, rows, nodes: weights.nodes }
    }

    /// The probability by which a row may fail: the least under any bar, times their number. None
    /// where no bar may fail it.
    fn probability(&self, row: &Row) -> Option<f64> {
        let bars = row.failing();
        let count = bars.clone().count();
        let least = bars.map(|one| row.probability(&one)).fold(f64::INFINITY, f64::min);
        (count > 0).then(|| (least * count as f64).min(1.0))
    }

    fn judged(&self, row: &Row, threshold: f64, critical: &mut Critical) -> Judged {
        let p = self.probability(row);
        let is_below = p.is_some_and(|p| p <= threshold);
        let stands = [row.stratum, row.floor].into_iter().flatten();
        let passes = row.stratum.is_some() && { stands }.all(|one| critical.passes(&one));
        let lowest = row.failing().min_by(|a, b| {
            let order = row.probability(a).total_cmp(&row.probability(b));
            order.then(a.t.total_cmp(&b.t))
        });
        let is_slow_now = |one: &Standing| one.bar.may_fail && probability(one) <= threshold;
        let (verdict, why) = match row.stratum {
            _ if is_below => (Verdict::Fail, Why::Decided),
            _ if self.pooled.freedom <= 0.0 => (Verdict::Inconclusive, Why::NoRepeats),
            None => (Verdict::Inconclusive, Why::TooFew),
            Some(_) if self.nodes < NODES_MIN => (Verdict::Inconclusive, Why::Alone),
            Some(_) if row.log - row.centre > FASTER_MAX.ln() => {
                (Verdict::Inconclusive, Why::TooFast)
            }
            // What is above the bar for all its noise passes.
            Some(_) if passes => (Verdict::Pass, Why::Decided),
            Some(one) if !one.bar.may_fail => (Verdict::Inconclusive, Why::TooNoisy),
            Some(one) if is_slow_now(&one) => (Verdict::Inconclusive, Why::OneSession),
            Some(_) => (Verdict::Inconclusive, Why::TooClose),
        };
        let needed = match (why, row.stratum) {
            (Why::TooClose, Some(one)) => needed(row, &one, threshold),
            // As many again, in another session.
            (Why::OneSession, _) => 2 * row.repeats,
            _ => 0,
        };
        Judged {
            verdict,
            why,
            against: lowest.map_or(Against::Peers, |one| one.bar.against),
            log: row.log,
            below_floor: row.floor.map(|one| 1.0 - (row.log - one.bar.log).exp()),
            has_peers: row.stratum.is_some(),
            loss: 1.0 - (row.log - row.centre).exp(),
            error: row.error.value.sqrt(),
            probability: p.unwrap_or(1.0),
            repeats: row.repeats as u32,
            needed: needed.min(REPEATS_MAX) as u32,
        }
    }

    fn whole(&self, group: &Group, nodes: &[u32], threshold: f64) -> Whole {
        if self.rows.is_empty() {
            return Whole::empty();
        }
        let centres: Vec<f64> = self.rows.iter().map(|row| row.log).collect();
        let counts: Vec<f64> = self.rows.iter().map(|row| row.repeats as f64).collect();
        let repeats = median(&counts).round() as usize;
        let noise = self.pooled.value.sqrt();
        let may_fail = !self.is_gated && self.rows.iter().any(|row| row.failing().count() > 0);
        let reach = Reach::of(self, group.least_effect, threshold).filter(|_| may_fail);
        let twice =
            (1.0 - 2.0 * group.least_effect).max(0.01).ln() - (1.0 - group.least_effect).ln();
        Whole {
            gpus: self.rows.len(),
            repeats,
            log: median(&centres),
            noise,
            freedom: self.pooled.freedom,
            spread: 1.4826 * median_absolute_deviation(&centres),
            session: self.session.value.sqrt(),
            is_session_known: group.sessions.is_some(),
            is_gated: self.is_gated,
            sees: reach
                .map(|one| 1.0 - (1.0 - group.least_effect) * (-one.distance(repeats)).exp()),
            needed: reach.and_then(|one| one.repeats(-twice)),
            doubts: doubt::doubts(group, &centres, self.pooled, nodes),
        }
    }
}

impl Whole {
    fn empty() -> Whole {
        Whole {
            gpus: 0,
            repeats: 0,
            log: f64::NAN,
            noise: 0.0,
            freedom: 0.0,
            spread: 0.0,
            session: 0.0,
            is_session_known: false,
            is_gated: false,
            sees: None,
            needed: None,
            doubts: Vec::new(),
        }
    }
}

/// The shares of the error that a device may be failed with beside all and beside its neighbours,
/// where whole nodes differ (Bonferroni, weighted): what is of one device shows beside these, and
/// only what is of a whole node beside all alone.
const BESIDE: [f64; 2] = [0.1, 0.9];

impl Row {
    /// Bars that may fail it.
    fn failing(&self) -> impl Iterator<Item = Standing> + Clone {
        [self.stratum, self.floor].into_iter().flatten().filter(|one| one.bar.may_fail)
    }

    /// The probability of so low a rate just at a bar. Beside its stratum a device has to be lower
    /// than a healthy one in another session, too: the larger of both. Where whole nodes differ,
    /// beside its neighbours instead ([`BESIDE`]).
    fn probability(&self, standing: &Standing) -> f64 {
        let own = probability(standing);
        let (Against::Peers, Some(healthy)) = (standing.bar.against, self.healthy) else {
            return own;
        };
        let beside_all = own.max(probability(&healthy));
        let of_node = self.beside.map(|both| both.iter().map(probability).fold(0.0, f64::max));
        let either = |beside: f64| (beside_all / BESIDE[0]).min(beside / BESIDE[1]).min(1.0);
        of_node.map_or(beside_all, either)
    }
}

fn floor_bar(log: f64, may_fail: bool) -> Bar {
    Bar {
        against: Against::Floor,
        log,
        error: Variance { value: 0.0, freedom: f64::INFINITY },
        may_pass: true,
        may_fail,
    }
}

/// How far from the bar a GPU has to be to be found, by its repeats.
#[derive(Clone, Copy)]
struct Reach {
    /// Standard errors from the bar.
    t: f64,
    noise: f64,
    /// Variance of the bar.
    bar: f64,
    /// Variance of a session.
    session: f64,
    /// How far the bar is below the others.
    effect: f64,
}

impl Reach {
    fn of(known: &Known, least_effect: f64, threshold: f64) -> Option<Reach> {
        let one = known.rows.iter().find_map(|row| row.stratum)?;
        let freedom = one.freedom.max(1.0);
        let tail = threshold.clamp(1e-300, 0.25);
        let beside_all = (tail, one.bar.error.value, known.session.value);
        let (tail, bar, session) = known
            .neighbours
            .as_ref()
            .map_or(beside_all, |all| (BESIDE[1] * tail, all.error_of_bar(), all.session.value));
        let t =
            student::exceeded_with(tail, freedom) + student::exceeded_with(1.0 - POWER, freedom);
        Some(Reach {
            t,
            noise: known.pooled.value,
            bar,
            session,
            effect: -(1.0 - least_effect).ln(),
        })
    }

    /// Distance from the bar, as a logarithm, that this many repeats see.
    fn distance(&self, repeats: usize) -> f64 {
        let own = MEDIAN * self.noise / repeats.max(1) as f64 + self.bar;
        // Below its bar, and below what a healthy one may reach in a session.
        (self.t * own.sqrt()).max(self.t * (own + self.session).sqrt() - self.effect)
    }

    /// Repeats that see a distance; none where not even [`REPEATS_MAX`] do.
    fn repeats(&self, distance: f64) -> Option<usize> {
        (3..=REPEATS_MAX).find(|repeats| self.distance(*repeats) <= distance)
    }
}

/// Repeats in all that may decide a row that is too close to its bar where it stands now; 0 where
/// not even [`REPEATS_MAX`] would.
fn needed(row: &Row, standing: &Standing, threshold: f64) -> usize {
    let distance = (row.log - standing.bar.log).abs();
    let freedom = standing.freedom.max(1.0);
    let tail = if standing.t < 0.0 { threshold.clamp(1e-300, 0.25) } else { FALSE_PASS };
    let t = student::exceeded_with(tail, freedom);
    let of_one = row.error.value * row.repeats as f64;
    let error = |repeats: usize| of_one / repeats as f64 + standing.bar.error.value;
    let more = row.repeats + 1..=REPEATS_MAX;
    { more }.find(|repeats| t * error(*repeats).sqrt() <= distance).unwrap_or(0)
}

/// Which GPUs of a group are a reference for the others.
struct Weights {
    /// By row.
    counts: Vec<bool>,
    /// Nodes.
    nodes: usize,
}

impl Weights {
    /// A node with more than twice the GPUs of the median node would decide what is usual: its GPUs
    /// are judged, and are no reference. Where that leaves too few, all of them are. What nobody
    /// knows the truth of is never one: its sender could say what is usual.
    fn of(group: &Group, nodes: &[u32]) -> Weights {
        let node = |row: usize| nodes[group.gpu(row) as usize];
        let mut sizes: HashMap<u32, usize> = HashMap::new();
        (0..group.len()).for_each(|row| *sizes.entry(node(row)).or_default() += 1);
        let of_nodes: Vec<f64> = sizes.values().map(|size| *size as f64).collect();
        let usual = if of_nodes.is_empty() { 0.0 } else { median(&of_nodes) };
        let is_usual = |row: usize| sizes[&node(row)] as f64 <= 2.0 * usual;
        let mut counts: Vec<bool> = (0..group.len()).map(is_usual).collect();
        let left = (0..group.len()).filter(|row| counts[*row]).map(node);
        if left.collect::<HashSet<u32>>().len() < NODES_MIN {
            counts.fill(true);
        }
        let is_known = |row: &usize| group.of(*row).is_reference;
        (0..group.len()).for_each(|row| counts[row] &= is_known(&row));
        let known: HashSet<u32> = (0..group.len()).filter(is_known).map(node).collect();
        Weights { counts, nodes: known.len() }
    }
}

/// What the GPUs of a stratum reach, without one of them.
struct References<'c> {
    centres: &'c [f64],
    /// Which of them are a reference.
    counts: &'c [bool],
    sorted: Vec<f64>,
    /// Of all of them.
    all: Option<Others>,
    repeats: usize,
}

impl<'c> References<'c> {
    fn of(centres: &'c [f64], repeats: usize, counts: &'c [bool]) -> References<'c> {
        let kept = centres.iter().zip(counts).filter(|(_, counts)| **counts);
        let kept: Vec<f64> = kept.map(|(centre, _)| *centre).collect();
        let all = (kept.len() > PEERS_MIN).then(|| Others::of(&kept, repeats));
        References { centres, counts, sorted: sorted(&kept), all, repeats }
    }

    /// What the others of a row reach; none where they are too few.
    fn without(&self, row: usize) -> Option<Others> {
        let all = self.all?;
        if !self.counts[row] {
            return Some(all);
        }
        if self.sorted.len() <= EXACT_MAX {
            let is_other = |at: &usize| *at != row && self.counts[*at];
            let others = (0..self.centres.len()).filter(is_other).map(|at| self.centres[at]);
            let others: Vec<f64> = others.collect();
            return Some(Others::of(&others, self.repeats));
        }
        let own = self.sorted.partition_point(|other| *other < self.centres[row]);
        // The median of all but the one at `own`.
        let at = |place: usize| self.sorted[if place >= own { place + 1 } else { place }];
        let rest = self.sorted.len() - 1;
        let centre = (at((rest - 1) / 2) + at(rest / 2)) / 2.0;
        Some(Others { centre, devices: rest, ..all })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaving_one_out_of_many_is_as_leaving_it_out_of_few() {
        for count in [EXACT_MAX + 1, EXACT_MAX + 2] {
            let centres: Vec<f64> = (0..count).map(|at| ((at * 37) % count) as f64).collect();
            let counts = vec![true; count];
            let references = References::of(&centres, 5, &counts);
            for row in 0..count {
                let mut others = centres.clone();
                others.remove(row);
                let found = references.without(row).expect("enough").centre;
                assert_eq!(found, median(&others), "{row} of {count}");
            }
        }
    }
}
