//! `config.json` of the Hugging Face hub, for the architectures that are understood. Nothing is
//! guessed: what is not understood is refused by the name of its field.

use super::{
    FeedForward, Format, Layers, Mixer, Model,
    family::{self, Family, Reads},
    fields::Fields,
    json::Once,
    names::Weights,
    quantisation,
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
    /// Fields that nobody reads and that may change sizes.
    #[error("{}: {why}", named(.fields))]
    Unread {
        /// Their names with their paths.
        fields: Vec<String>,
        /// What is wrong, and what to do.
        why: String,
    },
}

fn named(fields: &[String]) -> String {
    let word = if fields.len() == 1 { "field" } else { "fields" };
    format!("{word} {}", fields.join(", "))
}

/// Parts of names of fields that state which layers there are. Without such a field a model may be
/// another one, so that nobody is told to leave it out.
const STRUCTURE: [&str; 19] = [
    "linear_",
    "mamba",
    "ssm_",
    "conv_",
    "pattern",
    "interval",
    "lora_rank",
    "layer_types",
    "block_type",
    "expert",
    "window",
    "layer_freq",
    "layer_period",
    "layer_offset",
    "compress",
    "_layers",
    "attn_type",
    "index_",
    "no_rope",
];

impl ConfigError {
    /// Refuses fields that nobody reads, all of them at once.
    ///
    /// # Errors
    /// Where there is one.
    pub(super) fn of_unread(fields: Vec<String>) -> Result<(), ConfigError> {
        if fields.is_empty() {
            return Ok(());
        }
        let states_layers = |field: &&String| {
            let name = field.rsplit('.').next().unwrap_or(field);
            family::reads(name) || STRUCTURE.iter().any(|part| name.contains(part))
        };
        let why = match fields.iter().filter(states_layers).collect::<Vec<_>>()[..] {
            [] => "not understood, and may change sizes. If the publisher's own code ignores \
                   them, take them out of the file, all at once"
                .into(),
            [one, ..] => format!(
                "not understood. {one} states which layers the model has, and its model_type is \
                 read without it: what would be counted is another model. Taking it out of the \
                 file makes a wrong model"
            ),
        };
        Err(ConfigError::Unread { fields, why })
    }
}

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
     time_step_min time_step_rank expand num_logits_to_keep residual_in_fp32",
    // Of what is not used, or changes no weights that are counted.
    "sliding_window_size chunk_size_feed_forward unsloth_fixed mlp_bias lm_head_bias \
     query_pre_attn_scalar final_logit_softcapping \
     attn_logit_softcapping embedding_multiplier logits_scaling residual_multiplier \
     attention_multiplier logit_scale original_max_position_embeddings resid_pdrop embd_pdrop \
     embedding_dropout residual_dropout rope_local_base_freq cache_implementation \
     moe_norm_min moe_use_aux_free use_qk_norm eod_token_id pad_id \
     scale_depth dim_model_base router_jitter_noise input_jitter_noise norm_epsilon \
     layer_norm_eps mamba_hidden_act hidden_activation norm_after_embedding \
     clip_qkv attention_bias_out decoder_start_token_id boi_token_index eoi_token_index \
     image_token_index video_token_index mm_tokens_per_image spatial_merge_size \
     multimodal_projector_bias vision_feature_layer projector_hidden_act \
     image_grid_pinpoints transformers.js_config",
];

fn harmless() -> Vec<&'static str> {
    HARMLESS.iter().flat_map(|names| names.split_whitespace()).collect()
}

/// Tables that hold the language part of a model with encoders.
const INNER: [&str; 4] = ["text_config", "llm_config", "language_config", "text_model_config"];

/// What stands beside the language part and is left out.
const ENCODERS: [&str; 8] = [
    "vision_config",
    "audio_config",
    "model_type",
    "mm_projector_config",
    "projector_config",
    "vision_feature_select_strategy",
    "audio_token_id",
    "vision_soft_tokens_per_image",
];

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
    let inner = INNER.iter().find_map(|name| Some((*name, outer.value(name)?.as_object()?)));
    let (path, map) = inner.map_or((String::new(), map), |(name, map)| (format!("{name}."), map));
    let plain = Fields::of(map, &path);
    let family = family(&plain, &outer)?;
    let read = family.canonical(map).map_err(|field| {
        plain.refuse(&field, "it states something else than another field of the same meaning")
    })?;
    let fields = Fields::of_family(&read, &path);
    let (model, mut unread) = Reader::of(&fields, family)?.model(name, &outer, inner.is_some())?;
    unread.extend(fields.unread(&harmless()));
    if inner.is_some() {
        unread.extend(outer.unread(&[&harmless()[..], &ENCODERS].concat()));
    }
    ConfigError::of_unread(unread)?;
    Ok(model)
}

/// The architecture by `model_type`, which some files state beside the language part only.
fn family(fields: &Fields<'_>, outer: &Fields<'_>) -> Result<&'static Family, ConfigError> {
    let stated = match fields.text("model_type")? {
        Some(stated) => Some(stated),
        None => outer.text("model_type")?,
    };
    let stated = stated.ok_or_else(|| fields.refuse("model_type", "it is missing"))?;
    family::find(stated).ok_or_else(|| {
        let known = family::known().join(", ");
        let why = format!("{stated:?} is no architecture that is understood; there are: {known}");
        fields.refuse("model_type", why)
    })
}

/// Layers that are alike counted together.
fn gathered(layers: Vec<One>) -> Vec<Layers> {
    let mut gathered: Vec<Layers> = Vec::new();
    for (mixer, feed_forward) in layers {
        let same = gathered
            .iter_mut()
            .find(|layers| layers.mixer == mixer && layers.feed_forward == feed_forward);
        match same {
            Some(layers) => layers.count += 1,
            None => gathered.push(Layers { count: 1, mixer, feed_forward }),
        }
    }
    gathered
}

/// What one layer mixes and transforms with.
pub(super) type One = (Option<Mixer>, Option<FeedForward>);

pub(super) struct Reader<'a> {
    pub(super) fields: &'a Fields<'a>,
    pub(super) family: &'static Family,
    pub(super) count: u32,
}

pub(super) type Each<T> = Result<Vec<Option<T>>, ConfigError>;

impl<'a> Reader<'a> {
    fn of(fields: &'a Fields<'a>, family: &'static Family) -> Result<Reader<'a>, ConfigError> {
        Ok(Reader { fields, family, count: fields.layers()? })
    }

    pub(super) fn same<T: Clone>(&self, one: T) -> Vec<Option<T>> {
        vec![Some(one); self.count as usize]
    }

    /// The model, and fields of its quantisation that nobody reads.
    fn model(
        &self,
        name: &str,
        outer: &Fields<'_>,
        inner: bool,
    ) -> Result<(Model, Vec<String>), ConfigError> {
        let fields = self.fields;
        let mut notes = Vec::new();
        if inner {
            notes.push("only the language part is counted: encoders of images are left out".into());
        }
        let layers = self.layers(&mut notes)?;
        let predicts = |name: &&str| fields.count(name).ok().flatten().is_some_and(|n| n > 0);
        if HEADS.iter().any(predicts) {
            notes.push("heads that predict more than one token are left out".into());
        }
        let weights = Weights::of(&layers, &self.family.moe);
        let stated = quantisation::stated(fields, outer, &weights)?;
        let mut model = Model {
            name: name.into(),
            hidden: fields.number("hidden_size")?,
            vocabulary: fields.number("vocab_size")?,
            is_tied: self.is_tied(outer)?,
            context: fields.positive("max_position_embeddings")?.map(u64::from),
            layers: gathered(layers),
            precision: stated.precision,
            kv: stated.kv,
            notes,
        };
        let taken = fields.taken();
        if !taken.is_empty() {
            model.notes.push(format!(
                "not in the file, so that the architecture's defaults count: {}",
                taken.join(", ")
            ));
        }
        model.notes.extend(stated.notes);
        Ok((model, stated.unread))
    }

    /// Whether the output layer is the embedding: a table of the language part and the file itself
    /// may both say so.
    fn is_tied(&self, outer: &Fields<'_>) -> Result<bool, ConfigError> {
        let name = "tie_word_embeddings";
        if self.fields.is_default(name) && outer.has(name) {
            return outer.flag(name);
        }
        Ok(self.fields.flag(name)? | outer.flag(name)?)
    }

    /// What each layer mixes and transforms with.
    fn layers(&self, notes: &mut Vec<String>) -> Result<Vec<One>, ConfigError> {
        if self.family.mixer == Reads::Mamba2 {
            let mixer = Mixer::Linear(self.linear()?);
            return Ok(vec![(Some(mixer), None); self.count as usize]);
        }
        let mixers = self.mixers(notes)?;
        let ffns = self.feed_forwards()?;
        let layers = mixers.into_iter().zip(ffns);
        if self.family.mixer != Reads::FalconH1 {
            return Ok(layers.collect());
        }
        notes.push("attention and Mamba-2 of a layer count as two layers".into());
        let linear = Mixer::Linear(self.linear()?);
        Ok(layers.flat_map(|layer| [(Some(linear.clone()), None), layer]).collect())
    }

    /// What mixes tokens, by layer.
    fn mixers(&self, notes: &mut Vec<String>) -> Each<Mixer> {
        match self.family.mixer {
            Reads::Grouped | Reads::FalconH1 | Reads::Mamba2 => self.of_kinds(notes),
            Reads::Latent => self.latents(),
            Reads::Compressed => self.compressed(notes),
            Reads::KimiLinear => self.kimi_linear(),
            Reads::Mimo => self.mimo(),
            Reads::Sparse => self.sparse(notes),
            Reads::Nemotron => self.nemotron(),
        }
    }
}

/// Fields that count heads which predict more than one token.
const HEADS: [&str; 3] = ["num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers"];

/// What KV caches are stored in where nothing is said.
pub const KV_DEFAULT: Format = Format::Bf16;
