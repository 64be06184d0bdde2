//! What a reproduction leaves: the claim's file, the suite, the records, and the answer with the
//! hashes of all of them.

use super::known;
use crate::{
    cmd::{
        disk,
        exit::{self, Usage},
        global::Global,
        output,
        parts::part_called,
    },
    data::Catalogue,
};
use anyhow::Context as _;
use fizeau_projection::claim::{self, Claim, Here, Named, Reproduction, judge};
use fizeau_record::{file, store};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// The answer.
pub const FILE: &str = "reproduction.json";

/// The claim.
pub const CLAIM: &str = "claim.toml";

/// The suite that was measured.
pub const SUITE: &str = "suite.toml";

/// The version of the answer's shape.
const VERSION: u32 = 1;

/// Longest file of a bundle that is read, in bytes.
const FILE_MAX: u64 = 1 << 28;

/// How far two computations of one share may be apart.
const SAME: f64 = 1e-9;

/// The answer, with what it rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    fizeau_reproduction: u32,
    /// `reproduced`, `not reproduced` or `cannot tell`.
    pub answer: String,
    why: String,
    claim: String,
    value: String,
    source: Option<String>,
    /// The mean of the processes over the figure; null of a stub.
    pub share: Option<f64>,
    /// Half of the width of its 95 % interval.
    half_width: Option<f64>,
    case: String,
    conditions: Vec<BundledCondition>,
    causes: Vec<String>,
    /// Directories of the processes that count.
    rounds: Vec<String>,
    command: String,
    /// SHA-256 of the program that measured, hexadecimal; in words where it was not computed.
    pub program_sha256: String,
    stub: bool,
    files: Vec<BundledFile>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct BundledCondition {
    name: String,
    stated: String,
    here: String,
    met: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct BundledFile {
    path: String,
    sha256: String,
}

/// The SHA-256 of a file, hexadecimal.
fn hash(path: &Path) -> anyhow::Result<String> {
    let bytes = file::read(path, FILE_MAX).with_context(|| output::shown(path))?;
    Ok(Sha256::digest(&bytes).iter().fold(String::new(), |mut text, byte| {
        // A string takes everything.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

impl Bundle {
    /// The answer of a reproduction whose files are in a directory.
    ///
    /// # Errors
    /// Where one of them cannot be read.
    pub fn of(
        found: &Reproduction,
        claim: &Claim,
        case: &str,
        rounds: &[String],
        command: &str,
        directory: &Path,
    ) -> anyhow::Result<Bundle> {
        let records = rounds.iter().map(|round| format!("{round}/{}", store::FILE));
        let paths = [CLAIM.to_owned(), SUITE.to_owned()].into_iter().chain(records);
        let with_hash = |path: String| {
            let sha256 = hash(&directory.join(&path))?;
            Ok(BundledFile { path, sha256 })
        };
        let files: anyhow::Result<Vec<BundledFile>> = paths.map(with_hash).collect();
        // Without optimisation a hash of the whole program takes seconds.
        let program_sha256 = match cfg!(debug_assertions) {
            true => "not computed by a test build".into(),
            false => hash(&std::env::current_exe().context("this program's own file")?)?,
        };
        let conditions = found.conditions.iter().map(|one| BundledCondition {
            name: one.name.into(),
            stated: one.stated.clone(),
            here: one.here.clone(),
            met: one.met.to_string(),
        });
        Ok(Bundle {
            fizeau_reproduction: VERSION,
            answer: found.answer().into(),
            why: found.why.clone(),
            claim: claim.id.clone(),
            value: claim.value.clone(),
            source: claim.source.clone(),
            share: found.share,
            half_width: found.half,
            case: case.into(),
            conditions: conditions.collect(),
            causes: found.causes.clone(),
            rounds: rounds.to_vec(),
            command: command.into(),
            program_sha256,
            stub: found.is_stub,
            files: files?,
        })
    }

    /// Writes it into the directory.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn write(&self, directory: &Path) -> anyhow::Result<()> {
        let text = fizeau_domain::text::escaped(serde_json::to_string_pretty(self)? + "\n");
        disk::write_file(&directory.join(FILE), text.as_bytes(), "--out DIR")
    }

    /// Its files with their hashes.
    pub fn hashes(&self) -> Vec<(String, String)> {
        self.files.iter().map(|one| (one.path.clone(), one.sha256.clone())).collect()
    }
}

/// Compares the hashes of a bundle, judges its records again and compares the answers: what
/// differs, or how many files are as they were, with the answer.
///
/// # Errors
/// Where there is no bundle, or it cannot be read.
pub fn checked(
    directory: &Path,
    catalogue: &Catalogue,
) -> anyhow::Result<Result<String, Vec<String>>> {
    let path = directory.join(FILE);
    let refuse = |why: String| Usage(format!("{}: {why}", output::shown(&path)));
    let text = file::read_text(&path, FILE_MAX).with_context(|| output::shown(&path))?;
    let bundle: Bundle = serde_json::from_str(&text).map_err(|error| refuse(error.to_string()))?;
    if bundle.fizeau_reproduction != VERSION {
        let version = bundle.fizeau_reproduction;
        return Err(refuse(format!("version {version} is not known")).into());
    }
    let mut faults = Vec::new();
    for BundledFile { path, sha256 } in &bundle.files {
        if !is_inside(path) {
            return Err(refuse(format!("{path:?} is no file of the bundle")).into());
        }
        let now = hash(&directory.join(path))?;
        if now != *sha256 {
            faults.push(format!("{path}: its SHA-256 is {now}, and the answer rests on {sha256}"));
        }
    }
    let listed = |path: &str| bundle.files.iter().any(|one| one.path == path);
    let mut records = Vec::new();
    for round in &bundle.rounds {
        let path = format!("{round}/{}", store::FILE);
        if !listed(&path) {
            return Err(refuse(format!("{path:?} counts and has no hash")).into());
        }
        records.push(store::read(&directory.join(round))?);
    }
    let found = again(&directory.join(CLAIM), catalogue, &bundle.case, &records)?;
    if found.answer() != bundle.answer {
        let (now, then) = (found.answer(), &bundle.answer);
        faults.push(format!("judged again it is {now:?}, and it says {then:?}"));
    }
    let same = match (found.share, bundle.share) {
        (Some(now), Some(then)) => (now - then).abs() <= SAME,
        (now, then) => now == then,
    };
    if !same {
        let (now, then) = (found.share, bundle.share);
        faults.push(format!("judged again its share is {now:?}, and it says {then:?}"));
    }
    if !faults.is_empty() {
        return Ok(Err(faults));
    }
    let (count, answer) = (bundle.files.len(), &bundle.answer);
    let words = "files have the hashes that are stated, and judged again the answer is the same";
    Ok(Ok(format!("{count} {words}: {answer}")))
}

/// Prints what [`checked`] says of a bundle. Exit code 1 where something differs.
///
/// # Errors
/// As [`checked`].
pub fn check(directory: &Path, catalogue: &Catalogue, global: &Global) -> anyhow::Result<ExitCode> {
    let checked = checked(directory, catalogue)?;
    let is_same = checked.is_ok();
    let shown = checked.unwrap_or_else(|faults| faults.join("\n"));
    match global.json {
        true => output::print_json(&serde_json::json!({ "same": is_same, "said": shown }))?,
        false => output::print(&fizeau_domain::text::clean_lines(&shown))?,
    };
    Ok(ExitCode::from(if is_same { 0 } else { exit::FAILED }))
}

/// Whether a path leads to a file below the bundle's directory.
fn is_inside(path: &str) -> bool {
    let parts: Vec<_> =
        PathBuf::from(path).components().map(|c| c.as_os_str().to_owned()).collect();
    !path.starts_with('/') && !parts.iter().any(|part| part == "..")
}

/// Judges records again.
fn again(
    path: &Path,
    catalogue: &Catalogue,
    case: &str,
    records: &[fizeau_record::Record],
) -> anyhow::Result<Reproduction> {
    let mut claim = known(&path.to_string_lossy(), None, catalogue)?.claim;
    let part = claim.on.as_ref().map(|on| part_called(catalogue, "--on", on)).transpose()?;
    let part = part.map(|(part, _)| part);
    claim.on = part.map(|part| part.id.clone()).or(claim.on);
    let links = &catalogue.links;
    let named = Named { part, model: None, layout: None, links };
    let possible = judge(&claim, &named).map_err(anyhow::Error::msg)?;
    let run = claim.run.clone().context("its claim has no [claim.run]")?;
    let here = Here { part, possible: &possible, case, rounds: records };
    claim::reproduce(&claim, &run, here).map_err(anyhow::Error::msg)
}

#[cfg(test)]
mod tests {
    use super::is_inside;

    #[test]
    fn a_bundle_names_no_file_outside_of_it() {
        assert!(is_inside("rounds/01/record.jsonl") && is_inside("claim.toml"));
        assert!(!is_inside("/etc/passwd") && !is_inside("rounds/../../x"));
    }
}
