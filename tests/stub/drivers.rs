//! Kernels for the driver, the compiler and the architecture that there are: which compiler is
//! asked, what becomes of a binary that the driver refuses, and devices that came later than this
//! program.

use super::machine::{Machine, NVIDIA, assert_shows_no_number};
use crate::program::say;
use fizeau_domain::outcome::{Code, Outcome};
use fizeau_record::Record;
use std::collections::BTreeSet;

/// One kernel of one file.
const ONE: &[&str] = &["stream/copy/512KiB/1u/cached"];

/// A machine with NVRTC 12.6 and 13.0.
fn with_both() -> Machine {
    let machine = Machine::with(&NVIDIA);
    machine.copy_of_the_stub("libnvrtc.so.12");
    machine
}

/// The compilers that were given a file, in turn, and for which targets.
fn compiled(machine: &Machine, file: &str) -> Vec<String> {
    let start = format!("options {file} ");
    let compiled = |line: &String| {
        let (options, version) = line.strip_prefix(&start)?.rsplit_once(" by ")?;
        let target = options.split("architecture=").nth(1)?.split('"').next()?;
        Some(format!("{version} {target}"))
    };
    machine.log().iter().filter_map(compiled).collect()
}

#[track_caller]
fn assert_measured(record: &Record) -> &Code {
    let [Outcome::Measured(measurement)] = &record.outcomes[..] else {
        panic!("{:?}", record.outcomes)
    };
    assert_eq!(measurement.code.len(), 1, "{:?}", measurement.code);
    &measurement.code[0]
}

#[test]
fn the_compiler_of_the_drivers_own_cuda_is_asked_first() {
    let file = "stream/cached.cu";
    for (script, tried) in [
        ("driver=12000", &["12.6 sm_90a"][..]),
        ("driver=13000", &["13.0 sm_90a"]),
        ("driver=13010", &["13.0 sm_90a"]),
        // What the driver refuses to load, the other compiler makes again.
        ("driver=13000,images=12", &["13.0 sm_90a", "12.6 sm_90a"]),
        // And what a compiler does not know.
        ("driver=12080,capability=100,images=13", &["12.6 sm_100a", "13.0 sm_100a"]),
        ("driver=13000,capability=121", &["13.0 sm_120f"]),
    ] {
        let machine = with_both();
        let (said, record) = machine.run_of(script, ONE);
        assert_eq!(said.code, Some(0), "{script}: {} {}", said.out, said.err);
        let Code::Image { sha256, target, compiler } = assert_measured(&record) else {
            panic!("{record:?}")
        };
        assert_eq!(compiled(&machine, file), tried, "{script}");
        let last = tried.last().and_then(|one| one.split_once(' ')).expect("one").1;
        assert_eq!((target.as_str(), compiler.as_str()), (last, "NVRTC stub"), "{script}");
        assert!(sha256.len() == 64 && sha256.bytes().all(|b| b.is_ascii_hexdigit()), "{sha256}");
    }
}

#[test]
fn a_driver_that_loads_nothing_of_the_compilers_is_told_what_would_suit_it() {
    let machine = Machine::with(&NVIDIA);
    let (said, record) = machine.run_of("driver=12000", ONE);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let [Outcome::Skipped { reason, .. }] = &record.outcomes[..] else {
        panic!("{:?}", record.outcomes)
    };
    for words in ["the driver refuses what NVRTC stub makes for sm_90a", "nvidia-cuda-nvrtc-cu12"] {
        assert!(reason.contains(words), "{words}: {reason}");
    }
}

#[test]
fn a_family_shares_the_kernels_of_its_first_device() {
    let machine = with_both();
    let script = "driver=13000,capability=121";
    let planned = |script: &str| -> BTreeSet<String> {
        let args = ["list", "--suite", "gpu-verify", "--json"];
        let listing = say(&mut machine.fizeau(script, &args)).json();
        assert!(!listing["notes"].to_string().contains("architecture, "), "{listing}");
        let rows = listing["cases"].as_array().expect("cases").iter();
        rows.map(|row| row["id"].as_str().expect("an id").to_owned()).collect()
    };
    let own = planned(script);
    assert!(own.iter().any(|id| id.ends_with("/sm120_mma")), "{own:?}");
    assert_eq!(own, planned("driver=13000,capability=120"));
}

#[test]
fn an_architecture_that_came_later_is_measured_with_a_word() {
    let machine = with_both();
    let script = "driver=13000,capability=130";
    let args = ["list", "--suite", "stub.toml", "--device", "cuda", "gemm/bf16/*", "stream/*"];
    let said = say(&mut machine.fizeau(script, &args));
    let products = said.out.lines().filter(|line| line.starts_with("gemm/bf16/"));
    let kernels: Vec<&str> =
        products.filter_map(|line| line.split(' ').next()?.rsplit('/').next()).collect();
    assert_eq!(kernels.first(), Some(&"cublaslt"), "{kernels:?}");
    assert!(kernels.contains(&"portable"), "{kernels:?}");

    let cases = ["stream/copy/512KiB/*", "gemm/bf16/64x48x80/*"];
    let (said, record) = machine.run_of(script, &cases);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    assert_shows_no_number(&said.out);
    assert_eq!(record.header.environment.unknown_architecture.as_deref(), Some("sm_130"));
    // No compiler knows the device: the driver is given PTX.
    let tried = compiled(&machine, "stream/cached.cu");
    assert_eq!(tried, ["13.0 sm_130", "12.6 sm_130", "13.0 compute_80"]);
    let report = say(&mut machine.fizeau("", &["report", "out", "--json"])).json();
    let rows = report["tables"]["cases"].as_array().expect("cases");
    let (mut ours, mut theirs) = (0, 0);
    for row in rows {
        let id = row["case"].as_str().expect("an id");
        match id.ends_with("/cublaslt") {
            true => theirs += 1,
            false => {
                ours += 1;
                assert_eq!(row["tier"], "portable, not made for sm_130", "{row}");
                assert!(
                    row["utilisation"].is_null() && row["own_ceiling_share"].is_null(),
                    "{row}"
                );
            }
        }
    }
    assert!(ours > 1 && theirs == 1, "{rows:?}");
    let maps = report["heat_maps"].as_object().expect("heat maps");
    let maps = maps.iter().filter(|(name, _)| name.starts_with("gemm_"));
    for heat in maps.flat_map(|(_, map)| map.as_array().expect("values")) {
        let is_theirs = heat["column"].as_str().is_some_and(|name| name.ends_with("cublaslt"));
        assert!(is_theirs || heat["share"].is_null(), "{heat}");
    }
}

#[test]
fn a_record_has_what_reproduces_its_numbers() {
    let machine = with_both();
    let (said, record) =
        machine.run_of("driver=13000,application=900", &["gemm/bf16/64x48x80/*", ONE[0]]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    assert_shows_no_number(&said.out);
    let settings = record.header.environment.settings.as_ref().expect("settings");
    assert_eq!(settings.power_limit.map(|limit| limit.0), Some(2.0));
    assert_eq!((settings.ecc, settings.vbios.as_deref()), (Some(true), Some("stub")));
    let held = settings.clock_locks.as_deref();
    assert_eq!(held, Some("application clock 900 MHz (default 1000 MHz)"));
    let code: Vec<&Code> = record
        .outcomes
        .iter()
        .filter_map(Outcome::measured)
        .flat_map(|measurement| &measurement.code)
        .collect();
    let library = Code::Library { name: "cublaslt".into(), version: "stub".into() };
    assert!(code.contains(&&library), "{code:?}");
    let images: BTreeSet<&String> = code
        .iter()
        .filter_map(|code| match code {
            Code::Image { sha256, .. } => Some(sha256),
            Code::Library { .. } => None,
        })
        .collect();
    assert!(images.len() > 2, "each file is an image of its own: {code:?}");
    for words in ["What reproduces this", "power limit", "ECC", "clocks held to", "VBIOS"] {
        assert!(said.out.contains(words), "{words}: {}", said.out);
    }
}

/// A plain run on a GPU takes the suite that is made for one, and is planned for less than a minute
/// on a large one: 132 units, 141 GB, the rates of compute capability 9.0.
#[test]
fn a_plain_run_on_a_gpu_is_planned_for_a_minute() {
    let machine = Machine::with(&NVIDIA);
    let list = |args: &[&str]| -> serde_json::Value {
        let given = [&["list", "--json"], args].concat();
        let said =
            say(&mut machine.fizeau("units=132,memory=141000000000,gpus=2", &given)).ended(0);
        serde_json::from_str(&said.out).expect("JSON")
    };
    let plan = list(&[]);
    assert_eq!(plan["suite"], "gpu-quick");
    let seconds = plan["estimated_seconds"].as_f64().expect("a time");
    assert!((1.0..60.0).contains(&seconds), "{seconds} s");
    let ids = plan["cases"].as_array().expect("cases").iter();
    let ids: Vec<&str> = ids.filter_map(|case| case["id"].as_str()).collect();
    for start in [
        "stream/read/",
        "stream/copy/",
        "transfer/host_to_device_memcpy/",
        "transfer/device_to_host_memcpy/",
        "transfer/device_to_device_memcpy_read/",
        "launch/waited/",
        "gemm/bf16/4096x4096x4096/",
        "gemm/bf16/8192x8192x8192/cublaslt",
        "gemm/fp8/4096x4096x4096/",
        "gemm/fp8/8192x8192x8192/",
        "attention/prefill/",
        "attention/decode/",
    ] {
        assert!(ids.iter().any(|id| id.starts_with(start)), "{start}: {ids:?}");
    }
    // One kernel of ours for each point, beside the library's.
    let portable = ids.iter().filter(|id| id.starts_with("gemm/") && id.ends_with("/portable"));
    assert_eq!(portable.count(), 0, "{ids:?}");
    // A suite that is asked for is taken, and a host has its own.
    assert_eq!(list(&["--suite", "gpu-power"])["suite"], "gpu-power");
    assert_eq!(list(&["--device", "host", "compute"])["suite"], "quick");
}
