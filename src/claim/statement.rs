//! What a claim states: `154 tok/s/user`, `4.8 TB/s`, `1,979 TFLOP/s fp8`, `busbw 480 on 8 GPUs`.

use crate::{
    dtype::Dtype,
    units::{BytesPerSecond, FlopsPerSecond},
};
use std::fmt;

/// A stated figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statement {
    /// Output tokens a second.
    Tokens {
        /// Of what.
        per: Per,
        /// How many.
        rate: f64,
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

    /// Whether it is about tokens, which no case of this program measures.
    pub fn is_of_tokens(&self) -> bool {
        matches!(self, Statement::Tokens { .. })
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

/// The number at the beginning of a text, with its thousands between commas, and what follows.
fn number(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ','));
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    let value: f64 = digits.replace(',', "").parse().ok()?;
    (value > 0.0 && value.is_finite()).then_some((value, rest))
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

impl std::str::FromStr for Statement {
    type Err = String;
    fn from_str(text: &str) -> Result<Statement, String> {
        let refuse = || {
            format!(
                "{text:?} is no claim that is understood: \"154 tok/s/user\", \"2582 tok/s/GPU\", \
                 \"6200 tok/s\", \"4.8 TB/s\", \"1,979 TFLOP/s fp8\", \"busbw 480 on 8 GPUs\" (in \
                 GB/s), \"32 FLOP/clock f64\" (of one core or unit)"
            )
        };
        let lower = text.to_ascii_lowercase();
        let words: Vec<&str> = lower.split_whitespace().collect();
        let at = words.iter().position(|word| number(word).is_some()).ok_or_else(refuse)?;
        let (value, attached) = number(words[at]).ok_or_else(refuse)?;
        let mut rest = words[at + 1..].iter().copied();
        let is_bus = words.contains(&"busbw");
        let unit = if attached.is_empty() { rest.next().unwrap_or_default() } else { attached };
        let devices = words.iter().position(|word| *word == "on").and_then(|on| {
            words.get(on + 1).and_then(|word| word.parse::<u32>().ok()).filter(|n| *n >= 1)
        });
        if is_bus {
            // Without a unit nccl-tests' own: GB/s.
            let scale = match unit {
                "gb/s" | "" | "on" => 1e9,
                "tb/s" => 1e12,
                _ => return Err(refuse()),
            };
            return Ok(Statement::Bus(value * scale, devices));
        }
        let typed = words.iter().find_map(|word| dtype(word));
        let tokens = |per| Statement::Tokens { per, rate: value };
        Ok(match unit {
            "gb/s" => Statement::Memory(value * 1e9),
            "tb/s" => Statement::Memory(value * 1e12),
            "gflop/s" | "gflops" => Statement::Arithmetic(value * 1e9, typed),
            "tflop/s" | "tflops" | "top/s" | "tops" => Statement::Arithmetic(value * 1e12, typed),
            "pflop/s" | "pflops" | "pop/s" => Statement::Arithmetic(value * 1e15, typed),
            "flop/clock" | "op/clock" => Statement::PerClock(value, typed),
            "tok/s/user" | "tokens/s/user" => tokens(Per::User),
            "tok/s/gpu" | "tokens/s/gpu" => tokens(Per::Device),
            "tok/s" | "tokens/s" => tokens(Per::System),
            _ => return Err(refuse()),
        })
    }
}
