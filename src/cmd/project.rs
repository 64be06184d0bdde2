//! `fizeau project`: what a language model can do on a part, or on the machine of a record.

use super::{
    Global, Usage,
    report::{self, ReportFormat},
};
use crate::{
    data::Catalogue,
    model::{Format, Model, Module, config::KV_DEFAULT},
    project::{
        Demand, Hardware, Layout, Link, Offer, Scenario, Slo, Split, project,
        sweep::CONCURRENCY_MAX,
    },
    record::store,
    report::projection,
    units::{BytesPerSecond, Seconds},
};
use clap::Args;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

/// What a model is asked, and how it is stored: shared by verbs about models.
#[derive(Args, Clone, Debug)]
pub struct ModelArgs {
    /// A model: a name that is built in, or a path to a config.json of the Hugging Face hub
    #[arg(value_name = "MODEL")]
    pub model: String,
    /// Tokens of a prompt
    #[arg(long, allow_negative_numbers = true, value_name = "TOKENS", default_value_t = 1024)]
    pub isl: u32,
    /// Tokens of an answer
    #[arg(long, allow_negative_numbers = true, value_name = "TOKENS", default_value_t = 1024)]
    pub osl: u32,
    /// Of a prompt, tokens whose keys and values are there already (prefix cache)
    #[arg(long, allow_negative_numbers = true, value_name = "TOKENS", default_value_t = 0)]
    pub prefix: u32,
    /// Requests at once: 8, 1,4,16, or 1..128 (powers of two)
    #[arg(long, value_name = "LIST", default_value = "1..128")]
    pub concurrency: Concurrency,
    /// How weights are stored: fp8 for all linear layers, or experts=mxfp4,attention=fp8
    /// [default: as the model is published]
    #[arg(long, value_name = "FORMAT")]
    pub precision: Option<String>,
    /// How keys and values are stored
    #[arg(long, value_name = "FORMAT", default_value_t = KV_DEFAULT)]
    pub kv: Format,
}

/// Arguments of `project`.
#[derive(Args, Clone, Debug)]
pub struct ProjectArgs {
    /// The model and its load
    #[command(flatten)]
    pub load: ModelArgs,
    /// Hardware: a part of the catalogue (h200, mi355x), or a record or its directory; repeat it
    /// to compare
    #[arg(long, value_name = "PART_OR_RECORD", required = true)]
    pub on: Vec<String>,
    /// Layouts: tp8 (tensor parallel), ep8 (experts dealt out, attention data-parallel), 2xtp4 (two
    /// copies)
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "tp1")]
    pub layout: Vec<String>,
    /// Limits that a request has to keep: ttft=500ms,tpot=20ms,e2el=30s
    #[arg(long, value_name = "LIMITS")]
    pub slo: Option<String>,
    /// Dollars of one device for an hour: one number, or one for each --on
    #[arg(long, allow_negative_numbers = true, value_name = "DOLLARS", value_delimiter = ',')]
    pub price: Vec<f64>,
    /// Watts of one device: one number, or one for each --on [default: what the part is stated to
    /// take]
    #[arg(long, allow_negative_numbers = true, value_name = "WATTS", value_delimiter = ',')]
    pub power: Vec<f64>,
    /// GB/s of one device to its peers in one direction, where the catalogue is not to be asked
    #[arg(long, allow_negative_numbers = true, value_name = "GB/S")]
    pub link: Option<f64>,
    /// The share of memory that weights and KV cache may take
    #[arg(long, allow_negative_numbers = true, value_name = "SHARE", default_value_t = 0.9)]
    pub memory_share: f64,
    /// How it is written [default: terminal, or as the name of --out ends; json with --json]
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// Write it to this file and not to standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Requests at once, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concurrency(pub Vec<u32>);

impl std::fmt::Display for Concurrency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
    }
}

impl std::str::FromStr for Concurrency {
    type Err = String;
    fn from_str(text: &str) -> Result<Concurrency, String> {
        let number = |text: &str| {
            let number = text.trim().parse::<u32>().ok();
            let number = number.filter(|number| (1..=CONCURRENCY_MAX).contains(number));
            number.ok_or_else(|| format!("{text:?}: whole numbers from 1 to {CONCURRENCY_MAX}"))
        };
        if let Some((from, to)) = text.split_once("..") {
            let (from, to) = (number(from)?, number(to)?);
            if from > to {
                return Err(format!("{from}..{to} is empty"));
            }
            let mut list: Vec<_> = (0..=20).map(|power| 1 << power).collect();
            list.retain(|one| (from..=to).contains(one));
            list.extend([from, to]);
            list.sort_unstable();
            list.dedup();
            return Ok(Concurrency(list));
        }
        let mut list = text.split(',').map(number).collect::<Result<Vec<_>, _>>()?;
        list.sort_unstable();
        list.dedup();
        Ok(Concurrency(list))
    }
}

impl ModelArgs {
    /// The model, stored as asked.
    ///
    /// # Errors
    /// Where there is no such model or format.
    pub fn model(&self, catalogue: &Catalogue) -> anyhow::Result<Model> {
        let mut model = catalogue.model(&self.model).map_err(|error| Usage(error.to_string()))?;
        if let Some(text) = &self.precision {
            store_as(&mut model, text).map_err(|why| Usage(format!("--precision: {why}")))?;
        }
        Ok(model)
    }

    /// What is asked of it.
    ///
    /// # Errors
    /// Where a number cannot be.
    pub fn scenario(&self, model: &Model, memory_share: f64) -> Result<Scenario, Usage> {
        let scenario = Scenario {
            input: self.isl,
            prefix: self.prefix,
            output: self.osl,
            kv: self.kv,
            memory_share,
        };
        scenario.check(model).map_err(Usage)?;
        Ok(scenario)
    }
}

/// `fp8`, or `experts=mxfp4,attention=fp8`.
fn store_as(model: &mut Model, text: &str) -> Result<(), String> {
    for part in text.split(',') {
        match part.split_once('=') {
            None => model.precision = model.precision.with_linear(part.parse()?),
            Some((name, format)) => {
                let module = Module::ALL.into_iter().find(|module| module.name() == name);
                let module = module.ok_or_else(|| {
                    let known = Module::ALL.map(Module::name).join(", ");
                    format!("{name:?} is none of {known}")
                })?;
                model.precision.set(&[module], format.parse()?);
            }
        }
    }
    Ok(())
}

/// A part by its id, or by the beginning of it where that is one part; of several the one with an
/// SXM or HGX board is taken, which is said.
///
/// # Errors
/// Where there is none, or more than one.
pub fn part_called<'a>(
    catalogue: &'a Catalogue,
    name: &str,
) -> Result<(&'a crate::spec::Part, Option<String>), Usage> {
    let wanted = name.to_ascii_lowercase();
    if let Some(part) = catalogue.parts.iter().find(|part| part.id == wanted) {
        return Ok((part, None));
    }
    let begins = |part: &&crate::spec::Part| {
        part.id.strip_prefix(&wanted).is_some_and(|rest| rest.starts_with('-'))
    };
    let found: Vec<_> = catalogue.parts.iter().filter(begins).collect();
    let is_board = |part: &&&crate::spec::Part| {
        let rest = &part.id[wanted.len()..];
        rest.starts_with("-sxm") || rest.starts_with("-hgx")
    };
    let boards: Vec<_> = found.iter().filter(is_board).collect();
    let ids = found.iter().map(|part| part.id.as_str()).collect::<Vec<_>>().join(", ");
    match (found.as_slice(), boards.as_slice()) {
        ([part], _) => Ok((part, None)),
        (_, [part]) => Ok((part, Some(format!("{name}: {} is taken, of {ids}", part.id)))),
        ([], _) => Err(Usage(format!(
            "--on {name}: no part has this name, and there is no such record; `fizeau devices \
             --parts` prints the catalogue"
        ))),
        _ => Err(Usage(format!("--on {name}: which of {ids}?"))),
    }
}

/// Hardware by a part's name or a record's path.
///
/// # Errors
/// Where there is none, or its record cannot be used.
pub fn hardware(catalogue: &Catalogue, name: &str) -> anyhow::Result<Hardware> {
    let path = Path::new(name);
    if path.exists() {
        let record = store::read(path)?;
        let part = catalogue.part_of(&record.header.device);
        return Ok(Hardware::of_record(name, &record, part).map_err(Usage)?);
    }
    let (part, note) = part_called(catalogue, name)?;
    let mut hardware = Hardware::of_part(part).map_err(Usage)?;
    hardware.notes.extend(note);
    Ok(hardware)
}

fn slo(text: &str) -> Result<Slo, Usage> {
    let refuse = |part: &str| Usage(format!("--slo {part:?}: write ttft=500ms,tpot=20ms,e2el=30s"));
    let mut slo = Slo::default();
    for part in text.split(',') {
        let (name, time) = part.split_once('=').ok_or_else(|| refuse(part))?;
        let (number, scale) = match (time.strip_suffix("ms"), time.strip_suffix('s')) {
            (Some(number), _) => (number, 1e-3),
            (None, Some(number)) => (number, 1.0),
            _ => return Err(refuse(part)),
        };
        let number = number.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0);
        let time = Some(Seconds(number.ok_or_else(|| refuse(part))? * scale));
        match name {
            "ttft" => slo.first_token = time,
            "tpot" => slo.token = time,
            "e2el" => slo.end_to_end = time,
            _ => return Err(refuse(part)),
        }
    }
    Ok(slo)
}

/// One number for all, or one for each.
fn each(option: &str, numbers: &[f64], at: usize, count: usize) -> Result<Option<f64>, Usage> {
    if let Some(wrong) = numbers.iter().find(|number| !number.is_finite() || **number <= 0.0) {
        return Err(Usage(format!("{option} {wrong}: a number above 0")));
    }
    match numbers.len() {
        0 => Ok(None),
        1 => Ok(Some(numbers[0])),
        given if given == count => Ok(Some(numbers[at])),
        given => Err(Usage(format!("{option} has {given} numbers, and --on {count}"))),
    }
}

fn offers(args: &ProjectArgs, catalogue: &Catalogue, model: &Model) -> anyhow::Result<Vec<Offer>> {
    let parse = |text: &String| -> Result<Layout, Usage> {
        let layout: Layout = text.trim().parse().map_err(Usage)?;
        layout.check(model).map_err(Usage)?;
        Ok(layout)
    };
    let layouts = args.layout.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    let count = args.on.len();
    let mut offers = Vec::new();
    for (at, name) in args.on.iter().enumerate() {
        let mut hardware = hardware(catalogue, name)?;
        if let Some(rate) = each("--link", args.link.as_slice(), 0, 1)? {
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
            price: each("--price", &args.price, at, count)?,
            power: each("--power", &args.power, at, count)?,
        });
    }
    Ok(offers)
}

/// Projects, and prints.
///
/// # Errors
/// Where the command line asks what cannot be, a record cannot be read, or the result cannot be
/// written.
pub fn run(args: &ProjectArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let format = report::format_without_cases(args.format, args.out.as_deref(), global)?;
    let catalogue = Catalogue::load(global.data.as_deref())?;
    let model = args.load.model(&catalogue)?;
    let scenario = args.load.scenario(&model, args.memory_share)?;
    let offers = offers(args, &catalogue, &model)?;
    let slo = args.slo.as_deref().map_or(Ok(Slo::default()), slo)?;
    let concurrency = args.load.concurrency.0.clone();
    let demand = Demand { model, scenario, concurrency, slo };
    let projected = project(demand, offers).map_err(|error| Usage(error.to_string()))?;
    let document = projection(&projected);
    let text = report::render(&document, format, report::window(global))?;
    match &args.out {
        Some(path) => super::write_file(path, text.as_bytes(), "--out FILE")?,
        None => super::write_out(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The layout of `shapes`: one that is not a copy of the model.
pub fn layout_of(text: &str, model: &Model) -> Result<Layout, Usage> {
    let layout: Layout = text.parse().map_err(Usage)?;
    layout.check(model).map_err(Usage)?;
    Ok(layout)
}

/// Tensor parallelism over n devices.
pub fn tensor(devices: u32) -> String {
    Layout { replicas: 1, split: Split::Tensor(devices) }.to_string()
}
