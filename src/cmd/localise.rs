//! `fizeau localise`: names the rank whose exchanges are slow, whoever it exchanges with.

use super::{
    Global, Usage, exit, plan, print,
    ranks::{self, Candidate, HostName, Kept, Known, Link, Quiet, Seat, Seats},
};
use crate::{
    comm::Communicator,
    device::{Buffer, Device},
    localise::{self, Exchange, Verdict},
    stats::quantile,
    units::{Bytes, Seconds},
};
use anyhow::Context;
use clap::Args;
use serde::Serialize;
use std::{process::ExitCode, sync::atomic::AtomicBool, thread};

/// Arguments of `localise`.
#[derive(Args, Clone, Debug)]
pub struct LocaliseArgs {
    /// Rounds in which every rank exchanges with one other: 2 find what is always slow, 10 what is
    /// slow every other time
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub rounds: u32,
    /// Bytes that each rank sends in an exchange
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    pub size: Bytes,
    /// So many GPUs of this process, where no launcher has started ranks
    #[arg(long, value_name = "N")]
    pub ranks: Option<u32>,
    /// A device as `fizeau devices` names it [default: the GPUs, or the host where there is none]
    #[arg(long, alias = "backend", value_name = "NAME")]
    pub device: Option<String>,
}

/// Exchanges of a round that are timed, after one that is not.
const TIMED: usize = 5;

/// Longest wait for one exchange.
const DEADLINE: Seconds = Seconds(60.0);

/// What is found, as `--json` prints it.
#[derive(Serialize)]
struct Found {
    ranks: Vec<String>,
    rounds: u32,
    size_bytes: Bytes,
    suspects: Vec<Named>,
    /// Why it cannot be told who is slow, where it cannot.
    undecided: Option<String>,
}

#[derive(Serialize)]
struct Named {
    rank: u32,
    name: String,
    slow: u32,
    exchanges: u32,
    /// Median rate of its slow exchanges as a share of all exchanges' median; absent on a stub.
    rate_share: Option<f64>,
}

/// Finds who is slow.
pub fn run(args: &LocaliseArgs, global: &Global) -> anyhow::Result<ExitCode> {
    if args.rounds == 0 || args.size == Bytes(0) {
        return Err(Usage("--rounds and --size are 1 at least".into()).into());
    }
    let plan =
        plan::PlanArgs { ranks: args.ranks, device: args.device.clone(), ..Default::default() };
    let one = |seat| one_rank(args, &plan, global, seat);
    match ranks::seats(&plan)? {
        Seats::Alone => {
            let why = "nobody to exchange with: start ranks by mpiexec, srun or fizeau launch, \
                       or say --ranks N for so many GPUs";
            Err(Usage(why.into()).into())
        }
        Seats::One(seat) => one(seat),
        Seats::Threads(seats) => thread::scope(|scope| {
            let mut seats = seats.into_iter();
            let first = seats.next().context("a world of no ranks")?;
            for seat in seats {
                scope.spawn(|| one(seat));
            }
            one(first)
        }),
    }
}

fn one_rank(
    args: &LocaliseArgs,
    plan: &plan::PlanArgs,
    global: &Global,
    seat: Seat,
) -> anyhow::Result<ExitCode> {
    let (candidate, device) = Candidate::new(seat, plan, HostName::Told);
    let known = match candidate.meet(&AtomicBool::new(false)) {
        Err(error) if error.is::<Quiet>() => return Ok(ExitCode::from(exit::COULD_NOT_RUN)),
        known => known?,
    };
    let device = device.with_context(|| format!("cannot open {}", candidate.device()))?;
    let link = candidate.join(&known, device.as_ref(), DEADLINE, &Kept::default())?;
    let verdict = search(args, device.as_ref(), &link)?;
    let is_first = link.rank() == 0;
    link.finish()?;
    let code = match &verdict {
        Verdict::Nobody => 0,
        Verdict::Named(_) => exit::FAILED,
        Verdict::Undecided(_) => exit::INCONCLUSIVE,
    };
    if is_first {
        tell(args, &known, &verdict, device.properties().is_stub(), global)?;
    }
    Ok(ExitCode::from(code))
}

/// All rounds; every rank comes to the same answer.
fn search(args: &LocaliseArgs, device: &dyn Device, link: &Link<'_>) -> anyhow::Result<Verdict> {
    let (peers, rank) = (link.peers(), link.rank());
    let [send, receive] = [device.allocate(args.size)?, device.allocate(args.size)?];
    let mut seen: Vec<Exchange> = Vec::new();
    for round in 0..args.rounds {
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
            Exchange { one, other, rate: args.size.0 as f64 / slower }
        }));
    }
    Ok(localise::verdict(peers.size(), &seen))
}

/// The median time of an exchange with a partner; who has none waits for the others.
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

fn tell(
    args: &LocaliseArgs,
    known: &Known,
    verdict: &Verdict,
    is_stub: bool,
    global: &Global,
) -> anyhow::Result<()> {
    let ranks = known.lines();
    let (suspects, undecided) = match verdict {
        Verdict::Named(suspects) => (suspects.as_slice(), None),
        Verdict::Nobody => (&[][..], None),
        Verdict::Undecided(why) => (&[][..], Some(why.clone())),
    };
    let named = |suspect: &localise::Suspect| Named {
        rank: suspect.node,
        name: ranks.get(suspect.node as usize).cloned().unwrap_or_default(),
        slow: suspect.slow,
        exchanges: suspect.exchanges,
        rate_share: (!is_stub).then_some(suspect.rate),
    };
    let suspects: Vec<Named> = suspects.iter().map(named).collect();
    let (rounds, size_bytes) = (args.rounds, args.size);
    if global.json {
        let found = Found { ranks, rounds, size_bytes, suspects, undecided };
        print(&serde_json::to_string_pretty(&found)?)?;
        return Ok(());
    }
    if suspects.is_empty() {
        let found = match undecided {
            None => "nobody is slow".into(),
            Some(why) => format!("who is slow cannot be told: {why}"),
        };
        let count = ranks.len();
        print(&format!("{count} ranks, {rounds} rounds of {size_bytes}: {found}"))?;
    }
    for Named { name, slow, exchanges, rate_share, .. } in suspects {
        let rate = rate_share.map_or("stub".into(), |share| format!("{:.0} %", share * 100.0));
        let words = format!("{slow} of {exchanges} exchanges slow, at {rate} of the median");
        print(&format!("{name}: {words}"))?;
    }
    Ok(())
}
