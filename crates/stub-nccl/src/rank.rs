//! A rank: its operations one after the other, on a thread of its own.

use crate::{
    driver::{Driver, Stream},
    job::{self, At, IN_PROGRESS, INVALID_USAGE, Job, OK, SYSTEM, Target},
    script::{Fault, Script},
    shared::Shared,
};
use std::{
    collections::BTreeMap,
    ffi::c_void,
    fs::OpenOptions,
    io::Write,
    ops::Range,
    slice,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicI32, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// What stands behind an `ncclComm_t`.
pub struct Rank {
    pub rank: usize,
    pub size: usize,
    pub driver: Driver,
    pub script: Script,
    pub operations: u64,
    pub state: Arc<State>,
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// Ranges that were made known, by their handles.
    known: BTreeMap<usize, (Range<usize>, Kind)>,
    handles: usize,
}

/// What a range of memory is known as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Plain,
    Registered,
    Symmetric,
}

/// What its thread and its caller both know.
pub struct State {
    /// The code that `ncclCommGetAsyncError` gives.
    pub code: AtomicI32,
    pub over: AtomicBool,
    /// The device of each rank, once all have joined.
    pub devices: OnceLock<Vec<i32>>,
}

/// Between two looks whether the others have come on.
const PAUSE: Duration = Duration::from_micros(20);

impl Rank {
    /// Begins to join; done when the state's code is no longer "in progress".
    pub fn join(id: &[u8], rank: usize, size: usize, driver: Driver) -> Rank {
        let code = AtomicI32::new(IN_PROGRESS);
        let (over, devices) = (AtomicBool::new(false), OnceLock::new());
        let state = Arc::new(State { code, over, devices });
        let (jobs, queue) = channel();
        let script = Script::read(Some(rank as i32));
        let worker = Worker {
            id: id.to_vec(),
            rank,
            size,
            driver,
            device: driver.device(),
            script: script.clone(),
            state: Arc::clone(&state),
        };
        let thread = thread::spawn(move || worker.run(queue));
        let (jobs, thread) = (Some(jobs), Some(thread));
        let known = BTreeMap::new();
        Rank { rank, size, driver, script, operations: 0, state, jobs, thread, known, handles: 0 }
    }

    /// A range is known as something from now on, under this handle.
    pub fn register(&mut self, at: usize, bytes: usize, kind: Kind) -> *mut c_void {
        self.handles += 1;
        self.known.insert(self.handles, (at..at + bytes, kind));
        self.handles as *mut c_void
    }

    /// Whether there was such a handle.
    pub fn deregister(&mut self, handle: *mut c_void, kind: Kind) -> bool {
        self.known.remove(&(handle as usize)).is_some_and(|(_, was)| was == kind)
    }

    /// What the least known of a job's buffers is.
    fn kind_of(&self, job: &Job) -> Kind {
        let of = |at: usize| {
            let range = self.known.values().find(|(range, _)| range.contains(&at));
            range.map_or(Kind::Plain, |(_, kind)| *kind)
        };
        job.addresses().map(of).min().unwrap_or(Kind::Plain)
    }

    /// Takes up an operation, or leaves it to the graph that its stream is captured into.
    pub unsafe fn enqueue(comm: *mut Rank, job: Job) -> i32 {
        let (driver, stream) = ((*comm).driver, job.streams[0]);
        let kind = (*comm).kind_of(&job);
        let captured = Box::into_raw(Box::new((comm, job)));
        if driver.capture(stream, replay, captured.cast()) {
            // A graph may be launched as long as the process lives: what it needs is kept as long.
            (*comm).log(&(*captured).1, kind, "captured");
            return OK;
        }
        let (_, job) = *Box::from_raw(captured);
        (*comm).log(&job, kind, "enqueued");
        (*comm).begin(job)
    }

    /// Writes down what was asked for, if the variable `FIZEAU_STUB_NCCL_LOG` names a file.
    fn log(&self, job: &Job, kind: Kind, how: &str) {
        let Some(path) = std::env::var_os("FIZEAU_STUB_NCCL_LOG") else { return };
        let file = OpenOptions::new().create(true).append(true).open(path);
        let line = format!("{} {} data={} {kind:?} {how}\n", self.rank, job.name, job.data);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.expect("FIZEAU_STUB_NCCL_LOG can be written");
    }

    /// Begins an operation: its streams are busy until it is done.
    fn begin(&mut self, mut job: Job) -> i32 {
        self.operations += 1;
        job.number = self.operations;
        if self.script.fault(self.operations) == Some(Fault::Kill) {
            std::process::abort();
        }
        let devices = self.state.devices.get().map(Vec::as_slice).unwrap_or_default();
        for &stream in &job.streams {
            let with = job.peers().filter_map(|peer| devices.get(peer).copied());
            self.driver.begin(stream, job.bytes(), with, self.script.slow);
        }
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        if sent { OK } else { SYSTEM }
    }

    /// Ends its thread: after what is in flight, or at once.
    pub fn end(&mut self, at_once: bool) {
        if at_once {
            self.state.over.store(true, Ordering::Release);
        }
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has ended too.
            let _ = thread.join();
        }
    }
}

/// What a graph calls for each operation that was captured.
unsafe extern "C" fn replay(captured: *mut c_void, stream: *mut c_void) {
    let (comm, job) = &*captured.cast::<(*mut Rank, Job)>();
    let job = Job { streams: vec![Stream(stream)], ..job.clone() };
    (**comm).begin(job);
}

struct Worker {
    id: Vec<u8>,
    rank: usize,
    size: usize,
    driver: Driver,
    device: i32,
    script: Script,
    state: Arc<State>,
}

impl Worker {
    fn run(&self, queue: Receiver<Job>) {
        let Ok(shared) = Shared::open(&self.id, self.size) else {
            self.state.code.store(SYSTEM, Ordering::Release);
            return;
        };
        shared.join(self.rank, self.script.version, self.device);
        while !shared.all_joined() {
            if self.is_over() {
                return;
            }
            thread::sleep(PAUSE);
        }
        Shared::unlink(&self.id);
        // Set once: this is the only place.
        let _ = self.state.devices.set(shared.devices());
        let code = if shared.versions_agree() { OK } else { INVALID_USAGE };
        self.state.code.store(code, Ordering::Release);
        for job in queue {
            let fault = self.script.fault(job.number);
            if let Some(Fault::Async(code)) = fault {
                self.state.code.store(code, Ordering::Release);
            }
            if fault == Some(Fault::Hang) {
                self.driver.hang(job.streams[0]);
            }
            let is_stuck = matches!(fault, Some(Fault::Hang | Fault::Stuck | Fault::Async(_)));
            if !is_stuck && !self.perform(&shared, &job, fault == Some(Fault::Wrong)) {
                return;
            }
            if is_stuck || fault == Some(Fault::Late) {
                while !self.is_over() {
                    thread::sleep(PAUSE);
                }
                return;
            }
            for &stream in &job.streams {
                self.driver.end(stream);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.state.over.load(Ordering::Acquire)
    }

    /// Whether it came to its end.
    fn perform(&self, shared: &Shared, job: &Job, wrong: bool) -> bool {
        let mut aside: Vec<Vec<u8>> = Vec::new();
        for receive in &job.receives {
            if matches!(receive.into, Target::Aside) {
                aside.push(vec![0; receive.bytes]);
            }
        }
        if !self.exchange(shared, job, &mut aside) {
            return false;
        }
        for copy in &job.copies {
            // SAFETY: the caller's buffers, in memory of the stub driver; they may overlap.
            unsafe {
                std::ptr::copy(copy.from.0 as *const u8, copy.into.0 as *mut u8, copy.bytes);
            }
        }
        for reduce in &job.reduces {
            // SAFETY: as above. Ranks are reduced in their order: all have the same sums.
            let own = unsafe { slice::from_raw_parts(reduce.own.0 as *const u8, reduce.bytes) };
            let mut parts: Vec<&[u8]> = aside.iter().map(Vec::as_slice).collect();
            parts.insert(self.rank.min(parts.len()), own);
            let Some(result) = job::reduce(&parts, reduce.data, reduce.operation) else {
                self.state.code.store(INVALID_USAGE, Ordering::Release);
                return false;
            };
            // SAFETY: as above.
            unsafe { to_slice(reduce.into, reduce.bytes) }.copy_from_slice(&result);
        }
        if wrong {
            spoil(job);
        }
        true
    }

    /// Moves all bytes, a piece of each message at a time, so that nobody waits for one who waits.
    fn exchange(&self, shared: &Shared, job: &Job, aside: &mut [Vec<u8>]) -> bool {
        let mut sent = vec![0; job.sends.len()];
        let mut received = vec![0; job.receives.len()];
        loop {
            let (mut moved, mut left) = (false, false);
            // Messages between the same two ranks keep their order: the first that is not done
            // alone continues.
            let mut busy = vec![false; self.size];
            for (send, sent) in job.sends.iter().zip(&mut sent) {
                if *sent == send.bytes || std::mem::replace(&mut busy[send.to], true) {
                    continue;
                }
                // SAFETY: the caller's buffer.
                let bytes = unsafe { to_slice(send.from, send.bytes) };
                let count = shared.write(self.rank, send.to, &bytes[*sent..]);
                *sent += count;
                moved |= count > 0;
                left |= *sent < send.bytes;
            }
            busy.fill(false);
            let mut place = 0;
            for (receive, received) in job.receives.iter().zip(&mut received) {
                let is_aside = matches!(receive.into, Target::Aside);
                let at = place;
                place += usize::from(is_aside);
                if *received == receive.bytes || std::mem::replace(&mut busy[receive.from], true) {
                    continue;
                }
                let bytes = match receive.into {
                    Target::Aside => &mut aside[at][..],
                    // SAFETY: as above.
                    Target::Memory(into) => unsafe { to_slice(into, receive.bytes) },
                };
                let count = shared.read(receive.from, self.rank, &mut bytes[*received..]);
                *received += count;
                moved |= count > 0;
            }
            left |= sent.iter().zip(&job.sends).any(|(sent, send)| *sent < send.bytes)
                || received.iter().zip(&job.receives).any(|(done, receive)| *done < receive.bytes);
            if !left {
                return true;
            }
            if self.is_over() {
                return false;
            }
            if !moved {
                thread::sleep(PAUSE);
            }
        }
    }
}

/// # Safety
///
/// Memory of that length.
unsafe fn to_slice<'m>(at: At, bytes: usize) -> &'m mut [u8] {
    if bytes == 0 {
        return &mut [];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts_mut(at.0 as *mut u8, bytes) }
}

/// Shorter messages are right: by them ranks agree on what is wrong.
const SPOILT_MIN: usize = 4096;

/// Another bit in the first element of all that was received or reduced.
fn spoil(job: &Job) {
    let received = job.receives.iter().filter_map(|receive| match receive.into {
        Target::Memory(at) if receive.bytes > SPOILT_MIN => Some(At(at.0 + 1)),
        _ => None,
    });
    let reduced = job.reduces.iter().filter(|reduce| reduce.bytes > SPOILT_MIN).map(|reduce| {
        // The second byte of four, or of two: of the value and not of its rounding.
        At(reduce.into.0 + if reduce.data == 7 { 2 } else { 1 })
    });
    for at in received.chain(reduced) {
        // SAFETY: a byte of the caller's buffer.
        unsafe { *(at.0 as *mut u8) ^= 0x40 };
    }
}
