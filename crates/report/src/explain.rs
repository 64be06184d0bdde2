//! What a case is: what it measures, how its result is checked, its work and its limits.

use super::{Block, Cell, Column, Document, Table, Weight, case_table::tier_name};
use fizeau_domain::{
    case::{
        Access, AttentionKind, AttentionPoint, Buffers, Case, CollectivePoint, Contents, Fused,
        FusedPoint, GemmPoint, Instruction, InstructionPoint, LatencyPoint, Launching, Layout,
        Lengths, Mask, MemoryNode, MemoryPattern, Place, Point, Recurrence, RecurrencePoint,
        SdcPoint, SparseDecode, SparsePoint, SparseTopK, StreamOperation, Transfer, TransferPoint,
        Work,
    },
    dtype::Dtype,
    outcome::Cache,
    spec::{SpeedOfLight, Tier, tighter},
    text::counted,
};

/// What is known of a case before it runs.
#[derive(Clone, Debug)]
pub struct Explained<'e> {
    /// The case.
    pub case: &'e Case,
    /// Whether the device is a host, whose units are cores.
    pub is_host: bool,
    /// Its speed of light at each tier that is known, in the state of the caches that it is
    /// measured in.
    pub limits: &'e [SpeedOfLight],
    /// The tier of the limit that reports print its share of; none where they print no share.
    pub tier: Option<Tier>,
    /// The state of the caches that its figure is measured in.
    pub cache: Cache,
    /// No shorter time is believed.
    pub floor: Option<SpeedOfLight>,
    /// Where the limits' numbers come from.
    pub sources: &'e [String],
    /// Why the part's peak of the case's type is not reached by instructions made for it.
    pub lacking_kernels: &'e [String],
    /// The kernels of the device for the same work, best guess first.
    pub kernels: &'e [String],
    /// Of a kernel of the user's: its file, and the one beside it.
    pub user: Option<[String; 2]>,
    /// Suites that have the case.
    pub suites: &'e [String],
    /// Memory that it needs and about how long it takes, in words.
    pub needs: String,
    /// The line that measures it.
    pub command: String,
}

/// The explanation, in reading order.
pub fn document(explained: &Explained<'_>) -> Document {
    let Explained { case, is_host, limits, sources, lacking_kernels, suites, .. } = explained;
    let point = &case.point;
    let mut blocks = vec![
        Block::Text(format!("Measures: {}", measured(point, *is_host))),
        Block::Text(format!("Work of one iteration: {}.", work(&point.work()))),
        Block::Text(format!("Check: {}", check(point))),
        Block::Text(kernel(explained)),
    ];
    match limits.is_empty() {
        true => blocks.push(Block::Text(
            "Limits: none is known for this case here, so that no share of a peak is printed."
                .into(),
        )),
        false => {
            blocks.push(Block::Table(table(explained)));
            blocks.push(Block::Text(of_shares(explained)));
        }
    }
    if !sources.is_empty() && !limits.is_empty() {
        blocks.push(Block::Text(format!("Sources of the limits: {}.", sources.join("; "))));
    }
    let suites = suites.join(", ");
    blocks.extend(lacking_kernels.iter().cloned().map(Block::Note));
    blocks.push(Block::Text(format!("Needs {}. In suites: {suites}.", explained.needs)));
    blocks.push(Block::Text(format!("Reproduce: {}", explained.command)));
    Document { title: case.to_string(), subtitle: String::new(), blocks }
}

/// Which of the limits a report's share is of, and what binds before it.
fn of_shares(explained: &Explained<'_>) -> String {
    let Explained { limits, tier, cache, .. } = explained;
    let Some(tier) = *tier else {
        return "A report prints no share of this case: caches may keep an unknown part of what it \
                reads from one iteration to the next, and these limits count all of that part as \
                kept."
            .into();
    };
    let share = format!(
        "A report's share of this case is of the limit of the {}, with {cache} caches.",
        tier_name(tier)
    );
    let before = tighter(limits, tier).map(|(_, most)| {
        format!(
            " It is {:.0} % at most: exponentials, or traffic through the caches, take longer than \
             this limit, which does not count them.",
            most * 100.0
        )
    });
    share + &before.unwrap_or_default()
}

fn table(explained: &Explained<'_>) -> Table {
    let work = explained.case.point.work();
    let row = |name: String, light: &SpeedOfLight| {
        vec![
            Cell::Text(name),
            Cell::Time(light.time),
            Cell::Text(light.bound.to_string()),
            rate(&work, light),
        ]
    };
    let mut rows: Vec<Vec<Cell>> =
        explained.limits.iter().map(|light| row(tier_name(light.tier).to_owned(), light)).collect();
    rows.extend(explained.floor.iter().map(|light| row("believed at most".into(), light)));
    let column = |key, title| Column { key, title, weight: Weight::Essential };
    let columns = vec![
        column("limit", "limit of"),
        column("seconds", "time"),
        column("bound", "bound by"),
        column("rate", "rate"),
    ];
    Table::new("limits", "Limits: the least time of one iteration", columns, rows)
}

/// The rate at a limit: arithmetic where there is some, else bytes.
fn rate(work: &Work, light: &SpeedOfLight) -> Cell {
    match (work.flops.0 > 0.0 && light.bound != fizeau_domain::spec::Bound::Memory, work.link.0 > 0)
    {
        (true, _) => Cell::Throughput(work.flops / light.time),
        (false, true) => Cell::Bandwidth(work.link / light.time),
        (false, false) => Cell::Bandwidth(work.memory / light.time),
    }
}

fn work(work: &Work) -> String {
    let mut parts = Vec::new();
    if work.flops.0 > 0.0 {
        parts.push(format!("{:.4} GFLOP", work.flops.0 / 1e9));
    }
    if work.memory.0 > 0 {
        parts.push(format!("{} to and from memory", work.memory));
    }
    if work.link.0 > 0 {
        parts.push(format!("{} over a link", work.link));
    }
    if work.exps > 0.0 {
        parts.push(format!("{:.4} giga exponentials", work.exps / 1e9));
    }
    match parts.is_empty() {
        true => "none that is counted: the time itself is the result".into(),
        false => parts.join(", "),
    }
}

fn kernel(explained: &Explained<'_>) -> String {
    let Explained { case: Case { kernel, .. }, kernels: others, is_host, user, .. } = explained;
    let name = kernel.0.as_str();
    let place = others.iter().position(|one| one == name).map_or(0, |at| at + 1);
    let of_user = user
        .as_ref()
        .map(|[file, section]| format!("a kernel of yours: {file}, launched as {section} says"));
    let kind = match name {
        _ if let Some(words) = &of_user => words,
        _ if kernel.is_of_library() => "the vendor's library, beside fizeau's own kernels",
        "ce" => "the copy engine",
        "tma" => "bulk copies of the device's units (TMA), fizeau's own",
        "threads" => "threads of this process",
        "mpi" => "the MPI that started the ranks",
        _ if *is_host => "compiled into fizeau",
        _ => "fizeau's own, built in or compiled at run time by NVRTC or hipRTC",
    };
    let count = others.len();
    match (place, count) {
        (0, _) | (_, 1) => format!("Kernel: {name}, {kind}."),
        _ => format!(
            "Kernel: {name}, {kind}. The device has {count} for this work, in order of preference: \
             {}.",
            others.join(", ")
        ),
    }
}

/// What a case measures, in a sentence or two.
pub fn measured(point: &Point, is_host: bool) -> String {
    let units = |count: u32| match (is_host, count) {
        (true, 1) => "one core".to_owned(),
        (true, count) => format!("{count} cores"),
        (false, 1) => "one multiprocessor or compute unit".to_owned(),
        (false, count) => format!("{count} multiprocessors or compute units"),
    };
    match point {
        Point::Stream(p) => format!(
            "bandwidth of memory or caches: the STREAM operation {} ({}) on f64 arrays of {} \
             together, by {}.",
            p.stream,
            formula(p.stream),
            p.working_set,
            units(p.units)
        ),
        Point::Latency(p) => latency(p),
        Point::Compute(p) => format!(
            "peak arithmetic: independent {} multiply-adds on registers, by {}; no memory is \
             touched.",
            p.dtype,
            units(p.units)
        ),
        Point::Instruction(p) => instruction(p),
        Point::Gemm(p) => format!(
            "GEMM: C = A B with A of {} x {} and B of {} x {} elements of {}, {}. B stands {}.",
            p.m,
            p.k,
            p.k,
            p.n,
            p.dtype,
            contents(p.contents),
            layout(p)
        ),
        Point::Grouped(p) => format!(
            "grouped GEMM, as a mixture of experts needs it: {} dealt to {} ({}), each group with \
             its own B of {} x {} elements of {}.",
            counted(p.m as usize, "row"),
            counted(p.groups as usize, "group"),
            p.routing,
            p.k,
            p.n,
            p.dtype
        ),
        Point::Attention(p) => attention(p),
        Point::Fused(p) => fused(p),
        Point::Recurrence(p) => recurrence(p),
        Point::Sparse(p) => sparse(p),
        Point::Collective(p) => collective(p),
        Point::Access(p) => match p.access {
            Access::Gather => format!(
                "bandwidth of reads in random order: rows of {} out of {}, by {}.",
                p.row,
                p.working_set,
                units(p.units)
            ),
            Access::Mix3r1w => "bandwidth of three arrays read and one written at once.".into(),
            Access::Mix1r3w => "bandwidth of one array read and three written at once.".into(),
            Access::Shared => "bandwidth of each unit's shared memory.".into(),
            Access::FirstCache => format!(
                "bandwidth of each unit's first-level cache, out of which the unit reads the same \
                 {} again and again.",
                p.row
            ),
            Access::Distributed => {
                "bandwidth of the shared memory of another unit in a cluster.".into()
            }
        },
        Point::Transfer(p) => transfer(p),
        Point::Launch(p) => match p.launching {
            Launching::Queued => "time from one empty kernel to the next, enqueued back to back.",
            Launching::Waited => {
                "time from the launch of an empty kernel to its end, seen by the host."
            }
            Launching::Graph => "time of a graph of empty kernels, enqueued as one.",
        }
        .to_owned(),
        Point::Sdc(p) => sdc(p),
    }
}

fn fused(point: &FusedPoint) -> String {
    let (rows, width) = (counted(point.rows as usize, "row"), point.width);
    let output = match point.output {
        Dtype::Fp8 => "8-bit floats by one scale for all",
        Dtype::Fp8Block => "8-bit floats by a scale for each 128 of a row",
        _ => "bf16",
    };
    match point.fused {
        Fused::Norm => format!(
            "fused residual addition and RMSNorm of {rows}: {width} bf16 of the input and of the \
             residual are added, the sum is written back, and its norm becomes {output}."
        ),
        Fused::Swiglu => format!(
            "fused SwiGLU of {rows}: {width} bf16 gates and as many ups behind them become \
             silu(gate) * up in {output}."
        ),
    }
}

fn recurrence(point: &RecurrencePoint) -> String {
    let RecurrencePoint { state, heads, key_heads, key, value, .. } = point;
    let rule = match point.recurrence {
        Recurrence::GatedDelta => "the gated delta rule",
        Recurrence::Kda => "the gated delta rule with a decay for each element of a key (KDA)",
        Recurrence::Mamba2 => "the rule of Mamba-2",
    };
    format!(
        "a decode step of linear attention: one token of each of {} updates the states of its \
         heads ({heads}, each of {value} x {key} {state}) by {rule} and reads them out; queries \
         and keys have {key_heads} heads.",
        counted(point.batch as usize, "sequence")
    )
}

fn sparse(point: &SparsePoint) -> String {
    let sequences = |batch: u32| counted(batch as usize, "sequence");
    match point {
        SparsePoint::TopK(SparseTopK { rows, context, selected }) => format!(
            "sparse latent attention (DSA), selection: of each of {} of {context} logits in f32 \
             the places of the greatest {selected}; of equal ones the first.",
            counted(*rows as usize, "row"),
        ),
        SparsePoint::Decode(SparseDecode { batch, heads, selected, context }) => format!(
            "sparse latent attention (DSA), decode: one query of each of {}, whose {} attend over \
             the same {} of {context}, gathered from a cache of 656 bytes each (512 fp8 with \
             4 scales, 64 bf16).",
            sequences(*batch),
            counted(*heads as usize, "head"),
            counted(*selected as usize, "token"),
        ),
    }
}

fn sdc(point: &SdcPoint) -> String {
    let rounds = point.rounds();
    match point {
        SdcPoint::Product { dtype, m, n, k, .. } => format!(
            "silent corruption of products: the same {m} x {n} x {k} product of {dtype} elements, \
             {rounds} times in an iteration, each of which must leave the same bits."
        ),
        SdcPoint::Memory { pattern, size, .. } => {
            let what = match pattern {
                MemoryPattern::Walking => "one bit of each word, another one each time",
                MemoryPattern::Address => "each word's own place, every second time inverted",
                MemoryPattern::Random => "random words",
                MemoryPattern::Moving => {
                    "a random word that is inverted upwards and back downwards"
                }
            };
            format!(
                "silent corruption of memory: {size} written with {what}, and read back, {rounds} \
                 times in an iteration."
            )
        }
        SdcPoint::Copy { size, .. } => format!(
            "silent corruption of copies: {size} from the host to the device, back, and to the \
             device again, {rounds} times in an iteration."
        ),
        SdcPoint::AllReduce { dtype, size, ranks, .. } => format!(
            "silent corruption of all_reduce: messages of {size} of {dtype} between {ranks} ranks, \
             {rounds} times in an iteration. The elements are small whole numbers, whose sums \
             every order of additions leaves exactly."
        ),
    }
}

fn formula(stream: StreamOperation) -> &'static str {
    match stream {
        StreamOperation::Read => "sum of a's bits as integers",
        StreamOperation::Write => "a = s",
        StreamOperation::Copy => "a = b",
        StreamOperation::Scale => "a = s * b",
        StreamOperation::Add => "a = b + c",
        StreamOperation::Triad => "a = b + s * c",
        StreamOperation::Dot => "sum of a * b",
    }
}

fn latency(p: &LatencyPoint) -> String {
    let side = match p.side {
        Some(side) => format!(", only on lines of the {side} half of the last-level cache"),
        None => String::new(),
    };
    if let Some(pair) = p.pair {
        return format!(
            "latency of pairs: dependent loads, two in each 512 B of {}, the second {pair} after \
             the first; the time of a pair is lower where both are in one line.",
            p.working_set
        );
    }
    format!(
        "latency: the time of one load whose address is the value of the load before, at random \
         over {}{side}, by one unit.",
        p.working_set
    )
}

/// How B stands, as the end of a sentence.
fn layout(p: &GemmPoint) -> &'static str {
    match (p.is_b_by_columns(), p.layout) {
        (false, _) => "row by row (layout nn)",
        (true, Layout::Nt) => {
            "column by column (layout nt), as a linear layer holds its weights; the same product \
             with B row by row (nn) is another point"
        }
        (true, Layout::Nn) => "column by column, the only layout of this element type",
    }
}

fn contents(contents: Contents) -> &'static str {
    match contents {
        Contents::Random => "normally distributed random numbers",
        Contents::Integers => "integers from -4 to 4, which cost less power",
        Contents::Zeros => "zeros, which cost less power",
    }
}

fn attention(p: &AttentionPoint) -> String {
    let kind = match p.attention {
        AttentionKind::Prefill => "prefill attention, all query tokens at once",
        AttentionKind::Decode => "decode attention, few query tokens against a KV cache",
        AttentionKind::Mla => "decode of multi-head latent attention, absorbed",
    };
    let mask = match p.mask {
        Mask::Full => "every query sees every key".into(),
        Mask::Causal => "a query sees no later key".into(),
        Mask::Window(window) => {
            format!("a query sees the last {window} keys, its own and those before it")
        }
        Mask::Chunk(chunk) => {
            format!("a query sees no later key, and only those of its own chunk of {chunk} keys")
        }
    };
    let lengths = match p.lengths {
        Lengths::Equal => "",
        Lengths::Ragged => ", of ragged lengths up to these",
    };
    let page = p.page.map(|page| format!(", KV cache in pages of {page} tokens"));
    format!(
        "{kind}: {} of {} and {} keys{lengths}, {} on {}, head dimensions {} (query and key) and \
         {} (value), elements of {}; {mask}{}.",
        counted(p.batch as usize, "sequence"),
        match p.queries {
            1 => "1 query".to_owned(),
            queries => format!("{queries} queries"),
        },
        p.keys,
        counted(p.heads as usize, "query head"),
        counted(p.kv_heads as usize, "KV head"),
        p.dim_qk,
        p.dim_v,
        p.dtype,
        page.unwrap_or_default()
    )
}

fn collective(p: &CollectivePoint) -> String {
    let place = match p.place {
        Place::InPlace => "in place",
        Place::OutOfPlace => "out of place",
        Place::Unaligned => "out of place in unaligned buffers",
    };
    let buffers = match p.buffers {
        Buffers::Plain => "",
        Buffers::Registered => ", in buffers registered with the library",
        Buffers::Symmetric => ", in symmetric windows",
    };
    let graph = match p.graph {
        0 => String::new(),
        count => format!(", {count} captured in a graph"),
    };
    format!(
        "the collective {} over {}: messages of {} (nccl-tests' size) of {}, {place}{buffers}\
         {graph}. The time is that of the slowest rank.",
        p.collective,
        counted(p.ranks as usize, "rank"),
        p.message,
        p.dtype
    )
}

fn transfer(p: &TransferPoint) -> String {
    let what = match p.transfer {
        Transfer::HostToDeviceMemcpy => "a copy from host memory to the device",
        Transfer::DeviceToHostMemcpy => "a copy from the device to host memory",
        Transfer::HostToDeviceBidirectionalMemcpy => {
            "a copy from host memory to the device while copies go the other way"
        }
        Transfer::HostToAllMemcpy => {
            "a copy from host memory to one device while copies go to all others"
        }
        Transfer::AllToHostMemcpy => {
            "a copy from one device to host memory while copies come from all others"
        }
        Transfer::DeviceLocalCopy => "a copy within the device's memory",
        Transfer::DeviceToDeviceMemcpyRead => "a copy from a peer, which this device reads",
        Transfer::DeviceToDeviceMemcpyWrite => "a copy to a peer, which this device writes",
        Transfer::DeviceToDeviceBidirectionalMemcpyRead => {
            "copies between two devices, each reading from the other at the same time"
        }
        Transfer::AllToOneRead => "copies from all peers to this device at once",
        Transfer::OneToAllWrite => "copies from this device to all peers at once",
        Transfer::HostDeviceLatency => "the time of one dependent load of host memory",
        Transfer::DeviceToDeviceLatency => "the time of one dependent load of a peer's memory",
    };
    let host = match p.transfer.with_host() {
        true => {
            let of = |node: MemoryNode| format!(" on NUMA node {}", node.number);
            format!(", {} host memory{}", p.host, p.node.map_or(String::new(), of))
        }
        false => String::new(),
    };
    format!("{what}, {}{host}. The name is nvbandwidth's.", p.size)
}

/// What a chain of instructions measures.
fn instruction(p: &InstructionPoint) -> String {
    format!(
        "latency of an instruction: a chain of {}{}, each of which takes the result of the one \
         before, by one unit.",
        match p.instruction {
            Instruction::Add => "additions",
            Instruction::Mul => "multiplications",
            Instruction::Fma => "fused multiply-adds",
            Instruction::IntegerAdd => "additions of 32-bit integers",
            Instruction::IntegerMad => "multiply-adds of 32-bit integers",
            Instruction::Exp => "exponentials",
            Instruction::Convert => "conversions to 32-bit integers and back",
            Instruction::Shuffle => "exchanges of 32 bits between two lanes",
            Instruction::SharedLoad => "loads of 32 bits from shared memory",
            Instruction::Matrix => "multiplications by the matrix unit",
        },
        p.dtype.map_or(String::new(), |dtype| format!(", {dtype}"))
    )
}

/// How the result of a case is verified, before timing and after.
pub fn check(point: &Point) -> &'static str {
    match point {
        Point::Stream(_) => "every element, with the same operation in f64 on the host.",
        Point::Instruction(_) => "the value and the number of rounds at the end, exactly.",
        Point::Latency(_) => "the cell that is reached after the steps of the chain.",
        Point::Compute(_) => {
            "the closed form of the chain, exactly; of random numbers the sum of the product."
        }
        Point::Gemm(_) => {
            "sampled elements in f64, and products with random vectors that cover every element \
             (Freivalds 1977)."
        }
        Point::Grouped(_) => "as GEMM, group by group.",
        Point::Attention(_) => {
            "f64 softmax over the same inputs, and planted keys and values whose sums are exact."
        }
        Point::Fused(_) => {
            "every element: sums with the residual bit by bit; each output is the rounding of a \
             number within the stated bound of the same operation in f64."
        }
        Point::Recurrence(_) => {
            "every element of the new states and of the outputs: each is the rounding of a number \
             within the stated bound of the same in f64."
        }
        Point::Sparse(SparsePoint::TopK(_)) => {
            "every place, exactly: many logits are equal, also where the last selected one stands."
        }
        Point::Sparse(SparsePoint::Decode(_)) => {
            "f64 softmax over the same selected rows, and planted rows whose sums are exact."
        }
        Point::Collective(_) => "every rank's buffer: copies bitwise, sums within rounding.",
        Point::Access(_) => "every element.",
        Point::Transfer(_) => "every word that arrives.",
        Point::Launch(_) => "a counter that each launch increments.",
        Point::Sdc(SdcPoint::Product { .. }) => {
            "the last product as GEMM, and every product by a hash of all its bits."
        }
        Point::Sdc(SdcPoint::Memory { .. }) => "every word, each time, bit by bit.",
        Point::Sdc(SdcPoint::Copy { .. }) => "what arrives each time, by a hash of all its bits.",
        Point::Sdc(SdcPoint::AllReduce { .. }) => {
            "what each rank receives each time, by a hash of all its bits."
        }
    }
}
