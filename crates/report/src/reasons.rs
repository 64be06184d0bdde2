//! Why a case is far from its limit, as far as its record tells: what stands beside a low share.

use fizeau_domain::{
    outcome::{Measurement, Taker},
    spec::{self, Bound, Tier},
};
use fizeau_record::Record;

/// Threads wait for a moment now and then on an idle machine too; from this share on others took
/// the CPU.
const WAITED_MIN: f64 = 0.05;

/// The least time is named where it is below this share of the median: what the machine can do then
/// differs from what it did.
const BEST_MIN: f64 = 0.8;

/// What keeps a case from its limit, where the record has it: a quota, other processes, what held
/// the clock down, a virtual machine, a busy machine, CPUs that the run was not given. First those
/// whose size is known, the largest before the others; then those that may explain a low share by
/// an unknown amount.
pub fn of_low_share(record: &Record, measurement: &Measurement) -> [Vec<String>; 2] {
    let mut sized = sized_reasons(record, measurement);
    sized.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let environment = &record.header.environment;
    let device = &record.header.device;
    let is_host = device.backend == "host";
    let light = measurement.tier.and_then(|tier| measurement.light(tier));
    let is_memory = light.is_none_or(|light| light.bound == Bound::Memory);
    let mut others = Vec::new();
    if measurement.waited.is_none() && measurement.taken_by() == Some(Taker::Processes) {
        others.push("other processes took CPU time".to_owned());
    }
    if let Some(under) = &device.virtualised {
        others.push(match is_host {
            true => format!("virtual machine ({under})"),
            false => format!("virtualised ({under})"),
        });
    }
    // Memory's limit is that of whole sockets; arithmetic's is that of the cores that worked.
    others.extend(of_socket(record).filter(|_| is_memory));
    let busy = environment.busy_load();
    others.extend(busy.filter(|_| is_host).map(|load| format!("load average {load:.1}")));
    [sized.into_iter().map(|(_, words)| words).collect(), others]
}

/// Reasons of which the record says how much of the limit they leave, 0..1: each with that share.
fn sized_reasons(record: &Record, measurement: &Measurement) -> Vec<(f64, String)> {
    let environment = &record.header.environment;
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let mut reasons = Vec::new();
    if let Some(stopped) = measurement.stopped_by_quota.filter(|_| measurement.held_by_quota()) {
        let of = environment.cpu_quota.map(|quota| format!(" of {quota:.2} CPUs"));
        let words = format!(
            "its CPU quota{} stopped it {} of the time",
            of.unwrap_or_default(),
            percent(stopped)
        );
        reasons.push((1.0 - stopped, words));
    } else if let Some(waited) = measurement.waited.filter(|waited| *waited >= WAITED_MIN) {
        let words = format!("other processes took {} of its CPU time", percent(waited));
        reasons.push((1.0 - waited, words));
    }
    if let Some(stolen) = measurement.stolen.filter(|stolen| *stolen >= WAITED_MIN) {
        let words = format!("the hypervisor took {} of its CPU time", percent(stolen));
        reasons.push((1.0 - stolen, words));
    }
    let least = measurement.summary.min / measurement.summary.median;
    if least < BEST_MIN {
        reasons.push((least, format!("its best sample took {} of the median", percent(least))));
    }
    reasons.extend(held_down(record, measurement));
    reasons.extend(tighter_limit(measurement));
    reasons
}

/// The clock that was held down, with the share of the stated clock that was left. That share is 1
/// where the limit is of the observed clock, which has the loss in it.
fn held_down(record: &Record, measurement: &Measurement) -> Option<(f64, String)> {
    let seen = measurement.telemetry.as_ref().filter(|seen| !seen.held_by.is_empty())?;
    let by = seen.held_by.join(", ");
    let clocks = seen.clock_min.zip(record.header.device.clock).filter(|(low, top)| low.0 < top.0);
    let Some((low, top)) = clocks else { return Some((1.0, format!("{by} held the clock down"))) };
    let left = low.0 / top.0;
    let words = format!("{by} held the clock down to {:.0} % at the lowest", left * 100.0);
    let is_in_limit = measurement.tier == Some(Tier::Observed);
    Some((if is_in_limit { 1.0 } else { left }, words))
}

/// What binds a case before the limit that its share is of, with the most that it leaves.
fn tighter_limit(one: &Measurement) -> Option<(f64, String)> {
    let (tighter, most) = spec::tighter(&one.speed_of_light, one.tier?)?;
    let what = match tighter.bound {
        Bound::Cache => "its traffic through the caches",
        Bound::Exp => "its exponentials",
        Bound::Memory => "its memory traffic",
        Bound::Compute => "its arithmetic",
        Bound::Link => "its traffic over the link",
    };
    Some((most, format!("{what} can reach at most {:.0} % of this limit", most * 100.0)))
}

/// Which part of the host a run had, where it was not all of a socket's cores.
pub fn of_socket(record: &Record) -> Option<String> {
    let environment = &record.header.environment;
    let device = &record.header.device;
    let online = environment.cpus_online.unwrap_or(0).max(environment.cpus);
    match online > environment.cpus {
        _ if device.backend != "host" => None,
        true => Some(format!("{} of {online} CPUs", environment.cpus)),
        false => {
            device.virtualised.as_ref().map(|_| format!("{} of a socket's cores", device.units))
        }
    }
}
