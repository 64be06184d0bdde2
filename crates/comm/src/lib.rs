//! Collectives between ranks. A [`Communicator`] drives the ranks of this process: threads of the
//! host, GPUs of the node, or one of each of many processes.
//!
//! What is above this crate, or beside it, cannot be used here:
//!
//! ```compile_fail
//! use fizeau_judge::compare;
//! ```
//!
//! ```compile_fail
//! use fizeau_bench::Workload;
//! ```

pub mod host;
pub mod mpi;
pub mod nccl;
pub mod preflight;
pub mod private;
pub mod random;
pub mod rendezvous;
pub mod synchronised_device;
pub mod watchdog;

use fizeau_device::{Buffer, Device, DeviceError, Result};
use fizeau_domain::{
    case::{Buffers, Collective, KernelName},
    dtype::Dtype,
    units::Bytes,
};

/// Where a case runs.
#[derive(Clone, Copy)]
pub struct Rank<'r> {
    /// On what.
    pub device: &'r dyn Device,
    /// With whom.
    pub peers: &'r dyn Communicator,
}

/// One rank's part in a collective. Send and receive may be the same buffer, at the offsets that
/// `nccl-tests` uses in place.
#[derive(Clone, Copy)]
pub struct RankBuffers<'b> {
    /// Read.
    pub send: &'b Buffer,
    /// From this offset.
    pub send_offset: Bytes,
    /// Written.
    pub receive: &'b Buffer,
    /// From this offset.
    pub receive_offset: Bytes,
}

impl RankBuffers<'_> {
    /// Whether both buffers hold this rank's sides of a message between `ranks` ranks.
    fn hold(&self, collective: Collective, message: Bytes, ranks: u32) -> bool {
        let [send, receive] = collective.buffer_bytes(message, ranks);
        let fits = |buffer: &Buffer, offset: Bytes, bytes: Bytes| {
            offset.0.checked_add(bytes.0).is_some_and(|end| end <= buffer.size.0)
        };
        fits(self.send, self.send_offset, send) && fits(self.receive, self.receive_offset, receive)
    }

    /// Addresses of the first byte to send, and of the first byte to receive into.
    fn addresses(&self) -> [usize; 2] {
        let send = self.send.address + self.send_offset.0;
        [send, self.receive.address + self.receive_offset.0].map(|address| address as usize)
    }
}

/// Collectives that were captured as one graph: enqueues it a number of times.
pub type Graph<'c> = Box<dyn Fn(u32) -> Result<()> + 'c>;

/// A world of ranks, some of which this process drives.
pub trait Communicator {
    /// What makes the collectives: `threads`, `nccl`, `rccl`, `mpi`; empty for a world of one.
    fn kernels(&self) -> Vec<KernelName>;
    /// Ranks in all.
    fn size(&self) -> u32;
    /// The first rank this process drives, and how many.
    fn local(&self) -> (u32, u32);
    /// Enqueues a collective `repeat` times on every local rank. `message` counts as
    /// [`fizeau_domain::case::CollectivePoint::message`].
    fn enqueue(
        &self,
        collective: Collective,
        dtype: Dtype,
        message: Bytes,
        ranks: &[RankBuffers<'_>],
        repeat: u32,
    ) -> Result<()>;
    /// Whether a library puts collectives onto a device's own stream: then there are buffers that
    /// are registered with it, and graphs.
    fn is_on_stream(&self) -> bool {
        false
    }
    /// Memory for a buffer of collectives on this rank. All ranks ask together, and all get it or
    /// none does.
    fn allocate(&self, device: &dyn Device, size: Bytes, buffers: Buffers) -> Result<Buffer> {
        match buffers {
            Buffers::Plain => device.allocate(size),
            other => Err(only_between_gpus(&format!("{other} buffers"))),
        }
    }
    /// `count` collectives, one after the other, as one graph.
    fn graph<'c>(
        &'c self,
        _collective: Collective,
        _dtype: Dtype,
        _message: Bytes,
        _ranks: &[RankBuffers<'_>],
        _count: u32,
    ) -> Result<Graph<'c>> {
        Err(only_between_gpus("graphs of collectives"))
    }
    /// Enqueues one exchange with another rank: all of the first buffer, for as much into the
    /// second.
    fn exchange(&self, _partner: u32, _buffers: [&Buffer; 2]) -> Result<()> {
        let remedy = "start ranks as processes, or with a GPU each".into();
        Err(DeviceError::Missing { what: "exchanges between two ranks".into(), remedy })
    }
    /// This rank has no partner in a round of exchanges. Its watchdog counts the round, so that the
    /// rank does not seem to lag behind those that have one.
    fn sits_out(&self) {}
    /// Processes that the ranks are spread over, one rank each; 1 where this process drives all.
    fn processes(&self) -> u32 {
        1
    }
    /// This rank makes progress with something that it does alone, while others wait.
    fn works(&self) {}
    /// What was enqueued last is done on this rank.
    fn completed(&self) {}
    /// This rank cannot continue, for this reason. Where the others would wait for it without end,
    /// this ends the run for all and does not come back.
    fn failed(&self, _why: &DeviceError) {}
    /// Waits for all processes.
    fn barrier(&self) -> Result<()> {
        Ok(())
    }
    /// The largest of what each process has seen.
    fn largest(&self, seen: f64) -> Result<f64> {
        Ok(seen)
    }
    /// The control plane: every process gives bytes and gets all processes' bytes, by rank.
    fn all_gather_bytes(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        Ok(vec![mine.to_vec()])
    }
}

fn only_between_gpus(what: &str) -> DeviceError {
    DeviceError::Missing { what: what.into(), remedy: "start a rank with a GPU each".into() }
}

/// A world that is planned and not there: `list` asks it for its size.
pub struct Planned {
    /// What would make the collectives.
    pub kernel: KernelName,
    /// How many there would be.
    pub ranks: u32,
}

impl Communicator for Planned {
    fn kernels(&self) -> Vec<KernelName> {
        vec![self.kernel.clone()]
    }
    fn size(&self) -> u32 {
        self.ranks
    }
    fn local(&self) -> (u32, u32) {
        (0, 1)
    }
    fn processes(&self) -> u32 {
        self.ranks
    }
    fn is_on_stream(&self) -> bool {
        nccl::is_library(&self.kernel)
    }
    fn enqueue(
        &self,
        _: Collective,
        _: Dtype,
        _: Bytes,
        _: &[RankBuffers<'_>],
        _: u32,
    ) -> Result<()> {
        Err(DeviceError::Missing { what: "the other ranks".into(), remedy: "start them".into() })
    }
}

/// A world of one, without collectives.
pub struct Alone;

impl Communicator for Alone {
    fn kernels(&self) -> Vec<KernelName> {
        Vec::new()
    }
    fn size(&self) -> u32 {
        1
    }
    fn local(&self) -> (u32, u32) {
        (0, 1)
    }
    fn enqueue(
        &self,
        _: Collective,
        _: Dtype,
        _: Bytes,
        _: &[RankBuffers<'_>],
        _: u32,
    ) -> Result<()> {
        let remedy = "run with two ranks or more".into();
        Err(DeviceError::Missing { what: "a second rank".into(), remedy })
    }
}
