//! `fizeau run` as one of many processes: joins them by MPI, shares what memory there is, and ends
//! all of them when one hangs.

use super::exit;
use crate::{
    case::{Case, CollectivePoint, Point},
    comm::{Communicator, mpi::Mpi},
    device::{Device, host},
    launch::{self, World},
    outcome::{Failure, Outcome},
    record::{
        Header, Line,
        store::{self, RecordError},
    },
    units::{Bytes, Seconds},
};
use anyhow::Context;
use std::{
    io::{self, Write},
    path::Path,
    time::Duration,
};

/// Launchers end all processes once one has ended: first the one that keeps the record.
const GRACE: Duration = Duration::from_secs(1);

/// The world that a launcher has put this process into, if any. The process keeps to a core of its
/// own from then on: to be called before a device is opened.
pub fn launched() -> anyhow::Result<Option<World>> {
    let world = launch::world(|name| std::env::var(name).ok())?;
    if let Some(world) = &world {
        host::keep_to_core(world.local_rank.unwrap_or(world.rank));
    }
    Ok(world)
}

/// Joins the other processes of a world.
pub fn join(world: &World, device: &dyn Device, no_host_name: HostName) -> anyhow::Result<Mpi> {
    let properties = device.properties();
    let host = host::environment().host.filter(|_| no_host_name == HostName::Told);
    let mpi = Mpi::open(host.as_deref().unwrap_or("a host"), &properties.name)
        .with_context(|| format!("{} launched this as rank {}", world.launcher, world.rank))?;
    world.agrees("MPI", mpi.rank(), mpi.size())?;
    Ok(mpi)
}

/// Whether the host's name may be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostName {
    /// It may.
    Told,
    /// It is left out.
    LeftOut,
}

/// Memory that all ranks together may take, where it is known: those of a host share what is free
/// on it, and no rank may take more than the one that has least.
pub fn memory(mpi: &Mpi, free: Option<Bytes>) -> anyhow::Result<Option<Bytes>> {
    let Some(free) = free else { return Ok(None) };
    let share = free.0 as f64 / f64::from(mpi.ranks_here());
    // The least, by the only thing that ranks agree on: the largest.
    let least = -mpi.largest(-share)?;
    Ok(Some(Bytes(least as u64 * u64::from(mpi.size()))))
}

/// Ends this process past the deadline of a collective: says who hangs, and where a record is
/// kept, that the case failed.
pub fn guard(
    mpi: &Mpi,
    deadline: Seconds,
    record: Option<&Path>,
    header: &Header,
) -> anyhow::Result<()> {
    let record = record.map(Path::to_owned);
    let plan = header.plan.clone();
    let on_hang = move |said: String, point: Option<CollectivePoint>| {
        let kept =
            record.as_ref().map(|directory| match append_failure(directory, &plan, point, &said) {
                Ok(()) => format!("; the record is kept in {}", directory.display()),
                Err(error) => format!("; the record ends before this case: {error}"),
            });
        // Nowhere is left to say that standard error is gone.
        let _ = writeln!(io::stderr(), "fizeau: {said}{}", kept.as_deref().unwrap_or_default());
        if record.is_none() {
            std::thread::sleep(GRACE);
        }
        std::process::exit(i32::from(exit::COULD_NOT_RUN));
    };
    mpi.watch(deadline, Box::new(on_hang))?;
    Ok(())
}

/// The outcome of the case in flight: the first of its kind that has none.
fn append_failure(
    directory: &Path,
    plan: &[Case],
    point: Option<CollectivePoint>,
    error: &str,
) -> Result<(), RecordError> {
    let record = store::read(directory)?;
    let is_it = |case: &&Case| match (case.point, point) {
        (Point::Collective(of), Some(point)) => {
            (of.collective, of.dtype, of.message) == (point.collective, point.dtype, point.message)
        }
        _ => false,
    };
    let open = |case: &&Case| !record.outcomes.iter().any(|outcome| outcome.case() == *case);
    let Some(case) = plan.iter().filter(is_it).find(open) else { return Ok(()) };
    let error = error.to_owned();
    let outcome = Outcome::Failed { case: case.clone(), failure: Failure::Hang, error };
    let path = directory.join(store::FILE);
    store::append_last(directory, &Line::Outcome(outcome))
        .map_err(|error| RecordError::File { path, error })
}
