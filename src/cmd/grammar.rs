//! The grammar of options: each meaning is spelled one way in all commands.
//!
//! Whether two options mean the same no program can tell. So each option of the whole tree of
//! commands stands in a table beside its meaning, and a new one does not pass before it stands
//! there. Words that other tools have for a meaning, and kinds of values that belong to one
//! meaning, are then found by themselves.

use super::Cli;
use clap::{Command, CommandFactory as _};
use std::collections::{BTreeMap, BTreeSet};

/// A meaning that several commands share, and its one option.
struct Meaning {
    meaning: &'static str,
    option: &'static str,
    /// What the same is called elsewhere, and what no option here may be called.
    not: &'static [&'static str],
    /// Names of values that options of this meaning alone have.
    values: &'static [&'static str],
}

const fn meaning(
    meaning: &'static str,
    option: &'static str,
    not: &'static [&'static str],
    values: &'static [&'static str],
) -> Meaning {
    Meaning { meaning, option, not, values }
}

#[rustfmt::skip]
const SHARED: &[Meaning] = &[
    meaning("the device that is measured", "device",
        &["backend", "gpu", "cpu", "target-device"], &[]),
    meaning("the hardware of a figure or a projection", "on",
        &["part", "hardware", "machine", "system"], &["PART"]),
    meaning("the second side of a comparison", "vs",
        &["with", "against", "baseline", "reference", "compare-to", "versus", "before"], &[]),
    meaning("how many GPUs", "gpus", &["devices", "gpu-count", "num-gpus"], &[]),
    meaning("how a model is spread over GPUs", "layout",
        &["tp", "pp", "ep", "dp", "tensor-parallel", "parallel", "parallelism"], &["LAYOUT"]),
    meaning("how many processes take part", "ranks", &["processes", "np", "procs"], &[]),
    meaning("where the answer is written", "out",
        &["output", "output-dir", "write-fleet", "save", "dir", "result-dir", "to"], &[]),
    meaning("the form of the answer", "format", &["style", "as"], &["FORMAT"]),
    meaning("progress on standard error", "progress", &["quiet", "verbose", "silent"], &[]),
    meaning("JSON on standard output", "json", &["print-json"], &[]),
    meaning("the catalogue of parts and suites", "data", &["catalogue", "data-dir"], &[]),
    meaning("colours", "color", &["colour", "no-color"], &[]),
    meaning("a suite of cases", "suite", &["cases", "benchmark"], &[]),
    meaning("a kernel of the user", "kernel", &["user-kernel", "kernels"], &[]),
    meaning("the profile of floors", "profile", &["floors", "limits"], &[]),
    meaning("tokens of a prompt", "isl",
        &["input", "input-len", "prompt-tokens", "input-tokens"], &[]),
    meaning("tokens of an answer", "osl",
        &["output-len", "output-tokens", "max-tokens"], &[]),
    meaning("requests at once", "concurrency", &["batch", "batch-size", "max-concurrency"], &[]),
    meaning("how weights are stored", "precision", &["dtype", "quantization", "weights"], &[]),
    meaning("how keys and values are stored", "kv", &["kv-cache-dtype", "kv-dtype"], &[]),
    meaning("the model", "model", &["model-name", "config"], &["MODEL"]),
    meaning("limits that requests have to keep", "slo", &["goodput", "sla"], &[]),
    meaning("L2 without rates that others published", "no-published", &["own-rates"], &[]),
    meaning("the least change that counts", "least-effect",
        &["threshold", "min-effect", "tolerance"], &[]),
    meaning("how often a wrong verdict may be given", "error-rate",
        &["alpha", "significance"], &[]),
    meaning("the share of wrong ones among what is flagged", "false-discoveries", &["fdr"], &[]),
    meaning("the longest time that a command may take", "budget",
        &["seconds", "time-limit", "max-time", "timeout"], &[]),
    meaning("how long load lasts", "duration", &["time", "length"], &[]),
    meaning("the seed of random choices", "seed", &["random-seed"], &[]),
    meaning("rounds", "rounds", &["repeats", "iterations", "repetitions"], &[]),
    meaning("the folder of a run that continues", "resume", &["continue", "restart"], &[]),
    meaning("the plan, without measuring", "plan", &["dry-run", "estimate"], &[]),
    meaning("without the host's name", "no-host-name", &["anonymous", "no-hostname"], &[]),
    meaning("limits of the device set for the run", "set-limits", &["lock-clocks"], &[]),
    meaning("what must be alike may differ", "across", &["force", "ignore-differences"], &[]),
    meaning("where nodes stand", "labels", &["topology", "racks"], &[]),
    meaning("keys that may sign", "allowed-signers", &["signers", "keys", "keyring"], &[]),
    meaning("the word that a bundle was made for", "challenge", &["nonce"], &[]),
    meaning("the first day", "since", &["from-date", "after"], &[]),
    meaning("a file that is read in place of a measurement", "from", &["read", "load-from"], &[]),
    meaning("text for Prometheus", "textfile", &["prometheus"], &[]),
    meaning("a setting by its name", "set", &["option", "param"], &[]),
    meaning("cached tokens of a prompt", "prefix", &["cached"], &[]),
];

/// Options of which one command, or a command and those below it, has its own meaning.
#[rustfmt::skip]
const OWN: &[&str] = &[
    // Every command of clap's.
    "help", "version",
    // run, list, explain, suites, devices, doctor, discover, launch, localise
    "choices",
    "label", "full", "parts", "draft", "name", "gemm", "nodes", "node", "size", "apart", "loss",
    "presence",
    // report, compare, ab
    "summary", "png", "waive", "program", "env-a", "env-b",
    // accept, verify, profile, fleet
    "level", "sign", "redact", "redact-key", "dcgm", "one-line", "shared", "signer", "base",
    "expected", "stratum", "until", "combine", "from-records", "dependence", "retest", "csv",
    "html", "store", "inconclusive", "fleets", "print-recipe",
    // claim, reproduce
    "context", "acceptance", "fail-on", "id", "list", "check",
    // project, shapes
    "price", "power", "link", "what-if", "accuracy", "seen", "validate", "memory-share", "forms",
    // load
    "endpoint", "rate", "search", "trace", "trace-unit", "arrivals", "workload", "requests",
    "warmup", "shared-prefix", "tokenizer", "no-ignore-eos", "length-field", "min-tokens",
    "header", "api-key-file", "ca", "deadlines", "ready", "max-failed", "keep-prompts",
    "slo-share", "target", "metrics-every", "metric", "no-metrics", "cool-down", "set-a", "set-b",
    "model-a", "model-b", "api-key-file-b", "fail-if-worse", "address", "port", "slots",
    "service", "chunk", "piece", "fault", "pause", "text", "tokenize", "ask-for-key", "tokens",
];

/// The options that a command and those below it show, each with the names of its values.
fn options(command: &Command, found: &mut BTreeMap<String, BTreeSet<String>>) {
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        let shown = arg.get_visible_aliases().unwrap_or_default();
        let values: Vec<&str> =
            arg.get_value_names().into_iter().flatten().map(|name| name.as_str()).collect();
        for name in arg.get_long().into_iter().chain(shown) {
            let of_name = found.entry(name.to_owned()).or_default();
            of_name.extend(values.iter().map(|value| (*value).to_owned()));
        }
    }
    let below = command.get_subcommands().filter(|one| !one.is_hide_set());
    below.for_each(|one| options(one, found));
}

/// What is spelled in two ways, or has no meaning yet.
fn faults(program: &Command) -> Vec<String> {
    let mut found = BTreeMap::new();
    options(program, &mut found);
    let mut faults = Vec::new();
    for (name, values) in &found {
        let same = SHARED.iter().find(|one| one.not.contains(&name.as_str()));
        if let Some(one) = same {
            faults.push(format!("--{name} means {}: write --{}", one.meaning, one.option));
            continue;
        }
        let of = SHARED.iter().find(|one| one.option == name);
        if of.is_none() && !OWN.contains(&name.as_str()) {
            faults
                .push(format!("--{name} stands in no table: is it a meaning that has an option?"));
        }
        for value in values {
            let owner = SHARED.iter().find(|one| one.values.contains(&value.as_str()));
            let is_other = owner.filter(|one| one.option != name);
            // The second side of a comparison is of the same kind as the first.
            let is_format = value == "FORMAT" && ["precision", "kv"].contains(&name.as_str());
            if let Some(one) = is_other.filter(|_| name != "vs" && !is_format) {
                faults.push(format!("--{name} {value}: {} is --{}", one.meaning, one.option));
            }
        }
    }
    for name in SHARED.iter().map(|one| one.option).chain(OWN.iter().copied()) {
        if !found.contains_key(name) {
            faults.push(format!("--{name} stands in a table, and no command has it"));
        }
    }
    faults
}

fn program() -> Command {
    let mut program = Cli::command();
    program.build();
    program
}

#[test]
fn each_meaning_has_one_spelling_in_all_commands() {
    let faults = faults(&program());
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn the_tables_contradict_themselves_nowhere() {
    let mut names = BTreeSet::new();
    let mut meanings = BTreeSet::new();
    for one in SHARED {
        assert!(meanings.insert(one.meaning), "{} twice", one.meaning);
        for name in one.not.iter().chain([&one.option]) {
            assert!(names.insert(*name), "--{name} twice");
        }
    }
    assert!(OWN.iter().all(|name| names.insert(*name)), "an option of its own has a meaning too");
}

#[test]
fn planted_spellings_are_found() {
    let with = |arg: clap::Arg| {
        let below = Command::new("more").subcommand(Command::new("below").arg(arg));
        faults(&program().subcommand(below))
    };
    let long = |name: &'static str| clap::Arg::new(name).long(name);
    assert_eq!(with(long("device")), [""; 0]);
    for (arg, words) in [
        (long("baseline"), "--baseline means the second side of a comparison: write --vs"),
        (long("tp"), "write --layout"),
        (long("devices"), "write --gpus"),
        (long("novel"), "--novel stands in no table"),
        (long("shape").visible_alias("against"), "--against means"),
        (
            long("price").value_name("PART"),
            "--price PART: the hardware of a figure or a projection is --on",
        ),
        (long("text").value_name("LAYOUT"), "is --layout"),
    ] {
        let found = with(arg).join("\n");
        assert!(found.contains(words), "{words}: {found}");
    }
    assert_eq!(with(long("baseline").hide(true)), [""; 0], "old names stay, hidden");
    assert!(!faults(&Command::new("empty")).is_empty(), "a table of options that are gone");
}
