//! The search for the shape of the fastest matrix product, from coarse to fine, within a budget of
//! time. It says which shapes to measure next, and is told what came out.
//!
//! First cubes, each twice as long on every side as the one before, as long as the budget lasts for
//! the fine part too and the rate does not fall. Then from the best shape each side longer and
//! shorter by a half, a quarter, an eighth and a sixteenth of itself: where one of these is faster,
//! the search continues from it by the same step.

use fizeau_domain::units::{FlopsPerSecond, Seconds};

/// Rows, columns, and the length of the sums between them.
pub type Shape = [u32; 3];

/// Sides are multiples of this: no kernel's tile is left half empty at its end for less.
const GRAIN: u32 = 128;

/// Sides of the first cube and of the largest one, and the longest side of any shape.
const FIRST: u32 = 256;
const LARGEST: u32 = 16_384;
const LONGEST: u32 = 65_536;

/// A cube that is slower than this share of the best one is the last.
const FALLING: f64 = 0.8;

/// The last steps are this share of a side.
const FINEST: f64 = 1.0 / 16.0;

/// Kernels this near to the best one at the best shape are measured at the next ones, among cubes
/// and afterwards.
const RIVALS: [f64; 2] = [0.5, 0.9];

/// A shape that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// Which one.
    pub shape: Shape,
    /// What each kernel reached, the fastest first; none where every one was skipped or failed.
    pub found: Vec<(String, FlopsPerSecond)>,
}

impl Tried {
    /// The fastest kernel, and its rate.
    pub fn best(&self) -> Option<&(String, FlopsPerSecond)> {
        self.found.first()
    }

    fn rate(&self) -> f64 {
        self.best().map_or(0.0, |(_, rate)| rate.0)
    }
}

/// Where the search is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// The next cube has sides of this length.
    Cubes(u32),
    /// The next shapes are this share of a side away.
    Steps(f64),
}

/// A search.
#[derive(Clone, Debug)]
pub struct Search {
    tried: Vec<Tried>,
    stage: Stage,
    /// What the last shapes took for each multiply-add, kernels and their checks together.
    seconds_each: f64,
    /// The least that a shape took, however small.
    least: f64,
    /// The best rate before the last shapes were measured.
    before: f64,
}

impl Default for Search {
    fn default() -> Search {
        let (tried, stage) = (Vec::new(), Stage::Cubes(FIRST));
        Search { tried, stage, seconds_each: 0.0, least: 0.0, before: 0.0 }
    }
}

impl Search {
    /// All shapes so far, the fastest first.
    pub fn tried(&self) -> Vec<&Tried> {
        let mut tried: Vec<&Tried> = self.tried.iter().collect();
        tried.sort_by(|a, b| b.rate().total_cmp(&a.rate()));
        tried
    }

    /// The fastest shape so far.
    pub fn best(&self) -> Option<&Tried> {
        self.tried().first().copied().filter(|tried| tried.best().is_some())
    }

    /// The kernels that the next shapes are measured by; none before anything was measured, when it
    /// is all of them.
    pub fn kernels(&self) -> Vec<&str> {
        let Some(best) = self.best() else { return Vec::new() };
        let share = RIVALS[usize::from(matches!(self.stage, Stage::Steps(_)))];
        let near = best.found.iter().filter(|(_, rate)| rate.0 >= best.rate() * share);
        near.map(|(kernel, _)| kernel.as_str()).collect()
    }

    /// What to measure next, where `left` of the budget is left; nothing at the end.
    pub fn next(&mut self, left: Seconds) -> Vec<Shape> {
        if let Stage::Cubes(side) = self.stage {
            let cube = [side; 3];
            let falls =
                self.tried.last().is_some_and(|last| last.rate() < FALLING * self.best_rate());
            let fails = self.tried.last().is_some_and(|last| last.best().is_none());
            // The other half is for what comes after the cubes.
            let fits = self.seconds_of(cube) <= left.0 / 2.0;
            if side <= LARGEST && !falls && !fails && fits {
                return vec![cube];
            }
            self.stage = Stage::Steps(0.5);
            self.before = self.best_rate();
        }
        while let Stage::Steps(step) = self.stage {
            if step < FINEST {
                break;
            }
            let next = self.neighbours(step, left);
            if !next.is_empty() {
                return next;
            }
            self.stage = Stage::Steps(step / 2.0);
        }
        Vec::new()
    }

    /// Takes what was measured, and how long that took.
    pub fn take(&mut self, mut measured: Vec<Tried>, took: Seconds) {
        let products: f64 = measured.iter().map(|one| multiply_adds(one.shape)).sum();
        self.seconds_each = took.0 / products.max(1.0);
        let each = took.0 / measured.len().max(1) as f64;
        self.least = if self.tried.is_empty() { each } else { self.least.min(each) };
        self.before = self.best_rate();
        for one in &mut measured {
            one.found.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
        }
        self.tried.extend(measured);
        self.stage = match self.stage {
            Stage::Cubes(side) => Stage::Cubes(side * 2),
            // A better shape has neighbours of its own; else nearer ones are tried.
            Stage::Steps(step) if self.best_rate() > self.before => Stage::Steps(step),
            Stage::Steps(step) => Stage::Steps(step / 2.0),
        };
    }

    fn best_rate(&self) -> f64 {
        self.best().map_or(0.0, Tried::rate)
    }

    /// Shapes a step away from the best one, as many as the time that is left allows.
    fn neighbours(&self, step: f64, mut left: Seconds) -> Vec<Shape> {
        let Some(best) = self.best() else { return Vec::new() };
        let mut next: Vec<Shape> = Vec::new();
        for side in 0..3 {
            for factor in [1.0 + step, 1.0 - step] {
                let mut shape = best.shape;
                let long = (f64::from(shape[side]) * factor / f64::from(GRAIN)).round() as u32;
                shape[side] = (long * GRAIN).clamp(GRAIN, LONGEST);
                let is_new = !self.tried.iter().any(|tried| tried.shape == shape);
                let seconds = self.seconds_of(shape);
                if is_new && !next.contains(&shape) && seconds <= left.0 {
                    left.0 -= seconds;
                    next.push(shape);
                }
            }
        }
        next
    }

    /// About how long a shape takes, as the last ones did.
    fn seconds_of(&self, shape: Shape) -> f64 {
        (self.seconds_each * multiply_adds(shape)).max(self.least)
    }
}

fn multiply_adds(shape: Shape) -> f64 {
    shape.iter().map(|&side| f64::from(side)).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device whose rate is highest at one shape, and that takes a second for 2^30 multiply-adds,
    /// a tenth of one at the least. It gives the search, its rounds and what was spent.
    fn searched(peak: Shape, largest: u32, budget: f64) -> (Search, usize, f64) {
        let off = |side: u32, peak: u32| (f64::from(side) / f64::from(peak)).log2().abs();
        let rate = |shape: Shape| {
            let off: f64 = shape.iter().zip(peak).map(|(&side, peak)| off(side, peak)).sum();
            1e12 / (1.0 + off)
        };
        let (mut search, mut rounds, mut spent) = (Search::default(), 0, 0.0);
        loop {
            let next = search.next(Seconds(budget - spent));
            if next.is_empty() {
                return (search, rounds, spent);
            }
            rounds += 1;
            let seconds = |shape: &Shape| (multiply_adds(*shape) / f64::from(1 << 30)).max(0.1);
            let took: f64 = next.iter().map(seconds).sum();
            spent += took;
            let measured = next.into_iter().map(|shape| {
                let fits = shape.iter().all(|&side| side <= largest);
                let found = |share: f64| FlopsPerSecond(rate(shape) * share);
                let all = [("slow".to_owned(), found(0.3)), ("fast".to_owned(), found(1.0))];
                Tried { shape, found: if fits { all.to_vec() } else { Vec::new() } }
            });
            search.take(measured.collect(), Seconds(took));
        }
    }

    #[test]
    fn the_best_shape_is_found_from_coarse_to_fine() {
        let peak = [3_072, 2_048, 5_120];
        let (search, rounds, _) = searched(peak, u32::MAX, 1e9);
        let best = search.best().expect("a shape");
        assert!(best.rate() > 0.85e12, "{best:?} after {} shapes", search.tried().len());
        assert_eq!(search.kernels(), ["fast"]);
        assert!(rounds < search.tried().len() && search.tried().len() < 100);
        // None twice, and each of whole grains.
        let mut shapes: Vec<Shape> = search.tried().iter().map(|tried| tried.shape).collect();
        assert!(shapes.iter().flatten().all(|side| side.is_multiple_of(GRAIN)));
        let count = shapes.len();
        shapes.sort_unstable();
        shapes.dedup();
        assert_eq!(shapes.len(), count);
    }

    #[test]
    fn a_small_budget_is_kept_and_still_has_a_best_shape() {
        for budget in [0.2, 1.0, 5.0, 30.0] {
            let (search, _, spent) = searched([4_096; 3], u32::MAX, budget);
            assert!(search.best().is_some() && spent <= budget * 1.01, "{spent} of {budget}");
        }
        // More time reaches larger shapes, and no slower ones.
        let rate =
            |budget| searched([4_096; 3], u32::MAX, budget).0.best().map_or(0.0, Tried::rate);
        assert!(rate(2.0) < rate(200.0));
    }

    #[test]
    fn shapes_that_do_not_fit_end_the_cubes_and_are_kept_as_tried() {
        let (search, ..) = searched([8_192; 3], 2_048, 1e9);
        assert!(search.best().expect("a shape").shape.iter().all(|&side| side <= 2_048));
        let without = search.tried().iter().filter(|tried| tried.best().is_none()).count();
        assert!(without > 0);
        assert!(!search.tried().iter().any(|tried| tried.shape == [8_192; 3]));
    }
}
