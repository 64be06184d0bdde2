//! Sensors of an AMD GPU: `gpu_metrics` where its version is known, else the files of hwmon.

use super::{
    metrics::{self, Metrics},
    topology::{hive, word},
};
use crate::gpu::sensors::{Counters, ReadSensors, Reading};
use fizeau_domain::{text::counted, units::Watts};
use fizeau_record::{DeviceSettings, identity};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// One device's files.
#[derive(Clone)]
pub struct Sensors {
    folder: PathBuf,
    hwmon: Option<PathBuf>,
    /// The residencies of the last reading: those that grew since hold the clock now.
    before: Arc<Mutex<Option<[u32; 5]>>>,
}

/// Reasons for a clock, in NVML's bits.
const POWER_CAP: u64 = 0x4;
const HARDWARE: u64 = 0x8;
const THERMAL: u64 = 0x40;
const BOARD: u64 = 0x200;

/// What each residency means: processor hot, power, socket, regulators, memory.
const RESIDENCIES: [u64; 5] = [HARDWARE, POWER_CAP, THERMAL, THERMAL, THERMAL];

/// Ranges of the bits of what throttles (`SMU_THROTTLER_*` of the kernel's amdgpu_smu.h): power,
/// current, temperatures, processor hot.
const THROTTLERS: [(std::ops::Range<u32>, u64); 4] =
    [(0..16, POWER_CAP), (16..32, BOARD), (32..56, THERMAL), (56..64, HARDWARE)];

/// The file of the errors of xGMI and WAFL links (`AMDGPU_RAS_BLOCK__XGMI_WAFL` of the kernel's
/// amdgpu_ras.h).
const LINKS: &str = "xgmi_wafl_err_count";

impl Sensors {
    /// Of the device whose folder on the PCI bus this is; none where it shows neither source.
    pub fn of(folder: &Path) -> Option<Sensors> {
        let entries = fs::read_dir(folder.join("hwmon")).into_iter().flatten().flatten();
        let hwmon = entries.map(|entry| entry.path()).next();
        let found = hwmon.is_some() || folder.join("gpu_metrics").exists();
        let before = Arc::new(Mutex::new(None));
        found.then(|| Sensors { folder: folder.to_owned(), hwmon, before })
    }

    fn metrics(&self) -> Metrics {
        let bytes = fs::read(self.folder.join("gpu_metrics")).unwrap_or_default();
        metrics::read(&bytes).unwrap_or_default()
    }

    /// A number of hwmon over a divisor; none where the file is not there.
    fn hwmon(&self, file: &str, divisor: u64) -> Option<u32> {
        let value: u64 = word(self.hwmon.as_deref()?, file)?.parse().ok()?;
        u32::try_from(value / divisor).ok()
    }

    /// How the device is set up.
    pub fn settings(&self) -> DeviceSettings {
        let hwmon = self.hwmon.as_deref();
        let cap: Option<f64> = hwmon.and_then(|at| word(at, "power1_cap")?.parse().ok());
        DeviceSettings {
            power_limit: cap.map(|microwatts| Watts(microwatts / 1e6)),
            ecc: self.protects_memory(),
            clock_locks: word(&self.folder, "power_dpm_force_performance_level"),
            vbios: word(&self.folder, "vbios_version"),
        }
    }

    /// Which board it is. Boards that tell no serial number of their own have the chip's unique
    /// number in its place.
    pub fn board(&self) -> identity::Gpu {
        let of = |file| word(&self.folder, file).filter(|word| !word.is_empty());
        identity::Gpu {
            serial: of("serial_number").or_else(|| of("unique_id")),
            part_number: of("product_number"),
            domain: hive(&self.folder).filter(|hive| hive != "0"),
            vbios: of("vbios_version"),
            ..identity::Gpu::default()
        }
    }

    /// Whether memory errors are looked for: the first bit of the blocks' mask is the memory
    /// controller's (`AMDGPU_RAS_BLOCK__UMC` of the kernel's amdgpu_ras.h).
    fn protects_memory(&self) -> Option<bool> {
        let text = word(&self.folder.join("ras"), "features")?;
        let mask = text.lines().next()?.split_once("mask:")?.1.trim().trim_start_matches("0x");
        Some(u64::from_str_radix(mask, 16).ok()? & 1 == 1)
    }

    /// Memory errors of all blocks, corrected and not; those of links are
    /// [`link_errors`](Self::link_errors).
    pub fn errors(&self) -> (Option<u64>, Option<u64>) {
        self.errors_of(|block| block != LINKS)
    }

    /// Errors of xGMI links that were not corrected.
    pub fn link_errors(&self) -> Option<u64> {
        self.errors_of(|block| block == LINKS).1
    }

    /// Errors of those blocks whose files are chosen, corrected and not.
    fn errors_of(&self, is_wanted: impl Fn(&str) -> bool) -> (Option<u64>, Option<u64>) {
        let mut sums = (None, None);
        let entries = fs::read_dir(self.folder.join("ras")).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_name().to_str().is_some_and(&is_wanted)) {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            for line in text.lines() {
                let Some((kind, count)) = line.split_once(':') else { continue };
                let Ok(count) = count.trim().parse::<u64>() else { continue };
                match kind.trim() {
                    "ce" => *sums.0.get_or_insert(0) += count,
                    "ue" => *sums.1.get_or_insert(0) += count,
                    _ => {}
                }
            }
        }
        sums
    }

    /// Pages of memory that the driver does not use any more: `ras/gpu_vram_bad_pages` has a line
    /// for each (the kernel's amdgpu_ras.c).
    pub fn bad_pages(&self) -> Option<u64> {
        let list = fs::read_to_string(self.folder.join("ras/gpu_vram_bad_pages")).ok()?;
        Some(list.lines().filter(|line| !line.trim().is_empty()).count() as u64)
    }

    /// The part's own power limit.
    pub fn power_default(&self) -> Option<Watts> {
        let microwatts: f64 = word(self.hwmon.as_deref()?, "power1_cap_default")?.parse().ok()?;
        Some(Watts(microwatts / 1e6))
    }

    /// PCIe and xGMI as they run now, in words.
    pub fn links(&self) -> Option<String> {
        let metrics = self.metrics();
        let pcie = match metrics.pcie {
            Some((lanes, speed)) => format!("PCIe {} GT/s x{lanes} now", f64::from(speed) / 10.0),
            None => {
                let speed = word(&self.folder, "current_link_speed")?;
                format!("PCIe {speed} x{} now", word(&self.folder, "current_link_width")?)
            }
        };
        let xgmi = metrics.xgmi.filter(|xgmi| xgmi.0 > 0).map(|(lanes, speed)| {
            let up = metrics
                .xgmi_up
                .map(|up| format!("{} up, ", counted(up as usize, "link")))
                .unwrap_or_default();
            format!(", xGMI {up}x{lanes} at {speed} Gb/s")
        });
        Some(pcie + &xgmi.unwrap_or_default())
    }

    /// Lanes to the host that are in use.
    pub fn pcie_width(&self) -> Option<u32> {
        let of_file = || word(&self.folder, "current_link_width")?.parse().ok();
        self.metrics().pcie.map(|(lanes, _)| lanes).or_else(of_file)
    }

    /// Links to other devices that are up, where the table tells.
    pub fn links_up(&self) -> Option<u32> {
        self.metrics().xgmi_up
    }

    /// What holds the clock, by either way in which tables tell.
    fn reasons(&self, metrics: &Metrics) -> Option<u64> {
        let by_bits = metrics.throttled_by.map(|bits| {
            let set = |range: &std::ops::Range<u32>| range.clone().any(|bit| bits >> bit & 1 == 1);
            let held = THROTTLERS.iter().filter(|(range, _)| set(range));
            held.fold(0, |all, (_, reason)| all | reason)
        });
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let now = metrics.residencies;
        let by_growth = now.zip(std::mem::replace(&mut *before, now)).map(|(now, before)| {
            let grown = (0..5).filter(|&at| now[at] != before[at]);
            grown.fold(0, |all, at| all | RESIDENCIES[at])
        });
        by_bits.or(by_growth)
    }
}

/// From units of 2^-16 J.
fn millijoules(units: u64) -> u64 {
    ((u128::from(units) * 1_000) >> 16) as u64
}

impl ReadSensors for Sensors {
    fn reading(&self) -> Reading {
        let metrics = self.metrics();
        let milliwatts = |file| self.hwmon(file, 1_000);
        let power = || milliwatts("power1_input").or_else(|| milliwatts("power1_average"));
        let celsius = |file| self.hwmon(file, 1_000);
        let hottest = || celsius("temp2_input").or_else(|| celsius("temp1_input"));
        Reading {
            clock: metrics.clock.or_else(|| self.hwmon("freq1_input", 1_000_000)),
            memory_clock: metrics.memory_clock.or_else(|| self.hwmon("freq2_input", 1_000_000)),
            power: metrics.power.map(|watts| watts * 1_000).or_else(power),
            power_window: None,
            energy: metrics.energy.map(millijoules),
            temperature: metrics.hotspot.or_else(hottest),
            memory_temperature: metrics.memory.or_else(|| celsius("temp3_input")),
            reasons: self.reasons(&metrics),
        }
    }

    fn counters(&self) -> Counters {
        let metrics = self.metrics();
        let (ecc_corrected, ecc_uncorrected) = self.errors();
        let replays = || word(&self.folder, "pcie_replay_count")?.parse().ok();
        Counters {
            energy: metrics.energy.map(millijoules),
            ecc_corrected,
            ecc_uncorrected,
            remapped_rows: None,
            pcie_replays: metrics.replays.or_else(replays),
            nvlink_errors: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device's folder with some files.
    fn device(files: &[(&str, &[u8])]) -> (tempfile::TempDir, Sensors) {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("hwmon/hwmon3")).expect("made");
        fs::create_dir(folder.path().join("ras")).expect("made");
        for (name, bytes) in files {
            fs::write(folder.path().join(name), bytes).expect("written");
        }
        let sensors = Sensors::of(folder.path()).expect("sensors");
        (folder, sensors)
    }

    #[test]
    fn without_a_known_table_hwmon_is_read() {
        let (_folder, sensors) = device(&[
            ("gpu_metrics", &[8, 0, 9, 9, 0, 0, 0, 0]),
            ("hwmon/hwmon3/power1_average", b"311000000\n"),
            ("hwmon/hwmon3/temp1_input", b"48000\n"),
            ("hwmon/hwmon3/temp2_input", b"63000\n"),
            ("hwmon/hwmon3/freq1_input", b"1700000000\n"),
            ("ras/umc_err_count", b"ue: 1\nce: 4\n"),
            ("ras/gfx_err_count", b"ue: 0\nce: 2\n"),
            ("ras/xgmi_wafl_err_count", b"ue: 3\nce: 7\n"),
            ("pcie_replay_count", b"3\n"),
        ]);
        let seen = sensors.reading();
        assert_eq!((seen.power, seen.temperature), (Some(311_000), Some(63)));
        assert_eq!((seen.clock, seen.memory_clock, seen.reasons), (Some(1700), None, None));
        let counted = sensors.counters();
        assert_eq!((counted.ecc_corrected, counted.ecc_uncorrected), (Some(6), Some(1)));
        assert_eq!(sensors.link_errors(), Some(3));
        assert_eq!((counted.pcie_replays, counted.energy), (Some(3), None));
    }

    #[test]
    fn settings_are_what_the_files_say() {
        let (_folder, sensors) = device(&[]);
        assert_eq!(sensors.settings(), DeviceSettings::default());
        let (_folder, sensors) = device(&[
            ("hwmon/hwmon3/power1_cap", b"750000000\n"),
            ("vbios_version", b"113-M3000100-102\n"),
            ("power_dpm_force_performance_level", b"manual\n"),
            ("ras/features", b"feature mask: 0x7ff\n"),
        ]);
        let settings = sensors.settings();
        assert_eq!((settings.power_limit, settings.ecc), (Some(Watts(750.0)), Some(true)));
        assert_eq!(settings.clock_locks.as_deref(), Some("manual"));
        assert_eq!(settings.vbios.as_deref(), Some("113-M3000100-102"));
        let (_folder, sensors) = device(&[("ras/features", b"feature mask: 0x7fe\n")]);
        assert_eq!(sensors.settings().ecc, Some(false));
    }

    #[test]
    fn reasons_are_told_in_one_vendors_bits() {
        let (_folder, sensors) = device(&[]);
        let bits = |bits| Metrics { throttled_by: Some(bits), ..Metrics::default() };
        assert_eq!(sensors.reasons(&bits(1)), Some(POWER_CAP));
        assert_eq!(sensors.reasons(&bits(1 << 36 | 1 << 17)), Some(THERMAL | BOARD));
        assert_eq!(sensors.reasons(&bits(0)), Some(0));
        let held = |held| Metrics { residencies: Some(held), ..Metrics::default() };
        assert_eq!(sensors.reasons(&held([1, 1, 1, 1, 1])), None);
        assert_eq!(sensors.reasons(&held([1, 9, 1, 1, 1])), Some(POWER_CAP));
        assert_eq!(sensors.reasons(&held([1, 9, 1, 1, 2])), Some(THERMAL));
        assert_eq!(sensors.reasons(&held([1, 9, 1, 1, 2])), Some(0));
    }
}
