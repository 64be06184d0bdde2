//! The energy that the host's packages take, by the processor's own counters (RAPL). The kernel
//! shows them as `/sys/class/powercap/intel-rapl:N`, AMD's too. Since 2020 only root may read them.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where the kernel shows them.
pub const POWERCAP: &str = "/sys/class/powercap";

/// The counters of all packages.
#[derive(Debug)]
pub struct Rapl(Vec<Package>);

#[derive(Debug)]
struct Package {
    file: PathBuf,
    /// The counter begins anew after this much, microjoules.
    range: u64,
}

fn word(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

impl Rapl {
    /// The counters below a folder; none where there are none, or they may not be read.
    pub fn below(folder: &Path) -> Option<Rapl> {
        let mut packages = Vec::new();
        for entry in fs::read_dir(folder).ok()?.flatten() {
            let zone = entry.path();
            // `package-0`; zones within a package (core, dram) have names of their own.
            if !word(&zone.join("name")).is_some_and(|name| name.starts_with("package")) {
                continue;
            }
            let range = word(&zone.join("max_energy_range_uj"))?.parse().ok()?;
            packages.push(Package { file: zone.join("energy_uj"), range });
        }
        let rapl = Rapl(packages);
        (!rapl.0.is_empty() && rapl.read().is_some()).then_some(rapl)
    }

    /// What each counter shows, microjoules.
    pub fn read(&self) -> Option<Vec<u64>> {
        self.0.iter().map(|package| word(&package.file)?.parse().ok()).collect()
    }

    /// Joules from one reading to a later one. A counter that began anew is taken to have done so
    /// once: it takes minutes to come round.
    pub fn joules(&self, before: &[u64], after: &[u64]) -> f64 {
        let grown = self.0.iter().zip(before.iter().zip(after)).map(
            |(package, (before, after))| match after.checked_sub(*before) {
                Some(grown) => grown,
                None => package.range.saturating_sub(*before).saturating_add(*after),
            },
        );
        grown.sum::<u64>() as f64 / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_added_and_counters_begin_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(Rapl::below(folder.path()).is_none());
        for (zone, name, energy) in [
            ("intel-rapl:0", "package-0", "900"),
            ("intel-rapl:1", "package-1", "100"),
            ("intel-rapl:0:0", "core", "77"),
        ] {
            let at = folder.path().join(zone);
            fs::create_dir(&at).expect("made");
            for (file, text) in
                [("name", name), ("energy_uj", energy), ("max_energy_range_uj", "1000")]
            {
                fs::write(at.join(file), text).expect("written");
            }
        }
        let rapl = Rapl::below(folder.path()).expect("two packages");
        let before = rapl.read().expect("read");
        let mut sorted = before.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [100, 900]);
        fs::write(folder.path().join("intel-rapl:0/energy_uj"), "50\n").expect("written");
        fs::write(folder.path().join("intel-rapl:1/energy_uj"), "400\n").expect("written");
        let after = rapl.read().expect("read");
        assert!((rapl.joules(&before, &after) - 450e-6).abs() < 1e-12);
    }
}
