//! Units as datasheets, posts and tools write them: `TB/s`, `Gbps`, `PFLOPS`, `tokens/sec/GPU`.

use super::Per;

/// What a unit counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Counts {
    /// Bytes.
    Bytes,
    /// Bits; `false`: the text leaves open whether bytes are meant.
    Bits(bool),
    /// Operations.
    Operations,
    /// Tokens.
    Tokens,
    /// Transfers of a pin or a lane.
    Transfers,
}

/// A piece of memory or a link that a figure may be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A pin of memory.
    Pin,
    /// A lane of a link.
    Lane,
    /// One of a device's links.
    Link,
    /// A port, or an interface of a network.
    Port,
}

/// A unit of a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// What is counted.
    pub counts: Counts,
    /// How many of it one of the unit is.
    pub scale: f64,
    /// What the text says it is a rate of.
    pub of: Parts,
}

/// What follows "/" or "per".
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Parts {
    /// Per second.
    pub second: bool,
    /// Per clock.
    pub clock: bool,
    /// Per user or per device.
    pub whose: Option<Per>,
    /// Per pin, lane, link or port.
    pub piece: Option<Piece>,
    /// Per direction.
    pub one_way: bool,
}

impl Parts {
    /// Takes what follows one "/"; `false` where it is nothing of the kind.
    pub fn take(&mut self, word: &str) -> bool {
        match word.trim_end_matches('.') {
            "s" | "sec" | "secs" | "second" | "seconds" => self.second = true,
            "clock" | "clk" | "cycle" | "cyc" => self.clock = true,
            // Of which unit is what the kind of claim says.
            "sm" | "cu" | "core" | "wgp" | "unit" => {}
            "user" | "users" | "request" | "stream" => self.whose = Some(Per::User),
            // All of its devices: where a claim has several nodes, in its favour.
            "node" | "server" => self.whose = Some(Per::System),
            "gpu" | "gpus" | "device" | "accelerator" | "card" | "chip" | "socket" | "gcd"
            | "die" | "module" | "oam" => {
                self.whose = Some(Per::Device);
            }
            "pin" => self.piece = Some(Piece::Pin),
            "lane" => self.piece = Some(Piece::Lane),
            "link" => self.piece = Some(Piece::Link),
            "port" | "nic" | "interface" | "adapter" => self.piece = Some(Piece::Port),
            "direction" | "dir" | "way" => self.one_way = true,
            _ => return false,
        }
        true
    }

    /// Both together.
    pub fn with(self, other: Parts) -> Parts {
        Parts {
            second: self.second || other.second,
            clock: self.clock || other.clock,
            whose: self.whose.or(other.whose),
            piece: self.piece.or(other.piece),
            one_way: self.one_way || other.one_way,
        }
    }
}

/// The powers of 1000 that a prefix stands for, from its letter or its name.
fn prefixed(word: &str) -> Option<(i32, &str)> {
    const NAMES: [(&str, i32); 7] =
        [("kilo", 1), ("mega", 2), ("giga", 3), ("tera", 4), ("peta", 5), ("exa", 6), ("zetta", 7)];
    let named = NAMES.iter().find_map(|(name, power)| Some((*power, word.strip_prefix(name)?)));
    named.or_else(|| {
        let power = "kmgtpez".find(word.chars().next()?)?;
        Some((i32::try_from(power).ok()? + 1, &word[1..]))
    })
}

impl Unit {
    /// The unit that a whole word is; none where it is no unit.
    pub fn of(word: &str) -> Option<Unit> {
        let word = word.replace("-per-", "/");
        let mut pieces = word.split('/');
        let head = pieces.next()?;
        let mut of = Parts::default();
        for piece in pieces {
            if !of.take(&piece.to_ascii_lowercase()) {
                return None;
            }
        }
        let transfers = Unit::transfers(head, of).or_else(|| Unit::tokens(head, of));
        transfers.or_else(|| Unit::operations(head, of)).or_else(|| bytes(head, of))
    }

    fn transfers(head: &str, of: Parts) -> Option<Unit> {
        let scale = match head.to_ascii_lowercase().as_str() {
            "mt" | "mtps" => 1e6,
            "gt" | "gtps" => 1e9,
            _ => return None,
        };
        let second = of.second || head.ends_with("ps");
        let of = Parts { second, ..of };
        second.then_some(Unit { counts: Counts::Transfers, scale, of })
    }

    fn tokens(head: &str, of: Parts) -> Option<Unit> {
        let lower = head.to_ascii_lowercase();
        let (scale, name) = match lower.as_str() {
            "ktok" | "ktokens" => (1e3, "tok"),
            "mtok" | "mtokens" => (1e6, "tok"),
            name => (1.0, name),
        };
        let of = match name {
            "tps" => Parts { second: true, ..of },
            "t" if of.second => of,
            "tok" | "toks" | "token" | "tokens" => of,
            _ => return None,
        };
        Some(Unit { counts: Counts::Tokens, scale, of })
    }

    fn operations(head: &str, of: Parts) -> Option<Unit> {
        let lower = head.to_ascii_lowercase().replace('-', "");
        let is_plain = |word: &str| matches!(word, "flop" | "flops" | "op" | "ops");
        let power = if is_plain(&lower) {
            0
        } else {
            let (power, name) = prefixed(&lower)?;
            // PF and TF, in capitals alone: "tf" begins other words.
            let is_short = name == "f" && head.len() == 2 && head.ends_with('F');
            if !is_plain(name) && !is_short {
                return None;
            }
            power
        };
        // "32 FLOP" alone is a number of operations, and no rate.
        let is_rate = power > 0 || of.second || of.clock;
        let unit = Unit { counts: Counts::Operations, scale: 1000f64.powi(power), of };
        is_rate.then_some(unit)
    }
}

/// Bits and bytes are told apart by the case of `b`. All in small letters (`gb/s`) is written for
/// both.
fn bytes(head: &str, of: Parts) -> Option<Unit> {
    let lower = head.to_ascii_lowercase();
    let per_second = lower.strip_suffix("ps").filter(|rest| rest.ends_with('b'));
    let of = Parts { second: of.second || per_second.is_some(), ..of };
    let head = if per_second.is_some() { &head[..head.len() - 2] } else { head };
    let lower = head.to_ascii_lowercase();
    let (power, rest) = prefixed(&lower)?;
    let prefix = lower.len() - rest.len();
    let (binary, rest) = match rest.strip_prefix('i') {
        Some(rest) if prefix == 1 => (true, rest),
        _ => (false, rest),
    };
    let written = &head[head.len() - rest.len()..];
    let counts = match rest {
        "byte" | "bytes" => Counts::Bytes,
        "bit" | "bits" => Counts::Bits(true),
        // A prefix in capitals: whoever writes it keeps to cases.
        "b" if written == "b" => Counts::Bits(head.starts_with(|c: char| c.is_ascii_uppercase())),
        "b" => Counts::Bytes,
        _ => return None,
    };
    let base: f64 = if binary { 1024.0 } else { 1000.0 };
    Some(Unit { counts, scale: base.powi(power), of })
}
