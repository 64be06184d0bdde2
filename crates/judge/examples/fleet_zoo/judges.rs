//! What `fleet drift` and `fleet survey` say of fleets whose figures scatter as the zoo of noises
//! has it: whom they name where all are healthy, and which planted faults they find.

use super::zoo::{Between, NOISES, Noise, Zoo};
use fizeau_domain::{labels::Labels, verdict::Verdict};
use fizeau_judge::fleet::{
    drift::{Drift, drift},
    gather::Gathered,
    row::{FORMAT, Row, SIGNED},
    survey::{Options, Report, Surveyed, survey},
    units::Window,
};
use std::collections::BTreeSet;

/// GPUs of a node.
const GPUS: u32 = 8;

/// Metrics with their least effects, as the profiles have them.
pub const METRICS: [(&str, f64); 4] =
    [("memory read", 0.02), ("peer read", 0.025), ("gemm", 0.04), ("host to device", 0.05)];

/// Standard deviation of one repeat, in least effects.
pub const REPEAT: f64 = 0.2;

/// Standard deviation of healthy GPUs' true rates, in least effects.
pub const OWN: f64 = 0.15;

/// Repeats of a session.
pub const REPEATS: usize = 5;

/// What the figures of a session have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    /// Those of a device in a metric.
    Device,
    /// Those of all devices of a node in a metric.
    Node,
}

/// How figures scatter. The sizes of [`Between`] are in least effects, but for dips.
#[derive(Clone, Copy, Debug)]
pub struct World {
    /// In words, for a table.
    pub name: &'static str,
    /// Within a session.
    pub noise: Noise,
    /// Between sessions.
    pub between: Between,
    /// Who shares what is between sessions.
    pub shared: Shared,
}

/// The worlds of the tables.
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
        World { name, noise, between: Between::Nothing, shared: Shared::Device }
    });
    let dip = |probability, depth| Between::Dip { probability, depth };
    let between = [
        ("each session off by 0.3 x effect", Between::Bias(0.3), Shared::Device),
        ("each session off by 0.5 x effect", Between::Bias(0.5), Shared::Device),
        ("each session of a node off by 0.3 x effect", Between::Bias(0.3), Shared::Node),
        ("each session of a node off by 0.4 x effect", Between::Bias(0.4), Shared::Node),
        ("1 % of the sessions 30 % slow", dip(0.01, 0.3), Shared::Device),
        ("2 % of the sessions of a node 20 % slow", dip(0.02, 0.2), Shared::Node),
        ("random walk of 0.1 x effect a session", Between::Walk(0.1), Shared::Device),
        ("random walk of 0.2 x effect a session", Between::Walk(0.2), Shared::Device),
    ];
    let between = between.map(|(name, between, shared)| World {
        name,
        noise: Noise::Normal,
        between,
        shared,
    });
    within.into_iter().chain(between).collect()
}

/// What is planted in one device of a fleet, in the metric of its number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// Nothing.
    Nothing,
    /// It loses this many least effects from the middle session on; in a survey from the first.
    Step(f64),
    /// It loses a little each session, and this many least effects in all.
    Decay(f64),
    /// It loses this many least effects in every session.
    Whole(f64),
}

impl Fault {
    /// The loss in a session of `sessions`, in least effects.
    pub fn lost(self, session: usize, sessions: usize) -> f64 {
        match self {
            Fault::Nothing => 0.0,
            Fault::Whole(by) => by,
            Fault::Step(by) if sessions == 1 || 2 * session >= sessions => by,
            Fault::Step(_) => 0.0,
            Fault::Decay(by) => by * session as f64 / (sessions.max(2) - 1) as f64,
        }
    }
}

/// A node, a GPU and a metric.
type Place = (u32, u32, usize);

/// Rows of all sessions of a fleet, and where the fault is.
pub struct Fleet {
    /// Its rows.
    pub rows: Vec<Row<'static>>,
    /// What is planted.
    pub planted: BTreeSet<Place>,
}

impl Fleet {
    /// Measured once a day, from a seed. `faulty` devices have the fault in one metric each.
    pub fn of(
        world: &World,
        nodes: u32,
        sessions: usize,
        faulty: u32,
        fault: Fault,
        seed: u64,
    ) -> Fleet {
        let mut zoo = Zoo::new(seed);
        let planted: BTreeSet<Place> = (0..faulty)
            .map(|at| ((at * 7) % nodes, (at * 3) % GPUS, at as usize % METRICS.len()))
            .collect();
        let mut rows = Vec::new();
        for metric in 0..METRICS.len() {
            for node in 0..nodes {
                let of_node = factors(&mut zoo, world, metric, sessions);
                for gpu in 0..GPUS {
                    let own = match world.shared {
                        Shared::Device => factors(&mut zoo, world, metric, sessions),
                        Shared::Node => of_node.clone(),
                    };
                    let place = (node, gpu, metric);
                    let its = if planted.contains(&place) { fault } else { Fault::Nothing };
                    rows.extend(course(&mut zoo, world, place, &own, its));
                }
            }
        }
        Fleet { rows, planted }
    }

    fn surveyed(&self, combine: bool) -> Surveyed {
        let mut gathered = Gathered::default();
        self.rows.iter().for_each(|row| gathered.take(row, &"a planted row"));
        let window = Window { latest: "2027-01-01".into(), combine, ..Window::default() };
        survey(gathered, &Options { window, ..Options::default() }, &Labels::default(), None)
    }

    fn is_planted(&self, node: &str, device: &str, metric: &str) -> bool {
        self.planted.iter().any(|(at, gpu, of)| {
            node == name_of(*at) && device == format!("cuda:{gpu}") && metric == METRICS[*of].0
        })
    }
}

/// What the sessions of one device, or of one node, have in common.
fn factors(zoo: &mut Zoo, world: &World, metric: usize, sessions: usize) -> Vec<f64> {
    let effect = METRICS[metric].1;
    let scaled = match world.between {
        Between::Bias(size) => Between::Bias(size * effect),
        Between::Walk(size) => Between::Walk(size * effect),
        other => other,
    };
    zoo.sessions(scaled, sessions)
}

fn name_of(node: u32) -> String {
    format!("n{node}")
}

/// The sessions of a device in a metric.
fn course(
    zoo: &mut Zoo,
    world: &World,
    place: Place,
    own: &[f64],
    fault: Fault,
) -> Vec<Row<'static>> {
    let (node, gpu, metric) = place;
    let (name, effect) = METRICS[metric];
    let truth = (OWN * effect * zoo.normal()).exp();
    let session = |(at, factor): (usize, &f64)| {
        let lost = 1.0 - effect * fault.lost(at, own.len());
        let times = zoo.times(world.noise, REPEATS, REPEAT * effect);
        let rate = |time: f64| 1e12 * truth * lost / (time * factor);
        Row {
            format: FORMAT,
            session: format!("{node} {at}").into(),
            sender: SIGNED.into(),
            time: format!("2026-{:02}-{:02}T10:00:00Z", 1 + at / 28, 1 + at % 28).into(),
            node: name_of(node).into(),
            device: format!("cuda:{gpu}").into(),
            uuid: format!("GPU-{node}-{gpu}").into(),
            part: "h100-sxm".into(),
            metric: name.into(),
            point: name.into(),
            unit: "B/s".into(),
            values: times.into_iter().map(rate).collect(),
            least_effect: Some(effect),
            ..Row::default()
        }
    };
    own.iter().enumerate().map(session).collect()
}

/// What a judge said of some fleets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Fleets that were judged.
    pub judged: usize,
    /// Fleets in which a healthy device is named.
    pub fleets: usize,
    /// Healthy figures that are named.
    pub healthy: usize,
    /// Planted faults that are named.
    pub found: usize,
    /// Planted faults.
    pub planted: usize,
    /// Healthy figures that could not be decided.
    pub open: usize,
    /// Healthy figures.
    pub all: usize,
}

/// Nodes and daily sessions of a store that is looked at for changes.
pub const STORE: (u32, usize) = (6, 20);

/// What `fleet drift` says of stores with this fault in one of six devices.
pub fn drifts(world: &World, fault: Fault, stores: u64, seed: u64) -> Said {
    let mut said = Said::default();
    for at in 0..stores {
        let faulty = if fault == Fault::Nothing { 0 } else { 6 };
        let fleet = Fleet::of(world, STORE.0, STORE.1, faulty, fault, seed + at);
        let Drift { changes, decays, series, .. } = drift(&fleet.surveyed(false));
        let of_changes = changes.iter().map(|one| (&one.node, &one.device, &one.metric));
        let of_decays = decays.iter().map(|one| (&one.node, &one.device, &one.metric));
        let named: Vec<bool> = { of_changes.chain(of_decays) }
            .map(|(node, device, metric)| fleet.is_planted(node, device, metric))
            .collect();
        said.count(&named, fleet.planted.len());
        said.all += series - fleet.planted.len();
    }
    said
}

/// Nodes of a fleet that is surveyed.
pub const NODES: u32 = 100;

/// What `fleet survey` says of fleets with `sessions` sessions, of which the last one counts, or
/// all of them where there are several.
pub fn surveys(world: &World, fault: Fault, sessions: usize, fleets: u64, seed: u64) -> Said {
    let mut said = Said::default();
    for at in 0..fleets {
        let faulty = if fault == Fault::Nothing { 0 } else { 8 };
        let whole = match fault {
            Fault::Step(by) => Fault::Whole(by),
            other => other,
        };
        let fleet = Fleet::of(world, NODES, sessions, faulty, whole, seed + at);
        let Report { flagged, .. } = fleet.surveyed(sessions > 1).report;
        let (failed, open): (Vec<_>, Vec<_>) =
            flagged.iter().partition(|one| one.verdict == Verdict::Fail);
        let named: Vec<bool> = { failed.iter() }
            .map(|one| fleet.is_planted(&one.node, &one.device, &one.metric))
            .collect();
        said.count(&named, fleet.planted.len());
        said.open += open.len();
        said.all += fleet.rows.len() / sessions - fleet.planted.len();
    }
    said
}

impl Said {
    fn count(&mut self, named: &[bool], planted: usize) {
        let healthy = named.iter().filter(|is_planted| !**is_planted).count();
        self.judged += 1;
        self.healthy += healthy;
        self.fleets += usize::from(healthy > 0);
        self.found += named.len() - healthy;
        self.planted += planted;
    }
}
