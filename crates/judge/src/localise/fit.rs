//! The explanation of all rates: which ranks and links are slow, and what the others look like.
//!
//! What is healthy is known only once the slow ranks are, and these only by comparison with what is
//! healthy. So both are found in turn: jitter and the healthy rate are taken from the exchanges
//! that no named suspect touches, suspects are named with them, and so on until nothing changes. No
//! slow rank can move the threshold by which it is judged. The search starts from several guesses
//! of the healthy rate, and of all explanations that it ends in the likeliest is taken.

use super::{
    Exchange, chance,
    marks::{Marks, Suspect},
    odds::{Noise, log_odds},
};
use fizeau_domain::stats::quantile::{median, median_absolute_deviation};
use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

/// First guesses: this share of all ranks, those with the lowest rates, is slow. The larger ones
/// are for worlds in which slow ranks touch more than half of all exchanges.
const STARTS: [f64; 4] = [0.0, 0.125, 0.25, 0.4];

/// Most rounds of naming and comparing again.
const PASSES_MAX: usize = 12;

/// Logarithm of the odds, beyond the number of ranks, from which a suspect is named. Before
/// anything is known one rank of the world is expected to be slow.
pub const NAMED_FROM: f64 = 1.0;

/// A margin of odds (logarithm) within which more evidence is asked for.
const DOUBT: f64 = 3.0;

/// Ranks differ by more than jitter where they do so by this many standard errors.
const DIFFER_FROM: f64 = 2.0;

/// Ranks that differ by this many standard errors do so not by chance.
pub const DIFFER_MAX: f64 = 5.0;

/// No explanation has a larger share of all ranks slow: of a half nothing says that it is not the
/// other one, and of nearly a half the healthy rate is known from few exchanges.
const NAMED_MAX: f64 = 0.45;

/// How often suspects are named and dropped again, at most, with one look at healthy exchanges.
const TURNS_MAX: usize = 5;

/// Slow exchanges of a pair from which a link can be named: one is congestion, and two of four can
/// be a rank that is slow every other time.
pub const LINK_EXCHANGES_MIN: usize = 3;

/// A link is lower in at least this share of its exchanges: congestion meets a pair three times in
/// many rounds, and passes it over in others.
pub const LINK_SHARE_MIN: f64 = 0.75;

/// ... by this many standard deviations.
pub const LINK_DEVIATIONS: f64 = 2.0;

/// Fewest exchanges of a kind that are compared with each other.
const KIND_MIN: usize = 8;

/// Least jitter that is assumed: rates that agree by chance must not make a result look certain.
pub const JITTER_MIN: f64 = 0.0025;

/// Bounds of the share of exchanges that congestion may change. Where more are slow and no suspect
/// explains them the world is not healthy.
pub const CONGESTION: [f64; 2] = [0.005, 0.05];

/// An exchange is slow for sure this many standard deviations below the healthy rate.
pub const SLOW_DEVIATIONS: f64 = 4.0;

/// A larger share of the healthy rate is taken for this one: it is no rate of the same kind.
const SHARE_MAX: f64 = 1e3;

/// Standard deviation of a normal distribution / its median absolute deviation.
const DEVIATION_OF_MAD: f64 = 1.4826;

/// Residuals count at most as this many standard deviations, ...
const CLIP: f64 = 2.5;

/// ... which leaves a normal distribution this standard deviation.
const DEVIATION_OF_CLIPPED: f64 = 0.9887;

/// Rates, and where they are from.
pub struct Rates<'e> {
    exchanges: &'e [Exchange],
    /// Of each exchange, whether both ranks are of one host; these are compared among themselves.
    near: Vec<bool>,
    /// The exchanges that each rank took part in.
    of_rank: Vec<Vec<usize>>,
    /// The exchanges of each pair, the lower rank first.
    of_pair: BTreeMap<(u32, u32), Vec<usize>>,
    /// Exchanges that are compared with others, in the order of pairs.
    judged: Vec<usize>,
    /// Of each exchange the places of its two ranks and of its pair among [`Marks`].
    places: Vec<[usize; 3]>,
}

/// An explanation of rates.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Slow ranks and links with the logarithm of their odds, most certain first.
    pub named: Vec<(Suspect, f64)>,
    /// What the other exchanges look like.
    pub noise: Noise,
    /// Of each exchange, its rate as a share of the healthy rate; none where there are too few of
    /// its kind to compare.
    pub shares: Vec<Option<f64>>,
    /// By how many standard errors the ranks that are not named differ by more than jitter.
    pub differ: f64,
    /// Whether a little more evidence could name another or clear one that is named.
    pub doubt: bool,
    /// Logarithm of the likelihood of all rates.
    likelihood: f64,
}

impl<'e> Rates<'e> {
    /// `hosts` has a number for each rank's host.
    pub fn new(hosts: &[u32], exchanges: &'e [Exchange]) -> Rates<'e> {
        let near: Vec<bool> = exchanges.iter().map(|one| one.is_near(hosts)).collect();
        let mut of_rank = vec![Vec::new(); hosts.len()];
        let mut of_pair: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        let judged = |kind: bool| {
            let count = near.iter().filter(|near| **near == kind).count();
            count >= KIND_MIN || 2 * count >= near.len()
        };
        let judged = [judged(false), judged(true)];
        for (at, exchange) in exchanges.iter().enumerate() {
            if judged[usize::from(near[at])] {
                of_rank[exchange.one as usize].push(at);
                of_rank[exchange.other as usize].push(at);
                of_pair.entry(exchange.pair()).or_default().push(at);
            }
        }
        let judged: Vec<usize> = of_pair.values().flatten().copied().collect();
        let mut places = vec![[0; 3]; exchanges.len()];
        for (place, of) in (hosts.len()..).zip(of_pair.values()) {
            for &at in of {
                let Exchange { one, other, .. } = exchanges[at];
                places[at] = [one as usize, other as usize, place];
            }
        }
        Rates { exchanges, near, of_rank, of_pair, judged, places }
    }

    /// Exchanges that are compared with others.
    fn judged(&self) -> impl Iterator<Item = usize> {
        self.judged.iter().copied()
    }

    /// The place of a suspect among [`Marks`].
    fn place(&self, suspect: Suspect) -> usize {
        match suspect {
            Suspect::Rank(rank) => rank as usize,
            Suspect::Link(one, other) => self.places[self.of_pair[&(one, other)][0]][2],
        }
    }

    fn marks(&self, named: impl IntoIterator<Item = Suspect>) -> Marks {
        let places = self.of_rank.len() + self.of_pair.len();
        let mut marks = Marks { marks: vec![false; places], count: 0 };
        named.into_iter().for_each(|suspect| marks.set(self.place(suspect), true));
        marks
    }

    /// How many of the marked suspects an exchange is of.
    fn touches(&self, at: usize, named: &Marks) -> usize {
        self.places[at].iter().filter(|place| named.marks[**place]).count()
    }

    /// Whether a marked suspect other than this one, which took part in it, touches an exchange.
    fn is_of_other(&self, at: usize, named: &Marks, place: usize) -> bool {
        self.touches(at, named) > usize::from(named.marks[place])
    }

    fn rate(&self, at: usize) -> f64 {
        self.exchanges[at].known_rate()
    }

    /// The likeliest explanation; none where nearly as many ranks seem slow as not.
    pub fn explain(&self) -> Option<Fit> {
        let mut fits: Vec<Fit> =
            STARTS.iter().filter_map(|&start| self.explain_from(start)).collect();
        // Where ranks still differ the explanation is none, if there is a better one.
        let rank = |fit: &Fit| (fit.differ <= DIFFER_MAX, fit.likelihood);
        fits.sort_by(|a, b| rank(b).partial_cmp(&rank(a)).unwrap_or(Ordering::Equal));
        let likely = fits.first()?.likelihood - DOUBT;
        let doubt = fits.iter().any(|fit| {
            fit.likelihood > likely && (fit.doubt || fit.suspects() != fits[0].suspects())
        }) || fits[0].differ > DIFFER_FROM;
        let mut best = fits.swap_remove(0);
        best.doubt = doubt;
        Some(self.beyond_chance(best))
    }

    /// The explanation without the suspects whose rates chance may have given them: the least
    /// certain is dropped and the others are tried again. More rounds may tell.
    fn beyond_chance(&self, fit: Fit) -> Fit {
        let mut named: Vec<(Suspect, f64)> = fit.named.clone();
        loop {
            let marks = self.marks(named.iter().map(|(suspect, _)| *suspect));
            let untouched = self.judged().filter(|&at| self.touches(at, &marks) == 0);
            let mut untouched: Vec<f64> = untouched.filter_map(|at| fit.shares[at]).collect();
            untouched.sort_by(f64::total_cmp);
            let of_kind = |is_rank: bool| {
                let is_so = |one: &&(Suspect, f64)| matches!(one.0, Suspect::Rank(_)) == is_rank;
                named.iter().filter(is_so).count()
            };
            let healthy = Healthy {
                shares: &untouched,
                ranks: self.of_rank.len() + 1 - of_kind(true).max(1),
                links: self.of_pair.len() + 1 - of_kind(false).max(1),
            };
            let p = named.iter().map(|one| self.p_by_chance(one.0, &marks, &fit, &healthy));
            let worst = p.enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
            let Some((at, _)) = worst.filter(|(_, p)| *p >= chance::CHANCE_MAX) else { break };
            named.remove(at);
        }
        if named.len() == fit.named.len() {
            return fit;
        }
        let marks = self.marks(named.iter().map(|(suspect, _)| *suspect));
        let Some(look) = self.look(&marks, None) else { return fit };
        let mut shares = vec![None; self.exchanges.len()];
        for at in self.judged() {
            shares[at] = Some(self.share(at, look.levels));
        }
        let (noise, differ) = (look.noise, look.differ);
        Fit { named, noise, differ, shares, doubt: true, ..fit }
    }

    /// The probability, at most, that chance gives any suspect of this kind rates as low as this
    /// one's, by the exchanges that no other of the suspects touches.
    fn p_by_chance(&self, suspect: Suspect, named: &Marks, fit: &Fit, healthy: &Healthy) -> f64 {
        let (own, all) = match suspect {
            Suspect::Rank(rank) => (&self.of_rank[rank as usize], healthy.ranks),
            Suspect::Link(one, other) => (&self.of_pair[&(one, other)], healthy.links),
        };
        let place = self.place(suspect);
        let own = own.iter().filter(|&&at| !self.is_of_other(at, named, place));
        let own: Vec<f64> = own.filter_map(|&at| fit.shares[at]).collect();
        chance::p_of_any(&own, healthy.shares, all)
    }

    fn explain_from(&self, start: f64) -> Option<Fit> {
        let mut look = self.look(&self.marks(self.slowest(start)), None)?;
        let mut fit = self.name(&look);
        for _ in 0..PASSES_MAX {
            look = self.look(&self.marks(fit.suspects()), Some(&look))?;
            let next = self.name(&look);
            let settled = fit.suspects() == next.suspects();
            fit = next;
            if settled {
                break;
            }
        }
        let ranks = fit.named.iter().filter(|(suspect, _)| matches!(suspect, Suspect::Rank(_)));
        (ranks.count() as f64 <= NAMED_MAX * self.of_rank.len() as f64).then_some(fit)
    }

    /// This share of all ranks: those whose median rate is lowest.
    fn slowest(&self, share: f64) -> Vec<Suspect> {
        let levels = self.levels(&self.judged, [f64::NAN; 2]);
        let typical = |rank: usize| {
            let of = self.of_rank[rank].iter();
            let shares: Vec<f64> = of.map(|&at| self.share(at, levels)).collect();
            if shares.is_empty() { f64::INFINITY } else { median(&shares) }
        };
        let mut ranks: Vec<(f64, u32)> =
            (0..).zip(0..self.of_rank.len()).map(|(rank, at)| (typical(at), rank)).collect();
        ranks.sort_by(|a, b| a.0.total_cmp(&b.0));
        let count = (share * ranks.len() as f64).round() as usize;
        ranks.into_iter().take(count).map(|(_, rank)| Suspect::Rank(rank)).collect()
    }

    /// The middle rate of each kind among these exchanges; `before` where there is none.
    fn levels(&self, exchanges: &[usize], before: [f64; 2]) -> [f64; 2] {
        [false, true].map(|kind| {
            let of_kind = exchanges.iter().filter(|&&at| self.near[at] == kind);
            let rates: Vec<f64> = of_kind.map(|&at| self.rate(at)).collect();
            middle(&rates).unwrap_or(before[usize::from(kind)])
        })
    }

    /// A rate as a share of the healthy rate of its kind.
    fn share(&self, at: usize, levels: [f64; 2]) -> f64 {
        (self.rate(at) / levels[usize::from(self.near[at])]).min(SHARE_MAX)
    }

    /// What exchanges look like that no suspect touches. None where there are none.
    fn look(&self, suspects: &Marks, before: Option<&Look>) -> Option<Look> {
        let all = &self.judged;
        let is_untouched = |at: &usize| self.touches(*at, suspects) == 0;
        let untouched: Vec<usize> = all.iter().copied().filter(is_untouched).collect();
        if untouched.is_empty() {
            return None;
        }
        let before = before.map_or_else(|| self.levels(all, [f64::NAN; 2]), |look| look.levels);
        let levels = self.levels(&untouched, before);
        let residual = |at: &usize| self.share(*at, levels) - 1.0;
        let residuals: Vec<f64> = untouched.iter().map(residual).collect();
        let count = residuals.len() as f64;
        let estimated = spread(&residuals).max(JITTER_MIN);
        // An estimate from few exchanges may be too small: its own standard error is added.
        let jitter = estimated * (1.0 + 1.0 / (2.0 * count).sqrt());
        let slow = residuals.iter().filter(|by| **by < -SLOW_DEVIATIONS * jitter).count();
        let congestion = (slow as f64 / count).clamp(CONGESTION[0], CONGESTION[1]);
        // Ranks may differ by more than the jitter of their exchanges, and be healthy.
        let of_rank = |of: &Vec<usize>| {
            let own = of.iter().filter(|at| is_untouched(at));
            let own: Vec<f64> =
                own.map(|at| residual(at).clamp(-CLIP * jitter, CLIP * jitter)).collect();
            (own.len() > 1).then(|| own.iter().sum::<f64>() / (own.len() as f64).sqrt() / jitter)
        };
        let ranks: Vec<f64> = self.of_rank.iter().filter_map(of_rank).collect();
        let spread = if ranks.len() < 2 { 1.0 } else { spread_below_median(&ranks) };
        // In standard errors of a standard deviation that is taken from the median deviation.
        let differ = (spread - 1.0) * (ranks.len() as f64).sqrt() / 1.17;
        let wider = if differ > DIFFER_FROM { spread } else { 1.0 };
        let [noise, weighed, doubted] =
            [jitter, jitter * wider, estimated * wider].map(|jitter| Noise { jitter, congestion });
        Some(Look { levels, noise, weighed, doubted, differ })
    }

    /// Names the strongest suspect, explains its exchanges by it, weighs the rest again, and so on.
    fn name(&self, look: &Look) -> Fit {
        let share = |at: usize| self.share(at, look.levels);
        let mut shares = vec![None; self.exchanges.len()];
        for at in self.judged() {
            shares[at] = Some(share(at));
        }
        let mut naming = Naming { rates: self, shares: &shares, look, named: Vec::new() };
        for _ in 0..TURNS_MAX {
            naming.forward();
            if !naming.backward() {
                break;
            }
        }
        let doubt = naming.doubt();
        let named = naming.named;
        let odds: f64 = named.iter().map(|(_, odds)| odds).sum();
        let gain = odds + log_prior_of_named(named.len(), self.of_rank.len());
        let densities = look.noise.densities();
        let levels = look.levels.map(|level| level.max(f64::MIN_POSITIVE).ln());
        let healthy = |at: usize| densities.log(share(at)) - levels[usize::from(self.near[at])];
        let likelihood = gain + self.judged().map(healthy).sum::<f64>();
        Fit { named, noise: look.noise, differ: look.differ, shares, doubt, likelihood }
    }

    /// Logarithm of the odds from which a suspect is named: the more there are, the higher; the
    /// more others are named, the lower.
    fn threshold(&self, suspect: Suspect, others_named: usize) -> f64 {
        let all = match suspect {
            Suspect::Rank(_) => self.of_rank.len(),
            Suspect::Link(..) => self.of_pair.len(),
        };
        (all as f64).ln() - 0.5 * (others_named as f64 + 1.0).ln() + NAMED_FROM
    }
}

impl Fit {
    /// Everything that is named.
    pub fn suspects(&self) -> BTreeSet<Suspect> {
        self.named.iter().map(|(suspect, _)| *suspect).collect()
    }
}

/// What healthy exchanges look like.
#[derive(Clone, Copy, Debug)]
struct Look {
    /// The healthy rate between hosts, and within one.
    levels: [f64; 2],
    noise: Noise,
    /// The noise that suspects are weighed with: wider where ranks differ by more than jitter.
    weighed: Noise,
    /// The same without the allowance for an estimate from few exchanges: who would be named with
    /// this noise may be slow, which more rounds tell. With the allowance a rank of eight that is
    /// slower by three times the jitter went unseen in one run of twenty.
    doubted: Noise,
    /// By how many standard errors ranks differ by more than jitter.
    differ: f64,
}

/// Exchanges that no named suspect touches, and how many suspects of each kind chance may meet:
/// the one that is tried, and those that are not named.
struct Healthy<'f> {
    /// Rates as shares, ascending.
    shares: &'f [f64],
    ranks: usize,
    links: usize,
}

/// Suspects as they are named one by one.
struct Naming<'r> {
    rates: &'r Rates<'r>,
    shares: &'r [Option<f64>],
    look: &'r Look,
    named: Vec<(Suspect, f64)>,
}

impl Naming<'_> {
    fn marks(&self) -> Marks {
        self.rates.marks(self.named.iter().map(|(suspect, _)| *suspect))
    }

    /// A suspect's exchanges that no other one which is named explains: their rates as shares,
    /// ascending, and their pairs.
    fn own(&self, suspect: Suspect, named: &Marks) -> Vec<(f64, (u32, u32))> {
        let rates = self.rates;
        let of = match suspect {
            Suspect::Rank(rank) => &rates.of_rank[rank as usize],
            Suspect::Link(one, other) => &rates.of_pair[&(one, other)],
        };
        let place = rates.place(suspect);
        let own = of.iter().filter(|&&at| !rates.is_of_other(at, named, place));
        let mut own: Vec<(f64, (u32, u32))> =
            own.filter_map(|&at| Some((self.shares[at]?, rates.exchanges[at].pair()))).collect();
        own.sort_by(|a, b| a.0.total_cmp(&b.0));
        own
    }

    /// By how much the logarithm of a suspect's odds, from what others that are named do not
    /// explain, is above the threshold.
    fn margin(&self, suspect: Suspect, named: &Marks) -> f64 {
        self.margin_with(self.look.weighed, suspect, named)
    }

    /// The same, weighed with a noise.
    fn margin_with(&self, noise: Noise, suspect: Suspect, named: &Marks) -> f64 {
        let own = self.own(suspect, named);
        let shares: Vec<f64> = own.iter().map(|(share, _)| *share).collect();
        if let Suspect::Link(one, other) = suspect {
            let slow = shares.iter().filter(|share| **share < self.slow_from()).count();
            let limit = 1.0 - LINK_DEVIATIONS * self.look.weighed.jitter;
            let lower = shares.iter().filter(|share| **share < limit).count();
            let always = lower as f64 >= LINK_SHARE_MIN * shares.len() as f64;
            if slow < LINK_EXCHANGES_MIN || !always || self.is_slow_elsewhere([one, other], named) {
                return f64::NEG_INFINITY;
            }
        }
        let others_named = named.count - usize::from(named.marks[self.rates.place(suspect)]);
        let threshold = self.rates.threshold(suspect, others_named);
        let margin = log_odds(&shares, noise) - threshold;
        if margin <= 0.0 || matches!(suspect, Suspect::Link(..)) {
            return margin;
        }
        // By the exchanges with one partner alone nobody knows which of the two is slow.
        let without = |partner: (u32, u32)| {
            let others = own.iter().filter(|(_, pair)| *pair != partner);
            let others: Vec<f64> = others.map(|(share, _)| *share).collect();
            log_odds(&others, noise)
        };
        // The partner of the slowest exchange, and those that were slow more than once.
        let slow = own.iter().filter(|(share, _)| *share < self.slow_from()).map(|(_, pair)| *pair);
        let mut met = BTreeSet::new();
        let mut partners: BTreeSet<(u32, u32)> = slow.filter(|&pair| !met.insert(pair)).collect();
        partners.insert(own[0].1);
        partners.into_iter().map(without).fold(margin, f64::min)
    }

    /// An exchange below this share of the healthy rate is slow for sure.
    fn slow_from(&self) -> f64 {
        1.0 - SLOW_DEVIATIONS * self.look.weighed.jitter
    }

    /// Whether one of two ranks was slow with a third too, and is likelier slow with others than
    /// not: then the link between them is not to blame. Now and then congestion slows one of
    /// theirs as of anybody.
    fn is_slow_elsewhere(&self, ranks: [u32; 2], named: &Marks) -> bool {
        ranks.into_iter().any(|rank| {
            let own = self.own(Suspect::Rank(rank), named).into_iter();
            let elsewhere = own.filter(|(_, pair)| *pair != (ranks[0], ranks[1]));
            let shares: Vec<f64> = elsewhere.map(|(share, _)| share).collect();
            let was_slow = shares.first().is_some_and(|share| *share < self.slow_from());
            was_slow && log_odds(&shares, self.look.weighed) > 0.0
        })
    }

    fn forward(&mut self) {
        let ranks = (0..self.rates.of_rank.len() as u32).map(Suspect::Rank);
        let links = self.rates.of_pair.iter().filter(|(_, of)| of.len() >= LINK_EXCHANGES_MIN);
        let links = links.map(|(&(one, other), _)| Suspect::Link(one, other));
        let candidates: Vec<Suspect> = ranks.chain(links).collect();
        let rates = self.rates;
        let mut named = self.marks();
        let mut margins: Vec<f64> =
            candidates.iter().map(|&suspect| self.margin(suspect, &named)).collect();
        for (margin, suspect) in margins.iter_mut().zip(&candidates) {
            if named.marks[rates.place(*suspect)] {
                *margin = f64::NEG_INFINITY;
            }
        }
        // Half of all ranks at most: beyond that the explanation is dropped.
        while 2 * named.count <= rates.of_rank.len() {
            let best = (0..candidates.len()).max_by(|&a, &b| margins[a].total_cmp(&margins[b]));
            let more = |&best: &usize| {
                margins[best].is_finite() && self.margin(candidates[best], &named) > 0.0
            };
            let Some(best) = best.filter(more) else { return };
            let suspect = candidates[best];
            let odds = self.margin(suspect, &named) + rates.threshold(suspect, named.count);
            named.set(rates.place(suspect), true);
            self.named.push((suspect, odds));
            margins[best] = f64::NEG_INFINITY;
            let near: BTreeSet<u32> = self.partners(suspect);
            for (at, &candidate) in candidates.iter().enumerate() {
                let affected = match candidate {
                    Suspect::Rank(rank) => near.contains(&rank),
                    Suspect::Link(one, other) => near.contains(&one) || near.contains(&other),
                };
                if affected && !named.marks[rates.place(candidate)] {
                    margins[at] = self.margin(candidate, &named);
                }
            }
        }
    }

    /// Whether a margin is so narrow that a little more evidence could turn it.
    fn doubt(&self) -> bool {
        let named = self.marks();
        let ranks = (0..self.rates.of_rank.len() as u32).map(Suspect::Rank);
        let all = ranks.chain(self.named.iter().map(|(one, _)| *one));
        all.into_iter().any(|suspect| match named.marks[self.rates.place(suspect)] {
            true => self.margin(suspect, &named) < DOUBT,
            false => self.margin_with(self.look.doubted, suspect, &named) > -DOUBT,
        })
    }

    /// Drops suspects that the others named after them explain. Whether there were any.
    fn backward(&mut self) -> bool {
        let before = self.named.len();
        let mut named = self.marks();
        let mut at = self.named.len();
        while at > 0 {
            at -= 1;
            let suspect = self.named[at].0;
            if self.margin(suspect, &named) <= 0.0 {
                self.named.remove(at);
                named.set(self.rates.place(suspect), false);
            }
        }
        self.named.len() < before
    }

    /// The ranks that a suspect exchanged with, itself among them.
    fn partners(&self, suspect: Suspect) -> BTreeSet<u32> {
        let ranks = |&at: &usize| {
            let (one, other) = self.rates.exchanges[at].pair();
            [one, other]
        };
        match suspect {
            Suspect::Rank(rank) => {
                self.rates.of_rank[rank as usize].iter().flat_map(ranks).collect()
            }
            Suspect::Link(one, other) => BTreeSet::from([one, other]),
        }
    }
}

/// Logarithm of the prior probability that just these of all ranks are slow: with probability
/// 1 / ((k + 1) (k + 2)) there are `k`, and any `k` are as likely as any others.
pub fn log_prior_of_named(named: usize, ranks: usize) -> f64 {
    let steps = 1..=named.min(ranks - named.min(ranks));
    let ways: f64 = steps.map(|step| ((ranks - step + 1) as f64 / step as f64).ln()).sum();
    -ways - (((named + 1) * (named + 2)) as f64).ln()
}

/// The middle of rates: their mean, where those far from the median count less. Exchanges that
/// failed do not count; none where all have.
pub fn middle(rates: &[f64]) -> Option<f64> {
    let rates: Vec<f64> = rates.iter().copied().filter(|rate| *rate > 0.0).collect();
    if rates.is_empty() {
        return None;
    }
    let centre = median(&rates);
    let residuals: Vec<f64> =
        rates.iter().map(|rate| (rate / centre).min(SHARE_MAX) - 1.0).collect();
    let limit = CLIP * DEVIATION_OF_MAD * median_absolute_deviation(&residuals);
    let clipped = residuals.iter().map(|residual| residual.clamp(-limit, limit));
    Some(centre * (1.0 + clipped.sum::<f64>() / residuals.len() as f64))
}

/// Standard deviation about 0, where few far values count little.
pub fn spread(residuals: &[f64]) -> f64 {
    let sizes: Vec<f64> = residuals.iter().map(|residual| residual.abs()).collect();
    let limit = CLIP * DEVIATION_OF_MAD * median(&sizes);
    let squares: f64 = sizes.iter().map(|size| size.min(limit).powi(2)).sum();
    (squares / sizes.len() as f64).sqrt() / DEVIATION_OF_CLIPPED
}

/// Standard deviation about the median, from the values below it: a pair is as slow as the slower
/// of its ranks, so that slow ranks show more than fast ones.
fn spread_below_median(values: &[f64]) -> f64 {
    let centre = median(values);
    let below: Vec<f64> =
        values.iter().map(|value| centre - value).filter(|by| *by >= 0.0).collect();
    DEVIATION_OF_MAD * median(&below)
}
