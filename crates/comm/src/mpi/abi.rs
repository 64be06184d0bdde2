//! MPI's functions, found at run time, by either of two ABIs.
//!
//! The standard one (MPI 5.0, chapter 20; MPICH from 5.0 on, Intel MPI from 2021.17 on, Open MPI
//! from 6.0 on) fixes the values of handles, and its functions take large counts (`_c`, MPI 4.0).
//! In Open MPI's own, that of 4.x and 5.x, handles are the addresses of objects that the library
//! exports, and counts are C's `int`. One binary works with every library that has one of the two.

use fizeau_record::file;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::{
    env,
    ffi::{c_char, c_int, c_void},
    path::{Path, PathBuf},
};

/// The library's name, fixed by the standard.
const STANDARD: &str = "libmpi_abi.so.1";

/// The library of Open MPI 4 and 5.
const OPEN_MPI: &str = "libmpi.so.40";

/// A full path to one of them, for whoever keeps it elsewhere.
const PATH_VARIABLE: &str = "FIZEAU_MPI";

/// A handle: a number or an address, which the library alone understands.
pub type Handle = usize;

/// In place of a buffer: it is the other one. Of both ABIs.
pub const IN_PLACE: usize = 1;
/// Longest texts of any library.
pub const TEXT_MAX: usize = 8192;

/// Predefined handles and numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Handles {
    /// All ranks.
    pub world: Handle,
    /// IEEE binary32.
    pub float: Handle,
    /// IEEE binary64.
    pub double: Handle,
    /// 8-bit integer with a sign.
    pub int8: Handle,
    /// Bytes that nobody interprets.
    pub byte: Handle,
    /// Addition.
    pub sum: Handle,
    /// The larger.
    pub max: Handle,
    /// Errors are returned and end nothing.
    pub errors_return: Handle,
    /// The calling thread alone calls MPI.
    pub funneled: c_int,
}

impl Handles {
    /// Those of the standard's table A.
    pub const STANDARD: Handles = Handles {
        world: 0x101,
        float: 0x210,
        double: 0x214,
        int8: 0x240,
        byte: 0x247,
        sum: 0x21,
        max: 0x23,
        errors_return: 0x143,
        funneled: 1024,
    };

    /// Those of Open MPI's own ABI: `mpi.h` makes each the address of an object.
    fn of_open_mpi(library: &Library) -> Result<Handles, String> {
        let address = |name: &str| {
            // SAFETY: only the address is taken.
            let found = unsafe { library.get::<*mut c_void>(name.as_bytes()) };
            let object = found.map_err(|_| format!("it has no {name}"))?;
            Ok::<Handle, String>(object.as_raw_ptr() as Handle)
        };
        Ok(Handles {
            world: address("ompi_mpi_comm_world")?,
            float: address("ompi_mpi_float")?,
            double: address("ompi_mpi_double")?,
            int8: address("ompi_mpi_int8_t")?,
            byte: address("ompi_mpi_byte")?,
            sum: address("ompi_mpi_op_sum")?,
            max: address("ompi_mpi_op_max")?,
            errors_return: address("ompi_mpi_errors_return")?,
            funneled: 1,
        })
    }
}

/// How a library counts elements.
pub trait Count: Copy + Default + 'static {
    /// How it places parts of a buffer.
    type Place: Copy + Default;
    /// What the names of functions that count so end in.
    const SUFFIX: &'static str;
    /// A count; none where it is too large.
    fn of(number: u64) -> Option<Self>;
    /// A place; none where it is too far.
    fn place(number: u64) -> Option<Self::Place>;
}

impl Count for i64 {
    type Place = isize;
    const SUFFIX: &'static str = "_c";
    fn of(number: u64) -> Option<i64> {
        number.try_into().ok()
    }
    fn place(number: u64) -> Option<isize> {
        number.try_into().ok()
    }
}

impl Count for i32 {
    type Place = i32;
    const SUFFIX: &'static str = "";
    fn of(number: u64) -> Option<i32> {
        number.try_into().ok()
    }
    fn place(number: u64) -> Option<i32> {
        number.try_into().ok()
    }
}

type Buffer = usize;

macro_rules! table {
    ($($field:ident = $symbol:literal $($counted:ident)? ($($argument:ty),* $(,)?);)+) => {
        /// The functions of a library that counts in `C`.
        pub struct Table<C: Count> {
            $(
                #[doc = $symbol]
                pub $field: unsafe extern "C" fn($($argument),*) -> c_int,
            )+
        }

        impl<C: Count> Table<C> {
            fn of(library: &Library) -> Result<Table<C>, String> {
                Ok(Table { $($field: {
                    let name = format!("{}{}", $symbol, [$(table!(@$counted),)? ""][0]);
                    // SAFETY: the standard gives the function of this name this signature.
                    let found = unsafe { library.get(name.as_bytes()) };
                    *found.map_err(|_| format!("it has no {name}"))?
                },)+ })
            }
        }
    };
    (@counted) => { C::SUFFIX };
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
    all_reduce = "MPI_Allreduce" counted (Buffer, Buffer, C, Handle, Handle, Handle);
    reduce = "MPI_Reduce" counted (Buffer, Buffer, C, Handle, Handle, c_int, Handle);
    reduce_scatter = "MPI_Reduce_scatter_block" counted
        (Buffer, Buffer, C, Handle, Handle, Handle);
    broadcast = "MPI_Bcast" counted (Buffer, C, Handle, c_int, Handle);
    all_gather = "MPI_Allgather" counted (Buffer, C, Handle, Buffer, C, Handle, Handle);
    all_gather_v = "MPI_Allgatherv" counted
        (Buffer, C, Handle, Buffer, *const C, *const C::Place, Handle, Handle);
    gather = "MPI_Gather" counted (Buffer, C, Handle, Buffer, C, Handle, c_int, Handle);
    scatter = "MPI_Scatter" counted (Buffer, C, Handle, Buffer, C, Handle, c_int, Handle);
    all_to_all = "MPI_Alltoall" counted (Buffer, C, Handle, Buffer, C, Handle, Handle);
    all_to_all_v = "MPI_Alltoallv" counted
        (Buffer, *const C, *const C::Place, Handle, Buffer, *const C, *const C::Place, Handle,
            Handle);
    send_receive = "MPI_Sendrecv" counted
        (Buffer, C, Handle, c_int, c_int, Buffer, C, Handle, c_int, c_int, Handle, *mut c_void);
}

/// An opened library.
pub enum Opened {
    /// By the standard ABI.
    Standard(Table<i64>),
    /// By Open MPI's own.
    OpenMpi(Table<i32>, Handles),
}

/// Where a library may be, in the order in which they are looked for.
fn places() -> Vec<PathBuf> {
    if let Some(path) = env::var_os(PATH_VARIABLE) {
        return vec![path.into()];
    }
    let mut files = [STANDARD, OPEN_MPI];
    // What Open MPI has started finds the others by Open MPI alone, whatever else is installed.
    if env::var_os("OMPI_COMM_WORLD_SIZE").is_some() {
        files.reverse();
    }
    let mut places = Vec::new();
    for file in files {
        places.push(PathBuf::from(file));
        // Beside the launcher, where Python's wheels and private installations have it.
        places.extend(on_path().filter_map(|launcher| library_of(&launcher, file)));
    }
    places
}

/// Every `mpiexec` of the PATH.
fn on_path() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    folders.into_iter().map(|folder| folder.join("mpiexec")).filter(|launcher| launcher.exists())
}

/// The library of this name that was installed with a launcher.
fn library_of(launcher: &Path, file: &str) -> Option<PathBuf> {
    let triplet = format!("{}-linux-gnu", env::consts::ARCH);
    let folders = ["../lib".to_owned(), "../lib64".to_owned(), format!("../lib/{triplet}")];
    let above = launcher.parent().unwrap_or(Path::new(""));
    folders.iter().map(|folder| above.join(folder).join(file)).find(|path| path.exists())
}

/// The first `mpiexec` of the PATH that has a library beside it.
pub fn launcher() -> Option<PathBuf> {
    let has = |launcher: &PathBuf| {
        [STANDARD, OPEN_MPI].iter().any(|file| library_of(launcher, file).is_some())
    };
    on_path().find(has)
}

/// Opens a library.
///
/// # Errors
/// In words: where it was looked for, and why it could not be opened.
pub fn open() -> Result<Opened, String> {
    let mut reasons = Vec::new();
    for place in places() {
        if let Err(error) = file::loadable(&place) {
            reasons.push(format!("{}: {error}", place.display()));
            continue;
        }
        // SAFETY: an MPI library's initialisers set up no more than itself. Its symbols are
        // global, since it opens parts of itself that look for them.
        match unsafe { Library::open(Some(&place), RTLD_NOW | RTLD_GLOBAL) } {
            Ok(library) => {
                let opened = opened(&library, &place);
                // Never closed: MPI may leave threads and handlers behind.
                std::mem::forget(library);
                return opened.map_err(|why| format!("{}: {why}", place.display()));
            }
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                reasons.push(cause.unwrap_or_else(|| error.to_string()));
            }
        }
    }
    Err(reasons.join("; "))
}

/// By its name, which the standard fixes: Open MPI's library of the standard ABI depends on one
/// that exports the objects of its own.
fn opened(library: &Library, place: &Path) -> Result<Opened, String> {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with("libmpi_abi") {
        return Table::of(library).map(Opened::Standard);
    }
    let handles = Handles::of_open_mpi(library)
        .map_err(|why| format!("neither the standard ABI nor Open MPI's own ({why})"))?;
    Ok(Opened::OpenMpi(Table::of(library)?, handles))
}
