//! Arguments of `fizeau load URL`.

use super::goal::GoalArgs;
use crate::{
    client::{Deadlines, Header},
    cmd::{exit::Usage, output::shown, share::Share, time::Time},
};
use anyhow::Context as _;
use clap::{Args, ValueEnum};
use fizeau_domain::{number, text::clean};
use fizeau_projection::load::{
    arrivals::Arrivals,
    lengths::{Lengths, PRESETS, TOKENS_MAX},
    metrics::{self, Quantity},
    target::{Asked, Endpoint},
    trace::Unit,
};
use fizeau_record::file;
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    str::FromStr,
};

/// Arguments of `load URL`.
#[derive(Args, Clone, Debug)]
pub struct SendArgs {
    /// Send requests to this server: http://host:8000 (what follows is /v1/completions or
    /// /v1/chat/completions)
    #[arg(value_name = "URL")]
    pub url: Option<String>,
    /// The model's name on the server [default: its only model]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Which OpenAI interface to use [default: completions, or by the end of the URL]
    #[arg(long, value_enum)]
    pub endpoint: Option<EndpointName>,
    /// Open loop: requests a second, sent whether or not earlier ones are answered;
    /// several with commas are levels, one after the other; 1..32 stands for 1,2,4,8,16,32
    #[arg(long, value_name = "R[,R..]", value_delimiter = ',', value_parser = rates,
          conflicts_with_all = ["concurrency", "trace"])]
    pub rate: Vec<Steps<f64>>,
    /// Closed loop: requests at once, each sent when one has ended; several with commas
    /// are levels; 1..128 stands for 1,2,4 and so on
    #[arg(long, value_name = "N[,N..]", value_delimiter = ',', conflicts_with = "trace",
          value_parser = places)]
    pub concurrency: Vec<Steps<u32>>,
    /// Search for the highest rate that keeps the limits of --slo: the levels of --rate until one
    /// misses them, then N levels more between the last that kept them and that one
    #[arg(long, value_name = "N", requires = "slo", requires = "rate",
          conflicts_with_all = ["concurrency", "trace"],
          value_parser = clap::value_parser!(u32).range(0..=20))]
    pub search: Option<u32>,
    /// Open loop: send at the times and with the lengths of a trace, JSON Lines (Mooncake) or CSV
    /// (Azure, BurstGPT)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "input", "output"])]
    pub trace: Option<PathBuf>,
    /// The unit of a trace's timestamps [default: ms for JSON Lines, s for CSV, where these can be]
    #[arg(long, value_enum, value_name = "UNIT", requires = "trace")]
    pub trace_unit: Option<UnitName>,
    /// Intervals of an open loop: poisson, constant, or gamma=SHAPE (below 1: in bursts)
    #[arg(long, value_name = "HOW", default_value = "poisson")]
    pub arrivals: Arrivals,
    /// Preset lengths: chat, code, long-context, summarisation
    #[arg(long, value_name = "NAME", default_value = "chat",
          value_parser = clap::builder::PossibleValuesParser::new(PRESETS.map(|(name, ..)| name)))]
    pub workload: String,
    /// Tokens of a prompt: 512, 100-900 (uniform), mean=512,sigma=0.8,most=4096 (log-normal)
    /// [default: as --workload]
    #[arg(long = "isl", alias = "input", value_name = "LENGTHS")]
    pub input: Option<Lengths>,
    /// Tokens of an answer, likewise
    #[arg(long = "osl", alias = "output", value_name = "LENGTHS")]
    pub output: Option<Lengths>,
    /// Requests of a level that are measured [default: rate x --duration; in a closed loop 1,000,
    /// or as many as are answered in --duration]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub requests: Option<u64>,
    /// How long a level is measured [default: 60s]. Its warm-up comes before, and takes --warmup /
    /// rate: 50 requests at 4 a second are 12.5 s
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Time>,
    /// Requests at the beginning of each level that are not measured
    #[arg(long, value_name = "N", default_value_t = 50,
          value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub warmup: u64,
    /// Seed of send times, lengths and prompts
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Length in tokens of a beginning that all prompts share, for prefix caches [default: none]
    #[arg(long, value_name = "TOKENS",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(TOKENS_MAX)))]
    pub shared_prefix: Option<u32>,
    /// Count tokens of prompts by the server's /tokenize, or take a word for a token [default: by
    /// the server where it can]
    #[arg(long, value_enum, value_name = "HOW")]
    pub tokenizer: Option<TokenizerName>,
    /// Let answers end where the model ends them, and not at the asked length alone
    #[arg(long)]
    pub no_ignore_eos: bool,
    /// The request field for the length of an answer: OpenAI's newer models accept only
    /// max_completion_tokens
    #[arg(long, value_name = "NAME", default_value = "max_tokens")]
    pub length_field: String,
    /// Also set min_tokens to the asked length, for servers that do not know ignore_eos
    #[arg(long)]
    pub min_tokens: bool,
    /// A further field of each request, as JSON: --set temperature=0 (repeatable); --set NAME=
    /// sends none of that name
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// A further header of each request, its value from a file (NAME=@FILE) or, where it is no
    /// secret, as it stands: --header api-key=@key.txt (repeatable). Values are shown and kept
    /// nowhere
    #[arg(long, value_name = "NAME=VALUE")]
    pub header: Vec<String>,
    /// A file with the API key [default: the variable FIZEAU_API_KEY, or none]
    #[arg(long, value_name = "FILE")]
    pub api_key_file: Option<PathBuf>,
    /// PEM file of certificate authorities to trust besides the system's
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Time-outs, separated by commas: connect=10s, silence=120s (no byte from the server),
    /// request=600s (a whole request), drain=120s (requests under way at the end)
    #[arg(long, value_name = "LIMITS")]
    pub deadlines: Option<DeadlinesText>,
    /// How long the server may take to become ready
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub ready: Time,
    /// Exit code 1 where more than this share of a level's requests fails: 0.05 or 5%
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    pub max_failed: Share,
    /// Keep prompts and answers in the rows
    #[arg(long)]
    pub keep_prompts: bool,
    /// What is asked of the server.
    #[command(flatten)]
    pub goal: GoalArgs,
    /// How often to read the server's /metrics, where it has them
    #[arg(long, value_name = "TIME", default_value = "1s", conflicts_with = "no_metrics")]
    pub metrics_every: Time,
    /// A metric of a server that is not known, as QUANTITY=NAME (repeatable); quantities: running,
    /// waiting, kv-used, preempted, prefix-asked, prefix-found
    #[arg(long, value_name = "QUANTITY=NAME")]
    pub metric: Vec<String>,
    /// Do not read the server's /metrics
    #[arg(long)]
    pub no_metrics: bool,
    /// Print what would be sent, and send nothing
    #[arg(long)]
    pub plan: bool,
    /// Where requests and report go [default: results/local/TIME-load]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// One value, or several that double.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps<T>(Vec<T>);

/// The most values of a range: it doubles, so that no more make sense.
const STEPS_MAX: usize = 40;

fn share(text: &str) -> Result<Share, String> {
    let share: Share = text.parse()?;
    let is_share = (0.0..=1.0).contains(&share.0);
    if is_share { Ok(share) } else { Err("write a share from 0 to 1, or from 0% to 100%".into()) }
}

fn rates(text: &str) -> Result<Steps<f64>, String> {
    let Some((first, last)) = text.split_once("..") else {
        if let Some((first, last)) = text.split_once('-').filter(|(first, _)| !first.is_empty()) {
            return Err(format!("{text:?}: write {first}..{last} for values that double"));
        }
        return Ok(Steps(vec![number::positive(text)?]));
    };
    let (first, last) = (number::positive(first)?, number::positive(last)?);
    if last < first {
        return Err(format!("{text:?} falls: write the smaller one first"));
    }
    let mut values: Vec<f64> = std::iter::successors(Some(first), |value| Some(value * 2.0))
        .take_while(|value| *value < last)
        .take(STEPS_MAX)
        .collect();
    values.push(last);
    Ok(Steps(values))
}

fn places(text: &str) -> Result<Steps<u32>, String> {
    let Steps(values) = rates(text)?;
    let place = |value: f64| match value.fract() == 0.0 && value <= PLACES_MAX {
        true => Ok(value as u32),
        false => Err(format!("{text:?}: write whole numbers from 1 to {PLACES_MAX}")),
    };
    Ok(Steps(values.into_iter().map(place).collect::<Result<_, _>>()?))
}

/// The most requests at once in a closed loop.
const PLACES_MAX: f64 = 10_000.0;

/// Which interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EndpointName {
    /// /v1/completions
    Completions,
    /// /v1/chat/completions
    Chat,
}

impl From<EndpointName> for Endpoint {
    fn from(name: EndpointName) -> Endpoint {
        match name {
            EndpointName::Completions => Endpoint::Completions,
            EndpointName::Chat => Endpoint::Chat,
        }
    }
}

/// A unit of a trace's timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UnitName {
    /// Seconds
    S,
    /// Milliseconds
    Ms,
    /// Microseconds
    Us,
    /// Nanoseconds
    Ns,
}

impl From<UnitName> for Unit {
    fn from(name: UnitName) -> Unit {
        match name {
            UnitName::S => Unit::Seconds,
            UnitName::Ms => Unit::Milliseconds,
            UnitName::Us => Unit::Microseconds,
            UnitName::Ns => Unit::Nanoseconds,
        }
    }
}

/// How tokens of prompts are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TokenizerName {
    /// By the server's /tokenize
    Server,
    /// A word is taken for a token
    Words,
}

/// Deadlines as they are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeadlinesText(pub Deadlines);

impl FromStr for DeadlinesText {
    type Err = String;

    fn from_str(text: &str) -> Result<DeadlinesText, String> {
        let mut deadlines = Deadlines::default();
        for part in text.split(',') {
            let refuse = || format!("{part:?}: write connect=, silence=, request= or drain=TIME");
            let (name, time) = part.split_once('=').ok_or_else(refuse)?;
            let place = match name {
                "connect" => &mut deadlines.connect,
                "silence" => &mut deadlines.silence,
                "request" => &mut deadlines.request,
                "drain" => &mut deadlines.drain,
                _ => return Err(refuse()),
            };
            *place = time.parse::<Time>()?.0;
        }
        Ok(DeadlinesText(deadlines))
    }
}

impl SendArgs {
    /// The rates of open loops.
    pub fn rates(&self) -> impl Iterator<Item = f64> {
        self.rate.iter().flat_map(|steps| steps.0.iter().copied())
    }

    /// Requests at once of closed loops.
    pub fn places(&self) -> impl Iterator<Item = u32> {
        self.concurrency.iter().flat_map(|steps| steps.0.iter().copied())
    }

    /// The names of `--metric`.
    pub fn metrics(&self) -> Result<BTreeMap<String, Quantity>, Usage> {
        let one = |text: &String| {
            let refuse = || Usage(format!("--metric {text:?}: write QUANTITY=NAME"));
            let (quantity, name) = text.split_once('=').ok_or_else(refuse)?;
            let quantity = metrics::quantity(quantity);
            let quantity = quantity.map_err(|why| Usage(format!("--metric {why}")))?;
            Ok((name.to_owned(), quantity))
        };
        self.metric.iter().map(one).collect()
    }

    /// Lengths of prompts and answers.
    pub fn lengths(&self) -> Result<(Lengths, Lengths), Usage> {
        let preset = PRESETS.iter().find(|(name, ..)| *name == self.workload);
        let (_, input, output) = preset.copied().unwrap_or(PRESETS[0]);
        let parse = |text: &str| text.parse::<Lengths>().map_err(Usage);
        Ok((
            self.input.map_or_else(|| parse(input), Ok)?,
            self.output.map_or_else(|| parse(output), Ok)?,
        ))
    }

    /// The fields of `--set`.
    pub fn fields(&self) -> Result<Map<String, Value>, Usage> {
        let mut fields = Map::new();
        for text in &self.set {
            let refuse = || {
                Usage(format!("--set {text:?}: write KEY=VALUE, the value as JSON: temperature=0"))
            };
            let (key, value) = text.split_once('=').ok_or_else(refuse)?;
            let value = match value {
                "" => Value::Null,
                value => serde_json::from_str(value).map_err(|_| refuse())?,
            };
            let decided = match key {
                "model" => Some("--model decides about it"),
                "prompt" | "messages" => Some("--isl and --trace decide about it"),
                "stream" => Some("times of tokens need a stream"),
                _ if key == self.length_field => Some("--osl and --length-field decide about it"),
                "n" | "best_of" if value.as_f64().is_some_and(|value| value > 1.0) => {
                    Some("times of tokens are those of one answer for each request")
                }
                _ => None,
            };
            if let Some(why) = decided {
                return Err(Usage(format!("--set {key}: {why}")));
            }
            fields.insert(key.to_owned(), value);
        }
        Ok(fields)
    }

    /// What is the same in all requests to a server.
    ///
    /// # Errors
    /// Those of [`SendArgs::fields`].
    pub fn asked(&self, model: String, endpoint: Endpoint) -> Result<Asked, Usage> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if self.length_field.is_empty() || !self.length_field.chars().all(is_plain) {
            return Err(Usage(format!(
                "--length-field {:?}: write a name such as max_completion_tokens",
                self.length_field
            )));
        }
        Ok(Asked {
            model,
            endpoint,
            ignore_eos: !self.no_ignore_eos,
            length_field: self.length_field.clone(),
            has_min: self.min_tokens,
            fields: self.fields()?,
        })
    }

    /// The headers of `--header`.
    ///
    /// # Errors
    /// Where one cannot be read, can be no header, or would show a secret to whoever lists
    /// processes.
    pub fn headers(&self) -> anyhow::Result<Vec<Header>> {
        let one = |text: &String| {
            let (name, value) = text.split_once('=').ok_or_else(|| {
                Usage("--header: write NAME=@FILE, or NAME=VALUE where it is no secret".into())
            })?;
            let refuse = |why: String| Usage(format!("--header {}: {why}", clean(name)));
            let value = match value.strip_prefix('@') {
                Some(path) => {
                    let path = Path::new(path);
                    file::read_text(path, HEADER_MAX).with_context(|| shown(path))?
                }
                None if Header::is_secret(name) => {
                    let why = "a command line is seen by everybody on this machine: write its \
                               value into a file and NAME=@FILE";
                    return Err(refuse(why.into()).into());
                }
                None => value.to_owned(),
            };
            Ok(Header::new(name, &value).map_err(refuse)?)
        };
        self.header.iter().map(one).collect()
    }
}

/// The longest file of a header's value.
const HEADER_MAX: u64 = 64 << 10;
