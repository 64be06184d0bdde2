//! Filling and comparing memory on the device: a gigabyte in the time that the host would take to
//! copy a hundredth of it there.

use super::{
    context::Context,
    kernels::{Kernels, Loaded},
};
use crate::{Buffer, DeviceError, Result};
use fizeau_domain::{
    kernel::{CompareParams, FillParams, Operation},
    units::Bytes,
};
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

/// The kernels, and where they find a pattern and leave a count.
pub struct FillCompare {
    fill: Loaded,
    compare: Loaded,
    units: u32,
    differing: Buffer,
    pattern: RefCell<Option<Buffer>>,
    /// Whether the comparison has shown that it finds differences.
    is_checked: Cell<bool>,
}

impl FillCompare {
    /// Loads them.
    ///
    /// # Errors
    ///
    /// Where they cannot be had.
    pub fn new(kernels: &Kernels, context: &Rc<Context>, units: u32) -> Result<FillCompare> {
        Ok(FillCompare {
            fill: kernels.load(context, Operation::Fill, "portable")?,
            compare: kernels.load(context, Operation::Compare, "portable")?,
            units,
            differing: context.allocate(Bytes(8))?,
            pattern: RefCell::new(None),
            is_checked: Cell::new(false),
        })
    }

    /// Shows that a difference is found, before anything is believed to have none.
    fn check(&self, context: &Rc<Context>) -> Result<()> {
        const LENGTH: u64 = 1001;
        let target = context.allocate(Bytes(8 * LENGTH))?;
        let words: Vec<u64> = [1, 2, 3].into_iter().cycle().take(LENGTH as usize).collect();
        context.write(target.address, bytemuck::cast_slice(&words))?;
        // The words 1, 4, 7 .. are others in the second pattern.
        for (pattern, expected) in [([1, 2, 3], 0), ([1, 5, 3], LENGTH.div_ceil(3))] {
            let found = self.count(context, target.address, &pattern, LENGTH)?;
            if found != expected {
                return Err(DeviceError::Driver(format!(
                    "the kernel that compares memory finds {found} of {expected} planted \
                     differences, so no result on this device could be believed"
                )));
            }
        }
        Ok(())
    }

    /// Fills words with a pattern that repeats.
    pub fn fill(
        &self,
        context: &Rc<Context>,
        target: u64,
        pattern: &[u64],
        length: u64,
    ) -> Result<()> {
        let (pattern, period) = (self.put(context, pattern)?, pattern.len() as u64);
        let params = FillParams { target, pattern, length, period };
        self.fill.launch_plain(context, self.units, &params)?;
        context.wait("a fill")
    }

    /// Reads all of a buffer, without waiting.
    pub fn read(&self, context: &Rc<Context>, buffer: &Buffer) -> Result<()> {
        // Compared with one word, itself: what comes out is of no use.
        let (values, differing) = (buffer.address, self.differing.address);
        let length = buffer.size.0 / 8;
        let params = CompareParams { values, pattern: values, length, period: 1, differing };
        self.compare.launch_plain(context, self.units, &params)
    }

    /// How many words differ from the pattern.
    pub fn differing(
        &self,
        context: &Rc<Context>,
        values: u64,
        pattern: &[u64],
        length: u64,
    ) -> Result<u64> {
        if !self.is_checked.replace(true) {
            self.check(context)?;
        }
        self.count(context, values, pattern, length)
    }

    fn count(
        &self,
        context: &Rc<Context>,
        values: u64,
        pattern: &[u64],
        length: u64,
    ) -> Result<u64> {
        let (pattern, period) = (self.put(context, pattern)?, pattern.len() as u64);
        let differing = self.differing.address;
        context.write(differing, &[0; 8])?;
        let params = CompareParams { values, pattern, length, period, differing };
        self.compare.launch_plain(context, self.units, &params)?;
        let mut count = [0; 8];
        context.read(differing, &mut count)?;
        Ok(u64::from_le_bytes(count))
    }

    /// Puts a pattern where the kernels find it.
    fn put(&self, context: &Rc<Context>, pattern: &[u64]) -> Result<u64> {
        let size = Bytes(pattern.len() as u64 * 8);
        let mut place = self.pattern.borrow_mut();
        if place.as_ref().is_none_or(|place| place.size < size) {
            *place = Some(context.allocate(size)?);
        }
        let address = place.as_ref().map_or(0, |place| place.address);
        context.write(address, bytemuck::cast_slice(pattern))?;
        Ok(address)
    }
}
