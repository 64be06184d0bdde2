//! Which CPUs a thread may run on, however many the machine has. The C library's `cpu_set_t` (and
//! rustix's `CpuSet`) ends at 1,024 CPUs, and the kernel refuses to write its own mask into less
//! room than that takes (sched_setaffinity(2), "Handling systems with large CPU affinity masks").

#![expect(unsafe_code, reason = "two functions of the C library that take masks of any length")]

use std::{ffi::c_int, io};

/// A set of CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuMask {
    /// CPU `n` is bit `n % 64` of word `n / 64`.
    words: Vec<u64>,
}

/// Words of the first mask that is tried: 1,024 CPUs.
const WORDS_FIRST: usize = 16;
/// No kernel has a mask for more than four million CPUs.
const WORDS_MAX: usize = 1 << 16;

unsafe extern "C" {
    fn sched_getaffinity(thread: c_int, bytes: usize, mask: *mut u64) -> c_int;
    fn sched_setaffinity(thread: c_int, bytes: usize, mask: *const u64) -> c_int;
}

impl CpuMask {
    /// The CPUs in it, in ascending order.
    pub fn cpus(&self) -> Vec<usize> {
        (0..self.words.len() * 64).filter(|&cpu| self.has(cpu)).collect()
    }

    /// Whether it has a CPU.
    pub fn has(&self, cpu: usize) -> bool {
        self.words.get(cpu / 64).is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    }
}

impl FromIterator<usize> for CpuMask {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> CpuMask {
        let mut words = vec![0; WORDS_FIRST];
        for cpu in cpus {
            if words.len() <= cpu / 64 {
                words.resize(cpu / 64 + 1, 0);
            }
            words[cpu / 64] |= 1 << (cpu % 64);
        }
        CpuMask { words }
    }
}

/// The CPUs that this thread may use.
///
/// # Errors
/// Where the system does not tell.
pub fn allowed() -> io::Result<CpuMask> {
    read_by(|words| {
        // SAFETY: the mask is as long as is said, and thread 0 is the calling one.
        said(unsafe { sched_getaffinity(0, size_of_val(words), words.as_mut_ptr()) })
    })
}

/// Keeps this thread to some CPUs.
///
/// # Errors
/// Where the system refuses: none of the CPUs is one that this process may use, or a sandbox
/// allows no such call.
pub fn keep_to(mask: &CpuMask) -> io::Result<()> {
    let words = &mask.words[..];
    // SAFETY: the mask is as long as is said, and thread 0 is the calling one.
    said(unsafe { sched_setaffinity(0, size_of_val(words), words.as_ptr()) })
}

fn said(code: c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Asks with ever more room while the kernel says that its own mask does not fit (EINVAL).
fn read_by(ask: impl Fn(&mut [u64]) -> io::Result<()>) -> io::Result<CpuMask> {
    let mut count = WORDS_FIRST;
    loop {
        let mut words = vec![0; count];
        match ask(&mut words) {
            Ok(()) => return Ok(CpuMask { words }),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput && count < WORDS_MAX => {
                count *= 2;
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel that knows `known` CPUs, and lets a process use every hundredth.
    fn kernel(cpus: usize) -> impl Fn(&mut [u64]) -> io::Result<()> {
        move |words| {
            if words.len() * 64 < cpus {
                return Err(io::Error::from_raw_os_error(22));
            }
            (0..cpus).step_by(100).for_each(|cpu| words[cpu / 64] |= 1 << (cpu % 64));
            Ok(())
        }
    }

    #[test]
    fn a_mask_grows_until_the_kernels_own_fits() {
        for cpus in [1, 64, 1_024, 1_025, 1_792, 8_192] {
            let mask = read_by(kernel(cpus)).expect("it fits in the end");
            assert_eq!(mask.cpus(), (0..cpus).step_by(100).collect::<Vec<_>>(), "{cpus}");
        }
    }

    #[test]
    fn what_no_room_helps_against_is_an_error() {
        let refusing = |number| read_by(move |_| Err(io::Error::from_raw_os_error(number)));
        assert_eq!(refusing(1).expect_err("not permitted").raw_os_error(), Some(1));
        assert_eq!(refusing(22).expect_err("never enough").raw_os_error(), Some(22));
    }

    #[test]
    fn this_thread_keeps_to_what_it_is_told() {
        let before = allowed().expect("the system tells");
        let first = *before.cpus().first().expect("a CPU");
        let one = CpuMask::from_iter([first]);
        keep_to(&one).expect("its own CPU");
        assert_eq!(allowed().expect("it tells").cpus(), [first]);
        keep_to(&before).expect("what it had");
        assert_eq!(allowed().expect("it tells").cpus(), before.cpus());
        assert!(keep_to(&CpuMask::from_iter([5_000])).is_err(), "no such CPU here");
        assert!(CpuMask::from_iter([5_000]).has(5_000) && !one.has(5_000));
    }
}
