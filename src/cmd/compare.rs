//! `fizeau compare`: what changed from one run to another.

use super::{
    disk,
    document::{self, ReportFormat},
    exit::Usage,
    global::Global,
    output,
    records::gpus,
    share::Share,
};
use anyhow::{Context, bail};
use clap::Args;
use fizeau_domain::verdict::Verdict;
use fizeau_judge::compare::{self, Comparison, FALSE_DISCOVERIES, Incomparable, THRESHOLD, Waiver};
use fizeau_record::{
    Record,
    store::{self, RecordError},
};
use fizeau_report::{about, without_numbers};
use std::{collections::BTreeSet, path::PathBuf, process::ExitCode};

/// Arguments of `compare`.
#[derive(Args, Clone, Debug)]
pub struct CompareArgs {
    /// The record to compare against and the record to judge, or the directories they are in; with
    /// --vs, all records to compare against
    #[arg(value_name = "A", required = true)]
    pub before: Vec<PathBuf>,
    /// The records to judge. Three runs on each side show how much runs differ by themselves, so
    /// that a regression can fail: compare A1 A2 A3 --vs B1 B2 B3
    #[arg(long = "vs", alias = "with", value_name = "B", num_args = 1..)]
    pub after: Vec<PathBuf>,
    /// The change that counts: a share (0.05) or a percentage (5%)
    #[arg(long = "least-effect", alias = "threshold", value_name = "SHARE",
          default_value_t = Share(THRESHOLD))]
    pub threshold: Share,
    /// False discovery rate among the cases that are called slower: a share or a percentage
    #[arg(long, value_name = "SHARE", default_value_t = Share(FALSE_DISCOVERIES))]
    pub false_discoveries: Share,
    /// Allow records of different machines; every difference is listed
    #[arg(long)]
    pub across: bool,
    /// Do not count regressions in cases whose ids match a glob, such as 'gemm/bf16/*'; repeat it
    /// for more. The reason is shown with each of them
    #[arg(long, value_name = "SELECTOR[=REASON]")]
    pub waive: Vec<Waiver>,
    /// Output format [default: terminal, or by the name of --out; json with --json]
    #[arg(long, value_parser = document::document_format())]
    pub format: Option<ReportFormat>,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Compares. The exit code is the verdict's: 1 where a case or a group of cases got worse that is
/// not waived, 4 where most cases could not be judged, or too few runs differ to the worse.
///
/// # Errors
/// Where a record cannot be read, the two do not compare, or the result cannot be written.
pub fn run(args: &CompareArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let format = document::format_of(args.format, args.out.as_deref(), global)?;
    let (before, after) = match (&args.before[..], &args.after[..]) {
        ([before, after], []) => (vec![before.clone()], vec![after.clone()]),
        (_, []) => {
            let words = "give two records, or several and then --vs and the others: compare A1 A2 \
                         A3 --vs B1 B2 B3";
            return Err(Usage(words.into()).into());
        }
        (before, after) => (before.to_vec(), after.to_vec()),
    };
    for inputs in [&before, &after] {
        disk::spare_records(args.out.as_deref(), inputs)?;
    }
    let options = compare::Options {
        threshold: args.threshold.0,
        false_discoveries: args.false_discoveries.0,
        across: args.across,
        waivers: args.waive.clone(),
    };
    let sides = sides(&before, &after)?;
    if sides.len() > 1 && format == ReportFormat::Csv {
        let why = "a line for each case is of one GPU: choose --format json, or compare A/cuda-0 \
                   B/cuda-0";
        return Err(Usage(why.into()).into());
    }
    let mut is_stub = false;
    let mut compared = Vec::new();
    for (gpu, before, after) in sides {
        let places = before.iter().chain(&after).cloned().collect::<Vec<PathBuf>>();
        let (before, after) = (read(&before)?, read(&after)?);
        is_stub |= after.iter().any(|record| record.header.device.is_stub());
        let comparison = Comparison::of(&before, &after, &options).map_err(refusal);
        let mut comparison = match &gpu {
            Some(gpu) => comparison.with_context(|| gpu.clone())?,
            None => comparison?,
        };
        let runs = comparison.before.iter_mut().chain(&mut comparison.after);
        for (run, place) in runs.zip(places) {
            run.place = Some(output::shown(&place));
        }
        compared.push((gpu, comparison));
    }
    let mut document = fizeau_report::comparisons(&compared);
    if is_stub {
        document = without_numbers(document);
    }
    let comparisons: Vec<&Comparison> = compared.iter().map(|(_, one)| one).collect();
    let about = about::of_comparisons(&comparisons);
    let terminal = document::terminal(args.out.as_deref(), global);
    let text = document::render_about(&document, &about, format, terminal)?;
    document::deliver(&text, args.out.as_deref())?;
    let verdict = Verdict::on_all(comparisons.iter().map(|one| one.verdict()));
    Ok(ExitCode::from(verdict.exit_code()))
}

/// A GPU's name, and the records of its side A and side B.
type Sides = (Option<String>, Vec<PathBuf>, Vec<PathBuf>);

/// What is compared with what: the records as they are named or, where all are runs of several
/// GPUs, GPU by GPU.
fn sides(before: &[PathBuf], after: &[PathBuf]) -> anyhow::Result<Vec<Sides>> {
    let all = || before.iter().chain(after);
    let Some(several) = all().find(|path| gpus::is_run(path)) else {
        return Ok(vec![(None, before.to_vec(), after.to_vec())]);
    };
    let (gpu, record) = gpus::directories(several).swap_remove(0);
    if let Some(one) = all().find(|path| !gpus::is_run(path)) {
        bail!(
            "{} is a run of several GPUs and {} is not: compare GPU by GPU, such as {} ({gpu})",
            several.display(),
            one.display(),
            record.display()
        );
    }
    let names: BTreeSet<String> =
        all().flat_map(|path| gpus::directories(path)).map(|(gpu, _)| gpu).collect();
    let records = |gpu: &str, paths: &[PathBuf]| -> anyhow::Result<Vec<PathBuf>> {
        let of_gpu = |path: &PathBuf| {
            let found = gpus::directories(path).into_iter().find(|(name, _)| name == gpu);
            let record = found.map(|(_, record)| record).filter(|at| at.join(store::FILE).exists());
            record.with_context(|| {
                let path = path.display();
                format!("{path} has no record of {gpu}: compare the other GPUs one by one")
            })
        };
        paths.iter().map(of_gpu).collect()
    };
    names
        .into_iter()
        .map(|gpu| Ok((Some(gpu.clone()), records(&gpu, before)?, records(&gpu, after)?)))
        .collect()
}

fn read(paths: &[PathBuf]) -> Result<Vec<Record>, RecordError> {
    paths.iter().map(|path| store::read(path)).collect()
}

fn refusal(error: Incomparable) -> anyhow::Error {
    match error {
        Incomparable::Threshold(_) | Incomparable::FalseDiscoveries(_) => {
            Usage(error.to_string()).into()
        }
        error => error.into(),
    }
}
