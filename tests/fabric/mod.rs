//! A simulated fabric with planted faults: rates of pairs of ranks, for `localise` to judge.

use crate::zoo::{Noise, Zoo};
use fizeau_domain::labels::Kind;
use fizeau_judge::localise::{
    Answer, Exchange, Findings, Group, GroupOf, LEAST_EFFECT, Named, judge_with,
    plan::{Plan, Round},
};
use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU32, Ordering},
};

/// A fabric. Rates are shares of a healthy exchange's.
#[derive(Clone, Debug)]
pub struct Fabric {
    /// Standard deviation of an exchange's rate, as a share of it.
    pub jitter: f64,
    /// Standard deviation of the healthy ranks' own rates.
    pub differ: f64,
    /// How rates scatter by the jitter.
    pub noise: Noise,
    /// Share of exchanges that congestion slows, to 10 % to 90 % of their rate.
    pub congestion: f64,
    /// Share of exchanges whose way through the network is a slower one, and its rate: flows that
    /// a hash puts on the same uplink.
    pub detour: (f64, f64),
    /// The group of each rank and the rates between each two groups, as behind the switches of one
    /// machine. None: all pairs are alike.
    pub topology: Option<Topology>,
    /// How often each two ranks meet, in place of a number of rounds.
    pub meetings: Option<u32>,
    /// The host of each rank.
    pub hosts: Vec<u32>,
    /// Rate of exchanges within a host.
    pub near: f64,
    /// Slow ranks with their rates.
    pub slow: Vec<(u32, f64)>,
    /// Share of exchanges in which a slow rank is slow.
    pub presence: f64,
    /// Slow links with their rates.
    pub links: Vec<((u32, u32), f64)>,
    /// Ranks below one congested switch, and the rate of what leaves it.
    pub leaf: Option<(std::ops::Range<u32>, f64)>,
    /// Hosts with a slow uplink, and the rate of what goes to or from them.
    pub slow_hosts: Option<(std::ops::Range<u32>, f64)>,
    /// Components of the ranks that are known by name.
    pub kinds: Vec<Kind>,
    /// Which of them is slow, or which path: the kind, the component or both ends, and the rate.
    pub slow_component: Option<SlowComponent>,
    /// The kind that rounds keep apart.
    pub apart: Option<usize>,
    /// Whether more rounds follow on doubt. They do where rounds are measured, and not where rates
    /// are read from a file.
    pub further: bool,
}

/// Ranks in groups, whose pairs have a rate for each two groups. Nobody is slow.
#[derive(Clone, Debug)]
pub struct Topology {
    /// The group of each rank.
    pub group: Vec<usize>,
    /// The rate between the ranks of two groups, and within one.
    pub rates: Vec<Vec<f64>>,
}

impl Topology {
    /// Groups of these sizes, at one rate within each and at another across.
    pub fn new(sizes: &[usize], within: f64, across: f64) -> Topology {
        let groups = sizes.len();
        let of = |at: usize| std::iter::repeat_n(at, sizes[at]);
        let rate = |one: usize, other: usize| if one == other { within } else { across };
        Topology {
            group: (0..groups).flat_map(of).collect(),
            rates: (0..groups).map(|one| (0..groups).map(|b| rate(one, b)).collect()).collect(),
        }
    }

    /// 4 to 16 ranks in 2 to 4 groups of 2 at least, each rank anywhere, faster within or across by
    /// a ninth at least, sometimes at a rate of its own within each group.
    pub fn drawn(random: &mut oorandom::Rand64) -> Topology {
        let below =
            |random: &mut oorandom::Rand64, end: u32| random.rand_range(0..u64::from(end)) as usize;
        let ranks = 4 + below(random, 13);
        let most = (ranks / 2).min(4) as u32;
        let groups = 2 + below(random, most - 1);
        let mut sizes = vec![2; groups];
        for _ in 2 * groups..ranks {
            sizes[below(random, groups as u32)] += 1;
        }
        let slow = 0.3 + 0.6 * random.rand_float();
        let is_fast_within = random.rand_float() < 0.5;
        let (within, across) = if is_fast_within { (1.0, slow) } else { (slow, 1.0) };
        let mut drawn = Topology::new(&sizes, within, across);
        if is_fast_within && random.rand_float() < 0.3 {
            (0..groups).for_each(|at| drawn.rates[at][at] = 1.0 + 0.2 * at as f64);
        }
        for last in (1..ranks).rev() {
            drawn.group.swap(last, below(random, last as u32 + 1));
        }
        drawn
    }

    fn rate(&self, one: u32, other: u32) -> f64 {
        self.rates[self.group[one as usize]][self.group[other as usize]]
    }
}

/// What is planted in a component.
#[derive(Clone, Copy, Debug)]
pub enum SlowComponent {
    /// What leaves a component of a kind, at a rate.
    Uplink(usize, u32, f64),
    /// All that a component takes part in.
    Whole(usize, u32, f64),
    /// What is between two components.
    Path(usize, [u32; 2], f64),
}

impl SlowComponent {
    /// The rate of an exchange, if this slows it.
    fn rate(self, kinds: &[Kind], ranks: [u32; 2]) -> Option<f64> {
        let ends = |kind: usize| ranks.map(|rank| kinds[kind].of[rank as usize]);
        match self {
            SlowComponent::Uplink(kind, component, rate) => {
                let is_own = ends(kind).map(|end| end == Some(component));
                (is_own[0] != is_own[1]).then_some(rate)
            }
            SlowComponent::Whole(kind, component, rate) => {
                ends(kind).contains(&Some(component)).then_some(rate)
            }
            SlowComponent::Path(kind, both, rate) => {
                let both = both.map(Some);
                let ends = ends(kind);
                (ends == both || ends == [both[1], both[0]]).then_some(rate)
            }
        }
    }

    fn is_named(self, kinds: &[Kind], named: &Named) -> bool {
        let name = |kind: usize, component: u32| {
            (kinds[kind].name.clone(), kinds[kind].names[component as usize].clone())
        };
        match self {
            SlowComponent::Uplink(kind, component, _)
            | SlowComponent::Whole(kind, component, _) => {
                named.groups.iter().any(|group| is_component(group, &name(kind, component)))
            }
            SlowComponent::Path(kind, both, _) => named.paths.iter().any(|path| {
                path.kind == kinds[kind].name
                    && path.names == both.map(|component| name(kind, component).1)
            }),
        }
    }
}

fn is_component(group: &Group, (kind, name): &(String, String)) -> bool {
    let GroupOf::Component { kind: its_kind, name: its_name, .. } = &group.of else {
        return false;
    };
    its_kind == kind && its_name == name
}

/// Leaves of so many ranks that follow each other, and rails of the ranks at the same place of so
/// many.
pub fn leaves_and_rails(ranks: u32, leaf: u32, rails: u32) -> Vec<Kind> {
    let kind = |name: &str, of: &dyn Fn(u32) -> u32| {
        let of: Vec<Option<u32>> = (0..ranks).map(|rank| Some(of(rank))).collect();
        let count = of.iter().flatten().max().map_or(0, |most| most + 1);
        let names = (0..count).map(|at| format!("{name}{at}")).collect();
        Kind { name: name.into(), names, of }
    };
    vec![kind("leaf", &|rank| rank / leaf), kind("rail", &|rank| rank % rails)]
}

impl Fabric {
    /// A healthy fabric of ranks on a host each.
    pub fn healthy(ranks: u32, jitter: f64) -> Fabric {
        Fabric {
            jitter,
            differ: 0.0,
            noise: Noise::Normal,
            congestion: 0.0,
            detour: (0.0, 1.0),
            topology: None,
            meetings: None,
            hosts: (0..ranks).collect(),
            near: 1.0,
            slow: Vec::new(),
            presence: 1.0,
            links: Vec::new(),
            leaf: None,
            slow_hosts: None,
            kinds: Vec::new(),
            slow_component: None,
            apart: None,
            further: true,
        }
    }

    /// A healthy machine whose ranks are in groups.
    pub fn grouped(topology: Topology, jitter: f64, meetings: u32) -> Fabric {
        let ranks = topology.group.len() as u32;
        let (topology, meetings) = (Some(topology), Some(meetings));
        Fabric { topology, meetings, ..Fabric::healthy(ranks, jitter) }.read_back()
    }

    /// So many slow ranks, drawn at random, at one rate.
    pub fn with_slow(mut self, count: usize, rate: f64, random: &mut oorandom::Rand64) -> Fabric {
        let mut drawn = BTreeSet::new();
        while drawn.len() < count {
            drawn.insert(random.rand_range(0..self.hosts.len() as u64) as u32);
        }
        self.slow = drawn.into_iter().map(|rank| (rank, rate)).collect();
        self
    }

    fn exchange(
        &self,
        round: u32,
        (one, other): (u32, u32),
        own: &[f64],
        time: Option<f64>,
        random: &mut oorandom::Rand64,
    ) -> Exchange {
        let mut rate = own[one as usize].min(own[other as usize]);
        for &(rank, slow) in &self.slow {
            if (rank == one || rank == other) && random.rand_float() < self.presence {
                rate = rate.min(slow);
            }
        }
        for &((a, b), slow) in &self.links {
            if (a, b) == (one.min(other), one.max(other)) {
                rate = rate.min(slow);
            }
        }
        if let Some((ranks, slow)) = &self.leaf
            && ranks.contains(&one) != ranks.contains(&other)
        {
            rate = rate.min(*slow);
        }
        let slow = self.slow_component.and_then(|slow| slow.rate(&self.kinds, [one, other]));
        rate = rate.min(slow.unwrap_or(rate));
        let hosts = [one, other].map(|rank| self.hosts[rank as usize]);
        if hosts[0] == hosts[1] {
            rate *= self.near;
        } else if let Some((slow_hosts, slow)) = &self.slow_hosts
            && hosts.iter().any(|host| slow_hosts.contains(host))
        {
            rate = rate.min(*slow);
        }
        if random.rand_float() < self.congestion {
            rate *= 0.1 + 0.8 * random.rand_float();
        }
        if self.detour.0 > 0.0 && random.rand_float() < self.detour.0 {
            rate *= self.detour.1;
        }
        rate *= self.topology.as_ref().map_or(1.0, |topology| topology.rate(one, other));
        let rate = match time {
            None => rate * (1.0 + self.jitter * normal(random)).max(0.0),
            Some(time) => rate / time,
        };
        Exchange { round, one, other, rate: 45e9 * rate }
    }

    /// Adds the exchanges of some rounds, one session of the noise.
    fn measure(
        &self,
        first: u32,
        rounds: &[Round],
        own: &[f64],
        exchanges: &mut Vec<Exchange>,
        random: &mut oorandom::Rand64,
    ) {
        let count = rounds.iter().map(Vec::len).sum();
        let mut times = Vec::new();
        if self.noise != Noise::Normal {
            times = Zoo::new(random.rand_u64()).times(self.noise, count, self.jitter);
        }
        let mut times = times.into_iter();
        for (round, pairs) in (first..).zip(rounds) {
            for &pair in pairs {
                exchanges.push(self.exchange(round, pair, own, times.next(), random));
            }
        }
    }

    /// Without the rounds that follow on doubt.
    pub fn read_back(self) -> Fabric {
        Fabric { further: false, ..self }
    }

    /// The planned rounds, and those in which slow pairs meet again.
    pub fn play(&self, rounds: u32, random: &mut oorandom::Rand64) -> (Vec<Exchange>, Findings) {
        let ranks = self.hosts.len() as u32;
        let all_met = ranks - 1 + ranks % 2;
        let rounds = self.meetings.map_or(rounds, |meetings| meetings * all_met);
        let own: Vec<f64> = (0..ranks).map(|_| 1.0 + self.differ * normal(random)).collect();
        let mut exchanges = Vec::new();
        let plan = Plan { ranks, apart: self.apart.map(|kind| &self.kinds[kind]) };
        let judge = |exchanges: &[Exchange]| judge_with(&self.hosts, &self.kinds, exchanges);
        let planned: Vec<Round> = (0..rounds).map(|round| plan.round(round)).collect();
        self.measure(0, &planned, &own, &mut exchanges, random);
        let found = judge(&exchanges);
        let more = if self.further { plan.further(rounds, &found) } else { Vec::new() };
        self.measure(rounds, &more, &own, &mut exchanges, random);
        let found = if more.is_empty() { found } else { judge(&exchanges) };
        (exchanges, found.beyond(LEAST_EFFECT))
    }
}

/// A standard normal number (Box and Muller 1958).
pub fn normal(random: &mut oorandom::Rand64) -> f64 {
    let radius = (-2.0 * (1.0 - random.rand_float()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.rand_float()).cos()
}

/// What many runs of a fabric came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub runs: u32,
    /// Rounds of all runs.
    pub rounds: u32,
    /// Slow ranks that were planted, and those of them that were named.
    pub planted: u32,
    pub found: u32,
    /// Healthy ranks that were named, and links and groups that are none.
    pub wrong: u32,
    /// Runs in which somebody was named, nobody was said to be slow, it could not be told.
    pub somebody: u32,
    pub nobody: u32,
    pub undecided: u32,
    /// Runs in which a link was named that was planted, and a group that was.
    pub links: u32,
    pub groups: u32,
    /// Runs in which the planted component or path was named.
    pub components: u32,
}

impl Tally {
    /// Both together.
    fn and(self, other: Tally) -> Tally {
        Tally {
            runs: self.runs + other.runs,
            rounds: self.rounds + other.rounds,
            planted: self.planted + other.planted,
            found: self.found + other.found,
            wrong: self.wrong + other.wrong,
            somebody: self.somebody + other.somebody,
            nobody: self.nobody + other.nobody,
            undecided: self.undecided + other.undecided,
            links: self.links + other.links,
            groups: self.groups + other.groups,
            components: self.components + other.components,
        }
    }

    pub fn add(&mut self, fabric: &Fabric, found: &Findings) {
        self.runs += 1;
        let on_slow_host = |rank: &u32| {
            let host = fabric.hosts[*rank as usize];
            fabric.slow_hosts.as_ref().is_some_and(|(hosts, _)| hosts.contains(&host))
        };
        let mut planted: BTreeSet<u32> = fabric.slow.iter().map(|(rank, _)| *rank).collect();
        planted.extend((0..fabric.hosts.len() as u32).filter(on_slow_host));
        self.planted += planted.len() as u32;
        let named = match &found.answer {
            Answer::Nobody => return self.nobody += 1,
            Answer::Undecided(_) => return self.undecided += 1,
            Answer::Named(named) => named,
        };
        self.somebody += 1;
        let mut ranks: BTreeSet<u32> = named.ranks.iter().map(|slow| slow.rank).collect();
        if let Some(slow) = fabric.slow_component {
            let is_named = slow.is_named(&fabric.kinds, named);
            self.components += u32::from(is_named);
            let others =
                named.ranks.len() + named.groups.len() + named.links.len() + named.paths.len();
            self.wrong += others as u32 - u32::from(is_named);
            return;
        }
        self.wrong += named.paths.len() as u32;
        for group in &named.groups {
            let leaf = fabric.leaf.as_ref().map(|(ranks, _)| ranks.clone().collect::<Vec<u32>>());
            if leaf.as_ref() == Some(&group.ranks) {
                self.groups += 1;
            } else {
                // Said of all its ranks.
                ranks.extend(&group.ranks);
            }
        }
        self.found += planted.intersection(&ranks).count() as u32;
        self.wrong += ranks.difference(&planted).count() as u32;
        for link in &named.links {
            let is_planted = fabric.links.iter().any(|(ranks, _)| *ranks == link.ranks);
            if is_planted { self.links += 1 } else { self.wrong += 1 }
        }
    }
}

/// Plays a fabric that is drawn anew in each of `runs` runs, each with a seed of its own. All
/// processors play: sums do not depend on who plays which run.
pub fn tally(
    runs: u32,
    seed: u64,
    rounds: u32,
    fabric: impl Fn(&mut oorandom::Rand64) -> Fabric + Sync,
) -> Tally {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU32::new(0);
    let play = || {
        let mut tally = Tally::default();
        loop {
            let run = next.fetch_add(1, Ordering::Relaxed);
            if run >= runs {
                return tally;
            }
            let seed = u128::from(seed) << 32 | u128::from(run);
            let mut random = oorandom::Rand64::new(seed);
            let fabric = fabric(&mut random);
            let (exchanges, found) = fabric.play(rounds, &mut random);
            tally.rounds += exchanges.last().map_or(0, |last| last.round + 1);
            tally.add(&fabric, &found);
        }
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(play)).collect();
        let of_all = all.into_iter().map(|one| one.join().expect("a thread that plays"));
        of_all.fold(Tally::default(), Tally::and)
    })
}
