//! Ranks meet once before anything connects them: each opens its device and tells the others what
//! it found, so that whatever is missing anywhere ends all of them with the same words.

use super::{
    GRACE, ToldByAnother,
    choice::{self, Choice, HOST},
    seat::Seat,
};
use anyhow::{Context, bail};
use fizeau_comm::{
    Communicator,
    nccl::Engine,
    preflight::{self, Facts, Sharing},
    rendezvous::{Meeting, Patience},
    watchdog::shared_board::{Board, BoardFile},
};
use fizeau_device::{Device, host};
use fizeau_domain::{launcher::World, units::Seconds};
use fizeau_judge::localise::raw::RankPlace;
use fizeau_record::Network;
use nccl_rs::UniqueId;
use serde::{Deserialize, Serialize};
use std::{path::Path, sync::atomic::AtomicBool, thread};

/// Longest wait for all ranks to come.
const MEETING_MAX: Seconds = Seconds(120.0);

/// Whether the host's name may be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostName {
    /// It may.
    Told,
    /// It is left out.
    LeftOut,
}

/// A rank before it has joined: its device, opened or not.
pub(super) struct Candidate {
    pub(super) seat: Seat,
    pub(super) engine: Option<Engine>,
    /// Its file keeps its name until this rank has joined. By then all ranks of the node have
    /// opened it.
    pub(super) board: Option<BoardFile>,
    name: String,
    facts: Facts,
}

/// What a rank tells the others of itself.
#[derive(Serialize, Deserialize)]
struct Introduction {
    facts: Facts,
    /// The id of the communicator to be made: from the first rank, where its library needs one.
    id: Option<Vec<u8>>,
}

/// What all ranks have told of themselves.
pub struct Roster {
    /// By rank.
    pub(super) ranks: Vec<Facts>,
    pub(super) id: Option<UniqueId>,
    /// What is degraded.
    pub warnings: Vec<String>,
}

impl Roster {
    /// From what all ranks have said of themselves, by rank: the roster, or what is wrong with them
    /// together.
    ///
    /// # Errors
    /// Where what one of them says cannot be read.
    pub fn of(all: &[Vec<u8>], sharing: Sharing) -> anyhow::Result<Result<Roster, String>> {
        let read = |bytes: &Vec<u8>| serde_json::from_slice(bytes);
        let all: Vec<Introduction> =
            all.iter().map(read).collect::<Result<_, _>>().context(
                "what another rank says of itself cannot be read: all need the same fizeau",
            )?;
        let id = all.first().and_then(|first| UniqueId::from_bytes(first.id.as_deref()?));
        let ranks: Vec<Facts> = all.into_iter().map(|one| one.facts).collect();
        let judged = preflight::judge(&ranks, sharing);
        Ok(judged.map(|warnings| Roster { ranks, id, warnings }))
    }

    /// One line for each rank.
    pub fn lines(&self) -> Vec<String> {
        let line = |facts: &Facts| {
            format!("rank {}: {}, {} ({})", facts.rank, facts.host, facts.device, facts.name)
        };
        self.ranks.iter().map(line).collect()
    }

    /// Where each rank runs.
    pub fn places(&self) -> Vec<RankPlace> {
        let place = |facts: &Facts| RankPlace {
            host: Some(facts.host.clone()),
            device: Some(format!("{} ({})", facts.device, facts.name)),
            ..RankPlace::default()
        };
        self.ranks.iter().map(place).collect()
    }

    /// What lies between the ranks' nodes.
    pub fn network(&self) -> Option<Network> {
        preflight::network(&self.ranks)
    }

    /// The board of a rank's node: at the file of the first rank there.
    pub(super) fn board(&self, rank: u32) -> Option<Board> {
        let host = &self.ranks.get(rank as usize)?.host;
        let mut here = self.ranks.iter().filter(|facts| facts.host == *host);
        let count = here.clone().count();
        Board::open(here.next()?.board.as_deref()?, count).ok()
    }

    /// How many ranks use the device of this one.
    pub(super) fn sharing(&self, rank: u32) -> u32 {
        preflight::sharing(&self.ranks, rank)
    }
}

impl Candidate {
    /// Chooses and opens a device for a seat. One that cannot be opened is told to the others.
    pub(super) fn new(
        seat: Seat,
        choice: &Choice,
        host_name: HostName,
    ) -> (Candidate, Option<Box<dyn Device>>) {
        let place = seat.world.local_rank.unwrap_or(seat.world.rank);
        let host = host::environment().host.filter(|_| host_name == HostName::Told);
        let host = host.unwrap_or_else(|| "a host".into());
        // Without a board the others of this node are not seen, and the run continues.
        let board = BoardFile::create().ok();
        let mut facts = Facts {
            rank: seat.world.rank,
            host,
            fizeau: env!("CARGO_PKG_VERSION").into(),
            process: std::process::id(),
            board: board.as_ref().map(|file| file.name().to_owned()),
            nics: preflight::nics(Path::new("/sys/class/infiniband")),
            ..Facts::default()
        };
        let name = choice.device_of_rank(place).unwrap_or_else(|error| {
            facts.trouble = Some(format!("{error:#}"));
            choice.device.clone().unwrap_or_else(|| HOST.into())
        });
        let engine = engine(&seat.meeting, &name, &mut facts);
        if choice::is_host(&name) {
            // Before the device is opened, whose threads inherit it. Threads of a GPU's library
            // are not to be crowded on a core.
            host::keep_to_core(place);
        }
        facts.device.clone_from(&name);
        let device = match choice::open(&name) {
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

    /// Exchanges what ranks know of themselves, before anything else.
    pub(super) fn meet(&self, interrupted: &AtomicBool) -> anyhow::Result<Roster> {
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
        let introduction = serde_json::to_vec(&Introduction { facts, id })?;
        let patience = Patience::new(MEETING_MAX, interrupted);
        let all = self.seat.meeting.exchange([rank, size], &introduction, patience)?;
        let several = std::env::var("NCCL_MULTI_RANK_GPU_ENABLE").is_ok_and(|value| value == "1");
        let sharing = if several { Sharing::Allowed } else { Sharing::Refused };
        match Roster::of(&all, sharing)? {
            Ok(roster) => Ok(roster),
            Err(why) if rank == 0 => bail!("preflight: {why}"),
            Err(_) => {
                thread::sleep(GRACE);
                Err(ToldByAnother.into())
            }
        }
    }

    /// The device's name, as the command line would have it.
    pub(super) fn device(&self) -> &str {
        &self.name
    }
}

/// The library that is to connect a GPU to the others; none for a host, which needs MPI.
fn engine(meeting: &Meeting, device: &str, facts: &mut Facts) -> Option<Engine> {
    if choice::is_host(device) {
        match meeting {
            Meeting::Mpi(mpi) => facts.engine = mpi.version().into(),
            _ => {
                let why = "ranks on hosts are connected by MPI alone: leave out \
                           FIZEAU_RENDEZVOUS and start by mpiexec, or choose GPUs";
                facts.trouble.get_or_insert_with(|| why.into());
            }
        }
        return None;
    }
    match Engine::open(device.split(':').next().unwrap_or_default()) {
        Ok(opened) => {
            facts.engine = opened.spelled();
            Some(opened)
        }
        Err(error) => {
            facts.trouble.get_or_insert_with(|| error.to_string());
            None
        }
    }
}
