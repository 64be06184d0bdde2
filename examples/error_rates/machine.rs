//! Machines whose runs differ by themselves, and changes planted in them.

use super::{intervals::student_2, random::Random};

/// Cases of a simulated plan: as many as suite quick has on the host.
pub const CASES: usize = 168;

/// Cases of one family: the planted family, and what the ids say.
const FAMILY: usize = 42;

/// With `Noise::Modes` one case of so many has two modes.
const MODES_EVERY: usize = 5;

/// The probability that a run is of the slow mode, and by how much that is slower: as of the
/// products of results/serving.
const SLOW_MODE: f64 = 0.4;
const MODES_APART: f64 = 0.3;

/// How a machine differs from run to run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Noise {
    /// Each case of each run is off by a normal number of this deviation.
    Normal(f64),
    /// By 1 % times Student's t with two degrees of freedom.
    HeavyTails,
    /// 1 % normal, and in half of the runs a neighbour slows a tenth to two fifths of the cases, in
    /// a row, by 5 to 30 %. In pairs: it comes every 40 measurements and stays for 20, in the mean.
    Neighbour,
    /// 1 % normal, and 3 % of the cases of each run take 5 to 20 % longer.
    Shifts,
    /// 1 % normal, and all cases of a run are off together by 3 % normal (a clock). In pairs: as
    /// 1 % normal, since both sides of a pair share it.
    Common,
    /// 1 % normal, and each fifth case falls into one of two modes in each run, anew in each case
    /// and run: the slow one takes 30 % longer and comes in two runs of five.
    Modes,
    /// The same of all cases of one family, a quarter of the plan, which share the mode of a run.
    FamilyModes,
    /// 1 % normal, and a tenth of the cases of each run, in a row at a place of the run's own, take
    /// 30 % longer.
    Bursts,
}

impl Noise {
    /// Those of the tables.
    pub const ALL: [Noise; 7] = [
        Noise::Normal(0.01),
        Noise::Normal(0.03),
        Noise::HeavyTails,
        Noise::Neighbour,
        Noise::Shifts,
        Noise::Common,
        Noise::Modes,
    ];

    /// In words.
    pub fn name(self) -> String {
        match self {
            Noise::Normal(deviation) => format!("{:.0} % normal", deviation * 100.0),
            Noise::HeavyTails => "1 % with heavy tails".into(),
            Noise::Neighbour => "unseen neighbour".into(),
            Noise::Shifts => "3 % of cases shift".into(),
            Noise::Common => "3 % common to a run".into(),
            Noise::Modes => "modes by run".into(),
            Noise::FamilyModes => "modes that a family shares".into(),
            Noise::Bursts => "a burst in each run".into(),
        }
    }

    /// One measurement of a case, off by so much as a logarithm, without what lasts longer.
    fn one(self, case: usize, random: &mut Random) -> f64 {
        match self {
            Noise::Normal(deviation) => deviation * random.normal(),
            Noise::HeavyTails => 0.01 * student_2(random),
            Noise::Shifts if random.happens(0.03) => {
                0.01 * random.normal() + (1.05 + 0.15 * random.uniform()).ln()
            }
            Noise::Modes if case % MODES_EVERY == MODES_EVERY / 2 => {
                0.01 * random.normal() + mode(random)
            }
            _ => 0.01 * random.normal(),
        }
    }

    /// All cases of a run, as logarithms.
    pub fn run(self, random: &mut Random) -> Vec<f64> {
        let mut cases: Vec<f64> = (0..CASES).map(|case| self.one(case, random)).collect();
        if self == Noise::Common {
            let shift = 0.03 * random.normal();
            cases.iter_mut().for_each(|case| *case += shift);
        }
        if self == Noise::FamilyModes {
            let slower = mode(random);
            cases[FAMILY..2 * FAMILY].iter_mut().for_each(|case| *case += slower);
        }
        if self == Noise::Bursts {
            let start = random.below(CASES - CASES / 10);
            cases[start..start + CASES / 10].iter_mut().for_each(|case| *case += 0.3f64.ln_1p());
        }
        if self == Noise::Neighbour && random.happens(0.5) {
            let length = ((0.1 + 0.3 * random.uniform()) * CASES as f64) as usize;
            let start = random.below(CASES - length);
            let slower = slowdown(random);
            cases[start..start + length].iter_mut().for_each(|case| *case += slower);
        }
        cases
    }
}

/// By how much the mode of a run slows, as a logarithm.
fn mode(random: &mut Random) -> f64 {
    if random.happens(SLOW_MODE) { MODES_APART.ln_1p() } else { 0.0 }
}

/// By how much a neighbour slows, as a logarithm.
fn slowdown(random: &mut Random) -> f64 {
    (1.05 + 0.25 * random.uniform()).ln()
}

/// Measurements one after the other on such a machine.
pub struct Moments {
    noise: Noise,
    random: Random,
    /// What a neighbour costs now.
    neighbour: f64,
}

impl Moments {
    /// From a seed on.
    pub fn new(noise: Noise, random: Random) -> Moments {
        Moments { noise, random, neighbour: 0.0 }
    }

    /// The next measurement, of this case, off by so much as a logarithm.
    pub fn next(&mut self, case: usize) -> f64 {
        let Moments { noise, random, neighbour } = self;
        if *noise == Noise::Neighbour {
            if *neighbour > 0.0 {
                if random.happens(1.0 / 20.0) {
                    *neighbour = 0.0;
                }
            } else if random.happens(1.0 / 40.0) {
                *neighbour = slowdown(random);
            }
        }
        noise.one(case, random) + *neighbour
    }
}

/// A change planted in B.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Planted {
    /// None: A and B are the same.
    Nothing,
    /// One case, slower by this share.
    OneCase(f64),
    /// Every second case.
    EverySecond(f64),
    /// All cases of one family, a quarter of the plan.
    Family(f64),
}

impl Planted {
    /// In words.
    pub fn name(self) -> String {
        match self {
            Planted::Nothing => "nothing".into(),
            Planted::OneCase(by) => format!("one case + {:.0} %", by * 100.0),
            Planted::EverySecond(by) => format!("every second case + {:.0} %", by * 100.0),
            Planted::Family(by) => format!("a family + {:.0} %", by * 100.0),
        }
    }

    /// Whether a case is slower in B.
    pub fn is_in(self, case: usize) -> bool {
        match self {
            Planted::Nothing => false,
            Planted::OneCase(_) => case == 40,
            Planted::EverySecond(_) => case.is_multiple_of(2),
            Planted::Family(_) => case < FAMILY,
        }
    }

    /// What is added to a case in B, as a logarithm.
    pub fn at(self, case: usize) -> f64 {
        match self {
            Planted::OneCase(by) | Planted::EverySecond(by) | Planted::Family(by)
                if self.is_in(case) =>
            {
                by.ln_1p()
            }
            _ => 0.0,
        }
    }
}

/// The id of a case, by whose parts cases are grouped.
pub fn id(case: usize) -> String {
    let operation = ["stream", "gemm", "attention", "latency"][case / FAMILY % 4];
    // Those of a group are measured one after the other, as a plan has them.
    format!("{operation}/t{}/size{case}/kernel{}", case % FAMILY / 7, case % 3)
}
