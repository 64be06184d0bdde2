//! `fizeau load URL`: sends requests, keeps a row of each, and reports.

use super::{
    live::Live,
    prepare::{self, Made, Maker, Sketch},
    ready::{before_load, client, key, only, probe, wait_until_ready},
    report::{ROWS, results_of},
    send_args::SendArgs,
};
use crate::{
    client::{
        Client, Key, Outcome, Prepared, Schedule, Scraper, State, Watcher,
        level::{self as client_level, Work},
    },
    cmd::{
        disk::{self, new_directory, write_file},
        document::{self, ReportFormat},
        exit::{self, Usage},
        global::Global,
        output::{self, say, shown},
        share::Share,
        signals,
    },
};
use anyhow::Context as _;
use fizeau_device::clock;
use fizeau_domain::{text::counted, units::Seconds, verdict::Verdict};
use fizeau_projection::load::{
    Header, Line, Offered, Row, Sample, Stop, capacity::Goal, level::Level as Measured,
    row::VERSION, search::Search, target::Target,
};
use fizeau_report::{LoadResults, load as document, load_summary};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread,
};

/// Where servers state their metrics.
const METRICS: &str = "/metrics";

/// The page of a run, in its directory.
pub const PAGE: &str = "report.html";

/// Lines of the summary that a run ends with. The names of its files come after it, so that all
/// fits into 20 lines.
const LINES_MAX: usize = 17;

/// What a first request to end is answered.
pub const STOPPING: &str = "sending no more requests; waiting for those under way; ask again \
     (Ctrl-C) to stop now: the rows of requests that have ended stay";

/// Sends requests.
///
/// # Errors
/// Where the arguments or the server do not let it begin, or rows cannot be kept.
pub fn run(args: &SendArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let Some(url) = &args.url else {
        let words = "say where requests go: fizeau load http://host:8000 --rate 4; or what else to \
                     do: fizeau load report, serve, self-test";
        return Err(Usage(words.into()).into());
    };
    let target = Target::parse(url, args.endpoint.map(Into::into));
    let target = target.map_err(|why| {
        Usage(format!("{why}; `fizeau load --help` has what else it takes in place of a URL"))
    })?;
    let goal = args.goal.read()?;
    let others = args.metrics()?;
    let sketches = prepare::sketches(args)?;
    let mut asked = args.asked(args.model.clone().unwrap_or_default(), target.endpoint)?;
    let headers = args.headers()?;
    let key = key(args)?;
    if args.plan {
        let model = args.model.as_deref().unwrap_or("(the only one of the server)");
        let mut lines = stated(args, &target, model, key.as_ref(), &sketches)?;
        lines.push("nothing was sent: leave out --plan to send it".into());
        return output::print(&lines.join("\n"));
    }
    let is_secret = key.is_some() || !headers.is_empty();
    if is_secret && !target.is_tls && !target.is_this_machine() {
        say("the API key travels unencrypted to this server: its URL begins with http://");
    }
    let interrupted = signals::watch_and_say(STOPPING)?;
    let _ = client_level::open_files_as_permitted();
    let client = client(args, target, key)?;
    let connections = client.connections();
    Out::tried(args)?;
    let models = wait_until_ready(args, &client, &interrupted)?;
    if args.model.is_none() {
        asked.model = only(&models)?;
    }
    let counter = before_load(&connections, &interrupted, || {
        prepare::counter(args, &client, &connections, &asked.model)
    })?;
    let lines = stated(args, &client.target, &asked.model, client.key(), &sketches)?;
    say(&lines.join("\n"));
    let scraper = (!args.no_metrics)
        .then(|| Scraper::find(&client, METRICS, others, args.metrics_every.0))
        .flatten();
    if scraper.is_none() && !args.metric.is_empty() {
        say("the server has none of the metrics of --metric at /metrics");
    }
    let maker = Maker { counter: &counter, asked: &asked, args, interrupted: &interrupted };
    let mut live = Live::new(global.progress);
    let levels = before_load(&connections, &interrupted, || {
        probe(&client, &connections, &maker, &sketches)?;
        made(&maker, &sketches, &mut live)
    })?;
    let loaded = Loaded { args, client: &client, maker: &maker, levels, goal, scraper };
    let directory = loaded.send(Out::make(args)?, live, &interrupted)?;
    let is_interrupted = interrupted.load(Ordering::Relaxed);
    finish(&directory, &goal, args.max_failed, global, is_interrupted)
}

/// A level that is ready to be sent.
pub struct Level<'s> {
    pub sketch: &'s Sketch,
    pub requests: Vec<Prepared>,
}

fn made<'s>(
    maker: &Maker<'_>,
    sketches: &'s [Sketch],
    live: &mut Live,
) -> anyhow::Result<Vec<Level<'s>>> {
    let of = sketches.iter().map(|sketch| sketch.lengths.len()).sum();
    let (mut levels, mut before, mut missed_all) = (Vec::new(), 0, 0);
    for (at, sketch) in sketches.iter().enumerate() {
        let mut shows = |made: usize| live.prepares(before + made, of);
        let blocks = sketch.blocks.as_ref();
        let made = maker.make(at as u64, &sketch.lengths, blocks, &mut shows)?;
        let Made { requests, missed } = made;
        before += requests.len();
        missed_all += missed;
        levels.push(Level { sketch, requests });
    }
    if missed_all > 0 {
        live.say(&format!(
            "{missed_all} of {of} prompts could not be made of the drawn number of tokens; their \
             rows have the number that the tokenizer counts"
        ));
    }
    Ok(levels)
}

/// What will be sent, line by line.
pub fn stated(
    args: &SendArgs,
    target: &Target,
    model: &str,
    key: Option<&Key>,
    sketches: &[Sketch],
) -> anyhow::Result<Vec<String>> {
    let secret = if key.is_some() { "with an API key" } else { "without an API key" };
    let mut lines = vec![format!("requests to {target}, model {model}, {secret}")];
    let end = if args.no_ignore_eos { "or to the model's end mark" } else { "end mark ignored" };
    lines.push(match &args.trace {
        Some(path) => format!("moments and lengths by {}; answers: {end}", shown(path)),
        None => {
            let (input, output) = args.lengths()?;
            format!("prompts: {input} tokens; answers: {output} tokens, {end}")
        }
    });
    if let Some(tokens) = args.shared_prefix {
        lines.push(format!("all prompts begin with the same {tokens} tokens"));
    }
    for (at, sketch) in sketches.iter().enumerate() {
        lines.extend(sketch.told.iter().cloned());
        let plan = &sketch.plan;
        let arrivals = match (args.trace.is_some(), plan.rate) {
            (true, _) => "open loop by the trace".to_owned(),
            (false, Some(rate)) => format!("open loop, {rate} requests/s, {}", args.arrivals),
            (false, None) => format!("closed loop, {} at once", plan.concurrency.unwrap_or(1)),
        };
        let time = match &sketch.schedule {
            Schedule::Moments(moments) => of_moments(moments, plan.warmup as usize),
            Schedule::Places(_, Some(until)) => {
                format!("no longer than {}", Seconds(*until).human())
            }
            Schedule::Places(_, None) => "as long as they take".into(),
        };
        lines.push(format!(
            "level {}: {arrivals}; {} measured after {} to warm up, {time}",
            at + 1,
            counted(plan.requests as usize, "request"),
            plan.warmup
        ));
    }
    Ok(lines)
}

/// How long a level of known moments takes, and how much of that its warm-up does.
fn of_moments(moments: &[f64], warmup: usize) -> String {
    // Shorter ones are told to the millisecond.
    let human = |time: f64| Seconds(if time < 10.0 { time } else { time.round() }).human();
    let last = moments.last().copied().unwrap_or(0.0);
    match moments.get(warmup).filter(|_| warmup > 0) {
        None => format!("about {}", human(last)),
        Some(first) => format!(
            "about {}: the warm-up takes {} of it (--warmup N), and --duration counts the rest",
            human(last),
            human(*first)
        ),
    }
}

/// Where rows go.
pub struct Out {
    directory: PathBuf,
    path: PathBuf,
    file: File,
}

impl Out {
    /// Finds out before anything is asked of the server whether rows can be kept in `--out`. What
    /// it makes for that, it takes away.
    ///
    /// # Errors
    /// As [`Out::make`].
    fn tried(args: &SendArgs) -> anyhow::Result<()> {
        let Some(directory) = &args.out else { return Ok(()) };
        let was_there = directory.exists();
        let Out { path, .. } = Out::make(args)?;
        let _ = fs::remove_file(&path);
        if !was_there {
            let _ = fs::remove_dir(directory);
        }
        Ok(())
    }

    /// Makes the directory and the file of rows.
    ///
    /// # Errors
    /// Where it cannot be made, or is there already.
    pub fn make(args: &SendArgs) -> anyhow::Result<Out> {
        let directory = args.out.clone();
        let directory = directory.unwrap_or_else(|| new_directory(&clock::utc_now(), "load"));
        disk::make_directory(&directory, "--out DIR")?;
        let path = directory.join(ROWS);
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        let file = file.with_context(|| format!("cannot make {} (--out DIR)", shown(&path)))?;
        Ok(Out { directory, path, file })
    }
}

/// Levels that are ready to be sent to a server.
pub struct Loaded<'l> {
    /// What the user asked for.
    pub args: &'l SendArgs,
    /// The server.
    pub client: &'l Client,
    /// Makes requests.
    pub maker: &'l Maker<'l>,
    /// What is sent, in order.
    pub levels: Vec<Level<'l>>,
    /// What a search looks for.
    pub goal: Goal,
    /// Asks for the server's own metrics, where it has any.
    pub scraper: Option<Scraper>,
}

impl Loaded<'_> {
    /// Sends all levels; the directory with their rows.
    ///
    /// # Errors
    /// Where rows cannot be kept, or nothing can be sent.
    pub fn send(&self, out: Out, live: Live, interrupted: &AtomicBool) -> anyhow::Result<PathBuf> {
        let date = clock::utc_now();
        let Out { directory, path, file } = out;
        let (samples, hear) = mpsc::channel();
        let searches = self.args.search.is_some();
        let keeper = Keeper { file, live, hear, searches, rows: Vec::new() };
        let search = Search::new(self.args.search.unwrap_or(0));
        let level = self.levels.len();
        let mut course = Course { loaded: self, samples, interrupted, path, keeper, search, level };
        course.keep(&Line::Load(self.header(date)?))?;
        let cpu = clock::cpu_time();
        course.run()?;
        let stop = Stop {
            interrupted: interrupted.load(Ordering::Relaxed),
            cpu_seconds: clock::cpu_time().0 - cpu.0,
        };
        course.keep(&Line::End(stop))?;
        Ok(directory)
    }

    /// Sends one level, and asks for the server's metrics meanwhile.
    fn send_level(
        &self,
        level: usize,
        one: &Level<'_>,
        samples: &Sender<Sample>,
        interrupted: &AtomicBool,
        keeper: &mut Keeper,
    ) -> io::Result<()> {
        let plan = &one.sketch.plan;
        let offered = Offered::stated(plan.rate, plan.burstiness, plan.concurrency);
        keeper.live.begins(offered.describe(), plan);
        let work = Work {
            level,
            seed: self.args.seed,
            warmup: plan.warmup,
            requests: &one.requests,
            schedule: &one.sketch.schedule,
        };
        let is_over = AtomicBool::new(false);
        let start = clock::now();
        thread::scope(|scope| {
            let samples = samples.clone();
            if let Some(scraper) = &self.scraper {
                let is_over = &is_over;
                let named = thread::Builder::new().name("metrics".into());
                named
                    .spawn_scoped(scope, move || scraper.watch(level, start, is_over, &samples))?;
            }
            let sent = client_level::run(self.client, work, interrupted, keeper);
            is_over.store(true, Ordering::Relaxed);
            sent
        })?;
        keeper.keep_samples()
    }

    fn header(&self, date: String) -> anyhow::Result<Header> {
        let workload = match &self.args.trace {
            Some(path) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                format!("trace {name}")
            }
            None => {
                let (input, output) = self.args.lengths()?;
                format!("prompts {input} tokens, answers {output} tokens")
            }
        };
        let shared = self.args.shared_prefix.map_or_else(String::new, |tokens| {
            format!(", all beginning with the same {tokens} tokens")
        });
        Ok(Header {
            version: VERSION,
            program: concat!("fizeau ", env!("CARGO_PKG_VERSION")).into(),
            date,
            url: self.client.target.to_string(),
            model: self.maker.asked.model.clone(),
            endpoint: self.maker.asked.endpoint.name().into(),
            workload,
            prompts: format!("{}{shared}", self.maker.counter.describe()),
            seed: self.args.seed,
            levels: self.levels.iter().map(|one| one.sketch.plan.clone()).collect(),
        })
    }
}

/// All levels of a load as they are sent.
struct Course<'c> {
    loaded: &'c Loaded<'c>,
    samples: Sender<Sample>,
    interrupted: &'c AtomicBool,
    path: PathBuf,
    keeper: Keeper,
    search: Search,
    /// The number of the next level that is decided upon on the way.
    level: usize,
}

impl Course<'_> {
    fn keep(&mut self, line: &Line) -> anyhow::Result<()> {
        self.keeper.keep(line).with_context(|| shown(&self.path))
    }

    fn is_over(&self) -> bool {
        let found = self.search.has_missed() || self.search.is_ended();
        self.interrupted.load(Ordering::Relaxed) || self.keeper.searches && found
    }

    /// Sends the levels that were planned, until one misses the limits where rates are searched
    /// for, and then those that the search asks for.
    fn run(&mut self) -> anyhow::Result<()> {
        for (level, one) in self.loaded.levels.iter().enumerate() {
            if self.is_over() {
                break;
            }
            if self.send(level, one)? {
                self.again(one.sketch.plan.rate)?;
            }
        }
        while !self.interrupted.load(Ordering::Relaxed)
            && let Some(rate) = self.search.next_rate()
        {
            if self.more(rate)? {
                self.again(Some(rate))?;
            }
        }
        Ok(())
    }

    /// Sends a level. Whether it says nothing to the search, since the client was late.
    fn send(&mut self, level: usize, one: &Level<'_>) -> anyhow::Result<bool> {
        let Course { loaded, interrupted, keeper, .. } = self;
        let sent = loaded.send_level(level, one, &self.samples, interrupted, keeper);
        sent.with_context(|| format!("level {}, rows in {}", level + 1, shown(&self.path)))?;
        let plan = &one.sketch.plan;
        let Some(rate) = plan.rate.filter(|_| keeper.searches) else { return Ok(false) };
        let rows: Vec<&Row> = keeper.rows.iter().collect();
        let goal = &loaded.goal;
        let met = fizeau_projection::load::Level::of_rows(plan, &rows, &goal.limits);
        keeper.rows.clear();
        let is_late = met.is_not_judged(goal.share);
        if !is_late {
            self.search.met(rate, met.keeps(goal.share) == Some(true));
        }
        Ok(is_late)
    }

    /// Sends a level more at a rate. What it says is that of [`Course::send`].
    fn more(&mut self, rate: f64) -> anyhow::Result<bool> {
        let number = self.level as u64;
        let sketch = prepare::sketch(self.loaded.args, number, Some(rate), None)?;
        let made = self.loaded.maker.make(number, &sketch.lengths, None, &mut |_| {})?;
        self.keep(&Line::Level(sketch.plan.clone()))?;
        self.level += 1;
        self.send(number as usize, &Level { sketch: &sketch, requests: made.requests })
    }

    /// Sends a rate once more at which the client was late. Where it is late again the search ends.
    fn again(&mut self, rate: Option<f64>) -> anyhow::Result<()> {
        let is_over = self.interrupted.load(Ordering::Relaxed);
        let Some(rate) = rate.filter(|_| !is_over) else { return Ok(()) };
        say(&format!("the client was late at {rate} requests/s: the level is sent once more"));
        if self.more(rate)? {
            self.search.ends();
            say("the client was late again: the search ends, since it could name no rate");
        }
        Ok(())
    }
}

/// Keeps rows and shows how far it is.
struct Keeper {
    file: File,
    live: Live,
    hear: Receiver<Sample>,
    /// Whether a search looks at the rows of each level.
    searches: bool,
    rows: Vec<Row>,
}

impl Keeper {
    /// Appends a line at once, so that a process that is killed has lost nothing that had ended.
    fn keep(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        self.file.write_all(text.as_bytes())
    }

    /// Keeps what the server has said of itself.
    fn keep_samples(&mut self) -> io::Result<()> {
        while let Ok(sample) = self.hear.try_recv() {
            self.keep(&Line::Server(sample))?;
        }
        Ok(())
    }
}

impl Watcher for Keeper {
    fn ended(&mut self, outcome: Outcome) -> io::Result<()> {
        self.live.ended(&outcome.row, outcome.message.as_deref());
        if self.searches {
            self.rows.push(Row { prompt: None, answer: None, ..outcome.row.clone() });
        }
        self.keep_samples()?;
        self.keep(&Line::Request(outcome.row))
    }

    fn passes(&mut self, state: State) {
        self.live.passes(state);
    }
}

/// At most [`LINES_MAX`] lines of a text, the last of which says where the others are.
fn first_lines(text: &str, rows: &Path) -> String {
    let count = text.lines().count();
    if count <= LINES_MAX {
        return text.to_owned();
    }
    let kept: Vec<&str> = text.lines().take(LINES_MAX - 1).collect();
    let left = count - kept.len();
    let left = counted(left, "more line");
    let where_else = format!("and {left}: fizeau load report {}", shown(rows));
    format!("{}\n{where_else}\n", kept.join("\n"))
}

/// Reports what the rows say.
fn finish(
    directory: &Path,
    goal: &Goal,
    max_failed: Share,
    global: &Global,
    is_interrupted: bool,
) -> anyhow::Result<ExitCode> {
    let rows = directory.join(ROWS);
    let results: LoadResults = results_of(&rows, &goal.limits)?;
    let levels = &results.source.levels;
    let share = |level: &Measured| {
        let all = level.answered.saturating_add(level.failures());
        level.failures() as f64 / all.max(1) as f64
    };
    let worst = levels.iter().map(share).fold(0.0, f64::max);
    let is_answered = !levels.is_empty()
        && levels.iter().all(|level| level.answered > 0)
        && worst <= max_failed.0;
    let is_judged = !goal.is_missed_by_a_late_client(levels);
    let results = [results];
    let window = document::window(global);
    let document = document(&results, None, goal);
    let page = document::render(&document, ReportFormat::Html, window)?;
    write_file(&directory.join(PAGE), page.as_bytes(), "--out DIR")?;
    let text = match global.json {
        true => document::render(&document, ReportFormat::Json, window)?,
        false => {
            let summary = load_summary(&results, goal);
            first_lines(&document::render(&summary, ReportFormat::Terminal, window)?, &rows)
        }
    };
    output::write_out(&text)?;
    if worst > max_failed.0 {
        let [worst, most] = [worst, max_failed.0].map(|share| 100.0 * share);
        say(&format!("{worst:.1} % of the requests of a level failed: --max-failed is {most} %"));
    }
    say(&format!(
        "rows and page are in {}; `fizeau load report {} --on PART_OR_RECORD --model MODEL` sets \
         them beside what the hardware allows",
        shown(directory),
        shown(&rows)
    ));
    Ok(match (is_interrupted, is_answered) {
        (true, _) => ExitCode::from(exit::INTERRUPTED),
        (false, false) => ExitCode::from(exit::FAILED),
        (false, true) if is_judged => ExitCode::SUCCESS,
        (false, true) => ExitCode::from(Verdict::Inconclusive.exit_code()),
    })
}
