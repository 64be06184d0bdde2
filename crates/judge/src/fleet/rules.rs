//! Rules that are in use to find slow GPUs, beside ours, so that an operator sees what each costs.
//!
//! Each gets the same repeats. A rule that uses one repeat in practice gets the first.

use super::{Group, recipe::Recipe};
use fizeau_domain::stats::{
    quantile::{median, median_absolute_deviation},
    student::mean_and_variance,
};
use std::collections::HashMap;

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Below this share of the nominal rate, in percent, by one repeat.
    Floor(u32),
    /// More than 5 % below the mean of the lot, by one repeat.
    MeanOnce,
    /// The same by the median of the repeats.
    Mean,
    /// More than three standard deviations below the mean of the lot, by the median of the repeats.
    ThreeSigma,
    /// More than 5 % below the mean of the GPUs of its node, by the median of the repeats.
    NodeMean,
    /// More than 3.5 robust standard deviations (by the median absolute deviation) below the median
    /// of the lot.
    RobustZ,
    /// That of this module.
    Ours,
    /// That of this module, for any dependence between GPUs.
    OursAny,
    /// That of this module, with a retest of what failed.
    OursRetested,
}

impl Rule {
    /// All of them.
    pub const ALL: [Rule; 10] = [
        Rule::Floor(90),
        Rule::Floor(95),
        Rule::MeanOnce,
        Rule::Mean,
        Rule::ThreeSigma,
        Rule::NodeMean,
        Rule::RobustZ,
        Rule::Ours,
        Rule::OursAny,
        Rule::OursRetested,
    ];

    /// In words.
    pub fn words(self) -> String {
        match self {
            Rule::Floor(share) => format!("floor at {share} % of nominal, one repeat"),
            Rule::MeanOnce => "lot's mean - 5 %, one repeat".into(),
            Rule::Mean => "lot's mean - 5 %, median of repeats".into(),
            Rule::ThreeSigma => "lot's mean - 3 sigma, median of repeats".into(),
            Rule::NodeMean => "node's mean - 5 %, median of repeats".into(),
            Rule::RobustZ => "median and MAD, z < -3.5".into(),
            Rule::Ours => "**fleet**, Benjamini-Hochberg".into(),
            Rule::OursAny => "**fleet**, Benjamini-Yekutieli".into(),
            Rule::OursRetested => "**fleet**, after the retest".into(),
        }
    }

    /// Whether the rule is one of those in use.
    pub fn is_in_use(self) -> bool {
        !matches!(self, Rule::Ours | Rule::OursAny | Rule::OursRetested)
    }
}

/// A loss of 5 %, as a logarithm.
const FIVE_PERCENT: f64 = -0.051_293_294_387_550_58;

/// Standard deviation of normal values over their median absolute deviation.
const NORMAL_MAD: f64 = 1.4826;

/// The rows of a group that a rule in use fails.
pub fn failed(rule: Rule, group: &Group, recipe: &Recipe, nodes: &[u32]) -> Vec<bool> {
    let once: Vec<f64> = group.rows().map(|values| values[0]).collect();
    let medians: Vec<f64> = group.rows().map(median).collect();
    if medians.is_empty() {
        return Vec::new();
    }
    let below = |values: &[f64], bar: f64| values.iter().map(|value| *value < bar).collect();
    let rates: Vec<f64> = medians.iter().map(|log| log.exp()).collect();
    let (mean, variance) = mean_and_variance(&rates);
    match rule {
        Rule::Floor(share) => {
            let metric = recipe.metrics.iter().find(|one| one.name == group.metric);
            let nominal = metric.map_or(1.0, |metric| metric.nominal);
            below(&once, (nominal * f64::from(share) / 100.0).ln())
        }
        Rule::MeanOnce => {
            let rates: Vec<f64> = once.iter().map(|log| log.exp()).collect();
            below(&once, mean_and_variance(&rates).0.ln() + FIVE_PERCENT)
        }
        Rule::Mean => below(&medians, mean.ln() + FIVE_PERCENT),
        Rule::ThreeSigma => below(&rates, mean - 3.0 * variance.value.sqrt()),
        Rule::NodeMean => {
            let mut of_nodes: HashMap<u32, (f64, usize)> = HashMap::new();
            for (gpu, rate) in group.gpus().iter().zip(&rates) {
                let (sum, count) = of_nodes.entry(nodes[*gpu as usize]).or_default();
                *sum += rate;
                *count += 1;
            }
            let bar = |gpu: &u32| {
                let (sum, count) = of_nodes[&nodes[*gpu as usize]];
                (sum / count as f64).ln() + FIVE_PERCENT
            };
            group.gpus().iter().zip(&medians).map(|(gpu, log)| *log < bar(gpu)).collect()
        }
        Rule::RobustZ => {
            let spread = NORMAL_MAD * median_absolute_deviation(&medians);
            below(&medians, median(&medians) - 3.5 * spread)
        }
        Rule::Ours | Rule::OursAny | Rule::OursRetested => vec![false; medians.len()],
    }
}
