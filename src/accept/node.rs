//! A node under acceptance: records of repeats go in, what to measure next and verdicts come out.

use super::{
    Judged, Level, Quantity, Resource,
    cause::{self, Cause, Facts, Loss},
    corruption::Corruption,
    decide::{self, Against, Bar, Decision, LOOKS, Reason, Sequence, Series},
    history::Event,
    learn,
    profile::{Aspect, Check, Floor, Profile, Quality, Reference},
    reading::{self, Absence, Disturbance, Metric, Reading},
};
use crate::{
    outcome::Failure, record::Record, spec::Tier, stats::student::Variance, verdict::Verdict,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A device under acceptance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Device {
    /// As `fizeau devices` names it.
    pub name: String,
    /// What makes it one of its kind: devices of one kind are set beside each other.
    pub kind: String,
    /// Whether a stub driver stands in for it.
    pub is_stub: bool,
    /// What its state says.
    pub facts: Facts,
}

/// A metric of a device.
#[derive(Clone, Debug)]
struct Row {
    metric: Metric,
    device: usize,
    /// Its number in the sequence, once there is a reading.
    series: Option<usize>,
    readings: Vec<Reading>,
    disturbed: Vec<Disturbance>,
    absent: Vec<Absence>,
}

/// The node.
pub struct Node<'p> {
    profile: &'p Profile,
    level: Level,
    devices: Vec<Device>,
    rows: Vec<Row>,
    sequence: Sequence,
    corruption: Corruption,
    /// Why a device can be measured no more.
    lost: BTreeMap<usize, String>,
    history: Vec<Event>,
}

impl<'p> Node<'p> {
    /// Begins.
    pub fn new(profile: &'p Profile, level: Level, devices: Vec<Device>) -> Node<'p> {
        let (rows, lost, history) = (Vec::new(), BTreeMap::new(), Vec::new());
        let (sequence, corruption) = (Sequence::default(), Corruption::default());
        Node { profile, level, devices, rows, sequence, corruption, lost, history }
    }

    /// All that it was told so far, in order: [`super::history::again`] decides the same from it.
    pub fn history(&self) -> &[Event] {
        &self.history
    }

    /// The devices.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Takes what one repeat on a device has measured.
    pub fn add(&mut self, device: usize, record: &Record) {
        self.history.push(Event::Record { device, run: record.header.run.clone() });
        self.devices[device].is_stub |= record.header.device.is_stub();
        self.corruption.add(device, record, self.profile, self.level);
        for (metric, found) in reading::readings(record, self.profile) {
            if self.profile.checks[metric.check].level > self.level {
                continue;
            }
            let at = self.row(device, metric);
            match found {
                Err(absence) => self.miss(at, absence),
                Ok(found) => self.read(at, found),
            }
        }
    }

    fn row(&mut self, device: usize, metric: Metric) -> usize {
        let known = self.rows.iter().position(|row| row.device == device && row.metric == metric);
        known.unwrap_or_else(|| {
            let (readings, disturbed, absent) = (Vec::new(), Vec::new(), Vec::new());
            self.rows.push(Row { metric, device, series: None, readings, disturbed, absent });
            self.rows.len() - 1
        })
    }

    fn miss(&mut self, at: usize, absence: Absence) {
        let is_final = absence.failure.is_some();
        self.rows[at].absent.push(absence);
        if let (Some(series), true) = (self.rows[at].series, is_final) {
            self.sequence.lose(series);
        }
    }

    fn read(&mut self, at: usize, found: Reading) {
        let row = &mut self.rows[at];
        if let Some(disturbance) = found.disturbed.clone() {
            row.disturbed.push(disturbance);
            // It will not become better: the rest of the budget is for others.
            if let Some(series) = row.series.filter(|_| row.disturbed.len() >= LOOKS[0]) {
                self.sequence.lose(series);
            }
            return;
        }
        let value = found.value.ln();
        row.readings.push(found);
        let series = match row.series {
            Some(series) => series,
            None => {
                let series = self.series(at);
                let series = self.sequence.push(series);
                self.rows[at].series = Some(series);
                series
            }
        };
        self.sequence.take(series, value);
    }

    /// A series without values, with its bars.
    fn series(&self, at: usize) -> Series {
        let row = &self.rows[at];
        let check = &self.profile.checks[row.metric.check];
        let kind = &self.devices[row.device].kind;
        // Series of one metric on devices of one kind have the number of the first of them.
        let same =
            |other: &Row| other.metric == row.metric && &self.devices[other.device].kind == kind;
        let metric = self.rows.iter().position(same).unwrap_or(at);
        let effect = learn::effect(check.least_effect, row.metric.aspect);
        let floor = check.floor.as_ref().filter(|_| row.metric.aspect != Aspect::Clock);
        let floor = floor.and_then(|floor| floor_bar(floor, &row.readings[0]));
        let reference = self.profile.reference(&row.metric.point, row.metric.aspect);
        let reference = reference.map(|one| reference_bar(one, effect));
        Series {
            metric,
            least_effect: effect,
            values: Vec::new(),
            bars: floor.into_iter().chain(reference).collect(),
            has_peers: true,
        }
    }

    /// The points to measure next, of each device that has any to measure.
    pub fn wanted(&self) -> BTreeMap<usize, BTreeSet<String>> {
        let mut points: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
        let wanted: BTreeSet<usize> = self.sequence.wanted().iter().map(|one| one.0).collect();
        for row in &self.rows {
            let is_wanted = row.series.is_some_and(|series| wanted.contains(&series));
            // Not one undisturbed repeat yet.
            let is_unknown =
                row.series.is_none() && !row.disturbed.is_empty() && row.disturbed.len() < LOOKS[0];
            if (is_wanted || is_unknown) && !self.lost.contains_key(&row.device) {
                points.entry(row.device).or_default().insert(row.metric.point.clone());
            }
        }
        for (device, again) in self.corruption.wanted(&self.devices, &self.profile.hashes) {
            if !self.lost.contains_key(&device) {
                points.entry(device).or_default().extend(again);
            }
        }
        points
    }

    /// Whether there is anything to judge yet.
    pub fn is_begun(&self) -> bool {
        !self.sequence.series().is_empty()
    }

    /// Judges. Call it once nothing is wanted.
    pub fn judge(&mut self) {
        self.history.push(Event::Judge);
        self.sequence.judge();
    }

    /// Whether all is decided.
    pub fn is_over(&self) -> bool {
        self.sequence.is_over() && self.wanted().is_empty()
    }

    /// Gives up a device that can be measured no more.
    pub fn lose(&mut self, device: usize, why: String) {
        self.history.push(Event::Lost { device, why: why.clone() });
        self.lost.entry(device).or_insert(why);
        let series: Vec<usize> = self
            .rows
            .iter()
            .filter(|row| row.device == device)
            .filter_map(|row| row.series)
            .collect();
        series.into_iter().for_each(|series| self.sequence.lose(series));
    }

    /// Ends where it stands, because the budget did.
    pub fn end(&mut self) {
        self.history.push(Event::End);
        self.sequence.end();
    }

    /// What became of every check of every device so far.
    pub fn judged(&self) -> Vec<Judged> {
        let mut all = Vec::new();
        for device in 0..self.devices.len() {
            let rows: Vec<&Row> = self.rows.iter().filter(|row| row.device == device).collect();
            let losses: Vec<Loss> = rows.iter().filter_map(|row| self.loss(row)).collect();
            all.extend(rows.iter().filter_map(|row| self.judged_row(row, &losses)));
            all.extend(self.without_rows(device, &rows));
        }
        all.extend(self.corruption.judged(&self.devices, self.profile, self.level, &self.lost));
        all
    }

    /// Checks of which nothing was measured on a device.
    fn without_rows(&self, device: usize, rows: &[&Row]) -> Vec<Judged> {
        let judged = |row: &&&Row| row.series.is_some() || row.is_told();
        let seen: BTreeSet<usize> =
            rows.iter().filter(judged).map(|row| row.metric.check).collect();
        let checks = self.profile.checks.iter().enumerate();
        let missing = checks.filter(|(at, check)| {
            let is_rate = check.resource != Resource::Results;
            is_rate && check.level <= self.level && !seen.contains(at)
        });
        let lost = self.lost.get(&device);
        let one = |(at, check): (usize, &Check)| {
            let skipped = rows.iter().filter(|row| row.metric.check == at);
            let reason = skipped.flat_map(|row| &row.absent).map(|one| one.words.clone()).next();
            let words = lost.cloned().or(reason).unwrap_or_else(|| "nothing was measured".into());
            let name = &self.devices[device].name;
            let stub = self.devices[device].is_stub;
            let judged = Judged::of_state(&check.name, name, Verdict::Inconclusive, words);
            let judged = if lost.is_some() { judged.because(Cause::DeviceLost) } else { judged };
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

    fn judged_row(&self, row: &Row, losses: &[Loss]) -> Option<Judged> {
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
            return Some(self.decided(row, judged, &decision, losses));
        }
        if let Some(words) = self.lost.get(&row.device) {
            judged.words.clone_from(words);
            return Some(judged.because(Cause::DeviceLost));
        }
        if let Some(disturbance) = row.disturbed.last() {
            judged.words = format!(
                "{} of {} repeats were disturbed: it {}",
                row.disturbed.len(),
                row.disturbed.len() + row.readings.len(),
                disturbance.words
            );
            let cause = if disturbance.is_quota { Cause::CpuQuota } else { Cause::BusyHost };
            return Some(judged.because(cause));
        }
        let failed = row.absent.iter().rev().find(|absence| absence.failure.is_some());
        if let Some(absence) = failed {
            judged.words.clone_from(&absence.words);
            let is_lost = absence.failure == Some(Failure::DeviceLost);
            return Some(if is_lost { judged.because(Cause::DeviceLost) } else { judged });
        }
        if row.readings.is_empty() {
            return None;
        }
        judged.words = "not decided yet".into();
        Some(judged)
    }

    fn decided(&self, row: &Row, judged: Judged, decision: &Decision, losses: &[Loss]) -> Judged {
        let check = &self.profile.checks[row.metric.check];
        let device = &self.devices[row.device];
        let (scale, unit) = row.unit(check.resource);
        let number = |log: f64| log.exp() * scale;
        let is_shown = !device.is_stub;
        let mut facts = device.facts.clone();
        facts.held_by.extend(row.readings.iter().flat_map(|one| one.held_by.clone()));
        let cause = match (decision.verdict, decision.reason) {
            (Verdict::Fail, _) => Some(match row.metric.aspect {
                Aspect::Clock => cause_of_clock(&facts),
                _ => cause::name(check.resource, losses, &facts),
            }),
            (_, Reason::NotRepeated) => Some(Cause::NoisyNeighbour),
            (_, Reason::TooNoisy) => Some(Cause::Noise),
            _ => None,
        };
        let judged = Judged {
            verdict: decision.verdict,
            value: is_shown.then(|| Quantity { value: number(decision.log), unit }),
            floor: decision.bar.filter(|_| is_shown).map(|bar| number(bar.log)),
            floor_source: decision.bar.map(|bar| self.source(row, bar)),
            above_floor: decision.bar.map(|bar| (decision.log - bar.log).exp_m1()),
            interval: is_shown.then(|| decision.interval.map(number)),
            confidence: Some(decision.confidence),
            noise: Some(decision.noise),
            repeats: decision.repeats,
            words: self.words(row, decision),
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
                return "nothing to set it against: learn a profile from good nodes".into();
            }
            Reason::NoBar => {
                "this floor is only for what is grossly slow, and passes nothing".into()
            }
            Reason::TooNoisy => {
                let effect = self.profile.checks[row.metric.check].least_effect;
                let effect = learn::effect(effect, row.metric.aspect) * 100.0;
                format!("repeats scatter by {noise:.1} %: too much to see {effect:.1} %")
            }
            Reason::TooClose => format!("too near to tell after {} repeats", decision.repeats),
            Reason::NotRepeated => "slow at first, and not when it was measured anew".into(),
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
        let Some(work) = self.readings.first().map(|one| one.work) else { return (1.0, "1/s") };
        let is_arithmetic = matches!(resource, Resource::Arithmetic | Resource::Sustained);
        let bytes = if work.memory.0 > 0 { work.memory.0 } else { work.link.0 } as f64;
        let (amount, unit) = match () {
            () if is_arithmetic && work.flops.0 > 0.0 => (work.flops.0, ["FLOP/s", "FLOP/s/MHz"]),
            () if bytes > 0.0 => (bytes, ["B/s", "B/s/MHz"]),
            () => (1.0, ["1/s", "1/s/MHz"]),
        };
        match self.metric.aspect {
            Aspect::Rate => (amount, unit[0]),
            Aspect::AtClock => (amount, unit[1]),
            Aspect::Clock => (1.0, "MHz"),
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

/// The bar of a floor, where the speed of light of its tier is known.
fn floor_bar(floor: &Floor, reading: &Reading) -> Option<Bar> {
    let tier = Tier::from(floor.tier);
    let light = reading.lights.iter().find(|(of, _)| *of == tier)?.1;
    Some(Bar {
        against: Against::Floor,
        log: (floor.share * light).ln(),
        error: Variance { value: 0.0, freedom: f64::INFINITY },
        may_pass: floor.quality != Quality::Weak,
        may_fail: true,
    })
}

/// The bar of a reference, the least effect below it.
///
/// Its error has two parts: the reference's own median is uncertain, and the runs of one device
/// differ, by which this run may be off as well. Where no device was run twice the spread of
/// devices stands in for it.
pub fn reference_bar(reference: &Reference, effect: f64) -> Bar {
    let Reference { median, error, error_freedom, spread_of_runs, spread_of_devices, .. } =
        reference;
    let (runs, devices) = (reference.runs as f64, reference.devices as f64);
    let of_runs = spread_of_runs.or(*spread_of_devices).unwrap_or(effect);
    let this_run = Variance {
        value: of_runs * of_runs,
        freedom: (runs - devices).max(devices - 1.0).max(1.0),
    };
    let own = Variance { value: error * error, freedom: *error_freedom };
    Bar {
        against: Against::Reference,
        log: median.ln() + (1.0 - effect).ln(),
        error: decide::sum(&[this_run, own]),
        may_pass: true,
        may_fail: of_runs <= effect / decide::GATE,
    }
}
