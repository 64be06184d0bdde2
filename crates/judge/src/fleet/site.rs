//! What an operator tells of a fleet: where each node and GPU stands, and which nodes there are to
//! be.

use super::{
    component::Kind as Components,
    gather::{Gathered, column},
    problem::{Kind, Problems},
    units::Units,
};
use fizeau_domain::{
    labels::{self, Belonging, Labels},
    text::{clean, counted},
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Most nodes of a list that are read.
const ROWS_MAX: usize = 10_000_000;

/// The kind of component that every node is.
pub const NODES: &str = "node";

/// The kind of component that the same place in all nodes is.
pub const PLACES: &str = "device";

/// What each device of a fleet belongs to, by the operator's labels, and which nodes have none.
pub fn belongings(
    labels: &Labels,
    units: &Units,
    gathered: &Gathered,
    problems: &mut Problems,
) -> Vec<Belonging> {
    if labels.kinds().is_empty() {
        return vec![Belonging::new(); units.units.len()];
    }
    let of_unit = |unit: &super::units::Unit| {
        let node = &units.nodes[unit.node as usize].plain;
        let told = labels.of(node, Some(gathered.told(unit.entry, column::DEVICE)));
        told.into_iter().map(|(kind, name)| (kind, clean(&name))).collect()
    };
    let all: Vec<Belonging> = units.units.iter().map(of_unit).collect();
    let with: BTreeSet<u32> = { units.units.iter().zip(&all) }
        .filter(|(_, own)| !own.is_empty())
        .map(|(unit, _)| unit.node)
        .collect();
    let without = units.units.iter().map(|unit| unit.node).filter(|node| !with.contains(node));
    let without: BTreeSet<u32> = without.collect();
    if let Some(first) = without.first() {
        let words = format!(
            "{} without a label, such as {}: of no rack or leaf",
            counted(without.len(), "node"),
            units.nodes[*first as usize].name
        );
        problems.add(Kind::Labels, words);
    }
    all
}

/// Nodes, the components that labels name in the order of their columns, and places within nodes.
pub fn components(
    labels: &Labels,
    belongings: &[Belonging],
    units: &Units,
    gathered: &Gathered,
) -> Vec<Components> {
    let mut all = vec![Components {
        name: NODES.into(),
        names: units.nodes.iter().map(|node| node.name.clone()).collect(),
        of: units.units.iter().map(|unit| Some(unit.node)).collect(),
    }];
    let mut told = labels::kinds(belongings.iter());
    told.sort_by_key(|kind| labels.kinds().iter().position(|name| *name == kind.name));
    all.extend(told);
    let place = |unit: &super::units::Unit| {
        let device = clean(gathered.told(unit.entry, column::DEVICE));
        Belonging::from([(PLACES.to_owned(), device)])
    };
    let places: Vec<Belonging> = units.units.iter().map(place).collect();
    all.extend(labels::kinds(places.iter()));
    all
}

/// The nodes that there are to be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expected {
    /// By name: how many GPUs, where that is stated.
    pub nodes: BTreeMap<String, Option<usize>>,
}

impl Expected {
    /// Reads a list: a node on each line, perhaps a comma and its number of GPUs. A first line
    /// `node` (or `host`) or `node,gpus` and lines that begin with `#` are no nodes.
    ///
    /// # Errors
    /// In words, with the line.
    pub fn parse(text: &str) -> Result<Expected, String> {
        let (mut nodes, mut spellings) = (BTreeMap::new(), HashMap::new());
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, gpus) = match line.split_once(',') {
                Some((name, gpus)) => {
                    (name.trim(), Some(gpus.trim()).filter(|text| !text.is_empty()))
                }
                None => (line, None),
            };
            let name = name.trim_matches('"');
            if nodes.is_empty() && ["node", "host"].contains(&name.to_lowercase().as_str()) {
                continue;
            }
            let number = |text: &str| text.parse::<usize>().ok();
            let gpus = match gpus {
                None => None,
                Some(text) => Some(number(text).ok_or_else(|| {
                    format!("line {}: {:?} is no number of GPUs", at + 1, clean(text))
                })?),
            };
            if nodes.len() >= ROWS_MAX {
                return Err(format!("it has more than {ROWS_MAX} nodes"));
            }
            if clean(name) != name {
                let words = "has characters that cannot be seen";
                return Err(format!("line {}: {} {words}", at + 1, clean(name)));
            }
            // Names of hosts are the same in capitals, and with the dot that ends them.
            let plain = name.trim_end_matches('.').to_lowercase();
            if let Some(before) = spellings.insert(plain, name) {
                let words = match before == name {
                    true => "is there twice".to_owned(),
                    false => format!("is there twice, also as {before}"),
                };
                return Err(format!("line {}: {name} {words}", at + 1));
            }
            nodes.insert(name.to_owned(), gpus);
        }
        match nodes.is_empty() {
            true => Err("it names no node".into()),
            false => Ok(Expected { nodes }),
        }
    }

    /// The name by which the list has a node: `node7.example` is `node7` where the list has only
    /// that, as labels have it.
    pub fn named<'n>(&self, node: &'n str) -> Option<&'n str> {
        let short = node.split('.').next().unwrap_or(node);
        [node, short].into_iter().find(|name| self.nodes.contains_key(*name))
    }
}
