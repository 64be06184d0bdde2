//! `fizeau contend`: takes samples as another process asks for them, so that this program's kernels
//! take turns with those of other programs on one device (scripts/gpu.sh).
//!
//! Each line of standard input asks for one thing and each line of standard output answers it, in
//! JSON ([`Asked`], [`Answer`]). The process ends with its standard input.

use super::{exit::Usage, global::Global, output::write_out, plan, user_kernels};
use crate::{
    measure::regime::{REST, SETTLING, Timed},
    session::tuner,
    world::Choice,
};
use clap::Args;
use fizeau_bench::{self as bench, Rank, Unready, Workload};
use fizeau_comm::Alone;
use fizeau_device::DeviceError;
use fizeau_domain::{
    case::Case,
    outcome::{Cache, Regime},
    suite::MeasureSettings,
    text::{agreed, clean},
    units::Seconds,
};
use fizeau_record::{Mirror as _, v1};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, io::BufRead as _, process::ExitCode};

/// Arguments of `contend`.
#[derive(Args, Clone, Debug)]
pub struct ContendArgs {
    /// A device as `fizeau devices` names it [default: the first GPU, or the host]
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// The suites that have the cases, by name or file: given once or more [default: all suites]
    #[arg(long, value_name = "NAME|FILE")]
    pub suite: Vec<String>,
}

/// The load that finds how long an iteration takes, at least.
const LOOK: Seconds = Seconds(0.0005);

/// The longest load of one sample, and the most samples of one answer.
const LOAD_MAX: Seconds = Seconds(1.0);
const COUNT_MAX: u32 = 10_000;

/// What is asked for.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
enum Asked {
    /// To make a case ready and verify it; `name` is what it is called by from then on.
    Prepare { name: String, case: String },
    /// Samples of a case, each of about `load` seconds.
    Sample { name: String, regime: Regime, count: u32, load: f64 },
    /// To give its memory back.
    Forget { name: String },
    /// To end.
    End,
}

/// What is answered.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Answer {
    Hello {
        contenders: &'static str,
        version: &'static str,
        device: String,
        is_stub: bool,
        timer_step: Seconds,
        rest: f64,
    },
    Ready {
        ready: String,
        /// Of one iteration, roughly.
        seconds: f64,
        way: &'static str,
        kernel: String,
        point: Box<v1::Point>,
        cache: &'static str,
        flops: f64,
        bytes: u64,
        /// The largest error that was found, and the largest allowed.
        error: f64,
        tolerance: f64,
        /// The candidate that a tuned kernel took.
        candidate: Option<String>,
        code: Vec<String>,
    },
    Samples {
        /// Seconds of one iteration, a sample each.
        times: Vec<f64>,
        /// Megahertz of the units while each sample was taken, where the device tells.
        clocks: Vec<Option<f64>>,
        batch: u32,
        throttled: u32,
    },
    Forgot {
        forgot: String,
    },
    Failed {
        failed: String,
        broken: bool,
    },
}

/// A case that is ready.
struct Contender<'r> {
    workload: Box<dyn Workload + 'r>,
    seconds: f64,
}

/// Answers until nothing more is asked.
///
/// # Errors
/// Where the device cannot be opened, a suite cannot be read, or nobody takes the answers.
pub fn run(args: &ContendArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let catalogue = plan::catalogue(global)?;
    let choice = Choice { device: args.device.clone(), ranks: None };
    let device = user_kernels::open(&choice.device()?, &[])?;
    let rank = Rank { device: device.as_ref(), peers: &Alone };
    let names: Vec<&str> = match &args.suite[..] {
        [] => catalogue.suite_names().collect(),
        some => some.iter().map(String::as_str).collect(),
    };
    let mut plans = Vec::new();
    for name in names {
        let (suite, _) = catalogue.suite(name).map_err(|error| Usage(error.to_string()))?;
        plans.push((bench::cases(&suite, rank), suite.measure));
    }
    let properties = device.properties();
    say(&Answer::Hello {
        contenders: "fizeau",
        version: env!("FIZEAU_BUILD"),
        device: properties.name.clone(),
        is_stub: properties.is_stub(),
        timer_step: crate::measure::calibrate_on(device.as_ref())?.resolution,
        rest: REST,
    })?;
    device.tell_clock(true);
    let mut stage = Stage { rank, plans, ready: BTreeMap::new(), worked: Seconds(0.0) };
    for line in std::io::stdin().lock().lines() {
        let asked: Asked = match serde_json::from_str(&line?) {
            Ok(Asked::End) => break,
            Ok(asked) => asked,
            Err(error) => {
                say(&failed(format!("this is not asked for: {error}"), false))?;
                continue;
            }
        };
        say(&stage.answer(asked).unwrap_or_else(|(why, broken)| failed(why, broken)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn say(answer: &Answer) -> anyhow::Result<()> {
    write_out(&(serde_json::to_string(answer)? + "\n"))
}

fn failed(why: String, broken: bool) -> Answer {
    Answer::Failed { failed: clean(&why), broken }
}

/// Why something was not done, and whether the device answers no more.
type Why = (String, bool);

fn of_device(error: DeviceError) -> Why {
    let broken = matches!(error, DeviceError::Lost(_) | DeviceError::Hang { .. });
    (error.to_string(), broken)
}

/// The cases of the suites, and those that are ready.
struct Stage<'r> {
    rank: Rank<'r>,
    plans: Vec<(Vec<Case>, MeasureSettings)>,
    ready: BTreeMap<String, (Contender<'r>, MeasureSettings)>,
    /// The load since the last rest that was long enough.
    worked: Seconds,
}

impl Stage<'_> {
    fn answer(&mut self, asked: Asked) -> Result<Answer, Why> {
        match asked {
            Asked::Prepare { name, case } => self.prepare(name, &case),
            Asked::Sample { name, regime, count, load } => {
                self.sample(&name, regime, count, Seconds(load))
            }
            Asked::Forget { name } => {
                self.ready.remove(&name);
                bench::give_back();
                Ok(Answer::Forgot { forgot: name })
            }
            Asked::End => Err(("the end was asked for".into(), false)),
        }
    }

    fn prepare(&mut self, name: String, id: &str) -> Result<Answer, Why> {
        let has = |(cases, _): &&(Vec<Case>, _)| cases.iter().any(|case| case.to_string() == id);
        let (cases, settings) = self
            .plans
            .iter()
            .find(has)
            .ok_or_else(|| (format!("no suite has the case {id} on this device"), false))?;
        let case = cases.iter().find(|case| case.to_string() == id);
        let Some(case) = case.cloned() else { return Err((id.into(), false)) };
        let (settings, device) = (*settings, self.rank.device);
        device.loaded();
        let made = bench::prepare(&case, self.rank).map_err(|unready| match unready {
            Unready::Unsupported(why) => (why, false),
            Unready::Device(error) => of_device(error),
        })?;
        let mut made = made;
        let (cache, _) = bench::headline_cache(&case, made.copies());
        let regime = settings.regime.filter(|_| case.point.depends_on_power());
        let tuning = tuner::tune(self.rank, made.as_mut(), (cache, regime), &settings, None)
            .map_err(of_device)?;
        made.poison().map_err(of_device)?;
        device.timed(&mut || made.enqueue(made.granule())).map_err(of_device)?;
        let check = made.verify().map_err(of_device)?;
        if !check.passed() {
            let words = format!(
                "{} of {} elements {} wrong: largest error {:.3e}, tolerance {:.3e}",
                check.wrong,
                check.compared,
                agreed(check.wrong as usize, "is", "are"),
                check.error,
                check.tolerance
            );
            return Err((words, false));
        }
        let takes_turns = cache == Cache::Cold && made.copies() > 1;
        made.take_turns(takes_turns);
        let mut contender = Contender { workload: made, seconds: 0.0 };
        contender.seconds = contender.look(self.rank, &settings).map_err(of_device)?;
        let work = case.point.work();
        let code = device.loaded();
        let answer = Answer::Ready {
            ready: name.clone(),
            seconds: contender.seconds,
            way: "kernel",
            kernel: case.kernel.0.clone(),
            point: Box::new(v1::Point::from_domain(&case.point)),
            cache: if takes_turns { "cold" } else { "hot" },
            flops: work.flops.0,
            bytes: work.memory.0,
            error: check.error,
            tolerance: check.tolerance,
            candidate: tuning.map(|tuning| tuning.chosen),
            code: code.iter().map(|code| format!("{code:?}")).collect(),
        };
        self.ready.insert(name, (contender, settings));
        Ok(answer)
    }

    fn sample(
        &mut self,
        name: &str,
        regime: Regime,
        count: u32,
        load: Seconds,
    ) -> Result<Answer, Why> {
        let rank = self.rank;
        let Some((contender, settings)) = self.ready.get_mut(name) else {
            return Err((format!("{name} was not prepared"), false));
        };
        if !(load.0 > 0.0 && load <= LOAD_MAX && (1..=COUNT_MAX).contains(&count)) {
            let words = format!("load: seconds up to {LOAD_MAX}; count: from 1 to {COUNT_MAX}");
            return Err((words, false));
        }
        let before = self.worked;
        self.worked = match regime {
            Regime::Burst => Seconds(0.0),
            Regime::Settled => SETTLING + load * f64::from(count),
        };
        contender.sample(rank, (regime, before), (count, load), settings).map_err(of_device)
    }
}

impl Contender<'_> {
    /// How long an iteration takes, roughly: of a load of [`LOOK`].
    fn look(&mut self, rank: Rank<'_>, settings: &MeasureSettings) -> Result<f64, DeviceError> {
        let mut batch = 1;
        loop {
            let time = self.timed(rank, batch, settings, |timed| timed.sample(Regime::Burst))?.time;
            if time >= LOOK || batch >= 1 << 20 {
                return Ok(time.0 / f64::from(batch) / f64::from(self.workload.granule()));
            }
            batch *= 4;
        }
    }

    fn timed<T>(
        &mut self,
        rank: Rank<'_>,
        batch: u32,
        settings: &MeasureSettings,
        what: impl FnOnce(&mut Timed<'_, '_>) -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        let granule = self.workload.granule();
        let workload = &mut self.workload;
        let mut enqueue = |repeat: u32| workload.enqueue(repeat.saturating_mul(granule));
        let cache = Cache::Hot;
        let (device, enqueue) = (rank.device, &mut enqueue);
        let lasts = Seconds(self.seconds * f64::from(granule) * f64::from(batch));
        what(&mut Timed { device, enqueue, cache, batch, lasts, settings })
    }

    fn sample(
        &mut self,
        rank: Rank<'_>,
        (regime, before): (Regime, Seconds),
        (count, load): (u32, Seconds),
        settings: &MeasureSettings,
    ) -> Result<Answer, DeviceError> {
        let granule = self.workload.granule();
        let of_batch = self.seconds * f64::from(granule);
        let batch = (load.0 / of_batch).round().clamp(1.0, 1e6) as u32;
        let timings = self.timed(rank, batch, settings, |timed| {
            if regime == Regime::Burst {
                // From what was settled before it.
                timed.device.rest(before * REST);
            }
            timed.begin(regime, Seconds(0.0))?;
            (0..count).map(|_| timed.sample(regime)).collect::<Result<Vec<_>, _>>()
        })?;
        let iterations = batch.saturating_mul(granule);
        let of_one = 1.0 / f64::from(iterations);
        Ok(Answer::Samples {
            times: timings.iter().map(|timing| timing.time.0 * of_one).collect(),
            clocks: timings.iter().map(|timing| timing.clock.map(|clock| clock.0)).collect(),
            batch: iterations,
            throttled: timings.iter().filter(|timing| timing.throttled).count() as u32,
        })
    }
}
