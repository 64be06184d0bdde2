//! What changed in the course of time: each device beside itself and beside the others of its
//! part. A **change** is a date from which on a device is slower, or faster, by more than the least
//! effect; what else changed with it is named. A **decay** is a device that becomes slower from
//! session to session and is not below contract yet.
//!
//! - A session of a device is the median of its repeats. Beside it stands the median of all devices
//!   of its part on that day, where there are at least [`OTHERS_MIN`] others: what all of them lose
//!   is a change of the part, and not of each.
//! - The scatter from session to session is pooled over the part's devices, from differences of
//!   successive sessions, robustly.
//! - Of all places where a series may change the one is taken whose two sides are nearest to their
//!   medians, and the probability is multiplied by their number; *H0: the change is at most the
//!   least effect* is tested at a false discovery rate of 1 % over all series. So is *H0: no slope*
//!   of a decay.

use super::{
    gather::column,
    row::{date, day_number},
    survey::Surveyed,
    units::is_gpu,
};
use crate::accept::decide::{Against, Bar, FALSE_DISCOVERIES, Standing};
use fizeau_domain::{
    stats::{
        quantile::median,
        student::{self, Variance},
    },
    text::clean,
};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Fewer sessions than these show no change.
pub const SESSIONS_MIN: usize = 4;

/// Fewer sessions than these show no decay.
pub const DECAY_MIN: usize = 6;

/// Others of a part that a session is set beside, at least.
pub const OTHERS_MIN: usize = 4;

/// Days after which a decay that reaches the least effect is no news.
const AHEAD_DAYS: f64 = 365.0;

/// A change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The node; empty where it is of all devices of a part.
    pub node: String,
    /// The device, or the part.
    pub device: String,
    /// The metric.
    pub metric: String,
    /// The first session after it.
    pub since: String,
    /// How much the rate changed, as a share: negative where it fell.
    pub change: f64,
    /// The probability of so much where it changed by the least effect.
    pub probability: f64,
    /// What changed at the same time: `driver 570 -> 580`.
    pub with: Vec<String>,
}

/// A device that becomes slower and is not below contract yet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decay {
    /// The node.
    pub node: String,
    /// The device.
    pub device: String,
    /// The metric.
    pub metric: String,
    /// What it lost from its first session to its last, as a share.
    pub lost: f64,
    /// Days from its last session on until it has lost the least effect.
    pub days: f64,
    /// The probability of such a slope where there is none.
    pub probability: f64,
}

/// What changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Drift {
    /// `stub` or `simulated` where nothing was measured.
    pub mark: String,
    /// Series of a device in a metric that are long enough.
    pub series: usize,
    /// Those that are too short.
    pub short: usize,
    /// Changes, the largest loss first.
    pub changes: Vec<Change>,
    /// Decays, the nearest to contract first.
    pub decays: Vec<Decay>,
}

/// One session of a series.
#[derive(Clone, Debug)]
struct Point {
    time: String,
    day: f64,
    log: f64,
    entry: Option<u32>,
    code: u32,
}

/// A device, or all of a part, in a metric.
struct Series {
    node: String,
    device: String,
    subject: u32,
    points: Vec<Point>,
    effect: f64,
}

/// The sessions of a device in a metric, by time and name: an entry, the code, and the logarithms
/// of the repeats.
type Sessions<'t> = BTreeMap<(&'t str, u32), (u32, u32, Vec<f64>)>;

/// Finds it in all sessions of a survey.
pub fn drift(surveyed: &Surveyed) -> Drift {
    let all = series(surveyed);
    let (long, short): (Vec<Series>, Vec<Series>) =
        all.into_iter().partition(|one| one.points.len() >= SESSIONS_MIN);
    let scatters = scatters(&long);
    let splits: Vec<(usize, f64, f64)> =
        long.iter().map(|one| split(one, scatters[&one.subject])).collect();
    let slopes: Vec<Option<(f64, f64)>> =
        long.iter().map(|one| slope(one, scatters[&one.subject])).collect();
    let limit = |all: &[f64]| {
        student::false_discovery_limit(all, FALSE_DISCOVERIES).unwrap_or(f64::NEG_INFINITY)
    };
    let split_limit = limit(&splits.iter().map(|one| one.2).collect::<Vec<_>>());
    let slope_limit = limit(&slopes.iter().flatten().map(|one| one.1).collect::<Vec<_>>());
    let of_device = |one: &&Series| !one.node.is_empty();
    let mut found = Drift {
        mark: surveyed.report.mark.clone(),
        series: long.iter().filter(of_device).count(),
        short: short.iter().filter(of_device).count(),
        ..Drift::default()
    };
    for ((one, (at, change, probability)), slope) in long.iter().zip(splits).zip(slopes) {
        let metric = surveyed.strata.subjects[one.subject as usize].name.clone();
        let (node, device) = (one.node.clone(), one.device.clone());
        if probability <= split_limit {
            let (since, with) = (one.points[at].time.clone(), with(surveyed, one, at));
            let change = change.exp_m1();
            found.changes.push(Change { node, device, metric, since, change, probability, with });
            continue;
        }
        let Some((slope, probability)) = slope.filter(|one| one.1 <= slope_limit) else { continue };
        let (first, last) = (&one.points[0], &one.points[one.points.len() - 1]);
        let lost = -(slope * (last.day - first.day)).exp_m1();
        let days = ((1.0 - one.effect).ln() - slope * (last.day - first.day)) / slope;
        if !node.is_empty() && lost < one.effect && days < AHEAD_DAYS {
            found.decays.push(Decay { node, device, metric, lost, days, probability });
        }
    }
    found.changes.sort_by(|a, b| a.change.total_cmp(&b.change));
    found.decays.sort_by(|a, b| a.days.total_cmp(&b.days));
    found
}

/// The series of all devices beside those of their parts, and of the parts.
fn series(surveyed: &Surveyed) -> Vec<Series> {
    let Surveyed { gathered, units, strata, .. } = surveyed;
    let mut sessions: BTreeMap<(u32, u32), Sessions<'_>> = BTreeMap::new();
    let mut effects: HashMap<u32, f64> = HashMap::new();
    for row in &gathered.rows {
        let Some(unit) = units.unit_of[row.entry as usize] else { continue };
        let metric = &gathered.metrics[row.metric as usize];
        let subject = strata.subject_of[row.metric as usize];
        let entry = &gathered.entries[row.entry as usize];
        let time = gathered.told(row.entry, column::TIME);
        // Records that are no part of a bundle are of one session where they are of one day.
        let time = if entry.columns[column::RUN] == 0 { time } else { &time[..10] };
        let own = sessions.entry((unit, subject)).or_default();
        let key = (time, entry.columns[column::SESSION]);
        let (.., logs) = own.entry(key).or_insert((row.entry, metric.code, Vec::new()));
        logs.extend_from_slice(gathered.values(row));
        let effect = effects.entry(subject).or_default();
        *effect = effect.max(metric.least_effect());
    }
    let part = |unit: u32| gathered.told(units.units[unit as usize].entry, column::PART);
    let mut days: BTreeMap<(&str, u32, String), Vec<f64>> = BTreeMap::new();
    let mut all: Vec<(u32, Series)> = Vec::new();
    for ((unit, subject), own) in sessions {
        let point = |((time, _), (entry, code, logs)): ((&str, u32), (u32, u32, Vec<f64>))| {
            let day = date(time).or_else(|| time.get(..10)).unwrap_or_default();
            let (time, day, log) = (clean(time), day_number(day), median(&logs));
            Point { time, day, log, entry: Some(entry), code }
        };
        let points: Vec<Point> = own.into_iter().map(point).collect();
        for point in &points {
            let key = (part(unit), subject, point.time.chars().take(10).collect());
            days.entry(key).or_default().push(point.log);
        }
        let [node, device] = units.named(gathered, unit);
        all.push((unit, Series { node, device, subject, points, effect: effects[&subject] }));
    }
    let mut parts: BTreeMap<(&str, u32), Vec<Point>> = BTreeMap::new();
    let medians: BTreeMap<(&str, u32, String), f64> = days
        .into_iter()
        .filter(|(_, logs)| logs.len() > OTHERS_MIN)
        .map(|(key, logs)| (key, median(&logs)))
        .collect();
    for ((part, subject, day), log) in &medians {
        let point =
            Point { time: day.clone(), day: day_number(day), log: *log, entry: None, code: 0 };
        parts.entry((part, *subject)).or_default().push(point);
    }
    for (unit, series) in &mut all {
        for point in &mut series.points {
            let key = (part(*unit), series.subject, point.time.chars().take(10).collect());
            point.log -= medians.get(&key).copied().unwrap_or_default();
        }
        // Where a part has too few on some days, each is beside itself alone.
        let is_beside = |point: &Point| {
            let key = (part(*unit), series.subject, point.time.chars().take(10).collect());
            medians.contains_key(&key)
        };
        if series.points.iter().any(is_beside) {
            series.points = std::mem::take(&mut series.points)
                .into_iter()
                .filter(|point| is_beside(point))
                .collect();
        }
    }
    let whole = parts.into_iter().map(|((part, subject), points)| Series {
        node: String::new(),
        device: format!("all of {}", clean(part)),
        subject,
        points,
        effect: effects[&subject],
    });
    let gpus = all.into_iter().map(|(_, series)| series);
    { gpus }.filter(|one| is_gpu(&one.device) || !one.points.is_empty()).chain(whole).collect()
}

/// The scatter of one session of a device, by subject.
fn scatters(all: &[Series]) -> HashMap<u32, Variance> {
    let mut steps: HashMap<u32, Vec<f64>> = HashMap::new();
    for one in all {
        let own = steps.entry(one.subject).or_default();
        own.extend(one.points.windows(2).map(|two| (two[1].log - two[0].log).abs()));
    }
    let variance = |steps: Vec<f64>| {
        let scatter = 1.4826 * median(&steps) / std::f64::consts::SQRT_2;
        // A median has about 0.37 of the information that squares have.
        Variance { value: scatter * scatter, freedom: (0.37 * steps.len() as f64).max(1.0) }
    };
    steps.into_iter().map(|(subject, steps)| (subject, variance(steps))).collect()
}

/// Where a series changes most: the first point after it, by how much, and the probability
/// where it changed by no more than the least effect.
fn split(one: &Series, scatter: Variance) -> (usize, f64, f64) {
    let logs: Vec<f64> = one.points.iter().map(|point| point.log).collect();
    let tests = (logs.len() - 1) as f64;
    let at = |at: usize| {
        let (before, after) = logs.split_at(at);
        let change = median(after) - median(before);
        let parts = 1.0 / before.len() as f64 + 1.0 / after.len() as f64;
        let error = Variance { value: 1.57 * scatter.value * parts, ..scatter };
        let bar = Bar {
            against: Against::Peers,
            log: (1.0 - one.effect).ln(),
            error: Variance { value: 0.0, freedom: f64::INFINITY },
            may_pass: false,
            may_fail: true,
        };
        let p = Standing::of(-change.abs(), error, &bar).below();
        (at, change, (2.0 * tests * p).min(1.0))
    };
    // Where both sides are nearest to their medians.
    let rest = |at: &usize| {
        let (before, after) = logs.split_at(*at);
        let of = |side: &[f64]| {
            let middle = median(side);
            side.iter().map(|log| (log - middle).abs()).sum::<f64>()
        };
        of(before) + of(after)
    };
    let best = (1..logs.len()).min_by(|a, b| rest(a).total_cmp(&rest(b)));
    best.map_or((0, 0.0, 1.0), at)
}

/// The slope of a series by the day, and the probability of so steep a fall where there is none.
fn slope(one: &Series, scatter: Variance) -> Option<(f64, f64)> {
    let count = one.points.len() as f64;
    if one.points.len() < DECAY_MIN {
        return None;
    }
    let mean_day = one.points.iter().map(|point| point.day).sum::<f64>() / count;
    let mean_log = one.points.iter().map(|point| point.log).sum::<f64>() / count;
    let squares: f64 = one.points.iter().map(|point| (point.day - mean_day).powi(2)).sum();
    if squares <= 0.0 {
        return None;
    }
    let products =
        one.points.iter().map(|point| (point.day - mean_day) * (point.log - mean_log)).sum::<f64>();
    let slope = products / squares;
    let error = Variance { value: scatter.value / squares, ..scatter };
    let bar = Bar {
        against: Against::Peers,
        log: 0.0,
        error: Variance { value: 0.0, freedom: f64::INFINITY },
        may_pass: false,
        may_fail: true,
    };
    (slope < 0.0).then(|| (slope, Standing::of(slope, error, &bar).below()))
}

/// What of a device's identity changed at a point.
fn with(surveyed: &Surveyed, one: &Series, at: usize) -> Vec<String> {
    let gathered = &surveyed.gathered;
    let (before, after) = (&one.points[at - 1], &one.points[at]);
    let (Some(old), Some(new)) = (before.entry, after.entry) else { return Vec::new() };
    let fields = super::strata::FIELDS.iter().filter_map(|(column, words, _)| {
        let [old, new] = [old, new].map(|entry| clean(gathered.told(entry, *column)));
        (old != new).then(|| format!("{words} {old} -> {new}"))
    });
    let mut all: Vec<String> = fields.collect();
    if before.code != after.code {
        let [old, new] = [before.code, after.code].map(|code| clean(gathered.texts.text(code)));
        all.push(format!("code {old} -> {new}"));
    }
    all
}
