//! Random numbers from a seed, for the examples that simulate error rates.

use oorandom::Rand64;
use std::f64::consts::TAU;

/// A seeded source.
pub struct Random(Rand64);

impl Random {
    /// The stream of a seed and a number of its own.
    pub fn new(seed: u64, stream: u64) -> Random {
        Random(Rand64::new(u128::from(seed) << 64 | u128::from(stream)))
    }

    /// Uniform in 0..1.
    pub fn uniform(&mut self) -> f64 {
        self.0.rand_float()
    }

    /// Whether something of this probability happens.
    pub fn happens(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }

    /// A whole number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.rand_range(0..end as u64) as usize
    }

    /// A standard normal number (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let (a, b) = (self.uniform().max(f64::MIN_POSITIVE), self.uniform());
        (-2.0 * a.ln()).sqrt() * (TAU * b).cos()
    }
}
