//! The opened library.

use crate::{
    table::Table,
    types::{self, DataType, Error, SUCCESS, UniqueId, Version},
};
use libloading::os::unix::{Library as Opened, RTLD_LOCAL, RTLD_NOW};
use std::{
    error::Error as _,
    ffi::{OsStr, c_int, c_void},
    path::{Path, PathBuf},
    ptr,
    sync::Arc,
};

/// An opened `libnccl.so.2` or `librccl.so.1`. It stays open until the process ends: it starts
/// threads that outlive any handle.
pub struct Library {
    pub(crate) table: Table,
    version: Version,
    path: PathBuf,
}

impl Library {
    /// The file names of both vendors' libraries, without and with AMD's version.
    pub const NCCL: &'static [&'static str] = &["libnccl.so.2"];
    /// AMD's.
    pub const RCCL: &'static [&'static str] = &["librccl.so.1", "librccl.so"];

    /// Opens the first of these that can be opened: absolute paths, or names that the loader
    /// knows where to look for. Files that are not there are skipped.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] with the loader's words where none can be opened; [`Error::NoSymbol`]
    /// or [`Error::Code`] where the one that was opened does not tell its version.
    pub fn open<P: AsRef<OsStr>>(paths: impl IntoIterator<Item = P>) -> Result<Library, Error> {
        let mut refused = Vec::new();
        for path in paths {
            let path = Path::new(path.as_ref());
            if path.is_absolute() && !path.exists() {
                continue;
            }
            // A loader waits without end for what a FIFO never gives.
            if path.is_absolute() && !path.is_file() {
                refused.push(format!("{}: it is not a plain file", path.display()));
                continue;
            }
            // SAFETY: initialisers of these libraries touch nothing of this program. Local: an
            // NCCL and an RCCL in one process have the same names for different functions.
            match unsafe { Opened::open(Some(path), RTLD_NOW | RTLD_LOCAL) } {
                Ok(opened) => return Library::of(opened, path),
                Err(error) => {
                    let cause = error.source().map(ToString::to_string);
                    refused.push(cause.unwrap_or_else(|| error.to_string()));
                }
            }
        }
        Err(Error::NotFound(match refused.is_empty() {
            true => "none of the files is there".into(),
            false => refused.join("; "),
        }))
    }

    fn of(opened: Opened, path: &Path) -> Result<Library, Error> {
        let table = Table::of(&opened);
        std::mem::forget(opened);
        let mut library = Library { table, version: Version::new(0, 0, 0), path: path.to_owned() };
        let mut code: c_int = 0;
        let version = library.get(table.version, "ncclGetVersion")?;
        // SAFETY: the pointer is valid.
        library.said("ncclGetVersion", unsafe { version(&raw mut code) })?;
        library.version = Version::of(code);
        Ok(library)
    }

    /// Its version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Where it was found.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it has all_to_all, gather and scatter of its own, in this order.
    pub fn native(&self) -> [bool; 3] {
        [self.table.all_to_all.is_some(), self.table.gather.is_some(), self.table.scatter.is_some()]
    }

    /// Whether buffers can be registered with it, as they are and in windows.
    pub fn registers(&self) -> [bool; 2] {
        [self.table.register.is_some(), self.table.window_register.is_some()]
    }

    /// Makes a new id, for one rank to give to all.
    ///
    /// # Errors
    ///
    /// Whatever the library says: it looks for a network interface.
    pub fn unique_id(&self) -> Result<UniqueId, Error> {
        let mut id = UniqueId([0; UniqueId::SIZE]);
        let function = self.get(self.table.unique_id, "ncclGetUniqueId")?;
        // SAFETY: the pointer is valid.
        self.said("ncclGetUniqueId", unsafe { function(&raw mut id) })?;
        Ok(id)
    }

    /// Opens communicators on devices by their ordinals, and closes them again: whether the
    /// library works with the driver.
    ///
    /// # Errors
    ///
    /// Whatever the library says.
    pub fn try_devices(&self, ordinals: &[c_int]) -> Result<(), Error> {
        let init_all = self.get(self.table.init_all, "ncclCommInitAll")?;
        let destroy = self.get(self.table.destroy, "ncclCommDestroy")?;
        let mut opened = vec![ptr::null_mut(); ordinals.len()];
        // SAFETY: both lists are as long as is said; each communicator is destroyed once.
        unsafe {
            let code = init_all(opened.as_mut_ptr(), ordinals.len() as c_int, ordinals.as_ptr());
            self.said("ncclCommInitAll", code)?;
            for comm in opened {
                self.said("ncclCommDestroy", destroy(comm))?;
            }
        }
        Ok(())
    }

    /// Device memory that windows can be made of.
    ///
    /// # Errors
    ///
    /// Whatever the library says; older ones have no such function.
    pub fn allocate(self: &Arc<Library>, bytes: usize) -> Result<Memory, Error> {
        let allocate = self.get(self.table.memory_allocate, "ncclMemAlloc")?;
        let mut address = ptr::null_mut();
        // SAFETY: the pointer is valid.
        self.said("ncclMemAlloc", unsafe { allocate(&raw mut address, bytes) })?;
        Ok(Memory { library: Arc::clone(self), address })
    }

    /// Whether it knows an element type.
    ///
    /// # Errors
    ///
    /// [`Error::TooOld`] where it does not.
    pub fn knows(&self, data: DataType) -> Result<(), Error> {
        let (needed, version) = (data.since(), self.version);
        if version < needed { Err(Error::TooOld { data, needed, version }) } else { Ok(()) }
    }

    pub(crate) fn get<F: Copy>(&self, function: Option<F>, call: &'static str) -> Result<F, Error> {
        function.ok_or(Error::NoSymbol { call, version: self.version })
    }

    /// An error for every code but success.
    pub(crate) fn said(&self, call: &'static str, code: c_int) -> Result<(), Error> {
        if code == SUCCESS {
            return Ok(());
        }
        Err(self.error(call, code, ptr::null_mut()))
    }

    /// An error in the library's words, with what it kept of the last one.
    pub(crate) fn error(&self, call: &'static str, code: c_int, comm: *mut c_void) -> Error {
        // SAFETY: both functions take anything, and give null or a text that ends with a zero.
        let (words, detail) = unsafe {
            let words = self.table.error_string.map(|function| types::text(function(code)));
            (words, self.table.last_error.map(|function| types::text(function(comm))))
        };
        let words = words.filter(|words| !words.is_empty()).unwrap_or_else(|| "no words".into());
        let detail = detail.map(|detail| detail.trim().replace('\n', "; "));
        let detail = detail.filter(|detail| !detail.is_empty());
        let detail = detail.map(|detail| format!(": {detail}")).unwrap_or_default();
        Error::Code { call, code, words, detail }
    }
}

/// Device memory from the library, freed when dropped.
pub struct Memory {
    library: Arc<Library>,
    address: *mut c_void,
}

impl Memory {
    /// Where it is.
    pub fn address(&self) -> *mut c_void {
        self.address
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(free) = self.library.table.memory_free {
            // SAFETY: allocated once, freed once. A refusal here helps nobody.
            let _ = unsafe { free(self.address) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_or_no_library_is_an_error() {
        let none = Library::open(["/nowhere/libnccl.so.2"]).map(|_| ());
        assert_eq!(none, Err(Error::NotFound("none of the files is there".into())));
        let error = Library::open(["libnobody-has-this.so.2"]).map(|_| ()).expect_err("nowhere");
        assert!(error.to_string().contains("libnobody-has-this.so.2"), "{error}");
        let other = Library::open(["libc.so.6"]).map(|_| ()).expect_err("another library");
        assert!(other.to_string().contains("has no ncclGetVersion"), "{other}");
    }
}
