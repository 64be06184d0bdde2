//! The report of serving under load: what each level of load met, and, beside a record, how far
//! that is from what the hardware allows.

pub mod ab;
mod capacity;
mod distribution;
mod joined;
mod levels;
mod over_time;

use super::{Block, Document};
use fizeau_domain::text::counted;
use fizeau_projection::load::{Engine, Joined, Level, Source, capacity::Goal};

/// Results of a client, with the name of their file.
#[derive(Clone, Debug)]
pub struct Results {
    /// The file, as it was named.
    pub file: String,
    /// What it holds.
    pub source: Source,
}

/// The same beside what the hardware allows.
#[derive(Clone, Debug)]
pub struct Join<'a> {
    /// What the requests went to.
    pub engine: Engine<'a>,
    /// Every level of all files, in their order.
    pub levels: Vec<Joined>,
}

/// A level with the name that tables and charts give it.
struct Named<'a> {
    name: String,
    level: &'a Level,
}

/// Results in reading order: the join first where there is one, then each level.
pub fn document(results: &[Results], join: Option<&Join<'_>>, goal: &Goal) -> Document {
    let named = named(results);
    // What was sent where and when comes first: figures mean nothing without it.
    let mut blocks: Vec<Block> = results.iter().map(|one| Block::Text(about(one))).collect();
    blocks.extend(levels::failed(&named));
    blocks.extend(levels::late(&named, goal));
    blocks.extend(levels::cards(&named, goal));
    if let Some(join) = join {
        blocks.extend(joined::blocks(join, &named));
    }
    blocks.extend(capacity::blocks(&named, goal));
    blocks.extend(levels::blocks(&named, &goal.limits));
    blocks.extend(over_time::blocks(&named));
    blocks.extend(distribution::blocks(&named));
    blocks.extend(levels::all_quantiles(&named));
    blocks.extend(notes(results, &named));
    titled(results, &named, join, blocks)
}

/// The same in few lines, for the end of `fizeau load`: what failed, what the server carries, each
/// level, and what to know of them. The page has quantiles, curves and all else.
pub fn summary(results: &[Results], goal: &Goal) -> Document {
    let named = named(results);
    let mut blocks: Vec<Block> = levels::failed(&named);
    blocks.retain(|block| !matches!(block, Block::Table(_)));
    blocks.extend(levels::late(&named, goal));
    let is_sentence = |block: &Block| matches!(block, Block::Text(_) | Block::Warning(_));
    blocks.extend(capacity::blocks(&named, goal).into_iter().filter(is_sentence));
    blocks.push(Block::Table(levels::levels(&named)));
    blocks.extend(levels::without_tail(named.iter().map(|one| one.level)));
    let drifts = over_time::blocks(&named).into_iter();
    blocks.extend(drifts.filter(|block| matches!(block, Block::Warning(_))));
    blocks.extend(results.iter().map(|one| Block::Text(about(one))));
    blocks.extend(notes(results, &named));
    // The last screen has few lines: what explains a column gives way to what warns.
    blocks.push(levels::legend());
    titled(results, &named, None, blocks)
}

/// What the files and their levels say of themselves.
fn notes(results: &[Results], named: &[Named<'_>]) -> Vec<Block> {
    let of_file = |one: &Results| -> Vec<Block> {
        let note = |note: &String| Block::Note(format!("{}: {note}.", one.file));
        one.source.notes.iter().map(note).collect()
    };
    let of_level = |one: &Named<'_>| -> Vec<Block> {
        let note = |note: &String| Block::Warning(format!("{}: {note}.", one.name));
        one.level.notes.iter().map(note).collect()
    };
    results.iter().flat_map(of_file).chain(named.iter().flat_map(of_level)).collect()
}

/// These blocks with a title, and in the subtitle how many requests were answered and failed.
fn titled(
    results: &[Results],
    named: &[Named<'_>],
    join: Option<&Join<'_>>,
    blocks: Vec<Block>,
) -> Document {
    let models: Vec<&str> = results.iter().filter_map(|one| one.source.model.as_deref()).collect();
    let model = models.first().map_or("A model".to_owned(), |model| format!("Model {model}"));
    let title = match join {
        Some(join) => format!(
            "{model} under load, beside {} on {}",
            join.engine.model.name, join.engine.hardware.name
        ),
        None => format!("{model} under load"),
    };
    let answered: u64 = named.iter().map(|one| one.level.answered).sum();
    let failed: u64 = named.iter().map(|one| one.level.failures()).sum();
    let failed = match failed {
        0 => String::new(),
        failed => format!(", {failed} failed,"),
    };
    let subtitle = format!(
        "{} answered{failed} in {}",
        counted(answered as usize, "request"),
        counted(named.len(), "level")
    );
    Document { title, subtitle, blocks }
}

fn named(results: &[Results]) -> Vec<Named<'_>> {
    let of_file = |one: &'_ Results| -> Vec<(String, usize)> {
        (0..one.source.levels.len()).map(|at| (one.file.clone(), at)).collect()
    };
    let mut list = Vec::new();
    for one in results {
        for (file, at) in of_file(one) {
            let level = &one.source.levels[at];
            let offered = level.offered.describe();
            let name = match results.len() {
                1 => offered,
                _ => format!("{file}: {offered}"),
            };
            list.push(Named { name, level });
        }
    }
    // Two of one name get numbers, so that tables can be joined by it.
    let names: Vec<String> = list.iter().map(|one: &Named<'_>| one.name.clone()).collect();
    for (at, one) in list.iter_mut().enumerate() {
        let same = |name: &&String| **name == names[at];
        if names.iter().filter(same).count() > 1 {
            let before = names[..at].iter().filter(same).count();
            one.name = format!("{} ({})", names[at], before + 1);
        }
    }
    list
}

fn about(one: &Results) -> String {
    let Source { client, date, about, cpu_seconds, levels, .. } = &one.source;
    let mut words = vec![format!("{}: from {client}", one.file)];
    words.extend(date.clone());
    words.extend(about.clone());
    let tokens: f64 = levels.iter().map(|level| level.answered as f64 * level.output).sum();
    if let Some(seconds) = cpu_seconds.filter(|_| tokens > 0.0) {
        words.push(format!("CPU time of the client {:.1} us a token", seconds / tokens * 1e6));
    }
    format!("{}.", words.join("; "))
}
