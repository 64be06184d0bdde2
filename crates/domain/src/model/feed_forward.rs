//! Feed-forward layers: dense ones, and mixtures of experts.

use super::{Module, of};

/// What transforms each token by itself.
#[derive(Clone, Debug, PartialEq)]
pub enum FeedForward {
    /// One for all tokens.
    Dense(Dense),
    /// Experts, of which each token takes some.
    Mixture(Mixture),
}

/// A feed-forward layer that every token takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dense {
    /// Its inner width.
    pub inner: u32,
    /// 3 with a gate (SwiGLU), 2 without.
    pub matrices: u32,
}

/// A mixture of experts.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixture {
    /// Experts that tokens are routed to.
    pub experts: u32,
    /// Those that each token takes.
    pub chosen: u32,
    /// Inner width of one.
    pub inner: u32,
    /// 3 with a gate, 2 without.
    pub matrices: u32,
    /// Inner width of the experts that every token takes, together; 0 where there are none.
    pub shared: u32,
    /// Whether a gate of `hidden` weights scales the shared expert.
    pub shared_gate: bool,
    /// Width that tokens are projected to before the experts, and back from after them.
    pub latent: Option<u32>,
}

impl FeedForward {
    /// Parameters of a module.
    pub fn parameters(&self, module: Module, hidden: f64) -> f64 {
        match (self, module) {
            (FeedForward::Dense(dense), Module::Dense) => {
                of(dense.matrices) * hidden * of(dense.inner)
            }
            (FeedForward::Mixture(mixture), module) => mixture.parameters(module, hidden),
            _ => 0.0,
        }
    }
}

impl Mixture {
    /// What experts read and write: the latent width where there is one.
    pub fn width(&self, hidden: f64) -> f64 {
        self.latent.map_or(hidden, of)
    }

    /// Parameters of one expert.
    pub fn expert(&self, hidden: f64) -> f64 {
        of(self.matrices) * self.width(hidden) * of(self.inner)
    }

    fn parameters(&self, module: Module, hidden: f64) -> f64 {
        match module {
            Module::Experts => of(self.experts) * self.expert(hidden),
            Module::Shared => {
                let gate = if self.shared_gate { hidden } else { 0.0 };
                let latent = self.latent.map_or(0.0, |latent| 2.0 * hidden * of(latent));
                of(self.matrices) * hidden * of(self.shared) + gate + latent
            }
            Module::Router => hidden * of(self.experts),
            _ => 0.0,
        }
    }

    /// Experts that `tokens` tokens touch on average where each takes its own by chance:
    /// E (1 - (1 - k/E)^T). Routing that agrees touches fewer.
    pub fn touched_by_chance(&self, tokens: f64) -> f64 {
        let experts = of(self.experts);
        experts * (1.0 - (1.0 - of(self.chosen) / experts).powf(tokens.max(1.0)))
    }

    /// The fewest experts that any number of tokens touches: all agree.
    pub fn touched_at_least(&self) -> f64 {
        of(self.chosen)
    }

    /// Experts that each of `ranks` devices holds. Where that many do not divide all experts, each
    /// holds the next larger number, and some experts are held twice: 4 of 256 on 72 devices, 288
    /// places in all.
    pub fn held_by(&self, ranks: u32) -> f64 {
        of(self.experts.div_ceil(ranks.max(1)))
    }

    /// The fewest other ranks that a token is sent to, where experts are spread over `ranks`.
    pub fn remote_at_least(&self, ranks: u32) -> f64 {
        ((of(self.chosen) / self.held_by(ranks)).ceil() - 1.0).max(0.0)
    }

    /// Other ranks that a token is sent to on average where it takes its experts by chance:
    /// R (1 - prod_{j<k} (E - E/R - j) / (E - j)) (R - 1) / R.
    pub fn remote_by_chance(&self, ranks: u32) -> f64 {
        let (experts, ranks) = (of(self.experts), of(ranks));
        let missed = |j: f64| ((experts - experts / ranks - j) / (experts - j)).max(0.0);
        let missed: f64 = (0..self.chosen).map(|j| missed(of(j))).product();
        (1.0 - missed) * (ranks - 1.0)
    }
}
