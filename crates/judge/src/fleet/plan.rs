//! The plan of a retest: who is measured anew, in turn with which GPU that passed, and what the
//! results come to. Partners, sessions and the decision are those that `fleet simulate` scores
//! ([`super::retest`]).

use super::{
    gather::{Gathered, column},
    judge::{Survey, Why},
    retest,
    row::Row,
    strata::Strata,
    survey::Surveyed,
    units::Units,
};
use crate::accept::decide::{FALSE_DISCOVERIES, FALSE_PASS, RETEST};
use fizeau_domain::{stats::student, text::counted, verdict::Verdict};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// The format of a plan, counted up when a field changes its meaning.
pub const FORMAT: u32 = 1;

/// Most sessions of a pair that are read: a plan has three at most.
const SESSIONS_MAX: usize = 100;

/// A device of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Its node.
    pub node: String,
    /// The device, as `fizeau devices` names it.
    pub device: String,
    /// The board's UUID, where it is told: another board in its place is not measured for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uuid: String,
}

/// A device that failed in a metric or could not be decided, and its partner.
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
    /// Measurements that may decide what was too close; absent of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<usize>,
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
    /// What is too close to its bar for any number of repeats, and is not measured anew.
    #[serde(default)]
    pub hopeless: usize,
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
        let repeats = self.repeats.unwrap_or(repeats);
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

    fn beside(&self) -> String {
        let words = |partner: &Place| format!(" in turn with {} {}", partner.node, partner.device);
        self.partner.as_ref().map_or(String::new(), words)
    }
}

impl Plan {
    /// The plan for what failed in a survey and is not confirmed yet; and, where `inconclusive`,
    /// for what more repeats may decide.
    pub fn of(surveyed: &Surveyed, inconclusive: bool) -> Plan {
        let Surveyed { gathered, units, strata, survey, report, failed, .. } = surveyed;
        let place = |unit: u32| {
            let [node, device] = units.named(gathered, unit);
            let entry = units.units[unit as usize].entry;
            Place { node, device, uuid: gathered.told(entry, column::UUID).to_owned() }
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
                let is_close =
                    inconclusive && { matches!(judged[*row].why, Why::TooClose | Why::OneSession) };
                (is_close || judged[*row].verdict == Verdict::Fail) && !failed.contains_key(&own)
            };
            let open: Vec<usize> = (0..group.len()).filter(is_open).collect();
            if open.is_empty() {
                continue;
            }
            let partners = retest::partners(group, judged);
            let sessions = retest::sessions(group, judged, &nodes);
            for (turn, row) in open.into_iter().enumerate() {
                let is_failure = judged[row].verdict == Verdict::Fail;
                if explained.contains_key(&(group.metric.as_str(), group.gpu(row))) {
                    plan.explained += usize::from(is_failure);
                    continue;
                }
                if !is_failure && judged[row].needed == 0 {
                    plan.hopeless += 1;
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
                    sessions: if is_failure { sessions[row] } else { 1 },
                    loss: judged[row].loss,
                    repeats: (!is_failure).then(|| RETEST.max(judged[row].needed as usize)),
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
        let own = plan.pairs.iter().filter_map(|pair| pair.repeats);
        let repeats = own.chain([plan.repeats]).max().unwrap_or_default();
        let sessions = plan.pairs.iter().map(|pair| pair.sessions).max().unwrap_or_default();
        match plan.format {
            FORMAT if repeats > 1000 => Err(format!("{repeats} repeats: at most 1000 are read")),
            FORMAT if sessions > SESSIONS_MAX => {
                Err(format!("{sessions} sessions: at most {SESSIONS_MAX} are read"))
            }
            FORMAT => Ok(plan),
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
    /// The verdict with it: a failure that is not confirmed is none, and what was not yet measured
    /// anew stays as it was.
    pub verdict: Verdict,
    /// In words.
    pub words: String,
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
            let [its, own] = [&*row.uuid, &step.place.uuid];
            let is_board = its.is_empty() || own.is_empty() || its == own;
            is_metric && row.unit == pair.unit && row.device == step.place.device && is_board
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
        let mut close = Vec::new();
        for (at, group) in strata.groups.iter().enumerate() {
            for (row, judged) in survey.judged[at].iter().enumerate() {
                if judged.verdict == Verdict::Pass {
                    continue;
                }
                let [node, device] = units.named(gathered, group.gpu(row));
                let Some(pair_at) = pairs.get(&[&node, &device, group.metric.as_str()]) else {
                    continue;
                };
                let pair = &self.plan.pairs[*pair_at];
                let entry = strata.origins[at][row].entry;
                // A plan is about the verdict that it was made for.
                let is_its = pair.repeats.is_none() == (judged.verdict == Verdict::Fail);
                if gathered.told(entry, column::SESSION) != pair.session || !is_its {
                    continue;
                }
                if pair.repeats.is_some() {
                    close.push((*pair_at, at, row));
                    continue;
                }
                let confirms = |rates: &Rates| {
                    let [fresh, beside] = rates;
                    retest::is_confirmed(group, &survey.wholes[at], judged, [fresh, beside])
                };
                found.insert((at, row), self.outcome(*pair_at, &confirms));
            }
        }
        self.decide(&close, strata, survey, &mut found);
        found
    }

    /// Decides what was too close, by places of pair, group and row: by the fresh repeats alone,
    /// since the first ones have chosen it. False discoveries are controlled over all of them.
    fn decide(
        &self,
        close: &[(usize, usize, usize)],
        strata: &Strata,
        survey: &Survey,
        found: &mut HashMap<(usize, usize), Outcome>,
    ) {
        let whole = |(pair, at, row): &(usize, usize, usize)| {
            let [fresh, beside] = self.rates.get(&(*pair, 1))?;
            let planned = &self.plan.pairs[*pair];
            let repeats = planned.repeats.unwrap_or(usize::MAX);
            let sides = [Some(fresh), planned.partner.as_ref().map(|_| beside)];
            let is_whole = sides.into_iter().flatten().all(|rates| rates.len() >= repeats);
            let parts = (&strata.groups[*at], &survey.wholes[*at], &survey.judged[*at][*row]);
            let standing = retest::standing(parts.0, parts.1, parts.2, fresh)?;
            let differs = retest::differs(parts.0, parts.1, parts.2, [fresh, beside]);
            is_whole.then_some((*pair, (*at, *row), standing, differs))
        };
        let all: Vec<_> = close.iter().filter_map(whole).collect();
        let below: Vec<f64> = all.iter().map(|(_, _, standing, _)| standing.below()).collect();
        let limit = student::false_discovery_limit(&below, FALSE_DISCOVERIES);
        for ((pair, place, standing, differs), below) in all.into_iter().zip(below) {
            let is_below = limit.is_some_and(|limit| below <= limit);
            let (verdict, said) = match (is_below, differs, standing.passes(FALSE_PASS)) {
                (true, true, _) => (Verdict::Fail, "slow by these alone"),
                (true, false, _) => (Verdict::Inconclusive, "slow, and so was its partner"),
                (_, _, true) => (Verdict::Pass, "above its bar by these alone"),
                _ => (Verdict::Inconclusive, "still too close"),
            };
            let planned = &self.plan.pairs[pair];
            let times = counted(planned.repeats.unwrap_or_default(), "time");
            let words = format!("measured anew{}, {times}: {said}", planned.beside());
            let is_confirmed = verdict == Verdict::Fail;
            found.insert(place, Outcome { is_confirmed, verdict, words });
        }
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
        let beside = pair.beside();
        let sessions = counted(pair.sessions, "session");
        let words = match (whole.len() < pair.sessions, again == whole.len()) {
            (_, false) => format!("measured anew{beside}, and not slow again: it went away"),
            (true, true) => format!("{} of {sessions} of its retest there so far", whole.len()),
            (false, true) => format!("slow again{beside}, in {sessions}"),
        };
        let verdict = match again < whole.len() {
            true => Verdict::Inconclusive,
            false => Verdict::Fail,
        };
        Outcome { is_confirmed: again == pair.sessions, verdict, words }
    }
}
