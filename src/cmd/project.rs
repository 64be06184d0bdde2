//! `fizeau project`: what a language model can do on a part, or on the machine of a record.

use super::{
    Global, Usage,
    report::{self, ReportFormat},
    what_if::{self, Base, WHAT_IFS_MAX},
};
use crate::data::Catalogue;
use clap::Args;
use fizeau_domain::{
    model::{Format, Model, Module, config::KV_DEFAULT},
    number,
    units::{BytesPerSecond, Seconds},
};
use fizeau_projection::project::{
    Alternative, Demand, Hardware, Layout, Link, MediansFile, Offer, Public, Scenario, Seen,
    Serving, Slo, Split, joined::joined, project_with, sweep::CONCURRENCY_MAX,
};
use fizeau_record::store;
use fizeau_report::{format::csv, projection};
use std::{
    collections::BTreeSet,
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
    #[arg(long, allow_negative_numbers = true, value_name = "LIST", default_value = "1..128")]
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
    /// Hardware: a part of the catalogue (h200, mi355x), or a record or its directory (several of
    /// one machine with + between them); repeat it to compare
    #[arg(long, value_name = "PART_OR_RECORD", required = true)]
    pub on: Vec<String>,
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
    /// Watts of one device: one number, or one for each --on [default: what the part is stated to
    /// take]
    #[arg(long, allow_negative_numbers = true, value_name = "WATTS")]
    pub power: Vec<String>,
    /// GB/s of one device to its peers in one direction, where the catalogue is not to be asked
    #[arg(long, allow_negative_numbers = true, value_name = "GB/S")]
    pub link: Option<f64>,
    /// What could be otherwise, set beside the first --on; repeat it. Words with commas between
    /// them: precision=fp8,kv=fp8; isl=32000; prefix=50%; layout=2xtp4; on=mi355x;
    /// accept=2.6,draft=3,draft-model=NAME; prefill=tp4,transfer=50;
    /// cap=500,compute-speed=0.9,memory-speed=1
    #[arg(long, value_name = "WORDS")]
    pub what_if: Vec<String>,
    /// Your own figure of the answers' quality for each precision: bf16=72.1,fp8=71.8 (published:
    /// as the model is published). Makes a table of quality, cost and precision
    #[arg(long, value_name = "FIGURES")]
    pub accuracy: Option<String>,
    /// What a service that runs shows: ttft=900ms,tpot=31ms. Says which resource is below its
    /// ceiling, by lost time
    #[arg(long, value_name = "TIMES")]
    pub seen: Option<String>,
    /// Leave out rates that others published of a part: L2 is of records alone
    #[arg(long)]
    pub no_published: bool,
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
            let text = text.trim();
            // Of "1,024" people mean one number.
            if text.len() > 1 && text.starts_with('0') {
                return Err(format!(
                    "{text:?}: a comma stands between numbers of the list, and not between \
                     thousands: write 1024"
                ));
            }
            let number = text.parse::<u32>().ok();
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
pub(super) fn store_as(model: &mut Model, text: &str) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for part in text.split(',') {
        let place = part.split_once('=').map_or("all linear layers", |(name, _)| name);
        if !seen.insert(place) {
            return Err(format!("{text:?} states {place} twice"));
        }
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
/// SXM or HGX board is taken, which is said. `option` is what named it.
///
/// # Errors
/// Where there is none, or more than one.
pub fn part_called<'a>(
    catalogue: &'a Catalogue,
    option: &str,
    name: &str,
) -> Result<(&'a fizeau_domain::spec::Part, Option<String>), Usage> {
    let wanted = name.to_ascii_lowercase();
    if let Some(part) = catalogue.parts.iter().find(|part| part.id == wanted) {
        return Ok((part, None));
    }
    let begins = |part: &&fizeau_domain::spec::Part| {
        part.id.strip_prefix(&wanted).is_some_and(|rest| rest.starts_with('-'))
    };
    let found: Vec<_> = catalogue.parts.iter().filter(begins).collect();
    let is_board = |part: &&&fizeau_domain::spec::Part| {
        let rest = &part.id[wanted.len()..];
        rest.starts_with("-sxm") || rest.starts_with("-hgx")
    };
    let boards: Vec<_> = found.iter().filter(is_board).collect();
    let ids = found.iter().map(|part| part.id.as_str()).collect::<Vec<_>>().join(", ");
    match (found.as_slice(), boards.as_slice()) {
        ([part], _) => Ok((part, None)),
        (_, [part]) => Ok((part, Some(format!("{name}: {} is taken, of {ids}", part.id)))),
        ([], _) => Err(Usage(format!(
            "{option} {name}: no part has this name, and there is no such record; `fizeau devices \
             --parts` prints the catalogue"
        ))),
        _ => Err(Usage(format!("{option} {name}: which of {ids}?"))),
    }
}

/// Hardware by a part's name, or by the paths of one record or of several of one machine, with `+`
/// between them. Published rates of the part stand in for what is not measured, if they are wanted.
///
/// # Errors
/// Where there is none, or its record cannot be used.
pub fn hardware(catalogue: &Catalogue, name: &str, is_published: bool) -> anyhow::Result<Hardware> {
    let paths = match Path::new(name).exists() {
        true => vec![name],
        false => name.split('+').collect(),
    };
    let is_record = paths.iter().all(|path| Path::new(path).exists());
    let (part, mut hardware) = if is_record {
        let read = |path: &&str| Ok(((*path).to_owned(), store::read(Path::new(path))?));
        let records = paths.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
        let record = joined(records).map_err(Usage)?;
        let part = catalogue.part_of(&record.header.device);
        (part, Hardware::of_record(name, &record, part).map_err(Usage)?)
    } else {
        if let [_, _, ..] = paths.as_slice() {
            let lacks = paths.iter().find(|path| !Path::new(path).exists()).unwrap_or(&name);
            return Err(Usage(format!("--on {name}: there is no record {lacks}")).into());
        }
        let (part, note) = part_called(catalogue, "--on", name)?;
        let mut hardware = Hardware::of_part(part).map_err(Usage)?;
        hardware.notes.extend(note);
        (Some(part), hardware)
    };
    let medians = part.filter(|_| is_published).and_then(|part| catalogue.medians(&part.id));
    if let Some((origin, text)) = medians {
        let refuse = |why: String| Usage(format!("{origin}: {why}"));
        let file: MediansFile = toml::from_str(text).map_err(|error| refuse(error.to_string()))?;
        hardware.public = Some(Public::of(&file, &hardware).map_err(refuse)?);
        hardware.notes.push(match hardware.measured {
            Some(_) => format!(
                "{name}: where the record has no such shape, L2 takes rates that \
                                others published of this part; they do not count as covered"
            ),
            None => format!(
                "{name}: L2 takes rates that others published of this part, and says \
                             nothing of a machine of yours; --no-published leaves them out"
            ),
        });
    }
    Ok(hardware)
}

pub(super) fn times(option: &str, text: &str) -> Result<Slo, Usage> {
    let refuse = |part: &str| {
        Usage(format!(
            "{option} {part:?}: write ttft=500ms,tpot=20ms,e2el=30s, each once, with a point \
             before a fraction"
        ))
    };
    let mut slo = Slo::default();
    for part in text.split(',') {
        let (name, time) = part.split_once('=').ok_or_else(|| refuse(part))?;
        let (digits, scale) = match (time.strip_suffix("ms"), time.strip_suffix('s')) {
            (Some(digits), _) => (digits, 1e-3),
            (None, Some(digits)) => (digits, 1.0),
            _ => return Err(refuse(part)),
        };
        let value = number::positive(digits).map_err(|_| refuse(part))?;
        let place = match name {
            "ttft" => &mut slo.first_token,
            "tpot" => &mut slo.token,
            "e2el" => &mut slo.end_to_end,
            _ => return Err(refuse(part)),
        };
        if place.replace(Seconds(value * scale)).is_some() {
            return Err(refuse(part));
        }
    }
    Ok(slo)
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
        let mut hardware = hardware(catalogue, name, !args.no_published)?;
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
        list.extend(what_if::qualities(text, &base, &args.load.model)?);
    }
    Ok(list)
}

/// Projects, and prints.
///
/// # Errors
/// Where the command line asks what cannot be, a record cannot be read, or the result cannot be
/// written.
pub fn run(args: &ProjectArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let out = args.out.as_deref();
    let format = report::format_without_cases(args.format, out, global, "projections")?;
    let catalogue = Catalogue::load(global.data.as_deref())?;
    let model = args.load.model(&catalogue)?;
    let scenario = args.load.scenario(&model, args.memory_share)?;
    let offers = offers(args, &catalogue, &model)?;
    let slo = args.slo.as_deref().map_or(Ok(Slo::default()), |text| times("--slo", text))?;
    let seen = args.seen.as_deref().map_or(Ok(Slo::default()), |text| times("--seen", text))?;
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
    let document = projection(&projected);
    let text = match format {
        ReportFormat::Csv => csv::of_tables(&document, &["points", "what_if_points"])?,
        _ => report::render(&document, format, report::window(global))?,
    };
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
