//! Ranks in groups: GPUs behind PCIe switches or sockets, where the rate of a pair depends on the
//! groups of its two ranks, and no rank is slow for that.
//!
//! Two stories are told of the rates of all pairs, as logarithms: one level and an effect of each
//! rank, or a level for each two groups and an effect of each rank within its group. Levels and
//! effects are medians in turn, and the least sum of absolute residuals decides (Laplace's law),
//! less what the number of levels and of ways to form groups costs (Schwarz 1978). Groups are
//! guessed from pairs above or below a gap between rates, and changed rank by rank as long as that
//! helps. A set of ranks that is slower than all others in every way is not a group: its ranks are
//! weighed one by one, or it cannot be told which half is slow.

use super::Exchange;
use fizeau_domain::stats::quantile::median;
use std::collections::{BTreeMap, BTreeSet};

/// Up to this many ranks of unknown hosts may be the GPUs of one machine; groups are sought there.
pub const MACHINE_MAX: usize = 16;

/// Where ranks are of several hosts a larger share than this in one group is the healthy network,
/// and the others are behind a slow switch.
const LARGEST_MAX: f64 = 2.0 / 3.0;

/// Most groups.
const GROUPS_MAX: usize = 8;

/// Gaps between rates that are tried, the widest first.
const GAPS_TRIED: usize = 6;

/// Guesses that are changed rank by rank, and the most changes.
const GUESSES_IMPROVED: usize = 4;
const CHANGES_MAX: usize = 8;

/// How often levels and effects are found in turn.
const TURNS: usize = 6;

/// Least mean residual that is assumed, as a logarithm: 0.25 % of jitter.
const RESIDUAL_MIN: f64 = 0.002;

/// A larger residual counts as this one, as a logarithm.
const FAR: f64 = 2.0;

/// Logarithm of the odds from which groups are believed in.
const BELIEVED_FROM: f64 = 3.0;

/// Rates within and across differ at least by this share, and by this many mean residuals.
const EFFECT_MIN: f64 = 0.03;
const EFFECT_RESIDUALS: f64 = 3.0;

/// A group whose ranks are faster among themselves than with others by less than this part of what
/// the others are faster by is as slow among itself.
const AS_SLOW: f64 = 0.25;

/// Groups of ranks that rates show.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// The ranks of each group, ascending; larger groups first.
    pub groups: Vec<Vec<u32>>,
    /// Lowest and highest rate within a group, in the unit of the exchanges' rates.
    pub within: [f64; 2],
    /// Lowest and highest rate between the ranks of two groups.
    pub across: [f64; 2],
}

impl Layout {
    /// Whether all pairs within groups are faster than those across, or slower; neither where both
    /// overlap.
    pub fn is_faster_within(&self) -> Option<bool> {
        let ([slow_in, fast_in], [slow_across, fast_across]) = (self.within, self.across);
        match (slow_in > fast_across, fast_in < slow_across) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    /// The groups in words: `two groups of 4`, `groups of 6, 4 and 2`.
    pub fn words(&self) -> String {
        let sizes: Vec<usize> = self.groups.iter().map(Vec::len).collect();
        let number = ["two", "three", "four", "five", "six", "seven", "eight"];
        if sizes.iter().all(|size| *size == sizes[0]) {
            return format!("{} groups of {}", number[sizes.len() - 2], sizes[0]);
        }
        let words: Vec<String> = sizes.iter().map(usize::to_string).collect();
        let (last, others) = words.split_last().map_or(("", &[][..]), |(a, b)| (a.as_str(), b));
        format!("groups of {} and {last}", others.join(", "))
    }
}

/// Groups with the rate between each two.
pub struct Found {
    /// What is said of them.
    pub layout: Layout,
    of: Vec<usize>,
    /// Logarithms of rates, by two groups.
    levels: BTreeMap<(usize, usize), f64>,
}

impl Found {
    /// The exchanges with their rates as shares of what is usual between their groups.
    pub fn shares(&self, exchanges: &[Exchange]) -> Vec<Exchange> {
        let share = |one: &Exchange| {
            let class = class(&self.of, one.pair());
            let level = self.levels.get(&class).copied().unwrap_or(0.0);
            Exchange { rate: one.rate / level.exp(), ..*one }
        };
        exchanges.iter().map(share).collect()
    }
}

/// The groups that explain rates between `ranks` ranks much better than slow ranks do. Whether
/// these may be the GPUs of one machine: then groups may be of any size.
///
/// The search tries ranks one after the other and may end elsewhere in another order. So it takes
/// them in an order of their own rates, and what it finds goes with ranks, whatever their numbers.
pub fn find(ranks: usize, exchanges: &[Exchange], one_machine: bool) -> Option<Found> {
    if !(4..=MACHINE_MAX).contains(&ranks) {
        return None;
    }
    let by_rate = in_order_of_rates(ranks, exchanges);
    let mut place = vec![0; ranks];
    (0..).zip(&by_rate).for_each(|(at, rank)| place[*rank] = at);
    let of = |rank: u32| place[rank as usize];
    let moved = |one: &Exchange| {
        let (one_place, other) = (of(one.one), of(one.other));
        Exchange { one: one_place.min(other), other: one_place.max(other), ..*one }
    };
    let mut moved: Vec<Exchange> = exchanges.iter().map(moved).collect();
    moved.sort_by(|a, b| {
        let key = |one: &Exchange| (one.one, one.other, one.round);
        key(a).cmp(&key(b)).then(a.rate.total_cmp(&b.rate))
    });
    let Found { layout, of, levels } = find_in_order(ranks, &moved, one_machine)?;
    let back = |group: &Vec<u32>| {
        let mut group: Vec<u32> = group.iter().map(|at| by_rate[*at as usize] as u32).collect();
        group.sort_unstable();
        group
    };
    let mut groups: Vec<Vec<u32>> = layout.groups.iter().map(back).collect();
    groups.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
    let of = place.iter().map(|at| of[*at as usize]).collect();
    Some(Found { layout: Layout { groups, ..layout }, of, levels })
}

/// Ranks by the rates of all of their exchanges, the lowest first.
fn in_order_of_rates(ranks: usize, exchanges: &[Exchange]) -> Vec<usize> {
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); ranks];
    for one in exchanges {
        let (a, b) = one.pair();
        for rank in [a, b] {
            rates[rank as usize].push(one.rate);
        }
    }
    rates.iter_mut().for_each(|own| own.sort_by(f64::total_cmp));
    let mut order: Vec<usize> = (0..ranks).collect();
    order.sort_by(|a, b| {
        let pairs = rates[*a].iter().zip(&rates[*b]);
        let first = pairs.map(|(one, other)| one.total_cmp(other)).find(|order| order.is_ne());
        first.unwrap_or(rates[*a].len().cmp(&rates[*b].len()))
    });
    order
}

fn find_in_order(ranks: usize, exchanges: &[Exchange], one_machine: bool) -> Option<Found> {
    let search = Search::new(ranks, exchanges)?;
    let alone = search.fit(&vec![0; ranks]);
    let mut fits: Vec<Fit> = search.guesses().iter().map(|of| search.fit(of)).collect();
    fits.sort_by(|a, b| b.score.total_cmp(&a.score));
    // Moving one rank after the other does not make up for more than this.
    fits.retain(|fit| fit.score > alone.score - ranks as f64);
    fits.truncate(GUESSES_IMPROVED);
    let improved = fits.into_iter().map(|fit| search.improved(fit));
    let best = improved.max_by(|a, b| a.score.total_cmp(&b.score))?;
    let largest = best.sizes().into_iter().max()?;
    let is_balanced = largest as f64 <= LARGEST_MAX * ranks as f64;
    let is_so = best.score - alone.score > BELIEVED_FROM
        && (is_balanced || one_machine)
        && search.is_layout(&best);
    is_so.then(|| search.found(best))
}

/// The two groups of a pair, the lower number first.
fn class(of: &[usize], (one, other): (u32, u32)) -> (usize, usize) {
    let (one, other) = (of[one as usize], of[other as usize]);
    (one.min(other), one.max(other))
}

/// Groups, and how well they explain rates.
#[derive(Clone)]
struct Fit {
    /// The group of each rank.
    of: Vec<usize>,
    levels: BTreeMap<(usize, usize), f64>,
    /// Mean absolute residual.
    residual: f64,
    score: f64,
}

impl Fit {
    fn sizes(&self) -> Vec<usize> {
        let mut sizes = vec![0; self.of.iter().max().map_or(0, |most| most + 1)];
        self.of.iter().for_each(|&group| sizes[group] += 1);
        sizes
    }
}

struct Search {
    ranks: usize,
    /// Each pair with the logarithm of its median rate.
    pairs: Vec<((u32, u32), f64)>,
    /// The pairs of each rank.
    of_rank: Vec<Vec<usize>>,
}

impl Search {
    /// None where a rank met fewer than two others.
    fn new(ranks: usize, exchanges: &[Exchange]) -> Option<Search> {
        let mut rates: BTreeMap<(u32, u32), Vec<f64>> = BTreeMap::new();
        for one in exchanges.iter().filter(|one| one.known_rate() > 0.0) {
            rates.entry(one.pair()).or_default().push(one.rate.ln());
        }
        let pairs: Vec<_> = rates.into_iter().map(|(pair, rates)| (pair, median(&rates))).collect();
        let mut of_rank = vec![Vec::new(); ranks];
        for (at, ((one, other), _)) in pairs.iter().enumerate() {
            of_rank[*one as usize].push(at);
            of_rank[*other as usize].push(at);
        }
        of_rank.iter().all(|of| of.len() > 1).then_some(Search { ranks, pairs, of_rank })
    }

    /// Levels and effects of ranks by medians in turn. In each group the faster half of the ranks
    /// has no effect: faults make slow.
    fn effects(&self, of: &[usize]) -> (BTreeMap<(usize, usize), f64>, Vec<f64>) {
        let mut effects = vec![0.0; self.ranks];
        let mut levels = BTreeMap::new();
        for _ in 0..TURNS {
            let mut by_class: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
            for (pair, rate) in &self.pairs {
                let rest = rate - effects[pair.0 as usize] - effects[pair.1 as usize];
                by_class.entry(class(of, *pair)).or_default().push(rest);
            }
            levels = by_class.into_iter().map(|(class, rests)| (class, median(&rests))).collect();
            let of_one = |rank: usize| {
                let rest = |&at: &usize| {
                    let (pair, rate) = &self.pairs[at];
                    let other = if pair.0 as usize == rank { pair.1 } else { pair.0 };
                    rate - levels[&class(of, *pair)] - effects[other as usize]
                };
                median(&self.of_rank[rank].iter().map(rest).collect::<Vec<f64>>())
            };
            let mut next: Vec<f64> = (0..self.ranks).map(of_one).collect();
            let groups: BTreeSet<usize> = of.iter().copied().collect();
            for group in groups {
                let members = || (0..self.ranks).filter(|&rank| of[rank] == group);
                let mut own: Vec<f64> = members().map(|rank| next[rank]).collect();
                own.sort_by(f64::total_cmp);
                let middle = own[own.len() / 2];
                members().for_each(|rank| next[rank] -= middle);
            }
            effects = next;
        }
        (levels, effects)
    }

    /// Groups as they are, and how likely that makes the rates: with a level for each two groups,
    /// or with two levels for all, within and across, whichever is likelier.
    fn fit(&self, of: &[usize]) -> Fit {
        let (levels, effects) = self.effects(of);
        let mut rests: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
        for (pair, rate) in &self.pairs {
            let rest = rate - effects[pair.0 as usize] - effects[pair.1 as usize];
            rests.entry(class(of, *pair)).or_default().push(rest);
        }
        let tied = [false, true].map(|is_within| {
            let of_kind = rests.iter().filter(|((a, b), _)| (a == b) == is_within);
            let of_kind: Vec<f64> = of_kind.flat_map(|(_, rests)| rests.iter().copied()).collect();
            // A pair that is alone of its kind would be explained by itself.
            if of_kind.len() > 1 { median(&of_kind) } else { f64::MAX }
        });
        let tied = |(a, b): &(usize, usize)| tied[usize::from(a == b)];
        let own = |class: &(usize, usize)| {
            if rests[class].len() > 1 { levels[class] } else { tied(class) }
        };
        let count = self.pairs.len() as f64;
        let groups = levels.keys().map(|(a, _)| a).collect::<BTreeSet<_>>().len() as f64;
        let scored = |level: &dyn Fn(&(usize, usize)) -> f64, known: usize| {
            let off = |(class, rests): (&(usize, usize), &Vec<f64>)| {
                rests.iter().map(|rest| (rest - level(class)).abs().min(FAR)).sum::<f64>()
            };
            let residual = rests.iter().map(off).sum::<f64>() / count;
            let score = -count * residual.max(RESIDUAL_MIN).ln()
                - 0.5 * known as f64 * count.ln()
                - self.ranks as f64 * groups.ln();
            // Of two that are as good by the least residual the better one is taken, whatever the
            // order of ranks.
            (score - residual, residual)
        };
        let by_class = scored(&own, rests.values().filter(|rests| rests.len() > 1).count());
        let by_two = scored(&tied, levels.len().min(2));
        let is_tied = by_two.0 >= by_class.0;
        let (score, residual) = if is_tied { by_two } else { by_class };
        let levels = levels.into_iter().map(|(class, level)| {
            (class, if is_tied && rests[&class].len() > 1 { tied(&class) } else { level })
        });
        Fit { of: of.to_vec(), levels: levels.collect(), residual, score }
    }

    /// Groups that the widest gaps between rates suggest, by rates as they are and less the effects
    /// of ranks.
    fn guesses(&self) -> BTreeSet<Vec<usize>> {
        let (_, effects) = self.effects(&vec![0; self.ranks]);
        let rest = |((one, other), rate): &((u32, u32), f64)| {
            rate - effects[*one as usize] - effects[*other as usize]
        };
        let as_they_are: Vec<f64> = self.pairs.iter().map(|(_, rate)| *rate).collect();
        let less_effects: Vec<f64> = self.pairs.iter().map(rest).collect();
        let mut guesses = BTreeSet::new();
        for rates in [as_they_are, less_effects] {
            let mut sorted = rates.clone();
            sorted.sort_by(f64::total_cmp);
            let mut gaps: Vec<(f64, f64)> =
                sorted.windows(2).map(|two| (two[1] - two[0], (two[0] + two[1]) / 2.0)).collect();
            gaps.sort_by(|a, b| b.0.total_cmp(&a.0));
            for (_, cut) in gaps.into_iter().take(GAPS_TRIED) {
                for is_above in [true, false] {
                    let joined = |at: &usize| (rates[*at] > cut) == is_above;
                    let of = self.joined((0..self.pairs.len()).filter(joined));
                    guesses.extend(self.without_single(of));
                }
            }
        }
        guesses
    }

    /// Ranks that these pairs join, directly or by way of others, as groups.
    fn joined(&self, pairs: impl Iterator<Item = usize>) -> Vec<usize> {
        let mut of: Vec<usize> = (0..self.ranks).collect();
        for at in pairs {
            let (one, other) = self.pairs[at].0;
            let (keep, drop) = (of[one as usize], of[other as usize]);
            of.iter_mut().filter(|group| **group == drop).for_each(|group| *group = keep);
        }
        of
    }

    /// The same where ranks that are alone are put into the group that they fit best; none where
    /// that leaves one group, or too many.
    fn without_single(&self, mut of: Vec<usize>) -> Option<Vec<usize>> {
        let size = |of: &[usize], group: usize| of.iter().filter(|one| **one == group).count();
        let singles: Vec<usize> =
            (0..self.ranks).filter(|&rank| size(&of, of[rank]) == 1).collect();
        let groups: BTreeSet<usize> =
            of.iter().copied().filter(|&group| size(&of, group) > 1).collect();
        if !(2..=GROUPS_MAX).contains(&groups.len()) || 2 * singles.len() > self.ranks {
            return None;
        }
        let choices: Vec<(usize, usize)> = singles
            .iter()
            .filter_map(|&rank| {
                let score = |&group: &usize| {
                    let mut of = of.clone();
                    of[rank] = group;
                    self.fit(&of).score
                };
                let best = groups.iter().max_by(|a, b| score(a).total_cmp(&score(b)));
                best.map(|&group| (rank, group))
            })
            .collect();
        choices.into_iter().for_each(|(rank, group)| of[rank] = group);
        Some(numbered(&of))
    }

    /// Moves the rank that makes the rates likeliest so, again and again.
    fn improved(&self, mut fit: Fit) -> Fit {
        for _ in 0..CHANGES_MAX {
            let sizes = fit.sizes();
            let movable = (0..self.ranks).filter(|&rank| sizes[fit.of[rank]] > 2);
            let moves = movable.flat_map(|rank| (0..sizes.len()).map(move |group| (rank, group)));
            let moves = moves.filter(|&(rank, group)| fit.of[rank] != group);
            let moved = moves.map(|(rank, group)| {
                let mut of = fit.of.clone();
                of[rank] = group;
                self.fit(&of)
            });
            match moved.max_by(|a, b| a.score.total_cmp(&b.score)) {
                Some(better) if better.score > fit.score => fit = better,
                _ => break,
            }
        }
        fit
    }

    /// Whether groups are a layout: every rank met others of its group, rates differ, and no ranks
    /// are slower than all others with everybody, each other too.
    fn is_layout(&self, fit: &Fit) -> bool {
        let groups = fit.sizes().len();
        let levels = &fit.levels;
        let least = EFFECT_MIN.max(EFFECT_RESIDUALS * fit.residual);
        let (low, high) = ends(levels.values().copied());
        if !(0..groups).all(|group| levels.contains_key(&(group, group))) || high - low <= least {
            return false;
        }
        // Groups that are as slow among themselves as with others.
        let slow: Vec<bool> = (0..groups)
            .map(|group| {
                let leaves = |&(a, b): &(usize, usize)| a != b && (a == group || b == group);
                let across = levels.iter().filter(|(class, _)| leaves(class));
                let fastest = ends(across.map(|(_, level)| *level)).1;
                levels[&(group, group)] < fastest + EFFECT_MIN.max(AS_SLOW * (high - fastest))
            })
            .collect();
        let [with, without] = [true, false].map(|wanted| {
            let own = levels.iter().filter(|((a, b), _)| (slow[*a] || slow[*b]) == wanted);
            ends(own.map(|(_, level)| *level))
        });
        let is_any = with.1.is_finite() && without.0.is_finite();
        !(is_any && with.1 < without.0 - EFFECT_MIN)
    }

    fn found(&self, fit: Fit) -> Found {
        let mut groups = vec![Vec::new(); fit.sizes().len()];
        (0..).zip(&fit.of).for_each(|(rank, &group): (u32, _)| groups[group].push(rank));
        groups.sort_by_key(|ranks| (usize::MAX - ranks.len(), ranks[0]));
        let rates = |is_within: bool| {
            let of_kind = fit.levels.iter().filter(|((a, b), _)| (a == b) == is_within);
            let (low, high) = ends(of_kind.map(|(_, level)| *level));
            [low.exp(), high.exp()]
        };
        let layout = Layout { groups, within: rates(true), across: rates(false) };
        Found { layout, of: fit.of, levels: fit.levels }
    }
}

/// Groups numbered by their first ranks.
fn numbered(of: &[usize]) -> Vec<usize> {
    let mut numbers = BTreeMap::new();
    of.iter()
        .map(|group| {
            let next = numbers.len();
            *numbers.entry(*group).or_insert(next)
        })
        .collect()
}

/// The least and the most of some values.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}
