//! The time of one step, in three tiers.
//!
//! L0 is a bound: the longest of all memory traffic, all arithmetic and all communication, at the
//! vendor's peaks, with the best routing. L1 is a perfect engine that does one operation after the
//! other. L2 takes each operation at the efficiency that a record shows for it. L0 <= L1 <= L2.

use super::{
    hardware::Hardware,
    measured::{Basis, Measured},
    operation::{Kind, Operation, Routing, Work, operations},
};
use crate::{
    model::Model,
    units::{BytesPerSecond, Seconds},
};

/// The resource that takes the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Bytes from memory.
    Memory,
    /// Arithmetic.
    Compute,
    /// Bytes between devices.
    Communication,
}

impl std::fmt::Display for Class {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Class::Memory => "memory",
            Class::Compute => "compute",
            Class::Communication => "communication",
        })
    }
}

/// The three sums whose longest is L0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bound {
    /// Bytes of weights, caches and states over the memory's bandwidth, less what caches keep.
    pub memory: Seconds,
    /// Operations over peak arithmetic.
    pub compute: Seconds,
    /// Bytes over links, sums made in the network.
    pub communication: Seconds,
    /// Bytes that one device reads, before the credit for its caches.
    pub bytes: f64,
    /// Operations that one device does.
    pub flops: f64,
}

impl Bound {
    /// The longest, and whose it is.
    pub fn longest(&self) -> (Seconds, Class) {
        let all = [
            (self.memory, Class::Memory),
            (self.compute, Class::Compute),
            (self.communication, Class::Communication),
        ];
        let longer = |a: (Seconds, Class), b: (Seconds, Class)| if b.0 > a.0 { b } else { a };
        all.into_iter().reduce(longer).unwrap_or((Seconds(0.0), Class::Memory))
    }
}

/// One operation of the waterfall, all its times in a step together.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What it is.
    pub operation: Operation,
    /// Its time in L1.
    pub serial: Seconds,
    /// The resource that this is the time of.
    pub class: Class,
    /// Its time in L2, where there is a record.
    pub measured: Option<Seconds>,
    /// What L2 rests on.
    pub basis: Option<Basis>,
}

/// A step in all tiers.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// L0 by resource.
    pub bound: Bound,
    /// By operation.
    pub rows: Vec<Row>,
    /// L1.
    pub serial: Seconds,
    /// L2, where there is a record.
    pub measured: Option<Seconds>,
    /// The share of L1 that rests on a measurement within half an octave.
    pub coverage: Option<f64>,
}

impl Step {
    /// L0.
    pub fn light(&self) -> Seconds {
        self.bound.longest().0
    }

    /// L2 where there is a record, else L1.
    pub fn best_known(&self) -> Seconds {
        self.measured.unwrap_or(self.serial)
    }

    /// The resource that most of L1 is spent on.
    pub fn class(&self) -> Class {
        let of = |class: Class| -> f64 {
            self.rows.iter().filter(|row| row.class == class).map(|row| row.serial.0).sum()
        };
        let all = [Class::Memory, Class::Compute, Class::Communication];
        let longer = |a: Class, b: Class| if of(b) > of(a) { b } else { a };
        all.into_iter().reduce(longer).unwrap_or(Class::Memory)
    }
}

/// Why a step cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// No arithmetic is known for operands.
    #[error("{on}: no peak is known for operands in {format}")]
    Arithmetic {
        /// The hardware.
        on: String,
        /// Of what.
        format: String,
    },
    /// No link is known.
    #[error("{0}: nothing is known of links between devices; give --link GB/s, or one device")]
    Link(String),
}

/// The time of a step.
///
/// # Errors
/// Where the hardware lacks a number that the step needs.
pub fn step(model: &Model, hardware: &Hardware, work: Work) -> Result<Step, StepError> {
    let devices = work.split.devices();
    let bound = bound(model, hardware, work)?;
    let list = operations(model, Work { routing: Routing::Chance, ..work });
    let all: f64 = list.iter().map(|one| one.count * one.bytes).sum();
    // What the caches keep is taken off every operation in proportion.
    let credit = if all > 0.0 { (1.0 - hardware.cache.0 as f64 / all).max(0.0) } else { 0.0 };
    let link = hardware.link_rate(devices, false);
    let mut rows = Vec::with_capacity(list.len());
    for operation in list {
        let (serial, class) = serial(hardware, &operation, credit, devices, link)?;
        let (measured, basis) = match &hardware.measured {
            None => (None, None),
            Some(record) => {
                let (time, basis) = measured(record, &operation, serial, devices);
                (Some(time), Some(basis))
            }
        };
        rows.push(Row { operation, serial, class, measured, basis });
    }
    let total = |of: &dyn Fn(&Row) -> f64| rows.iter().map(of).sum::<f64>();
    let serial = total(&|row| row.serial.0);
    let has_record = hardware.measured.is_some();
    let covered = total(&|row| {
        if row.basis.as_ref().is_some_and(|b| b.is_near) { row.serial.0 } else { 0.0 }
    });
    let measured = total(&|row| row.measured.unwrap_or(row.serial).0);
    Ok(Step {
        bound,
        serial: Seconds(serial),
        measured: has_record.then_some(Seconds(measured)),
        coverage: has_record.then_some(if serial > 0.0 { covered / serial } else { 0.0 }),
        rows,
    })
}

/// L0 alone, which is cheaper.
///
/// # Errors
/// As [`step`].
pub fn bound(model: &Model, hardware: &Hardware, work: Work) -> Result<Bound, StepError> {
    let devices = work.split.devices();
    let mut bound = Bound::default();
    for operation in operations(model, Work { routing: Routing::Best, ..work }) {
        bound.bytes += operation.count * operation.bytes;
        bound.flops += operation.count * operation.flops;
        bound.compute.0 += operation.count * arithmetic(hardware, &operation)?.0;
        let sent = match operation.kind {
            // Each device sends its part to the network, which sums, and receives the sum.
            Kind::AllReduce(bytes) | Kind::AllToAll(bytes) => bytes,
            _ => continue,
        };
        let link = hardware.link_rate(devices, true);
        let link = link.ok_or_else(|| StepError::Link(hardware.name.clone()))?;
        bound.communication.0 += operation.count * sent / link.0;
    }
    let from_memory = (bound.bytes - hardware.cache.0 as f64).max(0.0);
    bound.memory = Seconds(from_memory / hardware.memory_most.0);
    Ok(bound)
}

/// How long the arithmetic of one operation takes at peak.
fn arithmetic(hardware: &Hardware, operation: &Operation) -> Result<Seconds, StepError> {
    if operation.flops == 0.0 {
        return Ok(Seconds(0.0));
    }
    match hardware.arithmetic(operation.format) {
        Some((_, rate)) => Ok(Seconds(operation.flops / rate.0)),
        None => Err(StepError::Arithmetic {
            on: hardware.name.clone(),
            format: operation.format.to_string(),
        }),
    }
}

/// The time of all of one operation in L1.
fn serial(
    hardware: &Hardware,
    operation: &Operation,
    credit: f64,
    devices: u32,
    link: Option<BytesPerSecond>,
) -> Result<(Seconds, Class), StepError> {
    let n = f64::from(devices);
    let sent = match operation.kind {
        Kind::AllReduce(bytes) => 2.0 * (n - 1.0) / n * bytes,
        Kind::AllToAll(bytes) => bytes,
        _ => {
            let memory = operation.bytes * credit / hardware.memory.0;
            let compute = arithmetic(hardware, operation)?.0;
            let class = if compute > memory { Class::Compute } else { Class::Memory };
            return Ok((Seconds(operation.count * memory.max(compute)), class));
        }
    };
    let link = link.ok_or_else(|| StepError::Link(hardware.name.clone()))?;
    Ok((Seconds(operation.count * sent / link.0), Class::Communication))
}

/// The time of all of one operation in L2: never below L1.
fn measured(
    record: &Measured,
    operation: &Operation,
    serial: Seconds,
    devices: u32,
) -> (Seconds, Basis) {
    let (time, basis) = record.time(operation, serial, devices);
    let floor = record.launch.map_or(0.0, |launch| launch.0) * operation.count;
    (Seconds(time.0.max(serial.0) + floor), basis)
}
