//! Fields of a configuration: each is asked for by name, and what nobody asked for can be told.

use super::{config::ConfigError, family::Canonical};
use serde_json::{Map, Value};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

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
    /// Names as the file has them, by those that are asked for.
    spelled: BTreeMap<String, String>,
    /// Fields that are not in the file: what an architecture takes in their place.
    defaults: BTreeSet<String>,
}

impl<'a> Fields<'a> {
    /// Of an object at a path.
    pub fn of(map: &'a Map<String, Value>, path: &str) -> Fields<'a> {
        let (spelled, defaults) = (BTreeMap::new(), BTreeSet::new());
        Fields { map, path: path.into(), asked: RefCell::default(), spelled, defaults }
    }

    /// Of an object as an architecture reads it.
    pub fn of_family(read: &'a Canonical, path: &str) -> Fields<'a> {
        let (spelled, defaults) = (read.spelled.clone(), read.defaults.clone());
        Fields { spelled, defaults, ..Fields::of(&read.map, path) }
    }

    /// The name of a field with its path.
    pub fn named(&self, name: &str) -> String {
        format!("{}{}", self.path, self.spelled.get(name).map_or(name, String::as_str))
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

    /// The names of its fields, in alphabetical order.
    pub fn names(&self) -> Vec<String> {
        self.map.keys().cloned().collect()
    }

    /// Whether there is such a field.
    pub fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// Whether a field is not in the file, and its architecture's default stands for it.
    pub fn is_default(&self, name: &str) -> bool {
        self.defaults.contains(name)
    }

    /// A whole number from 0 to 2^27, where there is one.
    pub fn count(&self, name: &str) -> Result<Option<u32>, ConfigError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        // One number for each layer counts as one where all are equal.
        let value = match value {
            Value::Array(list) => match list.first() {
                Some(first) if list.iter().all(|each| each == first) => first,
                _ => value,
            },
            _ => value,
        };
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

    /// Whether a truth value is there and is this one.
    pub fn is_set(&self, name: &str, flag: bool) -> Result<bool, ConfigError> {
        Ok(self.has(name) && self.flag(name)? == flag)
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
            None => {
                match (self.list("layers_block_type")?, self.text("hybrid_override_pattern")?) {
                    (Some(list), _) if !list.is_empty() => list.len() as u32,
                    (None, Some(letters)) if !letters.is_empty() => letters.len() as u32,
                    _ => return Err(self.refuse(name, "it is missing")),
                }
            }
        };
        if layers as usize > LAYERS_MAX {
            return Err(self.refuse(name, format!("{layers}: it is {LAYERS_MAX} at most")));
        }
        Ok(layers)
    }

    /// Every field that nobody asked for and that may change a size: a number, a list, a table
    /// or `true`. Words, `false`, null and what is empty say nothing of sizes.
    pub fn unread(&self, harmless: &[&str]) -> Vec<String> {
        let asked = self.asked.borrow();
        let matters = |value: &Value| match value {
            Value::Null | Value::String(_) => false,
            Value::Bool(flag) => *flag,
            Value::Number(_) => true,
            Value::Array(list) => !list.is_empty(),
            Value::Object(map) => !map.is_empty(),
        };
        let unread = self.map.iter().filter(|(name, value)| {
            let is_known = asked.contains(name.as_str())
                || harmless.contains(&name.as_str())
                || self.defaults.contains(*name);
            !is_known && matters(value)
        });
        unread.map(|(name, _)| self.named(name)).collect()
    }

    /// Refuses a table that has fields which nobody asked for.
    ///
    /// # Errors
    /// All of them at once.
    pub fn not_understood(&self, harmless: &[&str]) -> Result<(), ConfigError> {
        ConfigError::of_unread(self.unread(harmless))
    }

    /// Sizes that were asked for, are not in the file, and were taken from the architecture.
    pub fn taken(&self) -> Vec<String> {
        let asked = self.asked.borrow();
        let sizes = SIZES
            .split_whitespace()
            .filter(|name| self.defaults.contains(*name) && asked.contains(name));
        let words = sizes.filter_map(|name| {
            let value = self.map.get(name)?;
            Some(format!("{} {value}", self.spelled.get(name).map_or(name, String::as_str)))
        });
        words.collect()
    }
}

/// Sizes that a reader of the file may miss, in the order of notes.
const SIZES: &str = "hidden_size num_hidden_layers intermediate_size vocab_size \
    num_attention_heads num_key_value_heads head_dim num_experts num_local_experts \
    n_routed_experts num_experts_per_tok moe_intermediate_size shared_expert_intermediate_size \
    n_shared_experts intermediate_size_mlp kv_lora_rank q_lora_rank qk_nope_head_dim \
    qk_rope_head_dim v_head_dim linear_num_key_heads linear_num_value_heads linear_key_head_dim \
    linear_value_head_dim mamba_n_heads mamba_d_head mamba_d_state mamba_n_groups";
