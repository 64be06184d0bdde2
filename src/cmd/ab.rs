//! `fizeau ab`: two settings of one machine in fresh pairs.
//!
//! Each measurement is a process of its own, which runs `fizeau run` of the program that is asked
//! for and leaves a record: new pages, new contexts, and any version of the program that writes
//! records which this one reads.

mod forecast;

use self::forecast::SCREENINGS;
use super::{
    disk,
    document::{self, ReportFormat},
    exit::{Interrupted, Usage},
    global::Global,
    output,
    share::Share,
    tied,
};
use anyhow::{Context as _, bail};
use clap::Args;
use fizeau_device::{clock, user::UserFile};
use fizeau_domain::{
    outcome::Outcome,
    text::{agreed, counted},
    units::Seconds,
};
use fizeau_judge::{
    ab::{self, Arm, ERROR_RATE, Found, LEAST_EFFECT, Pairs, Settings},
    compare::Quantity,
};
use fizeau_record::store;
use fizeau_report::{about, without_numbers};
use serde::Deserialize;
use std::{
    collections::HashMap,
    fs,
    hash::{BuildHasher, Hasher},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
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
    let [a, b] = [&sides[0], &sides[1]].map(|side| side.planned(args));
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
    global.tell(&forecast::of_all(&estimates(&cases)));
    let mut children = Children {
        sides: &sides,
        args,
        global,
        cases,
        directory,
        made: 0,
        begun: clock::now(),
        late: 1.0,
        is_stub: false,
        quantities: HashMap::new(),
    };
    let trial = ab::run(&names, settings, &mut children)?;
    let words = [0, 1].map(|at| sides[at].words());
    let mut document = fizeau_report::trial(&trial, &words, &warnings);
    if children.is_stub {
        document = without_numbers(document);
    }
    let default = if global.json { ReportFormat::Json } else { ReportFormat::Terminal };
    let format = args.format.unwrap_or(default);
    let about = about::of_trial(&trial);
    let mut text = document::render_about(&document, &about, format, document::window(global))?;
    if format == ReportFormat::Terminal {
        text += &format!("\nrecords: {}\n", output::shown(&children.directory));
    }
    output::write_out(&text)?;
    Ok(ExitCode::from(trial.verdict().exit_code()))
}

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

/// A case as both sides call it.
struct Paired {
    /// What reports call it: its id, without the kernel where two kernels are compared.
    name: String,
    ids: [String; 2],
    /// How long both sides take once.
    estimated: Seconds,
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

/// Measures by processes.
struct Children<'c> {
    sides: &'c [Setting; 2],
    args: &'c AbArgs,
    global: &'c Global,
    cases: Vec<Paired>,
    directory: PathBuf,
    /// Processes started so far.
    made: usize,
    begun: clock::Moment,
    /// How long the screening took, in estimates of it.
    late: f64,
    is_stub: bool,
    /// What each case was when it was first measured: A is.
    quantities: HashMap<usize, Quantity>,
}

impl Pairs for Children<'_> {
    type Error = anyhow::Error;

    fn measure(&mut self, side: Arm, cases: &[usize]) -> anyhow::Result<Vec<Found>> {
        let at = match side {
            Arm::A => 0,
            Arm::B => 1,
        };
        if cases.is_empty() {
            return Ok(Vec::new());
        }
        self.made += 1;
        let name = format!("{:05}-{}", self.made, ["a", "b"][at]);
        let out = self.directory.join(name);
        let ids: Vec<&String> = cases.iter().map(|&case| &self.cases[case].ids[at]).collect();
        let setting = &self.sides[at];
        let mut command = setting.command("run", self.args);
        command.arg("--out").arg(&out).arg("--").args(&ids).stdout(Stdio::null());
        let program = setting.program.display();
        let output = command.output().with_context(|| format!("cannot start {program}"))?;
        match output.status.code() {
            // 1: a case failed, of which the record tells more.
            Some(0 | 1) => {}
            Some(130) | None => return Err(Interrupted.into()),
            Some(code) => {
                let said = String::from_utf8_lossy(&output.stderr);
                bail!("{program} run ended with exit code {code}: {}", said.trim());
            }
        }
        let record = store::read(&out)?;
        keep_the_record_alone(&out);
        self.is_stub |= record.header.device.is_stub();
        let by_id: HashMap<String, &Outcome> =
            record.outcomes.iter().map(|outcome| (outcome.case().to_string(), outcome)).collect();
        let quantities = &mut self.quantities;
        let found = |(&case, id): (&usize, &String)| {
            let outcome = by_id.get(id).copied();
            other_quantity(quantities, case, outcome).unwrap_or_else(|| found(outcome))
        };
        let all = cases.iter().zip(ids).map(found).collect();
        self.tell_screening();
        Ok(all)
    }

    fn round(&mut self, number: u32, candidates: usize) {
        let last = ab::LOOKS.last().map_or(0, |(pairs, _)| *pairs);
        let pairs = last.saturating_add(1).saturating_sub(number);
        let left = forecast::of_pairs(&estimates(&self.cases), self.late, pairs, candidates);
        let candidates = counted(candidates, "candidate");
        let left = Seconds(left.0.ceil()).human();
        self.global.tell(&format!("pair {number} of at most {last}: {candidates}, {left} at most"));
    }
}

/// How long both sides of each case take once.
fn estimates(cases: &[Paired]) -> Vec<Seconds> {
    cases.iter().map(|case| case.estimated).collect()
}

impl Children<'_> {
    /// Says after each run of the screening how long the next ones take.
    fn tell_screening(&mut self) {
        if self.made > SCREENINGS {
            return;
        }
        let taken = self.begun.elapsed();
        let (late, left) = forecast::of_screening(&estimates(&self.cases), taken, self.made);
        self.late = late;
        if self.made < SCREENINGS {
            let left = Seconds(left.0.ceil()).human();
            self.global.tell(&format!("screened {} of {SCREENINGS}: {left} left", self.made));
        }
    }
}

/// That a case is not the quantity any more that it was when it was first measured.
fn other_quantity(
    known: &mut HashMap<usize, Quantity>,
    case: usize,
    outcome: Option<&Outcome>,
) -> Option<Found> {
    let quantity = Quantity::of(outcome?.measured()?);
    let first = known.entry(case).or_insert(quantity);
    first.difference(&quantity, ["A", "B"]).map(Found::Skipped)
}

fn found(outcome: Option<&Outcome>) -> Found {
    match outcome {
        None => Found::Skipped("it is not in the record".into()),
        Some(Outcome::Skipped { reason, .. }) => Found::Skipped(reason.clone()),
        Some(Outcome::Failed { error, .. }) => Found::Broken(error.clone()),
        Some(Outcome::Invalid { reason, .. }) => Found::Broken(reason.clone()),
        Some(Outcome::Measured(one)) => match one.disturbance() {
            Some(words) => Found::Disturbed(words),
            None => Found::Time(one.summary.median),
        },
    }
}

/// Reports of hundreds of short runs would fill the disk; they can be made again from the record.
fn keep_the_record_alone(directory: &Path) {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    for file in files.filter(|file| file.file_name() != store::FILE) {
        // What cannot be removed stays.
        let _ = fs::remove_file(file.path());
    }
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
