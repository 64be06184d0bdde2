//! The rules of `fizeau fleet` on planted fleets, and by themselves.

use fizeau_domain::verdict::Verdict;
use fizeau_judge::fleet::{
    Dependence, Group,
    component::{self, Kind},
    doubt::Doubt,
    judge::{Judged, Settings, Survey, Why, judge},
    recipe::{Recipe, RecipeError, Shape},
    rules::Rule,
    score::{Scores, Tally, score},
};
use oorandom::Rand64;
use std::f64::consts::TAU;

const RECIPE: &str = include_str!("../../examples/fleet/recipe.toml");

fn recipe() -> Recipe {
    Recipe::parse(RECIPE).expect("the committed recipe")
}

fn of(scores: &Scores, rule: Rule) -> Tally {
    scores.rules[&rule]
}

struct Normal(Rand64);

impl Normal {
    fn next(&mut self) -> f64 {
        let (a, b) = (self.0.rand_float().max(f64::MIN_POSITIVE), self.0.rand_float());
        (-2.0 * a.ln()).sqrt() * (TAU * b).cos()
    }
}

/// A stratum whose GPUs have these losses, with repeats that scatter.
fn group(losses: &[f64], repeats: usize, noise: f64, seed: u128) -> Group {
    let mut normal = Normal(Rand64::new(seed));
    let mut group = Group::new("memory read", 0, 0.02);
    for (gpu, loss) in losses.iter().enumerate() {
        let values: Vec<f64> =
            (0..repeats).map(|_| (1.0 - loss).ln() + noise * normal.next()).collect();
        group.push(gpu as u32, values);
    }
    group
}

fn judged(group: &Group) -> (Survey, Vec<Judged>) {
    let nodes: Vec<u32> = (0..group.len() as u32).map(|gpu| gpu / 8).collect();
    let survey = judge(std::slice::from_ref(group), &nodes, &Settings::default());
    let rows = survey.judged[0].clone();
    (survey, rows)
}

#[test]
fn a_slow_gpu_fails_its_stratum_passes_and_the_reach_is_stated() {
    let mut losses = [0.0; 24];
    losses[7] = 0.05;
    let (survey, rows) = judged(&group(&losses, 5, 0.004, 1));
    for (gpu, one) in rows.iter().enumerate() {
        let wanted = if gpu == 7 { Verdict::Fail } else { Verdict::Pass };
        assert_eq!((one.verdict, one.why), (wanted, Why::Decided), "{gpu}: {one:?}");
    }
    assert!((rows[7].loss - 0.05).abs() < 4.0 * rows[7].error, "{:?}", rows[7]);
    let whole = &survey.wholes[0];
    let sees = whole.sees.expect("it can fail a GPU");
    assert!((0.025..0.045).contains(&sees), "5 repeats see {sees}");
    assert!(whole.needed.is_some_and(|needed| needed <= 9), "{whole:?}");
    assert_eq!(survey.tests, 24);
}

#[test]
fn what_the_reach_says_is_what_is_found() {
    let (survey, _) = judged(&group(&[0.0; 200], 5, 0.005, 3));
    let sees = survey.wholes[0].sees.expect("it can fail a GPU");
    let (mut found, trials) = (0, 200);
    for seed in 0..trials {
        let mut losses = [0.0; 200];
        losses[100] = sees;
        let (_, rows) = judged(&group(&losses, 5, 0.005, 1_000 + seed));
        found += usize::from(rows[100].verdict == Verdict::Fail);
    }
    // 90 % by what it says; its error of a median is a little too large for five repeats.
    assert!((170..=198).contains(&found), "{found} of {trials} at a loss of {sees}");
}

#[test]
fn noise_above_the_gate_fails_nobody_and_few_gpus_judge_nobody() {
    let mut losses = [0.0; 40];
    losses[3] = 0.10;
    let (survey, rows) = judged(&group(&losses, 5, 0.02, 5));
    assert!(survey.wholes[0].is_gated && survey.wholes[0].sees.is_none());
    assert!(rows.iter().all(|one| one.verdict != Verdict::Fail), "{rows:?}");
    assert_eq!(rows[3].why, Why::TooNoisy);
    let (_, few) = judged(&group(&[0.0, 0.0, 0.5], 5, 0.001, 7));
    assert!(few.iter().all(|one| one.why == Why::TooFew), "{few:?}");
    let (_, once) = judged(&group(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.5], 1, 0.001, 9));
    assert!(once.iter().all(|one| one.why == Why::NoRepeats), "{once:?}");
    let (survey, none) = judged(&Group::new("memory read", 0, 0.02));
    assert!(none.is_empty() && survey.tests == 0);
}

#[test]
fn what_is_too_close_says_how_many_repeats_may_decide_it() {
    let mut losses = [0.0; 100];
    losses[9] = 0.021;
    let (_, rows) = judged(&group(&losses, 5, 0.004, 11));
    assert_eq!((rows[9].verdict, rows[9].why), (Verdict::Inconclusive, Why::TooClose));
    losses[9] = 0.03;
    let near = |seed| judged(&group(&losses, 5, 0.006, seed)).1[9];
    let is_open = |one: &Judged| one.verdict == Verdict::Inconclusive && one.needed > 5;
    let open = (20..40).map(near).filter(is_open).count();
    assert!(open >= 10, "{open} of 20");
}

#[test]
fn a_floor_finds_a_whole_lot_that_is_slow() {
    let mut slow = group(&[0.2; 30], 5, 0.004, 15);
    let (_, rows) = judged(&slow);
    assert!(rows.iter().all(|one| one.verdict == Verdict::Pass), "nothing else tells");
    slow.floor = Some((1.0f64 - 0.1).ln());
    let (_, rows) = judged(&slow);
    assert!(rows.iter().all(|one| one.verdict == Verdict::Fail), "{rows:?}");
}

#[test]
fn the_conservative_mode_divides_the_rate_by_the_harmonic_number() {
    let harmonic: f64 = (1..=1_000).map(|count| 1.0 / f64::from(count)).sum();
    assert!((Dependence::Any.rate(0.01, 1_000) - 0.01 / harmonic).abs() < 1e-15);
    assert_eq!(Dependence::Positive.rate(0.01, 1_000), 0.01);
}

#[test]
fn planted_faults_are_found_and_healthy_gpus_are_let_be() {
    let scores = score(&recipe(), 2_000, 4, 40);
    let ours = of(&scores, Rule::Ours);
    assert!(ours.bad > 40, "{ours:?}");
    assert!(ours.precision() >= Some(0.98) && ours.recall() >= Some(0.95), "{ours:?}");
    assert!(ours.false_discovery_rate() <= 0.03, "{ours:?}");
    assert!(of(&scores, Rule::OursRetested).recall() >= Some(0.95), "{scores:?}");
    let inconclusive = ours.inconclusive as f64 / ours.healthy as f64;
    assert!(inconclusive <= 0.05, "{inconclusive}");
    assert!(scores.retest_share() <= 0.05, "{scores:?}");
    // The rules in use are worse on the same fleets: else the table would not be worth reading.
    for rule in [Rule::MeanOnce, Rule::Floor(95), Rule::ThreeSigma, Rule::NodeMean] {
        let other = of(&scores, rule);
        let is_worse = other.precision() < ours.precision() || other.recall() < ours.recall();
        assert!(is_worse, "{}: {other:?}", rule.words());
    }
}

#[test]
fn nobody_of_a_healthy_fleet_fails() {
    let healthy = Recipe { faulty: 0.0, ..recipe() };
    let scores = score(&healthy, 2_000, 4, 50);
    assert_eq!(of(&scores, Rule::Ours).bad, 0);
    assert_eq!(of(&scores, Rule::OursRetested).failed, 0, "{scores:?}");
    assert_eq!(scores.components.wrong, 0);
    assert_eq!(scores.doubted, 0, "the noise is as the test assumes");
    assert!(of(&scores, Rule::Floor(95)).failed > 100, "repeats alone do that");
}

#[test]
fn neighbours_of_a_whole_session_are_gone_in_the_retest() {
    let mut recipe = recipe();
    recipe.neighbour.whole_session = true;
    let scores = score(&recipe, 2_000, 4, 60);
    let [first, again] = [Rule::Ours, Rule::OursRetested].map(|rule| of(&scores, rule));
    assert!(first.wrong > 50, "they were planted: {first:?}");
    assert!(again.precision() >= Some(0.98) && again.recall() >= Some(0.95), "{again:?}");
    assert!(scores.retest_share() <= 0.05, "{scores:?}");
}

#[test]
fn a_slow_leaf_and_a_slow_rail_are_named_as_such() {
    for kind in ["leaf", "rail"] {
        let planted = format!(
            "{RECIPE}\n[component]\nkind = \"{kind}\"\nmetrics = [\"network\"]\nloss = 0.06\n"
        );
        let recipe = Recipe::parse(&planted).expect("a recipe");
        let scores = score(&recipe, 2_048, 5, 70);
        let found = scores.components;
        assert_eq!((found.planted, found.right, found.wrong), (5, 5, 0), "{kind}: {found:?}");
    }
}

#[test]
fn a_component_is_named_once_with_all_its_names_and_not_its_nodes() {
    // Two racks of four nodes; the first is the only one of leaf A, too.
    let losses: Vec<f64> = (0..64).map(|gpu| if gpu < 32 { 0.0 } else { 0.06 }).collect();
    let mut all = losses.clone();
    all.extend([0.0; 64]);
    let group = group(&all, 5, 0.004, 17);
    let nodes: Vec<u32> = (0..128).map(|gpu| gpu / 8).collect();
    let survey = judge(std::slice::from_ref(&group), &nodes, &Settings::default());
    let kind = |name: &str, size: u32| Kind {
        name: name.into(),
        names: (0..128 / size).map(|at| format!("{name}{at}")).collect(),
        of: (0..128).map(|gpu| Some(gpu / size)).collect(),
    };
    let kinds = [kind("node", 8), kind("rack", 32), kind("leaf", 32)];
    let found = component::named(&[group], &survey, &kinds, &nodes);
    assert_eq!(found.len(), 1, "{found:?}");
    let one = &found[0];
    assert_eq!((one.kind.as_str(), one.name.as_str()), ("rack", "rack1"), "{one:?}");
    assert_eq!(one.also, ["leaf leaf1"]);
    assert!((one.loss - 0.06).abs() < 0.01 && one.by_node && one.members == 4, "{one:?}");
    assert_eq!(one.gpus.len(), 32);
}

#[test]
fn noise_that_is_not_as_assumed_is_said_to_be() {
    let doubts = |change: &dyn Fn(&mut Recipe)| {
        let mut recipe = recipe();
        recipe.faulty = 0.0;
        recipe.neighbour.share = 0.0;
        change(&mut recipe);
        let fleet = fizeau_judge::fleet::planted::Fleet::plant(&recipe, 1_000, 3);
        let survey = judge(&fleet.groups(), &fleet.nodes, &Settings::default());
        survey.wholes.into_iter().flat_map(|whole| whole.doubts).collect::<Vec<_>>()
    };
    assert!(doubts(&|_| {}).is_empty());
    let has = |found: &[Doubt], is: fn(&Doubt) -> bool| found.iter().any(is);
    let tails = doubts(&|recipe| recipe.noise.shape = Shape::HeavyTails);
    assert!(has(&tails, |one| matches!(one, Doubt::HeavyTails(_))), "{tails:?}");
    let drift = doubts(&|recipe| recipe.noise.shape = Shape::Drift);
    assert!(has(&drift, |one| matches!(one, Doubt::Drift(share) if *share < 0.0)), "{drift:?}");
    let humps = doubts(&|recipe| {
        recipe.noise.shape = Shape::TwoHumps;
        recipe.noise.hump = 0.9;
    });
    assert!(has(&humps, |one| matches!(one, Doubt::TwoHumps(_))), "{humps:?}");
    let nodes = doubts(&|recipe| recipe.noise.within_node = 0.9);
    assert!(has(&nodes, |one| matches!(one, Doubt::WithinNode(_))), "{nodes:?}");
}

#[test]
fn a_recipe_with_an_impossible_number_is_refused_by_name() {
    let refused = |from: &str, to: &str| {
        assert!(RECIPE.contains(from), "{from}");
        Recipe::parse(&RECIPE.replacen(from, to, 1)).expect_err("refused").to_string()
    };
    let words = refused("repeats = 5", "repeats = 0");
    assert!(words.contains("repeats is 0: it has to be from 1 to 10000"), "{words}");
    let words = refused("faulty = 0.01", "faulty = nan");
    assert!(words.contains("faulty is NaN"), "{words}");
    let words = refused("metrics = [\"peer read\"]", "metrics = [\"peer\"]");
    assert!(words.contains("NVLink lane slows down \"peer\""), "{words}");
    assert!(matches!(Recipe::parse("gpus = 1"), Err(RecipeError::Toml(_))));
}
