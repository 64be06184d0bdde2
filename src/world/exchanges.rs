//! Rounds in which every rank exchanges data with one other: what
//! [`localise`](fizeau_judge::localise) judges.

use super::Joined;
use anyhow::Context;
use fizeau_comm::Communicator;
use fizeau_device::{Buffer, Device};
use fizeau_domain::{
    stats::quantile,
    units::{Bytes, Seconds},
};
use fizeau_judge::localise::{
    Exchange,
    plan::{Plan, Round},
    raw::{self, RankPlace},
};

/// Exchanges of a round that are timed, after one that is not.
const TIMED: usize = 5;

/// Measures planned rounds of exchanges, and more of them where these leave doubt; every rank gets
/// all of them. `places` says where each rank is; `further` is told the further rounds before they
/// begin.
///
/// # Errors
/// Where there is no memory for `size` bytes twice, or an exchange fails.
pub fn measure(
    joined: &Joined<'_>,
    places: &[RankPlace],
    (plan, rounds): (&Plan<'_>, u32),
    size: Bytes,
    further: impl FnOnce(&[Round]),
) -> anyhow::Result<Vec<Exchange>> {
    let (peers, device) = (joined.link.peers(), joined.device);
    let buffers = [device.allocate(size)?, device.allocate(size)?];
    let mut seen: Vec<Exchange> = Vec::new();
    let planned: Vec<Round> = (0..rounds).map(|round| plan.round(round)).collect();
    measure_rounds(joined, &planned, size, &buffers, &mut seen)?;
    let more = plan.further(rounds, &raw::judge_places(places, &seen));
    // All ranks come to the same rounds, unless their mathematical libraries round differently: so
    // the first one's are taken.
    let mut all = peers.all_gather_bytes(&serde_json::to_vec(&more)?)?.into_iter();
    let more: Vec<Round> = serde_json::from_slice(&all.next().context("the first rank is there")?)?;
    if !more.is_empty() {
        further(&more);
        measure_rounds(joined, &more, size, &buffers, &mut seen)?;
    }
    Ok(seen)
}

/// Measures these rounds, which follow those already seen.
fn measure_rounds(
    joined: &Joined<'_>,
    rounds: &[Round],
    size: Bytes,
    buffers: &[Buffer; 2],
    seen: &mut Vec<Exchange>,
) -> anyhow::Result<()> {
    let (peers, rank, device) = (joined.link.peers(), joined.link.rank(), joined.device);
    let first = seen.last().map_or(0, |last| last.round + 1);
    for (round, pairs) in (first..).zip(rounds) {
        let partner = pairs.iter().find_map(|&(one, other)| match rank {
            rank if rank == one => Some(other),
            rank if rank == other => Some(one),
            _ => None,
        });
        let time = exchange(device, peers, partner, [&buffers[0], &buffers[1]])?;
        let all = peers.all_gather_bytes(&time.0.to_le_bytes())?;
        let time = |rank: u32| {
            let bytes = all.get(rank as usize).and_then(|bytes| bytes.as_slice().try_into().ok());
            bytes.map_or(f64::NAN, f64::from_le_bytes)
        };
        seen.extend(pairs.iter().map(|&(one, other)| {
            let slower = time(one).max(time(other));
            Exchange { round, one, other, rate: size.0 as f64 / slower }
        }));
    }
    Ok(())
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
            None => {
                peers.sits_out();
                Ok(())
            }
        });
        peers.completed();
        times.push(timed.inspect_err(|error| peers.failed(error))?.time.0);
    }
    Ok(Seconds(quantile::median(&times[1..])))
}
