//! Measures, keeps a record and writes reports: for `fizeau run`, and for verbs that tell something
//! else of the record.

pub mod args;
mod frontier;
mod quiet;
mod side_by_side;
mod turns;

use super::{
    disk,
    document::{self, ReportFormat},
    estimate,
    exit::{self, Usage},
    global::Global,
    gpu_state,
    output::{self, shown},
    parent, plan,
    progress::Progress,
    records::{self, gpus},
    signals,
    user_kernels::{self, InChild, Processes, Starter},
};
use crate::{
    data::Catalogue,
    kernels,
    session::{self, Apart, End, Session, tuner::Choices},
    world::{self, Choice, HostName, Joined, KeptRecord, Link, Seat, Seats, Terms, choice, memory},
};
use anyhow::Context;
use args::RunArgs;
use fizeau_bench::Rank;
use fizeau_comm::synchronised_device::SynchronisedDevice;
use fizeau_device::{self as device, Device, Identity, clock};
use fizeau_domain::{
    case::{Case, Point},
    node_state::Board,
    outcome::Outcome,
    spec::{Properties, Yardstick},
    suite::{MeasureSettings, Suite},
    units::{Bytes, Seconds},
};
use fizeau_record::{
    Header, Record,
    store::{self, RecordError, Writer},
};
use fizeau_report::about;
use std::{
    cell::Cell,
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
};
use turns::Turns;

/// A run that has ended, for whoever tells of it.
pub struct Ended<'e> {
    /// Its record.
    pub record: &'e Record,
    /// Where it lies.
    pub directory: &'e Path,
}

/// What is printed at the end of a run.
pub type Tell<'t> = &'t (dyn Fn(Ended<'_>) -> anyhow::Result<String> + Sync);

/// Measures, and prints at its end what another verb tells of the record; `None`: the run's own
/// summary.
pub fn run_and_tell(
    args: &RunArgs,
    global: &Global,
    tell: Option<Tell<'_>>,
) -> anyhow::Result<ExitCode> {
    device::numa::read_below(&args.root);
    if let Some(directory) = args.resume.as_deref().filter(|path| gpus::is_run(path)) {
        return side_by_side::resume(args, global, directory);
    }
    if let Some(suite) = frontier::asked_for(args, global)? {
        user_kernels::refuse(&args.plan, "a ladder of limits")?;
        return frontier::run(args, global, &suite);
    }
    if let Some(names) = args.plan.choice().several()? {
        refuse_resuming_one(args)?;
        user_kernels::refuse(&args.plan, "several devices")?;
        return side_by_side::run(args, global, &names);
    }
    let interrupted = signals::watch()?;
    let catalogue = plan::catalogue(global)?;
    let old = args.resume.as_deref().map(store::read).transpose()?;
    let plan_args = plan_of(args, old.as_ref());
    let choice = plan_args.choice();
    let (catalogue, interrupted) = (&catalogue, &interrupted);
    let choices = args.choices()?;
    let run = Run { args, global, catalogue, interrupted, old, plan_args, choice, choices, tell };
    Seats::of(&run.choice)?.run(|| run.alone(), |seat| run.one_of_many(seat))
}

/// Refuses to continue the record of one device with several.
fn refuse_resuming_one(args: &RunArgs) -> Result<(), Usage> {
    let Some(directory) = &args.resume else { return Ok(()) };
    let directory = shown(directory);
    Err(Usage(format!("{directory} is not a run of several devices: leave out --device")))
}

/// What all ranks of this process have in common.
struct Run<'r> {
    args: &'r RunArgs,
    global: &'r Global,
    catalogue: &'r Catalogue,
    interrupted: &'r Arc<AtomicBool>,
    old: Option<Record>,
    plan_args: plan::PlanArgs,
    choice: Choice,
    choices: Choices,
    tell: Option<Tell<'r>>,
}

impl Run<'_> {
    fn alone(&self) -> anyhow::Result<ExitCode> {
        let name = self.choice.device()?;
        let kernels = &self.plan_args.kernel;
        if self.brings_kernels() {
            user_kernels::check(&self.plan_args, &name, self.global)?;
        }
        let starter = self.brings_kernels().then(|| Starter::new(self.interrupted));
        let device = user_kernels::open(&name, kernels)?;
        if let Some(does) = self.args.in_child {
            let deadline = deadline_of(self.args, self.old.as_ref(), self.catalogue)?;
            user_kernels::watch(device.as_ref(), deadline);
            if does == InChild::Load {
                user_kernels::load(device.as_ref())?;
                return Ok(ExitCode::from(user_kernels::LOADED));
            }
        }
        let peers = self.choice.peers(device.as_ref())?;
        let rank = Rank { device: device.as_ref(), peers: peers.as_ref() };
        let (header, settings) = self.header(rank)?;
        plan::say_if_host_was_chosen("the host is measured", &self.choice, device.as_ref());
        device.set_deadline(settings.deadline);
        let memory_free = header.environment.memory_free;
        let session = self.session(rank, settings, memory_free);
        self.keep(&session, &header, None, starter)
    }

    /// Whether the user brings kernels, which are measured by processes that this one starts.
    fn brings_kernels(&self) -> bool {
        !self.plan_args.kernel.is_empty() && self.args.in_child.is_none()
    }

    fn one_of_many(&self, seat: Seat) -> anyhow::Result<ExitCode> {
        user_kernels::refuse(&self.args.plan, "ranks")?;
        let terms = Terms {
            choice: &self.choice,
            host_name: if self.args.no_host_name { HostName::LeftOut } else { HostName::Told },
            deadline: deadline_of(self.args, self.old.as_ref(), self.catalogue)?,
            interrupted: self.interrupted,
            ending: exit::ENDING,
        };
        world::attend(seat, terms, |joined| self.joined(joined))
    }

    /// What ranks do that have joined.
    fn joined(
        &self,
        Joined { link, device, roster, record }: Joined<'_>,
    ) -> anyhow::Result<ExitCode> {
        let device = SynchronisedDevice::new(device, link.peers());
        let rank = Rank { device: &device, peers: link.peers() };
        let (mut header, settings) = world::settle(link, self.header(rank))?;
        header.environment.libraries.push(link.version());
        header.environment.warnings.extend(roster.warnings.iter().cloned());
        header.environment.ranks = roster.lines();
        header.environment.network = roster.network();
        let memory_free = memory::allowed(link, roster, header.environment.memory_free)?;
        let mut session = self.session(rank, settings, memory_free);
        session.yardstick.network = header.environment.network;
        match link.rank() {
            0 => self.keep(&session, &header, Some((link, record)), None),
            _ => self.follow(&session, &header, link),
        }
    }

    fn session<'s>(
        &'s self,
        rank: Rank<'s>,
        settings: MeasureSettings,
        memory_free: Option<Bytes>,
    ) -> Session<'s> {
        let yardstick = self.yardstick(rank);
        let spent = self.old.as_ref().map_or(Seconds(0.0), spent);
        let (interrupted, choices) = (self.interrupted, self.choices.clone());
        let apart = None;
        Session { rank, yardstick, settings, interrupted, memory_free, spent, apart, choices }
    }

    /// What times are set against, as far as one rank alone can tell.
    fn yardstick(&self, rank: Rank<'_>) -> Yardstick {
        let mut yardstick = self.catalogue.yardstick(rank.device.properties());
        let reports = rank.device.capabilities().reports;
        yardstick.links_up = reports.and_then(|reports| reports.identity().links);
        yardstick
    }

    /// The header of this run, new or resumed, and how long it samples.
    fn header(&self, rank: Rank<'_>) -> anyhow::Result<(Header, MeasureSettings)> {
        let (mut header, settings) = match &self.old {
            Some(old) => resumed(self.args, &old.header, self.catalogue)?,
            None => {
                let mut plan = plan::Plan::new(&self.plan_args, self.catalogue, rank)?;
                if self.args.side_by_side.is_some() {
                    turns::arrange(&mut plan.cases);
                }
                let settings = plan.suite.measure;
                (started(plan, self.args), settings)
            }
        };
        header.build = Some(env!("FIZEAU_BUILD").into());
        header.command = self.args.command(self.global);
        describe(&mut header, rank.device, self.args);
        header.user_kernels =
            rank.device.user_files().iter().map(|file| file.told.clone()).collect();
        header.environment.side_by_side = self.args.side_by_side.clone().unwrap_or_default();
        let environment = &mut header.environment;
        if choice::is_host(&header.device.backend) && rank.peers.processes() == 1 {
            environment.warnings.extend(crowded(&header.plan, environment.cpus));
        }
        let yardstick = self.yardstick(rank);
        let uses_links = |case: &Case| {
            matches!(&case.point, Point::Collective(_))
                || matches!(&case.point, Point::Transfer(of) if !of.transfer.with_host())
        };
        if header.plan.iter().any(uses_links) {
            header.environment.warnings.extend(yardstick.caution());
        }
        header.environment.warnings.extend(yardstick.unconfirmed(&header.device));
        header.part = yardstick.part.map(|part| part.id);
        Ok((header, settings))
    }

    /// Runs the session, keeps its record and writes its reports.
    fn keep(
        &self,
        session: &Session<'_>,
        header: &Header,
        link: Option<(&Link<'_>, &KeptRecord)>,
        starter: Option<Starter>,
    ) -> anyhow::Result<ExitCode> {
        let begun = self.begin(header);
        let begun = match link {
            Some((link, _)) => world::settle(link, begun)?,
            None => begun?,
        };
        let Begun { directory, writer } = begun;
        let Some((mut writer, done)) = writer else {
            output::say(&format!(
                "nothing is left to measure: {} has an outcome of every planned case",
                shown(&directory)
            ));
            return self.finish(&directory, End::Complete);
        };
        if let Some((_, kept)) = link {
            kept.in_directory(&directory, header);
        }
        signals::can_continue(&directory);
        let left = self.estimates(session, header, &done);
        if self.args.side_by_side.is_some() {
            let mut turns = Turns::new(left.len(), self.interrupted);
            let end = session.run(header, &done, Some(&mut writer), &mut turns)?;
            return quiet::finish(&directory, end);
        }
        // The process that started this one reads the record, and makes the reports.
        if self.args.in_child.is_some() {
            return quiet::run(session, header, &done, Some(&mut writer));
        }
        let processes = |starter| self.processes(starter, session, header, &directory);
        let apart = starter.map(processes).transpose()?;
        let apart = apart.as_ref().map(|apart| apart as &dyn Apart);
        let (yardstick, choices) = (session.yardstick.clone(), session.choices.clone());
        let session = Session { apart, yardstick, choices, ..*session };
        let mut progress = Progress::new(header, left, self.global.progress);
        let end = session.run(header, &done, Some(&mut writer), &mut progress)?;
        drop((progress, writer));
        self.finish(&directory, end)
    }

    /// What measures the cases of the user's kernels.
    fn processes<'s>(
        &'s self,
        starter: Starter,
        session: &Session<'_>,
        header: &Header,
        directory: &Path,
    ) -> anyhow::Result<Processes<'s>> {
        Ok(Processes {
            starter,
            no_host_name: self.args.no_host_name,
            global: self.global,
            device: self.choice.device()?,
            kernels: self.plan_args.kernel.clone(),
            told: header.user_kernels.clone(),
            suite_text: header.suite_text.clone(),
            directory: directory.to_owned(),
            deadline: session.settings.deadline,
            interrupted: self.interrupted,
            made: Cell::new(0),
        })
    }

    /// About how long each case takes that is not done.
    fn estimates<'h>(
        &self,
        session: &Session<'_>,
        header: &'h Header,
        done: &[Outcome],
    ) -> HashMap<&'h Case, Seconds> {
        let properties = session.rank.device.properties();
        let part = self.catalogue.part_of(properties);
        let times = estimate::all(&header.plan, properties, part, &session.settings);
        let done: HashSet<&Case> = done.iter().map(Outcome::case).collect();
        header.plan.iter().zip(times).filter(|(case, _)| !done.contains(case)).collect()
    }

    /// Begins the record, or continues it.
    fn begin(&self, header: &Header) -> anyhow::Result<Begun> {
        let args = self.args;
        let directory = match args.resume.as_ref().or(args.out.as_ref()) {
            Some(directory) => directory.clone(),
            None => disk::new_directory(&header.started, &header.suite),
        };
        let Some(old) = &self.old else {
            let writer = Writer::create(&directory, header)?;
            return Ok(Begun { directory, writer: Some((writer, Vec::new())) });
        };
        store::same_run(&directory.join(store::FILE), &old.header, header)?;
        if records::complete(old) {
            return Ok(Begun { directory, writer: None });
        }
        let (writer, record) = Writer::resume(&directory, header)?;
        Ok(Begun { directory, writer: Some((writer, record.outcomes)) })
    }

    /// Runs the session as a rank that keeps no record.
    fn follow(
        &self,
        session: &Session<'_>,
        header: &Header,
        link: &Link<'_>,
    ) -> anyhow::Result<ExitCode> {
        world::settle(link, Ok(()))?;
        if self.old.as_ref().is_some_and(records::complete) {
            return Ok(ExitCode::SUCCESS);
        }
        let done = self.old.as_ref().map(|old| old.outcomes.clone()).unwrap_or_default();
        quiet::run(session, header, &done, None)
    }

    /// Writes the reports of a record, prints the terminal's, and says how the run ended.
    fn finish(&self, directory: &Path, end: End) -> anyhow::Result<ExitCode> {
        let record = store::read(directory).map_err(|error| Self::lost(directory, error))?;
        let written = document::write_all(directory, &record);
        output::write_out(&match self.tell {
            Some(tell) => tell(Ended { record: &record, directory })?,
            None => self.said_at_the_end(directory, &record, written.as_deref().ok())?,
        })?;
        // The record is what counts; a report can be made again from it.
        written.with_context(|| {
            let record = directory.join(store::FILE).display().to_string();
            format!("the record {record} is whole, but its reports could not be written")
        })?;
        if end == End::Interrupted {
            let (kept, planned) = (record.outcomes.len(), record.header.plan.len());
            let directory = directory.display();
            output::say(&format!(
                "interrupted; {kept} of {planned} cases are kept. To continue: `fizeau run \
                 --resume {directory}`"
            ));
            return Ok(ExitCode::from(exit::INTERRUPTED));
        }
        Ok(ExitCode::from(if records::has_broken(&record) { exit::FAILED } else { 0 }))
    }

    /// An error of reading the record that was just written: where its directory is gone, so are
    /// the results.
    fn lost(directory: &Path, error: RecordError) -> anyhow::Error {
        match directory.join(store::FILE).exists() {
            true => error.into(),
            false => anyhow::anyhow!(
                "{} was removed or renamed while the run wrote to it: its results are lost unless \
                 the directory is still there under another name",
                shown(directory)
            ),
        }
    }

    /// What a run prints at its end: about twenty lines, or with `--full` all tables; with
    /// `--json` the whole report.
    fn said_at_the_end(
        &self,
        directory: &Path,
        record: &Record,
        written: Option<&[PathBuf]>,
    ) -> anyhow::Result<String> {
        let about = about::of_run(record);
        let window = document::window(self.global);
        if self.global.json {
            let document = fizeau_report::run(record);
            return document::render_about(&document, &about, ReportFormat::Json, window);
        }
        let document = match self.args.full {
            true => fizeau_report::run(record),
            false => fizeau_report::brief(record),
        };
        let mut text = document::render(&document, ReportFormat::Terminal, window)?;
        text += &format!("\nrecord: {}\n", shown(&directory.join(store::FILE)));
        for path in written.unwrap_or_default() {
            text += &format!("report: {}\n", shown(path));
        }
        if !self.args.full {
            text += &format!("tables: fizeau report {}\n", shown(directory));
        }
        Ok(text)
    }
}

/// A record that is kept from now on.
struct Begun {
    directory: PathBuf,
    /// None where it is complete; with what it has already.
    writer: Option<(Writer, Vec<Outcome>)>,
}

/// Time that the sessions of a run took before, as far as they ended in order.
// Inlined, the compiler looks at the footer before it knows that there is a record, which is right
// whatever it finds there and yet a fault to memory checkers.
#[inline(never)]
fn spent(old: &Record) -> Seconds {
    old.footer.as_ref().map_or(Seconds(0.0), |footer| footer.elapsed)
}

/// The plan's arguments, which a resumed run takes from its record.
fn plan_of(args: &RunArgs, old: Option<&Record>) -> plan::PlanArgs {
    let mut plan = args.plan.clone();
    if let Some(old) = old {
        plan.ranks = old.header.plan.iter().find_map(|case| match &case.point {
            Point::Collective(point) => Some(point.ranks),
            _ => None,
        });
        plan.kernel = user_kernels::paths(&old.header);
        let device = &old.header.device;
        let ranks = old.header.environment.ranks.len() as u32;
        if ranks > 1 && !choice::is_host(&device.backend) {
            plan.ranks = Some(ranks);
        }
        if device::BACKENDS.iter().any(|backend| backend.name() == device.backend) {
            plan.device.get_or_insert_with(|| device_of(&old.header));
        }
    }
    plan
}

/// The device of a run that was begun: the one that it had, or where its ranks had one each, their
/// backend, of which each rank takes its own by its place as it did before.
fn device_of(header: &Header) -> String {
    let Properties { backend, ordinal, .. } = &header.device;
    let own = format!("{backend}:{ordinal}");
    let on_it = |line: &&String| line.contains(&format!(", {own} ("));
    match header.environment.ranks.iter().all(|line| on_it(&line)) {
        true => own,
        false => backend.clone(),
    }
}

/// Longest wait for a collective, as the suite has it: what `launch` allows its ranks too.
///
/// # Errors
/// Where the suite is unknown or the record cannot be read.
pub fn deadline(args: &RunArgs, global: &Global) -> anyhow::Result<Seconds> {
    let old = args.resume.as_deref().map(store::read).transpose()?;
    deadline_of(args, old.as_ref(), &plan::catalogue(global)?)
}

fn deadline_of(
    args: &RunArgs,
    old: Option<&Record>,
    catalogue: &Catalogue,
) -> anyhow::Result<Seconds> {
    let settings = match old {
        Some(old) => resumed(args, &old.header, catalogue)?.1,
        None => {
            let found = catalogue.suite(plan_of(args, None).suite()?);
            found.map_err(|error| Usage(error.to_string()))?.0.measure
        }
    };
    Ok(settings.deadline)
}

/// The header of a new run.
fn started(plan: plan::Plan, args: &RunArgs) -> Header {
    Header {
        run: run_id(),
        fizeau: env!("CARGO_PKG_VERSION").into(),
        build: None,
        command: Vec::new(),
        started: clock::utc_now(),
        label: args.label.clone(),
        suite: plan.suite.name,
        suite_text: plan.suite_text,
        selectors: args.plan.selectors.clone(),
        suite_cases: Some(plan.suite_cases as u64),
        user_kernels: Vec::new(),
        device: Default::default(),
        part: None,
        environment: Default::default(),
        timer: Default::default(),
        plan: plan.cases,
    }
}

/// The header of a run that is continued, and how long it samples: as its record says, unless the
/// command line names a suite, which then has to be the same one.
fn resumed(
    args: &RunArgs,
    old: &Header,
    catalogue: &Catalogue,
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
        None => Suite::parse(&old.suite_text)
            .map_err(anyhow::Error::msg)
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
    let Identity { uuid, pci, .. } = device.identity();
    header.environment.board = Board::of(uuid.filter(|_| !args.no_host_name), pci);
    let (quota, cpus) = (header.environment.cpu_quota, header.environment.cpus);
    header.environment.warnings.extend(device::host::quota_words(quota, cpus));
    if choice::is_host(&header.device.backend) {
        // First, and so the last that a summary names: they spoil no figure.
        header.environment.warnings.splice(0..0, choice::unused_drivers());
    }
    let Properties { backend, ordinal, .. } = device.properties();
    // Of repeats the acceptance that starts them says it.
    let is_repeat = std::env::var_os(parent::LAUNCHER).is_some() && args.side_by_side.is_none();
    if !choice::is_host(backend) && !is_repeat {
        header.environment.warnings.extend(gpu_state::of_one(&args.root, backend, *ordinal));
    }
    header.environment.warnings.extend(session::planted::words());
    header.environment.warnings.extend(kernels::words());
    if args.no_host_name {
        header.environment.host = None;
    }
}

/// What to know where ranks that are threads outnumber the CPUs.
fn crowded(plan: &[Case], cpus: u32) -> Option<String> {
    let ranks = plan.iter().filter_map(|case| match &case.point {
        Point::Collective(point) => Some(point.ranks),
        _ => None,
    });
    let ranks = ranks.max().filter(|ranks| *ranks > cpus && cpus > 0)?;
    Some(format!(
        "{ranks} ranks share {cpus} CPUs and wait for each other: collectives show the scheduler, \
         not what the machine can do"
    ))
}
