//! Exit codes, as the help and README state them, and the errors that have one of their own.

use super::output;
use crate::world::Ending;
use fizeau_domain::verdict::Verdict;

/// Something failed, or was invalid, or got slower; or numbers would be spoilt here.
pub const FAILED: u8 = Verdict::Fail.exit_code();
/// The command line is wrong.
pub const USAGE: u8 = 2;
/// It could not run; or a GPU's driver is installed and does not work, or a GPU cannot be
/// opened.
pub const COULD_NOT_RUN: u8 = 3;
/// Ended from outside.
pub const INTERRUPTED: u8 = 130;

/// An error of the command line, for exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// A process that this one waited for was ended by a signal.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// How a run ends in which a rank hangs.
pub const ENDING: Ending =
    Ending { say: output::say, exit: || std::process::exit(i32::from(COULD_NOT_RUN)) };
