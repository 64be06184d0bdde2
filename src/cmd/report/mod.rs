//! `fizeau report`: makes the report of a run again, from its record alone.

mod generations;

use super::{
    disk::{self, Newest},
    document::{self, ReportFormat},
    exit::Usage,
    global::Global,
    output,
    records::{frontier, gpus},
};
use anyhow::{Context as _, bail};
use clap::Args;
use fizeau_domain::text::counted;
use fizeau_record::{Record, store};
use fizeau_report::{
    self as report, Document, about,
    format::{nccl_tests, nvbandwidth, superbench},
};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Arguments of `report`.
#[derive(Args, Clone, Debug)]
pub struct ReportArgs {
    /// Records, or the directories they are in [default: the newest under results/local]
    #[arg(value_name = "RECORD_OR_DIR")]
    pub records: Vec<PathBuf>,
    /// Output format [default: terminal, or by the name of --out; json with --json]
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Only the summary that a run ends with: verdict, headline figures, failures
    #[arg(long)]
    pub summary: bool,
    /// Compare generations: records of other parts, or names of the catalogue (a100-sxm4-80), the
    /// oldest first; RECORD_OR_DIR is the newest. Shows each part's share of its limits, its
    /// machine balance, what limits each kernel, and which to tune first
    #[arg(long, alias = "against", value_name = "RECORD_OR_PART", num_args = 1..,
          conflicts_with = "summary")]
    pub vs: Vec<String>,
    /// Write each chart as a PNG file into this directory: curves over sizes, and a bar for each
    /// kernel of operations that have none. Their names are printed in place of the report, unless
    /// --out, --format, --summary or --json asks for it
    #[cfg(feature = "png")]
    #[arg(long, value_name = "DIR")]
    pub png: Option<PathBuf>,
}

/// Makes the reports of records.
///
/// # Errors
/// Where a record cannot be read or a file cannot be written.
pub fn run(args: &ReportArgs, global: &Global) -> anyhow::Result<ExitCode> {
    if !args.vs.is_empty() {
        return generations::run(args, global);
    }
    let paths = match args.records.as_slice() {
        [] => vec![newest(Path::new(disk::LOCAL))?],
        given => given.to_vec(),
    };
    if paths.len() > 1 && args.out.is_some() {
        let why = "--out takes the report of one record; leave it out, or give one record";
        return Err(Usage(why.into()).into());
    }
    let format = document::format_of(args.format, args.out.as_deref(), global)?;
    disk::spare_records(args.out.as_deref(), &paths)?;
    #[cfg(feature = "png")]
    let mut pictures = Vec::new();
    for path in &paths {
        let is_frontier = frontier::is_run(path);
        let record = match is_frontier || gpus::is_run(path) {
            true => None,
            false => Some(store::read(path)?),
        };
        let document = match &record {
            Some(record) => report::run(record),
            None if is_frontier => frontier::document(path)?,
            None => report::side_by_side(&gpus::read(path)?),
        };
        #[cfg(feature = "png")]
        if let Some(dir) = &args.png {
            pictures.extend(write_pictures(dir, record.as_ref(), &document)?);
            let is_asked = args.out.is_some() || args.format.is_some() || args.summary;
            if !is_asked && !global.json {
                continue;
            }
        }
        let document = match &record {
            _ if !args.summary => document,
            Some(record) => report::brief(record),
            None => document.summary(),
        };
        let terminal = document::terminal(args.out.as_deref(), global);
        let text = match format {
            ReportFormat::Nvbandwidth | ReportFormat::Superbench => {
                as_others_read(path, record.as_ref(), format, global)?
            }
            ReportFormat::NcclTests => match &record {
                Some(record) => as_nccl_tests(record, global)?,
                None => bail!("nccl-tests reports ranks; these GPUs were measured without"),
            },
            _ => {
                let about = record.as_ref().map(about::of_run).unwrap_or_default();
                document::render_about(&document, &about, format, terminal)?
            }
        };
        document::deliver(&text, args.out.as_deref())?;
    }
    #[cfg(feature = "png")]
    if args.png.is_some() {
        say_pictures(&pictures)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The collectives of a record as `nccl-tests` writes them: its text, or with `--json` its JSON.
fn as_nccl_tests(record: &Record, global: &Global) -> anyhow::Result<String> {
    let tests = report::nccl_tests(record);
    if tests.is_empty() {
        bail!("the record has no collectives, which is all that nccl-tests reports");
    }
    Ok(if global.json { nccl_tests::json(&tests) } else { nccl_tests::text(&tests) })
}

/// A record, or those of several GPUs of a node, as `nvbandwidth` or SuperBench writes results.
fn as_others_read(
    path: &Path,
    record: Option<&Record>,
    format: ReportFormat,
    global: &Global,
) -> anyhow::Result<String> {
    let of_gpus = match record {
        Some(_) => Vec::new(),
        None => gpus::read(path)?,
    };
    let records: Vec<&Record> =
        record.into_iter().chain(of_gpus.iter().filter_map(|gpu| gpu.record.as_ref())).collect();
    let backends: BTreeSet<&str> =
        records.iter().map(|record| record.header.device.backend.as_str()).collect();
    if backends.len() > 1 {
        bail!("this form numbers GPUs of one vendor; give the record of each vendor's by itself");
    }
    if records.iter().any(|record| record.header.device.is_stub()) {
        bail!(
            "{} is of a stub driver, whose times mean nothing: this form has no place to mark \
             them, and is not written",
            output::shown(path)
        );
    }
    if format == ReportFormat::Superbench {
        let Some(results) = report::superbench(&records) else {
            bail!("{} holds no record", output::shown(path));
        };
        return Ok(superbench::line(&results));
    }
    let bandwidths = report::nvbandwidth(&records);
    if bandwidths.tests.is_empty() {
        bail!("the record has no transfers, which are all that nvbandwidth reports");
    }
    Ok(if global.json { nvbandwidth::json(&bandwidths) } else { nvbandwidth::text(&bandwidths) })
}

/// The record last written to below a directory. Where others may write there, of this user's own.
///
/// # Errors
/// Where there is none.
fn newest(local: &Path) -> anyhow::Result<PathBuf> {
    let mut records = Vec::new();
    if let Ok(entries) = fs::read_dir(local) {
        for entry in entries {
            let path = entry?.path();
            let own = (path.join(store::FILE), path.join(store::FILE));
            let of_gpus = gpus::directories(&path).into_iter();
            let of_gpus = of_gpus.map(|(_, gpu)| (gpu.join(store::FILE), path.clone()));
            records.extend(of_gpus.chain([own]));
        }
    }
    let Newest { path, others } = disk::newest(local, records);
    if others > 0 {
        let (count, place) = (counted(others, "record"), output::shown(local));
        let words = "of other users, who may write there, skipped: name one to see it";
        output::say(&format!("{place}: {count} {words}"));
    }
    path.with_context(|| {
        format!("there is no record under {} yet: `fizeau run` makes one, or name one", disk::LOCAL)
    })
}

/// Each chart as a file named after it; the files.
#[cfg(feature = "png")]
fn write_pictures(
    dir: &Path,
    record: Option<&Record>,
    document: &Document,
) -> anyhow::Result<Vec<PathBuf>> {
    use fizeau_report::format::png;
    let bars = record.map(report::bars).unwrap_or_default();
    let bars = bars.iter().map(|bars| (&bars.name, png::render_bars(bars, document)));
    let charts = document.charts().map(|chart| (&chart.name, png::render(chart, document)));
    let mut written = Vec::new();
    for (name, picture) in bars.chain(charts) {
        disk::make_directory(dir, "--png DIR")?;
        let path = dir.join(format!("{name}.png"));
        disk::write_file(&path, &picture?, "--png DIR")?;
        written.push(path);
    }
    Ok(written)
}

/// Names the pictures that were written.
#[cfg(feature = "png")]
fn say_pictures(pictures: &[PathBuf]) -> anyhow::Result<()> {
    if pictures.is_empty() {
        bail!(
            "--png wrote no picture: no case of the record was measured on a real device, and only \
             a measured case can be drawn"
        );
    }
    let names: Vec<String> = pictures.iter().map(|path| output::shown(path)).collect();
    output::say(&format!("wrote {}:\n  {}", counted(names.len(), "picture"), names.join("\n  ")));
    Ok(())
}
