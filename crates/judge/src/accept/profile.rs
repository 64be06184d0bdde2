//! Profiles: which checks there are, and what each is set against.
//!
//! A profile is a TOML file. Where its floors come from is its [`Kind`]: **derived** from the speed
//! of light alone (they may fail what is grossly slow, and never pass anything), **public** (from
//! published figures of one part, each with its source and how good the source is), **learnt**
//! (from an operator's own good machines: `fizeau profile learn`).

use super::{Level, NvlinkDomain, Resource};
use fizeau_domain::{selector::Selector, spec::Tier};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Longest file, in bytes.
pub const TEXT_MAX: u64 = 4 << 20;

/// Where floors come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// From the speed of light alone.
    Derived,
    /// From published figures.
    Public,
    /// From machines that an operator knows to be good.
    Learnt,
}

/// How good the source of a floor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Quality {
    /// Several independent measurements of healthy machines agree.
    Good,
    /// One measurement of a healthy machine, or a limit that an operator uses in production.
    Fair,
    /// A limit far below what healthy machines reach, or of unknown origin: it passes nothing.
    Weak,
}

/// A profile, as its file has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name, as `--profile` takes it.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// Where its floors come from.
    pub kind: Kind,
    /// Id of the part that it is for; absent: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Whether it is for hosts; else it is for GPUs.
    #[serde(default, skip_serializing_if = "is_false")]
    pub host: bool,
    /// The suite that has the cases of its checks: a built-in one, or a TOML file.
    pub suite: String,
    /// What machine the references were measured on. Of a learnt profile alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Key>,
    /// What the node has to be made up of.
    #[serde(default, skip_serializing_if = "Expected::is_empty")]
    pub expected: Expected,
    /// What is checked by measuring.
    #[serde(default, rename = "check")]
    pub checks: Vec<Check>,
    /// What good machines reached. Of a learnt profile alone.
    #[serde(default, rename = "reference", skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<Reference>,
    /// What bits good machines left. Of a learnt profile alone.
    #[serde(default, rename = "hash", skip_serializing_if = "Vec::is_empty")]
    pub hashes: Vec<Golden>,
    /// The folder of its file, which its suites' files are named from; empty for the working
    /// directory, and of a built-in profile.
    #[serde(skip)]
    pub folder: PathBuf,
}

/// One check: some cases, and how they are judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// Selectors of its cases. Each point that they select is judged by its fastest kernel.
    pub cases: Vec<String>,
    /// The suite that has its cases, where that is another than the profile's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    /// What it exercises.
    pub resource: Resource,
    /// The least relative loss that counts. From the physical quantum of a fault: a memory stack, a
    /// link, half of PCI Express. Absent where results are compared bit by bit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub least_effect: f64,
    /// From which level on.
    #[serde(default)]
    pub level: Level,
    /// Whether the rate is judged at the clock that was observed, and the clock apart: silicon
    /// under a power limit settles at clocks of its own.
    #[serde(default, skip_serializing_if = "is_false")]
    pub at_clock: bool,
    /// Whether all pairs of devices are connected alike, so that each is set beside the others.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pairs_alike: bool,
    /// The floor; absent: set against references and peers alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<Floor>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(value: &bool) -> bool {
    !value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// The bits that good machines left in a case: see [`fizeau_domain::outcome::Integrity`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Golden {
    /// The case's id, its kernel with it.
    pub case: String,
    /// The hash of its results, as 16 hexadecimal digits.
    pub hash: String,
    /// SHA-256 of the kernels' images, sorted; none on hosts, whose kernels are the program's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// How many repeats left it.
    pub runs: usize,
}

/// A floor: a share of the speed of light.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Floor {
    /// Of the speed of light of `tier`.
    pub share: f64,
    /// Whose peak.
    pub tier: FloorTier,
    /// How good the source is.
    pub quality: Quality,
    /// Where the number comes from.
    pub source: String,
}

/// The tiers that a floor can be a share of: those that do not depend on the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FloorTier {
    /// The vendor's printed peak.
    Datasheet,
    /// Units x operations per clock x the clock observed while it ran.
    Observed,
    /// The slowest resource for this very case.
    Algorithmic,
}

impl From<FloorTier> for Tier {
    fn from(tier: FloorTier) -> Tier {
        match tier {
            FloorTier::Datasheet => Tier::Datasheet,
            FloorTier::Observed => Tier::Observed,
            FloorTier::Algorithmic => Tier::Algorithmic,
        }
    }
}

/// What identifies a figure: references are of no use for machines that differ in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Id of the part, or the device's name where it is none that is known.
    pub part: String,
    /// How many units (SMs, CUs, cores) worked.
    pub units: u32,
    /// Drivers and vendors' libraries with their versions.
    pub libraries: Vec<String>,
    /// Version of the device's firmware (VBIOS).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// The program's version and commit: its kernels for the host are part of it.
    pub fizeau: String,
    /// The library that ranks exchange messages by, with its version; absent without collectives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collectives: Option<String>,
    /// SHA-256 of the images of kernels, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// Whether a stub driver stood in for the devices.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stub: bool,
}

impl Key {
    /// In what two differ, in words.
    pub fn differences(&self, other: &Key) -> Vec<String> {
        let Key { part, units, libraries, firmware, fizeau, collectives, images, stub } = self;
        let mut words = Vec::new();
        let mut differ = |what: &str, ours: String, theirs: String| {
            if ours != theirs {
                words.push(format!("{what}: {ours} here, {theirs} in the profile"));
            }
        };
        let firm = |firmware: &Option<String>| firmware.clone().unwrap_or_else(|| "none".into());
        let marked = |stub: bool| if stub { "a stub" } else { "a device" }.to_owned();
        differ("part", part.clone(), other.part.clone());
        differ("units", units.to_string(), other.units.to_string());
        differ("drivers and libraries", libraries.join(", "), other.libraries.join(", "));
        differ("firmware", firm(firmware), firm(&other.firmware));
        differ("fizeau", fizeau.clone(), other.fizeau.clone());
        differ("measured", marked(*stub), marked(other.stub));
        // One that was not used in a repeat is no other one.
        if collectives.is_some() {
            differ("collectives by", firm(collectives), firm(&other.collectives));
        }
        if images != &other.images {
            words.push("the images of kernels differ".into());
        }
        words
    }
}

/// Which number of a measurement is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aspect {
    /// Iterations each second.
    Rate,
    /// Iterations each second and megahertz of the observed clock.
    AtClock,
    /// The clock that was observed, in megahertz.
    Clock,
}

/// What good machines reached in one metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// The case's id without its kernel.
    pub point: String,
    /// Which number of it.
    pub aspect: Aspect,
    /// Median over the devices: iterations each second, or as `aspect` says.
    pub median: f64,
    /// Standard error of `median`, as a share.
    pub error: f64,
    /// Degrees of freedom that `error` was estimated with.
    pub error_freedom: f64,
    /// Standard deviation of a device's runs beyond their repeats; absent where none ran twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread_of_runs: Option<f64>,
    /// The same beside other devices of the node; absent where too few of them were run twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread_beside_others: Option<f64>,
    /// Standard deviation of devices, as a share; absent where there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread_of_devices: Option<f64>,
    /// The same of nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread_of_nodes: Option<f64>,
    /// How many runs.
    pub runs: usize,
    /// Of how many devices.
    pub devices: usize,
    /// Of how many nodes.
    pub nodes: usize,
    /// Start of the first run, RFC 3339 in UTC.
    pub from: String,
    /// Start of the last run.
    pub to: String,
}

/// What a node has to be made up of. What is absent is not checked against a number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// How many GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<usize>,
    /// Lanes of each GPU's link to the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie_lanes: Option<u32>,
    /// Generation of that link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie_generation: Option<u32>,
    /// Links of each GPU to the others that are up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_links: Option<u32>,
    /// What joins the GPUs by NVLink.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvlink_domain: Option<NvlinkDomain>,
    /// How many hives xGMI joins the GPUs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xgmi_hives: Option<usize>,
    /// How each GPU is partitioned: `whole`, `MIG 1g.18gb` (each of its slices), `SPX/NPS1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// Whether memory has to be protected by error correction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecc: Option<bool>,
    /// The GPUs' driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Whether the GPUs' clocks may be held by a user.
    #[serde(default, skip_serializing_if = "is_false")]
    pub held_clocks: bool,
    /// How many network interfaces for messages (InfiniBand, RoCE) are up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interfaces: Option<usize>,
    /// The rate of each, in Gbit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface_gigabits: Option<f64>,
    /// Memory of the host in GiB, at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_gib: Option<f64>,
    /// CPUs that are online, at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<usize>,
}

impl Expected {
    fn is_empty(&self) -> bool {
        *self == Expected::default()
    }
}

/// Floors below this share are slips of units: public tables have had 2,333 MB/s for 4.8 TB/s.
const SHARE_MIN: f64 = 0.02;

/// Floors that may pass are at least this share: far below what healthy machines reach, a floor
/// would pass a GPU at half of its speed.
const PASSING_MIN: f64 = 0.4;

/// The most that a check may call its least effect.
const EFFECT_MAX: f64 = 0.5;

impl Profile {
    /// Reads a profile.
    ///
    /// # Errors
    /// In words: what is wrong with it.
    pub fn parse(text: &str) -> Result<Profile, String> {
        let profile: Profile = toml::from_str(text).map_err(|error| error.to_string())?;
        profile.checked()
    }

    fn checked(self) -> Result<Profile, String> {
        for check in &self.checks {
            check.refuse().map_err(|why| format!("check {:?}: {why}", check.name))?;
        }
        for reference in &self.references {
            let Reference { point, median, .. } = reference;
            let of_runs = [reference.spread_of_runs, reference.spread_beside_others];
            let spreads = [reference.spread_of_devices, reference.spread_of_nodes];
            let is_share = |spread: &f64| spread.is_finite() && *spread >= 0.0;
            let shares = of_runs.iter().chain(&spreads).flatten().chain([&reference.error]);
            let is_rate = median.is_finite() && *median > 0.0 && reference.error_freedom >= 1.0;
            if !is_rate || !{ shares }.all(is_share) {
                return Err(format!("reference {point:?}: its numbers are no rate and no shares"));
            }
        }
        if self.kind == Kind::Learnt && self.key.is_none() {
            return Err("a learnt profile says in [key] what it was learnt on".into());
        }
        let passes = |check: &&Check| {
            check.floor.as_ref().is_some_and(|floor| floor.quality != Quality::Weak)
        };
        if let (Kind::Derived, Some(check)) = (self.kind, self.checks.iter().find(passes)) {
            let name = &check.name;
            return Err(format!("check {name:?}: a derived floor is weak, and passes nothing"));
        }
        Ok(self)
    }

    /// The reference of a metric.
    pub fn reference(&self, point: &str, aspect: Aspect) -> Option<&Reference> {
        self.references.iter().find(|one| one.point == point && one.aspect == aspect)
    }

    /// The suite of a check as the profile names it: a built-in one, or a TOML file.
    pub fn suite_of<'c>(&'c self, check: &'c Check) -> &'c str {
        check.suite.as_deref().unwrap_or(&self.suite)
    }

    /// Whether a record is of a check's suite, by the name that its command line has. Suites of
    /// users go by their files' names, which is what a record keeps of them.
    pub fn is_of_suite(&self, check: &Check, suite: &str) -> bool {
        let name = |suite: &str| suite.rsplit('/').next().unwrap_or(suite).to_owned();
        name(self.suite_of(check)) == name(suite)
    }

    /// What has to be measured up to a level: each suite, in each way in which one of its checks
    /// asks for it, and the checks.
    pub fn stages(&self, level: Level) -> Vec<Stage> {
        let mut stages: Vec<Stage> = Vec::new();
        for (at, check) in self.checks.iter().enumerate().filter(|(_, one)| one.level <= level) {
            let (suite, way) = (self.located(self.suite_of(check)), check.way());
            match stages.iter_mut().find(|stage| stage.suite == suite && stage.way == way) {
                Some(stage) => stage.checks.push(at),
                None => stages.push(Stage { suite, way, checks: vec![at] }),
            }
        }
        stages.sort_by_key(|stage| stage.way);
        stages
    }

    /// A suite as the command line takes it: a built-in one by its name, a file by its path, which
    /// in the profile is relative to the profile's own file.
    fn located(&self, suite: &str) -> String {
        match suite.ends_with(".toml") {
            true => self.folder.join(suite).to_string_lossy().into_owned(),
            false => suite.to_owned(),
        }
    }

    /// As a file has it.
    ///
    /// # Errors
    /// Where a number cannot be written.
    pub fn text(&self) -> Result<String, String> {
        toml::to_string_pretty(self).map_err(|error| error.to_string())
    }
}

/// How devices of one kind are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// All at once, each by itself: what a device has for itself.
    AtOnce,
    /// One after another: what devices share, their links and the host's cores.
    InTurn,
    /// All together, each a rank of one run: collectives.
    AsRanks,
}

/// What one process measures of a device, or of all as ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The suite: a built-in one, or a TOML file.
    pub suite: String,
    /// How.
    pub way: Way,
    /// Indices of its checks in the profile.
    pub checks: Vec<usize>,
}

/// How a case is measured, by its id: [`fizeau_domain::case::Point::is_shared_by_gpus`] says the
/// same of a point that is timed. Bits are compared on all at once, copies among them: what links
/// take from each other does not change them.
fn way_of(id: &str) -> Way {
    let mut words = id.split('/');
    match (words.next(), words.next()) {
        (Some("collective"), _) | (Some("sdc"), Some("all_reduce")) => Way::AsRanks,
        (Some("transfer"), Some("device_local_copy")) => Way::AtOnce,
        (Some("transfer" | "launch"), _) => Way::InTurn,
        _ => Way::AtOnce,
    }
}

impl Check {
    /// Whether a case is one of its own.
    pub fn has(&self, id: &str) -> bool {
        Selector::parse(&self.cases).is_ok_and(|selector| selector.selects(id))
    }

    /// How its cases are measured, all of them alike.
    pub fn way(&self) -> Way {
        let included = self.cases.iter().find(|selector| !selector.starts_with('!'));
        included.map_or(Way::AtOnce, |selector| way_of(selector))
    }

    fn refuse(&self) -> Result<(), String> {
        if self.cases.is_empty() {
            return Err("it selects no case".into());
        }
        Selector::parse(&self.cases).map_err(|error| error.to_string())?;
        let included = self.cases.iter().filter(|selector| !selector.starts_with('!'));
        if { included }.any(|selector| way_of(selector) != self.way()) {
            return Err("some of its cases are measured on all devices at once, and some on one \
                        after another: make two checks"
                .into());
        }
        if self.resource == Resource::Results {
            return match self.floor {
                None => Ok(()),
                Some(_) => Err("bits have no floor".into()),
            };
        }
        if !(self.least_effect > 0.0 && self.least_effect <= EFFECT_MAX) {
            let is = self.least_effect;
            return Err(format!("least_effect = {is} is no share from 0 to {EFFECT_MAX}"));
        }
        let Some(Floor { share, quality, source, .. }) = &self.floor else { return Ok(()) };
        if !(SHARE_MIN..=1.0).contains(share) {
            return Err(format!(
                "a floor of {share} of the speed of light: below {SHARE_MIN} it would be a slip of \
                 units, and above 1 nothing could pass"
            ));
        }
        if *quality != Quality::Weak && *share < PASSING_MIN {
            return Err(format!(
                "a floor of {share} may pass nothing: write quality = \"weak\", or a share of \
                 {PASSING_MIN} at least"
            ));
        }
        if source.trim().is_empty() {
            return Err("a floor says where it comes from".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
name = "own"
description = "one check"
kind = "public"
suite = "accept-host"

[[check]]
name = "memory read"
cases = ["stream/read/*"]
resource = "memory"
least_effect = 0.02
floor = { share = 0.8, tier = "datasheet", quality = "fair", source = "a page" }
"#;

    #[test]
    fn a_profile_is_read_and_written_again() {
        let profile = Profile::parse(TEXT).expect("a profile");
        assert_eq!(profile.checks[0].level, Level::Quick);
        assert_eq!(Profile::parse(&profile.text().expect("text")), Ok(profile));
    }

    #[test]
    fn each_suite_is_measured_in_each_way_that_its_checks_ask_for() {
        let check = |name: &str, case: &str, more: &str| {
            format!(
                "[[check]]\nname = \"{name}\"\ncases = [\"{case}\"]\nresource = \"memory\"\n\
                 least_effect = 0.02\n{more}\n"
            )
        };
        let text = TEXT.to_owned()
            + &check("copies", "transfer/host_to_device_memcpy/*", "")
            + &check("sum", "collective/all_reduce/*", "level = \"full\"")
            + &check("lasting", "stream/read/*", "suite = \"long\"\nlevel = \"full\"")
            + &check("triad", "stream/triad/*", "");
        let profile = Profile::parse(&text).expect("a profile");
        let told = |level| {
            let stages = profile.stages(level).into_iter();
            stages.map(|one| (one.suite, one.way, one.checks)).collect::<Vec<_>>()
        };
        let (own, long) = ("accept-host".to_owned(), "long".to_owned());
        let quick =
            vec![(own.clone(), Way::AtOnce, vec![0, 4]), (own.clone(), Way::InTurn, vec![1])];
        assert_eq!(told(Level::Quick), quick);
        let full = told(Level::Full);
        assert_eq!(full.len(), 4, "{full:?}");
        assert!(full.contains(&(long, Way::AtOnce, vec![3])));
        assert_eq!(full[3], (own, Way::AsRanks, vec![2]));
        assert!(profile.is_of_suite(&profile.checks[3], "/somewhere/long"));
        assert!(!profile.is_of_suite(&profile.checks[0], "long"));
    }

    #[test]
    fn floors_outside_of_what_can_be_are_refused() {
        for (find, replace, words) in [
            ("share = 0.8", "share = 0.0005", "slip of units"),
            ("share = 0.8", "share = 1.2", "nothing could pass"),
            ("share = 0.8", "share = 0.3", "may pass nothing"),
            ("least_effect = 0.02", "least_effect = 0.0", "least_effect"),
            ("least_effect = 0.02", "least_effect = nan", "least_effect"),
            ("\"a page\"", "\" \"", "where it comes from"),
            ("kind = \"public\"", "kind = \"derived\"", "passes nothing"),
            ("kind = \"public\"", "kind = \"learnt\"", "[key]"),
            ("cases = [\"stream/read/*\"]", "cases = []", "no case"),
            ("cases = [\"stream/read/*\"]", "cases = [\"[\"]", "["),
            ("\"stream/read/*\"", "\"stream/read/*\", \"transfer/*\"", "make two checks"),
            ("tier = \"datasheet\"", "tier = \"ceiling\"", "ceiling"),
            ("least_effect = 0.02", "least_effect = 0.02\nfoo = 1", "foo"),
        ] {
            let text = TEXT.replace(find, replace);
            assert_ne!(text, TEXT);
            let why = Profile::parse(&text).expect_err(words);
            assert!(why.contains(words), "{why}");
        }
        let part = "cases = [\"stream/read/*\"]";
        let both = TEXT.replace(part, "cases = [\"transfer/device_local_copy/*\", \"gemm/*\"]");
        assert_eq!(Profile::parse(&both).expect("a profile").checks[0].way(), Way::AtOnce);
        let weak = TEXT.replace("0.8", "0.3").replace("\"fair\"", "\"weak\"");
        assert!(Profile::parse(&weak).is_ok());
    }
}
