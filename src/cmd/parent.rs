//! The launcher: the process of this program that has started this one.

use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};

/// By which a rank knows the process that has started it.
pub const LAUNCHER: &str = "FIZEAU_LAUNCHER";

/// Makes this process end when the launcher does that has started it, if one has. False where that
/// has ended already.
pub fn end_with_launcher() -> bool {
    // Without it the rank continues by itself, as one of any other launcher does.
    if std::env::var_os(LAUNCHER).is_some() {
        let _ = set_parent_process_death_signal(Some(Signal::TERM));
    }
    !launcher_is_gone()
}

/// Whether this process was started by a launcher that has ended.
pub fn launcher_is_gone() -> bool {
    let launcher = std::env::var(LAUNCHER).ok().and_then(|process| process.parse::<i32>().ok());
    let parent = getppid().map(|parent| parent.as_raw_nonzero().get());
    launcher.is_some_and(|launcher| parent != Some(launcher))
}

/// Lets other ranks of a launcher that has ended continue where they are stopped: only then do they
/// take the signal by which they end too.
pub fn wake_stopped_ranks() {
    let Some(launcher) = std::env::var_os(LAUNCHER).filter(|_| launcher_is_gone()) else { return };
    let own = [LAUNCHER.as_bytes(), b"=", launcher.as_encoded_bytes()].concat();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes {
        let variables = std::fs::read(process.path().join("environ")).unwrap_or_default();
        let id = process.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(id) = id.and_then(Pid::from_raw)
            && variables.split(|&byte| byte == 0).any(|one| one == own)
        {
            // Those that run do not notice.
            let _ = kill_process(id, Signal::CONT);
        }
    }
}
