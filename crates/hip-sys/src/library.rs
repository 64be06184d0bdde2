//! Opens a library by paths or names that the caller gives.

use libloading::os::unix::{Library as Opened, RTLD_LOCAL, RTLD_NOW};
use std::{
    error::Error as _,
    ffi::{OsStr, c_void},
    path::{Path, PathBuf},
    ptr,
};

/// No library could be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no library could be opened: {}", spelled(.tried))]
pub struct OpenError {
    /// Each path or name that was tried, with the loader's words about it.
    pub tried: Vec<(PathBuf, String)>,
}

fn spelled(tried: &[(PathBuf, String)]) -> String {
    let each = tried.iter().map(|(path, words)| format!("{}: {words}", path.display()));
    match tried.is_empty() {
        true => "no path was given".into(),
        false => each.collect::<Vec<_>>().join("; "),
    }
}

/// An opened library. Dropping it does not close it: HIP starts threads that outlive any handle.
#[derive(Debug)]
pub struct Library {
    opened: std::mem::ManuallyDrop<Opened>,
    path: PathBuf,
}

impl Library {
    /// Opens the first of `paths` that the loader accepts. Each is an absolute path, or a file name
    /// that the loader searches for by its own rules.
    ///
    /// The symbols stay local to the handle, so that several versions can be open at once.
    ///
    /// # Errors
    ///
    /// [`OpenError`] with the loader's words for every path, where none can be opened.
    pub fn open<P: AsRef<OsStr>>(paths: impl IntoIterator<Item = P>) -> Result<Library, OpenError> {
        let mut tried = Vec::new();
        for path in paths {
            let path = Path::new(path.as_ref());
            // A loader waits without end for what a FIFO never gives.
            if path.is_absolute() && path.exists() && !path.is_file() {
                tried.push((path.to_owned(), "it is not a plain file".into()));
                continue;
            }
            // SAFETY: the initialisers of AMD's libraries touch nothing of this program.
            match unsafe { Opened::open(Some(path), RTLD_NOW | RTLD_LOCAL) } {
                Ok(opened) => {
                    let opened = std::mem::ManuallyDrop::new(opened);
                    return Ok(Library { opened, path: path.to_owned() });
                }
                Err(error) => {
                    let words = error.source().map(ToString::to_string);
                    tried.push((path.to_owned(), words.unwrap_or_else(|| error.to_string())));
                }
            }
        }
        Err(OpenError { tried })
    }

    /// The path or name that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The address of a symbol; null where the library does not export it.
    pub fn address(&self, symbol: &str) -> *const c_void {
        // SAFETY: only the address is taken; whoever uses it states its type.
        let found = unsafe { self.opened.get::<*const c_void>(symbol.as_bytes()) };
        found.map_or(ptr::null(), |symbol| symbol.into_raw().cast_const())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_not_there_or_no_library_is_an_error_with_the_loaders_words() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let paths = ["/nowhere/libamdhip64.so.6", "libnobody-has-this.so.1", file];
        let error = Library::open(paths).expect_err("none of them is a library");
        let seen: Vec<_> = error.tried.iter().map(|(path, _)| path.as_path()).collect();
        assert_eq!(seen, paths.map(Path::new));
        assert!(error.tried[0].1.contains("No such file"), "{error}");
        assert!(error.tried[2].1.contains("invalid ELF header"), "{error}");
        assert!(error.to_string().contains("/nowhere/libamdhip64.so.6: "), "{error}");
        let error = Library::open::<&str>([]).expect_err("nothing was given");
        assert_eq!(error.to_string(), "no library could be opened: no path was given");
    }

    #[test]
    fn the_first_path_that_opens_is_taken_and_symbols_are_found_in_it() {
        let paths = ["/nowhere/libc.so.6", "libc.so.6"];
        let library = Library::open(paths).expect("there is a C library");
        assert_eq!(library.path(), Path::new("libc.so.6"));
        assert!(!library.address("abs").is_null());
        assert!(library.address("hipInit").is_null());
    }
}
