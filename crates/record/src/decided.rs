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
}

impl Decided {
    /// Of a record and its whole lines.
    pub fn of(record: &Record, text: &[u8]) -> Decided {
        let lines = text.iter().filter(|&&byte| byte == b'\n').count();
        Decided { run: record.header.run.clone(), lines, sha256: text::hex(&Sha256::digest(text)) }
    }
}
