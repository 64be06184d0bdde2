//! Processes that end with the one that has started them, however that ends: what measures must not
//! be left behind on the machine that is measured next.

#![expect(unsafe_code, reason = "the system is asked between fork and exec, as any program has it")]

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use std::{io, os::unix::process::CommandExt, process::Command};

/// Has the process that the command starts asked to end (SIGTERM) when the thread that starts it
/// ends, by `kill -9` of this process too. That thread has to live until it has waited for the
/// process. A program that starts others has to end them itself.
///
/// Programs of this version that [`parent`](super::parent) tells their launcher do so by
/// themselves, also where a script stands between; this is for programs of any version.
pub fn end_with_this_thread(command: &mut Command) -> &mut Command {
    let parent = getpid();
    let tie = move || {
        set_parent_process_death_signal(Some(Signal::TERM))?;
        // Whoever has ended before that sends no signal.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    };
    // SAFETY: two system calls, which take no lock and no memory.
    unsafe { command.pre_exec(tie) }
}
