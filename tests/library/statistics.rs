//! Statistics against NumPy and SciPy, and the laws they must keep.

use fizeau_domain::{
    stats::{Summary, interval, quantile},
    units::Seconds,
};
use fizeau_record::{
    Record,
    store::{self, RecordError},
};
use proptest::prelude::*;
use serde_json::Value;

/// Times of eleven samples with two interrupted ones, in the order they were taken.
const TIMES: [f64; 11] = [
    0.00317, 0.00302, 0.00309, 0.00311, 0.00299, 0.00356, 0.00305, 0.00308, 0.00301, 0.00412,
    0.00307,
];

fn summary(times: &[f64]) -> Summary {
    let times: Vec<Seconds> = times.iter().copied().map(Seconds).collect();
    Summary::of(&times).expect("there are samples")
}

fn close(found: f64, wanted: f64) {
    assert!((found - wanted).abs() <= 1e-12 * wanted.abs(), "{found} for {wanted}");
}

#[test]
fn quantiles_and_noise_are_those_of_numpy() {
    // numpy.quantile and scipy.stats.median_abs_deviation / numpy.median; NumPy 2.4.6, SciPy
    // 1.17.1.
    let found = summary(&TIMES);
    assert_eq!(found.count, 11);
    close(found.min.0, 0.00299);
    close(found.p5.0, 0.003);
    close(found.p25.0, 0.0030350000000000004);
    close(found.median.0, 0.00308);
    close(found.p75.0, 0.00314);
    close(found.p95.0, 0.00384);
    close(found.p99.0, 0.004064000000000001);
    close(found.max.0, 0.00412);
    close(found.noise, 0.019480519480519393);
    assert_eq!(found.p999, None);

    let four = [5.0, 1.0, 4.0, 2.5];
    close(summary(&four).p5.0, 1.225);
    close(summary(&four).median.0, 3.25);
    close(quantile::median_absolute_deviation(&four), 1.25);
}

#[test]
fn the_999th_permille_is_given_from_a_thousand_samples_on() {
    let times: Vec<f64> = (1..=1000).map(|at| f64::from(at).powf(1.5) * 1e-6).collect();
    let found = summary(&times);
    close(found.p999.expect("a thousand").0, 0.03157540171960404);
    close(found.p99.0, 0.03115009487379794);
    close(found.median.0, 0.011197118779792122);
    assert_eq!(summary(&times[1..]).p999, None);
}

#[test]
fn an_interval_of_few_independent_samples_is_that_of_the_sign_test() {
    // The third sample from below and from above: of 11 signs, 3 or fewer of one kind have a
    // probability above 5 %, 2 or fewer do not (scipy.stats.binomtest).
    let found = summary(&TIMES).interval;
    close(found.low.0, 0.00302);
    close(found.high.0, 0.00317);
    assert_eq!(found.confidence, 0.95);
}

#[test]
fn what_cannot_be_summarised_is_not() {
    assert_eq!(Summary::of(&[]), None);
    assert_eq!(Summary::of(&[Seconds(1.0), Seconds(f64::NAN)]), None);
    assert_eq!(Summary::of(&[Seconds(f64::INFINITY)]), None);
    let one = summary(&[2.0]);
    assert_eq!((one.median, one.noise, one.interval.confidence), (Seconds(2.0), 0.0, 0.0));
}

#[test]
fn the_interval_of_a_ratio_does_not_depend_on_its_direction_or_unit() {
    let slower: Vec<f64> = TIMES.iter().map(|time| time * 2.0).collect();
    let (low, high, is_known) = interval::ratio_interval(&TIMES, &slower);
    assert!(is_known && low < 2.0 && 2.0 < high, "{low}..{high}");
    let (other_low, other_high, _) = interval::ratio_interval(&slower, &TIMES);
    assert!((other_low * high - 1.0).abs() < 1e-9 && (other_high * low - 1.0).abs() < 1e-9);
}

fn times() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(1e-9..10.0f64, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn quantiles_rise(times in times(), one in 0.0..=1.0f64, other in 0.0..=1.0f64) {
        let sorted = quantile::sorted(&times);
        let (low, high) = (one.min(other), one.max(other));
        prop_assert!(quantile::quantile(&sorted, low) <= quantile::quantile(&sorted, high));
    }

    #[test]
    fn a_summary_is_ordered_and_within_its_samples(times in times()) {
        let s = summary(&times);
        let rising = [s.min, s.p5, s.p25, s.median, s.p75, s.p95, s.p99, s.max];
        prop_assert!(rising.is_sorted(), "{s:?}");
        prop_assert!(s.interval.low <= s.median && s.median <= s.interval.high);
        prop_assert!(s.min <= s.interval.low && s.interval.high <= s.max);
        prop_assert!((0.0..=1.0).contains(&s.interval.confidence) && s.noise >= 0.0);
    }

    #[test]
    fn order_does_not_matter_but_to_the_interval(times in times(), turn in 0usize..60) {
        let mut turned = times.clone();
        turned.rotate_left(turn % times.len());
        turned.reverse();
        let interval = summary(&times).interval;
        prop_assert_eq!(Summary { interval, ..summary(&turned) }, summary(&times));
    }

    #[test]
    fn the_unit_does_not_matter(times in times(), exponent in -20i32..20) {
        // Powers of two scale without rounding.
        let factor = 2f64.powi(exponent);
        let scaled: Vec<f64> = times.iter().map(|time| time * factor).collect();
        let (one, other) = (summary(&times), summary(&scaled));
        prop_assert_eq!(one.noise, other.noise);
        for (one, other) in [
            (one.median, other.median),
            (one.p5, other.p5),
            (one.p99, other.p99),
            (one.interval.low, other.interval.low),
            (one.interval.high, other.interval.high),
        ] {
            prop_assert_eq!(one.0 * factor, other.0);
        }
    }
}

/// The committed record, of which the header and the first outcome.
const RECORD: &str = include_str!("../../results/epyc-9005/2026-11-21-kvm-2-cores/record.jsonl");

/// That of a record whose first outcome has another value in its summary.
fn with_summary(field: &str, value: impl Fn(f64) -> f64) -> Result<Record, RecordError> {
    let mut lines = RECORD.lines();
    let header = lines.next().expect("a header");
    let mut line: Value = serde_json::from_str(lines.next().expect("an outcome")).expect("JSON");
    let told = value(line["summary"][field].as_f64().expect("a number"));
    let whole = field == "count";
    line["summary"][field] = if whole { (told as u64).into() } else { told.into() };
    store::parse_text(format!("{header}\n{line}\n").as_bytes())
}

#[test]
fn a_summary_that_is_not_of_its_samples_is_refused() {
    with_summary("median", |median| median).expect("as it was written");
    for (field, factor, words) in [
        ("median", 2.0, "its summary's median time is "),
        ("median", 1.0001, "its summary's median time is "),
        ("min", 0.5, "its summary's least time is "),
        ("max", 1.5, "its summary's largest time is "),
        ("count", 0.5, "its summary is of "),
    ] {
        let error = with_summary(field, |value| value * factor).expect_err(field).to_string();
        assert!(error.contains(words), "{field}: {error}");
    }
    // More than there are cannot be checked, which is said.
    let record = with_summary("count", |_| 100_000.0).expect("thinned");
    assert_eq!(record.notes.len(), 1, "{:?}", record.notes);
    assert!(record.notes[0].starts_with("1 case keeps fewer samples"), "{:?}", record.notes);
}

/// Intervals that were made by a rule for independent samples are made again.
#[test]
fn records_without_effective_sample_sizes_get_intervals_that_allow_for_dependence() {
    assert!(!RECORD.contains("\"independent\""), "of an older version");
    let record = store::parse_text(RECORD.as_bytes()).expect("it is committed");
    let measured = record.outcomes.iter().filter_map(|outcome| outcome.measured());
    let mut unknown = 0;
    for one in measured {
        let again = Summary::of(&one.samples.times).expect("samples").interval;
        assert_eq!(one.summary.interval, again, "{}", one.case);
        let beside = one.contrast.as_ref().map(|beside| beside.summary.interval.independent);
        assert!(again.independent.is_some() && beside != Some(None), "{}", one.case);
        unknown += usize::from(!again.is_known());
    }
    assert_eq!(unknown, 14);
}
