//! What is asked of an MPI library, however it counts.

use super::abi::{self, Count, Handle, Handles, Opened, Table};
use crate::RankBuffers;
use fizeau_device::{DeviceError, Result, library};
use fizeau_domain::{
    case::{Collective, CollectivePoint},
    dtype::Dtype,
    units::Bytes,
};
use std::{
    ffi::{c_char, c_int},
    ptr,
};

/// One iteration of a collective, ready to be called again and again.
pub type Iteration<'e> = Box<dyn Fn() -> Result<()> + 'e>;

/// An MPI library that has joined its world. One thread at a time calls it.
pub trait Engine: Send {
    /// This rank, and how many there are.
    fn place(&self) -> [u32; 2];
    /// The library's own words for what it is.
    fn version(&self) -> String;
    /// Waits for all ranks.
    fn barrier(&self) -> Result<()>;
    /// The largest of every rank's number.
    fn largest(&self, seen: f64) -> Result<f64>;
    /// Every rank's bytes, by rank.
    fn gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>>;
    /// Sends bytes from the first address to another rank, and receives as many at the second.
    ///
    /// # Safety
    ///
    /// `bytes` bytes are there.
    unsafe fn exchange(&self, partner: u32, addresses: [u64; 2], bytes: Bytes) -> Result<()>;
    /// A collective made ready.
    ///
    /// # Errors
    ///
    /// [`DeviceError::NotOffered`], on all ranks alike.
    ///
    /// # Safety
    ///
    /// The buffers hold their sides of the message, as long as what is made ready is called.
    unsafe fn ready<'e>(
        &'e self,
        point: &'e CollectivePoint,
        buffers: &RankBuffers<'_>,
    ) -> Result<Iteration<'e>>;
    /// Leaves the world, once all ranks do.
    fn finish(&self) -> Result<()>;
}

/// Joins the world of an opened library.
///
/// # Errors
///
/// Whatever the library says.
pub fn join(opened: Opened) -> Result<Box<dyn Engine>> {
    Ok(match opened {
        Opened::Standard(table) => Box::new(Joined::new(table, Handles::STANDARD)?),
        Opened::OpenMpi(table, handles) => Box::new(Joined::new(table, handles)?),
    })
}

struct Joined<C: Count> {
    table: Table<C>,
    handles: Handles,
    rank: u32,
    size: u32,
}

/// A collective in MPI's terms.
struct MpiCall<C: Count> {
    handle: Handle,
    send: usize,
    receive: usize,
    in_place: bool,
    /// Elements of the buffer, or of one part of it.
    count: C,
    /// Sent and received, of all_to_allv.
    slices: [Slices<C>; 2],
}

/// A part for every rank.
struct Slices<C: Count> {
    counts: Vec<C>,
    places: Vec<C::Place>,
}

fn not_offered(collective: Collective, what: String) -> DeviceError {
    DeviceError::NotOffered { library: format!("mpi ({collective})"), what }
}

impl<C: Count> Joined<C> {
    fn new(table: Table<C>, handles: Handles) -> Result<Joined<C>> {
        let (mut provided, mut rank, mut size) = (0, 0, 0);
        // SAFETY: the first call of MPI in this process; no arguments are passed on, and the
        // results are written to live integers.
        unsafe {
            let codes = [
                (table.init)(&mut 0, ptr::null_mut(), handles.funneled, &mut provided),
                (table.set_handler)(handles.world, handles.errors_return),
                (table.rank)(handles.world, &mut rank),
                (table.size)(handles.world, &mut size),
            ];
            for code in codes {
                said(&table, "MPI_Init_thread", code)?;
            }
        }
        Ok(Joined { table, handles, rank: rank as u32, size: size as u32 })
    }

    fn count(&self, collective: Collective, number: u64) -> Result<C> {
        let what = || format!("a count of {number} elements, which is more than its int holds");
        C::of(number).ok_or_else(|| not_offered(collective, what()))
    }

    fn plan(&self, point: &CollectivePoint, buffers: &RankBuffers<'_>) -> Result<MpiCall<C>> {
        let (collective, dtype) = (point.collective, point.dtype);
        // What is only moved is moved as bytes.
        let width = (dtype.bits() / 8).max(1);
        let (handle, unit) = match dtype {
            Dtype::F32 => (self.handles.float, width),
            Dtype::F64 => (self.handles.double, width),
            Dtype::Int8 => (self.handles.int8, width),
            _ if collective.sums() => {
                let what = format!("sums of {dtype}, which MPI's standard does not have");
                return Err(not_offered(collective, what));
            }
            _ => (self.handles.byte, 1),
        };
        let in_place = buffers.send.address == buffers.receive.address;
        if in_place && collective == Collective::ReduceScatter {
            let what = "a reduce_scatter in place whose result lies in the rank's own part";
            return Err(not_offered(collective, what.into()));
        }
        // Of the whole message, so that all ranks refuse alike.
        self.count(collective, point.message.0 / unit)?;
        let count = self.count(collective, point.count() * width / unit)?;
        let slices = |slice: &dyn Fn(u32) -> [Bytes; 2]| -> Result<Slices<C>> {
            let (mut counts, mut places) = (Vec::new(), Vec::new());
            if collective == Collective::AllToAllV {
                for [at, bytes] in (0..self.size).map(slice) {
                    counts.push(self.count(collective, bytes.0 / unit)?);
                    places.push(C::place(at.0 / unit).unwrap_or_default());
                }
            }
            Ok(Slices { counts, places })
        };
        let own = point.part(self.rank);
        let [send, receive] = buffers.addresses();
        Ok(MpiCall {
            handle,
            send,
            receive,
            in_place,
            count,
            slices: [
                slices(&|to| [point.sent_before(to), point.part(to)])?,
                slices(&|from| [own * u64::from(from), own])?,
            ],
        })
    }

    /// One iteration.
    ///
    /// # Safety
    ///
    /// The plan's buffers hold their sides of the message.
    unsafe fn perform(&self, point: &CollectivePoint, plan: &MpiCall<C>) -> c_int {
        let MpiCall { handle: of, send, receive, count, in_place, .. } = *plan;
        let (table, world, sum) = (&self.table, self.handles.world, self.handles.sum);
        let root = Collective::ROOT as c_int;
        let is_root = self.rank == Collective::ROOT;
        let from = if in_place { abi::IN_PLACE } else { send };
        let of_root = if in_place && is_root { abi::IN_PLACE } else { send };
        // SAFETY: the caller's promise; counts, types and ranks are those of the standard.
        unsafe {
            match point.collective {
                Collective::AllReduce => (table.all_reduce)(from, receive, count, of, sum, world),
                Collective::Reduce => (table.reduce)(of_root, receive, count, of, sum, root, world),
                Collective::ReduceScatter => {
                    (table.reduce_scatter)(send, receive, count, of, sum, world)
                }
                Collective::Broadcast => {
                    if is_root && !in_place {
                        let bytes = point.message.0 as usize;
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
                Collective::AllToAllV => {
                    let [sent, received] = &plan.slices;
                    let (counts, places) = (sent.counts.as_ptr(), sent.places.as_ptr());
                    let (counts_in, places_in) =
                        (received.counts.as_ptr(), received.places.as_ptr());
                    (table.all_to_all_v)(
                        send, counts, places, of, receive, counts_in, places_in, of, world,
                    )
                }
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
}

impl<C: Count> Engine for Joined<C> {
    fn place(&self) -> [u32; 2] {
        [self.rank, self.size]
    }

    fn version(&self) -> String {
        // SAFETY: a place as long as the longest text of any library.
        let text = text(|text, length| unsafe { (self.table.library_version)(text, length) });
        let first = text.lines().next().unwrap_or_default();
        // Open MPI adds who built it, and where.
        let first = first.split(',').next().unwrap_or_default();
        let words: Vec<&str> = first.trim_matches('\0').split_whitespace().collect();
        words.join(" ")
    }

    fn barrier(&self) -> Result<()> {
        // SAFETY: the world exists until `finish`.
        said(&self.table, "MPI_Barrier", unsafe { (self.table.barrier)(self.handles.world) })
    }

    fn largest(&self, seen: f64) -> Result<f64> {
        let mut largest = f64::NAN;
        let (from, to) = (&raw const seen as usize, &raw mut largest as usize);
        let Handles { double, max, world, .. } = self.handles;
        let one = self.count(Collective::AllReduce, 1)?;
        // SAFETY: one number from each rank, into one.
        let code = unsafe { (self.table.all_reduce)(from, to, one, double, max, world) };
        said(&self.table, "MPI_Allreduce", code)?;
        Ok(largest)
    }

    fn gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let Handles { byte, world, .. } = self.handles;
        let count = |bytes: u64| self.count(Collective::AllGather, bytes);
        let length = mine.len() as u64;
        let mut lengths = vec![0u64; self.size as usize];
        let (from, to) = (&raw const length as usize, lengths.as_mut_ptr() as usize);
        let eight = count(8)?;
        // SAFETY: one integer from each rank, into as many as there are ranks.
        let code = unsafe { (self.table.all_gather)(from, eight, byte, to, eight, byte, world) };
        said(&self.table, "MPI_Allgather", code)?;
        let (starts, whole) = places_of(&lengths).ok_or_else(|| {
            let why = format!("ranks say that they have {lengths:?} bytes: too many to add up");
            DeviceError::Launch { kernel: "mpi (MPI_Allgather)".into(), why }
        })?;
        count(whole)?;
        let counts: Vec<C> =
            lengths.iter().map(|&length| count(length)).collect::<Result<_, _>>()?;
        let places: Vec<C::Place> =
            starts.iter().map(|&at| C::place(at).unwrap_or_default()).collect();
        // An empty slice may lie at 1, which is MPI_IN_PLACE.
        let mut all = vec![0u8; whole.max(1) as usize];
        let from =
            if mine.is_empty() { &raw const length as usize } else { mine.as_ptr() as usize };
        let to = all.as_mut_ptr() as usize;
        let own = count(length)?;
        // SAFETY: as many bytes as each rank has said, into their sum.
        let code = unsafe {
            let (counts, places) = (counts.as_ptr(), places.as_ptr());
            (self.table.all_gather_v)(from, own, byte, to, counts, places, byte, world)
        };
        said(&self.table, "MPI_Allgatherv", code)?;
        let part = |(&at, &length): (&u64, &u64)| all[at as usize..(at + length) as usize].to_vec();
        Ok(starts.iter().zip(&lengths).map(part).collect())
    }

    unsafe fn exchange(&self, partner: u32, [from, into]: [u64; 2], bytes: Bytes) -> Result<()> {
        let Handles { byte: of, world, .. } = self.handles;
        let (from, into, peer) = (from as usize, into as usize, partner as c_int);
        let count = self.count(Collective::SendReceive, bytes.0)?;
        let status = ptr::null_mut();
        // SAFETY: the caller's promise.
        let code = unsafe {
            (self.table.send_receive)(
                from, count, of, peer, 0, into, count, of, peer, 0, world, status,
            )
        };
        said(&self.table, "MPI_Sendrecv", code)
    }

    unsafe fn ready<'e>(
        &'e self,
        point: &'e CollectivePoint,
        buffers: &RankBuffers<'_>,
    ) -> Result<Iteration<'e>> {
        let plan = self.plan(point, buffers)?;
        Ok(Box::new(move || {
            // SAFETY: the caller's promise.
            let code = unsafe { self.perform(point, &plan) };
            said(&self.table, point.collective.name(), code)
        }))
    }

    fn finish(&self) -> Result<()> {
        library::end_in_order();
        // SAFETY: the last call of MPI in this process.
        said(&self.table, "MPI_Finalize", unsafe { (self.table.finalize)() })
    }
}

/// Where each of some lengths begins in all of them, and how long these are together. `None` where
/// that is more than a number holds: the sum of what other ranks say is what is allocated.
fn places_of(lengths: &[u64]) -> Option<(Vec<u64>, u64)> {
    let mut whole = 0_u64;
    let mut starts = Vec::with_capacity(lengths.len());
    for length in lengths {
        starts.push(whole);
        whole = whole.checked_add(*length)?;
    }
    Some((starts, whole))
}

/// A text that the library writes.
fn text(write: impl FnOnce(*mut c_char, *mut c_int) -> c_int) -> String {
    let mut text = vec![0u8; abi::TEXT_MAX];
    let mut length: c_int = 0;
    if write(text.as_mut_ptr().cast::<c_char>(), &mut length) != 0 {
        return "MPI, which has no words".into();
    }
    text.truncate(length.max(0) as usize);
    String::from_utf8_lossy(&text).into_owned()
}

/// The library's words for a code that is not success.
fn said<C: Count>(table: &Table<C>, function: &str, code: c_int) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: a place as long as the longest text of any library.
    let words = text(|text, length| unsafe { (table.error_string)(code, text, length) });
    let why = format!("code {code}: {words}");
    Err(DeviceError::Launch { kernel: format!("mpi ({function})"), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_that_do_not_add_up_are_refused() {
        assert_eq!(places_of(&[3, 0, 4]), Some((vec![0, 3, 3], 7)));
        assert_eq!(places_of(&[8, u64::MAX - 3]), None);
    }
}
