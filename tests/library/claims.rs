//! Published claims and what is said of them.

use fizeau::{
    claim::{Answer, Claim, ClaimFile, Named, Verdict, judge},
    data::Catalogue,
};

fn judged(catalogue: &Catalogue, claim: &Claim) -> Result<Verdict, String> {
    let model = claim.model.as_ref().map(|name| catalogue.model(name).expect("a model"));
    let part = claim.on.as_ref().and_then(|on| catalogue.parts.iter().find(|part| part.id == *on));
    let layout = claim.layout.as_ref().map(|layout| layout.parse().expect("a layout"));
    judge(claim, &Named { part, model, layout })
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
        model: Some("llama-3.1-8b".into()),
        ..Claim::default()
    };
    let answer = |claim: &Claim| judged(&catalogue, claim).expect("judged").answer;
    assert_eq!(answer(&claim("150 tok/s/user")), Answer::Possible);
    assert_eq!(answer(&claim("310 tok/s/user")), Answer::Suspicious);
    assert_eq!(answer(&claim("330 tok/s/user")), Answer::Impossible);
    // Three tokens a step, by speculative decoding that the claim states.
    let drafted = Claim { acceptance: Some(3.0), ..claim("330 tok/s/user") };
    assert_eq!(answer(&drafted), Answer::Possible);
    assert_eq!(answer(&claim("9000 tok/s")), Answer::CannotTell);
    assert_eq!(answer(&claim("90,000 tok/s/GPU")), Answer::Impossible);
    let untyped = Claim { model: None, ..claim("1000 TFLOP/s") };
    assert_eq!(answer(&untyped), Answer::CannotTell);
    for (value, expected) in [
        ("4.8 TB/s", Answer::Possible),
        ("4.4 TB/s", Answer::Possible),
        ("4,770 GB/s", Answer::Suspicious),
        ("5.2 TB/s", Answer::Impossible),
        ("989.4 TFLOP/s bf16", Answer::Possible),
        ("1,040 TFLOP/s bf16", Answer::Suspicious),
        ("busbw 440 on 8 GPUs", Answer::Possible),
        ("busbw 720 on 8 GPUs", Answer::Impossible),
        ("busbw 900 on 16 GPUs", Answer::Impossible),
    ] {
        assert_eq!(answer(&claim(value)), expected, "{value}");
    }
    for wrong in ["fast", "-5 tok/s", "480 parsecs", "0 GB/s", "", "busbw"] {
        assert!(judged(&catalogue, &claim(wrong)).is_err(), "{wrong}");
    }
    let none = Claim { gpus: Some(0), ..claim("1 tok/s") };
    assert!(judged(&catalogue, &none).is_err());
}
