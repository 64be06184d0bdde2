//! MPI through its standard ABI (MPI 5.0, chapter 20): the functions used here, found at run time.
//!
//! Handles are pointers whose predefined values the standard fixes, so that one binary works with
//! every library that has this ABI: MPICH from 5.0 on, Open MPI from 6.0 on. Functions are those
//! with large counts (`_c`, MPI 4.0).

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::{
    env,
    ffi::{c_char, c_int, c_void},
    path::{Path, PathBuf},
};

/// The library's name, fixed by the standard.
const FILE: &str = "libmpi_abi.so.1";

/// A full path to it, for whoever keeps it elsewhere.
const PATH_VARIABLE: &str = "FIZEAU_MPI";

/// A handle.
pub type Handle = usize;

/// Predefined handles and numbers, from the standard's table A.
pub const COMM_WORLD: Handle = 0x101;
/// IEEE binary32.
pub const FLOAT: Handle = 0x210;
/// IEEE binary64.
pub const DOUBLE: Handle = 0x214;
/// Bytes that nobody interprets.
pub const BYTE: Handle = 0x247;
/// 64-bit integer with a sign.
pub const INT64: Handle = 0x258;
/// Addition.
pub const SUM: Handle = 0x21;
/// The larger.
pub const MAX: Handle = 0x23;
/// Errors are returned and end nothing.
pub const ERRORS_RETURN: Handle = 0x143;
/// The calling thread alone calls MPI.
pub const THREAD_FUNNELED: c_int = 1024;
/// In place of a buffer: it is the other one.
pub const IN_PLACE: usize = 1;
/// Longest texts of any library.
pub const TEXT_MAX: usize = 8192;

type Count = i64;
type Buffer = usize;

macro_rules! table {
    ($($field:ident = $symbol:literal ($($argument:ty),* $(,)?);)+) => {
        /// The functions.
        pub struct Table {
            $(
                #[doc = $symbol]
                pub $field: unsafe extern "C" fn($($argument),*) -> c_int,
            )+
        }

        impl Table {
            fn of(library: &Library) -> Result<Table, String> {
                Ok(Table { $($field: {
                    // SAFETY: the standard gives the function of this name this signature.
                    let found = unsafe { library.get(concat!($symbol, "\0").as_bytes()) };
                    *found.map_err(|_| format!("it has no {}", $symbol))?
                },)+ })
            }
        }
    };
}

table! {
    init = "MPI_Init_thread" (*mut c_int, *mut c_void, c_int, *mut c_int);
    finalize = "MPI_Finalize" ();
    set_handler = "MPI_Comm_set_errhandler" (Handle, Handle);
    rank = "MPI_Comm_rank" (Handle, *mut c_int);
    size = "MPI_Comm_size" (Handle, *mut c_int);
    library_version = "MPI_Get_library_version" (*mut c_char, *mut c_int);
    error_string = "MPI_Error_string" (c_int, *mut c_char, *mut c_int);
    barrier = "MPI_Barrier" (Handle);
    all_reduce = "MPI_Allreduce_c" (Buffer, Buffer, Count, Handle, Handle, Handle);
    reduce = "MPI_Reduce_c" (Buffer, Buffer, Count, Handle, Handle, c_int, Handle);
    reduce_scatter = "MPI_Reduce_scatter_block_c" (Buffer, Buffer, Count, Handle, Handle, Handle);
    broadcast = "MPI_Bcast_c" (Buffer, Count, Handle, c_int, Handle);
    all_gather = "MPI_Allgather_c" (Buffer, Count, Handle, Buffer, Count, Handle, Handle);
    all_gather_v = "MPI_Allgatherv_c"
        (Buffer, Count, Handle, Buffer, *const Count, *const isize, Handle, Handle);
    gather = "MPI_Gather_c" (Buffer, Count, Handle, Buffer, Count, Handle, c_int, Handle);
    scatter = "MPI_Scatter_c" (Buffer, Count, Handle, Buffer, Count, Handle, c_int, Handle);
    all_to_all = "MPI_Alltoall_c" (Buffer, Count, Handle, Buffer, Count, Handle, Handle);
    all_to_all_v = "MPI_Alltoallv_c"
        (Buffer, *const Count, *const isize, Handle, Buffer, *const Count, *const isize, Handle,
            Handle);
    send_receive = "MPI_Sendrecv_c"
        (Buffer, Count, Handle, c_int, c_int, Buffer, Count, Handle, c_int, c_int, Handle,
            *mut c_void);
}

/// Where the library may be, in the order in which it is looked for.
fn places() -> Vec<PathBuf> {
    if let Some(path) = env::var_os(PATH_VARIABLE) {
        return vec![path.into()];
    }
    // Beside the launcher, which is where Python's wheels and private installations have it.
    let beside = launcher().map(|launcher| library_of(&launcher));
    [Some(PathBuf::from(FILE)), beside].into_iter().flatten().collect()
}

fn library_of(launcher: &Path) -> PathBuf {
    launcher.parent().unwrap_or(Path::new("")).join("../lib").join(FILE)
}

/// The first `mpiexec` of the PATH that has the library beside it.
pub fn launcher() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let mut launchers = env::split_paths(&path).map(|folder| folder.join("mpiexec"));
    launchers.find(|launcher| launcher.exists() && library_of(launcher).exists())
}

/// Opens the library.
///
/// # Errors
/// In words: where it was looked for, and why it could not be opened.
pub fn open() -> Result<Table, String> {
    let mut reasons = Vec::new();
    for place in places() {
        // SAFETY: an MPI library's initialisers set up no more than itself. Its symbols are
        // global, since it opens parts of itself that look for them.
        match unsafe { Library::open(Some(&place), RTLD_NOW | RTLD_GLOBAL) } {
            Ok(library) => {
                let table = Table::of(&library);
                // Never closed: MPI may leave threads and handlers behind.
                std::mem::forget(library);
                return table.map_err(|why| format!("{}: {why}", place.display()));
            }
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                reasons.push(cause.unwrap_or_else(|| error.to_string()));
            }
        }
    }
    Err(reasons.join("; "))
}
