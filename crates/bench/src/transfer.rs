//! The operation `transfer`: bytes from one memory to another, by copy engines (`ce`) and by the
//! units (`sm`), under the names of NVIDIA's nvbandwidth.
//!
//! What arrives is compared, every word of it. Copies that go at once are told apart by their data.

use super::{
    Prepared, Rank, Workload, access,
    chain::{Chain, LINE},
};
use fizeau_device::{Buffer, Device, DeviceError, Elsewhere, Function, HostNode, Launch};
use fizeau_domain::{
    case::{Case, HostMemory, KernelName, MemoryNode, Point, Transfer, TransferPoint},
    kernel::{Operation, TransferParams},
    outcome::Check,
    suite::Suite,
    units::Bytes,
};

/// Words after which what is copied repeats: the largest prime below 2^16.
const PERIOD: usize = 65_521;

/// What a chain of pointers covers in memory that is far away: no cache of this side holds it.
const CHAIN: Bytes = Bytes(2 << 20);

/// The cases of a suite.
pub fn cases(suite: &Suite, rank: Rank<'_>) -> Vec<Case> {
    let Some(axes) = &suite.transfer else { return Vec::new() };
    let device = rank.device;
    let peers = device.peers();
    let nodes = if axes.each_node { device.memory_nodes() } else { Vec::new() };
    let mut cases = Vec::new();
    for &transfer in &axes.transfers {
        let kernels = device.kernels(operation(transfer));
        let latency = [CHAIN.0];
        let sizes = if transfer.is_latency() { &latency[..] } else { &axes.sizes };
        // Latency is of memory that the device reaches, and so of pinned memory alone.
        let pinned = [HostMemory::Pinned];
        let host = match transfer {
            Transfer::HostDeviceLatency => &pinned[..],
            _ if transfer.with_host() => &axes.host,
            _ => &pinned,
        };
        for &size in sizes {
            let of = |&host| points(transfer, Bytes(size), host, device);
            for point in host.iter().flat_map(of).flat_map(|point| on_each_node(point, &nodes)) {
                let fit = |kernel: &&KernelName| fits(kernel, &point);
                let point_kernels = kernels.iter().filter(fit).cloned();
                let point = Point::Transfer(point);
                cases.extend(point_kernels.map(|kernel| Case { kernel, point }));
            }
        }
    }
    if peers.is_empty() {
        let alone = |case: &Case| match case.point {
            Point::Transfer(point) => !point.transfer.with_peer() && !point.transfer.with_all(),
            _ => true,
        };
        cases.retain(alone);
    }
    cases
}

/// Under which name a device lists what copies, or what chases pointers.
fn operation(transfer: Transfer) -> Operation {
    if transfer.is_latency() { Operation::Latency } else { Operation::Copy }
}

/// The kernels of bulk copies (TMA), as nvbandwidth abbreviates them.
pub const BULK: &str = "tma";

/// Whether a kernel can do it: units do not reach pageable memory, and copies on behalf of other
/// devices are those devices' engines'. Bulk copies are asked between memories of devices alone, as
/// nvbandwidth 0.10 does.
fn fits(kernel: &KernelName, point: &TransferPoint) -> bool {
    let by_units = kernel.0 != "ce";
    let of_others = matches!(
        point.transfer,
        Transfer::HostToAllMemcpy
            | Transfer::AllToHostMemcpy
            | Transfer::DeviceToDeviceBidirectionalMemcpyRead
    ) || point.transfer.with_host() && point.peer.is_some();
    !(by_units && (of_others || point.host == HostMemory::Pageable))
        && !(kernel.0 == BULK && point.transfer.with_host())
}

/// One point, or one for each pair of devices; of copies between the host and one device, one for
/// each device: this one and the others.
fn points(
    transfer: Transfer,
    size: Bytes,
    host: HostMemory,
    device: &dyn Device,
) -> Vec<TransferPoint> {
    let peers = device.peers();
    let own = device.properties().ordinal;
    let others = peers.len() as u32;
    let copies = match transfer {
        Transfer::HostToDeviceBidirectionalMemcpy
        | Transfer::DeviceToDeviceBidirectionalMemcpyRead => 2,
        Transfer::HostToAllMemcpy | Transfer::AllToHostMemcpy => others + 1,
        Transfer::AllToOneRead | Transfer::OneToAllWrite => others,
        _ => 1,
    };
    let (node, device) = (None, own);
    let point = |peer| TransferPoint { transfer, size, host, node, device, peer, copies };
    let of_peers = peers.iter().map(|&peer| point(Some(peer)));
    match transfer {
        _ if transfer.with_peer() => of_peers.collect(),
        // Its units chase pointers, not those of others.
        Transfer::HostDeviceLatency => vec![point(None)],
        _ if transfer.with_host() => std::iter::once(point(None)).chain(of_peers).collect(),
        _ => vec![point(None)],
    }
}

/// A point, and in its place one for each NUMA node of the host, where there are any and the host
/// is at one end. Copies of another device are left to that device, which has distances of its own.
fn on_each_node(point: TransferPoint, nodes: &[MemoryNode]) -> Vec<TransferPoint> {
    match point.transfer.with_host() && !nodes.is_empty() {
        false => vec![point],
        true if point.peer.is_some() => Vec::new(),
        true => nodes.iter().map(|&node| TransferPoint { node: Some(node), ..point }).collect(),
    }
}

/// One of the copies that go at once.
struct Lane {
    to: Buffer,
    _from: Buffer,
    params: TransferParams,
    pattern: Vec<u64>,
}

struct Transfers<'d> {
    device: &'d dyn Device,
    function: Function,
    lanes: Vec<Lane>,
}

/// An end of a copy.
#[derive(Clone, Copy)]
enum End {
    Own,
    Other(Elsewhere),
}

/// Where each copy goes from and to, and whose engine does it. The first is the one that is
/// measured where the others only interfere.
fn ends(point: &TransferPoint, peers: &[u32]) -> Vec<(End, End, u32)> {
    let own = point.device;
    // Of a copy with the host: the device at its other end, beside which the host's memory is.
    let one = point.peer.unwrap_or(own);
    let host = |near| End::Other(Elsewhere::Host { kind: point.host, on: host_node(point, near) });
    let at = |ordinal: u32| match ordinal == own {
        true => End::Own,
        false => End::Other(Elsewhere::Peer(ordinal)),
    };
    let peer = at(one);
    let all = || std::iter::once(own).chain(peers.iter().copied());
    let first = || std::iter::once(one).chain(all().filter(move |&other| other != one));
    match point.transfer {
        Transfer::HostToDeviceMemcpy => vec![(host(one), peer, one)],
        Transfer::DeviceToHostMemcpy => vec![(peer, host(one), one)],
        Transfer::HostToDeviceBidirectionalMemcpy => {
            vec![(host(one), peer, one), (peer, host(one), one)]
        }
        Transfer::HostToAllMemcpy => first().map(|one| (host(one), at(one), one)).collect(),
        Transfer::AllToHostMemcpy => first().map(|one| (at(one), host(one), one)).collect(),
        Transfer::DeviceLocalCopy => vec![(End::Own, End::Own, own)],
        Transfer::DeviceToDeviceMemcpyRead => vec![(peer, End::Own, own)],
        Transfer::DeviceToDeviceMemcpyWrite => vec![(End::Own, peer, own)],
        // Each device's engine reads from the other.
        Transfer::DeviceToDeviceBidirectionalMemcpyRead => {
            vec![(peer, End::Own, own), (End::Own, peer, one)]
        }
        Transfer::AllToOneRead => peers.iter().map(|&one| (at(one), End::Own, own)).collect(),
        Transfer::OneToAllWrite => peers.iter().map(|&one| (End::Own, at(one), own)).collect(),
        Transfer::HostDeviceLatency | Transfer::DeviceToDeviceLatency => Vec::new(),
    }
}

/// Where the host's memory is for a copy of a device.
fn host_node(point: &TransferPoint, device: u32) -> HostNode {
    point.node.map_or(HostNode::Near(device), |node| HostNode::Exactly(node.number))
}

fn allocate(device: &dyn Device, end: End, size: Bytes) -> Result<Buffer, DeviceError> {
    match end {
        End::Own => device.allocate(size),
        End::Other(place) => device.allocate_at(place, size),
    }
}

/// Makes a case ready.
pub fn prepare<'r>(
    point: &TransferPoint,
    kernel: &KernelName,
    Rank { device, .. }: Rank<'r>,
) -> Prepared<'r> {
    let function = device.load(operation(point.transfer), kernel)?;
    if point.transfer.is_latency() {
        let place = match point.peer {
            Some(peer) => Elsewhere::Peer(peer),
            None => Elsewhere::Host { kind: point.host, on: host_node(point, point.device) },
        };
        let chain = device.allocate_at(place, point.size)?;
        let lines: Vec<u32> = (0..(point.size.0 / LINE) as u32).collect();
        return Ok(Box::new(Chain::new(device, function, chain, &lines)?));
    }
    let peers = device.peers();
    let made = ends(point, &peers).into_iter().zip(0u32..).map(|((from, to, of), lane)| {
        let interferes = lane > 0 && point.has_interference();
        let size = if interferes { point.interference() } else { point.size };
        let from = allocate(device, from, size)?;
        let to = allocate(device, to, size)?;
        let mut random = oorandom::Rand64::new(u128::from(lane) + 1);
        let pattern: Vec<u64> = (0..PERIOD).map(|_| random.rand_u64()).collect();
        device.fill(&from, Bytes(0), &pattern, size.0 / 8)?;
        let (length, device) = (size.0, of);
        let lane = if interferes { lane | TransferParams::NOT_TIMED } else { lane };
        let params = TransferParams { to: to.address, from: from.address, length, device, lane };
        Ok(Lane { to, _from: from, params, pattern })
    });
    let lanes = made.collect::<Result<Vec<Lane>, DeviceError>>()?;
    Ok(Box::new(Transfers { device, function, lanes }))
}

impl Workload for Transfers<'_> {
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        // Kernels that go at once share the units.
        let blocks = (self.device.properties().units / self.lanes.len() as u32).max(1);
        self.lanes.iter().try_for_each(|lane| {
            let (function, params) = (&self.function, &lane.params);
            self.device.launch(&Launch { function, blocks, repeat, params: (*params).into() })
        })
    }

    fn poison(&mut self) -> Result<(), DeviceError> {
        self.lanes.iter().try_for_each(|lane| {
            self.device.fill(&lane.to, Bytes(0), &[0x5a; 1024], lane.params.length / 8)
        })
    }

    fn verify(&mut self) -> Result<Check, DeviceError> {
        let mut check = Check::NONE;
        for lane in &self.lanes {
            let words = lane.params.length / 8;
            let wrong = access::differing(self.device, &lane.to, Bytes(0), &lane.pattern, words)?;
            check.compared += words;
            check.wrong += wrong;
            check.error = check.error.max(wrong as f64);
        }
        Ok(check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transfer_has_as_many_copies_as_it_says() {
        for transfer in Transfer::ALL.into_iter().filter(|transfer| !transfer.is_latency()) {
            let (host, size) = (HostMemory::Pinned, Bytes::MIB);
            let peer = transfer.with_peer().then_some(1);
            let copies = match transfer {
                Transfer::HostToAllMemcpy | Transfer::AllToHostMemcpy => 3,
                Transfer::HostToDeviceBidirectionalMemcpy
                | Transfer::DeviceToDeviceBidirectionalMemcpyRead
                | Transfer::AllToOneRead
                | Transfer::OneToAllWrite => 2,
                _ => 1,
            };
            let node = None;
            let point = TransferPoint { transfer, size, host, node, device: 0, peer, copies };
            let ends = ends(&point, &[1, 2]);
            assert_eq!(ends.len(), copies as usize, "{transfer}");
            let of_host = |end: &End| matches!(end, End::Other(Elsewhere::Host { .. }));
            let host = ends.iter().any(|(from, to, _)| of_host(from) || of_host(to));
            assert_eq!(host, transfer.with_host(), "{transfer}");
            // Of another device than this one: its own memory and engine.
            if transfer.with_host() {
                let (_, _, of) = super::ends(&TransferPoint { peer: Some(2), ..point }, &[1, 2])[0];
                assert_eq!(of, 2, "{transfer}");
            }
        }
    }

    #[test]
    fn copies_from_each_node_are_of_the_host_and_of_this_device() {
        let nodes =
            [(0, 10), (1, 21)].map(|(number, far)| MemoryNode { number, distance: Some(far) });
        for transfer in Transfer::ALL {
            let point = |peer| TransferPoint {
                transfer,
                size: Bytes::MIB,
                host: HostMemory::Pinned,
                node: None,
                device: 0,
                peer,
                copies: 3,
            };
            let all = on_each_node(point(None), &nodes);
            assert_eq!(all.len(), if transfer.with_host() { 2 } else { 1 }, "{transfer}");
            let others = on_each_node(point(Some(1)), &nodes);
            assert_eq!(others.is_empty(), transfer.with_host(), "{transfer}");
            assert_eq!(on_each_node(point(None), &[]), [point(None)]);
            // Of copies that go at once the memory of all is on that node.
            let is_bound = |end: End| match end {
                End::Other(Elsewhere::Host { on, .. }) => on == HostNode::Exactly(1),
                _ => true,
            };
            let ends = ends(all.last().expect("a point"), &[1, 2]);
            assert!(ends.into_iter().all(|(from, to, _)| is_bound(from) && is_bound(to)));
        }
    }
}
