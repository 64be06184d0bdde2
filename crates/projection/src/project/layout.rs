//! How a model is spread over devices.

use fizeau_domain::model::{FeedForward, Mixer, Model};
use std::fmt;

/// The most devices of a layout.
pub const DEVICES_MAX: u32 = 4096;

/// How a model is spread over devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Copies of the model, which share the requests.
    pub replicas: u32,
    /// How one copy is spread.
    pub split: Split,
}

/// How one copy of a model is spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Every layer is cut by heads and inner widths; each device sees every token (`tp8`).
    Tensor(u32),
    /// Experts are dealt out; all else is copied, and each device has its own sequences (`ep8`).
    /// Where devices do not divide the experts, some experts are there twice
    /// (`Mixture::held_by`).
    Expert(u32),
    /// Each device does its even share of everything, and sends nothing: no layout is faster. For
    /// claims that do not state one.
    Even(u32),
    /// Layers are dealt out to stages one after the other, and within a stage every layer is cut
    /// as by [`Split::Tensor`] (`pp4`, `tp2pp4`). As many groups of sequences are under way as
    /// there are stages, so that all stages work at once.
    Pipeline {
        /// Devices of a stage.
        tensor: u32,
        /// Stages, 2 at least.
        stages: u32,
    },
}

impl Split {
    /// Devices of one copy.
    pub fn devices(self) -> u32 {
        match self {
            Split::Tensor(n) | Split::Expert(n) | Split::Even(n) => n,
            Split::Pipeline { tensor, stages } => tensor * stages,
        }
    }

    /// Devices that work on one layer together: all of them but in a pipeline.
    pub fn group(self) -> u32 {
        match self {
            Split::Tensor(n) | Split::Expert(n) | Split::Even(n) => n,
            Split::Pipeline { tensor, .. } => tensor,
        }
    }

    /// Stages that layers are dealt out to: 1 but in a pipeline.
    pub fn stages(self) -> u32 {
        match self {
            Split::Pipeline { stages, .. } => stages,
            Split::Tensor(_) | Split::Expert(_) | Split::Even(_) => 1,
        }
    }

    /// Prompts that a copy reads at once when it does nothing else: one for each device that has
    /// sequences of its own, one for each stage.
    pub fn prompts(self) -> u32 {
        match self {
            Split::Tensor(_) | Split::Even(_) => 1,
            Split::Expert(n) => n,
            Split::Pipeline { stages, .. } => stages,
        }
    }

    /// Of the layers, the share that the stage with the most has, relative to an even division: 1
    /// where the stages divide them.
    pub fn pace(self, layers: u32) -> f64 {
        let stages = self.stages();
        let most = layers.div_ceil(stages) * stages;
        f64::from(most) / f64::from(layers.max(1))
    }
}

impl Layout {
    /// Devices in all.
    pub fn devices(&self) -> u32 {
        self.replicas * self.split.devices()
    }

    /// Whether a model can be spread so.
    ///
    /// # Errors
    /// In words: what it does not divide.
    pub fn check(&self, model: &Model) -> Result<(), String> {
        match self.split {
            Split::Even(_) => Ok(()),
            Split::Expert(n) => check_expert(model, n),
            Split::Tensor(n) => check_tensor(model, n),
            Split::Pipeline { tensor, stages } => {
                check_tensor(model, tensor).and_then(|()| check_stages(model, stages))
            }
        }
        .map_err(|why| format!("{self} does not fit {}: {why}", model.name))
    }
}

fn check_expert(model: &Model, n: u32) -> Result<(), String> {
    if n == 1 {
        return Ok(());
    }
    // Devices that do not divide the experts hold some of them twice: `Mixture::held_by`.
    match model.mixtures().next() {
        None => Err("it has no experts to deal out; use tp or copies".into()),
        Some(_) => Ok(()),
    }
}

fn check_stages(model: &Model, stages: u32) -> Result<(), String> {
    let layers = model.layer_count();
    match stages > layers {
        true => Err(format!("{stages} stages are more than its {layers} layers")),
        false => Ok(()),
    }
}

fn check_tensor(model: &Model, n: u32) -> Result<(), String> {
    for layers in &model.layers {
        let heads = layers.mixer.as_ref().map_or(n, Mixer::heads);
        if !heads.is_multiple_of(n) {
            return Err(format!("{n} devices do not divide its {heads} heads"));
        }
        if let Some(Mixer::Grouped(mixer)) = &layers.mixer
            && !mixer.kv_heads.is_multiple_of(n)
            && !n.is_multiple_of(mixer.kv_heads)
        {
            let kv = mixer.kv_heads;
            return Err(format!("{n} devices neither divide its {kv} key heads nor the reverse"));
        }
        let widths = match &layers.feed_forward {
            None => [0, 0],
            Some(FeedForward::Dense(dense)) => [dense.inner, 0],
            Some(FeedForward::Mixture(mixture)) => [mixture.inner, mixture.shared],
        };
        if let Some(width) = widths.iter().find(|width| !width.is_multiple_of(n)) {
            return Err(format!("{n} devices do not divide its inner width of {width}"));
        }
    }
    Ok(())
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.replicas > 1 {
            write!(f, "{}x", self.replicas)?;
        }
        match self.split {
            Split::Tensor(n) => write!(f, "tp{n}"),
            Split::Expert(n) => write!(f, "ep{n}"),
            Split::Even(n) => write!(f, "even{n}"),
            Split::Pipeline { tensor: 1, stages } => write!(f, "pp{stages}"),
            Split::Pipeline { tensor, stages } => write!(f, "tp{tensor}pp{stages}"),
        }
    }
}

impl std::str::FromStr for Layout {
    type Err = String;
    fn from_str(text: &str) -> Result<Layout, String> {
        let refuse = || {
            format!(
                "{text:?} is no layout: tp8 (tensor parallel), ep8 (experts dealt out, attention \
                 data-parallel), pp4 (a pipeline of stages), tp2pp4 (both), 2xtp4 (two copies); \
                 {DEVICES_MAX} devices at most"
            )
        };
        let lower = text.to_ascii_lowercase();
        let (replicas, split) = match lower.split_once('x') {
            Some((replicas, split)) => (replicas.parse().map_err(|_| refuse())?, split),
            None => (1, &*lower),
        };
        let number = |text: &str| {
            let number = text.parse::<u32>().ok();
            number.filter(|n| (1..=DEVICES_MAX).contains(n)).ok_or_else(refuse)
        };
        let split = match (split.strip_prefix("tp"), split.strip_prefix("ep")) {
            (_, Some(n)) => Split::Expert(number(n)?),
            (Some(n), _) => match n.split_once("pp") {
                Some((tensor, stages)) => pipeline(number(tensor)?, number(stages)?),
                None => Split::Tensor(number(n)?),
            },
            _ => pipeline(1, number(split.strip_prefix("pp").ok_or_else(refuse)?)?),
        };
        let layout = Layout { replicas, split };
        let devices = u64::from(replicas) * u64::from(split.devices());
        if replicas == 0 || devices > u64::from(DEVICES_MAX) { Err(refuse()) } else { Ok(layout) }
    }
}

/// One stage is no pipeline.
fn pipeline(tensor: u32, stages: u32) -> Split {
    if stages == 1 { Split::Tensor(tensor) } else { Split::Pipeline { tensor, stages } }
}
