//! On a stub of AMD's driver.

use super::machine::{
    AMD, FEW, Machine, PEAKS, assert_compiled_once, assert_shows_no_number, launches, operations,
    streams,
};
use crate::program::{Said, say};
use fizeau_domain::outcome::{Failure, Outcome};
use fizeau_record::Record;
use std::fs;

const RUNTIME: &str = "libamdhip64.so.6";
const PRODUCTS: &str = "libhipblaslt.so.0";

/// Whether a case was skipped since its kernel is not made for its shape.
fn is_unfit(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Skipped { case, reason } => match case.kernel.0.as_str() {
            "portable" => reason.contains("heads of at most 576"),
            name if name.ends_with("_stream_k") => {
                reason.contains("of their rounds") || reason.contains("rows of whole")
            }
            "hipblaslt" => reason.starts_with("hipblaslt does not offer "),
            _ if case.to_string().starts_with("attention/") => {
                reason.contains("in one piece") || reason.contains("heads of")
            }
            _ => reason.contains("rows"),
        },
        _ => false,
    }
}

#[test]
fn a_whole_run_passes_and_shows_no_number() {
    for gfx in ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250", "gfx1251"] {
        let machine = Machine::with(&AMD);
        let cases = [&FEW[..], &[PEAKS]].concat();
        let (said, record) = machine.run_of(&format!("units=1,gfx={gfx}"), &cases);
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
        for outcome in &record.outcomes {
            assert!(outcome.measured().is_some() || is_unfit(outcome), "{gfx}: {outcome:?}");
        }
        let operations = operations(&record);
        assert_eq!(operations.len(), FEW.len() + 1, "{operations:?}");
        let device = &record.header.device;
        assert_eq!((device.backend.as_str(), device.vendor.as_str()), ("hip", "stub"));
        assert!(device.features.contains(&gfx.to_owned()), "{:?}", device.features);
        let lanes = if gfx.starts_with("gfx9") { "wave64" } else { "wave32" };
        assert!(device.features.contains(&lanes.to_owned()), "{:?}", device.features);
        // The clock comes from the kernel that counts cycles against the timer.
        let measured = record.outcomes.iter().filter_map(Outcome::measured);
        for measurement in measured {
            assert_eq!(measurement.clock.map(|clock| clock.0), Some(1_000.0));
        }
        assert_shows_no_number(&said.out);
        let page = fs::read_to_string(machine.place.path("out/report.md")).expect("a report");
        assert_shows_no_number(&page);
        let log = machine.log();
        // RDNA counts pairs of compute units.
        let counts_pairs = ["gfx1100", "gfx1201"].contains(&gfx);
        let grid = if counts_pairs { "grid=[2, 1, 1]" } else { "grid=[1, 1, 1]" };
        launches(&log, "compute_f32")[0].is(&format!("{grid} block=[512, 1, 1] shared=0 "));
        // Everything that was made was given back.
        assert_eq!(log.last().map(String::as_str), Some("release blocks=0 objects=0"));
    }
}

#[test]
fn kernels_are_launched_as_their_list_says() {
    let machine = Machine::with(&AMD);
    machine.run("units=6,gfx=gfx90a");
    let log = machine.log();
    // One block of 1024 threads for each unit asked for, and 48 bytes of parameters, behind which
    // stands how often.
    let of = |entry: &str| launches(&log, entry);
    let copies = of("stream_copy_cached");
    let copied = copies.iter().find(|one| one.shape.starts_with("grid=[1, 1, 1]"));
    let copied = copied.expect("one unit").is("grid=[1, 1, 1] block=[1024, 1, 1] shared=0 ");
    assert_eq!((copied.params.len(), copied.u64(32), copied.u64(16)), (52, 32_768, 0));
    assert!(copied.u64(0) > 0 && copied.u64(8) >= copied.u64(0) + 32_768 * 8);
    assert_eq!(f64::from_bits(copied.u64(40)), 0.7);
    of("util_clock")[0].is("grid=[6, 1, 1] block=[128, 1, 1] shared=0 ");
    let product = of("gemm_bf16").remove(0);
    product.is("grid=[12, 1, 1] block=[256, 1, 1] shared=0 ");
    assert_eq!(
        (product.params.len(), [24, 28, 32, 36].map(|at| product.u32(at))),
        (64, [64, 48, 80, 4])
    );
    assert_eq!(f32::from_bits(product.u32(56)), 1.0);
    let grouped = of("grouped_bf16").remove(0);
    assert_eq!(grouped.is("grid=[6, 1, 1] block=[256, 1, 1] shared=0 ").params.len(), 56);
    // The vendor's library multiplies beside it: the third algorithm, since one refuses to run and
    // one says that it would.
    assert!(log.iter().any(|line| line == "hipblaslt 64x48x80 kinds=[14, 14, 2, 0] factor=1"));
    of("util_hold")[0].is("grid=[1, 1, 1] block=[32, 1, 1] shared=0 ");
    // One block of 256 threads for each 128 queries, head and sequence.
    let prefill = of("attention_prefill_bf16_64_cdna2").remove(0);
    assert_eq!(prefill.is("grid=[2, 1, 1] block=[256, 1, 1] shared=0 ").params.len(), 144);
    // One launch for many loads, their number behind the address.
    assert!(of("latency_chase").iter().all(|one| one.params.len() == 12));
}

#[test]
fn kernels_are_compiled_once_for_the_device_and_kept() {
    assert_compiled_once(&AMD, "gfx=gfx90a", "--offload-arch=gfx90a");
}

#[test]
fn accesses_transfers_and_launches_go_their_way() {
    let machine = Machine::with(&AMD);
    let (said, record) =
        machine.run_of("devices=3,gfx=gfx90a", &["access/*", "transfer/*", "launch/*"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    let measured = record.outcomes.iter().filter_map(Outcome::measured);
    let ids: Vec<String> = measured.map(|measurement| measurement.case.to_string()).collect();
    for id in [
        "transfer/host_to_device_memcpy/8B/pageable/ce",
        "transfer/host_to_device_memcpy/8B/pinned/sm",
        "transfer/all_to_host_memcpy/1048584B/pinned/3d/ce",
        "transfer/device_to_device_memcpy_read/1048584B/0-2/ce",
        "transfer/device_to_device_memcpy_write/8B/0-1/sm",
        "transfer/device_to_device_latency/2MiB/0-1/portable",
        "access/gather/128MiB/32B/4u/portable",
        "access/mix_1r3w/128MiB/16B/4u/portable",
        "access/shared/4MiB/16B/4u/portable",
        "access/first_cache/4MiB/8KiB/4u/portable",
        "launch/queued/1k/portable",
        "launch/waited/1k/portable",
        "launch/graph/8k/portable",
    ] {
        assert!(ids.iter().any(|one| one == id), "{id}: {ids:#?}");
    }
    assert_eq!(ids.len(), record.outcomes.len());
    let log = machine.log();
    let has = |line: &str| log.iter().any(|one| one == line);
    // Peers are reached before they are copied from, copies at once are on streams of their own.
    assert!(has("peer 1") && has("peer 2") && has("graph kernels=8"));
    assert!(streams(&log).len() > 2, "{:?}", streams(&log));
    launches(&log, "access_shared")[0].is("grid=[4, 1, 1] block=[1024, 1, 1] shared=0 ");
    launches(&log, "access_gather")[0].is("grid=[8, 1, 1] block=[512, 1, 1] shared=0 ");
    launches(&log, "launch_count")[0].is("grid=[1, 1, 1] block=[32, 1, 1] shared=0 ");
    assert_eq!(log.last().map(String::as_str), Some("release blocks=0 objects=0"));
}

#[test]
fn memory_out_of_reach_is_skipped_and_said() {
    let machine = Machine::with(&AMD);
    let (said, record) = machine.run_of("devices=2,apart", &["transfer/*"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let reasons = record.outcomes.iter().filter_map(|outcome| match outcome {
        Outcome::Skipped { reason, .. } => Some(reason.as_str()),
        _ => None,
    });
    let reasons: Vec<&str> = reasons.collect();
    assert!(!reasons.is_empty());
    assert!(reasons.iter().all(|reason| reason.contains("memory of hip:1")), "{reasons:?}");
}

#[test]
fn a_symbol_that_an_older_runtime_lacks_is_named_with_its_mend() {
    for symbol in ["hipModuleLaunchKernel", "hipModuleLoadData", "hipModuleGetFunction"] {
        let machine = Machine::with(&AMD);
        machine.without_symbol(RUNTIME, symbol);
        let (said, record) = machine.run("");
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
        for outcome in &record.outcomes {
            // The vendor's library launches by itself.
            if outcome.case().kernel.0 == "hipblaslt" {
                continue;
            }
            let Outcome::Skipped { reason, .. } = outcome else { panic!("{outcome:?}") };
            let named = reason.contains(symbol) && reason.contains("newer ROCm runtime");
            assert!(is_unfit(outcome) || named, "{reason}");
        }
    }
    // The properties of HIP 5, where those of HIP 6 are not there.
    let machine = Machine::with(&AMD);
    machine.without_symbol(RUNTIME, "hipGetDevicePropertiesR0600");
    let (said, record) = machine.run("gfx=gfx90a");
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    assert!(record.header.device.features.contains(&"gfx90a".to_owned()));
}

/// What a fault of the driver ends in: the first outcome that is none of the measured, and words of
/// it; and what all after it end in.
#[track_caller]
fn assert_ends_in(script: &str, first: Failure, words: &str, after: Option<Failure>) {
    assert_of_ends_in(&FEW, script, first, words, after);
}

#[track_caller]
fn assert_of_ends_in(
    cases: &[&str],
    script: &str,
    first: Failure,
    words: &str,
    after: Option<Failure>,
) {
    let machine = Machine::with(&AMD);
    let (said, record) = machine.run_of(script, cases);
    assert_eq!(said.code, Some(1), "{script}: {} {}", said.out, said.err);
    assert!(!said.err.contains("panicked"), "{script}: {}", said.err);
    assert_eq!(record.outcomes.len(), record.header.plan.len(), "{script}");
    let mut failed = record.outcomes.iter().filter_map(|outcome| match outcome {
        Outcome::Failed { failure, error, .. } => Some((*failure, error)),
        _ => None,
    });
    let (failure, error) = failed.next().unwrap_or_else(|| panic!("{script} was not seen"));
    assert_eq!(failure, first, "{script}: {error}");
    assert!(error.contains(words), "{script}: {error}");
    if let Some(after) = after {
        let other = failed.find(|(failure, _)| *failure != after);
        assert!(other.is_none(), "{script}: {other:?}");
    }
}

#[test]
fn each_fault_of_the_driver_ends_in_its_outcome() {
    let lost = Some(Failure::DeviceLost);
    assert_ends_in("hipMalloc=2@6", Failure::Allocation, "out of memory (HIP error 2)", None);
    assert_ends_in("hipModuleLaunchKernel=1@9", Failure::Launch, "invalid value (HIP", None);
    assert_ends_in("hipModuleLaunchKernel=701@9", Failure::Launch, "more registers", None);
    assert_ends_in("hipModuleLaunchKernel=98765@9", Failure::Launch, "98765, which this", None);
    assert_ends_in("hipEventQuery=719@9", Failure::Launch, "launch failure", lost);
    assert_ends_in("hipEventQuery=700@9", Failure::Launch, "illegal address", lost);
    assert_ends_in("hipEventQuery=214@9", Failure::DeviceLost, "uncorrectable ECC error", lost);
    assert_ends_in("hipMemcpyDtoHAsync=999@3", Failure::DeviceLost, "unknown error", lost);
    assert_ends_in("hang@9", Failure::Hang, "no answer within 500.0 ms", lost);
    let copied = |script, failure, words, after| {
        assert_of_ends_in(&["transfer/*", "launch/*"], script, failure, words, after);
    };
    copied("hipMemcpyAsync=719@3", Failure::Launch, "launch failure", lost);
    copied("hipHostMalloc=2@2", Failure::Allocation, "out of memory", None);
    copied("hipGraphLaunch=1", Failure::Launch, "invalid value", None);
    let script = "hiprtcCompileProgram=6,hipModuleLoadData=209";
    assert_ends_in(script, Failure::Launch, "error: scripted", None);
}

/// A run of products alone, by a suite of these element types.
fn products(machine: &Machine, script: &str, dtypes: &str) -> (Said, Record) {
    machine.suite(&format!("[gemm]\ndtypes = {dtypes}\nshapes = [[64, 48, 80], [5, 7, 3]]\n"));
    let args = ["run", "--suite", "own.toml", "--out", "out", "gemm/*/*/hipblaslt"];
    (say(&mut machine.fizeau(script, &args)), machine.place.record("out"))
}

#[test]
fn eight_bit_floats_are_multiplied_in_the_form_that_the_device_has() {
    // The same bits are half the value on CDNA 3: the library's own reading of them, times four,
    // passes the check of the product.
    for (gfx, line) in [
        ("gfx942", "hipblaslt 64x48x80 kinds=[1000, 14, 2, 0] factor=4"),
        ("gfx950", "hipblaslt 64x48x80 kinds=[28, 14, 2, 0] factor=1"),
        ("gfx1201", "hipblaslt 64x48x80 kinds=[28, 14, 2, 0] factor=1"),
        ("gfx1250", "hipblaslt 64x48x80 kinds=[28, 14, 2, 0] factor=1"),
    ] {
        let machine = Machine::with(&AMD);
        let (said, record) = products(&machine, &format!("gfx={gfx}"), r#"["fp8", "bf16"]"#);
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
        assert_eq!(record.outcomes.iter().filter_map(Outcome::measured).count(), 4, "{gfx}");
        assert!(machine.log().iter().any(|one| one == line), "{gfx}: {:#?}", machine.log());
        assert_eq!(machine.log().last().map(String::as_str), Some("release blocks=0 objects=0"));
    }
    let machine = Machine::with(&AMD);
    let (said, record) = products(&machine, "gfx=gfx942", r#"["tf32"]"#);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(record.outcomes.iter().filter_map(Outcome::measured).count(), 2);
    let line = "hipblaslt 64x48x80 kinds=[0, 0, 6, 0] factor=1";
    assert!(machine.log().iter().any(|one| one == line));
}

#[test]
fn a_cache_of_eight_bit_floats_is_decoded_by_the_matrix_kernels() {
    let point = |kind: &str, kv_heads: u32, dim_qk: u32, dim_v: u32| {
        format!(
            "[[attention]]\nattention = \"{kind}\"\ndtype = \"fp8\"\nbatch = 2\nheads = 4\n\
             kv_heads = {kv_heads}\nqueries = 1\nkeys = 70\ndim_qk = {dim_qk}\ndim_v = {dim_v}\n\
             mask = \"full\"\nlengths = \"ragged\"\npage = 16\n"
        )
    };
    let points = point("decode", 2, 64, 64) + &point("decode", 2, 128, 128);
    let points = points + &point("mla", 1, 576, 512);
    for (gfx, family) in [("gfx942", "cdna3"), ("gfx950", "cdna4")] {
        let machine = Machine::with(&AMD);
        machine.suite(&points);
        let ended = machine.run_own(&format!("gfx={gfx},units=6"), &["attention/*/*/*/*mfma"]);
        assert_eq!(ended.iter().filter(|(_, ended)| ended.is_ok()).count(), 3, "{gfx}");
        for entry in ["decode_fp8_64", "decode_fp8_128", "mla_fp8"] {
            let launch = launches(&machine.log(), &format!("attention_{entry}_{family}")).remove(0);
            launch.is("grid=[6, 1, 1] block=[256, 1, 1] shared=0 ");
            assert_eq!(launch.params.len(), 144);
        }
    }
    // The generation before has no conversion of 8-bit floats: the portable kernel decodes there.
    let machine = Machine::with(&AMD);
    machine.suite(&points);
    let said = say(&mut machine.fizeau("gfx=gfx90a", &["list", "--suite", "own.toml"]));
    assert!(said.out.contains("portable") && !said.out.contains("mfma"), "{}", said.out);
}

#[test]
fn each_fault_of_the_vendors_products_ends_in_its_outcome() {
    let of = |script: &str| {
        let machine = Machine::with(&AMD);
        let (said, record) = products(&machine, script, r#"["bf16"]"#);
        assert!(!said.err.contains("panicked"), "{script}: {}", said.err);
        (said.code, record.outcomes)
    };
    for (script, words) in [
        ("hipblasLtCreate=8", "hipblasLtCreate answered 8"),
        (
            "hipblasLtMatmulAlgoGetHeuristic=7",
            "hipblaslt does not offer this shape and element type",
        ),
        ("hipblasLtMatmul=7", "hipblaslt does not offer this shape and element type"),
        ("hipblasLtMatmulDescCreate=98765", "hipblasLtMatmulDescCreate answered 98765"),
    ] {
        let (code, outcomes) = of(script);
        let is_failure = script.ends_with("98765");
        assert_eq!(code, Some(i32::from(is_failure)), "{script}");
        assert_eq!(outcomes.len(), 2);
        for outcome in &outcomes {
            let said = match outcome {
                Outcome::Skipped { reason, .. } if !is_failure => reason,
                Outcome::Failed { failure: Failure::Launch, error, .. } if is_failure => error,
                other => panic!("{script}: {other:?}"),
            };
            assert!(said.contains(words), "{script}: {said}");
        }
    }
    // After the first product's algorithm was chosen, what it answers is a failure of the launch.
    let (code, outcomes) = of("hipblasLtMatmul=5@30");
    assert_eq!(code, Some(1));
    let failed = outcomes.iter().any(|outcome| {
        matches!(outcome, Outcome::Failed { failure: Failure::Launch, error, .. }
            if error.contains("hipblasLtMatmul answered 5"))
    });
    assert!(failed, "{outcomes:?}");
    let machine = Machine::with(&AMD);
    machine.without_symbol(PRODUCTS, "hipblasLtMatmulAlgoGetHeuristic");
    let (said, record) = products(&machine, "", r#"["bf16"]"#);
    assert_eq!(said.code, Some(0), "{}", said.err);
    for outcome in &record.outcomes {
        let Outcome::Skipped { reason, .. } = outcome else { panic!("{outcome:?}") };
        assert!(
            reason.contains("hipblasLtMatmulAlgoGetHeuristic in libhipblaslt.so.1"),
            "{reason}"
        );
    }
}

#[test]
fn a_machine_without_a_device_or_a_library_is_told_what_to_do() {
    for (script, words) in [
        ("hipInit=100", "AMD GPU not found: check rocminfo"),
        ("hipRuntimeGetVersion=101", "AMD GPU not found: check rocminfo"),
        ("devices=0", "AMD GPU not found: check rocminfo"),
    ] {
        let machine = Machine::with(&AMD);
        let said = say(&mut machine.fizeau(script, &["devices"]));
        assert_eq!(said.code, Some(0), "{script}: {}", said.err);
        assert!(said.out.contains(words), "{script}: {}", said.out);
    }
    let machine = Machine::with(&[]);
    // What belongs to an absent driver is one line; all that is known of it is in the JSON.
    let told = say(&mut machine.fizeau("", &["doctor"]));
    assert!(told.out.contains("hipBLASLt") && told.out.contains("/dev/kfd"), "{}", told.out);
    let doctor = say(&mut machine.fizeau("", &["doctor", "--json"]));
    for words in [
        "libamdhip64.so.6",
        "hip-runtime-amd",
        "libamdhip64-5",
        "/dev/kfd",
        "HIP kernels",
        "libhipblaslt.so.1 or libhipblaslt.so.0 not found",
        "AMD's package hipblaslt",
    ] {
        assert!(doctor.out.contains(words), "{words}: {}", doctor.out);
    }
}

#[test]
fn without_hiprtc_kernels_without_binaries_are_skipped_with_the_mend() {
    // A runtime of ROCm 7 has no compiler in it.
    let machine = Machine::with(&["libamdhip64.so.7"]);
    let (said, record) = machine.run("hipModuleLoadData=209");
    assert_eq!(said.code, Some(0), "{}", said.err);
    for outcome in &record.outcomes {
        let Outcome::Skipped { case, reason } = outcome else { panic!("{outcome:?}") };
        let remedy = match case.kernel.0.as_str() {
            "hipblaslt" => "install hipBLASLt (AMD's package hipblaslt)",
            _ => "install hipRTC",
        };
        assert!(is_unfit(outcome) || reason.contains(remedy), "{reason}");
    }
}

#[test]
fn what_hides_devices_is_told() {
    let machine = Machine::with(&AMD);
    let said = say(&mut machine.fizeau("devices=2", &["devices"]));
    assert!(said.out.contains("x stub GPU (hip:0-1)"), "{}", said.out);
    let args = ["run", "--suite", "stub.toml", "--out", "out", "latency/4KiB/*"];
    say(machine.fizeau("devices=6", &args).env("HIP_VISIBLE_DEVICES", "3,5")).ended(0);
    let warnings = machine.place.record("out").header.environment.warnings;
    assert!(warnings.iter().any(|warning| warning.contains("=3,5")), "{warnings:?}");
}
