//! The join: what a server under load does, beside what its hardware allows.
//!
//! A step of decode is projected for as many sequences as are in decode on average (Little's law),
//! at the context of the middle of an answer. Idle times count into that average, so that it is
//! below what a token meets; L0 rises with the sequences, and stays a bound.

use super::level::Level;
use crate::project::{
    Hardware, Layout, Phase, Routing, Step, StepError, Tiers, Work, step,
    symptom::{Loss, losses},
};
use fizeau_domain::model::{Format, Model};

/// What the requests went to.
#[derive(Clone, Debug)]
pub struct Engine<'a> {
    /// The model.
    pub model: &'a Model,
    /// One device.
    pub hardware: &'a Hardware,
    /// How the model is spread.
    pub layout: Layout,
    /// In what keys and values are stored.
    pub kv: Format,
    /// Tokens of a prompt whose keys and values were cached.
    pub prefix: f64,
}

/// A time that was measured beside the tiers, seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The mean over requests, which can be a time ([`super::times::is_time`]). Bounds grow no
    /// slower than in proportion to lengths, so that the bound at mean lengths is none above the
    /// mean of bounds; of medians that does not hold.
    pub measured: f64,
    /// What the hardware allows.
    pub tiers: Tiers,
}

impl Share {
    /// The share of a bound that is reached: bound / measured.
    pub fn of_light(&self) -> f64 {
        self.tiers.light / self.measured
    }

    /// The share of L1 that is reached.
    pub fn of_serial(&self) -> f64 {
        self.tiers.serial / self.measured
    }

    /// The share of L2 that is reached, where there is an L2.
    pub fn of_measured(&self) -> Option<f64> {
        Some(self.tiers.measured? / self.measured)
    }
}

/// Where the time of a prompt comes from, in the split of a request's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The server's own clock.
    Server,
    /// L2 of one prompt.
    Measured,
    /// L1 of one prompt: nothing else is known.
    Serial,
}

impl Basis {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Basis::Server => "the server's own clock",
            Basis::Measured => "L2",
            Basis::Serial => "L1",
        }
    }
}

/// Where the mean time of a request goes, seconds. The parts add up to `whole`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parts {
    /// The whole request, from the moment that the client counts from.
    pub whole: f64,
    /// Late in the client; 0 where it does not state it.
    pub client: f64,
    /// Before the first token, beyond `prefill`: waiting for a place, and for others' steps.
    pub queue: f64,
    /// Reading the prompt.
    pub prefill: f64,
    /// From the first token to the last one.
    pub decode: f64,
    /// What `prefill` rests on.
    pub basis: Basis,
}

/// One thing that explains a part of TPOT, seconds of one token.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// What it is.
    pub name: String,
    /// What it adds.
    pub seconds: f64,
}

/// One level of load beside what the hardware allows.
#[derive(Clone, Debug, PartialEq)]
pub struct Joined {
    /// The level.
    pub level: Level,
    /// Sequences of one copy that are in decode at once: the mean, 1 at least.
    pub sequences: f64,
    /// A step of decode; none where answers have one token.
    pub decode: Option<Step>,
    /// The prompt of one request.
    pub prefill: Step,
    /// TTFT.
    pub ttft: Option<Share>,
    /// TPOT.
    pub tpot: Option<Share>,
    /// E2EL.
    pub e2el: Option<Share>,
    /// Where the time of a request goes, where TTFT and E2EL or TPOT are known.
    pub parts: Option<Parts>,
    /// What the mean TPOT is made of, from L0 on; what comes last is not explained. Empty where
    /// TPOT is not known.
    pub explained: Vec<Explained>,
}

impl Joined {
    /// Times that are below their bound, by name: then the model, the layout, the lengths or the
    /// hardware are not those that served.
    pub fn beyond_light(&self) -> Vec<&'static str> {
        let all = [("TTFT", self.ttft), ("TPOT", self.tpot), ("E2EL", self.e2el)];
        let is_beyond = |share: &Share| share.measured < share.tiers.light;
        all.into_iter()
            .filter(|(_, share)| share.as_ref().is_some_and(is_beyond))
            .map(|(name, _)| name)
            .collect()
    }
}

/// Prompts of others are set beside decode while they take less than this share of the time: nearer
/// to 1 the engine has no steady state.
const BUSY_MOST: f64 = 0.95;

/// Sets a level beside what its hardware allows.
///
/// # Errors
/// Where the hardware lacks a number that is needed.
pub fn join(level: Level, engine: &Engine<'_>) -> Result<Joined, StepError> {
    let split = engine.layout.split;
    let replicas = f64::from(engine.layout.replicas);
    let sequences = (level.decoding().unwrap_or(1.0) / replicas).max(1.0);
    let work = |phase: Phase, sequences: f64| Work {
        phase,
        sequences,
        split,
        kv: engine.kv,
        routing: Routing::Chance,
    };
    let old = engine.prefix.min((level.input - 1.0).max(0.0));
    let new = (level.input - old).max(1.0);
    let prefill = step(engine.model, engine.hardware, work(Phase::Prefill { new, old }, 1.0))?;
    let context = level.input + level.output / 2.0;
    let decode = match level.output > 1.0 {
        true => {
            let phase = Phase::Decode { context };
            Some(step(engine.model, engine.hardware, work(phase, sequences))?)
        }
        false => None,
    };
    let first = tiers(&prefill);
    let token = decode.as_ref().map(tiers);
    let share = |measured: Option<f64>, tiers: Option<Tiers>| {
        Some(Share { measured: measured?, tiers: tiers? })
    };
    let mean = |times: &Option<super::Times>| times.as_ref().and_then(|times| times.mean);
    let rest = (level.output - 1.0).max(0.0);
    let whole = match token {
        Some(token) => first.with(&token, |first, token| first + rest * token),
        None => first,
    };
    let explained = explained(&level, decode.as_ref(), &prefill, replicas);
    Ok(Joined {
        sequences,
        ttft: share(mean(&level.ttft), Some(first)),
        tpot: share(mean(&level.tpot), token),
        e2el: share(mean(&level.e2el), Some(whole)),
        parts: parts(&level, &prefill),
        explained,
        decode,
        prefill,
        level,
    })
}

fn tiers(step: &Step) -> Tiers {
    let measured = step.measured.map(|time| time.0);
    Tiers { light: step.light().0, serial: step.serial.0, measured }
}

/// Splits the mean time of a request.
fn parts(level: &Level, prefill: &Step) -> Option<Parts> {
    let mean = |times: &Option<super::Times>| times.as_ref().and_then(|times| times.mean);
    let first = mean(&level.ttft)?;
    let decode = level.decode_time()?;
    let client = mean(&level.lateness).unwrap_or(0.0).clamp(0.0, first);
    let (time, basis) = match (mean(&level.server_prompt), prefill.measured) {
        (Some(time), _) => (time, Basis::Server),
        (None, Some(time)) => (time.0, Basis::Measured),
        (None, None) => (prefill.serial.0, Basis::Serial),
    };
    let after = (first - client).max(0.0);
    let time = time.min(after);
    Some(Parts { whole: first + decode, client, queue: after - time, prefill: time, decode, basis })
}

/// What the mean TPOT is made of: L0, what a serial engine adds, what each resource loses, the
/// prompts of other requests, and what none of these explains. The last may be negative: then L2
/// says more than was measured.
fn explained(
    level: &Level,
    decode: Option<&Step>,
    prefill: &Step,
    replicas: f64,
) -> Vec<Explained> {
    let token = level.tpot.as_ref().and_then(|times| times.mean);
    let (Some(decode), Some(token)) = (decode, token) else { return Vec::new() };
    let one = |name: &str, seconds: f64| Explained { name: name.into(), seconds };
    let light = decode.light().0;
    let mut list = vec![
        one("L0: the bound", light),
        one("L1: one operation after the other", decode.serial.0 - light),
    ];
    let mut sorted: Vec<Loss> = losses(decode);
    sorted.sort_by(|one, other| other.lost().0.total_cmp(&one.lost().0));
    let lost = sorted.iter().filter(|loss| loss.lost().0 > 0.0);
    list.extend(lost.map(|loss| one(&format!("L2: {}", loss.resource.name()), loss.lost().0)));
    let known = decode.best_known().0;
    // While a prompt is read, decode waits, or shares its steps: of each second a share of this is
    // taken, which makes a token longer by share / (1 - share). A request does not meet its own
    // prompt: in a closed loop of n, those of the n - 1 others.
    let most = level.offered.concurrency;
    let others = most.map_or(1.0, |most| 1.0 - 1.0 / f64::from(most.max(1)));
    let busy = level.request_rate() / replicas * others * prefill.best_known().0;
    if busy > 0.0 && busy < BUSY_MOST {
        list.push(one("prompts of other requests", known * busy / (1.0 - busy)));
    }
    let sum: f64 = list.iter().map(|one| one.seconds).sum();
    list.push(one("not explained", token - sum));
    list
}
