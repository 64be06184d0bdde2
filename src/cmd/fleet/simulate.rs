//! `fizeau fleet simulate`: planted fleets, and what each rule makes of them.

use crate::{
    cmd::{self, Global, Usage},
    file,
    fleet::{
        recipe::Recipe,
        score::{self, Scores, Tally},
    },
};
use anyhow::Context as _;
use clap::Args;
use std::{fmt::Write as _, path::PathBuf, process::ExitCode};

/// Longest recipe, in bytes.
const RECIPE_MAX: u64 = 1 << 20;

/// Most repeats of a metric of a GPU that are held in memory at once, over all metrics and GPUs.
const VALUES_MAX: usize = 200_000_000;

/// Arguments of `fleet simulate`.
#[derive(Args, Clone, Debug)]
pub struct SimulateArgs {
    /// The recipe: spreads, faults, neighbours and noise (examples/fleet/recipe.toml)
    #[arg(value_name = "FLEET.toml")]
    pub recipe: PathBuf,
    /// GPUs of each fleet
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub gpus: u32,
    /// How many fleets, each with the next seed
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub fleets: u32,
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Replace a value of the recipe, such as noise.shape=heavy_tails or faulty=0 (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Plants, judges and scores.
///
/// # Errors
/// Where the recipe cannot be read or is refused.
pub fn run(args: &SimulateArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let recipe = recipe(args)?;
    let values = recipe.repeats * recipe.metrics.len() * args.gpus as usize;
    if values > VALUES_MAX {
        let words = format!(
            "--gpus {}: with {} repeats of {} metrics this is more than {VALUES_MAX} values",
            args.gpus,
            recipe.repeats,
            recipe.metrics.len()
        );
        return Err(Usage(words).into());
    }
    let scores = score::score(&recipe, args.gpus as usize, args.fleets as usize, args.seed);
    match global.json {
        true => cmd::print_json(&scores),
        false => cmd::print(table(&scores, &recipe).trim_end()),
    }
}

fn recipe(args: &SimulateArgs) -> anyhow::Result<Recipe> {
    let text = file::read_text(&args.recipe, RECIPE_MAX)
        .with_context(|| format!("cannot read the recipe {}", cmd::shown(&args.recipe)))?;
    let refused = |why: String| Usage(format!("{}: {why}", cmd::shown(&args.recipe)));
    let mut table: toml::Table =
        text.parse().map_err(|error: toml::de::Error| refused(error.to_string()))?;
    for words in &args.set {
        set(&mut table, words).map_err(|why| Usage(format!("--set {words}: {why}")))?;
    }
    let text = toml::to_string(&table)?;
    Ok(Recipe::parse(&text).map_err(|error| refused(error.to_string()))?)
}

/// Replaces a value of a table by `KEY=VALUE`, the key's parts separated by dots.
fn set(table: &mut toml::Table, words: &str) -> Result<(), String> {
    let (key, value) = words.split_once('=').ok_or("it has to be KEY=VALUE")?;
    let parsed: Result<toml::Table, _> = format!("value = {value}").parse();
    let value = match parsed {
        Ok(mut table) => table.remove("value").ok_or("it has no value")?,
        // A word without quotes.
        Err(_) => toml::Value::String(value.into()),
    };
    let mut parts: Vec<&str> = key.split('.').collect();
    let last = parts.pop().unwrap_or_default();
    let mut place = table;
    for part in parts {
        let below = place.get_mut(part).and_then(toml::Value::as_table_mut);
        place = below.ok_or_else(|| format!("the recipe has no table {part:?}"))?;
    }
    place.insert(last.into(), value);
    Ok(())
}

/// The scores as a table of Markdown.
fn table(scores: &Scores, recipe: &Recipe) -> String {
    let mut out = format!(
        "{} fleets of {} GPUs, {} metrics, {} repeats of each. {:.2} % of the GPUs sent \
         nothing.\n\n",
        scores.fleets,
        scores.gpus,
        recipe.metrics.len(),
        recipe.repeats,
        100.0 * scores.missing as f64 / (scores.gpus * scores.fleets).max(1) as f64
    );
    out += "| rule | precision | recall | false discoveries of a fleet, mean | fleets with a false \
            discovery | healthy and inconclusive |\n| --- | --- | --- | --- | --- | --- |\n";
    for (rule, tally) in &scores.rules {
        out += &row(&rule.words(), tally);
    }
    let _ = writeln!(
        out,
        "\nTo be measured anew: {:.2} % of the GPUs. In {} of {} fleets the survey says that the \
         noise is not as the test assumes.",
        100.0 * scores.retest_share(),
        scores.doubted,
        scores.fleets
    );
    let components = &scores.components;
    let _ = match &recipe.component {
        Some(planted) => writeln!(
            out,
            "One {} lost {:.1} %: it was named in {} of {} fleets, and another leaf, rack or rail \
             in {}.",
            planted.kind,
            100.0 * planted.loss,
            components.right,
            components.planted,
            components.wrong
        ),
        None => writeln!(
            out,
            "No leaf, rack or rail was slow; one was named in {} of {} fleets.",
            components.wrong, scores.fleets
        ),
    };
    out
}

fn row(words: &str, tally: &Tally) -> String {
    let share = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.4}"));
    format!(
        "| {words} | {} | {} | {:.4} | {} | {:.2} % |\n",
        share(tally.precision()),
        share(tally.recall()),
        tally.false_discovery_rate(),
        tally.fleets_wrong,
        100.0 * tally.inconclusive as f64 / tally.healthy.max(1) as f64
    )
}
