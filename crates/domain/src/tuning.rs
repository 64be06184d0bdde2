//! How a kernel that can do its work in several ways came to the one that was timed: the bundled
//! kernels of a product, or the algorithms that a vendor's library offers for it.

use crate::units::Seconds;

/// The name, among kernels of an operation, of the one that tries the bundled ones and takes the
/// fastest.
pub const TUNED: &str = "tuned";

/// Which candidate was timed, and what was seen of the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuning {
    /// The candidate that was timed.
    pub chosen: String,
    /// Who chose it.
    pub by: ChosenBy,
    /// All candidates, the device's best guess first; none where the choice was given.
    pub candidates: Vec<Candidate>,
}

/// Who chose a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChosenBy {
    /// The tuner, which tried all of them.
    Tried,
    /// A record, whose choice was replayed.
    Given,
}

/// One way to do the work.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// A bundled kernel's name, or which one of a library's guesses it is: `guess_3`.
    pub name: String,
    /// Seconds of an iteration: the median of its samples. None where it refused the work.
    pub time: Option<Seconds>,
    /// How many samples were taken. Those who are far behind after the first get no more.
    pub samples: u32,
    /// Why it refused.
    pub refused: Option<String>,
}

impl Tuning {
    /// How many candidates there were that took the work.
    pub fn tried(&self) -> usize {
        self.candidates.iter().filter(|one| one.time.is_some()).count()
    }

    /// The candidate that came nearest to the chosen one, and how many times as long it took.
    pub fn second(&self) -> Option<(&str, f64)> {
        let time_of = |name: &str| {
            self.candidates.iter().find(|one| one.name == name).and_then(|one| one.time)
        };
        let chosen = time_of(&self.chosen)?;
        let others = self.candidates.iter().filter(|one| one.name != self.chosen);
        let timed = others.filter_map(|one| Some((one.name.as_str(), one.time?)));
        let nearest = timed.min_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
        Some((nearest.0, nearest.1 / chosen))
    }
}
