//! Attention as a configuration states it: which layers see what, and how wide they are.

use super::{
    Indexer, Mixer,
    config::{ConfigError, Each, Reader},
    family::Rope,
    fields::Fields,
    mixer::{Compressed, Grouped, Latent, Reach},
};
use serde_json::Value;

impl Reader<'_> {
    /// Layers by their kinds: the file's list, or the architecture's pattern.
    pub(super) fn of_kinds(&self, notes: &mut Vec<String>) -> Each<Mixer> {
        let full = self.grouped("", Reach::All)?;
        let (kinds, window) = (self.kinds()?, self.window()?);
        if self.family.linear.is_some() {
            // Files state the widths of such layers where a model has none of them, too.
            drop(self.linear());
        }
        if kinds.iter().any(|kind| kind == "chunked_attention") {
            notes.push("half a chunk is read on average over positions".into());
        }
        kinds.iter().map(|kind| self.of_kind(kind, window, &full)).collect()
    }

    /// The window, unless the architecture's switch is off.
    fn window(&self) -> Result<Option<u32>, ConfigError> {
        let window = self.fields.count("sliding_window")?.filter(|window| *window > 0);
        let pattern = &self.family.layers;
        let Some(switch) = &pattern.switch else { return Ok(window) };
        let is_on = self.fields.flag(switch)?;
        // Where positions decide, the switch is of the pattern alone, and a list stands for it.
        let is_listed = pattern.rope.is_some() && self.fields.has("layer_types");
        Ok(window.filter(|_| is_on || is_listed))
    }

    /// The kind of each layer.
    fn kinds(&self) -> Result<Vec<String>, ConfigError> {
        let (fields, pattern) = (self.fields, &self.family.layers);
        let every = match pattern.every_in.as_deref().map(|name| self.period(name)).transpose()? {
            Some(Some(every)) => every,
            _ => pattern.every,
        };
        let number = |name: &Option<String>| match name {
            Some(name) => fields.count(name),
            None => Ok(None),
        };
        let (from, below) = (number(&pattern.from)?, number(&pattern.below)?);
        let offset = number(&pattern.offset_in)?.unwrap_or(every.saturating_sub(1));
        let listed = pattern.listed.as_deref().map(|name| fields.list(name)).transpose()?.flatten();
        let positions = pattern.rope.map(|_| self.positions()).transpose()?;
        let is_off = match pattern.most.as_str() {
            "sliding_attention" => self.window()?.is_none(),
            "chunked_attention" => fields.positive("attention_chunk_size")?.is_none(),
            _ => pattern.listed.is_some() && listed.is_none(),
        };
        if let Some(stated) = fields.by_layer("layer_types", self.count)? {
            return Ok(stated);
        }
        let is_listed = |at: u32| {
            listed.is_some_and(|list| list.iter().any(|one| one.as_u64() == Some(u64::from(at))))
        };
        let has_position = |at: u32| positions.as_ref().is_none_or(|each| each[at as usize]);
        let of_layer = |at: u32| {
            let is_last = is_off
                || (every > 0 && at % every == offset)
                || from.is_some_and(|from| at < from)
                || below.is_some_and(|below| at >= below)
                || is_listed(at)
                || pattern.rope.is_some_and(|rope| (rope == Rope::With) != has_position(at));
            if is_last { pattern.last.clone() } else { pattern.most.clone() }
        };
        Ok((0..self.count).map(of_layer).collect())
    }

    /// A period of layers: a number, or letters such as `LLLG`, whose number counts.
    fn period(&self, name: &str) -> Result<Option<u32>, ConfigError> {
        match self.fields.value(name) {
            Some(Value::String(letters)) => match letters.strip_suffix('G') {
                Some(local) if local.bytes().all(|letter| letter == b'L') => {
                    Ok(Some(letters.len() as u32))
                }
                _ => Err(self.fields.refuse(name, format!("{letters:?} is not LLLG"))),
            },
            _ => self.fields.count(name),
        }
    }

    /// Whether each layer has positions: `no_rope_layers` is 1 where it has.
    fn positions(&self) -> Result<Vec<bool>, ConfigError> {
        let fields = self.fields;
        let every = fields.positive("no_rope_layer_interval")?.unwrap_or(4);
        let name = "no_rope_layers";
        if fields.list(name)?.is_some_and(|list| !list.is_empty()) {
            let stated = fields.by_layer(name, self.count)?.unwrap_or_default();
            return Ok(stated.iter().map(|one| one != "0").collect());
        }
        Ok((0..self.count).map(|at| (at + 1) % every != 0).collect())
    }

    fn of_kind(
        &self,
        kind: &str,
        window: Option<u32>,
        full: &Grouped,
    ) -> Result<Option<Mixer>, ConfigError> {
        let grouped = |reach| Mixer::Grouped(Grouped { reach, ..full.clone() });
        let missing = |name: &str| self.fields.refuse(name, "it is missing, null or switched off");
        Ok(Some(match kind {
            "full_attention" | "attention" => grouped(Reach::All),
            "sliding_attention" => {
                let window = window.ok_or_else(|| missing("sliding_window"))?;
                grouped(Reach::Window(window))
            }
            "chunked_attention" => {
                let chunk = self.fields.positive("attention_chunk_size")?;
                grouped(Reach::Chunk(chunk.ok_or_else(|| missing("attention_chunk_size"))?))
            }
            "linear_attention" | "mamba" | "conv" if self.family.linear.is_some() => {
                Mixer::Linear(self.linear()?)
            }
            other => {
                let why = format!("{other:?} is no kind of layer that is understood");
                return Err(self.fields.refuse("layer_types", why));
            }
        }))
    }

    /// Whether one of several fields is true.
    fn any(&self, names: &[String]) -> Result<bool, ConfigError> {
        let mut is_one = false;
        for name in names {
            is_one |= name == "always" || self.fields.flag(name)?;
        }
        Ok(is_one)
    }

    /// Grouped attention whose fields begin with a prefix.
    pub(super) fn grouped(&self, prefix: &str, reach: Reach) -> Result<Grouped, ConfigError> {
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
        let stated = fields.flag("attn_output_gate")? | fields.flag("attention_output_gate")?;
        let gate = self.family.gate | stated;
        let bias = [self.any(&self.family.bias)?, self.any(&self.family.bias_out)?];
        Ok(Grouped { heads, kv_heads, dim_qk, dim_v, gate, bias, reach, indexer: None })
    }

    pub(super) fn mimo(&self) -> Each<Mixer> {
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
    pub(super) fn sparse(&self, notes: &mut Vec<String>) -> Each<Mixer> {
        let full = self.grouped("", Reach::All)?;
        let name = "sparse_attention_config";
        let Some(table) = self.fields.object(name)? else {
            return Ok(self.same(Mixer::Grouped(full)));
        };
        let table: &Fields<'_> = &table;
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

    pub(super) fn latent(&self) -> Result<Latent, ConfigError> {
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

    pub(super) fn latents(&self) -> Each<Mixer> {
        let latent = self.latent()?;
        if let Some(kinds) = self.fields.by_layer("layer_types", self.count)? {
            let known = ["full_attention", "indexed_attention", "deepseek_sparse_attention"];
            if let Some(other) = kinds.iter().find(|kind| !known.contains(&kind.as_str())) {
                let why = format!("{other:?} is no kind of layer that is understood");
                return Err(self.fields.refuse("layer_types", why));
            }
        }
        let types = self.indexers()?;
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

    /// Which layers have an indexer of their own: a list, letters (`FSSF`), or every n-th from some
    /// layer on (`index_topk_freq`, `index_skip_topk_offset`). None where all have.
    fn indexers(&self) -> Result<Option<Vec<String>>, ConfigError> {
        let fields = self.fields;
        let every = fields.count("index_topk_freq")?.unwrap_or(1).max(1);
        let offset = fields.count("index_skip_topk_offset")?.unwrap_or(2);
        let name = "index_topk_pattern";
        let letters = fields.text(name)?;
        if let Some(types) = fields.by_layer("indexer_types", self.count)? {
            return Ok(Some(types));
        }
        if let Some(letters) = letters {
            if letters.len() != self.count as usize {
                let why = format!("it has {} letters for {} layers", letters.len(), self.count);
                return Err(fields.refuse(name, why));
            }
            let word = |letter| if letter == 'F' { "full" } else { "shared" };
            return Ok(Some(letters.chars().map(|letter| word(letter).to_owned()).collect()));
        }
        if every == 1 {
            return Ok(None);
        }
        let is_own = |at: u32| (at + 1).saturating_sub(offset).is_multiple_of(every);
        let word = |at| if is_own(at) { "full" } else { "shared" };
        Ok(Some((0..self.count).map(|at| word(at).to_owned()).collect()))
    }

    fn indexer(&self) -> Result<Option<Indexer>, ConfigError> {
        let fields = self.fields;
        let Some(top) = fields.positive("index_topk")? else { return Ok(None) };
        let (heads, dim) = (fields.number("index_n_heads")?, fields.number("index_head_dim")?);
        Ok(Some(Indexer { heads, dim, top, is_own: true }))
    }

    pub(super) fn compressed(&self, notes: &mut Vec<String>) -> Each<Mixer> {
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
}
