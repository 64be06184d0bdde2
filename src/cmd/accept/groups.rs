//! Which devices are judged by which profile, and what that would take.

use super::{
    AcceptArgs,
    child::{self, Listed, Target},
};
use crate::{
    cmd::{
        exit::{Interrupted, Usage},
        global::Global,
        output, profiles,
    },
    data::Catalogue,
};
use fizeau_device::BACKENDS;
use fizeau_domain::{near, node_state::NodeState, spec::Properties, text::counted, units::Bytes};
use fizeau_judge::accept::{
    Level, Resource,
    cause::Facts,
    learn::{self, Run},
    node::Device,
    passive,
    profile::{Check, Profile, Stage, Way},
};
use std::{collections::BTreeSet, process::ExitCode, sync::atomic::AtomicBool};

/// Devices of one kind that are judged by one profile, together.
pub struct Group {
    /// The profile.
    pub profile: Profile,
    /// Its devices.
    pub devices: Vec<Properties>,
}

impl Group {
    /// How many ranks its collectives have: all GPUs of the backend, where there are several and
    /// the level has a check of them; else 0.
    fn ranks(&self, level: Level) -> usize {
        let stages = self.profile.stages(level);
        let has_any = stages.iter().any(|stage| stage.way == Way::AsRanks);
        // A node whose GPUs are all gone has a group without any.
        let Some(backend) = self.devices.first().map(|first| &first.backend) else { return 0 };
        let family = BACKENDS.iter().find(|one| one.name() == backend);
        // Ranks take the backend's first devices.
        let all = family.and_then(|one| one.devices().ok()).map_or(0, |all| all.len());
        let is_whole = backend != "host" && all == self.devices.len() && all > 1;
        if has_any && is_whole { all } else { 0 }
    }

    /// What is measured, in the order of [`told`](Self::told): each device, and all as ranks.
    pub fn targets(&self, level: Level) -> Vec<Target> {
        let one = |properties: &Properties| Target { device: name_of(properties), ranks: 0 };
        let mut all: Vec<Target> = self.devices.iter().map(one).collect();
        let ranks = self.ranks(level);
        if ranks > 0 {
            all.push(Target { device: self.devices[0].backend.clone(), ranks });
        }
        all
    }

    /// The devices with what their state says, and all together where they are measured as ranks.
    pub fn told(&self, state: &NodeState, level: Level) -> Vec<Device> {
        let device = |properties: &Properties| {
            let name = name_of(properties);
            let gpu = state.gpus.iter().find(|gpu| gpu.name == name);
            let facts = Facts {
                held_by: Vec::new(),
                peer_links: self.profile.expected.peer_links,
                lanes: gpu.and_then(|gpu| gpu.lanes),
                processes: gpu.and_then(|gpu| gpu.processes),
                modes: gpu.map(|gpu| gpu.modes.clone()).unwrap_or_default(),
                is_busy_host: properties.backend == "host" && passive::is_busy(&state.host),
                ..Facts::default()
            };
            let (kind, is_stub) = (properties.name.clone(), properties.is_stub());
            Device { kind, is_stub, name, ranks: 0, facts }
        };
        let mut all: Vec<Device> = self.devices.iter().map(device).collect();
        let ranks = self.ranks(level);
        if ranks > 0 {
            let first = &self.devices[0];
            let facts = Facts { peer_links: self.profile.expected.peer_links, ..Facts::default() };
            let (kind, is_stub) = (first.name.clone(), first.is_stub());
            let name = format!("{}:all", first.backend);
            all.push(Device { kind, is_stub, name, ranks, facts });
        }
        all
    }
}

/// The devices of a node in words: equal GPUs counted together, each kind with the version of its
/// driver; the host with its cores and memory.
pub fn machine(groups: &[Group], state: &NodeState) -> Vec<String> {
    let mut kinds: Vec<(String, usize)> = Vec::new();
    for one in groups.iter().flat_map(|group| &group.devices) {
        let name = name_of(one);
        let words = match one.backend.as_str() {
            "host" => {
                let under = one.virtualised.as_ref().map(|under| format!(", under {under}"));
                let cores = counted(one.units as usize, "core");
                let under = under.unwrap_or_default();
                format!("{}: {cores}, {} of memory{under}", one.name, one.memory)
            }
            _ => {
                let gpu = state.gpus.iter().find(|gpu| gpu.name == name);
                let driver = gpu.and_then(|gpu| gpu.driver.as_deref()).unwrap_or("unknown");
                format!("{} with {} of memory, driver {driver}", one.name, one.memory)
            }
        };
        match kinds.iter_mut().find(|(kind, _)| *kind == words) {
            Some((_, count)) => *count += 1,
            None => kinds.push((words, 1)),
        }
    }
    let kind = |(words, count): (String, usize)| match count {
        1 => words,
        count => format!("{count} x {words}"),
    };
    kinds.into_iter().map(kind).collect()
}

/// A device's name, as `fizeau devices` prints it.
pub fn name_of(properties: &Properties) -> String {
    match properties.backend.as_str() {
        "host" => "host".into(),
        backend => format!("{backend}:{}", properties.ordinal),
    }
}

/// The devices to measure: the host last, since GPUs are of more interest where the budget is
/// short.
///
/// # Errors
/// Where a device that was asked for is not there.
pub fn devices(args: &AcceptArgs) -> anyhow::Result<Vec<Properties>> {
    let mut all = Vec::new();
    for backend in BACKENDS.iter().rev() {
        // A driver that does not work is a failed check; one that is not there is none.
        all.extend(backend.devices().unwrap_or_default());
    }
    if args.device.is_empty() {
        return Ok(all);
    }
    for wanted in &args.device {
        if !all.iter().any(|one| &name_of(one) == wanted) {
            let known = all.iter().map(name_of).collect::<Vec<_>>().join(", ");
            let family = wanted.split(':').next().unwrap_or_default();
            let backend = BACKENDS.iter().find(|one| one.name() == family);
            let hides = |by| format!("; {by} says which of the machine's GPUs are shown");
            let hidden = backend.and_then(|one| one.hiding()).map(hides).unwrap_or_default();
            let names: Vec<String> = all.iter().map(name_of).collect();
            let near = near::hint(wanted, names.iter().map(String::as_str));
            let words = format!("--device {wanted:?}: no device here is called that{near}");
            return Err(Usage(format!("{words}; there are: {known}{hidden}")).into());
        }
    }
    all.retain(|one| args.device.contains(&name_of(one)));
    Ok(all)
}

/// Each device with the first profile that is for it.
///
/// # Errors
/// Where a profile cannot be read or is for none of the devices, or nothing can be learnt from the
/// baseline.
pub fn of(
    args: &AcceptArgs,
    catalogue: &Catalogue,
    devices: &[Properties],
) -> anyhow::Result<Vec<Group>> {
    let mut given = Vec::new();
    for name in &args.profile {
        given.push(profiles::read(catalogue, name)?);
    }
    let mut groups: Vec<Group> = Vec::new();
    let mut used = BTreeSet::new();
    for device in devices {
        let part = catalogue.part_of(device).map(|part| part.id.clone());
        let is_for = |profile: &Profile| {
            let is_kind = profile.host == (device.backend == "host");
            // What a learnt profile was learnt on is looked at with the first record.
            let is_part = profile.part.as_ref().is_none_or(|wanted| part.as_ref() == Some(wanted));
            is_kind && is_part
        };
        let profile = match given.iter().find(|profile| is_for(profile)) {
            Some(profile) => profile.clone(),
            None => profiles::derived(catalogue, device)?,
        };
        used.insert(profile.name.clone());
        match groups.iter_mut().find(|group| group.profile.name == profile.name) {
            Some(group) => group.devices.push(device.clone()),
            None => groups.push(Group { profile, devices: vec![device.clone()] }),
        }
    }
    for unused in given.iter().filter(|profile| !used.contains(&profile.name)) {
        // A profile says what the node should have: GPUs that are all gone are a verdict, and GPUs
        // of another part a wrong command line.
        let has_gpu = devices.iter().any(|one| one.backend != "host");
        if !unused.host && !has_gpu && args.device.is_empty() {
            let mut profile = unused.clone();
            profile.expected.gpus.get_or_insert(1);
            groups.push(Group { profile, devices: Vec::new() });
            continue;
        }
        let names = devices.iter().map(|one| format!("{} ({})", name_of(one), one.name));
        let names = names.collect::<Vec<_>>().join(", ");
        let kind = if unused.host { "hosts" } else { "GPUs" };
        let of = unused.part.as_ref().map_or(kind.into(), |part| format!("{kind} of part {part}"));
        let words =
            format!("profile {} is for {of}, and no device here is one: {names}", unused.name);
        return Err(Usage(words).into());
    }
    if !args.baseline.is_empty() {
        let runs = profiles::runs(&args.baseline)?;
        for group in &mut groups {
            group.learn(&runs, args.across)?;
        }
    }
    Ok(groups)
}

impl Group {
    /// Takes references from those of some runs that are of its own kind of device.
    fn learn(&mut self, runs: &[Run], across: bool) -> anyhow::Result<()> {
        let backend = &self.devices[0].backend;
        let own = runs.iter().filter(|run| {
            run.records.first().is_some_and(|record| &record.header.device.backend == backend)
        });
        let own: Vec<Run> = own.cloned().collect();
        if own.is_empty() {
            return Ok(());
        }
        let learnt = learn::learn("baseline", &own, &self.profile, across)?;
        learnt.warnings.iter().for_each(|words| output::say(words));
        self.profile = learnt.profile;
        Ok(())
    }
}

/// Prints what would be done.
///
/// # Errors
/// Where a device cannot be opened to plan.
pub fn print_plan(
    args: &AcceptArgs,
    groups: &[Group],
    level: Level,
    global: &Global,
    interrupted: &AtomicBool,
) -> anyhow::Result<ExitCode> {
    let mut lines = vec!["passive checks: no load, a few seconds".to_owned()];
    for group in groups.iter().filter(|_| level > Level::Passive) {
        let kind = format!("{:?}", group.profile.kind).to_lowercase();
        lines.push(format!("\nprofile {} ({kind}), repeated 5 to 15 times:", group.profile.name));
        let checks = group.profile.checks.iter().filter(|check| check.level <= level);
        lines.extend(checks.map(told_of));
        let is_stub = group.devices.first().is_some_and(Properties::is_stub);
        let stub = if is_stub { " (stub)" } else { "" };
        for target in group.targets(level) {
            for stage in group.profile.stages(level) {
                if (stage.way == Way::AsRanks) != (target.ranks > 0) {
                    continue;
                }
                let profile = &group.profile;
                let listed = child::list(&target, profile, &stage, &args.root, global, interrupted);
                let listed = match listed {
                    Ok(listed) if listed.ids.is_empty() => continue,
                    Ok(listed) => listed,
                    Err(error) if error.is::<Interrupted>() => return Err(error),
                    Err(error) => {
                        lines.push(format!("  {error:#}"));
                        continue;
                    }
                };
                lines.push(planned(&target, &stage, &listed, stub));
                lines.extend(listed.ids.iter().map(|id| format!("    {id}{stub}")));
            }
        }
    }
    if level >= Level::Full {
        let between = "\nbetween nodes: rounds of localise, where a launcher has started 3 ranks";
        lines.push(between.into());
        lines.push("\nnetwork: ib_write_bw on each port that is up, where it is installed".into());
    }
    let budget = args.ends_after();
    lines.push(format!("\nends after {budget} at the latest, and the round in flight"));
    output::print(&lines.join("\n"))
}

/// A check, and what it is checked against.
fn told_of(check: &Check) -> String {
    if check.resource == Resource::Results {
        return format!("  {}: the same bits each time", check.name);
    }
    let floor = match &check.floor {
        Some(floor) => format!(
            "floor {:.0} % of the speed of light ({}), {}",
            floor.share * 100.0,
            fizeau_domain::spec::Tier::from(floor.tier),
            format!("{:?}", floor.quality).to_lowercase()
        ),
        None => "no floor".into(),
    };
    format!("  {}: least effect {:.1} %, {floor}", check.name, check.least_effect * 100.0)
}

/// What one process would measure, in words.
fn planned(target: &Target, stage: &Stage, listed: &Listed, stub: &str) -> String {
    let how = match stage.way {
        Way::AtOnce => "at once with its like",
        Way::InTurn => "one after another",
        Way::AsRanks => "all as ranks",
    };
    let (cases, seconds) = (counted(listed.ids.len(), "case"), listed.seconds);
    let memory = Bytes(listed.memory);
    format!(
        "  on {}, suite {}, {how}: {cases}, about {seconds:.1} s each time, at most \
         {memory} at once{stub}",
        target.device, stage.suite
    )
}
