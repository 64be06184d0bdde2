//! `fizeau load ab`: how often it names a difference that is not there, and finds one that is.

use fizeau_domain::verdict::Verdict;
use fizeau_projection::load::{
    Ending, Level, Plan, Row,
    ab::{self, Arm, Judged, Metric, Pairs, ROUNDS_MIN, Run, Settings, Trial, Way},
    arrivals::Arrivals,
    level::Limits,
    queue::Slots,
    random::{Purpose, Random},
};
use fizeau_report::{
    format::{csv, html, terminal},
    load_ab,
};

#[test]
fn a_gate_lets_nothing_pass_that_is_worse_and_fails_nothing_that_is_not() {
    let share = |effect: f64, wanted: Verdict| {
        let met = |seed: u64| {
            let pairs = simulated(8, Noise::Normal, effect, &[Metric::TpotP50], seed);
            ab::gate(&ab::judge(&pairs, &Settings::default()), 0.05).0 == wanted
        };
        (0..200).filter(|seed| met(*seed)).count()
    };
    assert_eq!(share(1.0, Verdict::Fail), 0);
    assert!(share(1.0, Verdict::Pass) >= 190);
    // A tenth worse fails, at the limit nothing is sure, a tenth better passes.
    assert!(share(1.1, Verdict::Fail) >= 190 && share(1.1, Verdict::Pass) == 0);
    assert!(share(1.05, Verdict::Pass) <= 10);
    assert!(share(0.9, Verdict::Pass) >= 190);
    assert_eq!(ab::gate(&[], 0.05), (Verdict::Inconclusive, Vec::new()));
}

/// Without a least effect: the test alone decides.
const BARE: Settings = Settings { least_effect: 0.0, error_rate: 0.05 };

/// What disturbs rounds, as deviations of logarithms of one run.
#[derive(Clone, Copy, Debug)]
enum Noise {
    /// Each metric by itself, normal, 1 %.
    Normal,
    /// The same, and 2 % that all metrics of a run share.
    Common,
    /// Student's t with 3 degrees of freedom, 1 %: now and then a run is far off.
    HeavyTails,
    /// 1 %; the machine becomes 10 % slower from the first run to the last; the second run of a
    /// round gains 1 %.
    Drift,
    /// 1 %; one run in eight is 20 % slower: a neighbour that no side invited.
    Neighbour,
}

const NOISES: [Noise; 5] =
    [Noise::Normal, Noise::Common, Noise::HeavyTails, Noise::Drift, Noise::Neighbour];

/// The metrics of simulated rounds, of which B / A is `effect` in some and 1 in the others.
fn simulated(rounds: u32, noise: Noise, effect: f64, some: &[Metric], seed: u64) -> Vec<Pairs> {
    let mut random = Random::new(seed, 0, Purpose::Service);
    let mut all: Vec<Pairs> =
        Metric::ALL.iter().map(|metric| Pairs { metric: *metric, values: Vec::new() }).collect();
    for round in 1..=rounds {
        let mut sides = [[0.0; Metric::ALL.len()]; 2];
        for (place, arm) in ab::order(round).into_iter().enumerate() {
            let common = match noise {
                Noise::Normal | Noise::HeavyTails => 0.0,
                Noise::Common => 0.02 * random.normal(),
                Noise::Drift => {
                    let sent = f64::from(2 * (round - 1)) + place as f64;
                    0.1 * sent / f64::from(2 * rounds) - 0.01 * place as f64
                }
                Noise::Neighbour => f64::from(u8::from(random.below(8) == 0)) * 0.2,
            };
            for (at, metric) in Metric::ALL.into_iter().enumerate() {
                let mut own = 0.01 * random.normal();
                if matches!(noise, Noise::HeavyTails) {
                    let squares: f64 = (0..3).map(|_| random.normal().powi(2)).sum();
                    own /= (squares / 3.0).sqrt();
                }
                let planted = if arm == Arm::B && some.contains(&metric) { effect } else { 1.0 };
                sides[usize::from(arm == Arm::B)][at] = planted * (common + own).exp();
            }
        }
        for (at, pairs) in all.iter_mut().enumerate() {
            pairs.values.push([sides[0][at], sides[1][at]]);
        }
    }
    all
}

fn is_named(one: &Judged) -> bool {
    matches!(one.way, Way::Lower | Way::Higher)
}

/// The share of seeds for which something holds of the judged metrics.
fn share(seeds: u64, holds: impl Fn(u64) -> bool) -> f64 {
    (0..seeds).filter(|seed| holds(*seed)).count() as f64 / seeds as f64
}

#[test]
fn a_beside_itself_has_a_winner_in_five_percent_at_most() {
    for noise in NOISES {
        for rounds in [5, 6] {
            let wrong = |settings: Settings| {
                share(1_000, |seed| {
                    let pairs = simulated(rounds, noise, 1.0, &[], seed);
                    ab::judge(&pairs, &settings).iter().any(is_named)
                })
            };
            let (usual, bare) = (wrong(Settings::default()), wrong(BARE));
            println!("{noise:?}, {rounds} rounds: wrong in {usual}, without least effect {bare}");
            assert!(usual <= 0.05, "{noise:?}, {rounds} rounds: {usual}");
            // Independent metrics use the whole rate: three standard errors of 1,000 seeds above.
            assert!(bare <= 0.071, "{noise:?}, {rounds} rounds: {bare}");
        }
    }
}

#[test]
fn five_percent_are_found() {
    let some = [Metric::TpotP50];
    for (noise, rounds, least) in [
        (Noise::Normal, 6, 0.9),
        (Noise::Normal, 10, 0.99),
        (Noise::Common, 12, 0.75),
        (Noise::HeavyTails, 10, 0.85),
    ] {
        for (effect, way) in [(1.05, Way::Higher), (1.0 / 1.05, Way::Lower)] {
            let found = share(1_000, |seed| {
                let judged =
                    ab::judge(&simulated(rounds, noise, effect, &some, seed), &Settings::default());
                judged.iter().all(|one| one.metric != some[0] || one.way == way)
            });
            println!("{noise:?}, {rounds} rounds, {way:?}: found in {found}");
            assert!(found >= least, "{noise:?}, {rounds} rounds: {found}");
            let wrong = share(1_000, |seed| {
                let pairs = simulated(rounds, noise, effect, &some, seed);
                let judged = ab::judge(&pairs, &Settings::default());
                judged.iter().any(|one| one.metric != some[0] && is_named(one))
            });
            assert!(wrong <= 0.05, "{noise:?}: others are named in {wrong}");
        }
    }
}

#[test]
fn what_rounds_see_they_find_four_times_in_five_and_intervals_hold_the_truth() {
    let some = [Metric::TtftP50];
    let usual = Settings::default();
    for rounds in [5, 6, 12] {
        // The deviation of B / A of a round is 1 % by the square root of two: what a long series
        // tells of itself is the truth, scaled to this many rounds.
        let seen = |seed: u64| {
            let pairs = simulated(rounds, Noise::Normal, 1.0, &[], seed);
            ab::judge(&pairs, &usual)[0].seen_from.expect("enough rounds").ln_1p()
        };
        let mean_square = (0..400).map(|seed| (seen(seed) - 0.01f64.ln_1p()).powi(2)).sum::<f64>();
        let from = (0.01f64.ln_1p() + (mean_square / 400.0).sqrt()).exp();
        let judged = |seed| {
            let pairs = simulated(rounds, Noise::Normal, from, &some, 7_000 + seed);
            ab::judge(&pairs, &usual)[0].clone()
        };
        let found = share(600, |seed| judged(seed).way == Way::Higher);
        println!("{rounds} rounds see {from}: found in {found}");
        assert!((0.74..=0.95).contains(&found), "{rounds} rounds: {found}");
        let held = share(600, |seed| {
            judged(seed).interval.is_some_and(|[low, high]| low <= from && from <= high)
        });
        assert!((0.92..=0.98).contains(&held), "{rounds} rounds: intervals hold in {held}");
    }
}

#[test]
fn the_test_is_that_of_the_books() {
    // By the formulas of a textbook in Python: mean of the logarithms 0.095228, deviation 0.014376,
    // t 14.812 with 4 degrees of freedom, for which the distribution has a closed form.
    let ratios = [1.10, 1.12, 1.08, 1.11, 1.09];
    let values: Vec<[f64; 2]> = ratios.iter().map(|ratio| [2.0, 2.0 * ratio]).collect();
    let one = Pairs { metric: Metric::E2elP50, values };
    let judged = &ab::judge(std::slice::from_ref(&one), &BARE)[0];
    let p = judged.p_value.expect("it is tested");
    assert!((p / 1.209_417e-4 - 1.0).abs() < 1e-4, "{p}");
    assert!((judged.ratio.ln() - 0.095_228).abs() < 1e-5, "{}", judged.ratio);
    let [low, high] = judged.interval.expect("enough rounds");
    assert!((low - 1.080_450).abs() < 1e-5 && (high - 1.119_718).abs() < 1e-5, "{low} to {high}");
    assert_eq!(judged.words(&BARE), "B is 10 % slower (8.0 to 12 %)");
    // Rates are better when they are higher.
    let rate = Pairs { metric: Metric::TokenRate, ..one.clone() };
    let judged = &ab::judge(&[rate], &BARE)[0];
    assert_eq!(judged.words(&BARE), "B is 10 % higher (8.0 to 12 %)");
    assert_eq!(judged.is_better(), Some(true));
    // Four rounds are not judged, equal ones show nothing, near ones that there is nothing.
    let four = Pairs { values: one.values[..4].to_vec(), ..one.clone() };
    let judged = &ab::judge(&[four], &BARE)[0];
    assert_eq!((judged.way, judged.p_value), (Way::TooFew, None));
    let equal = Pairs { values: vec![[0.5, 0.5]; ROUNDS_MIN], ..one.clone() };
    let judged = &ab::judge(&[equal], &Settings::default())[0];
    assert_eq!((judged.way, judged.p_value.is_some_and(|p| p > 0.0)), (Way::Same, true));
    assert_eq!(judged.words(&Settings::default()), "no difference of 1.0 % or more");
    // A difference below the least effect is none, however sure it is.
    let small = Pairs { values: vec![[1.0, 1.005]; 8], ..one };
    assert_eq!(ab::judge(std::slice::from_ref(&small), &Settings::default())[0].way, Way::Same);
    assert_eq!(ab::judge(&[small], &BARE)[0].way, Way::Higher);
}

/// A run of a server with slots that takes a time for each token, in virtual time; requests of a
/// round follow from the round, service from the seed and the run.
fn run(round: u32, arm: Arm, token: f64, failing: u64, seed: u64) -> Run {
    let (count, rate, tokens) = (120, 20.0, 16);
    let moments = Arrivals::Poisson.moments(rate, &[count], seed, u64::from(round));
    let place = 2 * u64::from(round) + u64::from(arm == Arm::B);
    let mut random = Random::new(seed, place, Purpose::Service);
    let mut slots = Slots::new(4);
    let mut rows = Vec::new();
    for (number, scheduled) in (0..).zip(moments) {
        let token = token * (0.1 * random.normal()).exp();
        let served = slots.serve(scheduled, token * f64::from(tokens));
        let is_failed = failing > 0 && number % failing == 0;
        rows.push(Row {
            number,
            scheduled,
            sent: scheduled,
            first: Some(served.begin + token),
            last: Some(served.end),
            ended: served.end,
            ending: if is_failed { Ending::ServerError } else { Ending::Answered },
            asked_input: 40,
            input: Some(40),
            asked_output: tokens,
            output: Some(tokens),
            chunks: tokens,
            ..Row::default()
        });
    }
    let plan = Plan { rate: Some(rate), burstiness: Some(1.0), requests: count, ..Plan::default() };
    let limits = Limits { e2el: Some(0.2), ..Limits::default() };
    let level = Level::of_rows(&plan, &rows.iter().collect::<Vec<_>>(), &limits);
    Run { round, arm, is_whole: true, level }
}

fn trial(rounds: u32, token_of_b: f64, failing: u64, seed: u64) -> Trial {
    let sent = |round| ab::order(round).map(|arm| (round, arm));
    let one = |(round, arm)| match arm {
        Arm::A => run(round, arm, 0.01, 0, seed),
        Arm::B => run(round, arm, token_of_b, failing, seed),
    };
    Trial {
        model: "m".into(),
        sides: ["one".into(), "other".into()],
        load: vec!["each run: 20 requests/s".into()],
        planned: rounds,
        runs: (1..=rounds).flat_map(sent).map(one).collect(),
        settings: Settings::default(),
        is_interrupted: false,
        notes: Vec::new(),
    }
}

#[test]
fn simulated_servers_are_told_apart_where_they_differ() {
    // The median of 120 requests of 10 % each scatters by 1.1 % from run to run.
    let seeds = 100;
    let wrong = share(seeds, |seed| trial(6, 0.01, 0, seed).judged().iter().any(is_named));
    println!("simulated servers, A/A: wrong in {wrong}");
    assert!(wrong <= 0.05, "{wrong}");
    let way = |trial: &Trial, metric: Metric| {
        let judged = trial.judged();
        judged.iter().find(|one| one.metric == metric).map(|one| one.way)
    };
    let found =
        share(seeds, |seed| way(&trial(6, 0.0105, 0, seed), Metric::TpotP50) == Some(Way::Higher));
    println!("simulated servers, token 5 % longer: found in {found}");
    assert!(found >= 0.85, "{found}");
    let [plain, slower] = [trial(6, 0.01, 0, 1), trial(6, 0.012, 0, 1)];
    assert_eq!(plain.judged().len(), Metric::ALL.len(), "120 requests have P99, and limits");
    assert_eq!(way(&slower, Metric::E2elP50), Some(Way::Higher));
    assert_eq!(way(&slower, Metric::Answered), Some(Way::Same));
    // The load of an open loop is answered all the same.
    assert_ne!(way(&slower, Metric::TokenRate), Some(Way::Higher));
}

#[test]
fn reports_say_what_differs_what_failed_and_what_is_missing() {
    let text = shown(&trial(6, 0.012, 0, 1));
    for words in ["B is worse in", "TPOT P50", " % slower (", "A: one. B: other.", "6 of 6 rounds"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("Warning") && !text.contains("failed;"), "{text}");
    let slower = load_ab(&trial(6, 0.012, 0, 1));
    let page = html::render(&slower).expect("a page");
    assert!(page.contains("<svg") && page.contains("B &#x2f; A of each round"));
    let table = csv::of_tables(&slower, &["verdicts"]).expect("CSV");
    assert!(table.starts_with("metric,verdict,a,a_unit,b,b_unit,ratio,"), "{table}");
    assert_eq!(table.lines().count(), 1 + Metric::ALL.len());
    let table = csv::of_tables(&slower, &["rounds"]).expect("CSV");
    assert_eq!(table.lines().count(), 1 + 12);
    // One in ten fails at B: less is answered, and each round says so.
    let text = shown(&trial(6, 0.01, 10, 1));
    for words in
        ["share answered", "% lower", "round 6, B: 12 of 120 requests failed", "status 5xx"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    // Interrupted in the fifth round: four complete ones are shown, and nothing is judged.
    let mut cut = trial(6, 0.012, 0, 1);
    cut.runs.truncate(10);
    cut.runs[9].is_whole = false;
    cut.is_interrupted = true;
    assert!(cut.judged().iter().all(|one| one.way == Way::TooFew));
    let text = shown(&cut);
    for words in ["Nothing is judged: 4 rounds complete", "round 5, B: it was interrupted"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // Nothing was answered at B in two rounds: the others are judged.
    let mut dead = trial(7, 0.012, 0, 1);
    for round in [2, 5] {
        let one = dead.runs.iter_mut().find(|one| one.round == round && one.arm == Arm::B);
        *one.expect("a run") = run(round, Arm::B, 0.012, 1, 1);
    }
    assert!(dead.judged().iter().all(|one| one.rounds == 5 && one.way != Way::TooFew));
    let text = shown(&dead);
    assert!(text.contains("round 5, B: none of 120 requests was answered"), "{text}");
    // Answers of other lengths are no comparison of the same work.
    let mut shorter = trial(6, 0.01, 0, 1);
    shorter.runs.iter_mut().filter(|one| one.arm == Arm::B).for_each(|one| one.level.output = 8.0);
    assert!(shorter.warnings().iter().any(|words| words.contains("answers have 16.0 tokens")));
}

/// As a terminal shows it, without its line breaks.
fn shown(trial: &Trial) -> String {
    let window = terminal::Terminal { width: None, colour: terminal::Colour::Never };
    let text = terminal::render(&load_ab(trial), window);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
