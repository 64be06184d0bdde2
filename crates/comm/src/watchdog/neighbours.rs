//! Who the other ranks are, and which of them share this rank's node.

use crate::preflight::Facts;
use std::fs;

/// One rank, as the others know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its host's name.
    pub host: String,
    /// Its device.
    pub device: String,
    /// Its process.
    pub process: u32,
    /// Its slot on its node's board.
    pub slot: usize,
}

/// Ranks as they have told of themselves, each with its slot among those of its host.
pub fn peers(ranks: &[Facts]) -> Vec<Peer> {
    let mut peers: Vec<Peer> = Vec::new();
    for Facts { host, name, process, .. } in ranks {
        let slot = peers.iter().filter(|peer| peer.host == *host).count();
        let (host, device) = (host.clone(), name.clone());
        peers.push(Peer { host, device, process: *process, slot });
    }
    peers
}

/// A process's state as the kernel tells it.
fn state(process: u32) -> Option<char> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // After the name in brackets, which may hold anything.
    text.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Whether a process of this node is dead, or dead and not yet missed. False where it cannot be
/// told.
pub fn is_dead(process: u32) -> bool {
    match state(process) {
        Some(found) => matches!(found, 'Z' | 'X'),
        None => process != 0 && state(std::process::id()).is_some(),
    }
}

/// Whether a process of this node is stopped, as by SIGSTOP.
pub fn is_stopped(process: u32) -> bool {
    state(process) == Some('T')
}

/// Whether a process of this node is stopped or dead. In another container its number means nothing
/// here.
pub fn is_gone(process: u32) -> bool {
    is_stopped(process) || is_dead(process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_runs_is_not_gone_and_who_ended_is() {
        assert!(!is_gone(std::process::id()));
        assert!(!is_gone(0) && !is_dead(0), "nobody's number");
        let mut child = std::process::Command::new("true").spawn().expect("it starts");
        let process = child.id();
        child.wait().expect("it ends");
        assert!(is_gone(process) && is_dead(process));
    }
}
