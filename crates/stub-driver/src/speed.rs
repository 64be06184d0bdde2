//! How fast the stub's devices are: each resource of each device and each link between two of them,
//! with noise, drift and faults, all reproducible from a seed.
//!
//! | word of the script | means |
//! | --- | --- |
//! | `seed=7` | begins every sequence of random numbers (0) |
//! | `seed=7/run` | other ones for each run, by the name of its folder (`--out`): repeats differ |
//! | `hbm=0.9` | memory has 0.9 of its bandwidth on every device |
//! | `gpu3.hbm=0.85` | on device 3 alone |
//! | `gpu3.hbm=0.85@100` | from that device's launch 100 on |
//! | `gpu3.hbm=0.85~0.1` | in one timed region of ten, chosen at random; `0.85~0.1@100` is both |
//! | `link0-3=0.5` | the link between devices 0 and 3; `link` is every link, `gpu3.link` all of device 3 |
//! | `entry.gemm_bf16_mma=0.8` | the kernel of that entry has 0.8 of its speed |
//! | `noise=0.01` | the times of timed regions scatter by 1 %; `gpu3.noise` as above |
//! | `drift=-0.02/s` | a device gets 2 % slower with each second that it has worked |
//! | `drift=-0.001/launch` | a device gets 0.1 % slower with each launch |
//! | `regulator=7` | a regulator of power lowers the clock in steps under load: [`REGULATOR`] |
//!
//! Resources are `hbm`, `cache` (the last one, and shared memory), `latency` (loads that wait for
//! each other), `vector` and `tensor` units, `compute` (both of those), `pcie` (the link to the
//! host), `far` (the same link, for memory on another NUMA node), `link`, `launch`, and `clock`, by which compute and cache scale and which the clock kernel
//! and NVML show.
//!
//! Noise is log-normal: all times between two events of a stream are multiplied by exp(noise x z),
//! z from a standard normal distribution, so that the median is the time without noise.

use std::{f64::consts::TAU, ffi::OsString, path::Path};

/// What can be slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Bandwidth of the device's memory.
    Memory,
    /// Bandwidth of the last cache and of shared memory.
    Cache,
    /// Loads that wait for each other.
    Latency,
    /// Arithmetic of the vector units.
    Vector,
    /// Arithmetic of the matrix units.
    Tensor,
    /// The link to the host.
    Host,
    /// What is left of that for memory on another NUMA node.
    Far,
    /// The link to another device.
    Link,
    /// Launches.
    Launch,
    /// The units' clock.
    Clock,
}

/// The resources that a word of a script names.
fn resources(word: &str) -> Option<&'static [Resource]> {
    Some(match word {
        "hbm" => &[Resource::Memory],
        "cache" => &[Resource::Cache],
        "latency" => &[Resource::Latency],
        "vector" => &[Resource::Vector],
        "tensor" => &[Resource::Tensor],
        "compute" => &[Resource::Vector, Resource::Tensor],
        "pcie" => &[Resource::Host],
        "far" => &[Resource::Far],
        "link" => &[Resource::Link],
        "launch" => &[Resource::Launch],
        "clock" => &[Resource::Clock],
        _ => return None,
    })
}

/// Which devices a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    All,
    Gpu(i32),
    Link(i32, i32),
}

impl Of {
    /// Whether that is a device, or the link from it to a peer.
    fn matches(self, device: i32, peer: Option<i32>) -> bool {
        match self {
            Of::All => true,
            Of::Gpu(of) => of == device || Some(of) == peer,
            Of::Link(a, b) => peer.is_some_and(|peer| [(a, b), (b, a)].contains(&(device, peer))),
        }
    }

    /// The largest ordinal that it names.
    fn largest(self) -> i32 {
        match self {
            Of::All => 0,
            Of::Gpu(of) => of,
            Of::Link(a, b) => a.max(b),
        }
    }
}

/// A resource's speed, as a share of what it is without a script.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rule {
    of: Of,
    resources: &'static [Resource],
    speed: f64,
    /// The first launch of the device that it holds for.
    from: u64,
    /// The share of timed regions that it holds in.
    chance: f64,
}

/// A change of a device's speed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Drift {
    of: Of,
    per_second: f64,
    per_launch: f64,
}

/// When something happens on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moment {
    /// The device.
    pub device: i32,
    /// Its launches up to now.
    pub launches: u64,
    /// How long its stream has worked, in seconds.
    pub seconds: f64,
    /// Events that were recorded on the stream: each begins another timed region.
    pub region: u64,
}

/// Steps of the regulator of an H100 or H200, as its records have them: seconds of load, and how
/// much longer everything takes from then on. A seed moves each by up to a tenth. A load is
/// forgotten at [`FORGOTTEN`] of the speed at which it grew.
pub const REGULATOR: [(f64, f64); 4] = [(0.024, 1.05), (0.045, 1.10), (0.070, 1.16), (0.120, 1.21)];

/// How fast a device that rests forgets its load: a rest of four times the work undoes it.
pub const FORGOTTEN: f64 = 0.25;

/// What a script says of speeds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Speeds {
    /// The seed of the regulator's steps.
    regulator: Option<u64>,
    seed: u64,
    rules: Vec<Rule>,
    /// Kernels by their entries.
    entries: Vec<(String, f64)>,
    noise: Vec<(Of, f64)>,
    drifts: Vec<Drift>,
}

impl Speeds {
    /// Takes up a word of a script, `name=value`; whether it is one of these.
    pub fn take(&mut self, name: &str, value: &str) -> Option<()> {
        if name == "seed" {
            self.seed = match value.strip_suffix("/run") {
                Some(value) => of_run(value.parse().ok()?, &folder(std::env::args_os())),
                None => value.parse().ok()?,
            };
            return Some(());
        }
        if name == "regulator" {
            self.regulator = Some(value.parse().ok()?);
            return Some(());
        }
        if let Some(entry) = name.strip_prefix("entry.") {
            self.entries.push((entry.into(), number(value).filter(|speed| *speed > 0.0)?));
            return Some(());
        }
        let (of, what) = target(name)?;
        match what {
            "noise" => {
                self.noise.push((of, number(value).filter(|share| (0.0..1.0).contains(share))?))
            }
            "drift" => self.drifts.push(drift(of, value)?),
            _ => self.rules.push(rule(of, what, value)?),
        }
        Some(())
    }

    /// The largest ordinal of a device that is named.
    pub fn largest(&self) -> i32 {
        let of = self.rules.iter().map(|rule| rule.of);
        let of = of.chain(self.noise.iter().map(|(of, _)| *of));
        of.chain(self.drifts.iter().map(|drift| drift.of)).map(Of::largest).max().unwrap_or(0)
    }

    /// The speed of a resource of the device at a moment; of a link, to a peer.
    pub fn speed(&self, of: Resource, moment: Moment, peer: Option<i32>) -> f64 {
        let holds = |(at, rule): &(usize, &Rule)| {
            rule.resources.contains(&of)
                && rule.of.matches(moment.device, peer)
                && moment.launches >= rule.from
                && (rule.chance >= 1.0 || self.random(moment, 2 + *at as u64) < rule.chance)
        };
        let speeds = self.rules.iter().enumerate().filter(holds).map(|(_, rule)| rule.speed);
        let own: f64 = speeds.product();
        match of {
            Resource::Vector | Resource::Tensor | Resource::Cache => {
                own * self.speed(Resource::Clock, moment, None)
            }
            _ => own,
        }
    }

    /// The share of its speed that the kernel of an entry has.
    pub fn of_entry(&self, name: &str) -> f64 {
        let of = self.entries.iter().filter(|(entry, _)| entry == name);
        of.map(|(_, speed)| speed).product()
    }

    /// What all times of a device at a moment are multiplied by: noise and drift.
    pub fn stretch(&self, moment: Moment) -> f64 {
        let is_its = |of: &Of| of.matches(moment.device, None);
        let noise = self.noise.iter().rev().find(|(of, _)| is_its(of)).map_or(0.0, |(_, by)| *by);
        // Box and Muller: two even numbers make a normal one. The first is never 0.
        let [one, other] = [0, 1].map(|stream| self.random(moment, stream));
        let normal = (-2.0 * (1.0 - one).ln()).sqrt() * (TAU * other).cos();
        let drifts = self.drifts.iter().filter(|drift| is_its(&drift.of)).map(|drift| {
            (1.0 + drift.per_second).powf(moment.seconds)
                * (1.0 + drift.per_launch).powf(moment.launches as f64)
        });
        (noise * normal).exp() / drifts.product::<f64>()
    }

    /// How much longer everything takes after `load` seconds of load, by the regulator of power.
    pub fn regulated(&self, load: f64) -> f64 {
        let Some(seed) = self.regulator else { return 1.0 };
        let step = |(at, (after, slowdown)): (usize, (f64, f64))| {
            let bits = mixed(mixed(seed) ^ at as u64) >> 11;
            let share = bits as f64 / (1u64 << 53) as f64;
            (after * (0.9 + 0.2 * share), slowdown)
        };
        let mut steps = REGULATOR.into_iter().enumerate().map(step);
        steps.rfind(|(after, _)| load >= *after).map_or(1.0, |(_, slowdown)| slowdown)
    }

    /// Random words that follow from the seed and some others.
    pub fn sequence(&self, words: [u64; 2]) -> impl FnMut() -> u64 + use<> {
        let mut bits =
            [self.seed, words[0], words[1]].into_iter().fold(7, |bits, word| mixed(bits ^ word));
        move || {
            bits = mixed(bits);
            bits
        }
    }

    /// A random number from 0 to 1, the same for the same region of the same device.
    fn random(&self, moment: Moment, stream: u64) -> f64 {
        let words = [self.seed, moment.device as u64, moment.region, stream];
        let bits = words.into_iter().fold(0, |bits, word| mixed(bits ^ word));
        (bits >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A seed of a run's own.
fn of_run(seed: u64, folder: &str) -> u64 {
    folder.bytes().fold(seed, |bits, byte| mixed(bits ^ u64::from(byte)))
}

/// The name of the folder that a run writes to, as its command line says; empty where it says none.
fn folder(words: impl Iterator<Item = OsString>) -> String {
    let mut rest = words.skip_while(|word| word != "--out").skip(1);
    let path = rest.next().unwrap_or_default();
    let name = Path::new(&path).file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// A step of SplitMix64.
fn mixed(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

fn ordinal(text: &str) -> Option<i32> {
    text.parse().ok().filter(|ordinal| *ordinal >= 0)
}

/// Devices, and what of them: `gpu3.hbm`, `link0-3`, `hbm`.
fn target(name: &str) -> Option<(Of, &str)> {
    if let Some((gpu, what)) = name.split_once('.') {
        return Some((Of::Gpu(ordinal(gpu.strip_prefix("gpu")?)?), what));
    }
    match name.strip_prefix("link") {
        Some(pair) if !pair.is_empty() => {
            let (a, b) = pair.split_once('-')?;
            let (a, b) = (ordinal(a)?, ordinal(b)?);
            (a != b).then_some((Of::Link(a, b), "link"))
        }
        _ => Some((Of::All, name)),
    }
}

/// `SPEED`, `SPEED~CHANCE`, `SPEED@LAUNCH`, `SPEED~CHANCE@LAUNCH`.
fn rule(of: Of, what: &str, value: &str) -> Option<Rule> {
    let (value, from) = match value.split_once('@') {
        Some((value, from)) => (value, from.parse().ok()?),
        None => (value, 0),
    };
    let (speed, chance) = match value.split_once('~') {
        Some((speed, chance)) => (speed, number(chance)?),
        None => (value, 1.0),
    };
    let speed = number(speed).filter(|speed| *speed > 0.0)?;
    let is_share = (0.0..=1.0).contains(&chance);
    is_share.then_some(Rule { of, resources: resources(what)?, speed, from, chance })
}

/// `-0.02/s`, `-0.001/launch`.
fn drift(of: Of, value: &str) -> Option<Drift> {
    let (rate, unit) = value.split_once('/')?;
    let rate = number(rate).filter(|rate| *rate > -1.0)?;
    match unit {
        "s" => Some(Drift { of, per_second: rate, per_launch: 0.0 }),
        "launch" => Some(Drift { of, per_second: 0.0, per_launch: rate }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speeds(text: &str) -> Speeds {
        let mut speeds = Speeds::default();
        for word in text.split(',') {
            let (name, value) = word.split_once('=').expect("a name and a value");
            assert!(speeds.take(name, value).is_some(), "{word}");
        }
        speeds
    }

    fn on(device: i32) -> Moment {
        Moment { device, ..Moment::default() }
    }

    #[test]
    fn each_word_is_for_its_device_and_resource() {
        let all = speeds("hbm=0.9,gpu3.hbm=0.5,gpu5.clock=0.8,gpu5.tensor=0.5,compute=0.9");
        let speed = |of, device| all.speed(of, on(device), None);
        assert_eq!([speed(Resource::Memory, 2), speed(Resource::Memory, 3)], [0.9, 0.45]);
        assert_eq!(speed(Resource::Vector, 5), 0.9 * 0.8);
        assert_eq!(speed(Resource::Tensor, 5), 0.5 * 0.9 * 0.8);
        assert_eq!([speed(Resource::Cache, 5), speed(Resource::Cache, 4)], [0.8, 1.0]);
        assert_eq!(speed(Resource::Latency, 5), 1.0);
        assert_eq!(all.largest(), 5);
    }

    #[test]
    fn links_are_between_two_devices() {
        let links = speeds("link0-3=0.5,gpu2.link=0.25");
        let link = |a, b| links.speed(Resource::Link, on(a), Some(b));
        assert_eq!([link(0, 3), link(3, 0), link(0, 1), link(1, 2)], [0.5, 0.5, 1.0, 0.25]);
        assert_eq!(links.largest(), 3);
    }

    #[test]
    fn faults_begin_with_a_launch_or_come_and_go() {
        let late = speeds("gpu1.hbm=0.5@10");
        let at = |launches| Moment { launches, ..on(1) };
        let speed = |launches| late.speed(Resource::Memory, at(launches), None);
        assert_eq!([speed(9), speed(10)], [1.0, 0.5]);
        let rare = speeds("hbm=0.5~0.1,seed=3");
        let slow = |region| rare.speed(Resource::Memory, Moment { region, ..on(0) }, None) < 1.0;
        let count = (0..10_000).filter(|&region| slow(region)).count();
        assert!((900..1100).contains(&count), "{count}");
        let other = speeds("hbm=0.5~0.1,seed=4");
        let moment = |region| Moment { region, ..on(0) };
        let differs = |region| {
            rare.speed(Resource::Memory, moment(region), None)
                != other.speed(Resource::Memory, moment(region), None)
        };
        assert!((0..100).any(differs), "a seed changes nothing");
    }

    #[test]
    fn noise_is_normal_in_the_logarithm_and_drift_compounds() {
        let noisy = speeds("noise=0.01,gpu1.noise=0");
        let stretches: Vec<f64> = (0..10_000)
            .map(|region| noisy.stretch(Moment { region, ..on(0) }).ln() / 0.01)
            .collect();
        let mean = stretches.iter().sum::<f64>() / 1e4;
        let square = stretches.iter().map(|z| z * z).sum::<f64>() / 1e4;
        let beyond_two = stretches.iter().filter(|z| z.abs() > 2.0).count();
        assert!(mean.abs() < 0.03 && (square - 1.0).abs() < 0.05, "{mean} {square}");
        assert!((380..530).contains(&beyond_two), "{beyond_two}");
        assert_eq!(noisy.stretch(on(1)), 1.0);
        let slower = speeds("gpu2.drift=-0.02/s,drift=-0.001/launch");
        let later = Moment { seconds: 2.0, launches: 3, ..on(2) };
        let expected = 1.0 / (0.98f64.powi(2) * 0.999f64.powi(3));
        assert!((slower.stretch(later) - expected).abs() < 1e-12);
        assert_eq!(slower.stretch(on(2)), 1.0);
    }

    #[test]
    fn a_regulator_lowers_the_clock_in_steps() {
        let regulated = speeds("regulator=7");
        let loads = [0.0, 0.021, 0.027, 0.051, 0.078, 0.133, 9.0];
        let slowdowns = loads.map(|load| regulated.regulated(load));
        assert_eq!(slowdowns, [1.0, 1.0, 1.05, 1.10, 1.16, 1.21, 1.21]);
        assert_eq!(Speeds::default().regulated(9.0), 1.0);
        let first = |seed: u64| {
            let regulated = speeds(&format!("regulator={seed}"));
            (0..).find(|&at| regulated.regulated(f64::from(at) * 1e-5) > 1.0)
        };
        assert_ne!(first(1), first(2), "a seed moves nothing");
    }

    #[test]
    fn each_run_has_noise_of_its_own_where_that_is_asked_for() {
        let words = |out: &str| ["fizeau", "run", "--out", out].map(OsString::from).into_iter();
        assert_eq!(folder(words("/somewhere/0002-cuda3")), "0002-cuda3");
        assert_eq!(folder(["fizeau"].map(OsString::from).into_iter()), "");
        let seed = |out: &str| of_run(7, &folder(words(out)));
        assert_eq!(seed("a/0001-cuda0"), seed("b/0001-cuda0"));
        assert_ne!(seed("a/0001-cuda0"), seed("a/0002-cuda0"));
        assert!(Speeds::default().take("seed", "x/run").is_none());
    }

    #[test]
    fn what_makes_no_sense_is_not_taken() {
        let words = "gpu3.hbm=0 gpu3.hbm=-1 gpu3.hbm=nan gpu3.hbmm=0.5 gpux.hbm=0.5 link0-0=0.5 \
                     link0=0.5 link0-=0.5 hbm=0.5~2 hbm=0.5@x noise=1 noise=-0.1 drift=-0.02 drift=-2/s \
                     drift=-0.02/h seed=x sulk=1";
        for word in words.split(' ') {
            let (name, value) = word.split_once('=').expect("a name and a value");
            assert_eq!(Speeds::default().take(name, value), None, "{word}");
        }
    }
}
