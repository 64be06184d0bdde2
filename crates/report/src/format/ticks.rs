//! Where the numbers of an axis stand.

/// Powers of two, a power of two apart, so that 4 KiB, 64 KiB, 1 MiB follow each other.
pub fn binary_ticks(low: f64, high: f64) -> Vec<f64> {
    let step = [1, 2, 4, 8, 16].into_iter().find(|step| (high - low) / f64::from(*step) < 8.0);
    let step = step.unwrap_or(32);
    let (first, last) = ((low.ceil() as i32), (high.floor() as i32));
    (first..=last).filter(|power| power.rem_euclid(step) == 0).map(f64::from).collect()
}

/// Powers of ten, with 2 and 5 between where there is room.
pub fn decimal_ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = (high - low) / 10f64.log2();
    let within: &[f64] = match decades {
        d if d < 0.8 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
        d if d < 2.6 => &[1.0, 2.0, 5.0],
        d if d < 4.0 => &[1.0, 3.0],
        _ => &[1.0],
    };
    let every = (decades / 8.0).ceil().max(1.0) as i32;
    let first = (low / 10f64.log2()).floor() as i32;
    let last = (high / 10f64.log2()).ceil() as i32;
    let ticks: Vec<f64> = (first..=last)
        .filter(|power| power.rem_euclid(every) == 0)
        .flat_map(|power| within.iter().map(move |of| (of * 10f64.powi(power)).log2()))
        .filter(|place| (low..=high).contains(place))
        .collect();
    if ticks.len() < 3 { narrow_ticks(low, high) } else { ticks }
}

/// Of a range within few percent: even steps of 1, 2 or 5 of a power of ten, three to seven.
fn narrow_ticks(low: f64, high: f64) -> Vec<f64> {
    let (low, high) = (low.exp2(), high.exp2());
    let magnitude = 10f64.powf((high - low).log10().floor() - 1.0);
    let steps = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0].map(|of| of * magnitude);
    let step = steps.into_iter().find(|step| (high - low) / step <= 6.0).unwrap_or(high - low);
    let (first, last) = ((low / step).ceil() as i64, (high / step).floor() as i64);
    (first..=last).map(|n| (n as f64 * step).log2()).filter(|at| at.is_finite()).collect()
}

/// About one: even steps of the ratio itself.
pub fn near_ticks(low: f64, high: f64) -> Vec<f64> {
    let (low, high) = (low.exp2(), high.exp2());
    let steps = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5];
    let step = steps.into_iter().find(|step| (high - low) / step <= 8.0).unwrap_or(1.0);
    let (first, last) = ((low / step).ceil() as i32, (high / step).floor() as i32);
    (first..=last).map(|n| (f64::from(n) * step).log2()).filter(|at| at.is_finite()).collect()
}

/// From zero, some five steps of 1, 2 or 5.
pub fn even_ticks(high: f64) -> Vec<f64> {
    let magnitude = 10f64.powf((high / 5.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|of| of * magnitude);
    let step = steps.into_iter().find(|step| high / step <= 6.0).unwrap_or(high);
    (0..=32).map(|n| f64::from(n) * step).take_while(|tick| *tick <= high * 1.08).collect()
}
