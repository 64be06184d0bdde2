//! Whether a published figure can be true: each verdict with its arithmetic, and with what is
//! missing.
//!
//! A claim is set against bounds in its own favour: what it does not state is taken as what makes
//! it easiest to reach. What is impossible then is impossible whatever was left unsaid.

mod condition;
mod hardware;
mod reproduction;
mod run;
mod statement;
mod tokens;

pub use condition::{Condition, Met};
pub use reproduction::{Here, Reproduction, best_case, measured_by, reproduce};
pub use run::{Conditions, PartNamed, Run};
pub use statement::{Per, Statement};

use crate::{model::Model, project::Layout, spec::Part};
use serde::Deserialize;

/// A share of L0 that no public measurement of `data/claims` reaches: decode of dense models at
/// batch 1 on one GPU comes to 0.6-0.8 of it.
pub const LIGHT_MOST: f64 = 0.9;

/// The most claims of one file.
pub const CLAIMS_MAX: usize = 10_000;

/// A file of claims.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimFile {
    /// Its claims.
    pub claim: Vec<Claim>,
}

/// One published figure, with the conditions that are stated.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Short and stable, for machines.
    #[serde(default)]
    pub id: String,
    /// The figure with its unit, as [`Statement`] reads it.
    pub value: String,
    /// The part.
    pub on: Option<String>,
    /// Devices.
    pub gpus: Option<u32>,
    /// The model, for tokens.
    pub model: Option<String>,
    /// In what its linear layers are stored; absent: as published.
    pub precision: Option<String>,
    /// In what keys and values are stored; absent: the narrower of 16 bits and the weights.
    pub kv: Option<String>,
    /// Requests at once.
    pub concurrency: Option<u32>,
    /// Tokens of a prompt.
    pub isl: Option<u32>,
    /// Tokens of an answer.
    pub osl: Option<u32>,
    /// Tokens before the one that is made, where prompts and answers are not stated.
    pub context: Option<u32>,
    /// How the model is spread.
    pub layout: Option<String>,
    /// Tokens accepted for each step of speculative decoding; absent: plain decoding.
    pub acceptance: Option<f64>,
    /// Who says so, where.
    pub source: Option<String>,
    /// What to know of it.
    pub note: Option<String>,
    /// The verdict that stands in a file of this project, so that a test can compare.
    pub verdict: Option<Answer>,
    /// What `fizeau reproduce` measures, and under which conditions; absent: it cannot be run.
    pub run: Option<Run>,
}

/// What can be said of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Below all limits.
    Possible,
    /// Above L1, or above what such systems reach.
    Suspicious,
    /// Above a bound, or the weights do not fit.
    Impossible,
    /// Something that decides is not stated.
    CannotTell,
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Answer::Possible => "possible",
            Answer::Suspicious => "suspicious",
            Answer::Impossible => "impossible",
            Answer::CannotTell => "cannot tell",
        })
    }
}

/// A verdict on a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// In one word or two.
    pub answer: Answer,
    /// Why, in a sentence.
    pub why: String,
    /// The figure over the bound, where there is one.
    pub of_light: Option<f64>,
    /// The figure over that of L1, where there is one.
    pub of_serial: Option<f64>,
    /// The arithmetic, line by line.
    pub arithmetic: Vec<String>,
    /// What is not stated, and what was taken for it.
    pub missing: Vec<String>,
}

impl Verdict {
    fn cannot_tell(why: impl Into<String>) -> Verdict {
        Verdict {
            answer: Answer::CannotTell,
            why: why.into(),
            of_light: None,
            of_serial: None,
            arithmetic: Vec::new(),
            missing: Vec::new(),
        }
    }
}

/// What the claim names, looked up.
#[derive(Clone, Debug)]
pub struct Named<'a> {
    /// The part.
    pub part: Option<&'a Part>,
    /// The model.
    pub model: Option<Model>,
    /// The layout.
    pub layout: Option<Layout>,
}

/// Judges a claim.
///
/// # Errors
/// In words: what of the claim cannot be read.
pub fn judge(claim: &Claim, named: &Named<'_>) -> Result<Verdict, String> {
    let statement: Statement = claim.value.parse()?;
    if claim.gpus == Some(0) || claim.concurrency == Some(0) {
        return Err("gpus and concurrency are 1 at least".into());
    }
    if claim.acceptance.is_some_and(|tokens| !(1.0..=64.0).contains(&tokens)) {
        return Err("acceptance is from 1 to 64 tokens a step".into());
    }
    let Some(part) = named.part else {
        return Ok(Verdict::cannot_tell("the claim does not name a part: give --on"));
    };
    match statement {
        Statement::Tokens { per, rate } => match &named.model {
            None => Ok(Verdict::cannot_tell("the claim does not name a model: give --model")),
            Some(model) => tokens::judge(claim, part, model, named.layout, per, rate),
        },
        Statement::Memory(rate) => Ok(hardware::memory(part, rate)),
        Statement::Arithmetic(rate, dtype) => Ok(hardware::arithmetic(part, rate, dtype)),
        Statement::Bus(rate, devices) => Ok(hardware::bus(part, rate, devices.or(claim.gpus))),
        Statement::PerClock(rate, dtype) => Ok(hardware::per_clock(part, rate, dtype)),
    }
}
