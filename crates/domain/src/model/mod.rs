//! Language models as hardware sees them: parameters, bytes of the KV cache, operations of a token.
//!
//! A [`Model`] is read from a Hugging Face `config.json`, or from `data/models`, whose files hold
//! the same fields. Counts are `f64`: whole numbers up to 2^53 are exact, and no product of what a
//! file says can overflow. Norms, sinks and biases of experts are left out: together they are below
//! 0.1 % of every model in `data/models`.

mod attention;
pub mod checkpoint;
pub mod config;
mod experts;
pub mod family;
mod feed_forward;
mod fields;
pub mod file;
pub mod format;
mod json;
mod linear;
mod mixer;
mod names;
mod precision;
mod quantisation;

pub use config::ConfigError;
pub use feed_forward::{Dense, FeedForward, Mixture};
pub use format::Format;
pub use mixer::{Compressed, Grouped, Indexer, Latent, Linear, Mixer, Reach};
pub use precision::Precision;

/// A language model.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// As `data/models` or the file's path has it.
    pub name: String,
    /// Width of the residual stream.
    pub hidden: u32,
    /// Rows of the embedding.
    pub vocabulary: u32,
    /// Whether the output layer is the embedding.
    pub is_tied: bool,
    /// The longest context that the configuration states, in tokens.
    pub context: Option<u64>,
    /// Layers, those that are alike counted together, in the order of their first.
    pub layers: Vec<Layers>,
    /// How each kind of weight is stored.
    pub precision: Precision,
    /// How the configuration says that keys and values are stored; none where it does not.
    pub kv: Option<Format>,
    /// What was left out or simplified, in words.
    pub notes: Vec<String>,
}

/// Layers that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Layers {
    /// How many.
    pub count: u32,
    /// What mixes tokens; none where a layer only transforms each token.
    pub mixer: Option<Mixer>,
    /// What transforms each token; none where a layer only mixes.
    pub feed_forward: Option<FeedForward>,
}

/// Which weights: each kind may be stored in its own format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Module {
    /// Projections of attention and of linear attention.
    Attention,
    /// Feed-forward layers that every token takes.
    Dense,
    /// Experts that tokens are routed to.
    Experts,
    /// Experts that every token takes.
    Shared,
    /// What routes tokens.
    Router,
    /// The embedding.
    Embedding,
    /// The output layer.
    Head,
}

named!(Module {
    Attention => "attention", Dense => "dense", Experts => "experts", Shared => "shared",
    Router => "router", Embedding => "embedding", Head => "head",
});

/// A number of a configuration, exactly.
pub(crate) fn of(number: u32) -> f64 {
    f64::from(number)
}

impl Layers {
    /// Parameters of one of these layers that are of a module.
    fn parameters(&self, module: Module, hidden: f64) -> f64 {
        let ffn = self.feed_forward.as_ref();
        match module {
            Module::Attention => self.mixer.as_ref().map_or(0.0, |mixer| mixer.parameters(hidden)),
            Module::Embedding | Module::Head => 0.0,
            module => ffn.map_or(0.0, |ffn| ffn.parameters(module, hidden)),
        }
    }

    /// Those of them that one token is multiplied with.
    fn active(&self, module: Module, hidden: f64) -> f64 {
        let share = match (&self.feed_forward, module) {
            (Some(FeedForward::Mixture(mixture)), Module::Experts) => {
                of(mixture.chosen) / of(mixture.experts)
            }
            _ => 1.0,
        };
        self.parameters(module, hidden) * share
    }
}

impl Model {
    /// Parameters of a module.
    pub fn parameters(&self, module: Module) -> f64 {
        let (hidden, vocabulary) = (of(self.hidden), of(self.vocabulary));
        match module {
            Module::Embedding => hidden * vocabulary,
            Module::Head if self.is_tied => 0.0,
            Module::Head => hidden * vocabulary,
            module => self.sum(|layers| layers.parameters(module, hidden)),
        }
    }

    /// All parameters.
    pub fn total(&self) -> f64 {
        Module::ALL.iter().map(|module| self.parameters(*module)).sum()
    }

    /// Parameters that one token is multiplied with: attention, shared and chosen experts, routers
    /// and the output layer. The embedding is a gather of one row.
    pub fn active(&self) -> f64 {
        let hidden = of(self.hidden);
        let layers =
            [Module::Attention, Module::Dense, Module::Experts, Module::Shared, Module::Router];
        let inner: f64 =
            layers.iter().map(|&module| self.sum(|layer| layer.active(module, hidden))).sum();
        inner + hidden * of(self.vocabulary)
    }

    /// Bytes of all weights as they are stored.
    pub fn weight_bytes(&self) -> f64 {
        let bytes = |module: &Module| self.parameters(*module) * self.precision.of(*module).bytes();
        Module::ALL.iter().map(bytes).sum()
    }

    /// Bytes of KV cache and states that one sequence of `tokens` tokens holds, on one device that
    /// has all of it.
    pub fn kv_bytes(&self, tokens: f64, kv: Format) -> f64 {
        let held = |layers: &Layers| layers.mixer.as_ref().map_or(0.0, |m| m.held(tokens, kv));
        self.sum(held)
    }

    /// Bytes that one token more adds to the KV cache of a sequence that is longer than every
    /// window.
    pub fn kv_bytes_per_token(&self, kv: Format) -> f64 {
        let far = 1e9;
        // Differences of whole numbers below 2^53 are exact; ratios of compression divide 10^9
        // unevenly, so that the slope is taken over a multiple of all of them.
        let step = 1024.0;
        (self.kv_bytes(far + step, kv) - self.kv_bytes(far, kv)) / step
    }

    /// How keys and values are stored: as asked, else as the configuration states, else in 16 bits.
    pub fn kv_format(&self, asked: Option<Format>) -> Format {
        asked.or(self.kv).unwrap_or(config::KV_DEFAULT)
    }

    /// Layers in all.
    pub fn layer_count(&self) -> u32 {
        self.layers.iter().map(|layers| layers.count).sum()
    }

    /// The mixtures among its layers.
    pub fn mixtures(&self) -> impl Iterator<Item = &Mixture> {
        self.layers.iter().filter_map(|layers| match &layers.feed_forward {
            Some(FeedForward::Mixture(mixture)) => Some(mixture),
            _ => None,
        })
    }

    fn sum(&self, of_layer: impl Fn(&Layers) -> f64) -> f64 {
        self.layers.iter().map(|layers| of(layers.count) * of_layer(layers)).sum()
    }
}
