//! What connects a rank to the others, and how it comes about.

use super::{
    Terms,
    hang::{self, KeptRecord},
    meet::{Candidate, Roster},
    seat::Seat,
};
use anyhow::Context;
use fizeau_comm::{
    Communicator,
    mpi::Mpi,
    nccl::Nccl,
    rendezvous::Meeting,
    watchdog::{self, neighbours},
};
use fizeau_device::Device;

/// What connects a rank to the others.
pub enum Link<'d> {
    /// MPI, in the host's memory.
    Mpi(Box<Mpi>),
    /// The GPU vendor's library. MPI stays open where it brought the ranks together.
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

    /// The name and version of the library that connects them.
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
    pub(super) fn finish(self) -> anyhow::Result<()> {
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

/// Joins the others, and watches from then on that nobody is waited for beyond the deadline.
pub(super) fn join<'d>(
    candidate: Candidate,
    roster: &Roster,
    device: &'d dyn Device,
    Terms { deadline, ending, .. }: Terms<'_>,
    record: &KeptRecord,
) -> anyhow::Result<Link<'d>> {
    let Candidate { seat: Seat { world, meeting }, engine, board: _board, .. } = candidate;
    // The watchdog ends the run before whoever waits for the device has lost patience.
    device.set_deadline(deadline * watchdog::PATIENCE);
    let on_hang = hang::on_hang(world.rank, record.clone(), ending);
    let peers = neighbours::peers(&roster.ranks);
    let board = roster.board(world.rank);
    let mpi = match meeting {
        Meeting::Mpi(mpi) => Some(mpi),
        Meeting::Threads(_) | Meeting::Remote(_) => None,
    };
    let Some(engine) = engine else {
        let mut mpi = mpi.context("ranks on hosts are connected by MPI alone")?;
        let on_hang = Box::new(move |why, point| on_hang(why, point, None));
        mpi.join(peers, board, deadline, on_hang)?;
        return Ok(Link::Mpi(mpi));
    };
    let id = roster.id.context("the first rank gave no id")?;
    let on_hang = Box::new(on_hang);
    let nccl = Nccl::join(device, &engine, &id, world.rank, (peers, board), deadline, on_hang)?;
    let [rank, size] = nccl.place()?;
    world.agrees(engine.name, rank, size)?;
    Ok(Link::Nccl(Box::new(nccl), mpi))
}
