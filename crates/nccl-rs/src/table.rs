//! The functions by pointer, each there or not.

use crate::types::{Stream, UniqueId};
use libloading::os::unix::Library;
use std::ffi::{c_char, c_int, c_void};

/// `ncclComm_t`.
pub(crate) type Comm = *mut c_void;

/// The oldest `ncclConfig_t`, that of 2.14: newer libraries read no further than its size and take
/// their defaults for the rest. The last word lies where 2.17 put `cgaClusterSize`.
#[repr(C)]
pub(crate) struct Config {
    pub size: usize,
    pub magic: u32,
    pub version: u32,
    pub blocking: c_int,
    pub undefined: c_int,
}

impl Config {
    /// Calls return before they are done.
    pub fn non_blocking() -> Config {
        Config {
            size: size_of::<Config>(),
            magic: 0xcafe_beef,
            version: 21_400,
            blocking: 0,
            undefined: c_int::MIN,
        }
    }
}

macro_rules! table {
    ($($name:ident = $first:literal $(or $other:literal)*
        ($($type:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        #[derive(Clone, Copy)]
        pub(crate) struct Table {
            $( pub $name: Option<unsafe extern "C" fn($($type),*) -> table!(@ $($result)?)>, )*
        }

        #[cfg(test)]
        impl fizeau_signatures::Table for Table {
            fn called() -> Vec<fizeau_signatures::Called> {
                use fizeau_signatures::Function;
                vec![$((
                    vec![$first $(, $other)*],
                    <unsafe extern "C" fn($($type),*) -> table!(@ $($result)?)>::signature(),
                )),*]
            }
        }

        impl Table {
            /// Looks all functions up.
            pub fn of(library: &Library) -> Table {
                Table { $( $name: {
                    // SAFETY: the vendors' headers give the functions of these names this type.
                    let found = [$first $(, $other)*].iter().find_map(|symbol| unsafe {
                        library.get(symbol.as_bytes()).ok().map(|found| *found)
                    });
                    found
                }, )* }
            }
        }
    };
    (@) => { c_int };
    (@ $result:ty) => { $result };
}

table! {
    version = "ncclGetVersion" (*mut c_int);
    unique_id = "ncclGetUniqueId" (*mut UniqueId);
    error_string = "ncclGetErrorString" (c_int) -> *const c_char;
    last_error = "ncclGetLastError" (Comm) -> *const c_char;
    init_config = "ncclCommInitRankConfig" (*mut Comm, c_int, UniqueId, c_int, *mut Config);
    init = "ncclCommInitRank" (*mut Comm, c_int, UniqueId, c_int);
    init_all = "ncclCommInitAll" (*mut Comm, c_int, *const c_int);
    finalize = "ncclCommFinalize" (Comm);
    destroy = "ncclCommDestroy" (Comm);
    abort = "ncclCommAbort" (Comm);
    async_error = "ncclCommGetAsyncError" (Comm, *mut c_int);
    count = "ncclCommCount" (Comm, *mut c_int);
    user_rank = "ncclCommUserRank" (Comm, *mut c_int);
    register = "ncclCommRegister" (Comm, *mut c_void, usize, *mut *mut c_void);
    deregister = "ncclCommDeregister" (Comm, *mut c_void);
    window_register = "ncclCommWindowRegister"
        (Comm, *mut c_void, usize, *mut *mut c_void, c_int);
    window_deregister = "ncclCommWindowDeregister" (Comm, *mut c_void);
    memory_allocate = "ncclMemAlloc" (*mut *mut c_void, usize);
    memory_free = "ncclMemFree" (*mut c_void);
    group_start = "ncclGroupStart" ();
    group_end = "ncclGroupEnd" ();
    all_reduce = "ncclAllReduce"
        (*const c_void, *mut c_void, usize, c_int, c_int, Comm, Stream);
    reduce = "ncclReduce"
        (*const c_void, *mut c_void, usize, c_int, c_int, c_int, Comm, Stream);
    broadcast = "ncclBroadcast" (*const c_void, *mut c_void, usize, c_int, c_int, Comm, Stream);
    all_gather = "ncclAllGather" (*const c_void, *mut c_void, usize, c_int, Comm, Stream);
    reduce_scatter = "ncclReduceScatter"
        (*const c_void, *mut c_void, usize, c_int, c_int, Comm, Stream);
    all_to_all = "ncclAlltoAll" or "ncclAllToAll"
        (*const c_void, *mut c_void, usize, c_int, Comm, Stream);
    gather = "ncclGather" (*const c_void, *mut c_void, usize, c_int, c_int, Comm, Stream);
    scatter = "ncclScatter" (*const c_void, *mut c_void, usize, c_int, c_int, Comm, Stream);
    send = "ncclSend" (*const c_void, usize, c_int, c_int, Comm, Stream);
    receive = "ncclRecv" (*mut c_void, usize, c_int, c_int, Comm, Stream);
}
