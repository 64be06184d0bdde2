//! States of devices that a script plants, told by NVML: `STATE=VALUE` on every device,
//! `gpu3.STATE=VALUE` on one. All are numbers but the fabric's.
//!
//! | state | means |
//! | --- | --- |
//! | `lanes`, `lanes_most` | lanes of PCI Express in use, and the most; 16 if absent |
//! | `generation`, `generation_most` | its generation now, and the most; 5 if absent |
//! | `nvlinks` | NVLinks that are up; unknown if absent |
//! | `ecc` | whether memory is protected; 1 if absent |
//! | `ecc_errors` | memory errors that were not corrected |
//! | `remap_pending`, `remap_failed` | rows that wait for a reset, and whether one could not be replaced |
//! | `replays`, `nvlink_errors` | packets that were sent again by PCI Express, errors of NVLinks |
//! | `processes` | processes on the device; unknown if absent |
//! | `power` | the power limit in milliwatts; the part's own, 2000, if absent |
//! | `application` | the clock that applications set in MHz; the default if absent |
//! | `vbios` | the number of the firmware |
//! | `pci` | the device's number on the PCI bus, hexadecimal; an H200's (2335) if absent |
//! | `migmode` | whether MIG is on |
//! | `confidential`, `vgpu` | whether confidential computing is on, whether it is a vGPU |
//! | `fabric` | `STATE:STATUS:CLIQUE:CLUSTER:MASK:SUMMARY`, as nvml.h numbers them; each but the first may be left out, cluster (a byte, repeated) and mask are hexadecimal; no such function if absent |

use std::ffi::{c_int, c_uint};

/// Every state that is a number.
const STATES: [&str; 19] = [
    "lanes",
    "lanes_most",
    "generation",
    "generation_most",
    "nvlinks",
    "ecc",
    "ecc_errors",
    "remap_pending",
    "remap_failed",
    "replays",
    "nvlink_errors",
    "processes",
    "power",
    "application",
    "vbios",
    "migmode",
    "confidential",
    "vgpu",
    "pci",
];

/// What NVML tells of a device's fabric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fabric {
    /// How far its registration is.
    pub state: u8,
    /// How that ended.
    pub status: c_uint,
    /// Its clique.
    pub clique: c_uint,
    /// Each byte of its cluster's UUID.
    pub cluster: u8,
    /// What is wrong.
    pub mask: c_uint,
    /// That, summed up.
    pub summary: u8,
}

impl Fabric {
    fn parse(text: &str) -> Option<Fabric> {
        let mut words = text.split(':');
        let state = words.next()?.parse().ok()?;
        let mut next = |radix| match words.next() {
            Some(word) => u32::from_str_radix(word, radix).ok(),
            None => Some(0),
        };
        let (status, clique, cluster) = (next(10)?, next(10)?, next(16)?);
        let (mask, summary) = (next(16)?, next(10)?);
        let fabric = Fabric {
            state,
            status,
            clique,
            cluster: cluster.try_into().ok()?,
            mask,
            summary: summary.try_into().ok()?,
        };
        words.next().is_none().then_some(fabric)
    }
}

/// What a script plants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Planted {
    /// Of which device, where not of all.
    numbers: Vec<(Option<c_int>, String, u32)>,
    fabrics: Vec<(Option<c_int>, Fabric)>,
}

impl Planted {
    /// Takes a part of a script; `None` where it is none of these, `Some(None)` where its value is
    /// not understood.
    pub fn take(&mut self, name: &str, value: &str) -> Option<Option<()>> {
        let (gpu, state) = match name.strip_prefix("gpu").and_then(|rest| rest.split_once('.')) {
            Some((gpu, state)) => (Some(gpu.parse().ok()?), state),
            None => (None, name),
        };
        if state == "fabric" {
            return Some(Fabric::parse(value).map(|fabric| self.fabrics.push((gpu, fabric))));
        }
        let state = STATES.iter().find(|known| **known == state)?;
        let radix = if *state == "pci" { 16 } else { 10 };
        let number = u32::from_str_radix(value, radix).ok();
        Some(number.map(|number| self.numbers.push((gpu, (*state).to_owned(), number))))
    }

    /// The largest device that is named; 0 where none is.
    pub fn largest(&self) -> c_int {
        let named = self.numbers.iter().filter_map(|(gpu, ..)| *gpu);
        named.chain(self.fabrics.iter().filter_map(|(gpu, _)| *gpu)).max().unwrap_or(0)
    }

    /// A state of a device: what is said of it alone goes before what is said of all.
    pub fn of(&self, gpu: c_int, state: &str) -> Option<c_uint> {
        let of = |wanted: Option<c_int>| {
            let its =
                self.numbers.iter().rev().find(|(of, name, _)| *of == wanted && name == state);
            its.map(|(.., number)| *number)
        };
        of(Some(gpu)).or_else(|| of(None))
    }

    /// The fabric of a device.
    pub fn fabric(&self, gpu: c_int) -> Option<Fabric> {
        let of = |wanted: Option<c_int>| self.fabrics.iter().rev().find(|(of, _)| *of == wanted);
        of(Some(gpu)).or_else(|| of(None)).map(|(_, fabric)| *fabric)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_one_device_goes_before_what_is_said_of_all() {
        let mut planted = Planted::default();
        for (name, value) in [("gpu2.lanes", "4"), ("lanes", "8"), ("fabric", "3")] {
            assert_eq!(planted.take(name, value), Some(Some(())));
        }
        assert_eq!(planted.take("gpu1.fabric", "3:37:7:9c:a9:2"), Some(Some(())));
        assert_eq!([planted.of(2, "lanes"), planted.of(1, "lanes")], [Some(4), Some(8)]);
        assert_eq!((planted.of(1, "ecc"), planted.largest()), (None, 2));
        let fabric = planted.fabric(1).expect("a fabric");
        assert_eq!((fabric.state, fabric.status, fabric.clique), (3, 37, 7));
        assert_eq!((fabric.cluster, fabric.mask, fabric.summary), (0x9c, 0xa9, 2));
        assert_eq!(planted.fabric(0), Some(Fabric { state: 3, ..Fabric::default() }));
        assert_eq!(planted.take("lames", "8"), None);
        assert_eq!(planted.take("lanes", "many"), Some(None));
        assert_eq!(planted.take("fabric", "3:0:0:0:0:0:0"), Some(None));
    }
}
