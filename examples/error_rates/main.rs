//! How often Fizeau's judgements err: simulates intervals, `fizeau compare` and `fizeau ab` with
//! the program's own rules, and prints docs/appendix/error-rates.md.
//!
//!     cargo run --example error_rates > docs/appendix/error-rates.md
//!     cargo run --example error_rates -- RUNS SEED      # fewer runs, another seed
//!
//! Whoever changes a rule prints it again and sees what the change costs. The same modules are run
//! with few runs by tests/library/error_rates.rs.

mod gates;
mod intervals;
mod machine;
mod random;
mod table;

use fizeau_record::store;

/// Runs of each simulated interval; gates have half of them.
const RUNS: usize = 2_000;
const SEED: u64 = 1849;

/// The committed record whose cases are cut in the middle.
const RECORD: &str = "results/epyc-9005/2026-11-21-kvm-2-cores";

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let runs: usize = arguments.next().map_or(Ok(RUNS), |text| text.parse())?;
    let seed: u64 = arguments.next().map_or(Ok(SEED), |text| text.parse())?;
    let gates = runs.div_ceil(2);
    let record = store::read(RECORD.as_ref())?;
    let cases: Vec<Vec<f64>> = record
        .outcomes
        .iter()
        .filter_map(|outcome| outcome.measured())
        .map(|one| one.samples.times.iter().map(|time| time.0).collect())
        .collect();
    let [long, known, holding] = intervals::halves(&cases);
    let text = format!(
        include_str!("text.md"),
        runs = runs,
        seed = seed,
        gates = gates,
        record = RECORD,
        coverage = intervals::table(runs, seed),
        long = long,
        known = known,
        holding = holding,
        share = table::percent(holding, known),
        compare_unchanged = gates::compare_unchanged(gates, seed),
        compare_planted = gates::compare_planted(gates, seed),
        ab = gates::ab_table(gates, seed),
        ab_fates = gates::ab_fates(gates, seed),
    );
    print!("{text}");
    Ok(())
}
