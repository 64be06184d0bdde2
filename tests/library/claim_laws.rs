//! What must hold of every claim, whichever part, model and figure it is about.

use super::claims::judged;
use fizeau::data::Catalogue;
use fizeau_domain::{
    dtype::Dtype,
    model::Format,
    spec::{Figure, Of, Part},
};
use fizeau_projection::{
    claim::{Answer, Claim, Verdict},
    project::{DraftCost, Hardware, Layout, Scenario, Serving, Speculation, served},
};

fn catalogue() -> Catalogue {
    Catalogue::load(None).expect("the embedded catalogue")
}

fn of_part(catalogue: &Catalogue, part: &Part, value: String) -> (String, Verdict) {
    let claim = Claim { value, on: Some(part.id.clone()), ..Claim::default() };
    let verdict = judged(catalogue, &claim)
        .unwrap_or_else(|why| panic!("{:?} on {}: {why}", claim.value, part.id));
    (format!("{:?} on {}: {verdict:#?}", claim.value, part.id), verdict)
}

/// A number with a few significant digits, as people write it.
fn rounded(value: f64, digits: i32) -> String {
    let power = value.log10().floor() as i32 - digits + 1;
    let unit = 10f64.powi(power);
    let decimals = usize::try_from(-power).unwrap_or(0);
    format!("{:.decimals$}", (value / unit).round() * unit)
}

fn said(figure: &Figure, digits: Option<i32>) -> String {
    let number = |value: f64| digits.map_or(value.to_string(), |digits| rounded(value, digits));
    match figure.of {
        Of::Memory | Of::Cache => format!("{} GB/s", number(figure.rate / 1e9)),
        Of::Arithmetic(dtype) => format!("{} TFLOP/s {dtype}", number(figure.rate / 1e12)),
    }
}

#[test]
fn every_number_of_a_parts_file_is_true_and_so_is_its_rounding() {
    let catalogue = catalogue();
    let mut asked = 0;
    for part in &catalogue.parts {
        for figure in &part.figures {
            for digits in [None, Some(4), Some(3), Some(2)] {
                let (text, verdict) = of_part(&catalogue, part, said(figure, digits));
                assert_eq!(verdict.answer, Answer::Possible, "{}: {text}", figure.field);
                assert!(verdict.why.starts_with("true, as "), "{}: {text}", figure.field);
                asked += 1;
            }
        }
    }
    assert!(asked > 2500, "{asked}");
}

/// 4.3 times is beyond sparsity, and beyond every clock above the stated one.
#[test]
fn a_number_that_no_vendor_confirms_refutes_nothing() {
    let catalogue = catalogue();
    let mut asked = 0;
    for part in &catalogue.parts {
        for figure in part.figures.iter().filter(|figure| !figure.is_confirmed) {
            let all = part.figures.iter().filter(|other| other.of == figure.of);
            let all: Vec<&Figure> = all.filter(|other| !other.is_sparse).collect();
            let most = all.iter().max_by(|a, b| a.rate.total_cmp(&b.rate)).expect("itself");
            // A main number that is confirmed refutes what is above all others.
            let is_known = all.iter().any(|other| other.is_main && other.is_confirmed);
            if most.is_confirmed || is_known || figure.is_sparse {
                continue;
            }
            let above = Figure { rate: most.rate * 4.3, ..figure.clone() };
            let (text, verdict) = of_part(&catalogue, part, said(&above, None));
            assert_ne!(verdict.answer, Answer::Impossible, "{text}");
            assert_ne!(verdict.answer, Answer::Possible, "{text}");
            asked += 1;
        }
    }
    assert!(asked > 10, "{asked}");
}

/// Sparsity is named on parts whose files or architectures have it, and on no other.
#[test]
fn a_reason_is_the_parts_own() {
    let catalogue = catalogue();
    for part in &catalogue.parts {
        let is_sparse = |figure: &&Figure| figure.is_sparse;
        let has = part.has_sparsity;
        for figure in part.figures.iter().filter(|figure| !is_sparse(figure)) {
            for factor in [0.5, 0.9, 1.2, 2.0, 2.6, 5.0] {
                let other = Figure { rate: figure.rate * factor, ..figure.clone() };
                let (text, _) = of_part(&catalogue, part, said(&other, None));
                assert!(has || !text.contains("spars"), "{text}");
            }
        }
    }
}

/// No condition that is left out may turn "impossible" into "possible" when it is stated.
#[test]
fn a_condition_that_is_not_stated_makes_nothing_impossible() {
    let catalogue = catalogue();
    let conditions =
        ["dense", "with sparsity", "tensor core", "vector", "with fp16 accumulate", "on 1 GPU"];
    let (mut impossible, mut stated) = (0, 0);
    for part in &catalogue.parts {
        for figure in part.figures.iter().filter(|f| matches!(f.of, Of::Arithmetic(_))) {
            for factor in [0.7, 1.02, 1.3, 1.7, 2.1, 3.3, 4.1] {
                let other = Figure { rate: figure.rate * factor, ..figure.clone() };
                let bare = said(&other, Some(4));
                let (text, verdict) = of_part(&catalogue, part, bare.clone());
                if verdict.answer != Answer::Impossible {
                    continue;
                }
                impossible += 1;
                for condition in conditions {
                    let (with, verdict) = of_part(&catalogue, part, format!("{bare} {condition}"));
                    assert_ne!(verdict.answer, Answer::Possible, "{text}\n{with}");
                    stated += 1;
                }
            }
        }
    }
    assert!(impossible > 200 && stated > 1000, "{impossible} {stated}");
}

/// How much is said against a claim: nothing where it cannot be told.
fn hardness(answer: Answer) -> u32 {
    match answer {
        Answer::Possible | Answer::CannotTell => 0,
        Answer::Suspicious => 1,
        Answer::Impossible => 2,
    }
}

/// What is not stated is never judged harder than what is stated in its favour: each condition of
/// arithmetic, of memory and of links, whichever of them helps most.
#[test]
fn what_is_not_stated_is_judged_no_harder_than_what_is_stated_in_its_favour() {
    let catalogue = catalogue();
    let of_arithmetic = ["with sparsity", "with fp16 accumulate", "dense", "measured"];
    let of_memory = ["of cache", "of memory", "measured", "on 1 GPU"];
    let of_links = ["bidirectional", "one way", "measured", "per GPU"];
    let mut asked = 0;
    for part in &catalogue.parts {
        let figures = part.figures.iter().map(|figure| (figure.clone(), figure.of));
        let mut bare = Vec::new();
        for (figure, of) in figures {
            for factor in [0.7, 1.02, 1.3, 2.0, 3.3] {
                let other = Figure { rate: figure.rate * factor, ..figure.clone() };
                let conditions = match of {
                    Of::Arithmetic(_) => of_arithmetic,
                    Of::Memory | Of::Cache => of_memory,
                };
                bare.push((said(&other, Some(4)), conditions));
            }
        }
        for wire in &part.wires {
            for factor in [0.7, 1.02, 1.7, 2.3] {
                let name = wire.name.split([',', '/', '(']).next().unwrap_or_default();
                let name = if wire.name.starts_with("network") { "network" } else { name };
                bare.push((format!("{:.1} GB/s {name}", wire.each_way * factor / 1e9), of_links));
            }
        }
        for (text, conditions) in bare {
            let (without, verdict) = of_part(&catalogue, part, text.clone());
            let has_cache = part.figures.iter().any(|figure| figure.of == Of::Cache);
            let is_of_use = |one: &&str| has_cache || *one != "of cache";
            for condition in conditions.into_iter().filter(is_of_use) {
                let (with, favoured) = of_part(&catalogue, part, format!("{text} {condition}"));
                let is_harder = hardness(verdict.answer) > hardness(favoured.answer);
                assert!(!is_harder, "{without}\n{with}");
                asked += 1;
            }
        }
    }
    assert!(asked > 10_000, "{asked}");
}

/// The same of tokens: precision, keys and values, speculative decoding, which tokens.
#[test]
fn a_condition_of_tokens_that_is_not_stated_makes_nothing_impossible() {
    let catalogue = catalogue();
    type Change = (&'static str, fn(&mut Claim));
    let changes: [Change; 6] = [
        ("fp8", |claim| claim.precision = Some("fp8".into())),
        ("int4", |claim| claim.precision = Some("int4-g128".into())),
        ("kv", |claim| claim.kv = Some("nvfp4".into())),
        ("accepted", |claim| claim.acceptance = Some(5.0)),
        ("total", |claim| claim.value = claim.value.replace("tok", "total tok")),
        ("input", |claim| claim.value = claim.value.replace("tok", "input tok")),
    ];
    let mut impossible = 0;
    for (on, model, gpus) in
        [("h200-sxm", "llama-3.1-70b", 8), ("gb300", "deepseek-v3", 8), ("l4", "llama-3.1-8b", 1)]
    {
        for unit in ["tok/s/user", "tok/s/GPU", "tok/s"] {
            for rate in [1e2, 1e3, 1e4, 1e5, 1e6, 1e7] {
                let claim = Claim {
                    value: format!("{rate} {unit}"),
                    on: Some(on.into()),
                    model: Some(model.into()),
                    gpus: Some(gpus),
                    isl: Some(1024),
                    osl: Some(256),
                    ..Claim::default()
                };
                let verdict = judged(&catalogue, &claim).expect("judged");
                if verdict.answer != Answer::Impossible {
                    continue;
                }
                impossible += 1;
                for (name, change) in &changes {
                    let mut stated = claim.clone();
                    change(&mut stated);
                    let Ok(other) = judged(&catalogue, &stated) else { continue };
                    assert_eq!(other.answer, Answer::Impossible, "{name}: {claim:?}\n{other:#?}");
                }
            }
        }
    }
    assert!(impossible > 12, "{impossible}");
}

/// A random number from 0 to below `most`, by splitmix64.
pub fn random(state: &mut u64, most: usize) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) % most as u64) as usize
}

/// A claim just above project's L0 of the same speculation is impossible, and one below it is not:
/// accepted drafts save reads, and never arithmetic.
#[test]
fn no_claim_is_possible_above_the_limit_of_project() {
    let catalogue = catalogue();
    let mut state = 7;
    let mut asked = 0;
    while asked < 150 {
        let mut one_of = |all: &[&'static str]| all[random(&mut state, all.len())];
        let on = one_of(&["h100-sxm", "h200-sxm", "gb300", "mi300x", "a100-sxm4-80", "l40s"]);
        let name = one_of(&["llama-3.1-8b", "llama-3.1-70b", "gpt-oss-120b", "deepseek-v3"]);
        let precision = one_of(&["bf16", "fp8", "int4-g128", "experts=fp8,attention=bf16"]);
        let layout_name = one_of(&["tp1", "tp4", "tp8", "2xtp4"]);
        let unit = one_of(&["tok/s/user", "output tok/s/GPU", "output tok/s"]);
        let concurrency = [1, 4, 32, 256, 2048][random(&mut state, 5)];
        let accepted = [1.0, 1.5, 2.0, 3.5, 4.0, 8.0][random(&mut state, 6)];
        let has_prompts = random(&mut state, 2) == 0;
        let part = catalogue.parts.iter().find(|part| part.id == on).expect("a part");
        let mut model = catalogue.model(name).expect("a model");
        model.precision = model.precision.stored_as(precision).expect("formats");
        let layout: Layout = layout_name.parse().expect("a layout");
        let hardware = Hardware::of_part(part).expect("whole");
        let kv = Format::Fp8;
        let scenario = Scenario { input: 700, prefix: 0, output: 600, kv, memory_share: 1.0 };
        let drafted = f64::ceil(accepted) as u32 - 1;
        let speculation = Speculation { accepted, drafted, cost: DraftCost::Nothing };
        let speculation = (drafted > 0).then_some(speculation);
        let serving = Serving { speculation, apart: None };
        let asked_of = (&scenario, &serving);
        let Ok(point) = served(&model, &hardware, layout, asked_of, concurrency) else { continue };
        if !point.fits() {
            continue;
        }
        let all = match has_prompts && unit != "tok/s/user" {
            true => point.requests.light * f64::from(scenario.output),
            false => f64::from(concurrency) / point.token.light,
        };
        let most = match unit {
            "tok/s/user" => 1.0 / point.token.light,
            "output tok/s/GPU" => all / f64::from(layout.devices()),
            _ => all,
        };
        let claim = |share: f64| Claim {
            value: format!("{:.6} {unit}", most * share),
            on: Some(on.into()),
            model: Some(name.into()),
            precision: Some(precision.into()),
            kv: Some("fp8".into()),
            concurrency: Some(concurrency),
            isl: has_prompts.then_some(700),
            osl: has_prompts.then_some(600),
            context: (!has_prompts).then_some(1000),
            layout: Some(layout_name.into()),
            acceptance: Some(accepted),
            ..Claim::default()
        };
        let above = judged(&catalogue, &claim(1.001)).expect("judged");
        assert_eq!(above.answer, Answer::Impossible, "{:?}: {above:#?}", claim(1.001));
        let below = judged(&catalogue, &claim(0.999)).expect("judged");
        assert_ne!(below.answer, Answer::Impossible, "{:?}: {below:#?}", claim(0.999));
        asked += 1;
    }
}

/// What is not said of a package with two dies may be of either.
#[test]
fn a_package_and_its_die_are_told_apart() {
    let catalogue = catalogue();
    let part = catalogue.parts.iter().find(|part| part.id == "mi250x").expect("a part");
    let field = |rate: f64| {
        let of = Of::Arithmetic(Dtype::F16);
        let mut all = part.figures.iter().filter(|figure| figure.of == of);
        all.find(|figure| (figure.rate / rate - 1.0).abs() < 1e-6).expect("a figure")
    };
    assert!(field(383e12).is_package && field(383e12).how.contains("package"));
    assert!(!field(191.5e12).is_package && field(191.5e12).how.contains("die"));
    let between = of_part(&catalogue, part, "300 TFLOP/s fp16".into()).1;
    assert_eq!(between.answer, Answer::CannotTell, "{between:#?}");
    assert!(between.why.contains("of the package with 2 dies"), "{between:#?}");
}

/// 72 devices hold 4 of 256 experts each, as 64 do: 32 experts are held twice.
#[test]
fn experts_are_laid_out_over_devices_that_do_not_divide_them() {
    let catalogue = catalogue();
    let weights = |layout: &str| {
        let claim = Claim {
            value: "20 tok/s/user".into(),
            on: Some("gb300".into()),
            model: Some("deepseek-v3".into()),
            layout: Some(layout.into()),
            ..Claim::default()
        };
        let verdict = judged(&catalogue, &claim).expect("judged");
        assert_eq!(verdict.answer, Answer::Possible, "{layout}: {verdict:#?}");
        let line = verdict.arithmetic.into_iter().find(|line| line.starts_with("weights"));
        let line = line.expect("a line");
        let each = line.split(": ").nth(2).expect("of each device").to_owned();
        each.split(" on each").next().expect("a size").to_owned()
    };
    assert_eq!(weights("ep72"), weights("ep64"));
    assert_ne!(weights("ep72"), weights("ep32"));
}
