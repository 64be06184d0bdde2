//! The PCI bus as sysfs shows it: GPUs with their links, bridges, the IOMMU.

use super::{names, word};
use crate::{
    hip,
    pci::{AMD, DEVICES, NVIDIA, addresses},
};
use fizeau_domain::node_state::Gpu;
use fizeau_record::file;
use std::{collections::BTreeSet, path::Path};

/// The GPUs on the bus.
pub fn gpus(root: &Path) -> Vec<Gpu> {
    let devices = root.join(DEVICES.trim_start_matches('/'));
    let gpu = |place: String| {
        let folder = devices.join(&place);
        let of = |file: &str| word(&folder.join(file));
        let number = |file: &str| of(file).map(|text| text.trim_start_matches("0x").to_owned());
        let lanes = |file: &str| of(file)?.parse().ok().filter(|lanes| *lanes > 0);
        let generation = |file: &str| generation(&of(file)?);
        let gpu = Gpu {
            name: place.clone(),
            pci_id: number("vendor").zip(number("device")).map(|(v, d)| format!("{v}:{d}")),
            pci: Some(place),
            lanes: pair(lanes("current_link_width"), lanes("max_link_width")),
            generation: pair(generation("current_link_speed"), generation("max_link_speed")),
            ..Gpu::default()
        };
        match gpu.pci_id.as_ref().is_some_and(|id| id.starts_with("1002:")) {
            true => hip::of_folder(&folder, gpu),
            false => gpu,
        }
    };
    let mut places: Vec<String> =
        [NVIDIA, AMD].into_iter().flat_map(|maker| addresses(&devices, maker)).collect();
    places.sort();
    places.into_iter().map(gpu).collect()
}

fn pair(now: Option<u32>, most: Option<u32>) -> Option<[u32; 2]> {
    Some([now?, most?])
}

/// PCI Express's generation by its rate: `32.0 GT/s PCIe`.
fn generation(rate: &str) -> Option<u32> {
    let rate: f64 = rate.split_whitespace().next()?.parse().ok()?;
    let rates = [2.5, 5.0, 8.0, 16.0, 32.0, 64.0];
    Some(rates.iter().position(|one| *one == rate)? as u32 + 1)
}

/// Length of the part of a configuration space that everybody may read.
const PUBLIC: usize = 0x100;

/// Access control services (PCI Express Base Specification, 7.7.11): the number of the capability,
/// and the bits of its control register that send requests and their completions by the root.
const ACS: u16 = 0x000d;
const REDIRECTS: u8 = 0x0c;

/// Bridges that send what devices below them exchange by way of the root.
///
/// # Errors
/// Where their configuration spaces cannot be read whole.
pub fn redirecting_bridges(root: &Path) -> Result<Vec<String>, String> {
    let devices = root.join(DEVICES.trim_start_matches('/'));
    let mut found = Vec::new();
    for place in names(&devices) {
        let folder = devices.join(&place);
        if !word(&folder.join("class")).is_some_and(|class| class.starts_with("0x0604")) {
            continue;
        }
        let space = file::read(&folder.join("config"), super::FILE_MAX);
        let space = space.map_err(|error| format!("bridge {place}: {error}"))?;
        if space.len() < PUBLIC {
            return Err("the bridges' capabilities are for root to read".into());
        }
        if redirects(&space) {
            found.push(place);
        }
    }
    Ok(found)
}

/// Whether a configuration space has the services with redirection on.
fn redirects(space: &[u8]) -> bool {
    let mut at = PUBLIC;
    // Each capability takes 8 bytes at least, so that a list that goes around ends too.
    for _ in 0..(space.len() - PUBLIC) / 8 {
        let Some(header) = space.get(at..at + 4) else { return false };
        let header = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        if header & 0xffff == u32::from(ACS) {
            return space.get(at + 6).is_some_and(|control| control & REDIRECTS != 0);
        }
        at = (header >> 20) as usize;
        if at < PUBLIC {
            return false;
        }
    }
    false
}

/// What kinds of domains the IOMMU's groups have; `None` where there is none.
pub fn iommu(root: &Path) -> Option<String> {
    let groups = root.join("sys/kernel/iommu_groups");
    let kinds =
        names(&groups).into_iter().filter_map(|group| word(&groups.join(group).join("type")));
    let kinds: BTreeSet<String> = kinds.collect();
    (!kinds.is_empty()).then(|| kinds.into_iter().collect::<Vec<_>>().join(", "))
}
