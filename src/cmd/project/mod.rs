//! `fizeau project`: what a language model can do on a part, or on the machine of a record.

mod validate;
mod what_if;

use super::{
    document::{self, ReportFormat},
    exit::Usage,
    global::Global,
    models::{self, LoadArgs},
    parts,
    share::Share,
};
use crate::data::Catalogue;
use clap::Args;
use fizeau_domain::{model::Model, number, units::BytesPerSecond};
use fizeau_projection::project::{
    Alternative, Demand, Layout, Link, Offer, Seen, Serving, Slo, project_with,
};
use fizeau_report::{format::csv, projection, projection_of_what_fits};
use std::{path::PathBuf, process::ExitCode};
use what_if::{Base, WHAT_IFS_MAX};

/// Arguments of `project`.
#[derive(Args, Clone, Debug)]
pub struct ProjectArgs {
    /// A model: a name that is built in, or a path to a config.json of the Hugging Face hub
    #[arg(value_name = "MODEL", required_unless_present = "validate")]
    pub model: Option<String>,
    /// What is asked of it
    #[command(flatten)]
    pub load: LoadArgs,
    /// Hardware: a part of the catalogue (h200, mi355x), or a record or its directory (several of
    /// one machine with + between them)
    #[arg(long, value_name = "PART_OR_RECORD", required_unless_present = "validate")]
    pub on: Vec<String>,
    /// Other hardware to compare it with; repeat it for more
    #[arg(long, value_name = "PART_OR_RECORD")]
    pub vs: Vec<String>,
    /// Layouts: tp8 (tensor parallel), ep8 (experts dealt out, attention data-parallel), pp4 (a
    /// pipeline), tp2pp4 (both), 2xtp4 (two copies)
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "tp1")]
    pub layout: Vec<String>,
    /// Limits that a request has to keep: ttft=500ms,tpot=20ms,e2el=30s
    #[arg(long, value_name = "LIMITS")]
    pub slo: Option<String>,
    /// Dollars of one device for an hour: one number, or one for each --on
    #[arg(long, allow_negative_numbers = true, value_name = "DOLLARS")]
    pub price: Vec<String>,
    /// Watts of one device: one number, or one for each --on [default: the part's stated power]
    #[arg(long, allow_negative_numbers = true, value_name = "WATTS")]
    pub power: Vec<String>,
    /// GB/s of one device to its peers in one direction, in place of the catalogue's figure
    #[arg(long, allow_negative_numbers = true, value_name = "GB/S")]
    pub link: Option<f64>,
    /// A change to compare with the first --on; repeat it for more. Settings are separated by
    /// commas: precision=fp8,kv=fp8; isl=32000; prefix=50%; layout=2xtp4; on=mi355x;
    /// accept=2.6,draft=3,draft-model=NAME; prefill=tp4,transfer=50;
    /// cap=500,compute-speed=0.9,memory-speed=1
    #[arg(long, value_name = "WORDS")]
    pub what_if: Vec<String>,
    /// Your own figure of the answers' quality for each precision: bf16=72.1,fp8=71.8 (published:
    /// as the model is published). Makes a table of quality, cost and precision
    #[arg(long, value_name = "FIGURES")]
    pub accuracy: Option<String>,
    /// Times of a running service: ttft=900ms,tpot=31ms. Names the resource on which it loses the
    /// most time
    #[arg(long, value_name = "TIMES")]
    pub seen: Option<String>,
    /// Set a list of measurements beside L0, L1 and L2: a CSV file (docs/project.md has its
    /// columns), or `built-in`. Exit code 1 where one is above L0
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["model", "on", "vs", "what_if", "slo", "accuracy", "seen", "price",
            "power", "link", "isl", "osl", "prefix", "concurrency", "precision", "kv", "layout"]
    )]
    pub validate: Option<PathBuf>,
    /// Leave out published rates and fixed costs of parts: L2 uses records alone
    #[arg(long)]
    pub no_published: bool,
    /// The share of memory that weights and KV cache may take
    #[arg(long, allow_negative_numbers = true, value_name = "SHARE", default_value_t = Share(0.9))]
    pub memory_share: Share,
    /// Output format [default: terminal, or by the name of --out; json with --json]
    #[arg(long, value_parser = document::document_format())]
    pub format: Option<ReportFormat>,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// The most that one device may cost or take, in dollars an hour and in watts: a number above it
/// was not meant as one.
const EACH_MOST: f64 = 1e4;

/// Numbers of an option that takes one for all hardware, or one for each.
fn numbers(option: &str, given: &[String], count: usize) -> Result<Vec<f64>, Usage> {
    let refuse = |why: String| Usage(format!("{option} {}: {why}", given.join(" ")));
    if let [one] = given
        && let Some(meant) = number::may_be_one(one, EACH_MOST)
    {
        let each = one.replace(',', &format!(" {option} "));
        return Err(refuse(match count {
            2 => format!(
                "it may mean {meant} for both --on, or one number for each: write {option} \
                 {meant}, or {option} {each}"
            ),
            _ => format!("it has 2 numbers, and --on {count}; if it is one number, write {meant}"),
        }));
    }
    let mut list = Vec::new();
    for text in given.iter().flat_map(|text| text.split(',')) {
        let value = number::positive(text.trim());
        list.push(value.map_err(|why| refuse(format!("{why}; {NUMBERS}")))?);
    }
    match list.len() {
        0 | 1 => Ok(list),
        given if given == count => Ok(list),
        given => Err(refuse(format!("it has {given} numbers, and --on {count}; {NUMBERS}"))),
    }
}

/// How such an option is written.
const NUMBERS: &str = "give one number for all --on, or one for each, with a comma between two \
                       numbers and a point before a fraction: 2.5,2.2";

/// The number for one of several.
fn of_one(list: &[f64], at: usize) -> Option<f64> {
    list.get(at).or(list.first()).copied()
}

fn offers(args: &ProjectArgs, catalogue: &Catalogue, model: &Model) -> anyhow::Result<Vec<Offer>> {
    let parse = |text: &String| -> Result<Layout, Usage> {
        let layout: Layout = text.trim().parse().map_err(Usage)?;
        layout.check(model).map_err(Usage)?;
        Ok(layout)
    };
    let layouts = args.layout.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    let count = args.on.len();
    let prices = numbers("--price", &args.price, count)?;
    let powers = numbers("--power", &args.power, count)?;
    let mut offers = Vec::new();
    for (at, name) in args.on.iter().enumerate() {
        let mut hardware = parts::hardware(catalogue, name, !args.no_published)?;
        if let Some(rate) = args.link {
            if !(rate.is_finite() && rate > 0.0) {
                return Err(Usage(format!("--link {rate}: a number of GB/s above 0")).into());
            }
            let inside = BytesPerSecond(rate * 1e9);
            let basis = format!("{inside} a direction (--link)");
            hardware.link = Some(Link { inside, domain: None, outside: None, basis });
        }
        let most = layouts.iter().map(|layout| layout.split.devices()).max().unwrap_or(1);
        if let Some(link) = &hardware.link
            && let (Some(domain), None) = (link.domain, link.outside)
            && most > domain
        {
            hardware.notes.push(format!(
                "{name}: {most} devices are more than its links connect ({domain}), and its \
                 network is not known: the links' rate is taken, which is too high"
            ));
        }
        offers.push(Offer {
            hardware,
            layouts: layouts.clone(),
            price: of_one(&prices, at),
            power: of_one(&powers, at),
        });
    }
    Ok(offers)
}

/// What could be otherwise, each beside the first hardware.
fn alternatives(
    args: &ProjectArgs,
    catalogue: &Catalogue,
    demand: &Demand,
    offers: &[Offer],
) -> anyhow::Result<Vec<Alternative>> {
    let Some(offer) = offers.first() else { return Ok(Vec::new()) };
    let is_published = !args.no_published;
    let base = Base { demand, offer, catalogue, is_published };
    let mut list = Vec::new();
    if args.what_if.len() > WHAT_IFS_MAX {
        return Err(Usage(format!("--what-if: {WHAT_IFS_MAX} at most")).into());
    }
    for text in &args.what_if {
        list.push(what_if::alternative(text, &base)?);
    }
    if let Some(text) = &args.accuracy {
        list.extend(what_if::qualities(text, &base, args.model.as_deref().unwrap_or_default())?);
    }
    Ok(list)
}

/// Projects, and prints.
///
/// # Errors
/// Where the command line asks what cannot be, a record cannot be read, or the result cannot be
/// written.
pub fn run(args: &ProjectArgs, global: &Global) -> anyhow::Result<ExitCode> {
    if let Some(list) = &args.validate {
        return validate::run(args, list, global);
    }
    let mut args = args.clone();
    args.on.append(&mut args.vs);
    let args = &args;
    let out = args.out.as_deref();
    let format = document::format_without_cases(args.format, out, global, "projections")?;
    let catalogue = Catalogue::load(global.data.as_deref())?;
    let name = args.model.as_deref().unwrap_or_default();
    let model = args.load.model(name, &catalogue)?;
    let scenario = args.load.scenario(&model, args.memory_share.0)?;
    let offers = offers(args, &catalogue, &model)?;
    let slo =
        args.slo.as_deref().map_or(Ok(Slo::default()), |text| models::times("--slo", text))?;
    let seen =
        args.seen.as_deref().map_or(Ok(Slo::default()), |text| models::times("--seen", text))?;
    if seen.end_to_end.is_some() {
        return Err(Usage("--seen takes ttft and tpot: e2el follows from both".into()).into());
    }
    let concurrency = args.load.concurrency.0.clone();
    let precision = args.load.precision.clone();
    let seen = Seen { first_token: seen.first_token, token: seen.token };
    let serving = Serving::default();
    let demand = Demand { model, precision, scenario, serving, concurrency, slo, seen };
    let alternatives = alternatives(args, &catalogue, &demand, &offers)?;
    let projected = project_with(demand, offers, alternatives);
    let projected = projected.map_err(|error| Usage(error.to_string()))?;
    let is_for_programs = matches!(format, ReportFormat::Csv | ReportFormat::Json);
    let document = match is_for_programs {
        true => projection(&projected),
        false => projection_of_what_fits(&projected),
    };
    let text = match format {
        ReportFormat::Csv => csv::of_tables(&document, &["points", "what_if_points"])?,
        _ => document::render(&document, format, document::window(global))?,
    };
    document::deliver(&text, args.out.as_deref())?;
    Ok(ExitCode::SUCCESS)
}
