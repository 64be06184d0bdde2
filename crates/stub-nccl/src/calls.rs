//! The functions of `libnccl.so.2`.

use crate::{
    driver::{Driver, Stream},
    job::{
        self, At, Copy, IN_PROGRESS, INVALID_ARGUMENT, INVALID_USAGE, Job, OK, Receive, Reduce,
        Send, Target, UNHANDLED_CUDA,
    },
    rank::Rank,
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
    ($( $name:ident($($arg:ident: $type:ty),*) $body:block )*) => {
        $(
            #[doc = "As the vendor documents it."]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> c_int { $body }
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
    if comm.is_null() {
        return INVALID_ARGUMENT;
    }
    GROUP.with_borrow_mut(|group| {
        if group.depth == 0 {
            return (*comm).enqueue(job);
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

fn part(address: *const c_void, index: usize, bytes: usize) -> At {
    At(address as usize + index * bytes)
}

/// The bytes of a count, or the code of an element type that nobody knows.
macro_rules! bytes {
    ($count:expr, $data:expr) => {
        match job::width($data) {
            Some(width) => $count * width,
            None => return INVALID_ARGUMENT,
        }
    };
}

/// The other ranks.
unsafe fn others(comm: Comm) -> (usize, Vec<usize>) {
    let (rank, size) = ((*comm).rank, (*comm).size);
    (rank, (0..size).filter(|&other| other != rank).collect())
}

fn on(stream: *mut c_void) -> Job {
    Job { streams: vec![Stream(stream)], ..Job::default() }
}

/// Messages to each of some ranks, and from each of some; a part's place is its rank's.
fn messages(job: &mut Job, to: Vec<(usize, At)>, from: Vec<(usize, Target)>, bytes: usize) {
    job.sends = to.into_iter().map(|(to, from)| Send { to, from, bytes }).collect();
    job.receives = from.into_iter().map(|(from, into)| Receive { from, into, bytes }).collect();
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
    ncclCommRegister(_comm: Comm, _at: *mut c_void, _bytes: usize, handle: *mut *mut c_void) {
        handle.write(std::ptr::dangling_mut::<u8>().cast());
        OK
    }
    ncclCommDeregister(_comm: Comm, _handle: *mut c_void) { OK }
    ncclGroupStart() { GROUP.with_borrow_mut(|group| group.depth += 1); OK }
    ncclGroupEnd() {
        let jobs = GROUP.with_borrow_mut(|group| {
            group.depth = group.depth.saturating_sub(1);
            if group.depth == 0 { std::mem::take(&mut group.jobs) } else { Vec::new() }
        });
        jobs.into_iter().map(|(comm, job)| (*comm).enqueue(job)).find(|&code| code != OK).unwrap_or(OK)
    }
    ncclAllReduce(
        send: *const c_void, receive: *mut c_void, count: usize, data: c_int, operation: c_int,
        comm: Comm, stream: *mut c_void
    ) {
        let bytes = bytes!(count, data);
        let (_, others) = others(comm);
        let mut job = on(stream);
        let to = others.iter().map(|&other| (other, at(send))).collect();
        let from = others.iter().map(|&other| (other, Target::Aside)).collect();
        messages(&mut job, to, from, bytes);
        job.reduces.push(Reduce { own: at(send), into: at(receive), bytes, data, operation });
        take(comm, job)
    }
    ncclReduce(
        send: *const c_void, receive: *mut c_void, count: usize, data: c_int, operation: c_int,
        root: c_int, comm: Comm, stream: *mut c_void
    ) {
        let bytes = bytes!(count, data);
        let (rank, others) = others(comm);
        let mut job = on(stream);
        if rank == root as usize {
            let from = others.iter().map(|&other| (other, Target::Aside)).collect();
            messages(&mut job, Vec::new(), from, bytes);
            job.reduces.push(Reduce { own: at(send), into: at(receive), bytes, data, operation });
        } else {
            messages(&mut job, vec![(root as usize, at(send))], Vec::new(), bytes);
        }
        take(comm, job)
    }
    ncclBroadcast(
        send: *const c_void, receive: *mut c_void, count: usize, data: c_int, root: c_int,
        comm: Comm, stream: *mut c_void
    ) {
        let bytes = bytes!(count, data);
        let (rank, others) = others(comm);
        let mut job = on(stream);
        if rank == root as usize {
            let to = others.iter().map(|&other| (other, at(send))).collect();
            messages(&mut job, to, Vec::new(), bytes);
            job.copies.push(Copy { from: at(send), into: at(receive), bytes });
        } else {
            let from = vec![(root as usize, Target::Memory(at(receive)))];
            messages(&mut job, Vec::new(), from, bytes);
        }
        take(comm, job)
    }
    ncclAllGather(
        send: *const c_void, receive: *mut c_void, count: usize, data: c_int, comm: Comm,
        stream: *mut c_void
    ) {
        let bytes = bytes!(count, data);
        let (rank, others) = others(comm);
        let mut job = on(stream);
        let to = others.iter().map(|&other| (other, at(send))).collect();
        let place = |other| Target::Memory(part(receive, other, bytes));
        let from = others.iter().map(|&other| (other, place(other))).collect();
        messages(&mut job, to, from, bytes);
        job.copies.push(Copy { from: at(send), into: part(receive, rank, bytes), bytes });
        take(comm, job)
    }
    ncclReduceScatter(
        send: *const c_void, receive: *mut c_void, count: usize, data: c_int, operation: c_int,
        comm: Comm, stream: *mut c_void
    ) {
        let bytes = bytes!(count, data);
        let (rank, others) = others(comm);
        let mut job = on(stream);
        let to = others.iter().map(|&other| (other, part(send, other, bytes))).collect();
        let from = others.iter().map(|&other| (other, Target::Aside)).collect();
        messages(&mut job, to, from, bytes);
        let own = part(send, rank, bytes);
        job.reduces.push(Reduce { own, into: at(receive), bytes, data, operation });
        take(comm, job)
    }
    ncclAlltoAll(
        send: *const c_void, receive: *mut c_void, count: usize, data: c_int, comm: Comm,
        stream: *mut c_void
    ) {
        let bytes = bytes!(count, data);
        if send == receive.cast_const() { return INVALID_USAGE; }
        let (rank, others) = others(comm);
        let mut job = on(stream);
        let to = others.iter().map(|&other| (other, part(send, other, bytes))).collect();
        let place = |other| Target::Memory(part(receive, other, bytes));
        let from = others.iter().map(|&other| (other, place(other))).collect();
        messages(&mut job, to, from, bytes);
        let (from, into) = (part(send, rank, bytes), part(receive, rank, bytes));
        job.copies.push(Copy { from, into, bytes });
        take(comm, job)
    }
    ncclGather(
        send: *const c_void, receive: *mut c_void, count: usize, data: c_int, root: c_int,
        comm: Comm, stream: *mut c_void
    ) {
        let bytes = bytes!(count, data);
        let (rank, others) = others(comm);
        let mut job = on(stream);
        if rank == root as usize {
            let place = |other| Target::Memory(part(receive, other, bytes));
            let from = others.iter().map(|&other| (other, place(other))).collect();
            messages(&mut job, Vec::new(), from, bytes);
            job.copies.push(Copy { from: at(send), into: part(receive, rank, bytes), bytes });
        } else {
            messages(&mut job, vec![(root as usize, at(send))], Vec::new(), bytes);
        }
        take(comm, job)
    }
    ncclScatter(
        send: *const c_void, receive: *mut c_void, count: usize, data: c_int, root: c_int,
        comm: Comm, stream: *mut c_void
    ) {
        let bytes = bytes!(count, data);
        let (rank, others) = others(comm);
        let mut job = on(stream);
        if rank == root as usize {
            let to = others.iter().map(|&other| (other, part(send, other, bytes))).collect();
            messages(&mut job, to, Vec::new(), bytes);
            job.copies.push(Copy { from: part(send, rank, bytes), into: at(receive), bytes });
        } else {
            let from = vec![(root as usize, Target::Memory(at(receive)))];
            messages(&mut job, Vec::new(), from, bytes);
        }
        take(comm, job)
    }
    ncclSend(
        send: *const c_void, count: usize, data: c_int, peer: c_int, comm: Comm,
        stream: *mut c_void
    ) {
        let bytes = bytes!(count, data);
        let mut job = on(stream);
        messages(&mut job, vec![(peer as usize, at(send))], Vec::new(), bytes);
        take(comm, job)
    }
    ncclRecv(
        receive: *mut c_void, count: usize, data: c_int, peer: c_int, comm: Comm,
        stream: *mut c_void
    ) {
        let bytes = bytes!(count, data);
        let mut job = on(stream);
        let from = vec![(peer as usize, Target::Memory(at(receive)))];
        messages(&mut job, Vec::new(), from, bytes);
        take(comm, job)
    }
}

/// The rank that a test has started this process as, before it joins anything.
fn stub_rank() -> Option<i32> {
    std::env::var("RANK").ok()?.parse().ok()
}
