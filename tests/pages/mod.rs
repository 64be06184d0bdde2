//! The pages of the documentation: every link leads somewhere, every page stands in the book once,
//! and README is short.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
};

/// Pages outside the book that link to it.
const BESIDE: &[&str] =
    &["README.md", "CONTRIBUTING.md", "kernels/README.md", "data/README.md", "results/README.md"];

/// Folders of the repository by which a path in code is known as one.
const FOLDERS: &[&str] = &[
    "src/",
    "crates/",
    "docs/",
    "scripts/",
    "examples/",
    "tests/",
    "data/",
    "kernels/",
    "results/",
];

/// Files that a page would have its reader write.
const EXAMPLES: &[&str] = &[
    "crates/report/src/format/tsv.rs",
    "crates/bench/src/atomic.rs",
    "kernels/atomic/portable.cu",
];

const README_LINES_MAX: usize = 150;

/// Each page by its path in the repository, with its text.
pub fn pages() -> BTreeMap<PathBuf, String> {
    let mut paths: Vec<PathBuf> = BESIDE.iter().map(PathBuf::from).collect();
    for folder in ["docs", "docs/appendix"] {
        let entries = fs::read_dir(folder).expect("a folder of pages").flatten();
        let files = entries.map(|entry| entry.path());
        paths.extend(files.filter(|path| path.extension().is_some_and(|is| is == "md")));
    }
    let text = |path: &Path| fs::read_to_string(path).expect("a page is UTF-8");
    paths.into_iter().map(|path| (path.clone(), text(&path))).collect()
}

/// Lines of indented code on which a wrapped paragraph has left two commands.
pub fn joined_commands(name: &str, text: &str) -> Vec<String> {
    let mut is_fenced = false;
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        is_fenced ^= line.trim_start().starts_with("```");
        if is_fenced || !line.starts_with("    ") {
            continue;
        }
        let commands = line.split_whitespace().filter(|word| *word == "fizeau").count();
        if commands > 1 {
            found.push(format!("{name}:{}: two commands on one line of code", at + 1));
        }
    }
    found
}

/// What is wrong with links, with the book's table of contents, and with README.
pub fn faults_of(pages: &BTreeMap<PathBuf, String>, exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in pages {
        let folder = path.parent().unwrap_or(Path::new(""));
        for link in links(text) {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { path.clone() } else { plain(&folder.join(file)) };
            if !pages.contains_key(&target) && !exists(&target) {
                faults.push(format!("{}: {link} leads nowhere", path.display()));
            } else if let Some(page) = pages.get(&target).filter(|_| !anchor.is_empty())
                && !anchors(page).contains(anchor)
            {
                faults.push(format!("{}: {link}: no such heading", path.display()));
            }
        }
    }
    for (path, text) in pages {
        let named = named_files(text).into_iter().filter(|file| !EXAMPLES.contains(file));
        let lost = named.filter(|file| {
            let file = Path::new(file);
            !pages.contains_key(file) && !exists(file)
        });
        faults.extend(lost.map(|file| format!("{}: there is no {file}", path.display())));
    }
    let summary = Path::new("docs/SUMMARY.md");
    let listed: Vec<PathBuf> = pages.get(summary).map_or(Vec::new(), |text| {
        links(text).iter().map(|link| Path::new("docs").join(link)).collect()
    });
    for page in pages.keys().filter(|path| path.starts_with("docs") && *path != summary) {
        let times = listed.iter().filter(|one| *one == page).count();
        if times != 1 {
            faults.push(format!("{}: {times} times in docs/SUMMARY.md", page.display()));
        }
    }
    let lines = pages.get(Path::new("README.md")).map_or(0, |text| text.lines().count());
    if lines > README_LINES_MAX {
        faults.push(format!("README.md: {lines} lines, at most {README_LINES_MAX}"));
    }
    faults
}

/// The lines of a page that are neither code nor indented as code is.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence && !line.starts_with("    ")
    })
}

/// The targets of links to files and headings of this repository.
fn links(text: &str) -> Vec<String> {
    let text: String = prose(text).collect::<Vec<_>>().join("\n");
    // Every second piece between backquotes is code.
    let text = text.split('`').enumerate().map(|(at, part)| if at % 2 == 0 { part } else { "" });
    let text: String = text.collect();
    let after = text.match_indices("](").map(|(at, _)| &text[at + 2..]);
    let targets = after.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.trim());
    targets.filter(|target| !target.contains("://")).map(str::to_owned).collect()
}

/// Files of the repository that a page names in code: by whole paths, without patterns and
/// placeholders.
fn named_files(text: &str) -> BTreeSet<&str> {
    let words = prose(text).flat_map(|line| {
        line.split('`')
            .enumerate()
            .filter(|(at, _)| at % 2 == 1)
            .flat_map(|(_, code)| code.split(' '))
    });
    let is_placeholder =
        |part: &str| part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase());
    let is_file = |word: &&str| {
        FOLDERS.iter().any(|folder| word.starts_with(folder))
            && !word.contains(['*', '{', '<', '[', '$', '=', ':'])
            && !word.starts_with("results/local")
            && !word.split('/').any(is_placeholder)
    };
    words.map(|word| word.trim_end_matches(['/', ',', '.', ';'])).filter(is_file).collect()
}

/// The names that headings are linked by: words in lower case with `-` between them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    let name = |line: &str| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(name).collect()
}

/// A path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}
