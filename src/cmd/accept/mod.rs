//! `fizeau accept`: is this node fit for work?
//!
//! Each repeat on each device is a process of its own, which runs `fizeau run` and leaves a record:
//! new pages, new contexts, and nothing that one repeat does can spoil the next. What is judged is
//! the records; `verdict.json` is written anew after each round, so that `kill -9` loses the round
//! in flight and nothing else.

mod child;
mod groups;

use super::{
    Global, Interrupted, Usage,
    bundle::{BundleArgs, Contents, Told},
    plan, signals,
};
use crate::{
    accept::{
        FORMAT, Judged, Level, Report,
        at_rest::AtRest,
        node::Node,
        profile::{Key, Kind, Profile},
        reading,
    },
    clock::{self, Moment},
    device::host,
    evidence,
    format::acceptance,
    node_state::NodeState,
    observe,
    record::{Record, store},
    units::Seconds,
    verdict::Verdict,
};
use child::Child;
use clap::{Args, ValueEnum};
use groups::Group;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

/// Below the working directory, where records and verdicts go.
const LOCAL: &str = "results/local";

/// Below the output directory, where the records of repeats go.
pub const ROUNDS: &str = evidence::file::ROUNDS;

/// The verdict's file.
const VERDICT: &str = evidence::file::VERDICT;

/// Kernels of a point that are measured in the first round, of those that the device names first,
/// and in the rounds after it, of those that were fastest.
const KERNELS_TRIED: usize = 2;
const KERNELS_KEPT: usize = 1;

/// Arguments of `accept`.
#[derive(Args, Clone, Debug)]
pub struct AcceptArgs {
    /// How much is checked
    #[arg(long, value_enum, default_value_t = LevelName::Quick)]
    pub level: LevelName,
    /// A built-in profile or a TOML file; repeat it for a node with several kinds of devices
    /// [default: floors from the speed of light, which may fail and never pass]
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: Vec<String>,
    /// Devices as `fizeau devices` names them [default: every GPU and the host]
    #[arg(long, value_name = "NAME")]
    pub device: Vec<String>,
    /// Judge by these runs of good machines: records, or directories of earlier acceptances; three
    /// at least
    #[arg(long, value_name = "RECORD", num_args = 1.., conflicts_with = "profile")]
    pub baseline: Vec<PathBuf>,
    /// Use a learnt profile for a machine that differs from those it was learnt on
    #[arg(long)]
    pub across: bool,
    /// When to end, decided or not: 90s, 10min, 1h
    #[arg(long, value_name = "TIME", default_value = "110s")]
    pub budget: Budget,
    /// Print what would be checked and measured, and measure nothing
    #[arg(long)]
    pub plan: bool,
    /// Where records and verdicts go [default: results/local/TIME-accept; with --level passive
    /// nowhere]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Continue the acceptance in this directory that was killed or interrupted
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    pub resume: Option<PathBuf>,
    /// Write Prometheus's text here too: a file in the folder of its textfile collector
    #[arg(long, value_name = "FILE")]
    pub textfile: Option<PathBuf>,
    /// What becomes of the directory.
    #[command(flatten)]
    pub bundle: BundleArgs,
    /// Leave the host's name out of records and verdicts
    #[arg(long)]
    pub no_host_name: bool,
    /// Print the verdict on one line, for the reason of a drained node or a node's condition
    #[arg(long)]
    pub one_line: bool,
    /// Other jobs may run on this node: their processes, and what they do to a clock, fail nothing
    #[arg(long)]
    pub shared: bool,
    /// Read the kernel's files below this directory: for tests
    #[arg(long, hide = true, default_value = "/", value_name = "DIR")]
    pub root: PathBuf,
}

/// A level, as `--level` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LevelName {
    /// What the kernel and drivers tell: no load, a few seconds
    Passive,
    /// That, and a few measurements: two minutes
    Quick,
}

impl From<LevelName> for Level {
    fn from(name: LevelName) -> Level {
        match name {
            LevelName::Passive => Level::Passive,
            LevelName::Quick => Level::Quick,
        }
    }
}

/// A time, as `--budget` takes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget(pub Seconds);

impl std::str::FromStr for Budget {
    type Err = String;
    fn from_str(text: &str) -> Result<Budget, String> {
        let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let scale = match unit {
            "s" | "" => 1.0,
            "min" | "m" => 60.0,
            "h" => 3_600.0,
            _ => return Err("write 90s, 10min or 1h".into()),
        };
        let number: f64 = number.trim().parse().map_err(|_| "write 90s, 10min or 1h".to_owned())?;
        match number > 0.0 && number * scale <= 1e6 {
            true => Ok(Budget(Seconds(number * scale))),
            false => Err("a time above 0, up to eleven days".into()),
        }
    }
}

/// Checks a node. The exit code is the verdict's: 0 pass, 1 fail, 4 inconclusive.
///
/// # Errors
/// Where it cannot begin, or the verdict cannot be written.
pub fn run(args: &AcceptArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let interrupted = signals::watch()?;
    let level = Level::from(args.level);
    let catalogue = plan::catalogue(global)?;
    let mut state = observe::kernel(&args.root);
    let broken = observe::add_drivers(&mut state);
    let groups = groups::of(args, &catalogue, &groups::devices(args)?)?;
    if args.plan {
        return groups::print_plan(args, &groups, level, global);
    }
    let out = directory(args, level)?;
    let bundle = args.bundle.begin(out.as_deref())?;
    let at_rest = at_rest(&groups, broken, args.shared);
    let mut acceptance = Acceptance {
        args,
        global,
        level,
        began: clock::now(),
        started: clock::utc_now(),
        checks: at_rest.judge(&state, level),
        unread: state.unread.clone(),
        notes: Vec::new(),
        out,
        interrupted: &interrupted,
        rounds: 0,
        last_round: Seconds(0.0),
    };
    let mut nodes: Vec<(Group, Vec<Judged>)> =
        groups.into_iter().map(|group| (group, Vec::new())).collect();
    acceptance.keep_state(&state)?;
    let mut told = Vec::new();
    let mut is_complete = true;
    if level > Level::Passive {
        for at in 0..nodes.len() {
            let profile = nodes[at].0.profile.clone();
            let mut node = Node::new(&profile, level, nodes[at].0.told(&state));
            let over = acceptance.measure(&nodes[at].0, &mut node, |acceptance, judged| {
                let others = nodes.iter().enumerate().filter(|(other, _)| *other != at);
                let others = others.flat_map(|(_, (_, judged))| judged.clone());
                let checks = others.chain(judged.to_vec()).collect();
                acceptance.write(&nodes, checks, false).map(drop)
            })?;
            is_complete &= over;
            nodes[at].1 = node.judged();
            told.push(Told::of(&profile, &node));
        }
    }
    let checks = nodes.iter().flat_map(|(_, judged)| judged.clone()).collect();
    let report = acceptance.write(&nodes, checks, is_complete)?;
    let closed = acceptance.out.as_deref().map(|out| {
        let (root, names_host) = (&args.root, !args.no_host_name);
        let started = &acceptance.started;
        bundle.close(Contents { out, root, names_host, started, level, at_rest, told })
    });
    if global.json {
        super::print_json(&report)?;
    } else if args.one_line {
        super::write_out(&acceptance::one_line(&report))?;
    } else {
        let place = acceptance.out.as_ref().map(|out| super::shown(out));
        super::write_out(&acceptance::text(&report))?;
        if let Some(place) = place {
            super::say(&format!("records and {VERDICT}: {place}"));
        }
    }
    closed.transpose()?;
    if interrupted.load(Ordering::Relaxed) {
        return Err(Interrupted.into());
    }
    Ok(ExitCode::from(report.verdict.exit_code()))
}

/// Where the output goes.
fn directory(args: &AcceptArgs, level: Level) -> anyhow::Result<Option<PathBuf>> {
    let chosen = args.resume.clone().or_else(|| args.out.clone());
    let default = || Path::new(LOCAL).join(format!("{}-accept", clock::utc_now().replace(':', "")));
    let out = chosen.or_else(|| (level > Level::Passive).then(default));
    if let Some(out) = &out {
        if args.resume.is_none() && out.join(ROUNDS).exists() {
            let place = super::shown(out);
            let words = format!("{place} holds an acceptance already: --resume continues it");
            return Err(Usage(words).into());
        }
        super::make_directory(out, "--out DIR")?;
    }
    Ok(out)
}

/// What the checks of the state are made of, besides the state.
fn at_rest(groups: &[Group], broken_drivers: Vec<String>, is_shared: bool) -> AtRest {
    // What a node is made up of stands in the profile of its GPUs.
    let expected = groups.iter().map(|group| &group.profile.expected);
    let expected = expected.max_by_key(|one| usize::from(one.gpus.is_some())).cloned();
    AtRest { expected: expected.unwrap_or_default(), broken_drivers, is_shared }
}

/// One acceptance, as far as it has effects.
struct Acceptance<'a> {
    args: &'a AcceptArgs,
    global: &'a Global,
    level: Level,
    began: Moment,
    started: String,
    checks: Vec<Judged>,
    unread: Vec<String>,
    notes: Vec<String>,
    out: Option<PathBuf>,
    interrupted: &'a AtomicBool,
    rounds: usize,
    last_round: Seconds,
}

impl Acceptance<'_> {
    /// What was observed at rest, kept beside the records.
    fn keep_state(&self, state: &NodeState) -> anyhow::Result<()> {
        let Some(out) = &self.out else { return Ok(()) };
        let text = crate::text::escaped(serde_json::to_string_pretty(state)?);
        super::write_file(&out.join(evidence::file::STATE), text.as_bytes(), "--out DIR")
    }

    /// Measures a group until all is decided, or the budget or the user ends it; whether it came to
    /// its end.
    fn measure(
        &mut self,
        group: &Group,
        node: &mut Node<'_>,
        mut keep: impl FnMut(&Self, &[Judged]) -> anyhow::Result<()>,
    ) -> anyhow::Result<bool> {
        let names = group.names();
        let mut cases = Vec::new();
        for (at, device) in names.iter().enumerate() {
            let ids = match child::list(device, &group.profile, self.args, self.global) {
                Ok(listed) => listed.ids,
                Err(error) if error.is::<Usage>() => return Err(error),
                Err(error) => {
                    node.lose(at, format!("{error:#}"));
                    Vec::new()
                }
            };
            cases.push(ids);
        }
        let mut first = true;
        for (at, record) in self.earlier(&names) {
            take(node, at, &record, &mut cases[at]);
            first = false;
            step(node);
        }
        loop {
            let wanted = if first { every(&cases) } else { chosen(node, &cases) };
            if wanted.is_empty() {
                break;
            }
            if self.is_over() {
                node.end();
                keep(self, &node.judged())?;
                self.notes.push(format!("it ended after {} rounds, not decided", self.rounds));
                return Ok(false);
            }
            self.round(group, node, &wanted, &mut cases)?;
            first = false;
            step(node);
            keep(self, &node.judged())?;
        }
        Ok(true)
    }

    /// Whether there is no time for another round, or the user wants it to end.
    fn is_over(&self) -> bool {
        let spent = self.began.elapsed() + self.last_round;
        self.interrupted.load(Ordering::Relaxed) || spent > self.args.budget.0
    }

    /// One repeat on each device at once: its record is taken as soon as it is there.
    fn round(
        &mut self,
        group: &Group,
        node: &mut Node<'_>,
        wanted: &BTreeMap<usize, Vec<String>>,
        cases: &mut [Vec<String>],
    ) -> anyhow::Result<()> {
        self.rounds += 1;
        super::say(&format!("round {}: {}", self.rounds, told(group, wanted)));
        let began = clock::now();
        let Some(out) = self.out.clone() else { return Ok(()) };
        let mut children = Vec::new();
        for (&at, ids) in wanted {
            let name = groups::name_of(&group.devices[at]);
            let place = out.join(ROUNDS).join(record_name(self.rounds, &name));
            let child = Child::start(&name, &group.profile, self.args, self.global, ids, &place);
            children.push((at, child));
        }
        // A round may take what is left, and as long again as a case may hang.
        let left = Seconds((self.args.budget.0.0 - self.began.elapsed().0).max(1.0) + CHILD_MIN);
        for (at, child) in children {
            let ended = child.and_then(|child| child.wait(left, self.interrupted));
            match ended {
                Ok(record) => {
                    self.refuse_other_key(group, &record)?;
                    take(node, at, &record, &mut cases[at]);
                }
                Err(error) if error.is::<Interrupted>() => {}
                Err(error) => node.lose(at, format!("{error:#}")),
            }
        }
        self.last_round = began.elapsed();
        Ok(())
    }

    /// The records of earlier rounds, where this continues them, by device.
    fn earlier(&mut self, names: &[String]) -> Vec<(usize, Record)> {
        let Some(folder) = self.args.resume.as_ref().map(|out| out.join(ROUNDS)) else {
            return Vec::new();
        };
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let mut folders: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        folders.sort();
        let mut records = Vec::new();
        for name in folders {
            let number = name.split('-').next().and_then(|number| number.parse().ok());
            self.rounds = self.rounds.max(number.unwrap_or(0));
            let is_of = |device: &&String| name.ends_with(&format!("-{}", plain(device)));
            let Some(at) = names.iter().position(|device| is_of(&device)) else { continue };
            // A record that was cut short before its header says nothing.
            records.extend(store::read(&folder.join(&name)).ok().map(|record| (at, record)));
        }
        records
    }

    /// Refuses a learnt profile that was learnt on something else than what a record is of.
    fn refuse_other_key(&mut self, group: &Group, record: &Record) -> anyhow::Result<()> {
        let Some(key) = &group.profile.key else { return Ok(()) };
        let own = reading::key([record]);
        // A repeat may measure fewer kernels; one that was not there before is another kernel.
        let is_known = own.images.iter().all(|image| key.images.contains(image));
        let images = if is_known { key.images.clone() } else { own.images.clone() };
        let differences = Key { images, ..own }.differences(key);
        if differences.is_empty() {
            return Ok(());
        }
        let (name, words) = (&group.profile.name, differences.join("; "));
        let note = format!("profile {name} was learnt on something else ({words})");
        if !self.args.across {
            return Err(Usage(format!("{note}: learn it anew, or add --across")).into());
        }
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
        Ok(())
    }

    /// Writes the verdict's files, and hands it back.
    fn write(
        &self,
        nodes: &[(Group, Vec<Judged>)],
        measured: Vec<Judged>,
        complete: bool,
    ) -> anyhow::Result<Report> {
        let profiles: Vec<&Profile> = nodes.iter().map(|(group, _)| &group.profile).collect();
        let kinds = profiles.iter().map(|profile| profile.kind);
        let host = host::environment().host.filter(|_| !self.args.no_host_name);
        let report = Report {
            format: FORMAT,
            fizeau: env!("CARGO_PKG_VERSION").into(),
            node: host,
            started: self.started.clone(),
            ended: complete.then(clock::utc_now),
            level: self.level,
            profile: profiles
                .iter()
                .map(|profile| profile.name.as_str())
                .collect::<Vec<_>>()
                .join(", "),
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
            checks: self.checks.iter().cloned().chain(measured).collect(),
            unread: self.unread.clone(),
            notes: self.notes.clone(),
        }
        .concluded();
        if let Some(out) = &self.out {
            let json = crate::text::escaped(serde_json::to_string_pretty(&report)?);
            let option = "--out DIR";
            super::write_file(&out.join(VERDICT), json.as_bytes(), option)?;
            super::write_file(
                &out.join("junit.xml"),
                acceptance::junit(&report).as_bytes(),
                option,
            )?;
            let metrics = acceptance::prometheus(&report);
            super::write_file(&out.join("metrics.prom"), metrics.as_bytes(), option)?;
        }
        if let Some(path) = &self.args.textfile {
            let metrics = acceptance::prometheus(&report);
            super::write_file(path, metrics.as_bytes(), "--textfile FILE")?;
        }
        Ok(report)
    }
}

/// The name of a record's folder.
fn record_name(round: usize, device: &str) -> String {
    format!("{round:04}-{}", plain(device))
}

/// A device's name without what file systems of others refuse.
fn plain(device: &str) -> String {
    device.replace(':', "")
}

/// A child has this much longer than the budget to end: a case may be under way.
const CHILD_MIN: f64 = 60.0;

/// Takes a record; of kernels of one point the fastest are kept for the rounds to come.
fn take(node: &mut Node<'_>, at: usize, record: &Record, cases: &mut Vec<String>) {
    node.add(at, record);
    let slow = reading::slower_kernels(record, KERNELS_KEPT);
    cases.retain(|id| !slow.contains(id));
}

/// Judges as often as there is nothing to measure before.
fn step(node: &mut Node<'_>) {
    while node.is_begun() && node.wanted().is_empty() && !node.is_over() {
        node.judge();
    }
}

/// All cases of all devices.
fn every(cases: &[Vec<String>]) -> BTreeMap<usize, Vec<String>> {
    let all = cases.iter().cloned().enumerate();
    all.filter(|(_, ids)| !ids.is_empty()).collect()
}

/// The cases of the points that a node wants next.
fn chosen(node: &Node<'_>, cases: &[Vec<String>]) -> BTreeMap<usize, Vec<String>> {
    let of = |(at, points): (usize, BTreeSet<String>)| {
        let is_wanted = |id: &&String| points.contains(child::point_of(id));
        (at, cases[at].iter().filter(is_wanted).cloned().collect::<Vec<_>>())
    };
    node.wanted().into_iter().map(of).filter(|(_, ids)| !ids.is_empty()).collect()
}

/// What a round measures, in words.
fn told(group: &Group, wanted: &BTreeMap<usize, Vec<String>>) -> String {
    let one = |(at, ids): (&usize, &Vec<String>)| {
        let device = &group.devices[*at];
        let stub = if device.is_stub() { " (stub)" } else { "" };
        format!("{} cases on {}{stub}", ids.len(), groups::name_of(device))
    };
    wanted.iter().map(one).collect::<Vec<_>>().join(", ")
}
