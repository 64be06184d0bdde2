//! What the ranks of a node show of themselves: that their processes live, and that they get on.

use super::{
    neighbours::{self, Peer},
    shared_board::Board,
};

/// A rank of this node.
struct Neighbour {
    rank: usize,
    slot: usize,
    process: u32,
    /// Its process was there at first, as far as its number tells: that of one from another
    /// container means nothing here, but such a one does not write on this node's board.
    was_there: bool,
    /// How often it had shown that it lives, and when that last changed.
    beats: (u64, u64),
    /// As much of its steps.
    steps: (u64, u64),
}

/// What the ranks of this node have last shown.
pub(super) struct NeighbourStates {
    neighbours: Vec<Neighbour>,
    has_board: bool,
}

/// Ranks of this node with whom something is wrong.
#[derive(Default)]
pub(super) struct Seen {
    /// Their processes are dead.
    pub dead: Vec<usize>,
    /// Their processes have shown nothing for longer than the limit.
    pub silent: Vec<usize>,
    /// They live, and have not got on for longer than the limit.
    pub idle: Vec<usize>,
}

impl NeighbourStates {
    /// Nothing yet, of these ranks.
    pub fn new<'p>(
        neighbours: impl Iterator<Item = (usize, &'p Peer)>,
        now: u64,
    ) -> NeighbourStates {
        let of = |(rank, peer): (usize, &Peer)| Neighbour {
            rank,
            slot: peer.slot,
            process: peer.process,
            was_there: !neighbours::is_dead(peer.process),
            beats: (0, now),
            steps: (0, now),
        };
        NeighbourStates { neighbours: neighbours.map(of).collect(), has_board: false }
    }

    /// Looks at the board; without one, all is as if it had just changed.
    pub fn read(&mut self, board: Option<&Board>, now: u64) {
        self.has_board = board.is_some();
        for Neighbour { slot, beats, steps, .. } in &mut self.neighbours {
            let [beat, step] = match board {
                Some(board) => [board.beats(*slot), board.steps(*slot)],
                None => [beats.0 + 1, steps.0 + 1],
            };
            for (last, seen) in [(beats, beat), (steps, step)] {
                if last.0 != seen {
                    *last = (seen, now);
                }
            }
        }
    }

    /// Who is dead, or has shown nothing for so long.
    pub fn seen(&self, now: u64, limit: u64) -> Seen {
        let of = |is: &dyn Fn(&Neighbour) -> bool| -> Vec<usize> {
            self.neighbours.iter().filter(|one| is(one)).map(|one| one.rank).collect()
        };
        let has_written = |one: &Neighbour| self.has_board && one.beats.0 > 0;
        Seen {
            dead: of(&|one| one.was_there && has_written(one) && neighbours::is_dead(one.process)),
            silent: of(&|one| now.saturating_sub(one.beats.1) > limit),
            idle: of(&|one| now.saturating_sub(one.steps.1) > limit),
        }
    }
}
