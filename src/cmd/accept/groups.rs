//! Which devices are judged by which profile, and what that would take.

use super::{AcceptArgs, child};
use crate::{
    accept::{
        Level, Resource,
        cause::Facts,
        learn::{self, Run},
        node::Device,
        profile::Profile,
    },
    cmd::{self, Global, Usage},
    data::Catalogue,
    device::BACKENDS,
    node_state::NodeState,
    spec::Properties,
};
use std::{collections::BTreeSet, process::ExitCode};

/// Devices of one kind that are judged by one profile, together.
pub struct Group {
    /// The profile.
    pub profile: Profile,
    /// Its devices.
    pub devices: Vec<Properties>,
}

impl Group {
    /// Names of its devices.
    pub fn names(&self) -> Vec<String> {
        self.devices.iter().map(name_of).collect()
    }

    /// The devices with what their state says.
    pub fn told(&self, state: &NodeState) -> Vec<Device> {
        let device = |properties: &Properties| {
            let name = name_of(properties);
            let gpu = state.gpus.iter().find(|gpu| gpu.name == name);
            let facts = Facts {
                held_by: Vec::new(),
                peer_links: self.profile.expected.peer_links,
                lanes: gpu.and_then(|gpu| gpu.lanes),
            };
            Device { kind: properties.name.clone(), is_stub: properties.is_stub(), name, facts }
        };
        self.devices.iter().map(device).collect()
    }
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
            return Err(Usage(format!("--device {wanted}: there are {known}")).into());
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
        given.push(cmd::profile::read(catalogue, name)?);
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
            None => cmd::profile::derived(catalogue, device)?,
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
        let runs = cmd::profile::runs(&args.baseline)?;
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
        learnt.warnings.iter().for_each(|words| cmd::say(words));
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
) -> anyhow::Result<ExitCode> {
    let mut lines = vec!["passive checks: no load, a few seconds".to_owned()];
    for group in groups.iter().filter(|_| level > Level::Passive) {
        let kind = format!("{:?}", group.profile.kind).to_lowercase();
        lines.push(format!("\nprofile {} ({kind}), repeated 5 to 15 times:", group.profile.name));
        for check in group.profile.checks.iter().filter(|check| check.level <= level) {
            let floor = match &check.floor {
                Some(floor) => format!(
                    "floor {:.0} % of the speed of light ({}), {}",
                    floor.share * 100.0,
                    crate::spec::Tier::from(floor.tier),
                    format!("{:?}", floor.quality).to_lowercase()
                ),
                None => "no floor".into(),
            };
            let effect = check.least_effect * 100.0;
            lines.push(match check.resource {
                Resource::Results => format!("  {}: the same bits each time", check.name),
                _ => format!("  {}: least effect {effect:.1} %, {floor}", check.name),
            });
        }
        for device in group.names() {
            let listed = child::list(&device, &group.profile, args, global)?;
            let stub = if listed.is_stub { " (stub)" } else { "" };
            lines.push(format!("  on {device}, each time:{stub}"));
            lines.extend(listed.text.lines().map(|line| format!("    {line}{stub}")));
        }
    }
    let budget = args.budget.0;
    lines.push(format!("\nends after {budget} at the latest, and the round in flight"));
    cmd::print(&lines.join("\n"))
}
