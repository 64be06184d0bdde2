//! From steps to what a user and an operator see: times to tokens, rates, cost, and which settings
//! nothing beats.

use super::{
    hardware::Hardware,
    layout::{Layout, Split},
    operation::{Phase, Routing, Work},
    serving::{Moved, Serving, Speculation, cycle, draft_split, with_draft},
    step::{Bound, Step, StepError, Unknown, bound, step},
    tier::By,
};
use fizeau_domain::{
    model::{Format, Mixer, Model, Module},
    units::Seconds,
};

/// What is asked of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scenario {
    /// Tokens of a prompt.
    pub input: u32,
    /// Of these, tokens of a prefix whose keys and values are there already.
    pub prefix: u32,
    /// Tokens of an answer.
    pub output: u32,
    /// In what keys and values are stored.
    pub kv: Format,
    /// The share of memory that weights and caches may take.
    pub memory_share: f64,
}

/// The most tokens of a prompt or an answer.
pub const TOKENS_MAX: u32 = 1 << 27;

/// The most requests at once.
pub const CONCURRENCY_MAX: u32 = 1 << 20;

impl Scenario {
    /// Whether a model can be asked this.
    ///
    /// # Errors
    /// In words: which number cannot be.
    pub fn check(&self, model: &Model) -> Result<(), String> {
        let tokens = 1..=TOKENS_MAX;
        if !tokens.contains(&self.input) || !tokens.contains(&self.output) {
            return Err(format!("--isl and --osl are from 1 to {TOKENS_MAX} tokens"));
        }
        if self.prefix >= self.input {
            return Err(format!(
                "--prefix {}: a prompt of {} tokens has one new token at least",
                self.prefix, self.input
            ));
        }
        if !(0.01..=1.0).contains(&self.memory_share) {
            return Err("--memory-share is from 0.01 to 1; write 0.9 or 90%".into());
        }
        let all = u64::from(self.input) + u64::from(self.output);
        match model.context {
            Some(most) if all > most => Err(format!(
                "{} + {} tokens are more than the {most} of {}'s context \
                 (max_position_embeddings)",
                self.input, self.output, model.name
            )),
            _ => Ok(()),
        }
    }

    /// The context of the middle of an answer.
    pub fn middle(&self) -> f64 {
        f64::from(self.input) + f64::from(self.output) / 2.0
    }

    /// Reading a prompt.
    pub fn prefill(&self) -> Phase {
        let old = f64::from(self.prefix);
        Phase::Prefill { new: f64::from(self.input) - old, old }
    }

    /// A step of one copy.
    pub fn work(&self, split: Split, phase: Phase, sequences: f64) -> Work {
        Work { phase, sequences, split, kv: self.kv, routing: Routing::Chance }
    }
}

/// A number in each tier; the last one only where it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tiers {
    /// L0, the bound.
    pub light: f64,
    /// L1, one operation after the other.
    pub serial: f64,
    /// L2, at measured efficiencies.
    pub measured: Option<f64>,
}

impl Tiers {
    /// L2 where it is known, else L1.
    pub fn best_known(&self) -> f64 {
        self.measured.unwrap_or(self.serial)
    }

    /// A function of each.
    pub fn map(&self, of: impl Fn(f64) -> f64) -> Tiers {
        let Tiers { light, serial, measured } = *self;
        Tiers { light: of(light), serial: of(serial), measured: measured.map(of) }
    }

    /// A function of each and of the same of another.
    pub fn with(&self, other: &Tiers, of: impl Fn(f64, f64) -> f64) -> Tiers {
        Tiers {
            light: of(self.light, other.light),
            serial: of(self.serial, other.serial),
            measured: self.measured.zip(other.measured).map(|(one, two)| of(one, two)),
        }
    }

    fn of(step: &Step) -> Tiers {
        let measured = step.measured.map(|time| time.0);
        Tiers { light: step.light().0, serial: step.serial.0, measured }
    }
}

/// What fits into the memory of one layout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// Bytes of weights on one device.
    pub weights: f64,
    /// Bytes of keys, values and states of one sequence at the middle of its answer, on one device
    /// that has it.
    pub sequence: f64,
    /// Bytes of one device that may be used.
    pub usable: f64,
    /// Sequences that fit into all copies at once; none where not even the weights fit.
    pub sequences: Option<u64>,
}

/// Bytes of a model's weights on the device that has the most.
fn weight_bytes(model: &Model, split: Split) -> f64 {
    let all = model.weight_bytes();
    let of = |module: Module| model.parameters(module) * model.precision.of(module).bytes();
    match split {
        Split::Tensor(n) | Split::Even(n) => all / f64::from(n),
        Split::Expert(n) => {
            let held = model.mixtures().map(|one| one.held_by(n) / f64::from(one.experts));
            all - of(Module::Experts) + of(Module::Experts) * held.fold(0.0, f64::max)
        }
        Split::Pipeline { tensor, stages } => {
            // The first stage has the embedding, the last one the output layer.
            let embedding = of(Module::Embedding);
            let head = if model.is_tied { embedding } else { of(Module::Head) };
            let layers = all - embedding - of(Module::Head);
            let share = split.pace(model.layer_count()) / f64::from(stages);
            (layers * share + embedding.max(head)) / f64::from(tensor)
        }
    }
}

/// Bytes of keys, values and states that a sequence of `tokens` tokens has on the device of a copy
/// that holds the most of it.
pub(super) fn sequence_bytes(model: &Model, split: Split, tokens: f64, kv: Format) -> f64 {
    let held = |share: &dyn Fn(&Mixer) -> f64| -> f64 {
        let of_layers = model.layers.iter().filter_map(|layers| {
            let mixer = layers.mixer.as_ref()?;
            Some(f64::from(layers.count) * mixer.held(tokens, kv) * share(mixer))
        });
        of_layers.sum()
    };
    match split {
        Split::Tensor(n) => held(&|mixer| mixer.held_share(f64::from(n))),
        Split::Even(n) => held(&|_| 1.0 / f64::from(n)),
        Split::Expert(_) => held(&|_| 1.0),
        Split::Pipeline { tensor, stages } => {
            let share = split.pace(model.layer_count()) / f64::from(stages);
            held(&|mixer| mixer.held_share(f64::from(tensor))) * share
        }
    }
}

/// What fits.
pub fn fit(model: &Model, hardware: &Hardware, layout: Layout, scenario: &Scenario) -> Fit {
    fit_with(model, None, hardware, layout, scenario)
}

/// What fits beside a smaller model that drafts.
pub(super) fn fit_with(
    model: &Model,
    draft: Option<&Model>,
    hardware: &Hardware,
    layout: Layout,
    scenario: &Scenario,
) -> Fit {
    let tokens = scenario.middle();
    let mut weights = weight_bytes(model, layout.split);
    let mut sequence = sequence_bytes(model, layout.split, tokens, scenario.kv);
    if let Some(draft) = draft {
        let (split, _) = draft_split(draft, layout.split);
        weights += weight_bytes(draft, split);
        sequence += sequence_bytes(draft, split, tokens, scenario.kv);
    }
    room(hardware, layout, (weights, sequence), scenario.memory_share)
}

/// What fits at a number of tokens before the one that is made, for claims.
pub fn fit_at(
    model: &Model,
    hardware: &Hardware,
    layout: Layout,
    tokens: f64,
    (kv, memory_share): (Format, f64),
) -> Fit {
    let weights = weight_bytes(model, layout.split);
    let sequence = sequence_bytes(model, layout.split, tokens, kv);
    room(hardware, layout, (weights, sequence), memory_share)
}

/// How many sequences fit beside the weights, both in bytes on the device that has the most.
fn room(
    hardware: &Hardware,
    layout: Layout,
    (weights, sequence): (f64, f64),
    memory_share: f64,
) -> Fit {
    let copies = match layout.split {
        Split::Tensor(_) | Split::Even(_) | Split::Pipeline { .. } => 1.0,
        Split::Expert(n) => f64::from(n),
    };
    let usable = hardware.capacity.0 as f64 * memory_share;
    let each = if sequence > 0.0 { ((usable - weights) / sequence).floor() } else { 1e9 };
    let sequences = (usable >= weights)
        .then(|| (each.clamp(0.0, 1e9) * copies * f64::from(layout.replicas)) as u64);
    Fit { weights, sequence, usable, sequences }
}

/// One layout under one number of requests at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// How the model is spread.
    pub layout: Layout,
    /// Requests at once, over all copies.
    pub concurrency: u32,
    /// What fits.
    pub fit: Fit,
    /// Time to the first token of a request that waits for nobody, seconds.
    pub first_token: Tiers,
    /// Time of one token more, seconds: of speculative decoding the mean.
    pub token: Tiers,
    /// Requests that all copies finish each second.
    pub requests: Tiers,
    /// The decode step; with speculative decoding the one that checks.
    pub decode: Step,
    /// What drafting takes for each step, seconds; none without.
    pub draft: Option<Tiers>,
    /// The prefill of one prompt.
    pub prefill: Step,
    /// Prefill on devices of its own.
    pub apart: Option<ApartPoint>,
    /// Why L2 is not known although something is known beside limits, and of what phase: then no
    /// number of the point has one, so that all of its numbers are of one tier.
    pub unknown: Option<(&'static str, Unknown)>,
}

/// Prefill on devices of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ApartPoint {
    /// How these devices share the model.
    pub layout: Layout,
    /// Keys and values on their way.
    pub moved: Moved,
    /// Prompts that these devices read each second.
    pub prompts: Tiers,
    /// Requests that the devices that decode finish each second.
    pub answers: Tiers,
    /// Whether the weights and the prompts fit into these devices.
    pub fits: bool,
}

impl Point {
    /// Whether the requests fit into memory at once.
    pub fn fits(&self) -> bool {
        self.fit.sequences.is_some_and(|most| most >= u64::from(self.concurrency))
            && self.apart.is_none_or(|apart| apart.fits)
    }

    /// Devices, those that only prefill among them.
    pub fn devices(&self) -> f64 {
        let apart = self.apart.map_or(0, |apart| apart.layout.devices());
        f64::from(self.layout.devices() + apart)
    }

    /// From a request to its last token, seconds: TTFT + TPOT (N - 1).
    pub fn end_to_end(&self, output: u32) -> Tiers {
        let rest = f64::from(output) - 1.0;
        self.first_token.with(&self.token, |first, token| first + rest * token)
    }

    /// Tokens that one user sees each second.
    pub fn user_rate(&self) -> Tiers {
        self.token.map(|time| 1.0 / time)
    }

    /// Output tokens of one device each second, while nothing is prefilled.
    pub fn device_rate(&self) -> Tiers {
        self.token.map(|time| f64::from(self.concurrency) / time / self.devices())
    }

    /// Output tokens of one device each second, with the prompts' prefill.
    pub fn device_rate_with_prefill(&self, output: u32) -> Tiers {
        self.requests.map(|rate| rate * f64::from(output) / self.devices())
    }
}

/// Computes one point of plain serving: one token a step, prefill and decode on the same devices.
///
/// # Errors
/// As [`step`].
pub fn point(
    model: &Model,
    hardware: &Hardware,
    layout: Layout,
    scenario: &Scenario,
    concurrency: u32,
) -> Result<Point, StepError> {
    served(model, hardware, layout, (scenario, &Serving::default()), concurrency)
}

/// Tokens of prompts that engines read in one step where several wait: the default of
/// TensorRT-LLM's `max_num_tokens` (its documentation, performance tuning guide, "Tuning Max Batch
/// Size and Max Num Tokens"). What few rows lose is then not lost for every prompt; requests a
/// second in L2 count it so.
const BATCHED_TOKENS: f64 = 8192.0;

/// The prefill of one prompt, and of as many as a copy reads at once.
struct Prefilled {
    step: Step,
    first: Tiers,
    together: f64,
    bound: Bound,
    batch: Tiers,
    unknown: Option<Unknown>,
}

fn prefilled(
    model: &Model,
    hardware: &Hardware,
    split: Split,
    (scenario, serving): (&Scenario, &Serving),
    most: f64,
) -> Result<Prefilled, StepError> {
    let asked = (scenario, serving);
    let together = f64::from(split.prompts());
    let one = step(model, hardware, scenario.work(split, scenario.prefill(), 1.0))?;
    let whole = |step: &Step, prompts: f64| {
        let prefill = (step.bound, Tiers::of(step), step.unknown);
        with_draft(prefill, hardware, (split, prompts), asked)
    };
    let (bound, first, unknown) = whole(&one, 1.0)?;
    let (bound, batch, unknown) = if together > 1.0 {
        let all = step(model, hardware, scenario.work(split, scenario.prefill(), together))?;
        let (bound, batch, of_batch) = whole(&all, together)?;
        (bound, batch, unknown.or(of_batch))
    } else {
        (bound, first, unknown)
    };
    let prompts = BATCHED_TOKENS / f64::from(scenario.input - scenario.prefix) / together;
    let prompts = prompts.min(most / together).floor();
    let batch = match batch.measured {
        // L1 reads one prompt after the other, and L2 is never below it.
        Some(single) if prompts >= 2.0 => {
            let all = together * prompts;
            let step = step(model, hardware, scenario.work(split, scenario.prefill(), all))?;
            let (_, many, _) = whole(&step, all)?;
            let each = many.measured.map_or(single, |time| time / prompts);
            Tiers { measured: Some(each.min(single).max(batch.serial)), ..batch }
        }
        _ => batch,
    };
    Ok(Prefilled { step: one, first, together, bound, batch, unknown })
}

/// Computes one point.
///
/// # Errors
/// As [`step`].
pub fn served(
    model: &Model,
    hardware: &Hardware,
    layout: Layout,
    (scenario, serving): (&Scenario, &Serving),
    concurrency: u32,
) -> Result<Point, StepError> {
    let asked = (scenario, serving);
    let each = f64::from(concurrency.div_ceil(layout.replicas));
    let cycle = cycle(model, hardware, layout.split, asked, each)?;
    let token = cycle.time.map(|time| time / cycle.gain);
    let draft = serving.speculation.as_ref().and_then(Speculation::draft);
    let fit = fit_with(model, draft, hardware, layout, scenario);
    let replicas = f64::from(layout.replicas);
    let mean = f64::from(concurrency) / replicas;
    // Steps of a copy for each request.
    let steps = (f64::from(scenario.output) - 1.0) / cycle.gain / mean;
    let (prompt, first_token, requests, apart) = match &serving.apart {
        None => {
            let prompt = prefilled(model, hardware, layout.split, asked, mean)?;
            let together = prompt.together;
            let serial = |batch: f64, step: f64| replicas / (batch / together + steps * step);
            let requests = Tiers {
                light: replicas / fastest(&prompt.bound, together, &cycle.bound, steps),
                ..prompt.batch.with(&cycle.time, serial)
            };
            let first_token = prompt.first;
            (prompt, first_token, requests, None)
        }
        Some(apart) => {
            let prompts = f64::from(concurrency);
            let prompt = prefilled(model, hardware, apart.layout.split, asked, prompts)?;
            let moved = apart.moved(model, hardware, scenario, layout)?;
            let copies = f64::from(apart.layout.replicas) * prompt.together;
            let serial = prompt.batch.map(|time| copies / time);
            // Reading many prompts at once, weights are read once for all of them.
            let busy = prompt.bound.compute.0.max(prompt.bound.communication.0);
            let prompts = Tiers { light: copies / busy.max(f64::MIN_POSITIVE), ..serial };
            let answers = cycle.time.map(|time| replicas / (steps * time).max(f64::MIN_POSITIVE));
            let first = prompt.first.with(&moved.time, |prefill, moved| prefill + moved);
            // Layers that are done are sent while others are computed.
            let first_token = Tiers { light: prompt.first.light.max(moved.time.light), ..first };
            let requests = prompts.with(&answers, f64::min).with(&moved.requests, f64::min);
            let room = fit_with(model, draft, hardware, apart.layout, scenario);
            let fits = room.sequences.is_some_and(|most| most as f64 >= copies);
            let apart = ApartPoint { layout: apart.layout, moved, prompts, answers, fits };
            (prompt, first_token, requests, Some(apart))
        }
    };
    let of_decode = cycle.unknown.map(|why| ("decode", why));
    let unknown = of_decode.or(prompt.unknown.map(|why| ("prefill", why)));
    let known = |all: Tiers| Tiers { measured: all.measured.filter(|_| unknown.is_none()), ..all };
    Ok(Point {
        layout,
        concurrency,
        fit,
        first_token: known(first_token),
        token: known(token),
        requests: known(requests),
        decode: cycle.step,
        draft: cycle.draft.map(known),
        prefill: prompt.step,
        apart,
        unknown,
    })
}

/// The least time of one request where prefill's arithmetic may hide the memory traffic of decode:
/// the longest of all arithmetic, all traffic and all messages. `steps` of decode are its share.
fn fastest(prefill: &Bound, together: f64, decode: &Bound, steps: f64) -> f64 {
    let compute = prefill.compute.0 / together + steps * decode.compute.0;
    let sent = prefill.communication.0 / together + steps * decode.communication.0;
    // Weights that prefill reads, decode may read at the same time.
    let memory = steps * decode.memory.0;
    compute.max(sent).max(memory)
}

/// How tokens a second fall with the context, for one request: (context, tokens a second). Contexts
/// that do not fit are left out.
///
/// # Errors
/// As [`step`].
pub fn decay(
    model: &Model,
    hardware: &Hardware,
    split: Split,
    (kv, memory_share): (Format, f64),
) -> Result<Vec<(u64, Tiers)>, StepError> {
    let layout = Layout { replicas: 1, split };
    let fits = |context: &u64| {
        let fit = fit_at(model, hardware, layout, *context as f64, (kv, memory_share));
        fit.sequences.is_some_and(|most| most > 0)
    };
    let most = model.context.unwrap_or(1 << 20).min(1 << 20);
    let contexts =
        (7..=20).map(|power| 1u64 << power).filter(|context| *context <= most).filter(fits);
    let rate = |context: u64| {
        let phase = Phase::Decode { context: context as f64 };
        let work = Work { phase, sequences: 1.0, split, kv, routing: Routing::Chance };
        let step = step(model, hardware, work)?;
        Ok((context, Tiers::of(&step).map(|time| 1.0 / time)))
    };
    contexts.map(rate).collect()
}

/// L0 of a decode step, for claims.
///
/// # Errors
/// As [`step`].
pub fn light(model: &Model, hardware: &Hardware, work: Work) -> Result<Bound, StepError> {
    bound(model, hardware, work)
}

/// Limits that a service has to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slo {
    /// Longest time to the first token.
    pub first_token: Option<Seconds>,
    /// Longest time of one token more.
    pub token: Option<Seconds>,
    /// Longest time of a request.
    pub end_to_end: Option<Seconds>,
}

impl Slo {
    /// Whether a point keeps them in a tier.
    pub fn is_kept(&self, point: &Point, output: u32, by: By) -> bool {
        let within = |most: Option<Seconds>, time: f64| most.is_none_or(|most| time <= most.0);
        within(self.first_token, point.first_token.by(by))
            && within(self.token, point.token.by(by))
            && within(self.end_to_end, point.end_to_end(output).by(by))
    }
}

/// Which points nothing beats in both of two numbers, larger being better.
pub fn front(values: &[(f64, f64)]) -> Vec<bool> {
    let beats = |one: (f64, f64), other: (f64, f64)| {
        one.0 >= other.0 && one.1 >= other.1 && (one.0 > other.0 || one.1 > other.1)
    };
    values.iter().map(|one| !values.iter().any(|other| beats(*other, *one))).collect()
}

/// Whether a point is ranked among others: it fits, and its L2 is known where that of any that fits
/// is. L1 counts nothing of what kernels lose, so that beside L2 it would win by that alone.
pub fn is_ranked(point: &Point, all: &[Point]) -> bool {
    let is_known = |one: &Point| one.fits() && one.token.measured.is_some();
    point.fits() && (is_known(point) || !all.iter().any(is_known))
}

/// The point with the most tokens a second for each device among those that fit and keep limits,
/// all in one tier: of L2, where no point whose L2 is known keeps the limits, one by L1.
pub fn operating_point<'a>(
    points: &'a [Point],
    slo: &Slo,
    output: u32,
    by: By,
) -> Option<&'a Point> {
    let good: Vec<_> =
        points.iter().filter(|point| point.fits() && slo.is_kept(point, output, by)).collect();
    let rate = |point: &&Point| point.device_rate_with_prefill(output).by(by);
    let is_known = |point: &Point| by == By::Serial || point.token.measured.is_some();
    let known = good.iter().copied().filter(|point| is_known(point));
    let best = known.max_by(|one, other| rate(one).total_cmp(&rate(other)));
    best.or(good.into_iter().max_by(|one, other| rate(one).total_cmp(&rate(other))))
}

/// Dollars for a million output tokens at a price of one device for an hour.
pub fn cost_of_million(price: f64, tokens_per_second_per_device: f64) -> f64 {
    price / 3600.0 / tokens_per_second_per_device * 1e6
}
