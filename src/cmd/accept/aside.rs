//! Calls that may never come back: those of drivers, and processes that make them. They are made on
//! threads of their own, so that whoever asks for an end gets it.

use crate::cmd::exit::Interrupted;
use anyhow::Context as _;
use fizeau_device::clock::{self, Moment};
use fizeau_domain::units::Seconds;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    process::{Child, Output},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{RecvTimeoutError, channel},
    },
    thread,
    time::Duration,
};

/// How often it is looked whether the user wants an end.
const EVERY: Duration = Duration::from_millis(20);

/// How long a call may still take once an end is wanted.
pub const GRACE: Seconds = Seconds(0.3);

/// How a process ended.
pub enum Ended {
    /// With what it has written.
    With(Output),
    /// Not in time: it was ended.
    Late,
}

/// What `work` makes.
///
/// # Errors
/// [`Interrupted`] where the user wants an end, and `work` has not come back within [`GRACE`]; its
/// thread then stays until the process ends.
pub fn unless_interrupted<T: Send + 'static>(
    interrupted: &AtomicBool,
    work: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<T> {
    waited(interrupted, Seconds(f64::INFINITY), work)?.context("a call that is never late")
}

/// The same; `None` where it has not come back within `most`.
fn waited<T: Send + 'static>(
    interrupted: &AtomicBool,
    most: Seconds,
    work: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<Option<T>> {
    let began = clock::now();
    let (sender, made) = channel();
    // Nobody may wait any more for what it sends.
    let run = move || drop(sender.send(work()));
    thread::Builder::new().name("aside".into()).spawn(run).context("no thread for a driver")?;
    let mut asked: Option<Moment> = None;
    loop {
        match made.recv_timeout(EVERY) {
            Ok(made) => return Ok(Some(made)),
            Err(RecvTimeoutError::Disconnected) => anyhow::bail!("a driver's thread panicked"),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if interrupted.load(Ordering::Relaxed)
            && asked.get_or_insert_with(clock::now).elapsed() > GRACE
        {
            return Err(Interrupted.into());
        }
        if began.elapsed() > most {
            return Ok(None);
        }
    }
}

/// Waits for a process and takes what it writes.
///
/// # Errors
/// As above, and then the process is ended.
pub fn output_of(interrupted: &AtomicBool, child: Child) -> anyhow::Result<Output> {
    match output_within(interrupted, child, Seconds(f64::INFINITY))? {
        Ended::With(output) => Ok(output),
        Ended::Late => anyhow::bail!("a process that is never late"),
    }
}

/// The same for so long.
///
/// # Errors
/// As above.
pub fn output_within(
    interrupted: &AtomicBool,
    child: Child,
    most: Seconds,
) -> anyhow::Result<Ended> {
    let id = Pid::from_child(&child);
    let ended = waited(interrupted, most, move || child.wait_with_output());
    if !matches!(ended, Ok(Some(_))) {
        // Whoever waits for it has not come back, so that the number is still its own.
        let _ = kill_process(id, Signal::KILL);
    }
    match ended? {
        Some(output) => Ok(Ended::With(output.context("waiting for a process")?)),
        None => Ok(Ended::Late),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_come_back_is_left_once_an_end_is_wanted() {
        let wanted = AtomicBool::new(false);
        assert_eq!(unless_interrupted(&wanted, || 7).ok(), Some(7));
        wanted.store(true, Ordering::Relaxed);
        assert_eq!(unless_interrupted(&wanted, || 7).ok(), Some(7), "it comes back at once");
        let began = clock::now();
        let hung = unless_interrupted(&wanted, || thread::sleep(Duration::from_secs(30)));
        assert!(hung.is_err_and(|error| error.is::<Interrupted>()));
        assert!(began.elapsed() < Seconds(10.0), "{}", began.elapsed());
        let (nobody, most) = (AtomicBool::new(false), Seconds(0.05));
        let late = waited(&nobody, most, || thread::sleep(Duration::from_secs(30)));
        assert!(late.is_ok_and(|made| made.is_none()));
    }
}
