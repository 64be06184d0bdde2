//! The network interfaces of one node: rates that perftest's `ib_write_bw` measured between them,
//! and verdicts on each.
//!
//! Interfaces write to each other in a ring: each takes part in two pairs, and is judged by the
//! better one, so that a slow interface does not fail its neighbours. Of two, both pairs are the
//! same, and so is the verdict on both; one alone writes to itself, which its cable has no part in.

use super::{
    Judged, Quantity,
    cause::Cause,
    decide::{Against, Bar, LOOKS, Reason, Sequence, Series},
};
use fizeau_domain::{
    node_state::{Interface, NodeState},
    stats::student::Variance,
    verdict::Verdict,
};
use serde::{Deserialize, Serialize};

/// The check's name.
pub const CHECK: &str = "network bandwidth";

/// The least relative loss that counts.
const LEAST_EFFECT: f64 = 0.03;

/// The floor, as a share of the port's rate: a tenth less than what operators ask for. OCI's
/// limits for `ib_write_bw` are 96 % (96, 192, 384 of 100, 200, 400 Gbit/s), Azure's 95 % (380 of
/// 400), and one public measurement of a healthy port is 96.9 % (193.7 of 200; stas00's
/// ml-engineering). Those are of two nodes; within one the host's link may carry both directions.
pub const FLOOR: f64 = 0.86;

/// Where [`FLOOR`] comes from, in words.
pub const SOURCE: &str = "86 % of the port's rate: a tenth less than the 95 and 96 % that Azure \
                          and OCI ask of ib_write_bw between nodes";

/// A port that takes part.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// Device and port, `mlx5_0/1`.
    pub name: String,
    /// Its rate in Gbit/s.
    pub gigabits: f64,
}

/// The ports of a node that are up and tell their rate, in the state's order.
pub fn ports(state: &NodeState) -> Vec<Port> {
    let port = |one: &Interface| {
        let gigabits = one.gigabits.filter(|rate| *rate > 0.0)?;
        one.is_up().then(|| Port { name: one.name.clone(), gigabits })
    };
    state.interfaces.iter().filter_map(port).collect()
}

/// Of a pair (from, to) the rate in Gbit/s, or why there is none.
pub type Rate = ([usize; 2], Result<f64, String>);

/// All that the decision on the network was told, in order: [`again`] decides the same from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Told {
    /// What was measured: each pair by the numbers of its ports in the list of [`ports`].
    pub rounds: Vec<Vec<Rate>>,
    /// Whether the budget or the user ended it.
    #[serde(default)]
    pub ended: bool,
}

/// Tells the network the same again.
///
/// # Errors
/// In words, where a port is told of that there is not, or a rate is none.
pub fn again(ports: Vec<Port>, told: &Told) -> Result<Network, String> {
    let count = ports.len();
    let mut network = Network::new(ports);
    for round in &told.rounds {
        for (pair, rate) in round {
            if pair.iter().any(|port| *port >= count) {
                let [from, to] = pair;
                return Err(format!("ports {from} and {to} are told of, and {count} are up"));
            }
            if let Ok(rate) = rate
                && !(*rate > 0.0 && rate.is_finite())
            {
                return Err(format!("the rate of a port is told as {rate} Gbit/s"));
            }
        }
        // It judges and gives up before it wants more.
        network.wanted();
        network.take(round);
    }
    network.wanted();
    if told.ended {
        network.end();
    }
    Ok(network)
}

/// The pairs that are measured: from, to.
pub fn pairs(ports: usize) -> Vec<[usize; 2]> {
    (0..ports).map(|at| [at, (at + 1) % ports]).collect()
}

/// No port of a network is faster, in Gbit/s: the fastest standard of Ethernet, IEEE 802.3dj, has
/// 1,600.
const GIGABITS_MAX: f64 = 1e5;

/// The average bandwidth in what `ib_write_bw --report_gbits` prints: the fourth number of the last
/// line of numbers (`#bytes #iterations BW peak BW average MsgRate`), in Gbit/s. A peak of 0.00 is
/// one that was not looked for.
///
/// # Errors
/// In words: what is not there.
pub fn parse(text: &str) -> Result<f64, String> {
    let is_in_gigabits = text.contains("[Gb/sec]");
    let numbers = |line: &str| -> Option<Vec<f64>> {
        let words: Vec<f64> =
            line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        (words.len() >= 4).then_some(words)
    };
    let last = text.lines().filter_map(numbers).next_back();
    match last {
        _ if !is_in_gigabits => Err("it printed no table in Gb/sec".into()),
        None => Err("its table has no line of numbers".into()),
        Some(words) if words[3] > 0.0 && words[3] <= GIGABITS_MAX => Ok(words[3]),
        Some(words) if words[3] > GIGABITS_MAX => {
            Err("its average bandwidth is above 100,000 Gbit/s, which no port reaches".into())
        }
        Some(words) => Err(format!("its average bandwidth is {}", words[3])),
    }
}

/// The ports under test: rates go in, verdicts come out.
pub struct Network {
    ports: Vec<Port>,
    sequence: Sequence,
    /// Why a pair could not be measured.
    failed: Vec<Option<String>>,
    told: Told,
}

impl Network {
    /// Begins.
    pub fn new(ports: Vec<Port>) -> Network {
        let series = |(metric, port): (usize, &Port)| Series {
            // Ports of one rate are set beside each other.
            metric: ports.iter().position(|one| one.gigabits == port.gigabits).unwrap_or(metric),
            least_effect: LEAST_EFFECT,
            values: Vec::new(),
            bars: vec![Bar {
                against: Against::Floor,
                log: (FLOOR * port.gigabits).ln(),
                error: Variance { value: 0.0, freedom: f64::INFINITY },
                may_pass: true,
                may_fail: true,
            }],
            has_peers: true,
            session: None,
        };
        let sequence = Sequence::new(ports.iter().enumerate().map(series).collect());
        let count = ports.len();
        Network { ports, sequence, failed: vec![None; count], told: Told::default() }
    }

    /// All that it was told so far.
    pub fn told(&self) -> &Told {
        &self.told
    }

    /// The pairs to measure next, of those that can be measured: none once all is decided.
    pub fn wanted(&mut self) -> Vec<[usize; 2]> {
        for port in 0..self.ports.len() {
            if self.of(port).is_empty() {
                self.sequence.lose(port);
            }
        }
        while self.sequence.wanted().is_empty() && !self.sequence.is_over() {
            self.sequence.judge();
        }
        let wanted: Vec<usize> = self.sequence.wanted().iter().map(|one| one.0).collect();
        let is_wanted = |(at, pair): &(usize, [usize; 2])| {
            self.failed[*at].is_none() && pair.iter().any(|port| wanted.contains(port))
        };
        let all = pairs(self.ports.len()).into_iter().enumerate();
        all.filter(is_wanted).map(|(_, pair)| pair).collect()
    }

    /// The pairs of a port that can be measured.
    fn of(&self, port: usize) -> Vec<usize> {
        let all = pairs(self.ports.len()).into_iter().enumerate();
        let is_its =
            |(at, pair): &(usize, [usize; 2])| pair.contains(&port) && self.failed[*at].is_none();
        all.filter(is_its).map(|(at, _)| at).collect()
    }

    /// Takes one round: the rate of each pair that was wanted in Gbit/s, or why there is none.
    pub fn take(&mut self, round: &[Rate]) {
        self.told.rounds.push(round.to_vec());
        for (pair, rate) in round {
            // A pair begins at the port of its own number.
            if let Err(why) = rate {
                self.failed[pair[0]] = Some(why.clone());
            }
        }
        // The others may have had one of their pairs measured, which may be the slow one.
        for (port, _) in self.sequence.wanted() {
            let of =
                |(pair, rate): &Rate| rate.as_ref().ok().filter(|_| pair.contains(&port)).copied();
            if let Some(best) = round.iter().filter_map(of).reduce(f64::max) {
                self.sequence.take(port, best.ln());
            }
        }
    }

    /// Ends where it stands.
    pub fn end(&mut self) {
        self.told.ended = true;
        self.sequence.end();
    }

    /// What became of each port.
    pub fn judged(&self) -> Vec<Judged> {
        let one = |(at, port): (usize, &Port)| {
            let mut judged =
                Judged::of_state(CHECK, &port.name, Verdict::Inconclusive, String::new());
            let Some(decision) = self.sequence.decision(at) else {
                let whys = [&self.failed[at..], &self.failed[..at]].concat();
                let why = whys.into_iter().flatten().next();
                judged.words = why.unwrap_or_else(|| "it was not measured".into());
                return judged;
            };
            let rate = decision.log.exp();
            // Gbit/s to bytes.
            let bytes = |log: f64| log.exp() * 1e9 / 8.0;
            judged.verdict = decision.verdict;
            judged.value = Some(Quantity { value: bytes(decision.log), unit: "B/s" });
            judged.floor = decision.bar.map(|bar| bytes(bar.log));
            judged.floor_source = decision.bar.map(|bar| match bar.against {
                Against::Floor => SOURCE.to_owned(),
                _ => format!("{:.0} % below the other ports", LEAST_EFFECT * 100.0),
            });
            judged.above_floor = decision.bar.map(|bar| (decision.log - bar.log).exp_m1());
            judged.interval = Some(decision.interval.map(bytes));
            judged.confidence = Some(decision.confidence);
            judged.noise = Some(decision.noise);
            judged.repeats = decision.repeats;
            let how = match self.ports.len() {
                1 => "to itself, by no cable",
                2 => "to the other port of this node; which of the two is slow cannot be told",
                _ => "to the better of its two neighbours",
            };
            judged.words = format!("{rate:.1} of {:.0} Gbit/s, {how}", port.gigabits);
            match (decision.verdict, decision.reason) {
                (Verdict::Fail, _) => judged.because(Cause::NetworkInterface),
                (_, Reason::NotRepeated | Reason::PartnerToo) => {
                    judged.because(Cause::NoisyNeighbour)
                }
                (_, Reason::TooNoisy) => judged.because(Cause::Noise),
                _ => judged,
            }
        };
        self.ports.iter().enumerate().map(one).collect()
    }
}

/// The most rounds that can be wanted: all looks and a retest.
pub const ROUNDS_MAX: usize = LOOKS[2] + super::decide::RETEST;

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             0.00               392.41             0.748457
---------------------------------------------------------------------------------------
";

    #[test]
    fn the_average_of_the_last_line_is_read() {
        assert_eq!(parse(TABLE), Ok(392.41));
        for text in
            ["", "no table", &TABLE.replace("Gb/sec", "MB/sec"), &TABLE.replace("392.41", "0")]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("[Gb/sec]\n 1 2 3\n").is_err());
    }

    /// Measures ports until all is decided; `slow` has this share of its rate.
    fn verdicts(ports: usize, slow: usize, share: f64) -> Vec<Judged> {
        let port = |at: usize| Port { name: format!("mlx5_{at}/1"), gigabits: 400.0 };
        let mut network = Network::new((0..ports).map(port).collect());
        for round in 0..ROUNDS_MAX {
            let wanted = network.wanted();
            let rate = |pair: [usize; 2]| {
                let speed = if pair.contains(&slow) { share } else { 1.0 };
                let noise = 1.0 + 0.002 * ((round * 7 + pair[0] * 3) % 5) as f64;
                (pair, Ok(390.0 * speed * noise))
            };
            if wanted.is_empty() {
                let ports = (0..ports).map(port).collect();
                let same = again(ports, network.told()).expect("it was told").judged();
                assert_eq!(same, network.judged());
                return same;
            }
            let round: Vec<_> = wanted.into_iter().map(rate).collect();
            network.take(&round);
        }
        assert!(network.wanted().is_empty());
        network.judged()
    }

    #[test]
    fn the_slow_one_fails_and_its_neighbours_pass() {
        let all = verdicts(8, 3, 0.5);
        for (at, one) in all.iter().enumerate() {
            let expected = if at == 3 { Verdict::Fail } else { Verdict::Pass };
            assert_eq!(one.verdict, expected, "{one:?}");
        }
        assert_eq!(all[3].cause, Some(Cause::NetworkInterface));
        // Above the floor, and yet below the others.
        let all = verdicts(8, 3, 0.91);
        assert_eq!((all[3].verdict, all[4].verdict), (Verdict::Fail, Verdict::Pass), "{all:?}");
        assert!(verdicts(8, 9, 1.0).iter().all(|one| one.verdict == Verdict::Pass));
        assert!(verdicts(2, 1, 0.5).iter().all(|one| one.verdict == Verdict::Fail));
        assert_eq!(verdicts(1, 0, 1.0)[0].verdict, Verdict::Pass);
    }

    #[test]
    fn a_pair_that_cannot_be_measured_is_inconclusive_with_its_reason() {
        let port = |at: usize| Port { name: format!("mlx5_{at}/1"), gigabits: 400.0 };
        let mut network = Network::new(vec![port(0)]);
        let wanted = network.wanted();
        assert_eq!(wanted, [[0, 0]]);
        network.take(&[([0, 0], Err("no answer".into()))]);
        assert!(network.wanted().is_empty());
        let all = network.judged();
        assert_eq!((all[0].verdict, all[0].words.as_str()), (Verdict::Inconclusive, "no answer"));
        assert_eq!(again(vec![port(0)], network.told()).expect("it was told").judged(), all);
    }

    #[test]
    fn what_cannot_have_been_told_is_refused() {
        let port = Port { name: "mlx5_0/1".into(), gigabits: 400.0 };
        for (pair, rate, words) in [
            ([0, 1], 390.0, "1 are up"),
            ([0, 0], 0.0, "0 Gbit/s"),
            ([0, 0], -1.0, "-1 Gbit/s"),
            ([0, 0], f64::INFINITY, "inf Gbit/s"),
        ] {
            let told = Told { rounds: vec![vec![(pair, Ok(rate))]], ended: false };
            let why = again(vec![port.clone()], &told).err().expect(words);
            assert!(why.contains(words), "{why}");
        }
    }
}
