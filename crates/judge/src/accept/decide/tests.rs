use super::*;
use oorandom::Rand64;
use std::f64::consts::TAU;

const EFFECT: f64 = 0.04;

struct Normal(Rand64);

impl Normal {
    fn new(seed: u128) -> Normal {
        Normal(Rand64::new(seed))
    }

    fn next(&mut self) -> f64 {
        let (one, other) = (self.0.rand_float(), self.0.rand_float());
        (-2.0 * (1.0 - one).ln()).sqrt() * (TAU * other).cos()
    }
}

/// A bar that is the least effect below a reference of 0, as a logarithm.
fn reference() -> Bar {
    Bar {
        against: Against::Reference,
        log: (1.0 - EFFECT).ln(),
        error: Variance { value: 0.0, freedom: f64::INFINITY },
        may_pass: true,
        may_fail: true,
    }
}

fn series(metric: usize, bars: Vec<Bar>) -> Series {
    let values = Vec::new();
    Series { metric, least_effect: EFFECT, values, bars, has_peers: true, session: None }
}

/// Runs the procedure to its end on devices with these true rates, as logarithms, and this noise.
fn decided(bars: &[Bar], rates: &[f64], noise: f64, seed: u128) -> Sequence {
    let mut normal = Normal::new(seed);
    let all = rates.iter().map(|_| series(0, bars.to_vec())).collect();
    let mut sequence = Sequence::new(all);
    while !sequence.is_over() {
        for (at, count) in sequence.wanted() {
            (0..count).for_each(|_| sequence.take(at, rates[at] + noise * normal.next()));
        }
        sequence.judge();
    }
    sequence
}

fn verdicts(sequence: &Sequence) -> Vec<(Verdict, Reason)> {
    let of = |at| sequence.decision(at).map(|one| (one.verdict, one.reason)).expect("decided");
    (0..sequence.series().len()).map(of).collect()
}

#[test]
fn the_noise_of_one_repeat_is_estimated_without_bias() {
    let mut normal = Normal::new(1);
    for (devices, repeats) in [(8, 5), (8, 9), (8, 15), (1, 5), (2, 9)] {
        let mut logs = 0.0;
        let trials = 2_000;
        for _ in 0..trials {
            let values: Vec<Vec<f64>> = (0..devices)
                .map(|_| (0..repeats).map(|_| 0.01 * normal.next()).collect())
                .collect();
            let slices: Vec<&[f64]> = values.iter().map(Vec::as_slice).collect();
            logs += noise(&slices).value;
        }
        let ratio = (logs / f64::from(trials)).sqrt() / 0.01;
        assert!((0.9..1.15).contains(&ratio), "{devices} devices, {repeats} repeats: {ratio}");
    }
}

#[test]
fn one_slow_device_fails_and_the_others_pass() {
    let mut rates = vec![0.0; 8];
    rates[3] = (1.0 - 2.0 * EFFECT).ln();
    let sequence = decided(&[reference()], &rates, EFFECT / 4.0, 7);
    for (at, (verdict, reason)) in verdicts(&sequence).into_iter().enumerate() {
        assert_eq!(reason, Reason::Decided);
        assert_eq!(verdict, if at == 3 { Verdict::Fail } else { Verdict::Pass }, "{at}");
    }
    let slow = sequence.decision(3).expect("decided");
    assert!(slow.confidence > 0.99 && slow.log < slow.bar.expect("a bar").log);
    assert!(slow.interval[0] < slow.log && slow.log < slow.interval[1]);
    assert_eq!(sequence.failed_at_first(), [3]);
}

#[test]
fn a_loss_within_the_least_effect_is_no_failure() {
    let rates = vec![(1.0 - 0.5 * EFFECT).ln(); 8];
    let sequence = decided(&[reference()], &rates, EFFECT / 4.0, 9);
    assert!(verdicts(&sequence).iter().all(|one| one.0 == Verdict::Pass), "{sequence:?}");
}

#[test]
fn what_is_just_at_its_bar_is_inconclusive() {
    let sequence = decided(&[reference()], &[reference().log], 0.01, 3);
    assert_eq!(verdicts(&sequence), [(Verdict::Inconclusive, Reason::TooClose)]);
    assert_eq!(sequence.decision(0).expect("decided").repeats, LOOKS[2]);
}

#[test]
fn a_neighbour_that_goes_away_fails_nobody() {
    let mut sequence = Sequence::new(vec![series(0, vec![reference()])]);
    let mut normal = Normal::new(5);
    let mut take = |sequence: &mut Sequence, rate: f64| {
        for (at, count) in sequence.wanted() {
            (0..count).for_each(|_| sequence.take(at, rate + 0.002 * normal.next()));
        }
        sequence.judge();
    };
    take(&mut sequence, -0.2);
    assert_eq!(sequence.wanted(), [(0, RETEST)]);
    take(&mut sequence, 0.0);
    assert_eq!(verdicts(&sequence), [(Verdict::Inconclusive, Reason::NotRepeated)]);
    assert_eq!(sequence.failed_at_first(), [0]);
}

#[test]
fn a_failure_that_nobody_had_time_to_confirm_is_no_neighbour_that_went_away() {
    let mut sequence = Sequence::new(vec![series(0, vec![reference()])]);
    let mut normal = Normal::new(5);
    for (at, count) in sequence.wanted() {
        (0..count).for_each(|_| sequence.take(at, -0.2 + 0.002 * normal.next()));
    }
    sequence.judge();
    // The budget ends before the retest, or within it.
    for fresh in [0, RETEST - 1] {
        let mut ended = sequence.clone();
        (0..fresh).for_each(|_| ended.take(0, -0.2));
        ended.end();
        assert_eq!(verdicts(&ended), [(Verdict::Inconclusive, Reason::NotConfirmed)]);
    }
}

/// Devices of one metric, of which the third is slower by `slow` at first. When it is measured anew
/// it is slower by the first of `later`, and its partner by the second.
fn retested(slow: f64, later: [f64; 2]) -> Sequence {
    let devices = 4;
    let mut sequence = Sequence::new((0..devices).map(|_| series(0, vec![reference()])).collect());
    let mut normal = Normal::new(23);
    while !sequence.is_over() {
        let is_retest = sequence.is_retest();
        for (at, count) in sequence.wanted() {
            let rate = match (is_retest, at == 2) {
                (false, true) => slow,
                (false, false) => 0.0,
                (true, is_slow) => later[usize::from(!is_slow)],
            };
            (0..count).for_each(|_| sequence.take(at, rate + 0.002 * normal.next()));
        }
        if is_retest {
            assert!(sequence.wanted().is_empty(), "a suspect and its partner are measured alike");
        }
        sequence.judge();
    }
    sequence
}

#[test]
fn a_failure_is_confirmed_beside_a_device_that_passed() {
    let of = |sequence: &Sequence| verdicts(sequence)[2];
    let slow = -3.0 * EFFECT;
    assert_eq!(of(&retested(slow, [slow, 0.0])).0, Verdict::Fail);
    // Whatever slows both down is no fault of the one.
    let both = retested(slow, [slow, slow]);
    assert_eq!(of(&both), (Verdict::Inconclusive, Reason::PartnerToo));
    let others = verdicts(&both).iter().filter(|one| one.0 == Verdict::Pass).count();
    assert_eq!(others, 3);
    assert_eq!(of(&retested(slow, [0.0, 0.0])), (Verdict::Inconclusive, Reason::NotRepeated));
}

#[test]
fn noise_above_the_gate_lets_a_reference_fail_nobody_but_not_a_floor() {
    let noisy = EFFECT * 1.5;
    let slow = (1.0f64 - 0.6).ln();
    let gated = decided(&[reference()], &[slow; 8], noisy, 11);
    assert!(verdicts(&gated).iter().all(|one| *one == (Verdict::Inconclusive, Reason::TooNoisy)));
    let floor = Bar { against: Against::Floor, log: -0.4, may_pass: false, ..reference() };
    let failed = decided(&[floor], &[slow; 8], noisy, 11);
    assert!(verdicts(&failed).iter().all(|one| one.0 == Verdict::Fail), "{failed:?}");
}

#[test]
fn floors_for_what_is_grossly_slow_and_peers_pass_nothing() {
    let floor = Bar { against: Against::Floor, log: -1.0, may_pass: false, ..reference() };
    let sequence = decided(&[floor], &[0.0; 8], 0.005, 13);
    assert!(verdicts(&sequence).iter().all(|one| *one == (Verdict::Inconclusive, Reason::NoBar)));
    let mut rates = vec![0.0; 8];
    rates[5] = -0.15;
    let sequence = decided(&[], &rates, 0.005, 17);
    for (at, (verdict, _)) in verdicts(&sequence).into_iter().enumerate() {
        let wanted = if at == 5 { Verdict::Fail } else { Verdict::Inconclusive };
        assert_eq!(verdict, wanted, "{at}");
    }
    let bar = sequence.decision(5).and_then(|one| one.bar).expect("a bar");
    assert_eq!(bar.against, Against::Peers);
}

#[test]
fn an_uncertain_reference_decides_nothing_by_its_own_luck() {
    // Its error is as large as the effect: a device a little below it cannot be told.
    let error = Variance { value: EFFECT * EFFECT, freedom: 4.0 };
    let bar = Bar { error, ..reference() };
    let sequence = decided(&[bar], &[(1.0 - 1.5 * EFFECT).ln()], 0.002, 19);
    assert_eq!(verdicts(&sequence), [(Verdict::Inconclusive, Reason::BarUnsure)]);
}

#[test]
fn what_ends_early_is_inconclusive_and_what_was_decided_stays() {
    let mut sequence = Sequence::new(vec![series(0, vec![reference()]), series(1, vec![])]);
    for (at, count) in sequence.wanted() {
        (0..count).for_each(|turn| sequence.take(at, 1e-4 * turn as f64));
    }
    sequence.judge();
    assert_eq!(sequence.decision(0).map(|one| one.verdict), Some(Verdict::Pass));
    let lost = sequence.push(series(2, vec![reference()]));
    let slow = sequence.push(series(3, vec![reference()]));
    sequence.take(slow, -1.0);
    sequence.end();
    assert!(sequence.is_over());
    assert_eq!(sequence.decision(0).map(|one| one.verdict), Some(Verdict::Pass));
    assert_eq!(sequence.decision(lost), None);
    assert_eq!(sequence.decision(slow).map(|one| one.verdict), Some(Verdict::Inconclusive));
}

#[test]
fn both_errors_are_split_over_the_looks() {
    assert!((SHARES.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    assert_eq!(SHARES.len(), LOOKS.len());
}

#[test]
fn a_bar_too_uncertain_to_decide_by_is_given_up_at_the_first_look() {
    let unsure = Bar { error: Variance { value: 0.03 * 0.03, freedom: 4.0 }, ..reference() };
    for rate in [0.0, EFFECT / 4.0, -0.03] {
        let sequence = decided(&[unsure], &[rate], 0.001, 3);
        assert_eq!(verdicts(&sequence), [(Verdict::Inconclusive, Reason::BarUnsure)], "{rate}");
        assert_eq!(sequence.decision(0).map(|one| one.repeats), Some(LOOKS[0]), "{rate}");
    }
}

#[test]
fn an_uncertain_bar_still_decides_what_is_far_from_it() {
    let unsure = Bar { error: Variance { value: 0.03 * 0.03, freedom: 4.0 }, ..reference() };
    let sequence = decided(&[unsure], &[0.4, -0.8], 0.001, 3);
    let verdicts: Vec<Verdict> = verdicts(&sequence).iter().map(|one| one.0).collect();
    assert_eq!(verdicts, [Verdict::Pass, Verdict::Fail]);
}

#[test]
fn noise_of_repeats_leaves_a_series_open_that_more_of_them_may_decide() {
    let sure = Bar { error: Variance { value: 0.005 * 0.005, freedom: 4.0 }, ..reference() };
    let sequence = decided(&[sure], &[-EFFECT + 0.012], 0.015, 5);
    assert_eq!(sequence.decision(0).map(|one| one.repeats), Some(LOOKS[2]));
}

/// A floor that fails what is grossly slow and passes nothing.
fn weak_floor() -> Bar {
    Bar { against: Against::Floor, log: 0.0, may_pass: false, ..reference() }
}

#[test]
fn half_of_a_weak_floor_fails_on_one_device_as_on_many() {
    for devices in [1, 2, 8] {
        for noise in [0.01, 0.04, 0.08] {
            let trials = 100;
            let fails = |seed: &u128| {
                let rates = vec![0.5f64.ln(); devices];
                let sequence = decided(&[weak_floor()], &rates, noise, *seed);
                verdicts(&sequence).iter().all(|one| one.0 == Verdict::Fail)
            };
            let failed = (0..trials).filter(fails).count();
            assert!(failed > 90, "{devices} devices, noise {noise}: {failed} of {trials}");
        }
    }
}

#[test]
fn below_a_weak_floor_is_measured_on_until_it_fails_or_repeats_end() {
    // The first repeat is of a quiet moment, and the others do not agree well enough for the first
    // look.
    let mut sequence = Sequence::new(vec![series(0, vec![weak_floor()])]);
    for value in [0.68, -0.45, -0.62, -0.53, -0.55] {
        sequence.take(0, value);
    }
    sequence.judge();
    assert_eq!(sequence.wanted(), [(0, LOOKS[1] - LOOKS[0])]);
    sequence.end();
    assert_eq!(verdicts(&sequence), [(Verdict::Inconclusive, Reason::TooClose)]);
    // Far above the floor no number of repeats would change anything.
    let healthy = decided(&[weak_floor()], &[0.25], 0.01, 29);
    assert_eq!(verdicts(&healthy), [(Verdict::Inconclusive, Reason::NoBar)]);
    assert_eq!(healthy.decision(0).map(|one| one.repeats), Some(LOOKS[0]));
}

/// Runs of eight devices, one of which is this many least effects below the others, where a session
/// of a device is off by half a least effect.
fn beside_sessions(lost: f64, session: Option<f64>) -> Verdict {
    let mut normal = Normal::new(11);
    let rates = [0.0, 0.03, -0.04, 0.01, -0.02, 0.04, -0.03, -lost].map(|effects| effects * EFFECT);
    let variance = |deviation: f64| Variance { value: deviation.powi(2), freedom: 40.0 };
    let session = session.map(|effects| variance(effects * EFFECT));
    let one = |_| Series { session, ..series(0, Vec::new()) };
    let mut sequence = Sequence::new(rates.iter().map(one).collect());
    while !sequence.is_over() {
        for (at, count) in sequence.wanted() {
            (0..count).for_each(|_| sequence.take(at, rates[at] + 0.1 * EFFECT * normal.next()));
        }
        sequence.judge();
    }
    sequence.decision(7).expect("decided").verdict
}

#[test]
fn a_session_that_is_off_as_earlier_ones_were_fails_nobody_beside_its_neighbours() {
    assert_eq!(beside_sessions(1.6, None), Verdict::Fail);
    assert_eq!(beside_sessions(1.6, Some(0.05)), Verdict::Fail);
    assert_eq!(beside_sessions(1.6, Some(0.5)), Verdict::Inconclusive);
    assert_eq!(beside_sessions(5.0, Some(0.5)), Verdict::Fail);
}
