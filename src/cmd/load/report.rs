//! `fizeau load report`: results of a client, alone or beside what the hardware allows.

use super::goal::GoalArgs;
use crate::{
    cmd::{
        document::{self, ReportFormat},
        exit::Usage,
        global::Global,
        models, output, parts,
    },
    data::Catalogue,
};
use clap::{Args, ValueEnum};
use fizeau_domain::{model::Format, verdict::Verdict};
use fizeau_projection::load::{self, Engine, level::Limits, read::BYTES_MAX};
use fizeau_record::file;
use fizeau_report::{LoadJoin, LoadResults, format::csv, load as document};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

/// The rows of a run, in its directory.
pub const ROWS: &str = "requests.jsonl";

/// Arguments of `load report`.
#[derive(Args, Clone, Debug)]
pub struct LoadReportArgs {
    /// Results: of `vllm bench serve --save-result` (better with --save-detailed), of
    /// sglang.bench_serving, AIPerf (profile_export.jsonl or profile_export_aiperf.json),
    /// genai-perf, guidellm, llmperf, inference-benchmarker, inference-perf or trtllm-bench, or
    /// requests one by one as JSON Lines (docs/load.md)
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// The hardware that served: a record or its directory (several of one machine with + between
    /// them), or a part of the catalogue. Gives L0, L1 and L2 beside what was measured
    #[arg(long, value_name = "PART_OR_RECORD", requires = "model")]
    pub on: Option<String>,
    /// The model that was served: a name that is built in, or a path to a config.json
    #[arg(long, value_name = "MODEL", requires = "on")]
    pub model: Option<String>,
    /// How the model was spread over devices: tp8, ep8, pp4, tp2pp4, 2xtp4
    #[arg(long, value_name = "LAYOUT", default_value = "tp1")]
    pub layout: String,
    /// How weights were stored, as for `project` [default: as the model is published]
    #[arg(long, value_name = "FORMAT")]
    pub precision: Option<String>,
    /// How keys and values were stored [default: as the model's file states, else bf16]
    #[arg(long, value_name = "FORMAT")]
    pub kv: Option<Format>,
    /// Of each prompt, tokens whose keys and values were there already (prefix cache)
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    pub prefix: u32,
    /// Leave out rates that others published of a part: L2 is of records alone
    #[arg(long)]
    pub no_published: bool,
    /// What is asked of the server.
    #[command(flatten)]
    pub goal: GoalArgs,
    /// Output format [default: terminal, or by the name of --out; json with --json]
    #[arg(long, value_enum)]
    pub format: Option<LoadFormat>,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// How results of load are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LoadFormat {
    /// Text that fits the window.
    Terminal,
    /// For issues, wikis and READMEs.
    Markdown,
    /// Every level on a line, in SI units.
    Csv,
    /// All derived numbers, in SI units.
    Json,
    /// One page that needs nothing else, with charts.
    Html,
    /// The keys of `vllm bench serve --save-result --save-detailed`, an object for each level.
    Vllm,
}

impl LoadFormat {
    /// As all reports have it; none where no other report has it.
    fn shared(self) -> Option<ReportFormat> {
        Some(match self {
            LoadFormat::Terminal => ReportFormat::Terminal,
            LoadFormat::Markdown => ReportFormat::Markdown,
            LoadFormat::Csv => ReportFormat::Csv,
            LoadFormat::Json => ReportFormat::Json,
            LoadFormat::Html => ReportFormat::Html,
            LoadFormat::Vllm => return None,
        })
    }
}

/// Reports.
///
/// # Errors
/// Where a file cannot be read, or what is asked cannot be.
pub fn run(args: &LoadReportArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let out = args.out.as_deref();
    let shared = args.format.and_then(LoadFormat::shared);
    let format = document::format_without_cases(shared, out, global, "results of load")?;
    spare(out, &args.files)?;
    let goal = args.goal.read()?;
    let mut results = Vec::new();
    for path in &args.files {
        results.push(results_of(path, &goal.limits)?);
    }
    if args.format == Some(LoadFormat::Vllm) {
        document::deliver(&as_vllm(&results)?, args.out.as_deref())?;
        return Ok(ExitCode::SUCCESS);
    }
    let catalogue = Catalogue::load(global.data.as_deref())?;
    let mut code = ExitCode::SUCCESS;
    let document = match (&args.on, &args.model) {
        (Some(on), Some(name)) => {
            let mut model = catalogue.model(name).map_err(|error| Usage(error.to_string()))?;
            if let Some(text) = &args.precision {
                models::store_as(&mut model, text)
                    .map_err(|why| Usage(format!("--precision: {why}")))?;
            }
            let hardware = parts::hardware(&catalogue, on, !args.no_published)?;
            let layout = models::layout_of(&args.layout, &model)?;
            let prefix = f64::from(args.prefix);
            let kv = model.kv_format(args.kv);
            let engine = Engine { model: &model, hardware: &hardware, layout, kv, prefix };
            let levels = results.iter().flat_map(|one| one.source.levels.clone());
            let joined: Result<Vec<_>, _> =
                levels.map(|level| load::join(level, &engine)).collect();
            let levels = joined.map_err(|error| Usage(error.to_string()))?;
            if levels.iter().any(|one| !one.beyond_light().is_empty()) {
                code = ExitCode::from(Verdict::Inconclusive.exit_code());
            }
            document(&results, Some(&LoadJoin { engine, levels }), &goal)
        }
        _ => document(&results, None, &goal),
    };
    if results.iter().any(|one| goal.is_missed_by_a_late_client(&one.source.levels)) {
        code = ExitCode::from(Verdict::Inconclusive.exit_code());
    }
    let text = match format {
        ReportFormat::Csv => csv::of_tables(&document, &["joined"])
            .map(|joined| match joined.is_empty() {
                true => csv::of_tables(&document, &["levels"]),
                false => Ok(joined),
            })
            .and_then(|text| text)?,
        _ => document::render(&document, format, document::window(global))?,
    };
    document::deliver(&text, args.out.as_deref())?;
    Ok(code)
}

/// One JSON object on each line, as `--append-result` of that client leaves them.
fn as_vllm(results: &[LoadResults]) -> anyhow::Result<String> {
    let mut text = String::new();
    for one in results {
        for level in &one.source.levels {
            text += &serde_json::to_string(&load::vllm::written(&one.source, level))?;
            text.push('\n');
        }
    }
    Ok(text)
}

/// Refuses to write a report over what it is made from.
pub fn spare(out: Option<&Path>, inputs: &[PathBuf]) -> Result<(), Usage> {
    let Some(out) = out else { return Ok(()) };
    match inputs.iter().any(|input| file::is_same(out, input)) {
        true => Err(Usage(format!(
            "--out {} would write over results, which cannot be made again; choose another file",
            out.display()
        ))),
        false => Ok(()),
    }
}

/// Reads a file of results.
///
/// # Errors
/// Where it cannot be read or is not understood.
pub fn results_of(path: &Path, limits: &Limits) -> anyhow::Result<LoadResults> {
    let refuse = |why: String| anyhow::anyhow!("{}: {why}", output::shown(path));
    let text = file::read_text(path, BYTES_MAX).map_err(|error| refuse(error.to_string()))?;
    let source = load::read(&text, limits).map_err(refuse)?;
    let name = path.file_name().unwrap_or(path.as_os_str());
    // All runs of `fizeau load` have one name for their rows: the directory's tells them apart.
    let parent = path.parent().and_then(Path::file_name).filter(|_| name == ROWS);
    let file = parent.unwrap_or(name).to_string_lossy().into_owned();
    Ok(LoadResults { file, source })
}
