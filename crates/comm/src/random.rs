//! Random bytes for tokens, nonces and the names of files that nobody may guess.

use std::io;

/// Random bytes of the system.
///
/// # Errors
/// Where the system has none.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(io::Error::from)?;
    Ok(bytes)
}
