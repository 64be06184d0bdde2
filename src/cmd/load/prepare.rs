//! What will be sent: levels, moments, lengths and prompts, all made before the clock starts.

use super::send_args::{SendArgs, TokenizerName};
use crate::{
    client::{Client, Connections, Prepared, Schedule, Tokenizer},
    cmd::{
        exit::{Interrupted, Usage},
        output,
    },
};
use anyhow::bail;
use fizeau_domain::{text::counted, units::Seconds};
use fizeau_projection::load::{
    Plan,
    prompt::{Composer, Prompt},
    random::{Purpose, Random},
    target::Asked,
    trace::{self, Trace},
};
use fizeau_record::file;
use std::sync::atomic::{AtomicBool, Ordering};

/// A level before its prompts are made.
#[derive(Clone, Debug)]
pub struct Sketch {
    /// As a file of requests has it.
    pub plan: Plan,
    /// When requests are sent.
    pub schedule: Schedule,
    /// Tokens of each prompt and answer.
    pub lengths: Vec<(u32, u32)>,
    /// The blocks that prompts share, where a trace names them.
    pub blocks: Option<Blocks>,
    /// What is to know of the trace that it comes from.
    pub told: Vec<String>,
}

/// The names of the blocks of each prompt, and the tokens of a block.
#[derive(Clone, Debug)]
pub struct Blocks {
    size: u32,
    names: Vec<Vec<u64>>,
}

/// The most bytes of a trace.
const TRACE_MAX: u64 = 256 << 20;

/// The most requests of a run: all of them stand in memory.
const REQUESTS_MAX: u64 = 10_000_000;

/// The most bytes of all prompts together.
pub const PROMPTS_MAX: usize = 8 << 30;

/// How long a level lasts where nothing is stated.
const DURATION: Seconds = Seconds(60.0);

/// Requests of a level in a closed loop where nothing is stated.
const CLOSED: u64 = 1_000;

/// The levels that the arguments ask for.
///
/// # Errors
/// Where they ask for none, or a trace cannot be read.
pub fn sketches(args: &SendArgs) -> anyhow::Result<Vec<Sketch>> {
    if let Some(path) = &args.trace {
        let shown = output::shown(path);
        let text = file::read_text(path, TRACE_MAX);
        let text = text.map_err(|error| anyhow::anyhow!("{shown}: {error}"))?;
        let trace = trace::read(&text, args.trace_unit.map(Into::into));
        let trace = trace.map_err(|why| anyhow::anyhow!("{shown}: {why}"))?;
        return Ok(vec![traced(args, &trace)?]);
    }
    if args.rate.is_empty() && args.concurrency.is_empty() {
        return Err(Usage(
            "say how requests are sent: --rate R (open loop), --concurrency N (closed loop) or \
             --trace FILE"
                .into(),
        )
        .into());
    }
    let rates = args.rates().map(|rate| (Some(rate), None));
    let places = args.places().map(|places| (None, Some(places)));
    let mut sketches = Vec::new();
    for (level, (rate, concurrency)) in rates.chain(places).enumerate() {
        sketches.push(sketch(args, level as u64, rate, concurrency)?);
        let all: usize = sketches.iter().map(|one| one.lengths.len()).sum();
        if all as u64 > REQUESTS_MAX {
            return Err(Usage(format!("{all} requests are more than {REQUESTS_MAX}")).into());
        }
    }
    Ok(sketches)
}

/// A level of one rate, or of one number of requests at once.
///
/// # Errors
/// Where the arguments ask for too much.
pub fn sketch(
    args: &SendArgs,
    level: u64,
    rate: Option<f64>,
    concurrency: Option<u32>,
) -> anyhow::Result<Sketch> {
    let (inputs, outputs) = args.lengths()?;
    let Seconds(duration) = args.duration.map_or(DURATION, |time| time.0);
    let requests = args.requests.unwrap_or_else(|| match rate {
        Some(rate) => (rate * duration).round().max(1.0) as u64,
        None => CLOSED.max(10 * u64::from(concurrency.unwrap_or(1))),
    });
    let count = requests.saturating_add(args.warmup);
    if count > REQUESTS_MAX {
        return Err(Usage(format!("{count} requests are more than {REQUESTS_MAX}")).into());
    }
    let has_time = args.duration.is_some() || args.requests.is_none();
    let until = concurrency.filter(|_| has_time).map(|_| duration);
    let schedule = match (rate, concurrency) {
        (Some(rate), _) => {
            let parts = [args.warmup, requests];
            Schedule::Moments(args.arrivals.moments(rate, &parts, args.seed, level))
        }
        (None, places) => Schedule::Places(places.unwrap_or(1), until),
    };
    let burstiness = rate.and_then(|_| args.arrivals.shape());
    let mut random = Random::new(args.seed, level, Purpose::Lengths);
    let warmup = args.warmup;
    let lengths: Vec<(u32, u32)> =
        (0..count).map(|_| (inputs.draw(&mut random), outputs.draw(&mut random))).collect();
    let shorter = |prefix: u32| lengths.iter().filter(|one| one.0 <= prefix).count();
    if let Some(prefix) = args.shared_prefix
        && 2 * shorter(prefix) > lengths.len()
    {
        let words = format!("most prompts are no longer than --shared-prefix {prefix}");
        return Err(Usage(words).into());
    }
    Ok(Sketch {
        plan: Plan { rate, concurrency, burstiness, requests, warmup, seconds: until },
        schedule,
        lengths,
        blocks: None,
        told: Vec::new(),
    })
}

/// A level by a trace: its first requests warm up.
fn traced(args: &SendArgs, trace: &Trace) -> Result<Sketch, Usage> {
    let most = args.requests.map_or(REQUESTS_MAX, |most| most + args.warmup) as usize;
    let requests = &trace.requests[..trace.requests.len().min(most)];
    let measured = (requests.len() as u64).saturating_sub(args.warmup);
    let mut told = trace.words();
    if measured == 0 {
        let words = format!(
            "the trace has {}, and the first {} are not measured: choose a smaller --warmup",
            counted(requests.len(), "request"),
            args.warmup
        );
        // What a trace holds can be looked at before a warm-up is chosen.
        if !args.plan {
            return Err(Usage(words));
        }
        told.push(words);
    }
    let last = requests.last().map_or(0.0, |one| one.moment);
    let rate = (last > 0.0).then(|| (requests.len() - 1) as f64 / last);
    Ok(Sketch {
        plan: Plan {
            rate: rate.map(|rate| (rate * 1e3).round() / 1e3),
            requests: measured,
            warmup: requests.len() as u64 - measured,
            ..Plan::default()
        },
        schedule: Schedule::Moments(requests.iter().map(|one| one.moment).collect()),
        lengths: requests.iter().map(|one| (one.input, one.output)).collect(),
        blocks: trace.block.map(|size| {
            let names = requests.iter().map(|one| one.blocks.clone()).collect();
            Blocks { size, names }
        }),
        told,
    })
}

/// How tokens of prompts are counted.
#[derive(Debug)]
pub enum Counter<'c> {
    /// By the server.
    Server(Tokenizer<'c>),
    /// A word is taken for a token.
    Words,
}

impl Counter<'_> {
    /// In words, as a file of requests has it.
    pub fn describe(&self) -> &'static str {
        match self {
            Counter::Server(_) => "counted by the server's tokenizer",
            Counter::Words => "of as many words as tokens were asked for",
        }
    }
}

/// Finds out how tokens are counted.
///
/// # Errors
/// Where the server's tokenizer is asked for and there is none.
pub fn counter<'c>(
    args: &SendArgs,
    client: &'c Client,
    connections: &'c Connections,
    model: &'c str,
) -> anyhow::Result<Counter<'c>> {
    let found = match args.tokenizer {
        Some(TokenizerName::Words) => None,
        _ => Tokenizer::find(client, connections, model),
    };
    match (found, args.tokenizer) {
        (Some(tokenizer), _) => Ok(Counter::Server(tokenizer)),
        (None, Some(TokenizerName::Server)) => bail!(
            "the server has no /tokenize as vLLM or llama.cpp have it; leave out --tokenizer to \
             take a word for a token"
        ),
        (None, _) => Ok(Counter::Words),
    }
}

/// Makes the requests of all levels.
pub struct Maker<'m> {
    /// How tokens are counted.
    pub counter: &'m Counter<'m>,
    /// What is the same in all.
    pub asked: &'m Asked,
    /// Of the command line.
    pub args: &'m SendArgs,
    /// Whether the user asked for an end.
    pub interrupted: &'m AtomicBool,
}

/// The requests of a level, and how they came out.
#[derive(Clone, Debug)]
pub struct Made {
    /// In the order in which they are sent.
    pub requests: Vec<Prepared>,
    /// Prompts whose number of tokens differs from the one that was drawn.
    pub missed: u64,
}

impl Maker<'_> {
    /// The requests of a level; `shows` is told how many there are.
    ///
    /// # Errors
    /// As the tokenizer; where there is too much of it; [`Interrupted`].
    pub fn make(
        &self,
        level: u64,
        lengths: &[(u32, u32)],
        blocks: Option<&Blocks>,
        shows: &mut dyn FnMut(usize),
    ) -> anyhow::Result<Made> {
        let mut count = |text: &str| match self.counter {
            Counter::Server(tokenizer) => {
                tokenizer.count(text).map_err(|why| anyhow::anyhow!("counting tokens: {why}"))
            }
            Counter::Words => Ok(text.split_whitespace().count() as u32),
        };
        let mut composer = Composer::new(self.args.seed, level, Some(&mut count))?;
        if let Some(tokens) = self.args.shared_prefix {
            // Of one seed for all levels: what they share, the cache knows from the first one on.
            let mut shared = Composer::new(self.args.seed, SHARED, Some(&mut count))?;
            composer.begin_with(shared.compose(tokens, Some(&mut count))?);
        }
        let (mut requests, mut missed, mut bytes) = (Vec::new(), 0, 0);
        for (at, (input, output)) in lengths.iter().enumerate() {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(Interrupted.into());
            }
            let named = blocks.and_then(|blocks| Some((blocks.names.get(at)?, blocks.size)));
            let Prompt { text, tokens } = match named {
                Some((names, size)) => {
                    composer.compose_blocks(*input, (names, size), Some(&mut count))?
                }
                None => composer.compose(*input, Some(&mut count))?,
            };
            missed += u64::from(tokens != *input);
            let body = self.asked.body(&text, *output);
            bytes += body.len();
            if bytes > PROMPTS_MAX {
                bail!("the prompts take more than 8 GiB of memory: ask for fewer or shorter ones");
            }
            let prompt = self.args.keep_prompts.then_some(text);
            requests.push(Prepared { body, input: tokens, output: *output, prompt });
            shows(requests.len());
        }
        Ok(Made { requests, missed })
    }
}

/// The stream of random words that all levels share.
const SHARED: u64 = u64::MAX;

/// The stream of words of the request that is sent before the load.
pub const PROBE: u64 = u64::MAX - 1;
