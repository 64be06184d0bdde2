//! The most that a device can be where it is not certainly one part: one of several, or a slice of
//! a whole. Only limits come from it, never a share that is printed.

use super::{Match, Part, Properties};
use crate::units::{BytesPerSecond, FlopsPerSecond};
use std::collections::BTreeMap;

/// Parts of a GPU's memory that slices are cut into. A slice has a whole number of them (NVIDIA,
/// Multi-Instance GPU User Guide, "Supported Profiles": eighths, on some GPUs fourths).
const MEMORY_SLICES: f64 = 8.0;

/// The best number of each of several parts.
pub fn of_several(parts: &[&Part]) -> Option<Part> {
    let (first, others) = parts.split_first()?;
    Some(others.iter().fold((*first).clone(), |most, part| either(most, part)))
}

/// Of two parts the better number each. What one of them does not state bounds neither.
fn either(one: Part, other: &Part) -> Part {
    Part {
        units: larger(one.units, other.units),
        peaks: larger_each(one.peaks, &other.peaks),
        flops_per_clock: larger_each(one.flops_per_clock, &other.flops_per_clock),
        memory_bus_bits: larger(one.memory_bus_bits, other.memory_bus_bits),
        memory_bandwidth: larger(one.memory_bandwidth, other.memory_bandwidth),
        memory_bandwidth_most: larger(one.memory_bandwidth_most, other.memory_bandwidth_most),
        cache_load_per_clock: larger(one.cache_load_per_clock, other.cache_load_per_clock),
        cache_store_per_clock: larger(one.cache_store_per_clock, other.cache_store_per_clock),
        core_per_clock: larger(one.core_per_clock, other.core_per_clock),
        l2_per_clock: larger(one.l2_per_clock, other.l2_per_clock),
        memory_cache_bandwidth: larger(one.memory_cache_bandwidth, other.memory_cache_bandwidth),
        last_cache_most: larger(one.last_cache_most, other.last_cache_most),
        link_bandwidth: larger(one.link_bandwidth, other.link_bandwidth),
        pair_bandwidth: larger(one.pair_bandwidth, other.pair_bandwidth),
        link_domain: larger(one.link_domain, other.link_domain),
        bridged: one.bridged && other.bridged,
        host_bandwidth: larger(one.host_bandwidth, other.host_bandwidth),
        pcie: larger(one.pcie, other.pcie),
        algorithms: if one.algorithms.len() < other.algorithms.len() {
            other.algorithms
        } else {
            one.algorithms
        },
        ..one
    }
}

fn larger<T: PartialOrd>(one: Option<T>, other: Option<T>) -> Option<T> {
    let (one, other) = (one?, other?);
    Some(if one < other { other } else { one })
}

fn larger_each<K: Ord + Clone, V: PartialOrd + Copy>(
    one: BTreeMap<K, V>,
    other: &BTreeMap<K, V>,
) -> BTreeMap<K, V> {
    let both = one.into_iter().filter_map(|(key, value)| {
        let other = *other.get(&key)?;
        Some((key, if value < other { other } else { value }))
    });
    both.collect()
}

/// What a slice has of a whole part: its units of all units, and of the memory's bandwidth the
/// share that its slice or partition can have at most. None where it is not a slice of one part.
pub fn of_slice(parts: &[Part], properties: &Properties) -> Option<Part> {
    let slice = properties.virtualised.as_deref()?;
    let name = properties.name.strip_suffix(slice)?.trim_end();
    let whole = Properties { name: name.into(), virtualised: None, ..properties.clone() };
    // Units and memory are the slice's: they tell no whole from another.
    let found =
        super::identify(parts, &Properties { units: 0, memory: Default::default(), ..whole });
    let whole = match found {
        Match::One(part) => part.clone(),
        Match::Ambiguous(several) => of_several(&several)?,
        Match::None => return None,
    };
    let units = f64::from(properties.units) / f64::from(whole.units?.max(1));
    let memory = memory_share(slice, &whole, properties)?;
    let rate = |rate: BytesPerSecond| rate * memory;
    let peak = |peak: FlopsPerSecond| peak * units.min(1.0);
    Some(Part {
        units: Some(properties.units),
        peaks: whole.peaks.into_iter().map(|(dtype, of)| (dtype, peak(of))).collect(),
        memory_bandwidth: whole.memory_bandwidth.map(rate),
        memory_bandwidth_most: whole.memory_bandwidth_most.map(rate),
        l2_per_clock: None,
        ..whole
    })
}

/// The share of a whole part's memory bandwidth that a slice can have.
fn memory_share(slice: &str, whole: &Part, properties: &Properties) -> Option<f64> {
    // AMD: a partition allocates in its own domain of memory, and domains share nothing. In NPS1
    // there is one, which every partition reaches (ROCm documentation, "MI300 partitioning").
    if let Some((_, domains)) = slice.rsplit_once("NPS") {
        return Some(1.0 / domains.parse::<f64>().ok()?.max(1.0));
    }
    if !slice.starts_with("MIG ") {
        return Some(1.0);
    }
    let share = properties.memory.0 as f64 / whole.memory?.0 as f64;
    // What the driver keeps for itself makes a slice look smaller than it is; what a datasheet
    // states in GiB makes it look larger.
    Some(((share * MEMORY_SLICES - 0.25).ceil().max(1.0) / MEMORY_SLICES).min(1.0))
}
