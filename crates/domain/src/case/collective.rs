//! The collectives: byte counts and bus factors as `nccl-tests` has them.

use super::{Work, compact};
use crate::{dtype::Dtype, units::Bytes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

use Collective::{
    AllGather, AllReduce, AllToAll, AllToAllV, Broadcast, Gather, Reduce, ReduceScatter, Scatter,
    SendReceive,
};

/// A collective over all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CollectivePoint {
    /// Which of the collectives.
    pub collective: Collective,
    /// Element type.
    pub dtype: Dtype,
    /// Size of the message as `nccl-tests` counts it in its `size` column: the larger of what one
    /// rank sends and receives. Where each rank has a part ([`Collective::in_parts`]) that is the
    /// whole buffer.
    pub message: Bytes,
    /// Ranks taking part.
    pub ranks: u32,
    /// Whether send and receive buffer are the same.
    pub place: Place,
    /// How the buffers are allocated.
    pub buffers: Buffers,
    /// How many of it are enqueued as one graph; 0 where each is enqueued by itself.
    pub graph: u32,
}

/// How the buffers of a collective between GPUs are allocated.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Buffers {
    /// Allocated as any memory of the device.
    #[default]
    Plain,
    /// The library's own memory, registered with it (`ncclCommRegister`): transports may read and
    /// write it without a copy of theirs.
    Registered,
    /// The library's own memory in windows that are alike on all ranks
    /// (`ncclCommWindowRegister`): each rank's kernels reach the others' buffers.
    Symmetric,
}

impl Buffers {
    /// Whether they need no registration with the library.
    pub fn are_plain(&self) -> bool {
        *self == Buffers::Plain
    }
}

/// Whether send and receive buffer are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The same buffer.
    InPlace,
    /// Two aligned buffers.
    OutOfPlace,
    /// Two buffers, and both begin one element past an aligned address, as slices of larger
    /// tensors may: libraries then fall back to narrower accesses.
    Unaligned,
}

/// The collectives, named as NCCL and RCCL name them.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Collective {
    /// Every rank ends with the sum over all ranks.
    AllReduce,
    /// Every rank ends with one slice from each rank.
    AllToAll,
    /// Every rank ends with all ranks' parts.
    AllGather,
    /// Every rank ends with its part of the sum.
    ReduceScatter,
    /// Every rank ends with the root's buffer.
    Broadcast,
    /// Every rank sends its buffer to the next and receives from the one before.
    SendReceive,
    /// The root ends with the sum over all ranks.
    Reduce,
    /// The root ends with all ranks' parts.
    Gather,
    /// Every rank ends with its part of the root's buffer.
    Scatter,
    /// As all_to_all, but slices are as long as the receiving rank is popular: tokens that
    /// go to the experts of a mixture ([`CollectivePoint::part`]).
    #[serde(rename = "all_to_allv")]
    AllToAllV,
}

impl Collective {
    /// The rank from which a broadcast or scatter comes, and to which a reduce or gather goes.
    pub const ROOT: u32 = 0;

    /// Whether the message is a whole buffer of which each rank has a part.
    pub fn in_parts(self) -> bool {
        match self {
            AllToAll | AllToAllV | AllGather | ReduceScatter | Gather | Scatter => true,
            AllReduce | Broadcast | Reduce | SendReceive => false,
        }
    }

    /// Whether elements are added.
    pub fn sums(self) -> bool {
        matches!(self, AllReduce | ReduceScatter | Reduce)
    }

    /// Whether one rank differs from the others.
    pub fn has_root(self) -> bool {
        match self {
            Broadcast | Reduce | Gather | Scatter => true,
            AllReduce | AllToAll | AllToAllV | AllGather | ReduceScatter | SendReceive => false,
        }
    }

    /// Whether it can be done where send and receive buffer are the same. `nccl-tests` reports
    /// nothing for those that cannot ("we don't support in-place").
    pub fn exists(self, place: Place) -> bool {
        let apart = matches!(self, AllToAll | AllToAllV | SendReceive);
        place != Place::InPlace || !apart
    }

    /// Bytes that one rank's buffers hold to send and to receive, for a message as `nccl-tests`
    /// counts it (`GetCollByteCount` of its `src/*.cu`). Every rank's are as large as the root's.
    pub fn buffer_bytes(self, message: Bytes, ranks: u32) -> [Bytes; 2] {
        let part = Bytes(message.0 / u64::from(ranks));
        match self {
            AllGather | Gather => [part, message],
            ReduceScatter | Scatter => [message, part],
            AllReduce | AllToAll | AllToAllV | Broadcast | Reduce | SendReceive => {
                [message, message]
            }
        }
    }

    /// The factor from algorithm bandwidth to bus bandwidth (`nccl-tests`, `doc/PERFORMANCE.md`
    /// and `src/*.cu`).
    pub fn bus_factor(self, ranks: u32) -> f64 {
        let n = f64::from(ranks);
        match self {
            AllReduce => 2.0 * (n - 1.0) / n,
            AllToAll | AllToAllV | AllGather | ReduceScatter | Gather | Scatter => (n - 1.0) / n,
            Broadcast | Reduce | SendReceive => 1.0,
        }
    }
}

impl CollectivePoint {
    /// Out of place, in plain buffers, each enqueued by itself.
    pub fn new(
        collective: Collective,
        dtype: Dtype,
        message: Bytes,
        ranks: u32,
    ) -> CollectivePoint {
        let (place, buffers) = (Place::OutOfPlace, Buffers::Plain);
        CollectivePoint { collective, dtype, message, ranks, place, buffers, graph: 0 }
    }

    /// Whether each rank's buffers begin where every other's do, counted from the start of their
    /// memory. Windows ask for that ("the offset to the buffer head address from all ranks must be
    /// equal": NCCL's manual on `NCCL_WIN_COLL_SYMMETRIC`).
    pub fn offsets_are_alike(&self) -> bool {
        let in_own_part = match self.collective {
            AllGather | Gather | ReduceScatter | Scatter => true,
            AllReduce | AllToAll | AllToAllV | Broadcast | Reduce | SendReceive => false,
        };
        self.place != Place::InPlace || !in_own_part
    }

    /// What differs from plain buffers and single collectives: `, symmetric buffers, graphs of 16`;
    /// nothing where nothing does.
    pub fn variant(&self) -> String {
        let buffers = match self.buffers {
            Buffers::Plain => String::new(),
            other => format!(", {other} buffers"),
        };
        match self.graph {
            0 => buffers,
            count => format!("{buffers}, graphs of {count}"),
        }
    }

    /// Elements of one buffer, or of one rank's part where there are parts: the `count` column of
    /// `nccl-tests`, and the argument of NCCL's functions.
    pub fn count(&self) -> u64 {
        let parts = if self.collective.in_parts() { u64::from(self.ranks) } else { 1 };
        self.message.0 / parts / self.element()
    }

    /// Bytes that every rank sends to `rank` in a collective with slices.
    ///
    /// In all_to_allv the slices fall evenly from the first rank's, one part of the message, to
    /// the last rank's, a third of that: the busiest rank receives 1.5 times the mean however
    /// many there are, as routers leave it that balance their experts but loosely. All that the
    /// busiest rank receives is the message.
    pub fn part(&self, rank: u32) -> Bytes {
        let count = self.count();
        if self.collective != Collective::AllToAllV {
            return Bytes(count * self.element());
        }
        let last = u128::from(self.ranks.saturating_sub(1).max(1));
        let share = 3 * last - 2 * u128::from(rank);
        Bytes((u128::from(count) * share / (3 * last)) as u64 * self.element())
    }

    /// Where the slice for `rank` begins in what every rank sends.
    pub fn sent_before(&self, rank: u32) -> Bytes {
        Bytes((0..rank).map(|before| self.part(before).0).sum())
    }

    /// Bytes that a rank sends.
    pub fn sends(&self, rank: u32) -> Bytes {
        let [send, _] = self.collective.buffer_bytes(self.message, self.ranks);
        match self.collective {
            Collective::Broadcast | Collective::Scatter if rank != Collective::ROOT => Bytes(0),
            Collective::AllToAllV => self.sent_before(self.ranks),
            _ => send,
        }
    }

    /// Bytes that a rank receives.
    pub fn receives(&self, rank: u32) -> Bytes {
        let [_, receive] = self.collective.buffer_bytes(self.message, self.ranks);
        match self.collective {
            Collective::Reduce | Collective::Gather if rank != Collective::ROOT => Bytes(0),
            Collective::AllToAllV => self.part(rank) * u64::from(self.ranks),
            _ => receive,
        }
    }

    /// Bytes of the buffers of one rank.
    pub fn memory(&self) -> Bytes {
        let [send, receive] = self.collective.buffer_bytes(self.message, self.ranks);
        match self.place {
            Place::InPlace => send.max(receive),
            Place::OutOfPlace => send + receive,
            Place::Unaligned => send + receive + Bytes(4 * self.element()),
        }
    }

    fn element(&self) -> u64 {
        (self.dtype.bits() / 8).max(1)
    }

    /// The bus bytes, which are all that one rank must send.
    pub(super) fn work(&self) -> Work {
        let link = self.message.0 as f64 * self.collective.bus_factor(self.ranks);
        Work { link: Bytes(link as u64), ..Work::default() }
    }
}

named!(Collective {
    AllReduce => "all_reduce", AllToAll => "all_to_all", AllGather => "all_gather",
    ReduceScatter => "reduce_scatter", Broadcast => "broadcast", SendReceive => "send_receive",
    Reduce => "reduce", Gather => "gather", Scatter => "scatter", AllToAllV => "all_to_allv",
});
impl fmt::Display for CollectivePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CollectivePoint { collective, dtype, ranks, place, buffers, graph, .. } = self;
        write!(f, "{collective}/{dtype}/{}/{ranks}r/{place}", compact(self.message))?;
        if !buffers.are_plain() {
            write!(f, "-{buffers}")?;
        }
        if *graph > 0 { write!(f, "-graph{graph}") } else { Ok(()) }
    }
}

named!(Buffers { Plain => "plain", Registered => "registered", Symmetric => "symmetric" });
named!(Place {
    InPlace => "in_place", OutOfPlace => "out_of_place", Unaligned => "unaligned",
});
