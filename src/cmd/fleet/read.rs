//! Reads what was found, on all cores: bundles and records become rows, rows are gathered.

use super::find::Found;
use crate::{
    cmd::{
        bundle::rows::{self, name_of},
        output,
    },
    data::Catalogue,
};
use fizeau_judge::fleet::{
    bundle::{Reader, set_back},
    gather::Gathered,
    problem::Kind,
    row::Row,
};
use fizeau_record::{file, store};
use std::{
    io::{self, BufRead, BufReader, Read as _, Seek as _},
    path::Path,
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
    fn rows(&self, gathered: &mut Gathered, rows: &[Row<'_>], place: &str);
}

/// Gathers all rows.
pub struct Gather;

impl Sink for Gather {
    fn rows(&self, gathered: &mut Gathered, rows: &[Row<'_>], place: &str) {
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
        write!(f, "{} at byte {}", output::shown(self.path), self.at)
    }
}

/// Reads all that was found. `from_records`: also of bundles that keep their rows.
///
/// # Errors
/// Where the profiles for bundles that have none cannot be read.
pub fn read(
    found: &[Found],
    from_records: bool,
    catalogue: &Catalogue,
    sink: &dyn Sink,
) -> anyhow::Result<Gathered> {
    let first = rows::reader(catalogue)?;
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
                let mut reader = first.clone();
                let mut gathered = Gathered::default();
                while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                    take(piece, from_records, &mut reader, sink, &mut gathered);
                }
                // A worker that panicked has said so; what the others gathered is whole.
                let mut all = all.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                all.merge(gathered);
            });
        }
    });
    Ok(all.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

fn take(
    piece: &Piece<'_>,
    from_records: bool,
    reader: &mut Reader,
    sink: &dyn Sink,
    gathered: &mut Gathered,
) {
    match piece {
        Piece::Lines(path, from, to) => {
            if let Err(error) = lines(path, [*from, *to], gathered) {
                let words = format!("{}: {error}", output::shown(path));
                gathered.problems.add(Kind::Unreadable, words);
            }
        }
        Piece::Record(path) => match store::read(path) {
            Ok(record) => {
                if let Some(words) = set_back(&record) {
                    gathered.problems.add(Kind::Clock, format!("{}: {words}", output::shown(path)));
                }
                let rows = reader.record(&name_of(path), &record);
                sink.rows(gathered, &rows, &output::shown(path));
            }
            Err(error) => {
                gathered
                    .problems
                    .add(rows::kind_of(&error), fizeau_domain::text::clean(&error.to_string()));
            }
        },
        Piece::Bundle(path) => {
            let place = output::shown(path);
            if !from_records
                && let Some(text) = rows::kept(path)
                && let Some(rows) = rows::parse(&text)
            {
                return sink.rows(gathered, &rows, &place);
            }
            match rows::from_records(path, reader, &mut gathered.problems) {
                Ok(rows) => sink.rows(gathered, &rows, &place),
                Err(why) => gathered.problems.add(Kind::HalfWritten, format!("{place}: {why}")),
            }
        }
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
                let why = fizeau_domain::text::shorten(&fizeau_domain::text::clean(&why), 120);
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
