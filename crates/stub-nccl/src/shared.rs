//! Memory that all ranks of a world share: who has joined, and a ring of bytes from each rank to
//! each.

use rustix::{
    fs::{Mode, OFlags, ftruncate, open, unlink},
    mm::{MapFlags, ProtFlags, mmap, munmap},
};
use std::{
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

const RING: usize = 64 << 10;
const RANKS_MAX: usize = 64;

#[repr(C)]
struct Head {
    joined: AtomicU64,
    versions: [AtomicU64; RANKS_MAX],
    devices: [AtomicU64; RANKS_MAX],
}

#[repr(C, align(64))]
struct Ring {
    written: AtomicU64,
    read: AtomicU64,
    bytes: [u8; RING],
}

/// The mapping of one rank.
pub struct Shared {
    memory: *mut u8,
    length: usize,
    ranks: usize,
}

// SAFETY: what is shared is atomic, or lies between a ring's two atomic counts.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// Where a world's memory has its name until all have joined.
pub fn path_of(id: &[u8]) -> PathBuf {
    let name: String = id[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    let folder =
        if Path::new("/dev/shm").is_dir() { "/dev/shm".into() } else { std::env::temp_dir() };
    folder.join(format!("fizeau-stub-nccl-{name}"))
}

impl Shared {
    /// Maps the memory of a world, made by whoever comes first.
    pub fn open(id: &[u8], ranks: usize) -> io::Result<Shared> {
        if ranks > RANKS_MAX {
            return Err(io::Error::other("a stub's world has 64 ranks at most"));
        }
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = open(path_of(id), flags, Mode::RUSR | Mode::WUSR)?;
        let length = size_of::<Head>().next_multiple_of(64) + ranks * ranks * size_of::<Ring>();
        ftruncate(&file, length as u64)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping of a file of that size.
        let memory =
            unsafe { mmap(std::ptr::null_mut(), length, access, MapFlags::SHARED, file, 0) }?;
        Ok(Shared { memory: memory.cast(), length, ranks })
    }

    /// Takes the name away: those who have joined keep the memory.
    pub fn unlink(id: &[u8]) {
        // Whoever is second finds it gone.
        let _ = unlink(path_of(id));
    }

    fn head(&self) -> &Head {
        // SAFETY: the mapping begins with it, and zeros are a valid one.
        unsafe { &*self.memory.cast::<Head>() }
    }

    fn ring(&self, from: usize, to: usize) -> *mut Ring {
        let at =
            size_of::<Head>().next_multiple_of(64) + (from * self.ranks + to) * size_of::<Ring>();
        // SAFETY: within the mapping.
        unsafe { self.memory.add(at).cast() }
    }

    /// A rank is there, with its library's version and its device.
    pub fn join(&self, rank: usize, version: i32, device: i32) {
        self.head().devices[rank].store(device as u64, Ordering::Relaxed);
        self.head().versions[rank].store(version as u64, Ordering::Relaxed);
        self.head().joined.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether all are there.
    pub fn all_joined(&self) -> bool {
        self.head().joined.load(Ordering::Acquire) >= self.ranks as u64
    }

    /// The device of each rank.
    pub fn devices(&self) -> Vec<i32> {
        let devices = self.head().devices[..self.ranks].iter();
        devices.map(|device| device.load(Ordering::Relaxed) as i32).collect()
    }

    /// Whether all have the same version.
    pub fn versions_agree(&self) -> bool {
        let version = |rank: usize| self.head().versions[rank].load(Ordering::Relaxed);
        (1..self.ranks).all(|rank| version(rank) == version(0))
    }

    /// Writes as much as there is room for; how much that was.
    pub fn write(&self, from: usize, to: usize, bytes: &[u8]) -> usize {
        let ring = self.ring(from, to);
        // SAFETY: one rank writes this ring and one reads it; the bytes between the counts are the
        // reader's, the others the writer's.
        unsafe {
            let written = (*ring).written.load(Ordering::Relaxed);
            let room = RING - (written - (*ring).read.load(Ordering::Acquire)) as usize;
            let count = bytes.len().min(room);
            let start = (&raw mut (*ring).bytes).cast::<u8>();
            for (at, byte) in bytes[..count].iter().enumerate() {
                start.add((written as usize + at) % RING).write(*byte);
            }
            (*ring).written.store(written + count as u64, Ordering::Release);
            count
        }
    }

    /// Reads as much as there is; how much that was.
    pub fn read(&self, from: usize, to: usize, bytes: &mut [u8]) -> usize {
        let ring = self.ring(from, to);
        // SAFETY: as in `write`.
        unsafe {
            let read = (*ring).read.load(Ordering::Relaxed);
            let there = ((*ring).written.load(Ordering::Acquire) - read) as usize;
            let count = bytes.len().min(there);
            let start = (&raw const (*ring).bytes).cast::<u8>();
            for (at, byte) in bytes[..count].iter_mut().enumerate() {
                *byte = start.add((read as usize + at) % RING).read();
            }
            (*ring).read.store(read + count as u64, Ordering::Release);
            count
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and used no more.
        let _ = unsafe { munmap(self.memory.cast(), self.length) };
    }
}
