//! `fizeau claim`: whether a published figure can be true.

use super::{
    Global, Usage, exit, project,
    report::{self, ReportFormat},
};
use crate::{
    claim::{Answer, CLAIMS_MAX, Claim, ClaimFile, Named, Verdict, judge},
    data::Catalogue,
    file,
    project::Layout,
    report::verdicts,
    suite,
};
use clap::{Args, ValueEnum};
use std::{path::PathBuf, process::ExitCode};

/// Arguments of `claim`.
#[derive(Args, Clone, Debug)]
pub struct ClaimArgs {
    /// The figure: "154 tok/s/user", "2582 tok/s/GPU", "6200 tok/s", "4.8 TB/s", "1,979 TFLOP/s
    /// fp8", "busbw 480 on 8 GPUs"
    #[arg(value_name = "FIGURE")]
    pub figure: Option<String>,
    /// A TOML file of claims; `built-in`: those that fizeau was built with
    #[arg(long, value_name = "FILE", conflicts_with_all = ["figure", "on", "model"])]
    pub from: Option<PathBuf>,
    /// The part: h200, mi300x
    #[arg(long, value_name = "PART")]
    pub on: Option<String>,
    /// Devices
    #[arg(long, value_name = "COUNT")]
    pub gpus: Option<u32>,
    /// The model: a name that is built in, or a path to a config.json
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// How weights are stored [default: as the model is published]
    #[arg(long, value_name = "FORMAT")]
    pub precision: Option<String>,
    /// How keys and values are stored [default: bf16, or fp8 where attention is stored in 8 bits]
    #[arg(long, value_name = "FORMAT")]
    pub kv: Option<String>,
    /// Requests at once (batch)
    #[arg(long, value_name = "COUNT")]
    pub concurrency: Option<u32>,
    /// Tokens of a prompt
    #[arg(long, value_name = "TOKENS")]
    pub isl: Option<u32>,
    /// Tokens of an answer
    #[arg(long, value_name = "TOKENS")]
    pub osl: Option<u32>,
    /// Tokens before the one that is made, in place of --isl and --osl
    #[arg(long, value_name = "TOKENS", conflicts_with = "isl")]
    pub context: Option<u32>,
    /// How the model is spread: tp8, ep8, 2xtp4 [default: whatever is fastest]
    #[arg(long, value_name = "LAYOUT")]
    pub layout: Option<String>,
    /// Tokens accepted for each step of speculative decoding
    #[arg(long, value_name = "TOKENS")]
    pub acceptance: Option<f64>,
    /// Exit with code 1 where a claim gets this answer, for use in CI; repeat it for more answers
    #[arg(long, value_enum, value_name = "ANSWER")]
    pub fail_on: Vec<AnswerName>,
    /// How it is written [default: terminal, or as the name of --out ends; json with --json]
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// Write it to this file and not to standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// An answer, as `--fail-on` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AnswerName {
    /// Above a bound, or what does not fit
    Impossible,
    /// Above what such systems reach
    Suspicious,
    /// Something that decides is not stated
    CannotTell,
}

impl AnswerName {
    fn is(self, answer: Answer) -> bool {
        match self {
            AnswerName::Impossible => answer == Answer::Impossible,
            AnswerName::Suspicious => answer == Answer::Suspicious,
            AnswerName::CannotTell => answer == Answer::CannotTell,
        }
    }
}

fn claims(args: &ClaimArgs, catalogue: &Catalogue) -> anyhow::Result<Vec<Claim>> {
    let Some(path) = &args.from else {
        let value = args.figure.clone().ok_or_else(|| {
            Usage("give a figure, such as \"4.8 TB/s\" --on h200, or --from FILE".into())
        })?;
        return Ok(vec![Claim {
            value,
            on: args.on.clone(),
            gpus: args.gpus,
            model: args.model.clone(),
            precision: args.precision.clone(),
            kv: args.kv.clone(),
            concurrency: args.concurrency,
            isl: args.isl,
            osl: args.osl,
            context: args.context,
            layout: args.layout.clone(),
            acceptance: args.acceptance,
            ..Claim::default()
        }]);
    };
    let texts = match path.to_str() {
        Some("built-in") => catalogue.claims.values().cloned().collect(),
        _ => vec![
            file::read_text(path, suite::TEXT_MAX)
                .map_err(|error| anyhow::anyhow!("{}: {error}", super::shown(path)))?,
        ],
    };
    let mut all = Vec::new();
    for text in &texts {
        let file: ClaimFile = toml::from_str(text)
            .map_err(|error| Usage(format!("{}: {error}", super::shown(path))))?;
        all.extend(file.claim);
    }
    if all.is_empty() || all.len() > CLAIMS_MAX {
        let why = format!("{}: from 1 to {CLAIMS_MAX} claims", super::shown(path));
        return Err(Usage(why).into());
    }
    Ok(all)
}

/// Judges, and prints. The exit code says whether all could be judged, and with `--fail-on` whether
/// one got an answer that is named there.
///
/// # Errors
/// Where a claim cannot be read, or the result cannot be written.
pub fn run(args: &ClaimArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let format = report::format_without_cases(args.format, args.out.as_deref(), global)?;
    let catalogue = Catalogue::load(global.data.as_deref())?;
    let mut judged = Vec::new();
    for claim in claims(args, &catalogue)? {
        let name = if claim.id.is_empty() { claim.value.clone() } else { claim.id.clone() };
        let usage = |why: String| Usage(format!("{name}: {why}"));
        let model = claim.model.as_ref().map(|name| catalogue.model(name)).transpose();
        let model = model.map_err(|error| usage(error.to_string()))?;
        let part = match &claim.on {
            Some(on) => Some(project::part_called(&catalogue, on)?.0),
            None => None,
        };
        let layout = claim.layout.as_ref().map(|text| text.parse::<Layout>()).transpose();
        let layout = layout.map_err(usage)?;
        let verdict = judge(&claim, &Named { part, model, layout }).map_err(usage)?;
        judged.push((claim, verdict));
    }
    let text = report::render(&verdicts(&judged), format, report::window(global))?;
    match &args.out {
        Some(path) => super::write_file(path, text.as_bytes(), "--out FILE")?,
        None => super::write_out(&text)?,
    }
    let fails =
        |(_, verdict): &(Claim, Verdict)| args.fail_on.iter().any(|name| name.is(verdict.answer));
    Ok(ExitCode::from(if judged.iter().any(fails) { exit::FAILED } else { 0 }))
}
