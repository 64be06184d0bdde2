//! What changed in the course of time: each device beside itself and beside the others of its
//! part. A **change** is a date from which on a device is slower, or faster, by more than the least
//! effect; what else changed with it is named. A **decay** is a device that becomes slower from
//! session to session: before it is below contract, or after.
//!
//! - A session of a device is the median of its repeats. Beside it stands the median of all devices
//!   of its part on that day, where there are at least [`OTHERS_MIN`] others: what all of them lose
//!   is a change of the part, and not of each.
//! - The scatter from session to session is that of the part's devices themselves: what each
//!   session is off by itself, and how far levels walk ([`Scatter`]). A device that scatters far
//!   more than the others is judged by its own.
//! - A change needs at least two sessions on each side that agree, the last two among them.
//!   Of all such places the one is taken whose two sides are nearest to their medians. Where
//!   levels walk, both sides are the sessions next to the place, as many as make the error least.
//!   *H0: no change* is tested at a false discovery rate of 1 % over all series, and the change has
//!   to be above the least effect with 95 % confidence.
//! - As many sessions as are on one side may be bad ones by chance: how often single sessions are
//!   off by the least effect is counted in all series, and a change has to be less likely than
//!   that. What devices of a node share is counted once (`lone`).
//! - Sessions of one day that nobody signed and that do not agree show who wrote them no more than
//!   how fast the device was: they are **disputed**, and count for nothing. Where sessions of a
//!   device in a metric are signed, those that are not count for nothing.
//! - A decay is a slope (Theil and Sen) of which *H0: no slope* is refused at the same rate, and
//!   which Kendall's test and the last two sessions show too. Where enough others tell how levels
//!   scatter, that it lies below them by as much as its fall explains counts with the slope. Where
//!   sessions of whole nodes differ, a device is set beside the others of its node too, which takes
//!   that away.

use super::{
    course::{self, Fall, Level, Scatter},
    dispute::{self, is_of_nobody},
    gather::column,
    lone::Lone,
    row::{date, day_number},
    survey::Surveyed,
    units::is_gpu,
};
use crate::accept::decide::{FALSE_DISCOVERIES, FALSE_PASS};
use fizeau_domain::{
    stats::{quantile::median, student},
    text::clean,
};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Fewer sessions than these show no change.
pub const SESSIONS_MIN: usize = 2 * course::SIDE_MIN;

/// Fewer sessions than these show no decay.
pub const DECAY_MIN: usize = 6;

/// Others of a part that a session is set beside, at least.
pub const OTHERS_MIN: usize = 4;

/// Days after which a decay that reaches the least effect is no news.
const AHEAD_DAYS: f64 = 365.0;

/// A device whose sessions' variance is above that of all by this factor is judged by its own.
const FAR_NOISIER: f64 = 6.25;

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
    /// The probability of so much where nothing changed: by the scatter of sessions, or by as many
    /// single bad sessions in turn, whichever is likelier.
    pub probability: f64,
    /// What changed at the same time: `driver 570 -> 580`.
    pub with: Vec<String>,
}

/// A device that becomes slower from session to session.
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
    /// Days from its last session on until it has lost the least effect; 0 where it has.
    pub days: f64,
    /// The probability of such a slope where there is none.
    pub probability: f64,
}

/// Sessions of one day that nobody signed and that do not agree.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Disputed {
    /// The node.
    pub node: String,
    /// The device.
    pub device: String,
    /// The metric.
    pub metric: String,
    /// The day, `2026-11-23`.
    pub date: String,
    /// How far the lowest of them is below the highest, as a share.
    pub apart: f64,
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
    /// Days of devices that count for nothing, by node and device.
    pub disputed: Vec<Disputed>,
    /// Sessions of devices that nobody signed, where others of the device are signed: they count
    /// for nothing.
    pub unsigned: usize,
    /// What was refused, what cannot be read, and devices whose course is left out, since another
    /// node is said to have their boards; in words.
    pub lost: Vec<String>,
    /// Boards and machines whose course is left out, since others are in their places, in words.
    pub replaced: Vec<String>,
}

/// One session of a series.
#[derive(Clone, Debug)]
pub(super) struct Point {
    time: String,
    day: f64,
    /// Beside all devices of the part.
    log: f64,
    /// Beside the other devices of its node, where there are [`OTHERS_MIN`].
    of_node: Option<f64>,
    entry: Option<u32>,
    code: u32,
}

impl Point {
    /// Its day, `2026-11-23`.
    pub(super) fn date(&self) -> &str {
        self.time.get(..10).unwrap_or(&self.time)
    }
}

/// A device, or all of a part, in a metric.
pub(super) struct Series {
    /// Empty where it is of a part.
    pub(super) node: String,
    pub(super) device: String,
    pub(super) subject: u32,
    pub(super) points: Vec<Point>,
    /// The least effect, as a share.
    pub(super) effect: f64,
}

/// What is known of a session of a device in a metric.
#[derive(Default)]
struct Session {
    /// An entry of it.
    entry: u32,
    /// What code was measured, as the number of a text.
    code: u32,
    /// The logarithms of the repeats.
    logs: Vec<f64>,
    /// The median of each row, as a logarithm, with the number of its run.
    rows: Vec<(u32, f64)>,
    /// Whether nobody vouches for it.
    is_unsigned: bool,
}

/// The sessions of a device in a metric, by time and name.
type Sessions<'t> = BTreeMap<(&'t str, u32), Session>;

/// Leaves out the sessions of a device in a metric that nobody signed, where others are signed.
/// How many these are.
fn keep_signed(sessions: &mut Sessions<'_>) -> usize {
    let before = sessions.len();
    if sessions.values().any(|one| !one.is_unsigned) {
        sessions.retain(|_, one| !one.is_unsigned);
    }
    before - sessions.len()
}

/// A word on a device: its session, its run and a rate as a logarithm.
type Word = (u32, u32, f64);

/// How far words are apart at most that cannot both be repeats of one bundle: those of two
/// sessions, or two of one run. In time that grows with their number alone, since anybody can write
/// them.
fn apart(said: &[Word]) -> f64 {
    let mut sessions: HashMap<u32, [f64; 2]> = HashMap::new();
    let mut runs: HashMap<(u32, u32), [f64; 2]> = HashMap::new();
    for (session, run, log) in said {
        let none = [f64::INFINITY, f64::NEG_INFINITY];
        let widen = |span: &mut [f64; 2]| *span = [span[0].min(*log), span[1].max(*log)];
        widen(sessions.entry(*session).or_insert(none));
        widen(runs.entry((*session, *run)).or_insert(none));
    }
    let of_runs = runs.values().map(|[low, high]| high - low).fold(0.0, f64::max);
    // The highest and the lowest may be of one session: the pair is among the two of each.
    let mut lowest: Vec<(u32, f64)> = sessions.iter().map(|(of, span)| (*of, span[0])).collect();
    let mut highest: Vec<(u32, f64)> = sessions.iter().map(|(of, span)| (*of, span[1])).collect();
    lowest.sort_by(|a, b| a.1.total_cmp(&b.1));
    highest.sort_by(|a, b| b.1.total_cmp(&a.1));
    let pairs = highest.iter().take(2).flat_map(|a| lowest.iter().take(2).map(move |b| (a, b)));
    let of_sessions = pairs.filter(|(a, b)| a.0 != b.0).map(|(a, b)| a.1 - b.1);
    of_sessions.fold(of_runs, f64::max)
}

/// Leaves out the sessions of each day that do not agree. The day, and the logarithm of the highest
/// rate beside the lowest.
fn without_disputed(sessions: &mut Sessions<'_>, effect: f64) -> Vec<(String, f64)> {
    let mut days: BTreeMap<String, Vec<Word>> = BTreeMap::new();
    for ((time, session), one) in sessions.iter().filter(|(_, one)| one.is_unsigned) {
        let said = days.entry(time.chars().take(10).collect()).or_default();
        said.extend(one.rows.iter().map(|(run, log)| (*session, *run, *log)));
    }
    let found = days.into_iter().map(|(day, said)| (day, apart(&said)));
    let disputed: Vec<(String, f64)> =
        found.filter(|(_, apart)| 1.0 - (-apart).exp() > dispute::SLOW * effect).collect();
    sessions.retain(|(time, _), _| !disputed.iter().any(|(day, _)| time.starts_with(day.as_str())));
    disputed
}

/// Finds it in all sessions of a survey.
pub fn drift(surveyed: &Surveyed) -> Drift {
    let Course { all, disputed, unsigned } = series(surveyed);
    let (long, short): (Vec<Series>, Vec<Series>) =
        all.into_iter().partition(|one| one.points.len() >= SESSIONS_MIN);
    let judged = judged(&long);
    let limit = |all: &[f64]| {
        student::false_discovery_limit(all, FALSE_DISCOVERIES).unwrap_or(f64::NEG_INFINITY)
    };
    let changes = long.iter().zip(&judged).map(|(one, its)| (one, &its.level, its.chance));
    let of_changes = Lone::once(changes);
    let falls = judged.iter().zip(&long).filter(|(_, one)| one.points.len() >= DECAY_MIN);
    let of_falls: Vec<f64> =
        falls.map(|(one, _)| one.fall.map_or(1.0, |fall| fall.probability)).collect();
    let (change_limit, fall_limit) = (limit(&of_changes), limit(&of_falls));
    let of_device = |one: &&Series| !one.node.is_empty();
    let is_told = |why: &str| surveyed.lost.iter().any(|line| line.contains(why));
    let silent =
        surveyed.report.unusable.iter().filter(|one| {
            !is_told(&one.why) && !surveyed.units.displaced.contains_key(&one.sender)
        });
    let silent = silent.map(|one| format!("{}: {}", one.sender, one.why));
    let displaced = surveyed.units.displaced.iter().map(|(node, why)| format!("{node}: {why}"));
    let mut found = Drift {
        mark: surveyed.report.mark.clone(),
        series: long.iter().filter(of_device).count(),
        short: short.iter().filter(of_device).count(),
        disputed,
        unsigned,
        lost: surveyed.lost.iter().cloned().chain(displaced).chain(silent).collect(),
        replaced: surveyed.replaced.clone(),
        ..Drift::default()
    };
    for (one, Judged { level, chance, fall }) in long.iter().zip(judged) {
        let metric = surveyed.strata.subjects[one.subject as usize].name.clone();
        let (node, device) = (one.node.clone(), one.device.clone());
        let least = level.least(FALSE_PASS).exp_m1();
        if chance <= change_limit && least.abs() >= one.effect {
            let at = level.at;
            let (since, with) = (one.points[at].time.clone(), with(surveyed, one, at));
            let (change, probability) = (level.change.exp_m1(), chance);
            found.changes.push(Change { node, device, metric, since, change, probability, with });
            continue;
        }
        let Some(Fall { slope, probability, is_nearer }) =
            fall.filter(|one| one.probability <= fall_limit)
        else {
            continue;
        };
        let (first, last) = (&one.points[0], &one.points[one.points.len() - 1]);
        let lost = -(slope * (last.day - first.day)).exp_m1();
        let days = ((1.0 - one.effect).ln() - slope * (last.day - first.day)) / slope;
        let days = days.max(0.0);
        // A change by just the least effect looks like a fall by more than that.
        let is_fall = lost < one.effect || is_nearer;
        if !node.is_empty() && is_fall && days < AHEAD_DAYS {
            found.decays.push(Decay { node, device, metric, lost, days, probability });
        }
    }
    found.changes.sort_by(|a, b| a.change.total_cmp(&b.change));
    found.decays.sort_by(|a, b| a.days.total_cmp(&b.days));
    found
}

/// The course of time of all devices.
struct Course {
    /// The series of devices beside those of their parts, and of the parts.
    all: Vec<Series>,
    disputed: Vec<Disputed>,
    unsigned: usize,
}

/// The sessions of all devices, by device and subject, and the least effect of each subject.
fn sessions_of(surveyed: &Surveyed) -> (BTreeMap<(u32, u32), Sessions<'_>>, HashMap<u32, f64>) {
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
        let own = own.entry(key).or_insert_with(|| Session {
            entry: row.entry,
            code: metric.code,
            is_unsigned: is_of_nobody(gathered, row.entry),
            ..Session::default()
        });
        own.logs.extend_from_slice(gathered.values(row));
        own.rows.push((entry.columns[column::RUN], median(gathered.values(row))));
        let effect = effects.entry(subject).or_default();
        *effect = effect.max(metric.least_effect());
    }
    (sessions, effects)
}

fn series(surveyed: &Surveyed) -> Course {
    let Surveyed { gathered, units, strata, .. } = surveyed;
    let (sessions, effects) = sessions_of(surveyed);
    let (mut disputed, mut unsigned) = (Vec::new(), 0);
    let part = |unit: u32| gathered.told(units.units[unit as usize].entry, column::PART);
    let mut days: BTreeMap<(&str, u32, String), Vec<f64>> = BTreeMap::new();
    let mut all: Vec<(u32, Series)> = Vec::new();
    for ((unit, subject), mut own) in sessions {
        unsigned += keep_signed(&mut own);
        let [node, device] = units.named(gathered, unit);
        for (date, apart) in without_disputed(&mut own, effects[&subject]) {
            let (node, device) = (node.clone(), device.clone());
            let metric = strata.subjects[subject as usize].name.clone();
            let (date, apart) = (clean(&date), 1.0 - (-apart).exp());
            disputed.push(Disputed { node, device, metric, date, apart });
        }
        let point = |((time, _), own): ((&str, u32), Session)| {
            let Session { entry, code, logs, .. } = own;
            let day = date(time).or_else(|| time.get(..10)).unwrap_or_default();
            let (time, day, log) = (clean(time), day_number(day), median(&logs));
            Point { time, day, log, of_node: None, entry: Some(entry), code }
        };
        let points: Vec<Point> = own.into_iter().map(point).collect();
        for point in &points {
            let key = (part(unit), subject, point.time.chars().take(10).collect());
            days.entry(key).or_default().push(point.log);
        }
        all.push((unit, Series { node, device, subject, points, effect: effects[&subject] }));
    }
    set_beside_nodes(surveyed, &mut all);
    let mut parts: BTreeMap<(&str, u32), Vec<Point>> = BTreeMap::new();
    let medians: BTreeMap<(&str, u32, String), f64> = days
        .into_iter()
        .filter(|(_, logs)| logs.len() > OTHERS_MIN)
        .map(|(key, logs)| (key, median(&logs)))
        .collect();
    for ((part, subject, day), log) in &medians {
        let (time, number) = (day.clone(), day_number(day));
        let point = Point { time, day: number, log: *log, of_node: None, entry: None, code: 0 };
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
    let is_there = |one: &Series| is_gpu(&one.device) || !one.points.is_empty();
    Course { all: gpus.filter(is_there).chain(whole).collect(), disputed, unsigned }
}

/// Sets each session beside those of the other devices of its node and part on that day. What a
/// session of the whole node is off by is not in that difference.
fn set_beside_nodes(surveyed: &Surveyed, all: &mut [(u32, Series)]) {
    let Surveyed { gathered, units, .. } = surveyed;
    let place = |unit: u32, series: &Series, point: &Point| {
        let one = &units.units[unit as usize];
        let part = gathered.told(one.entry, column::PART);
        let day: String = point.time.chars().take(10).collect();
        (one.node, part, series.subject, day)
    };
    let mut nodes: BTreeMap<_, Vec<(u32, f64)>> = BTreeMap::new();
    for (unit, series) in all.iter() {
        for point in &series.points {
            nodes.entry(place(*unit, series, point)).or_default().push((*unit, point.log));
        }
    }
    for (unit, series) in all.iter_mut() {
        let of_node = |point: &Point| {
            let known = nodes.get(&place(*unit, series, point))?;
            let others = known.iter().filter(|(other, _)| other != unit).map(|(_, log)| *log);
            let others: Vec<f64> = others.collect();
            (others.len() >= OTHERS_MIN).then(|| point.log - median(&others))
        };
        let found: Vec<Option<f64>> = series.points.iter().map(of_node).collect();
        series.points.iter_mut().zip(found).for_each(|(point, found)| point.of_node = found);
    }
}

/// What a series shows.
struct Judged {
    level: Level,
    /// The probability of its change where there is none; 1 where its sides do not agree.
    chance: f64,
    fall: Option<Fall>,
}

impl Series {
    fn logs(&self) -> Vec<f64> {
        self.points.iter().map(|point| point.log).collect()
    }

    /// Beside the other devices of the node; none where they are too few in any session.
    fn of_node(&self) -> Option<Vec<f64>> {
        self.points.iter().map(|point| point.of_node).collect()
    }

    fn days(&self) -> Vec<f64> {
        self.points.iter().map(|point| point.day).collect()
    }
}

/// Scatters by subject.
fn scatters<'l>(
    all: &[Series],
    logs: impl Iterator<Item = Option<&'l [f64]>>,
) -> HashMap<u32, Scatter> {
    let mut of_subjects: HashMap<u32, Vec<&[f64]>> = HashMap::new();
    for (one, logs) in all.iter().zip(logs) {
        of_subjects.entry(one.subject).or_default().extend(logs);
    }
    of_subjects.into_iter().map(|(at, own)| (at, Scatter::of(&own))).collect()
}

/// Judges series that are long enough, each by the scatter of its subject.
fn judged(all: &[Series]) -> Vec<Judged> {
    let logs: Vec<Vec<f64>> = all.iter().map(Series::logs).collect();
    let of_nodes: Vec<Option<Vec<f64>>> = all.iter().map(Series::of_node).collect();
    let known = scatters(all, logs.iter().map(|logs| Some(&logs[..])));
    let known_of_nodes = scatters(all, of_nodes.iter().map(Option::as_deref));
    let level = |(one, logs): (&Series, &Vec<f64>)| {
        // What all of a part share does not show in its devices.
        let factor = if one.node.is_empty() { 1.0 } else { FAR_NOISIER };
        let scatter = known[&one.subject].widened(logs, factor);
        (course::level(logs, &scatter), scatter)
    };
    let levels: Vec<(Option<Level>, Scatter)> = all.iter().zip(&logs).map(level).collect();
    let known_levels = levels.iter().map(|(level, _)| *level);
    let series = all.iter().zip(&logs).zip(known_levels);
    let lone = Lone::of(series.map(|((one, logs), level)| (one, &logs[..], level)));
    let judge = |at: usize| {
        let (one, logs, (level, scatter)) = (&all[at], &logs[at], &levels[at]);
        let level = (*level)?;
        let by_lone = lone.chance(one, &level);
        let chance = match level.agrees {
            true => level.probability(logs.len()).max(by_lone),
            false => 1.0,
        };
        let beside = of_nodes[at].as_deref().map(|logs| (logs, known_of_nodes[&one.subject]));
        let fall =
            (logs.len() >= DECAY_MIN).then(|| fall(one, (logs, scatter, &level), beside)).flatten();
        Some(Judged { level, chance, fall })
    };
    (0..all.len()).filter_map(judge).collect()
}

/// Nodes' sessions differ where devices scatter beside their nodes by less than this share of what
/// they scatter by beside the part, as variances.
const NODES_DIFFER: f64 = 0.6;

/// Whether a series falls: beside its part, or beside its node where that scatters by far less.
/// Both are looked at then, and the probability of the likelier one counts twice.
fn fall(
    one: &Series,
    (logs, scatter, level): (&[f64], &Scatter, &Level),
    beside: Option<(&[f64], Scatter)>,
) -> Option<Fall> {
    let days = one.days();
    let of_part = course::fall(&days, logs, scatter, level);
    let differ = |of: &Scatter| of.variance() < NODES_DIFFER * scatter.variance();
    let Some((logs, known)) = beside.filter(|(_, of)| differ(of)) else { return of_part };
    let scatter = known.widened(logs, FAR_NOISIER);
    let level = course::level(logs, &scatter)?;
    let of_node = course::fall(&days, logs, &scatter, &level);
    let both = [of_part, of_node].into_iter().flatten();
    let least = both.min_by(|a, b| a.probability.total_cmp(&b.probability))?;
    Some(Fall { probability: (2.0 * least.probability).min(1.0), ..least })
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
