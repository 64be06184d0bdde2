//! `fizeau discover --gemm TYPE`: the search for the shape of the fastest matrix product.
//!
//! Each round of shapes is measured by a process of its own, as `fizeau run` does. One record holds
//! all rounds.

use super::DiscoverArgs;
use crate::cmd::{
    child::Measuring,
    disk,
    document::{self, ReportFormat},
    exit::Usage,
    global::Global,
    output::{self, say, shown},
    signals,
};
use fizeau_device::clock;
use fizeau_domain::{case::Point, dtype::Dtype, outcome::Outcome, text::counted, units::Seconds};
use fizeau_judge::discover::search::{Search, Shape, Tried};
use fizeau_record::{Header, Line, Record, store};
use fizeau_report::search as document;
use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::AtomicBool,
};

/// The suite's name, and in the directory of a search the folder of its rounds and its suite.
const SUITE: &str = "gemm-search";
const ROUNDS: &str = "rounds";
const SUITE_FILE: &str = "suite.toml";

/// The budget where none is given, in seconds.
const BUDGET: f64 = 60.0;

/// The longest budget, in seconds: a week.
const BUDGET_MAX: f64 = 604_800.0;

/// Short measurements: to try more shapes tells more than to know one of them better.
const MEASURE: &str = "\
[measure]
samples_min = 5
samples_max = 200
noise_max = 0.01
time_min = 0.02
time_max = 0.1
warmup_max = 0.05
sample_min = 0.0002
deadline = 60.0
";

/// Searches, and tells what was found.
///
/// # Errors
/// Where nothing can be measured, or the record cannot be written; that the user asked for an end,
/// with the record of what was measured until then.
pub fn run(args: &DiscoverArgs, dtype: Dtype, global: &Global) -> anyhow::Result<ExitCode> {
    let format = document::format_without_cases(args.format, None, global, "searches")?;
    let budget = args.budget.map_or(BUDGET, |budget| budget.0);
    if !(budget > 0.0 && budget <= BUDGET_MAX) {
        let why = format!("--budget: {budget} s must be above 0 and at most {BUDGET_MAX} s");
        return Err(Usage(why).into());
    }
    let choice = crate::world::Choice { device: args.device.clone(), ranks: None };
    if choice.several()?.is_some() {
        return Err(Usage("one device at a time: --device cuda:1".into()).into());
    }
    let interrupted = signals::watch()?;
    let directory = args.out.clone();
    let directory = directory.unwrap_or_else(|| disk::new_directory(&clock::utc_now(), SUITE));
    if store::file_of(&directory).exists() {
        let why = format!("{} has a record; choose another --out", shown(&directory));
        return Err(Usage(why).into());
    }
    let rounds = Rounds {
        directory: directory.join(ROUNDS),
        device: choice.device()?,
        dtype,
        no_host_name: args.no_host_name,
        global,
        interrupted: &interrupted,
    };
    let start = clock::now();
    let (search, records, ended) = rounds.all(Seconds(budget));
    let spent = start.elapsed();
    // What cannot be removed stays.
    let _ = fs::remove_dir_all(&rounds.directory);
    let Some(record) = merged(&records, &search, dtype, budget) else {
        return ended.map(|()| ExitCode::SUCCESS);
    };
    keep(&directory, &record)?;
    let found = document(&record, &search, dtype, [spent.0, budget]);
    let mut text = document::render(&found, format, document::window(global))?;
    if format == ReportFormat::Terminal {
        let record = shown(&directory.join(store::FILE));
        let suite = shown(&directory.join(SUITE_FILE));
        let device = &rounds.device;
        text += &format!("\nrecord: {record}\n");
        text += &format!("again: fizeau run --device {device} --suite {suite}\n");
    }
    output::write_out(&text)?;
    ended.map(|()| ExitCode::SUCCESS)
}

/// What measures the rounds of a search.
struct Rounds<'r> {
    directory: PathBuf,
    device: String,
    dtype: Dtype,
    no_host_name: bool,
    global: &'r Global,
    interrupted: &'r AtomicBool,
}

impl Rounds<'_> {
    /// Searches until nothing is left to try, or the budget is spent; the records of all rounds,
    /// and why it ended before.
    fn all(&self, budget: Seconds) -> (Search, Vec<Record>, anyhow::Result<()>) {
        let (mut search, mut records) = (Search::default(), Vec::new());
        let start = clock::now();
        loop {
            let begun = start.elapsed();
            let shapes = search.next(Seconds(budget.0 - begun.0));
            if shapes.is_empty() {
                return (search, records, Ok(()));
            }
            let kernels: Vec<String> = search.kernels().iter().map(|&of| of.to_owned()).collect();
            match self.measure(records.len(), &shapes, &kernels) {
                Ok(record) => {
                    let tried = shapes.iter().map(|&shape| tried(shape, &record)).collect();
                    search.take(tried, Seconds(start.elapsed().0 - begun.0));
                    records.push(record);
                }
                Err(error) => return (search, records, Err(error)),
            }
            if let Some(best) = search.best() {
                let [m, n, k] = best.shape;
                let tried = counted(search.tried().len(), "shape");
                say(&format!("{tried} tried, the best so far is {m} x {n} x {k}"));
            }
        }
    }

    fn measure(&self, at: usize, shapes: &[Shape], only: &[String]) -> anyhow::Result<Record> {
        let place = self.directory.join(format!("{at:05}"));
        disk::make_directory(&place, "--out DIR")?;
        let suite = place.join(SUITE_FILE);
        disk::write_file(&suite, suite_text(self.dtype, shapes).as_bytes(), "--out DIR")?;
        let only: Vec<String> =
            only.iter().map(|kernel| format!("gemm/{}/*/{kernel}", self.dtype)).collect();
        let suite = suite.to_string_lossy();
        let measuring = Measuring {
            suite: &suite,
            device: &self.device,
            ranks: None,
            cases: &only,
            label: None,
            no_host_name: self.no_host_name,
            kernels: &[],
            more: &[],
        };
        measuring.measure_into(&place.join("record"), self.global, self.interrupted)
    }
}

/// What a record has of a shape.
fn tried(shape: Shape, record: &Record) -> Tried {
    let of_shape = record.outcomes.iter().filter_map(Outcome::measured).filter(
        |one| matches!(one.case.point, Point::Gemm(point) if [point.m, point.n, point.k] == shape),
    );
    let found =
        of_shape.map(|one| (one.case.kernel.0.clone(), one.work.flops / one.summary.median));
    Tried { shape, found: found.collect() }
}

fn suite_text(dtype: Dtype, shapes: &[Shape]) -> String {
    let shapes: Vec<String> = shapes.iter().map(|shape| format!("{shape:?}")).collect();
    format!(
        "name = \"{SUITE}\"\n\
         description = \"Shapes of a search for the fastest {dtype} product\"\n\n\
         {MEASURE}\n[gemm]\ndtypes = [\"{dtype}\"]\nshapes = [{}]\n",
        shapes.join(", ")
    )
}

/// One record of all rounds, as if they had been planned; none where there was no round.
fn merged(records: &[Record], search: &Search, dtype: Dtype, budget: f64) -> Option<Record> {
    let first = records.first()?;
    let shapes: Vec<Shape> = search.tried().iter().map(|tried| tried.shape).collect();
    let plan: Vec<_> = records.iter().flat_map(|record| record.header.plan.clone()).collect();
    let command = ["fizeau", "discover", "--gemm"].map(str::to_owned).into_iter();
    let more = [dtype.to_string(), "--budget".into(), format!("{budget}s")];
    let header = Header {
        command: command.chain(more).collect(),
        suite_text: suite_text(dtype, &shapes),
        selectors: Vec::new(),
        suite_cases: Some(plan.len() as u64),
        plan,
        ..first.header.clone()
    };
    let outcomes = records.iter().flat_map(|record| record.outcomes.clone()).collect();
    Some(Record { header, outcomes, ..first.clone() })
}

/// Writes the record, and its suite beside it.
fn keep(directory: &Path, record: &Record) -> anyhow::Result<()> {
    let mut writer = store::Writer::create(directory, &record.header)?;
    for outcome in &record.outcomes {
        writer.append(&Line::Outcome(outcome.clone()))?;
    }
    if let Some(footer) = record.footer.clone() {
        writer.append(&Line::Footer(footer))?;
    }
    let suite = directory.join(SUITE_FILE);
    disk::write_file(&suite, record.header.suite_text.as_bytes(), "--out DIR")
}
