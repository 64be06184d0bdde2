//! `fizeau profile`: profiles for `fizeau accept`.

use super::{disk, exit::Usage, global::Global, output, plan, profiles};
use crate::data::Catalogue;
use clap::{Args, Subcommand};
use fizeau_domain::{
    text::{clean, counted},
    verdict::Verdict,
};
use fizeau_judge::accept::{
    learn::{self, LearnError, Run},
    profile::Profile,
};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Arguments of `profile`.
#[derive(Args, Clone, Debug)]
pub struct ProfileArgs {
    /// What to do.
    #[command(subcommand)]
    pub what: What,
}

/// What to do with profiles.
#[derive(Subcommand, Clone, Debug)]
pub enum What {
    /// Learn a profile from at least three runs of good machines, better five on each of three
    /// nodes
    Learn(LearnArgs),
    /// Print a built-in profile, or the names of all
    Show {
        /// Its name
        name: Option<String>,
    },
}

/// Arguments of `profile learn`.
#[derive(Args, Clone, Debug)]
pub struct LearnArgs {
    /// Records, or directories of earlier acceptances: each is a run
    #[arg(value_name = "RECORD", required = true)]
    pub records: Vec<PathBuf>,
    /// The profile whose checks are learnt for [default: that of any host, or of any GPU]
    #[arg(long, value_name = "NAME|FILE")]
    pub base: Option<String>,
    /// The device to learn for, where the runs have several kinds: host, cuda, hip
    #[arg(long, value_name = "BACKEND")]
    pub device: Option<String>,
    /// Learn from machines that differ in what identifies their figures
    #[arg(long)]
    pub across: bool,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Learns or prints.
///
/// # Errors
/// Where a record or profile cannot be read, or the runs are too few or too different.
pub fn run(args: &ProfileArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let catalogue = plan::catalogue(global)?;
    match &args.what {
        What::Show { name: None } => {
            output::print(&catalogue.profiles().collect::<Vec<_>>().join("\n"))
        }
        What::Show { name: Some(name) } => {
            let text = catalogue.profile(name).map_err(|error| Usage(error.to_string()))?;
            output::print(text.trim_end())
        }
        What::Learn(args) => learn(args, &catalogue),
    }
}

fn learn(args: &LearnArgs, catalogue: &Catalogue) -> anyhow::Result<ExitCode> {
    let mut runs = profiles::runs(&args.records)?;
    let backend = |run: &Run| run.records[0].header.device.backend.clone();
    if let Some(wanted) = &args.device {
        runs.retain(|run| &backend(run) == wanted);
    } else if runs.iter().any(|run| backend(run) != backend(&runs[0])) {
        let words = "the runs have several kinds of devices: choose one by --device host or cuda";
        return Err(Usage(words.into()).into());
    }
    let Some(first) = runs.first() else { return Err(LearnError::TooFew(0).into()) };
    let base = match &args.base {
        Some(name) => profiles::read(catalogue, name)?,
        None => profiles::derived(catalogue, &first.records[0].header.device)?,
    };
    let name = args.out.as_deref().and_then(Path::file_stem).map_or_else(
        || format!("learnt-{}", base.name),
        |stem| stem.to_string_lossy().into_owned(),
    );
    let mut learnt =
        learn::learn(&name, &runs, &base, args.across).map_err(|error| Usage(error.to_string()))?;
    let folder = args.out.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    move_to(&mut learnt.profile, folder);
    learnt.warnings.iter().for_each(|words| output::say(words));
    let text = learnt.profile.text().map_err(anyhow::Error::msg)?;
    match &args.out {
        Some(path) => {
            disk::write_file(path, text.as_bytes(), "--out FILE")?;
            output::print(&format!(
                "{}: {} from {}; {} of the metrics may fail a device{}",
                output::shown(path),
                counted(learnt.profile.references.len(), "metric"),
                counted(runs.len(), "run"),
                learnt.may_fail,
                if learnt.profile.key.as_ref().is_some_and(|key| key.stub) {
                    " (stub)"
                } else {
                    ""
                }
            ))?;
        }
        None => {
            output::print(&clean_toml(&text))?;
        }
    }
    if learnt.is_useless() {
        output::say(
            "this profile is useless: no metric of it may fail a device, so that accept could fail \
             nothing by it; the lines above say why. Measure again while nothing else runs, five \
             times on each machine",
        );
        return Ok(ExitCode::from(Verdict::Inconclusive.exit_code()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Strings of a profile come from records, whose drivers may have said anything.
fn clean_toml(text: &str) -> String {
    text.lines().map(clean).collect::<Vec<_>>().join("\n")
}

/// Names the files of a profile's suites from another folder: relative to it where they lie in or
/// below it, else by their absolute paths.
fn move_to(profile: &mut Profile, folder: &Path) {
    let from = std::mem::replace(&mut profile.folder, folder.to_owned());
    let of_checks = profile.checks.iter_mut().filter_map(|check| check.suite.as_mut());
    for suite in of_checks.chain([&mut profile.suite]).filter(|suite| suite.ends_with(".toml")) {
        let path = from.join(&suite);
        let named = match path.strip_prefix(folder) {
            Ok(below) => below.to_owned(),
            Err(_) => std::path::absolute(&path).unwrap_or(path),
        };
        *suite = named.to_string_lossy().into_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_learnt_profile_finds_its_suites_from_its_own_folder() {
        let text = "name = \"own\"\ndescription = \"\"\nkind = \"derived\"\nsuite = \"own.toml\"\n\
                    [[check]]\nname = \"a\"\ncases = [\"stream/*\"]\nresource = \"memory\"\n\
                    least_effect = 0.02\nsuite = \"../long.toml\"\n";
        let base = Profile::parse(text).expect("a profile");
        let base = Profile { folder: "site/a".into(), ..base };
        let suites = |folder: &str| {
            let mut profile = base.clone();
            move_to(&mut profile, Path::new(folder));
            assert_eq!(profile.folder, Path::new(folder));
            [Some(profile.suite), profile.checks[0].suite.clone()].map(Option::unwrap_or_default)
        };
        assert_eq!(suites("site/a"), ["own.toml", "../long.toml"]);
        assert_eq!(suites(""), ["site/a/own.toml", "site/a/../long.toml"]);
        let [own, _] = suites("other");
        assert!(Path::new(&own).is_absolute() && own.ends_with("site/a/own.toml"), "{own}");
    }
}
