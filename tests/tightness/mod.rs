//! How near published rates of tokens come to the three tiers: shared by a test and by the example
//! that prints docs/appendix/project-figures.md.

use fizeau::data::Catalogue;
use fizeau_domain::model::{Format, Module};
use fizeau_projection::{
    claim::{Claim, ClaimFile, Named, judge},
    project::{
        Hardware, Layout, MediansFile, Phase, Public, Routing, Scenario, Split, Work, point, step,
    },
};
use std::fmt::Write as _;

/// The published points, by their ids in data/claims.
const POINTS: [&str; 7] = [
    "gpt-fast-llama-2-7b",
    "gpt-fast-llama-2-70b-2",
    "gpt-fast-llama-2-70b-4",
    "gpt-fast-llama-2-70b-8",
    "vllm-llama-3.1-8b-h200",
    "llama-3.3-70b-fp8-2-h200",
    "deepseek-v3-h800-ep128",
];

/// A published rate as a share of what each tier allows.
pub struct Tightness {
    /// The point's id.
    pub id: &'static str,
    /// What was achieved.
    pub value: String,
    /// Of L0, of L1, and of L2 by published rates of the part.
    pub shares: [f64; 3],
    /// The share of L1's time whose L2 is not L1's: published rates are known for it.
    pub known: f64,
}

/// All points.
pub fn all(catalogue: &Catalogue) -> Vec<Tightness> {
    let parse = |text: &String| toml::from_str::<ClaimFile>(text).expect("a file of claims").claim;
    let claims: Vec<Claim> = catalogue.claims.values().flat_map(parse).collect();
    POINTS.map(|id| of(catalogue, id, claims.iter().find(|claim| claim.id == id))).into()
}

fn of(catalogue: &Catalogue, id: &'static str, claim: Option<&Claim>) -> Tightness {
    let claim = claim.unwrap_or_else(|| panic!("{id} is no claim of the catalogue"));
    let part = catalogue.parts.iter().find(|part| Some(&part.id) == claim.on.as_ref());
    let part = part.expect("a part");
    let mut model = catalogue.model(claim.model.as_ref().expect("a model")).expect("a model");
    let layout = claim.layout.as_ref().map(|text| text.parse::<Layout>().expect("a layout"));
    let named = Named { part: Some(part), model: Some(model.clone()), layout };
    let verdict = judge(claim, &named).expect("judged");
    let shares = [verdict.of_light, verdict.of_serial].map(|share| share.expect("a share"));

    let precision: Format = claim.precision.as_ref().expect("a format").parse().expect("a format");
    model.precision = model.precision.with_linear(precision);
    let kv = match &claim.kv {
        Some(text) => text.parse().expect("a format"),
        None if model.precision.of(Module::Attention) == Format::Bf16 => Format::Bf16,
        None => Format::Fp8,
    };
    let mut hardware = Hardware::of_part(part).expect("whole");
    let (_, text) = catalogue.medians(&part.id).expect("published rates");
    let file: MediansFile = toml::from_str(text).expect("a file of rates");
    hardware.public = Some(Public::of(&file, &hardware).expect("rates that can be"));
    let even = Layout { replicas: 1, split: Split::Even(claim.gpus.unwrap_or(1)) };
    let layout = layout.unwrap_or(even);
    // L2's time over L1's, at the load that the claim is judged at.
    let (slower, known) = match (claim.isl, claim.osl) {
        (Some(input), Some(output)) => {
            let scenario = Scenario { input, prefix: 0, output, kv, memory_share: 1.0 };
            let of = |requests| point(&model, &hardware, layout, &scenario, requests);
            let most = of(1).expect("a point").fit.sequences.expect("it fits");
            let point = of(most as u32).expect("a point");
            let slower = point.requests.serial / point.requests.measured.expect("L2");
            (slower, known_share(&point.decode))
        }
        _ => {
            let context = f64::from(claim.context.unwrap_or(0));
            let work = Work {
                phase: Phase::Decode { context },
                sequences: f64::from(claim.concurrency.expect("requests at once")),
                split: layout.split,
                kv,
                routing: Routing::Chance,
            };
            let step = step(&model, &hardware, work).expect("a step");
            (step.measured.expect("L2").0 / step.serial.0, known_share(&step))
        }
    };
    let [light, serial] = shares;
    let shares = [light, serial, serial * slower];
    Tightness { id, value: claim.value.clone(), shares, known }
}

fn known_share(step: &fizeau_projection::project::Step) -> f64 {
    let is_known = |row: &&fizeau_projection::project::Row| {
        let basis = row.basis.as_ref();
        basis.is_some_and(|basis| basis.whence == fizeau_projection::project::Whence::Published)
    };
    let known: f64 = step.rows.iter().filter(is_known).map(|row| row.serial.0).sum();
    known / step.serial.0
}

/// The median of the shares of L2.
pub fn median(all: &[Tightness]) -> f64 {
    let mut shares: Vec<_> = all.iter().map(|one| one.shares[2]).collect();
    shares.sort_by(f64::total_cmp);
    shares[shares.len() / 2]
}

/// As a table in Markdown.
pub fn table(all: &[Tightness]) -> String {
    let mut text = String::from(
        "| point (id in data/claims) | achieved | of L0 | of L1 | of L2 | L1 with published rates \
         |\n\
         |---|---|--:|--:|--:|--:|\n",
    );
    for Tightness { id, value, shares, known } in all {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let [light, serial, measured] = shares.map(percent);
        let known = percent(*known);
        let _ = writeln!(text, "| {id} | {value} | {light} | {serial} | {measured} | {known} |");
    }
    let _ = writeln!(text, "\nThe median of achieved / L2 is {:.2}.", median(all));
    text
}
