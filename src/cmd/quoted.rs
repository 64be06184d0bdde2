//! Commands that pages and help texts quote: each parses, and its selectors select something.

use super::{Cli, Verb};
use clap::{CommandFactory as _, Parser as _, error::ErrorKind};
use fizeau_domain::selector::Selector;
use fizeau_record::store;
use std::{fs, path::PathBuf};

/// Pages outside docs/.
const BESIDE: &[&str] =
    &["README.md", "CONTRIBUTING.md", "kernels/README.md", "data/README.md", "results/README.md"];

/// Records whose cases stand for those that selectors are about.
const RECORDS: &[&str] = &[
    "results/epyc-9005/2026-11-21-kvm-2-cores",
    "results/h200-sxm/2026-11-26-figures/attention",
    "results/h200-sxm/2026-11-26-figures/gemm",
    "results/h200-sxm/2026-11-26-figures/stream",
];

fn pages() -> Vec<PathBuf> {
    let folders = ["docs", "docs/appendix"];
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("a folder"));
    let pages = entries.map(|entry| entry.expect("a page").path());
    let pages = pages.filter(|path| path.extension().is_some_and(|is| is == "md"));
    BESIDE.iter().map(PathBuf::from).chain(pages).collect()
}

/// Command lines of a page: after `$ ` in examples with their output, in indented code, and in
/// prose between backquotes. Those whose page shows that they are refused are left out.
fn of_page(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut prose = String::new();
    let mut is_fenced = false;
    let joined = text.replace("\\\n", " ");
    let lines: Vec<&str> = joined.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
            continue;
        }
        let typed = line.trim_start().strip_prefix("$ ");
        let code = match (is_fenced, line.strip_prefix("    ")) {
            (true, _) => typed,
            (false, Some(code)) => typed.or(Some(code)),
            (false, None) => {
                prose += line;
                prose.push('\n');
                continue;
            }
        };
        let is_refused = lines.get(at + 1).is_some_and(|next| next.starts_with("fizeau: "));
        commands.extend(code.filter(|_| !is_refused).map(str::to_owned));
    }
    let spans = prose.split('`').enumerate().filter(|(at, _)| at % 2 == 1);
    commands.extend(spans.map(|(_, span)| span.split_whitespace().collect::<Vec<_>>().join(" ")));
    commands
}

fn unindented(text: &str) -> String {
    text.lines().map(str::trim_start).collect::<Vec<_>>().join("\n")
}

/// Command lines between backquotes in the help of every verb.
fn of_help() -> Vec<String> {
    fn add(command: &mut clap::Command, all: &mut Vec<String>) {
        all.push(command.render_long_help().to_string());
        command.get_subcommands_mut().for_each(|one| add(one, all));
    }
    let mut helps = Vec::new();
    let mut program = Cli::command();
    program.build();
    add(&mut program, &mut helps);
    helps.iter().flat_map(|help| of_page(&unindented(help))).collect()
}

/// The words of a command line as a shell has them, up to what is no part of the command. `None`
/// where it is none of this program's.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => words.last_mut()?.push(c),
            (None, '\'' | '"') => quote = Some(c),
            (None, '|' | '>' | '<' | ';' | '&' | '(' | ')') => break,
            (None, '#') if words.last()?.is_empty() => break,
            (None, ' ') if words.last()?.is_empty() => {}
            (None, ' ') => words.push(String::new()),
            (None, c) => words.last_mut()?.push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    (words.first()? == "fizeau").then_some(words)
}

/// What stands for something to be put in: `DIR`, `N`, `..`.
fn is_placeholder(word: &str) -> bool {
    let value = word.rsplit('=').next().unwrap_or(word);
    let is_name = |part: &str| part.chars().all(|c| c.is_ascii_uppercase() || "_-.".contains(c));
    word.starts_with('<') || !value.is_empty() && value.split(',').all(is_name)
}

fn fault(line: &str, ids: &[String]) -> Option<String> {
    let words = words(line)?;
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => {
            // A name alone, such as `fizeau fleet`, and options without the values they need.
            let is_short = matches!(
                error.kind(),
                ErrorKind::DisplayHelp
                    | ErrorKind::DisplayVersion
                    | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                    | ErrorKind::MissingRequiredArgument
                    | ErrorKind::MissingSubcommand
            );
            let has_placeholder = words.iter().any(|word| is_placeholder(word));
            let is_value = matches!(
                error.kind(),
                ErrorKind::ValueValidation
                    | ErrorKind::InvalidValue
                    | ErrorKind::WrongNumberOfValues
            );
            let is_short = is_short || is_placeholder(&words[1]);
            let is_fine = is_short || is_value && (has_placeholder || words.len() < 4);
            let first = error.to_string().lines().next().unwrap_or_default().to_owned();
            return (!is_fine).then(|| format!("{line}: {first}"));
        }
    };
    let selectors = match &cli.verb {
        Some(Verb::Run(args)) if args.plan.suite.is_none() => args.plan.selectors.clone(),
        Some(Verb::List(args)) if args.plan.suite.is_none() => args.plan.selectors.clone(),
        Some(Verb::Ab(args)) if args.suite.is_none() => args.selectors.clone(),
        _ => return None,
    };
    if selectors.iter().any(|word| is_placeholder(word) || word.starts_with("collective")) {
        return None;
    }
    let selected = Selector::parse(&selectors).and_then(|one| one.all_select(ids));
    selected.err().map(|error| format!("{line}: {error}"))
}

#[test]
fn every_command_that_a_page_or_a_help_text_quotes_can_be_typed() {
    let cases = |path: &&str| store::read(path.as_ref()).expect("a record").outcomes;
    let ids: Vec<String> =
        RECORDS.iter().flat_map(cases).map(|one| one.case().to_string()).collect();
    let (mut faults, mut count) = (Vec::new(), 0);
    let of_pages = pages().into_iter().map(|path| {
        let text = fs::read_to_string(&path).expect("a page is UTF-8");
        (path.display().to_string(), of_page(&text))
    });
    for (place, lines) in of_pages.chain([("--help".to_owned(), of_help())]) {
        count += lines.iter().filter(|line| words(line).is_some()).count();
        let found = lines.iter().filter_map(|line| fault(line, &ids));
        faults.extend(found.map(|fault| format!("{place}: {fault}")));
    }
    assert!(count > 150, "{count} commands");
    assert!(faults.is_empty(), "{} of {count}:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn planted_commands_are_refused() {
    let ids = ["stream/copy/1MiB/1u/plain".to_owned(), "gemm/f32/8x8x8/plain".to_owned()];
    for (line, is_wrong) in [
        ("fizeau run stream/copi", true),
        ("fizeau run 'stream/{copy,triad}' --device host # a comment", false),
        ("fizeau list '!attention'", true),
        ("fizeau rnu", true),
        ("fizeau report --html page", true),
        ("fizeau run --resume DIR", false),
        ("cargo run rnu", false),
    ] {
        assert_eq!(fault(line, &ids).is_some(), is_wrong, "{line}");
    }
    let page = "`fizeau\nrun x` and\n\n    fizeau a \\\n      b\n\n\
                ```console\n$ fizeau c\nfizeau d\n```\n";
    let found: Vec<String> =
        of_page(page).into_iter().filter(|line| words(line).is_some()).collect();
    assert_eq!(found, ["fizeau a        b", "fizeau c", "fizeau run x"]);
    let refused = "```text\n$ fizeau list gone\nfizeau: it selects nothing\n```\n";
    assert_eq!(of_page(refused), [""; 0]);
}
