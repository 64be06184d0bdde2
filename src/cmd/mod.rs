//! The verbs, one module each: the only place that prints and exits. No verb uses another; what
//! several of them share is a module below them.

mod ab;
mod accept;
mod claim;
mod compare;
mod contend;
mod devices;
mod discover;
mod doctor;
mod explain;
mod fleet;
mod keep_limits;
mod launch;
mod list;
mod load;
mod localise;
mod profile;
mod project;
mod report;
pub mod reproduce;
mod run;
mod shapes;
mod suites;
mod verify;

// Below the verbs: what several of them share.
mod bundle;
mod child;
mod disk;
pub mod document;
mod estimate;
mod exit;
mod global;
mod gpu_state;
mod hint;
mod keeper;
mod models;
mod old_names;
mod output;
mod parent;
mod parts;
mod plan;
mod profiles;
mod progress;
mod recording;
mod records;
mod scratch;
mod sections;
mod share;
mod signals;
mod tied;
mod time;
mod user_kernels;

/// Readers of verbs without what the verbs print, for the program that feeds them strange inputs
/// (`examples/fuzz`).
#[doc(hidden)]
pub mod fed {
    pub use super::{
        fleet::said_of as survey, records::frontier::document as frontier,
        reproduce::bundle::checked as reproduction, verify::said_of as verify,
    };
}

use crate::{
    kernels,
    world::{NoSuchDevice, ToldByAnother},
};
use clap::{CommandFactory, FromArgMatches as _, Parser, Subcommand, builder::Resettable};
use exit::{Interrupted, Usage};
use fizeau_comm::rendezvous::MeetingError;
use fizeau_domain::{text, units::Seconds};
use global::Global;
use output::{print, print_json, say};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Environment variables:
  FIZEAU_DATA          as --data
  FIZEAU_PROGRESS      as --progress: auto, plain or off
  FIZEAU_KERNELS_FROM  a copy of kernels/, compiled in place of the program's own kernel sources
  FIZEAU_LIBRARY_PATH  the only folders in which vendors' libraries are searched for
  FIZEAU_MPI           the MPI library to open
  FIZEAU_RENDEZVOUS    where ranks of GPUs meet: file:FOLDER or tcp:HOST:PORT
  FIZEAU_TOKEN         the secret that these ranks share
  FIZEAU_REDACT_KEY    the key of accept --redact, unless --redact-key names its file
  FIZEAU_API_KEY       the API key that load sends, unless --api-key-file names its file

Exit codes:
    0  everything planned was measured, or skipped with its reason
    1  a case failed or was invalid, a comparison found a regression, a claim was not reproduced
       or got an answer of --fail-on, or `doctor` found a fault that would spoil numbers
    2  the command line is wrong
    3  it could not run: a file does not exist, a GPU's driver is installed and does not work,
       or `doctor` found a GPU that cannot be opened
    4  nothing can be concluded
  130  interrupted; `fizeau run --resume DIR` continues the run
  101  a bug of fizeau";

/// Measures how close a machine runs to the speed of light: the limits that its vendor's numbers
/// and physics set.
#[derive(Parser)]
#[command(name = "fizeau", version, after_help = AFTER_HELP)]
pub struct Cli {
    /// Settings of every verb.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub verb: Option<Verb>,
}

/// What to do.
#[derive(Subcommand)]
pub enum Verb {
    /// Print the devices that can be measured, or the catalogue of known parts
    Devices(devices::DevicesArgs),
    /// Find faults of this machine that would spoil measurements, and say how to fix them
    Doctor(doctor::DoctorArgs),
    /// Print the suites: what each measures, how many cases, how long it takes
    Suites(suites::SuitesArgs),
    /// Print the plan of a run without running it: cases, estimated time and memory
    List(list::ListArgs),
    /// Explain a case: what it measures, its work, its limits, its kernel, how to repeat it
    Explain(explain::ExplainArgs),
    /// Measure this machine, keep a record, write reports
    Run(recording::args::RunArgs),
    /// Measure what a device can do, check its table, or draft one for a device in no table
    Discover(discover::DiscoverArgs),
    /// Start ranks on this node, one process each: fizeau launch -n 2 -- run collective
    Launch(launch::LaunchArgs),
    /// Find the rank that is slow with every partner, or the slow link
    #[command(visible_alias = "localize")]
    Localise(localise::LocaliseArgs),
    /// Print the report of a run from its record, in any format
    Report(report::ReportArgs),
    /// Compare runs case by case: faster, slower, same, unclear
    Compare(compare::CompareArgs),
    /// Measure two programs, devices, kernels or settings in alternating pairs
    Ab(ab::AbArgs),
    /// Check whether this node is fit for work: pass, fail or inconclusive, and what to do
    Accept(Box<accept::AcceptArgs>),
    /// Check the directory of an acceptance: is it unchanged, and who signed it
    Verify(verify::VerifyArgs),
    /// Judge all nodes together: find GPUs, nodes and racks below contract
    Fleet(fleet::FleetArgs),
    /// Learn a profile for `accept` from records of good machines, or print one
    Profile(profile::ProfileArgs),
    /// Project the speed of a language model on a part, or on the machine of a record
    Project(project::ProjectArgs),
    /// Send load to a server, and report its latency and throughput
    Load(Box<load::LoadArgs>),
    /// Print the shapes of a language model as a suite that `run` takes
    Shapes(shapes::ShapesArgs),
    /// Say whether a published figure can be true, with the arithmetic
    Claim(claim::ClaimArgs),
    /// Run a published hardware claim under its conditions, and say whether it is reproduced
    Reproduce(reproduce::ReproduceArgs),
    /// Print shell completions
    Completions {
        /// The shell
        #[arg(ignore_case = true)]
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
    /// Take samples as another process asks for them: one JSON object a line, in and out
    #[command(hide = true)]
    Contend(contend::ContendArgs),
    /// Set limits of a device for another process of this program, and put them back when it ends
    #[command(hide = true)]
    KeepLimits(keep_limits::KeepLimitsArgs),
    /// Print the JSON Schema of one line of a record
    #[command(hide = true)]
    Schema,
}

const NEXT: &str = "\
fizeau measures how close a machine runs to the speed of light. Next:

    fizeau run          measure this machine (a few minutes), keep a record, write a report
    fizeau list         show what would be measured
    fizeau devices      show the devices that can be measured
    fizeau --help       everything else";

/// Runs the command line; what `main` returns.
pub fn main() -> ExitCode {
    match kernels::bundle() {
        Ok(bundle) => fizeau_device::bundle::install(bundle),
        Err(error) => {
            say(&format!("{error:#}"));
            return ExitCode::from(exit::USAGE);
        }
    }
    if !parent::end_with_launcher() {
        return ExitCode::from(exit::COULD_NOT_RUN);
    }
    let command = sections::in_sections(without_empty_variables(Cli::command()));
    let parsed = command.try_get_matches().and_then(|given| Cli::from_arg_matches(&given));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return refused(&nearest(error)),
    };
    for note in old_names::notes(&words()) {
        say(&note);
    }
    let is_of_variable = !words().iter().any(|word| word.starts_with("--data"));
    if let Some(data) = cli.global.data.as_ref().filter(|data| is_of_variable && !data.is_dir()) {
        say(&format!("FIZEAU_DATA={} stands for --data", output::shown(data)));
    }
    let result = match cli.verb {
        None => print(NEXT),
        Some(Verb::Devices(args)) => devices::run(&args, &cli.global),
        Some(Verb::Doctor(args)) => doctor::run(&args, &cli.global),
        Some(Verb::Suites(args)) => suites::run(&args, &cli.global),
        Some(Verb::Explain(args)) => explain::run(&args, &cli.global),
        Some(Verb::List(args)) => list::run(&args, &cli.global),
        Some(Verb::Run(args)) => run::run(&args, &cli.global),
        Some(Verb::Discover(args)) => discover::run(&args, &cli.global),
        Some(Verb::Launch(args)) => launch::run(&args, command_of_ranks),
        Some(Verb::Localise(args)) => localise::run(&args, &cli.global),
        Some(Verb::Report(args)) => report::run(&args, &cli.global),
        Some(Verb::Compare(args)) => compare::run(&args, &cli.global),
        Some(Verb::Ab(args)) => ab::run(&args, &cli.global),
        Some(Verb::Accept(args)) => accept::run(&args, &cli.global),
        Some(Verb::Verify(args)) => verify::run(&args, &cli.global),
        Some(Verb::Fleet(args)) => fleet::run(&args, &cli.global),
        Some(Verb::Profile(args)) => profile::run(&args, &cli.global),
        Some(Verb::Project(args)) => project::run(&args, &cli.global),
        Some(Verb::Load(args)) => load::run(&args, &cli.global),
        Some(Verb::Shapes(args)) => shapes::run(&args, &cli.global),
        Some(Verb::Claim(args)) => claim::run(&args, &cli.global),
        Some(Verb::Reproduce(args)) => reproduce::run(&args, &cli.global),
        Some(Verb::Completions { shell }) => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "fizeau", &mut text);
            print(String::from_utf8_lossy(&text).trim_end())
        }
        Some(Verb::Man) => man(),
        Some(Verb::Contend(args)) => contend::run(&args, &cli.global),
        Some(Verb::KeepLimits(args)) => keep_limits::run(&args),
        Some(Verb::Schema) => schema(),
    };
    result.unwrap_or_else(|error| {
        if let Some(error) = error.downcast_ref::<clap::Error>() {
            return refused(error);
        }
        if error.is::<ToldByAnother>() {
            return ExitCode::from(exit::COULD_NOT_RUN);
        }
        // A file that does not exist ends every command alike, whichever option named it.
        let is_missing = format!("{error:#}").contains(output::NO_SUCH_FILE);
        let usage = (error.is::<Usage>() || error.is::<NoSuchDevice>()) && !is_missing;
        let interrupted = matches!(error.downcast_ref(), Some(MeetingError::Interrupted))
            || error.is::<Interrupted>();
        say(&format!("{error:#}"));
        ExitCode::from(match (usage, interrupted) {
            (true, _) => exit::USAGE,
            (_, true) => exit::INTERRUPTED,
            _ => exit::COULD_NOT_RUN,
        })
    })
}

/// The command line that each rank of `launch` runs.
///
/// # Errors
/// Where it is wrong, or asks for help: then no rank starts.
fn command_of_ranks(words: &[String]) -> Result<Cli, clap::Error> {
    let program = std::iter::once("fizeau");
    let command = without_empty_variables(Cli::command());
    let given = command.try_get_matches_from(program.chain(words.iter().map(String::as_str)))?;
    Cli::from_arg_matches(&given)
}

impl launch::RanksCommand for Cli {
    fn device(&self) -> Option<String> {
        match &self.verb {
            Some(Verb::Run(args)) => args.plan.device.clone(),
            Some(Verb::List(args)) => args.plan.device.clone(),
            Some(Verb::Localise(args)) => args.device.clone(),
            _ => None,
        }
    }

    fn deadline(&self) -> Option<Seconds> {
        match &self.verb {
            Some(Verb::Run(args)) => recording::deadline(args, &self.global).ok(),
            Some(Verb::Localise(_)) => Some(localise::DEADLINE),
            _ => None,
        }
    }
}

/// An empty variable of the environment is as one that is not set.
fn without_empty_variables(program: clap::Command) -> clap::Command {
    program.mut_args(|arg| {
        let is_empty = arg.get_env().and_then(std::env::var_os).is_some_and(|it| it.is_empty());
        if is_empty { arg.env(Resettable::Reset) } else { arg }
    })
}

/// The same with the nearest word of this program as its tip.
fn nearest(error: clap::Error) -> clap::Error {
    hint::with_nearest(error, Cli::command(), &words())
}

/// The words of this command line, without the program's name.
fn words() -> Vec<String> {
    std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect()
}

/// What clap says of a command line, which it quotes as it was given; the exit code.
fn refused(error: &clap::Error) -> ExitCode {
    let words = error.render().to_string();
    if error.use_stderr() {
        if words.chars().any(|c| c != '\n' && text::is_hidden(c)) {
            say(&words);
        } else {
            // What clap cannot print to standard error has no reader.
            let _ = error.print();
        }
        if is_of_environment(&words, "--progress") {
            say("the value is that of the environment variable FIZEAU_PROGRESS");
        }
        return ExitCode::from(exit::USAGE);
    }
    match output::print_answer(error) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&error.to_string());
            ExitCode::from(exit::COULD_NOT_RUN)
        }
    }
}

/// Whether clap complains of an option that the command line does not have: its value is then that
/// of an environment variable.
fn is_of_environment(words: &str, option: &str) -> bool {
    let is_given = |word: std::ffi::OsString| word.to_string_lossy().starts_with(option);
    words.contains(&format!("for '{option} ")) && !std::env::args_os().any(is_given)
}

fn man() -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut text)?;
    print(String::from_utf8_lossy(&text).trim_end())
}

fn schema() -> anyhow::Result<ExitCode> {
    print_json(&fizeau_record::CURRENT.schema())
}

#[cfg(test)]
mod grammar;
#[cfg(test)]
mod quoted;

#[cfg(test)]
mod tests {
    use super::*;
    use launch::RanksCommand as _;

    #[test]
    fn the_ranks_device_is_read_as_they_read_it() {
        let of = |words: &str| {
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            command_of_ranks(&words).expect("a command line").device()
        };
        for words in [
            "run --backend=cuda:1",
            "run --backend cuda:1 stream",
            "run --device=cuda:1 -- collective",
            "--json run collective --device cuda:1",
            "localise --backend=cuda:1 --rounds 2",
        ] {
            assert_eq!(of(words).as_deref(), Some("cuda:1"), "{words}");
        }
        assert_eq!(of("run --label=--device --backend=host").as_deref(), Some("host"));
    }

    #[test]
    fn a_wrong_command_line_starts_no_rank() {
        let error = command_of_ranks(&["run".into(), "--devise=cuda".into()]);
        assert!(error.err().expect("a typing error").use_stderr());
        let help = command_of_ranks(&["run".into(), "--help".into()]);
        assert!(!help.err().expect("help").use_stderr());
    }
}
