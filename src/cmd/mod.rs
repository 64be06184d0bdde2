//! The verbs, one module each: the only place that prints and exits.

pub mod ab;
pub mod accept;
pub mod bundle;
mod child;
pub mod claim;
pub mod compare;
pub mod devices;
pub mod discover;
pub mod doctor;
mod estimate;
mod explain;
pub mod fleet;
pub mod frontier;
mod generations;
pub mod launch;
pub mod list;
pub mod load;
pub mod localise;
pub mod plan;
pub mod profile;
mod progress;
pub mod project;
mod quiet;
pub mod report;
pub mod reproduce;
pub mod run;
pub mod run_args;
mod search;
pub mod shapes;
mod side_by_side;
mod signals;
mod suites;
mod tied;
mod turns;
mod user_kernels;
pub mod verify;
pub mod what_if;

use crate::{
    kernels,
    world::{Choice, Ending, NoSuchDevice, ToldByAnother, choice},
};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use fizeau_comm::rendezvous::MeetingError;
use fizeau_device::Device;
use fizeau_domain::text;
use fizeau_record::{file, store};
use std::{
    fs,
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Exit codes, as the help and README state them.
pub mod exit {
    use fizeau_domain::verdict::Verdict;

    /// Something failed, or was invalid, or got slower; or numbers would be spoilt here.
    pub const FAILED: u8 = Verdict::Fail.exit_code();
    /// The command line is wrong.
    pub const USAGE: u8 = 2;
    /// It could not run; or a GPU's driver is installed and does not work, or a GPU cannot be
    /// opened.
    pub const COULD_NOT_RUN: u8 = 3;
    /// Ended from outside.
    pub const INTERRUPTED: u8 = 130;
}

const AFTER_HELP: &str = "\
Environment variables:
  FIZEAU_DATA          as --data
  FIZEAU_PROGRESS      as --progress of run: auto, plain or off
  FIZEAU_LIBRARY_PATH  folders in which vendors' libraries are looked for, and no others
  FIZEAU_MPI           the MPI library to open
  FIZEAU_RENDEZVOUS    where ranks of GPUs meet: file:FOLDER or tcp:HOST:PORT
  FIZEAU_TOKEN         the secret by which these ranks know each other
  FIZEAU_REDACT_KEY    the key of accept --redact, unless --redact-key names its file
  FIZEAU_API_KEY       the API key that load sends, unless --api-key-file names its file

Exit codes:
    0  everything planned was measured, or skipped with its reason
    1  a case failed or was invalid, a comparison found a regression, a claim was not reproduced
       or got an answer of --fail-on, or `doctor` found what would spoil numbers
    2  the command line is wrong
    3  it could not run: also where a GPU's driver is installed and does not work, or `doctor`
       found a GPU that cannot be opened
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

/// The heading of these settings in the help of each verb, below its own.
const GLOBAL: &str = "Options of every command";

/// Settings of every verb.
#[derive(Args, Clone, Debug)]
pub struct Global {
    /// Directory of TOML files that replace or extend the built-in parts, hosts, links and suites
    #[arg(long, global = true, value_name = "DIR", env = "FIZEAU_DATA", help_heading = GLOBAL)]
    pub data: Option<PathBuf>,
    /// Print JSON for other programs
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub json: bool,
    /// Colour the output (NO_COLOR is obeyed)
    #[arg(long, global = true, value_enum, default_value_t = When::Auto, help_heading = GLOBAL)]
    pub color: When,
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Global {
    /// Whether standard output takes colours.
    pub fn colours(&self) -> bool {
        match self.color {
            When::Always => true,
            When::Never => false,
            When::Auto => {
                let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
                !refused && io::stdout().is_terminal()
            }
        }
    }
}

/// What to do.
#[derive(Subcommand)]
pub enum Verb {
    /// Print the devices that can be measured, or the catalogue of known parts
    Devices(devices::DevicesArgs),
    /// Check this machine for what would spoil measurements, and say how to fix it
    Doctor,
    /// Print the suites: what each measures, how many cases, how long it takes
    Suites(suites::SuitesArgs),
    /// Print the plan of a run without running it: cases, estimated time and memory
    List(list::ListArgs),
    /// Explain a case: what it measures, its work, its limits, its kernel, how to repeat it
    Explain(explain::ExplainArgs),
    /// Measure this machine, keep a record, write reports
    Run(run_args::RunArgs),
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
    /// Measure two programs, devices, kernels or settings in alternating pairs (for CI gates)
    Ab(ab::AbArgs),
    /// Check whether this node is fit for work: pass, fail or inconclusive, and what to do
    Accept(Box<accept::AcceptArgs>),
    /// Check the bundle that an acceptance left: unchanged, signed by whom, verdict follows
    Verify(verify::VerifyArgs),
    /// Judge all nodes together: which GPUs, nodes and racks are below contract, how surely
    Fleet(fleet::FleetArgs),
    /// Learn a profile for `accept` from records of good machines, or print one
    Profile(profile::ProfileArgs),
    /// Say what a language model can do on a part, or on the machine of a record
    Project(project::ProjectArgs),
    /// Load a server and report latency and throughput, beside what its hardware allows
    Load(Box<load::LoadArgs>),
    /// Print the shapes of a language model as a suite that `run` takes
    Shapes(shapes::ShapesArgs),
    /// Say whether a published figure can be true, with the arithmetic
    Claim(claim::ClaimArgs),
    /// Run a published hardware claim under its conditions: reproduced, not reproduced, cannot tell
    Reproduce(reproduce::ReproduceArgs),
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
    /// Set limits of a device for another process of this program, and put them back when it ends
    #[command(hide = true)]
    KeepLimits(frontier::keeper::KeepLimitsArgs),
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
    fizeau_device::bundle::install(kernels::BUNDLE);
    if !launch::end_with_launcher() {
        return ExitCode::from(exit::COULD_NOT_RUN);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refused(&error),
    };
    let result = match cli.verb {
        None => print(NEXT),
        Some(Verb::Devices(args)) => devices::run(&args, &cli.global),
        Some(Verb::Doctor) => doctor::run(&cli.global),
        Some(Verb::Suites(args)) => suites::run(&args, &cli.global),
        Some(Verb::Explain(args)) => explain::run(&args, &cli.global),
        Some(Verb::List(args)) => list::run(&args, &cli.global),
        Some(Verb::Run(args)) => run::run(&args, &cli.global),
        Some(Verb::Discover(args)) => discover::run(&args, &cli.global),
        Some(Verb::Launch(args)) => launch::run(&args),
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
        Some(Verb::KeepLimits(args)) => frontier::keeper::keep(&args),
        Some(Verb::Schema) => schema(),
    };
    result.unwrap_or_else(|error| {
        if error.is::<ToldByAnother>() {
            return ExitCode::from(exit::COULD_NOT_RUN);
        }
        let usage = error.is::<Usage>() || error.is::<NoSuchDevice>();
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

/// An error of the command line, for exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// A process that this one waited for was ended by a signal.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Writes to standard error, cleaned: what a record, a driver, a path or another rank says may hold
/// anything. Where it is closed there is nobody to tell, and what the program does must not depend
/// on it: `eprintln!` would panic.
fn say(text: &str) {
    say_after("", text);
}

/// Whether standard error is a terminal.
fn has_terminal() -> bool {
    io::stderr().is_terminal()
}

/// The same where a terminal may show a line that is not ended, such as that of progress.
fn say_on_a_new_line(text: &str) {
    say_after(if has_terminal() { "\n" } else { "" }, text);
}

fn say_after(start: &str, text: &str) {
    let window = terminal_size::terminal_size_of(io::stderr());
    let width = window.map(|(width, _)| usize::from(width.0)).filter(|&width| width >= 40);
    let clean = text::clean_lines(text);
    let lines = clean.split('\n').enumerate();
    let lines: Vec<String> =
        lines.map(|(at, line)| text::wrap(line, width, if at == 0 { 8 } else { 0 })).collect();
    let _ = writeln!(io::stderr(), "{start}fizeau: {}", lines.join("\n"));
}

/// A path as messages show it.
fn shown(path: &Path) -> String {
    text::clean(&path.display().to_string())
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
    match taken_up(error.print().and_then(|()| io::stdout().flush())) {
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

/// Refuses to write a report over a record: over one that is read, by whatever name, or over any
/// file that is called as records are.
///
/// # Errors
/// Where it would.
fn spare_records(out: Option<&Path>, inputs: &[PathBuf]) -> Result<(), Usage> {
    let Some(out) = out else { return Ok(()) };
    let is_record = out.file_name().is_some_and(|name| name == store::FILE)
        || inputs.iter().any(|input| file::is_same(out, &store::file_of(input)));
    match is_record {
        true => Err(Usage(format!(
            "--out {} would write over a record, which cannot be made again; choose another file",
            out.display()
        ))),
        false => Ok(()),
    }
}

/// Writes a file whole or not at all; `option` is what chooses another place.
fn write_file(path: &Path, bytes: &[u8], option: &str) -> anyhow::Result<()> {
    file::write(path, bytes).map_err(|error| unwritable("write", path, error, option))
}

/// Makes a directory and those above it.
fn make_directory(path: &Path, option: &str) -> anyhow::Result<()> {
    fs::create_dir_all(path).map_err(|error| unwritable("make", path, error, option))
}

fn unwritable(what: &str, path: &Path, error: io::Error, option: &str) -> anyhow::Error {
    let remedy = match file::is_forbidden(&error) {
        true => format!("; choose a place that you may write to by {option}"),
        false => String::new(),
    };
    anyhow::anyhow!("cannot {what} {}: {error}{remedy}", shown(path))
}

/// Says on standard error why the host is taken, where nobody asked for it; `what` begins the line.
fn say_if_host_was_chosen(what: &str, choice: &Choice, device: &dyn Device) {
    if choice.device.is_none() && choice::is_host(&device.properties().backend) {
        say(&format!("{what}: {}", choice::without_gpu()));
    }
}

/// How a run ends in which a rank hangs.
const ENDING: Ending = Ending { say, exit: || std::process::exit(i32::from(exit::COULD_NOT_RUN)) };

/// Prints a text and a line's end, as `write_out` does: for verbs that end well once it is said.
pub fn print(text: &str) -> anyhow::Result<ExitCode> {
    write_out(&format!("{text}\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn man() -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut text)?;
    print(String::from_utf8_lossy(&text).trim_end())
}

fn schema() -> anyhow::Result<ExitCode> {
    print_json(&fizeau_record::CURRENT.schema())
}

/// Prints a value as JSON, for machines, with nothing in it that a terminal acts upon.
fn print_json(value: &impl serde::Serialize) -> anyhow::Result<ExitCode> {
    print(&text::escaped(serde_json::to_string_pretty(value)?))
}

/// Writes to standard output, for whoever still reads it: what a verb found out, and its exit
/// code, do not depend on it. The only place that does, so that no verb can forget it.
///
/// # Errors
///
/// Where it cannot be written for another reason than that its reader went away.
fn write_out(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    taken_up(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// What became of a write to standard output. A reader that went away (`fizeau list | head`) is no
/// failure, whatever the verb found out.
fn taken_up(written: io::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::anyhow!("cannot write to standard output: {error}"))
        }
        _ => Ok(()),
    }
}
