//! How long this process's threads waited for a CPU while they could have run: what other processes
//! took from them, by the kernel's own count (`/proc/PID/task/TID/schedstat`, Linux's
//! Documentation/scheduler/sched-stats.rst: nanoseconds on a CPU, nanoseconds on a run queue).

use std::{fs, path::Path, thread, time::Duration};

/// What all threads of a process spent so far, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunDelay {
    running: u64,
    waiting: u64,
}

impl RunDelay {
    /// Of this process, now; none where the kernel does not count it.
    pub fn now() -> Option<RunDelay> {
        RunDelay::below(Path::new("/proc/self/task"))
    }

    fn below(tasks: &Path) -> Option<RunDelay> {
        let mut all = RunDelay::default();
        let mut threads = 0;
        for task in fs::read_dir(tasks).ok()?.flatten() {
            // A thread may end meanwhile.
            let Ok(text) = fs::read_to_string(task.path().join("schedstat")) else { continue };
            let mut words = text.split_whitespace().map(str::parse::<u64>);
            let (Some(Ok(running)), Some(Ok(waiting))) = (words.next(), words.next()) else {
                continue;
            };
            threads += 1;
            all = RunDelay {
                running: all.running.saturating_add(running),
                waiting: all.waiting.saturating_add(waiting),
            };
        }
        (threads > 0).then_some(all)
    }

    /// The share of the time since `before` in which threads that could have run had no CPU. None
    /// where none ran.
    pub fn share_since(&self, before: &RunDelay) -> Option<f64> {
        let running = self.running.saturating_sub(before.running) as f64;
        let waiting = self.waiting.saturating_sub(before.waiting) as f64;
        (running + waiting > 0.0).then(|| waiting / (running + waiting))
    }
}

/// How long threads of libraries are waited for, and how often they are looked at: OpenBLAS's
/// spin for some 30 ms after they began and after each product.
const SPINNING_MAX: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_millis(2);

/// Waits until no other thread of this process runs, or for 200 ms: what threads of vendor
/// libraries take while they spin would count as taken by others.
pub fn let_threads_rest() {
    let own = rustix::thread::gettid().as_raw_nonzero().to_string();
    let mut left = SPINNING_MAX;
    while others_run(Path::new("/proc/self/task"), &own) && !left.is_zero() {
        thread::sleep(LOOK);
        left = left.saturating_sub(LOOK);
    }
}

/// Whether a thread but `own` runs, or could.
fn others_run(tasks: &Path, own: &str) -> bool {
    let Ok(tasks) = fs::read_dir(tasks) else { return false };
    tasks.flatten().filter(|task| task.file_name() != own).any(|task| {
        // A thread may end meanwhile. Its state stands behind its name, which may hold anything.
        let Ok(text) = fs::read_to_string(task.path().join("stat")) else { return false };
        text.rsplit_once(')').is_some_and(|(_, behind)| behind.trim_start().starts_with('R'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(threads: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (number, text) in threads.iter().enumerate() {
            let task = folder.path().join(number.to_string());
            fs::create_dir(&task).expect("made");
            fs::write(task.join("schedstat"), text).expect("written");
        }
        folder
    }

    #[test]
    fn threads_are_added_and_what_is_no_count_is_left_out() {
        let before = tasks(&["1000 0 1\n", "0 0 0\n", "nothing"]);
        let after = tasks(&["4000 1000 9\n", "1000 1000 3\n", "nothing"]);
        let [before, after] = [before, after].map(|folder| RunDelay::below(folder.path()));
        let share = after.expect("counted").share_since(&before.expect("counted"));
        assert_eq!(share, Some(2000.0 / 6000.0));
        assert_eq!(RunDelay::below(tasks(&[]).path()), None);
        assert_eq!(RunDelay::default().share_since(&RunDelay::default()), None);
    }

    #[test]
    fn threads_that_run_are_told_from_those_that_sleep() {
        let folder = tempfile::tempdir().expect("a folder");
        for (number, text) in
            ["11 (own) R 1", "12 (a) R (b) S 1", "13 (idle) D 1"].iter().enumerate()
        {
            let task = folder.path().join((11 + number).to_string());
            fs::create_dir(&task).expect("made");
            fs::write(task.join("stat"), text).expect("written");
        }
        assert!(!others_run(folder.path(), "11"));
        assert!(others_run(folder.path(), "12"), "the thread 11 runs");
        assert!(!others_run(&folder.path().join("nothing"), "11"));
    }
}
