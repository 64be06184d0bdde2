//! Planted fleets: made-up GPUs whose true losses are known, so that rules can be scored.
//!
//! The truth is the true loss of a GPU against the median of its lot, and not what was planted: a
//! healthy GPU may lose more than the least effect by its own spread, and then it is to be found.

use super::{
    Group,
    component::Kind,
    recipe::{Recipe, Shape},
    row::{FORMAT, Row, SIMULATED},
};
use fizeau_domain::stats::quantile::median;
use oorandom::Rand64;
use std::f64::consts::TAU;

/// Random numbers from a seed.
struct Random(Rand64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0.rand_float()
    }

    fn happens(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }

    fn within(&mut self, [least, most]: [f64; 2]) -> f64 {
        least + (most - least) * self.uniform()
    }

    /// A standard normal number (Box and Muller 1958).
    fn normal(&mut self) -> f64 {
        let (a, b) = (self.uniform().max(f64::MIN_POSITIVE), self.uniform());
        (-2.0 * a.ln()).sqrt() * (TAU * b).cos()
    }

    /// Of mean 0 and variance 1.
    fn of(&mut self, shape: Shape) -> f64 {
        match shape {
            // Variance of Student's t with 3 degrees of freedom: 3.
            Shape::HeavyTails => {
                let squares: f64 = (0..3).map(|_| self.normal().powi(2)).sum();
                self.normal() / (squares / 3.0).sqrt() / 3f64.sqrt()
            }
            _ => self.normal(),
        }
    }
}

/// A planted fleet.
pub struct Fleet {
    recipe: Recipe,
    random: Random,
    gpus: usize,
    /// True loss of each GPU in each metric, as a logarithm below the nominal rate.
    losses: Vec<f64>,
    /// What a neighbour costs each node in this session, as a logarithm; by node and metric.
    session: Vec<f64>,
    /// The lot of each GPU.
    lots: Vec<usize>,
    /// The node of each GPU.
    pub nodes: Vec<u32>,
    /// Whether each node has sent anything.
    pub sent: Vec<bool>,
    /// Logarithms of the rates of the first session, by metric, GPU and repeat.
    rates: Vec<Vec<f64>>,
    /// The component that is slow, if one was planted.
    pub slow_component: Option<u32>,
}

/// The name of a planted node by its number.
pub fn node_name(node: u32) -> String {
    format!("n{node:05}")
}

/// The name of a GPU by its place in its node.
pub fn device_name(place: usize) -> String {
    format!("cuda:{place}")
}

/// The share of the least effect that a healthy fleet's losses are held to.
const HEALTHY_MAX: f64 = 0.9;

impl Fleet {
    /// Plants one.
    pub fn plant(recipe: &Recipe, gpus: usize, seed: u64) -> Fleet {
        let random = Random(Rand64::new(u128::from(seed) << 64 | 0xF1EE7));
        let count = gpus.div_ceil(recipe.gpus_per_node);
        let mut fleet = Fleet {
            recipe: recipe.clone(),
            random,
            gpus,
            losses: vec![0.0; gpus * recipe.metrics.len()],
            session: vec![0.0; count * recipe.metrics.len()],
            lots: Vec::new(),
            nodes: (0..gpus).map(|gpu| (gpu / recipe.gpus_per_node) as u32).collect(),
            sent: Vec::new(),
            rates: Vec::new(),
            slow_component: None,
        };
        fleet.plant_lots(count);
        fleet.plant_losses(count);
        fleet.plant_faults();
        fleet.plant_component();
        fleet.plant_neighbours(count);
        fleet.measure();
        fleet
    }

    fn plant_lots(&mut self, nodes: usize) {
        let total: f64 = self.recipe.lots.iter().map(|lot| lot.share).sum();
        let mut of_nodes = Vec::with_capacity(nodes);
        for _ in 0..nodes {
            let mut place = self.random.uniform() * total;
            let mut lot = 0;
            while lot + 1 < self.recipe.lots.len() && place >= self.recipe.lots[lot].share {
                place -= self.recipe.lots[lot].share;
                lot += 1;
            }
            of_nodes.push(lot);
            self.sent.push(!self.random.happens(self.recipe.missing_nodes));
        }
        self.lots = self.nodes.iter().map(|node| of_nodes[*node as usize]).collect();
    }

    fn plant_losses(&mut self, nodes: usize) {
        let is_healthy = self.recipe.faulty == 0.0 && self.recipe.component.is_none();
        let Fleet { recipe, random, losses, lots, .. } = self;
        let metrics = recipe.metrics.len();
        let with_humps = recipe.noise.shape == Shape::TwoHumps;
        for (at, metric) in recipe.metrics.iter().enumerate() {
            let of_nodes: Vec<f64> = (0..nodes).map(|_| metric.node * random.normal()).collect();
            for (gpu, lot) in lots.iter().enumerate() {
                let own = metric.gpu * random.normal();
                let own = if own > 0.0 { own * metric.skew } else { own };
                let hump = if with_humps && random.happens(0.5) { recipe.noise.hump } else { 0.0 };
                let mut loss = own + of_nodes[gpu / recipe.gpus_per_node];
                loss += hump * metric.least_effect;
                if is_healthy {
                    // Against the median, which skew and humps move by less than the rest.
                    let most = HEALTHY_MAX * metric.least_effect;
                    loss = loss.clamp(-most, most);
                }
                losses[gpu * metrics + at] = loss - (1.0 - recipe.lots[*lot].loss).ln();
            }
        }
    }

    fn plant_faults(&mut self) {
        let Fleet { recipe, random, losses, .. } = self;
        let metrics = recipe.metrics.len();
        for gpu in 0..self.gpus {
            if recipe.faults.is_empty() || !random.happens(recipe.faulty) {
                continue;
            }
            let which = (random.uniform() * recipe.faults.len() as f64) as usize;
            let fault = &recipe.faults[which.min(recipe.faults.len() - 1)];
            // Faults cost all of their metrics the same share, as a GPU has one of them.
            let loss = random.within(fault.loss);
            for (at, metric) in recipe.metrics.iter().enumerate() {
                if fault.metrics.contains(&metric.name) {
                    losses[gpu * metrics + at] -= (1.0 - loss).ln();
                }
            }
        }
    }

    fn plant_component(&mut self) {
        let Some(planted) = self.recipe.component.clone() else { return };
        let kinds = self.kinds();
        let Some(kind) = kinds.iter().find(|kind| kind.name == planted.kind) else { return };
        let which = (self.random.uniform() * kind.names.len() as f64) as usize;
        let which = which.min(kind.names.len() - 1) as u32;
        self.slow_component = Some(which);
        let metrics = self.recipe.metrics.len();
        for (gpu, component) in kind.of.iter().enumerate() {
            for (at, metric) in self.recipe.metrics.iter().enumerate() {
                if *component == Some(which) && planted.metrics.contains(&metric.name) {
                    self.losses[gpu * metrics + at] -= (1.0 - planted.loss).ln();
                }
            }
        }
    }

    fn plant_neighbours(&mut self, nodes: usize) {
        let Fleet { recipe, random, session, .. } = self;
        if !recipe.neighbour.whole_session {
            return;
        }
        for node in 0..nodes {
            if !random.happens(recipe.neighbour.share) {
                continue;
            }
            let cost = (1.0 - random.within(recipe.neighbour.loss)).ln();
            for (at, metric) in recipe.metrics.iter().enumerate() {
                if recipe.neighbour.metrics.contains(&metric.name) {
                    session[node * recipe.metrics.len() + at] = cost;
                }
            }
        }
    }

    fn measure(&mut self) {
        for metric in 0..self.recipe.metrics.len() {
            let mut rates = vec![0.0; self.gpus * self.recipe.repeats];
            for repeat in 0..self.recipe.repeats {
                self.repeat(metric, repeat, &mut rates);
            }
            self.rates.push(rates);
        }
    }

    /// One repeat of a metric on all GPUs.
    fn repeat(&mut self, metric: usize, repeat: usize, rates: &mut [f64]) {
        let Fleet { recipe, random, losses, session, .. } = self;
        let (metrics, one) = (recipe.metrics.len(), &recipe.metrics[metric]);
        let noise = &recipe.noise;
        let neighbour = &recipe.neighbour;
        let may_be_slowed = !neighbour.whole_session && neighbour.metrics.contains(&one.name);
        let [own, shared] = [1.0 - noise.within_node, noise.within_node].map(f64::sqrt);
        let drift = match noise.shape {
            Shape::Drift => repeat as f64 * noise.drift * one.least_effect,
            _ => 0.0,
        };
        let (mut of_node, mut slowed) = (0.0, 0.0);
        for gpu in 0..self.gpus {
            if gpu % recipe.gpus_per_node == 0 {
                of_node = shared * random.of(noise.shape);
                slowed = session[gpu / recipe.gpus_per_node * metrics + metric];
                if may_be_slowed && random.happens(neighbour.share) {
                    slowed = (1.0 - random.within(neighbour.loss)).ln();
                }
            }
            let scatter = one.repeat * (own * random.of(noise.shape) + of_node);
            rates[gpu * recipe.repeats + repeat] =
                one.nominal.ln() - losses[gpu * metrics + metric] + scatter + slowed - drift;
        }
    }

    /// How many GPUs.
    pub fn len(&self) -> usize {
        self.gpus
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.gpus == 0
    }

    /// The repeats of a GPU in a metric, as logarithms of shares of the peak.
    pub fn rates(&self, metric: usize, gpu: usize) -> &[f64] {
        let repeats = self.recipe.repeats;
        &self.rates[metric][gpu * repeats..(gpu + 1) * repeats]
    }

    /// The fleet as the rules see it: a group for each metric of each lot.
    pub fn groups(&self) -> Vec<Group> {
        let mut groups = Vec::new();
        for (at, metric) in self.recipe.metrics.iter().enumerate() {
            for lot in 0..self.recipe.lots.len() {
                let mut group = Group::new(&metric.name, lot, metric.least_effect);
                let own =
                    (0..self.gpus).filter(|gpu| self.lots[*gpu] == lot && self.has_sent(*gpu));
                own.for_each(|gpu| group.push(gpu as u32, self.rates(at, gpu).iter().copied()));
                groups.push(group);
            }
        }
        groups
    }

    /// The repeats of a GPU in a metric as a row of a store, marked as simulated. Its unit is the
    /// share of the peak.
    pub fn row(&self, metric: usize, gpu: usize, time: &str) -> Row<'static> {
        let (one, node) = (&self.recipe.metrics[metric], node_name(self.nodes[gpu]));
        Row {
            format: FORMAT,
            mark: SIMULATED.into(),
            session: format!("{node} {time}").into(),
            time: time.to_owned().into(),
            node: node.into(),
            device: device_name(gpu % self.recipe.gpus_per_node).into(),
            uuid: format!("GPU-{gpu:08x}-0000-0000-0000-000000000000").into(),
            part: "simulated".into(),
            driver: self.recipe.lots[self.lots[gpu]].name.clone().into(),
            metric: one.name.clone().into(),
            unit: "1".into(),
            values: self.rates(metric, gpu).iter().map(|log| log.exp()).collect(),
            least_effect: Some(one.least_effect),
            ..Row::default()
        }
    }

    /// The metrics' names.
    pub fn metrics(&self) -> impl Iterator<Item = &str> {
        self.recipe.metrics.iter().map(|metric| metric.name.as_str())
    }

    /// Whether a GPU's node has sent anything.
    pub fn has_sent(&self, gpu: usize) -> bool {
        self.sent[self.nodes[gpu] as usize]
    }

    /// True losses by metric and GPU: shares below the median of the GPU's lot.
    pub fn truth(&self) -> Vec<Vec<f64>> {
        let metrics = self.recipe.metrics.len();
        let of_metric = |at: usize| {
            let mut losses = vec![0.0; self.gpus];
            for lot in 0..self.recipe.lots.len() {
                let own: Vec<usize> = (0..self.gpus).filter(|gpu| self.lots[*gpu] == lot).collect();
                let all: Vec<f64> = own.iter().map(|gpu| self.losses[gpu * metrics + at]).collect();
                if all.is_empty() {
                    continue;
                }
                let centre = median(&all);
                own.iter().zip(&all).for_each(|(gpu, loss)| {
                    losses[*gpu] = 1.0 - (centre - loss).exp();
                });
            }
            losses
        };
        (0..metrics).map(of_metric).collect()
    }

    /// Components by name: nodes, racks, leaves, rails (GPUs at the same place of all nodes).
    pub fn kinds(&self) -> Vec<Kind> {
        let Recipe { gpus_per_node, nodes_per_leaf, nodes_per_rack, .. } = self.recipe;
        let node = |gpu: usize| gpu / gpus_per_node;
        let kind = |name: &str, of: &dyn Fn(usize) -> usize| {
            let of: Vec<Option<u32>> = (0..self.gpus).map(|gpu| Some(of(gpu) as u32)).collect();
            let count = of.iter().flatten().max().map_or(0, |most| *most as usize + 1);
            let names = (0..count).map(|at| format!("{name}{at}")).collect();
            Kind { name: name.into(), names, of }
        };
        let mut all = vec![kind("node", &node)];
        all.push(kind("rack", &|gpu| node(gpu) / nodes_per_rack));
        all.push(kind("leaf", &|gpu| node(gpu) / nodes_per_leaf));
        all.push(kind("rail", &|gpu| gpu % gpus_per_node));
        all
    }

    /// Measures a GPU anew beside a partner, in turn: both rates of each pair, as logarithms. A
    /// neighbour of the first session is gone; a new one may be there, and slows both down where
    /// they are of one node.
    pub fn retest(&mut self, metric: usize, pair: [usize; 2], repeats: usize) -> [Vec<f64>; 2] {
        let nodes = pair.map(|gpu| self.nodes[gpu]);
        let Fleet { recipe, random, losses, .. } = self;
        let (metrics, one) = (recipe.metrics.len(), &recipe.metrics[metric]);
        let neighbour = &recipe.neighbour;
        let is_slowed = neighbour.metrics.contains(&one.name);
        let slowed = |random: &mut Random| match is_slowed && random.happens(neighbour.share) {
            true => (1.0 - random.within(neighbour.loss)).ln(),
            false => 0.0,
        };
        // One that is there for a whole session is there for the whole retest too.
        let first = slowed(random);
        let session = [first, if nodes[0] == nodes[1] { first } else { slowed(random) }];
        let mut found = [Vec::new(), Vec::new()];
        for _ in 0..repeats {
            for (at, gpu) in pair.into_iter().enumerate() {
                let cost = match neighbour.whole_session {
                    true => session[at],
                    false => slowed(random),
                };
                let scatter = one.repeat * random.of(recipe.noise.shape);
                let rate = one.nominal.ln() - losses[gpu * metrics + metric] + scatter + cost;
                found[at].push(rate);
            }
        }
        found
    }
}
