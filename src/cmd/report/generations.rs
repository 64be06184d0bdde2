//! `fizeau report --vs`: records and parts of several generations beside each other.

use super::ReportArgs;
use crate::{
    cmd::{
        disk,
        document::{self, ReportFormat},
        exit::Usage,
        global::Global,
        output::{self, shown},
        parts::part_called,
        plan,
        records::gpus,
    },
    data::Catalogue,
};
use fizeau_domain::spec::Part;
use fizeau_record::{Header, Record, store};
use fizeau_report::{
    format::csv,
    generations::{self, Side},
};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// What one generation was given as.
struct Given {
    origin: String,
    record: Option<Record>,
    /// Its part's id, where the catalogue names it.
    part: Option<String>,
}

/// Sets what `--vs` names and then the records beside each other.
///
/// # Errors
/// Where a record cannot be read, a part is not known, or the report cannot be written.
pub fn run(args: &ReportArgs, global: &Global) -> anyhow::Result<ExitCode> {
    #[cfg(feature = "png")]
    if args.png.is_some() {
        let why = "--png writes charts, and --vs has none: --out FILE.html makes a page";
        return Err(Usage(why.into()).into());
    }
    let out = args.out.as_deref();
    let format = document::format_without_cases(args.format, out, global, "generations")?;
    let catalogue = plan::catalogue(global)?;
    let paths: Vec<PathBuf> =
        args.vs.iter().map(PathBuf::from).chain(args.records.iter().cloned()).collect();
    disk::spare_records(out, &paths)?;
    let against = args.vs.iter().map(|name| match Path::new(name).exists() {
        true => of_record(&catalogue, Path::new(name)),
        false => of_part(&catalogue, name),
    });
    let records = args.records.iter().map(|path| of_record(&catalogue, path));
    let given = against.chain(records).collect::<anyhow::Result<Vec<Given>>>()?;
    if given.len() < 2 {
        let why = "--vs sets generations beside each other: give a record too, or a second \
                   part";
        return Err(Usage(why.into()).into());
    }
    let part = |id: &String| catalogue.parts.iter().find(|part| part.id == *id);
    let sides: Vec<Side<'_>> = names(&given)
        .into_iter()
        .zip(&given)
        .map(|(name, one)| Side {
            name,
            record: one.record.as_ref(),
            part: one.part.as_ref().and_then(part),
            origin: one.origin.clone(),
        })
        .collect();
    let text = match format {
        ReportFormat::Csv => csv::of_table(&generations::table(&sides))?,
        _ => {
            let terminal = document::terminal(out, global);
            document::render(&generations::document(&sides), format, terminal)?
        }
    };
    document::deliver(&text, out)?;
    Ok(ExitCode::SUCCESS)
}

fn of_record(catalogue: &Catalogue, path: &Path) -> anyhow::Result<Given> {
    if gpus::is_run(path) {
        return Err(Usage(format!(
            "{} is a run of several GPUs: name the directory of one of them",
            shown(path)
        ))
        .into());
    }
    let record = store::read(path)?;
    let named = |part: &Part| part.id.clone();
    // A record says what it was matched to; a part that --data describes since then is found too.
    let part = record.header.part.clone();
    let part = part.or_else(|| catalogue.part_of(&record.header.device).map(named));
    Ok(Given { origin: shown(path), record: Some(record), part })
}

fn of_part(catalogue: &Catalogue, name: &str) -> anyhow::Result<Given> {
    let (part, note) = part_called(catalogue, "--vs", name)?;
    if let Some(note) = note {
        output::say(&note);
    }
    Ok(Given { origin: "the catalogue".into(), record: None, part: Some(part.id.clone()) })
}

/// A name for each: its part or its device; of two that are alike also the architecture, then the
/// run, then their place.
fn names(given: &[Given]) -> Vec<String> {
    let plain = |one: &Given| {
        let device = || header(one).map(|header| header.device.name.clone()).unwrap_or_default();
        one.part.clone().unwrap_or_else(device)
    };
    let target = |one: &Given| header(one)?.device.features.first().cloned();
    let run = |one: &Given| Some(format!("run {}", header(one)?.run));
    let mut names: Vec<String> = given.iter().map(plain).collect();
    for detail in [target as fn(&Given) -> Option<String>, run] {
        let doubled = doubled(&names);
        for (name, one) in names.iter_mut().zip(given).filter(|(name, _)| doubled.contains(*name)) {
            name.extend(detail(one).map(|detail| format!(" {detail}")));
        }
    }
    let doubled = doubled(&names);
    for (at, name) in names.iter_mut().enumerate() {
        if doubled.contains(name) {
            *name += &format!(" #{}", at + 1);
        }
    }
    names
}

fn header(given: &Given) -> Option<&Header> {
    given.record.as_ref().map(|record| &record.header)
}

fn doubled(names: &[String]) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    names.iter().filter(|name| !seen.insert(*name)).cloned().collect()
}
