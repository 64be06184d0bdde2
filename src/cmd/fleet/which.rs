//! What is surveyed, and how: shared by `survey`, `retest` and `drift`.

use super::{
    find::Finder,
    read::{self, Gather, How},
    results,
};
use crate::{
    cmd::{exit::Usage, global::Global, output, share::Share},
    data::Catalogue,
};
use anyhow::bail;
use clap::{Args, ValueEnum};
use fizeau_device::clock;
use fizeau_domain::labels::Labels;
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
use fizeau_record::file;
use std::path::{Path, PathBuf};

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
    #[arg(long, alias = "expect", value_name = "FILE")]
    pub expected: Option<PathBuf>,
    /// A label by which devices are set apart too, such as cooling; repeat it for more
    #[arg(long, value_name = "LABEL", requires = "labels")]
    pub stratum: Vec<String>,
    /// Set devices beside each other although they differ in this: part, vbios, driver, host,
    /// fizeau, code
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    pub across: Vec<String>,
    /// Only sessions from this date on
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = row::parse_date)]
    pub since: Option<String>,
    /// Only sessions up to this date
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = row::parse_date)]
    pub until: Option<String>,
    /// Take all sessions of a device together, and not its latest alone: more repeats
    #[arg(long)]
    pub combine: bool,
    /// Read the records of bundles that keep their rows too: slower, and the same unless this
    /// fizeau makes other rows of records
    #[arg(long)]
    pub from_records: bool,
    /// The file of nodes and their keys that `ssh-keygen -Y verify` reads. Bundles, and rows of
    /// stores, count only if a key of their own node signed them
    #[arg(long = "allowed-signers", alias = "signers", value_name = "FILE")]
    pub signers: Option<PathBuf>,
    /// Only bundles that were made by `accept --challenge WORD`: none of an earlier day
    #[arg(long, value_name = "WORD", value_parser = crate::cmd::bundle::challenge)]
    pub challenge: Option<String>,
    /// False discovery rate among what fails: a share (0.01) or a percentage (1%)
    #[arg(long, value_name = "SHARE",
          default_value_t = Share(fizeau_judge::accept::decide::FALSE_DISCOVERIES))]
    pub false_discoveries: Share,
    /// How devices may depend on each other
    #[arg(long, value_enum, default_value_t = DependenceName::Positive)]
    pub dependence: DependenceName,
}

/// A dependence, as `--dependence` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DependenceName {
    /// Not at all, or so that what slows one down slows others down too (Benjamini-Hochberg)
    Positive,
    /// In any way (Benjamini-Yekutieli): finds less
    Any,
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
    let how = How::new(args.from_records, args.signers.as_deref(), args.challenge.clone())?;
    let mut gathered = gather(&args.paths, &how, &catalogue)?;
    if let Some(folder) = plan {
        let (retest, notes) = results::results(folder, &catalogue)?;
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
    let place = || format!("{option} {}", output::shown(path));
    let refused = |why: &dyn std::fmt::Display| Usage(format!("{}: {why}", place()));
    let text = file::read_text(path, LIST_MAX).map_err(|error| refused(&error))?;
    // Spreadsheets begin their files with it.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    Ok(parse(text).map_err(|why| refused(&why))?)
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
        let words = format!(
            "--false-discoveries {false_discoveries}: write a share above 0 and below 0.5, such as \
             0.01 or 1%"
        );
        return Err(Usage(words).into());
    }
    if let (Some(since), Some(until)) = (&args.since, &args.until)
        && since > until
    {
        let words = format!("--since {since} is after --until {until}: no day is between them");
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

/// Paths in words: the first ones, and how many there are besides.
pub fn places(paths: &[PathBuf]) -> String {
    const NAMED: usize = 3;
    let name = |path: &PathBuf| match path.as_os_str() == "-" {
        true => "the paths of standard input".to_owned(),
        false => output::shown(path).to_string(),
    };
    let named: Vec<String> = paths.iter().take(NAMED).map(name).collect();
    match paths.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// Gathers what lies below some paths.
///
/// # Errors
/// Where there is nothing.
pub fn gather(paths: &[PathBuf], how: &How, catalogue: &Catalogue) -> anyhow::Result<Gathered> {
    let mut finder = Finder::default();
    finder.paths(paths)?;
    let mut gathered = read::read(&finder.found, how, catalogue, &Gather)?;
    let has_some = !finder.found.is_empty();
    finder.tell(&mut gathered);
    if gathered.is_empty() {
        let mut lines = gathered.problems.lines();
        let what = match has_some {
            true => "of what was found no case counts that a survey judges",
            false => "no bundle, record or store",
        };
        lines.push(format!("there is nothing to survey: {what} in {}", places(paths)));
        bail!(lines.join("\n"));
    }
    Ok(gathered)
}
