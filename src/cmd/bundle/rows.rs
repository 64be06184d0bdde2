//! What the directory of a bundle holds. An acceptance that is closed keeps its rows beside its
//! records, so that whoever surveys many bundles reads a few KiB of each.

use super::files;
use crate::{
    cmd::{output, profiles},
    data::Catalogue,
};
use fizeau_domain::text::{agreed, counted, hex};
use fizeau_judge::{
    evidence::{account::Account, file as names, manifest::Manifest},
    fleet::{
        bundle::{self, Bundle, Reader, VerdictFile},
        problem::{Kind, Problems},
        row::Row,
    },
};
use fizeau_record::{Record, file, identity::Identity, store};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

/// Longest file of a bundle that is read whole, in bytes.
const FILE_MAX: u64 = 64 << 20;

/// Most records of a bundle.
const RECORDS_MAX: usize = 20_000;

/// The rows that the records of a bundle come to, as a file. None where something has to be said of
/// its records, or where it does not name its node: who surveys it reads the records then.
///
/// # Errors
/// Where the profiles for bundles that have none cannot be read.
pub fn rows_file(directory: &Path, catalogue: &Catalogue) -> anyhow::Result<Option<String>> {
    let mut problems = Problems::default();
    let mut bundle = read(directory, &mut problems);
    (bundle.is_closed, bundle.name) = (true, String::new());
    if !problems.is_empty() || bundle::set_back_in(&bundle).is_some() {
        return Ok(None);
    }
    let Ok(rows) = reader(catalogue)?.bundle(&bundle) else { return Ok(None) };
    let is_named = !rows.is_empty() && rows.iter().all(|row| !row.node.is_empty());
    Ok(is_named.then(|| rows.iter().map(Row::line).collect()))
}

/// The manifest of a bundle, with its bytes; none where it has none, or one that cannot be read.
pub fn manifest(directory: &Path) -> Option<(Vec<u8>, Manifest)> {
    let bytes = file::read(&directory.join(names::MANIFEST), files::FILE_MAX).ok()?;
    let manifest = Manifest::parse(&bytes).ok()?;
    Some((bytes, manifest))
}

/// The rows that a bundle keeps, as its manifest has them; none where it keeps none, or has
/// changed.
pub fn kept(directory: &Path, manifest: &Manifest) -> Option<Vec<u8>> {
    as_listed(directory, manifest, names::ROWS)
}

/// The node that a bundle speaks for: the host of its identity. None where that was left out, or
/// is not as the manifest has it. Without a manifest it is the one of the file.
pub fn host(directory: &Path, manifest: Option<&Manifest>) -> Option<String> {
    let text = match manifest {
        Some(manifest) => as_listed(directory, manifest, names::IDENTITY)?,
        None => file::read(&directory.join(names::IDENTITY), FILE_MAX).ok()?,
    };
    serde_json::from_slice::<Identity>(&text).ok()?.host
}

/// The word that a bundle was made for; none without a manifest that has its account.
pub fn challenge(directory: &Path, manifest: &Manifest) -> Option<String> {
    let text = as_listed(directory, manifest, names::ACCOUNT)?;
    serde_json::from_slice::<Account>(&text).ok()?.challenge
}

/// A file of a bundle whose hash is the one that the manifest has.
fn as_listed(directory: &Path, manifest: &Manifest, name: &str) -> Option<Vec<u8>> {
    let entry = manifest.files.iter().find(|entry| entry.path == name)?;
    let text = file::read(&directory.join(name), FILE_MAX).ok()?;
    (hex(&Sha256::digest(&text)) == entry.sha256).then_some(text)
}

/// Reads rows that a bundle keeps.
pub fn parse(text: &[u8]) -> Option<Vec<Row<'_>>> {
    let lines = text.strip_suffix(b"\n")?.split(|&byte| byte == b'\n');
    lines.map(|line| Row::parse(line).ok()).collect()
}

/// The rows of the records of a bundle.
///
/// # Errors
/// In words, as [`Reader::bundle`].
pub fn from_records(
    directory: &Path,
    reader: &mut Reader,
    problems: &mut Problems,
) -> Result<Vec<Row<'static>>, String> {
    let place = output::shown(directory);
    let bundle = read(directory, problems);
    if let Some(words) = bundle::set_back_in(&bundle) {
        problems.add(Kind::Clock, format!("{place}: {words}"));
    }
    let rows = reader.bundle(&bundle)?;
    if !bundle.is_closed {
        let words = format!(
            "{place}: it was not closed (no {}): what is there of it counts, and its node is no \
             more than inconclusive",
            names::MANIFEST
        );
        problems.add(Kind::HalfWritten, words);
    }
    Ok(rows)
}

/// What a bundle holds; what is missing of it is absent, and what is spoilt has its line.
fn read(path: &Path, problems: &mut Problems) -> Bundle {
    let mut problem = |kind: Kind, what: &str, why: &str| {
        let words =
            format!("{}: {}: {}", output::shown(path), what, fizeau_domain::text::clean(why));
        problems.add(kind, fizeau_domain::text::shorten(&words, 240));
    };
    let mut spoilt = |what: &str, why: &str| problem(Kind::HalfWritten, what, why);
    let mut bundle = Bundle { name: name_of(path), ..Bundle::default() };
    bundle.is_closed = path.join(names::MANIFEST).exists();
    bundle.identity = json(path, names::IDENTITY, &mut spoilt);
    bundle.account = json(path, names::ACCOUNT, &mut spoilt);
    bundle.verdict = json::<VerdictFile>(path, names::VERDICT, &mut spoilt);
    for group in bundle.account.iter().flat_map(|account| &account.groups) {
        // The path comes from a file that others may have written.
        let is_below = group.profile.starts_with(names::PROFILES) && !group.profile.contains("..");
        let text = match is_below {
            true => file::read_text(&path.join(&group.profile), FILE_MAX),
            false => Err(io::Error::other("it is not below the bundle's profiles")),
        };
        match text {
            Ok(text) => drop(bundle.profiles.insert(group.profile.clone(), text)),
            Err(error) => spoilt(&group.profile, &error.to_string()),
        }
    }
    let mut by_run: BTreeMap<String, Record> = BTreeMap::new();
    let mut broken = 0;
    for record in records(&path.join(names::ROUNDS)) {
        match store::read(&record) {
            Ok(record) => drop(by_run.insert(record.header.run.clone(), record)),
            // One that was killed before its header was whole says nothing.
            Err(store::RecordError::Malformed { line: 1, .. }) => broken += 1,
            Err(error) => problem(kind_of(&error), names::ROUNDS, &error.to_string()),
        }
    }
    if broken > 0 {
        let kind = Kind::Begun;
        let records = counted(broken, "record");
        let are = agreed(broken, "is", "are");
        let words = format!("{records} {are} not whole, and {are} left out");
        problem(kind, names::ROUNDS, &words);
    }
    bundle.records = by_run.into_values().collect();
    bundle
}

/// The records below the folder of a bundle's rounds.
fn records(rounds: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(rounds) else { return Vec::new() };
    let below = entries.flatten().take(RECORDS_MAX).map(|entry| entry.path().join(store::FILE));
    let mut all: Vec<PathBuf> = below.filter(|path| path.is_file()).collect();
    all.sort();
    all
}

fn json<T: serde::de::DeserializeOwned>(
    path: &Path,
    name: &str,
    spoilt: &mut dyn FnMut(&str, &str),
) -> Option<T> {
    let text = match file::read_text(&path.join(name), FILE_MAX) {
        Ok(text) => text,
        Err(error) => {
            // A bundle that was not closed has no account yet.
            if error.kind() != io::ErrorKind::NotFound {
                spoilt(name, &error.to_string());
            }
            return None;
        }
    };
    match serde_json::from_str(&text) {
        Ok(value) => Some(value),
        Err(error) => {
            spoilt(name, &error.to_string());
            None
        }
    }
}

/// What makes rows of bundles and records.
///
/// # Errors
/// Where the profiles for bundles that have none cannot be read.
pub fn reader(catalogue: &Catalogue) -> anyhow::Result<Reader> {
    let derived = |name| profiles::read(catalogue, name);
    Ok(Reader::new(&derived("derived-gpu")?, &derived("derived-host")?))
}

/// What kind of problem a record that cannot be read is.
pub fn kind_of(error: &store::RecordError) -> Kind {
    match error {
        store::RecordError::Newer { .. } => Kind::Newer,
        store::RecordError::Malformed { .. } => Kind::HalfWritten,
        _ => Kind::Unreadable,
    }
}

/// The name of the folder that a record or bundle is in.
pub fn name_of(path: &Path) -> String {
    let folder = if path.is_dir() { Some(path) } else { path.parent() };
    let absolute = folder.map(|folder| std::path::absolute(folder).unwrap_or(folder.to_owned()));
    let name = absolute.as_deref().and_then(Path::file_name);
    name.map_or_else(|| "unnamed".into(), |name| name.to_string_lossy().into_owned())
}
