//! What a claim of tokens leaves open, each taken as it helps the claim most: "impossible" is what
//! stays impossible with all of it.

use super::{Answer, Claim, Counted, Per, Reading, Statement, Verdict, prompts, tokens};
use crate::project::{Layout, layout::DEVICES_MAX};
use fizeau_domain::{
    dtype::Dtype,
    model::Model,
    number::percent,
    spec::{Figure, Of, Part},
    units::{Bytes, BytesPerSecond, FlopsPerSecond},
};

/// Formats of weights that a claim without one may mean, the widest first. In the last one the
/// embedding and the output layer are stored as the rest, which is the least that is common.
const FORMATS: [&str; 4] =
    ["fp8", "mxfp4", "int4-g128", "int4-g128,head=int4-g128,embedding=int4-g128"];

/// The narrowest format of keys and values.
const KV_LEAST: &str = "int4-g128";

/// The most tokens that a step of speculative decoding may gain.
const ACCEPTED_MOST: u32 = 64;

/// Devices that are sold together, and the most.
const SYSTEMS: [u32; 8] = [2, 4, 8, 16, 36, 72, 576, DEVICES_MAX];

/// "About" may be this share less.
const ROUGH: f64 = 0.05;

/// A claim with one reading of its tokens, on hardware.
#[derive(Clone)]
struct Case<'a> {
    claim: Claim,
    counted: Counted,
    per: Per,
    rate: f64,
    part: &'a Part,
    model: &'a Model,
    layout: Option<Layout>,
}

/// A condition that would make it possible, in words, and the claim with it.
struct Opening<'a> {
    words: String,
    case: Case<'a>,
}

impl Case<'_> {
    fn judge(&self) -> Result<Verdict, String> {
        let Case { claim, part, model, layout, per, rate, .. } = self;
        match self.counted {
            Counted::Output => tokens::judge(claim, part, model, *layout, (*per, *rate)),
            Counted::Input => prompts::judge(claim, part, model, *layout, (*per, *rate)),
            Counted::Total => prompts::total(claim, part, model, *layout, (*per, *rate)),
        }
    }

    fn is_impossible(&self) -> bool {
        // What cannot be computed is not refuted.
        self.judge().is_ok_and(|verdict| verdict.answer == Answer::Impossible)
    }

    /// Whether less is said against it than `before`, which is "impossible" or "suspicious".
    fn is_milder_than(&self, before: Answer) -> bool {
        match before {
            Answer::Impossible => !self.is_impossible(),
            _ => self.judge().is_ok_and(|verdict| {
                matches!(verdict.answer, Answer::Possible | Answer::CannotTell)
            }),
        }
    }
}

/// Judges a rate of tokens.
///
/// # Errors
/// Where conditions contradict each other.
pub fn judge(
    claim: &Claim,
    reading: &Reading,
    part: &Part,
    (model, layout): (&Model, Option<Layout>),
) -> Result<Verdict, String> {
    let Statement::Tokens { per, rate, .. } = reading.statement else {
        return Err(format!("{} is no rate of tokens", claim.value));
    };
    if per == Per::User && matches!(reading.counted, Some(Counted::Input | Counted::Total)) {
        return Err("a user's rate is of output tokens: prompts have no such rate".into());
    }
    let rate = if reading.is_rough { rate * (1.0 - ROUGH) } else { rate };
    let counted = reading.counted.unwrap_or(Counted::Output);
    let case = Case { claim: claim.clone(), counted, per, rate, part, model, layout };
    let verdict = case.judge()?;
    if verdict.answer == Answer::Suspicious {
        return Ok(opened(&case, reading.counted.is_none(), verdict));
    }
    if verdict.answer != Answer::Impossible {
        return Ok(verdict);
    }
    let confirmed = lifted(part);
    let verdict = match (Case { part: &confirmed, ..case.clone() }).is_impossible() {
        true => verdict,
        false => Verdict {
            answer: Answer::Suspicious,
            why: format!("{}, by a number that no document of the vendor confirms", verdict.why),
            ..verdict
        },
    };
    let case = Case { part: &confirmed, ..case };
    Ok(opened(&case, reading.counted.is_none(), verdict))
}

/// A verdict of "impossible" or "suspicious", with the conditions under which the figure is not.
fn opened(case: &Case<'_>, is_open: bool, verdict: Verdict) -> Verdict {
    let before = verdict.answer;
    if !matches!(before, Answer::Impossible | Answer::Suspicious) {
        return verdict;
    }
    let mut found = Vec::new();
    let mut all = case.clone();
    for opening in openings(case, is_open, before) {
        let Opening { words, case: one } = opening;
        if one.is_milder_than(before) {
            found.push(described(&words, &one));
        }
    }
    if found.is_empty() {
        let words = take_all(&mut all);
        let counts = [Counted::Output, Counted::Total, Counted::Input];
        let counts = counts
            .into_iter()
            .filter(|one| *one == case.counted || (is_open && case.per != Per::User));
        for counted in counts {
            let one = Case { counted, ..all.clone() };
            if !words.is_empty() && one.is_milder_than(before) {
                let words = format!("with {}, all together", words.join(" and "));
                found.push(described(&words, &one));
                break;
            }
        }
    }
    if found.is_empty() {
        return verdict;
    }
    let mut verdict = verdict;
    verdict.answer = Answer::CannotTell;
    verdict.why = format!(
        "{before} as it stands ({}), and not {before} {}",
        verdict.why,
        found.join(", or ")
    );
    verdict.missing.extend(found.iter().map(|words| format!("whether it is {words}")));
    verdict
}

/// An opening with what is said of the claim then.
fn described(words: &str, case: &Case<'_>) -> String {
    match case.judge() {
        Ok(verdict) => match verdict.of_light {
            Some(share) => format!("{words} ({} of L0)", percent(share, 0)),
            None => words.to_owned(),
        },
        Err(why) => format!("{words} ({why})"),
    }
}

/// Each condition that is not stated, taken alone as it helps most.
fn openings<'a>(case: &Case<'a>, is_open: bool, before: Answer) -> Vec<Opening<'a>> {
    let mut found = Vec::new();
    if is_open && case.per != Per::User {
        for (counted, words) in [
            (
                Counted::Total,
                "as input + output tokens, which InferenceX and vLLM print as total token \
                 throughput",
            ),
            (Counted::Input, "as input tokens"),
        ] {
            found.push(Opening { words: words.into(), case: Case { counted, ..case.clone() } });
        }
    }
    let mut with = |words: String, claim: Claim| {
        found.push(Opening { words, case: Case { claim, ..case.clone() } });
    };
    let claim = &case.claim;
    if claim.precision.is_none() {
        let stored = |format: &str| Claim { precision: Some(format.into()), ..claim.clone() };
        let is_enough = |format: &&&str| {
            (Case { claim: stored(format), ..case.clone() }).is_milder_than(before)
        };
        let format = FORMATS.iter().find(is_enough).unwrap_or(&FORMATS[0]);
        with(format!("with weights in {format}"), stored(format));
    }
    if claim.acceptance.is_none() && case.counted != Counted::Input {
        let accepted = |tokens: u32| Claim { acceptance: Some(tokens.into()), ..claim.clone() };
        let is_enough =
            |tokens| (Case { claim: accepted(tokens), ..case.clone() }).is_milder_than(before);
        if is_enough(ACCEPTED_MOST) {
            let (mut low, mut high) = (1, ACCEPTED_MOST);
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if is_enough(middle) { high = middle } else { low = middle }
            }
            let words = format!(
                "with speculative decoding that gains {high} tokens a step at least (--acceptance)"
            );
            with(words, accepted(high));
        }
    }
    if claim.gpus.is_none() && case.layout.is_none() {
        let on = |gpus: u32| Claim { gpus: Some(gpus), ..claim.clone() };
        let is_enough =
            |gpus: &&u32| (Case { claim: on(**gpus), ..case.clone() }).is_milder_than(before);
        if let Some(gpus) = SYSTEMS.iter().find(is_enough) {
            with(format!("on {gpus} devices"), on(*gpus));
        }
    }
    found
}

/// Takes all that is not stated as it helps most, and names it.
fn take_all(case: &mut Case<'_>) -> Vec<String> {
    let mut words = Vec::new();
    let claim = &mut case.claim;
    if claim.precision.is_none() {
        claim.precision = FORMATS.last().map(|format| (*format).into());
        words.push("weights in 4 bits".into());
    }
    if claim.kv.is_none() {
        claim.kv = Some(KV_LEAST.into());
        words.push("keys and values in 4 bits".into());
    }
    if claim.acceptance.is_none() && case.counted != Counted::Input {
        claim.acceptance = Some(ACCEPTED_MOST.into());
        words.push(format!("{ACCEPTED_MOST} tokens a step by speculative decoding"));
    }
    if claim.gpus.is_none() && case.layout.is_none() {
        claim.gpus = Some(DEVICES_MAX);
        words.push("any number of devices".into());
    }
    words
}

/// What bounds nothing.
const UNLIMITED: f64 = 1e6;

/// Element types, each at least as fast as those before it.
const NARROWING: [Dtype; 8] = [
    Dtype::F64,
    Dtype::F32,
    Dtype::Tf32,
    Dtype::Bf16,
    Dtype::F16,
    Dtype::Fp8,
    Dtype::Fp6,
    Dtype::Fp4,
];

/// Element types whose rate is not known to be below that of narrower ones, where it is not stated.
const UNSTATED_WIDER: [(&[Dtype], &[Dtype]); 3] = [
    (&[Dtype::Fp8], &[Dtype::Fp4]),
    (&[Dtype::Bf16, Dtype::F16], &[Dtype::Fp8]),
    (&[Dtype::Int8], &[Dtype::Fp8]),
];

/// The part without the limits that no document of the vendor confirms.
fn lifted(part: &Part) -> Part {
    // A main number that is confirmed bounds, or another text's that is above all others.
    let is_open = |of: Of| {
        let all = part.figures.iter().filter(|figure| figure.of == of && !figure.is_sparse);
        let all: Vec<&Figure> = all.collect();
        let largest = all.iter().max_by(|a, b| a.rate.total_cmp(&b.rate));
        largest.is_some_and(|figure| !figure.is_confirmed)
            && !all.iter().any(|figure| figure.is_main && figure.is_confirmed)
    };
    let mut part = part.clone();
    if is_open(Of::Memory) {
        let far = |rate: BytesPerSecond| rate * UNLIMITED;
        part.memory_bandwidth = part.memory_bandwidth.map(far);
        part.memory_bandwidth_most = part.memory_bandwidth_most.map(far);
    }
    let open: Vec<_> =
        part.peaks.keys().copied().filter(|dtype| is_open(Of::Arithmetic(*dtype))).collect();
    for dtype in &open {
        // No operand is multiplied faster than a narrower one.
        let narrower = NARROWING.iter().skip_while(|one| *one != dtype).skip(1);
        let confirmed = narrower.filter(|one| !open.contains(one));
        let bound = confirmed.filter_map(|one| part.peaks.get(one)).map(|peak| peak.0);
        let bound = bound.reduce(f64::max);
        let far = |peak: &mut FlopsPerSecond| {
            peak.0 = bound.map_or(peak.0 * UNLIMITED, |bound| bound.max(peak.0));
        };
        part.peaks.entry(*dtype).and_modify(far);
    }
    // A part multiplies wider operands than the narrowest that are stated, no faster than these.
    for (wider, narrower) in UNSTATED_WIDER {
        let known = narrower.iter().find_map(|dtype| part.peaks.get(dtype)).copied();
        let is_stated = wider.iter().any(|dtype| part.peaks.contains_key(dtype));
        if let Some(peak) = known.filter(|_| !is_stated) {
            part.peaks.extend(wider.iter().map(|dtype| (*dtype, peak)));
        }
    }
    if part.unverified.iter().any(|field| field == "capacity_gb") {
        part.memory = part.memory.map(|memory| Bytes(memory.0.saturating_mul(1 << 10)));
    }
    part
}
