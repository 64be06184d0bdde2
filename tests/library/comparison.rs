//! Comparing runs: equal machines are the same, planted changes are found.

use crate::synthetic;
use fizeau::session::one;
use fizeau_bench::{Rank, Workload};
use fizeau_comm::Alone;
use fizeau_device::{Backend, Buffer, Device, DeviceError, Function, Launch, fake::Fake};
use fizeau_domain::{
    case::{
        Case, ComputePoint, Contents, GemmPoint, KernelName, Layout, Point, StreamOperation,
        StreamPoint,
    },
    dtype::Dtype,
    kernel::{Operation, StreamParams},
    outcome::{Cache, Check, Code, Measurement, Outcome},
    spec::{Network, Yardstick},
    suite::MeasureSettings,
    units::{Bytes, Seconds, Watts},
    verdict::Verdict,
};
use fizeau_judge::compare::{Comparison, Fate, Incomparable, Options, judge::Direction};
use fizeau_record::{DeviceSettings, Record};
use fizeau_report::{self as report, Block};

const SETTINGS: MeasureSettings = MeasureSettings {
    samples_min: 20,
    samples_max: 50,
    noise_max: 0.01,
    time_min: Seconds(0.0),
    time_max: Seconds(1.0),
    warmup_max: Seconds(0.01),
    sample_min: Seconds(1e-4),
    deadline: Seconds(5.0),
    regime: None,
    beside: None,
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
    one::measure_prepared(&case, rank, &Yardstick::default(), (&SETTINGS, None), || {
        let function = device.load(Operation::Stream(StreamOperation::Write), &case.kernel)?;
        let buffer = device.allocate(working_set)?;
        Ok(Box::new(Work(&device, function, buffer, length)))
    })
}

fn compare(before: &[Record], after: &[Record]) -> Comparison {
    Comparison::of(before, after, &Options::default()).expect("like machines")
}

fn single(before: &Record, after: &Record) -> Comparison {
    compare(std::slice::from_ref(before), std::slice::from_ref(after))
}

/// Three runs.
fn runs(seed: u64, drift: f64, planted: impl Fn(u64) -> bool) -> Vec<Record> {
    (0..3).map(|number| run(3 * seed + number, drift, &planted)).collect()
}

/// Whoever reads no further must not take a comparison that shows nothing for one that shows that
/// all is well.
#[test]
fn the_first_sentence_says_what_the_cases_can_show() {
    let words = |a: &Record, b: &Record| match report::comparison(&single(a, b)).blocks.first() {
        Some(Block::Text(words)) => words.clone(),
        other => panic!("{other:?}"),
    };
    let (a, mut b) = (run(1, 0.0, |_| false), run(2, 0.0, |_| false));
    assert!(words(&a, &a).starts_with("A and B are the same run"), "{}", words(&a, &a));
    let half = |of: &Record, odd: usize| {
        let mut part = of.clone();
        let mut at = 0..;
        part.header.plan.retain(|_| at.next().is_some_and(|at: usize| at % 2 == odd));
        let mut at = 0..;
        part.outcomes.retain(|_| at.next().is_some_and(|at: usize| at % 2 == odd));
        part
    };
    let apart = words(&half(&a, 0), &half(&b, 1));
    assert!(apart.starts_with("Nothing to compare: no case is in both A and B"), "{apart}");
    assert!(words(&a, &b).starts_with("No case got worse"), "{}", words(&a, &b));
    for outcome in b.outcomes.iter_mut().skip(4) {
        let case = outcome.case().clone();
        *outcome = Outcome::Skipped { case, reason: "planted".into() };
    }
    assert!(words(&a, &b).starts_with("Cannot tell"), "{}", words(&a, &b));
}

#[test]
fn runs_of_one_machine_are_the_same() {
    let mut same = 0;
    for seed in 0..4 {
        let (a, b) = (runs(2 * seed, 0.01, |_| false), runs(2 * seed + 1, 0.01, |_| false));
        let found = compare(&a, &b);
        assert_eq!(found.verdict(), Verdict::Pass, "{found:?}");
        same += found.count(Fate::Same);
        let found = single(&a[0], &b[0]);
        assert_eq!(found.regressions(), 0, "{found:?}");
    }
    assert!(same as f64 >= 0.95 * (4 * CASES) as f64, "{same} of {}", 4 * CASES);
}

#[test]
fn a_planted_slowdown_is_found_by_replicates_and_fails_no_single_pair() {
    // In one case, in every second, in all of them.
    for (name, share) in [("one", CASES), ("every second", 2), ("all", 1)] {
        let (mut found_slower, mut planted_all) = (0, 0);
        for seed in 0..3 {
            let planted = |number: u64| number.is_multiple_of(share);
            let before = runs(2 * seed, 0.005, |_| false);
            let after = runs(2 * seed + 1, 0.005, planted);
            let found = compare(&before, &after);
            for (number, row) in found.rows.iter().enumerate() {
                let planted = planted(number as u64);
                let never = if planted { Fate::Same } else { Fate::Slower };
                assert_ne!(row.fate, never, "{name}: {row:?}, scatter {:?}", found.scatter);
                planted_all += usize::from(planted);
            }
            found_slower += found.count(Fate::Slower);
            let back = compare(&after, &before);
            assert_eq!(back.count(Fate::Faster), found.count(Fate::Slower));
            let pair = single(&before[0], &after[0]);
            assert_eq!(pair.verdict(), Verdict::Inconclusive, "{name}");
            assert!(pair.longer() > 0 && pair.regressions() == 0, "{name}: {pair:?}");
        }
        assert!(found_slower * 20 >= planted_all * 19, "{name}: {found_slower} of {planted_all}");
    }
}

#[test]
fn what_a_family_shares_is_said_in_a_line() {
    let before = runs(0, 0.005, |_| false);
    let found = compare(&before, &runs(1, 0.005, |_| true));
    let all = &found.groups[0];
    assert_eq!((all.name.as_str(), all.way), ("*", Direction::Slower));
    assert_eq!((all.changed, all.cases), (CASES as usize, CASES as usize));
    assert!((all.ratio - 1.1).abs() < 0.01, "{all:?}");
    // What narrower groups would repeat is not told twice.
    assert_eq!(found.groups.len(), 1, "{:?}", found.groups);
    let text = fizeau_report::comparison(&found);
    let said = format!("{text:?}");
    assert!(said.contains("all cases: median time +") && said.contains("40 of 40 cases"), "{said}");
}

#[test]
fn a_change_out_of_all_proportion_fails_two_single_runs() {
    let before = run(1, 0.005, |_| false);
    let mut after = run(2, 0.005, |_| false);
    let Outcome::Measured(measurement) = &mut after.outcomes[7] else { panic!("measured") };
    measurement.samples.times.iter_mut().for_each(|time| time.0 *= 2.0);
    measurement.summary.median.0 *= 2.0;
    let found = single(&before, &after);
    assert_eq!((found.rows[7].fate, found.verdict()), (Fate::Slower, Verdict::Fail));
}

#[test]
fn a_machine_that_drifts_makes_cases_unclear_and_not_slower() {
    let (mut changed, mut unclear) = (0, 0);
    for seed in 0..3 {
        let found = compare(&runs(2 * seed, 0.06, |_| false), &runs(2 * seed + 1, 0.06, |_| false));
        changed += found.count(Fate::Slower) + found.count(Fate::Faster);
        unclear += found.count(Fate::Unclear);
    }
    let cases = 3 * CASES as usize;
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
    let found = single(&before, &after);
    assert_eq!(found.rows[0].fate, Fate::Unclear, "{:?}", found.rows[0]);
    let note = found.rows[0].note.clone().unwrap_or_default();
    assert!(note.starts_with("anything from -"), "{note}");
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
    let found = single(&before, &after);
    assert_eq!((found.count(Fate::Unclear), found.count(Fate::Same)), (8, CASES as usize - 8));
    assert_eq!(
        found.rows[0].note.as_deref(),
        Some("disturbed: B had 50 % of its cores, which other processes left to it")
    );
    // Among replicates it is left out, and the others decide.
    let many = compare(
        &[before.clone(), run(3, 0.0, |_| false)],
        &[after, run(4, 0.0, |_| false), run(5, 0.0, |_| false)],
    );
    assert_eq!((many.rows[0].fate, many.count(Fate::Unclear)), (Fate::Same, 0));
    assert_eq!(
        many.rows[0].note.as_deref(),
        Some("disturbed: B1 had 50 % of its cores, which other processes left to it")
    );
}

/// One run of B among three of A has no scatter: whatever is its own alone looks like a change.
#[test]
fn a_side_of_which_one_run_is_left_is_not_judged_by_scatter() {
    let before = runs(0, 0.005, |_| false);
    let slower = |number: u64| number == 4;
    let found = compare(&before, &[run(7, 0.005, slower)]);
    assert_eq!((found.scatter, found.regressions()), (None, 0), "{found:?}");
    assert_eq!((found.rows[4].fate, found.verdict()), (Fate::Differs, Verdict::Inconclusive));
    let note = found.rows[4].note.clone().unwrap_or_default();
    assert!(note.starts_with("a single run on one side"), "{note}");
    let back = compare(&[run(7, 0.005, slower)], &before);
    assert_eq!((back.rows[4].fate, back.verdict()), (Fate::Differs, Verdict::Pass));
    // Two of three runs of B were disturbed: in one case, and in all of them.
    let disturb = |record: &mut Record, cases: usize| {
        for outcome in &mut record.outcomes[..cases] {
            let Outcome::Measured(one) = outcome else { panic!("measured") };
            one.available = Some(0.5);
        }
    };
    let mut after = runs(3, 0.005, |number| number == 0);
    after[1..].iter_mut().for_each(|record| disturb(record, 1));
    let found = compare(&before, &after);
    assert_eq!(
        (found.rows[0].fate, found.regressions()),
        (Fate::Unclear, 0),
        "{:?}",
        found.rows[0]
    );
    after[1..].iter_mut().for_each(|record| disturb(record, CASES as usize));
    let found = compare(&before, &after);
    assert_eq!((found.scatter, found.regressions()), (None, 0), "{found:?}");
    assert_eq!(found.rows[0].fate, Fate::Differs, "{:?}", found.rows[0]);
}

#[test]
fn single_runs_that_are_faster_pass() {
    let (fast, slow) = (run(1, 0.005, |_| false), run(2, 0.005, |_| true));
    let found = single(&slow, &fast);
    assert!(found.count(Fate::Differs) > 20, "{found:?}");
    assert_eq!((found.longer(), found.verdict()), (0, Verdict::Pass), "{found:?}");
    assert_eq!(single(&fast, &slow).verdict(), Verdict::Inconclusive);
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
    let found = single(&before, &after);
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

/// Cases that one run alone has are counted by kind for people, and each stands in CSV and JSON.
#[test]
fn cases_without_a_pair_are_counted_and_not_listed() {
    let before = run(1, 0.0, |_| false);
    let mut after = run(2, 0.0, |_| false);
    let alone = |plan: &mut Vec<Case>, kernel: &str, count: u32| {
        for m in 1..=count {
            let point = Point::Gemm(GemmPoint {
                dtype: Dtype::Bf16,
                m,
                n: 64,
                k: 64,
                layout: Layout::default(),
                contents: Contents::default(),
            });
            plan.push(Case { point, kernel: KernelName(kernel.into()) });
        }
    };
    alone(&mut after.header.plan, "one", 60);
    alone(&mut after.header.plan, "two", 40);
    let document = report::comparison(&single(&before, &after));
    let shown = |format| {
        let terminal = report::format::terminal::Terminal {
            width: None,
            colour: report::format::terminal::Colour::Never,
        };
        fizeau::cmd::document::render(&document, format, terminal).expect("it renders")
    };
    use fizeau::cmd::document::ReportFormat::{Csv, Html, Json, Markdown, Terminal};
    for format in [Terminal, Markdown, Html] {
        let text = shown(format).replace("&#x2f;", "/");
        assert!(!text.contains("gemm/bf16/7x64x64/one"), "{text}");
        assert!(text.contains("gemm/bf16/*/one") || text.contains("gemm/bf16/\\*/one"), "{text}");
    }
    let text = shown(Terminal);
    let line = |kind: &str| text.lines().find(|line| line.contains(kind)).expect("a line");
    assert!(line("gemm/bf16/*/one").trim_end().ends_with("60"), "{text}");
    assert!(line("gemm/bf16/*/two").trim_end().ends_with("40"), "{text}");
    for format in [Csv, Json] {
        let text = shown(format);
        assert_eq!(text.matches("x64x64/").count(), 100, "each case stands there");
    }
}

#[test]
fn times_of_other_quantities_are_not_compared() {
    type Change = fn(&mut Measurement);
    let changes: [(&str, Change); 3] = [
        ("caches: hot in A, cold in B", |one| one.cache = Cache::Cold),
        ("bytes of an iteration: ", |one| one.work.memory.0 *= 2),
        ("operations of an iteration: ", |one| one.work.flops.0 += 1.0),
    ];
    let before = runs(0, 0.0, |_| false);
    let mut after = runs(1, 0.0, |_| false);
    for outcomes in after.iter_mut().map(|run| &mut run.outcomes) {
        for ((_, change), outcome) in changes.iter().zip(outcomes) {
            let Outcome::Measured(one) = outcome else { panic!("measured") };
            change(one);
            // Ten times as long, it would be slower by any rule.
            one.summary.median.0 *= 10.0;
            one.samples.times.iter_mut().for_each(|time| time.0 *= 10.0);
        }
    }
    for found in [compare(&before, &after), single(&before[0], &after[0])] {
        for ((words, _), row) in changes.iter().zip(&found.rows) {
            assert_eq!((row.fate, row.change), (Fate::Incomparable, None), "{row:?}");
            let note = row.note.clone().unwrap_or_default();
            let starts = words.replace(" A", " A1").replace(" B", " B1");
            assert!(note.starts_with(words) || note.starts_with(&starts), "{note}");
        }
        assert_eq!(found.count(Fate::Incomparable), changes.len());
        assert_eq!((found.regressions(), found.verdict()), (0, Verdict::Pass));
        let said = format!("{:?}", fizeau_report::comparison(&found));
        assert!(said.contains("incomparable, ") && said.contains(": caches: hot in A"), "{said}");
    }
    // Where a side's own replicates differ, its mean is of nothing.
    let mut mixed = before.clone();
    mixed[2].outcomes.clone_from(&after[2].outcomes);
    let found = compare(&mixed, &runs(2, 0.0, |_| false));
    assert_eq!(found.count(Fate::Incomparable), changes.len());
    let note = found.rows[0].note.clone().unwrap_or_default();
    assert_eq!(note, "caches: hot in A1, cold in A3");
    // What cannot be compared is not known to be as good as before.
    for record in &mut after {
        for outcome in &mut record.outcomes {
            let Outcome::Measured(one) = outcome else { panic!("measured") };
            one.cache = Cache::Cold;
        }
    }
    assert_eq!(compare(&before, &after).verdict(), Verdict::Inconclusive);
}

#[test]
fn element_types_kernels_units_and_layouts_are_cases_of_their_own() {
    let before = run(1, 0.0, |_| false);
    let case = |kernel: &str, dtype, units| {
        let point = Point::Compute(ComputePoint { dtype, units });
        Case { kernel: KernelName(kernel.into()), point }
    };
    let product = |layout| {
        let (m, n, k, contents) = (64, 64, 64, Contents::Random);
        let point = Point::Gemm(GemmPoint { dtype: Dtype::Bf16, m, n, k, layout, contents });
        Case { kernel: KernelName("fake".into()), point }
    };
    let one = case("fake", Dtype::F32, 1);
    let others = [
        (one.clone(), case("other", Dtype::F32, 1)),
        (one.clone(), case("fake", Dtype::F64, 1)),
        (one, case("fake", Dtype::F32, 2)),
        (product(Layout::Nn), product(Layout::Nt)),
    ];
    for (one, other) in others {
        let with = |record: &Record, name: &str, case: &Case| {
            let mut record = record.clone();
            record.header.run = name.into();
            record.header.plan[0] = case.clone();
            let Outcome::Measured(measured) = &mut record.outcomes[0] else { panic!("measured") };
            measured.case = case.clone();
            record
        };
        let found = single(&with(&before, "one", &one), &with(&before, "two", &other));
        let fates = [found.rows[0].fate, found.rows[CASES as usize].fate];
        assert_eq!(fates, [Fate::OnlyBefore, Fate::OnlyAfter], "{other}");
        assert!(found.rows[0].change.is_none() && found.rows[CASES as usize].change.is_none());
    }
}

fn waiving(words: &[&str]) -> Options {
    let waivers = words.iter().map(|one| one.parse().expect("a waiver")).collect();
    Options { waivers, ..Options::default() }
}

#[test]
fn what_is_waived_is_shown_and_fails_nothing() {
    let before = runs(0, 0.0, |_| false);
    let mut after = runs(1, 0.0, |number| number == 1);
    let fake = Fake::parse("launch-error").expect("a script");
    after[1].outcomes[0] = measure(&fake, 256);
    let found = compare(&before, &after);
    assert_eq!((found.regressions(), found.verdict()), (2, Verdict::Fail));
    let slower = found.rows[1].case.to_string();
    let some = waiving(&[&format!("{slower}=known, new driver"), "gemm/*"]);
    let found = Comparison::of(&before, &after, &some).expect("alike");
    assert_eq!((found.regressions(), found.verdict()), (1, Verdict::Fail));
    assert_eq!(found.rows[1].note.as_deref(), Some("slower; waived: known, new driver"));
    assert!(found.rows[1].change.is_some_and(|change| change.ratio > 1.05));
    assert!(found.warnings.contains(&"--waive \"gemm/*\" knows no case".into()));
    let found = Comparison::of(&before, &after, &waiving(&["stream"])).expect("alike");
    assert_eq!((found.regressions(), found.verdict()), (0, Verdict::Pass));
    let note = found.rows[0].note.clone().unwrap_or_default();
    assert!(note.starts_with("broken; B2: failed: "), "{note}");
    assert_eq!((found.count(Fate::Waived), found.count(Fate::Same)), (2, CASES as usize - 2));
}

#[test]
fn a_waiver_makes_nothing_better_than_it_is() {
    let before = runs(0, 0.0, |_| false);
    let slower = runs(1, 0.0, |_| true);
    let waived = Comparison::of(&before, &slower, &waiving(&["*"])).expect("alike");
    assert_eq!(compare(&before, &slower).verdict(), Verdict::Fail);
    // A group of which all cases are waived fails nothing either.
    assert_eq!((waived.verdict(), waived.groups.len()), (Verdict::Waived, 0));
    // What was not run, or cannot be told, is no less unknown for a waiver.
    let mut after = runs(1, 0.0, |number| number == 0);
    after.iter_mut().for_each(|record| record.outcomes.truncate(15));
    let found = Comparison::of(&before, &after, &waiving(&["*"])).expect("alike");
    assert_eq!((found.count(Fate::Lost), found.verdict()), (25, Verdict::Inconclusive));
    let same = runs(1, 0.0, |_| false);
    let found = Comparison::of(&before, &same, &waiving(&["*=nothing to waive"])).expect("alike");
    assert_eq!(
        (found.rows.clone(), found.verdict()),
        (compare(&before, &same).rows, Verdict::Pass)
    );
    assert!("[".parse::<fizeau_judge::compare::Waiver>().is_err());
}

#[test]
fn other_machines_are_refused_unless_asked_for() {
    let before = run(1, 0.0, |_| false);
    let refused =
        Comparison::of(std::slice::from_ref(&before), &[synthetic::record()], &Options::default());
    let Err(error @ Incomparable::DifferentMachines(_)) = refused else { panic!("compared") };
    assert!(error.to_string().contains("fake device"), "{error}");
    // Whatever makes it another machine, and what does not.
    type Change = fn(&mut Record);
    let changes: [(&str, bool, Change); 11] = [
        ("part", true, |run| run.header.part = Some("other".into())),
        ("CPU: ", true, |run| run.header.environment.cpu = "another CPU".into()),
        ("memory: ", true, |run| run.header.device.memory.0 += 8 << 30),
        ("host: ", true, |run| run.header.environment.host = Some("node-18".into())),
        ("device: ", true, |run| run.header.device.units += 1),
        ("operating system: ", false, |run| run.header.environment.os = "linux 7".into()),
        ("libraries and drivers: ", false, |run| {
            run.header.environment.libraries = vec!["driver 999".into()];
        }),
        ("frequency governor: ", false, |run| {
            run.header.environment.governor = Some("powersave".into());
        }),
        ("power limit: ", false, |run| {
            let power_limit = Some(Watts(if run.header.run == "run-1" { 700.0 } else { 500.0 }));
            run.header.environment.settings =
                Some(DeviceSettings { power_limit, ..DeviceSettings::default() });
        }),
        ("other code", false, |run| {
            let Outcome::Measured(one) = &mut run.outcomes[0] else { panic!("measured") };
            one.code = vec![Code::Library { name: "blas".into(), version: run.header.run.clone() }];
        }),
        ("suite's text differs", false, |run| run.header.suite_text += "\n# and more\n"),
    ];
    for (words, is_machine, change) in changes {
        let (mut before, mut after) = (before.clone(), run(2, 0.0, |_| false));
        change(&mut after);
        if ["power limit: ", "other code"].contains(&words) {
            // What only one of them has recorded is no difference.
            change(&mut before);
        }
        let both = (std::slice::from_ref(&before), std::slice::from_ref(&after));
        let plain = Comparison::of(both.0, both.1, &Options::default());
        match (is_machine, plain) {
            (true, Err(error)) => assert!(error.to_string().contains(words), "{words}: {error}"),
            (false, Ok(found)) => {
                assert!(found.warnings.iter().any(|one| one.contains(words)), "{words}");
            }
            (_, other) => panic!("{words}: {other:?}"),
        }
        let across = Options { across: true, ..Options::default() };
        let found = Comparison::of(both.0, both.1, &across).expect("asked for");
        assert!(found.warnings.iter().any(|one| one.contains(words)), "{:?}", found.warnings);
    }
}

/// Where none is the value: a machine without a hypervisor, a process without a quota.
#[test]
fn what_one_side_has_and_the_other_is_without_is_a_difference() {
    type Change = fn(&mut Record);
    let changes: [(&str, Change); 7] = [
        ("hypervisor: ", |run| run.header.device.virtualised = Some("KVM".into())),
        ("CPU quota: none in A, 0.50 CPUs in B", |run| {
            run.header.environment.cpu_quota = Some(0.5);
        }),
        ("memory limit: none in A, ", |run| {
            run.header.environment.memory_limit = Some(Bytes(1 << 30));
        }),
        ("held clocks: none in A, 1200 MHz in B", |run| {
            let settings = run.header.environment.settings.get_or_insert_default();
            settings.clock_locks = Some("1200 MHz".into());
        }),
        ("cache set aside: none in A, ", |run| {
            run.header.device.cache_set_aside = Some(Bytes(1 << 20));
        }),
        ("libraries and drivers: none in A, blas 3 in B", |run| {
            run.header.environment.libraries = vec!["blas 3".into()];
        }),
        ("network: none in A, 2 nodes", |run| {
            let network = Network { nodes: 2, interfaces: 1, gigabits: 100 };
            run.header.environment.network = Some(network);
        }),
    ];
    let without = |seed| {
        let mut record = run(seed, 0.0, |_| false);
        record.header.device.virtualised = None;
        record.header.environment.libraries.clear();
        record.header.environment.settings = Some(DeviceSettings::default());
        record
    };
    let (before, plain) = (without(1), without(2));
    assert_eq!(single(&before, &plain).warnings, [""; 0]);
    for (words, change) in changes {
        let mut after = plain.clone();
        change(&mut after);
        let found = Comparison::of(
            std::slice::from_ref(&before),
            std::slice::from_ref(&after),
            &Options::default(),
        );
        match found {
            Err(error) => {
                assert!(words.starts_with("hypervisor"), "{words}: {error}");
                assert!(error.to_string().contains("hypervisor: none in A, KVM in B"), "{error}");
            }
            Ok(found) => {
                let named = found.warnings.iter().any(|one| one.starts_with(words));
                assert!(named && !words.starts_with("hypervisor"), "{words}: {:?}", found.warnings);
            }
        }
    }
    // Settings that a driver does not tell are unknown.
    let mut untold = plain.clone();
    untold.header.environment.settings = None;
    assert_eq!(single(&before, &untold).warnings, [""; 0]);
}

#[test]
fn options_are_shares() {
    let before = [run(1, 0.0, |_| false)];
    for wrong in [0.0, -0.1, 1.0, f64::NAN] {
        let options = Options { threshold: wrong, ..Options::default() };
        let refused = Comparison::of(&before, &before, &options);
        assert!(matches!(refused, Err(Incomparable::Threshold(_))), "{wrong}");
        let options = Options { false_discoveries: wrong, ..Options::default() };
        let refused = Comparison::of(&before, &before, &options);
        assert!(matches!(refused, Err(Incomparable::FalseDiscoveries(_))), "{wrong}");
    }
    let nothing = Comparison::of(&before, &[], &Options::default());
    assert_eq!(nothing, Err(Incomparable::Nothing));
}

#[test]
fn a_record_against_itself_says_so() {
    let record = run(1, 0.0, |_| false);
    let found = single(&record, &record);
    assert_eq!(found.warnings, ["both are the run run-1"]);
    assert_eq!(found.count(Fate::Same), CASES as usize);
    // As a replicate it would make the scatter too small.
    let twice = [record.clone(), record];
    let refused = Comparison::of(&twice, &[run(2, 0.0, |_| false)], &Options::default());
    assert_eq!(refused, Err(Incomparable::SameRun("run-1".into())));
}
