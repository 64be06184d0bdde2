//! A zoo of noises: how measured times scatter in practice, for every judge to be tried on.
//!
//! Each noise is of healthy machines: the true median of all of them is the same. A judge that
//! names one of them accuses it wrongly. Times are factors of the true median.

use oorandom::Rand64;
use std::f64::consts::{SQRT_2, TAU};

/// How samples scatter within one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    /// Normal.
    Normal,
    /// A tail to the slow side, log-normal with a standard deviation of 1 in the logarithm of the
    /// excess: network and disk times look like this.
    SlowTail,
    /// A tail to the slow side, gamma of shape 1 (exponential).
    Gamma,
    /// Heavy tails to both sides: Student's t with 2 degrees of freedom.
    HeavyTail,
    /// A tenth of the samples, one after the other, is 30 % slower.
    Burst,
    /// Two modes, 4 scales apart, of which a run of samples is in one.
    Modes,
    /// The first samples are slower, by 4 scales in the beginning and falling.
    WarmUp,
}

/// All of them.
pub const NOISES: [Noise; 7] = [
    Noise::Normal,
    Noise::SlowTail,
    Noise::Gamma,
    Noise::HeavyTail,
    Noise::Burst,
    Noise::Modes,
    Noise::WarmUp,
];

/// What all samples of one session have in common, and the next session has not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Between {
    /// Nothing: sessions differ by the noise of their samples alone.
    Nothing,
    /// A normal bias of each session with this standard deviation, as a share.
    Bias(f64),
    /// With this probability a session is slower by this share, as a neighbour makes it.
    Dip {
        /// Probability of a session.
        probability: f64,
        /// How much slower, as a share.
        depth: f64,
    },
    /// A random walk: a normal step from session to session with this standard deviation.
    Walk(f64),
}

/// Draws noises from a seed.
pub struct Zoo(pub Rand64);

impl Zoo {
    /// A zoo of its own for a seed.
    pub fn new(seed: u64) -> Zoo {
        Zoo(Rand64::new(u128::from(seed)))
    }

    /// A standard normal number (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.0.rand_float()).ln()).sqrt();
        radius * (TAU * self.0.rand_float()).cos()
    }

    fn exponential(&mut self) -> f64 {
        -(1.0 - self.0.rand_float()).ln()
    }

    /// The times of one session, as factors whose median is 1 in the long run. `scale` is the
    /// standard deviation that a normal noise would have, as a share.
    pub fn times(&mut self, noise: Noise, count: usize, scale: f64) -> Vec<f64> {
        let burst = (self.0.rand_float() * count as f64) as usize;
        let mut is_slow = self.0.rand_float() < 0.5;
        (0..count)
            .map(|at| {
                let deviation = match noise {
                    Noise::Normal => self.normal(),
                    // Less the median of each, which is 1 and ln 2.
                    Noise::SlowTail => self.normal().exp() - 1.0,
                    Noise::Gamma => self.exponential() - std::f64::consts::LN_2,
                    Noise::HeavyTail => {
                        let squares = 2.0 * self.exponential();
                        self.normal() / (squares / 2.0).sqrt() / SQRT_2
                    }
                    Noise::Burst => {
                        let is_in = at >= burst && at < burst + count.div_ceil(10);
                        self.normal() + if is_in { 0.3 / scale } else { 0.0 }
                    }
                    Noise::Modes => {
                        if self.0.rand_float() < 0.1 {
                            is_slow = !is_slow;
                        }
                        self.normal() + if is_slow { 2.0 } else { -2.0 }
                    }
                    Noise::WarmUp => {
                        let place = at as f64 / count.max(1) as f64;
                        self.normal() + 4.0 * (-8.0 * place).exp()
                    }
                };
                (1.0 + scale * deviation).max(0.05)
            })
            .collect()
    }

    /// What each session of one device has in common, as factors of time.
    pub fn sessions(&mut self, between: Between, count: usize) -> Vec<f64> {
        let mut walked = 0.0;
        (0..count)
            .map(|_| match between {
                Between::Nothing => 1.0,
                Between::Bias(scale) => (scale * self.normal()).exp(),
                Between::Dip { probability, depth } => {
                    if self.0.rand_float() < probability {
                        1.0 / (1.0 - depth)
                    } else {
                        1.0
                    }
                }
                Between::Walk(step) => {
                    walked += step * self.normal();
                    f64::exp(walked)
                }
            })
            .collect()
    }
}
