//! How likely it is that a change is nothing but single bad sessions in turn: by how often single
//! sessions of the store are off their level by the least effect.
//!
//! What slows a whole node for one session slows all of its devices: that is one bad session, and
//! not as many as the node has devices. Devices of a node that change on the same day and in the
//! same direction are therefore one **event**. Its chance is that of sessions in which as many
//! devices of a node were off together, counted by nodes, and it counts as one discovery.

use super::{course::Level, drift::Series};
use std::collections::{BTreeMap, HashMap};

/// How many sessions of a subject are off, those of devices and those of nodes.
#[derive(Default)]
struct Counted<'s> {
    /// Sessions of devices.
    sessions: usize,
    /// Of these, those that are low, and those that are high.
    off: [usize; 2],
    /// For each session of a node how many of its devices are low, and how many high.
    nodes: HashMap<(&'s str, &'s str), [usize; 2]>,
    /// Sessions of nodes with at least as many low devices, and high ones, as the index says.
    at_least: [Vec<usize>; 2],
}

/// With half a session more than was counted (Jeffreys), since none that was seen is not none.
fn share(count: usize, of: usize) -> f64 {
    (count as f64 + 0.5) / (of as f64 + 1.0)
}

impl Counted<'_> {
    /// The share of the sessions in which `together` devices of a node, or more, are off to one
    /// side: of a device by itself at least that of single devices.
    fn share(&self, side: usize, together: usize) -> f64 {
        let of_devices = share(self.off[side], self.sessions);
        if together < 2 {
            return of_devices;
        }
        let of_nodes = self.at_least[side].get(together).copied().unwrap_or_default();
        of_devices.max(share(of_nodes, self.nodes.len()))
    }

    fn close(&mut self) {
        let most = self.nodes.values().flatten().copied().max().unwrap_or_default();
        for side in [0, 1] {
            let count = |least: usize| self.nodes.values().filter(|off| off[side] >= least).count();
            self.at_least[side] = (0..=most).map(count).collect();
        }
    }
}

/// A node, or a part as a whole; a day; and whether the rate fell.
type Event<'s> = (&'s str, &'s str, bool);

/// Single bad sessions and common changes of all series.
pub(super) struct Lone<'s> {
    counted: HashMap<u32, Counted<'s>>,
    /// Devices that change together, by subject.
    together: HashMap<(u32, Event<'s>), usize>,
}

/// The event that a change belongs to. None where no side agrees, or it is less than the least
/// effect.
fn event<'s>(series: &'s Series, level: &Level) -> Option<Event<'s>> {
    let is_change = level.agrees && level.change.exp_m1().abs() >= series.effect;
    let whose = if series.node.is_empty() { &series.device } else { &series.node };
    is_change.then(|| (whose.as_str(), series.points[level.at].date(), level.change < 0.0))
}

impl<'s> Lone<'s> {
    /// Counts them in all series, each with its level.
    pub(super) fn of<'l>(
        all: impl Iterator<Item = (&'s Series, &'l [f64], Option<Level>)>,
    ) -> Lone<'s> {
        let mut counted: HashMap<u32, Counted<'s>> = HashMap::new();
        let mut together: HashMap<(u32, Event<'s>), usize> = HashMap::new();
        for (series, logs, level) in all {
            let known = counted.entry(series.subject).or_default();
            known.sessions += logs.len();
            if !series.node.is_empty() {
                for point in &series.points {
                    known.nodes.entry((&series.node, point.date())).or_default();
                }
            }
            let Some(level) = level else { continue };
            for (side, places) in level.lone(logs, series.effect).into_iter().enumerate() {
                known.off[side] += places.len();
                for point in places.into_iter().map(|at| &series.points[at]) {
                    if let Some(off) = known.nodes.get_mut(&(&*series.node, point.date())) {
                        off[side] += 1;
                    }
                }
            }
            if let Some(event) = event(series, &level) {
                *together.entry((series.subject, event)).or_default() += 1;
            }
        }
        counted.values_mut().for_each(Counted::close);
        Lone { counted, together }
    }

    /// The probability that all sessions of one side of a change are bad ones: those after it, or
    /// those before it, which is twice that of one of them.
    pub(super) fn chance(&self, series: &Series, level: &Level) -> f64 {
        let Some(counted) = self.counted.get(&series.subject) else { return 1.0 };
        let event = event(series, level).map(|event| (series.subject, event));
        let together = event.and_then(|event| self.together.get(&event)).copied();
        let share = |side| counted.share(side, together.unwrap_or(1));
        let fell = level.change < 0.0;
        let (after, before) = (share(usize::from(!fell)), share(usize::from(fell)));
        let [of_before, of_after] = level.sides.map(|count| count as f64);
        (2.0 * after.powf(of_after).max(before.powf(of_before))).min(1.0)
    }

    /// The probabilities of changes, with that of each event once: 1 for its other devices. A node
    /// that changes as a whole is one discovery, whose devices must not vouch for each other.
    pub(super) fn once<'l>(all: impl Iterator<Item = (&'s Series, &'l Level, f64)>) -> Vec<f64> {
        let mut chances = Vec::new();
        let mut least: BTreeMap<Event<'s>, usize> = BTreeMap::new();
        for (at, (series, level, chance)) in all.enumerate() {
            chances.push(chance);
            let Some(event) = event(series, level) else { continue };
            let known = least.entry(event).or_insert(at);
            if *known != at {
                let other =
                    if chance < chances[*known] { std::mem::replace(known, at) } else { at };
                chances[other] = 1.0;
            }
        }
        chances
    }
}
