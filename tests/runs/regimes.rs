//! The two regimes on a host with a planted regulator of power: each is reported under its name,
//! and neither is compared with the other.

use crate::program::{Place, say};
use fizeau_domain::outcome::Regime;

/// Products of half a millisecond and more, timed in a regime with the other one beside it.
const SUITE: &str = r#"
name = "regimes"
description = "One product"

[measure]
samples_min = 10
samples_max = 100
noise_max = 0.05
time_min = 0.02
time_max = 0.2
warmup_max = 0.05
sample_min = 0.001
deadline = 30.0
REGIME

[gemm]
dtypes = ["f32"]
shapes = [[256, 256, 256]]
"#;

/// Runs one kernel of it, under a regulator that makes everything take half as long again after
/// 30 ms of load.
fn run(place: &Place, out: &str, regime: &str) -> String {
    let text = SUITE.replace("REGIME", regime);
    std::fs::write(place.path("regimes.toml"), text).expect("the suite is written");
    let args = ["run", "*/portable", "--suite", "regimes.toml", "--device", "host", "--out", out];
    let mut command = place.fizeau(args);
    command.env("FIZEAU_PLANT_TURBO", "1.5@0.03");
    say(&mut command).clean().out
}

#[test]
fn burst_and_settled_differ_and_each_has_its_name() {
    let place = Place::new();
    // Other tests work on the same cores and may slow one of the two regimes: only that it can be
    // seen at all is certain.
    let mut ratios = Vec::new();
    let burst = ["burst", "burst-2", "burst-3", "burst-4"].into_iter().find(|out| {
        let said = run(&place, out, "regime = \"burst\"\nbeside = \"settled\"");
        assert!(said.contains("timed in bursts, each sample after a rest"), "{said}");
        assert!(said.contains("FIZEAU_PLANT_TURBO: a test build"), "{said}");
        let record = place.record(out);
        let one = record.outcomes[0].measured().expect("it is measured");
        let beside = one.beside.as_ref().expect("the other regime");
        assert_eq!((one.regime, beside.regime), (Some(Regime::Burst), Regime::Settled));
        ratios.push(beside.summary.median / one.summary.median);
        ratios.last().is_some_and(|ratio| *ratio > 1.2)
    });
    let burst = burst.unwrap_or_else(|| panic!("settled {ratios:?} of a burst"));
    let csv = say(&mut place.fizeau(["report", burst, "--format", "csv"])).clean().out;
    assert!(csv.contains("regime") && csv.contains(",burst,"), "{csv}");

    let said = run(&place, "settled", "regime = \"settled\"");
    assert!(said.contains("timed settled, after 0.3 s of the same load"), "{said}");
    let settled = place.record("settled");
    let settled = settled.outcomes[0].measured().expect("it is measured");
    assert_eq!((settled.regime, settled.beside.is_none()), (Some(Regime::Settled), true));

    let compared = say(&mut place.fizeau(["compare", burst, "settled"]));
    assert!(compared.out.contains("incomparable"), "{}", compared.out);
    let named = compared.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(named.contains("regime: burst in A, settled in B"), "{}", compared.out);
}

#[test]
fn a_suite_that_asks_for_the_same_regime_twice_is_refused() {
    let place = Place::new();
    let text = SUITE.replace("REGIME", "regime = \"burst\"\nbeside = \"burst\"");
    std::fs::write(place.path("regimes.toml"), text).expect("the suite is written");
    let args = ["run", "--suite", "regimes.toml", "--device", "host", "--out", "out"];
    let said = say(&mut place.fizeau(args));
    assert_eq!(said.code, Some(2), "{} {}", said.out, said.err);
    assert!(said.err.contains("beside is the regime that `regime` is not"), "{}", said.err);
}
