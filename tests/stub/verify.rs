//! The suite `gpu-verify` on stub drivers, which run each kernel's own text: every row of the lists
//! of kernels, with the program's own parameters, tensor maps, grids and clusters; and a fault that
//! is planted in a kernel's text is what `fizeau run` finds.

use super::machine::{AMD, Machine, NVIDIA};
use crate::program::say;
use fizeau_domain::{
    outcome::{Failure, Outcome},
    spec::Tier,
};
use fizeau_record::Record;
use fizeau_stub_driver::EXCEPTIONS;
use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::fs::symlink,
    sync::Mutex,
    thread,
};

/// A device that the stub can be, and which cases of the suite are run on it.
struct Device {
    libraries: &'static [&'static str],
    script: &'static str,
    cases: &'static [&'static str],
}

/// What runs on every device, where no generation has its own. Two units: a peak's work is counted
/// by unit.
const PLAIN: &[&str] = &[
    "compute/*",
    "instruction/*",
    "stream/*/128MiB/2u/*",
    "stream/*/64KiB/1u/*",
    "latency/4KiB/*",
    "access/*/{2MiB,4MiB}/*",
    "access/*/128MiB/{16B,4KiB}/*",
    "transfer/*/4104B/*/sm",
    "launch/*",
    "sdc/*",
    "gemm/*",
    "grouped/*",
    "attention/*",
    "fused/*",
    "recurrence/*",
    "sparse/*",
];

/// Every kind of device. What a generation has from an older one is run there: the text, the number
/// of lanes and all that the model knows of a device are the same.
const DEVICES: [Device; 11] = [
    nvidia("units=2,capability=80", PLAIN),
    nvidia("units=2,capability=89", &["*/sm89*", "attention/mla/*/sm80_mma_32"]),
    nvidia(
        "units=2,capability=90",
        &["*/sm90*", "*/sm89_mma_64", "attention/mla/fp8/*/sm89_mma", "latency/2MiB-*/*"],
    ),
    nvidia("units=2,capability=100", &["*/sm100*"]),
    nvidia("units=2,capability=120", &["*/sm120*"]),
    amd("units=2,gfx=gfx90a", PLAIN),
    amd("units=2,gfx=gfx942", &["*/cdna3*"]),
    amd("units=2,gfx=gfx950", &["*/cdna4*"]),
    amd(
        "units=2,gfx=gfx1100",
        &["*/rdna3*", "gemm/*/131x*/portable", "attention/*-k130-*/portable", "launch/*"],
    ),
    amd("units=2,gfx=gfx1201", &["*/rdna4*"]),
    amd("units=2,gfx=gfx1250", &["*/cdna5*"]),
];

const fn nvidia(script: &'static str, cases: &'static [&'static str]) -> Device {
    Device { libraries: &NVIDIA, script, cases }
}

const fn amd(script: &'static str, cases: &'static [&'static str]) -> Device {
    Device { libraries: &AMD, script, cases }
}

/// Few of each kind: what every change is held against.
const PART: [Device; 4] = [
    nvidia(
        "units=2,capability=90",
        &[
            "gemm/{bf16,fp8}/131x*/sm90*",
            "attention/prefill/bf16/*q130*d128x128*/sm90*",
            "attention/decode/bf16/*d128x128*page16/sm90*",
        ],
    ),
    nvidia("units=2,capability=100", &["gemm/{bf16,nvfp4}/131x*/sm100*"]),
    amd("units=2,gfx=gfx942", &["gemm/fp8/131x*/cdna3*"]),
    amd("units=2,gfx=gfx1100", &["gemm/bf16/131x*/rdna3*"]),
];

/// A row of a list.
#[derive(serde::Deserialize)]
struct Row {
    operation: String,
    name: String,
    entry: String,
}

#[derive(serde::Deserialize)]
struct File {
    path: String,
    kernels: Vec<Row>,
}

#[derive(serde::Deserialize)]
struct List {
    file: Vec<File>,
}

fn list(text: &str) -> Vec<File> {
    toml::from_str::<List>(text).expect("a list of kernels").file
}

impl Row {
    /// Whether a case measures it.
    fn is_of(&self, case: &str) -> bool {
        let of_case: Vec<&str> = case.split('/').collect();
        let mut words: Vec<&str> = self.operation.split('/').collect();
        let dims = words.pop_if(|last| last.starts_with(|c: char| c.is_ascii_digit()));
        // Copies and chases are told by their ends and sizes, and have one kernel.
        let is_named = ["transfer", "latency"].contains(&words[0]);
        let has_words = is_named || words.iter().all(|word| of_case.contains(word));
        let has_dims = dims.is_none_or(|dims| case.contains(&format!("-d{dims}-")));
        let is_own = of_case.first() == words.first();
        is_own && of_case.last() == Some(&self.name.as_str()) && has_words && has_dims
    }
}

/// What a device's run came to: cases that were verified, entries that were launched.
#[derive(Default)]
struct Ran {
    cases: Vec<String>,
    entries: BTreeSet<String>,
}

/// Runs a device's cases; nothing may fail.
fn run(device: &Device) -> Ran {
    let machine = Machine::with(device.libraries);
    let args = ["run", "--suite", "gpu-verify", "--out", "out"];
    let said = say(machine.fizeau(device.script, &args).args(device.cases));
    let log = machine.log();
    assert!(matches!(said.code, Some(0 | 1)), "{}: {} {log:#?}", device.script, said.err);
    let record = machine.place.record("out");
    let faults: Vec<&String> = log.iter().filter(|line| line.starts_with("fault")).collect();
    for outcome in &record.outcomes {
        let is_right = matches!(outcome, Outcome::Measured(_) | Outcome::Skipped { .. });
        assert!(is_right, "{}: {outcome:?} {faults:?}", device.script);
    }
    explained(&machine, device.script, &record);
    let cases = record.outcomes.iter().filter_map(Outcome::measured);
    Ran { cases: cases.map(|one| one.case.to_string()).collect(), entries: launched(&log) }
}

/// That `explain` names the limit that the record's share is of, for a case of each operation.
fn explained(machine: &Machine, script: &str, record: &Record) {
    let mut seen = BTreeSet::new();
    for one in record.outcomes.iter().filter_map(Outcome::measured) {
        let id = one.case.to_string();
        let operation: Vec<&str> = id.split('/').take(2).collect();
        if !seen.insert(operation.join("/")) {
            continue;
        }
        let said = say(&mut machine.fizeau(script, &["explain", &id, "--suite", "gpu-verify"]));
        assert_eq!(said.code, Some(0), "{id}: {}", said.err);
        let text = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
        let named = text
            .split_once("is of the limit of the ")
            .and_then(|(_, rest)| Some(rest.split_once(',')?.0));
        let of_share = one.tier.map(|tier| match tier {
            Tier::Datasheet => "datasheet",
            Tier::Observed => "observed clock",
            Tier::Algorithmic => "algorithm",
            Tier::Ceiling => "own best",
        });
        assert_eq!(named, of_share, "{script} {id}: {text}");
    }
}

/// The entries that a driver was asked to launch.
fn launched(log: &[String]) -> BTreeSet<String> {
    let launches = log.iter().filter_map(|line| line.strip_prefix("launch "));
    launches.filter_map(|line| Some(line.split_once(' ')?.0.to_owned())).collect()
}

#[test]
fn kernels_of_each_kind_run_whole() {
    for device in PART {
        let ran = run(&device);
        println!("{}: {} cases verified", device.script, ran.cases.len());
        assert!(ran.cases.len() >= device.cases.len(), "{}: {:?}", device.script, ran.cases);
    }
}

/// Kernels that no case is named by: they fill, compare and hash what others leave.
fn is_beside(operation: &str) -> bool {
    ["util/", "sdc/"].iter().any(|family| operation.starts_with(family))
}

/// What ranks received is checked by kernels too, which nothing but a collective launches.
fn run_collectives(libraries: &[&str], library: &str) -> BTreeSet<String> {
    let machine = Machine::with(libraries);
    let test = std::env::current_exe().expect("a test knows where it is");
    let built = test.with_file_name("libfizeau_stub_nccl.so");
    symlink(built, machine.lib().join(library)).expect("a link");
    let text = r#"
[collective]
collectives = ["all_reduce", "all_to_all"]
dtypes = ["f64", "f32", "bf16", "f16", "fp8", "int8"]
granule = 1
from = "188"
to = "4KiB"
factor = 97
places = ["out_of_place"]
"#;
    machine.suite(text);
    let args = ["run", "collective", "--suite", "own.toml", "--out", "out", "--ranks", "2"];
    say(&mut machine.fizeau("devices=2", &args)).ended(0);
    launched(&machine.log())
}

/// Prints every row of both lists with a case of the suite by which its text was run and verified,
/// and which of them the stub driver does not run as they are launched. Fails where one was not
/// run.
#[test]
#[ignore = "minutes of CPU: scripts/check_kernels_run.sh"]
fn every_row_of_the_lists_runs_whole() {
    let done: Mutex<BTreeMap<usize, Ran>> = Mutex::default();
    thread::scope(|scope| {
        for (at, device) in DEVICES.iter().enumerate() {
            let done = &done;
            scope.spawn(move || done.lock().expect("no panic").insert(at, run(device)));
        }
    });
    let done = done.into_inner().expect("no panic");
    let mut rows = 0;
    let mut missing = Vec::new();
    let lists =
        [include_str!("../../kernels/kernels.toml"), include_str!("../../kernels/amd.toml")];
    for (text, (libraries, library)) in
        lists.into_iter().zip([(&NVIDIA[..], "libnccl.so.2"), (&AMD[..], "librccl.so.1")])
    {
        let ran = || {
            let of = |(at, ran): (&usize, _)| (&DEVICES[*at], ran);
            done.iter().map(of).filter(|(device, _)| device.libraries == libraries)
        };
        let collectives = run_collectives(libraries, library);
        for (path, row) in list(text)
            .iter()
            .flat_map(|file| file.kernels.iter().map(|row| (file.path.as_str(), row)))
        {
            rows += 1;
            let by_case = ran().find_map(|(device, ran)| {
                let case = ran.cases.iter().find(|case| row.is_of(case))?;
                ran.entries.contains(&row.entry).then(|| format!("{} {case}", device.script))
            });
            let is_launched = ran().any(|(_, ran)| ran.entries.contains(&row.entry));
            let words = match by_case {
                Some(case) => format!("{case} verified"),
                None if is_beside(&row.operation) && is_launched => "beside every case".into(),
                None if collectives.contains(&row.entry) => "collective/* verified".into(),
                None => {
                    missing.push(format!("{path}: {}", row.entry));
                    "never".into()
                }
            };
            let exception = EXCEPTIONS.iter().find(|(entry, _)| *entry == row.entry);
            let exception =
                exception.map_or(String::new(), |(_, why)| format!("; exception: {why}"));
            println!("{path} {} {words}{exception}", row.entry);
        }
    }
    let cases: usize = done.values().map(|ran| ran.cases.len()).sum();
    println!("{rows} rows, {cases} cases verified");
    assert!(missing.is_empty(), "never run: {missing:#?}");
}

/// A run of cases with one text in the place of another in the kernels that are compiled.
fn run_planted(device: &Device, find: &str, replace: &str) -> (Vec<String>, Record) {
    let machine = Machine::with(device.libraries);
    let script = [device.script, "text="].join(if device.script.is_empty() { "" } else { "," });
    let script = format!("{script}{find}=>{replace}");
    let args = ["run", "--suite", "stub.toml", "--out", "out"];
    let said = say(machine.fizeau(&script, &args).args(device.cases));
    let log = machine.log();
    assert!(log.iter().any(|line| line.starts_with("exchanged ")), "{find} stands nowhere");
    assert_eq!(said.code, Some(1), "{find}: {} {}", said.out, said.err);
    (log, machine.place.record("out"))
}

/// Cases of the stub's own suite and what is planted: faults that nothing but a result shows.
const PLANTED: [(Device, &str, &str); 5] = [
    // The factor stands with the wrong array.
    (
        nvidia("", &["stream/triad/512KiB/1u/portable"]),
        "return fused(scale, c, b);",
        "return fused(scale, b, c);",
    ),
    // Every step along k takes the first columns of A.
    (
        nvidia("", &["gemm/bf16/64x48x80/sm90_wgmma"]),
        "return {to + box * BOX_BYTES_A, step * Type<In>::DEPTH, row};",
        "return {to + box * BOX_BYTES_A, 0 * Type<In>::DEPTH, row};",
    ),
    // Of the sums of four blocks the last one's alone are left.
    (
        nvidia("capability=100", &["gemm/bf16/64x48x80/sm100_tcgen05_split4_64"]),
        "from == 0 ? got.at[e]",
        "from < 4 ? got.at[e]",
    ),
    // The mask lets each row see one key too many.
    (
        nvidia("", &["attention/prefill/bf16/*q19*/sm80_mma"]),
        "const u32 end = sequence.keys + query + 1;",
        "const u32 end = sequence.keys + query + 2;",
    ),
    // Each four rows take the place of the next four.
    (
        amd("gfx=gfx90a", &["gemm/bf16/64x48x80/cdna2_mfma"]),
        "return lane / 16 * 4 + sum;",
        "return (lane / 16 ^ 1) * 4 + sum;",
    ),
];

#[test]
fn a_fault_in_a_kernels_text_is_found_by_the_run() {
    for (device, find, replace) in PLANTED {
        let (log, record) = run_planted(&device, find, replace);
        assert_eq!(record.outcomes.len(), 1, "{find}: {:?}", record.outcomes);
        let Some(Outcome::Failed { failure: Failure::WrongResult, error, .. }) =
            record.outcomes.first()
        else {
            panic!("{find}: {:?} {log:#?}", record.outcomes)
        };
        println!("{}: {error}", record.outcomes[0].case());
    }
}

#[test]
fn a_kernel_that_waits_for_ever_or_reaches_beyond_its_memory_is_a_failed_launch() {
    let wait = nvidia("", &["gemm/bf16/64x48x80/sm90_wgmma"]);
    let reach = nvidia("", &["stream/read/512KiB/1u/cached"]);
    for (device, find, replace, words) in [
        (
            wait,
            "arrive_expecting(full, BYTES);",
            "arrive_expecting(full, BYTES + 16);",
            "threads wait for what never comes",
        ),
        (
            reach,
            "(partial)[8 * u64(block_index())] = sum;",
            "(partial)[8 * u64(block_index()) + 64] = sum;",
            "an access to 0x",
        ),
    ] {
        let (log, record) = run_planted(&device, find, replace);
        let is_told = |line: &String| line.starts_with("fault ") && line.contains(words);
        assert!(log.iter().any(is_told), "{find}: {log:#?}");
        let Some(Outcome::Failed { failure: Failure::Launch, error, .. }) = record.outcomes.first()
        else {
            panic!("{find}: {:?}", record.outcomes.first())
        };
        println!("{}: {error}", record.outcomes[0].case());
    }
}
