//! Worlds of noise: how the repeats of a session scatter (tests/zoo), and what a session is off by
//! from the next one of the same device. The profile is learnt in the same world.

use super::{
    model::{Model, Planted},
    random::Random,
    zoo::{NOISES, Noise, Zoo},
};
use fizeau_domain::verdict::Verdict;
use std::cell::Cell;

/// Repeats that are drawn of a series: more than an acceptance takes of one.
const REPEATS: usize = 60;

/// Nodes that are judged by one profile.
const NODES_OF_A_PROFILE: usize = 20;

/// A world.
#[derive(Clone, Copy, Debug)]
pub struct World {
    /// In words, for a table.
    pub name: &'static str,
    /// Within a session.
    pub noise: Noise,
    /// Standard deviation of what a session is off by, in least effects.
    pub bias: f64,
    /// Whether all devices of a node share it.
    pub is_of_node: bool,
}

/// The worlds of the table.
pub fn worlds() -> Vec<World> {
    let within = NOISES.map(|noise| {
        let name = match noise {
            Noise::Normal => "normal",
            Noise::SlowTail => "slow tail, log-normal",
            Noise::Gamma => "slow tail, gamma",
            Noise::HeavyTail => "heavy tails",
            Noise::Burst => "bursts",
            Noise::Modes => "two modes",
            Noise::WarmUp => "warm-up",
        };
        World { name, noise, bias: 0.0, is_of_node: false }
    });
    let between = [
        ("each session off by 0.3 x effect", 0.3, false),
        ("each session off by 0.5 x effect", 0.5, false),
        ("each session of a node off by 0.3 x effect", 0.3, true),
        ("each session of a node off by 0.4 x effect", 0.4, true),
    ];
    let noise = Noise::Normal;
    let between = between.map(|(name, bias, is_of_node)| World { name, noise, bias, is_of_node });
    within.into_iter().chain(between).collect()
}

/// The repeats of a series in one session.
pub struct Drawn {
    times: Vec<f64>,
    next: Cell<usize>,
}

impl Drawn {
    /// Draws them, with the scale that a normal noise would have, as a share.
    pub fn of(noise: Noise, scale: f64, random: &mut Random) -> Drawn {
        let mut zoo = Zoo::new((random.uniform() * 2f64.powi(53)) as u64);
        Drawn { times: zoo.times(noise, REPEATS, scale), next: Cell::new(0) }
    }

    /// The next one, as the logarithm of a rate.
    pub fn next(&self) -> f64 {
        let at = self.next.replace(self.next.get() + 1);
        -self.times[at % self.times.len()].ln()
    }
}

/// What became of nodes in a world.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// How many.
    pub nodes: usize,
    /// Healthy checks that failed.
    pub wrong: usize,
    /// Nodes with a healthy check that failed.
    pub nodes_wrong: usize,
    /// Nodes of which the planted check failed.
    pub found: usize,
    /// Nodes that were inconclusive.
    pub inconclusive: usize,
}

/// Nodes in a world, with a loss in least effects planted in one check of one device.
pub fn simulate(model: &Model, world: World, loss: Option<f64>, nodes: usize, seed: u64) -> Rates {
    let model = Model { world: Some(world), ..model.clone() };
    let name = format!("{} {loss:?}", world.name);
    let stream = name.bytes().fold(7u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
    let mut random = Random::new(seed, stream);
    let mut rates = Rates { nodes, ..Rates::default() };
    let mut references = Vec::new();
    let metrics = model.metrics.len();
    for number in 0..nodes {
        if number % NODES_OF_A_PROFILE == 0 {
            references = model.references(&mut random);
        }
        let planted = loss.map_or(Planted::Nothing, Planted::Alone);
        let node = model.node(planted, false, &mut random);
        let accepted = model.accept(&node, &references, &mut random);
        let planted = loss.map(|_| node.faulty * metrics + node.faulty % metrics);
        let failed = |place: &usize| accepted.decisions[*place].verdict == Verdict::Fail;
        let all = (0..accepted.decisions.len()).filter(failed);
        let wrong = all.filter(|place| Some(*place) != planted).count();
        rates.wrong += wrong;
        rates.nodes_wrong += usize::from(wrong > 0);
        rates.found += usize::from(planted.is_some_and(|place| failed(&place)));
        rates.inconclusive += usize::from(accepted.verdict() == Verdict::Inconclusive);
    }
    rates
}
