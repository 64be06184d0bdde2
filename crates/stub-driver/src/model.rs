//! Kernels, run: a library that `text` made of a kernel file executes its text on the CPU, with the
//! model's instructions (tests/kernel_model).

use crate::{cost, memory::Memory, watch};
use libloading::os::unix::{Library as Opened, RTLD_LOCAL, RTLD_NOW};
use std::{
    borrow::Cow,
    ffi::{CStr, CString, c_char},
    fs::File,
    io::Write,
    os::fd::{AsRawFd, FromRawFd},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// What a module's image begins with, behind the mark of a binary; then the CUDA that it was made by,
/// and its length.
const MARK: &[u8; 12] = b"\x7fELF of stub";

/// Kernels whose text is not run as it is launched, and why.
pub const EXCEPTIONS: [(&str, &str); 2] = [
    (
        "util_hold",
        "work is done when it is launched: a gate has to be found closed, and holds nothing",
    ),
    (
        "access_distributed",
        "its blocks of a cluster run one after the other, each reading its own memory for the \
         other's, which is filled alike: the model has static arrays once",
    ),
];

/// What a launch is given; tests/kernel_model/run.h mirrors it.
#[repr(C)]
struct Given {
    params: *const u8,
    bytes: u64,
    grid: u32,
    threads: u32,
    shared: u32,
    together: u32,
    tick: u64,
    distance: extern "C" fn(*const u8) -> u64,
}

/// Where a parameter stands among a launch's bytes, how many it has, and a multiple of what its place is;
/// tests/kernel_model/run.h mirrors it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Parameter {
    /// Where.
    pub place: u64,
    /// How long.
    pub bytes: u64,
    /// Of which its place is a multiple.
    pub alignment: u64,
}

/// The most that an entry has.
const PARAMETERS_MAX: usize = 8;

type Launch = unsafe extern "C" fn(*const c_char, *const Given) -> *const c_char;
type End = unsafe extern "C" fn(*const c_char) -> !;

/// A loaded kernel file.
pub struct Library {
    number: u64,
    launch: Launch,
    end: End,
    has: unsafe extern "C" fn(*const c_char) -> bool,
    parameters: unsafe extern "C" fn(*const c_char, *mut Parameter) -> u64,
    _opened: Opened,
    _file: File,
}

/// The image of a module that a compiler of some CUDA made: its major version, 0 for none.
pub fn image(library: &[u8], major: i32) -> Vec<u8> {
    [&MARK[..], &major.to_le_bytes(), &(library.len() as u64).to_le_bytes(), library].concat()
}

/// What a clock of the model advances by when it is asked how long something was.
const TICK: u64 = 1024;

/// Cycles of an operation on a line.
extern "C" fn distance(address: *const u8) -> u64 {
    cost::distance(address as u64)
}

impl Library {
    /// From an image. None where it is none of ours, was made by a later CUDA than `newest`, or cannot
    /// be loaded.
    ///
    /// # Safety
    ///
    /// The image is as long as it says, or begins otherwise.
    pub unsafe fn load(image: *const u8, newest: i32) -> Option<Library> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        // SAFETY: as the caller promises; each byte is looked at once those before it are right.
        let bytes = unsafe {
            let is_ours = (0..MARK.len()).all(|at| image.add(at).read() == MARK[at]);
            if !is_ours {
                return None;
            }
            let image = image.add(MARK.len());
            if image.cast::<i32>().read_unaligned() > newest {
                return None;
            }
            let length = image.add(4).cast::<u64>().read_unaligned();
            std::slice::from_raw_parts(image.add(12), length as usize)
        };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // A file without a name: nothing is left of a process that is killed. It stays open, since a
        // loader takes a library of the same path for the same.
        // SAFETY: the descriptor is a new one, and nobody else's.
        let mut file = unsafe {
            let file = libc::memfd_create(c"fizeau-stub".as_ptr(), libc::MFD_CLOEXEC);
            (file >= 0).then(|| File::from_raw_fd(file))?
        };
        file.write_all(bytes).ok()?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        // SAFETY: run.h gives its functions these types; loading it runs nothing.
        let loaded = unsafe { Opened::open(Some(&path), RTLD_NOW | RTLD_LOCAL) };
        let opened = loaded.inspect_err(|error| eprintln!("stub driver: {error}")).ok()?;
        // SAFETY: as above.
        unsafe {
            let launch = *opened.get::<Launch>(b"model_launch").ok()?;
            let end = *opened.get::<End>(b"model_end").ok()?;
            let has = *opened.get(b"model_has").ok()?;
            let parameters = *opened.get(b"model_parameters").ok()?;
            Some(Library { number, launch, end, has, parameters, _opened: opened, _file: file })
        }
    }

    /// Whether it has an entry of this name.
    pub fn has(&self, entry: &CStr) -> bool {
        // SAFETY: run.h gives it this type.
        unsafe { (self.has)(entry.as_ptr()) }
    }

    /// The parameters of an entry; none where there is none of this name.
    pub fn parameters(&self, entry: &CStr) -> Vec<Parameter> {
        let mut found = vec![Parameter::default(); PARAMETERS_MAX];
        // SAFETY: run.h gives it this type, and writes as many at most.
        let count = unsafe { (self.parameters)(entry.as_ptr(), found.as_mut_ptr()) };
        found.truncate(count as usize);
        found
    }
}

/// A launch, that can be repeated.
#[derive(Clone)]
pub struct Call {
    /// Where its text is.
    pub library: Arc<Library>,
    /// Its name.
    pub entry: CString,
    /// The bytes of its parameters.
    pub params: Vec<u8>,
    /// Blocks, threads of each, their dynamic shared memory, blocks of a cluster.
    pub shape: [u32; 4],
}

impl Call {
    /// Its entry's name.
    pub fn name(&self) -> Cow<'_, str> {
        self.entry.to_string_lossy()
    }

    /// Does it.
    ///
    /// # Errors
    ///
    /// What its text did wrong.
    pub fn run(&self, memory: &mut Memory) -> Result<(), String> {
        let name = self.name();
        let Call { library, params, shape: [grid, threads, shared, cluster], .. } = self;
        if name == EXCEPTIONS[0].0 {
            hold(params, memory).ok_or_else(|| "the gate was not closed".to_owned())
        } else {
            let together = if name == EXCEPTIONS[1].0 { 1 } else { *cluster };
            let given = Given {
                params: params.as_ptr(),
                bytes: params.len() as u64,
                grid: *grid,
                threads: *threads,
                shared: *shared,
                together,
                tick: TICK,
                distance,
            };
            let head = [library.number, u64::from(*grid), u64::from(*cluster)];
            let what = head.iter().flat_map(|word| word.to_le_bytes());
            let what = what.chain(name.bytes()).chain(params.iter().copied()).collect();
            memory.launch(what, params, || {
                watch::end_by(library.end);
                // SAFETY: run.h gives it this type; parameters and name live until it returns.
                let fault = unsafe { (library.launch)(self.entry.as_ptr(), &raw const given) };
                // SAFETY: text that stays until the watch ends.
                let words = (!fault.is_null()).then(|| unsafe { CStr::from_ptr(fault) });
                words.map_or(Ok(()), |words| Err(words.to_string_lossy().into_owned()))
            })
        }
    }
}

/// Where the gate's word stands, how long it holds, where it leaves how long it was closed.
fn hold(params: &[u8], memory: &mut Memory) -> Option<()> {
    let word = |at: usize| Some(u64::from_le_bytes(params.get(at..at + 8)?.try_into().ok()?));
    let released = memory.load::<u32>(word(0)?, 1)?[0];
    let (limit, waited) = (word(8)?, word(16)?);
    if params.len() != 24 || released != 0 || limit == 0 {
        return None;
    }
    // Not written where nothing changes: what was settled stays so.
    if memory.load::<u64>(waited, 1)? != [0] {
        memory.store(waited, &[0u64])?;
    }
    Some(())
}
