//! `fizeau keep-limits`, which this program starts for itself: sets limits and puts them back.
//!
//! It is the only process that sets any. It puts back what was there when its standard input ends.
//! That happens however the process that measures ends: in order, by a signal, by a panic, by `kill
//! -9`. Signals that ask to end it are ignored, and it has a session of its own, so that what ends
//! the terminal or the process group of the one that measures does not end it.

use super::{
    exit,
    keeper::Answer,
    output::{self, say},
};
use anyhow::Context as _;
use clap::Args;
use fizeau_device::{BACKENDS, limits::Limit};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};
use std::{
    io::{self, BufRead},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

/// Arguments of the verb that this program starts for itself.
#[derive(Args, Clone, Debug)]
pub struct KeepLimitsArgs {
    /// The device, as `fizeau devices` names it
    pub device: String,
    /// Files of the kernel are below this directory
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
}

fn tell(answer: &Answer) -> anyhow::Result<()> {
    output::write_out(&(fizeau_domain::text::escaped(serde_json::to_string(answer)?) + "\n"))
}

/// The keeper itself.
///
/// # Errors
/// Where the device has no limits that can be set.
pub fn run(args: &KeepLimitsArgs) -> anyhow::Result<ExitCode> {
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
