//! `fizeau fleet survey` and `fizeau fleet collect`.

use super::{
    find::{Finder, Found},
    read::{self, Gather},
    retest,
    store::{Collect, Collected},
};
use crate::{
    cmd::{self, Global, Usage, compare::Share},
    data::Catalogue,
};
use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use fizeau_device::clock;
use fizeau_domain::{labels::Labels, text::counted, verdict::Verdict};
use fizeau_judge::fleet::{
    Dependence,
    gather::Gathered,
    judge::Settings,
    plan::Retest,
    problem::Kind,
    row,
    site::Expected,
    strata::{CODE, FIELDS, Rule},
    survey::{Options, Surveyed, survey},
    units::Window,
};
use fizeau_record::file::{self, Draft, Existing};
use fizeau_report::format;
use serde::Serialize;
use std::{
    io::BufWriter,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Longest file of labels or of expected nodes, in bytes.
const LIST_MAX: u64 = 256 << 20;

/// What is surveyed, and how.
#[derive(Args, Clone, Debug)]
pub struct Which {
    /// Bundles of `fizeau accept`, records, stores, or folders that hold some; a glob in quotes; -
    /// for a list of paths on standard input
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// Where nodes and GPUs are: CSV with a column node, perhaps device, and one for each label,
    /// such as rack, leaf, rail
    #[arg(long, value_name = "FILE")]
    pub labels: Option<PathBuf>,
    /// The nodes there are to be, one on each line, perhaps with a comma and its number of GPUs:
    /// those that sent nothing are named
    #[arg(long, value_name = "FILE")]
    pub expected: Option<PathBuf>,
    /// A label by which devices are set apart too, such as cooling; repeat it for more
    #[arg(long, value_name = "LABEL", requires = "labels")]
    pub stratum: Vec<String>,
    /// Set devices beside each other although they differ in this: part, vbios, driver, host,
    /// fizeau, code
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    pub across: Vec<String>,
    /// Only sessions from this date on
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = date)]
    pub since: Option<String>,
    /// Only sessions up to this date
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = date)]
    pub until: Option<String>,
    /// Take all sessions of a device together, and not its latest alone: more repeats
    #[arg(long)]
    pub combine: bool,
    /// Read the records of bundles that keep their rows too: slower, and the same unless this
    /// fizeau makes other rows of records
    #[arg(long)]
    pub from_records: bool,
    /// False discovery rate among what fails: a share (0.01) or a percentage (1%)
    #[arg(long, value_name = "SHARE",
          default_value_t = Share(fizeau_judge::accept::decide::FALSE_DISCOVERIES))]
    pub false_discoveries: Share,
    /// How devices may depend on each other
    #[arg(long, value_enum, default_value_t = DependenceName::Positive)]
    pub dependence: DependenceName,
}

/// Arguments of `fleet survey`.
#[derive(Args, Clone, Debug)]
pub struct SurveyArgs {
    /// What is surveyed.
    #[command(flatten)]
    pub which: Which,
    /// Take in the results of this plan of `fizeau fleet retest`
    #[arg(long, value_name = "DIR")]
    pub retest: Option<PathBuf>,
    /// Write every verdict on every metric of every device as CSV
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write a page: the verdict, where what fails stands, distributions, evidence
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write Prometheus's text: a file in the folder of its textfile collector
    #[arg(long, visible_alias = "prometheus", value_name = "FILE")]
    pub textfile: Option<PathBuf>,
}

/// A dependence, as `--dependence` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DependenceName {
    /// Not at all, or so that what slows one down slows others down too (Benjamini-Hochberg)
    Positive,
    /// In any way (Benjamini-Yekutieli): finds less
    Any,
}

/// Arguments of `fleet collect`.
#[derive(Args, Clone, Debug)]
pub struct CollectArgs {
    /// Bundles of `fizeau accept`, records, or folders that hold some; a glob in quotes; - for a
    /// list of paths on standard input
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// The store: a folder, which is made if it is not there
    #[arg(long, value_name = "DIR")]
    pub store: PathBuf,
    /// Read the records of bundles that keep their rows too: slower, and the same unless this
    /// fizeau makes other rows of records
    #[arg(long)]
    pub from_records: bool,
}

fn date(text: &str) -> Result<String, String> {
    let is_date = row::date(&format!("{text}T")) == Some(text);
    if is_date { Ok(text.to_owned()) } else { Err("write a date as 2026-11-23".into()) }
}

/// Surveys. The exit code is the verdict's.
///
/// # Errors
/// Where there is nothing to survey, a list cannot be read, or a file cannot be written.
pub fn run(args: &SurveyArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let surveyed = surveyed(&args.which, args.retest.as_deref(), global)?;
    let report = &surveyed.report;
    if global.json {
        cmd::print_json(report)?;
    } else {
        cmd::write_out(&format::fleet::text(report))?;
    }
    let textfile = args.textfile.as_ref().map_or(Ok(()), |path| {
        let text = format::fleet::prometheus(report);
        cmd::write_file(path, text.as_bytes(), "--textfile FILE")
    });
    let csv = args.csv.as_ref().map_or(Ok(()), |path| write_csv(path, &surveyed));
    let html = args.html.as_ref().map_or(Ok(()), |path| {
        let page = format::fleet_page::page(&surveyed);
        cmd::write_file(path, page.as_bytes(), "--html FILE")
    });
    // A failure is told whatever becomes of these files.
    for unwritten in [textfile, csv, html].into_iter().filter_map(Result::err) {
        if report.verdict != Verdict::Fail {
            return Err(unwritten);
        }
        cmd::say(&format!("{unwritten:#}"));
    }
    Ok(ExitCode::from(report.verdict.exit_code()))
}

/// Reads all that is to be surveyed, and surveys it.
///
/// # Errors
/// Where there is nothing to survey, or a list cannot be read.
pub fn surveyed(args: &Which, plan: Option<&Path>, global: &Global) -> anyhow::Result<Surveyed> {
    let labels = match &args.labels {
        Some(path) => list(path, "--labels", Labels::parse)?,
        None => Labels::default(),
    };
    let expected = match &args.expected {
        Some(path) => Some(list(path, "--expected", Expected::parse)?),
        None => None,
    };
    let mut options = options(args, &labels)?;
    let catalogue = Catalogue::load(global.data.as_deref())?;
    let mut gathered = gather(args, &catalogue)?;
    if let Some(folder) = plan {
        let (retest, notes) = retest::results(folder, &catalogue)?;
        notes.into_iter().for_each(|note| gathered.problems.add(Kind::HalfWritten, note));
        options.retest = retest;
    }
    Ok(survey(gathered, &options, &labels, expected.as_ref()))
}

fn list<T, E: std::fmt::Display>(
    path: &Path,
    option: &str,
    parse: fn(&str) -> Result<T, E>,
) -> anyhow::Result<T> {
    let place = || format!("{option} {}", cmd::shown(path));
    let refused = |why: &dyn std::fmt::Display| Usage(format!("{}: {why}", place()));
    let text = file::read_text(path, LIST_MAX).map_err(|error| refused(&error))?;
    Ok(parse(&text).map_err(|why| refused(&why))?)
}

fn options(args: &Which, labels: &Labels) -> anyhow::Result<Options> {
    let known: Vec<&str> = FIELDS.iter().map(|(_, _, name)| *name).chain([CODE]).collect();
    if let Some(field) = args.across.iter().find(|field| !known.contains(&field.as_str())) {
        let words = format!("--across {field}: it has to be one of {}", known.join(", "));
        return Err(Usage(words).into());
    }
    if let Some(label) = args.stratum.iter().find(|label| !labels.kinds().contains(label)) {
        let words = format!("--stratum {label}: --labels has {}", labels.kinds().join(", "));
        return Err(Usage(words).into());
    }
    let false_discoveries = args.false_discoveries.0;
    if !(false_discoveries > 0.0 && false_discoveries < 0.5) {
        let words = format!("--false-discoveries {false_discoveries}: a share from 0 to 0.5");
        return Err(Usage(words).into());
    }
    let dependence = match args.dependence {
        DependenceName::Positive => Dependence::Positive,
        DependenceName::Any => Dependence::Any,
    };
    Ok(Options {
        settings: Settings { false_discoveries, dependence },
        rule: Rule { across: args.across.clone(), labels: args.stratum.clone() },
        window: Window {
            since: args.since.clone(),
            until: args.until.clone(),
            combine: args.combine,
            latest: clock::utc_tomorrow(),
        },
        retest: Retest::default(),
    })
}

fn gather(args: &Which, catalogue: &Catalogue) -> anyhow::Result<Gathered> {
    let mut finder = Finder::default();
    finder.paths(&args.paths)?;
    let mut gathered = read::read(&finder.found, args.from_records, catalogue, &Gather)?;
    gathered.problems.merge(finder.problems);
    if gathered.is_empty() {
        let mut words = "there is nothing to survey: no bundle, record or store".to_owned();
        for line in gathered.problems.lines() {
            words += &format!("\n{line}");
        }
        bail!(words);
    }
    Ok(gathered)
}

fn write_csv(path: &Path, surveyed: &Surveyed) -> anyhow::Result<()> {
    let place = || format!("cannot write {}", cmd::shown(path));
    let draft = Draft::beside(path).with_context(place)?;
    let mut out = BufWriter::with_capacity(1 << 20, draft.file());
    format::fleet::csv(surveyed, &mut out).with_context(place)?;
    std::io::Write::flush(&mut out).with_context(place)?;
    drop(out);
    draft.file().sync_all().with_context(place)?;
    draft.publish(Existing::Replaced).with_context(place)?;
    Ok(())
}

/// What a collection came to.
#[derive(Serialize)]
struct CollectedReport {
    #[serde(flatten)]
    collected: Collected,
    notes: Vec<String>,
}

/// Collects.
///
/// # Errors
/// Where there is nothing to collect, or the store cannot be written.
pub fn collect(args: &CollectArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let mut finder = Finder::default();
    finder.paths(&args.paths)?;
    let (stores, found): (Vec<Found>, Vec<Found>) =
        finder.found.into_iter().partition(|one| matches!(one, Found::Store(..)));
    for store in &stores {
        if let Found::Store(path, _) = store {
            let words = format!("{}: it is of a store already", cmd::shown(path));
            finder.problems.add(Kind::OtherFile, words);
        }
    }
    let catalogue = Catalogue::load(global.data.as_deref())?;
    if found.is_empty() {
        let notes = finder.problems.lines().join("\n");
        bail!("there is nothing to collect: no bundle or record\n{notes}");
    }
    let sink = Collect::new(&args.store)?;
    let mut gathered = read::read(&found, args.from_records, &catalogue, &sink)?;
    gathered.problems.merge(finder.problems);
    let notes = gathered.problems.lines();
    let collected = sink.end()?;
    if global.json {
        return cmd::print_json(&CollectedReport { collected, notes });
    }
    notes.iter().for_each(|line| cmd::say(line));
    let Collected { sessions, rows, known } = collected;
    let already = match known {
        0 => String::new(),
        count => format!("; already there: {}", counted(count, "session")),
    };
    cmd::print(&format!(
        "{}: {} added, {}{already}",
        cmd::shown(&args.store),
        counted(sessions, "session"),
        counted(rows, "row")
    ))
}
