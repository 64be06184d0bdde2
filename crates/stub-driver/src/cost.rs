//! What a launch costs, from its entry's name and its parameters alone, and how long the stub says
//! that takes at the speeds of its script. What a launch leaves in memory plays no part in it.
//!
//! Rates are made up and far below any GPU's. Parameters are read at the offsets of
//! kernels/include/params.h.

use crate::speed::{Moment, Resource, Speeds};

/// Nanoseconds from one launch to the next, where the kernel is shorter: the next one is set up
/// while it works.
pub const LAUNCH: f64 = 2_000.0;

/// Nanoseconds of a load from memory that the next one waits for.
const LOAD: f64 = 100.0;

/// Bytes that memory, the last cache, the link to the host and one to a peer move in a nanosecond.
/// More than 128 from the cache would be faster than one unit can load at the stub's clock, and more
/// than 96 faster than one that makes eight operations a cycle in double precision can do a triad.
const MEMORY: f64 = 80.0;
const CACHE: f64 = 80.0;
const HOST: f64 = 20.0;
const PEER: f64 = 50.0;

/// Operations in a nanosecond.
const OPERATIONS: f64 = 100.0;

/// Cycles of the clock in a nanosecond.
pub const CLOCK: f64 = 1.0;

/// Bytes of the last cache, as the devices' attributes say. What is less is taken to lie in it.
pub const CACHE_BYTES: f64 = 1_048_576.0;

/// What a launch moves, computes and waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Launches that have to be set up.
    pub launches: f64,
    /// Bytes between the units and memory, or the last cache where all of them fit.
    pub memory: f64,
    /// Distinct bytes among them.
    pub footprint: f64,
    /// Bytes between the units and shared memory.
    pub shared: f64,
    /// Operations of the vector units.
    pub vector: f64,
    /// Operations of the matrix units.
    pub tensor: f64,
    /// Loads that wait for each other.
    pub loads: f64,
    /// The cell with the address that a chain of atomic operations begins at. They take as long as
    /// the [distance] of their lines, which are all of one side.
    pub chain: Option<u64>,
    /// Bytes that are copied from one address to another.
    pub copy: Option<Copied>,
    /// Cycles that the units work for.
    pub cycles: f64,
    /// The share of its speed that a script leaves the kernel.
    pub speed: f64,
}

/// A copy: what lies between its two ends is for whoever knows the memories to say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copied {
    /// Where bytes go.
    pub to: u64,
    /// Where they come from.
    pub from: u64,
    /// How many.
    pub bytes: f64,
}

/// What a copy passes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// The memory of one device, twice.
    Memory,
    /// The link between a device and the host's memory.
    Host {
        /// The device.
        device: i32,
        /// Whether the memory is on another NUMA node than the device.
        is_far: bool,
    },
    /// The link between two devices.
    Peer(i32, i32),
}

/// Nanoseconds of an atomic operation on a line: every second 256 bytes are far.
pub fn distance(address: u64) -> u64 {
    if (address / 256).is_multiple_of(2) { 200 } else { 300 }
}

impl Cost {
    /// A launch that does nothing else.
    pub const LAUNCH: Cost = Cost {
        launches: 1.0,
        memory: 0.0,
        footprint: 0.0,
        shared: 0.0,
        vector: 0.0,
        tensor: 0.0,
        loads: 0.0,
        chain: None,
        copy: None,
        cycles: 0.0,
        speed: 1.0,
    };

    /// Moves bytes that all lie in `footprint`.
    fn moving(bytes: f64, footprint: f64) -> Cost {
        Cost { memory: bytes, footprint, ..Cost::LAUNCH }
    }

    /// A copy by an engine or a kernel.
    pub fn copying(to: u64, from: u64, bytes: u64) -> Cost {
        Cost { copy: Some(Copied { to, from, bytes: bytes as f64 }), ..Cost::LAUNCH }
    }

    /// Operations of an entry: on matrix units where its name continues after the element type.
    fn computing(self, entry: Entry<'_>, operations: f64) -> Cost {
        match entry.has_matrix_unit {
            true => Cost { tensor: operations, ..self },
            false => Cost { vector: operations, ..self },
        }
    }

    /// What a launch of an entry costs. Parameters that are too short cost a launch: whoever does
    /// it refuses them.
    pub fn of(name: &str, params: &[u8]) -> Cost {
        of(name, Parameters(params)).unwrap_or(Cost::LAUNCH)
    }

    /// The same of a kernel that has such a share of its speed.
    pub fn at_speed(self, speed: f64) -> Cost {
        Cost { speed, ..self }
    }

    /// Nanoseconds of it on a device at a moment. `path` is that of the copy, `first` the address
    /// that the chain begins at.
    pub fn nanoseconds(
        &self,
        speeds: &Speeds,
        moment: Moment,
        path: Option<Path>,
        first: Option<u64>,
    ) -> f64 {
        let speed = |of| speeds.speed(of, moment, None);
        let memory = match self.footprint <= CACHE_BYTES {
            true => self.memory / (CACHE * speed(Resource::Cache)),
            false => self.memory / (MEMORY * speed(Resource::Memory)),
        };
        let load = first.map_or(LOAD, |address| distance(address) as f64);
        let copied = self.copy.map_or(0.0, |copy| copy.bytes);
        let link = |of, device, peer| speeds.speed(of, Moment { device, ..moment }, peer);
        let copied = match path {
            None => 0.0,
            Some(Path::Memory) => 2.0 * copied / (MEMORY * speed(Resource::Memory)),
            Some(Path::Host { device, is_far }) => {
                let far = if is_far { link(Resource::Far, device, None) } else { 1.0 };
                copied / (HOST * link(Resource::Host, device, None) * far)
            }
            Some(Path::Peer(from, to)) => copied / (PEER * link(Resource::Link, from, Some(to))),
        };
        [
            self.launches * LAUNCH / speed(Resource::Launch),
            memory,
            self.shared / (CACHE * speed(Resource::Cache)),
            self.vector / (OPERATIONS * speed(Resource::Vector)),
            self.tensor / (OPERATIONS * speed(Resource::Tensor)),
            self.loads * load / speed(Resource::Latency),
            copied,
            self.cycles / (CLOCK * speed(Resource::Clock)),
        ]
        .into_iter()
        .fold(0.0, f64::max)
            / self.speed
    }
}

/// The bytes that a launch is given.
#[derive(Clone, Copy)]
struct Parameters<'p>(&'p [u8]);

impl Parameters<'_> {
    fn u64(self, at: usize) -> Option<u64> {
        Some(u64::from_le_bytes(self.0.get(at..at + 8)?.try_into().ok()?))
    }

    /// A size of 64 bits.
    fn long(self, at: usize) -> Option<f64> {
        self.u64(at).map(|word| word as f64)
    }

    /// A size of 32 bits.
    fn word(self, at: usize) -> Option<f64> {
        Some(f64::from(u32::from_le_bytes(self.0.get(at..at + 4)?.try_into().ok()?)))
    }

    /// How often the kernel repeats by itself: behind the `length` bytes of its struct, or once.
    fn repeat(self, length: usize) -> f64 {
        self.word(length).unwrap_or(1.0)
    }
}

/// An entry's name, in its parts: operation, element type, and whether matrix units compute.
#[derive(Clone, Copy)]
struct Entry<'n> {
    operation: &'n str,
    dtype: &'n str,
    has_matrix_unit: bool,
}

/// Element types that names are made of.
const DTYPES: &str = "f32 tf32 f64 bf16 f16 fp8 int8 mxfp8 mxfp4 nvfp4 fp8block \
                      fp6 bf16fp8 bf16int4 bf16mxfp4";

fn entry(name: &str) -> Entry<'_> {
    let words: Vec<&str> = name.split('_').collect();
    let at = words.iter().position(|word| DTYPES.split(' ').any(|dtype| dtype == *word));
    let library = ["mma", "wgmma", "tcgen05", "library", "cdna", "rdna"];
    let has_matrix_unit =
        words.iter().any(|word| library.iter().any(|unit| word.starts_with(unit)));
    Entry { operation: words[0], dtype: at.map_or("", |at| words[at]), has_matrix_unit }
}

/// Bytes of an element.
fn width(dtype: &str) -> f64 {
    match dtype {
        "f64" => 8.0,
        "f32" | "tf32" => 4.0,
        "bf16" | "f16" | "bf16fp8" | "bf16int4" | "bf16mxfp4" => 2.0,
        "mxfp4" | "nvfp4" => 0.5,
        _ => 1.0,
    }
}

/// Bytes of an element of B.
fn width_of_b(dtype: &str) -> f64 {
    match dtype {
        "bf16fp8" => 1.0,
        "bf16int4" | "bf16mxfp4" => 0.5,
        other => width(other),
    }
}

fn of(name: &str, params: Parameters<'_>) -> Option<Cost> {
    let entry = entry(name);
    Some(match (entry.operation, name) {
        ("stream", _) => stream(name, params)?,
        ("compute", _) => {
            // The blocks do theirs beside each other.
            Cost::LAUNCH.computing(entry, params.long(8)? * params.repeat(16))
        }
        ("gemm", _) => {
            let (m, n, k) = (params.word(24)?, params.word(28)?, params.word(32)?);
            product(entry, [m, n, k], 1.0)
        }
        ("grouped", _) => {
            let (m, n, k) = (params.word(32)?, params.word(36)?, params.word(40)?);
            product(entry, [m, n, k], params.word(44)?)
        }
        ("attention", _) => attention(entry, params)?,
        ("fused", _) => {
            let cells = params.word(48)? * params.word(52)?;
            let written = match entry.dtype {
                "bf16" => 2.0,
                "fp8" => 1.0,
                // Scales of 4 bytes for 128 elements.
                _ => 1.0 + 4.0 / 128.0,
            };
            let updated = if name.starts_with("fused_norm") { 2.0 } else { 0.0 };
            let bytes = cells * (4.0 + updated + written);
            Cost::moving(bytes, bytes)
        }
        ("recurrence", _) => {
            let [batch, heads, key, value] =
                [params.word(72)?, params.word(76)?, params.word(84)?, params.word(88)?];
            let bytes = 2.0 * batch * heads * key * value * width(entry.dtype);
            Cost::moving(bytes, bytes)
        }
        (_, "sparse_top_k") => {
            let [rows, context, selected] = [params.word(16)?, params.word(20)?, params.word(24)?];
            let bytes = 4.0 * rows * (context + selected);
            Cost::moving(bytes, bytes)
        }
        (_, "sparse_decode") => {
            let [batch, heads, selected] = [params.word(32)?, params.word(36)?, params.word(40)?];
            let pairs = batch * heads * selected;
            let bytes = batch * selected * 660.0 + batch * heads * (576.0 + 512.0) * 2.0;
            Cost::moving(bytes, bytes).computing(entry, 2.0 * pairs * (576.0 + 512.0))
        }
        ("collective", _) => {
            let (length, terms) = (params.long(24)?, params.long(56)?.max(1.0));
            let bytes = length * width(entry.dtype);
            Cost { vector: length * terms, ..Cost::moving(bytes, bytes) }
        }
        (_, "access_gather") => {
            let (rows, row) = (params.long(24)?, params.long(32)?);
            let bytes = rows * row * params.repeat(48);
            Cost::moving(bytes, rows * row)
        }
        (_, "access_mix_3r1w" | "access_mix_1r3w") => {
            let footprint = 4.0 * 8.0 * params.long(24)?;
            Cost::moving(footprint * params.repeat(48), footprint)
        }
        // 16 KiB a turn; the blocks do theirs beside each other.
        ("access", _) => {
            let turns = params.long(24)? * params.repeat(48);
            Cost { shared: 16_384.0 * turns, ..Cost::LAUNCH }
        }
        (_, "latency_chase" | "latency_chase_bulk") => {
            Cost { loads: params.word(8)?, ..Cost::LAUNCH }
        }
        (_, "latency_side") => {
            Cost { loads: params.word(8)?, chain: Some(params.u64(0)?), ..Cost::LAUNCH }
        }
        (_, "latency_probe") => Cost { loads: params.long(8)?, ..Cost::LAUNCH },
        // 64 cycles of each of 1024.
        ("instruction", _) => Cost { cycles: 64.0 * 1024.0 * params.word(8)?, ..Cost::LAUNCH },
        (_, "transfer_copy" | "transfer_copy_bulk") => {
            Cost::copying(params.u64(0)?, params.u64(8)?, params.u64(16)?)
        }
        (_, "util_fill" | "util_compare") => {
            let bytes = 8.0 * params.long(16)?;
            Cost::moving(bytes, bytes)
        }
        (_, "util_clock") => Cost { launches: 0.0, cycles: params.long(8)?, ..Cost::LAUNCH },
        // A gate takes what the host takes to open it, which no event may tell.
        (_, "util_hold") => Cost { launches: 0.0, ..Cost::LAUNCH },
        _ => Cost::LAUNCH,
    })
}

fn stream(name: &str, params: Parameters<'_>) -> Option<Cost> {
    let arrays = match name.split('_').nth(1)? {
        "read" | "write" => 1.0,
        "copy" | "scale" | "dot" => 2.0,
        _ => 3.0,
    };
    let footprint = arrays * 8.0 * params.long(32)?;
    Some(Cost::moving(footprint * params.repeat(48), footprint))
}

/// Products whose rows are `m` together, each group with a B of its own.
fn product(entry: Entry<'_>, [m, n, k]: [f64; 3], groups: f64) -> Cost {
    let (a, b) = (width(entry.dtype), width_of_b(entry.dtype));
    let bytes = a * m * k + b * groups * k * n + a.max(2.0) * m * n;
    Cost::moving(bytes, bytes).computing(entry, 2.0 * m * n * k)
}

/// Attention of sequences that are taken to be of one length: how long each is, stands in memory.
fn attention(entry: Entry<'_>, params: Parameters<'_>) -> Option<Cost> {
    let [batch, heads, kv_heads] = [params.word(84)?.max(1.0), params.word(88)?, params.word(92)?];
    let (dim_qk, dim_v) = (params.word(104)?, params.word(108)?);
    let (query_tokens, key_tokens) = (params.word(128)?, params.word(132)?);
    let (queries, keys) = (query_tokens / batch, key_tokens / batch);
    let (window, chunk) = (params.word(136)?, params.word(140)?);
    // Of a causal mask the last query sees the last key: pairs of the queries at the first `tokens`
    // keys, and the first key that a query there sees.
    let triangle = |side: f64| side * (side + 1.0) / 2.0;
    let pairs_before = |tokens: f64| {
        if window > 0.0 {
            triangle(tokens.min(window)) + (tokens - window).max(0.0) * window
        } else if chunk > 0.0 {
            (tokens / chunk).floor() * triangle(chunk) + triangle(tokens % chunk)
        } else {
            triangle(tokens)
        }
    };
    let before = (keys - queries).max(0.0);
    let pairs = match params.word(112)? {
        0.0 => queries * keys,
        _ => pairs_before(keys) - pairs_before(before),
    };
    let unseen = if window > 0.0 {
        (before + 1.0 - window).max(0.0)
    } else if chunk > 0.0 {
        (before / chunk).floor() * chunk
    } else {
        0.0
    };
    let key_tokens = key_tokens - batch * unseen;
    let values = if params.u64(16)? == 0 { 0.0 } else { dim_v };
    let element = width(entry.dtype);
    let bytes = element
        * (query_tokens * heads * (dim_qk + dim_v) + key_tokens * kv_heads * (dim_qk + values));
    let operations = 2.0 * batch * heads * pairs * (dim_qk + dim_v);
    Some(Cost::moving(bytes, bytes).computing(entry, operations))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parameters: words of 64 bits, then words of 32.
    fn params(longs: &[u64], words: &[u32]) -> Vec<u8> {
        let longs = longs.iter().flat_map(|long| long.to_le_bytes());
        longs.chain(words.iter().flat_map(|word| word.to_le_bytes())).collect()
    }

    fn time(cost: Cost, script: &str) -> f64 {
        let mut speeds = Speeds::default();
        for word in script.split(',').filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').expect("a name and a value");
            speeds.take(name, value).expect(word);
        }
        cost.nanoseconds(&speeds, Moment::default(), None, None)
    }

    #[test]
    fn a_stream_takes_as_long_as_its_bytes_from_where_they_lie() {
        // A million elements of three arrays; again four times by the kernel itself.
        let large = params(&[0, 0, 0, 0, 1_000_000, 0], &[]);
        let triad = Cost::of("stream_triad_nt", &large);
        assert_eq!((triad.memory, triad.footprint), (24e6, 24e6));
        let slow = time(triad, "hbm=0.85") / time(triad, "");
        assert!((slow * 0.85 - 1.0).abs() < 1e-12, "{slow}");
        assert_eq!(time(triad, "compute=0.5,cache=0.5,launch=0.1"), time(triad, ""));
        let small = params(&[0, 0, 0, 0, 1_000, 0], &[400]);
        let cached = Cost::of("stream_copy_cached", &small);
        assert_eq!((cached.memory, cached.footprint), (6.4e6, 16e3));
        assert_eq!(time(cached, "hbm=0.5"), time(cached, ""));
        assert_eq!(time(cached, "clock=0.5"), 2.0 * time(cached, ""));
    }

    #[test]
    fn products_are_of_the_units_that_their_names_say() {
        let square = params(&[0; 3], &[1024, 1024, 1024, 4, 0, 0, 0, 0]);
        let operations = 2.0 * 1024f64.powi(3);
        let of = |name| Cost::of(name, &square);
        assert_eq!((of("gemm_bf16").vector, of("gemm_bf16").tensor), (operations, 0.0));
        for name in ["gemm_bf16_wgmma", "gemm_fp8_cdna4_direct", "gemm_int8_rdna3"] {
            assert_eq!((of(name).vector, of(name).tensor), (0.0, operations), "{name}");
        }
        assert_eq!(time(of("gemm_bf16_mma"), "tensor=0.5,vector=0.1"), operations / 50.0);
        assert_eq!(of("gemm_bf16").memory, 3.0 * 2.0 * 1024.0 * 1024.0);
        let grouped = params(&[0; 4], &[70, 64, 128, 12, 6, 4]);
        let grouped = Cost::of("grouped_bf16_mma", &grouped);
        assert_eq!(grouped.tensor, 2.0 * 70.0 * 64.0 * 128.0);
        assert_eq!(grouped.memory, 2.0 * (70.0 * 128.0 + 12.0 * 64.0 * 128.0 + 70.0 * 64.0));
    }

    #[test]
    fn attention_costs_what_its_mask_lets_be_seen() {
        // Two sequences of 10 queries and 20 keys, 4 heads of 64 on 2.
        let of_window = |causal, window, chunk| {
            let words = [0, 2, 4, 2, 10, 20, 64, 64, causal, 4, 0, 0, 20, 40, window, chunk];
            Cost::of("attention_prefill_bf16_64_mma", &params(&[1; 10], &words))
        };
        let of = |causal| of_window(causal, 0, 0);
        assert_eq!(of(0).tensor, 2.0 * 20.0 * 4.0 * 20.0 * 128.0);
        assert_eq!(of(1).tensor, 2.0 * 20.0 * 4.0 * 15.5 * 128.0);
        assert_eq!(of(0).memory, 2.0 * (20.0 * 4.0 * 128.0 + 40.0 * 2.0 * 128.0));
        // Queries stand at keys 10 to 19: windows of 4 from key 7 on, chunks of 8 from key 8 on.
        let (window, chunk) = (of_window(1, 4, 0), of_window(1, 0, 8));
        assert_eq!(window.tensor, 2.0 * 20.0 * 4.0 * 4.0 * 128.0);
        assert_eq!(window.memory, 2.0 * (20.0 * 4.0 * 128.0 + 26.0 * 2.0 * 128.0));
        let seen = f64::from(3 + 4 + 5 + 6 + 7 + 8 + 1 + 2 + 3 + 4);
        assert_eq!(chunk.tensor, 2.0 * 2.0 * seen * 4.0 * 128.0);
        assert_eq!(chunk.memory, 2.0 * (20.0 * 4.0 * 128.0 + 24.0 * 2.0 * 128.0));
    }

    #[test]
    fn copies_take_as_long_as_what_they_pass_over() {
        let copy = Cost::of("transfer_copy", &params(&[0, 0, 1 << 20, 0], &[]));
        let mut speeds = Speeds::default();
        speeds.take("link1-2", "0.5").expect("a link");
        speeds.take("gpu2.pcie", "0.25").expect("a link");
        speeds.take("far", "0.5").expect("memory on another node");
        let over = |path| copy.nanoseconds(&speeds, Moment::default(), Some(path), None);
        assert_eq!(over(Path::Peer(1, 2)), 2.0 * over(Path::Peer(1, 0)));
        let host = |device, is_far| over(Path::Host { device, is_far });
        assert_eq!(host(2, false), 4.0 * host(1, false));
        assert_eq!(host(1, true), 2.0 * host(1, false));
        assert_eq!(over(Path::Memory), 2.0 * f64::from(1 << 20) / MEMORY);
    }

    #[test]
    fn a_gate_takes_no_time_and_short_parameters_a_launch() {
        assert_eq!(time(Cost::of("util_hold", &[0; 24]), ""), 0.0);
        assert_eq!(time(Cost::of("util_clock", &params(&[0, 500], &[])), "clock=0.5"), 1_000.0);
        assert_eq!(time(Cost::of("stream_copy", &[0; 8]), ""), LAUNCH);
        assert_eq!(time(Cost::of("launch_count", &[0; 16]), "launch=0.5"), 2.0 * LAUNCH);
        let side = Cost::of("latency_side", &params(&[64], &[100]));
        assert_eq!(side.chain, Some(64));
        let speeds = Speeds::default();
        let chain = |first| side.nanoseconds(&speeds, Moment::default(), None, Some(first));
        assert_eq!([chain(0), chain(256)], [20_000.0, 30_000.0]);
    }
}
