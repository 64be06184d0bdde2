//! What a survey left out or could not trust, in words: a line each, and how many more there were.

use std::collections::{BTreeMap, BTreeSet};

/// What is wrong with something that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A path that cannot be read, or that leads nowhere.
    Unreadable,
    /// A file that is no bundle, record or store.
    OtherFile,
    /// A bundle that was not closed, or a record that ends early.
    HalfWritten,
    /// A line that is no row.
    NoRow,
    /// A file of a later program.
    Newer,
    /// Values that are no rates.
    NoRate,
    /// More than anything real has.
    TooMany,
    /// Times that cannot be.
    Clock,
    /// What one sender says of another node, and what nobody vouches for who has to.
    Refused,
    /// A record that was begun and holds nothing.
    Begun,
    /// Two machines or two boards under one name.
    Twins,
    /// A board or machine in the place of an earlier one.
    Replaced,
    /// The same session twice.
    Duplicate,
    /// Made-up figures beside real ones.
    MadeUp,
    /// What cannot be compared.
    Apart,
    /// How what is alone in its stratum stands beside others.
    Hint,
    /// Labels and lists that do not fit the nodes.
    Labels,
}

/// Why a file is not read that is none of what a survey reads.
pub const NO_INPUT: &str = "it is no bundle, record or store";

/// Lines of each kind that are kept.
const KEPT: usize = 50;

/// Problems, each kind with its first lines and its count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Problems {
    found: BTreeMap<Kind, (u64, BTreeSet<String>)>,
}

impl Problems {
    /// Adds one. Which lines are kept does not depend on the order in which they come.
    pub fn add(&mut self, kind: Kind, words: String) {
        let (count, kept) = self.found.entry(kind).or_default();
        *count += 1;
        kept.insert(words);
        if kept.len() > KEPT {
            kept.pop_last();
        }
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: Problems) {
        for (kind, (count, lines)) in other.found {
            let (all, kept) = self.found.entry(kind).or_default();
            *all += count;
            kept.extend(lines);
            while kept.len() > KEPT {
                kept.pop_last();
            }
        }
    }

    /// The lines of a kind.
    pub fn of_kind(&self, kind: Kind) -> Vec<String> {
        self.lines_of(&|one| one == kind)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// How many of a kind.
    pub fn count(&self, kind: Kind) -> u64 {
        self.found.get(&kind).map_or(0, |(count, _)| *count)
    }

    /// Whether figures may be lost.
    pub fn lose_figures(&self) -> bool {
        self.found.keys().any(|kind| kind.loses_figures())
    }

    /// A line for each, and one for those that are not shown.
    pub fn lines(&self) -> Vec<String> {
        self.lines_of(&|_| true)
    }

    /// The lines of problems by which figures may be lost.
    pub fn lost(&self) -> Vec<String> {
        self.lines_of(&Kind::loses_figures)
    }

    /// Those of them that a store says nothing of: rows and values that are refused are in it, and
    /// are refused again when it is read.
    pub fn lost_to_a_store(&self) -> Vec<String> {
        let is_in_rows = |kind: Kind| matches!(kind, Kind::NoRow | Kind::NoRate);
        self.lines_of(&|kind| kind.loses_figures() && !is_in_rows(kind))
    }

    fn lines_of(&self, is_asked: &dyn Fn(Kind) -> bool) -> Vec<String> {
        let mut lines = Vec::new();
        for (kind, (count, kept)) in self.found.iter().filter(|(kind, _)| is_asked(**kind)) {
            lines.extend(kept.iter().cloned());
            let rest = count.saturating_sub(kept.len() as u64);
            if rest > 0 {
                lines.push(format!("and {rest} more {}", kind.words()));
            }
        }
        lines
    }
}

impl Problems {
    /// One line for each kind: how many there are of it, and the first.
    pub fn brief(&self) -> Vec<String> {
        let line = |(kind, (count, kept)): (&Kind, &(u64, BTreeSet<String>))| {
            let first = kept.first().map_or("", String::as_str);
            match *count {
                0 | 1 => first.to_owned(),
                // What the words of the kind say already is not said again.
                count if *kind == Kind::OtherFile => {
                    let name = first.strip_suffix(NO_INPUT).map(|name| name.trim_end_matches(": "));
                    format!("{count} {}, such as {}", kind.words(), name.unwrap_or(first))
                }
                count => format!("{count} {}, such as {first}", kind.words()),
            }
        };
        self.found.iter().map(line).collect()
    }
}

impl Kind {
    /// Whether figures may be lost: a fleet of which any are lost is inconclusive at best. What a
    /// wrong clock, a mark or a replacement leaves out is counted by node and device instead.
    pub fn loses_figures(self) -> bool {
        match self {
            Kind::Unreadable
            | Kind::HalfWritten
            | Kind::NoRow
            | Kind::Newer
            | Kind::NoRate
            | Kind::TooMany
            | Kind::Refused => true,
            Kind::OtherFile
            | Kind::Clock
            | Kind::Begun
            | Kind::Twins
            | Kind::Replaced
            | Kind::Duplicate
            | Kind::MadeUp
            | Kind::Apart
            | Kind::Hint
            | Kind::Labels => false,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Kind::Unreadable => "paths cannot be read",
            Kind::OtherFile => "files are no bundle, record or store",
            Kind::HalfWritten => "did not come to their end",
            Kind::NoRow => "lines are no rows",
            Kind::Newer => "are of a later fizeau",
            Kind::NoRate => "rows have values that are no rates",
            Kind::TooMany => "have more than anything real has",
            Kind::Clock => "have times that cannot be",
            Kind::Refused => "are refused",
            Kind::Begun => "were begun and hold nothing",
            Kind::Twins => "share a name or number",
            Kind::Replaced => "were replaced",
            Kind::Duplicate => "are there twice",
            Kind::MadeUp => "are made up",
            Kind::Apart => "are not compared",
            Kind::Hint => "are in a stratum that is too small",
            Kind::Labels => "do not fit",
        }
    }
}
