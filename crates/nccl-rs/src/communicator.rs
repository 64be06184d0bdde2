//! One rank of a world.

use crate::{
    library::Library,
    table::{Comm, Config},
    types::{DataType, Error, IN_PROGRESS, Reduction, SUCCESS, Stream, UniqueId},
};
use std::{
    ffi::{c_int, c_void},
    marker::PhantomData,
    ptr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicPtr, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Between two questions whether something is done.
const PAUSE: Duration = Duration::from_micros(200);

/// Longest wait for a call that a non-blocking communicator has taken up.
const CALL_MAX: Duration = Duration::from_secs(120);

/// One rank of a world; left when dropped. Used by one thread; what another thread may do with it
/// is [`Monitor`]'s.
pub struct Communicator {
    shared: Arc<Shared>,
    rank: u32,
    size: u32,
    /// Of one thread at a time.
    _local: PhantomData<*mut ()>,
}

// SAFETY: the library ties a communicator to a device and not to a thread; the marker only keeps
// two threads from using it at once.
unsafe impl Send for Communicator {}

struct Shared {
    library: Arc<Library>,
    /// Null once it was aborted or destroyed.
    comm: AtomicPtr<c_void>,
    /// Held while the library is asked about the communicator, and while it is taken out: another
    /// thread must not ask about one that is freed meanwhile.
    asking: Mutex<()>,
}

impl Shared {
    fn comm(&self) -> Result<Comm, Error> {
        let comm = self.comm.load(Ordering::Acquire);
        if comm.is_null() { Err(Error::Aborted) } else { Ok(comm) }
    }

    /// Takes the communicator out, for whoever frees it; null where another thread has.
    fn take(&self) -> Comm {
        let _asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        self.comm.swap(ptr::null_mut(), Ordering::AcqRel)
    }

    fn async_code(&self) -> Result<c_int, Error> {
        let function = self.library.get(self.library.table.async_error, "ncclCommGetAsyncError")?;
        let _asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let (comm, mut code) = (self.comm()?, SUCCESS);
        // SAFETY: whoever frees the communicator takes it out first, and cannot meanwhile.
        let said = unsafe { function(comm, &raw mut code) };
        self.library.said("ncclCommGetAsyncError", said)?;
        Ok(code)
    }

    /// Waits for what a call has only begun.
    fn settle(&self, call: &'static str, code: c_int, limit: Duration) -> Result<(), Error> {
        let mut code = code;
        let start = Instant::now();
        while code == IN_PROGRESS {
            if start.elapsed() > limit {
                return Err(Error::Deadline { call, limit });
            }
            thread::sleep(PAUSE);
            code = self.async_code()?;
        }
        match code {
            SUCCESS => Ok(()),
            code => Err(self.library.error(call, code, self.comm()?)),
        }
    }
}

/// What any thread may do with a communicator: ask whether it failed, and end it.
#[derive(Clone)]
pub struct Monitor {
    shared: Arc<Shared>,
}

impl Monitor {
    /// The error that the communicator met in the background, such as a peer that went away.
    pub fn async_error(&self) -> Option<Error> {
        match self.shared.async_code() {
            Ok(SUCCESS | IN_PROGRESS) | Err(Error::Aborted | Error::NoSymbol { .. }) => None,
            Ok(code) => {
                let comm = self.shared.comm().unwrap_or(ptr::null_mut());
                Some(self.shared.library.error("ncclCommGetAsyncError", code, comm))
            }
            Err(error) => Some(error),
        }
    }

    /// Ends the communicator and what is in flight on it. May wait for the device.
    ///
    /// # Errors
    ///
    /// Whatever the library says.
    pub fn abort(&self) -> Result<(), Error> {
        let abort = self.shared.library.get(self.shared.library.table.abort, "ncclCommAbort")?;
        let comm = self.shared.take();
        if comm.is_null() {
            return Ok(());
        }
        // SAFETY: taken out of the shared place, so that nobody begins anything on it any more;
        // calls in flight are what the function is made for.
        self.shared.library.said("ncclCommAbort", unsafe { abort(comm) })
    }
}

// SAFETY: the library documents both functions as callable while others use the communicator.
unsafe impl Send for Shared {}
// SAFETY: as above; the pointer is atomic, the table is constant.
unsafe impl Sync for Shared {}

/// `NCCL_WIN_COLL_SYMMETRIC`.
pub(crate) const SYMMETRIC: c_int = 1;

impl Communicator {
    /// Joins a world as one of its ranks, on the device whose context is current, without waiting
    /// for longer than `limit`. Blocks where the library is older than 2.14.
    ///
    /// # Errors
    ///
    /// Whatever the library says; [`Error::Deadline`] where the other ranks do not come.
    pub fn new(
        library: &Arc<Library>,
        id: &UniqueId,
        rank: u32,
        size: u32,
        limit: Duration,
    ) -> Result<Communicator, Error> {
        let mut comm: Comm = ptr::null_mut();
        let (rank_of, size_of) = (rank as c_int, size as c_int);
        let mut config = Config::non_blocking();
        let (call, code) = match (library.table.init_config, library.table.async_error) {
            // SAFETY: the pointers are valid; the configuration states its own length.
            (Some(init), Some(_)) => ("ncclCommInitRankConfig", unsafe {
                init(&raw mut comm, size_of, *id, rank_of, &raw mut config)
            }),
            _ => {
                let init = library.get(library.table.init, "ncclCommInitRank")?;
                // SAFETY: the pointer is valid.
                ("ncclCommInitRank", unsafe { init(&raw mut comm, size_of, *id, rank_of) })
            }
        };
        if comm.is_null() {
            library.said(call, if code == IN_PROGRESS { SUCCESS } else { code })?;
            return Err(Error::Aborted);
        }
        let (library, asking) = (Arc::clone(library), Mutex::default());
        let shared = Shared { library, comm: AtomicPtr::new(comm), asking };
        let made = Communicator { shared: Arc::new(shared), rank, size, _local: PhantomData };
        if let Err(error) = made.shared.settle(call, code, limit) {
            // What was begun cannot be destroyed in peace. The first error is what counts.
            let _ = made.monitor().abort();
            return Err(error);
        }
        Ok(made)
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks in all, as they were asked for.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Rank and size as the library itself has them.
    ///
    /// # Errors
    ///
    /// Whatever the library says.
    pub fn place(&self) -> Result<[u32; 2], Error> {
        let library = self.library();
        let (mut rank, mut size) = (0, 0);
        let user_rank = library.get(library.table.user_rank, "ncclCommUserRank")?;
        let count = library.get(library.table.count, "ncclCommCount")?;
        // SAFETY: the pointers are valid.
        unsafe {
            self.done("ncclCommUserRank", user_rank(self.comm()?, &raw mut rank))?;
            self.done("ncclCommCount", count(self.comm()?, &raw mut size))?;
        }
        Ok([rank, size].map(|value| value.max(0) as u32))
    }

    /// The library.
    pub fn library(&self) -> &Arc<Library> {
        &self.shared.library
    }

    /// What another thread may do with it.
    pub fn monitor(&self) -> Monitor {
        Monitor { shared: Arc::clone(&self.shared) }
    }

    fn comm(&self) -> Result<Comm, Error> {
        self.shared.comm()
    }

    /// Waits until what a call has begun is on the stream.
    fn done(&self, call: &'static str, code: c_int) -> Result<(), Error> {
        self.shared.settle(call, code, CALL_MAX)
    }

    /// Everything that `run` enqueues goes out together: sends and receives between many ranks
    /// wait for each other only at the end.
    ///
    /// # Errors
    ///
    /// What `run` or the library says; the group is closed in either case.
    pub fn group(&self, run: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let library = self.library();
        let start = library.get(library.table.group_start, "ncclGroupStart")?;
        let end = library.get(library.table.group_end, "ncclGroupEnd")?;
        // SAFETY: a group of this thread, closed below.
        library.said("ncclGroupStart", unsafe { start() })?;
        let ran = run();
        // SAFETY: the group opened above.
        let code = unsafe { end() };
        ran.and_then(|()| self.done("ncclGroupEnd", code))
    }

    /// Makes a buffer known, so that transports need not copy it.
    ///
    /// # Errors
    ///
    /// Whatever the library says; older than 2.19 it has no such function. [`Error::Declined`]
    /// where it keeps no registration.
    ///
    /// # Safety
    ///
    /// The range is device memory that lives longer than the registration.
    pub unsafe fn register(&self, at: *mut c_void, bytes: usize) -> Result<Registration, Error> {
        let table = &self.library().table;
        let register = self.library().get(table.register, "ncclCommRegister")?;
        // SAFETY: the caller's promise.
        let call = |comm, handle| unsafe { register(comm, at, bytes, handle) };
        self.registered("ncclCommRegister", table.deregister, call)
    }

    /// Makes a buffer a window that is alike on all ranks; all of them call this together.
    ///
    /// # Errors
    ///
    /// Whatever the library says; older than 2.27 it has no such function. [`Error::Declined`]
    /// where these devices cannot have one.
    ///
    /// # Safety
    ///
    /// The range is memory of [`Library::allocate`] that lives longer than the window.
    pub unsafe fn window(&self, at: *mut c_void, bytes: usize) -> Result<Registration, Error> {
        let table = &self.library().table;
        let register = self.library().get(table.window_register, "ncclCommWindowRegister")?;
        // SAFETY: the caller's promise.
        let call = |comm, handle| unsafe { register(comm, at, bytes, handle, SYMMETRIC) };
        self.registered("ncclCommWindowRegister", table.window_deregister, call)
    }

    fn registered(
        &self,
        call: &'static str,
        give_back: Option<GiveBack>,
        register: impl FnOnce(Comm, *mut *mut c_void) -> c_int,
    ) -> Result<Registration, Error> {
        // A call that is only begun writes the handle later: it must not lie on this stack, and is
        // left where it is if the call does not end.
        let handle = Box::into_raw(Box::new(ptr::null_mut()));
        self.done(call, register(self.comm()?, handle))?;
        // SAFETY: made above, and the call that writes it is over.
        let handle = *unsafe { Box::from_raw(handle) };
        if handle.is_null() {
            return Err(Error::Declined { call });
        }
        Ok(Registration { shared: Arc::clone(&self.shared), handle, give_back })
    }
}

/// Declares the methods that call one function of the library each. All of these functions take
/// their buffers, a count, an element type, up to two numbers more, the communicator and a stream.
macro_rules! calls {
    ($(
        $(#[$doc:meta])*
        $visibility:vis $name:ident = $table:ident $symbol:literal
            ($($buffer:ident: $pointer:ty),*; $($number:ident: $type:ty),*);
    )*) => { $(
        $(#[$doc])*
        $visibility unsafe fn $name(
            &self,
            $($buffer: $pointer,)*
            count: usize,
            data: DataType,
            $($number: $type,)*
            stream: Stream,
        ) -> Result<(), Error> {
            let function = self.ready(self.library().table.$table, $symbol, data)?;
            let (data, comm) = (data as c_int, self.comm()?);
            // SAFETY: the caller's promise.
            let code = unsafe {
                function($($buffer,)* count, data, $($number as c_int,)* comm, stream)
            };
            self.done($symbol, code)
        }
    )* };
}

/// The collectives that every version has. Counts are elements; buffers may be the same where
/// NCCL's manual allows it in place.
///
/// # Errors
///
/// Of each: whatever the library says. Older than 2.7 it has neither `send` nor `receive`.
///
/// # Safety
///
/// Of each: buffers are device memory as large as counts say, on the communicator's device, and
/// live until the stream is done; the stream is of that device.
#[expect(clippy::missing_safety_doc, reason = "stated for all of them at the head")]
#[expect(clippy::too_many_arguments, reason = "as many as the library's functions have")]
impl Communicator {
    calls! {
        /// Every rank ends with the reduction over all ranks.
        pub all_reduce = all_reduce "ncclAllReduce"
            (send: *const c_void, receive: *mut c_void; reduction: Reduction);
        /// The root ends with the reduction over all ranks.
        pub reduce = reduce "ncclReduce"
            (send: *const c_void, receive: *mut c_void; reduction: Reduction, root: u32);
        /// Every rank ends with the root's buffer.
        pub broadcast = broadcast "ncclBroadcast"
            (send: *const c_void, receive: *mut c_void; root: u32);
        /// Every rank ends with all ranks' buffers, `count` elements each.
        pub all_gather = all_gather "ncclAllGather" (send: *const c_void, receive: *mut c_void;);
        /// Every rank ends with its part, `count` elements, of the reduction.
        pub reduce_scatter = reduce_scatter "ncclReduceScatter"
            (send: *const c_void, receive: *mut c_void; reduction: Reduction);
        /// Sends elements to another rank, which receives as many.
        pub send = send "ncclSend" (from: *const c_void; to: u32);
        /// Receives elements from another rank.
        pub receive = receive "ncclRecv" (into: *mut c_void; from: u32);

        // What only newer versions have.
        pub(crate) native_all_to_all = all_to_all "ncclAlltoAll"
            (send: *const c_void, receive: *mut c_void;);
        pub(crate) native_gather = gather "ncclGather"
            (send: *const c_void, receive: *mut c_void; root: u32);
        pub(crate) native_scatter = scatter "ncclScatter"
            (send: *const c_void, receive: *mut c_void; root: u32);
    }

    /// A function for an element type that the library knows.
    fn ready<F: Copy>(
        &self,
        function: Option<F>,
        call: &'static str,
        data: DataType,
    ) -> Result<F, Error> {
        self.library().knows(data)?;
        self.library().get(function, call)
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        let comm = self.shared.take();
        let table = &self.shared.library.table;
        if comm.is_null() {
            return;
        }
        // SAFETY: taken out of the shared place: destroyed once, and used no more. A refusal here
        // helps nobody; a communicator of before 2.14 needs no finalising.
        unsafe {
            if let (Some(finalize), Some(asked)) = (table.finalize, table.async_error) {
                let mut code = finalize(comm);
                let start = Instant::now();
                while code == IN_PROGRESS && start.elapsed() < CALL_MAX {
                    thread::sleep(PAUSE);
                    if asked(comm, &raw mut code) != SUCCESS {
                        break;
                    }
                }
            }
            if let Some(destroy) = table.destroy {
                let _ = destroy(comm);
            }
        }
    }
}

/// What takes a registration back.
type GiveBack = unsafe extern "C" fn(Comm, *mut c_void) -> c_int;

/// What a buffer is known to a communicator as: a registration, or a window. Given back when
/// dropped, unless the communicator has ended before.
pub struct Registration {
    shared: Arc<Shared>,
    handle: *mut c_void,
    give_back: Option<GiveBack>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let (Some(give_back), Ok(comm)) = (self.give_back, self.shared.comm()) {
            // SAFETY: registered once on this communicator. A refusal here helps nobody.
            let _ = unsafe { give_back(comm, self.handle) };
        }
    }
}
