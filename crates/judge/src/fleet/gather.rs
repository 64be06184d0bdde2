//! Rows gathered in little memory: each text once, identities by number, logarithms of rates. Rows
//! may come from anybody, so that each count has a limit.

use super::{
    problem::{Kind, Problems},
    row::{ACCEPTANCE, NODE, Row, SIMULATED, is_held, seconds},
    untaken::Untaken,
};
use fizeau_domain::text::{clean, counted, shorten};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt::Display,
    sync::Arc,
};

/// Longest text of a row, in bytes, but for words.
pub const TEXT_MAX: usize = 300;

/// Longest words of a row that are kept, in characters.
pub(super) const WORDS_MAX: usize = 300;

/// More devices than these are no node: one of eight GPUs in eight partitions each has 64.
pub const DEVICES_MAX: usize = 128;

/// Most metrics: a fleet has a few dozen.
const METRICS_MAX: usize = 20_000;

/// Most values that are held at once.
pub const VALUES_MAX: usize = 200_000_000;

/// Most verdicts of acceptances that are held at once.
const SAID_MAX: usize = 2_000_000;

/// Most senders that are named as unusable.
pub(super) const SENDERS_MAX: usize = 100_000;

/// The most that may be called a least effect.
const EFFECT_MAX: f64 = 0.5;

/// Texts by number; 0 is the empty one.
#[derive(Clone, Debug)]
pub struct Texts {
    all: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
}

impl Default for Texts {
    fn default() -> Texts {
        let empty: Arc<str> = Arc::from("");
        Texts { all: vec![empty.clone()], numbers: HashMap::from([(empty, 0)]) }
    }
}

impl Texts {
    /// The number of a text, which is added where it is new.
    pub fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let (text, number) = (Arc::<str>::from(text), self.all.len() as u32);
        self.all.push(text.clone());
        self.numbers.insert(text, number);
        number
    }

    /// The number of a text that is there.
    pub fn known(&self, text: &str) -> Option<u32> {
        self.numbers.get(text).copied()
    }

    /// A text by its number.
    pub fn text(&self, number: u32) -> &str {
        &self.all[number as usize]
    }
}

/// Columns of identity, as numbers of texts.
pub const COLUMNS: usize = 16;

/// The places of the columns in an [`Entry`].
pub mod column {
    /// `mark`.
    pub const MARK: usize = 0;
    /// `session`.
    pub const SESSION: usize = 1;
    /// `run`.
    pub const RUN: usize = 2;
    /// `time`.
    pub const TIME: usize = 3;
    /// `node`.
    pub const NODE: usize = 4;
    /// `machine`.
    pub const MACHINE: usize = 5;
    /// `device`.
    pub const DEVICE: usize = 6;
    /// `uuid`.
    pub const UUID: usize = 7;
    /// `serial`.
    pub const SERIAL: usize = 8;
    /// `pci` and `slot`, with a space between them.
    pub const PLACE: usize = 9;
    /// `part`.
    pub const PART: usize = 10;
    /// `vbios`.
    pub const VBIOS: usize = 11;
    /// `driver`.
    pub const DRIVER: usize = 12;
    /// `host_type`.
    pub const HOST_TYPE: usize = 13;
    /// `fizeau`.
    pub const FIZEAU: usize = 14;
    /// `sender`.
    pub const SENDER: usize = 15;
}

/// A device in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Numbers of the texts of its columns.
    pub columns: [u32; COLUMNS],
    /// Whether the session did not come to its end.
    pub incomplete: bool,
}

/// What was measured: columns `metric`, `point`, `suite`, `unit` and `code`, as numbers of texts,
/// and the least effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Metric {
    /// `metric`.
    pub name: u32,
    /// `point`.
    pub point: u32,
    /// `suite`.
    pub suite: u32,
    /// `unit`.
    pub unit: u32,
    /// `code`.
    pub code: u32,
    /// `least_effect`, as the bits of its number.
    effect: u64,
}

impl Metric {
    /// The least relative loss that counts.
    pub fn least_effect(&self) -> f64 {
        f64::from_bits(self.effect)
    }
}

/// The values of a row.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// Its entry.
    pub entry: u32,
    /// Its metric.
    pub metric: u32,
    /// Where its values begin.
    start: u64,
    /// How many they are.
    pub count: u32,
    /// Repeats that were left out as disturbed.
    pub disturbed: u32,
    /// Logarithm of the floor; NaN without one.
    pub floor: f64,
}

/// What an acceptance said.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    /// Its entry.
    pub entry: u32,
    /// The metric, of a row with values.
    pub metric: Option<u32>,
    /// The check.
    pub check: u32,
    /// `pass`, `fail` or `inconclusive`.
    pub verdict: u32,
    /// Why.
    pub words: u32,
    /// What to do.
    pub action: u32,
}

/// All rows.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    /// Texts.
    pub texts: Texts,
    /// Devices in sessions.
    pub entries: Vec<Entry>,
    /// Metrics.
    pub metrics: Vec<Metric>,
    /// Rows with values.
    pub rows: Vec<Kept>,
    /// What acceptances said.
    pub said: Vec<Said>,
    /// What was left out.
    pub problems: Problems,
    /// Who sent something of which not all can be used, with the reason. A node's name, or the path
    /// of what does not name its node.
    pub unusable: BTreeMap<String, String>,
    /// What collections could not take.
    pub untaken: Untaken,
    values: Vec<f64>,
    entry_numbers: HashMap<Entry, u32>,
    metric_numbers: HashMap<Metric, u32>,
    /// Devices by node.
    devices: HashMap<u32, HashSet<u32>>,
    /// Entries of sessions that speak of several nodes: [`end`](Self::end) finds them.
    pub shared: HashSet<u32>,
    /// Rows that were left out of nodes with too many devices.
    overfull: BTreeMap<String, u64>,
    /// The entry of the row before: rows of one device stand together.
    last: Option<u32>,
}

impl Gathered {
    /// The values of a row: logarithms of rates, in order.
    pub fn values(&self, row: &Kept) -> &[f64] {
        &self.values[row.start as usize..][..row.count as usize]
    }

    /// A column of an entry.
    pub fn told(&self, entry: u32, column: usize) -> &str {
        self.texts.text(self.entries[entry as usize].columns[column])
    }

    /// Whether nothing was gathered.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.said.is_empty()
    }

    /// Takes a row; `place` is where it stands, for what is said of it.
    pub fn take(&mut self, row: &Row<'_>, place: &dyn Display) {
        let whose = || format!("{place}: {} {}", clean(&row.node), clean(&row.device));
        if let Some(why) = refusal(row) {
            match row.node.trim() {
                "" => self.unusable(&place.to_string(), &why),
                node => self.unusable(node, &why),
            }
            return self.problems.add(Kind::NoRow, format!("{place}: {why}"));
        }
        let Some(entry) = self.entry(row) else { return };
        let rates = row.values.iter().filter(|value| is_rate(**value));
        let start = self.values.len();
        if start + row.values.len() > VALUES_MAX {
            let words = format!("more than {VALUES_MAX} values: the rest is left out");
            return self.problems.add(Kind::TooMany, words);
        }
        self.values.extend(rates.map(|value| value.ln()));
        let count = self.values.len() - start;
        if count < row.values.len() {
            let wrong = row.values.len() - count;
            let metric = clean(&row.metric);
            let values = counted(row.values.len(), "value");
            let words = format!("{}, {metric}: {wrong} of {values} no rate, left out", whose());
            self.problems.add(Kind::NoRate, words);
        }
        let metric = (count > 0).then(|| self.metric(row)).flatten();
        if let Some(metric) = metric {
            let floor = row.floor.filter(|floor| is_rate(*floor)).map_or(f64::NAN, f64::ln);
            let (start, count) = (start as u64, count as u32);
            let disturbed = row.disturbed;
            self.rows.push(Kept { entry, metric, start, count, disturbed, floor });
        } else {
            self.values.truncate(start);
        }
        if !row.verdict.is_empty() && (metric.is_some() || row.values.is_empty()) {
            self.say(row, entry, metric);
        }
    }

    /// Notes that not all that a sender has sent can be used. The reason that is kept does not
    /// depend on the order in which they come.
    pub fn unusable(&mut self, sender: &str, why: &str) {
        let sender = shorten(&clean(sender), TEXT_MAX);
        let why = shorten(&clean(why), WORDS_MAX);
        if self.unusable.len() >= SENDERS_MAX && !self.unusable.contains_key(&sender) {
            return;
        }
        let kept = self.unusable.entry(sender).or_insert_with(|| why.clone());
        if why < *kept {
            *kept = why;
        }
    }

    fn say(&mut self, row: &Row<'_>, entry: u32, metric: Option<u32>) {
        if self.said.len() >= SAID_MAX {
            let words = format!("more than {SAID_MAX} verdicts of nodes: the rest is left out");
            return self.problems.add(Kind::TooMany, words);
        }
        let check = self.texts.number(&row.metric);
        let verdict = self.texts.number(&row.verdict);
        let words = self.texts.number(&shorten(&clean(&row.words), WORDS_MAX));
        let action = self.texts.number(&row.action);
        self.said.push(Said { entry, metric, check, verdict, words, action });
    }

    /// The entry of a row; none where its node has too many devices already.
    fn entry(&mut self, row: &Row<'_>) -> Option<u32> {
        let place = match (row.pci.is_empty(), row.slot.is_empty()) {
            (_, true) => row.pci.to_string(),
            (true, false) => format!("slot {}", row.slot),
            (false, false) => format!("{} slot {}", row.pci, row.slot),
        };
        let texts: [&str; COLUMNS] = [
            &row.mark,
            &row.session,
            &row.run,
            &row.time,
            &row.node,
            &row.machine,
            &row.device,
            &row.uuid,
            &row.serial,
            &place,
            &row.part,
            &row.vbios,
            &row.driver,
            &row.host_type,
            &row.fizeau,
            &row.sender,
        ];
        if let Some(last) = self.last {
            let entry = &self.entries[last as usize];
            let is_same = |(number, text): (&u32, &&str)| self.texts.text(*number) == *text;
            if entry.incomplete == row.incomplete && entry.columns.iter().zip(&texts).all(is_same) {
                return Some(last);
            }
        }
        if !self.has_room(&row.node, &row.device) {
            *self.overfull.entry(clean(&row.node)).or_default() += 1;
            return None;
        }
        let columns = texts.map(|text| self.texts.number(text));
        self.devices.entry(columns[column::NODE]).or_default().insert(columns[column::DEVICE]);
        let number = self.number_of(Entry { columns, incomplete: row.incomplete });
        self.last = Some(number);
        Some(number)
    }

    fn number_of(&mut self, entry: Entry) -> u32 {
        *self.entry_numbers.entry(entry).or_insert_with(|| {
            self.entries.push(entry);
            self.entries.len() as u32 - 1
        })
    }

    /// Whether a node may have one more device.
    fn has_room(&self, node: &str, device: &str) -> bool {
        let known = self.texts.known(node).and_then(|node| self.devices.get(&node));
        let Some(devices) = known.filter(|devices| devices.len() >= DEVICES_MAX) else {
            return true;
        };
        self.texts.known(device).is_some_and(|device| devices.contains(&device))
    }

    fn metric(&mut self, row: &Row<'_>) -> Option<u32> {
        let [name, point, suite, unit, code] =
            [&row.metric, &row.point, &row.suite, &row.unit, &row.code]
                .map(|text| self.texts.number(text));
        let effect = row.least_effect.unwrap_or_default().to_bits();
        self.metric_number(Metric { name, point, suite, unit, code, effect })
    }

    fn metric_number(&mut self, metric: Metric) -> Option<u32> {
        if let Some(number) = self.metric_numbers.get(&metric) {
            return Some(*number);
        }
        if self.metrics.len() >= METRICS_MAX {
            let words = format!("more than {METRICS_MAX} metrics: the rest is left out");
            self.problems.add(Kind::TooMany, words);
            return None;
        }
        let number = self.metrics.len() as u32;
        self.metrics.push(metric);
        self.metric_numbers.insert(metric, number);
        Some(number)
    }

    /// Takes all that another has gathered.
    pub fn merge(&mut self, mut other: Gathered) {
        self.untaken.merge(std::mem::take(&mut other.untaken));
        let is_new = self.is_empty() && self.problems.is_empty() && self.overfull.is_empty();
        if is_new && self.unusable.is_empty() {
            other.untaken = std::mem::take(&mut self.untaken);
            *self = other;
            return;
        }
        for (sender, why) in &other.unusable {
            self.unusable(sender, why);
        }
        self.last = None;
        let texts: Vec<u32> = other.texts.all.iter().map(|text| self.texts.number(text)).collect();
        let text = |number: u32| texts[number as usize];
        let mut entries = Vec::with_capacity(other.entries.len());
        for entry in &other.entries {
            let columns = entry.columns.map(text);
            let (node, device) = (columns[column::NODE], columns[column::DEVICE]);
            let devices = self.devices.entry(node).or_default();
            let is_room = devices.len() < DEVICES_MAX || devices.contains(&device);
            if is_room {
                devices.insert(device);
            }
            let entry = Entry { columns, ..*entry };
            entries.push(is_room.then(|| self.number_of(entry)));
        }
        let metric = |metric: &Metric| Metric {
            name: text(metric.name),
            point: text(metric.point),
            suite: text(metric.suite),
            unit: text(metric.unit),
            code: text(metric.code),
            ..*metric
        };
        let metrics: Vec<Option<u32>> =
            other.metrics.iter().map(|one| self.metric_number(metric(one))).collect();
        let shift = self.values.len() as u64;
        for row in &other.rows {
            let Some(entry) = entries[row.entry as usize] else {
                let node = clean(other.told(row.entry, column::NODE));
                *self.overfull.entry(node).or_default() += 1;
                continue;
            };
            let Some(metric) = metrics[row.metric as usize] else { continue };
            self.rows.push(Kept { entry, metric, start: row.start + shift, ..*row });
        }
        self.values.extend_from_slice(&other.values);
        for said in &other.said {
            let Some(entry) = entries[said.entry as usize] else { continue };
            let metric = said.metric.and_then(|metric| metrics[metric as usize]);
            let [check, verdict, words, action] =
                [said.check, said.verdict, said.words, said.action].map(text);
            self.said.push(Said { entry, metric, check, verdict, words, action });
        }
        for (node, count) in other.overfull {
            *self.overfull.entry(node).or_default() += count;
        }
        self.problems.merge(other.problems);
    }

    /// Ends the gathering: what can be said of nodes only now becomes a problem.
    pub fn end(&mut self) {
        for (node, rows) in std::mem::take(&mut self.overfull) {
            let words = format!(
                "{node} reports more than {DEVICES_MAX} devices, which no node has: the rest, {}, \
                 is left out",
                counted(rows as usize, "row")
            );
            self.unusable(&node, &format!("it reports more than {DEVICES_MAX} devices"));
            self.problems.add(Kind::TooMany, words);
        }
        self.refuse_shared();
    }

    /// Finds sessions of one bundle that speak of several nodes. Rows that have a sender were held
    /// to the node of their bundle when they were read; those without came into a store before
    /// that, and nobody knows which of the nodes was the bundle's own.
    fn refuse_shared(&mut self) {
        let is_old = |entry: &Entry| {
            let told = |at: usize| self.texts.text(entry.columns[at]);
            let is_of_bundle = entry.columns[column::RUN] == 0;
            is_of_bundle && !is_held(told(column::SENDER)) && told(column::MARK) != SIMULATED
        };
        let mut sessions: HashMap<u32, BTreeMap<u32, Vec<u32>>> = HashMap::new();
        for (at, entry) in self.entries.iter().enumerate().filter(|(_, entry)| is_old(entry)) {
            let of_session = sessions.entry(entry.columns[column::SESSION]).or_default();
            of_session.entry(entry.columns[column::NODE]).or_default().push(at as u32);
        }
        for nodes in sessions.into_values().filter(|nodes| nodes.len() > 1) {
            let mut names: Vec<String> =
                nodes.keys().map(|node| clean(self.texts.text(*node))).collect();
            names.sort();
            let more = names.len().saturating_sub(SHARED_NAMED);
            let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
            names.truncate(SHARED_NAMED);
            let words = format!(
                "rows of one session name several nodes ({}{rest}), and are refused: a bundle \
                 speaks for one node; collect the bundles again",
                names.join(", ")
            );
            self.problems.add(Kind::Refused, words);
            self.shared.extend(nodes.into_values().flatten());
        }
    }
}

/// Nodes of one session that a line names, at most.
const SHARED_NAMED: usize = 40;

/// Rates of anything that is measured, in its unit: from one in thirty years to more bytes or
/// operations a second than all machines have.
const RATES: std::ops::RangeInclusive<f64> = 1e-9..=1e24;

fn is_rate(value: f64) -> bool {
    RATES.contains(&value)
}

/// Why a row is none.
fn refusal(row: &Row<'_>) -> Option<String> {
    let told = [
        ("node", &row.node),
        ("device", &row.device),
        ("metric", &row.metric),
        ("session", &row.session),
    ];
    if let Some((name, _)) = told.iter().find(|(_, text)| text.trim().is_empty()) {
        return Some(format!("it has no {name}"));
    }
    let texts = [
        &row.mark,
        &row.session,
        &row.run,
        &row.node,
        &row.machine,
        &row.device,
        &row.uuid,
        &row.serial,
        &row.pci,
        &row.slot,
        &row.part,
        &row.vbios,
        &row.driver,
        &row.host_type,
        &row.fizeau,
        &row.sender,
        &row.key,
        &row.code,
        &row.metric,
        &row.point,
        &row.suite,
        &row.unit,
        &row.action,
        &row.verdict,
    ];
    if let Some(long) = texts.iter().find(|text| text.len() > TEXT_MAX) {
        let (length, start) = (long.len(), shorten(&clean(long), 20));
        return Some(format!("a text of {length} bytes, {start:?}: at most {TEXT_MAX} are read"));
    }
    if seconds(&row.time).is_none() {
        return Some(format!(
            "its time is {:?}, which is none in UTC, such as 2026-11-23T10:00:00Z",
            shorten(&clean(&row.time), 40)
        ));
    }
    let is_effect = |effect: f64| effect > 0.0 && effect <= EFFECT_MAX;
    if !row.values.is_empty() && !row.least_effect.is_some_and(is_effect) {
        return Some(format!("its least_effect is no share from 0 to {EFFECT_MAX}"));
    }
    let is_verdict = ["", "pass", "fail", "inconclusive"].contains(&row.verdict.as_ref());
    if !is_verdict {
        return Some("its verdict is none of pass, fail, inconclusive".into());
    }
    let is_of_node = row.device == NODE || row.metric != ACCEPTANCE;
    (!is_of_node).then(|| format!("{ACCEPTANCE} is about the node, and not a device"))
}
