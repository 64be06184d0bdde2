//! A fleet: which GPUs, nodes and components are below contract, and how sure that is. Pure: rates
//! that were measured go in, verdicts come out. What reads files and prints is `cmd::fleet`.
//!
//! Each metric of each GPU is set beside the GPUs of its **stratum**: those of the same part,
//! firmware, driver, host type and kernels. The decision is that of `fizeau accept`
//! ([`crate::accept::decide`]), with the stratum in the place of the node's other devices.
//!
//! - The **loss** of a GPU is 1 less its median rate over the median of the others of its stratum.
//! - It **fails** where a test of *H0: the loss is at most the least effect* refuses, at a false
//!   discovery rate over all GPUs and metrics of the survey ([`Dependence`] says which procedure).
//!   Sessions differ by more than repeats do: that it loses nothing is refused too, with the
//!   variance of a session in the error. Where sessions of whole nodes differ, both are asked
//!   beside the other devices of its node ([`between`]).
//! - It **passes** where the loss is below the least effect with 95 % confidence.
//! - The rest is **inconclusive**, with the number of repeats that may decide it.
//! - A metric whose repeats scatter by more than a third of the least effect fails nobody.
//!
//! A stratum says nothing of a loss that all of its GPUs share: floors are for that.

mod across;
pub mod between;
pub mod bundle;
pub mod component;
pub mod course;
pub mod dispute;
pub mod doubt;
pub mod drift;
pub mod flag;
pub mod gather;
pub mod judge;
mod lone;
pub mod plan;
pub mod planted;
pub mod problem;
pub mod recipe;
pub mod retest;
pub mod row;
pub mod rules;
pub mod score;
pub mod sender;
pub mod signers;
pub mod site;
pub mod strata;
pub mod survey;
pub mod units;
pub mod untaken;

use fizeau_domain::stats::student::Variance;
use serde::{Deserialize, Serialize};

/// How GPUs may depend on each other, which decides how false discoveries are controlled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dependence {
    /// Not at all, or so that what slows one down slows others down too: the procedure of Benjamini
    /// and Hochberg (1995).
    #[default]
    Positive,
    /// In any way: the procedure of Benjamini and Yekutieli (Annals of Statistics 29, 2001), which
    /// divides the rate by 1 + 1/2 + .. + 1/n.
    Any,
}

impl Dependence {
    /// The rate to use in the procedure of Benjamini and Hochberg, over `tests` tests.
    pub fn rate(self, rate: f64, tests: usize) -> f64 {
        match self {
            Dependence::Positive => rate,
            Dependence::Any => {
                rate / (1..=tests.max(1)).map(|count| 1.0 / count as f64).sum::<f64>()
            }
        }
    }

    /// The procedure, in words.
    pub fn words(self) -> &'static str {
        match self {
            Dependence::Positive => "Benjamini-Hochberg",
            Dependence::Any => "Benjamini-Yekutieli (any dependence)",
        }
    }
}

/// One metric of the GPUs of one stratum.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// The metric's name.
    pub metric: String,
    /// Index of the stratum.
    pub stratum: usize,
    /// The least relative loss that counts.
    pub least_effect: f64,
    /// Logarithm of the rate below which a GPU fails whatever its stratum reaches.
    pub floor: Option<f64>,
    /// Variance of the median of one session of a device, repeats included, as earlier sessions
    /// show it; none where too few devices have two.
    pub sessions: Option<Variance>,
    gpus: Vec<u32>,
    /// Where the values of each GPU end.
    ends: Vec<u32>,
    values: Vec<f64>,
    of: Vec<Of>,
}

/// What the values of a GPU are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Of {
    /// Sessions.
    pub sessions: u16,
    /// Whether a floor may fail the GPU. Not where the node's own acceptance has judged that, or
    /// others worked on the machine.
    pub floor_may_fail: bool,
    /// Whether it is a reference for other GPUs. Not where bundles that nobody signed say different
    /// things of it.
    pub is_reference: bool,
}

impl Group {
    /// One without GPUs.
    pub fn new(metric: &str, stratum: usize, least_effect: f64) -> Group {
        Group { metric: metric.into(), stratum, least_effect, ..Group::default() }
    }

    /// Adds a GPU by its index in the fleet, with the logarithms of the rates of its repeats, in
    /// order, of one session. One without repeats is not added.
    pub fn push(&mut self, gpu: u32, values: impl IntoIterator<Item = f64>) {
        self.push_of(gpu, values, Of { sessions: 1, floor_may_fail: true, is_reference: true });
    }

    /// The same, and what its repeats are of.
    pub fn push_of(&mut self, gpu: u32, values: impl IntoIterator<Item = f64>, of: Of) {
        let before = self.values.len();
        self.values.extend(values);
        if self.values.len() > before {
            self.gpus.push(gpu);
            self.ends.push(self.values.len() as u32);
            self.of.push(of);
        }
    }

    /// How many GPUs.
    pub fn len(&self) -> usize {
        self.gpus.len()
    }

    /// Whether there is no GPU.
    pub fn is_empty(&self) -> bool {
        self.gpus.is_empty()
    }

    /// The GPU of a row.
    pub fn gpu(&self, row: usize) -> u32 {
        self.gpus[row]
    }

    /// The GPUs, by row.
    pub fn gpus(&self) -> &[u32] {
        &self.gpus
    }

    /// What the repeats of a row are of.
    pub fn of(&self, row: usize) -> Of {
        self.of[row]
    }

    /// The repeats of a row.
    pub fn values(&self, row: usize) -> &[f64] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.values[start as usize..self.ends[row] as usize]
    }

    /// The repeats of all rows.
    pub fn rows(&self) -> impl Iterator<Item = &[f64]> {
        (0..self.len()).map(|row| self.values(row))
    }
}
