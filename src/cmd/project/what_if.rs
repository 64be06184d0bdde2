//! What-ifs of `fizeau project`: each is the projection of the command line with something
//! otherwise.

use crate::{
    cmd::{exit::Usage, models, parts},
    data::Catalogue,
};
use fizeau_domain::{
    model::Model,
    text::counted,
    units::{BytesPerSecond, Watts},
};
use fizeau_projection::project::{
    Alternative, Apart, Demand, DraftCost, Layout, Link, Offer, Serving, Speculation, Speed,
};
use std::collections::BTreeSet;

/// The most what-ifs of a command line.
pub const WHAT_IFS_MAX: usize = 64;

/// What a what-if may say, for the help and for errors.
pub const KEYS: &str = "precision=fp8, precision=experts=mxfp4, kv=fp8, isl=, osl=, \
                        prefix=TOKENS or prefix=50%, concurrency=, layout=2xtp4, on=mi355x, \
                        price=, power=, link=GB/S, accept=TOKENS with draft=TOKENS and \
                        draft-model= or draft-cost=SHARE, prefill=LAYOUT with transfer=GB/S, \
                        cap=WATTS with compute-speed=SHARE and memory-speed=SHARE";

/// Watts between a cap and the limit under which a record was made that count as the same.
const CAP_TOLERANCE: f64 = 1.0;

/// What a what-if starts from.
pub struct Base<'a> {
    /// The demand of the command line.
    pub demand: &'a Demand,
    /// Its first hardware.
    pub offer: &'a Offer,
    /// The catalogue.
    pub catalogue: &'a Catalogue,
    /// Whether published rates stand in where a record lacks a shape.
    pub is_published: bool,
}

/// What is given as several words, put together at the end.
#[derive(Default)]
struct Words<'t> {
    prefix: Option<&'t str>,
    layout: Option<&'t str>,
    accept: Option<f64>,
    draft: Option<u32>,
    draft_model: Option<&'t str>,
    draft_cost: Option<f64>,
    prefill: Option<&'t str>,
    transfer: Option<f64>,
    cap: Option<f64>,
    compute_speed: Option<f64>,
    memory_speed: Option<f64>,
}

fn number<T: std::str::FromStr>(key: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{key}={text}: it is no number that can be"))
}

fn positive(key: &str, text: &str) -> Result<f64, String> {
    fizeau_domain::number::positive(text)
        .map_err(|why| format!("{key}={text}: a number above 0; {why}"))
}

/// Keys that may stand more than once: `precision=experts=mxfp4,precision=attention=fp8`.
const REPEATED: &str = "precision";

/// One what-if, from its words: `precision=fp8,kv=fp8`.
///
/// # Errors
/// Where a word is not understood, or what it asks cannot be.
pub fn alternative(text: &str, base: &Base<'_>) -> anyhow::Result<Alternative> {
    let refuse = |why: String| Usage(format!("--what-if {text:?}: {why}"));
    let mut made = Alternative {
        name: text.into(),
        demand: base.demand.clone(),
        offer: base.offer.clone(),
        accuracy: None,
        notes: Vec::new(),
    };
    let mut words = Words::default();
    let mut seen = BTreeSet::new();
    for part in text.split(',') {
        let (key, value) = part.trim().split_once('=').ok_or_else(|| {
            refuse(format!(
                "{part:?} has no value (a point, not a comma, stands before a fraction); there \
                 are: {KEYS}"
            ))
        })?;
        if !seen.insert(key) && key != REPEATED {
            return Err(refuse(format!("{key}= stands twice")).into());
        }
        if key == "on" {
            let mut hardware = parts::hardware(base.catalogue, value, base.is_published)?;
            made.notes.append(&mut hardware.notes);
            made.offer = Offer { hardware, price: None, power: None, ..made.offer };
            continue;
        }
        word(&mut made, &mut words, key, value).map_err(refuse)?;
    }
    finish(&mut made, &words, base).map_err(refuse)?;
    Ok(made)
}

/// One word of a what-if.
fn word<'t>(
    made: &mut Alternative,
    words: &mut Words<'t>,
    key: &str,
    value: &'t str,
) -> Result<(), String> {
    let Alternative { demand, offer, .. } = made;
    match key {
        "precision" => {
            models::store_as(&mut demand.model, value)?;
            let before = demand.precision.take().map(|before| before + ",");
            demand.precision = Some(before.unwrap_or_default() + value);
        }
        "kv" => demand.scenario.kv = value.parse()?,
        "isl" => demand.scenario.input = number(key, value)?,
        "osl" => demand.scenario.output = number(key, value)?,
        "prefix" => words.prefix = Some(value),
        "concurrency" => demand.concurrency = value.parse::<models::Concurrency>()?.0,
        "layout" => words.layout = Some(value),
        "price" => offer.price = Some(positive(key, value)?),
        "power" => offer.power = Some(positive(key, value)?),
        "link" => {
            let inside = BytesPerSecond(positive(key, value)? * 1e9);
            let basis = format!("{inside} a direction (given)");
            offer.hardware.link = Some(Link { inside, domain: None, outside: None, basis });
        }
        "accept" => words.accept = Some(positive(key, value)?),
        "draft" => words.draft = Some(number(key, value)?),
        "draft-model" => words.draft_model = Some(value),
        "draft-cost" => words.draft_cost = Some(number(key, value)?),
        "prefill" => words.prefill = Some(value),
        "transfer" => words.transfer = Some(positive(key, value)?),
        "cap" => words.cap = Some(positive(key, value)?),
        "compute-speed" => words.compute_speed = Some(positive(key, value)?),
        "memory-speed" => words.memory_speed = Some(positive(key, value)?),
        other => return Err(format!("{other:?} is not understood; there are: {KEYS}")),
    }
    Ok(())
}

fn finish(made: &mut Alternative, words: &Words<'_>, base: &Base<'_>) -> Result<(), String> {
    let Alternative { demand, offer, notes, .. } = made;
    if let Some(prefix) = words.prefix {
        demand.scenario.prefix = match prefix.strip_suffix('%') {
            None => number("prefix", prefix)?,
            Some(percent) => {
                let share = number::<f64>("prefix", percent)? / 100.0;
                if !(0.0..1.0).contains(&share) {
                    return Err(format!("prefix={prefix}: from 0 % to below 100 % of the prompt"));
                }
                (f64::from(demand.scenario.input) * share).floor() as u32
            }
        };
    }
    if let Some(layout) = words.layout {
        offer.layouts = vec![layout.parse()?];
    }
    demand.serving = serving(words, &demand.serving, &demand.model, base, notes)?;
    demand.scenario.check(&demand.model)?;
    for layout in &offer.layouts {
        layout.check(&demand.model)?;
    }
    cap(words, offer, notes)
}

/// Speculative decoding, and prefill on devices of its own.
fn serving(
    words: &Words<'_>,
    before: &Serving,
    model: &Model,
    base: &Base<'_>,
    notes: &mut Vec<String>,
) -> Result<Serving, String> {
    let mut serving = before.clone();
    match (words.accept, words.draft) {
        (Some(accepted), Some(drafted)) => {
            let cost = match (words.draft_model, words.draft_cost) {
                (Some(_), Some(_)) => {
                    return Err("draft-model and draft-cost exclude each other".into());
                }
                (Some(name), None) => {
                    let draft = base.catalogue.model(name).map_err(|error| error.to_string())?;
                    DraftCost::Model(Box::new(draft))
                }
                (None, Some(share)) => DraftCost::Share(share),
                (None, None) => DraftCost::Nothing,
            };
            let speculation = Speculation { accepted, drafted, cost };
            speculation.check()?;
            notes.push(speculation.describe());
            serving.speculation = Some(speculation);
        }
        (None, None) if words.draft_model.is_none() && words.draft_cost.is_none() => {}
        _ => {
            return Err(
                "speculative decoding needs accept= (tokens gained in a step, which depend \
                        on model, draft and text: measure them) and draft= (tokens drafted)"
                    .into(),
            );
        }
    }
    match (words.prefill, words.transfer) {
        (Some(text), rate) => {
            let layout: Layout = text.parse()?;
            layout.check(model)?;
            let rate = rate.map(|rate| BytesPerSecond(rate * 1e9));
            let whence = match rate {
                Some(rate) => format!("{rate} from each device (given)"),
                None => "the part's network, or its links where none is known".into(),
            };
            notes.push(format!(
                "prefill on {} of its own ({layout}), all counted in rates of a device; \
                 keys and values move over {whence}",
                counted(layout.devices() as usize, "device")
            ));
            serving.apart = Some(Apart { layout, rate });
        }
        (None, Some(_)) => return Err("transfer= needs prefill=LAYOUT".into()),
        (None, None) => {}
    }
    Ok(serving)
}

/// A power cap: only with a speed that was measured under it.
fn cap(words: &Words<'_>, offer: &mut Offer, notes: &mut Vec<String>) -> Result<(), String> {
    let Words { cap, compute_speed, memory_speed, .. } = *words;
    let Some(cap) = cap else {
        return match compute_speed.or(memory_speed) {
            Some(_) => Err("compute-speed= and memory-speed= need cap=WATTS".into()),
            None => Ok(()),
        };
    };
    for (key, share) in [("compute-speed", compute_speed), ("memory-speed", memory_speed)] {
        if share.is_some_and(|share| share > 1.0) {
            return Err(format!("{key}: a share of the speed without the cap, 1 at most"));
        }
    }
    match (compute_speed, memory_speed, offer.hardware.power_limit) {
        (Some(compute), Some(memory), _) => {
            offer.hardware.speed = Speed { memory, compute };
            notes.push(format!(
                "under {cap} W arithmetic at {:.1} % and memory at {:.1} % of the speed without a \
                 cap (given); L0 is that of the part without it",
                compute * 100.0,
                memory * 100.0
            ));
        }
        (None, None, Some(Watts(limit))) if (limit - cap).abs() <= CAP_TOLERANCE => {
            notes.push(format!("the record was made under a power limit of {limit} W"));
        }
        (_, _, limit) => {
            let of_record = match limit {
                Some(Watts(limit)) => format!(" (this record's limit was {limit} W)"),
                None => String::new(),
            };
            return Err(format!(
                "cap={cap}: its speed was not measured. Give compute-speed= and memory-speed=, \
                 shares of the speed without the cap that you measured, or on=RECORD of a run \
                 under this cap{of_record}"
            ));
        }
    }
    offer.power = Some(cap);
    Ok(())
}

/// A what-if for each precision whose answers the user has rated: `bf16=72.1,fp8=71.8`;
/// `published` is the model as it is published.
///
/// # Errors
/// Where a figure cannot be read.
pub fn qualities(text: &str, base: &Base<'_>, model: &str) -> anyhow::Result<Vec<Alternative>> {
    let refuse = |why: String| Usage(format!("--accuracy {text:?}: {why}"));
    let mut list = Vec::new();
    for part in text.split(',') {
        let (precision, figure) = part.trim().split_once('=').ok_or_else(|| {
            refuse(format!(
                "{part:?}: write bf16=72.1,fp8=71.8 (published: as it is published), with a point \
                 before a fraction"
            ))
        })?;
        let figure: f64 = number(precision, figure).map_err(refuse)?;
        if !figure.is_finite() {
            return Err(refuse(format!("{part:?}: a number")).into());
        }
        let name = format!("precision={precision}");
        if list.iter().any(|one: &Alternative| one.name == name) {
            return Err(refuse(format!("{precision} stands twice")).into());
        }
        let mut demand = base.demand.clone();
        let published = base.catalogue.model(model).map_err(|error| refuse(error.to_string()))?;
        demand.model = published;
        demand.precision = None;
        if precision != "published" {
            models::store_as(&mut demand.model, precision).map_err(refuse)?;
            demand.precision = Some(precision.into());
        }
        list.push(Alternative {
            name,
            demand,
            offer: base.offer.clone(),
            accuracy: Some(figure),
            notes: Vec::new(),
        });
    }
    Ok(list)
}
