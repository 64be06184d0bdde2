//! Feed-forward layers as a configuration states them: dense ones and mixtures.

use super::{
    Dense, FeedForward, Mixture,
    config::{ConfigError, Each, Reader},
    family::{Mixtures, Reads},
};
use serde_json::Value;

/// Activations of feed-forward layers that are known; whether there is a gate, the family says.
const ACTIVATIONS: [&str; 12] = [
    "silu",
    "swish",
    "swiglu",
    "swigluoai",
    "situ",
    "gelu",
    "gelu_new",
    "gelu_fast",
    "gelu_pytorch_tanh",
    "relu",
    "relu2",
    "xielu",
];

/// Activations that are never multiplied with a gate.
const GATELESS: [&str; 2] = ["relu2", "xielu"];

/// Fields of mixtures, which families state where all layers are dense too.
const OF_MIXTURES: [&str; 8] = [
    "num_experts_per_tok",
    "moe_intermediate_size",
    "n_shared_experts",
    "expert_layer_period",
    "expert_layer_offset",
    "shared_intermediate_size",
    "moe_shared_expert_intermediate_size",
    "moe_latent_size",
];

impl Reader<'_> {
    /// What transforms each token, by layer.
    pub(super) fn feed_forwards(&self) -> Each<FeedForward> {
        let fields = self.fields;
        let matrices = self.matrices()?;
        let experts = fields.one_of(&["num_local_experts", "n_routed_experts", "num_experts"])?;
        let dense = self.dense(matrices)?;
        let missing = || fields.refuse("intermediate_size", "it is missing");
        // Families of mixtures state one expert, or none, where all layers are dense.
        let mixture = match experts.filter(|experts| *experts > 1) {
            Some(experts) => Some(FeedForward::Mixture(self.mixture(experts, matrices)?)),
            None => {
                for name in OF_MIXTURES {
                    fields.value(name);
                }
                None
            }
        };
        if mixture.is_none() && self.family.mixer != Reads::Nemotron {
            return Ok(self.same(dense.ok_or_else(missing)?));
        }
        let is_mixture = self.mixture_layers()?;
        let of_layer = |kind: &Option<bool>| match kind {
            None => Ok(None),
            Some(true) => {
                let missing = || fields.refuse("n_routed_experts", "it is missing");
                Ok(Some(mixture.clone().ok_or_else(missing)?))
            }
            Some(false) => Ok(Some(dense.clone().ok_or_else(missing)?)),
        };
        is_mixture.iter().map(of_layer).collect()
    }

    /// A dense layer, where its width is stated.
    fn dense(&self, matrices: u32) -> Result<Option<FeedForward>, ConfigError> {
        let fields = self.fields;
        let own = match &self.family.dense {
            Some(name) => fields.count(name)?.filter(|inner| *inner > 0),
            None => None,
        };
        let plain = fields.positive("intermediate_size")?;
        let inner = match (own, plain) {
            (Some(own), _) => Some(own),
            // LFM2 adjusts a width that is meant for two matrices to three, and rounds it up.
            (None, Some(plain)) if fields.is_set("block_auto_adjust_ff_dim", true)? => {
                let by = match fields.value("block_ffn_dim_multiplier").map(Value::as_f64) {
                    Some(Some(by)) if by > 0.0 && by < 64.0 => by,
                    _ => 1.0,
                };
                let of = fields.positive("block_multiple_of")?.unwrap_or(256);
                let narrow = (f64::from(plain.saturating_mul(2) / 3) * by) as u32;
                Some(narrow.div_ceil(of).saturating_mul(of))
            }
            (None, plain) => plain,
        };
        Ok(inner.map(|inner| FeedForward::Dense(Dense { inner, matrices })))
    }

    /// Matrices of a feed-forward layer: those of the family. The activation has to be known.
    fn matrices(&self) -> Result<u32, ConfigError> {
        for name in ["mlp_hidden_act", "hidden_act", "hidden_activation"] {
            match self.fields.text(name)? {
                Some(other) if !ACTIVATIONS.contains(&other) => {
                    let known = ACTIVATIONS.join(", ");
                    let why = format!("{other:?} is not understood: {known}");
                    return Err(self.fields.refuse(name, why));
                }
                Some(other) if GATELESS.contains(&other) && self.family.matrices == 3 => {
                    let why = format!("{other:?} has no gate, and this architecture's layers do");
                    return Err(self.fields.refuse(name, why));
                }
                _ => {}
            }
        }
        Ok(self.family.matrices)
    }

    fn mixture(&self, experts: u32, matrices: u32) -> Result<Mixture, ConfigError> {
        let fields = self.fields;
        let names = ["num_experts_per_tok", "num_experts_per_token", "experts_per_token"];
        let chosen = fields.one_of(&names)?.filter(|chosen| *chosen > 0);
        let chosen = chosen.ok_or_else(|| fields.refuse(names[0], "it is missing"))?;
        if chosen > experts {
            return Err(fields.refuse(names[0], format!("{chosen} of {experts} experts")));
        }
        let inner = match fields.positive("moe_intermediate_size")? {
            Some(inner) => inner,
            None => fields.number("intermediate_size")?,
        };
        let each = fields.one_of(&["n_shared_experts", "num_shared_experts"])?;
        let stated = fields.one_of(&[
            "share_expert_dim",
            "shared_expert_intermediate_size",
            "shared_intermediate_size",
            "moe_shared_expert_intermediate_size",
        ])?;
        let shared = match stated {
            Some(stated) => stated.saturating_mul(each.unwrap_or(1)),
            None => inner.saturating_mul(each.unwrap_or(0)),
        };
        let shared_gate = fields.has("shared_expert_intermediate_size") && shared > 0;
        let latent = fields.one_of(&["routed_expert_hidden_size", "moe_latent_size"])?;
        let latent = latent.filter(|latent| *latent > 0);
        Ok(Mixture { experts, chosen, inner, matrices, shared, shared_gate, latent })
    }

    /// Whether each layer's feed-forward part is a mixture; none where it has no such part.
    fn mixture_layers(&self) -> Result<Vec<Option<bool>>, ConfigError> {
        let fields = self.fields;
        let all = |is: &dyn Fn(u32) -> bool| (0..self.count).map(|at| Some(is(at))).collect();
        if self.family.mixer == Reads::Nemotron {
            let kinds = self.blocks()?;
            let of_layer = |kind: &String| match kind.as_str() {
                "moe" => Some(true),
                "mlp" => Some(false),
                _ => None,
            };
            return Ok(kinds.iter().map(of_layer).collect());
        }
        if let Some(kinds) = fields.by_layer("mlp_layer_types", self.count)? {
            for name in ["first_k_dense_replace", "moe_layer_freq"] {
                fields.value(name);
            }
            if let Some(other) = kinds.iter().find(|kind| *kind != "dense" && *kind != "sparse") {
                let why = format!("{other:?} is not dense or sparse");
                return Err(fields.refuse("mlp_layer_types", why));
            }
            return Ok(all(&|at| kinds[at as usize] == "sparse"));
        }
        match self.family.experts {
            Mixtures::Ernie => return self.ernie(),
            Mixtures::Jamba => {
                let every = fields.number("expert_layer_period")?;
                let offset = fields.count("expert_layer_offset")?.unwrap_or(0);
                return Ok(all(&|at| at % every == offset));
            }
            Mixtures::Step => {}
        }
        if let Some(list) = fields.list("moe_layers")? {
            fields.value("interleave_moe_layer_step");
            let is_in = |at: u32| list.iter().any(|one| one.as_u64() == Some(u64::from(at)));
            return Ok(all(&is_in));
        }
        let dense = fields.count("first_k_dense_replace")?.unwrap_or(0);
        if let Some(Value::Array(_)) = fields.value("moe_layer_freq") {
            let kinds = fields.by_layer("moe_layer_freq", self.count)?.unwrap_or_default();
            return Ok(all(&|at| kinds[at as usize] == "1"));
        }
        let every = fields.one_of(&[
            "moe_layer_freq",
            "interleave_moe_layer_step",
            "decoder_sparse_step",
        ])?;
        let every = every.unwrap_or(1).max(1);
        let alone = fields.list("mlp_only_layers")?.map_or(&[][..], Vec::as_slice);
        let is_alone = |at: u32| alone.iter().any(|layer| layer.as_u64() == Some(u64::from(at)));
        Ok(all(&|at| at >= dense && (at + 1) % every == 0 && !is_alone(at)))
    }

    /// ERNIE: every n-th layer from the first mixture to the last, -1 being the model's last.
    fn ernie(&self) -> Result<Vec<Option<bool>>, ConfigError> {
        let fields = self.fields;
        let every = fields.number("moe_layer_interval")?;
        let name = "moe_layer_start_index";
        let first = fields.count(name)?.unwrap_or(0);
        let name = "moe_layer_end_index";
        let last = match fields.value(name).and_then(Value::as_i64) {
            Some(-1) | None => self.count.saturating_sub(1),
            Some(_) => fields.count(name)?.unwrap_or(0),
        };
        let of_layer = |at: u32| Some((at + 1).is_multiple_of(every) && at >= first && at <= last);
        Ok((0..self.count).map(of_layer).collect())
    }
}
