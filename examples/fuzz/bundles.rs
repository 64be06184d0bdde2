//! What nodes send, and other folders that others fill: manifests, rows, whole bundles and
//! archives of them. An input that is a folder is a JSON object: its files' texts by their paths.

use super::{
    kinds::corpus_texts,
    mutate::{Chance, change, change_bytes, change_lines},
    served::harmless,
};
use fizeau::{cmd::fed, data::Catalogue};
use fizeau_domain::{labels::Labels, text::hex, verdict::Verdict};
use fizeau_judge::{
    evidence::{
        file as names,
        manifest::{Entry, Manifest, is_signature},
    },
    fleet::{
        gather::Gathered,
        row::{FORMAT, Row, date, parse_date, seconds},
        survey::{Options, survey},
        units::Window,
    },
};
use fizeau_report::format;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::{
    fs,
    io::Write as _,
    path::{Component, Path},
    sync::LazyLock,
};
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| Catalogue::load(None).expect("the data"));

/// Whole bundles.
static WHOLE: LazyLock<Vec<Map<String, Value>>> = LazyLock::new(|| {
    let texts = corpus_texts("bundle");
    texts.iter().map(|text| serde_json::from_str(text).expect("a folder")).collect()
});

/// Most files of a folder that is written for a reader.
const FILES_MAX: usize = 64;

/// The folder of an input; none where it is none, or has names that no file can have.
pub fn folder(input: &[u8]) -> Option<TempDir> {
    let files: Map<String, Value> = serde_json::from_slice(input).ok()?;
    let folder = TempDir::new().expect("a folder");
    for (path, text) in files.iter().take(FILES_MAX) {
        let is_below =
            |path: &Path| path.components().all(|one| matches!(one, Component::Normal(_)));
        let at = folder.path().join(path);
        if is_below(Path::new(path)) && !path.is_empty() {
            at.parent().map(fs::create_dir_all)?.ok()?;
            fs::write(at, text.as_str()?).ok()?;
        }
    }
    Some(folder)
}

/// Changes files of a folder: values of JSON, lines of other texts; takes one away or adds one.
pub fn change_files(files: &mut Map<String, Value>, chance: &mut Chance) {
    for _ in 0..1 + chance.below(3) {
        let all: Vec<String> = files.keys().cloned().collect();
        if all.is_empty() {
            return;
        }
        let name = chance.pick(&all).clone();
        if chance.one_in(12) {
            let text = files.remove(&name);
            if let Some(text) = text.filter(|_| chance.one_in(2)) {
                let deep = ["rounds/0001-host/record.jsonl", "profiles/1.toml", "a/b", "x"];
                files.insert((*chance.pick(&deep)).to_owned(), text);
            }
            continue;
        }
        let text = files[&name].as_str().unwrap_or_default().to_owned();
        files.insert(name, changed(&text, chance).into());
    }
}

/// A text with another value where it is JSON, or JSON in lines; else with other lines.
fn changed(text: &str, chance: &mut Chance) -> String {
    if let Ok(mut value) = serde_json::from_str::<Value>(text) {
        for _ in 0..1 + chance.below(3) {
            change(&mut value, chance);
        }
        return value.to_string();
    }
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let at = chance.below(lines.len());
    match lines.get(at).and_then(|line| serde_json::from_str::<Value>(line).ok()) {
        Some(mut value) => {
            change(&mut value, chance);
            lines[at] = value.to_string();
            lines.join("\n") + "\n"
        }
        None => change_lines(text, text, chance),
    }
}

/// Makes the account's hashes of records anew, and the manifest: who may write to a bundle can.
fn sealed(files: &mut Map<String, Value>, chance: &mut Chance) {
    if chance.one_in(2) {
        hash_records(files);
    }
    if chance.one_in(16) {
        return;
    }
    let entry = |(path, text): (&String, &Value)| {
        Entry::of(path, text.as_str().unwrap_or_default().as_bytes())
    };
    let manifest = Manifest::of(files.iter().map(entry).collect());
    files.insert(names::MANIFEST.into(), manifest.text().into());
}

fn hash_records(files: &mut Map<String, Value>) {
    let Some(text) = files.get(names::ACCOUNT).and_then(Value::as_str) else { return };
    let Ok(mut account) = serde_json::from_str::<Value>(text) else { return };
    let mut hashes = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| path.ends_with("record.jsonl")) {
        let text = text.as_str().unwrap_or_default();
        let header = text.lines().next().and_then(|line| serde_json::from_str::<Value>(line).ok());
        let Some(header) = header.filter(|_| path.starts_with(names::ROUNDS)) else { continue };
        let lines = text.lines().count();
        let sha256 = hex(&Sha256::digest(text));
        hashes.push(json!({ "run": header["run"], "lines": lines, "sha256": sha256 }));
    }
    let Some(fields) = account.as_object_mut() else { return };
    fields.insert("records".into(), hashes.into());
    files.insert(names::ACCOUNT.into(), account.to_string().into());
}

/// A manifest with other values.
pub fn manifest(chance: &mut Chance) -> Vec<u8> {
    let mut files = chance.pick(&WHOLE).clone();
    sealed(&mut files, chance);
    let text = files.get(names::MANIFEST).and_then(Value::as_str).unwrap_or_default();
    let mut value: Value = serde_json::from_str(text).unwrap_or_default();
    for _ in 0..chance.below(3) {
        change(&mut value, chance);
    }
    if chance.one_in(8) {
        return b"-----BEGIN SSH SIGNATURE-----\nU1NIU0lH\n-----END SSH SIGNATURE-----\n".into();
    }
    value.to_string().into()
}

/// Reads a manifest, and sets files beside it.
pub fn read_manifest(input: &[u8]) -> bool {
    let _ = is_signature(input);
    match Manifest::parse(input) {
        Err(why) => {
            assert!(why.len() < 10_000, "a message without an end");
            false
        }
        Ok(manifest) => {
            assert_eq!(manifest.text().as_bytes(), input, "not as it was read");
            assert_eq!(manifest.difference(&manifest.files), None);
            let _ = manifest.difference(&[]).map(|one| one.to_string());
            true
        }
    }
}

/// Rows of a store.
pub fn rows(chance: &mut Chance) -> Vec<u8> {
    let mut text = String::new();
    for number in 0..3 + chance.below(30) {
        let (node, gpu) = (number / 8, number % 8);
        let values: Vec<f64> = (0..5).map(|at| 3e12 * (1.0 + 0.001 * f64::from(at))).collect();
        let mut row = json!({
            "format": FORMAT, "session": format!("s{node}"), "time": "2026-11-20T10:00:00Z",
            "node": format!("n{node}"), "device": format!("cuda:{gpu}"),
            "uuid": format!("GPU-{node}-{gpu}"), "part": "h100-sxm", "driver": "580",
            "machine": format!("m{node}"), "sender": "unsigned", "metric": "memory read",
            "point": "stream/read/2GiB", "unit": "B/s", "values": values, "least_effect": 0.02,
            "floor": 1e12, "disturbed": 0
        });
        for _ in 0..chance.below(3) {
            change(&mut row, chance);
        }
        text += &format!("{row}\n");
    }
    text.into()
}

/// Reads rows as lines of a store, and judges them; whether each line was one.
pub fn read_rows(input: &[u8]) -> bool {
    let (mut gathered, mut is_whole) = (Gathered::default(), true);
    for (at, line) in input.split(|byte| *byte == b'\n').enumerate() {
        match Row::parse(line) {
            Ok(row) => {
                let time = row.time.to_string();
                let _ = (date(&time), seconds(&time), parse_date(&time), row.date());
                let line = row.line();
                assert!(line.ends_with('\n') && line.matches('\n').count() == 1, "{line}");
                gathered.take(&row, &format!("line {at}"));
            }
            Err(why) => {
                is_whole &= line.is_empty();
                assert!(why.len() < 10_000, "a message without an end");
            }
        }
    }
    if gathered.is_empty() {
        return false;
    }
    let window = Window { latest: "2026-11-24".into(), ..Window::default() };
    let options = Options { window, ..Options::default() };
    let surveyed = survey(gathered, &options, &Labels::default(), None);
    harmless(&format::fleet::text(&surveyed.report));
    harmless(&format::fleet_page::page(&surveyed));
    harmless(&format::fleet::prometheus(&surveyed.report));
    is_whole
}

/// A bundle with other files.
pub fn bundle(chance: &mut Chance) -> Vec<u8> {
    let mut files = chance.pick(&WHOLE).clone();
    change_files(&mut files, chance);
    sealed(&mut files, chance);
    Value::from(files).to_string().into()
}

/// Surveys a bundle and verifies it. What was changed may not pass for what somebody vouched for.
pub fn read_bundle(input: &[u8]) -> bool {
    let Some(folder) = folder(input) else { return false };
    let is_surveyed = surveyed(folder.path());
    let Ok((words, verdict)) = fed::verify(folder.path(), &|| Ok(Catalogue::load(None)?)) else {
        return is_surveyed;
    };
    harmless(&words);
    assert_ne!(verdict, Verdict::Pass, "nobody signed it: {words}");
    is_surveyed
}

/// Surveys what lies below a path; whether there was anything.
fn surveyed(path: &Path) -> bool {
    match fed::survey(path, &CATALOGUE) {
        Err(why) => {
            harmless(&format!("{why:#}"));
            false
        }
        Ok(said) => {
            said.iter().for_each(|text| harmless(text));
            true
        }
    }
}

/// Names in archives that lead out of a folder, or are no file's.
const NAMES: [&str; 10] = [
    "../up",
    "/root-file",
    "a/../../b",
    "n1/./rows.jsonl",
    "n1//rows.jsonl",
    "",
    ".",
    "\u{202e}x",
    "n1/rows.jsonl/below",
    "x.tar",
];

/// An archive of a few bundles, with other names, kinds of entries, sizes and bytes.
pub fn archive(chance: &mut Chance) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for node in 0..1 + chance.below(3) {
        let mut files = chance.pick(&WHOLE).clone();
        if chance.one_in(2) {
            change_files(&mut files, chance);
        }
        sealed(&mut files, chance);
        for (path, text) in &files {
            let text = text.as_str().unwrap_or_default();
            let mut name = format!("n{node}/{path}");
            if chance.one_in(20) {
                name = (*chance.pick(&NAMES)).to_owned();
            }
            if chance.one_in(60) {
                name = "d/".repeat(1 + chance.below(60)) + &name;
            }
            add(&mut builder, &name, text.as_bytes(), chance);
        }
    }
    let mut bytes = builder.into_inner().expect("an archive in memory");
    if chance.one_in(4) {
        // Of the first headers, where sizes and names stand.
        let end = bytes.len().min(4096);
        let mut start: Vec<u8> = bytes.drain(..end).collect();
        change_bytes(&mut start, chance);
        bytes.splice(0..0, start);
    }
    if chance.one_in(4) {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&bytes).expect("in memory");
        return packed.finish().expect("in memory");
    }
    bytes
}

fn add(builder: &mut Builder<Vec<u8>>, name: &str, text: &[u8], chance: &mut Chance) {
    let mut header = Header::new_gnu();
    header.set_mode(0o644);
    header.set_size(text.len() as u64);
    let kinds = [
        EntryType::Symlink,
        EntryType::Link,
        EntryType::Fifo,
        EntryType::Char,
        EntryType::Directory,
        EntryType::GNUSparse,
        EntryType::Continuous,
        EntryType::XHeader,
    ];
    if chance.one_in(30) {
        header.set_entry_type(*chance.pick(&kinds));
        let _ = header.set_link_name(chance.pick::<&str>(&["/etc/passwd", "..", "n0/rows.jsonl"]));
    }
    if chance.one_in(40) {
        header.set_size(1 << chance.below(60));
    }
    // Names that cannot be are left out by the library that writes them.
    if chance.one_in(20) {
        let bytes = header.as_gnu_mut().map(|gnu| &mut gnu.name);
        if let Some(bytes) = bytes {
            let length = name.len().min(bytes.len());
            bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        }
        header.set_cksum();
        let _ = builder.append(&header, text);
    } else {
        let _ = builder.append_data(&mut header, name, text);
    }
}

/// Surveys an archive. Nothing of it may appear beside the folder that it is in.
pub fn read_archive(input: &[u8]) -> bool {
    let folder = TempDir::new().expect("a folder");
    let is_packed = input.starts_with(&[0x1f, 0x8b]);
    let name = if is_packed { "all.tar.gz" } else { "all.tar" };
    fs::write(folder.path().join(name), input).expect("written");
    let is_surveyed = surveyed(folder.path());
    let left = fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(left, 1, "an archive wrote beside itself");
    is_surveyed
}
