//! How much of their time a hypervisor took from the CPUs that this process's threads run on, to
//! run others: the column `steal` of `/proc/stat` (proc_stat(5)). The kernel's count of run delay
//! does not hold it, since to the guest's scheduler a thread on such a CPU runs.

use fizeau_domain::units::Seconds;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// What was stolen from each CPU so far, and where this process's threads ran last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steal {
    /// Ticks, by CPU.
    ticks: BTreeMap<usize, u64>,
    /// The CPU of each thread.
    threads: BTreeSet<usize>,
}

impl Steal {
    /// Of this process, now; none where the kernel does not count it.
    pub fn now() -> Option<Steal> {
        Steal::below(Path::new("/proc"))
    }

    fn below(proc: &Path) -> Option<Steal> {
        let stat = fs::read_to_string(proc.join("stat")).ok()?;
        let ticks: BTreeMap<usize, u64> = stat.lines().filter_map(stolen).collect();
        let tasks = fs::read_dir(proc.join("self/task")).ok()?.flatten();
        // A thread may end meanwhile.
        let stats = tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
        let threads = stats.filter_map(|stat| processor(&stat)).collect();
        (!ticks.is_empty()).then_some(Steal { ticks, threads })
    }

    /// The share, 0..1, of the time of `threads` since `before` that the hypervisor took from the
    /// CPUs that this process's threads ran on. Each CPU's count may advance by a tick for less
    /// than a tick, so that one tick of each is left out.
    pub fn share_since(&self, before: &Steal, elapsed: Seconds, threads: u32) -> Option<f64> {
        let per_second = rustix::param::clock_ticks_per_second() as f64;
        let all = elapsed.0 * f64::from(threads.max(1)) * per_second;
        let of_cpu = |cpu: &usize| {
            let [before, now] = [before, self].map(|steal| steal.ticks.get(cpu).copied());
            Some(now?.saturating_sub(before?).saturating_sub(1))
        };
        let stolen: u64 = self.threads.iter().filter_map(of_cpu).sum();
        (all > 0.0).then(|| (stolen as f64 / all).min(1.0))
    }
}

/// A CPU and its stolen ticks, of the line of one CPU.
fn stolen(line: &str) -> Option<(usize, u64)> {
    let mut words = line.strip_prefix("cpu")?.split(' ');
    let cpu = words.next()?.parse().ok()?;
    // user nice system idle iowait irq softirq steal
    Some((cpu, words.nth(7)?.parse().ok()?))
}

/// The CPU that a thread ran on last: field 39 of its `stat` (proc_pid_stat(5)), whose second
/// field, the name, may hold spaces and brackets.
fn processor(stat: &str) -> Option<usize> {
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(36)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `/proc` with threads on the CPUs that are given, from which so much was stolen.
    fn proc(stolen: [u64; 3], threads: &[usize]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let lines = stolen.iter().enumerate();
        let lines = lines.map(|(cpu, ticks)| format!("cpu{cpu} 5 0 1 3 0 0 0 {ticks} 0 0\n"));
        let lines: String = lines.collect();
        let stat = format!("cpu  9 9 9 9 9 9 9 9 9 9\n{lines}intr 5\n");
        fs::write(folder.path().join("stat"), stat).expect("written");
        for (number, cpu) in threads.iter().enumerate() {
            let task = folder.path().join(format!("self/task/{number}"));
            fs::create_dir_all(&task).expect("made");
            let zeros = "0 ".repeat(35);
            let stat = format!("{number} (a) b) R {zeros}{cpu} 0 0\n");
            fs::write(task.join("stat"), stat).expect("written");
        }
        folder
    }

    #[test]
    fn what_is_stolen_from_the_cpus_of_its_threads_counts_and_nothing_else() {
        let hertz = rustix::param::clock_ticks_per_second();
        let at = |stolen, threads: &[usize]| Steal::below(proc(stolen, threads).path());
        let before = at([7, 100, 0], &[0, 2]).expect("counted");
        let second = Seconds(1.0);
        let share = |stolen, threads: &[usize], count| {
            at(stolen, threads).expect("counted").share_since(&before, second, count)
        };
        let half = hertz / 2 + 1;
        assert_eq!(share([7 + half, 100 + hertz, 0], &[0, 2], 2), Some(0.25));
        assert_eq!(share([7 + half, 100, half], &[0, 2], 2), Some(0.5));
        assert_eq!(share([7 + half, 100, half], &[1], 1), Some(0.0));
        // A tick may be less than one.
        assert_eq!(share([8, 101, 1], &[0, 1, 2], 3), Some(0.0));
        assert_eq!(share([7 + 9 * hertz, 100, 0], &[0], 1), Some(1.0), "never above all");
        assert_eq!(share([7, 100, 0], &[9], 1), Some(0.0), "a CPU of which nothing is known");
    }

    #[test]
    fn without_a_count_nothing_is_known() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(Steal::below(folder.path()), None);
        fs::write(folder.path().join("stat"), "cpu0 1 2 3\n").expect("written");
        assert_eq!(Steal::below(folder.path()), None, "a kernel without the column");
        assert!(Steal::now().is_some(), "this kernel counts");
    }
}
