//! Times on the command line.

use fizeau_domain::{number, units::Seconds};
use std::str::FromStr;

/// A time: `90s`, `10min`, `1h`, `250ms`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Time(pub Seconds);

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Time, String> {
        let refuse = || format!("{text:?}: write 250ms, 90s, 10min or 1h");
        let end = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(refuse)?;
        let (number, unit) = text.split_at(end);
        let scale = match unit {
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "min" | "m" => 60.0,
            "h" => 3_600.0,
            _ => return Err(refuse()),
        };
        let seconds = number::positive(number).map_err(|_| refuse())? * scale;
        (seconds <= TIME_MAX).then_some(Time(Seconds(seconds))).ok_or_else(refuse)
    }
}

/// No time is longer: eleven days.
const TIME_MAX: f64 = 1e6;
