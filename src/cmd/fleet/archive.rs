//! Archives of bundles, unpacked into a folder of this process that goes away with it. An archive
//! may come from anybody: nothing of it is written outside of its folder, and its size has a limit.

use crate::cmd::{bundle::files::FILES_MAX, output, signals};
use anyhow::Context as _;
use fizeau_judge::evidence::file::OF_A_BUNDLE;
use fizeau_record::file;
use flate2::read::MultiGzDecoder;
use signal_hook::{iterator::Handle, low_level::emulate_default_handler};
use std::{
    collections::{BTreeSet, HashSet},
    ffi::OsStr,
    fs::{self, DirBuilder},
    io::{self, BufReader, Read},
    os::unix::fs::DirBuilderExt as _,
    path::{Component, Path, PathBuf},
    thread,
};
use tar::{Archive, EntryType};

/// Most bytes that are unpacked of one archive.
const BYTES_MAX: u64 = 64 << 30;

/// Packed records are a tenth to a hundredth of what they unpack to. What unpacks to more than this
/// multiple of its length, and to more than [`BYTES_FREE`], was made to fill a disk.
const PACKED_MAX: u64 = 300;

/// Bytes that any archive may unpack to.
const BYTES_FREE: u64 = 1 << 30;

/// The inverse of the share of a file system that stays free: 20 is 5 %.
const FREE_PART: u64 = 20;

/// Most files and folders of one archive: those of one bundle.
const ENTRIES_MAX: usize = FILES_MAX;

/// Deepest folder of an archive. Each folder above a file is looked at anew for each of them.
const DEPTH_MAX: usize = 32;

/// Whether a name is that of an archive that can be read.
pub fn is_archive(name: &str) -> bool {
    [".tar", ".tar.gz", ".tgz"].into_iter().any(|ending| name.ends_with(ending))
}

/// The folder that archives are unpacked into.
pub struct Scratch {
    root: PathBuf,
    count: usize,
    /// Ends the thread that watches for signals.
    watch: Handle,
}

impl Scratch {
    /// Makes one below the system's folder for such (`TMPDIR`), which this user alone can enter.
    ///
    /// # Errors
    /// Where the file system refuses.
    pub fn new() -> anyhow::Result<Scratch> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).context("no random numbers for a folder's name")?;
        let name = format!("fizeau-fleet-{:016x}", u64::from_le_bytes(random));
        let root = std::env::temp_dir().join(name);
        let made = DirBuilder::new().mode(0o700).create(&root);
        let words = || {
            let folder = output::shown(&root);
            format!("cannot make {folder} for what archives hold: set TMPDIR to another folder")
        };
        made.with_context(words)?;
        match goes_with_a_signal(root.clone()) {
            Ok(watch) => Ok(Scratch { root, count: 0, watch }),
            Err(error) => {
                let _ = fs::remove_dir(&root);
                Err(error)
            }
        }
    }

    /// Unpacks an archive. Links and devices in it are left out.
    pub fn unpack(&mut self, path: &Path) -> Unpacked {
        let name = path.file_name().unwrap_or_default();
        let folder = self.root.join(self.count.to_string()).join(name);
        self.count += 1;
        let mut unpacked = Unpacked { folder, twice: None, empty: Vec::new(), error: None };
        unpacked.error = unpack(path, &mut unpacked).err();
        unpacked
    }
}

/// Removes a folder where a signal ends the program before the folder's owner is dropped.
fn goes_with_a_signal(root: PathBuf) -> anyhow::Result<Handle> {
    let mut signals = signals::caught()?;
    let watch = signals.handle();
    let hear = move || {
        if let Some(signal) = signals.forever().next() {
            // Another thread may still write there.
            for _ in 0..REMOVALS {
                let _ = fs::remove_dir_all(&root);
            }
            let _ = emulate_default_handler(signal);
        }
    };
    thread::Builder::new().spawn(hear).context("cannot watch for Ctrl-C")?;
    Ok(watch)
}

/// What came of an archive.
pub struct Unpacked {
    /// Where what it held is.
    pub folder: PathBuf,
    /// The first file that is there more than once, of which the last is kept.
    pub twice: Option<PathBuf>,
    /// Its folders without anything in them. They are not made: to make and remove 20,000 of them
    /// took ten seconds.
    pub empty: Vec<PathBuf>,
    /// What stopped it; what was unpacked before that is there.
    pub error: Option<io::Error>,
}

/// Attempts to remove a folder that another thread may still write to.
const REMOVALS: usize = 5;

impl Drop for Scratch {
    fn drop(&mut self) {
        self.watch.close();
        // What is left there is of no use to anybody, and what refuses has no one to hear of it.
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn unpack(path: &Path, unpacked: &mut Unpacked) -> io::Result<()> {
    let mut names = Names::default();
    let read = unpack_files(path, unpacked, &mut names);
    unpacked.empty = names.empty();
    read
}

/// The names in an archive, without those of files themselves.
#[derive(Default)]
struct Names {
    folders: HashSet<PathBuf>,
    /// Folders that anything is in.
    filled: HashSet<PathBuf>,
    /// Folders that files are in, or in folders of them.
    with_files: HashSet<PathBuf>,
    /// Folders with a name in them that only an acceptance leaves.
    of_bundles: HashSet<PathBuf>,
}

impl Names {
    /// Takes the name of an entry. The limit on the depth bounds what that adds.
    fn add(&mut self, name: &Path, is_folder: bool) {
        let above = || name.ancestors().skip(1).map(Path::to_owned);
        self.filled.extend(above());
        if is_folder {
            self.folders.insert(name.to_owned());
        } else {
            self.with_files.extend(above());
        }
        let is_of_bundle = |last: &OsStr| OF_A_BUNDLE.iter().any(|of| last == *of);
        if name.file_name().is_some_and(is_of_bundle) {
            self.of_bundles.extend(name.parent().map(Path::to_owned));
        }
    }

    /// The folders that hold nothing; of a bundle without files its own folder. Those within a
    /// bundle that has files are none.
    fn empty(&self) -> Vec<PathBuf> {
        let one = |folder: &PathBuf| {
            let owner = folder.ancestors().filter(|above| self.of_bundles.contains(*above)).last();
            match owner {
                Some(owner) if self.with_files.contains(owner) => None,
                Some(owner) => Some(owner.to_owned()),
                None => Some(folder.clone()),
            }
        };
        let without = self.folders.iter().filter(|folder| !self.filled.contains(*folder));
        without.filter_map(one).collect::<BTreeSet<PathBuf>>().into_iter().collect()
    }
}

fn unpack_files(path: &Path, unpacked: &mut Unpacked, names: &mut Names) -> io::Result<()> {
    let folder = &unpacked.folder;
    fs::create_dir_all(folder)?;
    let file = file::open(path)?;
    let most = file.metadata()?.len().saturating_mul(PACKED_MAX).clamp(BYTES_FREE, BYTES_MAX);
    let file = BufReader::with_capacity(1 << 20, file);
    let is_packed = path.extension().is_some_and(|ending| ending != "tar");
    let bytes: Box<dyn Read> =
        if is_packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    // What a pack of zeros would unpack to has an end too.
    let mut archive = Archive::new(bytes.take(most));
    archive.set_preserve_permissions(false);
    archive.set_preserve_mtime(false);
    archive.set_overwrite(true);
    let (mut size, mut is_empty) = (0, true);
    let mut seen = HashSet::new();
    for (number, entry) in archive.entries()?.enumerate() {
        let mut entry = entry?;
        is_empty = false;
        if number >= ENTRIES_MAX {
            let words = format!("it holds more than {ENTRIES_MAX} files: the rest is left out");
            return Err(io::Error::other(words));
        }
        let kind = entry.header().entry_type();
        if !matches!(kind, EntryType::Regular | EntryType::Continuous | EntryType::Directory) {
            continue;
        }
        let name = below(&entry.path()?);
        if name.components().count() > DEPTH_MAX {
            let words =
                format!("it has more than {DEPTH_MAX} folders in each other: the rest is left out");
            return Err(io::Error::other(words));
        }
        size += entry.size();
        if size > most {
            let words = format!("it holds more than {} MiB: the rest is left out", most >> 20);
            return Err(io::Error::other(words));
        }
        names.add(&name, kind == EntryType::Directory);
        if kind == EntryType::Directory {
            continue;
        }
        has_room(folder, entry.size())?;
        entry.unpack_in(folder)?;
        if let Some(again) = seen.replace(name) {
            unpacked.twice.get_or_insert(again);
        }
    }
    if is_empty { Err(io::Error::other("it is empty")) } else { Ok(()) }
}

/// A path without what leads out of a folder.
fn below(path: &Path) -> PathBuf {
    let names = path.components().filter(|part| matches!(part, Component::Normal(_)));
    names.collect()
}

/// Refuses to fill the file system of a folder.
fn has_room(folder: &Path, bytes: u64) -> io::Result<()> {
    let system = rustix::fs::statvfs(folder)?;
    let [free, all] = [system.f_bavail, system.f_blocks].map(|count| count * system.f_frsize);
    if free.saturating_sub(bytes) >= all / FREE_PART {
        return Ok(());
    }
    let words = format!("{} MiB are free in TMPDIR: set it to a folder with more", free >> 20);
    Err(io::Error::other(words))
}
