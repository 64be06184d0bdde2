//! The scripts that Slurm and Kubernetes call on a node: what each exit code of `fizeau accept`
//! comes to. `scontrol` is a stand-in here; scripts/check_slurm_accept.sh has a real Slurm.

use crate::program::{Place, Said, say};
use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::{self, Command},
    time::{Duration, Instant},
};

/// Longer than any script may take here: a time limit of a second, and two calls of `scontrol` that
/// hang for two seconds each.
const LONGEST: Duration = Duration::from_secs(20);

/// A node with the scripts installed in `opt`, and stand-ins for programs in `opt/fakes`.
struct Node {
    place: Place,
}

impl Node {
    /// With this shell text as `fizeau`.
    fn with(fizeau: &str) -> Node {
        let node = Node { place: Place::new() };
        fs::create_dir_all(node.place.path("opt/fakes")).expect("made");
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
        for script in [
            "slurm/judge.sh",
            "slurm/node.sh",
            "slurm/prolog.sh",
            "slurm/health_check.sh",
            "slurm/epilog.sh",
            "kubernetes/npd_plugin.sh",
        ] {
            let script = scripts.join(script);
            let name = script.file_name().expect("a name");
            symlink(&script, node.place.path("opt").join(name)).expect("a link");
        }
        let settings = "PATH=$here/fakes:$PATH\nFIZEAU=$here/fakes/fizeau\nFIZEAU_RUN=$here/run\n\
                        FIZEAU_STATE=$here/state\nFIZEAU_LOG=$here/log\nFIZEAU_SECONDS=1\n";
        fs::write(node.place.path("opt/settings.sh"), settings).expect("written");
        node.fake("fizeau", &format!("echo \"$*\" >>\"${{0%/*}}/calls\"\n{fizeau}"));
        node.fake(
            "scontrol",
            "echo \"$*\" >>\"${0%/*}/scontrol.log\"\ncat \"${0%/*}/state\"\nexit 0",
        );
        node.fake("pgrep", "cat \"${0%/*}/steps\" 2>/dev/null");
        node
    }

    fn fake(&self, name: &str, text: &str) {
        let path = self.place.path("opt/fakes").join(name);
        fs::write(&path, format!("#!/bin/bash\n{text}\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("made executable");
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.place.path("opt").join(file)).unwrap_or_default()
    }

    /// Runs a script with as little as slurmd gives it, and a job's end.
    fn run(&self, script: &str, ended: &str) -> Said {
        let mut command = Command::new("/bin/bash");
        command.arg(self.place.path("opt").join(script)).env_clear();
        command.env("SLURMD_NODENAME", "n1").env("SLURM_JOB_ID", "7");
        command.env("SLURM_JOB_EXIT_CODE2", ended);
        let began = Instant::now();
        let said = say(&mut command);
        assert!(began.elapsed() < LONGEST, "{script}: {}{}", said.out, said.err);
        assert_eq!(said.err, "", "{script}");
        said
    }

    /// What the node was drained for, if it was.
    fn reason(&self) -> Option<String> {
        let calls = self.read("fakes/scontrol.log");
        let update = "update NodeName=n1 State=DRAIN Reason=";
        calls.lines().find_map(|call| call.strip_prefix(update).map(str::to_owned))
    }
}

/// What a stand-in does, the exit codes of prolog and plugin, and the end of the line in the log.
const CASES: [(&str, i32, i32, &str); 10] = [
    ("echo 'PASS no check fails; 9 pass'", 0, 0, ""),
    ("echo 'FAIL cuda:0 lanes: x8'; exit 1", 1, 1, "err: drained: fizeau: FAIL cuda:0 lanes: x8"),
    ("echo 'INCONCLUSIVE x'; exit 4", 0, 2, "(exit code 4): INCONCLUSIVE x"),
    (
        "echo why >&2; exit 3",
        0,
        2,
        "(exit code 3): COULD NOT RUN: exit code 3 without a verdict: why",
    ),
    (
        "echo why >&2; exit 2",
        0,
        2,
        "(exit code 2): COULD NOT RUN: exit code 2 without a verdict: why",
    ),
    (
        "echo 'PASS x'; echo why >&2; exit 3",
        0,
        2,
        "(exit code 3): COULD NOT RUN: exit code 3 after a verdict: why",
    ),
    // It has not judged: a shell's or another program's 1.
    ("exit 1", 0, 2, "(exit code 3): COULD NOT RUN: exit code 1 without a verdict"),
    ("echo 'PASS x'; exit 1", 0, 2, "COULD NOT RUN: exit code 1 without a verdict"),
    ("kill -SEGV $$", 0, 2, "COULD NOT RUN: exit code 139 without a verdict"),
    // It does not end, and ignores to be asked to.
    (
        "trap '' TERM; exec sleep 60",
        0,
        2,
        "COULD NOT RUN: no verdict within 1 s: a driver may not answer",
    ),
];

#[test]
fn a_node_is_drained_for_a_verdict_of_fail_and_for_nothing_else() {
    for (fizeau, prolog, plugin, logged) in CASES {
        for script in ["prolog.sh", "health_check.sh"] {
            let node = Node::with(fizeau);
            let said = node.run(script, "0:0");
            assert_eq!(said.code, Some(prolog), "{script}: {fizeau}: {}", node.read("log"));
            let reason = (prolog == 1).then(|| "fizeau: FAIL cuda:0 lanes: x8".to_owned());
            assert_eq!(node.reason(), reason, "{script}: {fizeau}");
            let log = node.read("log");
            assert!(log.trim_end().ends_with(logged), "{script}: {fizeau}: {log}");
            assert_eq!(log.lines().count(), usize::from(!logged.is_empty()), "{log}");
            assert!(node.read("fakes/calls").contains("--level passive"), "{script}");
        }
        let node = Node::with(fizeau);
        let mut command = Command::new("/bin/bash");
        command.arg(node.place.path("opt/npd_plugin.sh")).args(["--profile", "x"]).env_clear();
        command.env("FIZEAU", node.place.path("opt/fakes/fizeau")).env("FIZEAU_SECONDS", "1");
        let said = say(command.env("FIZEAU_RUN", node.place.path("opt/run")));
        assert_eq!(said.code, Some(plugin), "{fizeau}: {}{}", said.out, said.err);
        assert_eq!(
            (said.out.lines().count(), said.err.as_str()),
            (1, ""),
            "{fizeau}: {}",
            said.out
        );
        assert!(node.read("fakes/calls").ends_with("--shared --profile x\n"));
    }
}

#[test]
fn what_hangs_is_left_alone_and_blocks_nothing() {
    // A process of another check that is still there: this test's own.
    let node = Node::with("echo 'PASS x'");
    let stat = fs::read_to_string("/proc/self/stat").expect("a process");
    let ticks = stat.rsplit_once(") ").expect("a name").1.split(' ').nth(19).expect("a start");
    fs::create_dir(node.place.path("opt/run")).expect("made");
    let left = format!("{} {ticks}\n", process::id());
    fs::write(node.place.path("opt/run/left"), left).expect("written");
    assert_eq!(node.run("prolog.sh", "0:0").code, Some(0));
    assert!(node.read("log").contains("still hangs"), "{}", node.read("log"));
    assert_eq!(node.read("fakes/calls"), "");
    // Another process has its number by now.
    fs::write(node.place.path("opt/run/left"), format!("{} 1\n", process::id())).expect("written");
    assert_eq!(node.run("prolog.sh", "0:0").code, Some(0));
    assert!(!node.read("fakes/calls").is_empty());
    // A controller that does not answer: Slurm itself drains the node, for the exit code.
    let node = Node::with("echo 'FAIL x'; exit 1");
    node.fake("scontrol", "exec sleep 60");
    assert_eq!(node.run("prolog.sh", "0:0").code, Some(1));
    assert!(node.read("log").contains("scontrol could not drain it"), "{}", node.read("log"));
}

#[test]
fn a_reason_that_is_there_already_stays() {
    let node = Node::with("echo 'FAIL x'; exit 1");
    let state = "NodeName=n1 State=IDLE+DRAIN ThreadsPerCore=1 Reason=a person's\n";
    fs::write(node.place.path("opt/fakes/state"), state).expect("written");
    assert_eq!(node.run("health_check.sh", "0:0").code, Some(1));
    assert_eq!(node.reason(), None);
    assert!(node.read("log").contains("keeps its reason: fizeau: FAIL x"), "{}", node.read("log"));
}

#[test]
fn a_job_that_failed_alone_is_followed_by_a_measurement() {
    let (own, others) = ("41 slurmstepd: [7.extern]\n", "42 slurmstepd: [77.0]\n");
    let both = [own, others].concat();
    for (ended, steps, level) in [
        ("0:0", "", None),
        ("0:9", "", None),
        ("0:15", "", None),
        ("1:0", "", Some("quick")),
        ("0:11", own, Some("quick")),
        ("1:0", others, Some("passive")),
        ("1:0", &both, Some("passive")),
    ] {
        let node = Node::with("echo 'PASS x'");
        fs::write(node.place.path("opt/fakes/steps"), steps).expect("written");
        assert_eq!(node.run("epilog.sh", ended).code, Some(0), "{}", node.read("log"));
        let calls = node.read("fakes/calls");
        let called = calls.split_once("--level ").and_then(|(_, rest)| rest.split(' ').next());
        assert_eq!(called, level, "{ended} {steps}: {calls}");
        assert_eq!(calls.contains("--out"), level == Some("quick"));
        let kept = fs::read_dir(node.place.path("opt/state")).map_or(0, Iterator::count);
        assert_eq!(kept, 0, "a pass is not kept");
    }
    let node = Node::with("echo 'FAIL x'; exit 1");
    assert_eq!(node.run("epilog.sh", "1:0").code, Some(1));
    assert_eq!(node.reason().as_deref(), Some("fizeau: FAIL x"));
    let kept = fs::read_dir(node.place.path("opt/state")).expect("kept").count();
    assert_eq!(kept, 1, "what failed is kept");
}

#[test]
fn the_program_itself_says_what_the_scripts_understand() {
    for (profile, code, reason) in
        [("", 0, None), ("--profile h100-sxm", 1, Some("fizeau: FAIL node GPU count: 0 of 8 GPUs"))]
    {
        let node = Node::with("");
        let place = node.place.path("");
        let (fizeau, place) = (env!("CARGO_BIN_EXE_fizeau"), place.display());
        let more = format!(
            "FIZEAU={fizeau}\nFIZEAU_SECONDS=30\nexport FIZEAU_LIBRARY_PATH={place}\n\
             FIZEAU_ARGUMENTS=(--root {place}/root {profile})\n"
        );
        let settings = node.read("settings.sh") + &more;
        fs::write(node.place.path("opt/settings.sh"), settings).expect("written");
        let meminfo = node.place.path("root/proc");
        fs::create_dir_all(&meminfo).expect("made");
        fs::write(meminfo.join("meminfo"), "MemTotal: 1048576 kB\n").expect("written");
        let said = node.run("prolog.sh", "0:0");
        assert_eq!(said.code, Some(code), "{}", node.read("log"));
        match (reason, node.reason()) {
            (None, None) => {}
            (Some(wanted), Some(found)) => assert!(found.starts_with(wanted), "{found}"),
            (wanted, found) => panic!("{wanted:?} {found:?}"),
        }
    }
}
