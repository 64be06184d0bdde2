//! Profiles by their names, and the runs that an acceptance left.

use super::exit::Usage;
use crate::data::Catalogue;
use fizeau_domain::spec::Properties;
use fizeau_judge::{
    accept::{learn::Run, profile::Profile},
    evidence::file::ROUNDS,
};
use fizeau_record::{Record, store};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// A profile by its name or file. Its suites' files are named from its own.
///
/// # Errors
/// Where there is none, or its text is no profile.
pub fn read(catalogue: &Catalogue, name: &str) -> anyhow::Result<Profile> {
    let text = catalogue.profile(name).map_err(|error| Usage(error.to_string()))?;
    let profile = Profile::parse(&text).map_err(|why| Usage(format!("{name}: {why}")))?;
    let is_file = name.ends_with(".toml");
    let folder = Path::new(name).parent().filter(|_| is_file).map(Path::to_owned);
    Ok(Profile { folder: folder.unwrap_or_default(), ..profile })
}

/// The profile of a device for which none is given: floors from the speed of light alone.
///
/// # Errors
/// Where the catalogue that the user laid over ours has spoilt it.
pub fn derived(catalogue: &Catalogue, device: &Properties) -> anyhow::Result<Profile> {
    read(catalogue, if device.backend == "host" { "derived-host" } else { "derived-gpu" })
}

/// Runs from paths: a directory of an acceptance has one for each of its devices, whose repeats are
/// its records; any other path is one record.
///
/// # Errors
/// Where a record cannot be read.
pub fn runs(paths: &[PathBuf]) -> anyhow::Result<Vec<Run>> {
    let mut runs = Vec::new();
    for path in paths {
        let rounds = path.join(ROUNDS);
        if !rounds.is_dir() {
            runs.push(Run { records: vec![store::read(path)?] });
            continue;
        }
        let mut by_device: BTreeMap<(String, u32), Vec<Record>> = BTreeMap::new();
        for entry in fs::read_dir(&rounds)?.flatten() {
            // One that was killed early is not there.
            let Ok(record) = store::read(&entry.path()) else { continue };
            let device = &record.header.device;
            by_device.entry((device.backend.clone(), device.ordinal)).or_default().push(record);
        }
        runs.extend(by_device.into_values().map(|records| Run { records }));
    }
    Ok(runs)
}
