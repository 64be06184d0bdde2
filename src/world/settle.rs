//! Whether every rank got as far as this one.

use super::{GRACE, join::Link};
use anyhow::bail;
use std::thread;

/// The reason is another rank's to tell: this one ends without a word.
#[derive(Debug, thiserror::Error)]
#[error("another rank says why")]
pub struct ToldByAnother;

/// This rank's result, if every rank has one.
///
/// # Errors
/// Where a rank has none. The first rank's own error comes back as it is, with its exit code; else
/// the first rank names a rank that failed. All others get [`ToldByAnother`].
pub fn settle<T>(link: &Link<'_>, mine: anyhow::Result<T>) -> anyhow::Result<T> {
    let error = mine.as_ref().err().map(|error| format!("{error:#}")).unwrap_or_default();
    let errors = link.peers().all_gather_bytes(error.as_bytes())?;
    let Some(rank) = errors.iter().position(|error| !error.is_empty()) else { return mine };
    if link.rank() != 0 {
        thread::sleep(GRACE);
        return Err(ToldByAnother.into());
    }
    mine.and_then(|_| bail!("rank {rank}: {}", String::from_utf8_lossy(&errors[rank])))
}
