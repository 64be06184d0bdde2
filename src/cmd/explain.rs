//! `fizeau explain`: what a case measures, its work, its limits, its kernel, and how to repeat it.

use super::{document, estimate, exit::Usage, global::Global, output::print, plan, user_kernels};
use crate::{
    data::Catalogue,
    world::{Choice, choice},
};
use clap::Args;
use fizeau_bench::{self as bench, Rank};
use fizeau_domain::{
    case::Case, outcome::Cache, selector::Selector, spec, suite::Suite, text::for_shells,
    units::Seconds,
};
use fizeau_report::{explain, without_numbers};
use std::{path::PathBuf, process::ExitCode};

/// Arguments of `explain`.
#[derive(Args, Clone, Debug)]
pub struct ExplainArgs {
    /// The case's id, as `fizeau list` and reports print it, or a glob that one case matches
    #[arg(value_name = "CASE")]
    pub case: String,
    /// Look in this suite only: a name or a TOML file [default: all suites]
    #[arg(long, value_name = "NAME|FILE")]
    pub suite: Option<String>,
    /// A device as `fizeau devices` names it [default: the first GPU, or the host]
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// Number of ranks, as `fizeau run` takes it
    #[arg(long, value_name = "N")]
    pub ranks: Option<u32>,
    /// A kernel of yours, whose case is to be explained, as `fizeau run` takes it. Repeat it for
    /// more
    #[arg(long, value_name = "FILE")]
    pub kernel: Vec<PathBuf>,
}

/// Prints the explanation.
///
/// # Errors
/// Where no suite has the case on this device.
pub fn run(args: &ExplainArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let catalogue = plan::catalogue(global)?;
    let choice = Choice { device: args.device.clone(), ranks: args.ranks };
    let name = choice.device()?;
    let device = user_kernels::open(&name, &args.kernel)?;
    let peers = choice.peers(device.as_ref())?;
    let rank = Rank { device: device.as_ref(), peers: peers.as_ref() };
    let usual = plan::default_suite(&name);
    let suites = suites(args, &catalogue, usual)?;
    let plans: Vec<Vec<Case>> = suites.iter().map(|suite| bench::cases(suite, rank)).collect();
    let case = found(&args.case, &plans)
        .map_err(|error| with_ranks(error, args))
        .map_err(|error| with_kernel(error, args, &plans))?;
    let user = device.user_files().iter().find(|file| file.has(&case.kernel));

    let properties = device.properties();
    let yardstick = catalogue.yardstick(properties);
    let clock = device.observe_clock()?.or(properties.clock);
    let (cache, _) = bench::planned_cache(&case, properties);
    let conditions = yardstick.conditions(clock, cache == Cache::Hot);
    let limits = spec::lights(&case.point, properties, yardstick.part.as_ref(), &conditions);
    let floor = spec::floor(&case.point, properties, yardstick.most.as_ref(), &conditions);
    let having = || suites.iter().zip(&plans).filter(|(_, plan)| plan.contains(&case));
    let (mut kernels, mut time) = (Vec::new(), Seconds(0.0));
    if let Some((suite, plan)) = having().next() {
        let same = plan.iter().filter(|one| one.point == case.point);
        kernels.extend(same.map(|one| one.kernel.0.clone()));
        let part = yardstick.part.as_ref();
        // Of the whole plan, as `list` has it: kernels of one product share what they prepare.
        let times = estimate::all(plan, properties, part, &suite.measure);
        let place = plan.iter().position(|one| *one == case);
        time = place.and_then(|at| times.get(at).copied()).unwrap_or_default();
    }
    let names: Vec<String> = having().map(|(suite, _)| suite.name.clone()).collect();
    let suite = args.suite.clone().or_else(|| names.first().cloned()).unwrap_or_default();
    let ranks = args.ranks.map(|ranks| format!(" --ranks {ranks}")).unwrap_or_default();
    let file = user.map(|file| format!(" --kernel {}", for_shells(&file.told.path)));
    let file = file.unwrap_or_default();
    let part_and_dtype = yardstick.part.as_ref().zip(case.point.dtype());
    let lacking_kernels =
        part_and_dtype.map_or_else(Vec::new, |(part, dtype)| part.lacking_kernels(Some(dtype)));
    let explained = explain::Explained {
        case: &case,
        is_host: choice::is_host(&name),
        limits: &limits,
        tier: spec::tier_of_share(&limits, &case.point, properties, conditions.hot),
        cache,
        floor,
        lacking_kernels: &lacking_kernels,
        sources: yardstick.part.as_ref().map_or(&[][..], |part| &part.source_titles),
        kernels: &kernels,
        user: user.map(|file| [file.told.path.clone(), file.section_path()]),
        suites: &names,
        needs: format!(
            "{} of memory and about {}",
            bench::memory_needed(&case, properties),
            time.human()
        ),
        command: format!("fizeau run '{case}' --suite {suite} --device {name}{ranks}{file}"),
    };
    let mut document = explain::document(&explained);
    if properties.is_stub() {
        document = without_numbers(document);
    }
    let format = match global.json {
        true => document::ReportFormat::Json,
        false => document::ReportFormat::Terminal,
    };
    print(document::render(&document, format, document::window(global))?.trim_end())
}

/// The suites to look in: the one that a plain run takes first.
fn suites(args: &ExplainArgs, catalogue: &Catalogue, usual: &str) -> anyhow::Result<Vec<Suite>> {
    let read = |name: &str| catalogue.suite(name).map(|(suite, _)| suite);
    let found: Result<Vec<Suite>, _> = match &args.suite {
        Some(name) => read(name).map(|suite| vec![suite]),
        None => {
            let mut names: Vec<&str> = catalogue.suite_names().collect();
            names.sort_by_key(|name| *name != usual);
            names.into_iter().map(read).collect()
        }
    };
    found.map_err(|error| Usage(error.to_string()).into())
}

/// An error with the remedy for the id of a collective, whose ranks are part of its name: cases are
/// planned for as many ranks as the machine has cores where nothing else is asked for.
fn with_ranks(error: anyhow::Error, args: &ExplainArgs) -> anyhow::Error {
    let ranks = args.case.split('/').filter_map(|part| part.strip_suffix('r'));
    let ranks = ranks.filter_map(|number| number.parse::<u32>().ok()).next_back();
    match ranks.filter(|ranks| args.ranks != Some(*ranks)) {
        Some(ranks) => {
            Usage(format!("{error}; a case of {ranks} ranks: add --ranks {ranks}")).into()
        }
        None => error,
    }
}

/// An error with the remedy for a kernel that is not known, of a point that is: it may be the
/// user's.
fn with_kernel(error: anyhow::Error, args: &ExplainArgs, plans: &[Vec<Case>]) -> anyhow::Error {
    let point = args.case.rsplit_once('/').map(|(point, _)| format!("{point}/"));
    let mut all = plans.iter().flatten();
    match point {
        Some(point) if all.any(|case| case.to_string().starts_with(&point)) => {
            Usage(format!("{error}; a case of a kernel of your own: add --kernel FILE")).into()
        }
        _ => error,
    }
}

/// The case of an id, or the only one that a glob selects.
fn found(wanted: &str, plans: &[Vec<Case>]) -> anyhow::Result<Case> {
    let all = || plans.iter().flatten();
    if let Some(case) = all().find(|case| case.to_string() == wanted) {
        return Ok(case.clone());
    }
    let usage = |why: String| anyhow::Error::from(Usage(why));
    let selector =
        Selector::parse(&[wanted.to_owned()]).map_err(|error| usage(error.to_string()))?;
    let mut ids: Vec<String> = all().map(Case::to_string).collect();
    ids.sort();
    ids.dedup();
    selector.all_select(&ids).map_err(|error| usage(error.to_string()))?;
    let selected: Vec<&String> = ids.iter().filter(|id| selector.selects(id)).collect();
    match selected.as_slice() {
        [one] => {
            let case = all().find(|case| case.to_string() == **one);
            case.cloned().ok_or_else(|| usage(format!("no suite plans {one}")))
        }
        several => {
            let first: Vec<&str> = several.iter().take(3).map(|id| id.as_str()).collect();
            let more = if several.len() > first.len() { ", ..." } else { "" };
            Err(usage(format!(
                "explain takes one case, and {wanted:?} selects {}: {}{more}",
                several.len(),
                first.join(", ")
            )))
        }
    }
}
