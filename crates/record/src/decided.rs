//! How much of a record something was decided on: what came later is known by it.

use crate::Record;
use fizeau_domain::text;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// How much of a record something was decided on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// The run of the record.
    pub run: String,
    /// Its lines.
    pub lines: usize,
    /// SHA-256 of these lines, hexadecimal, as `head -n LINES record.jsonl | sha256sum` prints it.
    pub sha256: String,
    /// Bytes after them: of a line that was cut short, since its writer was killed.
    #[serde(default, skip_serializing_if = "is_none")]
    pub rest: u64,
}

fn is_none(bytes: &u64) -> bool {
    *bytes == 0
}

impl Decided {
    /// Of a record, its whole lines and what follows them.
    pub fn of(record: &Record, lines: &[u8], rest: &[u8]) -> Decided {
        Decided {
            run: record.header.run.clone(),
            lines: lines.iter().filter(|&&byte| byte == b'\n').count(),
            sha256: text::hex(&Sha256::digest(lines)),
            rest: rest.len() as u64,
        }
    }
}

/// A record as something was decided on it.
pub struct AsDecided {
    /// The record, up to the last line that was there.
    pub record: Record,
    /// Lines that were appended since.
    pub more: usize,
    /// Bytes of a last line that is not whole: then, and now.
    pub rest: [u64; 2],
    /// Whether it is one of those that are listed.
    pub is_listed: bool,
    /// Whether the lines that were there are the same, by their hash.
    pub is_same: bool,
}
