//! What a case can be at most: the one place where records, suites and runs that are resumed are
//! held to it. Each limit lies far above any machine, and low enough that everything which is
//! computed of a case fits in 64 bits and in little memory.

use super::{
    AccessPoint, AttentionPoint, Case, CollectivePoint, FusedPoint, GemmPoint, GroupedPoint,
    InstructionPoint, LatencyPoint, Layout, Mask, Point, RecurrencePoint, SdcPoint, SparseDecode,
    SparsePoint, SparseTopK, StreamPoint, TransferPoint,
};
use crate::units::Bytes;
use std::ops::RangeInclusive;

pub use crate::launcher::RANKS_MAX;

/// Most bytes of a kernel's name.
pub const NAME_MAX: usize = 256;

/// Most units of a device.
pub const UNITS_MAX: u32 = 1 << 20;

/// Largest cache of one instance, in bytes: [`UNITS_MAX`] of them together are still counted.
pub const CACHE_MAX: u64 = 1 << 36;

/// Largest dimension of a matrix.
pub const SIZE_MAX: u32 = 1 << 20;

/// Most groups of a grouped product.
pub const GROUPS_MAX: u32 = 1 << 16;

/// Most sequences of a batch.
pub const BATCH_MAX: u32 = 1 << 12;

/// Most heads of attention, for queries or for keys and values.
pub const HEADS_MAX: u32 = 1 << 12;

/// Largest dimension of a head.
pub const DIM_MAX: u32 = 1 << 11;

/// Most elements of a key of a recurrence: a warp keeps a row of a state.
pub const RECURRENCE_KEY_MAX: u32 = 512;

/// Most tokens of a context that some are selected of, and most of all contexts together, which
/// kernels count in 32 bits.
pub const CONTEXT_MAX: u32 = 1 << 24;

/// Largest message of a collective.
pub const MESSAGE_MAX: Bytes = Bytes(1 << 40);

/// Most collectives of one graph.
pub const GRAPH_MAX: u32 = 1024;

/// Largest row of a gather.
pub const ROW_MAX: Bytes = Bytes(1 << 30);

/// Least bytes that a chain of dependent loads covers: two of a GPU's lines.
pub const CHAIN_MIN: Bytes = Bytes(256);

/// Most copies at once.
pub const COPIES_MAX: u32 = 1024;

/// Most kernels of one launch or graph.
pub const KERNELS_MAX: u32 = 1 << 16;

/// Most rounds of one iteration that looks for silent corruption.
pub const ROUNDS_MAX: u32 = 1 << 16;

/// Refuses a number outside of a range, by name.
pub fn within<N: PartialOrd + std::fmt::Display>(
    what: &str,
    number: N,
    range: RangeInclusive<N>,
) -> Result<(), String> {
    if range.contains(&number) {
        return Ok(());
    }
    Err(format!("{what} = {number}: it is from {} to {}", range.start(), range.end()))
}

fn size(what: &str, bytes: Bytes, least: Bytes, most: Bytes) -> Result<(), String> {
    within(what, bytes.0, least.0..=most.0)
}

impl Case {
    /// Refuses what no run can have planned.
    ///
    /// # Errors
    /// In words: which number, and what it can be.
    pub fn check(&self) -> Result<(), String> {
        within("bytes of the kernel's name", self.kernel.0.len(), 1..=NAME_MAX)?;
        self.point.check().map_err(|why| format!("{}: {why}", self.point.operation()))
    }
}

impl Point {
    /// Refuses sizes that cannot be measured, or of which more would be computed than fits.
    ///
    /// # Errors
    /// In words: which number, and what it can be.
    pub fn check(&self) -> Result<(), String> {
        let units = |units| within("units", units, 1..=UNITS_MAX);
        match self {
            Point::Stream(point) => units(point.units).and_then(|()| point.check()),
            Point::Latency(point) => point.check(),
            Point::Compute(point) => units(point.units),
            Point::Instruction(point) => point.check(),
            Point::Gemm(point) => point.check(),
            Point::Grouped(point) => point.check(),
            Point::Attention(point) => point.check(),
            Point::Fused(point) => point.check(),
            Point::Recurrence(point) => point.check(),
            Point::Sparse(point) => point.check(),
            Point::Collective(point) => point.check(),
            Point::Access(point) => units(point.units).and_then(|()| point.check()),
            Point::Transfer(point) => point.check(),
            Point::Launch(point) => within("kernels", point.kernels, 1..=KERNELS_MAX),
            Point::Sdc(point) => point.check(),
        }
    }
}

impl StreamPoint {
    fn check(&self) -> Result<(), String> {
        // One element of each array.
        let least = Bytes(self.stream.arrays() * 8);
        size("working_set", self.working_set, least, Bytes::MOST)
    }
}

impl LatencyPoint {
    /// Refuses a chain of less than two loads, and pairs that no block holds.
    ///
    /// # Errors
    /// In words.
    pub fn check(&self) -> Result<(), String> {
        if let Some(pair) = self.pair {
            let most = Bytes(LatencyPoint::BLOCK.0 - LatencyPoint::PAIR_MIN.0);
            size("pair", pair, LatencyPoint::PAIR_MIN, most)?;
            if !pair.0.is_multiple_of(LatencyPoint::PAIR_MIN.0) {
                return Err(format!("pair = {}: it is a multiple of 16 bytes", pair.0));
            }
            return size("working_set", self.working_set, LatencyPoint::BLOCK * 2, Bytes::MOST);
        }
        size("working_set", self.working_set, CHAIN_MIN, Bytes::MOST)
    }
}

impl AccessPoint {
    fn check(&self) -> Result<(), String> {
        size("row", self.row, Bytes(1), ROW_MAX)?;
        size("working_set", self.working_set, self.row, Bytes::MOST)
    }
}

impl InstructionPoint {
    /// Refuses an element type where there is only one, and none where there are several.
    ///
    /// # Errors
    /// In words.
    pub fn check(&self) -> Result<(), String> {
        let instruction = self.instruction;
        match (instruction.has_types(), self.dtype) {
            (true, None) => Err(format!("{instruction} is of an element type: dtype is missing")),
            (false, Some(_)) => Err(format!("{instruction} is of 32-bit words: leave dtype out")),
            _ => Ok(()),
        }
    }
}

impl GemmPoint {
    /// Refuses a dimension of nothing, or one that is too large, and a layout that products of the
    /// element type do not have.
    ///
    /// # Errors
    /// In words.
    pub fn check(&self) -> Result<(), String> {
        sides([("m", self.m), ("n", self.n), ("k", self.k)])?;
        if Layout::of(self.dtype).contains(&self.layout) {
            return Ok(());
        }
        Err(format!(
            "layout = {}: B of {} always stands column by column, and its products name no layout",
            self.layout, self.dtype
        ))
    }
}

impl GroupedPoint {
    /// Refuses a dimension of nothing, or one that is too large.
    ///
    /// # Errors
    /// In words.
    pub fn check(&self) -> Result<(), String> {
        within("groups", self.groups, 1..=GROUPS_MAX)?;
        sides([("m", self.m), ("n", self.n), ("k", self.k)])
    }
}

fn sides(sizes: [(&str, u32); 3]) -> Result<(), String> {
    sizes.into_iter().try_for_each(|(name, size)| within(name, size, 1..=SIZE_MAX))
}

impl FusedPoint {
    /// Refuses rows of nothing, too large ones, and element types that no output has.
    ///
    /// # Errors
    /// In words.
    pub fn check(&self) -> Result<(), String> {
        within("rows", self.rows, 1..=SIZE_MAX)?;
        within("width", self.width, 1..=SIZE_MAX)?;
        if !FusedPoint::OUTPUTS.contains(&self.output) {
            let known = FusedPoint::OUTPUTS.map(|dtype| dtype.name()).join(", ");
            return Err(format!("output = {}: it is one of {known}", self.output));
        }
        Ok(())
    }
}

impl RecurrencePoint {
    /// Refuses shapes of nothing, too large ones, keys that are no whole vectors, heads that cannot
    /// be shared out and element types that no state has.
    ///
    /// # Errors
    /// In words.
    pub fn check(&self) -> Result<(), String> {
        within("batch", self.batch, 1..=BATCH_MAX)?;
        within("heads", self.heads, 1..=HEADS_MAX)?;
        within("key_heads", self.key_heads, 1..=self.heads)?;
        within("key", self.key, Self::KEY_STEP..=RECURRENCE_KEY_MAX)?;
        within("value", self.value, 1..=DIM_MAX)?;
        let step = Self::KEY_STEP;
        if !self.key.is_multiple_of(step) {
            return Err(format!("key = {}: it is no multiple of {step}", self.key));
        }
        if !self.heads.is_multiple_of(self.key_heads) {
            let RecurrencePoint { heads, key_heads, .. } = self;
            return Err(format!("heads = {heads}: it is no multiple of key_heads = {key_heads}"));
        }
        if !Self::STATES.contains(&self.state) {
            let known = Self::STATES.map(|dtype| dtype.name()).join(", ");
            return Err(format!("state = {}: it is one of {known}", self.state));
        }
        Ok(())
    }
}

impl SparsePoint {
    /// Refuses shapes of nothing, too large ones, and more selected tokens than there are.
    ///
    /// # Errors
    /// In words.
    pub fn check(&self) -> Result<(), String> {
        match self {
            SparsePoint::TopK(point) => point.check(),
            SparsePoint::Decode(point) => point.check(),
        }
    }
}

impl SparseTopK {
    fn check(&self) -> Result<(), String> {
        within("rows", self.rows, 1..=BATCH_MAX)?;
        within("context", self.context, 1..=CONTEXT_MAX / self.rows)?;
        within("selected", self.selected, 1..=self.context)
    }
}

impl SparseDecode {
    fn check(&self) -> Result<(), String> {
        within("batch", self.batch, 1..=BATCH_MAX)?;
        within("heads", self.heads, 1..=HEADS_MAX)?;
        within("context", self.context, 1..=CONTEXT_MAX / self.batch)?;
        within("selected", self.selected, 1..=self.context)
    }
}

impl AttentionPoint {
    /// Refuses a shape of nothing, one that is too large, and heads that cannot be shared out.
    ///
    /// # Errors
    /// In words.
    pub fn check(&self) -> Result<(), String> {
        within("batch", self.batch, 1..=BATCH_MAX)?;
        within("kv_heads", self.kv_heads, 1..=HEADS_MAX)?;
        within("heads", self.heads, 1..=HEADS_MAX)?;
        within("dim_qk", self.dim_qk, 1..=DIM_MAX)?;
        within("dim_v", self.dim_v, 1..=DIM_MAX)?;
        let counts = [("queries", Some(self.queries)), ("keys", Some(self.keys))];
        let (window, chunk) = match self.mask {
            Mask::Full | Mask::Causal => (None, None),
            Mask::Window(window) => (Some(window), None),
            Mask::Chunk(chunk) => (None, Some(chunk)),
        };
        let lengths = [("page", self.page), ("window", window), ("chunk", chunk)];
        for (name, count) in counts.into_iter().chain(lengths) {
            if count == Some(0) {
                return Err(format!("{name} = 0: it is 1 at least"));
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let (heads, kv_heads) = (self.heads, self.kv_heads);
            return Err(format!("heads = {heads}: it is a multiple of kv_heads = {kv_heads}"));
        }
        if !self.can_be_counted() {
            return Err(format!(
                "batch = {}, queries = {}, keys = {}: at most {} tokens in all, whole pages \
                 counted",
                self.batch,
                self.queries,
                self.keys,
                u32::MAX
            ));
        }
        Ok(())
    }
}

impl CollectivePoint {
    fn check(&self) -> Result<(), String> {
        within("ranks", self.ranks, 1..=RANKS_MAX)?;
        within("graph", self.graph, 0..=GRAPH_MAX)?;
        size("message", self.message, Bytes(1), MESSAGE_MAX)
    }
}

impl SdcPoint {
    /// Refuses a shape or a size of nothing, one that is too large, and no rounds.
    ///
    /// # Errors
    /// In words.
    pub fn check(&self) -> Result<(), String> {
        within("rounds", self.rounds(), 1..=ROUNDS_MAX)?;
        match *self {
            SdcPoint::Product { m, n, k, .. } => sides([("m", m), ("n", n), ("k", k)]),
            SdcPoint::Memory { size: bytes, .. }
            | SdcPoint::Copy { size: bytes, .. }
            | SdcPoint::AllReduce { size: bytes, .. } => {
                let most = match *self {
                    SdcPoint::AllReduce { ranks, .. } => {
                        within("ranks", ranks, 2..=RANKS_MAX)?;
                        MESSAGE_MAX
                    }
                    _ => Bytes::MOST,
                };
                size("size", bytes, Bytes(16), most)?;
                match bytes.0.is_multiple_of(16) {
                    true => Ok(()),
                    false => Err(format!("size = {}: it is a multiple of 16 bytes", bytes.0)),
                }
            }
        }
    }
}

impl TransferPoint {
    fn check(&self) -> Result<(), String> {
        let least = if self.transfer.is_latency() { CHAIN_MIN } else { Bytes(1) };
        size("size", self.size, least, Bytes::MOST)?;
        if !self.transfer.is_latency() && !self.size.0.is_multiple_of(8) {
            return Err(format!("size = {}: it is a multiple of 8 bytes", self.size.0));
        }
        within("copies", self.copies, 1..=COPIES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        case::{
            Access, AttentionKind, Collective, ComputePoint, Fused, HostMemory, Instruction,
            KernelName, LaunchPoint, Launching, Lengths, Recurrence, Routing, StreamOperation,
            Transfer,
        },
        dtype::Dtype,
    };

    fn attention() -> AttentionPoint {
        AttentionPoint::new(
            AttentionKind::Decode,
            Dtype::Bf16,
            [1, 32, 8, 1, 4096, 128, 128],
            Mask::Full,
        )
    }

    #[track_caller]
    fn refused(point: Point, words: &str) {
        let why = point.check().expect_err("refused");
        assert!(why.contains(words), "{why} lacks {words}");
    }

    #[test]
    fn what_no_run_can_have_planned_is_refused_by_its_name() {
        let none = Bytes(0);
        let attention = |change: fn(&mut AttentionPoint)| {
            let mut point = attention();
            assert_eq!(point.check(), Ok(()));
            change(&mut point);
            Point::Attention(point)
        };
        refused(attention(|point| point.batch = u32::MAX), "batch = 4294967295: it is from 1 to");
        refused(attention(|point| point.heads = 12), "a multiple of kv_heads = 8");
        refused(attention(|point| point.keys = 0), "keys = 0");
        refused(attention(|point| point.page = Some(0)), "page = 0");
        refused(attention(|point| point.mask = Mask::Window(0)), "window = 0");
        refused(attention(|point| point.mask = Mask::Chunk(0)), "chunk = 0");
        refused(attention(|point| (point.batch, point.keys) = (1 << 12, 1 << 21)), "tokens in all");
        let dtype = Dtype::F32;
        let gemm =
            GemmPoint { dtype, m: 0, n: 1, k: 1, layout: Layout::Nn, contents: Default::default() };
        refused(Point::Gemm(gemm), "m = 0");
        let nt = GemmPoint { dtype: Dtype::Fp8, m: 1, layout: Layout::Nt, ..gemm };
        refused(Point::Gemm(nt), "layout = nt: B of fp8 always stands column by column");
        let instruction =
            |instruction, dtype| Point::Instruction(InstructionPoint { instruction, dtype });
        refused(instruction(Instruction::Fma, None), "fma is of an element type");
        refused(instruction(Instruction::Shuffle, Some(dtype)), "leave dtype out");
        let routing = Routing::Balanced;
        let grouped = GroupedPoint { dtype, m: 1, n: 1, k: 1, groups: 1 << 20, routing };
        refused(Point::Grouped(grouped), "groups = 1048576");
        let (rows, width) = (1, 0);
        let fused = FusedPoint { fused: Fused::Norm, output: Dtype::Bf16, rows, width };
        refused(Point::Fused(fused), "width = 0");
        let fused = FusedPoint { output: Dtype::F64, width: 8, ..fused };
        refused(Point::Fused(fused), "output = f64: it is one of bf16, fp8, fp8block");
        let recurrence = RecurrencePoint {
            recurrence: Recurrence::Kda,
            state: Dtype::F32,
            batch: 1,
            heads: 6,
            key_heads: 2,
            key: 128,
            value: 64,
        };
        assert!(recurrence.check().is_ok());
        refused(Point::Recurrence(RecurrencePoint { value: 0, ..recurrence }), "value = 0");
        let odd = RecurrencePoint { key: 72, ..recurrence };
        refused(Point::Recurrence(odd), "key = 72: it is no multiple of 16");
        let heads = RecurrencePoint { key_heads: 4, ..recurrence };
        refused(Point::Recurrence(heads), "heads = 6: it is no multiple of key_heads = 4");
        let state = RecurrencePoint { state: Dtype::Fp8, ..recurrence };
        refused(Point::Recurrence(state), "state = fp8: it is one of f32, bf16");
        let decode = SparseDecode { batch: 2, heads: 16, selected: 2048, context: 4096 };
        let sparse = |decode| Point::Sparse(SparsePoint::Decode(decode));
        assert!(sparse(decode).check().is_ok());
        refused(sparse(SparseDecode { selected: 4097, ..decode }), "selected = 4097: it is from 1");
        let top_k = SparseTopK { rows: 0, context: 8, selected: 4 };
        refused(Point::Sparse(SparsePoint::TopK(top_k)), "rows = 0");
        let many = SparseDecode { context: CONTEXT_MAX, ..decode };
        refused(sparse(many), "context = 16777216: it is from 1 to 8388608");
        refused(
            Point::Latency(LatencyPoint { working_set: none, side: None, pair: None }),
            "working_set = 0",
        );
        let pair = |bytes| LatencyPoint { working_set: Bytes::MIB, side: None, pair: Some(bytes) };
        assert_eq!(Point::Latency(pair(Bytes(64))).check(), Ok(()));
        refused(Point::Latency(pair(Bytes(8))), "pair = 8: it is from 16 to 496");
        refused(Point::Latency(pair(Bytes(24))), "a multiple of 16");
        let (stream, units) = (StreamOperation::Add, 1);
        refused(Point::Stream(StreamPoint { stream, working_set: none, units }), "working_set");
        refused(Point::Compute(ComputePoint { dtype, units: 0 }), "units = 0");
        let access = Access::Gather;
        let point = AccessPoint { access, working_set: Bytes::MIB, row: none, units };
        refused(Point::Access(point), "row = 0");
        let point = CollectivePoint::new(Collective::AllReduce, dtype, Bytes(8), 1 << 20);
        refused(Point::Collective(point), "ranks = 1048576");
        let (transfer, host) = (Transfer::AllToOneRead, HostMemory::Pinned);
        let (size, node, device, peer, copies) = (Bytes::MIB, None, 0, None, u32::MAX);
        let point = TransferPoint { transfer, size, host, node, device, peer, copies };
        refused(Point::Transfer(point), "copies = 4294967295");
        let launching = Launching::Graph;
        refused(Point::Launch(LaunchPoint { launching, kernels: 0 }), "kernels = 0");
        let product = SdcPoint::Product { dtype, m: 1, n: 1, k: 0, rounds: 1 };
        refused(Point::Sdc(product), "k = 0");
        let copy = |size, rounds| Point::Sdc(SdcPoint::Copy { size: Bytes(size), rounds });
        refused(copy(64, 0), "rounds = 0");
        refused(copy(24, 1), "a multiple of 16");
        let (size, rounds) = (Bytes(16), 1);
        refused(Point::Sdc(SdcPoint::AllReduce { dtype, size, ranks: 1, rounds }), "ranks = 1");
    }

    /// At the limits nothing overflows, which tests would notice by a panic.
    #[test]
    fn what_is_computed_of_the_largest_cases_fits() {
        let longest = |mask, lengths, page| AttentionPoint {
            batch: 1,
            queries: u32::MAX,
            keys: u32::MAX,
            heads: HEADS_MAX,
            kv_heads: HEADS_MAX,
            dim_qk: DIM_MAX,
            dim_v: DIM_MAX,
            mask,
            lengths,
            page,
            ..attention()
        };
        let dtype = Dtype::F64;
        let side = SIZE_MAX;
        let most = Bytes::MOST;
        let contents = Default::default();
        let (stream, units) = (StreamOperation::Triad, UNITS_MAX);
        let gemm = GemmPoint { dtype, m: side, n: side, k: side, layout: Layout::Nn, contents };
        let routing = Routing::Skewed;
        let groups = GROUPS_MAX;
        let grouped = GroupedPoint { dtype, m: side, n: side, k: side, groups, routing };
        let (access, row) = (Access::Gather, Bytes(1));
        let (host, copies) = (HostMemory::Pinned, COPIES_MAX);
        let (node, device, peer) = (None, 0, Some(1));
        let mut points = vec![
            Point::Stream(StreamPoint { stream, working_set: most, units }),
            Point::Compute(ComputePoint { dtype, units }),
            Point::Gemm(gemm),
            Point::Grouped(grouped),
            Point::Fused(FusedPoint {
                fused: Fused::Swiglu,
                output: Dtype::Fp8Block,
                rows: side,
                width: side,
            }),
            Point::Recurrence(RecurrencePoint {
                recurrence: Recurrence::Kda,
                state: Dtype::F32,
                batch: BATCH_MAX,
                heads: HEADS_MAX,
                key_heads: HEADS_MAX,
                key: RECURRENCE_KEY_MAX,
                value: DIM_MAX,
            }),
            Point::Sparse(SparsePoint::TopK(SparseTopK {
                rows: 1,
                context: CONTEXT_MAX,
                selected: CONTEXT_MAX,
            })),
            Point::Sparse(SparsePoint::Decode(SparseDecode {
                batch: BATCH_MAX,
                heads: HEADS_MAX,
                selected: CONTEXT_MAX / BATCH_MAX,
                context: CONTEXT_MAX / BATCH_MAX,
            })),
            Point::Attention(longest(Mask::Causal, Lengths::Equal, None)),
            Point::Attention(longest(Mask::Causal, Lengths::Ragged, Some(1))),
            Point::Attention(longest(Mask::Window(u32::MAX), Lengths::Equal, None)),
            Point::Attention(longest(Mask::Chunk(u32::MAX), Lengths::Equal, None)),
            Point::Access(AccessPoint { access, working_set: most, row, units }),
        ];
        for collective in Collective::ALL {
            let point = CollectivePoint::new(collective, dtype, MESSAGE_MAX, RANKS_MAX);
            points.push(Point::Collective(point));
            point.memory();
        }
        for transfer in Transfer::ALL {
            let point = TransferPoint { transfer, size: most, host, node, device, peer, copies };
            points.push(Point::Transfer(point));
            point.memory();
        }
        for point in points {
            assert_eq!(point.check(), Ok(()), "{point}");
            point.work();
        }
    }

    #[test]
    fn a_kernels_name_has_a_length() {
        let point = Point::Compute(ComputePoint { dtype: Dtype::F64, units: 1 });
        for (name, is_right) in [("avx512", true), ("", false), (&*"x".repeat(300), false)] {
            let case = Case { kernel: KernelName(name.into()), point };
            assert_eq!(case.check().is_ok(), is_right, "{name}");
        }
    }
}
