//! `fizeau fleet simulate`: planted fleets, and what each rule makes of them.

use super::store::Writer;
use crate::cmd::{disk, exit::Usage, global::Global, output};
use anyhow::Context as _;
use clap::Args;
use fizeau_device::clock;
use fizeau_domain::text::counted;
use fizeau_judge::fleet::{
    component::Kind,
    planted::{Fleet, device_name, node_name},
    recipe::Recipe,
    score::{self, Scores, Tally},
};
use fizeau_record::file;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// The recipe where none is named.
const BUILT_IN: &str = include_str!("../../../examples/fleet/recipe.toml");

/// Longest recipe, in bytes.
const RECIPE_MAX: u64 = 1 << 20;

/// Most repeats of a metric of a GPU that are held in memory at once, over all metrics and GPUs.
const VALUES_MAX: usize = 200_000_000;

/// Arguments of `fleet simulate`.
#[derive(Args, Clone, Debug)]
pub struct SimulateArgs {
    /// The recipe: spreads, faults, neighbours and noise [default: a built-in one, which
    /// --print-recipe prints]
    #[arg(value_name = "FLEET.toml")]
    pub recipe: Option<PathBuf>,
    /// Print the built-in recipe, to begin one of your own with, and simulate nothing
    #[arg(long, conflicts_with_all = ["recipe", "set", "write_fleet"])]
    pub print_recipe: bool,
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
    /// Score nothing, and write the first fleet for `fizeau fleet survey`: store/, labels.csv,
    /// expected.csv, and its true losses as truth.csv
    #[arg(long = "out", alias = "write-fleet", value_name = "DIR")]
    pub write_fleet: Option<PathBuf>,
}

/// Plants, judges and scores.
///
/// # Errors
/// Where the recipe cannot be read or is refused.
pub fn run(args: &SimulateArgs, global: &Global) -> anyhow::Result<ExitCode> {
    if args.print_recipe {
        return output::print(BUILT_IN.trim_end());
    }
    let recipe = recipe(args)?;
    let values = recipe.repeats * recipe.metrics.len() * args.gpus as usize;
    if values > VALUES_MAX {
        let words = format!(
            "--gpus {}: with {} of {} this is more than {VALUES_MAX} values",
            args.gpus,
            counted(recipe.repeats, "repeat"),
            counted(recipe.metrics.len(), "metric")
        );
        return Err(Usage(words).into());
    }
    if let Some(folder) = &args.write_fleet {
        return write_fleet(&recipe, args, folder);
    }
    let scores = score::score(&recipe, args.gpus as usize, args.fleets as usize, args.seed);
    match global.json {
        true => output::print_json(&scores),
        false => output::print(table(&scores, &recipe).trim_end()),
    }
}

fn recipe(args: &SimulateArgs) -> anyhow::Result<Recipe> {
    let name = args.recipe.as_deref().map_or("the built-in recipe".to_owned(), output::shown);
    let text = match &args.recipe {
        None => BUILT_IN.to_owned(),
        Some(path) => file::read_text(path, RECIPE_MAX)
            .with_context(|| format!("cannot read the recipe {name}"))?,
    };
    let refused = |why: String| Usage(format!("{name}: {why}"));
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

/// Writes a planted fleet: what its nodes sent as a store, where they are, which there are to be,
/// and what each GPU truly loses.
fn write_fleet(recipe: &Recipe, args: &SimulateArgs, folder: &Path) -> anyhow::Result<ExitCode> {
    let fleet = Fleet::plant(recipe, args.gpus as usize, args.seed);
    let root = folder.join("store");
    if root.exists() {
        let place = output::shown(&root);
        return Err(Usage(format!("--out: {place} is there already")).into());
    }
    let time = clock::utc_now();
    let mut writer = Writer::new(&root);
    let metrics: Vec<String> = fleet.metrics().map(str::to_owned).collect();
    let sent = || (0..fleet.len()).filter(|gpu| fleet.has_sent(*gpu));
    for gpu in sent() {
        for metric in 0..metrics.len() {
            writer.write(&fleet.row(metric, gpu, &time))?;
        }
    }
    writer.end()?;
    let kinds = fleet.kinds();
    let kinds: Vec<&Kind> = kinds.iter().filter(|kind| kind.name != "node").collect();
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
    let mut labels = format!("node,device,{}\n", names.join(","));
    let truth = fleet.truth();
    let mut losses = String::from("node,device,metric,loss\n");
    let mut expected = String::from("node,gpus\n");
    let mut gpus_of: BTreeMap<u32, usize> = BTreeMap::new();
    for gpu in 0..fleet.len() {
        let place = gpus_of.entry(fleet.nodes[gpu]).or_default();
        let (node, device) = (node_name(fleet.nodes[gpu]), device_name(*place));
        *place += 1;
        let own: Vec<&str> = { kinds.iter() }
            .map(|kind| kind.of[gpu].map_or("", |at| kind.names[at as usize].as_str()))
            .collect();
        let _ = writeln!(labels, "{node},{device},{}", own.join(","));
        for (metric, of_metric) in metrics.iter().zip(&truth) {
            let _ = writeln!(losses, "{node},{device},{metric},{}", of_metric[gpu]);
        }
    }
    for (node, gpus) in &gpus_of {
        let _ = writeln!(expected, "{},{gpus}", node_name(*node));
    }
    for (name, text) in [("labels", labels), ("expected", expected), ("truth", losses)] {
        let path = folder.join(format!("{name}.csv"));
        disk::write_file(&path, text.as_bytes(), "--out DIR")?;
    }
    let shown = output::shown(folder);
    output::print(&format!(
        "{shown}: {} of {} GPUs sent {}. Next: fizeau fleet survey {shown}/store --labels \
         {shown}/labels.csv --expected {shown}/expected.csv",
        sent().count(),
        fleet.len(),
        counted(metrics.len(), "metric")
    ))
}

/// The scores as a table of Markdown.
fn table(scores: &Scores, recipe: &Recipe) -> String {
    let mut out = format!(
        "{} of {}, {}, {} of each. {:.2} % of the GPUs sent nothing.\n\n",
        counted(scores.fleets, "fleet"),
        counted(scores.gpus, "GPU"),
        counted(recipe.metrics.len(), "metric"),
        counted(recipe.repeats, "repeat"),
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
