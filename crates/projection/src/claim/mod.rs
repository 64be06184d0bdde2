//! Whether a published figure can be true: each verdict with its arithmetic, and with what is
//! missing.
//!
//! A claim is set against bounds in its own favour: what it does not state is taken as what makes
//! it easiest to reach. Conditions that people usually name where they hold (a lower precision,
//! sparsity, speculative decoding) are not assumed; but a figure that is above the bound without
//! them and possible with them is "cannot tell", and the answer names them. "Impossible" is
//! impossible whatever was left unsaid.

mod bus;
mod condition;
mod consistent;
mod energy;
mod hardware;
mod links;
mod prompts;
mod reading;
mod reproduction;
mod run;
mod shares;
mod statement;
mod tokens;
mod tools;
mod unit;
mod unstated;
mod vocabulary;
mod wire;

pub use condition::{Condition, Met};
pub use reading::{Counted, Reading};
pub use reproduction::{Here, Reproduction, best_case, measured_by, reproduce};
pub use run::{Conditions, PartNamed, Run};
pub use statement::{Per, Statement};

use crate::project::{Layout, layout::DEVICES_MAX, sweep::TOKENS_MAX};
use fizeau_domain::{
    dtype::Dtype,
    model::Model,
    spec::{Part, part::LinkFile},
};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// A share of L0 that no public measurement of `data/claims` reaches: decode of dense models at
/// batch 1 on one GPU comes to 0.6-0.8 of it.
pub const LIGHT_MOST: f64 = 0.9;

/// The most claims of one file.
pub const CLAIMS_MAX: usize = 10_000;

/// The longest file of claims, in bytes.
pub const TEXT_MAX: u64 = 16 << 20;

/// A file of claims.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimFile {
    /// Its claims.
    #[serde(default)]
    pub claim: Vec<Claim>,
}

impl ClaimFile {
    /// Reads a file of claims.
    ///
    /// # Errors
    /// In words: what of it is no claim, how many it has where that is too few or too many, and
    /// which name two of them have.
    pub fn parse(text: &str) -> Result<ClaimFile, String> {
        let file: ClaimFile = toml::from_str(text).map_err(|error| error.to_string())?;
        match file.claim.len() {
            0 => return Err("it has no claim: each begins with [[claim]]".into()),
            1..=CLAIMS_MAX => {}
            count => return Err(format!("{count} claims are more than {CLAIMS_MAX}: split it")),
        }
        let mut ids = BTreeSet::new();
        for claim in file.claim.iter().filter(|claim| !claim.id.is_empty()) {
            if !ids.insert(claim.id.as_str()) {
                return Err(format!("two claims have the id {:?}", claim.id));
            }
        }
        for claim in &file.claim {
            let checked = claim.run.as_ref().map_or(Ok(()), |run| run.conditions.check());
            checked.map_err(|why| format!("{}: [claim.run.conditions] {why}", claim.name()))?;
        }
        Ok(file)
    }
}

/// One published figure, with the conditions that are stated.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Short and stable, for machines.
    #[serde(default)]
    pub id: String,
    /// The figure with its unit, as [`Statement`] reads it.
    pub value: String,
    /// The part.
    pub on: Option<String>,
    /// Devices.
    pub gpus: Option<u32>,
    /// The model, for tokens.
    pub model: Option<String>,
    /// In what its linear layers are stored; absent: as published.
    pub precision: Option<String>,
    /// In what keys and values are stored; absent: fp8, which takes least room of what engines
    /// commonly store.
    pub kv: Option<String>,
    /// Requests at once.
    pub concurrency: Option<u32>,
    /// Tokens of a prompt.
    pub isl: Option<u32>,
    /// Tokens of an answer.
    pub osl: Option<u32>,
    /// Tokens before the one that is made, where prompts and answers are not stated.
    pub context: Option<u32>,
    /// How the model is spread.
    pub layout: Option<String>,
    /// Tokens accepted for each step of speculative decoding; absent: plain decoding.
    pub acceptance: Option<f64>,
    /// Who says so, where.
    pub source: Option<String>,
    /// What to know of it.
    pub note: Option<String>,
    /// The verdict that stands in a file of this project, so that a test can compare.
    pub verdict: Option<Answer>,
    /// What `fizeau reproduce` measures, and under which conditions; absent: it cannot be run.
    pub run: Option<Run>,
}

/// What can be said of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Below all limits.
    Possible,
    /// Above L1, or above what such systems reach.
    Suspicious,
    /// Above a bound, or the weights do not fit.
    Impossible,
    /// Something that decides is not stated.
    CannotTell,
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Answer::Possible => "possible",
            Answer::Suspicious => "suspicious",
            Answer::Impossible => "impossible",
            Answer::CannotTell => "cannot tell",
        })
    }
}

/// A verdict on a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// In one word or two.
    pub answer: Answer,
    /// A condition that the text does not state and without which it is not possible: "with
    /// structured sparsity". `None` where it is possible as it stands, and for other answers.
    pub only: Option<String>,
    /// Why, in a sentence.
    pub why: String,
    /// The figure over the bound, where there is one.
    pub of_light: Option<f64>,
    /// The figure over that of L1, where there is one.
    pub of_serial: Option<f64>,
    /// The arithmetic, line by line.
    pub arithmetic: Vec<String>,
    /// What is not stated, and what was taken for it.
    pub missing: Vec<String>,
}

impl Verdict {
    /// What is missing is always named.
    fn cannot_tell(why: impl Into<String>, missing: impl Into<String>) -> Verdict {
        Verdict {
            answer: Answer::CannotTell,
            only: None,
            why: why.into(),
            of_light: None,
            of_serial: None,
            arithmetic: Vec::new(),
            missing: vec![missing.into()],
        }
    }
}

/// What the claim names, looked up.
#[derive(Clone, Debug)]
pub struct Named<'a> {
    /// The part.
    pub part: Option<&'a Part>,
    /// The model.
    pub model: Option<Model>,
    /// The layout.
    pub layout: Option<Layout>,
    /// The links of the catalogue by their files' names.
    pub links: &'a BTreeMap<String, LinkFile>,
}

/// Judges a claim.
///
/// # Errors
/// In words: what of the claim cannot be read, contradicts itself, or is of no use for a figure of
/// its kind.
pub fn judge(claim: &Claim, named: &Named<'_>) -> Result<Verdict, String> {
    if let Some(energy) = energy::of(&claim.value) {
        return energy::judge(claim, named, &energy);
    }
    let line = tools::line_of(&claim.value);
    let share = if line.is_none() { shares::beside(&claim.value) } else { None };
    if let Some(share) = shares::of(&claim.value).filter(|_| line.is_none()) {
        return Ok(shares::judge(share));
    }
    let rest = share.as_ref().map(|(rest, _)| rest);
    let value = line.as_ref().map(|line| &line.claim).or(rest).unwrap_or(&claim.value).clone();
    let claim = Claim { value, ..claim.clone() };
    let reading = claim.reading(named)?;
    let claim = claim.with(&reading)?;
    let statement = reading.statement;
    claim.check(&reading)?;
    let mut verdict = match named.part {
        Some(part) => {
            let mut found = of_part(&claim, &reading, part, named)?;
            if found.answer == Answer::Possible && found.only.is_none() {
                found.only = unstated_condition(&claim, &reading, part, named)?;
            }
            of_a_system(&claim, &reading, consistent::check(part, &reading, found))
        }
        None => without_part(&reading, named, claim.devices(&reading)),
    };
    if let Some(low) = reading.low {
        let low = statement.spelled(low);
        verdict.arithmetic.push(format!("of the range from {low} its upper end is judged"));
    }
    if ["iB/s", "bit/s", "b/s", "bps"].iter().any(|unit| claim.value.contains(unit)) {
        let figure = statement.spelled(statement.figure());
        verdict.arithmetic.insert(0, format!("{} = {figure}", claim.value));
    }
    if let Some(line) = line {
        verdict.arithmetic.insert(0, line.said);
    }
    if let Some((_, percent)) = share {
        let spelled = |factor: f64| statement.spelled(factor * statement.figure());
        verdict = shares::set_beside(verdict, percent, spelled);
    }
    Ok(verdict)
}

/// A link that the text names is judged without a part; nothing else is.
fn without_part(reading: &Reading, named: &Named<'_>, devices: Option<u32>) -> Verdict {
    use wire::Kind;
    let kind = reading.beside.link.map(|link| link.kind);
    let is_open = matches!(kind, None | Some(Kind::Any | Kind::Peers | Kind::Host | Kind::Network));
    match reading.statement {
        Statement::Link(rate) if !is_open => {
            links::judge(None, named.links, reading, rate, devices)
        }
        Statement::Transfers(rate) if !is_open => links::lanes(None, named.links, reading, rate),
        _ => {
            let why = "no part is named, and the same figure is true of one part and false of \
                       another";
            Verdict::cannot_tell(
                why,
                "the part: --on h200 (fizeau devices --parts lists them), or `on =` in a file",
            )
        }
    }
}

/// Judges a claim about a part.
fn of_part(
    claim: &Claim,
    reading: &Reading,
    part: &Part,
    named: &Named<'_>,
) -> Result<Verdict, String> {
    let devices = claim.devices(reading);
    Ok(match reading.statement {
        Statement::Tokens { .. } => match &named.model {
            None => {
                let why = "the claim does not name a model";
                Verdict::cannot_tell(why, "the model: --model, or `model =` in a file")
            }
            Some(model) => {
                let claim = &Claim { gpus: devices, ..claim.clone() };
                unstated::judge(claim, reading, part, (model, named.layout))?
            }
        },
        Statement::Memory(_) if consistent::is_of_host(part, reading) => Verdict::cannot_tell(
            format!("it is of the memory of a CPU, and {} is a GPU", part.name),
            "the CPU, by --on",
        ),
        Statement::Memory(rate) => {
            let found = match reading.in_bytes {
                None => hardware::memory(part, reading, rate, devices),
                Some(in_bytes) => {
                    bits_or_bytes(part, reading, [rate, in_bytes], devices, hardware::memory)
                }
            };
            match reading.is_of_cache.is_none() && !reading.beside.is_of_memory {
                true => unnamed(part, reading, rate, devices, found),
                false => found,
            }
        }
        Statement::Link(rate) => {
            let of = |part: &Part, reading: &Reading, rate: f64, devices: Option<u32>| {
                links::judge(Some(part), named.links, reading, rate, devices)
            };
            match reading.in_bytes {
                None => of(part, reading, rate, devices),
                Some(in_bytes) => bits_or_bytes(part, reading, [rate, in_bytes], devices, of),
            }
        }
        Statement::Transfers(rate) => match reading.beside.link {
            Some(_) => links::lanes(Some(part), named.links, reading, rate),
            None => consistent::transfers(part, reading, rate),
        },
        Statement::Arithmetic(..) if reading.beside.format.is_some() => {
            let format = reading.beside.format.unwrap_or_default();
            let format = format.split('-').next().unwrap_or(format);
            let why =
                format!("no text of the catalogue states what {} does in {format}", part.name);
            Verdict::cannot_tell(why, hardware::NO_PEAK)
        }
        Statement::Arithmetic(rate, dtype) => {
            hardware::arithmetic(part, reading, (rate, dtype), devices)
        }
        Statement::Bus(rate, _) => bus::judge(part, reading, rate, devices),
        Statement::PerClock(rate, dtype) => hardware::per_clock(part, rate, dtype),
    })
}

/// Names of systems of several GPUs.
const SYSTEMS: [&str; 8] = ["dgx", "hgx", "nvl8", "nvl16", "nvl36", "nvl72", "nvl144", "superpod"];

/// A figure that is beyond one GPU, where the text names a system and not how many GPUs of it the
/// figure is of.
fn of_a_system(claim: &Claim, reading: &Reading, found: Verdict) -> Verdict {
    let mut words = claim.value.split(|c: char| !c.is_alphanumeric());
    let is_system = words.any(|word| SYSTEMS.iter().any(|one| word.eq_ignore_ascii_case(one)));
    if found.answer != Answer::Impossible || !is_system || claim.devices(reading).is_some() {
        return found;
    }
    let why = format!("the number of GPUs of the system is not stated; of one, {}", found.why);
    let missing = vec!["GPUs of the system that the figure is of: --gpus 8".into()];
    Verdict { answer: Answer::CannotTell, why, missing, ..found }
}

/// The conditions without which a possible figure is not possible, where its text is silent about
/// them: each is found by judging the figure again with the condition ruled out.
fn unstated_condition(
    claim: &Claim,
    reading: &Reading,
    part: &Part,
    named: &Named<'_>,
) -> Result<Option<String>, String> {
    let is_arithmetic = matches!(reading.statement, Statement::Arithmetic(..));
    let is_link = matches!(reading.statement, Statement::Link(_));
    let mut without = Vec::new();
    if is_arithmetic && reading.is_sparse.is_none() {
        let dense = Reading { is_sparse: Some(false), ..reading.clone() };
        without.push((dense, "with structured sparsity"));
    }
    if is_arithmetic && reading.accumulate.is_none() {
        let in_f32 = Reading { accumulate: Some(Dtype::F32), ..reading.clone() };
        without.push((in_f32, "where products are accumulated in fp16"));
    }
    if is_link && reading.beside.ways.is_none() {
        let mut one_way = reading.clone();
        one_way.beside.ways = Some(wire::Ways::One);
        without.push((one_way, "as both directions together"));
    }
    let mut needed = Vec::new();
    for (reading, condition) in without {
        if of_part(claim, &reading, part, named)?.answer != Answer::Possible {
            needed.push(condition);
        }
    }
    Ok((!needed.is_empty()).then(|| needed.join(" and ")))
}

/// A rate that does not say what it is of is judged as memory, and put beside everything else of
/// the part that has its unit.
fn unnamed(
    part: &Part,
    reading: &Reading,
    rate: f64,
    devices: Option<u32>,
    found: Verdict,
) -> Verdict {
    let mut found = found;
    if found.answer == Answer::Possible && found.why.starts_with("true, as ") {
        return found;
    }
    let stated = hardware::Stated::of(reading, rate, devices);
    let pin = consistent::is_pin(part, reading).map(|how| (true, how));
    let mut others = links::unnamed(part, reading, stated);
    others.extend(pin);
    let is_same = others.iter().find(|(is_same, _)| *is_same).map(|(_, how)| how.clone());
    let lines = others.into_iter().filter(|(is_same, _)| !is_same).map(|(_, line)| line);
    found.arithmetic.extend(lines);
    if let Some(how) = is_same.filter(|_| !reading.is_measured) {
        found.why = format!("true, as {how}; as memory {}", found.why);
        if found.answer != Answer::Possible {
            found.only = Some("as the rate of a link".into());
        }
        found.answer = Answer::Possible;
    } else if !part.wires.is_empty() {
        found.missing.push("what the figure is of: memory taken".into());
    }
    found
}

/// Of "gb/s", which may mean both: as bytes where that can be, else nothing can be told unless it
/// is impossible as bits too. Rates of networks are in bits.
fn bits_or_bytes(
    part: &Part,
    reading: &Reading,
    [bits, bytes]: [f64; 2],
    devices: Option<u32>,
    judge: impl Fn(&Part, &Reading, f64, Option<u32>) -> Verdict,
) -> Verdict {
    let in_bytes = Reading { half_place: reading.half_place * 8.0, ..reading.clone() };
    let as_bytes = judge(part, &in_bytes, bytes, devices);
    let as_bits = judge(part, reading, bits, devices);
    let is_network = reading.beside.link.is_some_and(|link| link.kind.is_network());
    if is_network && as_bits.answer != Answer::Impossible {
        return as_bits;
    }
    if as_bytes.answer != Answer::Impossible || as_bits.answer == Answer::Impossible {
        return as_bytes;
    }
    Verdict {
        answer: Answer::CannotTell,
        why: format!("as bytes {}; as bits {}", as_bytes.why, as_bits.why),
        missing: vec!["whether bits or bytes are meant: Gbit/s or GB/s".into()],
        ..as_bytes
    }
}

impl Claim {
    /// What it is called: its id, or else its figure.
    pub fn name(&self) -> &str {
        if self.id.is_empty() { &self.value } else { &self.id }
    }

    /// With the load that its text states.
    fn with(mut self, reading: &Reading) -> Result<Claim, String> {
        if !reading.statement.is_of_tokens() {
            return Ok(self);
        }
        let beside = &reading.beside;
        for (name, place, stated) in [
            ("concurrency", &mut self.concurrency, beside.batch),
            ("isl", &mut self.isl, beside.isl),
            ("osl", &mut self.osl, beside.osl),
        ] {
            let Some(stated) = stated else { continue };
            if let Some(other) = place.replace(stated).filter(|other| *other != stated) {
                return Err(format!("{name} is {other}, and the text says {stated}"));
            }
        }
        if self.precision.is_none() {
            self.precision = beside.format.map(str::to_owned);
        }
        Ok(self)
    }

    /// Devices that are stated, by the figure or beside it.
    fn devices(&self, reading: &Reading) -> Option<u32> {
        reading.devices.or(self.gpus)
    }

    /// The figure; its text may name the part and the model too.
    fn reading(&self, named: &Named<'_>) -> Result<Reading, String> {
        let part = named.part.into_iter().flat_map(|part| [&*part.id, &*part.name, &*part.vendor]);
        let stated = self.on.iter().chain(&self.model).map(String::as_str);
        let model = named.model.iter().map(|model| model.name.as_str());
        let names: Vec<&str> = part.chain(stated).chain(model).collect();
        Reading::of(&self.value, &names)
    }

    /// Whether it says one thing, and nothing that a figure of its kind has no use for: what was
    /// ignored could be what makes the figure true or false.
    fn check(&self, reading: &Reading) -> Result<(), String> {
        let statement = &reading.statement;
        let Claim { gpus, concurrency, isl, osl, context, acceptance, .. } = self;
        if let (Some(gpus), Some(stated)) = (gpus, reading.devices)
            && *gpus != stated
        {
            return Err(format!("the figure is of {stated} devices, and gpus is {gpus}"));
        }
        let most = DEVICES_MAX;
        if self.devices(reading).is_some_and(|count| !(1..=most).contains(&count)) {
            return Err(format!("gpus is from 1 to {most}"));
        }
        let counts = [("concurrency", concurrency), ("isl", isl), ("osl", osl)];
        if let Some((name, _)) = counts.iter().find(|(_, count)| **count == Some(0)) {
            return Err(format!("{name} is 1 at least"));
        }
        let tokens = [("isl", isl), ("osl", osl), ("context", context)];
        if let Some((name, _)) = tokens.iter().find(|(_, count)| **count > Some(TOKENS_MAX)) {
            return Err(format!("{name} is {TOKENS_MAX} tokens at most"));
        }
        if acceptance.is_some_and(|tokens| !(1.0..=64.0).contains(&tokens)) {
            return Err("acceptance is from 1 to 64 tokens a step".into());
        }
        if context.is_some() && (isl.is_some() || osl.is_some()) {
            return Err(
                "context and isl or osl exclude each other: context is the tokens before the one \
                 that is made"
                    .into(),
            );
        }
        if statement.is_of_tokens() {
            return Ok(());
        }
        let of_tokens = [
            ("model", self.model.is_some()),
            ("precision", self.precision.is_some()),
            ("kv", self.kv.is_some()),
            ("concurrency", concurrency.is_some()),
            ("isl", isl.is_some()),
            ("osl", osl.is_some()),
            ("context", context.is_some()),
            ("layout", self.layout.is_some()),
            ("acceptance", acceptance.is_some()),
        ];
        let stated = of_tokens.iter().filter(|(_, is_stated)| *is_stated);
        let stated: Vec<_> = stated.map(|(name, _)| *name).collect();
        let kind = statement.kind();
        if !stated.is_empty() {
            let names = stated.join(", ");
            return Err(format!("{kind} has no {names}: leave it out, or state a rate of tokens"));
        }
        let is_of_one = matches!(statement, Statement::PerClock(..));
        match self.devices(reading).filter(|count| is_of_one && *count > 1) {
            Some(count) => Err(format!("{count} GPUs: {kind} is judged for one unit")),
            None => Ok(()),
        }
    }
}
