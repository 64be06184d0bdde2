//! Linear attention, state spaces and convolutions as a configuration states them.

use super::{
    Mixer,
    config::{ConfigError, Each, Reader},
    family::LinearKind,
    mixer::{Linear, Reach},
    of,
};

impl Reader<'_> {
    /// A layer of the family's linear attention.
    pub(super) fn linear(&self) -> Result<Linear, ConfigError> {
        match self.family.linear {
            Some(LinearKind::Delta) => self.delta_net(),
            Some(LinearKind::Lightning) => self.lightning(),
            Some(LinearKind::Mamba1) => self.mamba1(),
            Some(LinearKind::Conv) => self.convolution(),
            Some(LinearKind::Mamba2) | None => self.mamba2(),
        }
    }

    /// Mamba-2: projections in and out, and a convolution over what is mixed.
    fn mamba2(&self) -> Result<Linear, ConfigError> {
        let fields = self.fields;
        let hidden = fields.number("hidden_size")?;
        let heads = fields.number("mamba_n_heads")?;
        let expanded = fields.positive("mamba_expand")?.map(|by| by.saturating_mul(hidden));
        // A word, "auto", stands for what the width and the heads give.
        let dim = match fields.value("mamba_d_head").is_some_and(serde_json::Value::is_string) {
            true => None,
            false => fields.positive("mamba_d_head")?,
        };
        let inner = match (fields.positive("mamba_d_ssm")?, dim, expanded) {
            (Some(inner), _, _) => inner,
            (None, Some(dim), _) => dim.saturating_mul(heads),
            (None, None, Some(expanded)) => expanded,
            (None, None, None) => return Err(fields.refuse("mamba_d_head", "it is missing")),
        };
        let (groups, state) =
            (of(fields.number("mamba_n_groups")?), of(fields.number("mamba_d_state")?));
        let (hidden, inner) = (of(hidden), of(inner));
        let mixed = inner + 2.0 * groups * state;
        let projections = hidden * (inner + mixed + of(heads)) + inner * hidden;
        Ok(Linear {
            kind: "Mamba-2",
            parameters: projections + mixed * of(fields.number("mamba_d_conv")?),
            state: inner * state,
            heads,
        })
    }

    /// Mamba (Jamba): steps of low rank, and a state for each channel.
    fn mamba1(&self) -> Result<Linear, ConfigError> {
        let fields = self.fields;
        let hidden = of(fields.number("hidden_size")?);
        let inner = of(fields.number("mamba_expand")?) * hidden;
        let state = of(fields.number("mamba_d_state")?);
        let rank = match fields.value("mamba_dt_rank").is_some_and(serde_json::Value::is_string) {
            true => None,
            false => fields.positive("mamba_dt_rank")?,
        };
        let rank = rank.map_or((hidden / 16.0).ceil(), of);
        let projections = 3.0 * hidden * inner + inner * (rank + 2.0 * state) + rank * inner;
        let kernel = of(fields.number("mamba_d_conv")?);
        Ok(Linear {
            kind: "Mamba",
            parameters: projections + inner * (kernel + state + 3.0),
            state: inner * state,
            heads: fields.number("num_attention_heads")?,
        })
    }

    /// A short convolution between two gates (LFM2). Its cache is 16 bits a number.
    fn convolution(&self) -> Result<Linear, ConfigError> {
        let fields = self.fields;
        let hidden = of(fields.number("hidden_size")?);
        let length = of(fields.number("conv_L_cache")?);
        Ok(Linear {
            kind: "short convolution",
            parameters: 4.0 * hidden * hidden + hidden * length,
            state: hidden * length / 2.0,
            heads: fields.number("num_attention_heads")?,
        })
    }

    /// Lightning attention (MiniMax-01): queries, keys, values, a gate and the output, each as
    /// wide as all heads.
    fn lightning(&self) -> Result<Linear, ConfigError> {
        let full = self.grouped("", Reach::All)?;
        let hidden = of(self.fields.number("hidden_size")?);
        let width = of(full.heads) * of(full.dim_qk);
        Ok(Linear {
            kind: "lightning attention",
            parameters: 5.0 * hidden * width,
            state: width * of(full.dim_qk),
            heads: full.heads,
        })
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
    pub(super) fn kimi_linear(&self) -> Each<Mixer> {
        let fields = self.fields;
        let name = "linear_attn_config";
        let table = fields.object(name)?.ok_or_else(|| fields.refuse(name, "it is missing"))?;
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
    pub(super) fn nemotron(&self) -> Each<Mixer> {
        let fields = self.fields;
        let linear = Mixer::Linear(self.linear()?);
        let attention = Mixer::Grouped(self.grouped("", Reach::All)?);
        let of_layer = |kind: &String| match kind.as_str() {
            "mamba" | "linear_attention" => Ok(Some(linear.clone())),
            "attention" | "full_attention" => Ok(Some(attention.clone())),
            "moe" | "mlp" => Ok(None),
            other => {
                let why = format!("{other:?} is no kind of layer that is understood");
                Err(fields.refuse("layers_block_type", why))
            }
        };
        self.blocks()?.iter().map(of_layer).collect()
    }

    /// Kinds of Nemotron-H's layers: a list, or letters (`M-M*E`).
    pub(super) fn blocks(&self) -> Result<Vec<String>, ConfigError> {
        let (fields, letters) = (self.fields, "hybrid_override_pattern");
        let stated = fields.text(letters)?;
        for list in ["layers_block_type", "layer_types"] {
            if let Some(kinds) = fields.by_layer(list, self.count)? {
                return Ok(kinds);
            }
        }
        let why = "it is missing, and there is no layers_block_type";
        let stated = stated.ok_or_else(|| fields.refuse(letters, why))?;
        if stated.len() != self.count as usize {
            let why = format!("it has {} letters for {} layers", stated.len(), self.count);
            return Err(fields.refuse(letters, why));
        }
        let word = |letter: char| match letter {
            'M' => Ok("mamba".to_owned()),
            '*' => Ok("attention".to_owned()),
            '-' => Ok("mlp".to_owned()),
            'E' => Ok("moe".to_owned()),
            other => Err(fields.refuse(letters, format!("{other:?} is none of M, *, - and E"))),
        };
        stated.chars().map(word).collect()
    }
}
