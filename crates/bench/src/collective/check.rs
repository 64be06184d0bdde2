//! Compares what a rank received on its device, where it lists a kernel for that: a buffer of many
//! gigabytes does not go through the host.

use crate::Rank;
use fizeau_device::{Buffer, Device, DeviceError, Function, Launch};
use fizeau_domain::{
    dtype::Dtype,
    kernel::{CheckParams, Operation},
    units::Bytes,
};

/// From one block's results to the next one's, in bytes: no two blocks write to one line.
const APART: u64 = 64;

/// The kernel of an element type, and where it leaves what it finds.
pub(super) struct Checker<'r> {
    device: &'r dyn Device,
    function: Function,
    blocks: u32,
    found: Buffer,
}

/// What an element should be, for all of a rank's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// The element at `at` is a copy of what the rank `peer + at / slice` sends at
    /// `before + at % slice`.
    Copy {
        /// Whose the first slice is.
        peer: usize,
        /// Elements of one rank.
        slice: usize,
        /// Of what each of them sends, where it begins.
        before: usize,
    },
    /// The sum of what all ranks send at `before + at`.
    Sum {
        /// Where it begins.
        before: usize,
    },
}

impl<'r> Checker<'r> {
    /// Of a device that has such a kernel.
    pub fn new(rank: Rank<'r>, dtype: Dtype) -> Result<Option<Checker<'r>>, DeviceError> {
        let device = rank.device;
        let operation = Operation::Check(dtype);
        let Some(kernel) = device.kernels(operation).into_iter().next() else { return Ok(None) };
        let function = device.load(operation, &kernel)?;
        let blocks = device.properties().units.max(1);
        let found = device.allocate(Bytes(2 * APART) * u64::from(blocks))?;
        let checker = Checker { device, function, blocks, found };
        checker.check_itself(dtype)?;
        Ok(Some(checker))
    }

    /// Shows that wrong elements are found, before any are believed to be right: zeros are not what
    /// a rank sends.
    fn check_itself(&self, dtype: Dtype) -> Result<(), DeviceError> {
        const LENGTH: usize = 1001;
        let size = Bytes((LENGTH as u64 * dtype.bits()).div_ceil(8));
        let zeros = self.device.allocate(size)?;
        self.device.write(&zeros, Bytes(0), &vec![0; size.0 as usize])?;
        let pattern = Pattern::Copy { peer: 0, slice: LENGTH, before: 0 };
        let (wrong, _) = self.check(zeros.address, LENGTH, pattern, 2, false, 0.0)?;
        // Some elements that ranks send are zeros.
        if wrong < LENGTH as u64 / 2 || wrong > LENGTH as u64 {
            return Err(DeviceError::Driver(format!(
                "the kernel that checks collectives finds {wrong} of {LENGTH} zeros wrong, so no \
                 result on this device could be believed"
            )));
        }
        Ok(())
    }

    /// The number of wrong elements at an address, and the largest error.
    pub fn check(
        &self,
        values: u64,
        length: usize,
        pattern: Pattern,
        ranks: u32,
        has_grown: bool,
        tolerance: f64,
    ) -> Result<(u64, f64), DeviceError> {
        let blocks = u64::from(self.blocks);
        let (wrong, error) = (self.found.address, self.found.address + APART * blocks);
        let (peer, slice, before, ranks) = match pattern {
            Pattern::Copy { peer, slice, before } => (peer as u64, slice.max(1), before, 0),
            Pattern::Sum { before } => (0, 1, before, ranks.into()),
        };
        let params = CheckParams {
            values,
            wrong,
            error,
            length: length as u64,
            slice: slice as u64,
            before: before as u64,
            peer,
            ranks,
            grown: has_grown.into(),
            tolerance,
        };
        // What no block has written is wrong: all bits set.
        let mut bytes = vec![0xff; (2 * APART * blocks) as usize];
        self.device.write(&self.found, Bytes(0), &bytes)?;
        let (function, blocks) = (&self.function, self.blocks);
        self.device.launch(&Launch { function, blocks, repeat: 1, params: params.into() })?;
        self.device.read(&self.found, Bytes(0), &mut bytes)?;
        let (wrongs, errors) = bytes.split_at(bytes.len() / 2);
        let of = |bytes: &[u8]| -> Vec<u64> {
            let first = |line: &[u8]| bytemuck::pod_read_unaligned(&line[..8]);
            bytes.chunks_exact(APART as usize).map(first).collect()
        };
        let wrong = of(wrongs).into_iter().fold(0, u64::saturating_add);
        let largest = of(errors).into_iter().map(f64::from_bits).fold(0.0, f64::max);
        Ok((wrong, largest))
    }
}
