//! What a launch touches of device memory. While it runs, every block is closed: the first access
//! opens it for reading, the first write to a part of it keeps what stood there and opens that part.
//! An access to memory that is nobody's ends the launch.

use std::{
    cell::UnsafeCell,
    collections::BTreeMap,
    ffi::{c_char, c_int, c_void},
    fmt::Write,
    mem::MaybeUninit,
    ptr,
    sync::{
        Mutex, Once, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

/// A part is opened for writing at once: a fault each 4 KiB would take longer than many a kernel.
const PART: usize = 64 << 10;

/// A block of device memory, and its pages.
pub struct Watched {
    start: usize,
    size: usize,
    first: usize,
    length: usize,
    is_touched: bool,
    /// What stood in those parts that were written, by address.
    before: BTreeMap<usize, Vec<u8>>,
}

impl Watched {
    /// Bytes from `start` on that stand on pages from `first` on.
    pub fn new(start: usize, size: usize, first: usize, length: usize) -> Watched {
        Watched { start, size, first, length, is_touched: false, before: BTreeMap::new() }
    }

    fn open(&self, first: usize, length: usize, rights: c_int) {
        // SAFETY: pages of a block that lives.
        unsafe { libc::mprotect(first as *mut c_void, length, rights) };
    }

    /// Opens as much as an access needs.
    fn let_in(&mut self, address: usize) {
        if !self.is_touched {
            self.is_touched = true;
            return self.open(self.first, self.length, libc::PROT_READ);
        }
        let part = self.first + (address - self.first) / PART * PART;
        let length = PART.min(self.first + self.length - part);
        self.before.entry(part).or_insert_with(|| {
            // SAFETY: it can be read by now.
            unsafe { std::slice::from_raw_parts(part as *const u8, length) }.to_vec()
        });
        self.open(part, length, libc::PROT_READ | libc::PROT_WRITE);
    }

    fn is_changed(&self) -> bool {
        self.before.iter().any(|(&part, before)| {
            // SAFETY: it can be read by now.
            let now = unsafe { std::slice::from_raw_parts(part as *const u8, before.len()) };
            now != before
        })
    }
}

/// A block that was touched.
pub struct Seen {
    /// Where it starts.
    pub start: usize,
    /// Whether anything in it is another than before.
    pub changed: bool,
}

/// Ends a launch with words.
type End = unsafe extern "C" fn(*const c_char) -> !;

/// What a signal's handler needs to know.
struct Watch {
    blocks: Vec<Watched>,
    thread: libc::pthread_t,
    end: Option<End>,
    /// What it says of a fault, ended by a zero.
    words: [u8; 256],
}

struct Shared {
    is_taken: AtomicBool,
    watch: UnsafeCell<Option<Watch>>,
}

// SAFETY: whoever looks at the watch has taken it.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared { is_taken: AtomicBool::new(false), watch: UnsafeCell::new(None) };
static HANDLED: Once = Once::new();
/// The address of the last fault that came when no launch was watched, how often it came again, and
/// how often it may: launches may follow each other quickly.
static LATE: AtomicUsize = AtomicUsize::new(0);
static TIMES: AtomicUsize = AtomicUsize::new(0);
const LATE_MAX: usize = 10_000;
const SIGNALS: [c_int; 3] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE];

/// What handled the signals before, by their place above.
struct Former(UnsafeCell<[MaybeUninit<libc::sigaction>; 3]>);
// SAFETY: written once, before any handler reads it.
unsafe impl Sync for Former {}
static FORMER: Former = Former(UnsafeCell::new([MaybeUninit::uninit(); 3]));

/// Does something with the watch, alone. It may be called by a signal's handler: what is done here
/// never touches device memory that is closed.
fn with<R>(what: impl FnOnce(&mut Option<Watch>) -> R) -> R {
    while SHARED.is_taken.swap(true, Ordering::Acquire) {
        std::hint::spin_loop();
    }
    // SAFETY: taken.
    let done = what(unsafe { &mut *SHARED.watch.get() });
    SHARED.is_taken.store(false, Ordering::Release);
    done
}

/// Runs a launch while these blocks are watched; another thread's launch waits until it ends.
pub fn during<R>(blocks: Vec<Watched>, run: impl FnOnce() -> R) -> (R, Vec<Seen>) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    HANDLED.call_once(handle);
    // SAFETY: a question without conditions.
    let thread = unsafe { libc::pthread_self() };
    with(|watch| {
        for block in &blocks {
            block.open(block.first, block.length, libc::PROT_NONE);
        }
        *watch = Some(Watch { blocks, thread, end: None, words: [0; 256] });
    });
    let done = run();
    // Open before the watch ends: other threads may read what ranks exchange.
    let blocks = with(|watch| {
        let blocks = watch.take().map(|watch| watch.blocks).unwrap_or_default();
        for block in &blocks {
            block.open(block.first, block.length, libc::PROT_READ | libc::PROT_WRITE);
        }
        blocks
    });
    let touched = blocks.iter().filter(|block| block.is_touched);
    let seen = touched.map(|block| Seen { start: block.start, changed: block.is_changed() });
    (done, seen.collect())
}

/// From now on, a fault of this launch ends it by a function of its library.
pub fn end_by(end: End) {
    with(|watch| watch.as_mut().map(|watch| watch.end = Some(end)));
}

fn handle() {
    for (at, signal) in SIGNALS.into_iter().enumerate() {
        // SAFETY: the handler has the type that its flags promise; the former one is kept.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(signal, &raw const action, (*FORMER.0.get())[at].as_mut_ptr());
        }
    }
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: the kernel gives what it promises.
    let address = unsafe { (*info).si_addr() } as usize;
    let is_access = signal != libc::SIGFPE;
    let end = with(|watch| {
        let Some(watch) = watch.as_mut() else {
            // A launch has ended since: the access may be right by now.
            let is_again = LATE.swap(address, Ordering::Relaxed) == address;
            let times = if is_again { TIMES.fetch_add(1, Ordering::Relaxed) } else { 0 };
            if !is_again {
                TIMES.store(0, Ordering::Relaxed);
            }
            return (times < LATE_MAX).then_some(None);
        };
        let is_here =
            |block: &&mut Watched| (block.first..block.first + block.length).contains(&address);
        if let Some(block) = watch.blocks.iter_mut().filter(|_| is_access).find(is_here) {
            block.let_in(address);
            return Some(None);
        }
        // SAFETY: a question without conditions.
        let is_launch = unsafe { libc::pthread_self() } == watch.thread;
        let end = watch.end.filter(|_| is_launch)?;
        watch.describe(address, is_access);
        Some(Some((end, watch.words.as_ptr())))
    });
    match end {
        Some(None) => {}
        // SAFETY: it leaves for the start of the launch, which is on this thread; the words stay
        // where they are until the watch ends.
        Some(Some((end, words))) => unsafe { end(words.cast()) },
        // Nobody's: as if there were no handler.
        None => {
            let at = SIGNALS.iter().position(|&one| one == signal).unwrap_or(0);
            // SAFETY: kept when this handler was set.
            unsafe {
                libc::sigaction(signal, (*FORMER.0.get())[at].as_ptr(), ptr::null_mut());
            }
        }
    }
}

/// Text in an array, which ends where that does.
struct Into<'a>(&'a mut [u8]);

impl Write for Into<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let length = text.len().min(self.0.len());
        let (here, rest) = std::mem::take(&mut self.0).split_at_mut(length);
        here.copy_from_slice(&text.as_bytes()[..length]);
        self.0 = rest;
        Ok(())
    }
}

impl Watch {
    /// Says where an address is beside the blocks.
    fn describe(&mut self, address: usize, is_access: bool) {
        self.words.fill(0);
        let last = self.words.len() - 1;
        let mut text = Into(&mut self.words[..last]);
        if !is_access {
            let _ = write!(text, "a division by zero");
            return;
        }
        let _ = write!(text, "an access to {address:#x}, which is in no block");
        let distance = |block: &&Watched| {
            let end = block.start + block.size;
            if address < block.start { block.start - address } else { address.abs_diff(end) }
        };
        if let Some(block) = self.blocks.iter().min_by_key(distance) {
            let (bytes, size) = (distance(&block), block.size);
            let side = if address < block.start { "before" } else { "behind" };
            let _ = write!(text, ": {bytes} bytes {side} one of {size}");
        }
    }
}
