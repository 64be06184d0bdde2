//! What was done: command, program, and what each judgement was made of.

use crate::accept::{Level, at_rest::AtRest, between, dcgm, history::Event, network, node::Device};
use fizeau_record::{Decided, redact::Kind};
use serde::{Deserialize, Serialize};

/// The format of the file, counted up when a field changes its meaning.
pub const FORMAT: u32 = 1;

/// What was done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// The file's format.
    pub format: u32,
    /// The command line, word by word. Without folders where names are redacted.
    pub command: Vec<String>,
    /// What ran.
    pub program: Program,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    /// When the bundle was closed, RFC 3339 in UTC.
    pub closed: String,
    /// How much was checked.
    pub level: Level,
    /// What the checks of the state were made of, besides the state.
    pub at_rest: AtRest,
    /// Devices that were judged together, by one profile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// What the decision on the network was told; absent where nothing was measured of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<network::Told>,
    /// What the check between nodes was told; absent where nothing was measured between nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between: Option<between::Told>,
    /// How much of each record was decided on. Lines that a record has beyond that came later.
    /// Absent of a bundle of an earlier Fizeau, whose records count whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<Decided>,
    /// What DCGM's diagnostic told; absent where none was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dcgm: Option<dcgm::Told>,
    /// The word that the operator gave, by which this acceptance is none of an earlier day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub challenge: Option<String>,
    /// What was replaced by keyed hashes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redacted: Vec<Kind>,
}

/// The program that ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Its version.
    pub version: String,
    /// The commit that it was built from.
    pub build: String,
    /// SHA-256 of its file, hexadecimal, as `sha256sum` prints it.
    pub sha256: String,
}

/// Devices that were judged together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The profile's file in the bundle.
    pub profile: String,
    /// The devices, in the order in which events name them.
    pub devices: Vec<Device>,
    /// All that the decision was told, in order.
    pub events: Vec<Event>,
}
