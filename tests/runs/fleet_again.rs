//! Whose word counts where figures of many days stand side by side, in stores that were filled
//! before anybody asked that, and in archives.

use super::fleet_whose::{DO_NOT_AGREE, Node, fleet, has, node};
use crate::program::{Place, Said, say};
use serde_json::json;
use std::{fs, process::Command};

/// A node on a day of November.
fn on(day: u32, of: Node) -> Node {
    let time = format!("2026-11-{day:02}T{:02}:00:00Z", of.hour);
    let more = json!({"time": time, "session": format!("{} {time}", of.name)});
    Node { folder: format!("{}-{day}-{}", of.folder, of.hour), more, ..of }
}

/// Eight healthy nodes, measured on six days.
fn days(place: &Place) {
    for day in 10..16 {
        (0..8).for_each(|at| on(day, node(at)).write(place, ""));
    }
}

fn drift(place: &Place) -> Said {
    say(&mut place.fizeau(["fleet", "drift", "bundles"]))
}

#[test]
fn drift_leaves_out_what_nobody_signed_and_what_does_not_agree() {
    let place = Place::new();
    days(&place);
    let quiet = drift(&place);
    has(&quiet, 0, &["0 changes of 64 figures, 0 in decay"]);
    assert_eq!(quiet.out.lines().count(), 1, "{}", quiet.out);
    // Measured twice on one day, and both times alike.
    on(12, Node { hour: 14, ..node(3) }.clone()).write(&place, "");
    has(&drift(&place), 0, &["0 changes"]);
    // Somebody says that n0005 was slow on two days: nobody knows who of both is the node.
    for day in [14, 15] {
        on(day, Node { hour: 14, loss: 0.1, ..node(5) }).write(&place, "");
    }
    let disputed = drift(&place);
    let words = "disputed  n0005 cuda:0: memory read on 2026-11-14: sessions that nobody signed";
    has(&disputed, 4, &["0 changes", words]);
    assert!(!disputed.out.contains("n0003"), "{}", disputed.out);
    // A bundle that speaks of another node is refused, and drift says so too.
    let place = Place::new();
    days(&place);
    let more = on(15, Node { hour: 14, loss: 0.1, ..node(5) }).rows(8);
    on(15, Node { hour: 16, ..node(6) }).write(&place, &more);
    has(&drift(&place), 4, &["0 changes", "left out  ", "8 rows of n0005 refused"]);
}

#[test]
fn a_real_fall_is_found_beside_disputes() {
    let place = Place::new();
    for day in 10..18 {
        let loss = if day >= 14 { 0.1 } else { 0.0 };
        (0..8).filter(|at| *at != 2).for_each(|at| on(day, node(at)).write(&place, ""));
        on(day, Node { loss, ..node(2) }).write(&place, "");
    }
    on(11, Node { hour: 14, loss: 0.1, ..node(5) }).write(&place, "");
    has(&drift(&place), 1, &["n0002 cuda:0: memory read -10.", "disputed  n0005"]);
}

/// A store as it was before rows had a sender.
fn old_store(place: &Place, rows: &str) -> Said {
    fs::create_dir_all(place.path("store/date=2026-11-20")).expect("made");
    fs::write(place.path("store/date=2026-11-20/a.jsonl"), rows).expect("written");
    say(&mut place.fizeau(["fleet", "survey", "store"]))
}

#[test]
fn rows_that_came_in_before_are_recognised() {
    let place = Place::new();
    let own: String = fleet().iter().map(|node| node.rows(8)).collect();
    has(&old_store(&place, &own), 1, &["FAIL  8 nodes, 64 GPUs", "node n0005"]);
    let of_session = |of: Node, session: &str| {
        let time = format!("2026-11-20T{:02}:00:00Z", of.hour);
        Node { more: json!({"session": session, "time": time}), ..of }.rows(8)
    };
    // n0006 has said that n0005 is healthy, and that thirty others are faster.
    let healed = of_session(Node { hour: 12, ..node(6) }, "one")
        + &of_session(Node { hour: 12, ..node(5) }, "one");
    let said = old_store(&place, &(own.clone() + &healed));
    has(&said, 1, &["node n0005", "name several nodes (n0005, n0006), and are refused"]);
    let many: String =
        (20..50).map(|at| of_session(Node { hour: 12, loss: -0.1, ..node(at) }, "one")).collect();
    let said = old_store(&place, &(own.clone() + &many));
    has(&said, 1, &["node n0005", "7 of 37 nodes".replace("7 of 37", "8 of 38").as_str()]);
    assert!(said.out.contains("8 fail"), "{}", said.out);
    // Sessions under the name of n0005 alone, which nobody can tell from its own: both are named,
    // and neither counts, whichever is the later.
    for hour in [8, 12] {
        let other = Node { hour, ..node(5) }.rows(8);
        let said = old_store(&place, &(own.clone() + &other));
        has(&said, 4, &["8 of n0005 on which", DO_NOT_AGREE]);
        assert!(said.out.contains(" 0 fail, 8 inconclusive"), "{}", said.out);
    }
    // The same where another program wrote a sender that is none.
    let more = json!({"sender": "somebody"});
    let other = Node { hour: 12, more, ..node(5) }.rows(8);
    has(&old_store(&place, &(own.clone() + &other)), 4, &[DO_NOT_AGREE]);
    let slow = Node { hour: 12, loss: 0.1, ..node(3) }.rows(8);
    let said = old_store(&place, &(own + &slow));
    has(&said, 1, &["node n0005", "8 of n0003 on which", DO_NOT_AGREE]);
    assert!(said.out.contains(" 8 fail, 8 inconclusive"), "{}", said.out);
}

#[test]
fn empty_folders_of_an_archive_are_named_and_cost_little() {
    let place = Place::new();
    (0..8).for_each(|at| node(at).write(&place, ""));
    let bundles = place.path("bundles");
    // Within a bundle they are of no sender; `rounds` alone is what a killed acceptance leaves.
    fs::create_dir_all(bundles.join("n0003/earlier/1")).expect("made");
    fs::create_dir_all(bundles.join("n0098/rounds")).expect("made");
    for at in 0..20_000 {
        fs::create_dir(bundles.join(format!("x{at:05}"))).expect("made");
    }
    let mut pack = Command::new("tar");
    pack.args(["czf", "all.tgz", "bundles"]).current_dir(place.path(""));
    assert!(pack.status().expect("tar").success());
    let began = std::time::Instant::now();
    let said = say(&mut place.fizeau(["fleet", "survey", "all.tgz"]));
    let took = began.elapsed().as_secs_f64();
    has(&said, 4, &["8 of 20009 nodes", "it is empty", "n0098: "]);
    assert!(!said.out.contains("n0003"), "{}", said.out);
    // To make them took 10 s on an idle machine; the limit is for a busy one.
    assert!(took < 60.0, "{took} s");
}
