//! `fizeau fleet retest` on rows of a store: who is measured beside whom, and what the results come
//! to.

use super::fleet_survey::{failed, fleet, gathered, options};
use fizeau::{
    fleet::{
        plan::{Plan, Retest},
        row::Row,
        survey::{Surveyed, survey},
    },
    format,
    labels::Labels,
    verdict::Verdict,
};
use std::collections::BTreeSet;

fn surveyed(rows: &[Row<'_>], retest: Retest) -> Surveyed {
    let mut options = options();
    options.retest = retest;
    survey(gathered(rows), &options, &Labels::default(), None)
}

/// What each step of a plan left: the rates of the device that failed are lower by `loss`.
fn measured(plan: &Plan, rows: &[Row<'_>], loss: f64, sessions: usize) -> Retest {
    let mut retest = Retest::new(plan.clone());
    for (at, pair) in plan.pairs.iter().enumerate() {
        for (turn, step) in pair.steps(plan.repeats).iter().enumerate() {
            if step.session > sessions {
                continue;
            }
            let share = if step.is_partner { 1.0 } else { 1.0 - loss };
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

/// A fleet in which some are too close to the least effect, with the plan that may decide them.
fn close() -> (Vec<Row<'static>>, Plan, String) {
    let rows = fleet(12, &[(2, 1, 0.021), (5, 5, 0.08)]);
    let first = surveyed(&rows, Retest::default());
    let open = first.report.flagged.iter().find(|one| one.verdict == Verdict::Inconclusive);
    let who = open.map(|one| format!("{} {}", one.node, one.device)).expect("one is too close");
    assert_eq!(who, "n2 cuda:1");
    (rows, Plan::of(&first, true), who)
}

#[test]
fn what_is_too_close_is_planned_where_asked() {
    let (rows, plan, _) = close();
    let pairs: Vec<_> = plan.pairs.iter().filter(|pair| pair.repeats.is_some()).collect();
    assert_eq!((plan.pairs.len(), plan.hopeless + pairs.len()), (1 + pairs.len(), 1));
    assert!(rows.len() == 96);
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
