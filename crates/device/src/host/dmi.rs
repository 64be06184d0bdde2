//! Memory modules, as the firmware's tables say (SMBIOS 3.7, DSP0134, section 7.18). Only root may
//! read them, and most virtual machines have none.

use std::{fs, ops::Range};

const TABLES: &str = "/sys/firmware/dmi/tables/DMI";

/// The type of a structure that describes one memory module.
const MEMORY_DEVICE: u8 = 17;

/// The modules that are plugged in.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Modules {
    /// Of all of them together, without the bits for error correction.
    pub width_bits: u32,
    /// 10^6 transfers each second, as configured; of the slowest.
    pub mts: u32,
}

/// Reads them; none where the tables cannot be read or do not say.
pub fn modules() -> Option<Modules> {
    parse(&fs::read(TABLES).ok()?)
}

/// From the structures of a table. Whatever is cut short is not there.
fn parse(tables: &[u8]) -> Option<Modules> {
    let mut found = Modules { width_bits: 0, mts: u32::MAX };
    let mut rest = tables;
    while let [kind, length, ..] = *rest {
        let length = usize::from(length);
        if length < 4 || length > rest.len() {
            break;
        }
        let (structure, after) = rest.split_at(length);
        if kind == MEMORY_DEVICE
            && let Some((width, mts)) = module(structure)
        {
            found.width_bits += width;
            found.mts = found.mts.min(mts);
        }
        // Texts follow, and end with two zeroes.
        let Some(end) = after.windows(2).position(|pair| pair == [0, 0]) else { break };
        rest = &after[end + 2..];
    }
    (found.width_bits > 0).then_some(found)
}

/// The width in bits and the transfers of one module; none where its slot is empty or silent.
fn module(structure: &[u8]) -> Option<(u32, u32)> {
    const DATA_WIDTH: Range<usize> = 0x0a..0x0c;
    const SIZE: Range<usize> = 0x0c..0x0e;
    const SPEED: Range<usize> = 0x15..0x17;
    const CONFIGURED_SPEED: Range<usize> = 0x20..0x22;
    let word = |at: Range<usize>| {
        let bytes = structure.get(at)?;
        // Zero and all ones stand for none and for unknown.
        let word = u32::from(u16::from_le_bytes([bytes[0], bytes[1]]));
        (word != 0 && word != 0xffff).then_some(word)
    };
    // A size of 0xffff is unknown, but there is something in the slot; zero is an empty slot.
    structure.get(SIZE).filter(|size| *size != [0, 0])?;
    Some((word(DATA_WIDTH)?, word(CONFIGURED_SPEED).or_else(|| word(SPEED))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A memory module of 64 bits, as firmware writes it: capacity in MiB, rated and configured
    /// transfers.
    fn structure(size: u16, speed: u16, configured: u16) -> Vec<u8> {
        let mut bytes = vec![0u8; 0x28];
        (bytes[0], bytes[1]) = (MEMORY_DEVICE, 0x28);
        bytes[0x08..0x0a].copy_from_slice(&72u16.to_le_bytes());
        bytes[0x0a..0x0c].copy_from_slice(&64u16.to_le_bytes());
        bytes[0x0c..0x0e].copy_from_slice(&size.to_le_bytes());
        bytes[0x15..0x17].copy_from_slice(&speed.to_le_bytes());
        bytes[0x20..0x22].copy_from_slice(&configured.to_le_bytes());
        bytes.extend(b"DIMM_A1\0\0");
        bytes
    }

    #[test]
    fn modules_add_up_and_empty_slots_do_not() {
        let other = [vec![0, 4, 1, 0], b"firmware\0\0".to_vec()].concat();
        let tables = [
            other,
            structure(0x7fff, 6400, 6000),
            structure(0, 0, 0),
            structure(32_767, 6400, 0),
            vec![127, 4, 2, 0, 0, 0],
        ];
        let found = parse(&tables.concat());
        assert_eq!(found, Some(Modules { width_bits: 128, mts: 6000 }));
        assert_eq!(parse(&structure(0, 6400, 6400)), None);
        assert_eq!(parse(&[]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_their_end(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let _ = parse(&bytes);
        }
    }
}
