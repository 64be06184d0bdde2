//! Archives of bundles, unpacked into a folder of this process that goes away with it. An archive
//! may come from anybody: nothing of it is written outside of its folder, and its size has a limit.

use crate::cmd::{bundle::files::FILES_MAX, output, signals};
use anyhow::Context as _;
use fizeau_record::file;
use flate2::read::MultiGzDecoder;
use signal_hook::low_level::emulate_default_handler;
use std::{
    collections::HashSet,
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
        let scratch = Scratch { root, count: 0 };
        scratch.goes_with_a_signal()?;
        Ok(scratch)
    }

    /// Removes the folder where a signal ends the program before it is dropped.
    fn goes_with_a_signal(&self) -> anyhow::Result<()> {
        let (mut signals, root) = (signals::caught()?, self.root.clone());
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
        Ok(())
    }

    /// Unpacks an archive, and says where what it held is. Links and devices in it are left out.
    /// The error is what stopped it; what was unpacked before that is there. Else the first file
    /// that is there more than once, of which the last is kept.
    pub fn unpack(&mut self, path: &Path) -> (PathBuf, io::Result<Option<PathBuf>>) {
        let name = path.file_name().unwrap_or_default();
        let folder = self.root.join(self.count.to_string()).join(name);
        self.count += 1;
        let unpacked = unpack(path, &folder);
        (folder, unpacked)
    }
}

/// Attempts to remove a folder that another thread may still write to.
const REMOVALS: usize = 5;

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left there is of no use to anybody, and what refuses has no one to hear of it.
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn unpack(path: &Path, folder: &Path) -> io::Result<Option<PathBuf>> {
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
    let (mut seen, mut twice) = (HashSet::new(), None);
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
        has_room(folder, entry.size())?;
        if kind == EntryType::Directory {
            // Not with the permissions that the archive gives it, which may forbid to remove it.
            fs::create_dir_all(folder.join(name))?;
        } else {
            entry.unpack_in(folder)?;
            if let Some(again) = seen.replace(name) {
                twice.get_or_insert(again);
            }
        }
    }
    if is_empty { Err(io::Error::other("it is empty")) } else { Ok(twice) }
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
