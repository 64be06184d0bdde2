//! Distributions of times: which share of requests, or of tokens, came within which time.

use super::Named;
use crate::{Axis, Block, Chart, Quantity, Series, SeriesKind};
use fizeau_domain::stats::quantile;
use fizeau_projection::load::Level;

/// Points of a curve, evenly spread over the shares.
const POINTS: usize = 200;

/// A curve needs this many values.
const VALUES_MIN: usize = 20;

/// The most levels in one chart: the first, the last and some between them.
const CURVES_MAX: usize = 7;

/// Charts of TTFT and ITL, where requests are known one by one.
pub fn blocks(named: &[Named<'_>]) -> Vec<Block> {
    let firsts =
        |level: &Level| -> Vec<f64> { level.requests.iter().filter_map(|one| one.ttft).collect() };
    let gaps = |level: &Level| -> Vec<f64> {
        let unchunked = level.requests.iter().filter(|one| !one.is_chunked);
        unchunked.flat_map(|one| one.gaps.iter().copied()).collect()
    };
    let charts = [
        chart(named, "ttft_distribution", "Time to the first token", "requests", &firsts),
        chart(named, "itl_distribution", "Time between tokens", "gaps", &gaps),
    ];
    let mut blocks: Vec<Block> = charts.into_iter().flatten().map(Block::Chart).collect();
    if !blocks.is_empty() {
        blocks.insert(0, Block::Heading("Distributions".into()));
    }
    blocks
}

fn chart(
    named: &[Named<'_>],
    name: &str,
    title: &str,
    of: &str,
    values: &dyn Fn(&Level) -> Vec<f64>,
) -> Option<Chart> {
    let step = named.len().div_ceil(CURVES_MAX).max(1);
    let series: Vec<Series> = named
        .iter()
        .step_by(step)
        .map(|one| (one, values(one.level)))
        .filter(|(_, values)| values.len() >= VALUES_MIN)
        .map(|(one, values)| {
            let sorted = quantile::sorted(&values);
            let count = POINTS.min(sorted.len());
            let share = |at: usize| (at + 1) as f64 / count as f64;
            let points = (0..count)
                .map(|at| (quantile::quantile(&sorted, share(at)), share(at)))
                .filter(|(time, _)| *time > 0.0)
                .collect();
            Series::new(one.name.clone(), SeriesKind::Curve, points)
        })
        .filter(|series| series.points.len() > 1)
        .collect();
    (!series.is_empty()).then(|| Chart {
        name: name.into(),
        title: format!("{title}: distribution"),
        caption: format!("The share of {of} that took no longer than the time below."),
        x: Axis::logarithmic("Time", Quantity::Time),
        y: Axis::linear(format!("Share of {of}"), Quantity::Number),
        series,
        marks: Vec::new(),
    })
}
