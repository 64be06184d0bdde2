//! Two settings of one machine, A and B, in fresh pairs: whether B is slower or faster than A.
//!
//! Records that were made one after the other differ by what changed on the machine meanwhile.
//! Pairs do not: the two sides of a pair are measured within moments, each from scratch (new pages,
//! new process), in an order that alternates (A B, then B A). What remains is the scatter of pairs,
//! which the pairs themselves show.
//!
//! 1. **Screening.** All cases are measured as A, B, B, A: four runs of the whole plan. A case
//!    whose ratio lies beyond the least effect becomes a candidate; the others took no more than
//!    that and are left alone. Nothing of these measurements is used again, or chance would count
//!    twice.
//! 2. **Looks.** Candidates are measured in fresh pairs, their order shuffled anew each round.
//!    After 5, 9 and 15 pairs a paired t-test asks whether the case became slower by more than the
//!    least effect, and another whether it became faster: the hypothesis is that it did not. Both
//!    are asked of each candidate, whichever way its screening went. Holm's procedure over all
//!    candidates, with a share of the error rate for each look, bounds the probability of even one
//!    wrong finding in each direction. A candidate is cleared only where its whole interval lies
//!    within the least effect on both sides; else it is unclear.
//!
//! A caller can end a trial before ([`Pairs::ended`]): the look that would have come next is the
//! last, with the pairs that there are. No look is added, so that the bound holds.
//!
//! This module decides; the caller measures ([`Pairs`]). docs/appendix/error-rates.md has what the
//! rules cost, simulated.

use crate::compare::judge::{self, Direction, Group, Judged, Observed, Rule};
use fizeau_domain::{
    stats::student::{self, Variance},
    text::counted,
    units::Seconds,
    verdict::Verdict,
};
use oorandom::Rand64;

/// The least relative change that counts where nothing else is asked for.
pub const LEAST_EFFECT: f64 = 0.02;

/// The probability that any case is called slower wrongly, where nothing else is asked for. Cases
/// that are called faster have the same.
pub const ERROR_RATE: f64 = 0.02;

/// Pairs after which candidates are looked at, and each look's share of the error rate.
pub const LOOKS: [(u32, f64); 3] = [(5, 0.25), (9, 0.25), (15, 0.5)];

/// How often a pair is measured again where others' work disturbed it.
pub const ATTEMPTS: u32 = 3;

/// Fewer pairs than these are not tested: most of them were disturbed.
const PAIRS_MIN: usize = 4;

/// Tail probability on each side of a 95 % interval, which is what is printed. A case that changed
/// by more than the least effect is cleared with this probability at most, over all looks.
const TAIL: f64 = 0.025;

/// One of the two settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arm {
    /// What B is compared with.
    A,
    /// What is judged.
    B,
}

/// What became of a case that was measured once.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// Its median time.
    Time(Seconds),
    /// Others' work disturbed it, in words.
    Disturbed(String),
    /// It cannot be measured on this side, in words.
    Skipped(String),
    /// It failed, or its time cannot be believed, in words.
    Broken(String),
}

/// Who measures.
pub trait Pairs {
    /// Why measuring ended.
    type Error;

    /// Measures cases from scratch on one side, in this order; one result for each, fewer where the
    /// measurement was [ended](Pairs::ended).
    ///
    /// # Errors
    ///
    /// Where nothing more can be measured.
    fn measure(&mut self, side: Arm, cases: &[usize]) -> Result<Vec<Found>, Self::Error>;

    /// Told before each round of pairs: its number from 1 on, and its candidates.
    fn round(&mut self, _number: u32, _candidates: &[usize]) {}

    /// Told before a pair of a case is measured again, with what disturbed it.
    fn repeat(&mut self, _case: usize, _why: &str) {}

    /// Why nothing more is to be measured, in words; asked before each measurement. `None` where
    /// the trial goes its whole way.
    fn ended(&self) -> Option<String> {
        None
    }
}

/// What to judge by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The least relative change that counts, such as 0.02.
    pub least_effect: f64,
    /// Probability that any case is called slower wrongly.
    pub error_rate: f64,
    /// Of the order in which cases are measured.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { least_effect: LEAST_EFFECT, error_rate: ERROR_RATE, seed: 0 }
    }
}

/// What became of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// Measured as A; failed or invalid as B.
    Broken,
    /// Slower by more than the least effect.
    Slower,
    /// A candidate that the pairs could not decide.
    Unclear,
    /// Faster by more than the least effect.
    Faster,
    /// A candidate whose interval from fresh pairs lies within the least effect on both sides.
    Cleared,
    /// Screening showed no more than the least effect.
    NoCandidate,
    /// Not measured on a side.
    NotMeasured,
}

impl Fate {
    /// All of them, worst first.
    pub const ALL: [Fate; 7] = [
        Fate::Broken,
        Fate::Slower,
        Fate::Unclear,
        Fate::Faster,
        Fate::Cleared,
        Fate::NoCandidate,
        Fate::NotMeasured,
    ];

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Fate::Broken => "broken",
            Fate::Slower => "slower",
            Fate::Unclear => "unclear",
            Fate::Faster => "faster",
            Fate::Cleared => "cleared",
            Fate::NoCandidate => "no candidate",
            Fate::NotMeasured => "not measured",
        }
    }
}

/// One case, judged.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedCase {
    /// Its id.
    pub id: String,
    /// What became of it.
    pub fate: Fate,
    /// Mean ratio of times B / A: of the fresh pairs, or of the screening where there are none.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio from the fresh pairs.
    pub interval: Option<[f64; 2]>,
    /// Fresh pairs measured.
    pub pairs: u32,
    /// Why it was not measured or not decided, or how it broke.
    pub note: Option<String>,
}

/// All cases, judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// What was judged by.
    pub settings: Settings,
    /// One for each case, in order.
    pub rows: Vec<JudgedCase>,
    /// Groups of cases of which many changed in the same direction.
    pub groups: Vec<Group>,
    /// Pairs that were measured again because other work disturbed them.
    pub repeated: u32,
    /// Why it ended before every candidate was decided or had all its pairs, in words.
    pub ended: Option<String>,
}

impl Trial {
    /// How many cases have a fate.
    pub fn count(&self, fate: Fate) -> usize {
        self.rows.iter().filter(|row| row.fate == fate).count()
    }

    /// The verdict on B: a case that is slower or broken fails it; it is inconclusive where more
    /// cases are unclear or not measured than are decided, or none is.
    pub fn verdict(&self) -> Verdict {
        let decided =
            self.count(Fate::Faster) + self.count(Fate::Cleared) + self.count(Fate::NoCandidate);
        let unknown = self.count(Fate::Unclear) + self.count(Fate::NotMeasured);
        let is_worse = self.count(Fate::Slower) + self.count(Fate::Broken) > 0;
        let worse = is_worse.then_some(Verdict::Fail);
        let passed = (decided > 0).then_some(Verdict::Pass);
        let unclear = (unknown > decided).then_some(Verdict::Inconclusive);
        Verdict::on_all([worse, passed, unclear].into_iter().flatten())
    }
}

/// Screens all cases and looks at the candidates. Where it is [ended](Pairs::ended) before, the
/// next look is the last.
///
/// # Errors
///
/// Where nothing more can be measured.
pub fn run<P: Pairs>(ids: &[String], settings: Settings, pairs: &mut P) -> Result<Trial, P::Error> {
    let random = Rand64::new(u128::from(settings.seed) << 64 | 0xab);
    let cases = (0..ids.len()).map(|_| State::default()).collect();
    let mut course = Course { settings, cases, random, repeated: 0, ended: None };
    course.screen(pairs)?;
    let mut round = 0;
    for (until, share) in LOOKS {
        while round < until && course.ended.is_none() && course.active().next().is_some() {
            round += 1;
            course.round(round, pairs)?;
        }
        course.look(share);
        if course.ended.is_some() {
            break;
        }
    }
    Ok(course.end(ids))
}

/// What is known of a case while it runs.
#[derive(Clone, Debug, Default)]
struct State {
    /// Logarithms of B / A in the screening.
    screened: Vec<f64>,
    /// Whether the screening left it to fresh pairs.
    is_candidate: bool,
    /// Logarithms of B / A of its fresh pairs.
    logs: Vec<f64>,
    fate: Option<Fate>,
    note: Option<String>,
}

impl State {
    fn is_active(&self) -> bool {
        self.is_candidate && self.fate.is_none()
    }

    /// Takes the two sides of a pair, whichever was first; what it comes to as a logarithm. `None`
    /// where there is none.
    fn pair(&mut self, a: &Found, b: &Found) -> Option<f64> {
        match (a, b) {
            (Found::Time(a), Found::Time(b)) => {
                let log = (*b / *a).ln();
                return Some(log).filter(|log| log.is_finite());
            }
            (Found::Time(_) | Found::Disturbed(_), Found::Broken(why)) => {
                (self.fate, self.note) = (Some(Fate::Broken), Some(format!("B: {why}")));
            }
            (Found::Disturbed(why), _) => self.note = Some(format!("A: {why}")),
            (_, Found::Disturbed(why)) => self.note = Some(format!("B: {why}")),
            (Found::Skipped(why) | Found::Broken(why), _) => {
                (self.fate, self.note) = (Some(Fate::NotMeasured), Some(format!("A: {why}")));
            }
            (_, Found::Skipped(why)) => {
                (self.fate, self.note) = (Some(Fate::NotMeasured), Some(format!("B: {why}")));
            }
        }
        None
    }

    /// Mean of its fresh pairs, its error and the degrees of freedom.
    fn test(&self) -> Option<(f64, f64, f64)> {
        if self.logs.len() < PAIRS_MIN {
            return None;
        }
        let (mean, Variance { value, freedom }) = student::mean_and_variance(&self.logs);
        let value = value.max(student::VARIANCE_MIN);
        Some((mean, (value / self.logs.len() as f64).sqrt(), freedom))
    }
}

struct Course {
    settings: Settings,
    cases: Vec<State>,
    random: Rand64,
    repeated: u32,
    ended: Option<String>,
}

impl Course {
    fn limit(&self) -> f64 {
        self.settings.least_effect.ln_1p()
    }

    fn active(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.cases.len()).filter(|&at| self.cases[at].is_active())
    }

    /// Measures one pair of some cases; `None` where the trial ends before the pair does.
    fn pair<P: Pairs>(
        &mut self,
        order: [Arm; 2],
        cases: &[usize],
        pairs: &mut P,
    ) -> Result<Option<[Vec<Found>; 2]>, P::Error> {
        let mut found = [Vec::new(), Vec::new()];
        for (side, found) in order.into_iter().zip(&mut found) {
            self.ended = pairs.ended();
            if self.ended.is_some() {
                return Ok(None);
            }
            *found = pairs.measure(side, cases)?;
            if found.len() < cases.len() {
                self.ended = pairs.ended().or_else(|| Some("a measurement ended early".into()));
                return Ok(None);
            }
        }
        Ok(Some(found))
    }

    /// All cases as A, B, B, A.
    fn screen<P: Pairs>(&mut self, pairs: &mut P) -> Result<(), P::Error> {
        for order in [[Arm::A, Arm::B], [Arm::B, Arm::A]] {
            let cases: Vec<usize> =
                (0..self.cases.len()).filter(|&at| self.cases[at].fate.is_none()).collect();
            let Some([first, second]) = self.pair(order, &cases, pairs)? else { return Ok(()) };
            for ((&at, one), other) in cases.iter().zip(&first).zip(&second) {
                let (a, b) = if order[0] == Arm::A { (one, other) } else { (other, one) };
                let log = self.cases[at].pair(a, b);
                self.cases[at].screened.extend(log);
            }
        }
        let limit = self.limit();
        for case in self.cases.iter_mut().filter(|case| case.fate.is_none()) {
            if case.screened.is_empty() {
                // Disturbed each time: its pairs may have better luck.
                case.is_candidate = true;
                continue;
            }
            let mean = case.screened.iter().sum::<f64>() / case.screened.len() as f64;
            if mean.abs() > limit {
                case.is_candidate = true;
            } else {
                case.fate = Some(Fate::NoCandidate);
            }
        }
        Ok(())
    }

    /// One fresh pair of each candidate.
    fn round<P: Pairs>(&mut self, number: u32, pairs: &mut P) -> Result<(), P::Error> {
        let mut cases: Vec<usize> = self.active().collect();
        pairs.round(number, &cases);
        self.shuffle(&mut cases);
        for at in cases {
            // Alternating within a case; which side begins differs from case to case.
            let order = match (number as usize + at).is_multiple_of(2) {
                true => [Arm::A, Arm::B],
                false => [Arm::B, Arm::A],
            };
            for attempt in 1..=ATTEMPTS {
                let Some(found) = self.pair(order, &[at], pairs)? else { return Ok(()) };
                let [Some(one), Some(other)] = [found[0].first(), found[1].first()] else { break };
                let (a, b) = if order[0] == Arm::A { (one, other) } else { (other, one) };
                let log = self.cases[at].pair(a, b);
                self.cases[at].logs.extend(log);
                if log.is_some() || self.cases[at].fate.is_some() {
                    break;
                }
                if attempt < ATTEMPTS {
                    self.repeated += 1;
                    pairs.repeat(at, self.cases[at].note.as_deref().unwrap_or_default());
                }
            }
        }
        Ok(())
    }

    /// Decides what can be decided with this share of the error rates.
    fn look(&mut self, share: f64) {
        let limit = self.limit();
        for (direction, fate) in [(1.0, Fate::Slower), (-1.0, Fate::Faster)] {
            // What was found before is found; what was cleared still counts as a test.
            let is_found = |case: &State| matches!(case.fate, Some(Fate::Slower | Fate::Faster));
            let tested: Vec<usize> = (0..self.cases.len())
                .filter(|&at| self.cases[at].is_candidate && !is_found(&self.cases[at]))
                .collect();
            let p_value = |&at: &usize| match self.cases[at].test() {
                Some((mean, error, freedom)) if self.cases[at].is_active() => {
                    student::upper_tail((direction * mean - limit) / error, freedom)
                }
                _ => 1.0,
            };
            let p_values: Vec<f64> = tested.iter().map(p_value).collect();
            let found = student::family_wise(&p_values, self.settings.error_rate * share);
            for (&at, _) in tested.iter().zip(found).filter(|(_, found)| *found) {
                (self.cases[at].fate, self.cases[at].note) = (Some(fate), None);
            }
        }
        for case in self.cases.iter_mut().filter(|case| case.is_active()) {
            let Some((mean, error, freedom)) = case.test() else { continue };
            if mean.abs() + error * student::exceeded_with(TAIL * share, freedom) < limit {
                (case.fate, case.note) = (Some(Fate::Cleared), None);
            }
        }
    }

    fn shuffle(&mut self, cases: &mut [usize]) {
        for last in (1..cases.len()).rev() {
            let other = self.random.rand_range(0..last as u64 + 1) as usize;
            cases.swap(last, other);
        }
    }

    fn end(self, ids: &[String]) -> Trial {
        let rule = Rule { threshold: self.settings.least_effect, false_discoveries: 0.0 };
        let rows: Vec<JudgedCase> =
            ids.iter().zip(self.cases).map(|(id, case)| row(id, case, &self.ended)).collect();
        let observed: Vec<Observed> = rows
            .iter()
            .map(|row| Observed { id: row.id.clone(), counts: true, ..Observed::default() })
            .collect();
        let judged = |row: &JudgedCase| Judged {
            way: match row.fate {
                Fate::Slower => Direction::Slower,
                Fate::Faster => Direction::Faster,
                _ => Direction::Same,
            },
            ratio: row.ratio.unwrap_or(1.0),
            low: 1.0,
            high: 1.0,
            reason: None,
        };
        let judged: Vec<Judged> = rows.iter().map(judged).collect();
        let groups = judge::groups(&observed, &judged, &rule);
        let Course { settings, repeated, ended, .. } = self;
        Trial { settings, rows, groups, repeated, ended }
    }
}

fn row(id: &str, case: State, ended: &Option<String>) -> JudgedCase {
    let test = case.test();
    let mean = |logs: &[f64]| {
        (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
    };
    let interval = test.map(|(mean, error, freedom)| {
        let reach = error * student::exceeded_with(TAIL, freedom);
        [(mean - reach).exp(), (mean + reach).exp()]
    });
    let fate = case.fate.unwrap_or(Fate::Unclear);
    let is_screened = case.is_candidate;
    let note = match (fate, interval) {
        (Fate::Unclear, _) if ended.is_some() => Some(match (is_screened, case.logs.len()) {
            (false, _) => "the trial ended before it was screened".to_owned(),
            (true, pairs) => {
                format!("the trial ended after {} of it", counted(pairs, "pair"))
            }
        }),
        (Fate::Unclear, Some(_)) => Some("15 pairs do not decide it".to_owned()),
        (Fate::Unclear, None) => case.note.or(Some("too few pairs were left alone".to_owned())),
        (Fate::Broken | Fate::NotMeasured, _) => case.note,
        _ => None,
    };
    JudgedCase {
        id: id.to_owned(),
        fate,
        ratio: mean(&case.logs).or_else(|| mean(&case.screened)),
        interval,
        pairs: case.logs.len() as u32,
        note,
    }
}
