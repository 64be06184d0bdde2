//! Feeds Fizeau's readers with inputs that nobody would write, and counts what they do to it.
//!
//!     cargo run --profile fuzz --example fuzz -- KIND COUNT [SEED]
//!     scripts/fuzz.sh COUNT [SEED]                    # every kind, and the checks of this program
//!
//! Inputs come from a seed and their number, so that each can be made again:
//! `fuzz KIND show NUMBER [SEED]`. A child process reads them with an address space of 1 GiB, and
//! this one watches it: an input that ends the child is counted as a crash, or as too large where an
//! allocation failed; one that takes longer than 5 s as too slow. The child is then started again
//! with the next input. Exit code 1 where any input was counted.

mod bundles;
mod files;
mod kinds;
mod machine;
mod mutate;
mod others;
mod served;
mod targets;

use kinds::Kind;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, Command, ExitCode, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

/// Address space of the process that reads, in bytes.
const MEMORY_MAX: u64 = 1 << 30;

/// Longest time for one input.
const TIME_MAX: Duration = Duration::from_secs(5);

/// Seed of inputs where none is given.
const SEED: u64 = 1849;

/// Inputs that the report shows of each kind of fault.
const SHOWN: usize = 5;

fn main() -> anyhow::Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let usage = "fuzz KIND COUNT [SEED], or fuzz KIND show NUMBER [SEED], fuzz kinds, or fuzz long";
    let kind = |name: &str| {
        let all = kinds::names().join(", ");
        kinds::named(name).ok_or_else(|| anyhow::anyhow!("no kind is called {name}: {all}"))
    };
    match words[..] {
        ["long"] => long(),
        ["kinds"] => {
            kinds::names().iter().for_each(|name| println!("{name}"));
            Ok(ExitCode::SUCCESS)
        }
        ["--child", name, seed, first, end] => {
            read_all(kind(name)?, seed.parse()?, first.parse()?, end.parse()?)?;
            Ok(ExitCode::SUCCESS)
        }
        [name, "show", number, ref seed @ ..] if seed.len() < 2 => {
            let seed = seed.first().map_or(Ok(SEED), |seed| seed.parse())?;
            std::io::stdout().write_all(&kind(name)?.input(seed, number.parse()?))?;
            Ok(ExitCode::SUCCESS)
        }
        [name, count, ref seed @ ..] if seed.len() < 2 => {
            let seed = seed.first().map_or(Ok(SEED), |seed| seed.parse())?;
            watch(kind(name)?, count.parse()?, seed)
        }
        _ => anyhow::bail!("{usage}"),
    }
}

/// The child: tells the number of each input before it reads it.
fn read_all(kind: &'static Kind, seed: u64, first: u64, end: u64) -> anyhow::Result<()> {
    let limit = Rlimit { current: Some(MEMORY_MAX), maximum: Some(MEMORY_MAX) };
    setrlimit(Resource::As, limit)?;
    let mut out = std::io::stdout().lock();
    let mut accepted = 0u64;
    for number in first..end {
        writeln!(out, "{number}")?;
        accepted += u64::from((kind.read)(&kind.input(seed, number)));
    }
    writeln!(out, "accepted {accepted}")?;
    Ok(())
}

/// What inputs did.
#[derive(Default)]
struct Counted {
    accepted: u64,
    crashes: Vec<u64>,
    too_large: Vec<u64>,
    too_slow: Vec<u64>,
    slowest: (Duration, u64),
}

/// How a child ended.
enum End {
    /// It has read all.
    Done,
    /// At an input, by itself, with its last words.
    Died(u64, String),
    /// At an input, which took too long.
    Slow(u64),
}

fn watch(kind: &'static Kind, count: u64, seed: u64) -> anyhow::Result<ExitCode> {
    let mut counted = Counted::default();
    let start = Instant::now();
    let mut first = 0;
    while first < count {
        match watch_child(kind, seed, first..count, &mut counted)? {
            End::Done => break,
            End::Slow(number) => {
                counted.too_slow.push(number);
                first = number + 1;
            }
            End::Died(number, words) => {
                let is_memory = words.contains("memory allocation of");
                let list = if is_memory { &mut counted.too_large } else { &mut counted.crashes };
                list.push(number);
                if list.len() <= SHOWN {
                    eprintln!("{} {number}: {}", kind.name, words.trim());
                }
                first = number + 1;
            }
        }
    }
    let Counted { accepted, crashes, too_large, too_slow, slowest } = &counted;
    println!(
        "{:<12} {count} inputs (seed {seed}) in {:.0} s: {} crashes, {} over 1 GiB, {} over {} s; \
         {accepted} were accepted; the slowest took {:.3} s (input {})",
        kind.name,
        start.elapsed().as_secs_f64(),
        crashes.len(),
        too_large.len(),
        too_slow.len(),
        TIME_MAX.as_secs(),
        slowest.0.as_secs_f64(),
        slowest.1
    );
    for (what, numbers) in [("crash", crashes), ("over 1 GiB", too_large), ("too slow", too_slow)] {
        for number in numbers.iter().take(SHOWN) {
            println!("  {what}: fuzz {} show {number} {seed}", kind.name);
        }
    }
    let is_clean = crashes.is_empty() && too_large.is_empty() && too_slow.is_empty();
    Ok(ExitCode::from(u8::from(!is_clean)))
}

fn watch_child(
    kind: &'static Kind,
    seed: u64,
    inputs: std::ops::Range<u64>,
    counted: &mut Counted,
) -> anyhow::Result<End> {
    let [first, end] = [inputs.start, inputs.end].map(|number| number.to_string());
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--child", kind.name, &seed.to_string(), &first, &end])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (told, hear) = mpsc::channel();
    let out = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut err = child.stderr.take().expect("it is piped");
    thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            if told.send((Instant::now(), line)).is_err() {
                return;
            }
        }
    });
    let words = thread::spawn(move || {
        let mut words = String::new();
        let _ = err.read_to_string(&mut words);
        words
    });
    let mut at: Option<(Instant, u64)> = None;
    let mut is_done = false;
    loop {
        match hear.recv_timeout(TIME_MAX) {
            Ok((now, line)) => {
                if let Some((before, number)) = at {
                    counted.slowest = counted.slowest.max((now - before, number));
                }
                match line.strip_prefix("accepted ") {
                    Some(accepted) => {
                        counted.accepted += accepted.parse::<u64>()?;
                        (at, is_done) = (None, true);
                    }
                    None => at = Some((now, line.parse()?)),
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                end_child(&mut child);
                let (_, number) = at.unwrap_or((Instant::now(), inputs.start));
                return Ok(End::Slow(number));
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.wait()?;
    let words = words.join().unwrap_or_default();
    match at {
        _ if is_done && status.success() => Ok(End::Done),
        Some((_, number)) => {
            let line = |line: &&str| !line.is_empty() && !line.starts_with("note: ");
            let last: Vec<&str> = words.lines().filter(line).take(3).collect();
            Ok(End::Died(number, format!("{status}: {}", last.join(" "))))
        }
        None => anyhow::bail!("the reading process said nothing: {status} {words}"),
    }
}

fn end_child(child: &mut Child) {
    // It may have ended by itself meanwhile.
    let _ = child.kill();
    let _ = child.wait();
}

/// A record of a hundred thousand outcomes is read in a time that is stated.
fn long() -> anyhow::Result<ExitCode> {
    const OUTCOMES: usize = 100_000;
    const LIMIT: f64 = 2.0;
    let text = targets::long_record(OUTCOMES);
    let start = Instant::now();
    let record = fizeau_record::store::parse_text(&text)?;
    let seconds = start.elapsed().as_secs_f64();
    let (count, mebibytes) = (record.outcomes.len(), text.len() >> 20);
    println!("long        {count} outcomes, {mebibytes} MiB: read in {seconds:.2} s");
    Ok(ExitCode::from(u8::from(count != OUTCOMES || seconds > LIMIT)))
}
