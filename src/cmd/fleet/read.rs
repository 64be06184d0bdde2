//! Reads what was found, on all cores: bundles and records become rows, rows are gathered.

use super::find::{Found, name_of};
use crate::{
    cmd::{self, profile},
    data::Catalogue,
    evidence::file as names,
    file,
    fleet::{
        bundle::{self, Bundle, Reader, VerdictFile},
        gather::Gathered,
        problem::Kind,
        row::Row,
    },
    record::{Record, store},
};
use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufRead, BufReader, Read as _, Seek as _},
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Longest line of a store that is read, in bytes.
const LINE_MAX: u64 = 1 << 20;

/// Bytes of a store that are read at once: a piece of work.
const PIECE: u64 = 32 << 20;

/// Longest file of a bundle that is read whole, in bytes.
const FILE_MAX: u64 = 64 << 20;

/// Most records of a bundle.
const RECORDS_MAX: usize = 20_000;

/// A piece of work.
enum Piece<'f> {
    Bundle(&'f Path),
    Record(&'f Path),
    /// The lines of a file that begin from a place on, up to another.
    Lines(&'f Path, u64, u64),
}

/// What takes rows: gathers them, or writes them to a store.
pub trait Sink: Sync {
    /// Takes the rows of a bundle or record.
    fn rows(&self, gathered: &mut Gathered, rows: Vec<Row<'static>>, place: &str);
}

/// Gathers all rows.
pub struct Gather;

impl Sink for Gather {
    fn rows(&self, gathered: &mut Gathered, rows: Vec<Row<'static>>, place: &str) {
        rows.iter().for_each(|row| gathered.take(row, &place));
    }
}

/// Where a line stands, for messages.
struct Place<'p> {
    path: &'p Path,
    /// Byte at which it begins.
    at: u64,
}

impl std::fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at byte {}", cmd::shown(self.path), self.at)
    }
}

/// Reads all that was found.
///
/// # Errors
/// Where the profiles for bundles that have none cannot be read.
pub fn read(found: &[Found], catalogue: &Catalogue, sink: &dyn Sink) -> anyhow::Result<Gathered> {
    let derived =
        [profile::read(catalogue, "derived-gpu")?, profile::read(catalogue, "derived-host")?];
    let mut pieces = Vec::new();
    for one in found {
        match one {
            Found::Bundle(path) => pieces.push(Piece::Bundle(path)),
            Found::Record(path) => pieces.push(Piece::Record(path)),
            Found::Store(path, length) => {
                let starts = (0..*length).step_by(PIECE as usize);
                pieces.extend(starts.map(|from| Piece::Lines(path, from, from + PIECE)));
            }
        }
    }
    let (next, all) = (AtomicUsize::new(0), Mutex::new(Gathered::default()));
    let workers = thread::available_parallelism().map_or(1, |count| count.get());
    let workers = workers.min(pieces.len()).max(1);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let mut reader = Reader::new(&derived[0], &derived[1]);
                let mut gathered = Gathered::default();
                while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                    take(piece, &mut reader, sink, &mut gathered);
                }
                // A worker that panicked has said so; what the others gathered is whole.
                let mut all = all.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                all.merge(gathered);
            });
        }
    });
    Ok(all.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

fn take(piece: &Piece<'_>, reader: &mut Reader, sink: &dyn Sink, gathered: &mut Gathered) {
    match piece {
        Piece::Lines(path, from, to) => {
            if let Err(error) = lines(path, [*from, *to], gathered) {
                let words = format!("{}: {error}", cmd::shown(path));
                gathered.problems.add(Kind::Unreadable, words);
            }
        }
        Piece::Record(path) => match store::read(path) {
            Ok(record) => {
                if let Some(words) = bundle::set_back(&record) {
                    gathered.problems.add(Kind::Clock, format!("{}: {words}", cmd::shown(path)));
                }
                let rows = reader.record(&name_of(path), &record);
                sink.rows(gathered, rows, &cmd::shown(path));
            }
            Err(error) => {
                gathered.problems.add(kind_of(&error), crate::text::clean(&error.to_string()));
            }
        },
        Piece::Bundle(path) => {
            let place = cmd::shown(path);
            let bundle = read_bundle(path, gathered);
            if let Some(words) = bundle::set_back_in(&bundle) {
                gathered.problems.add(Kind::Clock, format!("{place}: {words}"));
            }
            match reader.bundle(&bundle) {
                Ok(rows) => {
                    if !bundle.is_closed {
                        let words = format!(
                            "{place}: it was not closed (no {}): what is there of it counts, and \
                             its node is no more than inconclusive",
                            names::MANIFEST
                        );
                        gathered.problems.add(Kind::HalfWritten, words);
                    }
                    sink.rows(gathered, rows, &place);
                }
                Err(why) => gathered.problems.add(Kind::HalfWritten, format!("{place}: {why}")),
            }
        }
    }
}

fn kind_of(error: &store::RecordError) -> Kind {
    match error {
        store::RecordError::Newer { .. } => Kind::Newer,
        store::RecordError::Malformed { .. } => Kind::HalfWritten,
        _ => Kind::Unreadable,
    }
}

/// The lines of a file that begin within a range of bytes.
fn lines(path: &Path, [from, to]: [u64; 2], gathered: &mut Gathered) -> io::Result<()> {
    let mut file = file::open(path)?;
    let mut at = from;
    if from > 0 {
        // The line that was begun before belongs to the piece before.
        file.seek(io::SeekFrom::Start(from - 1))?;
        at = from - 1;
    }
    let mut reader = BufReader::with_capacity(1 << 20, file);
    if from > 0 {
        at += skip_line(&mut reader)?;
    }
    let mut line = Vec::new();
    while at < to {
        line.clear();
        let place = Place { path, at };
        let length = reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)? as u64;
        if length == 0 {
            break;
        }
        at += length;
        let is_whole = line.last() == Some(&b'\n');
        if !is_whole {
            let rest = skip_line(&mut reader)?;
            at += rest;
            let (kind, why) = match length {
                LINE_MAX => (Kind::TooMany, "a line is longer than 1 MiB, and is left out"),
                _ => (Kind::HalfWritten, "its last line is cut short, and is left out"),
            };
            gathered.problems.add(kind, format!("{place}: {why}"));
            continue;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        match Row::parse(&line) {
            Ok(row) => gathered.take(&row, &place),
            Err(why) => {
                let is_newer = why.starts_with("it has format");
                let kind = if is_newer { Kind::Newer } else { Kind::NoRow };
                let why = crate::text::shorten(&crate::text::clean(&why), 120);
                gathered.problems.add(kind, format!("{place}: {why}"));
            }
        }
    }
    Ok(())
}

/// Reads up to the end of a line, and says how many bytes that took.
fn skip_line(reader: &mut impl BufRead) -> io::Result<u64> {
    let mut skipped = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(skipped);
        }
        let end = buffer.iter().position(|&byte| byte == b'\n');
        let length = end.map_or(buffer.len(), |end| end + 1);
        reader.consume(length);
        skipped += length as u64;
        if end.is_some() {
            return Ok(skipped);
        }
    }
}

/// What a bundle holds; what is missing of it is absent, and what is spoilt has its line.
fn read_bundle(path: &Path, gathered: &mut Gathered) -> Bundle {
    let mut problem = |kind: Kind, what: &str, why: &str| {
        let words = format!("{}: {}: {}", cmd::shown(path), what, crate::text::clean(why));
        gathered.problems.add(kind, crate::text::shorten(&words, 240));
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
            Err(store::RecordError::Malformed { .. }) => broken += 1,
            Err(error) => problem(kind_of(&error), names::ROUNDS, &error.to_string()),
        }
    }
    if broken > 0 {
        let kind = Kind::HalfWritten;
        problem(kind, names::ROUNDS, &format!("{broken} records are not whole, and are left out"));
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
