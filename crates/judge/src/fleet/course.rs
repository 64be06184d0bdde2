//! What the sessions of one device show in the course of time: how they scatter, a change of
//! level, a slope. Every estimate withstands single bad sessions.

use fizeau_domain::stats::{
    quantile::median,
    student::{self, VARIANCE_MIN, Variance},
};

/// Sessions on each side of a change, at least: one bad session is no change.
pub const SIDE_MIN: usize = 2;

/// The share of the sessions of a side that is nearer to its median than to the other side's.
const AGREE: f64 = 0.75;

/// Standard deviation of normal values over the median of their absolute values.
const NORMAL: f64 = 1.4826;

/// Series that tell how slopes scatter, at least.
const SLOPES_MIN: usize = 16;

/// Standard errors by which an estimate is surely larger: 1 % of normal ones are.
const SURE: f64 = 2.33;

/// Information of a median absolute deviation beside that of squares, of normal values (Huber and
/// Ronchetti, Robust Statistics, 2009).
const EFFICIENCY: f64 = 0.37;

/// Variance of the estimator of Hodges and Lehmann, and of Theil's and Sen's slope, over that of
/// least squares, of normal values: pi / 3.
const RANKS: f64 = std::f64::consts::FRAC_PI_3;

/// From this many sessions on a slope is taken from a series before its walk is estimated: fewer
/// do not tell a walk from a slope.
const DETRENDED_MIN: usize = 12;

/// How sessions scatter, as variances of logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scatter {
    /// Of what each session is off by itself.
    session: f64,
    /// Of the step by which the level walks from a session to the next, as far as is known.
    step: f64,
    /// Whether levels surely walk.
    walks: bool,
    /// How much wider slopes scatter than sessions that are independent say, as a variance; where
    /// enough series tell.
    slopes: Option<Variance>,
    /// The usual level of a series, and how levels scatter about it; where enough series tell and
    /// levels do not walk.
    levels: Option<(f64, Variance)>,
    freedom: f64,
}

impl Scatter {
    /// Of all series together, by their differences at two distances: steps of a walk add up, and
    /// what a session is off by itself does not. By medians, so that neither a bad session nor a
    /// device that changes counts.
    pub fn of(all: &[&[f64]]) -> Scatter {
        let (mut near, mut far, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        for logs in all.iter().filter(|logs| logs.len() > 1) {
            let is_long = logs.len() >= DETRENDED_MIN;
            let flat = if is_long { flattened(logs) } else { logs.to_vec() };
            let apart = (logs.len() / 4).max(2);
            near.extend(differences(&flat, 1));
            if logs.len() > apart {
                far.extend(differences(&flat, apart));
                // A slope that was taken away took a part of the walk with it.
                let part = 1.2 * apart as f64 / logs.len() as f64;
                weights.push(apart as f64 * if is_long { 1.0 - part } else { 1.0 });
            }
        }
        let (near_square, far_square) = (square(&near), square(&far));
        let weight = if weights.is_empty() { 0.0 } else { median(&weights) };
        let step = match weight > 1.0 {
            true => ((far_square - near_square) / (weight - 1.0)).clamp(0.0, near_square),
            false => 0.0,
        };
        // Differences that overlap tell half as much.
        let error = 2.0 * (2.0 / (EFFICIENCY * far.len().max(1) as f64)).sqrt();
        let walks = far_square > near_square * (1.0 + SURE * error);
        let session = if walks { near_square - step } else { near_square };
        let session = (session / 2.0).max(VARIANCE_MIN);
        let freedom = (EFFICIENCY * near.len() as f64).max(1.0);
        let scatter = Scatter { session, step, walks, slopes: None, levels: None, freedom };
        let levels = (!walks).then(|| levels(all)).flatten();
        Scatter { slopes: scatter.slopes(all), levels, ..scatter }
    }

    /// How much wider slopes scatter than independent sessions say.
    fn slopes(&self, all: &[&[f64]]) -> Option<Variance> {
        let ratio = |logs: &&&[f64]| {
            let places: Vec<f64> = (0..logs.len()).map(|at| at as f64).collect();
            slope(&places, logs).abs() / self.of_independent(&places).sqrt()
        };
        let ratios: Vec<f64> =
            all.iter().filter(|logs| logs.len() > 2).map(|one| ratio(&one)).collect();
        let freedom = EFFICIENCY * ratios.len() as f64;
        (ratios.len() >= SLOPES_MIN).then(|| Variance { value: square(&ratios), freedom })
    }

    /// The variance of a session by itself.
    pub fn variance(&self) -> f64 {
        self.session
    }

    /// The same, widened to what a series itself shows where that is more than `factor` times as
    /// much.
    pub fn widened(self, logs: &[f64], factor: f64) -> Scatter {
        let own: Vec<f64> = differences(logs, 1).collect();
        let ratio = square(&own) / (2.0 * self.session + if self.walks { self.step } else { 0.0 });
        if ratio <= factor {
            return self;
        }
        let freedom = (EFFICIENCY * own.len() as f64).max(1.0);
        Scatter { session: self.session * ratio, step: self.step * ratio, freedom, ..self }
    }

    /// The error of the difference of two levels of these numbers of sessions, side by side. The
    /// means of n sessions before a place and of m after it are apart by the walk's step between
    /// them, and by each step within a side as far as it counts in that side's mean: k/n of the
    /// k-th from the far end.
    fn of_change(&self, [before, after]: [usize; 2]) -> Variance {
        let within = |count: usize| {
            let count = count as f64;
            (count - 1.0) * (2.0 * count - 1.0) / (6.0 * count)
        };
        let own = RANKS * self.session * (1.0 / before as f64 + 1.0 / after as f64);
        let steps = 1.0 + within(before) + within(after);
        let walk = if self.walks { self.step * steps } else { 0.0 };
        Variance { value: own + walk, freedom: self.freedom }
    }

    /// How many sessions on each side of a place tell a change of level best. All of them where
    /// levels do not walk. Where they do, sessions far from the place tell more of the walk than of
    /// the change: the number at which the error of the difference is least.
    fn window(&self, sessions: usize) -> usize {
        let error = |side: &usize| self.of_change([*side, *side]).value;
        let sides = SIDE_MIN..=(sessions / 2).max(SIDE_MIN);
        match self.walks {
            true => sides.min_by(|a, b| error(a).total_cmp(&error(b))).unwrap_or(SIDE_MIN),
            false => sessions,
        }
    }

    /// The variance of a slope by the day where sessions are independent.
    fn of_independent(&self, days: &[f64]) -> f64 {
        let mean = days.iter().sum::<f64>() / days.len() as f64;
        RANKS * self.session / days.iter().map(|day| (day - mean).powi(2)).sum::<f64>()
    }

    /// A slope's standard errors and their degrees of freedom, with what the level says of a series
    /// that began where others are and fell by `fallen`: half as much. The two are independent of
    /// each other, and each has the weight that it would have of such a fall (the lemma of Neyman
    /// and Pearson, of normal laws). Where slopes scatter more than sessions say, levels do too,
    /// and both are of one walk: the slope alone then.
    fn with_level(&self, (t, freedom): (f64, f64), fallen: f64, level: f64) -> (f64, f64) {
        let alone = (t, freedom);
        let is_wide = |of: Variance| of.value > 1.0 + SURE * (2.0 / of.freedom).sqrt();
        let Some((usual, known)) = self.levels.filter(|_| !self.slopes.is_some_and(is_wide)) else {
            return alone;
        };
        let deviation = known.value.sqrt();
        let (of_slope, of_level) = (1.0 / fallen, 0.5 / deviation);
        let both = of_slope.hypot(of_level);
        let [of_slope, of_level] = [of_slope / both, of_level / both];
        let joint = 1.0 / (of_slope.powi(4) / freedom + of_level.powi(4) / known.freedom);
        // A series that was low from the beginning did not fall.
        let low = (usual - level).min(0.5 * t * fallen) / deviation;
        (of_slope * t + of_level * low, joint)
    }

    /// The error of a slope by the day: as slopes of the other series scatter, where enough of them
    /// tell. Else by the steps of a walk: of n steps a line's slope has the variance
    /// 6 (n^2 + 1) / (5 n (n^2 - 1)) of one step.
    fn of_slope(&self, days: &[f64]) -> Variance {
        let own = self.of_independent(days);
        if let Some(slopes) = self.slopes {
            return match slopes.value > 1.0 + SURE * (2.0 / slopes.freedom).sqrt() {
                true => Variance { value: own * slopes.value, ..slopes },
                false => Variance { value: own, freedom: self.freedom },
            };
        }
        let count = days.len() as f64;
        let apart = (days[days.len() - 1] - days[0]) / (count - 1.0);
        let walk = 6.0 * (count * count + 1.0) / (5.0 * count * (count * count - 1.0));
        Variance { value: own + walk * self.step / (apart * apart), freedom: self.freedom }
    }
}

/// The median of the levels of series, and how they scatter.
fn levels(all: &[&[f64]]) -> Option<(f64, Variance)> {
    let own: Vec<f64> = all.iter().filter(|logs| logs.len() > 2).map(|one| median(one)).collect();
    let usual = (own.len() >= SLOPES_MIN).then(|| median(&own))?;
    let apart: Vec<f64> = own.iter().map(|one| (one - usual).abs()).collect();
    let value = square(&apart).max(VARIANCE_MIN);
    Some((usual, Variance { value, freedom: EFFICIENCY * own.len() as f64 }))
}

/// Absolute differences between sessions that are `apart`.
fn differences(logs: &[f64], apart: usize) -> impl Iterator<Item = f64> {
    logs.iter().zip(&logs[apart.min(logs.len())..]).map(|(a, b)| (b - a).abs())
}

/// The variance of normal values with these absolute values.
fn square(absolute: &[f64]) -> f64 {
    if absolute.is_empty() { 0.0 } else { (NORMAL * median(absolute)).powi(2) }
}

/// A series without its slope, or without its change of level where that is by far nearer to it.
fn flattened(logs: &[f64]) -> Vec<f64> {
    let places: Vec<f64> = (0..logs.len()).map(|at| at as f64).collect();
    let slope = slope(&places, logs);
    let line: Vec<f64> = logs.iter().zip(&places).map(|(log, at)| log - slope * at).collect();
    match split(logs) {
        Some((at, rest)) if 2.0 * rest < distances(&line) => {
            let levels = [median(&logs[..at]), median(&logs[at..])];
            let of = |(place, log): (usize, &f64)| log - levels[usize::from(place >= at)];
            logs.iter().enumerate().map(of).collect()
        }
        _ => line,
    }
}

/// A change of level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// The first session after it.
    pub at: usize,
    /// By how much the logarithm changed.
    pub change: f64,
    /// Standard error of `change`.
    pub error: Variance,
    /// Whether the sessions of both sides agree, the last two among them.
    pub agrees: bool,
    /// How many sessions before it, and after it, its two levels are of.
    pub sides: [usize; 2],
    /// Sessions on each side that tell a level at most.
    window: usize,
    /// The sum of the distances of all sessions from their levels, where a series changes once.
    rest: f64,
}

/// The place of a series that looks most like a change of level; none of fewer than four sessions.
/// Where levels do not walk, its two sides are nearest to their medians there. Where they do, it
/// is the change that is the most standard errors large.
pub fn level(logs: &[f64], scatter: &Scatter) -> Option<Level> {
    let (at, rest) = split(logs)?;
    let window = scatter.window(logs.len());
    let of = |at: usize| Level { rest, ..at_place(logs, at, window, scatter) };
    if !scatter.walks {
        return Some(of(at));
    }
    let places = SIDE_MIN..=logs.len() - SIDE_MIN;
    { places }.map(of).max_by(|a, b| {
        let order = a.agrees.cmp(&b.agrees);
        order.then(a.standard_errors().total_cmp(&b.standard_errors()))
    })
}

/// The change of level at a place, by at most `window` sessions on each side.
fn at_place(logs: &[f64], at: usize, window: usize, scatter: &Scatter) -> Level {
    let before = &logs[at.saturating_sub(window)..at];
    let after = &logs[at..logs.len().min(at.saturating_add(window))];
    let (low, high) = (median(before), median(after));
    let is_of = |log: f64, own: f64, other: f64| (log - own).abs() < (log - other).abs();
    let agree = |side: &[f64], own: f64, other: f64| {
        let count = side.iter().filter(|log| is_of(**log, own, other)).count();
        count >= SIDE_MIN && count as f64 >= AGREE * side.len() as f64
    };
    let lasts = logs[logs.len() - SIDE_MIN..].iter().all(|log| is_of(*log, high, low));
    let differences: Vec<f64> =
        before.iter().flat_map(|a| after.iter().map(move |b| b - a)).collect();
    let sides = [before.len(), after.len()];
    Level {
        at,
        // By Hodges and Lehmann (Annals of Mathematical Statistics 34, 1963).
        change: median(&differences),
        error: scatter.of_change(sides),
        agrees: lasts && agree(before, low, high) && agree(after, high, low),
        sides,
        window,
        rest: f64::INFINITY,
    }
}

/// Where the two sides of a series are nearest to their medians, and the sum of the distances.
fn split(logs: &[f64]) -> Option<(usize, f64)> {
    let places = SIDE_MIN..=logs.len().checked_sub(SIDE_MIN)?;
    let rest = |at: usize| {
        let (before, after) = logs.split_at(at);
        (at, distances(before) + distances(after))
    };
    places.map(rest).min_by(|a, b| a.1.total_cmp(&b.1))
}

fn distances(side: &[f64]) -> f64 {
    let middle = median(side);
    side.iter().map(|log| (log - middle).abs()).sum()
}

impl Level {
    /// The probability of so large a change where there is none, over all places that it was chosen
    /// from.
    pub fn probability(&self, sessions: usize) -> f64 {
        let places = (sessions - 2 * SIDE_MIN + 1) as f64;
        let tail = student::upper_tail(self.standard_errors(), self.error.freedom);
        (2.0 * places * tail).min(1.0)
    }

    /// The size of the change over its standard error.
    fn standard_errors(&self) -> f64 {
        self.change.abs() / self.error.value.sqrt()
    }

    /// The least change in its direction that `error` as a probability leaves open.
    pub fn least(&self, error: f64) -> f64 {
        let t = student::exceeded_with(error, self.error.freedom);
        (self.change.abs() - t * self.error.value.sqrt()).max(0.0).copysign(self.change)
    }

    /// Which sessions are lower than their level by more than `effect`, and which are higher.
    /// Where levels walk, a session's level is that of the sessions around it on its side.
    pub fn lone(&self, logs: &[f64], effect: f64) -> [Vec<usize>; 2] {
        let (before, after) = logs.split_at(self.at);
        let off = |sign: f64| {
            let of_side = move |(first, side): (usize, &'_ [f64])| -> Vec<usize> {
                let is_off = |at: &usize| {
                    let last = side.len().min(at.saturating_add(self.window + 1));
                    let around = &side[at.saturating_sub(self.window)..last];
                    sign * (side[*at] - median(around)) > effect
                };
                (0..side.len()).filter(is_off).map(|at| first + at).collect()
            };
            [(0, before), (self.at, after)].into_iter().flat_map(of_side).collect()
        };
        [-1.0, 1.0].map(off)
    }
}

/// The slope of Theil (1950) and Sen (Journal of the American Statistical Association 63, 1968):
/// the median of the slopes between any two sessions.
fn slope(days: &[f64], logs: &[f64]) -> f64 {
    let mut slopes = Vec::with_capacity(logs.len() * (logs.len() - 1) / 2);
    for (at, (day, log)) in days.iter().zip(logs).enumerate() {
        let later = days[at + 1..].iter().zip(&logs[at + 1..]).filter(|(other, _)| *other > day);
        slopes.extend(later.map(|(other_day, other)| (other - log) / (other_day - day)));
    }
    if slopes.is_empty() { 0.0 } else { median(&slopes) }
}

/// A series that falls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fall {
    /// Change of the logarithm a day: below 0.
    pub slope: f64,
    /// The probability of so steep a fall where there is no slope.
    pub probability: f64,
    /// Whether a line is nearer to it than any change of level.
    pub is_nearer: bool,
}

/// By how much farther a line may be from a series than a change of level is, which is nearer by
/// chance because its place is chosen: of 300 simulated lines with 20 sessions that lose 2.5
/// standard deviations of a session, by more than 1.16 in a fifth and by more than 1.22 in a tenth.
/// Steps that sessions' scatter does not hide are nearer than a line by 1.8 and more.
const LINE: f64 = 1.3;

/// Whether a series falls a little each time: its slope is sure, its later sessions are lower than
/// earlier ones by Kendall's test too, its last two are lower than the first half, and no change of
/// level is clearly nearer to it than a line.
pub fn fall(days: &[f64], logs: &[f64], scatter: &Scatter, level: &Level) -> Option<Fall> {
    let span = days[days.len() - 1] - days[0];
    if span <= 0.0 {
        return None;
    }
    let slope = slope(days, logs);
    let early = median(&logs[..logs.len() / 2]);
    let is_low = logs[logs.len() - SIDE_MIN..].iter().all(|log| *log < early);
    let left: Vec<f64> = days.iter().zip(logs).map(|(day, log)| log - slope * day).collect();
    let rest = distances(&left);
    let is_line = rest <= LINE * level.rest;
    if slope >= 0.0 || !is_low || !is_line || rank_tail(logs) > RANKS_ERROR {
        return None;
    }
    let error = scatter.of_slope(days);
    let own = (-slope / error.value.sqrt(), error.freedom);
    let (t, freedom) = scatter.with_level(own, error.value.sqrt() * span, median(logs));
    let probability = student::upper_tail(t, freedom);
    Some(Fall { slope, probability, is_nearer: rest <= level.rest })
}

/// Kendall's test has to refuse that later sessions are no lower, with this probability of an
/// error.
const RANKS_ERROR: f64 = 0.05;

/// The probability that of independent sessions as many are lower than earlier ones, by the normal
/// limit of Kendall's tau (Rank Correlation Methods, 1948).
fn rank_tail(logs: &[f64]) -> f64 {
    let mut score = 0.0;
    for (at, log) in logs.iter().enumerate() {
        score += logs[at + 1..].iter().filter(|other| *other < log).count() as f64;
        score -= logs[at + 1..].iter().filter(|other| *other > log).count() as f64;
    }
    let count = logs.len() as f64;
    let variance = count * (count - 1.0) * (2.0 * count + 5.0) / 18.0;
    student::upper_tail((score - 1.0) / variance.sqrt(), f64::INFINITY)
}
