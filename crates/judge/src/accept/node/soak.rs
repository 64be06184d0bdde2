//! What a load that lasts shows: errors that were counted, how clocks and temperatures went, and
//! whether rates stayed what they were.

use super::{Node, Reading, Row, Wanted};
use crate::accept::{Judged, Level, Resource, cause::Cause, decide, passive, profile::Aspect};
use fizeau_domain::{
    outcome::Telemetry,
    stats::{quantile::median, student},
    verdict::Verdict,
};
use std::collections::BTreeMap;

/// With fewer repeats nothing is said of steadiness: thirds of them are compared.
const REPEATS_MIN: usize = 9;

/// One reading of a device in the course of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// When it was measured, RFC 3339 in UTC.
    pub started: String,
    /// The device, as `fizeau devices` names it.
    pub device: String,
    /// Whether a stub driver stands in for it.
    pub stub: bool,
    /// The check.
    pub check: String,
    /// The point.
    pub point: String,
    /// Iterations each second over the median of this device's readings.
    pub relative: f64,
    /// The clock that was observed, in megahertz.
    pub clock: Option<f64>,
    /// What the sensors said.
    pub telemetry: Option<Telemetry>,
}

/// How often each kind of error was counted while a device was measured.
#[derive(Clone, Debug, Default, PartialEq)]
struct Counted {
    /// Errors by which a device is not fit for work.
    grave: Vec<(&'static str, u64)>,
    /// Errors that were corrected: told, and no failure.
    mild: Vec<(&'static str, u64)>,
    /// Faults that the driver reported, which ask for something to be done.
    faults: Vec<u64>,
}

impl Counted {
    fn of<'t>(all: impl Iterator<Item = &'t Telemetry> + Clone) -> Counted {
        let sum = |of: fn(&Telemetry) -> Option<u64>| {
            all.clone().filter_map(of).fold(0u64, u64::saturating_add)
        };
        let counted = |kinds: Vec<(&'static str, u64)>| {
            kinds.into_iter().filter(|(_, count)| *count > 0).collect()
        };
        let mut faults: Vec<u64> = all.clone().flat_map(|one| one.faults.clone()).collect();
        faults.sort_unstable();
        faults.dedup();
        faults.retain(|number| {
            u32::try_from(*number).is_ok_and(|number| passive::fault(number).is_some())
        });
        Counted {
            grave: counted(vec![
                ("memory errors not corrected", sum(|one| one.ecc_uncorrected)),
                ("rows of memory replaced", sum(|one| one.remapped_rows)),
            ]),
            mild: counted(vec![
                ("memory errors corrected", sum(|one| one.ecc_corrected)),
                ("packets sent again over PCI Express", sum(|one| one.pcie_replays)),
                ("errors of links to other devices", sum(|one| one.nvlink_errors)),
            ]),
            faults,
        }
    }
}

impl Node<'_> {
    /// What was counted while a device was measured, where its sensors were read.
    pub(super) fn errors(&self, device: usize, rows: &[&Row]) -> Option<Judged> {
        // The clock's rows have the same readings.
        let own = rows.iter().filter(|row| row.metric.aspect != Aspect::Clock);
        let readings = own.flat_map(|row| &row.readings);
        let seen = readings.filter_map(|one| one.telemetry.as_ref());
        let device = &self.devices[device];
        seen.clone().next()?;
        let counted = Counted::of(seen);
        let list = |kinds: &[(&str, u64)]| {
            kinds.iter().map(|(words, count)| format!("{count} {words}")).collect::<Vec<_>>()
        };
        let faults = counted.faults.iter().filter_map(|number| {
            let (number, words, _) = passive::fault(u32::try_from(*number).ok()?)?;
            Some(format!("Xid {number}: {words}"))
        });
        let bad: Vec<String> = list(&counted.grave).into_iter().chain(faults).collect();
        let mild = list(&counted.mild);
        let name = "errors while it was measured";
        let judged = if bad.is_empty() {
            let words = if mild.is_empty() { "none".into() } else { mild.join(", ") };
            Judged::of_state(name, &device.name, Verdict::Pass, words)
        } else {
            let words = [bad, mild].concat().join(", ");
            Judged::of_state(name, &device.name, Verdict::Fail, words).because(Cause::Faults)
        };
        Some(Judged { stub: device.is_stub, ..judged })
    }

    /// Whether what lasts stayed as fast as it was: the last third of a soak's readings beside the
    /// first.
    pub(super) fn steadiness(&self, rows: &[&Row]) -> Vec<Judged> {
        if self.level < Level::Soak {
            return Vec::new();
        }
        rows.iter().filter_map(|row| self.steady(row)).collect()
    }

    fn steady(&self, row: &Row) -> Option<Judged> {
        let check = &self.profile.checks[row.metric.check];
        // The clock is what falls by heat: with it the rate does.
        let is_its = check.resource == Resource::Sustained && row.metric.aspect != Aspect::Clock;
        if !is_its || row.readings.len() < REPEATS_MIN {
            return None;
        }
        let rate = |one: &Reading| match (row.metric.aspect, one.clock) {
            (Aspect::AtClock, Some(clock)) => (one.value * clock).ln(),
            _ => one.value.ln(),
        };
        let logs: Vec<f64> = row.readings.iter().map(rate).collect();
        let third = logs.len() / 3;
        let (first, last) = (&logs[..third], &logs[logs.len() - third..]);
        let change = median(last) - median(first);
        let noise = decide::noise(&[first, last]);
        let error = (2.0 * decide::MEDIAN * noise.value / third as f64).sqrt();
        let bar = (1.0 - check.least_effect).ln();
        let t = (change - bar) / error;
        let falls = student::upper_tail(-t, noise.freedom) <= decide::FALSE_CONFIRMATION;
        let holds = student::upper_tail(t, noise.freedom) <= decide::FALSE_PASS;
        let verdict = match () {
            () if falls => Verdict::Fail,
            () if holds => Verdict::Pass,
            () => Verdict::Inconclusive,
        };
        let device = &self.devices[row.device];
        let words = format!(
            "{:+.1} % from the first third to the last of {} repeats",
            change.exp_m1() * 100.0,
            logs.len()
        );
        let name = format!("{}: steady", check.name);
        let mut judged = Judged::of_state(&name, &device.name, verdict, words);
        judged.point = Some(row.metric.point.clone());
        judged.repeats = logs.len();
        judged.noise = Some(noise.value.sqrt());
        judged.stub = device.is_stub;
        let held: Vec<&String> = row.readings.iter().flat_map(|one| one.held_by()).collect();
        let is_hot = held.iter().any(|word| word.contains("thermal"));
        let cause = if is_hot { Cause::Thermal } else { Cause::Unknown };
        Some(if falls { judged.because(cause) } else { judged })
    }

    /// All readings of what lasts, in the course of time: rates, clocks, temperatures, errors.
    pub fn samples(&self) -> Vec<Sample> {
        let mut all = Vec::new();
        for row in &self.rows {
            let check = &self.profile.checks[row.metric.check];
            if check.resource != Resource::Sustained || row.metric.aspect == Aspect::Clock {
                continue;
            }
            let device = &self.devices[row.device];
            let logs: Vec<f64> = row.readings.iter().map(|one| one.value).collect();
            if logs.is_empty() {
                continue;
            }
            let centre = median(&logs);
            all.extend(row.readings.iter().map(|one| Sample {
                started: one.started.clone(),
                device: device.name.clone(),
                stub: device.is_stub,
                check: check.name.clone(),
                point: row.metric.point.clone(),
                relative: one.value / centre,
                clock: one.clock,
                telemetry: one.telemetry.clone(),
            }));
        }
        all.sort_by(|a, b| (&a.started, &a.device).cmp(&(&b.started, &b.device)));
        all
    }

    /// What a soak measures again and again, once all is decided: the checks of what lasts, on each
    /// device that answers. Nothing where anything failed: load on a device that is at fault does
    /// more harm, and tells no more.
    pub fn soak(&self) -> BTreeMap<usize, Wanted> {
        let mut wanted: BTreeMap<usize, Wanted> = BTreeMap::new();
        if self.judged().iter().any(|one| one.verdict == Verdict::Fail) {
            return wanted;
        }
        for row in self.rows.iter().filter(|row| !row.readings.is_empty()) {
            let check = &self.profile.checks[row.metric.check];
            if check.resource == Resource::Sustained && !self.is_lost(row.device) {
                let point = (row.metric.check, row.metric.point.clone());
                wanted.entry(row.device).or_default().insert(point);
            }
        }
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accept::{
        node::Device,
        profile::Profile,
        reading::{Metric, Reading},
    };
    use fizeau_domain::{
        case::{KernelName, Work},
        units::Celsius,
    };

    const PROFILE: &str = r#"
name = "own"
description = "what lasts"
kind = "derived"
suite = "own"

[[check]]
name = "lasting"
cases = ["gemm/*"]
resource = "sustained"
least_effect = 0.05
level = "full"
"#;

    fn reading(rate: f64, telemetry: Telemetry) -> Reading {
        Reading {
            value: rate,
            lights: Vec::new(),
            kernel: KernelName("mma".into()),
            work: Work::default(),
            telemetry: Some(telemetry),
            clock: None,
            started: "2026-01-01T00:00:00Z".into(),
            disturbed: None,
            throttled: false,
        }
    }

    /// Rows of one device with these rates, and what the sensors said at each.
    fn judged(rates: &[f64], telemetry: &Telemetry) -> Vec<Judged> {
        let profile = Profile::parse(PROFILE).expect("a profile");
        let device = Device { name: "cuda:0".into(), ..Device::default() };
        let mut node = Node::new(&profile, Level::Soak, vec![device]);
        let metric = Metric { check: 0, point: "gemm/bf16/8".into(), aspect: Aspect::Rate };
        let at = node.row(0, metric);
        node.rows[at].readings =
            rates.iter().map(|rate| reading(*rate, telemetry.clone())).collect();
        let rows: Vec<&Row> = node.rows.iter().collect();
        let mut all = node.steadiness(&rows);
        all.extend(node.errors(0, &rows));
        assert_eq!(node.samples().len(), rates.len());
        all
    }

    #[test]
    fn a_rate_that_falls_fails_with_what_held_the_clock_and_one_that_stays_passes() {
        let hot = Telemetry {
            held_by: vec!["hardware thermal slowdown".into()],
            temperature_max: Some(Celsius(90.0)),
            ..Telemetry::default()
        };
        let noise = |at: usize| 1.0 + 0.002 * ((at * 7) % 5) as f64;
        let steady: Vec<f64> = (0..12).map(noise).collect();
        let falls: Vec<f64> = (0..12).map(|at| noise(at) * (1.0 - 0.015 * at as f64)).collect();
        let of = |rates: &[f64]| judged(rates, &hot)[0].clone();
        assert_eq!((of(&steady).verdict, of(&steady).cause), (Verdict::Pass, None));
        let fallen = of(&falls);
        assert_eq!((fallen.verdict, fallen.cause), (Verdict::Fail, Some(Cause::Thermal)));
        assert!(fallen.words.contains("from the first third to the last"), "{}", fallen.words);
        // Too few to say anything: only what was counted.
        assert_eq!(judged(&steady[..8], &hot).len(), 1);
    }

    #[test]
    fn errors_that_were_corrected_are_told_and_others_fail() {
        let of = |telemetry: Telemetry| judged(&[1.0, 1.0], &telemetry)[0].clone();
        let none = of(Telemetry::default());
        assert_eq!((none.verdict, none.words.as_str()), (Verdict::Pass, "none"));
        let mild = of(Telemetry { ecc_corrected: Some(2), ..Telemetry::default() });
        assert_eq!(mild.verdict, Verdict::Pass);
        assert_eq!(mild.words, "4 memory errors corrected");
        for grave in [
            Telemetry { ecc_uncorrected: Some(1), ..Telemetry::default() },
            Telemetry { remapped_rows: Some(1), ..Telemetry::default() },
            Telemetry { faults: vec![79], ..Telemetry::default() },
        ] {
            let found = of(grave);
            assert_eq!((found.verdict, found.cause), (Verdict::Fail, Some(Cause::Faults)));
        }
        // A program's own fault.
        let own = of(Telemetry { faults: vec![13], ..Telemetry::default() });
        assert_eq!(own.verdict, Verdict::Pass);
    }
}
