//! Every kernel of the host's matrix products against a plain reference, over odd shapes.

use crate::attention::Forgetful;
use fizeau_bench::{self as bench, Rank};
use fizeau_comm::Alone;
use fizeau_device::{
    Backend, Device,
    host::{Host, HostDevice},
};
use fizeau_domain::{
    case::{Case, Contents, GemmPoint, GroupedPoint, KernelName, Layout, Point, Routing},
    dtype::Dtype,
    kernel::Operation,
    spec::{CacheLevel, Properties},
    units::Bytes,
};
use proptest::prelude::*;
use std::{cell::RefCell, iter::repeat};

const DTYPES: [Dtype; 4] = [Dtype::F64, Dtype::F32, Dtype::Bf16, Dtype::Int8];

/// Every kernel of an element type, with a layout that it multiplies.
fn kernels(device: &dyn Device, dtype: Dtype) -> Vec<(Layout, KernelName)> {
    let of =
        |layout| device.kernels(Operation::Gemm(dtype, layout)).into_iter().zip(repeat(layout));
    Layout::ALL.into_iter().flat_map(of).map(|(kernel, layout)| (layout, kernel)).collect()
}

fn check_all(device: &dyn Device, [m, n, k]: [u32; 3], repeat: u32, contents: Contents) {
    for dtype in DTYPES {
        for (layout, kernel) in kernels(device, dtype) {
            let point = Point::Gemm(GemmPoint { dtype, m, n, k, layout, contents });
            check(device, &Case { kernel, point }, repeat);
        }
    }
}

fn check_all_grouped(device: &dyn Device, [m, n, k, groups]: [u32; 4], repeat: u32) {
    for dtype in DTYPES {
        for kernel in device.kernels(Operation::Grouped(dtype)) {
            for routing in [Routing::Balanced, Routing::Skewed] {
                let kernel = kernel.clone();
                let point = Point::Grouped(GroupedPoint { dtype, m, n, k, groups, routing });
                check(device, &Case { kernel, point }, repeat);
            }
        }
    }
}

fn check(device: &dyn Device, case: &Case, repeat: u32) {
    let rank = Rank { device, peers: &Alone };
    let mut workload = crate::prepare(case, rank).expect("a listed kernel is ready");
    workload.poison().expect("C is written");
    let before = workload.verify().expect("C is read");
    assert!(!before.passed(), "{case}: poison passes");
    workload.enqueue(repeat).expect("it runs");
    let check = workload.verify().expect("C is read");
    assert!(check.passed(), "{case}: {check:?}");
    let (Point::Gemm(GemmPoint { m, n, .. }) | Point::Grouped(GroupedPoint { m, n, .. })) =
        case.point
    else {
        unreachable!("a product");
    };
    assert_eq!(check.compared, u64::from(m) * u64::from(n), "{case}");
}

#[test]
fn a_plain_kernel_is_there_for_every_element_type() {
    let device = Host.open(0).expect("there is a host");
    for dtype in DTYPES {
        let kernels = device.kernels(Operation::Gemm(dtype, Layout::Nn));
        // Nor is any kernel of one layout alone.
        assert_eq!(device.kernels(Operation::Gemm(dtype, Layout::Nt)), kernels, "{dtype}");
        assert!(kernels.iter().any(|kernel| kernel.0 == "portable"), "{dtype}: {kernels:?}");
        // What makes one product makes one for each group as well.
        let bundled = |kernels: Vec<KernelName>| -> Vec<KernelName> {
            let ours = |kernel: &KernelName| kernel.0 == "portable" || kernel.0.starts_with("avx");
            kernels.into_iter().filter(ours).collect()
        };
        assert_eq!(bundled(device.kernels(Operation::Grouped(dtype))), bundled(kernels));
    }
    assert!(device.kernels(Operation::Gemm(Dtype::Fp4, Layout::Nn)).is_empty());
}

/// B taken for one of the other layout is a wrong product, whichever kernel makes it.
#[test]
fn another_layout_is_found() {
    let host = HostDevice::open(Host.devices().expect("there is a host").remove(0));
    let device = Forgetful { host, lost: 1, change: |_| (), multiplied: RefCell::default() };
    for dtype in DTYPES {
        for (layout, kernel) in kernels(&device.host, dtype) {
            // As wide as it is deep, so that every element is there; few rows, and more.
            for m in [3, 40] {
                let (n, k, contents) = (48, 48, Contents::Random);
                let point = Point::Gemm(GemmPoint { dtype, m, n, k, layout, contents });
                let case = Case { kernel: kernel.clone(), point };
                let rank = Rank { device: &device, peers: &Alone };
                let mut workload = crate::prepare(&case, rank).expect("it is listed");
                workload.enqueue(1).expect("it runs");
                let check = workload.verify().expect("C is read");
                assert!(!check.passed(), "{case}: {check:?}");
            }
        }
    }
}

#[test]
fn light_data_are_checked_as_others_are() {
    let device = Host.open(0).expect("there is a host");
    for contents in [Contents::Integers, Contents::Zeros] {
        check_all(&*device, [33, 70, 129], 1, contents);
    }
}

#[test]
fn shapes_beyond_one_block_are_right() {
    let device = Host.open(0).expect("there is a host");
    for shape in [[1, 1, 1], [1, 513, 1027], [16, 300, 801], [401, 70, 1601], [29, 2100, 65]] {
        check_all(&*device, shape, 1, Contents::Random);
    }
    // Where the check's own sums round more than the kernel's.
    for shape in [[41, 85, 1], [64, 9000, 1], [64, 9000, 2]] {
        check_all(&*device, shape, 1, Contents::Random);
    }
}

/// Products of few rows have kernels of their own, whose blocks of columns and slabs of rows end
/// anywhere.
#[test]
fn few_rows_are_right() {
    let device = Host.open(0).expect("there is a host");
    for m in 1..=17 {
        for [n, k] in [[37, 1], [67, 43], [32, 65], [31, 8], [300, 70]] {
            check_all(&*device, [m, n, k], 2, Contents::Random);
        }
    }
}

/// Threads share the columns of few rows, or the sums along k as well, whatever their number.
#[test]
fn few_rows_are_right_on_any_number_of_threads() {
    let properties = Host.devices().expect("there is a host").remove(0);
    for units in [1, 3, 4, 6, 7] {
        let device = HostDevice::open(Properties { units, ..properties.clone() });
        for dtype in DTYPES {
            for (layout, kernel) in kernels(&device, dtype) {
                if !kernel.0.starts_with("avx") {
                    continue;
                }
                for [m, n, k] in [[1, 67, 1027], [1, 1030, 130], [2, 32, 1101], [3, 97, 3000]] {
                    let contents = Contents::Random;
                    let point = Point::Gemm(GemmPoint { dtype, m, n, k, layout, contents });
                    check(&device, &Case { kernel: kernel.clone(), point }, 3);
                }
            }
        }
    }
}

#[test]
fn groups_of_any_size_are_right() {
    let device = Host.open(0).expect("there is a host");
    // Fewer rows than groups; one group; groups beyond a block and below one.
    for shape in [[3, 17, 31, 8], [1, 1, 1, 1], [70, 40, 33, 1], [300, 70, 129, 5]] {
        check_all_grouped(&*device, shape, 2);
    }
}

/// A row by a matrix of which ten, with the row and its product, are five last-level caches.
#[test]
fn products_of_decoding_take_turns_with_copies_of_their_operands() {
    let mut properties = Host.devices().expect("there is a host").remove(0);
    let cache = CacheLevel { level: 3, size: Bytes::KIB * 64, shared_by: 1, line: Bytes(64) };
    (properties.caches, properties.units) = (vec![cache], 1);
    let copies = |[m, n, k]: [u32; 3]| {
        let (dtype, contents) = (Dtype::F32, Contents::Random);
        bench::gemm::copies(
            &GemmPoint { dtype, m, n, k, layout: Layout::Nn, contents },
            &properties,
        )
    };
    assert_eq!(copies([1, 64, 128]), 10);
    assert_eq!(copies([64, 1, 128]), 10, "one column");
    assert_eq!(copies([1, 4096, 4096]), 2, "what no cache holds");
    assert_eq!(copies([257, 8192, 4096]), 1, "more rows than sequences");
    assert_eq!(copies([64, 64, 64]), 1, "no matrix is most of it");
    assert_eq!(copies([1, 16, 16]), 1, "too small to be a layer's");

    let multiplied = RefCell::default();
    let device = Forgetful {
        host: HostDevice::open(properties.clone()),
        lost: 0,
        change: |_| (),
        multiplied,
    };
    let point = GemmPoint {
        dtype: Dtype::F32,
        m: 1,
        n: 64,
        k: 128,
        layout: Layout::Nn,
        contents: Contents::Random,
    };
    let case = Case { kernel: KernelName("portable".into()), point: Point::Gemm(point) };
    let rank = Rank { device: &device, peers: &Alone };
    let mut workload = crate::prepare(&case, rank).expect("it is listed");
    assert_eq!(workload.copies(), 10);
    let mut distinct = |turns: bool| {
        workload.take_turns(turns);
        device.multiplied.borrow_mut().clear();
        // Twice around, in batches that do not fit the number of copies.
        for batch in [7, 13] {
            workload.poison().expect("C is written");
            workload.enqueue(batch).expect("it runs");
            assert!(workload.verify().expect("C is read").passed());
        }
        let mut operands = device.multiplied.borrow().clone();
        assert_eq!(operands.len(), 20);
        operands.sort_unstable();
        operands.dedup();
        operands.len()
    };
    assert_eq!((distinct(true), distinct(false), distinct(true)), (10, 1, 10));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn odd_shapes_are_right(m in 1u32..70, n in 1u32..140, k in 1u32..90, repeat in 1u32..4) {
        let device = Host.open(0).expect("there is a host");
        check_all(&*device, [m, n, k], repeat, Contents::Random);
    }

    #[test]
    fn odd_groups_are_right(m in 1u32..70, n in 1u32..70, k in 1u32..40, groups in 1u32..20) {
        let device = Host.open(0).expect("there is a host");
        check_all_grouped(&*device, [m, n, k, groups], 1);
    }
}
