//! The clock of the device's units while something else runs on them.

use super::{super::context::Context, Loaded};
use crate::{Buffer, Result};
use fizeau_domain::{
    kernel::CountersParams,
    stats::quantile,
    units::{Bytes, Megahertz},
};
use std::{cell::Cell, rc::Rc};

/// Words from one unit's place to the next: the turn, cycles, nanoseconds.
const PLACE: usize = 8;

/// A kernel that leaves what the counters of each unit show, launched before and after what is
/// timed.
pub struct Counters {
    kernel: Loaded,
    /// Where it leaves them before, and where after.
    counted: [Buffer; 2],
    units: u32,
    turn: Cell<u64>,
}

impl Counters {
    /// With a kernel that is loaded already.
    ///
    /// # Errors
    ///
    /// Where memory for what it leaves cannot be had.
    pub fn new(kernel: Loaded, context: &Rc<Context>, units: u32) -> Result<Counters> {
        let size = Bytes(64 * u64::from(units));
        let counted = [context.allocate(size)?, context.allocate(size)?];
        for buffer in &counted {
            context.set(buffer, 0)?;
        }
        Ok(Counters { kernel, counted, units, turn: Cell::new(0) })
    }

    /// Leaves what they show before (0) or after (1) what is timed.
    pub fn leave(&self, context: &Context, when: usize) -> Result<()> {
        if when == 0 {
            self.turn.set(self.turn.get() + 1);
        }
        let counted = self.counted[when].address;
        let (units, turn) = (u64::from(self.units), self.turn.get());
        let params = CountersParams { counted, units, turn };
        self.kernel.launch_plain(context, self.units, &params)
    }

    /// The clock between the two, when both have run: the median of the units that left something
    /// both times. None where none did.
    pub fn clock(&self, context: &Context) -> Result<Option<Megahertz>> {
        let mut words = [(); 2].map(|()| vec![0u64; PLACE * self.units as usize]);
        for (words, buffer) in words.iter_mut().zip(&self.counted) {
            context.read(buffer.address, bytemuck::cast_slice_mut(words))?;
        }
        let [before, after] = &words;
        let turn = self.turn.get();
        let clock = |(before, after): (&[u64], &[u64])| {
            let [is_of, cycles, nanoseconds] = [0, 1, 2].map(|at| (before[at], after[at]));
            let cycles = cycles.1.checked_sub(cycles.0)?;
            let nanoseconds = nanoseconds.1.checked_sub(nanoseconds.0).filter(|&time| time > 0)?;
            (is_of == (turn, turn)).then(|| cycles as f64 / nanoseconds as f64 * 1e3)
        };
        let places = before.chunks_exact(PLACE).zip(after.chunks_exact(PLACE));
        let clocks: Vec<f64> = places.filter_map(clock).collect();
        Ok((!clocks.is_empty()).then(|| Megahertz(quantile::median(&clocks))))
    }
}
