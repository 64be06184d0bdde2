//! Readings: what one record says of each metric of a device.

use super::{
    Resource,
    profile::{Aspect, Check, Key, Profile},
};
use fizeau_domain::{
    case::{KernelName, Work},
    outcome::{Code, Failure, Invalidity, Measurement, Outcome, Telemetry},
    spec::Tier,
};
use fizeau_record::{Header, Record};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A metric: a number of a point, under a check.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Metric {
    /// Index of the check in its profile.
    pub check: usize,
    /// The case's id without its kernel.
    pub point: String,
    /// Which number.
    pub aspect: Aspect,
}

/// One repeat of a metric, of the point's fastest kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The number: iterations each second, or as the metric's aspect says.
    pub value: f64,
    /// The same at the speed of light of each tier that is known.
    pub lights: Vec<(Tier, f64)>,
    /// The kernel.
    pub kernel: KernelName,
    /// What an iteration does.
    pub work: Work,
    /// What the device's sensors said meanwhile.
    pub telemetry: Option<Telemetry>,
    /// The clock that was observed, in megahertz.
    pub clock: Option<f64>,
    /// When it was measured, RFC 3339 in UTC.
    pub started: String,
    /// What took a part of the machine meanwhile.
    pub disturbed: Option<Disturbance>,
    /// Whether the device held its clock below what it could do, in most samples: no figure of what
    /// the device can do, and what is to be judged here.
    pub throttled: bool,
}

impl Reading {
    /// What held the device's clock meanwhile, in the words of a record.
    pub fn held_by(&self) -> &[String] {
        self.telemetry.as_ref().map_or(&[], |seen| &seen.held_by)
    }
}

/// What took a part of the machine while a repeat ran.
#[derive(Clone, Debug, PartialEq)]
pub struct Disturbance {
    /// In words.
    pub words: String,
    /// Whether it was a CPU quota.
    pub is_quota: bool,
}

/// Why a metric has no reading in a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Absence {
    /// In words.
    pub words: String,
    /// How it failed, where it did; `None` where it was skipped or not reached.
    pub failure: Option<Failure>,
}

impl Absence {
    /// Whether the device did not answer.
    pub fn is_of_device(&self) -> bool {
        matches!(self.failure, Some(Failure::DeviceLost | Failure::Hang))
    }
}

/// The suite of a record, as its command line names it; that of the profile where it names none.
pub fn suite_of<'r>(record: &'r Record, profile: &'r Profile) -> &'r str {
    let words = &record.header.command;
    let at = words.iter().position(|word| word == "--suite");
    at.and_then(|at| words.get(at + 1)).map_or(&profile.suite, |name| name)
}

/// Which checks of a profile select a case, found once for each case: the records of many repeats
/// have the same cases.
#[derive(Clone, Debug, Default)]
pub struct Selected {
    any_suite: bool,
    /// By suite and case id.
    known: HashMap<(String, String), Vec<usize>>,
}

impl Selected {
    /// A case counts whatever suite has it, under the first check that selects it alone.
    pub fn of_any_suite() -> Selected {
        Selected { any_suite: true, ..Selected::default() }
    }

    /// Whether a case counts whatever suite has it.
    pub fn is_of_any_suite(&self) -> bool {
        self.any_suite
    }

    fn checks(&mut self, profile: &Profile, suite: &str, id: &str) -> &[usize] {
        let any_suite = self.any_suite;
        self.known.entry((suite.to_owned(), id.to_owned())).or_insert_with(|| {
            let checks = profile.checks.iter().enumerate();
            // Bits have no rate: `corruption` looks at them.
            let is_rate = |check: &Check| check.resource != Resource::Results;
            let is_its = |check: &Check| {
                let is_of_suite = any_suite || profile.is_of_suite(check, suite);
                is_rate(check) && is_of_suite && check.has(id)
            };
            let its = checks.filter(|(_, check)| is_its(check)).map(|(at, _)| at);
            its.take(if any_suite { 1 } else { usize::MAX }).collect()
        })
    }
}

/// The readings of a record, or why there is none.
pub fn readings(record: &Record, profile: &Profile) -> BTreeMap<Metric, Result<Reading, Absence>> {
    readings_of(record, profile, &mut Selected::default())
}

/// The same for one of many records of a profile.
pub fn readings_of(
    record: &Record,
    profile: &Profile,
    selected: &mut Selected,
) -> BTreeMap<Metric, Result<Reading, Absence>> {
    let mut all = BTreeMap::new();
    let suite = suite_of(record, profile);
    let ended: BTreeMap<String, &Outcome> =
        record.outcomes.iter().map(|one| (one.case().to_string(), one)).collect();
    for case in &record.header.plan {
        let id = case.to_string();
        for &at in selected.checks(profile, suite, &id) {
            let outcome = ended.get(&id).copied().map(|outcome| (outcome, record));
            for &aspect in aspects(&profile.checks[at]) {
                let metric = Metric { check: at, point: case.point.to_string(), aspect };
                let found = reading(outcome, aspect);
                let entry = all.entry(metric);
                entry.and_modify(|best| better(best, &found)).or_insert(found);
            }
        }
    }
    all
}

/// The numbers that a check judges.
fn aspects(check: &Check) -> &'static [Aspect] {
    if check.at_clock { &[Aspect::AtClock, Aspect::Clock] } else { &[Aspect::Rate] }
}

/// Keeps the better of two kernels of a point. A wrong result is never outdone: it is a fault of
/// the device, whatever else it gets right.
fn better(best: &mut Result<Reading, Absence>, found: &Result<Reading, Absence>) {
    let is_wrong = |one: &Result<Reading, Absence>| {
        one.as_ref().is_err_and(|absence| absence.failure == Some(Failure::WrongResult))
    };
    let replaces = match (&*best, found) {
        _ if is_wrong(best) => false,
        _ if is_wrong(found) => true,
        // Of the clock the kernel does not matter: the lowest is that of who works hardest.
        (Ok(best), Ok(found)) => found.value > best.value,
        (Err(best), Err(found)) => best.failure.is_none() && found.failure.is_some(),
        (Err(_), Ok(_)) => true,
        (Ok(_), Err(_)) => false,
    };
    if replaces {
        *best = found.clone();
    }
}

fn reading(found: Option<(&Outcome, &Record)>, aspect: Aspect) -> Result<Reading, Absence> {
    let none = |words: String, failure| Err(Absence { words, failure });
    let Some((outcome, record)) = found else { return none("not reached".into(), None) };
    match outcome {
        Outcome::Skipped { reason, .. } => none(reason.clone(), None),
        Outcome::Failed { failure, error, .. } => none(error.clone(), Some(*failure)),
        Outcome::Invalid { invalidity: Invalidity::Throttled, measurement, .. } => {
            let found = measured(measurement, aspect, &record.header.started)?;
            Ok(Reading { throttled: true, ..found })
        }
        Outcome::Invalid { reason, .. } => none(reason.clone(), None),
        Outcome::Measured(one) => measured(one, aspect, &record.header.started),
    }
}

fn measured(one: &Measurement, aspect: Aspect, started: &str) -> Result<Reading, Absence> {
    let absent = |words: &str| Absence { words: words.into(), failure: None };
    let time = one.summary.median.0;
    if !(time.is_finite() && time > 0.0) {
        return Err(absent("it has no time"));
    }
    let clock = one.clock.map(|clock| clock.0).filter(|clock| *clock > 0.0);
    let told = || clock.ok_or_else(|| absent("the device does not tell its clock"));
    let (value, scale) = match aspect {
        Aspect::Rate => (1.0 / time, Some(1.0)),
        Aspect::AtClock => (1.0 / time / told()?, Some(1.0 / told()?)),
        Aspect::Clock => (told()?, None),
    };
    let lights = one.speed_of_light.iter().filter(|light| light.time.0 > 0.0);
    let lights = lights.filter_map(|light| Some((light.tier, scale? / light.time.0)));
    let disturbed =
        one.disturbance().map(|words| Disturbance { words, is_quota: one.held_by_quota() });
    Ok(Reading {
        value,
        lights: lights.collect(),
        kernel: one.case.kernel.clone(),
        work: one.work,
        telemetry: one.telemetry.clone(),
        clock,
        started: one.started.clone().unwrap_or_else(|| started.to_owned()),
        disturbed,
        throttled: false,
    })
}

/// What an iteration's rate is multiplied by to be in a unit of its own, and the unit.
pub fn unit(resource: Resource, aspect: Aspect, work: &Work) -> (f64, &'static str) {
    let is_arithmetic = matches!(resource, Resource::Arithmetic | Resource::Sustained);
    let bytes = if work.memory.0 > 0 { work.memory.0 } else { work.link.0 } as f64;
    let (amount, unit) = match () {
        () if is_arithmetic && work.flops.0 > 0.0 => (work.flops.0, ["FLOP/s", "FLOP/s/MHz"]),
        () if bytes > 0.0 => (bytes, ["B/s", "B/s/MHz"]),
        () => (1.0, ["1/s", "1/s/MHz"]),
    };
    match aspect {
        Aspect::Rate => (amount, unit[0]),
        Aspect::AtClock => (amount, unit[1]),
        Aspect::Clock => (1.0, "MHz"),
    }
}

/// Repeats of each kernel of a point before the slower ones are left out: one alone may have been
/// disturbed.
const KERNEL_REPEATS: usize = 2;

/// The kernels of each point so far, from which follows which of them are worth another repeat.
#[derive(Clone, Debug, Default)]
pub struct Kernels {
    /// By point and case id: repeats, and the shortest time of an iteration in seconds.
    by_point: BTreeMap<String, BTreeMap<String, (usize, f64)>>,
}

impl Kernels {
    /// Takes a repeat.
    pub fn add(&mut self, record: &Record) {
        let timed = record.outcomes.iter().filter_map(Outcome::measured);
        // Of bits each kernel is looked at for itself.
        for one in timed.filter(|one| one.integrity.is_none()) {
            let (point, id) = (one.case.point.to_string(), one.case.to_string());
            self.take(point, id, one.summary.median.0);
        }
    }

    fn take(&mut self, point: String, id: String, time: f64) {
        let (repeats, least) =
            self.by_point.entry(point).or_default().entry(id).or_insert((0, f64::INFINITY));
        *repeats += 1;
        *least = time.min(*least);
    }

    /// The ids of cases whose kernel is slower than another one of its point, by the best repeat of
    /// each; of none where a kernel has had fewer than two repeats.
    pub fn slower(&self) -> BTreeSet<&str> {
        let is_told = |kernels: &&BTreeMap<String, (usize, f64)>| {
            kernels.values().all(|(repeats, _)| *repeats >= KERNEL_REPEATS)
        };
        let mut slower = BTreeSet::new();
        for kernels in self.by_point.values().filter(is_told) {
            let mut times: Vec<(f64, &str)> =
                kernels.iter().map(|(id, (_, time))| (*time, id.as_str())).collect();
            times.sort_by(|a, b| a.0.total_cmp(&b.0));
            slower.extend(times.into_iter().skip(1).map(|(_, id)| id));
        }
        slower
    }
}

/// What identifies the figures of some records of one kind of device.
pub fn key<'r>(records: impl IntoIterator<Item = &'r Record>) -> Key {
    let mut key = Key::default();
    for record in records {
        let Header { device, environment, fizeau, build, part, .. } = &record.header;
        key.part = part.clone().unwrap_or_else(|| device.name.clone());
        key.units = device.units;
        key.libraries = environment.libraries.clone();
        // What ranks exchange messages by is the last of them, and not opened but for collectives.
        if !environment.ranks.is_empty() {
            key.collectives = key.libraries.pop();
        }
        key.firmware = environment.settings.as_ref().and_then(|one| one.vbios.clone());
        key.fizeau = match build {
            Some(build) => format!("{fizeau} ({build})"),
            None => fizeau.clone(),
        };
        key.stub |= device.is_stub();
        for outcome in &record.outcomes {
            for code in outcome.measured().into_iter().flat_map(|one| &one.code) {
                if let Code::Image { sha256, .. } = code {
                    key.images.push(sha256.clone());
                }
            }
        }
    }
    key.images.sort();
    key.images.dedup();
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_disturbed_repeat_does_not_leave_out_the_fastest_kernel() {
        let mut kernels = Kernels::default();
        let mut repeat = |fast: f64, slow: f64| {
            kernels.take("compute/f32".into(), "compute/f32/avx512".into(), fast);
            kernels.take("compute/f32".into(), "compute/f32/avx2".into(), slow);
            kernels.slower().into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(repeat(2.0, 1.1).is_empty(), "one repeat tells nothing");
        assert_eq!(repeat(1.0, 1.1), ["compute/f32/avx2"]);
        assert_eq!(repeat(9.0, 1.1), ["compute/f32/avx2"], "by the best repeat of each");
    }
}
