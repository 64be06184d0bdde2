//! Comparing runs: equal machines are the same, planted changes are found.

use crate::synthetic;
use fizeau::{
    bench::{Rank, Workload},
    case::{Case, KernelName, Point, StreamOperation, StreamPoint},
    comm::Alone,
    compare::{Comparison, Fate, Incomparable, THRESHOLD, Waiver},
    device::{Backend, Buffer, Device, DeviceError, Function, Launch, fake::Fake},
    kernel::{Operation, StreamParams},
    outcome::{Check, Outcome},
    record::Record,
    session::one,
    suite::MeasureSettings,
    units::{Bytes, Seconds},
    verdict::Verdict,
};

const SETTINGS: MeasureSettings = MeasureSettings {
    samples_min: 20,
    samples_max: 50,
    noise_max: 0.01,
    time_min: Seconds(0.0),
    time_max: Seconds(1.0),
    warmup_max: Seconds(0.01),
    sample_min: Seconds(1e-4),
    deadline: Seconds(5.0),
};

/// Writes on a fake device: something that takes time.
struct Work<'d>(&'d dyn Device, Function, Buffer, u64);

impl Workload for Work<'_> {
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        let Work(device, function, a, length) = self;
        let (a, length) = (a.address, *length);
        let params = StreamParams { a, b: 0, c: 0, partial: 0, length, scale: 2.0 };
        device.launch(&Launch { function, blocks: 1, repeat, params: params.into() })
    }
    fn poison(&mut self) -> Result<(), DeviceError> {
        self.0.write(&self.2, Bytes(0), &[0xff; 8])
    }
    fn verify(&mut self) -> Result<Check, DeviceError> {
        let mut first = [0.0f64];
        self.0.read(&self.2, Bytes(0), bytemuck::cast_slice_mut(&mut first))?;
        Ok(Check { error: 0.0, tolerance: 0.0, compared: 1, wrong: u64::from(first != [2.0]) })
    }
}

const CASES: u64 = 40;

/// A run of a fake device. Every case drifts by its own factor between runs, the standard
/// deviation being `drift`; those for which `planted` says so are slower by a tenth too.
fn run(seed: u64, drift: f64, planted: impl Fn(u64) -> bool) -> Record {
    let mut random = oorandom::Rand64::new(u128::from(seed));
    let outcomes: Vec<Outcome> = (0..CASES)
        .map(|number| {
            // The sum of twelve uniform numbers is as good as normal.
            let normal = (0..12).map(|_| random.rand_float()).sum::<f64>() - 6.0;
            let slow = (1.0 + drift * normal) * if planted(number) { 1.1 } else { 1.0 };
            let script = format!("slow={slow},seed={}", seed * CASES + number);
            let fake = Fake::parse(&script).expect("a script");
            measure(&fake, 256 * (number + 1))
        })
        .collect();
    let mut record = synthetic::record();
    record.header.run = format!("run-{seed}");
    record.header.device = Fake::default().devices().expect("one device")[0].clone();
    record.header.plan = outcomes.iter().map(|outcome| outcome.case().clone()).collect();
    record.outcomes = outcomes;
    record
}

fn measure(fake: &Fake, length: u64) -> Outcome {
    let device = fake.device();
    let working_set = Bytes(length * 8);
    let point = StreamPoint { stream: StreamOperation::Write, working_set, units: 1 };
    let case = Case { kernel: KernelName("fake".into()), point: Point::Stream(point) };
    let rank = Rank { device: &device, peers: &Alone };
    one::measure_prepared(&case, rank, None, &SETTINGS, || {
        let function = device.load(Operation::Stream(StreamOperation::Write), &case.kernel)?;
        let buffer = device.allocate(working_set)?;
        Ok(Box::new(Work(&device, function, buffer, length)))
    })
}

fn compare(before: &Record, after: &Record) -> Comparison {
    Comparison::of(before, after, THRESHOLD).expect("like devices")
}

#[test]
fn two_runs_of_one_machine_are_the_same() {
    let mut same = 0;
    for seed in 0..10 {
        let found = compare(&run(2 * seed, 0.01, |_| false), &run(2 * seed + 1, 0.01, |_| false));
        assert_eq!(found.regressions(), 0, "{found:?}");
        same += found.count(Fate::Same);
    }
    assert!(same as f64 >= 0.95 * (10 * CASES) as f64, "{same} of {}", 10 * CASES);
}

#[test]
fn a_planted_slowdown_is_found() {
    // In one case, in each eighth, in all of them.
    for (name, share) in [("one", CASES), ("an eighth", 8), ("all", 1)] {
        let (mut found_slower, mut planted_all) = (0, 0);
        for seed in 0..10 {
            let planted = |number: u64| number.is_multiple_of(share);
            let before = run(2 * seed, 0.005, |_| false);
            let after = run(2 * seed + 1, 0.005, planted);
            let found = compare(&before, &after);
            for (number, row) in found.rows.iter().enumerate() {
                let planted = planted(number as u64);
                let never = if planted { Fate::Same } else { Fate::Slower };
                assert_ne!(row.fate, never, "{name}: {row:?}, drift {}", found.drift);
                planted_all += usize::from(planted);
            }
            found_slower += found.count(Fate::Slower);
            let back = compare(&after, &before);
            assert_eq!(back.count(Fate::Faster), found.count(Fate::Slower));
        }
        assert!(found_slower * 20 >= planted_all * 19, "{name}: {found_slower} of {planted_all}");
    }
}

#[test]
fn a_machine_that_drifts_makes_cases_unclear_and_not_slower() {
    let (mut changed, mut unclear) = (0, 0);
    for seed in 0..10 {
        let found = compare(&run(2 * seed, 0.06, |_| false), &run(2 * seed + 1, 0.06, |_| false));
        changed += found.count(Fate::Slower) + found.count(Fate::Faster);
        unclear += found.count(Fate::Unclear);
    }
    let cases = 10 * CASES as usize;
    assert!(changed * 20 < cases && unclear > cases / 2, "{changed} changed, {unclear} unclear");
}

#[test]
fn a_wide_interval_is_unclear_and_never_the_same() {
    let before = run(1, 0.0, |_| false);
    let mut after = run(2, 0.0, |_| false);
    let Outcome::Measured(measurement) = &mut after.outcomes[0] else { panic!("measured") };
    for (at, time) in measurement.samples.times.iter_mut().enumerate() {
        time.0 *= if at % 2 == 0 { 0.7 } else { 1.3 };
    }
    let found = compare(&before, &after);
    assert_eq!(found.rows[0].fate, Fate::Unclear, "{:?}", found.rows[0]);
    assert_eq!(found.count(Fate::Same), CASES as usize - 1);
}

#[test]
fn a_disturbed_case_is_unclear_and_moves_no_other() {
    let before = run(1, 0.0, |_| false);
    let mut after = run(2, 0.0, |_| false);
    for at in 0..8 {
        let fake = Fake::parse("disturbance").expect("a script");
        after.outcomes[at] = measure(&fake, 256 * (at as u64 + 1));
    }
    let found = compare(&before, &after);
    assert_eq!((found.count(Fate::Unclear), found.count(Fate::Same)), (8, CASES as usize - 8));
    assert_eq!(found.rows[0].note.as_deref(), Some("disturbed: B had 50 % of its cores"));
}

#[test]
fn nothing_vanishes_from_a_comparison() {
    let before = run(1, 0.0, |_| false);
    let mut after = run(2, 0.0, |_| false);
    let fake = Fake::parse("launch-error").expect("a script");
    after.outcomes[0] = measure(&fake, 256);
    let case = |at: usize| before.header.plan[at].clone();
    after.outcomes[1] = Outcome::Skipped { case: case(1), reason: "no room".into() };
    after.outcomes.remove(2);
    after.header.plan[3] = measure(&fake, 1 << 20).case().clone();
    after.footer = None;
    let found = compare(&before, &after);
    let fates: Vec<Fate> = found.rows.iter().map(|row| row.fate).collect();
    use Fate::{Broken, Lost, OnlyAfter, OnlyBefore, Same};
    assert_eq!(fates[..5], [Broken, Lost, Lost, OnlyBefore, Same]);
    assert_eq!(fates[CASES as usize..], [OnlyAfter]);
    assert_eq!(found.regressions(), 1);
    let note = |at: usize| found.rows[at].note.clone().unwrap_or_default();
    assert!(note(0).contains("refuses") && note(1).contains("no room"), "{:?}", found.rows);
    assert_eq!(note(2), "A: measured; B: not run");
    assert_eq!(found.warnings, ["B did not run to its end"]);
    let counted: usize = Fate::ALL.iter().map(|&fate| found.count(fate)).sum();
    assert_eq!(counted, found.rows.len());
}

fn waivers(words: &[&str]) -> Vec<Waiver> {
    words.iter().map(|one| one.parse().expect("a waiver")).collect()
}

#[test]
fn what_is_waived_is_shown_and_fails_nothing() {
    let before = run(1, 0.0, |_| false);
    let mut after = run(2, 0.0, |number| number == 1);
    let fake = Fake::parse("launch-error").expect("a script");
    after.outcomes[0] = measure(&fake, 256);
    let mut found = compare(&before, &after);
    assert_eq!((found.regressions(), found.verdict()), (2, Verdict::Fail));
    let slower = found.rows[1].case.to_string();
    found.waive(&waivers(&[&format!("{slower}=known, new driver"), "gemm/*"]));
    assert_eq!((found.regressions(), found.verdict()), (1, Verdict::Fail));
    assert_eq!(found.rows[1].note.as_deref(), Some("slower; waived: known, new driver"));
    assert!(found.rows[1].change.is_some_and(|change| change.ratio > 1.05));
    assert_eq!(found.warnings, ["--waive \"gemm/*\" knows no case"]);
    found.waive(&waivers(&["stream"]));
    assert_eq!((found.regressions(), found.verdict()), (0, Verdict::Pass));
    let note = found.rows[0].note.clone().unwrap_or_default();
    assert!(note.starts_with("broken; B: failed: "), "{note}");
    assert_eq!((found.count(Fate::Waived), found.count(Fate::Same)), (2, CASES as usize - 2));
}

#[test]
fn a_waiver_makes_nothing_better_than_it_is() {
    let before = run(1, 0.0, |_| false);
    let all = compare(&before, &run(2, 0.0, |_| true));
    let mut waived = all.clone();
    waived.waive(&waivers(&["*"]));
    assert_eq!((all.verdict(), waived.verdict()), (Verdict::Fail, Verdict::Waived));
    // What was not run, or cannot be told, is no less unknown for a waiver.
    let mut after = run(2, 0.0, |number| number == 0);
    after.outcomes.truncate(15);
    let mut found = compare(&before, &after);
    found.waive(&waivers(&["*"]));
    assert_eq!((found.count(Fate::Lost), found.verdict()), (25, Verdict::Inconclusive));
    let mut same = compare(&before, &run(2, 0.0, |_| false));
    let rows = same.rows.clone();
    same.waive(&waivers(&["*=nothing to waive"]));
    assert_eq!((same.rows.clone(), same.verdict()), (rows, Verdict::Pass));
    assert!("[".parse::<Waiver>().is_err());
}

#[test]
fn unlike_devices_are_refused() {
    let before = run(1, 0.0, |_| false);
    let refused = Comparison::of(&before, &synthetic::record(), THRESHOLD);
    let Err(error @ Incomparable::DifferentDevices { .. }) = refused else { panic!("compared") };
    assert!(error.to_string().contains("fake device"), "{error}");
    for threshold in [0.0, -0.1, 1.0, f64::NAN] {
        let refused = Comparison::of(&before, &before, threshold);
        assert!(matches!(refused, Err(Incomparable::Threshold(_))), "{threshold}");
    }
}

#[test]
fn a_record_against_itself_says_so() {
    let record = run(1, 0.0, |_| false);
    let found = compare(&record, &record);
    assert_eq!(found.warnings, ["both are the run run-1"]);
    assert_eq!(found.count(Fate::Same), CASES as usize);
}
