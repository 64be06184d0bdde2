//! The rules of the house that no linter knows. Every rule has a planted fault beside it that
//! proves it can fail.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The modules from the bottom up; a module may use those on lines above it here, and its own
/// line. docs/architecture.md draws the same.
const LAYERS: &[&[&str]] = &[
    &["units", "dtype", "launch"],
    &["case", "kernel"],
    &["stats"],
    &["spec", "selector"],
    &["suite"],
    &["data", "outcome"],
    &["record"],
    &["clock"],
    &["device"],
    &["comm", "measure"],
    &["bench"],
    &["session"],
    &["compare", "localise"],
    &["report"],
    &["format"],
    &["cmd"],
];

/// Computed from records alone, whatever their line would allow.
const PURE: &[&str] = &["compare", "localise", "report", "format"];
const EFFECTS: &[&str] = &["clock", "device", "comm", "bench", "measure", "session", "kernel"];

const COLUMNS_MAX: usize = 100;
const FUNCTION_LINES_MAX: usize = 80;
const FILE_LINES_MAX: usize = 600;

#[test]
fn the_tree_is_tidy() {
    let mut faults = Vec::new();
    for path in sources(Path::new("src")) {
        let text = fs::read_to_string(&path).expect("a source file is UTF-8");
        faults.extend(faults_of(&path, &text));
    }
    for folder in ["tests", "benches"] {
        for path in sources(Path::new(folder)) {
            let text = fs::read_to_string(&path).expect("a source file is UTF-8");
            faults.extend(wide_lines(&path, &text));
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
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
    faults.extend(upward_imports(path, &code));
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

fn upward_imports(path: &Path, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let Some(module) = path.components().nth(1) else { return faults };
    let module = module.as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned();
    let height = |name: &str| LAYERS.iter().position(|layer| layer.contains(&name));
    let Some(own) = height(&module) else {
        if !matches!(module.as_str(), "lib" | "main") {
            faults.push(format!("{}: no layer names {module}", path.display()));
        }
        return faults;
    };
    for name in used_modules(text) {
        let Some(other) = height(&name) else { continue };
        if other > own {
            faults.push(format!("{}: {module} may not use {name}", path.display()));
        }
        if PURE.contains(&module.as_str()) && EFFECTS.contains(&name.as_str()) {
            let place = path.display();
            faults.push(format!("{place}: {module} is computed from records alone, not {name}"));
        }
    }
    faults
}

/// What only one place may say: (words, where they may stand, why).
const PLACES: &[(&str, &[&str], &str)] = &[
    ("Instant::now", &["src/clock.rs"], "clock.rs alone reads the clock"),
    ("print!(", &["src/cmd", "src/main.rs"], "cmd alone prints"),
    ("println!(", &["src/cmd", "src/main.rs"], "cmd alone prints"),
    ("process::exit", &["src/cmd", "src/main.rs"], "cmd alone exits"),
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
        for (word, places, why) in PLACES {
            if line.contains(word) && !places.iter().any(|allowed| place.starts_with(allowed)) {
                faults.push(format!("{place}:{}: {word}: {why}", index + 1));
            }
        }
    }
    faults
}

/// The first segment of every path below `crate::`, groups included.
fn used_modules(text: &str) -> Vec<String> {
    let code = |line: &&str| !line.trim_start().starts_with("//");
    let text: String = text.lines().filter(code).map(|line| format!("{line}\n")).collect();
    let mut names = Vec::new();
    for (at, _) in text.match_indices("crate::") {
        let rest = &text[at + "crate::".len()..];
        let Some(group) = rest.strip_prefix('{') else {
            names.push(identifier(rest));
            continue;
        };
        let mut depth = 0;
        let mut item = 0;
        for (index, byte) in group.bytes().enumerate() {
            match byte {
                b'{' => depth += 1,
                b'}' if depth == 0 => {
                    names.push(identifier(group[item..index].trim_start()));
                    break;
                }
                b'}' => depth -= 1,
                b',' if depth == 0 => {
                    names.push(identifier(group[item..index].trim_start()));
                    item = index + 1;
                }
                _ => {}
            }
        }
    }
    names
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

#[test]
fn planted_faults_are_found() {
    let at = |path: &str, text: &str| faults_of(Path::new(path), text).join("\n");
    assert_eq!(at("src/units.rs", "fn f() {}\n"), "");
    assert!(at("src/units.rs", "use crate::session::run;\n").contains("may not use session"));
    let group = "use crate::{\n    case::Case,\n    bench::Rank,\n};\n";
    assert!(at("src/spec/mod.rs", group).contains("may not use bench"));
    assert!(at("src/report/mod.rs", "use crate::device::Device;\n").contains("records alone"));
    assert!(at("src/novel.rs", "").contains("no layer names novel"));
    assert!(at("src/stats/mod.rs", "let t = Instant::now();\n").contains("reads the clock"));
    assert!(at("src/session/mod.rs", "println!(\"hello\");\n").contains("cmd alone prints"));
    assert!(at("src/units.rs", "#[allow(dead_code)]\n").contains("expect"));
    assert!(at("src/units.rs", "fn f() {\n    todo!()\n}\n").contains("unfinished"));
    assert!(at("src/units.rs", &format!("// {}\n", "x".repeat(COLUMNS_MAX))).contains("columns"));
    assert!(at("src/units.rs", &"\n".repeat(FILE_LINES_MAX + 1)).contains("lines, at most"));
    let long = format!("pub fn f() {{\n{}}}\n", "    g();\n".repeat(FUNCTION_LINES_MAX));
    assert!(at("src/units.rs", &long).contains("a function over"));
}

#[test]
fn comments_and_unit_tests_are_not_code() {
    let comment = "// println!() is for cmd\n";
    assert!(faults_of(Path::new("src/units.rs"), comment).is_empty());
    let tests = "#[cfg(test)]\nmod tests {\n    use crate::session;\n}\n";
    assert!(faults_of(Path::new("src/units.rs"), tests).is_empty());
}

#[test]
fn used_modules_reads_groups() {
    let text = "use crate::{a::{b, c}, d};\ncrate::e::f()";
    assert_eq!(used_modules(text), ["a", "d", "e"]);
}
