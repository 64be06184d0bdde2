//! How near published rates of tokens come to the three tiers: shared by a test and by the example
//! that prints docs/appendix/project-figures.md.

use fizeau::data::Catalogue;
use fizeau_domain::{
    model::{FeedForward, Format, Model, Module},
    spec::Part,
    stats::quantile,
};
use fizeau_projection::{
    claim::{Answer, Claim, ClaimFile, Named, judge},
    project::{
        Hardware, Layout, MediansFile, Phase, Public, Routing, Scenario, Split, Step, Whence, Work,
        point, step, sweep::CONCURRENCY_MAX,
    },
};
use std::fmt::Write as _;

/// The most requests at once of a system that counts as one of low batch.
const LOW_BATCH: u32 = 8;

/// What kind of system a point is of. The kinds come to different shares of the tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A dense model under as many requests as it holds.
    Dense,
    /// A mixture of experts under as many requests as it holds.
    Mixture,
    /// A few requests at once.
    LowBatch,
}

impl Class {
    const ALL: [Class; 3] = [Class::Dense, Class::Mixture, Class::LowBatch];

    fn of(claim: &Claim, model: &Model) -> Class {
        let is_mixture = model
            .layers
            .iter()
            .any(|layers| matches!(layers.feed_forward, Some(FeedForward::Mixture(_))));
        match claim.concurrency {
            Some(..=LOW_BATCH) => Class::LowBatch,
            _ if is_mixture => Class::Mixture,
            _ => Class::Dense,
        }
    }

    fn name(self) -> String {
        match self {
            Class::Dense => "dense, throughput".into(),
            Class::Mixture => "mixture of experts, throughput".into(),
            Class::LowBatch => format!("{LOW_BATCH} requests at once or fewer"),
        }
    }
}

/// A published rate as a share of what each tier allows.
pub struct Tightness {
    /// The point's id.
    pub id: String,
    /// What kind of system it is of.
    pub class: Class,
    /// What was achieved.
    pub value: String,
    /// Of L0, of L1, and of L2 by published rates of the part; none where L2 is not known.
    pub shares: [Option<f64>; 3],
    /// The share of L1's time of decode of which published rates are known.
    pub known: f64,
    /// Whether a condition was not stated, and something taken for it.
    pub is_approximate: bool,
}

/// All rates of tokens of the catalogue that are of a system, not made up by an article.
pub fn all(catalogue: &Catalogue) -> Vec<Tightness> {
    let text = catalogue.claims.get("tokens").expect("rates of tokens");
    let claims = toml::from_str::<ClaimFile>(text).expect("a file of claims").claim;
    let real = claims.iter().filter(|claim| claim.verdict == Some(Answer::Possible));
    let mut all: Vec<_> = real.map(|claim| of(catalogue, claim)).collect();
    all.sort_by_key(|one| one.class);
    all
}

fn of(catalogue: &Catalogue, claim: &Claim) -> Tightness {
    let id = claim.id.clone();
    let part = catalogue.parts.iter().find(|part| Some(&part.id) == claim.on.as_ref());
    let part = part.unwrap_or_else(|| panic!("{id}: no part"));
    let mut model = catalogue.model(claim.model.as_ref().expect("a model")).expect("a model");
    let layout = claim.layout.as_ref().map(|text| text.parse::<Layout>().expect("a layout"));
    let named =
        Named { part: Some(part), model: Some(model.clone()), layout, links: &catalogue.links };
    let verdict = judge(claim, &named).unwrap_or_else(|why| panic!("{id}: {why}"));
    if let Some(text) = &claim.precision {
        model.precision = model.precision.with_linear(text.parse().expect("a format"));
    }
    let (slower, known) = slower(claim, &model, &hardware(catalogue, part), layout);
    let shares =
        [verdict.of_light, verdict.of_serial, verdict.of_serial.zip(slower).map(|(a, b)| a * b)];
    let class = Class::of(claim, &model);
    let note = claim.note.as_deref().unwrap_or_default();
    let is_approximate = note.contains("Approximate");
    Tightness { id, class, value: claim.value.clone(), shares, known, is_approximate }
}

fn hardware(catalogue: &Catalogue, part: &Part) -> Hardware {
    let mut hardware = Hardware::of_part(part).expect("whole");
    if let Some((_, text)) = catalogue.medians(&part.id) {
        let file: MediansFile = toml::from_str(text).expect("a file of rates");
        hardware.public = Some(Public::of(&file, &hardware).expect("rates that can be"));
    }
    hardware
}

/// L2's time over L1's at the load that a claim is judged at, none where L2 is not known; with it
/// the share of L1's time of which published rates are known.
fn slower(
    claim: &Claim,
    model: &Model,
    hardware: &Hardware,
    layout: Option<Layout>,
) -> (Option<f64>, f64) {
    let kv = match &claim.kv {
        Some(text) => text.parse().expect("a format"),
        None if model.precision.of(Module::Attention) == Format::Bf16 => Format::Bf16,
        None => Format::Fp8,
    };
    let even = Layout { replicas: 1, split: Split::Even(claim.gpus.unwrap_or(1)) };
    let layout = layout.unwrap_or(even);
    match (claim.isl, claim.osl) {
        (Some(input), Some(output)) => {
            let scenario = Scenario { input, prefix: 0, output, kv, memory_share: 1.0 };
            let of = |requests| point(model, hardware, layout, &scenario, requests);
            let most = of(1).expect("a point").fit.sequences.expect("it fits");
            let most = u32::try_from(most).unwrap_or(CONCURRENCY_MAX).min(CONCURRENCY_MAX);
            let point = of(claim.concurrency.unwrap_or(most)).expect("a point");
            let slower = point.requests.measured.map(|measured| point.requests.serial / measured);
            (slower, known_share(&point.decode))
        }
        _ => {
            let context = f64::from(claim.context.unwrap_or(0));
            let most = || {
                let memory = (kv, 1.0);
                let fit = fizeau_projection::project::sweep::fit_at;
                let most = fit(model, hardware, layout, context, memory).sequences;
                u32::try_from(most.expect("it fits")).unwrap_or(CONCURRENCY_MAX)
            };
            let work = Work {
                phase: Phase::Decode { context },
                sequences: f64::from(claim.concurrency.unwrap_or_else(most)),
                split: layout.split,
                kv,
                routing: Routing::Chance,
            };
            let step = step(model, hardware, work).expect("a step");
            (step.measured.map(|time| time.0 / step.serial.0), known_share(&step))
        }
    }
}

fn known_share(step: &Step) -> f64 {
    let whence = |one: &Whence| *one == Whence::Published;
    let rows = step.rows.iter();
    let known = rows.filter(|row| row.basis.as_ref().is_some_and(|basis| whence(&basis.whence)));
    // The sum of nothing is -0.
    known.map(|row| row.serial.0).sum::<f64>().max(0.0).abs() / step.serial.0
}

const TIERS: [&str; 3] = ["L0", "L1", "L2"];

/// The quantiles of achieved / tier for some points, and how many points have that tier.
fn quantiles(points: &[&Tightness], tier: usize) -> (usize, [f64; 5]) {
    let mut shares: Vec<_> = points.iter().filter_map(|one| one.shares[tier]).collect();
    shares.sort_by(f64::total_cmp);
    let at = |share: f64| quantile::quantile(&shares, share);
    (shares.len(), [0.0, 0.25, 0.5, 0.75, 1.0].map(at))
}

/// The median of achieved / L2 over all points whose L2 is known.
pub fn median(all: &[Tightness]) -> f64 {
    quantiles(&all.iter().collect::<Vec<_>>(), 2).1[2]
}

/// Quantiles by class, and all points, as tables in Markdown.
pub fn table(all: &[Tightness]) -> String {
    let mut text = String::from(
        "| points | of | count | least | a quarter below | median | three quarters below | most |\n\
         |---|---|--:|--:|--:|--:|--:|--:|\n",
    );
    let whole = (all.iter().collect::<Vec<_>>(), "all".to_owned());
    let of_class = |class: Class| {
        (all.iter().filter(|one| one.class == class).collect::<Vec<_>>(), class.name())
    };
    for (points, name) in [whole].into_iter().chain(Class::ALL.map(of_class)) {
        for (tier, tier_name) in TIERS.iter().enumerate() {
            let (count, shares) = quantiles(&points, tier);
            let shares = shares.map(|share| match count {
                0 => "-".to_owned(),
                _ => format!("{share:.2}"),
            });
            let shares = shares.join(" | ");
            let _ = writeln!(text, "| {name} | {tier_name} | {count} | {shares} |");
        }
    }
    let _ = writeln!(text, "\nThe median of achieved / L2 is {:.2}.", median(all));
    text.push_str(
        "\n| point (id in data/claims) | achieved | of L0 | of L1 | of L2 | decode's L1 with \
         published rates |\n|---|---|--:|--:|--:|--:|\n",
    );
    for Tightness { id, value, shares, known, is_approximate, .. } in all {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let share = |share: Option<f64>| share.map_or("-".to_owned(), percent);
        let [light, serial, measured] = shares.map(share);
        let known = percent(*known);
        let mark = if *is_approximate { " \\*" } else { "" };
        let _ =
            writeln!(text, "| {id}{mark} | {value} | {light} | {serial} | {measured} | {known} |");
    }
    text
}
