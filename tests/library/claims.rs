//! Published claims and what is said of them.

use fizeau::data::Catalogue;
use fizeau_projection::claim::{Answer, Claim, ClaimFile, Named, Verdict, judge};

pub fn judged(catalogue: &Catalogue, claim: &Claim) -> Result<Verdict, String> {
    let model = claim.model.as_ref().map(|name| catalogue.model(name).expect("a model"));
    let part = claim.on.as_ref().and_then(|on| catalogue.parts.iter().find(|part| part.id == *on));
    let layout = claim.layout.as_ref().map(|layout| layout.parse().expect("a layout"));
    judge(claim, &Named { part, model, layout, links: &catalogue.links })
}

fn claims(catalogue: &Catalogue) -> Vec<Claim> {
    let parse = |text: &String| toml::from_str::<ClaimFile>(text).expect("a file of claims").claim;
    catalogue.claims.values().flat_map(parse).collect()
}

#[test]
fn every_claim_of_the_catalogue_gets_its_verdict_and_its_arithmetic() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let claims = claims(&catalogue);
    assert!(claims.len() >= 30);
    for claim in &claims {
        let verdict = judged(&catalogue, claim).unwrap_or_else(|why| panic!("{}: {why}", claim.id));
        assert_eq!(Some(verdict.answer), claim.verdict, "{}: {verdict:#?}", claim.id);
        assert!(!verdict.arithmetic.is_empty(), "{}", claim.id);
        assert!(claim.source.is_some(), "{}", claim.id);
        let is_untold = verdict.answer == Answer::CannotTell;
        assert_eq!(is_untold, is_untold && !verdict.missing.is_empty(), "{}", claim.id);
    }
}

/// What was achieved, as a share of L0 and of L1, worked out by others by the same formulas.
#[test]
fn published_points_are_below_the_bound_and_not_far_below() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let claims = claims(&catalogue);
    let mut of_serial = Vec::new();
    for (id, light, serial) in [
        ("gpt-fast-llama-2-7b", 0.68, Some(0.68)),
        ("gpt-fast-llama-2-70b-2", 0.72, None),
        ("gpt-fast-llama-2-70b-4", 0.64, None),
        ("gpt-fast-llama-2-70b-8", 0.53, None),
        ("vllm-llama-3.1-8b-h200", 0.48, None),
        ("llama-3.3-70b-fp8-2-h200", 0.37, Some(0.56)),
        // 0.46 of a bound whose messages go to experts by chance and over the network alone. Tokens
        // whose experts agree need neither.
        ("deepseek-v3-h800-ep128", 0.29, Some(0.80)),
    ] {
        let claim = claims.iter().find(|claim| claim.id == id).expect("a claim");
        let verdict = judged(&catalogue, claim).expect("judged");
        let shares = (verdict.of_light.expect("a share"), verdict.of_serial.expect("a share"));
        assert!(shares.0 < 1.0, "{id}: {verdict:#?}");
        assert!((shares.0 - light).abs() < 0.04, "{id}: {shares:?}\n{verdict:#?}");
        if let Some(serial) = serial {
            assert!((shares.1 - serial).abs() < 0.06, "{id}: {shares:?}\n{verdict:#?}");
        }
        println!("{id}: {:.3} of L0, {:.3} of L1", shares.0, shares.1);
        of_serial.push(shares.1);
    }
    // Against L1: there is no public record that L2 could be computed from.
    of_serial.sort_by(f64::total_cmp);
    let median = of_serial[of_serial.len() / 2];
    assert!((0.4..1.0).contains(&median), "{of_serial:?}");
}

#[test]
fn what_is_left_unsaid_decides_in_the_claims_favour() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let claim = |value: &str| Claim {
        value: value.into(),
        on: Some("h200-sxm".into()),
        model: value.contains("tok").then(|| "llama-3.1-8b".into()),
        ..Claim::default()
    };
    let answer = |claim: &Claim| judged(&catalogue, claim).expect("judged").answer;
    assert_eq!(answer(&claim("150 tok/s/user")), Answer::Possible);
    // More than measurements reach in bf16, and usual in fp8: it does not say which.
    assert_eq!(answer(&claim("310 tok/s/user")), Answer::CannotTell);
    let plain = Claim {
        precision: Some("bf16".into()),
        acceptance: Some(1.0),
        gpus: Some(1),
        ..claim("310 tok/s/user")
    };
    assert_eq!(answer(&plain), Answer::Suspicious);
    // Above the bound as published; in fp8, or with drafts that are accepted, below it.
    let unstated = judged(&catalogue, &claim("330 tok/s/user")).expect("judged");
    assert_eq!(unstated.answer, Answer::CannotTell, "{unstated:#?}");
    for words in ["weights in fp8", "gains 2 tokens a step", "on 2 devices"] {
        assert!(unstated.why.contains(words), "{words}: {unstated:#?}");
    }
    let plain = Claim {
        precision: Some("bf16".into()),
        acceptance: Some(1.0),
        gpus: Some(1),
        ..claim("330 tok/s/user")
    };
    assert_eq!(answer(&plain), Answer::Impossible);
    // Three tokens a step, by speculative decoding that the claim states.
    let drafted = Claim { acceptance: Some(3.0), ..claim("330 tok/s/user") };
    assert_eq!(answer(&drafted), Answer::Possible);
    assert_eq!(answer(&claim("9000 tok/s")), Answer::CannotTell);
    assert_eq!(answer(&claim("900,000 tok/s/GPU")), Answer::Impossible);
    assert_eq!(answer(&claim("1000 TFLOP/s")), Answer::CannotTell);
    for (value, expected) in [
        ("4.8 TB/s", Answer::Possible),
        ("4.4 TB/s", Answer::Possible),
        ("4,770 GB/s", Answer::Possible),
        ("4,880 GB/s", Answer::Suspicious),
        ("4.44 TiB/s", Answer::Suspicious),
        ("4.8 TiB/s", Answer::Impossible),
        ("35.2 Tbit/s", Answer::Possible),
        ("5.2 TB/s", Answer::Impossible),
        ("989.4 TFLOP/s bf16", Answer::Possible),
        ("1,040 TFLOP/s bf16", Answer::CannotTell),
        ("1,040 TFLOP/s dense bf16", Answer::Suspicious),
        ("busbw 440 on 8 GPUs", Answer::Possible),
        ("busbw 720 on 8 GPUs", Answer::Impossible),
        ("busbw 900 on 16 GPUs", Answer::Impossible),
        // 256 GB/s of each GPU's 480 would go to the other node, over 50.
        ("all_to_all busbw 480 on 16 GPUs", Answer::Impossible),
        ("all_to_all busbw 95 on 16 GPUs", Answer::Impossible),
        ("all_to_all busbw 80 on 16 GPUs", Answer::Possible),
        ("all_to_all busbw 440 on 8 GPUs", Answer::Possible),
        // Each GPU would receive 600 GB/s, over links of 450 and an interface of 50.
        ("all_gather busbw 600 on 16 GPUs", Answer::Impossible),
        ("reduce_scatter busbw 600 on 16 GPUs", Answer::Impossible),
        ("all_gather busbw 450 on 16 GPUs", Answer::Possible),
        ("broadcast busbw 380 on 16 GPUs", Answer::Possible),
        ("broadcast busbw 450 on 16 GPUs", Answer::Impossible),
        ("sendrecv busbw 45 on 16 GPUs", Answer::Possible),
        ("busbw 470 on 16 GPUs", Answer::Possible),
        ("busbw 600 on 16 GPUs", Answer::Possible),
        // 64 nodes: a ring's interface would send 50.8 GB/s, one of a network that sums 25.8.
        ("busbw 412 on 512 GPUs", Answer::Possible),
    ] {
        assert_eq!(answer(&claim(value)), expected, "{value}");
    }
    let only = |value: &str, on: &str| {
        let told = judged(&catalogue, &Claim { on: Some(on.into()), ..claim(value) });
        told.expect("it is understood").only.is_some()
    };
    assert!(only("busbw 600 on 16 GPUs", "h200-sxm"));
    assert!(!only("busbw 440 on 16 GPUs", "h200-sxm"));
    let of_mi300x = |value: &str| answer(&Claim { on: Some("mi300x".into()), ..claim(value) });
    // Without a switch that sums each GPU sends all of it.
    assert_eq!(of_mi300x("busbw 600 on 16 GPUs"), Answer::Impossible);
    let of_b200 = |value: &str| answer(&Claim { on: Some("b200-hgx".into()), ..claim(value) });
    assert_eq!(of_b200("20 PFLOPS FP4"), Answer::Possible);
    assert_eq!(of_b200("20 PFLOPS FP4 dense"), Answer::Impossible);
    assert_eq!(of_b200("DGX B200 72 PFLOPS FP8"), Answer::CannotTell);
    assert_eq!(of_b200("72 PFLOPS FP8 on 8 GPUs"), Answer::Possible);
    for wrong in ["fast", "-5 tok/s", "480 parsecs", "0 GB/s", "", "busbw"] {
        assert!(judged(&catalogue, &claim(wrong)).is_err(), "{wrong}");
    }
}

/// A claim of tokens, and what is said of it.
fn of_tokens(change: impl Fn(&mut Claim)) -> (Claim, Result<Verdict, String>) {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let mut claim = Claim {
        value: "20 tok/s/user".into(),
        on: Some("h200-sxm".into()),
        acceptance: Some(1.0),
        model: Some("llama-3.1-70b".into()),
        precision: Some("fp8".into()),
        kv: Some("fp8".into()),
        ..Claim::default()
    };
    change(&mut claim);
    let verdict = judged(&catalogue, &claim);
    (claim, verdict)
}

/// What is changed of the claim, and words of what is said then.
type Changed<'c> = (&'c str, &'c dyn Fn(&mut Claim));

/// 72.7 GB of weights and 163,840 bytes of keys and values for each token, beside 141 GB that may
/// be 151.4: 78.8 GB are left, for 60 times 8,000 tokens.
#[test]
fn what_does_not_fit_is_impossible_with_its_arithmetic() {
    // Of one device, where a case states no others: on more of them anything fits.
    let of = |change: &dyn Fn(&mut Claim)| {
        let of_one = |claim: &mut Claim| {
            change(claim);
            if claim.layout.is_none() {
                claim.gpus = claim.gpus.or(Some(1));
            }
        };
        of_tokens(of_one).1.expect("judged")
    };
    let fits = of(&|claim| (claim.concurrency, claim.context) = (Some(60), Some(8000)));
    assert_eq!(fits.answer, Answer::Possible, "{fits:#?}");
    let line = fits.arithmetic.iter().find(|line| line.starts_with("KV cache")).expect("a line");
    assert!(line.contains("60 x 1.311 GB") && line.contains("60 sequences fit"), "{line}");
    let cases: [Changed<'_>; 6] = [
        ("61 sequences of 8000 tokens", &|claim| {
            (claim.concurrency, claim.context) = (Some(61), Some(8000));
        }),
        // A user alone: 131,072 tokens in 16 bits are 43 GB, and in 32 bits 86 GB.
        ("one sequence of 131000 tokens", &|claim| {
            (claim.context, claim.kv) = (Some(131_000), Some("f32".into()));
        }),
        // Half of an answer counts.
        ("61 sequences of 8000 tokens", &|claim| {
            (claim.isl, claim.osl, claim.concurrency) = (Some(7000), Some(2000), Some(61));
        }),
        // 405 x 10^9 parameters on 2 devices; all of it on each of 2 copies.
        ("weights do not fit", &|claim| {
            (claim.model, claim.gpus) = (Some("llama-3.1-405b".into()), Some(2));
        }),
        ("weights do not fit", &|claim| {
            (claim.precision, claim.layout) = (Some("bf16".into()), Some("2xtp1".into()));
            claim.on = Some("h100-sxm".into());
        }),
        // Eight key heads on 16 devices: each holds a whole head, so that half as many fit.
        ("1500 sequences", &|claim| {
            (claim.on, claim.layout) = (Some("h100-sxm".into()), Some("tp16".into()));
            (claim.concurrency, claim.context) = (Some(1500), Some(4000));
            claim.model = Some("llama-3.1-70b".into());
        }),
    ];
    for (words, change) in cases {
        let found = of(change);
        assert_eq!(found.answer, Answer::Impossible, "{words}: {found:#?}");
        assert!(found.why.contains(words), "{words}: {found:#?}");
        let line = found.arithmetic.iter().any(|line| line.starts_with("weights: "));
        assert!(line, "{words}: {found:#?}");
    }
    // The number of requests that a rate needs does not fit, whichever that is.
    let implied = of(&|claim| {
        (claim.value, claim.context) = ("800 output tok/s".into(), Some(32_000));
    });
    assert_eq!(implied.answer, Answer::Impossible, "{implied:#?}");
    assert!(implied.why.contains("requests at once or more, and 15 fit"), "{implied:#?}");
}

#[test]
fn each_condition_that_is_not_stated_is_named() {
    let missing = |change: &dyn Fn(&mut Claim)| -> String {
        of_tokens(change).1.expect("judged").missing.join("; ")
    };
    let none = missing(&|claim| (claim.precision, claim.kv) = (None, None));
    for words in ["precision", "devices", "requests at once", "context"] {
        assert!(none.contains(words), "{words}: {none}");
    }
    assert!(missing(&|claim| (claim.kv, claim.isl) = (None, Some(100))).contains("fp8 taken"));
    assert!(missing(&|claim| claim.isl = Some(100)).contains("tokens of answers"));
    assert!(missing(&|claim| claim.osl = Some(100)).contains("tokens of prompts"));
    assert!(missing(&|claim| claim.gpus = Some(2)).contains("layout"));
    assert!(missing(&|claim| claim.on = None).contains("--on"));
    assert!(missing(&|claim| claim.model = None).contains("--model"));
    // Of a longer context than the model's configuration has, nothing can be told.
    let beyond = of_tokens(|claim| claim.context = Some(200_000)).1.expect("judged");
    assert_eq!(beyond.answer, Answer::CannotTell, "{beyond:#?}");
    assert!(beyond.missing.join("; ").contains("config.json"), "{beyond:#?}");
}

/// A condition that is ignored may be the one that makes a figure true or false.
#[test]
fn what_a_figure_has_no_use_for_is_refused() {
    let cases: [Changed<'_>; 12] = [
        ("gpus is from 1", &|claim| claim.gpus = Some(0)),
        ("gpus is from 1", &|claim| claim.gpus = Some(5000)),
        ("concurrency is 1", &|claim| claim.concurrency = Some(0)),
        ("isl is 1", &|claim| claim.isl = Some(0)),
        ("osl is 1", &|claim| claim.osl = Some(0)),
        ("acceptance is from 1", &|claim| claim.acceptance = Some(f64::NAN)),
        ("exclude each other", &|claim| (claim.isl, claim.context) = (Some(1), Some(1))),
        ("of 8 devices, and gpus is 4", &|claim| {
            (claim.value, claim.gpus) = ("9 tok/s on 8 GPUs".into(), Some(4));
        }),
        ("tp4 has 4 devices, and not 8", &|claim| {
            (claim.value, claim.layout) = ("9 tok/s on 8 GPUs".into(), Some("tp4".into()));
        }),
        ("has no model, precision, kv", &|claim| claim.value = "4.8 TB/s".into()),
        ("of output tokens", &|claim| claim.value = "9 input tok/s/user".into()),
        ("judged for one unit", &|claim| {
            let own =
                Claim { value: "32 FLOP/clock f64".into(), gpus: Some(8), ..Claim::default() };
            *claim = Claim { on: claim.on.clone(), ..own };
        }),
    ];
    for (words, change) in cases {
        let (claim, found) = of_tokens(change);
        let why = found.expect_err(words);
        assert!(why.contains(words), "{}: {why}", claim.value);
    }
}

#[test]
fn a_file_of_claims_says_what_is_wrong_with_it() {
    let claim = |id: &str| format!("[[claim]]\nid = \"{id}\"\nvalue = \"4.8 TB/s\"\n");
    assert_eq!(ClaimFile::parse(&claim("a")).expect("a claim").claim.len(), 1);
    let most: String = (0..10_001).map(|at| claim(&at.to_string())).collect();
    for (text, words) in [
        (String::new(), "no claim"),
        (claim("a") + &claim("a"), "two claims have the id \"a\""),
        (claim("a") + "value = \"5 TB/s\"\n", "duplicate key"),
        (claim("a") + "moon = 1\n", "unknown field"),
        (claim("a") + "gpus = -1\n", "gpus"),
        (claim("a") + "[claim.run.suite]\n[claim.run.conditions]\nclock_mhz = nan\n", "clock_mhz"),
        (most, "10001 claims are more than 10000"),
    ] {
        let why = ClaimFile::parse(&text).expect_err(words);
        assert!(why.contains(words), "{words}: {why}");
    }
}

/// A figure that is possible under a condition alone says the condition in its first words, and one
/// that states the condition, or needs none, does not.
#[test]
fn what_a_possible_figure_depends_on_stands_in_the_answer() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    for (value, on, gpus, only) in [
        ("1979 TFLOPS FP16", "h100-sxm", None, Some("with structured sparsity")),
        ("1979 TFLOPS FP16 with sparsity", "h100-sxm", None, None),
        ("989 TFLOPS FP16", "h100-sxm", None, None),
        ("4.8 TB/s", "h200-sxm", None, None),
        ("NVLink 1.8 TB/s", "gb200", None, Some("as both directions together")),
        ("NVLink 1.8 TB/s both ways", "gb200", None, None),
        ("1.8 TB/s", "h20", None, None),
        ("1.8 TB/s", "a100-sxm4-40", None, None),
        ("busbw 480", "h200-sxm", Some(8), Some("with a switch that sums")),
        ("busbw 360", "h200-sxm", Some(8), None),
    ] {
        let claim = Claim { value: value.into(), on: Some(on.into()), gpus, ..Claim::default() };
        let verdict = judged(&catalogue, &claim).expect("it is understood");
        let found = verdict.only.as_deref().unwrap_or_default();
        assert_eq!(only.is_some(), !found.is_empty(), "{value} on {on}: {verdict:?}");
        let only = only.unwrap_or_default();
        assert!(found.starts_with(only), "{value} on {on}: {found}");
        let document = fizeau_report::verdicts(&[(claim, verdict)]);
        let said = document.title.contains(&format!("possible only {only}"));
        assert_eq!(said, !only.is_empty(), "{}", document.title);
        let name = if gpus.is_some() { "on 8 x " } else { " on " };
        assert!(format!("{document:?}").contains(&format!("{name}{on}")), "{document:?}");
    }
}
