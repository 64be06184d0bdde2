//! The process that sets limits and puts them back.
//!
//! It is the only one that sets any. It puts back what was there when its standard input ends. That
//! happens however the process that measures ends: in order, by a signal, by a panic, by `kill -9`.
//! Signals that ask to end it are ignored, and it has a session of its own, so that what ends the
//! terminal or the process group of the one that measures does not end it.

use crate::cmd::{self, exit, say};
use anyhow::{Context as _, bail};
use clap::Args;
use fizeau_device::{
    BACKENDS,
    limits::{Adjustable, Limit},
};
use serde::{Deserialize, Serialize};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};
use std::{
    io::{self, BufRead, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio},
    sync::Arc,
};

/// Longest line that either side sends, in bytes.
const LINE_MAX: usize = 1 << 16;

/// Arguments of the verb that this program starts for itself.
#[derive(Args, Clone, Debug)]
pub struct KeepLimitsArgs {
    /// The device, as `fizeau devices` names it
    pub device: String,
    /// Files of the kernel are below this directory
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
}

/// What the keeper answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    /// At its start: what can be set.
    Adjustable(Adjustable),
    /// A limit is in force.
    Set,
    /// It is not, and why.
    Refused(String),
    /// At its end: what was there is there again.
    Restored,
    /// It is not, and why.
    NotRestored(String),
}

fn tell(answer: &Answer) -> anyhow::Result<()> {
    cmd::write_out(&(fizeau_domain::text::escaped(serde_json::to_string(answer)?) + "\n"))
}

/// The keeper itself.
///
/// # Errors
/// Where the device has no limits that can be set.
pub fn keep(args: &KeepLimitsArgs) -> anyhow::Result<ExitCode> {
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        flag::register(signal, Arc::default()).context("cannot ignore signals")?;
    }
    // One that leads its group already has been started by hand.
    let _ = rustix::process::setsid();
    let (family, ordinal) = args.device.split_once(':').unwrap_or((&args.device, "0"));
    let backend = BACKENDS.iter().find(|backend| backend.name() == family);
    let backend = backend.with_context(|| format!("no backend is called {family:?}"))?;
    let ordinal = ordinal.parse().context("the number of the device")?;
    let mut limits = backend.limits(ordinal, &args.root)?;
    tell(&Answer::Adjustable(limits.adjustable()))?;
    for line in io::stdin().lock().lines() {
        // Whatever is wrong with the other side, what was set is put back.
        let Ok(line) = line else { break };
        let answer = match serde_json::from_str::<Limit>(&line) {
            Ok(limit) => limits.set(limit).map_or_else(Answer::Refused, |()| Answer::Set),
            Err(error) => Answer::Refused(error.to_string()),
        };
        if tell(&answer).is_err() {
            break;
        }
    }
    let restored = limits.restore();
    // Whoever asked may be gone.
    let told = match &restored {
        Ok(()) => tell(&Answer::Restored),
        Err(why) => tell(&Answer::NotRestored(why.clone())),
    };
    if let Err(why) = &restored {
        say(&format!("{}: limits could not be put back: {why}", args.device));
        return Ok(ExitCode::from(exit::COULD_NOT_RUN));
    }
    told.map(|()| ExitCode::SUCCESS)
}

/// A keeper, as the process that measures has it. Dropped, it puts back what was there.
pub struct Keeper {
    child: Child,
    /// None once it was asked to end.
    ask: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// What can be set.
    pub adjustable: Adjustable,
}

impl Keeper {
    /// Starts one.
    ///
    /// # Errors
    /// Where it cannot be started, or the device has no limits that can be set.
    pub fn start(device: &str, root: &Path) -> anyhow::Result<Keeper> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(program);
        command.args(["keep-limits", device, "--root"]).arg(root);
        // It outlives whoever started this process too.
        command.env_remove(cmd::launch::LAUNCHER);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the process that keeps limits")?;
        let ask = child.stdin.take();
        let answers = child.stdout.take().context("no pipe to the process that keeps limits")?;
        let nothing = || Err("not asked".into());
        let adjustable = Adjustable { power: nothing(), clock: nothing() };
        let mut keeper = Keeper { child, ask, answers: BufReader::new(answers), adjustable };
        match keeper.answer().context("its message stands above")? {
            Answer::Adjustable(adjustable) => keeper.adjustable = adjustable,
            other => bail!("the process that keeps limits said {other:?}"),
        }
        Ok(keeper)
    }

    fn answer(&mut self) -> anyhow::Result<Answer> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line)?;
        if read == 0 || line.len() > LINE_MAX {
            bail!("the process that keeps limits has ended");
        }
        Ok(serde_json::from_str(&line)?)
    }

    /// What was there, in words, for whoever has to put it back by hand.
    fn before(&self) -> String {
        let Adjustable { power, clock } = &self.adjustable;
        let power = power.as_ref().map(|range| format!("power limit {} W", range.now));
        let clock = clock.as_ref().map(|range| format!("clock {} MHz", range.now));
        let known: Vec<String> = [power, clock].into_iter().flatten().collect();
        format!("put back by hand: {}", known.join(", "))
    }

    /// Sets a limit.
    ///
    /// # Errors
    /// Where it is refused, or the keeper is gone.
    pub fn set(&mut self, limit: Limit) -> anyhow::Result<()> {
        let Some(ask) = &mut self.ask else { bail!("limits were put back already") };
        writeln!(ask, "{}", serde_json::to_string(&limit)?).context("it does not listen")?;
        match self.answer()? {
            Answer::Set => Ok(()),
            Answer::Refused(why) => bail!("{why}"),
            other => bail!("the process that keeps limits said {other:?}"),
        }
    }

    /// Puts back what was there.
    ///
    /// # Errors
    /// Where it could not be put back, and how to do it by hand.
    pub fn restore(&mut self) -> anyhow::Result<()> {
        if self.ask.take().is_none() {
            return Ok(());
        }
        let answer = self.answer();
        // It ends by itself; how, it has said.
        let _ = self.child.wait();
        match answer.with_context(|| self.before())? {
            Answer::Restored => Ok(()),
            Answer::NotRestored(why) => bail!("{why}"),
            other => bail!("the process that keeps limits said {other:?}"),
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Err(error) = self.restore() {
            say(&format!("limits could not be put back: {error:#}"));
        }
    }
}
