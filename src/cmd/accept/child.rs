//! The processes in which `fizeau accept` measures.

use super::{AcceptArgs, KERNELS_TRIED, aside};
use crate::cmd::{
    child::{EVERY, MESSAGES, keep_alone, messages},
    disk,
    exit::Interrupted,
    global::Global,
    parent::LAUNCHER,
};
use anyhow::{Context as _, bail};
use fizeau_device::clock;
use fizeau_domain::{launcher, units::Seconds};
use fizeau_judge::accept::profile::{Profile, Stage, Way};
use fizeau_record::{Decided, Record, store};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
};

/// A device, or all of one backend as ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// As `--device` takes it.
    pub device: String,
    /// How many ranks; 0 of one device.
    pub ranks: usize,
}

/// What a device would measure in a stage.
#[derive(Default)]
pub struct Listed {
    /// The ids of the cases of the stage's checks.
    pub ids: Vec<String>,
    /// Their estimated time together.
    pub seconds: f64,
    /// The memory that the largest of them needs.
    pub memory: u64,
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
    target: &Target,
    stage: &Stage,
    root: &Path,
    global: &Global,
) -> anyhow::Result<Command> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut command = Command::new(program);
    command.arg(verb).args(["--suite", &stage.suite, "--device", &target.device]);
    if target.ranks > 0 {
        command.args(["--ranks", &target.ranks.to_string()]);
    }
    if let Some(data) = &global.data {
        command.arg("--data").arg(data);
    }
    if root != Path::new("/") {
        command.arg("--root").arg(root);
    }
    // It ends when this process does, however that ends.
    command.env(LAUNCHER, process::id().to_string());
    // One process of a launcher must not take itself for a rank of its world.
    for variable in launcher::variables().chain(["FIZEAU_RENDEZVOUS", "FIZEAU_TOKEN"]) {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null());
    Ok(command)
}

/// A case's id without its kernel.
pub fn point_of(id: &str) -> &str {
    id.rsplit_once('/').map_or(id, |(point, _)| point)
}

/// What a stage's checks would measure on a device: nothing where it has none of their cases.
///
/// # Errors
/// Where the device cannot be opened; [`Interrupted`] where the user wants an end.
pub fn list(
    target: &Target,
    profile: &Profile,
    stage: &Stage,
    root: &Path,
    global: &Global,
    interrupted: &AtomicBool,
) -> anyhow::Result<Listed> {
    let mut command = command("list", target, stage, root, global)?;
    command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().context("cannot start a process to plan")?;
    let output = aside::output_of(interrupted, child)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} cannot be measured: {}", target.device, said.trim());
    }
    let listing: Listing = serde_json::from_slice(&output.stdout).context("the plan's JSON")?;
    let has = |id: &str| stage.checks.iter().any(|&at| profile.checks[at].has(id));
    let mut kernels: BTreeMap<&str, usize> = BTreeMap::new();
    // A device names its kernels best guess first.
    let mut is_tried = |id| {
        let count = kernels.entry(point_of(id)).or_default();
        *count += 1;
        *count <= KERNELS_TRIED
    };
    // Copies between the host and another device are that device's own to measure.
    let is_own = |id: &str| stage.way != Way::InTurn || !point_of(id).contains("/of");
    let chosen = listing.cases.iter().filter(|case| has(&case.id) && is_own(&case.id));
    let cases: Vec<&Case> = chosen.filter(|case| is_tried(&case.id)).collect();
    Ok(Listed {
        seconds: cases.iter().map(|case| case.estimated_seconds).sum(),
        memory: cases.iter().map(|case| case.memory_bytes).max().unwrap_or(0),
        ids: cases.iter().map(|case| case.id.clone()).collect(),
    })
}

/// A record, and how much of it there was.
pub type Read = (Record, Decided);

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
        target: &Target,
        stage: &Stage,
        args: &AcceptArgs,
        global: &Global,
        ids: &[String],
        place: &Path,
    ) -> anyhow::Result<Child> {
        disk::make_directory(place, "--out DIR")?;
        // A file and not a pipe: nobody reads while it runs, and a full pipe would stop it.
        let said = place.join(MESSAGES);
        let file = fs::File::create(&said).context("the file of messages")?;
        let mut command = command("run", target, stage, &args.root, global)?;
        if args.no_host_name {
            command.arg("--no-host-name");
        }
        command.arg("--out").arg(place).arg("--").args(ids);
        command.stdout(Stdio::null()).stderr(file);
        let process = command.spawn().context("cannot start a process to measure")?;
        let device = target.device.clone();
        Ok(Child { device, place: place.into(), process, said })
    }

    /// Waits for its end; its record.
    ///
    /// # Errors
    /// Where it has measured nothing in time or cannot be ended, says that the device cannot be
    /// measured, or leaves no record; [`Interrupted`] where the user asked for an end.
    pub fn wait(mut self, most: Seconds, interrupted: &AtomicBool) -> anyhow::Result<Read> {
        let began = clock::now();
        let status = loop {
            if let Some(status) = self.process.try_wait().context("waiting for a process")? {
                break Some(status);
            }
            if interrupted.load(Ordering::Relaxed) {
                self.kill();
                return Err(Interrupted.into());
            }
            if began.elapsed() > most {
                if !self.kill() {
                    bail!("{} holds a process that cannot be ended after {most}", self.device);
                }
                break None;
            }
            clock::rest(EVERY);
        };
        let record = store::read_to_decide(&self.place);
        keep_alone(&self.place, &[store::FILE, MESSAGES]);
        let Some(status) = status else {
            // The time ended and not the device: what it measured counts.
            return match record {
                Ok(read) if !read.0.outcomes.is_empty() => Ok(read),
                _ => bail!("{} had measured nothing after {most}, and was ended", self.device),
            };
        };
        match status.code() {
            // 1: a case failed, of which the record tells more.
            Some(0 | 1) => Ok(record?),
            Some(130) => Err(Interrupted.into()),
            code => {
                // What it measured before it ended badly counts no less.
                let code = code.map_or("a signal".into(), |code| format!("exit code {code}"));
                let said = messages(&self.said);
                match record {
                    Ok(read) if !read.0.outcomes.is_empty() => Ok(read),
                    _ => bail!("{} cannot be measured ({code}): {said}", self.device),
                }
            }
        }
    }

    /// Whether it is gone.
    fn kill(&mut self) -> bool {
        // It may have ended meanwhile. One that a driver's call holds in the kernel ends later.
        let _ = self.process.kill();
        let began = clock::now();
        loop {
            match self.process.try_wait() {
                Ok(None) if began.elapsed() < aside::GRACE => clock::rest(EVERY),
                ended => return !matches!(ended, Ok(None)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that does not end, in a folder with this record.
    fn endless(place: &Path, record: Option<&str>) -> Child {
        fs::create_dir_all(place).expect("made");
        let said = place.join(MESSAGES);
        fs::write(&said, "").expect("written");
        if let Some(text) = record {
            fs::write(place.join(store::FILE), text).expect("written");
        }
        let process = process::Command::new("sleep").arg("100").spawn().expect("sleep");
        Child { device: "cuda:0".into(), place: place.into(), process, said }
    }

    #[test]
    fn what_was_measured_before_the_time_ended_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        let never = AtomicBool::new(false);
        let path = "results/epyc-9005/2026-11-21-kvm-2-cores/record.jsonl";
        let text = fs::read_to_string(path).expect("a record");
        let begun: String = text.lines().take(3).map(|line| format!("{line}\n")).collect();
        let part = endless(&folder.path().join("part"), Some(&begun));
        let (record, _) = part.wait(Seconds(0.05), &never).expect("a part of a record");
        assert!(!record.outcomes.is_empty() && record.footer.is_none());
        let nothing = endless(&folder.path().join("nothing"), None);
        let why = nothing.wait(Seconds(0.05), &never).expect_err("nothing was measured");
        assert!(why.to_string().contains("measured nothing after"), "{why}");
    }
}
