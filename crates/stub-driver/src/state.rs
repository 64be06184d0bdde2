//! What the stub remembers of a process.

use crate::{memory::Memory, script::Script};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs::{File, OpenOptions},
    io::Write as _,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

/// Success, and the codes the stub itself gives.
pub const OK: i32 = 0;
pub const INVALID_VALUE: i32 = 1;
pub const OUT_OF_MEMORY: i32 = 2;
pub const INVALID_DEVICE: i32 = 101;
pub const INVALID_IMAGE: i32 = 200;
pub const INVALID_HANDLE: i32 = 400;
pub const NOT_FOUND: i32 = 500;
pub const NOT_READY: i32 = 600;
pub const ILLEGAL_ADDRESS: i32 = 700;

/// What a graph does, one after the other.
pub type Graph = Vec<Node>;

/// One of those.
#[derive(Clone)]
pub enum Node {
    /// A launch: entry, parameters, blocks.
    Launch(String, Vec<u8>, u64),
    /// An operation of another stub library: what it is called back by, and with.
    Foreign(Foreign, usize),
}

/// Gets what was given with it, and the stream that the graph is launched on.
pub type Foreign = unsafe extern "C" fn(*mut std::ffi::c_void, *mut std::ffi::c_void);

/// A copy that waits for its turn on a stream.
type Behind = Box<dyn FnOnce(&mut State) + Send>;

/// Everything.
pub struct State {
    /// What was asked for.
    pub script: Script,
    /// Device memory.
    pub memory: Memory,
    /// How often each function was called.
    calls: BTreeMap<&'static str, u64>,
    /// The code that broke the context.
    broken: Option<i32>,
    /// Device time in nanoseconds.
    pub now: f64,
    /// Launches so far.
    pub launches: u64,
    /// Streams made so far.
    pub streams: usize,
    /// The streams that are captured, and what was enqueued on them.
    pub captures: BTreeMap<usize, Graph>,
    /// How far a stream is ahead of device time.
    ahead: BTreeMap<usize, f64>,
    /// Operations of another stub library, by stream: how many began, and how many ended.
    operations: BTreeMap<usize, [u64; 2]>,
    /// In which context each stream was made.
    pub contexts: BTreeMap<usize, usize>,
    /// Those whose devices do nothing any more.
    hung: BTreeSet<usize>,
    /// What was enqueued behind them.
    behind: Vec<(usize, Behind)>,
    /// Opaque objects that are alive, by kind.
    pub alive: BTreeMap<&'static str, i64>,
    /// Faults that NVML has yet to report.
    pub faults: Vec<u64>,
    log: Option<File>,
    logged: BTreeSet<String>,
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(|| Mutex::new(State::new()));

/// The state, locked.
pub fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn new() -> State {
        let script = Script::parse(&std::env::var("FIZEAU_STUB").unwrap_or_default());
        let log = std::env::var_os("FIZEAU_STUB_LOG").map(|path| {
            let opened = OpenOptions::new().create(true).append(true).open(path);
            opened.expect("FIZEAU_STUB_LOG can be written")
        });
        State {
            faults: script.xid.into_iter().collect(),
            script,
            memory: Memory::default(),
            calls: BTreeMap::new(),
            broken: None,
            now: 0.0,
            launches: 0,
            streams: 0,
            captures: BTreeMap::new(),
            ahead: BTreeMap::new(),
            operations: BTreeMap::new(),
            contexts: Default::default(),
            hung: Default::default(),
            behind: Vec::new(),
            alive: BTreeMap::new(),
            log,
            logged: BTreeSet::new(),
        }
    }

    /// Counts a call; the code it is scripted to answer, or what every call answers by now.
    pub fn enter(&mut self, call: &'static str) -> Result<(), i32> {
        let count = self.calls.entry(call).or_default();
        *count += 1;
        if (call.starts_with("cu") || call.starts_with("hip") && !call.starts_with("hiprtc"))
            && let Some(code) = self.broken
        {
            return Err(code);
        }
        match self.script.codes.get(call) {
            Some(&(code, from)) if *count >= from => Err(self.give(code)),
            _ => Ok(()),
        }
    }

    /// A code, kept where it breaks the context.
    pub fn give(&mut self, code: i32) -> i32 {
        if code == 214 || (700..800).contains(&code) && ![701, 720].contains(&code) {
            self.broken = Some(code);
        }
        code
    }

    /// Lets time pass on one stream.
    pub fn pass_on(&mut self, stream: usize, nanoseconds: f64) {
        *self.ahead.entry(stream).or_default() += nanoseconds * self.script.slow;
    }

    /// The time on a stream.
    pub fn now_on(&self, stream: usize) -> f64 {
        self.now + self.ahead.get(&stream).copied().unwrap_or(0.0)
    }

    /// Lets device time pass.
    pub fn pass(&mut self, nanoseconds: f64) {
        self.now += nanoseconds * self.script.slow;
    }

    /// An operation of another stub library is in flight on a stream.
    pub fn begin(&mut self, stream: usize) {
        self.operations.entry(stream).or_default()[0] += 1;
    }

    /// It is no more.
    pub fn end(&mut self, stream: usize) {
        let [began, ended] = self.operations.entry(stream).or_default();
        *ended = (*ended + 1).min(*began);
        if !self.is_busy(stream) {
            let (now, later) =
                std::mem::take(&mut self.behind).into_iter().partition(|(of, _)| *of == stream);
            self.behind = later;
            let now: Vec<(usize, Behind)> = now;
            now.into_iter().for_each(|(_, copy)| copy(self));
        }
    }

    /// Does something on a stream when its turn has come.
    pub fn in_turn(&mut self, stream: usize, copy: impl FnOnce(&mut State) + Send + 'static) {
        if self.is_busy(stream) {
            self.behind.push((stream, Box::new(copy)));
        } else {
            copy(self);
        }
    }

    /// Whether there is one.
    pub fn is_busy(&self, stream: usize) -> bool {
        !self.is_past(stream, self.began(stream))
    }

    /// How many began on a stream.
    pub fn began(&self, stream: usize) -> u64 {
        self.operations.get(&stream).map_or(0, |[began, _]| *began)
    }

    /// Whether so many have ended there.
    pub fn is_past(&self, stream: usize, count: u64) -> bool {
        self.operations.get(&stream).map_or(0, |[_, ended]| *ended) >= count
    }

    /// The device of a stream does nothing any more.
    pub fn hang(&mut self, stream: usize) {
        let context = self.contexts.get(&stream).copied().unwrap_or_default();
        self.hung.insert(context);
    }

    /// Whether work on a stream still ends.
    pub fn ends(&self, stream: usize) -> bool {
        let hangs = self.contexts.get(&stream).is_some_and(|context| self.hung.contains(context));
        !hangs && self.script.hang.is_none_or(|launch| self.launches < launch)
    }

    /// An object was made or ended.
    pub fn count(&mut self, kind: &'static str, change: i64) {
        *self.alive.entry(kind).or_default() += change;
    }

    /// Writes a line down, once.
    pub fn log(&mut self, line: String) {
        if let Some(log) = &mut self.log
            && self.logged.insert(line.clone())
        {
            writeln!(log, "{line}").expect("FIZEAU_STUB_LOG can be written");
        }
    }
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}

/// Runs the body of a function: its name is counted, its script obeyed.
pub fn call(name: &'static str, body: impl FnOnce(&mut State) -> i32) -> i32 {
    let mut state = state();
    match state.enter(name) {
        Ok(()) => body(&mut state),
        Err(code) => code,
    }
}
