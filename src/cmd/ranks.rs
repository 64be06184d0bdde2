//! `fizeau run` as one of many ranks: finds the others, holds what each has against the rest,
//! shares what memory there is, and ends all of them when one hangs.

use super::{exit, plan};
use crate::{
    case::{Case, CollectivePoint, Point},
    comm::{
        Communicator,
        mpi::Mpi,
        nccl::{Engine, Nccl},
        preflight::{self, Facts, Sharing},
        rendezvous::{Meeting, Patience, Room, Way},
        watchdog::{
            self, neighbours,
            shared_board::{Board, BoardFile},
        },
    },
    device::{Device, host},
    launcher::{self, Launcher, World},
    outcome::{Failure, Outcome},
    record::{
        Header, Line, Network,
        store::{self, RecordError},
    },
    units::{Bytes, Seconds},
};
use anyhow::{Context, bail};
use nccl_rs::{Monitor, UniqueId};
use serde::{Deserialize, Serialize};
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
    thread,
    time::Duration,
};

/// Launchers end all processes once one has ended: first the one that keeps the record.
const GRACE: Duration = Duration::from_secs(1);

/// Longest wait for all ranks to come.
const MEETING_MAX: Seconds = Seconds(120.0);

/// A rank's place, and where it meets the others.
pub struct Seat {
    world: World,
    meeting: Meeting,
}

/// Which ranks this process is.
pub enum Seats {
    /// None: it is alone.
    Alone,
    /// One of many processes.
    One(Seat),
    /// So many threads, each with a GPU.
    Threads(Vec<Seat>),
}

/// The seats of this process: as its launcher says, else as `--ranks` does for GPUs.
pub fn seats(args: &plan::PlanArgs) -> anyhow::Result<Seats> {
    let variable = |name: &str| std::env::var(name).ok();
    if let Some(world) = launcher::world(variable)? {
        let meeting = match Way::of(variable)? {
            Way::Mpi => {
                let told = || format!("{} launched this as rank {}", world.launcher, world.rank);
                let mpi = Mpi::open().with_context(told)?;
                world.agrees("MPI", mpi.rank(), mpi.size())?;
                Meeting::Mpi(Box::new(mpi))
            }
            way => Meeting::Remote(way),
        };
        return Ok(Seats::One(Seat { world, meeting }));
    }
    let Some(size) = args.ranks.filter(|_| !plan::is_host(&args.device())) else {
        return Ok(Seats::Alone);
    };
    plan::ranks_allowed(size)?;
    let room = Arc::new(Room::default());
    let seat = |rank: u32| Seat {
        world: World {
            launcher: Launcher::Threads,
            rank,
            size: Some(size),
            local_rank: Some(rank),
        },
        meeting: Meeting::Threads(Arc::clone(&room)),
    };
    Ok(Seats::Threads((0..size).map(seat).collect()))
}

/// What connects a rank to the others.
pub enum Link<'d> {
    /// The host's memory, by MPI.
    Mpi(Box<Mpi>),
    /// GPUs, by the vendor's library; MPI, where it brought them together, stays open.
    Nccl(Box<Nccl<'d>>, Option<Box<Mpi>>),
}

impl Link<'_> {
    /// The ranks.
    pub fn peers(&self) -> &dyn Communicator {
        match self {
            Link::Mpi(mpi) => mpi.as_ref(),
            Link::Nccl(nccl, _) => nccl.as_ref(),
        }
    }

    /// The library that connects them.
    pub fn version(&self) -> String {
        match self {
            Link::Mpi(mpi) => mpi.version().into(),
            Link::Nccl(nccl, _) => nccl.version(),
        }
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.peers().local().0
    }

    /// Leaves the world, once all ranks do.
    pub fn finish(self) -> anyhow::Result<()> {
        let mpi = match self {
            Link::Mpi(mpi) => Some(mpi),
            Link::Nccl(nccl, mpi) => {
                drop(nccl);
                mpi
            }
        };
        Ok(mpi.map(|mpi| mpi.finish()).transpose().map(drop)?)
    }
}

/// Whether the host's name may be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostName {
    /// It may.
    Told,
    /// It is left out.
    LeftOut,
}

/// A rank before it has joined: its device, opened or not.
pub struct Candidate {
    seat: Seat,
    name: String,
    engine: Option<Engine>,
    facts: Facts,
    board: Option<BoardFile>,
}

/// What a rank gives the others.
#[derive(Serialize, Deserialize)]
struct Words {
    facts: Facts,
    /// The first rank's, where a library needs one.
    id: Option<Vec<u8>>,
}

/// What ranks know of each other.
pub struct Known {
    ranks: Vec<Facts>,
    id: Option<UniqueId>,
    /// What is degraded.
    pub warnings: Vec<String>,
}

impl Known {
    /// One line for each rank.
    pub fn lines(&self) -> Vec<String> {
        let line = |facts: &Facts| {
            format!("rank {}: {}, {} ({})", facts.rank, facts.host, facts.device, facts.name)
        };
        self.ranks.iter().map(line).collect()
    }

    /// What lies between their nodes.
    pub fn network(&self) -> Option<Network> {
        preflight::network(&self.ranks)
    }

    /// The board of a rank's node: at the file of the first rank there.
    fn board(&self, rank: u32) -> Option<Board> {
        let host = &self.ranks.get(rank as usize)?.host;
        let mut here = self.ranks.iter().filter(|facts| facts.host == *host);
        let count = here.clone().count();
        Board::open(here.next()?.board.as_deref()?, count).ok()
    }

    /// Ranks that have this one's device.
    fn sharing(&self, rank: u32) -> u32 {
        preflight::sharing(&self.ranks, rank)
    }
}

impl Candidate {
    /// Chooses and opens a device for a seat. One that cannot be opened is told to the others.
    pub fn new(
        seat: Seat,
        args: &plan::PlanArgs,
        host_name: HostName,
    ) -> (Candidate, Option<Box<dyn Device>>) {
        let place = seat.world.local_rank.unwrap_or(seat.world.rank);
        let host = host::environment().host.filter(|_| host_name == HostName::Told);
        let host = host.unwrap_or_else(|| "a host".into());
        // Without one the others of this node are not seen, and the run goes on.
        let board = BoardFile::create().ok();
        let mut facts = Facts {
            rank: seat.world.rank,
            host,
            fizeau: env!("CARGO_PKG_VERSION").into(),
            process: std::process::id(),
            board: board.as_ref().map(|file| file.path().to_owned()),
            nics: preflight::nics(Path::new("/sys/class/infiniband")),
            ..Facts::default()
        };
        let name = plan::device_of_rank(args, place).unwrap_or_else(|error| {
            facts.trouble = Some(format!("{error:#}"));
            args.device()
        });
        let mut engine = None;
        if plan::is_host(&name) {
            match &seat.meeting {
                Meeting::Mpi(mpi) => facts.engine = mpi.version().into(),
                _ => {
                    let why = "ranks on hosts are connected by MPI alone: leave out \
                               FIZEAU_RENDEZVOUS and start by mpiexec, or choose GPUs";
                    facts.trouble.get_or_insert_with(|| why.into());
                }
            }
            // Before the device is opened, whose threads inherit it. Threads of a GPU's library
            // are not to be crowded on a core.
            host::keep_to_core(place);
        } else {
            match Engine::open(name.split(':').next().unwrap_or_default()) {
                Ok(opened) => {
                    facts.engine = opened.spelled();
                    engine = Some(opened);
                }
                Err(error) => drop(facts.trouble.get_or_insert_with(|| error.to_string())),
            }
        }
        facts.device.clone_from(&name);
        let device = match plan::open(&name) {
            Ok(device) => {
                facts.name.clone_from(&device.properties().name);
                facts.identity = device.identity();
                Some(device)
            }
            Err(error) => {
                facts.trouble.get_or_insert_with(|| format!("{error:#}"));
                None
            }
        };
        (Candidate { seat, name, engine, facts, board }, device)
    }

    /// Exchanges what ranks know of themselves, before anything else: what is missing anywhere
    /// ends all of them with the same words.
    pub fn meet(&self, interrupted: &AtomicBool) -> anyhow::Result<Known> {
        let World { launcher, rank, size, .. } = self.seat.world;
        let size = match (&self.seat.meeting, size) {
            (Meeting::Mpi(mpi), _) => mpi.size(),
            (_, Some(size)) => size,
            (_, None) => bail!("{launcher} does not tell how many ranks there are"),
        };
        let id = self.engine.as_ref().filter(|_| rank == 0).map(Engine::unique_id);
        let mut facts = self.facts.clone();
        if let Some(Err(error)) = &id {
            facts.trouble.get_or_insert_with(|| error.to_string());
        }
        let id = id.and_then(Result::ok).map(|id| id.0.to_vec());
        let words = serde_json::to_vec(&Words { facts, id })?;
        let all = self.seat.meeting.exchange(
            [rank, size],
            &words,
            Patience::new(MEETING_MAX, interrupted),
        )?;
        let read = |bytes: &Vec<u8>| serde_json::from_slice(bytes);
        let all: Vec<Words> =
            all.iter().map(read).collect::<Result<_, _>>().context(
                "what another rank says of itself cannot be read: all need the same fizeau",
            )?;
        let id = all.first().and_then(|words| UniqueId::from_bytes(words.id.as_deref()?));
        let ranks: Vec<Facts> = all.into_iter().map(|words| words.facts).collect();
        let several = std::env::var("NCCL_MULTI_RANK_GPU_ENABLE").is_ok_and(|value| value == "1");
        let sharing = if several { Sharing::Allowed } else { Sharing::Refused };
        let judged = preflight::judge(&ranks, sharing);
        match judged {
            Ok(warnings) => Ok(Known { ranks, id, warnings }),
            Err(why) => {
                if rank != 0 {
                    // The first one says it for all.
                    thread::sleep(GRACE);
                    return Err(Quiet.into());
                }
                bail!("preflight: {why}")
            }
        }
    }

    /// Joins the others, and watches from then on that nobody is waited for beyond the deadline.
    pub fn join<'d>(
        self,
        known: &Known,
        device: &'d dyn Device,
        deadline: Seconds,
        kept: &Kept,
    ) -> anyhow::Result<Link<'d>> {
        // The name of the board's file goes once all have joined, and so have opened it.
        let Candidate { seat: Seat { world, meeting }, engine, board: _board, .. } = self;
        // The watch ends the run before whoever waits for the device has lost patience.
        device.set_deadline(deadline * watchdog::PATIENCE);
        let on_hang = on_hang(world.rank, kept.clone());
        let peers = neighbours::peers(&known.ranks);
        let board = known.board(world.rank);
        let mpi = match meeting {
            Meeting::Mpi(mpi) => Some(mpi),
            Meeting::Threads(_) | Meeting::Remote(_) => None,
        };
        let Some(engine) = engine else {
            let mut mpi = mpi.context("ranks on hosts are connected by MPI alone")?;
            mpi.join(
                peers,
                board,
                deadline,
                Box::new(move |said, point| on_hang(said, point, None)),
            )?;
            return Ok(Link::Mpi(mpi));
        };
        let id = known.id.context("the first rank gave no id")?;
        let on_hang = Box::new(on_hang);
        let nccl = Nccl::join(device, &engine, &id, world.rank, (peers, board), deadline, on_hang)?;
        let [rank, size] = nccl.place()?;
        world.agrees(engine.name, rank, size)?;
        Ok(Link::Nccl(Box::new(nccl), mpi))
    }

    /// The device's name, as the command line would have it.
    pub fn device(&self) -> &str {
        &self.name
    }
}

/// An error that another rank tells.
#[derive(Debug, thiserror::Error)]
#[error("another rank says why")]
pub struct Quiet;

/// Memory that all ranks together may take, where it is known: those of a device share what is
/// free on it, and no rank may take more than the one that has least.
pub fn memory(
    link: &Link<'_>,
    known: &Known,
    free: Option<Bytes>,
) -> anyhow::Result<Option<Bytes>> {
    let Some(free) = free else { return Ok(None) };
    let peers = link.peers();
    let here = match link {
        Link::Mpi(mpi) => mpi.ranks_here(),
        Link::Nccl(..) => known.sharing(link.rank()),
    };
    let share = free.0 as f64 / f64::from(here);
    // The least, by the only thing that ranks agree on: the largest.
    let least = -peers.largest(-share)?;
    Ok(Some(Bytes(least as u64 * u64::from(peers.size()))))
}

/// What this rank has, where every rank has got it. Else the first rank says whose fault it is, and
/// the others end without a word.
pub fn settled<T>(link: &Link<'_>, mine: anyhow::Result<T>) -> anyhow::Result<T> {
    let words = mine.as_ref().err().map(|error| format!("{error:#}")).unwrap_or_default();
    let all = link.peers().all_gather_bytes(words.as_bytes())?;
    let Some(rank) = all.iter().position(|words| !words.is_empty()) else { return mine };
    if link.rank() != 0 {
        thread::sleep(GRACE);
        return Err(Quiet.into());
    }
    // The first rank's own error is told as it is, with its exit code.
    mine.and_then(|_| bail!("rank {rank}: {}", String::from_utf8_lossy(&all[rank])))
}

/// A record's directory, and its plan.
type Place = (PathBuf, Vec<Case>);

/// The record that this rank keeps, once there is one.
#[derive(Clone, Default)]
pub struct Kept(Arc<Mutex<Option<Place>>>);

impl Kept {
    /// It is in this directory from now on.
    pub fn in_directory(&self, directory: &Path, header: &Header) {
        let kept = (directory.to_owned(), header.plan.clone());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
    }

    fn take(&self) -> Option<Place> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What ends this process past the deadline of a collective: says who hangs, and where a record is
/// kept, that the case failed.
fn on_hang(
    rank: u32,
    kept: Kept,
) -> impl FnOnce(String, Option<CollectivePoint>, Option<Monitor>) + Send {
    move |said, point, monitor| {
        let kept = kept.take().map(|(directory, plan)| {
            match append_failure(&directory, &plan, point, &said) {
                Ok(()) => format!("; the record is kept in {}", directory.display()),
                Err(error) => format!("; the record ends before this case: {error}"),
            }
        });
        // Nowhere is left to say that standard error is gone.
        let _ = writeln!(io::stderr(), "fizeau: {said}{}", kept.unwrap_or_default());
        if let Some(monitor) = monitor {
            abort(monitor);
        }
        if rank != 0 {
            thread::sleep(GRACE);
        }
        std::process::exit(i32::from(exit::COULD_NOT_RUN));
    }
}

/// Ends what a GPU still waits for, so that it is free for others; not for longer than it is worth.
fn abort(monitor: Monitor) {
    let aborting = thread::spawn(move || monitor.abort());
    for _ in 0..20 {
        if aborting.is_finished() {
            return;
        }
        thread::sleep(GRACE / 20);
    }
}

/// The outcome of the case in flight: the first of its kind that has none.
fn append_failure(
    directory: &Path,
    plan: &[Case],
    point: Option<CollectivePoint>,
    error: &str,
) -> Result<(), RecordError> {
    let record = store::read(directory)?;
    let is_it = |case: &&Case| match (case.point, point) {
        (Point::Collective(of), Some(point)) => {
            (of.collective, of.dtype, of.message) == (point.collective, point.dtype, point.message)
        }
        _ => false,
    };
    let open = |case: &&Case| !record.outcomes.iter().any(|outcome| outcome.case() == *case);
    let Some(case) = plan.iter().filter(is_it).find(open) else { return Ok(()) };
    let error = error.to_owned();
    let outcome = Outcome::Failed { case: case.clone(), failure: Failure::Hang, error };
    let path = directory.join(store::FILE);
    store::append_last(directory, &Line::Outcome(outcome))
        .map_err(|error| RecordError::File { path, error })
}
