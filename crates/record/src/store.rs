//! Records on disk: appended line by line, read back whatever became of their writer.
//!
//! Each line is written by one call and synced before the next case starts. A writer that dies
//! leaves at most one line cut short, which readers pass over and a resumed run cuts off.
//!
//! A record may come from anybody. Nothing is read from what is not a plain file, or longer than
//! [`RECORD_MAX`] and [`LINE_MAX`]; every number is held to its limits before anything is computed
//! of it; and reading takes a time that grows with the length alone.

use super::{
    AsDecided, Decided, Header, Line, RESUMED_AT, Record,
    checks::{impossible, renew_intervals, renew_tier},
    limits,
    version::{CURRENT, VERSIONS, Version},
};
use crate::file::{self, Draft, Existing};
use fizeau_domain::{
    case::Case,
    outcome::Outcome,
    text::{self, shorten},
};
use rustix::fs::{FlockOperation, flock};
use serde_json::Value;
use std::{
    borrow::Cow,
    collections::{HashMap, hash_map::Entry},
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::LazyLock,
    thread,
};

/// The record's file in its directory.
pub const FILE: &str = "record.jsonl";

/// Longest record that is read, in bytes: some hundred thousand cases.
pub const RECORD_MAX: u64 = 512 << 20;

/// Longest line of a record, in bytes: a case with as many samples as a suite may ask for, a plan
/// of a hundred thousand cases.
pub const LINE_MAX: usize = 32 << 20;

/// Most memory, in bytes, that the values of one line may take while it is read.
const LINE_MEMORY_MAX: u64 = 512 << 20;

/// Characters of a reason that an error shows.
const REASON_SHOWN: usize = 400;

/// What can go wrong with a record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// There is none.
    #[error(
        "there is no record at {path}: name the directory of a run, which has a {FILE}{}",
        below(path)
    )]
    Missing {
        /// Where.
        path: PathBuf,
    },
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
        "{}; {kept} of {planned} cases are kept in {path}. {}, then continue with `fizeau run \
         --resume {directory}`", no_space(.error)[0], no_space(.error)[1]
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
    /// The same before the first line was whole: there is no record.
    #[error(
        "{}: no record could be begun at {path}. {}, or choose another place by --out DIR",
        no_space(.error)[0], no_space(.error)[1]
    )]
    NotBegun {
        /// Where it was to be.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// What is to be the record's directory is something else.
    #[error("{0} is no directory, which a record needs; choose another --out")]
    NoDirectory(PathBuf),
    /// Another run writes it.
    #[error("{0}: another run is writing this record; wait for it, or choose another --out")]
    Busy(PathBuf),
    /// There is one already.
    #[error("{0} exists; continue that run by --resume, or choose another --out")]
    Exists(PathBuf),
    /// The file system lets nobody write there, or not this user.
    #[error("{path}: {error}; choose a directory that you may write to by --out DIR")]
    Forbidden {
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// What would be written could not be read again.
    #[error(
        "{path}: {what} would be longer than the {} MiB that are read; choose fewer cases or \
         samples", most >> 20
    )]
    TooLong {
        /// Where.
        path: PathBuf,
        /// A line, or the whole.
        what: &'static str,
        /// The most, in bytes.
        most: u64,
    },
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
    /// It is of another run than the one to continue.
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
        let refuse = |error: io::Error| {
            let path = path.clone();
            match error.kind() {
                io::ErrorKind::AlreadyExists => RecordError::Exists(path),
                _ if is_no_space(&error) => RecordError::NotBegun { path, error },
                _ if file::is_forbidden(&error) => RecordError::Forbidden { path, error },
                _ => RecordError::File { path, error },
            }
        };
        fs::create_dir_all(directory).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => RecordError::NoDirectory(directory.to_owned()),
            _ => refuse(error),
        })?;
        if path.symlink_metadata().is_ok() {
            return Err(RecordError::Exists(path));
        }
        // It gets its name once its header is whole: a record that can be seen can be read.
        let draft = Draft::beside(&path).map_err(refuse)?;
        lock(draft.file(), &path)?;
        let planned = header.plan.len();
        let file = draft.file().try_clone().map_err(refuse)?;
        let mut writer = Writer { file, path: path.clone(), length: 0, kept: 0, planned };
        writer.append(&Line::Header(Box::new(header.clone()))).map_err(|error| match error {
            // The draft goes: there is nothing to continue.
            RecordError::Full { path, error, .. } => RecordError::NotBegun { path, error },
            error => error,
        })?;
        draft.publish(Existing::Kept).map_err(refuse)?;
        Ok(writer)
    }

    /// Continues a record: cuts off a last line that is not whole, and appends a header that
    /// says by what and when it is gone on with.
    ///
    /// # Errors
    /// Where there is no record, another run writes it, or it is of another run ([`same_run`]).
    pub fn resume(directory: &Path, header: &Header) -> Result<(Writer, Record), RecordError> {
        let path = directory.join(FILE);
        let refuse = |error| RecordError::File { path: path.clone(), error };
        let file = file::open_to_append(&path).map_err(refuse)?;
        lock(&file, &path)?;
        let text = file::contents(&file, RECORD_MAX).map_err(refuse)?;
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
        let length = self.length + text.len() as u64;
        for (what, length, most) in
            [("a line", text.len() as u64, LINE_MAX as u64), ("the record", length, RECORD_MAX)]
        {
            if length > most {
                return Err(RecordError::TooLong { path: self.path.clone(), what, most });
            }
        }
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // If this fails too, the reader passes over the cut line.
            let _ = self.file.set_len(self.length);
            return Err(self.refusal(error));
        }
        self.length = length;
        self.kept += usize::from(matches!(line, Line::Outcome(_)));
        Ok(())
    }

    fn refusal(&self, error: io::Error) -> RecordError {
        let path = self.path.clone();
        if !is_no_space(&error) {
            return RecordError::File { path, error };
        }
        let directory = path.parent().unwrap_or(Path::new(".")).to_owned();
        let Writer { kept, planned, .. } = *self;
        RecordError::Full { path, directory, kept, planned, error }
    }
}

/// Whether the file system has no more room, or this user or process may take no more of it.
fn is_no_space(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// What has no more room, and what to do about it.
fn no_space(error: &io::Error) -> [String; 2] {
    let (what, remedy) = match error.kind() {
        io::ErrorKind::FileTooLarge => {
            ("a file may be no longer here", "Raise the limit (ulimit -f)")
        }
        io::ErrorKind::QuotaExceeded => ("disk quota used up", "Free space, or raise the quota"),
        _ => ("disk full", "Free space"),
    };
    [format!("{what} ({error})"), remedy.into()]
}

/// Appends a line to a record whose writer hangs, for whoever is about to end the process.
///
/// # Errors
/// Where the file system refuses.
pub fn append_last(directory: &Path, line: &Line) -> io::Result<()> {
    let text = text_of(line)?;
    let mut file = file::open_to_append(&directory.join(FILE))?;
    file.write_all(text.as_bytes())?;
    file.sync_data()
}

fn text_of(line: &Line) -> io::Result<String> {
    Ok(text::escaped(CURRENT.write(line)?) + "\n")
}

/// Looks at a lock of another process, 0.1 s apart: one whose launcher was killed ends in 0.5 s.
const LOCK_LOOKS: usize = 20;

fn lock(file: &File, path: &Path) -> Result<(), RecordError> {
    let busy = Err(rustix::io::Errno::WOULDBLOCK);
    for _ in 0..=LOCK_LOOKS {
        // A file system without locks is no reason not to measure.
        if flock(file, FlockOperation::NonBlockingLockExclusive) != busy {
            return Ok(());
        }
        thread::sleep(std::time::Duration::from_millis(100));
    }
    Err(RecordError::Busy(path.to_owned()))
}

/// Reads a record that nobody writes to meanwhile, and how much of it there was.
///
/// # Errors
/// As [`read`], and where another process writes it.
pub fn read_to_decide(path: &Path) -> Result<(Record, Decided), RecordError> {
    let path = file_of(path);
    let refuse = |error| RecordError::File { path: path.clone(), error };
    let file = file::open(&path).map_err(refuse)?;
    lock(&file, &path)?;
    let text = file::contents(&file, RECORD_MAX).map_err(refuse)?;
    let record = parse(VERSIONS, &path, &text)?;
    let (lines, rest) = text.split_at(whole(&text).len());
    let decided = Decided::of(&record, lines, rest);
    Ok((record, decided))
}

/// Reads as much of a record as it was decided on; all of one that is not listed.
///
/// # Errors
/// As [`read`].
pub fn read_as_decided(path: &Path, all: &[Decided]) -> Result<AsDecided, RecordError> {
    let path = file_of(path);
    let refuse = |error| RecordError::File { path: path.clone(), error };
    let text = file::read(&path, RECORD_MAX).map_err(refuse)?;
    let record = parse(VERSIONS, &path, &text)?;
    let lines = whole(&text);
    let rest = (text.len() - lines.len()) as u64;
    let Some(known) = all.iter().find(|one| one.run == record.header.run) else {
        let (more, is_same, is_listed) = (0, true, false);
        return Ok(AsDecided { record, more, rest: [0, rest], is_listed, is_same });
    };
    let (rest, is_listed) = ([known.rest, rest], true);
    let ends = lines.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let ends: Vec<usize> = ends.map(|(at, _)| at + 1).collect();
    let end = known.lines.checked_sub(1).and_then(|last| ends.get(last)).copied();
    let Some(end) = end else {
        return Ok(AsDecided { record, more: 0, rest, is_listed, is_same: false });
    };
    let own = parse(VERSIONS, &path, &text[..end])?;
    let is_same = Decided::of(&own, &text[..end], &[]).sha256 == known.sha256;
    let more = ends.len() - known.lines;
    Ok(AsDecided { record: own, more, rest, is_listed, is_same })
}

/// The file of a record that is named by it or by its directory.
pub fn file_of(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(FILE) } else { path.to_owned() }
}

/// The first record that a directory below one holds, as the end of a sentence.
fn below(path: &Path) -> String {
    let entries = path.read_dir().into_iter().flatten().filter_map(Result::ok);
    let least = entries.map(|entry| entry.path()).filter(|at| at.join(FILE).is_file()).min();
    least.map_or(String::new(), |path| format!(", such as {}", path.display()))
}

/// Reads a record: a file, or a directory that holds one.
///
/// # Errors
/// Where it cannot be read, is no record, or is of a newer program.
pub fn read(path: &Path) -> Result<Record, RecordError> {
    let file = file_of(path);
    let text = file::read(&file, RECORD_MAX).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => RecordError::Missing { path: path.to_owned() },
        _ => RecordError::File { path: file.clone(), error },
    })?;
    parse(VERSIONS, &file, &text)
}

/// Parses the text of a record, as [`read`] does with a file's.
///
/// # Errors
/// Where it is no record, or is of a newer program.
pub fn parse_text(text: &[u8]) -> Result<Record, RecordError> {
    parse(VERSIONS, Path::new("record"), text)
}

/// The lines that were written to their ends.
fn whole(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    &text[..end]
}

/// The schema of the version that this program writes, which is made once.
static CURRENT_SCHEMA: LazyLock<Value> = LazyLock::new(|| CURRENT.schema());

fn schema_of(version: &Version) -> Cow<'static, Value> {
    if version.number() == CURRENT.number() {
        Cow::Borrowed(&*CURRENT_SCHEMA)
    } else {
        Cow::Owned(version.schema())
    }
}

/// Parses the lines of a record. `versions` are those that can be read, oldest first.
pub(super) fn parse(versions: &[Version], path: &Path, text: &[u8]) -> Result<Record, RecordError> {
    let malformed = |line, why: &str| RecordError::Malformed {
        path: path.to_owned(),
        line,
        why: shorten(why, REASON_SHOWN),
    };
    // A header says in which version the lines after it are.
    let mut version = &versions[0];
    let mut schema = schema_of(version);
    let mut read: Option<Reading> = None;
    let text = text.strip_prefix(file::BYTE_ORDER_MARK).unwrap_or(text);
    let lines = whole(text);
    for (index, text) in lines.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let number = index + 1;
        let refuse = |error: serde_json::Error| malformed(number, &limits::refusal(number, &error));
        if text.len() > LINE_MAX || text::json_memory(text) > LINE_MEMORY_MAX {
            let mebibytes = [text.len() as u64, LINE_MEMORY_MAX].map(|bytes| bytes >> 20);
            let [long, most] = mebibytes;
            let why = format!(
                "this line is {long} MiB long: at most {} MiB are read, and {most} MiB of values",
                LINE_MAX >> 20
            );
            return Err(malformed(number, &why));
        }
        let value: Value = serde_json::from_slice(text).map_err(refuse)?;
        // Before anything else of the line: another version need not parse as this one.
        if let Some(found) = value.get("version").and_then(Value::as_u64) {
            let before = version.number();
            version = find(versions, found, path, number)?;
            if version.number() != before {
                schema = schema_of(version);
            }
        }
        if let Some(why) = limits::fault(&schema, &value) {
            return Err(malformed(number, &why));
        }
        let line = version.read(value).map_err(refuse)?;
        let taken = impossible(&line).map_or(Ok(()), Err).and_then(|()| match (&mut read, line) {
            (Some(read), line) => read.take(line),
            (none, Line::Header(header)) => {
                *none = Some(Reading::of(*header)?);
                Ok(())
            }
            (None, _) => Err("its first line is no header".into()),
        });
        taken.map_err(|why| malformed(number, &why))?;
    }
    let Reading { mut record, thinned, .. } =
        read.ok_or_else(|| malformed(1, limits::without_header(text)))?;
    if thinned > 0 {
        let cases = if thinned == 1 { "case keeps" } else { "cases keep" };
        record.notes.push(format!(
            "{thinned} {cases} fewer samples than the summary counts, which cannot be checked"
        ));
    }
    if lines.len() < text.len() {
        let note = "its last line was cut short and is ignored: the run was killed while it wrote";
        record.notes.push(note.into());
    }
    Ok(record)
}

/// A record of which some lines have been read.
struct Reading {
    record: Record,
    /// The cases of the plan, and whether each has an outcome yet.
    planned: HashMap<Case, bool>,
    /// Cases that keep fewer samples than their summaries count.
    thinned: u32,
}

impl Reading {
    fn of(header: Header) -> Result<Reading, String> {
        let mut planned = HashMap::with_capacity(header.plan.len());
        for case in &header.plan {
            if planned.insert(case.clone(), false).is_some() {
                return Err(format!("{case} is planned twice"));
            }
        }
        let record = Record { header, outcomes: Vec::new(), footer: None, notes: Vec::new() };
        Ok(Reading { record, planned, thinned: 0 })
    }

    fn take(&mut self, line: Line) -> Result<(), String> {
        let Reading { record, planned, .. } = self;
        match line {
            Line::Header(header) => {
                if header.plan != record.header.plan {
                    return Err("it was resumed with another plan".into());
                }
                record.notes.push(format!("{RESUMED_AT}{}", header.started));
                // Over only once the resumed run is.
                record.footer = None;
            }
            Line::Outcome(mut outcome) => {
                match planned.entry(outcome.case().clone()) {
                    Entry::Vacant(_) => return Err("its case was not planned".into()),
                    Entry::Occupied(entry) if *entry.get() => {
                        return Err("its case has an outcome already".into());
                    }
                    Entry::Occupied(mut entry) => *entry.get_mut() = true,
                }
                if let Outcome::Measured(measured) = &mut outcome {
                    self.thinned += u32::from(!renew_intervals(measured));
                    renew_tier(measured, &record.header.device);
                }
                record.outcomes.push(outcome);
            }
            Line::Footer(footer) => record.footer = Some(footer),
        }
        Ok(())
    }
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

/// Refuses to continue a record by a run of another device, suite or program, and names the
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
    let kernels = |header: &Header| {
        let told = header.user_kernels.iter().map(|file| {
            let [sum, beside] = [&file.sha256, &file.section_sha256].map(|sum| shorten(sum, 12));
            format!("{} ({sum}, {beside})", file.path)
        });
        format!("[{}]", told.collect::<Vec<_>>().join(", "))
    };
    hold("list of users' kernels (sha256 of file and .toml)", kernels(old), kernels(new));
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
