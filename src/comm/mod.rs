//! Collectives between ranks. A [`Communicator`] drives the ranks of this process: threads of the
//! host, GPUs of the node, or one of each of many processes.

mod board;
pub mod host;
pub mod mpi;
pub mod together;
pub mod watch;

use crate::{
    case::{Collective, KernelName},
    device::{Buffer, DeviceError},
    dtype::Dtype,
    units::Bytes,
};

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

/// A world of ranks, some of which this process drives.
pub trait Communicator {
    /// What makes the collectives: `threads`, `nccl`, `rccl`, `mpi`; empty for a world of one.
    fn kernels(&self) -> Vec<KernelName>;
    /// Ranks in all.
    fn size(&self) -> u32;
    /// The first rank this process drives, and how many.
    fn local(&self) -> (u32, u32);
    /// Enqueues a collective `repeat` times on every local rank. `message` counts as
    /// [`crate::case::CollectivePoint::message`].
    fn enqueue(
        &self,
        collective: Collective,
        dtype: Dtype,
        message: Bytes,
        ranks: &[RankBuffers<'_>],
        repeat: u32,
    ) -> Result<(), DeviceError>;
    /// Processes that the ranks are spread over, one rank each; 1 where this process drives all.
    fn processes(&self) -> u32 {
        1
    }
    /// Waits for all processes.
    fn barrier(&self) -> Result<(), DeviceError> {
        Ok(())
    }
    /// The largest of what each process has seen.
    fn largest(&self, seen: f64) -> Result<f64, DeviceError> {
        Ok(seen)
    }
    /// The control plane: every process gives bytes and gets all processes' bytes, by rank.
    fn all_gather_bytes(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, DeviceError>;
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
    ) -> Result<(), DeviceError> {
        let mend = "run with two ranks or more".into();
        Err(DeviceError::Missing { what: "a second rank".into(), mend })
    }
    fn all_gather_bytes(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, DeviceError> {
        Ok(vec![mine.to_vec()])
    }
}
