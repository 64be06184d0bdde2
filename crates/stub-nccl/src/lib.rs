//! A `libnccl.so.2` for machines without a GPU: the functions that fizeau calls, over the stub
//! driver's memory, which is the host's. Ranks may be threads or processes of one node; their bytes
//! really go from one to the other, through memory they share, so that what is verified is real.
//! What is enqueued is done by a thread of the rank's own, and the stub driver's stream is busy
//! until then: a rank that hangs is a stream that never ends, as on a GPU.
//!
//! What goes wrong is scripted by the variable `FIZEAU_STUB_NCCL` (see [`script`]). Without the stub
//! driver no communicator can be made, so that no number ever comes from here.

#![expect(
    clippy::missing_safety_doc,
    reason = "the functions have the contracts of the vendor's headers"
)]

mod calls;
mod driver;
mod job;
mod rank;
pub mod script;
mod shared;

pub use calls::*;
