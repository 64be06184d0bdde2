//! NVRTC and hipRTC: kernels compiled from their text where no binary of this build fits, and kept
//! on disk.

#![expect(unsafe_code, reason = "NVRTC is a C library")]

use super::cache::{Cache, Key};
use crate::{
    DeviceError, Result,
    library::{self, Opened, Refusal, Wanted, functions},
};
use fizeau_domain::spec::STUB;
use std::{
    ffi::{CStr, CString, c_char, c_int},
    sync::{Arc, OnceLock},
};

type Program = *mut std::ffi::c_void;

functions! {
    /// The functions of `libnvrtc.so` that are called.
    Functions:
    version = "nvrtcVersion"(major: *mut c_int, minor: *mut c_int);
    create = "nvrtcCreateProgram"(
        program: *mut Program, source: *const c_char, name: *const c_char, headers: c_int,
        texts: *const *const c_char, names: *const *const c_char,
    );
    compile = "nvrtcCompileProgram"(
        program: Program, count: c_int, options: *const *const c_char,
    );
    log_size = "nvrtcGetProgramLogSize"(program: Program, size: *mut usize);
    log = "nvrtcGetProgramLog"(program: Program, text: *mut c_char);
    cubin_size = "nvrtcGetCUBINSize"(program: Program, size: *mut usize);
    cubin = "nvrtcGetCUBIN"(program: Program, bytes: *mut c_char);
    ptx_size = "nvrtcGetPTXSize"(program: Program, size: *mut usize);
    ptx = "nvrtcGetPTX"(program: Program, bytes: *mut c_char);
    destroy = "nvrtcDestroyProgram"(program: *mut Program);
    stub = "fizeau_stub_driver"();
}

/// Largest image that is taken from a compiler, in bytes: the kernels of one file have less than a
/// MiB. A length that the library never set must not become an allocation, or wrap to a short one.
const IMAGE_MAX: usize = 1 << 30;

/// Longest log that is taken from a compiler, in bytes.
const LOG_MAX: usize = 64 << 20;

/// An opened NVRTC.
pub struct Compiler {
    dialect: &'static CompilerDialect,
    functions: Functions,
    version: (i32, i32),
}

/// What is compiled.
#[derive(Clone, Copy, Debug)]
pub struct Source<'s> {
    /// The kernel's file, for messages.
    pub name: &'s str,
    /// Its text.
    pub text: &'s str,
    /// Files that it may include: name and text.
    pub headers: &'s [(&'s str, &'s str)],
    /// For which target, such as `sm_90a`; `compute_80` for PTX, which the driver compiles.
    pub target: &'s str,
}

/// A compiler that is opened when it is first needed, once in a process.
pub struct LazyCompiler {
    dialect: CompilerDialect,
    opened: OnceLock<Result<Arc<Compiler>>>,
}

impl LazyCompiler {
    /// One that is not opened yet.
    pub const fn new(dialect: CompilerDialect) -> LazyCompiler {
        LazyCompiler { dialect, opened: OnceLock::new() }
    }

    /// The compiler.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Missing`] where there is none.
    pub fn get(&'static self) -> Result<Arc<Compiler>> {
        self.opened.get_or_init(|| Compiler::open(&self.dialect).map(Arc::new)).clone()
    }

    /// Its name, such as `NVRTC`.
    pub fn name(&self) -> &'static str {
        self.dialect.name
    }

    /// The options of a compilation.
    #[cfg(test)]
    pub fn options(&self, source: &Source<'_>) -> [String; 2] {
        self.dialect.options(source)
    }
}

/// Those of these compilers that there are, in the same order.
///
/// # Errors
///
/// [`DeviceError::Missing`] with all names and the remedy of the first where there is none.
pub fn found(compilers: &[&'static LazyCompiler]) -> Result<Vec<Arc<Compiler>>> {
    let (mut found, mut absent) = (Vec::new(), Vec::new());
    for compiler in compilers {
        match compiler.get() {
            Ok(opened) => found.push(opened),
            Err(DeviceError::Missing { what, remedy }) => absent.push((what, remedy)),
            Err(DeviceError::Broken { what, why, remedy }) => {
                absent.push((format!("a usable {what} ({why})"), remedy));
            }
            Err(error) => return Err(error),
        }
    }
    match (found.is_empty(), absent.first()) {
        (true, Some((_, remedy))) => {
            let what: Vec<&str> = absent.iter().map(|(what, _)| what.as_str()).collect();
            Err(DeviceError::Missing { what: what.join(" or "), remedy: remedy.clone() })
        }
        _ => Ok(found),
    }
}

/// What differs between compilers that speak the same language.
pub struct CompilerDialect {
    /// As people call it.
    pub name: &'static str,
    /// The library.
    pub library: Wanted,
    /// Its functions, as the opened library exports them.
    pub functions: fn(&Opened) -> Functions,
    /// The option that names a target, up to the target.
    pub target: &'static str,
}

impl CompilerDialect {
    /// The options of a compilation, the same as those that build.rs gives to its compiler.
    pub fn options(&self, source: &Source<'_>) -> [String; 2] {
        [format!("{}{}", self.target, source.target), "-std=c++17".into()]
    }
}

/// Destroys a program at the end of its scope.
struct Held<'c> {
    functions: &'c Functions,
    program: Program,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // SAFETY: the program was created and is destroyed once. What it answers helps nobody.
        let _ = unsafe { self.functions.destroy(&raw mut self.program) };
    }
}

impl Compiler {
    /// Opens one.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Missing`] where there is none.
    pub fn open(dialect: &'static CompilerDialect) -> Result<Compiler> {
        let functions = (dialect.functions)(&library::open(&dialect.library)?);
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the pointers are valid.
        unsafe { functions.version(&raw mut major, &raw mut minor) }
            .map_err(|refusal| DeviceError::Driver(format!("{}: {refusal}", dialect.name)))?;
        Ok(Compiler { dialect, functions, version: (major, minor) })
    }

    /// Its name and version, such as `NVRTC 13.0`.
    pub fn named(&self) -> String {
        format!("{} {}", self.dialect.name, self.spelled())
    }

    /// Its version, such as 13.0.
    pub fn spelled(&self) -> String {
        let (major, minor) = self.version;
        // SAFETY: the stub's mark takes nothing.
        match unsafe { self.functions.stub() } {
            Ok(()) => STUB.into(),
            Err(_) => format!("{major}.{minor}"),
        }
    }

    /// The image of a text that an earlier run compiled, if it was kept.
    pub fn kept(&self, source: &Source<'_>) -> Option<Vec<u8>> {
        let (name, key) = self.kept_as(source);
        Cache::of_user()?.read(&name, &key)
    }

    /// Keeps an image of a text for later runs: one that the driver has loaded.
    pub fn keep(&self, source: &Source<'_>, image: &[u8]) {
        let (name, key) = self.kept_as(source);
        if let Some(cache) = Cache::of_user() {
            cache.keep(&name, &key, image);
        }
    }

    /// Removes what was kept of a text, which the driver refuses.
    pub fn forget(&self, source: &Source<'_>) {
        if let Some(cache) = Cache::of_user() {
            cache.remove(&self.kept_as(source).0);
        }
    }

    /// What an image of a text is kept under: no other text, target or compiler has the
    /// same.
    fn kept_as(&self, source: &Source<'_>) -> (String, Key) {
        let compiler = format!("{} {:?}", self.dialect.name, self.version);
        let options = self.dialect.options(source);
        let headers = source.headers.iter().flat_map(|&(name, text)| [name, text]);
        let texts = [compiler.as_str(), source.text];
        let key =
            Key::of(texts.into_iter().chain(options.iter().map(String::as_str)).chain(headers));
        let (name, target) = (source.name.replace('/', "-"), source.target);
        (format!("{name}-{target}-{}.image", key.short()), key)
    }

    /// A binary for one target, compiled anew.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Launch`] with the compiler's first words where it refuses the text.
    pub fn compile(&self, source: &Source<'_>) -> Result<Vec<u8>> {
        let refused = |why: String| DeviceError::Launch { kernel: source.name.into(), why };
        let failed = |refusal: Refusal| refused(format!("{}: {refusal}", self.dialect.name));
        let c = |text: &str| CString::new(text).map_err(|_| refused("a zero in its text".into()));
        let (text, name) = (c(source.text)?, c(source.name)?);
        let all = |texts: Vec<&str>| texts.into_iter().map(c).collect::<Result<Vec<_>, _>>();
        let names = all(source.headers.iter().map(|header| header.0).collect())?;
        let texts = all(source.headers.iter().map(|header| header.1).collect())?;
        let options = self.dialect.options(source);
        let options = all(options.iter().map(String::as_str).collect())?;
        // Pointers into the texts above, which live as long as this function.
        let pointers = |texts: &[CString]| -> Vec<_> { texts.iter().map(|t| t.as_ptr()).collect() };
        let [name_pointers, text_pointers, option_pointers] =
            [&names, &texts, &options].map(|texts| pointers(texts));
        let mut held = Held { functions: &self.functions, program: std::ptr::null_mut() };
        let f = &self.functions;
        // SAFETY: all texts end with a zero and outlive the calls; counts are those of the arrays;
        // the result is written into as many bytes as the library asks for.
        unsafe {
            f.create(
                &raw mut held.program,
                text.as_ptr(),
                name.as_ptr(),
                texts.len() as c_int,
                text_pointers.as_ptr(),
                name_pointers.as_ptr(),
            )
            .map_err(failed)?;
            let compiled =
                f.compile(held.program, options.len() as c_int, option_pointers.as_ptr());
            if let Err(refusal) = compiled {
                let (name, log) = (self.dialect.name, self.log(held.program));
                return Err(refused(format!("{name}: {refusal}: {log}")));
            }
            let mut size = 0;
            let is_virtual = is_virtual(source.target);
            if is_virtual {
                f.ptx_size(held.program, &raw mut size).map_err(failed)?;
            } else {
                f.cubin_size(held.program, &raw mut size).map_err(failed)?;
            }
            if size > IMAGE_MAX {
                let name = self.dialect.name;
                return Err(refused(format!("{name} says that its image has {size} bytes")));
            }
            let mut bytes = vec![0u8; size];
            let into = bytes.as_mut_ptr().cast();
            if is_virtual { f.ptx(held.program, into) } else { f.cubin(held.program, into) }
                .map_err(failed)?;
            Ok(bytes)
        }
    }

    /// The first error that a compilation named.
    fn log(&self, program: Program) -> String {
        let mut size = 0;
        // SAFETY: as in `compile`.
        let text = unsafe {
            let asked = self.functions.log_size(program, &raw mut size);
            if asked.is_err() || size > LOG_MAX {
                return String::new();
            }
            let mut bytes = vec![0u8; size + 1];
            if self.functions.log(program, bytes.as_mut_ptr().cast()).is_err() {
                return String::new();
            }
            CStr::from_bytes_until_nul(&bytes).map(|text| text.to_string_lossy().into_owned())
        };
        let text = text.unwrap_or_default();
        let error = text.lines().find(|line| line.contains("error"));
        error.or(text.lines().next()).unwrap_or_default().trim().to_owned()
    }
}

/// Whether what is compiled for a target is PTX, which the driver compiles for the device.
fn is_virtual(target: &str) -> bool {
    target.starts_with("compute_")
}
