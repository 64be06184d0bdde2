//! `config.json` of the Hugging Face hub, for the architectures that are understood. Nothing is
//! guessed: what is not understood is refused by the name of its field.

use super::{
    FeedForward, Format, Indexer, Layers, Mixer, Model,
    fields::Fields,
    json::Once,
    mixer::{Compressed, Grouped, Latent, Linear, Reach},
    of, quantisation,
};
use crate::python;
use serde_json::{Map, Value};

/// Longest configuration, in bytes.
pub const TEXT_MAX: u64 = 1 << 20;

/// Why a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It is no JSON object.
    #[error("it is no configuration in JSON: {0}")]
    Json(String),
    /// A field that is missing, wrong or not understood.
    #[error("field {field}: {why}")]
    Field {
        /// Its name with its path.
        field: String,
        /// What is wrong.
        why: String,
    },
}

/// Architectures by their `model_type`.
const FAMILIES: [&str; 23] = [
    "deepseek_v3",
    "deepseek_v32",
    "deepseek_v4",
    "glm4_moe",
    "glm_moe_dsa",
    "gpt_oss",
    "kimi_k2",
    "kimi_linear",
    "llama",
    "llama4_text",
    "mimo_v2_flash",
    "minimax_m2",
    "minimax_m3",
    "mistral",
    "mixtral",
    "nemotron_h",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_moe",
    "qwen3_5_moe_text",
    "qwen3_next",
    "step3p7",
];

/// Fields that say nothing of the sizes of the layers that every token passes.
const HARMLESS: &[&str] = &[
    // Tokens and generation.
    "bos_token_id eos_token_id pad_token_id sep_token_id image_token_id video_token_id \
     vision_start_token_id vision_end_token_id media_placeholder_token_id ignore_index \
     max_length num_beam_groups num_beams num_return_sequences repetition_penalty \
     length_penalty diversity_penalty temperature top_k top_p typical_p no_repeat_ngram_size \
     encoder_no_repeat_ngram_size min_length num_logits_to_keep return_dict id2label label2id \
     use_cache do_sample",
    // Training and rounding.
    "attention_dropout hidden_dropout initializer_range aux_loss_alpha seq_aux \
     router_aux_loss_coef pretraining_tp ep_size rescale_prenorm_residual layer_norm_epsilon \
     layernorm_epsilon norm_eps rms_norm_eps use_gemma_norm use_qk_norm architectures \
     auto_map",
    // Positions.
    "rope_theta rope_scaling rope_parameters rope_interleave rotary_dim partial_rotary_factor \
     swa_rope_theta compress_rope_theta initial_context_length mla_use_nope \
     indexer_rope_interleave",
    // Routing and activations: the same experts are read whatever chooses them.
    "n_group topk_group num_expert_group norm_topk_prob routed_scaling_factor \
     moe_router_scaling_factor moe_renormalize use_grouped_topk use_routing_bias \
     use_moe_router_bias num_hash_layers swiglu_alpha swiglu_limit activation_situ_beta \
     activation_situ_linear_beta attention_value_scale latent_moe_use_norm \
     add_swa_attention_sink_bias add_full_attention_sink_bias",
    // Hyper-connections and residuals over layers: below 0.1 % of parameters.
    "hc_mult hc_eps hc_sinkhorn_iters attn_res_block_size",
    // Heads that predict more than one token: left out unless a speed-up is given.
    "num_nextn_predict_layers num_mtp_modules use_mtp mtp_transformer_layers \
     mtp_num_hidden_layers mtp_layers_block_type index_share_for_mtp_iteration",
    // Mamba's kernels.
    "chunk_size use_mamba_kernels use_conv_bias time_step_floor time_step_limit time_step_max \
     time_step_min expand",
    // Said again by a list of layers, or of what is not used.
    "max_window_layers full_attention_interval index_topk_freq index_skip_topk_offset \
     sliding_window_size chunk_size_feed_forward",
];

fn harmless() -> Vec<&'static str> {
    HARMLESS.iter().flat_map(|names| names.split_whitespace()).collect()
}

/// Reads a configuration; `name` is what the model is called.
///
/// # Errors
/// Where it is no JSON, or a field is missing, wrong or not understood.
pub fn parse(name: &str, json: &str) -> Result<Model, ConfigError> {
    let Once(value) = serde_json::from_str(&python::json(json))
        .map_err(|error| ConfigError::Json(error.to_string()))?;
    let Value::Object(map) = value else {
        return Err(ConfigError::Json("it is no object".into()));
    };
    of_map(name, &map)
}

/// Reads the fields of a configuration.
///
/// # Errors
/// Where a field is missing, wrong or not understood.
pub fn of_map(name: &str, map: &Map<String, Value>) -> Result<Model, ConfigError> {
    let outer = Fields::of(map, "");
    let mut notes = Vec::new();
    let inner = outer.object("text_config")?;
    if inner.is_some() {
        notes.push("only the language part is counted: encoders of images are left out".into());
    }
    let fields = inner.as_ref().unwrap_or(&outer);
    let family = fields.text("model_type")?;
    let family = family.ok_or_else(|| fields.refuse("model_type", "it is missing"))?;
    if !FAMILIES.contains(&family) {
        let known = FAMILIES.join(", ");
        let why = format!("{family:?} is no architecture that is understood; there are: {known}");
        return Err(fields.refuse("model_type", why));
    }
    let count = fields.layers()?;
    let reader = Reader { fields, family, count };
    let mixers = reader.mixers(&mut notes)?;
    let ffns = reader.feed_forwards()?;
    let is_tied = fields.flag("tie_word_embeddings")? || outer.flag("tie_word_embeddings")?;
    if ["num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers"]
        .iter()
        .any(|name| fields.count(name).ok().flatten().is_some_and(|count| count > 0))
    {
        notes.push("heads that predict more than one token are left out".into());
    }
    let precision = quantisation::precision(fields, &outer)?;
    let model = Model {
        name: name.into(),
        hidden: fields.number("hidden_size")?,
        vocabulary: fields.number("vocab_size")?,
        is_tied,
        context: fields.positive("max_position_embeddings")?.map(u64::from),
        layers: gathered(mixers, ffns),
        precision,
        notes,
    };
    fields.not_understood(&harmless())?;
    if inner.is_some() {
        outer.not_understood(&[&harmless()[..], &["vision_config", "model_type"]].concat())?;
    }
    Ok(model)
}

/// Layers that are alike counted together.
fn gathered(mixers: Vec<Option<Mixer>>, ffns: Vec<Option<FeedForward>>) -> Vec<Layers> {
    let mut layers: Vec<Layers> = Vec::new();
    for (mixer, feed_forward) in mixers.into_iter().zip(ffns) {
        let same = layers
            .iter_mut()
            .find(|layers| layers.mixer == mixer && layers.feed_forward == feed_forward);
        match same {
            Some(layers) => layers.count += 1,
            None => layers.push(Layers { count: 1, mixer, feed_forward }),
        }
    }
    layers
}

pub(super) struct Reader<'a> {
    pub(super) fields: &'a Fields<'a>,
    pub(super) family: &'a str,
    pub(super) count: u32,
}

pub(super) type Each<T> = Result<Vec<Option<T>>, ConfigError>;

impl Reader<'_> {
    pub(super) fn same<T: Clone>(&self, one: T) -> Vec<Option<T>> {
        vec![Some(one); self.count as usize]
    }

    /// What mixes tokens, by layer.
    fn mixers(&self, notes: &mut Vec<String>) -> Each<Mixer> {
        let fields = self.fields;
        if fields.has("compress_ratios") {
            return self.compressed(notes);
        }
        if let Some(linear) = fields.object("linear_attn_config")? {
            return self.kimi_linear(&linear);
        }
        if fields.has("layers_block_type") {
            return self.nemotron();
        }
        if fields.has("kv_lora_rank") {
            return self.latents();
        }
        if fields.has("hybrid_layer_pattern") {
            return self.mimo();
        }
        let full = self.grouped("", Reach::All)?;
        if let Some(sparse) = fields.object("sparse_attention_config")? {
            return self.sparse(full, &sparse, notes);
        }
        let with = |reach| Some(Mixer::Grouped(Grouped { reach, ..full.clone() }));
        if let Some(chunk) = fields.positive("attention_chunk_size")? {
            // Every fourth layer of Llama 4 sees all tokens (`no_rope_layer_interval`, 4 unless it
            // is said).
            let every = fields.positive("no_rope_layer_interval")?.unwrap_or(4);
            let of_layer = |at: u32| match (at + 1) % every {
                0 => with(Reach::All),
                _ => with(Reach::Chunk(chunk)),
            };
            notes.push("half a chunk is read on average over positions".into());
            return Ok((0..self.count).map(of_layer).collect());
        }
        let window = fields.positive("sliding_window")?;
        let Some(types) = fields.by_layer("layer_types", self.count)? else {
            // A window without a list of layers is of every layer, unless it is switched off.
            let is_off = fields.has("use_sliding_window") && !fields.flag("use_sliding_window")?;
            let reach = window.filter(|_| !is_off).map_or(Reach::All, Reach::Window);
            return Ok(self.same(Mixer::Grouped(Grouped { reach, ..full })));
        };
        types.iter().map(|kind| self.of_type(kind, window, &full)).collect()
    }

    fn of_type(
        &self,
        kind: &str,
        window: Option<u32>,
        full: &Grouped,
    ) -> Result<Option<Mixer>, ConfigError> {
        let grouped = |reach| Mixer::Grouped(Grouped { reach, ..full.clone() });
        Ok(Some(match kind {
            "full_attention" | "attention" => grouped(Reach::All),
            "sliding_attention" => {
                let missing = || self.fields.refuse("sliding_window", "it is missing");
                grouped(Reach::Window(window.ok_or_else(missing)?))
            }
            "linear_attention" => Mixer::Linear(self.delta_net()?),
            other => {
                let why = format!("{other:?} is no kind of layer that is understood");
                return Err(self.fields.refuse("layer_types", why));
            }
        }))
    }

    /// Grouped attention whose fields begin with a prefix.
    fn grouped(&self, prefix: &str, reach: Reach) -> Result<Grouped, ConfigError> {
        let fields = self.fields;
        let name = |name: &str| format!("{prefix}{name}");
        let heads = fields.number(&name("num_attention_heads"))?;
        let kv_heads = fields.positive(&name("num_key_value_heads"))?.unwrap_or(heads);
        if !heads.is_multiple_of(kv_heads) {
            let why = format!("{kv_heads} does not divide {heads} query heads");
            return Err(fields.refuse(&name("num_key_value_heads"), why));
        }
        let hidden = fields.number("hidden_size")?;
        let dim_qk = match fields.positive(&name("head_dim"))? {
            Some(dim) => dim,
            None if hidden.is_multiple_of(heads) => hidden / heads,
            None => {
                let why = format!("it is missing, and {heads} heads do not divide {hidden}");
                return Err(fields.refuse(&name("head_dim"), why));
            }
        };
        let dim_v = fields.positive(&name("v_head_dim"))?.unwrap_or(dim_qk);
        let gate = fields.flag("attn_output_gate")? | fields.flag("attention_output_gate")?;
        // Qwen2 adds a bias to queries, keys and values without a field for it.
        let inputs = matches!(self.family, "qwen2" | "qwen2_moe");
        let both = fields.flag("attention_bias")?;
        let bias = [inputs | both | fields.flag("qkv_bias")?, both && self.family != "glm4_moe"];
        Ok(Grouped { heads, kv_heads, dim_qk, dim_v, gate, bias, reach, indexer: None })
    }

    fn mimo(&self) -> Each<Mixer> {
        let fields = self.fields;
        let window = Reach::Window(fields.number("sliding_window")?);
        // Chunks of the same size are how its kernels walk the window.
        fields.value("attention_chunk_size");
        let kinds = [self.grouped("", Reach::All)?, self.grouped("swa_", window)?];
        let pattern = fields.by_layer("hybrid_layer_pattern", self.count)?.unwrap_or_default();
        let of_layer = |kind: &String| match kind.as_str() {
            "0" => Ok(Some(Mixer::Grouped(kinds[0].clone()))),
            "1" => Ok(Some(Mixer::Grouped(kinds[1].clone()))),
            other => Err(fields.refuse("hybrid_layer_pattern", format!("{other} is not 0 or 1"))),
        };
        pattern.iter().map(of_layer).collect()
    }

    /// MiniMax-M3: blocks of tokens are chosen.
    fn sparse(&self, full: Grouped, table: &Fields<'_>, notes: &mut Vec<String>) -> Each<Mixer> {
        let top = table.number("sparse_topk_blocks")?;
        let block = table.number("sparse_block_size")?;
        let indexer = Indexer {
            heads: table.number("sparse_num_index_heads")?,
            dim: table.number("sparse_index_dim")?,
            top: top.saturating_mul(block).min(1 << 27),
            is_own: true,
        };
        let is_used = table.flag("use_sparse_attention")?;
        let layers = table.by_layer("sparse_attention_freq", self.count)?;
        let layers =
            layers.ok_or_else(|| table.refuse("sparse_attention_freq", "it is missing"))?;
        table.not_understood(&[
            "sparse_disable_index_value",
            "sparse_init_block",
            "sparse_local_block",
        ])?;
        notes.push("blocks that are always read count among those chosen".into());
        let of_layer = |kind: &String| {
            let indexer = Some(indexer).filter(|_| is_used && kind == "1");
            Some(Mixer::Grouped(Grouped { indexer, ..full.clone() }))
        };
        Ok(layers.iter().map(of_layer).collect())
    }

    fn latent(&self) -> Result<Latent, ConfigError> {
        let fields = self.fields;
        let heads = fields.number("num_attention_heads")?;
        // Every head has its own keys, which come from one latent.
        if let Some(kv) = fields.count("num_key_value_heads")?.filter(|kv| *kv != heads) {
            let why =
                format!("{kv} differs from {heads} query heads, of which latents know nothing");
            return Err(fields.refuse("num_key_value_heads", why));
        }
        for name in ["head_dim", "qk_head_dim"] {
            fields.value(name);
        }
        Ok(Latent {
            heads,
            q_rank: fields.positive("q_lora_rank")?,
            kv_rank: fields.number("kv_lora_rank")?,
            nope: fields.number("qk_nope_head_dim")?,
            rope: fields.number("qk_rope_head_dim")?,
            dim_v: fields.number("v_head_dim")?,
            gate: fields.flag("mla_use_output_gate")?,
            indexer: None,
        })
    }

    fn latents(&self) -> Each<Mixer> {
        let latent = self.latent()?;
        let types = self.fields.by_layer("indexer_types", self.count)?;
        let Some(indexer) = self.indexer()? else { return Ok(self.same(Mixer::Latent(latent))) };
        let of_layer = |at: u32| {
            let is_own = match types.as_ref().map(|types| types[at as usize].as_str()) {
                None | Some("full") => true,
                Some("shared") => false,
                Some(other) => {
                    let why = format!("{other:?} is not full or shared");
                    return Err(self.fields.refuse("indexer_types", why));
                }
            };
            let indexer = Some(Indexer { is_own, ..indexer });
            Ok(Some(Mixer::Latent(Latent { indexer, ..latent.clone() })))
        };
        (0..self.count).map(of_layer).collect()
    }

    fn indexer(&self) -> Result<Option<Indexer>, ConfigError> {
        let fields = self.fields;
        let Some(top) = fields.positive("index_topk")? else { return Ok(None) };
        let (heads, dim) = (fields.number("index_n_heads")?, fields.number("index_head_dim")?);
        Ok(Some(Indexer { heads, dim, top, is_own: true }))
    }

    fn compressed(&self, notes: &mut Vec<String>) -> Each<Mixer> {
        let fields = self.fields;
        let name = "compress_ratios";
        let ratios = fields.list(name)?.map_or(&[][..], Vec::as_slice);
        // Those after the last layer are of heads that predict more than one token.
        if ratios.len() < self.count as usize {
            let why = format!("it has {} entries for {} layers", ratios.len(), self.count);
            return Err(fields.refuse(name, why));
        }
        if fields.number("num_key_value_heads")? != 1 {
            return Err(fields.refuse("num_key_value_heads", "it is not 1"));
        }
        fields.value("qk_rope_head_dim");
        let whole = Compressed {
            heads: fields.number("num_attention_heads")?,
            dim: fields.number("head_dim")?,
            q_rank: fields.number("q_lora_rank")?,
            out_groups: fields.number("o_groups")?,
            out_rank: fields.number("o_lora_rank")?,
            window: fields.number("sliding_window")?,
            ratio: 0,
            indexer: None,
        };
        let indexer = self.indexer()?;
        notes.push("hyper-connections are left out: below 0.1 % of parameters".into());
        let of_layer = |ratio: &Value| {
            let ratio = match ratio.as_u64() {
                Some(ratio @ (0 | 4 | 128)) => ratio as u32,
                _ => {
                    let why = format!("{ratio}: only 0, 4 and 128 are understood");
                    return Err(fields.refuse(name, why));
                }
            };
            let indexer = indexer.filter(|_| ratio == 4);
            Ok(Some(Mixer::Compressed(Compressed { ratio, indexer, ..whole.clone() })))
        };
        ratios[..self.count as usize].iter().map(of_layer).collect()
    }

    /// Gated delta net (Qwen3-Next, Qwen3.5).
    fn delta_net(&self) -> Result<Linear, ConfigError> {
        let fields = self.fields;
        let hidden = of(fields.number("hidden_size")?);
        let heads = fields.number("linear_num_value_heads")?;
        let [key_heads, dim_k, dim_v, kernel] = [
            "linear_num_key_heads",
            "linear_key_head_dim",
            "linear_value_head_dim",
            "linear_conv_kernel_dim",
        ]
        .map(|name| fields.number(name));
        let (keys, values) = (of(key_heads?) * of(dim_k.clone()?), of(heads) * of(dim_v.clone()?));
        let mixed = 2.0 * keys + values;
        // Queries, keys, values and the gate; two numbers for each head; the output; a convolution.
        let projections = hidden * (mixed + values + 2.0 * of(heads)) + values * hidden;
        Ok(Linear {
            kind: "gated delta net",
            parameters: projections + mixed * of(kernel?),
            state: of(heads) * of(dim_k?) * of(dim_v?),
            heads,
        })
    }

    /// Kimi delta attention beside latent attention.
    fn kimi_linear(&self, table: &Fields<'_>) -> Each<Mixer> {
        let fields = self.fields;
        let hidden = of(fields.number("hidden_size")?);
        let heads = table.number("num_heads")?;
        let dim = of(table.number("head_dim")?);
        let width = of(heads) * dim;
        let kernel = of(table.number("short_conv_kernel_size")?);
        let gate = match table.flag("use_full_rank_gate")? {
            true => hidden * width,
            false => (hidden + width) * dim,
        };
        // Queries, keys, values, output; decay of low rank; one number for each head.
        let projections = 4.0 * hidden * width + (hidden + width) * dim + hidden * of(heads);
        let linear = Mixer::Linear(Linear {
            kind: "Kimi delta attention",
            parameters: projections + gate + 3.0 * width * kernel,
            state: width * dim,
            heads,
        });
        let latent = Mixer::Latent(self.latent()?);
        let mut layers = vec![None; self.count as usize];
        for (name, mixer) in [("kda_layers", &linear), ("full_attn_layers", &latent)] {
            for number in table.list(name)?.into_iter().flatten() {
                // They count from 1.
                let at = number.as_u64().and_then(|number| number.checked_sub(1));
                let slot = at.and_then(|at| layers.get_mut(at as usize));
                let why = format!("{number} is no layer, or stands twice");
                let slot = slot.filter(|slot| slot.is_none());
                *slot.ok_or_else(|| table.refuse(name, why))? = Some(mixer.clone());
            }
        }
        table.not_understood(&["gate_lower_bound"])?;
        match layers.iter().position(Option::is_none) {
            None => Ok(layers),
            Some(at) => Err(table.refuse("kda_layers", format!("layer {} has no kind", at + 1))),
        }
    }

    /// Nemotron-H: layers that mix, and layers that transform.
    fn nemotron(&self) -> Each<Mixer> {
        let fields = self.fields;
        let hidden = of(fields.number("hidden_size")?);
        let heads = fields.number("mamba_num_heads")?;
        let inner = of(heads) * of(fields.number("mamba_head_dim")?);
        let (groups, state) =
            (of(fields.number("n_groups")?), of(fields.number("ssm_state_size")?));
        let mixed = inner + 2.0 * groups * state;
        let projections = hidden * (inner + mixed + of(heads)) + inner * hidden;
        let linear = Mixer::Linear(Linear {
            kind: "Mamba-2",
            parameters: projections + mixed * of(fields.number("conv_kernel")?),
            state: inner * state,
            heads,
        });
        let attention = Mixer::Grouped(self.grouped("", Reach::All)?);
        fields.value("sliding_window");
        let kinds = fields.by_layer("layers_block_type", self.count)?.unwrap_or_default();
        let of_layer = |kind: &String| match kind.as_str() {
            "mamba" => Ok(Some(linear.clone())),
            "attention" => Ok(Some(attention.clone())),
            "moe" | "mlp" => Ok(None),
            other => {
                let why = format!("{other:?} is no kind of layer that is understood");
                Err(fields.refuse("layers_block_type", why))
            }
        };
        kinds.iter().map(of_layer).collect()
    }
}

/// What KV caches are stored in where nothing is said.
pub const KV_DEFAULT: Format = Format::Bf16;
