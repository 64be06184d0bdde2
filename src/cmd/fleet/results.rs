//! What came of a retest that was planned.

use crate::{
    cmd::{
        bundle::rows::{self, name_of},
        exit::Usage,
        output,
    },
    data::Catalogue,
};
use anyhow::Context as _;
use fizeau_judge::fleet::{
    plan::{Plan, Retest, Step},
    row::Row,
};
use fizeau_record::{file, store};
use std::path::Path;

/// The plan's file in its folder.
pub const PLAN: &str = "plan.json";

/// A measurement as a row of a store, where it is no record: planted fleets have it.
const ROW: &str = "row.jsonl";

/// Longest plan and longest row, in bytes.
const PLAN_MAX: u64 = 256 << 20;

/// What came of a plan, as far as it is there.
///
/// # Errors
/// Where the plan cannot be read.
pub fn results(folder: &Path, catalogue: &Catalogue) -> anyhow::Result<(Retest, Vec<String>)> {
    let path = folder.join(PLAN);
    let place = || format!("--retest {}", output::shown(&path));
    let text = file::read_text(&path, PLAN_MAX).with_context(place)?;
    let plan = Plan::parse(&text).map_err(|why| Usage(format!("{}: {why}", place())))?;
    let mut reader = rows::reader(catalogue)?;
    let (pairs, repeats) = (plan.pairs.clone(), plan.repeats);
    let (mut retest, mut notes) = (Retest::new(plan), Vec::new());
    for (at, pair) in pairs.iter().enumerate() {
        for step in pair.steps(repeats) {
            let own = folder.join(&step.folder);
            let (record, row) = (own.join(store::FILE), own.join(ROW));
            if record.exists() {
                match store::read(&record) {
                    Ok(read) if is_of_another(read.header.environment.host.as_deref(), &step) => {
                        notes.push(refusal(&record, &step));
                    }
                    Ok(read) => {
                        let rows = reader.record(&name_of(&record), &read);
                        if !retest.take(at, &step, &rows) {
                            let words = "it has no rate of what it is to measure";
                            notes.push(format!("{}: {words}", output::shown(&record)));
                        }
                    }
                    Err(error) => notes.push(fizeau_domain::text::clean(&error.to_string())),
                }
            } else if row.exists() {
                let text = file::read_text(&row, 1 << 20).unwrap_or_default();
                let line = text.lines().next().unwrap_or_default();
                match Row::parse(line.as_bytes()) {
                    Ok(row) if is_of_another(Some(&row.node), &step) => {
                        notes.push(refusal(&own.join(ROW), &step));
                    }
                    Ok(row) => drop(retest.take(at, &step, &[row])),
                    Err(why) => notes.push(format!("{}: {why}", output::shown(&row))),
                }
            }
        }
    }
    Ok((retest, notes))
}

/// Whether what was left for a step says that it was measured on another node.
fn is_of_another(host: Option<&str>, step: &Step<'_>) -> bool {
    host.is_some_and(|host| host != step.place.node)
}

fn refusal(path: &Path, step: &Step<'_>) -> String {
    let node = fizeau_domain::text::clean(&step.place.node);
    format!("{}: it is not of {node}, which was to be measured: refused", output::shown(path))
}
