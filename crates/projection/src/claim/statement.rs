//! What a claim states: `154 tok/s/user`, `4.8 TB/s`, `1,979 TFLOP/s fp8`, `busbw 480 on 8 GPUs`.
//!
//! Every word counts: one that is not understood is refused by name, since it may change what the
//! figure means.

use fizeau_domain::{
    dtype::Dtype,
    number,
    units::{BytesPerSecond, FlopsPerSecond},
};
use std::fmt;

/// The forms that are understood, for errors.
const FORMS: &str = "write \"154 tok/s/user\", \"2582 tok/s/GPU\", \"6200 tok/s on 8 GPUs\", \"4.8 \
                     TB/s\", \"1,979 TFLOP/s fp8\", \"busbw 480 on 8 GPUs\" (in GB/s), or \"32 \
                     FLOP/clock f64\" (of one core or unit)";

/// A stated figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statement {
    /// Output tokens a second.
    Tokens {
        /// Of what.
        per: Per,
        /// How many.
        rate: f64,
        /// Devices, where they are stated.
        devices: Option<u32>,
    },
    /// Memory bandwidth, bytes a second.
    Memory(f64),
    /// Arithmetic, operations a second, with its element type where it is stated.
    Arithmetic(f64, Option<Dtype>),
    /// Bus bandwidth of an all_reduce as nccl-tests counts it, bytes a second; devices where they
    /// are stated.
    Bus(f64, Option<u32>),
    /// Operations that one unit (a core, an SM, a CU) completes each clock; a multiply-add is two.
    PerClock(f64, Option<Dtype>),
}

impl Statement {
    /// The figure in SI units: tokens, bytes or operations each second, operations each clock.
    pub fn figure(&self) -> f64 {
        match *self {
            Statement::Tokens { rate, .. }
            | Statement::Memory(rate)
            | Statement::Arithmetic(rate, _)
            | Statement::Bus(rate, _)
            | Statement::PerClock(rate, _) => rate,
        }
    }

    /// Devices, where they are stated.
    pub fn devices(&self) -> Option<u32> {
        match *self {
            Statement::Tokens { devices, .. } | Statement::Bus(_, devices) => devices,
            Statement::Memory(_) | Statement::Arithmetic(..) | Statement::PerClock(..) => None,
        }
    }

    /// Whether it is about tokens, which no case of this program measures.
    pub fn is_of_tokens(&self) -> bool {
        matches!(self, Statement::Tokens { .. })
    }

    /// What kind of figure it is, for errors.
    pub fn kind(&self) -> &'static str {
        match self {
            Statement::Tokens { .. } => "a rate of tokens",
            Statement::Memory(_) => "a rate of memory",
            Statement::Arithmetic(..) => "a rate of arithmetic",
            Statement::Bus(..) => "bus bandwidth",
            Statement::PerClock(..) => "a rate of one unit",
        }
    }

    /// A measured figure of the same kind, for people.
    pub fn spelled(&self, figure: f64) -> String {
        match self {
            Statement::Tokens { per, .. } => format!("{figure:.1} {per}"),
            Statement::Memory(_) => BytesPerSecond(figure).to_string(),
            Statement::Arithmetic(..) => FlopsPerSecond(figure).to_string(),
            Statement::Bus(..) => format!("{} (busbw)", BytesPerSecond(figure)),
            Statement::PerClock(..) => format!("{figure:.2} FLOP/clock"),
        }
    }
}

/// Whose tokens are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// Of one user.
    User,
    /// Of all users on one device.
    Device,
    /// Of all users on all devices.
    System,
}

impl fmt::Display for Per {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Per::User => "tok/s/user",
            Per::Device => "tok/s/GPU",
            Per::System => "tok/s",
        })
    }
}

fn dtype(word: &str) -> Option<Dtype> {
    Some(match word {
        "fp64" | "f64" => Dtype::F64,
        "fp32" | "f32" => Dtype::F32,
        "tf32" => Dtype::Tf32,
        "fp16" | "f16" => Dtype::F16,
        "bf16" => Dtype::Bf16,
        "fp8" => Dtype::Fp8,
        "fp6" => Dtype::Fp6,
        "fp4" | "nvfp4" | "mxfp4" => Dtype::Fp4,
        "int8" => Dtype::Int8,
        _ => return None,
    })
}

/// What a unit is of, and how many of the SI unit it is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    Bytes(f64),
    Operations(f64),
    PerClock,
    Tokens(Per),
}

impl Unit {
    /// Prefixes of bytes and bits are read in their case, since `b` is a bit and `B` a byte.
    fn of(word: &str) -> Result<Unit, String> {
        let binary = |power: i32| Unit::Bytes(1024f64.powi(power));
        let bits = |scale: f64| Unit::Bytes(scale / 8.0);
        let exact = match word {
            "MB/s" => Unit::Bytes(1e6),
            "GB/s" => Unit::Bytes(1e9),
            "TB/s" => Unit::Bytes(1e12),
            "PB/s" => Unit::Bytes(1e15),
            "MiB/s" => binary(2),
            "GiB/s" => binary(3),
            "TiB/s" => binary(4),
            "Mbit/s" => bits(1e6),
            "Gbit/s" => bits(1e9),
            "Tbit/s" => bits(1e12),
            _ => return Unit::in_any_case(word),
        };
        Ok(exact)
    }

    fn in_any_case(word: &str) -> Result<Unit, String> {
        let lower = word.to_ascii_lowercase();
        let prefix: String = word.chars().take(1).collect::<String>().to_ascii_uppercase();
        Ok(match lower.as_str() {
            "gflop/s" | "gflops" | "gop/s" | "gops" => Unit::Operations(1e9),
            "tflop/s" | "tflops" | "top/s" | "tops" => Unit::Operations(1e12),
            "pflop/s" | "pflops" | "pop/s" | "pops" => Unit::Operations(1e15),
            "eflop/s" | "eflops" => Unit::Operations(1e18),
            "flop/clock" | "op/clock" => Unit::PerClock,
            "tok/s/user" | "tokens/s/user" => Unit::Tokens(Per::User),
            "tok/s/gpu" | "tokens/s/gpu" => Unit::Tokens(Per::Device),
            "tok/s" | "tokens/s" => Unit::Tokens(Per::System),
            "mb/s" | "gb/s" | "tb/s" | "pb/s" | "mbps" | "gbps" | "tbps" => {
                return Err(format!(
                    "{word:?} may be bits or bytes: write {prefix}bit/s or {prefix}B/s"
                ));
            }
            _ => return Err(format!("{word:?} is no unit that is understood")),
        })
    }
}

/// The words of a claim, each in its place.
#[derive(Default)]
struct Words<'t> {
    figure: Option<f64>,
    unit: Option<&'t str>,
    dtype: Option<Dtype>,
    devices: Option<u32>,
    is_bus: bool,
    /// What no place takes, in the order of the text.
    left: Vec<String>,
}

impl<'t> Words<'t> {
    fn of(text: &'t str) -> Result<Words<'t>, String> {
        let mut found = Words::default();
        let mut words = text.split_whitespace().peekable();
        while let Some(word) = words.next() {
            let lower = word.to_ascii_lowercase();
            let typed = dtype(&lower);
            let begins_a_number =
                word.starts_with(|c: char| c.is_ascii_digit() || ".,".contains(c));
            if lower == "busbw" && !found.is_bus {
                found.is_bus = true;
            } else if lower == "on" && found.devices.is_none() {
                let count = words.next_if(|next| next.bytes().all(|one| one.is_ascii_digit()));
                match count.map(str::parse::<u32>) {
                    Some(Ok(0)) => return Err("on 0 GPUs: it is 1 at least".into()),
                    Some(Ok(count)) => found.devices = Some(count),
                    Some(Err(_)) => return Err("on how many GPUs?".into()),
                    None => found.left.push(
                        words
                            .next()
                            .map_or_else(|| word.to_owned(), |next| format!("{word} {next}")),
                    ),
                }
                if count.is_some() {
                    let is_noun = |next: &&str| {
                        ["gpu", "gpus", "device", "devices"]
                            .contains(&next.to_ascii_lowercase().as_str())
                    };
                    words.next_if(is_noun);
                }
            } else if begins_a_number && found.figure.is_none() {
                let is_digit = |c: char| c.is_ascii_digit() || ".,".contains(c);
                let end = word.find(|c| !is_digit(c)).unwrap_or(word.len());
                found.figure = Some(number::positive(&word[..end])?);
                found.unit = Some(&word[end..]).filter(|unit| !unit.is_empty());
            } else if typed.is_some() && found.dtype.is_none() {
                found.dtype = typed;
            } else if found.figure.is_some() && found.unit.is_none() && !begins_a_number {
                found.unit = Some(word);
            } else {
                found.left.push(word.into());
            }
        }
        Ok(found)
    }

    /// What the words state; what its kind does not take is left over too.
    fn statement(&mut self) -> Result<Statement, String> {
        let value = self.figure.ok_or("there is no number above 0 in it")?;
        let unit = match (self.unit, self.is_bus) {
            (Some(unit), _) => Unit::of(unit)?,
            // Without a unit nccl-tests' own.
            (None, true) => Unit::Bytes(1e9),
            (None, false) => return Err("the number has no unit".into()),
        };
        let statement = match (unit, self.is_bus) {
            (Unit::Bytes(scale), true) => Statement::Bus(value * scale, self.devices),
            (Unit::Bytes(scale), false) => Statement::Memory(value * scale),
            (_, true) => return Err("bus bandwidth is in GB/s".into()),
            (Unit::Operations(scale), _) => Statement::Arithmetic(value * scale, self.dtype),
            (Unit::PerClock, _) => Statement::PerClock(value, self.dtype),
            (Unit::Tokens(per), _) => Statement::Tokens { per, rate: value, devices: self.devices },
        };
        if !statement.figure().is_finite() {
            return Err("the figure is beyond all machines".into());
        }
        let takes_a_type = matches!(statement, Statement::Arithmetic(..) | Statement::PerClock(..));
        if let Some(dtype) = self.dtype.filter(|_| !takes_a_type) {
            self.left.push(dtype.to_string());
        }
        let takes_devices = matches!(statement, Statement::Tokens { .. } | Statement::Bus(..));
        if let Some(count) = self.devices.filter(|count| !takes_devices && *count > 1) {
            return Err(format!(
                "on {count} GPUs: {} is judged for one device: state what one does",
                statement.kind()
            ));
        }
        Ok(statement)
    }
}

/// What may be meant by a word that is not understood.
fn hint(word: &str) -> &'static str {
    match word.to_ascii_lowercase().as_str() {
        "sparse" | "sparsity" => {
            " (figures with 2:4 sparsity are not judged: state the dense one, which is half)"
        }
        word if word.starts_with("on ") => " (the part is named by --on, or `on =` in a file)",
        _ => "",
    }
}

impl std::str::FromStr for Statement {
    type Err = String;
    fn from_str(text: &str) -> Result<Statement, String> {
        let refuse =
            |why: String| format!("{text:?} is no claim that is understood: {why}; {FORMS}");
        let mut words = Words::of(text).map_err(refuse)?;
        let statement = words.statement();
        if !words.left.is_empty() {
            let named = words.left.iter().map(|word| format!("{word:?}{}", hint(word)));
            let named = named.collect::<Vec<_>>().join(", ");
            let verb = if words.left.len() == 1 { "is" } else { "are" };
            return Err(refuse(format!("{named} {verb} not understood")));
        }
        statement.map_err(refuse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Statement, String> {
        text.parse()
    }

    #[test]
    fn figures_are_read_with_their_units() {
        let tokens = |per, rate, devices| Statement::Tokens { per, rate, devices };
        for (text, expected) in [
            ("154 tok/s/user", tokens(Per::User, 154.0, None)),
            ("6,200 tokens/s on 8 GPUs", tokens(Per::System, 6200.0, Some(8))),
            ("4.8 TB/s", Statement::Memory(4.8e12)),
            ("4,800 GB/s", Statement::Memory(4.8e12)),
            ("4.8TB/s on 1 GPU", Statement::Memory(4.8e12)),
            ("1 TiB/s", Statement::Memory(1024f64.powi(4))),
            ("800 Gbit/s", Statement::Memory(1e11)),
            ("1,979 TFLOP/s fp8", Statement::Arithmetic(1.979e15, Some(Dtype::Fp8))),
            ("fp8 1979 tflops", Statement::Arithmetic(1.979e15, Some(Dtype::Fp8))),
            ("busbw 480 on 8 GPUs", Statement::Bus(4.8e11, Some(8))),
            ("480 GB/s busbw", Statement::Bus(4.8e11, None)),
            ("32 FLOP/clock f64", Statement::PerClock(32.0, Some(Dtype::F64))),
        ] {
            assert_eq!(read(text), Ok(expected), "{text}");
        }
    }

    /// A word that changes what is meant, such as "write" or "unicorn", is never dropped.
    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        for (text, named) in [
            ("4.8 TB/s write on 3 GPUs of unicorn", "\"write\", \"of\", \"unicorn\" are not"),
            ("up to 4.8 TB/s", "\"up\", \"to\" are not"),
            ("4.8 TB/s on h200", "\"on h200\" (the part is named by --on"),
            ("4.8 TB/s bidirectional", "\"bidirectional\" is not"),
            ("4.8 TB/s fp8", "\"fp8\" is not"),
            ("3,958 TFLOP/s fp8 sparse", "2:4 sparsity"),
            ("1,979 TFLOP/s fp8 bf16", "\"bf16\" is not"),
            ("1 979 TFLOP/s", "\"979\" is not"),
            ("154 tok/s/user batch 8", "\"batch\", \"8\" are not"),
            ("480 GB/s busbw busbw", "\"busbw\" is not"),
            ("38.4 TB/s on 8 GPUs", "on 8 GPUs: a rate of memory is judged for one device"),
            ("busbw 480 on 0 GPUs", "on 0 GPUs"),
            ("480 parsecs", "\"parsecs\" is no unit"),
            ("480", "has no unit"),
            ("busbw 480 tok/s", "bus bandwidth is in GB/s"),
            ("400 Gb/s", "bits or bytes: write Gbit/s or GB/s"),
            ("400 gbps", "bits or bytes: write Gbit/s or GB/s"),
            ("4,8 TB/s", "may mean 4.8 or 48"),
            ("-5 tok/s", "\"-5\""),
            ("0 GB/s", "not above 0"),
            ("fast", "\"fast\""),
            ("", "no number"),
        ] {
            let why = read(text).expect_err(text);
            assert!(why.contains(named), "{text}: {why}");
        }
    }
}
