//! Writes a store: files of JSON Lines below a folder for each date. A file gets its name once it
//! is whole.

use super::read::{Gather, Sink};
use crate::cmd::{disk, output};
use anyhow::Context as _;
use fizeau_judge::fleet::{gather::Gathered, row::Row};
use fizeau_record::file::{self, Draft, Existing};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    sync::Mutex,
};

/// A file of a store is closed, and the next one begun, from this length on, in bytes.
const FILE_LONG: u64 = 256 << 20;

/// Dates whose files are open at once: a process may have some 1,000 files open.
const OPEN_MAX: usize = 32;

/// Bytes that are written at once.
const WRITTEN: usize = 1 << 20;

/// What chooses another place.
pub const OPTION: &str = "--store DIR";

/// Sessions by their names and runs: whether one came to its end, and how many rows it has.
type Sessions = HashMap<(String, String), (bool, usize)>;

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

/// Takes rows into a store, but for sessions that it has.
pub struct Collect {
    state: Mutex<State>,
    /// The store's folder, which is locked while this is there.
    _lock: File,
}

struct State {
    writer: Writer,
    /// By date.
    known: BTreeMap<String, Sessions>,
    counts: Collected,
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
        let (known, counts, error) = (BTreeMap::new(), Collected::default(), None);
        let state = Mutex::new(State { writer: Writer::new(root), known, counts, error });
        Ok(Collect { state, _lock: lock })
    }

    /// Gives all files their names.
    ///
    /// # Errors
    /// Where the file system has refused.
    pub fn end(self) -> anyhow::Result<Collected> {
        let state = self.state.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        match state.error {
            Some(error) => Err(error),
            None => state.writer.end().map(|()| state.counts),
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
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if state.error.is_none()
            && let Err(error) = state.take(rows)
        {
            state.error = Some(error);
        }
    }
}

impl State {
    fn take(&mut self, rows: &[Row<'_>]) -> anyhow::Result<()> {
        let Some(first) = rows.first() else { return Ok(()) };
        let Some(date) = first.date() else { return Ok(()) };
        if !self.known.contains_key(date) {
            let folder = self.writer.root.join(format!("date={date}"));
            self.known.insert(date.to_owned(), sessions(&self.writer.root, &folder));
        }
        let known = self.known.entry(date.to_owned()).or_default();
        let key = (first.session.to_string(), first.run.to_string());
        let own = (!first.incomplete, rows.len());
        if known.get(&key).is_some_and(|before| *before >= own) {
            self.counts.known += 1;
            return Ok(());
        }
        known.insert(key, own);
        for row in rows {
            self.writer.write(row)?;
        }
        self.counts.sessions += 1;
        self.counts.rows += rows.len();
        Ok(())
    }
}

/// The sessions that a partition of a store has, but for those of files that a survey leaves out,
/// since another user may have put them there.
fn sessions(root: &Path, folder: &Path) -> Sessions {
    let (mut known, own) = (Sessions::new(), disk::owners(root));
    let Ok(entries) = fs::read_dir(folder) else { return known };
    let files = entries.flatten().map(|entry| entry.path());
    for path in files.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl")) {
        if disk::stranger(root, &path, &own).is_some() {
            continue;
        }
        let Ok(file) = file::open(&path) else { continue };
        for line in BufReader::with_capacity(1 << 20, file).split(b'\n') {
            let Ok(line) = line else { break };
            let Ok(row) = Row::parse(&line) else { continue };
            let key = (row.session.into_owned(), row.run.into_owned());
            let (is_whole, rows) = known.entry(key).or_insert((false, 0));
            if *is_whole != row.incomplete {
                *rows += 1;
            } else if !row.incomplete {
                (*is_whole, *rows) = (true, 1);
            }
        }
    }
    known
}
