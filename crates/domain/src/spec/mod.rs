//! What the vendor promises and what physics allows: parts, properties, peaks, speed of light.

mod figures;
mod identity;
mod known;
mod links;
pub mod most;
pub mod part;
pub mod rates;
pub mod speed_of_light;
mod stated;
mod wires;

pub use figures::{Figure, MemoryStated, Of};
pub use identity::{Match, identify};
pub use part::Part;
pub use speed_of_light::{
    exps_time, floor, headline, is_of_own_caches, is_partly_cached, lights, memory_peaks,
    tier_of_share, tighter,
};
pub use stated::key_of;
pub use wires::{Reach, Wire};

use crate::{
    dtype::Dtype,
    units::{Bytes, BytesPerSecond, Megahertz, Seconds},
};
use std::collections::BTreeMap;

/// The [`Properties::vendor`] of a stub driver's devices, which tests run against. No number comes
/// from one: reports say this word instead.
pub const STUB: &str = "stub";

/// The [`Properties::vendor`] of an Arm host: its implementer is a number of [`CpuId`].
pub const ARM: &str = "aarch64";

/// What a device says about itself: everything needed to match it to a part and to compute its
/// peaks without one. Kept in the record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Properties {
    /// `host`, `cuda`, `hip` or `fake`.
    pub backend: String,
    /// The driver's number for it.
    pub ordinal: u32,
    /// The name the driver or the CPU reports.
    pub name: String,
    /// `AMD`, `Intel`, `NVIDIA`, or what the device says.
    pub vendor: String,
    /// Units that work can be put on: SMs, CUs; on the host the cores this process may use.
    pub units: u32,
    /// Sockets that the units are in, each with memory of its own; 0 where nothing says so.
    pub sockets: u32,
    /// Clock that the driver states (host: base or nominal), where it does.
    pub clock: Option<Megahertz>,
    /// Memory in all.
    pub memory: Bytes,
    /// Memory's pin rate in 10^6 transfers each second, where it is stated.
    pub memory_mts: Option<f64>,
    /// Width of the memory bus, where it is stated.
    pub memory_bus_bits: Option<u32>,
    /// From the smallest to the last-level cache; data and unified caches only.
    pub caches: Vec<CacheLevel>,
    /// The most operations that a unit with these instruction sets is known to complete each
    /// clock, dense. A part's own number goes before it. Absent: unknown.
    pub flops_per_clock: BTreeMap<Dtype, f64>,
    /// Exponentials that a unit's special function units complete each clock, where it has some.
    pub exps_per_clock: Option<f64>,
    /// CPU family and model, as CPUID counts them; implementer and part on Arm; none on a GPU.
    pub cpu: Option<CpuId>,
    /// PCI vendor and device, `10de:2335`; none on the host.
    pub pci_id: Option<String>,
    /// Instruction sets and features that kernels may ask for: `avx512f`, `sm_90a`, `gfx942`.
    pub features: Vec<String>,
    /// The hypervisor or container it runs under, where it shows.
    pub virtualised: Option<String>,
    /// PCI Express between host and device, the fastest that both can: generation and lanes.
    pub pcie: Option<[u32; 2]>,
    /// How much of the last-level cache is set aside for data that are to stay.
    pub cache_set_aside: Option<Bytes>,
}

/// What lies between the nodes of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// How many nodes there are.
    pub nodes: u32,
    /// Network interfaces for messages that are up, on the node with the fewest.
    pub interfaces: u32,
    /// Their rate together in Gbit/s, on the node where it is least.
    pub gigabits: u32,
}

/// What a device's times are set against: the vendor's numbers, and what the machine says of links.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Yardstick {
    /// The part that the device is, where that is certain: the tiers come from it.
    pub part: Option<Part>,
    /// The most that the device can be: `part`; where it may be one of several, the best number of
    /// each of them; of a slice of a GPU, its share of the whole. The guard's limit comes from it.
    pub most: Option<Part>,
    /// What lies between the nodes of this run.
    pub network: Option<Network>,
    /// Links to other devices that are up, where the driver counts them.
    pub links_up: Option<u32>,
}

/// How one measurement was taken, as far as its limit depends on that.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Conditions {
    /// Clock of the units that worked.
    pub clock: Option<Megahertz>,
    /// Whether caches may hold what the iteration before left in them.
    pub hot: bool,
    /// Copies of the operands that iterations took in turn, at least one: of each a cache can hold
    /// its share.
    pub copies: u32,
    /// What lies between the nodes of this run.
    pub network: Option<Network>,
    /// Links to other devices that are up, where the driver counts them.
    pub links_up: Option<u32>,
}

impl Yardstick {
    /// What a reader has to know of the limits of links, if anything.
    pub fn caution(&self) -> Option<String> {
        let part = self.part.as_ref().filter(|part| part.bridged && self.links_up.is_none())?;
        Some(format!(
            "Whether a bridge connects this {} to others is not known: links between devices are \
             set against the bridge's, and PCI Express is slower.",
            part.name
        ))
    }

    /// Which limits of a device no text of its vendor confirms, if any: shares of them are as
    /// uncertain as they are.
    pub fn unconfirmed(&self, device: &Properties) -> Option<String> {
        let part = self.part.as_ref();
        let mut all: Vec<&str> = part.map(Part::unconfirmed_limits).unwrap_or_default();
        if rates::are_derived(&device.flops_per_clock) {
            all.push("the rates of its units in a clock");
        }
        let whose = part.map_or(device.name.as_str(), |part| &part.name);
        (!all.is_empty()).then(|| {
            format!("Of the limits of {whose} no vendor's text confirms {}.", all.join(", "))
        })
    }

    /// The conditions of one measurement on this machine.
    pub fn conditions(&self, clock: Option<Megahertz>, hot: bool) -> Conditions {
        let Yardstick { network, links_up, .. } = *self;
        Conditions { clock, hot, copies: 1, network, links_up }
    }
}

/// One level of cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLevel {
    /// 1 for the first.
    pub level: u32,
    /// Size of one instance.
    pub size: Bytes,
    /// Units of this device that share one instance.
    pub shared_by: u32,
    /// Size of a line.
    pub line: Bytes,
}

/// A CPU's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuId {
    /// Display family: base plus extended. On Arm the implementer of `MIDR_EL1`.
    pub family: u32,
    /// Display model. On Arm the part number.
    pub model: u32,
    /// Stepping. On Arm variant x 16 + revision.
    pub stepping: u32,
}

impl Properties {
    /// Whether it is a stub for tests, whose times mean nothing.
    pub fn is_stub(&self) -> bool {
        self.vendor == STUB
    }

    /// What the device's PCI Express carries in one direction.
    pub fn pcie_bandwidth(&self) -> Option<BytesPerSecond> {
        self.pcie.and_then(pcie_bandwidth)
    }

    /// The largest cache, all its instances together; zero where there is none.
    pub fn last_level_cache(&self) -> Bytes {
        self.caches.last().map_or(Bytes(0), |cache| cache.reached_by(self.units))
    }
}

impl CacheLevel {
    /// All instances of this level that some units can reach, together.
    pub fn reached_by(&self, units: u32) -> Bytes {
        self.size * u64::from(units.div_ceil(self.shared_by.max(1)))
    }
}

/// What PCI Express of a generation and number of lanes carries in one direction, after its
/// encoding: 8b/10b up to generation 2, 128b/130b up to 5, flits of 242 in 256 bytes in 6
/// (PCI-SIG's base specifications). None for a generation that is not known.
pub fn pcie_bandwidth([generation, lanes]: [u32; 2]) -> Option<BytesPerSecond> {
    let (transfers, share) = match generation {
        1 => (2.5e9, 8.0 / 10.0),
        2 => (5e9, 8.0 / 10.0),
        3 => (8e9, 128.0 / 130.0),
        4 => (16e9, 128.0 / 130.0),
        5 => (32e9, 128.0 / 130.0),
        6 => (64e9, 242.0 / 256.0),
        _ => return None,
    };
    Some(BytesPerSecond(transfers * share * f64::from(lanes) / 8.0))
}

/// The resource that limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bound {
    /// Bytes to and from memory.
    Memory,
    /// Bytes to and from a cache.
    Cache,
    /// Arithmetic.
    Compute,
    /// Exponentials.
    Exp,
    /// Bytes over links between ranks.
    Link,
}

/// Which peak a speed of light refers to; a percentage without it means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// 1: the vendor's printed dense peak.
    Datasheet,
    /// 2: units x operations per clock x the clock observed while it ran.
    Observed,
    /// 3: the slowest resource for this very case.
    Algorithmic,
    /// 4: the best rate of the resource measured in this run.
    Ceiling,
}

/// The least time that some work can take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpeedOfLight {
    /// For one iteration.
    pub time: Seconds,
    /// The resource that takes it.
    pub bound: Bound,
    /// Whose peak it is.
    pub tier: Tier,
}

named!(Bound {
    Memory => "memory", Cache => "cache", Compute => "compute", Exp => "exp", Link => "link",
});

named!(Tier {
    Datasheet => "datasheet", Observed => "observed", Algorithmic => "algorithmic",
    Ceiling => "ceiling",
});
