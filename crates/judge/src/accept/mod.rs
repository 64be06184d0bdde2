//! Acceptance: is a node fit for work? Pure: what was observed and recorded goes in, verdicts come
//! out. What measures, waits and writes is `cmd::accept`; what reads the kernel's files is
//! `observe`.

pub mod at_rest;
pub mod between;
pub mod cause;
pub mod changes;
pub mod corruption;
pub mod dcgm;
pub mod decide;
pub mod history;
pub mod learn;
pub mod network;
pub mod node;
pub mod passive;
pub mod profile;
pub mod reading;
mod remedy;
pub mod scale_up;
pub mod shared;

pub use remedy::remedy;

use fizeau_domain::{node_state::Board, verdict::Verdict};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use std::{collections::BTreeMap, fmt};

/// The format of a verdict file, counted up when a field changes its meaning.
pub const FORMAT: u32 = 1;

/// How much is checked.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// What the kernel and the drivers tell; no load, a few seconds.
    Passive,
    /// That, and a few measurements, repeated until decided; minutes.
    #[default]
    Quick,
    /// Every check of the profile; a quarter of an hour.
    Full,
    /// That, and then load without end, until the budget does; hours.
    Soak,
}

/// What of a machine a check exercises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Bandwidth of a device's memory.
    Memory,
    /// Latency of memory.
    Latency,
    /// Bandwidth of the last-level cache.
    Cache,
    /// Arithmetic in a short window.
    Arithmetic,
    /// Arithmetic at the clock that lasts.
    Sustained,
    /// The link between a device and the host.
    HostLink,
    /// Links between devices of one node.
    PeerLink,
    /// The network.
    Network,
    /// Whether results are the same bits each time (`sdc/...`).
    Results,
    /// How the machine is made up and set up: no measurement.
    State,
}

/// What joins a node's GPUs by NVLink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NvlinkDomain {
    /// No switch: PCI Express boards, bridges, GH200 alone.
    None,
    /// The switches of the node (HGX and DGX of A100 to B300).
    Node,
    /// Those of a rack (GB200 and GB300 NVL72), by which nodes are one domain.
    Rack,
}

/// What to do about a failure, in the words of NVIDIA's Xid catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Action {
    /// Run it again: nothing of the machine has to change.
    RestartApp,
    /// Reset the GPU.
    ResetGpu,
    /// Restart the node.
    Restart,
    /// The vendor, or who set the machine up, has to look at it.
    ContactSupport,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Action::RestartApp => "RESTART_APP",
            Action::ResetGpu => "RESET_GPU",
            Action::Restart => "RESTART",
            Action::ContactSupport => "CONTACT_SUPPORT",
        })
    }
}

/// A measured number with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantity {
    /// In the unit.
    pub value: f64,
    /// One of [`UNITS`].
    pub unit: &'static str,
}

/// Units of what is measured.
pub const UNITS: [&str; 7] = ["B/s", "B/s/MHz", "FLOP/s", "FLOP/s/MHz", "1/s", "1/s/MHz", "MHz"];

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Quantity, D::Error> {
        #[derive(Deserialize)]
        struct Read {
            value: f64,
            unit: String,
        }
        let Read { value, unit } = Read::deserialize(deserializer)?;
        let unit = UNITS.into_iter().find(|known| *known == unit);
        let unit =
            unit.ok_or_else(|| D::Error::custom("it has a unit that nothing is measured in"));
        Ok(Quantity { value, unit: unit? })
    }
}

/// One check of one device, or of the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The check's name.
    pub check: String,
    /// The device as `fizeau devices` names it; `node` where the check is of the node.
    pub device: String,
    /// What was measured: the case's id without its kernel. Absent for checks of states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub point: Option<String>,
    /// Pass, fail or inconclusive.
    pub verdict: Verdict,
    /// The median, where something was measured. Absent on a stub driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Quantity>,
    /// The rate below which it fails, in the unit of `value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<f64>,
    /// Where the floor comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor_source: Option<String>,
    /// The median over the floor, less 1: how far it is above (positive) or below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub above_floor: Option<f64>,
    /// Ends of the 95 % interval of `value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// How sure the verdict is: one less the probability of so extreme a rate just at the floor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Standard deviation of one repeat, as a share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise: Option<f64>,
    /// How often it was measured.
    pub repeats: usize,
    /// The kernel that was fastest most often.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// What is to blame, where the pattern tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<cause::Cause>,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    /// In words: what was found, and why it could not be decided.
    pub words: String,
    /// Whether a stub driver stands in for the device: nothing was measured.
    pub stub: bool,
}

impl Judged {
    /// A check of a state, without numbers.
    pub fn of_state(check: &str, device: &str, verdict: Verdict, words: String) -> Judged {
        Judged {
            check: check.into(),
            device: device.into(),
            point: None,
            verdict,
            value: None,
            floor: None,
            floor_source: None,
            above_floor: None,
            interval: None,
            confidence: None,
            noise: None,
            repeats: 0,
            kernel: None,
            cause: None,
            action: None,
            words,
            stub: false,
        }
    }

    /// With what is to blame, and what to do about it.
    pub fn because(self, cause: cause::Cause) -> Judged {
        Judged { action: Some(cause.action()), cause: Some(cause), ..self }
    }
}

/// The verdict on a node: what the file `verdict.json` holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The file's format.
    pub format: u32,
    /// The program's version.
    pub fizeau: String,
    /// The node's name, unless it was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    /// End; absent while it runs, and where it was killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// How much was checked.
    pub level: Level,
    /// The profile's name.
    pub profile: String,
    /// Where its floors come from.
    pub profile_kind: profile::Kind,
    /// Whether a stub driver stands in for any device.
    pub stub: bool,
    /// The verdict on the node: the worst of all.
    pub verdict: Verdict,
    /// What to do, where something failed: the most that any failure asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    /// Whether all that was planned was judged.
    pub complete: bool,
    /// Every check of every device.
    pub checks: Vec<Judged>,
    /// What the node has, in words: CPUs and GPUs with their drivers. Empty in verdicts of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machine: Vec<String>,
    /// Which board each GPU is, by the device's name, as far as its driver tells.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub boards: BTreeMap<String, Board>,
    /// What could not be read, and is therefore not judged.
    pub unread: Vec<String>,
    /// What a reader has to know, in words.
    pub notes: Vec<String>,
}

impl Report {
    /// Takes the verdict and the action from the checks.
    pub fn concluded(mut self) -> Report {
        let all = self.checks.iter().map(|one| one.verdict);
        let unfinished = (!self.complete).then_some(Verdict::Inconclusive);
        self.verdict = Verdict::on_all(all.chain(unfinished));
        self.stub = self.checks.iter().any(|one| one.stub);
        let failed = self.checks.iter().filter(|one| one.verdict == Verdict::Fail);
        self.action = failed.filter_map(|one| one.action).max();
        self
    }

    /// A device's name, and in brackets which board it is where that is known.
    pub fn named(&self, device: &str) -> String {
        match self.boards.get(device) {
            Some(board) => format!("{device} ({})", board.words()),
            None => device.to_owned(),
        }
    }

    /// How many checks have a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.checks.iter().filter(|one| one.verdict == verdict).count()
    }
}
