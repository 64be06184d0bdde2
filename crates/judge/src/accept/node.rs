//! A node under acceptance: records of repeats go in, what to measure next and verdicts come out.

mod judged;
mod numa;
mod soak;

pub use soak::Sample;

use super::{
    Level,
    cause::{Cause, Facts},
    corruption::Corruption,
    decide::{self, Against, Bar, LOOKS, Sequence, Series},
    history::Event,
    learn,
    profile::{Aspect, Floor, Profile, Quality, Reference, Way},
    reading::{self, Absence, Disturbance, Metric, Reading},
};
use fizeau_domain::{spec::Tier, stats::student::Variance};
use fizeau_record::Record;
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
    /// How many devices this is, where it is all of them together, as ranks of collectives; 0 of
    /// one device.
    pub ranks: usize,
    /// What its state says.
    pub facts: Facts,
}

impl Device {
    /// Whether it is measured in a way: collectives by all devices together, the rest by each.
    pub fn is_measured(&self, way: Way) -> bool {
        (way == Way::AsRanks) == (self.ranks > 0)
    }
}

/// What a node wants to be measured next of a device: points, each under one of its checks.
pub type Wanted = BTreeSet<(usize, String)>;

/// Devices that can be measured no more: why, and what is to blame where that is known.
pub type Lost = BTreeMap<usize, (String, Option<Cause>)>;

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
    lost: Lost,
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
        self.take(device, record, |_| true);
    }

    /// Takes a repeat of an acceptance that is continued: a device that did not answer then may
    /// answer now.
    pub fn add_earlier(&mut self, device: usize, record: &Record) {
        self.history.push(Event::Earlier { device, run: record.header.run.clone() });
        self.take(device, record, |absence| !absence.is_of_device());
    }

    fn take(&mut self, device: usize, record: &Record, counts: fn(&Absence) -> bool) {
        self.devices[device].is_stub |= record.header.device.is_stub();
        let environment = &record.header.environment;
        let is_remote = |words: &String| words.contains("may not run on NUMA node");
        self.devices[device].facts.is_remote |= environment.warnings.iter().any(is_remote);
        self.corruption.add(device, record, self.profile, self.level);
        for (metric, found) in reading::readings(record, self.profile) {
            if self.profile.checks[metric.check].level > self.level {
                continue;
            }
            let at = self.row(device, metric);
            match found {
                Err(absence) if counts(&absence) => self.miss(at, absence),
                Err(_) => {}
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
        let device = &self.devices[row.device];
        // Series of one metric on devices of one kind have the number of the first of them. Pairs
        // of devices have points of their own.
        let is_alike = |other: &Metric| {
            let (own, its) = (pair_of(&row.metric.point), pair_of(&other.point));
            let points = match check.pairs_alike.then_some(own.zip(its)).flatten() {
                Some(((own, _), (its, _))) => own == its,
                None => row.metric.point == other.point,
            };
            points && other.check == row.metric.check && other.aspect == row.metric.aspect
        };
        let same = |other: &Row| {
            let other_device = &self.devices[other.device];
            is_alike(&other.metric)
                && other_device.kind == device.kind
                && other_device.ranks == device.ranks
        };
        let metric = self.rows.iter().position(same).unwrap_or(at);
        let effect = learn::effect(check.least_effect, row.metric.aspect);
        let floor = check.floor.as_ref().filter(|_| row.metric.aspect != Aspect::Clock);
        let floor = floor.and_then(|floor| floor_bar(floor, &row.readings[0]));
        let reference = self.profile.reference(&row.metric.point, row.metric.aspect);
        let session = reference.and_then(session_of);
        let reference = reference.map(|one| reference_bar(one, effect));
        Series {
            metric,
            least_effect: effect,
            values: Vec::new(),
            bars: floor.into_iter().chain(reference).collect(),
            has_peers: numa::has_peers(&row.metric.point),
            session,
        }
    }

    /// The points to measure next, of each device that has any to measure.
    pub fn wanted(&self) -> BTreeMap<usize, Wanted> {
        let mut points: BTreeMap<usize, Wanted> = BTreeMap::new();
        let wanted: BTreeSet<usize> = self.sequence.wanted().iter().map(|one| one.0).collect();
        for row in &self.rows {
            let is_wanted = row.series.is_some_and(|series| wanted.contains(&series));
            // Not one undisturbed repeat yet.
            let is_unknown =
                row.series.is_none() && !row.disturbed.is_empty() && row.disturbed.len() < LOOKS[0];
            if (is_wanted || is_unknown) && !self.lost.contains_key(&row.device) {
                let point = (row.metric.check, row.metric.point.clone());
                points.entry(row.device).or_default().insert(point);
            }
        }
        for (device, again) in self.corruption.wanted(&self.devices, &self.profile.hashes) {
            if !self.lost.contains_key(&device) {
                points.entry(device).or_default().extend(again);
            }
        }
        points
    }

    /// Whether a point was measured on a device under a check.
    pub fn has_read(&self, device: usize, check: usize, point: &str) -> bool {
        let is_it = |row: &&Row| {
            let metric = &row.metric;
            row.device == device && metric.check == check && metric.point == point
        };
        let mut rows = self.rows.iter().filter(is_it);
        rows.any(|row| !row.readings.is_empty() || !row.disturbed.is_empty())
            || self.corruption.has_looked(device, check, point)
    }

    /// Whether there is anything to judge yet.
    pub fn is_begun(&self) -> bool {
        !self.sequence.series().is_empty()
    }

    /// Whether nothing is wanted but repeats that confirm failures, each beside a device that
    /// passed: to be measured one after another, in turn.
    pub fn is_retest(&self) -> bool {
        self.sequence.is_retest()
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

    /// Gives up a device that can be measured no more: why, and what is to blame where that is
    /// known.
    pub fn lose(&mut self, device: usize, why: String, cause: Option<Cause>) {
        self.history.push(Event::Lost { device, why: why.clone(), cause });
        self.lost.entry(device).or_insert((why, cause));
        let series: Vec<usize> = self
            .rows
            .iter()
            .filter(|row| row.device == device)
            .filter_map(|row| row.series)
            .collect();
        series.into_iter().for_each(|series| self.sequence.lose(series));
    }

    /// Whether a device can be measured no more.
    pub fn is_lost(&self, device: usize) -> bool {
        self.lost.contains_key(&device)
    }

    /// Ends where it stands, because the budget did.
    pub fn end(&mut self) {
        self.history.push(Event::End);
        self.sequence.end();
    }
}

/// A point of a pair of devices without the pair, and the pair: `transfer/../256MiB`, `0-3`.
fn pair_of(point: &str) -> Option<(&str, &str)> {
    let (rest, pair) = point.rsplit_once('/')?;
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    let is_pair = pair.split_once('-').is_some_and(|(a, b)| is_number(a) && is_number(b));
    is_pair.then_some((rest, pair))
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

/// Variance of what a session of a device is off by beside the other devices of its node, as the
/// runs of a reference tell it; its spread has a standard error in it already. `None` where no
/// device was run twice.
pub fn session_of(reference: &Reference) -> Option<Variance> {
    let runs = reference.spread_of_runs?;
    let spread = reference.spread_beside_others.map_or(runs, |beside| beside.min(runs));
    let freedom = (reference.runs as f64 - reference.devices as f64).max(1.0);
    Some(Variance { value: spread * spread, freedom })
}

/// The bar of a reference, the least effect below it.
///
/// Its error has two parts: the reference's own median is uncertain, and the runs of one device
/// differ, by which this run may be off as well. Where no device was run twice the spread of
/// devices stands in for it.
pub fn reference_bar(reference: &Reference, effect: f64) -> Bar {
    let Reference { median, error, error_freedom, .. } = reference;
    let (runs, devices) = (reference.runs as f64, reference.devices as f64);
    let of_runs = learn::between_runs_of(reference, effect);
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
        may_fail: learn::may_fail(reference, effect),
    }
}
