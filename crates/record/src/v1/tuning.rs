//! How a kernel came to the way of working that was timed.

use crate::mirror::mirror;
use fizeau_domain::{tuning, units::Seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which candidate was timed, and what was seen of the others.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tuning {
    /// The candidate that was timed.
    pub chosen: String,
    /// Who chose it.
    pub by: ChosenBy,
    /// All candidates, the device's best guess first; none where the choice was given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
}

mirror!(Tuning of tuning::Tuning { chosen, by, candidates });

/// Who chose a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChosenBy {
    /// The tuner, which tried all of them.
    Tried,
    /// A record, whose choice was replayed.
    Given,
}

mirror!(enum ChosenBy of tuning::ChosenBy { Tried, Given });

/// One way to do the work.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// A bundled kernel's name, or which one of a library's guesses it is: `guess_3`.
    pub name: String,
    /// Seconds of an iteration: the median of its samples. Absent where it refused the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Seconds>,
    /// How many samples were taken. Those who are far behind after the first get no more.
    pub samples: u32,
    /// Why it refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

mirror!(Candidate of tuning::Candidate { name, time, samples, refused });
