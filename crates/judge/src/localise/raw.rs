//! Measured exchanges as text: one JSON document, or CSV with a line for each exchange. Both hold
//! all that a verdict needs, and give the same verdict again.
//!
//! Only `rank_a`, `rank_b` and `bytes_per_second` have to be there, so that rates which another
//! program measured can be judged too; a matrix of CUDA's p2pBandwidthLatencyTest or of nvbandwidth
//! is read as it is printed. Ranks are numbered from 0. Where `round` is missing each
//! exchange is in a round of its own; where hosts are, each rank is taken to have one of its own.

use super::{Exchange, Findings, matrix};
use fizeau_domain::{
    labels::{self, Belonging},
    launcher::RANKS_MAX,
    number,
    text::{escaped, for_spreadsheets},
    units::Bytes,
};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// What marks exchanges that a stub driver made up, on every line.
const STUB: &str = "stub";

/// No link is as fast, bytes per second: the fastest of a GPU of 2026 have some 10^12.
const RATE_MAX: f64 = 1e15;

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Version of the program that measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fizeau: Option<String>,
    /// Bytes that each rank sent in an exchange.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<Bytes>,
    /// The ranks, in order.
    #[serde(default)]
    pub ranks: Vec<RankPlace>,
    /// The exchanges, in order.
    pub exchanges: Vec<RawExchange>,
}

/// Where a rank runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankPlace {
    /// Name of its host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its device, with the product's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The components that it belongs to, as the operator has named them: `l3`, by `leaf`.
    #[serde(default, skip_serializing_if = "Belonging::is_empty")]
    pub labels: Belonging,
}

/// One exchange.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RawExchange {
    /// The round, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// One rank.
    pub rank_a: u32,
    /// The other rank.
    pub rank_b: u32,
    /// Bytes that each sent / time of the slower; none where the exchange failed.
    #[serde(deserialize_with = "present")]
    pub bytes_per_second: Option<f64>,
    /// `stub` where a stub driver made the rate up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
}

/// A line of CSV: an exchange with what the document says of its ranks.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct CsvExchange {
    round: Option<u32>,
    rank_a: Option<u32>,
    host_a: Option<String>,
    device_a: Option<String>,
    labels_a: Option<String>,
    rank_b: Option<u32>,
    host_b: Option<String>,
    device_b: Option<String>,
    labels_b: Option<String>,
    size_bytes: Option<Bytes>,
    #[serde(deserialize_with = "rate")]
    bytes_per_second: Option<f64>,
    mark: Option<String>,
}

/// A number for each rank's host, for [`judge`](super::judge).
pub fn hosts(ranks: &[RankPlace]) -> Vec<u32> {
    let mut known: BTreeMap<&str, u32> = BTreeMap::new();
    let number = |(rank, place): (u32, _)| match place {
        Some(host) => *known.entry(host).or_insert(rank),
        None => rank,
    };
    (0..).zip(ranks.iter().map(|place| place.host.as_deref())).map(number).collect()
}

/// Why a text is no list of exchanges.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum RawError {
    /// It cannot be read as JSON.
    #[error("not JSON with exchanges: {0}")]
    Json(String),
    /// It cannot be read as CSV.
    #[error("not CSV with exchanges: {0}")]
    Csv(String),
    /// It has a matrix that cannot be taken.
    #[error("{0}")]
    Matrix(String),
    /// A column is missing.
    #[error(
        "there is no column {0}: rank_a, rank_b and bytes_per_second are needed, or a matrix as \
         p2pBandwidthLatencyTest and nvbandwidth print it"
    )]
    Column(&'static str),
    /// What an exchange says cannot be.
    #[error("exchange {at}: {why}")]
    Exchange {
        /// Which, from 1.
        at: usize,
        /// What is wrong.
        why: String,
    },
    /// There are none.
    #[error("there is no exchange in it")]
    Empty,
}

impl Measured {
    /// Reads JSON or CSV, whichever it is.
    ///
    /// # Errors
    /// Where it is neither, or an exchange cannot be.
    pub fn parse(text: &str) -> Result<Measured, RawError> {
        let text = text.trim_start_matches('\u{feff}');
        let mut measured = if text.trim_start().starts_with(['{', '[']) {
            serde_json::from_str(text).map_err(|error| RawError::Json(error.to_string()))?
        } else if let Some(exchanges) = matrix::exchanges(text) {
            let exchanges = exchanges.map_err(RawError::Matrix)?;
            Measured { exchanges, ..Measured::default() }
        } else {
            from_csv(text)?
        };
        measured.check()?;
        Ok(measured)
    }

    /// Refuses what cannot be, and gives every rank that is named a place.
    fn check(&mut self) -> Result<(), RawError> {
        if self.exchanges.is_empty() {
            return Err(RawError::Empty);
        }
        for (at, line) in (1..).zip(&self.exchanges) {
            let (a, b, rate) = (line.rank_a, line.rank_b, line.bytes_per_second);
            let why = match rate {
                _ if a == b => format!("rank {a} cannot exchange with itself"),
                _ if a.max(b) >= RANKS_MAX => {
                    format!("rank {} is not below {RANKS_MAX}", a.max(b))
                }
                Some(rate) if !rate.is_finite() || rate <= 0.0 => {
                    format!(
                        "a rate of {rate} B/s cannot be; of an exchange that failed it is left \
                         empty, or null in JSON"
                    )
                }
                Some(rate) if rate > RATE_MAX => format!(
                    "no link has a rate of {rate:e} B/s: bytes_per_second is bytes and not bits, \
                     and seconds and not less"
                ),
                _ => continue,
            };
            return Err(RawError::Exchange { at, why });
        }
        let most = self.exchanges.iter().map(|line| line.rank_a.max(line.rank_b)).max();
        let ranks = most.map_or(0, |most| most as usize + 1);
        self.ranks.resize(self.ranks.len().max(ranks), RankPlace::default());
        Ok(())
    }

    /// The exchanges, for [`judge`](super::judge).
    pub fn exchanges(&self) -> Vec<Exchange> {
        let exchange = |(at, line): (u32, &RawExchange)| Exchange {
            round: line.round.unwrap_or(at),
            one: line.rank_a,
            other: line.rank_b,
            rate: line.bytes_per_second.unwrap_or(f64::NAN),
        };
        (0..).zip(&self.exchanges).map(exchange).collect()
    }

    /// Judges them, by the hosts and the labels of their ranks.
    pub fn judge(&self) -> Findings {
        judge_places(&self.ranks, &self.exchanges())
    }

    /// Number of rounds.
    pub fn rounds(&self) -> u32 {
        self.exchanges().iter().map(|exchange| exchange.round.saturating_add(1)).max().unwrap_or(0)
    }

    /// Whether each exchange says which round it was in.
    pub fn has_rounds(&self) -> bool {
        self.exchanges.iter().all(|line| line.round.is_some())
    }

    /// The fewest exchanges that a rank had: as many as it has rounds, where none waited.
    pub fn fewest_exchanges(&self) -> u32 {
        let mut counts = vec![0; self.ranks.len()];
        for rank in self.exchanges.iter().flat_map(|line| [line.rank_a, line.rank_b]) {
            if let Some(count) = counts.get_mut(rank as usize) {
                *count += 1;
            }
        }
        counts.into_iter().min().unwrap_or(0)
    }

    /// Whether a stub driver made the rates up.
    pub fn is_stub(&self) -> bool {
        self.exchanges.iter().any(|line| line.mark.as_deref() == Some(STUB))
    }

    /// A rank in words: `rank 3: node7, cuda:3 (NVIDIA H200)`.
    pub fn name(&self, rank: u32) -> String {
        let place = self.ranks.get(rank as usize);
        let known = place.map(|place| [place.host.as_deref(), place.device.as_deref()]);
        let known: Vec<&str> = known.into_iter().flatten().flatten().collect();
        if known.is_empty() {
            format!("rank {rank}")
        } else {
            format!("rank {rank}: {}", known.join(", "))
        }
    }

    /// As a JSON document.
    ///
    /// # Errors
    /// None on memory; the signature is that of `serde_json`.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(escaped)
    }

    /// As CSV, a line for each exchange.
    ///
    /// # Errors
    /// None on memory; the signature is that of the `csv` crate.
    pub fn to_csv(&self) -> Result<String, csv::Error> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let harmless = |words: &Option<String>| words.as_deref().map(for_spreadsheets);
        let place = |rank: u32| {
            let place = self.ranks.get(rank as usize).cloned().unwrap_or_default();
            let labels = (!place.labels.is_empty()).then(|| labels::in_one(&place.labels));
            [place.host, place.device, labels].map(|words| harmless(&words))
        };
        for line in &self.exchanges {
            let [host_a, device_a, labels_a] = place(line.rank_a);
            let [host_b, device_b, labels_b] = place(line.rank_b);
            writer.serialize(CsvExchange {
                round: line.round,
                rank_a: Some(line.rank_a),
                host_a,
                device_a,
                labels_a,
                rank_b: Some(line.rank_b),
                host_b,
                device_b,
                labels_b,
                size_bytes: self.size_bytes,
                bytes_per_second: line.bytes_per_second,
                mark: harmless(&line.mark),
            })?;
        }
        let bytes = writer.into_inner().map_err(|error| error.into_error())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Marks every exchange as made up by a stub driver.
    pub fn mark_stub(&mut self) {
        for line in &mut self.exchanges {
            line.mark = Some(STUB.into());
        }
    }
}

/// Judges exchanges between ranks by their hosts and labels.
///
/// # Panics
/// Where an exchange is of a rank that has no place.
pub fn judge_places(ranks: &[RankPlace], exchanges: &[Exchange]) -> Findings {
    let hosts = hosts(ranks);
    let is_known = ranks.iter().all(|place| place.host.is_some());
    let one_machine = !is_known || hosts.iter().all(|host| *host == hosts[0]);
    super::judge_at(&hosts, &kinds(ranks), exchanges, one_machine)
}

/// The components of all ranks, by kind.
pub fn kinds(ranks: &[RankPlace]) -> Vec<labels::Kind> {
    labels::kinds(ranks.iter().map(|place| &place.labels))
}

/// Reads a field that may be null, and has to be there.
fn present<'de, D: Deserializer<'de>>(field: D) -> Result<Option<f64>, D::Error> {
    Option::deserialize(field)
}

/// Reads a rate of a table, where an exchange that failed has none.
fn rate<'de, D: Deserializer<'de>>(field: D) -> Result<Option<f64>, D::Error> {
    let text: Option<String> = Option::deserialize(field)?;
    let number = |text: String| number::cell(&text).map_err(serde::de::Error::custom);
    text.filter(|text| !text.is_empty()).map(number).transpose()
}

fn from_csv(text: &str) -> Result<Measured, RawError> {
    let wrong = |error: csv::Error| match error.kind() {
        csv::ErrorKind::UnequalLengths { pos: Some(at), expected_len, len } => {
            RawError::Csv(format!(
                "line {} has {len} cells, and the first line {expected_len}: commas separate \
                 cells, and a point stands before a fraction",
                at.line()
            ))
        }
        _ => RawError::Csv(error.to_string()),
    };
    if let Some(words) = number::other_separator(text.lines().next().unwrap_or_default()) {
        return Err(RawError::Csv(words));
    }
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let columns = reader.headers().map_err(wrong)?.clone();
    for needed in ["rank_a", "rank_b", "bytes_per_second"] {
        if !columns.iter().any(|column| column == needed) {
            return Err(RawError::Column(needed));
        }
    }
    let mut measured = Measured::default();
    for (at, row) in (1..).zip(reader.deserialize::<CsvExchange>()) {
        let row = row.map_err(wrong)?;
        let (Some(rank_a), Some(rank_b)) = (row.rank_a, row.rank_b) else {
            return Err(RawError::Exchange { at, why: "a rank is missing".into() });
        };
        let places = [
            (rank_a, row.host_a, row.device_a, row.labels_a),
            (rank_b, row.host_b, row.device_b, row.labels_b),
        ];
        for (rank, host, device, of) in places.into_iter().filter(|(rank, ..)| *rank < RANKS_MAX) {
            let labels = of.as_deref().map(labels::of_one).unwrap_or_default();
            let place = RankPlace { host, device, labels };
            let count = measured.ranks.len().max(rank as usize + 1);
            measured.ranks.resize(count, RankPlace::default());
            let known = &mut measured.ranks[rank as usize];
            if *known != RankPlace::default() && *known != place {
                let why = format!("rank {rank} is in another place than before");
                return Err(RawError::Exchange { at, why });
            }
            *known = place;
        }
        measured.size_bytes = measured.size_bytes.or(row.size_bytes);
        measured.exchanges.push(RawExchange {
            round: row.round,
            rank_a,
            rank_b,
            bytes_per_second: row.bytes_per_second,
            mark: row.mark,
        });
    }
    Ok(measured)
}
