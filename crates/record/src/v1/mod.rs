//! The first version of the format: JSON Lines, one [`Line`] each, appended and flushed case by
//! case. The first line is the header, then one line for each outcome, last the footer.
//!
//! Doc comments here are the descriptions in docs/record-v1.schema.json.

mod case;
mod device;
mod outcome;
mod tuning;

pub use case::*;
pub use device::*;
pub use outcome::*;
pub use tuning::*;

use super::mirror::mirror;
use crate as record;
use fizeau_domain::{
    launcher::RANKS_MAX,
    node_state,
    units::{Bytes, Seconds, Watts},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The number that headers of this version carry.
pub const VERSION: u32 = 1;

/// What dates look like, for validators that do not look at formats.
const DATE_TIME: &str = "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):\
                         [0-5][0-9]:([0-5][0-9]|60)([.][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$";

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
    #[schemars(extend("const" = VERSION))]
    pub version: u32,
    /// Names this run: random, so that two runs are never taken for one.
    pub run: String,
    /// The program's version.
    pub fizeau: String,
    /// The commit that the program was built from (`git describe`), with `-dirty` where its sources
    /// differed from that commit; the version of the package where it was built outside a git tree,
    /// with `-debug` where it was not built as a release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// The command line, word by word: what chooses cases and device, without secrets and folders.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Start, RFC 3339 in UTC.
    #[schemars(extend("format" = "date-time", "pattern" = DATE_TIME))]
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
    /// How many cases the whole suite plans on this device, of which selectors took some; absent in
    /// records of programs that did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite_cases: Option<u64>,
    /// Files of kernels that the user brought, beside those of fizeau and of vendors' libraries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user_kernels: Vec<UserKernels>,
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
    run, fizeau, build, command, started, label, suite, suite_text, selectors, suite_cases,
    user_kernels, device, part, environment, timer, plan; version = VERSION
});

/// A file of kernels that the user brought.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UserKernels {
    /// The names of its kernels in the ids of cases.
    pub names: Vec<String>,
    /// The file, as it was given on the command line.
    pub path: String,
    /// SHA-256 of the file, hexadecimal.
    pub sha256: String,
    /// SHA-256 of the file beside it that says how the kernels are launched.
    pub section_sha256: String,
}

mirror!(UserKernels of record::UserKernels { names, path, sha256, section_sha256 });

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
    /// Which huge pages were used: `transparent`, `none`, ...
    pub huge_pages: String,
    /// Frequency governor, where it shows.
    pub governor: Option<String>,
    /// Whether the CPU may clock above its base frequency, where the kernel tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boost: Option<bool>,
    /// Revision of the CPU's microcode, as the kernel prints it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microcode: Option<String>,
    /// How the GPU is set up; absent on a host and where neither driver nor kernel tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<DeviceSettings>,
    /// Which board the GPU is, without its UUID where the host's name was left out; absent on a
    /// host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub board: Option<Board>,
    /// The GPU's own target (`sm_130`) where no kernel of this program is made for its
    /// architecture: what runs of them is compiled for an older one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_architecture: Option<String>,
    /// Where no kernel is made for the GPU's architecture: the kernels of this program that do not
    /// run on it and were not planned, each with the targets that it is made for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels_left_out: Vec<String>,
    /// Load average over one minute at start.
    #[schemars(range(min = 0.0))]
    pub load: Option<f64>,
    /// Memory free at start.
    pub memory_free: Option<Bytes>,
    /// The most memory that the control group (cgroup) of the process allows, or one of its
    /// ancestors; absent without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<Bytes>,
    /// The CPU time that the control group allows each second, or one of its ancestors, in CPUs;
    /// absent without a quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub cpu_quota: Option<f64>,
    /// CPUs of the machine that are online, where the kernel tells; more than `cpus` where the
    /// process may not use all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus_online: Option<u32>,
    /// Vendor libraries that were found, with their versions.
    pub libraries: Vec<String>,
    /// Who is which rank, one line each, where ranks are processes or GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = RANKS_MAX))]
    pub ranks: Vec<String>,
    /// What lies between nodes, where ranks are on several that told their names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// The NUMA node on which host memory for transfers is: that which the GPU is attached to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_memory_node: Option<u32>,
    /// The other GPUs that were measured in the same run (`cuda:1`). Cases that use what GPUs
    /// share, their links and the host's cores (transfers, launches), ran on one GPU after another,
    /// all other cases on all GPUs at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub side_by_side: Vec<String>,
    /// What may spoil numbers here, in words: busy machine, virtual machine, ...
    pub warnings: Vec<String>,
}

mirror!(Environment of record::Environment {
    host, os, cpu, cpus, pinned, huge_pages, governor, boost, microcode, settings, board,
    unknown_architecture, kernels_left_out, load, memory_free, memory_limit, cpu_quota, cpus_online,
    libraries, ranks, network, host_memory_node, side_by_side, warnings
});

/// How a GPU is set up, as far as it tells.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceSettings {
    /// The power limit in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_limit: Option<Watts>,
    /// Whether memory is protected by error correction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecc: Option<bool>,
    /// What clocks are held to, where it shows: application clocks that are not the default, clocks
    /// set by a user (NVIDIA); the performance level (AMD: `auto` where they are free).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_locks: Option<String>,
    /// Version of the GPU's firmware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vbios: Option<String>,
}

mirror!(DeviceSettings of record::DeviceSettings { power_limit, ecc, clock_locks, vbios });

/// Which board a GPU is.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Board {
    /// The driver's own number for it, of a slice where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Its place on the PCI bus, `0000:1a:00.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci: Option<String>,
}

mirror!(Board of node_state::Board { uuid, pci });

/// What lies between the nodes of a world.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Network {
    /// How many nodes there are.
    #[schemars(range(max = RANKS_MAX))]
    pub nodes: u32,
    /// Network interfaces for messages that are up, on the node with the fewest.
    #[schemars(range(max = RANKS_MAX))]
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
    #[schemars(extend("format" = "date-time", "pattern" = DATE_TIME))]
    pub ended: String,
    /// Time it took in all.
    pub elapsed: Seconds,
    /// Whether it was ended from outside before its plan was done.
    pub interrupted: bool,
}

mirror!(Footer of record::Footer { ended, elapsed, interrupted });
