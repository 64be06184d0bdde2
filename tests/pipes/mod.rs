//! Pipes in shell scripts that fail now and then.
//!
//! Under `pipefail` a pipe fails when any of its commands does, and a command fails that writes on
//! after its reader has left. So `grep word file | grep -q other` says no where the answer is yes,
//! if the first one still has something to write when the second has found its word: a matter of
//! sizes and of who runs first.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A fault for each pipe of the repository's scripts into a command that may leave early.
fn faults() -> Vec<String> {
    let mut scripts = scripts(Path::new("scripts"));
    scripts.push(PathBuf::from(".ci/run"));
    assert!(scripts.len() > 50, "the scripts are found: {}", scripts.len());
    let text = |path: &PathBuf| fs::read_to_string(path).expect("a script is UTF-8");
    scripts.iter().flat_map(|path| faults_of(&path.to_string_lossy(), &text(path))).collect()
}

/// Every `.sh` file below a folder, in order.
fn scripts(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder of scripts can be read").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(scripts(&path));
        } else if path.extension().is_some_and(|extension| extension == "sh") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn faults_of(path: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut goes_on = false;
    for (at, line) in text.lines().enumerate() {
        let code = line.trim();
        if code.starts_with('#') {
            continue;
        }
        let either = code.replace("||", "\0");
        let mut commands = either.split('|');
        // What stands before the first bar is read from a pipe if the line above ends in one.
        let first = commands.next().filter(|_| goes_on);
        for reader in first.into_iter().chain(commands).filter(|reader| leaves_early(reader)) {
            let reader = reader.trim().replace('\0', "||");
            faults.push(format!(
                "{path}:{}: `| {reader}` may end before its writer, which then fails: let it \
                 read a file or a here-string, or all of the pipe",
                at + 1
            ));
        }
        goes_on = either.ends_with('|');
    }
    faults
}

/// Whether a command may end before it has read everything.
fn leaves_early(command: &str) -> bool {
    let mut words = command.split_whitespace();
    match words.next() {
        Some("head") => true,
        Some("grep") => words
            .take_while(|word| word.starts_with('-') && !word.starts_with("--"))
            .any(|options| options.contains(['q', 'm'])),
        Some("sed") => words.any(|word| word.trim_end_matches(['\'', '"', '}']).ends_with('q')),
        _ => false,
    }
}

#[test]
fn no_script_reads_a_pipe_in_part() {
    let faults = faults();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn planted_pipes_are_found() {
    let count = |text: &str| faults_of("scripts/x.sh", text).len();
    assert_eq!(count("if ! grep \"^fault: \" said | grep -q -- \"$3\"; then\n"), 1);
    assert_eq!(count("squeue -h |\n    grep -qF .\n"), 1);
    assert_eq!(count("x=$(sed -n 's/a/b/p' file | head -n 1)\n"), 1);
    assert_eq!(count("a | sort | sed 5q\na | sed -n '/x/{p;q}'\n"), 2);
    assert_eq!(count("ldconfig -p | grep -m 1 x || true\n"), 1);
    assert_eq!(count("head -n 1 file\ngrep -q x file || head file\n# a | head\n"), 0);
    assert_eq!(count("a | grep -v -- -q\na | sed 's/^q/x/' | sort -u\ngrep -q x <<<\"$(a)\"\n"), 0);
}
