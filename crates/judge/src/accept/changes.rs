//! What changed on a node while it was measured: its state before beside its state after.

use super::{Judged, cause::Cause, passive};
use fizeau_domain::{
    node_state::{Fault, Gpu, Interface, NodeState},
    text::{agreed, counted},
    verdict::Verdict,
};

/// What the check is called.
const CHECK: &str = "state afterwards";

/// Whether a node is after a measurement what it was before: GPUs that went away, errors that were
/// counted, links that went down, faults in the kernel's log. One row for each thing that changed
/// for the worse; one that says that nothing did.
pub fn judge(before: &NodeState, after: &NodeState) -> Vec<Judged> {
    let mut all = Vec::new();
    for gpu in before.gpus.iter().filter(|gpu| gpu.has_driver) {
        let now = after.gpus.iter().find(|one| one.has_driver && is_same(gpu, one));
        let worse = now.map_or_else(
            || vec![("its driver does not show it any more".to_owned(), Cause::DeviceLost)],
            |now| of_gpu(gpu, now),
        );
        all.extend(worse.into_iter().map(|(words, cause)| Judged {
            stub: gpu.stub,
            ..failed(&gpu.name, words).because(cause)
        }));
    }
    all.extend(come_and_gone(before, after));
    for interface in &before.interfaces {
        let now = after.interfaces.iter().find(|one| one.name == interface.name);
        all.extend(of_interface(interface, now).map(|(words, verdict)| {
            let one = Judged::of_state(CHECK, &interface.name, verdict, words);
            one.because(Cause::NetworkInterface)
        }));
    }
    all.extend(new_faults(before, after).into_iter().map(|(fault, words)| {
        let gpu = after.gpus.iter().find(|gpu| {
            gpu.pci.as_ref().is_some_and(|pci| pci.to_lowercase().starts_with(&fault.pci))
        });
        let device = gpu.map_or(fault.pci.as_str(), |gpu| gpu.name.as_str());
        failed(device, words).because(Cause::Faults)
    }));
    if all.is_empty() {
        let words = "no GPU or interface is worse than before, and no fault was logged".into();
        all.push(Judged::of_state(CHECK, "node", Verdict::Pass, words));
    }
    all
}

/// GPUs that are on the bus before or after alone. Those that a driver showed before are judged by
/// what it shows after.
fn come_and_gone(before: &NodeState, after: &NodeState) -> Vec<Judged> {
    let is_among = |gpu: &Gpu, of: &NodeState| of.gpus.iter().any(|one| is_same(one, gpu));
    let gone = before.gpus.iter().filter(|gpu| !gpu.has_driver && !is_among(gpu, after));
    let gone = gone.map(|gpu| {
        let words = "it is not on the PCI bus any more".into();
        let judged = Judged { stub: gpu.stub, ..failed(&gpu.name, words) };
        judged.because(Cause::DeviceLost)
    });
    let come = after.gpus.iter().filter(|gpu| !is_among(gpu, before));
    let come = come.map(|gpu| {
        let words = "it was not there before anything was measured".into();
        let judged = Judged::of_state(CHECK, &gpu.name, Verdict::Inconclusive, words);
        Judged { stub: gpu.stub, ..judged.because(Cause::DeviceLost) }
    });
    gone.chain(come).collect()
}

fn failed(device: &str, words: String) -> Judged {
    Judged::of_state(CHECK, device, Verdict::Fail, words)
}

fn is_same(one: &Gpu, other: &Gpu) -> bool {
    match (&one.pci, &other.pci) {
        (Some(one), Some(other)) => one == other,
        _ => one.name == other.name,
    }
}

fn of_gpu(before: &Gpu, now: &Gpu) -> Vec<(String, Cause)> {
    let mut worse = Vec::new();
    let added =
        now.ecc_uncorrected.unwrap_or(0).saturating_sub(before.ecc_uncorrected.unwrap_or(0));
    if before.ecc_uncorrected.is_some() && added > 0 {
        worse.push((format!("{added} memory errors that were not corrected"), Cause::Faults));
    }
    if now.remap_pending == Some(true) && before.remap_pending == Some(false) {
        worse.push(("a row waits for a reset to be replaced".into(), Cause::Faults));
    }
    if now.remap_failed == Some(true) && before.remap_failed == Some(false) {
        worse.push(("a row could not be replaced".into(), Cause::Faults));
    }
    if let (Some(pages), Some(had)) = (now.bad_pages, before.bad_pages)
        && pages > had
    {
        worse.push((format!("{} more pages are not used any more", pages - had), Cause::Faults));
    }
    if let (Some([lanes, _]), Some([had, _])) = (now.lanes, before.lanes)
        && lanes < had
    {
        worse.push((format!("its link has x{lanes}, and had x{had}"), Cause::HalfWidth));
    }
    if let (Some(links), Some(had)) = (now.peer_links, before.peer_links)
        && links < had
    {
        let up = counted(links as usize, "link");
        let are = agreed(links as usize, "is", "are");
        worse.push((format!("{up} to other GPUs {are} up, and {had} were"), Cause::PeerLink));
    }
    worse
}

/// A counter by which a link was down for a moment. The others count on links under load too, and
/// fail nobody.
const DOWNED: &str = "link_downed";

fn of_interface(before: &Interface, now: Option<&Interface>) -> Option<(String, Verdict)> {
    if !before.is_up() {
        return None;
    }
    let Some(now) = now.filter(|now| now.is_up()) else {
        return Some(("it was up, and is not any more".into(), Verdict::Fail));
    };
    let had =
        |name: &str| before.errors.iter().find(|(of, _)| of == name).map_or(0, |(_, count)| *count);
    let added = now.errors.iter().filter_map(|(name, count)| {
        let more = count.saturating_sub(had(name));
        (more > 0).then(|| format!("{name} {more} more"))
    });
    let added: Vec<String> = added.collect();
    let is_grave = added.iter().any(|words| words.starts_with(DOWNED));
    let verdict = if is_grave { Verdict::Fail } else { Verdict::Inconclusive };
    (!added.is_empty()).then(|| (added.join(", "), verdict))
}

/// Faults that ask for something to be done and were not in the log before.
fn new_faults(before: &NodeState, after: &NodeState) -> Vec<(Fault, String)> {
    let (Some(old), Some(new)) = (&before.faults, &after.faults) else { return Vec::new() };
    let is_new = |fault: &&Fault| !old.contains(fault);
    let known = |fault: &Fault| {
        let (number, words, _) = passive::fault(fault.number)?;
        Some((fault.clone(), format!("Xid {number}: {words}")))
    };
    new.iter().filter(is_new).filter_map(known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> NodeState {
        let gpu = Gpu {
            name: "cuda:0".into(),
            pci: Some("0000:1a:00.0".into()),
            has_driver: true,
            ecc_uncorrected: Some(1),
            remap_pending: Some(false),
            lanes: Some([16, 16]),
            peer_links: Some(18),
            ..Gpu::default()
        };
        let port = Interface {
            name: "mlx5_0/1".into(),
            state: Some("4: ACTIVE".into()),
            errors: vec![("link_downed".into(), 3), ("symbol_error".into(), 3)],
            ..Interface::default()
        };
        NodeState {
            gpus: vec![gpu],
            interfaces: vec![port],
            faults: Some(Vec::new()),
            ..NodeState::default()
        }
    }

    #[test]
    fn what_was_there_before_is_no_change() {
        let all = judge(&node(), &node());
        assert_eq!((all.len(), all[0].verdict), (1, Verdict::Pass));
    }

    #[test]
    fn each_change_for_the_worse_is_named() {
        type Change = fn(&mut NodeState);
        let fault = |number| Fault { pci: "0000:1a:00".into(), number, line: "Xid".into() };
        let changes: [(Change, Cause, &str); 7] = [
            (|node| node.gpus.clear(), Cause::DeviceLost, "any more"),
            (|node| node.gpus[0].ecc_uncorrected = Some(3), Cause::Faults, "2 memory errors"),
            (|node| node.gpus[0].remap_pending = Some(true), Cause::Faults, "waits for a reset"),
            (|node| node.gpus[0].lanes = Some([8, 16]), Cause::HalfWidth, "x8"),
            (|node| node.gpus[0].peer_links = Some(17), Cause::PeerLink, "17 links"),
            (|node| node.interfaces[0].state = None, Cause::NetworkInterface, "not any more"),
            (|node| node.interfaces[0].errors[0].1 = 5, Cause::NetworkInterface, "2 more"),
        ];
        for (change, cause, words) in changes {
            let mut after = node();
            change(&mut after);
            let all = judge(&node(), &after);
            assert_eq!((all.len(), all[0].verdict), (1, Verdict::Fail), "{words}");
            assert_eq!(all[0].cause, Some(cause));
            assert!(all[0].words.contains(words), "{}", all[0].words);
        }
        let mut after = node();
        after.interfaces[0].errors[1].1 = 4;
        assert_eq!(judge(&node(), &after)[0].verdict, Verdict::Inconclusive);
        let after = NodeState { faults: Some(vec![fault(79), fault(13)]), ..node() };
        let all = judge(&node(), &after);
        assert_eq!((all.len(), all[0].device.as_str()), (1, "cuda:0"));
    }

    #[test]
    fn a_gpu_that_no_driver_shows_may_neither_go_nor_come() {
        let gpu = |at: &str| Gpu {
            name: at.into(),
            pci: Some(at.into()),
            has_driver: false,
            ..Gpu::default()
        };
        let mut with = node();
        with.gpus.push(gpu("0000:1b:00.0"));
        for (before, after, verdict, words) in [
            (&with, &node(), Verdict::Fail, "not on the PCI bus any more"),
            (&node(), &with, Verdict::Inconclusive, "not there before"),
        ] {
            let all = judge(before, after);
            assert_eq!((all.len(), all[0].verdict), (1, verdict), "{words}");
            assert_eq!(all[0].device, "0000:1b:00.0");
            assert!(all[0].words.contains(words), "{}", all[0].words);
        }
    }
}
