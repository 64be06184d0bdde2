//! How long `ab` takes, before it begins and on its way, by the estimates that `list` gives of each
//! case and by what measurements took.

use fizeau_domain::{text::counted, units::Seconds};
use fizeau_judge::ab::{self, ATTEMPTS};

/// Runs of the whole plan that the screening takes: A, B, B, A.
pub const SCREENINGS: usize = 4;

/// What is known of how long measurements take.
pub struct Forecast {
    /// How long both sides of each case take once, as estimated.
    estimates: Vec<Seconds>,
    /// The longest measurement of one side of a pair of each case; zero before the first.
    longest: Vec<Seconds>,
    /// To start a process that measures nothing.
    start: Seconds,
    /// How many times as long as estimated measurements take, 1 at least.
    late: f64,
}

impl Forecast {
    /// Of cases of which nothing is measured yet.
    pub fn new(estimates: Vec<Seconds>, start: Seconds) -> Forecast {
        let longest = vec![Seconds(0.0); estimates.len()];
        Forecast { estimates, longest, start, late: 1.0 }
    }

    /// Both sides of all cases once, as estimated.
    fn both(&self) -> f64 {
        self.estimates.iter().map(|one| one.0).sum()
    }

    /// What is measured first and how long it takes, how long everything may take, and what sets an
    /// end to it.
    pub fn of_all(&self, budget: Option<Seconds>) -> String {
        let pairs = ab::LOOKS.last().map_or(0, |(pairs, _)| *pairs);
        let names = counted(self.estimates.len(), "case");
        let end = match budget {
            Some(budget) => {
                format!("It ends after {}, with the measurement in flight", budget.human())
            }
            None => "--budget TIME sets an end".into(),
        };
        if self.both() == 0.0 {
            return format!("screening {names}: A, B, B, A. {end}");
        }
        let screening = 2.0 * self.both() + SCREENINGS as f64 * self.start.0;
        let all: Vec<usize> = (0..self.estimates.len()).collect();
        let [usual, most] = self.of_pairs(&all, pairs).map(|of| Seconds(of.0 + screening).human());
        format!(
            "screening {names}: A, B, B, A, about {}; then up to {pairs} pairs of each case that \
             seems to differ: about {usual} in all if every one does, {most} if other work \
             disturbs every pair, which is then measured {ATTEMPTS} times. {end}; naming cases \
             takes less",
            Seconds(screening.ceil()).human()
        )
    }

    /// Takes that `made` runs of the screening took `taken`; how long the rest of it takes.
    pub fn screened(&mut self, taken: Seconds, made: usize) -> Seconds {
        // Each side is run twice.
        let estimated = self.both() * made as f64 / 2.0;
        let measuring = taken.0 - self.start.0 * made as f64;
        self.late = if estimated > 0.0 { (measuring / estimated).max(1.0) } else { 1.0 };
        Seconds(taken.0 / made.max(1) as f64 * SCREENINGS.saturating_sub(made) as f64)
    }

    /// Takes how long one side of a pair of a case took.
    pub fn took(&mut self, case: usize, time: Seconds) {
        if let Some(longest) = self.longest.get_mut(case) {
            *longest = Seconds(longest.0.max(time.0));
        }
    }

    /// How long `pairs` of these cases take, by the longest measurement of each so far, and how
    /// long where every one of them has to be repeated; in whole seconds.
    pub fn of_pairs(&self, cases: &[usize], pairs: u32) -> [Seconds; 2] {
        let pair = |&case: &usize| match self.longest[case].0 {
            longest if longest > 0.0 => 2.0 * longest,
            _ => self.late * self.estimates[case].0 + 2.0 * self.start.0,
        };
        let all = f64::from(pairs) * cases.iter().map(pair).sum::<f64>();
        [all.ceil(), (all * f64::from(ATTEMPTS)).ceil()].map(Seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Seconds = Seconds(0.25);

    /// On a machine that is `slower` times as slow as estimated and repeats every pair as often as
    /// it may, no round takes longer than the first words about it allow.
    #[test]
    fn what_is_said_to_be_left_at_most_is_enough_for_any_candidates() {
        let estimates = [0.5, 12.0, 3.0].map(Seconds);
        for slower in [0.5, 1.0, 4.0] {
            for candidates in [&[0][..], &[1], &[0, 1], &[1, 2], &[0, 1, 2]] {
                let side = |case: usize| START.0 + estimates[case].0 / 2.0 * slower;
                let mut forecast = Forecast::new(estimates.to_vec(), START);
                let screening = 4.0 * START.0 + 2.0 * forecast.both() * slower;
                let left = forecast.screened(Seconds(screening), SCREENINGS);
                assert_eq!(left, Seconds(0.0), "nothing is left of the screening");
                let taken: f64 = candidates.iter().map(|&case| 2.0 * side(case)).sum();
                let [usual, most] = forecast.of_pairs(candidates, 7);
                assert!(usual.0 >= 7.0 * taken, "{candidates:?}, {slower}: {usual:?}");
                let repeated = 7.0 * taken * f64::from(ATTEMPTS);
                assert!(most.0 >= repeated, "{candidates:?}, {slower}: {most:?} of {repeated}");
                // Where pairs turn out to take longer than the screening told, what is left grows.
                candidates.iter().for_each(|&case| forecast.took(case, Seconds(9.0 * side(case))));
                let [usual, _] = forecast.of_pairs(candidates, 6);
                assert!(usual.0 >= 6.0 * 9.0 * taken, "{candidates:?}, {slower}: {usual:?}");
            }
        }
    }

    #[test]
    fn a_quarter_of_the_screening_says_how_long_the_rest_takes() {
        let mut forecast = Forecast::new([4.0, 6.0].map(Seconds).to_vec(), Seconds(0.0));
        // One run of one side was estimated at 5 s, and took 10 s.
        assert_eq!(forecast.screened(Seconds(10.0), 1), Seconds(30.0));
        assert_eq!(forecast.late, 2.0);
        assert_eq!(forecast.screened(Seconds(40.0), 4), Seconds(0.0));
        forecast.screened(Seconds(1.0), 2);
        assert_eq!(forecast.late, 1.0, "never less than estimated");
        let mut nothing = Forecast::new(vec![Seconds(0.0)], START);
        nothing.screened(Seconds(1.0), 1);
        assert_eq!(nothing.late, 1.0, "nothing was estimated");
    }

    #[test]
    fn the_first_words_hold_the_screening_all_pairs_and_their_repetitions() {
        let pairs = ab::LOOKS.last().expect("looks").0;
        let forecast = Forecast::new([4.0, 6.0].map(Seconds).to_vec(), START);
        let said = forecast.of_all(None);
        let screening = 20.0 + 4.0 * START.0;
        let all = (10.0 + 4.0 * START.0) * f64::from(pairs);
        let most = Seconds(screening + f64::from(ATTEMPTS) * all).human();
        assert!(said.starts_with("screening 2 cases: A, B, B, A, about 21 s; "), "{said}");
        assert!(said.contains(&format!("up to {pairs} pairs")), "{said}");
        let all = Seconds(screening + all).human();
        assert!(said.contains(&format!("{all} in all")), "{said}");
        assert!(said.contains(&format!("{most} if other work disturbs")), "{said}");
        assert!(said.contains("--budget TIME sets an end"), "{said}");
        let ends = forecast.of_all(Some(Seconds(90.0)));
        assert!(
            ends.contains("It ends after 1 min 30 s, with the measurement in flight"),
            "{ends}"
        );
        let nothing = Forecast::new(vec![Seconds(0.0)], START).of_all(None);
        assert!(nothing.starts_with("screening 1 case: A, B, B, A. "), "{nothing}");
    }
}
