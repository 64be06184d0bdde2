//! Components that explain slow GPUs: a node, a rack, a leaf switch, a rail. One bad component is
//! named in the place of its members.
//!
//! A component is bad in a metric where its members are slow together: the median of their losses
//! is above the least effect, at a false discovery rate of [`ERROR`] over all components and
//! metrics, and most of its members are slow ([`SLOW_MIN`]). Of several such components
//! the one that explains most slow GPUs is named first, and its members are taken out before the
//! next is looked for. So a node of a bad leaf is not named for the leaf's fault.

use super::{
    Group,
    judge::{Survey, Why},
};
use crate::accept::decide::{Against, Bar, Standing, error_of_median, noise, noise_of};
pub use fizeau_domain::labels::Kind;
use fizeau_domain::{
    stats::{
        quantile::median,
        student::{self, Variance},
    },
    verdict::Verdict,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// Expected share of healthy components among those that are named. Where all are healthy this is
/// the probability that any is named.
pub const ERROR: f64 = 0.01;

/// The least share of a component's members that is slow.
pub const SLOW_MIN: f64 = 0.75;

/// Fewer members are no component: they are named by themselves.
pub const MEMBERS_MIN: usize = 3;

/// A component that is named.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Named {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Components of other kinds with the same GPUs, as `kind name`.
    pub also: Vec<String>,
    /// The metric.
    pub metric: String,
    /// The metric's loss of its members, as a share.
    pub loss: f64,
    /// Its GPUs that were measured, ascending.
    pub gpus: Vec<u32>,
    /// How many of them are slow by themselves.
    pub slow: usize,
    /// Members: nodes, where it has GPUs of several; else GPUs.
    pub members: usize,
    /// Whether members are nodes.
    pub by_node: bool,
}

/// A GPU in one metric.
#[derive(Clone, Copy)]
struct Place {
    gpu: u32,
    /// Logarithm of its rate less that of its reference.
    log: f64,
    is_slow: bool,
}

/// The GPUs of a metric, and its components as lists of places in them.
struct Metric {
    name: String,
    least_effect: f64,
    places: Vec<Place>,
}

/// One component in one metric.
struct Candidate {
    metric: usize,
    kind: usize,
    component: u32,
    places: Vec<u32>,
}

/// The components that are bad. `nodes` is the node of each GPU.
pub fn named(groups: &[Group], survey: &Survey, kinds: &[Kind], nodes: &[u32]) -> Vec<Named> {
    let metrics = metrics(groups, survey);
    let mut left = bad(&metrics, kinds, nodes);
    let mut found = Vec::new();
    let mut explained: Vec<Vec<bool>> =
        metrics.iter().map(|metric| vec![false; metric.places.len()]).collect();
    loop {
        let best = left.iter().enumerate().filter_map(|(at, one)| {
            let metric = &metrics[one.metric];
            let rest = { one.places.iter().copied() }
                .filter(|place| !explained[one.metric][*place as usize]);
            let rest: Vec<u32> = rest.collect();
            let (values, by_node) = members(metric, &rest, nodes);
            let slow = values.iter().filter(|one| one.is_slow).count();
            let is_bad =
                values.len() >= MEMBERS_MIN && slow as f64 >= SLOW_MIN * values.len() as f64;
            is_bad.then_some((at, rest, values, by_node))
        });
        let most = |one: &(usize, Vec<u32>, Vec<Place>, bool)| {
            let metric = &metrics[left[one.0].metric];
            one.1.iter().filter(|place| metric.places[**place as usize].is_slow).count()
        };
        // Of several that explain as many, the one whose kind was given first.
        let best = best.max_by_key(|one| (most(one), std::cmp::Reverse(left[one.0].kind)));
        let Some((at, rest, values, by_node)) = best else { return found };
        let one = &left[at];
        let same = |other: &&Candidate| {
            other.metric == one.metric && other.kind != one.kind && other.places == one.places
        };
        let named = |one: &Candidate| {
            format!("{} {}", kinds[one.kind].name, kinds[one.kind].names[one.component as usize])
        };
        let metric = &metrics[one.metric];
        let logs: Vec<f64> = values.iter().map(|one| one.log).collect();
        let mut gpus: Vec<u32> =
            rest.iter().map(|place| metric.places[*place as usize].gpu).collect();
        gpus.sort_unstable();
        found.push(Named {
            kind: kinds[one.kind].name.clone(),
            name: kinds[one.kind].names[one.component as usize].clone(),
            also: left.iter().filter(same).map(named).collect(),
            metric: metric.name.clone(),
            loss: 1.0 - median(&logs).exp(),
            gpus,
            slow: rest.iter().filter(|place| metric.places[**place as usize].is_slow).count(),
            members: values.len(),
            by_node,
        });
        rest.iter().for_each(|place| explained[one.metric][*place as usize] = true);
        left.swap_remove(at);
    }
}

/// The GPUs of each metric, whatever their strata.
fn metrics(groups: &[Group], survey: &Survey) -> Vec<Metric> {
    let mut by_name: BTreeMap<&str, Metric> = BTreeMap::new();
    for (group, judged) in groups.iter().zip(&survey.judged) {
        let metric = by_name.entry(&group.metric).or_insert_with(|| Metric {
            name: group.metric.clone(),
            least_effect: group.least_effect,
            places: Vec::new(),
        });
        for (gpu, one) in group.gpus().iter().zip(judged) {
            // What is not believed of a device names no component.
            if one.why == Why::Disputed {
                continue;
            }
            let is_slow = one.verdict == Verdict::Fail || one.loss > group.least_effect;
            // A rate of 0 has no logarithm; no group has one.
            let log = (1.0 - one.loss).max(f64::MIN_POSITIVE).ln();
            metric.places.push(Place { gpu: *gpu, log, is_slow });
        }
    }
    by_name.into_values().collect()
}

/// The components that are bad, each by itself.
fn bad(metrics: &[Metric], kinds: &[Kind], nodes: &[u32]) -> Vec<Candidate> {
    let (mut all, mut probabilities, mut others) = (Vec::new(), Vec::new(), 0);
    for (at, metric) in metrics.iter().enumerate() {
        for (kind, components) in kinds.iter().enumerate() {
            let places = places(metric, components);
            let enough = || places.iter().filter(|places| places.len() >= MEMBERS_MIN);
            let sample: Vec<Vec<f64>> = enough()
                .take(SAMPLE)
                .map(|places| members(metric, places, nodes).0.iter().map(|one| one.log).collect())
                .collect();
            let pooled = noise(&sample.iter().map(Vec::as_slice).collect::<Vec<_>>());
            // Each component that could have been named is a test.
            others += enough().count();
            for (component, places) in places.iter().enumerate() {
                let slow = |place: &&u32| metric.places[**place as usize].is_slow;
                let slow = places.iter().filter(slow).count();
                if places.len() < MEMBERS_MIN || 2 * slow < places.len() {
                    continue;
                }
                let own = members(metric, places, nodes).0;
                let Some(standing) = standing(metric, &own, pooled) else { continue };
                others -= 1;
                probabilities.push(standing.below());
                let (component, places) = (component as u32, places.clone());
                all.push(Candidate { metric: at, kind, component, places });
            }
        }
    }
    let with_others = [&probabilities[..], &vec![1.0; others]].concat();
    let limit = student::false_discovery_limit(&with_others, ERROR);
    let is_bad = |p: &f64| limit.is_some_and(|limit| *p <= limit);
    all.into_iter().zip(probabilities).filter(|(_, p)| is_bad(p)).map(|(one, _)| one).collect()
}

/// The scatter of members is estimated from this many components of a kind at most.
const SAMPLE: usize = 500;

/// The places of each component of a kind, by GPU.
fn places(metric: &Metric, kind: &Kind) -> Vec<Vec<u32>> {
    let mut places = vec![Vec::new(); kind.names.len()];
    for (at, place) in metric.places.iter().enumerate() {
        let component = kind.of.get(place.gpu as usize).copied().flatten();
        if let Some(own) = component.and_then(|component| places.get_mut(component as usize)) {
            own.push(at as u32);
        }
    }
    places
}

/// The members of a component: nodes where it has GPUs of [`MEMBERS_MIN`] or more, since GPUs of
/// one node depend on each other; else GPUs. And whether they are nodes.
fn members(metric: &Metric, places: &[u32], nodes: &[u32]) -> (Vec<Place>, bool) {
    let mut by_node: BTreeMap<u32, Vec<Place>> = BTreeMap::new();
    for place in places.iter().map(|place| metric.places[*place as usize]) {
        let node = nodes.get(place.gpu as usize).copied().unwrap_or(u32::MAX);
        by_node.entry(node).or_default().push(place);
    }
    if by_node.len() < MEMBERS_MIN {
        return (by_node.into_values().flatten().collect(), false);
    }
    let of_node = |own: Vec<Place>| {
        let log = median(&own.iter().map(|one| one.log).collect::<Vec<_>>());
        Place { gpu: own[0].gpu, log, is_slow: log < (1.0 - metric.least_effect).ln() }
    };
    (by_node.into_values().map(of_node).collect(), true)
}

/// How a component stands to its bar: the least effect below the reference of each GPU. None of too
/// few members.
fn standing(metric: &Metric, members: &[Place], pooled: Variance) -> Option<Standing> {
    if members.len() < MEMBERS_MIN {
        return None;
    }
    let logs: Vec<f64> = members.iter().map(|one| one.log).collect();
    let error = error_of_median(noise_of(&logs, pooled), logs.len());
    let bar = Bar {
        against: Against::Peers,
        log: (1.0 - metric.least_effect).ln(),
        error: Variance { value: 0.0, freedom: f64::INFINITY },
        may_pass: false,
        may_fail: true,
    };
    Some(Standing::of(median(&logs), error, &bar))
}
