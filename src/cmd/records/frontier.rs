//! What a run at a ladder of power limits and clocks left in its directory.

use crate::cmd::output::shown;
use anyhow::{Context as _, bail};
use fizeau_device::limits::Limit;
use fizeau_record::{file, store};
use fizeau_report::{Document, Rung, frontier, without_numbers};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What a frontier is made of, in its directory.
pub const FILE: &str = "frontier.json";

/// The version of its shape.
pub const VERSION: u32 = 1;

/// Longest text of [`FILE`], in bytes.
const FILE_MAX: u64 = 1 << 20;

/// What was measured where.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frontier {
    /// The version of this shape: [`VERSION`].
    pub fizeau_frontier: u32,
    /// The rungs, in the order of measurement.
    pub rungs: Vec<Kept>,
    /// What a reader has to know of them, a sentence each.
    pub notes: Vec<String>,
    /// Whether what was set is put back; null where nothing was set.
    pub restored: Option<bool>,
}

/// One rung.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// Where its record is, below the directory of the run.
    pub directory: String,
    /// The limit in words, or that nothing was set.
    pub setting: String,
    /// The limit that was set; `None` where nothing was.
    pub limit: Option<Limit>,
}

/// Whether a directory is that of a frontier.
pub fn is_run(directory: &Path) -> bool {
    !directory.join(store::FILE).exists() && directory.join(FILE).exists()
}

/// The rungs of a frontier and what was noted.
///
/// # Errors
/// Where they cannot be read.
pub fn read(directory: &Path) -> anyhow::Result<(Vec<Rung>, Vec<String>)> {
    let path = directory.join(FILE);
    let text = file::read_text(&path, FILE_MAX).with_context(|| shown(&path))?;
    let kept: Frontier = serde_json::from_str(&text).with_context(|| shown(&path))?;
    if kept.fizeau_frontier != VERSION {
        bail!("{}: version {} is not known", shown(&path), kept.fizeau_frontier);
    }
    let rung = |kept: &Kept| -> anyhow::Result<Rung> {
        if !kept.directory.starts_with("step-") || kept.directory.contains('/') {
            bail!("{}: {:?} is no directory of a rung", shown(&path), kept.directory);
        }
        let record = store::read(&directory.join(&kept.directory))?;
        Ok(Rung { setting: kept.setting.clone(), is_set: kept.limit.is_some(), record })
    };
    Ok((kept.rungs.iter().map(rung).collect::<Result<_, _>>()?, kept.notes))
}

/// The report of a frontier.
///
/// # Errors
/// Where its records cannot be read.
pub fn document(directory: &Path) -> anyhow::Result<Document> {
    let (rungs, notes) = read(directory)?;
    let is_stub = rungs.iter().any(|rung| rung.record.header.device.is_stub());
    let document = frontier(&rungs, &notes);
    Ok(if is_stub { without_numbers(document) } else { document })
}
