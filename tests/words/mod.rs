//! Words that were replaced and are not to come back, each with what stands in its place.

pub mod plurals;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A wording, in lower case, and what to write. A space stands for any white space and for the
/// marks of a comment, so that a line break hides nothing; both ends must be ends of words.
const GONE: &[(&str, &str)] = &[
    ("so many", "n, this many, or the quantity's name"),
    ("mend", "fix, remedy"),
    ("is had", "is allocated"),
    ("are had", "are allocated"),
    ("were had", "were allocated"),
    ("goes on", "continues"),
    ("go on", "continue"),
    ("gets on", "makes progress"),
    ("held against", "checked against"),
    ("stays away", "never enters"),
    ("stayed away", "never entered"),
    ("passed over", "ignored, skipped"),
    ("called so", "named so"),
    ("somebody", "another user, another process, an attacker"),
    ("ought", "should"),
    ("in earnest", "random, as in a real workload"),
    ("sought after", "popular"),
    ("for ever", "without end"),
    ("lest", "so that not"),
    ("speaks of", "is about"),
    ("that is said", "the report says so"),
    ("fetch for both", "multicast"),
];

/// Wordings that are gone from the prose of pages: README and docs, without the appendix, whose
/// pages programs print. Code between backquotes and in blocks is as programs write it.
const GONE_FROM_PAGES: &[(&str, &str)] = &[
    ("nobody", "no user, no rank, no source, .."),
    ("anybody", "any user, anyone"),
    ("whoever", "the holder, the author, a user who"),
    ("is told", "is reported, is an input of"),
    ("are told", "are reported"),
    ("was told", "was reported"),
    ("not told", "unknown, not reported"),
    ("told from", "distinguished from"),
    ("tells of", "reports"),
    ("what is not", "name the thing: unknown values, other fields"),
    ("of which one speaks", "that a figure is about"),
    ("how surely", "with what confidence"),
    ("that that", "one \"that\", or two sentences"),
    ("so much so", "so that"),
    ("is nobody's", "is private"),
    ("what came out", "the output"),
];

/// Folders and files that are read. Two pages are printed by programs whose tables have columns of
/// these names.
const READ: &[&str] = &["src", "crates", "data/suites", "docs", "README.md", "CONTRIBUTING.md"];
const NOT_READ: &[&str] = &["docs/appendix/localise-rates.md", "docs/appendix/error-rates.md"];
const ENDINGS: &[&str] = &["rs", "md", "toml"];

/// Every place in the repository where such a word stands.
pub fn faults() -> Vec<String> {
    let mut faults = Vec::new();
    for root in READ {
        for path in files(Path::new(root)) {
            let name = path.to_string_lossy().replace('\\', "/");
            if NOT_READ.contains(&name.as_str()) {
                continue;
            }
            let text = fs::read_to_string(&path).expect("a source file is UTF-8");
            faults.extend(faults_of(&name, &text));
            if name.ends_with(".md") {
                faults.extend(sizes_of(&name, &text));
                if !name.starts_with("docs/appendix/") && !name.starts_with("crates/") {
                    faults.extend(faults_of_page(&name, &text));
                }
            }
        }
    }
    faults
}

fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .flat_map(|entry| files(&entry.path()))
        .filter(|file| ENDINGS.iter().any(|end| file.extension().is_some_and(|is| is == *end)))
        .collect();
    found.sort();
    found
}

/// The prose of a page, line by line: without blocks of code and without code between backquotes.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let mut is_span = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code && !line.starts_with("    ") {
            is_span &= !line.trim().is_empty();
            for (at, piece) in line.split('`').enumerate() {
                is_span ^= at > 0;
                prose += if is_span { " ` " } else { piece };
            }
        }
        prose.push('\n');
    }
    prose
}

/// The words that are gone from the prose of a page, with their lines.
pub fn faults_of_page(name: &str, text: &str) -> Vec<String> {
    found(name, &prose(text), GONE_FROM_PAGES)
}

/// The words of a text that are gone, with their lines.
pub fn faults_of(name: &str, text: &str) -> Vec<String> {
    found(name, text, GONE)
}

fn found(name: &str, text: &str, gone: &[(&str, &str)]) -> Vec<String> {
    // Words one after the other, each with its line; marks of comments are none.
    let lines = text.lines().enumerate();
    let words: Vec<(String, usize)> = lines
        .flat_map(|(at, line)| {
            let is_mark = |word: &&str| !word.chars().all(|c| "/!#*|\\".contains(c));
            let clean =
                |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
            line.split_whitespace().filter(is_mark).map(move |word| (clean(word), at + 1))
        })
        .collect();
    let mut faults = Vec::new();
    for (gone, instead) in gone {
        let parts: Vec<&str> = gone.split(' ').collect();
        for window in words.windows(parts.len()) {
            if window.iter().zip(&parts).all(|((word, _), part)| word == part) {
                faults.push(format!("{name}:{}: {gone:?}: write {instead}", window[0].1));
            }
        }
    }
    faults
}

/// Sizes in the prose of a page that are not written as reports write them: a binary unit after a
/// space, `128 MiB`. Rates are decimal, `134.2 MB/s`; ids and commands are code, and as they are.
pub fn sizes_of(name: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut is_code = false;
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code || line.starts_with("    ") || line.starts_with("```") {
            continue;
        }
        // Every second piece between backquotes is code.
        let prose = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
        let words: Vec<&str> = prose.split_whitespace().collect();
        let is_number =
            |word: &str| word.ends_with(|c: char| c.is_ascii_digit()) && !word.contains('/');
        for (place, word) in words.iter().enumerate() {
            let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
            let after_number = place > 0 && is_number(words[place - 1]);
            let instead = match bare {
                "kB" | "KB" | "MB" | "GB" if after_number => "KiB, MiB or GiB",
                _ if ["KiB", "MiB", "GiB", "kB", "KB", "MB", "GB"]
                    .iter()
                    .any(|unit| bare.strip_suffix(unit).is_some_and(is_number)) =>
                {
                    "a space before the unit"
                }
                _ => continue,
            };
            faults.push(format!("{name}:{}: a size as {word:?}: write {instead}", at + 1));
        }
    }
    faults
}

/// Environment variables that tests, builds and the program's own processes use, not its users.
const INTERNAL: &[&str] = &[
    "FIZEAU_BUILD",
    "FIZEAU_FLIP",
    "FIZEAU_LAUNCHER",
    "FIZEAU_PLANT",
    "FIZEAU_PLANT_TURBO",
    "FIZEAU_REQUIRE_ALL",
    "FIZEAU_REPORT_DIR",
];

/// Variables that sources read and the help does not name.
pub fn variables_without_help(sources: &[(String, String)], help: &str) -> Vec<String> {
    let mut missing = Vec::new();
    for (path, text) in sources {
        for (at, _) in text.match_indices("\"FIZEAU_") {
            let name: String = text[at + 1..]
                .chars()
                .take_while(|c| c.is_ascii_uppercase() || *c == '_')
                .collect();
            if !help.contains(&name) && !INTERNAL.contains(&name.as_str()) {
                missing.push(format!("{path}: {name} is not in the help of fizeau"));
            }
        }
    }
    missing
}
