//! The end of a run in which a rank waits beyond its deadline: the case in flight is recorded as
//! failed, the reason is said, and the process ends.

use super::GRACE;
use fizeau_domain::{
    case::{Case, CollectivePoint, Point},
    outcome::{Failure, Outcome},
};
use fizeau_record::{
    Header, Line,
    store::{self, RecordError},
};
use nccl_rs::Monitor;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

/// How this process ends while a rank hangs, when no call can return any more.
#[derive(Clone, Copy)]
pub struct Ending {
    /// Says the reason.
    pub say: fn(&str),
    /// Ends the process.
    pub exit: fn() -> !,
}

/// The record that this rank keeps, once there is one: its directory and its plan.
#[derive(Clone, Default)]
pub struct KeptRecord(Arc<Mutex<Option<DirectoryAndPlan>>>);

/// Where a record is kept, and the cases that it is to have.
type DirectoryAndPlan = (PathBuf, Vec<Case>);

impl KeptRecord {
    /// The record is in this directory from now on.
    pub fn in_directory(&self, directory: &Path, header: &Header) {
        let kept = (directory.to_owned(), header.plan.clone());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
    }

    fn take(&self) -> Option<DirectoryAndPlan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What the watchdog calls past the deadline, with who hangs in which collective. It does not come
/// back.
pub(super) fn on_hang(
    rank: u32,
    record: KeptRecord,
    ending: Ending,
) -> impl FnOnce(String, Option<CollectivePoint>, Option<Monitor>) + Send {
    move |why, point, monitor| {
        let kept = record.take().map(|(directory, plan)| {
            match append_failure(&directory, &plan, point, &why) {
                Ok(()) => format!("; the record is kept in {}", directory.display()),
                Err(error) => format!("; the record ends before this case: {error}"),
            }
        });
        (ending.say)(&format!("{why}{}", kept.unwrap_or_default()));
        if let Some(monitor) = monitor {
            abort(monitor);
        }
        if rank != 0 {
            thread::sleep(GRACE);
        }
        (ending.exit)()
    }
}

/// Ends what a GPU still waits for, so that it is free for others; not for longer than it is worth.
fn abort(monitor: Monitor) {
    let aborting = thread::spawn(move || monitor.abort());
    for _ in 0..20 {
        if aborting.is_finished() {
            return;
        }
        thread::sleep(GRACE / 20);
    }
}

/// Records the case in flight as failed: the first of its kind that has no outcome.
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
    let (case, failure) = (case.clone(), Failure::Hang);
    let outcome = Outcome::Failed { case, failure, error, integrity: None };
    let path = directory.join(store::FILE);
    store::append_last(directory, &Line::Outcome(outcome))
        .map_err(|error| RecordError::File { path, error })
}
