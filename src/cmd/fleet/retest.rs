//! `fizeau fleet retest`: writes the plan of a retest as scripts, and takes its results in.

use super::{
    results,
    which::{self, Which},
};
use crate::cmd::{disk, exit::Usage, global::Global, output};
use clap::Args;
use fizeau_domain::text::{counted, for_shells};
use fizeau_judge::fleet::plan::{Pair, Place, Plan, Step};
use std::{
    collections::BTreeSet,
    fmt::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Hours between two sessions: what else was in use at first may be gone by then.
const HOURS: u32 = 4;

/// Arguments of `fleet retest`.
#[derive(Args, Clone, Debug)]
pub struct RetestArgs {
    /// What was measured, as for `survey`.
    #[command(flatten)]
    pub which: Which,
    /// Where the plan, its scripts and its results go: a folder that all nodes share
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Plan more repeats of what was too close to decide, too
    #[arg(long)]
    pub inconclusive: bool,
}

/// Writes the plan.
///
/// # Errors
/// Where there is nothing to survey, or the folder cannot be written.
pub fn run(args: &RetestArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let folder = std::path::absolute(&args.out)?;
    if folder.join(results::PLAN).exists() {
        let words = format!("--out {}: it has a plan already", output::shown(&args.out));
        return Err(Usage(words).into());
    }
    let surveyed = which::surveyed(&args.which, None, global)?;
    let mut plan = Plan::of(&surveyed, args.inconclusive);
    let before = plan.pairs.len();
    plan.pairs.retain(is_safe);
    let refused = before - plan.pairs.len();
    plan.pairs.iter_mut().enumerate().for_each(|(at, pair)| pair.pair = at + 1);
    let text = serde_json::to_string_pretty(&plan)?;
    disk::make_directory(&folder.join("rounds"), "--out DIR")?;
    let write =
        |name: &str, text: &str| disk::write_file(&folder.join(name), text.as_bytes(), "--out DIR");
    let rounds = plan.rounds();
    for (session, rounds) in (1..).zip(&rounds) {
        for (round, pairs) in (1..).zip(rounds) {
            write(&format!("rounds/{session}-{round}.sh"), &script(&plan, session, pairs))?;
        }
        let array = array(&plan, &folder, session, rounds);
        write(&format!("session-{session}.sbatch"), &array)?;
        write(&format!("session-{session}.sh"), &list(session, rounds.len()))?;
    }
    // The plan is written last: where it is, all else is.
    write(results::PLAN, &text)?;
    if global.json {
        return output::print_json(&plan);
    }
    output::print(&said(&plan, &args.out, rounds.len(), refused))
}

fn said(plan: &Plan, out: &Path, sessions: usize, refused: usize) -> String {
    let word = |path: &Path| for_shells(&output::shown(path));
    let close: Vec<usize> = plan.pairs.iter().filter_map(|pair| pair.repeats).collect();
    let mut lines = vec![format!(
        "{}: {} to measure anew, {} times each in turn with a partner that passed",
        output::shown(out),
        counted(plan.pairs.len() - close.len(), "failure"),
        plan.repeats
    )];
    if let Some(most) = close.iter().max() {
        lines.push(format!(
            "{} that may be decided so, at most {most} times each in turn with one",
            counted(close.len(), "inconclusive figure")
        ));
    }
    if plan.hopeless > 0 {
        let figures = counted(plan.hopeless, "inconclusive figure");
        lines.push(format!("{figures} not: too close to the least effect for any repeats"));
    }
    if plan.explained > 0 {
        let failures = counted(plan.explained, "failure");
        lines.push(format!("{failures} explained by a component are not: look at that first"));
    }
    if refused > 0 {
        let pairs = counted(refused, "pair");
        lines.push(format!("{pairs} left out: a name there cannot stand in a command"));
    }
    for session in 1..=sessions {
        let later = match session {
            1 => String::new(),
            _ => format!(", {HOURS} hours or more after the session before"),
        };
        lines.push(format!(
            "start: sbatch {}, or bash {} (ssh){later}",
            word(&out.join(format!("session-{session}.sbatch"))),
            word(&out.join(format!("session-{session}.sh")))
        ));
    }
    lines.push(format!("then:  fizeau fleet survey .. --retest {}", word(out)));
    lines.join("\n")
}

/// Whether the names of a pair can stand in a command line as they are: they come from files that
/// anybody may have written.
fn is_safe(pair: &Pair) -> bool {
    let is_word = |text: &str, more: &str| {
        let is_its = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c) || more.contains(c);
        !text.starts_with('-') && text.chars().all(is_its)
    };
    let is_place = |place: &Place| {
        !place.node.is_empty() && is_word(&place.node, "") && is_word(&place.device, ":")
    };
    let places = [Some(&pair.failed), pair.partner.as_ref()];
    places.into_iter().flatten().all(is_place)
        && is_word(&pair.suite, "/")
        && is_word(&pair.point, "/+:=,")
}

/// What measures a round: all its pairs at once, the two of each in turn.
fn script(plan: &Plan, session: usize, pairs: &[usize]) -> String {
    let mut text = String::from(
        "#!/bin/bash\n\
         # A round of a retest, written by `fizeau fleet retest`: pairs of nodes that no other\n\
         # pair of this round uses. What was measured already is not measured again.\n\
         cd \"$(dirname \"$0\")/..\" || exit 3\n\
         fizeau=${FIZEAU:-fizeau}\n\
         on() { # NODE COMMAND..\n    \
             local node=$1\n    \
             shift\n    \
             if [ -n \"${FIZEAU_ON:-}\" ]; then $FIZEAU_ON \"$node\" \"$@\"\n    \
             elif [ -n \"${SLURM_JOB_ID:-}\" ]; then\n        \
             srun -N1 -n1 --overlap -w \"$node\" \"$@\"\n    \
             else ssh -n \"$node\" \"$(printf '%q ' \"$@\")\"; fi\n\
         }\n\
         measure() { # NODE FOLDER ARGUMENTS..\n    \
             local node=$1 folder=$2\n    \
             shift 2\n    \
             # One that was killed has no last line, and is made anew.\n    \
             grep -qs '^{\"line\":\"footer\"' \"$folder/record.jsonl\" && return\n    \
             rm -f \"$folder/record.jsonl\"\n    \
             on \"$node\" \"$fizeau\" run --progress off --out \"$PWD/$folder\" \"$@\" \
             >/dev/null\n\
         }\n",
    );
    for pair in pairs.iter().map(|at| &plan.pairs[*at]) {
        let _ = writeln!(text, "(");
        let steps = pair.steps(plan.repeats);
        for Step { place, folder, .. } in steps.iter().filter(|step| step.session == session) {
            let suite = match pair.suite.is_empty() {
                true => String::new(),
                false => format!(" --suite {}", pair.suite),
            };
            let Place { node, device, .. } = place;
            let case = format!("'{}/*'", pair.point);
            let _ = writeln!(text, "measure {node} {folder} --device {device}{suite} {case}");
        }
        let _ = writeln!(text, ") &");
    }
    text + "wait\n"
}

/// A job array: one task for each round, one after the other, on the nodes of all of them.
fn array(plan: &Plan, folder: &Path, session: usize, rounds: &[Vec<usize>]) -> String {
    let pairs = rounds.iter().flatten().map(|at| &plan.pairs[*at]);
    let places = pairs.flat_map(|pair| [Some(&pair.failed), pair.partner.as_ref()]);
    let nodes: BTreeSet<&str> = places.flatten().map(|place| place.node.as_str()).collect();
    let begin = match session {
        1 => String::new(),
        _ => format!("#SBATCH --begin=now+{HOURS}hours\n"),
    };
    let list = nodes.iter().copied().collect::<Vec<_>>().join(",");
    format!(
        "#!/bin/bash\n#SBATCH --job-name=fizeau-retest\n#SBATCH --array=1-{}%1\n\
         #SBATCH --nodes={}\n\
         #SBATCH --nodelist={list}\n#SBATCH --exclusive\n{begin}\
         bash {}/rounds/{session}-$SLURM_ARRAY_TASK_ID.sh\n",
        rounds.len().max(1),
        nodes.len().max(1),
        for_shells(&folder.display().to_string())
    )
}

/// The same as a list of commands.
fn list(session: usize, rounds: usize) -> String {
    let mut text = String::from("#!/bin/bash\ncd \"$(dirname \"$0\")\" || exit 3\n");
    for round in 1..=rounds {
        let _ = writeln!(text, "bash rounds/{session}-{round}.sh");
    }
    text
}
