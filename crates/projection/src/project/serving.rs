//! Ways to serve a model beyond one token after the other on the same devices: speculative
//! decoding, and prefill on devices of its own.

use super::{
    hardware::Hardware,
    layout::{Layout, Split},
    operation::Phase,
    step::{Bound, Step, StepError, Unknown, step},
    sweep::{Scenario, Tiers},
};
use fizeau_domain::{
    model::Model,
    units::{BytesPerSecond, Seconds},
};

/// The most tokens that are drafted at once.
pub const DRAFTED_MAX: u32 = 64;

/// How requests are served.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Serving {
    /// Speculative decoding; none where each step makes one token.
    pub speculation: Option<Speculation>,
    /// Prefill on devices of its own; none where the same devices do both.
    pub apart: Option<Apart>,
}

/// Speculative decoding. How many tokens are accepted depends on model, draft and text: it is an
/// input, and never assumed.
#[derive(Clone, Debug, PartialEq)]
pub struct Speculation {
    /// Tokens that a sequence gains in a step on average, that of the model itself included.
    pub accepted: f64,
    /// Tokens that are drafted before each step.
    pub drafted: u32,
    /// What drafting takes.
    pub cost: DraftCost,
}

/// What drafting the tokens of a step takes.
#[derive(Clone, Debug, PartialEq)]
pub enum DraftCost {
    /// Nothing: looked up in the prompt.
    Nothing,
    /// This share of the time of the step that checks them: heads of the model itself.
    Share(f64),
    /// As many decode steps of a smaller model on the same devices, and its prefill.
    Model(Box<Model>),
}

impl Speculation {
    /// Whether it can be so.
    ///
    /// # Errors
    /// In words: which number cannot be.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=DRAFTED_MAX).contains(&self.drafted) {
            return Err(format!("draft={}: from 1 to {DRAFTED_MAX} tokens", self.drafted));
        }
        let most = f64::from(self.drafted) + 1.0;
        if !(1.0..=most).contains(&self.accepted) {
            return Err(format!(
                "accept={}: with {} drafted tokens a step gains from 1 to {most} tokens",
                self.accepted, self.drafted
            ));
        }
        match self.cost {
            DraftCost::Share(share) if !(0.0..=10.0).contains(&share) => {
                Err(format!("draft-cost={share}: a share of the step's time, from 0 to 10"))
            }
            _ => Ok(()),
        }
    }

    /// In words, for reports.
    pub fn describe(&self) -> String {
        let cost = match &self.cost {
            DraftCost::Nothing => "drafting taken as free (looked up in the prompt)".into(),
            DraftCost::Share(share) => {
                format!("drafting takes {:.0} % of the step (given)", share * 100.0)
            }
            DraftCost::Model(model) => {
                format!("drafted by {} in {} steps of its own", model.name, self.drafted)
            }
        };
        format!(
            "{} of {} tokens gained in a step (given); {cost}; {} tokens of each sequence are \
             checked at once",
            self.accepted,
            self.drafted + 1,
            self.drafted + 1
        )
    }

    /// The smaller model, where there is one.
    pub fn draft(&self) -> Option<&Model> {
        match &self.cost {
            DraftCost::Model(model) => Some(model),
            DraftCost::Nothing | DraftCost::Share(_) => None,
        }
    }
}

/// How a smaller model is spread beside a larger one: as that where it can be, else whole on every
/// device. With it the share of the copy's sequences that it drafts for at once.
pub fn draft_split(draft: &Model, split: Split) -> (Split, f64) {
    let share = match split {
        Split::Tensor(_) | Split::Even(_) => 1.0,
        Split::Expert(n) => 1.0 / f64::from(n),
        Split::Pipeline { stages, .. } => 1.0 / f64::from(stages),
    };
    let alike = match split {
        Split::Tensor(_) | Split::Even(_) => split,
        Split::Pipeline { tensor, .. } => Split::Tensor(tensor),
        Split::Expert(_) => Split::Tensor(1),
    };
    match (Layout { replicas: 1, split: alike }).check(draft) {
        Ok(()) => (alike, share),
        Err(_) => (Split::Tensor(1), share),
    }
}

/// The time from one step's tokens to the next one's.
#[derive(Clone, Debug, PartialEq)]
pub struct Cycle {
    /// The step of the model: of one token for each sequence, or of those that it checks.
    pub step: Step,
    /// What drafting takes, seconds; none without.
    pub draft: Option<Tiers>,
    /// L0 of both by resource.
    pub bound: Bound,
    /// Both, seconds.
    pub time: Tiers,
    /// Why L2 of one of them is not known.
    pub unknown: Option<Unknown>,
    /// Tokens that a sequence gains.
    pub gain: f64,
}

fn tiers(step: &Step, times: f64) -> Tiers {
    let measured = step.measured.map(|time| time.0 * times);
    Tiers { light: step.light().0 * times, serial: step.serial.0 * times, measured }
}

/// A step of decode, as requests are served.
///
/// # Errors
/// As [`step`].
pub fn cycle(
    model: &Model,
    hardware: &Hardware,
    split: Split,
    (scenario, serving): (&Scenario, &Serving),
    sequences: f64,
) -> Result<Cycle, StepError> {
    let context = scenario.middle();
    let Some(speculation) = &serving.speculation else {
        let step =
            step(model, hardware, scenario.work(split, Phase::Decode { context }, sequences))?;
        let (bound, time, unknown) = (step.bound, tiers(&step, 1.0), step.unknown);
        return Ok(Cycle { step, draft: None, bound, time, unknown, gain: 1.0 });
    };
    let tokens = f64::from(speculation.drafted) + 1.0;
    let phase = Phase::Verify { context, tokens };
    let check = step(model, hardware, scenario.work(split, phase, sequences))?;
    let mut unknown = check.unknown;
    let (bound, draft) = match &speculation.cost {
        DraftCost::Nothing => (Bound::default(), tiers(&check, 0.0)),
        DraftCost::Share(share) => (check.bound.times(*share), tiers(&check, *share)),
        DraftCost::Model(small) => {
            let (split, share) = draft_split(small, split);
            let work = scenario.work(split, Phase::Decode { context }, sequences * share);
            let each = step(small, hardware, work)?;
            unknown = unknown.or(each.unknown);
            let times = f64::from(speculation.drafted);
            (each.bound.times(times), tiers(&each, times))
        }
    };
    let bound = check.bound.plus(&bound);
    let light = bound.longest().0.0;
    let time = Tiers { light, ..tiers(&check, 1.0).with(&draft, |one, other| one + other) };
    let gain = speculation.accepted;
    Ok(Cycle { step: check, draft: Some(draft), bound, time, unknown, gain })
}

/// Prefill on devices of its own, from which keys and values go to those that decode.
#[derive(Clone, Debug, PartialEq)]
pub struct Apart {
    /// How the model is spread over the devices that prefill.
    pub layout: Layout,
    /// What one device sends to the other devices in one direction, where it is given; else the
    /// part's network, or its links where no network is known.
    pub rate: Option<BytesPerSecond>,
}

/// The keys and values of one prompt on their way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moved {
    /// Bytes of all layers together.
    pub bytes: f64,
    /// What one device sends in one direction.
    pub rate: BytesPerSecond,
    /// How long it takes, seconds.
    pub time: Tiers,
    /// Prompts that all devices together move each second.
    pub requests: Tiers,
}

impl Apart {
    /// Moves the keys and values of a prompt to devices that decode. As a bound every device that
    /// has a part sends and receives it once; else each sends what tensor parallelism has copied
    /// to it.
    ///
    /// # Errors
    /// Where no link is known.
    pub fn moved(
        &self,
        model: &Model,
        hardware: &Hardware,
        scenario: &Scenario,
        decode: Layout,
    ) -> Result<Moved, StepError> {
        let of_part = || {
            let link = hardware.link.as_ref()?;
            Some(link.outside.unwrap_or(link.inside))
        };
        let rate = self.rate.or_else(of_part);
        let rate = rate.ok_or_else(|| StepError::Link(hardware.name.clone()))?;
        let (prompt, prefix) = (f64::from(scenario.input), f64::from(scenario.prefix));
        let held = model.kv_bytes(prompt, scenario.kv);
        // What is cached need not be sent again; states have no prefix to leave out.
        let least = held - model.kv_bytes(prefix, scenario.kv) * f64::from(scenario.prefix.min(1));
        let least = least.max(0.0);
        let splits = [self.layout.split, decode.split];
        let fewest =
            splits.map(|split| f64::from(split.devices())).into_iter().fold(f64::MAX, f64::min);
        let most =
            splits.map(|split| share_held(model, scenario, split)).into_iter().fold(0.0, f64::max);
        let serial = held * most / rate.0;
        let time = Tiers {
            light: least / fewest / rate.0,
            serial,
            measured: is_known(hardware).then_some(serial),
        };
        let pools = [self.layout, decode].map(|layout| f64::from(layout.devices()));
        let copies = [self.layout, decode]
            .map(|layout| f64::from(layout.replicas) * own_sequences(layout.split));
        let fewest = |of: [f64; 2]| of[0].min(of[1]);
        let requests = Tiers {
            light: fewest(pools) * rate.0 / least.max(f64::MIN_POSITIVE),
            serial: fewest(copies) / serial.max(f64::MIN_POSITIVE),
            measured: time.measured.map(|time| fewest(copies) / time.max(f64::MIN_POSITIVE)),
        };
        Ok(Moved { bytes: held, rate, time, requests })
    }
}

fn is_known(hardware: &Hardware) -> bool {
    hardware.measured.is_some() || hardware.public.is_some()
}

/// Devices of a copy that have sequences of their own.
fn own_sequences(split: Split) -> f64 {
    match split {
        Split::Expert(n) => f64::from(n),
        Split::Tensor(_) | Split::Even(_) | Split::Pipeline { .. } => 1.0,
    }
}

/// Of what a sequence holds, the most that one device of a copy has.
fn share_held(model: &Model, scenario: &Scenario, split: Split) -> f64 {
    let tokens = f64::from(scenario.input);
    let all = model.kv_bytes(tokens, scenario.kv).max(f64::MIN_POSITIVE);
    super::sweep::sequence_bytes(model, split, tokens, scenario.kv) / all
}

/// A prefill in L0 by resource, in all tiers, and why L2 of it is not known.
pub type Prefill = (Bound, Tiers, Option<Unknown>);

/// Adds the prefill of a smaller model to that of a larger one.
///
/// # Errors
/// As [`step`].
pub fn with_draft(
    (bound, time, unknown): Prefill,
    hardware: &Hardware,
    (split, prompts): (Split, f64),
    (scenario, serving): (&Scenario, &Serving),
) -> Result<Prefill, StepError> {
    let draft = serving.speculation.as_ref().and_then(Speculation::draft);
    let Some(draft) = draft else { return Ok((bound, time, unknown)) };
    let (split, share) = draft_split(draft, split);
    let phase = scenario.prefill();
    let step = step(draft, hardware, scenario.work(split, phase, (prompts * share).max(1.0)))?;
    let bound = bound.plus(&step.bound);
    let Seconds(light) = bound.longest().0;
    let time = Tiers { light, ..time.with(&tiers(&step, 1.0), |one, other| one + other) };
    Ok((bound, time, unknown.or(step.unknown)))
}
