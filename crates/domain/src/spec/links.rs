//! The least time that links take: to the host, to one peer, to all peers, and between nodes.

use super::known::Known;
use crate::{
    case::{Algorithm, Collective, CollectivePoint, Point, Transfer, TransferPoint},
    units::{Bytes, BytesPerSecond},
};

/// GPUs of one node at most (DGX-2, HGX A100 with two boards). A part whose links connect more has
/// them between nodes too: NVL72, Helios.
const IN_ONE_NODE: u32 = 16;

/// Seconds for some bytes.
fn time(bytes: Bytes, rate: BytesPerSecond) -> f64 {
    (bytes / rate).0
}

impl Known<'_> {
    /// The least time of one iteration on the links that a point needs. None where it needs none,
    /// or where no rate of them is known.
    pub fn links_time(&self, point: &Point) -> Option<f64> {
        match point {
            Point::Transfer(transfer) => {
                let bytes = point.work().link;
                let rate = self.transfer_rate(transfer).filter(|_| bytes.0 > 0)?;
                Some(time(bytes, rate))
            }
            Point::Collective(collective) => {
                let all = [
                    self.peers_time(collective),
                    self.out_of_domain_time(collective),
                    self.network_time(collective),
                ];
                all.into_iter().flatten().filter(|time| *time > 0.0).reduce(f64::max)
            }
            _ => None,
        }
    }

    /// PCI Express between device and host: what both can do together, else the part's slot.
    fn pcie(&self) -> Option<BytesPerSecond> {
        let told = self.properties.pcie_bandwidth();
        told.or_else(|| self.part.and_then(|part| part.pcie_bandwidth()))
    }

    /// Whether a bridge is known to be missing.
    fn is_unbridged(&self) -> bool {
        self.part.is_some_and(|part| part.bridged) && self.conditions.links_up == Some(0)
    }

    /// What the link of a transfer carries in one direction. Where it is not known whether a
    /// bridge is there, it is taken to be.
    fn transfer_rate(&self, transfer: &TransferPoint) -> Option<BytesPerSecond> {
        let part = self.part.filter(|_| !self.is_unbridged());
        let pcie = self.pcie();
        match transfer.transfer {
            of if of.with_host() => self.part.and_then(|part| part.host_bandwidth).or(pcie),
            Transfer::AllToOneRead | Transfer::OneToAllWrite => {
                let Some((all, each)) = part.and_then(|p| p.link_bandwidth.zip(p.pair_bandwidth))
                else {
                    return pcie;
                };
                let peers = transfer.copies;
                let near = peers.min(part?.link_domain.unwrap_or(u32::MAX).saturating_sub(1));
                let links = (each * f64::from(near)).0.min(all.0);
                let others = if peers > near { pcie?.0 } else { 0.0 };
                Some(BytesPerSecond(links + others))
            }
            _ => part.and_then(|part| part.pair_bandwidth).or(pcie),
        }
    }

    /// Between ranks that the part's links connect: the least that any algorithm puts on one
    /// rank's link, since bus bandwidth counts a ring, also where the switch reduces.
    fn peers_time(&self, point: &CollectivePoint) -> Option<f64> {
        let part = self.part?;
        let algorithms: &[Algorithm] = part.algorithms;
        let bytes = point.wire_least(algorithms);
        let peers = match point.collective {
            Collective::SendReceive => 1,
            _ => point.ranks.min(part.link_domain.unwrap_or(u32::MAX)).saturating_sub(1),
        };
        let of_pairs = part.pair_bandwidth.map_or(f64::INFINITY, |pair| pair.0 * f64::from(peers));
        let links = BytesPerSecond(part.link_bandwidth?.0.min(of_pairs));
        let rate = if self.is_unbridged() { self.pcie()? } else { links };
        (bytes.0 > 0).then(|| time(bytes, rate))
    }

    /// The least number of link domains that this many ranks are in.
    fn domains(&self, ranks: u32) -> u32 {
        let domain = self.part.and_then(|part| part.link_domain);
        domain.map_or(1, |domain| ranks.div_ceil(domain.max(1)))
    }

    /// Within one node, from bridged GPUs to others: over PCI Express, each GPU of a bridge over
    /// its own.
    fn out_of_domain_time(&self, point: &CollectivePoint) -> Option<f64> {
        let domains = self.domains(point.ranks);
        if domains < 2 || self.conditions.network.is_some() {
            return None;
        }
        let each = point.leaves_node(domains)?.0 as f64 * f64::from(domains)
            / f64::from(point.ranks.max(1));
        Some(each / self.pcie()?.0)
    }

    /// Between nodes: what leaves each over all of its network interfaces, where they are known.
    /// Switches that reduce (SHARP) let an all_reduce send its message once; what a library chose
    /// is not known, so the lesser of both counts.
    fn network_time(&self, point: &CollectivePoint) -> Option<f64> {
        let network = self.conditions.network.filter(|network| network.gigabits > 0)?;
        let is_host = self.properties.backend == "host";
        let domain = self.part.and_then(|part| part.link_domain);
        // Nodes whose links reach each other are one.
        let groups = match domain {
            _ if is_host => network.nodes,
            Some(domain) if domain <= IN_ONE_NODE => network.nodes,
            Some(_) => self.domains(point.ranks).min(network.nodes),
            None => return None,
        };
        if groups < 2 {
            return None;
        }
        let nodes_each = f64::from(network.nodes) / f64::from(groups);
        let rate = f64::from(network.gigabits) * 1e9 / 8.0 * nodes_each;
        let bytes = match point.collective {
            Collective::AllReduce => point.leaves_node(groups)?.0.min(point.message.0),
            _ => point.leaves_node(groups)?.0,
        };
        Some(bytes as f64 / rate)
    }
}
