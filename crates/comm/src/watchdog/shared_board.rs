//! Where the ranks of one node write how far they are, in memory they share: who hangs in a
//! collective cannot ask the others through it.

#![expect(unsafe_code, reason = "memory shared between processes")]

use crate::{private, random::random};
use fizeau_device::Stage;
use fizeau_domain::text::hex;
use rustix::{
    fd::OwnedFd,
    fs::{FallocateFlags, fallocate, ftruncate},
    io::Errno,
    mm::{MapFlags, ProtFlags, mmap, munmap},
};
use std::{
    io,
    path::PathBuf,
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

/// Size of a board's file in bytes.
const SIZE: u64 = (RANKS_MAX * size_of::<Slot>()) as u64;

/// A file for a board in a directory of this user alone, in memory where there is such. Every rank
/// makes one before it knows who is on its node; they open the first one's. It goes with this.
pub struct BoardFile(private::Entry);

/// Makes the file of a board as long as it has to be, with memory behind all of it: where there is
/// none left, this fails, and no rank dies of SIGBUS when it writes to its slot.
fn reserve(file: &OwnedFd) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, SIZE) {
        // A file system that cannot reserve.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(ftruncate(file, SIZE)?),
        reserved => Ok(reserved?),
    }
}

/// Where boards are, best first: the same for all ranks of a node.
fn parents() -> [PathBuf; 2] {
    ["/dev/shm".into(), std::env::temp_dir()]
}

/// Digits of a board's name.
const NAME_DIGITS: usize = 32;

impl BoardFile {
    /// Makes it.
    ///
    /// # Errors
    /// Whatever the file system says.
    pub fn create() -> io::Result<BoardFile> {
        let name = hex(&random::<{ NAME_DIGITS / 2 }>()?);
        let made = private::create_file(&parents(), &name)?;
        reserve(made.file())?;
        Ok(BoardFile(made))
    }

    /// Its name, by which another process of this user opens it with [`Board::open`].
    pub fn name(&self) -> &str {
        self.0.name()
    }
}

impl Board {
    /// Opens the board of a node by the name of its first rank's file. Those who have it open keep
    /// it when its name goes.
    ///
    /// # Errors
    /// Where the name is none that [`BoardFile::create`] gives, there is no such file of this user,
    /// or the file has another size.
    pub fn open(name: &str, count: usize) -> io::Result<Board> {
        if count > RANKS_MAX {
            return Err(io::Error::other("more ranks on a node than there are slots"));
        }
        // It comes from another process, and names no other place.
        if name.len() != NAME_DIGITS || !name.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(io::Error::other("no name of a board"));
        }
        let (file, size) = private::open_file(&parents(), name)?;
        if size != SIZE {
            return Err(io::Error::other(format!("a board of {size} bytes and not of {SIZE}")));
        }
        Board::map(file, count)
    }

    /// Maps the first slots of a file that is at least as long.
    fn map(file: OwnedFd, count: usize) -> io::Result<Board> {
        let bytes = count * size_of::<Slot>();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, and nothing else lies there. Its file is as long: the caller has
        // compared the size of a file that only processes of this user can open, and they never
        // make it shorter.
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

    /// Shows that a rank makes progress with what it does alone.
    #[inline]
    pub fn work(&self, index: usize) {
        self.slot(index).works.fetch_add(1, Ordering::Relaxed);
    }

    /// How often a rank has entered something or shown progress.
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

    /// Whether a rank has given up.
    pub fn has_ended(&self, index: usize) -> bool {
        self.slot(index).ended.load(Ordering::Acquire) != 0
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
        let name = file.name().to_owned();
        let one = Board::open(&name, 3).expect("a board");
        let other = Board::open(&name, 3).expect("the same board");
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
        assert!(Board::open(&name, 3).is_err());
    }

    #[test]
    fn what_is_no_board_is_not_opened() {
        let file = BoardFile::create().expect("a file");
        for name in ["", "../../etc/passwd", "/dev/shm/0123", "0123456789abcdef"] {
            assert!(Board::open(name, 1).is_err(), "{name}");
        }
        // A shorter one would end the process when its end is read.
        ftruncate(file.0.file(), 64).expect("it is shortened");
        let said = Board::open(file.name(), 1).err().expect("refused").to_string();
        assert!(said.contains("a board of 64 bytes"), "{said}");
    }
}
