//! Who may say what of whom. A bundle speaks for one node, its own: what it says of another node is
//! never evidence. Every node that sent something is accounted for, also where nothing of it
//! counts.

use super::{
    gather::{Gathered, column},
    row::Row,
    strata::Strata,
    units::{Unit, Units, is_gpu},
};
use fizeau_domain::text::{clean, counted};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Why an entry does not count, though the operator's window does not leave it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Left {
    /// Its session is dated when none can have been.
    Dated,
    /// Its session is about other nodes too.
    Shared,
    /// Its figures are marked as made up, and others were measured.
    MadeUp,
    /// Another machine has its name now.
    Machine,
    /// Another board is in its place now.
    Board,
    /// Its board is said to be in another node now.
    Moved,
}

impl Left {
    /// Whether something else has the place of the one whose session it is.
    pub fn is_displaced(&self) -> bool {
        matches!(self, Left::Machine | Left::Board | Left::Moved)
    }

    fn words(self) -> &'static str {
        match self {
            Left::Dated => "its session is dated when none can have been: set the node's clock",
            Left::Shared => "its session is about several nodes: collect its bundle again",
            Left::MadeUp => "its figures are marked as made up",
            Left::Machine => "another machine has its name now",
            Left::Board => "another board is in its place now",
            Left::Moved => "its board is said to be in another node now: measure this node again",
        }
    }
}

/// What of the rows of a bundle is of its own node.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// The node that the bundle speaks for; none where its rows name several and its identity none.
    pub node: Option<String>,
    /// Rows that are refused, by the node that they name.
    pub refused: BTreeMap<String, usize>,
}

/// Keeps the rows that are of the bundle's own node: the one of its identity, or the only one that
/// its rows name where its identity names none.
pub fn keep_own(rows: &mut Vec<Row<'_>>, identity: Option<&str>) -> Own {
    let named: BTreeSet<String> = rows.iter().map(|row| row.node.to_string()).collect();
    let only = named.first().filter(|_| named.len() == 1).cloned();
    let node = identity.map(str::to_owned).or(only);
    let mut refused = BTreeMap::new();
    rows.retain(|row| {
        let is_own = node.as_deref() == Some(row.node.as_ref());
        if !is_own {
            *refused.entry(row.node.to_string()).or_default() += 1;
        }
        is_own
    });
    Own { node, refused }
}

impl Own {
    /// What was refused, in words; none where all rows are of the bundle's own node.
    pub fn words(&self) -> Option<String> {
        let first = self.refused.keys().next()?;
        let rows = counted(self.refused.values().sum(), "row");
        let others = match self.refused.len() {
            1 => clean(first),
            count => format!("{count} other nodes, such as {}", clean(first)),
        };
        let own = match &self.node {
            Some(node) => format!("for its own node alone, {}", clean(node)),
            None => "for one node, and its identity names none".into(),
        };
        Some(format!("{rows} of {others} refused: a bundle speaks {own}"))
    }
}

/// Of fewer nodes of a kind it is not known what they have in common.
const ALIKE_MIN: usize = 4;

/// Whether what some nodes of a kind have is usual for it: all have it but one, or one in ten.
fn is_usual(having: usize, nodes: usize) -> bool {
    nodes >= ALIKE_MIN && nodes - having <= (nodes / 10).max(1)
}

/// Nodes of which something that was sent, or has to be there, does not count, with the first
/// reason.
pub fn accounts(
    gathered: &Gathered,
    units: &Units,
    left: &[Option<Left>],
) -> BTreeMap<String, String> {
    let mut all = left_out(gathered, units, left, &|_| true);
    for (node, words) in short(gathered, units) {
        all.entry(node).or_insert(words);
    }
    // What was refused when it was read.
    for (sender, why) in &gathered.unusable {
        all.entry(sender.clone()).or_insert_with(|| why.clone());
    }
    all
}

/// Nodes with a device of which no session counts, with the first reason of those that are asked
/// for. A device that was measured in another session that counts is not missed.
pub fn left_out(
    gathered: &Gathered,
    units: &Units,
    left: &[Option<Left>],
    is_asked: &dyn Fn(&Left) -> bool,
) -> BTreeMap<String, String> {
    let place = |at: usize| {
        let columns = &gathered.entries[at].columns;
        (columns[column::NODE], columns[column::DEVICE])
    };
    let counting = (0..gathered.entries.len()).filter(|at| units.node_of[*at].is_some());
    let counting: BTreeSet<(u32, u32)> = counting.map(place).collect();
    let mut all = BTreeMap::new();
    for (at, why) in left.iter().enumerate() {
        let why = why.filter(|why| is_asked(why) && !counting.contains(&place(at)));
        let Some(why) = why else { continue };
        let entry = at as u32;
        let (node, device) = (gathered.told(entry, column::NODE), column::DEVICE);
        let device = clean(gathered.told(entry, device));
        all.entry(clean(node)).or_insert_with(|| format!("{device}: {}", why.words()));
    }
    all
}

/// Adds the nodes that lack a metric to those that are not whole.
pub fn add_unmeasured(gathered: &Gathered, units: &mut Units, strata: &Strata) {
    for (node, why) in unmeasured(gathered, units, strata) {
        units.accounts.entry(node).or_insert(why);
    }
}

/// Nodes with a device that lacks a metric which is usual for nodes with the same kind of device: a
/// figure that is left out is not one that passes.
fn unmeasured(gathered: &Gathered, units: &Units, strata: &Strata) -> Vec<(String, String)> {
    let kind = |unit: &Unit| {
        let device = gathered.told(unit.entry, column::DEVICE);
        let class = if is_gpu(device) { "" } else { device };
        (gathered.told(unit.entry, column::PART), class)
    };
    let mut kinds: HashMap<(&str, &str), Vec<u32>> = HashMap::new();
    for (at, unit) in units.units.iter().enumerate() {
        kinds.entry(kind(unit)).or_default().push(at as u32);
    }
    let mut measured: HashMap<u32, HashSet<u32>> = HashMap::new();
    for (group, subject) in strata.groups.iter().zip(&strata.subjects_of) {
        measured.entry(*subject).or_default().extend(group.gpus());
    }
    let nodes_of = |all: &mut dyn Iterator<Item = u32>| {
        all.map(|unit| units.units[unit as usize].node).collect::<HashSet<u32>>().len()
    };
    let mut found = BTreeMap::new();
    for all in kinds.values() {
        let nodes = nodes_of(&mut all.iter().copied());
        for (subject, with) in &measured {
            let having = nodes_of(&mut all.iter().copied().filter(|unit| with.contains(unit)));
            if !is_usual(having, nodes) {
                continue;
            }
            let metric = &strata.subjects[*subject as usize].name;
            for unit in all.iter().filter(|unit| !with.contains(unit)) {
                let unit = &units.units[*unit as usize];
                let device = clean(gathered.told(unit.entry, column::DEVICE));
                let words = format!("{device}: {metric} is absent, which nodes of its kind have");
                let node = units.nodes[unit.node as usize].plain.clone();
                let known = found.entry(node).or_insert_with(|| words.clone());
                if words < *known {
                    *known = words;
                }
            }
        }
    }
    found.into_iter().collect()
}

/// Nodes that have fewer GPUs than is usual for nodes with the same GPUs and host type.
fn short(gathered: &Gathered, units: &Units) -> Vec<(String, String)> {
    let mut gpus: HashMap<u32, (usize, [&str; 2])> = HashMap::new();
    for unit in &units.units {
        let told = |column| gathered.told(unit.entry, column);
        if is_gpu(told(column::DEVICE)) {
            let kind = [told(column::PART), told(column::HOST_TYPE)];
            gpus.entry(unit.node).or_insert((0, kind)).0 += 1;
        }
    }
    let mut kinds: HashMap<[&str; 2], BTreeMap<usize, usize>> = HashMap::new();
    for (count, kind) in gpus.values() {
        *kinds.entry(*kind).or_default().entry(*count).or_default() += 1;
    }
    let usual = |kind: &[&str; 2]| {
        let counts = &kinds[kind];
        let nodes: usize = counts.values().sum();
        let (count, of) = counts.iter().max_by_key(|(_, nodes)| **nodes)?;
        is_usual(*of, nodes).then_some(*count)
    };
    let of_node = |(node, (count, kind)): (&u32, &(usize, [&str; 2]))| {
        let usual = usual(kind).filter(|usual| count < usual)?;
        let name = units.nodes[*node as usize].plain.clone();
        Some((name, format!("{}, and nodes of its kind have {usual}", counted(*count, "GPU"))))
    };
    gpus.iter().filter_map(of_node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(node: &str) -> Row<'static> {
        Row { node: node.to_owned().into(), ..Row::default() }
    }

    #[test]
    fn a_bundle_speaks_for_the_node_of_its_identity_alone() {
        let mut rows = vec![row("n1"), row("n2"), row("n2"), row("n3")];
        let own = keep_own(&mut rows, Some("n1"));
        assert_eq!(rows, [row("n1")]);
        let words = own.words().expect("words");
        assert!(words.starts_with("3 rows of 2 other nodes, such as n2 refused"), "{words}");
        // Without an identity the only node is its own, and of several none is.
        let mut rows = vec![row("n2"), row("n2")];
        assert_eq!(keep_own(&mut rows, None).words(), None);
        let mut rows = vec![row("n1"), row("n2")];
        assert!(keep_own(&mut rows, None).words().expect("words").contains("identity names none"));
        assert!(rows.is_empty());
    }
}
