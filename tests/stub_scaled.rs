//! Matrix products whose elements share scales, on a stub driver: which kernels of which devices
//! are launched for them, and with what.

#[expect(dead_code, reason = "a fake device's part of it is for other tests")]
mod program;

use fizeau::outcome::Outcome;
use program::{Place, say};
use std::{fs, os::unix::fs::symlink};

const SUITE: &str = r#"
name = "scaled"
description = "Products of elements that share scales"

[measure]
samples_min = 10
samples_max = 12
noise_max = 0.01
time_min = 0.0
time_max = 0.005
warmup_max = 0.001
sample_min = 0.0001
deadline = 20.0

[compute]
dtypes = ["mxfp8", "mxfp4", "nvfp4"]

[gemm]
dtypes = ["mxfp8", "mxfp4", "nvfp4", "fp8block"]
shapes = [[131, 200, 160], [5, 7, 48], [131, 200, 256]]
"#;

/// A case's id, and what became of it: measured, or why not.
type Ended = (String, Result<(), String>);

/// What became of each case, and the driver's log.
fn run(capability: u32) -> (Vec<Ended>, Vec<String>) {
    let place = Place::new();
    let test = std::env::current_exe().expect("a test knows where it is");
    fs::create_dir(place.path("lib")).expect("a folder");
    for name in ["libcuda.so.1", "libnvidia-ml.so.1", "libnvrtc.so.13", "libcublasLt.so.13"] {
        let library = test.with_file_name("libfizeau_stub_driver.so");
        symlink(library, place.path("lib").join(name)).expect("a link");
    }
    fs::write(place.path("scaled.toml"), SUITE).expect("the suite is written");
    let said = say(place
        .fizeau(["run", "--suite", "scaled.toml", "--out", "out"])
        .env("FIZEAU_LIBRARY_PATH", place.path("lib"))
        .env("FIZEAU_STUB", format!("capability={capability},units=6"))
        .env("FIZEAU_STUB_LOG", place.path("log"))
        .env("XDG_CACHE_HOME", place.path("cache")));
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    let ended = |outcome: &Outcome| match outcome {
        Outcome::Measured(_) => Ok(()),
        Outcome::Skipped { reason, .. } => Err(reason.clone()),
        other => panic!("{other:?}"),
    };
    let outcomes = place.record("out").outcomes;
    let ended = outcomes.iter().map(|one| (one.case().to_string(), ended(one))).collect();
    let log = fs::read_to_string(place.path("log")).expect("a log");
    (ended, log.lines().map(str::to_owned).collect())
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
        assert_eq!(kernels, ["sm100_tcgen05", "portable", "cublaslt"], "{dtype}");
    }
    // The vendor's library has no products of mxfp4.
    assert_eq!(measured(&outcomes, "gemm/mxfp4/131x200x160"), ["sm100_tcgen05", "portable"]);
    assert_eq!(measured(&outcomes, "compute/nvfp4/6u"), ["sm100_tcgen05"]);
    let (shape, bytes) = launch(&log, "gemm_nvfp4_tcgen05");
    assert_eq!(shape, "grid=[6, 1, 1] block=[256, 1, 1] shared=221184");
    // 56 bytes: three addresses, three sizes, the element type, addresses of scales; three maps of
    // 128 bytes behind them, which begin with the operands' addresses.
    assert_eq!((bytes.len(), word(&bytes, 24)), (448, 131 | 200 << 32));
    assert_eq!(word(&bytes, 32), 160 | 11 << 32);
    assert!(word(&bytes, 40) > 0 && word(&bytes, 48) > 0 && word(&bytes, 40) != word(&bytes, 48));
    let first = [0, 8, 16].map(|at| word(&bytes, at));
    assert_eq!([64, 192, 320].map(|at| word(&bytes, at)), first);
    // Two elements of 4 bits are moved as a byte.
    let map = "tensor_map type=0 sizes=[80, 200] strides=[80] box=[128, 192] steps=[1, 1] \
               interleave=0 swizzle=3 promotion=3 fill=0";
    assert!(log.iter().any(|line| line == map), "{log:#?}");
    assert!(log.iter().any(|line| line == "cublaslt 131x200x160 kind=33"), "{log:#?}");
}

#[test]
fn compute_capability_12_has_them_by_fragments() {
    let (outcomes, log) = run(120);
    let kernels = measured(&outcomes, "gemm/mxfp4/131x200x160");
    assert_eq!(kernels, ["sm120_mma", "portable"]);
    assert_eq!(measured(&outcomes, "compute/mxfp8/6u"), ["sm120_mma"]);
    let (shape, bytes) = launch(&log, "gemm_mxfp4_mma");
    assert_eq!(
        (shape.as_str(), bytes.len()),
        ("grid=[6, 1, 1] block=[256, 1, 1] shared=78336", 56)
    );
    let (shape, _) = launch(&log, "gemm_nvfp4_mma");
    assert_eq!(shape, "grid=[6, 1, 1] block=[256, 1, 1] shared=82944");
}

#[test]
fn compute_capability_9_has_large_blocks_by_warpgroups() {
    let (outcomes, log) = run(90);
    assert_eq!(measured(&outcomes, "gemm/mxfp8/131x200x160"), ["portable"]);
    let (shape, bytes) = launch(&log, "gemm_mxfp8");
    assert_eq!((shape.as_str(), bytes.len()), ("grid=[12, 1, 1] block=[256, 1, 1] shared=0", 56));
    // Of 128 along k and f32, by warpgroups too.
    assert_eq!(measured(&outcomes, "gemm/fp8block/131x200x256"), ["sm90_wgmma", "portable"]);
    let (shape, bytes) = launch(&log, "gemm_fp8block_wgmma");
    assert_eq!(shape, "grid=[6, 1, 1] block=[384, 1, 1] shared=229376");
    assert_eq!((bytes.len(), word(&bytes, 24)), (448, 131 | 200 << 32));
    assert!(word(&bytes, 40) > 0 && word(&bytes, 48) > 0);
    // 48 are three blocks of 16, and no whole number of blocks of 32.
    assert_eq!(measured(&outcomes, "gemm/nvfp4/5x7x48"), ["portable"]);
    let why = |id: &str| outcomes.iter().find(|one| one.0 == id).map(|one| one.1.clone());
    let reason = why("gemm/mxfp8/5x7x48/portable").expect("planned").expect_err("skipped");
    assert!(reason.contains("whole blocks of 32 along k"), "{reason}");
}
