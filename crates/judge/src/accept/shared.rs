//! Passive checks of a node on which other jobs may run.

use super::Judged;
use fizeau_domain::{node_state::NodeState, verdict::Verdict};

/// The same verdicts, less what other jobs show: their processes on a GPU fail nothing, and where a
/// GPU is used, what holds its clock may be the load and is inconclusive.
pub fn allow(state: &NodeState, checks: Vec<Judged>) -> Vec<Judged> {
    let is_used = |name: &str| {
        let its = state.gpus.iter().find(|gpu| gpu.name == name);
        its.is_some_and(|gpu| gpu.processes.is_some_and(|count| count > 0))
    };
    let one = |one: Judged| match one.check.as_str() {
        "processes" if one.verdict == Verdict::Fail => {
            let words = format!("{}: other jobs may run here", one.words);
            Judged { verdict: Verdict::Pass, words, cause: None, action: None, ..one }
        }
        "clock reasons" if one.verdict == Verdict::Fail && is_used(&one.device) => {
            let words = format!("{}; it is in use, which may be why", one.words);
            Judged { verdict: Verdict::Inconclusive, words, ..one }
        }
        _ => one,
    };
    checks.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accept::{Level, passive, profile::Expected};
    use fizeau_domain::node_state::Gpu;

    /// The verdicts that are not a pass on a node of two GPUs, the second of which is hot.
    fn amiss(processes: u32, lanes: u32) -> Vec<(String, Verdict)> {
        let gpu = |name: &str, held: &[&str]| Gpu {
            name: name.into(),
            has_driver: true,
            lanes: Some([lanes, 16]),
            processes: Some(processes),
            held_by: Some(held.iter().map(|word| (*word).to_owned()).collect()),
            ..Gpu::default()
        };
        let state = NodeState {
            gpus: vec![gpu("cuda:0", &[]), gpu("cuda:1", &["hardware thermal slowdown"])],
            ..NodeState::default()
        };
        let all = passive::judge(&state, &Expected::default(), Level::Passive);
        let all = allow(&state, all).into_iter().filter(|one| one.verdict != Verdict::Pass);
        all.map(|one| (format!("{} {}", one.device, one.check), one.verdict)).collect()
    }

    #[test]
    fn what_other_jobs_do_fails_nothing_and_what_they_cannot_do_still_fails() {
        let held = "cuda:1 clock reasons".to_owned();
        assert_eq!(amiss(1, 16), [(held.clone(), Verdict::Inconclusive)]);
        assert_eq!(amiss(0, 16), [(held, Verdict::Fail)]);
        let lanes = |one: &(String, Verdict)| {
            one.0.ends_with("PCI Express lanes") && one.1 == Verdict::Fail
        };
        assert_eq!(amiss(1, 8).iter().filter(|one| lanes(one)).count(), 2);
    }
}
