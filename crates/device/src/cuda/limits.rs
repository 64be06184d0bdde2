//! Limits of an NVIDIA GPU, by NVML. Setting one needs root.

use super::nvml::{Nvml, Sensors, words};
use crate::{
    gpu::sensors::USER_CLOCKS,
    limits::{Adjustable, Limit, Limits, Range},
};
use nvml_wrapper::{
    Device, enum_wrappers::device::Clock, enums::device::GpuLockedClocksSetting, error::NvmlError,
};

/// How far a limit may be from what was set, in milliwatts: drivers round to watts.
const ROUNDED: u32 = 1_000;

/// One device's limits.
pub struct NvmlLimits {
    device: Device<'static>,
    sensors: Sensors,
    /// The power limit when this was made, milliwatts.
    before: Result<u32, String>,
    is_power_set: bool,
    is_clock_set: bool,
}

impl NvmlLimits {
    /// Of the device at a place of the PCI bus.
    pub fn of(nvml: Nvml, pci: &str, mig: Option<&str>) -> Option<NvmlLimits> {
        let (device, sensors) = (nvml.device(pci, mig)?, nvml.sensors(pci, mig)?);
        let before = device.power_management_limit().map_err(words);
        Some(NvmlLimits { device, sensors, before, is_power_set: false, is_clock_set: false })
    }

    fn power(&self) -> Result<Range, String> {
        let before = self.before.clone()?;
        let read = || -> Result<Range, NvmlError> {
            let range = self.device.power_management_limit_constraints()?;
            let default = self.device.power_management_limit_default()?;
            let watts = |milliwatts: u32| f64::from(milliwatts) / 1e3;
            Ok(Range {
                now: watts(before),
                least: watts(range.min_limit),
                most: watts(range.max_limit),
                default: watts(default),
            })
        };
        read().map_err(words)
    }

    /// A lock that a user has set cannot be read, and so not be put back.
    fn clock(&self) -> Result<Range, String> {
        if self.sensors.reading().reasons.is_some_and(|reasons| reasons & USER_CLOCKS != 0) {
            return Err("a user has set clocks: NVML does not tell which, so that they could not \
                        be put back (nvidia-smi -rgc resets them)"
                .into());
        }
        let most = f64::from(self.device.max_clock_info(Clock::SM).map_err(words)?);
        Ok(Range { now: most, least: 1.0, most, default: most })
    }

    fn set_power(&mut self, milliwatts: u32) -> Result<(), String> {
        self.device.set_power_management_limit(milliwatts).map_err(words)?;
        let now = self.device.power_management_limit().map_err(words)?;
        match now.abs_diff(milliwatts) <= ROUNDED {
            true => Ok(()),
            false => Err(format!("a power limit of {milliwatts} mW was set, and it is {now} mW")),
        }
    }
}

impl Limits for NvmlLimits {
    fn adjustable(&self) -> Adjustable {
        Adjustable { power: self.power(), clock: self.clock() }
    }

    fn set(&mut self, limit: Limit) -> Result<(), String> {
        match limit {
            Limit::Power(watts) => {
                self.before.clone()?;
                self.is_power_set = true;
                self.set_power((watts.0 * 1e3).round() as u32)
            }
            Limit::Clock(clock) => {
                self.is_clock_set = true;
                let clock = clock.0.round() as u32;
                let both =
                    GpuLockedClocksSetting::Numeric { min_clock_mhz: clock, max_clock_mhz: clock };
                self.device.set_gpu_locked_clocks(both).map_err(words)
            }
        }
    }

    fn restore(&mut self) -> Result<(), String> {
        let mut faults = Vec::new();
        if self.is_clock_set {
            let reset = self.device.reset_gpu_locked_clocks();
            self.is_clock_set = reset.is_err();
            let by_hand = |why| format!("clocks: {}; by hand: nvidia-smi -rgc", words(why));
            faults.extend(reset.err().map(by_hand));
        }
        if let (true, Ok(before)) = (self.is_power_set, self.before.clone()) {
            // What was refused has changed nothing, and putting it back would be refused too.
            let now = self.device.power_management_limit();
            let is_there = now.is_ok_and(|now| now == before);
            let set = if is_there { Ok(()) } else { self.set_power(before) };
            self.is_power_set = set.is_err();
            let watts = f64::from(before) / 1e3;
            let by_hand = |why| format!("power: {why}; by hand: nvidia-smi -pl {watts}");
            faults.extend(set.err().map(by_hand));
        }
        if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
    }
}
