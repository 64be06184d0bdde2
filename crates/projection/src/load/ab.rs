//! Two servers or settings, A and B, under the same load in alternating rounds: which metric
//! differs, and by how much.
//!
//! A round is one run of each side. What is compared is the round and not the request: requests of
//! a run share its queue, its neighbours and its clocks, so that a thousand of them are one
//! observation of these. For each metric the logarithms of B / A of all rounds are tested by
//! Student's paired t-test, as `fizeau_judge::ab` tests its pairs: the hypothesis is that B differs
//! by no more than the least effect. Holm's procedure over all metrics bounds the probability of
//! even one wrong finding. The number of rounds is fixed beforehand and the test is made once, at
//! the end.
//!
//! Odd rounds send to A first, even ones to B (A B, B A, A B, ..): a drift of the machine and
//! whatever the second run of a round gains cancel over an even number of rounds.

use super::level::Level;
use fizeau_domain::{
    stats::student::{self, VARIANCE_MIN, Variance},
    text::counted,
    verdict::Verdict,
};
pub use fizeau_judge::ab::Arm;

/// Fewer rounds hardly know their own scatter: to be found among nine metrics, one has to differ by
/// 3.6 standard deviations between rounds where there are four, by 2.4 of five, by 1.9 of six.
pub const ROUNDS_MIN: usize = 5;

/// The least relative difference that counts where nothing else is asked for: below 1 % lie the
/// order of sending, the client, and rounds that end a little earlier or later.
pub const LEAST_EFFECT: f64 = 0.01;

/// The probability that any metric is called different wrongly, where nothing else is asked for.
pub const ERROR_RATE: f64 = 0.05;

/// Tail probability on each side of a 95 % interval.
const TAIL: f64 = 0.025;

/// "Rounds see differences from": found with a probability of 1 - this.
const MISSED: f64 = 0.2;

/// Above this share of failed requests a round is named.
const FAILED_STATED: f64 = 0.05;

/// Lengths of prompts or answers of the two sides that differ by more than this are named.
const TOKENS_OFF: f64 = 0.02;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Median time to the first token.
    TtftP50,
    /// Its 99th percentile.
    TtftP99,
    /// Median time of one token more.
    TpotP50,
    /// Its 99th percentile.
    TpotP99,
    /// Median time to the last token.
    E2elP50,
    /// Its 99th percentile.
    E2elP99,
    /// Output tokens a second.
    TokenRate,
    /// The share of requests that were answered whole.
    Answered,
    /// Requests a second that keep the limits.
    Goodput,
}

impl Metric {
    /// All of them, in the order of reports.
    pub const ALL: [Metric; 9] = [
        Metric::TtftP50,
        Metric::TtftP99,
        Metric::TpotP50,
        Metric::TpotP99,
        Metric::E2elP50,
        Metric::E2elP99,
        Metric::TokenRate,
        Metric::Answered,
        Metric::Goodput,
    ];

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Metric::TtftP50 => "TTFT P50",
            Metric::TtftP99 => "TTFT P99",
            Metric::TpotP50 => "TPOT P50",
            Metric::TpotP99 => "TPOT P99",
            Metric::E2elP50 => "E2EL P50",
            Metric::E2elP99 => "E2EL P99",
            Metric::TokenRate => "output tokens/s",
            Metric::Answered => "share answered",
            Metric::Goodput => "goodput",
        }
    }

    /// Whether it is a time, which is better when it is shorter.
    pub const fn is_time(self) -> bool {
        !matches!(self, Metric::TokenRate | Metric::Answered | Metric::Goodput)
    }

    /// Its value in one run, seconds for times; none where it is not known or not above zero.
    pub fn of(self, level: &Level) -> Option<f64> {
        let at = |times: &Option<super::Times>, share| Some(times.as_ref()?.at(share)?.value);
        let value = match self {
            Metric::TtftP50 => at(&level.ttft, 0.5),
            Metric::TtftP99 => at(&level.ttft, 0.99),
            Metric::TpotP50 => at(&level.tpot, 0.5),
            Metric::TpotP99 => at(&level.tpot, 0.99),
            Metric::E2elP50 => at(&level.e2el, 0.5),
            Metric::E2elP99 => at(&level.e2el, 0.99),
            Metric::TokenRate => Some(level.token_rate()),
            Metric::Answered => {
                Some(level.answered as f64 / (level.answered + level.failures()).max(1) as f64)
            }
            Metric::Goodput => level.goodput,
        };
        value.filter(|value| value.is_finite() && *value > 0.0)
    }
}

/// Which side a round sends to first, rounds counted from 1.
pub fn order(round: u32) -> [Arm; 2] {
    if round % 2 == 1 { [Arm::A, Arm::B] } else { [Arm::B, Arm::A] }
}

/// One run of one side.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Its round, from 1.
    pub round: u32,
    /// Whose.
    pub arm: Arm,
    /// Whether it was sent to its end.
    pub is_whole: bool,
    /// What it met.
    pub level: Level,
}

/// What to judge by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The least relative difference that counts, such as 0.01.
    pub least_effect: f64,
    /// Probability that any metric is called different wrongly.
    pub error_rate: f64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { least_effect: LEAST_EFFECT, error_rate: ERROR_RATE }
    }
}

/// A metric in all rounds that have it on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Pairs {
    /// Which.
    pub metric: Metric,
    /// Of each such round, the values of A and B, both above zero.
    pub values: Vec<[f64; 2]>,
}

/// What is found of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// B's value is lower.
    Lower,
    /// B's value is higher.
    Higher,
    /// The 95 % interval lies within the least effect.
    Same,
    /// The rounds do not show a difference.
    Open,
    /// Fewer than [`ROUNDS_MIN`] rounds have it on both sides.
    TooFew,
}

/// A metric, judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Which.
    pub metric: Metric,
    /// Rounds that have it on both sides.
    pub rounds: usize,
    /// Its geometric means over these rounds, of A and B.
    pub means: [f64; 2],
    /// The geometric mean of B / A.
    pub ratio: f64,
    /// 95 % interval of the ratio, by this metric alone.
    pub interval: Option<[f64; 2]>,
    /// Probability of such a difference or a larger one where the truth is the least effect.
    pub p_value: Option<f64>,
    /// The relative difference that this many rounds of this scatter find with a probability of
    /// 80 %, even where this metric is the only one that differs.
    pub seen_from: Option<f64>,
    /// What is found.
    pub way: Way,
}

/// The pairs of all metrics that any round has on both sides.
pub fn pairs(rounds: &[[&Level; 2]]) -> Vec<Pairs> {
    let of = |metric: Metric| {
        let values = rounds.iter().filter_map(|[a, b]| Some([metric.of(a)?, metric.of(b)?]));
        Pairs { metric, values: values.collect() }
    };
    Metric::ALL.into_iter().map(of).filter(|pairs| !pairs.values.is_empty()).collect()
}

/// Judges metrics, which are one family: at most one in 1 / `error_rate` of such judgements names a
/// difference that is not there.
pub fn judge(pairs: &[Pairs], settings: &Settings) -> Vec<Judged> {
    let tested = pairs.iter().filter(|one| one.values.len() >= ROUNDS_MIN).count();
    let mut known = Quantiles::default();
    let mut judged: Vec<Judged> =
        pairs.iter().map(|one| test(one, settings, tested, &mut known)).collect();
    let p_values: Vec<f64> = judged.iter().filter_map(|one| one.p_value).collect();
    let found = student::family_wise(&p_values, settings.error_rate);
    let limit = settings.least_effect.ln_1p();
    let tested = judged.iter_mut().filter(|one| one.p_value.is_some());
    for (one, is_found) in tested.zip(found) {
        let is_within = one.interval.is_some_and(|[low, high]| {
            low.ln() >= -limit && high.ln() <= limit && settings.least_effect > 0.0
        });
        one.way = match (is_found, is_within) {
            (true, _) if one.ratio < 1.0 => Way::Lower,
            (true, _) => Way::Higher,
            (false, true) => Way::Same,
            (false, false) => Way::Open,
        };
    }
    judged
}

/// Quantiles of Student's t with some degrees of freedom; most metrics have the same.
#[derive(Clone, Copy, Debug, Default)]
struct Quantiles {
    freedom: f64,
    /// Exceeded with the tail probability of a 95 % interval.
    interval: f64,
    /// What the first step of Holm's procedure asks for, of two directions, and what lies above it
    /// with the probability of a finding.
    finding: f64,
}

impl Quantiles {
    fn of(freedom: f64, error_rate: f64, family: usize) -> Quantiles {
        let strictest = error_rate / (2 * family.max(1)) as f64;
        let needed = student::exceeded_with(strictest.min(0.49), freedom);
        let spare = student::exceeded_with(MISSED, freedom);
        let interval = student::exceeded_with(TAIL, freedom);
        Quantiles { freedom, interval, finding: needed + spare }
    }
}

/// The test of one metric among `family`; its `way` is not yet known.
fn test(pairs: &Pairs, settings: &Settings, family: usize, known: &mut Quantiles) -> Judged {
    let count = pairs.values.len();
    let logs =
        |of: &dyn Fn(&[f64; 2]) -> f64| -> Vec<f64> { pairs.values.iter().map(of).collect() };
    let mean = |logs: Vec<f64>| logs.iter().sum::<f64>() / count.max(1) as f64;
    let means = [0, 1].map(|side| mean(logs(&|pair| pair[side].ln())).exp());
    let ratios = logs(&|[a, b]| (b / a).ln());
    let mut judged = Judged {
        metric: pairs.metric,
        rounds: count,
        means,
        ratio: means[1] / means[0],
        interval: None,
        p_value: None,
        seen_from: None,
        way: Way::TooFew,
    };
    if count < ROUNDS_MIN {
        return judged;
    }
    let (mean, Variance { value, freedom }) = student::mean_and_variance(&ratios);
    let error = (value.max(VARIANCE_MIN) / count as f64).sqrt();
    let limit = settings.least_effect.ln_1p();
    let tail = |distance: f64| student::upper_tail(distance / error, freedom);
    judged.p_value = Some((tail(mean.abs() - limit) + tail(mean.abs() + limit)).min(1.0));
    if known.freedom != freedom {
        *known = Quantiles::of(freedom, settings.error_rate, family);
    }
    let reach = error * known.interval;
    judged.interval = Some([(mean - reach).exp(), (mean + reach).exp()]);
    judged.seen_from = Some((limit + error * known.finding).exp_m1());
    judged
}

/// Whether B may take A's place where it must not be worse by more than a share in any metric: it
/// fails where a metric was found worse by more than that, passes where the intervals of all
/// metrics exclude that, and is inconclusive otherwise. Beside it the metrics that decided.
pub fn gate(judged: &[Judged], most: f64) -> (Verdict, Vec<Metric>) {
    let of = |one: &Judged| {
        // Above 1 where B is worse.
        let worse = |ratio: f64| if one.metric.is_time() { ratio } else { 1.0 / ratio };
        let is_excluded =
            one.interval.is_some_and(|[low, high]| worse(low).max(worse(high)) <= 1.0 + most);
        match one.is_better() {
            Some(false) if worse(one.ratio) > 1.0 + most => Verdict::Fail,
            _ if is_excluded => Verdict::Pass,
            _ => Verdict::Inconclusive,
        }
    };
    let verdict = judged.iter().map(of).reduce(Verdict::and).unwrap_or(Verdict::Inconclusive);
    let decides = |one: &&Judged| verdict != Verdict::Pass && of(one) == verdict;
    (verdict, judged.iter().filter(decides).map(|one| one.metric).collect())
}

impl Judged {
    /// The verdict in words: "B is 4.0 % faster (2.1 to 5.9 %)".
    pub fn words(&self, settings: &Settings) -> String {
        let least = settings.least_effect;
        match self.way {
            Way::Lower | Way::Higher => {
                let sign = if self.way == Way::Lower { -1.0 } else { 1.0 };
                let by = |ratio: f64| sign * (ratio - 1.0);
                let [low, high] = self.interval.unwrap_or([self.ratio; 2]);
                let (least, most) = (by(low).min(by(high)), by(low).max(by(high)));
                let word = match (self.way, self.metric.is_time()) {
                    (Way::Lower, true) => "faster",
                    (Way::Lower, false) => "lower",
                    (_, true) => "slower",
                    (_, false) => "higher",
                };
                let (by, least, most) = (percent(by(self.ratio)), percent(least), percent(most));
                format!("B is {by} % {word} ({least} to {most} %)")
            }
            Way::Same => format!("no difference of {} % or more", percent(least)),
            Way::Open => format!(
                "no difference shown; differences from about {1} % would show in {0}",
                counted(self.rounds, "round"),
                percent(self.seen_from.unwrap_or(f64::INFINITY))
            ),
            Way::TooFew => format!(
                "not judged: {} of the {ROUNDS_MIN} rounds that it takes at least",
                self.rounds
            ),
        }
    }

    /// Whether B is better in it; none where no difference is found.
    pub fn is_better(&self) -> Option<bool> {
        match self.way {
            Way::Lower => Some(self.metric.is_time()),
            Way::Higher => Some(!self.metric.is_time()),
            Way::Same | Way::Open | Way::TooFew => None,
        }
    }
}

/// A share in percent, with two digits or more.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent.abs() {
        large if large >= 9.95 => format!("{percent:.0}"),
        large if large >= 0.995 => format!("{percent:.1}"),
        _ => format!("{percent:.2}"),
    }
}

/// All runs of both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The model, as A names it.
    pub model: String,
    /// What A and B are, in words.
    pub sides: [String; 2],
    /// What both were sent, in words.
    pub load: Vec<String>,
    /// Rounds that were asked for.
    pub planned: u32,
    /// Runs in the order in which they were sent.
    pub runs: Vec<Run>,
    /// What to judge by.
    pub settings: Settings,
    /// Whether it was interrupted.
    pub is_interrupted: bool,
    /// What else to know of it.
    pub notes: Vec<String>,
}

impl Trial {
    /// A run of a round that can be judged: it was sent to its end, and its client was on time.
    fn run(&self, round: u32, arm: Arm) -> Option<&Run> {
        let is_one = |run: &&Run| run.round == round && run.arm == arm;
        self.runs.iter().filter(is_one).find(|run| run.is_whole && run.level.late.is_none())
    }

    /// The rounds of which both sides were sent to their end by a client that was on time, with
    /// their numbers.
    pub fn complete(&self) -> Vec<(u32, [&Level; 2])> {
        let both = |round| {
            let (a, b) = (self.run(round, Arm::A)?, self.run(round, Arm::B)?);
            Some((round, [&a.level, &b.level]))
        };
        (1..=self.planned).filter_map(both).collect()
    }

    /// All metrics, judged by the complete rounds.
    pub fn judged(&self) -> Vec<Judged> {
        let rounds: Vec<[&Level; 2]> = self.complete().into_iter().map(|(_, both)| both).collect();
        judge(&pairs(&rounds), &self.settings)
    }

    /// Requests that a side answered in all of its runs.
    pub fn answered(&self, arm: Arm) -> u64 {
        self.runs.iter().filter(|run| run.arm == arm).map(|run| run.level.answered).sum()
    }

    /// What to know before believing the verdicts.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.notes.clone();
        for run in &self.runs {
            let Level { answered, .. } = run.level;
            let (failed, name) = (run.level.failures(), name(run.arm));
            let all = answered + failed;
            if !run.is_whole {
                warnings.push(format!(
                    "round {}, {name}: it was interrupted after {}; the round is not judged",
                    run.round,
                    counted(all as usize, "request")
                ));
            } else if let Some(late) = run.level.late {
                warnings.push(format!(
                    "round {}, {name}: {}; the round is in no verdict",
                    run.round,
                    late.words(true)
                ));
            } else if answered == 0 {
                warnings.push(format!(
                    "round {}, {name}: none of {all} requests was answered; the round is in no \
                     verdict",
                    run.round
                ));
            } else if failed as f64 > FAILED_STATED * all as f64 {
                warnings.push(format!(
                    "round {}, {name}: {failed} of {all} requests failed; times are of those that \
                     were answered, which may be the easier ones",
                    run.round
                ));
            }
        }
        let complete = self.complete();
        for (side, arm) in [Arm::A, Arm::B].into_iter().enumerate() {
            let is_none = |(_, both): &&(u32, [&Level; 2])| both[side].goodput == Some(0.0);
            let none = complete.iter().filter(is_none).count();
            if none > 0 {
                warnings.push(format!(
                    "no request of {} kept the limits in {none} of {} complete rounds, which have \
                     no ratio of goodput",
                    name(arm),
                    complete.len()
                ));
            }
        }
        for (what, of) in [
            ("prompts", (|level| level.input) as fn(&Level) -> f64),
            ("answers", |level| level.output),
        ] {
            let mean = |side: usize| {
                complete.iter().map(|(_, both)| of(both[side])).sum::<f64>() / complete.len() as f64
            };
            let [a, b] = [mean(0), mean(1)];
            if a > 0.0 && b > 0.0 && (b / a).ln().abs() > TOKENS_OFF.ln_1p() {
                warnings.push(format!(
                    "{what} have {a:.1} tokens on average at A and {b:.1} at B, as the servers \
                     count them: the two did not do the same work"
                ));
            }
        }
        for run in &self.runs {
            let note = |note: &String| format!("round {}, {}: {note}", run.round, name(run.arm));
            warnings.extend(run.level.notes.iter().map(note));
        }
        warnings
    }
}

/// A or B.
pub const fn name(arm: Arm) -> &'static str {
    match arm {
        Arm::A => "A",
        Arm::B => "B",
    }
}
