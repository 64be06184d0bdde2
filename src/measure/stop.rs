//! When there are samples enough.

use fizeau_domain::{outcome::StopReason, stats::quantile, suite::MeasureSettings, units::Seconds};

/// Samples between two looks at the noise, at least; later on a tenth of those there are, or the
/// looks would cost more than the samples.
const LOOK_EVERY: usize = 5;
const LOOK_SHARE: usize = 10;

/// Looks over which the noise must have stood still to count as settled; after nvbench's `stdrel`
/// criterion, which asks for less than 5 % of change over its window.
const LOOKS_SETTLED: usize = 6;
const CHANGE_SETTLED: f64 = 0.05;

/// Decides after each sample whether there is to be another.
pub struct Rule<'s> {
    settings: &'s MeasureSettings,
    next_look: usize,
    noises: Vec<f64>,
}

impl<'s> Rule<'s> {
    /// The rule of a suite.
    pub fn new(settings: &'s MeasureSettings) -> Rule<'s> {
        Rule { settings, next_look: 0, noises: Vec::new() }
    }

    /// The reason to stop, if there is one, after these times and this much time in all.
    pub fn stop(&mut self, times: &[Seconds], spent: Seconds) -> Option<StopReason> {
        let settings = self.settings;
        if times.len() >= settings.samples_max as usize {
            return Some(StopReason::SampleBudget);
        }
        if times.len() < settings.samples_min as usize {
            // A case may be so slow that even its fewest samples exceed the budget: four times
            // the budget ends it, with at least one sample.
            return (spent >= settings.time_max * 4.0).then_some(StopReason::TimeBudget);
        }
        if spent >= settings.time_max {
            return Some(StopReason::TimeBudget);
        }
        if spent < settings.time_min || times.len() < self.next_look {
            return None;
        }
        self.next_look = times.len() + LOOK_EVERY.max(times.len() / LOOK_SHARE);
        let values: Vec<f64> = times.iter().map(|time| time.0).collect();
        // Not a number where the timer does not move; then only a budget ends it.
        let noise = quantile::median_absolute_deviation(&values) / quantile::median(&values);
        if noise <= settings.noise_max {
            return Some(StopReason::Quiet);
        }
        self.noises.push(noise);
        let window = self.noises.len().checked_sub(LOOKS_SETTLED)?;
        let recent = &self.noises[window..];
        let (low, high) = recent
            .iter()
            .fold((f64::INFINITY, 0.0f64), |(low, high), &noise| (low.min(noise), high.max(noise)));
        (high - low < CHANGE_SETTLED * high).then_some(StopReason::NoiseSettled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> MeasureSettings {
        MeasureSettings {
            samples_min: 10,
            samples_max: 100,
            noise_max: 0.01,
            time_min: Seconds(0.1),
            time_max: Seconds(1.0),
            warmup_max: Seconds(0.1),
            sample_min: Seconds(1e-4),
            deadline: Seconds(1.0),
            regime: None,
            beside: None,
        }
    }

    /// Feeds times until the rule stops; the reason and how many it took.
    fn feed(time: impl Fn(usize) -> f64) -> (StopReason, usize) {
        let settings = settings();
        let mut rule = Rule::new(&settings);
        let (mut times, mut spent) = (Vec::new(), Seconds(0.0));
        loop {
            let next = Seconds(time(times.len()));
            times.push(next);
            spent = spent + next;
            if let Some(reason) = rule.stop(&times, spent) {
                return (reason, times.len());
            }
        }
    }

    #[test]
    fn quiet_times_stop_as_soon_as_they_may() {
        assert_eq!(feed(|_| 0.02), (StopReason::Quiet, 10));
    }

    #[test]
    fn short_times_go_on_until_the_least_time() {
        let (reason, count) = feed(|_| 0.002);
        assert_eq!(reason, StopReason::Quiet);
        assert!((50..=55).contains(&count), "{count}");
    }

    #[test]
    fn noise_that_stands_still_ends_it() {
        let (reason, _) = feed(|at| 0.010 + 0.001 * ((at * 7) % 5) as f64);
        assert_eq!(reason, StopReason::NoiseSettled);
    }

    #[test]
    fn slow_work_ends_at_its_budget() {
        let growing = |at: usize| 0.05 * (1.0 + at as f64);
        assert_eq!(feed(growing).0, StopReason::TimeBudget);
        assert_eq!(feed(|_| 3.0), (StopReason::TimeBudget, 2));
    }

    #[test]
    fn many_short_noisy_samples_end_at_their_budget() {
        let rising = |at: usize| 1e-3 * (1.0 + 0.3 * (at as f64).powi(2));
        let (reason, count) = feed(|at| rising(at) * 1e-3);
        assert_eq!((reason, count), (StopReason::SampleBudget, 100));
    }
}
