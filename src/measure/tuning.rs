//! The tuner: which of several candidates does a kernel's work fastest, found by trying them before
//! the kernel is timed. Bundled kernels and the algorithms of vendors' libraries get the same
//! procedure and the same budget. docs/methodology.md says why each number is what it is.

use fizeau_device::DeviceError;
use fizeau_domain::{stats::quantile, tuning::Candidate, units::Seconds};

/// No round begins after so much measured time.
pub const BUDGET: Seconds = Seconds(0.06);

/// A sample is of as many iterations as last this long, and of 100 at most.
pub const SAMPLE: Seconds = Seconds(0.000_2);
const ITERATIONS_MAX: f64 = 100.0;

/// Who takes more than this many times as long as the fastest by one iteration is not timed again,
/// nor who does so by its first sample, nor in further rounds who does so by the first rounds.
const FAR: f64 = 2.0;
const NEAR: f64 = 1.15;
const CLOSE: f64 = 1.03;

/// Rounds of all that are near, and further ones of those that are close.
const ROUNDS: usize = 3;
const ROUNDS_CLOSE: usize = 20;

/// Candidates within this many times the least median are alike: the best guess is taken.
const ALIKE: f64 = 1.01;

/// What became of some iterations of a candidate.
#[derive(Clone, Debug, PartialEq)]
pub enum Trial {
    /// They took so long together.
    Took(Seconds),
    /// The candidate does not do such work.
    Refused(String),
}

/// Does n iterations of the candidate at a place.
pub type Attempt<'t> = dyn FnMut(usize, u32) -> Result<Trial, DeviceError> + 't;

/// A candidate while it is tried.
struct Tried {
    name: String,
    /// Seconds of an iteration, by each sample.
    times: Vec<f64>,
    refused: Option<String>,
}

impl Tried {
    fn median(&self) -> f64 {
        match self.times[..] {
            [] => f64::INFINITY,
            _ => quantile::median(&self.times),
        }
    }
}

/// The place of the fastest candidate, and what was seen of all of them; no place where all
/// refused. Each is tried once. Then those that are not far behind are timed in rounds, each of
/// which begins with another one, until it is clear which is the fastest or the budget is spent.
///
/// Where a sample `is_single`, it has one iteration: caches are evicted before each.
///
/// # Errors
///
/// What the device says where it is lost or hangs.
pub fn fastest(
    names: Vec<String>,
    is_single: bool,
    attempt: &mut Attempt<'_>,
) -> Result<(Option<usize>, Vec<Candidate>), DeviceError> {
    let tried = |name| Tried { name, times: Vec::new(), refused: None };
    let all: Vec<Tried> = names.into_iter().map(tried).collect();
    let mut race = Race { all, attempt, spent: 0.0, is_single };
    for place in 0..race.all.len() {
        // The first one loads code, and is not counted.
        if race.run(place, 1)?.is_some() {
            let time = race.run(place, 1)?;
            race.all[place].times.extend(time);
        }
    }
    for place in race.within(FAR) {
        let time = race.all[place].median();
        if race.iterations(time) > 1 {
            race.all[place].times.clear();
            race.sample(place)?;
        }
    }
    for (limit, rounds) in [(NEAR, ROUNDS), (CLOSE, ROUNDS_CLOSE)] {
        let near = race.within(limit);
        for round in 0..if near.len() > 1 { rounds } else { 0 } {
            if race.spent >= BUDGET.0 {
                break;
            }
            for turn in 0..near.len() {
                race.sample(near[(turn + round) % near.len()])?;
            }
        }
    }
    let chosen = race.within(ALIKE).first().copied();
    let seen = |one: Tried| Candidate {
        time: Some(one.median()).filter(|time| time.is_finite()).map(Seconds),
        samples: one.times.len() as u32,
        name: one.name,
        refused: one.refused,
    };
    Ok((chosen, race.all.into_iter().map(seen).collect()))
}

/// All candidates, and the measured time that they have taken together.
struct Race<'r, 't> {
    all: Vec<Tried>,
    attempt: &'r mut Attempt<'t>,
    spent: f64,
    is_single: bool,
}

impl Race<'_, '_> {
    /// Seconds of an iteration; none where the candidate refuses.
    fn run(&mut self, place: usize, iterations: u32) -> Result<Option<f64>, DeviceError> {
        match (self.attempt)(place, iterations)? {
            Trial::Took(time) => {
                self.spent += time.0;
                Ok(Some(time.0 / f64::from(iterations)))
            }
            Trial::Refused(why) => {
                self.all[place].times.clear();
                self.all[place].refused = Some(why);
                Ok(None)
            }
        }
    }

    fn sample(&mut self, place: usize) -> Result<(), DeviceError> {
        if self.all[place].refused.is_some() {
            return Ok(());
        }
        let iterations = self.iterations(self.least());
        let time = self.run(place, iterations)?;
        self.all[place].times.extend(time);
        Ok(())
    }

    /// Iterations of a sample where one takes so long.
    fn iterations(&self, time: f64) -> u32 {
        match self.is_single {
            true => 1,
            false => (SAMPLE.0 / time.max(1e-9)).ceil().clamp(1.0, ITERATIONS_MAX) as u32,
        }
    }

    fn least(&self) -> f64 {
        self.all.iter().map(Tried::median).fold(f64::INFINITY, f64::min)
    }

    /// Places of those whose medians are within `limit` times the least, in their order.
    fn within(&self, limit: f64) -> Vec<usize> {
        let least = self.least();
        let is_within = |place: &usize| {
            let median = self.all[*place].median();
            median.is_finite() && median <= least * limit
        };
        (0..self.all.len()).filter(is_within).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a tuner met with: the place of its choice, candidates, and measured time.
    type Met = (Option<usize>, Vec<Candidate>, f64);

    /// Tries candidates of planted times, which scatter log-normally by `noise`; a candidate of no
    /// time refuses.
    fn met(times: &[Option<f64>], noise: f64, seed: u64, is_single: bool) -> Met {
        let mut random = oorandom::Rand64::new(u128::from(seed));
        let mut spent = 0.0;
        let mut attempt = |place: usize, iterations: u32| {
            let Some(time) = times[place] else { return Ok(Trial::Refused("not mine".into())) };
            let (u, v) = (random.rand_float().max(1e-12), random.rand_float());
            let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
            let took = time * f64::from(iterations) * (noise * normal).exp();
            spent += took;
            Ok(Trial::Took(Seconds(took)))
        };
        let names = (0..times.len()).map(|place| format!("kernel_{place}")).collect();
        let (chosen, seen) = fastest(names, is_single, &mut attempt).expect("nothing is lost");
        (chosen, seen, spent)
    }

    /// Six candidates as a product of few rows has them, the best one 3 % ahead of the next.
    const PLANTED: [f64; 6] = [31.0e-6, 27.8e-6, 24.7e-6, 24.0e-6, 26.0e-6, 90.0e-6];

    #[test]
    fn the_best_is_chosen_in_95_of_100_seeds_within_the_budget() {
        let times = PLANTED.map(Some);
        let (mut right, mut loss) = (0, 0.0f64);
        for seed in 0..100 {
            let (chosen, seen, spent) = met(&times, 0.02, seed, false);
            let chosen = chosen.expect("all take the work");
            right += usize::from(chosen == 3);
            loss = loss.max(PLANTED[chosen] / PLANTED[3] - 1.0);
            assert!(spent <= BUDGET.0, "{spent} s, seed {seed}");
            assert_eq!(seen[5].samples, 1, "who is far behind is left alone");
        }
        assert!(right >= 95, "{right} of 100");
        assert!(loss < 0.03, "{loss}");
    }

    #[test]
    fn the_same_holds_without_batches() {
        let times = PLANTED.map(Some);
        let right = (0..100).filter(|&seed| met(&times, 0.02, seed, true).0 == Some(3)).count();
        assert!(right >= 95, "{right} of 100");
    }

    /// A choice that depends on chance alone would differ from node to node.
    #[test]
    fn of_those_that_are_alike_the_best_guess_is_taken() {
        let times = [Some(24.1e-6), Some(24.0e-6), Some(25.5e-6)];
        let first = (0..100).filter(|&seed| met(&times, 0.002, seed, false).0 == Some(0)).count();
        assert_eq!(first, 100);
    }

    /// Slow work is tried by few iterations: one to load it, one that is timed, and no round that
    /// begins when the budget is spent.
    #[test]
    fn slow_candidates_cost_two_iterations_each() {
        let times = [Some(0.2), Some(0.15), Some(0.4)];
        let (chosen, seen, spent) = met(&times, 0.0, 1, false);
        assert_eq!(chosen, Some(1));
        assert!((spent - 2.0 * 0.75).abs() < 1e-9, "{spent}");
        assert!(seen.iter().all(|one| one.samples == 1), "{seen:?}");
    }

    #[test]
    fn who_refuses_is_named_with_its_reason_and_never_chosen() {
        let (chosen, seen, _) = met(&[None, Some(1e-5), None], 0.01, 3, false);
        assert_eq!(chosen, Some(1));
        assert_eq!((seen[0].time, seen[0].refused.as_deref()), (None, Some("not mine")));
        assert_eq!(met(&[None, None], 0.01, 3, false).0, None);
    }
}
