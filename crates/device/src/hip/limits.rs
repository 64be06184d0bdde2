//! Limits of an AMD GPU: the power cap of its hwmon (the kernel's amdgpu, `power1_cap` in
//! microwatts). Its clocks are not set here: each generation has tables of its own for them.

use crate::limits::{Adjustable, Files, Limit, Limits, Range, number};
use std::{fs, path::Path};

/// One device's limits.
pub struct HwmonLimits(Result<Files, String>);

impl HwmonLimits {
    /// Of the device whose folder on the PCI bus this is.
    pub fn of(folder: &Path) -> HwmonLimits {
        let entries = fs::read_dir(folder.join("hwmon")).into_iter().flatten().flatten();
        let mut caps: Vec<_> = entries.map(|entry| entry.path().join("power1_cap")).collect();
        caps.sort();
        caps.retain(|cap| cap.is_file());
        caps.truncate(1);
        let missing = format!("{} has no power1_cap", folder.join("hwmon").display());
        HwmonLimits(Files::open(caps, &missing))
    }
}

impl Limits for HwmonLimits {
    fn adjustable(&self) -> Adjustable {
        let power = self.0.as_ref().map_err(Clone::clone).and_then(|files| {
            let watts = |file| Ok::<f64, String>(number(files.folder(), file)? / 1e6);
            let most = watts("power1_cap_max")?;
            Ok(Range {
                now: files.before()? / 1e6,
                least: watts("power1_cap_min").unwrap_or(0.0),
                most,
                default: watts("power1_cap_default").unwrap_or(most),
            })
        });
        let clock = Err("clocks of AMD's GPUs are not set by this program".into());
        Adjustable { power, clock }
    }

    fn set(&mut self, limit: Limit) -> Result<(), String> {
        match (limit, &mut self.0) {
            (Limit::Power(watts), Ok(files)) => files.set((watts.0 * 1e6).round() as u64),
            (Limit::Power(_), Err(why)) => Err(why.clone()),
            (Limit::Clock(_), _) => Err("clocks of AMD's GPUs are not set by this program".into()),
        }
    }

    fn restore(&mut self) -> Result<(), String> {
        self.0.as_mut().map_or(Ok(()), Files::restore)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fizeau_domain::units::{Megahertz, Watts};

    #[test]
    fn a_power_cap_is_set_and_put_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let hwmon = folder.path().join("hwmon/hwmon3");
        fs::create_dir_all(&hwmon).expect("made");
        for (file, text) in [
            ("power1_cap", "750000000"),
            ("power1_cap_max", "750000000"),
            ("power1_cap_min", "0"),
            ("power1_cap_default", "750000000"),
        ] {
            fs::write(hwmon.join(file), text).expect("written");
        }
        let mut limits = HwmonLimits::of(folder.path());
        let range = limits.adjustable().power.expect("a range");
        assert_eq!((range.now, range.least, range.default), (750.0, 0.0, 750.0));
        limits.set(Limit::Power(Watts(500.0))).expect("set");
        let cap = || fs::read_to_string(hwmon.join("power1_cap")).expect("there");
        assert_eq!(cap().trim(), "500000000");
        assert!(limits.set(Limit::Clock(Megahertz(900.0))).is_err());
        limits.restore().expect("put back");
        assert_eq!(cap().trim(), "750000000");
        let none = HwmonLimits::of(&folder.path().join("elsewhere"));
        assert!(none.adjustable().power.expect_err("no files").contains("power1_cap"));
    }
}
