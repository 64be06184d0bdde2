//! What a device can do at most: from the catalogue, or from a record of this operator's.

use super::{measured::Measured, public::Public};
use fizeau_domain::{
    dtype::Dtype,
    model::Format,
    spec::{Part, pcie_bandwidth},
    units::{Bytes, BytesPerSecond, FlopsPerSecond, Watts},
};
use std::collections::BTreeMap;

/// One device of several alike, and what connects them.
#[derive(Clone, Debug, PartialEq)]
pub struct Hardware {
    /// Its part's id, or the record's folder.
    pub name: String,
    /// Where its limits come from, for the reader.
    pub basis: String,
    /// What kind of limits its memory and its peaks are.
    pub limits: Limits,
    /// Memory bandwidth that L1 is computed with.
    pub memory: BytesPerSecond,
    /// The most that any text of the vendor states, which L0 is computed with.
    pub memory_most: BytesPerSecond,
    /// Dense arithmetic.
    pub peaks: BTreeMap<Dtype, FlopsPerSecond>,
    /// What one device sends to its peers in one direction; none where that is not known.
    pub link: Option<Link>,
    /// Memory of one device.
    pub capacity: Bytes,
    /// Bytes that its last-level caches may keep from one step to the next.
    pub cache: Bytes,
    /// The most power that one device takes, where it is stated.
    pub power: Option<Watts>,
    /// The power limit that was in force while the record was made, where it says.
    pub power_limit: Option<Watts>,
    /// What this record measured; none of a part alone.
    pub measured: Option<Measured>,
    /// What others published of the part: stands in where a record lacks a shape.
    pub public: Option<Public>,
    /// The speed under a power cap, as shares of that without.
    pub speed: Speed,
    /// What to know of these numbers.
    pub notes: Vec<String>,
}

/// What limits are: only those of one kind may be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limits {
    /// Numbers of a datasheet, which nothing real exceeds.
    Datasheet,
    /// The best rates of a record, which another kernel may exceed.
    Record,
}

/// The speed that is left under a power cap, as shares of that without it: measured by the user.
/// L1 and L2 are slower by it; L0 stays, since it is a bound of the part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Of memory's.
    pub memory: f64,
    /// Of arithmetic's.
    pub compute: f64,
}

impl Speed {
    /// Without a cap.
    pub const FULL: Speed = Speed { memory: 1.0, compute: 1.0 };
}

/// What connects devices.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Within a node, one direction.
    pub inside: BytesPerSecond,
    /// Devices that are connected so; none where that is not known.
    pub domain: Option<u32>,
    /// Between nodes, one direction of one device; none where that is not known.
    pub outside: Option<BytesPerSecond>,
    /// What it is, for the reader.
    pub basis: String,
}

impl Hardware {
    /// Of a part of the catalogue.
    ///
    /// # Errors
    /// In words: what its file does not state.
    pub fn of_part(part: &Part) -> Result<Hardware, String> {
        let missing = |what: &str| match part.measured.is_empty() {
            true => format!("{}: the catalogue does not state its {what}", part.id),
            false => format!(
                "{}: no vendor states its {what}, and what a draft has was measured, which bounds \
                 nothing. Give the record of that measurement to --on",
                part.id
            ),
        };
        if part.is_host() {
            return Err(format!(
                "{} is a CPU: how many cores and what memory a machine has is not in the \
                 catalogue. Measure one (fizeau run) and give its record to --on",
                part.id
            ));
        }
        let memory = part.memory_bandwidth.ok_or_else(|| missing("memory bandwidth"))?;
        let memory_most = part.memory_bandwidth_most.filter(|most| *most > memory);
        let memory_most = memory_most.unwrap_or(memory);
        let mut notes = Vec::new();
        if memory_most > memory {
            notes.push(format!(
                "{}: memory at {memory} (stated) for L1, at {memory_most} (the most of all texts) \
                 for L0",
                part.id
            ));
        }
        if !part.unverified.is_empty() {
            let fields = part.unverified.join(", ");
            notes.push(format!("{}: no document of the vendor confirms {fields}", part.id));
        }
        if part.cache.is_none() {
            notes.push(format!("{}: its caches are not known; none are credited", part.id));
        }
        Ok(Hardware {
            name: part.id.clone(),
            basis: format!("datasheet of {}", part.name),
            limits: Limits::Datasheet,
            memory,
            memory_most,
            peaks: part.peaks.clone(),
            link: link_of(part),
            capacity: part.memory.ok_or_else(|| missing("memory"))?,
            cache: part.cache.unwrap_or_default(),
            power: part.power,
            power_limit: None,
            measured: None,
            public: None,
            speed: Speed::FULL,
            notes,
        })
    }

    /// The fastest arithmetic that may multiply operands of a format, and its element type.
    pub fn arithmetic(&self, format: Format) -> Option<(Dtype, FlopsPerSecond)> {
        let of = |dtype: &Dtype| Some((*dtype, *self.peaks.get(dtype)?));
        let known = format.arithmetic().iter().filter_map(of);
        known.max_by(|one, other| one.1.0.total_cmp(&other.1.0))
    }

    /// What one device of `devices` sends in one direction: as a bound the fastest of its links;
    /// else over the network where they do not all share a node.
    pub fn link_rate(&self, devices: u32, is_bound: bool) -> Option<BytesPerSecond> {
        let link = self.link.as_ref()?;
        let is_beyond = link.domain.is_some_and(|domain| devices > domain);
        let Some(outside) = link.outside.filter(|_| is_beyond) else { return Some(link.inside) };
        let (slow, fast) =
            if outside < link.inside { (outside, link.inside) } else { (link.inside, outside) };
        Some(if is_bound { fast } else { slow })
    }
}

/// The links of a part, or PCI Express where it has none of its own.
fn link_of(part: &Part) -> Option<Link> {
    let outside = part.network_bandwidth;
    if let Some(inside) = part.link_bandwidth {
        let kind = part.link.as_deref().unwrap_or("links");
        let basis = match part.bridged {
            true => format!("{kind} by a bridge, which may be missing, {inside} a direction"),
            false => format!("{kind}, {inside} a direction"),
        };
        return Some(Link { inside, domain: part.link_domain, outside, basis });
    }
    let inside = part.pcie.and_then(pcie_bandwidth)?;
    let basis = format!("PCI Express, {inside} a direction");
    Some(Link { inside, domain: None, outside, basis })
}
