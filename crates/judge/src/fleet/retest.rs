//! Whether what failed fails again, measured anew in turn with a GPU that passed.
//!
//! Where most GPUs of a node are slow in one metric, something that they share may be in use by
//! others. A retest may meet a neighbour again, so that such failures have to be confirmed in two
//! sessions, hours apart; and in three where there are many: by chance some would meet one twice.

use super::{
    Group,
    judge::{Judged, Whole},
};
use crate::accept::decide::{
    Against, Bar, FALSE_CONFIRMATION, MEDIAN, Standing, error_of_median, noise_of, pairs_differ,
    sum,
};
use fizeau_domain::{
    stats::{quantile::median, student::Variance},
    verdict::Verdict,
};
use std::collections::HashMap;

/// Rows of a group that passed, those nearest to the median first: partners of what failed.
pub fn partners(group: &Group, judged: &[Judged]) -> Vec<usize> {
    let passed = |row: &usize| judged[*row].verdict == Verdict::Pass;
    let mut rows: Vec<usize> = (0..group.len()).filter(passed).collect();
    rows.sort_by(|a, b| judged[*a].loss.abs().total_cmp(&judged[*b].loss.abs()));
    rows
}

/// Failures in one metric that others may have caused, up to which two sessions are enough. Where
/// 2 % of the nodes have a neighbour, each meets one twice more with a probability of 0.0004.
const FEW: usize = 20;

/// Sessions in which a failure of each row has to be confirmed. One, but where at least half of the
/// GPUs of its node, and more than one, lose more than the least effect in the same metric, whether
/// they failed or not: two, or three where more than 20 failures of the group are such.
pub fn sessions(group: &Group, judged: &[Judged], nodes: &[u32]) -> Vec<usize> {
    let mut of_nodes: HashMap<u32, (usize, usize)> = HashMap::new();
    let node = |gpu: &u32| nodes.get(*gpu as usize).copied().unwrap_or(u32::MAX);
    for (gpu, one) in group.gpus().iter().zip(judged) {
        let (slow, all) = of_nodes.entry(node(gpu)).or_default();
        let is_slow = one.verdict == Verdict::Fail || one.loss > group.least_effect;
        *slow += usize::from(is_slow);
        *all += 1;
    }
    let is_shared = |gpu: &u32| {
        let (slow, all) = of_nodes[&node(gpu)];
        slow > 1 && 2 * slow >= all
    };
    let rows = || group.gpus().iter().zip(judged);
    let shared = rows().filter(|(gpu, one)| one.verdict == Verdict::Fail && is_shared(gpu)).count();
    let most = if shared > FEW { 3 } else { 2 };
    rows().map(|(gpu, _)| if is_shared(gpu) { most } else { 1 }).collect()
}

/// Whether fresh repeats confirm a failure: the GPU is below its bar by these alone, and slower
/// than its partner by the least effect. Both are logarithms of rates, in the order of the pairs.
/// Without a partner's repeats the first half decides alone; without fresh repeats nothing is
/// confirmed.
pub fn is_confirmed(group: &Group, whole: &Whole, first: &Judged, rates: [&[f64]; 2]) -> bool {
    let standing = standing(group, whole, first, rates[0]);
    standing.is_some_and(|one| one.below() <= FALSE_CONFIRMATION)
        && differs(group, whole, first, rates)
}

/// Whether fresh repeats are below those of the partner by the least effect; true of what a floor
/// has failed, and where there is no partner.
pub fn differs(group: &Group, whole: &Whole, first: &Judged, [fresh, beside]: [&[f64]; 2]) -> bool {
    let pooled = pooled(whole);
    let noise = sum(&[noise_of(fresh, pooled), pooled]);
    is_floor(group, first)
        || pairs_differ([fresh, beside], noise, group.least_effect).unwrap_or(true)
}

fn pooled(whole: &Whole) -> Variance {
    Variance { value: whole.noise * whole.noise, freedom: whole.freedom }
}

fn is_floor(group: &Group, first: &Judged) -> bool {
    first.against == Against::Floor && group.floor.is_some()
}

/// How fresh repeats alone stand to the bar of the first ones; none without any.
pub fn standing(group: &Group, whole: &Whole, first: &Judged, fresh: &[f64]) -> Option<Standing> {
    if fresh.is_empty() {
        return None;
    }
    let own = noise_of(fresh, pooled(whole));
    let bar = match (first.against, group.floor) {
        (Against::Floor, Some(floor)) => Bar {
            against: Against::Floor,
            log: floor,
            error: Variance { value: 0.0, freedom: f64::INFINITY },
            may_pass: true,
            may_fail: true,
        },
        _ => Bar {
            against: Against::Peers,
            log: first.log - (1.0 - first.loss).ln() + (1.0 - group.least_effect).ln(),
            error: Variance {
                value: whole.spread * whole.spread * MEDIAN / whole.gpus.max(1) as f64,
                freedom: (whole.gpus as f64 - 1.0).max(1.0),
            },
            may_pass: true,
            may_fail: true,
        },
    };
    Some(Standing::of(median(fresh), error_of_median(own, fresh.len()), &bar))
}
