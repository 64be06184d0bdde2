//! What became of every check of every device: verdicts with their numbers, causes and words.

use super::{Device, Node, Row, numa::Faster, pair_of};
use crate::accept::{
    Judged, Quantity, Resource,
    cause::{self, Cause, Facts, Loss},
    decide::{Against, Bar, Decision, Reason},
    learn,
    profile::{Aspect, Check, Floor},
    reading::{self, Absence},
};
use fizeau_domain::{outcome::Failure, spec::Tier, text::counted, verdict::Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// What the rows of a device say together.
struct Seen<'r> {
    losses: Vec<Loss>,
    /// Its pairs that failed.
    slow: Vec<&'r str>,
    /// How many pairs there are.
    pairs: usize,
    /// A NUMA node that is faster than its own.
    faster: Option<Faster>,
}

impl Node<'_> {
    /// What became of every check of every device so far.
    pub fn judged(&self) -> Vec<Judged> {
        let mut all = Vec::new();
        for device in 0..self.devices.len() {
            let rows: Vec<&Row> = self.rows.iter().filter(|row| row.device == device).collect();
            let losses: Vec<Loss> = rows.iter().filter_map(|row| self.loss(row)).collect();
            let (slow, pairs) = self.slow_peers(&rows);
            let faster = self.faster_node(&rows);
            let seen = Seen { losses, slow, pairs, faster };
            all.extend(rows.iter().filter_map(|row| self.judged_row(row, &seen)));
            let Device { name, is_stub, .. } = &self.devices[device];
            all.extend(faster.map(|faster| faster.judged(name, *is_stub)));
            all.extend(self.without_rows(device, &rows));
            all.extend(self.errors(device, &rows));
            all.extend(self.steadiness(&rows));
        }
        all.extend(self.corruption.judged(&self.devices, self.profile, self.level, &self.lost));
        all
    }

    /// The pairs of a device that failed, and how many there are.
    fn slow_peers<'r>(&self, rows: &[&'r Row]) -> (Vec<&'r str>, usize) {
        let pairs = rows.iter().filter_map(|row| Some((row, pair_of(&row.metric.point)?.1)));
        let (mut slow, mut all) = (Vec::new(), 0);
        for (row, pair) in pairs {
            all += 1;
            let decision = row.series.and_then(|series| self.sequence.decision(series));
            if decision.is_some_and(|decision| decision.verdict == Verdict::Fail) {
                slow.push(pair);
            }
        }
        (slow, all)
    }

    /// Checks of which nothing was measured on a device.
    fn without_rows(&self, device: usize, rows: &[&Row]) -> Vec<Judged> {
        let judged = |row: &&&Row| row.series.is_some() || row.is_told();
        let seen: BTreeSet<usize> =
            rows.iter().filter(judged).map(|row| row.metric.check).collect();
        let checks = self.profile.checks.iter().enumerate();
        let device_of = &self.devices[device];
        // One device alone has no peers.
        let is_alone = self.devices.iter().filter(|one| one.ranks == 0).count() < 2;
        let is_due = |check: &Check| {
            // Of bits `corruption` judges.
            let is_rate = check.resource != Resource::Results;
            let has_any = is_rate && !(is_alone && check.resource == Resource::PeerLink);
            check.level <= self.level && device_of.is_measured(check.way()) && has_any
        };
        let missing = checks.filter(|(at, check)| is_due(check) && !seen.contains(at));
        let lost = self.lost.get(&device);
        let one = |(at, check): (usize, &Check)| {
            let skipped = rows.iter().filter(|row| row.metric.check == at);
            let reason = skipped.flat_map(|row| &row.absent).map(|one| one.words.clone()).next();
            let why = lost.map(|(why, _)| why.clone());
            let words = why.or(reason).unwrap_or_else(|| "nothing was measured".into());
            let name = &self.devices[device].name;
            let stub = self.devices[device].is_stub;
            let judged = Judged::of_state(&check.name, name, Verdict::Inconclusive, words);
            let judged = match lost.and_then(|(_, cause)| *cause) {
                Some(cause) => judged.because(cause),
                None => judged,
            };
            Judged { stub, ..judged }
        };
        missing.map(one).collect()
    }

    /// How far a row is below what it should be, where it is known.
    fn loss(&self, row: &Row) -> Option<Loss> {
        let decision = self.sequence.decision(row.series?)?;
        let bar = decision.bar.filter(|bar| bar.against != Against::Floor)?;
        let resource = self.profile.checks[row.metric.check].resource;
        if row.metric.aspect == Aspect::Clock {
            return None;
        }
        let effect = self.sequence.series()[row.series?].least_effect;
        let loss = 1.0 - (decision.log - bar.log).exp() * (1.0 - effect);
        Some(Loss { resource, loss, failed: decision.verdict == Verdict::Fail })
    }

    fn judged_row(&self, row: &Row, seen: &Seen<'_>) -> Option<Judged> {
        let device = &self.devices[row.device];
        let check = &self.profile.checks[row.metric.check];
        let name = match row.metric.aspect {
            Aspect::Rate | Aspect::AtClock => check.name.clone(),
            Aspect::Clock => format!("{}: clock", check.name),
        };
        let mut judged =
            Judged::of_state(&name, &device.name, Verdict::Inconclusive, String::new());
        judged.point = Some(row.metric.point.clone());
        judged.stub = device.is_stub;
        judged.repeats = row.readings.len();
        judged.kernel = row.kernel();
        if let Some(wrong) = row.wrong() {
            judged.verdict = Verdict::Fail;
            judged.words = format!("wrong result: {}", wrong.words);
            return Some(judged.because(Cause::WrongResult));
        }
        if let Some(decision) = row.series.and_then(|series| self.sequence.decision(series)) {
            return Some(self.decided(row, judged, &decision, seen));
        }
        if let Some((words, cause)) = self.lost.get(&row.device) {
            judged.words.clone_from(words);
            return Some(cause.map_or(judged.clone(), |cause| judged.because(cause)));
        }
        if let Some(disturbance) = row.disturbed.last() {
            judged.words = format!(
                "{} of {} disturbed: it {}",
                row.disturbed.len(),
                counted(row.disturbed.len() + row.readings.len(), "repeat"),
                disturbance.words
            );
            let cause = if disturbance.is_quota { Cause::CpuQuota } else { Cause::BusyHost };
            return Some(judged.because(cause));
        }
        let failed = row.absent.iter().rev().find(|absence| absence.failure.is_some());
        if let Some(absence) = failed {
            judged.words.clone_from(&absence.words);
            return Some(if absence.is_of_device() {
                judged.because(Cause::DeviceLost)
            } else {
                judged
            });
        }
        if row.readings.is_empty() {
            return None;
        }
        judged.words = "not decided yet".into();
        Some(judged)
    }

    fn decided(
        &self,
        row: &Row,
        judged: Judged,
        decision: &Decision,
        Seen { losses, slow, pairs, faster }: &Seen<'_>,
    ) -> Judged {
        let check = &self.profile.checks[row.metric.check];
        let device = &self.devices[row.device];
        let (scale, unit) = row.unit(check.resource);
        let number = |log: f64| log.exp() * scale;
        let is_shown = !device.is_stub;
        let mut facts = device.facts.clone();
        facts.held_by.extend(row.readings.iter().flat_map(|one| one.held_by().to_vec()));
        facts.is_near_slow = faster.is_some();
        facts.has_some_slow_peers = !slow.is_empty() && slow.len() < *pairs;
        let mut words = self.words(row, decision);
        if decision.verdict == Verdict::Fail && pair_of(&row.metric.point).is_some() {
            let own = match slow.len() {
                all if all == *pairs => "slow with every peer".to_owned(),
                some => format!("{some} of {pairs} pairs are slow: {}", slow.join(", ")),
            };
            words = format!("{words}; {own}");
        }
        let cause = match (decision.verdict, decision.reason) {
            (Verdict::Fail, _) => Some(match row.metric.aspect {
                Aspect::Clock => cause_of_clock(&facts),
                _ => cause::name(check.resource, losses, &facts),
            }),
            (_, Reason::NotRepeated | Reason::PartnerToo) => Some(Cause::NoisyNeighbour),
            (_, Reason::TooNoisy) => Some(Cause::Noise),
            _ => None,
        };
        if let (Some(Cause::NumaNode), Some(faster)) = (cause, faster) {
            words = format!("{words}; {}", faster.words());
        }
        // Others' work is no fault of the machine.
        let is_excused = cause == Some(Cause::BusyHost);
        let judged = Judged {
            verdict: if is_excused { Verdict::Inconclusive } else { decision.verdict },
            value: is_shown.then(|| Quantity { value: number(decision.log), unit }),
            floor: decision.bar.filter(|_| is_shown).map(|bar| number(bar.log)),
            floor_source: decision.bar.map(|bar| self.source(row, bar)),
            above_floor: decision.bar.map(|bar| (decision.log - bar.log).exp_m1()),
            interval: is_shown.then(|| decision.interval.map(number)),
            confidence: Some(decision.confidence),
            noise: Some(decision.noise),
            repeats: decision.repeats,
            words,
            ..judged
        };
        match cause {
            Some(cause) => judged.because(cause),
            None => judged,
        }
    }

    fn source(&self, row: &Row, bar: Bar) -> String {
        let check = &self.profile.checks[row.metric.check];
        let effect = 100.0 * learn::effect(check.least_effect, row.metric.aspect);
        match (bar.against, &check.floor) {
            (Against::Floor, Some(floor)) => {
                let Floor { share, tier, source, .. } = floor;
                let tier = Tier::from(*tier);
                format!("{:.0} % of the speed of light ({tier}): {source}", share * 100.0)
            }
            (Against::Floor, None) => String::new(),
            (Against::Reference, _) => format!("{effect:.1} % below profile {}", self.profile.name),
            (Against::Peers, _) => format!("{effect:.1} % below this node's other devices"),
        }
    }

    fn words(&self, row: &Row, decision: &Decision) -> String {
        let away = decision.bar.map(|bar| (decision.log - bar.log).exp_m1() * 100.0);
        let away = away.map_or(String::new(), |away| match away {
            away if away >= 100.0 => format!("{:.1} times its floor", 1.0 + away / 100.0),
            away if away >= 0.0 => format!("{away:.1} % above its floor"),
            away => format!("{:.1} % below its floor", -away),
        });
        let noise = decision.noise * 100.0;
        let why = match decision.reason {
            Reason::Decided => return away,
            Reason::NoBar if decision.bar.is_none() => {
                return "it has no reference: learn a profile from good nodes".into();
            }
            Reason::NoBar => {
                "this floor is only for what is grossly slow, and passes nothing".into()
            }
            Reason::TooNoisy => {
                let effect = self.profile.checks[row.metric.check].least_effect;
                let effect = learn::effect(effect, row.metric.aspect) * 100.0;
                format!("repeats scatter by {noise:.1} %: too much to see {effect:.1} %")
            }
            Reason::TooClose => {
                format!("not sure enough after {}", counted(decision.repeats, "repeat"))
            }
            Reason::BarUnsure => {
                "its floor is too uncertain to decide: learn the profile from more runs".into()
            }
            Reason::NotRepeated => "slow at first, and not when it was measured anew".into(),
            Reason::PartnerToo => {
                "slow also when it was measured anew, and so was the device beside it".into()
            }
            Reason::NotConfirmed => "it failed, and was not measured anew to confirm that".into(),
        };
        [away, why].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
    }
}

impl Row {
    fn wrong(&self) -> Option<&Absence> {
        self.absent.iter().find(|one| one.failure == Some(Failure::WrongResult))
    }

    /// Whether it says something although it has no series.
    fn is_told(&self) -> bool {
        !self.disturbed.is_empty() || self.absent.iter().any(|one| one.failure.is_some())
    }

    /// The kernel that was fastest most often.
    fn kernel(&self) -> Option<String> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for reading in &self.readings {
            *counts.entry(&reading.kernel.0).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(name, _)| name.to_owned())
    }

    /// What an iteration's rate is multiplied by to be in a unit of its own.
    fn unit(&self, resource: Resource) -> (f64, &'static str) {
        match self.readings.first() {
            Some(one) => reading::unit(resource, self.metric.aspect, &one.work),
            None => (1.0, "1/s"),
        }
    }
}

fn cause_of_clock(facts: &Facts) -> Cause {
    let is_held = |word: &str| facts.held_by.iter().any(|reason| reason.contains(word));
    match () {
        () if is_held("thermal") => Cause::Thermal,
        () if is_held("power") || is_held("board") => Cause::PowerCap,
        () if is_held("user") => Cause::Settings,
        () => Cause::Unknown,
    }
}
