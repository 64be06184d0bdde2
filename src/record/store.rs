//! Records on disk: appended line by line, read back whatever became of their writer.
//!
//! Each line is written by one call and synced before the next case starts. A writer that dies
//! leaves at most one line cut short, which readers pass over and a resumed run cuts off.

use super::{Header, Line, Record, current::VERSION};
use crate::outcome::Outcome;
use rustix::fs::{FlockOperation, flock};
use std::{
    collections::HashSet,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// The record's file in its directory.
pub const FILE: &str = "record.jsonl";

/// What can go wrong with a record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file system refuses.
    #[error("{path}: {error}")]
    File {
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// No space, or no more allowed. What was recorded before is whole.
    #[error(
        "{path}: {error}; the {kept} outcomes recorded so far are safe. Make room, then go on with \
         `fizeau run --resume {directory}`"
    )]
    Full {
        /// Where.
        path: PathBuf,
        /// Its directory.
        directory: String,
        /// Outcomes that are safe.
        kept: usize,
        /// Why.
        error: io::Error,
    },
    /// Another run writes it.
    #[error("{0}: another run is writing this record; wait for it, or choose another --out")]
    Busy(PathBuf),
    /// There is one already.
    #[error("{0} exists; go on with it by --resume, or choose another --out")]
    Exists(PathBuf),
    /// It is of a later program.
    #[error(
        "{path} has version {found} of the record format, and this fizeau reads up to {VERSION}: \
         use a newer fizeau"
    )]
    Newer {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
    /// It is no record.
    #[error("{path}:{line}: not a record of fizeau: {why}")]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// Where in it.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// It is of another run than the one to go on with.
    #[error("cannot resume {path}: {why}")]
    Different {
        /// Which file.
        path: PathBuf,
        /// What differs.
        why: String,
    },
}

/// Appends to a record.
pub struct Writer {
    file: File,
    path: PathBuf,
    /// Bytes of whole lines.
    length: u64,
    kept: usize,
}

impl Writer {
    /// Starts a record in a directory, which is made if it is not there.
    pub fn create(directory: &Path, header: &Header) -> Result<Writer, RecordError> {
        let path = directory.join(FILE);
        let refuse = |error| RecordError::File { path: path.clone(), error };
        fs::create_dir_all(directory).map_err(refuse)?;
        let file = OpenOptions::new().append(true).create_new(true).open(&path);
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => RecordError::Exists(path.clone()),
            _ => refuse(error),
        })?;
        lock(&file, &path)?;
        let mut writer = Writer { file, path, length: 0, kept: 0 };
        writer.append(&Line::Header(Box::new(header.clone())))?;
        Ok(writer)
    }

    /// Goes on with a record: cuts off a last line that is not whole.
    pub fn resume(directory: &Path) -> Result<(Writer, Record), RecordError> {
        let path = directory.join(FILE);
        let refuse = |error| RecordError::File { path: path.clone(), error };
        let file = OpenOptions::new().append(true).read(true).open(&path).map_err(refuse)?;
        lock(&file, &path)?;
        let text = fs::read(&path).map_err(refuse)?;
        let record = parse(&path, &text)?;
        let length = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at as u64 + 1);
        file.set_len(length).map_err(refuse)?;
        let kept = record.outcomes.len();
        Ok((Writer { file, path, length, kept }, record))
    }

    /// Writes one line and waits until it is on the disk. On failure the file ends with the line
    /// before.
    pub fn append(&mut self, line: &Line) -> Result<(), RecordError> {
        let mut text = serde_json::to_vec(line)
            .map_err(|error| RecordError::File { path: self.path.clone(), error: error.into() })?;
        text.push(b'\n');
        let written = self.file.write_all(&text).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // If this fails too, the reader passes over the cut line.
            let _ = self.file.set_len(self.length);
            return Err(self.refusal(error));
        }
        self.length += text.len() as u64;
        self.kept += usize::from(matches!(line, Line::Outcome(_)));
        Ok(())
    }

    fn refusal(&self, error: io::Error) -> RecordError {
        let path = self.path.clone();
        match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => {
                let directory = path.parent().unwrap_or(Path::new("."));
                let directory = directory.display().to_string();
                RecordError::Full { path, directory, kept: self.kept, error }
            }
            _ => RecordError::File { path, error },
        }
    }
}

fn lock(file: &File, path: &Path) -> Result<(), RecordError> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => Err(RecordError::Busy(path.to_owned())),
        // A file system without locks is no reason not to measure.
        _ => Ok(()),
    }
}

/// Reads a record: a file, or a directory that holds one.
pub fn read(path: &Path) -> Result<Record, RecordError> {
    let path = if path.is_dir() { path.join(FILE) } else { path.to_owned() };
    let text = fs::read(&path).map_err(|error| RecordError::File { path: path.clone(), error })?;
    parse(&path, &text)
}

/// Parses the lines of a record.
fn parse(path: &Path, text: &[u8]) -> Result<Record, RecordError> {
    let mut notes = Vec::new();
    let mut header: Option<Header> = None;
    let mut footer = None;
    let mut outcomes: Vec<Outcome> = Vec::new();
    let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    if whole < text.len() {
        notes.push("its last line was cut short and is passed over: the writer was killed".into());
    }
    for (index, line) in text[..whole].split(|&byte| byte == b'\n').enumerate() {
        if line.is_empty() {
            continue;
        }
        match parse_line(path, index + 1, line)? {
            Line::Header(first) if header.is_none() => header = Some(*first),
            Line::Header(_) => notes.push("it was resumed".into()),
            Line::Outcome(outcome) => outcomes.push(outcome),
            Line::Footer(last) => footer = Some(last),
        }
    }
    let header = header.ok_or_else(|| RecordError::Malformed {
        path: path.to_owned(),
        line: 1,
        why: "it has no header".into(),
    })?;
    // A resumed run is over only by its own footer.
    if outcomes.len() < header.plan.len() {
        footer = footer.filter(|footer| footer.interrupted);
    }
    let mut seen = HashSet::new();
    outcomes.retain(|outcome| seen.insert(outcome.case().clone()));
    Ok(Record { header, outcomes, footer, notes })
}

fn parse_line(path: &Path, line: usize, text: &[u8]) -> Result<Line, RecordError> {
    let malformed = |error: serde_json::Error| RecordError::Malformed {
        path: path.to_owned(),
        line,
        why: error.to_string(),
    };
    // The version first: a later format need not parse as this one.
    let value: serde_json::Value = serde_json::from_slice(text).map_err(malformed)?;
    let version = value.get("version").and_then(serde_json::Value::as_u64);
    if let Some(found) = version
        && found > u64::from(VERSION)
    {
        return Err(RecordError::Newer { path: path.to_owned(), found });
    }
    serde_json::from_value(value).map_err(malformed)
}

/// What stands against going on with a record by this header's run.
pub fn same_run(path: &Path, old: &Header, new: &Header) -> Result<(), RecordError> {
    let mut differences = Vec::new();
    let mut hold = |what: &str, old: &str, new: &str| {
        if old != new {
            differences.push(format!("its {what} is {old:?}, here it is {new:?}"));
        }
    };
    hold("device", &old.device.name, &new.device.name);
    hold("number of units", &old.device.units.to_string(), &new.device.units.to_string());
    hold("fizeau", &old.fizeau, &new.fizeau);
    if differences.is_empty() {
        return Ok(());
    }
    Err(RecordError::Different { path: path.to_owned(), why: differences.join("; ") })
}
