//! What the stub remembers of a process.

use crate::{
    cost::{CLOCK, Cost, Path},
    limits,
    memory::{Memory, Owner},
    model::Call,
    script::Script,
    speed::{FORGOTTEN, Moment, Resource},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs::{File, OpenOptions},
    io::Write as _,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// Success, and the codes the stub itself gives.
pub const OK: i32 = 0;
pub const INVALID_VALUE: i32 = 1;
pub const OUT_OF_MEMORY: i32 = 2;
pub const NO_DEVICE: i32 = 100;
pub const INVALID_DEVICE: i32 = 101;
pub const INVALID_IMAGE: i32 = 200;
pub const INVALID_HANDLE: i32 = 400;
pub const NOT_FOUND: i32 = 500;
pub const NOT_READY: i32 = 600;
pub const ILLEGAL_ADDRESS: i32 = 700;
pub const LAUNCH_FAILED: i32 = 719;
pub const UNKNOWN: i32 = 999;

/// The context of a device is this and its ordinal.
pub const CONTEXT: usize = 0xc0_0000;

/// What a graph does, one after the other.
pub type Graph = Vec<Node>;

/// One of those.
#[derive(Clone)]
pub enum Node {
    /// A launch.
    Launch(Call),
    /// An operation of another stub library: what it is called back by, and with.
    Foreign(Foreign, usize),
}

/// Gets what was given with it, and the stream that the graph is launched on.
pub type Foreign = unsafe extern "C" fn(*mut std::ffi::c_void, *mut std::ffi::c_void);

/// A copy that waits for its turn on a stream.
type Behind = Box<dyn FnOnce(&mut State) + Send>;

/// How far a stream is.
#[derive(Clone, Copy, Default)]
struct At {
    nanoseconds: f64,
    /// Cycles that the units have counted meanwhile.
    cycles: f64,
    /// Events that were recorded on it.
    region: u64,
}

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
    /// Launches so far, on all devices.
    pub launches: u64,
    /// Gates that were closed so far, and the last of them.
    gates: u64,
    gate: Option<[u64; 3]>,
    /// Launches so far on each.
    launched: BTreeMap<i32, u64>,
    /// Products so far on each device that flips bits.
    pub products: BTreeMap<i32, u64>,
    /// Bits that were flipped.
    pub flips: u64,
    /// Streams made so far.
    pub streams: usize,
    /// The streams that are captured, and what was enqueued on them.
    pub captures: BTreeMap<usize, Graph>,
    /// How far each stream is, which has a time of its own.
    streams_at: BTreeMap<usize, At>,
    /// Operations of another stub library, by stream: how many began, and how many ended.
    operations: BTreeMap<usize, [u64; 2]>,
    /// In which context each stream was made.
    pub contexts: BTreeMap<usize, usize>,
    /// Those whose devices do nothing any more.
    hung: BTreeSet<usize>,
    /// What was enqueued behind them.
    behind: Vec<(usize, Behind)>,
    /// What the regulator of each device knows: its load, and when it last grew.
    loads: BTreeMap<i32, (f64, Instant)>,
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
        let mut script = script.unwrap_or_else(|error| {
            // No function of the driver has a code for this: a process that continues would pass
            // a test of something else.
            eprintln!("FIZEAU_STUB: {error}");
            std::process::exit(2)
        });
        limits::slow_down(&mut script.speeds);
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
            launches: 0,
            gates: 0,
            gate: None,
            launched: BTreeMap::new(),
            products: BTreeMap::new(),
            flips: 0,
            streams: 0,
            captures: BTreeMap::new(),
            streams_at: BTreeMap::new(),
            operations: BTreeMap::new(),
            contexts: Default::default(),
            hung: Default::default(),
            loads: BTreeMap::new(),
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

    /// The device that a stream is on.
    pub fn device_of(&self, stream: usize) -> i32 {
        self.contexts.get(&stream).map_or(0, |context| context.saturating_sub(CONTEXT) as i32)
    }

    /// Counts a launch on a stream, and lets pass what it costs.
    pub fn launched(&mut self, stream: usize, cost: &Cost) {
        self.launches += 1;
        let device = self.device_of(stream);
        *self.launched.entry(device).or_default() += 1;
        if self.script.hangs(device, self.launched_on(device)) {
            self.hang(stream);
        }
        self.spend(stream, cost);
    }

    /// Launches so far on a device.
    pub fn launched_on(&self, device: i32) -> u64 {
        self.launched.get(&device).copied().unwrap_or(0)
    }

    /// A gate is closed: where its word stands, how long it holds, and where it leaves how long it
    /// did.
    pub fn close(&mut self, gate: [u64; 3]) {
        self.gates += 1;
        self.gate = Some(gate);
        let late = self.script.late;
        if late
            .is_some_and(|(count, from)| (from..from.saturating_add(count)).contains(&self.gates))
        {
            self.give_up();
        }
    }

    /// The host waits for something behind the gate: one that is closed holds until it gives up.
    pub fn wait_behind_gate(&mut self) {
        let word = self.gate.and_then(|[word, ..]| self.memory.load::<u32>(word, 1));
        if word.is_some_and(|word| word[0] == 0) {
            self.give_up();
        }
    }

    fn give_up(&mut self) {
        if let Some([_, limit, waited]) = self.gate {
            // The gate's memory is that of whoever closed it.
            let _ = self.memory.store(waited, &[limit]);
        }
    }

    /// Lets pass on a stream what something costs there.
    pub fn spend(&mut self, stream: usize, cost: &Cost) {
        let (moment, path) = (self.moment(stream), self.path(stream, cost));
        let first = cost.chain.and_then(|cell| self.memory.load::<u64>(cell, 1)?.first().copied());
        let nanoseconds = cost.nanoseconds(&self.script.speeds, moment, path, first);
        self.pass(stream, nanoseconds);
    }

    /// Lets time pass on a stream, as noise and drift will have it.
    pub fn pass(&mut self, stream: usize, nanoseconds: f64) {
        let stretch = self.script.slow * self.script.speeds.stretch(self.moment(stream));
        let device = self.device_of(stream);
        let load = self.load_of(device);
        let slowdown = self.script.speeds.regulated(load);
        let clock = CLOCK * self.speed(Resource::Clock, stream, None) / slowdown;
        let stretch = stretch * slowdown;
        self.loads.insert(device, (load + nanoseconds * stretch / 1e9, Instant::now()));
        let at = self.streams_at.entry(stream).or_default();
        at.nanoseconds += nanoseconds * stretch;
        at.cycles += nanoseconds * stretch * clock;
    }

    /// The load that a device's regulator knows of, in seconds: while nothing is launched, the
    /// device rests.
    fn load_of(&self, device: i32) -> f64 {
        let Some((load, since)) = self.loads.get(&device) else { return 0.0 };
        (load - since.elapsed().as_secs_f64() * FORGOTTEN).max(0.0)
    }

    /// A kernel's text has run on the CPU: that is no rest of the device.
    pub fn works_still(&mut self, stream: usize) {
        if let Some((_, since)) = self.loads.get_mut(&self.device_of(stream)) {
            *since = Instant::now();
        }
    }

    /// The cycles that the units of a stream's device have counted while it worked.
    pub fn cycles_on(&self, stream: usize) -> f64 {
        self.streams_at.get(&stream).map_or(0.0, |at| at.cycles)
    }

    /// The time on a stream, in nanoseconds.
    pub fn now_on(&self, stream: usize) -> f64 {
        self.streams_at.get(&stream).map_or(0.0, |at| at.nanoseconds)
    }

    /// A stream waits for something that ended at a time; for nothing, where that is NaN.
    pub fn wait_until(&mut self, stream: usize, nanoseconds: f64) {
        let at = self.streams_at.entry(stream).or_default();
        at.nanoseconds = at.nanoseconds.max(nanoseconds);
    }

    /// An event was recorded on a stream: what follows is another timed region.
    pub fn next_region(&mut self, stream: usize) {
        self.streams_at.entry(stream).or_default().region += 1;
    }

    /// The speed of a resource of a stream's device now; of a link, to a peer.
    pub fn speed(&self, of: Resource, stream: usize, peer: Option<i32>) -> f64 {
        self.script.speeds.speed(of, self.moment(stream), peer)
    }

    fn moment(&self, stream: usize) -> Moment {
        let device = self.device_of(stream);
        let at = self.streams_at.get(&stream).copied().unwrap_or_default();
        Moment {
            device,
            launches: self.launched.get(&device).copied().unwrap_or(0),
            seconds: at.nanoseconds / 1e9,
            region: at.region,
        }
    }

    /// What the copy of a cost passes over. Memory that was not allocated here is the host's.
    fn path(&self, stream: usize, cost: &Cost) -> Option<Path> {
        let copy = cost.copy?;
        let owner = |address| self.memory.owner(address).unwrap_or(Owner::Host);
        Some(match (owner(copy.from), owner(copy.to)) {
            (Owner::Device(from), Owner::Device(to)) if from != to => Path::Peer(from, to),
            (Owner::Device(_), Owner::Device(_)) => Path::Memory,
            (Owner::Device(device), Owner::Host) => self.link(device, copy.to),
            (Owner::Host, Owner::Device(device)) => self.link(device, copy.from),
            (Owner::Host, Owner::Host) => {
                Path::Host { device: self.device_of(stream), is_far: false }
            }
        })
    }

    /// The link between a device and an address of the host's.
    fn link(&self, device: i32, host: u64) -> Path {
        let own = self.script.node_of(device);
        Path::Host { device, is_far: self.memory.node(host).is_some_and(|node| node != own) }
    }

    /// An operation of another stub library is in flight on a stream.
    pub fn begin(&mut self, stream: usize) {
        self.memory.is_written_by_others();
        self.operations.entry(stream).or_default()[0] += 1;
    }

    /// It is no more.
    pub fn end(&mut self, stream: usize) {
        self.memory.is_written_by_others();
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

    /// Whether `count` of them have ended there.
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
