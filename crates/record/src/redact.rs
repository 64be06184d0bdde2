//! Redaction: names and numbers of one machine replaced by keyed hashes.
//!
//! The hash is HMAC-SHA-256 with the operator's key, of which 64 bits are kept: whoever has no key
//! cannot try names until one fits, and the same machine has the same hash in all bundles of one
//! key. Files are swept as bytes, whatever their format, so that a name is found in words of a
//! driver as well as in its own field.

use aho_corasick::{AhoCorasick, MatchKind};
use fizeau_domain::{node_state::short_uuid, text, verdict::Verdict};
use hmac::{Hmac, KeyInit, Mac};
use minijinja::HtmlEscape;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::{collections::BTreeMap, fmt, str::FromStr};

/// Shorter keys can be guessed.
pub const KEY_MIN: usize = 16;

/// What is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Names of hosts, and the folder of the user.
    Names,
    /// Serial numbers, UUIDs, GUIDs, MAC addresses.
    Serials,
}

impl Kind {
    const fn word(self) -> &'static str {
        match self {
            Kind::Names => "name",
            Kind::Serials => "serial",
        }
    }
}

impl FromStr for Kind {
    type Err = String;
    fn from_str(text: &str) -> Result<Kind, String> {
        match text {
            "names" => Ok(Kind::Names),
            "serials" => Ok(Kind::Serials),
            _ => Err("write names, serials, or names,serials".into()),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.word())
    }
}

/// Replaces by one key.
#[derive(Clone)]
pub struct Redactor {
    key: Vec<u8>,
    kinds: Vec<Kind>,
    /// Texts to find in files, each with what takes its place.
    wanted: BTreeMap<String, String>,
    common: Vec<String>,
}

// Without the key: it must not come into a message.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("kinds", &self.kinds).finish_non_exhaustive()
    }
}

impl Redactor {
    /// By a key.
    ///
    /// # Errors
    /// Where the key is too short.
    pub fn new(key: &[u8], kinds: &[Kind]) -> Result<Redactor, String> {
        let key = key.trim_ascii();
        if key.len() < KEY_MIN {
            return Err(format!(
                "the key of --redact has {} bytes, and needs {KEY_MIN} at least: \
                 `openssl rand -hex 32 > FILE` makes one",
                key.len()
            ));
        }
        let (wanted, common) = (BTreeMap::new(), Vec::new());
        Ok(Redactor { key: key.to_vec(), kinds: kinds.to_vec(), wanted, common })
    }

    /// What is replaced.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// What takes the place of a host's name.
    pub fn name(&self, name: &str) -> String {
        self.label(Kind::Names, name)
    }

    /// What takes the place of a serial number, UUID, GUID or MAC address.
    pub fn serial(&self, serial: &str) -> String {
        self.label(Kind::Serials, serial)
    }

    fn label(&self, kind: Kind, text: &str) -> String {
        if !self.kinds.contains(&kind) {
            return text.into();
        }
        let one_form = match kind {
            Kind::Names => text.trim().to_lowercase(),
            Kind::Serials => without_separators(text),
        };
        let mut mac: Hmac<Sha256> =
            Hmac::new_from_slice(&self.key).expect("HMAC takes a key of any length");
        // The word keeps a name and a serial number of the same letters apart.
        mac.update(kind.word().as_bytes());
        mac.update(&[0]);
        mac.update(one_form.as_bytes());
        let hash = mac.finalize().into_bytes();
        format!("{}_{}", kind.word(), text::hex(&hash[..8]))
    }

    /// Adds a name or number that files may hold, in every form that they may hold it in.
    pub fn learn(&mut self, kind: Kind, text: &str) {
        let text = text.trim();
        if !self.kinds.contains(&kind) || text.is_empty() {
            return;
        }
        let label = self.label(kind, text);
        if !is_distinct(kind, text) {
            if kind == Kind::Names {
                self.learn_common(text, &label);
            }
            return;
        }
        for form in forms(text) {
            self.wanted.insert(form, label.clone());
        }
        if kind == Kind::Serials {
            let short = without_separators(text);
            if short.len() >= 8 {
                self.wanted.insert(short, label.clone());
            }
            // As reports name a board.
            if short_uuid(text) != text {
                self.wanted.insert(short_uuid(text), label.clone());
            }
            // NVIDIA's tools put the kind of device before its number.
            if let Some((_, number)) = text.split_once('-').filter(|one| one.0 == "GPU") {
                self.wanted.insert(number.into(), label);
            }
        } else if let Some((first, _)) = text.split_once('.').filter(|one| !one.0.is_empty()) {
            self.learn(kind, first);
        }
    }

    /// A name that is a word too: it is replaced where it names the machine, and nowhere else.
    fn learn_common(&mut self, name: &str, label: &str) {
        for field in ["host", "node"] {
            for gap in ["", " "] {
                let at = |value: &str| format!("\"{field}\":{gap}\"{value}\"");
                self.wanted.insert(at(name), at(label));
            }
        }
        let suite = |value: &str| format!("<testsuite name=\"{value}\"");
        self.wanted.insert(suite(name), suite(label));
        // The page's title and its heading.
        for verdict in Verdict::ALL {
            let word = verdict.to_string().to_uppercase();
            for end in ["<", " (stub)", " &#8211;"] {
                let title = |value: &str| format!("{word}: {value}{end}");
                self.wanted.insert(title(name), title(label));
            }
        }
        if !self.common.iter().any(|known| known == name) {
            self.common.push(name.into());
        }
    }

    /// Names that are words too, such as `node`: where one stands in other words, it stays.
    pub fn common(&self) -> &[String] {
        &self.common
    }

    /// Whether anything is looked for.
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// What finds them.
    ///
    /// # Errors
    /// In words, where they are more than can be looked for at once.
    pub fn sweep(&self) -> Result<Sweep<'_>, String> {
        let builder = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::LeftmostLongest)
            .build(self.wanted.keys());
        let finder = builder.map_err(|error| error.to_string())?;
        Ok(Sweep { finder, wanted: self.wanted.iter().collect() })
    }
}

/// Finds and replaces.
pub struct Sweep<'r> {
    finder: AhoCorasick,
    wanted: Vec<(&'r String, &'r String)>,
}

impl Sweep<'_> {
    /// A file's bytes with everything replaced; `None` where there is nothing to replace.
    pub fn replaced(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let (mut out, mut end) = (Vec::new(), 0);
        for (at, which) in self.found(bytes) {
            out.extend_from_slice(&bytes[end..at.start]);
            out.extend_from_slice(self.wanted[which].1.as_bytes());
            end = at.end;
        }
        if end == 0 {
            return None;
        }
        out.extend_from_slice(&bytes[end..]);
        Some(out)
    }

    /// Whether anything is left in a file's bytes, or in its name.
    pub fn is_left(&self, bytes: &[u8]) -> bool {
        self.found(bytes).next().is_some()
    }

    fn found<'b>(
        &'b self,
        bytes: &'b [u8],
    ) -> impl Iterator<Item = (std::ops::Range<usize>, usize)> + 'b {
        let all = self.finder.find_iter(bytes);
        let all = all.map(|found| (found.range(), found.pattern().as_usize()));
        // Digits of a serial number may stand in the middle of a measured number.
        all.filter(move |(at, which)| {
            let is_number = self.wanted[*which].0.bytes().all(|byte| byte.is_ascii_digit());
            let before = at.start.checked_sub(1).map(|one| bytes[one]);
            let is_inside = before.is_some_and(|byte| byte.is_ascii_digit() || byte == b'.')
                || bytes.get(at.end).is_some_and(u8::is_ascii_digit);
            !(is_number && is_inside)
        })
    }
}

/// Whether a text can only be this name or number, wherever it stands: no word, and not so short
/// that it stands in other text by chance.
fn is_distinct(kind: Kind, text: &str) -> bool {
    let count = text.chars().count();
    let is_word = text.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    match kind {
        Kind::Names => count >= 3 && !is_word && !(is_number && count < 8),
        Kind::Serials => count >= 6 && !is_word && !(is_number && count < 8),
    }
}

/// A number in one form, however its parts are separated.
fn without_separators(text: &str) -> String {
    let text = text.trim().to_lowercase();
    let text = text.strip_prefix("gpu-").unwrap_or(&text);
    text.chars().filter(|c| !matches!(c, '-' | ':')).collect()
}

/// The forms that files may hold a text in: as it is, as messages show it, quoted; each of them
/// also as JSON, XML and the page of HTML write it.
fn forms(text: &str) -> Vec<String> {
    let quoted = format!("{text:?}");
    let quoted = quoted[1..quoted.len() - 1].to_owned();
    let mut all = vec![text.to_owned(), text::clean(text), quoted];
    for plain in all.clone() {
        let json = serde_json::Value::from(plain.clone()).to_string();
        for json in [json.clone(), text::escaped(json)] {
            all.push(json[1..json.len() - 1].to_owned());
        }
        all.push(fizeau_domain::text::xml(&plain));
        all.push(HtmlEscape(&plain).to_string());
    }
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: &[u8] = b"0123456789abcdef";
    const BOTH: [Kind; 2] = [Kind::Names, Kind::Serials];

    fn redactor(names: &[&str], serials: &[&str]) -> Redactor {
        let mut redactor = Redactor::new(KEY, &BOTH).expect("a key");
        names.iter().for_each(|name| redactor.learn(Kind::Names, name));
        serials.iter().for_each(|serial| redactor.learn(Kind::Serials, serial));
        redactor
    }

    fn swept(redactor: &Redactor, text: &str) -> String {
        let replaced = redactor.sweep().expect("few").replaced(text.as_bytes());
        replaced.map_or(text.into(), |bytes| String::from_utf8(bytes).expect("UTF-8"))
    }

    #[test]
    fn hashes_are_of_the_key_and_join_every_form_of_a_number() {
        let own = redactor(&[], &[]);
        assert_eq!(own.serial("GPU-AB12-34"), own.serial("ab12-34"));
        assert_eq!(own.serial("aa:bb:CC"), own.serial("aabbcc"));
        assert_eq!(own.name("Node-1"), own.name("node-1"));
        assert_ne!(own.name("node-1"), own.name("node-2"));
        assert_ne!(own.name("x-1")[5..], own.serial("x-1")[7..]);
        let other = Redactor::new(b"another key of 16", &BOTH).expect("a key");
        assert_ne!(own.name("node-1"), other.name("node-1"));
        // HMAC-SHA-256 of "name\0node-1" with the key, by `openssl dgst -sha256 -hmac`.
        assert_eq!(own.name("node-1"), "name_3e5c5f4a99d39092");
        let names = Redactor::new(KEY, &[Kind::Names]).expect("a key");
        assert_eq!(names.serial("AB-12"), "AB-12");
        let why = Redactor::new(b"short", &BOTH).expect_err("it is").to_string();
        assert!(why.contains("16") && !why.contains("short\""), "{why}");
        assert!(!format!("{own:?}").contains("012345"));
    }

    #[test]
    fn names_and_numbers_are_found_wherever_they_stand() {
        let own = redactor(&["gpu-17.site.example"], &["GPU-8f1c2d3e-aa", "0xA-1652921023456"]);
        for text in [
            "{\"host\":\"gpu-17.site.example\",\"path\":\"/x/GPU-17/y\"}",
            "rank 3: gpu-17, cuda:3; uuid 8F1C2D3E-AA, 8f1c2d3eaa, GPU-8f1c2d3e-aa",
            "serial 0xa-1652921023456xyz",
        ] {
            let clean = swept(&own, text).to_lowercase();
            for gone in ["gpu-17", "site.example", "8f1c2d3e", "1652921023456"] {
                assert!(!clean.contains(gone), "{gone}: {clean}");
            }
        }
        assert_eq!(swept(&own, "nothing of it"), "nothing of it");
    }

    #[test]
    fn unusual_names_are_found_as_json_xml_and_html_write_them() {
        let name = "n\u{f6}d\"e\\<&'>\u{202e}7";
        let own = redactor(&[name], &[]);
        let json = serde_json::Value::from(name).to_string();
        let escaped = text::escaped(json.clone());
        for text in [json, escaped, text::xml(name), text::clean(name), format!("{name:?}")] {
            assert!(swept(&own, &text).contains("name_"), "{text}");
            assert!(!swept(&own, &text).contains("d\""), "{text}");
        }
        let home = "/home/alice o'hara";
        let own = redactor(&[home], &[]);
        let page = HtmlEscape(home).to_string();
        assert_ne!(page, text::xml(home));
        assert_eq!(swept(&own, &page), own.name(home));
    }

    #[test]
    fn a_name_that_is_a_word_is_replaced_where_it_names_the_machine_alone() {
        let own = redactor(&["host"], &[]);
        assert_eq!(own.common(), ["host"]);
        let label = own.name("host");
        let text = swept(&own, "{\"device\":\"host\",\"host\":\"host\",\"node\": \"host\"}");
        assert_eq!(
            text,
            format!("{{\"device\":\"host\",\"host\":\"{label}\",\"node\": \"{label}\"}}")
        );
        for end in ["</h1>", " &#8211; Fizeau", " (stub) &#8211; Fizeau"] {
            let page = swept(&own, &format!("FAIL: host{end}"));
            assert_eq!(page, format!("FAIL: {label}{end}"));
        }
    }

    #[test]
    fn digits_within_a_measured_number_are_no_serial_number() {
        let own = redactor(&[], &["16529210"]);
        for number in ["0.16529210", "1652921044", "5.16529210e-7", "916529210"] {
            assert_eq!(swept(&own, number), number);
        }
        assert!(swept(&own, "\"16529210\"").contains("serial_"));
        // Too short to be told from any other number.
        assert_eq!(swept(&redactor(&[], &["1234"]), "\"1234\""), "\"1234\"");
    }

    proptest! {
        #[test]
        fn nothing_of_a_distinct_name_is_left(
            name in "[a-z]{1,6}-[0-9]{2,4}",
            before in "[ -~]{0,12}",
            after in "[ -~]{0,12}",
        ) {
            let own = redactor(&[&name], &[]);
            let sweep = own.sweep().expect("few");
            let text = format!("{before}{name}{after}{name}");
            let clean = sweep.replaced(text.as_bytes()).expect("there is something");
            prop_assert!(!sweep.is_left(&clean) || own.name(&name).contains(&name));
        }
    }
}
