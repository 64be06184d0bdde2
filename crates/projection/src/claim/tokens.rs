//! Claims about tokens of answers, against the bound of a step: the law is that of `project`.

use super::{Answer, Claim, LIGHT_MOST, Per, Verdict};
use crate::project::{
    DraftCost, Fit, Hardware, Layout, Scenario, Serving, Speculation, Split, Step, served,
    serving::cycle,
    sweep::{self, CONCURRENCY_MAX},
};
use fizeau_domain::{
    model::{Format, Model, Module},
    number::{fixed, percent},
    spec::Part,
    text::{agreed, counted},
    units::Bytes,
};

/// Vendors print GB and mean GiB for the memory of most devices: in a claim's favour it counts so.
const GIB_OVER_GB: f64 = 1.073_741_824;

/// Everything that a claim is judged by.
pub(super) struct Case<'a> {
    claim: &'a Claim,
    pub(super) model: Model,
    pub(super) hardware: Hardware,
    pub(super) layout: Layout,
    pub(super) kv: Format,
    context: f64,
    pub(super) lines: Vec<String>,
    pub(super) missing: Vec<String>,
}

/// Judges a rate of tokens.
pub fn judge(
    claim: &Claim,
    part: &Part,
    model: &Model,
    layout: Option<Layout>,
    (per, rate): (Per, f64),
) -> Result<Verdict, String> {
    let hardware = match Hardware::of_part(part) {
        Ok(hardware) => hardware,
        Err(why) => {
            return Ok(Verdict::cannot_tell(why, "a part whose memory the catalogue states"));
        }
    };
    let mut case = Case::of(claim, hardware, model, layout)?;
    if let Some(verdict) = case.beyond_the_context() {
        return Ok(verdict);
    }
    // A user's rate is highest where the user is alone; other rates with all that fit.
    let least = claim.concurrency.unwrap_or(1);
    let fit = case.fit();
    case.explain_fit(&fit, least);
    let most = match fit.sequences {
        None => return Ok(case.without_room()),
        Some(most) if most < u64::from(least) => return Ok(case.caches_do_not_fit(least, most)),
        Some(most) => u32::try_from(most).unwrap_or(u32::MAX).min(CONCURRENCY_MAX),
    };
    let devices = f64::from(case.layout.devices());
    let concurrency = match (claim.concurrency, per) {
        (Some(stated), _) => stated,
        (None, Per::User) => {
            case.missing.push("requests at once: 1 taken, the fastest for a user".into());
            1
        }
        (None, _) if claim.isl.is_none() && claim.context.is_none() => {
            return Ok(case.without_load(per, rate, devices));
        }
        (None, _) => {
            case.missing.push(format!("requests at once: {most} taken, the most that fit"));
            most
        }
    };
    let of_all = |concurrency: u32| match per {
        Per::User => rate * f64::from(concurrency),
        Per::Device => rate * devices,
        Per::System => rate,
    };
    let all = of_all(concurrency);
    let (light, serial) = match case.limits(per, concurrency) {
        Ok(limits) => limits,
        Err(why) => return Ok(case.unknown(why)),
    };
    let mut verdict = case.verdict(all, light, serial, f64::from(concurrency), per);
    if verdict.answer == Answer::Impossible
        && claim.concurrency.is_none()
        && per != Per::User
        && let Some(implied) =
            Case::of(claim, Hardware::of_part(part)?, model, layout)?.implied(per, all, most)?
    {
        verdict.why = format!(
            "{}: it needs {} at once or more, and {most} fit into memory",
            verdict.why,
            counted(implied as usize, "request")
        );
        verdict.arithmetic.push(format!(
            "L0 reaches the claimed rate with {} at once, whatever memory they take",
            counted(implied as usize, "request")
        ));
    }
    Ok(verdict)
}

impl<'a> Case<'a> {
    /// # Errors
    /// Where conditions contradict each other.
    pub(super) fn of(
        claim: &'a Claim,
        hardware: Hardware,
        model: &Model,
        layout: Option<Layout>,
    ) -> Result<Case<'a>, String> {
        let mut model = model.clone();
        let mut missing = Vec::new();
        match &claim.precision {
            Some(text) => model.precision = model.precision.stored_as(text)?,
            None => missing.push(format!("precision: {} as published", model.precision.describe())),
        }
        let gpus = match (claim.gpus, layout) {
            (Some(gpus), Some(layout)) if gpus != layout.devices() => {
                let devices = counted(layout.devices() as usize, "device");
                return Err(format!("{layout} has {devices}, and not {gpus}"));
            }
            (_, Some(layout)) => layout.devices(),
            (Some(gpus), None) => gpus,
            (None, None) => {
                missing.push("devices: 1 taken".into());
                1
            }
        };
        let even = Layout { replicas: 1, split: Split::Even(gpus) };
        let layout = layout.unwrap_or_else(|| {
            if gpus > 1 {
                missing.push("layout: an even division without messages taken".into());
            }
            even
        });
        layout.check(&model)?;
        let half = |output: u32| f64::from(output) / 2.0;
        let context = match (claim.context, claim.isl, claim.osl) {
            (Some(context), _, _) => f64::from(context),
            (None, Some(input), Some(output)) => f64::from(input) + half(output),
            (None, Some(input), None) => {
                missing.push("tokens of answers: prompts alone are in the KV cache".into());
                f64::from(input)
            }
            (None, None, Some(output)) => {
                missing.push("tokens of prompts: 0 taken, the fastest".into());
                half(output)
            }
            (None, None, None) => {
                missing.push("context: 0 tokens taken, the fastest".into());
                0.0
            }
        };
        let kv = match &claim.kv {
            Some(text) => text.parse()?,
            None => {
                if context > 0.0 {
                    missing.push("format of the KV cache: fp8 taken; bf16 takes twice that".into());
                }
                Format::Fp8
            }
        };
        Ok(Case { claim, model, hardware, layout, kv, context, lines: Vec::new(), missing })
    }

    fn finish(self, answer: Answer, why: String) -> Verdict {
        Verdict {
            answer,
            only: None,
            why,
            of_light: None,
            of_serial: None,
            arithmetic: self.lines,
            missing: self.missing,
        }
    }

    /// The weights alone take more than all memory.
    pub(super) fn without_room(self) -> Verdict {
        self.finish(Answer::Impossible, "the weights do not fit into memory".into())
    }

    /// The catalogue lacks a number that decides.
    pub(super) fn unknown(mut self, why: String) -> Verdict {
        self.missing.push("a part of which the catalogue states what this needs".into());
        self.finish(Answer::CannotTell, why)
    }

    /// More tokens than the model's configuration has room for: with another configuration it may
    /// be true.
    pub(super) fn beyond_the_context(&mut self) -> Option<Verdict> {
        let most = self.model.context?;
        let Claim { isl, osl, context, .. } = self.claim;
        let all: u64 = [isl, osl, context].into_iter().flatten().map(|one| u64::from(*one)).sum();
        if all <= most {
            return None;
        }
        let line = format!(
            "{all} tokens are more than the {most} of {}'s context (max_position_embeddings)",
            self.model.name
        );
        self.lines.push(line);
        self.missing.push("a config.json whose context holds these tokens: --model PATH".into());
        Some(Verdict {
            answer: Answer::CannotTell,
            only: None,
            why: "the model's context does not hold these tokens".into(),
            of_light: None,
            of_serial: None,
            arithmetic: std::mem::take(&mut self.lines),
            missing: std::mem::take(&mut self.missing),
        })
    }

    /// What fits in the claim's layout, with all memory taken and counted in GiB.
    pub(super) fn fit(&self) -> Fit {
        let capacity = Bytes((self.hardware.capacity.0 as f64 * GIB_OVER_GB) as u64);
        let hardware = Hardware { capacity, ..self.hardware.clone() };
        sweep::fit_at(&self.model, &hardware, self.layout, self.context, (self.kv, 1.0))
    }

    /// Weights and caches of a number of requests beside the memory of the device that has most of
    /// both.
    fn explain_fit(&mut self, fit: &Fit, requests: u32) {
        let Layout { replicas, split } = self.layout;
        let gb = |bytes: f64| bytes / 1e9;
        let among = match self.layout.devices() {
            1 => "on one device".to_owned(),
            n => match split {
                Split::Even(_) => format!("shared evenly by {n} devices"),
                _ => format!("as {} on {n} devices", self.layout),
            },
        };
        self.lines.push(format!(
            "weights: {:.4} x 10^9 parameters in {} = {:.1} GB, {among}: {:.1} GB on each; memory \
             of each: {:.0} GB, counted as GiB = {:.1} GB",
            self.model.total() / 1e9,
            self.model.precision.describe(),
            gb(self.model.weight_bytes()),
            gb(fit.weights),
            gb(self.hardware.capacity.0 as f64),
            gb(fit.usable)
        ));
        let Some(most) = fit.sequences.filter(|_| fit.sequence > 0.0) else { return };
        // Of a device: layouts of experts give each device sequences of its own.
        let own = match split {
            Split::Expert(n) => n,
            Split::Tensor(_) | Split::Even(_) | Split::Pipeline { .. } => 1,
        };
        let each = requests.div_ceil(replicas.saturating_mul(own));
        let caches = f64::from(each) * fit.sequence;
        self.lines.push(format!(
            "KV cache: {each} x {:.3} GB ({} tokens in {}, of each sequence on a device) = {:.1} \
             GB; with the weights {:.1} GB of {:.1} GB; {} {}",
            gb(fit.sequence),
            self.context,
            self.kv,
            gb(caches),
            gb(fit.weights + caches),
            gb(fit.usable),
            counted(most as usize, "sequence"),
            agreed(most as usize, "fits", "fit")
        ));
    }

    fn caches_do_not_fit(self, least: u32, most: u64) -> Verdict {
        let sequences = match least {
            1 => "one sequence".to_owned(),
            n => format!("{n} sequences"),
        };
        let why = format!(
            "weights and the KV cache of {sequences} of {} tokens do not fit into memory: {most} \
             fit",
            self.context
        );
        self.finish(Answer::Impossible, why)
    }

    /// The least number of requests at once, above the most that fit, with which L0 reaches a rate.
    fn implied(mut self, per: Per, all: f64, most: u32) -> Result<Option<u32>, String> {
        let mut reaches = |concurrency: u32| -> Result<bool, String> {
            Ok(self.limits(per, concurrency)?.0 >= all)
        };
        if most >= CONCURRENCY_MAX || !reaches(CONCURRENCY_MAX)? {
            return Ok(None);
        }
        let (mut low, mut high) = (most, CONCURRENCY_MAX);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if reaches(middle)? { high = middle } else { low = middle }
        }
        Ok(Some(high))
    }

    /// Neither requests at once nor tokens are stated: arithmetic alone bounds the rate.
    fn without_load(mut self, per: Per, rate: f64, devices: f64) -> Verdict {
        let peak = self.hardware.arithmetic(self.model.precision.of(Module::Experts));
        let Some((dtype, peak)) = peak else {
            return self.finish(Answer::CannotTell, "no peak is known".into());
        };
        let operations = 2.0 * self.model.active();
        let most = peak.0 / operations;
        let each = if per == Per::System { rate / devices } else { rate };
        self.lines.push(format!(
            "2 x {:.2} x 10^9 active parameters = {:.1} GFLOP a token; {peak} ({dtype}) / that = \
             {} tok/s/GPU at most, whatever the load",
            self.model.active() / 1e9,
            operations / 1e9,
            fixed(most, 0)
        ));
        self.missing.push("requests at once".into());
        self.missing.push("tokens of prompts and answers".into());
        if each > most {
            let why = format!("{} tok/s/GPU is above what the arithmetic allows", fixed(each, 0));
            return self.finish(Answer::Impossible, why);
        }
        let why = "the rate depends on the number of requests at once and on their lengths, which \
                   are not stated";
        self.finish(Answer::CannotTell, why.into())
    }

    /// Speculative decoding as the claim states it, in its favour: drafts cost nothing, and no
    /// more tokens are drafted than the accepted ones take. Each token that is checked takes its
    /// own arithmetic; weights and KV cache are read once for all of them.
    fn serving(&self) -> Serving {
        let accepted = self.claim.acceptance.unwrap_or(1.0);
        let drafted = accepted.ceil() as u32 - 1;
        let speculation = Speculation { accepted, drafted, cost: DraftCost::Nothing };
        Serving { speculation: (drafted > 0).then_some(speculation), apart: None }
    }

    /// The prompts and answers of the claim, or a context that is the middle of such.
    fn scenario(&self) -> Scenario {
        let Claim { isl, osl, context, .. } = self.claim;
        let input = context.or(*isl).unwrap_or(0);
        let output = osl.unwrap_or(0);
        Scenario { input, prefix: 0, output, kv: self.kv, memory_share: 1.0 }
    }

    /// Tokens a second of all users in L0 and in L1.
    fn limits(&mut self, per: Per, concurrency: u32) -> Result<(f64, f64), String> {
        if self.claim.isl.is_some() && self.claim.osl.is_some() && per != Per::User {
            return self.offline(concurrency);
        }
        let each = f64::from(concurrency.div_ceil(self.layout.replicas));
        let (scenario, serving) = (self.scenario(), self.serving());
        let asked = (&scenario, &serving);
        let cycle = cycle(&self.model, &self.hardware, self.layout.split, asked, each);
        let cycle = cycle.map_err(|error| error.to_string())?;
        self.explain(&cycle.step, each);
        self.lines.push(format!(
            "L1 = {} (one operation after the other, {} of it {})",
            cycle.step.serial,
            share_of_class(&cycle.step),
            cycle.step.class()
        ));
        self.explain_speculation();
        let rate = |time: f64| f64::from(concurrency) * cycle.gain / time;
        Ok((rate(cycle.time.light), rate(cycle.time.serial)))
    }

    fn explain_speculation(&mut self) {
        if let Some(Speculation { accepted, drafted, .. }) = self.serving().speculation {
            self.lines.push(format!(
                "{accepted} tokens accepted a step: {} of each sequence are checked at once, which \
                 takes the arithmetic of each, and reads weights and KV cache once",
                drafted + 1
            ));
        }
    }

    fn explain(&mut self, step: &Step, each: f64) {
        let (hardware, bound) = (&self.hardware, &step.bound);
        let kv = each * self.model.kv_bytes(self.context, self.kv);
        self.lines.push(format!(
            "a step of {each} {} at {} tokens reads {} GB on each device (KV cache of \
             all: {} GB in {}), less {} that caches may keep: / {} = {}",
            if each == 1.0 { "sequence" } else { "sequences" },
            self.context,
            fixed(bound.bytes / 1e9, 3),
            fixed(kv / 1e9, 3),
            self.kv,
            hardware.cache,
            hardware.memory_most,
            bound.memory
        ));
        self.lines.push(format!(
            "{} GFLOP on each device at peak = {}{}",
            fixed(bound.flops / 1e9, 1),
            bound.compute,
            match bound.communication.0 {
                0.0 => String::new(),
                _ => format!("; messages = {}", bound.communication),
            }
        ));
        let (longest, class) = bound.longest();
        self.lines.push(format!("L0 = the longest = {longest} ({class})"));
    }

    /// Throughput with the prompts' prefill.
    fn offline(&mut self, concurrency: u32) -> Result<(f64, f64), String> {
        let (scenario, serving) = (self.scenario(), self.serving());
        scenario.check(&self.model)?;
        let asked = (&scenario, &serving);
        let point = served(&self.model, &self.hardware, self.layout, asked, concurrency);
        let point = point.map_err(|error| error.to_string())?;
        let rates = point.requests.map(|rate| rate * f64::from(scenario.output));
        let decode = &point.decode.bound;
        let prefill = &point.prefill.bound;
        let gain = serving.speculation.as_ref().map_or(1.0, |one| one.accepted);
        self.lines.push(format!(
            "a request: prefill of {} tokens takes {} of arithmetic on each device; {} decode \
             steps take {} of memory and {} of arithmetic each, for {} at once",
            scenario.input,
            prefill.compute,
            fixed(f64::from(scenario.output.saturating_sub(1)) / gain, 0),
            decode.memory,
            decode.compute,
            counted(concurrency as usize, "request")
        ));
        self.explain_speculation();
        self.lines.push(format!(
            "L0 = {} tok/s where prefill hides decode's memory traffic; L1 = {} tok/s one \
             after the other",
            fixed(rates.light, 0),
            fixed(rates.serial, 0)
        ));
        Ok((rates.light, rates.serial))
    }

    pub(super) fn verdict(
        mut self,
        all: f64,
        light: f64,
        serial: f64,
        concurrency: f64,
        per: Per,
    ) -> Verdict {
        let (of_light, of_serial) = (all / light, all / serial);
        let devices = f64::from(self.layout.devices());
        let as_stated = |rate: f64| match per {
            Per::User => rate / concurrency,
            Per::Device => rate / devices,
            Per::System => rate,
        };
        self.lines.push(format!(
            "claimed {} {per}; L0 {}, L1 {}: {} of L0, {} of L1",
            fixed(as_stated(all), 1),
            fixed(as_stated(light), 1),
            fixed(as_stated(serial), 1),
            percent(of_light, 1),
            percent(of_serial, 1)
        ));
        let of_bound = percent(of_light, 0);
        let (answer, why) = if of_light > 1.0 {
            (Answer::Impossible, format!("it is {of_bound} of the bound"))
        } else if of_serial > 1.0 {
            let why = format!(
                "it is {} of a perfect engine that does one operation after the other",
                percent(of_serial, 0)
            );
            (Answer::Suspicious, why)
        } else if of_light > LIGHT_MOST {
            let why = format!("it is {of_bound} of the bound: no measurement comes so near");
            (Answer::Suspicious, why)
        } else {
            let of_serial = percent(of_serial, 0);
            (Answer::Possible, format!("it is {of_bound} of L0 and {of_serial} of L1"))
        };
        let mut verdict = self.finish(answer, why);
        (verdict.of_light, verdict.of_serial) = (Some(of_light), Some(of_serial));
        verdict
    }
}

/// The share of L1 that its class takes, in words.
fn share_of_class(step: &crate::project::Step) -> String {
    let class = step.class();
    let of: f64 = step.rows.iter().filter(|row| row.class == class).map(|row| row.serial.0).sum();
    percent(of / step.serial.0.max(f64::MIN_POSITIVE), 0)
}
