//! Bundles that say different things of one device. Anybody who can write to the place where
//! bundles are collected can leave one under any node's name, with a later date. Without a
//! signature nobody can tell a repair from a forgery, so that what an unsigned bundle and any other
//! do not agree on is inconclusive. Of the signed ones the latest is asked.

use super::{
    gather::{Gathered, Kept, column},
    judge::{Judged, Survey, Why},
    row::{ACCEPTANCE, is_unsigned},
    strata::Strata,
    units::Units,
};
use fizeau_domain::{stats::quantile::median, verdict::Verdict};
use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
};

/// How far below others a figure has to be to say that a device is slow, in least effects. Half of
/// one more than what counts, since healthy sessions differ too.
pub const SLOW: f64 = 1.5;

/// What a sender said of a device.
type Place = (u32, u32, u32);

/// A row of a bundle: its session, its run and the median of its values. A session is
/// what a bundle says it is, so that another bundle of the same session can say something else.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Said {
    session: u32,
    run: u32,
    log: f64,
}

impl Said {
    /// Whether it is of another bundle than `self`: of another session, or the same run with other
    /// values.
    fn is_apart(&self, other: &Said) -> bool {
        let is_session = other.session == self.session;
        !is_session || other.run == self.run && other.log != self.log
    }
}

/// What unsigned bundles and the latest signed one say, by node, device and metric.
#[derive(Debug, Default)]
pub struct Disputes {
    said: HashMap<Place, Vec<Said>>,
    /// Nodes whose acceptances do not agree, by the number of their name.
    nodes: BTreeSet<u32>,
}

/// The least and the highest of what other bundles say, as logarithms of rates.
pub type Others = [f64; 2];

impl Disputes {
    /// Finds what bundles say. `subject_of` is the metric of each kind of row.
    pub fn of(gathered: &Gathered, units: &Units, subject_of: &[u32]) -> Disputes {
        let is_asked = |entry: u32| units.is_asked[entry as usize];
        let nodes = disputed_nodes(gathered, &is_asked);
        let mut found = Disputes { nodes, ..Disputes::default() };
        let rows = || gathered.rows.iter().filter(|row| is_asked(row.entry));
        for row in rows().filter(|row| is_of_nobody(gathered, row.entry)) {
            let own = said(gathered, row);
            found.said.entry(place(gathered, row, subject_of)).or_default().push(own);
        }
        let mut signed: HashMap<Place, (&str, Said)> = HashMap::new();
        for row in rows().filter(|row| !is_of_nobody(gathered, row.entry)) {
            let place = place(gathered, row, subject_of);
            if found.said.contains_key(&place) {
                let time = gathered.told(row.entry, column::TIME);
                keep_latest(&mut signed, place, time, said(gathered, row));
            }
        }
        for (place, (_, own)) in signed {
            found.said.entry(place).or_default().push(own);
        }
        found.said.retain(|_, said| said.iter().any(|one| said[0].is_apart(one)));
        found
    }

    /// What other bundles say of a row; none where there is no other, or its own is signed.
    pub fn others(&self, gathered: &Gathered, row: &Kept, subject_of: &[u32]) -> Option<Others> {
        let own = said(gathered, row);
        let all = self.said.get(&place(gathered, row, subject_of))?;
        if !is_of_nobody(gathered, row.entry) {
            return None;
        }
        let others = || all.iter().filter(|one| own.is_apart(one)).map(|one| one.log);
        let least = others().fold(f64::INFINITY, f64::min);
        let most = others().fold(f64::NEG_INFINITY, f64::max);
        (least <= most).then_some([least, most])
    }

    /// Whether a node's acceptances, by unsigned bundles, do not agree.
    pub fn is_node_disputed(&self, name: u32) -> bool {
        self.nodes.contains(&name)
    }
}

/// Nodes whose acceptances do not agree: those of unsigned bundles, and the latest of a signed one.
fn disputed_nodes(gathered: &Gathered, is_asked: &dyn Fn(u32) -> bool) -> BTreeSet<u32> {
    let mut accepted: HashMap<u32, BTreeSet<bool>> = HashMap::new();
    let mut signed: HashMap<u32, (&str, bool)> = HashMap::new();
    for said in gathered.said.iter().filter(|one| is_asked(one.entry)) {
        // A bundle that is not closed yet says neither.
        let verdict = gathered.texts.text(said.verdict);
        let is_whole = gathered.texts.text(said.check) == ACCEPTANCE;
        if !is_whole || !["pass", "fail"].contains(&verdict) {
            continue;
        }
        let node = gathered.entries[said.entry as usize].columns[column::NODE];
        if is_of_nobody(gathered, said.entry) {
            accepted.entry(node).or_default().insert(verdict == "fail");
        } else {
            let time = gathered.told(said.entry, column::TIME);
            keep_latest(&mut signed, node, time, verdict == "fail");
        }
    }
    for (node, verdicts) in &mut accepted {
        verdicts.extend(signed.get(node).map(|(_, has_failed)| *has_failed));
    }
    accepted.retain(|_, verdicts| verdicts.len() == 2);
    accepted.into_keys().collect()
}

/// Keeps a value where none of a later time is kept.
fn keep_latest<'t, K: Eq + Hash, V>(
    kept: &mut HashMap<K, (&'t str, V)>,
    key: K,
    time: &'t str,
    value: V,
) {
    if kept.get(&key).is_none_or(|(known, _)| *known <= time) {
        kept.insert(key, (time, value));
    }
}

/// Whether nobody vouches for an entry.
pub fn is_of_nobody(gathered: &Gathered, entry: u32) -> bool {
    is_unsigned(gathered.told(entry, column::SENDER), gathered.told(entry, column::MARK))
}

fn said(gathered: &Gathered, row: &Kept) -> Said {
    let columns = &gathered.entries[row.entry as usize].columns;
    let log = median(gathered.values(row));
    Said { session: columns[column::SESSION], run: columns[column::RUN], log }
}

fn place(gathered: &Gathered, row: &Kept, subject_of: &[u32]) -> Place {
    let columns = &gathered.entries[row.entry as usize].columns;
    (columns[column::NODE], columns[column::DEVICE], subject_of[row.metric as usize])
}

/// Whether what other bundles say of a device is further from its values than healthy sessions are
/// from each other. It is then known of neither how fast the device is, and both are no reference
/// for others. `values` are logarithms of rates.
pub fn is_apart([least, most]: Others, values: &[f64], least_effect: f64) -> bool {
    if values.is_empty() {
        return false;
    }
    let own = median(values);
    (own - least).abs().max((most - own).abs()) > SLOW * least_effect
}

/// The same with those of a device's own sessions that are off the level of all by more than the
/// least effect, where several are taken together: whoever adds some would otherwise outvote the
/// rest. `own` are the medians of the rows that count, and `values` the repeats of all.
pub fn with_own(
    others: Option<Others>,
    own: impl Iterator<Item = f64>,
    values: &[f64],
    least_effect: f64,
) -> Option<Others> {
    let [mut least, mut most] = others?;
    if values.is_empty() {
        return others;
    }
    let level = median(values);
    for log in own.filter(|log| (log - level).abs() > least_effect) {
        (least, most) = (least.min(log), most.max(log));
    }
    Some([least, most])
}

/// Makes each verdict of the fleet's rule inconclusive that rests on an unsigned bundle and that
/// another bundle is against.
pub fn settle(strata: &Strata, survey: &mut Survey) {
    for (at, group) in strata.groups.iter().enumerate() {
        for (others, judged) in strata.others[at].iter().zip(&mut survey.judged[at]) {
            if others.is_some_and(|others| is_against(others, judged, group.least_effect)) {
                (judged.verdict, judged.why) = (Verdict::Inconclusive, Why::Disputed);
            }
        }
    }
}

fn is_against(others: Others, judged: &Judged, least_effect: f64) -> bool {
    // Where the others of the stratum are.
    let centre = judged.log - (1.0 - judged.loss).max(f64::MIN_POSITIVE).ln();
    let [most, least] = others.map(|log| 1.0 - (log - centre).exp());
    match judged.verdict {
        Verdict::Pass | Verdict::Waived => most > SLOW * least_effect,
        Verdict::Fail => least < least_effect,
        Verdict::Inconclusive => false,
    }
}
