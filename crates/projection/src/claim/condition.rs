//! The conditions of a claim beside what a record says of the machine.

use super::{Claim, PartNamed, Run};
use fizeau_domain::{
    outcome::{Code, Measurement},
    stats::quantile,
    text::counted,
    units::Megahertz,
};
use fizeau_record::{Environment, Record};

/// Clocks within this share of each other are the same.
const CLOCK_SAME: f64 = 0.02;

/// A power limit within this share below the stated one is that one: drivers round.
const POWER_SAME: f64 = 0.005;

/// Whether a condition was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Met {
    /// It was.
    Yes,
    /// Nothing here tells.
    Unknown,
    /// It was not.
    No,
}

impl Met {
    fn of(is_met: bool) -> Met {
        if is_met { Met::Yes } else { Met::No }
    }
}

impl std::fmt::Display for Met {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Met::Yes => "met",
            Met::Unknown => "unknown",
            Met::No => "NOT met",
        })
    }
}

/// One condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// What it is about: `part`, `clock`, `power limit`.
    pub name: &'static str,
    /// What the claim states.
    pub stated: String,
    /// What was here.
    pub here: String,
    /// Whether that is the same.
    pub met: Met,
}

/// What nothing tells.
const UNTOLD: &str = "not reported";

/// The conditions that a claim states, as one round kept them.
pub fn of_round(claim: &Claim, run: &Run, record: &Record, one: &Measurement) -> Vec<Condition> {
    let mut found = of_device(claim, run, record, one);
    found.extend(of_settings(run, record, one));
    found
}

/// Those about the device itself.
fn of_device(claim: &Claim, run: &Run, record: &Record, one: &Measurement) -> Vec<Condition> {
    let (conditions, device) = (&run.conditions, &record.header.device);
    let mut found = Vec::new();
    let mut add = |name, stated: String, here: String, met| {
        found.push(Condition { name, stated, here, met });
    };
    if let Some(part) = claim.on.as_ref().filter(|_| conditions.part == PartNamed::Named) {
        let here = record.header.part.clone();
        let met = here.as_ref().map_or(Met::Unknown, |here| Met::of(here == part));
        let name = format!("{} (no part of the catalogue for certain)", device.name);
        add("part", part.clone(), here.unwrap_or(name), met);
    }
    if let Some(vendor) = &conditions.vendor {
        let met = Met::of(vendor.eq_ignore_ascii_case(&device.vendor));
        add("vendor", vendor.clone(), device.vendor.clone(), met);
    }
    for feature in &conditions.features {
        let has = device.features.contains(feature);
        let here = if has { "has it" } else { "does not have it" };
        add("instruction set", feature.clone(), here.into(), Met::of(has));
    }
    let units = one.case.point.units().unwrap_or(device.units);
    if let Some(stated) = conditions.units {
        add("units", format!("{stated} at least"), units.to_string(), Met::of(units >= stated));
    }
    if let Some(stated) = conditions.sockets {
        let here = device.sockets;
        let met = if here == 0 { Met::Unknown } else { Met::of(here == stated) };
        add("sockets", stated.to_string(), here.to_string(), met);
    }
    if conditions.whole {
        let (here, met) = whole(record, units);
        add("all cores of its sockets", "yes".into(), here, met);
    }
    if let Some(stated) = conditions.memory_mts {
        let here = device.memory_mts;
        let met = here.map_or(Met::Unknown, |here| Met::of((here / stated - 1.0).abs() < 0.01));
        let here = here.map_or(UNTOLD.into(), |here| format!("{here} MT/s"));
        add("memory", format!("{stated} MT/s"), here, met);
    }
    found
}

/// Whether whole sockets worked: in a virtual machine nobody can tell what is left of them.
fn whole(record: &Record, units: u32) -> (String, Met) {
    let Environment { cpus, cpus_online, .. } = &record.header.environment;
    let online = cpus_online.unwrap_or(*cpus).max(*cpus);
    let cores = || counted(units as usize, "core");
    match &record.header.device.virtualised {
        Some(under) => (format!("{} of a virtual machine ({under})", cores()), Met::No),
        None if units < online => (format!("{units} of {online} cores"), Met::No),
        None => (cores(), Met::Yes),
    }
}

/// Those about how it is set up and what ran.
fn of_settings(run: &Run, record: &Record, one: &Measurement) -> Vec<Condition> {
    let conditions = &run.conditions;
    let settings = record.header.environment.settings.as_ref();
    let mut found = Vec::new();
    let mut add = |name, stated: String, here: Option<String>, met| {
        let here = here.unwrap_or_else(|| UNTOLD.into());
        found.push(Condition { name, stated, here, met });
    };
    if let Some(stated) = conditions.clock_mhz {
        let here = clock_of(one);
        let same = |here: Megahertz| (here.0 / stated - 1.0).abs() <= CLOCK_SAME;
        let met = here.map_or(Met::Unknown, |here| Met::of(same(here)));
        let here = here.map(|here| here.to_string());
        add("clock", Megahertz(stated).to_string(), here, met);
    }
    if let Some(stated) = conditions.power_limit_w {
        let here = settings.and_then(|settings| settings.power_limit);
        let enough = |watts: f64| watts >= stated * (1.0 - POWER_SAME);
        let met = here.map_or(Met::Unknown, |here| Met::of(enough(here.0)));
        let here = here.map(|here| here.to_string());
        add("power limit", format!("{stated} W at least"), here, met);
    }
    if let Some(stated) = conditions.ecc {
        let here = settings.and_then(|settings| settings.ecc);
        let met = here.map_or(Met::Unknown, |here| Met::of(here == stated));
        let word = |on: bool| if on { "on" } else { "off" }.to_owned();
        add("ECC", word(stated), here.map(word), met);
    }
    if let Some(stated) = conditions.cache {
        let stated = stated.into();
        let has = one.median_when(stated).is_some();
        let here = if has { stated } else { one.cache };
        add("caches", stated.to_string(), Some(here.to_string()), Met::of(has));
    }
    for (name, stated) in [("driver", &conditions.driver), ("library", &conditions.library)] {
        let Some(stated) = stated else { continue };
        let (here, met) = version(record, one, stated);
        add(name, stated.clone(), here, met);
    }
    found
}

/// The clock of the units while they worked: by sensors where they were read meanwhile, else as it
/// was observed around the samples.
pub fn clock_of(one: &Measurement) -> Option<Megahertz> {
    let timed = one.telemetry.as_ref().map(|seen| &seen.timed_clocks);
    let timed: Vec<f64> = timed.into_iter().flatten().map(|clock| clock.0).collect();
    let by_sensors = (!timed.is_empty()).then(|| Megahertz(quantile::median(&timed)));
    by_sensors.or(one.clock)
}

/// A version of the library or driver that `stated` names, as records name it.
fn version(record: &Record, one: &Measurement, stated: &str) -> (Option<String>, Met) {
    let of_case = one.code.iter().filter_map(|code| match code {
        Code::Library { name, version } => Some(format!("{name} {version}")),
        Code::Image { .. } => None,
    });
    let all: Vec<String> =
        of_case.chain(record.header.environment.libraries.iter().cloned()).collect();
    let name = stated.split_whitespace().next().unwrap_or_default();
    let of_name = all.iter().filter(|line| line.split_whitespace().next() == Some(name));
    let of_name: Vec<&String> = of_name.collect();
    match (of_name.iter().find(|line| line.starts_with(stated)), of_name.first()) {
        (Some(found), _) => (Some((*found).clone()), Met::Yes),
        (None, Some(other)) => (Some((*other).clone()), Met::No),
        (None, None) => (None, Met::Unknown),
    }
}

/// The conditions of all rounds, each as it was kept worst.
pub fn worst(rounds: impl IntoIterator<Item = Vec<Condition>>) -> Vec<Condition> {
    let mut worst: Vec<Condition> = Vec::new();
    for condition in rounds.into_iter().flatten() {
        let same =
            |one: &&mut Condition| one.name == condition.name && one.stated == condition.stated;
        match worst.iter_mut().find(same) {
            Some(known) if known.met < condition.met => *known = condition,
            Some(_) => {}
            None => worst.push(condition),
        }
    }
    worst
}
