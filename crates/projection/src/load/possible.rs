//! Whether what a client states of a level of load can be true together.

use super::level::Level;
use fizeau_domain::number::brief;

/// By how much more requests than stated may be under way: what is rounded, and requests that began
/// before the time that is measured.
const OVER: f64 = 1.1;

/// The same where the time of a whole request follows from mean times and mean lengths: long
/// answers may have other times of a token than short ones.
const OVER_MEANS: f64 = 2.0;

/// A process of arrivals is at most this many standard deviations above its mean.
const DEVIATIONS: f64 = 6.0;

/// What cannot be: more requests under way than were ever sent at once (Little 1961: their mean
/// number is the rate of answers times the mean time of a request), or more answers than requests.
/// Where requests come in bursts, or nothing is stated, nothing is said.
pub fn contradictions(level: &Level) -> Vec<String> {
    let (answered, duration) = (level.answered as f64, level.duration);
    let mut words = Vec::new();
    if answered <= 0.0 || !duration.is_finite() || duration <= 0.0 {
        return words;
    }
    let mean = |times: &Option<super::times::Times>| times.as_ref().and_then(|one| one.mean);
    let of_parts = || Some(mean(&level.ttft)? + level.decode_time()?);
    let whole = match mean(&level.e2el) {
        Some(whole) => Some((whole, OVER)),
        None => of_parts().map(|whole| (whole, OVER_MEANS)),
    };
    if let (Some(most), Some((whole, over))) = (level.offered.concurrency, whole) {
        // Requests that overlap the beginning or the end are counted whole.
        let room = f64::from(most) * (duration + whole);
        if answered * whole > over * room {
            words.push(format!(
                "{} answers of {} s each in {} s are {} requests under way on average, and at most \
                 {most} are said to be sent at once: one of these is wrong",
                brief(answered),
                brief(whole),
                brief(duration),
                brief(answered * whole / duration)
            ));
        }
    }
    if let (Some(rate), None | Some(1.0)) = (level.offered.rate, level.offered.burstiness) {
        let sent = rate * duration;
        if answered > sent * OVER + DEVIATIONS * sent.sqrt() + 1.0 {
            words.push(format!(
                "{} requests/s were answered, and {} requests/s are said to be sent: one of these \
                 is wrong",
                brief(answered / duration),
                brief(rate)
            ));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{
        level::{Limits, Offered},
        times::Times,
    };

    /// 200 answers in 50 s.
    fn level(offered: Offered, e2el: Option<f64>) -> Level {
        let mut level =
            Level::of(offered, Vec::new(), Default::default(), 50.0, &Limits::default());
        level.answered = 200;
        level.e2el = Times::of_summary(200, e2el, Vec::new());
        level
    }

    #[test]
    fn no_more_requests_are_under_way_than_are_sent_at_once() {
        let of = |most, whole| contradictions(&level(Offered::stated(None, None, most), whole));
        assert_eq!(of(Some(6), Some(1.37)), Vec::<String>::new());
        let words = of(Some(1), Some(1.37));
        assert!(words.len() == 1 && words[0].contains("5.48 requests under way"), "{words:?}");
        assert_eq!(of(None, Some(1.37)), Vec::<String>::new());
        assert_eq!(of(Some(1), None), Vec::<String>::new());
        // One long request that began before the time that is measured.
        let mut few = level(Offered::stated(None, None, Some(1)), Some(60.0));
        few.answered = 1;
        assert_eq!(contradictions(&few), Vec::<String>::new());
    }

    #[test]
    fn no_more_requests_are_answered_than_are_sent() {
        let of = |rate, shape| contradictions(&level(Offered::stated(rate, shape, None), None));
        assert_eq!(of(Some(4.0), None), Vec::<String>::new());
        assert_eq!(of(Some(3.0), Some(1.0)), Vec::<String>::new());
        let words = of(Some(1.5), Some(1.0));
        assert!(words.len() == 1 && words[0].contains("1.5 requests/s are said"), "{words:?}");
        // Bursts: a seed may have many at once.
        assert_eq!(of(Some(1.5), Some(0.2)), Vec::<String>::new());
    }

    #[test]
    fn nothing_is_said_of_a_level_without_answers_or_time() {
        let mut none = level(Offered::stated(Some(1.0), None, Some(1)), Some(9.0));
        none.answered = 0;
        assert_eq!(contradictions(&none), Vec::<String>::new());
        let mut never = level(Offered::stated(Some(1.0), None, Some(1)), Some(9.0));
        never.duration = 0.0;
        assert_eq!(contradictions(&never), Vec::<String>::new());
    }
}
