//! The program itself on a fake device, in a directory that goes away.

use fizeau_record::{Record, store};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// Small working sets alone, so that a case takes milliseconds.
pub const SMALL: &str = "stream/*/{?,??,???}KiB/*";

const SUITE: &str = r#"
name = "tiny"
description = "Streams of a fake device"
"#;

/// How long suites of tests measure: enough for a number, and no more.
pub const MEASURE: &str = r#"
[measure]
samples_min = 10
samples_max = 30
noise_max = 0.01
time_min = 0.001
time_max = 0.005
warmup_max = 0.002
sample_min = 0.0002
deadline = 30.0
"#;

const STREAMS: &str = r#"
[stream]
memory = []
scaling = []
sweep = ["read", "write", "copy", "triad"]
sweep_units = ["one"]
sweep_points_per_octave = 4
"#;

/// A directory with the suite `tiny.toml` in it.
pub struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Place {
        let place = Place { directory: tempfile::tempdir().expect("a temporary directory") };
        let suite = format!("{SUITE}{MEASURE}{STREAMS}");
        fs::write(place.path("tiny.toml"), suite).expect("the suite is written");
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The program with arguments, in this directory, with no terminal about it.
    pub fn fizeau<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fizeau"));
        command.args(args).current_dir(self.directory.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env_remove("NO_COLOR").env_remove("FIZEAU_DATA");
        // What a run says at its end is all that tests read.
        command.env("FIZEAU_PROGRESS", "off");
        // No GPU of this machine is seen, whatever it has.
        command.env("FIZEAU_LIBRARY_PATH", self.directory.path());
        command.env_remove("CUDA_VISIBLE_DEVICES");
        command
    }

    /// A run of the suite on a fake device, into `out`.
    pub fn run(&self, script: &str, selector: &str, out: &str) -> Command {
        let backend = format!("fake:{script}");
        self.fizeau(["run", selector, "--suite", "tiny.toml", "--backend", &backend, "--out", out])
    }

    /// Going on with the run in `out`.
    pub fn resume(&self, out: &str) -> Command {
        self.fizeau(["run", "--backend", "fake:", "--resume", out])
    }

    pub fn record(&self, out: &str) -> Record {
        store::read(&self.path(out)).expect("the record can be read")
    }

    /// The lines of a record.
    pub fn text(&self, out: &str) -> String {
        fs::read_to_string(self.file(out)).expect("the record is there")
    }

    /// A file of JSON.
    #[track_caller]
    pub fn json(&self, name: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(self.path(name)).expect(name)).expect("JSON")
    }

    pub fn file(&self, out: &str) -> PathBuf {
        self.path(out).join(store::FILE)
    }
}

/// The same command, told to ignore no signal: whoever runs the tests may ignore some (nohup, a
/// shell in the background), which is handed down.
pub fn ignoring_nothing(run: &Command) -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP,INT").arg(run.get_program()).args(run.get_args());
    for (name, value) in run.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(run.get_current_dir().unwrap_or(Path::new(".")));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What the program said, and its exit code.
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Said {
    /// What it printed, which is JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        let read = serde_json::from_str(&self.out);
        read.unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err))
    }

    /// The same, of a program that ended with an exit code.
    #[track_caller]
    pub fn ended(self, code: i32) -> Said {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.err);
        self
    }

    /// The same, of a program that passed and had nothing to say on standard error.
    #[track_caller]
    pub fn clean(self) -> Said {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{}", self.out);
        self
    }
}

/// Runs a command to its end.
#[track_caller]
pub fn say(command: &mut Command) -> Said {
    said(command.output().expect("the program starts"))
}

pub fn said(output: Output) -> Said {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// The ids of a record's planned cases.
pub fn planned(record: &Record) -> BTreeSet<String> {
    record.header.plan.iter().map(ToString::to_string).collect()
}

/// The ids of a record's outcomes; there is none twice.
#[track_caller]
pub fn ended(record: &Record) -> BTreeSet<String> {
    let ids: BTreeSet<String> =
        record.outcomes.iter().map(|outcome| outcome.case().to_string()).collect();
    assert_eq!(ids.len(), record.outcomes.len(), "a case has two outcomes");
    ids
}
