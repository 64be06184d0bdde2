//! Drivers that are installed and do not work: no run, plan or look at such a machine passes for
//! one of a machine without GPUs.

use super::machine::{AMD, Machine, NVIDIA};
use crate::program::{Said, say};
use fizeau_record::Record;
use std::{fs, process::Stdio};

/// Verbs that choose a device by themselves, or look at all of them.
const VERBS: [&[&str]; 4] = [
    &["run", "--suite", "stub.toml", "--out", "out", "latency/4KiB/*"],
    &["list", "--suite", "stub.toml", "latency/4KiB/*"],
    &["devices"],
    &["doctor"],
];

/// What breaks a driver: the libraries of the machine, the stub's script, the driver's words, and
/// what is to be done.
const BROKEN: [(&[&str], &str, [&str; 2]); 9] = [
    (&NVIDIA, "cuInit=999", ["cuInit: unknown error", "nvidia-smi"]),
    (&NVIDIA, "cuInit=802", ["fabric manager", "start nvidia-fabricmanager"]),
    (&NVIDIA, "cuInit=803", ["different versions", "reload the nvidia kernel modules"]),
    (&NVIDIA, "cuInit=123456", ["123456, which this version of fizeau does not know", "dmesg"]),
    (&NVIDIA, "driver=11040", ["it is for CUDA 11.4", "install driver 525"]),
    (&NVIDIA, "cuDeviceGetCount=3", ["cuDeviceGetCount: driver not initialised", "dmesg"]),
    (&NVIDIA, "cuDeviceGet=999", ["cuDeviceGet: unknown error", ""]),
    (&AMD, "hipInit=999", ["hipInit: ", "dmesg"]),
    (&AMD, "hip=40500000", ["its HIP is 4.5", "ROCm 6"]),
];

fn said(machine: &Machine, script: &str, args: &[&str]) -> Said {
    let _ = fs::remove_dir_all(machine.place.path("out"));
    say(&mut machine.fizeau(script, args))
}

/// The lines of a text as one, since windows break them anywhere.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_driver_that_does_not_work_is_exit_code_3_of_every_verb() {
    for (libraries, script, words) in BROKEN {
        let machine = Machine::with(libraries);
        for args in VERBS {
            let said = said(&machine, script, args);
            let all = one_line(&format!("{} {}", said.out, said.err));
            assert_eq!(said.code, Some(3), "{script} {args:?}: {all}");
            // Numbers in brackets are the driver's codes, and stay in what a stub says.
            for words in words {
                assert!(all.contains(words), "{script} {args:?}: {words}: {all}");
            }
            let measures = ["run", "list"].contains(&args[0]);
            assert_eq!(measures, all.contains("--device host"), "{script} {args:?}: {all}");
            assert!(!machine.place.path("out").exists(), "{script} {args:?}: a run was begun");
        }
        let doctor = said(&machine, script, &["doctor"]);
        let driver = if libraries == NVIDIA { "NVIDIA driver" } else { "AMD driver" };
        let line = format!("FAIL    {driver}");
        assert!(doctor.out.lines().any(|found| found.starts_with(&line)), "{}", doctor.out);
    }
}

/// After an update of the driver without a restart, NVML says 18 and CUDA 803.
#[test]
fn libraries_of_another_version_than_the_kernel_modules_have_one_remedy() {
    let machine = Machine::with(&NVIDIA);
    let doctor = one_line(&said(&machine, "nvmlInit_v2=18", &["doctor"]).out);
    for words in ["NVML error 18", "reload the nvidia kernel modules"] {
        assert!(doctor.contains(words), "{words}: {doctor}");
    }
    assert!(!doctor.contains("check nvidia-smi, which"), "{doctor}");
    // Without NVML nothing is known of errors of memory and links: no acceptance passes so.
    fs::create_dir(machine.place.path("root")).expect("made");
    let args = ["accept", "--root", "root", "--level", "passive"];
    let told = said(&machine, "nvmlInit_v2=18", &args);
    let all = one_line(&format!("{} {}", told.out, told.err));
    assert_eq!(told.code, Some(4), "{all}");
    assert!(all.contains("GPU sensors: NVML does not work"), "{all}");
    let told = said(&machine, "cuInit=803", &args);
    let all = one_line(&format!("{} {}", told.out, told.err));
    assert_eq!(told.code, Some(1), "{all}");
    assert!(all.contains("GPU driver: the NVIDIA driver does not work"), "{all}");
}

/// A driver that works and shows no GPU, which may be hidden, is a line of its own in an
/// acceptance, and not only checks of the host. Where the PCI bus has no such GPU it is no
/// question: a library on a machine without one never leaves an acceptance undecided.
#[test]
fn accept_says_that_a_driver_shows_no_gpu() {
    for (libraries, script, what, remedy) in [
        (&NVIDIA[..], "cuInit=100", "NVIDIA", "CUDA_VISIBLE_DEVICES"),
        (&NVIDIA, "devices=0", "NVIDIA", "CUDA_VISIBLE_DEVICES"),
        (&AMD, "devices=0", "AMD", "rocminfo"),
        (&AMD, "hipInit=100", "AMD", "rocminfo"),
    ] {
        let machine = Machine::with(libraries);
        fs::create_dir(machine.place.path("root")).expect("made");
        let args = ["accept", "--root", "root", "--level", "passive"];
        let told = said(&machine, script, &args);
        let all = one_line(&format!("{} {}", told.out, told.err));
        let note = format!("a driver of {what} is installed, and the PCI bus has no such GPU");
        assert!(all.contains(&note) && all.contains("0 inconclusive"), "{script}: {all}");
        let mut command = machine.fizeau(script, &args);
        let told = say(command.env("CUDA_VISIBLE_DEVICES", "").env("HIP_VISIBLE_DEVICES", ""));
        let all = one_line(&format!("{} {}", told.out, told.err));
        assert_eq!(told.code, Some(4), "{script}: {all}");
        let named = "a driver is installed and shows no ";
        assert!(all.contains(named) && all.contains(what), "{script}: {all}");
        assert!(all.contains(remedy), "{script}: {all}");
        let doctor = said(&machine, script, &["doctor"]);
        let line = format!("{what} driver");
        let found = doctor.out.lines().find(|found| found.contains(&line)).unwrap_or_default();
        assert!(found.starts_with("WARN"), "{script}: {}", doctor.out);
        assert!(found.contains(&format!("shows no {what} GPU")), "{script}: {found}");
    }
}

#[test]
fn a_driver_that_cannot_be_loaded_is_told_with_the_loaders_reason() {
    for (file, driver) in [("libcuda.so.1", "NVIDIA driver"), ("libamdhip64.so.6", "AMD driver")] {
        let machine = Machine::with(&[]);
        fs::write(machine.lib().join(file), "cut").expect("written");
        for args in VERBS {
            let said = said(&machine, "", args);
            let all = one_line(&format!("{} {}", said.out, said.err));
            assert_eq!(said.code, Some(3), "{file} {args:?}: {all}");
            let (named, why) = (format!("{file} does not work"), "file too short");
            assert!(all.contains(&named) && all.contains(why), "{file} {args:?}: {all}");
        }
        let doctor = said(&machine, "", &["doctor"]);
        assert!(doctor.out.contains(&format!("FAIL    {driver}")), "{}", doctor.out);
    }
}

/// What refuses a GPU that the driver lists, and the driver's words.
const UNOPENED: [(&[&str], &str, &str); 6] = [
    (&NVIDIA, "cuDevicePrimaryCtxRetain=46", "cuDevicePrimaryCtxRetain: device busy"),
    (&NVIDIA, "cuDevicePrimaryCtxRetain=2", "cannot allocate memory: cuDevicePrimaryCtxRetain"),
    (&NVIDIA, "cuCtxSetCurrent=201", "cuCtxSetCurrent: invalid context"),
    (&NVIDIA, "cuStreamCreate=1", "cuStreamCreate: invalid value"),
    (&NVIDIA, "cuEventCreate=1", "cuEventCreate: invalid value"),
    (&AMD, "hipDevicePrimaryCtxRetain=2", "cannot allocate memory: hipDevicePrimaryCtxRetain"),
];

#[test]
fn a_gpu_that_cannot_be_opened_is_told_by_doctor_too() {
    for (at, (libraries, script, words)) in UNOPENED.into_iter().enumerate() {
        let machine = Machine::with(libraries);
        // What other verbs say of it does not depend on which call refuses.
        let verbs = if at == 0 { &VERBS[..] } else { &VERBS[3..] };
        for args in verbs {
            let said = said(&machine, script, args);
            let all = one_line(&format!("{} {}", said.out, said.err));
            assert_eq!(said.code, Some(3), "{script} {args:?}: {all}");
            assert!(all.contains(words), "{script} {args:?}: {all}");
        }
        let doctor = said(&machine, script, &["doctor"]).out;
        let named =
            if libraries == NVIDIA { "FAIL    cuda:0 opens" } else { "FAIL    hip:0 opens" };
        assert!(doctor.lines().any(|line| line.starts_with(named)), "{script}: {doctor}");
        assert!(doctor.contains("see which processes hold it"), "{script}: {doctor}");
    }
    let doctor = said(&Machine::with(&NVIDIA), "devices=2", &["doctor"]).out;
    for name in ["cuda:0", "cuda:1"] {
        let line = format!("OK      {name} opens");
        assert!(
            doctor.lines().any(|one| one.starts_with(&line) && one.ends_with("stub")),
            "{doctor}"
        );
    }
}

/// A reader that went away before the program wrote to it.
fn nobody() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

#[test]
fn what_is_broken_does_not_depend_on_who_reads_it() {
    let machine = Machine::with(&NVIDIA);
    for args in VERBS {
        let said = say(machine.fizeau("cuInit=999", args).stdout(nobody()));
        assert_eq!(said.code, Some(3), "{args:?}: {}", said.err);
    }
}

/// A run on the host that was asked for.
fn on_host(machine: &Machine, script: &str) -> (Said, Record) {
    let args = ["run", "--device", "host", "--suite", "stub.toml", "--out", "out"];
    let said = said(machine, script, &[&args[..], &["latency/4KiB/*"]].concat());
    (said, machine.place.record("out"))
}

#[test]
fn a_run_on_the_host_that_is_asked_for_says_why_no_gpu_was_measured() {
    let machine = Machine::with(&NVIDIA);
    let (said, record) = on_host(&machine, "cuInit=802");
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    let warnings = &record.header.environment.warnings;
    let told = |words: &str| warnings.iter().any(|warning| warning.contains(words));
    assert!(told("no GPU was measured: the NVIDIA driver does not work"), "{warnings:?}");
    assert!(told("fabric manager"), "{warnings:?}");
    assert!(one_line(&said.out).contains("no GPU was measured"), "{}", said.out);
    let (_, record) = on_host(&machine, "");
    let warnings = record.header.environment.warnings;
    assert!(!warnings.iter().any(|warning| warning.contains("GPU")), "{warnings:?}");
}

#[test]
fn without_a_driver_or_a_gpu_the_host_is_measured_and_one_line_says_so() {
    let list = ["list", "--suite", "stub.toml", "latency/4KiB/*"];
    let run = ["run", "--suite", "stub.toml", "--out", "out", "latency/4KiB/*"];
    for (libraries, script, words) in [
        (&[][..], "", "no driver of a GPU is installed"),
        (&NVIDIA, "cuInit=100", "the driver shows no NVIDIA GPU"),
        (&NVIDIA, "devices=0", "the driver shows no NVIDIA GPU"),
        (&AMD, "hipInit=100", "the driver shows no AMD GPU"),
        (&AMD, "devices=0", "the driver shows no AMD GPU"),
    ] {
        let machine = Machine::with(libraries);
        for args in [&list[..], &run] {
            let said = said(&machine, script, args);
            assert_eq!(said.code, Some(0), "{script} {args:?}: {}", said.err);
            assert_eq!(said.err.lines().count(), 1, "{script}: {}", said.err);
            let what = if args[0] == "run" { "the host is measured: " } else { "for the host: " };
            assert!(said.err.contains(what), "{script}: {}", said.err);
            assert!(said.err.contains(words), "{script}: {}", said.err);
        }
        let record = machine.place.record("out");
        assert_eq!(record.header.device.backend, "host");
        let warnings = record.header.environment.warnings;
        let shows = warnings.iter().any(|warning| warning.contains("a driver is installed and"));
        assert_eq!(shows, !libraries.is_empty(), "{warnings:?}");
        assert_eq!(said(&machine, script, &["devices"]).code, Some(0), "{script}");
        let doctor = said(&machine, script, &["doctor"]);
        assert_ne!(doctor.code, Some(3), "{script}: {}", doctor.out);
    }
}

#[test]
fn doctor_says_how_good_each_finding_is_and_its_exit_code_is_that_of_the_worst() {
    let machine = Machine::with(&[]);
    let doctor = said(&machine, "", &["doctor"]);
    let state = |line: &str| line.split("  ").next().unwrap_or_default().to_owned();
    // The counts and an empty line stand before them.
    let findings = doctor.out.lines().skip(2).take_while(|line| !line.is_empty());
    let findings: Vec<&str> = findings.collect();
    for line in &findings {
        let known = ["OK", "WARN", "FAIL", "absent", ""].contains(&state(line).as_str());
        assert!(known, "{line}");
    }
    let fails = findings.iter().any(|line| state(line) == "FAIL");
    assert_eq!(doctor.code, Some(i32::from(fails)), "{}", doctor.out);
    assert!(findings.iter().any(|line| line.starts_with("absent  NVIDIA driver")));
    let json = said(&machine, "", &["doctor", "--json"]).json();
    let states = json.as_array().expect("findings").iter().map(|one| &one["state"]);
    assert!(states.clone().any(|state| state == "absent") && states.count() > 10, "{json}");
    // A compiler that is there and cannot be loaded spoils nothing, and is not absent.
    let machine = Machine::with(&["libcuda.so.1"]);
    fs::write(machine.lib().join("libnvrtc.so.13"), "cut").expect("written");
    let doctor = said(&machine, "", &["doctor"]);
    let nvrtc = doctor.out.lines().find(|line| line.contains("  NVRTC  ")).expect("a line");
    assert!(nvrtc.contains("file too short"), "{nvrtc}");
}
