//! Architectures as data: `families.toml` says of each which fields it reads under which names,
//! what it takes where a field is absent, and which layers are of which kind.

use serde::Deserialize;
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

/// An architecture.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Family {
    /// Other values of `model_type` that are read alike.
    pub also: Vec<String>,
    /// Which reader its layers need.
    pub mixer: Reads,
    /// Fields under another name: that of the file, and that which is read.
    pub names: BTreeMap<String, String>,
    /// What it takes where the file has no such field.
    pub defaults: Map<String, Value>,
    /// Fields that it does not read, or that change no size.
    pub ignores: BTreeSet<String>,
    /// Kinds of layers where the file has no list of them.
    pub layers: Pattern,
    /// What a layer of linear attention is.
    pub linear: Option<LinearKind>,
    /// Whether attention has an output gate without a field for it.
    pub gate: bool,
    /// Fields of a bias of queries, keys and values; `always` where it has one without a field.
    pub bias: Vec<String>,
    /// Fields of a bias of the projection of the output.
    pub bias_out: Vec<String>,
    /// Matrices of a feed-forward layer.
    pub matrices: u32,
    /// How names of weights call a layer of experts.
    pub moe: String,
    /// Which layers are mixtures of experts.
    pub experts: Mixtures,
    /// The field of the width of dense layers, where it is not `intermediate_size`.
    pub dense: Option<String>,
}

impl Default for Family {
    fn default() -> Family {
        Family {
            also: Vec::new(),
            mixer: Reads::Grouped,
            names: BTreeMap::new(),
            defaults: Map::new(),
            ignores: BTreeSet::new(),
            layers: Pattern::default(),
            linear: None,
            gate: false,
            bias: vec!["attention_bias".into(), "qkv_bias".into()],
            bias_out: vec!["attention_bias".into()],
            matrices: 3,
            moe: "mlp".into(),
            experts: Mixtures::Step,
            dense: None,
        }
    }
}

/// Which reader a family's layers need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reads {
    /// Kinds of layers by `layer_types` or by a pattern.
    Grouped,
    /// Latent attention in every layer.
    Latent,
    /// DeepSeek-V4: `compress_ratios` by layer.
    Compressed,
    /// Kimi's linear attention: layers by `linear_attn_config`.
    KimiLinear,
    /// MiMo-V2: two kinds of attention by `hybrid_layer_pattern`.
    Mimo,
    /// MiniMax-M3: blocks of tokens by `sparse_attention_config`.
    Sparse,
    /// Nemotron-H: layers that mix, and layers that transform.
    Nemotron,
    /// Falcon-H1: every layer has attention and Mamba-2 beside each other.
    FalconH1,
    /// Mamba-2 in every layer, and nothing beside it.
    Mamba2,
}

/// Layers of linear attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinearKind {
    /// Gated delta net.
    Delta,
    /// Lightning attention.
    Lightning,
    /// Mamba.
    Mamba1,
    /// Mamba-2.
    Mamba2,
    /// A short convolution with gates.
    Conv,
}

/// Which layers are mixtures of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mixtures {
    /// Every n-th after some dense ones.
    Step,
    /// ERNIE: `moe_layer_interval` between `moe_layer_start_index` and `moe_layer_end_index`.
    Ernie,
    /// Jamba: `expert_layer_period` and `expert_layer_offset`.
    Jamba,
}

/// Kinds of layers where a file has no list of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pattern {
    /// The kind of most layers.
    pub most: String,
    /// The kind of every n-th layer.
    pub last: String,
    /// n; 0 for none.
    pub every: u32,
    /// The field that states n.
    pub every_in: Option<String>,
    /// The field that states which of n layers is the last kind, from 0.
    pub offset_in: Option<String>,
    /// The field that must be true; otherwise all layers are of the last kind.
    pub switch: Option<String>,
    /// The field of the first layer that may be of the first kind.
    pub from: Option<String>,
    /// The field of the first layer that is not of the first kind any more.
    pub below: Option<String>,
    /// The field that lists the layers of the last kind, from 0; without it all are.
    pub listed: Option<String>,
    /// Whether the first kind holds for layers with or without positions.
    pub rope: Option<Rope>,
}

impl Default for Pattern {
    fn default() -> Pattern {
        Pattern {
            most: "full_attention".into(),
            last: "full_attention".into(),
            every: 0,
            every_in: None,
            offset_in: None,
            switch: None,
            from: None,
            below: None,
            listed: None,
            rope: None,
        }
    }
}

/// Layers by whether they have positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rope {
    /// They have.
    With,
    /// They have none.
    Without,
}

static FAMILIES: LazyLock<BTreeMap<String, Family>> = LazyLock::new(|| {
    toml::from_str(include_str!("families.toml")).expect("families.toml, which tests parse")
});

/// The architecture of a `model_type`.
pub fn find(model_type: &str) -> Option<&'static Family> {
    let by_alias = || {
        let mut all = FAMILIES.values();
        all.find(|family| family.also.iter().any(|also| also == model_type))
    };
    FAMILIES.get(model_type).or_else(by_alias)
}

/// Every `model_type` that is understood, in alphabetical order.
pub fn known() -> Vec<&'static str> {
    let names = FAMILIES.iter().flat_map(|(name, family)| family.also.iter().chain([name]));
    let names: BTreeSet<&str> = names.map(String::as_str).collect();
    names.into_iter().collect()
}

/// Whether some architecture reads a field of this name by its section.
pub fn reads(name: &str) -> bool {
    FAMILIES.values().any(|family| {
        let layers = &family.layers;
        let stated = [
            &layers.every_in,
            &layers.offset_in,
            &layers.switch,
            &layers.from,
            &layers.below,
            &layers.listed,
        ];
        family.defaults.contains_key(name)
            || family.names.contains_key(name)
            || stated.into_iter().flatten().any(|field| field == name)
    })
}

/// Fields of a file under the names that are read, with the defaults of its architecture.
pub struct Canonical {
    /// The fields.
    pub map: Map<String, Value>,
    /// Names as the file has them, by those that are read.
    pub spelled: BTreeMap<String, String>,
    /// Fields that are not in the file.
    pub defaults: BTreeSet<String>,
}

impl Family {
    /// The fields of a file as this architecture reads them.
    ///
    /// # Errors
    /// The name of a field that stands twice, under two names, with different values.
    pub fn canonical(&self, file: &Map<String, Value>) -> Result<Canonical, String> {
        let mut map = Map::new();
        let mut spelled = BTreeMap::new();
        for (name, value) in file.iter().filter(|(name, _)| !self.ignores.contains(*name)) {
            let read = self.names.get(name).unwrap_or(name);
            if read != name {
                spelled.insert(read.clone(), name.clone());
            }
            if let Some(other) = map.insert(read.clone(), value.clone())
                && other != *value
            {
                return Err(name.clone());
            }
        }
        let mut defaults = BTreeSet::new();
        for (name, value) in &self.defaults {
            let read = self.names.get(name).unwrap_or(name);
            if !map.contains_key(read) {
                map.insert(read.clone(), value.clone());
                defaults.insert(read.clone());
            }
        }
        Ok(Canonical { map, spelled, defaults })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_an_architecture_stands_once() {
        let names = FAMILIES.iter().flat_map(|(name, family)| family.also.iter().chain([name]));
        assert_eq!(names.count(), known().len());
        assert!(known().len() >= 60, "{}", known().len());
        let delta = FAMILIES.values().filter(|f| f.layers.most == "linear_attention");
        assert!(delta.into_iter().all(|family| family.linear.is_some()));
    }
}
