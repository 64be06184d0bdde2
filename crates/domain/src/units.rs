//! Quantities with their units in the type, so that GB is never added to GiB/s.

use crate::number;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    ops::{Add, Div, Mul},
};

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident) => {
        quantity! { $(#[$doc])* $name from 0.0 }
    };
    ($(#[$doc:meta])* $name:ident from $least:literal) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(transparent)]
        #[schemars(extend("minimum" = $least))]
        pub struct $name(pub f64);

        impl Mul<f64> for $name {
            type Output = $name;
            fn mul(self, factor: f64) -> $name {
                $name(self.0 * factor)
            }
        }

        impl Add for $name {
            type Output = $name;
            fn add(self, other: $name) -> $name {
                $name(self.0 + other.0)
            }
        }

        impl Div for $name {
            type Output = f64;
            fn div(self, other: $name) -> f64 {
                self.0 / other.0
            }
        }
    };
}

quantity! {
    /// A duration. Not [`std::time::Duration`]: device events resolve to fractions of a nanosecond.
    Seconds
}
quantity! {
    /// A number of arithmetic operations; a fused multiply-add is two.
    Flops
}
quantity! {
    /// Bytes each second.
    BytesPerSecond
}
quantity! {
    /// Floating-point operations each second.
    FlopsPerSecond
}
quantity! {
    /// A clock rate, in 10^6 cycles each second.
    Megahertz
}
quantity! {
    /// Electric power.
    Watts
}
quantity! {
    /// Energy.
    Joules
}
quantity! {
    /// Temperature, from absolute zero.
    Celsius from -273.15
}

/// A number of bytes.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
#[schemars(extend("maximum" = 1u64 << 50))]
pub struct Bytes(pub u64);

impl Bytes {
    /// More than any machine has, or any case moves at once: 2^50, so that a few thousand times as
    /// much still fits. Records state no more.
    pub const MOST: Bytes = Bytes(1 << 50);
    /// 2^10 bytes.
    pub const KIB: Bytes = Bytes(1 << 10);
    /// 2^20 bytes.
    pub const MIB: Bytes = Bytes(1 << 20);
    /// 2^30 bytes.
    pub const GIB: Bytes = Bytes(1 << 30);
}

impl Mul<u64> for Bytes {
    type Output = Bytes;
    fn mul(self, factor: u64) -> Bytes {
        Bytes(self.0 * factor)
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0 + other.0)
    }
}

impl Div<Seconds> for Bytes {
    type Output = BytesPerSecond;
    fn div(self, time: Seconds) -> BytesPerSecond {
        BytesPerSecond(self.0 as f64 / time.0)
    }
}

impl Div<BytesPerSecond> for Bytes {
    type Output = Seconds;
    fn div(self, rate: BytesPerSecond) -> Seconds {
        Seconds(self.0 as f64 / rate.0)
    }
}

impl Div<Seconds> for Flops {
    type Output = FlopsPerSecond;
    fn div(self, time: Seconds) -> FlopsPerSecond {
        FlopsPerSecond(self.0 / time.0)
    }
}

impl Div<FlopsPerSecond> for Flops {
    type Output = Seconds;
    fn div(self, rate: FlopsPerSecond) -> Seconds {
        Seconds(self.0 / rate.0)
    }
}

/// Four significant digits at most, without trailing zeros after the point being cut: `9.876`,
/// `98.76`, `987.6`, `9876`.
fn digits(value: f64) -> String {
    // Tiny values show zeros: the unit is the smallest that there is.
    if !value.is_finite() || value.abs() >= 1.0 && number::is_long(value) {
        return number::brief(value);
    }
    let magnitude = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    let places = (3 - magnitude).clamp(0, 3) as usize;
    format!("{value:.places$}")
}

/// The largest scale at which `value` is at least one, from `scales` in ascending order.
fn scaled(value: f64, scales: &[(f64, &str)]) -> String {
    let &(scale, unit) = scales
        .iter()
        .rev()
        .find(|(scale, _)| value.abs() >= scale * 0.999_95)
        .unwrap_or(&scales[0]);
    format!("{} {unit}", digits(value / scale))
}

impl fmt::Display for Bytes {
    /// Binary and exact where it can be: `4 KiB`, `1 MiB`, `96 KiB`, else `1000 B`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scales = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
        for (unit, shift) in scales {
            if self.0.is_multiple_of(1 << shift) && (1..10_000).contains(&(self.0 >> shift)) {
                return write!(f, "{} {unit}", self.0 >> shift);
            }
        }
        for (unit, shift) in scales {
            if self.0 >= 10 << shift {
                return write!(f, "{} {unit}", digits(self.0 as f64 / (1u64 << shift) as f64));
            }
        }
        write!(f, "{} B", self.0)
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scales = [(1e-9, "ns"), (1e-6, "us"), (1e-3, "ms"), (1.0, "s")];
        f.write_str(&scaled(self.0, &scales))
    }
}

impl Seconds {
    /// A duration that people wait for, in their units: `46.7 s`, `2 min 5 s`, `1 h 12 min`,
    /// `1 d 0 h`.
    pub fn human(self) -> String {
        // What rounds up to a minute is one.
        if self.0 < 59.95 {
            return match self.0 {
                time if time.fract() == 0.0 => format!("{time:.0} s"),
                time if time < 1.0 => self.to_string(),
                time => format!("{time:.1} s"),
            };
        }
        let whole = self.0.round().min(1e15) as u64;
        let (minutes, hours) = ((whole + 30) / 60, (whole + 1800) / 3600);
        match whole {
            ..3600 => match whole % 60 {
                0 => format!("{} min", whole / 60),
                seconds => format!("{} min {seconds} s", whole / 60),
            },
            _ if minutes < 24 * 60 => format!("{} h {} min", minutes / 60, minutes % 60),
            _ => format!("{} d {} h", hours / 24, hours % 24),
        }
    }
}

impl fmt::Display for BytesPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scales = [(1e3, "kB/s"), (1e6, "MB/s"), (1e9, "GB/s"), (1e12, "TB/s")];
        f.write_str(&scaled(self.0, &scales))
    }
}

impl fmt::Display for FlopsPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scales = [(1e6, "MFLOP/s"), (1e9, "GFLOP/s"), (1e12, "TFLOP/s"), (1e15, "PFLOP/s")];
        f.write_str(&scaled(self.0, &scales))
    }
}

impl fmt::Display for Megahertz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} MHz", self.0)
    }
}

impl fmt::Display for Watts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} W", self.0)
    }
}

impl fmt::Display for Celsius {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} C", self.0)
    }
}

/// A size as people write it: `4KiB`, `1 MiB`, `16G` (binary, as `nccl-tests` reads it), `65536`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a size; write bytes or a binary unit, such as 65536, 4KiB or 1GiB")]
pub struct NotASize(pub String);

impl std::str::FromStr for Bytes {
    type Err = NotASize;
    fn from_str(text: &str) -> Result<Bytes, NotASize> {
        let refuse = || NotASize(text.to_owned());
        let trimmed = text.trim();
        let end = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
        let count: u64 = trimmed[..end].parse().map_err(|_| refuse())?;
        let shift = match trimmed[end..].trim().to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kib" => 10,
            "m" | "mib" => 20,
            "g" | "gib" => 30,
            "t" | "tib" => 40,
            _ => return Err(refuse()),
        };
        count.checked_mul(1u64 << shift).map(Bytes).ok_or_else(refuse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_in_peoples_units() {
        for (seconds, words) in [
            (0.0, "0 s"),
            (0.25, "250.0 ms"),
            (33.0, "33 s"),
            (46.71, "46.7 s"),
            (59.96, "1 min"),
            (125.0, "2 min 5 s"),
            (3599.6, "1 h 0 min"),
            (4321.0, "1 h 12 min"),
            (88_439.0, "1 d 1 h"),
            (f64::MAX, "11574074074 d 2 h"),
        ] {
            assert_eq!(Seconds(seconds).human(), words);
        }
    }
}
