//! How long `ab` takes, before it begins and on its way: pure functions of the estimates that
//! `list` gives of each case.

use fizeau_domain::{text::counted, units::Seconds};
use fizeau_judge::ab;

/// Runs of the whole plan that the screening takes: A, B, B, A.
pub const SCREENINGS: usize = 4;

fn sum(estimates: &[Seconds]) -> f64 {
    estimates.iter().map(|one| one.0).sum()
}

/// What is measured first and how long it takes, and how long everything may take. `estimates` are
/// how long both sides of each case take once.
pub fn of_all(estimates: &[Seconds]) -> String {
    let both = sum(estimates);
    let pairs = ab::LOOKS.last().map_or(0, |(pairs, _)| *pairs);
    let names = counted(estimates.len(), "case");
    if both == 0.0 {
        return format!("screening {names}: A, B, B, A");
    }
    let screening = Seconds((2.0 * both).ceil()).human();
    let most = (2.0 * both + of_pairs(estimates, 1.0, pairs, estimates.len()).0).ceil();
    let most = Seconds(most).human();
    format!(
        "screening {names}: A, B, B, A, about {screening}; then up to {pairs} pairs of each case \
         that seems to differ, {most} in all if every one does. Name cases to take less"
    )
}

/// After `made` runs of the screening, which took `taken`: how many times as long as estimated
/// everything takes, 1 at least, and how long the rest of the screening takes.
pub fn of_screening(estimates: &[Seconds], taken: Seconds, made: usize) -> (f64, Seconds) {
    // Each side is run twice.
    let estimated = sum(estimates) * made as f64 / 2.0;
    let late = if estimated > 0.0 { (taken.0 / estimated).max(1.0) } else { 1.0 };
    let left = taken.0 / made.max(1) as f64 * SCREENINGS.saturating_sub(made) as f64;
    (late, Seconds(left))
}

/// How long `pairs` of `candidates` cases take at most: those that take longest, `late` times as
/// long as estimated.
pub fn of_pairs(estimates: &[Seconds], late: f64, pairs: u32, candidates: usize) -> Seconds {
    let mut longest: Vec<f64> = estimates.iter().map(|one| one.0).collect();
    longest.sort_by(|a, b| b.total_cmp(a));
    Seconds(f64::from(pairs) * late * longest.iter().take(candidates).sum::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a machine takes that is `slower` times as slow as estimated: the screening, and all
    /// pairs of some cases.
    fn taken(estimates: &[Seconds], slower: f64, candidates: &[usize], pairs: u32) -> (f64, f64) {
        let screening = 2.0 * sum(estimates) * slower;
        let one = candidates.iter().map(|&case| estimates[case].0 * slower).sum::<f64>();
        (screening, one * f64::from(pairs))
    }

    #[test]
    fn what_is_said_to_be_left_is_enough_for_any_candidates() {
        let estimates = [0.5, 12.0, 3.0].map(Seconds);
        for slower in [0.5, 1.0, 4.0] {
            for candidates in [&[0][..], &[1], &[0, 1], &[1, 2], &[0, 1, 2]] {
                let (screening, pairs) = taken(&estimates, slower, candidates, 7);
                let (late, left) = of_screening(&estimates, Seconds(screening), SCREENINGS);
                assert_eq!(left, Seconds(0.0), "nothing is left of the screening");
                let most = of_pairs(&estimates, late, 7, candidates.len());
                assert!(most.0 >= pairs, "{candidates:?}, {slower}: {most:?} of {pairs}");
            }
        }
        // A case that takes long is not hidden among those that do not.
        assert_eq!(of_pairs(&estimates, 2.0, 3, 1), Seconds(72.0));
        assert_eq!(of_pairs(&estimates, 1.0, 0, 3), Seconds(0.0));
    }

    #[test]
    fn a_quarter_of_the_screening_says_how_long_the_rest_takes() {
        let estimates = [4.0, 6.0].map(Seconds);
        // One run of one side was estimated at 5 s, and took 10 s.
        let (late, left) = of_screening(&estimates, Seconds(10.0), 1);
        assert_eq!((late, left), (2.0, Seconds(30.0)));
        assert_eq!(of_screening(&estimates, Seconds(40.0), 4), (2.0, Seconds(0.0)));
        assert_eq!(of_screening(&estimates, Seconds(1.0), 2).0, 1.0, "never less than estimated");
        assert_eq!(of_screening(&[Seconds(0.0)], Seconds(1.0), 1).0, 1.0, "nothing was estimated");
    }

    #[test]
    fn the_first_words_hold_the_screening_and_all_pairs() {
        let pairs = ab::LOOKS.last().expect("looks").0;
        let said = of_all(&[4.0, 6.0].map(Seconds));
        let all = Seconds(20.0 + 10.0 * f64::from(pairs)).human();
        assert!(said.starts_with("screening 2 cases: A, B, B, A, about 20 s; "), "{said}");
        assert!(said.contains(&format!("up to {pairs} pairs")), "{said}");
        assert!(said.contains(&format!("{all} in all")), "{said}");
        assert_eq!(of_all(&[Seconds(0.0)]), "screening 1 case: A, B, B, A");
    }
}
