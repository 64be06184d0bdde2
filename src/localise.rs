//! Names bad nodes from exchanges between pairs of them: pure, from rates to names.
//!
//! In a round every node exchanges data with one other, all pairs at once. A slow pair blames two
//! nodes, and congestion blames pairs of healthy ones now and then. [`pairs`] lays out the next
//! round so that whoever is blamed meets nodes that nobody blames; [`suspects`] weighs all rounds.
//!
//! # How the evidence is weighed
//!
//! Of each node two stories are told (log of their odds). *It is bad*: it makes its pairs slow in
//! some share of rounds, nobody knows which (every share is as likely), and where it does, mostly
//! at a rate of its own: a link at half its width, a NIC that sends twice. *It is healthy*: its
//! slow pairs are congestion, which has no rate of its own. Before any evidence one node in a
//! hundred is bad. Then the strongest suspect is named, its slow pairs are explained and weigh on
//! their other nodes no more, and the rest is weighed again (peeling), until nobody is left whose
//! odds are worth a name. How often there is congestion is taken from the slow pairs that no named
//! node explains.
//!
//! # Few nodes
//!
//! Of four nodes a bad one makes half of all pairs slow, so that no median says what is healthy,
//! and there are few pairs to weigh. Up to eight nodes the pairs are therefore first cut in two at
//! the widest gap between rates, and the set of nodes that would make just the slower ones slow is
//! named, if there is one alone: of three and of four nodes three rounds tell any one. Of two
//! nothing can be told: there is no pair without either.

use crate::verdict::Verdict;
use std::collections::{HashMap, HashSet};

/// Slower than this share of the median pair is slow, unless healthy pairs scatter more widely.
const SLOW: f64 = 0.90;

/// Healthy pairs scatter by less than so many times their median absolute deviation.
const DEVIATIONS: f64 = 8.0;

/// Nodes that are bad before anything is known of them.
const BAD_SHARE: f64 = 0.01;

/// Slow exchanges of a bad node that are at its own rate; the others are at any.
const OWN_RATE_SHARE: f64 = 0.8;

/// Odds from which a node is named.
const ODDS_MIN: f64 = 3.0;

/// Congestion is taken to slow at least this share of pairs, and scatter to be at least so wide
/// (relative), lest a clean round make anything look certain.
const CONGESTION_MIN: f64 = 0.005;
const SCATTER_MIN: f64 = 0.005;

/// One exchange between two nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exchange {
    /// One node.
    pub one: u32,
    /// The other.
    pub other: u32,
    /// The rate, in any unit that all exchanges share.
    pub rate: f64,
}

/// A node that is named.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Suspect {
    /// Which.
    pub node: u32,
    /// How much likelier it is bad than not.
    pub odds: f64,
    /// Its slow exchanges.
    pub slow: u32,
    /// All of its exchanges.
    pub exchanges: u32,
    /// Median rate of the slow ones, as a share of the median of all exchanges.
    pub rate: f64,
}

/// What exchanges tell.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// These nodes are slow, most certain first.
    Named(Vec<Suspect>),
    /// Nobody is: a slow node would have shown.
    Nobody,
    /// It cannot be told who is, for this reason.
    Undecided(String),
}

impl Answer {
    /// The verdict on the nodes.
    pub fn verdict(&self) -> Verdict {
        match self {
            Answer::Named(_) => Verdict::Fail,
            Answer::Nobody => Verdict::Pass,
            Answer::Undecided(_) => Verdict::Inconclusive,
        }
    }
}

/// Up to so many nodes every explanation is tried before evidence is weighed.
const FEW_MAX: u32 = 8;

/// From so many nodes on there is enough to weigh.
const WEIGHED_MIN: u32 = 5;

/// Congestion slows no larger share of exchanges than this; what is more and has no node to explain
/// it is not healthy.
const CONGESTION_MAX: f64 = 0.05;

/// What exchanges tell of nodes that are numbered from 0.
pub fn answer(nodes: u32, exchanges: &[Exchange]) -> Answer {
    if nodes > FEW_MAX {
        return weighed(nodes, exchanges);
    }
    match few(nodes, exchanges) {
        Answer::Undecided(why) if nodes >= WEIGHED_MIN => match weighed(nodes, exchanges) {
            // Where rates scatter and none stands out they may still be all healthy.
            Answer::Nobody if why == SCATTER => Answer::Nobody,
            Answer::Named(suspects) => Answer::Named(suspects),
            Answer::Nobody | Answer::Undecided(_) => Answer::Undecided(why),
        },
        found => found,
    }
}

/// By the weight of the evidence.
fn weighed(nodes: u32, exchanges: &[Exchange]) -> Answer {
    let suspects = suspects(nodes, exchanges);
    if !suspects.is_empty() {
        return Answer::Named(suspects);
    }
    let evidence = Evidence::new(nodes, exchanges);
    let slow = evidence.of.iter().flatten().filter(|(_, _, slow)| *slow).count() / 2;
    let all = exchanges.len();
    if slow as f64 > CONGESTION_MAX * all as f64 {
        let why = format!("{slow} of {all} exchanges were slow, and no node explains them");
        return Answer::Undecided(why);
    }
    nobody(nodes, exchanges)
}

/// Nobody is slow, if a slow node would have shown.
fn nobody(nodes: u32, exchanges: &[Exchange]) -> Answer {
    match hidden(nodes, exchanges) {
        None => Answer::Nobody,
        Some(node) => Answer::Undecided(format!(
            "there are too few pairs with and without rank {node} to compare it with others"
        )),
    }
}

/// A node that could be slow and not be seen: it was in no exchange, or in every one.
fn hidden(nodes: u32, exchanges: &[Exchange]) -> Option<u32> {
    let of = |node: u32| move |one: &&Exchange| one.one == node || one.other == node;
    let count = |node: u32| exchanges.iter().filter(of(node)).count();
    (0..nodes).find(|&node| count(node) == 0 || count(node) == exchanges.len())
}

/// What few exchanges have to lose for it to be a node's fault: more than one healthy exchange
/// loses against another, and at least twice what they scatter.
const GAP_MIN: f64 = 0.2;

/// Why few exchanges tell nothing.
const SCATTER: &str = "rates scatter widely, and none stands out from the others";
const NO_NODE: &str = "some exchanges were slow, and not all those of any node: it may be a link, \
                       congestion, or a fault that comes and goes";

/// Few nodes: names the one set of them, half of all at most, that makes slow just what is.
fn few(nodes: u32, exchanges: &[Exchange]) -> Answer {
    // One that failed is as slow as can be.
    let rate = |one: &Exchange| if one.rate.is_finite() { one.rate } else { 0.0 };
    let mut rates: Vec<f64> = exchanges.iter().map(rate).collect();
    rates.sort_by(f64::total_cmp);
    let (Some(&least), Some(&most)) = (rates.first(), rates.last()) else {
        return Answer::Undecided("there is no pair to compare".into());
    };
    if least >= SLOW * most {
        return nobody(nodes, exchanges);
    }
    // What is lost from the faster of two rates to the slower.
    let lost = |slower: f64, faster: f64| if faster > 0.0 { 1.0 - slower / faster } else { 0.0 };
    let gap = |at: usize| lost(rates[at - 1], rates[at]);
    let widest = (1..rates.len()).max_by(|&a, &b| gap(a).total_cmp(&gap(b)));
    let stands_out = |&at: &usize| {
        let scatter = lost(rates[0], rates[at - 1]).max(lost(rates[at], most));
        gap(at) >= GAP_MIN && gap(at) >= 2.0 * scatter
    };
    let Some(at) = widest.filter(stands_out) else {
        return Answer::Undecided(SCATTER.into());
    };
    let is_slow = |one: &Exchange| rate(one) < rates[at];
    let has = |bad: u32, node: u32| bad >> node & 1 == 1;
    let explains = |bad: &u32| {
        let touched = |one: &Exchange| has(*bad, one.one) || has(*bad, one.other);
        bad.count_ones() <= nodes / 2 && exchanges.iter().all(|one| touched(one) == is_slow(one))
    };
    let sets: Vec<u32> = (0..1 << nodes).filter(explains).collect();
    match sets.as_slice() {
        [] => Answer::Undecided(NO_NODE.into()),
        [bad] => {
            let suspect = |node: u32| {
                let of = exchanges.iter().filter(|one| one.one == node || one.other == node);
                let shares: Vec<f64> = of.map(|one| rate(one) / most).collect();
                let count = shares.len() as u32;
                let (odds, rate) = (f64::INFINITY, median(&shares));
                Suspect { node, odds, slow: count, exchanges: count, rate }
            };
            Answer::Named((0..nodes).filter(|&node| has(*bad, node)).map(suspect).collect())
        }
        several => {
            let any = several.iter().fold(0, |any, bad| any | bad);
            let any = (0..nodes).filter(|&node| has(any, node));
            let ranks: Vec<String> = any.map(|node| node.to_string()).collect();
            let why = format!("it may be any of ranks {}: more rounds may tell", ranks.join(", "));
            Answer::Undecided(why)
        }
    }
}

/// What all exchanges say together.
struct Evidence {
    /// Of each node: (its partner, its rate as a share of the median, whether that is slow).
    of: Vec<Vec<(u32, f64, bool)>>,
    /// Relative deviation of healthy pairs.
    scatter: f64,
}

impl Evidence {
    fn new(nodes: u32, exchanges: &[Exchange]) -> Evidence {
        let rates: Vec<f64> = exchanges.iter().map(|exchange| exchange.rate).collect();
        let median = median(&rates);
        let shares: Vec<f64> = rates.iter().map(|rate| rate / median).collect();
        let deviations: Vec<f64> = shares.iter().map(|share| (share - 1.0).abs()).collect();
        let deviation = self::median(&deviations);
        let slow = SLOW.min(1.0 - DEVIATIONS * deviation);
        let mut of = vec![Vec::new(); nodes as usize];
        for (exchange, share) in exchanges.iter().zip(shares) {
            for (node, partner) in [(exchange.one, exchange.other), (exchange.other, exchange.one)]
            {
                // A rate that is no number is of an exchange that failed: as slow as can be.
                let share = if share.is_finite() { share } else { 0.0 };
                of[node as usize].push((partner, share, share < slow));
            }
        }
        // A normal distribution's deviation is 1.4826 of its median absolute one.
        Evidence { of, scatter: (1.4826 * deviation).max(SCATTER_MIN) }
    }

    /// Names nodes where so large a share of pairs is slowed by congestion.
    fn name(&self, congestion: f64) -> Vec<Suspect> {
        let mut named: HashSet<u32> = HashSet::new();
        let mut suspects = Vec::new();
        let odds = |node: usize, named: &HashSet<u32>| self.odds(node as u32, congestion, named);
        let mut weighed: Vec<f64> = (0..self.of.len()).map(|node| odds(node, &named)).collect();
        loop {
            let best = (0..weighed.len())
                .filter(|&node| !named.contains(&(node as u32)))
                .max_by(|&a, &b| weighed[a].total_cmp(&weighed[b]));
            let Some(best) = best.filter(|&best| weighed[best] > ODDS_MIN.ln()) else {
                return suspects;
            };
            named.insert(best as u32);
            suspects.push(self.suspect(best, weighed[best].exp()));
            for &(partner, _, _) in &self.of[best] {
                weighed[partner as usize] = odds(partner as usize, &named);
            }
        }
    }

    fn suspect(&self, node: usize, odds: f64) -> Suspect {
        let slow: Vec<f64> =
            self.of[node].iter().filter(|(_, _, slow)| *slow).map(|(_, share, _)| *share).collect();
        let exchanges = self.of[node].len() as u32;
        Suspect { node: node as u32, odds, slow: slow.len() as u32, exchanges, rate: median(&slow) }
    }

    /// Log of the odds that a node is bad, from what named nodes do not explain.
    fn odds(&self, node: u32, congestion: f64, named: &HashSet<u32>) -> f64 {
        let unexplained =
            self.of[node as usize].iter().filter(|(partner, _, _)| !named.contains(partner));
        let (mut slow, mut fast) = (Vec::new(), 0u32);
        for &(_, share, is_slow) in unexplained {
            if is_slow {
                slow.push(share);
            } else {
                fast += 1;
            }
        }
        if slow.is_empty() {
            return f64::NEG_INFINITY;
        }
        let count = slow.len() as u32;
        let bad = log_mean_likelihood(count, fast);
        let healthy = f64::from(count) * congestion.ln() + f64::from(fast) * (-congestion).ln_1p();
        let before = (BAD_SHARE / (1.0 - BAD_SHARE)).ln();
        before + bad - healthy + self.own_rate(&slow)
    }

    /// Log of how much likelier slow rates are where they have one in common than where they have
    /// none: of each rate as the common one, the best.
    fn own_rate(&self, slow: &[f64]) -> f64 {
        // Two measured rates of one true rate differ by the root of two deviations.
        let scatter = self.scatter * std::f64::consts::SQRT_2;
        let density = |distance: f64| {
            let normal = (-0.5 * (distance / scatter).powi(2)).exp()
                / (scatter * (2.0 * std::f64::consts::PI).sqrt());
            // Against congestion, at which every share from nothing to all is as likely.
            (OWN_RATE_SHARE * normal + 1.0 - OWN_RATE_SHARE).ln()
        };
        let of = |common: usize| -> f64 {
            let others = slow.iter().enumerate().filter(|(at, _)| *at != common);
            others.map(|(_, share)| density(share - slow[common])).sum()
        };
        (0..slow.len()).map(of).fold(f64::NEG_INFINITY, f64::max)
    }

    /// The share of pairs that are slow and have no named node: congestion, so far as is known.
    fn unexplained(&self, suspects: &[Suspect]) -> f64 {
        let named: HashSet<u32> = suspects.iter().map(|suspect| suspect.node).collect();
        let (mut slow, mut all) = (0u32, 0u32);
        for (node, exchanges) in self.of.iter().enumerate() {
            for (partner, _, is_slow) in exchanges {
                if !named.contains(&(node as u32)) && !named.contains(partner) {
                    all += 1;
                    slow += u32::from(*is_slow);
                }
            }
        }
        (f64::from(slow) / f64::from(all.max(1))).max(CONGESTION_MIN)
    }
}

/// Log of the likelihood of so many slow and fast exchanges, averaged over every share of slow
/// ones: 1 / ((n + 1) binomial(n, k)).
fn log_mean_likelihood(slow: u32, fast: u32) -> f64 {
    let all = slow + fast;
    let steps = 1..=slow.min(fast);
    let binomial: f64 = steps.map(|step| (f64::from(all - step + 1) / f64::from(step)).ln()).sum();
    -binomial - f64::from(all + 1).ln()
}

fn median(values: &[f64]) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// The nodes that exchanges between many name, most certain first. Nodes are numbered from 0.
pub fn suspects(nodes: u32, exchanges: &[Exchange]) -> Vec<Suspect> {
    let evidence = Evidence::new(nodes, exchanges);
    // First everything slow is taken for congestion; then what the nodes named by that leave.
    let first = evidence.name(evidence.unexplained(&[]));
    evidence.name(evidence.unexplained(&first))
}

/// The pairs of the next round. Nodes with unexplained slow exchanges meet nodes that have none,
/// nobody meets a partner again while there are others, and with an odd number of nodes one waits
/// that has met most, of those without blame. `seed` makes the rest random.
pub fn pairs(nodes: u32, exchanges: &[Exchange], seed: u64) -> Vec<(u32, u32)> {
    let evidence = Evidence::new(nodes, exchanges);
    let blame = |node: u32| evidence.of[node as usize].iter().filter(|(_, _, slow)| *slow).count();
    let mut met: HashMap<u32, HashSet<u32>> = HashMap::new();
    for &Exchange { one, other, .. } in exchanges {
        met.entry(one).or_default().insert(other);
        met.entry(other).or_default().insert(one);
    }
    let mut order: Vec<u32> = (0..nodes).collect();
    let mut random = oorandom::Rand64::new(seed.into());
    for last in (1..order.len()).rev() {
        order.swap(last, random.rand_range(0..last as u64 + 1) as usize);
    }
    let partners = |node: u32| met.get(&node).map_or(0, HashSet::len);
    // Stable: random among equals. Who has met all has nothing new to tell. The most blamed choose
    // first, from the least blamed.
    order.sort_by_key(|&node| {
        let met = partners(node);
        (met + 1 >= nodes as usize, std::cmp::Reverse(blame(node)), met)
    });
    let mut free: Vec<u32> = order;
    let mut pairs = Vec::new();
    while free.len() > 1 {
        let node = free.remove(0);
        let known = met.get(&node);
        let stranger = |other: &u32| known.is_none_or(|met| !met.contains(other));
        let at = free.iter().rposition(stranger).unwrap_or(free.len() - 1);
        pairs.push((node, free.remove(at)));
    }
    pairs
}
