//! The record: what a run leaves behind, and the only thing reports are made from.
//!
//! The types here are what the program works with. Each [`Version`] of the format has wire types of
//! its own ([`v1`]), which alone know JSON, and converts between the two.
//!
//! What is above this crate, or beside it, cannot be used here:
//!
//! ```compile_fail
//! use fizeau_judge::compare;
//! ```
//!
//! ```compile_fail
//! use fizeau_device::Device;
//! ```

mod checks;
mod decided;
pub mod file;
pub mod guard;
pub mod identity;
mod limits;
mod mirror;
pub mod redact;
pub mod store;
pub mod v1;
mod version;

pub use decided::{AsDecided, Decided};
pub use fizeau_domain::spec::Network;
pub use mirror::Mirror;
pub use version::{CURRENT, Version};

use fizeau_domain::{
    case::Case,
    node_state::Board,
    outcome::Outcome,
    spec::Properties,
    units::{Bytes, Seconds, Watts},
};

/// One line of a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// The first, and again where a run was resumed.
    Header(Box<Header>),
    /// What became of one case.
    Outcome(Outcome),
    /// The last, if the run came to its end.
    Footer(Footer),
}

/// What was to be measured, and on what.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// Names this run: random, so that two runs are never taken for one.
    pub run: String,
    /// The program's version.
    pub fizeau: String,
    /// The commit that the program was built from (`git describe`), with `-dirty` where its sources
    /// differed from that commit; the version of the package where it was built outside a git tree,
    /// with `-debug` where it was not built as a release.
    /// None in records of programs that did not keep it.
    pub build: Option<String>,
    /// The command line, word by word: what chooses cases and device, without secrets and folders.
    pub command: Vec<String>,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    /// The user's words for this run.
    pub label: Option<String>,
    /// The suite's name.
    pub suite: String,
    /// The suite's text, whole, so that the run can be made again.
    pub suite_text: String,
    /// Selectors given, if any.
    pub selectors: Vec<String>,
    /// How many cases the whole suite plans on this device, of which selectors took some; none in
    /// records of programs that did not keep it.
    pub suite_cases: Option<u64>,
    /// Files of kernels that the user brought, beside those of fizeau and of vendors' libraries.
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

/// A file of kernels that the user brought.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// The machine around the device, as far as it helps to understand a number. No environment
/// variables, no user, no paths.
#[derive(Clone, Debug, Default, PartialEq)]
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
    pub boost: Option<bool>,
    /// Revision of the CPU's microcode, as the kernel prints it.
    pub microcode: Option<String>,
    /// How the GPU is set up; none on a host and where neither driver nor kernel tells.
    pub settings: Option<DeviceSettings>,
    /// Which board the GPU is, without its UUID where the host's name was left out; none on a host.
    pub board: Option<Board>,
    /// The GPU's own target (`sm_130`) where no kernel of this program is made for its
    /// architecture: what runs of them is compiled for an older one.
    pub unknown_architecture: Option<String>,
    /// Where no kernel is made for the GPU's architecture: the kernels of this program that do not
    /// run on it and were not planned, each with the targets that it is made for: `sm90_wgmma
    /// (sm_90a)`.
    pub kernels_left_out: Vec<String>,
    /// Load average over one minute at start.
    pub load: Option<f64>,
    /// Memory free at start.
    pub memory_free: Option<Bytes>,
    /// The most memory that the control group (cgroup) of the process allows, or one of its
    /// ancestors; absent without a limit.
    pub memory_limit: Option<Bytes>,
    /// The CPU time that the control group allows each second, or one of its ancestors, in CPUs;
    /// absent without a quota.
    pub cpu_quota: Option<f64>,
    /// CPUs of the machine that are online, where the kernel tells; more than `cpus` where the
    /// process may not use all of them.
    pub cpus_online: Option<u32>,
    /// Vendor libraries that were found, with their versions.
    pub libraries: Vec<String>,
    /// Who is which rank, one line each, where ranks are processes or GPUs.
    pub ranks: Vec<String>,
    /// What lies between nodes, where ranks are on several that told their names.
    pub network: Option<Network>,
    /// The NUMA node on which host memory for transfers is: that which the GPU is attached to.
    pub host_memory_node: Option<u32>,
    /// The other GPUs that were measured in the same run (`cuda:1`). Cases that use what GPUs
    /// share, their links and the host's cores (transfers, launches), ran on one GPU after another,
    /// all other cases on all GPUs at once.
    pub side_by_side: Vec<String>,
    /// What may spoil numbers here, in words: busy machine, virtual machine, ...
    pub warnings: Vec<String>,
}

/// A load average at the start above this share of the CPUs shows in figures.
const BUSY: f64 = 0.5;

impl Environment {
    /// The load average at the start, where it is high enough to show in figures.
    pub fn busy_load(&self) -> Option<f64> {
        self.load.filter(|&load| load > BUSY * f64::from(self.cpus.max(1)))
    }
}

/// How a GPU is set up, as far as it tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceSettings {
    /// The power limit in force.
    pub power_limit: Option<Watts>,
    /// Whether memory is protected by error correction.
    pub ecc: Option<bool>,
    /// What clocks are held to, where it shows: application clocks that are not the default, clocks
    /// set by a user (NVIDIA); the performance level (AMD: `auto` where they are free).
    pub clock_locks: Option<String>,
    /// Version of the GPU's firmware.
    pub vbios: Option<String>,
}

/// The timer, calibrated at start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timer {
    /// Smallest step it shows.
    pub resolution: Seconds,
    /// Median of an empty timed region: taken off nothing, stated.
    pub overhead: Seconds,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Footer {
    /// End, RFC 3339 in UTC.
    pub ended: String,
    /// Time it took in all.
    pub elapsed: Seconds,
    /// Whether it was ended from outside before its plan was done.
    pub interrupted: bool,
}

/// A whole record, as read back.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Of the first line.
    pub header: Header,
    /// In the order they were written; at most one for each case.
    pub outcomes: Vec<Outcome>,
    /// None where the run was killed or is still running.
    pub footer: Option<Footer>,
    /// What was ignored while reading, such as a last line cut short.
    pub notes: Vec<String>,
}

/// How the note begins that a record has where its run was resumed.
pub(crate) const RESUMED_AT: &str = "it was resumed at ";

impl Record {
    /// Whether the run was continued after an interruption, so that its cases may have been
    /// measured under different conditions.
    pub fn was_resumed(&self) -> bool {
        self.notes.iter().any(|note| note.starts_with(RESUMED_AT))
    }
}
