//! The functions of `libnccl.so.2`.

use crate::{
    driver::{Driver, Stream},
    job::{
        self, At, Copy, IN_PROGRESS, INVALID_ARGUMENT, Job, OK, Receive, Reduce, Send, Target,
        UNHANDLED_CUDA,
    },
    rank::{Kind, Rank},
    script::Script,
};
use std::{
    cell::RefCell,
    ffi::{c_char, c_int, c_void},
    hash::{BuildHasher, Hasher},
    sync::atomic::Ordering,
    thread,
    time::Duration,
};

type Comm = *mut Rank;

/// `ncclUniqueId`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Id([u8; 128]);

/// The first words of `ncclConfig_t`.
#[repr(C)]
pub struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: c_int,
}

/// Declares the functions.
macro_rules! export {
    ($( $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block )*) => {
        $(
            #[doc = "As the vendor documents it."]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> c_int { $body }
        )*
    };
}

/// Declares those that move bytes: their bodies say which, and it is enqueued.
macro_rules! export_moving {
    ($( $name:ident($($arg:ident: $type:ty),* $(,)?) |$call:ident| $body:block )*) => {
        $(
            #[doc = "As the vendor documents it."]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(
                $($arg: $type,)* comm: Comm, stream: *mut c_void
            ) -> c_int {
                let Some(mut $call) = Call::new(stringify!($name), comm, stream) else {
                    return INVALID_ARGUMENT;
                };
                let said: Option<()> = (|| { $body Some(()) })();
                if said.is_none() {
                    return INVALID_ARGUMENT;
                }
                take(comm, $call.job)
            }
        )*
    };
}

/// Groups of a thread: their depth, and what they hold.
#[derive(Default)]
struct Group {
    depth: u32,
    jobs: Vec<(Comm, Job)>,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
}

/// Takes an operation up, or keeps it for the end of its group.
unsafe fn take(comm: Comm, job: Job) -> c_int {
    GROUP.with_borrow_mut(|group| {
        if group.depth == 0 {
            return Rank::enqueue(comm, job);
        }
        match group.jobs.iter_mut().find(|(other, _)| *other == comm) {
            Some((_, jobs)) => jobs.add(job),
            None => group.jobs.push((comm, job)),
        }
        OK
    })
}

fn at(address: *const c_void) -> At {
    At(address as usize)
}

/// A call in the making, as one rank sees it.
struct Call {
    rank: usize,
    size: usize,
    /// Bytes of a message.
    bytes: usize,
    data: c_int,
    job: Job,
}

impl Call {
    unsafe fn new(name: &'static str, comm: Comm, stream: *mut c_void) -> Option<Call> {
        if comm.is_null() {
            return None;
        }
        let job = Job { name, streams: vec![Stream(stream)], ..Job::default() };
        Some(Call { rank: (*comm).rank, size: (*comm).size, bytes: 0, data: 0, job })
    }

    /// Bytes of a message with `count` elements; none for an unknown type.
    fn of(&mut self, count: usize, data: c_int) -> Option<()> {
        self.bytes = job::width(data)?.checked_mul(count)?;
        (self.data, self.job.data) = (data, data);
        Some(())
    }

    fn others(&self) -> Vec<usize> {
        (0..self.size).filter(|&other| other != self.rank).collect()
    }

    /// A rank's part of a buffer.
    fn part(&self, address: *const c_void, rank: usize) -> At {
        At(address as usize + rank * self.bytes)
    }

    fn send(&mut self, to: usize, from: At) {
        self.job.sends.push(Send { to, from, bytes: self.bytes });
    }

    fn receive(&mut self, from: usize, into: Target) {
        self.job.receives.push(Receive { from, into, bytes: self.bytes });
    }

    /// The same to every other rank.
    fn send_all(&mut self, from: *const c_void) {
        self.others().into_iter().for_each(|to| self.send(to, at(from)));
    }

    /// To every other rank its part.
    fn send_parts(&mut self, from: *const c_void) {
        self.others().into_iter().for_each(|to| self.send(to, self.part(from, to)));
    }

    /// From every other rank its part.
    fn receive_parts(&mut self, into: *const c_void) {
        let others = self.others().into_iter();
        others.for_each(|from| self.receive(from, Target::Memory(self.part(into, from))));
    }

    /// What stays on this rank.
    fn keep(&mut self, from: At, into: At) {
        self.job.copies.push(Copy { from, into, bytes: self.bytes });
    }

    /// Every other rank's message and one's own, reduced.
    fn reduce(&mut self, own: At, into: *mut c_void, operation: c_int) {
        self.others().into_iter().for_each(|from| self.receive(from, Target::Aside));
        let (bytes, data) = (self.bytes, self.data);
        self.job.reduces.push(Reduce { own, into: at(into), bytes, data, operation });
    }
}

unsafe fn start(comm: *mut Comm, size: c_int, id: Id, rank: c_int, is_blocking: bool) -> c_int {
    let Some(driver) = Driver::find() else { return UNHANDLED_CUDA };
    if rank < 0 || rank >= size {
        return INVALID_ARGUMENT;
    }
    let joined = Rank::join(&id.0, rank as usize, size as usize, driver);
    let state = joined.state.clone();
    comm.write(Box::into_raw(Box::new(joined)));
    while is_blocking && state.code.load(Ordering::Acquire) == IN_PROGRESS {
        thread::sleep(Duration::from_micros(100));
    }
    state.code.load(Ordering::Acquire)
}

/// Words for a code.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGetErrorString(code: c_int) -> *const c_char {
    let words = match code {
        0 => c"no error",
        1 => c"unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        2 => c"unhandled system error (run with NCCL_DEBUG=INFO for details)",
        3 => c"internal error - please report this issue to the NCCL developers",
        4 => c"invalid argument (run with NCCL_DEBUG=WARN for details)",
        5 => c"invalid usage (run with NCCL_DEBUG=WARN for details)",
        6 => c"remote process exited or there was a network error",
        7 => c"NCCL operation in progress",
        _ => c"unknown result code",
    };
    words.as_ptr()
}

/// Nothing is kept.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGetLastError(_comm: *mut c_void) -> *const c_char {
    c"".as_ptr()
}

export! {
    ncclGetVersion(version: *mut c_int) { version.write(Script::read(stub_rank()).version); OK }
    ncclGetUniqueId(id: *mut Id) {
        let mut bytes = [0; 128];
        for chunk in bytes[..16].chunks_mut(8) {
            let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
            chunk.copy_from_slice(&random.to_le_bytes());
        }
        id.write(Id(bytes));
        OK
    }
    ncclCommInitRank(comm: *mut Comm, size: c_int, id: Id, rank: c_int) {
        start(comm, size, id, rank, true)
    }
    ncclCommInitRankConfig(
        comm: *mut Comm, size: c_int, id: Id, rank: c_int, config: *const Config
    ) {
        if (*config).magic != 0xcafe_beef || (*config).size < size_of::<Config>() {
            return INVALID_ARGUMENT;
        }
        start(comm, size, id, rank, (*config).blocking != 0)
    }
    ncclCommFinalize(_comm: Comm) { OK }
    ncclCommDestroy(comm: Comm) {
        if comm.is_null() { return INVALID_ARGUMENT; }
        Box::from_raw(comm).end(false);
        OK
    }
    ncclCommAbort(comm: Comm) {
        if comm.is_null() { return INVALID_ARGUMENT; }
        Box::from_raw(comm).end(true);
        OK
    }
    ncclCommGetAsyncError(comm: Comm, code: *mut c_int) {
        let state = &(*comm).state;
        code.write(state.code.load(Ordering::Acquire));
        OK
    }
    ncclCommCount(comm: Comm, count: *mut c_int) { count.write((*comm).size as c_int); OK }
    ncclCommUserRank(comm: Comm, rank: *mut c_int) { rank.write((*comm).rank as c_int); OK }
    ncclCommRegister(comm: Comm, at: *mut c_void, bytes: usize, handle: *mut *mut c_void) {
        if comm.is_null() || at.is_null() { return INVALID_ARGUMENT; }
        handle.write((*comm).register(at as usize, bytes, Kind::Registered));
        OK
    }
    ncclCommDeregister(comm: Comm, handle: *mut c_void) {
        if (*comm).deregister(handle, Kind::Registered) { OK } else { INVALID_ARGUMENT }
    }
    ncclCommWindowRegister(
        comm: Comm, at: *mut c_void, bytes: usize, handle: *mut *mut c_void, flags: c_int,
    ) {
        if comm.is_null() || at.is_null() || flags != 1 { return INVALID_ARGUMENT; }
        handle.write((*comm).register(at as usize, bytes, Kind::Symmetric));
        OK
    }
    ncclCommWindowDeregister(comm: Comm, handle: *mut c_void) {
        if (*comm).deregister(handle, Kind::Symmetric) { OK } else { INVALID_ARGUMENT }
    }
    ncclMemAlloc(address: *mut *mut c_void, bytes: usize) {
        let Some(driver) = Driver::find() else { return UNHANDLED_CUDA };
        match driver.allocate(bytes) {
            Some(at) => { address.write(at as *mut c_void); OK }
            None => UNHANDLED_CUDA,
        }
    }
    ncclMemFree(address: *mut c_void) {
        let Some(driver) = Driver::find() else { return UNHANDLED_CUDA };
        if driver.free(address as u64) { OK } else { INVALID_ARGUMENT }
    }
    ncclGroupStart() { GROUP.with_borrow_mut(|group| group.depth += 1); OK }
    ncclGroupEnd() {
        let jobs = GROUP.with_borrow_mut(|group| {
            group.depth = group.depth.saturating_sub(1);
            if group.depth == 0 { std::mem::take(&mut group.jobs) } else { Vec::new() }
        });
        let mut codes = jobs.into_iter().map(|(comm, job)| Rank::enqueue(comm, job));
        codes.find(|&code| code != OK).unwrap_or(OK)
    }
}

export_moving! {
    ncclAllReduce(
        send: *const c_void, receive: *mut c_void, count: usize, data: c_int, operation: c_int
    ) |call| {
        call.of(count, data)?;
        call.send_all(send);
        call.reduce(at(send), receive, operation);
    }
    ncclReduce(
        send: *const c_void, receive: *mut c_void, count: usize, data: c_int, operation: c_int,
        root: c_int,
    ) |call| {
        call.of(count, data)?;
        match call.rank == root as usize {
            true => call.reduce(at(send), receive, operation),
            false => call.send(root as usize, at(send)),
        }
    }
    ncclBroadcast(
        send: *const c_void, receive: *mut c_void, count: usize, data: c_int, root: c_int
    ) |call| {
        call.of(count, data)?;
        if call.rank == root as usize {
            call.send_all(send);
            call.keep(at(send), at(receive));
        } else {
            call.receive(root as usize, Target::Memory(at(receive)));
        }
    }
    ncclAllGather(send: *const c_void, receive: *mut c_void, count: usize, data: c_int) |call| {
        call.of(count, data)?;
        call.send_all(send);
        call.receive_parts(receive);
        call.keep(at(send), call.part(receive, call.rank));
    }
    ncclReduceScatter(
        send: *const c_void, receive: *mut c_void, count: usize, data: c_int, operation: c_int
    ) |call| {
        call.of(count, data)?;
        call.send_parts(send);
        call.reduce(call.part(send, call.rank), receive, operation);
    }
    ncclAlltoAll(send: *const c_void, receive: *mut c_void, count: usize, data: c_int) |call| {
        call.of(count, data).filter(|()| send != receive.cast_const())?;
        call.send_parts(send);
        call.receive_parts(receive);
        call.keep(call.part(send, call.rank), call.part(receive, call.rank));
    }
    ncclGather(
        send: *const c_void, receive: *mut c_void, count: usize, data: c_int, root: c_int
    ) |call| {
        call.of(count, data)?;
        if call.rank == root as usize {
            call.receive_parts(receive);
            call.keep(at(send), call.part(receive, call.rank));
        } else {
            call.send(root as usize, at(send));
        }
    }
    ncclScatter(
        send: *const c_void, receive: *mut c_void, count: usize, data: c_int, root: c_int
    ) |call| {
        call.of(count, data)?;
        if call.rank == root as usize {
            call.send_parts(send);
            call.keep(call.part(send, call.rank), at(receive));
        } else {
            call.receive(root as usize, Target::Memory(at(receive)));
        }
    }
    ncclSend(send: *const c_void, count: usize, data: c_int, peer: c_int) |call| {
        call.of(count, data)?;
        call.send(peer as usize, at(send));
    }
    ncclRecv(receive: *mut c_void, count: usize, data: c_int, peer: c_int) |call| {
        call.of(count, data)?;
        call.receive(peer as usize, Target::Memory(at(receive)));
    }
}

/// The rank that a test has started this process as, before it joins anything.
fn stub_rank() -> Option<i32> {
    std::env::var("RANK").ok()?.parse().ok()
}
