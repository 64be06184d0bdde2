//! What a device says about itself.

use crate::mirror::mirror;
use fizeau_domain::{
    case::limits::{CACHE_MAX, UNITS_MAX},
    dtype::Dtype,
    spec,
    units::{Bytes, Megahertz},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a device says about itself: everything needed to match it to a part and to compute its
/// peaks without one. Kept in the record.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    #[schemars(range(max = UNITS_MAX))]
    pub units: u32,
    /// Sockets that the units are in, each with memory of its own; 0 where nothing says so.
    #[serde(default)]
    pub sockets: u32,
    /// Clock that the driver states (host: base or nominal), where it does.
    pub clock: Option<Megahertz>,
    /// Memory in all.
    pub memory: Bytes,
    /// Memory's pin rate in 10^6 transfers each second, where it is stated.
    #[schemars(range(min = 0.0))]
    pub memory_mts: Option<f64>,
    /// Width of the memory bus, where it is stated.
    pub memory_bus_bits: Option<u32>,
    /// From the smallest to the last-level cache; data and unified caches only.
    #[schemars(length(max = 16))]
    pub caches: Vec<CacheLevel>,
    /// The most operations that a unit with these instruction sets is known to complete each
    /// clock, dense. A part's own number goes before it. Absent: unknown.
    pub flops_per_clock: BTreeMap<Dtype, f64>,
    /// Exponentials that a unit's special function units complete each clock, where it has some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie: Option<[u32; 2]>,
    /// How much of the last-level cache is set aside for data that are to stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_set_aside: Option<Bytes>,
}

mirror!(Properties of spec::Properties {
    backend, ordinal, name, vendor, units, sockets, clock, memory, memory_mts, memory_bus_bits,
    caches, flops_per_clock, exps_per_clock, cpu, pci_id, features, virtualised, pcie,
    cache_set_aside
});

/// One level of cache.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheLevel {
    /// 1 for the first.
    pub level: u32,
    /// Size of one instance.
    #[schemars(extend("maximum" = CACHE_MAX))]
    pub size: Bytes,
    /// Units of this device that share one instance.
    #[schemars(range(max = UNITS_MAX))]
    pub shared_by: u32,
    /// Size of a line.
    pub line: Bytes,
}

mirror!(CacheLevel of spec::CacheLevel { level, size, shared_by, line });

/// A CPU's number.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuId {
    /// Display family: base plus extended. On Arm the implementer of `MIDR_EL1`.
    pub family: u32,
    /// Display model. On Arm the part number.
    pub model: u32,
    /// Stepping. On Arm variant x 16 + revision.
    pub stepping: u32,
}

mirror!(CpuId of spec::CpuId { family, model, stepping });
