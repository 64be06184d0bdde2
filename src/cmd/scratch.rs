//! Folders for copies of what others wrote, which this user alone can reach. They go away with the
//! program, also where a signal ends it.

use super::{output, signals};
use anyhow::Context as _;
use signal_hook::{iterator::Handle, low_level::emulate_default_handler};
use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    thread,
};

/// The inverse of the share of a file system that stays free: 20 is 5 %.
const FREE_PART: u64 = 20;

/// Attempts to remove a folder that another thread may still write to.
const REMOVALS: usize = 5;

/// A folder below the system's folder for such (`TMPDIR`).
pub struct Scratch {
    root: PathBuf,
    /// Ends the thread that watches for signals.
    watch: Handle,
}

impl Scratch {
    /// Makes one for a purpose: a word of its name, and words of the message where it cannot be.
    ///
    /// # Errors
    /// Where the file system refuses.
    pub fn new(name: &str, purpose: &str) -> anyhow::Result<Scratch> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).context("no random numbers for a folder's name")?;
        let name = format!("fizeau-{name}-{:016x}", u64::from_le_bytes(random));
        let root = std::env::temp_dir().join(name);
        let made = DirBuilder::new().mode(0o700).create(&root);
        let words = || {
            let folder = output::shown(&root);
            format!("cannot make {folder} {purpose}: set TMPDIR to another folder")
        };
        made.with_context(words)?;
        match goes_with_a_signal(root.clone()) {
            Ok(watch) => Ok(Scratch { root, watch }),
            Err(error) => {
                let _ = fs::remove_dir(&root);
                Err(error)
            }
        }
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Refuses to fill its file system.
    ///
    /// # Errors
    /// Where fewer bytes are free than these and 5 % of all.
    pub fn has_room(&self, bytes: u64) -> io::Result<()> {
        let system = rustix::fs::statvfs(&self.root)?;
        let [free, all] = [system.f_bavail, system.f_blocks].map(|count| count * system.f_frsize);
        if free.saturating_sub(bytes) >= all / FREE_PART {
            return Ok(());
        }
        let words = format!("{} MiB are free in TMPDIR: set it to a folder with more", free >> 20);
        Err(io::Error::other(words))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.watch.close();
        // What is left there is of no use to anybody, and what refuses has no one to hear of it.
        let _ = fs::remove_dir_all(&self.root);
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
