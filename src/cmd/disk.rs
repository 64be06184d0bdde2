//! Files and directories that verbs write.

use super::{exit::Usage, output::shown};
use fizeau_record::{file, store};
use std::{
    fs, io,
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
