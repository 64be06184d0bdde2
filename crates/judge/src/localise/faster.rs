//! Ranks that are fast among themselves and with nobody else: the healthy ones, where half of all
//! ranks and more are slow.
//!
//! What is called healthy is what most exchanges show. Where most ranks are slow this is their
//! rate, none of them stands out, and what does are the exchanges between two healthy ranks. So two
//! stories are told of exchanges that no named suspect touches: all are at one rate, or those
//! within a set of ranks are at a higher one. The set is sought from several guesses, each changed
//! rank by rank as long as that makes the rates likelier; the number of ways to choose a set is
//! charged for. Several sets of which each is fast within itself are a fabric's own shape, such as
//! hosts or leaf switches that nobody has named, and no sign of a fault.

use super::{
    fit::{JITTER_MIN, SLOW_DEVIATIONS, log_prior_of_named, middle, spread},
    odds::Noise,
};

/// The logarithm of the odds from which a set is believed in.
const BELIEVED_FROM: f64 = 3.0;

/// Healthy ranks may differ by a few percent: a set has to be faster by this share.
const GAIN_MIN: f64 = 0.05;

/// Fewer exchanges within a set may be a clock that jumped.
const WITHIN_MIN: usize = 2;

/// Up to this many ranks are named in words.
const RANKS_SHOWN: usize = 16;

/// How often levels and members are found in turn, at most.
const TURNS_MAX: usize = 8;

/// A rate this many standard deviations below that of the set is as fast as the set.
const AS_FAST: f64 = 3.0;

/// Other exchanges as fast as those within the set, as a share of these, from which the fabric has
/// several such sets.
const OTHERS_MAX: f64 = 0.5;

/// A set of ranks whose exchanges with each other are faster than all others.
#[derive(Clone, Debug, PartialEq)]
pub struct Faster {
    /// The ranks, ascending.
    pub ranks: Vec<u32>,
    /// How many ranks there are beside them.
    pub others: u32,
    /// How many exchanges they had with each other.
    pub exchanges: u32,
    /// By what share these are faster than the others.
    pub gain: f64,
}

impl Faster {
    /// What it says, in words without figures.
    pub fn words(&self) -> String {
        let ranks: Vec<String> = self.ranks.iter().take(RANKS_SHOWN).map(u32::to_string).collect();
        let more = self.ranks.len() - ranks.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!(
            "ranks {}{more} are faster with each other than anybody with anybody else: the others \
             may be slow, all {} of them",
            ranks.join(", "),
            self.others
        )
    }
}

/// One exchange: its ranks, and its rate as a share of the usual one.
pub type Share = ((u32, u32), f64);

/// The set that explains some exchanges of one kind, if there is one.
pub fn faster(ranks: usize, shares: &[Share], noise: Noise) -> Option<Faster> {
    if shares.is_empty() {
        return None;
    }
    let search = Search::new(ranks, shares, noise);
    let order = search.fastest_first();
    let sizes = (0..).map(|step| 2usize << (step / 2)).zip([0, 1].into_iter().cycle());
    let sizes = sizes.map(|(size, half)| size + half * size / 2);
    let sizes = sizes.take_while(|&size| size + 1 < ranks);
    let starts = sizes.map(|size| order[..size].to_vec()).chain([search.in_fast_exchanges()]);
    let sets = starts.filter_map(|guess| search.settle(&guess));
    let likely = sets.filter(|set| set.odds > BELIEVED_FROM);
    let believed = likely.filter_map(|set| Some((set.odds, search.believed(&set)?)));
    believed.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, faster)| faster)
}

/// Two rates, and what they scatter by.
#[derive(Clone, Copy)]
struct Levels {
    within: f64,
    others: f64,
    noise: Noise,
}

impl Levels {
    /// Logarithm of how much likelier a rate is within the set than without.
    fn gain(&self, share: f64) -> f64 {
        self.density(share, true) - self.density(share, false)
    }

    fn density(&self, share: f64, within: bool) -> f64 {
        let level = if within { self.within } else { self.others };
        self.noise.log_density(share / level) - level.ln()
    }
}

struct Set {
    members: Vec<bool>,
    levels: Levels,
    odds: f64,
}

struct Search<'s> {
    shares: &'s [Share],
    noise: Noise,
    /// Of each rank, its exchanges.
    of_rank: Vec<Vec<usize>>,
}

impl Search<'_> {
    fn new(ranks: usize, shares: &[Share], noise: Noise) -> Search<'_> {
        let mut of_rank = vec![Vec::new(); ranks];
        for (at, ((one, other), _)) in shares.iter().enumerate() {
            of_rank[*one as usize].push(at);
            of_rank[*other as usize].push(at);
        }
        Search { shares, noise, of_rank }
    }

    /// All ranks, those with the highest mean rate first.
    fn fastest_first(&self) -> Vec<usize> {
        let mean = |of: &Vec<usize>| {
            let sum: f64 = of.iter().map(|&at| self.shares[at].1.min(2.0)).sum();
            if of.is_empty() { 0.0 } else { sum / of.len() as f64 }
        };
        let mut order: Vec<(f64, usize)> = self.of_rank.iter().map(mean).zip(0..).collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0));
        order.into_iter().map(|(_, rank)| rank).collect()
    }

    /// The ranks of all exchanges that are faster than jitter explains.
    fn in_fast_exchanges(&self) -> Vec<usize> {
        let limit = 1.0 + SLOW_DEVIATIONS * self.noise.jitter;
        let fast = self.shares.iter().filter(|(_, share)| *share > limit);
        fast.flat_map(|((one, other), _)| [*one as usize, *other as usize]).collect()
    }

    /// The rates within a set and of all others; none where one of these is empty or no rate.
    fn levels(&self, members: &[bool]) -> Option<Levels> {
        let [within, others] = [true, false].map(|wanted| -> Vec<f64> {
            let of = self.shares.iter().filter(|(pair, _)| is_within(members, *pair) == wanted);
            of.map(|(_, share)| *share).collect()
        });
        let levels = [middle(&within)?, middle(&others)?];
        let residuals: Vec<f64> = [(&within, levels[0]), (&others, levels[1])]
            .iter()
            .flat_map(|(rates, level)| rates.iter().map(move |rate| rate / level - 1.0))
            .collect();
        let count = residuals.len() as f64;
        let jitter = spread(&residuals).max(JITTER_MIN);
        let jitter = jitter * (1.0 + 1.0 / (2.0 * count).sqrt());
        let noise = Noise { jitter, ..self.noise };
        Some(Levels { within: levels[0], others: levels[1], noise })
    }

    /// The set that a guess ends in.
    fn settle(&self, guess: &[usize]) -> Option<Set> {
        let mut members = vec![false; self.of_rank.len()];
        guess.iter().for_each(|&rank| members[rank] = true);
        for _ in 0..TURNS_MAX {
            let levels = self.levels(&members)?;
            if levels.within <= levels.others || !self.improve(&mut members, levels) {
                break;
            }
        }
        let levels = self.levels(&members)?;
        let size = members.iter().filter(|is_member| **is_member).count();
        let gain = |(pair, share): &Share| {
            levels.density(*share, is_within(&members, *pair)) - self.noise.log_density(*share)
        };
        let within = self.within(&members).count() as f64;
        let odds = self.shares.iter().map(gain).sum::<f64>()
            + log_prior_of_named(size, members.len())
            - 0.5 * within.max(1.0).ln();
        Some(Set { members, levels, odds })
    }

    /// Takes in or puts out every rank that makes rates likelier so, the fastest first: what is
    /// found does not depend on the numbers of ranks. Whether there was one.
    fn improve(&self, members: &mut [bool], levels: Levels) -> bool {
        let mut any = false;
        for rank in self.fastest_first() {
            let with_members = self.of_rank[rank].iter().filter(|&&at| {
                let (one, other) = self.shares[at].0;
                members[(if one as usize == rank { other } else { one }) as usize]
            });
            let gain: f64 = with_members.map(|&at| levels.gain(self.shares[at].1)).sum();
            if members[rank] != (gain > 0.0) {
                members[rank] = gain > 0.0;
                any = true;
            }
        }
        any
    }

    fn within<'m>(&'m self, members: &'m [bool]) -> impl Iterator<Item = &'m Share> {
        self.shares.iter().filter(|(pair, _)| is_within(members, *pair))
    }

    fn believed(&self, set: &Set) -> Option<Faster> {
        let Levels { within, others, noise } = set.levels;
        let count = self.within(&set.members).count();
        let as_fast = within * (1.0 - AS_FAST * noise.jitter);
        let elsewhere = |(pair, share): &&Share| {
            *share > as_fast.max((within + others) / 2.0) && !is_within(&set.members, *pair)
        };
        let elsewhere = self.shares.iter().filter(elsewhere).count();
        let size = set.members.iter().filter(|is_member| **is_member).count();
        let is_so = within / others >= 1.0 + GAIN_MIN
            && count >= WITHIN_MIN.max(size.min(3))
            && elsewhere as f64 <= (OTHERS_MAX * count as f64).max(1.0);
        let ranks = (0..).zip(&set.members).filter(|(_, is_member)| **is_member);
        is_so.then(|| Faster {
            ranks: ranks.map(|(rank, _)| rank).collect(),
            others: (set.members.len() - size) as u32,
            exchanges: count as u32,
            gain: within / others - 1.0,
        })
    }
}

fn is_within(members: &[bool], (one, other): (u32, u32)) -> bool {
    members[one as usize] && members[other as usize]
}
