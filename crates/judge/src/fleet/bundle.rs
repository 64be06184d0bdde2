//! Rows from what acceptances and runs left: a bundle becomes one session, with a row for each
//! metric of each device; records that are no part of a bundle are repeats of one session where
//! they are of the same device and day.

use super::row::{ACCEPTANCE, FORMAT, NODE, Row, STUB, date};
use crate::{
    accept::{
        learn,
        profile::{Aspect, Check, Profile},
        reading::{self, Reading, Selected},
    },
    evidence::account::Account,
};
use fizeau_domain::{
    outcome::{Code, Outcome},
    spec::Tier,
    stats::quantile::median,
    text::hex,
    text::{clean, shorten},
};
use fizeau_record::{Header, Record, identity::Identity};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap},
};

/// What of `verdict.json` is taken over. Files of other versions may have more.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct VerdictFile {
    /// The node's name, unless it was left out.
    pub node: Option<String>,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    /// The verdict on the node.
    pub verdict: String,
    /// Whether all that was planned was judged.
    pub complete: bool,
    /// Whether a stub driver stood in for any device.
    pub stub: bool,
    /// The strongest action that a failure asks for.
    pub action: Option<String>,
    /// Every check of every device.
    pub checks: Vec<CheckOfFile>,
}

/// A check of `verdict.json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CheckOfFile {
    /// The check's name.
    pub check: String,
    /// The device.
    pub device: String,
    /// What was measured.
    pub point: Option<String>,
    /// Pass, fail or inconclusive.
    pub verdict: String,
    /// Why.
    pub words: String,
    /// What to do.
    pub action: Option<String>,
}

/// What a bundle holds, as far as it could be read.
#[derive(Clone, Debug, Default)]
pub struct Bundle {
    /// The name of its directory, which stands for a node that was not named.
    pub name: String,
    /// Whether it was closed: it has its manifest.
    pub is_closed: bool,
    /// Who was judged.
    pub identity: Option<Identity>,
    /// What was done.
    pub account: Option<Account>,
    /// The texts of its profiles, by their files.
    pub profiles: BTreeMap<String, String>,
    /// The verdict.
    pub verdict: Option<VerdictFile>,
    /// The records of its repeats.
    pub records: Vec<Record>,
}

/// A profile, and which of its checks select which cases.
#[derive(Clone)]
struct Known {
    profile: Profile,
    selected: Selected,
}

/// Makes rows of bundles and records. Many bundles have the same profiles, which are read once.
#[derive(Clone)]
pub struct Reader {
    /// By text.
    known: HashMap<String, Known>,
    /// Those without a profile: of GPUs, and of hosts.
    derived: [Known; 2],
    /// The same for records of any suite.
    any: [Known; 2],
}

/// The rate of a repeat and what belongs to it.
struct Repeat {
    started: String,
    reading: Reading,
}

/// A metric of a device: number of the check, point, aspect.
type MetricKey = (usize, String, Aspect);

/// What the repeats of a metric left.
#[derive(Default)]
struct Repeats {
    measured: Vec<Repeat>,
    disturbed: u32,
}

impl Reader {
    /// Begins, with the profiles of GPUs and of hosts for which none is given.
    pub fn new(gpu: &Profile, host: &Profile) -> Reader {
        let both = |selected: fn() -> Selected| {
            [gpu, host].map(|one| Known { profile: one.clone(), selected: selected() })
        };
        let (derived, any) = (both(Selected::default), both(Selected::of_any_suite));
        Reader { known: HashMap::new(), derived, any }
    }

    /// The rows of a bundle.
    ///
    /// # Errors
    /// In words, where it says of no node when it was measured, or a profile is none.
    pub fn bundle(&mut self, bundle: &Bundle) -> Result<Vec<Row<'static>>, String> {
        let identity = Identity::default();
        let identity = bundle.identity.as_ref().unwrap_or(&identity);
        let verdict = bundle.verdict.clone().unwrap_or_default();
        let mut first: Vec<(&str, &str)> = { bundle.records.iter() }
            .map(|record| (record.header.started.as_str(), record.header.run.as_str()))
            .collect();
        first.sort_unstable();
        let first = first.first().copied();
        let started = bundle.account.as_ref().map(|account| account.started.clone());
        let time = started.filter(|time| date(time).is_some());
        let time = time.or_else(|| Some(verdict.started.clone()).filter(|t| date(t).is_some()));
        let time = time.or_else(|| first.map(|(started, _)| started.to_owned()));
        let time = time.ok_or("it has neither a verdict nor a record that says when it was")?;
        let told = { bundle.records.iter() }.find_map(|one| one.header.environment.host.clone());
        let node = verdict.node.clone().or_else(|| identity.host.clone()).or(told);
        let node = node.unwrap_or_else(|| bundle.name.clone());
        let session = match first {
            Some((_, run)) => run.to_owned(),
            None => format!("{node} {time}"),
        };
        let base = Row {
            format: FORMAT,
            session: session.into(),
            time: time.into(),
            incomplete: !bundle.is_closed || !verdict.complete,
            node: node.into(),
            machine: machine(identity).into(),
            ..Row::default()
        };
        let mut rows = Vec::new();
        for (device, records) in by_device(&bundle.records) {
            let header = &records[0].header;
            let known = self.profile_of(bundle, &device, header)?;
            let own = of_device(&base, &device, header, identity);
            rows.extend(known.rows(&own, &records));
        }
        let measured = rows.len();
        add_verdicts(&mut rows, measured, &base, &verdict, identity);
        // Of a node with a stub driver nothing else counts either.
        if verdict.stub || rows.iter().any(|row| row.mark == STUB) {
            rows.iter_mut().for_each(|row| row.mark = STUB.into());
        }
        Ok(rows)
    }

    /// The profile that a device of a bundle was judged by.
    fn profile_of(
        &mut self,
        bundle: &Bundle,
        device: &str,
        header: &Header,
    ) -> Result<&mut Known, String> {
        let groups = bundle.account.iter().flat_map(|account| &account.groups);
        let its =
            |devices: &[crate::accept::node::Device]| devices.iter().any(|d| d.name == device);
        let file = { groups }.find(|group| its(&group.devices)).map(|group| &group.profile);
        let Some(text) = file.and_then(|file| bundle.profiles.get(file)) else {
            // Of a bundle that was not closed it is not known by what it was judged.
            let derived = if file.is_some() { &mut self.derived } else { &mut self.any };
            return Ok(&mut derived[usize::from(header.device.backend == "host")]);
        };
        if !self.known.contains_key(text) {
            let profile = Profile::parse(text).map_err(|why| format!("its profile: {why}"))?;
            let known = Known { profile, selected: Selected::default() };
            self.known.insert(text.clone(), known);
        }
        self.known.get_mut(text).ok_or_else(|| "its profile is gone".to_owned())
    }

    /// The rows of a record that is no part of a bundle.
    pub fn record(&mut self, name: &str, record: &Record) -> Vec<Row<'static>> {
        let header = &record.header;
        let node = header.environment.host.clone().unwrap_or_else(|| name.to_owned());
        let day = date(&header.started).unwrap_or_default();
        let base = Row {
            format: FORMAT,
            session: format!("records of {day}").into(),
            run: header.run.clone().into(),
            time: header.started.clone().into(),
            incomplete: record.footer.as_ref().is_none_or(|footer| footer.interrupted),
            node: node.into(),
            ..Row::default()
        };
        let own = of_device(&base, &device_of(record), header, &Identity::default());
        let known = &mut self.any[usize::from(header.device.backend == "host")];
        known.rows(&own, &[record])
    }
}

/// Whether a record ends before it begins, in words: the node's clock was set back meanwhile.
pub fn set_back(record: &Record) -> Option<String> {
    let (started, ended) = (&record.header.started, &record.footer.as_ref()?.ended);
    (ended < started).then(|| words_of_set_back(started, ended))
}

/// The same of a bundle and of its records.
pub fn set_back_in(bundle: &Bundle) -> Option<String> {
    let of_account = bundle.account.as_ref().filter(|account| account.closed < account.started);
    let whole = of_account.map(|account| words_of_set_back(&account.started, &account.closed));
    whole.or_else(|| bundle.records.iter().find_map(set_back))
}

fn words_of_set_back(started: &str, ended: &str) -> String {
    format!(
        "its clock ran backwards, from {} to {}: it counts, and its order in time may be wrong",
        clean(started),
        clean(ended)
    )
}

/// What identifies a machine by number.
fn machine(identity: &Identity) -> String {
    let of = &identity.machine;
    let numbers = [&of.serial, &of.uuid, &of.board_serial, &of.chassis_serial];
    numbers.into_iter().flatten().next().cloned().unwrap_or_default()
}

/// The device of a record, as `fizeau devices` names it; all of them of collectives.
fn device_of(record: &Record) -> String {
    let device = &record.header.device;
    match (device.backend.as_str(), record.header.environment.ranks.is_empty()) {
        ("host", _) => "host".into(),
        (backend, false) => format!("{backend}:all"),
        (backend, true) => format!("{backend}:{}", device.ordinal),
    }
}

fn by_device(records: &[Record]) -> BTreeMap<String, Vec<&Record>> {
    let mut all: BTreeMap<String, Vec<&Record>> = BTreeMap::new();
    for record in records {
        all.entry(device_of(record)).or_default().push(record);
    }
    for own in all.values_mut() {
        own.sort_by(|a, b| a.header.started.cmp(&b.header.started));
    }
    all
}

/// Longest text of a column that is put together here.
const TEXT_MAX: usize = 200;

fn of_device(
    base: &Row<'static>,
    device: &str,
    header: &Header,
    identity: &Identity,
) -> Row<'static> {
    let Header { device: properties, environment, fizeau, build, part, .. } = header;
    let gpu = identity.gpus.iter().find(|gpu| gpu.device == device);
    let one = |of_gpu: Option<&String>, of_record: Option<&String>| -> Cow<'static, str> {
        of_gpu.or(of_record).cloned().unwrap_or_default().into()
    };
    let is_one = environment.ranks.is_empty();
    let board = environment.board.as_ref().filter(|_| is_one);
    let settings = environment.settings.as_ref();
    let machine = [&identity.machine.vendor, &identity.machine.product];
    let host = machine.into_iter().flatten().map(String::as_str).chain([environment.cpu.as_str()]);
    let host: Vec<&str> = host.filter(|words| !words.is_empty()).collect();
    let build = build.as_ref().map(|build| format!("{fizeau} ({build})"));
    let mut libraries = environment.libraries.clone();
    // What ranks exchange messages by is the last of them, and not opened but for collectives: it
    // is a part of the code.
    if !is_one {
        libraries.pop();
    }
    let mark = if properties.is_stub() { STUB } else { "" };
    Row {
        mark: mark.into(),
        device: device.to_owned().into(),
        uuid: one(gpu.and_then(|g| g.uuid.as_ref()), board.and_then(|b| b.uuid.as_ref())),
        serial: one(gpu.and_then(|gpu| gpu.serial.as_ref()), None),
        pci: one(gpu.and_then(|g| g.pci.as_ref()), board.and_then(|b| b.pci.as_ref())),
        slot: one(gpu.and_then(|gpu| gpu.slot.as_ref()), None),
        part: part.clone().unwrap_or_else(|| properties.name.clone()).into(),
        vbios: one(gpu.and_then(|g| g.vbios.as_ref()), settings.and_then(|s| s.vbios.as_ref())),
        driver: shorten(&libraries.join(", "), TEXT_MAX).into(),
        host_type: shorten(&host.join(", "), TEXT_MAX).into(),
        fizeau: build.unwrap_or_else(|| fizeau.clone()).into(),
        ..base.clone()
    }
}

impl Known {
    fn rows(&mut self, base: &Row<'static>, records: &[&Record]) -> Vec<Row<'static>> {
        let mut all: BTreeMap<MetricKey, Repeats> = BTreeMap::new();
        for record in records {
            for (metric, found) in reading::readings_of(record, &self.profile, &mut self.selected) {
                let Ok(reading) = found else { continue };
                let repeats = all.entry((metric.check, metric.point, metric.aspect)).or_default();
                if reading.disturbed.is_some() {
                    repeats.disturbed += 1;
                    continue;
                }
                let started = record.header.started.clone();
                repeats.measured.push(Repeat { started, reading });
            }
        }
        let codes = codes(records);
        let all = all.into_iter().filter(|(_, repeats)| !repeats.measured.is_empty());
        let row = |((check, point, aspect), mut repeats): (MetricKey, Repeats)| {
            repeats.measured.sort_by(|a, b| a.started.cmp(&b.started));
            let check = &self.profile.checks[check];
            let suite = match self.selected.is_of_any_suite() {
                true => &records[0].header.suite,
                false => self.profile.suite_of(check),
            };
            let suite = suite.to_owned().into();
            Row { suite, ..row(base, check, &point, aspect, &repeats, codes.get(&point)) }
        };
        all.map(row).collect()
    }
}

fn row(
    base: &Row<'static>,
    check: &Check,
    point: &str,
    aspect: Aspect,
    Repeats { measured, disturbed }: &Repeats,
    code: Option<&String>,
) -> Row<'static> {
    let (amount, unit) = reading::unit(check.resource, aspect, &measured[0].reading.work);
    let floor = check.floor.as_ref().filter(|_| aspect != Aspect::Clock);
    let floors = measured.iter().filter_map(|one| {
        let tier = Tier::from(floor?.tier);
        let light = one.reading.lights.iter().find(|(of, _)| *of == tier)?.1;
        Some(floor?.share * light * amount)
    });
    let floors: Vec<f64> = floors.filter(|floor| floor.is_finite() && *floor > 0.0).collect();
    let mut kernels: BTreeMap<&str, usize> = BTreeMap::new();
    for one in measured {
        *kernels.entry(&one.reading.kernel.0).or_default() += 1;
    }
    let kernel = kernels.into_iter().max_by_key(|(_, count)| *count).map(|(name, _)| name);
    let name = match aspect {
        Aspect::Clock => format!("{}: clock", check.name),
        Aspect::Rate | Aspect::AtClock => check.name.clone(),
    };
    Row {
        metric: name.into(),
        point: point.to_owned().into(),
        kernel: kernel.unwrap_or_default().to_owned().into(),
        code: code.cloned().unwrap_or_default().into(),
        unit: unit.into(),
        values: measured.iter().map(|one| one.reading.value * amount).collect(),
        disturbed: *disturbed,
        least_effect: Some(learn::effect(check.least_effect, aspect)),
        floor: (!floors.is_empty()).then(|| median(&floors)),
        ..base.clone()
    }
}

/// What code ran for each point, of all of its kernels: slower ones are left out after two repeats,
/// and the fastest is not the same one each time.
fn codes(records: &[&Record]) -> HashMap<String, String> {
    let mut all: HashMap<String, BTreeSet<String>> = HashMap::new();
    for one in records.iter().flat_map(|record| &record.outcomes).filter_map(Outcome::measured) {
        let codes = all.entry(one.case.point.to_string()).or_default();
        codes.extend(one.code.iter().map(|code| match code {
            Code::Image { sha256, .. } => sha256.clone(),
            Code::Library { name, version } => format!("{name} {version}"),
        }));
    }
    let known = all.into_iter().filter(|(_, codes)| !codes.is_empty());
    let hash = |codes: BTreeSet<String>| {
        let text = codes.into_iter().collect::<Vec<_>>().join("\n");
        hex(&Sha256::digest(text)[..8])
    };
    known.map(|(point, codes)| (point, hash(codes))).collect()
}

/// Adds what the acceptance itself said: to the rows of what it measured where it failed, and as
/// rows of their own what has no values.
fn add_verdicts(
    rows: &mut Vec<Row<'static>>,
    measured: usize,
    base: &Row<'static>,
    verdict: &VerdictFile,
    identity: &Identity,
) {
    for one in verdict.checks.iter().filter(|one| one.verdict != "pass") {
        let its = |row: &&mut Row<'static>| row.device == one.device && row.metric == one.check;
        let (action, words) = (one.action.clone().unwrap_or_default(), one.words.clone());
        let point = one.point.as_deref();
        let of_values = rows[..measured]
            .iter_mut()
            .find(|row| its(row) && point.is_none_or(|point| row.point == point));
        if let Some(row) = of_values {
            // What a node alone could not decide, a fleet may.
            if one.verdict == "fail" {
                row.verdict = "fail".into();
                (row.words, row.action) = (words.into(), action.into());
            }
            continue;
        }
        let gpu = identity.gpus.iter().find(|gpu| gpu.device == one.device);
        let of_gpu = |told: Option<&String>| -> Cow<'static, str> {
            told.cloned().unwrap_or_default().into()
        };
        // The identity of a device is that of its rows with values, where it has any.
        let alike = rows[..measured].iter().find(|row| row.device == one.device);
        let own = alike.map(Row::identity);
        let own = own.unwrap_or_else(|| Row {
            device: one.device.clone().into(),
            uuid: of_gpu(gpu.and_then(|gpu| gpu.uuid.as_ref())),
            serial: of_gpu(gpu.and_then(|gpu| gpu.serial.as_ref())),
            pci: of_gpu(gpu.and_then(|gpu| gpu.pci.as_ref())),
            slot: of_gpu(gpu.and_then(|gpu| gpu.slot.as_ref())),
            vbios: of_gpu(gpu.and_then(|gpu| gpu.vbios.as_ref())),
            ..base.clone()
        });
        rows.push(Row {
            metric: one.check.clone().into(),
            point: one.point.clone().unwrap_or_default().into(),
            verdict: one.verdict.clone().into(),
            words: words.into(),
            action: action.into(),
            ..own
        });
    }
    if !verdict.verdict.is_empty() {
        rows.push(Row {
            device: NODE.into(),
            metric: ACCEPTANCE.into(),
            verdict: verdict.verdict.clone().into(),
            action: verdict.action.clone().unwrap_or_default().into(),
            ..base.clone()
        });
    }
}
