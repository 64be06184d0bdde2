//! A process of this program that measures and leaves a record: new pages, new contexts, and a
//! record of its own.

use super::{disk, exit::Interrupted, global::Global, parent, signals};
use anyhow::{Context as _, bail};
use fizeau_device::clock;
use fizeau_domain::units::Seconds;
use fizeau_record::{Record, store};
use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
};

/// How often the process is asked whether it has ended.
pub const EVERY: Seconds = Seconds(0.02);

/// Longest message of the process that is shown, in bytes.
const SAID_MAX: u64 = 2_000;

/// The file of its messages, in its directory.
pub const MESSAGES: &str = "messages.txt";

/// What a process measures.
#[derive(Clone, Copy, Debug)]
pub struct Measuring<'a> {
    /// The suite: a name or a file.
    pub suite: &'a str,
    /// The device, as `fizeau devices` names it.
    pub device: &'a str,
    /// Ranks of collectives, where there are some.
    pub ranks: Option<u32>,
    /// Selectors; none: all cases.
    pub cases: &'a [String],
    /// A note that the record keeps.
    pub label: Option<&'a str>,
    /// Whether the record keeps the host's name.
    pub no_host_name: bool,
    /// Files of kernels that the user brings.
    pub kernels: &'a [PathBuf],
    /// Further arguments of `run`.
    pub more: &'a [&'a str],
}

impl Measuring<'_> {
    /// Measures into a directory; its record, reports left out.
    ///
    /// # Errors
    /// Where the process cannot be started or leaves no record; [`Interrupted`] where the user
    /// asked for an end.
    pub fn measure_into(
        &self,
        place: &Path,
        global: &Global,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<Record> {
        disk::make_directory(place, "--out DIR")?;
        // A file and not a pipe: nobody reads while it runs, and a full pipe would stop it.
        let said = place.join(MESSAGES);
        let file = fs::File::create(&said).context("the file of messages")?;
        let mut command = self.command(Some(place), global)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let mut child = command.spawn().context("cannot start a process to measure")?;
        let mut asked = false;
        let status = loop {
            if let Some(status) = child.try_wait().context("waiting for a process")? {
                break status;
            }
            if interrupted.load(Ordering::Relaxed) && !asked {
                signals::hand_on(&child);
                asked = true;
            }
            clock::rest(EVERY);
        };
        if interrupted.load(Ordering::Relaxed) {
            return Err(Interrupted.into());
        }
        match status.code() {
            // 1: a case failed, of which the record tells more.
            Some(0 | 1) => {
                keep_alone(place, &[store::FILE]);
                Ok(store::read(place)?)
            }
            Some(130) => Err(Interrupted.into()),
            code => {
                let code = code.map_or("a signal".into(), |code| format!("exit code {code}"));
                bail!("the process that measures ended with {code}: {}", messages(&said))
            }
        }
    }

    /// The command line of such a process; without a place it leaves no record.
    ///
    /// # Errors
    /// Where this program's own file is not found.
    pub(super) fn command(&self, place: Option<&Path>, global: &Global) -> anyhow::Result<Command> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(program);
        command.args(["run", "--suite", self.suite, "--device", self.device, "--progress", "off"]);
        if let Some(data) = &global.data {
            command.arg("--data").arg(data);
        }
        if let Some(ranks) = self.ranks {
            command.args(["--ranks", &ranks.to_string()]);
        }
        if let Some(label) = self.label {
            command.args(["--label", label]);
        }
        if self.no_host_name {
            command.arg("--no-host-name");
        }
        for kernel in self.kernels {
            command.arg("--kernel").arg(kernel);
        }
        if let Some(place) = place {
            command.arg("--out").arg(place);
        }
        command.args(self.more).arg("--").args(self.cases);
        // It ends when this process does, however that ends.
        command.env(parent::LAUNCHER, process::id().to_string());
        for variable in ["RANK", "WORLD_SIZE", "LOCAL_RANK", "FIZEAU_RENDEZVOUS", "FIZEAU_TOKEN"] {
            command.env_remove(variable);
        }
        Ok(command)
    }
}

/// What a process wrote into the file of its messages, at most [`SAID_MAX`] bytes; nothing where it
/// cannot be read.
pub fn messages(said: &Path) -> String {
    let mut text = Vec::new();
    let file = fs::File::open(said);
    match file.and_then(|file| file.take(SAID_MAX).read_to_end(&mut text)) {
        Ok(_) => String::from_utf8_lossy(&text).trim().to_owned(),
        Err(_) => String::new(),
    }
}

/// Removes all files of a run but those that are named. Reports of many short runs would fill the
/// disk; they can be made again from the record.
pub fn keep_alone(place: &Path, names: &[&str]) {
    let files = fs::read_dir(place).into_iter().flatten().flatten();
    for file in files.filter(|file| !names.iter().any(|name| file.file_name() == *name)) {
        // What cannot be removed stays.
        let _ = fs::remove_file(file.path());
    }
}
