//! Matrix products whose elements share scales: which kernels of which devices are launched for
//! them, and with what.

use super::machine::{AMD, Ended, Machine, NVIDIA};
use crate::program::say;
use fizeau_domain::outcome::{Failure, Outcome};

const NVIDIA_SUITE: &str = r#"
[compute]
dtypes = ["mxfp8", "mxfp4", "nvfp4"]

[gemm]
dtypes = ["mxfp8", "mxfp4", "nvfp4", "fp8block"]
shapes = [[131, 200, 160], [5, 7, 48], [131, 200, 256]]
"#;

const AMD_SUITE: &str = r#"
[gemm]
dtypes = ["mxfp8", "mxfp4"]
shapes = [[64, 48, 96], [5, 16, 160]]
"#;

/// What became of each case, and the driver's log.
fn run(capability: u32) -> (Vec<Ended>, Vec<String>) {
    let machine = Machine::with(&NVIDIA);
    machine.suite(NVIDIA_SUITE);
    // The first driver for 10.7 is that of CUDA 13.4.
    let script = format!("driver=13040,capability={capability}");
    let mut ended = machine.run_own(&format!("{script},units=6"), &["gemm/*"]);
    let mut log = machine.log();
    // Older devices have no such peaks. Their work grows with the units.
    if capability >= 100 {
        let machine = Machine::with(&NVIDIA);
        machine.suite(NVIDIA_SUITE);
        ended.extend(machine.run_own(&format!("{script},units=1"), &["compute/*"]));
        log.extend(machine.log());
    }
    (ended, log)
}

/// The kernels of a point, those measured.
fn measured(outcomes: &[Ended], point: &str) -> Vec<String> {
    let kernel = |(id, ended): &Ended| {
        let kernel = id.strip_prefix(point)?.strip_prefix('/')?;
        ended.is_ok().then(|| kernel.to_owned())
    };
    outcomes.iter().filter_map(kernel).collect()
}

/// The first launch of an entry, without its name, and its parameters.
fn launch(log: &[String], entry: &str) -> (String, Vec<u8>) {
    let start = format!("launch {entry} ");
    let line = log.iter().find_map(|line| line.strip_prefix(&start));
    let line = line.unwrap_or_else(|| panic!("{entry} is not launched: {log:#?}"));
    let (shape, digits) = line.split_once(" params=").expect("parameters");
    let pairs = (0..digits.len() / 2).map(|at| &digits[2 * at..2 * at + 2]);
    let bytes = pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal")).collect();
    (shape.to_owned(), bytes)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

#[test]
fn compute_capability_10_has_them_by_tensor_memory() {
    let (outcomes, log) = run(100);
    for dtype in ["mxfp8", "nvfp4"] {
        let kernels = measured(&outcomes, &format!("gemm/{dtype}/131x200x160"));
        let wanted = ["sm100_tcgen05_pair", "sm100_tcgen05", "portable", "cublaslt"];
        assert_eq!(kernels, wanted, "{dtype}");
    }
    // The vendor's library has no products of mxfp4.
    assert_eq!(
        measured(&outcomes, "gemm/mxfp4/131x200x160"),
        ["sm100_tcgen05_pair", "sm100_tcgen05", "portable"]
    );
    assert_eq!(measured(&outcomes, "compute/nvfp4/1u"), ["sm100_tcgen05"]);
    let (shape, _) = launch(&log, "gemm_nvfp4_tcgen05_pair");
    assert_eq!(shape, "grid=[6, 1, 1] block=[256, 1, 1] shared=227456 cluster=[2, 1, 1]");
    let (shape, bytes) = launch(&log, "gemm_nvfp4_tcgen05");
    assert_eq!(shape, "grid=[6, 1, 1] block=[256, 1, 1] shared=227456");
    // 64 bytes: three addresses, three sizes, the element type, addresses of scales, the factor;
    // three maps of 128 bytes behind them, which begin with the operands' addresses.
    assert_eq!((bytes.len(), word(&bytes, 24)), (448, 131 | 200 << 32));
    assert_eq!(word(&bytes, 32), 160 | 11 << 32);
    assert!(word(&bytes, 40) > 0 && word(&bytes, 48) > 0 && word(&bytes, 40) != word(&bytes, 48));
    // Near (3.4 / 2688)^2: near normal numbers end at 3.46.
    let factor = f32::from_bits(word(&bytes, 56) as u32);
    assert!((1e-6..1.7e-6).contains(&factor) && factor.to_bits() << 9 != 0, "{factor}");
    let first = [0, 8, 16].map(|at| word(&bytes, at));
    assert_eq!([64, 192, 320].map(|at| word(&bytes, at)), first);
    // Two elements of 4 bits are moved as a byte.
    let map = "tensor_map type=0 sizes=[80, 200] strides=[80] box=[128, 64] steps=[1, 1] \
               interleave=0 swizzle=3 promotion=3 fill=0";
    assert!(log.iter().any(|line| line == map), "{log:#?}");
    assert!(log.iter().any(|line| line == "cublaslt 131x200x160 kind=33"), "{log:#?}");
}

#[test]
fn compute_capability_10_3_and_10_7_multiply_96_of_4_bits_along_k() {
    for capability in [103, 107] {
        let (outcomes, log) = run(capability);
        let longer = ["sm103_tcgen05_pair", "sm100_tcgen05_pair", "sm100_tcgen05", "portable"];
        assert_eq!(measured(&outcomes, "gemm/mxfp4/131x200x160"), longer);
        assert_eq!(measured(&outcomes, "gemm/nvfp4/131x200x160")[..4], longer);
        let mxfp8 = measured(&outcomes, "gemm/mxfp8/131x200x160");
        assert_eq!(mxfp8[..2], ["sm100_tcgen05_pair", "sm100_tcgen05"]);
        let (shape, _) = launch(&log, "gemm_mxfp4_tcgen05_longer");
        assert_eq!(shape, "grid=[6, 1, 1] block=[256, 1, 1] shared=227456 cluster=[2, 1, 1]");
    }
}

#[test]
fn compute_capability_12_has_them_by_fragments() {
    let (outcomes, log) = run(120);
    let kernels = measured(&outcomes, "gemm/mxfp4/131x200x160");
    assert_eq!(kernels, ["sm120_mma", "portable"]);
    assert_eq!(measured(&outcomes, "compute/mxfp8/1u"), ["sm120_mma"]);
    let (shape, bytes) = launch(&log, "gemm_mxfp4_mma");
    assert_eq!(
        (shape.as_str(), bytes.len()),
        ("grid=[6, 1, 1] block=[256, 1, 1] shared=78336", 64)
    );
    // Powers of two have no tensor scales.
    assert_eq!(f32::from_bits(word(&bytes, 56) as u32), 1.0);
    let (shape, _) = launch(&log, "gemm_nvfp4_mma");
    assert_eq!(shape, "grid=[6, 1, 1] block=[256, 1, 1] shared=82944");
}

#[test]
fn compute_capability_9_has_large_blocks_by_warpgroups() {
    let (outcomes, log) = run(90);
    assert_eq!(measured(&outcomes, "gemm/mxfp8/131x200x160"), ["portable"]);
    let (shape, bytes) = launch(&log, "gemm_mxfp8");
    assert_eq!((shape.as_str(), bytes.len()), ("grid=[12, 1, 1] block=[256, 1, 1] shared=0", 64));
    // Of 128 along k and f32, by warpgroups too.
    assert_eq!(measured(&outcomes, "gemm/fp8block/131x200x256"), ["sm90_wgmma", "portable"]);
    let (shape, bytes) = launch(&log, "gemm_fp8block_wgmma");
    assert_eq!(shape, "grid=[6, 1, 1] block=[384, 1, 1] shared=215232 cluster=[2, 1, 1]");
    assert_eq!((bytes.len(), word(&bytes, 24)), (448, 131 | 200 << 32));
    assert!(word(&bytes, 40) > 0 && word(&bytes, 48) > 0);
    // 48 are three blocks of 16, and no whole number of blocks of 32.
    assert_eq!(measured(&outcomes, "gemm/nvfp4/5x7x48"), ["portable"]);
    let why = |id: &str| outcomes.iter().find(|one| one.0 == id).map(|one| one.1.clone());
    let reason = why("gemm/mxfp8/5x7x48/portable").expect("planned").expect_err("skipped");
    assert!(reason.contains("whole blocks of 32 along k"), "{reason}");
}

#[test]
fn a_kernel_that_leaves_tensor_scales_out_is_found_by_the_run() {
    for (capability, kernel) in [
        (100, "sm100_tcgen05"),
        (100, "sm100_tcgen05_pair"),
        (103, "sm103_tcgen05_pair"),
        (107, "sm103_tcgen05_pair"),
        (120, "sm120_mma"),
        (90, "portable"),
    ] {
        let machine = Machine::with(&NVIDIA);
        machine.suite(NVIDIA_SUITE);
        let script =
            format!("driver=13040,capability={capability},text=return sum * factor;=>return sum;");
        let case = format!("gemm/nvfp4/131x200x160/{kernel}");
        let args = ["run", "--suite", "own.toml", "--out", "out", &case];
        let said = say(&mut machine.fizeau(&script, &args));
        assert_eq!(said.code, Some(1), "{kernel}: {} {}", said.out, said.err);
        let outcomes = machine.place.record("out").outcomes;
        let [Outcome::Failed { failure: Failure::WrongResult, .. }] = &outcomes[..] else {
            panic!("{outcomes:?}")
        };
    }
}

#[test]
fn elements_that_share_scales_are_multiplied_by_matrix_units_of_cdna_4_and_5() {
    for (gfx, kernel, threads) in [("gfx950", "cdna4_mfma", 512), ("gfx1250", "cdna5_wmma", 256)] {
        are_multiplied_by_matrix_units(gfx, kernel, threads);
    }
}

#[track_caller]
fn are_multiplied_by_matrix_units(gfx: &str, kernel: &str, threads: u32) {
    let machine = Machine::with(&AMD);
    machine.suite(AMD_SUITE);
    let cases = format!("gemm/*/*/{kernel}");
    let ended = machine.run_own(&format!("gfx={gfx},units=6"), &[&cases]);
    assert_eq!(ended.iter().filter(|(_, ended)| ended.is_ok()).count(), 4);
    let log = machine.log();
    let (family, _) = kernel.split_once('_').expect("two words");
    for entry in ["gemm_mxfp8", "gemm_mxfp4"] {
        let grid = format!("grid=[6, 1, 1] block=[{threads}, 1, 1]");
        let start = format!("launch {entry}_{family} {grid} shared=0 params=");
        let launch = log.iter().find_map(|line| line.strip_prefix(&start)).expect("a launch");
        // Three operands, three lengths, a type, where both operands' scales stand, and a factor.
        let words: Vec<u64> = (0..7)
            .map(|at| u64::from_str_radix(&launch[16 * at..16 * at + 16], 16).expect("digits"))
            .map(u64::swap_bytes)
            .collect();
        assert_eq!(launch.len(), 2 * 64, "{launch}");
        assert!(words[5] != 0 && words[6] != 0 && words[5].is_multiple_of(256), "{words:x?}");
    }
}

#[test]
fn elsewhere_the_portable_kernel_multiplies_them() {
    let machine = Machine::with(&AMD);
    machine.suite(AMD_SUITE);
    for gfx in ["gfx90a", "gfx942", "gfx1100", "gfx1201"] {
        let list = ["list", "--suite", "own.toml"];
        let said = say(&mut machine.fizeau(&format!("gfx={gfx}"), &list)).ended(0);
        assert!(said.out.contains("gemm/mxfp4/64x48x96/portable"), "{}", said.out);
        assert!(!said.out.contains("cdna4"), "{}", said.out);
    }
}
