//! More ways to hide, frame and heal: in what is collected, by keys that are no longer listed, by
//! words of another day, by boards that another node claims, and by names that look alike.

use super::fleet_whose::{DO_NOT_AGREE, Node, fleet, has, node};
use crate::program::{Place, Said, say};
use serde_json::json;
use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

/// What a session of a node is called.
fn session(of: &Node) -> String {
    format!("{} 2026-11-20T{:02}:00:00Z", of.name, of.hour)
}

fn run(place: &Place, words: &[&str]) -> Said {
    say(&mut place.fizeau(["fleet"].iter().chain(words)))
}

fn collect(place: &Place, more: &[&str]) -> Said {
    run(place, &[&["collect", "bundles", "--store", "store"], more].concat())
}

/// Writes a fleet and what `more` leaves beside it.
fn written(nodes: &[Node], more: &[Node]) -> Place {
    let place = Place::new();
    nodes.iter().chain(more).for_each(|node| node.write(&place, ""));
    place
}

/// A session is what its bundle says it is: no bundle keeps another out of a store by its name.
#[test]
fn a_store_takes_each_bundle_whatever_its_session_is_called() {
    // n0005, which is slow, says that its session is that of n0003.
    let mut hidden = fleet();
    hidden[5].more = json!({"session": session(&node(3))});
    let place = written(&hidden, &[]);
    has(&collect(&place, &[]), 0, &["store: 8 sessions added, 64 rows"]);
    has(&run(&place, &["survey", "store"]), 1, &["FAIL  8 nodes, 64 GPUs", "node n0005"]);
    assert!(collect(&place, &[]).out.contains("0 sessions added, 0 rows; already there: 8"));
    // A healthy bundle under its name and of its session, found before it and after it.
    for folder in ["a-evil", "z-evil"] {
        let healed = Node { loss: 0.0, folder: folder.into(), ..fleet()[5].clone() };
        let place = written(&fleet(), &[healed]);
        has(&collect(&place, &[]), 0, &["9 sessions added, 72 rows"]);
        has(&run(&place, &["survey", "store"]), 4, &["8 of n0005 on which", DO_NOT_AGREE]);
    }
    // The same, collected a day earlier than the node's own.
    let place = written(&[], &[Node { loss: 0.0, ..fleet()[5].clone() }]);
    has(&collect(&place, &[]), 0, &["1 session added"]);
    fleet().iter().for_each(|node| node.write(&place, ""));
    has(&collect(&place, &[]), 0, &["8 sessions added"]);
    has(&run(&place, &["survey", "store"]), 4, &["8 of n0005 on which", DO_NOT_AGREE]);
    // The first of its rows has no date: the others are there all the same.
    let place = written(&[], &[]);
    for one in fleet() {
        let rows = one.rows(8);
        let first = rows.lines().next().expect("a row").replace("2026-11-20T", "day one ");
        one.write_of(&place, &format!("{first}\n{rows}"));
    }
    has(&collect(&place, &[]), 4, &["8 sessions added, 64 rows"]);
    has(&run(&place, &["survey", "store"]), 1, &["node n0005"]);
}

#[test]
fn a_collection_says_who_sent_what_cannot_be_used() {
    let rest: Vec<Node> = fleet().into_iter().filter(|node| node.name != "n0005").collect();
    let place = written(&rest, &[]);
    fs::create_dir(place.path("bundles/n0005")).expect("made");
    let said = collect(&place, &[]);
    has(&said, 4, &["7 sessions added"]);
    assert!(said.err.contains("bundles/n0005: it is empty"), "{}", said.err);
    let said = run(&place, &["collect", "bundles", "--store", "other", "--json"]);
    has(&said, 4, &["bundles/n0005: it is empty"]);
    // A format of tomorrow, and a bundle that speaks of another node.
    let newer = Node { more: json!({"format": 2}), ..fleet()[5].clone() };
    let place = written(&rest, &[newer]);
    assert_eq!(collect(&place, &[]).code, Some(4));
    has(&run(&place, &["survey", "bundles"]), 4, &["n0005"]);
    let place = written(&rest, &[]);
    node(6).write(&place, &Node { hour: 12, ..node(5) }.rows(8));
    let said = collect(&place, &[]);
    assert!(said.code == Some(4) && said.err.contains("8 rows of n0005 refused"), "{}", said.err);
}

/// A survey of a store is no better than one of what was sent, also after the collection is over.
#[test]
fn a_store_remembers_what_could_not_be_collected_until_it_is() {
    let mut healthy: Vec<Node> = (0..8).map(node).collect();
    let late = healthy.remove(5);
    let place = written(&healthy, &[]);
    let folder = place.path("bundles/n0005");
    fs::create_dir(&folder).expect("made");
    for _ in 0..2 {
        has(&collect(&place, &[]), 4, &["7 session"]);
        let words = ["7 of 8 nodes", "unusable  bundles/n0005: not collected on 20", "it is empty"];
        has(&run(&place, &["survey", "store"]), 4, &words);
        has(&run(&place, &["drift", "store"]), 4, &["left out  bundles/n0005: not collected on"]);
        // What is written is of today, and the sessions are of 2026.
        let days = ["survey", "store", "--until", "2026-11-20"];
        has(&run(&place, &days), 0, &["PASS  7 nodes"]);
    }
    // A bundle cannot say that a collection took another.
    let word = json!({"sender": "collector", "metric": "collection", "verdict": "pass"});
    let teller = Node { hour: 12, more: word, ..node(5) };
    Node { folder: "teller".into(), ..node(6) }.write(&place, &teller.rows(1));
    has(&collect(&place, &[]), 4, &[]);
    has(&run(&place, &["survey", "store"]), 4, &["unusable  bundles/n0005"]);
    fs::remove_dir_all(place.path("bundles/teller")).expect("removed");
    // Once the node's bundle is there and is taken, nothing is open.
    fs::remove_dir(&folder).expect("removed");
    late.write(&place, "");
    has(&collect(&place, &[]), 0, &["1 session added"]);
    has(&run(&place, &["survey", "store"]), 0, &["PASS  8 nodes"]);
}

/// Who may write to a folder of bundles does not hide the others by a file in it.
#[test]
fn a_file_of_a_bundle_hides_no_bundle_below_it() {
    let place = written(&fleet(), &[]);
    fs::create_dir(place.path("bundles/rack")).expect("made");
    for at in 3..8 {
        let folder = |below: &str| place.path(&format!("bundles/{below}n000{at}"));
        fs::rename(folder(""), folder("rack/")).expect("moved");
    }
    has(&run(&place, &["survey", "bundles"]), 1, &["8 nodes", "node n0005"]);
    fs::write(place.path("bundles/rack/verdict.json"), "{}").expect("written");
    has(&run(&place, &["survey", "bundles"]), 1, &["node n0005"]);
    // The same where it is a whole bundle.
    node(0).write(&place, "");
    for file in ["manifest.json", "identity.json", "account.json", "rows.jsonl"] {
        let path = |below: &str| place.path(&format!("bundles/{below}/{file}"));
        fs::copy(path("n0000"), path("rack")).expect("copied");
    }
    fs::remove_file(place.path("bundles/rack/verdict.json")).expect("removed");
    has(&run(&place, &["survey", "bundles"]), 1, &["8 nodes", "node n0005"]);
}

/// A rate in another unit makes no slow device fast.
#[test]
fn a_device_that_is_faster_than_any_of_its_kind_does_not_pass() {
    let mut nodes = fleet();
    nodes[5].loss = 1.0 - 900.0;
    let place = written(&nodes, &[]);
    let words = ["8 of n0005 faster than any of the stratum can be"];
    has(&run(&place, &["survey", "bundles"]), 4, &words);
}

/// Makes a key.
fn key(place: &Place, name: &str) -> Option<String> {
    let mut make = Command::new("ssh-keygen");
    make.args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", name]);
    make.current_dir(place.path("")).status().is_ok_and(|made| made.success()).then(|| {
        fs::read_to_string(place.path(&format!("{name}.pub"))).expect("a key").trim().to_owned()
    })
}

fn sign(place: &Place, key: &str, folder: &str) {
    let manifest = format!("bundles/{folder}/manifest.json");
    let mut sign = Command::new("ssh-keygen");
    sign.args(["-Y", "sign", "-q", "-n", "fizeau", "-f", key, &manifest]);
    assert!(sign.current_dir(place.path("")).output().expect("it runs").status.success());
}

const SIGNED: [&str; 2] = ["--allowed-signers", "signers"];

#[test]
fn a_key_that_is_no_longer_listed_vouches_for_nothing() {
    let place = written(&fleet(), &[]);
    let Some(operator) = key(&place, "operator") else { return };
    let [first, second] = ["first", "second"].map(|name| key(&place, name).expect("a key"));
    let list = |keys: &[&str]| {
        let own = keys.iter().map(|key| format!("n0005 {key}\n"));
        let text: String = [format!("*,!n0005 {operator}\n")].into_iter().chain(own).collect();
        fs::write(place.path("signers"), text).expect("written");
    };
    let with = |words: &[&str]| run(&place, &[words, &SIGNED].concat());
    (0..8).filter(|at| *at != 5).for_each(|at| sign(&place, "operator", &format!("n{at:04}")));
    // Two keys of one node: a bundle by either is the node's, and of two the later counts.
    list(&[&first, &second]);
    sign(&place, "second", "n0005");
    let healed = Node { folder: "evil".into(), hour: 12, ..node(5) };
    healed.write(&place, "");
    sign(&place, "first", "evil");
    has(&with(&["survey", "bundles"]), 0, &["PASS  8 nodes"]);
    assert_eq!(collect(&place, &SIGNED).code, Some(0));
    has(&with(&["survey", "store"]), 0, &["PASS  8 nodes"]);
    // The first was stolen: neither a bundle nor what was collected under it counts.
    list(&[&second]);
    has(&with(&["survey", "bundles"]), 1, &["node n0005", "not signed by a key"]);
    let words = ["node n0005", "the key that signed their bundle is none"];
    has(&with(&["survey", "store"]), 1, &words);
    let drifted = with(&["drift", "store"]);
    assert!(drifted.out.contains("left out  store/date=2026-11-20/"), "{}", drifted.out);
    let planned = with(&["retest", "store", "--out", "retest"]);
    assert!(planned.code.is_some_and(|code| code < 3), "{}{}", planned.out, planned.err);
    // The key of the others is none of n0005.
    sign_again(&place);
    list(&[]);
    has(&with(&["survey", "bundles"]), 4, &["7 of 8 nodes", "unusable  n0005"]);
    has(&with(&["survey", "store"]), 4, &["7 of 8 nodes", "unusable  n0005"]);
}

/// The operator's key signs what it may not sign.
fn sign_again(place: &Place) {
    fs::remove_file(place.path("bundles/n0005/manifest.json.sig")).expect("removed");
    sign(place, "operator", "n0005");
}

/// A signature decides: what nobody signed neither heals nor frames a node that is in the store by
/// its signed bundle.
#[test]
fn an_unsigned_bundle_does_not_replace_a_signed_one() {
    for (loss, other) in [(0.1, 0.0), (0.0, 0.1)] {
        let mut nodes = fleet();
        nodes[5].loss = loss;
        let place = written(&nodes, &[]);
        let Some(operator) = key(&place, "operator") else { return };
        fs::write(place.path("signers"), format!("* {operator}\n")).expect("written");
        (0..8).for_each(|at| sign(&place, "operator", &format!("n{at:04}")));
        assert_eq!(collect(&place, &SIGNED).code, Some(0));
        Node { folder: "evil".into(), hour: 12, loss: other, ..node(5) }.write(&place, "");
        assert_eq!(collect(&place, &[]).code, Some(0));
        has(&run(&place, &["survey", "store"]), 4, &["8 of n0005 on which", DO_NOT_AGREE]);
        // Nor do many of them, however they are taken together.
        for hour in 6..9 {
            let folder = format!("evil{hour}");
            Node { folder, hour, loss: other, ..node(5) }.write(&place, "");
        }
        fs::remove_dir_all(place.path("bundles/evil")).expect("removed");
        fs::remove_dir_all(place.path("store")).expect("removed");
        assert!([&SIGNED[..], &[]].iter().all(|more| collect(&place, more).code.is_some()));
        let both = run(&place, &["survey", "store", "--combine"]);
        // By the signed one alone, or disputed where the copy that nobody signed is looked at.
        let right = if loss > 0.0 { 1 } else { 0 };
        assert!([right, 4].map(Some).contains(&both.code), "{}", both.out);
        // Where none is signed, they are not agreed on.
        fs::remove_dir_all(place.path("store")).expect("removed");
        assert_eq!(collect(&place, &[]).code, Some(0));
        let both = run(&place, &["survey", "store", "--combine"]);
        has(&both, 4, &["8 of n0005 on which", DO_NOT_AGREE]);
        assert_eq!(collect(&place, &SIGNED).code, Some(4));
        let signed = run(&place, &[&["survey", "store"], &SIGNED[..]].concat());
        assert_eq!(signed.out.contains("node n0005"), loss > 0.0, "{}", signed.out);
    }
}

/// Rows of a store, and records outside of bundles, say of no word that they were made for it.
#[test]
fn a_challenge_is_asked_of_everything_that_is_read() {
    let place = written(&fleet(), &[]);
    assert_eq!(collect(&place, &[]).code, Some(0));
    let word = ["--challenge", "heron"];
    let said = run(&place, &[&["survey", "store"], &word[..]].concat());
    assert_eq!(said.code, Some(3), "{}{}", said.out, said.err);
    assert!(said.err.contains("and this is of none"), "{}", said.err);
    let record = place.path("records/one/record.jsonl");
    fs::create_dir_all(record.parent().expect("a folder")).expect("made");
    fs::write(record, include_str!("../golden/v1.jsonl")).expect("written");
    let said = run(&place, &[&["survey", "records"], &word[..]].concat());
    assert!(said.err.contains("and this is of none"), "{}{}", said.out, said.err);
    // A collection takes bundles that were made for the word, and no others.
    for at in [0, 1] {
        let word = if at == 0 { "heron" } else { "egret" };
        let account = json!({
            "format": 1, "command": [], "program": {"version": "1", "build": "1", "sha256": "1"},
            "started": "2026-11-20T10:00:00Z", "closed": "2026-11-20T10:05:00Z",
            "level": "quick", "at_rest": {}, "challenge": word,
        });
        node(at).write_with(&place, &account.to_string(), &node(at).rows(8));
    }
    let more = ["collect", "bundles", "--store", "asked"];
    let said = run(&place, &[&more, &word[..]].concat());
    assert_eq!(said.code, Some(4), "{}{}", said.out, said.err);
    assert!(!said.err.contains("bundles/n0000:"), "{}", said.err);
    assert!(said.err.contains("bundles/n0001: it was not made for the word"), "{}", said.err);
}

/// A node that says that it has the boards of another hides no fall of theirs.
#[test]
fn drift_names_devices_whose_boards_another_node_claims() {
    let place = Place::new();
    let on = |day: u32, of: Node| {
        let time = format!("2026-11-{day:02}T10:00:00Z");
        let mut more = of.more.clone();
        more["time"] = json!(time);
        more["session"] = json!(format!("{} {time}", of.name));
        Node { folder: format!("{}-{day}", of.folder), more, ..of }
    };
    for day in 10..18 {
        (0..8).filter(|at| *at != 5).for_each(|at| on(day, node(at)).write(&place, ""));
        let loss = if day >= 14 { 0.1 } else { 0.0 };
        on(day, Node { loss, ..node(5) }).write(&place, "");
    }
    has(&run(&place, &["drift", "bundles"]), 1, &["n0005 cuda:0: memory read -10."]);
    let thief = on(19, Node { more: json!({"uuid": "GPU-n0005-0"}), ..node(8) });
    thief.write_of(&place, &thief.rows(1));
    let said = run(&place, &["drift", "bundles"]);
    let words = "left out  n0005: cuda:0: its board is said to be in another node now";
    has(&said, 1, &[words, "replaced  board GPU-n0005-0 was in n0005 and is now in n0008"]);
    // The one board that fell: nothing else is slower.
    let place = Place::new();
    for day in 10..18 {
        for at in 0..8 {
            let one = on(day, node(at));
            let slow = Node { loss: 0.1, ..one.clone() }.rows(1);
            let rows = one.rows(8);
            let rest: String = rows.lines().skip(1).map(|line| format!("{line}\n")).collect();
            one.write_of(&place, &if at == 5 && day >= 14 { slow + &rest } else { rows });
        }
    }
    thief.write_of(&place, &thief.rows(1));
    has(&run(&place, &["drift", "bundles"]), 4, &["0 changes", words]);
}

/// Names that a reader takes for those of others have their letters' numbers; a list has each node
/// once, however it is spelt.
#[test]
fn names_that_look_alike_are_told_apart() {
    for (name, words) in [
        ("n\u{43e}005", "n\u{43e}005: its name is n\\u{43e}005, which may look like"),
        ("n0005\u{200b}", "its name is n0005\\u{200b}, which may look like"),
        ("n0005\u{202e}", "its name is n0005\\u{202e}, which may look like"),
        ("n0005\u{1b}[2J", "its name is n0005\\u{1b}[2J, which may look like"),
        ("n0005 ", "its name is n0005 , which may look like"),
    ] {
        let twin = Node { name: name.into(), folder: "twin".into(), hour: 12, ..node(5) };
        let place = written(&fleet(), &[twin]);
        has(&run(&place, &["survey", "bundles"]), 1, &["node n0005", words]);
        assert!(collect(&place, &[]).code == Some(0), "{name:?}");
        let said = run(&place, &["survey", "store"]);
        has(&said, 1, &["node n0005", words]);
        assert!(!said.out.contains(['\u{200b}', '\u{202e}', '\u{1b}']), "{}", said.out);
    }
    let long = "n".repeat(100_000);
    let twin = Node { name: long, folder: "twin".into(), hour: 12, ..node(5) };
    let place = written(&fleet(), &[twin]);
    let said = run(&place, &["survey", "bundles"]);
    has(&said, 1, &["node n0005", "a text of 1000"]);
    assert!(said.out.len() < 10_000, "{}", said.out.len());
    assert_eq!(collect(&place, &[]).code, Some(4));
    has(&run(&place, &["survey", "store"]), 1, &["node n0005", "a text of 1000"]);
    // Lists.
    let names: Vec<String> = (0..8).map(|at| format!("n{at:04}")).collect();
    let listed = |text: String| {
        let place = written(&fleet(), &[]);
        fs::write(place.path("list"), text).expect("written");
        run(&place, &["survey", "bundles", "--expected", "list"])
    };
    has(&listed(format!("\u{feff}{}\n", names.join("\n"))), 1, &["8 nodes planned = 8 measured"]);
    for (more, words) in [
        ("n0005", "line 9: n0005 is there twice"),
        ("N0005", "line 9: N0005 is there twice, also as n0005"),
        ("n0005.", "line 9: n0005. is there twice, also as n0005"),
        ("n0005\u{200b}", "line 9: n0005\u{fffd} has characters that cannot be seen"),
        ("n0005\u{202e}", "has characters that cannot be seen"),
    ] {
        let said = listed(format!("{}\n{more}\n", names.join("\n")));
        assert_eq!(said.code, Some(2), "{more:?}: {}", said.out);
        assert!(said.err.contains(words), "{more:?}: {}", said.err);
    }
}

/// Nothing below a folder of bundles is passed over without a word.
#[test]
fn what_lies_among_bundles_is_read_or_named() {
    let survey = |plant: &dyn Fn(&Path)| {
        let place = written(&fleet(), &[]);
        plant(&place.path("bundles"));
        run(&place, &["survey", "bundles"])
    };
    // The folder of all is a whole bundle itself.
    let copied = |all: &Path| {
        for file in ["account.json", "identity.json", "manifest.json", "rows.jsonl"] {
            fs::copy(all.join("n0007").join(file), all.join(file)).expect("copied");
        }
    };
    let remove = |all: &Path| fs::remove_dir_all(all.join("n0005")).expect("removed");
    let named = ["INCONCLUSIVE", "bundles/n0005"];
    has(&survey(&|all| (copied(all), remove(all), fs::create_dir(all.join("n0005"))).0), 4, &named);
    has(&survey(&|all| (copied(all), remove(all), symlink("no", all.join("n0005"))).0), 4, &named);
    let rename = |all: &Path, name: &str| fs::rename(all.join("n0005"), all.join(name));
    has(&survey(&|all| (copied(all), rename(all, "profiles")).0), 1, &["node n0005"]);
    // Archives by any name, with another one behind their end, and with links.
    let packed = |all: &Path, name: &str| {
        let mut archive = tar::Builder::new(Vec::new());
        archive.append_dir_all(name, all.join(name)).expect("added");
        fs::remove_dir_all(all.join(name)).expect("removed");
        archive.into_inner().expect("bytes")
    };
    for name in ["n0005.TAR", "five", "n0005.zip"] {
        let said = survey(&|all| fs::write(all.join(name), packed(all, "n0005")).expect("written"));
        has(&said, 1, &["node n0005"]);
    }
    let said = survey(&|all| {
        let both = [packed(all, "n0006"), packed(all, "n0005")].concat();
        fs::write(all.join("n0006.tar"), both).expect("written");
    });
    has(&said, 4, &["INCONCLUSIVE", "something stands behind its end, such as another archive"]);
    let said = survey(&|all| {
        remove(all);
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        archive.append_link(&mut header, "n0005", "../elsewhere").expect("added");
        fs::write(all.join("n0005.tar"), archive.into_inner().expect("bytes")).expect("written");
    });
    has(&said, 4, &["INCONCLUSIVE", "1 special file left out, such as n0005"]);
}
