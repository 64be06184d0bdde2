//! What a claim states: `154 tok/s/user`, `4.8 TB/s`, `1,979 TFLOP/s fp8`, `busbw 480 on 8 GPUs`.

use super::Reading;
use fizeau_domain::{
    dtype::Dtype,
    number::{brief, fixed, is_long},
    units::{BytesPerSecond, FlopsPerSecond},
};
use std::fmt;

/// A stated figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statement {
    /// Tokens a second.
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
    /// What a link carries, bytes a second.
    Link(f64),
    /// Transfers of one pin of memory, or of one lane of a link, each second.
    Transfers(f64),
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
            | Statement::Link(rate)
            | Statement::Transfers(rate)
            | Statement::Arithmetic(rate, _)
            | Statement::Bus(rate, _)
            | Statement::PerClock(rate, _) => rate,
        }
    }

    /// Devices, where they are stated.
    pub fn devices(&self) -> Option<u32> {
        match *self {
            Statement::Tokens { devices, .. } | Statement::Bus(_, devices) => devices,
            _ => None,
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
            Statement::Link(_) => "a rate of a link",
            Statement::Transfers(_) => "a rate of transfers",
            Statement::Arithmetic(..) => "a rate of arithmetic",
            Statement::Bus(..) => "bus bandwidth",
            Statement::PerClock(..) => "a rate of one unit",
        }
    }

    /// A measured figure of the same kind, for people.
    pub fn spelled(&self, figure: f64) -> String {
        match self {
            Statement::Tokens { per, .. } => format!("{} {per}", fixed(figure, 1)),
            Statement::Memory(_) | Statement::Link(_) => BytesPerSecond(figure).to_string(),
            Statement::Transfers(_) if figure >= 1e10 => format!("{} GT/s", digits(figure / 1e9)),
            Statement::Transfers(_) => format!("{} MT/s", digits(figure / 1e6)),
            Statement::Arithmetic(..) => FlopsPerSecond(figure).to_string(),
            Statement::Bus(..) => format!("{} (busbw)", BytesPerSecond(figure)),
            Statement::PerClock(..) => format!("{} FLOP/clock", fixed(figure, 2)),
        }
    }
}

/// All digits of a number; of a very long one four and an exponent.
fn digits(figure: f64) -> String {
    if is_long(figure) { brief(figure) } else { figure.to_string() }
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

/// Of one device, dense: what `fizeau reproduce` can measure.
impl std::str::FromStr for Statement {
    type Err = String;
    fn from_str(text: &str) -> Result<Statement, String> {
        let Reading { statement, devices, is_sparse, .. } = Reading::of(text, &[])?;
        let is_of_one = matches!(
            statement,
            Statement::Memory(_) | Statement::Arithmetic(..) | Statement::PerClock(..)
        );
        let kind = statement.kind();
        match devices.filter(|count| is_of_one && *count > 1) {
            Some(count) => {
                Err(format!("{text:?}: on {count} GPUs: {kind} is measured on one device"))
            }
            None if matches!(statement, Statement::Link(_) | Statement::Transfers(_)) => {
                Err(format!("{text:?}: no case measures {kind}"))
            }
            None if is_sparse == Some(true) => {
                Err(format!("{text:?}: no case measures {kind} with sparsity"))
            }
            None => Ok(statement),
        }
    }
}
