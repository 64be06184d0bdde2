//! Causes: what is to blame for a failure, where the pattern of losses and states names it.

use super::{Action, Resource};
use fizeau_domain::node_state::mode;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A stack of the memory: bandwidth is down by its share, arithmetic is whole.
    MemoryStack,
    /// A link to the other devices is down.
    PeerLink,
    /// PCI Express at half of its lanes, or one generation lower, which costs as much.
    HalfWidth,
    /// Heat: what lasts falls, and the device says that heat holds its clock.
    Thermal,
    /// A power limit below the part's own, or power that is not delivered.
    PowerCap,
    /// Silicon that needs more power or voltage than others of its lot.
    WeakSilicon,
    /// One kernel of several: what else the same units compute is whole.
    Kernel,
    /// Host memory on another NUMA node than the device's.
    NumaNode,
    /// What joins the GPUs of a node or rack: NVLink's switches and the services that manage them,
    /// xGMI's hive.
    ScaleUp,
    /// A mode that encrypts or shares: confidential computing, a vGPU.
    Mode,
    /// A network interface, its cable or its port.
    NetworkInterface,
    /// What joins nodes: a switch, an uplink or a cable, and no one node.
    Fabric,
    /// Another process works on the device.
    BusyDevice,
    /// Others work on the host's cores.
    BusyHost,
    /// A CPU quota keeps the threads from running.
    CpuQuota,
    /// What was slow is fine when it is measured anew.
    NoisyNeighbour,
    /// Repeats scatter too much to tell.
    Noise,
    /// Wrong results.
    WrongResult,
    /// The device does not answer any more.
    DeviceLost,
    /// Something is missing, or connected by less than it should be.
    Missing,
    /// Faults that the device or the driver has counted.
    Faults,
    /// Settings differ from what they should be, or among the devices.
    Settings,
    /// The pattern names nothing.
    Unknown,
}

impl Cause {
    /// What to do about it.
    pub fn action(self) -> Action {
        match self {
            Cause::BusyDevice
            | Cause::BusyHost
            | Cause::CpuQuota
            | Cause::NoisyNeighbour
            | Cause::NumaNode
            | Cause::Noise => Action::RestartApp,
            Cause::WrongResult | Cause::MemoryStack | Cause::PeerLink => Action::ResetGpu,
            Cause::DeviceLost => Action::Restart,
            Cause::HalfWidth
            | Cause::ScaleUp
            | Cause::Mode
            | Cause::Thermal
            | Cause::PowerCap
            | Cause::WeakSilicon
            | Cause::Kernel
            | Cause::NetworkInterface
            | Cause::Fabric
            | Cause::Missing
            | Cause::Faults
            | Cause::Settings
            | Cause::Unknown => Action::ContactSupport,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::MemoryStack => "a memory stack",
            Cause::PeerLink => "a link between devices is down",
            Cause::HalfWidth => "PCI Express at half width or a lower generation",
            Cause::Thermal => "heat",
            Cause::PowerCap => "a power limit",
            Cause::WeakSilicon => "weak silicon",
            Cause::Kernel => "one kernel or library, since other arithmetic is whole",
            Cause::NumaNode => "host memory on another NUMA node",
            Cause::ScaleUp => "the domain that joins GPUs (NVLink's switches, xGMI)",
            Cause::Mode => "a mode that encrypts or shares",
            Cause::NetworkInterface => "a network interface, its cable or port",
            Cause::Fabric => "a switch, an uplink or a cable between nodes",
            Cause::BusyDevice => "another process on the device",
            Cause::BusyHost => "other work on these cores",
            Cause::CpuQuota => "a CPU quota",
            Cause::NoisyNeighbour => "a noisy neighbour that went away",
            Cause::Noise => "repeats scatter too much",
            Cause::WrongResult => "wrong results",
            Cause::DeviceLost => "the device does not answer",
            Cause::Missing => "a missing device, or a narrow link",
            Cause::Faults => "faults that were counted",
            Cause::Settings => "settings",
            Cause::Unknown => "not known",
        })
    }
}

/// What is known of a device besides its rates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// What held its clock while it was measured, in the words of a record.
    pub held_by: Vec<String>,
    /// Links to other devices that should be up.
    pub peer_links: Option<u32>,
    /// Lanes to the host: in use, and the most.
    pub lanes: Option<[u32; 2]>,
    /// Whether host memory was on another NUMA node.
    pub is_remote: bool,
    /// Whether copies are slower from memory of its own NUMA node, by the kernel, than from that of
    /// another.
    pub is_near_slow: bool,
    /// Processes of others that used it before anything was measured.
    pub processes: Option<u32>,
    /// Whether it is a host on whose CPUs others were at work before anything was measured.
    pub is_busy_host: bool,
    /// Whether its links to some peers are slow, and those to others are not.
    pub has_some_slow_peers: bool,
    /// Modes that make it slower by design: `fizeau_domain::node_state::mode`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<String>,
}

/// What one device lost, by resource: the relative loss against its bar's reference, and whether it
/// failed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss {
    /// What was measured.
    pub resource: Resource,
    /// 0.1: a tenth slower than it should be.
    pub loss: f64,
    /// Whether it failed.
    pub failed: bool,
}

/// Stacks that GPUs have: MI250X and H100 to MI355X.
const STACKS: std::ops::RangeInclusive<u32> = 4..=8;

/// How far a loss may be from its quantum, as a share of the quantum.
const TOLERANCE: f64 = 0.3;

/// What half of a link costs: 50 %, less where the copy does not fill the link.
const HALF: std::ops::RangeInclusive<f64> = 0.38..=0.60;

/// Names what is to blame for the failure of one resource of a device, from all that the device
/// lost.
pub fn name(failed: Resource, all: &[Loss], facts: &Facts) -> Cause {
    let worst = |resource: Resource| {
        let of = all.iter().filter(|one| one.resource == resource && one.failed);
        of.map(|one| one.loss).max_by(f64::total_cmp)
    };
    let fails = |resource: Resource| worst(resource).is_some();
    let has_mode = |mode: &str| facts.modes.iter().any(|one| one == mode);
    let is_held = |word: &str| facts.held_by.iter().any(|reason| reason.contains(word));
    // A clock that is too low slows all arithmetic by as much.
    let has_whole_arithmetic = || {
        let half = worst(Resource::Arithmetic).unwrap_or(0.0) / 2.0;
        let mut others = all.iter().filter(|one| one.resource == Resource::Arithmetic);
        others.any(|one| !one.failed && one.loss < half)
    };
    let is_own = !matches!(
        failed,
        Resource::HostLink | Resource::PeerLink | Resource::Network | Resource::State
    );
    match failed {
        _ if facts.is_busy_host => Cause::BusyHost,
        _ if is_own && facts.processes.is_some_and(|count| count > 0) => Cause::BusyDevice,
        // A time slice of a GPU is slower in all that it does, and encryption in what it copies.
        _ if is_own && has_mode(mode::VGPU) => Cause::Mode,
        Resource::HostLink if has_mode(mode::VGPU) || has_mode(mode::CONFIDENTIAL) => Cause::Mode,
        Resource::Memory if !fails(Resource::Arithmetic) => {
            let loss = worst(Resource::Memory).unwrap_or(0.0);
            let stacks = [*STACKS.end(), *STACKS.start()].map(|count| 1.0 / f64::from(count));
            match (stacks[0] * (1.0 - TOLERANCE)..=stacks[1] * (1.0 + TOLERANCE)).contains(&loss) {
                true => Cause::MemoryStack,
                false => Cause::Unknown,
            }
        }
        Resource::Arithmetic | Resource::Sustained if is_held("thermal") => Cause::Thermal,
        Resource::Arithmetic if has_whole_arithmetic() => Cause::Kernel,
        Resource::Arithmetic | Resource::Sustained if is_held("power") || is_held("board") => {
            match fails(Resource::Arithmetic) {
                true => Cause::WeakSilicon,
                false => Cause::PowerCap,
            }
        }
        Resource::Arithmetic if !fails(Resource::Memory) => Cause::WeakSilicon,
        Resource::Sustained if fails(Resource::Arithmetic) => Cause::WeakSilicon,
        Resource::HostLink => {
            let loss = worst(Resource::HostLink).unwrap_or(0.0);
            let is_half = !facts.is_near_slow && HALF.contains(&loss);
            if facts.lanes.is_some_and(|[now, most]| now < most) || is_half {
                Cause::HalfWidth
            } else if facts.is_remote || facts.is_near_slow {
                Cause::NumaNode
            } else {
                Cause::Unknown
            }
        }
        Resource::PeerLink => {
            let loss = worst(Resource::PeerLink).unwrap_or(0.0);
            let quantum = 1.0 / f64::from(facts.peer_links.unwrap_or(18).max(1));
            // One link, two or three: 5.6 % of 18 each.
            let is_near = |count: f64| {
                (loss - count * quantum).abs() <= TOLERANCE * quantum + 0.02 * (count - 1.0)
            };
            // What is slow with some peers alone is the links to these, whatever it costs.
            match facts.has_some_slow_peers || [1.0, 2.0, 3.0].into_iter().any(is_near) {
                true => Cause::PeerLink,
                false => Cause::Unknown,
            }
        }
        Resource::Network => Cause::NetworkInterface,
        _ => Cause::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(resource: Resource, loss: f64) -> Loss {
        Loss { resource, loss, failed: loss > 0.02 }
    }

    #[test]
    fn patterns_name_their_causes_and_others_name_nothing() {
        use Resource::*;
        let held = |word: &str| Facts { held_by: vec![word.into()], ..Facts::default() };
        let plain = Facts::default();
        let in_mode = |mode: &str| Facts { modes: vec![mode.into()], ..Facts::default() };
        let links = |count| Facts { peer_links: Some(count), ..Facts::default() };
        for (failed, all, facts, cause) in [
            (Memory, vec![lost(Memory, 0.167), lost(Arithmetic, 0.0)], &plain, Cause::MemoryStack),
            (Memory, vec![lost(Memory, 0.04), lost(Arithmetic, 0.0)], &plain, Cause::Unknown),
            (Memory, vec![lost(Memory, 0.167), lost(Arithmetic, 0.1)], &plain, Cause::Unknown),
            (
                Sustained,
                vec![lost(Sustained, 0.2)],
                &held("hardware thermal slowdown"),
                Cause::Thermal,
            ),
            (Sustained, vec![lost(Sustained, 0.2)], &held("power cap"), Cause::PowerCap),
            (Sustained, vec![lost(Sustained, 0.2)], &plain, Cause::Unknown),
            (Arithmetic, vec![lost(Arithmetic, 0.1)], &plain, Cause::WeakSilicon),
            (
                Arithmetic,
                vec![lost(Arithmetic, 0.1), lost(Arithmetic, 0.07)],
                &held("power cap"),
                Cause::WeakSilicon,
            ),
            (
                Arithmetic,
                vec![lost(Arithmetic, 0.1), lost(Arithmetic, 0.01)],
                &held("power cap"),
                Cause::Kernel,
            ),
            (HostLink, vec![lost(HostLink, 0.5)], &plain, Cause::HalfWidth),
            (HostLink, vec![lost(HostLink, 0.2)], &plain, Cause::Unknown),
            (
                HostLink,
                vec![lost(HostLink, 0.2)],
                &Facts { is_remote: true, ..Facts::default() },
                Cause::NumaNode,
            ),
            // A narrow link is slow from every node.
            (
                HostLink,
                vec![lost(HostLink, 0.5)],
                &Facts { is_near_slow: true, ..Facts::default() },
                Cause::NumaNode,
            ),
            (
                HostLink,
                vec![lost(HostLink, 0.5)],
                &Facts { is_near_slow: true, lanes: Some([8, 16]), ..Facts::default() },
                Cause::HalfWidth,
            ),
            (PeerLink, vec![lost(PeerLink, 0.056)], &plain, Cause::PeerLink),
            (PeerLink, vec![lost(PeerLink, 0.083)], &links(12), Cause::PeerLink),
            (PeerLink, vec![lost(PeerLink, 0.4)], &plain, Cause::Unknown),
            (
                PeerLink,
                vec![lost(PeerLink, 0.4)],
                &Facts { has_some_slow_peers: true, ..Facts::default() },
                Cause::PeerLink,
            ),
            (
                Memory,
                vec![lost(Memory, 0.167)],
                &Facts { processes: Some(1), ..Facts::default() },
                Cause::BusyDevice,
            ),
            (
                Arithmetic,
                vec![lost(Arithmetic, 0.5)],
                &Facts { is_busy_host: true, ..Facts::default() },
                Cause::BusyHost,
            ),
            (
                HostLink,
                vec![lost(HostLink, 0.5)],
                &Facts { lanes: Some([8, 16]), processes: Some(1), ..Facts::default() },
                Cause::HalfWidth,
            ),
            (Network, vec![lost(Network, 0.1)], &plain, Cause::NetworkInterface),
            (HostLink, vec![lost(HostLink, 0.5)], &in_mode(mode::CONFIDENTIAL), Cause::Mode),
            (Memory, vec![lost(Memory, 0.167)], &in_mode(mode::CONFIDENTIAL), Cause::MemoryStack),
            (Arithmetic, vec![lost(Arithmetic, 0.5)], &in_mode(mode::VGPU), Cause::Mode),
        ] {
            assert_eq!(name(failed, &all, facts), cause, "{failed:?} {all:?} {facts:?}");
        }
    }
}
