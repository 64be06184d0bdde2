//! Claims about tokens of prompts, against the limits of prefill, and about those of prompts and
//! answers together.

use super::{Answer, Claim, Per, Verdict, tokens, tokens::Case};
use crate::project::{Hardware, Layout, Phase, Routing, Work, step};
use fizeau_domain::{model::Model, number::fixed, spec::Part};

/// Tokens that a device reads together: beyond it reading the weights is no cost.
const TOGETHER: u32 = 1 << 15;

/// Prompts of which the fastest is taken where their length is not stated.
const LENGTHS: [u32; 5] = [256, 1024, 4096, 16_384, 32_768];

/// Judges a rate of input tokens.
///
/// # Errors
/// As [`Case::of`].
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
    if case.fit().sequences.is_none() {
        return Ok(case.without_room());
    }
    let lengths: Vec<u32> = match claim.isl {
        Some(stated) => vec![stated],
        None => {
            let most = model.context.unwrap_or(u64::MAX);
            let fits = LENGTHS.into_iter().filter(|length| u64::from(*length) <= most);
            fits.collect()
        }
    };
    let mut best: Option<(f64, f64, u32)> = None;
    for length in lengths {
        match limits(&case, length) {
            Ok((light, serial)) if best.is_none_or(|(most, ..)| light > most) => {
                best = Some((light, serial, length));
            }
            Ok(_) => {}
            Err(why) => return Ok(case.unknown(why)),
        }
    }
    let Some((light, serial, length)) = best else {
        return Ok(case.unknown("the model's context holds no prompt".into()));
    };
    if claim.isl.is_none() {
        case.missing.push(format!("tokens of prompts: {length} taken, the fastest"));
    }
    case.missing.push("tokens of prompts that a cache holds: none taken".into());
    case.lines.push(format!(
        "prefill of prompts of {length} tokens, {TOGETHER} at least at once on each device: L0 = \
         {} input tok/s by arithmetic and messages alone, L1 = {} one operation \
         after the other",
        fixed(light, 0),
        fixed(serial, 0)
    ));
    let all = if per == Per::Device { rate * f64::from(case.layout.devices()) } else { rate };
    Ok(case.verdict(all, light, serial, 1.0, per))
}

/// Input tokens a second of all devices in L0 and in L1.
fn limits(case: &Case<'_>, length: u32) -> Result<(f64, f64), String> {
    let split = case.layout.split;
    let sequences = f64::from(split.prompts()) * f64::from(TOGETHER.div_ceil(length));
    let phase = Phase::Prefill { new: f64::from(length), old: 0.0 };
    let work = Work { phase, sequences, split, kv: case.kv, routing: Routing::Chance };
    let step = step(&case.model, &case.hardware, work).map_err(|error| error.to_string())?;
    let tokens = f64::from(case.layout.replicas) * sequences * f64::from(length);
    let busy = step.bound.compute.0.max(step.bound.communication.0);
    Ok((tokens / busy.max(f64::MIN_POSITIVE), tokens / step.serial.0.max(f64::MIN_POSITIVE)))
}

/// Judges a rate of input and output tokens together: the output tokens among them are judged,
/// with the prefill that they need.
///
/// # Errors
/// As [`tokens::judge`].
pub fn total(
    claim: &Claim,
    part: &Part,
    model: &Model,
    layout: Option<Layout>,
    (per, rate): (Per, f64),
) -> Result<Verdict, String> {
    let Some((input, output)) = claim.isl.zip(claim.osl) else {
        // Whatever their lengths, no token takes less than one of a prompt.
        let mut verdict = judge(claim, part, model, layout, (per, rate))?;
        if verdict.answer != Answer::Impossible {
            verdict.answer = Answer::CannotTell;
            (verdict.of_light, verdict.of_serial) = (None, None);
            verdict.why = "input and output tokens together need the lengths of prompts and \
                           answers"
                .into();
            verdict.missing.push("tokens of prompts and answers: --isl and --osl".into());
        }
        return Ok(verdict);
    };
    let share = f64::from(output) / (f64::from(input) + f64::from(output));
    let mut verdict = tokens::judge(claim, part, model, layout, (per, rate * share))?;
    verdict.arithmetic.insert(
        0,
        format!(
            "{} {per} of input and output x {output} / ({input} + {output}) = {} output \
             {per}",
            fixed(rate, 1),
            fixed(rate * share, 1)
        ),
    );
    Ok(verdict)
}
