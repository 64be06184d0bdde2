//! The other divisions of the same runs into two groups of the same sizes.
//!
//! A t-test takes the runs of a case to be normal about one time. Real runs have modes: a matrix
//! product takes 26 ms in one process and 34 ms in the next, and nothing in between. Three runs of
//! A can then all be of the fast mode and three of B of the slow one, and no variance shows it. The
//! other divisions do: if nothing changed, the division into A and B is one of many that are alike
//! (Fisher's permutation test). So a case that the t-test finds has to stand out twice:
//!
//! - from the other divisions of its own runs, of which at most the rate asked for may have a
//!   p-value as small;
//! - from the other divisions of all other cases: what the test finds in them at the same p-value,
//!   in the mean of all divisions, is what it finds in cases that did not change. That may be no
//!   more than the false discovery rate asked for times the number of cases found (Tusher,
//!   Tibshirani and Chu, Proceedings of the National Academy of Sciences 98, 2001).

use oorandom::Rand64;

/// With fewer runs on a side a case by itself cannot be found. The runs of a case with two modes
/// are all of one mode in A and all of the other in B with a probability of up to 1.6 % in 3 + 3
/// runs, and of up to 6 % in 2 + 2 runs.
pub const RUNS_MIN: usize = 3;

/// Where there are more divisions than these, as many are drawn at random.
const DIVISIONS_MAX: usize = 500;

/// Seed of the divisions that are drawn.
const SEED: u128 = 3;

/// How many divisions the runs have into A and B.
fn count(before: usize, after: usize) -> f64 {
    let least = before.min(after);
    (1..=least).map(|at| (before + after - least + at) as f64 / at as f64).product()
}

/// All divisions but the one into A and B, or [`DIVISIONS_MAX`] of them drawn at random: of each
/// run, those of A first, whether it is in B.
pub fn others(before: usize, after: usize) -> Vec<Vec<bool>> {
    let runs = before + after;
    let own: Vec<bool> = (0..runs).map(|run| run >= before).collect();
    if count(before, after) > DIVISIONS_MAX as f64 {
        let mut random = Rand64::new(SEED);
        let mut division = own;
        let mut draw = || {
            for last in (1..runs).rev() {
                division.swap(last, random.rand_range(0..last as u64 + 1) as usize);
            }
            division.clone()
        };
        return (0..DIVISIONS_MAX).map(|_| draw()).collect();
    }
    let mut all: Vec<Vec<bool>> = vec![Vec::new()];
    for run in 0..runs {
        let mut longer = Vec::new();
        for division in all {
            let in_b = division.iter().filter(|in_b| **in_b).count();
            let in_a = run - in_b;
            for (side, has_room) in [(false, in_a < before), (true, in_b < after)] {
                if has_room {
                    longer.push(division.iter().copied().chain([side]).collect());
                }
            }
        }
        all = longer;
    }
    all.retain(|division| *division != own);
    all
}

/// Runs as another division has them: those of A, and those of B.
pub fn divided(before: &[f64], after: &[f64], division: &[bool]) -> [Vec<f64>; 2] {
    let side = |is_b: bool| {
        let runs = before.iter().chain(after).zip(division);
        runs.filter(|(_, in_b)| **in_b == is_b).map(|(run, _)| *run).collect()
    };
    [side(false), side(true)]
}

/// Which of the cases that a test found stand out from other divisions at this false discovery
/// rate. `others` has the p-values of each case in the other divisions of its runs.
pub fn stand_out(found: &[bool], p_values: &[f64], others: &[Vec<f64>], rate: f64) -> Vec<bool> {
    let sorted = |of: &Vec<f64>| {
        let mut of = of.clone();
        of.sort_by(f64::total_cmp);
        of
    };
    let others: Vec<Vec<f64>> = others.iter().map(sorted).collect();
    // The share of a case's other divisions with such a p-value or a smaller one.
    let share = |at: usize, p_value: f64| {
        let count = others[at].partition_point(|other| *other <= p_value);
        count as f64 / others[at].len().max(1) as f64
    };
    let is_own = |&at: &usize| found[at] && share(at, p_values[at]) <= rate;
    let mut order: Vec<usize> = (0..found.len()).filter(is_own).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    // As many as can be: what is taken for found does not count as unchanged.
    while let Some(&last) = order.last() {
        let mut is_taken = vec![false; found.len()];
        order.iter().for_each(|&at| is_taken[at] = true);
        let unchanged = (0..found.len()).filter(|&at| !is_taken[at]);
        let by_chance: f64 = unchanged.map(|at| share(at, p_values[last])).sum();
        if by_chance <= rate * order.len() as f64 {
            return is_taken;
        }
        order.pop();
    }
    vec![false; found.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_division_but_the_own_one_is_there_once() {
        for (before, after, all) in [(2, 2, 6), (3, 2, 10), (3, 3, 20), (2, 5, 21), (4, 4, 70)] {
            assert!((count(before, after) - f64::from(all)).abs() < 1e-9);
            let mut others = others(before, after);
            assert_eq!(others.len(), all as usize - 1);
            assert!(others.iter().all(|one| one.iter().filter(|in_b| **in_b).count() == after));
            others.sort();
            others.dedup();
            assert_eq!(others.len(), all as usize - 1);
        }
        // Too many to take each.
        let drawn = others(12, 9);
        assert_eq!((drawn.len(), drawn[0].len()), (DIVISIONS_MAX, 21));
        assert!(drawn.iter().all(|one| one.iter().filter(|in_b| **in_b).count() == 9));
        let [a, b] = divided(&[1.0, 2.0], &[3.0, 4.0], &[true, false, false, true]);
        assert_eq!((a, b), (vec![2.0, 3.0], vec![1.0, 4.0]));
    }

    #[test]
    fn what_other_divisions_show_as_well_does_not_stand_out() {
        let p_values = [1e-6, 1e-4, 0.5];
        let found = [true, true, false];
        let clean = vec![vec![0.9; 19]; 3];
        assert_eq!(stand_out(&found, &p_values, &clean, 0.05), found);
        // In other divisions of its own runs.
        let mut others = clean.clone();
        others[1][7] = 1e-5;
        assert_eq!(stand_out(&found, &p_values, &others, 0.05), [true, false, false]);
        // In those of a case that did not change: two of 19, for two cases found.
        let mut others = clean.clone();
        others[2][3..5].fill(1e-5);
        assert_eq!(stand_out(&found, &p_values, &others, 0.05), [true, false, false]);
        others[2][3] = 1e-7;
        assert_eq!(stand_out(&found, &p_values, &others, 0.05), [false; 3]);
        // A number that is none is found in no division.
        assert_eq!(stand_out(&[false], &[f64::NAN], &[vec![f64::NAN]], 0.05), [false]);
    }
}
