//! A hint across strata: how the GPUs of a stratum that is too small to be judged stand beside
//! those of the largest stratum of the same part. Something else differs too, so that it decides
//! nothing.

use super::{
    gather::{Gathered, column},
    judge::{NODES_MIN, Survey},
    problem::{Kind, Problems},
    strata::Strata,
    units::Units,
};
use fizeau_domain::text::{clean, counted};
use std::collections::BTreeSet;

/// Adds a line for each metric of each small stratum that has a larger one of the same part.
pub fn hints(
    strata: &Strata,
    survey: &Survey,
    units: &Units,
    gathered: &Gathered,
    problems: &mut Problems,
) {
    let part = |at: usize| {
        let entry = strata.origins[at].first().map(|origin| origin.entry);
        entry.map_or("", |entry| gathered.told(entry, column::PART))
    };
    let nodes = |at: usize| -> BTreeSet<u32> {
        let of = strata.groups[at].gpus().iter().map(|gpu| units.units[*gpu as usize].node);
        of.collect()
    };
    for (at, group) in strata.groups.iter().enumerate() {
        let own = nodes(at);
        if own.len() >= NODES_MIN {
            continue;
        }
        let is_alike =
            |other: &usize| *other != at && strata.subjects_of[*other] == strata.subjects_of[at];
        let alike = (0..strata.groups.len()).filter(is_alike);
        let alike = alike.filter(|other| part(*other) == part(at));
        let Some(other) = alike.max_by_key(|other| strata.groups[*other].len()) else { continue };
        if nodes(other).len() < NODES_MIN {
            continue;
        }
        let loss = 1.0 - (survey.wholes[at].log - survey.wholes[other].log).exp();
        let side = if loss >= 0.0 { "below" } else { "above" };
        let named: Vec<&str> =
            { own.iter().take(3) }.map(|node| units.nodes[*node as usize].name.as_str()).collect();
        let words = format!(
            "{}: {} of {} {:.1} % {side} the {} of {}: a hint, since they differ in {}",
            group.metric,
            counted(group.len(), "device"),
            named.join(", "),
            100.0 * loss.abs(),
            strata.groups[other].len(),
            clean(part(at)),
            strata.difference(group.stratum, strata.groups[other].stratum)
        );
        problems.add(Kind::Hint, words);
    }
}
