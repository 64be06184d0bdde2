//! What the program is built of: every dependency comes from crates.io, its licence allows what
//! ours allows, and none is there twice unless it is listed with its reason.
//!
//! `cargo deny` checks the same. It is a program of some 400 crates, which take longer to build
//! than `scripts/check.sh` has for such a question, and `cargo metadata` already tells
//! what has to be known. What is not checked is whether there are advisories against a version:
//! those are a database that changes every day, and no build has it (`cargo audit` does where there
//! is a network).

use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

/// Licences that let a binary be passed on as MIT or Apache-2.0, with no more than a notice.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Crates of which two major versions are built, with what still needs the older one.
const TWICE: &[(&str, &str)] = &[
    ("getrandom", "ring, and ahash of jsonschema in tests"),
    ("libloading", "nvml-wrapper"),
    ("miniz_oxide", "png, of resvg"),
    ("shlex", "trycmd in tests"),
    ("similar", "insta in tests"),
    ("syn", "macros of nvml-wrapper and of others that have not moved yet"),
    ("thiserror", "nvml-wrapper"),
    ("thiserror-impl", "nvml-wrapper"),
];

/// The faults of a workspace, as `cargo metadata` tells of it.
fn faults(metadata: &Value, twice: &[(&str, &str)]) -> Vec<String> {
    let empty = Vec::new();
    let list = |name: &str| metadata[name].as_array().unwrap_or(&empty);
    let members: BTreeSet<&str> =
        list("workspace_members").iter().filter_map(Value::as_str).collect();
    let mut faults = Vec::new();
    let mut versions: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for package in list("packages") {
        let text = |name: &str| package[name].as_str().unwrap_or_default();
        let (name, version) = (text("name"), text("version"));
        if members.contains(text("id")) {
            continue;
        }
        if text("source") != CRATES_IO {
            faults.push(format!("{name} {version} does not come from crates.io"));
        }
        if !is_allowed(text("license")) {
            faults.push(format!("{name} {version}: licence {:?}", text("license")));
        }
        versions.entry(name).or_default().insert(major(version));
    }
    for (name, versions) in &versions {
        if versions.len() > 1 && !twice.iter().any(|(listed, _)| listed == name) {
            let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
            faults.push(format!("{name} is built in versions {}", versions.join(" and ")));
        }
    }
    let is_twice = |name: &str| versions.get(name).is_some_and(|versions| versions.len() > 1);
    let old = twice.iter().filter(|(name, _)| !is_twice(name));
    faults.extend(old.map(|(name, _)| format!("{name} is listed and not there twice any more")));
    faults
}

/// What changes with a version that may break others: `1` of 1.2.3, `0.4` of 0.4.5.
fn major(version: &str) -> String {
    let mut numbers = version.split('.');
    let (first, second) = (numbers.next().unwrap_or(""), numbers.next().unwrap_or(""));
    if first == "0" { format!("0.{second}") } else { first.to_owned() }
}

/// Whether an SPDX expression can be met by the licences of the list. Older crates write `/` for
/// OR.
fn is_allowed(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    let words: Vec<&str> = expression.split_whitespace().collect();
    let expression = words.join(" ");
    if let Some(parts) = split(&expression, " OR ") {
        return parts.iter().any(|part| is_allowed(part));
    }
    if let Some(parts) = split(&expression, " AND ") {
        return parts.iter().all(|part| is_allowed(part));
    }
    match expression.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        Some(inner) => is_allowed(inner),
        None => LICENCES.contains(&expression.as_str()),
    }
}

/// The parts between a word outside of parentheses; `None` where it does not stand there.
fn split<'e>(expression: &'e str, word: &str) -> Option<Vec<&'e str>> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, sign) in expression.char_indices() {
        match sign {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 && at >= start && expression[at..].starts_with(word) => {
                parts.push(&expression[start..at]);
                start = at + word.len();
            }
            _ => {}
        }
    }
    parts.push(&expression[start..]);
    (parts.len() > 1).then_some(parts)
}

#[test]
fn dependencies_are_from_crates_io_under_known_licences_and_once() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // Of Linux alone, which the build has downloaded: a fresh machine has no others.
    let platform = "--filter-platform=x86_64-unknown-linux-gnu";
    let args = ["metadata", "--locked", "--offline", "--format-version", "1", platform];
    let told = Command::new(cargo).args(args).output().expect("cargo is there");
    let words = String::from_utf8_lossy(&told.stderr);
    assert!(told.status.success(), "{words}");
    let metadata: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    let count = metadata["packages"].as_array().map_or(0, Vec::len);
    assert!(count > 100, "{count} packages");
    let faults = faults(&metadata, TWICE);
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn each_kind_of_dependency_fault_is_found() {
    let package = |name: &str, version: &str, license: &str, source: &str| {
        serde_json::json!({
            "id": format!("{name}@{version}"), "name": name, "version": version,
            "license": license, "source": source,
        })
    };
    let found = |packages: Vec<Value>, twice: &[(&str, &str)]| {
        let metadata = serde_json::json!({
            "packages": packages, "workspace_members": ["own@0.1.0"],
        });
        faults(&metadata, twice)
    };
    let good = || package("good", "1.2.0", "MIT OR GPL-3.0", CRATES_IO);
    let own = || package("own", "0.1.0", "", "");
    assert_eq!(found(vec![good(), own()], &[]), [""; 0]);
    let foreign = package("good", "1.2.0", "MIT", "git+https://example.org/good");
    assert_eq!(found(vec![foreign], &[]).len(), 1);
    for licence in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND GPL-3.0", "LGPL-2.1"] {
        let faults = found(vec![package("other", "1.0.0", licence, CRATES_IO)], &[]);
        assert_eq!(faults, [format!("other 1.0.0: licence {licence:?}")]);
    }
    let licence = "(MIT OR Apache-2.0) AND Unicode-3.0";
    assert_eq!(found(vec![package("other", "1.0.0", licence, CRATES_IO)], &[]), [""; 0]);
    let older = || package("good", "0.9.1", "MIT/Apache-2.0", CRATES_IO);
    let minor = || package("good", "1.9.0", "MIT", CRATES_IO);
    assert_eq!(found(vec![good(), minor()], &[]), [""; 0]);
    assert_eq!(found(vec![good(), older()], &[]), ["good is built in versions 0.9 and 1"]);
    let listed = [("good", "somebody needs the older one")];
    assert_eq!(found(vec![good(), older()], &listed), [""; 0]);
    assert_eq!(found(vec![good()], &listed), ["good is listed and not there twice any more"]);
}
