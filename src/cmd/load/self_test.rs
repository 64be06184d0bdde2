//! `fizeau load self-test`: whether this client can be believed on this machine, shown by a server
//! whose law is known.

use crate::cmd::time::Time;
use crate::{
    client::{
        Client, Deadlines, Outcome, Prepared, Schedule, State, Watcher,
        known::{Laws, Service, Stamp},
        level::{self, Work},
    },
    cmd::{
        exit,
        global::Global,
        output::{print, print_json, say},
        parent, signals,
    },
};
use anyhow::{Context as _, bail};
use clap::Args;
use fizeau_device::clock;
use fizeau_domain::{stats::quantile, units::Seconds};
use fizeau_projection::load::{
    Ending, Row, Times,
    arrivals::Arrivals,
    queue::{Slots, mdc_mean_wait, mmc},
    random::{Purpose, Random},
    target::{Asked, Endpoint, Target},
};
use serde::Serialize;
use serde_json::Map;
use std::{
    collections::BTreeMap,
    io::{self, BufRead as _, BufReader},
    process::{self, Child, Command, ExitCode, Stdio},
    sync::atomic::{AtomicBool, Ordering},
};

/// Arguments of `load self-test`.
#[derive(Args, Clone, Debug)]
pub struct SelfTestArgs {
    /// Requests a second
    #[arg(long, value_name = "R", default_value_t = 500.0,
          value_parser = fizeau_domain::number::positive)]
    pub rate: f64,
    /// Tokens of an answer where it is tried how fast they are received: with 500 requests/s,
    /// 50,000 tokens a second
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub tokens: u32,
    /// How long requests are sent, in the longest of three loads
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub duration: Time,
    /// Moments and service times follow from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// One thing that was tried.
#[derive(Clone, Debug, Serialize)]
struct Check {
    what: String,
    measured: String,
    wanted: String,
    /// None where it is stated and not judged.
    passes: Option<bool>,
}

impl Check {
    fn judged(what: &str, measured: String, wanted: &str, passes: bool) -> Check {
        Check { what: what.into(), measured, wanted: wanted.into(), passes: Some(passes) }
    }

    fn stated(what: &str, measured: String) -> Check {
        Check { what: what.into(), measured, wanted: String::new(), passes: None }
    }
}

/// Mean service time of the load.
const SERVICE: Seconds = Seconds(0.1);

/// Tokens of an answer where latencies are judged: streams that leave CPUs to client and server.
const FEW_TOKENS: u32 = 10;

/// The longest time in which it is tried how fast tokens are received.
const FAST: Seconds = Seconds(20.0);

/// Requests that are not judged.
const WARMUP: u64 = 50;

/// Load of each slot.
const BUSY: f64 = 0.75;

/// Runs the self-test. Exit code 0: all passed; 1: something did not.
///
/// # Errors
/// Where the server cannot be started.
pub fn run(args: &SelfTestArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let interrupted = signals::watch_and_say("stopping; ask again (Ctrl-C) to stop now")?;
    let _ = level::open_files_as_permitted();
    let mut checks = closed_forms(args.seed);
    say("the recursion meets its closed forms; now a server in a process of its own");
    checks.extend(on_time(args, &interrupted)?);
    say("now as many tokens as are to be received");
    checks.extend(many_tokens(args, &interrupted)?);
    say("now a server that serves nothing for 2 s");
    checks.extend(with_a_pause(args, &interrupted)?);
    let fails = checks.iter().any(|check| check.passes == Some(false));
    if global.json {
        print_json(&checks)?;
    } else {
        print(&table(&checks))?;
    }
    Ok(if fails { ExitCode::from(exit::FAILED) } else { ExitCode::SUCCESS })
}

fn table(checks: &[Check]) -> String {
    // What is stated alone has nothing beside it.
    let width = |of: &dyn Fn(&Check) -> &str| {
        let judged = checks.iter().filter(|check| check.passes.is_some());
        judged.map(|check| of(check).chars().count()).max().unwrap_or(0)
    };
    let (what, measured) = (width(&|check| &check.what), width(&|check| &check.measured));
    let line = |check: &Check| {
        let verdict = match check.passes {
            Some(true) => "pass",
            Some(false) => "FAIL",
            None => "",
        };
        let text = format!(
            "{verdict:<4}  {:<what$}  {:<measured$}  {}",
            check.what, check.measured, check.wanted
        );
        text.trim_end().to_owned()
    };
    checks.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The recursion beside closed forms, in virtual time: no clock is read.
fn closed_forms(seed: u64) -> Vec<Check> {
    const COUNT: u32 = 400_000;
    const FIRST: u32 = 20_000;
    let (servers, load) = (4, 0.75);
    let arrivals = f64::from(servers) * load;
    let mut random = Random::new(seed, u64::MAX, Purpose::Service);
    let (mut chance, mut fixed) = (Slots::new(servers), Slots::new(servers));
    let (mut now, mut waits) = (0.0, [0.0; 2]);
    for number in 0..COUNT {
        now += random.exponential() / arrivals;
        let served = [chance.serve(now, random.exponential()), fixed.serve(now, 1.0)];
        if number >= FIRST {
            waits.iter_mut().zip(served).for_each(|(wait, one)| *wait += one.begin - now);
        }
    }
    let theory = [
        ("M/M/4", mmc(servers, arrivals, 1.0).map_or(0.0, |law| law.mean_wait)),
        ("M/D/4", mdc_mean_wait(servers, arrivals, 1.0).unwrap_or(0.0)),
    ];
    let check = |((name, theory), wait): ((&str, f64), f64)| {
        let mean = wait / f64::from(COUNT - FIRST);
        Check::judged(
            &format!("{name} at load {load}: mean wait in service times, 400,000 requests"),
            format!("{mean:.4}"),
            &format!("{theory:.4} by its closed form, within 5 %"),
            (mean / theory - 1.0).abs() < 0.05,
        )
    };
    theory.into_iter().zip(waits).map(check).collect()
}

/// A server in a process of its own, which ends with this value.
struct Known {
    child: Child,
    url: String,
}

impl Known {
    fn start(arguments: &[String]) -> anyhow::Result<Known> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(program);
        command.args(["load", "serve"]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        // It ends when this process does, however that ends.
        command.env(parent::LAUNCHER, process::id().to_string());
        let mut child = command.spawn().context("cannot start the server")?;
        let mut url = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut url).context("the server's address")?;
        }
        if url.is_empty() {
            let _ = child.kill();
            bail!("the server did not tell its address");
        }
        Ok(Known { child, url: url.trim().to_owned() })
    }

    fn client(&self) -> anyhow::Result<Client> {
        let told = |why: String| anyhow::anyhow!(why);
        let target = Target::parse(&self.url, Some(Endpoint::Completions)).map_err(told)?;
        Client::new(target, Deadlines::default(), None, None).map_err(told)
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Keeps rows in memory.
#[derive(Default)]
struct Rows(Vec<Row>);

impl Watcher for Rows {
    fn ended(&mut self, outcome: Outcome) -> io::Result<()> {
        self.0.push(outcome.row);
        Ok(())
    }

    fn passes(&mut self, _: State) {}
}

/// Sends requests of a number of tokens each; their rows by number.
fn sent(
    client: &Client,
    (seed, level, warmup): (u64, usize, u64),
    (count, tokens): (u64, u32),
    schedule: &Schedule,
    interrupted: &AtomicBool,
) -> anyhow::Result<Vec<Row>> {
    let asked = Asked {
        model: "known".into(),
        endpoint: Endpoint::Completions,
        ignore_eos: true,
        length_field: "max_tokens".into(),
        has_min: false,
        fields: Map::new(),
    };
    let body = asked.body("time year people", tokens);
    let request = Prepared { body, input: 4, output: tokens, prompt: None };
    let requests = vec![request; count as usize];
    let work = Work { level, seed, warmup, requests: &requests, schedule };
    let mut rows = Rows::default();
    level::run(client, work, interrupted, &mut rows)?;
    if interrupted.load(Ordering::Relaxed) {
        return Err(exit::Interrupted.into());
    }
    rows.0.sort_by_key(|row| row.number);
    Ok(rows.0)
}

/// Latency by the recursion alone, from the scheduled moments: by number.
fn predicted(laws: &Laws, level: u64, rows: &[Row]) -> Vec<f64> {
    let mut slots = Slots::new(laws.slots);
    if let (Some((after, long)), Some(first)) = (laws.pause, rows.first()) {
        let from = first.scheduled + after.0;
        slots.pause(from, from + long.0);
    }
    rows.iter()
        .map(|row| {
            let time = laws.time(level, row.number, row.asked_output);
            slots.serve(row.scheduled, time).end - row.scheduled
        })
        .collect()
}

fn quantile_of(values: impl Iterator<Item = f64>, share: f64) -> f64 {
    let values: Vec<f64> = values.collect();
    if values.is_empty() { f64::NAN } else { quantile::quantile(&quantile::sorted(&values), share) }
}

/// What came of a load on a server whose service times are exponential.
struct Loaded {
    /// Requests, warm-up included.
    count: u64,
    slots: u32,
    rows: Vec<Row>,
    /// Latencies by the recursion.
    theory: Vec<f64>,
    stamps: Vec<Stamp>,
    wall: Seconds,
    /// CPU time of the client over `wall`.
    cores: f64,
    /// Of `wall`, the share in which some process waited for a CPU.
    waited: Option<f64>,
}

fn under_load(
    args: &SelfTestArgs,
    tokens: u32,
    duration: Seconds,
    interrupted: &AtomicBool,
) -> anyhow::Result<Loaded> {
    let slots = (args.rate * SERVICE.0 / BUSY).ceil().max(1.0) as u32;
    let laws =
        Laws { slots, service: Service::Exponential(SERVICE), seed: args.seed, ..Laws::default() };
    let known = Known::start(&[
        format!("--slots={slots}"),
        format!("--service=exponential={}s", SERVICE.0),
        format!("--seed={}", args.seed),
    ])?;
    let client = known.client()?;
    let count = (args.rate * duration.0).ceil().max(100.0) as u64 + WARMUP;
    let moments = Arrivals::Poisson.moments(args.rate, &[count], args.seed, 0);
    let (cpu, waited, start) = (clock::cpu_time(), waited_for_cpu(), clock::now());
    let load = (args.seed, 0, WARMUP);
    let schedule = Schedule::Moments(moments);
    let rows = sent(&client, load, (count, tokens), &schedule, interrupted)?;
    let wall = start.elapsed();
    let cores = (clock::cpu_time().0 - cpu.0) / wall.0;
    let waited = waited_for_cpu().zip(waited).map(|(after, before)| (after - before) / wall.0);
    let (theory, stamps) = (predicted(&laws, 0, &rows), stamps(&client)?);
    Ok(Loaded { count, slots, rows, theory, stamps, wall, cores, waited })
}

impl Loaded {
    /// How many tokens were received in a second.
    fn tokens(&self) -> f64 {
        self.rows.iter().map(|row| f64::from(row.chunks)).sum::<f64>() / self.wall.0
    }

    fn answered(&self, words: &str) -> Check {
        let Loaded { count, rows, .. } = self;
        let answered = rows.iter().filter(|row| is_answered(row)).count();
        let measured = format!("{answered} of {count}");
        Check::judged(words, measured, "all", answered as u64 == *count)
    }

    fn waited(&self) -> Option<Check> {
        let words = "while this ran, some process of this machine waited for a CPU";
        let share = self.waited?;
        Some(Check::stated(words, format!("{:.0} % of the time", share * 100.0)))
    }
}

/// Latencies and lateness, where CPUs have time to spare.
fn on_time(args: &SelfTestArgs, interrupted: &AtomicBool) -> anyhow::Result<Vec<Check>> {
    let loaded = under_load(args, FEW_TOKENS, args.duration.0, interrupted)?;
    let (rate, slots) = (args.rate, loaded.slots);
    let words = format!("answered at {rate} requests/s of {FEW_TOKENS} tokens, {slots} slots");
    let mut checks = vec![loaded.answered(&words)];
    checks.extend(latencies(&loaded));
    checks.extend(lateness(&loaded.rows));
    checks.extend(loaded.waited());
    Ok(checks)
}

/// How fast tokens are received.
fn many_tokens(args: &SelfTestArgs, interrupted: &AtomicBool) -> anyhow::Result<Vec<Check>> {
    let duration = Seconds(args.duration.0.0.min(FAST.0));
    let loaded = under_load(args, args.tokens, duration, interrupted)?;
    let (tokens, cores) = (loaded.tokens(), loaded.cores);
    let mut checks = vec![
        loaded.answered(&format!("answered of {} tokens", args.tokens)),
        Check::judged(
            "tokens received, one a chunk",
            format!("{tokens:.0}/s by {cores:.2} cores"),
            "fewer than 1 core",
            cores < 1.0,
        ),
        Check::stated(
            "CPU time of the client a token, all of the request included",
            Seconds(cores / tokens.max(1e-9)).to_string(),
        ),
        Check::stated("latency beyond the recursion's, meanwhile", beyond(&loaded)),
    ];
    checks.extend(loaded.waited());
    Ok(checks)
}

fn is_answered(row: &Row) -> bool {
    row.ending == Ending::Answered
}

/// Latencies of answered requests, each with that of the recursion.
fn pairs(loaded: &Loaded) -> impl Iterator<Item = (f64, f64)> {
    let all = loaded.rows.iter().zip(&loaded.theory).filter(|(row, _)| !row.is_warmup);
    all.filter_map(|(row, time)| Some((row.e2el()?, *time)))
}

/// By how much latencies are above those of the recursion, in words.
fn beyond(loaded: &Loaded) -> String {
    let over = |share: f64| quantile_of(pairs(loaded).map(|(time, theory)| time - theory), share);
    format!("P50 {}, P99 {}", Seconds(over(0.5)), Seconds(over(0.99)))
}

/// Latencies beside those of the recursion and of the server's stamps.
fn latencies(loaded: &Loaded) -> Vec<Check> {
    let Loaded { rows, stamps, .. } = loaded;
    let error = pairs(loaded).map(|(time, theory)| (time / theory - 1.0).abs());
    let error = quantile_of(error, 0.5);
    let stamps: BTreeMap<(u64, u64), &Stamp> =
        stamps.iter().map(|one| ((one.level, one.number), one)).collect();
    let by_stamps = rows.iter().filter_map(|row| {
        let one = stamps.get(&(0, row.number))?;
        Some(((row.last? - row.sent) / (one.last - one.arrived) - 1.0).abs())
    });
    let error_of_stamps = quantile_of(by_stamps, 0.5);
    let percent = |share: f64| format!("median error {:.3} %", share * 100.0);
    vec![
        Check::judged(
            "latency from the scheduled moment, beside the recursion on the same seeds",
            percent(error),
            "below 0.5 %",
            error < 0.005,
        ),
        Check::judged(
            "latency from sending, beside the server's own stamps",
            percent(error_of_stamps),
            "below 0.5 %",
            error_of_stamps < 0.005,
        ),
        Check::stated(
            "latency beyond the recursion's: client, loopback and scheduler",
            beyond(loaded),
        ),
    ]
}

/// How late requests were sent; within their latency, all of it.
fn lateness(rows: &[Row]) -> Vec<Check> {
    let late: Vec<f64> = rows.iter().map(|row| row.sent - row.scheduled).collect();
    let within = rows.iter().all(|row| row.last.is_none_or(|last| last >= row.sent));
    let times = Times::of(&late);
    let at = |share: f64| times.as_ref().and_then(|times| times.at(share));
    let p50 = at(0.5).map_or(f64::NAN, |one| one.value);
    let tail: Vec<String> = [(0.99, "P99"), (0.999, "P99.9")]
        .into_iter()
        .filter_map(|(share, name)| {
            let one = at(share)?;
            let high = one.high.map_or("too few requests for an upper bound".into(), |high| {
                format!("at most {}", Seconds(high))
            });
            Some(format!("{name} {} ({high})", Seconds(one.value)))
        })
        .collect();
    vec![
        Check::judged(
            "sent after the scheduled moment, which each latency holds",
            format!("P50 {}", Seconds(p50)),
            "below 300 us",
            p50 < 3e-4 && within,
        ),
        Check::stated("sent after the scheduled moment, tail", tail.join(", ")),
    ]
}

/// What the server kept.
fn stamps(client: &Client) -> anyhow::Result<Vec<Stamp>> {
    let (_, value) = client
        .ask(&client.connections(), "/stamps", None)
        .map_err(|why| anyhow::anyhow!("the server's stamps: {why}"))?;
    Ok(serde_json::from_value(value)?)
}

/// Seconds in which some process of this machine waited for a CPU, since it started; none where the
/// kernel does not tell (no PSI).
fn waited_for_cpu() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/pressure/cpu").ok()?;
    let some = text.lines().find(|line| line.starts_with("some"))?;
    let total = some.split_whitespace().find_map(|word| word.strip_prefix("total="))?;
    Some(total.parse::<f64>().ok()? * 1e-6)
}

/// A server that stands still for 2 s, and what an open and a closed loop see of it.
fn with_a_pause(args: &SelfTestArgs, interrupted: &AtomicBool) -> anyhow::Result<Vec<Check>> {
    const RATE: f64 = 100.0;
    const LONG: f64 = 4.0;
    let (service, after, long) = (Seconds(0.005), Seconds(1.0), Seconds(2.0));
    let laws = Laws {
        slots: 4,
        service: Service::Fixed(service),
        pause: Some((after, long)),
        ..Laws::default()
    };
    let arguments = [
        "--slots=4".to_owned(),
        format!("--service=fixed={}s", service.0),
        format!("--pause={}s@{}s", long.0, after.0),
    ];
    let known = Known::start(&arguments)?;
    let count = (RATE * LONG) as u64;
    let schedule = Schedule::Moments(Arrivals::Constant.moments(RATE, &[count], args.seed, 0));
    let client = known.client()?;
    let open = sent(&client, (args.seed, 0, 0), (count, 1), &schedule, interrupted)?;
    let theory = quantile_of(predicted(&laws, 0, &open).into_iter(), 0.99);
    drop(known);
    let known = Known::start(&arguments)?;
    let schedule = Schedule::Places(1, Some(LONG));
    let client = known.client()?;
    let closed = sent(&client, (args.seed, 0, 0), (100_000, 1), &schedule, interrupted)?;
    let p99 = |rows: &[Row]| quantile_of(rows.iter().filter_map(Row::e2el), 0.99);
    let (open, closed) = (p99(&open), p99(&closed));
    Ok(vec![
        Check::judged(
            "the server stands still for 2 s of 4 s: P99 of an open loop",
            Seconds(open).to_string(),
            &format!("{} by the recursion, within 2 %", Seconds(theory)),
            (open / theory - 1.0).abs() < 0.02,
        ),
        Check::judged(
            "the same, P99 of a closed loop, which asks nothing meanwhile",
            Seconds(closed).to_string(),
            "does not see it (coordinated omission): below 100 ms",
            closed < 0.1,
        ),
    ])
}
