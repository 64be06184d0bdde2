//! `fizeau discover`: what a device can do, measured, and a draft of its part's file.

mod search;

use super::{
    disk,
    document::{self, ReportFormat},
    exit::Usage,
    global::Global,
    output, plan,
    recording::{self, Ended, args::RunArgs},
    time::Time,
};
use crate::{data::Catalogue, world::choice};
use clap::Args;
use fizeau_domain::{dtype::Dtype, units::Seconds};
use fizeau_judge::discover::{Discovery, check, draft};
use fizeau_record::{Record, store};
use fizeau_report::{Document, discovery};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

/// The suites of hosts and of GPUs.
const HOST: &str = "discover";
const GPU: &str = "gpu-discover";

/// In the directory of a run: the page, and the catalogue with the draft.
const PAGE: &str = "discovery.html";
const DRAFT: &str = "draft";

/// Arguments of `discover`.
#[derive(Args, Clone, Debug)]
pub struct DiscoverArgs {
    /// Measure nothing, and tell what a record holds
    #[arg(long, value_name = "RECORD_OR_DIR", conflicts_with_all = ["device", "suite", "out"])]
    pub from: Option<PathBuf>,
    /// A device as `fizeau devices` names it [default: the first GPU, or the host where there is
    /// none]
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// A suite that says what to measure [default: discover on a host, gpu-discover on a GPU]
    #[arg(long, value_name = "NAME|FILE")]
    pub suite: Option<String>,
    /// Where the record, the page and the draft go [default: results/local/TIME-SUITE]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write the draft of a part into DIR, as a catalogue that --data takes. Of a part in no table
    /// it is written anyhow, beside the record
    #[arg(long, value_name = "DIR")]
    pub draft: Option<PathBuf>,
    /// Name of the draft's file [default: the table's name for a known part, else the device's]
    #[arg(long, value_name = "NAME", value_parser = name_of_file)]
    pub name: Option<String>,
    /// Search the shape of the fastest matrix product of an element type, such as bf16, instead of
    /// all that; the record has every shape that was tried
    #[arg(long, value_name = "TYPE", value_parser = dtype,
          conflicts_with_all = ["from", "suite", "draft", "name"])]
    pub gemm: Option<Dtype>,
    /// How long the search may last: 90s, 10min [default: 60s]; a round under way is finished
    #[arg(long, alias = "seconds", value_name = "TIME", requires = "gemm", value_parser = budget)]
    pub budget: Option<Seconds>,
    /// Output format [default: terminal; json with --json]
    #[arg(long, value_parser = document::document_format())]
    pub format: Option<ReportFormat>,
    /// Leave the host's name and the UUID of a GPU out of the record
    #[arg(long)]
    pub no_host_name: bool,
}

/// A time, or seconds without a unit, as `--seconds` took them.
fn budget(text: &str) -> Result<Seconds, String> {
    match text.parse() {
        Ok(seconds) => Ok(Seconds(seconds)),
        Err(_) => text.parse().map(|time: Time| time.0),
    }
}

/// A name without folders.
fn name_of_file(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match !text.is_empty() && !text.starts_with('.') && text.chars().all(is_plain) {
        true => Ok(text.into()),
        false => Err("a name of letters, digits, dashes and points, without an ending".into()),
    }
}

/// An element type by its name.
fn dtype(text: &str) -> Result<Dtype, String> {
    let found = Dtype::ALL.into_iter().find(|dtype| dtype.to_string() == text);
    found.ok_or_else(|| {
        let all: Vec<String> = Dtype::ALL.iter().map(Dtype::to_string).collect();
        format!("one of {}", all.join(", "))
    })
}

/// Measures, or reads a record, and tells what was found.
///
/// # Errors
/// Where the device cannot be measured, or a record or a file cannot be read or written.
pub fn run(args: &DiscoverArgs, global: &Global) -> anyhow::Result<ExitCode> {
    if let Some(dtype) = args.gemm {
        return search::run(args, dtype, global);
    }
    let format = document::format_without_cases(args.format, None, global, "discoveries")?;
    let catalogue = plan::catalogue(global)?;
    let told = Told { args, global, catalogue: &catalogue, format };
    if let Some(from) = &args.from {
        let record = store::read(from)?;
        let draft = args.draft.clone();
        output::write_out(&told.text(&record, None, draft.as_deref())?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let choice = crate::world::Choice { device: args.device.clone(), ranks: None };
    if choice.several()?.is_some() {
        let why = "one device at a time: --device cuda:1";
        return Err(Usage(why.into()).into());
    }
    let device = choice.device()?;
    let suite = if choice::is_gpu(&device) { GPU } else { HOST };
    let run_args = RunArgs {
        plan: plan::PlanArgs {
            suite: Some(args.suite.clone().unwrap_or_else(|| suite.into())),
            device: Some(device),
            ..plan::PlanArgs::default()
        },
        out: args.out.clone(),
        resume: None,
        choices: None,
        label: None,
        no_host_name: args.no_host_name,
        full: false,
        set_limits: false,
        one_rung: false,
        root: "/".into(),
        side_by_side: None,
        in_child: None,
    };
    let tell = |ended: Ended<'_>| {
        let draft = args.draft.clone().unwrap_or_else(|| ended.directory.join(DRAFT));
        let is_wanted = args.draft.is_some() || told.part_of(ended.record).is_none();
        told.text(ended.record, Some(ended.directory), is_wanted.then_some(draft.as_path()))
    };
    recording::run_and_tell(&run_args, global, Some(&tell))
}

/// What is told at the end, and how.
struct Told<'t> {
    args: &'t DiscoverArgs,
    global: &'t Global,
    catalogue: &'t Catalogue,
    format: ReportFormat,
}

impl Told<'_> {
    /// The part that the device of a record is in this catalogue.
    fn part_of(&self, record: &Record) -> Option<&fizeau_domain::spec::Part> {
        let part = self.catalogue.part_of(&record.header.device)?;
        // A draft is compared with what was measured when it was made.
        Some(self.catalogue.drafts.get(&part.id).unwrap_or(part))
    }

    /// What standard output gets; the page goes into the directory of the run, and the draft where
    /// it is wanted.
    fn text(
        &self,
        record: &Record,
        directory: Option<&Path>,
        draft: Option<&Path>,
    ) -> anyhow::Result<String> {
        let found = Discovery::of(record);
        let part = self.part_of(record);
        let compared = check::compare(&found, &record.header.device, part);
        let id = part.map(|part| part.id.as_str());
        let document = discovery(record, &found, &compared, id);
        let mut files = Vec::new();
        if let Some(directory) = directory {
            files.push(format!("record: {}", output::shown(&directory.join(store::FILE))));
            files.push(format!("page: {}", output::shown(&page(directory, &document)?)));
        }
        if let Some(catalogue) = draft {
            let draft = draft::draft(record, &found, self.args.name.as_deref());
            let folder = catalogue.join(draft.folder);
            disk::make_directory(&folder, "--draft DIR")?;
            let path = folder.join(format!("{}.toml", draft.name));
            disk::write_file(&path, draft.text.as_bytes(), "--draft DIR")?;
            files.push(format!("draft: {}", output::shown(&path)));
            files.push(format!("try it: fizeau --data {} devices", output::shown(catalogue)));
        }
        let mut text = document::render(&document, self.format, document::window(self.global))?;
        if self.format == ReportFormat::Terminal && !files.is_empty() {
            text += &format!("\n{}\n", files.join("\n"));
        }
        Ok(text)
    }
}

/// Writes the page of a discovery beside its record.
fn page(directory: &Path, document: &Document) -> anyhow::Result<PathBuf> {
    let page = document::render(document, ReportFormat::Html, document::FILE)?;
    let path = directory.join(PAGE);
    disk::write_file(&path, page.as_bytes(), "--out DIR")?;
    Ok(path)
}
