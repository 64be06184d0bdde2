//! Feed-forward layers as a configuration states them: dense ones and mixtures.

use super::{
    Dense, FeedForward, Mixture,
    config::{ConfigError, Each, Reader},
};
use serde_json::Value;

impl Reader<'_> {
    /// What transforms each token, by layer.
    pub(super) fn feed_forwards(&self) -> Each<FeedForward> {
        let fields = self.fields;
        let matrices = self.matrices()?;
        let experts = fields.one_of(&["num_local_experts", "n_routed_experts", "num_experts"])?;
        let Some(experts) = experts.filter(|experts| *experts > 0) else {
            let inner = fields.number("intermediate_size")?;
            return Ok(self.same(FeedForward::Dense(Dense { inner, matrices })));
        };
        let mixture = FeedForward::Mixture(self.mixture(experts, matrices)?);
        let inner = match self.family {
            "llama4_text" => fields.positive("intermediate_size_mlp")?,
            "minimax_m3" => {
                // The width of an expert, which is stated beside it too.
                fields.value("intermediate_size");
                fields.positive("dense_intermediate_size")?
            }
            _ => fields.positive("intermediate_size")?,
        };
        let dense = inner.map(|inner| FeedForward::Dense(Dense { inner, matrices }));
        let is_mixture = self.mixture_layers()?;
        let of_layer = |kind: &Option<bool>| match kind {
            None => Ok(None),
            Some(true) => Ok(Some(mixture.clone())),
            Some(false) => match &dense {
                Some(dense) => Ok(Some(dense.clone())),
                None => Err(fields.refuse("intermediate_size", "it is missing")),
            },
        };
        is_mixture.iter().map(of_layer).collect()
    }

    /// Matrices of a feed-forward layer, by its activation.
    fn matrices(&self) -> Result<u32, ConfigError> {
        for name in ["mlp_hidden_act", "hidden_act"] {
            match self.fields.text(name)? {
                None => {}
                Some("silu" | "swigluoai" | "situ") => return Ok(3),
                Some("relu2") => return Ok(2),
                Some(other) => {
                    let why = format!("{other:?} is not understood: silu, swigluoai, situ, relu2");
                    return Err(self.fields.refuse(name, why));
                }
            }
        }
        Ok(3)
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
        let shared = match (self.family, stated, each) {
            ("llama4_text", None, None) => inner,
            (_, Some(stated), each) => stated.saturating_mul(each.unwrap_or(1)),
            (_, None, each) => inner.saturating_mul(each.unwrap_or(0)),
        };
        let shared_gate = fields.has("shared_expert_intermediate_size");
        let latent = fields.one_of(&["routed_expert_hidden_size", "moe_latent_size"])?;
        let latent = latent.filter(|latent| *latent > 0);
        Ok(Mixture { experts, chosen, inner, matrices, shared, shared_gate, latent })
    }

    /// Whether each layer's feed-forward part is a mixture; none where it has no such part.
    fn mixture_layers(&self) -> Result<Vec<Option<bool>>, ConfigError> {
        let fields = self.fields;
        let all = |is: &dyn Fn(u32) -> bool| (0..self.count).map(|at| Some(is(at))).collect();
        if let Some(kinds) = fields.by_layer("layers_block_type", self.count)? {
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
}
