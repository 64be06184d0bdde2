//! What a text names beside its figure: links, memory, clocks, and the load of a rate of tokens.

use super::{Counted, Number, Words};
use crate::claim::{
    unit::{Counts, Unit},
    vocabulary::is_device,
    wire::{self, Fabric, Kind, Ways},
};
use fizeau_domain::dtype::Dtype;

/// What a text names beside its figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Beside {
    /// The link that the figure is of.
    pub link: Option<Fabric>,
    /// The directions that it counts.
    pub ways: Option<Ways>,
    /// How many links the text counts.
    pub links: Option<u32>,
    /// Kinds of memory in small letters: "hbm3e".
    pub memory: Vec<String>,
    /// Bytes of memory.
    pub capacity: Option<Number>,
    /// Transfers of a pin each second: "DDR5-5600".
    pub transfers: Option<f64>,
    /// Transfers of a lane each second that stand beside the link's rate.
    pub lane: Option<f64>,
    /// Whether the figure is the sum of a table, as nvbandwidth prints it.
    pub is_sum: bool,
    /// Whether the figure is of what crosses between two halves of all devices.
    pub is_bisection: bool,
    /// Channels of memory.
    pub channels: Option<u32>,
    /// Bits of the memory's bus.
    pub bus_bits: Option<u32>,
    /// Clock in hertz.
    pub clock: Option<f64>,
    /// Requests at once.
    pub batch: Option<u32>,
    /// Tokens of a prompt.
    pub isl: Option<u32>,
    /// Tokens of an answer.
    pub osl: Option<u32>,
    /// How weights are stored, as `--precision` takes it.
    pub format: Option<&'static str>,
    /// A collective that is no all_reduce.
    pub collective: Option<&'static str>,
    /// Whether bandwidth is counted by the message's bytes, and not as a bus carries them.
    pub is_by_message: bool,
    /// Whether a text names memory, a cache, or a benchmark of memory.
    pub is_of_memory: bool,
    /// Whether a text says that the memory is that of the CPU.
    pub is_of_host: bool,
}

/// Channels of memory in words.
const CHANNELS: [(&str, u32); 7] = [
    ("single", 1),
    ("dual", 2),
    ("quad", 4),
    ("six", 6),
    ("octa", 8),
    ("eight", 8),
    ("twelve", 12),
];

/// Collectives beside all_reduce, as nccl-tests and libraries write them without signs.
const COLLECTIVES: [&str; 7] =
    ["allgather", "reducescatter", "alltoall", "broadcast", "reduce", "sendrecv", "hypercube"];

/// Formats of weights that are no element type, with what they are judged as.
const FORMATS: [(&str, &str); 12] = [
    ("int4", "int4-g128"),
    ("i4", "int4-g128"),
    ("4bit", "int4-g128"),
    ("w4a16", "int4-g128"),
    ("awq", "int4-g128"),
    ("gptq", "int4-g128"),
    ("q40", "int4-g128"),
    ("q4km", "int4-g128"),
    ("q4ks", "int4-g128"),
    ("q4k", "int4-g128"),
    ("q80", "int8"),
    ("w8a8", "int8"),
];

/// Words beside links that say no more than the link's name.
const OF_LINKS: [&str; 53] = [
    "ring",
    "rail",
    "rails",
    "nics",
    "hca",
    "hcas",
    "interface",
    "interfaces",
    "dual-port",
    "single-port",
    "dedicated",
    "topology",
    "enabled",
    "disabled",
    "matrix",
    "width",
    "peer",
    "peers",
    "i/o",
    "coherent",
    "low-latency",
    "communication",
    "communications",
    "connection",
    "connections",
    "backbone",
    "and",
    "hgx",
    "bridge",
    "bridges",
    "slot",
    "node",
    "link",
    "links",
    "lane",
    "lanes",
    "port",
    "ports",
    "interconnect",
    "switch",
    "domain",
    "rack",
    "fabric",
    "mesh",
    "adapter",
    "adapters",
    "transfer",
    "transfers",
    "bus",
    "host",
    "nvl72",
    "dgx",
    "wire",
];

/// Programs that measure links, and words of their lines.
const TOOLS: [&str; 11] = [
    "nvbandwidth",
    "rocm_bandwidth_test",
    "rocm-bandwidth-test",
    "transferbench",
    "bandwidthtest",
    "perftest",
    "nccl-tests",
    "rccl-tests",
    "sum",
    "pinned",
    "avg",
];

/// A number at the beginning of a word, and the rest of it in small letters.
pub(super) fn number_of(word: &str) -> Option<(Number, String)> {
    let is_digit = |c: char| c.is_ascii_digit() || ".,".contains(c);
    if !word.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (value, unit) = word.split_at(word.find(|c| !is_digit(c)).unwrap_or(word.len()));
    Some((Number::of(value).ok()?, unit.to_ascii_lowercase()))
}

fn whole(number: Number) -> Option<u32> {
    let is_whole = number.value.fract() == 0.0 && number.value <= f64::from(u32::MAX);
    is_whole.then_some(number.value as u32)
}

impl Words<'_> {
    /// Takes a word, and those that belong to it, where it names something beside the figure.
    pub(super) fn beside(&mut self, lower: &str) -> Result<bool, String> {
        Ok(self.of_program(lower)?
            || self.counted_thing(lower)
            || self.named_memory(lower)
            || self.named_link(lower)
            || self.way(lower)
            || self.load(lower)?
            || self.tool(lower))
    }

    /// "141GB", "8 channels", "384-bit", "2.7 GHz", "18 links", "2P", "64 users".
    fn counted_thing(&mut self, lower: &str) -> bool {
        let channels = lower.strip_suffix("-channel").unwrap_or(lower);
        let is_of_channels = channels != lower || self.peek().starts_with("channel");
        if let Some((_, count)) = CHANNELS.iter().find(|(name, _)| *name == channels)
            && is_of_channels
        {
            self.beside.channels = Some(*count);
            self.at += usize::from(channels == lower);
            return true;
        }
        let Some((value, rest)) = number_of(lower) else { return false };
        if self.is_pin_beside_a_rate(value, &self.words[self.at - 1].clone()) {
            return true;
        }
        if rest.is_empty() && self.is_before_links() {
            self.beside.links = whole(value);
            return true;
        }
        let is_apart = rest.is_empty();
        let noun = if is_apart { self.peek() } else { rest };
        let taken = usize::from(is_apart);
        let after = self.words.get(self.at + taken).map(|word| word.to_ascii_lowercase());
        let is_rate = after.is_some_and(|after| after.starts_with("/s") || after == "/second");
        let beside = &mut self.beside;
        let count = whole(value);
        let is_alone = !self.has_other_number;
        match noun.trim_start_matches('-') {
            "gb" | "gib" | "tb" | "tib" if !is_rate && !is_alone && beside.capacity.is_none() => {
                let scale = if noun.starts_with('t') { 1e12 } else { 1e9 };
                let scale = if noun.contains('i') { scale * 1.0737 } else { scale };
                beside.capacity = Some(value.times(scale));
            }
            "channel" | "channels" | "ch" if count.is_some() => beside.channels = count,
            "links" if count.is_some() => {
                beside.links = count;
                let is_of_one = self.words.get(self.at + taken).is_some_and(|next| next == "x");
                if is_of_one {
                    self.at += 1;
                    self.parts.take("link");
                }
            }
            "lanes" if count.is_some() => {
                let is_slot = beside.link.is_none_or(|link| link.kind == Kind::Pcie);
                self.times = count.filter(|_| is_slot).or(self.times);
            }
            "bit" if !is_rate && count.is_some_and(|bits| bits >= 32) => beside.bus_bits = count,
            "way" | "slot" | "port" if self.has_link && noun.starts_with('-') => {}
            "mhz" => beside.clock = Some(value.value * 1e6),
            "ghz" => beside.clock = Some(value.value * 1e9),
            "p" | "s" if !is_apart && count.is_some_and(|count| count <= 8) => {
                return count.is_some_and(|count| self.set_devices(&count.to_string()).is_ok());
            }
            "users" | "concurrent" | "requests" | "sequences" | "streams" if count.is_some() => {
                beside.batch = count;
                self.at += taken;
                while self.take_if(|next| matches!(next, "users" | "requests" | "sequences")) {}
                return true;
            }
            "g" if !is_apart && self.is_of_network && self.figure.is_none() => {
                self.figure = Some(value);
                return self.unit("Gb/s");
            }
            _ => return false,
        }
        self.at += taken;
        true
    }

    /// "21 Gbps GDDR6X, 1008 GB/s": a rate of a pin beside the figure. Both words are taken.
    fn is_pin_beside_a_rate(&mut self, value: Number, word: &str) -> bool {
        let digits = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
        let is_apart = digits == word.len();
        let unit =
            if is_apart { self.words.get(self.at).cloned() } else { Some(word[digits..].into()) };
        let Some(unit) = unit.and_then(|unit| Unit::of(&unit)) else { return false };
        let bits = value.value * unit.scale;
        if unit.counts == Counts::Transfers && self.has_bytes && self.has_link {
            self.beside.lane = Some(bits);
            self.at += usize::from(is_apart);
            return true;
        }
        let is_pin = is_of_pin(unit.counts, bits, &self.beside, self.names_memory)
            || unit.counts == Counts::Transfers;
        if !(is_pin && self.has_bytes && !self.has_link) {
            return false;
        }
        self.beside.transfers = Some(bits);
        self.at += usize::from(is_apart);
        true
    }

    /// "HBM3e", "DDR5-5600", "GDDR7".
    fn named_memory(&mut self, lower: &str) -> bool {
        let is_kind = lower.starts_with("hbm")
            || ["ddr", "lpddr", "gddr", "mrdimm"].iter().any(|kind| lower.starts_with(kind));
        if !is_kind {
            return false;
        }
        let (kind, speed) = lower.split_once('-').unwrap_or((lower, ""));
        let kind = kind.trim_end_matches("-ecc");
        self.beside.memory.push(kind.into());
        self.is_of_cache = Some(false);
        self.beside.is_of_memory = true;
        if speed.is_empty() {
            return true;
        }
        let digits = speed.trim_end_matches("mt/s");
        match digits.parse::<f64>() {
            Ok(mega) if mega > 0.0 => self.beside.transfers = Some(mega * 1e6),
            _ => return false,
        }
        true
    }

    /// "NVLink 5", "PCIe Gen5 x16", "InfiniBand NDR", "5th-generation".
    fn named_link(&mut self, lower: &str) -> bool {
        let found = wire::fabric_at(&self.words[self.at - 1..]);
        let found = found.filter(|(fabric, _)| !self.is_of_a_name(lower, *fabric));
        if let Some((fabric, taken)) = found {
            let before = self.at.checked_sub(2).map(|at| self.words[at].to_ascii_lowercase());
            let merged = match self.beside.link {
                None => Some(fabric),
                Some(before) => before.with(fabric),
            };
            let named = self.words[self.at - 1..self.at - 1 + taken].join(" ");
            self.at += taken - 1;
            // AMD's tables have the "Peak Infinity Fabric Link Bandwidth" of one link.
            let is_of_one = fabric.kind == Kind::Xgmi
                && self.peek() == "link"
                && self.words.get(self.at + 1).is_some_and(|word| word == "Bandwidth");
            if is_of_one {
                self.parts.take("link");
            }
            if wire::is_direction(&named) {
                self.beside.ways = self.beside.ways.or(Some(Ways::One));
            }
            if lower.starts_with("ib_") {
                (self.is_measured, self.beside.ways) = (true, self.beside.ways.or(Some(Ways::One)));
            }
            // "per Infinity Fabric link"
            if before.is_some_and(|before| before == "per") {
                let piece = self.peek();
                self.at += usize::from(self.parts.take(&piece));
            }
            if merged.is_none() {
                self.left.push(fabric.name());
            }
            self.beside.link = merged.or(self.beside.link);
            return true;
        }
        if !self.has_link {
            return false;
        }
        if let Some(lanes) = wire::lanes(lower) {
            self.times = Some(lanes);
            return true;
        }
        if let Some((generation, taken)) = wire::alone(&self.words[self.at - 1..]) {
            (self.generation, self.at) = (Some(generation), self.at + taken - 1);
            return true;
        }
        let next = self.peek();
        let is_ordinal = lower.contains("-gen") || matches!(next.as_str(), "gen" | "generation");
        if let Some(generation) = wire::ordinal(lower).filter(|_| is_ordinal) {
            self.at += usize::from(!lower.contains("-gen"));
            self.generation = Some(generation);
            return true;
        }
        if matches!(lower, "domain" | "rack" | "mesh") && self.is_each.is_none() {
            self.is_each = Some(false);
        }
        OF_LINKS.contains(&lower)
    }

    /// Whether a word that may name a link is of a part's name: "H100 PCIe", "Jetson Thor".
    fn is_of_a_name(&self, lower: &str, fabric: Fabric) -> bool {
        let is_known = |word: &str| self.known.iter().any(|known| known == word);
        let before = self.at.checked_sub(2).map(|at| self.words[at].to_ascii_lowercase());
        let next = self.peek();
        let is_apart =
            fabric.generation.is_none() && wire::lanes(&next).is_none() && !next.starts_with("gen");
        is_known(lower) && is_apart && before.is_some_and(|before| is_known(&before))
    }

    /// "one way", "in each direction", "bidirectional".
    fn way(&mut self, lower: &str) -> bool {
        let next = self.peek();
        if lower == "bisection" && self.has_link {
            (self.beside.is_bisection, self.is_each) = (true, Some(false));
            return true;
        }
        let is_direction = matches!(next.as_str(), "way" | "ways" | "direction" | "directions");
        // "18 links at 100 GB/s each"
        if lower == "each" && self.beside.links.is_some() && !is_direction && !is_device(&next) {
            return self.parts.take("link");
        }
        let ways = match lower {
            "one" | "each" | "single" | "every" if is_direction => Some(Ways::One),
            "both" | "two" if is_direction => Some(Ways::Both),
            "one-way" | "unidirectional" | "uni-directional" | "unidir" | "simplex" => {
                Some(Ways::One)
            }
            "two-way" | "bidirectional" | "bi-directional" | "bidir" | "duplex" | "full-duplex" => {
                Some(Ways::Both)
            }
            _ => None,
        };
        if ways.is_none() {
            return false;
        }
        self.at += usize::from(is_direction && !lower.contains(['-', 'u']));
        self.beside.ways = ways;
        true
    }

    /// Whether the word before the one that was taken begins no range: "up to", "close to".
    pub(super) fn is_after_up(&self) -> bool {
        let before = self.at.checked_sub(2).map(|at| self.words[at].to_ascii_lowercase());
        matches!(before.as_deref(), Some("up" | "close"))
    }

    /// Work that structured sparsity has no part in is dense.
    pub(super) fn take_dense(&mut self, lower: &str) {
        let is_dense = matches!(lower, "deepgemm" | "hpl" | "linpack" | "trained")
            || lower.starts_with("flashattention");
        self.is_sparse = self.is_sparse.or(is_dense.then_some(false));
    }

    /// "at batch 256", "concurrency 64", "ISL 1024", formats of weights.
    fn load(&mut self, lower: &str) -> Result<bool, String> {
        let is_one = |next: &str| matches!(next, "stream" | "user" | "request");
        if lower == "single" && self.take_if(is_one) {
            self.beside.batch = Some(1);
            return Ok(true);
        }
        let plain = lower.replace(['-', '_'], "");
        if let Some((_, format)) = FORMATS.iter().find(|(name, _)| *name == plain) {
            self.beside.format = Some(format);
            return Ok(true);
        }
        let is_count =
            matches!(plain.as_str(), "batch" | "batchsize" | "bs" | "concurrency" | "isl" | "osl");
        if !is_count {
            return Ok(false);
        }
        while self.take_if(|next| matches!(next, "size" | "of" | "=")) {}
        let Ok(count) = self.peek().replace(',', "").parse::<u32>() else {
            return Ok(false);
        };
        self.at += 1;
        let place = match plain.as_str() {
            "isl" => &mut self.beside.isl,
            "osl" => &mut self.beside.osl,
            _ => &mut self.beside.batch,
        };
        match place.replace(count) {
            Some(before) if before != count => Err(format!("{lower} is {before}, and {count}")),
            _ => Ok(true),
        }
    }

    /// Tests of nvbandwidth and others, collectives of nccl-tests.
    fn tool(&mut self, lower: &str) -> bool {
        let plain = lower.replace(['-', '_'], "");
        let plain = plain.trim_end_matches("perf");
        if let Some(collective) = COLLECTIVES.iter().find(|one| **one == plain) {
            self.beside.collective = Some(collective);
            self.is_bus = true;
            return true;
        }
        if plain == "allreduce" {
            self.is_bus = true;
            return true;
        }
        if plain == "algbw" {
            (self.is_bus, self.beside.is_by_message) = (true, true);
            return true;
        }
        let kind = if lower.starts_with("device_local") {
            (self.is_measured, self.is_of_cache) = (true, Some(false));
            self.beside.is_of_memory = true;
            return true;
        } else if ["device_to_device", "all_to_one", "one_to_all"]
            .iter()
            .any(|it| lower.contains(it))
        {
            Kind::Peers
        } else if lower.contains("host") && lower.contains('_') {
            Kind::Host
        } else {
            self.is_measured |= lower.contains("bandwidth") && lower.contains(['_', '-']);
            self.beside.is_sum |= lower == "sum" && self.names("memcpy");
            return TOOLS.contains(&lower);
        };
        let ways = if lower.contains("bidirectional") { Ways::Both } else { Ways::One };
        (self.beside.ways, self.is_measured) = (Some(ways), true);
        self.beside.link = self.beside.link.or(Some(Fabric::of(kind)));
        self.unit = self.unit.or(Unit::of("GB/s"));
        true
    }

    /// What stands apart is put to its link; "x8" without a link is a number of devices.
    pub(super) fn settle_link(&mut self) -> Result<(), String> {
        let has_way = self.beside.ways.is_some() && !self.is_bus;
        if let Some(ways) = self.parts_ways() {
            self.beside.ways = Some(ways);
        }
        if self.beside.link.is_none() && has_way {
            self.beside.link = Some(Fabric::of(Kind::Any));
        }
        let Some(link) = &mut self.beside.link else {
            return match self.times {
                Some(count) => self.set_devices(&count.to_string()),
                None => Ok(()),
            };
        };
        link.generation = link.generation.or(self.generation);
        if let (None, Some(speed)) = (self.figure, link.generation.filter(|_| link.is_ethernet())) {
            self.figure = Number::of(&speed.to_string()).ok();
            self.unit = Unit::of("Gb/s");
        }
        match self.times {
            Some(lanes) if link.kind == Kind::Pcie => link.lanes = Some(lanes),
            Some(count) => self.set_devices(&count.to_string())?,
            None => {}
        }
        Ok(())
    }

    fn parts_ways(&self) -> Option<Ways> {
        let of_unit = self.unit.is_some_and(|unit| unit.of.one_way);
        (of_unit || self.parts.one_way).then_some(Ways::One)
    }

    /// What the words name beside the figure, of use for a figure of a kind or not.
    pub(super) fn leave_beside(&mut self, kind: Kinds) {
        let beside = &self.beside;
        let mut left = Vec::new();
        for (is_there, is_of_use, word) in [
            (beside.clock.is_some(), kind.is_arithmetic, "a clock"),
            (beside.batch.is_some(), kind.is_tokens, "requests at once"),
            (beside.isl.is_some() || beside.osl.is_some(), kind.is_tokens, "isl or osl"),
            (beside.channels.is_some(), kind.is_bytes, "channels"),
            (beside.bus_bits.is_some(), kind.is_bytes, "bits of a bus"),
            (beside.link.is_some(), kind.is_bytes, "a link"),
        ] {
            if is_there && !is_of_use {
                left.push(word.to_owned());
            }
        }
        if let Some(format) = beside.format.filter(|_| kind.is_bytes) {
            left.push(format.into());
        }
        self.left.extend(left);
    }

    /// Element types of a rate of tokens are formats of its weights.
    pub(super) fn format_of_types(&mut self) {
        let name = self.types.first().map(|one| match one {
            Dtype::F32 => "f32",
            Dtype::F16 => "f16",
            Dtype::Bf16 => "bf16",
            Dtype::Fp8 => "fp8",
            Dtype::Fp4 => "nvfp4",
            Dtype::Int8 => "int8",
            _ => "",
        });
        if let Some(name) = name.filter(|name| !name.is_empty() && self.types.len() == 1) {
            self.beside.format = self.beside.format.or(Some(name));
            self.types.clear();
        }
    }
}

/// What kind a figure is of.
#[derive(Clone, Copy)]
pub(super) struct Kinds {
    pub is_arithmetic: bool,
    pub is_bytes: bool,
    pub is_tokens: bool,
}

/// Which tokens a rate counts, from the words of a text.
pub(super) fn counted(is_input: bool, is_output: bool, is_total: bool) -> Option<Counted> {
    match (is_input, is_output, is_total) {
        (true, true, _) => Some(Counted::Total),
        (true, ..) => Some(Counted::Input),
        (_, true, _) => Some(Counted::Output),
        (.., true) => Some(Counted::Total),
        _ => None,
    }
}

/// Whether a word is a rate in bytes, or ends in one: "GB/s", "1008GB/s".
pub(super) fn is_rate_of_bytes(word: &str) -> bool {
    let unit = word.trim_start_matches(|c: char| c.is_ascii_digit() || ".,".contains(c));
    Unit::of(unit).is_some_and(|unit| unit.counts == Counts::Bytes && unit.of.second)
}

/// Whether a word names a kind of memory.
pub(super) fn names_memory(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    ["hbm", "ddr", "lpddr", "gddr", "memory"].iter().any(|kind| lower.starts_with(kind))
}

/// The most that a pin carries, in bits each second: GDDR7 is announced with 48 x 10^9.
const PIN_MOST: f64 = 64e9;

/// Whether a figure in bits is of one pin of memory, as datasheets of GDDR state it.
pub(super) fn is_of_pin(counts: Counts, bits: f64, beside: &Beside, is_memory: bool) -> bool {
    let is_named = is_memory || beside.is_of_memory;
    let is_bits = matches!(counts, Counts::Bits(_));
    is_bits && beside.link.is_none() && is_named && bits <= PIN_MOST
}
