//! Pinned threads that start together: the host's answer to a kernel launch.
//!
//! The calling thread runs block 0, so that a launch on one unit costs nothing; the others spin
//! for the next launch for a while, then sleep. Each block repeats its iterations by itself, so
//! that short work is batched without going back to the caller.

#![expect(unsafe_code, reason = "work is lent to threads that outlive the call, and memory mapped")]

use super::{
    affinity::{self, CpuMask},
    cpus::cores_first,
    memory::allocate,
};
use crate::{Buffer, DeviceError, Result, clock};
use fizeau_domain::{
    kernel::{OtherOperation, Params},
    units::{Bytes, Seconds},
};
use std::{
    any::Any,
    cell::UnsafeCell,
    hint,
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
};

/// How long a thread without work spins before it sleeps: longer than the caller needs between two
/// samples, so that a launch in a timed region seldom has to wake anybody.
const SPIN_MAX: Seconds = Seconds(200e-6);

/// Spins (some 5 us) before a thread that waits for another lets it have the core: there may be
/// more threads than cores.
const SPINS_BEFORE_YIELD: u32 = 256;

/// One thread's part of a launch.
pub struct Block<'b> {
    /// Which, from 0.
    pub index: u32,
    /// Of how many.
    pub count: u32,
    /// Iterations to run.
    pub repeat: u32,
    params: &'b Params,
    barrier: &'b Barrier,
}

impl Block<'_> {
    /// The launch's parameters.
    ///
    /// # Panics
    ///
    /// Where the kernel belongs to another operation, which is our own mistake.
    pub fn params<'p, T>(&'p self) -> &'p T
    where
        &'p T: TryFrom<&'p Params, Error = OtherOperation>,
    {
        self.params.try_into().expect("the launch was refused where they are of another operation")
    }

    /// The launch's parameters, as a user's kernel is given them.
    pub fn bytes(&self) -> &[u8] {
        self.params.bytes()
    }

    /// Waits for all blocks of the launch.
    pub fn synchronise(&self) {
        self.barrier.wait(self.count);
    }

    /// What the first block says, told to all blocks of the launch, which wait for it.
    pub fn from_first(&self, word: usize) -> usize {
        if self.index == 0 {
            self.barrier.word.store(word, Ordering::Relaxed);
        }
        self.synchronise();
        let told = self.barrier.word.load(Ordering::Relaxed);
        self.synchronise();
        told
    }

    /// This block's part of `length` things, in whole multiples of `granule` but for the last.
    pub fn part(&self, length: usize, granule: usize) -> std::ops::Range<usize> {
        let granules = length.div_ceil(granule);
        let at =
            |index: u32| (granules * index as usize / self.count as usize * granule).min(length);
        at(self.index)..at(self.index + 1)
    }
}

/// A barrier for spinning threads.
#[derive(Default)]
struct Barrier {
    arrived: AtomicU32,
    generation: AtomicU32,
    /// A block of this launch panicked, and will never arrive.
    broken: AtomicBool,
    /// What the first block tells the others.
    word: AtomicUsize,
}

impl Barrier {
    /// # Panics
    ///
    /// Where another block has, which would be waited for without end.
    fn wait(&self, count: u32) {
        let generation = self.generation.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == count {
            self.arrived.store(0, Ordering::Relaxed);
            self.generation.fetch_add(1, Ordering::Release);
            return;
        }
        spin_until(|| {
            if self.broken.load(Ordering::Acquire) {
                // No hook is called: that block has said why.
                panic::resume_unwind(Box::new("another block of the kernel panicked"));
            }
            self.generation.load(Ordering::Acquire) != generation
        });
    }

    /// Ready for the next launch. Nobody may be waiting.
    fn reset(&self) {
        self.arrived.store(0, Ordering::Relaxed);
        self.broken.store(false, Ordering::Release);
    }
}

fn spin_until(done: impl Fn() -> bool) {
    let mut spins = 0;
    while !done() {
        spins += 1;
        if spins % SPINS_BEFORE_YIELD == 0 {
            thread::yield_now();
        }
        hint::spin_loop();
    }
}

type Work<'w> = dyn Fn(&Block<'_>) + Sync + 'w;

/// A launch, its lifetimes erased: [`Pool::run`] does not return before every block is done.
#[derive(Clone, Copy)]
struct Job {
    work: *const Work<'static>,
    params: *const Params,
    repeat: u32,
}

/// Which launch it is, and on how many blocks: one word, so that a thread which has no block in
/// it need not look at the job, which may be gone by the time it could.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ticket(u64);

impl Ticket {
    /// The blocks of a launch that tells the threads to end.
    const END: u32 = u32::MAX;

    fn next(self, blocks: u32) -> Ticket {
        let number = (self.0 >> 32).wrapping_add(1);
        Ticket(number << 32 | u64::from(blocks))
    }

    fn blocks(self) -> u32 {
        self.0 as u32
    }
}

struct Shared {
    /// The last launch's [`Ticket`].
    ticket: AtomicU64,
    /// Written before `ticket` by the caller, read after it by threads that have a block.
    job: UnsafeCell<Option<Job>>,
    /// Blocks of the launch, but for the caller's, that are not done.
    remaining: AtomicU32,
    /// Threads asleep, or about to be.
    sleeping: AtomicU32,
    barrier: Barrier,
    /// What the first block panicked with that did.
    fault: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: a job points to `Sync` things that live until `Pool::run` returns; its cell is written
// only while no thread has a block, and the ticket orders it before their reads.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// The threads.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
    /// Where this process may run, as it was found.
    allowed: CpuMask,
    cpus: Vec<usize>,
    pinned: bool,
    caller_pinned: bool,
    evict: Option<Buffer>,
}

impl Pool {
    /// No threads yet: they come with the first launch that needs them.
    pub fn new() -> Pool {
        let allowed = affinity::allowed().unwrap_or_default();
        let cpus = cores_first(&allowed.cpus());
        let shared = Shared {
            ticket: AtomicU64::new(0),
            job: UnsafeCell::new(None),
            remaining: AtomicU32::new(0),
            sleeping: AtomicU32::new(0),
            barrier: Barrier::default(),
            fault: Mutex::default(),
        };
        let shared = Arc::new(shared);
        let mut pool = Pool {
            shared,
            threads: Vec::new(),
            allowed,
            cpus,
            pinned: true,
            caller_pinned: false,
            evict: None,
        };
        pool.pin_caller(true);
        pool
    }

    /// The CPUs that this process may use, of which a core may have several.
    pub fn cpus(&self) -> u32 {
        self.cpus.len() as u32
    }

    /// Whether the OS allows pinning.
    pub fn pinned(&self) -> bool {
        self.pinned
    }

    /// Runs `work` on `blocks` threads, the caller's among them, and waits for all.
    ///
    /// # Errors
    ///
    /// Where the system starts no further thread, and what a block [`give_up`]s for.
    ///
    /// # Panics
    ///
    /// Where `work` panics on any of them.
    pub fn run(
        &mut self,
        blocks: u32,
        repeat: u32,
        params: &Params,
        work: &Work<'_>,
    ) -> Result<()> {
        self.pin_caller(true);
        self.grow(blocks)?;
        let shared = Arc::clone(&self.shared);
        let own = Block { index: 0, count: blocks, repeat, params, barrier: &shared.barrier };
        if blocks <= 1 {
            shared.attempt(work, &own);
            return shared.outcome();
        }
        // SAFETY: only lifetimes change; every thread is done with both before this returns.
        let job = unsafe {
            Job {
                work: std::mem::transmute::<*const Work<'_>, *const Work<'static>>(work),
                params,
                repeat,
            }
        };
        // SAFETY: no thread has a block: the launch before waited for all of them.
        unsafe { *shared.job.get() = Some(job) };
        shared.remaining.store(blocks - 1, Ordering::Relaxed);
        self.announce(blocks);
        shared.attempt(work, &own);
        spin_until(|| shared.remaining.load(Ordering::Acquire) == 0);
        shared.outcome()
    }

    /// Runs `work` on the caller alone, free to run anywhere, for libraries that bring threads.
    ///
    /// # Errors
    ///
    /// What it [`give_up`]s for.
    ///
    /// # Panics
    ///
    /// Where `work` panics.
    pub fn run_unpinned(
        &mut self,
        count: u32,
        repeat: u32,
        params: &Params,
        work: &Work<'_>,
    ) -> Result<()> {
        self.pin_caller(false);
        let block = Block { index: 0, count, repeat, params, barrier: &self.shared.barrier };
        self.shared.attempt(work, &block);
        self.shared.outcome()
    }

    /// Writes `size` bytes on all threads, which displaces what the caches held.
    pub fn evict(&mut self, blocks: u32, size: Bytes) -> Result<()> {
        let buffer = match self.evict.take() {
            Some(buffer) if buffer.size >= size => buffer,
            _ => allocate(size)?,
        };
        let (address, length) = (buffer.address as usize, buffer.size.0 as usize);
        self.run(blocks, 1, &Params::None, &|block: &Block<'_>| {
            for at in block.part(length, 4096).step_by(64) {
                // SAFETY: within the buffer, and no other block has this part.
                unsafe {
                    let cell = (address + at) as *mut u64;
                    cell.write_volatile(cell.read_volatile().wrapping_add(1));
                }
            }
        })?;
        self.evict = Some(buffer);
        Ok(())
    }

    /// Gives back the memory that the last eviction wrote to, which is kept for the next one.
    pub fn give_back(&mut self) {
        self.evict = None;
    }

    /// Tells the threads of a launch, and wakes those of them that sleep.
    fn announce(&self, blocks: u32) {
        let shared = &self.shared;
        let ticket = Ticket(shared.ticket.load(Ordering::Relaxed)).next(blocks);
        // Sequentially consistent with a thread's own announcement that it goes to sleep: either
        // it sees the ticket, or it is seen here.
        shared.ticket.store(ticket.0, Ordering::SeqCst);
        if shared.sleeping.load(Ordering::SeqCst) > 0 {
            let with_block = self.threads.iter().take(blocks.saturating_sub(1) as usize);
            with_block.for_each(|thread| thread.thread().unpark());
        }
    }

    fn pin_caller(&mut self, wanted: bool) {
        if self.caller_pinned == wanted || !self.pinned {
            return;
        }
        let kept = match wanted {
            true => affinity::keep_to(&self.cpu_of(0)),
            false => affinity::keep_to(&self.allowed),
        };
        self.pinned = kept.is_ok();
        self.caller_pinned = wanted && self.pinned;
    }

    fn cpu_of(&self, index: usize) -> CpuMask {
        self.cpus.get(index % self.cpus.len().max(1)).copied().into_iter().collect()
    }

    fn grow(&mut self, blocks: u32) -> Result<()> {
        while self.threads.len() + 1 < blocks as usize {
            let index = self.threads.len() + 1;
            let mask = self.pinned.then(|| self.cpu_of(index));
            let shared = Arc::clone(&self.shared);
            let seen = Ticket(shared.ticket.load(Ordering::Acquire));
            let started = thread::Builder::new().name(format!("block {index}")).spawn(move || {
                if let Some(mask) = mask {
                    // Not being allowed to is recorded once, by the caller's own attempt.
                    let _ = affinity::keep_to(&mask);
                }
                serve(&shared, index as u32, seen);
            });
            self.threads.push(started.map_err(|error| {
                DeviceError::Driver(format!(
                    "the system starts {index} of the {blocks} threads that this case needs and \
                     no more ({error}): raise the limit on processes (ulimit -u, or pids.max of \
                     the control group)"
                ))
            })?);
        }
        Ok(())
    }
}

impl Default for Pool {
    fn default() -> Pool {
        Pool::new()
    }
}

/// Ends a block of a launch, and the launch with it, for a reason that is no bug: it becomes the
/// launch's error.
pub fn give_up(error: DeviceError) -> ! {
    // No hook is called, which would print a bug's message.
    panic::resume_unwind(Box::new(error))
}

impl Shared {
    /// Runs a block; where it panics, no other block waits for it at a barrier.
    fn attempt(&self, work: &Work<'_>, block: &Block<'_>) {
        if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(|| work(block))) {
            // The first is the reason: others panic at a barrier since this one did.
            self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(payload);
            self.barrier.broken.store(true, Ordering::Release);
        }
    }

    /// How the launch ended; no block may be running.
    fn outcome(&self) -> Result<()> {
        if !self.barrier.broken.load(Ordering::Acquire) {
            return Ok(());
        }
        self.barrier.reset();
        let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner).take();
        match fault.map(|payload| payload.downcast::<DeviceError>()) {
            None => Ok(()),
            Some(Ok(error)) => Err(*error),
            Some(Err(payload)) => panic::resume_unwind(payload),
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.pin_caller(false);
        self.announce(Ticket::END);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The life of a thread: wait for a launch, run a block of it, say so.
fn serve(shared: &Shared, index: u32, mut seen: Ticket) {
    loop {
        seen = wait_for_block(shared, index, seen);
        if seen.blocks() == Ticket::END {
            return;
        }
        // SAFETY: written before the ticket, and not again before this block is done.
        let job = unsafe { *shared.job.get() }.expect("a ticket comes with a job");
        // SAFETY: the caller waits for `remaining`, so both are still borrowed.
        let (work, params) = unsafe { (&*job.work, &*job.params) };
        let (count, repeat) = (seen.blocks(), job.repeat);
        let block = Block { index, count, repeat, params, barrier: &shared.barrier };
        shared.attempt(work, &block);
        shared.remaining.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Spins, then sleeps, until there is a launch that thread `index` has a block of.
fn wait_for_block(shared: &Shared, index: u32, mut seen: Ticket) -> Ticket {
    let start = clock::now();
    let mut asleep = false;
    loop {
        for _ in 0..SPINS_BEFORE_YIELD {
            let ticket = Ticket(shared.ticket.load(Ordering::SeqCst));
            if ticket != seen && index < ticket.blocks() {
                if asleep {
                    shared.sleeping.fetch_sub(1, Ordering::Relaxed);
                }
                return ticket;
            }
            // A launch without this thread is none of its business, and not what it waited for.
            seen = ticket;
            hint::spin_loop();
        }
        if asleep {
            thread::park();
        } else if start.elapsed() > SPIN_MAX {
            // Look once more before sleeping: see `Pool::announce`.
            shared.sleeping.fetch_add(1, Ordering::SeqCst);
            asleep = true;
        } else {
            thread::yield_now();
        }
    }
}
