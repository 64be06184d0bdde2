//! What is measured of a device beyond streams and arithmetic: other ways of access, transfers over
//! links, and launches.

use super::{Work, compact};
use crate::{dtype::Dtype, units::Bytes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Access to memory other than in streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Rows of a table in random order: pages of a KV cache; 32-byte sectors.
    Gather,
    /// Three arrays read and one written, at once.
    #[serde(rename = "mix_3r1w")]
    Mix3r1w,
    /// One array read and three written.
    #[serde(rename = "mix_1r3w")]
    Mix1r3w,
    /// Each unit's shared memory.
    Shared,
    /// Each unit's first-level cache: a row that the unit reads again and again.
    FirstCache,
    /// The shared memory of another unit of a cluster.
    Distributed,
}

impl Access {
    /// Arrays read and written where it is a mix.
    pub fn mix(self) -> Option<[u64; 2]> {
        match self {
            Access::Mix3r1w => Some([3, 1]),
            Access::Mix1r3w => Some([1, 3]),
            Access::Gather | Access::Shared | Access::FirstCache | Access::Distributed => None,
        }
    }

    /// Whether it stays within the units.
    pub fn on_chip(self) -> bool {
        matches!(self, Access::Shared | Access::FirstCache | Access::Distributed)
    }
}

/// Access to memory other than in streams, by all units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AccessPoint {
    /// Which way.
    pub access: Access,
    /// Bytes that one iteration reads and writes on all units together.
    pub working_set: Bytes,
    /// Bytes that are side by side; of a first-level cache those that a unit reads again and again;
    /// 16 where the way has no rows.
    pub row: Bytes,
    /// Units that take part.
    pub units: u32,
}

impl AccessPoint {
    /// A gather reads each row's number too: 4 bytes.
    pub(super) fn work(&self) -> Work {
        let numbers = match self.access {
            Access::Gather => Bytes(4) * self.rows(),
            _ => Bytes(0),
        };
        Work { memory: self.working_set + numbers, ..Work::default() }
    }

    /// Rows of a gather.
    pub fn rows(&self) -> u64 {
        self.working_set.0 / self.row.0.max(1)
    }
}

impl fmt::Display for AccessPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [working_set, row] = [self.working_set, self.row].map(compact);
        write!(f, "{}/{working_set}/{row}/{}u", self.access, self.units)
    }
}

/// Bytes from one memory to another, by the names of NVIDIA's nvbandwidth, whose users they are
/// for. Its suffix, `ce` (copy engine) or `sm`, is the kernel here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transfer {
    /// From the host's memory to the device's.
    HostToDeviceMemcpy,
    /// From the device's memory to the host's.
    DeviceToHostMemcpy,
    /// From the host to the device, while copies go the other way.
    HostToDeviceBidirectionalMemcpy,
    /// From the host to one device, while copies go to all others.
    HostToAllMemcpy,
    /// From one device to the host, while copies come from all others.
    AllToHostMemcpy,
    /// Within the device's memory.
    DeviceLocalCopy,
    /// From a peer to this device.
    DeviceToDeviceMemcpyRead,
    /// From this device to a peer.
    DeviceToDeviceMemcpyWrite,
    /// Both ways at once, each device reading from the other.
    DeviceToDeviceBidirectionalMemcpyRead,
    /// From all peers to this device at once.
    AllToOneRead,
    /// From this device to all peers at once.
    OneToAllWrite,
    /// Dependent loads of the host's memory: the time of one.
    HostDeviceLatency,
    /// Dependent loads of a peer's memory.
    DeviceToDeviceLatency,
}

impl Transfer {
    /// Whether it is the time of one load.
    pub fn is_latency(self) -> bool {
        matches!(self, Transfer::HostDeviceLatency | Transfer::DeviceToDeviceLatency)
    }

    /// Whether the host's memory is at one end.
    pub fn with_host(self) -> bool {
        matches!(
            self,
            Transfer::HostToDeviceMemcpy
                | Transfer::DeviceToHostMemcpy
                | Transfer::HostToDeviceBidirectionalMemcpy
                | Transfer::HostToAllMemcpy
                | Transfer::AllToHostMemcpy
                | Transfer::HostDeviceLatency
        )
    }

    /// Whether one peer is at the other end.
    pub fn with_peer(self) -> bool {
        matches!(
            self,
            Transfer::DeviceToDeviceMemcpyRead
                | Transfer::DeviceToDeviceMemcpyWrite
                | Transfer::DeviceToDeviceBidirectionalMemcpyRead
                | Transfer::DeviceToDeviceLatency
        )
    }

    /// Whether all other devices take part.
    pub fn with_all(self) -> bool {
        matches!(
            self,
            Transfer::HostToAllMemcpy
                | Transfer::AllToHostMemcpy
                | Transfer::AllToOneRead
                | Transfer::OneToAllWrite
        )
    }
}

/// How host memory is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HostMemory {
    /// Page-locked, so that devices reach it.
    Pinned,
    /// Allocated by malloc: the driver copies it through a page-locked buffer.
    Pageable,
}

/// A NUMA node of the host whose memory a transfer is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryNode {
    /// Its number, as the kernel counts nodes.
    pub number: u32,
    /// How far it is from the node that the device is attached to, in the units of the firmware's
    /// table (SLIT), in which 10 is the node itself. `None` where the kernel does not tell which
    /// node that is.
    pub distance: Option<u32>,
}

impl MemoryNode {
    /// The distance of a node from itself (ACPI Specification, "System Locality Information
    /// Table").
    pub const LOCAL: u32 = 10;
}

impl fmt::Display for MemoryNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.distance {
            Some(distance) => write!(f, "node{}-d{distance}", self.number),
            None => write!(f, "node{}", self.number),
        }
    }
}

/// A transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransferPoint {
    /// What is copied where.
    pub transfer: Transfer,
    /// Bytes of one copy; of a latency, those that the chain of pointers covers.
    pub size: Bytes,
    /// How the host's memory is allocated, where the host is at one end.
    pub host: HostMemory,
    /// The NUMA node that the host's memory is bound to; `None`: the node that the device at the
    /// other end is attached to.
    pub node: Option<MemoryNode>,
    /// The device that measures.
    pub device: u32,
    /// The device at the other end of a copy between two; of a copy between the host and another
    /// device than the one that measures, that device.
    pub peer: Option<u32>,
    /// Copies at once.
    pub copies: u32,
}

impl TransferPoint {
    /// What one link has to carry in one direction; of a copy within the device, what memory has
    /// to: each byte is read and written.
    pub(super) fn work(&self) -> Work {
        match self.transfer {
            Transfer::DeviceLocalCopy => Work { memory: self.size * 2, ..Work::default() },
            Transfer::HostDeviceLatency | Transfer::DeviceToDeviceLatency => Work::default(),
            // Each device has a link of its own to the host; what one device sends to its peers,
            // or gets from them, goes over its own.
            Transfer::AllToOneRead | Transfer::OneToAllWrite => {
                Work { link: self.size * u64::from(self.copies), ..Work::default() }
            }
            _ => Work { link: self.size, ..Work::default() },
        }
    }

    /// Whether the first copy alone is measured, and the others only run at the same time: what
    /// nvbandwidth measures where copies of several links or directions meet at the host.
    pub fn has_interference(&self) -> bool {
        matches!(
            self.transfer,
            Transfer::HostToDeviceBidirectionalMemcpy
                | Transfer::HostToAllMemcpy
                | Transfer::AllToHostMemcpy
        )
    }

    /// What is moved by the copies that are measured, which the rate is quoted of.
    pub fn moved(&self) -> Bytes {
        if self.has_interference() { self.size } else { self.size * u64::from(self.copies) }
    }

    /// Bytes of one copy that is not measured: twice as many, so that it lasts longer.
    pub fn interference(&self) -> Bytes {
        self.size * 2
    }

    /// Memory at both ends of all copies.
    pub fn memory(&self) -> Bytes {
        let others = u64::from(self.copies.saturating_sub(1));
        match self.has_interference() {
            true => self.size * 2 + self.interference() * (2 * others),
            false => self.moved() * 2,
        }
    }
}

impl fmt::Display for TransferPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.transfer, compact(self.size))?;
        if self.transfer.with_host() {
            write!(f, "/{}", self.host)?;
        }
        if let Some(node) = self.node {
            write!(f, "/{node}")?;
        }
        if self.transfer.with_all() {
            write!(f, "/{}d", self.copies)?;
        }
        match (self.peer, self.transfer.with_host()) {
            (Some(peer), true) => write!(f, "/of{peer}"),
            (Some(peer), false) => write!(f, "/{}-{peer}", self.device),
            (None, _) => Ok(()),
        }
    }
}

/// How work is given to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Launching {
    /// One after the other, enqueued before: what the device takes from one to the next.
    Queued,
    /// One, and the host waits for its end before the next: there and back.
    Waited,
    /// As a graph, enqueued as one.
    Graph,
}

/// Launches of next to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaunchPoint {
    /// How the work is given to the device.
    pub launching: Launching,
    /// Kernels of one iteration.
    pub kernels: u32,
}

impl fmt::Display for LaunchPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}k", self.launching, self.kernels)
    }
}

/// An instruction of one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Instruction {
    /// An addition.
    Add,
    /// A multiplication.
    Mul,
    /// A fused multiply-add, of which the sum waits for the one before.
    Fma,
    /// An addition of 32-bit integers.
    IntegerAdd,
    /// A multiply-add of 32-bit integers, of which the factor waits for the one before.
    IntegerMad,
    /// An exponential by the unit for it.
    Exp,
    /// A conversion to a 32-bit integer or from one: the mean of both.
    Convert,
    /// An exchange of 32 bits with another lane.
    Shuffle,
    /// A load of 32 bits from the unit's shared memory.
    SharedLoad,
    /// A multiplication by the matrix unit, of which the sums wait for the one before.
    Matrix,
}

impl Instruction {
    /// Whether there is one for each element type, and not one of 32-bit words alone.
    pub fn has_types(self) -> bool {
        use Instruction::*;
        !matches!(self, IntegerAdd | IntegerMad | Shuffle | SharedLoad)
    }
}

/// A chain of one instruction, each of which takes the result of the one before, on one unit. One
/// iteration is one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InstructionPoint {
    /// Which one.
    pub instruction: Instruction,
    /// Element type, where it has one ([`Instruction::has_types`]).
    pub dtype: Option<Dtype>,
}

impl fmt::Display for InstructionPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.instruction)?;
        self.dtype.map_or(Ok(()), |dtype| write!(f, "/{dtype}"))
    }
}

impl InstructionPoint {
    /// Instructions that are always made together: the chain's value is then where it began.
    pub const ROUND: u32 = 1024;

    /// The value that every round of a chain begins and ends with.
    pub const START: f64 = 1.0;
}

named!(Access {
    Gather => "gather", Mix3r1w => "mix_3r1w", Mix1r3w => "mix_1r3w", Shared => "shared",
    FirstCache => "first_cache", Distributed => "distributed",
});
named!(HostMemory { Pinned => "pinned", Pageable => "pageable" });
named!(Instruction {
    Add => "add", Mul => "mul", Fma => "fma", IntegerAdd => "integer_add",
    IntegerMad => "integer_mad", Exp => "exp", Convert => "convert", Shuffle => "shuffle",
    SharedLoad => "shared_load", Matrix => "matrix",
});
named!(Launching { Queued => "queued", Waited => "waited", Graph => "graph" });
named!(Transfer {
    HostToDeviceMemcpy => "host_to_device_memcpy",
    DeviceToHostMemcpy => "device_to_host_memcpy",
    HostToDeviceBidirectionalMemcpy => "host_to_device_bidirectional_memcpy",
    HostToAllMemcpy => "host_to_all_memcpy",
    AllToHostMemcpy => "all_to_host_memcpy",
    DeviceLocalCopy => "device_local_copy",
    DeviceToDeviceMemcpyRead => "device_to_device_memcpy_read",
    DeviceToDeviceMemcpyWrite => "device_to_device_memcpy_write",
    DeviceToDeviceBidirectionalMemcpyRead => "device_to_device_bidirectional_memcpy_read",
    AllToOneRead => "all_to_one_read",
    OneToAllWrite => "one_to_all_write",
    HostDeviceLatency => "host_device_latency",
    DeviceToDeviceLatency => "device_to_device_latency",
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_stable_and_work_is_counted_once() {
        let point = |transfer, peer, copies| TransferPoint {
            transfer,
            size: Bytes::MIB * 64,
            host: HostMemory::Pinned,
            node: None,
            device: 0,
            peer,
            copies,
        };
        let one = point(Transfer::HostToDeviceMemcpy, None, 1);
        assert_eq!(one.to_string(), "host_to_device_memcpy/64MiB/pinned");
        assert_eq!((one.work().link, one.moved()), (Bytes::MIB * 64, Bytes::MIB * 64));
        let both = point(Transfer::HostToDeviceBidirectionalMemcpy, None, 2);
        assert_eq!((both.work().link, both.moved()), (Bytes::MIB * 64, Bytes::MIB * 64));
        assert_eq!((both.memory(), one.memory()), (Bytes::MIB * 384, Bytes::MIB * 128));
        let other = point(Transfer::HostToAllMemcpy, Some(3), 8);
        assert_eq!(other.to_string(), "host_to_all_memcpy/64MiB/pinned/8d/of3");
        let node = Some(MemoryNode { number: 1, distance: Some(21) });
        let far = TransferPoint { node, ..point(Transfer::HostToAllMemcpy, None, 8) };
        assert_eq!(far.to_string(), "host_to_all_memcpy/64MiB/pinned/node1-d21/8d");
        assert_eq!(MemoryNode { number: 0, distance: None }.to_string(), "node0");
        let reads = point(Transfer::DeviceToDeviceBidirectionalMemcpyRead, Some(3), 2);
        assert_eq!((reads.work().link, reads.moved()), (Bytes::MIB * 64, Bytes::MIB * 128));
        let peer = point(Transfer::DeviceToDeviceMemcpyRead, Some(3), 1);
        assert_eq!(peer.to_string(), "device_to_device_memcpy_read/64MiB/0-3");
        let all = point(Transfer::AllToOneRead, None, 7);
        assert_eq!(all.to_string(), "all_to_one_read/64MiB/7d");
        assert_eq!(all.work().link, Bytes::MIB * 448);
        let gather = AccessPoint {
            access: Access::Gather,
            working_set: Bytes::MIB,
            row: Bytes(32),
            units: 4,
        };
        assert_eq!(gather.to_string(), "gather/1MiB/32B/4u");
        assert_eq!(gather.work().memory, Bytes((1 << 20) + (4 << 15)));
        let launch = LaunchPoint { launching: Launching::Graph, kernels: 32 };
        assert_eq!(launch.to_string(), "graph/32k");
    }
}
