//! The host's memory: how much is free, and allocated for operands.

#![expect(unsafe_code, reason = "memory is mapped")]

use super::cpus::number;
use crate::{
    device::{Buffer, DeviceError},
    units::Bytes,
};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::fs;

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
/// of the control group and of the process (`ulimit -v`).
pub fn memory_free() -> Option<Bytes> {
    let group = "/sys/fs/cgroup";
    let of_group = number(&format!("{group}/memory.max"))
        .zip(number(&format!("{group}/memory.current")))
        .map(|(limit, used)| Bytes(limit.saturating_sub(used)));
    let of_process = rustix::process::getrlimit(rustix::process::Resource::As)
        .current
        .zip(kibibytes("/proc/self/status", "VmSize"))
        .map(|(limit, used)| Bytes(limit.saturating_sub(used.0)));
    [meminfo("MemAvailable"), of_group, of_process].into_iter().flatten().min()
}

/// Anonymous memory, unmapped when dropped.
struct Mapping {
    address: *mut std::ffi::c_void,
    length: usize,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `allocate` with this length, and nothing else unmaps it.
        let _ = unsafe { munmap(self.address, self.length) };
    }
}

/// Memory for operands: page-aligned and zeroed, in huge pages where the OS has them (asked for
/// from 2 MiB on).
pub fn allocate(size: Bytes) -> Result<Buffer, DeviceError> {
    const HUGE_PAGE: usize = 2 << 20;
    let refuse = |why: String| DeviceError::Allocation { size, why };
    let wanted = usize::try_from(size.0).map_err(|error| refuse(error.to_string()))?.max(1);
    let free = memory_free();
    if let Some(free) = free
        && size > free
    {
        return Err(refuse(format!("{free} are free")));
    }
    let length = wanted
        .checked_next_multiple_of(4096)
        .and_then(
            |length| if wanted >= HUGE_PAGE { length.checked_add(HUGE_PAGE) } else { Some(length) },
        )
        .ok_or_else(|| refuse("more than an address space".into()))?;
    // SAFETY: a new mapping, anywhere.
    let mapped = unsafe {
        mmap_anonymous(
            std::ptr::null_mut(),
            length,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )
    };
    let address = mapped.map_err(|error| refuse(error.to_string()))?;
    let owner = Mapping { address, length };
    let mut start = address as usize;
    if wanted >= HUGE_PAGE {
        start = start.next_multiple_of(HUGE_PAGE);
        // SAFETY: within the mapping; advice does not change its contents.
        let _ = unsafe { madvise(address, length, Advice::LinuxHugepage) };
    }
    Ok(Buffer { address: start as u64, size, owner: Box::new(owner) })
}
