//! The tables, in Markdown.

use super::judges::{Fault, Said, WORLDS, World, drifts, surveys};
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
    for world in &WORLDS {
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
pub fn drift(stores: u64, seed: u64) -> String {
    let faults = [Fault::Step(1.5), Fault::Step(3.0), Fault::Decay(0.8)];
    let row = |world: &World| {
        let null = drifts(world, Fault::Nothing, stores, seed);
        let planted = faults.iter().map(|fault| drifts(world, *fault, stores, seed)).collect();
        (null, planted)
    };
    table("noise", &["step of 1.5 x", "step of 3 x", "decay of 0.8 x"], &row)
}

/// `fleet survey`, of one session.
pub fn survey(fleets: u64, seed: u64) -> String {
    let faults = [Fault::Step(1.5), Fault::Step(2.0), Fault::Step(3.0)];
    let row = |world: &World| {
        let null = surveys(world, Fault::Nothing, 1, fleets, seed);
        let planted = faults.iter().map(|fault| surveys(world, *fault, 1, fleets, seed)).collect();
        (null, planted)
    };
    table("noise", &["1.5 x", "2 x", "3 x"], &row)
}
