//! Learning a profile from an operator's own good machines.

use super::{
    corruption,
    decide::{GATE, MEDIAN, PEERS_MIN, noise},
    profile::{Aspect, Key, Kind, Profile, Reference},
    reading::{self, Metric},
};
use fizeau_domain::{
    stats::{
        quantile::{median, median_absolute_deviation},
        student::{Variance, mean_and_variance},
    },
    text::counted,
};
use fizeau_record::Record;
use std::collections::{BTreeMap, BTreeSet};

/// With fewer runs than these nothing is learnt.
pub const RUNS_MIN: usize = 3;

/// With fewer runs of one device it is not known how far its runs differ.
pub const RUNS_OF_DEVICE_MIN: usize = 2;

/// With fewer nodes the reference is of these machines, and not of their lot.
pub const NODES_MIN: usize = 3;

/// Devices that differ by more than this times the least effect are not one lot.
const SPREAD_MAX: f64 = 1.0;

/// Standard deviation of normal values over their median absolute deviation.
const NORMAL_MAD: f64 = 1.4826;

/// Degrees of freedom of a variance by that deviation, over those of squares, of normal values
/// (Huber and Ronchetti, Robust Statistics, 2009).
const ROBUST: f64 = 0.37;

/// One run of one device: its records are its repeats.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its records.
    pub records: Vec<Record>,
}

/// A profile, and what its reader has to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Learnt {
    /// The profile.
    pub profile: Profile,
    /// How many of its references may fail a device.
    pub may_fail: usize,
    /// What is too few or too different, in words.
    pub warnings: Vec<String>,
}

impl Learnt {
    /// Whether nothing that an acceptance measures could fail by this profile.
    pub fn is_useless(&self) -> bool {
        self.may_fail == 0 && self.profile.hashes.is_empty()
    }
}

/// Why nothing was learnt.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LearnError {
    /// There are too few runs.
    #[error(
        "{} too few to learn from: give {RUNS_MIN} at least, better five of each of three nodes",
        match .0 { 1 => "1 run is".to_owned(), count => format!("{count} runs are") }
    )]
    TooFew(usize),
    /// They were measured on different things.
    #[error("the records differ in what identifies their figures ({}): learn a profile from each \
             kind, or add --across", .0.join("; "))]
    Different(Vec<String>),
    /// Stubs and devices are mixed.
    #[error("some of the records are of a stub driver, and some are not")]
    Mixed,
    /// None of them has a case of the profile's checks.
    #[error("the records have no case that the checks of profile {0} are about")]
    NoCase(String),
    /// Each of their cases lost CPU time, or was throttled.
    #[error(
        "every case of the records that profile {0} checks was disturbed: the first one {1}; \
         measure them again on a quiet machine"
    )]
    Disturbed(String, String),
}

/// What one device's run says of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Logarithm of the median over the run's repeats.
    pub log: f64,
    /// Variance of `log`, by how the repeats scatter; `None` where there are too few.
    pub error: Option<f64>,
    /// Standard deviation of one repeat, as a share; `None` where there are too few.
    pub noise: Option<f64>,
    /// The node and the device.
    pub device: (String, String),
    /// Start of the run, RFC 3339 in UTC.
    pub started: String,
}

/// Learns from runs. The checks are those of `base`, without its floors.
///
/// # Errors
/// Where there are too few runs, or they differ in what identifies them and `across` is not set.
pub fn learn(name: &str, runs: &[Run], base: &Profile, across: bool) -> Result<Learnt, LearnError> {
    let runs: Vec<&Run> = runs.iter().filter(|run| !run.records.is_empty()).collect();
    if runs.len() < RUNS_MIN {
        return Err(LearnError::TooFew(runs.len()));
    }
    let (key, mut warnings) = common_key(&runs, across)?;
    let mut values: BTreeMap<Metric, Vec<Value>> = BTreeMap::new();
    for run in &runs {
        for (metric, value) in values_of(run, base) {
            values.entry(metric).or_default().push(value);
        }
    }
    if values.is_empty() {
        return Err(nothing(&runs, base));
    }
    let mut references = Vec::new();
    let mut checks = base.checks.clone();
    checks.iter_mut().for_each(|check| check.floor = None);
    for (metric, values) in &values {
        if values.len() < RUNS_MIN {
            let runs = counted(values.len(), "run");
            warnings.push(format!("{}: measured in {runs}, too few", metric.point));
            continue;
        }
        let reference = reference(&metric.point, metric.aspect, values);
        let check = &mut checks[metric.check];
        let scatter = scatter(&reference, values);
        if metric.aspect != Aspect::Clock
            && let Some(wider) = widened(check.least_effect, scatter)
        {
            check.least_effect = wider;
        }
        references.push((metric.check, reference));
    }
    for (check, before) in checks.iter().zip(&base.checks) {
        if check.least_effect > before.least_effect {
            warnings.push(format!(
                "{}: these runs scatter too much to tell a loss of {:.1} %: its least effect is \
                 {:.1} %",
                check.name,
                100.0 * before.least_effect,
                100.0 * check.least_effect
            ));
        }
    }
    let mut may_fail_one = 0;
    for (check, reference) in &references {
        let effect = effect(checks[*check].least_effect, reference.aspect);
        warnings.extend(doubts(reference, effect));
        may_fail_one += usize::from(may_fail(reference, effect));
    }
    let references = references.into_iter().map(|(_, reference)| reference).collect();
    let records: Vec<&[Record]> = runs.iter().map(|run| &run.records[..]).collect();
    let (hashes, differing) = corruption::learn(&records);
    warnings.extend(differing);
    let nodes: BTreeSet<&str> =
        values.values().flatten().map(|value| value.device.0.as_str()).collect();
    if nodes.len() < NODES_MIN {
        warnings.push(format!(
            "learnt on {}, whose lot may be another: use {NODES_MIN}",
            counted(nodes.len(), "node")
        ));
    }
    let profile = Profile {
        name: name.into(),
        description: format!("Learnt from {}", counted(runs.len(), "run")),
        kind: Kind::Learnt,
        part: base.part.clone(),
        host: base.host,
        suite: base.suite.clone(),
        key: Some(key),
        expected: base.expected.clone(),
        checks,
        references,
        hashes,
        folder: base.folder.clone(),
    };
    Ok(Learnt { profile, may_fail: may_fail_one, warnings })
}

/// How far a run of one device is from its next run, as a share: by the runs of a device, else by
/// the devices, else the whole of the least effect.
pub fn between_runs_of(reference: &Reference, effect: f64) -> f64 {
    reference.spread_of_runs.or(reference.spread_of_devices).unwrap_or(effect)
}

/// Whether a reference may fail a device: runs of a good machine differ by less than a third of the
/// least effect.
pub fn may_fail(reference: &Reference, effect: f64) -> bool {
    between_runs_of(reference, effect) <= effect / GATE
}

/// Scatter of runs and of repeats, as a share: the larger of both.
fn scatter(reference: &Reference, values: &[Value]) -> f64 {
    let of_repeats: Vec<f64> = values.iter().filter_map(|value| value.noise).collect();
    let of_repeats = if of_repeats.is_empty() { 0.0 } else { median(&of_repeats) };
    reference.spread_of_runs.unwrap_or(0.0).max(of_repeats)
}

/// The least effect that can be told where good machines scatter by a share: [`GATE`] times as
/// much, in steps of half a percent. `None` where `least_effect` can be told, or not even
/// [`EFFECT_WIDEST`].
fn widened(least_effect: f64, scatter: f64) -> Option<f64> {
    const STEP: f64 = 0.005;
    // What is a whole number of steps already stays so beside rounding.
    let needed = (GATE * scatter / STEP - 1e-6).ceil() * STEP;
    (needed > least_effect && needed <= EFFECT_WIDEST).then_some(needed)
}

/// A check that tells no smaller loss than this is no check: it stays as it was, and may fail
/// nobody.
const EFFECT_WIDEST: f64 = 0.15;

/// The least effect of an aspect: clocks differ between good devices, by what silicon needs.
pub fn effect(least_effect: f64, aspect: Aspect) -> f64 {
    match aspect {
        Aspect::Rate | Aspect::AtClock => least_effect,
        Aspect::Clock => least_effect.max(CLOCK_EFFECT),
    }
}

/// Good silicon under a power limit settles at clocks up to 10 % apart (SC22, "Not all GPUs are
/// created equal"): the least effect of clocks.
const CLOCK_EFFECT: f64 = 0.10;

/// What all runs have in common, and in what they differ.
fn common_key(runs: &[&Run], across: bool) -> Result<(Key, Vec<String>), LearnError> {
    let keys: Vec<Key> = runs.iter().map(|run| reading::key(&run.records)).collect();
    if keys.iter().any(|key| key.stub != keys[0].stub) {
        return Err(LearnError::Mixed);
    }
    let mut differences: Vec<String> = Vec::new();
    // Which kernels were fastest may differ, and with them the images: all of them are kept.
    let comparable = |key: &Key, other: &Key| {
        // Runs without collectives say nothing of what carries them.
        let collectives = key.collectives.clone().filter(|_| other.collectives.is_some());
        Key { images: Vec::new(), collectives, ..key.clone() }
    };
    for key in &keys[1..] {
        for words in comparable(&keys[0], key).differences(&comparable(key, &keys[0])) {
            if !differences.contains(&words) {
                differences.push(words);
            }
        }
    }
    if !differences.is_empty() && !across {
        return Err(LearnError::Different(differences));
    }
    let mut images: Vec<String> = keys.iter().flat_map(|key| key.images.clone()).collect();
    images.sort();
    images.dedup();
    let collectives = keys.iter().find_map(|key| key.collectives.clone());
    Ok((Key { images, collectives, ..keys[0].clone() }, differences))
}

/// Why runs have no value at all: each repeat was disturbed, or none has a case of the profile.
fn nothing(runs: &[&Run], base: &Profile) -> LearnError {
    let records = runs.iter().flat_map(|run| &run.records);
    let found = records.flat_map(|record| reading::readings(record, base).into_values());
    match found.flatten().find_map(|reading| reading.disturbed) {
        Some(disturbance) => LearnError::Disturbed(base.name.clone(), disturbance.words),
        None => LearnError::NoCase(base.name.clone()),
    }
}

/// The median of a run's repeats, by metric. Disturbed and throttled repeats are left out.
fn values_of(run: &Run, base: &Profile) -> Vec<(Metric, Value)> {
    let mut logs: BTreeMap<Metric, Vec<f64>> = BTreeMap::new();
    for record in &run.records {
        for (metric, found) in reading::readings(record, base) {
            if let Ok(found) = found
                && found.disturbed.is_none()
                && !found.throttled
            {
                logs.entry(metric).or_default().push(found.value.ln());
            }
        }
    }
    let header = &run.records[0].header;
    let node = header.environment.host.clone().unwrap_or_else(|| "one".into());
    let device = format!("{}:{}", header.device.backend, header.device.ordinal);
    let started = run.records.iter().map(|record| record.header.started.clone()).min();
    let value = |(metric, logs): (Metric, Vec<f64>)| {
        let (device, started) = ((node.clone(), device.clone()), started.clone());
        let (log, error) = (median(&logs), error_of_median(&logs));
        let noise = error.map(|error| (error * logs.len() as f64 / MEDIAN).sqrt());
        (metric, Value { log, error, noise, device, started: started.unwrap_or_default() })
    };
    logs.into_iter().map(value).collect()
}

/// The standard deviation of some values, robustly; `None` of fewer than two.
fn spread(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    match values {
        [] | [_] => None,
        // The deviation of the two from their middle is half of their distance.
        [a, b] => Some((a - b).abs() / std::f64::consts::SQRT_2),
        all => {
            let stretch = (count / (count - 1.0)).sqrt();
            Some(NORMAL_MAD * median_absolute_deviation(all) * stretch)
        }
    }
}

/// The variance of the median of a run's repeats; `None` of fewer than `REPEATS_MIN`.
pub fn error_of_median(logs: &[f64]) -> Option<f64> {
    (logs.len() >= REPEATS_MIN).then(|| MEDIAN * noise(&[logs]).value / logs.len() as f64)
}

/// Fewer repeats say little of how they scatter.
const REPEATS_MIN: usize = 3;

/// The variance of the runs of one device, pooled over devices; none where no device was run twice.
fn variance_of_runs(by_device: &BTreeMap<&(String, String), Vec<&Value>>) -> Option<Variance> {
    let (mut squares, mut freedom) = (0.0, 0.0);
    for values in by_device.values().filter(|values| values.len() >= RUNS_OF_DEVICE_MIN) {
        let logs: Vec<f64> = values.iter().map(|value| value.log).collect();
        let (_, variance) = mean_and_variance(&logs);
        squares += variance.value * variance.freedom;
        freedom += variance.freedom;
    }
    (freedom > 0.0).then(|| Variance { value: squares / freedom, freedom })
}

/// The same of runs beside those of the other devices of their nodes: what a session of a whole
/// node is off by is no difference between its devices. The runs of a node's devices belong
/// together in their order. By a median, since something may slow single runs by a third, and a
/// failure in such a run is measured anew. None where no node has enough devices that were run
/// twice.
fn variance_beside(by_device: &BTreeMap<&(String, String), Vec<&Value>>) -> Option<Variance> {
    let mut nodes: BTreeMap<&str, Vec<Vec<f64>>> = BTreeMap::new();
    for ((node, _), values) in by_device {
        let mut values = values.clone();
        values.sort_by(|a, b| a.started.cmp(&b.started));
        let logs = values.iter().map(|value| value.log).collect();
        nodes.entry(node).or_default().push(logs);
    }
    let (mut apart, mut freedom) = (Vec::new(), 0.0);
    for devices in nodes.values() {
        let runs = devices.iter().map(Vec::len).min().unwrap_or_default();
        let others = devices.len() - 1;
        if others < PEERS_MIN || runs < RUNS_OF_DEVICE_MIN {
            continue;
        }
        for (at, own) in devices.iter().enumerate() {
            let beside = |run: usize| {
                let all = devices.iter().enumerate().filter(|(other, _)| *other != at);
                own[run] - median(&all.map(|(_, logs)| logs[run]).collect::<Vec<f64>>())
            };
            let all: Vec<f64> = (0..runs).map(beside).collect();
            let (mean, variance) = mean_and_variance(&all);
            // The median of the others is off by itself.
            let stretch = (runs as f64 / variance.freedom / (1.0 + MEDIAN / others as f64)).sqrt();
            apart.extend(all.into_iter().map(|log| (log - mean).abs() * stretch));
            freedom += ROBUST * variance.freedom;
        }
    }
    let value = |apart: &[f64]| (NORMAL_MAD * median(apart)).powi(2);
    (freedom > 0.0).then(|| Variance { value: value(&apart), freedom })
}

/// How far the runs of one device may be from each other beyond what their repeats explain: a
/// judgement adds the scatter of its own repeats, and that of the reference's would count twice.
/// One standard error of the variance is added, since few runs tell it badly.
fn between_runs(values: &[Value], all: Variance) -> f64 {
    let errors: Vec<f64> = values.iter().filter_map(|value| value.error).collect();
    let own = if errors.is_empty() { 0.0 } else { limited_mean(&errors) };
    let most = all.value * (1.0 + (2.0 / all.freedom).sqrt());
    (most - own).max(0.0).sqrt()
}

/// The mean of variances of which none counts as more than four times their median: one disturbed
/// run explains no difference of the others. Their median alone would be too little, since
/// variances of few repeats are skewed.
fn limited_mean(variances: &[f64]) -> f64 {
    let most = 4.0 * median(variances);
    variances.iter().map(|variance| variance.min(most)).sum::<f64>() / variances.len() as f64
}

/// The variance of the median of all: by the spread of nodes where there are several, else of
/// devices, else of the runs of the only one.
fn error_of(nodes: &[f64], devices: &[f64], runs: Option<Variance>, count: usize) -> Variance {
    let of = |values: &[f64]| {
        let (_, variance) = mean_and_variance(values);
        Variance { value: MEDIAN * variance.value / values.len() as f64, ..variance }
    };
    match (nodes.len() > 1, devices.len() > 1) {
        (true, _) => of(nodes),
        (false, true) => of(devices),
        (false, false) => {
            let runs = runs.unwrap_or(Variance { value: 0.0, freedom: 1.0 });
            Variance { value: MEDIAN * runs.value / count as f64, ..runs }
        }
    }
}

/// What some runs say of a metric together.
///
/// # Panics
/// Where there is none.
pub fn reference(point: &str, aspect: Aspect, values: &[Value]) -> Reference {
    let mut by_device: BTreeMap<&(String, String), Vec<&Value>> = BTreeMap::new();
    for value in values {
        by_device.entry(&value.device).or_default().push(value);
    }
    let centre =
        |values: &Vec<&Value>| median(&values.iter().map(|value| value.log).collect::<Vec<_>>());
    let devices: Vec<(&(String, String), f64)> =
        by_device.iter().map(|(device, values)| (*device, centre(values))).collect();
    let mut by_node: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for ((node, _), log) in &devices {
        by_node.entry(node).or_default().push(*log);
    }
    let nodes: Vec<f64> = by_node.values().map(|logs| median(logs)).collect();
    let centres: Vec<f64> = devices.iter().map(|(_, log)| *log).collect();
    let (runs, beside) = (variance_of_runs(&by_device), variance_beside(&by_device));
    let error = error_of(&nodes, &centres, runs, values.len());
    let dates = || values.iter().map(|value| value.started.clone());
    Reference {
        point: point.into(),
        aspect,
        median: median(&centres).exp(),
        error: error.value.sqrt(),
        error_freedom: error.freedom,
        spread_of_runs: runs.map(|runs| between_runs(values, runs)),
        spread_beside_others: beside.map(|beside| between_runs(values, beside)),
        spread_of_devices: spread(&centres),
        // Of few nodes a robust spread would itself scatter too much.
        spread_of_nodes: (nodes.len() > 1).then(|| mean_and_variance(&nodes).1.value.sqrt()),
        runs: values.len(),
        devices: devices.len(),
        nodes: nodes.len(),
        from: dates().min().unwrap_or_default(),
        to: dates().max().unwrap_or_default(),
    }
}

/// What makes a reference doubtful.
fn doubts(reference: &Reference, least_effect: f64) -> Vec<String> {
    let point = &reference.point;
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let mut words = Vec::new();
    match reference.spread_of_runs {
        None => words.push(format!(
            "{point}: no device was run twice, so that it is not known how far its runs differ"
        )),
        Some(spread) if spread > least_effect / GATE => words.push(format!(
            "{point}: runs of one device differ by {}, over a third of the least effect of {}: \
             it may fail nobody",
            percent(spread),
            percent(least_effect)
        )),
        Some(_) => {}
    }
    if let Some(spread) = reference.spread_of_devices.filter(|s| *s > SPREAD_MAX * least_effect) {
        words.push(format!(
            "{point}: devices differ by {}, more than the least effect of {}: they are no one lot",
            percent(spread),
            percent(least_effect)
        ));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What sessions of whole nodes are off by is no difference of their devices.
    #[test]
    fn a_session_of_a_node_is_not_one_of_its_devices() {
        let value = |node: usize, device: usize, run: usize, log: f64| Value {
            log,
            error: None,
            noise: None,
            device: (format!("n{node}"), format!("cuda:{device}")),
            started: format!("run {run}"),
        };
        let places = || (0..5).flat_map(|node| (0..8).map(move |device| (node, device)));
        let runs = |of: &mut dyn FnMut(usize, usize) -> f64| -> Reference {
            let both = |(node, device)| [0, 1].map(|run| value(node, device, run, of(node, run)));
            reference("stream", Aspect::Rate, &places().flat_map(both).collect::<Vec<Value>>())
        };
        let of_nodes = runs(&mut |node, run| 0.01 * ((node * 7 + run * 3) % 5) as f64);
        let spreads = (of_nodes.spread_of_runs, of_nodes.spread_beside_others);
        assert!(spreads.0 > Some(0.01) && spreads.1 == Some(0.0), "{spreads:?}");
        let mut random = oorandom::Rand64::new(7);
        let of_devices = runs(&mut |_, _| 0.01 * random.rand_float());
        let spread = of_devices.spread_of_runs.expect("two runs");
        let beside = of_devices.spread_beside_others.expect("eight devices");
        assert!((0.7..1.4).contains(&(beside / spread)), "{beside} of {spread}");
        // A run in ten that something slows by a third is no difference of sessions.
        let mut slowed = |_: usize, _: usize| {
            0.01 * random.rand_float() - if random.rand_float() < 0.1 { 0.4 } else { 0.0 }
        };
        let slowed = runs(&mut slowed).spread_beside_others.expect("eight devices");
        assert!(slowed < 2.0 * beside, "{slowed}, {beside}");
    }

    #[test]
    fn the_least_effect_becomes_what_the_scatter_lets_one_tell() {
        let near = |wider: Option<f64>, share: f64| (wider.expect("wider") - share).abs() < 1e-9;
        assert_eq!(widened(0.06, 0.02), None, "a third of it may scatter");
        assert!(near(widened(0.06, 0.021), 0.065), "three times the scatter, in half percents");
        assert!(near(widened(0.06, 0.05), 0.15));
        assert_eq!(widened(0.06, 0.051), None, "nothing tells what is so small");
        assert_eq!(widened(0.06, f64::NAN), None);
    }
}
