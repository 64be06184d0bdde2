//! The CPUs that this process may use, and how the kernel's files describe them.

use super::affinity::{self, CpuMask};
use std::{collections::BTreeSet, fs};

/// Where the kernel describes each CPU.
pub const CPUS: &str = "/sys/devices/system/cpu";

/// Keeps this process to one of the cores it may use, counted around: for ranks that share a node
/// and would all start on the first one. Where that is refused they run where the system puts them.
pub fn keep_to_core(index: u32) {
    let cpus = cores_first(&allowed_cpus());
    if let Some(&cpu) = cpus.get(index as usize % cpus.len().max(1)) {
        let _ = affinity::keep_to(&CpuMask::from_iter([cpu]));
    }
}

/// The CPUs this thread may use.
pub fn allowed_cpus() -> Vec<usize> {
    affinity::allowed().map(|mask| mask.cpus()).unwrap_or_default()
}

/// How many CPUs the kernel runs on; `None` where it does not tell.
pub fn online() -> Option<usize> {
    let list = fs::read_to_string(format!("{CPUS}/online")).ok()?;
    Some(cpu_list(&list).len())
}

/// The first CPU of each core, and after them the others: two hardware threads of a core share its
/// arithmetic and its caches, and a unit is a whole core.
pub(super) fn cores_first(cpus: &[usize]) -> Vec<usize> {
    let cores = cores(cpus);
    let others = cpus.iter().filter(|cpu| !cores.contains(cpu));
    cores.iter().chain(others).copied().collect()
}

/// Whether the OS allows pinning: tried by asking for what is already so.
pub fn can_pin() -> bool {
    affinity::allowed().and_then(|mask| affinity::keep_to(&mask)).is_ok()
}

/// The first of the CPUs in each core, by the sets of hardware threads that the kernel lists.
pub(super) fn cores(cpus: &[usize]) -> Vec<usize> {
    one_of_each(cpus, |cpu| {
        let path = format!("{CPUS}/cpu{cpu}/topology/thread_siblings_list");
        fs::read_to_string(path).map(|list| cpu_list(&list)).unwrap_or_default()
    })
}

/// Those that share with none before them.
fn one_of_each(cpus: &[usize], siblings: impl Fn(usize) -> BTreeSet<usize>) -> Vec<usize> {
    let mut taken = BTreeSet::new();
    let mut first = |&cpu: &usize| {
        let free = taken.insert(cpu);
        taken.extend(siblings(cpu));
        free
    };
    cpus.iter().copied().filter(|cpu| first(cpu)).collect()
}

/// `0-3,8` as the kernel writes sets of CPUs.
pub fn cpu_list(text: &str) -> BTreeSet<usize> {
    let mut cpus = BTreeSet::new();
    for range in text.trim().split(',') {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(from), Ok(to)) = (from.parse::<usize>(), to.parse::<usize>()) {
            cpus.extend(from..=to.min(from.saturating_add(65_536)));
        }
    }
    cpus
}

/// A file that has one number.
pub(super) fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_lists_parse() {
        assert_eq!(cpu_list("0-2,5\n"), BTreeSet::from([0, 1, 2, 5]));
        assert_eq!(cpu_list(""), BTreeSet::new());
    }

    #[test]
    fn a_core_counts_once_however_many_threads_it_has() {
        let siblings = |cpu: usize| BTreeSet::from([cpu % 4, cpu % 4 + 4]);
        assert_eq!(one_of_each(&[0, 1, 2, 3, 4, 5, 6, 7], siblings), [0, 1, 2, 3]);
        assert_eq!(one_of_each(&[2, 5, 6], siblings), [2, 5]);
        assert_eq!(one_of_each(&[0, 1], |_| BTreeSet::new()), [0, 1]);
    }
}
