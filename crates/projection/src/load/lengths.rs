//! How many tokens prompts and answers have.

use super::random::Random;
use fizeau_domain::number;
use std::{fmt, str::FromStr};

/// The most tokens of a prompt or an answer.
pub const TOKENS_MAX: u32 = 10_000_000;

/// A distribution of lengths in tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lengths {
    /// All the same.
    Fixed(u32),
    /// Uniform from the first to the second, both included.
    Uniform(u32, u32),
    /// Log-normal, clipped, of which the mean is that which is stated: not exp(mu), which is the
    /// median.
    LogNormal(LogNormal),
}

/// A clipped log-normal distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogNormal {
    /// The mean of what is drawn, clipping included.
    pub mean: f64,
    /// Standard deviation of the logarithm.
    pub sigma: f64,
    /// No length is longer.
    pub most: u32,
    /// Mean of the logarithm before clipping, by which `mean` is met.
    mu: f64,
}

impl LogNormal {
    /// A distribution with this mean.
    ///
    /// # Errors
    /// In words: where no such distribution exists.
    pub fn new(mean: f64, sigma: f64, most: u32) -> Result<LogNormal, String> {
        if !(1.0..=f64::from(TOKENS_MAX)).contains(&mean) || !(0.0..=4.0).contains(&sigma) {
            return Err("the mean has to be 1 or more, sigma from 0 to 4".into());
        }
        if f64::from(most) <= mean {
            return Err(format!("the longest ({most}) has to be above the mean ({mean})"));
        }
        // The clipped mean rises with mu.
        let (mut low, mut high) = (mean.ln() - sigma * sigma - 10.0, f64::from(most).ln() + 10.0);
        for _ in 0..60 {
            let mu = 0.5 * (low + high);
            let is_low = clipped_mean(mu, sigma, most) < mean;
            if is_low { low = mu } else { high = mu }
        }
        Ok(LogNormal { mean, sigma, most, mu: 0.5 * (low + high) })
    }
}

/// The mean of a log-normal distribution clipped to 1 and `most`, by the midpoint rule over the
/// normal deviate from -8 to 8.
fn clipped_mean(mu: f64, sigma: f64, most: u32) -> f64 {
    const STEPS: u32 = 2_000;
    let width = 16.0 / f64::from(STEPS);
    let (mut sum, mut weight) = (0.0, 0.0);
    for step in 0..STEPS {
        let z = -8.0 + (f64::from(step) + 0.5) * width;
        let density = (-0.5 * z * z).exp();
        sum += density * (mu + sigma * z).exp().clamp(1.0, f64::from(most));
        weight += density;
    }
    sum / weight
}

impl Lengths {
    /// One length, 1 at least.
    pub fn draw(&self, random: &mut Random) -> u32 {
        match *self {
            Lengths::Fixed(tokens) => tokens.max(1),
            Lengths::Uniform(low, high) => {
                (u64::from(low) + random.below(u64::from(high - low) + 1)).max(1) as u32
            }
            Lengths::LogNormal(LogNormal { sigma, most, mu, .. }) => {
                let length = (mu + sigma * random.normal()).exp();
                // Rounded by chance, so that the mean stays.
                let rounded = (length + random.unit() - 1.0).ceil();
                rounded.clamp(1.0, f64::from(most)) as u32
            }
        }
    }

    /// The mean, in tokens.
    pub fn mean(&self) -> f64 {
        match *self {
            Lengths::Fixed(tokens) => f64::from(tokens),
            Lengths::Uniform(low, high) => 0.5 * (f64::from(low) + f64::from(high)),
            Lengths::LogNormal(one) => one.mean,
        }
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lengths::Fixed(tokens) => write!(f, "{tokens}"),
            Lengths::Uniform(low, high) => write!(f, "uniform from {low} to {high}"),
            Lengths::LogNormal(one) => write!(
                f,
                "log-normal with mean {}, sigma {}, {} at most",
                one.mean, one.sigma, one.most
            ),
        }
    }
}

impl FromStr for Lengths {
    type Err = String;

    fn from_str(text: &str) -> Result<Lengths, String> {
        let refuse = || {
            format!(
                "{text:?}: write a number of tokens (512), a range (100-900), or \
                 mean=512,sigma=0.8,most=4096"
            )
        };
        let tokens = |text: &str| {
            let number: u32 = text.parse().map_err(|_| refuse())?;
            (1..=TOKENS_MAX).contains(&number).then_some(number).ok_or_else(refuse)
        };
        if !text.contains('=') {
            return match text.split_once('-') {
                None => Ok(Lengths::Fixed(tokens(text)?)),
                Some((low, high)) => match (tokens(low)?, tokens(high)?) {
                    (low, high) if low <= high => Ok(Lengths::Uniform(low, high)),
                    _ => Err(refuse()),
                },
            };
        }
        let (mut mean, mut sigma, mut most) = (None, None, None);
        for part in text.split(',') {
            let (name, value) = part.split_once('=').ok_or_else(refuse)?;
            let place = match name {
                "mean" => &mut mean,
                "sigma" => &mut sigma,
                "most" => &mut most,
                _ => return Err(refuse()),
            };
            if place.replace(number::positive(value).map_err(|_| refuse())?).is_some() {
                return Err(refuse());
            }
        }
        let mean = mean.ok_or_else(refuse)?;
        let sigma = sigma.unwrap_or(SIGMA);
        let most = most.unwrap_or(mean * MOST).min(f64::from(TOKENS_MAX)) as u32;
        let one = LogNormal::new(mean, sigma, most).map_err(|why| format!("{text:?}: {why}"))?;
        Ok(Lengths::LogNormal(one))
    }
}

/// Spread of the logarithm where none is stated.
const SIGMA: f64 = 0.8;

/// Longest length over the mean where none is stated.
const MOST: f64 = 8.0;

/// Lengths of prompts and answers by the name of a use. Shapes for comparison, of round numbers;
/// none is a recorded workload.
pub const PRESETS: [(&str, &str, &str); 4] = [
    ("chat", "mean=512,sigma=0.8,most=4096", "mean=256,sigma=0.7,most=1024"),
    ("code", "mean=2048,sigma=0.7,most=8192", "mean=64,sigma=0.9,most=512"),
    ("long-context", "mean=16384,sigma=0.4,most=32768", "mean=128,sigma=0.6,most=512"),
    ("summarisation", "mean=4096,sigma=0.5,most=16384", "mean=256,sigma=0.4,most=1024"),
];

#[cfg(test)]
mod tests {
    use super::{super::random::Purpose, *};

    #[test]
    fn the_mean_that_is_stated_is_the_mean_of_what_is_drawn() {
        for text in ["mean=512,sigma=0.8,most=4096", "mean=100,sigma=1.2,most=300", "mean=3"] {
            let lengths: Lengths = text.parse().expect("it is written well");
            let mut random = Random::new(1, 0, Purpose::Lengths);
            let count = 40_000;
            let sum: f64 = (0..count).map(|_| f64::from(lengths.draw(&mut random))).sum();
            let mean = sum / f64::from(count);
            assert!((mean / lengths.mean() - 1.0).abs() < 0.02, "{text}: {mean}");
        }
        for (_, input, output) in PRESETS {
            assert!(input.parse::<Lengths>().is_ok() && output.parse::<Lengths>().is_ok());
        }
    }

    #[test]
    fn lengths_are_refused_in_words() {
        for text in ["", "0", "9-3", "mean=5,most=4", "mean=a", "sigma=1", "mean=1,mean=2", "1e3"] {
            assert!(text.parse::<Lengths>().is_err(), "{text}");
        }
        assert_eq!("512".parse(), Ok(Lengths::Fixed(512)));
        assert_eq!("100-900".parse(), Ok(Lengths::Uniform(100, 900)));
    }
}
