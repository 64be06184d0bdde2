//! Headers of checkpoints in the safetensors format, beside what a configuration implies: which
//! kinds of weights are stored in more or fewer bytes than they should be.
//!
//! The format: 8 bytes with the length of a header, the header in JSON (for each tensor `dtype`,
//! `shape` and `data_offsets`), then the data (<https://huggingface.co/docs/safetensors>).

use super::{Model, Module, json::Once};
use crate::units::Bytes;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The longest header of a file, in bytes: the limit of the format's own library.
pub const HEADER_MAX: u64 = 100_000_000;

/// The most files of a checkpoint that are read.
pub const FILES_MAX: usize = 2048;

/// The most bytes of headers of one checkpoint that are read.
pub const HEADERS_MAX: u64 = 512 << 20;

/// Bytes may differ by this share before a kind of weights is named: norms and scales are small.
const ALIKE: f64 = 0.01;

/// Bits of an element by its `dtype`, as the format names them.
const BITS: [(&str, u64); 17] = [
    ("BOOL", 8),
    ("U8", 8),
    ("I8", 8),
    ("F8_E5M2", 8),
    ("F8_E4M3", 8),
    ("F8_E8M0", 8),
    ("F4", 4),
    ("F6_E2M3", 6),
    ("F6_E3M2", 6),
    ("I16", 16),
    ("U16", 16),
    ("F16", 16),
    ("BF16", 16),
    ("I32", 32),
    ("U32", 32),
    ("F32", 32),
    ("F64", 64),
];

/// What tensors are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Weights that are counted.
    Counted(u8),
    /// Norms, biases, encoders, heads that predict more than one token.
    Other,
}

/// Bytes that a checkpoint stores, by kind of weights.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stored {
    bytes: BTreeMap<Group, f64>,
    /// Tensors in all.
    pub tensors: usize,
}

impl Stored {
    /// Adds the tensors of a file: its header, and the bytes of its data. `layers` is the number
    /// of the model's layers; what comes after them predicts more than one token.
    ///
    /// # Errors
    /// In words: what is wrong with the header.
    pub fn add(&mut self, header: &str, data: u64, layers: u32) -> Result<(), String> {
        let Once(value) = serde_json::from_str(header.trim_end_matches(' '))
            .map_err(|error| format!("its header is no JSON: {error}"))?;
        let Value::Object(map) = value else { return Err("its header is no JSON object".into()) };
        let mut ranges = Vec::new();
        for (name, tensor) in map.iter().filter(|(name, _)| *name != "__metadata__") {
            let [from, to] = range(tensor, data).map_err(|why| format!("tensor {name}: {why}"))?;
            ranges.push([from, to]);
            *self.bytes.entry(group(name, layers)).or_default() += (to - from) as f64;
            self.tensors += 1;
        }
        ranges.sort_unstable();
        match ranges.windows(2).any(|pair| pair[1][0] < pair[0][1]) {
            true => Err("two of its tensors overlap".into()),
            false => Ok(()),
        }
    }

    /// Bytes of a kind of weights.
    pub fn of(&self, module: Module) -> f64 {
        self.bytes.get(&Group::Counted(module as u8)).copied().unwrap_or(0.0)
    }

    /// A sentence for each kind of weights whose bytes are not those that the model implies.
    pub fn differences(&self, model: &Model) -> Vec<String> {
        let mut found = Vec::new();
        for module in Module::ALL {
            let implied = model.parameters(module) * model.precision.of(module).bytes();
            let stored = self.of(module);
            // A tied output layer may be stored twice all the same.
            if module == Module::Head && model.is_tied {
                continue;
            }
            if (stored - implied).abs() > ALIKE * implied.max(stored) {
                found.push(format!(
                    "the files hold {} of {}, and the configuration implies {}",
                    Bytes(stored as u64),
                    module.name(),
                    Bytes(implied as u64)
                ));
            }
        }
        found
    }
}

/// The size of all tensors that an index states, in bytes.
///
/// # Errors
/// In words: what is wrong with the index.
pub fn total_of_index(text: &str) -> Result<Option<f64>, String> {
    let Once(value) =
        serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?;
    if !value["weight_map"].is_object() {
        return Err("it has no weight_map".into());
    }
    Ok(value["metadata"]["total_size"].as_f64().filter(|total| *total > 0.0))
}

/// Where a tensor lies, which its shape and type have to fill.
fn range(tensor: &Value, data: u64) -> Result<[u64; 2], String> {
    let none = Map::new();
    let fields = tensor.as_object().unwrap_or(&none);
    let dtype = fields.get("dtype").and_then(Value::as_str).ok_or("it has no dtype")?;
    let bits = BITS.iter().find(|(name, _)| *name == dtype);
    let (_, bits) = bits
        .or(match dtype {
            "I64" | "U64" => Some(&("I64", 64)),
            _ => None,
        })
        .ok_or_else(|| format!("{dtype:?} is no type that is understood"))?;
    let shape = fields.get("shape").and_then(Value::as_array).ok_or("it has no shape")?;
    let mut count: u64 = 1;
    for one in shape {
        let one = one.as_u64().ok_or_else(|| format!("{one} is no number of elements"))?;
        count = count.checked_mul(one).ok_or("its shape is beyond 2^64 elements")?;
    }
    let size = count.checked_mul(*bits).ok_or("its shape is beyond 2^64 bits")?.div_ceil(8);
    let ends = fields.get("data_offsets").and_then(Value::as_array);
    let ends: Option<Vec<u64>> = ends.map(|ends| ends.iter().filter_map(Value::as_u64).collect());
    let Some(&[from, to]) = ends.as_deref() else {
        return Err("its data_offsets are not two whole numbers".into());
    };
    if from > to || to > data {
        return Err(format!("its bytes {from} to {to} are not in the {data} bytes of data"));
    }
    match to - from == size {
        true => Ok([from, to]),
        false => Err(format!("it has {} bytes, and its shape needs {size}", to - from)),
    }
}

/// What a tensor is of, by its name.
fn group(name: &str, layers: u32) -> Group {
    let words: Vec<_> = name.split('.').collect();
    let has = |part: &str| words.contains(&part);
    let begins = |part: &str| words.iter().any(|word| word.starts_with(part));
    let is_beyond = words
        .windows(2)
        .any(|pair| pair[0] == "layers" && pair[1].parse::<u32>().is_ok_and(|at| at >= layers));
    let is_other = is_beyond
        || begins("vision")
        || begins("visual")
        || has("mtp")
        || begins("multi_modal")
        || begins("mm_")
        || begins("audio")
        || words.iter().any(|word| word.contains("norm"));
    let module = if is_other {
        return Group::Other;
    } else if has("embed_tokens") || has("wte") || has("embeddings") {
        Module::Embedding
    } else if has("lm_head") {
        Module::Head
    } else if begins("shared_expert") || begins("share_expert") {
        Module::Shared
    } else if has("experts") {
        Module::Experts
    } else if has("gate") || has("router") {
        Module::Router
    } else if ["self_attn", "attn", "linear_attn", "mamba", "attention", "conv"]
        .iter()
        .any(|w| has(w))
    {
        Module::Attention
    } else if has("mlp") || has("feed_forward") || has("shared_mlp") {
        Module::Dense
    } else {
        return Group::Other;
    };
    Group::Counted(module as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::config;
    use serde_json::json;

    fn model() -> Model {
        let config = json!({
            "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "vocab_size": 100, "torch_dtype": "bfloat16"
        });
        config::parse("small", &config.to_string()).expect("understood")
    }

    /// A header of this model with n rows of queries.
    fn header(rows: u64) -> (String, u64) {
        let mut map = Map::new();
        let mut at = 0;
        let mut add = |name: String, shape: [u64; 2]| {
            let to = at + shape[0] * shape[1] * 2;
            map.insert(name, json!({"dtype": "BF16", "shape": shape, "data_offsets": [at, to]}));
            at = to;
        };
        add("model.embed_tokens.weight".into(), [100, 64]);
        add("lm_head.weight".into(), [100, 64]);
        add("model.norm.weight".into(), [1, 64]);
        for layer in 0..2 {
            for (part, shape) in [
                ("self_attn.q_proj", [rows, 64]),
                ("self_attn.k_proj", [32, 64]),
                ("self_attn.v_proj", [32, 64]),
                ("self_attn.o_proj", [64, 64]),
                ("mlp.gate_proj", [128, 64]),
                ("mlp.up_proj", [128, 64]),
                ("mlp.down_proj", [64, 128]),
            ] {
                add(format!("model.layers.{layer}.{part}.weight"), shape);
            }
        }
        (Value::Object(map).to_string(), at)
    }

    #[test]
    fn a_checkpoint_of_the_model_differs_in_nothing_and_another_in_its_group() {
        let (right, data) = header(64);
        let mut stored = Stored::default();
        stored.add(&right, data, 2).expect("a header");
        assert_eq!((stored.differences(&model()), stored.tensors), (Vec::new(), 17));
        let (other, data) = header(96);
        let mut stored = Stored::default();
        stored.add(&other, data, 2).expect("a header");
        let found = stored.differences(&model());
        assert!(found.len() == 1 && found[0].contains("attention"), "{found:?}");
    }

    #[test]
    fn headers_that_cannot_be_are_refused() {
        let one = |dtype: &str, shape: Value, ends: Value| {
            json!({"w": {"dtype": dtype, "shape": shape, "data_offsets": ends}}).to_string()
        };
        let mut stored = Stored::default();
        for (header, why) in [
            ("[1]".to_owned(), "no JSON object"),
            ("{".to_owned(), "no JSON"),
            (r#"{"w": 1, "w": 2}"#.to_owned(), "stands twice"),
            (r#"{"w": 1}"#.to_owned(), "no dtype"),
            (one("BF16", json!([-4, 2]), json!([0, 16])), "no number of elements"),
            (one("BF16", json!([1u64 << 40, 1u64 << 40]), json!([0, 16])), "2^64"),
            (one("BF16", json!([1u64 << 62]), json!([0, 16])), "2^64 bits"),
            (one("Q7", json!([4]), json!([0, 8])), "no type"),
            (one("BF16", json!([4]), json!([8, 0])), "not in the"),
            (one("BF16", json!([4]), json!([96, 104])), "not in the"),
            (one("BF16", json!([4]), json!([0, 6])), "its shape needs 8"),
            (one("BF16", json!([4]), json!([0])), "two whole numbers"),
            (
                json!({"a": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]},
                    "b": {"dtype": "U8", "shape": [8], "data_offsets": [4, 12]}})
                .to_string(),
                "overlap",
            ),
        ] {
            let error = stored.add(&header, 100, 2).expect_err(&header);
            assert!(error.contains(why), "{header}: {error}");
        }
        assert!(total_of_index("{}").is_err());
        let index = r#"{"metadata": {"total_size": 12}, "weight_map": {"a": "b"}}"#;
        assert_eq!(total_of_index(index), Ok(Some(12.0)));
    }
}
