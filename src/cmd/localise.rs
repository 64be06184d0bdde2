//! `fizeau localise`: finds the rank that is slow with every partner.

use super::{Global, Usage, print};
use crate::{
    localise::{self, Answer},
    units::{Bytes, Seconds},
    world::{self, Choice, HostName, Joined, Seats, Terms, exchanges},
};
use clap::Args;
use serde::Serialize;
use std::{process::ExitCode, sync::atomic::AtomicBool};

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
    /// Number of GPUs of this process, where no launcher has started ranks
    #[arg(long, value_name = "N")]
    pub ranks: Option<u32>,
    /// A device as `fizeau devices` names it [default: the GPUs, or the host where there is none]
    #[arg(long, alias = "backend", value_name = "NAME")]
    pub device: Option<String>,
}

/// Longest wait for one exchange.
pub(super) const DEADLINE: Seconds = Seconds(60.0);

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

/// Finds who is slow. The exit code is the verdict's.
///
/// # Errors
/// Where there are no ranks, or they cannot exchange data.
pub fn run(args: &LocaliseArgs, global: &Global) -> anyhow::Result<ExitCode> {
    if args.rounds == 0 || args.size == Bytes(0) {
        return Err(Usage("--rounds and --size are 1 at least".into()).into());
    }
    let choice = Choice { device: args.device.clone(), ranks: args.ranks };
    let alone = || {
        let why = "nobody to exchange with: start ranks by mpiexec, srun or fizeau launch, \
                   or say --ranks N for N GPUs of this process";
        Err(Usage(why.into()).into())
    };
    let interrupted = AtomicBool::new(false);
    let terms = Terms {
        choice: &choice,
        host_name: HostName::Told,
        deadline: DEADLINE,
        interrupted: &interrupted,
        ending: super::ENDING,
    };
    Seats::of(&choice)?.run(alone, |seat| {
        let found = world::attend(seat, terms, |joined| find(args, &joined))?;
        if found.is_first {
            tell(args, &found, global)?;
        }
        Ok(ExitCode::from(found.answer.verdict().exit_code()))
    })
}

/// What a rank knows in the end.
struct Ended {
    answer: Answer,
    ranks: Vec<String>,
    is_first: bool,
    is_stub: bool,
}

/// Every rank comes to the same answer.
fn find(args: &LocaliseArgs, joined: &Joined<'_>) -> anyhow::Result<Ended> {
    let exchanges = exchanges::measure(joined, args.rounds, args.size)?;
    Ok(Ended {
        answer: localise::answer(joined.link.peers().size(), &exchanges),
        ranks: joined.roster.lines(),
        is_first: joined.link.rank() == 0,
        is_stub: joined.device.properties().is_stub(),
    })
}

fn tell(args: &LocaliseArgs, ended: &Ended, global: &Global) -> anyhow::Result<()> {
    let Ended { answer, ranks, is_stub, .. } = ended;
    let (suspects, undecided) = match answer {
        Answer::Named(suspects) => (suspects.as_slice(), None),
        Answer::Nobody => (&[][..], None),
        Answer::Undecided(why) => (&[][..], Some(why.clone())),
    };
    let named = |suspect: &localise::Suspect| Named {
        rank: suspect.node,
        name: ranks.get(suspect.node as usize).cloned().unwrap_or_default(),
        slow: suspect.slow,
        exchanges: suspect.exchanges,
        rate_share: (!*is_stub).then_some(suspect.rate),
    };
    let suspects: Vec<Named> = suspects.iter().map(named).collect();
    let (rounds, size_bytes) = (args.rounds, args.size);
    if global.json {
        let ranks = ranks.clone();
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
