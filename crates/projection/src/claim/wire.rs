//! Links as texts name them: kind, generation, lanes and directions.

use fizeau_domain::spec::{Reach, Wire};

/// What kind of link a text names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Between NVIDIA's GPUs.
    Nvlink,
    /// Between NVIDIA's CPU and GPU.
    ChipToChip,
    /// AMD's Infinity Fabric between packages.
    Xgmi,
    /// UALink and UALoE.
    Ualink,
    /// PCI Express.
    Pcie,
    /// InfiniBand, by the speed of its generation.
    InfiniBand,
    /// RoCE and other Ethernet.
    Ethernet,
    /// NVIDIA's network adapters.
    ConnectX,
    /// AWS's network.
    Efa,
    /// HPE's network.
    Slingshot,
    /// Broadcom's adapters.
    Thor,
    /// AMD's adapters.
    Pensando,
    /// Whatever connects GPUs with each other.
    Peers,
    /// Whatever connects a device with its host.
    Host,
    /// Whatever connects nodes.
    Network,
    /// A link that is not named.
    Any,
}

impl Kind {
    /// Whether it is of a network, whose rates are in bits.
    pub fn is_network(self) -> bool {
        use Kind::{ConnectX, Efa, Ethernet, InfiniBand, Network, Pensando, Slingshot, Thor};
        let all = [InfiniBand, Ethernet, ConnectX, Efa, Slingshot, Thor, Pensando, Network];
        all.contains(&self)
    }

    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Nvlink => "NVLink",
            Kind::ChipToChip => "NVLink-C2C",
            Kind::Xgmi => "xGMI (Infinity Fabric)",
            Kind::Ualink => "UALink",
            Kind::Pcie => "PCI Express",
            Kind::InfiniBand => "InfiniBand",
            Kind::Ethernet => "Ethernet",
            Kind::ConnectX => "ConnectX",
            Kind::Efa => "EFA",
            Kind::Slingshot => "Slingshot",
            Kind::Thor => "Thor",
            Kind::Pensando => "Pensando",
            Kind::Peers => "the links between GPUs",
            Kind::Host => "the link to the host",
            Kind::Network => "the network",
            Kind::Any => "its links",
        }
    }

    /// What a link of this kind connects, where that is one thing.
    fn reach(self) -> Option<Reach> {
        match self {
            Kind::Nvlink | Kind::Xgmi | Kind::Ualink | Kind::Peers => Some(Reach::Peers),
            Kind::ChipToChip | Kind::Pcie | Kind::Host => Some(Reach::Host),
            Kind::Any => None,
            _ => Some(Reach::Network),
        }
    }
}

/// A link as a text names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fabric {
    /// Its kind.
    pub kind: Kind,
    /// Its generation: 5 of NVLink 5 and PCIe 5.0; of InfiniBand Gbit/s of four lanes.
    pub generation: Option<u32>,
    /// Lanes of PCI Express.
    pub lanes: Option<u32>,
}

/// Which directions a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways {
    /// One direction.
    One,
    /// Both directions together.
    Both,
}

/// Names in one word. Numbers behind them are generations.
const NAMES: [(&str, Kind); 59] = [
    ("nvlinks", Kind::Nvlink),
    ("mnnvl", Kind::Nvlink),
    ("lnksta", Kind::Pcie),
    ("lnkcap", Kind::Pcie),
    ("quantum", Kind::InfiniBand),
    ("quantum-2", Kind::InfiniBand),
    ("quantum-x800", Kind::InfiniBand),
    ("spectrum-x", Kind::Ethernet),
    ("rocev2", Kind::Ethernet),
    ("efav", Kind::Efa),
    ("bluefield", Kind::Network),
    ("networking", Kind::Network),
    ("inter-node", Kind::Network),
    ("internode", Kind::Network),
    ("intra-node", Kind::Peers),
    ("intranode", Kind::Peers),
    ("cpu-gpu", Kind::Host),
    ("cpu-to-gpu", Kind::Host),
    ("gpu-to-cpu", Kind::Host),
    ("nvlink-c2c", Kind::ChipToChip),
    ("c2c", Kind::ChipToChip),
    ("nvlink", Kind::Nvlink),
    ("nvswitch", Kind::Nvlink),
    ("xgmi", Kind::Xgmi),
    ("infinity-fabric", Kind::Xgmi),
    ("ualink", Kind::Ualink),
    ("ualoe", Kind::Ualink),
    ("pcie", Kind::Pcie),
    ("pci-e", Kind::Pcie),
    ("pci-express", Kind::Pcie),
    ("infiniband", Kind::InfiniBand),
    ("ib", Kind::InfiniBand),
    ("ib_write_bw", Kind::Network),
    ("ib_read_bw", Kind::Network),
    ("ib_send_bw", Kind::Network),
    ("roce", Kind::Ethernet),
    ("rocev", Kind::Ethernet),
    ("ethernet", Kind::Ethernet),
    ("gbe", Kind::Ethernet),
    ("connectx", Kind::ConnectX),
    ("cx", Kind::ConnectX),
    ("efa", Kind::Efa),
    ("slingshot", Kind::Slingshot),
    ("thor", Kind::Thor),
    ("pollara", Kind::Pensando),
    ("vulcano", Kind::Pensando),
    ("rdma", Kind::Network),
    ("nic", Kind::Network),
    ("network", Kind::Network),
    ("scale-out", Kind::Network),
    ("p2p", Kind::Peers),
    ("peer-to-peer", Kind::Peers),
    ("gpu-to-gpu", Kind::Peers),
    ("gpu-gpu", Kind::Peers),
    ("inter-gpu", Kind::Peers),
    ("scale-up", Kind::Peers),
    ("p2pbandwidthlatencytest", Kind::Peers),
    ("h2d", Kind::Host),
    ("d2h", Kind::Host),
];

/// Names in several words.
const PHRASES: [(&[&str], Kind); 16] = [
    (&["infinity", "architecture"], Kind::Xgmi),
    (&["gpu", "communication"], Kind::Peers),
    (&["gpu", "communications"], Kind::Peers),
    (&["infinity", "fabric"], Kind::Xgmi),
    (&["pci", "express"], Kind::Pcie),
    (&["peer", "to", "peer"], Kind::Peers),
    (&["gpu", "to", "gpu"], Kind::Peers),
    (&["device", "to", "device"], Kind::Peers),
    (&["host", "to", "device"], Kind::Host),
    (&["device", "to", "host"], Kind::Host),
    (&["host", "to", "gpu"], Kind::Host),
    (&["gpu", "to", "host"], Kind::Host),
    (&["cpu", "to", "gpu"], Kind::Host),
    (&["gpu", "to", "cpu"], Kind::Host),
    (&["scale", "up"], Kind::Peers),
    (&["scale", "out"], Kind::Network),
];

/// Generations of InfiniBand by the Gbit/s of four lanes.
const INFINIBAND: [(&str, u32); 5] =
    [("fdr", 56), ("edr", 100), ("hdr", 200), ("ndr", 400), ("xdr", 800)];

/// Gbit/s of ports that a name may end with.
const PORTS: [u32; 5] = [50, 100, 200, 400, 800];

/// Names that stand for a speed, in Gbit/s.
const SPEEDS: [(&str, u32); 4] =
    [("pollara", 400), ("vulcano", 800), ("quantum-2", 400), ("quantum-x800", 800)];

/// Whether words name one direction of the link to the host.
pub fn is_direction(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    matches!(words.as_str(), "h2d" | "d2h" | "host to device" | "device to host")
}

/// A generation as a word: "5", "5.0", "gen5", "v5".
fn generation(word: &str) -> Option<u32> {
    let digits = word.trim_start_matches("gen").trim_start_matches(['v', '-', '.']);
    let whole = digits.strip_suffix(".0").unwrap_or(digits);
    whole.parse().ok().filter(|one| (1..=9).contains(one))
}

/// A generation before its link: "5th-gen", "fifth-generation".
pub fn ordinal(word: &str) -> Option<u32> {
    const ORDINALS: [&str; 7] = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh"];
    let word = word.split("-gen").next()?;
    let named = ORDINALS.iter().zip(1..).find(|(name, _)| **name == word).map(|(_, one)| one);
    let digits = ["st", "nd", "rd", "th"].iter().find_map(|end| word.strip_suffix(end));
    named.or_else(|| digits?.parse().ok())
}

/// A generation that stands alone: "gen5", "Gen 5".
pub fn alone(words: &[String]) -> Option<(u32, usize)> {
    let first = words.first()?.to_ascii_lowercase();
    match first.strip_prefix("gen") {
        Some("") | Some("eration") => {
            let next = words.get(1)?;
            Some((generation(&next.to_ascii_lowercase())?, 2))
        }
        Some(rest) => Some((generation(rest)?, 1)),
        None => None,
    }
}

/// Lanes: "x16".
pub fn lanes(word: &str) -> Option<u32> {
    let digits = word.strip_prefix('x')?;
    digits.parse().ok().filter(|lanes| [1, 2, 4, 8, 16].contains(lanes))
}

/// The kind that a word names, and the number behind it.
fn named(word: &str) -> Option<(Kind, Option<u32>)> {
    if let Some((_, gigabits)) = INFINIBAND.iter().find(|(name, _)| word.starts_with(name)) {
        let rest = &word[3..];
        // "NDR200" has two of NDR's four lanes.
        let of_port = PORTS.into_iter().find(|speed| rest == speed.to_string());
        let is_rest = rest.bytes().all(|one| one.is_ascii_digit());
        return is_rest.then_some((Kind::InfiniBand, Some(of_port.unwrap_or(*gigabits))));
    }
    if let Some(speed) = word.strip_suffix("gbe").filter(|speed| !speed.is_empty()) {
        return Some((Kind::Ethernet, Some(speed.parse().ok()?)));
    }
    let exact = NAMES.iter().find(|(name, _)| *name == word);
    if let Some((_, kind)) = exact {
        let speed = SPEEDS.into_iter().find(|(name, _)| *name == word);
        return Some((*kind, speed.map(|(_, gigabits)| gigabits)));
    }
    let base = word.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let tail = generation(&word[base.len()..]);
    let base = base.trim_end_matches("gen").trim_end_matches(['-', '_']);
    let (_, kind) = NAMES.iter().find(|(name, _)| *name == base)?;
    Some((*kind, tail))
}

/// The link that the words from the first on name, and how many of them do.
pub fn fabric_at(words: &[String]) -> Option<(Fabric, usize)> {
    let lower = |at: usize| words.get(at).map(|word| word.to_ascii_lowercase());
    let word = lower(0)?;
    let is_there = |phrase: &[&str]| {
        phrase.iter().enumerate().all(|(at, one)| lower(at).is_some_and(|word| word == **one))
    };
    let phrase = PHRASES.iter().find(|(phrase, _)| is_there(phrase));
    let (kind, tail, mut taken) = match phrase {
        Some((phrase, kind)) => (*kind, None, phrase.len()),
        None => {
            let (kind, tail) = named(&word)?;
            (kind, tail, 1)
        }
    };
    let mut fabric = Fabric { kind, generation: tail, lanes: None };
    if kind == Kind::Ethernet && lower(taken).is_some_and(|next| next == "v2") {
        taken += 1;
    }
    let has_generation = !kind.is_network() || matches!(kind, Kind::ConnectX | Kind::Thor);
    let rest = &words[taken..];
    if fabric.generation.is_none() && has_generation && kind != Kind::Any {
        if let Some((generation, more)) = alone(rest) {
            (fabric.generation, taken) = (Some(generation), taken + more);
        } else if let Some(found) = rest.first().and_then(|next| generation(&next.to_lowercase()))
            && !rest.get(1).is_some_and(|unit| is_unit(unit))
        {
            (fabric.generation, taken) = (Some(found), taken + 1);
        }
    }
    Some((fabric, taken))
}

/// Whether a word counts what stands before it, so that the number is no generation.
fn is_unit(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    super::unit::Unit::of(word).is_some()
        || matches!(lower.as_str(), "links" | "lanes" | "gpus" | "ports" | "x")
}

impl Fabric {
    /// Whether it is Ethernet, whose generation is the Gbit/s of a port.
    pub fn is_ethernet(self) -> bool {
        self.kind == Kind::Ethernet
    }

    /// The bytes each second in one direction that its name alone states: "EDR", "100GbE".
    pub fn of_its_name(self) -> Option<f64> {
        let has_speed = matches!(self.kind, Kind::InfiniBand | Kind::Ethernet);
        self.generation.filter(|one| has_speed && *one >= 10).map(|one| f64::from(one) * 1e9 / 8.0)
    }

    /// A link of a kind of which nothing more is said.
    pub fn of(kind: Kind) -> Fabric {
        Fabric { kind, generation: None, lanes: None }
    }

    /// Both together: "InfiniBand NDR", "PCIe" and "x16". None where they are two links.
    pub fn with(self, other: Fabric) -> Option<Fabric> {
        let is_general = |one: Kind| matches!(one, Kind::Any | Kind::Peers | Kind::Host);
        let kind = match (self.kind, other.kind) {
            (one, two) if one == two => one,
            (one, two) if is_general(one) && !two.is_network() => two,
            (one, two) if is_general(two) && !one.is_network() => one,
            (Kind::Network, two) if two.is_network() => two,
            (one, Kind::Network) if one.is_network() => one,
            (Kind::ConnectX, Kind::InfiniBand | Kind::Ethernet) => Kind::ConnectX,
            (Kind::InfiniBand | Kind::Ethernet, Kind::ConnectX) => Kind::ConnectX,
            _ => return None,
        };
        let of_kind =
            |one: Fabric| one.generation.filter(|_| one.kind == kind || self.kind == one.kind);
        let generation = match kind {
            Kind::ConnectX => [self, other].iter().find(|one| one.kind == kind)?.generation,
            _ => of_kind(self).or(other.generation),
        };
        let is_twice = self.generation.zip(other.generation).is_some_and(|(a, b)| a != b);
        if is_twice && self.kind == other.kind {
            return None;
        }
        Some(Fabric { kind, generation, lanes: self.lanes.or(other.lanes) })
    }

    /// Every link that the name of a wire names: "InfiniBand HDR / RoCE 200 Gb/s port" names two.
    pub fn of_wire(wire: &Wire) -> Vec<Fabric> {
        let name = wire.name.split(" (").next().unwrap_or_default();
        let words = super::reading::split(&name.replace(',', " ").replace(" / ", " "));
        let mut found: Vec<Fabric> = Vec::new();
        let mut at = 0;
        while at < words.len() {
            match fabric_at(&words[at..]) {
                Some((fabric, taken)) => {
                    let merged = found.last().and_then(|last| last.with(fabric));
                    match merged.filter(|_| found.len() == 1) {
                        Some(merged) => found = vec![merged],
                        None => found.push(fabric),
                    }
                    at += taken;
                }
                None => {
                    if let Some(lanes) = lanes(&words[at].to_ascii_lowercase())
                        && let Some(last) = found.last_mut()
                    {
                        last.lanes = Some(lanes);
                    }
                    at += 1;
                }
            }
        }
        found
    }

    /// Whether a wire is of this kind, whatever its generation.
    pub fn is_kind_of(self, wire: &Wire) -> bool {
        let of_name = || Fabric::of_wire(wire).iter().any(|one| one.kind == self.kind);
        match self.kind {
            Kind::Any => true,
            Kind::Peers | Kind::Host | Kind::Network => {
                wire.reach.is_some_and(|reach| Some(reach) == self.kind.reach())
            }
            _ => of_name(),
        }
    }

    /// Whether a wire has the generation and the lanes that are stated.
    pub fn is_generation_of(self, wire: &Wire) -> bool {
        let all = Fabric::of_wire(wire);
        let same = |stated: Option<u32>, has: Option<u32>| {
            stated.is_none_or(|stated| has.is_none_or(|has| has == stated))
        };
        all.is_empty()
            || all.iter().any(|one| {
                (one.kind != self.kind && !self.kind.is_network())
                    || one.kind == self.kind
                        && same(self.generation, one.generation)
                        && same(self.lanes, one.lanes)
            })
    }

    /// In words: "PCI Express 5", "NVLink 5".
    pub fn name(self) -> String {
        let of_infiniband = INFINIBAND.iter().find(|(_, it)| Some(*it) == self.generation);
        let generation = match (self.kind, of_infiniband, self.generation) {
            (Kind::InfiniBand, Some((name, _)), _) => format!(" {}", name.to_uppercase()),
            (Kind::InfiniBand | Kind::Ethernet, _, Some(speed)) => format!(" of {speed} Gb/s"),
            (Kind::Pcie, _, Some(one)) => format!(" {one}.0"),
            (_, _, Some(one)) => format!(" {one}"),
            _ => String::new(),
        };
        let lanes = self.lanes.map(|lanes| format!(" x{lanes}")).unwrap_or_default();
        format!("{}{generation}{lanes}", self.kind.name())
    }
}
