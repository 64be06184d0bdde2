//! How often chance alone gives one rank as many slow exchanges as a suspect had.
//!
//! `odds` takes healthy rates for normal ones. Rates of real networks have a longer tail to the
//! slow side, and of many ranks the unluckiest collects several slow exchanges by chance. So a
//! name also has to pass a test that takes nothing for granted but that healthy exchanges are
//! exchangeable: the rates of all exchanges that no other named suspect touches are dealt out
//! anew among these exchanges. How many of the slowest `K` of `M` fall to one rank with `n`
//! exchanges then has the hypergeometric distribution (Fisher's exact test; the rates
//! themselves decide what is slow), and the probability that any of `N` ranks gets that number
//! is at most `N` times that of one. This is the permutation test of the maximum without its
//! random numbers, so that it depends neither on a seed nor on the order of ranks.

/// Probability at most of naming a rank by chance, where healthy rates have any distribution.
pub const CHANCE_MAX: f64 = 0.05;

/// The probability, at most, that one of `suspects` gets rates as low as these by chance, where
/// `others` are all rates that are not its own, ascending.
///
/// Where slow ends is not known: each of the rates in `own` is tried. Half of the probability is
/// kept for a suspect that is slow in all of its exchanges, the other half is shared by those that
/// are slow in some.
pub fn p_of_any(own: &[f64], others: &[f64], suspects: usize) -> f64 {
    let mut own = own.to_vec();
    own.sort_by(f64::total_cmp);
    let count = own.len();
    let p = |slow: usize| {
        let limit = own[slow - 1];
        let own_slow = own.partition_point(|rate| *rate <= limit);
        let as_slow = own_slow + others.partition_point(|rate| *rate <= limit);
        p_of_count(suspects, count + others.len(), as_slow, [count, own_slow])
    };
    (1..=count).map(p).fold(1.0, f64::min)
}

/// The same for one limit: of `all` exchanges `slow` are as slow, and of its own `[all, slow]`.
pub fn p_of_count(suspects: usize, all: usize, slow: usize, [count, own_slow]: [usize; 2]) -> f64 {
    let tries = match own_slow == count {
        _ if count == 1 => 1.0,
        true => 2.0,
        false => 2.0 * (count - 1) as f64,
    };
    tries * suspects as f64 * tail(all, slow, count, own_slow)
}

/// Probability that at least `own_slow` of the `slow` slowest of `all` exchanges are among `own` of
/// them that are drawn at random (the hypergeometric distribution's upper tail).
pub fn tail(all: usize, slow: usize, own: usize, own_slow: usize) -> f64 {
    let most = slow.min(own);
    if own_slow > most {
        return 0.0;
    }
    let ways = ln_ways(all, own);
    let at = |hit: usize| {
        let misses = own - hit;
        if misses > all - slow {
            0.0
        } else {
            (ln_ways(slow, hit) + ln_ways(all - slow, misses) - ways).exp()
        }
    };
    (own_slow..=most).map(at).sum::<f64>().min(1.0)
}

/// Logarithm of the number of ways to choose `count` of `all`.
fn ln_ways(all: usize, count: usize) -> f64 {
    let steps = 1..=count.min(all - count);
    steps.map(|step| ((all - step + 1) as f64 / step as f64).ln()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shares of which the first ones are a suspect's own.
    fn p(own: &[f64], others: &[f64], suspects: usize) -> f64 {
        let mut others = others.to_vec();
        others.sort_by(f64::total_cmp);
        p_of_any(own, &others, suspects)
    }

    #[test]
    fn a_tail_is_as_counted() {
        // Of 10 exchanges 4 are slow; of the 210 ways to choose 4 one has all slow ones.
        assert!((tail(10, 4, 4, 4) - 1.0 / 210.0).abs() < 1e-12);
        // One of the 4 at least: all but the 15 ways to choose 4 of the 6 others.
        assert!((tail(10, 4, 4, 1) - 195.0 / 210.0).abs() < 1e-12);
        assert!((tail(10, 4, 4, 0) - 1.0).abs() < 1e-12);
        assert_eq!(tail(10, 2, 4, 3), 0.0);
        assert!((tail(5, 4, 3, 2) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_rank_that_is_slow_with_all_is_beyond_chance_and_an_unlucky_one_is_not() {
        let healthy: Vec<f64> = (0..56).map(|at| 1.0 + 0.001 * f64::from(at)).collect();
        assert!(p(&[0.8; 4], &healthy, 16) < 1e-3);
        // Slow in 3 of 10, where a fifteenth of all exchanges is.
        let tailed = |slow: usize| [&[0.9].repeat(slow)[..], &[1.0].repeat(310 - slow)].concat();
        let unlucky = [&[0.9; 3][..], &[1.0; 7]].concat();
        assert_eq!(p(&unlucky, &tailed(18), 64), 1.0);
        assert!(p(&unlucky, &tailed(0), 64) < 0.05);
        // One that is slow in all 10 is beyond the same tail.
        assert!(p(&[0.9; 10], &tailed(18), 64) < 1e-6);
        // Where every exchange is slow nobody is.
        assert_eq!(p(&[0.9; 10], &tailed(310), 64), 1.0);
    }
}
