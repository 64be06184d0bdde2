//! `fizeau report`: makes the report of a run again, from its record alone.

use super::{Global, Usage, frontier, generations, side_by_side, write_file};
use anyhow::{Context as _, bail};
use clap::{
    Args, ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};
use fizeau_record::{Record, store};
use fizeau_report::{
    self as report, About, Document, about,
    format::{
        csv, html, json, markdown, nccl_tests, nvbandwidth, superbench,
        terminal::{self, Colour, Terminal},
    },
};
use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Where `fizeau run` leaves its records.
const LOCAL: &str = "results/local";

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
    /// Generations beside each other: records of other parts, or parts of the catalogue alone
    /// (a100-sxm4-80), the oldest first; RECORD_OR_DIR is the newest. Shares of each part's limit,
    /// machine balance, what limits now, what to tune again first
    #[arg(long, value_name = "RECORD_OR_PART", num_args = 1.., conflicts_with = "summary")]
    pub against: Vec<String>,
    /// Also write each chart as a PNG file into this directory
    #[cfg(feature = "png")]
    #[arg(long, value_name = "DIR")]
    pub png: Option<PathBuf>,
}

/// Makes the reports of records.
///
/// # Errors
/// Where a record cannot be read or a file cannot be written.
pub fn run(args: &ReportArgs, global: &Global) -> anyhow::Result<ExitCode> {
    if !args.against.is_empty() {
        return generations::run(args, global);
    }
    let paths = match args.records.as_slice() {
        [] => vec![newest(Path::new(LOCAL))?],
        given => given.to_vec(),
    };
    if paths.len() > 1 && args.out.is_some() {
        let why = "--out takes the report of one record; leave it out, or give one record";
        return Err(Usage(why.into()).into());
    }
    let format = format_of(args.format, args.out.as_deref(), global)?;
    super::spare_records(args.out.as_deref(), &paths)?;
    for path in &paths {
        let is_frontier = frontier::is_run(path);
        let record = match is_frontier || side_by_side::is_run(path) {
            true => None,
            false if path.is_dir() && !path.join(store::FILE).exists() => bail!(
                "there is no record in {}: name the directory of a run, which has a {}",
                super::shown(path),
                store::FILE
            ),
            false => Some(store::read(path)?),
        };
        let document = match &record {
            Some(record) => report::run(record),
            None if is_frontier => frontier::document(path)?,
            None => report::side_by_side(&side_by_side::read(path)?),
        };
        #[cfg(feature = "png")]
        if let Some(dir) = &args.png {
            write_pictures(dir, &document)?;
        }
        let document = match &record {
            _ if !args.summary => document,
            Some(record) => report::brief(record),
            None => document.summary(),
        };
        let terminal = if args.out.is_some() { FILE } else { window(global) };
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
                render_about(&document, &about, format, terminal)?
            }
        };
        match &args.out {
            Some(out) => write_file(out, text.as_bytes(), "--out FILE")?,
            None => super::write_out(&text)?,
        }
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
        None => side_by_side::read(path)?,
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
            super::shown(path)
        );
    }
    if format == ReportFormat::Superbench {
        let Some(results) = report::superbench(&records) else {
            bail!("{} holds no record", super::shown(path));
        };
        return Ok(superbench::line(&results));
    }
    let bandwidths = report::nvbandwidth(&records);
    if bandwidths.tests.is_empty() {
        bail!("the record has no transfers, which are all that nvbandwidth reports");
    }
    Ok(if global.json { nvbandwidth::json(&bandwidths) } else { nvbandwidth::text(&bandwidths) })
}

/// How the names of files end, and what is written to them.
const ENDINGS: [(&str, ReportFormat); 6] = [
    ("html", ReportFormat::Html),
    ("htm", ReportFormat::Html),
    ("md", ReportFormat::Markdown),
    ("csv", ReportFormat::Csv),
    ("json", ReportFormat::Json),
    ("txt", ReportFormat::Terminal),
];

/// The format asked for, by flag or by the end of the file's name.
///
/// # Errors
/// Where neither says one: a file would else hold something else than its name promises.
pub fn format_of(
    flag: Option<ReportFormat>,
    out: Option<&Path>,
    global: &Global,
) -> Result<ReportFormat, Usage> {
    let ending = out.and_then(Path::extension).and_then(|end| end.to_str());
    let by_name = ENDINGS.iter().find(|(name, _)| Some(*name) == ending).map(|(_, format)| *format);
    match (flag.or(by_name), out) {
        (Some(format), _) => Ok(format),
        (None, _) if global.json => Ok(ReportFormat::Json),
        (None, None) => Ok(ReportFormat::Terminal),
        (None, Some(path)) => {
            let known = ENDINGS.map(|(name, _)| format!(".{name}")).join(", ");
            Err(Usage(format!(
                "--out {}: the name does not say how it is to be written; end it in one of \
                 {known}, or choose by --format",
                path.display()
            )))
        }
    }
}

/// As [`format_of`], for what is no record of cases, which other programs' forms are of: `what` in
/// words.
///
/// # Errors
/// As [`format_of`], and for forms of other programs.
pub fn format_without_cases(
    flag: Option<ReportFormat>,
    out: Option<&Path>,
    global: &Global,
    what: &str,
) -> Result<ReportFormat, Usage> {
    match format_of(flag, out, global)? {
        format @ (ReportFormat::NcclTests
        | ReportFormat::Nvbandwidth
        | ReportFormat::Superbench) => {
            let name = format.to_possible_value();
            let name = name.as_ref().map_or("this", |value| value.get_name());
            Err(Usage(format!("{name} has no form for {what}: choose --format json")))
        }
        format => Ok(format),
    }
}

/// The record last written to below a directory.
fn newest(local: &Path) -> anyhow::Result<PathBuf> {
    let mut records = Vec::new();
    if let Ok(entries) = fs::read_dir(local) {
        for entry in entries {
            let path = entry?.path();
            let own = (path.join(store::FILE), path.join(store::FILE));
            let of_gpus = side_by_side::gpus(&path).into_iter();
            let of_gpus = of_gpus.map(|(_, gpu)| (gpu.join(store::FILE), path.clone()));
            for (file, record) in of_gpus.chain([own]) {
                if let Ok(written) = fs::metadata(file).and_then(|metadata| metadata.modified()) {
                    records.push((written, record));
                }
            }
        }
    }
    let newest = records.into_iter().max().map(|(_, path)| path);
    newest.with_context(|| {
        format!("there is no record under {LOCAL} yet: `fizeau run` makes one, or name one")
    })
}

/// Each chart as a file named after it.
#[cfg(feature = "png")]
fn write_pictures(dir: &Path, document: &Document) -> anyhow::Result<()> {
    super::make_directory(dir, "--png DIR")?;
    for chart in document.charts() {
        let picture = fizeau_report::format::png::render(chart, document)?;
        write_file(&dir.join(format!("{}.png", chart.name)), &picture, "--png DIR")?;
    }
    Ok(())
}

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Text that fits the window.
    Terminal,
    /// For issues, wikis and READMEs.
    Markdown,
    /// Every case on a line, in SI units.
    Csv,
    /// All derived numbers, in SI units.
    Json,
    /// One page that needs nothing else, with charts.
    Html,
    /// Collectives alone, as nccl-tests prints them; with --json, as its JSON file.
    NcclTests,
    /// Transfers alone, as nvbandwidth prints them; with --json, as its JSON file.
    Nvbandwidth,
    /// A line for the results-summary.jsonl of SuperBench.
    Superbench,
}

/// The formats of a document that is not of one run: all but nccl-tests', which has the collectives
/// of a run alone.
pub fn document_format() -> impl TypedValueParser<Value = ReportFormat> {
    let of_documents = ReportFormat::value_variants()
        .iter()
        .filter(|format| **format != ReportFormat::NcclTests)
        .filter_map(ValueEnum::to_possible_value);
    PossibleValuesParser::new(of_documents).map(|name| {
        // The parser lets through no other name.
        ReportFormat::from_str(&name, false).unwrap_or(ReportFormat::Terminal)
    })
}

/// Renders a document that is of no run.
///
/// # Errors
/// Where a chart cannot be drawn.
pub fn render(
    document: &Document,
    format: ReportFormat,
    terminal: Terminal,
) -> anyhow::Result<String> {
    render_about(document, &About::default(), format, terminal)
}

/// Renders a document; JSON has also what a program asks first.
///
/// # Errors
/// Where a chart cannot be drawn.
pub fn render_about(
    document: &Document,
    about: &About,
    format: ReportFormat,
    terminal: Terminal,
) -> anyhow::Result<String> {
    Ok(match format {
        ReportFormat::Terminal => terminal::render(document, terminal),
        ReportFormat::Markdown => markdown::render(document),
        ReportFormat::Csv => csv::render(document)?,
        ReportFormat::Json => json::render(document, about),
        ReportFormat::Html => html::render(document)?,
        ReportFormat::NcclTests | ReportFormat::Nvbandwidth | ReportFormat::Superbench => {
            anyhow::bail!("this form is of a record, and not of a whole document")
        }
    })
}

/// Text in a file: nothing is cut, nothing is coloured.
pub const FILE: Terminal = Terminal { width: None, colour: Colour::Never };

/// The window that standard output is shown in, where it is shown in one.
pub fn window(global: &Global) -> Terminal {
    let size = terminal_size::terminal_size_of(io::stdout());
    let width = size.map(|(width, _)| usize::from(width.0)).filter(|&width| width > 0);
    let colour = if global.colours() { Colour::Ansi } else { Colour::Never };
    Terminal { width, colour }
}

/// Writes `report.html` and `report.md` of a record into a directory, and says where.
///
/// # Errors
/// Where a chart cannot be drawn or a file cannot be written.
pub fn write_all(dir: &Path, record: &Record) -> anyhow::Result<Vec<PathBuf>> {
    write_document(dir, &report::run(record))
}

/// Writes `report.html` and `report.md` of a document into a directory, and says where.
///
/// # Errors
/// Where a chart cannot be drawn or a file cannot be written.
pub fn write_document(dir: &Path, document: &Document) -> anyhow::Result<Vec<PathBuf>> {
    let files =
        [("report.html", html::render(document)?), ("report.md", markdown::render(document))];
    let mut written = Vec::new();
    for (name, text) in files {
        let path = dir.join(name);
        write_file(&path, text.as_bytes(), "--out DIR")?;
        written.push(path);
    }
    Ok(written)
}
