//! The kernel's log of this boot.

use fizeau_record::file;
use rustix::fs::OFlags;
use std::{
    fs::{self, OpenOptions},
    io::{ErrorKind, Read},
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::Path,
};

/// The most of it that is read, in bytes: buffers of kernels hold 16 MiB at most as distributions
/// set them.
pub const LOG_MAX: u64 = 64 << 20;

/// Longest record of `/dev/kmsg`, in bytes (the kernel's `PRINTK_MESSAGE_MAX` is 2048, escapes take
/// up to four times as much).
const RECORD_MAX: usize = 16 << 10;

/// The log's text: of `/dev/kmsg` all records that are there now, of a plain file all of it.
///
/// # Errors
/// In words, where it cannot be read.
pub fn text(path: &Path) -> Result<String, String> {
    let words = |error: std::io::Error| error.to_string();
    let metadata = fs::metadata(path).map_err(words)?;
    if !metadata.file_type().is_char_device() {
        return file::read_text(path, LOG_MAX).map_err(words);
    }
    // Without NONBLOCK the read after the last record waits for the next one.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let mut log = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(words)?;
    let (mut text, mut record) = (Vec::new(), vec![0; RECORD_MAX]);
    while (text.len() as u64) < LOG_MAX {
        match log.read(&mut record) {
            Ok(0) => break,
            Ok(length) => text.extend_from_slice(&record[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            // Records that were overwritten meanwhile are skipped.
            Err(error)
                if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::Interrupted) => {}
            Err(error) => return Err(words(error)),
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}
