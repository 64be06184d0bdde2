//! How often the 95 % interval of a median covers it.

use super::{
    random::Random,
    table::{markdown, percent},
};
use fizeau_domain::stats::{
    interval::{median_interval, ratio_interval},
    quantile,
};

/// Student's t with two degrees of freedom: no variance, and tails as of interrupts.
pub fn student_2(random: &mut Random) -> f64 {
    let square = -2.0 * random.uniform().max(f64::MIN_POSITIVE).ln();
    random.normal() / (square / 2.0).sqrt()
}

/// Numbers of samples.
pub const COUNTS: [usize; 4] = [10, 30, 100, 1_000];

/// Mean dwell of a process with two states, in samples.
const DWELL: f64 = 50.0;

/// The upper hump of the two-humped distribution lies this far above the lower one, whose 5/7
/// quantile is the median of both: the normal distribution's 5/7 quantile.
const SHIFT: f64 = 0.565_948_821_932_863;

/// A process that samples come from. All have a known median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Process {
    /// Independent and normal.
    Normal,
    /// Independent and log-normal.
    LogNormal,
    /// Independent, Student's t with two degrees of freedom.
    HeavyTails,
    /// Independent, 70 % about one value and 30 % about another, ten deviations apart.
    TwoHumps,
    /// First-order autoregression with this correlation of neighbours.
    Dependent(f64),
    /// Two states of random dwell (50 samples in the mean), this many deviations apart.
    TwoStates(f64),
    /// Two states that alternate every 50 samples, from a random phase on.
    Alternating(f64),
}

impl Process {
    /// Those of the table.
    pub const ALL: [Process; 10] = [
        Process::Normal,
        Process::LogNormal,
        Process::HeavyTails,
        Process::TwoHumps,
        Process::Dependent(0.5),
        Process::Dependent(0.9),
        Process::TwoStates(1.2),
        Process::TwoStates(10.0),
        Process::Alternating(1.2),
        Process::Alternating(10.0),
    ];

    /// In words.
    pub fn name(self) -> String {
        match self {
            Process::Normal => "normal".into(),
            Process::LogNormal => "log-normal".into(),
            Process::HeavyTails => "Student's t, 2 degrees of freedom".into(),
            Process::TwoHumps => "two humps".into(),
            Process::Dependent(r) => format!("AR(1), r = {r}"),
            Process::TwoStates(apart) => format!("two states {apart} deviations apart, dwell 50"),
            Process::Alternating(apart) => format!("the same, {apart} apart, exactly 50 each"),
        }
    }

    /// Whether samples do not depend on each other.
    pub fn is_independent(self) -> bool {
        !matches!(self, Process::Dependent(_) | Process::TwoStates(_) | Process::Alternating(_))
    }

    /// From this many samples on the interval must cover the median in 93 %.
    pub fn enough(self) -> usize {
        match self {
            Process::Dependent(r) if r < 0.7 => 30,
            Process::Dependent(_) => 100,
            Process::TwoStates(_) | Process::Alternating(_) => 1_000,
            _ => 10,
        }
    }

    fn median(self) -> f64 {
        match self {
            Process::LogNormal => 1.0,
            Process::TwoHumps => SHIFT,
            _ => 0.0,
        }
    }

    fn samples(self, count: usize, random: &mut Random) -> Vec<f64> {
        let mut state = match self {
            Process::Dependent(r) => random.normal() / (1.0 - r * r).sqrt(),
            _ => f64::from(i8::from(random.happens(0.5))) - 0.5,
        };
        let phase = random.below(2 * DWELL as usize);
        let mut next = |at: usize| match self {
            Process::Normal => random.normal(),
            Process::LogNormal => random.normal().exp(),
            Process::HeavyTails => student_2(random),
            Process::TwoHumps => f64::from(u8::from(random.happens(0.3))) * 10.0 + random.normal(),
            Process::Dependent(r) => {
                let value = state;
                state = r * state + random.normal();
                value
            }
            Process::TwoStates(apart) => {
                let value = state * apart + random.normal();
                state *= if random.happens(1.0 / DWELL) { -1.0 } else { 1.0 };
                value
            }
            Process::Alternating(apart) => {
                let is_upper = (at + phase) / DWELL as usize % 2 == 1;
                (f64::from(u8::from(is_upper)) - 0.5) * apart + random.normal()
            }
        };
        (0..count).map(&mut next).collect()
    }
}

/// What became of the intervals of many runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coverage {
    /// Runs simulated.
    pub runs: usize,
    /// Runs with an interval that holds the median.
    pub covering: usize,
    /// Runs that say "too few independent samples for an interval".
    pub unknown: usize,
    /// Median width of intervals / median width of the plain interval, that of a sign test for
    /// independent samples. Not a number where there is none.
    pub width: f64,
    /// Median of the effective sample sizes.
    pub independent: f64,
}

/// Simulates runs of a process.
pub fn coverage(process: Process, count: usize, runs: usize, seed: u64) -> Coverage {
    let mut random = Random::new(seed, count as u64);
    let (mut covering, mut unknown) = (0, 0);
    let (mut widths, mut plain, mut independent) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        let samples = process.samples(count, &mut random);
        let interval = median_interval(&samples);
        independent.extend(interval.independent);
        plain.push(plain_width(&samples));
        if !interval.is_known() {
            unknown += 1;
            continue;
        }
        widths.push(interval.high.0 - interval.low.0);
        let median = process.median();
        covering += usize::from(interval.low.0 <= median && median <= interval.high.0);
    }
    let width = if widths.is_empty() { f64::NAN } else { quantile::median(&widths) };
    Coverage {
        runs,
        covering,
        unknown,
        width: width / quantile::median(&plain),
        independent: quantile::median(&independent),
    }
}

/// The width of the interval that a sign test gives to independent samples, by the normal
/// approximation of the binomial distribution.
fn plain_width(samples: &[f64]) -> f64 {
    let sorted = quantile::sorted(samples);
    let count = sorted.len() as f64;
    // Refused: a surplus of signs of 1.96 deviations or more.
    let below = (0..sorted.len() / 2).find(|&at| count - 2.0 * (at as f64) < 1.96 * count.sqrt());
    let below = below.unwrap_or(0).max(1);
    sorted[sorted.len() - below] - sorted[below - 1]
}

/// The table of coverage.
pub fn table(runs: usize, seed: u64) -> String {
    let mut rows = Vec::new();
    for process in Process::ALL {
        for count in COUNTS {
            let found = coverage(process, count, runs, seed);
            let given = runs - found.unknown;
            let of_given = match given {
                0 => "none given".to_owned(),
                given => percent(found.covering, given),
            };
            let wanted = match (process.is_independent(), count >= process.enough()) {
                (true, _) => "93-99, width to 1.6",
                (false, true) => "93 or more",
                (false, false) => "or say so",
            };
            rows.push(vec![
                process.name(),
                count.to_string(),
                wanted.to_owned(),
                of_given,
                percent(found.unknown, runs),
                percent(found.covering + found.unknown, runs),
                if given > 0 { format!("{:.2}", found.width) } else { "-".into() },
                format!("{:.0}", found.independent),
            ]);
        }
    }
    let titles = [
        "samples from",
        "n",
        "wanted",
        "intervals that cover, %",
        "\"too few\", %",
        "cover or say so, %",
        "width / plain",
        "effective n",
    ];
    markdown(&titles, &rows)
}

/// Of cases whose samples are cut in the middle: how many there are, how many have an interval of
/// the ratio of their halves, and how many of these intervals hold 1.
pub fn halves(cases: &[Vec<f64>]) -> [usize; 3] {
    let long = cases.iter().filter(|times| times.len() >= 100);
    let mut counts = [0; 3];
    for times in long {
        let (first, second) = times.split_at(times.len() / 2);
        let (low, high, is_known) = ratio_interval(first, second);
        counts[0] += 1;
        counts[1] += usize::from(is_known);
        counts[2] += usize::from(is_known && low <= 1.0 && 1.0 <= high);
    }
    counts
}
