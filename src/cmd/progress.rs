//! How far a run is, on standard error: what is left, about how long that takes, and each finished
//! case with its rate.
//!
//! On a terminal one line is drawn at the bottom, between cases only, so that nothing but the case
//! runs while it is timed. Elsewhere plain lines are written, at most one a second, and one for
//! each minute without another: by a thread that sleeps until then.

use super::records;
use crate::session::Watcher;
use clap::ValueEnum;
use fizeau_device::clock::{self, Moment};
use fizeau_domain::{case::Case, outcome::Outcome, units::Seconds};
use fizeau_record::Header;
use fizeau_report::{
    self as report, Finished,
    format::{cell, clean, shorten_id},
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    collections::HashMap,
    io::{self, IsTerminal, Write},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

/// Between two plain lines, at least.
const LINE_EVERY: Seconds = Seconds(1.0);

/// After this time without a plain line there is one that says that the run is alive.
const HEARTBEAT: Seconds = Seconds(60.0);

/// Columns of a line beside a case's id.
const BESIDE_ID: usize = 46;

/// Which progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ProgressMode {
    /// A line that is redrawn on a terminal, plain lines elsewhere
    #[default]
    Auto,
    /// Plain lines
    Plain,
    /// Nothing
    Off,
}

/// How far a run is.
pub struct Progress<'h> {
    header: &'h Header,
    /// Estimated time of each case that is left.
    estimates: HashMap<&'h Case, Seconds>,
    clock: RunClock,
    failed: usize,
    place: usize,
    of: usize,
    shown: Shown,
}

/// Where it is shown.
enum Shown {
    Bar { bar: ProgressBar, id_width: usize },
    Lines(Lines),
    Nothing,
}

impl<'h> Progress<'h> {
    /// For the cases of a plan that are left, with the time that each is estimated to take.
    pub fn new(
        header: &'h Header,
        left: HashMap<&'h Case, Seconds>,
        mode: ProgressMode,
    ) -> Progress<'h> {
        let of = left.len();
        let all = left.values().fold(Seconds(0.0), |sum, time| sum + *time);
        let is_terminal = io::stderr().is_terminal();
        let shown = match mode {
            ProgressMode::Off => Shown::Nothing,
            ProgressMode::Auto if is_terminal => bar(left.keys().copied(), of),
            ProgressMode::Auto | ProgressMode::Plain => Shown::Lines(Lines::start()),
        };
        if let Shown::Lines(lines) = &shown {
            lines.write(&format!(
                "fizeau: {of} {} of suite {} on {}, about {}",
                if of == 1 { "case" } else { "cases" },
                header.suite,
                header.device.name,
                all.human()
            ));
        }
        let clock = RunClock { start: clock::now(), done: Seconds(0.0), left: all };
        Progress { header, estimates: left, clock, failed: 0, place: 0, of, shown }
    }

    /// "3/168, 1 failed, about 40 s left".
    fn state(&self) -> String {
        let failed = match self.failed {
            0 => String::new(),
            count => format!(", {count} failed"),
        };
        let left = match self.place == self.of {
            true => "done".to_owned(),
            false => format!("about {} left", self.clock.remaining().human()),
        };
        format!("{}/{}{failed}, {left}", self.place, self.of)
    }
}

fn bar<'c>(cases: impl Iterator<Item = &'c Case>, of: usize) -> Shown {
    // No running clock: it would stand still while a case is timed, and look dead.
    let style =
        ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
    // No steady tick: it would be a thread beside the one that is timed.
    let target = ProgressDrawTarget::stderr();
    let bar = ProgressBar::with_draw_target(Some(of as u64), target).with_style(style);
    let longest = cases.map(|case| case.to_string().chars().count()).max().unwrap_or(0);
    let window = terminal_size::terminal_size_of(io::stderr());
    let window = window.map_or(usize::from(u16::MAX), |(width, _)| usize::from(width.0));
    Shown::Bar { bar, id_width: longest.min(window.saturating_sub(BESIDE_ID)).max(16) }
}

impl Watcher for Progress<'_> {
    fn starts(&mut self, place: usize, of: usize, case: &Case) {
        (self.place, self.of) = (place, of);
        let id = clean(&case.to_string());
        match &self.shown {
            Shown::Bar { bar, .. } => {
                bar.set_position(place as u64);
                bar.set_message(format!("{}  measuring {id}", self.state()));
                bar.tick();
            }
            Shown::Lines(lines) => lines.begins(&id, &self.state()),
            Shown::Nothing => {}
        }
    }

    fn ended(&mut self, outcome: &Outcome) {
        self.place += 1;
        self.failed += usize::from(records::is_broken(outcome));
        let estimate = self.estimates.get(outcome.case()).copied().unwrap_or_default();
        self.clock.passes(estimate);
        let id = clean(&outcome.case().to_string());
        let finished = report::finished(outcome, self.header);
        match &self.shown {
            Shown::Bar { bar, id_width } => {
                let id = shorten_id(&id, *id_width);
                bar.println(format!("{id:<id_width$}  {}", figures(&finished)));
            }
            Shown::Lines(lines) => {
                let line = format!("{}  {id}  {}", self.state(), figures(&finished).trim_start());
                let broken = records::is_broken(outcome);
                lines.offer(&line, broken || self.place == self.of);
            }
            Shown::Nothing => {}
        }
    }
}

impl Drop for Progress<'_> {
    /// Takes the line away, whichever way the run ended.
    fn drop(&mut self) {
        if let Shown::Bar { bar, .. } = &self.shown {
            bar.finish_and_clear();
        }
    }
}

/// "28.35 GB/s   55.4 % of datasheet", or why there is no number.
fn figures(finished: &Finished) -> String {
    let value = clean(&cell::text(&finished.value));
    match finished.share {
        Some((share, of)) => format!("{value:>13}  {:>7} of {of}", cell::percent(share)),
        None if cell::is_number(&finished.value) => format!("{value:>13}"),
        None => value,
    }
}

/// How long a run still takes: what is estimated of its cases that are left, by how much the
/// estimates of the others were off.
struct RunClock {
    start: Moment,
    /// Estimates of the cases that are over, together.
    done: Seconds,
    /// Estimates of the others.
    left: Seconds,
}

impl RunClock {
    fn passes(&mut self, estimate: Seconds) {
        self.done = self.done + estimate;
        self.left = Seconds((self.left.0 - estimate.0).max(0.0));
    }

    fn remaining(&self) -> Seconds {
        remaining(self.start.elapsed(), self.done, self.left)
    }
}

/// The first few seconds of estimates tell too little of how far the others are off.
const TOLD_BY: Seconds = Seconds(2.0);

fn remaining(elapsed: Seconds, done: Seconds, left: Seconds) -> Seconds {
    let factor = (elapsed + TOLD_BY) / (done + TOLD_BY);
    Seconds((left.0 * factor).round())
}

/// Plain lines, and the thread that says that a run is alive.
struct Lines {
    shared: Arc<(Mutex<Said>, Condvar)>,
    heartbeat: Option<JoinHandle<()>>,
}

/// What was written last.
struct Said {
    at: Moment,
    /// The case that is running, and since when.
    current: Option<(String, Moment)>,
    ended: bool,
}

impl Lines {
    fn start() -> Lines {
        let said = Said { at: clock::now(), current: None, ended: false };
        let shared = Arc::new((Mutex::new(said), Condvar::new()));
        let own = Arc::clone(&shared);
        // Without it a long case has no line, and nothing else is missing.
        let heartbeat = thread::Builder::new().spawn(move || beat(&own)).ok();
        Lines { shared, heartbeat }
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, line: &str) {
        write(&mut self.said(), line);
    }

    /// A case begins, which is only told where it takes long.
    fn begins(&self, id: &str, state: &str) {
        self.said().current = Some((format!("{state}  {id}"), clock::now()));
    }

    /// Writes a line unless there was one within the last second, or anyway.
    fn offer(&self, line: &str, anyway: bool) {
        let mut said = self.said();
        said.current = None;
        if anyway || said.at.elapsed() >= LINE_EVERY {
            write(&mut said, line);
        }
    }
}

fn write(said: &mut Said, line: &str) {
    // Where it is closed there is nobody to tell.
    let _ = writeln!(io::stderr(), "{}", clean(line));
    said.at = clock::now();
}

/// Writes a line for each minute without one, until the run has ended.
fn beat(shared: &(Mutex<Said>, Condvar)) {
    let (said, ends) = shared;
    let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
    while !said.ended {
        let rest = HEARTBEAT.0 - said.at.elapsed().0;
        if rest <= 0.0 {
            let line = match &said.current {
                Some((case, since)) => format!("{case}  since {}", since.elapsed().human()),
                None => "still running".to_owned(),
            };
            write(&mut said, &line);
            continue;
        }
        let waited = ends.wait_timeout(said, Duration::from_secs_f64(rest));
        said = waited.map_or_else(|error| error.into_inner().0, |(said, _)| said);
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.said().ended = true;
        self.shared.1.notify_all();
        if let Some(heartbeat) = self.heartbeat.take() {
            let _ = heartbeat.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_from_how_far_estimates_were_off() {
        let left = |elapsed: f64, done: f64, left: f64| {
            remaining(Seconds(elapsed), Seconds(done), Seconds(left)).0
        };
        assert_eq!(left(0.0, 0.0, 100.0), 100.0);
        // Twice as slow as estimated.
        assert!((left(200.0, 100.0, 50.0) - 100.0).abs() < 2.0);
        assert_eq!(left(10.0, 20.0, 0.0), 0.0);
    }
}
