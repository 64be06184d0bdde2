//! A level of load over time: how many requests are under way, and what drifts while it lasts.

use super::{
    level,
    row::{Ending, Row},
};
use fizeau_domain::stats::{interval::ratio_interval, quantile};

/// The most windows that a level is divided into.
const WINDOWS_MAX: usize = 60;

/// A window holds this many requests on average, or more.
const PER_WINDOW: usize = 10;

/// Each third of a level has to have this many requests before the last is set beside the first.
const PER_THIRD: usize = 30;

/// A change of a median below this is called no drift: users do not feel it.
pub const DRIFT_LEAST: f64 = 0.05;

/// A share of arrivals that is answered while others arrive: below it, requests pile up.
const KEEPS_UP: f64 = 0.95;

/// The share of a level that is looked at for that, at least: where requests take longer than the
/// rest of it, the level is too short to tell.
const WINDOW_LEAST: f64 = 0.2;

/// So far above the scatter of a Poisson count a difference is no chance.
const DEVIATIONS: f64 = 2.0;

/// What happened in a part of a level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Its beginning and end, seconds since the level began.
    pub from: f64,
    /// See `from`.
    pub to: f64,
    /// Requests that were scheduled in it.
    pub scheduled: u64,
    /// Of these, those that were not answered.
    pub failed: u64,
    /// Answers that ended in it.
    pub answered: u64,
    /// Requests under way, averaged over it, from their scheduled moment to their end.
    pub under_way: f64,
    /// Median TTFT of those that were scheduled in it, seconds.
    pub ttft: Option<f64>,
    /// Median TPOT, likewise.
    pub tpot: Option<f64>,
}

/// How a time changed from the first third of a level's requests to the last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// Which time: TTFT, TPOT, E2EL.
    pub name: &'static str,
    /// The median of the last third over that of the first.
    pub ratio: f64,
    /// Its 95 % interval.
    pub low: f64,
    /// See `low`.
    pub high: f64,
    /// Whether there are independent requests enough for the interval.
    pub is_known: bool,
}

impl Drift {
    /// Whether it changed by more than chance, and by enough to be felt.
    pub fn is_shown(&self) -> bool {
        let is_apart = self.low > 1.0 || self.high < 1.0;
        self.is_known && is_apart && (self.ratio - 1.0).abs() >= DRIFT_LEAST
    }
}

/// A level over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OverTime {
    /// Parts of equal length, warm-up left out.
    pub windows: Vec<Window>,
    /// What changed; empty where there are too few requests to tell.
    pub drifts: Vec<Drift>,
    /// Of an open loop: requests that ended in the second half of the time in which requests were
    /// scheduled (later, where the first ones take longer), over those that were scheduled in it.
    /// None where the level is too short to tell.
    pub answered_of_arrived: Option<f64>,
    /// Whether that is less than a server reaches that keeps up, by more than chance.
    pub piles_up: bool,
}

impl OverTime {
    /// Of the measured requests of a level, in the order in which they were scheduled.
    pub fn of(rows: &[&Row], is_open: bool) -> Option<OverTime> {
        let begin = rows.first()?.scheduled;
        let last = rows.iter().map(|row| row.scheduled).fold(begin, f64::max);
        let end = rows.iter().map(|row| row.ended).fold(last, f64::max);
        let mut over = OverTime {
            windows: windows(rows, begin, end),
            drifts: drifts(rows),
            ..OverTime::default()
        };
        // Before the first requests have ended, none ends, however many come.
        let from = first_end(rows)?.max((begin + last) / 2.0);
        let within = |moment: f64| moment > from && moment <= last;
        let arrived = rows.iter().filter(|row| within(row.scheduled)).count() as f64;
        if is_open && arrived > 0.0 && last - from >= WINDOW_LEAST * (last - begin) {
            let ended = rows.iter().filter(|row| within(row.ended)).count() as f64;
            over.answered_of_arrived = Some(ended / arrived);
            over.piles_up =
                ended < KEEPS_UP * arrived && arrived - ended > DEVIATIONS * arrived.sqrt();
        }
        Some(over)
    }
}

/// When the first tenth of the requests had ended for the most part: from then on as many end as
/// arrive, unless requests pile up.
fn first_end(rows: &[&Row]) -> Option<f64> {
    let ends: Vec<f64> = rows[..rows.len().div_ceil(10)].iter().map(|row| row.ended).collect();
    ends.into_iter().reduce(f64::max)
}

fn windows(rows: &[&Row], begin: f64, end: f64) -> Vec<Window> {
    let count = (rows.len() / PER_WINDOW).min(WINDOWS_MAX);
    if count < 2 || end <= begin {
        return Vec::new();
    }
    let length = (end - begin) / count as f64;
    let place = |moment: f64| (((moment - begin) / length) as usize).min(count - 1);
    let mut windows: Vec<Window> = (0..count)
        .map(|at| Window {
            from: begin + at as f64 * length,
            to: begin + (at + 1) as f64 * length,
            scheduled: 0,
            failed: 0,
            answered: 0,
            under_way: 0.0,
            ttft: None,
            tpot: None,
        })
        .collect();
    let (mut firsts, mut tokens) = (vec![Vec::new(); count], vec![Vec::new(); count]);
    for row in rows {
        let (from, to) = (place(row.scheduled), place(row.ended));
        windows[from].scheduled += 1;
        if row.ending == Ending::Answered {
            windows[to].answered += 1;
            firsts[from].extend(ttft(row));
            tokens[from].extend(tpot(row));
        } else {
            windows[from].failed += 1;
        }
        for window in &mut windows[from..=to.max(from)] {
            let part = row.ended.min(window.to) - row.scheduled.max(window.from);
            window.under_way += part.max(0.0) / length;
        }
    }
    let median = |values: &[f64]| (!values.is_empty()).then(|| quantile::median(values));
    for ((window, firsts), tokens) in windows.iter_mut().zip(&firsts).zip(&tokens) {
        (window.ttft, window.tpot) = (median(firsts), median(tokens));
    }
    windows
}

fn ttft(row: &Row) -> Option<f64> {
    level::request(row).measured().ttft
}

fn tpot(row: &Row) -> Option<f64> {
    level::request(row).measured().tpot()
}

fn drifts(rows: &[&Row]) -> Vec<Drift> {
    let answered: Vec<&Row> =
        rows.iter().copied().filter(|row| row.ending == Ending::Answered).collect();
    let third = answered.len() / 3;
    if third < PER_THIRD {
        return Vec::new();
    }
    type Time = fn(&Row) -> Option<f64>;
    let times: [(&'static str, Time); 3] = [("TTFT", ttft), ("TPOT", tpot), ("E2EL", Row::e2el)];
    let drift = |(name, time): (&'static str, Time)| {
        let values = |rows: &[&Row]| -> Vec<f64> {
            let times = rows.iter().filter_map(|row| time(row));
            times.filter(|time| *time > 0.0).collect()
        };
        let (first, last) = (values(&answered[..third]), values(&answered[2 * third..]));
        if first.len().min(last.len()) < PER_THIRD {
            return None;
        }
        let (low, high, is_known) = ratio_interval(&first, &last);
        let ratio = quantile::median(&last) / quantile::median(&first);
        Some(Drift { name, ratio, low, high, is_known })
    };
    times.into_iter().filter_map(drift).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::random::{Purpose, Random};

    /// Requests of an open loop that take `time(moment)` each, and as much again by chance.
    fn rows(count: u32, time: impl Fn(f64) -> f64) -> Vec<Row> {
        let mut random = Random::new(3, 0, Purpose::Service);
        let row = |number: u32| {
            let scheduled = f64::from(number) * 0.1;
            let whole = time(scheduled) * (1.0 + random.unit());
            Row {
                number: number.into(),
                scheduled,
                sent: scheduled,
                first: Some(scheduled + whole / 2.0),
                last: Some(scheduled + whole),
                ended: scheduled + whole,
                output: Some(11),
                ..Row::default()
            }
        };
        (0..count).map(row).collect()
    }

    fn over(rows: &[Row]) -> OverTime {
        OverTime::of(&rows.iter().collect::<Vec<_>>(), true).expect("rows")
    }

    #[test]
    fn what_does_not_change_is_no_drift() {
        let over = over(&rows(600, |_| 0.5));
        assert_eq!(over.windows.len(), 60);
        assert!(over.drifts.iter().all(|drift| drift.is_known && !drift.is_shown()), "{over:?}");
        assert!(!over.piles_up, "{:?}", over.answered_of_arrived);
        // Little's law: 10 requests a second, 0.75 s each on average.
        let inner = &over.windows[5..50];
        let mean = inner.iter().map(|one| one.under_way).sum::<f64>() / inner.len() as f64;
        assert!((mean / 7.5 - 1.0).abs() < 0.05, "{mean}");
        assert_eq!(over.windows.iter().map(|one| one.answered).sum::<u64>(), 600);
    }

    #[test]
    fn what_grows_drifts_and_a_queue_piles_up() {
        let slower = over(&rows(600, |moment| 0.5 + moment / 120.0));
        assert!(slower.drifts.iter().all(Drift::is_shown), "{:?}", slower.drifts);
        let queue = over(&rows(600, |moment| 0.5 + moment / 3.0));
        assert!(queue.piles_up && queue.answered_of_arrived.is_some_and(|share| share < 0.9));
    }

    #[test]
    fn slow_answers_are_no_queue() {
        // 60 s of requests that take the same time each, be it most of the level.
        for time in [10.0, 20.0, 25.0, 35.0, 50.0, 80.0] {
            let over = over(&rows(600, |_| time / 1.5));
            assert!(!over.piles_up, "{time} s: {:?}", over.answered_of_arrived);
            assert!(over.answered_of_arrived.is_none_or(|share| share > 0.95), "{time} s");
        }
    }

    #[test]
    fn few_requests_tell_nothing() {
        let few = over(&rows(15, |_| 0.5));
        assert!(few.windows.is_empty() && few.drifts.is_empty() && !few.piles_up);
        assert_eq!(OverTime::of(&[], true), None);
    }
}
