//! Every kernel of the host's attention against the definition, over odd shapes.

use fizeau_bench::Rank;
use fizeau_comm::Alone;
use fizeau_device::{
    Backend, Buffer, Capabilities, Device, DeviceError, Function, Launch, Timing,
    host::{Host, HostDevice},
};
use fizeau_domain::{
    case::{AttentionKind, AttentionPoint, Case, KernelName, Lengths, Mask, Point},
    dtype::Dtype,
    kernel::{AttentionParams, AttentionSequence, GemmParams, Operation, Params},
    spec::Properties,
    units::{Bytes, Megahertz, Seconds},
};
use proptest::prelude::*;
use std::cell::RefCell;

const DTYPES: [Dtype; 2] = [Dtype::F32, Dtype::Bf16];

fn point(attention: AttentionKind, lengths: [u32; 7], mask: Mask) -> AttentionPoint {
    let [batch, kv_heads, group, queries, keys, dim_qk, dim_v] = lengths;
    let (dtype, heads) = (Dtype::F32, kv_heads * group);
    let shape = [batch, heads, kv_heads, queries, keys, dim_qk, dim_v];
    AttentionPoint::new(attention, dtype, shape, mask)
}

fn check_all(device: &dyn Device, point: AttentionPoint, repeat: u32) {
    for dtype in DTYPES {
        for kernel in device.kernels(Operation::any_attention(dtype)) {
            let point = Point::Attention(AttentionPoint { dtype, ..point });
            let case = Case { kernel, point };
            let rank = Rank { device, peers: &Alone };
            let mut workload = crate::prepare(&case, rank).expect("a listed kernel is ready");
            workload.poison().expect("O is written");
            let before = workload.verify().expect("O is read");
            assert!(!before.passed(), "{case}: poison passes");
            workload.enqueue(repeat).expect("it runs");
            let check = workload.verify().expect("O is read");
            assert!(check.passed(), "{case}: {check:?}");
        }
    }
}

/// The host with so many units, whatever it has: kernels split keys by them.
fn host_of(units: u32) -> HostDevice {
    let mut properties = Host.devices().expect("there is a host").remove(0);
    properties.units = units;
    HostDevice::open(properties)
}

#[test]
fn a_plain_kernel_is_there_for_every_element_type() {
    let device = host_of(1);
    for dtype in DTYPES {
        let kernels = device.kernels(Operation::any_attention(dtype));
        assert!(kernels.iter().any(|kernel| kernel.0 == "portable"), "{dtype}: {kernels:?}");
    }
    assert!(device.kernels(Operation::any_attention(Dtype::Fp4)).is_empty());
}

#[test]
fn the_usual_shapes_are_right() {
    let device = host_of(2);
    use AttentionKind::{Decode, Mla, Prefill};
    for (attention, lengths, mask) in [
        (Prefill, [1, 2, 4, 200, 200, 128, 128], Mask::Causal),
        (Prefill, [1, 1, 1, 70, 300, 64, 64], Mask::Full),
        (Prefill, [1, 1, 2, 90, 40, 32, 32], Mask::Causal),
        (Decode, [2, 2, 4, 1, 1500, 128, 128], Mask::Full),
        (Decode, [1, 1, 1, 1, 2000, 64, 64], Mask::Causal),
        (Mla, [1, 1, 16, 1, 1100, 576, 512], Mask::Full),
        (Mla, [1, 1, 100, 1, 130, 576, 512], Mask::Full),
        // Windows shorter than a block of 64 keys, as long, longer, and longer than all keys.
        (Prefill, [1, 2, 4, 200, 200, 64, 64], Mask::Window(5)),
        (Prefill, [1, 2, 1, 300, 300, 32, 32], Mask::Window(64)),
        (Prefill, [1, 1, 2, 70, 300, 64, 64], Mask::Window(128)),
        (Prefill, [1, 1, 2, 90, 40, 32, 32], Mask::Window(7)),
        (Prefill, [1, 1, 2, 90, 100, 32, 32], Mask::Window(1000)),
        (Prefill, [1, 1, 2, 200, 300, 64, 64], Mask::Chunk(64)),
        (Prefill, [1, 1, 2, 90, 100, 32, 32], Mask::Chunk(33)),
        (Decode, [2, 2, 4, 1, 1500, 128, 128], Mask::Window(128)),
        (Decode, [1, 1, 1, 1, 2000, 64, 64], Mask::Window(1024)),
        (Decode, [1, 1, 1, 1, 2000, 64, 64], Mask::Chunk(999)),
        (Mla, [1, 1, 100, 2, 130, 576, 512], Mask::Window(31)),
    ] {
        check_all(&device, point(attention, lengths, mask), 2);
    }
}

/// Every mask, windows and chunks of up to so many keys.
fn masks(longest: u32) -> impl Strategy<Value = Mask> {
    prop_oneof![
        Just(Mask::Full),
        Just(Mask::Causal),
        (1..longest).prop_map(Mask::Window),
        (1..longest).prop_map(Mask::Chunk),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn odd_shapes_are_right(
        lengths in (1u32..3, 1u32..4, 1u32..7, 1u32..12, 1u32..200, 1u32..100, 1u32..100),
        attention in prop_oneof![Just(AttentionKind::Prefill), Just(AttentionKind::Mla)],
        mask in masks(90),
        units in 1u32..4,
        repeat in 1u32..3,
        lengths_of in prop_oneof![Just(Lengths::Equal), Just(Lengths::Ragged)],
        page in prop_oneof![Just(None), Just(Some(16)), Just(Some(7)), Just(Some(64))],
    ) {
        let (batch, kv_heads, group, queries, keys, dim_qk, dim_v) = lengths;
        let (kv_heads, dim_v) = match attention {
            AttentionKind::Mla => (1, dim_v.min(dim_qk)),
            _ => (kv_heads, dim_v),
        };
        let lengths = [batch, kv_heads, group, queries, keys, dim_qk, dim_v];
        let point = point(attention, lengths, mask);
        let point = AttentionPoint { lengths: lengths_of, page, ..point };
        check_all(&host_of(units), point, repeat);
    }

    #[test]
    fn keys_split_over_threads_are_right(
        keys in 512u32..1500, units in 2u32..5, group in 1u32..5, queries in 1u32..3,
        lengths_of in prop_oneof![Just(Lengths::Equal), Just(Lengths::Ragged)],
        page in prop_oneof![Just(None), Just(Some(256))],
        mask in masks(1200),
    ) {
        let point = point(AttentionKind::Decode, [2, 1, group, queries, keys, 32, 16], mask);
        let point = AttentionPoint { lengths: lengths_of, page, ..point };
        check_all(&host_of(units), point, 2);
    }
}

/// Scores of tens of thousands: the largest key takes all the weight, and nothing overflows.
#[test]
fn large_scores_are_safe() {
    let device = host_of(2);
    let (keys, dim) = (130usize, 16usize);
    for kernel in device.kernels(Operation::any_attention(Dtype::F32)) {
        let place_bytes = |bytes: &[u8]| {
            let buffer = device.allocate(Bytes(bytes.len() as u64)).expect("there is memory");
            device.write(&buffer, Bytes(0), bytes).expect("it fits");
            buffer
        };
        let place = |elements: &[f32]| place_bytes(bytemuck::cast_slice(elements));
        let largest = 77;
        let key = |at: usize| if at / dim == largest { 60.0 } else { (at / dim) as f32 - 80.0 };
        let q = place(&vec![100.0; dim]);
        let k = place(&(0..keys * dim).map(key).collect::<Vec<f32>>());
        let v = place(&(0..keys * dim).map(|at| (at / dim) as f32).collect::<Vec<f32>>());
        let o = place(&vec![f32::NAN; dim]);
        let sequence = AttentionSequence { query_first: 0, queries: 1, key_first: 0, keys: 130 };
        let sequences = place_bytes(bytemuck::bytes_of(&sequence));
        let params = AttentionParams {
            q: q.address,
            k: k.address,
            v: v.address,
            o: o.address,
            sequences: sequences.address,
            batch: 1,
            heads: 1,
            kv_heads: 1,
            queries: 1,
            keys: keys as u32,
            dim_qk: dim as u32,
            dim_v: dim as u32,
            dtype: 1,
            scale: 1.0,
            ..bytemuck::Zeroable::zeroed()
        };
        let function =
            device.load(Operation::any_attention(Dtype::F32), &kernel).expect("it is listed");
        device
            .launch(&Launch { function: &function, blocks: 2, repeat: 1, params: params.into() })
            .expect("it runs");
        let mut output = vec![0f32; dim];
        device.read(&o, Bytes(0), bytemuck::cast_slice_mut(&mut output)).expect("it is there");
        assert!(output.iter().all(|&value| value == largest as f32), "{}: {output:?}", kernel.0);
    }
}

/// The host, but that its kernels see other lengths than the sequences of a case have: so many keys
/// less; and other parameters. It keeps which operands were multiplied.
pub struct Forgetful {
    pub host: HostDevice,
    /// Keys that each sequence loses. Where it is not 0, products are told the other layout of B.
    pub lost: u32,
    /// What becomes of the parameters of attention.
    pub change: fn(&mut AttentionParams),
    /// The address of B of each matrix product.
    pub multiplied: RefCell<Vec<u64>>,
}

impl Device for Forgetful {
    fn properties(&self) -> &Properties {
        self.host.properties()
    }
    fn kernels(&self, operation: Operation) -> Vec<KernelName> {
        self.host.kernels(operation)
    }
    fn allocate(&self, size: Bytes) -> Result<Buffer, DeviceError> {
        self.host.allocate(size)
    }
    fn write(&self, buffer: &Buffer, offset: Bytes, bytes: &[u8]) -> Result<(), DeviceError> {
        // Of one sequence the table is 16 bytes, and nothing else of what a case writes here.
        if bytes.len() != size_of::<AttentionSequence>() {
            return self.host.write(buffer, offset, bytes);
        }
        let mut sequence: AttentionSequence = bytemuck::pod_read_unaligned(bytes);
        sequence.keys -= self.lost;
        self.host.write(buffer, offset, bytemuck::bytes_of(&sequence))
    }
    fn read(&self, buffer: &Buffer, offset: Bytes, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.host.read(buffer, offset, bytes)
    }
    fn load(&self, operation: Operation, kernel: &KernelName) -> Result<Function, DeviceError> {
        self.host.load(operation, kernel)
    }
    fn launch(&self, launch: &Launch<'_>) -> Result<(), DeviceError> {
        if let Params::Gemm(product) = &launch.params {
            let times = std::iter::repeat_n(product.b, launch.repeat as usize);
            self.multiplied.borrow_mut().extend(times);
            if self.lost != 0 {
                let params = GemmParams { layout: 1 - product.layout, ..*product }.into();
                return self.host.launch(&Launch { params, ..*launch });
            }
        }
        if let Params::Attention(mut params) = launch.params {
            (self.change)(&mut params);
            return self.host.launch(&Launch { params: params.into(), ..*launch });
        }
        self.host.launch(launch)
    }
    fn timed(
        &self,
        work: &mut dyn FnMut() -> Result<(), DeviceError>,
    ) -> Result<Timing, DeviceError> {
        self.host.timed(work)
    }
    fn evict_cache(&self) -> Result<(), DeviceError> {
        self.host.evict_cache()
    }
    fn observe_clock(&self) -> Result<Option<Megahertz>, DeviceError> {
        self.host.observe_clock()
    }
    fn takes(&self, function: &Function, params: &Params) -> Result<(), DeviceError> {
        self.host.takes(function, params)
    }
    fn set_deadline(&self, deadline: Seconds) {
        self.host.set_deadline(deadline);
    }
    fn capabilities(&self) -> Capabilities<'_> {
        self.host.capabilities()
    }
}

/// Among 32 thousand keys of random data, 64 weigh less than rounding may do: planted ones do not.
#[test]
fn one_block_of_a_long_context_is_missed() {
    let whole = point(AttentionKind::Decode, [1, 1, 4, 1, 32_768, 32, 32], Mask::Full);
    check_forgetful(whole, 0, |_| (), true);
    check_forgetful(whole, 64, |_| (), false);
}

/// A kernel that ignores a window, or whose window is a key too long, does not pass.
#[test]
fn a_window_that_is_ignored_is_found() {
    let window = point(AttentionKind::Decode, [1, 1, 4, 1, 16_384, 32, 32], Mask::Window(4096));
    let chunk = AttentionPoint { mask: Mask::Chunk(7000), ..window };
    let long = point(AttentionKind::Prefill, [1, 1, 4, 300, 300, 32, 32], Mask::Window(128));
    for point in [window, chunk, long] {
        check_forgetful(point, 0, |_| (), true);
        check_forgetful(point, 0, |params| (params.window, params.chunk) = (0, 0), false);
    }
    for point in [window, long] {
        check_forgetful(point, 0, |params| params.window += 1, false);
    }
}

/// Whether a case passes on a device that forgets and changes something.
#[track_caller]
fn check_forgetful(
    point: AttentionPoint,
    lost: u32,
    change: fn(&mut AttentionParams),
    is_right: bool,
) {
    let point = Point::Attention(AttentionPoint { dtype: Dtype::Bf16, ..point });
    for kernel in host_of(1).kernels(Operation::any_attention(Dtype::Bf16)) {
        let multiplied = RefCell::default();
        let device = Forgetful { host: host_of(2), lost, change, multiplied };
        let case = Case { kernel, point };
        let rank = Rank { device: &device, peers: &Alone };
        let mut workload = crate::prepare(&case, rank).expect("a listed kernel is ready");
        workload.poison().expect("O is written");
        workload.enqueue(1).expect("it runs");
        let check = workload.verify().expect("O is read");
        assert_eq!(check.passed(), is_right, "{case} without {lost} keys: {check:?}");
    }
}
