//! `fizeau localise`: finds the rank that is slow with every partner.

mod words;

use super::{
    disk,
    exit::{self, Usage},
    global::Global,
    output::{print, print_json, say},
    share::Share,
};
use crate::world::{self, Choice, HostName, Joined, Seats, Terms, choice, exchanges};
use anyhow::{Context, bail};
use clap::Args;
use fizeau_device::clock;
use fizeau_domain::{
    labels::Labels,
    text::counted,
    text::{self, clean},
    units::{Bytes, Seconds},
};
use fizeau_judge::localise::{
    self, Findings, LEAST_EFFECT,
    plan::{self, Plan, Round},
    raw::{self, Measured, RankPlace, RawExchange},
};
use fizeau_record::file;
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
    /// Let one exchange at most leave each component of this kind (a column of --labels) in a
    /// round, so that no two share what joins it to the others; all other ranks meet within
    /// components
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

/// The rates' files in a directory.
const FILES: [&str; 2] = ["exchanges.json", "exchanges.csv"];

/// Longest file of rates that is read, in bytes, and the memory that its values may take.
const RATES_MAX: u64 = 64 << 20;
const RATES_MEMORY_MAX: u64 = 512 << 20;

/// Longest file of labels that is read, in bytes.
const LABELS_MAX: u64 = 64 << 20;

/// Up to this many ranks the pairs of each planned round are printed.
const PAIRS_PRINTED: u32 = 16;

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
        ending: exit::ENDING,
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
        "{}, {} of {size} planned; {} more follow on doubt",
        counted(ranks as usize, "rank"),
        counted(rounds as usize, "round"),
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
    let new = || disk::new_directory(&clock::utc_now(), "localise");
    let directory = out.map_or_else(new, Path::to_owned);
    let write = || -> anyhow::Result<()> {
        disk::make_directory(&directory, "--out DIR")?;
        let texts = [measured.to_json()? + "\n", measured.to_csv()?];
        for (name, text) in FILES.into_iter().zip(texts) {
            disk::write_file(&directory.join(name), text.as_bytes(), "--out DIR")?;
        }
        Ok(())
    };
    let at = directory.display();
    say(&match write() {
        Ok(()) => format!("rates kept: fizeau localise --from {at} judges them again"),
        Err(error) => format!("the rates could not be kept in {at}: {error:#}"),
    });
}

/// What rates tell, the same whether they were measured now or before.
fn findings(measured: &Measured, args: &LocaliseArgs) -> Findings {
    measured.judge().beyond(args.least_effect.0)
}

/// Judges rates and says what they tell.
fn judge(measured: &Measured, args: &LocaliseArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let findings = findings(measured, args);
    let found = words::found(measured, &findings, args);
    if global.json {
        print_json(&found)?;
    } else {
        let lines: Vec<String> =
            words::words(&found, measured).iter().map(|line| clean(line)).collect();
        print(&lines.join("\n"))?;
    }
    Ok(ExitCode::from(findings.answer.verdict().exit_code()))
}
