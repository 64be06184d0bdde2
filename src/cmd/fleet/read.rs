//! Reads what was found, on all cores: bundles and records become rows, rows are gathered.

use super::find::Found;
use crate::{
    cmd::{
        bundle::{
            files,
            rows::{self, name_of},
            ssh::{self, Checked},
        },
        exit::Usage,
        output,
    },
    data::Catalogue,
};
use fizeau_judge::{
    evidence::{
        file as names,
        manifest::{Manifest, is_signature},
    },
    fleet::{
        bundle::{Reader, set_back},
        gather::Gathered,
        problem::Kind,
        row::{Row, SIGNED, UNSIGNED},
        sender::keep_own,
        signers::{HASH, Keys},
    },
};
use fizeau_record::{file, store};
use std::{
    io::{self, BufRead, BufReader, Read as _, Seek as _},
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Longest line of a store that is read, in bytes.
pub const LINE_MAX: u64 = 1 << 20;

/// Bytes of a store that are read at once: a piece of work.
const PIECE: u64 = 32 << 20;

/// Longest file of signers, and longest signature, in bytes.
const SIGNERS_MAX: u64 = 16 << 20;

/// Why a row of a store, or a record outside of a bundle, does not count under `--challenge`.
const NO_WORD: &str = "--challenge asks for the word of a bundle, and this is of none: give it \
                       bundles, or collect them by it";

/// Why a row of a store does not count under `--allowed-signers`.
const UNSIGNED_ROW: &str = "rows of no bundle whose signature was checked when it was collected";

/// Why a row of a store does not count whose key the list does not have.
const NO_KEY: &str = "the key that signed their bundle is none that --allowed-signers has for the \
                      node";

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
        write!(f, "{} at byte {}", self.file(), self.at)
    }
}

impl Place<'_> {
    fn file(&self) -> String {
        output::shown(self.path)
    }
}

/// How bundles are read.
pub struct How {
    /// Whether the records of bundles that keep their rows are read all the same.
    from_records: bool,
    /// The file of allowed signers, where signed bundles alone count.
    signers: Option<PathBuf>,
    /// Its keys, for rows of stores.
    keys: Keys,
    /// The word that bundles have to have been made for.
    challenge: Option<String>,
}

impl How {
    /// Begins. Without signers every bundle counts.
    ///
    /// # Errors
    /// Where the file of signers cannot be read, or `ssh-keygen` is not there to check them.
    pub fn new(
        from_records: bool,
        signers: Option<&Path>,
        challenge: Option<String>,
    ) -> anyhow::Result<How> {
        let mut keys = Keys::default();
        if let Some(path) = signers {
            let place = || format!("--allowed-signers {}", output::shown(path));
            let text = file::read(path, SIGNERS_MAX);
            let text = text.map_err(|error| Usage(format!("{}: {error}", place())))?;
            keys = Keys::parse(&String::from_utf8_lossy(&text));
            if keys.is_empty() {
                let words = "it names no key: each line is a node, ssh-ed25519 and its public key";
                return Err(Usage(format!("{}: {words}", place())).into());
            }
            ssh::ready()?;
        }
        Ok(How { from_records, signers: signers.map(Path::to_owned), keys, challenge })
    }

    /// Why a row of a store does not count; none where it does.
    fn refusal(&self, row: &Row<'_>) -> Option<&'static str> {
        match &self.signers {
            Some(_) if row.sender != SIGNED => Some(UNSIGNED_ROW),
            Some(_) if !self.keys.has(&row.node, &row.key) => Some(NO_KEY),
            _ => self.challenge.is_some().then_some(NO_WORD),
        }
    }
}

/// Reads all that was found.
///
/// # Errors
/// Where the profiles for bundles that have none cannot be read.
pub fn read(
    found: &[Found],
    how: &How,
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
                    take(piece, how, &mut reader, sink, &mut gathered);
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
    how: &How,
    reader: &mut Reader,
    sink: &dyn Sink,
    gathered: &mut Gathered,
) {
    match piece {
        Piece::Lines(path, from, to) => {
            if let Err(error) = lines(path, [*from, *to], how, gathered) {
                let words = format!("{}: {error}", output::shown(path));
                gathered.problems.add(Kind::Unreadable, words);
            }
        }
        Piece::Record(path) if how.signers.is_some() => {
            let (place, why) = (output::shown(path), "a record outside of a bundle is not signed");
            gathered.unusable(&place, why);
            gathered.problems.add(Kind::Refused, format!("{place}: {why}"));
        }
        Piece::Record(path) if how.challenge.is_some() => {
            let place = output::shown(path);
            gathered.unusable(&place, NO_WORD);
            gathered.problems.add(Kind::Refused, format!("{place}: {NO_WORD}"));
        }
        Piece::Record(path) => match store::read(path) {
            Ok(record) => {
                if let Some(words) = set_back(&record) {
                    gathered.problems.add(Kind::Clock, format!("{}: {words}", output::shown(path)));
                }
                let mut rows = reader.record(&name_of(path), &record);
                rows.iter_mut().for_each(|row| set_sender(row, None));
                sink.rows(gathered, &rows, &output::shown(path));
            }
            Err(error) => {
                gathered
                    .problems
                    .add(rows::kind_of(&error), fizeau_domain::text::clean(&error.to_string()));
            }
        },
        Piece::Bundle(path) => bundle(path, how, reader, sink, gathered),
    }
}

/// Takes the rows of a bundle that are of its own node.
fn bundle(path: &Path, how: &How, reader: &mut Reader, sink: &dyn Sink, gathered: &mut Gathered) {
    let place = output::shown(path);
    let manifest = rows::manifest(path);
    let host = rows::host(path, manifest.as_ref().map(|(_, manifest)| manifest));
    let refuse = |gathered: &mut Gathered, node: Option<&str>, kind: Kind, why: &str| {
        gathered.unusable(node.unwrap_or(&place), why);
        gathered.problems.add(kind, format!("{place}: {why}"));
    };
    let text = manifest.as_ref().filter(|_| !how.from_records);
    let text = text.and_then(|(_, manifest)| rows::kept(path, manifest));
    let kept = text.as_deref().and_then(rows::parse);
    let mut key = None;
    if let Some(signers) = &how.signers {
        let whole = kept.is_none();
        match vouched(path, manifest.as_ref(), host.as_deref(), signers, whole) {
            Ok(own) => key = Some(own),
            Err(why) => return refuse(gathered, host.as_deref(), Kind::Refused, &why),
        }
    }
    if let Some(word) = &how.challenge {
        let own = manifest.as_ref().and_then(|(_, manifest)| rows::challenge(path, manifest));
        if own.as_ref() != Some(word) {
            let why = "it was not made for the word of --challenge";
            return refuse(gathered, host.as_deref(), Kind::Refused, why);
        }
    }
    let made = match kept {
        Some(rows) => Ok(rows),
        None => rows::from_records(path, reader, &mut gathered.problems),
    };
    let mut rows = match made {
        Ok(rows) => rows,
        Err(why) => return refuse(gathered, host.as_deref(), Kind::HalfWritten, &why),
    };
    let is_empty = rows.is_empty();
    let own = keep_own(&mut rows, host.as_deref());
    if let Some(words) = own.words() {
        refuse(gathered, own.node.as_deref(), Kind::Refused, &words);
    } else if is_empty {
        refuse(gathered, own.node.as_deref(), Kind::HalfWritten, "it has no figures");
    }
    rows.iter_mut().for_each(|row| set_sender(row, key.as_deref()));
    sink.rows(gathered, &rows, &place);
}

/// Says who vouches for a row, whatever it said itself: a key, by its fingerprint, or nobody.
fn set_sender(row: &mut Row<'_>, key: Option<&str>) {
    row.sender = if key.is_some() { SIGNED } else { UNSIGNED }.into();
    row.key = key.unwrap_or_default().to_owned().into();
}

/// The fingerprint of the key by which a bundle is signed: one that the operator's list has for its
/// own node. `whole`: all of its files are to be as the manifest has them, and not only those that
/// were read.
fn vouched(
    path: &Path,
    manifest: Option<&(Vec<u8>, Manifest)>,
    host: Option<&str>,
    signers: &Path,
    whole: bool,
) -> Result<String, String> {
    let (bytes, manifest) = manifest.ok_or("it has no manifest that could be signed")?;
    let host = host.ok_or("its identity, as the manifest has it, names no node")?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._-:@".contains(c);
    if host.starts_with('-') || !host.chars().all(is_name) {
        return Err("its node has a name that cannot stand in a list of signers".into());
    }
    let signature = path.join(names::SIGNATURE);
    let text = file::read(&signature, SIGNERS_MAX).map_err(|_| "it is not signed")?;
    if !is_signature(&text) {
        return Err("its signature is not as ssh-keygen writes signatures".into());
    }
    let key = match ssh::check(&signature, bytes, Some((signers, host))) {
        Ok(Checked::Good(said)) => {
            let print = said.split_whitespace().find(|word| word.starts_with(HASH));
            print.unwrap_or_default().to_owned()
        }
        Ok(Checked::Bad(_)) => {
            return Err(format!("it is not signed by a key that --allowed-signers has for {host}"));
        }
        Err(error) => return Err(format!("{error:#}")),
    };
    if !whole {
        return Ok(key);
    }
    let listed = files::list(path).and_then(|listed| files::entries(&listed));
    match manifest.difference(&listed.map_err(|error| format!("{error:#}"))?) {
        Some(difference) => Err(difference.to_string()),
        None => Ok(key),
    }
}

/// The lines of a file that begin within a range of bytes.
fn lines(path: &Path, [from, to]: [u64; 2], how: &How, gathered: &mut Gathered) -> io::Result<()> {
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
            Ok(row) if row.is_of_collection() => gathered.untaken.take(&row),
            Ok(row) => match how.refusal(&row) {
                Some(why) => {
                    gathered.unusable(&row.node, why);
                    gathered.problems.add(Kind::Refused, format!("{}: {why}", place.file()));
                }
                None => gathered.take(&row, &place),
            },
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
pub fn skip_line(reader: &mut impl BufRead) -> io::Result<u64> {
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
