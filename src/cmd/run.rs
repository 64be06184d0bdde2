//! `fizeau run`: measure, record, report.

use super::{
    Global, exit, plan,
    report::{self, ReportFormat},
};
use crate::{
    bench::Rank,
    case::Case,
    device::{self, Device},
    measure::clock,
    outcome::Outcome,
    record::{
        Header, Record,
        current::VERSION,
        store::{self, Writer},
    },
    session::{End, Session, Watcher},
};
use anyhow::Context;
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
};

/// Arguments of `run`.
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    /// What to measure.
    #[command(flatten)]
    pub plan: plan::PlanArgs,
    /// Where the record and the reports go [default: results/local/<time>-<suite>]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Go on with the run in this directory that was killed or interrupted
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["out", "suite", "selectors", "ranks"]
    )]
    pub resume: Option<PathBuf>,
    /// Leave the host's name out of the record
    #[arg(long)]
    pub no_host_name: bool,
}

/// Measures.
pub fn run(args: &RunArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let interrupted = watch_signals()?;
    let old = args.resume.as_deref().map(store::read).transpose()?;
    let plan_args = plan_of(args, old.as_ref());
    let catalogue = plan::catalogue(global)?;
    let device = plan::open(&plan_args.backend)?;
    let peers = plan::world(&plan_args, device.as_ref())?;
    let rank = Rank { device: device.as_ref(), peers: peers.as_ref() };

    let (mut header, settings) = match &old {
        Some(old) => {
            let suite = toml::from_str::<crate::suite::Suite>(&old.header.suite_text);
            (old.header.clone(), suite.context("the record's suite cannot be read")?.measure)
        }
        None => {
            let plan = plan::Plan::new(&plan_args, &catalogue, rank)?;
            let settings = plan.suite.measure;
            (header_of(plan, &plan_args), settings)
        }
    };
    describe(&mut header, device.as_ref(), args, old.is_some())?;
    header.part = catalogue.part_of(device.properties()).map(|part| part.id.clone());

    let directory = args.resume.clone().or_else(|| args.out.clone()).unwrap_or_else(|| {
        let name = format!("{}-{}", header.started.replace(':', ""), header.suite);
        Path::new("results/local").join(name)
    });
    let (mut writer, done) = match &old {
        Some(old) => {
            store::same_run(&directory.join(store::FILE), &old.header, &header)?;
            let (mut writer, record) = Writer::resume(&directory)?;
            writer.append(&crate::record::Line::Header(Box::new(header.clone())))?;
            (writer, record.outcomes)
        }
        None => (Writer::create(&directory, &header)?, Vec::new()),
    };

    let session = Session {
        rank,
        part: catalogue.part_of(device.properties()),
        settings,
        interrupted: &interrupted,
        memory_free: header.environment.memory_free,
    };
    let mut progress = Progress::new(header.plan.len() - done.len());
    let end = session.run(&header, &done, &mut writer, &mut progress)?;
    progress.bar.finish_and_clear();
    drop(writer);
    finish(&directory, end, global)
}

/// The plan's arguments, which a resumed run takes from its record.
fn plan_of(args: &RunArgs, old: Option<&Record>) -> plan::PlanArgs {
    let mut plan = args.plan.clone();
    if let Some(old) = old {
        plan.selectors.clone_from(&old.header.selectors);
        plan.ranks = old.header.plan.iter().find_map(|case| match &case.point {
            crate::case::Point::Collective(point) => Some(point.ranks),
            _ => None,
        });
    }
    plan
}

/// A flag that SIGINT and SIGTERM set; the second one ends the program at once.
fn watch_signals() -> anyhow::Result<Arc<AtomicBool>> {
    use signal_hook::{consts, flag};
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [consts::SIGINT, consts::SIGTERM] {
        flag::register_conditional_shutdown(
            signal,
            i32::from(exit::INTERRUPTED),
            Arc::clone(&flag),
        )
        .and_then(|_| flag::register(signal, Arc::clone(&flag)))
        .context("cannot watch for Ctrl-C")?;
    }
    Ok(flag)
}

fn header_of(plan: plan::Plan, args: &plan::PlanArgs) -> Header {
    Header {
        version: VERSION,
        run: run_id(),
        fizeau: env!("CARGO_PKG_VERSION").into(),
        started: clock::utc_now(),
        suite: plan.suite.name,
        suite_text: plan.suite_text,
        selectors: args.selectors.clone(),
        device: Default::default(),
        part: None,
        environment: Default::default(),
        timer: Default::default(),
        plan: plan.cases,
    }
}

/// Sixteen random hexadecimal digits.
fn run_id() -> String {
    use std::hash::{BuildHasher, Hasher};
    let hasher = std::collections::hash_map::RandomState::new().build_hasher();
    format!("{:016x}", hasher.finish())
}

/// Fills in what the machine is now.
fn describe(
    header: &mut Header,
    device: &dyn Device,
    args: &RunArgs,
    resumed: bool,
) -> anyhow::Result<()> {
    if resumed {
        header.started = clock::utc_now();
    }
    header.device = device.properties().clone();
    header.timer = clock::calibrate();
    header.environment = device::host::environment();
    if args.no_host_name {
        header.environment.host = None;
    }
    Ok(())
}

/// Writes the reports of a record, prints the terminal's, and says how it ended.
fn finish(directory: &Path, end: End, global: &Global) -> anyhow::Result<ExitCode> {
    let record = store::read(directory)?;
    let written = super::report::write_all(directory, &record);
    let document = crate::report::run(&record);
    let mut out = io::stdout().lock();
    if global.json {
        writeln!(
            out,
            "{}",
            report::render(&document, ReportFormat::Json, report::window(global))?
        )?;
    } else {
        let text = report::render(&document, ReportFormat::Terminal, report::window(global))?;
        writeln!(out, "{text}\nrecord: {}", directory.join(store::FILE).display())?;
        for path in written.as_deref().unwrap_or_default() {
            writeln!(out, "report: {}", path.display())?;
        }
    }
    out.flush()?;
    // The record is what counts; a report can be made again from it.
    written.context("the record is whole, but its reports could not be written")?;
    let broken = record
        .outcomes
        .iter()
        .any(|outcome| matches!(outcome, Outcome::Failed { .. } | Outcome::Invalid { .. }));
    Ok(match end {
        End::Interrupted => ExitCode::from(exit::INTERRUPTED),
        End::Complete if broken => ExitCode::from(exit::FAILED),
        End::Complete => ExitCode::SUCCESS,
    })
}

/// One line on standard error, drawn between cases only; nothing where it is no terminal.
struct Progress {
    bar: ProgressBar,
}

impl Progress {
    fn new(cases: usize) -> Progress {
        let target = if io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let style = ProgressStyle::with_template("{pos}/{len} {elapsed} {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(Some(cases as u64), target).with_style(style);
        Progress { bar }
    }
}

impl Watcher for Progress {
    fn starts(&mut self, place: usize, _of: usize, case: &Case) {
        self.bar.set_position(place as u64);
        self.bar.set_message(case.to_string());
        self.bar.tick();
    }

    fn ended(&mut self, outcome: &Outcome) {
        let id = outcome.case();
        self.bar.println(match outcome {
            Outcome::Measured(measurement) => format!("{id}  {}", measurement.summary.median),
            Outcome::Skipped { reason, .. } => format!("{id}  skipped: {reason}"),
            Outcome::Failed { error, .. } => format!("{id}  FAILED: {error}"),
            Outcome::Invalid { reason, .. } => format!("{id}  INVALID: {reason}"),
        });
    }
}
