//! The operation `latency`: how long a load takes whose address is the value of the load before.
//!
//! One cell of a chain stands at the start of each line of the working set.
//!
//! On a GPU a chain that the last cache holds is walked twice before it is timed: the caches then
//! hold what they hold of it ever after. Of a chain that is longer than the last cache, caches are
//! evicted each time before a walk begins at a new place. Each load of the first pass then comes
//! from memory. Without that, a cache that replaces lines at random would keep some of what an
//! earlier walk brought, and the time would depend on the length of that walk. The order is random,
//! so that a part of a pass is a fair sample of all of it.

use super::{
    Prepared, Rank,
    chain::{Chain, LINE},
    sides, stream,
};
use fizeau_device::DeviceError;
use fizeau_domain::{
    case::{Case, KernelName, LatencyPoint, Point},
    kernel::Operation,
    spec::Properties,
    suite::Suite,
    units::Bytes,
};

/// The least working set of a sweep.
const SWEEP_START: Bytes = Bytes(4096);

/// From one cell to the next on a GPU, whose lines are of 128 bytes: no load finds what another one
/// brought.
const GPU_STRIDE: u64 = 128;

/// The working set of pairs where no cache is known: four times the first cache of most CPUs.
const PAIRS: Bytes = Bytes(128 << 10);

/// Of a chain beyond the TLBs, a block of cells in each page of the largest kind that GPUs map
/// memory by.
const PAGE: u64 = 2 << 20;
const BLOCK: u64 = 64 << 10;

/// The cases of a suite.
pub fn cases(suite: &Suite, rank: Rank<'_>) -> Vec<Case> {
    let Some(axes) = &suite.latency else { return Vec::new() };
    let mut kernels = rank.device.kernels(Operation::Latency);
    // What goes beside loads is asked of memories of peers alone: see `transfer`.
    kernels.retain(|kernel| kernel.0 != super::transfer::BULK);
    let properties = rank.device.properties();
    let end = stream::memory_working_set(properties);
    let mut sizes = match axes.memory_alone {
        true => vec![end],
        false => stream::sweep(SWEEP_START, end, axes.points_per_octave),
    };
    sizes.extend(beyond_tlb(properties).filter(|_| !axes.memory_alone));
    let case = |kernel: &KernelName, working_set, pair| Case {
        kernel: kernel.clone(),
        point: Point::Latency(LatencyPoint { working_set, side: None, pair }),
    };
    let of_kernel = |kernel| {
        let sizes = sizes.iter().map(move |&size| case(kernel, size, None));
        let between = between_first_two_caches(properties);
        let pairs = axes.pairs.iter().map(move |&pair| case(kernel, between, Some(Bytes(pair))));
        sizes.chain(pairs).collect::<Vec<_>>()
    };
    kernels.iter().flat_map(of_kernel).chain(sides::cases(&axes.sides, rank)).collect()
}

/// A working set that the first cache is too small for and the second one holds, a power of two:
/// what a load then brings comes from near by, and into the first cache.
fn between_first_two_caches(properties: &Properties) -> Bytes {
    let of_one = |at: usize| properties.caches.get(at).map(|cache| cache.size.0.max(1) as f64);
    let middle = match (of_one(0), of_one(1)) {
        (Some(first), Some(second)) if second > first => (first * second).sqrt(),
        (Some(first), _) => first * 4.0,
        (None, _) => PAIRS.0 as f64,
    };
    Bytes((middle as u64).next_power_of_two())
}

/// The working set whose loads miss the TLBs too: a quarter of a GPU's memory, where that is
/// enough.
fn beyond_tlb(properties: &Properties) -> Option<Bytes> {
    let quarter = Bytes(1 << (properties.memory.0 / 4).max(1).ilog2());
    (stream::is_gpu(properties) && quarter >= LatencyPoint::BEYOND_TLB).then_some(quarter)
}

/// Lays a chain over the working set.
pub fn prepare<'r>(
    point: &LatencyPoint,
    kernel: &KernelName,
    rank @ Rank { device, .. }: Rank<'r>,
) -> Prepared<'r> {
    if let Some(side) = point.side {
        return sides::prepare(point.working_set, side, kernel, rank);
    }
    let function = device.load(Operation::Latency, kernel)?;
    let properties = device.properties();
    let lines = lines(point, properties)?;
    let memory = device.allocate(stream::in_huge_pages(point.working_set))?;
    let mut chain = match point.pair {
        Some(pair) => {
            let blocks = (point.working_set.0 / LatencyPoint::BLOCK.0) as u32;
            Chain::of_pairs(device, function, memory, blocks, pair)?
        }
        None => Chain::new(device, function, memory, &lines)?,
    };
    if stream::is_gpu(properties) {
        match point.working_set > properties.last_level_cache() {
            true => chain.evict_before_walks(),
            false => chain.settle()?,
        }
    }
    Ok(Box::new(chain))
}

/// The lines that have a cell, from the first on.
fn lines(point: &LatencyPoint, properties: &Properties) -> Result<Vec<u32>, DeviceError> {
    let size = point.working_set.0;
    if point.is_beyond_tlb() {
        let mut random = oorandom::Rand64::new(u128::from(size));
        let in_block = BLOCK / GPU_STRIDE;
        let blocks: Vec<u64> = (0..size / PAGE)
            .map(|page| page * PAGE + random.rand_range(0..PAGE / BLOCK) * BLOCK)
            .collect();
        let cells = blocks.iter().flat_map(|block| (0..in_block).map(move |at| (block, at)));
        let lines = cells.map(|(block, at)| ((block + at * GPU_STRIDE) / LINE) as u32);
        return super::collected(blocks.len() * in_block as usize, lines);
    }
    let stride = if stream::is_gpu(properties) { GPU_STRIDE } else { LINE };
    let cells = (size / stride).max(2);
    super::collected(cells as usize, (0..cells).map(|cell| (cell * stride / LINE) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_beyond_the_tlbs_has_a_block_of_cells_in_each_page() {
        let gpu = Properties { backend: "cuda".into(), ..Properties::default() };
        let point = LatencyPoint { working_set: LatencyPoint::BEYOND_TLB, side: None, pair: None };
        let lines = lines(&point, &gpu).expect("there is room");
        let (page, block) = (PAGE / LINE, (BLOCK / GPU_STRIDE) as usize);
        assert_eq!(lines.len() as u64, (16 << 30) / PAGE * block as u64);
        for (number, cells) in (0..).zip(lines.chunks(block)) {
            let steps = cells.windows(2).all(|pair| pair[1] == pair[0] + 2);
            let within = cells.iter().all(|&cell| u64::from(cell) / page == number);
            assert!(steps && within, "page {number}");
        }
    }
}
