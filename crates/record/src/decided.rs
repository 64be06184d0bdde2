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
