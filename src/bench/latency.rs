//! The operation `latency`: how long a load takes whose address is the value of the load before.
//!
//! One cell stands at the start of each line of the working set; the cells form one cycle in random
//! order (Sattolo, 1986), which no prefetcher guesses. One iteration is one load, and each launch
//! goes on where the one before stopped, so that all cells are visited whatever the batch.
//!
//! On a GPU caches are evicted before a chain is timed, and the chain is walked until the caches
//! hold what they hold of it ever after: two whole passes, or as many lines as are four times the
//! last cache where that is less. Of a chain that is much longer than the cache no line is met
//! again that is still cached: a line comes again after a whole pass, and what is timed does not
//! begin anew but elsewhere. The order is random, so that a part of a pass is a fair sample of all
//! of it.
//!
//! Where the chase ends after so many loads is known from the order: one wrong or missing load, and
//! it ends elsewhere.

use super::{Rank, Unready, Workload, filled, sides, stream};
use crate::{
    case::{Case, KernelName, LatencyPoint, Point},
    device::{Buffer, Device, DeviceError, Function, Launch},
    kernel::{LatencyParams, Operation},
    outcome::Check,
    spec::Properties,
    suite::Suite,
    units::Bytes,
};

/// The least working set of a sweep.
const SWEEP_START: Bytes = Bytes(4096);

/// The unit that cells are counted in: a line of every CPU that is in use, half of one on a GPU.
pub(super) const LINE: u64 = 64;

/// From one cell to the next on a GPU, whose lines are of 128 bytes: no load finds what another one
/// brought.
const GPU_STRIDE: u64 = 128;

/// Of a chain beyond the TLBs, a block of cells in each page of the largest kind that GPUs map
/// memory by.
const PAGE: u64 = 2 << 20;
const BLOCK: u64 = 64 << 10;

/// Loads of one launch while caches settle.
const SETTLING: u64 = 1 << 20;

/// Bytes of a chain that are written at once.
const WRITE: usize = 32 << 20;

/// The cases of a suite.
pub fn cases(suite: &Suite, rank: Rank<'_>) -> Vec<Case> {
    let Some(axes) = &suite.latency else { return Vec::new() };
    let kernels = rank.device.kernels(Operation::Latency);
    let properties = rank.device.properties();
    let end = stream::memory_working_set(properties);
    let mut sizes = stream::sweep(SWEEP_START, end, axes.points_per_octave);
    sizes.extend(beyond_tlb(properties));
    let case = |kernel: &KernelName, working_set| Case {
        kernel: kernel.clone(),
        point: Point::Latency(LatencyPoint { working_set, side: None }),
    };
    let sizes = kernels.iter().flat_map(|kernel| sizes.iter().map(move |&size| case(kernel, size)));
    sizes.chain(sides::cases(&axes.sides, rank)).collect()
}

/// The working set whose loads miss the TLBs too: a quarter of a GPU's memory, where that is
/// enough.
fn beyond_tlb(properties: &Properties) -> Option<Bytes> {
    let quarter = Bytes(1 << (properties.memory.0 / 4).max(1).ilog2());
    (stream::is_gpu(properties) && quarter >= LatencyPoint::BEYOND_TLB).then_some(quarter)
}

struct LatencyWorkload<'d> {
    device: &'d dyn Device,
    function: Function,
    chain: Buffer,
    /// Where each chase ends, and the next one starts.
    end: Buffer,
    /// The line of each cell, in the order of the chain.
    order: Vec<u32>,
    /// The unit that has to walk it, where it matters.
    unit: Option<u64>,
    /// Place in the order where the chase is.
    at: u64,
}

/// Lays a chain over the working set.
pub fn prepare<'r>(
    point: &LatencyPoint,
    kernel: &KernelName,
    rank @ Rank { device, .. }: Rank<'r>,
) -> Result<Box<dyn Workload + 'r>, Unready> {
    if let Some(side) = point.side {
        return sides::prepare(point.working_set, side, kernel, rank);
    }
    let function = device.load(Operation::Latency, kernel)?;
    let properties = device.properties();
    let lines = lines(point, properties)?;
    let chain = device.allocate(stream::in_huge_pages(point.working_set))?;
    let mut workload = through(device, function, chain, &lines, None)?;
    if stream::is_gpu(properties) {
        workload.settle(properties.last_level_cache())?;
    }
    Ok(Box::new(workload))
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

/// The same over any memory that the device reaches, of `cells` lines at least.
pub(super) fn over<'r>(
    device: &'r dyn Device,
    function: Function,
    chain: Buffer,
    cells: usize,
) -> Result<Box<dyn Workload + 'r>, Unready> {
    let all: Vec<u32> = (0..cells as u32).collect();
    Ok(Box::new(through(device, function, chain, &all, None)?))
}

/// The same through some of a memory's lines, by the unit of a number where one has to do it.
pub(super) fn by_unit<'r>(
    device: &'r dyn Device,
    function: Function,
    chain: Buffer,
    lines: &[u32],
    unit: u64,
) -> Result<Box<dyn Workload + 'r>, Unready> {
    Ok(Box::new(through(device, function, chain, lines, Some(unit))?))
}

fn through<'r>(
    device: &'r dyn Device,
    function: Function,
    chain: Buffer,
    lines: &[u32],
    unit: Option<u64>,
) -> Result<LatencyWorkload<'r>, Unready> {
    let end = device.allocate(Bytes(LINE))?;
    let cells = cycle(lines.len());
    lay(device, &chain, lines, &cells)?;
    let order = cells.iter().map(|&cell| lines[cell as usize]).collect();
    let mut workload = LatencyWorkload { device, function, chain, end, order, unit, at: 0 };
    workload.go_to(0)?;
    Ok(workload)
}

/// Writes the address of the next cell into each one. Between cells stand zeros; lines that are far
/// from each other are written by themselves.
fn lay(
    device: &dyn Device,
    chain: &Buffer,
    lines: &[u32],
    cells: &[u32],
) -> Result<(), DeviceError> {
    let mut next = filled(0u32, lines.len())?;
    for (place, &cell) in cells.iter().enumerate() {
        next[cell as usize] = lines[cells[(place + 1) % cells.len()] as usize];
    }
    let mut bytes: Vec<u8> = Vec::new();
    let mut first = 0;
    for (&line, next) in lines.iter().zip(next) {
        let at = u64::from(line) * LINE;
        let is_far = first + bytes.len() as u64 + BLOCK <= at;
        if !bytes.is_empty() && (is_far || bytes.len() >= WRITE) {
            device.write(chain, Bytes(first), &bytes)?;
            bytes.clear();
        }
        if bytes.is_empty() {
            first = at;
        }
        bytes.resize((at - first) as usize, 0);
        bytes.extend((chain.address + u64::from(next) * LINE).to_le_bytes());
    }
    device.write(chain, Bytes(first), &bytes)
}

/// The cells in the order of one cycle through all of them: any order is one.
fn cycle(cells: usize) -> Vec<u32> {
    let mut random = oorandom::Rand64::new(cells as u128);
    let mut order: Vec<u32> = (0..cells as u32).collect();
    for at in (1..cells).rev() {
        let other = random.rand_range(0..at as u64 + 1);
        order.swap(at, other as usize);
    }
    order
}

impl LatencyWorkload<'_> {
    /// The chase goes on from a place in the order.
    fn go_to(&mut self, place: u64) -> Result<(), DeviceError> {
        self.at = place % self.order.len() as u64;
        self.device.write(&self.end, Bytes(0), &self.address().to_le_bytes())
    }

    /// Where the chase has to be.
    fn address(&self) -> u64 {
        self.chain.address + u64::from(self.order[self.at as usize]) * LINE
    }

    /// Evicts what laying the chain left in caches, and walks until they hold what they will.
    fn settle(&mut self, cache: Bytes) -> Result<(), DeviceError> {
        self.device.evict_cache()?;
        let cells = self.order.len() as u64;
        let mut left = (cells * 2).min(cache.0 * 4 / GPU_STRIDE);
        while left > 0 {
            let loads = left.min(SETTLING);
            self.device.timed(&mut || self.enqueue(loads as u32))?;
            left -= loads;
        }
        Ok(())
    }
}

impl Workload for LatencyWorkload<'_> {
    /// One iteration is one load.
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        let params = LatencyParams { position: self.end.address };
        self.at = (self.at + u64::from(repeat)) % self.order.len() as u64;
        let function = &self.function;
        self.device.launch(&Launch { function, blocks: 1, repeat, params: params.into() })
    }

    /// A third of the chain further on; a chase that does not move is then found out. Not back to
    /// the start: what the warm-up has just loaded would be met again, and the caches may hold it.
    fn poison(&mut self) -> Result<(), DeviceError> {
        self.go_to(self.at + self.order.len() as u64 / 3 + 1)
    }

    fn verify(&mut self) -> Result<Check, DeviceError> {
        let mut words = [0u64; 2];
        self.device.read(&self.end, Bytes(0), bytemuck::bytes_of_mut(&mut words))?;
        let by_whom = self.unit.is_none_or(|unit| unit == words[1]);
        let mut check = Check::NONE;
        check.count(if words[0] == self.address() && by_whom { 0.0 } else { 1.0 }, 0.0);
        Ok(check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Backend, host::Host};

    /// Blocks of cells that are far apart are written one by one.
    #[test]
    fn a_chain_leads_through_all_its_cells_and_back() {
        let device = Host.open(0).expect("there is always a host");
        let lines = [3, 4, 6, 5_000, 5_002, 20_000];
        let chain = device.allocate(Bytes(20_001 * LINE)).expect("memory");
        let cells = cycle(lines.len());
        lay(device.as_ref(), &chain, &lines, &cells).expect("it is written");
        let mut at = u64::from(lines[0]) * LINE;
        let mut seen = Vec::new();
        for _ in lines {
            let mut next = [0; 8];
            device.read(&chain, Bytes(at), &mut next).expect("a cell");
            seen.push((at / LINE) as u32);
            at = u64::from_le_bytes(next) - chain.address;
        }
        assert_eq!(at / LINE, u64::from(lines[0]));
        seen.sort_unstable();
        assert_eq!(seen, lines);
    }

    #[test]
    fn a_chain_beyond_the_tlbs_has_a_block_of_cells_in_each_page() {
        let gpu = Properties { backend: "cuda".into(), ..Properties::default() };
        let point = LatencyPoint { working_set: LatencyPoint::BEYOND_TLB, side: None };
        let lines = lines(&point, &gpu).expect("there is room");
        let (page, block) = (PAGE / LINE, (BLOCK / GPU_STRIDE) as usize);
        assert_eq!(lines.len() as u64, (16 << 30) / PAGE * block as u64);
        for (number, cells) in (0..).zip(lines.chunks(block)) {
            let steps = cells.windows(2).all(|pair| pair[1] == pair[0] + 2);
            let within = cells.iter().all(|&cell| u64::from(cell) / page == number);
            assert!(steps && within, "page {number}");
        }
    }

    #[test]
    fn every_cell_comes_once() {
        for cells in [2, 3, 64, 1000] {
            let mut order = cycle(cells);
            order.sort_unstable();
            assert!(order.iter().enumerate().all(|(at, &cell)| at == cell as usize));
        }
    }
}
