//! Limits of power and clock, which outlive the process that set them as a real driver's do: in the
//! file that the variable `FIZEAU_STUB_LIMITS` names, a line `DEVICE MILLIWATTS MEGAHERTZ` for each
//! device that has any; 0 MHz where no clock is locked. Without the variable none can be set.
//!
//! A device slows down with its limits: its clock goes with the third root of its power limit, or is
//! the one that it is locked to, whichever is lower.

use crate::{nvml::NO_PERMISSION, speed::Speeds, state::OK};
use std::{collections::BTreeMap, ffi::c_int, fs, path::PathBuf};

/// The default limit of each device, milliwatts, which is the most too.
pub const POWER: u32 = 2_000;

/// The highest clock, MHz.
pub const CLOCK: u32 = 1_000;

/// What is set on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Milliwatts.
    pub power: u32,
    /// MHz that the clock is locked to.
    pub clock: Option<u32>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { power: POWER, clock: None }
    }
}

fn file() -> Option<PathBuf> {
    std::env::var_os("FIZEAU_STUB_LIMITS").map(PathBuf::from)
}

fn all() -> BTreeMap<c_int, Limits> {
    let text = file().and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let device = words.next()?.parse().ok()?;
        let power = words.next()?.parse().ok()?;
        let clock: u32 = words.next()?.parse().ok()?;
        Some((device, Limits { power, clock: (clock > 0).then_some(clock) }))
    };
    text.lines().filter_map(line).collect()
}

/// What is set on a device.
pub fn of(device: c_int) -> Limits {
    all().get(&device).copied().unwrap_or_default()
}

/// Changes what is set on a device; the code that NVML answers.
pub fn set(device: c_int, change: impl FnOnce(&mut Limits)) -> c_int {
    let Some(file) = file() else { return NO_PERMISSION };
    let mut all = all();
    change(all.entry(device).or_default());
    let line = |(device, limits): (&c_int, &Limits)| {
        format!("{device} {} {}\n", limits.power, limits.clock.unwrap_or(0))
    };
    let text: String = all.iter().map(line).collect();
    // Whole or not at all: another process may read it.
    let draft = file.with_extension("draft");
    match fs::write(&draft, text).and_then(|()| fs::rename(&draft, &file)) {
        Ok(()) => OK,
        Err(_) => NO_PERMISSION,
    }
}

/// Slows the devices of this process down as their limits do.
pub fn slow_down(speeds: &mut Speeds) {
    for (device, limits) in all() {
        let by_power = (f64::from(limits.power) / f64::from(POWER)).cbrt();
        let by_clock = limits.clock.map_or(1.0, |clock| f64::from(clock) / f64::from(CLOCK));
        let speed = by_power.min(by_clock);
        if speed < 1.0 {
            speeds.take(&format!("gpu{device}.clock"), &speed.to_string());
        }
    }
}
