//! `fizeau project --validate`: measurements beside the three tiers.

use super::{
    super::{
        document::{self, ReportFormat},
        exit::{self, Usage},
        global::Global,
        parts,
    },
    ProjectArgs,
};
use crate::data::Catalogue;
use fizeau_domain::model::Model;
use fizeau_projection::{
    claim::ClaimFile,
    project::Hardware,
    validate::{Entry, TEXT_MAX, Validation, beside, read},
};
use fizeau_record::file;
use fizeau_report::{Block, format::csv, validation};
use std::{collections::BTreeMap, path::Path, process::ExitCode};

/// The list that fizeau was built with.
const BUILT_IN: &str = "built-in";

/// Measurements of a file, or of the catalogue: its lists, and the rates of tokens among its
/// claims.
fn entries(list: &Path, catalogue: &Catalogue) -> anyhow::Result<Vec<Entry>> {
    if list != Path::new(BUILT_IN) {
        let text = file::read_text(list, TEXT_MAX)?;
        let refuse = |why: String| Usage(format!("--validate {}: {why}", list.display()));
        return Ok(read(&text).map_err(refuse)?);
    }
    built_in(catalogue).map_err(|why| Usage(format!("--validate {BUILT_IN}: {why}")).into())
}

/// The measurements of the catalogue.
fn built_in(catalogue: &Catalogue) -> Result<Vec<Entry>, String> {
    let mut all = Vec::new();
    for (name, text) in &catalogue.published {
        let entries = read(text).map_err(|why| format!("{name}: {why}"))?;
        let named = |entry: Entry| Entry { id: format!("{name}, {}", entry.id), ..entry };
        all.extend(entries.into_iter().map(named));
    }
    let text = catalogue.claims.get("tokens").map_or("", String::as_str);
    for claim in &ClaimFile::parse(text)?.claim {
        all.extend(Entry::of_claim(claim)?);
    }
    Ok(all)
}

/// Sets measurements beside the tiers.
///
/// # Errors
/// Where a part, a record or a model is not known, or a measurement cannot be of it.
fn validated(
    entries: &[Entry],
    catalogue: &Catalogue,
    is_published: bool,
) -> anyhow::Result<Validation> {
    let mut models: BTreeMap<&str, Model> = BTreeMap::new();
    let mut parts: BTreeMap<&str, Hardware> = BTreeMap::new();
    let mut validation = Validation::default();
    for entry in entries {
        let of_line = |why: String| Usage(format!("{}: {why}", entry.id));
        if !models.contains_key(entry.model.as_str()) {
            let model = catalogue.model(&entry.model).map_err(|why| of_line(why.to_string()))?;
            models.insert(&entry.model, model);
        }
        if !parts.contains_key(entry.part.as_str()) {
            let hardware = parts::hardware(catalogue, &entry.part, is_published);
            let hardware = hardware.map_err(|why| of_line(why.to_string()))?;
            parts.insert(&entry.part, hardware);
        }
        let (model, hardware) = (&models[entry.model.as_str()], &parts[entry.part.as_str()]);
        validation.points.push(beside(entry, model, hardware).map_err(Usage)?);
    }
    Ok(validation)
}

/// Measurements that are listed one by one on a screen, at most.
const LISTED_MOST: usize = 40;

/// Sets a list beside the tiers and prints what comes of it. Code 1 where one is above L0.
///
/// # Errors
/// Where the list cannot be read or used, or the result cannot be written.
pub fn run(args: &ProjectArgs, list: &Path, global: &Global) -> anyhow::Result<ExitCode> {
    let out = args.out.as_deref();
    let format = document::format_without_cases(args.format, out, global, "measurements")?;
    let catalogue = Catalogue::load(global.data.as_deref())?;
    let entries = entries(list, &catalogue)?;
    let validation = validated(&entries, &catalogue, !args.no_published)?;
    let mut document = self::validation(&validation);
    // A screen is no place for hundreds of lines.
    if format == ReportFormat::Terminal && validation.points.len() > LISTED_MOST {
        document.blocks.retain(|block| match block {
            Block::Table(table) => table.name != "measurements",
            _ => true,
        });
        document
            .blocks
            .push(Block::Text("Each measurement on a line: --format csv, or --out FILE.".into()));
    }
    let text = match format {
        ReportFormat::Csv => csv::of_tables(&document, &["measurements"])?,
        _ => document::render(&document, format, document::window(global))?,
    };
    document::deliver(&text, out)?;
    let is_contradicted = validation.above_bound().next().is_some();
    Ok(if is_contradicted { ExitCode::from(exit::FAILED) } else { ExitCode::SUCCESS })
}
