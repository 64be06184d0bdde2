//! What is measured of each judge in each noise, as CSV and as the tables of the page.

use super::{
    judges::{Fault, NODES, STORE, Said, World, drifts, surveys, worlds},
    oracle,
};
use std::{collections::BTreeMap, fmt::Write as _};

/// Stores that `fleet drift` is tried on, for each fleet that is surveyed.
const STORES: u64 = 1;

/// How many times as many stores, and fleets, are tried where nothing is planted: one healthy name
/// in eight stores says neither that names are rare nor that they are not.
const HEALTHY: [u64; 2] = [25, 5];

/// A judge of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Judge {
    /// `fleet drift`.
    Drift,
    /// `fleet survey` of this many sessions.
    Survey(usize),
}

/// All of them.
pub const JUDGES: [Judge; 3] = [Judge::Drift, Judge::Survey(1), Judge::Survey(3)];

impl Judge {
    fn name(self) -> String {
        match self {
            Judge::Drift => "drift".into(),
            Judge::Survey(sessions) => format!("survey {sessions}"),
        }
    }

    /// What is planted, nothing first, then what lost just the least effect.
    fn faults(self) -> Vec<Fault> {
        let steps = [Fault::Nothing, Fault::Step(1.0), Fault::Step(1.5), Fault::Step(3.0)];
        let decays = [Fault::Decay(0.8), Fault::Decay(1.5)];
        let of_drift = decays.into_iter().filter(|_| self == Judge::Drift);
        steps.into_iter().chain(of_drift).collect()
    }

    fn said(self, world: &World, fault: Fault, fleets: u64, seed: u64) -> Said {
        let times = |more: u64| if fault == Fault::Nothing { more } else { 1 };
        match self {
            Judge::Drift => drifts(world, fault, times(HEALTHY[0]) * STORES * fleets, seed),
            Judge::Survey(sessions) => {
                surveys(world, fault, sessions, times(HEALTHY[1]) * fleets, seed)
            }
        }
    }

    /// The best power that a rule can have.
    fn best(self, world: &World, fault: Fault, seed: u64) -> f64 {
        match self {
            Judge::Drift => oracle::of_drift(world, fault, seed),
            Judge::Survey(sessions) => oracle::of_survey(world, fault, sessions, seed),
        }
    }
}

fn words(fault: Fault) -> String {
    match fault {
        Fault::Nothing => "nothing".into(),
        Fault::Step(by) | Fault::Whole(by) => format!("step {by:.1}"),
        Fault::Decay(by) => format!("decay {by:.1}"),
    }
}

/// Healthy figures named a fleet, and the share of the planted ones that is found.
#[derive(Clone, Copy, Debug)]
struct Cell {
    healthy: f64,
    found: f64,
}

/// What is known of all judges, by judge, noise and fault.
type Cells = BTreeMap<(String, String, String), Cell>;

/// A line for each judge, noise and fault; of the judges and noises whose names have these words.
pub fn csv(fleets: u64, seed: u64, [of_judge, of_noise]: [&str; 2]) -> String {
    let mut text = "judge,noise,fault,healthy named a fleet,share found\n".to_owned();
    for judge in JUDGES.into_iter().filter(|judge| judge.name().contains(of_judge)) {
        for world in worlds().iter().filter(|world| world.name.contains(of_noise)) {
            for fault in judge.faults() {
                let said = judge.said(world, fault, fleets, seed);
                let healthy = said.healthy as f64 / said.judged.max(1) as f64;
                let found = said.found as f64 / said.planted.max(1) as f64;
                let (name, fault) = (judge.name(), words(fault));
                let noise = world.name.replace(',', ":");
                let _ = writeln!(text, "{name},{noise},{fault},{healthy:.3},{found:.4}");
            }
        }
    }
    text
}

fn cells(csv: &str) -> Cells {
    let lines = csv.lines().filter(|line| !line.starts_with('#')).skip(1);
    let cell = |line: &str| {
        let mut parts = line.split(',').map(str::to_owned);
        let mut next = || parts.next().unwrap_or_default();
        let key = (next(), next().replace(':', ","), next());
        let (healthy, found) = (next().parse().ok()?, next().parse().ok()?);
        Some((key, Cell { healthy, found }))
    };
    lines.filter_map(cell).collect()
}

/// Power that is called lost, and what counts as no loss: a tenth.
const TENTH: f64 = 0.1;

/// Healthy names a fleet, and the share of devices that lost just the least effect, from which on
/// a rule's power counts as bought by false names: as many as the judges promise at most.
const BOUGHT: [f64; 2] = [0.1, 0.08];

/// Why a rule finds less than the one before, in words; empty where it does not.
fn why(before: &[Cell], now: &[Cell], best: &[f64]) -> String {
    let lost: Vec<usize> =
        (2..now.len()).filter(|at| now[*at].found < before[*at].found - TENTH).collect();
    if lost.is_empty() {
        return String::new();
    }
    let healthy = before.iter().map(|cell| cell.healthy).fold(0.0, f64::max);
    if healthy > BOUGHT[0] {
        return format!("bought before: {healthy:.1} healthy ones named a fleet");
    }
    if before[1].found > BOUGHT[1] && before[1].found > 1.5 * now[1].found {
        let just = 100.0 * before[1].found;
        return format!("bought before: {just:.0} % of what lost just the least effect named");
    }
    match lost.iter().all(|at| now[*at].found >= best[*at] - TENTH) {
        true => "no rule can find more".into(),
        false => "**lost**".into(),
    }
}

/// In percent; a dash where it is not known.
fn share(share: f64) -> String {
    if share.is_nan() { "-".into() } else { format!("{:.0} %", 100.0 * share) }
}

fn table(judge: Judge, [before, now]: [&Cells; 2], seed: u64) -> String {
    let faults = judge.faults();
    let mut text =
        "| noise | healthy ones named a fleet | just the least effect: named |".to_owned();
    for fault in &faults[2..] {
        let _ = write!(text, " {} x: found (at best) |", words(*fault));
    }
    let _ = writeln!(
        text,
        " less than before, since |\n| --- |{} --- |",
        " ---: |".repeat(faults.len())
    );
    for world in &worlds() {
        let of = |cells: &Cells| -> Vec<Cell> {
            let none = Cell { healthy: f64::NAN, found: f64::NAN };
            let key = |fault: &Fault| (judge.name(), world.name.to_owned(), words(*fault));
            faults.iter().map(|fault| cells.get(&key(fault)).copied().unwrap_or(none)).collect()
        };
        let (old, new) = (of(before), of(now));
        let best: Vec<f64> = { faults.iter().enumerate() }
            .map(|(at, fault)| if at < 2 { 0.0 } else { judge.best(world, *fault, seed) })
            .collect();
        let _ = write!(
            text,
            "| {} | {:.2} -> {:.2} | {} -> {} |",
            world.name,
            old[0].healthy,
            new[0].healthy,
            share(old[1].found),
            share(new[1].found)
        );
        for at in 2..faults.len() {
            let (old, new) = (share(old[at].found), share(new[at].found));
            let _ = write!(text, " {old} -> {new} ({}) |", share(best[at]));
        }
        let _ = writeln!(text, " {} |", why(&old, &new, &best));
    }
    text
}

/// The section of the page, from what was measured of the rule before and of the one now.
pub fn page(before: &str, now: &str, [fleets, seed]: [u64; 2]) -> String {
    let (nodes, sessions) = STORE;
    let stores = STORES * fleets;
    let [healthy_stores, healthy_fleets] = [HEALTHY[0] * stores, HEALTHY[1] * fleets];
    let both = [&cells(before), &cells(now)];
    let [drift, one, three] = JUDGES.map(|judge| table(judge, both, seed));
    format!(
        "{}\n### Drift\n\n{stores} stores of {nodes} nodes of 8 GPUs, {sessions} daily \
         sessions, 192 figures. Planted in six of them: a step in the middle, or a decay over \
         all sessions. Healthy ones named are counted in {healthy_stores} stores in which \
         nothing is planted, of the rules before in {stores}. No row may have more than 0.1: \
         `cargo test --test library -- --ignored drift_names_few` counts in 200 \
         others.\n\n{drift}\n### Survey of one session\n\n{NODES} nodes of 8 GPUs, 3,200 \
         figures. Planted in eight of them. Healthy ones named are counted in {healthy_fleets} \
         fleets in which nothing is planted. A figure that something slows by 20 or 30 % for \
         its whole only session is slow in that session: it fails, is not confirmed, and is \
         measured again.\n\n{one}\n### Survey of three sessions, taken together\n\nWhere two \
         of three sessions are slow by chance, their median is slow: such a figure fails too, \
         is not confirmed, and is measured again.\n\n{three}",
        include_str!("text.md")
            .replace("FLEETS", &fleets.to_string())
            .replace("SEED", &seed.to_string())
    )
}
