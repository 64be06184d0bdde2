//! What `fizeau localise` says: as words, and as `--json` has it.

use super::LocaliseArgs;
use fizeau_domain::{spec::STUB, text::counted, units::Bytes};
use fizeau_judge::localise::{
    self, Answer, Findings, Group, GroupOf, Inside, Layout, Named,
    power::{self, Fault},
    raw::Measured,
};
use serde::Serialize;

/// Up to this many of a list are printed; all are in `--json`.
const PRINTED_MAX: usize = 16;

/// What is found, as `--json` prints it.
#[derive(Serialize)]
pub(super) struct Found {
    ranks: Vec<String>,
    rounds: u32,
    size_bytes: Option<Bytes>,
    suspects: Vec<SlowRank>,
    groups: Vec<SlowGroup>,
    links: Vec<SlowLink>,
    /// Slow paths between components of --labels; both are fast with others.
    paths: Vec<SlowPath>,
    /// Why it cannot be told who is slow, where it cannot.
    undecided: Option<String>,
    /// What is slower for certain, and by less than the least effect: nobody is named for it.
    slight: Vec<SlightlySlow>,
    /// Pairs that were slow and that nothing explains.
    unexplained: Vec<(u32, u32)>,
    /// Ranks that are fast with each other and with nobody else, where more than half of the ranks
    /// may be slow.
    faster: Option<FasterRanks>,
    /// Groups of ranks whose pairs have rates of their own, as behind the switches of a machine.
    layout: Option<Groups>,
    /// Relative standard deviation of a healthy exchange's rate; absent on a stub.
    jitter: Option<f64>,
    /// A rank that is slower by this share in every exchange would have been named; absent on a
    /// stub.
    least_loss: Option<f64>,
    needed: Needed,
}

#[derive(Serialize)]
struct SlowRank {
    rank: u32,
    name: String,
    slow: u32,
    exchanges: u32,
    /// Median rate of its slow exchanges as a share of healthy ranks' rate; absent on a stub.
    rate_share: Option<f64>,
}

#[derive(Serialize)]
struct SlowGroup {
    ranks: Vec<u32>,
    slow: u32,
    is_host: bool,
    /// The component of --labels that it is, as its kind and name; absent where it is none.
    component: Option<[String; 2]>,
    /// Components of other kinds with the same ranks.
    also: Vec<String>,
    /// Whether exchanges within the group are slow too; absent where there were none.
    slow_inside: Option<bool>,
    rate_share: Option<f64>,
}

#[derive(Serialize)]
struct SlowLink {
    ranks: (u32, u32),
    slow: u32,
    exchanges: u32,
    rate_share: Option<f64>,
}

#[derive(Serialize)]
struct SlowPath {
    kind: String,
    names: [String; 2],
    slow: u32,
    exchanges: u32,
    rate_share: Option<f64>,
}

/// A rank, the ranks of a group, of a path or of a link.
#[derive(Serialize)]
struct SlightlySlow {
    ranks: Vec<u32>,
    rate_share: Option<f64>,
}

#[derive(Serialize)]
struct FasterRanks {
    ranks: Vec<u32>,
    exchanges: u32,
    /// By what share these exchanges are faster than the others; absent on a stub.
    gain: Option<f64>,
    #[serde(skip)]
    words: String,
}

/// Groups of ranks that were compared within themselves.
#[derive(Serialize)]
struct Groups {
    groups: Vec<Vec<u32>>,
    /// Lowest and highest usual rate within a group; absent on a stub.
    within_bytes_per_second: Option<[f64; 2]>,
    /// Lowest and highest usual rate between two groups; absent on a stub.
    across_bytes_per_second: Option<[f64; 2]>,
    #[serde(skip)]
    words: String,
}

impl Groups {
    fn of(layout: &Layout, is_stub: bool) -> Groups {
        let known = |rates: [f64; 2]| (!is_stub).then_some(rates);
        let rates = |rates: [f64; 2]| match known(rates) {
            None => STUB.to_owned(),
            Some([low, high]) => {
                let [low, high] = [low, high].map(|rate| gigabytes(rate / 1e9));
                if low == high { format!("{low} GB/s") } else { format!("{low} to {high} GB/s") }
            }
        };
        let path = match layout.is_faster_within() {
            Some(true) => ": the path between groups is slower than the paths within them",
            Some(false) => ": the path between groups is faster than the paths within them",
            None => "",
        };
        let words = format!(
            "{} ({}): {} within a group, {} across{path}",
            layout.words(),
            members(&layout.groups),
            rates(layout.within),
            rates(layout.across),
        );
        Groups {
            groups: layout.groups.clone(),
            within_bytes_per_second: known(layout.within),
            across_bytes_per_second: known(layout.across),
            words,
        }
    }
}

/// A rate in GB/s with two decimals at most: `0.87`, `12.0`, `450`.
fn gigabytes(value: f64) -> String {
    let decimals = if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.decimals$}")
}

/// The ranks of groups: `ranks 0, 1, 4 | 2, 3`.
fn members(groups: &[Vec<u32>]) -> String {
    let ranks = |group: &Vec<u32>| {
        let shown: Vec<String> = group.iter().take(PRINTED_MAX).map(u32::to_string).collect();
        let more = if group.len() > shown.len() { ", .." } else { "" };
        shown.join(", ") + more
    };
    format!("ranks {}", groups.iter().map(ranks).collect::<Vec<_>>().join(" | "))
}

/// How many rounds a fault needs to be found.
#[derive(Serialize)]
struct Needed {
    loss: f64,
    presence: f64,
    rounds: Option<u32>,
}

/// What is found, ready to be said.
pub(super) fn found(measured: &Measured, findings: &Findings, args: &LocaliseArgs) -> Found {
    let share = Share { is_stub: measured.is_stub() };
    let (named, undecided) = match &findings.answer {
        Answer::Named(named) => (named.clone(), None),
        Answer::Nobody => (Named::default(), None),
        Answer::Undecided(why) => (Named::default(), Some(why.clone())),
    };
    let slight = |(ranks, rate): &(Vec<u32>, f64)| SlightlySlow {
        ranks: ranks.clone(),
        rate_share: share.of(*rate),
    };
    let ranks = measured.ranks.len() as u32;
    let (rounds, fewest) = (measured.rounds(), measured.fewest_exchanges());
    let jitter = findings.jitter.filter(|_| !share.is_stub);
    let fault = Fault { loss: args.loss.0, presence: args.presence.0 };
    Found {
        ranks: (0..ranks).map(|rank| measured.name(rank)).collect(),
        rounds,
        size_bytes: measured.size_bytes,
        suspects: named.ranks.iter().map(|slow| share.rank(slow, measured)).collect(),
        groups: named.groups.iter().map(|group| share.group(group)).collect(),
        links: named.links.iter().map(|link| share.link(link)).collect(),
        paths: named.paths.iter().map(|path| share.path(path)).collect(),
        undecided,
        slight: findings.slight.iter().map(slight).collect(),
        unexplained: findings.unexplained.clone(),
        faster: findings.faster.as_ref().map(|faster| FasterRanks {
            ranks: faster.ranks.clone(),
            exchanges: faster.exchanges,
            gain: share.of(faster.gain),
            words: faster.words(),
        }),
        layout: findings.layout.as_ref().map(|layout| Groups::of(layout, share.is_stub)),
        jitter,
        least_loss: jitter.and_then(|jitter| power::least_loss(ranks, fewest, jitter)),
        needed: Needed {
            loss: fault.loss,
            presence: fault.presence,
            rounds: jitter.and_then(|jitter| power::rounds_needed(ranks, jitter, fault)),
        },
    }
}

/// What is named, with its rate unless a stub made it up.
struct Share {
    is_stub: bool,
}

impl Share {
    fn of(&self, rate: f64) -> Option<f64> {
        (!self.is_stub).then_some(rate)
    }

    fn rank(&self, slow: &localise::SlowRank, measured: &Measured) -> SlowRank {
        SlowRank {
            rank: slow.rank,
            name: measured.name(slow.rank),
            slow: slow.slow,
            exchanges: slow.exchanges,
            rate_share: self.of(slow.rate),
        }
    }

    fn group(&self, group: &Group) -> SlowGroup {
        let (component, also) = match &group.of {
            GroupOf::Component { kind, name, also } => {
                (Some([kind.clone(), name.clone()]), also.clone())
            }
            GroupOf::Host | GroupOf::Neighbours => (None, Vec::new()),
        };
        SlowGroup {
            ranks: group.ranks.clone(),
            slow: group.slow,
            is_host: group.of == GroupOf::Host,
            component,
            also,
            slow_inside: match group.inside {
                Inside::Fast => Some(false),
                Inside::Slow => Some(true),
                Inside::Unseen => None,
            },
            rate_share: self.of(group.rate),
        }
    }

    fn link(&self, link: &localise::SlowLink) -> SlowLink {
        SlowLink {
            ranks: link.ranks,
            slow: link.slow,
            exchanges: link.exchanges,
            rate_share: self.of(link.rate),
        }
    }

    fn path(&self, path: &localise::SlowPath) -> SlowPath {
        SlowPath {
            kind: path.kind.clone(),
            names: path.names.clone(),
            slow: path.slow,
            exchanges: path.exchanges,
            rate_share: self.of(path.rate),
        }
    }
}

/// One line for each thing that is slow, or that nothing is.
pub(super) fn words(found: &Found, measured: &Measured) -> Vec<String> {
    let rate = |share: Option<f64>| match share {
        Some(share) => format!("{:.0} % of the healthy rate", share * 100.0),
        None => format!("{STUB} of the healthy rate"),
    };
    let mut lines = Vec::new();
    for SlowRank { name, slow, exchanges, rate_share, .. } in &found.suspects {
        lines.push(format!(
            "{name}: {slow} of {exchanges} exchanges slow, at {}",
            rate(*rate_share)
        ));
    }
    for group in &found.groups {
        lines.push(group_words(group, measured, &rate(group.rate_share)));
    }
    for SlowLink { ranks: (one, other), slow, exchanges, rate_share } in &found.links {
        let (one, other) = (measured.name(*one), measured.name(*other));
        lines.push(format!(
            "the link between {one} and {other}: {slow} of {exchanges} exchanges slow, at {}; both \
             are fast with others",
            rate(*rate_share)
        ));
    }
    for SlowPath { kind, names: [one, other], slow, exchanges, rate_share } in &found.paths {
        lines.push(format!(
            "the path between {kind} {one} and {kind} {other}: {slow} of {exchanges} exchanges \
             slow, at {}; both are fast with others",
            rate(*rate_share)
        ));
    }
    let named = !lines.is_empty();
    if !named {
        lines.push(nobody(found, measured));
    }
    lines.extend(found.layout.as_ref().map(|layout| layout.words.clone()));
    lines.extend(slight(found));
    lines.extend(unexplained(found));
    if let Some(FasterRanks { ranks, exchanges, gain, words }) = &found.faster {
        let gain = match gain {
            Some(gain) => format!("{:.0} %", gain * 100.0),
            None => STUB.to_owned(),
        };
        if named {
            lines.push(format!("more may be slow: {words}"));
        }
        lines.push(format!(
            "{exchanges} exchanges among {} ranks are faster than the others by {gain}",
            ranks.len()
        ));
    }
    if !named {
        lines.extend(needed(found));
    }
    lines
}

fn group_words(group: &SlowGroup, measured: &Measured, rate: &str) -> String {
    let size = group.ranks.len();
    let (first, last) = (group.ranks[0], group.ranks[size - 1]);
    let host = measured.ranks.get(first as usize).and_then(|place| place.host.as_deref());
    let slow = group.slow;
    let who = match (&group.component, host.filter(|_| group.is_host)) {
        (Some([kind, name]), _) => {
            let also: String =
                group.also.iter().map(|also| format!(", which is {also} too,")).collect();
            format!("{kind} {name}{also}: {slow} of its {}", counted(size, "rank"))
        }
        (None, Some(host)) => format!("{slow} of {size} ranks of {host}"),
        (None, None) => format!("{slow} of {size} ranks {first} to {last}"),
    };
    let inside = match group.slow_inside {
        Some(false) => ", and fast among themselves",
        Some(true) => ", and slow among themselves too",
        None => "",
    };
    let part = if group.component.is_some() {
        match group.slow_inside {
            Some(true) => {
                "what its ranks share is likely: a switch, a plane of switches, a setting"
            }
            _ => "what joins it to the others is likely: its uplinks, their cables, a spine switch",
        }
    } else if group.is_host {
        "what they share on the host is likely: a network interface, a PCIe switch, a cable"
    } else {
        "a component that they share is likely: a leaf switch, its uplinks, a rack"
    };
    format!("{who} are slow with others, at {rate}{inside}; {part}")
}

fn nobody(found: &Found, measured: &Measured) -> String {
    let ranks = found.ranks.len();
    let rounds = match measured.has_rounds() {
        true => counted(found.rounds as usize, "round"),
        false => counted(measured.exchanges.len(), "exchange"),
    };
    let size = found.size_bytes.map(|size| format!(" of {size}")).unwrap_or_default();
    let what = match (&found.undecided, found.least_loss) {
        (Some(why), _) => format!("who is slow cannot be told: {why}"),
        (None, Some(loss)) if found.layout.is_some() => format!(
            "no rank is slow within its group; one slower by {:.0} % in every exchange would have \
             shown",
            loss * 100.0
        ),
        (None, Some(loss)) => format!(
            "nobody is slow; a rank slower by {:.0} % in every exchange would have shown",
            loss * 100.0
        ),
        (None, None) => "nobody is slow".into(),
    };
    format!("{}, {rounds}{size}: {what}", counted(ranks, "rank"))
}

/// What is slower by less than the least effect.
fn slight(found: &Found) -> Option<String> {
    let one = |SlightlySlow { ranks, rate_share }: &SlightlySlow| {
        let names: Vec<&str> =
            ranks.iter().map(|rank| found.ranks[*rank as usize].as_str()).collect();
        let by = rate_share.map(|rate| format!(" by {:.1} %", (1.0 - rate) * 100.0));
        names.join(" and ") + &by.unwrap_or_default()
    };
    let all: Vec<String> = found.slight.iter().take(PRINTED_MAX).map(one).collect();
    let more = match found.slight.len() - all.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!all.is_empty()).then(|| {
        format!("slower by less than --least-effect, and so not named: {}{more}", all.join(", "))
    })
}

/// The pairs that were slow and that nothing explains.
fn unexplained(found: &Found) -> Option<String> {
    let all = &found.unexplained;
    let pair = |(one, other): &(u32, u32)| format!("{one}-{other}");
    let pairs: Vec<String> = all.iter().take(PRINTED_MAX).map(pair).collect();
    let more = match all.len() - pairs.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let pairs = pairs.join(", ");
    (!all.is_empty()).then(|| {
        format!(
            "slow once or more, and nothing named explains it: {pairs}{more}; congestion does \
             that, or a slow link, which shows when its two ranks meet three times"
        )
    })
}

/// How many rounds a fault needs that is not always there.
fn needed(found: &Found) -> Option<String> {
    let jitter = found.jitter?;
    let Needed { loss, presence, rounds } = found.needed;
    let rounds = match rounds {
        Some(rounds) => format!("needs {}", counted(rounds as usize, "round")),
        None => "is not found by 100 rounds".into(),
    };
    Some(format!(
        "healthy exchanges scatter by {:.1} %; a rank slower by {:.0} % in {:.0} % of its \
         exchanges {rounds}",
        jitter * 100.0,
        loss * 100.0,
        presence * 100.0
    ))
}
