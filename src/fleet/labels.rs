//! What an operator tells of a fleet: where each node and GPU stands, and which nodes there are to
//! be.

use super::{
    component::Kind as Components,
    gather::{Gathered, column},
    problem::{Kind, Problems},
    units::Units,
};
use crate::text::{clean, counted};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Most columns of labels.
const COLUMNS_MAX: usize = 64;

/// Most rows that are read, of labels and of expected nodes.
const ROWS_MAX: usize = 10_000_000;

/// Labels of nodes and of single devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Labels {
    /// The names of the labels: `rack`, `leaf`.
    pub names: Vec<String>,
    /// By node and device (empty: the whole node): a value for each name, empty where it has none.
    values: HashMap<(String, String), Vec<String>>,
}

impl Labels {
    /// Reads a CSV file: a column `node`, perhaps a column `device`, and one for each label.
    ///
    /// # Errors
    /// In words, with the line.
    pub fn parse(text: &str) -> Result<Labels, String> {
        let mut reader = csv::ReaderBuilder::new()
            .trim(csv::Trim::All)
            .comment(Some(b'#'))
            .from_reader(text.as_bytes());
        let headers = reader.headers().map_err(|error| error.to_string())?.clone();
        let at = |name: &str| headers.iter().position(|header| header == name);
        let node = at("node").ok_or("its first line has no column \"node\"")?;
        let device = at("device");
        let own: Vec<usize> =
            (0..headers.len()).filter(|one| *one != node && Some(*one) != device).collect();
        if own.is_empty() {
            return Err("it has no column with a label besides \"node\" and \"device\"".into());
        }
        if own.len() > COLUMNS_MAX {
            return Err(format!("it has {} labels: at most {COLUMNS_MAX} are read", own.len()));
        }
        let names: Vec<String> = own.iter().map(|one| headers[*one].to_owned()).collect();
        let is_twice = |name: &String| names.iter().filter(|other| *other == name).count() > 1;
        let taken = ["node", "device"];
        if let Some(name) = names.iter().find(|name| is_twice(name) || name.is_empty()) {
            return Err(format!(
                "the label {name:?} has to have a name of its own, beside {taken:?}"
            ));
        }
        let mut values = HashMap::new();
        for (number, record) in reader.records().enumerate() {
            let record = record.map_err(|error| error.to_string())?;
            if number >= ROWS_MAX {
                return Err(format!("it has more than {ROWS_MAX} lines"));
            }
            let device = device.map_or(String::new(), |at| record[at].to_owned());
            let row = own.iter().map(|at| record[*at].to_owned()).collect();
            let key = (record[node].to_owned(), device);
            let said = key.clone();
            if values.insert(key, row).is_some() {
                return Err(format!("{} {} has labels twice", clean(&said.0), clean(&said.1)));
            }
        }
        Ok(Labels { names, values })
    }

    /// A label of a device: its own, or its node's.
    fn of<'l>(&'l self, node: &str, device: &str, at: usize) -> Option<&'l str> {
        let value = |device: &str| {
            let row = self.values.get(&(node.to_owned(), device.to_owned()))?;
            Some(row[at].as_str()).filter(|value| !value.is_empty())
        };
        value(device).or_else(|| value(""))
    }

    /// A label of a device of a fleet.
    pub fn of_unit<'l>(
        &'l self,
        units: &Units,
        gathered: &Gathered,
        unit: u32,
        at: usize,
    ) -> Option<&'l str> {
        let one = &units.units[unit as usize];
        let node = &units.nodes[one.node as usize].plain;
        self.of(node, gathered.told(one.entry, column::DEVICE), at)
    }

    /// Nodes, places within nodes, and the components that labels name.
    pub fn components(
        &self,
        units: &Units,
        gathered: &Gathered,
        problems: &mut Problems,
    ) -> Vec<Components> {
        let nodes = Components {
            name: "node".into(),
            names: units.nodes.iter().map(|node| node.name.clone()).collect(),
            of: units.units.iter().map(|unit| Some(unit.node)).collect(),
        };
        let mut all = vec![nodes];
        for (at, name) in self.names.iter().enumerate() {
            let label = |unit: u32| self.of_unit(units, gathered, unit, at).map(clean);
            all.push(kind(name, units.units.len(), label));
        }
        let device = |unit: u32| {
            Some(clean(gathered.told(units.units[unit as usize].entry, column::DEVICE)))
        };
        all.push(kind("device", units.units.len(), device));
        self.check(units, problems);
        all
    }

    /// Says which nodes have no label, and which labels no node.
    fn check(&self, units: &Units, problems: &mut Problems) {
        if self.names.is_empty() {
            return;
        }
        let labelled: BTreeSet<&str> = self.values.keys().map(|(node, _)| node.as_str()).collect();
        let known: BTreeSet<&str> = units.nodes.iter().map(|node| node.plain.as_str()).collect();
        let without: Vec<&&str> = known.difference(&labelled).collect();
        if let Some(first) = without.first() {
            let words = format!(
                "{} without a label, such as {first}: of no rack or leaf",
                counted(without.len(), "node")
            );
            problems.add(Kind::Labels, words);
        }
    }
}

/// Components by the label that each device has.
fn kind(name: &str, units: usize, label: impl Fn(u32) -> Option<String>) -> Components {
    let labels: Vec<Option<String>> = (0..units as u32).map(label).collect();
    let mut names: Vec<&String> = labels.iter().flatten().collect();
    names.sort_by(|a, b| super::units::by_number(a, b));
    names.dedup();
    let number: HashMap<&String, u32> =
        names.iter().enumerate().map(|(at, name)| (*name, at as u32)).collect();
    let of = labels.iter().map(|label| label.as_ref().map(|label| number[label])).collect();
    Components { name: name.into(), names: names.into_iter().cloned().collect(), of }
}

/// The nodes that there are to be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expected {
    /// By name: how many GPUs, where that is stated.
    pub nodes: BTreeMap<String, Option<usize>>,
}

impl Expected {
    /// Reads a list: a node on each line, perhaps a comma and its number of GPUs. A first line
    /// `node` or `node,gpus` and lines that begin with `#` are no nodes.
    ///
    /// # Errors
    /// In words, with the line.
    pub fn parse(text: &str) -> Result<Expected, String> {
        let mut nodes = BTreeMap::new();
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
            if nodes.is_empty() && name == "node" {
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
            if nodes.insert(name.to_owned(), gpus).is_some() {
                return Err(format!("line {}: {} is there twice", at + 1, clean(name)));
            }
        }
        match nodes.is_empty() {
            true => Err("it names no node".into()),
            false => Ok(Expected { nodes }),
        }
    }
}
