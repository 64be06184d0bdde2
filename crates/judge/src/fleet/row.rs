//! A row of the store: one metric of one device in one session, with all that identifies the
//! figure. The store is JSON Lines, a file for each date and collection (docs/fleet.md has the
//! columns).
//!
//! A text that is not told is empty, and absent in JSON. Rows are read by reference to the line
//! they stand in: a store has millions.

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{SeqAccess, Visitor},
};
use std::{borrow::Cow, fmt};

/// The format of a row, counted up when a column changes its meaning.
pub const FORMAT: u32 = 1;

/// The metric of the row that says what became of the acceptance as a whole.
pub const ACCEPTANCE: &str = "acceptance";

/// The device of a row that is about the node.
pub const NODE: &str = "node";

/// The mark of a row whose figures come from a stub driver.
pub const STUB: &str = "stub";

/// The mark of a row of a planted fleet.
pub const SIMULATED: &str = "simulated";

/// The sender of a row of a bundle that is signed by a key which the operator's list has for the
/// node.
pub const SIGNED: &str = "signed";

/// The sender of a row of a bundle whose signature was not checked.
pub const UNSIGNED: &str = "unsigned";

/// The metric of a row that a collection leaves about what it could not take.
pub const COLLECTION: &str = "collection";

/// The sender of such a row: the operator's own program. No bundle has it, since what reads bundles
/// sets their senders.
pub const COLLECTOR: &str = "collector";

/// Whether nobody vouches for a row, by its columns `sender` and `mark`. Rows without a sender came
/// into a store before there were any, or another program wrote them. A planted fleet has none.
pub fn is_unsigned(sender: &str, mark: &str) -> bool {
    sender != SIGNED && mark != SIMULATED
}

/// Whether the reader of a bundle has held a row to the node of its bundle, by its column `sender`.
pub fn is_held(sender: &str) -> bool {
    [SIGNED, UNSIGNED].contains(&sender)
}

/// One row. Its columns are in the order in which they are written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Row<'a> {
    /// The row's format: [`FORMAT`].
    pub format: u32,
    /// `stub` or `simulated` where nothing was measured.
    #[serde(borrow, skip_serializing_if = "is_empty")]
    pub mark: Cow<'a, str>,
    /// What was measured together: repeats of one session are set side by side.
    #[serde(borrow)]
    pub session: Cow<'a, str>,
    /// The run of a record that is no part of a bundle; empty of a bundle, whose rows hold all of
    /// its repeats.
    #[serde(borrow, skip_serializing_if = "is_empty")]
    pub run: Cow<'a, str>,
    /// Who vouches for a row of a bundle: [`SIGNED`] or [`UNSIGNED`]. Empty of a row that came
    /// from no bundle. What reads a bundle sets it, whatever the bundle's own rows say.
    #[serde(borrow, skip_serializing_if = "is_empty")]
    pub sender: Cow<'a, str>,
    /// The fingerprint of the key that signed the row's bundle, as `ssh-keygen` prints it
    /// (`SHA256:..`); empty of a row that is not [`SIGNED`]. Set with `sender`.
    #[serde(borrow, skip_serializing_if = "is_empty")]
    pub key: Cow<'a, str>,
    /// When the session began, RFC 3339 in UTC, by the node's clock.
    #[serde(borrow)]
    pub time: Cow<'a, str>,
    /// Whether the session did not come to its end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
    /// The node's name.
    #[serde(borrow)]
    pub node: Cow<'a, str>,
    /// Serial number or UUID of the machine.
    #[serde(borrow, skip_serializing_if = "is_empty")]
    pub machine: Cow<'a, str>,
    /// The device as `fizeau devices` names it (`cuda:3`, `host`); `node` of what is about the
    /// node.
    #[serde(borrow)]
    pub device: Cow<'a, str>,
    /// The GPU's UUID.
    #[serde(borrow, skip_serializing_if = "is_empty")]
    pub uuid: Cow<'a, str>,
    /// Serial number of its board.
    #[serde(borrow, skip_serializing_if = "is_empty")]
    pub serial: Cow<'a, str>,
    /// Its place on the PCI bus.
    #[serde(borrow, skip_serializing_if = "is_empty")]
    pub pci: Cow<'a, str>,
    /// The slot of the chassis.
    #[serde(borrow, skip_serializing_if = "is_empty")]
    pub slot: Cow<'a, str>,
    /// The part, or the device's name where it is none that is known.
    #[serde(borrow, skip_serializing_if = "is_empty")]
    pub part: Cow<'a, str>,
    /// Version of its firmware.
    #[serde(borrow, skip_serializing_if = "is_empty")]
    pub vbios: Cow<'a, str>,
    /// Drivers and vendors' libraries with their versions.
    #[serde(borrow, skip_serializing_if = "is_empty")]
    pub driver: Cow<'a, str>,
    /// Model of the machine and of its CPUs.
    #[serde(borrow, skip_serializing_if = "is_empty")]
    pub host_type: Cow<'a, str>,
    /// Version and commit of the program.
    #[serde(borrow, skip_serializing_if = "is_empty")]
    pub fizeau: Cow<'a, str>,
    /// What code was measured: a hash of the images of its kernels and of the versions of
    /// libraries.
    #[serde(borrow, skip_serializing_if = "is_empty")]
    pub code: Cow<'a, str>,
    /// The check (`memory read`); `acceptance` of the row about the whole.
    #[serde(borrow)]
    pub metric: Cow<'a, str>,
    /// What was measured: the case's id without its kernel.
    #[serde(borrow, skip_serializing_if = "is_empty")]
    pub point: Cow<'a, str>,
    /// The suite that has the case.
    #[serde(borrow, skip_serializing_if = "is_empty")]
    pub suite: Cow<'a, str>,
    /// The kernel that was fastest most often.
    #[serde(borrow, skip_serializing_if = "is_empty")]
    pub kernel: Cow<'a, str>,
    /// The unit of `values`: `B/s`, `FLOP/s`, `FLOP/s/MHz`, `MHz`, `1/s`; `1` of a share of the
    /// peak.
    #[serde(borrow, skip_serializing_if = "is_empty")]
    pub unit: Cow<'a, str>,
    /// The rate of each repeat, in order. What is no number is NaN here, and null in JSON.
    #[serde(deserialize_with = "numbers", skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<f64>,
    /// Repeats that were left out because something else took a part of the machine meanwhile.
    #[serde(skip_serializing_if = "is_zero")]
    pub disturbed: u32,
    /// The least relative loss that counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_effect: Option<f64>,
    /// The rate below which a device fails whatever others reach, in `unit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<f64>,
    /// What the node's own acceptance said of it: `fail` or `inconclusive`; of the row about the
    /// whole also `pass`. Of a metric with values `fail` alone.
    #[serde(borrow, skip_serializing_if = "is_empty")]
    pub verdict: Cow<'a, str>,
    /// Why, in words.
    #[serde(borrow, skip_serializing_if = "is_empty")]
    pub words: Cow<'a, str>,
    /// What to do about it, in the words of NVIDIA's Xid catalogue.
    #[serde(borrow, skip_serializing_if = "is_empty")]
    pub action: Cow<'a, str>,
}

#[expect(clippy::ptr_arg, reason = "serde's signature")]
fn is_empty(text: &Cow<'_, str>) -> bool {
    text.is_empty()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Most repeats of a row that are kept: a row with more is a mistake.
pub const VALUES_MAX: usize = 10_000;

/// Numbers of which some may be null. More than [`VALUES_MAX`] are read and left out.
fn numbers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    struct Numbers;
    impl<'de> Visitor<'de> for Numbers {
        type Value = Vec<f64>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of numbers")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<f64>, A::Error> {
            let mut all = Vec::with_capacity(8);
            while let Some(value) = list.next_element::<Option<f64>>()? {
                if all.len() < VALUES_MAX {
                    all.push(value.unwrap_or(f64::NAN));
                }
            }
            Ok(all)
        }
    }
    deserializer.deserialize_seq(Numbers)
}

impl<'a> Row<'a> {
    /// Reads a line of the store.
    ///
    /// # Errors
    /// In words, where it is no row, or one of a later program.
    pub fn parse(line: &'a [u8]) -> Result<Row<'a>, String> {
        let row: Row<'a> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        match row.format {
            FORMAT => Ok(row),
            0 => Err("it has no format: it is no row of a store".into()),
            found => Err(format!("it has format {found}, and this fizeau reads format {FORMAT}")),
        }
    }

    /// The row as a line, with its end.
    pub fn line(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        fizeau_domain::text::escaped(text) + "\n"
    }

    /// The same session and device, without metric and figures.
    pub fn identity(&self) -> Row<'a> {
        Row {
            metric: Cow::default(),
            point: Cow::default(),
            suite: Cow::default(),
            kernel: Cow::default(),
            code: Cow::default(),
            unit: Cow::default(),
            values: Vec::new(),
            disturbed: 0,
            least_effect: None,
            floor: None,
            verdict: Cow::default(),
            words: Cow::default(),
            action: Cow::default(),
            ..self.clone()
        }
    }

    /// Whether a collection left it about what it could not take.
    pub fn is_of_collection(&self) -> bool {
        self.sender == COLLECTOR && self.metric == COLLECTION
    }

    /// The date of its session, which is the partition it belongs to.
    pub fn date(&self) -> Option<&str> {
        date(&self.time)
    }
}

/// The date of a time: `2026-11-23` of `2026-11-23T10:00:00Z`; none where it is no such time.
pub fn date(time: &str) -> Option<&str> {
    let (date, rest) = time.split_at_checked(10)?;
    let digits = |range: std::ops::Range<usize>| {
        date.get(range).filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let number = |range| digits(range).and_then(|part| part.parse::<u32>().ok());
    let (_, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 29,
        _ => 31,
    };
    let is_date = (1..=12).contains(&month) && (1..=days).contains(&day);
    let has_marks = date.as_bytes()[4] == b'-' && date.as_bytes()[7] == b'-';
    (is_date && has_marks && rest.starts_with('T') && time.len() <= TIME_MAX).then_some(date)
}

/// Reads a date of a command line.
///
/// # Errors
/// In words, where it is none.
pub fn parse_date(text: &str) -> Result<String, String> {
    let is_date = date(&format!("{text}T")) == Some(text);
    if is_date { Ok(text.to_owned()) } else { Err("write a date as 2026-11-23".into()) }
}

/// Seconds since 1970 of a time in UTC, `2026-11-23T10:00:00Z` with or without a fraction of the
/// second; none where it is no such time. Times are put in order as texts, so that no other time
/// zone can be read.
pub fn seconds(time: &str) -> Option<f64> {
    let day = day_number(date(time)?);
    let clock = time.get(11..)?.strip_suffix('Z')?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let parts: Vec<&str> = clock.split(':').collect();
    let is_clock = parts.len() == 3 && parts.iter().all(|part| part.len() == 2 && is_digits(part));
    if !is_clock || !is_digits(fraction) {
        return None;
    }
    let number = |at: usize| parts[at].parse::<u32>().ok();
    let (hour, minute, second) = (number(0)?, number(1)?, number(2)?);
    // A leap second has the number 60.
    let is_time = hour < 24 && minute < 60 && second <= 60;
    is_time.then(|| day * 86_400.0 + f64::from(hour * 3600 + minute * 60 + second))
}

/// Days since 1970 of a date, by Howard Hinnant's algorithm; 0 of what is none.
pub fn day_number(date: &str) -> f64 {
    let part = |range| date.get(range).and_then(|part: &str| part.parse::<i64>().ok());
    let (Some(year), Some(month), Some(day)) = (part(0..4), part(5..7), part(8..10)) else {
        return 0.0;
    };
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    (era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468) as f64
}

/// Longest time, in bytes.
const TIME_MAX: usize = 40;
