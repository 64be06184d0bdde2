//! `fizeau fleet survey` and `fizeau fleet collect`.

use super::{
    find::{Finder, Found},
    read,
    store::{Collect, Collected},
    which::{self, Which},
};
use crate::{
    cmd::{disk, document, global::Global, output},
    data::Catalogue,
};
use anyhow::{Context as _, bail};
use clap::Args;
use fizeau_device::clock;
use fizeau_domain::{labels::Labels, text::counted, verdict::Verdict};
use fizeau_judge::fleet::{
    gather::Gathered,
    problem::Kind,
    survey::{Options, Surveyed},
    units::Window,
};
use fizeau_record::file::{Draft, Existing};
use fizeau_report::format;
use serde::Serialize;
use std::{
    io::BufWriter,
    path::{Path, PathBuf},
    process::ExitCode,
};

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
    #[arg(long, alias = "prometheus", value_name = "FILE")]
    pub textfile: Option<PathBuf>,
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
    /// The file of nodes and their keys that `ssh-keygen -Y verify` reads. Only bundles signed by a
    /// key of their own node are collected
    #[arg(long = "allowed-signers", alias = "signers", value_name = "FILE")]
    pub signers: Option<PathBuf>,
    /// Only bundles that were made by `accept --challenge WORD`: none of an earlier day
    #[arg(long, value_name = "WORD", value_parser = crate::cmd::bundle::challenge)]
    pub challenge: Option<String>,
}

/// Surveys. The exit code is the verdict's.
///
/// # Errors
/// Where there is nothing to survey, a list cannot be read, or a file cannot be written.
pub fn run(args: &SurveyArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let surveyed = which::surveyed(&args.which, args.retest.as_deref(), global)?;
    let report = &surveyed.report;
    if global.json {
        output::print_json(report)?;
    } else {
        let text = document::lines_in_window(&format::fleet::text(report), global);
        output::write_out(&text)?;
    }
    let textfile = args.textfile.as_ref().map_or(Ok(()), |path| {
        let text = format::fleet::prometheus(report);
        disk::write_file(path, text.as_bytes(), "--textfile FILE")
    });
    let csv = args.csv.as_ref().map_or(Ok(()), |path| write_csv(path, &surveyed));
    let html = args.html.as_ref().map_or(Ok(()), |path| {
        let page = format::fleet_page::page(&surveyed);
        disk::write_file(path, page.as_bytes(), "--html FILE")
    });
    // A failure is told whatever becomes of these files.
    for unwritten in [textfile, csv, html].into_iter().filter_map(Result::err) {
        if report.verdict != Verdict::Fail {
            return Err(unwritten);
        }
        output::say(&format!("{unwritten:#}"));
    }
    Ok(ExitCode::from(report.verdict.exit_code()))
}

/// What a survey says of all that lies below a path: text, page, table and Prometheus's text.
///
/// # Errors
/// Where there is nothing to survey.
pub fn said_of(path: &Path, catalogue: &Catalogue) -> anyhow::Result<[String; 4]> {
    let how = read::How::new(false, None, None)?;
    let gathered = which::gather(&[path.to_owned()], &how, catalogue)?;
    let window = Window { latest: clock::utc_tomorrow(), ..Window::default() };
    let options = Options { window, ..Options::default() };
    let surveyed =
        fizeau_judge::fleet::survey::survey(gathered, &options, &Labels::default(), None);
    let mut table = Vec::new();
    format::fleet::csv(&surveyed, &mut table)?;
    Ok([
        format::fleet::text(&surveyed.report),
        format::fleet_page::page(&surveyed),
        String::from_utf8(table)?,
        format::fleet::prometheus(&surveyed.report),
    ])
}

fn write_csv(path: &Path, surveyed: &Surveyed) -> anyhow::Result<()> {
    let place = || format!("cannot write {}", output::shown(path));
    let draft = Draft::beside(path).with_context(place)?;
    let mut out = BufWriter::with_capacity(1 << 20, draft.file());
    format::fleet::csv(surveyed, &mut out).with_context(place)?;
    std::io::Write::flush(&mut out).with_context(place)?;
    drop(out);
    draft.file().sync_all().with_context(place)?;
    draft.publish(Existing::Replaced).with_context(place)?;
    Ok(())
}

/// Senders with nothing usable that a collection names, at most.
const NOTES_MAX: usize = 50;

/// What a collection came to.
#[derive(Serialize)]
struct CollectedReport {
    #[serde(flatten)]
    collected: Collected,
    notes: Vec<String>,
}

/// Lines about what could not be collected, and whether all that was sent was.
fn left_behind(gathered: &Gathered) -> (Vec<String>, bool) {
    let mut notes = gathered.problems.lines();
    // What has no line yet: a folder that is empty, for one.
    let is_untold = |(_, why): &(&String, &String)| !notes.iter().any(|note| note.contains(*why));
    let untold: Vec<_> = gathered.unusable.iter().filter(is_untold).collect();
    let more = untold.len().saturating_sub(NOTES_MAX);
    let lines = untold.iter().take(NOTES_MAX).map(|(sender, why)| format!("{sender}: {why}"));
    let lines: Vec<String> = lines.collect();
    notes.extend(lines);
    notes
        .extend((more > 0).then(|| format!("and {} with nothing usable", counted(more, "sender"))));
    let is_whole = gathered.unusable.is_empty() && !gathered.problems.lose_figures();
    (notes, is_whole)
}

/// Collects. The exit code is that of an inconclusive survey where not all that was sent can be
/// used: who surveys the store does not know of it.
///
/// # Errors
/// Where there is nothing to collect, or the store cannot be written.
pub fn collect(args: &CollectArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let how = read::How::new(args.from_records, args.signers.as_deref(), args.challenge.clone())?;
    let mut finder = Finder::default();
    finder.paths(&args.paths)?;
    let (stores, found): (Vec<Found>, Vec<Found>) = std::mem::take(&mut finder.found)
        .into_iter()
        .partition(|one| matches!(one, Found::Store(..)));
    for store in &stores {
        if let Found::Store(path, _) = store {
            let words = format!("{}: it is of a store already", output::shown(path));
            finder.problems.add(Kind::OtherFile, words);
        }
    }
    let catalogue = Catalogue::load(global.data.as_deref())?;
    if found.is_empty() {
        let notes = finder.problems.lines().join("\n");
        let places = which::places(&args.paths);
        bail!("there is nothing to collect: no bundle or record in {places}\n{notes}");
    }
    let sink = Collect::new(&args.store)?;
    let mut gathered = read::read(&found, &how, &catalogue, &sink)?;
    finder.tell(&mut gathered);
    let (notes, is_whole) = left_behind(&gathered);
    let verdict = if is_whole { Verdict::Pass } else { Verdict::Inconclusive };
    let code = ExitCode::from(verdict.exit_code());
    let collected = sink.end(&gathered)?;
    if global.json {
        output::print_json(&CollectedReport { collected, notes })?;
        return Ok(code);
    }
    notes.iter().for_each(|line| output::say(line));
    let Collected { sessions, rows, known } = collected;
    let already = match known {
        0 => String::new(),
        count => format!("; already there: {}", counted(count, "session")),
    };
    output::print(&format!(
        "{}: {} added, {}{already}",
        output::shown(&args.store),
        counted(sessions, "session"),
        counted(rows, "row")
    ))?;
    Ok(code)
}
