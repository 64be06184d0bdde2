//! Files and directories that verbs write.

use super::{exit::Usage, output::shown};
use fizeau_record::{file, store};
use rustix::process::geteuid;
use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// Below the working directory, where records go that are nobody's but this machine's.
pub const LOCAL: &str = "results/local";

/// Refuses to write a report over a record: over one that is read, by whatever name, or over any
/// file that is called as records are.
///
/// # Errors
/// Where it would.
pub fn spare_records(out: Option<&Path>, inputs: &[PathBuf]) -> Result<(), Usage> {
    let Some(out) = out else { return Ok(()) };
    let is_record = out.file_name().is_some_and(|name| name == store::FILE)
        || inputs.iter().any(|input| file::is_same(out, &store::file_of(input)));
    match is_record {
        true => Err(Usage(format!(
            "--out {} would write over a record, which cannot be made again; choose another file",
            out.display()
        ))),
        false => Ok(()),
    }
}

/// Writes a file whole or not at all; `option` is what chooses another place.
///
/// # Errors
/// Where the file system refuses.
pub fn write_file(path: &Path, bytes: &[u8], option: &str) -> anyhow::Result<()> {
    file::write(path, bytes).map_err(|error| unwritable("write", path, error, option))
}

/// Makes a directory and those above it; `option` is what chooses another place.
///
/// # Errors
/// Where the file system refuses.
pub fn make_directory(path: &Path, option: &str) -> anyhow::Result<()> {
    fs::create_dir_all(path).map_err(|error| unwritable("make", path, error, option))
}

fn unwritable(what: &str, path: &Path, error: io::Error, option: &str) -> anyhow::Error {
    let is_file =
        matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory);
    let remedy = match (file::is_forbidden(&error), is_file) {
        (true, _) => format!("; choose a place that you may write to by {option}"),
        (_, true) => format!("; choose a place that is no file by {option}"),
        _ => String::new(),
    };
    anyhow::anyhow!("cannot {what} {}: {error}{remedy}", shown(path))
}

/// What [`newest`] has found.
pub struct Newest<T> {
    /// What stands for the file last written to; none where there is no file.
    pub path: Option<T>,
    /// Files of other users that were skipped.
    pub others: usize,
}

/// Permission bits by which the group, or everybody, may write.
const OTHERS_WRITE: u32 = 0o022;

/// Of files below a folder the one last written to, by what stands for it, and how many were left
/// out because another user may have put them there ([`stranger`]).
pub fn newest<T: Ord>(folder: &Path, files: impl IntoIterator<Item = (PathBuf, T)>) -> Newest<T> {
    let own = geteuid().as_raw();
    let (mut newest, mut others) = (None, 0);
    for (file, path) in files {
        let Ok(found) = fs::metadata(&file) else { continue };
        if stranger(folder, &file, &[own]).is_some() {
            others += 1;
        } else if let Ok(written) = found.modified() {
            newest = newest.max(Some((written, path)));
        }
    }
    Newest { path: newest.map(|(_, path)| path), others }
}

/// Who may have put a file there that a verb has found below a folder by itself, in words; none
/// where it is a file of one of these users and no link leads to it, or where they alone may write
/// to the folders on the way to it. Whatever takes files of a folder that no user has named asks
/// this: otherwise any user who may write there chooses what is taken.
pub fn stranger(folder: &Path, file: &Path, own: &[u32]) -> Option<String> {
    // Below a folder that these users alone write to, they have let whoever owns one.
    let is_shared = |at: &Path| {
        let is_others = |found: &fs::Metadata| at == folder && !own.contains(&found.uid());
        let shared = |found: fs::Metadata| is_others(&found) || found.mode() & OTHERS_WRITE != 0;
        fs::metadata(at).map_or(true, shared)
    };
    let mut above = file.ancestors().skip(1).take_while(|above| above.starts_with(folder));
    if !above.any(is_shared) {
        return None;
    }
    let mut parts = file.ancestors().take_while(|part| *part != folder && part.starts_with(folder));
    if parts.any(Path::is_symlink) {
        return Some("a link".to_owned());
    }
    match fs::symlink_metadata(file) {
        Err(error) => Some(error.to_string()),
        Ok(found) if !own.contains(&found.uid()) => Some(format!("of user {}", found.uid())),
        Ok(_) => None,
    }
}

/// This user, and the one to whom a folder belongs that this user has named.
pub fn owners(folder: &Path) -> Vec<u32> {
    let own = geteuid().as_raw();
    let named = fs::metadata(folder).ok().map(|found| found.uid());
    std::iter::once(own).chain(named).collect()
}

/// A directory that no run has used, named by time and suite or verb.
pub fn new_directory(started: &str, suite: &str) -> PathBuf {
    let name: String = format!("{}-{suite}", started.replace(':', ""))
        .chars()
        .map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' })
        .collect();
    let first = Path::new(LOCAL).join(&name);
    let later = (2..).map(|number| Path::new(LOCAL).join(format!("{name}-{number}")));
    std::iter::once(first.clone()).chain(later).find(|path| !path.exists()).unwrap_or(first)
}
