//! In which format each kind of weight is stored.

use super::{Format, Module, config::ConfigError, fields::Fields};
use std::collections::BTreeSet;

/// The format of each kind of weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Precision {
    formats: [Format; Module::ALL.len()],
}

impl Precision {
    /// All in one format.
    pub fn all(format: Format) -> Precision {
        Precision { formats: [format; Module::ALL.len()] }
    }

    /// Of a module.
    pub fn of(&self, module: Module) -> Format {
        self.formats[module as usize]
    }

    /// Sets that of some modules.
    pub fn set(&mut self, modules: &[Module], format: Format) {
        for module in modules {
            self.formats[*module as usize] = format;
        }
    }

    /// All linear layers of the model's layers in one format; embedding, output layer and routers
    /// as they are. What engines do with `--quantization`.
    pub fn with_linear(mut self, format: Format) -> Precision {
        self.set(&LINEAR, format);
        self
    }

    /// As a text says: `fp8` for all linear layers, or `experts=mxfp4,attention=fp8`.
    ///
    /// # Errors
    /// In words: what is no format or no module, or stands twice.
    pub fn stored_as(mut self, text: &str) -> Result<Precision, String> {
        let mut seen = BTreeSet::new();
        for part in text.split(',') {
            let place = part.split_once('=').map_or("all linear layers", |(name, _)| name);
            if !seen.insert(place) {
                return Err(format!("{text:?} states {place} twice"));
            }
            match part.split_once('=') {
                None => self = self.with_linear(part.parse()?),
                Some((name, format)) => {
                    let module = Module::ALL.into_iter().find(|module| module.name() == name);
                    let module = module.ok_or_else(|| {
                        let known = Module::ALL.map(Module::name).join(", ");
                        format!("{name:?} is none of {known}")
                    })?;
                    self.set(&[module], format.parse()?);
                }
            }
        }
        Ok(self)
    }

    /// In words: `fp8, but router, embedding and head bf16`.
    pub fn describe(&self) -> String {
        let linear = self.of(Module::Experts);
        let others: Vec<_> = Module::ALL
            .into_iter()
            .filter(|module| self.of(*module) != linear)
            .map(|module| format!("{} {}", module.name(), self.of(module)))
            .collect();
        if others.is_empty() {
            return linear.to_string();
        }
        format!("{linear}, but {}", others.join(", "))
    }
}

/// What quantisation means where nothing else is said.
const LINEAR: [Module; 4] = [Module::Attention, Module::Dense, Module::Experts, Module::Shared];

/// What a name in a list of modules that stay as they are stands for; none where it is not known.
/// The names are those of the published configurations.
fn modules_of(name: &str) -> Option<&'static [Module]> {
    let plain = name.trim_start_matches("re:").replace(['.', '*', '\\', '^', '$'], " ");
    let words: Vec<_> = plain.split_whitespace().filter(|word| *word != "model").collect();
    Some(match words.as_slice() {
        ["lm_head"] => &[Module::Head],
        ["embed_tokens"] => &[Module::Embedding],
        [.., "self_attn"] => &[Module::Attention],
        [.., "shared_experts"] => &[Module::Shared],
        [.., "gate"] | [.., "router"] => &[Module::Router],
        // Scores that are added, the encoder of images and its projection are not counted.
        ["e_score_correction_bias"] | ["vision_tower"] | ["mm_projector"] => &[],
        [.., "mlp", last] if last.starts_with("(gate|up") => &[Module::Dense],
        _ => return None,
    })
}

/// The format of weights as a configuration states it.
///
/// # Errors
/// Where a field is not understood.
pub fn precision<'a>(fields: &Fields<'a>, outer: &Fields<'a>) -> Result<Precision, ConfigError> {
    let mut stored = Format::Bf16;
    for fields in [fields, outer] {
        for name in ["torch_dtype", "dtype"] {
            if let Some(text) = fields.text(name)? {
                stored = text.parse().map_err(|why| fields.refuse(name, why))?;
            }
        }
    }
    let mut precision = Precision::all(stored);
    let table = match fields.object("quantization_config")? {
        Some(table) => Some(table),
        None => outer.object("quantization_config")?,
    };
    if let Some(table) = table {
        quantised(&table, &mut precision)?;
    }
    if let Some(text) = fields.text("expert_dtype")? {
        let format = match text {
            "fp4" => Format::Mxfp4,
            other => other.parse().map_err(|why| fields.refuse("expert_dtype", why))?,
        };
        precision.set(&[Module::Experts], format);
    }
    Ok(precision)
}

fn quantised(table: &Fields<'_>, precision: &mut Precision) -> Result<(), ConfigError> {
    let method = "quant_method";
    let kept = *precision;
    let format = match table.text(method)? {
        Some("fp8") => Format::Fp8,
        Some("mxfp4") => Format::Mxfp4,
        Some("compressed-tensors") => compressed(table)?,
        Some("awq" | "gptq") => int4(table)?,
        Some(other) => return Err(table.refuse(method, format!("{other:?} is not understood"))),
        None => return Err(table.refuse(method, "it is missing")),
    };
    *precision = precision.with_linear(format);
    for list in ["modules_to_not_convert", "ignore"] {
        for name in table.list(list)?.into_iter().flatten() {
            let modules = name.as_str().and_then(modules_of);
            let why = format!("{name} names no weights that are understood");
            let modules = modules.ok_or_else(|| table.refuse(list, why))?;
            for module in modules {
                precision.set(&[*module], kept.of(*module));
            }
        }
    }
    // Engines keep these as they are.
    for name in ["weight_block_size", "config_groups"] {
        table.value(name);
    }
    table.not_understood(&["sparsity_config", "version", "zero_point", "sym", "desc_act"])
}

fn int4(table: &Fields<'_>) -> Result<Format, ConfigError> {
    match (table.count("bits")?, table.positive("group_size")?) {
        (Some(4), Some(group)) => Ok(Format::Int4 { group }),
        (Some(8), _) => Ok(Format::Int8),
        (bits, _) => Err(table.refuse("bits", format!("{bits:?}: 4 with group_size, or 8"))),
    }
}

fn compressed(table: &Fields<'_>) -> Result<Format, ConfigError> {
    let groups = table.object("config_groups")?;
    let groups = groups.ok_or_else(|| table.refuse("config_groups", "it is missing"))?;
    let name = "group_0";
    let group = groups.object(name)?.ok_or_else(|| groups.refuse(name, "it is missing"))?;
    groups.not_understood(&[])?;
    let weights = group.object("weights")?;
    let weights = weights.ok_or_else(|| group.refuse("weights", "it is missing"))?;
    let bits = weights.count("num_bits")?;
    let size = weights.positive("group_size")?;
    match (bits, weights.text("type")?, size) {
        (Some(8), Some("float"), _) => Ok(Format::Fp8),
        (Some(8), Some("int"), _) => Ok(Format::Int8),
        (Some(4), Some("int"), Some(group)) => Ok(Format::Int4 { group }),
        (Some(4), Some("float"), Some(32)) => Ok(Format::Mxfp4),
        (Some(4), Some("float"), Some(16)) => Ok(Format::Nvfp4),
        _ => {
            let why = "these bits, this type and this group_size are not understood together";
            Err(weights.refuse("num_bits", why))
        }
    }
}
