//! `fizeau load ab URL_A URL_B`: two servers or settings under the same load, in alternating
//! rounds.

use super::{
    ab_args::{AbArgs, Side},
    live::Live,
    prepare::{self, Counter, Maker, PROMPTS_MAX, Sketch},
    ready::{before_load, client, only, probe, wait_until_ready},
    report::{ROWS, results_of},
    send::{Level, Loaded, Out, PAGE, STOPPING, stated},
    send_args::SendArgs,
};
use crate::{
    client::{Client, Prepared, Schedule, level},
    cmd::{
        disk::{new_directory, write_file},
        document::{self, FILE, ReportFormat},
        exit::{self, Interrupted, Usage},
        global::Global,
        output::{self, say, shown},
        progress::ProgressMode,
        share::Share,
        signals,
    },
};
use anyhow::{Context as _, bail};
use fizeau_device::clock;
use fizeau_domain::{text::counted, units::Seconds, verdict::Verdict};
use fizeau_projection::load::{
    ab::{self, Arm, Run, Trial, Way},
    capacity::Goal,
    target::Asked,
};
use fizeau_report::{Document, format::csv, load_ab};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

/// How long a cool-down sleeps at once, so that an end that is asked for is heard.
const NAP: Seconds = Seconds(0.1);

/// Words of B's prompts come from the streams of random words from here on, where both sides are
/// one server: it has the words of A in its prefix cache.
const WORDS_OF_B: u64 = 1 << 40;

/// Measures and judges.
///
/// # Errors
/// Where the arguments or a server do not let it begin, or rows cannot be kept.
pub fn run(args: &AbArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let settings = args.settings()?;
    let sides = args.sides()?;
    let goal = args.send.goal.read()?;
    let sketches = sketches(args)?;
    if args.send.plan {
        let mut lines = load_lines(args, &sides[0], &sketches)?;
        for side in &sides {
            let unknown = "(the only one of the server)";
            let model = side.args.model.as_deref().unwrap_or(unknown);
            lines.push(format!("{}: {}", ab::name(side.arm), side.words(model)));
        }
        lines.push("nothing was sent: leave out --plan to send it".into());
        return output::print(&lines.join("\n"));
    }
    let directory = directory(args)?;
    let interrupted = signals::watch_and_say(STOPPING)?;
    let _ = level::open_files_as_permitted();
    let lines = load_lines(args, &sides[0], &sketches)?;
    let [a, b] = sides;
    let both = [ready(a, &interrupted)?, ready(b, &interrupted)?];
    let connections = both[0].client.connections();
    let [a, _] = &both;
    let counter = before_load(&connections, &interrupted, || {
        prepare::counter(&a.side.args, &a.client, &connections, &a.asked.model)
    })?;
    let of_b = both[1].client.addresses();
    let course = Course {
        args,
        progress: global.progress,
        is_one_server: a.client.addresses().iter().any(|address| of_b.contains(address)),
        both: &both,
        counter: &counter,
        sketches: &sketches,
        directory: &directory,
        interrupted: &interrupted,
    };
    let notes = course.notes();
    say(&lines.join("\n"));
    for one in &both {
        say(&format!("{}: {}", ab::name(one.side.arm), one.words()));
    }
    notes.iter().for_each(|note| say(note));
    course.probe()?;
    let words = before_load(&connections, &interrupted, || course.words())?;
    let runs = course.run(&words, &goal)?;
    let about = format!(
        "{}; prompts {}{}; seed {}; {} {}",
        clock::utc_now(),
        counter.describe(),
        if course.is_one_server { ", other words for A and for B" } else { " of A" },
        args.send.seed,
        env!("CARGO_PKG_NAME"),
        env!("CARGO_PKG_VERSION")
    );
    let trial = Trial {
        model: a.asked.model.clone(),
        sides: [both[0].words(), both[1].words()],
        load: lines.into_iter().chain([about]).collect(),
        planned: args.rounds,
        runs,
        settings,
        is_interrupted: interrupted.load(Ordering::Relaxed),
        notes,
    };
    let most = args.fail_if_worse.map(|Share(most)| most);
    finish(&trial, most, &directory, global)
}

/// A sketch for each round: arrivals and lengths of the round, the same for both sides.
fn sketches(args: &AbArgs) -> anyhow::Result<Vec<Sketch>> {
    let rounds = args.rounds as usize;
    let mut send = args.send.clone();
    if send.rates().count() + send.places().count() > 1 || send.search.is_some() {
        let words = "A and B are compared at one level of load: give one rate, one --concurrency \
                     or one --trace";
        return Err(Usage(words.into()).into());
    }
    // A level of its own for each round draws new moments, lengths and words.
    send.rate = send.rate.iter().cycle().take(rounds * send.rate.len()).cloned().collect();
    let places = send.concurrency.iter().cycle().take(rounds * send.concurrency.len());
    send.concurrency = places.cloned().collect();
    let sketches = prepare::sketches(&send)?;
    // A trace states its moments and lengths, which every round repeats with new words.
    Ok(sketches.into_iter().cycle().take(rounds).collect())
}

/// What is sent to both, line by line.
fn load_lines(args: &AbArgs, a: &Side, sketches: &[Sketch]) -> anyhow::Result<Vec<String>> {
    let sketch = sketches.get(..1).unwrap_or_default();
    let all = stated(&args.send, &a.target, "", None, sketch)?;
    let of_load = all.into_iter().skip(1).map(|line| line.replacen("level 1:", "each run:", 1));
    let mut lines: Vec<String> = of_load.collect();
    let time = sketches.iter().map(|sketch| match &sketch.schedule {
        Schedule::Moments(moments) => moments.last().copied(),
        Schedule::Places(_, until) => *until,
    });
    let pauses = f64::from(2 * args.rounds - 1) * args.cool_down.0.0;
    let all = time.sum::<Option<f64>>().map_or_else(String::new, |time| {
        format!("; about {} in all", Seconds((2.0 * time + pauses).round()).human())
    });
    lines.push(format!(
        "{} of A and B under the same load, in the order A B, B A, and so on; {} between runs{all}",
        counted(args.rounds as usize, "round"),
        args.cool_down.0.human()
    ));
    Ok(lines)
}

/// The directory of this trial, which no other trial has; the first run makes it.
fn directory(args: &AbArgs) -> anyhow::Result<PathBuf> {
    let directory = match &args.send.out {
        Some(directory) => directory.clone(),
        None => new_directory(&clock::utc_now(), "load-ab"),
    };
    for round in 1..=args.rounds {
        for arm in [Arm::A, Arm::B] {
            let rows = run_directory(&directory, arm, round).join(ROWS);
            if rows.exists() {
                bail!("{} is of another trial: choose another --out DIR", shown(&rows));
            }
        }
    }
    Ok(directory)
}

/// Where the rows of a run are: a1, b1, a2 and so on.
fn run_directory(directory: &Path, arm: Arm, round: u32) -> PathBuf {
    directory.join(format!("{}{round}", ab::name(arm).to_lowercase()))
}

/// A side whose server answers.
struct Ready {
    side: Side,
    client: Client,
    asked: Asked,
}

impl Ready {
    fn words(&self) -> String {
        self.side.words(&self.asked.model)
    }
}

fn ready(side: Side, interrupted: &AtomicBool) -> anyhow::Result<Ready> {
    let name = ab::name(side.arm);
    if side.key.is_some() && !side.target.is_tls && !side.target.is_this_machine() {
        say(&format!("the API key travels unencrypted to {name}: its URL begins with http://"));
    }
    let client = client(&side.args, side.target.clone(), side.key.clone());
    let client = client.context(name)?;
    let models = wait_until_ready(&side.args, &client, interrupted).context(name)?;
    let model = match &side.args.model {
        Some(model) => model.clone(),
        None => only(&models).map_err(|Usage(why)| Usage(format!("{name}: {why}")))?,
    };
    let asked = side.args.asked(model, side.target.endpoint)?;
    Ok(Ready { side, client, asked })
}

/// A prompt before it becomes a request to one of the sides.
struct Text {
    text: String,
    input: u32,
    output: u32,
}

/// The prompts of a round.
struct Words {
    a: Vec<Text>,
    /// Those of B, where they are others.
    b: Option<Vec<Text>>,
}

struct Course<'c> {
    args: &'c AbArgs,
    progress: ProgressMode,
    /// Whether both sides are one server, as its address tells.
    is_one_server: bool,
    both: &'c [Ready; 2],
    counter: &'c Counter<'c>,
    sketches: &'c [Sketch],
    directory: &'c Path,
    interrupted: &'c AtomicBool,
}

impl Course<'_> {
    fn notes(&self) -> Vec<String> {
        let [a, b] = self.both;
        let is_same = self.is_one_server
            && a.asked == b.asked
            && a.side.target == b.side.target
            && a.side.args.api_key_file == b.side.args.api_key_file;
        let mut notes = Vec::new();
        if is_same {
            notes.push("A and B are the same: whatever is found is a wrong finding".to_owned());
        }
        notes
    }

    /// Sends each side one request before the load.
    fn probe(&self) -> anyhow::Result<()> {
        for one in self.both {
            let (asked, args) = (&one.asked, &one.side.args);
            let Course { counter, interrupted, .. } = *self;
            let maker = Maker { counter, asked, args, interrupted };
            let connections = one.client.connections();
            let name = ab::name(one.side.arm);
            let asks = || probe(&one.client, &connections, &maker, self.sketches).context(name);
            before_load(&connections, interrupted, asks)?;
        }
        Ok(())
    }

    /// The prompts of all rounds, made before the first is sent.
    fn words(&self) -> anyhow::Result<Vec<Words>> {
        let mut live = Live::new(self.progress);
        let sides = if self.is_one_server { 2 } else { 1 };
        let lengths = self.sketches.iter().map(|sketch| sketch.lengths.len());
        let of = sides * lengths.sum::<usize>();
        let (mut all, mut made, mut bytes) = (Vec::new(), 0, 0);
        for (round, sketch) in self.sketches.iter().enumerate() {
            let mut texts = |stream: u64| -> anyhow::Result<Vec<Text>> {
                let texts = self.texts(stream, sketch, &mut |now| live.prepares(made + now, of))?;
                made += texts.len();
                bytes += texts.iter().map(|one| one.text.len()).sum::<usize>();
                if bytes > PROMPTS_MAX {
                    bail!("the prompts of all rounds take more than 8 GiB of memory");
                }
                Ok(texts)
            };
            let round = round as u64;
            let a = texts(round)?;
            let b = self.is_one_server.then(|| texts(WORDS_OF_B + round)).transpose()?;
            all.push(Words { a, b });
        }
        Ok(all)
    }

    fn texts(
        &self,
        stream: u64,
        sketch: &Sketch,
        shows: &mut dyn FnMut(usize),
    ) -> anyhow::Result<Vec<Text>> {
        let args = SendArgs { keep_prompts: true, ..self.args.send.clone() };
        let Course { counter, interrupted, .. } = *self;
        let maker = Maker { counter, asked: &self.both[0].asked, args: &args, interrupted };
        let made = maker.make(stream, &sketch.lengths, sketch.blocks.as_ref(), shows)?;
        let text = |one: Prepared| {
            let Prepared { input, output, prompt, .. } = one;
            Text { text: prompt.unwrap_or_default(), input, output }
        };
        Ok(made.requests.into_iter().map(text).collect())
    }

    /// Sends all rounds; what each run met, in the order in which they were sent.
    fn run(&self, words: &[Words], goal: &Goal) -> anyhow::Result<Vec<Run>> {
        let mut runs = Vec::new();
        for (round, (sketch, words)) in (1..).zip(self.sketches.iter().zip(words)) {
            for arm in ab::order(round) {
                if round > 1 || arm == Arm::B {
                    self.cool_down();
                }
                if self.is_over() {
                    return Ok(runs);
                }
                let one = &self.both[usize::from(arm == Arm::B)];
                let texts = words.b.as_ref().filter(|_| arm == Arm::B).unwrap_or(&words.a);
                let name = ab::name(arm);
                say(&format!("round {round} of {}: {name}", self.args.rounds));
                let directory = self.send(one, sketch, texts, (round, goal))?;
                let is_whole = !self.is_over();
                let results = results_of(&directory.join(ROWS), &goal.limits)?;
                // Without a row there is no level: it was interrupted before one ended.
                let level = results.source.levels.into_iter().next();
                runs.extend(level.map(|level| Run { round, arm, is_whole, level }));
            }
        }
        Ok(runs)
    }

    /// One run of a side; the directory with its rows.
    fn send(
        &self,
        one: &Ready,
        sketch: &Sketch,
        texts: &[Text],
        (round, goal): (u32, &Goal),
    ) -> anyhow::Result<PathBuf> {
        let out = run_directory(self.directory, one.side.arm, round);
        let args = SendArgs { out: Some(out), ..one.side.args.clone() };
        let request = |text: &Text| Prepared {
            body: one.asked.body(&text.text, text.output),
            input: text.input,
            output: text.output,
            prompt: args.keep_prompts.then(|| text.text.clone()),
        };
        let requests = texts.iter().map(request).collect();
        let Course { counter, interrupted, .. } = *self;
        let maker = Maker { counter, asked: &one.asked, args: &args, interrupted };
        let loaded = Loaded {
            args: &args,
            client: &one.client,
            maker: &maker,
            levels: vec![Level { sketch, requests }],
            goal: *goal,
            scraper: None,
        };
        let sent = loaded.send(Out::make(&args)?, Live::new(self.progress), self.interrupted);
        sent.with_context(|| format!("round {round}, {}", ab::name(one.side.arm)))
    }

    fn is_over(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    fn cool_down(&self) {
        let start = clock::now();
        while !self.is_over() && start.elapsed() < self.args.cool_down.0 {
            clock::rest(Seconds(NAP.0.min(self.args.cool_down.0.0)));
        }
    }
}

/// Judges and reports.
fn finish(
    trial: &Trial,
    most: Option<f64>,
    directory: &Path,
    global: &Global,
) -> anyhow::Result<ExitCode> {
    if trial.runs.is_empty() {
        return Err(Interrupted.into());
    }
    let document = load_ab(trial);
    let format = if global.json { ReportFormat::Json } else { ReportFormat::Terminal };
    output::write_out(&document::render(&document, format, document::window(global))?)?;
    write_files(&document, directory)?;
    say(&format!("rows of each run and the report (html, json, csv) are in {}", shown(directory)));
    let is_answered = [Arm::A, Arm::B].iter().all(|arm| trial.answered(*arm) > 0);
    let judged = trial.judged();
    let is_judged = judged.iter().any(|one| one.way != Way::TooFew);
    Ok(match (trial.is_interrupted, most) {
        (true, _) => ExitCode::from(exit::INTERRUPTED),
        (false, _) if !is_answered || !is_judged => ExitCode::from(exit::FAILED),
        (false, None) => ExitCode::SUCCESS,
        (false, Some(most)) => {
            let (verdict, metrics) = ab::gate(&judged, most);
            let names: Vec<&str> = metrics.iter().map(|one| one.name()).collect();
            let (names, most) = (names.join(", "), most * 100.0);
            say(&match verdict {
                Verdict::Fail => format!("B is worse by more than {most} % in {names}"),
                Verdict::Pass => format!("B is not worse by more than {most} % in any metric"),
                _ => format!(
                    "the rounds do not exclude that B is worse by more than {most} % in {names}: \
                     ask for more --rounds"
                ),
            });
            ExitCode::from(verdict.exit_code())
        }
    })
}

fn write_files(document: &Document, directory: &Path) -> anyhow::Result<()> {
    let files = [
        (PAGE, document::render(document, ReportFormat::Html, FILE)?),
        ("report.json", document::render(document, ReportFormat::Json, FILE)?),
        ("verdicts.csv", csv::of_tables(document, &["verdicts"])?),
        ("rounds.csv", csv::of_tables(document, &["rounds"])?),
    ];
    for (name, text) in files.into_iter().filter(|(_, text)| !text.is_empty()) {
        write_file(&directory.join(name), text.as_bytes(), "--out DIR")?;
    }
    Ok(())
}
