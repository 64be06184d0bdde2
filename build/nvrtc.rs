//! NVRTC while fizeau is built: the compiler that the program itself uses at run time. One from
//! Python's package index (`nvidia-cuda-nvrtc-cu12`) needs no toolkit and no host compiler.

#![expect(unsafe_code, reason = "NVRTC is a C library")]

use libloading::Library;
use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    fs,
    path::Path,
    ptr,
};

type Program = *mut c_void;
type Two = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
type One = unsafe extern "C" fn(*mut c_int) -> c_int;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Fetch = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;

/// An opened NVRTC. Never closed: the build ends soon.
pub struct Nvrtc {
    library: &'static Library,
    /// Major and minor version.
    pub release: (u32, u32),
    /// Numbers of the targets that it knows: `80`, `90`.
    pub known: Vec<String>,
}

/// A program, destroyed at the end of its scope.
struct Held<'n>(&'n Nvrtc, Program);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Ok(destroy) = self.0.function::<Destroy>("nvrtcDestroyProgram") {
            // SAFETY: created once, destroyed once.
            unsafe { destroy(&raw mut self.1) };
        }
    }
}

impl Nvrtc {
    /// Opens one.
    ///
    /// # Errors
    ///
    /// In the loader's words, or where it does not say what it knows.
    pub fn open(path: &Path) -> Result<Nvrtc, String> {
        // It opens its built-in headers by their bare name, and has no path to them.
        let beside = path.parent().map(fs::read_dir).and_then(Result::ok);
        for entry in beside.into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with("libnvrtc-builtins.so") {
                // SAFETY: its initialisers touch nothing of this program.
                let opened = unsafe { Library::new(entry.path()) };
                opened.map(std::mem::forget).map_err(words)?;
            }
        }
        // SAFETY: as above.
        let library = unsafe { Library::new(path) }.map_err(words)?;
        let library = Box::leak(Box::new(library));
        let mut opened = Nvrtc { library, release: (0, 0), known: Vec::new() };
        let (mut major, mut minor, mut count) = (0, 0, 0);
        let (version, number) =
            (opened.function::<Two>("nvrtcVersion")?, "nvrtcGetNumSupportedArchs");
        let (number, list) =
            (opened.function::<One>(number)?, opened.function::<One>("nvrtcGetSupportedArchs")?);
        // SAFETY: the pointers are valid; the list is as long as the library said.
        let targets = unsafe {
            told(version(&raw mut major, &raw mut minor))?;
            told(number(&raw mut count))?;
            let mut targets = vec![0; count.max(0) as usize];
            told(list(targets.as_mut_ptr()))?;
            targets
        };
        opened.release = (major as u32, minor as u32);
        opened.known = targets.iter().map(c_int::to_string).collect();
        Ok(opened)
    }

    fn function<F: Copy>(&self, name: &str) -> Result<F, String> {
        // SAFETY: whoever asks states the type that NVIDIA's header gives the symbol.
        let found = unsafe { self.library.get::<F>(name.as_bytes()) };
        found.map(|symbol| *symbol).map_err(|error| error.to_string())
    }

    /// A binary of a text for a target, PTX for `compute_80`, by the program's own options.
    ///
    /// # Errors
    ///
    /// In the compiler's words.
    pub fn compile(
        &self,
        (name, text): (&str, &str),
        headers: &[(String, String)],
        target: &str,
    ) -> Result<Vec<u8>, String> {
        let c = |text: &str| CString::new(text).map_err(|_| "a zero in a text".to_owned());
        let all = |texts: Vec<&str>| texts.into_iter().map(c).collect::<Result<Vec<_>, _>>();
        let pointers = |texts: &[CString]| texts.iter().map(|t| t.as_ptr()).collect::<Vec<_>>();
        let names = all(headers.iter().map(|header| header.0.as_str()).collect())?;
        let texts = all(headers.iter().map(|header| header.1.as_str()).collect())?;
        let options = all(vec![&format!("--gpu-architecture={target}"), "-std=c++17"])?;
        let (name, text) = (c(name)?, c(text)?);
        let (names_at, texts_at, options_at) =
            (pointers(&names), pointers(&texts), pointers(&options));
        let what = if target.starts_with("compute_") { "PTX" } else { "CUBIN" };
        let create = self.function::<Create>("nvrtcCreateProgram")?;
        let compile = self.function::<Compile>("nvrtcCompileProgram")?;
        let mut held = Held(self, ptr::null_mut());
        // SAFETY: texts end with a zero and outlive the calls; counts are those of the arrays.
        unsafe {
            let count = names_at.len() as c_int;
            let (texts, names) = (texts_at.as_ptr(), names_at.as_ptr());
            told(create(&raw mut held.1, text.as_ptr(), name.as_ptr(), count, texts, names))?;
            if compile(held.1, options_at.len() as c_int, options_at.as_ptr()) != 0 {
                let log = self.fetch(held.1, "ProgramLog")?;
                let log = CStr::from_bytes_until_nul(&log).map(CStr::to_string_lossy);
                return Err(log.unwrap_or_default().into_owned());
            }
            self.fetch(held.1, what)
        }
    }

    /// What a program has of a kind.
    ///
    /// # Safety
    ///
    /// The program is alive.
    unsafe fn fetch(&self, program: Program, what: &str) -> Result<Vec<u8>, String> {
        let size = self.function::<Size>(&format!("nvrtcGet{what}Size"))?;
        let fetch = self.function::<Fetch>(&format!("nvrtcGet{what}"))?;
        let mut length = 0;
        // SAFETY: the caller's promise; the buffer is as long as the library says.
        unsafe {
            told(size(program, &raw mut length))?;
            let mut bytes = vec![0u8; length];
            told(fetch(program, bytes.as_mut_ptr().cast()))?;
            Ok(bytes)
        }
    }
}

/// The loader's own reason, which is the cause of the error.
fn words(error: libloading::Error) -> String {
    let cause = std::error::Error::source(&error).map(ToString::to_string);
    cause.unwrap_or_else(|| error.to_string())
}

fn told(code: c_int) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("NVRTC answered {code}")) }
}
