//! Settings of every verb.

use super::{output, progress::ProgressMode};
use clap::{Args, ValueEnum};
use std::{
    io::{self, IsTerminal},
    path::PathBuf,
};

/// The heading of these settings in the help of each verb, below its own.
const GLOBAL: &str = "Options of every command";

/// Settings of every verb.
#[derive(Args, Clone, Debug)]
pub struct Global {
    /// Directory of TOML files that replace or extend the built-in parts, hosts, links and suites
    #[arg(long, global = true, value_name = "DIR", env = "FIZEAU_DATA", help_heading = GLOBAL)]
    pub data: Option<PathBuf>,
    /// Print JSON for other programs
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub json: bool,
    /// Colour the output (NO_COLOR is obeyed)
    #[arg(long, global = true, value_enum, default_value_t = When::Auto, help_heading = GLOBAL)]
    pub color: When,
    /// Progress on standard error
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "HOW",
        default_value_t,
        env = "FIZEAU_PROGRESS",
        help_heading = GLOBAL
    )]
    pub progress: ProgressMode,
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Global {
    /// Says on standard error how far a command is, where that is wanted.
    pub fn tell(&self, words: &str) {
        if self.progress != ProgressMode::Off {
            output::say(words);
        }
    }

    /// Whether standard output takes colours.
    pub fn colours(&self) -> bool {
        match self.color {
            When::Always => true,
            When::Never => false,
            When::Auto => {
                let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
                !refused && io::stdout().is_terminal()
            }
        }
    }
}
