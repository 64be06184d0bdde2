//! The host's memory: how much is free, and allocated for operands.

#![expect(unsafe_code, reason = "memory is mapped")]

use super::cgroup;
use crate::{Buffer, DeviceError, Result};
use fizeau_domain::units::Bytes;
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap,
};
use std::{
    cell::Cell,
    fs,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// A field of `/proc/meminfo`.
pub(super) fn meminfo(field: &str) -> Option<Bytes> {
    kibibytes("/proc/meminfo", field)
}

/// A field of a file in the manner of `/proc/meminfo`.
fn kibibytes(path: &str, field: &str) -> Option<Bytes> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(field))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(Bytes(kibibytes * 1024))
}

/// Memory that can be had without swapping: what the kernel says is available, within the limits
/// of the process's control groups and of the process itself (`ulimit -v`).
pub fn memory_free() -> Option<Bytes> {
    let of_group = cgroup::groups().memory_left();
    let of_process = rustix::process::getrlimit(rustix::process::Resource::As)
        .current
        .zip(kibibytes("/proc/self/status", "VmSize"))
        .map(|(limit, used)| Bytes(limit.saturating_sub(used.0)));
    [meminfo("MemAvailable"), of_group, of_process].into_iter().flatten().min()
}

/// What the program itself may come to take beside operands: results, reports, threads, tables of
/// pages. Its processes took 10 to 25 MiB with 70 cases.
const OWN: Bytes = Bytes(32 << 20);

/// What there is for operands where so much memory is free.
pub fn for_operands(free: Bytes) -> Bytes {
    Bytes(free.0 - OWN.0.min(free.0 / 4))
}

/// Memory of all buffers together that this process has. The system takes them into account as they
/// are written to, which may be later than the next one is asked for.
static PROMISED: AtomicU64 = AtomicU64::new(0);

/// What there was for operands when the first of them was asked for.
fn budget() -> Option<Bytes> {
    static BUDGET: LazyLock<Option<Bytes>> = LazyLock::new(|| memory_free().map(for_operands));
    *BUDGET
}

/// What is left of that.
fn unpromised() -> Option<Bytes> {
    let promised = PROMISED.load(Ordering::Relaxed);
    budget().map(|budget| Bytes(budget.0.saturating_sub(promised)))
}

/// Whether less than half of the memory for operands is left once there is a buffer of this size.
pub fn is_tight(size: Bytes) -> bool {
    let left = unpromised().map(|left| left.0.saturating_sub(size.0));
    left.zip(budget()).is_some_and(|(left, budget)| left < budget.0 / 2)
}

/// Anonymous memory, unmapped when dropped.
struct Mapping {
    address: *mut std::ffi::c_void,
    length: usize,
    /// Bytes that are used of it, which [`PROMISED`] counts: not those before the first huge page.
    promised: u64,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        PROMISED.fetch_sub(self.promised, Ordering::Relaxed);
        // SAFETY: mapped by `allocate` with this length, and nothing else unmaps it.
        let _ = unsafe { munmap(self.address, self.length) };
    }
}

/// Bytes behind an operand that can be read, at most: as many as the operand has.
///
/// Vendor libraries read past the end of their operands: BLIS 0.9 a whole row past A
/// (flame/blis#821) and some elements past B (flame/blis#635). What they read there changes no
/// result, but ends the process where nothing is mapped.
const BEHIND: usize = 16 << 20;

thread_local! {
    /// Whether nothing behind the operands of this thread can be read.
    static FENCED: Cell<bool> = const { Cell::new(false) };
}

/// What `run` returns. Operands that it allocates end where no memory is mapped, so that a kernel
/// that reads or writes past them ends the process: tests run the program's own kernels so.
pub fn fenced<T>(run: impl FnOnce() -> T) -> T {
    struct Fence(bool);
    impl Drop for Fence {
        fn drop(&mut self) {
            FENCED.set(self.0);
        }
    }
    let _fence = Fence(FENCED.replace(true));
    run()
}

/// Memory for operands: page-aligned and zeroed, in huge pages where the OS has them (asked for
/// from 2 MiB on). Within [`fenced`] it is aligned to 64 bytes alone.
pub fn allocate(size: Bytes) -> Result<Buffer> {
    const HUGE_PAGE: usize = 2 << 20;
    const PAGE: usize = 4096;
    const LINE: usize = 64;
    let refuse = |why: String| DeviceError::Allocation { size, why };
    let wanted = usize::try_from(size.0).map_err(|error| refuse(error.to_string()))?.max(1);
    let free = [memory_free(), unpromised()].into_iter().flatten().min();
    if let Some(free) = free
        && size > free
    {
        return Err(refuse(format!("{free} are free")));
    }
    let is_fenced = FENCED.get();
    let is_huge = wanted >= HUGE_PAGE && !is_fenced;
    let too_long = || refuse("more than an address space".into());
    let written = wanted
        .checked_next_multiple_of(PAGE)
        .and_then(|length| length.checked_add(if is_huge { HUGE_PAGE } else { 0 }))
        .ok_or_else(too_long)?;
    let behind = if is_fenced { PAGE } else { written.min(BEHIND) };
    let length = written.checked_add(behind).ok_or_else(too_long)?;
    // What is only read is not counted as memory that the process may come to need.
    let first = if is_fenced { ProtFlags::empty() } else { ProtFlags::READ };
    let writable = MprotectFlags::READ | MprotectFlags::WRITE;
    // SAFETY: a new mapping, anywhere.
    let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), length, first, MapFlags::PRIVATE) };
    let address = mapped.map_err(|error| refuse(error.to_string()))?;
    PROMISED.fetch_add(size.0, Ordering::Relaxed);
    let owner = Mapping { address, length, promised: size.0 };
    // SAFETY: within the new mapping, to which nothing refers yet.
    unsafe { mprotect(address, written, writable) }.map_err(|error| refuse(error.to_string()))?;
    let mut start = address as usize;
    if is_fenced {
        start += written - wanted.next_multiple_of(LINE);
    }
    if is_huge {
        start = start.next_multiple_of(HUGE_PAGE);
        // SAFETY: within the mapping; advice does not change its contents.
        let _ = unsafe { madvise(address, written, Advice::LinuxHugepage) };
    }
    Ok(Buffer { address: start as u64, size, owner: Box::new(owner) })
}
