//! Which ranks this process is, and where they meet the others.

use super::choice::{self, Choice};
use anyhow::Context;
use fizeau_comm::{
    Communicator,
    mpi::Mpi,
    rendezvous::{Meeting, MeetingWay, Room},
};
use fizeau_domain::launcher::{self, Launcher, World};
use std::{sync::Arc, thread};

/// A rank's place, and where it meets the others.
pub struct Seat {
    pub(super) world: World,
    pub(super) meeting: Meeting,
}

/// The ranks of this process.
pub enum Seats {
    /// It is no rank of a world: it works alone.
    Alone,
    /// It is one of many processes.
    One(Seat),
    /// It has several, each a thread with a GPU.
    Threads(Seat, Vec<Seat>),
}

impl Seats {
    /// The seats of this process: as its launcher says, else as many threads as were asked for
    /// GPUs.
    ///
    /// # Errors
    /// Where the launcher's variables make no sense, its MPI cannot be opened or disagrees with
    /// them, or there cannot be as many ranks.
    pub fn of(choice: &Choice) -> anyhow::Result<Seats> {
        let variable = |name: &str| std::env::var(name).ok();
        if let Some(world) = launcher::world(variable)? {
            let meeting = match MeetingWay::of(variable)? {
                MeetingWay::Mpi => {
                    let told =
                        || format!("{} launched this as rank {}", world.launcher, world.rank);
                    let mpi = Mpi::open().with_context(told)?;
                    world.agrees("MPI", mpi.rank(), mpi.size())?;
                    Meeting::Mpi(Box::new(mpi))
                }
                way => Meeting::Remote(way),
            };
            return Ok(Seats::One(Seat { world, meeting }));
        }
        let Some(size) = choice.ranks else { return Ok(Seats::Alone) };
        if choice::is_host(&choice.device()?) {
            return Ok(Seats::Alone);
        }
        choice::ranks_allowed(size)?;
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
        Ok(Seats::Threads(seat(0), (1..size).map(seat).collect()))
    }

    /// Does one thing where this process is alone, and another as each rank that it is. The result
    /// is the first rank's: it waits for all in what ranks do together, and knows how it ended.
    pub fn run<R: Send>(self, alone: impl FnOnce() -> R, as_rank: impl Fn(Seat) -> R + Sync) -> R {
        match self {
            Seats::Alone => alone(),
            Seats::One(seat) => as_rank(seat),
            Seats::Threads(first, others) => thread::scope(|scope| {
                let as_rank = &as_rank;
                for seat in others {
                    scope.spawn(move || as_rank(seat));
                }
                as_rank(first)
            }),
        }
    }
}
