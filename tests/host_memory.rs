//! The host's memory and compute kernels: every variant of this machine is right, and an iteration
//! that does nothing is not.

use fizeau::{
    bench::{self, Rank},
    case::{Case, Point, StreamOperation, StreamPoint},
    comm::Alone,
    device::{Backend, Device, host::Host},
    units::Bytes,
};

fn host() -> Box<dyn Device> {
    Host.open(0).expect("there is always a host")
}

/// Runs a case a few times; the check of its result, after having seen that no result is wrong.
fn check(device: &dyn Device, case: &Case) -> fizeau::outcome::Check {
    let rank = Rank { device, peers: &Alone };
    let mut workload = bench::prepare(case, rank).unwrap_or_else(|error| panic!("{case}: {error}"));
    workload.poison().expect("the host's memory can be written");
    let spoilt = workload.verify().expect("the host's memory can be read");
    assert!(!spoilt.passed(), "{case}: a spoilt output passed");
    workload.enqueue(3).expect("the kernel runs");
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
                let kernels = device.kernels(&format!("stream/{stream}"));
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
