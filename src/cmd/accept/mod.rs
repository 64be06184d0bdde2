//! `fizeau accept`: is this node fit for work?
//!
//! Each repeat on each device is a process of its own, which runs `fizeau run` and leaves a record:
//! new pages, new contexts, and nothing that one repeat does can spoil the next. What is judged is
//! the records; `verdict.json` is written anew after each round, so that `kill -9` loses the round
//! in flight and nothing else.

mod aside;
mod between;
mod child;
mod files;
mod groups;
mod measure;
mod perftest;

use super::{
    bundle::{BundleArgs, Contents},
    document,
    exit::{self, Interrupted, Usage},
    global::Global,
    output, plan, signals,
    time::Time,
};
use anyhow::Context as _;
use clap::{Args, ValueEnum};
use files::Kept;
use fizeau_device::observe::{self, Drivers};
use fizeau_domain::{
    launcher::{self, World},
    node_state::NodeState,
    units::{Bytes, Seconds},
    verdict::Verdict,
};
use fizeau_judge::{
    accept::{Level, Report, at_rest::AtRest, changes, dcgm, profile::Kind},
    evidence,
};
use fizeau_record::file;
use fizeau_report::format::acceptance;
use groups::Group;
use measure::Measured;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

/// Below the output directory, where the records of repeats go.
pub const ROUNDS: &str = evidence::file::ROUNDS;

/// Kernels of a point that are measured at first, of those that the device names first.
const KERNELS_TRIED: usize = 2;

/// Arguments of `accept`.
#[derive(Args, Clone, Debug)]
pub struct AcceptArgs {
    /// How much is checked
    #[arg(long, value_enum, default_value_t = LevelName::Quick)]
    pub level: LevelName,
    /// A built-in profile or a TOML file; repeat it for a node with several kinds of devices
    /// [default: floors from the speed of light, which can fail a node but not pass it]
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: Vec<String>,
    /// Devices as `fizeau devices` names them [default: every GPU and the host]
    #[arg(long, value_name = "NAME")]
    pub device: Vec<String>,
    /// Compare with these runs of good machines, at least three: records, or directories of earlier
    /// acceptances
    #[arg(long = "vs", alias = "baseline", value_name = "RECORD", num_args = 1..,
          conflicts_with = "profile")]
    pub baseline: Vec<PathBuf>,
    /// Use a learnt profile for a machine that differs from those it was learnt on
    #[arg(long)]
    pub across: bool,
    /// How long the acceptance may take: 90s, 10min, 1h; checks that are undecided then are
    /// inconclusive [default: 110s for quick, 14min for full, 4h for soak]
    #[arg(long, value_name = "TIME")]
    pub budget: Option<Time>,
    /// Print what would be checked and measured, and measure nothing
    #[arg(long)]
    pub plan: bool,
    /// Where records and verdicts go [default: results/local/TIME-accept; nowhere with --level
    /// passive]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Continue the acceptance in this directory that was killed or interrupted
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "plan"])]
    pub resume: Option<PathBuf>,
    /// Also write metrics for Prometheus to this file, in the folder of its textfile collector
    #[arg(long, value_name = "FILE")]
    pub textfile: Option<PathBuf>,
    /// What becomes of the directory.
    #[command(flatten)]
    pub bundle: BundleArgs,
    /// Add the results of DCGM's diagnostic as checks: the JSON that `dcgmi diag -r 3 -j` writes
    /// (versions 3 and 4)
    #[arg(long, value_name = "FILE")]
    pub dcgm: Option<PathBuf>,
    /// Leave the host's name out of records and verdicts
    #[arg(long)]
    pub no_host_name: bool,
    /// Print the verdict on one line, for the reason of a drained node or a node's condition
    #[arg(long)]
    pub one_line: bool,
    /// Other jobs may run on this node: neither their processes nor their effect on clocks fail it
    #[arg(long)]
    pub shared: bool,
    /// Bytes that ranks exchange between nodes: for tests
    #[arg(long, hide = true, default_value = "64MiB", value_name = "SIZE")]
    pub exchange: Bytes,
    /// Read the kernel's files below this directory: for tests
    #[arg(long, hide = true, default_value = "/", value_name = "DIR")]
    pub root: PathBuf,
}

/// A level, as `--level` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LevelName {
    /// Reads the state from the kernel and the drivers: no load, a few seconds
    Passive,
    /// Adds a few measurements: two minutes
    Quick,
    /// Every check of the profile: a quarter of an hour
    Full,
    /// Adds load until the budget ends, with series of clocks and temperatures
    Soak,
}

impl From<LevelName> for Level {
    fn from(name: LevelName) -> Level {
        match name {
            LevelName::Passive => Level::Passive,
            LevelName::Quick => Level::Quick,
            LevelName::Full => Level::Full,
            LevelName::Soak => Level::Soak,
        }
    }
}

impl AcceptArgs {
    /// When it ends, decided or not.
    pub fn ends_after(&self) -> Seconds {
        self.budget.map_or_else(
            || match self.level {
                LevelName::Passive | LevelName::Quick => Seconds(110.0),
                LevelName::Full => Seconds(14.0 * 60.0),
                LevelName::Soak => Seconds(4.0 * 3_600.0),
            },
            |budget| budget.0,
        )
    }
}

/// Checks a node. The exit code is the verdict's: 0 pass, 1 fail, 4 inconclusive; 3 where a node
/// that does not fail was judged and a file that was asked for could not be written.
///
/// # Errors
/// Where it cannot begin, or the verdict cannot be written.
pub fn run(args: &AcceptArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let interrupted = signals::watch()?;
    let level = Level::from(args.level);
    if args.across && args.profile.is_empty() && args.baseline.is_empty() {
        let words = "--across is about a learnt profile: add --profile FILE, or --vs RECORD";
        return Err(Usage(words.into()).into());
    }
    let dcgm = args.dcgm.as_deref().map(told_by_dcgm).transpose()?;
    let catalogue = plan::catalogue(global)?;
    let (mut state, drivers) = observed(args, &interrupted)?;
    if level > Level::Passive {
        state.host.busy = observe::busy(&args.root);
    }
    let asked = args.clone();
    let devices = aside::unless_interrupted(&interrupted, move || groups::devices(&asked))??;
    let groups = groups::of(args, &catalogue, &devices)?;
    if args.plan {
        return groups::print_plan(args, &groups, level, global, &interrupted);
    }
    let mut kept = Kept::begin(args, level, &groups)?;
    kept.keep_earlier()?;
    let bundle = args.bundle.begin(kept.out.as_deref())?;
    warn(&groups, level, &drivers, &mut kept);
    let at_rest = at_rest(&groups, drivers, args.shared);
    kept.passive = at_rest.judge(&state, level);
    kept.boards = state.boards();
    kept.machine = groups::machine(&groups, &state);
    if let Some(told) = &dcgm {
        kept.others.extend(told.judged());
        told.notes().into_iter().for_each(|words| kept.note(words));
    }
    kept.unread = state.unread.clone();
    kept.keep_state(evidence::file::STATE, &state)?;
    let measured = match level {
        Level::Passive => Measured { is_complete: true, ..Measured::default() },
        _ => measure::all(args, global, &groups, &state, &mut kept, &interrupted)?,
    };
    keep_state_after(args, level, &state, &mut kept, &interrupted)?;
    let report = kept.write(measured.is_complete)?;
    let closed = kept.out.as_deref().map(|out| {
        let (root, names_host, started) = (&args.root, !args.no_host_name, &kept.started);
        let Measured { told, network, between, .. } = measured;
        bundle.close(Contents {
            catalogue: &catalogue,
            out,
            root,
            names_host,
            started,
            level,
            at_rest,
            told,
            decided: kept.decided.values().cloned().collect(),
            network,
            between,
            dcgm,
        })
    });
    say(&report, args, global, kept.out.as_deref())?;
    // Whoever waits for the verdict has it now, whatever else could not be written.
    let unwritten = [closed.and_then(Result::err), kept.textfile_error.take()];
    let unwritten: Vec<anyhow::Error> = unwritten.into_iter().flatten().collect();
    unwritten.iter().for_each(|error| output::say(&format!("{error:#}")));
    if interrupted.load(Ordering::Relaxed) {
        return Err(Interrupted.into());
    }
    // A node that fails is to be taken out of service, whether or not all files are there.
    Ok(ExitCode::from(match (report.verdict, unwritten.is_empty()) {
        (verdict @ Verdict::Fail, _) | (verdict, true) => verdict.exit_code(),
        (_, false) => exit::COULD_NOT_RUN,
    }))
}

/// Prints the verdict in the form that was asked for.
fn say(
    report: &Report,
    args: &AcceptArgs,
    global: &Global,
    out: Option<&Path>,
) -> anyhow::Result<()> {
    if global.json {
        output::print_json(report)?;
    } else if args.one_line {
        output::write_out(&acceptance::one_line(report))?;
    } else {
        output::write_out(&document::lines_in_window(&acceptance::text(report), global))?;
        if let Some(out) = out {
            output::say(&format!("records and {}: {}", files::VERDICT, output::shown(out)));
        }
    }
    Ok(())
}

/// Says before anything is measured that a profile can pass nothing, and notes drivers without a
/// GPU.
fn warn(groups: &[Group], level: Level, drivers: &Drivers, kept: &mut Kept<'_>) {
    let profiles = groups.iter().map(|group| &group.profile);
    let derived = profiles.filter(|one| one.kind == Kind::Derived && !one.checks.is_empty());
    for profile in derived.filter(|_| level > Level::Passive) {
        output::say(&acceptance::cannot_pass(&profile.name));
    }
    drivers.without_gpus.iter().for_each(|words| kept.note(words.clone()));
}

/// Longest JSON of a diagnostic, in bytes.
const DCGM_MAX: u64 = 64 << 20;

/// What a diagnostic of DCGM told.
///
/// # Errors
/// Where the file cannot be read, or is none.
fn told_by_dcgm(path: &Path) -> anyhow::Result<dcgm::Told> {
    let place = || format!("--dcgm {}", output::shown(path));
    let text = file::read_text(path, DCGM_MAX).with_context(place)?;
    dcgm::read(&text).map_err(anyhow::Error::msg).with_context(place)
}

/// A node at rest, and what is wrong with its drivers.
///
/// # Errors
/// [`Interrupted`] where a driver does not answer and the user wants an end.
fn observed(args: &AcceptArgs, interrupted: &AtomicBool) -> anyhow::Result<(NodeState, Drivers)> {
    let root = args.root.clone();
    aside::unless_interrupted(interrupted, move || {
        let mut state = observe::kernel(&root);
        let drivers = observe::add_drivers(&mut state);
        (state, drivers)
    })
}

/// Keeps what is observed at the end, where anything is kept, and judges what changed while the
/// node was measured. Where a driver does not answer any more and the user wants an end, the
/// verdicts so far are what is left.
fn keep_state_after(
    args: &AcceptArgs,
    level: Level,
    before: &NodeState,
    kept: &mut Kept<'_>,
    interrupted: &AtomicBool,
) -> anyhow::Result<()> {
    if kept.out.is_none() {
        return Ok(());
    }
    let (after, _) = observed(args, interrupted)?;
    if level > Level::Passive {
        kept.others.extend(changes::judge(before, &after));
    }
    kept.keep_state(evidence::file::STATE_AFTER, &after)
}

/// What the checks of the state are made of, besides the state.
fn at_rest(groups: &[Group], drivers: Drivers, is_shared: bool) -> AtRest {
    // What a node is made up of stands in the profile of its GPUs.
    let expected = groups.iter().map(|group| &group.profile.expected);
    let expected = expected.max_by_key(|one| usize::from(one.gpus.is_some())).cloned();
    AtRest {
        expected: expected.unwrap_or_default(),
        broken_drivers: drivers.broken,
        drivers_without_devices: drivers.without_devices,
        broken_sensors: drivers.broken_sensors,
        is_shared,
    }
}

/// The world of several ranks that a launcher has put this process into.
///
/// # Errors
/// Where the launcher's variables make no sense.
fn world() -> anyhow::Result<Option<World>> {
    let world = launcher::world(|name| std::env::var(name).ok());
    world.map_err(|error| Usage(error.to_string()).into())
}
