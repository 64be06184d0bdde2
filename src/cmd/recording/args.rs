//! Arguments of `fizeau run`, and the command line that a record keeps of them: what chooses cases
//! and device. It is put together from the arguments that were understood, so that nothing else of
//! it can come into a record.

use crate::{
    cmd::{exit::Usage, global::Global, output::shown, plan::PlanArgs, user_kernels::InChild},
    session::tuner::{self, Choices},
};
use clap::{
    Args,
    builder::{PathBufValueParser, TypedValueParser as _},
};
use fizeau_record::store;
use std::path::{Path, PathBuf};

/// Arguments of `run`.
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    /// What to measure.
    #[command(flatten)]
    pub plan: PlanArgs,
    /// Where the record and the reports go [default: results/local/TIME-SUITE]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Continue the run in this directory, which was killed or interrupted
    #[arg(
        long,
        value_name = "DIR",
        value_parser = PathBufValueParser::new().try_map(directory_of_record),
        conflicts_with_all = ["out", "selectors", "ranks", "label", "kernel"]
    )]
    pub resume: Option<PathBuf>,
    /// Let tuned kernels take what they took in this record, without trying their candidates
    #[arg(long, value_name = "DIR|FILE")]
    pub choices: Option<PathBuf>,
    /// A note on this run, kept in the record
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,
    /// Leave the host's name and the UUID of a GPU out of the record
    #[arg(long)]
    pub no_host_name: bool,
    /// Print the full tables at the end, and not only the summary
    #[arg(long)]
    pub full: bool,
    /// Set the power limits and clocks of a suite's ladder (power-frontier), as root. The earlier
    /// settings are restored, also if this process is killed
    #[arg(long, conflicts_with = "resume")]
    pub set_limits: bool,
    /// For the process that measures one rung of a ladder.
    #[arg(long, hide = true)]
    pub one_rung: bool,
    /// Files of the kernel with limits and NUMA nodes are below this directory: for tests
    #[arg(long, hide = true, default_value = "/", value_name = "DIR")]
    pub root: PathBuf,
    /// For the process that `--device all` starts for each GPU: the other GPUs.
    #[arg(long, hide = true, value_delimiter = ',', num_args = 0.., require_equals = true)]
    pub side_by_side: Option<Vec<String>>,
    /// For the process that runs the code of a user's kernels.
    #[arg(long, hide = true, value_enum, value_name = "WHAT")]
    pub in_child: Option<InChild>,
}

impl RunArgs {
    /// What tuned kernels took in the record that `--choices` names; nothing without it.
    ///
    /// # Errors
    /// Where the record cannot be read, or has no choice.
    pub fn choices(&self) -> anyhow::Result<Choices> {
        let Some(path) = &self.choices else { return Ok(Choices::new()) };
        let choices = tuner::choices_of(&store::read(path)?);
        if choices.is_empty() {
            let path = shown(path);
            return Err(Usage(format!(
                "--choices {path}: none of its cases tried candidates, so that it has no choice \
                 to give"
            ))
            .into());
        }
        Ok(choices)
    }

    /// The words that make `fizeau run` do the same again. Folders are left out but for the names
    /// of files that say what is measured: the folders in which users keep them are private.
    pub fn command(&self, global: &Global) -> Vec<String> {
        // All are named, so that a new one does not compile until it is decided about.
        let RunArgs {
            plan,
            out: _,
            resume,
            choices,
            label,
            no_host_name,
            full: _,
            set_limits: _,
            one_rung: _,
            root: _,
            side_by_side: _,
            in_child: _,
        } = self;
        let PlanArgs { selectors, suite, ranks, kernel, device } = plan;
        let Global { data, json: _, color: _, progress: _ } = global;
        let mut words = vec!["fizeau".to_owned(), "run".to_owned()];
        words.extend(selectors.iter().cloned());
        let mut option = |name: &str, value: Option<String>| {
            words.extend(value.map(|value| [name.to_owned(), value]).into_iter().flatten());
        };
        option("--suite", suite.as_deref().map(file_name));
        option("--ranks", ranks.map(|ranks| ranks.to_string()));
        for path in kernel {
            option("--kernel", Some(file_name(&path.to_string_lossy())));
        }
        option("--device", device.clone());
        option("--choices", choices.as_ref().map(|path| file_name(&path.to_string_lossy())));
        option("--label", label.clone());
        option("--data", data.as_ref().map(|_| "DIR".to_owned()));
        option("--resume", resume.as_ref().map(|_| "DIR".to_owned()));
        if *no_host_name {
            words.push("--no-host-name".into());
        }
        words
    }
}

/// The directory of a run that is named by it or by the record in it. What is not there stays as it
/// is given, for whoever opens it to say so.
fn directory_of_record(path: PathBuf) -> Result<PathBuf, &'static str> {
    if !path.is_file() {
        return Ok(path);
    }
    match (path.file_name(), path.parent()) {
        (Some(name), Some(directory)) if name == store::FILE => {
            let is_here = directory.as_os_str().is_empty();
            Ok(if is_here { ".".into() } else { directory.to_owned() })
        }
        _ => Err("it is a file; name the directory of the run, which holds its record.jsonl"),
    }
}

/// The last part of a path; a name stays what it is.
fn file_name(path: &str) -> String {
    let name = Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use crate::cmd::{Cli, Verb};
    use clap::Parser as _;

    #[test]
    fn words_say_what_is_measured_and_not_where_it_is_kept() {
        let told = |line: &[&str]| {
            let cli = Cli::try_parse_from(["fizeau", "run"].iter().chain(line)).expect("a line");
            let Some(Verb::Run(args)) = &cli.verb else { panic!("no run") };
            args.command(&cli.global).join(" ")
        };
        assert_eq!(told(&[]), "fizeau run");
        let line = ["gemm/*", "!*/f64/*", "--suite", "/somewhere/own.toml", "--device", "cuda:1"];
        assert_eq!(told(&line), "fizeau run gemm/* !*/f64/* --suite own.toml --device cuda:1");
        let line =
            ["--out", "/somewhere/out", "--data", "/somewhere/data", "--label", "a b", "--json"];
        assert_eq!(told(&line), "fizeau run --label a b --data DIR");
        let line = ["--kernel", "/somewhere/mine.so"];
        assert_eq!(told(&line), "fizeau run --kernel mine.so");
        let line = ["--choices", "/somewhere/earlier"];
        assert_eq!(told(&line), "fizeau run --choices earlier");
        assert_eq!(told(&["--resume", "/somewhere/out"]), "fizeau run --resume DIR");
    }
}
