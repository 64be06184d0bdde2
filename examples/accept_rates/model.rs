//! Simulated nodes, by the noise model of `noise.toml`.

use super::{
    random::Random,
    worlds::{Drawn, World},
};
use fizeau_domain::verdict::Verdict;
use fizeau_judge::accept::{
    Resource,
    cause::{self, Cause, Facts, Loss},
    decide::{Against, Decision, RETEST, Sequence, Series},
    learn::{self, Value},
    node::{reference_bar, session_of},
    profile::{Aspect, Reference},
};
use serde::Deserialize;

/// The noise model.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Devices of a node.
    pub devices: usize,
    /// Healthy devices.
    pub healthy: Healthy,
    /// The learnt profile.
    pub reference: Learnt,
    /// Noisy neighbours.
    pub neighbour: Neighbour,
    /// The rows in which repeats scatter by more than the gate allows.
    pub noisy: Noisy,
    /// What is measured.
    #[serde(rename = "metric")]
    pub metrics: Vec<Metric>,
    /// What is planted.
    #[serde(rename = "fault")]
    pub faults: Vec<Fault>,
    /// How repeats and sessions scatter; absent: repeats normally, sessions by [`Healthy::run`].
    #[serde(skip)]
    pub world: Option<World>,
}

/// Healthy devices; all as shares of a metric's least effect.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Healthy {
    /// Standard deviation of the true loss.
    pub spread: f64,
    /// How much longer its tail to the slow side is.
    pub skew: f64,
    /// The most that a healthy device loses.
    pub loss_max: f64,
    /// Coefficient of variation of repeats: least and most.
    pub repeat_cv: [f64; 2],
    /// Standard deviation of nodes.
    pub node: f64,
    /// Standard deviation of runs.
    pub run: f64,
}

/// How many runs the profile is learnt from.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Learnt {
    /// Nodes.
    pub nodes: usize,
    /// Runs of each.
    pub runs: usize,
}

/// Noisy neighbours.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Neighbour {
    /// The share of node-runs that has one.
    pub share: f64,
    /// What it costs: least and most.
    pub loss: [f64; 2],
    /// The share of repeats that it is there for: least and most.
    pub repeats: [f64; 2],
    /// What it slows down.
    pub resources: Vec<Resource>,
}

/// Repeats that scatter by more than the gate allows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noisy {
    /// Their coefficient of variation, as a share of the least effect.
    pub repeat_cv: [f64; 2],
}

/// A metric.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// What it exercises.
    pub resource: Resource,
    /// Its least effect.
    pub delta: f64,
}

/// A fault.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Its name.
    pub name: String,
    /// What should be named.
    pub cause: Cause,
    /// The metrics that it slows down.
    pub metrics: Vec<String>,
    /// What it costs: least and most.
    pub quantum: [f64; 2],
}

/// What is planted on one device of a node.
#[derive(Clone, Copy, Debug)]
pub enum Planted<'m> {
    /// Nothing.
    Nothing,
    /// Twice the least effect of each metric that a fault slows down.
    AtTwice(&'m Fault),
    /// What the fault costs by its nature.
    Quantum(&'m Fault),
    /// This many least effects of one metric, the one with the device's number.
    Alone(f64),
}

/// A simulated node: its true losses, which is what its verdict is held to.
pub struct Node {
    /// True loss, as a logarithm, by device and metric.
    losses: Vec<f64>,
    /// Offset of this run.
    run: Vec<f64>,
    /// Coefficient of variation of repeats, by metric.
    noise: Vec<f64>,
    /// What a neighbour costs, and in what share of the repeats, by metric.
    neighbour: Vec<Option<(f64, f64)>>,
    /// What this session is off by in a world, by device and metric.
    bias: Vec<f64>,
    /// The repeats of this session in a world, by device and metric.
    drawn: Vec<Drawn>,
    /// The device with the fault.
    pub faulty: usize,
}

impl Model {
    /// The committed one.
    ///
    /// # Errors
    /// Where the file is none.
    pub fn read() -> Result<Model, toml::de::Error> {
        toml::from_str(include_str!("noise.toml"))
    }

    /// A node, with what is planted on one of its devices.
    pub fn node(&self, planted: Planted<'_>, is_noisy: bool, random: &mut Random) -> Node {
        let within = |[least, most]: [f64; 2], random: &mut Random| {
            least + (most - least) * random.uniform()
        };
        let faulty = random.below(self.devices);
        let by_neighbour = random.happens(self.neighbour.share);
        let cv = if is_noisy { self.noisy.repeat_cv } else { self.healthy.repeat_cv };
        let mut node = Node {
            losses: vec![0.0; self.devices * self.metrics.len()],
            run: vec![0.0; self.devices * self.metrics.len()],
            noise: Vec::new(),
            neighbour: Vec::new(),
            bias: vec![0.0; self.devices * self.metrics.len()],
            drawn: Vec::new(),
            faulty,
        };
        // Faults cost all of their metrics the same share, as a device has one of them.
        let quantum = match planted {
            Planted::Quantum(fault) => Some(within(fault.quantum, random)),
            _ => None,
        };
        for (at, metric) in self.metrics.iter().enumerate() {
            let of_node = self.healthy.node * random.normal();
            node.noise.push(metric.delta * within(cv, random));
            let is_slowed = by_neighbour && self.neighbour.resources.contains(&metric.resource);
            node.neighbour.push(is_slowed.then(|| {
                (within(self.neighbour.loss, random), within(self.neighbour.repeats, random))
            }));
            for device in 0..self.devices {
                let own = random.normal() * self.healthy.spread;
                let own = if own > 0.0 { own * self.healthy.skew } else { own };
                let limit = self.healthy.loss_max;
                let share = (own + of_node).clamp(-limit, limit);
                let mut loss = share * metric.delta;
                if device == faulty {
                    loss = match (planted, quantum) {
                        (Planted::AtTwice(fault), _) if fault.has(metric) => 2.0 * metric.delta,
                        (Planted::Quantum(fault), Some(quantum)) if fault.has(metric) => quantum,
                        (Planted::Alone(times), _) if at == faulty % self.metrics.len() => {
                            times * metric.delta
                        }
                        _ => loss,
                    };
                }
                let place = device * self.metrics.len() + at;
                node.losses[place] = -(-loss).ln_1p();
                node.run[place] = metric.delta * self.healthy.run * random.normal();
            }
        }
        self.begin_session(&mut node, random);
        node
    }

    /// Draws what a session of a node is off by, and its repeats, as the world has it.
    fn begin_session(&self, node: &mut Node, random: &mut Random) {
        let Some(world) = self.world else { return };
        let metrics = self.metrics.len();
        let of_node: Vec<f64> = (0..metrics).map(|_| random.normal()).collect();
        for place in 0..node.bias.len() {
            let metric = place % metrics;
            let normal = if world.is_of_node { of_node[metric] } else { random.normal() };
            node.bias[place] = world.bias * self.metrics[metric].delta * normal;
        }
        let drawn = |place: usize| Drawn::of(world.noise, node.noise[place % metrics], random);
        node.drawn = (0..node.bias.len()).map(drawn).collect();
    }

    /// The references that are learnt from healthy nodes, as the program learns them.
    pub fn references(&self, random: &mut Random) -> Vec<Reference> {
        let mut values = vec![Vec::new(); self.metrics.len()];
        for node_number in 0..self.reference.nodes {
            let mut node = self.node(Planted::Nothing, false, random);
            node.neighbour.fill(None);
            for run in 0..self.reference.runs {
                self.begin_session(&mut node, random);
                for place in 0..node.losses.len() {
                    let (device, metric) = (place / self.metrics.len(), place % self.metrics.len());
                    let delta = self.metrics[metric].delta;
                    node.run[place] = delta * self.healthy.run * random.normal();
                    let mut logs: Vec<f64> =
                        (0..5).map(|_| node.repeat(self, place, false, random)).collect();
                    logs.sort_by(f64::total_cmp);
                    values[metric].push(Value {
                        log: logs[2],
                        error: learn::error_of_median(&logs),
                        noise: None,
                        device: (format!("node{node_number}"), format!("{device}")),
                        started: format!("run {run}"),
                    });
                }
            }
        }
        let learnt = |(values, metric): (&Vec<Value>, &Metric)| {
            learn::reference(&metric.name, Aspect::Rate, values)
        };
        values.iter().zip(&self.metrics).map(learnt).collect()
    }

    /// Sends a node through the whole procedure.
    pub fn accept(&self, node: &Node, references: &[Reference], random: &mut Random) -> Accepted {
        let metrics = self.metrics.len();
        let series = (0..node.losses.len()).map(|place| {
            let metric = place % metrics;
            let least_effect = self.metrics[metric].delta;
            let reference = &references[metric];
            let (bars, values) = (vec![reference_bar(reference, least_effect)], Vec::new());
            let session = session_of(reference);
            Series { metric, least_effect, values, bars, has_peers: true, session }
        });
        let mut sequence = Sequence::new(series.collect());
        let mut repeats = 0;
        while !sequence.is_over() {
            for (place, count) in sequence.wanted() {
                let is_retest = count <= RETEST && sequence.failed_at_first().contains(&place);
                for _ in 0..count {
                    sequence.take(place, node.repeat(self, place, is_retest, random));
                    repeats += 1;
                }
            }
            sequence.judge();
        }
        let decisions = (0..node.losses.len()).filter_map(|place| sequence.decision(place));
        let first = sequence.failed_at_first().to_vec();
        Accepted { decisions: decisions.collect(), failed_at_first: first, repeats }
    }

    /// What is named for the faulty device, by the program's own rules.
    pub fn named(&self, node: &Node, accepted: &Accepted, facts: &Facts) -> Option<Cause> {
        let places =
            (0..self.metrics.len()).map(|metric| node.faulty * self.metrics.len() + metric);
        let losses: Vec<Loss> = places
            .zip(&self.metrics)
            .filter_map(|(place, metric)| {
                let decision = &accepted.decisions[place];
                let bar = decision.bar.filter(|bar| bar.against != Against::Floor)?;
                let loss = 1.0 - (decision.log - bar.log).exp() * (1.0 - metric.delta);
                let failed = decision.verdict == Verdict::Fail;
                Some(Loss { resource: metric.resource, loss, failed })
            })
            .collect();
        let worst = losses.iter().filter(|one| one.failed).max_by(|a, b| a.loss.total_cmp(&b.loss));
        worst.map(|worst| cause::name(worst.resource, &losses, facts))
    }
}

impl Fault {
    /// Whether it slows a metric down.
    pub fn has(&self, metric: &Metric) -> bool {
        self.metrics.contains(&metric.name)
    }

    /// What a device with it says of its state.
    pub fn facts(&self) -> Facts {
        let held = |word: &str| vec![word.to_owned()];
        let held_by = match self.cause {
            Cause::Thermal => held("hardware thermal slowdown"),
            Cause::WeakSilicon => held("power cap"),
            _ => Vec::new(),
        };
        Facts { held_by, peer_links: Some(18), ..Facts::default() }
    }
}

impl Node {
    /// The logarithm of the rate of one repeat. A neighbour is gone when a failure is measured
    /// anew.
    fn repeat(&self, model: &Model, place: usize, is_retest: bool, random: &mut Random) -> f64 {
        let metric = place % model.metrics.len();
        let slowed = match self.neighbour[metric] {
            Some((loss, share)) if !is_retest && random.happens(share) => loss,
            _ => 0.0,
        };
        let noise = match self.drawn.get(place) {
            Some(drawn) => drawn.next(),
            None => self.noise[metric] * random.normal(),
        };
        -self.losses[place] + self.run[place] + self.bias[place] + noise + (-slowed).ln_1p()
    }

    /// The true loss of a place, as a share.
    pub fn loss(&self, place: usize) -> f64 {
        -(-self.losses[place]).exp_m1()
    }
}

/// What became of a simulated node.
pub struct Accepted {
    /// By device and metric.
    pub decisions: Vec<Decision>,
    /// Places that failed before they were measured anew.
    pub failed_at_first: Vec<usize>,
    /// Repeats in all.
    pub repeats: usize,
}

impl Accepted {
    /// The verdict on the node.
    pub fn verdict(&self) -> Verdict {
        Verdict::on_all(self.decisions.iter().map(|one| one.verdict))
    }
}
