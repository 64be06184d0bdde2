//! `--kernel FILE`: kernels that a user brings (docs/your-kernel.md).
//!
//! Their code runs in processes of its own: one that loads each kernel before anything is measured,
//! then one for each case. Whatever such a process comes to is its case's outcome, and no other's.

use super::{
    child::Measuring,
    disk,
    exit::{self, Usage},
    global::Global,
    plan::PlanArgs,
    signals,
};
use crate::{session::Apart, world::choice};
use anyhow::Context as _;
use clap::ValueEnum;
use fizeau_device::{
    Device, DeviceError, clock,
    user::{self, Calls, UserFile},
};
use fizeau_domain::{
    case::{Case, KernelName},
    outcome::{Failure, Outcome},
    text,
    units::Seconds,
};
use fizeau_record::{Header, UserKernels, store};
use std::{
    cell::Cell,
    fs,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread,
};

/// What a process that this program starts does with the user's kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InChild {
    /// Loads each, and says why one cannot be.
    Load,
    /// Measures cases of theirs itself.
    Measure,
}

/// The exit code of such a process where a call into a user's library does not come back, as
/// timeout(1) has it.
const HUNG: u8 = 124;

/// That of one that has loaded every kernel: a library that ends its process has another.
pub const LOADED: u8 = 125;

/// How long a process may stand still because it was stopped: who stops both of them does so at
/// the same moment, but one of them may continue first.
const STOPPED_MAX: Seconds = Seconds(3.0);

/// How often a process is asked whether it has ended, and its calls whether they have.
const EVERY: Seconds = Seconds(0.02);

/// Longest message of a process that is shown, in characters.
const SAID_MAX: usize = 2_000;

/// The folder of such processes in that of the run, while it runs.
const FOLDER: &str = "user-kernels";

/// Opens the device that is measured, with the user's kernels listed.
///
/// # Errors
/// [`Usage`] where a kernel's file or what stands beside it is wrong, or made for other devices.
pub fn open(device: &str, kernels: &[PathBuf]) -> anyhow::Result<Box<dyn Device>> {
    let usage = |why: String| anyhow::Error::from(Usage(why));
    let files: Result<Vec<UserFile>, String> =
        kernels.iter().map(|path| UserFile::read(path)).collect();
    let files = files.map_err(usage)?;
    let device = choice::open(device)?;
    if files.is_empty() {
        return Ok(device);
    }
    let Some(takes) = device.capabilities().user_kernels else {
        return Err(usage("--kernel: this device takes no kernels of a user's".into()));
    };
    takes.take(files).map_err(usage)?;
    Ok(device)
}

/// Refuses kernels of a user's where the processes that run them would have to meet.
///
/// # Errors
/// [`Usage`], where there are some.
pub fn refuse(args: &PlanArgs, what: &str) -> Result<(), Usage> {
    match args.kernel.is_empty() {
        true => Ok(()),
        false => Err(Usage(format!(
            "--kernel is for a run on one device by one process, and not for {what}"
        ))),
    }
}

/// Loads every kernel of the device's user, for the process that is started to do so.
///
/// # Errors
/// [`Usage`] where one cannot be loaded.
pub fn load(device: &dyn Device) -> anyhow::Result<()> {
    for file in device.user_files() {
        for row in &file.section.kernels {
            let loaded = device.load(row.operation, &KernelName(row.name.clone()));
            loaded.map_err(|error| match error {
                DeviceError::Missing { .. } => anyhow::Error::from(error),
                other => Usage(format!("{}: {other}", file.path.display())).into(),
            })?;
        }
    }
    Ok(())
}

/// Ends this process where a call into a user's library takes longer than the deadline.
pub fn watch(device: &dyn Device, deadline: Seconds) {
    let Some(calls) = device.capabilities().user_kernels.and_then(|takes| takes.calls()) else {
        return;
    };
    let (tell, begun) = mpsc::channel();
    thread::spawn(move || wait_for_a_hang(&calls, deadline, &tell));
    // The loader's lock, which a library's initialisers hold, is taken where a thread begins.
    let _ = begun.recv();
}

fn wait_for_a_hang(calls: &Calls, deadline: Seconds, begun: &Sender<()>) -> ! {
    let (mut call, mut since) = (None, clock::now());
    let _ = begun.send(());
    loop {
        clock::rest(EVERY);
        let now = calls.under_way();
        if now != call {
            (call, since) = (now, clock::now());
        } else if call.is_some() && since.elapsed() > deadline {
            user::leave(HUNG);
        }
    }
}

/// Starts processes, on a thread that is pinned to no core: what it starts may use all of them.
pub struct Starter {
    commands: Sender<Command>,
    ended: Receiver<anyhow::Result<ExitStatus>>,
}

impl Starter {
    /// Before a device is opened, which pins the thread that opens it.
    pub fn new(interrupted: &Arc<AtomicBool>) -> Starter {
        let (commands, wanted) = mpsc::channel();
        let (tell, ended) = mpsc::channel();
        let interrupted = Arc::clone(interrupted);
        thread::spawn(move || {
            for command in wanted {
                if tell.send(to_its_end(command, &interrupted)).is_err() {
                    break;
                }
            }
        });
        Starter { commands, ended }
    }

    fn run(&self, command: Command) -> anyhow::Result<ExitStatus> {
        self.commands.send(command).ok().context("the thread that starts processes has ended")?;
        self.ended.recv().context("the thread that starts processes has ended")?
    }
}

/// Loads the kernels in a process, before anything is measured.
///
/// # Errors
/// [`Usage`] where one cannot be loaded, with the reason.
pub fn check(args: &PlanArgs, device: &str, global: &Global) -> anyhow::Result<()> {
    // What the files alone show is said whole, and not in the last words of a process.
    let read = args.kernel.iter().try_for_each(|path| UserFile::read(path).map(drop));
    read.map_err(Usage)?;
    let mut command = command(InChild::Load, args.suite()?, device, &args.kernel, None, global)?;
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let ended = command.output().context("cannot start a process for a user's kernel")?;
    let told = last_words(&ended.stderr);
    let told = told.strip_prefix("fizeau: ").unwrap_or(&told);
    let is = |code: u8| ended.status.code() == Some(i32::from(code));
    match ended.status.code() {
        _ if is(LOADED) => Ok(()),
        Some(0) => {
            let why = "--kernel: a library ended the process that loaded it (exit code 0)";
            Err(Usage(why.into()).into())
        }
        _ if is(exit::USAGE) => Err(Usage(told.into()).into()),
        _ if is(exit::COULD_NOT_RUN) => Err(anyhow::anyhow!("{told}")),
        _ if is(exit::INTERRUPTED) => Err(exit::Interrupted.into()),
        _ if is(HUNG) => {
            let why = "--kernel: a library was not loaded within the suite's deadline";
            Err(Usage(why.into()).into())
        }
        _ => Err(Usage(format!("--kernel: {}", end_of(ended.status, told))).into()),
    }
}

/// Measures the cases of users' kernels in processes of their own.
pub struct Processes<'p> {
    /// What starts them.
    pub starter: Starter,
    /// Whether the host's name is left out of records.
    pub no_host_name: bool,
    /// Settings of every verb.
    pub global: &'p Global,
    /// The device, by its name.
    pub device: String,
    /// The kernels' files.
    pub kernels: Vec<PathBuf>,
    /// The same as the run's record has them.
    pub told: Vec<UserKernels>,
    /// The text of the run's suite.
    pub suite_text: String,
    /// The directory of the run.
    pub directory: PathBuf,
    /// How long one call may take.
    pub deadline: Seconds,
    /// Whether the user has asked for an end.
    pub interrupted: &'p AtomicBool,
    /// Processes started so far.
    pub made: Cell<u32>,
}

impl Processes<'_> {
    fn attempt(&self, case: &Case) -> anyhow::Result<Outcome> {
        self.made.set(self.made.get() + 1);
        let place = self.directory.join(FOLDER).join(format!("{:05}", self.made.get()));
        disk::make_directory(&place, "--out DIR")?;
        let suite = place.join("suite.toml");
        disk::write_file(&suite, self.suite_text.as_bytes(), "--out DIR")?;
        let suite = suite.to_str().context("the directory's name is not UTF-8")?;
        let kernels = &self.kernels;
        let of = Some((place.as_path(), case, self.no_host_name));
        let command = command(InChild::Measure, suite, &self.device, kernels, of, self.global)?;
        let (command, said) = with_messages(command, &place)?;
        let status = self.starter.run(command)?;
        let said = last_words(&fs::read(said).unwrap_or_default());
        let outcome = self.outcome(case, status, &place, &said);
        // What cannot be removed stays.
        let _ = fs::remove_dir_all(&place);
        outcome
    }

    /// What a process came to that has ended.
    fn outcome(
        &self,
        case: &Case,
        status: ExitStatus,
        place: &Path,
        said: &str,
    ) -> anyhow::Result<Outcome> {
        let failed = |failure: Failure, error: String| Outcome::Failed {
            case: case.clone(),
            failure,
            error,
            integrity: None,
        };
        if status.code() == Some(i32::from(HUNG)) {
            let error = DeviceError::Hang {
                what: format!("kernel {}, whose process was ended", case.kernel.0),
                limit: self.deadline,
            };
            return Ok(failed(Failure::Hang, error.to_string()));
        }
        if !matches!(status.code(), Some(0 | 1)) {
            return Ok(failed(Failure::Other, end_of(status, said)));
        }
        let record = store::read(place)?;
        if record.header.user_kernels != self.told {
            let why = "the kernel's file, or the one beside it, was changed during the run";
            return Ok(failed(Failure::Other, why.into()));
        }
        let mut outcomes = record.outcomes.into_iter();
        let found = outcomes.find(|outcome| outcome.case() == case);
        Ok(found.unwrap_or_else(|| failed(Failure::Other, end_of(status, said))))
    }
}

impl Apart for Processes<'_> {
    fn takes(&self, case: &Case) -> bool {
        self.told.iter().any(|file| file.names.contains(&case.kernel.0))
    }

    fn measure(&self, case: &Case) -> Option<Outcome> {
        let outcome = self.attempt(case).unwrap_or_else(|error| Outcome::Failed {
            case: case.clone(),
            failure: Failure::Other,
            error: format!("{error:#}"),
            integrity: None,
        });
        let is_broken = !matches!(outcome, Outcome::Measured(_) | Outcome::Skipped { .. });
        (!is_broken || !self.interrupted.load(Ordering::Relaxed)).then_some(outcome)
    }
}

impl Drop for Processes<'_> {
    fn drop(&mut self) {
        // What cannot be removed stays.
        let _ = fs::remove_dir_all(self.directory.join(FOLDER));
    }
}

/// The kernels of a header's run, as another run has to be given them.
pub fn paths(header: &Header) -> Vec<PathBuf> {
    header.user_kernels.iter().map(|file| PathBuf::from(&file.path)).collect()
}

/// The command line of a process that does something with the user's kernels.
fn command(
    does: InChild,
    suite: &str,
    device: &str,
    kernels: &[PathBuf],
    of: Option<(&Path, &Case, bool)>,
    global: &Global,
) -> anyhow::Result<Command> {
    let (place, case, no_host_name) = match of {
        Some((place, case, no_host_name)) => (Some(place), Some(case.to_string()), no_host_name),
        None => (None, None, false),
    };
    let does = match does {
        InChild::Load => "load",
        InChild::Measure => "measure",
    };
    let measuring = Measuring {
        suite,
        device,
        ranks: None,
        cases: case.as_slice(),
        label: None,
        no_host_name,
        kernels,
        more: &["--in-child", does],
    };
    measuring.command(place, global)
}

/// Has a process write its messages to a file, and not to a pipe that nobody reads meanwhile.
fn with_messages(mut command: Command, place: &Path) -> anyhow::Result<(Command, PathBuf)> {
    let said = place.join("messages.txt");
    let messages = fs::File::create(&said).context("the file of messages")?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(messages);
    Ok((command, said))
}

fn to_its_end(mut command: Command, interrupted: &AtomicBool) -> anyhow::Result<ExitStatus> {
    let mut child = command.spawn().context("cannot start a process for a user's kernel")?;
    let (mut asked, mut went) = (false, clock::now());
    loop {
        if let Some(status) = child.try_wait().context("waiting for a process")? {
            return Ok(status);
        }
        if !is_stopped(&child) {
            went = clock::now();
        } else if went.elapsed() > STOPPED_MAX {
            // Its own watch stands still too.
            child.kill().and_then(|()| child.wait()).context("ending a stopped process")?;
            anyhow::bail!("the kernel's process was stopped (SIGSTOP) and did not continue");
        }
        if interrupted.load(Ordering::Relaxed) && !asked {
            signals::hand_on(&child);
            asked = true;
        }
        clock::rest(EVERY);
    }
}

/// Whether a process is stopped, where Linux says so.
fn is_stopped(child: &Child) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    // The state stands behind the name, which is in brackets and may have any letters.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

/// How a process ended, and what it said last.
fn end_of(status: ExitStatus, said: &str) -> String {
    let how = match (status.signal(), status.code()) {
        (Some(signal), _) => format!("the kernel's process was ended by {}", signal_name(signal)),
        (None, Some(0 | 1)) => "the kernel's process ended without a result".into(),
        (None, code) => {
            format!("the kernel's process ended with exit code {}", code.unwrap_or_default())
        }
    };
    if said.is_empty() { how } else { format!("{how}: {said}") }
}

/// A signal's name, and what it means where code of a user's caused it.
fn signal_name(signal: i32) -> String {
    let known = [
        (4, "SIGILL: an instruction that this CPU does not have"),
        (6, "SIGABRT: it gave up, as the C library does where memory was overwritten"),
        (7, "SIGBUS: an access to memory that is not there"),
        (8, "SIGFPE: a division of integers by zero"),
        (9, "SIGKILL: it was killed, as the kernel does where memory runs out"),
        (11, "SIGSEGV: an access to memory that is not its own"),
    ];
    let found = known.iter().find(|(number, _)| *number == signal);
    found.map_or_else(|| format!("signal {signal}"), |(_, words)| (*words).to_owned())
}

/// The words of a process, as far as they are shown.
fn last_words(said: &[u8]) -> String {
    text::shorten(String::from_utf8_lossy(said).trim(), SAID_MAX)
}
