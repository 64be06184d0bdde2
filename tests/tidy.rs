//! The rules of the code that no linter knows. Every rule has a planted fault beside it that
//! proves it can fail.

mod dependencies;
mod imports;
mod pages;
mod pipes;
mod words;

use imports::{Tree, circles, fold};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// The folders of sources: the crates from the bottom up, then the program. The compiler holds the
/// order of crates, by the dependencies in their Cargo.toml.
const SOURCES: &[&str] = &[
    "crates/domain/src",
    "crates/record/src",
    "crates/judge/src",
    "crates/projection/src",
    "crates/report/src",
    "crates/device/src",
    "crates/comm/src",
    "crates/bench/src",
    "src",
];

/// What describes and judges: from records and other data alone, so that it can be done again.
const PURE: &[&str] = &[
    "crates/domain/src/",
    "crates/record/src/guard.rs",
    "crates/record/src/identity.rs",
    "crates/record/src/redact.rs",
    "crates/judge/src/",
    "crates/projection/src/",
    "crates/report/src/",
];

/// What the pure ones may not use: what drives, reads or waits.
const EFFECTS: &[&str] = &[
    "std::io::Stdin",
    "std::io::stdin",
    "std::os",
    "std::time::UNIX_EPOCH",
    "crate::file",
    "crate::store",
    "fizeau_record::file",
    "fizeau_record::store",
    "std::env",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
];

/// Methods of a path that look at files, which no import shows.
const LOOKS: &[&str] =
    &[".exists()", ".is_file()", ".is_dir()", ".read_dir()", ".metadata()", ".canonicalize()"];

const COLUMNS_MAX: usize = 100;
const FUNCTION_LINES_MAX: usize = 80;
const FILE_LINES_MAX: usize = 600;

/// No file below these folders uses itself by way of others, and no folder in them another that
/// uses it. In the other crates this holds for the modules of `lib.rs` and not for files within
/// one.
const WITHOUT_CIRCLES: &[&str] = &["crates/device/src", "src/cmd"];

#[test]
fn the_tree_is_tidy() {
    let mut faults = Vec::new();
    for (path, text) in &texts_of_all() {
        faults.extend(faults_of(Path::new(path), text));
    }
    for folder in ["tests", "benches"] {
        for path in sources(Path::new(folder)) {
            let text = fs::read_to_string(&path).expect("a source file is UTF-8");
            faults.extend(wide_lines(&path, &text));
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn every_link_of_the_pages_leads_somewhere_and_every_page_is_in_the_book() {
    let faults = pages::faults_of(&pages::pages(), Path::exists);
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn planted_faults_of_pages_are_found() {
    let at = |files: &[(&str, &str)]| {
        let page = |(path, text): &(&str, &str)| (PathBuf::from(path), (*text).to_owned());
        let is_there = |path: &Path| path == Path::new("src/main.rs");
        pages::faults_of(&files.iter().map(page).collect(), is_there).join("\n")
    };
    let summary = ("docs/SUMMARY.md", "- [One](one.md)\n- [Two](appendix/two.md)\n");
    let two = ("docs/appendix/two.md", "[a](../one.md#the-first-one) [b](../../src/main.rs)\n");
    let one = ("docs/one.md", "## The `first`, one\n`[c](d.md)`\n```\n[e](f.md)\n```\n");
    assert_eq!(at(&[summary, one, two]), "");
    assert!(at(&[summary, one]).contains("SUMMARY.md: appendix/two.md leads nowhere"));
    assert!(at(&[summary, ("docs/one.md", "## Other\n"), two]).contains("no such heading"));
    assert!(at(&[summary, one, two, ("docs/x.md", "")]).contains("x.md: 0 times in"));
    let named = ("docs/one.md", "`src/main.rs` and `scripts/run DIR`, `src/*.rs`, `src/gone.rs`\n");
    assert!(at(&[summary, named]).contains("there is no src/gone.rs"));
    assert_eq!(at(&[summary, named]).matches("there is no scripts/run").count(), 1);
    assert!(!at(&[summary, named]).contains("src/main.rs"));
    assert!(at(&[("README.md", &"a line\n".repeat(151))]).contains("151 lines, at most 150"));
}

#[test]
fn words_that_are_gone_stay_gone() {
    let faults = words::faults();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn each_command_of_a_page_has_a_line_of_its_own() {
    let of =
        |(path, text): (&PathBuf, &String)| pages::joined_commands(&path.to_string_lossy(), text);
    let faults: Vec<String> = pages::pages().iter().flat_map(of).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let wrapped = "    fizeau run    # a few minutes fizeau\n    list\n";
    assert_eq!(pages::joined_commands("docs/x.md", wrapped).len(), 1);
    assert_eq!(pages::joined_commands("docs/x.md", "    fizeau run\n    fizeau list\n").len(), 0);
}

#[test]
fn a_count_of_one_has_no_plural_word() {
    let faults = words::plurals::faults(&texts_of_all());
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    let of = |line: &str| words::plurals::counts_of("src/x.rs", line).join("\n");
    assert_eq!(of("format!(\"{count} cases failed\")\n"), "src/x.rs: {count} cases");
    assert_eq!(of("format!(\"{one} of {all} cases\")\n"), "");
    let printed = |line: &str| words::plurals::ones_of("x.snap", line).len();
    assert_eq!((printed("took 1 iterations, 21 cases"), printed("1 of 1 cases, 1 case")), (1, 0));
}

#[test]
fn the_help_names_every_variable() {
    let text = fs::read_to_string("src/cmd/mod.rs").expect("a source file is UTF-8");
    let (_, rest) = text.split_once("Environment variables:").expect("they are in the help");
    let (help, _) = rest.split_once("Exit codes:").expect("exit codes follow them");
    let faults = words::variables_without_help(&texts_of_all(), help);
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn planted_words_are_found() {
    let at = |text: &str| words::faults_of("src/units.rs", text).join("\n");
    assert_eq!(at("/// Almost mended, and a foregone somebodyless end.\n"), "");
    assert!(at("/// How to mend it.\n").contains("src/units.rs:1: \"mend\""));
    assert!(at("/// What is\n    /// had, and more.\n").contains(":1: \"is had\""));
    assert!(at("say(\"the run goes on\");\n").contains("write continues"));
    let page = |text: &str| words::faults_of_page("docs/x.md", text).join("\n");
    assert!(
        page("A word.\nFew see\nwhat is\nnot there.\n").contains("docs/x.md:3: \"what is not\"")
    );
    assert!(page("It is told, and that\nthat fails nobody.\n").matches("docs/x.md").count() == 3);
    assert_eq!(page("Says `nobody is slow`.\n\n    nobody\n```text\nis told\n```\n"), "");
    assert!(page("`a\nb` nobody `c`\n").contains(":2: \"nobody\""));
    let sizes = |text: &str| words::sizes_of("README.md", text).len();
    assert_eq!(sizes("Messages of 128 MiB at 134.2 MB/s, `gemm 128MiB`, GB is 10^9 bytes.\n"), 0);
    assert_eq!(sizes("```console\n$ fizeau run --size 4KiB\n```\n    about 12 MB\n"), 0);
    assert_eq!((sizes("Buffers of 128MiB.\n"), sizes("of (134.2 MB) each\n")), (1, 1));
    let sources = [("src/x.rs".to_owned(), "env::var(\"FIZEAU_NOVEL\")".to_owned())];
    assert_eq!(words::variables_without_help(&sources, "FIZEAU_DATA").len(), 1);
    assert_eq!(words::variables_without_help(&sources, "FIZEAU_NOVEL").len(), 0);
}

#[test]
fn what_judges_or_describes_has_no_effects() {
    let of_crate = |folder: &&str| impure_uses(&tree_of(folder));
    let faults: Vec<String> = SOURCES.iter().flat_map(of_crate).collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn no_imports_go_in_circles() {
    let of_crate = |folder: &&str| circular_imports(folder, &tree_of(folder));
    let faults: Vec<String> = SOURCES.iter().flat_map(of_crate).collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// The modules of the library whose sources are in a folder. The program is a file of its own
/// beside it.
fn tree_of(folder: &str) -> Tree {
    let texts = texts_of(folder);
    let library = texts.iter().filter(|(path, _)| path != "src/main.rs");
    Tree::of(library.map(|(path, text)| (path.as_str(), text.as_str())))
}

/// The path and text of every source file of Fizeau's own crates.
fn texts_of_all() -> Vec<(String, String)> {
    SOURCES.iter().flat_map(|folder| texts_of(folder)).collect()
}

/// The path and text of every source file below a folder.
fn texts_of(folder: &str) -> Vec<(String, String)> {
    let text = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a source file is UTF-8");
        (path.to_string_lossy().replace('\\', "/"), text)
    };
    sources(Path::new(folder)).into_iter().map(text).collect()
}

/// Every `.rs` file below a folder, in order.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn faults_of(path: &Path, text: &str) -> Vec<String> {
    let code = without_tests(text);
    let mut faults = wide_lines(path, text);
    faults.extend(long_file(path, text));
    faults.extend(long_functions(path, &code));
    faults.extend(words_out_of_place(path, &code));
    faults
}

/// A file up to its unit tests.
fn without_tests(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    text[..end].to_owned()
}

fn wide_lines(path: &Path, text: &str) -> Vec<String> {
    let wide = text.lines().enumerate().filter(|(_, line)| line.chars().count() > COLUMNS_MAX);
    wide.map(|(at, _)| format!("{}:{}: over {COLUMNS_MAX} columns", path.display(), at + 1))
        .collect()
}

fn long_file(path: &Path, text: &str) -> Option<String> {
    let count = text.lines().count();
    (count > FILE_LINES_MAX)
        .then(|| format!("{}: {count} lines, at most {FILE_LINES_MAX}", path.display()))
}

fn long_functions(path: &Path, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut start: Option<(usize, usize)> = None;
    for (index, line) in text.lines().enumerate() {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        if start.is_none() && is_function(code) && !code.ends_with([';', '}']) {
            start = Some((index, indent));
        }
        // A declaration over several lines has no body.
        if start.is_some_and(|(_, column)| indent == column)
            && code.starts_with(')')
            && code.ends_with(';')
        {
            start = None;
        }
        if let Some((first, column)) = start
            && code == "}"
            && indent == column
        {
            if index - first + 1 > FUNCTION_LINES_MAX {
                let place = format!("{}:{}", path.display(), first + 1);
                faults.push(format!("{place}: a function over {FUNCTION_LINES_MAX} lines"));
            }
            start = None;
        }
    }
    faults
}

fn is_function(code: &str) -> bool {
    let before = |word: &&str| {
        matches!(*word, "pub" | "const" | "unsafe" | "extern" | "\"C\"") || word.starts_with("pub(")
    };
    code.split_whitespace().find(|word| !before(word)) == Some("fn")
}

fn is_pure(file: &str) -> bool {
    PURE.iter().any(|place| file.starts_with(place))
}

fn impure_uses(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    for (file, used) in tree.uses().into_iter().filter(|(file, _)| is_pure(file)) {
        let path = used.join("::");
        let is_below = |effect: &&&str| {
            path.strip_prefix(**effect).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
        };
        if let Some(effect) = EFFECTS.iter().find(is_below) {
            faults.push(format!("{file}: it judges or describes, and may not use {effect}"));
        }
    }
    faults.dedup();
    faults
}

/// How deep folders are looked at.
const DEPTH_MAX: usize = 4;

/// The circles of a crate, given the folder of its sources.
fn circular_imports(crate_folder: &str, tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    let within = WITHOUT_CIRCLES.iter().filter(|folder| folder.starts_with(crate_folder));
    for folder in within {
        let graph = tree.graph(folder);
        faults.extend(circles(&graph));
        for depth in 1..=DEPTH_MAX {
            faults.extend(circles(&folded(&graph, folder, depth)));
        }
    }
    if !WITHOUT_CIRCLES.contains(&crate_folder) {
        faults.extend(circles(&folded(&tree.graph(crate_folder), crate_folder, 1)));
    }
    faults
}

/// The graph of the folders at a depth below `folder`, where `folder/cuda/gate.rs` stands in
/// `folder/cuda` at depth 1.
fn folded(graph: &imports::Graph, folder: &str, depth: usize) -> imports::Graph {
    fold(graph, |node| {
        let inner = node.trim_start_matches(folder).trim_start_matches('/');
        match inner.match_indices('/').nth(depth - 1) {
            Some((end, _)) => format!("{folder}/{}", &inner[..end]),
            None => node.into(),
        }
    })
}

/// What only one place may say: (words, where they may stand, why).
const PLACES: &[(&str, &[&str], &str)] = &[
    ("Instant::now", &["crates/device/src/clock.rs"], "clock.rs alone reads the clock"),
    ("print!(", &[], "it panics on a closed pipe, and cmd alone prints: cmd::output"),
    ("println!(", &[], "it panics on a closed pipe, and cmd alone prints: cmd::output"),
    ("io::stderr()", &["src/cmd/output.rs", "src/cmd/progress.rs"], "output::say alone complains"),
    (
        "stdout()",
        &[
            "src/cmd/document.rs",
            "src/cmd/global.rs",
            "src/cmd/output.rs",
            "src/cmd/recording/turns.rs",
            "crates/device/src/library.rs",
        ],
        "output::write_out alone writes there: what a verb found does not depend on who reads it",
    ),
    ("process::exit", &["src/cmd", "src/main.rs"], "cmd alone exits"),
    ("use std as ", &[], "the import check knows std by its name"),
    ("extern crate", &[], "the import check does not see what is behind it"),
    ("#[macro_export]", &[], "the import check does not see where a macro is from"),
    ("#[path", &["crates/device/src/lib.rs"], "the import check knows a module by its file"),
    ("include!(", &["src/data.rs", "src/kernels.rs"], "the import check does not read it"),
    ("= \"crate::", &[], "a path in a string is not seen by the import check"),
    ("#[allow(", &[], "write #[expect(.., reason = \"..\")]"),
    ("todo!(", &[], "nothing unfinished is committed"),
    ("unimplemented!(", &[], "nothing unfinished is committed"),
];

fn words_out_of_place(path: &Path, text: &str) -> Vec<String> {
    let place = path.to_string_lossy().replace('\\', "/");
    let mut faults = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("//") {
            continue;
        }
        let at = format!("{place}:{}", index + 1);
        let is_inner = line.starts_with(' ') && line.trim_start().starts_with("mod ");
        // One macro makes a module for each instruction set.
        if is_inner && place != "crates/device/src/host/stream/x86.rs" {
            faults.push(format!("{at}: a module stands at the top of its file"));
        }
        if place == "src/lib.rs" && line.contains("use ") {
            faults.push(format!("{at}: lib.rs gives modules no other names"));
        }
        if let Some(look) = LOOKS.iter().find(|look| line.contains(**look))
            && is_pure(&place)
        {
            faults.push(format!("{at}: it judges or describes, and may not ask {look}"));
        }
        for (word, places, why) in PLACES {
            if line.contains(word) && !places.iter().any(|allowed| place.starts_with(allowed)) {
                faults.push(format!("{place}:{}: {word}: {why}", index + 1));
            }
        }
    }
    faults
}

#[test]
fn planted_faults_are_found() {
    let at = |path: &str, text: &str| faults_of(Path::new(path), text).join("\n");
    assert_eq!(at("src/units.rs", "fn f() {}\n"), "");
    assert!(at("src/stats/mod.rs", "let t = Instant::now();\n").contains("reads the clock"));
    assert!(at("src/session/mod.rs", "println!(\"hello\");\n").contains("cmd alone prints"));
    assert!(at("src/cmd/list.rs", "io::stdout().lock();\n").contains("on who reads it"));
    assert!(at("src/cmd/run.rs", "eprintln!(\"{why}\");\n").contains("a closed pipe"));
    assert!(at("src/cmd/run.rs", "writeln!(io::stderr(), \"x\");\n").contains("output::say alone"));
    assert!(at("src/units.rs", "#[allow(dead_code)]\n").contains("expect"));
    assert!(at("src/units.rs", "fn f() {\n    todo!()\n}\n").contains("unfinished"));
    assert!(at("src/stats/mod.rs", "use std as s;\n").contains("std by its name"));
    assert!(at("src/units.rs", "extern crate self as f;\n").contains("import check"));
    assert!(at("src/cmd/run.rs", "#[macro_export]\n").contains("import check"));
    assert!(at("src/units.rs", "#[path = \"x.rs\"]\n").contains("import check"));
    assert!(at("src/units.rs", "#[serde(with = \"crate::cmd::x\")]\n").contains("a string"));
    assert!(at("src/units.rs", "fn f() {\n    mod m {}\n}\n").contains("top of its file"));
    assert!(at("src/lib.rs", "pub use session::one;\n").contains("no other names"));
    assert!(
        at("crates/judge/src/compare.rs", "    if path.exists() {\n")
            .contains("may not ask .exists()")
    );
    assert_eq!(at("src/session/mod.rs", "    if path.exists() {\n"), "");
    assert!(at("src/units.rs", &format!("// {}\n", "x".repeat(COLUMNS_MAX))).contains("columns"));
    assert!(at("src/units.rs", &"\n".repeat(FILE_LINES_MAX + 1)).contains("lines, at most"));
    let long = format!("pub fn f() {{\n{}}}\n", "    g();\n".repeat(FUNCTION_LINES_MAX));
    assert!(at("src/units.rs", &long).contains("a function over"));
}

#[test]
fn comments_and_unit_tests_are_not_code() {
    let comment = "// println!() is for cmd\n";
    assert!(faults_of(Path::new("src/units.rs"), comment).is_empty());
    let tests = "#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
    assert!(faults_of(Path::new("src/units.rs"), tests).is_empty());
    assert!(impure_uses(&Tree::of([("crates/domain/src/units.rs", tests)])).is_empty());
    let comment = "//! See [`std::fs`].\n/// And [`std::env`].\nstruct S;\n";
    assert!(impure_uses(&Tree::of([("crates/domain/src/units.rs", comment)])).is_empty());
}

#[test]
fn planted_effects_in_what_judges_are_found() {
    let at = |path: &str, text: &str| impure_uses(&Tree::of([(path, text)])).join("\n");
    for (path, text, effect) in [
        ("judge/src/compare.rs", "use fizeau_record::store;", "fizeau_record::store"),
        ("record/src/guard.rs", "use crate::{Header, store::read};", "crate::store"),
        ("judge/src/ab.rs", "use fizeau_record::{Header, file::read};", "fizeau_record::file"),
        ("judge/src/localise.rs", "fn f() { std::thread::sleep(x) }", "std::thread"),
        ("report/src/run.rs", "use std::{fmt, fs};", "std::fs"),
        ("domain/src/verdict.rs", "use std::env; fn f() { g!(env::var(x)) }", "std::env"),
        ("report/src/format/mod.rs", "use std::time::{Duration, Instant};", "std::time::Instant"),
        ("domain/src/spec/mod.rs", "fn f() { let id = std::process::id(); }", "std::process"),
        ("domain/src/stats/mod.rs", "fn f() { std::io::stdin(); }", "std::io::stdin"),
        ("projection/src/load/a.rs", "use std::os::unix::net::UnixStream;", "std::os"),
        (
            "domain/src/stats/mod.rs",
            "fn f() { std::time::UNIX_EPOCH.elapsed(); }",
            "std::time::UNIX_EPOCH",
        ),
        ("domain/src/units.rs", "#[cfg(any(test, unix))] use std::fs;", "std::fs"),
    ] {
        let found = at(&format!("crates/{path}"), text);
        assert!(found.contains(&format!("may not use {effect}")), "{path}: {text}");
    }
    assert_eq!(at("crates/judge/src/compare.rs", "use fizeau_record::Record; use std::fmt;"), "");
    assert_eq!(at("src/session/mod.rs", "use std::{fs, env, thread};"), "");
}

#[test]
fn planted_circles_among_the_modules_of_a_crate_are_found() {
    let found = |files: &[(&str, &str)]| {
        circular_imports("crates/judge/src", &Tree::of(files.iter().copied())).join("\n")
    };
    let row = ("crates/judge/src/fleet/row.rs", "use crate::accept::decide;");
    let decide = ("crates/judge/src/accept/decide.rs", "pub struct Decide;");
    assert_eq!(found(&[row, decide]), "");
    let cause = ("crates/judge/src/accept/cause.rs", "use crate::fleet::flag;");
    let flag = ("crates/judge/src/fleet/flag.rs", "pub struct Flag;");
    assert!(found(&[row, decide, cause, flag]).contains("2 in a circle"));
}

/// The circles of the device crate with these files in it, below a `lib.rs` that declares `Device`.
fn circles_with(files: &[(&str, &str)]) -> String {
    let seam =
        ("crates/device/src/lib.rs", "pub trait Device {}\nstatic ALL: &[&str] = &[cuda::NAME];");
    let tree = Tree::of(files.iter().copied().chain([seam]));
    circular_imports("crates/device/src", &tree).join("\n")
}

#[test]
fn planted_circles_are_found() {
    let gate = |text| ("crates/device/src/cuda/gate.rs", text);
    let context = |text| ("crates/device/src/cuda/context.rs", text);
    let found = circles_with(&[
        gate("use super::context::Context;"),
        context("use crate::{Device, cuda::{gate::{self, Gate}}};"),
    ]);
    assert!(found.contains("context.rs uses crate::cuda::gate"), "{found}");
    assert!(found.contains("gate.rs uses crate::cuda::context::Context"), "{found}");
    let found = circles_with(&[
        gate("fn f() { super::context::f() }"),
        context("fn f() { vec![crate::cuda::gate::f()] }"),
    ]);
    assert!(found.contains("2 in a circle"), "{found}");
    // By a third file, and by a re-export.
    let found = circles_with(&[
        ("crates/device/src/cuda/mod.rs", "mod context; mod gate; mod way; use way::Way as Named;"),
        ("crates/device/src/cuda/way.rs", "use super::gate::Gate; pub struct Way;"),
        gate("use super::context::*;"),
        context("fn f(way: super::Named) {}"),
    ]);
    assert!(found.contains("3 in a circle"), "{found}");
    // By everything of a file that itself has it from another.
    let found = circles_with(&[
        ("crates/device/src/cuda/mod.rs", "mod context; mod gate; mod way; pub use way::*;"),
        ("crates/device/src/cuda/way.rs", "pub use super::context::Planted;"),
        gate("fn f(planted: super::Planted) {}"),
        context("use super::gate::f; pub struct Planted;"),
    ]);
    assert!(found.contains("3 in a circle"), "{found}");
    // Between folders that are deeper, by files of which none is in a circle.
    let found = circles_with(&[
        ("crates/device/src/host/gemm/one.rs", "use crate::host::attention::two::Two;"),
        ("crates/device/src/host/attention/two.rs", "pub struct Two;"),
        ("crates/device/src/host/attention/three.rs", "use crate::host::gemm::four::Four;"),
        ("crates/device/src/host/gemm/four.rs", "pub struct Four;"),
    ]);
    assert!(found.contains("2 in a circle"), "{found}");
}

#[test]
fn a_child_may_use_what_its_parent_declares_without_it() {
    let parent = "mod gate;\nuse gate::Gate;\npub struct Plain(u8);\nimpl Plain {}\n\
                  pub struct Both { gate: Gate }\npub struct Later;\n\
                  impl Drop for Later { fn drop(&mut self) { gate::open() } }\n";
    let with = |gate| {
        circles_with(&[
            ("crates/device/src/cuda/mod.rs", parent),
            ("crates/device/src/cuda/gate.rs", gate),
        ])
    };
    assert_eq!(with("use super::Plain;\nfn f(gate: u8) { gate.both() }"), "");
    assert!(with("use super::Both;").contains("mod.rs: Both uses crate::cuda::gate::Gate"));
    assert!(with("use super::{Plain, Later};").contains("mod.rs: Later uses"));
    assert!(with("use super::*;").contains("3 in a circle:"));
}

#[test]
fn folders_that_use_each_other_are_found() {
    let cuda = ("crates/device/src/cuda/nvml.rs", "use super::super::gpu::sensors::Sensors;");
    let gpu = ("crates/device/src/gpu/sensors.rs", "pub struct Sensors;");
    assert_eq!(circles_with(&[cuda, gpu]), "");
    let back = ("crates/device/src/gpu/vendor.rs", "use crate::cuda::driver::Driver;");
    let driver = ("crates/device/src/cuda/driver.rs", "pub struct Driver;");
    let found = circles_with(&[cuda, gpu, back, driver]);
    assert!(found.contains("crates/device/src/gpu uses crate::cuda"), "{found}");
    // What only tests use is no import.
    let tests =
        ("crates/device/src/gpu/vendor.rs", "#[cfg(all(test, unix))] use super::super::cuda::X;");
    assert_eq!(circles_with(&[cuda, gpu, tests, driver]), "");
}

/// The modules of src/cmd that are verbs: those whose `run` the command line's `main` calls.
fn verbs(graph: &imports::Graph) -> BTreeSet<String> {
    let used = graph.get("src/cmd/mod.rs: main").into_iter().flatten();
    let called = used.filter(|(_, path)| path.ends_with("::run"));
    called.filter_map(|(node, _)| module_of_cmd(node)).map(str::to_owned).collect()
}

/// The module of src/cmd that a node of the graph is in: `fleet` for `src/cmd/fleet/read.rs`. None
/// for src/cmd/mod.rs and for what is not below src/cmd.
fn module_of_cmd(node: &str) -> Option<&str> {
    let name = node.strip_prefix("src/cmd/")?.split(['/', '.']).next();
    name.filter(|name| *name != "mod")
}

/// What uses a verb and is neither of that verb nor src/cmd/mod.rs.
fn uses_of_verbs(tree: &Tree) -> Vec<String> {
    let graph = tree.graph("src");
    let verbs = verbs(&graph);
    if verbs.is_empty() {
        return vec!["src/cmd/mod.rs: its `main` calls no verb's `run`".into()];
    }
    let mut faults = Vec::new();
    let users = graph.iter().filter(|(user, _)| !user.starts_with("src/cmd/mod.rs"));
    for (user, (node, path)) in users.flat_map(|(user, used)| used.iter().map(move |to| (user, to)))
    {
        let verb = module_of_cmd(node).filter(|name| verbs.contains(*name));
        if verb.is_some() && verb != module_of_cmd(user) {
            faults.push(format!("{user} uses {path}: put what verbs share into a module below"));
        }
    }
    faults
}

#[test]
fn verbs_do_not_use_each_other() {
    let faults = uses_of_verbs(&tree_of("src"));
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn planted_uses_of_verbs_are_found() {
    let found = |more: &str, files: &[(&str, &str)]| {
        let main = "mod list; mod fleet; mod plan; pub enum Verb { List(list::Args) }\n\
                    fn main() { list::run(); fleet::run(); plan::begin() }\n";
        let main = format!("{main}{more}");
        let usual = [
            ("src/cmd/mod.rs", main.as_str()),
            ("src/cmd/list.rs", "use super::plan::begin; pub fn run() {} pub struct Args;"),
            ("src/cmd/fleet/mod.rs", "mod read; pub fn run() { read::read() } pub struct Rows;"),
            ("src/cmd/fleet/read.rs", "use super::Rows; pub fn read() {}"),
            ("src/cmd/plan.rs", "pub fn begin() {}"),
        ];
        let rest = usual.iter().filter(|(path, _)| files.iter().all(|(other, _)| other != path));
        uses_of_verbs(&Tree::of(rest.chain(files).copied())).join("\n")
    };
    assert_eq!(found("", &[]), "");
    let by = |path: &'static str, text: &str| found("", &[(path, text)]);
    // By a verb, by what verbs share, by a file within a verb, and from outside.
    assert!(by("src/cmd/list.rs", "use super::fleet::Rows; pub fn run() {}").contains("Rows"));
    assert!(by("src/cmd/plan.rs", "use super::list::Args; pub fn begin() {}").contains("Args"));
    assert!(by("src/cmd/fleet/read.rs", "use crate::cmd::list; fn f() {}").contains("cmd::list"));
    assert!(by("src/cmd/plan.rs", "use crate::cmd; fn f() { cmd::list::run() }").contains("list"));
    assert!(by("src/session/mod.rs", "fn f() { crate::cmd::list::run() }").contains("list::run"));
    // By a name that mod.rs gives it, and by all names at once.
    let through = |text: &str| found("use fleet::Rows as Named;", &[("src/cmd/plan.rs", text)]);
    assert!(through("fn f(rows: super::Named) {}").contains("plan.rs uses"));
    assert!(by("src/cmd/plan.rs", "use super::list::*; pub fn begin() {}").contains("list::*"));
    // Where no verb is known, nothing would be found.
    let nothing = [("src/cmd/mod.rs", "fn main() {}")];
    assert!(found("", &nothing).contains("calls no verb"));
}

#[test]
fn planted_circles_among_the_files_of_cmd_are_found() {
    let tree = Tree::of([
        ("src/cmd/plan.rs", "use super::kernels::Kernel; pub struct Plan;"),
        ("src/cmd/kernels.rs", "use super::plan::Plan; pub struct Kernel;"),
    ]);
    assert!(circular_imports("src", &tree).join("\n").contains("2 in a circle"));
}
