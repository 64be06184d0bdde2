//! Limits of a device that a process of its own sets and puts back (`fizeau keep-limits`): how the
//! process that measures starts that process and talks to it.

use super::{output::say, parent};
use anyhow::{Context as _, bail};
use fizeau_device::limits::{Adjustable, Limit};
use serde::{Deserialize, Serialize};
use std::{
    io::{BufRead, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// Longest line that either side sends, in bytes.
const LINE_MAX: usize = 1 << 16;

/// What the keeper answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
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
        command.env_remove(parent::LAUNCHER);
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
