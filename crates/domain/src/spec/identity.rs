//! Which part of the catalogue a device is.

use super::{ARM, CpuId, Part, Properties, part::Identity};

impl Properties {
    /// The compiler's target of a device's own architecture, where it tells one: `sm_90` (not
    /// `sm_90a`, which adds instructions), `gfx942`.
    pub fn own_target(&self) -> Option<&str> {
        let is_number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_target = |name: &&String| {
            name.starts_with("gfx") || name.strip_prefix("sm_").is_some_and(is_number)
        };
        self.features.iter().find(is_target).map(String::as_str)
    }
}

/// A name without case, spaces and marks, for drivers that spell one product in several ways.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// Whether the CPU's name is that of an emulator's model and not of a product: QEMU has "AMD
/// EPYC-Rome Processor" and "Intel Xeon Processor (Skylake, IBRS)" (`target/i386/cpu.c`). Guests
/// that can move between hosts are told of the oldest: the memory may be that of any newer CPU.
fn is_emulated(properties: &Properties) -> bool {
    match properties.vendor.as_str() {
        "AMD" => ["EPYC-", "EPYC Processor"].iter().any(|model| properties.name.contains(model)),
        "Intel" => !properties.name.contains("(R)"),
        _ => false,
    }
}

/// What a device was found to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Match<'p> {
    /// This part.
    One(&'p Part),
    /// One of several, which nothing that the device tells sets apart.
    Ambiguous(Vec<&'p Part>),
    /// No part of the data.
    None,
}

/// The part a device is: by CPU family and model (implementer and part on Arm), else by name and
/// PCI id together, else by either, and never one of another architecture than the device's own; of
/// several the one with as many units, then with as much memory (within a tenth).
pub fn identify<'p>(parts: &'p [Part], properties: &Properties) -> Match<'p> {
    let all = |keep: &dyn Fn(&Part) -> bool| -> Vec<&'p Part> {
        let fits = |part: &&Part| keep(part) && !part.is_of_another_architecture(properties);
        parts.iter().filter(fits).collect()
    };
    let mut found = match properties.cpu {
        Some(_) if is_emulated(properties) => return Match::None,
        Some(cpu) => all(&|part| part.has_cpu(properties, cpu)),
        None => {
            let pci_id = properties.pci_id.as_deref().unwrap_or("");
            let both = all(&|part| part.has_name(&properties.name) && part.has_pci_id(pci_id));
            let by_name = || all(&|part| part.has_name(&properties.name));
            let by_id = || all(&|part| part.has_pci_id(pci_id));
            [both, by_name(), by_id()]
                .into_iter()
                .find(|found| !found.is_empty())
                .unwrap_or_default()
        }
    };
    let mut narrow = |same: &dyn Fn(&Part) -> bool| {
        if found.len() > 1 && found.iter().any(|part| same(part)) {
            found.retain(|part| same(part));
        }
    };
    narrow(&Part::is_named_cpu);
    narrow(&|part| part.units == Some(properties.units));
    narrow(&|part| {
        let known = part.memory.map_or(0.0, |memory| memory.0 as f64);
        (known / properties.memory.0.max(1) as f64 - 1.0).abs() < 0.1
    });
    match found[..] {
        [] => Match::None,
        [part] => Match::One(part),
        _ => Match::Ambiguous(found),
    }
}

impl Part {
    fn has_cpu(&self, properties: &Properties, cpu: CpuId) -> bool {
        match &self.identity {
            Identity::Host { family, models, steppings, names, .. } => {
                let within = |ranges: &[[u32; 2]], number: u32| {
                    ranges.iter().any(|&[low, high]| (low..=high).contains(&number))
                };
                let named = names.is_empty() || names.iter().any(|n| properties.name.contains(n));
                // On Arm the implementer of the core stands in the place of the vendor.
                (self.vendor == properties.vendor || properties.vendor == ARM)
                    && *family == Some(cpu.family)
                    && within(models, cpu.model)
                    && (steppings.is_empty() || within(steppings, cpu.stepping))
                    && named
            }
            Identity::Gpu { .. } => false,
        }
    }

    fn has_pci_id(&self, pci_id: &str) -> bool {
        match &self.identity {
            Identity::Gpu { pci_ids, .. } => {
                pci_ids.iter().any(|id| id.eq_ignore_ascii_case(pci_id))
            }
            Identity::Host { .. } => false,
        }
    }

    /// Whether its CPUs are told from others of their number by their name.
    fn is_named_cpu(&self) -> bool {
        matches!(&self.identity, Identity::Host { names, .. } if !names.is_empty())
    }

    /// Whether a device says that it is of another architecture than this part.
    fn is_of_another_architecture(&self, properties: &Properties) -> bool {
        let Identity::Gpu { target: Some(target), .. } = &self.identity else { return false };
        properties.own_target().is_some_and(|own| own != target)
    }

    fn has_name(&self, name: &str) -> bool {
        match &self.identity {
            Identity::Gpu { names, .. } => names.iter().any(|known| plain(known) == plain(name)),
            Identity::Host { .. } => false,
        }
    }
}
