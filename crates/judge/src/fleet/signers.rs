//! The keys of a list of allowed signers, for rows of a store: these keep the fingerprint of the
//! key that signed their bundle, so that a key which the list has no longer vouches for nothing.
//! Bundles are checked by `ssh-keygen` itself.

use sha2::{Digest, Sha256};

/// Keys by the patterns of the names that they sign for.
#[derive(Debug, Default)]
pub struct Keys(Vec<(String, String)>);

/// What a fingerprint begins with.
pub const HASH: &str = "SHA256:";

/// The digits of base64.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// What the blob of every key begins with, in base64: a length below 2^18.
const BLOB: &str = "AAAA";

impl Keys {
    /// Reads a list as `ssh-keygen` has it: names, perhaps options, kind of key, key, perhaps a
    /// comment. Lines without a key are none.
    pub fn parse(text: &str) -> Keys {
        let line = |line: &str| {
            let line = line.trim();
            let (names, rest) = match line.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"')?,
                None => line.split_once(char::is_whitespace)?,
            };
            let blob = rest.split_whitespace().find(|word| word.starts_with(BLOB))?;
            (!names.starts_with('#')).then_some((names.to_owned(), fingerprint(blob)?))
        };
        Keys(text.lines().filter_map(line).collect())
    }

    /// Whether there is no key in the list.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a key of this fingerprint may sign for a name.
    pub fn has(&self, name: &str, fingerprint: &str) -> bool {
        let own = self.0.iter().filter(|(_, key)| key == fingerprint);
        own.map(|(patterns, _)| patterns).any(|patterns| is_of(patterns, name))
    }
}

/// The fingerprint of a key as `ssh-keygen` prints it; none of what is no base64.
fn fingerprint(blob: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(blob.len());
    let (mut bits, mut count) = (0u32, 0);
    for byte in blob.trim_end_matches('=').bytes() {
        let digit = DIGITS.iter().position(|digit| *digit == byte)? as u32;
        (bits, count) = ((bits << 6 | digit) & 0xFFFF, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    let hash = Sha256::digest(&bytes);
    let mut text = String::from(HASH);
    for three in hash.chunks(3) {
        let mut word = [0; 4];
        word[1..=three.len()].copy_from_slice(three);
        let word = u32::from_be_bytes(word);
        let digit = |at: u32| DIGITS[(word >> (18 - 6 * at) & 63) as usize] as char;
        text.extend((0..=three.len() as u32).map(digit));
    }
    Some(text)
}

/// Whether a name is one that a list of patterns has, and none that it refuses by an exclamation
/// mark.
fn is_of(patterns: &str, name: &str) -> bool {
    let is_like = |pattern: &str| is_like(pattern.as_bytes(), name.as_bytes());
    let mut parts = patterns.split(',').map(str::trim);
    let refused = parts.clone().filter_map(|part| part.strip_prefix('!')).any(is_like);
    !refused && parts.any(|part| !part.starts_with('!') && is_like(part))
}

/// Whether a name is like a pattern, of which `*` is any text and `?` any byte.
fn is_like(pattern: &[u8], name: &[u8]) -> bool {
    // Where the last star stands, and where the text that it is begins to end.
    let (mut at, mut place, mut star) = (0, 0, None);
    while place < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, place));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[place] => {
                (at, place) = (at + 1, place + 1);
            }
            _ => {
                let Some((of, end)) = star else { return false };
                star = Some((of, end + 1));
                (at, place) = (of + 1, end + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of `ssh-keygen -t ed25519`, with the fingerprint that `ssh-keygen -l` prints.
    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEh0IqyY/buuYF8Eaq2Gu8GFukjT0yivs7o/wFJdTsGi";
    const PRINT: &str = "SHA256:S/bFd6DJLwgvgnj6u/oZwVhvS4/jOLFDOw+vTVjnzQA";

    #[test]
    fn a_key_has_the_fingerprint_that_ssh_keygen_prints() {
        let text = format!(
            "# of all\n\nn1,n2 {KEY} comment\n\"n3\" namespaces=\"fizeau\" {KEY}\n\
             broken ssh-rsa ?\n"
        );
        let keys = Keys::parse(&text);
        for (name, is_there) in [("n1", true), ("n2", true), ("n3", true), ("n4", false)] {
            assert_eq!(keys.has(name, PRINT), is_there, "{name}");
        }
        assert!(!keys.has("n1", "") && !keys.has("n1", "SHA256:"));
        assert!(!Keys::parse(&format!("# n1 {KEY}\n#n1 {KEY}\n")).has("n1", PRINT));
    }

    #[test]
    fn names_are_like_patterns() {
        for (patterns, name, is_it) in [
            ("*", "n1", true),
            ("n?", "n1", true),
            ("n?", "n12", false),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abcdef", false),
            ("*b*b", "abab", true),
            ("n*,!n7", "n7", false),
            ("n*,!n7", "n8", true),
            ("!n7", "n8", false),
            ("", "n8", false),
        ] {
            assert_eq!(is_of(patterns, name), is_it, "{patterns} {name}");
        }
    }
}
