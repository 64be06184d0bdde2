//! A kernel of the host, as its list has it.

use super::pool::Block;
use fizeau_domain::kernel::Operation;
use std::sync::Arc;

/// A kernel of the host.
pub(crate) struct HostKernel {
    /// What it computes.
    pub operation: Operation,
    /// Its name: the last segment of a case's id.
    pub name: &'static str,
    /// Instruction sets it needs, by the names in [`Properties::features`].
    pub features: &'static [&'static str],
    /// Who makes its threads.
    pub threads: KernelThreads,
    /// The code of one block. Runs [`Block::repeat`] iterations.
    pub run: Arc<dyn Fn(&Block<'_>) + Send + Sync>,
}

impl HostKernel {
    /// A kernel that runs on the pool's threads.
    pub fn new(
        operation: Operation,
        name: &'static str,
        features: &'static [&'static str],
        run: impl Fn(&Block<'_>) + Send + Sync + 'static,
    ) -> HostKernel {
        HostKernel { operation, name, features, threads: KernelThreads::Pool, run: Arc::new(run) }
    }
}

/// Who makes the threads of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelThreads {
    /// The pool: `run` is called once on each pinned thread.
    Pool,
    /// The pool; `run` calls a user's code.
    User,
    /// A vendor library: `run` is called once, unpinned, and starts [`Block::count`] of its own.
    Library,
}

/// Declares unsafe methods of vectors, each of which is inlined into a function that has the
/// instructions.
#[cfg(target_arch = "x86_64")]
macro_rules! inlined {
    ($( fn $name:ident($($arguments:tt)*) $(-> $result:ty)? = $value:expr; )*) => { $(
        #[inline(always)]
        unsafe fn $name($($arguments)*) $(-> $result)? {
            // SAFETY: the caller's promise: the CPU has the instructions, and what is read or
            // written lies at the addresses.
            unsafe { $value }
        }
    )* };
}
#[cfg(target_arch = "x86_64")]
pub(super) use inlined;
