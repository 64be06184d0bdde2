//! The kernel's ring of messages by syslog(2). A container has no `/dev/kmsg` unless it is
//! privileged, and needs the capability SYSLOG alone for this call (where the node's
//! `kernel.dmesg_restrict` is 0, not even that).

#![expect(unsafe_code, reason = "the standard library has no function for the system call")]

use super::log::LOG_MAX;
use std::{
    ffi::{c_char, c_int},
    io,
};

unsafe extern "C" {
    // Of glibc and musl: syslog(2) under the name klogctl(3).
    fn klogctl(action: c_int, buffer: *mut c_char, length: c_int) -> c_int;
}

/// Reads the last messages, as many as the buffer holds (`SYSLOG_ACTION_READ_ALL`).
const READ_ALL: c_int = 3;

/// Asks how long the ring is (`SYSLOG_ACTION_SIZE_BUFFER`).
const SIZE: c_int = 10;

/// All messages that are in the ring now, in the form of dmesg(1): `<6>[   12.5] words`.
///
/// # Errors
/// Where the kernel refuses: without the capability, or in a container whose filter of system calls
/// does not have this one.
pub fn text() -> io::Result<String> {
    // SAFETY: this action takes no buffer.
    let size = unsafe { klogctl(SIZE, std::ptr::null_mut(), 0) };
    let size = usize::try_from(size).map_err(|_| io::Error::last_os_error())?;
    let mut text = vec![0_u8; size.min(LOG_MAX as usize)];
    let length = c_int::try_from(text.len()).unwrap_or(c_int::MAX);
    // SAFETY: the kernel writes at most `length` bytes, and the buffer has as many.
    let read = unsafe { klogctl(READ_ALL, text.as_mut_ptr().cast(), length) };
    text.truncate(usize::try_from(read).map_err(|_| io::Error::last_os_error())?);
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_is_read_or_refused_with_the_reason() {
        match text() {
            // As dmesg(1) has lines.
            Ok(text) => assert!(text.lines().all(|line| line.starts_with('<')), "{text:.200}"),
            Err(error) => assert!(error.raw_os_error().is_some(), "{error}"),
        }
    }
}
