//! How long this process's threads waited for a CPU while they could have run: what other processes
//! took from them, by the kernel's own count (`/proc/PID/task/TID/schedstat`, Linux's
//! Documentation/scheduler/sched-stats.rst: nanoseconds on a CPU, nanoseconds on a run queue).

use std::{fs, path::Path};

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
}
