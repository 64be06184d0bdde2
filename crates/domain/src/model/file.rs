//! Files of `data/models`: the fields of a configuration that sizes follow from, and what its
//! publisher says.

use super::{Model, config};
use crate::spec::part::Source;
use serde::Deserialize;
use serde_json::{Map, Value};

/// A file of `data/models`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    /// As its publisher calls it.
    pub name: String,
    /// Other models of the same sizes.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// What to know of its numbers.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What its publisher says.
    pub published: Option<Published>,
    /// Fields of its configuration, by the names that they have there.
    pub config: Map<String, Value>,
    /// Where the numbers come from.
    pub source: Vec<Source>,
}

/// Numbers of parameters as a publisher states them.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// All of them.
    pub total: f64,
    /// Those that one token is multiplied with.
    pub active: Option<f64>,
}

impl ModelFile {
    /// The model.
    ///
    /// # Errors
    /// Where its configuration is not understood.
    pub fn model(&self) -> Result<Model, config::ConfigError> {
        let mut model = config::of_map(&self.name, &self.config)?;
        model.notes.extend(self.notes.iter().cloned());
        Ok(model)
    }

    /// Whether people call it so, in letters of either case.
    pub fn is_called(&self, name: &str) -> bool {
        let mut names = self.aliases.iter().chain([&self.name]);
        names.any(|known| known.eq_ignore_ascii_case(name))
    }
}
