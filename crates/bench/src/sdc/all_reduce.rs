//! all_reduce between all ranks again and again: what each rank receives is hashed on its device
//! each time. What ranks send are small whole numbers whose sums every order of additions leaves
//! exactly (`collective::element`), so that all bits of each sum are known
//! beforehand. Two contents take turns: where nothing was reduced the wrong sum still stands there.

use super::{
    hexadecimal,
    planted::{self, Planted},
    tally::Tally,
};
use crate::{
    Prepared, Rank, Unready, Workload,
    collective::element::{Element, Terms, sent},
    element::E4m3,
    together,
};
use fizeau_comm::RankBuffers;
use fizeau_device::{Buffer, DeviceError};
use fizeau_domain::{
    case::{Buffers, Case, Collective, KernelName, Point, SdcPoint},
    dtype::Dtype,
    kernel::{Operation, sdc},
    outcome::{Check, Integrity, WrongWord},
    stats,
    suite::Suite,
    units::Bytes,
};
use half::{bf16, f16};

/// Contents that take turns.
const CONTENTS: u64 = 2;

/// Words after which contents repeat: the largest prime below 2^16, so that what arrives in another
/// place is another word.
const PERIOD: u64 = 65_521;

/// Wrong words that are kept of each rank.
const WORDS_OF_RANK: usize = 4;

/// The cases of a suite between ranks. Not where a library puts collectives onto a stream: that a
/// kernel which hashes waits for them there has not been shown without a GPU.
pub fn cases(suite: &Suite, rank: Rank<'_>) -> Vec<Case> {
    let ranks = rank.peers.size();
    let Some(axes) = suite.sdc.as_ref().filter(|_| ranks > 1) else { return Vec::new() };
    if rank.peers.is_on_stream() || rank.device.kernels(Operation::Hash).is_empty() {
        return Vec::new();
    }
    let rounds = axes.rounds;
    let mut cases = Vec::new();
    for kernel in rank.peers.kernels() {
        for &dtype in &axes.reduced {
            let point = |&size: &u64| {
                Point::Sdc(SdcPoint::AllReduce { dtype, size: Bytes(size), ranks, rounds })
            };
            let case = |point| Case { kernel: kernel.clone(), point };
            cases.extend(axes.all_reduces.iter().map(point).map(case));
        }
    }
    cases
}

/// A rank of this process.
struct Local<'r> {
    rank: u32,
    receive: Buffer,
    /// Of each of the contents: what it sends, and what was seen of their sum.
    contents: Vec<(Buffer, Tally<'r>)>,
}

/// all_reduces made ready.
struct AllReduces<'r> {
    rank: Rank<'r>,
    dtype: Dtype,
    size: Bytes,
    rounds: u32,
    local: Vec<Local<'r>>,
    /// Of each of the contents: the words of their sum, of one period, and the hash of all.
    sums: Vec<(Vec<u64>, u64)>,
    done: u64,
    /// What a test build plants.
    planted: Option<Planted>,
}

/// [`words`] of an element type.
type Words = fn(u64, Option<u32>, u32) -> Vec<u64>;

/// What was seen on some ranks.
#[derive(Default)]
struct Seen {
    compared: u64,
    mismatches: u64,
    /// Rank, place, what stood there, and what should have.
    wrong: Vec<[u64; 4]>,
}

/// Makes a case ready, on all ranks or on none.
pub(super) fn prepare<'r>(
    (dtype, size, ranks, rounds): (Dtype, Bytes, u32, u32),
    kernel: &KernelName,
    rank: Rank<'r>,
) -> Prepared<'r> {
    let refuse = |why: String| Err(Unready::Unsupported(why));
    if !rank.peers.kernels().contains(kernel) {
        return refuse(format!("no {} between these ranks", kernel.0));
    }
    if rank.peers.size() != ranks {
        return refuse(format!("{ranks} ranks are planned, {} are there", rank.peers.size()));
    }
    let words: Words = match dtype {
        Dtype::Bf16 => words::<bf16>,
        Dtype::F16 => words::<f16>,
        Dtype::Fp8 => words::<E4m3>,
        Dtype::Int8 => words::<i8>,
        other => return refuse(format!("sums of {other} depend on the order of additions")),
    };
    let ready = AllReduces::new(dtype, size, rounds, rank, words);
    Ok(Box::new(together::settled(ready, rank)?))
}

/// What a rank sends of some contents, and of no rank the sum of what all send: one period of it.
fn words<E: Element>(contents: u64, of: Option<u32>, ranks: u32) -> Vec<u64> {
    let count = PERIOD as usize * 8 / size_of::<E>();
    let terms = Terms(u64::from(ranks));
    let element = |at: usize| {
        let at = contents as usize * count + at;
        match of {
            Some(rank) => sent::<E>(rank as usize, at, terms),
            None => {
                let term = |rank: u32| sent::<E>(rank as usize, at, terms).value();
                E::of((0..ranks).map(term).sum())
            }
        }
    };
    let elements: Vec<E> = (0..count).map(element).collect();
    let bytes: &[u8] = bytemuck::cast_slice(&elements);
    bytes.chunks_exact(8).map(bytemuck::pod_read_unaligned).collect()
}

impl<'r> AllReduces<'r> {
    fn new(
        dtype: Dtype,
        size: Bytes,
        rounds: u32,
        rank: Rank<'r>,
        words: Words,
    ) -> Result<AllReduces<'r>, Unready> {
        let (device, ranks, length) = (rank.device, rank.peers.size(), size.0 / 8);
        let sum = |contents| {
            let sum = words(contents, None, ranks);
            let hash = (0..length).fold(0u64, |all, at| {
                all.wrapping_add(sdc::hashed(sum[(at % PERIOD) as usize], at))
            });
            (sum, hash)
        };
        let sums = (0..CONTENTS).map(sum).collect();
        let allocate = || rank.peers.allocate(device, size, Buffers::Plain);
        let (first, count) = rank.peers.local();
        let mut local = Vec::new();
        for number in first..first + count {
            let mut contents = Vec::new();
            for turn in 0..CONTENTS {
                let send = allocate()?;
                device.fill(&send, Bytes(0), &words(turn, Some(number), ranks), length)?;
                contents.push((send, Tally::new(device, length)?));
            }
            local.push(Local { rank: number, receive: allocate()?, contents });
        }
        let planted = planted::of_received();
        Ok(AllReduces { rank, dtype, size, rounds, local, sums, done: 0, planted })
    }

    fn one(&mut self) -> Result<(), DeviceError> {
        let turn = (self.done % CONTENTS) as usize;
        self.done += 1;
        let buffers = self.local.iter().map(|one| RankBuffers {
            send: &one.contents[turn].0,
            send_offset: Bytes(0),
            receive: &one.receive,
            receive_offset: Bytes(0),
        });
        let all: Vec<RankBuffers<'_>> = buffers.collect();
        self.rank.peers.enqueue(Collective::AllReduce, self.dtype, self.size, &all, 1)?;
        if let Some(planted) = &mut self.planted
            && planted.is_next()
        {
            let at = planted.below(self.local.len() as u64) as usize;
            planted.flip_in(self.rank.device, &self.local[at].receive)?;
        }
        self.local.iter().try_for_each(|one| one.contents[turn].1.enqueue(one.receive.address))
    }

    /// What was seen on the ranks of this process.
    fn seen(&self) -> Result<Seen, DeviceError> {
        let mut all = Seen::default();
        for one in &self.local {
            for ((_, tally), (sum, expected)) in one.contents.iter().zip(&self.sums) {
                let seen = tally.read()?;
                let right = seen.entries.iter().find(|entry| entry.hash == *expected);
                let wrong = seen.compared - right.map_or(0, |entry| entry.count.min(seen.compared));
                all.compared += seen.compared;
                all.mismatches += wrong;
                let known = all.wrong.iter().filter(|[of, ..]| *of == u64::from(one.rank)).count();
                let other = seen.entries.iter().take(2).position(|entry| entry.hash != *expected);
                let Some(other) = other.filter(|_| known == 0) else { continue };
                let kept = (0u64..).zip(tally.kept(other)?);
                let expected = |at: u64| sum[(at % PERIOD) as usize];
                let differs = kept.filter(|(at, found)| *found != expected(*at));
                let word = |(at, found)| [u64::from(one.rank), at, found, expected(at)];
                all.wrong.extend(differs.take(WORDS_OF_RANK).map(word));
            }
        }
        Ok(all)
    }
}

impl Workload for AllReduces<'_> {
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        (0..u64::from(repeat) * u64::from(self.rounds)).try_for_each(|_| self.one())
    }

    /// Contents take turns: there is nothing to spoil.
    fn poison(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn verify(&mut self) -> Result<Check, DeviceError> {
        let Seen { compared, mismatches, .. } = self.seen()?;
        together::agreed(Check { compared, wrong: mismatches, ..Check::NONE }, self.rank)
    }

    /// What was seen on all ranks, the same on each.
    fn integrity(&mut self) -> Result<Option<Integrity>, DeviceError> {
        let own = self.seen()?;
        let mut words = vec![own.compared, own.mismatches];
        words.extend(own.wrong.iter().flatten());
        let all = self.rank.peers.all_gather_bytes(bytemuck::cast_slice(&words))?;
        let hash = self.sums.iter().fold(0u64, |all, (_, hash)| all.wrapping_add(*hash));
        let mut integrity = Integrity { unit: "all_reduce".into(), ..Integrity::default() };
        for theirs in all {
            let words: Vec<u64> =
                theirs.chunks_exact(8).map(bytemuck::pod_read_unaligned).collect();
            let (counts, wrong) = words.split_at(words.len().min(2));
            integrity.compared += counts.first().copied().unwrap_or(0);
            integrity.mismatches += counts.get(1).copied().unwrap_or(0);
            integrity.wrong.extend(wrong.chunks_exact(4).map(wrong_word));
        }
        integrity.wrong.truncate(Integrity::WORDS_MAX);
        integrity.rate_seen = stats::rate_seen(integrity.compared);
        integrity.hash = Some(hexadecimal(hash));
        Ok(Some(integrity))
    }
}

fn wrong_word(of: &[u64]) -> WrongWord {
    WrongWord {
        of: format!("{}{} received", Integrity::RECEIVED, of[0]),
        at: of[1],
        row: None,
        column: None,
        found: hexadecimal(of[2]),
        expected: hexadecimal(of[3]),
    }
}
