//! How a node is measured: rounds of repeats, each in a process of its own, until all is decided or
//! the budget ends.

use super::{
    AcceptArgs, ROUNDS, between,
    child::{self, Child, Read, Target},
    files::Kept,
    groups::Group,
    perftest,
};
use crate::cmd::{
    bundle::Told,
    disk,
    exit::{Interrupted, Usage},
    global::Global,
    output,
};
use fizeau_device::{
    clock::{self, Moment},
    numa,
};
use fizeau_domain::{node_state::NodeState, text::counted, units::Seconds};
use fizeau_judge::accept::{
    self, Level,
    cause::Cause,
    network,
    node::{Node, Wanted},
    profile::{Key, Profile, Stage, Way},
    reading::{self, Kernels},
};
use fizeau_record::{Record, store};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

/// A child has this much longer than the budget to end: a case may be under way.
const CHILD_MIN: f64 = 60.0;

/// Bytes that have to fit on the disk for another round, which its record takes at least.
const ROOM: usize = 256 << 10;

/// The cases of each stage of a device.
type Cases = BTreeMap<usize, Vec<String>>;

/// What became of measuring.
#[derive(Default)]
pub struct Measured {
    /// Whether all came to its end.
    pub is_complete: bool,
    /// What the decision on each group was told, in the order of the groups.
    pub told: Vec<Told>,
    /// What the decision on the network was told, where anything was measured of it.
    pub network: Option<network::Told>,
    /// What the check between nodes was told, where there are several.
    pub between: Option<accept::between::Told>,
}

/// Measures all groups, and at the fuller levels the network.
///
/// # Errors
/// Where nothing can be measured, or nothing be kept.
pub fn all(
    args: &AcceptArgs,
    global: &Global,
    groups: &[Group],
    state: &NodeState,
    kept: &mut Kept<'_>,
    interrupted: &AtomicBool,
) -> anyhow::Result<Measured> {
    let level = Level::from(args.level);
    note_nodes(args, level, kept);
    // What the state says counts from now on, whatever becomes of the rest.
    kept.write(false)?;
    let profiles: Vec<Profile> = groups.iter().map(|group| group.profile.clone()).collect();
    let mut under_test = Vec::new();
    for ((at, group), profile) in groups.iter().enumerate().zip(&profiles) {
        let node = Node::new(profile, level, group.told(state, level));
        let stages = profile.stages(level);
        let targets = group.targets(level);
        let (cases, kernels) = (Vec::new(), BTreeMap::new());
        under_test.push(UnderTest { at, group, node, stages, targets, cases, kernels });
    }
    let mut rounds =
        Rounds { args, global, began: clock::now(), interrupted, count: 0, last: Seconds(0.0) };
    let mut measured = Measured { is_complete: true, ..Measured::default() };
    if level >= Level::Full {
        // All nodes begin together, and end when each is decided.
        measured.between = between::measure(args, groups, kept, interrupted)?;
    }
    for one in &mut under_test {
        if interrupted.load(Ordering::Relaxed) {
            one.node.end();
            keep(one, kept)?;
            measured.is_complete = false;
            continue;
        }
        measured.is_complete &= rounds.measure(one, kept)?;
    }
    if level >= Level::Full && measured.is_complete {
        let found = perftest::measure(state, || rounds.is_over());
        kept.others.extend(found.judged);
        kept.notes.extend(found.notes);
        measured.network = found.told;
        kept.write(false)?;
    }
    if level == Level::Soak && measured.is_complete {
        rounds.soak(&mut under_test, kept)?;
    }
    measured.is_complete &= !interrupted.load(Ordering::Relaxed);
    let told = |one: &UnderTest<'_>| Told::of(&one.group.profile, &one.node);
    measured.told = under_test.iter().map(told).collect();
    Ok(measured)
}

/// A group of devices that is measured.
struct UnderTest<'g> {
    /// Its place among the groups.
    at: usize,
    group: &'g Group,
    node: Node<'g>,
    stages: Vec<Stage>,
    /// What is measured, in the order of the node's devices.
    targets: Vec<Target>,
    /// Of each of them, what it measures in each stage.
    cases: Vec<Cases>,
    /// The kernels of each of them in each stage.
    kernels: BTreeMap<(usize, usize), Kernels>,
}

/// What one process measures.
struct Job {
    device: usize,
    stage: usize,
    ids: Vec<String>,
}

impl UnderTest<'_> {
    /// Asks each device what it has of the checks' cases.
    fn list(&mut self, rounds: &Rounds<'_>) -> anyhow::Result<()> {
        let Rounds { args, global, interrupted, .. } = rounds;
        if self.targets.is_empty() {
            return Ok(());
        }
        for (at, target) in self.targets.iter().enumerate() {
            let mut cases = Cases::new();
            let mut why = None;
            for (number, stage) in self.stages.iter().enumerate() {
                if !self.node.devices()[at].is_measured(stage.way) {
                    continue;
                }
                let profile = &self.group.profile;
                match child::list(target, profile, stage, &args.root, global, interrupted) {
                    Ok(listed) => drop(cases.insert(number, listed.ids)),
                    Err(error) if error.is::<Interrupted>() => return Err(error),
                    Err(error) => why = Some(format!("{error:#}")),
                }
            }
            match why {
                // One stage that cannot be planned is no lost device.
                Some(why) if cases.values().all(Vec::is_empty) => self.node.lose(at, why, None),
                _ => {}
            }
            self.cases.push(cases);
        }
        let is_any = self.cases.iter().flat_map(BTreeMap::values).any(|ids| !ids.is_empty());
        if !is_any && !(0..self.targets.len()).any(|at| self.node.is_lost(at)) {
            let Profile { suite, name, .. } = &self.group.profile;
            let words = format!("suite {suite} plans no case of the checks of profile {name}");
            return Err(Usage(words).into());
        }
        Ok(())
    }

    /// The cases that have not been measured once.
    fn unmeasured(&self) -> Vec<Job> {
        let mut jobs = Vec::new();
        for (device, cases) in self.cases.iter().enumerate() {
            for (&stage, ids) in cases {
                let of = &self.stages[stage].checks;
                let has_read = |id: &str| {
                    let point = child::point_of(id);
                    of.iter().any(|&check| self.node.has_read(device, check, point))
                };
                let ids: Vec<String> = ids.iter().filter(|id| !has_read(id)).cloned().collect();
                if !ids.is_empty() {
                    jobs.push(Job { device, stage, ids });
                }
            }
        }
        jobs
    }

    /// The cases of the points that are wanted.
    fn chosen(&self, wanted: &BTreeMap<usize, Wanted>) -> Vec<Job> {
        let mut jobs = Vec::new();
        for (&device, points) in wanted {
            for (&stage, ids) in &self.cases[device] {
                let checks = &self.stages[stage].checks;
                let is_wanted = |id: &&String| {
                    let point = child::point_of(id);
                    points.iter().any(|(check, of)| of == point && checks.contains(check))
                };
                let ids: Vec<String> = ids.iter().filter(is_wanted).cloned().collect();
                if !ids.is_empty() {
                    jobs.push(Job { device, stage, ids });
                }
            }
        }
        jobs
    }

    /// Takes a record; of kernels of one point the fastest is kept for the rounds to come.
    fn take(&mut self, device: usize, stage: usize, record: &Record) {
        self.node.add(device, record);
        self.keep_fastest(device, stage, record);
    }

    fn keep_fastest(&mut self, device: usize, stage: usize, record: &Record) {
        let kernels = self.kernels.entry((device, stage)).or_default();
        kernels.add(record);
        let slower = kernels.slower();
        if let Some(cases) = self.cases[device].get_mut(&stage) {
            cases.retain(|id| !slower.contains(id.as_str()));
        }
    }

    /// Judges as often as there is nothing to measure before.
    fn step(&mut self) {
        let node = &mut self.node;
        while node.is_begun() && node.wanted().is_empty() && !node.is_over() {
            node.judge();
        }
    }

    /// What jobs do, in words.
    fn told(&self, jobs: &[Job]) -> String {
        let mut cases: BTreeMap<usize, usize> = BTreeMap::new();
        for job in jobs {
            *cases.entry(job.device).or_default() += job.ids.len();
        }
        let one = |(at, count): (usize, usize)| {
            let device = &self.node.devices()[at];
            let stub = if device.is_stub { " (stub)" } else { "" };
            format!("{} on {}{stub}", counted(count, "case"), device.name)
        };
        cases.into_iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

/// The rounds of one acceptance.
struct Rounds<'a> {
    args: &'a AcceptArgs,
    global: &'a Global,
    began: Moment,
    interrupted: &'a AtomicBool,
    count: usize,
    last: Seconds,
}

impl Rounds<'_> {
    /// Whether there is no time for another round, or the user wants it to end.
    fn is_over(&self) -> bool {
        let spent = self.began.elapsed() + self.last;
        self.interrupted.load(Ordering::Relaxed) || spent > self.args.ends_after()
    }

    /// Measures a group until all is decided, or the budget or the user ends it; whether it came to
    /// its end.
    fn measure(&mut self, one: &mut UnderTest<'_>, kept: &mut Kept<'_>) -> anyhow::Result<bool> {
        one.list(self)?;
        for (device, stage, (record, decided)) in self.earlier(one, kept)? {
            kept.decided.insert(decided.run.clone(), decided);
            one.node.add_earlier(device, &record);
            one.keep_fastest(device, stage, &record);
            one.step();
        }
        // Those of the first round; of an acceptance that is continued, what it did not come to.
        let mut first = one.unmeasured();
        loop {
            let jobs = match first.is_empty() {
                true => one.chosen(&one.node.wanted()),
                false => std::mem::take(&mut first),
            };
            // Of a round that the user has ended nothing may be left to ask for.
            if jobs.is_empty() && !self.interrupted.load(Ordering::Relaxed) {
                keep(one, kept)?;
                return Ok(true);
            }
            if self.is_over() {
                one.node.end();
                let rounds = counted(self.count, "round");
                kept.note(format!(
                    "the budget ended after {rounds}, before every check was decided"
                ));
                keep(one, kept)?;
                return Ok(false);
            }
            self.round(one, jobs, kept)?;
            one.step();
            keep(one, kept)?;
        }
    }

    /// Puts load on the devices that have the most to say, again and again, until the budget ends.
    fn soak(&mut self, all: &mut [UnderTest<'_>], kept: &mut Kept<'_>) -> anyhow::Result<()> {
        // GPUs are of more interest than the host, and stand first.
        let Some(one) = all.iter_mut().find(|one| !one.chosen(&one.node.soak()).is_empty()) else {
            kept.note("nothing was soaked: a check failed, or none is of what lasts".into());
            return Ok(());
        };
        self.global.tell(&format!("soaking until {} have passed", self.args.ends_after()));
        while !self.is_over() {
            let jobs = one.chosen(&one.node.soak());
            if jobs.is_empty() {
                kept.note(format!("the soak ended early, after {}", self.began.elapsed()));
                break;
            }
            self.round(one, jobs, kept)?;
            keep(one, kept)?;
        }
        Ok(())
    }

    /// One repeat of each job: what devices have for themselves at once, the rest one by one.
    fn round(
        &mut self,
        one: &mut UnderTest<'_>,
        jobs: Vec<Job>,
        kept: &mut Kept<'_>,
    ) -> anyhow::Result<()> {
        self.count += 1;
        self.global.tell(&format!("round {}: {}", self.count, one.told(&jobs)));
        let began = clock::now();
        let mut batches: Vec<Vec<Job>> = Vec::new();
        // A B, B A, ..: what drifts is in both alike.
        let is_retest = one.node.is_retest();
        let jobs: Vec<Job> = match is_retest && self.count.is_multiple_of(2) {
            true => jobs.into_iter().rev().collect(),
            false => jobs,
        };
        for job in jobs {
            let is_alone = is_retest || one.stages[job.stage].way != Way::AtOnce;
            match batches.iter_mut().find(|batch| !is_alone && batch[0].stage == job.stage) {
                Some(batch) => batch.push(job),
                None => batches.push(vec![job]),
            }
        }
        for batch in batches {
            self.batch(one, batch, kept)?;
        }
        self.last = began.elapsed();
        Ok(())
    }

    /// Some jobs at once: the record of each is taken as soon as it is there.
    fn batch(
        &mut self,
        one: &mut UnderTest<'_>,
        batch: Vec<Job>,
        kept: &mut Kept<'_>,
    ) -> anyhow::Result<()> {
        let Some(out) = kept.out.clone() else { return Ok(()) };
        let mut children = Vec::new();
        for Job { device, stage, ids } in batch {
            if one.node.is_lost(device) || self.interrupted.load(Ordering::Relaxed) {
                continue;
            }
            let target = &one.targets[device];
            let name = record_name(self.count, &one.node.devices()[device].name, stage);
            let place = out.join(ROUNDS).join(name);
            let stage_of = &one.stages[stage];
            let child = Child::start(target, stage_of, self.args, self.global, &ids, &place);
            children.push((device, stage, child));
        }
        // A round may take what is left, and as long again as a case may hang.
        let left = self.args.ends_after().0 - self.began.elapsed().0;
        let left = Seconds(left.max(1.0) + CHILD_MIN);
        for (device, stage, child) in children {
            let ended = child.and_then(|child| child.wait(left, self.interrupted));
            match ended {
                Ok((record, decided)) => match refused(one.group, &record) {
                    None => {
                        kept.decided.insert(decided.run.clone(), decided);
                        one.take(device, stage, &record);
                    }
                    Some(Refusal::Quota(words)) => {
                        one.node.lose(device, words, Some(Cause::CpuQuota));
                    }
                    Some(Refusal::OtherKey(words)) if self.args.across => {
                        kept.note(words);
                        kept.decided.insert(decided.run.clone(), decided);
                        one.take(device, stage, &record);
                    }
                    Some(Refusal::OtherKey(words)) => {
                        let words = format!("{words}: learn it anew, or add --across");
                        return Err(Usage(words).into());
                    }
                },
                Err(error) if error.is::<Interrupted>() => {}
                Err(error) => {
                    is_room(&out)?;
                    one.node.lose(device, format!("{error:#}"), Some(Cause::DeviceLost));
                }
            }
        }
        Ok(())
    }

    /// The records of earlier rounds, where this continues them, by device and stage.
    ///
    /// # Errors
    /// Where another process writes one of them.
    fn earlier(
        &mut self,
        one: &UnderTest<'_>,
        kept: &Kept<'_>,
    ) -> anyhow::Result<Vec<(usize, usize, Read)>> {
        let out = kept.out.as_ref().filter(|_| self.args.resume.is_some());
        let Some(out) = out else { return Ok(Vec::new()) };
        let folder = out.join(ROUNDS);
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let names: BTreeSet<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        let devices: Vec<String> =
            one.node.devices().iter().map(|device| plain(&device.name)).collect();
        let own = disk::owners(out);
        let mut records = Vec::new();
        for name in names {
            let mut words = name.split('-');
            let number = words.next().and_then(|number| number.parse().ok());
            self.count = self.count.max(number.unwrap_or(0));
            let device = words.next().and_then(|word| devices.iter().position(|of| of == word));
            let stage = words.next().map_or(Some(0), |stage| stage.parse().ok());
            let (Some(device), Some(stage)) = (device, stage) else { continue };
            let file = folder.join(&name).join(store::FILE);
            if let Some(whose) = disk::stranger(out, &file, &own).filter(|_| file.exists()) {
                let place = output::shown(&file);
                let words = format!(
                    "{place} is {whose}, and others may write there: an acceptance is continued \
                     by its own records alone; remove the folder, or begin another acceptance"
                );
                return Err(Usage(words).into());
            }
            // A record that was cut short before its header says nothing.
            match store::read_to_decide(&folder.join(&name)) {
                Ok(read) => records.push((device, stage, read)),
                Err(error @ store::RecordError::Busy(_)) => return Err(error.into()),
                Err(_) => {}
            }
        }
        Ok(records)
    }
}

/// Says which NUMA nodes copies are not measured from.
fn note_nodes(args: &AcceptArgs, level: Level, kept: &mut Kept<'_>) {
    numa::read_below(&args.root);
    let nodes = numa::out_of_reach();
    if level < Level::Full || nodes.is_empty() {
        return;
    }
    let nodes = nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    kept.note(format!(
        "no copies from host memory of NUMA node {nodes}: this process may not run on its CPUs"
    ));
}

/// Writes what is known so far.
fn keep(one: &UnderTest<'_>, kept: &mut Kept<'_>) -> anyhow::Result<()> {
    kept.measured[one.at] = one.node.judged();
    kept.series[one.at] = one.node.samples();
    kept.write(false).map(drop)
}

/// Whether a process may have ended because the disk is full, in which case nothing is said of the
/// device: there has to be room for what a round leaves.
fn is_room(out: &Path) -> anyhow::Result<()> {
    let probe = out.join("room");
    let written = disk::write_file(&probe, &vec![0; ROOM], "--out DIR");
    // Where it was not written there is nothing to remove.
    let _ = fs::remove_file(&probe);
    written.map_err(|error| {
        let words =
            "no room for another round: the verdicts so far are kept, and --resume continues";
        error.context(words)
    })
}

/// Why a record is not judged by a learnt profile.
enum Refusal {
    /// A CPU quota makes the machine another one.
    Quota(String),
    /// The profile was learnt on something else.
    OtherKey(String),
}

fn refused(group: &Group, record: &Record) -> Option<Refusal> {
    let key = group.profile.key.as_ref()?;
    let own = reading::key([record]);
    // A repeat may measure fewer kernels; one that was not there before is another kernel.
    let is_known = own.images.iter().all(|image| key.images.contains(image));
    let images = if is_known { key.images.clone() } else { own.images.clone() };
    let own = Key { images, ..own };
    let differences = own.differences(key);
    if differences.is_empty() {
        return None;
    }
    let alike = Key { units: key.units, ..own.clone() };
    if let Some(quota) = record.header.environment.cpu_quota
        && own.units < key.units
        && alike.differences(key).is_empty()
    {
        let (units, learnt) = (own.units, key.units);
        return Some(Refusal::Quota(format!(
            "a CPU quota of {quota:.2} CPUs leaves {units} of {learnt} cores that the profile was \
             learnt with"
        )));
    }
    let (name, words) = (&group.profile.name, differences.join("; "));
    Some(Refusal::OtherKey(format!("profile {name} was learnt on something else ({words})")))
}

/// The name of a record's folder.
fn record_name(round: usize, device: &str, stage: usize) -> String {
    match stage {
        0 => format!("{round:04}-{}", plain(device)),
        _ => format!("{round:04}-{}-{stage}", plain(device)),
    }
}

/// A device's name without what file systems of others refuse.
fn plain(device: &str) -> String {
    device.replace(':', "")
}
