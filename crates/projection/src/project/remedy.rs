//! What would make a load fit that does not: options of the command line.

use super::{
    layout::{DEVICES_MAX, Layout, Split},
    plan::{Demand, Offer},
    serving::Speculation,
    sweep::fit_with,
};
use fizeau_domain::model::{Format, Model};

/// Precisions that are looked at, those that lose least first.
const PRECISIONS: [Format; 2] = [Format::Fp8, Format::Int4 { group: 128 }];

/// Options of `fizeau project`, each of which alone makes the least number of requests that was
/// asked for fit on a hardware: fewer requests, more devices, weights or caches in fewer bytes.
/// Empty where it fits as it is, and where none of these is enough.
pub fn remedies(demand: &Demand, offer: &Offer) -> Vec<String> {
    let asked = demand.concurrency.iter().copied().min().unwrap_or(1);
    let room = |demand: &Demand, layout: Layout| room(demand, offer, layout);
    let best = |demand: &Demand| offer.layouts.iter().map(|layout| room(demand, *layout)).max();
    let most = best(demand).unwrap_or(0);
    let fits = |sequences: u64| sequences >= u64::from(asked);
    if fits(most) {
        return Vec::new();
    }
    let mut options = Vec::new();
    if most > 0 {
        options.push(format!("--concurrency {most}"));
    }
    let wider = wider(&demand.model, offer).find(|layout| fits(room(demand, *layout)));
    options.extend(wider.map(|layout| format!("--layout {layout}")));
    let stored = PRECISIONS.into_iter().find(|format| {
        let mut demand = demand.clone();
        demand.model.precision = demand.model.precision.with_linear(*format);
        offer.hardware.arithmetic(*format).is_some() && best(&demand).is_some_and(fits)
    });
    options.extend(stored.map(|format| format!("--precision {format}")));
    let mut narrow = demand.clone();
    narrow.scenario.kv = Format::Fp8;
    if best(&narrow).is_some_and(fits) {
        options.push(format!("--kv {}", Format::Fp8));
    }
    options
}

/// Sequences that fit at once.
fn room(demand: &Demand, offer: &Offer, layout: Layout) -> u64 {
    let draft = demand.serving.speculation.as_ref().and_then(Speculation::draft);
    let fit = fit_with(&demand.model, draft, &offer.hardware, layout, &demand.scenario);
    fit.sequences.unwrap_or(0)
}

/// Layouts over more devices than any that was asked for, the fewest first: of the kind that was
/// asked for first, then pipelines of tensor parallelism over 8.
fn wider<'a>(model: &'a Model, offer: &'a Offer) -> impl Iterator<Item = Layout> + 'a {
    let most = offer.layouts.iter().map(Layout::devices).max().unwrap_or(1);
    let is_expert =
        offer.layouts.first().is_some_and(|layout| matches!(layout.split, Split::Expert(_)));
    let powers = || (0..=DEVICES_MAX.ilog2()).map(|power| 1u32 << power);
    let same = powers().map(move |n| if is_expert { Split::Expert(n) } else { Split::Tensor(n) });
    let tensor = 8;
    let stages = powers().skip(1).map(move |stages| Split::Pipeline { tensor, stages });
    let layouts = same.chain(stages).map(|split| Layout { replicas: 1, split });
    let can_send = offer.hardware.link.is_some();
    layouts.filter(move |layout| {
        let devices = layout.devices();
        can_send && devices > most && devices <= DEVICES_MAX && layout.check(model).is_ok()
    })
}
