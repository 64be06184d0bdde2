//! What a collective puts on the wire, by the algorithm that carries it out. Bus bandwidth is a
//! convention by which collectives can be set beside each other: it counts what a ring would send,
//! also where nothing goes round in a ring.

use super::{Collective, CollectivePoint};
use crate::units::Bytes;

/// How a library carries a collective out. It does not tell which it has chosen but in its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Each rank to its neighbour, round and round.
    Ring,
    /// Two binary trees, each with half of the message, in which a rank is a leaf of one and not of
    /// the other (Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast,
    /// reduction and scan", 2009; NVIDIA, "Massively scale your deep learning training with NCCL
    /// 2.4", 2019).
    Tree,
    /// The switch adds up what all ranks give it, and gives it to all: NVLink SHARP (`NVLS`).
    Switch,
    /// From each rank to each, and no further.
    Direct,
}

impl CollectivePoint {
    /// Bytes that the link of the busiest rank carries in its busier direction; none where an
    /// algorithm is not for this collective. One rank has no link.
    ///
    /// An all_reduce of S bytes by n ranks takes 2 (n - 1) / n S round a ring (nccl-tests,
    /// `doc/PERFORMANCE.md`); 2 S by two trees: each half goes up once and comes down to two; and
    /// (1 + 1 / n) S with a switch that reduces: each rank gives its S to be added up, and gives
    /// out the part that it has got the sum of (github.com/NVIDIA/nccl/issues/2140).
    pub fn wire(&self, algorithm: Algorithm) -> Option<Bytes> {
        let n = f64::from(self.ranks.max(1));
        let part = (n - 1.0) / n;
        let factor = match (self.collective, algorithm) {
            (_, _) if self.ranks < 2 => 0.0,
            (Collective::AllReduce, Algorithm::Ring) => 2.0 * part,
            (Collective::AllReduce, Algorithm::Tree) => {
                if self.ranks == 2 {
                    1.0
                } else {
                    2.0
                }
            }
            (Collective::AllReduce, Algorithm::Switch) => 1.0 + 1.0 / n,
            (Collective::AllGather | Collective::ReduceScatter, Algorithm::Ring) => part,
            (Collective::Broadcast | Collective::Reduce, Algorithm::Ring) => 1.0,
            (
                Collective::AllToAll
                | Collective::AllToAllV
                | Collective::Gather
                | Collective::Scatter,
                Algorithm::Direct,
            ) => part,
            (Collective::SendReceive, Algorithm::Direct) => 1.0,
            _ => return None,
        };
        Some(Bytes((self.message.0 as f64 * factor) as u64))
    }

    /// The least of them by any of some algorithms: what no link can be faster than.
    pub fn wire_least(&self, algorithms: &[Algorithm]) -> Bytes {
        let least = algorithms.iter().filter_map(|&algorithm| self.wire(algorithm)).min();
        least.unwrap_or_default()
    }

    /// Bytes that leave or enter each node, for nodes with equally many ranks, where ranks of
    /// a node first come together and no switch between nodes reduces. On n ranks with a network
    /// interface each this is busbw (k - 1) / (n - 1) of an all_reduce for each interface. None
    /// for collectives of which one rank alone bears the most.
    pub fn leaves_node(&self, nodes: u32) -> Option<Bytes> {
        let k = f64::from(nodes.max(1));
        let others = (k - 1.0) / k;
        let factor = match self.collective {
            _ if nodes < 2 => 0.0,
            Collective::AllReduce => 2.0 * others,
            Collective::AllGather | Collective::ReduceScatter => others,
            Collective::AllToAll => others * f64::from(self.ranks) / k,
            Collective::Broadcast | Collective::Reduce => 1.0,
            Collective::AllToAllV
            | Collective::SendReceive
            | Collective::Gather
            | Collective::Scatter => return None,
        };
        Some(Bytes((self.message.0 as f64 * factor) as u64))
    }
}

named!(Algorithm { Ring => "ring", Tree => "tree", Switch => "switch", Direct => "direct" });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Dtype;

    fn point(collective: Collective, ranks: u32) -> CollectivePoint {
        CollectivePoint::new(collective, Dtype::Bf16, Bytes(720_720_000), ranks)
    }

    fn factor(bytes: Option<Bytes>) -> f64 {
        bytes.map_or(f64::NAN, |bytes| bytes.0 as f64 / 720_720_000.0)
    }

    /// H200: 480 GB/s of bus bandwidth with a switch that reduces are 308.6 on the wire; 8 ranks'
    /// factor is 1.125.
    #[test]
    fn a_switch_that_reduces_spares_the_wire() {
        let all_reduce = point(Collective::AllReduce, 8);
        assert_eq!(factor(all_reduce.wire(Algorithm::Switch)), 1.125);
        assert_eq!(factor(all_reduce.wire(Algorithm::Ring)), 1.75);
        assert_eq!(factor(all_reduce.wire(Algorithm::Tree)), 2.0);
        assert_eq!(all_reduce.wire(Algorithm::Direct), None);
        let on_the_wire = 480.0 / all_reduce.collective.bus_factor(8) * 1.125;
        assert!((on_the_wire - 308.6).abs() < 0.1, "{on_the_wire}");
        assert_eq!(factor(Some(all_reduce.wire_least(&Algorithm::ALL))), 1.125);
        // Two ranks have nothing to gain by it.
        let two = point(Collective::AllReduce, 2);
        assert_eq!(factor(Some(two.wire_least(&Algorithm::ALL))), 1.0);
    }

    #[test]
    fn every_collective_has_a_wire_and_one_rank_has_none() {
        for collective in Collective::ALL {
            for ranks in [2, 3, 8, 72] {
                let point = point(collective, ranks);
                let least = factor(Some(point.wire_least(&Algorithm::ALL)));
                assert!(least > 0.0 && least <= collective.bus_factor(ranks) + 1e-9, "{point}");
            }
            assert_eq!(point(collective, 1).wire_least(&Algorithm::ALL), Bytes(0));
        }
    }

    /// busbw (k - 1) / (n - 1) for each of n interfaces.
    #[test]
    fn interfaces_carry_less_than_the_bus() {
        let (nodes, ranks) = (4, 32);
        let all_reduce = point(Collective::AllReduce, ranks);
        let each = factor(all_reduce.leaves_node(nodes)) / 8.0;
        let bus = all_reduce.collective.bus_factor(ranks);
        assert!((each - bus * 3.0 / 31.0).abs() < 1e-6, "{each}");
        let all_to_all = point(Collective::AllToAll, ranks);
        assert!((factor(all_to_all.leaves_node(nodes)) / 8.0 - 0.75).abs() < 1e-6);
        assert_eq!(all_reduce.leaves_node(1), Some(Bytes(0)));
    }
}
