//! The operation `collective`, with the message sizes, places and offsets of `nccl-tests`.
//!
//! # How a collective is checked
//!
//! Every element that every rank receives is compared, on the device where that lists a kernel for
//! it (`collective/check_...`), else by the host: copies bit by bit, sums with the sum in
//! `f64`. Data is a function of rank and place (`element`), so that what should be received is
//! computed and not kept. Adding n positive values leaves a sum off by at most `(n - 1) u` of
//! itself with unit roundoff u; narrow types are drawn so that their sums are exact. Before it
//! runs, all that is received is filled with what is never sent. Unaligned, the elements before
//! and after the buffer must stay so.
//!
//! In place a sum goes into the next iteration's operands and grows until it is infinite (which
//! costs no time: infinite operands are added as fast as finite ones, and no denormal ever
//! appears). After the timed loop each element must have grown at least to the first sum, where its
//! type grows; the buffers are then filled anew, and one iteration by itself is compared as above.
//! `nccl-tests` checks one such iteration too.

mod check;
pub(super) mod element;

use super::element::E4m3;
use super::{Prepared, Rank, Unready, Workload, together};
use check::{Checker, Pattern};
use element::{Element, Terms, sent};
use fizeau_comm::{Graph, RankBuffers};
use fizeau_device::{Buffer, DeviceError};
use fizeau_domain::{
    case::{Buffers, Case, Collective, CollectivePoint, KernelName, Place, Point},
    dtype::Dtype,
    outcome::Check,
    suite::{CollectiveAxes, Suite},
    units::Bytes,
};
use half::{bf16, f16};

/// Elements written to or read from a device at once.
const CHUNK: usize = 1 << 16;

/// The cases of a suite: every size of the axes, rounded down to equal parts for all ranks.
/// What does not exist in place is not planned, nor are buffers and graphs of a library's own where
/// no library puts collectives onto a device's stream.
pub fn cases(suite: &Suite, rank: Rank<'_>) -> Vec<Case> {
    let Some(axes) = &suite.collective else { return Vec::new() };
    let ranks = rank.peers.size();
    let mut cases = Vec::new();
    let is_had = |&(buffers, graph): &(Buffers, u32)| {
        rank.peers.is_on_stream() || buffers.are_plain() && graph == 0
    };
    let graphs = axes.graphs();
    let of = |&buffers| graphs.iter().map(move |&graph| (buffers, graph));
    let variants: Vec<_> = axes.buffers.iter().flat_map(of).filter(is_had).collect();
    for kernel in rank.peers.kernels() {
        let of = |collective| axes.dtypes.iter().map(move |&dtype| (collective, dtype));
        for (collective, dtype) in axes.collectives.iter().copied().flat_map(of) {
            for &place in axes.places.iter().filter(|&&place| collective.exists(place)) {
                for &(buffers, graph) in &variants {
                    let point = |message| CollectivePoint {
                        place,
                        buffers,
                        graph,
                        ..CollectivePoint::new(collective, dtype, message, ranks)
                    };
                    let points = sizes(axes, collective, dtype, ranks).into_iter().map(point);
                    let case =
                        |point| Case { kernel: kernel.clone(), point: Point::Collective(point) };
                    cases.extend(points.filter(can_be_asked).map(case));
                }
            }
        }
    }
    cases
}

/// Whether a library's manual allows it.
fn can_be_asked(point: &CollectivePoint) -> bool {
    point.buffers != Buffers::Symmetric || point.offsets_are_alike()
}

/// From the first to the last of the axes, without those that leave a rank nothing.
fn sizes(axes: &CollectiveAxes, collective: Collective, dtype: Dtype, ranks: u32) -> Vec<Bytes> {
    let size = |text: &str| text.parse::<Bytes>().unwrap_or_default();
    let (from, to) = (size(&axes.from), size(&axes.to));
    let part = axes.granule.max(dtype.bits() / 8);
    let granule = part * if collective.in_parts() { u64::from(ranks) } else { 1 };
    let next = |size: &u64| size.checked_mul(axes.factor.max(2));
    let mut named: Vec<u64> = axes.sizes.iter().map(|text| size(text).0).collect();
    named.sort_unstable();
    let all: Vec<u64> = match named.is_empty() {
        true => {
            std::iter::successors(Some(from.0), next).take_while(|&size| size <= to.0).collect()
        }
        false => named.into_iter().filter(|&size| size >= from.0 && size <= to.0).collect(),
    };
    let mut sizes: Vec<Bytes> = all
        .into_iter()
        .map(|size| Bytes(size / granule * granule))
        .filter(|&size| size > Bytes(0))
        .collect();
    sizes.dedup();
    sizes
}

/// Makes a case ready.
pub fn prepare<'r>(point: &CollectivePoint, kernel: &KernelName, rank: Rank<'r>) -> Prepared<'r> {
    let refuse = |why: String| Err(Unready::Unsupported(why));
    let CollectivePoint { collective, place, ranks, .. } = *point;
    if !rank.peers.kernels().contains(kernel) {
        return refuse(format!("no {} between these ranks", kernel.0));
    }
    if rank.peers.size() != ranks {
        return refuse(format!("{ranks} ranks are planned, {} are there", rank.peers.size()));
    }
    if !collective.exists(place) {
        return refuse(format!("{collective} does not exist {place}"));
    }
    if !can_be_asked(point) {
        return refuse(format!("{collective} {place} has other offsets in each rank's window"));
    }
    match point.dtype {
        Dtype::F64 => made::<f64>(point, rank),
        Dtype::F32 => made::<f32>(point, rank),
        Dtype::F16 => made::<f16>(point, rank),
        Dtype::Bf16 => made::<bf16>(point, rank),
        Dtype::Fp8 => made::<E4m3>(point, rank),
        Dtype::Int8 => made::<i8>(point, rank),
        other => refuse(format!("no data is made for collectives of {other}")),
    }
}

fn made<'r, E: Element + 'r>(point: &CollectivePoint, rank: Rank<'r>) -> Prepared<'r> {
    let mut exchange = together::settled(CollectiveWorkload::<E>::new(point, rank), rank)?;
    if point.graph > 0 {
        let captured = exchange.capture();
        together::settled(captured.map_err(Unready::from), rank)?;
    }
    Ok(Box::new(exchange))
}

/// Elements that are made by `sent` from preparing a case to its end: what is sent is filled in
/// once for each of three states (first, warm, sampled), what is received compared twice, each sum
/// with one term from every rank.
pub fn elements_made(point: &CollectivePoint) -> u64 {
    let terms = if point.collective.sums() { u64::from(point.ranks) } else { 1 };
    let of_rank = |rank| 3 * point.sends(rank).0 + 2 * terms * point.receives(rank).0;
    (0..point.ranks).map(of_rank).sum::<u64>() / (point.dtype.bits() / 8).max(1)
}

/// A collective made ready on all local ranks.
struct CollectiveWorkload<'r, E> {
    rank: Rank<'r>,
    point: CollectivePoint,
    /// As many collectives as the point has in a graph, and one alone; both before the buffers
    /// that they use, so that they go first.
    graphs: Option<[Graph<'r>; 2]>,
    send: Vec<Buffer>,
    /// Empty in place.
    receive: Vec<Buffer>,
    /// None where the host compares.
    checker: Option<Checker<'r>>,
    /// Since the buffers were filled.
    iterations: u64,
    elements: std::marker::PhantomData<E>,
}

impl<'r, E: Element> CollectiveWorkload<'r, E> {
    fn new(point: &CollectivePoint, rank: Rank<'r>) -> Result<Self, Unready> {
        let (_, local) = rank.peers.local();
        let [send_bytes, receive_bytes] = point.collective.buffer_bytes(point.message, point.ranks);
        let buffers = |size| {
            let buffer = |_| rank.peers.allocate(rank.device, size, point.buffers);
            (0..local).map(buffer).collect()
        };
        // An element before and one after.
        let around = Bytes(2 * size_of::<E>() as u64);
        let (send, receive): (Result<_, DeviceError>, Result<_, DeviceError>) = match point.place {
            Place::InPlace => (buffers(send_bytes.max(receive_bytes)), Ok(Vec::new())),
            Place::OutOfPlace => (buffers(send_bytes), buffers(receive_bytes)),
            Place::Unaligned => (buffers(send_bytes + around), buffers(receive_bytes + around)),
        };
        let (send, receive) = (send?, receive?);
        let (graphs, elements) = (None, std::marker::PhantomData);
        let (point, checker) = (*point, Checker::new(rank, point.dtype)?);
        let mut ready = CollectiveWorkload {
            rank,
            point,
            graphs,
            send,
            receive,
            checker,
            iterations: 0,
            elements,
        };
        ready.fill()?;
        Ok(ready)
    }

    /// Captures the graphs. One collective goes before: what a library makes at its first use is
    /// not to be made while it is captured.
    fn capture(&mut self) -> Result<(), DeviceError> {
        let (device, peers) = (self.rank.device, self.rank.peers);
        device.timed(&mut || self.one_by_one(1))?;
        let ranks: Vec<_> = (0..self.send.len()).map(|local| self.buffers(local)).collect();
        let CollectivePoint { collective, dtype, message, graph, .. } = self.point;
        let of = |count| peers.graph(collective, dtype, message, &ranks, count);
        let graphs = [of(graph)?, of(1)?];
        self.graphs = Some(graphs);
        Ok(())
    }

    fn one_by_one(&self, repeat: u32) -> Result<(), DeviceError> {
        let ranks: Vec<_> = (0..self.send.len()).map(|local| self.buffers(local)).collect();
        let CollectivePoint { collective, dtype, message, .. } = self.point;
        self.rank.peers.enqueue(collective, dtype, message, &ranks, repeat)
    }

    /// Elements of one rank's part of the message.
    fn part(&self) -> usize {
        self.count(Bytes(self.point.message.0 / u64::from(self.point.ranks)))
    }

    fn count(&self, bytes: Bytes) -> usize {
        bytes.0 as usize / size_of::<E>()
    }

    /// The buffers of a local rank, at the offsets of `nccl-tests`: in place, all_gather and
    /// gather send from the rank's own part of what is received, and reduce_scatter and scatter
    /// receive in the rank's own part of what is sent.
    fn buffers(&self, local: usize) -> RankBuffers<'_> {
        let send = &self.send[local];
        let receive = self.receive.get(local).unwrap_or(send);
        let own = Bytes((self.part() * size_of::<E>() * self.rank_of(local)) as u64);
        let (send_offset, receive_offset) = match (self.point.place, self.point.collective) {
            (Place::InPlace, Collective::AllGather | Collective::Gather) => (own, Bytes(0)),
            (Place::InPlace, Collective::ReduceScatter | Collective::Scatter) => (Bytes(0), own),
            (Place::Unaligned, _) => {
                let one = Bytes(size_of::<E>() as u64);
                (one, one)
            }
            _ => (Bytes(0), Bytes(0)),
        };
        RankBuffers { send, send_offset, receive, receive_offset }
    }

    fn rank_of(&self, local: usize) -> usize {
        self.rank.peers.local().0 as usize + local
    }

    /// Whether an iteration's result is the next one's operand.
    fn grows(&self) -> bool {
        self.point.place == Place::InPlace && self.point.collective.sums()
    }

    /// Ranks whose elements meet.
    fn terms(&self) -> Terms {
        Terms(if self.point.collective.sums() { u64::from(self.point.ranks) } else { 1 })
    }

    /// Spoils what is received and writes what is sent.
    fn fill(&mut self) -> Result<(), DeviceError> {
        for local in 0..self.send.len() {
            let rank = self.rank_of(local);
            let buffers = self.buffers(local);
            let whole = self.count(buffers.receive.size);
            self.write(buffers.receive, Bytes(0), whole, |_| E::POISON)?;
            let sends = self.count(self.point.sends(rank as u32));
            self.write(buffers.send, buffers.send_offset, sends, |at| {
                sent(rank, at, self.terms())
            })?;
        }
        self.iterations = 0;
        Ok(())
    }

    fn write(
        &self,
        buffer: &Buffer,
        offset: Bytes,
        count: usize,
        element: impl Fn(usize) -> E,
    ) -> Result<(), DeviceError> {
        for start in (0..count).step_by(CHUNK) {
            let chunk: Vec<E> = (start..count.min(start + CHUNK)).map(&element).collect();
            let at = Bytes(offset.0 + (start * size_of::<E>()) as u64);
            self.rank.device.write(buffer, at, bytemuck::cast_slice(&chunk))?;
        }
        Ok(())
    }

    /// What a rank should receive.
    fn pattern(&self, rank: usize) -> Pattern {
        let CollectivePoint { collective, ranks, .. } = self.point;
        let (part, ranks) = (self.part(), ranks as usize);
        // All that one rank gives, and more.
        let of = |peer, before| Pattern::Copy { peer, slice: usize::MAX, before };
        match collective {
            Collective::AllReduce | Collective::Reduce => Pattern::Sum { before: 0 },
            Collective::ReduceScatter => Pattern::Sum { before: rank * part },
            Collective::AllToAll | Collective::AllToAllV => Pattern::Copy {
                peer: 0,
                slice: self.count(self.point.part(rank as u32)).max(1),
                before: self.count(self.point.sent_before(rank as u32)),
            },
            Collective::AllGather | Collective::Gather => {
                Pattern::Copy { peer: 0, slice: part.max(1), before: 0 }
            }
            Collective::Scatter => of(0, rank * part),
            Collective::Broadcast => of(0, 0),
            Collective::SendReceive => of((rank + ranks - 1) % ranks, 0),
        }
    }

    fn tolerance(&self) -> f64 {
        if !self.point.collective.sums() {
            return 0.0;
        }
        f64::from(self.point.ranks - 1) * E::ROUNDOFF
    }

    /// Compares all that was received.
    fn check(&self) -> Result<Check, DeviceError> {
        let tolerance = self.tolerance();
        let mut check = Check { error: 0.0, tolerance, compared: 0, wrong: 0 };
        for local in 0..self.send.len() {
            let rank = self.rank_of(local);
            let count = self.count(self.point.receives(rank as u32));
            let (buffers, pattern) = (self.buffers(local), self.pattern(rank));
            let (wrong, error) = match &self.checker {
                Some(checker) => {
                    let at = buffers.receive.address + buffers.receive_offset.0;
                    let (ranks, has_grown) = (self.point.ranks, self.has_grown());
                    checker.check(at, count, pattern, ranks, has_grown, tolerance)?
                }
                None => self.compared(&buffers, pattern, count)?,
            };
            check.wrong += wrong;
            check.error = check.error.max(error);
            check.compared += count as u64;
            check.wrong += self.spilt(&buffers)?;
        }
        if check.wrong > 0 && check.error <= tolerance {
            check.error = f64::INFINITY;
        }
        together::agreed(check, self.rank)
    }

    /// Whether what was received has been added up more than once.
    fn has_grown(&self) -> bool {
        self.iterations > 1 && self.grows()
    }

    /// Compares on the host: the number of wrong elements, and the largest error.
    fn compared(
        &self,
        buffers: &RankBuffers<'_>,
        pattern: Pattern,
        count: usize,
    ) -> Result<(u64, f64), DeviceError> {
        let mut chunk = vec![E::POISON; CHUNK.min(count)];
        let (mut wrong, mut largest) = (0, 0.0f64);
        for start in (0..count).step_by(CHUNK) {
            let chunk = &mut chunk[..CHUNK.min(count - start)];
            let at = Bytes(buffers.receive_offset.0 + (start * size_of::<E>()) as u64);
            let bytes = bytemuck::cast_slice_mut(chunk);
            self.rank.device.read(buffers.receive, at, bytes)?;
            for (index, &received) in chunk.iter().enumerate() {
                let error = self.error(pattern, start + index, received);
                wrong += u64::from(error.is_nan() || error > self.tolerance());
                largest = largest.max(if error.is_nan() { f64::INFINITY } else { error });
            }
        }
        Ok((wrong, largest))
    }

    /// Elements around what was received that are not as they were: 0 to 2.
    fn spilt(&self, buffers: &RankBuffers<'_>) -> Result<u64, DeviceError> {
        if self.point.place != Place::Unaligned {
            return Ok(0);
        }
        let last = buffers.receive.size.0 - size_of::<E>() as u64;
        let mut spilt = 0;
        for at in [0, last] {
            let mut element = [E::POISON];
            let bytes = bytemuck::cast_slice_mut(&mut element);
            self.rank.device.read(buffers.receive, Bytes(at), bytes)?;
            let is_as_it_was = bytemuck::bytes_of(&element[0]) == bytemuck::bytes_of(&E::POISON);
            spilt += u64::from(!is_as_it_was);
        }
        Ok(spilt)
    }

    /// How far an element is from what it should be, relative to it; a copy is right or not.
    fn error(&self, pattern: Pattern, at: usize, received: E) -> f64 {
        match pattern {
            Pattern::Copy { peer, slice, before } => {
                let copied = sent::<E>(peer + at / slice, before + at % slice, self.terms());
                f64::from(u8::from(received != copied))
            }
            Pattern::Sum { before } => {
                let term = |peer| sent::<E>(peer, before + at, self.terms()).value();
                let sum: f64 = (0..self.point.ranks as usize).map(term).sum();
                let received = received.value();
                // Grown in place: infinite in the end.
                if self.has_grown() && (received >= sum || !E::GROWS) {
                    return 0.0;
                }
                if received == sum { 0.0 } else { (received - sum).abs() / sum }
            }
        }
    }
}

impl<E: Element> Workload for CollectiveWorkload<'_, E> {
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        match &self.graphs {
            None => self.one_by_one(repeat)?,
            Some([whole, one]) => {
                let count = self.point.graph;
                if repeat >= count {
                    whole(repeat / count)?;
                }
                if !repeat.is_multiple_of(count) {
                    one(repeat % count)?;
                }
            }
        }
        self.iterations += u64::from(repeat);
        Ok(())
    }

    fn granule(&self) -> u32 {
        self.point.graph.max(1)
    }

    fn poison(&mut self) -> Result<(), DeviceError> {
        self.fill()
    }

    fn verify(&mut self) -> Result<Check, DeviceError> {
        let check = self.check()?;
        if !check.passed() || !self.grows() || self.iterations <= 1 {
            return Ok(check);
        }
        self.fill()?;
        let device = self.rank.device;
        device.timed(&mut || self.enqueue(1))?;
        self.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_cut_into_equal_parts() {
        let axes = CollectiveAxes {
            collectives: vec![],
            dtypes: vec![],
            granule: 16,
            from: "16".into(),
            to: "4KiB".into(),
            factor: 16,
            sizes: vec![],
            places: vec![],
            buffers: vec![],
            ways: vec![],
            graph: vec![],
        };
        let of = |collective, ranks| {
            let sizes = sizes(&axes, collective, Dtype::F32, ranks);
            sizes.iter().map(|size| size.0).collect::<Vec<_>>()
        };
        assert_eq!(of(Collective::AllReduce, 3), [16, 256, 4096]);
        assert_eq!(of(Collective::AllGather, 2), [256, 4096]);
        assert_eq!(of(Collective::AllToAll, 3), [240, 4080]);
        let texts = ["2KiB", "1KiB", "8KiB"].map(str::to_owned).to_vec();
        let axes = CollectiveAxes { sizes: texts, ..axes };
        let of = |axes: &CollectiveAxes, dtype| sizes(axes, Collective::AllReduce, dtype, 3);
        assert_eq!(of(&axes, Dtype::F32), [1024, 2048].map(Bytes));
        // Odd counts, of whole elements.
        let texts = ["33", "34"].map(str::to_owned).to_vec();
        let axes = CollectiveAxes { sizes: texts, granule: 1, ..axes };
        assert_eq!(of(&axes, Dtype::Int8), [33, 34].map(Bytes));
        assert_eq!(of(&axes, Dtype::Bf16), [32, 34].map(Bytes));
        let gathered = sizes(&axes, Collective::AllGather, Dtype::F32, 3);
        assert_eq!(gathered, [Bytes(24)]);
    }
}
