//! Whose word a survey takes: bundles that hide, frame, heal and impersonate. None of them ends in
//! a pass that should not be, and none fails an innocent node.

use crate::program::{Place, Said, say};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{fmt::Write as _, fs, process::Command};

/// A node of eight GPUs, as its bundle tells it.
#[derive(Clone)]
pub struct Node {
    pub folder: String,
    pub name: String,
    pub loss: f64,
    pub hour: u32,
    pub driver: String,
    /// Further columns of each row.
    pub more: Value,
}

pub fn node(number: usize) -> Node {
    let name = format!("n{number:04}");
    let driver = "580".into();
    Node { folder: name.clone(), name, loss: 0.0, hour: 10, driver, more: json!({}) }
}

/// Eight nodes, of which n0005 is 10 % slow.
pub fn fleet() -> Vec<Node> {
    let mut all: Vec<Node> = (0..8).map(node).collect();
    all[5].loss = 0.1;
    all
}

impl Node {
    pub fn rows(&self, gpus: usize) -> String {
        let mut text = String::new();
        for gpu in 0..gpus {
            // Repeats that differ a little, by no random number.
            let wobble = |at: usize| 1.0 + 0.002 * (((at * 7 + gpu * 3) % 5) as f64 - 2.0);
            let values: Vec<f64> = (0..5)
                .map(|at| 3e12 * (1.0 - self.loss) * wobble(at + self.hour as usize))
                .collect();
            let time = format!("2026-11-20T{:02}:00:00Z", self.hour);
            let mut row = json!({
                "format": 1, "session": format!("{} {time}", self.name), "time": time,
                "node": self.name, "device": format!("cuda:{gpu}"),
                "uuid": format!("GPU-{}-{gpu}", self.name), "part": "h100-sxm",
                "driver": self.driver, "metric": "memory read", "point": "stream/read/2GiB",
                "unit": "B/s", "values": values, "least_effect": 0.02,
            });
            for (column, value) in self.more.as_object().expect("columns") {
                row[column] = value.clone();
            }
            let _ = writeln!(text, "{row}");
        }
        text
    }

    /// Writes its bundle, as a closed acceptance leaves it, with these rows besides its own.
    pub fn write(&self, place: &Place, more: &str) {
        self.write_of(place, &(self.rows(8) + more));
    }

    pub fn write_of(&self, place: &Place, rows: &str) {
        self.write_with(place, "{}", rows);
    }

    /// Writes its bundle with this account and these rows.
    pub fn write_with(&self, place: &Place, account: &str, rows: &str) {
        let folder = place.path("bundles").join(&self.folder);
        fs::create_dir_all(&folder).expect("made");
        let identity = json!({"host": self.name, "machine": {}, "gpus": [], "interfaces": []});
        let files = [("account.json", account.to_owned()), ("identity.json", identity.to_string())];
        let mut listed = Vec::new();
        for (name, text) in files.into_iter().chain([("rows.jsonl", rows.to_owned())]) {
            let hash = Sha256::digest(&text);
            let sha256: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            listed.push(json!({"path": name, "sha256": sha256, "size": text.len()}));
            fs::write(folder.join(name), text).expect("written");
        }
        let manifest = format!(r#"{{"files":{},"format":1}}"#, Value::from(listed));
        fs::write(folder.join("manifest.json"), manifest).expect("written");
    }
}

/// A survey of these nodes and of whatever `more` leaves beside them.
fn survey(nodes: &[Node], more: impl FnOnce(&Place), args: &[&str]) -> Said {
    let place = Place::new();
    nodes.iter().for_each(|node| node.write(&place, ""));
    more(&place);
    say(&mut place.fizeau(["fleet", "survey", "bundles"].iter().chain(args)))
}

#[track_caller]
pub fn has(said: &Said, code: i32, words: &[&str]) {
    assert_eq!(said.code, Some(code), "{}{}", said.out, said.err);
    for words in words {
        assert!(said.out.contains(words), "{words:?} is not in:\n{}{}", said.out, said.err);
    }
}

#[test]
fn a_slow_node_fails_and_a_healthy_fleet_passes() {
    has(&survey(&fleet(), |_| {}, &[]), 1, &["FAIL  8 nodes, 64 GPUs", "node n0005"]);
    let healthy: Vec<Node> = (0..8).map(node).collect();
    has(&survey(&healthy, |_| {}, &[]), 0, &["PASS  8 nodes, 64 GPUs", "do: nothing"]);
}

#[test]
fn a_node_that_hides_is_accounted_for() {
    let changed = |change: &dyn Fn(&mut Node)| {
        let mut nodes = fleet();
        change(&mut nodes[5]);
        survey(&nodes, |_| {}, &[])
    };
    let alone = changed(&|node| node.driver = "580x".into());
    let hint = "8 devices of n0005 10.0 % below the 56 of h100-sxm";
    has(&alone, 4, &["fewer than three nodes, which shows no slow node", hint, "driver 580x"]);
    for mark in ["stub", "simulated"] {
        let marked = changed(&|node| node.more = json!({"mark": mark}));
        has(&marked, 4, &["7 of 8 nodes, 56 GPUs", "unusable  n0005: cuda:0: its figures are"]);
    }
    for year in [2024, 2099] {
        let time = format!("{year}-11-20T10:00:00Z");
        let dated = changed(&|node| node.more = json!({"time": time}));
        has(&dated, 4, &["7 of 8 nodes", "unusable  n0005: cuda:0: its session is dated"]);
    }
    let unnamed = changed(&|node| node.more = json!({"node": ""}));
    has(&unnamed, 4, &["7 of 8 nodes", "unusable  n0005: 8 rows"]);
    let no_rates = changed(&|node| node.more = json!({"values": [null, null]}));
    has(&no_rates, 4, &["no rate, left out"]);
    // An empty folder, and what is left of an acceptance that was killed at its beginning.
    let rest: Vec<Node> = fleet().into_iter().filter(|node| node.name != "n0005").collect();
    let made = |name: &'static str, text: Option<&'static str>| {
        survey(
            &rest,
            |place| {
                let folder = place.path("bundles/n0005");
                fs::create_dir(&folder).expect("made");
                text.into_iter().for_each(|text| fs::write(folder.join(name), text).expect("file"));
            },
            &[],
        )
    };
    has(&made("", None), 4, &["7 of 8 nodes", "n0005: it is empty"]);
    has(&made("identity.json", Some("{\"host\":\"n0005\"}")), 4, &["unusable  n0005: "]);
    // What was never there is missing where a list says so.
    let listed = survey(
        &rest,
        |place| {
            let names: String = (0..8).map(|at| format!("n{at:04}\n")).collect();
            fs::write(place.path("nodes"), names).expect("written");
        },
        &["--expected", "nodes"],
    );
    has(&listed, 4, &["7 of 8 nodes", "8 nodes planned = 7 measured + 1 missing: n0005"]);
    // A GPU or a metric less than the others have.
    let fewer = |rows: &dyn Fn(&Node) -> String| {
        survey(&rest, |place| fleet()[5].write_of(place, &rows(&fleet()[5])), &[])
    };
    let healthy = |node: &Node| Node { loss: 0.0, ..node.clone() };
    has(&fewer(&|node| healthy(node).rows(7)), 4, &["7 GPUs, and nodes of its kind have 8"]);
    let other = json!({"metric": "other"});
    let absent = fewer(&|node| Node { more: other.clone(), ..healthy(node) }.rows(8));
    has(&absent, 4, &["memory read is absent, which nodes of its kind have"]);
}

#[test]
fn a_bundle_speaks_for_no_other_node() {
    let with =
        |more: &dyn Fn() -> String| survey(&fleet(), |place| node(6).write(place, &more()), &[]);
    // Healthy rows of the slow node, two hours later.
    let healed = with(&|| Node { hour: 12, ..node(5) }.rows(8));
    has(&healed, 1, &["node n0005", "8 rows of n0005 refused: a bundle speaks for its own node"]);
    // Slow rows of a healthy one, and of thirty.
    let framed = with(&|| Node { hour: 12, loss: 0.2, ..node(7) }.rows(8));
    has(&framed, 1, &["node n0005", "8 rows of n0007 refused"]);
    assert!(!framed.out.contains("node n0007"), "{}", framed.out);
    let many = with(&|| (20..50).map(|at| Node { loss: -0.1, ..node(at) }.rows(8)).collect());
    has(&many, 1, &["FAIL  8 nodes", "240 rows of 30 other nodes, such as n0020 refused"]);
    // A store that lies among bundles.
    let store = survey(
        &fleet(),
        |place| {
            let rows = Node { hour: 12, ..node(5) }.rows(8);
            fs::write(place.path("bundles/rows-of-all.jsonl"), rows).expect("written");
        },
        &[],
    );
    has(&store, 1, &["node n0005", "a store among bundles is refused"]);
}

#[test]
fn no_sender_weighs_more_than_a_node() {
    let healthy: Vec<Node> = (0..8).map(node).collect();
    for (gpus, words) in [(64, "PASS  9 nodes"), (1024, "reports more than 128 devices")] {
        let said = survey(
            &healthy,
            |place| {
                let fast = Node { loss: -0.1, ..node(9) };
                fast.write_of(place, &fast.rows(gpus));
            },
            &[],
        );
        let code = if gpus == 64 { 0 } else { 4 };
        has(&said, code, &[words]);
        assert!(said.out.contains(" 0 fail"), "{}", said.out);
    }
}

/// What is said of a figure that bundles do not agree on.
pub const DO_NOT_AGREE: &str = "two bundles that are not both signed do not agree";

#[test]
fn bundles_of_one_node_that_do_not_agree_are_not_believed() {
    let evil = |loss: f64, number: usize, hour: u32| {
        let folder = "evil".into();
        move |place: &Place| Node { folder, loss, hour, ..node(number) }.write(place, "")
    };
    let healed = survey(&fleet(), evil(0.0, 5, 12), &[]);
    has(&healed, 4, &[" 0 fail, 8 inconclusive", DO_NOT_AGREE]);
    let framed = survey(&fleet(), evil(0.2, 7, 12), &[]);
    has(&framed, 1, &["node n0005", "8 figures not decided: 8 of n0007 on which two bundles"]);
    assert!(!framed.out.contains("node n0007"), "{}", framed.out);
    // An honest node that was measured twice.
    let healthy: Vec<Node> = (0..8).map(node).collect();
    has(&survey(&healthy, evil(0.0, 3, 12), &[]), 0, &["PASS  8 nodes, 64 GPUs"]);
    // A board that another node says it has now.
    let stolen = survey(
        &fleet(),
        |place| {
            let more = json!({"uuid": "GPU-n0005-0"});
            let thief = Node { more, hour: 12, ..node(8) };
            thief.write_of(place, &thief.rows(1));
        },
        &[],
    );
    assert!(matches!(stolen.code, Some(1 | 4)), "{}", stolen.out);
    has(&stolen, stolen.code.unwrap_or(0), &["n0005", "said to be in another node now"]);
}

#[test]
fn what_was_collected_is_known_again_and_a_signature_decides() {
    let place = Place::new();
    fleet().iter().for_each(|node| node.write(&place, ""));
    let collect = |more: &[&str]| {
        let args = ["fleet", "collect", "bundles", "--store", "store"];
        say(&mut place.fizeau(args.iter().chain(more)))
    };
    assert_eq!(collect(&[]).code, Some(0));
    Node { folder: "evil".into(), hour: 12, ..node(5) }.write(&place, "");
    assert_eq!(collect(&[]).code, Some(0));
    let said = say(&mut place.fizeau(["fleet", "survey", "store"]));
    has(&said, 4, &[DO_NOT_AGREE]);
    // Each node has a key; the forger has one of its own.
    let keys = Command::new("ssh-keygen").arg("-?").output();
    if keys.is_err() {
        return;
    }
    let run = |args: &[&str]| {
        let made = Command::new("ssh-keygen").args(args).current_dir(place.path("")).output();
        assert!(made.expect("ssh-keygen").status.success(), "{args:?}");
    };
    let mut signers = String::new();
    for at in 0..8 {
        let name = format!("n{at:04}");
        run(&["-q", "-t", "ed25519", "-N", "", "-f", &name]);
        let public = fs::read_to_string(place.path(&format!("{name}.pub"))).expect("a key");
        signers += &format!("{name} {public}");
        let manifest = format!("bundles/{name}/manifest.json");
        run(&["-Y", "sign", "-q", "-n", "fizeau", "-f", &name, &manifest]);
    }
    fs::write(place.path("signers"), signers).expect("written");
    // Signed by another node's key.
    run(&["-Y", "sign", "-q", "-n", "fizeau", "-f", "n0006", "bundles/evil/manifest.json"]);
    let args = ["fleet", "survey", "bundles", "--allowed-signers", "signers"];
    let said = say(&mut place.fizeau(args));
    has(&said, 1, &["node n0005", "not signed by a key that --allowed-signers has for n0005"]);
    // The store has rows that nobody signed, until signed bundles alone are collected.
    let args = ["fleet", "survey", "store", "--allowed-signers", "signers"];
    assert_eq!(say(&mut place.fizeau(args)).code, Some(3));
    fs::remove_dir_all(place.path("store")).expect("removed");
    // One of them is not signed by its node.
    assert_eq!(collect(&["--allowed-signers", "signers"]).code, Some(4));
    has(&say(&mut place.fizeau(args)), 1, &["FAIL  8 nodes", "node n0005"]);
    let wrong = ["fleet", "survey", "bundles", "--allowed-signers", "nothing"];
    assert_eq!(say(&mut place.fizeau(wrong)).code, Some(3));
}

/// A session is what a bundle says it is: another bundle can repeat it with other values, and more
/// of them.
#[test]
fn a_second_bundle_of_the_same_session_neither_heals_nor_frames() {
    let more = json!({"values": [3e12, 3.001e12, 2.999e12, 3e12, 3.002e12, 3e12]});
    let heals = Node { folder: "zevil".into(), loss: 0.0, more, ..fleet()[5].clone() };
    for folder in ["aevil", "zevil"] {
        let evil = Node { folder: folder.into(), ..heals.clone() };
        let said = survey(&fleet(), |place| evil.write(place, ""), &[]);
        has(&said, 4, &[DO_NOT_AGREE]);
    }
    let more = json!({"values": [2.4e12, 2.401e12, 2.399e12, 2.4e12, 2.402e12, 2.4e12]});
    let frames = Node { folder: "zevil".into(), more, ..node(7) };
    let healthy: Vec<Node> = (0..8).map(node).collect();
    let said = survey(&healthy, |place| frames.write(place, ""), &[]);
    has(&said, 4, &[DO_NOT_AGREE]);
}

/// A node of which nobody knows how fast it is says nothing of what is usual: whoever leaves
/// bundles under many names must not make the other nodes fail.
#[test]
fn what_bundles_do_not_agree_on_is_no_reference_for_others() {
    for (hour, loss) in [(12, -0.1), (8, -0.1), (12, 0.1), (8, 0.1)] {
        let evil = |at: usize| Node { folder: format!("evil{at}"), hour, loss, ..node(at) };
        // Of four nodes, and of all but two.
        for first in [4, 2] {
            let with = |nodes: &[Node]| {
                let more = |place: &Place| (first..8).for_each(|at| evil(at).write(place, ""));
                survey(nodes, more, &[])
            };
            let healthy: Vec<Node> = (0..8).map(node).collect();
            // Both of two bundles may say that a device is fast enough; two nodes show no slow one.
            let code = if loss < 0.0 && first == 4 { 0 } else { 4 };
            has(&with(&healthy), code, &[" 0 fail"]);
            let mut slow = healthy;
            slow[1].loss = 0.1;
            let said = with(&slow);
            has(&said, if first == 4 { 1 } else { 4 }, &[]);
            assert!(!said.out.contains("node n0000"), "{}", said.out);
            // Of two undisputed nodes the slower one may be named, and fails nothing.
            assert!(first == 2 || said.out.contains("node n0001"), "{}", said.out);
        }
    }
}

/// One name of the operator's list is one node.
#[test]
fn nodes_of_two_domains_do_not_stand_for_one_of_the_list() {
    let mut rest: Vec<Node> = (0..8).filter(|at| *at != 5).map(node).collect();
    let list = |place: &Place| {
        let names: Vec<String> = (0..8).map(|at| format!("n{at:04}\n")).collect();
        fs::write(place.path("list"), names.concat()).expect("written");
    };
    let named = |name: &str| Node { name: name.into(), folder: name.into(), ..node(5) };
    rest.push(named("n0005.one"));
    has(&survey(&rest, list, &["--expected", "list"]), 0, &["8 nodes planned = 8 measured"]);
    rest.push(named("n0005.two"));
    let said = survey(&rest, list, &["--expected", "list"]);
    has(&said, 4, &["7 measured + 1 missing: n0005", "n0005.one", "n0005.two"]);
    // Who is called exactly so is the one.
    rest.push(Node { loss: 0.1, ..node(5) });
    has(&survey(&rest, list, &["--expected", "list"]), 1, &["node n0005", "not in the list"]);
}

#[test]
fn a_link_to_what_is_read_already_has_a_line() {
    let healthy: Vec<Node> = (0..8).filter(|at| *at != 5).map(node).collect();
    let link = |place: &Place| {
        std::os::unix::fs::symlink("n0007", place.path("bundles/n0005")).expect("linked");
    };
    has(&survey(&healthy, link, &[]), 0, &["bundles/n0005: it is a link to what is read already"]);
}

/// Nodes that are not in the operator's list count for nothing: neither as what others are compared
/// with, nor as nodes that a stratum has enough of.
#[test]
fn nodes_that_are_not_in_the_list_count_for_nothing() {
    let list = |place: &Place| {
        let names: Vec<String> = (0..8).map(|at| format!("n{at:04}\n")).collect();
        fs::write(place.path("list"), names.concat()).expect("written");
    };
    let ghosts = |loss: f64, count: usize| -> Vec<Node> {
        let ghost = |at: usize| Node { loss, ..node(at) };
        (50..50 + count).map(ghost).collect()
    };
    let with = |nodes: &[Node], ghosts: &[Node]| {
        let more = |place: &Place| {
            list(place);
            ghosts.iter().for_each(|ghost| ghost.write(place, ""));
        };
        survey(nodes, more, &["--expected", "list"])
    };
    let healthy: Vec<Node> = (0..8).map(node).collect();
    let faster = with(&healthy, &ghosts(-0.06, 20));
    has(&faster, 4, &["not in the list", "n0050"]);
    assert!(!faster.out.contains("FAIL"), "{}", faster.out);
    let slower = with(&fleet(), &ghosts(0.1, 20));
    has(&slower, 1, &["node n0005"]);
    let mut hidden = fleet();
    hidden[5].driver = "580x".into();
    let mut beside = ghosts(0.1, 2);
    beside.iter_mut().for_each(|ghost| ghost.driver = "580x".into());
    has(&with(&hidden, &beside), 4, &["fewer than three nodes"]);
}

#[test]
fn a_link_out_of_the_folder_brings_nothing_in() {
    let healthy: Vec<Node> = (0..8).map(node).collect();
    let said = survey(
        &healthy,
        |place| {
            let away = Node { loss: 0.2, ..node(99) };
            away.write(place, "");
            let outside = place.path("outside");
            fs::rename(place.path("bundles/n0099"), &outside).expect("moved");
            let link = place.path("bundles/link");
            std::os::unix::fs::symlink(&outside, link).expect("linked");
        },
        &[],
    );
    has(&said, 4, &["PASS  8 nodes".replace("PASS", "INCONCLUSIVE").as_str()]);
    assert!(!said.out.contains("n0099"), "{}", said.out);
}

/// The noise of all is not that of the node which repeated itself most.
#[test]
fn a_node_that_repeats_itself_does_not_open_the_others() {
    let mut nodes = fleet();
    let wild = (0..1000).map(|at| 3e12 * if at % 2 == 0 { 0.8 } else { 1.2 });
    nodes[6].more = json!({"values": wild.collect::<Vec<f64>>()});
    has(&survey(&nodes, |_| {}, &[]), 1, &["node n0005"]);
}
