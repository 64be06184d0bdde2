//! A process of `fizeau run` that measures one of several GPUs: what it tells the process that
//! started it ([`Told`]), and how it waits for its turn where GPUs share something ([`Turns`]).

use crate::session::Watcher;
use fizeau_domain::{
    case::{Case, Point},
    outcome::Outcome,
};
use std::{
    fmt,
    io::{self, Write},
    str::FromStr,
    sync::atomic::{AtomicBool, Ordering},
};

/// What the process of one GPU tells: a line each on its standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// How many cases it has to do.
    Planned(usize),
    /// A case has its outcome.
    Ended,
    /// The cases left use what GPUs share. It waits for a line on its standard input.
    Waits,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Told::Planned(cases) => write!(f, "planned {cases}"),
            Told::Ended => f.write_str("ended"),
            Told::Waits => f.write_str("waits"),
        }
    }
}

/// A line that is none of [`Told`].
#[derive(Debug, PartialEq, Eq)]
pub struct NotTold;

impl FromStr for Told {
    type Err = NotTold;

    fn from_str(line: &str) -> Result<Told, NotTold> {
        match line.split_once(' ') {
            Some(("planned", cases)) => cases.parse().map(Told::Planned).map_err(|_| NotTold),
            None if line == "ended" => Ok(Told::Ended),
            None if line == "waits" => Ok(Told::Waits),
            _ => Err(NotTold),
        }
    }
}

/// Tells each step of a run, and waits before the first case that uses what GPUs share until
/// every other GPU is done with its own work and this one has its turn.
pub struct Turns<'t> {
    interrupted: &'t AtomicBool,
    has_turn: bool,
}

impl<'t> Turns<'t> {
    /// For a run with `cases` cases left. `interrupted` becomes true where nobody is left to give
    /// a turn.
    pub fn new(cases: usize, interrupted: &'t AtomicBool) -> Turns<'t> {
        tell(Told::Planned(cases));
        Turns { interrupted, has_turn: false }
    }
}

impl Watcher for Turns<'_> {
    fn starts(&mut self, _: usize, _: usize, case: &Case) {
        if self.has_turn || !case.point.is_shared_by_gpus() {
            return;
        }
        tell(Told::Waits);
        let mut line = String::new();
        match io::stdin().read_line(&mut line) {
            Ok(length) if length > 0 => self.has_turn = true,
            _ => self.interrupted.store(true, Ordering::Relaxed),
        }
    }

    fn ended(&mut self, _: &Outcome) {
        tell(Told::Ended);
    }
}

/// Where nobody reads any more, what is measured is kept all the same.
fn tell(told: Told) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{told}").and_then(|()| out.flush());
}

/// Puts a plan for one of several GPUs in order: what it has for itself first, then what it shares
/// with the others. Copies between the host and another GPU are left to that GPU.
pub fn arrange(cases: &mut Vec<Case>) {
    let of_another = |case: &Case| match &case.point {
        Point::Transfer(point) => point.transfer.with_host() && point.peer.is_some(),
        _ => false,
    };
    cases.retain(|case| !of_another(case));
    cases.sort_by_key(|case| case.point.is_shared_by_gpus());
}

#[cfg(test)]
mod tests {
    use super::*;
    use fizeau_domain::{
        case::{HostMemory, KernelName, LaunchPoint, Launching, Transfer, TransferPoint},
        units::Bytes,
    };

    #[test]
    fn what_is_told_is_read_again() {
        for told in [Told::Planned(93), Told::Ended, Told::Waits] {
            assert_eq!(told.to_string().parse(), Ok(told));
        }
        for line in ["", "planned", "planned x", "ended 1", "stream/copy"] {
            assert_eq!(line.parse::<Told>(), Err(NotTold), "{line}");
        }
    }

    #[test]
    fn shared_cases_come_last_and_host_copies_are_each_gpus_own() {
        let transfer = |transfer, peer| {
            let (size, host) = (Bytes::MIB, HostMemory::Pinned);
            Point::Transfer(TransferPoint {
                transfer,
                size,
                host,
                node: None,
                device: 0,
                peer,
                copies: 1,
            })
        };
        let launch = Point::Launch(LaunchPoint { launching: Launching::Queued, kernels: 1 });
        let points = [
            launch,
            transfer(Transfer::HostToDeviceMemcpy, None),
            transfer(Transfer::HostToDeviceMemcpy, Some(1)),
            transfer(Transfer::DeviceToDeviceMemcpyRead, Some(1)),
            transfer(Transfer::DeviceLocalCopy, None),
        ];
        let mut cases: Vec<Case> =
            points.map(|point| Case { kernel: KernelName("ce".into()), point }).to_vec();
        arrange(&mut cases);
        let left: Vec<Point> = cases.into_iter().map(|case| case.point).collect();
        assert_eq!(left, [points[4], points[0], points[1], points[3]]);
    }
}
