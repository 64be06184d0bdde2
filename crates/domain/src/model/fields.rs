//! Fields of a configuration: each is asked for by name, and what nobody asked for can be told.

use super::config::ConfigError;
use serde_json::{Map, Value};
use std::{cell::RefCell, collections::BTreeSet};

/// No field of a known model is larger; products of a few of them stay exact.
const NUMBER_MAX: u64 = 1 << 27;

/// The most layers that are read.
const LAYERS_MAX: usize = 4096;

/// The fields of one object, which remembers those that were asked for.
pub struct Fields<'a> {
    map: &'a Map<String, Value>,
    /// What stands before a name in errors: `text_config.`.
    path: String,
    asked: RefCell<BTreeSet<&'a str>>,
}

impl<'a> Fields<'a> {
    /// Of an object at a path.
    pub fn of(map: &'a Map<String, Value>, path: &str) -> Fields<'a> {
        Fields { map, path: path.into(), asked: RefCell::default() }
    }

    /// The name of a field with its path.
    pub fn named(&self, name: &str) -> String {
        format!("{}{name}", self.path)
    }

    /// What is wrong with a field.
    pub fn refuse(&self, name: &str, why: impl Into<String>) -> ConfigError {
        ConfigError::Field { field: self.named(name), why: why.into() }
    }

    /// A field that is there and not null.
    pub fn value(&self, name: &str) -> Option<&'a Value> {
        let (key, value) = self.map.get_key_value(name)?;
        self.asked.borrow_mut().insert(key);
        Some(value).filter(|value| !value.is_null())
    }

    /// Whether there is such a field.
    pub fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// A whole number from 0 to 2^27, where there is one.
    pub fn count(&self, name: &str) -> Result<Option<u32>, ConfigError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        match value.as_u64().filter(|number| *number <= NUMBER_MAX) {
            Some(number) => Ok(Some(number as u32)),
            None => Err(self.refuse(name, format!("{value} is no whole number from 0 to 2^27"))),
        }
    }

    /// A whole number above 0.
    pub fn number(&self, name: &str) -> Result<u32, ConfigError> {
        self.positive(name)?.ok_or_else(|| self.refuse(name, "it is missing"))
    }

    /// A whole number above 0, where there is one.
    pub fn positive(&self, name: &str) -> Result<Option<u32>, ConfigError> {
        match self.count(name)? {
            Some(0) => Err(self.refuse(name, "it is 0")),
            other => Ok(other),
        }
    }

    /// The first of several names that is there.
    pub fn one_of(&self, names: &[&str]) -> Result<Option<u32>, ConfigError> {
        let mut found = None;
        for name in names {
            let number = self.count(name)?;
            match (found, number) {
                (Some((first, one)), Some(other)) if one != other => {
                    let why = format!("it is {other}, while {first} is {one}");
                    return Err(self.refuse(name, why));
                }
                (None, Some(number)) => found = Some((name, number)),
                _ => {}
            }
        }
        Ok(found.map(|(_, number)| number))
    }

    /// A truth value, false where there is none.
    pub fn flag(&self, name: &str) -> Result<bool, ConfigError> {
        match self.value(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(self.refuse(name, format!("{other} is not true or false"))),
        }
    }

    /// Words, where there are some.
    pub fn text(&self, name: &str) -> Result<Option<&'a str>, ConfigError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.refuse(name, format!("{other} is no text"))),
        }
    }

    /// A list, where there is one.
    pub fn list(&self, name: &str) -> Result<Option<&'a Vec<Value>>, ConfigError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Array(list)) if list.len() <= 2 * LAYERS_MAX => Ok(Some(list)),
            Some(_) => Err(self.refuse(name, "it is no list, or a very long one")),
        }
    }

    /// A list of words or numbers with one for each layer, as text.
    pub fn by_layer(&self, name: &str, layers: u32) -> Result<Option<Vec<String>>, ConfigError> {
        let Some(list) = self.list(name)? else { return Ok(None) };
        if list.len() != layers as usize {
            let why = format!("it has {} entries for {layers} layers", list.len());
            return Err(self.refuse(name, why));
        }
        let words = list.iter().map(|entry| match entry {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        Ok(Some(words.collect()))
    }

    /// An object, where there is one.
    pub fn object(&self, name: &str) -> Result<Option<Fields<'a>>, ConfigError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(Fields::of(map, &self.named(&format!("{name}."))))),
            Some(_) => Err(self.refuse(name, "it is no table of fields")),
        }
    }

    /// The number of layers.
    pub fn layers(&self) -> Result<u32, ConfigError> {
        let name = "num_hidden_layers";
        let layers = match self.positive(name)? {
            Some(layers) => layers,
            // Nemotron-H states its layers one by one.
            None => match self.list("layers_block_type")? {
                Some(list) if !list.is_empty() => list.len() as u32,
                _ => return Err(self.refuse(name, "it is missing")),
            },
        };
        if layers as usize > LAYERS_MAX {
            return Err(self.refuse(name, format!("{layers}: it is {LAYERS_MAX} at most")));
        }
        Ok(layers)
    }

    /// The first field that nobody asked for and that may change a size: a number, a list, a table
    /// or `true`. Words, `false`, null and what is empty say nothing of sizes.
    pub fn not_understood(&self, harmless: &[&str]) -> Result<(), ConfigError> {
        let asked = self.asked.borrow();
        let matters = |value: &Value| match value {
            Value::Null | Value::String(_) => false,
            Value::Bool(flag) => *flag,
            Value::Number(_) => true,
            Value::Array(list) => !list.is_empty(),
            Value::Object(map) => !map.is_empty(),
        };
        for (name, value) in self.map {
            let is_known = asked.contains(name.as_str()) || harmless.contains(&name.as_str());
            if !is_known && matters(value) {
                return Err(self.refuse(
                    name,
                    "it is not understood and may change sizes. If it does not, take it out of \
                     the file",
                ));
            }
        }
        Ok(())
    }
}
