//! `fizeau fleet drift` on planted courses of time.

use super::fleet_survey::{fleet, gathered, options};
use fizeau_domain::labels::Labels;
use fizeau_judge::fleet::{
    drift::{Drift, drift},
    row::Row,
    survey::survey,
};
use proptest::prelude::*;

/// Sessions of a fleet in the course of time, where `change` gives the factor of a device on a day.
fn course(days: u32, change: &dyn Fn(&Row<'_>, u32) -> f64) -> Vec<Row<'static>> {
    let mut all = Vec::new();
    for day in 0..days {
        for (at, mut row) in fleet(4, &[]).into_iter().enumerate() {
            row.time = format!("2026-{:02}-{:02}T10:00:00Z", 1 + day / 28, 1 + day % 28).into();
            row.session = format!("{} {day}", row.session).into();
            // The same noise each day would be none.
            row.values.rotate_left((day as usize + at) % 5);
            let own = f64::from((day * 7 + at as u32 * 3) % 11) / 11.0 - 0.5;
            let factor = change(&row, day) * (1.0 + 0.003 * own);
            row.values.iter_mut().for_each(|value| *value *= factor);
            all.push(row);
        }
    }
    all
}

fn drifted(rows: &[Row<'_>]) -> Drift {
    drift(&survey(gathered(rows), &options(), &Labels::default(), None))
}

fn is_it(row: &Row<'_>) -> bool {
    (&*row.node, &*row.device) == ("n2", "cuda:3")
}

#[test]
fn a_fall_has_its_date_and_what_changed_with_it() {
    let fall = |row: &Row<'_>, day: u32| if is_it(row) && day >= 6 { 0.93 } else { 1.0 };
    let mut rows = course(10, &fall);
    for row in rows.iter_mut().filter(|row| is_it(row) && *row.time >= *"2026-01-07") {
        row.vbios = "96.00".into();
    }
    let found = drifted(&rows);
    assert_eq!((found.series, found.short, found.decays.len()), (32, 0, 0));
    let [one] = &found.changes[..] else { panic!("{:?}", found.changes) };
    assert_eq!((one.node.as_str(), one.device.as_str()), ("n2", "cuda:3"));
    assert!(one.since.starts_with("2026-01-07") && (-0.075..-0.065).contains(&one.change));
    assert_eq!(one.with, ["VBIOS  -> 96.00"]);
}

#[test]
fn what_all_lose_is_a_change_of_the_part_and_of_no_device() {
    let found = drifted(&course(12, &|_, day| if day >= 5 { 0.95 } else { 1.0 }));
    let [one] = &found.changes[..] else { panic!("{:?}", found.changes) };
    assert_eq!((one.node.as_str(), one.device.as_str()), ("", "all of h100-sxm"));
    assert!(one.since.starts_with("2026-01-06"), "{one:?}");
}

#[test]
fn decay_is_named_before_it_fails_and_nothing_of_what_stays() {
    let none = drifted(&course(16, &|_, _| 1.0));
    assert_eq!((none.changes.len(), none.decays.len()), (0, 0), "{none:?}");
    let decay = |row: &Row<'_>, day: u32| {
        if is_it(row) { 1.0 - 0.0008 * f64::from(day) } else { 1.0 }
    };
    let found = drifted(&course(16, &decay));
    assert!(found.changes.is_empty(), "{:?}", found.changes);
    let [one] = &found.decays[..] else { panic!("{:?}", found.decays) };
    assert_eq!((one.node.as_str(), one.device.as_str()), ("n2", "cuda:3"));
    assert!((0.009..0.015).contains(&one.lost) && (5.0..15.0).contains(&one.days), "{one:?}");
}

#[test]
fn few_sessions_say_nothing() {
    let found = drifted(&course(3, &|row, day| if is_it(row) && day > 1 { 0.5 } else { 1.0 }));
    assert_eq!((found.series, found.short), (0, 32));
    assert!(found.changes.is_empty());
}

fn names_nobody(rows: &[Row<'_>]) -> Result<(), TestCaseError> {
    let found = drifted(rows);
    prop_assert!(found.changes.is_empty() && found.decays.is_empty(), "{:?}", found);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// A neighbour, a hot day or a warm-up: whatever it was, it is over.
    #[test]
    fn one_bad_session_names_nobody(
        days in 4u32..22,
        place in 0.0f64..1.0,
        factor in prop_oneof![0.3f64..0.97, 1.03f64..1.3],
        many in any::<bool>(),
    ) {
        let last = |text: &str| u32::from(text.as_bytes()[text.len() - 1]);
        let bad = |row: &Row<'_>, of: u32| {
            let own = if many { last(&row.device) + 3 * last(&row.node) } else { 0 };
            of == ((place * f64::from(days)) as u32 + own) % days
        };
        let is_bad = |row: &Row<'_>, day: u32| bad(row, day) && (many || is_it(row));
        let dip = |row: &Row<'_>, day: u32| if is_bad(row, day) { factor } else { 1.0 };
        let rows = course(days, &dip);
        names_nobody(&rows)?;
        // Nor where the device is alone in its store.
        let alone: Vec<Row<'_>> = rows.into_iter().filter(|row| is_it(row)).collect();
        names_nobody(&alone)?;
    }

    #[test]
    fn warming_up_in_the_first_session_names_nobody(days in 4u32..22, lost in 0.03f64..0.5) {
        names_nobody(&course(days, &|_, day| if day == 0 { 1.0 - lost } else { 1.0 }))?;
        names_nobody(&course(days, &|row, day| {
            if day == 0 && is_it(row) { 1.0 - lost } else { 1.0 }
        }))?;
    }
}

#[test]
fn two_low_sessions_at_the_end_are_a_fall_where_none_is_low_by_itself() {
    let found = drifted(&course(12, &|row, day| if is_it(row) && day > 9 { 0.9 } else { 1.0 }));
    let [one] = &found.changes[..] else { panic!("{:?}", found.changes) };
    assert!(one.since.starts_with("2026-01-11") && one.change < -0.08, "{one:?}");
    // What recovered is no fall.
    let back = |row: &Row<'_>, day: u32| {
        if is_it(row) && (5..9).contains(&day) { 0.9 } else { 1.0 }
    };
    assert!(drifted(&course(16, &back)).changes.iter().all(|one| one.change > 0.0));
}

/// Whatever slows a whole node for a session slows all of its devices: one bad session, and not
/// eight of which each makes the others surer.
#[test]
fn two_bad_sessions_of_a_node_in_turn_name_none_of_its_devices() {
    let low = |node: &str, first: u32| {
        let node = node.to_owned();
        course(12, &move |row, day| {
            let is_bad = row.node == node && day >= first;
            // Another node had a bad session, and recovered.
            let was_bad = row.node == "n0" && day == 4;
            if is_bad || was_bad { 0.9 } else { 1.0 }
        })
    };
    names_nobody(&low("n2", 10)).expect("two sessions");
    let found = drifted(&low("n2", 9));
    let of_node = found.changes.iter().filter(|one| one.node == "n2" && one.change < -0.08);
    assert_eq!((of_node.count(), found.changes.len()), (8, 8), "{found:?}");
}

#[test]
fn one_device_alone_has_its_step_found() {
    let rows = course(20, &|row, day| if is_it(row) && day >= 10 { 0.94 } else { 1.0 });
    let alone: Vec<Row<'_>> = rows.into_iter().filter(|row| is_it(row)).collect();
    let found = drifted(&alone);
    assert_eq!((found.changes.len(), found.decays.len()), (1, 0), "{found:?}");
}
