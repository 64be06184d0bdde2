//! The catalogue: parts, hosts, links and suites, embedded, or read from a directory.

use crate::{
    spec::{Part, Properties},
    suite::Suite,
};
use std::path::Path;

/// Every (folder, name, text) of `data/`.
static EMBEDDED: &[(&str, &str, &str)] = include!(concat!(env!("OUT_DIR"), "/data.rs"));

/// Parts, hosts, links and suites.
pub struct Catalogue {}

/// What is wrong with the data.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A file cannot be read or parsed.
    #[error("{file}: {why}")]
    File {
        /// Which.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// No suite of that name.
    #[error("no suite is called {name}; there are: {known}")]
    NoSuite {
        /// The name.
        name: String,
        /// Those there are.
        known: String,
    },
}

impl Catalogue {
    /// The one in the program, overlaid by the files of `directory` (same folders) if given.
    pub fn load(_directory: Option<&Path>) -> Result<Catalogue, DataError> {
        let _ = EMBEDDED;
        Ok(Catalogue {})
    }

    /// The part a device is, by PCI id, name, or CPU family and model.
    pub fn part_of(&self, _properties: &Properties) -> Option<&Part> {
        None
    }

    /// A suite by its name, or by a path that ends in `.toml`; with its text, which the record
    /// keeps.
    pub fn suite(&self, name: &str) -> Result<(Suite, String), DataError> {
        let file = |why: String| DataError::File { file: name.into(), why };
        let text = if name.ends_with(".toml") {
            std::fs::read_to_string(name).map_err(|error| file(error.to_string()))?
        } else {
            let suites = || EMBEDDED.iter().filter(|(folder, ..)| *folder == "suites");
            let found = suites().find(|(_, known, _)| *known == name);
            let known = || suites().map(|(_, name, _)| *name).collect::<Vec<_>>().join(", ");
            let none = || DataError::NoSuite { name: name.into(), known: known() };
            found.ok_or_else(none)?.2.to_owned()
        };
        let suite = toml::from_str(&text).map_err(|error| file(error.to_string()))?;
        Ok((suite, text))
    }
}
