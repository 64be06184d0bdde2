//! Writes a store: files of JSON Lines below a folder for each date. A file gets its name once it
//! is whole.

use super::{
    left,
    read::{Gather, LINE_MAX, Sink, skip_line},
};
use crate::cmd::{disk, output};
use anyhow::Context as _;
use fizeau_judge::fleet::{gather::Gathered, row::Row};
use fizeau_record::file::{self, Draft, Existing};
pub use left::OPTION;
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use std::{
    collections::{BTreeMap, HashSet},
    fs::{self, File},
    hash::{BuildHasher as _, RandomState},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::Mutex,
};

/// A file of a store is closed, and the next one begun, from this length on, in bytes.
const FILE_LONG: u64 = 256 << 20;

/// Dates whose files are open at once: a process may have some 1,000 files open.
const OPEN_MAX: usize = 32;

/// Bytes that are written at once.
const WRITTEN: usize = 1 << 20;

/// The rows that a partition has, as hashes of their lines. Names of sessions would not do: a
/// session is what its bundle says it is, so that a bundle could keep those of another node, or the
/// signed ones of its own, out of the store.
#[derive(Default)]
struct Known {
    /// By a key of this process, so that no sender can make lines that hash alike.
    hasher: RandomState,
    rows: HashSet<u64>,
}

impl Known {
    /// Adds a line, without its end; whether it was new.
    fn add(&mut self, line: &[u8]) -> bool {
        self.rows.insert(self.hasher.hash_one(line))
    }
}

/// Writes rows to the partitions of their dates.
pub struct Writer {
    root: PathBuf,
    open: BTreeMap<String, Partition>,
    whole: Vec<Draft>,
}

struct Partition {
    draft: Draft,
    buffer: Vec<u8>,
    length: u64,
}

impl Writer {
    /// Begins.
    pub fn new(root: &Path) -> Writer {
        Writer { root: root.to_owned(), open: BTreeMap::new(), whole: Vec::new() }
    }

    /// Writes a row. One without a date is left out: readers refuse it.
    ///
    /// # Errors
    /// Where the file system refuses.
    pub fn write(&mut self, row: &Row<'_>) -> anyhow::Result<()> {
        let Some(date) = row.date().map(str::to_owned) else { return Ok(()) };
        let line = row.line();
        // A session is of one date, so that those of the others are whole here.
        if self.open.len() >= OPEN_MAX && !self.open.contains_key(&date) {
            self.name_all()?;
        }
        let partition = match self.open.entry(date) {
            std::collections::btree_map::Entry::Occupied(open) => open.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => {
                let folder = self.root.join(format!("date={}", place.key()));
                disk::make_directory(&folder, OPTION)?;
                let mut random = [0; 8];
                getrandom::fill(&mut random).context("no random numbers for a file's name")?;
                let name = format!("{:016x}.jsonl", u64::from_le_bytes(random));
                let draft = Draft::beside(&folder.join(name));
                let draft = draft.with_context(|| output::shown(&folder))?;
                place.insert(Partition { draft, buffer: Vec::new(), length: 0 })
            }
        };
        partition.buffer.extend_from_slice(line.as_bytes());
        if partition.buffer.len() < WRITTEN {
            return Ok(());
        }
        partition.flush(&self.root)?;
        if partition.length < FILE_LONG {
            return Ok(());
        }
        let date = row.date().unwrap_or_default();
        self.whole.extend(self.open.remove(date).map(|partition| partition.draft));
        Ok(())
    }

    /// Gives all files their names.
    ///
    /// # Errors
    /// Where the file system refuses.
    pub fn end(mut self) -> anyhow::Result<()> {
        self.name_all()
    }

    fn name_all(&mut self) -> anyhow::Result<()> {
        for (_, mut partition) in std::mem::take(&mut self.open) {
            partition.flush(&self.root)?;
            self.whole.push(partition.draft);
        }
        for draft in std::mem::take(&mut self.whole) {
            let place = || format!("cannot write to {}", output::shown(&self.root));
            draft.file().sync_all().with_context(place)?;
            draft.publish(Existing::Kept).with_context(place)?;
        }
        Ok(())
    }
}

impl Partition {
    fn flush(&mut self, root: &Path) -> anyhow::Result<()> {
        let written = self.draft.file().write_all(&self.buffer);
        written.with_context(|| format!("cannot write to {}", output::shown(root)))?;
        self.length += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

/// Takes rows into a store, but for sessions of which it has each row.
pub struct Collect {
    state: Mutex<State>,
    /// The store's folder, which is locked while this is there.
    _lock: File,
}

struct State {
    writer: Writer,
    /// By date.
    known: BTreeMap<String, Known>,
    counts: Collected,
    /// Paths and nodes of which rows were taken.
    used: HashSet<String>,
    error: Option<anyhow::Error>,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Collected {
    /// Sessions that were added.
    pub sessions: usize,
    /// Their rows.
    pub rows: usize,
    /// Sessions that the store had already.
    pub known: usize,
}

impl Collect {
    /// Begins, once no other collection writes to the store: two at once would not know each
    /// other's sessions.
    ///
    /// # Errors
    /// Where the store's folder cannot be made or opened.
    pub fn new(root: &Path) -> anyhow::Result<Collect> {
        disk::make_directory(root, OPTION)?;
        let lock = File::open(root).with_context(|| output::shown(root))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            let place = output::shown(root);
            output::say(&format!("{place}: waiting for another collection into this store"));
            // A file system without locks has said so already, and is written to all the same.
            let _ = flock(&lock, FlockOperation::LockExclusive);
        }
        let state = Mutex::new(State {
            writer: Writer::new(root),
            known: BTreeMap::new(),
            counts: Collected::default(),
            used: HashSet::new(),
            error: None,
        });
        Ok(Collect { state, _lock: lock })
    }

    /// Gives all files their names, and says in the store of what not all could be taken.
    ///
    /// # Errors
    /// Where the file system has refused.
    pub fn end(self, gathered: &Gathered) -> anyhow::Result<Collected> {
        let state = self.state.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        match state.error {
            Some(error) => Err(error),
            None => {
                let root = state.writer.root.clone();
                state.writer.end()?;
                left::tell(&root, gathered, &state.used)?;
                Ok(state.counts)
            }
        }
    }
}

impl Sink for Collect {
    fn rows(&self, gathered: &mut Gathered, rows: &[Row<'_>], place: &str) {
        // What would be refused when it is read has its line now.
        let mut checked = Gathered::default();
        Gather.rows(&mut checked, rows, place);
        checked.end();
        gathered.problems.merge(checked.problems);
        checked.unusable.iter().for_each(|(sender, why)| gathered.unusable(sender, why));
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(row) = rows.first() {
            state.used.extend([place.to_owned(), row.node.to_string()]);
        }
        if state.error.is_none()
            && let Err(error) = state.take(rows)
        {
            state.error = Some(error);
        }
    }
}

impl State {
    fn take(&mut self, rows: &[Row<'_>]) -> anyhow::Result<()> {
        let mut added = 0;
        for row in rows {
            let Some(date) = row.date() else { continue };
            if !self.known.contains_key(date) {
                let folder = self.writer.root.join(format!("date={date}"));
                self.known.insert(date.to_owned(), known(&self.writer.root, &folder));
            }
            let known = self.known.entry(date.to_owned()).or_default();
            if known.add(row.line().as_bytes().trim_ascii_end()) {
                self.writer.write(row)?;
                added += 1;
            }
        }
        self.counts.rows += added;
        self.counts.sessions += usize::from(added > 0);
        self.counts.known += usize::from(added == 0 && !rows.is_empty());
        Ok(())
    }
}

/// The rows that a partition of a store has, but for those of files that a survey leaves out, since
/// another user may have put them there.
fn known(root: &Path, folder: &Path) -> Known {
    let (mut known, own) = (Known::default(), disk::owners(root));
    let Ok(entries) = fs::read_dir(folder) else { return known };
    let files = entries.flatten().map(|entry| entry.path());
    for path in files.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl")) {
        if disk::stranger(root, &path, &own).is_some() {
            continue;
        }
        let Ok(file) = file::open(&path) else { continue };
        let mut reader = BufReader::with_capacity(1 << 20, file);
        let mut line = Vec::new();
        // Longer lines, and one that is cut short, are no rows of what reads the store.
        while let Ok(1..) = reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut line) {
            if line.last() == Some(&b'\n') {
                known.add(line.trim_ascii_end());
            } else if skip_line(&mut reader).is_err() {
                break;
            }
            line.clear();
        }
    }
    known
}
