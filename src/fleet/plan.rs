//! The plan of a retest: who is measured anew, in turn with which GPU that passed, and what the
//! results come to. Partners, sessions and the decision are those that `fleet simulate` scores
//! ([`super::retest`]).

use super::{
    gather::{Gathered, column},
    judge::Survey,
    retest,
    row::Row,
    strata::Strata,
    survey::Surveyed,
    units::Units,
};
use crate::{accept::decide::RETEST, text::counted, verdict::Verdict};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// The format of a plan, counted up when a field changes its meaning.
pub const FORMAT: u32 = 1;

/// A device of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Its node.
    pub node: String,
    /// The device, as `fizeau devices` names it.
    pub device: String,
}

/// A device that failed in a metric, and its partner.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Its number, from 1.
    pub pair: usize,
    /// The device that failed.
    pub failed: Place,
    /// One that passed; none where none of its stratum did.
    pub partner: Option<Place>,
    /// The session that it failed in: a later one has its own verdict.
    pub session: String,
    /// The metric, as the survey names it.
    pub metric: String,
    /// The case, without its kernel.
    pub point: String,
    /// The unit of its rates.
    pub unit: String,
    /// The suite that has the case.
    pub suite: String,
    /// In how many sessions the failure has to be confirmed.
    pub sessions: usize,
    /// What it lost, as a share.
    pub loss: f64,
}

/// A plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The format of this document.
    pub format: u32,
    /// The program's version.
    pub fizeau: String,
    /// Measurements of each device of a pair in a session.
    pub repeats: usize,
    /// Who is measured beside whom.
    pub pairs: Vec<Pair>,
    /// Failures that a component explains, which are not measured anew one by one.
    pub explained: usize,
}

/// One measurement of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<'p> {
    /// Which session, from 1.
    pub session: usize,
    /// Whether it is the partner's.
    pub is_partner: bool,
    /// The device.
    pub place: &'p Place,
    /// Where its record goes, below the plan's folder.
    pub folder: String,
}

impl Pair {
    /// Its measurements in order: A B, B A, A B, ..
    pub fn steps(&self, repeats: usize) -> Vec<Step<'_>> {
        let mut all = Vec::new();
        for session in 1..=self.sessions {
            for at in 0..repeats {
                let order = if at % 2 == 0 { [false, true] } else { [true, false] };
                for is_partner in order {
                    let place = if is_partner { self.partner.as_ref() } else { Some(&self.failed) };
                    let side = if is_partner { 'b' } else { 'a' };
                    let folder =
                        format!("results/{:05}/session-{session}/{:02}-{side}", self.pair, at + 1);
                    let step = |place| Step { session, is_partner, place, folder };
                    all.extend(place.map(step));
                }
            }
        }
        all
    }
}

impl Plan {
    /// The plan for what failed in a survey and is not confirmed yet.
    pub fn of(surveyed: &Surveyed) -> Plan {
        let Surveyed { gathered, units, strata, survey, report, failed, .. } = surveyed;
        let place = |unit: u32| {
            let [node, device] = units.named(gathered, unit);
            Place { node, device }
        };
        let mut explained: HashMap<(&str, u32), ()> = HashMap::new();
        for named in &report.components {
            explained.extend(named.gpus.iter().map(|gpu| ((named.metric.as_str(), *gpu), ())));
        }
        let nodes: Vec<u32> = units.units.iter().map(|unit| unit.node).collect();
        let mut plan = Plan {
            format: FORMAT,
            fizeau: env!("CARGO_PKG_VERSION").into(),
            repeats: RETEST,
            ..Plan::default()
        };
        for (at, group) in strata.groups.iter().enumerate() {
            let judged = &survey.judged[at];
            let subject = &strata.subjects[strata.subjects_of[at] as usize];
            let is_open = |row: &usize| {
                let own = (group.gpu(*row), strata.subjects_of[at]);
                judged[*row].verdict == Verdict::Fail && !failed.contains_key(&own)
            };
            let open: Vec<usize> = (0..group.len()).filter(is_open).collect();
            if open.is_empty() {
                continue;
            }
            let partners = retest::partners(group, judged);
            let sessions = retest::sessions(group, judged, &nodes);
            for (turn, row) in open.into_iter().enumerate() {
                if explained.contains_key(&(group.metric.as_str(), group.gpu(row))) {
                    plan.explained += 1;
                    continue;
                }
                let origin = strata.origins[at][row];
                let suite = gathered.metrics[origin.metric as usize].suite;
                let partner = partners.get(turn % partners.len().max(1));
                plan.pairs.push(Pair {
                    pair: plan.pairs.len() + 1,
                    failed: place(group.gpu(row)),
                    partner: partner.map(|row| place(group.gpu(*row))),
                    session: gathered.told(origin.entry, column::SESSION).to_owned(),
                    metric: group.metric.clone(),
                    point: subject.point.clone(),
                    unit: subject.unit.clone(),
                    suite: gathered.texts.text(suite).to_owned(),
                    sessions: sessions[row],
                    loss: judged[row].loss,
                });
            }
        }
        plan
    }

    /// Reads a plan.
    ///
    /// # Errors
    /// In words, where it is none or one of a later program.
    pub fn parse(text: &str) -> Result<Plan, String> {
        let plan: Plan = serde_json::from_str(text).map_err(|error| error.to_string())?;
        match plan.format {
            FORMAT if plan.repeats <= 1000 => Ok(plan),
            FORMAT => Err(format!("{} repeats: at most 1000 are read", plan.repeats)),
            found => Err(format!("it has format {found}, and this fizeau reads format {FORMAT}")),
        }
    }

    /// Pairs that can be measured at once, since no node is in two of them: by session and round,
    /// as places in `pairs`.
    pub fn rounds(&self) -> Vec<Vec<Vec<usize>>> {
        let sessions = self.pairs.iter().map(|pair| pair.sessions).max().unwrap_or(0);
        let mut all = Vec::new();
        for session in 1..=sessions {
            let mut next: HashMap<&str, usize> = HashMap::new();
            let mut rounds: Vec<Vec<usize>> = Vec::new();
            for (at, pair) in self.pairs.iter().enumerate().filter(|(_, p)| p.sessions >= session) {
                let nodes = [Some(&pair.failed), pair.partner.as_ref()];
                let nodes = nodes.into_iter().flatten().map(|place| place.node.as_str());
                let round = { nodes.clone() }.filter_map(|node| next.get(node).copied()).max();
                let round = round.unwrap_or(0);
                for node in nodes {
                    next.insert(node, round + 1);
                }
                if rounds.len() <= round {
                    rounds.resize(round + 1, Vec::new());
                }
                rounds[round].push(at);
            }
            all.push(rounds);
        }
        all
    }
}

/// Rates of a pair in a session: of the device that failed, and of its partner, in order.
type Rates = [Vec<f64>; 2];

/// A plan with what came of it.
#[derive(Clone, Debug, Default)]
pub struct Retest {
    plan: Plan,
    /// By place in the plan's pairs and session.
    rates: BTreeMap<(usize, usize), Rates>,
}

/// What a retest says of a failure.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Whether it failed again, in each of its sessions.
    pub is_confirmed: bool,
    /// Whether all its sessions are there.
    pub is_whole: bool,
    /// In words.
    pub words: String,
}

impl Outcome {
    /// A failure that is not confirmed is none, and one that was not yet measured anew stays.
    pub fn verdict(&self) -> Verdict {
        match self.is_confirmed || !self.is_whole {
            true => Verdict::Fail,
            false => Verdict::Inconclusive,
        }
    }
}

impl Retest {
    /// Begins, without results.
    pub fn new(plan: Plan) -> Retest {
        Retest { plan, rates: BTreeMap::new() }
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Takes what a step of a pair left: of its rows the one of the pair's point and unit, which
    /// has to be of the step's device. Says whether there was one.
    pub fn take(&mut self, at: usize, step: &Step<'_>, rows: &[Row<'_>]) -> bool {
        let Some(pair) = self.plan.pairs.get(at) else { return false };
        let is_its = |row: &&Row<'_>| {
            let is_metric = match pair.point.is_empty() {
                true => row.metric == pair.metric,
                false => row.point == pair.point,
            };
            is_metric && row.unit == pair.unit && row.device == step.place.device
        };
        let values = rows.iter().find(is_its).map(|row| row.values.as_slice()).unwrap_or_default();
        let mut logs = values.iter().filter(|value| **value > 0.0 && value.is_finite());
        let Some(value) = logs.next() else { return false };
        let rates = self.rates.entry((at, step.session)).or_default();
        rates[usize::from(step.is_partner)].push(value.ln());
        true
    }

    /// What the results say of the failures that they are about, by group and row.
    pub fn outcomes(
        &self,
        gathered: &Gathered,
        units: &Units,
        strata: &Strata,
        survey: &Survey,
    ) -> HashMap<(usize, usize), Outcome> {
        let mut found = HashMap::new();
        if self.rates.is_empty() {
            return found;
        }
        let mut pairs: HashMap<[&str; 3], usize> = HashMap::new();
        for (at, pair) in self.plan.pairs.iter().enumerate() {
            pairs.insert([&pair.failed.node, &pair.failed.device, &pair.metric], at);
        }
        for (at, group) in strata.groups.iter().enumerate() {
            for (row, judged) in survey.judged[at].iter().enumerate() {
                if judged.verdict != Verdict::Fail {
                    continue;
                }
                let [node, device] = units.named(gathered, group.gpu(row));
                let Some(pair_at) = pairs.get(&[&node, &device, group.metric.as_str()]) else {
                    continue;
                };
                let pair = &self.plan.pairs[*pair_at];
                let entry = strata.origins[at][row].entry;
                if gathered.told(entry, column::SESSION) != pair.session {
                    continue;
                }
                let confirms = |rates: &Rates| {
                    let [fresh, beside] = rates;
                    retest::is_confirmed(group, &survey.wholes[at], judged, [fresh, beside])
                };
                found.insert((at, row), self.outcome(*pair_at, &confirms));
            }
        }
        found
    }

    fn outcome(&self, at: usize, confirms: &dyn Fn(&Rates) -> bool) -> Outcome {
        let pair = &self.plan.pairs[at];
        let sides = 1 + usize::from(pair.partner.is_some());
        let is_whole =
            |rates: &&Rates| rates[..sides].iter().all(|values| values.len() >= self.plan.repeats);
        let whole: Vec<&Rates> = (1..=pair.sessions)
            .filter_map(|session| self.rates.get(&(at, session)))
            .filter(is_whole)
            .collect();
        let again = whole.iter().filter(|rates| confirms(rates)).count();
        let beside = match &pair.partner {
            Some(partner) => format!(" in turn with {} {}", partner.node, partner.device),
            None => String::new(),
        };
        let sessions = counted(pair.sessions, "session");
        let words = match (whole.len() < pair.sessions, again == whole.len()) {
            (_, false) => format!("measured anew{beside}, and not slow again: it went away"),
            (true, true) => format!("{} of {sessions} of its retest there so far", whole.len()),
            (false, true) => format!("slow again{beside}, in {sessions}"),
        };
        Outcome {
            is_confirmed: again == pair.sessions,
            is_whole: whole.len() == pair.sessions || again < whole.len(),
            words,
        }
    }
}
