//! The operation `latency`: how long a load takes whose address is the value of the load before.
//!
//! One cell stands at the start of each line of the working set; the cells form one cycle in random
//! order (Sattolo, 1986), which no prefetcher guesses. One iteration is one load, and each launch
//! goes on where the one before stopped, so that all cells are visited whatever the batch.
//!
//! Where the chase ends after so many loads is known from the order: one wrong or missing load, and
//! it ends elsewhere.

use super::{Rank, Unready, Workload, filled, sides, stream};
use crate::{
    case::{Case, KernelName, LatencyPoint, Point},
    device::{Buffer, Device, DeviceError, Function, Launch},
    kernel::{LatencyParams, Operation},
    outcome::Check,
    suite::Suite,
    units::Bytes,
};

/// The least working set of a sweep.
const SWEEP_START: Bytes = Bytes(4096);

/// From one cell to the next: a line of every CPU and GPU that is in use, or two halves of one.
pub(super) const LINE: u64 = 64;

/// The cases of a suite.
pub fn cases(suite: &Suite, rank: Rank<'_>) -> Vec<Case> {
    let Some(axes) = &suite.latency else { return Vec::new() };
    let kernels = rank.device.kernels(Operation::Latency);
    let end = stream::memory_working_set(rank.device.properties());
    let sizes = stream::sweep(SWEEP_START, end, axes.points_per_octave);
    let case = |kernel: &KernelName, working_set| Case {
        kernel: kernel.clone(),
        point: Point::Latency(LatencyPoint { working_set, side: None }),
    };
    let sizes = kernels.iter().flat_map(|kernel| sizes.iter().map(move |&size| case(kernel, size)));
    sizes.chain(sides::cases(&axes.sides, rank)).collect()
}

struct LatencyWorkload<'d> {
    device: &'d dyn Device,
    function: Function,
    chain: Buffer,
    /// Where each chase ends, and the next one starts.
    end: Buffer,
    /// The place of each cell in the order of the chain, of those that are in it.
    places: Vec<Option<u32>>,
    /// How many are.
    cells: u64,
    /// The unit that has to walk it, where it matters.
    unit: Option<u64>,
    /// Loads since the chain's start, modulo its length.
    walked: u64,
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
    let cells = (point.working_set.0 / LINE).max(2);
    let chain = device.allocate(stream::in_huge_pages(Bytes(cells * LINE)))?;
    over(device, function, chain, cells as usize)
}

/// The same over any memory that the device reaches, of `cells` lines at least.
pub(super) fn over<'r>(
    device: &'r dyn Device,
    function: Function,
    chain: Buffer,
    cells: usize,
) -> Result<Box<dyn Workload + 'r>, Unready> {
    let all: Vec<u32> = (0..cells as u32).collect();
    through(device, function, chain, &all, None)
}

/// The same through some of a memory's lines, by the unit of a number where one has to do it.
pub(super) fn through<'r>(
    device: &'r dyn Device,
    function: Function,
    chain: Buffer,
    lines: &[u32],
    unit: Option<u64>,
) -> Result<Box<dyn Workload + 'r>, Unready> {
    let end = device.allocate(Bytes(LINE))?;
    let order: Vec<u32> = cycle(lines.len()).iter().map(|&at| lines[at as usize]).collect();
    let most = lines.iter().max().map_or(0, |&line| line as usize + 1);
    let mut bytes = filled(0u8, most * LINE as usize)?;
    let mut places = vec![None; most];
    for (place, &cell) in order.iter().enumerate() {
        let next = order[(place + 1) % order.len()];
        let address = chain.address + u64::from(next) * LINE;
        let at = cell as usize * LINE as usize;
        bytes[at..at + 8].copy_from_slice(&address.to_le_bytes());
        places[cell as usize] = Some(place as u32);
    }
    device.write(&chain, Bytes(0), &bytes)?;
    let cells = order.len() as u64;
    let mut workload =
        LatencyWorkload { device, function, chain, end, places, cells, unit, walked: 0 };
    workload.poison()?;
    Ok(Box::new(workload))
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

impl Workload for LatencyWorkload<'_> {
    /// One iteration is one load.
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        let params = LatencyParams { position: self.end.address };
        self.walked = (self.walked + u64::from(repeat)) % self.cells;
        let function = &self.function;
        self.device.launch(&Launch { function, blocks: 1, repeat, params: params.into() })
    }

    /// Back to the chain's first cell; a chase that does not move is then found out.
    fn poison(&mut self) -> Result<(), DeviceError> {
        let first = self.places.iter().position(|&place| place == Some(0)).unwrap_or(0);
        self.walked = 0;
        let address = self.chain.address + first as u64 * LINE;
        self.device.write(&self.end, Bytes(0), &address.to_le_bytes())
    }

    fn verify(&mut self) -> Result<Check, DeviceError> {
        let mut words = [0u64; 2];
        self.device.read(&self.end, Bytes(0), bytemuck::bytes_of_mut(&mut words))?;
        let cell = words[0].wrapping_sub(self.chain.address) / LINE;
        let place = self.places.get(cell as usize).copied().flatten().map(u64::from);
        let by_whom = self.unit.is_none_or(|unit| unit == words[1]);
        let mut check = Check::NONE;
        check.count(if place == Some(self.walked) && by_whom { 0.0 } else { 1.0 }, 0.0);
        Ok(check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_comes_once() {
        for cells in [2, 3, 64, 1000] {
            let mut order = cycle(cells);
            order.sort_unstable();
            assert!(order.iter().enumerate().all(|(at, &cell)| at == cell as usize));
        }
    }
}
