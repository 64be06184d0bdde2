//! `fizeau compare`: what changed from one run to another.

use super::{
    Global, Usage,
    report::{self, ReportFormat},
};
use crate::{
    compare::{Comparison, Incomparable, THRESHOLD, Waiver},
    record::store,
    report::without_numbers,
};
use anyhow::Context as _;
use clap::Args;
use std::{fs, path::PathBuf, process::ExitCode};

/// Arguments of `compare`.
#[derive(Args, Clone, Debug)]
pub struct CompareArgs {
    /// The record to compare against, or the directory it is in
    #[arg(value_name = "A")]
    pub before: PathBuf,
    /// The record to judge, or the directory it is in
    #[arg(value_name = "B")]
    pub after: PathBuf,
    /// The change that counts: a share (0.05) or a percentage (5%)
    #[arg(long, value_name = "SHARE", default_value_t = Share(THRESHOLD))]
    pub threshold: Share,
    /// Do not count regressions in cases whose ids match a glob, such as 'gemm/bf16/*'; repeat it
    /// for more. The reason is shown with each of them
    #[arg(long, value_name = "SELECTOR[=REASON]")]
    pub waive: Vec<Waiver>,
    /// How it is written [default: terminal, or json with --json]
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// Write it to this file and not to standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// A share of one, written `0.05` or `5%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f64);

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl std::str::FromStr for Share {
    type Err = String;
    fn from_str(text: &str) -> Result<Share, String> {
        let (digits, scale) = match text.strip_suffix('%') {
            Some(digits) => (digits, 100.0),
            None => (text, 1.0),
        };
        let number: f64 = digits.trim().parse().map_err(|_| "write 0.05 or 5%".to_owned())?;
        Ok(Share(number / scale))
    }
}

/// Compares. The exit code is the verdict's: 1 where a case got worse that is not waived, 4 where
/// most cases could not be judged.
///
/// # Errors
/// Where a record cannot be read, the two do not compare, or the result cannot be written.
pub fn run(args: &CompareArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let (before, after) = (store::read(&args.before)?, store::read(&args.after)?);
    let mut comparison =
        Comparison::of(&before, &after, args.threshold.0).map_err(|error| match error {
            Incomparable::Threshold(_) => Usage(error.to_string()).into(),
            Incomparable::DifferentDevices { .. } | Incomparable::Stub => {
                anyhow::Error::from(error)
            }
        })?;
    comparison.waive(&args.waive);
    let mut document = crate::report::comparison(&comparison);
    if after.header.device.is_stub() {
        document = without_numbers(document);
    }
    let default = if global.json { ReportFormat::Json } else { ReportFormat::Terminal };
    let format = args.format.unwrap_or(default);
    let text = report::render(&document, format, report::window(global))?;
    match &args.out {
        Some(path) => {
            fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?
        }
        None => {
            super::write_out(&text)?;
        }
    }
    Ok(ExitCode::from(comparison.verdict().exit_code()))
}
