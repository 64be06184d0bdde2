//! Collectives between the host's threads: bus factors, and every collective against its check
//! and against a plain model, at odd counts and numbers of ranks.

use fizeau_bench::{self as bench, Rank};
use fizeau_comm::{Communicator, RankBuffers, host::ThreadRanks};
use fizeau_device::{Backend, Buffer, Device, DeviceError, host::Host};
use fizeau_domain::{
    case::{Case, Collective, CollectivePoint, KernelName, Place, Point},
    dtype::Dtype,
    suite::Suite,
    units::Bytes,
};
use proptest::prelude::*;

/// So many ranks of the host.
fn threads(device: &dyn Device, ranks: u32) -> ThreadRanks<'_> {
    ThreadRanks::new(device.capabilities().threads.expect("the host has threads"), ranks)
}

/// Numbers of ranks of nodes, pairs of nodes, and racks.
fn worlds() -> impl Iterator<Item = u32> {
    (2..=16).chain([64, 72])
}

/// What `nccl-tests` has for an operation on n ranks and a size s in bytes of 4-byte elements, as
/// its `src/*.cu` compute it: elements sent, received, the `count` column, the bytes that
/// algorithm bandwidth is made of, and the factor to bus bandwidth.
fn of_nccl_tests(collective: Collective, n: u64, s: u64) -> (u64, u64, u64, u64, f64) {
    let whole = s / 4;
    let part = (whole / n) & !3;
    let share = (n as f64 - 1.0) / n as f64;
    match collective {
        Collective::AllReduce => {
            (whole, whole, whole, whole * 4, 2.0 * (n as f64 - 1.0) / n as f64)
        }
        Collective::Broadcast | Collective::Reduce | Collective::SendReceive => {
            (whole, whole, whole, whole * 4, 1.0)
        }
        Collective::AllGather | Collective::Gather => (part, part * n, part, part * n * 4, share),
        Collective::ReduceScatter | Collective::Scatter => {
            (part * n, part, part, part * n * 4, share)
        }
        Collective::AllToAll | Collective::AllToAllV => {
            (part * n, part * n, part, part * n * 4, share)
        }
    }
}

#[test]
fn factors_and_byte_counts_are_those_of_nccl_tests() {
    let suite: Suite = toml::from_str(SUITE).expect("a suite");
    for ranks in worlds() {
        let world = World(ranks);
        let device = Host.open(0).expect("there is a host");
        let cases = bench::cases(&suite, Rank { device: &*device, peers: &world });
        let mut sizes = [4096u64, 65536, 1 << 20, 16 << 20, 256 << 20, 4 << 30].into_iter().cycle();
        assert_eq!(cases.len(), Collective::ALL.len() * 6);
        for case in &cases {
            let Point::Collective(point) = case.point else { panic!("{case}") };
            let (n, asked) = (u64::from(ranks), sizes.next().expect("endless"));
            let (sent, received, count, moved, factor) = of_nccl_tests(point.collective, n, asked);
            let buffers = point.collective.buffer_bytes(point.message, ranks);
            assert_eq!(buffers, [Bytes(sent * 4), Bytes(received * 4)], "{case}");
            assert_eq!(point.count(), count, "{case}");
            assert_eq!(point.message, Bytes(moved), "{case}");
            assert_eq!(point.message.0, sent.max(received) * 4, "{case}: the size column");
            assert_eq!(point.collective.bus_factor(ranks), factor, "{case}");
            let bus = case.point.work().link.0 as f64;
            assert!((bus - moved as f64 * factor).abs() <= 1.0, "{case}: {bus}");
        }
    }
}

/// Registered buffers and graphs are a GPU library's: between the host's ranks none is planned, and
/// every other case keeps its id.
#[test]
fn what_only_gpus_have_is_not_planned_on_the_host() {
    let plan = |text: &str| -> Vec<String> {
        let suite: Suite = toml::from_str(text).expect("a suite");
        assert_eq!(suite.check(), Ok(()));
        let device = Host.open(0).expect("there is a host");
        let cases = bench::cases(&suite, Rank { device: &*device, peers: &World(2) });
        cases.iter().map(ToString::to_string).collect()
    };
    let more = "buffers = [\"plain\", \"registered\", \"symmetric\"]\n\
                ways = [\"queued\", \"graph\"]\ngraph = [16]\n";
    assert_eq!(plan(&format!("{SUITE}{more}")), plan(SUITE));
    for (line, word) in [
        ("ways = [\"graph\"]", "how many"),
        ("ways = [\"waited\"]", "queued and graph"),
        ("ways = [\"graph\"]\ngraph = [0]", "from 1 to 1024"),
        ("graph = [4]", "graph is among"),
        ("ways = []", "at least one"),
        ("sizes = [\"x1\"]", "x1"),
        ("sizes = [\"0\"]", "from 1 B to 1 TiB"),
    ] {
        let suite: Suite = toml::from_str(&format!("{SUITE}{line}\n")).expect("a suite");
        let said = suite.check().expect_err("it cannot be planned");
        assert!(said.contains(word), "{line}: {said}");
    }
    // What is no size would be zero, and zero times any factor is never the last size.
    for (sound, spoilt, word) in [
        ("from = \"4KiB\"", "from = \"abc\"", "abc"),
        ("from = \"4KiB\"", "from = \"0\"", "from 1 B to 1 TiB"),
        ("from = \"4KiB\"", "from = \"8GiB\"", "nothing lies between"),
        ("to = \"4GiB\"", "to = \"99999999TiB\"", "TiB"),
        ("factor = 16", "factor = 1", "2 at least"),
    ] {
        assert!(SUITE.contains(sound));
        let suite: Suite = toml::from_str(&SUITE.replace(sound, spoilt)).expect("a suite");
        let said = suite.check().expect_err("it cannot be planned");
        assert!(said.contains(word), "{spoilt}: {said}");
    }
}

/// The factors of measuring practice, as numbers.
#[test]
fn factors_of_well_known_worlds() {
    for (collective, ranks, factor) in [
        (Collective::AllReduce, 8, 1.75),
        (Collective::AllReduce, 16, 1.875),
        (Collective::AllReduce, 72, 1.9722),
        (Collective::AllGather, 8, 0.875),
        (Collective::ReduceScatter, 16, 0.9375),
        (Collective::AllToAll, 72, 0.9861),
        (Collective::AllToAllV, 8, 0.875),
        (Collective::Gather, 64, 0.984375),
        (Collective::Scatter, 2, 0.5),
        (Collective::Reduce, 72, 1.0),
    ] {
        let found = collective.bus_factor(ranks);
        assert!((found - factor).abs() < 5e-5, "{collective} {ranks}: {found}");
    }
}

/// The busiest rank receives the message, 1.5 times the mean; all ranks send alike; and what all
/// send is what all receive.
#[test]
fn tokens_go_to_some_experts_more_than_to_others() {
    let (collective, dtype) = (Collective::AllToAllV, Dtype::Bf16);
    for ranks in worlds() {
        let message = Bytes(u64::from(ranks) << 20);
        let point = CollectivePoint::new(collective, dtype, message, ranks);
        let received: Vec<u64> = (0..ranks).map(|rank| point.receives(rank).0).collect();
        let sent: u64 = (0..ranks).map(|rank| point.sends(rank).0).sum();
        assert_eq!(received.iter().sum::<u64>(), sent);
        assert_eq!(received.iter().max(), Some(&message.0));
        let mean = sent as f64 / f64::from(ranks);
        assert!((message.0 as f64 / mean - 1.5).abs() < 1e-4, "{ranks}: {mean}");
        assert_eq!(point.sent_before(1), point.part(0));
    }
}

const SUITE: &str = r#"
name = "sizes"
description = "Every collective over sizes of many magnitudes"
measure = { samples_min = 1, samples_max = 1, noise_max = 0.1, time_min = 0, time_max = 1,
    warmup_max = 1, sample_min = 0, deadline = 1 }

[collective]
collectives = ["all_reduce", "all_to_all", "all_gather", "reduce_scatter", "broadcast",
    "send_receive", "reduce", "gather", "scatter", "all_to_allv"]
dtypes = ["f32"]
from = "4KiB"
to = "4GiB"
factor = 16
places = ["out_of_place"]
"#;

/// A world without ranks, to plan for.
struct World(u32);

impl Communicator for World {
    fn kernels(&self) -> Vec<KernelName> {
        vec![kernel()]
    }
    fn size(&self) -> u32 {
        self.0
    }
    fn local(&self) -> (u32, u32) {
        (0, 0)
    }
    fn enqueue(
        &self,
        _: Collective,
        _: Dtype,
        _: Bytes,
        _: &[RankBuffers<'_>],
        _: u32,
    ) -> Result<(), DeviceError> {
        Err(DeviceError::Driver("nobody is there".into()))
    }
    fn all_gather_bytes(&self, _: &[u8]) -> Result<Vec<Vec<u8>>, DeviceError> {
        Ok(Vec::new())
    }
}

fn kernel() -> KernelName {
    KernelName("threads".into())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn every_collective_is_right(
        ranks in 2u32..=5,
        part in 1u64..3000,
        repeat in 1u32..4,
        dtype in prop_oneof![
            Just(Dtype::F32), Just(Dtype::Bf16), Just(Dtype::Int8), Just(Dtype::Fp8)
        ],
        place in prop_oneof![
            Just(Place::InPlace), Just(Place::OutOfPlace), Just(Place::Unaligned)
        ],
    ) {
        let device = Host.open(0).expect("there is a host");
        let peers = threads(&*device, ranks);
        let rank = Rank { device: &*device, peers: &peers };
        for collective in Collective::ALL {
            let message = Bytes(part * u64::from(ranks) * dtype.bits() / 8);
            let point = CollectivePoint {
                place,
                ..CollectivePoint::new(collective, dtype, message, ranks)
            };
            let case = Case { kernel: kernel(), point: Point::Collective(point) };
            let prepared = crate::prepare(&case, rank);
            if !collective.exists(place) {
                prop_assert!(prepared.is_err(), "{}", case);
                continue;
            }
            let mut workload = prepared.expect("it is ready");
            let idle = workload.verify().expect("buffers are read");
            prop_assert!(!idle.passed(), "{}: nothing done passes", case);
            for _ in 0..2 {
                workload.poison().expect("buffers are written");
                if collective.sums() && dtype == Dtype::Fp8 {
                    let refused = workload.enqueue(repeat).expect_err("threads do not sum it");
                    prop_assert!(refused.to_string().contains("sums of fp8"), "{}", refused);
                    continue;
                }
                workload.enqueue(repeat).expect("it runs");
                let check = workload.verify().expect("buffers are read");
                prop_assert!(check.passed(), "{}: {:?}", case, check);
                let received: u64 = (0..ranks).map(|rank| point.receives(rank).0).sum();
                prop_assert_eq!(check.compared, received / (dtype.bits() / 8));
                prop_assert!(check.compared >= part * u64::from(ranks) / 2);
            }
        }
    }

    /// Small integers, whose sums are exact, against the definition of each collective.
    #[test]
    fn a_plain_model_agrees(ranks in 2usize..=5, part in 1usize..70, seed in any::<u64>()) {
        let device = Host.open(0).expect("there is a host");
        let peers = threads(&*device, ranks as u32);
        let whole = part * ranks;
        let mut random = oorandom::Rand64::new(seed.into());
        let data: Vec<Vec<f32>> = (0..ranks)
            .map(|_| (0..whole).map(|_| random.rand_range(0..1000) as f32).collect())
            .collect();
        let sum = |at: usize| data.iter().map(|sent| sent[at]).sum::<f32>();
        for collective in Collective::ALL {
            let expected = |rank: usize| -> Vec<f32> {
                let own = rank * part..(rank + 1) * part;
                match collective {
                    Collective::AllReduce => (0..whole).map(sum).collect(),
                    Collective::ReduceScatter => own.map(sum).collect(),
                    Collective::AllToAll => {
                        data.iter().flat_map(|sent| sent[own.clone()].to_vec()).collect()
                    }
                    Collective::AllGather => {
                        data.iter().flat_map(|sent| sent[..part].to_vec()).collect()
                    }
                    Collective::Broadcast => data[0].clone(),
                    Collective::Reduce if rank == 0 => (0..whole).map(sum).collect(),
                    Collective::Gather if rank == 0 => {
                        data.iter().flat_map(|sent| sent[..part].to_vec()).collect()
                    }
                    Collective::Scatter => data[0][own].to_vec(),
                    // The rest of the root's buffer, and everybody else's, is left as it was.
                    Collective::Reduce => vec![0.0; whole],
                    Collective::Gather => vec![0.0; whole],
                    Collective::AllToAllV => {
                        let third = 3 * (ranks - 1);
                        let length = |to: usize| part * (third - 2 * to) / third;
                        let from: usize = (0..rank).map(length).sum();
                        let slices = data.iter().map(|sent| &sent[from..from + length(rank)]);
                        let mut received: Vec<f32> = slices.flatten().copied().collect();
                        received.resize(whole, 0.0);
                        received
                    }
                    Collective::SendReceive => data[(rank + ranks - 1) % ranks].clone(),
                }
            };
            let received = exchanged(&*device, &peers, collective, &data);
            for (rank, received) in received.iter().enumerate() {
                prop_assert_eq!(received, &expected(rank), "{} on rank {}", collective, rank);
            }
        }
    }
}

/// Threads that spoil one received element after each collective.
struct Broken<'d> {
    device: &'d dyn Device,
    peers: &'d dyn Communicator,
    rank: usize,
    offset: u64,
}

impl Communicator for Broken<'_> {
    fn kernels(&self) -> Vec<KernelName> {
        self.peers.kernels()
    }
    fn size(&self) -> u32 {
        self.peers.size()
    }
    fn local(&self) -> (u32, u32) {
        self.peers.local()
    }
    fn enqueue(
        &self,
        collective: Collective,
        dtype: Dtype,
        message: Bytes,
        ranks: &[RankBuffers<'_>],
        repeat: u32,
    ) -> Result<(), DeviceError> {
        self.peers.enqueue(collective, dtype, message, ranks, repeat)?;
        let RankBuffers { receive, receive_offset, .. } = ranks[self.rank];
        let mut element = [0; 4];
        let at = receive_offset + Bytes(self.offset);
        self.device.read(receive, at, &mut element)?;
        // The lowest exponent bit: a factor of two either way.
        element[2] ^= 0x80;
        self.device.write(receive, at, &element)
    }
    fn all_gather_bytes(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, DeviceError> {
        self.peers.all_gather_bytes(mine)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn one_wrong_element_is_found(rank in 0usize..3, at in 0u64..33, repeat in 1u32..3) {
        let device = Host.open(0).expect("there is a host");
        let peers = threads(&*device, 3);
        let broken = Broken { device: &*device, peers: &peers, rank, offset: at * 4 };
        for collective in Collective::ALL {
            let message = Bytes(1200);
            let point = CollectivePoint::new(collective, Dtype::F32, message, 3);
            let case = Case { kernel: kernel(), point: Point::Collective(point) };
            if point.receives(rank as u32) == Bytes(0) {
                continue;
            }
            let rank = Rank { device: &*device, peers: &broken };
            let mut workload = crate::prepare(&case, rank).expect("it is ready");
            workload.poison().expect("buffers are written");
            workload.enqueue(repeat).expect("it runs");
            let check = workload.verify().expect("buffers are read");
            prop_assert!(!check.passed(), "{}", case);
            prop_assert_eq!(check.wrong, 1, "{}", case);
        }
    }
}

/// What each rank has received where each sends its data.
fn exchanged(
    device: &dyn Device,
    peers: &dyn Communicator,
    collective: Collective,
    data: &[Vec<f32>],
) -> Vec<Vec<f32>> {
    let message = Bytes(data[0].len() as u64 * 4);
    let [_, receive_bytes] = collective.buffer_bytes(message, data.len() as u32);
    let buffer = || device.allocate(message).expect("there is memory");
    let sent = |sent: &Vec<f32>| {
        let buffer = buffer();
        device.write(&buffer, Bytes(0), bytemuck::cast_slice(sent)).expect("it fits");
        buffer
    };
    let send: Vec<Buffer> = data.iter().map(sent).collect();
    let receive: Vec<Buffer> = data.iter().map(|_| buffer()).collect();
    let both = |(send, receive)| RankBuffers {
        send,
        send_offset: Bytes(0),
        receive,
        receive_offset: Bytes(0),
    };
    let ranks: Vec<_> = send.iter().zip(&receive).map(both).collect();
    peers.enqueue(collective, Dtype::F32, message, &ranks, 2).expect("it runs");
    let read = |buffer: &Buffer| {
        let mut received = vec![0f32; receive_bytes.0 as usize / 4];
        let bytes = bytemuck::cast_slice_mut(&mut received);
        device.read(buffer, Bytes(0), bytes).expect("it is there");
        received
    };
    receive.iter().map(read).collect()
}

#[test]
fn messages_that_cannot_be_cut_are_refused() {
    let device = Host.open(0).expect("there is a host");
    let peers = threads(&*device, 3);
    let buffers: Vec<Buffer> =
        (0..3).map(|_| device.allocate(Bytes(64)).expect("there is memory")).collect();
    let both = |buffer| RankBuffers {
        send: buffer,
        send_offset: Bytes(0),
        receive: buffer,
        receive_offset: Bytes(0),
    };
    let ranks: Vec<_> = buffers.iter().map(both).collect();
    let enqueue = |collective, bytes, ranks: &[RankBuffers<'_>]| {
        peers.enqueue(collective, Dtype::F32, Bytes(bytes), ranks, 1)
    };
    assert!(enqueue(Collective::AllReduce, 64, &ranks).is_ok());
    assert!(enqueue(Collective::AllReduce, 62, &ranks).is_err());
    assert!(enqueue(Collective::AllReduce, 128, &ranks).is_err());
    assert!(enqueue(Collective::AllReduce, 64, &ranks[..2]).is_err());
    assert!(enqueue(Collective::ReduceScatter, 64, &ranks).is_err());
    assert!(peers.enqueue(Collective::AllReduce, Dtype::F16, Bytes(64), &ranks, 1).is_err());
}

/// Threads that write one element more than they should, before or after what is received.
#[test]
fn what_is_written_beside_an_unaligned_buffer_is_found() {
    let device = Host.open(0).expect("there is a host");
    let peers = threads(&*device, 2);
    let point = CollectivePoint {
        place: Place::Unaligned,
        ..CollectivePoint::new(Collective::AllReduce, Dtype::F32, Bytes(132), 2)
    };
    let case = Case { kernel: kernel(), point: Point::Collective(point) };
    let right = Rank { device: &*device, peers: &peers };
    let mut workload = crate::prepare(&case, right).expect("it is ready");
    workload.enqueue(1).expect("it runs");
    assert!(workload.verify().expect("buffers are read").passed());
    let broken = Broken { device: &*device, peers: &peers, rank: 1, offset: point.message.0 };
    let rank = Rank { device: &*device, peers: &broken };
    let mut workload = crate::prepare(&case, rank).expect("it is ready");
    workload.enqueue(1).expect("it runs");
    let check = workload.verify().expect("buffers are read");
    assert!(!check.passed() && check.wrong == 1, "{check:?}");
}
