//! What a collection could not take, kept in the store: a survey of the store is no better than one
//! of what was sent. Each collection leaves a row for every sender of which it could not take all,
//! and one for every sender of an earlier such row of which it has taken all now.

use crate::cmd::{disk, output};
use anyhow::Context as _;
use fizeau_device::clock;
use fizeau_judge::fleet::{
    gather::Gathered,
    row::{COLLECTION, COLLECTOR, FORMAT, NODE, Row, date},
    untaken::{Untaken, node_of},
};
use fizeau_record::file::{self, Draft, Existing};
use std::{
    collections::HashSet,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

/// What chooses another place of the store.
pub const OPTION: &str = "--store DIR";

/// What the names of these files begin with.
const PREFIX: &str = "left-";

/// Longest such file that is read, in bytes.
const FILE_MAX: u64 = 64 << 20;

/// Writes what a collection leaves of itself. `used` are the paths and nodes of which rows were
/// taken.
///
/// # Errors
/// Where the file system refuses.
pub fn tell(root: &Path, gathered: &Gathered, used: &HashSet<String>) -> anyhow::Result<()> {
    let left = gathered.untaken();
    let is_taken = |sender: &str| used.contains(sender) || used.contains(node_of(sender));
    let before = earlier(root);
    let open = before.open().filter(|sender| !left.iter().any(|(of, _)| of == sender));
    let settled: Vec<&str> = open.filter(|sender| is_taken(sender)).collect();
    if left.is_empty() && settled.is_empty() {
        return Ok(());
    }
    // Of two collections within a second the later one counts.
    let now = clock::utc_now_with_milliseconds();
    let row = |sender: &str, verdict: &'static str, why: &str| {
        let session = format!("collection {now}");
        let row = Row {
            format: FORMAT,
            session: session.into(),
            sender: COLLECTOR.into(),
            time: now.clone().into(),
            node: sender.to_owned().into(),
            device: NODE.into(),
            metric: COLLECTION.into(),
            verdict: verdict.into(),
            words: why.to_owned().into(),
            ..Row::default()
        };
        row.line()
    };
    let mut text: String = left.iter().map(|(of, why)| row(of, "inconclusive", why)).collect();
    text.extend(settled.into_iter().map(|sender| row(sender, "pass", "all of it was taken")));
    let day = date(&now).context("the clock tells no date")?;
    let folder = root.join(format!("date={day}"));
    disk::make_directory(&folder, OPTION)?;
    let mut random = [0; 8];
    getrandom::fill(&mut random).context("no random numbers for a file's name")?;
    let path = folder.join(format!("{PREFIX}{:016x}.jsonl", u64::from_le_bytes(random)));
    let place = || format!("cannot write to {}", output::shown(root));
    let draft = Draft::beside(&path).with_context(place)?;
    draft.file().write_all(text.as_bytes()).with_context(place)?;
    draft.file().sync_all().with_context(place)?;
    draft.publish(Existing::Kept).with_context(place)?;
    Ok(())
}

/// What earlier collections left, but for files that a survey leaves out.
fn earlier(root: &Path) -> Untaken {
    let own = disk::owners(root);
    let below = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let days = below(root).into_iter().filter(|path| name(path).starts_with("date="));
    let mut all = Untaken::default();
    for path in days.flat_map(|day| below(&day)).filter(|path| name(path).starts_with(PREFIX)) {
        if disk::stranger(root, &path, &own).is_some() {
            continue;
        }
        let text = file::read(&path, FILE_MAX).unwrap_or_default();
        let rows = text.split(|byte| *byte == b'\n').filter_map(|line| Row::parse(line).ok());
        rows.filter(Row::is_of_collection).for_each(|row| all.take(&row));
    }
    all
}
