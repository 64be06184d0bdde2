//! A session of which another process or rank tells the user.

use crate::{
    cmd::{document, exit, records::has_broken},
    session::{End, Session, Watcher},
};
use fizeau_domain::{case::Case, outcome::Outcome};
use fizeau_record::{
    Header,
    store::{self, Writer},
};
use std::{cell::Cell, path::Path, process::ExitCode};

/// Runs the session and says nothing; the exit code.
///
/// # Errors
/// As the session's.
pub fn run(
    session: &Session<'_>,
    header: &Header,
    done: &[Outcome],
    writer: Option<&mut Writer>,
) -> anyhow::Result<ExitCode> {
    let broken = Cell::new(false);
    let mut watcher = Follower { broken: &broken };
    let end = session.run(header, done, writer, &mut watcher)?;
    Ok(ExitCode::from(match (end, broken.get()) {
        (End::Interrupted, _) => exit::INTERRUPTED,
        (End::Complete, true) => exit::FAILED,
        (End::Complete, false) => 0,
    }))
}

/// Writes the reports of one of several GPUs, and gives its exit code: what has to be said, the
/// process says that started this one.
///
/// # Errors
/// A record that cannot be read, or reports that cannot be written.
pub fn finish(directory: &Path, end: End) -> anyhow::Result<ExitCode> {
    let record = store::read(directory)?;
    document::write_all(directory, &record)?;
    Ok(ExitCode::from(match end {
        End::Interrupted => exit::INTERRUPTED,
        End::Complete if has_broken(&record) => exit::FAILED,
        End::Complete => 0,
    }))
}

/// Says nothing, and remembers whether anything failed, which it does on every rank. Whether a time
/// can be believed is for the rank to say that keeps the record: others' timers are other timers.
struct Follower<'f> {
    broken: &'f Cell<bool>,
}

impl Watcher for Follower<'_> {
    fn starts(&mut self, _: usize, _: usize, _: &Case) {}

    fn ended(&mut self, outcome: &Outcome) {
        if matches!(outcome, Outcome::Failed { .. }) {
            self.broken.set(true);
        }
    }
}
