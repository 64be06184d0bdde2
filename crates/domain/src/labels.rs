//! Which components of a site its nodes and devices belong to: racks, leaf switches, rails. Told by
//! the operator as CSV, since no node knows it of itself.
//!
//! The first line names the columns. `node` (or `host`) has the name of a node; `device`, which may
//! be left out, has one of its devices (`cuda:3`, or `3`), and where it is empty the line is of all
//! devices of the node. Each other column is a kind of component, such as `rack`, `leaf` or `rail`,
//! with the name of the one that this node or device belongs to; an empty cell says nothing. Lines
//! that begin with `#` are left out.

use std::collections::{BTreeMap, BTreeSet};

/// Columns of kinds that a file may have.
const KINDS_MAX: usize = 32;

/// The components that one node or device belongs to: the name of each, by its kind.
pub type Belonging = BTreeMap<String, String>;

/// The labels of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Labels {
    /// The kinds of components, in the order of their columns.
    kinds: Vec<String>,
    /// By node and device; `None` is of all devices of a node.
    lines: BTreeMap<(String, Option<String>), Belonging>,
}

/// One kind of component, such as racks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kind {
    /// Its name: `rack`, `leaf`.
    pub name: String,
    /// The names of the components.
    pub names: Vec<String>,
    /// The component that each member (a GPU, a rank) belongs to.
    pub of: Vec<Option<u32>>,
}

/// Why a text has no labels.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum LabelsError {
    /// It is no CSV.
    #[error("not CSV with labels: {0}")]
    Csv(String),
    /// No column has the names of nodes.
    #[error("there is no column `node`: the first line names the columns, as in node,leaf,rack")]
    NoNode,
    /// No column has names of components.
    #[error("there is no column of labels beside the node's: name one `leaf`, `rack` or `rail`")]
    NoKind,
    /// More kinds than anybody has.
    #[error("there are {0} columns of labels, and {KINDS_MAX} at most are read")]
    TooMany(usize),
    /// Two columns of one name.
    #[error("two columns have the name {0:?}")]
    Twice(String),
    /// A line cannot be.
    #[error("line {at}: {why}")]
    Line {
        /// Which, from 1.
        at: u64,
        /// What is wrong.
        why: String,
    },
}

impl Labels {
    /// Reads CSV.
    ///
    /// # Errors
    /// Where it is none, a column is missing, or two lines say different things of one device.
    pub fn parse(text: &str) -> Result<Labels, LabelsError> {
        let wrong = |error: csv::Error| LabelsError::Csv(error.to_string());
        let text = text.trim_start_matches('\u{feff}');
        let mut reader = csv::ReaderBuilder::new()
            .trim(csv::Trim::All)
            .comment(Some(b'#'))
            .from_reader(text.as_bytes());
        let columns: Vec<String> =
            reader.headers().map_err(wrong)?.iter().map(str::to_lowercase).collect();
        let mut seen = BTreeSet::new();
        if let Some(twice) = columns.iter().find(|column| !seen.insert(column.as_str())) {
            return Err(LabelsError::Twice(twice.clone()));
        }
        let at = |names: [&str; 2]| columns.iter().position(|one| names.contains(&one.as_str()));
        let node = at(["node", "host"]).ok_or(LabelsError::NoNode)?;
        let device = at(["device", "gpu"]);
        let kinds: Vec<usize> = (0..columns.len())
            .filter(|&column| column != node && Some(column) != device)
            .filter(|&column| !columns[column].is_empty())
            .collect();
        match kinds.len() {
            0 => return Err(LabelsError::NoKind),
            count if count > KINDS_MAX => return Err(LabelsError::TooMany(count)),
            _ => {}
        }
        let mut lines = BTreeMap::new();
        for record in reader.records() {
            let record = record.map_err(wrong)?;
            let at = record.position().map_or(0, csv::Position::line);
            let cell = |column: usize| record.get(column).filter(|cell| !cell.is_empty());
            let Some(node) = cell(node) else {
                return Err(LabelsError::Line { at, why: "the node's name is missing".into() });
            };
            let place = (node.to_owned(), device.and_then(cell).map(device_name));
            let of = |&column: &usize| Some((columns[column].clone(), cell(column)?.to_owned()));
            let belonging: Belonging = kinds.iter().filter_map(of).collect();
            if let Some(name) =
                belonging.values().chain(belonging.keys()).find(|one| one.contains(';'))
            {
                let why = format!("{name:?} has a semicolon, which separates labels elsewhere");
                return Err(LabelsError::Line { at, why });
            }
            let before = lines.insert(place, belonging.clone());
            if before.is_some_and(|before| before != belonging) {
                let why = format!("{node} has other labels in a line before");
                return Err(LabelsError::Line { at, why });
            }
        }
        let kinds = kinds.into_iter().map(|column| columns[column].clone()).collect();
        Ok(Labels { kinds, lines })
    }

    /// The kinds of components, in the order of their columns.
    pub fn kinds(&self) -> &[String] {
        &self.kinds
    }

    /// What a device (`cuda:3`) of a node belongs to; nothing where the file does not have the
    /// node. `node7.example` is `node7` too, where the file has only that.
    pub fn of(&self, node: &str, device: Option<&str>) -> Belonging {
        let short = node.split('.').next().unwrap_or(node);
        let line = |device: &Option<String>| {
            let of = |node: &str| self.lines.get(&(node.to_owned(), device.clone()));
            of(node).or_else(|| of(short)).cloned().unwrap_or_default()
        };
        let mut all = line(&None);
        if let Some(device) = device {
            all.extend(line(&Some(device_name(device))));
        }
        all
    }
}

/// `cuda:3` of `3`, `cuda:3` and `cuda:3 (NVIDIA H200)`.
fn device_name(device: &str) -> String {
    let word = device.split_whitespace().next().unwrap_or(device);
    match word.parse::<u32>() {
        Ok(number) => format!("cuda:{number}"),
        Err(_) => word.to_owned(),
    }
}

/// A device's components in one cell: `leaf=l3;rail=r1`.
pub fn in_one(belonging: &Belonging) -> String {
    let all: Vec<String> = belonging.iter().map(|(kind, name)| format!("{kind}={name}")).collect();
    all.join(";")
}

/// The same read back; what has no `=` is left out.
pub fn of_one(cell: &str) -> Belonging {
    let pairs = cell.split(';').filter_map(|one| one.split_once('='));
    pairs.map(|(kind, name)| (kind.trim().to_owned(), name.trim().to_owned())).collect()
}

/// The components of all members, by kind. Kinds and names are in alphabetical order.
pub fn kinds<'b>(members: impl Iterator<Item = &'b Belonging> + Clone) -> Vec<Kind> {
    let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (kind, name) in members.clone().flatten() {
        names.entry(kind).or_default().insert(name);
    }
    let kind = |(kind, names): (&str, BTreeSet<&str>)| {
        let number = |name: &str| names.iter().position(|one| *one == name).map(|at| at as u32);
        let numbers: BTreeMap<&str, Option<u32>> =
            names.iter().map(|&name| (name, number(name))).collect();
        let of = |belonging: &Belonging| {
            belonging.get(kind).and_then(|name| numbers.get(name.as_str()).copied().flatten())
        };
        Kind {
            name: kind.to_owned(),
            of: members.clone().map(of).collect(),
            names: names.iter().map(|&name| name.to_owned()).collect(),
        }
    };
    names.into_iter().map(kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn belonging(all: &[(&str, &str)]) -> Belonging {
        all.iter().map(|(kind, name)| ((*kind).to_owned(), (*name).to_owned())).collect()
    }

    #[test]
    fn devices_have_what_their_node_has_and_their_own() {
        let text =
            "\u{feff}Node, device, leaf, rail\nn1,,l1,\nn1,0,,r0\nn1, cuda:1 ,l2,r1\nn2,,l1,\n";
        let labels = Labels::parse(text).unwrap();
        assert_eq!(labels.kinds(), ["leaf", "rail"]);
        let of = |node, device| labels.of(node, device);
        assert_eq!(of("n1", None), belonging(&[("leaf", "l1")]));
        assert_eq!(
            of("n1", Some("cuda:0 (NVIDIA H200)")),
            belonging(&[("leaf", "l1"), ("rail", "r0")])
        );
        assert_eq!(of("n1", Some("cuda:1")), belonging(&[("leaf", "l2"), ("rail", "r1")]));
        assert_eq!(of("n2.example", Some("cuda:7")), belonging(&[("leaf", "l1")]));
        assert_eq!(of("n3", None), Belonging::new());
    }

    #[test]
    fn one_cell_has_them_all() {
        let both = belonging(&[("leaf", "l=3"), ("rail", "r1")]);
        assert_eq!(in_one(&both), "leaf=l=3;rail=r1");
        assert_eq!(of_one("leaf=l=3; rail = r1;"), both);
        assert_eq!(of_one("nothing"), Belonging::new());
    }

    #[test]
    fn components_are_numbered_by_kind() {
        let all = [
            belonging(&[("leaf", "b"), ("rack", "r")]),
            belonging(&[("leaf", "a")]),
            belonging(&[]),
            belonging(&[("leaf", "b")]),
        ];
        let kinds = kinds(all.iter());
        let leaf = Kind {
            name: "leaf".into(),
            names: vec!["a".into(), "b".into()],
            of: vec![Some(1), Some(0), None, Some(1)],
        };
        assert_eq!(kinds[0], leaf);
        assert_eq!(kinds[1].of, [Some(0), None, None, None]);
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let error = |text: &str| Labels::parse(text).unwrap_err().to_string();
        assert!(error("name,leaf\na,b\n").contains("no column `node`"));
        assert!(error("node\na\n").contains("no column of labels"));
        assert!(error("node,leaf,Leaf\n").contains("\"leaf\""));
        assert!(error("node,leaf\n,b\n").contains("line 2: the node's name is missing"));
        assert!(error("node,leaf\na,b\na,c\n").contains("line 3: a has other labels"));
        assert!(error("node,leaf\na,b,c\n").contains("not CSV with labels"));
        assert_eq!(Labels::parse("node,leaf\na,b\na,b\n").unwrap().lines.len(), 1);
    }
}
