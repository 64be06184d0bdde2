//! The token that all ranks of a run share, and what they prove with it. It is never sent, and
//! stands in no file and no file's name.

use fizeau_domain::text::hex;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// Bytes of a tag: an HMAC by SHA-256.
pub const TAG: usize = 32;

/// Bytes of a nonce: a number that is used once.
pub const NONCE: usize = 32;

/// Shortest token: 16 hexadecimal digits are 64 bits.
pub const TOKEN_MIN: usize = 16;

/// A secret that all ranks have been given and nobody else guesses.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl fmt::Debug for Token {
    /// Does not show it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// A token as a user gives it; none where it is shorter than [`TOKEN_MIN`] characters or has
    /// others than letters and digits.
    pub fn new(text: String) -> Option<Token> {
        let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric());
        (text.len() >= TOKEN_MIN && is_plain).then_some(Token(text))
    }

    /// A tag of these parts that only a holder of the token can make. The parts are told
    /// apart: the same bytes cut elsewhere have another tag.
    pub fn tag(&self, parts: &[&[u8]]) -> [u8; TAG] {
        self.hashed(parts).finalize().into_bytes().into()
    }

    /// Whether a tag is that of these parts, in a time that does not tell how much of it is right.
    pub fn verifies(&self, parts: &[&[u8]], tag: &[u8]) -> bool {
        self.hashed(parts).verify_slice(tag).is_ok()
    }

    /// The beginning of the names of the files by which ranks meet. It does not tell the token.
    pub fn file_name(&self) -> String {
        format!("fizeau-{}", hex(&self.tag(&[b"file name"])[..16]))
    }

    fn hashed(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut hash: Hmac<Sha256> =
            Hmac::new_from_slice(self.0.as_bytes()).expect("HMAC takes a key of any length");
        for part in parts {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_tells_who_made_it_of_what() {
        let token = |text: &str| Token::new(text.into()).expect("a token");
        let (ours, other) = (token("0123456789abcdef"), token("0123456789abcdeg"));
        let tag = ours.tag(&[b"one", b"two"]);
        assert!(ours.verifies(&[b"one", b"two"], &tag));
        assert!(!ours.verifies(&[b"on", b"etwo"], &tag));
        assert!(!ours.verifies(&[b"one", b"two"], &tag[..16]));
        assert!(!other.verifies(&[b"one", b"two"], &tag));
    }

    /// RFC 4231, test case 2, is of a shorter key than a token has: this is its construction.
    #[test]
    fn a_tag_is_an_hmac_by_sha_256() {
        let token = Token::new("0123456789abcdef".into()).expect("a token");
        let mut mac: Hmac<Sha256> = Hmac::new_from_slice(b"0123456789abcdef").expect("a key");
        mac.update(&[3, 0, 0, 0, 0, 0, 0, 0, b'o', b'n', b'e']);
        assert_eq!(token.tag(&[b"one"]), <[u8; TAG]>::from(mac.finalize().into_bytes()));
    }

    #[test]
    fn a_token_is_shown_nowhere() {
        let token = Token::new("0123456789abcdef".into()).expect("a token");
        assert!(!format!("{token:?} {}", token.file_name()).contains("0123456789abcdef"));
        for short in ["", "0123456789abcde", "../../../../etc/passwd"] {
            assert_eq!(Token::new(short.into()), None, "{short}");
        }
    }
}
