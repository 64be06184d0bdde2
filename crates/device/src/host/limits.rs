//! The highest clock that the kernel lets the host's CPUs have (cpufreq, `scaling_max_freq` in
//! kHz).

use crate::limits::{Adjustable, Files, Limit, Limits, Range, number};
use std::{fs, path::Path};

/// All CPUs' limits.
pub struct CpufreqLimits(Result<Files, String>);

impl CpufreqLimits {
    /// Of the CPUs whose folders are below this one: `/sys/devices/system/cpu`.
    pub fn of(cpus: &Path) -> CpufreqLimits {
        let entries = fs::read_dir(cpus).into_iter().flatten().flatten();
        let mut files: Vec<_> =
            entries.map(|cpu| cpu.path().join("cpufreq/scaling_max_freq")).collect();
        files.retain(|file| file.is_file());
        files.sort();
        let missing = format!(
            "no CPU below {} has cpufreq/scaling_max_freq: the firmware or a hypervisor chooses \
             the clock",
            cpus.display()
        );
        CpufreqLimits(Files::open(files, &missing))
    }
}

impl Limits for CpufreqLimits {
    fn adjustable(&self) -> Adjustable {
        let clock = self.0.as_ref().map_err(Clone::clone).and_then(|files| {
            let megahertz = |file| Ok::<f64, String>(number(files.folder(), file)? / 1e3);
            let most = megahertz("cpuinfo_max_freq")?;
            let least = megahertz("cpuinfo_min_freq")?;
            Ok(Range { now: files.before()? / 1e3, least, most, default: most })
        });
        Adjustable { power: Err("a host's power limit is not set by this program".into()), clock }
    }

    fn set(&mut self, limit: Limit) -> Result<(), String> {
        match (limit, &mut self.0) {
            (Limit::Clock(clock), Ok(files)) => files.set((clock.0 * 1e3).round() as u64),
            (Limit::Clock(_), Err(why)) => Err(why.clone()),
            (Limit::Power(_), _) => Err("a host's power limit is not set by this program".into()),
        }
    }

    fn restore(&mut self) -> Result<(), String> {
        self.0.as_mut().map_or(Ok(()), Files::restore)
    }
}
