//! Copies from each NUMA node of the host: whether a device is nearest to the node that the kernel
//! says it is attached to.

use super::{Node, Row};
use crate::accept::{Judged, cause::Cause, decide::LOOKS};
use fizeau_domain::{case::MemoryNode, verdict::Verdict};

/// A device's own node by the kernel, and another one that its copies are faster from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Faster {
    own: u32,
    other: u32,
}

/// The node that a point's id names, and the id without it: `transfer/../pinned/node1-d21/8d`.
fn place_of(point: &str) -> Option<(MemoryNode, String)> {
    let node = |word: &str| {
        let word = word.strip_prefix("node")?;
        let (number, distance) = match word.split_once("-d") {
            Some((number, distance)) => (number, Some(distance.parse().ok()?)),
            None => (word, None),
        };
        Some(MemoryNode { number: number.parse().ok()?, distance })
    };
    let found = point.split('/').find_map(node)?;
    let rest: Vec<&str> = point.split('/').filter(|word| node(word).is_none()).collect();
    Some((found, rest.join("/")))
}

/// Whether a point has peers on other devices: with memory of a node at an unknown distance it is
/// near for one device and far for another.
pub(super) fn has_peers(point: &str) -> bool {
    place_of(point).is_none_or(|(node, _)| node.distance.is_some())
}

impl Node<'_> {
    /// The node that a device's copies are faster from than from its own by more than the least
    /// effect, where every repeat from the one is faster than every repeat from the other.
    pub(super) fn faster_node(&self, rows: &[&Row]) -> Option<Faster> {
        let placed = rows.iter().filter(|row| row.readings.len() >= LOOKS[0]);
        let placed: Vec<(&Row, (MemoryNode, String))> =
            placed.filter_map(|row| Some((*row, place_of(&row.metric.point)?))).collect();
        let is_near = |node: &MemoryNode| node.distance == Some(MemoryNode::LOCAL);
        for (near, (own, way)) in placed.iter().filter(|(_, (node, _))| is_near(node)) {
            let effect = self.profile.checks[near.metric.check].least_effect;
            for (far, (other, _)) in placed
                .iter()
                .filter(|(_, (node, of))| of == way && node.distance.is_some() && !is_near(node))
            {
                let best = near.readings.iter().map(|one| one.value).fold(0.0, f64::max);
                let least = far.readings.iter().map(|one| one.value).fold(f64::INFINITY, f64::min);
                if far.metric.check == near.metric.check && best < least * (1.0 - effect) {
                    return Some(Faster { own: own.number, other: other.number });
                }
            }
        }
        None
    }
}

impl Faster {
    /// In words.
    pub(super) fn words(self) -> String {
        let Faster { own, other } = self;
        format!(
            "copies are faster from memory of NUMA node {other} than from node {own}, to which the \
             kernel says that it is attached"
        )
    }

    /// What is said where no rate fails for it: all devices may be described wrongly.
    pub(super) fn judged(self, device: &str, stub: bool) -> Judged {
        let words = format!("{}: look at its slot and the firmware's tables", self.words());
        let judged = Judged::of_state("NUMA node", device, Verdict::Inconclusive, words);
        Judged { stub, ..judged.because(Cause::NumaNode) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_points_node_is_read_from_its_id() {
        let of =
            |number, distance, rest: &str| Some((MemoryNode { number, distance }, rest.to_owned()));
        let alone = "transfer/host_to_device_memcpy/32MiB/pinned";
        assert_eq!(place_of(&format!("{alone}/node1-d21")), of(1, Some(21), alone));
        let all = "transfer/host_to_all_memcpy/32MiB/pinned/node12/8d";
        let rest = "transfer/host_to_all_memcpy/32MiB/pinned/8d";
        assert_eq!(place_of(all), of(12, None, rest));
        assert_eq!((place_of(rest), place_of("stream/read/nodes/1u")), (None, None));
        assert!(has_peers(rest) && has_peers(&format!("{alone}/node0-d10")) && !has_peers(all));
    }
}
