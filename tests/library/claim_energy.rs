//! Claims about the energy of a token: read in every wording, and judged by the power limit and L0.

use super::{claim_laws::random, claims::judged};
use fizeau::data::Catalogue;
use fizeau_domain::{model::Format, spec::Part, units::Watts};
use fizeau_projection::{
    claim::{Answer, Claim, ClaimFile, Per, Reading, Statement},
    project::{Hardware, Layout, Scenario, Serving, served},
};

fn catalogue() -> Catalogue {
    Catalogue::load(None).expect("the embedded catalogue")
}

fn part_of<'c>(catalogue: &'c Catalogue, id: &str) -> &'c Part {
    catalogue.parts.iter().find(|part| part.id == id).expect("a part")
}

/// Watts that a device of a part takes at most.
fn limit(part: &Part) -> f64 {
    let Watts(limit) = part.power.expect("a power limit");
    limit
}

/// How impressive a verdict lets a claim be.
fn doubt(answer: Answer) -> u32 {
    match answer {
        Answer::Possible => 0,
        Answer::CannotTell | Answer::Suspicious => 1,
        Answer::Impossible => 2,
    }
}

/// An energy just below what a tenth of the power limit needs at L0 of `project` is impossible, one
/// just above is not, and one that a fifth of the limit reaches at L1 is possible.
#[test]
fn energy_is_judged_by_the_power_limit_and_l0_of_project() {
    let catalogue = catalogue();
    let mut state = 11;
    let mut asked = 0;
    while asked < 100 {
        let mut one_of = |all: &[&'static str]| all[random(&mut state, all.len())];
        let on = one_of(&["h100-sxm", "h200-sxm", "gb300", "mi300x", "a100-sxm4-80", "l40s"]);
        let name = one_of(&["llama-3.1-8b", "llama-3.1-70b", "gpt-oss-120b", "deepseek-v3"]);
        let precision = one_of(&["bf16", "fp8", "int4-g128"]);
        let layout_name = one_of(&["tp1", "tp4", "tp8", "2xtp4"]);
        let concurrency = [1, 4, 32, 256, 2048][random(&mut state, 5)];
        let part = part_of(&catalogue, on);
        let mut model = catalogue.model(name).expect("a model");
        model.precision = model.precision.stored_as(precision).expect("formats");
        let layout: Layout = layout_name.parse().expect("a layout");
        let hardware = Hardware::of_part(part).expect("whole");
        let kv = Format::Fp8;
        let scenario = Scenario { input: 700, prefix: 0, output: 600, kv, memory_share: 1.0 };
        let serving = Serving { speculation: None, apart: None };
        let Ok(point) = served(&model, &hardware, layout, (&scenario, &serving), concurrency)
        else {
            continue;
        };
        if !point.fits() {
            continue;
        }
        let watts = limit(part) * f64::from(layout.devices());
        let rate = |requests: f64| requests * f64::from(scenario.output);
        let said = |joules: f64| {
            let claim = Claim {
                value: format!("{joules:.9} J per output token"),
                on: Some(on.into()),
                model: Some(name.into()),
                precision: Some(precision.into()),
                kv: Some("fp8".into()),
                concurrency: Some(concurrency),
                isl: Some(700),
                osl: Some(600),
                layout: Some(layout_name.into()),
                acceptance: Some(1.0),
                ..Claim::default()
            };
            let verdict = judged(&catalogue, &claim).expect("judged");
            (verdict.answer, format!("{claim:?}\n{verdict:#?}"))
        };
        let least = 0.1 * watts / rate(point.requests.light);
        let (below, text) = said(0.998 * least);
        assert_eq!(below, Answer::Impossible, "{text}");
        let (above, text) = said(1.002 * least);
        assert_ne!(above, Answer::Impossible, "{text}");
        let (usual, text) = said(0.201 * watts / rate(point.requests.serial));
        let is_at_the_edge = point.requests.serial > 0.89 * point.requests.light;
        assert!(usual == Answer::Possible || is_at_the_edge, "{text}");
        let (wasteful, text) = said(1e4 * least);
        assert_eq!(wasteful, Answer::Possible, "{text}");
        asked += 1;
    }
}

/// The same energy has one verdict, however it is written, and less energy never a milder one.
#[test]
fn a_wording_changes_no_verdict_and_less_energy_is_doubted_more() {
    let catalogue = catalogue();
    let mut seen = [0; 3];
    for (on, model, gpus) in
        [("h200-sxm", "llama-3.1-70b", 8), ("gb300", "deepseek-v3", 8), ("l4", "llama-3.1-8b", 1)]
    {
        for isl in [None, Some(1024)] {
            let mut before = 2;
            for joules in [1e-7, 1e-4, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 10.0, 1e3] {
                let texts = [
                    format!("{joules} J per token"),
                    format!("~{:.9}J/token", joules * 0.95),
                    format!("energy per token: {:.9} mJ", joules * 1e3),
                    format!("{:.9} tokens per joule", 1.0 / joules),
                    format!("{:.9} tok/s/W", 1.0 / joules),
                    format!("{:.9} million tokens per second per MW", 1.0 / joules),
                    format!("{:.12} kWh per million tokens", joules / 3.6),
                    format!("{:.12} Wh per 1,000 tokens", joules / 3.6),
                ];
                let answer = |value: &String| {
                    let claim = Claim {
                        value: value.clone(),
                        on: Some(on.into()),
                        model: Some(model.into()),
                        gpus: Some(gpus),
                        isl,
                        osl: isl.map(|_| 256),
                        ..Claim::default()
                    };
                    let verdict = judged(&catalogue, &claim);
                    verdict.unwrap_or_else(|why| panic!("{value}: {why}")).answer
                };
                let all: Vec<Answer> = texts.iter().map(answer).collect();
                assert!(all.iter().all(|one| *one == all[0]), "{on} {joules}: {all:?}");
                let now = doubt(all[0]);
                assert!(now <= before, "{on} {joules} J: {all:?}");
                seen[now as usize] += 1;
                before = now;
            }
        }
    }
    assert!(seen.iter().all(|count| *count >= 6), "{seen:?}");
}

/// Rates that were published need no energy that is impossible, whatever the devices took: from an
/// eighth of their power limit to all of it.
#[test]
fn no_published_rate_needs_an_impossible_energy() {
    let catalogue = catalogue();
    let parse = |text: &String| toml::from_str::<ClaimFile>(text).expect("a file of claims").claim;
    let all = catalogue.claims.values().flat_map(parse);
    let mut asked = 0;
    for claim in all.filter(|one| one.verdict == Some(Answer::Possible)) {
        let Some(on) = &claim.on else { continue };
        let part = part_of(&catalogue, on);
        let Ok(Reading { statement, devices, counted, .. }) = Reading::of(&claim.value, &[on])
        else {
            continue;
        };
        let count = f64::from(devices.or(claim.gpus).unwrap_or(1));
        let each = match statement {
            Statement::Tokens { per: Per::Device, rate, .. } => rate,
            Statement::Tokens { per: Per::System, rate, .. } => rate / count,
            _ => continue,
        };
        let counted = counted.map(|one| format!("{one:?}").to_lowercase()).unwrap_or_default();
        for share in [0.125, 0.3, 0.6, 1.0] {
            let joules = share * limit(part) / each;
            let value = format!("{joules:.9} J per {counted} token");
            let other = Claim { value, gpus: devices.or(claim.gpus), ..claim.clone() };
            let verdict = judged(&catalogue, &other).expect("judged");
            assert_ne!(verdict.answer, Answer::Impossible, "{other:?}\n{verdict:#?}");
            asked += 1;
        }
    }
    assert!(asked > 100, "{asked}");
}

/// By hand: 70 W of an H100 are a tenth of its 700 W. Arithmetic of fp8 allows 1,979 x 10^12 /
/// (2 x 69.5 x 10^9) = 14,240 tokens a second, which is 0.0049 J each.
#[test]
fn an_energy_worked_out_by_hand_gets_its_verdict() {
    let catalogue = catalogue();
    let of = |value: &str| {
        let claim = Claim {
            value: value.into(),
            on: Some("h100-sxm".into()),
            model: Some("llama-3.1-70b".into()),
            precision: Some("fp8".into()),
            ..Claim::default()
        };
        judged(&catalogue, &claim).expect("judged")
    };
    let below = of("0.0045 J per output token");
    assert_eq!(below.answer, Answer::Impossible, "{below:#?}");
    assert!(below.arithmetic[0].contains("10 % of its power limit"), "{below:#?}");
    assert_eq!(of("0.0052 J per output token").answer, Answer::CannotTell);
    assert_eq!(of("0.4 J per token").answer, Answer::CannotTell);
}
