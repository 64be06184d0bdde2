//! A machine whose drivers are stubs, in a directory that goes away.

use crate::{
    program::{self, Place, Said, say},
    skipped, stub_cache,
};
use fizeau_domain::outcome::Outcome;
use fizeau_record::Record;
use std::{collections::BTreeSet, fs, os::unix::fs::symlink, path::PathBuf, process::Command};

/// What an NVIDIA driver, a toolkit and cuBLASLt bring.
pub const NVIDIA: [&str; 4] =
    ["libcuda.so.1", "libnvidia-ml.so.1", "libnvrtc.so.13", "libcublasLt.so.13"];

/// What ROCm brings.
pub const AMD: [&str; 3] = ["libamdhip64.so.6", "libhiprtc.so.6", "libhipblaslt.so.0"];

/// Few, small and of every operation but one.
pub const FEW: [&str; 5] =
    ["stream/*/512KiB/*", "latency/4KiB/*", "gemm/*", "grouped/*", "attention/*"];

/// The other one, whose work grows with the units: on one it takes a second.
pub const PEAKS: &str = "compute/*";

/// How long the suites of one test measure.
const MEASURE: &str = r#"
name = "own"
description = "What one test measures"

[measure]
samples_min = 10
samples_max = 12
noise_max = 0.01
time_min = 0.0
time_max = 0.005
warmup_max = 0.001
sample_min = 0.0001
deadline = 20.0
"#;

/// Copies of memory and of caches, for suites that look for a slow memory.
pub const COPIES: &str = include_str!("node/copies.toml");

/// A directory with the suite `stub.toml`, and in `lib` the libraries that drivers would bring.
pub struct Machine {
    pub place: Place,
}

/// Where cargo leaves the stub: beside this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    let library = test.with_file_name("libfizeau_stub_driver.so");
    assert!(library.exists(), "{} is not built", library.display());
    library
}

impl Machine {
    /// With these libraries.
    pub fn with(libraries: &[&str]) -> Machine {
        let machine = Machine { place: Place::new() };
        fs::create_dir(machine.lib()).expect("a folder");
        for name in libraries {
            symlink(library(), machine.lib().join(name)).expect("a link");
        }
        let suite = include_str!("suite.toml");
        fs::write(machine.place.path("stub.toml"), suite).expect("the suite is written");
        machine
    }

    pub fn lib(&self) -> PathBuf {
        self.place.path("lib")
    }

    /// The program with arguments, on a driver with a script.
    pub fn fizeau(&self, script: &str, args: &[&str]) -> Command {
        let mut command = self.place.fizeau(args);
        command.env("FIZEAU_LIBRARY_PATH", self.lib()).env("FIZEAU_STUB", script);
        command.env("FIZEAU_STUB_LOG", self.place.path("log"));
        command.env("FIZEAU_STUB_CACHE", stub_cache::folder());
        command.env("XDG_CACHE_HOME", self.place.path("cache"));
        for variable in ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"] {
            command.env_remove(variable);
        }
        command
    }

    /// A run of a few cases.
    pub fn run(&self, script: &str) -> (Said, Record) {
        self.run_of(script, &FEW)
    }

    /// A run of some.
    pub fn run_of(&self, script: &str, cases: &[&str]) -> (Said, Record) {
        let args = ["run", "--full", "--suite", "stub.toml", "--out", "out"];
        let said = say(self.fizeau(script, &args).args(cases));
        (said, self.place.record("out"))
    }

    /// Puts operations into a suite of their own, `own.toml`.
    pub fn suite(&self, operations: &str) {
        let text = format!("{MEASURE}{operations}");
        fs::write(self.place.path("own.toml"), text).expect("the suite is written");
    }

    /// A run of that suite in which nothing fails: each case's id, measured or why not.
    pub fn run_own(&self, script: &str, cases: &[&str]) -> Vec<Ended> {
        let args = ["run", "--full", "--suite", "own.toml", "--out", "out"];
        say(self.fizeau(script, &args).args(cases)).clean();
        let ended = |outcome: &Outcome| match outcome {
            Outcome::Measured(_) => Ok(()),
            Outcome::Skipped { reason, .. } => Err(reason.clone()),
            other => panic!("{other:?}"),
        };
        let outcomes = self.place.record("out").outcomes;
        outcomes.iter().map(|one| (one.case().to_string(), ended(one))).collect()
    }

    /// A copy of the stub, which knows by its name what it is: of a link to it the loader takes a
    /// second one for the first.
    pub fn copy_of_the_stub(&self, file: &str) {
        fs::copy(library(), self.lib().join(file)).expect("the copy");
    }

    /// A copy of the stub in which a symbol has another name takes a library's place.
    pub fn without_symbol(&self, file: &str, symbol: &str) {
        let mut bytes = fs::read(library()).expect("the stub");
        let name = [&[0], symbol.as_bytes(), &[0]].concat();
        let windows = bytes.windows(name.len()).enumerate();
        let places: Vec<usize> =
            windows.filter(|(_, window)| *window == name).map(|(at, _)| at + 1).collect();
        assert!(!places.is_empty(), "the stub has no {symbol}");
        places.iter().for_each(|&at| bytes[at] = b'_');
        let path = self.lib().join(file);
        fs::remove_file(&path).expect("the link");
        fs::write(path, bytes).expect("the copy");
    }

    /// The lines that the driver wrote down.
    pub fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.place.path("log")).expect("a log");
        text.lines().map(str::to_owned).collect()
    }
}

/// A launch as the driver wrote it down: its shape, and the bytes of its parameters.
pub struct Launch {
    pub shape: String,
    pub params: Vec<u8>,
}

impl Launch {
    /// Fails unless the shape is this one.
    #[track_caller]
    pub fn is(&self, shape: &str) -> &Launch {
        assert!(self.shape.starts_with(shape), "{}", self.shape);
        self
    }

    pub fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.params[at..at + 4].try_into().expect("4 bytes"))
    }

    pub fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.params[at..at + 8].try_into().expect("8 bytes"))
    }
}

/// The launches of an entry, one at least, in a log.
#[track_caller]
pub fn launches(log: &[String], entry: &str) -> Vec<Launch> {
    let start = format!("launch {entry} ");
    let launch = |line: &str| {
        let (shape, digits) = line.split_once(" params=").expect("parameters");
        let pairs = (0..digits.len() / 2).map(|at| &digits[2 * at..2 * at + 2]);
        let params = pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal")).collect();
        Launch { shape: format!("{shape} "), params }
    };
    let all: Vec<Launch> =
        log.iter().filter_map(|line| line.strip_prefix(&start)).map(launch).collect();
    assert!(!all.is_empty(), "{entry} is not launched: {log:#?}");
    all
}

/// The operations that a record plans.
pub fn operations(record: &Record) -> BTreeSet<String> {
    let operation = |id: &String| id.split('/').next().unwrap_or_default().to_owned();
    program::planned(record).iter().map(operation).collect()
}

/// The streams that copies of 1,048,584 bytes were on.
pub fn streams(log: &[String]) -> BTreeSet<&str> {
    let copies = log.iter().filter(|line| line.starts_with("copy bytes=1048584 "));
    copies.filter_map(|line| line.split_once("stream=")).map(|(_, stream)| stream).collect()
}

/// A case's id, and what became of it: measured, or why not.
pub type Ended = (String, Result<(), String>);

/// A report of a stub says `stub` wherever a number would stand: no word of it is a number but
/// those of paths, ids and names.
#[track_caller]
pub fn assert_shows_no_number(text: &str) {
    assert!(text.contains("stub"), "{text}");
    let is_number = |word: &&str| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        word.starts_with(|c: char| c.is_ascii_digit())
    };
    // Titles of columns, and how many are left out of a narrow window, are the page's own.
    let text = text.replace("95% from", "from");
    let lines = text.lines().filter(|line| !line.contains("more columns in a wider window"));
    let numbers: Vec<&str> = lines.flat_map(str::split_whitespace).filter(is_number).collect();
    assert_eq!(numbers, Vec::<&str>::new(), "{text}");
}

/// A run by a script compiles kernels with an option; the next one takes what was kept.
#[track_caller]
pub fn assert_compiled_once(libraries: &[&str], script: &str, option: &str) {
    let machine = Machine::with(libraries);
    machine.run(script);
    let compiled = |log: &[String]| log.iter().filter(|line| line.starts_with("options ")).count();
    let log = machine.log();
    if compiled(&log) == 0 {
        return skipped::because(
            "kernels",
            "this build has binaries of its kernels, and compiles none",
        );
    }
    let options = log.iter().find(|line| line.starts_with("options stream/portable.cu"));
    let options = options.expect("streams are compiled");
    assert!(options.contains(option), "{options}");
    let headers = log.iter().find(|line| line.starts_with("compile stream/portable.cu"));
    assert!(headers.expect("with headers").contains("\"params.h\""));
    fs::remove_file(machine.place.path("log")).expect("a log");
    fs::remove_dir_all(machine.place.path("out")).expect("a record");
    machine.run(script);
    assert_eq!(compiled(&machine.log()), 0, "the cache was not used");
}
