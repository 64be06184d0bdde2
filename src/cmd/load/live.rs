//! The live line of a load, on standard error: how far it is, and what it meets.

use crate::{
    client::State,
    cmd::{
        output::{self, has_terminal},
        progress::ProgressMode,
    },
};
use fizeau_device::clock::{self, Moment};
use fizeau_domain::{stats::quantile, text::clean, units::Seconds};
use fizeau_projection::load::{Ending, Plan, Row};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::{BTreeSet, VecDeque};

/// Between two drawings of the line on a terminal.
const DRAW_EVERY: Seconds = Seconds(0.25);

/// Between two plain lines.
const LINE_EVERY: Seconds = Seconds(10.0);

/// Requests that the figures of the line are of: the last ones.
const LAST: usize = 100;

/// What is shown while requests are sent.
pub struct Live {
    shown: Shown,
    level: String,
    of: u64,
    answered: u64,
    failed: u64,
    firsts: VecDeque<f64>,
    drawn: Moment,
    told: BTreeSet<Ending>,
}

enum Shown {
    Bar(ProgressBar),
    Lines,
    Nothing,
}

impl Live {
    /// Nothing yet.
    pub fn new(mode: ProgressMode) -> Live {
        let shown = match mode {
            ProgressMode::Off => Shown::Nothing,
            ProgressMode::Auto if has_terminal() => {
                let style = ProgressStyle::with_template("{wide_msg}");
                let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
                let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
                Shown::Bar(bar.with_style(style))
            }
            ProgressMode::Auto | ProgressMode::Plain => Shown::Lines,
        };
        Live {
            shown,
            level: String::new(),
            of: 0,
            answered: 0,
            failed: 0,
            firsts: VecDeque::new(),
            drawn: clock::now(),
            told: BTreeSet::new(),
        }
    }

    /// A level begins.
    pub fn begins(&mut self, name: String, plan: &Plan) {
        (self.level, self.of) = (name, plan.requests + plan.warmup);
        (self.answered, self.failed) = (0, 0);
        self.firsts.clear();
        self.draw(State::default());
    }

    /// How far the making of prompts is.
    pub fn prepares(&mut self, made: usize, of: usize) {
        if self.drawn.elapsed() > self.every() {
            self.show(format!("making prompts: {made} of {of}"));
        }
    }

    /// A request has ended; the first message of each kind of failure is shown.
    pub fn ended(&mut self, row: &Row, message: Option<&str>) {
        if row.ending == Ending::Answered {
            self.answered += 1;
            self.firsts.extend(row.ttft());
            while self.firsts.len() > LAST {
                self.firsts.pop_front();
            }
            return;
        }
        self.failed += 1;
        if self.told.insert(row.ending) {
            let words = message.map_or_else(String::new, |message| format!(": {message}"));
            self.say(&format!(
                "request {} of {}: {}{words} (later ones of this kind are only counted)",
                row.number,
                self.level,
                row.ending.name()
            ));
        }
    }

    /// Some time has passed.
    pub fn passes(&mut self, state: State) {
        if self.drawn.elapsed() > self.every() {
            self.draw(state);
        }
    }

    fn every(&self) -> Seconds {
        if matches!(self.shown, Shown::Bar(_)) { DRAW_EVERY } else { LINE_EVERY }
    }

    fn draw(&mut self, state: State) {
        let mut words = vec![format!("{}: {}/{} sent", self.level, state.sent, self.of)];
        words.push(format!("{} answered", self.answered));
        if self.failed > 0 {
            words.push(format!("{} failed", self.failed));
        }
        words.push(format!("{} under way", state.under_way));
        if !self.firsts.is_empty() {
            let firsts: Vec<f64> = self.firsts.iter().copied().collect();
            let last = Seconds(quantile::median(&firsts));
            words.push(format!("TTFT {last} (median of the last {})", firsts.len()));
        }
        words.push(Seconds(state.elapsed.round()).human());
        self.show(words.join(", "));
    }

    fn show(&mut self, line: String) {
        self.drawn = clock::now();
        match &self.shown {
            Shown::Bar(bar) => bar.set_message(clean(&line)),
            Shown::Lines => output::say(&line),
            Shown::Nothing => {}
        }
    }

    /// Says something beside the line.
    pub fn say(&self, words: &str) {
        match &self.shown {
            Shown::Bar(bar) => bar.suspend(|| output::say(words)),
            _ => output::say(words),
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}
