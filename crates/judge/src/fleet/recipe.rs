//! Recipes of planted fleets: how healthy GPUs differ, how repeats scatter, which faults there are.

use serde::{Deserialize, Serialize};

/// What a fleet is made of, as the TOML file of `fizeau fleet simulate` has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// GPUs of a node.
    pub gpus_per_node: usize,
    /// Nodes below a leaf switch.
    pub nodes_per_leaf: usize,
    /// Nodes of a rack.
    pub nodes_per_rack: usize,
    /// Repeats of each metric.
    pub repeats: usize,
    /// Share of GPUs with a fault.
    pub faulty: f64,
    /// Share of nodes that send nothing.
    #[serde(default)]
    pub missing_nodes: f64,
    /// Lots; each is a stratum.
    #[serde(rename = "lot")]
    pub lots: Vec<Lot>,
    /// What slows down repeats of whole nodes.
    pub neighbour: Neighbour,
    /// How repeats scatter.
    pub noise: Noise,
    /// What is measured.
    #[serde(rename = "metric")]
    pub metrics: Vec<Metric>,
    /// What is planted.
    #[serde(default, rename = "fault")]
    pub faults: Vec<Fault>,
    /// A component that is slow as a whole, if any.
    #[serde(default)]
    pub component: Option<Component>,
}

/// GPUs of one part, firmware and driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lot {
    /// Its name.
    pub name: String,
    /// Its share of the nodes.
    pub share: f64,
    /// What all of its GPUs lose.
    #[serde(default)]
    pub loss: f64,
}

/// Other users of what GPUs share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Neighbour {
    /// Share of a node's repeats, or of nodes where it is `whole_session`.
    pub share: f64,
    /// What it costs: least and most.
    pub loss: [f64; 2],
    /// What it slows down.
    pub metrics: Vec<String>,
    /// Whether it is there for all repeats of a node, and gone when the node is measured anew.
    #[serde(default)]
    pub whole_session: bool,
}

/// The shape of noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Normal.
    Normal,
    /// Student's t with 3 degrees of freedom, of the same standard deviation.
    HeavyTails,
    /// Half of the GPUs are slower by a part of the least effect.
    TwoHumps,
    /// Each repeat is slower than the one before by a part of the least effect.
    Drift,
}

/// How repeats scatter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// Its shape.
    pub shape: Shape,
    /// Share of the repeats' variance that GPUs of a node have in common.
    #[serde(default)]
    pub within_node: f64,
    /// How far both humps are apart, as a share of the least effect.
    #[serde(default)]
    pub hump: f64,
    /// How far a repeat is from the one before, as a share of the least effect.
    #[serde(default)]
    pub drift: f64,
}

/// A metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// The least loss that counts.
    pub least_effect: f64,
    /// What a healthy GPU reaches, as a share of the peak.
    pub nominal: f64,
    /// Standard deviation of GPUs.
    pub gpu: f64,
    /// How much longer the tail of GPUs to the slow side is.
    pub skew: f64,
    /// Standard deviation of nodes.
    pub node: f64,
    /// Standard deviation of repeats.
    pub repeat: f64,
}

/// A fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Its name.
    pub name: String,
    /// The metrics that it slows down.
    pub metrics: Vec<String>,
    /// What it costs: least and most.
    pub loss: [f64; 2],
}

/// A component that is slow as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Component {
    /// `leaf`, `rack` or `rail`.
    pub kind: String,
    /// The metrics that it slows down.
    pub metrics: Vec<String>,
    /// What it costs each of its GPUs.
    pub loss: f64,
}

/// Why a recipe is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RecipeError {
    /// It is not in the form of a recipe.
    #[error("{0}")]
    Toml(String),
    /// A number is out of its range.
    #[error("{name} is {value}: it has to be {range}")]
    Range {
        /// Which.
        name: String,
        /// What it is.
        value: f64,
        /// What it may be.
        range: &'static str,
    },
    /// A fault, neighbour or component slows down a metric that there is none of.
    #[error("{name} slows down {metric:?}, which is no metric of this recipe")]
    NoMetric {
        /// Whose.
        name: String,
        /// The metric.
        metric: String,
    },
    /// A component of an unknown kind.
    #[error("the component's kind is {0:?}: it has to be leaf, rack or rail")]
    Kind(String),
    /// Nothing to measure.
    #[error("it has no {0}")]
    Empty(&'static str),
}

/// Most GPUs of a node, nodes of a component, or repeats.
const COUNT_MAX: usize = 10_000;

impl Recipe {
    /// Reads one.
    ///
    /// # Errors
    /// Where it is not in the form of a recipe, or a number is out of its range.
    pub fn parse(text: &str) -> Result<Recipe, RecipeError> {
        let recipe: Recipe =
            toml::from_str(text).map_err(|error| RecipeError::Toml(error.to_string()))?;
        recipe.check()?;
        Ok(recipe)
    }

    fn check(&self) -> Result<(), RecipeError> {
        if self.metrics.is_empty() {
            return Err(RecipeError::Empty("[[metric]]"));
        }
        if self.lots.is_empty() {
            return Err(RecipeError::Empty("[[lot]]"));
        }
        let count = |name: &str, value: usize| range(name, value as f64, [1.0, COUNT_MAX as f64]);
        count("gpus_per_node", self.gpus_per_node)?;
        count("nodes_per_leaf", self.nodes_per_leaf)?;
        count("nodes_per_rack", self.nodes_per_rack)?;
        count("repeats", self.repeats)?;
        share("faulty", self.faulty)?;
        share("missing_nodes", self.missing_nodes)?;
        share("neighbour.share", self.neighbour.share)?;
        share("noise.within_node", self.noise.within_node)?;
        share("noise.hump", self.noise.hump)?;
        share("noise.drift", self.noise.drift)?;
        for lot in &self.lots {
            share(&format!("lot {:?}: share", lot.name), lot.share)?;
            loss(&format!("lot {:?}: loss", lot.name), lot.loss)?;
        }
        for metric in &self.metrics {
            let Metric { name, least_effect, nominal, gpu, skew, node, repeat } = metric;
            let named = |field: &str| format!("metric {name:?}: {field}");
            range(&named("least_effect"), *least_effect, [1e-4, 0.4])?;
            range(&named("nominal"), *nominal, [1e-3, 1.0])?;
            range(&named("skew"), *skew, [0.0, 10.0])?;
            for (field, value) in [("gpu", gpu), ("node", node), ("repeat", repeat)] {
                range(&named(field), *value, [0.0, 0.2])?;
            }
        }
        let slowed = self.faults.iter().map(|one| (&one.name, &one.metrics, one.loss));
        let neighbour = ("neighbour".to_owned(), "component".to_owned());
        let by_neighbour = [(&neighbour.0, &self.neighbour.metrics, self.neighbour.loss)];
        let by_component = self.component.iter();
        let by_component =
            by_component.map(|one| (&neighbour.1, &one.metrics, [one.loss, one.loss]));
        for (name, metrics, [least, most]) in slowed.chain(by_neighbour).chain(by_component) {
            loss(&format!("{name}: loss"), least)?;
            loss(&format!("{name}: loss"), most)?;
            for metric in metrics {
                if !self.metrics.iter().any(|one| &one.name == metric) {
                    let (name, metric) = (name.clone(), metric.clone());
                    return Err(RecipeError::NoMetric { name, metric });
                }
            }
        }
        match &self.component {
            Some(one) if !["leaf", "rack", "rail"].contains(&one.kind.as_str()) => {
                Err(RecipeError::Kind(one.kind.clone()))
            }
            _ => Ok(()),
        }
    }
}

fn range(name: &str, value: f64, [least, most]: [f64; 2]) -> Result<(), RecipeError> {
    match value.is_finite() && (least..=most).contains(&value) {
        true => Ok(()),
        false => Err(RecipeError::Range {
            name: name.into(),
            value,
            range: match (least, most) {
                (0.0, 1.0) => "from 0 to 1",
                (0.0, 0.9) => "from 0 to 0.9",
                (1.0, _) => "from 1 to 10000",
                (0.0, 10.0) => "from 0 to 10",
                (0.0, _) => "from 0 to 0.2",
                (_, 1.0) => "from 0.001 to 1",
                _ => "from 0.0001 to 0.4",
            },
        }),
    }
}

fn share(name: &str, value: f64) -> Result<(), RecipeError> {
    range(name, value, [0.0, 1.0])
}

fn loss(name: &str, value: f64) -> Result<(), RecipeError> {
    range(name, value, [0.0, 0.9])
}
