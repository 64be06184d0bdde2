//! Collectives between the host's threads: bus factors, and every collective against its check
//! and against a plain model, at odd counts and numbers of ranks.

use fizeau::{
    bench::{self, Rank},
    case::{Case, Collective, CollectivePoint, KernelName, Place, Point},
    comm::{Communicator, RankBuffers},
    device::{Backend, Buffer, Device, DeviceError, host::Host},
    dtype::Dtype,
    units::Bytes,
};
use proptest::prelude::*;

/// `doc/PERFORMANCE.md` of nccl-tests.
#[test]
fn bus_factors_are_those_of_nccl_tests() {
    for ranks in 2..=16u32 {
        let n = f64::from(ranks);
        let expected = [
            (Collective::AllReduce, 2.0 * (n - 1.0) / n),
            (Collective::AllToAll, (n - 1.0) / n),
            (Collective::AllGather, (n - 1.0) / n),
            (Collective::ReduceScatter, (n - 1.0) / n),
            (Collective::Broadcast, 1.0),
            (Collective::SendReceive, 1.0),
        ];
        for (collective, factor) in expected {
            assert_eq!(collective.bus_factor(ranks), factor, "{collective} {ranks}");
        }
    }
    assert_eq!(Collective::AllReduce.bus_factor(8), 1.75);
    assert_eq!(Collective::AllGather.bus_factor(8), 0.875);
    assert_eq!(Collective::AllReduce.bus_factor(16), 1.875);
    assert_eq!(Collective::ALL.len(), 6);
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
        dtype in prop_oneof![Just(Dtype::F32), Just(Dtype::Bf16)],
        place in prop_oneof![Just(Place::InPlace), Just(Place::OutOfPlace)],
    ) {
        let device = Host.open(0).expect("there is a host");
        let peers = device.communicator(ranks).expect("the host has ranks");
        let rank = Rank { device: &*device, peers: &*peers };
        for collective in Collective::ALL {
            let message = Bytes(part * u64::from(ranks) * dtype.bits() / 8);
            let point = CollectivePoint { collective, dtype, message, ranks, place };
            let case = Case { kernel: kernel(), point: Point::Collective(point) };
            let prepared = bench::prepare(&case, rank);
            let copies = matches!(collective, Collective::AllToAll | Collective::SendReceive);
            if copies && place == Place::InPlace {
                prop_assert!(prepared.is_err(), "{}", case);
                continue;
            }
            let mut workload = prepared.expect("it is ready");
            let idle = workload.verify().expect("buffers are read");
            prop_assert!(!idle.passed(), "{}: nothing done passes", case);
            for _ in 0..2 {
                workload.poison().expect("buffers are written");
                workload.enqueue(repeat).expect("it runs");
                let check = workload.verify().expect("buffers are read");
                prop_assert!(check.passed(), "{}: {:?}", case, check);
                prop_assert!(check.compared >= part * u64::from(ranks));
            }
        }
    }

    /// Small integers, whose sums are exact, against the definition of each collective.
    #[test]
    fn a_plain_model_agrees(ranks in 2usize..=5, part in 1usize..70, seed in any::<u64>()) {
        let device = Host.open(0).expect("there is a host");
        let peers = device.communicator(ranks as u32).expect("the host has ranks");
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
                    Collective::SendReceive => data[(rank + ranks - 1) % ranks].clone(),
                }
            };
            let received = exchanged(&*device, &*peers, collective, &data);
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
    fn one_wrong_element_is_found(rank in 0usize..3, at in 0u64..100, repeat in 1u32..3) {
        let device = Host.open(0).expect("there is a host");
        let peers = device.communicator(3).expect("the host has ranks");
        let broken = Broken { device: &*device, peers: &*peers, rank, offset: at * 4 };
        for collective in Collective::ALL {
            let message = Bytes(1200);
            let (dtype, place) = (Dtype::F32, Place::OutOfPlace);
            let point = CollectivePoint { collective, dtype, message, ranks: 3, place };
            let case = Case { kernel: kernel(), point: Point::Collective(point) };
            let rank = Rank { device: &*device, peers: &broken };
            let mut workload = bench::prepare(&case, rank).expect("it is ready");
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
    let peers = device.communicator(3).expect("the host has ranks");
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
    assert!(device.communicator(1).is_none());
}
