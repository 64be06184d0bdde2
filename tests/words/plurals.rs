//! Counts and the words after them: "1 cases" is wrong, and `counted` of `fizeau_domain::text`
//! makes it right. In sources a count in a format string that is followed by a plural word has to
//! go through it, unless it stands in the list of those that do not (units, as in
//! "requests/s"). In texts that programs printed, no 1 stands before such a word.

use std::{collections::BTreeSet, fs, path::Path};

/// Counts that are never 1, read as `FILE: {COUNT} WORD`.
const NEVER_ONE: &str = include_str!("plurals.txt");

/// Plural words that follow counts in messages.
const PLURALS: &[&str] = &[
    "answers",
    "boards",
    "bridges",
    "cases",
    "checks",
    "chunks",
    "claims",
    "cores",
    "devices",
    "elements",
    "events",
    "figures",
    "files",
    "GPUs",
    "groups",
    "interfaces",
    "iterations",
    "kernels",
    "levels",
    "lines",
    "links",
    "messages",
    "metrics",
    "nodes",
    "pairs",
    "parameters",
    "points",
    "processes",
    "queries",
    "racks",
    "ranks",
    "records",
    "repeats",
    "requests",
    "rounds",
    "rows",
    "rules",
    "runs",
    "samples",
    "sequences",
    "sessions",
    "sockets",
    "tests",
    "threads",
    "units",
];

/// The counts of a source that are followed by a plural word, as the list has them.
pub fn counts_of(name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let code = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
    for line in code.filter(|line| !line.trim_start().starts_with("//")) {
        for (end, _) in line.match_indices("} ") {
            let Some(start) = line[..end].rfind('{') else { continue };
            // "1 of 3 cases" reads well, and so does "1 of 1 cases".
            if line[..start].ends_with("of ") || line[start + 1..end].contains('}') {
                continue;
            }
            let rest = &line[end + 2..];
            let word: String = rest.chars().take_while(char::is_ascii_alphabetic).collect();
            if PLURALS.contains(&word.as_str()) {
                found.push(format!("{name}: {} {word}", &line[start..=end]));
            }
        }
    }
    found
}

/// Places of a text where a 1 stands before a plural word.
pub fn ones_of(name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        for (place, pair) in words.windows(2).enumerate() {
            let word = pair[1].trim_matches(|c: char| !c.is_ascii_alphabetic());
            let is_of = place > 0 && words[place - 1] == "of";
            if pair[0] == "1" && PLURALS.contains(&word) && !is_of {
                found.push(format!("{name}:{}: 1 {word}", at + 1));
            }
        }
    }
    found
}

/// Counts that do not go through `counted`, lines of the list that are of no use, and ones before
/// plural words in what programs printed.
pub fn faults(sources: &[(String, String)]) -> Vec<String> {
    let listed: BTreeSet<&str> = NEVER_ONE.lines().filter(|line| !line.starts_with('#')).collect();
    let is_test = |name: &str| name.ends_with("tests.rs") || name.contains("/tests/");
    let found: BTreeSet<String> = sources
        .iter()
        .filter(|(name, _)| !is_test(name))
        .flat_map(|(name, text)| counts_of(name, text))
        .collect();
    let mut faults: Vec<String> = found
        .iter()
        .filter(|one| !listed.contains(one.as_str()))
        .map(|one| format!("{one}: count by fizeau_domain::text::counted, or list it"))
        .collect();
    let is_gone = |line: &&&str| !found.contains(**line);
    faults.extend(listed.iter().filter(is_gone).map(|line| format!("plurals.txt: {line} is gone")));
    for folder in ["tests/library/snapshots", "tests/runs/snapshots", "docs"] {
        let Ok(entries) = fs::read_dir(Path::new(folder)) else { continue };
        for entry in entries.flatten().filter(|entry| entry.path().is_file()) {
            let Ok(text) = fs::read_to_string(entry.path()) else { continue };
            faults.extend(ones_of(&entry.path().to_string_lossy(), &text));
        }
    }
    faults
}
