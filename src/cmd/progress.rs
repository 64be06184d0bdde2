//! One line on standard error while a run goes on. Drawn between cases only, so that nothing but
//! the case runs while it is timed; nothing where standard error is no terminal.

use crate::{
    case::Case,
    outcome::Outcome,
    session::Watcher,
    spec::{Properties, STUB},
    text::clean,
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};

/// The line.
pub struct Progress {
    bar: ProgressBar,
    is_stub: bool,
}

impl Progress {
    /// For so many cases on a device.
    pub fn new(cases: usize, device: &Properties) -> Progress {
        let target = if io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let style = ProgressStyle::with_template("{pos}/{len} {elapsed} {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        // No steady tick: it would be a thread beside the one that is timed.
        let bar = ProgressBar::with_draw_target(Some(cases as u64), target).with_style(style);
        Progress { bar, is_stub: device.is_stub() }
    }
}

impl Drop for Progress {
    /// Takes the line away, whichever way the run ended.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Watcher for Progress {
    fn starts(&mut self, place: usize, _of: usize, case: &Case) {
        self.bar.set_position(place as u64);
        self.bar.set_message(clean(&case.to_string()));
        self.bar.tick();
    }

    fn ended(&mut self, outcome: &Outcome) {
        let id = outcome.case();
        self.bar.println(clean(&match outcome {
            Outcome::Measured(_) if self.is_stub => format!("{id}  {STUB}"),
            Outcome::Measured(measurement) => format!("{id}  {}", measurement.summary.median),
            Outcome::Skipped { reason, .. } => format!("{id}  skipped: {reason}"),
            Outcome::Failed { error, .. } => format!("{id}  FAILED: {error}"),
            Outcome::Invalid { reason, .. } => format!("{id}  INVALID: {reason}"),
        }));
    }
}
