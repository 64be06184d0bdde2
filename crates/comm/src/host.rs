//! Ranks as threads of the host: one pinned thread each, collectives through the memory they
//! share.
//!
//! An iteration is what a program's collective is. A rank may not touch what others still write,
//! so it waits for all before; and it may not continue while others read what it sent, so it waits
//! for all after. Between the two barriers every rank makes its own share of the work:
//!
//! - all_reduce: the sum of its slice of all send buffers, written to all receive buffers, which
//!   is a reduce-scatter and an all-gather in one pass over memory. No other rank reads or writes
//!   that slice, so it works in place as it stands.
//! - reduce_scatter: the same, written to its own receive buffer alone.
//! - reduce: the same as all_reduce, written to the root's receive buffer alone.
//! - gather: its own part, copied into the root's receive buffer.
//! - the others: its own receive buffer, copied from where each part lies.
//!
//! Buffers stay where they are from one iteration to the next (`nccl-tests` moves through a buffer
//! of the largest size): a small message is found in a cache, as in a program that reduces the
//! same gradients in each step, and a large one comes from memory by its size alone.

#![expect(unsafe_code, reason = "ranks reach each other's buffers through their addresses")]

use super::{Communicator, RankBuffers};
use fizeau_device::{DeviceError, Result, Threads};
use fizeau_domain::{
    case::{Collective, CollectivePoint, KernelName},
    dtype::Dtype,
    text::counted,
    units::Bytes,
};
use half::bf16;

/// The rank that differs from the others.
const ROOT: usize = Collective::ROOT as usize;

/// Elements summed at once: the sums stay in the first cache while all ranks' buffers are added.
const CHUNK: usize = 1024;

/// A world of pinned threads. More ranks than cores is allowed, and slow: they take turns.
pub struct ThreadRanks<'d> {
    threads: &'d dyn Threads,
    ranks: u32,
}

impl<'d> ThreadRanks<'d> {
    /// A world of `ranks` on a device's threads.
    pub fn new(threads: &'d dyn Threads, ranks: u32) -> ThreadRanks<'d> {
        ThreadRanks { threads, ranks }
    }
}

impl Communicator for ThreadRanks<'_> {
    fn kernels(&self) -> Vec<KernelName> {
        vec![KernelName("threads".into())]
    }

    fn size(&self) -> u32 {
        self.ranks
    }

    fn local(&self) -> (u32, u32) {
        (0, self.ranks)
    }

    fn enqueue(
        &self,
        collective: Collective,
        dtype: Dtype,
        message: Bytes,
        ranks: &[RankBuffers<'_>],
        repeat: u32,
    ) -> Result<()> {
        let exchange = ThreadCollective::new(collective, dtype, message, ranks)?;
        if ranks.len() != self.ranks as usize {
            let why = format!(
                "buffers of {}, in a world of {}",
                counted(ranks.len(), "rank"),
                self.ranks
            );
            return Err(refused(collective, why));
        }
        self.threads.run_together(self.ranks, &|index, synchronise| {
            for _ in 0..repeat {
                synchronise();
                exchange.share(index as usize);
                synchronise();
            }
        })
    }
}

fn refused(collective: Collective, why: String) -> DeviceError {
    DeviceError::Launch { kernel: format!("threads ({collective})"), why }
}

/// One collective on all ranks' buffers.
struct ThreadCollective {
    point: CollectivePoint,
    /// Address of each rank's first byte to send.
    send: Vec<usize>,
    /// Address of each rank's first byte to receive into.
    receive: Vec<usize>,
}

impl ThreadCollective {
    fn new(
        collective: Collective,
        dtype: Dtype,
        message: Bytes,
        ranks: &[RankBuffers<'_>],
    ) -> Result<ThreadCollective> {
        let summed = matches!(dtype, Dtype::F32 | Dtype::Bf16 | Dtype::Int8);
        if dtype.bits() < 8 || collective.sums() && !summed {
            let library = format!("threads ({collective})");
            return Err(DeviceError::NotOffered { library, what: format!("sums of {dtype}") });
        }
        let count = ranks.len() as u64;
        if count < 2 {
            return Err(refused(collective, "it takes two ranks".into()));
        }
        let whole = if collective.in_parts() { count } else { 1 };
        if !message.0.is_multiple_of(whole * dtype.bits() / 8) {
            let why = format!("{message} cannot be cut into {whole} parts of whole {dtype}");
            return Err(refused(collective, why));
        }
        if !ranks.iter().all(|rank| rank.hold(collective, message, count as u32)) {
            return Err(refused(collective, "a buffer is smaller than its message".into()));
        }
        // Where a buffer lies does not matter to how much of it goes where.
        let point = CollectivePoint::new(collective, dtype, message, count as u32);
        let (send, receive) = ranks.iter().map(|rank| rank.addresses().into()).unzip();
        Ok(ThreadCollective { point, send, receive })
    }

    /// One rank's share of the work.
    fn share(&self, rank: usize) {
        let ranks = self.send.len();
        let whole = self.message();
        let part = self.point.part(rank as u32).0 as usize;
        // From the next rank on, so that not all read from the same one.
        let peers = || (0..ranks).map(move |step| (rank + step) % ranks);
        // SAFETY: `new` checked that each buffer holds its side of the message; the barriers
        // around keep ranks of different iterations apart, and within one no rank writes where
        // another reads or writes.
        unsafe {
            match self.point.collective {
                Collective::AllReduce => {
                    let (offset, bytes) = self.slice(rank);
                    self.sum(offset, &self.receive, offset, bytes);
                }
                Collective::Reduce => {
                    let (offset, bytes) = self.slice(rank);
                    self.sum(offset, &self.receive[ROOT..=ROOT], offset, bytes);
                }
                Collective::ReduceScatter => {
                    self.sum(rank * part, &self.receive[rank..=rank], 0, part);
                }
                Collective::AllToAll | Collective::AllToAllV => {
                    let from = self.point.sent_before(rank as u32).0 as usize;
                    for peer in peers() {
                        copy(self.send[peer] + from, self.receive[rank] + peer * part, part);
                    }
                }
                Collective::AllGather => {
                    for peer in peers() {
                        copy(self.send[peer], self.receive[rank] + peer * part, part);
                    }
                }
                Collective::Gather => copy(self.send[rank], self.receive[ROOT] + rank * part, part),
                Collective::Scatter => {
                    copy(self.send[ROOT] + rank * part, self.receive[rank], part)
                }
                Collective::Broadcast => copy(self.send[ROOT], self.receive[rank], whole),
                Collective::SendReceive => {
                    let before = (rank + ranks - 1) % ranks;
                    copy(self.send[before], self.receive[rank], whole);
                }
            }
        }
    }

    fn message(&self) -> usize {
        self.point.message.0 as usize
    }

    /// The offset and bytes of the slice of the message that a rank sums: whole cache lines but
    /// for the last, so that no two ranks write to one.
    fn slice(&self, rank: usize) -> (usize, usize) {
        const LINE: usize = 64;
        let lines = self.message().div_ceil(LINE);
        let ranks = self.send.len();
        let at = |rank: usize| (lines * rank / ranks * LINE).min(self.message());
        (at(rank), at(rank + 1) - at(rank))
    }

    /// Sums `bytes` bytes of elements of all send buffers, from an offset, into each of `to`, at
    /// its own offset.
    ///
    /// # Safety
    ///
    /// `bytes` bytes can be read and written there.
    unsafe fn sum(&self, offset: usize, to: &[usize], to_offset: usize, bytes: usize) {
        let sides = Sides { from: &self.send, offset, to, to_offset };
        // SAFETY: the caller's promise.
        unsafe {
            match self.point.dtype {
                Dtype::Bf16 => sum::<bf16>(&sides, bytes),
                Dtype::Int8 => sum::<i8>(&sides, bytes),
                _ => sum::<f32>(&sides, bytes),
            }
        }
    }
}

/// Where a sum comes from and goes to: base addresses and an offset for each side.
struct Sides<'s> {
    from: &'s [usize],
    offset: usize,
    to: &'s [usize],
    to_offset: usize,
}

/// # Safety
///
/// `bytes` bytes can be read at `from` and written at `to`, and the two are the same or apart.
unsafe fn copy(from: usize, to: usize, bytes: usize) {
    if from != to {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes) }
    }
}

/// An element that is summed in `f32`.
trait Element: Copy {
    fn wide(self) -> f32;
    fn narrow(sum: f32) -> Self;
}

impl Element for f32 {
    #[inline(always)]
    fn wide(self) -> f32 {
        self
    }
    #[inline(always)]
    fn narrow(sum: f32) -> f32 {
        sum
    }
}

impl Element for i8 {
    #[inline(always)]
    fn wide(self) -> f32 {
        f32::from(self)
    }
    /// Exact, since 2^17 terms would be needed to reach what `f32` rounds; wraps as integers do.
    #[inline(always)]
    fn narrow(sum: f32) -> i8 {
        sum as i32 as i8
    }
}

impl Element for bf16 {
    #[inline(always)]
    fn wide(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
    /// To the nearest, ties to even; without a branch, so that it is made in vectors. What is not
    /// a number stays so.
    #[inline(always)]
    fn narrow(sum: f32) -> bf16 {
        let bits = sum.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        bf16::from_bits(if sum.is_nan() { 0x7fc0 } else { rounded as u16 })
    }
}

/// # Safety
///
/// As [`ThreadCollective::sum`].
unsafe fn sum<E: Element>(sides: &Sides<'_>, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
            // SAFETY: the CPU has it; the caller's promise.
            return unsafe { sum_avx512::<E>(sides, bytes) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has it; the caller's promise.
            return unsafe { sum_avx2::<E>(sides, bytes) };
        }
    }
    // SAFETY: the caller's promise.
    unsafe { sum_portable::<E>(sides, bytes) }
}

/// # Safety
///
/// As [`ThreadCollective::sum`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn sum_avx512<E: Element>(sides: &Sides<'_>, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { sum_portable::<E>(sides, bytes) }
}

/// # Safety
///
/// As [`ThreadCollective::sum`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn sum_avx2<E: Element>(sides: &Sides<'_>, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { sum_portable::<E>(sides, bytes) }
}

/// Chunk by chunk, in the order of ranks. Compiled for each instruction set.
///
/// # Safety
///
/// As [`ThreadCollective::sum`].
#[inline(always)]
unsafe fn sum_portable<E: Element>(sides: &Sides<'_>, bytes: usize) {
    let length = bytes / size_of::<E>();
    let Sides { from, offset, to, to_offset } = *sides;
    let mut sums = [0f32; CHUNK];
    for start in (0..length).step_by(CHUNK) {
        let sums = &mut sums[..CHUNK.min(length - start)];
        // SAFETY: the caller's promise. A buffer that is read is not written before all are
        // read, and no slice to one outlives its use.
        unsafe {
            let count = sums.len();
            let read = |base: usize| {
                std::slice::from_raw_parts(((base + offset) as *const E).add(start), count)
            };
            for ((sum, first), second) in sums.iter_mut().zip(read(from[0])).zip(read(from[1])) {
                *sum = first.wide() + second.wide();
            }
            for &base in &from[2..] {
                for (sum, next) in sums.iter_mut().zip(read(base)) {
                    *sum += next.wide();
                }
            }
            for &base in to {
                let cells = ((base + to_offset) as *mut E).add(start);
                for (at, sum) in sums.iter().enumerate() {
                    cells.add(at).write(E::narrow(*sum));
                }
            }
        }
    }
}
