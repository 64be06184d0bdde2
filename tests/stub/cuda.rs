//! On a stub of NVIDIA's driver.

use super::machine::{
    FEW, Machine, NVIDIA, PEAKS, assert_compiled_once, assert_shows_no_number, launches,
    operations, streams,
};
use crate::program::{self, Said, say};
use fizeau_domain::outcome::{Failure, Invalidity, Measurement, Outcome};
use fizeau_record::Record;
use std::{collections::BTreeSet, fs};

/// How each case ended, in a word.
fn word(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Measured(_) => "measured".into(),
        Outcome::Skipped { .. } => "skipped".into(),
        Outcome::Failed { failure, .. } => format!("{failure:?}"),
        Outcome::Invalid { invalidity, .. } => format!("{invalidity:?}"),
    }
}

fn measurements(record: &Record) -> Vec<&Measurement> {
    record.outcomes.iter().filter_map(Outcome::measured).collect()
}

#[test]
fn a_whole_run_passes_and_shows_no_number() {
    let machine = Machine::with(&NVIDIA);
    let (said, record) = machine.run_of("units=1", &[&FEW[..], &[PEAKS]].concat());
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    // All but shapes on kernels that are not made for them.
    for outcome in &record.outcomes {
        assert!(outcome.measured().is_some() || is_unfit(outcome), "{outcome:?}");
    }
    let id = "gemm/bf16/5x7x3/sm80_mma";
    assert!(record.outcomes.iter().any(|o| is_unfit(o) && o.case().to_string() == id));
    let operations = operations(&record);
    assert_eq!(operations.len(), FEW.len() + 1, "{operations:?}");
    assert_eq!((record.header.device.vendor.as_str(), record.header.device.ordinal), ("stub", 0));
    // The PCI number comes from NVML, the part by it.
    assert_eq!(record.header.device.pci_id.as_deref(), Some("10de:2335"));
    assert_eq!(record.header.part.as_deref(), Some("h200-sxm"));
    // The clock comes from the kernel that counts cycles against nanoseconds.
    for measurement in measurements(&record) {
        assert_eq!(measurement.clock.map(|clock| clock.0), Some(1_000.0));
        let seen = measurement.telemetry.as_ref().expect("telemetry");
        assert!(seen.readings >= 1 && seen.ecc_corrected > Some(0), "{seen:?}");
        assert_eq!(seen.ecc_uncorrected, Some(0));
    }
    assert_shows_no_number(&said.out);
    let page = fs::read_to_string(machine.place.path("out/report.md")).expect("a report");
    assert_shows_no_number(&page);
    let log = machine.log();
    launches(&log, "compute_f32")[0].is("grid=[1, 1, 1] block=[512, 1, 1] shared=0 ");
    // Everything that was made was given back.
    assert_eq!(log.last().map(String::as_str), Some("release blocks=0 objects=0"));
}

/// Whether a case was skipped since its kernel is not made for its shape.
fn is_unfit(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Skipped { case, reason } => match case.kernel.0.as_str() {
            "portable" => reason.contains("heads of at most 576"),
            "cublaslt" => reason.starts_with("cublaslt does not offer "),
            _ if case.to_string().starts_with("attention/") => reason.contains("in one piece"),
            _ => reason.contains("rows"),
        },
        _ => false,
    }
}

#[test]
fn kernels_are_launched_as_their_list_says() {
    let machine = Machine::with(&NVIDIA);
    machine.run("units=6");
    let log = machine.log();
    let of = |entry: &str| launches(&log, entry);
    // One block of 1024 threads for each unit asked for, and 48 bytes of parameters, behind which
    // stands how often.
    let copies = of("stream_copy_cached");
    let copied = copies.iter().find(|one| one.shape.starts_with("grid=[1, 1, 1]"));
    let copied = copied.expect("one unit").is("grid=[1, 1, 1] block=[1024, 1, 1] shared=0 ");
    assert_eq!(copied.params.len(), 52);
    // 512 KiB in two arrays; the second after the first; the scalar last.
    assert_eq!((copied.u64(32), copied.u64(16)), (32_768, 0));
    assert!(copied.u64(0) > 0 && copied.u64(8) >= copied.u64(0) + 32_768 * 8);
    assert_eq!(f64::from_bits(copied.u64(40)), 0.7);
    // One block for each unit.
    of("util_clock")[0].is("grid=[6, 1, 1] block=[128, 1, 1] shared=0 ");
    // Two for each unit, 64 bytes: three addresses, three sizes, the element type; no scales, whose
    // factor is 1.
    let product = of("gemm_bf16").remove(0);
    product.is("grid=[12, 1, 1] block=[256, 1, 1] shared=0 ");
    assert_eq!(
        (product.params.len(), [24, 28, 32, 36].map(|at| product.u32(at))),
        (64, [64, 48, 80, 4])
    );
    assert_eq!(f32::from_bits(product.u32(56)), 1.0);
    // More shared memory than is had unasked is asked for.
    of("gemm_bf16_mma")[0].is("grid=[6, 1, 1] block=[256, 1, 1] shared=98304 ");
    assert!(log.iter().any(|line| line == "attribute gemm_bf16_mma 8=98304"));
    // Three tensor maps behind the parameters, each at a multiple of 64 bytes.
    let mapped = |entry: &str| {
        let launch = of(entry).remove(0);
        launch.is("grid=[6, 1, 1] block=[384, 1, 1] shared=229504 cluster=[2, 1, 1] ");
        let addresses = [0, 8, 16].map(|at| launch.u64(at));
        assert_eq!(
            (launch.params.len(), [64, 192, 320].map(|at| launch.u64(at))),
            (448, addresses)
        );
    };
    mapped("gemm_bf16_wgmma");
    let b = "tensor_map type=9 sizes=[48, 80] strides=[96] box=[64, 64] steps=[1, 1] interleave=0 \
             swizzle=3 promotion=3 fill=0";
    assert!(log.iter().any(|line| line == b), "{log:#?}");
    // The address of scratch memory stands between them and the parameters.
    let shared = of("gemm_bf16_wgmma_stream_k_narrow");
    assert!(shared.iter().all(|one| one.params.len() == 512));
    let scratch = shared[0].u64(64);
    assert!(scratch > 0 && shared.iter().all(|one| one.u64(64) == scratch));
    assert_eq!(of("gemm_bf16_mma_stream_k")[0].params.len(), 72);
    // Products for groups: 70 x 64 x 128 of 12, of which the largest of balanced ones has 6 rows.
    let grouped = of("grouped_bf16").remove(0);
    grouped.is("grid=[6, 1, 1] block=[256, 1, 1] shared=0 ");
    let words: Vec<u32> = (32..56).step_by(4).map(|at| grouped.u32(at)).collect();
    assert_eq!((grouped.params.len(), words), (56, vec![70, 64, 128, 12, 6, 4]));
    for entry in ["grouped_bf16_mma", "grouped_bf16_mma_skinny"] {
        of(entry)[0].is("grid=[6, 1, 1] block=[256, 1, 1] shared=98304 ");
    }
    mapped("grouped_bf16_wgmma");
    // The map of B is of all groups.
    let all = "tensor_map type=9 sizes=[64, 1536] strides=[128] box=[64, 64] steps=[1, 1]";
    assert!(log.iter().any(|line| line.starts_with(all)), "{log:#?}");
    // The vendor's library multiplies beside: the second algorithm, since the first refuses.
    assert!(log.iter().any(|line| line == "cublaslt 64x48x80 kind=14"));
    // What is timed is held by one warp until it is enqueued.
    let hold = of("util_hold").remove(0);
    assert_eq!(hold.is("grid=[1, 1, 1] block=[32, 1, 1] shared=0 ").params.len(), 24);
    // One launch for many loads, their number behind the address: how many are enough for a sample
    // depends on how long this machine takes for a launch.
    let chases = of("latency_chase");
    assert!(chases.iter().all(|one| one.params.len() == 12));
    assert!(chases.iter().map(|one| one.u32(8)).max() > Some(1));
    chases[0].is("grid=[1, 1, 1] block=[32, 1, 1] shared=0 ");
}

#[test]
fn attention_is_launched_as_its_kernels_ask() {
    let machine = Machine::with(&NVIDIA);
    machine.run("units=6");
    let log = machine.log();
    for (entry, shape) in [
        // A block for each tile of 128 queries, 2 heads and one sequence: 19 queries are one tile.
        ("prefill_bf16_64_mma", "grid=[2, 1, 1] block=[128, 1, 1] shared=49152 "),
        ("prefill_f16_128_mma", "grid=[4, 1, 1] block=[128, 1, 1] shared=65536 "),
        // By tensor maps: rows are tokens, all heads beside each other. Tiles are dealt to a block
        // for each unit.
        ("prefill_bf16_64_wgmma", "grid=[6, 1, 1] block=[512, 1, 1] shared=180224 "),
        // A schedule is followed by a block for each unit.
        ("decode_bf16_64_mma", "grid=[6, 1, 1] block=[128, 1, 1] shared=98304 "),
        // Four for each unit, which find their work.
        ("bf16", "grid=[24, 1, 1] block=[128, 1, 1] shared=0 "),
    ] {
        launches(&log, &format!("attention_{entry}"))[0].is(shape);
    }
    let k = "tensor_map type=9 sizes=[64, 19] strides=[128] box=[64, 128] steps=[1, 1] \
             interleave=0 swizzle=3 promotion=3 fill=0";
    assert!(log.iter().any(|line| line == k), "{log:#?}");
    assert_eq!(launches(&log, "attention_bf16")[0].params.len(), 144);
}

#[test]
fn kernels_are_compiled_once_for_the_device_and_kept() {
    assert_compiled_once(&NVIDIA, "capability=86", "--gpu-architecture=sm_80");
}

/// What a fault of the driver ends in: the first outcome that is none of the measured, and how
/// many words it must say; and what all after it end in.
#[track_caller]
fn assert_ends_in(script: &str, first: Failure, words: &str, after: Option<Failure>) {
    let machine = Machine::with(&NVIDIA);
    let (said, record) = machine.run(script);
    assert_eq!(said.code, Some(1), "{script}: {} {}", said.out, said.err);
    assert!(!said.err.contains("panicked"), "{script}: {}", said.err);
    assert_eq!(record.outcomes.len(), record.header.plan.len(), "{script}");
    let failed = |outcome: &&Outcome| outcome.measured().is_none();
    match record.outcomes.iter().find(failed) {
        Some(Outcome::Failed { failure, error, .. }) => {
            assert_eq!(*failure, first, "{script}: {error}");
            assert!(error.contains(words), "{script}: {error}");
        }
        other => panic!("{script} was not seen: {other:?}"),
    }
    if let Some(after) = after {
        let failures = record.outcomes.iter().skip_while(|outcome| outcome.measured().is_some());
        let rest: BTreeSet<String> = failures.skip(1).map(word).collect();
        assert_eq!(rest, BTreeSet::from([format!("{after:?}")]), "{script}");
    }
}

#[test]
fn each_fault_of_the_driver_ends_in_its_outcome() {
    let lost = Some(Failure::DeviceLost);
    assert_ends_in("cuMemAlloc_v2=2@6", Failure::Allocation, "out of memory", None);
    assert_ends_in("cuLaunchKernelEx=1@9", Failure::Launch, "invalid value", None);
    assert_ends_in("cuLaunchKernelEx=701@9", Failure::Launch, "more registers", None);
    assert_ends_in("cuLaunchKernelEx=98765@9", Failure::Launch, "98765, which this", None);
    assert_ends_in("cuEventQuery=719@9", Failure::Launch, "launch failure", lost);
    assert_ends_in("cuEventQuery=700@9", Failure::Launch, "illegal address", lost);
    assert_ends_in("cuEventQuery=214@9", Failure::DeviceLost, "uncorrectable ECC error", lost);
    assert_ends_in("cuMemcpyDtoHAsync_v2=999@3", Failure::DeviceLost, "unknown error", lost);
    assert_ends_in("hang@9", Failure::Hang, "no answer within 500.0 ms", lost);
}

#[test]
fn a_kernel_that_does_not_compile_is_a_failed_launch() {
    let machine = Machine::with(&NVIDIA);
    let (said, record) = machine.run("nvrtcCompileProgram=6,cuModuleLoadData=209");
    assert_eq!(said.code, Some(1), "{}", said.err);
    let Some(Outcome::Failed { failure: Failure::Launch, error, .. }) = record.outcomes.first()
    else {
        panic!("{:?}", record.outcomes.first())
    };
    assert!(error.contains("error: scripted"), "{error}");
}

#[test]
fn a_clock_that_is_held_makes_samples_invalid_and_faults_are_kept() {
    let machine = Machine::with(&NVIDIA);
    let (said, record) = machine.run("reasons=64,xid=79");
    assert_eq!(said.code, Some(1), "{}", said.err);
    let seen: Vec<&Measurement> = record
        .outcomes
        .iter()
        .filter_map(|outcome| match outcome {
            Outcome::Invalid { invalidity: Invalidity::Throttled, measurement, .. } => {
                Some(measurement.as_ref())
            }
            unfit if is_unfit(unfit) => None,
            other => panic!("{other:?}"),
        })
        .collect();
    let held = |m: &&Measurement| m.telemetry.as_ref().expect("telemetry").held_by.clone();
    assert_eq!(held(&seen[0]), ["hardware thermal slowdown"]);
}

#[test]
fn a_symbol_that_an_older_driver_lacks_is_named_with_its_mend() {
    let machine = Machine::with(&NVIDIA);
    machine.without_symbol("libcuda.so.1", "cuLaunchKernelEx");
    // The vendor's library launches by itself.
    fs::remove_file(machine.lib().join("libcublasLt.so.13")).expect("the link");
    let (said, record) = machine.run("");
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    for outcome in &record.outcomes {
        let Outcome::Skipped { case, reason } = outcome else { panic!("{outcome:?}") };
        if case.kernel.0 == "cublaslt" {
            assert!(reason.contains("pip install nvidia-cublas"), "{reason}");
            continue;
        }
        let named = reason.contains("cuLaunchKernelEx") && reason.contains("newer NVIDIA driver");
        assert!(is_unfit(outcome) || named, "{reason}");
    }
    // An older symbol of the same function serves as well.
    let machine = Machine::with(&NVIDIA);
    machine.without_symbol("libcuda.so.1", "cuEventElapsedTime_v2");
    assert_eq!(machine.run("").0.code, Some(0));
}

#[test]
fn a_driver_that_is_too_old_is_told_with_both_versions() {
    let machine = Machine::with(&NVIDIA);
    let said = say(&mut machine.fizeau("driver=11040", &["list", "--device", "cuda"])).ended(3);
    assert!(said.err.contains("CUDA 12.0") && said.err.contains("11.4"), "{}", said.err);
    for script in ["cuInit=100", "devices=0"] {
        let said = say(&mut machine.fizeau(script, &["devices"]));
        assert_eq!(said.code, Some(0), "{script}: {}", said.err);
        assert!(said.out.contains("nvidia-smi"), "{script}: {}", said.out);
    }
}

#[test]
fn what_is_missing_is_said_with_its_mend_and_the_host_is_measured() {
    let machine = Machine::with(&[]);
    let said = say(&mut machine.fizeau("", &["devices"])).ended(0);
    assert!(said.out.contains("libcuda.so.1 not found: install the NVIDIA driver"), "{}", said.out);
    let doctor = say(&mut machine.fizeau("", &["doctor"]));
    for words in ["libcuda.so.1 not found", "--gpus all", "NVRTC", "CUDA kernels"] {
        assert!(doctor.out.contains(words), "{words}: {}", doctor.out);
    }
    let doctor = say(&mut machine.fizeau("", &["doctor", "--json"]));
    for words in [
        "libnvidia-ml.so.1 not found",
        "compute,utility",
        "libnvrtc.so.13 or libnvrtc.so.12 not found",
        "pip install nvidia-cuda-nvrtc",
    ] {
        assert!(doctor.out.contains(words), "{words}: {}", doctor.out);
    }
    let said = say(&mut machine.fizeau("", &["list", "--suite", "stub.toml", "gemm/f32/*"]));
    assert!(said.out.contains("avx") || said.out.contains("portable"), "{}", said.out);
}

#[test]
fn without_nvml_a_run_says_so_and_goes_on() {
    let machine = Machine::with(&["libcuda.so.1", "libnvrtc.so.13", "libcublasLt.so.13"]);
    let (said, record) = machine.run("");
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(measurements(&record).iter().all(|measurement| measurement.telemetry.is_none()));
    let warnings = &record.header.environment.warnings;
    assert!(warnings.iter().any(|warning| warning.contains("no telemetry from NVML")));
}

#[test]
fn without_nvrtc_kernels_without_binaries_are_skipped_with_the_mend() {
    let machine = Machine::with(&["libcuda.so.1", "libnvidia-ml.so.1"]);
    // Binaries of this build, if it has any, fit no device.
    let (said, record) = machine.run("cuModuleLoadData=209");
    assert_eq!(said.code, Some(0), "{}", said.err);
    for outcome in &record.outcomes {
        let Outcome::Skipped { case, reason } = outcome else { panic!("{outcome:?}") };
        let package = match case.kernel.0.as_str() {
            "cublaslt" => "nvidia-cublas",
            _ => "nvidia-cuda-nvrtc",
        };
        assert!(reason.contains(package), "{reason}");
    }
}

/// A run of all transfers and launches, and of what is named beside them.
fn run_all(machine: &Machine, script: &str, beside: &str) -> (Said, Record) {
    let words = ["transfer/*", "launch/*", beside];
    let said =
        say(machine.fizeau(script, &["run", "--suite", "stub.toml", "--out", "out"]).args(words));
    (said, machine.place.record("out"))
}

#[test]
fn transfers_accesses_and_launches_go_their_way() {
    let machine = Machine::with(&NVIDIA);
    let (said, record) = run_all(&machine, "devices=3", "access/*");
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    let ids: Vec<String> = measurements(&record).iter().map(|m| m.case.to_string()).collect();
    for id in [
        "transfer/host_to_device_memcpy/8B/pageable/ce",
        "transfer/host_to_device_memcpy/8B/pinned/sm",
        "transfer/device_to_host_memcpy/1048584B/pinned/ce",
        "transfer/host_to_device_bidirectional_memcpy/1048584B/pinned/sm",
        "transfer/all_to_host_memcpy/1048584B/pinned/3d/ce",
        "transfer/device_to_device_memcpy_read/1048584B/0-2/ce",
        "transfer/device_to_device_memcpy_write/8B/0-1/sm",
        "transfer/all_to_one_read/1048584B/2d/ce",
        "transfer/device_to_device_bidirectional_memcpy_read/1048584B/0-1/ce",
        "transfer/host_to_device_memcpy/1048584B/pinned/of1/ce",
        "transfer/all_to_host_memcpy/1048584B/pinned/3d/of2/ce",
        "transfer/host_device_latency/2MiB/pinned/portable",
        "transfer/device_to_device_latency/2MiB/0-1/portable",
        "transfer/device_to_device_memcpy_read/1048584B/0-2/tma",
        "transfer/device_to_device_memcpy_write/8B/0-1/tma",
        "transfer/device_local_copy/1048584B/tma",
        "transfer/device_to_device_latency/2MiB/0-1/tma",
        "access/gather/128MiB/32B/4u/portable",
        "access/mix_1r3w/128MiB/16B/4u/portable",
        "access/shared/4MiB/16B/4u/portable",
        "access/first_cache/4MiB/8KiB/4u/portable",
        "access/distributed/4MiB/16B/4u/sm90_cluster",
        "launch/queued/1k/portable",
        "launch/waited/1k/portable",
        "launch/graph/8k/portable",
    ] {
        assert!(ids.iter().any(|one| one == id), "{id}: {ids:#?}");
    }
    assert!(!ids.iter().any(|id| id.contains("pageable/sm")), "{ids:#?}");
    assert!(!ids.iter().any(|id| id.contains("host") && id.ends_with("/tma")), "{ids:#?}");
    let log = machine.log();
    let has = |line: &str| log.iter().any(|one| one == line);
    // Peers are reached before they are copied from, copies at once are on streams of their own.
    assert!(has("peer 1") && has("peer 2") && has("graph kernels=8"));
    assert!(streams(&log).len() > 2, "{:?}", streams(&log));
    let cluster = "grid=[4, 1, 1] block=[1024, 1, 1] shared=0 cluster=[2, 1, 1] ";
    launches(&log, "access_distributed")[0].is(cluster);
    assert_eq!(log.last().map(String::as_str), Some("release blocks=0 objects=0"));
    // Links are set against what PCI Express carries.
    let light = |id: &str| {
        let all = measurements(&record).into_iter();
        all.filter(|m| m.case.to_string() == id).any(|m| !m.speed_of_light.is_empty())
    };
    assert!(light("transfer/device_to_host_memcpy/1048584B/pinned/ce"));
    // Copies beside the one that is measured last twice as long, and are not waited for.
    let time = |id: &str| {
        let all = measurements(&record).into_iter();
        all.filter(|m| m.case.to_string() == id).map(|m| m.summary.median.0).next()
    };
    let alone = time("transfer/host_to_device_memcpy/1048584B/pinned/ce").expect("measured");
    for beside in [
        "host_to_device_bidirectional_memcpy/1048584B/pinned",
        "host_to_all_memcpy/1048584B/pinned/3d",
    ] {
        let ratio = time(&format!("transfer/{beside}/ce")).expect(beside) / alone;
        assert!((0.95..1.05).contains(&ratio), "{beside}: {ratio}");
    }
    assert_eq!(record.header.device.pcie, Some([5, 16]));
    assert_eq!(record.header.device.cache_set_aside.map(|bytes| bytes.0), Some(0));
}

#[test]
fn memory_out_of_reach_is_skipped_and_said() {
    let machine = Machine::with(&NVIDIA);
    let (said, record) = run_all(&machine, "devices=2,apart", "access/shared/*");
    assert_eq!(said.code, Some(0), "{}", said.err);
    let skipped: Vec<&str> = record
        .outcomes
        .iter()
        .filter_map(|outcome| match outcome {
            Outcome::Skipped { reason, .. } => Some(reason.as_str()),
            _ => None,
        })
        .collect();
    assert!(!skipped.is_empty());
    assert!(skipped.iter().all(|reason| reason.contains("memory of cuda:1")), "{skipped:?}");
    let alone = Machine::with(&NVIDIA);
    let (said, record) = run_all(&alone, "", "access/shared/*");
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(!program::planned(&record).iter().any(|id| id.contains("device_to_device")));
}

#[test]
fn faults_of_copies_and_graphs_end_in_their_outcomes() {
    for (script, failure, words) in [
        ("cuMemcpyAsync=719@3", Failure::Launch, "launch failure"),
        ("cuMemHostAlloc=2@2", Failure::Allocation, "out of memory"),
        ("cuGraphLaunch=1", Failure::Launch, "invalid value"),
        ("cuStreamWaitEvent=214", Failure::DeviceLost, "ECC"),
    ] {
        let machine = Machine::with(&NVIDIA);
        let (said, record) = run_all(&machine, script, "access/shared/*");
        assert_eq!(said.code, Some(1), "{script}: {}", said.err);
        let first = record.outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Failed { failure, error, .. } => Some((*failure, error.clone())),
            _ => None,
        });
        let (ended, error) = first.unwrap_or_else(|| panic!("{script}: nothing failed"));
        assert!(ended == failure && error.contains(words), "{script}: {ended:?} {error}");
    }
}

#[test]
fn several_devices_and_what_hides_them_are_told() {
    let machine = Machine::with(&NVIDIA);
    let said = say(&mut machine.fizeau("devices=2", &["devices"]));
    assert!(said.out.contains("x stub GPU (cuda:0-1)"), "{}", said.out);
    let list = |device: &str| {
        let args = ["list", "--suite", "stub.toml", "--device", device];
        say(&mut machine.fizeau("devices=2", &args))
    };
    assert_eq!(list("cuda:1").code, Some(0));
    assert_eq!(list("cuda").code, Some(0));
    let beyond = list("cuda:2");
    assert_eq!(beyond.code, Some(2));
    assert!(beyond.err.contains("no device cuda:2: cuda has 2"), "{}", beyond.err);
    let args = ["run", "--suite", "stub.toml", "--out", "out", "latency/4KiB/*"];
    say(machine.fizeau("devices=6", &args).env("CUDA_VISIBLE_DEVICES", "3,5")).ended(0);
    let warnings = machine.place.record("out").header.environment.warnings;
    assert!(
        warnings.iter().any(|warning| warning.contains("CUDA_VISIBLE_DEVICES=3,5")),
        "{warnings:?}"
    );
    let doctor = say(machine.fizeau("devices=6", &["doctor"]).env("CUDA_VISIBLE_DEVICES", "3,5"));
    assert!(doctor.out.contains("CUDA_VISIBLE_DEVICES=3,5"), "{}", doctor.out);
}

#[test]
fn a_slice_of_a_gpu_is_no_part() {
    let machine = Machine::with(&NVIDIA);
    let (said, record) = machine.run("mig");
    assert_eq!(said.code, Some(0), "{}", said.err);
    let header = &record.header;
    assert_eq!(header.device.virtualised.as_deref(), Some("MIG 1g.18gb"));
    // The pins that the driver tells of are the whole GPU's, which no slice can pass.
    assert_eq!((&header.part, header.device.memory_bus_bits.is_some()), (&None, true));
    // NVML knows it by its own number.
    assert!(measurements(&record).iter().all(|measurement| measurement.telemetry.is_some()));
}

/// What the first day runs holds every operation that a GPU has.
#[test]
fn the_suites_of_the_first_day_have_every_operation() {
    let machine = Machine::with(&NVIDIA);
    for suite in ["gpu-verify", "gpu-figures", "gpu"] {
        let said = say(&mut machine.fizeau("", &["list", "--suite", suite])).ended(0);
        for operation in ["compute", "stream", "latency", "gemm", "grouped", "attention"] {
            let start = format!("{operation}/");
            assert!(said.out.lines().any(|line| line.starts_with(&start)), "{suite}: {operation}");
        }
    }
}
