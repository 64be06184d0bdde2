//! What `fizeau accept` keeps in its directory: states, verdicts, series. Each file is written
//! whole or not at all, so that whatever ends the program leaves the verdicts of the last round.

use super::{AcceptArgs, ROUNDS, groups::Group};
use crate::cmd::{bundle::derived, disk, exit::Usage, output};
use anyhow::Context as _;
use fizeau_device::{clock, host};
use fizeau_domain::{
    node_state::{Board, NodeState},
    units::Seconds,
    verdict::Verdict,
};
use fizeau_judge::{
    accept::{
        FORMAT, Judged, Level, Report,
        node::Sample,
        profile::{Kind, Profile},
    },
    evidence::{self, file as names},
};
use fizeau_record::Decided;
use fizeau_report::format::acceptance;
use rustix::{
    fs::{FlockOperation, flock},
    io::{Errno, FdFlags, fcntl_setfd},
};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

/// The verdict's file.
pub const VERDICT: &str = evidence::file::VERDICT;

/// All that is known so far, and where it is kept.
pub struct Kept<'a> {
    args: &'a AcceptArgs,
    level: Level,
    profiles: Vec<Profile>,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    /// Where; none of a passive acceptance that was not asked to keep anything.
    pub out: Option<PathBuf>,
    /// Verdicts on the node at rest.
    pub passive: Vec<Judged>,
    /// Which board each GPU is, by its name.
    pub boards: BTreeMap<String, Board>,
    /// What the node has, in words.
    pub machine: Vec<String>,
    /// What could not be read.
    pub unread: Vec<String>,
    /// Verdicts on what was measured, by group of devices.
    pub measured: Vec<Vec<Judged>>,
    /// Verdicts on the network, and on the state afterwards.
    pub others: Vec<Judged>,
    /// What a reader has to know.
    pub notes: Vec<String>,
    /// How much of each record was decided on, by its run.
    pub decided: BTreeMap<String, Decided>,
    /// What lasts, in the course of time, by group.
    pub series: Vec<Vec<Sample>>,
    /// Why the file of `--textfile` could not be written the last time that it was tried. It is
    /// kept until the verdict is told, which does not depend on it.
    pub textfile_error: Option<anyhow::Error>,
    /// Held as long as a process of this acceptance lives, those that measure included.
    _alone: Option<File>,
}

impl<'a> Kept<'a> {
    /// Makes the directory.
    ///
    /// # Errors
    /// Where it holds an acceptance already, or cannot be made.
    pub fn begin(args: &'a AcceptArgs, level: Level, groups: &[Group]) -> anyhow::Result<Kept<'a>> {
        let out = directory(args, level)?;
        let alone = out.as_deref().map(alone).transpose()?;
        Ok(Kept {
            args,
            level,
            profiles: groups.iter().map(|group| group.profile.clone()).collect(),
            started: clock::utc_now(),
            out,
            passive: Vec::new(),
            boards: BTreeMap::new(),
            machine: Vec::new(),
            unread: Vec::new(),
            measured: vec![Vec::new(); groups.len()],
            others: Vec::new(),
            notes: Vec::new(),
            series: vec![Vec::new(); groups.len()],
            textfile_error: None,
            decided: BTreeMap::new(),
            _alone: alone,
        })
    }

    /// Keeps what was observed at rest. Where an acceptance is continued, what it has observed anew
    /// takes the place of what was there ([`keep_earlier`](Self::keep_earlier) has kept that):
    /// verdicts follow from it.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn keep_state(&self, file: &str, state: &NodeState) -> anyhow::Result<()> {
        let Some(out) = &self.out else { return Ok(()) };
        let text = fizeau_domain::text::escaped(serde_json::to_string_pretty(state)?);
        disk::write_file(&out.join(file), text.as_bytes(), "--out DIR")
    }

    /// Where an acceptance is continued, keeps the states and the verdict that it has left so far:
    /// what it observes from now on takes their place. A folder for each time that it was left.
    ///
    /// # Errors
    /// Where one of them cannot be read or written.
    pub fn keep_earlier(&self) -> anyhow::Result<()> {
        let Some(out) = self.out.as_ref().filter(|_| self.args.resume.is_some()) else {
            return Ok(());
        };
        let numbered = (1..).map(|number: u32| out.join(names::EARLIER).join(number.to_string()));
        let Some(folder) = { numbered }.find(|folder| !folder.exists()) else { return Ok(()) };
        for name in [names::STATE, names::STATE_AFTER, names::VERDICT] {
            let place = out.join(name);
            let bytes = match fs::read(&place) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                read => read.with_context(|| output::shown(&place))?,
            };
            disk::make_directory(&folder, "--out DIR")?;
            disk::write_file(&folder.join(name), &bytes, "--out DIR")?;
        }
        // That of the end is to be observed yet.
        match fs::remove_file(out.join(names::STATE_AFTER)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| output::shown(&out.join(names::STATE_AFTER)))
            }
            _ => Ok(()),
        }
    }

    /// Adds what a reader has to know, once.
    pub fn note(&mut self, words: String) {
        if !self.notes.contains(&words) {
            self.notes.push(words);
        }
    }

    fn report(&self, complete: bool) -> Report {
        let kinds = self.profiles.iter().map(|profile| profile.kind);
        let host = host::environment().host.filter(|_| !self.args.no_host_name);
        let names: Vec<&str> = self.profiles.iter().map(|profile| profile.name.as_str()).collect();
        let measured = self.measured.iter().flatten().chain(&self.others);
        Report {
            format: FORMAT,
            fizeau: env!("CARGO_PKG_VERSION").into(),
            node: host,
            started: self.started.clone(),
            ended: complete.then(clock::utc_now),
            level: self.level,
            profile: names.join(", "),
            // The weakest of them: a node is no better than that.
            profile_kind: kinds
                .min_by_key(|kind| match kind {
                    Kind::Derived => 0,
                    Kind::Public => 1,
                    Kind::Learnt => 2,
                })
                .unwrap_or(Kind::Derived),
            stub: false,
            verdict: Verdict::Inconclusive,
            action: None,
            complete,
            checks: self.passive.iter().chain(measured).cloned().collect(),
            machine: self.machine.clone(),
            boards: self.boards.clone(),
            unread: self.unread.clone(),
            notes: self.notes.clone(),
        }
        .concluded()
    }

    /// Writes the files, and hands the verdict back.
    ///
    /// # Errors
    /// Where one of the directory's cannot be written. Whether that of `--textfile` could,
    /// `textfile_error` says.
    pub fn write(&mut self, complete: bool) -> anyhow::Result<Report> {
        let report = self.report(complete);
        let series: Vec<&Sample> = self.series.iter().flatten().collect();
        if let Some(out) = &self.out {
            let write = |name: &str, text: String| {
                disk::write_file(&out.join(name), text.as_bytes(), "--out DIR")
            };
            // The one that counts first, where the disk is nearly full.
            let json = fizeau_domain::text::escaped(serde_json::to_string_pretty(&report)?);
            write(VERDICT, json)?;
            for (name, text) in derived::documents(&report, &series)? {
                write(name, text)?;
            }
        }
        if let Some(path) = &self.args.textfile {
            let metrics = acceptance::prometheus(&report);
            self.textfile_error =
                disk::write_file(path, metrics.as_bytes(), "--textfile FILE").err();
        }
        Ok(report)
    }
}

/// How long to wait for the processes of an acceptance that was killed.
const ALONE_WITHIN: Seconds = Seconds(60.0);

/// How often to look whether they have ended.
const LOOKS_EVERY: Seconds = Seconds(0.05);

/// A lock of the directory, which the processes that measure inherit: an acceptance that was killed
/// is continued once the last of them has ended, since they write to its records.
///
/// # Errors
/// Where they do not end, or another acceptance writes there.
fn alone(out: &Path) -> anyhow::Result<File> {
    let place = || output::shown(out);
    let file = File::open(out).with_context(place)?;
    let began = clock::now();
    let mut is_told = false;
    while flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        if began.elapsed() > ALONE_WITHIN {
            let words = format!("{}: another acceptance writes there; wait for its end", place());
            return Err(Usage(words).into());
        }
        if !is_told && began.elapsed() > Seconds(1.0) {
            output::say(&format!("{}: waiting for those who write there to end", place()));
            is_told = true;
        }
        clock::rest(LOOKS_EVERY);
    }
    // A file system without locks is no reason not to measure.
    fcntl_setfd(&file, FdFlags::empty()).with_context(place)?;
    Ok(file)
}

/// Refuses to continue what was never begun: a slip in a path would begin another acceptance there.
fn holds_an_acceptance(out: &Path) -> anyhow::Result<()> {
    let parts = [ROUNDS, names::STATE, names::VERDICT];
    if parts.iter().any(|name| out.join(name).exists()) {
        return Ok(());
    }
    let place = output::shown(out);
    match out.exists() {
        true => anyhow::bail!(
            "--resume {place}: there is no acceptance in it: name the directory of its --out"
        ),
        false => Err(io::Error::from_raw_os_error(rustix::io::Errno::NOENT.raw_os_error()))
            .with_context(|| format!("--resume {place}")),
    }
}

/// Where the output goes.
fn directory(args: &AcceptArgs, level: Level) -> anyhow::Result<Option<PathBuf>> {
    let chosen = args.resume.clone().or_else(|| args.out.clone());
    let default =
        || Path::new(disk::LOCAL).join(format!("{}-accept", clock::utc_now().replace(':', "")));
    let out = chosen.or_else(|| (level > Level::Passive).then(default));
    // Nodes of one launcher are given the same name, on a disk that they may share.
    let out = match super::world()? {
        Some(world) => out.map(|out| out.join(format!("rank{}", world.rank))),
        None => out,
    };
    if let Some(out) = &out {
        if args.resume.is_none() && out.join(ROUNDS).exists() {
            let place = output::shown(out);
            let words = format!("{place} holds an acceptance already: --resume continues it");
            return Err(Usage(words).into());
        }
        if args.resume.is_some() {
            holds_an_acceptance(out)?;
        }
        disk::make_directory(out, "--out DIR")?;
    }
    Ok(out)
}
