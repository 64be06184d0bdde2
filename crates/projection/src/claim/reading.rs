//! How the text of a claim is read: each word is a number, a unit, a condition of the figure or of
//! no weight, and a word that is none of these is refused by name, since it may change what the
//! figure means.

mod beside;
mod program;
mod split;

pub use beside::Beside;
pub(super) use split::split;

use super::{
    Per, Statement,
    unit::{Counts, Parts, Piece, Unit},
    vocabulary::{COUNTS, MEASURED, Number, WEIGHTLESS, dtype, hint, is_device},
    wire,
};
use fizeau_domain::dtype::Dtype;

/// The forms that are understood, for errors.
const FORMS: &str = "write \"154 tok/s/user\", \"2582 tok/s/GPU\", \"6200 tok/s on 8 GPUs\", \
                     \"0.4 J/token\", \"4.8 TB/s\", \"1,979 TFLOP/s dense fp8\", \
                     \"busbw 480 on 8 GPUs\" (in GB/s), or \"32 FLOP/clock f64\" (of one core \
                     or unit)";

/// Which tokens a rate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Those of answers.
    Output,
    /// Those of prompts.
    Input,
    /// Both together, as serving benchmarks print "total token throughput".
    Total,
}

/// A figure with all that its text says of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The figure; of a range its upper end.
    pub statement: Statement,
    /// The lower end of a range, in the statement's unit.
    pub low: Option<f64>,
    /// Half of the last digit's place, in the statement's unit: numbers that are rounded to the
    /// figure are within it.
    pub half_place: f64,
    /// The figure where its unit means bytes, which its case leaves open; the statement takes bits.
    pub in_bytes: Option<f64>,
    /// Devices, where they are stated.
    pub devices: Option<u32>,
    /// Whether the figure is of each device (`true`) or of all together.
    pub is_each: Option<bool>,
    /// Whether it is an approximation: "about", "~".
    pub is_rough: bool,
    /// Whether it was measured, and is no peak of a datasheet.
    pub is_measured: bool,
    /// Whether it is called effective: a bandwidth may then count what caches answer.
    pub is_effective: bool,
    /// Whether it is with structured sparsity (`true`) or dense.
    pub is_sparse: Option<bool>,
    /// Whether matrix units (`true`) or vector units reach it.
    pub is_matrix: Option<bool>,
    /// In what products are accumulated.
    pub accumulate: Option<Dtype>,
    /// Which tokens are counted.
    pub counted: Option<Counted>,
    /// Whether it is of a cache (`true`) or of memory.
    pub is_of_cache: Option<bool>,
    /// Whether it is of one pin, lane, link or port.
    pub piece: Option<Piece>,
    /// What else the text names.
    pub beside: Beside,
}

/// The words of a claim, each in its place.
#[derive(Default)]
struct Words<'t> {
    words: Vec<String>,
    at: usize,
    /// Words of the part's and the model's names, which may stand beside the figure.
    known: &'t [String],
    figure: Option<Number>,
    low: Option<Number>,
    unit: Option<Unit>,
    parts: Parts,
    types: Vec<Dtype>,
    accumulate: Option<Dtype>,
    devices: Option<u32>,
    is_each: Option<bool>,
    is_bus: bool,
    is_rough: bool,
    is_measured: bool,
    is_effective: bool,
    is_negated: bool,
    is_input: bool,
    is_output: bool,
    is_total: bool,
    is_sparse: Option<bool>,
    is_matrix: Option<bool>,
    is_of_cache: Option<bool>,
    beside: Beside,
    /// A generation that stands apart from its link.
    generation: Option<u32>,
    /// "x16": lanes of PCI Express, or devices.
    times: Option<u32>,
    /// Whether some word names a link, and whether one names a network.
    has_link: bool,
    is_of_network: bool,
    /// Whether the text has another number than the one that is read.
    has_other_number: bool,
    /// Whether some word is a rate in bytes, and whether one names memory.
    has_bytes: bool,
    names_memory: bool,
    /// What no place takes, in the order of the text.
    left: Vec<String>,
}

impl Words<'_> {
    fn peek(&self) -> String {
        self.words.get(self.at).map(|word| word.to_ascii_lowercase()).unwrap_or_default()
    }

    fn take_if(&mut self, is: impl Fn(&str) -> bool) -> bool {
        let takes = self.at < self.words.len() && is(&self.peek());
        self.at += usize::from(takes);
        takes
    }

    fn read(&mut self) -> Result<(), String> {
        while self.at < self.words.len() {
            let word = self.words[self.at].clone();
            self.at += 1;
            let lower = word.to_ascii_lowercase();
            let is_taken = self.is_name(&lower)
                || self.beside(&lower)?
                || self.number(&word)?
                || self.count(&lower)?
                || self.unit(&word)
                || self.element_type(&lower)
                || self.condition(&lower)
                || self.known.contains(&lower)
                || WEIGHTLESS.split_whitespace().any(|one| one == lower);
            if !is_taken {
                self.left.push(word);
            }
        }
        Ok(())
    }

    /// Whether a number is of a name that stands in the text: "RTX 5090".
    fn is_name(&self, lower: &str) -> bool {
        let is_known = |word: &str| self.known.iter().any(|known| known == word);
        let before = self.at.checked_sub(2).map(|at| self.words[at].to_ascii_lowercase());
        let is_number = lower.bytes().all(|one| one.is_ascii_digit() || one == b'.');
        let is_begun = lower.starts_with(|c: char| c.is_ascii_digit()) && is_known(lower);
        is_begun && (!is_number || before.is_some_and(|before| is_known(&before)))
    }

    /// Whether modules of memory are counted: "8x DDR4-3200".
    fn is_before_memory(&self) -> bool {
        let next = self.peek();
        ["ddr", "lpddr", "gddr", "hbm"].iter().any(|kind| next.starts_with(kind))
    }

    /// "8x 4.8 TB/s" is of each device.
    fn take_each(&mut self) {
        let is_figure = self.peek().starts_with(|c: char| c.is_ascii_digit());
        if self.figure.is_none() && is_figure && self.is_each.is_none() {
            self.is_each = Some(true);
        }
    }

    /// A figure, the other end of a range, or a number of devices.
    fn number(&mut self, word: &str) -> Result<bool, String> {
        if word == "2:4" || !word.starts_with(|c: char| c.is_ascii_digit() || ".,".contains(c)) {
            return Ok(false);
        }
        let is_digit = |c: char| c.is_ascii_digit() || ".,'".contains(c);
        let end = word.find(|c| !is_digit(c)).unwrap_or(word.len());
        let (digits, rest) = word.split_at(end);
        let lower = rest.to_ascii_lowercase();
        if let Some(thing) = lower.strip_prefix('x').or_else(|| lower.strip_prefix("-gpu")) {
            if thing.is_empty() && self.is_before_memory() {
                self.beside.channels = digits.parse().ok();
                return Ok(true);
            }
            self.set_devices(digits)?;
            self.take_each();
            if !thing.is_empty() && !self.known.contains(&thing.into()) && !is_device(thing) {
                self.left.push(thing.into());
            }
            return Ok(true);
        }
        if rest.is_empty() && self.take_if(|next| is_device(next) || next == "x") {
            if self.is_before_memory() {
                return Ok(true);
            }
            self.set_devices(digits)?;
            self.take_each();
            return Ok(true);
        }
        let mut value = Number::of(digits)?;
        let rest = match rest.strip_prefix('-') {
            // "3.0-3.3TB/s"
            Some(after) if after.starts_with(|c: char| c.is_ascii_digit()) => {
                let end = after.find(|c| !is_digit(c)).unwrap_or(after.len());
                self.set_figure(value)?;
                value = Number::of(&after[..end])?;
                &after[end..]
            }
            _ => rest,
        };
        let rest = rest.trim_start_matches('+');
        let (value, rest) = self.scaled(value, rest);
        self.set_figure(value)?;
        if !rest.is_empty() && !self.unit(rest) {
            return Err(format!("{rest:?} is no unit that is understood"));
        }
        Ok(true)
    }

    /// Thousands and millions: "12k tok/s", "1.2 million tokens/s".
    fn scaled<'r>(&mut self, value: Number, rest: &'r str) -> (Number, &'r str) {
        let of = |word: &str| match word {
            "k" | "thousand" => Some(1e3),
            "m" | "million" | "mn" => Some(1e6),
            "b" | "bn" | "billion" => Some(1e9),
            _ => None,
        };
        if let Some(factor) = of(&rest.to_ascii_lowercase()) {
            return (value.times(factor), "");
        }
        match of(&self.peek()).filter(|_| rest.is_empty()) {
            Some(factor) => {
                self.at += 1;
                (value.times(factor), rest)
            }
            None => (value, rest),
        }
    }

    fn set_figure(&mut self, value: Number) -> Result<(), String> {
        let before = &self.words[..self.at.saturating_sub(1)];
        let is_word = |at: usize, word: &str| before[at].eq_ignore_ascii_case(word);
        let last = before.len().checked_sub(1);
        // "34 and 67" are two figures, and "between 34 and 67" is one.
        let is_between = || (0..before.len()).any(|at| is_word(at, "between"));
        let is_range = last.is_some_and(|last| {
            is_word(last, "-") || is_word(last, "to") || is_word(last, "and") && is_between()
        });
        let is_glued = self.words.get(self.at - 1).is_some_and(|word| word.contains('-'));
        match self.figure {
            None => self.figure = Some(value),
            Some(low) if self.low.is_none() && (is_range || is_glued) => {
                self.low = Some(low);
                self.figure = Some(value);
            }
            Some(_) => self.left.push(self.words[self.at - 1].clone()),
        }
        Ok(())
    }

    fn set_devices(&mut self, digits: &str) -> Result<(), String> {
        let count = digits.parse::<u32>().map_err(|_| format!("{digits:?} GPUs: how many?"))?;
        if count == 0 {
            return Err("on 0 GPUs: it is 1 at least".into());
        }
        match self.devices {
            Some(before) if before != count => {
                Err(format!("it is of {before} devices, and of {count}"))
            }
            _ => {
                self.devices = Some(count);
                Ok(())
            }
        }
    }

    /// "on 8 GPUs", "on 8", "eight GPUs", "x 8"; "/GPU" and "per user" apart from the unit.
    fn count(&mut self, lower: &str) -> Result<bool, String> {
        if let Some(part) = lower.strip_prefix('/') {
            return Ok(self.parts.take(part));
        }
        if matches!(lower, "on" | "across" | "over" | "using") {
            let next = self.peek();
            // "over 250 tokens per second" is no number of devices.
            let after = self.words.get(self.at + 1);
            let is_figure = after.is_some_and(|after| Unit::of(after).is_some());
            let is_count = !next.is_empty() && next.bytes().all(|one| one.is_ascii_digit());
            if is_count && is_figure {
                return Ok(true);
            }
            if is_count {
                self.at += 1;
                self.set_devices(&next)?;
                self.take_if(is_device);
            } else if lower == "on" && !self.known.contains(&next) && !is_device(&next) {
                let is_count = COUNTS.iter().any(|(name, _)| *name == next);
                if !is_count {
                    self.at += usize::from(!next.is_empty());
                    let left = self.words.get(self.at - 1).cloned().unwrap_or_default();
                    self.left.push(format!("on {left}"));
                }
            }
            return Ok(true);
        }
        if let Some((_, count)) = COUNTS.iter().find(|(name, _)| *name == lower)
            && is_device(&self.peek())
        {
            self.at += 1;
            self.set_devices(&count.to_string())?;
            return Ok(true);
        }
        Ok(is_device(lower) || (lower == "x" && self.devices.is_some()))
    }

    /// A unit, which may stand twice: "token throughput (tok/s)".
    fn unit(&mut self, word: &str) -> bool {
        let Some(unit) = Unit::of(word) else { return false };
        match self.unit {
            None => self.unit = Some(unit),
            Some(before) if before.counts == unit.counts && before.scale == unit.scale => {
                self.unit = Some(Unit { of: before.of.with(unit.of), ..unit });
            }
            Some(_) => return false,
        }
        true
    }

    /// An element type, or two with one rate ("FP16/BF16"); in what products are accumulated.
    fn element_type(&mut self, lower: &str) -> bool {
        let types: Option<Vec<Dtype>> = lower.split('/').map(dtype).collect();
        let Some(types) = types else { return false };
        let is_accumulate = |word: &str| word.starts_with("acc");
        if types.len() == 1 && self.take_if(is_accumulate) {
            self.accumulate = Some(types[0]);
            return true;
        }
        let is_first = self.types.is_empty() || self.types == types;
        if is_first {
            self.types = types;
        }
        is_first
    }

    /// A condition of the figure.
    fn condition(&mut self, lower: &str) -> bool {
        let is_negated = std::mem::take(&mut self.is_negated);
        match lower {
            "without" | "no" | "not" | "non" => self.is_negated = true,
            "~" | "≈" | "∼" | "about" | "approximately" | "approx" | "around" | "roughly"
            | "nearly" | "almost" | "circa" | "ca" | "close" => self.is_rough = true,
            // A figure that is exceeded is reached.
            ">" | "≥" | "=" | "least" | "more" | "than" | "above" | "exceeds" | "exceeding" => {}
            "to" if self.is_after_up() => {}
            "+" => {}
            "to" | "and" | "-" | "between" | "from" => {
                return matches!(lower, "between" | "from")
                    || self.peek().starts_with(|c: char| c.is_ascii_digit())
                    || (self.is_input || self.is_output);
            }
            "dense" | "non-sparse" => self.is_sparse = Some(is_negated),
            "sparse" | "sparsity" | "2:4" | "structured" => self.is_sparse = Some(!is_negated),
            "tensor" | "matrix" | "mfma" | "wmma" | "wgmma" | "tensorcore" | "tensorcores"
            | "tensor-core" => self.is_matrix = Some(!is_negated),
            "vector" | "cuda" | "shader" | "shaders" | "simd" | "non-tensor" => {
                self.is_matrix = Some(is_negated);
            }
            // Of "tensor cores".
            "core" | "cores" => return self.is_matrix.is_some(),
            "memory" | "mem" | "dram" | "vram" => {
                let before = self.at.checked_sub(2).map(|at| self.words[at].to_ascii_lowercase());
                let owner = before.as_deref().unwrap_or_default();
                self.beside.is_of_host |= matches!(owner, "cpu" | "host" | "system" | "main");
                self.is_of_cache = Some(false);
                self.beside.is_of_memory = true;
            }
            "cache" | "llc" | "mall" | "l2" => self.is_of_cache = Some(true),
            "infinity" => return self.peek() == "cache",
            "bus" | "interface" | "width" if self.is_of_memorys_bus() => {}
            "busbw" | "bus" | "allreduce" | "all-reduce" | "all_reduce" | "nccl" | "rccl" => {
                self.is_bus = true;
            }
            "each" | "apiece" => self.is_each = Some(true),
            "aggregate" | "combined" | "together" | "aggregated" | "altogether" | "system"
            | "overall" => self.is_each = Some(false),
            "total" => self.is_total = true,
            "output" | "generated" | "generation" | "decode" | "decoding" | "decoded"
            | "completion" => self.is_output = true,
            "input" | "prompt" | "prompts" | "prefill" => self.is_input = true,
            "input+output" | "in+out" | "input/output" => {
                (self.is_input, self.is_output) = (true, true);
            }
            _ if MEASURED.contains(&lower) => {
                self.is_measured = true;
                self.beside.is_of_memory |= matches!(lower, "triad" | "stream" | "babelstream");
                self.is_effective |= lower == "effective";
                self.take_dense(lower);
            }
            _ => return false,
        }
        true
    }

    /// Whether a bus is that of memory: "512-bit bus", "memory bus".
    fn is_of_memorys_bus(&self) -> bool {
        let before = self.at.checked_sub(2).map(|at| self.words[at].to_ascii_lowercase());
        let names = |word: String| word == "memory" || word.ends_with("bit") || word == "interface";
        self.beside.bus_bits.is_some() || before.is_some_and(names)
    }

    /// What the words state; what its kind does not take is left over too.
    fn reading(&mut self) -> Result<Reading, String> {
        self.settle_link()?;
        let (value, unit) = self.figure_and_unit()?;
        let of = unit.of.with(self.parts);
        let bits = matches!(unit.counts, Counts::Bits(_));
        if (bits || unit.counts == Counts::Bytes) && !of.second && !self.is_bus {
            return Err("bytes of what time? write TB/s".into());
        }
        let statement = self.statement(value.value * unit.scale, unit, of)?;
        let rate = statement.figure();
        if !rate.is_finite() {
            return Err("the figure is beyond all machines".into());
        }
        let scale = rate / value.value;
        let is_each = match of.whose {
            Some(Per::Device) => Some(true),
            _ if self.is_total && !statement.is_of_tokens() => Some(false),
            _ => self.is_each,
        };
        let low = self.low.map(|low| low.value * scale);
        if low.is_some_and(|low| low >= rate) {
            return Err("of a range the lower end is first".into());
        }
        if statement.is_of_tokens() {
            self.format_of_types();
        }
        self.leave_what_is_of_no_use(&statement, of);
        let counted = beside::counted(self.is_input, self.is_output, self.is_total);
        Ok(Reading {
            in_bytes: (unit.counts == Counts::Bits(false)).then_some(rate * 8.0),
            low,
            half_place: value.half_place * scale,
            devices: self.devices,
            is_each,
            is_rough: self.is_rough,
            is_measured: self.is_measured,
            is_effective: self.is_effective,
            is_sparse: self.is_sparse,
            is_matrix: self.is_matrix,
            accumulate: self.accumulate,
            counted: counted.filter(|_| statement.is_of_tokens()),
            is_of_cache: self.is_of_cache,
            piece: of.piece,
            beside: self.beside.clone(),
            statement,
        })
    }

    fn figure_and_unit(&self) -> Result<(Number, Unit), String> {
        let transfers = self.beside.transfers.filter(|_| self.figure.is_none());
        if let Some(rate) = transfers {
            let value = Number { value: rate, half_place: 5e5 };
            let of = Parts { second: true, ..Parts::default() };
            return Ok((value, Unit { counts: Counts::Transfers, scale: 1.0, of }));
        }
        let nccl = Unit { counts: Counts::Bytes, scale: 1e9, of: Parts::default() };
        let (value, unit) = match (self.figure, self.beside.capacity) {
            (Some(value), _) => (value, self.unit),
            (None, Some(bytes)) if self.is_bus => (bytes.times(1e-9), self.unit),
            (None, Some(_)) => return Err("bytes of what time? write TB/s".into()),
            (None, None) => return Err("there is no number above 0 in it".into()),
        };
        match (unit, self.is_bus) {
            (Some(unit), _) => Ok((value, unit)),
            // Without a unit nccl-tests' own.
            (None, true) => Ok((value, nccl)),
            (None, false) => Err(self.without_unit()),
        }
    }

    /// What is stated, of a figure in what its unit counts.
    fn statement(&self, counted: f64, unit: Unit, of: Parts) -> Result<Statement, String> {
        let is_memory = of.piece == Some(Piece::Pin) || self.is_of_cache == Some(false);
        let bits = matches!(unit.counts, Counts::Bits(_));
        let rate = if bits { counted / 8.0 } else { counted };
        let devices = self.devices;
        Ok(match (unit.counts, self.is_bus) {
            (Counts::Transfers, _) => Statement::Transfers(counted),
            _ if beside::is_of_pin(unit.counts, counted, &self.beside, is_memory) => {
                Statement::Transfers(counted)
            }
            (Counts::Bytes | Counts::Bits(_), true) => Statement::Bus(rate, devices),
            (Counts::Bytes | Counts::Bits(_), false) if self.beside.link.is_some() => {
                Statement::Link(rate)
            }
            (Counts::Bytes | Counts::Bits(_), false) => Statement::Memory(rate),
            (_, true) => return Err("bus bandwidth is in GB/s".into()),
            (Counts::Operations, _) if of.clock => Statement::PerClock(rate, self.one_type()),
            (Counts::Operations, _) => Statement::Arithmetic(rate, self.one_type()),
            (Counts::Tokens, _) if !of.second => {
                return Err("tokens of what time? write tok/s".into());
            }
            (Counts::Tokens, _) => {
                let each = self.is_each.filter(|is_each| *is_each).map(|_| Per::Device);
                let per = of.whose.or(each).unwrap_or(Per::System);
                Statement::Tokens { per, rate, devices }
            }
        })
    }

    fn without_unit(&self) -> String {
        match self.left.first() {
            Some(word) => format!("{word:?} is no unit that is understood"),
            None => "the number has no unit".into(),
        }
    }

    /// Of "FP16/BF16" the first: vendors print both where they are equal.
    fn one_type(&self) -> Option<Dtype> {
        self.types.first().copied()
    }

    /// A condition that a figure of this kind does not have may be what makes it false.
    fn leave_what_is_of_no_use(&mut self, statement: &Statement, of: Parts) {
        let is_arithmetic =
            matches!(statement, Statement::Arithmetic(..) | Statement::PerClock(..));
        let is_bytes = !is_arithmetic && !statement.is_of_tokens();
        let is_tokens = statement.is_of_tokens();
        self.leave_beside(beside::Kinds { is_arithmetic, is_bytes, is_tokens });
        let types = self.types.iter().map(ToString::to_string);
        let types: Vec<String> = types.filter(|_| !is_arithmetic).collect();
        self.left.extend(types);
        for (is_there, word) in [
            (self.is_sparse.is_some() && !is_arithmetic, "sparsity"),
            (self.is_matrix.is_some() && !is_arithmetic, "matrix units"),
            (self.accumulate.is_some() && !is_arithmetic, "accumulate"),
            (self.is_of_cache.is_some() && !is_bytes, "memory"),
            ((self.is_input || self.is_output) && !is_tokens, "input or output"),
            (of.whose == Some(Per::User) && !is_tokens, "per user"),
            (self.is_negated, "without"),
        ] {
            if is_there {
                self.left.push(word.into());
            }
        }
    }
}

impl Reading {
    /// Reads a figure. `names` are words that may stand beside it and mean what is known without
    /// them: the names of the part and of the model.
    ///
    /// # Errors
    /// In words: what is not understood.
    pub fn of(text: &str, names: &[&str]) -> Result<Reading, String> {
        let refuse =
            |why: String| format!("{text:?} is no claim that is understood: {why}; {FORMS}");
        let is_apart = |c: char| !c.is_alphanumeric() && c != '.';
        let mut known: Vec<String> = Vec::new();
        for name in names.iter().map(|name| name.to_ascii_lowercase()) {
            let pieces = name.split(is_apart).filter(|piece| piece.len() > 1);
            known.extend(pieces.chain(name.split_whitespace()).map(str::to_owned));
        }
        let mut words = Words { words: split(text), known: &known, ..Words::default() };
        let links = (0..words.words.len()).filter_map(|at| wire::fabric_at(&words.words[at..]));
        let links: Vec<_> = links.map(|(fabric, _)| fabric.kind).collect();
        let is_number = |word: &&String| word.starts_with(|c: char| c.is_ascii_digit());
        words.has_link = !links.is_empty();
        words.is_of_network = links.iter().any(|kind| kind.is_network());
        words.has_bytes = words.words.iter().any(|word| beside::is_rate_of_bytes(word));
        words.names_memory = words.words.iter().any(|word| beside::names_memory(word));
        words.has_other_number = words.words.iter().filter(is_number).count() > 1;
        words.read().map_err(refuse)?;
        let reading = words.reading();
        if !words.left.is_empty() && (reading.is_ok() || words.unit.is_some()) {
            let named = words.left.iter().map(|word| format!("{word:?}{}", hint(word)));
            let named = named.collect::<Vec<_>>().join(", ");
            let verb = if words.left.len() == 1 { "is" } else { "are" };
            return Err(refuse(format!("{named} {verb} not understood")));
        }
        reading.map_err(refuse)
    }
}

#[cfg(test)]
mod tests;
