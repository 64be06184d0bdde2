//! Planted states of a stub node of eight GPUs, of each vendor: every fault is named with what to
//! do, nothing healthy is failed, and `accept`, `doctor` and `run` say the same.

mod amd;
mod nvidia;
mod visible;

use super::machine::Machine;
use crate::program::say;
use serde_json::Value;
use std::{collections::BTreeSet, fs, thread};

/// What is to be said of a state.
#[derive(Clone, Copy)]
enum Said {
    /// These rows fail, of these devices, with these actions, and no other row does.
    Fails(&'static [(&'static str, &'static str, &'static str)]),
    /// Nothing fails.
    Healthy,
}
use Said::{Fails, Healthy};

/// A state.
struct Planted {
    /// What it is, and whose public report has it where one has.
    name: &'static str,
    /// What is added to the driver's script.
    script: &'static str,
    /// Files that are added to the kernel's; those whose text is `-` are taken away.
    files: Vec<(String, &'static str)>,
    /// Lines that are exchanged in the profile: `key = value`; one of a key alone is taken away.
    profile: &'static [&'static str],
    /// Variables that are set.
    variables: &'static [(&'static str, &'static str)],
    said: Said,
    /// Whether it shows by the other GPUs alone, which a run on one does not look at.
    is_of_others: bool,
}

impl Planted {
    fn new(name: &'static str, script: &'static str, said: Said) -> Planted {
        let (files, profile, variables) = (Vec::new(), &[][..], &[][..]);
        Planted { name, script, files, profile, variables, said, is_of_others: false }
    }

    fn file(mut self, name: impl Into<String>, text: &'static str) -> Planted {
        self.files.push((name.into(), text));
        self
    }

    fn profile(self, profile: &'static [&'static str]) -> Planted {
        Planted { profile, ..self }
    }

    fn by_the_others(self) -> Planted {
        Planted { is_of_others: true, ..self }
    }

    fn variables(self, variables: &'static [(&'static str, &'static str)]) -> Planted {
        Planted { variables, ..self }
    }
}

/// A node at which nothing is wrong, and what its profile wants.
struct Node {
    backend: &'static str,
    libraries: &'static [&'static str],
    script: &'static str,
    files: Vec<(String, &'static str)>,
    expected: &'static [&'static str],
}

/// Rows that fail: device, check, action.
type Rows = BTreeSet<(String, String, String)>;

/// Checks that a run does not have: those that follow from what a profile wants, and processes,
/// since it is one itself.
const NOT_OF_A_RUN: [&str; 7] = [
    "processes",
    "GPU count",
    "PCI Express generation",
    "links to other GPUs",
    "ECC",
    "partition",
    "xGMI hive",
];

/// Tries all states, several at once, and says of each what is wrong with what was said of it.
fn assert_all(node: &Node, states: &[Planted]) {
    const AT_ONCE: usize = 6;
    let mut wrong = Vec::new();
    for some in states.chunks(AT_ONCE) {
        let told: Vec<Vec<String>> = thread::scope(|scope| {
            let started = some.iter().map(|state| scope.spawn(move || tried(node, state)));
            let started: Vec<_> = started.collect();
            started.into_iter().map(|one| one.join().expect("it ends")).collect()
        });
        wrong.extend(told.into_iter().flatten());
    }
    assert_eq!(wrong, [""; 0], "{} states", states.len());
}

/// What is wrong with what is said of a state.
fn tried(node: &Node, state: &Planted) -> Vec<String> {
    let machine = planted(node, state);
    let script = format!("{},{}", node.script, state.script);
    let command = |args: &[&str]| {
        let mut command = machine.fizeau(&script, args);
        command.envs(state.variables.iter().copied());
        command
    };
    let at_rest = ["--root", "root", "--profile", "profile.toml"];
    let args = ["accept", "--level", "passive", "--out", "out"];
    let accepted = say(command(&args).args(at_rest));
    let Ok(text) = fs::read_to_string(machine.place.path("out/verdict.json")) else {
        return vec![format!("{}: no verdict: {}{}", state.name, accepted.out, accepted.err)];
    };
    let failed = failures(&serde_json::from_str(&text).expect("JSON"));
    let wanted: Rows = match state.said {
        Healthy => Rows::new(),
        Fails(rows) => rows.iter().map(|(d, c, a)| (str(d), str(c), str(a))).collect(),
    };
    let mut wrong = Vec::new();
    let verified = say(&mut command(&["verify", "out"]));
    if !verified.out.contains("all with the same result") {
        wrong.push(format!("{}: verify: {}{}", state.name, verified.out, verified.err));
    }
    let mut differ = |verb: &str, said: &BTreeSet<_>, wanted: &BTreeSet<_>| {
        if said != wanted {
            let name = state.name;
            wrong.push(format!("{name}: {verb} says {said:?}, and is to say {wanted:?}"));
        }
    };
    differ("accept", &failed, &wanted);
    let told = doctor_says(&say(command(&["doctor", "--json"]).args(at_rest)).out);
    // Of a number of GPUs doctor says what the driver does.
    let on_gpus = |one: &&(String, String, String)| one.1 != "GPU count";
    differ("doctor", &told, &wanted.iter().filter(on_gpus).cloned().collect());
    let own: BTreeSet<String> = wanted.iter().map(|(device, ..)| device.clone()).collect();
    let is_own = |device: &&String| device.starts_with(node.backend);
    let default = format!("{}:0", node.backend);
    let device = own.iter().find(is_own).unwrap_or(&default);
    let args = ["run", "--root", "root", "--suite", "stub.toml", "--device", device, "--out", "r"];
    let ran = say(command(&args).arg("launch/*"));
    let Ok(text) = fs::read_to_string(machine.place.path("r/record.jsonl")) else {
        return [wrong, vec![format!("{}: no record: {}", state.name, ran.err)]].concat();
    };
    let of_run = |(of, check, action): (String, String, String)| {
        let is_told = (&of == device || of == "node") && !NOT_OF_A_RUN.contains(&check.as_str());
        // A run looks at its own GPU alone.
        (is_told && !check.starts_with("same ")).then_some((check, action))
    };
    let wanted: BTreeSet<(String, String)> = wanted.into_iter().filter_map(of_run).collect();
    let said = run_says(&text);
    if said != wanted && !state.is_of_others {
        let name = state.name;
        wrong.push(format!("{name}: run says {said:?}, and is to say {wanted:?}"));
    }
    wrong
}

fn str(text: &&str) -> String {
    (*text).to_owned()
}

/// A machine in a state.
fn planted(node: &Node, state: &Planted) -> Machine {
    let machine = Machine::with(node.libraries);
    for (name, text) in node.files.iter().chain(&state.files) {
        let path = machine.place.path(&format!("root/{name}"));
        if *text == "-" {
            fs::remove_file(path).expect("it was planted");
            continue;
        }
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }
    let key = |line: &str| line.split(" = ").next().unwrap_or_default().to_owned();
    let kept = node
        .expected
        .iter()
        .filter(|line| !state.profile.iter().any(|changed| key(changed) == key(line)));
    let changed = state.profile.iter().filter(|line| line.contains(" = "));
    let expected: Vec<&str> = kept.chain(changed).copied().collect();
    let text = format!(
        "name = \"node\"\ndescription = \"a node\"\nkind = \"derived\"\nsuite = \"stub.toml\"\n\n\
         [expected]\n{}\n",
        expected.join("\n")
    );
    fs::write(machine.place.path("profile.toml"), text).expect("written");
    machine
}

/// The rows of a verdict that fail.
fn failures(verdict: &Value) -> Rows {
    let checks = verdict["checks"].as_array().expect("checks");
    let failed = checks.iter().filter(|one| one["verdict"] == "fail");
    let word = |one: &Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
    let of = |one: &Value| (word(one, "device"), word(one, "check"), word(one, "action"));
    failed.map(of).collect()
}

/// What `doctor` fails of GPUs and of what joins them.
fn doctor_says(text: &str) -> Rows {
    let all: Value = serde_json::from_str(text).expect("JSON");
    let failed = all.as_array().expect("findings").iter().filter(|one| one["state"] == "fail");
    let row = |one: &Value| {
        let word = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
        let (check, _) = word("found").split_once(": ").map(|(a, b)| (str(&a), str(&b)))?;
        let action = word("remedy").split(':').next().unwrap_or_default().to_owned();
        let is_action = action.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        (is_action && !action.is_empty()).then(|| (word("what"), check, action))
    };
    failed.filter_map(row).collect()
}

/// What a run's record says that an acceptance fails.
fn run_says(record: &str) -> BTreeSet<(String, String)> {
    let header: Value =
        serde_json::from_str(record.lines().next().expect("a header")).expect("JSON");
    let mut all = BTreeSet::new();
    let text = header.to_string();
    let found: Value = serde_json::from_str(&text).expect("JSON");
    let warnings = warnings(&found);
    for words in warnings {
        let Some((rest, action)) = words.split_once(" (an acceptance fails it: ") else { continue };
        let check = rest.split(": ").next().unwrap_or_default();
        all.insert((check.to_owned(), action.trim_end_matches(')').to_owned()));
    }
    all
}

/// The warnings of a header, wherever its version has them.
fn warnings(header: &Value) -> Vec<String> {
    match header {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, value)| match value {
                Value::Array(all) if name == "warnings" => {
                    all.iter().filter_map(|one| Some(one.as_str()?.to_owned())).collect()
                }
                other => warnings(other),
            })
            .collect(),
        _ => Vec::new(),
    }
}
