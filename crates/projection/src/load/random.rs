//! Random numbers of a load: every stream follows from the seed alone, so that the same seed gives
//! the same requests at the same moments.

use oorandom::Rand64;

/// What a stream of random numbers is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Intervals between requests.
    Arrivals = 1,
    /// Lengths of prompts and answers.
    Lengths = 2,
    /// Words of prompts.
    Words = 3,
    /// Service times of the server with known laws.
    Service = 4,
    /// Words of a block of prompts, which all that name it share; its name takes the place of a
    /// level.
    Blocks = 5,
}

/// A random stream: its own for each seed, level and purpose.
#[derive(Clone, Debug)]
pub struct Random(Rand64);

impl Random {
    /// The stream of a level.
    pub fn new(seed: u64, level: u64, purpose: Purpose) -> Random {
        let mixed = mix(mix(mix(seed) ^ level) ^ purpose as u64);
        Random(Rand64::new(u128::from(mixed) << 64 | u128::from(mix(mixed))))
    }

    /// Uniform in (0, 1].
    pub fn unit(&mut self) -> f64 {
        1.0 - self.0.rand_float()
    }

    /// Uniform among `count` numbers from 0.
    pub fn below(&mut self, count: u64) -> u64 {
        self.0.rand_range(0..count.max(1))
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -self.unit().ln()
    }

    /// Standard normal (Box and Muller, 1958).
    pub fn normal(&mut self) -> f64 {
        (2.0 * self.exponential()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Gamma with a shape above 0 and mean 1 (Marsaglia and Tsang, 2000).
    pub fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            // Gamma(shape) = Gamma(shape + 1) x U^(1 / shape).
            let raised = self.gamma(shape + 1.0) * (shape + 1.0);
            return raised * self.unit().powf(1.0 / shape) / shape;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let normal = self.normal();
            let v = (1.0 + c * normal).powi(3);
            let is_taken =
                v > 0.0 && self.unit().ln() < 0.5 * normal * normal + d - d * v + d * v.ln();
            if is_taken {
                return d * v / shape;
            }
        }
    }
}

/// Spreads the bits of a number (the output function of SplitMix64; Steele, Lea and Flood, 2014).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
