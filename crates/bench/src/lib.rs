//! The operations: which cases a suite plans, and how one is made ready to run.
//!
//! Each operation is a module with two functions, `cases` and `prepare`, and one arm in each of
//! the two functions below. There is no trait for them: the set is closed, and the compiler keeps
//! the list.
//!
//! What is above this crate, or beside it, cannot be used here:
//!
//! ```compile_fail
//! use fizeau_judge::compare;
//! ```
//!
//! ```compile_fail
//! use fizeau::session;
//! ```

pub mod access;
pub mod attention;
mod chain;
pub mod collective;
pub mod compute;
mod element;
pub mod fused;
pub mod gemm;
pub mod instruction;
pub mod latency;
pub mod launch;
pub mod recurrence;
mod rotation;
pub mod sdc;
mod sides;
pub mod sparse;
pub mod stream;
mod together;
pub mod transfer;
mod verify;

pub use fizeau_comm::Rank;
use fizeau_device::{DeviceError, host};
use fizeau_domain::{
    case::{Case, KernelName, Point},
    outcome::{Cache, Check, Integrity},
    spec::Properties,
    suite::{KernelChoice, Suite},
    tuning::TUNED,
    units::Bytes,
};
use std::collections::HashSet;

/// A case made ready on a rank: operands allocated and filled with random data.
pub trait Workload {
    /// Enqueues `repeat` iterations, back to back.
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError>;

    /// Iterations that are enqueued as one: those that are timed come in multiples of it.
    fn granule(&self) -> u32 {
        1
    }

    /// Copies of its operands that iterations can take in turn: one where it has no others.
    fn copies(&self) -> u32 {
        1
    }

    /// Whether iterations take turns with the copies from now on, or all take the same one.
    fn take_turns(&mut self, _: bool) {}

    /// Names of the candidates that iterations can be done by, the device's best guess first; none
    /// where there is one way alone.
    fn candidates(&self) -> Result<Vec<String>, DeviceError> {
        Ok(Vec::new())
    }

    /// Lets iterations be done by the candidate at that place from now on.
    fn choose(&mut self, _candidate: usize) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Spoils the output, so that an iteration that does nothing cannot pass [`Workload::verify`].
    fn poison(&mut self) -> Result<(), DeviceError>;

    /// Compares what the last iteration left with a reference of higher precision.
    fn verify(&mut self) -> Result<Check, DeviceError>;

    /// What bitwise comparisons of all iterations found; `None` where it makes none.
    fn integrity(&mut self) -> Result<Option<Integrity>, DeviceError> {
        Ok(None)
    }
}

/// Why a case could not be made ready.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unready {
    /// It cannot run here, which is nobody's fault.
    #[error("{0}")]
    Unsupported(String),
    /// The device refused.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// A case made ready, or why it is not.
pub type Prepared<'r> = Result<Box<dyn Workload + 'r>, Unready>;

/// The plan of a suite on a rank: ceilings first, so that what comes later can be set against
/// them.
pub fn cases(suite: &Suite, rank: Rank<'_>) -> Vec<Case> {
    let mut plan = Vec::new();
    let has_others = rank.peers.processes() > 1;
    // Ranks on hosts share their nodes: only what they do together is measured.
    if has_others && rank.device.capabilities().threads.is_some() {
        plan.extend(sdc::all_reduce::cases(suite, rank));
        plan.extend(collective::cases(suite, rank));
        return plan;
    }
    plan.extend(compute::cases(suite, rank));
    plan.extend(instruction::cases(suite, rank));
    plan.extend(stream::cases(suite, rank));
    plan.extend(latency::cases(suite, rank));
    plan.extend(access::cases(suite, rank));
    // GPUs share links and the host's cores, and have all else for themselves.
    if !has_others {
        plan.extend(transfer::cases(suite, rank));
        plan.extend(launch::cases(suite, rank));
    }
    plan.extend(gemm::cases(suite, rank));
    plan.extend(gemm::grouped::cases(suite, rank));
    plan.extend(attention::cases(suite, rank));
    plan.extend(fused::cases(suite, rank));
    plan.extend(recurrence::cases(suite, rank));
    plan.extend(sparse::cases(suite, rank));
    if !has_others {
        plan.extend(sdc::cases(suite, rank));
    }
    plan.extend(sdc::all_reduce::cases(suite, rank));
    plan.extend(collective::cases(suite, rank));
    match suite.kernels {
        KernelChoice::Best => keep_best(&mut plan, rank),
        // All of its candidates are measured, at length.
        KernelChoice::All => plan.retain(|case| case.kernel.0 != TUNED),
    }
    plan
}

/// Of each point, keeps the kernel that tries the bundled ones and takes the fastest, where the
/// device has it, else the first, which is its best guess; vendors' libraries, and what the user
/// brings.
fn keep_best(plan: &mut Vec<Case>, rank: Rank<'_>) {
    let mut seen = HashSet::new();
    let is_kept = |kernel: &KernelName| kernel.is_of_library() || rank.device.is_of_user(kernel);
    plan.retain(|case| is_kept(&case.kernel) || seen.insert(case.point));
}

/// Makes a case ready, on all ranks or on none.
pub fn prepare<'r>(case: &Case, rank: Rank<'r>) -> Prepared<'r> {
    let alone = rank.peers.processes() == 1 || case.point.is_of_all_ranks();
    let ready = prepare_alone(case, rank);
    if alone { ready } else { together::beside_each_other(ready, rank) }
}

/// Gives back the memory that is kept from one case for the next: another process needs it.
pub fn give_back() {
    gemm::keep_none();
}

fn prepare_alone<'r>(case: &Case, rank: Rank<'r>) -> Prepared<'r> {
    gemm::keep_only(&case.point);
    match &case.point {
        Point::Stream(point) => stream::prepare(point, &case.kernel, rank),
        Point::Latency(point) => latency::prepare(point, &case.kernel, rank),
        Point::Compute(point) => compute::prepare(point, &case.kernel, rank),
        Point::Instruction(point) => instruction::prepare(point, &case.kernel, rank),
        Point::Gemm(point) => gemm::prepare(point, &case.kernel, rank),
        Point::Grouped(point) => gemm::grouped::prepare(point, &case.kernel, rank),
        Point::Attention(point) => attention::prepare(point, &case.kernel, rank),
        Point::Fused(point) => fused::prepare(point, &case.kernel, rank),
        Point::Recurrence(point) => recurrence::prepare(point, &case.kernel, rank),
        Point::Sparse(point) => sparse::prepare(point, &case.kernel, rank),
        Point::Collective(point) => collective::prepare(point, &case.kernel, rank),
        Point::Access(point) => access::prepare(point, &case.kernel, rank),
        Point::Transfer(point) => transfer::prepare(point, &case.kernel, rank),
        Point::Launch(point) => launch::prepare(point, &case.kernel, rank),
        Point::Sdc(point) => sdc::prepare(point, &case.kernel, rank),
    }
}

/// The state of the caches that a case's headline refers to, and whether the other one is
/// measured beside it. A product whose operands take turns with copies finds none of them in a
/// cache, as a layer of a model does whose weights come after those of all other layers.
pub fn headline_cache(case: &Case, copies: u32) -> (Cache, Option<Cache>) {
    match &case.point {
        Point::Stream(_)
        | Point::Latency(_)
        | Point::Compute(_)
        | Point::Instruction(_)
        | Point::Collective(_)
        | Point::Access(_)
        | Point::Transfer(_)
        | Point::Launch(_)
        | Point::Sdc(_) => (Cache::Hot, None),
        Point::Gemm(_) | Point::Fused(_) | Point::Recurrence(_) if copies > 1 => {
            (Cache::Cold, Some(Cache::Hot))
        }
        Point::Fused(_) | Point::Recurrence(_) => (Cache::Hot, None),
        Point::Gemm(_) | Point::Grouped(_) => (Cache::Hot, Some(Cache::Cold)),
        Point::Attention(_) | Point::Sparse(_) => (Cache::Cold, Some(Cache::Hot)),
    }
}

/// `count` values in host memory; an error, and not an abort, where there is no room.
fn collected<T>(count: usize, values: impl Iterator<Item = T>) -> Result<Vec<T>, DeviceError> {
    let mut all = Vec::new();
    all.try_reserve_exact(count).map_err(|_| {
        let size = Bytes((count as u64).saturating_mul(size_of::<T>() as u64));
        DeviceError::Allocation { size, why: "the host has no more".into() }
    })?;
    all.extend(values);
    Ok(all)
}

/// `count` copies of one value.
fn filled<T: Clone>(value: T, count: usize) -> Result<Vec<T>, DeviceError> {
    collected(count, std::iter::repeat_n(value, count))
}

/// The state of the caches that a case's headline refers to on a device with these properties, and
/// whether the other one is measured beside it, where there is room for copies of its operands.
pub fn planned_cache(case: &Case, properties: &Properties) -> (Cache, Option<Cache>) {
    headline_cache(case, copies_planned(case, properties))
}

/// Copies of a case's operands that iterations take in turn.
fn copies_planned(case: &Case, properties: &Properties) -> u32 {
    match &case.point {
        Point::Gemm(point) => gemm::copies(point, properties),
        Point::Fused(_) | Point::Recurrence(_) => rotation::copies(&case.point, properties),
        _ => 1,
    }
}

/// Memory that a case takes on a device, operands, reference and what displaces the host's caches
/// together: what `list` prints and `run` compares with what there is.
pub fn memory_needed(case: &Case, properties: &Properties) -> Bytes {
    let copies = copies_planned(case, properties);
    let (cache, beside) = headline_cache(case, copies);
    let is_evicted = beside == Some(Cache::Cold) || cache == Cache::Cold && copies == 1;
    let displacing = match is_evicted && properties.backend == "host" {
        true => host::displacing(properties),
        false => Bytes(0),
    };
    taken(case, properties) + displacing
}

fn taken(case: &Case, properties: &Properties) -> Bytes {
    match &case.point {
        Point::Stream(point) => point.working_set,
        // The chain, beside it the order of its cells, and what is written of it at once.
        Point::Latency(point) => {
            let order = Bytes(point.working_set.0 / 4);
            point.working_set + order + point.working_set.min(chain::WRITTEN_MAX)
        }
        Point::Compute(_) => Bytes::MIB,
        Point::Gemm(point) => {
            let copies = gemm::copies(point, properties);
            case.point.work().memory * (1 + u64::from(copies)) + gemm::beside(point)
        }
        // Beside the device's operands those of one group, drawn and kept as they are checked.
        Point::Grouped(point) => point.memory() + gemm::grouped::beside(point),
        Point::Attention(point) => {
            (case.point.work().memory + point.unread()) * 2 + attention::beside(point)
        }
        Point::Fused(point) => fused::memory(point, properties),
        Point::Recurrence(point) => recurrence::memory(point, properties),
        Point::Sparse(point) => sparse::memory(point),
        Point::Collective(point) => point.memory() * u64::from(point.ranks),
        Point::Access(point) if point.access.on_chip() => Bytes::MIB,
        Point::Access(point) => point.working_set,
        Point::Transfer(point) => point.memory(),
        Point::Launch(_) | Point::Instruction(_) => Bytes::KIB,
        Point::Sdc(point) => sdc::memory(point, properties),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_has_no_room_for_is_an_error() {
        let refused = filled(0u64, usize::MAX / 16);
        assert!(matches!(refused, Err(DeviceError::Allocation { .. })), "{:?}", refused.err());
        assert_eq!(filled(7u8, 3), Ok(vec![7, 7, 7]));
    }
}
