//! Silent corruption: what comparisons of bits say of each device (`sdc/...`).
//!
//! - **Odd** is a look at a case of which something differed: one product from the others of the
//!   run, the hash of most of them from that of the other devices of the kind (from three on), or
//!   from the profile's table. Of two devices that differ nobody knows which is right: both
//!   are odd.
//! - A device is odd **again** where two looks are, each by a process of its own. It then fails,
//!   unless more than half of the devices of its kind are odd too: that is a kernel, a driver or
//!   the table, and no device.
//! - Odd once and not again in [`RETESTS`] further looks is inconclusive: a fault may be as seldom.
//! - Else it passes, with the rate that this many comparisons could have shown. There is no "no
//!   corruption".

use super::{
    Action, Judged, Level, Resource,
    cause::Cause,
    node::{Device, Lost, Wanted},
    profile::{Check, Golden, Profile},
    reading,
};
use fizeau_domain::{
    case::Point,
    outcome::{Code, Failure, Integrity, Outcome},
    stats::rate_seen,
    verdict::Verdict,
};
use fizeau_record::Record;
use std::collections::BTreeMap;

/// Looks that follow one that was odd.
pub const RETESTS: usize = 2;

/// Devices of a kind from which on most of them are believed.
pub const PEERS_MIN: usize = 3;

/// What one process found of a case on a device.
#[derive(Clone, Debug, PartialEq)]
struct Look {
    found: Integrity,
    /// Whether something differed within it, or was wrong by its reference.
    is_wrong: bool,
    words: String,
    /// SHA-256 of the kernels' images.
    images: Vec<String>,
}

/// A case on a device.
#[derive(Clone, Debug)]
struct Row {
    device: usize,
    check: usize,
    case: String,
    point: String,
    kernel: String,
    looks: Vec<Look>,
    absent: Option<String>,
}

/// What was found on the devices of a node.
#[derive(Clone, Debug, Default)]
pub struct Corruption {
    rows: Vec<Row>,
}

/// The images of kernels among what code ran, sorted.
fn images(code: &[Code]) -> Vec<String> {
    let image = |code: &Code| match code {
        Code::Image { sha256, .. } => Some(sha256.clone()),
        Code::Library { .. } => None,
    };
    let mut all: Vec<String> = code.iter().filter_map(image).collect();
    all.sort();
    all
}

/// What an outcome says; in words, where it says nothing of bits.
fn look(outcome: Option<&Outcome>) -> Result<Look, String> {
    let none = || "no bits were compared".to_owned();
    match outcome {
        None => Err("not reached".into()),
        Some(Outcome::Skipped { reason, .. } | Outcome::Invalid { reason, .. }) => {
            Err(reason.clone())
        }
        Some(Outcome::Measured(one)) => {
            let mut found = one.integrity.as_deref().cloned().ok_or_else(none)?;
            if let Some(seen) = &one.telemetry {
                found.ecc_corrected = seen.ecc_corrected;
                found.ecc_uncorrected = seen.ecc_uncorrected;
            }
            let (words, images) = (found.words(), images(&one.code));
            Ok(Look { found, is_wrong: false, words, images })
        }
        Some(Outcome::Failed { failure: Failure::WrongResult, error, integrity, .. }) => {
            let found = integrity.as_deref().cloned().ok_or_else(none)?;
            Ok(Look { found, is_wrong: true, words: error.clone(), images: Vec::new() })
        }
        Some(Outcome::Failed { error, .. }) => Err(error.clone()),
    }
}

impl Corruption {
    /// Takes what one process has found on a device.
    pub fn add(&mut self, device: usize, record: &Record, profile: &Profile, level: Level) {
        let suite = reading::suite_of(record, profile);
        let sdc = record.header.plan.iter().filter(|case| matches!(case.point, Point::Sdc(_)));
        for case in sdc {
            let id = case.to_string();
            let its = |check: &Check| {
                is_due(check, level) && profile.is_of_suite(check, suite) && check.has(&id)
            };
            let Some(check) = profile.checks.iter().position(its) else { continue };
            let known = self.rows.iter().position(|row| row.device == device && row.case == id);
            let at = known.unwrap_or_else(|| {
                let (point, kernel) = (case.point.to_string(), case.kernel.0.clone());
                let (looks, absent) = (Vec::new(), None);
                let case = id.clone();
                self.rows.push(Row { device, check, case, point, kernel, looks, absent });
                self.rows.len() - 1
            });
            match look(record.outcomes.iter().find(|one| one.case() == case)) {
                Ok(look) => self.rows[at].looks.push(look),
                Err(words) => self.rows[at].absent = Some(words),
            }
        }
    }

    /// The points to look at again, by device.
    pub fn wanted(&self, devices: &[Device], table: &[Golden]) -> BTreeMap<usize, Wanted> {
        let mut points: BTreeMap<usize, Wanted> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| row.looks.len() <= RETESTS) {
            if self.odd(row, devices, table).len() == 1 {
                points.entry(row.device).or_default().insert((row.check, row.point.clone()));
            }
        }
        points
    }

    /// Whether a point was looked at on a device under a check.
    pub fn has_looked(&self, device: usize, check: usize, point: &str) -> bool {
        let is_it = |row: &&Row| row.device == device && row.check == check && row.point == point;
        self.rows.iter().filter(is_it).any(|row| !row.looks.is_empty())
    }

    /// Looks at the same case on devices of the same kind, by the same kernels.
    fn alike<'c>(&'c self, row: &'c Row, devices: &'c [Device]) -> impl Iterator<Item = &'c Row> {
        let kind = |row: &Row| &devices[row.device].kind;
        self.rows.iter().filter(move |other| other.case == row.case && kind(other) == kind(row))
    }

    /// In words, why each look is odd that is.
    fn odd(&self, row: &Row, devices: &[Device], table: &[Golden]) -> Vec<String> {
        let hashes = self.hashes(row, devices);
        let all: usize = hashes.values().sum();
        let most = hashes.iter().max_by_key(|(_, count)| **count);
        let majority = most.filter(|(_, count)| all >= PEERS_MIN && 2 * **count > all);
        let of_table = table.iter().find(|golden| golden.case == row.case);
        let words = |look: &Look| {
            if look.is_wrong {
                return Some(look.words.clone());
            }
            let hash = look.found.hash.as_ref()?;
            match majority {
                Some((right, count)) if *right != hash => {
                    return Some(format!("its bits (hash {hash}) are not those of {count} others"));
                }
                None if hashes.len() > 1 => {
                    return Some(format!(
                        "devices of the kind left different bits (here hash {hash}), and it cannot \
                         be told whose are right"
                    ));
                }
                _ => {}
            }
            let same_code =
                |golden: &&Golden| golden.images.is_empty() || golden.images == look.images;
            let golden = of_table.filter(same_code).filter(|golden| &golden.hash != hash)?;
            let runs = golden.runs;
            Some(format!("its bits (hash {hash}) are not those of the profile's {runs} runs"))
        };
        row.looks.iter().filter_map(words).collect()
    }

    /// The hashes of devices of the kind that ran the same kernels, and how many have each.
    fn hashes<'c>(&'c self, row: &'c Row, devices: &'c [Device]) -> BTreeMap<&'c str, usize> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let images = row.looks.iter().find(|look| !look.is_wrong).map(|look| &look.images);
        for other in self.alike(row, devices) {
            let right = other.looks.iter().find(|look| !look.is_wrong);
            let Some(right) = right.filter(|look| Some(&look.images) == images) else { continue };
            if let Some(hash) = &right.found.hash {
                *counts.entry(hash.as_str()).or_default() += 1;
            }
        }
        counts
    }

    /// The verdict on each case of each device, and on checks that had none.
    pub fn judged(
        &self,
        devices: &[Device],
        profile: &Profile,
        level: Level,
        lost: &Lost,
    ) -> Vec<Judged> {
        let mut all: Vec<Judged> =
            self.rows.iter().map(|row| self.judged_row(row, devices, profile, lost)).collect();
        for (at, device) in devices.iter().enumerate() {
            for (number, check) in profile.checks.iter().enumerate() {
                let is_its = |row: &Row| row.device == at && row.check == number;
                let is_due = is_due(check, level) && device.is_measured(check.way());
                if is_due && !self.rows.iter().any(is_its) {
                    all.push(without_looks(&check.name, device, lost.get(&at), None));
                }
            }
        }
        all
    }

    fn judged_row(&self, row: &Row, devices: &[Device], profile: &Profile, lost: &Lost) -> Judged {
        let device = &devices[row.device];
        let name = &profile.checks[row.check].name;
        let judged = |verdict, words: String| Judged {
            point: Some(row.point.clone()),
            repeats: row.looks.len(),
            kernel: Some(row.kernel.clone()),
            stub: device.is_stub,
            ..Judged::of_state(name, &device.name, verdict, words)
        };
        let odd = self.odd(row, devices, &profile.hashes);
        let looks = row.looks.len();
        match &odd[..] {
            [] if looks == 0 => {
                let why = lost.get(&row.device);
                let absent = without_looks(name, device, why, row.absent.as_ref());
                let (point, kernel) = (Some(row.point.clone()), Some(row.kernel.clone()));
                Judged { point, kernel, ..absent }
            }
            [] => clean(row, judged),
            [once] => {
                let retests = looks - 1;
                let words = format!("{once}; seen once, and not in {retests} further looks");
                let judged = judged(Verdict::Inconclusive, words);
                Judged { action: Some(Action::RestartApp), ..judged }
            }
            [first, ..] => {
                let alike: Vec<&Row> = self.alike(row, devices).collect();
                let is_odd = |row: &&&Row| !self.odd(row, devices, &profile.hashes).is_empty();
                let (count, of) = (alike.iter().filter(is_odd).count(), alike.len());
                let again = format!("{first}; in {} of {looks} looks", odd.len());
                if of > 1 && 2 * count > of {
                    let words = format!(
                        "{again}, and on {count} of {of} devices of the kind: suspect the kernel, \
                         the driver or the table, and not the device"
                    );
                    return judged(Verdict::Inconclusive, words);
                }
                judged(Verdict::Fail, again).because(Cause::WrongResult)
            }
        }
    }
}

/// Whether a check is of bits, and of this level.
fn is_due(check: &Check, level: Level) -> bool {
    check.resource == Resource::Results && check.level <= level
}

/// What is said where nothing was compared: why the device was lost, or why there is no look.
fn without_looks(
    check: &str,
    device: &Device,
    lost: Option<&(String, Option<Cause>)>,
    absent: Option<&String>,
) -> Judged {
    let why = lost.map(|(why, _)| why).or(absent).cloned();
    let words = why.unwrap_or_else(|| "nothing was compared".into());
    let judged = Judged::of_state(check, &device.name, Verdict::Inconclusive, words);
    let judged = match lost.and_then(|(_, cause)| *cause) {
        Some(cause) => judged.because(cause),
        None => judged,
    };
    Judged { stub: device.is_stub, ..judged }
}

/// What is said where nothing was odd.
fn clean(row: &Row, judged: impl Fn(Verdict, String) -> Judged) -> Judged {
    let sum = |count: fn(&Integrity) -> u64| row.looks.iter().map(|look| count(&look.found)).sum();
    let compared = sum(|found| found.compared);
    let unit = row.looks.first().map(|look| look.found.unit.clone()).unwrap_or_default();
    let all = Integrity { unit, compared, rate_seen: rate_seen(compared), ..Integrity::default() };
    let [corrected, uncorrected]: [u64; 2] = [
        sum(|found| found.ecc_corrected.unwrap_or(0)),
        sum(|found| found.ecc_uncorrected.unwrap_or(0)),
    ];
    let words = match corrected {
        0 => all.words(),
        count => format!("{}; {count} memory errors were corrected meanwhile", all.words()),
    };
    if uncorrected > 0 {
        let words = format!("{uncorrected} memory errors that could not be corrected meanwhile");
        return judged(Verdict::Fail, words).because(Cause::Faults);
    }
    judged(Verdict::Pass, words)
}

/// The hashes that all runs agree on, by case, and in words the cases of which they differ.
pub fn learn(runs: &[&[Record]]) -> (Vec<Golden>, Vec<String>) {
    let mut seen: BTreeMap<String, Vec<(String, Vec<String>)>> = BTreeMap::new();
    for records in runs {
        for one in records.iter().flat_map(|record| &record.outcomes).filter_map(Outcome::measured)
        {
            if let Some(hash) = one.integrity.as_ref().and_then(|found| found.hash.clone()) {
                let all = seen.entry(one.case.to_string()).or_default();
                all.push((hash, images(&one.code)));
            }
        }
    }
    let (mut table, mut warnings) = (Vec::new(), Vec::new());
    for (case, all) in seen {
        let (hash, images) = all[0].clone();
        match all.iter().all(|one| *one == all[0]) {
            true => table.push(Golden { case, hash, images, runs: all.len() }),
            false => warnings.push(format!(
                "{case}: runs left different bits, so that its hash is not kept: one of these \
                 machines may be at fault, or its kernel leaves different bits each time"
            )),
        }
    }
    (table, warnings)
}
