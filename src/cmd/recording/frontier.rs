//! `fizeau run --suite power-frontier`: the same cases at a ladder of power limits and clocks.
//!
//! Each rung is a process that measures and leaves a record, as `fizeau run` does. Limits are set
//! with `--set-limits` alone, by a [keeper](Keeper) that puts them back however this process ends.

use super::args::RunArgs;
use crate::{
    cmd::{
        child::Measuring,
        disk,
        document::{self, ReportFormat},
        exit::{self, Interrupted, Usage},
        global::Global,
        keeper::Keeper,
        output::{self, say, shown},
        plan,
        records::{
            self,
            frontier::{self, Frontier, Kept, VERSION},
        },
        signals,
    },
    session::tuner,
    world::Choice,
};
use anyhow::bail;
use fizeau_device::{
    clock,
    limits::{Adjustable, Limit, Range},
};
use fizeau_domain::{
    suite::{PowerLadder, Suite},
    units::{Megahertz, Watts},
};
use fizeau_record::store;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::AtomicBool,
};

/// The name of the first and last rung, at which nothing was set.
const AS_IS: &str = "as it is set";

/// Plants a panic between two rungs in a test build, to prove that limits are put back.
const PLANT: &str = "frontier=panic";

/// The suite of a command line, where it has a ladder.
///
/// # Errors
/// Where `--set-limits` is given and the suite has none.
pub fn asked_for(args: &RunArgs, global: &Global) -> anyhow::Result<Option<Suite>> {
    if args.one_rung || args.resume.is_some() {
        return Ok(None);
    }
    let suite = match &args.plan.suite {
        // What is wrong with it, those say who measure it.
        Some(name) => plan::catalogue(global)?.suite(name).ok().map(|(suite, _)| suite),
        None => None,
    };
    let with_ladder = suite.filter(|suite| suite.power.is_some());
    if with_ladder.is_none() && args.set_limits {
        let why = "--set-limits is for suites with a ladder of limits: --suite power-frontier";
        return Err(Usage(why.into()).into());
    }
    Ok(with_ladder)
}

/// Measures a frontier.
///
/// # Errors
/// Where it cannot be measured, or a limit could not be put back.
pub fn run(args: &RunArgs, global: &Global, suite: &Suite) -> anyhow::Result<ExitCode> {
    let interrupted = signals::watch()?;
    if args.plan.ranks.is_some() || args.plan.choice().several()?.is_some() {
        let why = "a ladder of limits is measured on one device at a time, without ranks";
        return Err(Usage(why.into()).into());
    }
    if args.set_limits && !rustix::process::geteuid().is_root() {
        bail!("--set-limits needs root: only root may set limits of power and clock");
    }
    let device = Choice { device: args.plan.device.clone(), ranks: None }.device()?;
    let directory = match &args.out {
        Some(directory) => directory.clone(),
        None => disk::new_directory(&clock::utc_now(), &suite.name),
    };
    if directory.join(frontier::FILE).exists() || directory.join(store::FILE).exists() {
        let why = format!("{} has a record already: choose another --out", shown(&directory));
        return Err(Usage(why).into());
    }
    disk::make_directory(&directory, "--out DIR")?;
    let mut climb = Climb {
        args,
        global,
        device: &device,
        directory: &directory,
        interrupted: &interrupted,
        kept: Frontier {
            fizeau_frontier: VERSION,
            rungs: Vec::new(),
            notes: Vec::new(),
            restored: None,
        },
    };
    let ladder = suite.power.clone().unwrap_or(PowerLadder { caps: vec![], clocks: vec![] });
    let ended = climb.all(&ladder);
    climb.keep()?;
    let was_restored = climb.kept.restored;
    match ended {
        Err(error) if !error.is::<Interrupted>() || climb.kept.rungs.is_empty() => {
            return Err(error);
        }
        Err(_) => {
            print(&directory, global)?;
            return Ok(ExitCode::from(exit::INTERRUPTED));
        }
        Ok(()) => print(&directory, global)?,
    }
    if was_restored == Some(false) {
        return Ok(ExitCode::from(exit::COULD_NOT_RUN));
    }
    let (rungs, _) = frontier::read(&directory)?;
    let broken = rungs.iter().any(|rung| records::has_broken(&rung.record));
    Ok(ExitCode::from(if broken { exit::FAILED } else { 0 }))
}

/// Writes the report of a frontier and prints it.
fn print(directory: &Path, global: &Global) -> anyhow::Result<()> {
    let document = frontier::document(directory)?;
    let written = document::write_document(directory, &document)?;
    let format = if global.json { ReportFormat::Json } else { ReportFormat::Terminal };
    let mut text = document::render(&document, format, document::window(global))?;
    if !global.json {
        let line = |path: &PathBuf| format!("report: {}\n", shown(path));
        text += &format!("\n{}", written.iter().map(line).collect::<String>());
    }
    output::write_out(&text)
}

/// A frontier while it is measured.
struct Climb<'c> {
    args: &'c RunArgs,
    global: &'c Global,
    device: &'c str,
    directory: &'c Path,
    interrupted: &'c AtomicBool,
    kept: Frontier,
}

impl Climb<'_> {
    /// Every rung. However it ends, what was set is put back before this returns.
    fn all(&mut self, ladder: &PowerLadder) -> anyhow::Result<()> {
        self.rung(AS_IS, None)?;
        if !self.args.set_limits {
            self.kept.notes.push(
                "no limit was set: with --set-limits, as root, the same cases are measured at a \
                 ladder of power limits and clocks, and what was set is put back"
                    .into(),
            );
            return Ok(());
        }
        let mut keeper = match Keeper::start(self.device, &self.args.root) {
            Ok(keeper) => keeper,
            Err(error) => {
                self.kept.notes.push(format!("no limit was set: {error:#}"));
                return Ok(());
            }
        };
        let limits = self.limits(ladder, &keeper.adjustable);
        let climbed = self.climb(&mut keeper, &limits);
        let restored = keeper.restore();
        if !limits.is_empty() {
            self.kept.restored = Some(restored.is_ok());
        }
        if let Err(error) = &restored {
            let why = format!("LIMITS COULD NOT BE PUT BACK: {error:#}");
            say(&why);
            self.kept.notes.push(why);
        }
        climbed?;
        if limits.is_empty() {
            return Ok(());
        }
        // What changed meanwhile by itself, such as temperature, shows as its distance from the
        // first rung.
        self.rung(&format!("{AS_IS}, again"), None)
    }

    fn climb(&mut self, keeper: &mut Keeper, limits: &[Limit]) -> anyhow::Result<()> {
        let before = keeper.adjustable.power.as_ref().map(|range| range.now).ok();
        let mut is_power_set = false;
        for limit in limits {
            // Clocks are measured at the power limit that was there.
            if let (Limit::Clock(_), true, Some(watts)) = (limit, is_power_set, before) {
                keeper.set(Limit::Power(Watts(watts)))?;
                is_power_set = false;
            }
            if let Err(error) = keeper.set(*limit) {
                self.kept.notes.push(format!("{limit} was refused and is left out: {error:#}"));
                continue;
            }
            is_power_set |= matches!(limit, Limit::Power(_));
            if fizeau_domain::CAN_PLANT && std::env::var("FIZEAU_PLANT").is_ok_and(|of| of == PLANT)
            {
                panic!("planted between two rungs");
            }
            self.rung(&limit.to_string(), Some(*limit))?;
        }
        Ok(())
    }

    /// The limits of a ladder that the device can have, highest first, each once.
    fn limits(&mut self, ladder: &PowerLadder, adjustable: &Adjustable) -> Vec<Limit> {
        let mut limits = Vec::new();
        let of = |shares: &[f64], range: &Range, of: fn(f64) -> Limit| -> Vec<Limit> {
            let mut values: Vec<f64> =
                shares.iter().map(|share| (share * range.default).round()).collect();
            values.retain(|value| (range.least..=range.most).contains(value));
            values.sort_by(|a, b| b.total_cmp(a));
            values.dedup();
            values.into_iter().map(of).collect()
        };
        if !ladder.caps.is_empty() {
            match &adjustable.power {
                Ok(range) => {
                    limits.extend(of(&ladder.caps, range, |watts| Limit::Power(Watts(watts))))
                }
                Err(why) => self.kept.notes.push(format!("no power limit was set: {why}")),
            }
        }
        if !ladder.clocks.is_empty() {
            match &adjustable.clock {
                Ok(range) => {
                    limits
                        .extend(of(&ladder.clocks, range, |clock| Limit::Clock(Megahertz(clock))));
                }
                Err(why) => self.kept.notes.push(format!("no clock was set: {why}")),
            }
        }
        limits
    }

    fn rung(&mut self, setting: &str, limit: Option<Limit>) -> anyhow::Result<()> {
        let number = self.kept.rungs.len();
        say(&format!("{}: {setting}", self.device));
        let word = match limit {
            None => "as-is".into(),
            Some(Limit::Power(watts)) => format!("{:.0}W", watts.0),
            Some(Limit::Clock(clock)) => format!("{:.0}MHz", clock.0),
        };
        let name = format!("step-{number:02}-{word}");
        let suite = self.args.plan.suite.clone().unwrap_or_default();
        let choices = self.choices()?;
        let choices = choices.as_deref().and_then(Path::to_str);
        let more: Vec<&str> = match choices {
            Some(path) => vec!["--one-rung", "--choices", path],
            None => vec!["--one-rung"],
        };
        let measuring = Measuring {
            suite: &suite,
            device: self.device,
            ranks: None,
            cases: &self.args.plan.selectors,
            label: Some(setting),
            no_host_name: self.args.no_host_name,
            kernels: &[],
            more: &more,
        };
        measuring.measure_into(&self.directory.join(&name), self.global, self.interrupted)?;
        let setting = setting.to_owned();
        self.kept.rungs.push(Kept { directory: name, setting, limit });
        self.keep()
    }

    /// Whose choices tuned kernels take: those of the first rung, so that all rungs run the same
    /// kernels; those of `--choices`, where it is given.
    fn choices(&self) -> anyhow::Result<Option<PathBuf>> {
        if self.args.choices.is_some() {
            return Ok(self.args.choices.clone());
        }
        let Some(first) = self.kept.rungs.first() else { return Ok(None) };
        let first = self.directory.join(&first.directory);
        let has_some = !tuner::choices_of(&store::read(&first)?).is_empty();
        Ok(has_some.then_some(first))
    }

    fn keep(&self) -> anyhow::Result<()> {
        let text = fizeau_domain::text::escaped(serde_json::to_string_pretty(&self.kept)? + "\n");
        disk::write_file(&self.directory.join(frontier::FILE), text.as_bytes(), "--out DIR")
    }
}
