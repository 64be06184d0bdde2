//! Each measurement of a trial as a process that leaves a record.

use super::{
    super::{global::Global, output},
    AbArgs, Setting,
    forecast::{Forecast, SCREENINGS},
};
use anyhow::{Context as _, bail};
use fizeau_device::clock::{self, Moment};
use fizeau_domain::{outcome::Outcome, text::counted, units::Seconds};
use fizeau_judge::{
    ab::{self, Arm, Found, Pairs},
    compare::Quantity,
};
use fizeau_record::store;
use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    sync::atomic::{AtomicBool, Ordering},
};

/// A case as both sides call it.
pub struct Paired {
    /// What reports call it: its id, without the kernel where two kernels are compared.
    pub name: String,
    /// Its id as A and as B.
    pub ids: [String; 2],
    /// How long both sides take once.
    pub estimated: Seconds,
}

/// What is measured.
pub struct Sides<'c> {
    /// A and B.
    pub settings: &'c [Setting; 2],
    /// The command line, which both have in common.
    pub args: &'c AbArgs,
}

/// Measures by processes.
pub struct Children<'c> {
    sides: Sides<'c>,
    global: &'c Global,
    cases: Vec<Paired>,
    directory: PathBuf,
    interrupted: &'c AtomicBool,
    begun: Moment,
    /// Processes started so far.
    made: usize,
    forecast: Forecast,
    is_stub: bool,
    /// What each case was when it was first measured: A is.
    quantities: HashMap<usize, Quantity>,
}

impl<'c> Children<'c> {
    /// Nothing is measured yet; the time of the budget begins.
    pub fn new(
        sides: Sides<'c>,
        global: &'c Global,
        cases: Vec<Paired>,
        directory: PathBuf,
        forecast: Forecast,
        interrupted: &'c AtomicBool,
    ) -> Children<'c> {
        Children {
            sides,
            global,
            cases,
            directory,
            interrupted,
            begun: clock::now(),
            made: 0,
            forecast,
            is_stub: false,
            quantities: HashMap::new(),
        }
    }

    /// Whether a stub driver for tests made the times.
    pub fn is_stub(&self) -> bool {
        self.is_stub
    }

    /// Where the records of the measurements are, in words.
    pub fn kept(&self) -> String {
        let (count, place) = (counted(self.made, "measurement"), output::shown(&self.directory));
        format!("records of {count}: {place}")
    }

    /// Says after each run of the screening how long the next ones take.
    fn tell_screening(&mut self) {
        if self.made > SCREENINGS {
            return;
        }
        let left = self.forecast.screened(self.begun.elapsed(), self.made);
        if self.made < SCREENINGS {
            let left = Seconds(left.0.ceil()).human();
            self.global.tell(&format!("screened {} of {SCREENINGS}: {left} left", self.made));
        }
    }
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
        let name = format!("{:05}-{}", self.made + 1, ["a", "b"][at]);
        let out = self.directory.join(name);
        let ids: Vec<&String> = cases.iter().map(|&case| &self.cases[case].ids[at]).collect();
        let setting = &self.sides.settings[at];
        let mut command = setting.command("run", self.sides.args);
        command.arg("--out").arg(&out).arg("--").args(&ids).stdout(Stdio::null());
        let program = setting.program.display();
        let begun = clock::now();
        let output = command.output().with_context(|| format!("cannot start {program}"))?;
        match output.status.code() {
            // 1: a case failed, of which the record tells more.
            Some(0 | 1) => {}
            Some(130) | None => {
                self.interrupted.store(true, Ordering::Relaxed);
                return Ok(Vec::new());
            }
            Some(code) => {
                let said = String::from_utf8_lossy(&output.stderr);
                bail!("{program} run ended with exit code {code}: {}", said.trim());
            }
        }
        self.made += 1;
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
        if let ([case], true) = (cases, self.made > SCREENINGS) {
            self.forecast.took(*case, begun.elapsed());
        }
        self.tell_screening();
        Ok(all)
    }

    fn round(&mut self, number: u32, candidates: &[usize]) {
        let last = ab::LOOKS.last().map_or(0, |(pairs, _)| *pairs);
        let pairs = last.saturating_add(1).saturating_sub(number);
        let [left, most] = self.forecast.of_pairs(candidates, pairs);
        let count = counted(candidates.len(), "candidate");
        self.global.tell(&format!(
            "pair {number} of at most {last}: {count}, {} left, at most {} where every pair is \
             disturbed",
            left.human(),
            most.human()
        ));
    }

    fn repeat(&mut self, case: usize, why: &str) {
        let name = &self.cases[case].name;
        self.global.tell(&format!(
            "{name}: other work disturbed the pair ({why}), which is measured again"
        ));
    }

    fn ended(&self) -> Option<String> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Some("it was interrupted".into());
        }
        let budget = self.sides.args.budget?.0;
        (self.begun.elapsed() >= budget).then(|| format!("its budget of {budget} ended"))
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
