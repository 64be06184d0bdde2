//! The processes in which `fizeau accept` measures.

use super::{AcceptArgs, KERNELS_TRIED};
use crate::{
    accept::{Level, profile::Profile},
    clock,
    cmd::{self, Global, Interrupted, Usage, launch::LAUNCHER},
    record::{Record, store},
    units::Seconds,
};
use anyhow::{Context as _, bail};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
};

/// How often a child is asked whether it has ended.
const EVERY: Seconds = Seconds(0.02);

/// Longest message of a child that is shown, in bytes.
const SAID_MAX: u64 = 2_000;

/// What a device would measure.
pub struct Listed {
    /// The ids of the cases of the profile's checks.
    pub ids: Vec<String>,
    /// The plan for people.
    pub text: String,
    /// Whether a stub driver stands in for the device.
    pub is_stub: bool,
}

#[derive(Deserialize)]
struct Listing {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    estimated_seconds: f64,
    memory_bytes: u64,
}

fn command(
    verb: &str,
    device: &str,
    profile: &Profile,
    global: &Global,
) -> anyhow::Result<Command> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut command = Command::new(program);
    command.arg(verb).args(["--suite", &profile.suite, "--device", device]);
    if let Some(data) = &global.data {
        command.arg("--data").arg(data);
    }
    // It ends when this process does, however that ends.
    command.env(LAUNCHER, process::id().to_string());
    // One process of a launcher must not take itself for a rank of its world.
    for variable in ["RANK", "WORLD_SIZE", "LOCAL_RANK", "FIZEAU_RENDEZVOUS", "FIZEAU_TOKEN"] {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null());
    Ok(command)
}

/// A case's id without its kernel.
pub fn point_of(id: &str) -> &str {
    id.rsplit_once('/').map_or(id, |(point, _)| point)
}

/// What the profile's checks would measure on a device.
///
/// # Errors
/// Where the device cannot be opened, or plans no case of them.
pub fn list(
    device: &str,
    profile: &Profile,
    args: &AcceptArgs,
    global: &Global,
) -> anyhow::Result<Listed> {
    let mut command = command("list", device, profile, global)?;
    let output = command.arg("--json").output().context("cannot start a process to plan")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{device} cannot be measured: {}", said.trim());
    }
    let listing: Listing = serde_json::from_slice(&output.stdout).context("the plan's JSON")?;
    let level = Level::from(args.level);
    let checks = || profile.checks.iter().filter(|check| check.level <= level);
    let mut kernels: BTreeMap<&str, usize> = BTreeMap::new();
    // A device names its kernels best guess first.
    let mut is_tried = |id| {
        let count = kernels.entry(point_of(id)).or_default();
        *count += 1;
        *count <= KERNELS_TRIED
    };
    let chosen = listing.cases.iter().filter(|case| checks().any(|check| check.has(&case.id)));
    let cases: Vec<&Case> = chosen.filter(|case| is_tried(&case.id)).collect();
    if cases.is_empty() {
        let (suite, name) = (&profile.suite, &profile.name);
        let words =
            format!("suite {suite} plans no case of the checks of profile {name} on {device}");
        return Err(Usage(words).into());
    }
    let time: f64 = cases.iter().map(|case| case.estimated_seconds).sum();
    let memory = cases.iter().map(|case| case.memory_bytes).max().unwrap_or(0);
    let mut text: Vec<String> = cases.iter().map(|case| case.id.clone()).collect();
    let memory = memory as f64 / (1u64 << 20) as f64;
    text.push(format!("{} cases, about {time:.1} s, at most {memory:.0} MiB at once", cases.len()));
    let is_stub = crate::device::BACKENDS.iter().any(|backend| {
        let its = device.split(':').next() == Some(backend.name());
        its && backend.devices().is_ok_and(|all| all.iter().any(|one| one.is_stub()))
    });
    let ids = cases.iter().map(|case| case.id.clone()).collect();
    Ok(Listed { ids, text: text.join("\n"), is_stub })
}

/// A process that measures one repeat on one device.
pub struct Child {
    device: String,
    place: PathBuf,
    process: process::Child,
    said: PathBuf,
}

impl Child {
    /// Starts one.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start(
        device: &str,
        profile: &Profile,
        args: &AcceptArgs,
        global: &Global,
        ids: &[String],
        place: &Path,
    ) -> anyhow::Result<Child> {
        cmd::make_directory(place, "--out DIR")?;
        // A file and not a pipe: nobody reads while it runs, and a full pipe would stop it.
        let said = place.join("messages.txt");
        let messages = fs::File::create(&said).context("the file of messages")?;
        let mut command = command("run", device, profile, global)?;
        if args.no_host_name {
            command.arg("--no-host-name");
        }
        command.arg("--out").arg(place).arg("--").args(ids);
        command.stdout(Stdio::null()).stderr(messages);
        let process = command.spawn().context("cannot start a process to measure")?;
        Ok(Child { device: device.into(), place: place.into(), process, said })
    }

    /// Waits for its end; its record.
    ///
    /// # Errors
    /// Where it does not end in time, says that the device cannot be measured, or leaves no record;
    /// [`Interrupted`] where the user asked for an end.
    pub fn wait(mut self, most: Seconds, interrupted: &AtomicBool) -> anyhow::Result<Record> {
        let began = clock::now();
        let status = loop {
            if let Some(status) = self.process.try_wait().context("waiting for a process")? {
                break status;
            }
            if interrupted.load(Ordering::Relaxed) {
                self.kill();
                return Err(Interrupted.into());
            }
            if began.elapsed() > most {
                self.kill();
                bail!("{} did not end within {most}, and was ended", self.device);
            }
            clock::rest(EVERY);
        };
        let record = store::read(&self.place);
        self.keep_the_record_alone();
        match status.code() {
            // 1: a case failed, of which the record tells more.
            Some(0 | 1) => Ok(record?),
            Some(130) => Err(Interrupted.into()),
            code => {
                // What it measured before it ended badly counts no less.
                let code = code.map_or("a signal".into(), |code| format!("exit code {code}"));
                let said = self.messages();
                match record {
                    Ok(record) if !record.outcomes.is_empty() => Ok(record),
                    _ => bail!("{} cannot be measured ({code}): {said}", self.device),
                }
            }
        }
    }

    fn kill(&mut self) {
        // It may have ended meanwhile.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    fn messages(&self) -> String {
        let mut text = Vec::new();
        let file = fs::File::open(&self.said);
        let read = file.and_then(|file| file.take(SAID_MAX).read_to_end(&mut text));
        match read {
            Ok(_) => String::from_utf8_lossy(&text).trim().to_owned(),
            Err(_) => String::new(),
        }
    }

    /// Reports of many short runs would fill the disk; they can be made again from the record.
    fn keep_the_record_alone(&self) {
        let files = fs::read_dir(&self.place).into_iter().flatten().flatten();
        let kept = [store::FILE, "messages.txt"];
        for file in files.filter(|file| !kept.iter().any(|name| file.file_name() == *name)) {
            // What cannot be removed stays.
            let _ = fs::remove_file(file.path());
        }
    }
}
