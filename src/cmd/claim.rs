//! `fizeau claim`: whether a published figure can be true.

use super::{
    document::{self, ReportFormat},
    exit::{self, Usage},
    global::Global,
    output, parts,
};
use crate::data::Catalogue;
use clap::{Args, ValueEnum};
use fizeau_domain::model::Model;
use fizeau_projection::{
    claim::{Answer, Claim, ClaimFile, Named, Reading, TEXT_MAX, Verdict, judge},
    project::Layout,
};
use fizeau_record::file;
use fizeau_report::{format::csv, verdicts};
use std::{collections::BTreeMap, path::PathBuf, process::ExitCode};

/// Arguments of `claim`.
#[derive(Args, Clone, Debug)]
pub struct ClaimArgs {
    /// The figure: "154 tok/s/user", "2582 tok/s/GPU", "6200 tok/s", "4.8 TB/s", "1,979 TFLOP/s
    /// fp8", "busbw 480 on 8 GPUs"
    #[arg(value_name = "FIGURE")]
    pub figure: Option<String>,
    /// A TOML file of claims, or `built-in` for the claims in fizeau itself
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "figure", "on", "gpus", "model", "precision", "kv", "concurrency", "isl", "osl",
            "context", "layout", "acceptance",
        ]
    )]
    pub from: Option<PathBuf>,
    /// The part: h200, mi300x [default: the one that the figure's text names]
    #[arg(long, value_name = "PART")]
    pub on: Option<String>,
    /// GPUs of the figure, or sockets of a host
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    pub gpus: Option<u32>,
    /// The model: a name that is built in, or a path to a config.json
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// How weights are stored [default: as the model is published]
    #[arg(long, value_name = "FORMAT")]
    pub precision: Option<String>,
    /// How keys and values are stored [default: fp8, in the claim's favour]
    #[arg(long, value_name = "FORMAT")]
    pub kv: Option<String>,
    /// Requests at once (batch)
    #[arg(long, allow_negative_numbers = true, value_name = "COUNT")]
    pub concurrency: Option<u32>,
    /// Tokens of a prompt
    #[arg(long, allow_negative_numbers = true, value_name = "TOKENS")]
    pub isl: Option<u32>,
    /// Tokens of an answer
    #[arg(long, allow_negative_numbers = true, value_name = "TOKENS")]
    pub osl: Option<u32>,
    /// Tokens before the generated one, in place of --isl and --osl
    #[arg(
        long,
        allow_negative_numbers = true,
        value_name = "TOKENS",
        conflicts_with_all = ["isl", "osl"]
    )]
    pub context: Option<u32>,
    /// How the model is spread: tp8, ep8, 2xtp4 [default: whatever is fastest]
    #[arg(long, value_name = "LAYOUT")]
    pub layout: Option<String>,
    /// Tokens accepted for each step of speculative decoding
    #[arg(long, allow_negative_numbers = true, value_name = "TOKENS")]
    pub acceptance: Option<f64>,
    /// Exit with code 1 where a claim gets this answer, for use in CI; repeat it for more answers
    #[arg(long, value_enum, value_name = "ANSWER")]
    pub fail_on: Vec<AnswerName>,
    /// Output format [default: terminal, or by the name of --out; json with --json]
    #[arg(long, value_parser = document::document_format())]
    pub format: Option<ReportFormat>,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// An answer, as `--fail-on` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AnswerName {
    /// Above a bound, or does not fit into memory
    Impossible,
    /// Above the best known figures of such systems
    Suspicious,
    /// A condition that decides is not stated
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
            file::read_text(path, TEXT_MAX)
                .map_err(|error| anyhow::anyhow!("{}: {error}", output::shown(path)))?,
        ],
    };
    let mut all = Vec::new();
    for text in &texts {
        let file = ClaimFile::parse(text)
            .map_err(|why| Usage(format!("{}: {why}", output::shown(path))))?;
        all.extend(file.claim);
    }
    Ok(all)
}

/// Judges, and prints. The exit code says whether all could be judged, and with `--fail-on` whether
/// one got an answer that is named there.
///
/// # Errors
/// Where a claim cannot be read, or the result cannot be written.
pub fn run(args: &ClaimArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let out = args.out.as_deref();
    let format = document::format_without_cases(args.format, out, global, "claims")?;
    let catalogue = Catalogue::load(global.data.as_deref())?;
    let mut models: BTreeMap<String, Model> = BTreeMap::new();
    let mut judged = Vec::new();
    for mut claim in claims(args, &catalogue)? {
        // Of a command line it is the only one, and errors name its words.
        let name = claim.name().to_owned();
        let usage = |why: String| match args.from {
            Some(_) => Usage(format!("{name}: {why}")),
            None => Usage(why),
        };
        let model = match &claim.model {
            None => None,
            Some(name) => Some(match models.get(name) {
                Some(model) => model.clone(),
                None => {
                    let model = catalogue.model(name).map_err(|error| usage(error.to_string()))?;
                    models.insert(name.clone(), model.clone());
                    model
                }
            }),
        };
        let mut notes = Vec::new();
        let part = match &claim.on {
            Some(on) => {
                let found = parts::part_called(&catalogue, "--on", on);
                let (part, note) = found.map_err(|Usage(why)| usage(why))?;
                if let Some(other) = parts::other_part_in(&catalogue, &claim.value, part) {
                    return Err(usage(format!(
                        "the text names {other}, and --on {on}: leave one of them out"
                    ))
                    .into());
                }
                notes.extend(note);
                Some(part)
            }
            None => match parts::part_in(&catalogue, &claim.value).transpose() {
                Ok(None) => None,
                Ok(Some((part, name))) => {
                    let names = [part.id.as_str(), &part.name, &part.vendor];
                    let reading = Reading::of(&claim.value, &names).ok();
                    claim.gpus = claim.gpus.or(reading.and_then(|reading| reading.devices));
                    let gpus = claim.gpus.map(|count| format!(" --gpus {count}"));
                    let gpus = gpus.unwrap_or_default();
                    notes.push(format!("the text names {name}: --on {}{gpus} taken", part.id));
                    claim.on = Some(part.id.clone());
                    Some(part)
                }
                Err(why) => {
                    let command = format!("fizeau claim \"{}\" --on PART", claim.value);
                    return Err(usage(format!("{why}: write {command}")).into());
                }
            },
        };
        let layout = claim.layout.as_ref().map(|text| text.parse::<Layout>()).transpose();
        let layout = layout.map_err(usage)?;
        let mut verdict = judge(&claim, &Named { part, model, layout, links: &catalogue.links })
            .map_err(usage)?;
        verdict.arithmetic.splice(0..0, notes);
        let is_unnamed = claim.on.is_none() && args.from.is_none() && args.fail_on.is_empty();
        if is_unnamed && verdict.answer == Answer::CannotTell {
            let why = "name the hardware that the figure is of: --on h200 (`fizeau devices \
                       --parts` lists the names)";
            return Err(Usage(format!("{}: {why}", claim.value)).into());
        }
        judged.push((claim, verdict));
    }
    let document = verdicts(&judged);
    let text = match format {
        ReportFormat::Csv => csv::of_tables(&document, &["claims"])?,
        _ => document::render(&document, format, document::window(global))?,
    };
    document::deliver(&text, args.out.as_deref())?;
    let fails =
        |(_, verdict): &(Claim, Verdict)| args.fail_on.iter().any(|name| name.is(verdict.answer));
    Ok(ExitCode::from(if judged.iter().any(fails) { exit::FAILED } else { 0 }))
}
