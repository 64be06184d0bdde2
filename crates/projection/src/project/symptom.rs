//! Where a step loses time against a perfect engine on the same hardware, by resource: what to look
//! at where a service is slower than expected.

use super::{
    measured::Whence,
    operation::Kind,
    step::{Class, Row, Step},
};
use fizeau_domain::units::Seconds;

/// What a time is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// Weights from memory.
    Weights,
    /// Arithmetic of matrix products.
    Products,
    /// Keys, values and states from memory.
    Cache,
    /// Arithmetic of attention.
    Attention,
    /// Sums over devices.
    Sums,
    /// Tokens to experts on other devices and back.
    Exchanges,
    /// Activations to the next stage of a pipeline.
    Sends,
    /// Starting kernels, and what kernels of few rows lose beyond it.
    Launches,
}

impl Resource {
    /// All of them.
    pub const ALL: [Resource; 8] = [
        Resource::Weights,
        Resource::Products,
        Resource::Cache,
        Resource::Attention,
        Resource::Sums,
        Resource::Exchanges,
        Resource::Sends,
        Resource::Launches,
    ];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Resource::Weights => "weights from memory",
            Resource::Products => "arithmetic of matrix products",
            Resource::Cache => "KV cache from memory",
            Resource::Attention => "arithmetic of attention",
            Resource::Sums => "all_reduce",
            Resource::Exchanges => "all_to_all of experts",
            Resource::Sends => "messages between stages",
            Resource::Launches => "launches and short kernels",
        }
    }

    /// The selector of `fizeau run` that measures it.
    pub fn selector(self) -> &'static str {
        match self {
            Resource::Weights => "stream gemm",
            Resource::Products => "gemm grouped",
            Resource::Cache => "stream attention",
            Resource::Attention => "attention",
            Resource::Sums | Resource::Exchanges | Resource::Sends => "collective",
            Resource::Launches => "launch",
        }
    }

    fn of(row: &Row) -> Resource {
        let by_memory = row.class == Class::Memory;
        match row.operation.kind {
            Kind::Gemm(_) | Kind::Grouped(_) if by_memory => Resource::Weights,
            Kind::Gemm(_) | Kind::Grouped(_) => Resource::Products,
            Kind::Attention { .. } if by_memory => Resource::Cache,
            Kind::Attention { .. } => Resource::Attention,
            Kind::AllReduce(_) => Resource::Sums,
            Kind::AllToAll(_) => Resource::Exchanges,
            Kind::Send(_) => Resource::Sends,
            Kind::Small => Resource::Launches,
        }
    }
}

/// What a step loses on one resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// The resource.
    pub resource: Resource,
    /// Its time in L1, at the ceilings; 0 of launches.
    pub serial: Seconds,
    /// Its time in L2.
    pub measured: Seconds,
    /// The share of its L1 that rests on cases of the record.
    pub here: f64,
    /// The share of its L1 that rests on rates that others published of the part.
    pub published: f64,
    /// The operation that loses most, and what says so.
    pub most: Option<(&'static str, String)>,
}

impl Loss {
    /// Time above L1.
    pub fn lost(&self) -> Seconds {
        Seconds((self.measured.0 - self.serial.0).max(0.0))
    }

    /// The share of the ceiling that is reached; none where there is no ceiling, or where nothing
    /// but the ceiling is known.
    pub fn reached(&self) -> Option<f64> {
        let is_known = self.serial.0 > 0.0 && self.rests_on() != Whence::Limits;
        is_known.then(|| self.serial.0 / self.measured.0)
    }

    /// What most of what is known of it rests on.
    pub fn rests_on(&self) -> Whence {
        match (self.here > 0.0 || self.published > 0.0, self.here >= self.published) {
            (false, _) => Whence::Limits,
            (true, true) => Whence::Record,
            (true, false) => Whence::Published,
        }
    }
}

/// What a step loses: what rests on the record first, then what rests on published rates, then what
/// nothing is known of; within each the most first. A loss that was measured and one that is
/// another machine's are not ranked against each other. Nothing where nothing is known beside
/// limits.
pub fn losses(step: &Step) -> Vec<Loss> {
    if step.measured.is_none() {
        return Vec::new();
    }
    let mut losses: Vec<_> = Resource::ALL.into_iter().filter_map(|one| loss(step, one)).collect();
    let order = |one: &Loss| match one.rests_on() {
        Whence::Record => 0,
        Whence::Published => 1,
        Whence::Limits => 2,
    };
    losses.sort_by(|one, other| {
        let by_time = other.lost().0.total_cmp(&one.lost().0);
        order(one).cmp(&order(other)).then(by_time)
    });
    losses
}

fn loss(step: &Step, resource: Resource) -> Option<Loss> {
    if resource == Resource::Launches {
        let time: f64 = step.rows.iter().map(|row| row.launches.0).sum();
        let share = |whence: Whence| {
            let is_so = |row: &&Row| row.basis.as_ref().is_some_and(|b| b.whence == whence);
            let its: f64 = step.rows.iter().filter(is_so).map(|row| row.launches.0).sum();
            // The sum of nothing is -0.
            if time > 0.0 { its / time + 0.0 } else { 0.0 }
        };
        let (serial, measured) = (Seconds(0.0), Seconds(time));
        let (here, published) = (share(Whence::Record), share(Whence::Published));
        let loss = Loss { resource, serial, measured, here, published, most: None };
        return (time > 0.0).then_some(loss);
    }
    let rows: Vec<_> = step.rows.iter().filter(|row| Resource::of(row) == resource).collect();
    let without_launches =
        |row: &Row| row.measured.unwrap_or(row.serial).0 - row.launches.0 - row.serial.0;
    let serial: f64 = rows.iter().map(|row| row.serial.0).sum();
    let lost: f64 = rows.iter().map(|row| without_launches(row)).sum();
    let share = |whence: Whence| {
        let is_so = |row: &&&Row| row.basis.as_ref().is_some_and(|b| b.whence == whence);
        let time: f64 = rows.iter().filter(is_so).map(|row| row.serial.0).sum();
        if time > 0.0 { time / serial } else { 0.0 }
    };
    let worst = rows
        .iter()
        .max_by(|one, other| without_launches(one).total_cmp(&without_launches(other)))?;
    let words = worst.basis.as_ref().map_or_else(String::new, |basis| basis.words.clone());
    Some(Loss {
        resource,
        serial: Seconds(serial),
        measured: Seconds(serial + lost),
        here: share(Whence::Record),
        published: share(Whence::Published),
        most: Some((worst.operation.name, words)),
    })
}
