//! Which part a device is.

use super::{Part, Properties};

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

/// The part a device is: by CPU family and model, else by name and PCI id together, else by
/// either; of several the one with as many units, then with as much memory (within a tenth).
pub fn identify<'p>(parts: &'p [Part], properties: &Properties) -> Match<'p> {
    let all = |keep: &dyn Fn(&Part) -> bool| -> Vec<&'p Part> {
        parts.iter().filter(|part| keep(part)).collect()
    };
    let mut found = match properties.cpu {
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
