//! Strata: the devices that are set beside each other, and why others are not.

use super::{
    Group, Of,
    dispute::{self, Disputes, Others, is_of_nobody},
    gather::{Gathered, Kept, column},
    problem::{Kind, Problems},
    row::ACCEPTANCE,
    units::{Units, Window},
};
use fizeau_domain::{
    labels::Belonging,
    stats::{
        quantile::{median, median_absolute_deviation},
        student::Variance,
    },
    text::{agreed, clean, counted},
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// What strata are made by, besides labels: column, its name in words, and as `--across` takes it.
pub const FIELDS: [(usize, &str, &str); 5] = [
    (column::PART, "part", "part"),
    (column::VBIOS, "VBIOS", "vbios"),
    (column::DRIVER, "driver", "driver"),
    (column::HOST_TYPE, "host type", "host"),
    (column::FIZEAU, "fizeau", "fizeau"),
];

/// The name of the code of kernels, as `--across` takes it.
pub const CODE: &str = "code";

/// How strata are made.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    /// Names of fields that do not count.
    pub across: Vec<String>,
    /// Labels that count too.
    pub labels: Vec<String>,
}

/// What identifies a stratum: texts of the fields and labels that count, in order.
type Key = Vec<u32>;

/// A metric of the fleet, whatever stratum.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// The check.
    pub metric: String,
    /// The case's id without its kernel.
    pub point: String,
    /// The unit of its rates.
    pub unit: String,
    /// The check, with the point where the check has several.
    pub name: String,
}

/// A row of a group, as far as the judgement does not need it.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The entry that its latest figures come from.
    pub entry: u32,
    /// The metric of these figures.
    pub metric: u32,
}

/// The fleet's figures, in strata.
#[derive(Debug, Default)]
pub struct Strata {
    /// One metric of one stratum each.
    pub groups: Vec<Group>,
    /// Index of the subject of each group.
    pub subjects_of: Vec<u32>,
    /// Where the rows of each group come from.
    pub origins: Vec<Vec<Origin>>,
    /// What other unsigned bundles say of the rows of each group.
    pub others: Vec<Vec<Option<Others>>>,
    /// What unsigned bundles say.
    pub disputes: Disputes,
    /// Metrics.
    pub subjects: Vec<Subject>,
    /// The strata in words, each as its fields.
    pub names: Vec<String>,
    /// Index of the subject of each metric of the rows.
    pub subject_of: Vec<u32>,
    /// Repeats that were left out as disturbed.
    pub disturbed: u64,
}

impl Strata {
    /// Makes them from the latest figures of each device.
    pub fn of(
        gathered: &Gathered,
        units: &Units,
        belongings: &[Belonging],
        rule: &Rule,
        window: &Window,
        problems: &mut Problems,
    ) -> Strata {
        let mut made = Strata::default();
        made.find_subjects(gathered);
        made.disputes = Disputes::of(gathered, units, &made.subject_of);
        let rows = ordered(gathered, units, &made.subject_of);
        let keys = keys(gathered, units, belongings, rule, problems);
        let mut builder = Builder::new(gathered, &keys, rule);
        let mut twice = 0;
        for own in rows.chunk_by(|a, b| (a.unit, a.subject) == (b.unit, b.subject)) {
            let (chosen, doubled) = chosen(gathered, own, window, &keys);
            twice += doubled;
            let earlier = earlier(gathered, own, &keys);
            builder.push(&chosen, &earlier, &mut made);
        }
        if twice > 0 {
            let words = format!(
                "{} {} there twice (the same session): counted once",
                counted(twice as usize, "row"),
                agreed(twice as usize, "is", "are")
            );
            problems.add(Kind::Duplicate, words);
        }
        builder.end(&mut made, problems);
        made
    }

    /// In what two strata differ, in words: the fields of the first that the second has otherwise.
    pub fn difference(&self, one: usize, other: usize) -> String {
        let fields = |at: usize| self.names[at].split(", ").collect::<Vec<&str>>();
        let others = fields(other);
        let own: Vec<&str> =
            fields(one).into_iter().filter(|field| !others.contains(field)).collect();
        own.join(", ")
    }

    /// The metrics, and which each metric of the rows is: units and points tell them apart, code
    /// and least effects do not.
    fn find_subjects(&mut self, gathered: &Gathered) {
        let mut known: HashMap<[u32; 3], u32> = HashMap::new();
        let mut points: HashMap<u32, HashSet<u32>> = HashMap::new();
        let mut of = Vec::new();
        let mut keys = Vec::new();
        for metric in &gathered.metrics {
            let key = [metric.name, metric.point, metric.unit];
            points.entry(metric.name).or_default().insert(metric.point);
            of.push(*known.entry(key).or_insert_with(|| {
                keys.push(key);
                keys.len() as u32 - 1
            }));
        }
        let text = |number: u32| clean(gathered.texts.text(number));
        let subject = |[name, point, unit]: [u32; 3]| {
            let (metric, point_text) = (text(name), text(point));
            let full = match points[&name].len() {
                1 => metric.clone(),
                _ if point_text.is_empty() => metric.clone(),
                _ => format!("{metric} ({point_text})"),
            };
            Subject { metric, point: point_text, unit: text(unit), name: full }
        };
        self.subjects = keys.into_iter().map(subject).collect();
        self.subject_of = of;
    }
}

/// A row of the fleet, to be put in order.
#[derive(Clone, Copy)]
struct Ordered {
    unit: u32,
    subject: u32,
    /// Place of its session's time among all, ascending.
    time: u32,
    row: u32,
}

/// Rows by device and metric, the latest first.
fn ordered(gathered: &Gathered, units: &Units, subject_of: &[u32]) -> Vec<Ordered> {
    let time = |entry: u32| gathered.told(entry, column::TIME);
    let mut times: Vec<&str> = (0..gathered.entries.len() as u32).map(time).collect();
    times.sort_unstable();
    times.dedup();
    let place = |entry: u32| times.binary_search(&time(entry)).unwrap_or_default() as u32;
    let places: Vec<u32> = (0..gathered.entries.len() as u32).map(place).collect();
    let row = |(at, row): (usize, &Kept)| {
        let unit = units.unit_of[row.entry as usize]?;
        let subject = subject_of[row.metric as usize];
        Some(Ordered { unit, subject, time: places[row.entry as usize], row: at as u32 })
    };
    let mut all: Vec<Ordered> = gathered.rows.iter().enumerate().filter_map(row).collect();
    let run = |one: &Ordered| gathered.told(gathered.rows[one.row as usize].entry, column::RUN);
    all.sort_unstable_by(|a, b| {
        let order = (a.unit, a.subject, b.time).cmp(&(b.unit, b.subject, a.time));
        order.then_with(|| run(a).cmp(run(b))).then(a.row.cmp(&b.row))
    });
    all
}

/// The rows of a device and metric that count, in the order of time: those of its latest session,
/// or all that are of the same stratum and as signed or unsigned as these. And how many were there
/// twice.
fn chosen<'g>(
    gathered: &'g Gathered,
    own: &[Ordered],
    window: &Window,
    keys: &[Key],
) -> (Vec<(u32, &'g Kept)>, u64) {
    let row = |one: &Ordered| &gathered.rows[one.row as usize];
    let first = row(&own[0]);
    let text = |kept: &Kept, column: usize| gathered.entries[kept.entry as usize].columns[column];
    let code = |kept: &Kept| gathered.metrics[kept.metric as usize].code;
    let is_alike = |kept: &Kept| {
        let is_session = text(kept, column::SESSION) == text(first, column::SESSION);
        (window.combine || is_session)
            && keys[kept.entry as usize] == keys[first.entry as usize]
            && code(kept) == code(first)
            && is_of_nobody(gathered, kept.entry) == is_of_nobody(gathered, first.entry)
    };
    let mut found: Vec<(u32, &Kept)> = Vec::new();
    let mut twice = 0;
    for one in own {
        let kept = row(one);
        if !is_alike(kept) {
            continue;
        }
        let is_same = |(_, other): &&mut (u32, &Kept)| {
            [column::SESSION, column::RUN].iter().all(|at| text(kept, *at) == text(other, *at))
        };
        match found.iter_mut().find(is_same) {
            // A bundle that was gathered before it was closed has fewer repeats.
            Some(other) => {
                twice += 1;
                if kept.count > other.1.count {
                    other.1 = kept;
                }
            }
            None => found.push((one.unit, kept)),
        }
    }
    found.reverse();
    (found, twice)
}

/// Sessions of a device that tell how its sessions differ, at most: the latest.
const EARLIER_MAX: usize = 5;

/// Medians of the latest sessions of a device and metric that are of the same stratum, the latest
/// first.
fn earlier(gathered: &Gathered, own: &[Ordered], keys: &[Key]) -> Vec<f64> {
    let row = |one: &Ordered| &gathered.rows[one.row as usize];
    let first = row(&own[0]);
    let code = |kept: &Kept| gathered.metrics[kept.metric as usize].code;
    let is_alike = |kept: &&Kept| {
        keys[kept.entry as usize] == keys[first.entry as usize] && code(kept) == code(first)
    };
    let mut sessions: Vec<u32> = Vec::new();
    let mut medians = Vec::new();
    for kept in own.iter().map(row).filter(is_alike) {
        let session = gathered.entries[kept.entry as usize].columns[column::SESSION];
        if !sessions.contains(&session) {
            sessions.push(session);
            medians.push(median(gathered.values(kept)));
        }
        if sessions.len() == EARLIER_MAX {
            break;
        }
    }
    medians
}

/// Differences of two sessions of a device that tell how sessions differ, at least.
const DIFFERENCES_MIN: usize = 20;

/// The variance of the median of one session, by the differences of successive sessions of all
/// devices of a group; what all of them gain or lose is none.
fn of_sessions(differences: &[f64]) -> Option<Variance> {
    if differences.len() < DIFFERENCES_MIN {
        return None;
    }
    // Half of the squares of a difference are of each session. A median has about 0.37 of the
    // information that squares have.
    let scale = 1.4826 * median_absolute_deviation(differences);
    Some(Variance { value: scale * scale / 2.0, freedom: 0.37 * differences.len() as f64 })
}

/// Nodes and sessions that were judged by their own acceptance.
fn accepted(gathered: &Gathered) -> HashSet<[u32; 2]> {
    let is_whole = |one: &&super::gather::Said| gathered.texts.text(one.check) == ACCEPTANCE;
    let of = |entry: u32| {
        let columns = &gathered.entries[entry as usize].columns;
        [columns[column::NODE], columns[column::SESSION]]
    };
    gathered.said.iter().filter(is_whole).map(|one| of(one.entry)).collect()
}

/// What identifies the stratum of each entry; labels of devices that do not count are none.
fn keys(
    gathered: &Gathered,
    units: &Units,
    belongings: &[Belonging],
    rule: &Rule,
    problems: &mut Problems,
) -> Vec<Key> {
    let fields: Vec<usize> = fields(rule).map(|(column, ..)| column).collect();
    let mut numbers: HashMap<String, u32> = HashMap::new();
    let mut none = 0;
    let mut key = |at: usize, unit: Option<u32>| -> Key {
        let columns = gathered.entries[at].columns;
        let mut key: Key = fields.iter().map(|column| columns[*column]).collect();
        for label in &rule.labels {
            let value = unit.and_then(|unit| belongings[unit as usize].get(label).cloned());
            none += usize::from(unit.is_some() && value.is_none());
            let count = numbers.len() as u32;
            key.push(*numbers.entry(value.unwrap_or_default()).or_insert(count));
        }
        key
    };
    let all = (0..gathered.entries.len()).map(|at| key(at, units.unit_of[at])).collect();
    if none > 0 {
        let words = format!(
            "{} {} a label of --stratum: a stratum of {} own",
            counted(none, "device"),
            agreed(none, "lacks", "lack"),
            agreed(none, "its", "their")
        );
        problems.add(Kind::Labels, words);
    }
    all
}

fn fields(rule: &Rule) -> impl Iterator<Item = (usize, &'static str, &'static str)> + '_ {
    FIELDS.into_iter().filter(|(_, _, name)| !rule.across.iter().any(|across| across == name))
}

/// Puts rows into groups.
struct Builder<'g> {
    gathered: &'g Gathered,
    keys: &'g [Key],
    by_code: bool,
    fields: Vec<(usize, &'static str)>,
    groups: HashMap<(u32, u32), usize>,
    strata: HashMap<(Key, u32), u32>,
    /// An entry of each stratum, and its code.
    samples: Vec<(u32, u32)>,
    floors: Vec<Vec<f64>>,
    /// Differences of successive sessions of its devices, of each group.
    differences: Vec<Vec<f64>>,
    accepted: HashSet<[u32; 2]>,
    /// Least effects as bits, which are in the order of the numbers, each with how many devices.
    effects: Vec<BTreeMap<u64, usize>>,
    values: Vec<f64>,
}

impl<'g> Builder<'g> {
    fn new(gathered: &'g Gathered, keys: &'g [Key], rule: &Rule) -> Builder<'g> {
        Builder {
            gathered,
            keys,
            by_code: !rule.across.iter().any(|across| across == CODE),
            fields: fields(rule).map(|(column, words, _)| (column, words)).collect(),
            groups: HashMap::new(),
            strata: HashMap::new(),
            samples: Vec::new(),
            floors: Vec::new(),
            differences: Vec::new(),
            accepted: accepted(gathered),
            effects: Vec::new(),
            values: Vec::new(),
        }
    }

    fn push(&mut self, chosen: &[(u32, &Kept)], earlier: &[f64], made: &mut Strata) {
        let Some((unit, latest)) = chosen.last().copied() else { return };
        let metric = &self.gathered.metrics[latest.metric as usize];
        let code = if self.by_code { metric.code } else { 0 };
        let key = &self.keys[latest.entry as usize];
        let known = self.strata.get(&(key.clone(), code)).copied();
        let stratum = known.unwrap_or_else(|| {
            let number = self.samples.len() as u32;
            self.strata.insert((key.clone(), code), number);
            self.samples.push((latest.entry, code));
            number
        });
        let subject = made.subject_of[latest.metric as usize];
        let at = *self.groups.entry((subject, stratum)).or_insert_with(|| {
            let name = &made.subjects[subject as usize].name;
            made.groups.push(Group::new(name, stratum as usize, metric.least_effect()));
            made.subjects_of.push(subject);
            made.origins.push(Vec::new());
            made.others.push(Vec::new());
            self.floors.push(Vec::new());
            self.differences.push(Vec::new());
            self.effects.push(BTreeMap::new());
            made.groups.len() - 1
        });
        self.values.clear();
        self.values.extend(self.at_one_level(chosen));
        made.disturbed += chosen.iter().map(|(_, kept)| u64::from(kept.disturbed)).sum::<u64>();
        *self.effects[at].entry(metric.least_effect().to_bits()).or_default() += 1;
        if !latest.floor.is_nan() {
            self.floors[at].push(latest.floor);
        }
        self.differences[at].extend(earlier.windows(2).map(|two| two[0] - two[1]));
        let others = made.disputes.others(self.gathered, latest, &made.subject_of);
        let own = chosen.iter().map(|(_, kept)| median(self.gathered.values(kept)));
        let others = dispute::with_own(others, own, &self.values, metric.least_effect());
        let is_apart = |others| dispute::is_apart(others, &self.values, metric.least_effect());
        let of = Of { is_reference: !others.is_some_and(is_apart), ..self.of(chosen) };
        made.groups[at].push_of(unit, self.values.iter().copied(), of);
        made.others[at].push(others);
        made.origins[at].push(Origin { entry: latest.entry, metric: latest.metric });
    }

    /// The repeats of a device. Those of several sessions are set to one level, the median of the
    /// sessions' medians: how they scatter is then the noise of a repeat alone, and how sessions
    /// differ is counted by itself ([`Group::sessions`]). Otherwise sessions that differ would look
    /// like repeats that are too noisy to judge.
    fn at_one_level(&self, chosen: &[(u32, &Kept)]) -> Vec<f64> {
        let mut sessions: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        let mut order = Vec::new();
        for (_, kept) in chosen {
            let session = self.gathered.entries[kept.entry as usize].columns[column::SESSION];
            let own = sessions.entry(session).or_default();
            order.extend(self.gathered.values(kept).iter().map(|value| (session, *value)));
            own.extend_from_slice(self.gathered.values(kept));
        }
        let medians: BTreeMap<u32, f64> = { sessions.iter() }
            .filter(|(_, values)| !values.is_empty())
            .map(|(session, values)| (*session, median(values)))
            .collect();
        let level = match medians.len() {
            0 => return Vec::new(),
            _ => median(&medians.values().copied().collect::<Vec<f64>>()),
        };
        order.into_iter().map(|(session, value)| value - medians[&session] + level).collect()
    }

    /// How many sessions, and whether a floor may fail the device. Where its node's acceptance has
    /// set the same repeats beside it, that has decided, and knew who else worked on the machine.
    fn of(&self, chosen: &[(u32, &Kept)]) -> Of {
        let entry = |kept: &Kept| &self.gathered.entries[kept.entry as usize];
        let mut sessions: Vec<u32> =
            chosen.iter().map(|(_, kept)| entry(kept).columns[column::SESSION]).collect();
        sessions.sort_unstable();
        sessions.dedup();
        let is_judged = |kept: &Kept| {
            let columns = &entry(kept).columns;
            entry(kept).incomplete
                || self.accepted.contains(&[columns[column::NODE], columns[column::SESSION]])
        };
        let floor_may_fail = !chosen.iter().any(|(_, kept)| kept.disturbed > 0 || is_judged(kept));
        let sessions = sessions.len().min(usize::from(u16::MAX)) as u16;
        Of { sessions, floor_may_fail, is_reference: true }
    }

    /// Sets floors and least effects, names the strata, and says what is not compared.
    fn end(self, made: &mut Strata, problems: &mut Problems) {
        for (at, group) in made.groups.iter_mut().enumerate() {
            group.sessions = of_sessions(&self.differences[at]);
            let effects = &self.effects[at];
            // One node may have any: it must not blind the fleet.
            let most = effects.iter().max_by_key(|(effect, count)| (**count, **effect));
            let percent = |effect: u64| 100.0 * f64::from_bits(effect);
            let used = most.map_or(0, |(effect, _)| *effect);
            group.least_effect = f64::from_bits(used);
            let name = &group.metric;
            if let (Some((least, _)), Some((most, _)), 2..) =
                (effects.first_key_value(), effects.last_key_value(), effects.len())
            {
                let words = format!(
                    "{name}: profiles have least effects from {:.1} to {:.1} %: that of most \
                     devices is used, {:.1} %",
                    percent(*least),
                    percent(*most),
                    percent(used)
                );
                problems.add(Kind::Apart, words);
            }
            let floors = &self.floors[at];
            if floors.is_empty() {
                continue;
            }
            let middle = median(floors);
            let apart = floors.iter().filter(|floor| (**floor - middle).abs() > FLOORS_APART);
            let apart = apart.count();
            // A few nodes may have any floor: they must not take it from the others.
            let is_used = 4 * apart < floors.len() && 2 * floors.len() > group.len();
            group.floor = Some(middle).filter(|_| is_used);
            if 2 * floors.len() <= group.len() {
                let (with, all) = (floors.len(), group.len());
                let words = format!("{name}: {with} of {all} devices have a floor: none is used");
                problems.add(Kind::Apart, words);
            }
            if apart > 0 {
                let words = format!(
                    "{name}: {apart} of {} floors are more than {:.0} % from their median: {}",
                    floors.len(),
                    100.0 * FLOORS_APART,
                    if is_used { "the median is used" } else { "none is used" }
                );
                problems.add(Kind::Apart, words);
            }
        }
        let text = |number: u32| match clean(self.gathered.texts.text(number)) {
            empty if empty.is_empty() => "unknown".to_owned(),
            told => told,
        };
        let name = |(entry, code): &(u32, u32)| {
            let columns = &self.gathered.entries[*entry as usize].columns;
            let mut words: Vec<String> = { self.fields.iter() }
                .map(|(column, words)| named(words, text(columns[*column])))
                .collect();
            words.extend((*code != 0).then(|| format!("code {}", text(*code))));
            words.join(", ")
        };
        made.names = self.samples.iter().map(name).collect();
        self.apart(made, problems);
    }

    /// In what the strata of a part differ: a line for each part, with the fields that differ.
    fn apart(&self, made: &Strata, problems: &mut Problems) {
        let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
        for group in &made.groups {
            let size = sizes.entry(group.stratum).or_default();
            *size = (*size).max(group.len());
        }
        let column = |stratum: usize, at: usize| self.gathered.told(self.samples[stratum].0, at);
        let mut by_part: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for stratum in sizes.keys() {
            by_part.entry(column(*stratum, column::PART)).or_default().push(*stratum);
        }
        for (part, strata) in by_part {
            for (at, words) in self.fields.iter().filter(|(at, _)| *at != column::PART) {
                let mut told: BTreeMap<&str, usize> = BTreeMap::new();
                for stratum in &strata {
                    let size = told.entry(column(*stratum, *at)).or_default();
                    *size = (*size).max(sizes[stratum]);
                }
                if told.len() < 2 {
                    continue;
                }
                let shown = told.iter().take(APART_SHOWN).map(|(value, size)| {
                    let value = if value.is_empty() { "unknown" } else { value };
                    format!("{} ({size})", clean(value))
                });
                let mut shown: Vec<String> = shown.collect();
                if told.len() > APART_SHOWN {
                    shown.push(format!("{} more", told.len() - APART_SHOWN));
                }
                let words = format!(
                    "{}: not compared with each other, by {words}: {}",
                    clean(part),
                    shown.join(", ")
                );
                problems.add(Kind::Apart, words);
            }
        }
    }
}

/// Floors of one stratum come from one part's numbers, and agree but for rounding: the most that
/// their logarithms may be from their median.
const FLOORS_APART: f64 = 0.02;

/// A field and its value; a value that begins with the field's name says it already.
fn named(field: &str, value: String) -> String {
    match value.strip_prefix(field).is_some_and(|rest| rest.starts_with(' ')) {
        true => value,
        false => format!("{field} {value}"),
    }
}

/// Values of a field that a line about strata names.
const APART_SHOWN: usize = 4;
