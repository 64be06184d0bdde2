//! What clap says of a command line that it does not understand, with the nearest word of this
//! program in place of clap's guess.
//!
//! Clap compares whole words by how alike their beginnings are (`--progress` becomes `--program`),
//! counts hidden commands, and offers to pass an unknown option as a value, which no command here
//! takes. Here a word is first looked up among what other tools call it, and then compared by the
//! letters that were exchanged, left out or added.

use clap::{
    Arg, Command,
    builder::StyledStr,
    error::{ContextKind, ContextValue, Error, ErrorKind},
};
use fizeau_domain::near::nearest;

/// What people type for a command, and what it is called here.
const COMMANDS: &[(&str, &str)] = &[
    ("bench", "run"),
    ("benchmark", "run"),
    ("measure", "run"),
    ("test", "run"),
    ("start", "run"),
    ("info", "devices"),
    ("gpus", "devices"),
    ("parts", "devices --parts"),
    ("cases", "list"),
    ("plan", "list"),
    ("diff", "compare"),
    ("check", "accept"),
    ("validate", "accept"),
    ("diagnose", "doctor"),
    ("show", "report"),
    ("serve", "load serve"),
    ("estimate", "project"),
    ("predict", "project"),
    ("models", "project"),
    ("version", "--version"),
];

/// The options of `load` that other clients of servers have.
const LOAD: &[(&str, &str)] = &[
    ("--qps", "write --rate N"),
    ("--rps", "write --rate N"),
    ("--request-rate", "write --rate N"),
    ("--max-concurrency", "write --concurrency N"),
    ("--num-prompts", "write --requests N"),
    ("--num-requests", "write --requests N"),
    ("--input-len", "write --isl N"),
    ("--output-len", "write --osl N"),
    ("--random-input-len", "write --isl N"),
    ("--random-output-len", "write --osl N"),
    ("--base-url", "give the URL without an option: fizeau load http://localhost:8000"),
    ("--url", "give the URL without an option: fizeau load http://localhost:8000"),
    ("--host", "give the URL without an option: fizeau load http://localhost:8000"),
    ("--dataset", "write --trace FILE, or --workload NAME"),
    ("--dataset-path", "write --trace FILE"),
    ("--goodput", "write --slo ttft=500ms,tpot=20ms"),
    ("--timeout", "write --deadlines"),
    ("--users", "write --concurrency N"),
    ("--prompt-len", "write --isl N"),
    ("--prompt-tokens", "write --isl N"),
    ("--max-tokens", "write --osl N"),
];

/// The options of `project` and `claim` that other tools have.
const MODELS: &[(&str, &str)] = &[
    ("--tp", "write --layout tp8"),
    ("--tensor-parallel", "write --layout tp8"),
    ("--tensor-parallel-size", "write --layout tp8"),
    ("--pp", "write --layout pp4"),
    ("--ep", "write --layout ep8"),
    ("--dp", "write --layout 2xtp4"),
    ("--batch", "write --concurrency N"),
    ("--batch-size", "write --concurrency N"),
    ("--bs", "write --concurrency N"),
    ("--input", "write --isl N"),
    ("--output", "write --osl N"),
    ("--gpu", "write --on PART"),
    ("--part", "write --on PART"),
    ("--device", "write --on PART"),
    ("--against", "write --vs PART"),
    ("--with", "write --vs PART"),
    ("--dtype", "write --precision fp8"),
    ("--quantization", "write --precision fp8"),
    ("--model", "give the model without an option: fizeau project llama-3.1-70b --on h200"),
    ("--gpus", "write --layout tp8, which is of 8 GPUs"),
];

/// The options of any command that other tools have.
const ANY: &[(&str, &str)] = &[
    ("--html", "write --format html"),
    ("--csv", "write --format csv"),
    ("--markdown", "write --format markdown"),
    ("--output", "write --out"),
    ("--output-dir", "write --out DIR"),
    ("-o", "write --out"),
    ("--quiet", "write --progress off"),
    ("-q", "write --progress off"),
    ("--gpu", "write --device cuda:0, or hip:0"),
    ("--gpus", "write --device cuda:0, or all"),
    ("--cpu", "write --device host"),
    ("--select", "give selectors without an option: gemm/bf16"),
    ("--filter", "give selectors without an option: gemm/bf16"),
    ("--dtype", "select by ids: gemm/bf16"),
    ("--precision", "select by ids: gemm/bf16"),
    (
        "--threads",
        "it measures on the cores that it may use: taskset -c 0-3 fizeau ..; only ids of stream, \
         compute and access hold a number of cores, such as 'stream/*/2u/*'",
    ),
    ("--size", "ids hold sizes, which `fizeau list` shows: 'stream/read/128MiB/*'"),
    ("--iterations", "samples are taken until the noise is small; a suite's [measure] bounds them"),
    ("--iters", "samples are taken until the noise is small; a suite's [measure] bounds them"),
    ("--repeat", "samples are taken until the noise is small; a suite's [measure] bounds them"),
    ("--against", "write --vs"),
    ("--with", "write --vs"),
    ("--suite", "write --level quick"),
    ("--tolerance", "write --least-effect 5%"),
    ("--time", "write --budget 10m"),
    ("--time", "select fewer cases, or a shorter suite by --suite: a run has no time limit"),
    ("--duration", "write --budget 10m"),
    ("--duration", "select fewer cases, or a shorter suite by --suite: a run has no time limit"),
    ("--format", "write --json; `fizeau report` prints a record in every format"),
    ("--cuda", "write --device cuda:0"),
    ("--pdf", "write --format html, and print the page to a PDF file in a browser"),
    ("--output", "write --html FILE"),
    ("--nonce", "write --challenge WORD"),
    ("--token", "write --challenge WORD"),
    ("--to", "write --store DIR"),
    ("--dcgm-file", "write --dcgm FILE"),
    ("--window", "write --since DATE and --until DATE"),
    ("--after", "write --since DATE"),
    ("--before", "write --until DATE"),
];

/// The options of `fleet` that people look for in another of its commands.
const FLEET: &[(&str, &str)] = &[
    ("--html", "write --json, or read the text: `fleet survey` alone makes a page"),
    ("--format", "write --html FILE for a page, --csv FILE for a table"),
    ("--retest", "it is an option of `fleet survey`, which reads what the scripts measured"),
    ("--store", "a store is a path without an option: fleet survey STORE"),
];

/// The same error, with the nearest word of this program as its tip, or none.
pub fn with_nearest(mut error: Error, mut program: Command, words: &[String]) -> Error {
    // So that help and version are among its options.
    program.build();
    let program = &program;
    let typed = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.clone()),
        _ => None,
    };
    let is_second_url = error.kind() == ErrorKind::ArgumentConflict
        && words.first().is_some_and(|verb| verb == "load")
        && typed(ContextKind::InvalidSubcommand).is_some();
    let tip = if is_second_url {
        Some("load takes one URL; `fizeau load ab URL_A URL_B` compares two servers".into())
    } else if let Some(word) = typed(ContextKind::InvalidSubcommand) {
        command(&word, program).map(|name| format!("the nearest command is `fizeau {name}`"))
    } else if let Some(word) =
        typed(ContextKind::InvalidArg).filter(|_| error.kind() == ErrorKind::UnknownArgument)
    {
        match word.starts_with('-') {
            true => option(&word, program, words),
            false => one_too_many(program, words),
        }
    } else if error.kind() == ErrorKind::InvalidValue
        && typed(ContextKind::InvalidValue).as_deref() == Some("png")
        && typed(ContextKind::InvalidArg).is_some_and(|arg| arg.starts_with("--format"))
    {
        Some("pictures are written beside a report: write --png DIR".into())
    } else if let Some(variable) = typed(ContextKind::InvalidArg)
        .filter(|_| matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation))
        .and_then(|arg| variable_of(&arg, program, words))
    {
        Some(format!("the environment variable {variable} has this value"))
    } else if error.kind() == ErrorKind::ValueValidation
        && error.to_string().contains("invalid digit found in string")
    {
        let value = typed(ContextKind::InvalidValue).unwrap_or_default();
        let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let is_short = digits.len() < value.len() && digits.parse::<f64>().is_ok();
        Some(match is_short {
            true => "write all digits of a whole number, such as 1000".into(),
            false => "write a whole number, such as 4".into(),
        })
    } else if error.to_string().contains("invalid IP address syntax") {
        Some("write an address in digits, such as 127.0.0.1".into())
    } else {
        return error;
    };
    let guesses =
        [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::Suggested];
    for guess in guesses {
        error.remove(guess);
    }
    if let Some(tip) = tip {
        let tip = ContextValue::StyledStrs(vec![StyledStr::from(tip)]);
        error.insert(ContextKind::Suggested, tip);
    }
    error
}

/// The command that a word is nearest to, with the one above it.
fn command(word: &str, program: &Command) -> Option<String> {
    if let Some((_, name)) = COMMANDS.iter().find(|(typed, _)| *typed == word) {
        return Some((*name).to_owned());
    }
    let visible = |of: &Command| -> Vec<Command> {
        of.get_subcommands().filter(|one| !one.is_hide_set()).cloned().collect()
    };
    let mut names = Vec::new();
    for above in visible(program) {
        let name = above.get_name().to_owned();
        let below = visible(&above);
        names.extend(below.iter().map(|one| (one.get_name().to_owned(), format!("{name} {one}"))));
        names.push((name.clone(), name));
    }
    let found = nearest(word, names.iter().map(|(name, _)| name.as_str())).into_iter().next()?;
    names.iter().find(|(name, _)| name == found).map(|(_, whole)| whole.clone())
}

/// What a command takes beside options, where a word more was given.
fn one_too_many(program: &Command, words: &[String]) -> Option<String> {
    let tip = match words.first().map(String::as_str) {
        Some("launch") => "write -- before the command of the ranks: launch -n 2 -- list",
        Some("claim") => "a figure of several words stands in quotes: claim '4.8 TB/s' --on h200",
        Some("project") => "one model at a time; a second machine is --vs PART",
        Some("devices") if words.iter().any(|word| word == "--parts") => {
            "--parts prints the whole catalogue"
        }
        Some("accept" | "doctor" | "discover" | "localise") => {
            "it takes options alone; a device is --device NAME"
        }
        _ => "",
    };
    if !tip.is_empty() {
        return Some(tip.to_owned());
    }
    let verb = verb_of(program, words);
    let takes: Vec<String> = verb.get_positionals().map(|one| one.to_string()).collect();
    match takes.as_slice() {
        [] => Some(format!("`{}` takes options alone", with_those_above(verb))),
        takes => Some(format!("`{}` takes {} alone", with_those_above(verb), takes.join(" "))),
    }
}

/// A command with the commands above it: `fizeau load self-test`.
fn with_those_above(verb: &Command) -> String {
    verb.get_bin_name().map_or_else(|| format!("fizeau {}", verb.get_name()), str::to_owned)
}

/// The variable of the environment that gave the value of an option, where the command line does
/// not have it.
fn variable_of(arg: &str, program: &Command, words: &[String]) -> Option<String> {
    let long = arg.split(' ').next()?;
    let of = program
        .get_arguments()
        .find(|one| one.get_long().is_some_and(|name| long.strip_prefix("--") == Some(name)))?;
    let is_given = words.iter().any(|word| word.split('=').next() == Some(long));
    let variable = of.get_env().filter(|_| !is_given)?;
    Some(variable.to_string_lossy().into_owned())
}

/// The command that words begin with.
fn verb_of<'p>(program: &'p Command, words: &[String]) -> &'p Command {
    let mut verb = program;
    for given in words {
        match verb.find_subcommand(given) {
            Some(below) => verb = below,
            None if given.starts_with('-') => {}
            None => break,
        }
    }
    verb
}

/// What an option may have meant, as a tip.
fn option(word: &str, program: &Command, words: &[String]) -> Option<String> {
    let word = word.split('=').next().unwrap_or(word);
    let digits = word.trim_start_matches('-');
    if digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Some("no value here is negative".into());
    }
    let verb = verb_of(program, words);
    // Lengths of prompts and answers are called the same by both kinds of tools.
    let of_verb = match words.first().map(String::as_str) {
        Some("load") => [LOAD, &[]],
        Some("project" | "claim" | "shapes") => [MODELS, LOAD],
        Some("fleet") => [FLEET, &[]],
        _ => [&[][..], &[]],
    };
    let has = |tip: &str| match tip.split_whitespace().find(|part| part.starts_with("--")) {
        Some(long) => {
            let long = long.trim_matches(|c: char| !c.is_ascii_alphanumeric());
            long_options(program).chain(long_options(verb)).any(|one| one == long)
        }
        None => true,
    };
    let known = of_verb.into_iter().flatten().chain(ANY).filter(|(typed, _)| *typed == word);
    if let Some((_, tip)) = known.into_iter().find(|(_, tip)| has(tip)) {
        return Some((*tip).to_owned());
    }
    // Two letters are near to any other two.
    let letters = word.strip_prefix("--").filter(|letters| letters.len() > 2)?;
    let options = long_options(verb).chain(long_options(program));
    let found = nearest(letters, options).into_iter().next()?;
    Some(format!("the nearest option is --{found}"))
}

fn long_options(of: &Command) -> impl Iterator<Item = &str> {
    of.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(Arg::get_long)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    /// The tip that a command line gets, by the words after `fizeau`.
    fn tip(line: &str) -> Option<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let all = std::iter::once("fizeau".to_owned()).chain(words.clone());
        let error = crate::cmd::Cli::command().try_get_matches_from(all).expect_err(line);
        let said = with_nearest(error, crate::cmd::Cli::command(), &words).render().to_string();
        said.lines().find_map(|line| line.trim().strip_prefix("tip: ").map(str::to_owned))
    }

    #[test]
    fn words_of_other_tools_and_slips_of_the_hand_lead_to_the_right_words() {
        for (line, expected) in [
            ("benchmark", Some("the nearest command is `fizeau run`")),
            ("rnu", Some("the nearest command is `fizeau run`")),
            ("info", Some("the nearest command is `fizeau devices`")),
            ("acept", Some("the nearest command is `fizeau accept`")),
            ("collect", Some("the nearest command is `fizeau fleet collect`")),
            ("survye", Some("the nearest command is `fizeau fleet survey`")),
            ("lod http://localhost:1", Some("the nearest command is `fizeau load`")),
            ("zzzzzz", None),
            ("project llama-3.1-8b --tp 8", Some("write --layout tp8")),
            ("project llama-3.1-8b --laoyut tp8", Some("the nearest option is --layout")),
            ("project m --on h200 --against h100", Some("write --vs PART")),
            ("load http://localhost:1 --qps 4", Some("write --rate N")),
            ("load http://localhost:1 --qps=4", Some("write --rate N")),
            ("report out --html", Some("write --format html")),
            ("ab --programm x", Some("the nearest option is --program")),
            ("run --nothing-like-it", None),
            ("fleet survey x --lables y", Some("the nearest option is --labels")),
            ("compare a --against b", Some("write --vs")),
            (
                "report out --format png",
                Some("pictures are written beside a report: write --png DIR"),
            ),
            ("compare a b --tolerance 5%", Some("write --least-effect 5%")),
            ("accept --time 60s", Some("write --budget 10m")),
            ("project m --on h200 --input-len 512", Some("write --isl N")),
            ("project m --on h200 --bs 8", Some("write --concurrency N")),
            ("fleet survey x --output y.html", Some("write --html FILE")),
            ("run --ranks all", Some("write a whole number, such as 4")),
            (
                "project m --on h200 --isl 1k",
                Some("write all digits of a whole number, such as 1000"),
            ),
            ("load http://localhost:1 --rate -1", Some("no value here is negative")),
            (
                "claim 4.8 TB/s --on h200",
                Some("a figure of several words stands in quotes: claim '4.8 TB/s' --on h200"),
            ),
            ("explain gemm stream", Some("`fizeau explain` takes <CASE> alone")),
            ("suites quick", Some("`fizeau suites` takes options alone")),
            ("load self-test x", Some("`fizeau load self-test` takes options alone")),
            ("fleet collect a --to s", Some("write --store DIR")),
            ("fleet drift a --html x", Some(FLEET[0].1)),
            ("fleet survey a --format html", Some(FLEET[1].1)),
            ("fleet retest --retest a", Some(FLEET[2].1)),
            ("fleet drift a --window 7d", Some("write --since DATE and --until DATE")),
            (
                "run --format json",
                Some("write --json; `fizeau report` prints a record in every format"),
            ),
            (
                "load http://localhost:1 http://localhost:2 --rate 1",
                Some("load takes one URL; `fizeau load ab URL_A URL_B` compares two servers"),
            ),
            ("run --threads 4", Some(ANY.iter().find(|one| one.0 == "--threads").expect("it").1)),
        ] {
            assert_eq!(tip(line).as_deref(), expected, "{line}");
        }
    }

    /// Each command that the table leads to exists, and each option does on the commands for which
    /// the table offers it.
    #[test]
    fn what_is_offered_exists() {
        let program = crate::cmd::Cli::command();
        for (_, name) in COMMANDS.iter().filter(|(_, name)| !name.starts_with('-')) {
            let words = name.split(' ').filter(|word| !word.starts_with('-'));
            words.fold(&program, |above, word| above.find_subcommand(word).expect(name));
        }
        for (verb, table) in [("load", LOAD), ("project", MODELS)] {
            let of = program.find_subcommand(verb).expect("a verb");
            for (_, tip) in table {
                let option = tip.split_whitespace().find_map(|word| word.strip_prefix("--"));
                let Some(option) = option else { continue };
                let option = option.trim_end_matches([',', ':']);
                assert!(long_options(of).any(|one| one == option), "{verb}: {tip}");
            }
        }
    }
}
