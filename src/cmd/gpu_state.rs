//! What the passive checks of an acceptance say of this machine's GPUs, for verbs that judge
//! nothing: `doctor` and `run` name what `accept` would fail.

use fizeau_device::observe;
use fizeau_domain::verdict::Verdict;
use fizeau_judge::accept::{Judged, passive, profile::Expected};
use std::path::Path;

/// Checks that fail nothing, and explain why figures are lower.
const EXPLAIN: [&str; 2] = ["modes", "MPS"];

/// A check that a run which has opened its GPU would fail by its own process.
const OF_OTHERS: &str = "processes";

/// Of all GPUs: what does not pass, and what explains lower figures. The kernel's files are looked
/// for below `root`, which is `/` but for tests.
pub fn of_all(root: &Path, expected: &Expected) -> Vec<Judged> {
    let mut state = observe::kernel(root);
    observe::add_drivers(&mut state);
    passive::of_gpus(&state, expected).into_iter().filter(is_told).collect()
}

/// Of one GPU, which this process may have opened, and of what joins it to others, in words.
pub fn of_one(root: &Path, backend: &str, ordinal: u32) -> Vec<String> {
    let mut state = observe::kernel(root);
    observe::add_gpu(&mut state, backend, ordinal);
    let name = format!("{backend}:{ordinal}");
    let all = passive::of_gpus(&state, &Expected::default()).into_iter();
    let its = all.filter(|one| one.device == name || one.device == "node");
    // A profile may say that a setting is meant.
    let its = its.filter(|one| one.verdict != Verdict::Inconclusive && is_told(one));
    let its = its.filter(|one| one.check != OF_OTHERS);
    its.map(|one| format!("{}: {}{}", one.check, one.words, action(&one))).collect()
}

fn is_told(one: &Judged) -> bool {
    one.verdict != Verdict::Pass || EXPLAIN.contains(&one.check.as_str())
}

fn action(one: &Judged) -> String {
    let action = one.action.filter(|_| one.verdict == Verdict::Fail);
    action.map_or_else(String::new, |action| format!(" (an acceptance fails it: {action})"))
}
