//! Where the ranks of one node write how far they are, in memory they share: who hangs in a
//! collective cannot ask the others through it.

#![expect(unsafe_code, reason = "memory shared between processes")]

use crate::device::Stage;
use rustix::{
    fs::{Mode, OFlags, ftruncate, open, unlink},
    mm::{MapFlags, ProtFlags, mmap, munmap},
};
use std::{
    hash::{BuildHasher, Hasher},
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// Of one rank; a cache line each, so that no rank slows another.
#[repr(C, align(128))]
#[derive(Default)]
struct Slot {
    /// Collectives it has entered, over all cases; those by which ranks agree count too.
    entered: AtomicU64,
    /// Counts on while its process lives.
    beats: AtomicU64,
    /// Counts on while it is at work by itself.
    works: AtomicU64,
    /// Not zero: it has given up, and so must the others; why, as a number of [`Ended`].
    ended: AtomicU64,
    /// What its device answered: [`Stage`] as a number.
    stage: AtomicU64,
}

/// Why a rank has given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A wait was too long.
    Late = 1,
    /// It knows what is wrong, and says so.
    Told = 2,
}

/// The slots of a node's ranks.
pub struct Board {
    slots: *mut Slot,
    count: usize,
}

// SAFETY: the memory is mapped as long as the board lives, and all in it is atomic.
unsafe impl Send for Board {}
// SAFETY: as above.
unsafe impl Sync for Board {}

/// Most ranks of a node. Nothing is kept for those that are not there.
const RANKS_MAX: usize = 1024;

/// A file for a board: of mode 0600 with a name that nobody guesses, in memory. Every rank makes
/// one before it knows who is on its node; they open the first one's. It goes with this.
pub struct BoardFile(PathBuf);

impl BoardFile {
    /// Makes it.
    ///
    /// # Errors
    /// Whatever the file system says.
    pub fn create() -> io::Result<BoardFile> {
        let random = || std::collections::hash_map::RandomState::new().build_hasher().finish();
        let name = format!("fizeau-{:016x}{:016x}", random(), random());
        let path = [Path::new("/dev/shm"), &std::env::temp_dir()]
            .into_iter()
            .find(|folder| folder.is_dir())
            .unwrap_or(Path::new("."))
            .join(name);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        let file = open(&path, flags, Mode::RUSR | Mode::WUSR)?;
        let made = BoardFile(path);
        ftruncate(&file, (RANKS_MAX * size_of::<Slot>()) as u64)?;
        Ok(made)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for BoardFile {
    fn drop(&mut self) {
        // Where it cannot be removed it stays until the node restarts: it is empty.
        let _ = unlink(&self.0);
    }
}

impl Board {
    /// Opens the board of a node, at the first of its ranks' files. Those who have it open keep it
    /// when its name goes.
    ///
    /// # Errors
    /// Whatever the file system says.
    pub fn open(path: &Path, count: usize) -> io::Result<Board> {
        if count > RANKS_MAX {
            return Err(io::Error::other("more ranks on a node than there are slots"));
        }
        let file = open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        Board::map(file, count)
    }

    fn map(file: rustix::fd::OwnedFd, count: usize) -> io::Result<Board> {
        let bytes = count * size_of::<Slot>();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping of a file of that size; nothing else lies there.
        let slots =
            unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, file, 0) }?;
        Ok(Board { slots: slots.cast(), count })
    }

    fn slot(&self, index: usize) -> &Slot {
        assert!(index < self.count, "a rank of this node");
        // SAFETY: within the mapping, whose zeros are valid slots.
        unsafe { &*self.slots.add(index) }
    }

    /// One more collective entered.
    #[inline]
    pub fn enter(&self, index: usize) {
        self.slot(index).entered.fetch_add(1, Ordering::Relaxed);
    }

    /// Collectives that a rank has entered.
    pub fn entered(&self, index: usize) -> u64 {
        self.slot(index).entered.load(Ordering::Relaxed)
    }

    /// Shows that this process lives.
    pub fn beat(&self, index: usize) {
        self.slot(index).beats.fetch_add(1, Ordering::Relaxed);
    }

    /// How often a process has shown that it lives.
    pub fn beats(&self, index: usize) -> u64 {
        self.slot(index).beats.load(Ordering::Relaxed)
    }

    /// Shows that a rank gets on with what it does alone.
    #[inline]
    pub fn work(&self, index: usize) {
        self.slot(index).works.fetch_add(1, Ordering::Relaxed);
    }

    /// How often a rank has entered something or shown that it gets on.
    pub fn steps(&self, index: usize) -> u64 {
        self.entered(index) + self.slot(index).works.load(Ordering::Relaxed)
    }

    /// A rank's device answers so, or is asked ([`Stage::Silent`]).
    pub fn set_stage(&self, index: usize, stage: Stage) {
        self.slot(index).stage.store(stage as u64, Ordering::Release);
    }

    /// What a rank's device has answered.
    pub fn stage(&self, index: usize) -> Stage {
        let found = self.slot(index).stage.load(Ordering::Acquire);
        let stages = [Stage::Silent, Stage::NotBegun, Stage::Begun, Stage::Ended];
        stages.into_iter().find(|&stage| stage as u64 == found).unwrap_or(Stage::Unknown)
    }

    /// Gives up for all.
    pub fn end(&self, index: usize, why: Ended) {
        self.slot(index).ended.store(why as u64, Ordering::Release);
    }

    /// Whether any rank of the node has given up, and why.
    pub fn ended(&self) -> Option<Ended> {
        let of = |index| self.slot(index).ended.load(Ordering::Acquire);
        (0..self.count).map(of).find(|&why| why != 0).map(|why| match why {
            1 => Ended::Late,
            _ => Ended::Told,
        })
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with that length, and nothing borrows from it any more.
        // A mapping that stays does no harm.
        let _ = unsafe { munmap(self.slots.cast(), self.count * size_of::<Slot>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_show_the_same() {
        let file = BoardFile::create().expect("a file");
        let path = file.path().to_owned();
        let one = Board::open(&path, 3).expect("a board");
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(&path).expect("it is there").permissions(),
        );
        assert_eq!(mode & 0o777, 0o600);
        let other = Board::open(&path, 3).expect("the same board");
        drop(file);
        one.enter(2);
        one.enter(2);
        other.beat(1);
        assert_eq!((other.entered(2), other.entered(0), one.beats(1)), (2, 0, 1));
        other.work(2);
        assert_eq!((one.steps(2), one.entered(2)), (3, 2));
        assert_eq!(other.stage(0), Stage::Unknown);
        one.set_stage(0, Stage::Begun);
        assert_eq!(other.stage(0), Stage::Begun);
        assert_eq!(one.ended(), None);
        other.end(0, Ended::Late);
        assert_eq!(one.ended(), Some(Ended::Late));
        assert!(Board::open(&path, 3).is_err());
    }
}
