//! Tries `fizeau fleet drift` and `fizeau fleet survey` on fleets whose figures scatter as the zoo
//! of noises (tests/zoo) has it, and prints the tables of docs/appendix/fleet-rates.md.
//!
//!     cargo run -p fizeau-judge --example fleet_zoo              # as the page has it
//!     cargo run -p fizeau-judge --example fleet_zoo -- FLEETS SEED
//!     cargo run -p fizeau-judge --example fleet_zoo -- FLEETS SEED csv   # figures alone
//!     cargo run -p fizeau-judge --example fleet_zoo -- FLEETS SEED csv drift   # of one judge
//!     cargo run -p fizeau-judge --example fleet_zoo -- FLEETS SEED csv drift "2 %"   # one noise
//!
//! `before.csv` has the figures of the rules before: its first lines say how they were made.

mod judges;
mod oracle;
mod tables;
#[path = "../../../../tests/zoo/mod.rs"]
mod zoo;

/// Fleets of each row.
const FLEETS: u64 = 8;
const SEED: u64 = 1849;

fn main() -> Result<(), std::num::ParseIntError> {
    let mut arguments = std::env::args().skip(1);
    let fleets: u64 = arguments.next().map_or(Ok(FLEETS), |text| text.parse())?;
    let seed: u64 = arguments.next().map_or(Ok(SEED), |text| text.parse())?;
    match arguments.next().as_deref() {
        Some("csv") => {
            let [judge, noise] = [(); 2].map(|()| arguments.next().unwrap_or_default());
            print!("{}", tables::csv(fleets, seed, [&judge, &noise]));
        }
        _ => {
            let now = tables::csv(fleets, seed, ["", ""]);
            print!("{}", tables::page(include_str!("before.csv"), &now, [fleets, seed]));
        }
    }
    Ok(())
}
