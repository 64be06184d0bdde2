//! The manifest: which files a bundle has, and what is in them.
//!
//! Its text is canonical JSON (RFC 8785: no white space, keys sorted), and it says nothing that
//! does not follow from the files. So each byte of it can be checked, and two bundles of the same
//! files have the same manifest.

use super::file;
use fizeau_domain::text::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

/// The format of the file, counted up when a field changes its meaning.
pub const FORMAT: u32 = 1;

/// What a bundle is made of.
// Fields are in the order of their names, as canonical JSON has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Every file but the manifest and its signature, sorted by the bytes of its path.
    pub files: Vec<Entry>,
    /// The file's format.
    pub format: u32,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its place below the bundle's directory, parts separated by `/`.
    pub path: String,
    /// SHA-256 of its bytes, hexadecimal, as `sha256sum` prints it.
    pub sha256: String,
    /// Its size in bytes.
    pub size: u64,
}

impl Entry {
    /// The entry of a file with these bytes.
    pub fn of(path: &str, bytes: &[u8]) -> Entry {
        let (sha256, size) = (hex(&Sha256::digest(bytes)), bytes.len() as u64);
        Entry { path: path.into(), sha256, size }
    }
}

/// A place where a bundle and its manifest differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The manifest has the file, and the bundle has not.
    Missing(String),
    /// The bundle has the file, and the manifest has not.
    Added(String),
    /// Both have it, with other bytes.
    Changed(Entry, Entry),
}

impl Difference {
    /// The file.
    pub fn path(&self) -> &str {
        match self {
            Difference::Missing(path) | Difference::Added(path) => path,
            Difference::Changed(entry, _) => &entry.path,
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Missing(path) => write!(f, "missing: {path}"),
            Difference::Added(path) => write!(f, "added: {path} is not in the manifest"),
            Difference::Changed(listed, found) if listed.size != found.size => {
                let (path, [was, is]) = (&listed.path, [listed.size, found.size]);
                write!(f, "changed: {path} has {is} bytes, and {was} in the manifest")
            }
            Difference::Changed(listed, found) => {
                let (path, [was, is]) = (&listed.path, [&listed.sha256, &found.sha256]);
                write!(f, "changed: {path} has SHA-256 {is}, and {was} in the manifest")
            }
        }
    }
}

/// Whether a file is none that a manifest lists: the manifest itself, and its signature.
pub fn is_of_the_manifest(path: &str) -> bool {
    path == file::MANIFEST || path == file::SIGNATURE
}

impl Manifest {
    /// The manifest of some files.
    pub fn of(mut files: Vec<Entry>) -> Manifest {
        files.retain(|entry| !is_of_the_manifest(&entry.path));
        files.sort();
        Manifest { files, format: FORMAT }
    }

    /// Its canonical text.
    ///
    /// # Panics
    /// Never: numbers and strings can always be written.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("a manifest can be written")
    }

    /// Reads one.
    ///
    /// # Errors
    /// In words, where it is no manifest, or not written as this program writes it.
    pub fn parse(bytes: &[u8]) -> Result<Manifest, String> {
        let manifest: Manifest =
            serde_json::from_slice(bytes).map_err(|error| format!("it is no manifest: {error}"))?;
        if manifest.format != FORMAT {
            let found = manifest.format;
            return Err(format!("it has format {found}, and this fizeau reads format {FORMAT}"));
        }
        let is_sorted = manifest.files.windows(2).all(|pair| pair[0].path < pair[1].path);
        let is_hash = |entry: &Entry| {
            let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
            entry.sha256.len() == 64 && entry.sha256.chars().all(is_digit)
        };
        let lists_itself = manifest.files.iter().any(|entry| is_of_the_manifest(&entry.path));
        if manifest.text().as_bytes() != bytes || !is_sorted || lists_itself {
            return Err("it is not written as fizeau writes it".into());
        }
        match manifest.files.iter().find(|entry| !is_hash(entry)) {
            Some(entry) => Err(format!("the hash of {} is no SHA-256", entry.path)),
            None => Ok(manifest),
        }
    }

    /// The first place, in the order of paths, where these files differ from it. `found` is sorted
    /// by path.
    pub fn difference(&self, found: &[Entry]) -> Option<Difference> {
        let (mut listed, mut found) = (self.files.iter().peekable(), found.iter().peekable());
        loop {
            let (own, other) = match (listed.peek(), found.peek()) {
                (None, None) => return None,
                (Some(own), None) => return Some(Difference::Missing(own.path.clone())),
                (None, Some(other)) => return Some(Difference::Added(other.path.clone())),
                (Some(own), Some(other)) => (*own, *other),
            };
            if own.path < other.path {
                return Some(Difference::Missing(own.path.clone()));
            }
            if own.path > other.path {
                return Some(Difference::Added(other.path.clone()));
            }
            if own != other {
                return Some(Difference::Changed(own.clone(), other.clone()));
            }
            listed.next();
            found.next();
        }
    }
}

/// Whether a text is a signature exactly as `ssh-keygen -Y sign` writes one: lines of 70 characters
/// of base64 between two marks. Readers of that form ignore white space and what follows the last
/// mark, so that other bytes could stand for the same signature.
pub fn is_signature(text: &[u8]) -> bool {
    const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----\n";
    const END: &str = "-----END SSH SIGNATURE-----\n";
    const COLUMNS: usize = 70;
    let inner = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.strip_prefix(BEGIN)?.strip_suffix(END)?.strip_suffix('\n'));
    let Some(inner) = inner else { return false };
    let lines: Vec<&str> = inner.split('\n').collect();
    let last = lines.len() - 1;
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '+' || c == '/';
    lines.iter().enumerate().all(|(at, line)| {
        let letters = if at == last { line.trim_end_matches('=') } else { line };
        let is_long_enough = line.len() == COLUMNS || at == last && !line.is_empty();
        is_long_enough
            && line.len() <= COLUMNS
            && line.len() - letters.len() <= 2
            && letters.chars().all(is_letter)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entries(files: &[(&str, &[u8])]) -> Vec<Entry> {
        files.iter().map(|(path, bytes)| Entry::of(path, bytes)).collect()
    }

    #[test]
    fn the_text_is_canonical_and_read_back() {
        let files: [(&str, &[u8]); 4] =
            [("b", b"2"), ("a/\"c\"", b"abc"), ("manifest.json", b""), ("manifest.json.sig", b"")];
        let manifest = Manifest::of(entries(&files));
        let text = manifest.text();
        // The hash of "abc" is FIPS 180-4's own example.
        assert_eq!(
            text,
            "{\"files\":[{\"path\":\"a/\\\"c\\\"\",\"sha256\":\"ba7816bf8f01cfea414140de5dae2223\
             b00361a396177a9cb410ff61f20015ad\",\"size\":3},{\"path\":\"b\",\"sha256\":\
             \"d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35\",\"size\":1}],\
             \"format\":1}"
        );
        assert_eq!(Manifest::parse(text.as_bytes()), Ok(manifest));
        for (find, replace, words) in [
            ("{\"files\"", "{ \"files\"", "as fizeau writes it"),
            ("\"format\":1", "\"format\":2", "format 2"),
            ("\"size\":1", "\"size\":1.0", "no manifest"),
            ("\"size\":1", "\"size\":1,\"x\":1", "no manifest"),
            ("\"b\"", "\"A\"", "as fizeau writes it"),
            ("\"b\"", "\"manifest.json\"", "as fizeau writes it"),
            ("d4735e", "D4735e", "no SHA-256"),
        ] {
            let other = text.replacen(find, replace, 1);
            assert_ne!(other, text);
            let why = Manifest::parse(other.as_bytes()).expect_err(words);
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn the_first_difference_is_named() {
        let manifest = Manifest::of(entries(&[("a", b"1"), ("b", b"2"), ("c", b"3")]));
        let named = |found: &[(&str, &[u8])]| {
            manifest.difference(&entries(found)).map(|one| one.to_string())
        };
        assert_eq!(named(&[("a", b"1"), ("b", b"2"), ("c", b"3")]), None);
        let starts = |found: &[(&str, &[u8])], words: &str| {
            let said = named(found).expect("a difference");
            assert!(said.starts_with(words), "{said}");
        };
        starts(&[("a", b"1"), ("c", b"3")], "missing: b");
        starts(&[("a", b"1"), ("b", b"2")], "missing: c");
        starts(&[("a", b"1"), ("aa", b"2"), ("c", b"4")], "added: aa");
        starts(&[("a", b"1"), ("b", b"2"), ("c", b"3"), ("d", b"")], "added: d");
        starts(&[("a", b"1"), ("b", b"3"), ("c", b"4")], "changed: b has SHA-256");
        starts(&[("a", b"11"), ("b", b"3"), ("c", b"4")], "changed: a has 2 bytes, and 1");
    }

    const SIGNATURE: &str = "-----BEGIN SSH SIGNATURE-----\n\
        U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAgSHgRUDyPyltNvjimyNP/P9uugj\n\
        x5WRFvVTQCRtvoEF0AAAAGZml6ZWF1AAAAAAAAAAZzaGE1MTIAAABTAAAAC3NzaC1lZDI1\n\
        jZ5riaD3mvRUioW5u5UjR1vAc=\n-----END SSH SIGNATURE-----\n";

    #[test]
    fn a_signature_has_one_form() {
        assert!(is_signature(SIGNATURE.as_bytes()));
        for (find, replace) in [
            ("ugj\n", "ugj "),
            ("ugj\n", "ugj\r\n"),
            ("ugj\n", "ugj"),
            ("DI1\n", "DI1\n\n"),
            ("vAc=", "vAc= "),
            ("vAc=", "v\u{e4}c="),
            ("----END", "--- END"),
            ("SIGNATURE-----\nU1", "SIGNATURE-----\n U1"),
        ] {
            let other = SIGNATURE.replacen(find, replace, 1);
            assert_ne!(other, SIGNATURE);
            assert!(!is_signature(other.as_bytes()), "{other}");
        }
        assert!(!is_signature(format!("{SIGNATURE}trailing").as_bytes()));
        assert!(!is_signature(b"") && !is_signature(b"-----BEGIN SSH SIGNATURE-----\n"));
    }

    proptest! {
        #[test]
        fn one_changed_byte_of_any_file_or_of_the_manifest_is_found(
            files in proptest::collection::btree_map("[a-z]{1,3}", proptest::collection::vec(
                any::<u8>(), 1..20), 1..5),
            which in any::<proptest::sample::Index>(),
            place in any::<proptest::sample::Index>(),
            flip in 1u8..,
        ) {
            let entries = |files: &std::collections::BTreeMap<String, Vec<u8>>| {
                files.iter().map(|(path, bytes)| Entry::of(path, bytes)).collect::<Vec<_>>()
            };
            let manifest = Manifest::of(entries(&files));
            prop_assert_eq!(manifest.difference(&entries(&files)), None);
            let mut changed = files.clone();
            let path = files.keys().nth(which.index(files.len())).expect("a file").clone();
            let bytes = changed.get_mut(&path).expect("it");
            let at = place.index(bytes.len());
            bytes[at] ^= flip;
            let found = manifest.difference(&entries(&changed)).expect("a difference");
            prop_assert_eq!(found.path(), path.as_str());
            let mut text = manifest.text().into_bytes();
            let at = place.index(text.len());
            text[at] ^= flip;
            let is_found = match Manifest::parse(&text) {
                Err(_) => true,
                Ok(other) => other.difference(&entries(&files)).is_some(),
            };
            prop_assert!(is_found, "{}", String::from_utf8_lossy(&text));
        }
    }
}
