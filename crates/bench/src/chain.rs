//! A chain through memory that is walked one load at a time: at the start of some lines stands a
//! cell with the address of the next one. The cells form one cycle in random order (Sattolo, 1986),
//! which no prefetcher guesses. One iteration is one load, and each launch continues where the one
//! before stopped, so that all cells are visited whatever the batch.
//!
//! Where a walk of any length ends is known from the order: one wrong or missing load, and
//! it ends elsewhere.

use super::{Workload, filled};
use fizeau_device::{Buffer, Device, DeviceError, Function, Launch};
use fizeau_domain::{case::LatencyPoint, kernel::LatencyParams, outcome::Check, units::Bytes};

/// The unit that cells are counted in: a line of every CPU that is in use, half of one on a GPU.
pub(super) const LINE: u64 = 64;

/// Loads of one launch while caches settle.
const SETTLING: u64 = 1 << 20;

/// Cells at least this many bytes apart are written one by one.
const APART: u64 = 64 << 10;

/// Bytes of a chain that are written at once.
const WRITE: usize = 32 << 20;

/// The same, as a size.
pub(super) const WRITTEN_MAX: Bytes = Bytes(WRITE as u64);

/// A chain, and where its walk is.
pub(super) struct Chain<'d> {
    device: &'d dyn Device,
    function: Function,
    memory: Buffer,
    /// Where each launch ends, and the next one starts.
    end: Buffer,
    /// The line of each cell, in the order of the chain; of pairs its place in grains.
    order: Vec<u32>,
    /// Bytes that `order` counts in.
    grain: u64,
    /// The unit that has to walk it, where it matters.
    unit: Option<u64>,
    /// Whether caches are evicted before each walk from a new place.
    evicts: bool,
    /// Place in the order where the walk is.
    at: u64,
}

impl<'d> Chain<'d> {
    /// Lays a chain over any memory that the device reaches, with a cell in each of some lines,
    /// which are counted from its start.
    pub fn new(
        device: &'d dyn Device,
        function: Function,
        memory: Buffer,
        lines: &[u32],
    ) -> Result<Chain<'d>, DeviceError> {
        let cells = cycle(lines.len());
        Chain::through(device, function, memory, LINE, (lines, &cells))
    }

    /// The same with two cells in each block of memory, the second `pair` bytes after the first and
    /// next in the chain.
    pub fn of_pairs(
        device: &'d dyn Device,
        function: Function,
        memory: Buffer,
        blocks: u32,
        pair: Bytes,
    ) -> Result<Chain<'d>, DeviceError> {
        let grain = LatencyPoint::PAIR_MIN.0;
        let [block, pair] = [LatencyPoint::BLOCK.0, pair.0].map(|bytes| (bytes / grain) as u32);
        let places: Vec<u32> = (0..blocks).flat_map(|at| [at * block, at * block + pair]).collect();
        let cells: Vec<u32> =
            cycle(blocks as usize).into_iter().flat_map(|at| [at * 2, at * 2 + 1]).collect();
        Chain::through(device, function, memory, grain, (&places, &cells))
    }

    /// A chain through places, which are counted in grains and ascend, in the order of `cells`.
    fn through(
        device: &'d dyn Device,
        function: Function,
        memory: Buffer,
        grain: u64,
        (places, cells): (&[u32], &[u32]),
    ) -> Result<Chain<'d>, DeviceError> {
        let end = device.allocate(Bytes(LINE))?;
        lay(device, &memory, grain, (places, cells))?;
        let order = cells.iter().map(|&cell| places[cell as usize]).collect();
        let (unit, evicts, at) = (None, false, 0);
        let mut chain = Chain { device, function, memory, end, order, grain, unit, evicts, at };
        chain.go_to(0)?;
        Ok(chain)
    }

    /// The same for the unit of a number alone: walked by another one, the result is wrong.
    pub fn by_unit(self, unit: u64) -> Chain<'d> {
        Chain { unit: Some(unit), ..self }
    }

    /// The walk continues from a place in the order.
    fn go_to(&mut self, place: u64) -> Result<(), DeviceError> {
        self.at = place % self.order.len() as u64;
        self.device.write(&self.end, Bytes(0), &self.address().to_le_bytes())
    }

    /// Where the walk has to be.
    fn address(&self) -> u64 {
        self.memory.address + u64::from(self.order[self.at as usize]) * self.grain
    }

    /// From now on caches are evicted before each walk from a new place, so that no load finds a
    /// line that an earlier walk brought.
    pub fn evict_before_walks(&mut self) {
        self.evicts = true;
    }

    /// Evicts what laying the chain left in caches, and walks two whole passes.
    pub fn settle(&mut self) -> Result<(), DeviceError> {
        self.device.evict_cache()?;
        let mut left = self.order.len() as u64 * 2;
        while left > 0 {
            let loads = left.min(SETTLING);
            self.device.timed(&mut || self.enqueue(loads as u32))?;
            left -= loads;
        }
        Ok(())
    }
}

impl Workload for Chain<'_> {
    /// One iteration is one load.
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        let params = LatencyParams { position: self.end.address };
        self.at = (self.at + u64::from(repeat)) % self.order.len() as u64;
        let function = &self.function;
        self.device.launch(&Launch { function, blocks: 1, repeat, params: params.into() })
    }

    /// A third of the chain further on; a walk that does not move is then found out. Not back to
    /// the start: what the warm-up has just loaded would be met again, and the caches may hold it.
    fn poison(&mut self) -> Result<(), DeviceError> {
        self.go_to(self.at + self.order.len() as u64 / 3 + 1)?;
        if self.evicts { self.device.evict_cache() } else { Ok(()) }
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

/// Writes the address of the next cell into each one. Between cells stand zeros; cells that are far
/// from each other are written by themselves.
fn lay(
    device: &dyn Device,
    memory: &Buffer,
    grain: u64,
    (places, cells): (&[u32], &[u32]),
) -> Result<(), DeviceError> {
    let mut next = filled(0u32, places.len())?;
    for (at, &cell) in cells.iter().enumerate() {
        next[cell as usize] = places[cells[(at + 1) % cells.len()] as usize];
    }
    let mut bytes: Vec<u8> = Vec::new();
    let mut first = 0;
    for (&place, next) in places.iter().zip(next) {
        let at = u64::from(place) * grain;
        let is_far = first + bytes.len() as u64 + APART <= at;
        if !bytes.is_empty() && (is_far || bytes.len() >= WRITE) {
            device.write(memory, Bytes(first), &bytes)?;
            bytes.clear();
        }
        if bytes.is_empty() {
            first = at;
        }
        bytes.resize((at - first) as usize, 0);
        bytes.extend((memory.address + u64::from(next) * grain).to_le_bytes());
    }
    device.write(memory, Bytes(first), &bytes)
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

#[cfg(test)]
mod tests {
    use super::*;
    use fizeau_device::{Backend, host::Host};

    /// Blocks of cells that are far apart are written one by one.
    #[test]
    fn a_chain_leads_through_all_its_cells_and_back() {
        let device = Host.open(0).expect("there is always a host");
        let lines = [3, 4, 6, 5_000, 5_002, 20_000];
        let chain = device.allocate(Bytes(20_001 * LINE)).expect("memory");
        let cells = cycle(lines.len());
        lay(device.as_ref(), &chain, LINE, (&lines, &cells)).expect("it is written");
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
    fn every_cell_comes_once() {
        for cells in [2, 3, 64, 1000] {
            let mut order = cycle(cells);
            order.sort_unstable();
            assert!(order.iter().enumerate().all(|(at, &cell)| at == cell as usize));
        }
    }
}
