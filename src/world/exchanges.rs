//! Rounds in which every rank exchanges data with one other: what [`localise`] judges.

use super::Joined;
use crate::{
    comm::Communicator,
    device::{Buffer, Device},
    localise::{self, Exchange},
    stats::quantile,
    units::{Bytes, Seconds},
};

/// Exchanges of a round that are timed, after one that is not.
const TIMED: usize = 5;

/// Measures rounds of exchanges; every rank gets all of them. Who meets whom in a round depends on
/// the rounds before it.
///
/// # Errors
/// Where there is no memory for `size` bytes twice, or an exchange fails.
pub fn measure(joined: &Joined<'_>, rounds: u32, size: Bytes) -> anyhow::Result<Vec<Exchange>> {
    let (peers, rank, device) = (joined.link.peers(), joined.link.rank(), joined.device);
    let [send, receive] = [device.allocate(size)?, device.allocate(size)?];
    let mut seen: Vec<Exchange> = Vec::new();
    for round in 0..rounds {
        let pairs = localise::pairs(peers.size(), &seen, u64::from(round) + 1);
        let partner = pairs.iter().find_map(|&(one, other)| match rank {
            rank if rank == one => Some(other),
            rank if rank == other => Some(one),
            _ => None,
        });
        let time = exchange(device, peers, partner, [&send, &receive])?;
        let all = peers.all_gather_bytes(&time.0.to_le_bytes())?;
        let time = |rank: u32| {
            let bytes = all.get(rank as usize).and_then(|bytes| bytes.as_slice().try_into().ok());
            bytes.map_or(f64::NAN, f64::from_le_bytes)
        };
        seen.extend(pairs.iter().map(|&(one, other)| {
            let slower = time(one).max(time(other));
            Exchange { one, other, rate: size.0 as f64 / slower }
        }));
    }
    Ok(seen)
}

/// The median time of an exchange with a partner; a rank without one waits for the others.
fn exchange(
    device: &dyn Device,
    peers: &dyn Communicator,
    partner: Option<u32>,
    buffers: [&Buffer; 2],
) -> anyhow::Result<Seconds> {
    let mut times = Vec::new();
    for _ in 0..=TIMED {
        peers.barrier()?;
        let timed = device.timed(&mut || match partner {
            Some(partner) => peers.exchange(partner, buffers),
            None => Ok(()),
        });
        peers.completed();
        times.push(timed.inspect_err(|error| peers.failed(error))?.time.0);
    }
    Ok(Seconds(quantile::median(&times[1..])))
}
