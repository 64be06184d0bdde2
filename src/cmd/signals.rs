//! Requests to end that come from outside the program: Ctrl-C, `kill`, a terminal that goes away.

use super::{
    exit, output,
    parent::{self, wake_stopped_ranks},
};
use anyhow::Context;
use fizeau_device::clock::{self, Moment};
use fizeau_domain::units::Seconds;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ},
    flag,
    iterator::Signals,
};
use std::{
    fs,
    path::Path,
    process::Child,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// Requests within this time are one: `timeout`, `scancel` and launchers signal a process and its
/// group.
const SAME_REQUEST: Seconds = Seconds(1.0);

/// How long a process whose launcher has ended may take to end in order.
const ORPHANED: Seconds = Seconds(0.5);

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The first: to end in order.
    End,
    /// A later one: to end at once.
    EndNow,
}

/// Tells a first request from its repetitions and from a second one.
#[derive(Default)]
pub struct Requests {
    first: Option<Moment>,
}

impl Requests {
    /// What a signal that has just come asks for; nothing new where it repeats the first.
    pub fn take(&mut self) -> Option<Request> {
        match &self.first {
            None => {
                self.first = Some(clock::now());
                Some(Request::End)
            }
            Some(first) => (first.elapsed() > SAME_REQUEST).then_some(Request::EndNow),
        }
    }
}

/// Catches the signals that ask to end. Those of a terminal are left alone where they were ignored:
/// SIGHUP, as `nohup` has it, and SIGINT, as a script's shell has it for `fizeau run &`. SIGTERM is
/// never: launchers and schedulers ask by it.
///
/// # Errors
/// Where the system does not let it.
pub fn caught() -> anyhow::Result<Signals> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of_terminal = [SIGINT, SIGHUP].into_iter().filter(|&signal| !ignores(&status, signal));
    Signals::new(of_terminal.chain([SIGTERM])).context("cannot watch for Ctrl-C")
}

/// Whether a process ignores a signal, by the text of `/proc/self/status`.
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// What a first request is answered: a case may take seconds to end.
const STOPPING: &str = "stopping after this case; ask again (Ctrl-C) to stop now";

/// The directory by which the run can be continued, once it has a record.
static CONTINUED: OnceLock<String> = OnceLock::new();

/// Notes where the record is of the run that a request may end.
pub fn can_continue(directory: &Path) {
    // Of several ranks of one process, the one that keeps the record says it.
    let _ = CONTINUED.set(output::shown(directory));
}

/// Tells whoever asked, unless another process does that started this one.
fn tell(words: &str) {
    let is_one_of_many = std::env::var_os(parent::LAUNCHER).is_some();
    if !is_one_of_many {
        output::say_on_a_new_line(words);
    }
}

/// A flag that the first request sets; a second one ends the program at once.
///
/// # Errors
/// Where the system does not let signals be caught, or has no thread for it.
pub fn watch() -> anyhow::Result<Arc<AtomicBool>> {
    watch_and_say(STOPPING)
}

/// The same with other words for a first request.
///
/// # Errors
/// As [`watch`].
pub fn watch_and_say(words: &'static str) -> anyhow::Result<Arc<AtomicBool>> {
    let mut signals = caught()?;
    let interrupted = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&interrupted);
    let hear = move || {
        let mut requests = Requests::default();
        for _ in signals.forever() {
            match requests.take() {
                Some(Request::End) => {
                    set.store(true, Ordering::Relaxed);
                    wake_stopped_ranks();
                    tell(words);
                    if parent::launcher_is_gone() {
                        // Nobody waits for what it measures, and whoever continues waits for it.
                        clock::rest(ORPHANED);
                        signal_hook::low_level::exit(i32::from(exit::INTERRUPTED))
                    }
                }
                Some(Request::EndNow) => {
                    if let Some(directory) = CONTINUED.get() {
                        tell(&format!("stopped; continue by `fizeau run --resume {directory}`"));
                    }
                    signal_hook::low_level::exit(i32::from(exit::INTERRUPTED))
                }
                None => {}
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(hear).context("no thread for signals")?;
    // A limit on the size of files then is an error of the write like a full disk, not a death.
    flag::register(SIGXFSZ, Arc::default()).context("cannot watch for SIGXFSZ")?;
    Ok(interrupted)
}

/// Asks a process that this one has started to end in order.
pub fn hand_on(child: &Child) {
    let process = Pid::from_child(child);
    // One that has ended by itself is not there any more.
    let _ = kill_process(process, Signal::TERM);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_signal_is_told_from_the_mask() {
        let status = "Name:\tfizeau\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        assert!(ignores(status, SIGHUP) && ignores(status, 13));
        assert!(!ignores(status, SIGINT) && !ignores("", SIGHUP));
    }

    #[test]
    fn signals_at_once_are_one_request() {
        let mut requests = Requests::default();
        assert_eq!(requests.take(), Some(Request::End));
        assert_eq!(requests.take(), None);
    }
}
