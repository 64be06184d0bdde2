//! Vendor libraries, found and opened at run time, and tables of their functions.
//!
//! Nothing of a vendor is linked. A library is looked for in the folders of `FIZEAU_LIBRARY_PATH`
//! and nowhere else where that is set; else by the loader's own rules, then in the folders that
//! vendors install into, last in those of Python packages. One that is not there is an answer with
//! its remedy, never a panic; so is a symbol that an older one does not export, and a code that
//! this program does not know: codes stay integers, since a Rust enumeration of an unlisted value
//! is undefined behaviour.

#![expect(unsafe_code, reason = "libraries are opened and their functions called by pointer")]

use super::{DeviceError, Result, chain, trust};
use fizeau_record::file;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::{
    env,
    ffi::{OsString, c_void},
    fs, io,
    mem::ManuallyDrop,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

/// The folders to look into, and no others, separated by colons.
pub const PATH_VARIABLE: &str = "FIZEAU_LIBRARY_PATH";

/// A library as it is looked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// File names with their version, newest first: never the bare name, which may be a
    /// toolkit's stub for linking.
    pub files: &'static [&'static str],
    /// Other libraries' files in the same folder that have to be opened before it, by the start
    /// of their names.
    pub before: &'static str,
    /// Folders beside the usual ones.
    pub folders: &'static [&'static str],
    /// What brings it.
    pub remedy: &'static str,
}

/// An opened library. Never closed: drivers start threads that outlive any handle.
pub struct Opened {
    library: ManuallyDrop<Library>,
    path: PathBuf,
}

impl Opened {
    /// Where it was found, for a crate that opens it again.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The address of the first of these symbols that is exported; null where none is.
    pub fn address(&self, symbols: &[&str]) -> *const c_void {
        let found = symbols.iter().find_map(|symbol| {
            // SAFETY: the address is not used here; whoever does states its type.
            unsafe { self.library.get::<*const c_void>(symbol.as_bytes()).ok() }
        });
        found.map_or(std::ptr::null(), |symbol| symbol.into_raw().cast_const())
    }
}

/// Opens a library.
///
/// # Errors
///
/// [`DeviceError::Missing`] where it is nowhere; [`DeviceError::Broken`] with the loader's words
/// where it is there and the loader refuses it.
pub fn open(wanted: &Wanted) -> Result<Opened> {
    let mut refused: Option<(PathBuf, String)> = None;
    for path in candidates(wanted) {
        if path.is_absolute() && !path.exists() {
            continue;
        }
        if let Err(error) = file::loadable(&path).and_then(|()| chosen(&path)) {
            let words = format!("{}: {error}", path.display());
            refused.get_or_insert((path, words));
            continue;
        }
        open_before(&path, wanted.before);
        // SAFETY: initialisers of drivers and toolkit libraries touch nothing of this program.
        match unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) } {
            Ok(library) => return Ok(Opened { library: ManuallyDrop::new(library), path }),
            Err(error) => {
                let words = chain(&error);
                if let Some(remedy) = own_limit(&words) {
                    let why = format!("{} cannot be looked for: {words}: {remedy}", path.display());
                    return Err(DeviceError::Driver(why));
                }
                if path.is_absolute() || !is_nowhere(&words, &path.to_string_lossy()) {
                    refused.get_or_insert((path, words));
                }
            }
        }
    }
    let remedy = wanted.remedy.into();
    Err(match refused {
        Some((path, why)) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            DeviceError::Broken { what: name, why, remedy }
        }
        None => DeviceError::Missing { what: wanted.files.join(" or "), remedy },
    })
}

/// Refuses what root is not to load of the folders that [`PATH_VARIABLE`] chooses. Those that the
/// loader and the vendors have are the administrator's.
fn chosen(path: &Path) -> io::Result<()> {
    match env::var_os(PATH_VARIABLE).is_some_and(|folders| !folders.is_empty()) {
        true => trust::of_root(path),
        false => Ok(()),
    }
}

/// Opens one file, which a user names.
///
/// # Errors
///
/// In the loader's words.
pub fn open_file(path: &Path) -> Result<Opened, String> {
    let words = |error: &dyn std::error::Error| format!("{}: {}", path.display(), chain(error));
    // By a whole path: the loader looks for a bare name elsewhere.
    let whole = fs::canonicalize(path).map_err(|error| words(&error))?;
    file::loadable(&whole).map_err(|error| words(&error))?;
    // SAFETY: what its initialisers do is the user's, in a process that measures nothing else.
    let opened = unsafe { Library::open(Some(&whole), RTLD_NOW | RTLD_LOCAL) };
    let library = opened.map_err(|error| words(&error))?;
    Ok(Opened { library: ManuallyDrop::new(library), path: whole })
}

/// What to do where the loader's words mean a limit of this process, which says nothing of the
/// library.
fn own_limit(words: &str) -> Option<&'static str> {
    let limits = [
        ("Too many open files", "raise the limit on open files (ulimit -n)"),
        ("Cannot allocate memory", "raise the limit on memory (ulimit -v)"),
    ];
    limits.iter().find(|(said, _)| words.contains(said)).map(|(_, remedy)| *remedy)
}

/// Whether the loader's words about a bare name mean that no folder has it. With another library's
/// name the same words mean that the library is there, and one that it needs is not.
pub fn is_nowhere(words: &str, name: &str) -> bool {
    // glibc and musl.
    words.contains(&format!("{name}: cannot open shared object file: No such file"))
        || words.contains(&format!("Error loading shared library {name}: No such file"))
}

/// Opens what the library at `path` will itself open by bare names, so that the loader finds it.
fn open_before(path: &Path, start: &str) {
    let Some(folder) = path.parent().filter(|_| !start.is_empty() && path.is_absolute()) else {
        return;
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_wanted = entry.file_name().to_string_lossy().starts_with(start);
        let path = entry.path();
        if is_wanted && file::loadable(&path).and_then(|()| chosen(&path)).is_ok() {
            // SAFETY: as in `open`. Not closed: the library that needs it comes next.
            if let Ok(library) = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) } {
                std::mem::forget(library);
            }
        }
    }
}

/// Where a library may be, in order.
pub fn candidates(wanted: &Wanted) -> Vec<PathBuf> {
    let in_folders = |folders: Vec<PathBuf>| -> Vec<PathBuf> {
        folders.iter().flat_map(|folder| files_in(folder, wanted.files)).collect()
    };
    if let Some(path) = env::var_os(PATH_VARIABLE).filter(|path| !path.is_empty()) {
        return in_folders(env::split_paths(&path).collect());
    }
    let mut folders: Vec<PathBuf> = wanted.folders.iter().map(PathBuf::from).collect();
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os);
    folders.extend(homes.map(|home| Path::new(&home).join("lib64")));
    let homes = ["ROCM_PATH", "HIP_PATH"].into_iter().filter_map(env::var_os);
    folders.extend(homes.map(|home| Path::new(&home).join("lib")));
    folders.extend(["/usr/local/nvidia/lib64", "/usr/local/cuda/lib64"].map(PathBuf::from));
    folders.extend(wheels(python_homes()));
    let mut paths: Vec<PathBuf> = wanted.files.iter().map(PathBuf::from).collect();
    paths.extend(in_folders(folders));
    paths
}

/// Files of a folder, as absolute paths: that tells a file that is not there from one that is
/// refused.
fn files_in(folder: &Path, files: &[&str]) -> Vec<PathBuf> {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    files.iter().map(|file| folder.join(file)).collect()
}

/// Where Python may be installed: the active environment first, then that of the `python3` that
/// `PATH` finds.
fn python_homes() -> Vec<PathBuf> {
    let active = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(env::var_os);
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).find(|folder| folder.join("python3").is_file());
    let found = found.and_then(|folder| folder.parent().map(Path::to_owned));
    let local = env::var_os("HOME").map(|home: OsString| Path::new(&home).join(".local"));
    let system = ["/usr/local", "/usr", "/opt/conda"].map(PathBuf::from);
    active.map(PathBuf::from).chain(found).chain(local).chain(system).collect()
}

/// The libraries' folders in the vendors' Python packages (`nvidia/cu13/lib`,
/// `nvidia/cuda_nvrtc/lib`, `_rocm_sdk_core/lib`, `_rocm_sdk_libraries/lib`), newest first.
fn wheels(homes: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for home in homes {
        let pythons = children(&home.join("lib"), |name| name.starts_with("python3"));
        for python in pythons {
            for packages in ["site-packages", "dist-packages"] {
                let vendors = children(&python.join(packages).join("nvidia"), |_| true);
                found.extend(vendors.into_iter().map(|vendor| vendor.join("lib")));
                let parts = children(&python.join(packages), |name| name.starts_with("_rocm_sdk_"));
                found.extend(parts.into_iter().map(|part| part.join("lib")));
            }
        }
    }
    found
}

/// The entries of a folder whose names are kept, last names first.
fn children(folder: &Path, keep: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let kept = entries.filter(|entry| keep(&entry.file_name().to_string_lossy()));
    let mut paths: Vec<PathBuf> = kept.map(|entry| entry.path()).collect();
    paths.sort();
    paths.reverse();
    paths
}

/// Why a call did not do what it was called for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The library does not export the function.
    #[error("the library has no {0}: it is older than this program")]
    NoSymbol(&'static str),
    /// The function's own code.
    #[error("{call} answered {code}")]
    Code {
        /// Which function.
        call: &'static str,
        /// The code, never 0.
        code: i32,
    },
}

/// One function of a library, with the name that errors give it.
#[derive(Clone, Copy, Debug)]
pub struct Symbol<F> {
    /// The name.
    pub name: &'static str,
    /// The function; `None` where the library does not export it.
    pub function: Option<F>,
}

/// An opaque object of a vendor's library.
pub type Handle = *mut c_void;

/// Declares a struct with one [`Symbol`] and one method for each function of a library: by the
/// first symbol of those named that is exported, with every code but 0 an error.
macro_rules! functions {
    (
        $(#[$meta:meta])*
        $table:ident:
        $( $name:ident = $first:literal $(or $other:literal)*
            ( $($arg:ident: $type:ty),* $(,)? ); )*
    ) => {
        $(#[$meta])*
        pub struct $table {
            $(
                #[doc = concat!("`", $first, "`.")]
                pub $name: $crate::library::Symbol<
                    unsafe extern "C" fn($($type),*) -> std::ffi::c_int
                >,
            )*
        }

        #[cfg(test)]
        impl fizeau_signatures::Table for $table {
            fn called() -> Vec<fizeau_signatures::Called> {
                use fizeau_signatures::Function;
                vec![$((
                    vec![$first $(, $other)*],
                    <unsafe extern "C" fn($($type),*) -> std::ffi::c_int>::signature(),
                )),*]
            }
        }

        impl $table {
            /// Looks all functions up.
            pub fn of(library: &$crate::library::Opened) -> $table {
                $table { $( $name: {
                    let address = library.address(&[$first $(, $other)*]);
                    // SAFETY: the vendor's header declares this type for the symbol; a null
                    // pointer is `None` of an optional function.
                    let function = unsafe {
                        std::mem::transmute::<
                            *const std::ffi::c_void,
                            Option<unsafe extern "C" fn($($type),*) -> std::ffi::c_int>,
                        >(address)
                    };
                    $crate::library::Symbol { name: $first, function }
                }, )* }
            }

            $(
                #[doc = concat!("`", $first, "`.")]
                ///
                /// # Safety
                ///
                /// As the vendor documents it.
                pub unsafe fn $name(
                    &self, $($arg: $type),*
                ) -> Result<(), $crate::library::Refusal> {
                    use $crate::library::Refusal;
                    let call = self.$name.name;
                    let function = self.$name.function.ok_or(Refusal::NoSymbol(call))?;
                    // SAFETY: the caller's promise.
                    match unsafe { function($($arg),*) } {
                        0 => Ok(()),
                        code => Err(Refusal::Code { call, code }),
                    }
                }
            )*
        }
    };
}
pub(crate) use functions;

/// Whether what libraries do at the end of the process is waited for.
static ENDS_IN_ORDER: AtomicBool = AtomicBool::new(false);

/// Has [`leave`] wait for what libraries do at the end of the process: MPICH takes leave of its
/// launcher there, which kills all ranks where one of them does not.
pub fn end_in_order() {
    ENDS_IN_ORDER.store(true, Ordering::Relaxed);
}

/// Ends the process at once, with what was written to standard output flushed, and, unless
/// [`end_in_order`] asked for it, without what vendor libraries do at the end of one: OpenBLAS
/// waits there without end for threads of its own that found no memory.
pub fn leave(code: u8) -> ! {
    unsafe extern "C" {
        fn exit(code: std::ffi::c_int) -> !;
        fn _exit(code: std::ffi::c_int) -> !;
    }
    // Its reader may be gone; the exit code says how the run ended all the same.
    let _ = std::io::Write::flush(&mut std::io::stdout());
    // SAFETY: both take any number, and the main thread alone comes here.
    unsafe {
        if ENDS_IN_ORDER.load(Ordering::Relaxed) { exit(code.into()) } else { _exit(code.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOWHERE: Wanted = Wanted {
        files: &["libnobody-has-this.so.1", "libnobody-has-this.so.0"],
        before: "",
        folders: &[],
        remedy: "write it",
    };

    #[test]
    fn a_library_that_is_nowhere_is_an_answer_with_its_mend() {
        let error = open(&NOWHERE).map(|_| ()).expect_err("nobody has it");
        let words = error.to_string();
        assert!(words.contains("libnobody-has-this.so.1 or") && words.contains("write it"));
    }

    #[test]
    fn a_file_that_is_no_library_is_refused_with_the_loaders_words() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("libbroken.so.1");
        fs::write(&path, "not a library").expect("written");
        let folders: &'static [&'static str] =
            vec![&*folder.path().to_string_lossy().into_owned().leak()].leak();
        let wanted = Wanted { files: &["libbroken.so.1"], folders, ..NOWHERE };
        let error = open(&wanted).map(|_| ()).expect_err("it is text");
        let DeviceError::Broken { what, why, remedy } = error else { panic!("{error:?}") };
        assert_eq!((what.as_str(), remedy.as_str()), ("libbroken.so.1", "write it"));
        // The loader's own words, which name the file that it refuses and its reason.
        assert!(why.contains("libbroken.so.1: ") && why.contains("file too short"), "{why}");
    }

    #[test]
    fn a_library_that_lacks_another_one_is_not_nowhere() {
        let words = |name: &str| format!("{name}: cannot open shared object file: No such file or");
        assert!(is_nowhere(&words("libcuda.so.1"), "libcuda.so.1"));
        assert!(!is_nowhere(&words("libnvidia-ptx.so.1"), "libcuda.so.1"));
        assert!(!is_nowhere("libcuda.so.1: file too short", "libcuda.so.1"));
        let musl = "Error loading shared library libcuda.so.1: No such file or directory";
        assert!(is_nowhere(musl, "libcuda.so.1"));
    }

    #[test]
    fn python_packages_are_found_newest_first() {
        let home = tempfile::tempdir().expect("a folder");
        for package in ["cu12", "cu13"] {
            let folder = format!("lib/python3.12/site-packages/nvidia/{package}/lib");
            fs::create_dir_all(home.path().join(folder)).expect("made");
        }
        let found = wheels(vec![home.path().to_owned()]);
        let names: Vec<_> = found.iter().map(|path| path.display().to_string()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(names[0].ends_with("nvidia/cu13/lib") && names[1].ends_with("nvidia/cu12/lib"));
    }

    functions! {
        /// Two functions of the C library, and one that it has not.
        Mathematics:
        absolute = "no_such_abs" or "abs"(value: i32);
        nothing = "no_such_function"();
    }

    #[test]
    fn symbols_fall_back_codes_stay_integers_and_absent_ones_are_errors() {
        let wanted = Wanted { files: &["libc.so.6"], ..NOWHERE };
        let table = Mathematics::of(&open(&wanted).expect("there is a C library"));
        // SAFETY: `abs` takes an integer and gives one.
        unsafe {
            assert_eq!(table.absolute(0), Ok(()));
            let unknown = Refusal::Code { call: "no_such_abs", code: 98_765 };
            assert_eq!(table.absolute(-98_765), Err(unknown));
            assert_eq!(table.nothing(), Err(Refusal::NoSymbol("no_such_function")));
        }
    }
}
