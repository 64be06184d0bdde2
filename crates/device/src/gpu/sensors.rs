//! What the sensors of a GPU tell, whoever reads them.

use crate::library::Refusal;

/// What reads a device's sensors. Reasons for a clock are told in NVML's bits.
pub trait ReadSensors: Clone + Send + 'static {
    /// What the device is doing now.
    fn reading(&self) -> Reading;
    /// What it has counted.
    fn counters(&self) -> Counters;
    /// A queue of the faults that the driver reports from now on, where it has one.
    fn faults(&self) -> Option<Box<dyn Faults>> {
        None
    }
}

/// A queue of faults.
pub trait Faults: Send {
    /// The number of the next fault, if one comes within `milliseconds`; an error where
    /// waiting is not possible at all.
    ///
    /// # Errors
    ///
    /// Every code but that of a time that ran out.
    fn next(&self, milliseconds: u32) -> Result<Option<u64>, Refusal>;
}

/// What a device is doing now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// Of the SMs, MHz.
    pub clock: Option<u32>,
    /// Of the memory, MHz.
    pub memory_clock: Option<u32>,
    /// Milliwatts.
    pub power: Option<u32>,
    /// Milliseconds that `power` is an average over; 0 where it is of an instant, none where the
    /// driver does not say.
    pub power_window: Option<u32>,
    /// The counter of energy, millijoules.
    pub energy: Option<u64>,
    /// Of the GPU, degrees Celsius.
    pub temperature: Option<u32>,
    /// Of the memory, degrees Celsius.
    pub memory_temperature: Option<u32>,
    /// Why the clock is where it is: bits of `nvmlClocksEventReasons`.
    pub reasons: Option<u64>,
}

/// What a device has counted since its driver was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Millijoules.
    pub energy: Option<u64>,
    /// Memory errors that ECC corrected.
    pub ecc_corrected: Option<u64>,
    /// And those that it could not.
    pub ecc_uncorrected: Option<u64>,
    /// Rows of memory replaced by spare ones.
    pub remapped_rows: Option<u64>,
    /// Packets sent again over PCIe.
    pub pcie_replays: Option<u64>,
    /// Errors of all NVLinks: replays, recoveries, CRC.
    pub nvlink_errors: Option<u64>,
}

/// The bit of [`Reading::reasons`] that says that a user has set clocks.
pub const USER_CLOCKS: u64 = 0x2;

/// Why a clock is held where it is, by the bits of `nvmlClocksEventReasons`.
const REASONS: [(u64, &str); 11] = [
    (0x1, "idle"),
    (USER_CLOCKS, "clocks set by a user"),
    (0x4, "power cap"),
    (0x8, "hardware slowdown"),
    (0x10, "sync boost"),
    (0x20, "software thermal slowdown"),
    (0x40, "hardware thermal slowdown"),
    (0x80, "hardware power brake"),
    (0x100, "display clocks"),
    (0x200, "board limit"),
    (0x400, "reliability limit"),
];

/// The reasons that are none of a device's own work: slowdowns by hardware, heat and the power
/// brake. A dense product at its power cap is as it should be.
const HELD: u64 = 0x8 | 0x20 | 0x40 | 0x80;

/// Reasons in words, idleness left out.
pub fn spelled(reasons: u64) -> Vec<String> {
    let mut words: Vec<String> = REASONS
        .iter()
        .filter(|(bit, _)| reasons & bit != 0 && *bit != 0x1)
        .map(|(_, word)| (*word).to_owned())
        .collect();
    let known = REASONS.iter().fold(0, |all, (bit, _)| all | bit);
    if reasons & !known != 0 {
        words.push(format!("reasons {:#x} that fizeau does not know", reasons & !known));
    }
    words
}

/// Whether a device is held below what it could do.
pub fn is_throttled(reasons: u64) -> bool {
    reasons & HELD != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_decoded() {
        assert_eq!(spelled(0x1), Vec::<String>::new());
        assert_eq!(spelled(0x44), ["power cap", "hardware thermal slowdown"]);
        assert!(spelled(0x1000)[0].contains("0x1000"));
        for ordinary in [0, 0x1, 0x4, 0x5, 0x2, 0x10, 0x100] {
            assert!(!is_throttled(ordinary), "{ordinary:#x}");
        }
        for held in [0x8, 0x20, 0x40, 0x80, 0x84] {
            assert!(is_throttled(held), "{held:#x}");
        }
    }
}
