//! Who the other ranks are, and which of them share this rank's node.

use super::{Communicator, board::Board};
use crate::device::DeviceError;
use std::{
    fs,
    path::{Path, PathBuf},
};

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

impl Peer {
    /// One of whom nothing is known yet.
    pub fn unknown() -> Peer {
        Peer { host: "a host".into(), device: "unknown device".into(), process: 0, slot: 0 }
    }
}

/// Every rank's words about itself, with its slot among those of its host.
///
/// # Errors
///
/// Whatever the engine says.
pub fn introduce(
    world: &dyn Communicator,
    host: &str,
    device: &str,
) -> Result<Vec<Peer>, DeviceError> {
    let mine = format!("{host}\0{device}\0{}", std::process::id());
    let mut peers: Vec<Peer> = Vec::new();
    for bytes in world.all_gather_bytes(mine.as_bytes())? {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mut words = text.split('\0').map(str::to_owned);
        let mut word = || words.next().unwrap_or_default();
        let (host, device, process) = (word(), word(), word().parse().unwrap_or(0));
        let slot = peers.iter().filter(|peer| peer.host == host).count();
        peers.push(Peer { host, device, process, slot });
    }
    Ok(peers)
}

/// The board of this rank's node, made by its first rank; none where they share no memory.
///
/// # Errors
///
/// Whatever the engine says.
pub fn board(
    world: &dyn Communicator,
    rank: u32,
    peers: &[Peer],
) -> Result<Option<Board>, DeviceError> {
    let me = &peers[rank as usize];
    let count = peers.iter().filter(|peer| peer.host == me.host).count();
    let made = if me.slot == 0 { Board::create(count).ok() } else { None };
    let path = made.as_ref().map(|(_, path)| path.clone()).unwrap_or_default();
    let paths = world.all_gather_bytes(path.as_os_str().as_encoded_bytes())?;
    let first = peers.iter().position(|peer| peer.host == me.host).unwrap_or(0);
    let theirs = PathBuf::from(String::from_utf8_lossy(&paths[first]).into_owned());
    let board = match made {
        Some((board, _)) => Some(board),
        None if theirs == Path::new("") => None,
        None => Board::open(&theirs, count).ok(),
    };
    world.barrier()?;
    if me.slot == 0 && path != Path::new("") {
        // It stays until the node restarts where it cannot be removed: a few hundred bytes.
        let _ = Board::remove(&path);
    }
    Ok(board)
}

/// Whether a process of this node is stopped, dead, or dead and not yet missed. False where it
/// cannot be told: in another container its number means nothing here.
pub fn is_gone(process: u32) -> bool {
    let state = |process: u32| {
        let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // After the name in brackets, which may hold anything.
        text.rsplit_once(')')?.1.trim_start().chars().next()
    };
    match state(process) {
        Some(state) => matches!(state, 'T' | 'Z' | 'X'),
        None => process != 0 && state(std::process::id()).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_runs_is_not_gone_and_who_ended_is() {
        assert!(!is_gone(std::process::id()));
        assert!(!is_gone(0), "nobody's number");
        let mut child = std::process::Command::new("true").spawn().expect("it starts");
        let process = child.id();
        child.wait().expect("it ends");
        assert!(is_gone(process));
    }
}
