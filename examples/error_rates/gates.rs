//! How often `compare` and `ab` fail machines that did not change, and find changes that were
//! planted.

use super::{
    machine::{CASES, Moments, Noise, Planted, id},
    random::Random,
    table::{markdown, percent},
};
use fizeau_domain::{units::Seconds, verdict::Verdict};
use fizeau_judge::{
    ab::{self, Arm, Fate, Found, Pairs, Settings},
    compare::{
        FALSE_DISCOVERIES, THRESHOLD,
        judge::{self, Direction, Observed, Rule},
    },
};
use std::convert::Infallible;

/// The samples of a run leave this much open on each side of a ratio, as a logarithm.
const WITHIN: [f64; 2] = [0.003; 2];

/// What became of many simulated judgements.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// How many were simulated.
    pub runs: usize,
    /// That failed.
    pub failed: usize,
    /// That called at least one of the planted cases slower, or their group.
    pub found: usize,
    /// Planted cases, in all runs.
    pub planted: usize,
    /// Of these, called slower.
    pub named: usize,
    /// That said "differs", of a case that took longer.
    pub differed: usize,
    /// Measurements, in all runs.
    pub measured: usize,
    /// That were inconclusive.
    pub inconclusive: usize,
    /// Of the planted cases, by [`Fate::ALL`].
    pub fates: [usize; Fate::ALL.len()],
}

/// Simulates `fizeau compare` with so many runs of A and of B.
pub fn compare(noise: Noise, planted: Planted, sides: [usize; 2], runs: usize, seed: u64) -> Rates {
    let mut random = Random::new(seed, sides[0] as u64);
    let rule = Rule { threshold: THRESHOLD, false_discoveries: FALSE_DISCOVERIES };
    let ids: Vec<String> = (0..CASES).map(id).collect();
    let mut rates =
        Rates { runs, measured: (sides[0] + sides[1]) * CASES * runs, ..Rates::default() };
    for _ in 0..runs {
        let [before, after] = sides
            .map(|side| -> Vec<Vec<f64>> { (0..side).map(|_| noise.run(&mut random)).collect() });
        let observed: Vec<Observed> = (0..CASES)
            .map(|case| Observed {
                id: ids[case].clone(),
                before: before.iter().map(|run| run[case]).collect(),
                after: after.iter().map(|run| run[case] + planted.at(case)).collect(),
                within: WITHIN,
                counts: true,
            })
            .collect();
        let judged = judge::judge(&observed, &rule);
        let slower = |case: &usize| judged.cases[*case].way == Direction::Slower;
        let named = (0..CASES).filter(|&case| planted.is_in(case)).filter(slower).count();
        let group = judged.groups.iter().any(|group| group.way == Direction::Slower);
        rates.failed += usize::from(group || (0..CASES).any(|case| slower(&case)));
        rates.found += usize::from(named > 0 || group);
        rates.named += named;
        rates.planted += (0..CASES).filter(|&case| planted.is_in(case)).count();
        let differs =
            judged.cases.iter().any(|one| one.way == Direction::Differs && one.ratio > 1.0);
        rates.differed += usize::from(differs);
    }
    rates
}

/// Simulates `fizeau ab`.
pub fn ab(noise: Noise, planted: Planted, runs: usize, seed: u64) -> Rates {
    let ids: Vec<String> = (0..CASES).map(id).collect();
    let mut rates = Rates { runs, ..Rates::default() };
    for run in 0..runs as u64 {
        let moments = Moments::new(noise, Random::new(seed, run));
        let mut bench = Simulated { moments, planted, measured: 0 };
        let settings = Settings { seed: run, ..Settings::default() };
        let Ok(trial) = ab::run(&ids, settings, &mut bench);
        let slower = |case: &usize| trial.rows[*case].fate == Fate::Slower;
        let named = (0..CASES).filter(|&case| planted.is_in(case)).filter(slower).count();
        rates.failed += usize::from(trial.verdict() == Verdict::Fail);
        rates.found += usize::from(named > 0);
        rates.named += named;
        rates.planted += (0..CASES).filter(|&case| planted.is_in(case)).count();
        rates.measured += bench.measured;
        rates.inconclusive += usize::from(trial.verdict() == Verdict::Inconclusive);
        for row in (0..CASES).filter(|&case| planted.is_in(case)).map(|case| &trial.rows[case]) {
            let place = Fate::ALL.iter().position(|fate| *fate == row.fate);
            rates.fates[place.expect("it is one of all")] += 1;
        }
    }
    rates
}

struct Simulated {
    moments: Moments,
    planted: Planted,
    measured: usize,
}

impl Pairs for Simulated {
    type Error = Infallible;

    fn measure(&mut self, side: Arm, cases: &[usize]) -> Result<Vec<Found>, Infallible> {
        self.measured += cases.len();
        let one = |&case: &usize| {
            let planted = if side == Arm::B { self.planted.at(case) } else { 0.0 };
            Found::Time(Seconds((self.moments.next(case) + planted).exp()))
        };
        Ok(cases.iter().map(one).collect())
    }
}

/// The table of `compare` where nothing changed.
pub fn compare_unchanged(runs: usize, seed: u64) -> String {
    let row = |noise: &Noise| {
        let of = |sides| compare(*noise, Planted::Nothing, sides, runs, seed);
        let [single, two, five, three, four] = [[1, 1], [2, 2], [3, 2], [3, 3], [4, 4]].map(of);
        let of = |counts: [usize; 7]| counts.map(|count| percent(count, runs));
        let cells = of([
            single.failed,
            single.differed,
            two.failed,
            two.differed,
            five.failed,
            three.failed,
            four.failed,
        ]);
        std::iter::once(noise.name()).chain(cells).collect::<Vec<_>>()
    };
    let titles = [
        "noise between runs",
        "1 + 1 runs: fails, %",
        "says \"differs\" (exit code 4), %",
        "2 + 2 runs: fails, %",
        "says \"differs\", %",
        "3 + 2 runs: fails, %",
        "3 + 3 runs: fails, %",
        "4 + 4 runs: fails, %",
    ];
    let noises = Noise::ALL.iter().chain([&Noise::FamilyModes, &Noise::Bursts]);
    markdown(&titles, &noises.map(row).collect::<Vec<_>>())
}

/// The table of `compare` with planted changes.
pub fn compare_planted(runs: usize, seed: u64) -> String {
    let planted = [
        ([3, 3], Planted::OneCase(0.10)),
        ([3, 3], Planted::OneCase(0.20)),
        ([3, 3], Planted::EverySecond(0.10)),
        ([3, 3], Planted::Family(0.10)),
        ([2, 2], Planted::OneCase(0.20)),
        ([2, 2], Planted::Family(0.10)),
        ([2, 2], Planted::Family(0.20)),
    ];
    let row = |noise: &Noise| {
        let found = planted.map(|(sides, planted)| {
            let rates = compare(*noise, planted, sides, runs, seed);
            percent(rates.found, runs)
        });
        std::iter::once(noise.name()).chain(found).collect::<Vec<_>>()
    };
    let names = planted.map(|([a, b], planted)| format!("{a} + {b} runs: {}", planted.name()));
    let mut titles = vec!["noise between runs"];
    titles.extend(names.iter().map(String::as_str));
    let noises = Noise::ALL.iter().chain([&Noise::Bursts]);
    markdown(&titles, &noises.map(row).collect::<Vec<_>>())
}

/// The table of `ab`.
pub fn ab_table(runs: usize, seed: u64) -> String {
    let planted = [
        Planted::OneCase(0.05),
        Planted::OneCase(0.10),
        Planted::EverySecond(0.10),
        Planted::Family(0.05),
    ];
    let row = |noise: &Noise| {
        let same = ab(*noise, Planted::Nothing, runs, seed);
        let mut cells = vec![
            noise.name(),
            percent(same.failed, runs),
            percent(same.inconclusive, runs),
            format!("{:.1}", same.measured as f64 / (runs * CASES) as f64),
        ];
        cells.extend(planted.map(|planted| {
            let rates = ab(*noise, planted, runs, seed);
            match planted {
                Planted::OneCase(_) => percent(rates.found, runs),
                _ => format!(
                    "{} ({} of its cases)",
                    percent(rates.found, runs),
                    percent(rates.named, rates.planted)
                ),
            }
        }));
        cells
    };
    let names = planted.map(Planted::name);
    let mut titles = vec![
        "noise between runs",
        "nothing: fails, %",
        "inconclusive, %",
        "measurements for each case",
    ];
    titles.extend(names.iter().map(String::as_str));
    markdown(&titles, &Noise::ALL.iter().map(row).collect::<Vec<_>>())
}

/// Noise of one measurement in the table of fates, as a share.
pub const FATE_NOISES: [f64; 5] = [0.01, 0.02, 0.03, 0.05, 0.10];

/// What `ab` calls cases that truly changed by 5 %: all cases of one family of four.
pub fn ab_fates(runs: usize, seed: u64) -> String {
    let shown = [Fate::Slower, Fate::Faster, Fate::Unclear, Fate::Cleared, Fate::NoCandidate];
    let row = |(noise, by): (f64, f64)| {
        let rates = ab(Noise::Normal(noise), Planted::Family(by), runs.div_ceil(10), seed);
        let share = |fate: &Fate| {
            let place = Fate::ALL.iter().position(|one| one == fate);
            percent(place.map_or(0, |place| rates.fates[place]), rates.planted)
        };
        let name = Noise::Normal(noise).name();
        let by = format!("{:+.0} %", by * 100.0);
        [name, by].into_iter().chain(shown.iter().map(share)).collect::<Vec<_>>()
    };
    let rows = FATE_NOISES.into_iter().flat_map(|noise| [(noise, 0.05), (noise, -0.05)]);
    let mut titles = vec!["noise between runs".to_owned(), "planted in time".to_owned()];
    titles.extend(shown.iter().map(|fate| format!("{}, %", fate.name())));
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    markdown(&titles, &rows.map(row).collect::<Vec<_>>())
}
