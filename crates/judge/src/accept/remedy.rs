//! What to do where nothing failed and not everything could be decided.

use super::{Judged, Report, cause::Cause, profile::Kind};
use fizeau_domain::verdict::Verdict;

/// Why a check could not be decided, as far as it decides what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lack {
    Quiet,
    Quota,
    Floor,
    Repeats,
    State,
}

impl Lack {
    const ALL: [Lack; 5] = [Lack::Quiet, Lack::Quota, Lack::Floor, Lack::Repeats, Lack::State];

    fn of(one: &Judged, kind: Kind) -> Lack {
        match one.cause {
            Some(Cause::BusyHost | Cause::BusyDevice | Cause::NoisyNeighbour | Cause::Noise) => {
                Lack::Quiet
            }
            Some(Cause::CpuQuota) => Lack::Quota,
            _ if one.point.is_none() => Lack::State,
            _ if kind == Kind::Derived || one.floor_source.is_none() => Lack::Floor,
            _ => Lack::Repeats,
        }
    }

    const fn remedy(self) -> &'static str {
        match self {
            Lack::Quiet => {
                "end what else runs on this machine and run it again, with --budget 10min"
            }
            Lack::Quota => "run it without the CPU quota of this container or job",
            Lack::Floor => {
                "name a --profile that can pass a node, or make one by `fizeau profile learn`"
            }
            Lack::Repeats => "run it again with a longer --budget or --level full",
            Lack::State => "see below what could not be read or is to be looked at",
        }
    }
}

/// What to do so that more can be decided: for the lack that most undecided checks have. None where
/// every check is decided.
pub fn remedy(report: &Report) -> Option<String> {
    let open = || report.checks.iter().filter(|one| one.verdict == Verdict::Inconclusive);
    let count =
        |lack: Lack| open().filter(|one| Lack::of(one, report.profile_kind) == lack).count();
    let mut lacks: Vec<(usize, Lack)> =
        Lack::ALL.into_iter().map(|lack| (count(lack), lack)).filter(|(of, _)| *of > 0).collect();
    lacks.sort_by_key(|(of, lack)| (std::cmp::Reverse(*of), *lack));
    lacks.first().map(|(_, lack)| lack.remedy().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undecided(cause: Option<Cause>, is_measured: bool) -> Judged {
        let one = Judged::of_state("memory", "host", Verdict::Inconclusive, String::new());
        let point = is_measured.then(|| "stream/read/1GiB/2u".to_owned());
        Judged { cause, point, floor_source: Some("5.0 % below".into()), ..one }
    }

    /// Each way in which a check can be undecided has something to do.
    #[test]
    fn what_is_undecided_says_what_to_do() {
        for (cause, is_measured, kind, words) in [
            (Some(Cause::BusyHost), true, Kind::Learnt, "end what else runs"),
            (Some(Cause::NoisyNeighbour), true, Kind::Derived, "end what else runs"),
            (Some(Cause::Noise), true, Kind::Learnt, "end what else runs"),
            (Some(Cause::CpuQuota), true, Kind::Learnt, "CPU quota"),
            (None, true, Kind::Derived, "profile learn"),
            (None, true, Kind::Learnt, "--budget"),
            (None, false, Kind::Learnt, "see below"),
        ] {
            let lack = Lack::of(&undecided(cause, is_measured), kind);
            assert!(lack.remedy().contains(words), "{cause:?}: {}", lack.remedy());
            assert!(lack.remedy().len() < 80, "a line of a terminal: {}", lack.remedy());
        }
        let unknown = Judged { floor_source: None, ..undecided(None, true) };
        assert_eq!(Lack::of(&unknown, Kind::Learnt), Lack::Floor, "it has no reference");
    }
}
