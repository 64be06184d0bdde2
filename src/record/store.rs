//! Records on disk: appended line by line, read back whatever became of their writer.
//!
//! Each line is written by one call and synced before the next case starts. A writer that dies
//! leaves at most one line cut short, which readers pass over and a resumed run cuts off.

use super::{
    Header, Line, Record, limits,
    version::{CURRENT, VERSIONS, Version},
};
use crate::{
    case::{Case, Point},
    outcome::Outcome,
    units::Seconds,
};
use rustix::fs::{FlockOperation, flock};
use serde_json::Value;
use std::{
    collections::HashSet,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// The record's file in its directory.
pub const FILE: &str = "record.jsonl";

/// Its name until its first line is whole.
const DRAFT: &str = ".record.jsonl.draft";

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
        "disk full ({error}); {kept} of {planned} cases are kept in {path}. Make room, then go on \
         with `fizeau run --resume {directory}`"
    )]
    Full {
        /// Where.
        path: PathBuf,
        /// Its directory.
        directory: PathBuf,
        /// Cases whose outcomes are safe.
        kept: usize,
        /// Cases there are to be.
        planned: usize,
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
        "{path} has version {found} of the record format, and this fizeau reads up to version \
         {newest}: update fizeau"
    )]
    Newer {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// The newest version that this program reads.
        newest: u32,
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
    planned: usize,
}

impl Writer {
    /// Starts a record in a directory, which is made if it is not there.
    ///
    /// # Errors
    /// Where there is a record already, another run makes one, or the file system refuses.
    pub fn create(directory: &Path, header: &Header) -> Result<Writer, RecordError> {
        let path = directory.join(FILE);
        let refuse = |error| RecordError::File { path: path.clone(), error };
        fs::create_dir_all(directory).map_err(refuse)?;
        // Under another name until its header is whole: a record that can be seen can be read.
        let draft = directory.join(DRAFT);
        let file = OpenOptions::new().append(true).create(true).open(&draft).map_err(refuse)?;
        lock(&file, &path)?;
        if path.exists() {
            // Left over where two runs began at once; if it stays, it does no harm.
            let _ = fs::remove_file(&draft);
            return Err(RecordError::Exists(path));
        }
        file.set_len(0).map_err(refuse)?;
        let planned = header.plan.len();
        let mut writer = Writer { file, path: path.clone(), length: 0, kept: 0, planned };
        let written = writer.append(&Line::Header(Box::new(header.clone())));
        let named = written.and_then(|()| fs::rename(&draft, &path).map_err(refuse));
        if let Err(error) = named {
            let _ = fs::remove_file(&draft);
            return Err(error);
        }
        // The name is on the disk once the directory is; not every file system syncs one.
        let _ = File::open(directory).and_then(|directory| directory.sync_all());
        Ok(writer)
    }

    /// Goes on with a record: cuts off a last line that is not whole, and appends a header that
    /// says by what and when it is gone on with.
    ///
    /// # Errors
    /// Where there is no record, another run writes it, or it is of another run ([`same_run`]).
    pub fn resume(directory: &Path, header: &Header) -> Result<(Writer, Record), RecordError> {
        let path = directory.join(FILE);
        let refuse = |error| RecordError::File { path: path.clone(), error };
        let file = OpenOptions::new().append(true).read(true).open(&path).map_err(refuse)?;
        lock(&file, &path)?;
        let text = fs::read(&path).map_err(refuse)?;
        let record = parse(VERSIONS, &path, &text)?;
        same_run(&path, &record.header, header)?;
        let length = whole(&text).len() as u64;
        file.set_len(length).map_err(refuse)?;
        let (kept, planned) = (record.outcomes.len(), record.header.plan.len());
        let mut writer = Writer { file, path, length, kept, planned };
        writer.append(&Line::Header(Box::new(header.clone())))?;
        Ok((writer, record))
    }

    /// Writes one line and waits until it is on the disk. On failure the file ends with the line
    /// before.
    ///
    /// # Errors
    /// Where the disk is full or the file system refuses.
    pub fn append(&mut self, line: &Line) -> Result<(), RecordError> {
        let text =
            text_of(line).map_err(|error| RecordError::File { path: self.path.clone(), error })?;
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
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
                let directory = path.parent().unwrap_or(Path::new(".")).to_owned();
                let Writer { kept, planned, .. } = *self;
                RecordError::Full { path, directory, kept, planned, error }
            }
            _ => RecordError::File { path, error },
        }
    }
}

/// Appends a line to a record whose writer hangs, for whoever is about to end the process.
///
/// # Errors
/// Where the file system refuses.
pub fn append_last(directory: &Path, line: &Line) -> io::Result<()> {
    let text = text_of(line)?;
    let mut file = OpenOptions::new().append(true).open(directory.join(FILE))?;
    file.write_all(text.as_bytes())?;
    file.sync_data()
}

fn text_of(line: &Line) -> io::Result<String> {
    Ok(CURRENT.write(line)? + "\n")
}

fn lock(file: &File, path: &Path) -> Result<(), RecordError> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => Err(RecordError::Busy(path.to_owned())),
        // A file system without locks is no reason not to measure.
        _ => Ok(()),
    }
}

/// Reads a record: a file, or a directory that holds one.
///
/// # Errors
/// Where it cannot be read, is no record, or is of a newer program.
pub fn read(path: &Path) -> Result<Record, RecordError> {
    let path = if path.is_dir() { path.join(FILE) } else { path.to_owned() };
    let text = fs::read(&path).map_err(|error| RecordError::File { path: path.clone(), error })?;
    parse(VERSIONS, &path, &text)
}

/// The lines that were written to their ends.
fn whole(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    &text[..end]
}

/// Parses the lines of a record. `versions` are those that can be read, oldest first.
pub(super) fn parse(versions: &[Version], path: &Path, text: &[u8]) -> Result<Record, RecordError> {
    let malformed =
        |line, why: &str| RecordError::Malformed { path: path.to_owned(), line, why: why.into() };
    // A header says in which version the lines after it are.
    let mut version = &versions[0];
    let mut schema = version.schema();
    let mut read: Option<Record> = None;
    let mut seen = HashSet::new();
    let lines = whole(text);
    for (index, text) in lines.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let number = index + 1;
        let refuse = |error: serde_json::Error| malformed(number, &error.to_string());
        let value: Value = serde_json::from_slice(text).map_err(refuse)?;
        // Before anything else of the line: another version need not parse as this one.
        if let Some(found) = value.get("version").and_then(Value::as_u64) {
            let before = version.number();
            version = find(versions, found, path, number)?;
            if version.number() != before {
                schema = version.schema();
            }
        }
        if let Some(why) = limits::fault(&schema, &value) {
            return Err(malformed(number, &why));
        }
        let line = version.read(value).map_err(refuse)?;
        if let Some(why) = impossible(&line) {
            return Err(malformed(number, &why));
        }
        match (line, &mut read) {
            (Line::Header(header), None) => {
                read = Some(Record {
                    header: *header,
                    outcomes: Vec::new(),
                    footer: None,
                    notes: Vec::new(),
                });
            }
            (_, None) => return Err(malformed(number, "its first line is no header")),
            (Line::Header(header), Some(record)) => {
                if header.plan != record.header.plan {
                    return Err(malformed(number, "it was resumed with another plan"));
                }
                record.notes.push(format!("it was resumed at {}", header.started));
                // Over only once the resumed run is.
                record.footer = None;
            }
            (Line::Outcome(outcome), Some(record)) => {
                if !record.header.plan.contains(outcome.case()) {
                    return Err(malformed(number, "its case was not planned"));
                }
                if !seen.insert(outcome.case().clone()) {
                    return Err(malformed(number, "its case has an outcome already"));
                }
                record.outcomes.push(outcome);
            }
            (Line::Footer(footer), Some(record)) => record.footer = Some(footer),
        }
    }
    let mut record = read.ok_or_else(|| malformed(1, "it has no header"))?;
    if lines.len() < text.len() {
        let note = "its last line was cut short and is passed over: the writer was killed";
        record.notes.push(note.into());
    }
    Ok(record)
}

/// The version that a line names.
fn find<'v>(
    versions: &'v [Version],
    found: u64,
    path: &Path,
    line: usize,
) -> Result<&'v Version, RecordError> {
    let path = path.to_owned();
    let newest = versions.iter().map(Version::number).max().unwrap_or_default();
    versions.iter().find(|version| u64::from(version.number()) == found).ok_or_else(|| {
        if found > u64::from(newest) {
            RecordError::Newer { path, found, newest }
        } else {
            let why = format!("there is no version {found} of the record format");
            RecordError::Malformed { path, line, why }
        }
    })
}

/// The most ranks that a world can have.
const RANKS_MAX: u32 = 1 << 20;

/// What no run can have written, where a line holds that: reports divide by these.
fn impossible(line: &Line) -> Option<String> {
    let of_case = |case: &Case| match case.point {
        Point::Collective(point) if !(1..=RANKS_MAX).contains(&point.ranks) => {
            Some(format!("{} ranks", point.ranks))
        }
        _ => None,
    };
    let time = |time: &Seconds| !(time.0 > 0.0 && time.0 < 1e9);
    match line {
        Line::Header(header) => header.plan.iter().find_map(of_case),
        Line::Outcome(Outcome::Measured(measured)) => {
            let found = measured.samples.times.iter().find(|found| time(found));
            found.or(Some(&measured.summary.median).filter(|median| time(median))).map(|found| {
                format!("{} s for {}: no case is measured in that time", found.0, measured.case)
            })
        }
        Line::Outcome(_) | Line::Footer(_) => None,
    }
}

/// Refuses to go on with a record by a run of another device, suite or program, and names the
/// differences.
///
/// # Errors
/// [`RecordError::Different`].
pub fn same_run(path: &Path, old: &Header, new: &Header) -> Result<(), RecordError> {
    let mut differences = Vec::new();
    let mut hold = |what: &str, old: String, new: String| {
        if old != new {
            differences.push(format!("its {what} is {old}, here it is {new}"));
        }
    };
    hold("device", quoted(&old.device.name), quoted(&new.device.name));
    hold("backend", quoted(&old.device.backend), quoted(&new.device.backend));
    hold("number of units", old.device.units.to_string(), new.device.units.to_string());
    let caches = |header: &Header| {
        let caches = header.device.caches.iter();
        caches.map(|cache| cache.size.to_string()).collect::<Vec<_>>().join(", ")
    };
    hold("caches", caches(old), caches(new));
    let cpu = |header: &Header| quoted(&header.environment.cpu);
    hold("CPU", cpu(old), cpu(new));
    // A kernel leaves a little more of the memory or a little less from one start to the next.
    let [memory, here] = [old, new].map(|header| header.device.memory);
    if memory.0.abs_diff(here.0) > memory.0 / 50 {
        hold("memory", memory.to_string(), here.to_string());
    }
    if let (Some(host), Some(here)) = (&old.environment.host, &new.environment.host) {
        hold("host", quoted(host), quoted(here));
    }
    hold("suite", quoted(&old.suite), quoted(&new.suite));
    hold("program's version", quoted(&old.fizeau), quoted(&new.fizeau));
    if let (Some(build), Some(here)) = (&old.build, &new.build) {
        hold("program's build", quoted(build), quoted(here));
    }
    if differences.is_empty() && old.suite_text != new.suite_text {
        differences.push(format!("the suite {:?} is another than it was", old.suite));
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(RecordError::Different { path: path.to_owned(), why: differences.join("; ") })
}

fn quoted(text: &str) -> String {
    format!("{text:?}")
}
