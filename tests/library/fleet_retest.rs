//! `fizeau fleet retest` on rows of a store: who is measured beside whom, and what the results come
//! to.

use super::fleet_survey::{failed, fleet, gathered, options};
use fizeau_domain::{labels::Labels, verdict::Verdict};
use fizeau_judge::fleet::{
    flag::Flagged,
    plan::{Pair, Plan, Retest},
    row::Row,
    survey::{Report, Surveyed, survey},
};
use fizeau_report::format;
use std::collections::BTreeSet;

fn surveyed(rows: &[Row<'_>], retest: Retest) -> Surveyed {
    let mut options = options();
    options.retest = retest;
    survey(gathered(rows), &options, &Labels::default(), None)
}

/// What each step of a plan left: the rates of the device that failed are lower by `loss`.
fn measured(plan: &Plan, rows: &[Row<'_>], loss: f64, sessions: usize) -> Retest {
    fed(plan, rows, sessions, |_, is_partner| if is_partner { 0.0 } else { loss })
}

/// The same with a loss for each pair, and whether it is the partner's.
fn fed(
    plan: &Plan,
    rows: &[Row<'_>],
    sessions: usize,
    loss: impl Fn(usize, bool) -> f64,
) -> Retest {
    let mut retest = Retest::new(plan.clone());
    for (at, pair) in plan.pairs.iter().enumerate() {
        for (turn, step) in pair.steps(plan.repeats).iter().enumerate() {
            if step.session > sessions {
                continue;
            }
            let share = 1.0 - loss(at, step.is_partner);
            let value = 3e12 * share * (1.0 + 0.001 * (turn % 3) as f64);
            let device = step.place.device.clone().into();
            let uuid = step.place.uuid.clone().into();
            let row = Row { device, uuid, values: vec![value], ..rows[0].clone() };
            assert!(retest.take(at, step, &[row]));
        }
    }
    retest
}

#[test]
fn what_failed_has_a_partner_that_passed_and_takes_turns_with_it() {
    let rows = fleet(6, &[(3, 5, 0.08), (1, 2, 0.06)]);
    let plan = Plan::of(&surveyed(&rows, Retest::default()), false);
    let who: BTreeSet<String> =
        plan.pairs.iter().map(|one| format!("{} {}", one.failed.node, one.failed.device)).collect();
    assert_eq!(who, BTreeSet::from(["n1 cuda:2".to_owned(), "n3 cuda:5".into()]));
    for pair in &plan.pairs {
        let partner = pair.partner.as_ref().expect("most passed");
        assert!(!who.contains(&format!("{} {}", partner.node, partner.device)));
        assert_eq!((pair.sessions, pair.point.as_str()), (1, "stream/read/2GiB"));
        let steps = pair.steps(plan.repeats);
        let order: String =
            steps.iter().map(|step| if step.is_partner { 'B' } else { 'A' }).collect();
        assert_eq!(order, "ABBAABBAABBAAB");
        let folders: BTreeSet<&str> = steps.iter().map(|step| step.folder.as_str()).collect();
        assert_eq!(folders.len(), 14);
    }
    // Of one round no two pairs have a node in common.
    for round in &plan.rounds()[0] {
        let nodes = round.iter().flat_map(|at| {
            let pair = &plan.pairs[*at];
            BTreeSet::from([&pair.failed.node, &pair.partner.as_ref().expect("one").node])
        });
        let nodes: Vec<&String> = nodes.collect();
        assert_eq!(nodes.iter().collect::<BTreeSet<_>>().len(), nodes.len());
    }
    assert_eq!(plan.rounds()[0].iter().flatten().count(), 2);
    let text = serde_json::to_string(&plan).expect("JSON");
    assert_eq!(Plan::parse(&text), Ok(plan));
    assert!(Plan::parse("{\"format\":9}").is_err() && Plan::parse("[]").is_err());
}

#[test]
fn a_failure_that_comes_again_is_confirmed_and_one_that_went_away_is_none() {
    let rows = fleet(6, &[(3, 5, 0.08)]);
    let plan = Plan::of(&surveyed(&rows, Retest::default()), false);
    let again = surveyed(&rows, measured(&plan, &rows, 0.08, 9)).report;
    assert_eq!(failed(&again), ["n3 cuda:5 memory read"]);
    assert!(again.flagged[0].confirmed, "{:?}", again.flagged[0]);
    let text = format::fleet::text(&again);
    assert!(text.contains("do: take out 1 device that failed again"), "{text}");
    assert!(text.contains("slow again in turn with n"), "{text}");
    let gone = surveyed(&rows, measured(&plan, &rows, 0.0, 9)).report;
    assert_eq!((gone.verdict, gone.devices.fail), (Verdict::Inconclusive, 0));
    assert!(gone.flagged[0].retest.contains("it went away"), "{:?}", gone.flagged[0]);
    let text = format::fleet::text(&gone);
    assert!(text.contains("1 not slow again when measured anew"), "{text}");
    let mut csv = Vec::new();
    let gone = surveyed(&rows, measured(&plan, &rows, 0.0, 9));
    format::fleet::csv(&gone, &mut csv).expect("written");
    let csv = String::from_utf8(csv).expect("text");
    let its = csv.lines().find(|line| line.starts_with("n3,cuda:5,")).expect("a line");
    assert!(its.contains(",inconclusive,"), "the table says what the report says: {its}");
    // Without results it stays as it was, and so it does where its node was measured since.
    let none = surveyed(&rows, Retest::new(plan.clone())).report;
    assert!(!none.flagged[0].confirmed && none.devices.fail == 1);
    let mut later = fleet(6, &[(3, 5, 0.08)]);
    later.iter_mut().for_each(|row| row.session = format!("{} later", row.session).into());
    let later = surveyed(&later, measured(&plan, &rows, 0.0, 9)).report;
    assert_eq!(later.devices.fail, 1, "an old retest says nothing of a new failure");
}

#[test]
fn what_all_gpus_of_a_node_failed_takes_two_sessions() {
    let losses: Vec<(u32, u32, f64)> = (0..6).map(|gpu| (3, gpu, 0.08)).collect();
    let rows = fleet(12, &losses);
    let plan = Plan::of(&surveyed(&rows, Retest::default()), false);
    // A node that is slow as a whole is named as such, and its GPUs are left to that.
    assert_eq!((plan.pairs.len(), plan.explained), (0, 6));
    let losses: Vec<(u32, u32, f64)> = (0..4).map(|gpu| (3, gpu, 0.08)).collect();
    let rows = fleet(12, &losses);
    let plan = Plan::of(&surveyed(&rows, Retest::default()), false);
    assert_eq!(plan.pairs.len(), 4);
    assert!(plan.pairs.iter().all(|pair| pair.sessions == 2));
    let half = surveyed(&rows, measured(&plan, &rows, 0.08, 1)).report;
    assert!(half.flagged.iter().all(|one| !one.confirmed), "one session is not enough");
    assert!(half.flagged[0].retest.contains("1 of 2 sessions of its retest"), "{half:?}");
    let whole = surveyed(&rows, measured(&plan, &rows, 0.08, 2)).report;
    assert_eq!(whole.flagged.iter().filter(|one| one.confirmed).count(), 4);
}

#[test]
fn many_failures_that_others_may_have_caused_take_three_sessions() {
    // Four GPUs of five nodes and of six: 20 failures, and 24.
    for (nodes, sessions) in [(5, 2), (6, 3)] {
        let losses: Vec<(u32, u32, f64)> =
            (0..4 * nodes).map(|at| (10 * (at / 4), at % 4, 0.08)).collect();
        let rows = fleet(60, &losses);
        let plan = Plan::of(&surveyed(&rows, Retest::default()), false);
        assert_eq!(plan.pairs.len(), losses.len());
        assert!(plan.pairs.iter().all(|pair| pair.sessions == sessions), "{nodes}");
        assert_eq!(plan.rounds().len(), sessions);
        let last = |there: usize| {
            let report = surveyed(&rows, measured(&plan, &rows, 0.08, there)).report;
            report.flagged.iter().filter(|one| one.confirmed).count()
        };
        assert_eq!((last(sessions - 1), last(sessions)), (0, losses.len()));
    }
}

/// A fleet in which one GPU of each node is close to the least effect, no slot more often than
/// others, with the plan that may decide them and that one failure of another node.
fn close() -> (Vec<Row<'static>>, Plan) {
    let mut losses: Vec<(u32, u32, f64)> = (0..16).map(|at| (at, 3 * at % 8, 0.023)).collect();
    losses.push((17, 5, 0.08));
    let rows = fleet(18, &losses);
    let plan = Plan::of(&surveyed(&rows, Retest::default()), true);
    (rows, plan)
}

/// Places in the plan of what has a verdict, of the pairs that were too close.
fn with(report: &Report, verdict: Verdict, plan: &Plan) -> BTreeSet<usize> {
    let flagged = report.flagged.iter().filter(|one| one.verdict == verdict);
    let is = |pair: &Pair, one: &Flagged| {
        (&pair.failed.node, &pair.failed.device) == (&one.node, &one.device)
    };
    let place = |one| plan.pairs.iter().position(|pair| pair.repeats.is_some() && is(pair, one));
    flagged.filter_map(place).collect()
}

#[test]
fn what_is_too_close_is_decided_by_fresh_repeats_alone() {
    let (rows, plan) = close();
    let before = surveyed(&rows, Retest::default()).report;
    let open: Vec<usize> =
        (0..plan.pairs.len()).filter(|at| plan.pairs[*at].repeats.is_some()).collect();
    assert!(open.len() >= 8 && plan.pairs.len() == open.len() + 1, "{plan:?}");
    assert_eq!(with(&before, Verdict::Inconclusive, &plan), open.iter().copied().collect());
    let partners = plan.pairs.iter().map(|pair| pair.partner.as_ref().expect("most passed"));
    assert_eq!(partners.map(|one| &one.uuid).collect::<BTreeSet<_>>().len(), plan.pairs.len());
    // By turns slow, healthy, just at the least effect, and slow as its partner is.
    let losses = [[0.035, 0.0], [0.0, 0.0], [0.02, 0.0], [0.035, 0.035]];
    let retest = fed(&plan, &rows, 9, |at, is_partner| losses[at % 4][usize::from(is_partner)]);
    let after = surveyed(&rows, retest).report;
    let every = |turns: &[usize]| -> BTreeSet<usize> {
        open.iter().copied().filter(|at| turns.contains(&(at % 4))).collect()
    };
    assert_eq!(with(&after, Verdict::Fail, &plan), every(&[0]), "{:?}", after.flagged);
    assert_eq!(with(&after, Verdict::Inconclusive, &plan), every(&[2, 3]), "{:?}", after.flagged);
    let has = |words: &str| after.flagged.iter().filter(|one| one.retest.contains(words)).count();
    assert_eq!(has("slow by these alone"), every(&[0]).len());
    assert_eq!(has("still too close"), every(&[2]).len());
    assert_eq!(has("slow, and so was its partner"), every(&[3]).len());
    let slow = after.flagged.iter().filter(|one| one.retest.contains("slow by these alone"));
    assert!(slow.into_iter().all(|one| one.confirmed));
}

#[test]
fn what_is_too_close_stays_so_until_all_its_repeats_are_there() {
    let (rows, plan) = close();
    let before = surveyed(&rows, Retest::default()).report;
    let mut less = plan.clone();
    less.pairs.iter_mut().for_each(|pair| pair.repeats = pair.repeats.map(|repeats| repeats - 1));
    let mut retest = Retest::new(plan.clone());
    for (at, pair) in less.pairs.iter().enumerate().filter(|(_, pair)| pair.repeats.is_some()) {
        for step in pair.steps(plan.repeats) {
            let device = step.place.device.clone().into();
            let row = Row { device, uuid: "".into(), values: vec![2e12], ..rows[0].clone() };
            assert!(retest.take(at, &step, &[row]));
        }
    }
    let after = surveyed(&rows, retest).report;
    let [before, after] = [before, after].map(|report| with(&report, Verdict::Inconclusive, &plan));
    assert!(before == after && !after.is_empty());
}

#[test]
fn another_board_in_the_place_of_what_failed_is_not_measured_for_it() {
    let rows = fleet(6, &[(3, 5, 0.08)]);
    let plan = Plan::of(&surveyed(&rows, Retest::default()), false);
    let steps = plan.pairs[0].steps(plan.repeats);
    let mut retest = Retest::new(plan.clone());
    let of = |uuid: &str| {
        let device = steps[0].place.device.clone().into();
        Row { device, uuid: uuid.to_owned().into(), ..rows[0].clone() }
    };
    assert!(!retest.take(0, &steps[0], &[of("GPU-new")]));
    assert!(retest.take(0, &steps[0], &[of("GPU-3-5")]) && retest.take(0, &steps[0], &[of("")]));
}
