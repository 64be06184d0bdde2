//! Suspects, and which of them are named: looked up for each exchange many times.

/// A suspect: a rank, or the link between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suspect {
    /// A rank.
    Rank(u32),
    /// What lies between two ranks, the lower one first.
    Link(u32, u32),
}

/// The suspects that are named: a mark for each rank, then one for each pair.
#[derive(Clone)]
pub struct Marks {
    /// Whether what stands at a place is named.
    pub marks: Vec<bool>,
    /// How many are.
    pub count: usize,
}

impl Marks {
    /// Names what stands at a place, or does not.
    pub fn set(&mut self, place: usize, is_named: bool) {
        if self.marks[place] != is_named {
            self.marks[place] = is_named;
            self.count = if is_named { self.count + 1 } else { self.count - 1 };
        }
    }
}
