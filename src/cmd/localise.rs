//! `fizeau localise`: finds the rank that is slow with every partner.

use super::{Global, Usage, compare::Share, print, print_json, say};
use crate::{
    clock, file,
    labels::Labels,
    localise::{
        self, Answer, Findings, Group, GroupOf, Inside, LEAST_EFFECT, Named,
        plan::{self, Plan, Round},
        power::{self, Fault},
        raw::{self, Measured, RankPlace, RawExchange},
    },
    spec::STUB,
    text::{self, clean},
    units::{Bytes, Seconds},
    world::{self, Choice, HostName, Joined, Seats, Terms, choice, exchanges},
};
use anyhow::{Context, bail};
use clap::Args;
use serde::Serialize;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::AtomicBool,
};

/// Arguments of `localise`.
#[derive(Args, Clone, Debug)]
pub struct LocaliseArgs {
    /// Rounds in which each rank exchanges data with one other; 6 more follow if the result is
    /// unclear
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
    /// Judge rates that were measured before, and measure nothing: a directory that this command
    /// wrote, or a JSON or CSV file with rank_a, rank_b and bytes_per_second
    #[arg(
        long,
        value_name = "FILE_OR_DIR",
        conflicts_with_all = ["rounds", "size", "ranks", "device", "out"]
    )]
    pub from: Option<PathBuf>,
    /// A CSV file that says which leaf switch, rail or rack each node or device belongs to, read by
    /// the first rank: columns `node`, perhaps `device`, and one for each kind of component. Slow
    /// components, and slow paths between two, are then named instead of their ranks
    #[arg(long, value_name = "FILE")]
    pub labels: Option<PathBuf>,
    /// Let one exchange at most leave each component of this kind (a column of --labels) in a round,
    /// so that no two share what joins it to the others; all other ranks meet within components
    #[arg(long, value_name = "KIND", requires = "labels", conflicts_with = "from")]
    pub apart: Option<String>,
    /// Where the rates go [default: results/local/TIME-localise]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// For the process that `accept` starts on each node: every rank keeps and prints what is found
    #[arg(long, hide = true)]
    pub each: bool,
    /// Name nobody who is slower than healthy ranks by less than this share
    #[arg(long, value_name = "SHARE", default_value_t = Share(LEAST_EFFECT))]
    pub least_effect: Share,
    /// Also print how many rounds would find a rank that is slower by this share ...
    #[arg(long, value_name = "SHARE", default_value = "20%")]
    pub loss: Share,
    /// ... in this share of its exchanges
    #[arg(long, value_name = "SHARE", default_value = "50%")]
    pub presence: Share,
}

/// Longest wait for one exchange.
pub(super) const DEADLINE: Seconds = Seconds(60.0);

/// Where records go.
const LOCAL: &str = "results/local";

/// The rates' files in a directory.
const FILES: [&str; 2] = ["exchanges.json", "exchanges.csv"];

/// Longest file of rates that is read, in bytes, and the memory that its values may take.
const RATES_MAX: u64 = 64 << 20;
const RATES_MEMORY_MAX: u64 = 512 << 20;

/// Longest file of labels that is read, in bytes.
const LABELS_MAX: u64 = 64 << 20;

/// Up to this many ranks the pairs of each planned round are printed.
const PAIRS_PRINTED: u32 = 16;

/// Up to this many of a list are printed; all are in `--json`.
const PRINTED_MAX: usize = 16;

/// What is found, as `--json` prints it.
#[derive(Serialize)]
struct Found {
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

/// How many rounds a fault needs to be found.
#[derive(Serialize)]
struct Needed {
    loss: f64,
    presence: f64,
    rounds: Option<u32>,
}

/// Finds who is slow. The exit code is the verdict's.
///
/// # Errors
/// Where there are no ranks, they cannot exchange data, or rates cannot be read.
pub fn run(args: &LocaliseArgs, global: &Global) -> anyhow::Result<ExitCode> {
    if args.rounds == 0 || args.size == Bytes(0) {
        return Err(Usage("--rounds and --size are 1 at least".into()).into());
    }
    if !(args.least_effect.0 >= 0.0 && args.least_effect.0 < 1.0) {
        let why = "--least-effect is at least 0 and less than 1; write 0.02 or 2%";
        return Err(Usage(why.into()).into());
    }
    if [args.loss.0, args.presence.0].iter().any(|share| !(*share > 0.0 && *share <= 1.0)) {
        let why = "--loss and --presence are more than 0 and 100 % at most";
        return Err(Usage(why.into()).into());
    }
    if let Some(path) = &args.from {
        let mut measured = read(path)?;
        label(&mut measured.ranks, args)?;
        return judge(&measured, args, global);
    }
    let kept = |out: &PathBuf| FILES.map(|file| out.join(file)).into_iter().find(|at| at.exists());
    if let Some(kept) = args.out.as_ref().and_then(kept) {
        let why = format!("{} has rates already; name another directory", kept.display());
        return Err(Usage(why).into());
    }
    let choice = Choice { device: args.device.clone(), ranks: args.ranks };
    let alone = || {
        let why = match (args.ranks, choice.device()) {
            (Some(ranks), Ok(device)) if choice::is_host(&device) => format!(
                "no GPU is here for --ranks {ranks}, and ranks of the host are processes: fizeau \
                 launch -n {ranks} -- localise"
            ),
            _ => "localise needs at least two ranks: start them by mpiexec, srun or fizeau \
                  launch, or say --ranks N for N GPUs of this process"
                .into(),
        };
        Err(Usage(why).into())
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
        let (measured, is_first) = world::attend(seat, terms, |joined| measure(args, &joined))?;
        if is_first || args.each {
            keep(&measured, args.out.as_deref());
            return judge(&measured, args, global);
        }
        Ok(ExitCode::from(findings(&measured, args).answer.verdict().exit_code()))
    })
}

/// Measures the rounds, as planned and as doubt asks for. Every rank gets all rates; whether this
/// is the first rank.
fn measure(args: &LocaliseArgs, joined: &Joined<'_>) -> anyhow::Result<(Measured, bool)> {
    let is_first = joined.link.rank() == 0;
    let ranks = joined.link.peers().size();
    let places = labelled(joined, args)?;
    let kinds = raw::kinds(&places);
    let apart = args.apart.as_ref().map(|name| {
        let kind = kinds.iter().find(|kind| kind.name == name.to_lowercase());
        kind.with_context(|| format!("--apart {name}: --labels names no {name} of these ranks"))
    });
    let plan = Plan { ranks, apart: apart.transpose()? };
    if is_first {
        announce_plan(&plan, args);
    }
    let further = |rounds: &[Round]| {
        if is_first {
            announce_further(ranks, args.rounds, rounds);
        }
    };
    let rounds = (&plan, args.rounds);
    let seen = exchanges::measure(joined, &places, rounds, args.size, further)?;
    let line = |one: &localise::Exchange| RawExchange {
        round: Some(one.round),
        rank_a: one.one,
        rank_b: one.other,
        bytes_per_second: Some(one.rate).filter(|rate| rate.is_finite()),
        mark: None,
    };
    let mut measured = Measured {
        fizeau: Some(env!("CARGO_PKG_VERSION").into()),
        size_bytes: Some(args.size),
        ranks: places,
        exchanges: seen.iter().map(line).collect(),
    };
    if joined.device.properties().is_stub() {
        measured.mark_stub();
    }
    Ok((measured, is_first))
}

/// Where all ranks are, with the labels that the first of them reads.
fn labelled(joined: &Joined<'_>, args: &LocaliseArgs) -> anyhow::Result<Vec<RankPlace>> {
    let mut places = joined.roster.places();
    if joined.link.rank() == 0 {
        label(&mut places, args)?;
    }
    let all = joined.link.peers().all_gather_bytes(&serde_json::to_vec(&places)?)?;
    Ok(serde_json::from_slice(all.first().context("the first rank is there")?)?)
}

/// Adds what --labels says of ranks to what is known of them.
fn label(places: &mut [RankPlace], args: &LocaliseArgs) -> anyhow::Result<()> {
    let Some(path) = &args.labels else { return Ok(()) };
    let at = || format!("cannot read the labels in {}", path.display());
    let labels = Labels::parse(&file::read_text(path, LABELS_MAX).with_context(at)?);
    let labels = labels.with_context(at)?;
    let mut unknown = BTreeSet::new();
    for place in places.iter_mut() {
        let Some(host) = &place.host else { continue };
        let known = labels.of(host, place.device.as_deref());
        if known.is_empty() {
            unknown.insert(host.clone());
        }
        place.labels.extend(known);
    }
    if places.iter().all(|place| place.labels.is_empty()) {
        let why = match unknown.first() {
            Some(host) => format!("it has no line of {host} or of any other host of these ranks"),
            None => "these rates do not name the hosts of their ranks".to_owned(),
        };
        bail!("{} is of no use here: {why}", path.display());
    }
    if let Some(host) = unknown.first() {
        let others = match unknown.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        say(&format!("{} has no line of {host}{others}", path.display()));
    }
    Ok(())
}

/// Says which rounds are planned, on standard error as all progress.
fn announce_plan(plan: &Plan<'_>, args: &LocaliseArgs) {
    let (ranks, rounds, size) = (plan.ranks, args.rounds, args.size);
    say(&format!(
        "{ranks} ranks, {rounds} rounds of {size} planned; {} more follow on doubt",
        plan::FURTHER
    ));
    if let Some(kind) = plan.apart {
        say(&format!("in a round one exchange at most leaves each {}", kind.name));
    }
    let planned: Vec<Round> = (0..rounds).map(|round| plan.round(round)).collect();
    announce_pairs(ranks, 0, &planned);
}

fn announce_further(ranks: u32, planned: u32, rounds: &[Round]) {
    say(&format!("{} more rounds follow, since these leave doubt", rounds.len()));
    announce_pairs(ranks, planned, rounds);
}

fn announce_pairs(ranks: u32, first: u32, rounds: &[Round]) {
    if ranks > PAIRS_PRINTED {
        return;
    }
    for (number, pairs) in (first + 1..).zip(rounds) {
        let pairs: Vec<String> =
            pairs.iter().map(|(one, other)| format!("{one}-{other}")).collect();
        say(&format!("round {number}: {}", pairs.join(" ")));
    }
}

/// Reads rates that were kept.
fn read(path: &Path) -> anyhow::Result<Measured> {
    let path = if path.is_dir() { path.join(FILES[0]) } else { path.to_owned() };
    let text = file::read_text(&path, RATES_MAX)
        .with_context(|| format!("cannot read the rates in {}", path.display()))?;
    if text::json_memory(text.as_bytes()) > RATES_MEMORY_MAX {
        bail!("the rates in {} would take too much memory", path.display());
    }
    Measured::parse(&text).with_context(|| format!("cannot judge the rates in {}", path.display()))
}

/// Keeps the rates as JSON and CSV. Where that fails the verdict stands, and the reason is said.
fn keep(measured: &Measured, out: Option<&Path>) {
    let directory = out.map_or_else(new_directory, Path::to_owned);
    let write = || -> anyhow::Result<()> {
        super::make_directory(&directory, "--out DIR")?;
        let texts = [measured.to_json()? + "\n", measured.to_csv()?];
        for (name, text) in FILES.into_iter().zip(texts) {
            super::write_file(&directory.join(name), text.as_bytes(), "--out DIR")?;
        }
        Ok(())
    };
    let at = directory.display();
    say(&match write() {
        Ok(()) => format!("rates kept: fizeau localise --from {at} judges them again"),
        Err(error) => format!("the rates could not be kept in {at}: {error:#}"),
    });
}

fn new_directory() -> PathBuf {
    let name = format!("{}-localise", clock::utc_now().replace(':', ""));
    let first = Path::new(LOCAL).join(&name);
    let later = (2..).map(|number| Path::new(LOCAL).join(format!("{name}-{number}")));
    std::iter::once(first.clone()).chain(later).find(|path| !path.exists()).unwrap_or(first)
}

/// What rates tell, the same whether they were measured now or before.
fn findings(measured: &Measured, args: &LocaliseArgs) -> Findings {
    measured.judge().beyond(args.least_effect.0)
}

/// Judges rates and says what they tell.
fn judge(measured: &Measured, args: &LocaliseArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let findings = findings(measured, args);
    let found = found(measured, &findings, args);
    if global.json {
        print_json(&found)?;
    } else {
        let lines: Vec<String> = words(&found, measured).iter().map(|line| clean(line)).collect();
        print(&lines.join("\n"))?;
    }
    Ok(ExitCode::from(findings.answer.verdict().exit_code()))
}

fn found(measured: &Measured, findings: &Findings, args: &LocaliseArgs) -> Found {
    let is_stub = measured.is_stub();
    let share = |rate: f64| (!is_stub).then_some(rate);
    let (named, undecided) = match &findings.answer {
        Answer::Named(named) => (named.clone(), None),
        Answer::Nobody => (Named::default(), None),
        Answer::Undecided(why) => (Named::default(), Some(why.clone())),
    };
    let suspect = |slow: &localise::SlowRank| SlowRank {
        rank: slow.rank,
        name: measured.name(slow.rank),
        slow: slow.slow,
        exchanges: slow.exchanges,
        rate_share: share(slow.rate),
    };
    let group = |group: &Group| SlowGroup {
        ranks: group.ranks.clone(),
        slow: group.slow,
        is_host: group.of == GroupOf::Host,
        component: match &group.of {
            GroupOf::Component { kind, name, .. } => Some([kind.clone(), name.clone()]),
            GroupOf::Host | GroupOf::Neighbours => None,
        },
        also: match &group.of {
            GroupOf::Component { also, .. } => also.clone(),
            GroupOf::Host | GroupOf::Neighbours => Vec::new(),
        },
        slow_inside: match group.inside {
            Inside::Fast => Some(false),
            Inside::Slow => Some(true),
            Inside::Unseen => None,
        },
        rate_share: share(group.rate),
    };
    let link = |link: &localise::SlowLink| SlowLink {
        ranks: link.ranks,
        slow: link.slow,
        exchanges: link.exchanges,
        rate_share: share(link.rate),
    };
    let path = |path: &localise::SlowPath| SlowPath {
        kind: path.kind.clone(),
        names: path.names.clone(),
        slow: path.slow,
        exchanges: path.exchanges,
        rate_share: share(path.rate),
    };
    let slight = |(ranks, rate): &(Vec<u32>, f64)| SlightlySlow {
        ranks: ranks.clone(),
        rate_share: share(*rate),
    };
    let ranks = measured.ranks.len() as u32;
    let (rounds, fewest) = (measured.rounds(), measured.fewest_exchanges());
    let jitter = findings.jitter.filter(|_| !is_stub);
    let fault = Fault { loss: args.loss.0, presence: args.presence.0 };
    Found {
        ranks: (0..ranks).map(|rank| measured.name(rank)).collect(),
        rounds,
        size_bytes: measured.size_bytes,
        suspects: named.ranks.iter().map(suspect).collect(),
        groups: named.groups.iter().map(group).collect(),
        links: named.links.iter().map(link).collect(),
        paths: named.paths.iter().map(path).collect(),
        undecided,
        slight: findings.slight.iter().map(slight).collect(),
        unexplained: findings.unexplained.clone(),
        faster: findings.faster.as_ref().map(|faster| FasterRanks {
            ranks: faster.ranks.clone(),
            exchanges: faster.exchanges,
            gain: share(faster.gain),
            words: faster.words(),
        }),
        jitter,
        least_loss: jitter.and_then(|jitter| power::least_loss(ranks, fewest, jitter)),
        needed: Needed {
            loss: fault.loss,
            presence: fault.presence,
            rounds: jitter.and_then(|jitter| power::rounds_needed(ranks, jitter, fault)),
        },
    }
}

/// One line for each thing that is slow, or that nothing is.
fn words(found: &Found, measured: &Measured) -> Vec<String> {
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
            format!("{kind} {name}{also}: {slow} of its {size} ranks")
        }
        (None, Some(host)) => format!("{slow} of the {size} ranks of {host}"),
        (None, None) => format!("{slow} of the {size} ranks {first} to {last}"),
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
        true => format!("{} rounds", found.rounds),
        false => format!("{} exchanges", measured.exchanges.len()),
    };
    let size = found.size_bytes.map(|size| format!(" of {size}")).unwrap_or_default();
    let what = match (&found.undecided, found.least_loss) {
        (Some(why), _) => format!("who is slow cannot be told: {why}"),
        (None, Some(loss)) => format!(
            "nobody is slow; a rank slower by {:.0} % in every exchange would have shown",
            loss * 100.0
        ),
        (None, None) => "nobody is slow".into(),
    };
    format!("{ranks} ranks, {rounds}{size}: {what}")
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
        Some(rounds) => format!("needs {rounds} rounds"),
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
