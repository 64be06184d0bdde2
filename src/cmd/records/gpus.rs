//! What a run of several GPUs left in its directory: a directory for each, with its record.

use fizeau_record::{file, store};
use fizeau_report::GpuRun;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// In a GPU's directory: why its run has no end, in the words of its process.
pub const FAILURE: &str = "failure.txt";

/// Longest text of [`FAILURE`] that is read, in bytes.
const FAILURE_MAX: u64 = 16 << 10;

/// The directories of the GPUs in that of a run, by their names; empty where it is no such run.
pub fn directories(directory: &Path) -> Vec<(String, PathBuf)> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut found: Vec<(String, u32, PathBuf)> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let (family, ordinal) = path.file_name()?.to_str()?.split_once('-')?;
            let ordinal = ordinal.parse().ok()?;
            let is_gpu = ["cuda", "hip"].contains(&family) && path.is_dir();
            is_gpu.then(|| (family.to_owned(), ordinal, path.clone()))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(family, ordinal, path)| (format!("{family}:{ordinal}"), path)).collect()
}

/// Whether a directory is that of a run of several GPUs.
pub fn is_run(directory: &Path) -> bool {
    !directory.join(store::FILE).exists() && !directories(directory).is_empty()
}

/// What each GPU left in the directory of a run.
///
/// # Errors
/// Where a record is there and cannot be read.
pub fn read(directory: &Path) -> anyhow::Result<Vec<GpuRun>> {
    let read_one = |(name, path): (String, PathBuf)| {
        let record = match path.join(store::FILE).exists() {
            true => Some(store::read(&path)?),
            false => None,
        };
        let failure = file::read(&path.join(FAILURE), FAILURE_MAX).ok();
        let failure = failure.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
        Ok(GpuRun { name, record, failure })
    };
    directories(directory).into_iter().map(read_one).collect()
}
