//! The time of one step, in three tiers.
//!
//! L0 is a bound: the longest of all memory traffic, all arithmetic and all communication, at the
//! vendor's peaks, with the best routing. L1 is a perfect engine that does one operation after the
//! other. L2 takes each operation at the efficiency that a record shows for it. L0 <= L1 <= L2.

use super::{
    costs::Start,
    hardware::Hardware,
    layout::Split,
    measured::{Basis, Measured, Timed, Whence},
    operation::{Kind, Operation, Routing, Work, operations},
    public::Public,
};
use fizeau_domain::{model::Model, units::Seconds};

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
    /// This and another, one after the other on the same devices.
    pub fn plus(&self, other: &Bound) -> Bound {
        Bound {
            memory: self.memory + other.memory,
            compute: self.compute + other.compute,
            communication: self.communication + other.communication,
            bytes: self.bytes + other.bytes,
            flops: self.flops + other.flops,
        }
    }

    /// This a number of times.
    pub fn times(&self, times: f64) -> Bound {
        Bound {
            memory: self.memory * times,
            compute: self.compute * times,
            communication: self.communication * times,
            bytes: self.bytes * times,
            flops: self.flops * times,
        }
    }

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
    /// Its time in L2, where there is a record or something was published.
    pub measured: Option<Seconds>,
    /// The part of that which does not shrink with the work: starting kernels, and what few rows
    /// lose beyond it. 0 of messages, whose latency is all that L2 adds.
    pub launches: Seconds,
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
    /// L1 if all tokens chose the same experts, as L0 takes it: the rest up to L1 is reading the
    /// experts that random routing touches.
    pub agreed: Seconds,
    /// What starting a kernel takes in L2, where it is known.
    pub start: Option<Start>,
    /// L2, where there is a record or something was published, and most of the step rests on it.
    pub measured: Option<Seconds>,
    /// Why L2 is not known although something is known beside limits.
    pub unknown: Option<Unknown>,
    /// Where there is a record, the share of L1 that rests on a measurement within half an octave.
    pub coverage: Option<f64>,
}

impl Step {
    /// L0.
    pub fn light(&self) -> Seconds {
        self.bound.longest().0
    }

    /// L2 where something is known beside limits, else L1.
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

/// The least share of L1's time that rests on a record or on published rates, for L2 to be stated:
/// a tier most of which is L1 is not a measured one.
const KNOWN_LEAST: f64 = 0.5;

/// The largest share of a step that floors may take of which nothing is known, for L2 to be stated.
const FLOORS_MOST: f64 = 0.1;

/// What a kernel takes at least, seconds, where no launch was measured: a node of a CUDA graph
/// on an H100 takes 1.0 us (launch/graph/32 in docs/gpu-figures.md: 32.02 us). It decides only
/// whether L2 is stated, and is added to no time.
const KERNEL_GUESS: f64 = 1e-6;

/// What a message takes at least, seconds, where none was measured or published: a third of the
/// 15 us that NCCL takes for 1 KiB over 8 H100 (data/medians/h100-sxm.toml), since libraries for
/// small messages are faster. It decides only whether L2 is stated, and is added to no time.
const MESSAGE_GUESS: f64 = 5e-6;

/// Why L2 of a step is not known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unknown {
    /// Nothing but limits is known of operations that take this share of L1.
    Operations(f64),
    /// The least times of kernels and messages are not known, and would be above a tenth of L2.
    Floors {
        /// Kernels whose least time is not known.
        kernels: f64,
        /// Messages whose least time is not known.
        messages: f64,
        /// What they would take at least, by a guess.
        least: Seconds,
        /// The step without them.
        step: Seconds,
    },
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unknown::Operations(share) => write!(
                f,
                "only limits are known for operations that take {:.0} % of L1's time",
                share * 100.0
            ),
            Unknown::Floors { kernels, messages, least, step } => {
                let guess = |count: &f64, what: &str, each: f64| {
                    let each = Seconds(each);
                    (*count > 0.0).then(|| format!("{count:.0} {what} at {each} each"))
                };
                let all = [
                    guess(kernels, "kernels", KERNEL_GUESS),
                    guess(messages, "messages", MESSAGE_GUESS),
                ];
                let all = all.into_iter().flatten().collect::<Vec<_>>().join(" and ");
                write!(
                    f,
                    "the least time of a launch or a message is not known here, and would count: \
                     {all} (a guess) are {least}, beside a step of {step} without them"
                )
            }
        }
    }
}

/// Why L2, which would be `measured`, is not known of a step with these operations.
fn unknown(hardware: &Hardware, rows: &[Row], measured: Seconds) -> Option<Unknown> {
    let whence = |row: &Row| row.basis.as_ref().map(|basis| basis.whence);
    let is_limit = |row: &&Row| whence(row) == Some(Whence::Limits);
    let serial: f64 = rows.iter().map(|row| row.serial.0).sum();
    let limits: f64 = rows.iter().filter(is_limit).map(|row| row.serial.0).sum();
    let share = limits / serial.max(f64::MIN_POSITIVE);
    if share > 1.0 - KNOWN_LEAST {
        return Some(Unknown::Operations(share));
    }
    let count = |rows: &dyn Fn(&&Row) -> bool, all: &[Row]| -> f64 {
        all.iter().filter(rows).map(|row| row.operation.count).sum()
    };
    let is_message = |row: &&Row| row.class == Class::Communication;
    let kernels = match start(hardware) {
        Some(_) => 0.0,
        // Published times of few rows have the launch in them.
        None => count(&|row| !is_message(row) && row.launches.0 <= 0.0, rows),
    };
    let messages = count(&|row| is_message(row) && is_limit(row), rows);
    let least = kernels * KERNEL_GUESS + messages * MESSAGE_GUESS;
    (least > FLOORS_MOST * measured.0).then_some(Unknown::Floors {
        kernels,
        messages,
        least: Seconds(least),
        step: measured,
    })
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
    let bound = bound(model, hardware, work)?;
    let list = operations(model, Work { routing: Routing::Chance, ..work });
    let all: f64 = list.iter().map(|one| one.count * one.bytes).sum();
    // What the caches keep is taken off every operation in proportion.
    let kept = cached(hardware, work);
    let credit = if all > 0.0 { (1.0 - kept / all).max(0.0) } else { 0.0 };
    let mut rows = Vec::with_capacity(list.len());
    let mut agreed = 0.0;
    let start = start(hardware);
    for operation in list {
        let alike = Operation { bytes: operation.agreed_bytes, ..operation };
        agreed += serial(hardware, &alike, credit, work.split)?.0.0;
        rows.push(row(hardware, operation, (credit, start), work)?);
    }
    let total = |of: &dyn Fn(&Row) -> f64| rows.iter().map(of).sum::<f64>();
    let serial = total(&|row| row.serial.0);
    let covered = total(&|row| {
        if row.basis.as_ref().is_some_and(|b| b.is_near) { row.serial.0 } else { 0.0 }
    });
    let measured = Seconds(total(&|row| row.measured.unwrap_or(row.serial).0));
    let is_known = is_known(hardware);
    let unknown = if is_known { unknown(hardware, &rows, measured) } else { None };
    let coverage = if serial > 0.0 { covered / serial } else { 0.0 };
    Ok(Step {
        bound,
        serial: Seconds(serial),
        agreed: Seconds(agreed.max(bound.longest().0.0).min(serial)),
        start,
        measured: (is_known && unknown.is_none()).then_some(measured),
        unknown,
        coverage: hardware.measured.is_some().then_some(coverage),
        rows,
    })
}

/// Whether anything is known of the hardware beside its limits.
fn is_known(hardware: &Hardware) -> bool {
    hardware.measured.is_some() || hardware.public.is_some()
}

/// Bytes that caches may keep from the step before: those of every device that the step passes.
fn cached(hardware: &Hardware, work: Work) -> f64 {
    hardware.cache.0 as f64 * f64::from(work.split.stages())
}

/// One operation in L1 and L2. L2 is never below L1.
fn row(
    hardware: &Hardware,
    operation: Operation,
    (credit, start): (f64, Option<Start>),
    work: Work,
) -> Result<Row, StepError> {
    let (serial, class) = serial(hardware, &operation, credit, work.split)?;
    let mut row =
        Row { operation, serial, class, measured: None, launches: Seconds(0.0), basis: None };
    if !is_known(hardware) {
        return Ok(row);
    }
    let group = work.split.group();
    let record = hardware.measured.as_ref();
    // Cases are measured with operands from memory: L2 has no credit for caches.
    let (cold, _) = self::serial(hardware, &operation, 1.0, work.split)?;
    let each = start.map(|start| start.time);
    let of_record = record.and_then(|record| record.time(&operation, cold, (group, each)));
    let published = || {
        let public = hardware.public.as_ref()?;
        public.time(&operation, (cold, class), (group, each))
    };
    let timed = of_record.or_else(published);
    let Timed { time, fixed, basis } = timed.unwrap_or_else(|| of_limits(hardware, &row, start));
    row.launches = fixed;
    row.measured = Some(Seconds(time.0.max(serial.0)));
    row.basis = Some(basis);
    Ok(row)
}

/// What starting a kernel takes: by the record, or else as published.
fn start(hardware: &Hardware) -> Option<Start> {
    let record = hardware.measured.as_ref().and_then(Measured::start);
    record.or_else(|| Some(hardware.public.as_ref()?.start()?.0))
}

/// Neither measured nor published: as L1, and started as all kernels are.
fn of_limits(hardware: &Hardware, row: &Row, start: Option<Start>) -> Timed {
    let start = start.filter(|_| row.class != Class::Communication);
    let fixed = start.map_or(0.0, |start| start.time.0) * row.operation.count;
    let is_small = row.operation.kind == Kind::Small;
    let (whence, words) = match start.filter(|_| is_small) {
        Some(start) if hardware.measured.as_ref().is_some_and(|one| one.start().is_some()) => {
            let words = format!("launches {} of this record, {} each", start.way, start.time);
            (Whence::Record, words)
        }
        Some(_) => {
            let published = hardware.public.as_ref().and_then(Public::start);
            (Whence::Published, published.map_or_else(String::new, |(_, words)| words.into()))
        }
        None if hardware.measured.is_some() => (Whence::Limits, "not in the record: as L1".into()),
        None => (Whence::Limits, "not published: as L1".into()),
    };
    let basis = Basis { whence, words, efficiency: None, is_near: false };
    Timed { time: Seconds(row.serial.0 + fixed), fixed: Seconds(fixed), basis }
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
            Kind::AllReduce(bytes) | Kind::AllToAll(bytes) | Kind::Send(bytes) => bytes,
            _ => continue,
        };
        let link = hardware.link_rate(devices, true);
        let link = link.ok_or_else(|| StepError::Link(hardware.name.clone()))?;
        bound.communication.0 += operation.count * sent / link.0;
    }
    let from_memory = (bound.bytes - cached(hardware, work)).max(0.0);
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

/// The time of all of one operation in L1; `credit` is the share of bytes that comes from memory.
fn serial(
    hardware: &Hardware,
    operation: &Operation,
    credit: f64,
    split: Split,
) -> Result<(Seconds, Class), StepError> {
    let n = f64::from(split.group());
    let (sent, devices) = match operation.kind {
        Kind::AllReduce(bytes) => (2.0 * (n - 1.0) / n * bytes, split.group()),
        Kind::AllToAll(bytes) => (bytes, split.group()),
        // Stages may be on other nodes.
        Kind::Send(bytes) => (bytes, split.devices()),
        _ => {
            let memory = operation.bytes * credit / (hardware.memory.0 * hardware.speed.memory);
            let compute = arithmetic(hardware, operation)?.0 / hardware.speed.compute;
            let class = if compute > memory { Class::Compute } else { Class::Memory };
            return Ok((Seconds(operation.count * memory.max(compute)), class));
        }
    };
    let link = hardware.link_rate(devices, false);
    let link = link.ok_or_else(|| StepError::Link(hardware.name.clone()))?;
    Ok((Seconds(operation.count * sent / link.0), Class::Communication))
}
