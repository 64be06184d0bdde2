//! What the committed records say against themselves, and what a report makes of it.

use crate::{data, synthetic};
use fizeau::data::Catalogue;
use fizeau_domain::{
    case::{LatencyPoint, Point, StreamOperation, StreamPoint},
    outcome::{Cache, Contrast, Measurement, Outcome, Telemetry},
    random_peaks::RandomPeaks,
    spec::part::GpuFile,
    stats::Summary,
    units::{Bytes, Celsius, FlopsPerSecond, Joules, Megahertz, Seconds, Watts},
    verdict::Verdict,
};
use fizeau_judge::{
    compare::{Comparison, Options},
    discover::Discovery,
};
use fizeau_projection::project::Hardware;
use fizeau_record::{DeviceSettings, Header, Record, store};
use fizeau_report::consistency::{self, Finding};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Every record that is committed.
fn records() -> Vec<PathBuf> {
    fn below(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
            let path = entry.path();
            if path.is_dir() {
                below(&path, found);
            } else if path.ends_with("record.jsonl") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("results"), &mut found);
    found.sort();
    found
}

/// Each contradiction in a committed record is listed with its reason: none comes and none goes
/// unnoticed. `scripts/check_peers.py` reads the same list.
#[test]
fn contradictions_of_the_committed_records_are_those_that_are_listed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = String::new();
    for path in records() {
        let record = store::read(&path).expect("a record");
        let name = path.strip_prefix(root).expect("below the root").display().to_string();
        for Finding { case, words, .. } in consistency::findings(&record) {
            all += &format!("{name}\t{case}\t{words}\n");
        }
    }
    insta::assert_snapshot!("contradictions", all);
}

/// The guard says that no rate of a memory can be above what its clock, two transfers in each cycle
/// and its width come to: the limit of the part's file is no lower than that of the device.
#[test]
fn the_memory_clocks_of_the_committed_records_are_within_the_limits_of_their_parts() {
    let catalogue = Catalogue::load(None).expect("the embedded catalogue");
    let files = data::files::<GpuFile>("parts");
    let mut compared = 0;
    for path in records() {
        let record = store::read(&path).expect("a record");
        let Some(part) = catalogue.part_of(&record.header.device) else { continue };
        let clock = |outcome: &Outcome| {
            let Outcome::Measured(measured) = outcome else { return None };
            measured.telemetry.as_ref()?.memory_clock_min
        };
        let clocks = record.outcomes.iter().filter_map(clock);
        let Some(clock) = clocks.max_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
        let bits = files[&part.id].memory_bus_bits.expect("a width");
        let bytes = clock.0 * 1e6 * 2.0 * f64::from(bits) / 8.0;
        let most = part.memory_bandwidth_most.expect("a limit").0;
        assert!(bytes < 1.001 * most, "{}: {clock} x {bits} bits above {most}", path.display());
        compared += 1;
    }
    assert!(compared >= 10, "{compared} records with a memory clock");
}

/// A record of one measured case whose samples are given, in the order in which they were taken.
fn with_samples(times: impl IntoIterator<Item = f64>) -> Record {
    let mut record: Record = synthetic::record();
    let times: Vec<Seconds> = times.into_iter().map(Seconds).collect();
    let one = synthetic::measured_in(&mut record).next().expect("a case");
    one.summary = Summary::of(&times).expect("a summary");
    one.samples.times = times;
    one.contrast = None;
    record
}

#[test]
fn a_figure_of_two_states_has_no_share_and_says_why() {
    let steady = with_samples((0..100).map(|at| 1e-3 * (1.0 + 1e-4 * f64::from(at % 7))));
    let one = steady.outcomes.iter().find_map(|one| one.measured()).expect("measured");
    assert!(one.utilisation().is_some() && one.doubt().is_none());
    let step = |at: i32| 1e-3 * (1.0 + 1e-4 * f64::from(at % 7)) * if at < 40 { 1.0 } else { 1.1 };
    let stepped = with_samples((0..100).map(step));
    let one = stepped.outcomes.iter().find_map(|one| one.measured()).expect("measured");
    assert_eq!(one.utilisation(), None);
    let words = one.doubt().expect("a doubt").to_string();
    assert!(words.starts_with("two states: 1.100 ms (60 %), 1.000 ms (40 %)"), "{words}");
    let sentences = consistency::sentences(&stepped).join("\n");
    assert!(sentences.contains("two states of the machine"), "{sentences}");
}

#[test]
fn hot_caches_that_seem_slower_than_cold_ones_are_named() {
    let of = |hot: f64| {
        let mut record = with_samples((0..40).map(|at| 1e-3 * (1.0 + 1e-4 * f64::from(at % 7))));
        let one = synthetic::measured_in(&mut record).next().expect("a case");
        one.cache = Cache::Cold;
        let times: Vec<Seconds> =
            (0..40).map(|at| Seconds(hot * (1.0 + 1e-4 * f64::from(at % 5)))).collect();
        let summary = Summary::of(&times).expect("a summary");
        let samples = fizeau_domain::outcome::Samples { times, ..one.samples.clone() };
        one.contrast = Some(Contrast { cache: Cache::Hot, samples, summary });
        consistency::findings(&record).into_iter().map(|found| found.words).collect::<Vec<_>>()
    };
    assert!(of(0.9e-3).is_empty(), "{:?}", of(0.9e-3));
    assert!(of(1.01e-3).is_empty(), "within noise: {:?}", of(1.01e-3));
    let found = of(1.1e-3);
    assert!(found[0].starts_with("slower by 10.0 % with hot caches"), "{found:?}");
}

/// The first sentence of a run, where it is on the figures.
fn first_words(record: &Record) -> String {
    let document = fizeau_report::run(record);
    let first = document.blocks.iter().find_map(|block| match block {
        fizeau_report::Block::Text(words) => Some(words.clone()),
        _ => None,
    });
    first.unwrap_or_default()
}

#[test]
fn a_run_of_which_most_figures_are_noisy_or_disturbed_says_so_first() {
    let quiet = synthetic::record();
    assert!(!first_words(&quiet).contains("Do not quote"), "{}", first_words(&quiet));
    let mut noisy: Record = synthetic::record();
    synthetic::measured_in(&mut noisy).for_each(|one| one.summary.noise = 0.2);
    let words = first_words(&noisy);
    assert!(words.starts_with("Do not quote these figures: of "), "{words}");
    assert!(words.contains("scatter by more than 5 %"), "{words}");
    // No praise stands beside it; how many cases were measured is a sentence of its own.
    let document = fizeau_report::run(&noisy);
    let texts: Vec<&str> = document
        .blocks
        .iter()
        .filter_map(|block| match block {
            fizeau_report::Block::Text(words) => Some(words.as_str()),
            _ => None,
        })
        .collect();
    assert!(!texts[0].contains("measured.") && !texts[1].contains("omplete"), "{texts:?}");
    assert!(texts[1].contains(" measured"), "{texts:?}");
    let mut disturbed: Record = synthetic::record();
    synthetic::measured_in(&mut disturbed).for_each(|one| one.available = Some(0.5));
    let words = first_words(&disturbed);
    assert!(words.contains("lost CPU time to other processes"), "{words}");
    // Rows of a table are quoted without the sentence above them.
    let csv = |record: &Record| {
        let document = fizeau_report::run(record);
        fizeau_report::format::csv::render(&document).expect("a table")
    };
    assert!(csv(&disturbed).contains("had 50 % of its cores"));
    assert!(!csv(&quiet).contains("disturbed"));
}

/// Many steady cases that two records have in common, and a last one whose samples are given.
fn beside_steady_cases(run: &str, last: impl IntoIterator<Item = f64>) -> Record {
    let mut record = synthetic::record();
    record.header.run = run.into();
    let steady: Vec<Seconds> =
        (0..100).map(|at| Seconds(1e-3 * (1.0 + 1e-4 * f64::from(at % 7)))).collect();
    let take = |one: &mut Measurement, times: &[Seconds]| {
        (one.summary, one.contrast) = (Summary::of(times).expect("a summary"), None);
        one.samples.times = times.to_vec();
    };
    synthetic::measured_in(&mut record).for_each(|one| take(one, &steady));
    let times: Vec<Seconds> = last.into_iter().map(Seconds).collect();
    take(synthetic::measured_in(&mut record).last().expect("a case"), &times);
    record
}

/// A second and slower state in B alone is no pass, although the median is that of A; A's own is.
#[test]
fn a_slower_state_that_only_b_has_is_inconclusive_in_a_comparison_of_single_runs() {
    let steady = |at: i32| 1e-3 * (1.0 + 1e-4 * f64::from(at % 7));
    let stepped = |at: i32| steady(at) * if at < 60 { 1.0 } else { 1.15 };
    let one = beside_steady_cases("one", (0..100).map(steady));
    let two = beside_steady_cases("two", (0..100).map(stepped));
    let verdict = |before: &Record, after: &Record| {
        let [before, after] = [before, after].map(std::slice::from_ref);
        let found = Comparison::of(before, after, &Options::default()).expect("alike");
        let notes: String = found.rows.iter().filter_map(|row| row.note.clone()).collect();
        (found.verdict(), found.slower_states(), notes)
    };
    let also_one =
        Record { header: Header { run: "x".into(), ..one.header.clone() }, ..one.clone() };
    assert_eq!(verdict(&one, &also_one).0, Verdict::Pass);
    let (found, slower, notes) = verdict(&one, &two);
    assert_eq!((found, slower), (Verdict::Inconclusive, 1), "{notes}");
    assert!(notes.contains("B: two states: "), "{notes}");
    let (found, slower, notes) = verdict(&two, &one);
    assert_eq!((found, slower), (Verdict::Pass, 0), "{notes}");
    assert!(notes.contains("A: two states: "), "{notes}");
}

/// A projection counts with the slower of two states and says so; a ceiling of a record lies at the
/// faster one.
#[test]
fn a_projection_takes_the_slower_of_two_states() {
    let steady = |at: i32| 1e-3 * (1.0 + 1e-4 * f64::from(at % 7));
    let hardware = |slow: f64| {
        let mut record = synthetic::record();
        let random = |one: &&mut Measurement| match one.case.point {
            Point::Gemm(point) => point.contents.are_random(),
            _ => false,
        };
        let states = (0..100).map(|at| Seconds(steady(at) * if at < 60 { 1.0 } else { slow }));
        let states: Vec<Seconds> = states.collect();
        for one in synthetic::measured_in(&mut record).filter(random) {
            (one.summary, one.contrast) = (Summary::of(&states).expect("a summary"), None);
            (one.samples.times, one.beside) = (states.clone(), None);
        }
        Hardware::of_record("made up", &record, None).expect("hardware")
    };
    let (one, two) = (hardware(1.0), hardware(1.2));
    let noted = |hardware: &Hardware| hardware.notes.iter().any(|note| note.contains("two states"));
    assert!(!noted(&one) && noted(&two), "{:?}", two.notes);
    let ceilings = one.peaks.values().zip(two.peaks.values());
    let is_same =
        |(one, two): (&FlopsPerSecond, &FlopsPerSecond)| (one.0 / two.0 - 1.0).abs() < 1e-9;
    assert!(ceilings.into_iter().all(is_same), "the faster state is the ceiling");
    let lowest = |hardware: &Hardware| format!("{:?}", hardware.measured);
    assert_ne!(lowest(&one), lowest(&two));
}

/// A peak by constants is no ceiling of a record that also has one by random numbers.
#[test]
fn a_peak_by_constants_is_outdone_by_random_numbers() {
    let mut record = synthetic::record();
    let is_peak = |one: &&Measurement| matches!(one.case.point, Point::Compute(_));
    let like = record.outcomes.iter().filter_map(|one| one.measured()).find(is_peak);
    let constants = like.expect("a peak").clone();
    let mut random = constants.clone();
    random.case.kernel.0 += "_random";
    random.summary.median.0 *= 1.2;
    let both = [&constants, &random];
    let peaks = RandomPeaks::of(both);
    assert_eq!(both.map(|one| peaks.outdo(one)), [true, false]);
    assert!(!RandomPeaks::of([&constants]).outdo(&constants), "alone it is all there is");
    let rate = constants.work.flops / random.summary.median;
    record.outcomes.push(Outcome::Measured(Box::new(random)));
    let found = Discovery::of(&record);
    assert_eq!(
        found.arithmetic.iter().find(|one| one.rate == rate).map(|one| one.rate),
        Some(rate)
    );
}

/// A record whose first cases are at these points, by one kernel and with hot caches, each with a
/// median time.
fn at_points(points: &[(Point, f64)]) -> Record {
    let mut record = synthetic::record();
    for (one, (point, time)) in synthetic::measured_in(&mut record).zip(points) {
        let times: Vec<Seconds> =
            (0..40).map(|at| Seconds(time * (1.0 + 1e-4 * f64::from(at % 7)))).collect();
        (one.case.point, one.work) = (*point, point.work());
        one.case.kernel.0 = "one".into();
        (one.cache, one.contrast) = (Cache::Hot, None);
        one.summary = Summary::of(&times).expect("a summary");
        one.samples.times = times;
    }
    record
}

fn kinds(record: &Record) -> Vec<String> {
    consistency::findings(record).into_iter().map(|found| found.words).collect()
}

#[test]
fn a_latency_below_that_of_a_shorter_chain_is_named() {
    let chain = |mebibytes: u64, nanoseconds: f64| {
        let working_set = Bytes(mebibytes << 20);
        let point = Point::Latency(LatencyPoint { working_set, side: None, pair: None });
        (point, 1e-9 * nanoseconds)
    };
    let rising = at_points(&[chain(1, 10.0), chain(64, 344.0), chain(128, 345.0)]);
    assert!(kinds(&rising).is_empty(), "{:?}", kinds(&rising));
    let falling = at_points(&[chain(1, 10.0), chain(64, 344.0), chain(128, 287.0)]);
    let found = kinds(&falling);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("while a shorter chain of 64 MiB has 344"), "{found:?}");
}

#[test]
fn a_stream_from_memory_that_is_faster_than_one_within_caches_is_named() {
    let cache = synthetic::record().header.device.last_level_cache();
    let stream = |size: Bytes, rate: f64| {
        let read = StreamOperation::Read;
        let point = Point::Stream(StreamPoint { stream: read, working_set: size, units: 1 });
        (point, point.work().memory.0 as f64 / rate)
    };
    let of = |from_memory: f64| {
        let half = Bytes(cache.0 / 2);
        at_points(&[stream(half, 100e9), stream(Bytes(8 * cache.0), from_memory)])
    };
    assert!(kinds(&of(60e9)).is_empty(), "{:?}", kinds(&of(60e9)));
    let found = kinds(&of(130e9));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("within caches have "), "{found:?}");
}

#[test]
fn a_power_of_nothing_or_above_the_limit_is_named() {
    let with = |mean: f64, highest: f64| {
        let mut record = with_samples((0..40).map(|at| 1e-3 * (1.0 + 1e-4 * f64::from(at % 7))));
        let limit = Some(Watts(700.0));
        record.header.environment.settings =
            Some(DeviceSettings { power_limit: limit, ..DeviceSettings::default() });
        let one = synthetic::measured_in(&mut record).next().expect("a case");
        let read = (Some(Watts(mean)), Some(Watts(highest)));
        let (power_mean, power_max) = read;
        one.telemetry = Some(Telemetry { power_mean, power_max, ..Telemetry::default() });
        kinds(&record)
    };
    assert!(with(650.0, 720.0).is_empty(), "{:?}", with(650.0, 720.0));
    for (mean, highest) in [(0.0, 300.0), (1208.0, 1208.0), (600.0, 1208.0)] {
        let found = with(mean, highest);
        assert_eq!(found.len(), 1, "{mean} and {highest} W: {found:?}");
        assert!(found[0].contains("of a device whose limit is 700.0 W"), "{found:?}");
    }
}

/// What a record with these readings beside one case says against itself.
fn with_readings(seen: Telemetry) -> Vec<String> {
    let mut record = with_samples((0..40).map(|at| 1e-3 * (1.0 + 1e-4 * f64::from(at % 7))));
    record.header.device.backend = "cuda".into();
    record.header.device.clock = Some(Megahertz(1980.0));
    record.header.environment.settings =
        Some(DeviceSettings { power_limit: Some(Watts(700.0)), ..DeviceSettings::default() });
    synthetic::measured_in(&mut record).next().expect("a case").telemetry = Some(seen);
    kinds(&record)
}

#[test]
fn readings_that_no_sensor_gives_are_named() {
    let none = Telemetry::default;
    let clocks = |low: f64, high: f64| Telemetry {
        clock_min: Some(Megahertz(low)),
        clock_max: Some(Megahertz(high)),
        ..none()
    };
    let watts = |mean: f64, high: f64| Telemetry {
        power_mean: Some(Watts(mean)),
        power_max: Some(Watts(high)),
        ..none()
    };
    let energy = |joules: f64, seconds: f64, steps: u32| Telemetry {
        energy: Some(Joules(joules)),
        elapsed: Some(Seconds(seconds)),
        energy_steps: Some(steps),
        ..none()
    };
    let hot = |degrees: f64| Telemetry { temperature_max: Some(Celsius(degrees)), ..none() };
    for right in [clocks(1200.0, 1995.0), watts(640.0, 710.0), energy(1300.0, 2.0, 40), hot(88.0)] {
        assert_eq!(with_readings(right.clone()), [""; 0], "{right:?}");
    }
    for (wrong, words) in [
        (clocks(1200.0, 2400.0), "a clock of 2400 MHz was read, and 1980 MHz is the most"),
        (clocks(1500.0, 1200.0), "the lowest clock that was read is 1500 MHz"),
        (watts(640.0, 320.0), "the mean of its power is 640.0 W, and the highest 320.0 W"),
        (watts(640.0, 1900.0), "its highest power is 1900.0 W"),
        // The counter of 32 bits wraps, in millijoules.
        (energy(-4_294_967.0, 2.0, 40), "its energy is -4294967 J: the counter went back"),
        (energy(4_294_967.0, 2.0, 40), "its mean power is 2147483.5 W"),
        (energy(20.0, 0.001, 1), "its sensors were read over 1.000 ms"),
        (hot(255.0), "a temperature of 255 degrees was read"),
        (hot(-128.0), "a temperature of -128 degrees was read"),
    ] {
        let found = with_readings(wrong.clone());
        assert!(found.iter().any(|one| one.starts_with(words)), "{wrong:?}: {found:?}");
    }
}

#[test]
fn times_that_no_clock_gives_are_named() {
    let of = |times: &dyn Fn(i32) -> f64| {
        let mut record = with_samples((0..40).map(|at| 2e-3 * (1.0 + 1e-4 * f64::from(at % 7))));
        let one = synthetic::measured_in(&mut record).next().expect("a case");
        one.samples.times = (0..40).map(|at| Seconds(times(at))).collect();
        kinds(&record)
    };
    assert!(of(&|at| 2e-3 * (1.0 + 1e-4 * f64::from(at % 5))).is_empty());
    let negative = of(&|at| if at == 17 { -1e-4 } else { 2e-3 + 1e-7 * f64::from(at) });
    assert_eq!(negative, ["one of its samples is -0.0001 s"]);
    let nothing = of(&|at| if at == 3 { 0.0 } else { 2e-3 + 1e-7 * f64::from(at) });
    assert_eq!(nothing, ["one of its samples is 0 s"]);
    let repeated = of(&|_| 2e-3);
    assert_eq!(repeated, ["all of its 40 samples are 2.000 ms"]);
}

/// A median that depends on when sampling ended is of no state, whether it changed at once or
/// little by little.
#[test]
fn halves_that_differ_are_named() {
    let ramp = |by: f64| {
        let of = |at: i32| 1e-3 * (1.0 + by * f64::from(at) / 100.0 + 1e-4 * f64::from(at % 7));
        kinds(&with_samples((0..100).map(of)))
    };
    assert!(ramp(0.01).is_empty(), "{:?}", ramp(0.01));
    for by in [0.12, 0.3] {
        let found = ramp(by);
        assert!(found[0].starts_with("two states: "), "{by}: {found:?}");
    }
}
