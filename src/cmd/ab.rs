//! `fizeau ab`: two settings of one machine in fresh pairs.
//!
//! Each measurement is a process of its own, which runs `fizeau run` of the program that is asked
//! for and leaves a record: new pages, new contexts, and any version of the program that writes
//! records which this one reads.

mod children;
mod forecast;

use self::{
    children::{Children, Paired, Sides},
    forecast::Forecast,
};
use super::{
    disk,
    document::{self, ReportFormat},
    exit::{self, Usage},
    global::Global,
    output,
    share::Share,
    signals, tied,
    time::Time,
};
use anyhow::{Context as _, bail};
use clap::Args;
use fizeau_device::{clock, user::UserFile};
use fizeau_domain::{
    text::{agreed, counted},
    units::Seconds,
};
use fizeau_judge::ab::{self, ERROR_RATE, LEAST_EFFECT, Settings};
use fizeau_report::{about, without_numbers};
use serde::Deserialize;
use std::{
    collections::HashMap,
    hash::{BuildHasher, Hasher},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::atomic::Ordering,
};

/// Arguments of `ab`.
#[derive(Args, Clone, Debug)]
pub struct AbArgs {
    /// Cases to select: the beginning of their ids (stream), or a glob ('gemm/bf16/*'). '!' before
    /// a selector excludes what it selects [default: all]
    #[arg(value_name = "SELECTOR")]
    pub selectors: Vec<String>,
    /// A built-in suite, as `fizeau suites` lists them, or a TOML file [default: that of `run`]
    #[arg(long, value_name = "NAME|FILE")]
    pub suite: Option<String>,
    /// Program B; given twice, programs A and B [default: this one]
    #[arg(long, value_name = "PATH")]
    pub program: Vec<PathBuf>,
    /// A device for both; given twice, the devices of A and B
    #[arg(long, value_name = "NAME")]
    pub device: Vec<String>,
    /// Given twice: the kernels of A and B, each by its name, or by the file of a kernel of yours
    /// (docs/your-kernel.md). Points that both kernels have are compared
    #[arg(long, value_name = "NAME|FILE")]
    pub kernel: Vec<String>,
    /// Side B: the other kernel, program or device, where A is given by --kernel, --program or
    /// --device
    #[arg(long, value_name = "B")]
    pub vs: Option<String>,
    /// Set an environment variable for A; repeat it for more
    #[arg(long, alias = "a-env", value_name = "NAME=VALUE")]
    pub env_a: Vec<Variable>,
    /// Set an environment variable for B; repeat it for more
    #[arg(long, alias = "b-env", value_name = "NAME=VALUE")]
    pub env_b: Vec<Variable>,
    /// The least change that counts: a share (0.02) or a percentage (2%)
    #[arg(long, value_name = "SHARE", default_value_t = Share(LEAST_EFFECT))]
    pub least_effect: Share,
    /// Probability of one or more false positives over all cases: a share or a percentage
    #[arg(long, value_name = "SHARE", default_value_t = Share(ERROR_RATE))]
    pub error_rate: Share,
    /// How long it may take: 90s, 10min, 1h. The measurement in flight is finished; what is not
    /// decided then is unclear [default: until every candidate is decided or has 15 pairs]
    #[arg(long, value_name = "TIME")]
    pub budget: Option<Time>,
    /// Seed for the order of measurements [default: random]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Where the records of all measurements go [default: results/local/TIME-ab]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Output format [default: terminal, or json with --json]
    #[arg(long, value_parser = document::document_format())]
    pub format: Option<ReportFormat>,
}

/// What to add to a command line that gives no second side.
const NO_SECOND_SIDE: &str = "A is this program, and B is not given. Name what differs: --program, \
                              --kernel or --device of A and --vs with that of B, or --env-a or \
                              --env-b NAME=VALUE; --program PATH alone is B. To compare a \
                              side with itself, give it twice";

impl AbArgs {
    /// The same with the value of --vs as the second of the option that is given once.
    fn with_second_side(&self) -> Result<AbArgs, Usage> {
        let mut args = self.clone();
        let Some(other) = args.vs.take() else { return Ok(args) };
        if args.kernel.len() == 1 {
            args.kernel.push(other);
        } else if args.program.len() == 1 {
            args.program.push(other.into());
        } else if args.device.len() == 1 {
            args.device.push(other);
        } else {
            let why = "--vs is B of --kernel, --program or --device, which is given once, for A";
            return Err(Usage(why.into()));
        }
        Ok(args)
    }

    /// Whether the command line says what A and B are.
    fn has_two_sides(&self) -> bool {
        let is_twice = [self.device.len(), self.kernel.len()].iter().any(|count| *count > 1);
        let has_variables = !(self.env_a.is_empty() && self.env_b.is_empty());
        is_twice || has_variables || !self.program.is_empty() || !self.kernel.is_empty()
    }
}

/// An environment variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    name: String,
    value: String,
}

impl std::str::FromStr for Variable {
    type Err = String;
    fn from_str(text: &str) -> Result<Variable, String> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                Ok(Variable { name: name.into(), value: value.into() })
            }
            _ => Err("write NAME=VALUE".into()),
        }
    }
}

/// Measures and judges. The exit code is the verdict's: 1 where a case is slower or broken.
///
/// # Errors
/// Where a side cannot be measured, or the result cannot be written.
pub fn run(args: &AbArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let is_share = |share: f64| share > 0.0 && share < 1.0;
    if !is_share(args.least_effect.0) || !is_share(args.error_rate.0) {
        let words = "--least-effect and --error-rate are between 0 and 1; write 0.02 for 2 %";
        return Err(Usage(words.into()).into());
    }
    let args = &args.with_second_side()?;
    if !args.has_two_sides() {
        return Err(Usage(NO_SECOND_SIDE.into()).into());
    }
    let directory = match &args.out {
        Some(directory) => directory.clone(),
        None => Path::new(disk::LOCAL).join(format!("{}-ab", clock::utc_now().replace(':', ""))),
    };
    disk::make_directory(&directory, "--out DIR")?;
    let sides = sides(args, global)?;
    let interrupted = signals::watch_and_say(STOPPING)?;
    let begun = clock::now();
    let [a, b] = [&sides[0], &sides[1]].map(|side| side.planned(args));
    // Both sides started once, without a measurement.
    let start = Seconds(begun.elapsed().0 / 2.0);
    let (cases, mut warnings) = pair_up(&a?, &b?, &sides)?;
    if sides[0] == sides[1] {
        warnings.push("A and B are the same: whatever is found is a wrong finding".into());
    }
    let seed = args.seed.unwrap_or_else(|| {
        std::collections::hash_map::RandomState::new().build_hasher().finish() >> 32
    });
    let settings =
        Settings { least_effect: args.least_effect.0, error_rate: args.error_rate.0, seed };
    let names: Vec<String> = cases.iter().map(|case| case.name.clone()).collect();
    let forecast = Forecast::new(cases.iter().map(|case| case.estimated).collect(), start);
    global.tell(&forecast.of_all(args.budget.map(|budget| budget.0)));
    let measured_by = Sides { settings: &sides, args };
    let mut children = Children::new(measured_by, global, cases, directory, forecast, &interrupted);
    let trial = ab::run(&names, settings, &mut children)?;
    let words = [0, 1].map(|at| sides[at].words());
    let mut document = fizeau_report::trial(&trial, &words, &warnings);
    if children.is_stub() {
        document = without_numbers(document);
    }
    let default = if global.json { ReportFormat::Json } else { ReportFormat::Terminal };
    let format = args.format.unwrap_or(default);
    let about = about::of_trial(&trial);
    let mut text = document::render_about(&document, &about, format, document::window(global))?;
    let kept = children.kept();
    if format == ReportFormat::Terminal {
        text += &format!("\n{kept}\n");
    }
    output::write_out(&text)?;
    if interrupted.load(Ordering::Relaxed) {
        if format != ReportFormat::Terminal {
            output::say(&kept);
        }
        output::say(CANNOT_CONTINUE);
        return Ok(ExitCode::from(exit::INTERRUPTED));
    }
    Ok(ExitCode::from(trial.verdict().exit_code()))
}

/// What a first request to end is answered.
const STOPPING: &str = "stopping after the measurement in flight, with what is decided so far; ask \
                        again (Ctrl-C) to stop now";

/// What to do after an interruption.
const CANNOT_CONTINUE: &str = "interrupted: pairs count only where they are measured in one trial, \
                               so that it cannot be continued. Start it again, with --budget TIME \
                               to end it at a set time";

/// How one side is measured.
#[derive(Clone, Debug, PartialEq)]
struct Setting {
    program: PathBuf,
    device: Option<String>,
    data: Option<PathBuf>,
    variables: Vec<Variable>,
    kernel: Option<ChosenKernel>,
}

/// The kernel of one side.
#[derive(Clone, Debug, PartialEq)]
struct ChosenKernel {
    name: String,
    /// Of a kernel that the user brings.
    file: Option<PathBuf>,
}

impl ChosenKernel {
    /// By its name, or by the file of the user's kernel.
    fn of(given: &str) -> Result<ChosenKernel, Usage> {
        let path = Path::new(given);
        if path.extension().is_none() {
            return Ok(ChosenKernel { name: given.to_owned(), file: None });
        }
        let told = UserFile::read(path).map_err(Usage)?.told;
        let [name] = &told.names[..] else {
            return Err(Usage(format!(
                "--kernel {given} has kernels of several names ({}): a side of a comparison has \
                 one",
                told.names.join(", ")
            )));
        };
        Ok(ChosenKernel { name: name.clone(), file: Some(path.to_owned()) })
    }
}

/// The two sides that the command line asks for.
fn sides(args: &AbArgs, global: &Global) -> anyhow::Result<[Setting; 2]> {
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let usage = |words: &str| anyhow::Error::from(Usage(words.into()));
    let programs = match &args.program[..] {
        [] => [own.clone(), own],
        [b] => [own, b.clone()],
        [a, b] => [a.clone(), b.clone()],
        _ => return Err(usage("--program is given at most twice: for A and for B")),
    };
    let devices = match &args.device[..] {
        [] => [None, None],
        [both] => [Some(both.clone()), Some(both.clone())],
        [a, b] => [Some(a.clone()), Some(b.clone())],
        _ => return Err(usage("--device is given at most twice: for A and for B")),
    };
    if !matches!(args.kernel.len(), 0 | 2) {
        return Err(usage("--kernel is given twice: for A and for B"));
    }
    let chosen: Result<Vec<ChosenKernel>, Usage> =
        args.kernel.iter().map(|given| ChosenKernel::of(given)).collect();
    let mut chosen = chosen?.into_iter();
    let kernels = [chosen.next(), chosen.next()];
    let [a, b] = programs;
    let [kernel_of_a, kernel_of_b] = kernels;
    let [device_of_a, device_of_b] = devices;
    let data = global.data.clone();
    let variables = args.env_a.clone();
    Ok([
        Setting {
            program: a,
            device: device_of_a,
            data: data.clone(),
            variables,
            kernel: kernel_of_a,
        },
        Setting {
            program: b,
            device: device_of_b,
            data,
            variables: args.env_b.clone(),
            kernel: kernel_of_b,
        },
    ])
}

/// The part of `fizeau list --json` that counts here.
#[derive(Deserialize)]
struct Listing {
    cases: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    id: String,
    /// How long it takes once; programs of earlier versions do not say it.
    #[serde(default)]
    estimated_seconds: f64,
}

impl Setting {
    fn command(&self, verb: &str, args: &AbArgs) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(verb).stdin(Stdio::null()).env("FIZEAU_PROGRESS", "off");
        for (flag, value) in [("--suite", &args.suite), ("--device", &self.device)] {
            if let Some(value) = value {
                command.args([flag, value]);
            }
        }
        if let Some(data) = &self.data {
            command.arg("--data").arg(data);
        }
        if let Some(file) = self.kernel.as_ref().and_then(|kernel| kernel.file.as_ref()) {
            command.arg("--kernel").arg(file);
        }
        command.envs(self.variables.iter().map(|one| (&one.name, &one.value)));
        tied::end_with_this_thread(&mut command);
        command
    }

    /// The cases that this side plans.
    fn planned(&self, args: &AbArgs) -> anyhow::Result<Vec<Listed>> {
        let mut command = self.command("list", args);
        let program = self.program.display();
        let output = command.arg("--json").arg("--").args(&args.selectors).output();
        let output = output.with_context(|| format!("cannot start {program}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.trim();
            bail!("{program} list ended with {}: {said}", output.status);
        }
        let listing: Listing = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("{program} list --json is not what fizeau prints"))?;
        Ok(listing.cases)
    }

    fn words(&self) -> String {
        let mut words = vec![self.program.display().to_string()];
        words.extend(self.device.iter().map(|device| format!("on {device}")));
        words.extend(self.kernel.as_ref().map(|kernel| match &kernel.file {
            None => format!("kernel {}", kernel.name),
            Some(file) => format!("kernel {} of {}", kernel.name, file.display()),
        }));
        let variables = self.variables.iter().map(|one| format!("{}={}", one.name, one.value));
        words.extend(variables);
        words.join(", ")
    }
}

/// The cases that both sides plan, in the order of A, and in words what only one of them does.
fn pair_up(
    a: &[Listed],
    b: &[Listed],
    sides: &[Setting; 2],
) -> anyhow::Result<(Vec<Paired>, Vec<String>)> {
    let key = |id: &String, side: usize| -> Option<String> {
        match &sides[side].kernel {
            None => Some(id.clone()),
            Some(kernel) => {
                Some(id.strip_suffix(kernel.name.as_str())?.strip_suffix('/')?.to_owned())
            }
        }
    };
    let of_b: HashMap<String, &Listed> =
        b.iter().filter_map(|one| Some((key(&one.id, 1)?, one))).collect();
    let of_a: Vec<(String, &Listed)> =
        a.iter().filter_map(|one| Some((key(&one.id, 0)?, one))).collect();
    let paired: Vec<Paired> = of_a
        .iter()
        .filter_map(|(name, of_a)| {
            let of_b = of_b.get(name)?;
            let estimated = Seconds(of_a.estimated_seconds + of_b.estimated_seconds);
            let ids = [of_a.id.clone(), of_b.id.clone()];
            Some(Paired { name: name.clone(), ids, estimated })
        })
        .collect();
    if paired.is_empty() {
        bail!("A and B have no case in common: `fizeau list` shows what is planned");
    }
    let mut warnings = Vec::new();
    for (name, alone) in [("A", of_a.len() - paired.len()), ("B", of_b.len() - paired.len())] {
        if alone > 0 {
            let cases = counted(alone, "case");
            let are = agreed(alone, "is", "are");
            warnings.push(format!("{cases} that only {name} plans {are} left out"));
        }
    }
    Ok((paired, warnings))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    /// `ab` with these words after it.
    fn args(words: &str) -> Result<AbArgs, Usage> {
        #[derive(clap::Parser)]
        struct Only {
            #[command(flatten)]
            args: AbArgs,
        }
        let words = std::iter::once("ab").chain(words.split_whitespace());
        Only::try_parse_from(words).expect("parsed").args.with_second_side()
    }

    #[test]
    fn vs_is_the_second_of_what_is_given_once() {
        let kernels = args("--device host --kernel portable --vs avx2").expect("two kernels");
        assert_eq!(kernels.kernel, ["portable", "avx2"]);
        assert_eq!(kernels.device, ["host"], "one device for both");
        let programs = args("--program old --vs new --device host").expect("two programs");
        assert_eq!(programs.program, [PathBuf::from("old"), PathBuf::from("new")]);
        let devices = args("--device cuda:0 --vs cuda:1").expect("two devices");
        assert_eq!(devices.device, ["cuda:0", "cuda:1"]);
        assert!(args("--vs new").is_err() && args("--kernel a --kernel b --vs c").is_err());
    }
}
