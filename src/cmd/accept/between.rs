//! Several nodes, where a launcher has started an acceptance on each of them: a process of
//! `fizeau localise` is the rank of this node.

use super::{
    AcceptArgs,
    aside::{self, Ended},
    files::Kept,
    groups::Group,
};
use crate::cmd::{disk, exit::Interrupted, output, parent::LAUNCHER};
use anyhow::Context as _;
use fizeau_domain::{units::Seconds, verdict::Verdict};
use fizeau_judge::{
    accept::{
        Judged,
        between::{CHECK, RANKS_MIN, Told, judge},
    },
    evidence,
    localise::raw::Measured,
};
use fizeau_record::file;
use std::{
    env, fs,
    path::Path,
    process::{self, Command, Stdio},
    sync::atomic::AtomicBool,
};

/// Below the output directory, where the rates go, and their file.
const FOLDER: &str = evidence::file::LOCALISE;
const FILE: &str = evidence::file::EXCHANGES;

/// The longest that ranks may take to meet and to exchange data.
const MOST: Seconds = Seconds(300.0);

/// Longest file of rates that is read, in bytes.
const RATES_MAX: u64 = 64 << 20;

/// Longest message of the process that is shown, in bytes.
const SAID_MAX: usize = 2_000;

/// Measures between the ranks and keeps what was found, or why nothing was.
///
/// # Errors
/// Where nothing can be kept; [`Interrupted`] where the user wants an end.
pub fn measure(
    args: &AcceptArgs,
    groups: &[Group],
    kept: &mut Kept<'_>,
    interrupted: &AtomicBool,
) -> anyhow::Result<Option<Told>> {
    let Some(out) = kept.out.as_ref().map(|out| out.join(FOLDER)) else { return Ok(None) };
    let not_applicable = |why: String| format!("{CHECK}: not applicable: {why}");
    let Some(world) = super::world()? else {
        let words = format!("no launcher has started ranks; it needs {RANKS_MIN}");
        kept.note(not_applicable(words));
        return Ok(None);
    };
    if let Some(size) = world.size.filter(|size| *size < RANKS_MIN) {
        kept.note(not_applicable(format!("it needs {RANKS_MIN} ranks, and there are {size}")));
        return Ok(None);
    }
    // What an acceptance that is continued has measured already.
    let known = args.resume.as_ref().and_then(|_| read(&out).ok());
    let measured = match known {
        Some(measured) => Ok(measured),
        None => exchanged(args, groups, &out, interrupted)?,
    };
    let told = measured.map(|measured| Told { rank: world.rank, measured });
    let (judged, told) = match told {
        Ok(told) if (told.measured.ranks.len() as u32) < RANKS_MIN => {
            let size = told.measured.ranks.len();
            kept.note(not_applicable(format!("it needs {RANKS_MIN} ranks, and there are {size}")));
            return Ok(None);
        }
        Ok(told) => {
            let told = if args.no_host_name { told.without_names() } else { told };
            write(&out, &told.measured)?;
            (judge(&told).map_err(anyhow::Error::msg)?, Some(told))
        }
        Err(why) => (Judged::of_state(CHECK, "node", Verdict::Inconclusive, why), None),
    };
    kept.others.push(judged);
    kept.write(false)?;
    Ok(told)
}

/// The rates that the ranks exchange data at; in words, where there are none.
fn exchanged(
    args: &AcceptArgs,
    groups: &[Group],
    out: &Path,
    interrupted: &AtomicBool,
) -> anyhow::Result<Result<Measured, String>> {
    // What one that did not come to its end has left.
    match fs::remove_dir_all(out) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| output::shown(out));
        }
        _ => {}
    }
    output::say("localise: exchanging data with the other ranks");
    let program = env::current_exe().context("cannot find this program's own file")?;
    let mut command = Command::new(program);
    let size = args.exchange.0.to_string();
    command.args(["localise", "--each", "--json", "--size", &size, "--out"]).arg(out);
    if groups.iter().flat_map(|group| &group.devices).all(|device| device.backend == "host") {
        command.args(["--device", "host"]);
    }
    // It ends when this process does, however that ends.
    command.env(LAUNCHER, process::id().to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().context("cannot start a process to exchange data")?;
    let output = match aside::output_within(interrupted, child, MOST)? {
        Ended::Late => {
            let words = format!("the ranks did not meet and exchange data within {MOST}");
            return Ok(Err(words));
        }
        Ended::With(output) => output,
    };
    match output.status.code() {
        // Whatever the verdict is: the rates are judged here.
        Some(0 | 1 | 4) => Ok(read(out).map_err(|error| format!("{error:#}"))),
        Some(130) => Err(Interrupted.into()),
        _ => {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.trim().chars().rev().take(SAID_MAX).collect::<Vec<_>>();
            let said: String = last.into_iter().rev().collect();
            Ok(Err(format!("the ranks exchanged no data: {said}")))
        }
    }
}

fn read(out: &Path) -> anyhow::Result<Measured> {
    let place = out.join(FILE);
    let text = file::read_text(&place, RATES_MAX).with_context(|| output::shown(&place))?;
    Ok(Measured::parse(&text)?)
}

/// Keeps the rates as JSON alone: what is told of hosts in it is what is told elsewhere.
fn write(out: &Path, measured: &Measured) -> anyhow::Result<()> {
    let text = measured.to_json()? + "\n";
    disk::write_file(&out.join(FILE), text.as_bytes(), "--out DIR")?;
    match fs::remove_file(out.join("exchanges.csv")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| output::shown(out))
        }
        _ => Ok(()),
    }
}
