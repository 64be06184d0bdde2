//! What does not pass, and why: verdicts on metrics and devices, from the fleet's rule, the nodes'
//! own acceptances and retests.

use super::{
    component::Named,
    dispute::is_of_nobody,
    gather::{Gathered, Said, column},
    judge::{Judged, Survey, Why},
    plan::Outcome,
    row::{ACCEPTANCE, NODE},
    strata::{Origin, Strata},
    units::Units,
};
use crate::accept::decide::Against;
use fizeau_domain::{
    text::{clean, counted},
    verdict::Verdict,
};
use serde::Serialize;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Why something does not pass.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flagged {
    /// The node.
    pub node: String,
    /// The device; `node` where it is the node.
    pub device: String,
    /// The board's UUID, where it is told.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uuid: String,
    /// The board's serial number.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial: String,
    /// Its place on the PCI bus, and its slot.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// The metric, or the check of the node's own acceptance.
    pub metric: String,
    /// Fail or inconclusive.
    pub verdict: Verdict,
    /// Why the fleet's rule says so; absent where the node's own acceptance does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
    /// Loss beside its stratum, as a share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Loss below the floor, as a share, where the floor decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below_floor: Option<f64>,
    /// Whether `loss` is beside others: else it is none.
    #[serde(skip)]
    pub has_peers: bool,
    /// Standard error of `loss`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// The probability of so low a rate if the loss were just the least effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// Repeats.
    #[serde(skip_serializing_if = "is_zero")]
    pub repeats: u32,
    /// Repeats in all that may decide it.
    #[serde(skip_serializing_if = "is_zero")]
    pub needed: u32,
    /// The component that explains it, `leaf leaf12`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// What the node's own acceptance said, which has measured it anew before.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub words: String,
    /// What its retest said.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub retest: String,
    /// What to do, by the node's own acceptance.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub action: String,
    /// Whether a fresh measurement has confirmed it: by the node's own acceptance, or a retest.
    pub confirmed: bool,
    /// Index of the device; none of a node.
    #[serde(skip)]
    pub unit: Option<u32>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// What the nodes' own acceptances said, of those that count.
pub struct Own {
    /// Failures of what was measured, by device and metric.
    pub measured: HashMap<(u32, u32), Said>,
    /// The rest that did not pass, of each node's latest acceptance.
    states: Vec<Said>,
}

impl Own {
    /// Finds it.
    pub fn of(gathered: &Gathered, units: &Units, strata: &Strata) -> Own {
        let mut own = Own { measured: HashMap::new(), states: Vec::new() };
        let mut latest: HashMap<(u32, u32), u32> = HashMap::new();
        let said: BTreeSet<u32> =
            gathered.said.iter().filter(|one| one.metric.is_some()).map(|one| one.entry).collect();
        for (at, (group, origins)) in strata.groups.iter().zip(&strata.origins).enumerate() {
            for (unit, Origin { entry, .. }) in group.gpus().iter().zip(origins) {
                if said.contains(entry) {
                    latest.insert((*unit, strata.subjects_of[at]), *entry);
                }
            }
        }
        for one in &gathered.said {
            let Some(node) = units.node_of[one.entry as usize] else { continue };
            let entry = &gathered.entries[one.entry as usize];
            match (one.metric, units.unit_of[one.entry as usize]) {
                (Some(metric), Some(unit)) => {
                    let key = (unit, strata.subject_of[metric as usize]);
                    // Rows of other programs may have another verdict beside their values.
                    let fails = gathered.texts.text(one.verdict) == "fail";
                    if fails && latest.get(&key) == Some(&one.entry) {
                        own.measured.insert(key, *one);
                    }
                }
                (Some(_), None) => {}
                (None, _) => {
                    let node = &units.nodes[node as usize];
                    let is_latest = entry.columns[column::SESSION] == node.acceptance
                        && entry.incomplete == node.is_incomplete;
                    let check = gathered.texts.text(one.check);
                    if is_latest && check != ACCEPTANCE {
                        own.states.push(*one);
                    }
                }
            }
        }
        own
    }
}

/// The metric of a line about what a node sent.
pub const SENT: &str = "what it sent";

/// What is said of a node whose acceptances do not agree.
const DISPUTED: &str = "two bundles of it that are not both signed do not agree: take the one that \
                        is right (--since, --until), or signed bundles alone (--allowed-signers)";

/// Fewest nodes with an acceptance from which on one without is doubtful.
const ACCEPTED_MIN: usize = 3;

/// What verdicts are made of.
pub struct Basis<'s> {
    /// The rows.
    pub gathered: &'s Gathered,
    /// Who is who.
    pub units: &'s Units,
    /// What was compared.
    pub strata: &'s Strata,
    /// The verdicts of the fleet's rule.
    pub survey: &'s Survey,
    /// Components that are slow as a whole.
    pub components: &'s [Named],
    /// What the nodes' own acceptances said.
    pub own: &'s Own,
    /// What was measured anew, by group and row.
    pub retested: &'s HashMap<(usize, usize), Outcome>,
}

/// Verdicts.
pub struct Flags {
    /// On devices.
    pub verdicts: Vec<Verdict>,
    /// On what is about a node and none of its devices.
    pub of_nodes: Vec<Option<Verdict>>,
    /// What does not pass, in order.
    pub flagged: Vec<Flagged>,
}

/// Verdicts in the making.
struct Made<'s> {
    basis: &'s Basis<'s>,
    verdicts: Vec<Option<Verdict>>,
    of_nodes: Vec<Option<Verdict>>,
    flagged: Vec<Flagged>,
}

impl Basis<'_> {
    /// The verdicts.
    pub fn flags(&self) -> Flags {
        let mut made = Made {
            basis: self,
            verdicts: vec![None; self.units.units.len()],
            of_nodes: vec![None; self.units.nodes.len()],
            flagged: Vec::new(),
        };
        made.judge();
        let Made { verdicts, of_nodes, mut flagged, .. } = made;
        order(&mut flagged);
        let decided = |verdict: Option<Verdict>| verdict.unwrap_or(Verdict::Inconclusive);
        Flags { verdicts: verdicts.into_iter().map(decided).collect(), of_nodes, flagged }
    }
}

fn with(verdict: &mut Option<Verdict>, other: Verdict) {
    *verdict = Some(verdict.map_or(other, |one| one.and(other)));
}

impl Made<'_> {
    fn judge(&mut self) {
        let mut explained: HashMap<(&str, u32), &Named> = HashMap::new();
        for named in self.basis.components {
            for gpu in &named.gpus {
                explained.entry((&named.metric, *gpu)).or_insert(named);
            }
        }
        for (at, group) in self.basis.strata.groups.iter().enumerate() {
            let subject = self.basis.strata.subjects_of[at];
            for (row, judged) in self.basis.survey.judged[at].iter().enumerate() {
                let unit = group.gpu(row);
                let own = self.basis.own.measured.get(&(unit, subject)).copied();
                let again = self.basis.retested.get(&(at, row));
                let verdict = match (own, again) {
                    (Some(_), _) => Verdict::Fail,
                    (None, Some(again)) => again.verdict,
                    (None, None) => judged.verdict,
                };
                let entry = self.basis.strata.origins[at][row].entry;
                let is_disputed = own.is_some() && self.is_node_disputed(entry);
                let verdict = if is_disputed { Verdict::Inconclusive } else { verdict };
                with(&mut self.verdicts[unit as usize], verdict);
                if verdict == Verdict::Pass {
                    continue;
                }
                let component = explained.get(&(group.metric.as_str(), unit));
                let component = component.map(|named| format!("{} {}", named.kind, named.name));
                let flagged = self.of_unit(unit, &group.metric, verdict);
                let flagged = Flagged {
                    component,
                    confirmed: again.is_some_and(|again| again.is_confirmed),
                    retest: again.map_or(String::new(), |again| again.words.clone()),
                    ..with_figures(flagged, judged)
                };
                self.flagged.push(match own {
                    _ if is_disputed => Flagged { why: Some(Why::Disputed), ..flagged },
                    Some(own) => self.said(flagged, &own),
                    None => flagged,
                });
            }
        }
        self.states();
    }

    /// Whether an entry is unsigned, and another acceptance of its node does not agree.
    fn is_node_disputed(&self, entry: u32) -> bool {
        let node = self.basis.gathered.entries[entry as usize].columns[column::NODE];
        is_of_nobody(self.basis.gathered, entry)
            && self.basis.strata.disputes.is_node_disputed(node)
    }

    fn states(&mut self) {
        for one in &self.basis.own.states {
            let verdict = match self.basis.gathered.texts.text(one.verdict) {
                "fail" if !self.is_node_disputed(one.entry) => Verdict::Fail,
                _ => Verdict::Inconclusive,
            };
            let check = clean(self.basis.gathered.texts.text(one.check));
            let node = self.basis.units.node_of[one.entry as usize].unwrap_or_default();
            let flagged = match self.basis.units.unit_of[one.entry as usize] {
                Some(unit) => {
                    with(&mut self.verdicts[unit as usize], verdict);
                    self.of_unit(unit, &check, verdict)
                }
                None => {
                    with(&mut self.of_nodes[node as usize], verdict);
                    let device = clean(self.basis.gathered.told(one.entry, column::DEVICE));
                    Flagged { device, ..self.of_node(node, &check, verdict) }
                }
            };
            let flagged = self.said(flagged, one);
            self.flagged.push(flagged);
        }
        self.accounts();
        for (at, node) in self.basis.units.nodes.iter().enumerate() {
            if node.is_incomplete {
                with(&mut self.of_nodes[at], Verdict::Inconclusive);
                let flagged = self.of_node(at as u32, ACCEPTANCE, Verdict::Inconclusive);
                let words = "the acceptance did not finish: continue it (fizeau accept --resume)";
                self.flagged.push(Flagged { words: words.into(), ..flagged });
            }
        }
    }

    /// Nodes of which something does not count, and nodes whose acceptances do not agree, lack what
    /// they failed by, or are not there.
    fn accounts(&mut self) {
        let number = |name: &str| self.basis.gathered.texts.known(name);
        let is_disputed = |name: &str| {
            number(name).is_some_and(|name| self.basis.strata.disputes.is_node_disputed(name))
        };
        let mut all = self.unexplained();
        for (at, node) in self.basis.units.nodes.iter().enumerate() {
            if let Some(why) = self.basis.units.accounts.get(&node.plain) {
                all.push((at, SENT, why.clone()));
            }
            if is_disputed(&node.plain) {
                all.push((at, ACCEPTANCE, DISPUTED.to_owned()));
            }
        }
        for (at, metric, words) in all {
            with(&mut self.of_nodes[at], Verdict::Inconclusive);
            let flagged = self.of_node(at as u32, metric, Verdict::Inconclusive);
            self.flagged.push(Flagged { words, ..flagged });
        }
    }

    /// Nodes without the verdict of an acceptance where most others have one, and nodes whose
    /// acceptance failed by a check that is not there: rows were left out.
    fn unexplained(&self) -> Vec<(usize, &'static str, String)> {
        let Basis { gathered, units, .. } = self.basis;
        let failing = |verdict: u32| gathered.texts.text(verdict) == "fail";
        let place = |one: &Said| {
            let node = units.node_of[one.entry as usize]?;
            Some((node, gathered.entries[one.entry as usize].columns[column::SESSION]))
        };
        let failed = gathered.said.iter().filter(|one| failing(one.verdict));
        let (wholes, checks): (Vec<&Said>, Vec<&Said>) =
            failed.partition(|one| gathered.texts.text(one.check) == ACCEPTANCE);
        let checks: HashSet<(u32, u32)> = checks.into_iter().filter_map(place).collect();
        let without = wholes.into_iter().filter_map(place).filter(|one| !checks.contains(one));
        let without: HashSet<(u32, u32)> = without.collect();
        let count = units.nodes.iter().filter(|node| node.acceptance != 0).count();
        let have_one = count >= ACCEPTED_MIN && 2 * count > units.nodes.len();
        let mut all = Vec::new();
        for (at, node) in units.nodes.iter().enumerate() {
            if have_one && node.acceptance == 0 {
                let words = format!(
                    "no verdict of its acceptance is here, and {count} of {} have one",
                    counted(units.nodes.len(), "node")
                );
                all.push((at, ACCEPTANCE, words));
            }
            if without.contains(&(at as u32, node.acceptance)) {
                let words = "it failed, and no check that failed is here: rows were left out";
                all.push((at, ACCEPTANCE, words.to_owned()));
            }
        }
        all
    }

    fn of_node(&self, node: u32, metric: &str, verdict: Verdict) -> Flagged {
        Flagged {
            node: self.basis.units.nodes[node as usize].name.clone(),
            device: NODE.into(),
            uuid: String::new(),
            serial: String::new(),
            place: String::new(),
            metric: metric.to_owned(),
            verdict,
            why: None,
            loss: None,
            below_floor: None,
            has_peers: false,
            error: None,
            probability: None,
            repeats: 0,
            needed: 0,
            component: None,
            words: String::new(),
            retest: String::new(),
            action: String::new(),
            confirmed: false,
            unit: None,
        }
    }

    fn of_unit(&self, unit: u32, metric: &str, verdict: Verdict) -> Flagged {
        let one = &self.basis.units.units[unit as usize];
        let told = |column| clean(self.basis.gathered.told(one.entry, column));
        Flagged {
            device: told(column::DEVICE),
            uuid: told(column::UUID),
            serial: told(column::SERIAL),
            place: told(column::PLACE),
            unit: Some(unit),
            ..self.of_node(one.node, metric, verdict)
        }
    }

    fn said(&self, flagged: Flagged, said: &Said) -> Flagged {
        let text = |number| clean(self.basis.gathered.texts.text(number));
        let confirmed = text(said.verdict) == "fail";
        Flagged { words: text(said.words), action: text(said.action), confirmed, ..flagged }
    }
}

fn with_figures(flagged: Flagged, judged: &Judged) -> Flagged {
    Flagged {
        why: Some(judged.why),
        loss: Some(judged.loss),
        below_floor: judged
            .below_floor
            .filter(|_| judged.verdict == Verdict::Fail && judged.against == Against::Floor),
        has_peers: judged.has_peers,
        error: Some(judged.error).filter(|error| error.is_finite()),
        probability: Some(judged.probability).filter(|_| judged.verdict == Verdict::Fail),
        repeats: judged.repeats,
        needed: judged.needed,
        ..flagged
    }
}

/// Failures first: those that are confirmed, then by loss.
fn order(flagged: &mut [Flagged]) {
    flagged.sort_by(|a, b| {
        let rank = |one: &Flagged| (one.verdict != Verdict::Fail, !one.confirmed);
        let loss = |one: &Flagged| one.below_floor.or(one.loss).unwrap_or_default();
        let order = rank(a).cmp(&rank(b)).then(loss(b).total_cmp(&loss(a)));
        order.then_with(|| (&a.node, &a.device, &a.metric).cmp(&(&b.node, &b.device, &b.metric)))
    });
}
