//! Another user of the same node, who reads, guesses, plants, links and squats wherever ranks meet:
//! nothing is learnt, nothing of the victim's is changed, and the ranks meet all the same.

use super::{
    fleet_whose::{Node, fleet, has, node},
    small_node,
};
use crate::gpus::{Machine, TOKEN, TWO, ends};
use crate::program::{Place, Said, say};
use crate::skipped;
use rustix::process::geteuid;
use serde_json::json;
use std::{
    fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::CommandExt,
    },
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

/// The user `nobody`.
const OTHER: u32 = 65534;

/// What the other user does for as long as ranks meet. `$1` is a folder that everybody may write
/// to, `$2` the victim's file, `$3` where everything goes that could be read of others.
const ATTACK: &str = r#"
take() { # FILE: what it says, unless it is one's own
    if [ -f "$1" ] && [ ! -O "$1" ]; then head -c 65536 "$1" >>"$spoils.read"; fi
}
folder=$1 own=$2 spoils=$3
while :; do
    for place in "$folder" /dev/shm; do
        for one in "$place"/fizeau-* "$place"/*.[0-9] "$place"/*.read; do
            [ -e "$one" ] || continue
            echo "$one" >>"$spoils"
            for file in "$one" "$one"/* "$one"/*/*; do take "$file"; done
            if [ -d "$one" ]; then
                ln -s "$own" "$one/0"
                mv "$one" "$one.away"
            else
                for rank in 0 1; do
                    printf '{"facts":{"board":"%s"}}' "$own" >"${one%.*}.$rank"
                    ln -s "$own" "${one%.*}.$rank.read"
                done
            fi
        done
    done
done 2>/dev/null
"#;

/// Where ranks meet while they are attacked.
#[derive(Clone, Copy, Debug)]
enum Meets {
    /// In the private directory of `launch`.
    Privately,
    /// There, with a directory of its name that the other user has made before.
    BesideSquatter,
    /// In a folder that everybody may write to.
    InSharedFolder,
}

/// Starts a process as the other user.
fn other(script: &str, args: [&Path; 3]) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).args(args).uid(OTHER).gid(OTHER).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("sh starts")
}

/// A folder with the rights of /tmp.
fn shared() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let rights = fs::Permissions::from_mode(0o1777);
    fs::set_permissions(folder.path(), rights).expect("its mode");
    folder
}

fn is_right(ended: &[Said], meets: Meets) {
    for said in ended {
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{meets:?}");
    }
}

/// Ranks meet while they are attacked.
fn attacked(meets: Meets) {
    let machine = Machine::new();
    machine.sweep("f32", 60.0, ["256", ""]);
    let (folder, spoils) = (shared(), shared());
    let own = machine.place.path("own");
    fs::write(&own, "the victim's own words").expect("a file");
    fs::set_permissions(&own, fs::Permissions::from_mode(0o600)).expect("its mode");
    let log = spoils.path().join("log");
    let args = [folder.path(), own.as_path(), log.as_path()];
    if matches!(meets, Meets::BesideSquatter) {
        let squat = format!("mkdir \"$1/fizeau-{}\"", geteuid().as_raw());
        assert!(other(&squat, args).wait().expect("it ends").success());
    }
    let mut attack = other(ATTACK, args);
    thread::sleep(Duration::from_millis(20));
    if matches!(meets, Meets::InSharedFolder) {
        let meeting = format!("file:{}", folder.path().display());
        let start = |rank: u32| {
            let mut command = machine.rank([rank, 2], TWO[0], "");
            // The second rank comes late: there is time to plant what it would say.
            thread::sleep(Duration::from_millis(100 * u64::from(rank)));
            command.env("FIZEAU_RENDEZVOUS", &meeting).spawn().expect("it starts")
        };
        is_right(&ends(vec![start(0), start(1)]), meets);
    } else {
        let args = ["launch", "-n", "2", "--", "run", "collective", "--suite", "ranks.toml"];
        let mut command = machine.fizeau("devices=2", "", &[&args[..], &["--out", "out"]].concat());
        command.env("TMPDIR", folder.path()).env_remove("XDG_RUNTIME_DIR");
        is_right(&[say(&mut command)], meets);
    }
    attack.kill().expect("it is killed");
    attack.wait().expect("it ends");
    let seen = fs::read_to_string(&log).unwrap_or_default();
    assert!(!seen.is_empty(), "{meets:?}: the other user has seen nothing, so nothing was tried");
    assert!(!seen.contains(TOKEN), "{meets:?}: {seen}");
    let read = fs::read(log.with_extension("read")).unwrap_or_default();
    assert!(read.is_empty(), "{meets:?}: {} bytes could be read", read.len());
    let found = fs::read_to_string(&own).expect("it is there");
    assert_eq!(found, "the victim's own words", "{meets:?}");
    let rights = fs::metadata(&own).expect("it is there");
    assert_eq!((rights.uid(), rights.mode() & 0o777), (geteuid().as_raw(), 0o600), "{meets:?}");
}

fn rounds(count: usize) {
    if !geteuid().is_root() {
        skipped::because("root", "only root can start a process of another user");
        return;
    }
    let kinds = [Meets::Privately, Meets::BesideSquatter, Meets::InSharedFolder];
    kinds.into_iter().cycle().take(count).for_each(attacked);
    println!("{count} meetings attacked, 0 with effect");
}

#[test]
fn another_user_learns_and_changes_nothing() {
    rounds(3);
}

#[test]
#[ignore = "a minute: scripts/check_long.sh"]
fn another_user_learns_and_changes_nothing_in_fifty_meetings() {
    rounds(50);
}

/// The record of another user is newer, in a folder that everybody may write to.
#[test]
fn the_newest_record_is_this_users_own() {
    if !geteuid().is_root() {
        skipped::because("root", "only root can give a file to another user");
        return;
    }
    let place = Place::new();
    let golden = include_str!("../golden/v1.jsonl");
    let local = place.path("results/local");
    let write = |name: &str, text: &str, owner: u32| {
        let folder = local.join(name);
        fs::create_dir_all(&folder).expect("made");
        fs::write(folder.join("record.jsonl"), text).expect("written");
        for path in [folder.join("record.jsonl"), folder] {
            std::os::unix::fs::chown(path, Some(owner), Some(owner)).expect("given");
        }
    };
    let own = geteuid().as_raw();
    write("own", golden, own);
    thread::sleep(Duration::from_millis(20));
    write("other", &golden.replace("2026", "2031"), OTHER);
    let year = |mode: u32| {
        fs::set_permissions(&local, fs::Permissions::from_mode(mode)).expect("its mode");
        let said = say(&mut place.fizeau(["report", "--format", "json"]));
        assert_eq!(said.code, Some(0), "{}", said.err);
        (said.out.contains("2031"), said.err)
    };
    let (is_other, told) = year(0o1777);
    assert!(!is_other && told.contains("1 record of other users"), "{told}");
    // Nobody else may write here, so that whoever put it there was allowed to.
    assert_eq!(year(0o755), (true, String::new()));
}

/// Gives a file and the folders above it, up to a place, to the other user.
fn give(path: &Path, place: &Path) {
    for one in path.ancestors().take_while(|one| *one != place) {
        std::os::unix::fs::chown(one, Some(OTHER), Some(OTHER)).expect("given");
    }
}

fn open_to_all(folder: &Path) {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o1777)).expect("its mode");
}

/// A store has the latest session of each node, so that whoever can add a file to it chooses what
/// counts.
#[test]
fn a_store_takes_no_file_of_another_user() {
    if !geteuid().is_root() {
        skipped::because("root", "only root can give a file to another user");
        return;
    }
    let place = Place::new();
    fleet().iter().for_each(|node| node.write(&place, ""));
    let fleet = |words: &[&str]| say(&mut place.fizeau(["fleet"].iter().chain(words)));
    let collected = fleet(&["collect", "bundles", "--store", "store"]);
    assert_eq!(collected.code, Some(0), "{}", collected.err);
    has(&fleet(&["survey", "store"]), 1, &["FAIL  8 nodes", "node n0005"]);
    let store = place.path("store");
    open_to_all(&store);
    // What heals n0005, and says that it came from a signed bundle.
    let healed = Node { hour: 14, more: json!({"sender": "signed"}), ..node(5) };
    let planted = store.join("date=2026-11-21/evil.jsonl");
    fs::create_dir(planted.parent().expect("a folder")).expect("made");
    fs::write(&planted, healed.rows(8)).expect("written");
    give(&planted, &store);
    let words = ["node n0005", "1 file left out, which others may have put there", "of user 65534"];
    has(&fleet(&["survey", "store"]), 1, &words);
    let drift = fleet(&["drift", "store"]);
    assert!(drift.out.contains("of user 65534"), "{}{}", drift.out, drift.err);
    // A session that another user says is there already is collected all the same.
    fs::remove_dir_all(store.join("date=2026-11-20")).expect("removed");
    fs::create_dir(store.join("date=2026-11-20")).expect("made");
    let known = store.join("date=2026-11-20/known.jsonl");
    fs::write(&known, node(5).rows(8).repeat(3)).expect("written");
    give(&known, &store);
    let collected = fleet(&["collect", "bundles", "--store", "store"]);
    assert!(collected.out.contains("8 sessions added"), "{}{}", collected.out, collected.err);
    // Where nobody else may write, whoever put a file there was allowed to.
    fs::set_permissions(&store, fs::Permissions::from_mode(0o755)).expect("its mode");
    fs::remove_dir_all(store.join("date=2026-11-20")).expect("removed");
    std::os::unix::fs::chown(planted.parent().expect("a folder"), Some(0), Some(0)).expect("given");
    assert!(!fleet(&["survey", "store"]).out.contains("left out, which others"));
}

/// An acceptance is continued by its own records alone.
#[test]
fn an_acceptance_is_not_continued_by_records_of_another_user() {
    if !geteuid().is_root() {
        skipped::because("root", "only root can give a file to another user");
        return;
    }
    let place = small_node::place();
    let accept = |more: &[&str]| {
        let args = ["accept", "--root", "root", "--profile", "profile.toml", "--device", "host"];
        say(&mut place.fizeau(args.iter().chain(more)))
    };
    let first = accept(&["--out", "out", "--budget", "5min"]);
    assert!(place.path("out/rounds").exists(), "{}{}", first.out, first.err);
    let rounds = place.path("out/rounds");
    let own = fs::read_dir(&rounds).expect("a folder").flatten().next().expect("a round").path();
    let planted = rounds.join("0099-host");
    fs::create_dir(&planted).expect("made");
    fs::copy(own.join("record.jsonl"), planted.join("record.jsonl")).expect("copied");
    give(&planted.join("record.jsonl"), &rounds);
    open_to_all(&rounds);
    let said = accept(&["--resume", "out", "--budget", "5min"]);
    assert_eq!(said.code, Some(2), "{}{}", said.out, said.err);
    assert!(said.err.contains("0099-host/record.jsonl is of user 65534"), "{}", said.err);
    // One by a link is no better.
    fs::remove_dir_all(&planted).expect("removed");
    std::os::unix::fs::symlink(&own, &planted).expect("linked");
    let said = accept(&["--resume", "out", "--budget", "5min"]);
    assert_eq!(said.code, Some(2), "{}{}", said.out, said.err);
    fs::remove_file(&planted).expect("removed");
    let said = accept(&["--resume", "out", "--budget", "5min"]);
    assert_ne!(said.code, Some(2), "{}{}", said.out, said.err);
}
