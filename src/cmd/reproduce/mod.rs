//! `fizeau reproduce`: runs a published hardware claim under its conditions.
//!
//! Each round is a process of its own, which leaves a record. What is judged is the records, and
//! they stay beside the answer with their hashes: `--check` judges them again, on any machine.

pub mod bundle;

use super::{
    child::Measuring,
    disk,
    document::{self, ReportFormat},
    exit::Usage,
    global::Global,
    keeper::Keeper,
    output,
    parts::part_called,
    plan, signals,
};
use crate::{
    data::Catalogue,
    world::{Choice, choice},
};
use anyhow::{Context as _, bail};
use bundle::Bundle;
use clap::Args;
use fizeau_device::{clock, limits::Limit};
use fizeau_domain::{
    spec::Part,
    units::{Megahertz, Watts},
};
use fizeau_projection::claim::{
    self, Claim, ClaimFile, Here, Named, PartNamed, Run, Statement, Verdict, judge,
};
use fizeau_record::{Record, file};
use fizeau_report::{Block, Bundled, Document, claims_listed, reproduction, without_numbers};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::AtomicBool,
};

/// The page of a bundle.
const PAGE: &str = "reproduction.html";

/// Where the process leaves its record that finds the fastest case.
const CHOICE: &str = "rounds/00-choice";

/// Why claims about tokens are not run.
const TOKENS: &str = "claims about tokens are not run: they are about an engine that serves a \
                      model, which this program does not start; `fizeau claim` says whether they \
                      can be true";

/// Arguments of `reproduce`.
#[derive(Args, Clone, Debug)]
pub struct ReproduceArgs {
    /// A TOML file with a claim, or the id of a built-in one
    #[arg(value_name = "CLAIM", required_unless_present_any = ["list", "check"])]
    pub claim: Option<String>,
    /// Which claim of a file that has several
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// Print the built-in claims, and which of them run on this machine
    #[arg(long, conflicts_with_all = ["claim", "check"])]
    pub list: bool,
    /// Judge the records of an earlier reproduction again, and compare hashes and answer
    #[arg(long, value_name = "DIR", conflicts_with = "claim")]
    pub check: Option<PathBuf>,
    /// A device as `fizeau devices` names it [default: the host for a CPU's claim, else the first
    /// GPU]
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// Fresh processes that measure; from 2 on their scatter is known
    #[arg(
        long,
        value_name = "N",
        default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=100)
    )]
    pub rounds: u32,
    /// Where records, answer and page go [default: results/local/TIME-reproduce-ID]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Set the clock and the power limit that the claim states, as root. What was there is put
    /// back, also where this process is killed
    #[arg(long)]
    pub set_limits: bool,
    /// Leave the host's name out of the records
    #[arg(long)]
    pub no_host_name: bool,
}

/// Runs a claim. Exit code 0: reproduced, 1: not reproduced, 4: cannot tell.
///
/// # Errors
/// Where the claim cannot be read or run, or its answer cannot be written.
pub fn run(args: &ReproduceArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let catalogue = plan::catalogue(global)?;
    if args.list {
        return list(args, &catalogue, global);
    }
    if let Some(directory) = &args.check {
        return bundle::check(directory, &catalogue, global);
    }
    let interrupted = signals::watch()?;
    let name = args.claim.as_deref().unwrap_or_default();
    let known = known(name, args.id.as_deref(), &catalogue)?;
    let ready = Ready::of(&known.claim, args, &catalogue)?;
    let id = file_name(&known.claim.id);
    let directory = match &args.out {
        Some(directory) => directory.clone(),
        None => {
            let time = clock::utc_now().replace(':', "");
            Path::new(disk::LOCAL).join(format!("{time}-reproduce-{id}"))
        }
    };
    if directory.join(bundle::FILE).exists() {
        let place = output::shown(&directory);
        let why = format!("{place} holds a reproduction already: choose another --out");
        return Err(Usage(why).into());
    }
    disk::make_directory(&directory, "--out DIR")?;
    disk::write_file(&directory.join(bundle::CLAIM), known.text.as_bytes(), "--out DIR")?;
    disk::write_file(&directory.join(bundle::SUITE), ready.suite.as_bytes(), "--out DIR")?;
    let rounds = Rounds { ready: &ready, args, global, directory: &directory };
    let mut keeper = args.set_limits.then(|| under_its_limits(&ready)).transpose()?;
    let (case, places, records) = rounds.measured(&interrupted)?;
    keeper.as_mut().map_or(Ok(()), Keeper::restore)?;
    let here = Here { part: ready.part, possible: &ready.possible, case: &case, rounds: &records };
    let found = claim::reproduce(&ready.claim, ready.run(), here).map_err(anyhow::Error::msg)?;
    let command = ready.command(args);
    let bundle = Bundle::of(&found, &ready.claim, &case, &places, &command, &directory)?;
    bundle.write(&directory)?;
    let mut document = reproduction(&Bundled {
        claim: &ready.claim,
        found: &found,
        case: &case,
        claim_text: &known.text,
        command: &command,
        files: &bundle.hashes(),
        program: &bundle.program_sha256,
        record: &records[0],
    });
    if found.is_stub {
        document = without_numbers(document);
    }
    let page = document::render(&document, ReportFormat::Html, document::FILE)?;
    let page_at = directory.join(PAGE);
    disk::write_file(&page_at, page.as_bytes(), "--out DIR")?;
    if global.json {
        output::print_json(&bundle)?;
    } else {
        let text =
            document::render(&short(document), ReportFormat::Terminal, document::window(global))?;
        output::write_out(&format!("{text}\npage: {}\n", output::shown(&page_at)))?;
    }
    Ok(ExitCode::from(found.verdict.exit_code()))
}

/// What a terminal shows: the claim's text and the hashes are on the page.
fn short(mut document: Document) -> Document {
    let is_end = |block: &Block| matches!(block, Block::Heading(text) if text == "The claim");
    let end = document.blocks.iter().position(is_end).unwrap_or(document.blocks.len());
    document.blocks.truncate(end);
    document.blocks.retain(|block| !matches!(block, Block::Table(of) if of.name == "reproduce"));
    document
}

/// A claim, and the text of a file that holds it alone.
struct Known {
    claim: Claim,
    text: String,
}

/// A claim of a file, or a built-in one.
fn known(name: &str, id: Option<&str>, catalogue: &Catalogue) -> anyhow::Result<Known> {
    let usage = |why: String| anyhow::Error::from(Usage(why));
    let is_file = name.ends_with(".toml");
    let texts: Vec<String> = match is_file {
        true => {
            let read = file::read_text(Path::new(name), claim::TEXT_MAX);
            vec![read.map_err(|error| anyhow::anyhow!("{name}: {error}"))?]
        }
        false => catalogue.claims.values().cloned().collect(),
    };
    let mut all: Vec<Known> = Vec::new();
    for text in &texts {
        all.extend(claims_of(text).map_err(|why| usage(format!("{name}: {why}")))?);
    }
    let wanted = if is_file { id } else { Some(name) };
    let ids = all.iter().map(|one| one.claim.id.as_str()).collect::<Vec<_>>().join(", ");
    match (wanted, all.len()) {
        (None, 1) => Ok(all.remove(0)),
        (None, _) => Err(usage(format!("{name}: which of its claims? --id one of {ids}"))),
        (Some(id), _) => match all.iter().position(|one| one.claim.id == id) {
            Some(at) => Ok(all.remove(at)),
            None if is_file => Err(usage(format!("{name}: no claim is called {id:?}: {ids}"))),
            None => Err(usage(format!(
                "no built-in claim is called {name:?} (`fizeau reproduce --list`), and a file of \
                 claims ends in .toml"
            ))),
        },
    }
}

/// The claims of a file, each with a text of its own.
fn claims_of(text: &str) -> Result<Vec<Known>, String> {
    let file = ClaimFile::parse(text)?;
    if let [claim] = file.claim.as_slice() {
        return Ok(vec![Known { claim: claim.clone(), text: text.to_owned() }]);
    }
    let table: toml::Table = toml::from_str(text).map_err(|error| error.to_string())?;
    let values = table.get("claim").and_then(toml::Value::as_array).cloned().unwrap_or_default();
    let alone = |(claim, value): (Claim, toml::Value)| {
        let one = toml::Table::from_iter([("claim".into(), toml::Value::Array(vec![value]))]);
        let text = toml::to_string(&one).map_err(|error| error.to_string())?;
        Ok(Known { claim, text })
    };
    file.claim.into_iter().zip(values).map(alone).collect()
}

/// A claim with everything that it needs.
struct Ready<'c> {
    claim: Claim,
    part: Option<&'c Part>,
    possible: Verdict,
    suite: String,
    device: String,
    ranks: Option<u32>,
}

impl<'c> Ready<'c> {
    fn of(claim: &Claim, args: &ReproduceArgs, catalogue: &'c Catalogue) -> anyhow::Result<Self> {
        let mut claim = claim.clone();
        let name = claim.name().to_owned();
        let usage = |why: String| anyhow::Error::from(Usage(format!("{name}: {why}")));
        let statement: Statement = claim.value.parse().map_err(usage)?;
        if statement.is_of_tokens() {
            bail!("{name}: {TOKENS}");
        }
        let Some(run) = claim.run.clone() else {
            let why = "it has no [claim.run], which says what to measure (data/README.md)";
            return Err(usage(why.into()));
        };
        let part = claim.on.as_ref().map(|on| part_called(catalogue, "--on", on)).transpose()?;
        let part = part.map(|(part, _)| part);
        // By its whole name, as records name it.
        claim.on = part.map(|part| part.id.clone()).or(claim.on);
        let possible =
            judge(&claim, &Named { part, model: None, layout: None, links: &catalogue.links })
                .map_err(usage)?;
        let suite = run.suite_text(&file_name(&claim.id)).map_err(usage)?;
        let ranks = match statement {
            Statement::Bus(_, devices) => devices.or(claim.gpus),
            _ => None,
        };
        let device = device(args, part, run.conditions.part)?;
        Ok(Ready { claim, part, possible, suite, device, ranks })
    }

    fn run(&self) -> &Run {
        self.claim.run.as_ref().expect("it was there when this was made")
    }

    /// The command that does the same, with the claim's file of the bundle.
    fn command(&self, args: &ReproduceArgs) -> String {
        let (device, rounds) = (&self.device, args.rounds);
        let limits = if args.set_limits { " --set-limits" } else { "" };
        format!("fizeau reproduce {} --device {device} --rounds {rounds}{limits}", bundle::CLAIM)
    }
}

/// The device that a claim is run on.
fn device(args: &ReproduceArgs, part: Option<&Part>, named: PartNamed) -> anyhow::Result<String> {
    let is_of_host = part.is_some_and(Part::is_host);
    match &args.device {
        Some(device) => return Ok(device.clone()),
        None if is_of_host => return Ok("host".into()),
        None => {}
    }
    let device = Choice { device: None, ranks: None }.device()?;
    if part.is_some() && choice::is_host(&device) && named == PartNamed::Named {
        bail!("the claim is about a GPU and none is here; --device host measures the host instead");
    }
    Ok(device)
}

/// Sets the clock and the power limit that a claim states.
fn under_its_limits(ready: &Ready<'_>) -> anyhow::Result<Keeper> {
    if !rustix::process::geteuid().is_root() {
        bail!("--set-limits needs root: only root may set limits of power and clock");
    }
    let conditions = &ready.run().conditions;
    let power = conditions.power_limit_w.map(|watts| Limit::Power(Watts(watts)));
    let clock = conditions.clock_mhz.map(|clock| Limit::Clock(Megahertz(clock)));
    if power.is_none() && clock.is_none() {
        return Err(Usage("--set-limits: the claim states neither clock nor power".into()).into());
    }
    let mut keeper = Keeper::start(&ready.device, Path::new("/"))?;
    for limit in [power, clock].into_iter().flatten() {
        keeper.set(limit).with_context(|| format!("{limit}, which the claim states"))?;
    }
    Ok(keeper)
}

/// The processes that measure a claim.
struct Rounds<'r> {
    ready: &'r Ready<'r>,
    args: &'r ReproduceArgs,
    global: &'r Global,
    directory: &'r Path,
}

impl Rounds<'_> {
    /// The case that counts, the directories of the rounds that count and their records.
    fn measured(
        &self,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<(String, Vec<String>, Vec<Record>)> {
        output::say(&format!("{}: which case is fastest", self.ready.device));
        let run = self.ready.run();
        let first = self.measure(CHOICE, &run.cases, interrupted)?;
        let case = claim::best_case(&self.ready.claim, run, &first).map_err(anyhow::Error::msg)?;
        let (mut places, mut records) = (Vec::new(), Vec::new());
        // The fastest of several is fast by chance too: what chose it does not count.
        if first.header.plan.len() == 1 {
            places.push(CHOICE.to_owned());
            records.push(first);
        }
        while records.len() < self.args.rounds as usize {
            let number = records.len() + 1;
            output::say(&format!("process {number} of {}: {case}", self.args.rounds));
            let place = format!("rounds/{number:02}");
            records.push(self.measure(&place, std::slice::from_ref(&case), interrupted)?);
            places.push(place);
        }
        Ok((case, places, records))
    }

    fn measure(
        &self,
        place: &str,
        cases: &[String],
        interrupted: &AtomicBool,
    ) -> anyhow::Result<Record> {
        let suite = self.directory.join(bundle::SUITE);
        let measuring = Measuring {
            suite: &suite.to_string_lossy(),
            device: &self.ready.device,
            ranks: self.ready.ranks,
            cases,
            label: None,
            no_host_name: self.args.no_host_name,
            kernels: &[],
            more: &[],
        };
        measuring.measure_into(&self.directory.join(place), self.global, interrupted)
    }
}

/// An id as a file may be called.
fn file_name(id: &str) -> String {
    let name: String =
        id.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).take(60).collect();
    if name.is_empty() { "own".into() } else { name }
}

/// Prints the built-in claims.
fn list(args: &ReproduceArgs, catalogue: &Catalogue, global: &Global) -> anyhow::Result<ExitCode> {
    let device = Choice { device: args.device.clone(), ranks: None }.device()?;
    let opened = choice::open(&device)?;
    let properties = opened.properties();
    let here = catalogue.part_of(properties).map(|part| part.id.as_str());
    let mut claims = Vec::new();
    for text in catalogue.claims.values() {
        let file = ClaimFile::parse(text).map_err(Usage)?;
        for claim in file.claim {
            let runs = runs_here(&claim, catalogue, here, properties);
            claims.push((claim, runs));
        }
    }
    let mut document = claims_listed(&claims, &device);
    if properties.is_stub() {
        document = without_numbers(document);
    }
    let format = if global.json { ReportFormat::Json } else { ReportFormat::Terminal };
    output::write_out(&document::render(&document, format, document::window(global))?)?;
    Ok(ExitCode::SUCCESS)
}

/// Whether a claim can be run on a device, and its most obvious conditions are met there.
fn runs_here(
    claim: &Claim,
    catalogue: &Catalogue,
    here: Option<&str>,
    device: &fizeau_domain::spec::Properties,
) -> Result<(), String> {
    let statement: Statement = claim.value.parse()?;
    if statement.is_of_tokens() {
        return Err("never: tokens, see `fizeau claim`".into());
    }
    let Some(run) = &claim.run else { return Err("never: it says nothing to measure".into()) };
    let conditions = &run.conditions;
    let part = claim.on.as_ref().and_then(|on| part_called(catalogue, "--on", on).ok());
    let part = part.map(|(part, _)| part);
    let is_of_host = part.is_none_or(Part::is_host);
    if is_of_host != choice::is_host(&device.backend) {
        return Err(if is_of_host { "on its host" } else { "on its GPU" }.into());
    }
    let is_other = part.is_some_and(|part| Some(part.id.as_str()) != here);
    if conditions.part == PartNamed::Named && is_other {
        return Err("on its part".into());
    }
    if let Some(missing) = conditions.features.iter().find(|one| !device.features.contains(one)) {
        return Err(format!("where there is {missing}"));
    }
    let vendor = conditions.vendor.as_ref();
    if let Some(other) = vendor.filter(|vendor| !vendor.eq_ignore_ascii_case(&device.vendor)) {
        return Err(format!("on {other}"));
    }
    Ok(())
}
