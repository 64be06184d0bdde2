//! `fizeau run`: measure, record, report.

use super::{
    Global, exit, plan,
    progress::Progress,
    ranks::{self, HostName},
    report::{self, ReportFormat},
};
use crate::{
    bench::Rank,
    case::{Case, Point},
    comm::{Communicator, mpi::Mpi, together::Together},
    device::{self, Device},
    launch::World,
    measure::clock,
    outcome::Outcome,
    record::{
        Header, Record,
        current::VERSION,
        store::{self, Writer},
    },
    session::{End, Session, Watcher},
    suite::{MeasureSettings, Suite},
};
use anyhow::Context;
use clap::Args;
use std::{
    cell::Cell,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
};

/// Below the working directory, where records go that are nobody's but this machine's.
const LOCAL: &str = "results/local";

/// Arguments of `run`.
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    /// What to measure.
    #[command(flatten)]
    pub plan: plan::PlanArgs,
    /// Where the record and the reports go [default: results/local/TIME-SUITE]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Go on with the run in this directory that was killed or interrupted
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "selectors", "ranks", "label"])]
    pub resume: Option<PathBuf>,
    /// Your words for this run, kept in the record
    #[arg(long, value_name = "WORDS")]
    pub label: Option<String>,
    /// Leave the host's name out of the record
    #[arg(long)]
    pub no_host_name: bool,
}

/// Measures.
pub fn run(args: &RunArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let interrupted = watch_signals()?;
    let catalogue = plan::catalogue(global)?;
    let old = args.resume.as_deref().map(store::read).transpose()?;
    let plan_args = plan_of(args, old.as_ref());
    let launched = ranks::launched()?;
    let device = match &launched {
        Some(_) => plan::open(&plan_args.device_of_ranks()?)?,
        None => plan::open(&plan_args.device())?,
    };
    let host_name = if args.no_host_name { HostName::LeftOut } else { HostName::Told };
    let join = |world: &World| ranks::join(world, device.as_ref(), host_name);
    let mpi = launched.as_ref().map(join).transpose()?;
    let threads;
    let peers: &dyn Communicator = match &mpi {
        Some(mpi) => mpi,
        None => {
            threads = plan::world(&plan_args, device.as_ref())?;
            threads.as_ref()
        }
    };
    let together = Together { device: device.as_ref(), peers };
    let rank = match &mpi {
        Some(_) => Rank { device: &together, peers },
        None => Rank { device: device.as_ref(), peers },
    };
    let part = catalogue.part_of(device.properties());

    let (mut header, settings) = match &old {
        Some(old) => resumed(args, &old.header, &catalogue)?,
        None => {
            let plan = plan::Plan::new(&plan_args, &catalogue, rank)?;
            let settings = plan.suite.measure;
            (started(plan, args), settings)
        }
    };
    describe(&mut header, device.as_ref(), args);
    header.part = part.map(|part| part.id.clone());
    let mut memory_free = header.environment.memory_free;
    if let Some(mpi) = &mpi {
        header.environment.libraries.push(mpi.version().into());
        memory_free = ranks::memory(mpi, memory_free)?;
    }
    device.set_deadline(settings.deadline);
    let session = Session { rank, part, settings, interrupted: &interrupted, memory_free };
    let end = match mpi.as_ref().filter(|mpi| mpi.rank() != 0) {
        None => keep(args, &session, &header, old, mpi.as_ref(), global)?,
        Some(mpi) => follow(mpi, &session, &header, old)?,
    };
    if let Some(mpi) = mpi {
        mpi.finish()?;
    }
    Ok(end)
}

/// Runs the session, keeps its record and writes its reports.
fn keep(
    args: &RunArgs,
    session: &Session<'_>,
    header: &Header,
    old: Option<Record>,
    mpi: Option<&Mpi>,
    global: &Global,
) -> anyhow::Result<ExitCode> {
    let directory = match args.resume.as_ref().or(args.out.as_ref()) {
        Some(directory) => directory.clone(),
        None => new_directory(header),
    };
    if let Some(old) = &old {
        store::same_run(&directory.join(store::FILE), &old.header, header)?;
        if complete(old) {
            return finish(&directory, End::Complete, global);
        }
    }
    let (mut writer, done) = match old {
        Some(_) => {
            let (writer, record) = Writer::resume(&directory, header)?;
            (writer, record.outcomes)
        }
        None => (Writer::create(&directory, header)?, Vec::new()),
    };
    if let Some(mpi) = mpi {
        ranks::guard(mpi, session.settings.deadline, Some(&directory), header)?;
    }
    let left = header.plan.len().saturating_sub(done.len());
    let mut progress = Progress::new(left, session.rank.device.properties());
    let end = session.run(header, &done, Some(&mut writer), &mut progress)?;
    drop((progress, writer));
    finish(&directory, end, global)
}

/// Runs the session as a rank that keeps no record.
fn follow(
    mpi: &Mpi,
    session: &Session<'_>,
    header: &Header,
    old: Option<Record>,
) -> anyhow::Result<ExitCode> {
    ranks::guard(mpi, session.settings.deadline, None, header)?;
    if old.as_ref().is_some_and(complete) {
        return Ok(ExitCode::SUCCESS);
    }
    let done = old.map(|old| old.outcomes).unwrap_or_default();
    let broken = Cell::new(false);
    let mut watcher = Follower { broken: &broken };
    let end = session.run(header, &done, None, &mut watcher)?;
    Ok(ExitCode::from(match (end, broken.get()) {
        (End::Interrupted, _) => exit::INTERRUPTED,
        (End::Complete, true) => exit::FAILED,
        (End::Complete, false) => 0,
    }))
}

/// Says nothing, and remembers whether anything broke: every rank ends with the same exit code.
struct Follower<'f> {
    broken: &'f Cell<bool>,
}

impl Watcher for Follower<'_> {
    fn starts(&mut self, _: usize, _: usize, _: &Case) {}

    fn ended(&mut self, outcome: &Outcome) {
        if is_broken(outcome) {
            self.broken.set(true);
        }
    }
}

fn is_broken(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed { .. } | Outcome::Invalid { .. })
}

fn complete(record: &Record) -> bool {
    record.outcomes.len() == record.header.plan.len() && record.footer.is_some()
}

/// The plan's arguments, which a resumed run takes from its record.
fn plan_of(args: &RunArgs, old: Option<&Record>) -> plan::PlanArgs {
    let mut plan = args.plan.clone();
    if let Some(old) = old {
        plan.ranks = old.header.plan.iter().find_map(|case| match &case.point {
            Point::Collective(point) => Some(point.ranks),
            _ => None,
        });
        let device = &old.header.device;
        if device::BACKENDS.iter().any(|backend| backend.name() == device.backend) {
            plan.device.get_or_insert_with(|| format!("{}:{}", device.backend, device.ordinal));
        }
    }
    plan
}

/// Watches for the ends that come from outside: a flag that SIGINT and SIGTERM set, of which the
/// second ends the program at once.
fn watch_signals() -> anyhow::Result<Arc<AtomicBool>> {
    use signal_hook::{consts, flag};
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [consts::SIGINT, consts::SIGTERM] {
        let status = i32::from(exit::INTERRUPTED);
        flag::register_conditional_shutdown(signal, status, Arc::clone(&interrupted))
            .and_then(|_| flag::register(signal, Arc::clone(&interrupted)))
            .context("cannot watch for Ctrl-C")?;
    }
    // A limit on the size of files then is an error of the write like a full disk, not a death.
    flag::register(consts::SIGXFSZ, Arc::default()).context("cannot watch for SIGXFSZ")?;
    Ok(interrupted)
}

/// The header of a new run.
fn started(plan: plan::Plan, args: &RunArgs) -> Header {
    Header {
        version: VERSION,
        run: run_id(),
        fizeau: env!("CARGO_PKG_VERSION").into(),
        started: clock::utc_now(),
        label: args.label.clone(),
        suite: plan.suite.name,
        suite_text: plan.suite_text,
        selectors: args.plan.selectors.clone(),
        device: Default::default(),
        part: None,
        environment: Default::default(),
        timer: Default::default(),
        plan: plan.cases,
    }
}

/// The header of a run that goes on, and how long it samples: as its record says, unless the
/// command line names a suite, which then has to be the same one.
fn resumed(
    args: &RunArgs,
    old: &Header,
    catalogue: &crate::data::Catalogue,
) -> anyhow::Result<(Header, MeasureSettings)> {
    let mut header = old.clone();
    header.started = clock::utc_now();
    header.fizeau = env!("CARGO_PKG_VERSION").into();
    let suite = match &args.plan.suite {
        Some(name) => {
            let (suite, text) = catalogue.suite(name)?;
            (header.suite, header.suite_text) = (suite.name.clone(), text);
            suite
        }
        None => toml::from_str::<Suite>(&old.suite_text)
            .context("the suite in the record cannot be read")?,
    };
    Ok((header, suite.measure))
}

/// Sixteen random hexadecimal digits.
fn run_id() -> String {
    use std::hash::{BuildHasher, Hasher};
    let hasher = std::collections::hash_map::RandomState::new().build_hasher();
    format!("{:016x}", hasher.finish())
}

/// Fills in what the machine is now.
fn describe(header: &mut Header, device: &dyn Device, args: &RunArgs) {
    header.device = device.properties().clone();
    header.timer = clock::calibrate();
    header.environment = device::host::environment();
    device.describe(&mut header.environment);
    if args.no_host_name {
        header.environment.host = None;
    }
}

/// A directory that no run has used, named by time and suite.
fn new_directory(header: &Header) -> PathBuf {
    let name: String = format!("{}-{}", header.started.replace(':', ""), header.suite)
        .chars()
        .map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' })
        .collect();
    let first = Path::new(LOCAL).join(&name);
    let later = (2..).map(|number| Path::new(LOCAL).join(format!("{name}-{number}")));
    std::iter::once(first.clone()).chain(later).find(|path| !path.exists()).unwrap_or(first)
}

/// Writes the reports of a record, prints the terminal's, and says how the run ended.
fn finish(directory: &Path, end: End, global: &Global) -> anyhow::Result<ExitCode> {
    let record = store::read(directory)?;
    let written = report::write_all(directory, &record);
    let document = crate::report::run(&record);
    let format = if global.json { ReportFormat::Json } else { ReportFormat::Terminal };
    let mut text = report::render(&document, format, report::window(global))?;
    if !global.json {
        text += &format!("\nrecord: {}\n", directory.join(store::FILE).display());
        for path in written.as_deref().unwrap_or_default() {
            text += &format!("report: {}\n", path.display());
        }
    }
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    // The record is what counts; a report can be made again from it.
    written.with_context(|| {
        let record = directory.join(store::FILE).display().to_string();
        format!("the record {record} is whole, but its reports could not be written")
    })?;
    if end == End::Interrupted {
        let (kept, planned) = (record.outcomes.len(), record.header.plan.len());
        let directory = directory.display();
        let mut err = io::stderr().lock();
        // Nowhere is left to say that standard error is gone.
        let _ = writeln!(
            err,
            "fizeau: interrupted; {kept} of {planned} cases are kept. Go on with `fizeau run \
             --resume {directory}`"
        );
        return Ok(ExitCode::from(exit::INTERRUPTED));
    }
    Ok(ExitCode::from(if record.outcomes.iter().any(is_broken) { exit::FAILED } else { 0 }))
}
