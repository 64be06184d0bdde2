//! The first version of the format: JSON Lines, one [`Line`] each, appended and flushed case by
//! case. The first line is the header, then one line for each outcome, last the footer.
//!
//! Doc comments here are the descriptions in docs/record-v1.schema.json.

mod case;
mod device;
mod outcome;

pub use case::*;
pub use device::*;
pub use outcome::*;

use super::mirror::mirror;
use crate::{
    record,
    units::{Bytes, Seconds},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The number that headers of this version carry.
pub const VERSION: u32 = 1;

/// One line of a record.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "line")]
pub enum Line {
    /// The first, and again where a run was resumed.
    Header(Box<Header>),
    /// What became of one case.
    Outcome(Outcome),
    /// The last, if the run came to its end.
    Footer(Footer),
}

mirror!(enum Line of record::Line { Header(header), Outcome(outcome), Footer(footer) });

/// What was to be measured, and on what.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Header {
    /// Always [`VERSION`].
    pub version: u32,
    /// Names this run: random, so that two runs are never taken for one.
    pub run: String,
    /// The program's version.
    pub fizeau: String,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    /// The user's words for this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The suite's name.
    pub suite: String,
    /// The suite's text, whole, so that the run can be made again.
    pub suite_text: String,
    /// Selectors given, if any.
    pub selectors: Vec<String>,
    /// The device.
    pub device: Properties,
    /// Name of the part it was matched to, if any; `data/` has its numbers.
    pub part: Option<String>,
    /// What it runs in.
    pub environment: Environment,
    /// The timer, calibrated.
    pub timer: Timer,
    /// Every case that was planned. Planned = measured + skipped + failed + invalid.
    pub plan: Vec<Case>,
}

mirror!(Header of record::Header {
    run, fizeau, started, label, suite, suite_text, selectors, device, part, environment, timer,
    plan; version = VERSION
});

/// The machine around the device, as far as it helps to understand a number. No environment
/// variables, no user, no paths.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// Host name, unless it was left out.
    pub host: Option<String>,
    /// `linux`, with the kernel's release.
    pub os: String,
    /// CPU model.
    pub cpu: String,
    /// CPUs that this process may use.
    pub cpus: u32,
    /// Whether threads could be pinned.
    pub pinned: bool,
    /// Whether huge pages were had: `transparent`, `none`, ...
    pub huge_pages: String,
    /// Frequency governor, where it shows.
    pub governor: Option<String>,
    /// Load average over one minute at start.
    pub load: Option<f64>,
    /// Memory free at start.
    pub memory_free: Option<Bytes>,
    /// Vendor libraries that were found, with their versions.
    pub libraries: Vec<String>,
    /// Who is which rank, one line each, where ranks are processes or GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<String>,
    /// What lies between nodes, where ranks are on several that told their names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// The NUMA node on which host memory for transfers is: that which the GPU is attached to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_memory_node: Option<u32>,
    /// What may spoil numbers here, in words: busy machine, virtual machine, ...
    pub warnings: Vec<String>,
}

mirror!(Environment of record::Environment {
    host, os, cpu, cpus, pinned, huge_pages, governor, load, memory_free, libraries, ranks, network,
    host_memory_node, warnings
});

/// What lies between the nodes of a world.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Network {
    /// How many nodes there are.
    pub nodes: u32,
    /// Network interfaces for messages that are up, on the node with the fewest.
    pub interfaces: u32,
    /// Their rate together in Gbit/s, on the node where it is least.
    pub gigabits: u32,
}

mirror!(Network of record::Network { nodes, interfaces, gigabits });

/// The timer, calibrated at start.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Timer {
    /// Smallest step it shows.
    pub resolution: Seconds,
    /// Median of an empty timed region: taken off nothing, stated.
    pub overhead: Seconds,
}

mirror!(Timer of record::Timer { resolution, overhead });

/// The end of a run.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Footer {
    /// End, RFC 3339 in UTC.
    pub ended: String,
    /// Time it took in all.
    pub elapsed: Seconds,
    /// Whether it was ended from outside before its plan was done.
    pub interrupted: bool,
}

mirror!(Footer of record::Footer { ended, elapsed, interrupted });
