//! Floors in a survey. They fail nobody whom the acceptance of the node did not fail by the same
//! repeats, and nobody whose repeats scatter or were disturbed. Words name a floor where
//! it decides.

use super::fleet_survey::{gathered, options, row};
use fizeau_domain::{labels::Labels, verdict::Verdict};
use fizeau_judge::fleet::{
    row::{ACCEPTANCE, NODE, Row},
    survey::{Report, survey},
};
use fizeau_report::format::fleet::{text, told};
use proptest::prelude::*;

fn surveyed(rows: &[Row<'_>]) -> Report {
    survey(gathered(rows), &options(), &Labels::default(), None).report
}

/// A host without a peer, 43 % below its floor.
fn below(scatter: f64) -> Row<'static> {
    let values = (0..5).map(|at| 0.57e12 * (1.0 + scatter * (f64::from(at) - 2.0))).collect();
    Row { device: "host".into(), uuid: "".into(), floor: Some(1e12), ..row(0, 0, values) }
}

fn said(check: &str, device: &str, verdict: &str) -> Row<'static> {
    Row {
        metric: check.to_owned().into(),
        device: device.to_owned().into(),
        verdict: verdict.to_owned().into(),
        words: "2 of 2 CPUs at work".into(),
        values: Vec::new(),
        least_effect: None,
        floor: None,
        point: "".into(),
        unit: "".into(),
        ..below(0.0)
    }
}

#[test]
fn what_is_below_its_floor_fails_in_these_words() {
    let found = surveyed(&[below(0.001)]);
    let [one] = &found.flagged[..] else { panic!("{:?}", found.flagged) };
    assert_eq!(one.verdict, Verdict::Fail);
    let words = told(one);
    assert!(words.contains("43.0 % below its floor, 5 repeats"), "{words}");
    assert!(!text(&found).contains("stratum"), "{}", text(&found));
}

#[test]
fn what_is_slow_beside_its_stratum_fails_in_these_words() {
    let mut rows = super::fleet_survey::fleet(4, &[(1, 3, 0.3)]);
    rows.iter_mut().for_each(|row| row.floor = Some(1e12));
    let words = told(&surveyed(&rows).flagged[0]);
    assert!(words.contains("% below its stratum, 5 repeats"), "{words}");
}

#[test]
fn repeats_that_scatter_fail_nobody_by_a_floor() {
    let found = surveyed(&[below(0.02)]);
    assert_eq!(found.verdict, Verdict::Inconclusive, "{:?}", found.flagged);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Its own acceptance said inconclusive, left repeats out, or did not come to its end.
    #[test]
    fn what_a_bundle_calls_disturbed_does_not_fail_without_a_peer(
        share in 0.01f64..0.99,
        scatter in 0.0f64..0.05,
        disturbed in 1u32..9,
        how in 0usize..3,
    ) {
        let mut own = below(scatter);
        own.values.iter_mut().for_each(|value| *value *= share / 0.57);
        let mut rows = vec![own];
        match how {
            0 => {
                rows.push(said("idle", "host", "inconclusive"));
                rows.push(said(ACCEPTANCE, NODE, "inconclusive"));
            }
            1 => rows[0].disturbed = disturbed,
            _ => rows[0].incomplete = true,
        }
        let found = surveyed(&rows);
        prop_assert_eq!(found.verdict, Verdict::Inconclusive, "{:?}", found.flagged);
        prop_assert_eq!(found.devices.fail, 0);
    }
}
