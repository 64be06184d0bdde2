//! What a configuration says of how weights and caches are stored.

use super::{
    Format, Module,
    config::ConfigError,
    fields::Fields,
    names::{self, STATE, Weights},
    precision::{LINEAR, Precision},
};
use serde_json::{Map, Value};

/// What a configuration states.
pub struct Stated {
    /// The format of each kind of weight.
    pub precision: Precision,
    /// The format of keys and values, where it is stated.
    pub kv: Option<Format>,
    /// What was simplified.
    pub notes: Vec<String>,
    /// Fields that nobody reads.
    pub unread: Vec<String>,
}

/// Lists of weights that stay as they are, by the names that methods have for them.
const KEPT: [&str; 7] = [
    "modules_to_not_convert",
    "ignore",
    "ignored_layers",
    "exclude_modules",
    "exclude",
    "llm_int8_skip_modules",
    "skip_modules",
];

/// Fields of quantisations that change no bytes: how scales were found, how kernels read them.
const HARMLESS: &str = "sparsity_config version zero_point sym desc_act damp_percent \
    damp_auto_increment true_sequential static_groups model_name_or_path model_file_base_name \
    quantization_status global_compression_ratio activation_scheme fmt scale_fmt format \
    weight_block_size is_marlin_format use_exllama exllama_config backend batch_size dataset \
    tokenizer cache_block_outputs max_input_length module_name_preceding_first_block pad_token_id \
    use_cuda_fp16 disable_exllama checkpoint_format meta pack_dtype quantizer activation_scale_ub \
    input_scale_ub producer do_fuse fuse_max_seq_len iters lr minmax_lr nsamples seqlen \
    enable_quanted_input autoround_version low_gpu_mem_usage packing_format data_type \
    gradient_accumulate_steps amp scale_dtype enable_minmax_tuning block_name_to_quantize \
    to_quant_block_names act_bits act_group_size act_dynamic act_sym act_data_type \
    bnb_4bit_compute_dtype bnb_4bit_quant_storage bnb_4bit_quant_type llm_int8_threshold \
    llm_int8_enable_fp32_cpu_offload llm_int8_has_fp16_weight untie_embedding_weights \
    include_input_output_embeddings export algo_config softmax_quant_spec quant_mode \
    transform_config dequantize quant_type_kwargs mode";

/// What a configuration says of formats.
///
/// # Errors
/// Where a field is not understood.
pub fn stated(
    fields: &Fields<'_>,
    outer: &Fields<'_>,
    weights: &Weights,
) -> Result<Stated, ConfigError> {
    let stored = match dtype(fields)? {
        Some(stored) => stored,
        None => dtype(outer)?.unwrap_or(Format::Bf16),
    };
    let precision = Precision::all(stored);
    let mut stated = Stated { precision, kv: None, notes: Vec::new(), unread: Vec::new() };
    let found = match table(fields)? {
        Some(found) => Some(found),
        None => table(outer)?,
    };
    if let Some((map, path)) = found {
        let table = Fields::of(&map, &path);
        let hidden = fields.number("hidden_size")?;
        Quantised { table: &table, weights, hidden }.read(&mut stated)?;
        let harmless: Vec<_> = HARMLESS.split_whitespace().collect();
        stated.unread = table.unread(&harmless);
    }
    if let Some(text) = fields.text("expert_dtype")? {
        let format = match text {
            "fp4" => Format::Mxfp4,
            other => other.parse().map_err(|why| fields.refuse("expert_dtype", why))?,
        };
        stated.precision.set(&[Module::Experts], format);
    }
    Ok(stated)
}

/// The format of weights that are not quantised.
fn dtype(fields: &Fields<'_>) -> Result<Option<Format>, ConfigError> {
    let mut found = None;
    for name in ["torch_dtype", "dtype"] {
        if let Some(text) = fields.text(name)? {
            found = Some(text.parse().map_err(|why| fields.refuse(name, why))?);
        }
    }
    Ok(found)
}

/// Fields, and the path of their table.
type Table = (Map<String, Value>, String);

/// The table of a quantisation, where there is one.
fn table(fields: &Fields<'_>) -> Result<Option<Table>, ConfigError> {
    let mut found = None;
    // MLX writes the same table under both names.
    for name in ["quantization", "quantization_config"] {
        if fields.object(name)?.is_some()
            && let Some(Value::Object(map)) = fields.value(name)
        {
            found = Some((map.clone(), fields.named(&format!("{name}."))));
        }
    }
    Ok(found)
}

/// A table that says how weights are quantised.
struct Quantised<'a> {
    table: &'a Fields<'a>,
    weights: &'a Weights,
    hidden: u32,
}

/// What quantisations keep as it is unless they name it as a whole.
const AS_THEY_ARE: [Module; 2] = [Module::Router, Module::Embedding];

/// Formats of modules, where not all linear layers have one.
type Groups = Vec<(Vec<Module>, Format)>;

impl Quantised<'_> {
    fn read(&self, stated: &mut Stated) -> Result<(), ConfigError> {
        let (table, method) = (self.table, "quant_method");
        let kept = stated.precision;
        let linear = |format| Ok(vec![(LINEAR.to_vec(), format)]);
        let groups: Groups = match table.text(method)? {
            Some("fp8" | "fbgemm_fp8") => linear(Format::Fp8),
            Some("mxfp4") => linear(Format::Mxfp4),
            Some("compressed-tensors") => self.compressed(),
            Some("awq" | "gptq" | "auto-round" | "auto_round" | "intel/auto-round") => {
                self.grouped()
            }
            Some("modelopt" | "modelopt_fp4" | "modelopt_mixed") => self.modelopt(stated),
            Some("quark") => self.quark(stated),
            Some("bitsandbytes") => linear(self.bitsandbytes()?),
            Some("torchao") => linear(self.torchao()?),
            Some("hqq") => linear(self.hqq()?),
            Some(other) => {
                Err(table.refuse(method, format!("{other:?} is not understood. {STATE}")))
            }
            None if table.has("bits") && table.has("group_size") => self.mlx(stated),
            None if table.has("quant_algo") => self.modelopt(stated),
            None => Err(table.refuse(method, "it is missing")),
        }?;
        for (modules, format) in groups {
            stated.precision.set(&modules, format);
        }
        if let Some(scheme) = table.object("kv_cache_scheme")? {
            stated.kv = Some(self.scheme(&scheme)?);
        }
        let mut entries = Vec::new();
        let mut last = KEPT[0];
        for list in KEPT {
            for entry in table.list(list)?.into_iter().flatten() {
                last = list;
                let why = || table.refuse(list, format!("{entry} is no name"));
                entries.push(entry.as_str().ok_or_else(why)?);
            }
        }
        let indifferent: Vec<_> = Module::ALL
            .into_iter()
            .filter(|module| stated.precision.of(*module) == kept.of(*module))
            .collect();
        for module in names::listed(table, last, &entries, self.weights, &indifferent)? {
            stated.precision.set(&[module], kept.of(module));
        }
        Ok(())
    }

    /// 8 bits of a float or an integer, of keys and values.
    fn scheme(&self, scheme: &Fields<'_>) -> Result<Format, ConfigError> {
        let bits = scheme.count("num_bits")?;
        match (bits, scheme.text("type")?) {
            (Some(8), Some("float") | None) => Ok(Format::Fp8),
            (Some(8), Some("int")) => Ok(Format::Int8),
            (Some(4), Some("float")) => Ok(Format::Nvfp4),
            _ => Err(scheme.refuse("num_bits", "8 bits of a float or an integer are understood")),
        }
    }

    /// Bits and a group: GPTQ, AWQ, auto-round.
    fn grouped(&self) -> Result<Groups, ConfigError> {
        let table = self.table;
        let format = self.integer(table, "bits", "group_size")?;
        let mut modules = LINEAR.to_vec();
        if table.flag("lm_head")? {
            modules.push(Module::Head);
        }
        let mut groups = vec![(modules, format)];
        // Layers with bits of their own: those of 16 bits stay as they are.
        for name in ["extra_config", "dynamic"] {
            let Some(Value::Object(each)) = table.value(name) else { continue };
            let mut kept = Vec::new();
            for (entry, fields) in each {
                match (entry.strip_prefix("-:"), fields["bits"].as_u64()) {
                    (Some(pattern), _) => kept.push(format!("re:{pattern}")),
                    (None, Some(16 | 32)) => kept.push(entry.clone()),
                    _ => {
                        let why = format!("{entry}: bits of single layers are not told apart");
                        return Err(table.refuse(name, why));
                    }
                }
            }
            let kept: Vec<_> = kept.iter().map(String::as_str).collect();
            let kept = names::listed(table, name, &kept, self.weights, &AS_THEY_ARE)?;
            groups[0].0.retain(|module| !kept.contains(module));
        }
        Ok(groups)
    }

    /// Integers of 4 or 8 bits, whose scales are of groups, or of whole rows (-1).
    fn integer(&self, table: &Fields<'_>, bits: &str, group: &str) -> Result<Format, ConfigError> {
        let is_row = table.value(group).is_some_and(|group| group.as_i64() == Some(-1));
        let size = if is_row { Some(self.hidden) } else { table.positive(group)? };
        match (table.count(bits)?, size) {
            (Some(4), Some(group)) => Ok(Format::Int4 { group }),
            (Some(8), _) => Ok(Format::Int8),
            (stated, _) => {
                Err(table.refuse(bits, format!("{stated:?}: 4 with {group}, or 8, is understood")))
            }
        }
    }

    /// compressed-tensors: groups of weights, each with its targets and its format.
    fn compressed(&self) -> Result<Groups, ConfigError> {
        let table = self.table;
        let tables = table.object("config_groups")?;
        let tables = tables.ok_or_else(|| table.refuse("config_groups", "it is missing"))?;
        let mut groups: Groups = Vec::new();
        let mut seen: Vec<Module> = Vec::new();
        for name in tables.names() {
            let group = tables.object(&name)?;
            let group = group.ok_or_else(|| tables.refuse(&name, "it is no table of fields"))?;
            let format = group.object("weights")?.map(|weights| tensor(&weights)).transpose()?;
            let format =
                format.ok_or_else(|| group.refuse("weights", "it is missing, or no table"))?;
            let mut modules = self.targets(&group)?;
            modules.retain(|module| !seen.contains(module));
            seen.extend(&modules);
            groups.push((modules, format));
            group.not_understood(&["input_activations", "output_activations", "format"])?;
        }
        if groups.is_empty() {
            return Err(table.refuse("config_groups", "it is empty"));
        }
        Ok(groups)
    }

    /// The modules that a group means: classes of layers, or names of weights.
    fn targets(&self, group: &Fields<'_>) -> Result<Vec<Module>, ConfigError> {
        let Some(targets) = group.list("targets")? else { return Ok(LINEAR.to_vec()) };
        let words: Option<Vec<_>> = targets.iter().map(Value::as_str).collect();
        let words = words.ok_or_else(|| group.refuse("targets", "it is no list of names"))?;
        let (classes, names): (Vec<&str>, Vec<&str>) = words
            .iter()
            .partition(|word| matches!(**word, "Linear" | "Embedding" | "FusedMoE" | "MoEGate"));
        let mut modules = names::listed(group, "targets", &names, self.weights, &AS_THEY_ARE)?;
        // Engines keep routers as they are.
        modules.retain(|module| LINEAR.contains(module) || *module == Module::Head);
        for class in classes {
            match class {
                "Linear" => modules.extend(LINEAR),
                "Embedding" => modules.push(Module::Embedding),
                "FusedMoE" => modules.push(Module::Experts),
                _ => {}
            }
        }
        Ok(modules)
    }

    /// NVIDIA's ModelOpt.
    fn modelopt(&self, stated: &mut Stated) -> Result<Groups, ConfigError> {
        let table = self.table;
        if let Some(algorithm) = table.text("kv_cache_quant_algo")? {
            stated.kv = Some(match algorithm {
                "FP8" => Format::Fp8,
                "NVFP4" => Format::Nvfp4,
                "INT8" => Format::Int8,
                other => {
                    let why = format!("{other:?} is not understood: FP8, NVFP4, INT8");
                    return Err(table.refuse("kv_cache_quant_algo", why));
                }
            });
        }
        let size = table.positive("group_size")?;
        let format = match table.text("quant_algo")? {
            Some("FP8" | "FP8_PB_WO" | "FP8_PER_CHANNEL_PER_TOKEN") => Format::Fp8,
            Some("NVFP4" | "NVFP4_AWQ" | "W4A16_NVFP4") if size.is_none_or(|size| size == 16) => {
                Format::Nvfp4
            }
            Some("MXFP4" | "W4A8_MXFP4_FP8") => Format::Mxfp4,
            Some("W4A16_AWQ" | "W4A8_AWQ" | "INT4_AWQ") => {
                Format::Int4 { group: size.unwrap_or(128) }
            }
            Some("INT8_SQ" | "W8A8_SQ_PER_CHANNEL" | "INT8") => Format::Int8,
            None if table.has("config_groups") => return self.compressed(),
            other => {
                let why = format!("{other:?} with this group_size is not understood");
                return Err(table.refuse("quant_algo", why));
            }
        };
        // The groups say the same again, in the words of compressed-tensors.
        if table.has("config_groups") {
            let groups = self.compressed()?;
            if groups.iter().any(|(_, other)| *other != format) {
                let why = "it states another format than quant_algo";
                return Err(table.refuse("config_groups", why));
            }
            return Ok(groups);
        }
        Ok(vec![(LINEAR.to_vec(), format)])
    }

    /// AMD's Quark.
    fn quark(&self, stated: &mut Stated) -> Result<Groups, ConfigError> {
        let table = self.table;
        for name in ["layer_quant_config", "layer_type_quant_config"] {
            if matches!(table.value(name), Some(Value::Object(each)) if !each.is_empty()) {
                let why = "formats of single layers are not told apart";
                return Err(table.refuse(name, why));
            }
        }
        let global = table.object("global_quant_config")?;
        let global = global.ok_or_else(|| table.refuse("global_quant_config", "it is missing"))?;
        let weight = global.object("weight")?;
        let weight = weight.ok_or_else(|| global.refuse("weight", "it is missing"))?;
        let size = weight.positive("group_size")?;
        let format = match (weight.text("dtype")?, size) {
            (Some("fp8_e4m3" | "fp8_e5m2"), _) => Format::Fp8,
            (Some("fp4" | "mxfp4" | "mx"), Some(32) | None) => Format::Mxfp4,
            (Some("int8"), _) => Format::Int8,
            (Some("int4" | "uint4"), Some(group)) => Format::Int4 { group },
            (other, size) => {
                let why = format!("{other:?} with a group_size of {size:?} is not understood");
                return Err(weight.refuse("dtype", why));
            }
        };
        for name in ["kv_cache_quant_config", "kv_cache_group"] {
            let Some(Value::Object(each)) = table.value(name) else { continue };
            for layer in each.values() {
                match layer["output_tensors"]["dtype"].as_str() {
                    Some("fp8_e4m3") => stated.kv = Some(Format::Fp8),
                    _ => return Err(table.refuse(name, "only fp8_e4m3 is understood")),
                }
            }
        }
        Ok(vec![(LINEAR.to_vec(), format)])
    }

    /// 4 bits with a 32-bit scale for 64 (twice quantised: 8 bits, and 32 for 256 of those), or 8.
    fn bitsandbytes(&self) -> Result<Format, ConfigError> {
        let table = self.table;
        let four = table.flag("load_in_4bit")? | table.flag("_load_in_4bit")?;
        let eight = table.flag("load_in_8bit")? | table.flag("_load_in_8bit")?;
        let twice = table.flag("bnb_4bit_use_double_quant")?;
        match (four, eight) {
            // 16 bits for 32 are 32 bits for 64; 16 for 126 are 8 + 32/256 for 64.
            (true, false) => Ok(Format::Int4 { group: if twice { 126 } else { 32 } }),
            (false, true) => Ok(Format::Int8),
            _ => Err(table.refuse("load_in_4bit", "it, or load_in_8bit, has to be true")),
        }
    }

    fn torchao(&self) -> Result<Format, ConfigError> {
        let (table, name) = (self.table, "quant_type");
        let (word, data) = match table.value(name) {
            Some(Value::String(word)) => (word.as_str(), table.value("quant_type_kwargs")),
            Some(Value::Object(map)) => {
                let one = map.get("default").unwrap_or(&Value::Null);
                (one["_type"].as_str().unwrap_or_default(), one.get("_data"))
            }
            _ => ("", None),
        };
        let size = data.and_then(|data| data["group_size"].as_u64());
        let size = |default: u32| size.map_or(default, |size| size.clamp(1, 1 << 20) as u32);
        let plain = word.to_ascii_lowercase().replace('_', "");
        match plain.trim_end_matches("config") {
            "int4weightonly" => Ok(Format::Int4 { group: size(128) }),
            "int8dynamicactivationint4weight" => Ok(Format::Int4 { group: size(32) }),
            "int8weightonly" | "int8dynamicactivationint8weight" => Ok(Format::Int8),
            float if float.starts_with("float8") => Ok(Format::Fp8),
            _ => Err(table.refuse(name, format!("{word:?} is not understood"))),
        }
    }

    /// HQQ: a scale and a zero of 16 bits each for a group.
    fn hqq(&self) -> Result<Format, ConfigError> {
        let table = self.table;
        let name = "quant_config";
        let inner = table.object(name)?.ok_or_else(|| table.refuse(name, "it is missing"))?;
        let inner = inner.object("weight_quant_params")?;
        let inner = inner.ok_or_else(|| table.refuse(name, "weight_quant_params is missing"))?;
        match (inner.count("nbits")?, inner.positive("group_size")?) {
            (Some(4), Some(group)) => Ok(Format::Int4 { group: (group / 2).max(1) }),
            (Some(8), _) => Ok(Format::Int8),
            (bits, _) => Err(inner.refuse("nbits", format!("{bits:?}: 4 or 8 is understood"))),
        }
    }

    /// MLX: a scale and a bias of 16 bits each for a group, of the embedding too.
    fn mlx(&self, stated: &mut Stated) -> Result<Groups, ConfigError> {
        let table = self.table;
        let format =
            match (table.count("bits")?, table.positive("group_size")?, table.text("mode")?) {
                (Some(4), Some(32), Some("mxfp4")) => Format::Mxfp4,
                (Some(4), Some(16), Some("nvfp4")) => Format::Nvfp4,
                (Some(4), Some(group), None | Some("affine")) => {
                    Format::Int4 { group: (group / 2).max(1) }
                }
                (Some(8), Some(64), None | Some("affine")) => Format::Q8,
                (bits, group, mode) => {
                    let why =
                        format!("{bits:?} with {group:?} and {mode:?} are not understood together");
                    return Err(table.refuse("bits", why));
                }
            };
        stated.notes.push("MLX: embedding and output layer are quantised too".into());
        let linear = LINEAR.into_iter().chain([Module::Embedding, Module::Head, Module::Router]);
        Ok(vec![(linear.collect(), format)])
    }
}

/// The format of a tensor in the words of compressed-tensors.
fn tensor(weights: &Fields<'_>) -> Result<Format, ConfigError> {
    let (bits, size) = (weights.count("num_bits")?, weights.count("group_size")?);
    let format = match (bits, weights.text("type")?, size) {
        (Some(8), Some("float"), _) => Format::Fp8,
        (Some(8), Some("int"), _) => Format::Int8,
        (Some(4), Some("int"), Some(group)) if group > 0 => Format::Int4 { group },
        (Some(4), Some("float"), Some(32)) => Format::Mxfp4,
        (Some(4), Some("float"), Some(16)) => Format::Nvfp4,
        _ => {
            let why = "these bits, this type and this group_size are not understood together";
            return Err(weights.refuse("num_bits", why));
        }
    };
    let harmless = [
        "actorder",
        "block_structure",
        "dynamic",
        "observer",
        "observer_kwargs",
        "strategy",
        "symmetric",
        "scale_dtype",
        "zp_dtype",
    ];
    weights.not_understood(&harmless)?;
    Ok(format)
}
