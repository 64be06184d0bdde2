//! The host's memory and compute kernels: every variant of this machine is right, and an iteration
//! that does nothing is not.

use fizeau_bench::Rank;
use fizeau_comm::Alone;
use fizeau_device::{Backend, Device, host::Host};
use fizeau_domain::{
    case::{
        Case, ComputePoint, Instruction, InstructionPoint, LatencyPoint, Point, StreamOperation,
        StreamPoint,
    },
    dtype::Dtype,
    kernel::Operation,
    units::Bytes,
};

fn host() -> Box<dyn Device> {
    Host.open(0).expect("there is always a host")
}

/// Runs a case a few times; the check of its result, after having seen that no result is wrong.
fn check(device: &dyn Device, case: &Case) -> fizeau_domain::outcome::Check {
    let rank = Rank { device, peers: &Alone };
    let mut workload = crate::prepare(case, rank).unwrap_or_else(|error| panic!("{case}: {error}"));
    let granule = workload.granule();
    workload.enqueue(granule).expect("the kernel runs");
    workload.poison().expect("the host's memory can be written");
    let spoilt = workload.verify().expect("the host's memory can be read");
    assert!(!spoilt.passed(), "{case}: a spoilt output passed");
    workload.enqueue(3 * granule).expect("the kernel runs");
    workload.verify().expect("the host's memory can be read")
}

#[test]
fn streams_are_right_in_every_variant() {
    let device = host();
    // Whole granules, a tail of some vectors, of a few elements, next to nothing, and several
    // periods of the pattern.
    for size in [3 << 14, (3 << 14) + 200 * 24, 7 * 24, 24, 3_000_024] {
        for units in [1, 2, 3] {
            for stream in StreamOperation::ALL {
                let point = Point::Stream(StreamPoint { stream, working_set: Bytes(size), units });
                let kernels = device.kernels(Operation::Stream(stream));
                assert!(kernels.iter().any(|kernel| kernel.0 == "plain"));
                for kernel in kernels {
                    let case = Case { kernel, point };
                    let check = check(&*device, &case);
                    assert!(check.passed(), "{case}: {check:?}");
                }
            }
        }
    }
}

#[test]
fn chases_end_where_they_should() {
    let device = host();
    let rank = Rank { device: &*device, peers: &Alone };
    for (size, pair) in [
        (4 << 10, None),
        (100 << 10, None),
        (3 << 20, None),
        (64 << 10, Some(16)),
        (1024, Some(496)),
    ] {
        let (working_set, pair) = (Bytes(size), pair.map(Bytes));
        let point = Point::Latency(LatencyPoint { working_set, side: None, pair });
        let kernel = device.kernels(Operation::Latency)[0].clone();
        let mut workload = crate::prepare(&Case { kernel, point }, rank).expect("there is memory");
        for repeat in [1, 2, 63, 64, 65, 100_000] {
            workload.poison().expect("the host's memory can be written");
            workload.enqueue(repeat).expect("the kernel runs");
            workload.enqueue(3).expect("the kernel runs");
            let check = workload.verify().expect("the host's memory can be read");
            assert!(check.passed(), "{size} bytes, {repeat} loads: {check:?}");
        }
    }
}

#[test]
fn chains_of_instructions_end_where_they_began_in_every_variant() {
    let device = host();
    for instruction in Instruction::ALL {
        for dtype in [Dtype::F64, Dtype::F32] {
            let point = InstructionPoint { instruction, dtype: Some(dtype) };
            for kernel in device.kernels(Operation::Instruction(point)) {
                let case = Case { kernel, point: Point::Instruction(point) };
                let check = check(&*device, &case);
                assert!(check.passed(), "{case}: {check:?}");
            }
        }
    }
}

#[test]
fn multiply_adds_are_all_made_in_every_variant() {
    let device = host();
    for dtype in [Dtype::F64, Dtype::F32, Dtype::Bf16, Dtype::Int8] {
        for kernel in device.kernels(Operation::Compute(dtype)) {
            let point = Point::Compute(ComputePoint { dtype, units: 2 });
            let case = Case { kernel, point };
            let check = check(&*device, &case);
            assert!(check.passed(), "{case}: {check:?}");
        }
    }
}

#[test]
fn clocks_are_those_of_a_core() {
    let clock = host().observe_clock().expect("the host always answers");
    if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        let clock = clock.expect("it can be counted here");
        assert!((200.0..10_000.0).contains(&clock.0), "{clock}");
    }
}

#[test]
fn the_fastest_clock_so_far_is_kept_by_the_units_that_worked() {
    let host = host();
    assert_eq!(host.fastest_clock(1), None);
    let seen: Vec<_> = (0..5).filter_map(|_| host.observe_clock().unwrap()).collect();
    let fastest = seen.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
    assert_eq!(host.fastest_clock(1), fastest);
    assert_eq!(host.fastest_clock(2), None, "two have not worked");
}

/// Whether this process may read a byte, by the system's list of its mappings.
fn is_readable(address: u64) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux lists a process's memory");
    let bound = |text| u64::from_str_radix(text, 16).expect("bounds are hexadecimal");
    maps.lines().any(|line| {
        let (bounds, rest) = line.split_once(' ').expect("a line has bounds and permissions");
        let (start, end) = bounds.split_once('-').expect("there are two bounds");
        (bound(start)..bound(end)).contains(&address) && rest.starts_with('r')
    })
}

/// BLIS 0.9 reads a row past A (flame/blis#821), and other libraries elements past B.
#[test]
fn behind_an_operand_as_much_can_be_read_as_it_has() {
    let device = host();
    for size in [1, 100, 4096, 51_264, (2 << 20) + 8] {
        let operand = device.allocate(Bytes(size)).expect("there is memory");
        assert!(is_readable(operand.address + 2 * size - 1), "{size} bytes");
    }
}

/// What tests rely on that look for kernels which read past their operands.
#[test]
fn nothing_is_readable_behind_an_operand_with_a_fence() {
    let device = host();
    for size in [1, 100, 4096, 51_264, (2 << 20) + 8] {
        let operand = fizeau_device::host::fenced(|| device.allocate(Bytes(size)));
        let operand = operand.expect("there is memory");
        assert!(is_readable(operand.address + size - 1), "{size} bytes");
        assert!(!is_readable(operand.address + size.next_multiple_of(64)), "{size} bytes");
    }
}
