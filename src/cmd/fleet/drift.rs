//! `fizeau fleet drift`: what changed in the course of time.

use super::which::{self, Which};
use crate::cmd::{document, global::Global, output};
use clap::Args;
use fizeau_domain::text::{VERDICT_LINE_MAX, clean, counted, shorten};
use fizeau_judge::fleet::drift::{Drift, SESSIONS_MIN, drift};
use std::process::ExitCode;

/// Lines of changes, and of decays.
const LINES_MAX: usize = 20;

/// Arguments of `fleet drift`.
#[derive(Args, Clone, Debug)]
pub struct DriftArgs {
    /// What was measured, as for `survey`: all sessions count.
    #[command(flatten)]
    pub which: Which,
}

/// Says what changed. The exit code is 1 where something fell, 4 where no device was measured often
/// enough, or something that was sent counts for nothing.
///
/// # Errors
/// Where there is nothing to survey, or a list cannot be read.
pub fn run(args: &DriftArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let surveyed = which::surveyed(&args.which, None, global)?;
    let found = drift(&surveyed);
    if global.json {
        output::print_json(&found)?;
    } else {
        output::write_out(&document::lines_in_window(&text(&found), global))?;
    }
    let is_worse = found.changes.iter().any(|one| one.change < 0.0) || !found.decays.is_empty();
    let is_whole = found.disputed.is_empty() && found.lost.is_empty();
    Ok(ExitCode::from(match (found.series, is_worse) {
        (0, _) => 4,
        (_, true) => 1,
        (_, false) if !is_whole => 4,
        (_, false) => 0,
    }))
}

fn text(found: &Drift) -> String {
    let mut lines = vec![format!(
        "{} of {}, {} in decay; {} with fewer than {SESSIONS_MIN} sessions are not looked at",
        counted(found.changes.len(), "change"),
        counted(found.series, "figure"),
        found.decays.len(),
        counted(found.short, "figure")
    )];
    for one in found.changes.iter().take(LINES_MAX) {
        let with = match one.with.is_empty() {
            true => String::new(),
            false => format!(", with {}", one.with.join(", ")),
        };
        let who = format!("{} {}", one.node, one.device);
        let (who, change) = (who.trim().to_owned(), 100.0 * one.change);
        let p = one.probability;
        let (metric, since) = (&one.metric, &one.since);
        lines.push(format!("{who}: {metric} {change:+.1} % since {since}{with}, p = {p:.0e}"));
    }
    for one in found.decays.iter().take(LINES_MAX) {
        let when = match one.days > 0.0 {
            true => format!("below contract in about {:.0} days", one.days),
            false => "it is below contract".to_owned(),
        };
        lines.push(format!(
            "{} {}: {} lost {:.1} %, a little each time: {when}, p = {:.0e}",
            one.node,
            one.device,
            one.metric,
            100.0 * one.lost,
            one.probability
        ));
    }
    for one in found.disputed.iter().take(LINES_MAX) {
        lines.push(format!(
            "disputed  {} {}: {} on {}: sessions that nobody signed are {:.1} % apart, and count \
             for nothing",
            one.node,
            one.device,
            one.metric,
            one.date,
            100.0 * one.apart
        ));
    }
    if found.unsigned > 0 {
        let count = counted(found.unsigned, "session");
        lines.push(format!("{count} that nobody signed, of devices of which others are signed"));
    }
    lines.extend(found.lost.iter().take(LINES_MAX).map(|line| format!("left out  {line}")));
    lines.extend(found.replaced.iter().take(LINES_MAX).map(|line| format!("replaced  {line}")));
    let beyond = |count: usize| count.saturating_sub(LINES_MAX);
    let of_all = [
        found.changes.len(),
        found.decays.len(),
        found.disputed.len(),
        found.lost.len(),
        found.replaced.len(),
    ];
    let more: usize = of_all.into_iter().map(beyond).sum();
    if more > 0 {
        lines.push(format!("and {more} more: --json has them"));
    }
    let mark = match found.mark.as_str() {
        "" => String::new(),
        mark => format!(" ({mark})"),
    };
    let whole = |line: &String| shorten(&clean(line), VERDICT_LINE_MAX);
    lines.iter().map(|line| format!("{}{mark}\n", whole(line))).collect()
}
