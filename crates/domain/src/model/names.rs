//! Names of weights: which of a model's weights an entry of a list in a quantisation means.

use super::{
    FeedForward, Mixer, Module,
    config::{ConfigError, One},
    fields::Fields,
};
use regex::Regex;

/// The longest pattern that is read, in bytes.
const PATTERN_MAX: usize = 4096;

/// What stands before the names of layers in checkpoints.
const PREFIXES: [&str; 5] =
    ["model.language_model.", "language_model.model.", "language_model.", "backbone.", "model."];

/// Words of names that hold no weights which are counted: norms, biases, small gates, encoders of
/// images and sounds, and heads that predict more than one token.
const UNCOUNTED: [&str; 24] = [
    "norm",
    "layernorm",
    "visual",
    "vision",
    "mm_projector",
    "multi_modal_projector",
    "audio",
    "mtp",
    "conv1d",
    "e_score_correction_bias",
    "shared_expert_gate",
    "rotary_emb",
    "in_proj_ba",
    "in_proj_a",
    "in_proj_b",
    "A_log",
    "dt_bias",
    "merger",
    "patch_embed",
    "img_projector",
    "eh_proj",
    "embed_vision",
    "indexer",
    "indexers_proj",
];

/// A weight of the model: the names that checkpoints have for it.
struct Weight {
    module: Module,
    names: Vec<String>,
}

/// The weights of a model by name.
pub struct Weights {
    weights: Vec<Weight>,
    layers: usize,
}

/// Which of the weights a list names.
pub struct Named {
    hit: Vec<bool>,
}

/// How a list says which weights it means.
enum Pattern {
    /// A regular expression that holds from the start of a name, as Python's `re.match`.
    Regex(Regex),
    /// With `*` for anything.
    Glob(Vec<String>),
    /// Parts of a name, between dots.
    Plain(String),
}

fn join(prefixes: &[&str], names: &[&str]) -> Vec<String> {
    let all = prefixes.iter().flat_map(|prefix| names.iter().map(move |name| (prefix, name)));
    all.map(|(prefix, name)| format!("{prefix}.{name}")).collect()
}

/// Names of what mixes in a layer.
fn of_mixer(mixer: &Mixer) -> Vec<Vec<String>> {
    let attention = ["self_attn", "mixer", "attn", "attention"];
    let parts: &[&[&str]] = match mixer {
        Mixer::Linear(_) => {
            let places = ["linear_attn", "mamba", "mixer", "conv", "self_attn"];
            let inputs = ["in_proj", "in_proj_qkvz", "in_proj_qkv", "in_proj_z", "q_proj"];
            return vec![join(&places, &inputs), join(&places, &["out_proj", "o_proj"])];
        }
        Mixer::Grouped(_) => &[
            &["q_proj", "qkv_proj", "Wqkv"],
            &["k_proj", "qkv_proj", "Wqkv"],
            &["v_proj", "qkv_proj", "Wqkv"],
            &["o_proj", "out_proj", "dense"],
        ],
        Mixer::Latent(_) | Mixer::Compressed(_) => &[
            &["q_a_proj", "fused_qkv_a_proj", "q_proj", "wq_a"],
            &["q_b_proj", "q_proj", "wq_b"],
            &["kv_a_proj_with_mqa", "fused_qkv_a_proj", "wkv"],
            &["kv_b_proj", "wkv"],
            &["o_proj", "wo_a", "wo_b"],
        ],
    };
    parts.iter().map(|names| join(&attention, names)).collect()
}

/// Names of what transforms in a layer, with their modules.
fn of_feed_forward(ffn: &FeedForward, moe: &str) -> Vec<(Module, Vec<String>)> {
    let gated: &[&[&str]] = &[
        &["gate_proj", "gate_up_proj", "w1", "w13", "fc1"],
        &["up_proj", "gate_up_proj", "w3", "w13", "fc1"],
        &["down_proj", "w2", "fc2"],
    ];
    let plain: &[&[&str]] = &[&["up_proj", "fc1", "c_fc"], &["down_proj", "fc2", "c_proj"]];
    let parts = |matrices: u32| if matrices == 3 { gated } else { plain };
    match ffn {
        FeedForward::Dense(dense) => {
            let places = ["mlp", "feed_forward", "mixer", "shared_mlp"];
            let parts = parts(dense.matrices).iter();
            parts.map(|names| (Module::Dense, join(&places, names))).collect()
        }
        FeedForward::Mixture(mixture) => {
            let places = [moe, if moe == "mlp" { "mixer" } else { "mlp" }];
            let places = if moe == "mlp" { &places[..] } else { &places[..1] };
            let within = |kinds: &[&str]| -> Vec<String> { join(places, kinds) };
            let names = |kinds: &[&str], names: &[&str]| -> Vec<String> {
                let within = within(kinds);
                join(&within.iter().map(String::as_str).collect::<Vec<_>>(), names)
            };
            let mut all = vec![(Module::Router, within(&["gate", "router"]))];
            for part in parts(mixture.matrices) {
                all.push((Module::Experts, names(&["experts.0", "experts"], part)));
                let shared = ["shared_experts", "shared_expert", "share_expert", "shared_mlp"];
                if mixture.shared > 0 {
                    all.push((Module::Shared, names(&shared, part)));
                }
            }
            all
        }
    }
}

impl Weights {
    /// Those of the layers of a model, the embedding and the output layer; `moe` is how names call
    /// a layer of experts.
    pub(super) fn of(layers: &[One], moe: &str) -> Weights {
        let mut weights = vec![
            Weight { module: Module::Embedding, names: vec!["embed_tokens".into()] },
            Weight { module: Module::Head, names: vec!["lm_head".into()] },
        ];
        for (at, (mixer, ffn)) in layers.iter().enumerate() {
            let mixer = mixer.iter().flat_map(of_mixer).map(|names| (Module::Attention, names));
            let ffn = ffn.iter().flat_map(|ffn| of_feed_forward(ffn, moe));
            for (module, names) in mixer.chain(ffn) {
                let names = names.iter().map(|name| format!("layers.{at}.{name}")).collect();
                weights.push(Weight { module, names });
            }
        }
        Weights { weights, layers: layers.len() }
    }

    /// None yet.
    pub fn none(&self) -> Named {
        Named { hit: vec![false; self.weights.len()] }
    }

    /// Adds what an entry names.
    ///
    /// # Errors
    /// Why it names nothing that is understood.
    pub fn add(&self, named: &mut Named, entry: &str) -> Result<(), String> {
        let pattern = Pattern::of(entry)?;
        let mut is_one = false;
        for (hit, weight) in named.hit.iter_mut().zip(&self.weights) {
            let is_hit = weight.names.iter().any(|name| pattern.is_of(name));
            *hit |= is_hit;
            is_one |= is_hit;
        }
        if is_one || self.is_uncounted(entry) {
            return Ok(());
        }
        Err(format!("{entry:?} names no weights that are understood"))
    }

    /// Whether an entry means what is not counted: norms, biases, encoders, layers after the last.
    fn is_uncounted(&self, entry: &str) -> bool {
        let plain = entry.trim_start_matches("re:");
        if plain.ends_with(".bias") {
            return true;
        }
        let mut words =
            plain.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let mut last = "";
        words.any(|word| {
            let number = word.parse::<usize>().ok();
            let is_beyond = last == "layers" && number.is_some_and(|at| at >= self.layers);
            last = word;
            is_beyond
                || UNCOUNTED.contains(&word)
                || word.ends_with("norm")
                || word.starts_with("vision")
                || word.starts_with("norm_")
                || word.starts_with("visual")
        })
    }

    /// Which modules are named as a whole, and which in part.
    pub fn modules(&self, named: &Named) -> [Vec<Module>; 2] {
        let mut found = [Vec::new(), Vec::new()];
        for module in Module::ALL {
            let of = self.weights.iter().zip(&named.hit).filter(|(one, _)| one.module == module);
            let (hit, all) =
                of.fold((0, 0), |(hit, all), (_, is)| (hit + usize::from(*is), all + 1));
            if hit > 0 {
                found[usize::from(hit < all)].push(module);
            }
        }
        found
    }
}

impl Pattern {
    fn of(entry: &str) -> Result<Pattern, String> {
        if entry.len() > PATTERN_MAX {
            return Err(format!("a pattern of {} bytes: it is {PATTERN_MAX} at most", entry.len()));
        }
        if let Some(pattern) = entry.strip_prefix("re:") {
            let regex =
                regex::RegexBuilder::new(&format!("^(?:{pattern})")).size_limit(1 << 20).build();
            let why = || format!("{entry:?} is no regular expression that is understood");
            return regex.map(Pattern::Regex).map_err(|_| why());
        }
        let plain = PREFIXES.iter().find_map(|prefix| entry.strip_prefix(prefix)).unwrap_or(entry);
        if plain.contains('*') {
            return Ok(Pattern::Glob(plain.split('*').map(str::to_owned).collect()));
        }
        Ok(Pattern::Plain(plain.trim_end_matches('.').to_owned()))
    }

    /// Whether it means a weight of this name, which begins with `layers.` or is of no layer.
    fn is_of(&self, name: &str) -> bool {
        match self {
            Pattern::Regex(regex) => {
                ["", "model.", "model.language_model.", "language_model.model."]
                    .iter()
                    .any(|prefix| regex.is_match(&format!("{prefix}{name}")))
            }
            Pattern::Plain(plain) => format!(".{name}.").contains(&format!(".{plain}.")),
            Pattern::Glob(parts) => {
                // A longer name than the pattern is a part of what the pattern names.
                glob(parts, name)
                    || (parts.last().is_some_and(|last| !last.is_empty())
                        && glob(
                            &[parts.as_slice(), &[String::new()]].concat(),
                            &format!("{name}."),
                        )
                        && name.contains(parts.last().map_or("", String::as_str)))
            }
        }
    }
}

/// Whether pieces between `*` make up a text.
fn glob(parts: &[String], text: &str) -> bool {
    let [first, middle @ .., last] = parts else { return parts.iter().any(|one| one == text) };
    let Some(mut rest) = text.strip_prefix(first.as_str()) else { return false };
    for part in middle {
        match rest.find(part.as_str()) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last.as_str())
}

/// The modules that a list of names in a table means. Those of `indifferent` may be named in part:
/// they are stored alike in any case.
///
/// # Errors
/// Every entry that names nothing that is understood, at once; a list that names a part of a kind
/// of weights.
pub fn listed(
    table: &Fields<'_>,
    list: &str,
    entries: &[&str],
    weights: &Weights,
    indifferent: &[Module],
) -> Result<Vec<Module>, ConfigError> {
    let mut named = weights.none();
    let wrong = entries.iter().filter_map(|entry| weights.add(&mut named, entry).err());
    let wrong: Vec<_> = wrong.collect();
    if !wrong.is_empty() {
        let shown = wrong.iter().take(8).cloned().collect::<Vec<_>>().join("; ");
        let more = match wrong.len() {
            0..=8 => String::new(),
            all => format!(", and {} more", all - 8),
        };
        return Err(table.refuse(list, format!("{shown}{more}. {STATE}")));
    }
    let [whole, part] = weights.modules(&named);
    match part.iter().find(|module| !indifferent.contains(module)) {
        None => Ok(whole),
        Some(module) => {
            let name = module.name();
            let why = format!(
                "it names a part of the weights of {name}, and parts of one kind are not told \
                 apart. {STATE}"
            );
            Err(table.refuse(list, why))
        }
    }
}

/// What to do where a quantisation is not understood.
pub const STATE: &str = "Take quantization_config out of the file, and state with --precision how \
                         weights are stored";
