//! The step `top_k`: the greatest of some logits, exactly.
//!
//! Logits are rounded to bf16, so that among thousands many are equal, also where the last of those
//! that are wanted stands: which of them are taken is checked as well. The output is a set, in any
//! order.

use crate::{Rank, Unready, Workload, collected, element::near_normal, filled};
use fizeau_device::{Buffer, Device, DeviceError, Function, Launch};
use fizeau_domain::{
    case::{KernelName, Sparse, SparsePoint, SparseTopK},
    kernel::{Operation, SparseTopKParams},
    outcome::Check,
    units::Bytes,
};
use half::bf16;

/// Rows after which they repeat: a prime, so that no wrong row finds its like.
const PERIOD: u32 = 7;

/// Memory of its arrays on the device, and of the rows that repeat, drawn and sorted.
pub(super) fn memory(point: &SparseTopK) -> Bytes {
    let rows = u64::from(point.rows.min(PERIOD));
    SparsePoint::TopK(*point).work().memory + Bytes(16 * rows * u64::from(point.context))
}

/// A point made ready.
pub(super) struct TopK<'d> {
    pub device: &'d dyn Device,
    function: Function,
    pub params: SparseTopKParams,
    point: SparseTopK,
    #[cfg_attr(not(test), expect(dead_code, reason = "keeps the memory that kernels read"))]
    pub logits: Buffer,
    pub selection: Buffer,
    /// What is wanted of each of the rows that repeat, in ascending order.
    wanted: Vec<Vec<u32>>,
}

impl<'d> TopK<'d> {
    pub fn new(
        point: &SparseTopK,
        kernel: &KernelName,
        rank: Rank<'d>,
    ) -> Result<TopK<'d>, Unready> {
        let device = rank.device;
        let function = device.load(Operation::Sparse(Sparse::TopK), kernel)?;
        let SparseTopK { rows, context, selected } = *point;
        let logits = device.allocate(Bytes(4 * u64::from(rows) * u64::from(context)))?;
        let mut random = oorandom::Rand64::new(u128::from(context) << 64 | u128::from(selected));
        let mut drawn = Vec::new();
        let mut wanted = Vec::new();
        for _ in 0..rows.min(PERIOD) {
            let row = (0..context).map(|_| logit(&mut random));
            let row = collected(context as usize, row)?;
            wanted.push(greatest(&row, selected as usize)?);
            drawn.push(row);
        }
        for (row, drawn) in (0..u64::from(rows)).zip(drawn.iter().cycle()) {
            let at = Bytes(4 * row * u64::from(context));
            device.write(&logits, at, bytemuck::cast_slice(drawn))?;
        }
        let selection = device.allocate(point.written())?;
        let params = SparseTopKParams {
            logits: logits.address,
            selection: selection.address,
            rows,
            context,
            selected,
            unused: 0,
        };
        device.takes(&function, &params.into())?;
        let point = *point;
        Ok(TopK { device, function, params, point, logits, selection, wanted })
    }
}

/// A logit that others equal, and not a zero, which has two signs.
fn logit(random: &mut oorandom::Rand64) -> f32 {
    let drawn = bf16::from_f64(near_normal(random)).to_f32();
    if drawn == 0.0 { 1.0 } else { drawn }
}

/// Where the greatest stand, in ascending order; of equal ones the first.
fn greatest(row: &[f32], count: usize) -> Result<Vec<u32>, DeviceError> {
    let mut places = collected(row.len(), 0..row.len() as u32)?;
    let value = |place: u32| row[place as usize];
    places.sort_unstable_by(|&a, &b| value(b).total_cmp(&value(a)).then(a.cmp(&b)));
    places.truncate(count);
    places.sort_unstable();
    Ok(places)
}

impl Workload for TopK<'_> {
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        let blocks = self.device.properties().units;
        let (function, params) = (&self.function, self.params.into());
        self.device.launch(&Launch { function, blocks, repeat, params })
    }

    /// All bits set: no place.
    fn poison(&mut self) -> Result<(), DeviceError> {
        let poison = filled(u32::MAX, self.selection.size.0 as usize / 4)?;
        self.device.write(&self.selection, Bytes(0), bytemuck::cast_slice(&poison))
    }

    fn verify(&mut self) -> Result<Check, DeviceError> {
        let mut check = Check::NONE;
        let mut got = filled(0u32, self.point.selected as usize)?;
        let rows = (0..self.point.rows).zip(self.wanted.iter().cycle());
        for (row, wanted) in rows {
            let at = Bytes(4 * u64::from(row) * u64::from(self.point.selected));
            self.device.read(&self.selection, at, bytemuck::cast_slice_mut(&mut got))?;
            got.sort_unstable();
            for place in wanted {
                let is_there = got.binary_search(place).is_ok();
                check.count(if is_there { 0.0 } else { 1.0 }, 1.0);
            }
        }
        Ok(check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equal_numbers_the_first_are_taken() {
        let row = [1.0, 3.0, 2.0, 2.0, -1.0, 2.0];
        assert_eq!(greatest(&row, 3), Ok(vec![1, 2, 3]));
        assert_eq!(greatest(&row, 6), Ok(vec![0, 1, 2, 3, 4, 5]));
    }
}
