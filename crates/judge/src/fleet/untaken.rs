//! What collections could not take, as the store remembers it: a node that sent nothing usable is
//! not forgotten because only usable rows are kept.

use super::{
    gather::{Gathered, SENDERS_MAX, TEXT_MAX, WORDS_MAX, column},
    row::{Row, date, seconds},
    units::Window,
};
use fizeau_domain::text::{clean, shorten};
use std::collections::BTreeMap;

/// By sender: what the latest collection that said anything of it has said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Untaken(BTreeMap<String, Word>);

/// What a collection said of a sender.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    /// When, RFC 3339 in UTC, by the clock of the machine that collected.
    time: String,
    /// Why not all could be taken; none where all was.
    why: Option<String>,
}

impl Untaken {
    /// Takes a row that a collection left.
    pub fn take(&mut self, row: &Row<'_>) {
        if seconds(&row.time).is_none() {
            return;
        }
        let why = (row.verdict != "pass").then(|| shorten(&clean(&row.words), WORDS_MAX));
        let sender = shorten(&clean(&row.node), TEXT_MAX);
        self.add(sender, Word { time: row.time.to_string(), why });
    }

    /// Takes all of another.
    pub fn merge(&mut self, other: Untaken) {
        other.0.into_iter().for_each(|(sender, word)| self.add(sender, word));
    }

    fn add(&mut self, sender: String, word: Word) {
        // Of two at the same moment the one that leaves more open counts.
        let rank = |word: &Word| (word.time.clone(), word.why.is_some(), word.why.clone());
        let known = self.0.get(&sender);
        let is_new = match known {
            Some(known) => rank(&word) > rank(known),
            None => self.0.len() < SENDERS_MAX,
        };
        if is_new {
            self.0.insert(sender, word);
        }
    }

    /// Senders of which not all could be taken.
    pub fn open(&self) -> impl Iterator<Item = &str> {
        let open = self.0.iter().filter(|(_, word)| word.why.is_some());
        open.map(|(sender, _)| sender.as_str())
    }

    /// Those of them that nothing has settled: who, when, and why. A session that its node began
    /// after the collection has settled it, and so has a window that leaves its day out.
    fn unsettled(&self, gathered: &Gathered, window: &Window) -> Vec<(String, String)> {
        if self.open().next().is_none() {
            return Vec::new();
        }
        let mut latest: BTreeMap<&str, &str> = BTreeMap::new();
        for entry in 0..gathered.entries.len() as u32 {
            let (node, time) = (column::NODE, column::TIME);
            let (node, time) = (gathered.told(entry, node), gathered.told(entry, time));
            if date(time).is_some_and(|day| day <= window.latest.as_str()) {
                let known = latest.entry(node).or_insert(time);
                *known = time.max(known);
            }
        }
        let mut all = Vec::new();
        for (sender, word) in &self.0 {
            let (Some(why), Some(day)) = (&word.why, date(&word.time)) else { continue };
            let is_out = window.since.as_deref().is_some_and(|since| day < since)
                || window.until.as_deref().is_some_and(|until| day > until);
            let own = latest.get(node_of(sender)).or_else(|| latest.get(sender.as_str()));
            if !is_out && own.is_none_or(|time| *time <= word.time.as_str()) {
                all.push((sender.clone(), format!("not collected on {day}: {why}")));
            }
        }
        all
    }
}

impl Gathered {
    /// Counts as unusable what collections could not take and nothing has settled since.
    pub fn recall(&mut self, window: &Window) {
        for (sender, why) in self.untaken.unsettled(self, window) {
            self.unusable(&sender, &why);
        }
    }

    /// Who sent something of which a collection cannot take all, with the reason. What stands in
    /// the rows that it takes is found when they are read again, and is not among them.
    pub fn untaken(&self) -> Vec<(String, String)> {
        let mut all: Vec<(String, String)> =
            self.unusable.iter().map(|(sender, why)| (sender.clone(), why.clone())).collect();
        let lines = self.problems.lost_to_a_store();
        let is_new = |line: &&String| !self.unusable.values().any(|why| line.contains(why));
        for line in lines.iter().filter(is_new) {
            let (sender, why) = line.split_once(": ").unwrap_or(("bundles", line));
            all.push((shorten(sender, TEXT_MAX), why.to_owned()));
        }
        all
    }
}

/// The node that a sender stands for: itself, or the last folder or archive of its path.
pub fn node_of(sender: &str) -> &str {
    let last = sender.trim_end_matches('/').rsplit('/').next().unwrap_or(sender);
    let endings = [".tar", ".tar.gz", ".tgz"];
    endings.iter().find_map(|ending| last.strip_suffix(ending)).unwrap_or(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(sender: &str, time: &str, verdict: &'static str) -> Row<'static> {
        Row {
            node: sender.to_owned().into(),
            time: time.to_owned().into(),
            verdict: verdict.into(),
            words: "it is empty".into(),
            ..Row::default()
        }
    }

    fn open_of(rows: &[Row<'_>], session: Option<&str>, window: &Window) -> Vec<String> {
        let mut gathered = Gathered::default();
        rows.iter().for_each(|row| gathered.untaken.take(row));
        if let Some(time) = session {
            let own = Row {
                session: "s".into(),
                device: "cuda:0".into(),
                metric: "m".into(),
                verdict: "pass".into(),
                ..row("n5", time, "pass")
            };
            gathered.take(&own, &"here");
        }
        gathered.recall(window);
        gathered.unusable.into_keys().collect()
    }

    #[test]
    fn what_was_not_taken_stays_open_until_something_settles_it() {
        let window = Window { latest: "2026-12-01".into(), ..Window::default() };
        let left = row("all/n5", "2026-11-20T10:00:00Z", "inconclusive");
        let of = |rows: &[Row<'_>], session| open_of(rows, session, &window);
        assert_eq!(of(std::slice::from_ref(&left), None), ["all/n5"]);
        // Another collection has taken it, or says again that it cannot.
        let taken = row("all/n5", "2026-11-20T11:00:00Z", "pass");
        assert!(of(&[left.clone(), taken.clone()], None).is_empty());
        assert!(of(&[taken.clone(), left.clone()], None).is_empty());
        let again = row("all/n5", "2026-11-20T12:00:00Z", "inconclusive");
        assert_eq!(of(&[left.clone(), taken, again], None), ["all/n5"]);
        // A session of its node, before and after, and on a day that is yet to come.
        let own = std::slice::from_ref(&left);
        assert_eq!(of(own, Some("2026-11-20T09:00:00Z")), ["all/n5"]);
        assert!(of(own, Some("2026-11-20T11:00:00Z")).is_empty());
        assert_eq!(of(own, Some("2099-11-20T11:00:00Z")), ["all/n5"]);
        // The operator's window.
        let since = Window { since: Some("2026-11-21".into()), ..window.clone() };
        assert!(open_of(own, None, &since).is_empty());
        let until = Window { until: Some("2026-11-19".into()), ..window };
        assert!(open_of(own, None, &until).is_empty());
    }

    #[test]
    fn a_path_stands_for_the_node_that_its_last_part_is_named_after() {
        for (sender, node) in [
            ("n5", "n5"),
            ("a/b/n5", "n5"),
            ("a/n5.tgz", "n5"),
            ("a/n5.tar.gz", "n5"),
            ("a/n5/", "n5"),
        ] {
            assert_eq!(node_of(sender), node);
        }
    }
}
