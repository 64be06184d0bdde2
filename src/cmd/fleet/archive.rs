//! Archives of bundles, unpacked into a folder of this process that goes away with it. An archive
//! may come from anybody: nothing of it is written outside of its folder, and its size has a limit.

use crate::{cmd, file};
use anyhow::Context as _;
use flate2::read::MultiGzDecoder;
use std::{
    fs::{self, DirBuilder},
    io::{self, BufReader, Read},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};
use tar::{Archive, EntryType};

/// Most bytes that are unpacked of one archive.
const BYTES_MAX: u64 = 64 << 30;

/// Most files and folders of one archive.
const ENTRIES_MAX: usize = 5_000_000;

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
            let folder = cmd::shown(&root);
            format!("cannot make {folder} for what archives hold: set TMPDIR to another folder")
        };
        made.with_context(words)?;
        Ok(Scratch { root, count: 0 })
    }

    /// Unpacks an archive, and says where what it held is. Links and devices in it are left out.
    /// The error is what stopped it; what was unpacked before that is there.
    pub fn unpack(&mut self, path: &Path) -> (PathBuf, io::Result<()>) {
        let name = path.file_name().unwrap_or_default();
        let folder = self.root.join(self.count.to_string()).join(name);
        self.count += 1;
        let unpacked = unpack(path, &folder);
        (folder, unpacked)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left there is of no use to anybody, and what refuses has no one to hear of it.
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn unpack(path: &Path, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let file = BufReader::with_capacity(1 << 20, file::open(path)?);
    let is_packed = path.extension().is_some_and(|ending| ending != "tar");
    let bytes: Box<dyn Read> =
        if is_packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    // What a pack of zeros would unpack to has an end too.
    let mut archive = Archive::new(bytes.take(BYTES_MAX));
    archive.set_preserve_permissions(false);
    archive.set_preserve_mtime(false);
    archive.set_overwrite(true);
    let mut size = 0;
    for (number, entry) in archive.entries()?.enumerate() {
        let mut entry = entry?;
        if number >= ENTRIES_MAX {
            let words = format!("it holds more than {ENTRIES_MAX} files: the rest is left out");
            return Err(io::Error::other(words));
        }
        let kind = entry.header().entry_type();
        if !matches!(kind, EntryType::Regular | EntryType::Continuous | EntryType::Directory) {
            continue;
        }
        size += entry.size();
        if size > BYTES_MAX {
            let words = format!("it holds more than {} GiB: the rest is left out", BYTES_MAX >> 30);
            return Err(io::Error::other(words));
        }
        entry.unpack_in(folder)?;
    }
    Ok(())
}
