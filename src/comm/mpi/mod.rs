//! Ranks as processes, on one node or many: collectives by an MPI library opened at run time.
//!
//! Each process drives one rank on its calling thread. What ranks agree on between collectives
//! (times, checks, whether to go on) goes through the same library.

#![expect(unsafe_code, reason = "a foreign library works on buffers by their addresses")]

pub mod abi;

use super::{
    Communicator, RankBuffers,
    neighbours::{self, Peer},
    watch::{OnHang, Operation, Watch, pairwise},
};
use crate::{
    case::{Collective, CollectivePoint, KernelName, Place},
    device::{Buffer, DeviceError},
    dtype::Dtype,
    units::{Bytes, Seconds},
};
use abi::{Handle, Table};
use std::{
    ffi::{c_char, c_int},
    ptr,
};

/// What would bring the library.
const MEND: &str = "install an MPI with the standard ABI (MPICH 5, Open MPI 6; pip install mpich), \
                    and start by its mpiexec; FIZEAU_MPI may name libmpi_abi.so.1";

/// The world of an MPI library.
pub struct Mpi {
    table: Table,
    rank: u32,
    size: u32,
    version: String,
    peers: Vec<Peer>,
    watch: Watch,
}

impl Mpi {
    /// Opens the library and joins the world.
    ///
    /// # Errors
    /// Where there is no library, or it says so.
    pub fn open() -> Result<Mpi, DeviceError> {
        let table = abi::open().map_err(|why| DeviceError::Missing {
            what: "libmpi_abi.so.1".into(),
            mend: format!("{MEND} ({why})"),
        })?;
        let (mut provided, mut rank, mut size) = (0, 0, 0);
        // SAFETY: the first call of MPI in this process; no arguments are passed on, and the
        // results are written to live integers.
        unsafe {
            let codes = [
                (table.init)(&mut 0, ptr::null_mut(), abi::THREAD_FUNNELED, &mut provided),
                (table.set_handler)(abi::COMM_WORLD, abi::ERRORS_RETURN),
                (table.rank)(abi::COMM_WORLD, &mut rank),
                (table.size)(abi::COMM_WORLD, &mut size),
            ];
            for code in codes {
                said(&table, "MPI_Init_thread", code)?;
            }
        }
        let (rank, size) = (rank as u32, size as u32);
        let version = version(&table);
        let watch = Watch::new(rank, vec![Peer::unknown(); size as usize], None);
        let peers = vec![Peer::unknown(); size as usize];
        Ok(Mpi { table, rank, size, version, peers, watch })
    }

    /// Makes every rank known to all by its host, device and process.
    ///
    /// # Errors
    /// Whatever the library says.
    pub fn introduce(&mut self, host: &str, device: &str) -> Result<(), DeviceError> {
        self.peers = neighbours::introduce(self, host, device)?;
        let board = neighbours::board(self, self.rank, &self.peers)?;
        self.watch = Watch::new(self.rank, self.peers.clone(), board);
        Ok(())
    }

    /// The library's own words for what it is.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks on this rank's host.
    pub fn ranks_here(&self) -> u32 {
        let host = &self.peers[self.rank as usize].host;
        self.peers.iter().filter(|peer| peer.host == *host).count() as u32
    }

    /// Starts the watch: past the deadline `on_hang` is called.
    ///
    /// # Errors
    /// Where there can be no thread.
    pub fn watch(&self, deadline: Seconds, on_hang: OnHang) -> Result<(), DeviceError> {
        let refused = |error: std::io::Error| DeviceError::Driver(error.to_string());
        self.watch.start(deadline, None, on_hang).map_err(refused)
    }

    /// Leaves the world, once all ranks do. Dropped without this, the process has failed, and its
    /// launcher ends the others.
    ///
    /// # Errors
    /// Whatever the library says.
    pub fn finish(self) -> Result<(), DeviceError> {
        // SAFETY: the last call of MPI in this process.
        said(&self.table, "MPI_Finalize", unsafe { (self.table.finalize)() })
    }

    fn plan<'p>(
        &self,
        point: &'p CollectivePoint,
        buffers: &RankBuffers<'_>,
    ) -> Result<Plan<'p>, DeviceError> {
        let (collective, dtype) = (point.collective, point.dtype);
        let refuse = |needs: &str| {
            Err(DeviceError::Unsupported {
                kernel: format!("mpi ({collective})"),
                needs: needs.into(),
            })
        };
        let (handle, element) = match dtype {
            Dtype::F32 => (abi::FLOAT, 4),
            Dtype::F64 => (abi::DOUBLE, 8),
            _ if collective.sums() => {
                return refuse("sums of an element type that MPI's standard does not have");
            }
            // What is only moved is moved as bytes.
            other => (abi::BYTE, (other.bits() / 8).max(1)),
        };
        let send = (buffers.send.address + buffers.send_offset.0) as usize;
        let receive = (buffers.receive.address + buffers.receive_offset.0) as usize;
        let in_place = buffers.send.address == buffers.receive.address;
        if in_place && collective == Collective::ReduceScatter {
            return refuse("a reduce_scatter in place whose result lies in the rank's own part");
        }
        let scale = if handle == abi::BYTE { element } else { 1 };
        let elements = |bytes: Bytes| (bytes.0 / element * scale) as i64;
        let unit = element / scale;
        let mut plan = Plan { point, handle, send, receive, in_place, count: 0, slices: None };
        plan.count = (point.count() * scale) as i64;
        if collective == Collective::AllToAllV {
            let to = |rank| elements(point.part(rank));
            let own = to(self.rank);
            let stride = (point.part(self.rank).0 / unit) as isize;
            plan.slices = Some(Slices {
                sent: (0..self.size).map(to).collect(),
                sent_at: (0..self.size)
                    .map(|rank| (point.sent_before(rank).0 / unit) as isize)
                    .collect(),
                received: vec![own; self.size as usize],
                received_at: (0..self.size as isize).map(|rank| rank * stride).collect(),
            });
        }
        Ok(plan)
    }

    /// One iteration.
    ///
    /// # Safety
    ///
    /// The plan's buffers hold their sides of the message.
    unsafe fn perform(&self, plan: &Plan<'_>) -> c_int {
        let Plan { handle: of, send, receive, count, in_place, .. } = *plan;
        let (table, world, sum) = (&self.table, abi::COMM_WORLD, abi::SUM);
        let root = Collective::ROOT as c_int;
        let is_root = self.rank == Collective::ROOT;
        let from = if in_place { abi::IN_PLACE } else { send };
        let of_root = if in_place && is_root { abi::IN_PLACE } else { send };
        // SAFETY: the caller's promise; counts, types and ranks are those of the standard.
        unsafe {
            match plan.point.collective {
                Collective::AllReduce => (table.all_reduce)(from, receive, count, of, sum, world),
                Collective::Reduce => (table.reduce)(of_root, receive, count, of, sum, root, world),
                Collective::ReduceScatter => {
                    (table.reduce_scatter)(send, receive, count, of, sum, world)
                }
                Collective::Broadcast => {
                    if is_root && !in_place {
                        let bytes = plan.point.message.0 as usize;
                        ptr::copy_nonoverlapping(send as *const u8, receive as *mut u8, bytes);
                    }
                    (table.broadcast)(receive, count, of, root, world)
                }
                Collective::AllGather => {
                    (table.all_gather)(from, count, of, receive, count, of, world)
                }
                Collective::Gather => {
                    (table.gather)(of_root, count, of, receive, count, of, root, world)
                }
                Collective::Scatter => {
                    let to = if in_place && is_root { abi::IN_PLACE } else { receive };
                    (table.scatter)(send, count, of, to, count, of, root, world)
                }
                Collective::AllToAll => {
                    (table.all_to_all)(send, count, of, receive, count, of, world)
                }
                Collective::AllToAllV => self.all_to_all_v(plan),
                Collective::SendReceive => {
                    let next = ((self.rank + 1) % self.size) as c_int;
                    let before = ((self.rank + self.size - 1) % self.size) as c_int;
                    let status = ptr::null_mut();
                    (table.send_receive)(
                        send, count, of, next, 0, receive, count, of, before, 0, world, status,
                    )
                }
            }
        }
    }

    /// # Safety
    ///
    /// As [`Mpi::perform`].
    unsafe fn all_to_all_v(&self, plan: &Plan<'_>) -> c_int {
        let none = Slices::default();
        let slices = plan.slices.as_ref().unwrap_or(&none);
        // SAFETY: as in `perform`; each list has one entry for every rank.
        unsafe {
            (self.table.all_to_all_v)(
                plan.send,
                slices.sent.as_ptr(),
                slices.sent_at.as_ptr(),
                plan.handle,
                plan.receive,
                slices.received.as_ptr(),
                slices.received_at.as_ptr(),
                plan.handle,
                abi::COMM_WORLD,
            )
        }
    }
}

/// A collective in MPI's terms.
struct Plan<'p> {
    point: &'p CollectivePoint,
    handle: Handle,
    send: usize,
    receive: usize,
    in_place: bool,
    /// Elements of the buffer, or of one part of it.
    count: i64,
    /// Of all_to_allv.
    slices: Option<Slices>,
}

#[derive(Default)]
struct Slices {
    sent: Vec<i64>,
    sent_at: Vec<isize>,
    received: Vec<i64>,
    received_at: Vec<isize>,
}

impl Communicator for Mpi {
    fn kernels(&self) -> Vec<KernelName> {
        vec![KernelName("mpi".into())]
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn local(&self) -> (u32, u32) {
        (self.rank, 1)
    }

    fn processes(&self) -> u32 {
        self.size
    }

    fn enqueue(
        &self,
        collective: Collective,
        dtype: Dtype,
        message: Bytes,
        ranks: &[RankBuffers<'_>],
        repeat: u32,
    ) -> Result<(), DeviceError> {
        let [buffers] = ranks else {
            let why = format!("{} ranks give buffers in a process of one", ranks.len());
            return Err(DeviceError::Launch { kernel: "mpi".into(), why });
        };
        let (place, size) = (Place::OutOfPlace, self.size);
        let point = CollectivePoint { collective, dtype, message, ranks: size, place };
        let [send, receive] = collective.buffer_bytes(message, size);
        let end = |offset: Bytes, bytes: Bytes| offset.0.checked_add(bytes.0);
        if end(buffers.send_offset, send).is_none_or(|end| end > buffers.send.size.0)
            || end(buffers.receive_offset, receive).is_none_or(|end| end > buffers.receive.size.0)
        {
            let why = "a buffer is smaller than its message".into();
            return Err(DeviceError::Launch { kernel: "mpi".into(), why });
        }
        let plan = self.plan(&point, buffers)?;
        self.watch.operation(Operation { collective, dtype, message }, || {
            for _ in 0..repeat {
                self.watch.enter();
                // SAFETY: both buffers hold their sides of the message, checked above.
                let code = unsafe { self.perform(&plan) };
                said(&self.table, collective.name(), code)?;
            }
            Ok(())
        })
    }

    fn exchange(&self, partner: u32, [send, receive]: [&Buffer; 2]) -> Result<(), DeviceError> {
        let count = send.size.min(receive.size).0;
        let (from, into) = (send.address as usize, receive.address as usize);
        let (of, partner, count_of) = (abi::BYTE, partner as c_int, count as i64);
        self.watch.operation(pairwise(Bytes(count)), || {
            self.watch.enter();
            // SAFETY: as many bytes as both buffers have.
            let code = unsafe {
                (self.table.send_receive)(
                    from,
                    count_of,
                    of,
                    partner,
                    0,
                    into,
                    count_of,
                    of,
                    partner,
                    0,
                    abi::COMM_WORLD,
                    ptr::null_mut(),
                )
            };
            said(&self.table, "MPI_Sendrecv", code)
        })
    }

    fn all_gather_bytes(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, DeviceError> {
        let length = mine.len() as i64;
        let mut lengths = vec![0i64; self.size as usize];
        let to = lengths.as_mut_ptr() as usize;
        self.watch.control(|| {
            let from = &raw const length as usize;
            let (of, world) = (abi::INT64, abi::COMM_WORLD);
            // SAFETY: one integer from each rank, into as many as there are ranks.
            let code = unsafe { (self.table.all_gather)(from, 1, of, to, 1, of, world) };
            said(&self.table, "MPI_Allgather", code)
        })?;
        let places: Vec<isize> = lengths
            .iter()
            .scan(0, |at, &length| Some(std::mem::replace(at, *at + length as isize)))
            .collect();
        let mut all = vec![0u8; lengths.iter().sum::<i64>() as usize];
        let to = all.as_mut_ptr() as usize;
        self.watch.control(|| {
            let (from, of) = (mine.as_ptr() as usize, abi::BYTE);
            let (lengths, places) = (lengths.as_ptr(), places.as_ptr());
            // SAFETY: as many bytes as each rank has said, into their sum.
            let code = unsafe {
                (self.table.all_gather_v)(
                    from,
                    length,
                    of,
                    to,
                    lengths,
                    places,
                    of,
                    abi::COMM_WORLD,
                )
            };
            said(&self.table, "MPI_Allgatherv", code)
        })?;
        let part = |(&at, &length): (&isize, &i64)| {
            all[at as usize..at as usize + length as usize].to_vec()
        };
        Ok(places.iter().zip(&lengths).map(part).collect())
    }

    fn barrier(&self) -> Result<(), DeviceError> {
        self.watch.control(|| {
            // SAFETY: the world exists until `finish`.
            said(&self.table, "MPI_Barrier", unsafe { (self.table.barrier)(abi::COMM_WORLD) })
        })
    }

    fn largest(&self, seen: f64) -> Result<f64, DeviceError> {
        let mut largest = f64::NAN;
        let to = &raw mut largest as usize;
        self.watch.control(|| {
            let from = &raw const seen as usize;
            let (of, operation) = (abi::DOUBLE, abi::MAX);
            // SAFETY: one number from each rank, into one.
            let code =
                unsafe { (self.table.all_reduce)(from, to, 1, of, operation, abi::COMM_WORLD) };
            said(&self.table, "MPI_Allreduce", code)
        })?;
        Ok(largest)
    }
}

fn version(table: &Table) -> String {
    let mut text = vec![0u8; abi::TEXT_MAX];
    let mut length: c_int = 0;
    // SAFETY: the longest text that any library may write fits.
    let code = unsafe { (table.library_version)(text.as_mut_ptr().cast::<c_char>(), &mut length) };
    if code != 0 {
        return "MPI of unknown version".into();
    }
    text.truncate(length.max(0) as usize);
    let text = String::from_utf8_lossy(&text).into_owned();
    let first = text.lines().next().unwrap_or_default();
    let words: Vec<&str> = first.trim_matches('\0').split_whitespace().collect();
    words.join(" ")
}

/// The library's words for a code that is not success.
fn said(table: &Table, function: &str, code: c_int) -> Result<(), DeviceError> {
    if code == 0 {
        return Ok(());
    }
    let mut text = vec![0u8; abi::TEXT_MAX];
    let mut length: c_int = 0;
    // SAFETY: as in `version`.
    unsafe { (table.error_string)(code, text.as_mut_ptr().cast::<c_char>(), &mut length) };
    text.truncate(length.max(0) as usize);
    let why = format!("code {code}: {}", String::from_utf8_lossy(&text));
    Err(DeviceError::Launch { kernel: format!("mpi ({function})"), why })
}
