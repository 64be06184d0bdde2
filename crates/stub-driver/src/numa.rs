//! On which of the host's made-up NUMA nodes memory is (`nodes=2` in a script): CPU `n` is on node
//! `n % nodes`, and memory on the node of the CPUs that the thread which allocates it may run on.

/// The node of this thread's CPUs; `None` where it may run on several.
pub fn of_this_thread(nodes: u32) -> Option<u32> {
    // SAFETY: a set of CPUs is plain bits, of which none is set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is as long as is said, and thread 0 is the calling one.
    let said = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    if said != 0 {
        return None;
    }
    // SAFETY: the number is below the length of the set.
    let has = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
    let cpus = (0..libc::CPU_SETSIZE as usize).filter(has);
    one_of(cpus.map(|cpu| cpu as u32 % nodes.max(1)))
}

/// What all of them are, where they are all the same.
fn one_of(mut nodes: impl Iterator<Item = u32>) -> Option<u32> {
    let first = nodes.next()?;
    nodes.all(|node| node == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_on_several_nodes_is_on_none() {
        assert_eq!(of_this_thread(1), Some(0));
        assert_eq!(one_of([1, 1, 1].into_iter()), Some(1));
        assert_eq!(one_of([1, 0, 1].into_iter()), None);
    }
}
