//! Ranks as processes, on one node or many: collectives by an MPI library opened at run time.
//!
//! Each process drives one rank on its calling thread. What ranks agree on between collectives
//! (times, checks, whether to continue) goes through the same library.

#![expect(unsafe_code, reason = "a foreign library works on buffers by their addresses")]

pub mod abi;
mod engine;

use super::{
    Communicator, RankBuffers,
    watchdog::{
        Asked, OnHang, Operation, Watchdog, neighbours::Peer, pairwise, shared_board::Board,
    },
};
use engine::Engine;
use fizeau_device::{Buffer, DeviceError, Result};
use fizeau_domain::{
    case::{Collective, CollectivePoint, KernelName},
    dtype::Dtype,
    units::{Bytes, Seconds},
};

/// What would bring the library.
const REMEDY: &str = "install an MPI and start by its mpiexec: one with the standard ABI (MPICH 5, \
                    Intel MPI 2021.17, Open MPI 6; pip install mpich), or Open MPI 4 or 5; \
                    FIZEAU_MPI may name libmpi_abi.so.1 or libmpi.so.40";

/// The world of an MPI library.
pub struct Mpi {
    engine: Box<dyn Engine>,
    rank: u32,
    size: u32,
    version: String,
    peers: Vec<Peer>,
    watch: Watchdog,
}

impl Mpi {
    /// Opens the library and joins the world.
    ///
    /// # Errors
    /// Where there is no library, or it says so.
    pub fn open() -> Result<Mpi> {
        let opened = abi::open().map_err(|why| DeviceError::Missing {
            what: "an MPI library".into(),
            remedy: format!("{REMEDY} ({why})"),
        })?;
        let engine = engine::join(opened)?;
        let ([rank, size], version) = (engine.place(), engine.version());
        let watch = Watchdog::new(rank, Vec::new(), None);
        Ok(Mpi { engine, rank, size, version, peers: Vec::new(), watch })
    }

    /// Joins ranks that know each other, and watches from then on: past the deadline `on_hang` is
    /// called.
    ///
    /// # Errors
    /// Whatever the library says, or where there can be no thread.
    pub fn join(
        &mut self,
        peers: Vec<Peer>,
        board: Option<Board>,
        deadline: Seconds,
        on_hang: OnHang,
    ) -> Result<()> {
        self.peers = peers;
        self.watch = Watchdog::new(self.rank, self.peers.clone(), board);
        let refused = |error: std::io::Error| DeviceError::Driver(error.to_string());
        self.watch.start(deadline, Asked::default(), on_hang).map_err(refused)?;
        self.barrier()
    }

    /// The library's own words for what it is.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks on this rank's host.
    pub fn ranks_here(&self) -> u32 {
        let host = &self.peers[self.rank as usize].host;
        self.peers.iter().filter(|peer| peer.host == *host).count() as u32
    }

    /// Leaves the world, once all ranks do. Dropped without this, the process has failed, and its
    /// launcher ends the others.
    ///
    /// # Errors
    /// Whatever the library says.
    pub fn finish(self) -> Result<()> {
        self.engine.finish()
    }
}

impl Communicator for Mpi {
    fn kernels(&self) -> Vec<KernelName> {
        vec![KernelName("mpi".into())]
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn local(&self) -> (u32, u32) {
        (self.rank, 1)
    }

    fn processes(&self) -> u32 {
        self.size
    }

    fn enqueue(
        &self,
        collective: Collective,
        dtype: Dtype,
        message: Bytes,
        ranks: &[RankBuffers<'_>],
        repeat: u32,
    ) -> Result<()> {
        let [buffers] = ranks else {
            let why = format!("{} ranks give buffers in a process of one", ranks.len());
            return Err(DeviceError::Launch { kernel: "mpi".into(), why });
        };
        let point = CollectivePoint::new(collective, dtype, message, self.size);
        if !buffers.hold(collective, message, self.size) {
            let why = "a buffer is smaller than its message".into();
            return Err(DeviceError::Launch { kernel: "mpi".into(), why });
        }
        // SAFETY: both buffers hold their sides of the message, checked above.
        let iteration = unsafe { self.engine.ready(&point, buffers) }?;
        self.watch.operation(Operation { collective, dtype, message }, || {
            for _ in 0..repeat {
                self.watch.enter();
                iteration()?;
            }
            Ok(())
        })
    }

    fn exchange(&self, partner: u32, [send, receive]: [&Buffer; 2]) -> Result<()> {
        let bytes = send.size.min(receive.size);
        let addresses = [send.address, receive.address];
        self.watch.operation(pairwise(bytes), || {
            self.watch.enter();
            // SAFETY: as many bytes as both buffers have.
            unsafe { self.engine.exchange(partner, addresses, bytes) }
        })
    }

    fn sits_out(&self) {
        self.watch.enter();
    }

    fn works(&self) {
        self.watch.works();
    }

    fn all_gather_bytes(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.watch.control(|| self.engine.gather(mine))
    }

    fn barrier(&self) -> Result<()> {
        self.watch.control(|| self.engine.barrier())
    }

    fn largest(&self, seen: f64) -> Result<f64> {
        self.watch.control(|| self.engine.largest(seen))
    }
}
