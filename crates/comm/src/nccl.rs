//! Ranks with a GPU each, threads of one process or processes on many nodes: collectives by NCCL
//! or RCCL.
//!
//! A collective is enqueued on the device's own stream and the device works it off by itself: the
//! watch counts from there until whoever timed it says that it is done. What ranks agree on
//! between collectives goes through the same communicator, so that nothing else on the network is
//! ours.

use super::{
    Communicator, Graph, RankBuffers,
    watchdog::{
        Asked, OnHang, Operation, Watchdog, neighbours::Peer, pairwise, shared_board::Board,
    },
};
use fizeau_device::{
    Buffer, Device, DeviceError, Result, Stream,
    library::{self, Wanted},
};
use fizeau_domain::{
    case::{Buffers, Collective, CollectivePoint, KernelName},
    dtype::Dtype,
    units::{Bytes, Seconds},
};
use nccl_rs::{
    DataType, Error, Library, Memory, Monitor, Peers, Reduction, Registration, Slice, UniqueId,
};
use std::{
    ffi::c_void,
    sync::{Arc, OnceLock},
    time::Duration,
};

const NCCL: Wanted = Wanted {
    files: Library::NCCL,
    before: "",
    folders: &[],
    remedy: "install NCCL (pip install nvidia-nccl-cu13, or nvidia-nccl-cu12 as the driver is); \
           FIZEAU_LIBRARY_PATH may name its folder",
};

const RCCL: Wanted = Wanted {
    files: Library::RCCL,
    before: "",
    folders: &["/opt/rocm/lib"],
    remedy: "install ROCm's rccl; FIZEAU_LIBRARY_PATH may name its folder",
};

/// The libraries' names among kernels.
const NAMES: [&str; 2] = ["nccl", "rccl"];

/// Whether a kernel's name is one of the two libraries'.
pub(super) fn is_library(kernel: &KernelName) -> bool {
    NAMES.contains(&kernel.0.as_str())
}

/// Longest wait for all ranks to join.
const JOIN_MAX: Duration = Duration::from_secs(120);

/// A library with the name that its collectives have as kernels.
#[derive(Clone)]
pub struct Engine {
    /// The library.
    pub library: Arc<Library>,
    /// `nccl` or `rccl`.
    pub name: &'static str,
}

impl Engine {
    /// Opens the library of a backend's vendor.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Missing`] with its remedy.
    pub fn open(backend: &str) -> Result<Engine> {
        let (name, wanted) = match backend {
            "cuda" => (NAMES[0], &NCCL),
            "hip" => (NAMES[1], &RCCL),
            other => {
                let remedy = "choose a GPU, or MPI on the host".into();
                return Err(DeviceError::Missing {
                    what: format!("collectives of {other}"),
                    remedy,
                });
            }
        };
        let opened = Library::open(library::candidates(wanted));
        let library = opened.map(Arc::new).map_err(|error| DeviceError::Missing {
            what: wanted.files[0].into(),
            remedy: format!("{} ({error})", wanted.remedy),
        })?;
        Ok(Engine { library, name })
    }

    /// Its name and version, such as `NCCL 2.28.3`.
    pub fn spelled(&self) -> String {
        format!("{} {}", self.name.to_uppercase(), self.library.version())
    }

    /// A new id, for one rank to give to all.
    ///
    /// # Errors
    ///
    /// Whatever the library says.
    pub fn unique_id(&self) -> Result<UniqueId> {
        self.library.unique_id().map_err(|error| refused(self.name, "join", &error))
    }
}

fn refused(name: &str, what: &str, error: &Error) -> DeviceError {
    DeviceError::Launch { kernel: format!("{name} ({what})"), why: error.to_string() }
}

/// One rank of a world of GPUs.
pub struct Nccl<'d> {
    device: &'d dyn Device,
    engine: Engine,
    world: nccl_rs::Communicator,
    /// One number to agree on: what this rank has seen, and what all have.
    control: [Buffer; 2],
    watch: Watchdog,
}

/// What a hang of GPUs calls: what is to be said, the collective, and what ends the communicator,
/// where there is one yet.
pub type OnHangOfGpus = Box<dyn FnOnce(String, Option<CollectivePoint>, Option<Monitor>) + Send>;

impl<'d> Nccl<'d> {
    /// Joins the world of an id on an opened device, as one of ranks that know each other, and
    /// watches from then on: past the deadline, or where the library meets an error in the
    /// background, `on_hang` is called.
    ///
    /// # Errors
    ///
    /// Whatever the library says, or where there can be no thread.
    pub fn join(
        device: &'d dyn Device,
        engine: &Engine,
        id: &UniqueId,
        rank: u32,
        (peers, board): (Vec<Peer>, Option<Board>),
        deadline: Seconds,
        on_hang: OnHangOfGpus,
    ) -> Result<Nccl<'d>> {
        let size = peers.len() as u32;
        let watch = Watchdog::new(rank, peers, board);
        let monitor: Arc<OnceLock<Monitor>> = Arc::default();
        let asked = Arc::clone(&monitor);
        let ask = move || asked.get()?.async_error().map(|error| error.to_string());
        let ended = Arc::clone(&monitor);
        let on_hang: OnHang = Box::new(move |said, point| {
            on_hang(said, point, ended.get().cloned());
        });
        let stream = device.foreign_stream(engine.name)?;
        let pulse = stream.pulse();
        let asked = Asked { error: Some(Box::new(ask)), pulse };
        let no_thread = |error: std::io::Error| DeviceError::Driver(error.to_string());
        watch.start(deadline, asked, on_hang).map_err(no_thread)?;
        let mut joined = Err(Error::Aborted);
        // Only the context counts here: it is current on this thread inside the call.
        watch.joining(|| {
            stream.enqueue_foreign(&mut |_| {
                let library = &engine.library;
                joined = nccl_rs::Communicator::new(library, id, rank, size, JOIN_MAX);
                Ok(())
            })
        })?;
        let world = joined.map_err(|error| refused(engine.name, "join", &error))?;
        // Nobody else has set it.
        let _ = monitor.set(world.monitor());
        let control = [device.allocate(Bytes(8))?, device.allocate(Bytes(8))?];
        Ok(Nccl { device, engine: engine.clone(), world, control, watch })
    }

    /// Rank and size as the library has them.
    ///
    /// # Errors
    ///
    /// Whatever the library says.
    pub fn place(&self) -> Result<[u32; 2]> {
        self.world.place().map_err(|error| refused(self.engine.name, "join", &error))
    }

    /// The library, with its version.
    pub fn version(&self) -> String {
        self.engine.spelled()
    }

    /// Enqueues something of the library on the device's stream.
    fn on_stream(
        &self,
        what: &str,
        run: &dyn Fn(nccl_rs::Stream) -> Result<(), Error>,
    ) -> Result<()> {
        let name = self.engine.name;
        self.device.foreign_stream(name)?.enqueue_foreign(&mut |Stream(stream)| {
            run(nccl_rs::Stream(stream)).map_err(|error| refused(name, what, &error))
        })
    }

    /// What came of an exchange. After one that failed the communicator is aborted: to give it back
    /// in order would wait for the rank that is gone, and nobody would hear why.
    fn exchanged<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|_| {
            let _ = self.world.monitor().abort();
        })
    }

    /// Bytes of equal length from every rank.
    fn gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let (length, size) = (mine.len(), self.world.size());
        if length == 0 {
            return Ok(vec![Vec::new(); size as usize]);
        }
        let send = self.device.allocate(Bytes(length as u64))?;
        let receive = self.device.allocate(Bytes(length as u64) * u64::from(size))?;
        self.device.write(&send, Bytes(0), mine)?;
        let (from, into) = (address(&send), address(&receive));
        self.exchanged(self.on_stream("control", &|stream| {
            // SAFETY: the two buffers, allocated above for this many bytes of every rank; the
            // read below waits for the stream.
            #[expect(unsafe_code, reason = "buffers are given by their addresses")]
            unsafe {
                self.world.all_gather(from, into, length, DataType::Uint8, stream)
            }
        }))?;
        let mut all = vec![0; length * size as usize];
        self.exchanged(self.device.read(&receive, Bytes(0), &mut all))?;
        Ok(all.chunks_exact(length).map(<[u8]>::to_vec).collect())
    }

    /// The largest of every rank's number.
    fn agree(&self, mine: f64) -> Result<f64> {
        let [own, all] = &self.control;
        self.device.write(own, Bytes(0), &mine.to_le_bytes())?;
        let (from, into) = (address(own), address(all));
        let (data, largest) = (DataType::Float64, Reduction::Max);
        self.exchanged(self.on_stream("control", &|stream| {
            // SAFETY: eight bytes each, which live as long as `self`.
            #[expect(unsafe_code, reason = "buffers are given by their addresses")]
            unsafe {
                self.world.all_reduce(from, into, 1, data, largest, stream)
            }
        }))?;
        let mut bytes = [0; 8];
        self.exchanged(self.device.read(all, Bytes(0), &mut bytes))?;
        Ok(f64::from_le_bytes(bytes))
    }

    /// What this rank has, where every rank has got it; else an error on all of them, so that none
    /// continues and waits for another.
    fn on_all<T>(&self, mine: Result<T>, what: &str) -> Result<T> {
        let seen = match &mine {
            Ok(_) => 0.0,
            Err(DeviceError::NotOffered { .. }) => 1.0,
            Err(_) => 2.0,
        };
        let worst = self.agree(seen)?;
        match mine {
            Err(error) => Err(error),
            Ok(_) if worst >= 2.0 => {
                Err(DeviceError::Driver(format!("another rank could not have {what}")))
            }
            Ok(_) if worst > 0.0 => {
                let what = format!("{what} on every rank");
                Err(DeviceError::NotOffered { library: self.engine.name.into(), what })
            }
            Ok(had) => Ok(had),
        }
    }

    /// Memory of the library's own, registered as asked for. Windows are made by all ranks
    /// together.
    fn known(&self, size: Bytes, buffers: Buffers) -> Result<Buffer> {
        let name = self.engine.name;
        let what = format!("{buffers} buffers");
        let told = |error: Error| match error {
            Error::NoSymbol { .. } | Error::Declined { .. } => {
                DeviceError::NotOffered { library: name.into(), what: format!("{what} ({error})") }
            }
            other => DeviceError::Allocation { size, why: other.to_string() },
        };
        let bytes = size.0.max(1) as usize;
        let mut had = Err(Error::Aborted);
        self.device.foreign_stream(name)?.enqueue_foreign(&mut |_| {
            had = self.engine.library.allocate(bytes);
            Ok(())
        })?;
        let memory = self.on_all(had.map_err(told), &what)?;
        let at = memory.address();
        let mut made = Err(Error::Aborted);
        self.device.foreign_stream(name)?.enqueue_foreign(&mut |_| {
            // SAFETY: memory of that size, which outlives its registration (`LibraryMemory`).
            #[expect(unsafe_code, reason = "buffers are given by their addresses")]
            unsafe {
                made = match buffers {
                    Buffers::Symmetric => self.world.window(at, bytes),
                    Buffers::Plain | Buffers::Registered => self.world.register(at, bytes),
                };
            }
            Ok(())
        })?;
        let registration = self.on_all(made.map_err(told), &what)?;
        let owner = Box::new(LibraryMemory { _registration: registration, _memory: memory });
        Ok(Buffer { address: at as u64, size, owner })
    }

    /// A collective in the library's terms, if it can be had and its buffers hold it.
    fn plan(&self, operation: Operation, ranks: &[RankBuffers<'_>]) -> Result<NcclCall> {
        let Operation { collective, dtype, message } = operation;
        let name = self.engine.name;
        let wrong = |why: String| Err(DeviceError::Launch { kernel: name.into(), why });
        let [buffers] = ranks else {
            return wrong(format!("{} ranks give buffers in a thread of one", ranks.len()));
        };
        let point = CollectivePoint::new(collective, dtype, message, self.size());
        if !buffers.hold(collective, message, self.size()) {
            return wrong("a buffer is smaller than its message".into());
        }
        let not_offered =
            |what: String| Err(DeviceError::NotOffered { library: name.into(), what });
        let Some(plan) = NcclCall::new(point, self.world.rank(), buffers) else {
            return not_offered(format!("collectives of {dtype}"));
        };
        if let Err(why) = self.engine.library.knows(plan.data) {
            return not_offered(format!("{dtype}, which newer ones do ({why})"));
        }
        Ok(plan)
    }

    fn control<T>(&self, run: impl FnOnce() -> Result<T>) -> Result<T> {
        let result = self.watch.control(run);
        result.inspect_err(|error| self.failed(error))
    }

    /// One iteration of a collective.
    fn perform(&self, plan: &NcclCall, stream: nccl_rs::Stream) -> Result<(), Error> {
        let NcclCall { point, data, count, from, into, .. } = *plan;
        let (world, root, sum) = (&self.world, Collective::ROOT, Reduction::Sum);
        let peers = Peers {
            to: (world.rank() + 1) % world.size(),
            from: (world.rank() + world.size() - 1) % world.size(),
        };
        // SAFETY: `enqueue` has held both buffers against what the message asks of them; the
        // workload that owns them waits for the stream before it frees them.
        #[expect(unsafe_code, reason = "buffers are given by their addresses")]
        unsafe {
            match point.collective {
                Collective::AllReduce => world.all_reduce(from, into, count, data, sum, stream),
                Collective::Reduce => world.reduce(from, into, count, data, sum, root, stream),
                Collective::ReduceScatter => {
                    world.reduce_scatter(from, into, count, data, sum, stream)
                }
                Collective::Broadcast => world.broadcast(from, into, count, data, root, stream),
                Collective::AllGather => world.all_gather(from, into, count, data, stream),
                Collective::AllToAll => world.all_to_all(from, into, count, data, stream),
                Collective::Gather => world.gather(from, into, count, data, root, stream),
                Collective::Scatter => world.scatter(from, into, count, data, root, stream),
                Collective::SendReceive => {
                    world.send_receive(from, into, count, data, peers, stream)
                }
                Collective::AllToAllV => {
                    let [sent, received] = &plan.slices;
                    world.all_to_all_v(from, sent, into, received, data, stream)
                }
            }
        }
    }
}

fn address(buffer: &Buffer) -> *mut c_void {
    buffer.address as *mut c_void
}

/// Memory of the library's, and what it is known to it as: given back in this order.
struct LibraryMemory {
    _registration: Registration,
    _memory: Memory,
}

/// A collective in the library's terms.
struct NcclCall {
    point: CollectivePoint,
    data: DataType,
    count: usize,
    from: *const c_void,
    into: *mut c_void,
    /// Sent and received, of all_to_allv.
    slices: [Vec<Slice>; 2],
}

impl NcclCall {
    fn new(point: CollectivePoint, rank: u32, buffers: &RankBuffers<'_>) -> Option<NcclCall> {
        let data = data_type(point.dtype)?;
        let elements = |bytes: Bytes| bytes.0 as usize / data.bytes();
        let mut slices = [Vec::new(), Vec::new()];
        if point.collective == Collective::AllToAllV {
            let own = elements(point.part(rank));
            slices = [
                (0..point.ranks)
                    .map(|to| Slice {
                        at: elements(point.sent_before(to)),
                        count: elements(point.part(to)),
                    })
                    .collect(),
                (0..point.ranks as usize)
                    .map(|from| Slice { at: from * own, count: own })
                    .collect(),
            ];
        }
        let [from, into] = buffers.addresses().map(|address| address as *mut c_void);
        Some(NcclCall { point, data, count: point.count() as usize, from, into, slices })
    }
}

/// The library's name of an element type.
fn data_type(dtype: Dtype) -> Option<DataType> {
    Some(match dtype {
        Dtype::F64 => DataType::Float64,
        Dtype::F32 => DataType::Float32,
        Dtype::F16 => DataType::Float16,
        Dtype::Bf16 => DataType::Bfloat16,
        Dtype::Fp8 => DataType::Float8E4M3,
        Dtype::Int8 => DataType::Int8,
        Dtype::Tf32 | Dtype::Fp6 | Dtype::Fp4 => return None,
        Dtype::Mxfp8 | Dtype::Mxfp4 | Dtype::Nvfp4 | Dtype::Fp8Block => return None,
        Dtype::Bf16Fp8 | Dtype::Bf16Int4 | Dtype::Bf16Mxfp4 => return None,
    })
}

impl Communicator for Nccl<'_> {
    fn kernels(&self) -> Vec<KernelName> {
        vec![KernelName(self.engine.name.into())]
    }

    fn size(&self) -> u32 {
        self.world.size()
    }

    fn local(&self) -> (u32, u32) {
        (self.world.rank(), 1)
    }

    fn processes(&self) -> u32 {
        self.world.size()
    }

    fn enqueue(
        &self,
        collective: Collective,
        dtype: Dtype,
        message: Bytes,
        ranks: &[RankBuffers<'_>],
        repeat: u32,
    ) -> Result<()> {
        let operation = Operation { collective, dtype, message };
        let plan = self.plan(operation, ranks)?;
        self.watch.queued(operation, || {
            for _ in 0..repeat {
                self.watch.enter();
                self.on_stream(collective.name(), &|stream| self.perform(&plan, stream))?;
            }
            Ok(())
        })
    }

    fn is_on_stream(&self) -> bool {
        true
    }

    fn allocate(&self, _: &dyn Device, size: Bytes, buffers: Buffers) -> Result<Buffer> {
        if buffers.are_plain() {
            return self.device.allocate(size);
        }
        // What a library refuses, all ranks skip alike.
        self.watch.control(|| self.known(size, buffers))
    }

    fn graph<'c>(
        &'c self,
        collective: Collective,
        dtype: Dtype,
        message: Bytes,
        ranks: &[RankBuffers<'_>],
        count: u32,
    ) -> Result<Graph<'c>> {
        let operation = Operation { collective, dtype, message };
        let plan = self.plan(operation, ranks)?;
        let name = self.engine.name;
        let captured = self.watch.control(|| {
            self.device.foreign_stream(name)?.capture(&mut |Stream(stream)| {
                (0..count)
                    .try_for_each(|_| self.perform(&plan, nccl_rs::Stream(stream)))
                    .map_err(|error| refused(name, collective.name(), &error))
            })
        });
        let replay = self.watch.control(|| self.on_all(captured, "graphs of collectives"))?;
        Ok(Box::new(move |repeat| {
            self.watch.queued(operation, || {
                (0..repeat).try_for_each(|_| {
                    (0..count).for_each(|_| self.watch.enter());
                    replay()
                })
            })
        }))
    }

    fn exchange(&self, partner: u32, [send, receive]: [&Buffer; 2]) -> Result<()> {
        let count = send.size.min(receive.size).0 as usize;
        let (from, into) = (address(send), address(receive));
        let peers = Peers { to: partner, from: partner };
        self.watch.queued(pairwise(Bytes(count as u64)), || {
            self.watch.enter();
            self.on_stream("send_receive", &|stream| {
                // SAFETY: as many bytes as both buffers have; whoever owns them waits for the
                // stream.
                #[expect(unsafe_code, reason = "buffers are given by their addresses")]
                unsafe {
                    self.world.send_receive(from, into, count, DataType::Uint8, peers, stream)
                }
            })
        })
    }

    fn sits_out(&self) {
        self.watch.enter();
    }

    fn works(&self) {
        self.watch.works();
    }

    fn completed(&self) {
        self.watch.completed();
    }

    fn failed(&self, why: &DeviceError) {
        match why {
            // All ranks meet these alike.
            DeviceError::Missing { .. }
            | DeviceError::NoDevice { .. }
            | DeviceError::Broken { .. }
            | DeviceError::NotOffered { .. }
            | DeviceError::Unfit { .. }
            | DeviceError::Unsupported { .. } => {}
            DeviceError::Allocation { .. }
            | DeviceError::Launch { .. }
            | DeviceError::Hang { .. }
            | DeviceError::Lost(_)
            | DeviceError::Driver(_) => self.watch.fail(why.to_string()),
        }
    }

    fn all_gather_bytes(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.control(|| {
            let lengths = self.gather(&(mine.len() as u64).to_le_bytes())?;
            let length = |bytes: Vec<u8>| bytes.try_into().map_or(0, u64::from_le_bytes) as usize;
            let lengths: Vec<usize> = lengths.into_iter().map(length).collect();
            let mut padded = mine.to_vec();
            padded.resize(lengths.iter().copied().max().unwrap_or(0), 0);
            let mut all = self.gather(&padded)?;
            for (bytes, length) in all.iter_mut().zip(lengths) {
                bytes.truncate(length);
            }
            Ok(all)
        })
    }

    fn barrier(&self) -> Result<()> {
        self.control(|| self.agree(0.0)).map(drop)
    }

    fn largest(&self, seen: f64) -> Result<f64> {
        self.control(|| self.agree(seen))
    }
}
