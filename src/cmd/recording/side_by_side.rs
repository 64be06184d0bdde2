//! `fizeau run --device all`: one process for each GPU, each with a record of its own, and a report
//! that sets them beside each other.
//!
//! A process of its own for each GPU costs a start, and keeps the others' results where a driver
//! or a GPU dies. All processes measure at once what each GPU has for itself. Once all are done
//! with that, each gets its turn with what they share ([`super::turns`]).

use super::{args::RunArgs, turns::Told};
use crate::cmd::{
    disk,
    document::{self, ReportFormat},
    exit::{self, Usage},
    global::Global,
    output::{self, say, shown},
    parent,
    plan::{self, PlanArgs},
    records::{self, gpus},
    signals::{self, Request, Requests},
};
use anyhow::{Context, bail};
use fizeau_device::clock::{self, Moment};
use fizeau_domain::{
    launcher,
    text::{agreed, counted},
    units::Seconds,
};
use fizeau_record::{Record, store};
use std::{
    collections::{HashSet, VecDeque},
    fs,
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{ChildStdin, Command, ExitCode, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread,
    time::Duration,
};

/// Last lines of a process's messages that are kept for [`FAILURE`].
const WORDS_KEPT: usize = 8;

/// The suite's text, for GPUs that left no record when a run is continued.
const SUITE: &str = "suite.toml";

/// Polling interval of signals, while nothing is told.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Shortest time between two lines of progress.
const PROGRESS_EVERY: Seconds = Seconds(10.0);

/// Measures several GPUs.
///
/// # Errors
/// Where a run of them is there already, or a process cannot be started.
pub fn run(args: &RunArgs, global: &Global, names: &[String]) -> anyhow::Result<ExitCode> {
    refuse_ranks(args.plan.ranks)?;
    let catalogue = plan::catalogue(global)?;
    // Every GPU takes the suite that it would take alone.
    let of_one = PlanArgs { device: names.first().cloned(), ..args.plan.clone() };
    let suite = of_one.suite()?;
    let (suite, _) = catalogue.suite(suite).map_err(|error| Usage(error.to_string()))?;
    let directory = match &args.out {
        Some(directory) => directory.clone(),
        None => disk::new_directory(&clock::utc_now(), &suite.name),
    };
    let is_record = |path: &Path| path.join(store::FILE).exists();
    let taken = gpus::directories(&directory).into_iter().map(|(_, path)| path);
    if let Some(taken) = taken.chain([directory.clone()]).find(|path| is_record(path)) {
        bail!("{} has a record; continue it by --resume, or choose another --out", shown(&taken));
    }
    let mut starts = Vec::new();
    for name in names {
        let path = directory.join(name.replace(':', "-"));
        disk::make_directory(&path, "--out DIR")?;
        let mut words = of_a_new_run(args, name, &path);
        words.extend(args.plan.suite.iter().flat_map(|suite| ["--suite".into(), suite.clone()]));
        words.push("--".into());
        words.extend(args.plan.selectors.iter().cloned());
        starts.push(Start { name: name.clone(), directory: path, words });
    }
    measure(&directory, starts, names, global)
}

/// Continues a run of several GPUs: those whose plans are not done.
///
/// # Errors
/// Where there is no record to tell what was measured, or a process cannot be started.
pub fn resume(args: &RunArgs, global: &Global, directory: &Path) -> anyhow::Result<ExitCode> {
    refuse_ranks(args.plan.ranks)?;
    let runs = gpus::read(directory)?;
    let names: Vec<String> = runs.iter().map(|run| run.name.clone()).collect();
    let Some(known) = runs.iter().find_map(|run| run.record.as_ref()) else {
        let directory = shown(directory);
        bail!("{directory}: no GPU left a record that could be continued; start the run anew")
    };
    let mut starts = Vec::new();
    for ((name, path), run) in gpus::directories(directory).into_iter().zip(&runs) {
        let words = match &run.record {
            Some(record) if records::complete(record) => continue,
            Some(_) => {
                let mut words = vec!["run".into(), "--resume".into(), path.display().to_string()];
                let suite = args.plan.suite.iter();
                words.extend(suite.flat_map(|suite| ["--suite".into(), suite.clone()]));
                words
            }
            None => of_a_run_without_record(args, known, &name, &path, directory)?,
        };
        starts.push(Start { name, directory: path, words });
    }
    measure(directory, starts, &names, global)
}

/// The command line of a GPU of a new run, without suite and selectors.
fn of_a_new_run(args: &RunArgs, name: &str, directory: &Path) -> Vec<String> {
    let mut words: Vec<String> = ["run", "--device", name, "--out"].map(str::to_owned).to_vec();
    words.push(directory.display().to_string());
    words.extend(args.label.iter().flat_map(|label| ["--label".into(), label.clone()]));
    words.extend(args.no_host_name.then(|| "--no-host-name".into()));
    let choices = args.choices.iter();
    words.extend(choices.flat_map(|path| ["--choices".into(), path.display().to_string()]));
    words
}

/// The command line of a GPU that left no record, by what another's record says of the run.
fn of_a_run_without_record(
    args: &RunArgs,
    known: &Record,
    name: &str,
    path: &Path,
    directory: &Path,
) -> anyhow::Result<Vec<String>> {
    let header = &known.header;
    let suite = directory.join(SUITE);
    disk::write_file(&suite, header.suite_text.as_bytes(), "--out DIR")?;
    let mut words = of_a_new_run(args, name, path);
    words.extend(header.label.iter().flat_map(|label| ["--label".into(), label.clone()]));
    words.extend(["--suite".into(), suite.display().to_string(), "--".into()]);
    words.extend(header.selectors.iter().cloned());
    Ok(words)
}

/// Ranks step through a plan together, and have a verb of their own.
fn refuse_ranks(ranks: Option<u32>) -> anyhow::Result<()> {
    let world = launcher::world(|name| std::env::var(name).ok())?;
    if ranks.is_none() && world.is_none() {
        return Ok(());
    }
    let why = "several devices are measured without ranks: leave out --ranks and the launcher, \
               or measure ranks by `--device cuda --ranks N`";
    Err(Usage(why.into()).into())
}

/// A process that is to be started for a GPU.
struct Start {
    name: String,
    directory: PathBuf,
    words: Vec<String>,
}

/// Starts the processes, waits for them, and reports.
fn measure(
    directory: &Path,
    starts: Vec<Start>,
    names: &[String],
    global: &Global,
) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut signals = signals::caught()?;
    let (tell, events) = mpsc::channel();
    let mut processes = Processes::new(events);
    for start in starts {
        processes.start(&program, start, names, global, &tell)?;
    }
    drop(tell);
    processes.wait(&mut signals)?;
    processes.note_failures()?;
    let code = processes.code();
    if code == exit::USAGE {
        // Nothing was measured: nothing is left behind.
        gpus::directories(directory).iter().for_each(|(_, path)| drop(fs::remove_dir(path)));
        let _ = fs::remove_dir(directory);
        return Ok(ExitCode::from(code));
    }
    finish(directory, code, global)
}

/// Writes and prints the report.
fn finish(directory: &Path, code: u8, global: &Global) -> anyhow::Result<ExitCode> {
    let runs = gpus::read(directory)?;
    let document = fizeau_report::side_by_side(&runs);
    let written = document::write_document(directory, &document);
    let format = if global.json { ReportFormat::Json } else { ReportFormat::Terminal };
    let shown_part = if global.json { document } else { document.summary() };
    let mut text = document::render(&shown_part, format, document::window(global))?;
    if !global.json {
        text += &format!("\nrecords: {}\n", shown(&directory.join("*").join(store::FILE)));
        for path in written.as_deref().unwrap_or_default() {
            text += &format!("report: {}\n", shown(path));
        }
    }
    output::write_out(&text)?;
    written.context("the records are whole, but their report could not be written")?;
    if code == exit::INTERRUPTED {
        let directory = directory.display();
        say(&format!("interrupted; continue with `fizeau run --resume {directory}`"));
    }
    let broken = runs.iter().filter_map(|run| run.record.as_ref()).any(records::has_broken);
    Ok(ExitCode::from(if code == 0 && broken { exit::FAILED } else { code }))
}

/// What comes from a process.
enum Event {
    Told(Told),
    Said(String),
    /// Its standard output has ended, and so has it, or will at once.
    Closed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It measures what its GPU has for itself.
    Alone,
    /// It waits for its turn.
    Waits,
    /// It has its turn.
    Shared,
    Ended,
}

/// The process of one GPU.
struct Process {
    name: String,
    directory: PathBuf,
    child: std::process::Child,
    /// Where it reads that it is its turn. Once this is closed it ends in order.
    turn: Option<ChildStdin>,
    state: State,
    planned: usize,
    ended: usize,
    words: VecDeque<String>,
    status: Option<ExitStatus>,
}

struct Processes {
    all: Vec<Process>,
    events: Receiver<(usize, Event)>,
    /// What was said already: of what all of them say, the first one's is passed on.
    said: HashSet<String>,
    shown: Moment,
    is_interrupted: bool,
}

impl Processes {
    fn new(events: Receiver<(usize, Event)>) -> Processes {
        let (all, said) = (Vec::new(), HashSet::new());
        Processes { all, events, said, shown: clock::now(), is_interrupted: false }
    }

    fn start(
        &mut self,
        program: &Path,
        Start { name, directory, words }: Start,
        names: &[String],
        global: &Global,
        tell: &Sender<(usize, Event)>,
    ) -> anyhow::Result<()> {
        // An earlier session's; where it is not there, that is as well.
        let _ = fs::remove_file(directory.join(gpus::FAILURE));
        let others = names.iter().filter(|other| **other != name).cloned().collect::<Vec<_>>();
        let mut command = Command::new(program);
        command.arg("run").arg(format!("--side-by-side={}", others.join(",")));
        if let Some(data) = &global.data {
            command.arg("--data").arg(data);
        }
        command.args(words.iter().skip(1));
        command.env(parent::LAUNCHER, std::process::id().to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .inspect_err(|_| self.kill())
            .with_context(|| format!("cannot start a process for {name}"))?;
        let place = self.all.len();
        if let Some(out) = child.stdout.take() {
            let tell = tell.clone();
            thread::spawn(move || {
                lines(out, |line| {
                    line.parse().is_ok_and(|told| tell.send((place, Event::Told(told))).is_ok())
                });
                // Where nobody hears it any more, it is not needed.
                let _ = tell.send((place, Event::Closed));
            });
        }
        if let Some(words) = child.stderr.take() {
            let tell = tell.clone();
            let pass_on =
                move |line: &str| tell.send((place, Event::Said(line.to_owned()))).is_ok();
            thread::spawn(move || lines(words, pass_on));
        }
        let turn = child.stdin.take();
        let (state, status, words) = (State::Alone, None, VecDeque::new());
        let (planned, ended) = (0, 0);
        let process =
            Process { name, directory, child, turn, state, planned, ended, words, status };
        self.all.push(process);
        Ok(())
    }

    /// Waits for all, gives each its turn, and hands on requests to end.
    fn wait(&mut self, signals: &mut signal_hook::iterator::Signals) -> anyhow::Result<()> {
        let mut requests = Requests::default();
        loop {
            for _ in signals.pending() {
                match requests.take() {
                    Some(Request::End) => {
                        say("stopping after each GPU's case; ask again (Ctrl-C) to stop now");
                        self.interrupt();
                    }
                    Some(Request::EndNow) => self.kill(),
                    None => {}
                }
            }
            match self.events.recv_timeout(LOOK_EVERY) {
                Ok((place, event)) => self.take(place, event)?,
                Err(RecvTimeoutError::Timeout) => {}
                // All have ended, and all that they said was heard.
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            self.give_turn();
            self.show_progress();
        }
    }

    fn take(&mut self, place: usize, event: Event) -> anyhow::Result<()> {
        let process = &mut self.all[place];
        match event {
            Event::Told(Told::Planned(cases)) => process.planned = cases,
            Event::Told(Told::Ended) => process.ended += 1,
            Event::Told(Told::Waits) => process.state = State::Waits,
            Event::Said(line) => {
                let words = line.strip_prefix("fizeau: ").unwrap_or(&line).to_owned();
                process.words.push_back(words.clone());
                if process.words.len() > WORDS_KEPT {
                    process.words.pop_front();
                }
                let name = process.name.clone();
                if self.said.insert(words.clone()) {
                    say(&format!("{name}: {words}"));
                }
            }
            Event::Closed => {
                process.status = Some(process.child.wait().context("cannot wait for a process")?);
                process.state = State::Ended;
            }
        }
        Ok(())
    }

    /// Once no GPU measures by itself any more, one that waits gets its turn.
    fn give_turn(&mut self) {
        let is_busy = |process: &Process| matches!(process.state, State::Alone | State::Shared);
        if self.is_interrupted || self.all.iter().any(is_busy) {
            return;
        }
        let is_first = !self.all.iter().any(|process| process.turn.is_none());
        let Some(next) = self.all.iter_mut().find(|process| process.state == State::Waits) else {
            return;
        };
        next.state = State::Shared;
        // The closed pipe is no turn: what is written stays to be read. One that has died reads
        // nothing, and its end is told by its output.
        if let Some(mut turn) = next.turn.take() {
            let _ = writeln!(turn).and_then(|()| turn.flush());
        }
        if is_first {
            say("links and launches are measured on one GPU after another");
        }
    }

    fn show_progress(&mut self) {
        if self.shown.elapsed() < PROGRESS_EVERY {
            return;
        }
        self.shown = clock::now();
        let sum = |of: fn(&Process) -> usize| self.all.iter().map(of).sum::<usize>();
        let (ended, planned) = (sum(|process| process.ended), sum(|process| process.planned));
        let running = self.all.iter().filter(|process| process.status.is_none()).count();
        let are = agreed(running, "is", "are");
        say(&format!("{ended} of {planned} cases; {} {are} at work", counted(running, "GPU")));
    }

    /// Asks all to end in order.
    fn interrupt(&mut self) {
        self.is_interrupted = true;
        for process in self.all.iter_mut().filter(|process| process.status.is_none()) {
            process.turn = None;
            signals::hand_on(&process.child);
        }
    }

    fn kill(&mut self) {
        self.is_interrupted = true;
        for process in &mut self.all {
            // One that has ended by itself cannot be killed any more.
            let _ = process.child.kill();
        }
    }

    /// Keeps why a process ended that did not end in order.
    fn note_failures(&self) -> anyhow::Result<()> {
        for process in &self.all {
            let status = process.status.filter(|status| !status.success());
            let Some(status) = status.filter(|status| !is_in_order(*status)) else { continue };
            let words: Vec<String> = process.words.iter().cloned().collect();
            let words = match status.code() {
                Some(_) => words.join("\n"),
                None => {
                    let ended = format!("its process was ended ({status})");
                    say(&format!("{}: {ended}", process.name));
                    [words, vec![ended]].concat().join("\n")
                }
            };
            disk::write_file(
                &process.directory.join(gpus::FAILURE),
                words.as_bytes(),
                "--out DIR",
            )?;
        }
        Ok(())
    }

    /// The worst exit code of all; that of an interruption where there was one.
    fn code(&self) -> u8 {
        let code = |process: &Process| match process.status.and_then(|status| status.code()) {
            Some(code) => u8::try_from(code).unwrap_or(exit::COULD_NOT_RUN),
            None => exit::COULD_NOT_RUN,
        };
        let codes: Vec<u8> = self.all.iter().map(code).collect();
        let order = [exit::INTERRUPTED, exit::USAGE, exit::COULD_NOT_RUN, exit::FAILED];
        let worst = order.into_iter().find(|worst| codes.contains(worst));
        let other = codes.iter().copied().find(|&code| code != 0 && !order.contains(&code));
        other.or(worst).unwrap_or(0)
    }
}

/// Whether a process ended as one does that measured, was interrupted or was called wrongly.
fn is_in_order(status: ExitStatus) -> bool {
    let codes = [exit::FAILED, exit::USAGE, exit::INTERRUPTED].map(i32::from);
    status.code().is_some_and(|code| codes.contains(&code))
}

/// Longest line that is taken whole from a process, in bytes.
const LINE_MAX: u64 = 8 << 10;

/// Hands on each line of a stream until it ends, or nobody wants more.
fn lines(stream: impl Read, mut hand_on: impl FnMut(&str) -> bool) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        match stream.by_ref().take(LINE_MAX).read_until(b'\n', &mut line) {
            Ok(length) if length > 0 => {
                let text = String::from_utf8_lossy(&line);
                // A line that is not understood ends nothing: what comes after it may be.
                let _ = hand_on(text.trim_end());
            }
            _ => return,
        }
    }
}
