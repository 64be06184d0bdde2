//! Passive checks of the scale-up domain: NVLink's switches and the services that manage them, each
//! GPU's registration with them, and the hives that xGMI makes.
//!
//! What a node has to have follows from what it shows: a fabric manager belongs where NVSwitches
//! are, and nowhere else (GH200 alone, PCI Express boards, MIG slices, virtual machines whose
//! switches another one manages). Where a part is sold both ways, the profile says which.

use super::{Action, Judged, NvlinkDomain, cause::Cause, profile::Expected};
use fizeau_domain::{
    node_state::{Domain, Fabric, FabricFault, FabricHealth, FabricState, Gpu, NodeState, mode},
    verdict::Verdict,
};
use std::collections::{BTreeMap, BTreeSet};

/// What the rows of the node itself are called.
const NODE: &str = "node";

/// The check of each GPU's registration.
const DOMAIN: &str = "NVLink domain";

/// Parts of a rack's domain, by their numbers on the PCI bus: GB200 and GB300 (data/parts). GB200
/// NVL4 boards, which have no switch, may have the same.
const OF_RACKS: [&str; 2] = ["10de:2941", "10de:31c2"];

/// What is wrong with a service that does not run.
const NOT_RUNNING: &str = "does not run";

/// All of them.
pub fn judge(state: &NodeState, expected: &Expected) -> Vec<Judged> {
    let stub = state.gpus.iter().any(|gpu| gpu.stub);
    let mut all: Vec<Judged> = Vec::new();
    for gpu in &state.gpus {
        let its = [registration(gpu, state, expected), link_errors(gpu), modes(gpu)];
        all.extend(its.into_iter().flatten().map(|one| Judged { stub: gpu.stub, ..one }));
    }
    let of_node = [
        agreement(state),
        fabric_manager(state),
        subnet_manager(&state.domain),
        imex(state),
        mps(&state.domain),
        hives(state, expected),
    ];
    all.extend(of_node.into_iter().flatten().map(|one| Judged { stub, ..one }));
    all
}

fn pass(check: &str, device: &str, words: impl Into<String>) -> Judged {
    Judged::of_state(check, device, Verdict::Pass, words.into())
}

fn fail(check: &str, device: &str, words: impl Into<String>) -> Judged {
    Judged::of_state(check, device, Verdict::Fail, words.into()).because(Cause::ScaleUp)
}

fn unclear(check: &str, device: &str, words: impl Into<String>) -> Judged {
    Judged { verdict: Verdict::Inconclusive, ..fail(check, device, words) }
}

/// Whether a GPU is a slice, or is divided into slices: those have no links.
fn is_divided(gpu: &Gpu) -> bool {
    gpu.partition.as_ref().is_some_and(|partition| partition.starts_with("MIG"))
}

fn is_completed(gpu: &Gpu) -> bool {
    let state = gpu.fabric.as_ref().map(|fabric| fabric.state);
    !is_divided(gpu) && state == Some(FabricState::Completed)
}

/// Whether a GPU belongs to a rack's domain, as the profile says or its part does.
fn is_of_rack(gpu: &Gpu, expected: &Expected) -> bool {
    let by_part = || gpu.pci_id.as_ref().is_some_and(|id| OF_RACKS.contains(&id.as_str()));
    expected.nvlink_domain.map_or_else(by_part, |domain| domain == NvlinkDomain::Rack)
}

/// A GPU's registration with its domain.
fn registration(gpu: &Gpu, state: &NodeState, expected: &Expected) -> Option<Judged> {
    let fabric = gpu.fabric.as_ref()?;
    if is_divided(gpu) || expected.nvlink_domain == Some(NvlinkDomain::None) {
        return None;
    }
    let others = state.gpus.iter().filter(|one| one.name != gpu.name);
    let others_have_one = { others }.any(is_completed);
    let is_wanted = expected.nvlink_domain.is_some() || others_have_one;
    let name = &gpu.name;
    let not_whole = "it reaches no other GPU by NVLink until it has registered";
    Some(match fabric.state {
        FabricState::NotSupported if is_wanted => {
            let words = format!("the driver shows no domain for it: {not_whole}");
            Judged { action: Some(Action::Restart), ..fail(DOMAIN, name, words) }
        }
        FabricState::NotSupported if is_of_rack(gpu, expected) => {
            let words = "the driver shows no domain for it, which is right for a board of four \
                         without a switch (NVL4) and wrong in a rack (NVL72): the profile says \
                         which, by nvlink_domain";
            unclear(DOMAIN, name, words)
        }
        FabricState::NotSupported => pass(DOMAIN, name, "none: there is no NVSwitch"),
        FabricState::NotStarted | FabricState::InProgress => {
            let words = match fabric.state {
                FabricState::NotStarted => "registration has not started",
                _ => "registration is in progress",
            };
            let is_due = is_wanted || state.domain.has_switch() || is_of_rack(gpu, expected);
            match is_due || state.gpus.len() > 1 {
                true => {
                    let words = format!(
                        "{words}: {not_whole}; see what the fabric manager says \
                         (/var/log/fabricmanager.log, on the switch trays of a rack)"
                    );
                    Judged { action: Some(Action::Restart), ..fail(DOMAIN, name, words) }
                }
                // A GPU alone may have nobody who would register it.
                false => unclear(DOMAIN, name, format!("{words}, and no NVSwitch is to be seen")),
            }
        }
        FabricState::Completed => registered(gpu, fabric, expected),
    })
}

/// The return codes of NVML that a registration ends with, in its own words.
fn status_words(status: u32) -> String {
    let words = match status {
        3 => "not supported",
        4 => "no permission",
        10 => "timed out",
        16 => "reset required",
        23 => "insufficient resources",
        27 => "not ready",
        999 => "unknown error",
        _ => return format!("NVML error {status}"),
    };
    format!("{words} (NVML error {status})")
}

/// A registration that has ended.
fn registered(gpu: &Gpu, fabric: &Fabric, expected: &Expected) -> Judged {
    let name = &gpu.name;
    if fabric.status != 0 {
        let words = format!("registration ended with: {}", status_words(fabric.status));
        return fail(DOMAIN, name, words);
    }
    if !fabric.faults.is_empty() || fabric.health == Some(FabricHealth::Unhealthy) {
        let words: Vec<String> = fabric.faults.iter().map(|fault| fault.words()).collect();
        let words = if words.is_empty() { "unhealthy".into() } else { words.join(", ") };
        let action = fabric.faults.iter().map(|fault| action(*fault)).max();
        let action = action.unwrap_or(Action::ContactSupport);
        return Judged { action: Some(action), ..fail(DOMAIN, name, words) };
    }
    if fabric.health == Some(FabricHealth::LimitedCapacity) {
        return unclear(DOMAIN, name, "limited capacity: it works with fewer links than it has");
    }
    match (&fabric.cluster, fabric.clique) {
        (None, clique) if is_of_rack(gpu, expected) => {
            fail(DOMAIN, name, format!("it is in no cluster (clique {clique}, no cluster UUID)"))
        }
        (Some(cluster), 0) => {
            fail(DOMAIN, name, format!("it is in no clique of cluster {cluster} (clique 0)"))
        }
        (Some(cluster), clique) => {
            pass(DOMAIN, name, format!("clique {clique} of cluster {cluster}"))
        }
        (None, _) => pass(DOMAIN, name, "the node's own"),
    }
}

/// What to do about a fault of the health mask: routes and accesses come back with a reset, links
/// and configuration are for who set the rack up.
fn action(fault: FabricFault) -> Action {
    match fault {
        FabricFault::RouteRecovery => Action::RestartApp,
        FabricFault::RouteUnhealthy | FabricFault::AccessTimeout => Action::ResetGpu,
        FabricFault::BandwidthDegraded | FabricFault::IncorrectConfiguration(_) => {
            Action::ContactSupport
        }
    }
}

/// Whether all GPUs of the node are in one clique of one cluster.
fn agreement(state: &NodeState) -> Option<Judged> {
    let of = |gpu: &Gpu| {
        let fabric = gpu.fabric.as_ref().filter(|fabric| fabric.status == 0)?;
        let cluster = fabric.cluster.as_deref().unwrap_or("no cluster");
        Some(format!("clique {} of {cluster}", fabric.clique))
    };
    let mut cliques: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for gpu in state.gpus.iter().filter(|gpu| is_completed(gpu)) {
        cliques.entry(of(gpu)?).or_default().push(&gpu.name);
    }
    let check = "same NVLink domain";
    match cliques.len() {
        0 => None,
        1 => Some(pass(check, NODE, "all GPUs that have one are in the same")),
        _ => {
            let one =
                |(clique, gpus): (&String, &Vec<&str>)| format!("{}: {clique}", gpus.join(", "));
            let words = cliques.iter().map(one).collect::<Vec<_>>().join("; ");
            Some(fail(check, NODE, format!("GPUs of this node are in several: {words}")))
        }
    }
}

fn fabric_manager(state: &NodeState) -> Option<Judged> {
    let (check, domain) = ("fabric manager", &state.domain);
    if !domain.has_switch() {
        return None;
    }
    if domain.fabric_manager {
        return Some(pass(check, NODE, "runs"));
    }
    if !domain.sees_processes {
        // What it has done is to be seen all the same.
        let is_done = state.gpus.iter().any(is_completed);
        let words = "its process is not to be seen from this container, and GPUs have registered";
        return is_done.then(|| pass(check, NODE, words));
    }
    let words = format!(
        "{NOT_RUNNING}, and the node has NVSwitches: start nvidia-fabricmanager, of the driver's \
         own version (systemctl start nvidia-fabricmanager)"
    );
    Some(fail(check, NODE, words))
}

/// NVLSM manages switches that are no devices of the PCI bus.
fn subnet_manager(domain: &Domain) -> Option<Judged> {
    let check = "NVLink subnet manager";
    if domain.switch_ports == 0 || !domain.sees_processes {
        return None;
    }
    Some(match domain.subnet_manager {
        true => pass(check, NODE, "runs"),
        false => {
            let words = format!(
                "nvlsm {NOT_RUNNING}, and this node's switches need it: install nvlsm, and start \
                 nvidia-fabricmanager, which starts it"
            );
            fail(check, NODE, words)
        }
    })
}

/// IMEX is for jobs across nodes of a rack's domain: nothing else asks for it.
fn imex(state: &NodeState) -> Option<Judged> {
    let domain = &state.domain;
    let has_cluster =
        |gpu: &Gpu| gpu.fabric.as_ref().is_some_and(|fabric| fabric.cluster.is_some());
    if !state.gpus.iter().any(has_cluster) {
        return None;
    }
    let check = "IMEX";
    let spans = domain.job_nodes.is_some_and(|nodes| nodes > 1);
    Some(match (domain.imex, domain.sees_processes, spans) {
        (true, ..) => pass(check, NODE, "runs"),
        (false, true, true) => {
            let words = format!(
                "nvidia-imex {NOT_RUNNING}, and this job has several nodes: start nvidia-imex on \
                 all of them (systemctl start nvidia-imex)"
            );
            fail(check, NODE, words)
        }
        (false, true, false) => pass(check, NODE, "not running, and nobody asks for it"),
        (false, false, _) => return None,
    })
}

fn mps(domain: &Domain) -> Option<Judged> {
    let words = "a control daemon of MPS runs: processes share GPUs, and each may be given a part";
    domain.mps.then(|| pass("MPS", NODE, words))
}

/// Modes that make a GPU slower by design, which a reader of its rates has to know.
fn modes(gpu: &Gpu) -> Option<Judged> {
    let words = |one: &String| match one.as_str() {
        mode::CONFIDENTIAL => format!("{one} is on: copies to and from the host are encrypted"),
        mode::VGPU => format!("{one}: a share of a GPU, whose link and clock others use too"),
        other => other.to_owned(),
    };
    let all: Vec<String> = gpu.modes.iter().map(words).collect();
    (!all.is_empty()).then(|| pass("modes", &gpu.name, all.join("; ")))
}

fn link_errors(gpu: &Gpu) -> Option<Judged> {
    let count = gpu.link_errors?;
    let words = format!("{count} errors of its links not corrected since the driver was loaded");
    Some(match count {
        0 => pass("xGMI errors", &gpu.name, words),
        _ => Judged::of_state("xGMI errors", &gpu.name, Verdict::Fail, words)
            .because(Cause::PeerLink),
    })
}

/// The hives of AMD's GPUs. Bridges make several of equal size on some nodes (MI210); on others all
/// GPUs are one. A GPU alone in its hive while others have company has lost its links.
fn hives(state: &NodeState, expected: &Expected) -> Option<Judged> {
    let check = "xGMI hive";
    let is_amd = |gpu: &&Gpu| gpu.pci_id.as_ref().is_some_and(|id| id.starts_with("1002:"));
    let gpus: Vec<&Gpu> = state.gpus.iter().filter(is_amd).collect();
    let mut hives: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut outside = Vec::new();
    for gpu in &gpus {
        match gpu.hive.as_deref().filter(|hive| *hive != "0") {
            Some(hive) => hives.entry(hive).or_default().push(&gpu.name),
            None => outside.push(gpu.name.as_str()),
        }
    }
    if hives.is_empty() && expected.xgmi_hives.is_none_or(|wanted| wanted == 0 || gpus.is_empty()) {
        return None;
    }
    let restart =
        |words: String| Judged { action: Some(Action::Restart), ..fail(check, NODE, words) };
    if !outside.is_empty() {
        let words = format!("{} in no hive", outside.join(", "));
        return Some(restart(words));
    }
    let sizes: BTreeSet<usize> = hives.values().map(Vec::len).collect();
    let told = hives.values().map(|gpus| gpus.join(" ")).collect::<Vec<_>>().join("; ");
    Some(match expected.xgmi_hives {
        Some(wanted) if wanted != hives.len() => {
            restart(format!("{} hives, and the profile wants {wanted}: {told}", hives.len()))
        }
        _ if sizes.len() > 1 => restart(format!("hives of different sizes: {told}")),
        _ => {
            pass(check, NODE, format!("{} of {} GPUs each", hives.len(), gpus.len() / hives.len()))
        }
    })
}

#[cfg(test)]
mod tests;
