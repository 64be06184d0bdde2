//! Quantiles by R-7: linear between order statistics (Hyndman and Fan 1996), as NumPy and R do.

/// The quantile `at` (0..=1) of ascending values.
///
/// # Panics
///
/// Where `sorted` is empty.
pub fn quantile(sorted: &[f64], at: f64) -> f64 {
    let position = at.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    let between = sorted[below] + (position - below as f64) * (sorted[above] - sorted[below]);
    // Rounding must not carry it beyond its neighbours: quantiles rise with `at`.
    between.clamp(sorted[below], sorted[above])
}

/// Ascending.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

/// The median of values in any order.
///
/// # Panics
///
/// Where there are none.
pub fn median(values: &[f64]) -> f64 {
    quantile(&sorted(values), 0.5)
}

/// The median absolute deviation from the median.
///
/// # Panics
///
/// Where there are no values.
pub fn median_absolute_deviation(values: &[f64]) -> f64 {
    let centre = median(values);
    let distances: Vec<f64> = values.iter().map(|value| (value - centre).abs()).collect();
    median(&distances)
}
