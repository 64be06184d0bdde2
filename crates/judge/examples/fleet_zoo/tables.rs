//! The tables, in Markdown.

use super::judges::{Fault, NODES, STORE, Said, World, drifts, surveys, worlds};
use std::fmt::Write as _;

fn found(said: &Said) -> String {
    format!("{:.0} %", 100.0 * said.found as f64 / said.planted.max(1) as f64)
}

/// A row for each world: what is named where nothing is planted, then the power for each fault.
fn table(title: &str, faults: &[&str], row: &dyn Fn(&World) -> (Said, Vec<Said>)) -> String {
    let mut text = format!("| {title} | fleets that name a healthy one | healthy ones a fleet |");
    for fault in faults {
        let _ = write!(text, " {fault}: found (healthy named) |");
    }
    let _ = writeln!(text, "\n| --- |{}", " ---: |".repeat(2 + faults.len()));
    for world in &worlds() {
        let (null, planted) = row(world);
        let _ = write!(
            text,
            "| {} | {} | {:.2} |",
            world.name,
            null.fleets,
            null.healthy as f64 / null.judged.max(1) as f64
        );
        for said in planted {
            let _ = write!(text, " {} ({}) |", found(&said), said.healthy);
        }
        text.push('\n');
    }
    text
}

/// `fleet drift`.
fn drift(stores: u64, seed: u64) -> String {
    let faults = [Fault::Step(1.5), Fault::Step(3.0), Fault::Decay(0.8)];
    let row = |world: &World| {
        let null = drifts(world, Fault::Nothing, stores, seed);
        let planted = faults.iter().map(|fault| drifts(world, *fault, stores, seed)).collect();
        (null, planted)
    };
    table("noise", &["step of 1.5 x", "step of 3 x", "decay of 0.8 x"], &row)
}

/// `fleet survey`, of some sessions.
fn survey(sessions: usize, fleets: u64, seed: u64) -> String {
    let faults = [Fault::Step(1.5), Fault::Step(2.0), Fault::Step(3.0)];
    let row = |world: &World| {
        let null = surveys(world, Fault::Nothing, sessions, fleets, seed);
        let planted =
            faults.iter().map(|fault| surveys(world, *fault, sessions, fleets, seed)).collect();
        (null, planted)
    };
    table("noise", &["1.5 x", "2 x", "3 x"], &row)
}

/// The section of the page.
pub fn page(fleets: u64, seed: u64) -> String {
    let (nodes, sessions) = STORE;
    format!(
        "Simulated by `cargo run --release -p fizeau-judge --example fleet_zoo -- {fleets} \
         {seed}`: {fleets} fleets of each row. Four metrics with least effects of 2 to 5 %. One \
         repeat has a standard deviation of 0.2 of the least effect, healthy GPUs differ by \
         0.15, and a session has five repeats. Noises are those of `tests/zoo`. \
         In brackets: healthy figures that are \
         named beside the planted ones.\n\n\
         ### Drift\n\n\
         {nodes} nodes of 8 GPUs, {sessions} daily sessions, 192 figures. Planted in six of them: \
         a step in the middle, or a decay over all sessions.\n\n{}\n\
         ### Survey of one session\n\n\
         {NODES} nodes of 8 GPUs, 3,200 figures. Planted in eight of them. A figure that something \
         slows by 20 or 30 % for its whole only session is slow in that session: it fails, is not \
         confirmed, and is measured again.\n\n{}\n\
         ### Survey of three sessions, taken together\n\n{}",
        drift(fleets, seed),
        survey(1, fleets, seed),
        survey(3, fleets, seed)
    )
}
