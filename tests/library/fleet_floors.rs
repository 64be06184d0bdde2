//! Floors in a survey. They fail nobody whom the acceptance of the node did not fail by the same
//! repeats, and nobody whose repeats scatter or were disturbed. Words name a floor where
//! it decides.

use super::fleet_survey::{gathered, options, row};
use fizeau_domain::{labels::Labels, stats::student::Variance, verdict::Verdict};
use fizeau_judge::{
    accept::decide::{Against, Bar, Sequence, Series},
    fleet::{
        row::{ACCEPTANCE, NODE, Row},
        survey::{Report, survey},
    },
};
use fizeau_report::format::fleet::{text, told};
use oorandom::Rand64;
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

/// A check of a host and the values of its repeats, by the acceptance's own procedure: `rate` over
/// the floor, each repeat off by `noise`. Some floors may pass a device, and others only fail it.
fn accepted(rate: f64, noise: f64, may_pass: bool, random: &mut Rand64) -> (Verdict, Vec<f64>) {
    let error = Variance { value: 0.0, freedom: f64::INFINITY };
    let floor = Bar { against: Against::Floor, log: 0.0, error, may_pass, may_fail: true };
    let series = Series {
        metric: 0,
        least_effect: 0.02,
        values: Vec::new(),
        bars: vec![floor],
        has_peers: false,
        session: None,
    };
    let mut sequence = Sequence::new(vec![series]);
    let mut values = Vec::new();
    while !sequence.is_over() {
        for (check, count) in sequence.wanted() {
            for _ in 0..count {
                let value = rate.ln() + noise * crate::localise::fabric::normal(random);
                sequence.take(check, value);
                values.push(1e12 * value.exp());
            }
        }
        sequence.judge();
    }
    (sequence.decision(0).expect("it is over").verdict, values)
}

/// Bundles of hosts without a peer: healthy and slow ones, quiet and scattering, of which some were
/// disturbed, left repeats out or did not come to their end.
#[test]
fn survey_and_acceptance_agree_on_simulated_bundles() {
    let mut random = Rand64::new(40);
    let mut counts = [[0u32; 3]; 3];
    let place = |verdict: Verdict| match verdict {
        Verdict::Pass => 0,
        Verdict::Inconclusive => 1,
        _ => 2,
    };
    for bundle in 0..1_000u32 {
        let slow = 0.3 + 0.8 * random.rand_float();
        let rate = if bundle % 2 == 0 { 1.25 } else { slow };
        let noise = [0.002, 0.005, 0.01, 0.03, 0.08][random.rand_range(0..5) as usize];
        let (own, values) = accepted(rate, noise, bundle % 3 == 0, &mut random);
        let (mut of_host, mut of_check) = (own, own);
        let mut measured = Row { values, ..below(0.0) };
        let mut rows = Vec::new();
        match random.rand_range(0..6) {
            // Another program ran: a check of the idle node says so, and no other fails then.
            0 | 1 => {
                rows.push(said("idle", "host", "inconclusive"));
                of_check = Verdict::Inconclusive;
                of_host = Verdict::Inconclusive;
            }
            2 => {
                measured.disturbed = 1 + random.rand_range(0..5) as u32;
                of_check = Verdict::Inconclusive;
                of_host = Verdict::Inconclusive;
            }
            3 => {
                measured.incomplete = true;
                of_check = Verdict::Inconclusive;
                of_host = Verdict::Inconclusive;
            }
            _ => {}
        }
        rows.push(measured);
        rows.push(said("memory read", "host", &of_check.to_string()));
        rows.push(said(ACCEPTANCE, NODE, &of_host.to_string()));
        let found = surveyed(&rows);
        counts[place(of_host)][place(found.verdict)] += 1;
        assert_eq!(
            found.verdict == Verdict::Fail,
            of_host == Verdict::Fail,
            "bundle {bundle}: accepted as {of_host}, rate {rate}, noise {noise}: {:?}",
            found.flagged
        );
    }
    println!("by acceptance, and of those by survey, pass, inconclusive, fail: {counts:?}");
    // Of each kind there are some.
    let all = |at: usize| counts[at].iter().sum::<u32>();
    assert!(all(0) > 50 && all(1) > 300 && all(2) > 50, "{counts:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

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
