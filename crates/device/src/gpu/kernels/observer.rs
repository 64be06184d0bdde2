//! The clock of the device's units, as a kernel observes it.

use super::{
    super::{context::Context, module::Arguments},
    Loaded, shape,
};
use crate::{Buffer, Result};
use fizeau_domain::{
    kernel::ClockParams,
    spec::Properties,
    stats::quantile,
    units::{Bytes, Megahertz},
};
use std::rc::Rc;

/// The kernel that observes the clock, and where each block leaves what it saw.
pub struct Observer {
    kernel: Loaded,
    counted: Buffer,
    params: ClockParams,
    units: u32,
}

/// Long beside the timer's steps of a microsecond or less, short beside the pause between looks.
const OBSERVATION_MICROSECONDS: f64 = 200.0;
/// Assumed where the driver states none, to know how many cycles to count.
const CLOCK_ASSUMED: Megahertz = Megahertz(1_500.0);
/// FillCompare from one block's place to the next.
const PLACE: usize = 8;

impl Observer {
    /// With a kernel that is loaded already.
    ///
    /// # Errors
    ///
    /// Where memory for what it leaves cannot be had.
    pub fn new(kernel: Loaded, context: &Rc<Context>, properties: &Properties) -> Result<Observer> {
        let units = properties.units;
        let counted = context.allocate(Bytes(64 * u64::from(units)))?;
        let clock = properties.clock.unwrap_or(CLOCK_ASSUMED);
        let cycles = (clock.0 * OBSERVATION_MICROSECONDS) as u64;
        let params = ClockParams { counted: counted.address, cycles };
        Ok(Observer { kernel, counted, params, units })
    }

    /// The median over the units.
    pub fn observe(&self, context: &Context) -> Result<Megahertz> {
        let mut params = Arguments::new(bytemuck::bytes_of(&self.params));
        context.launch(&self.kernel.entry, &shape(&self.kernel.row, self.units), &mut params, 1)?;
        let mut words = vec![0u64; PLACE * self.units as usize];
        context.read(self.counted.address, bytemuck::cast_slice_mut(&mut words))?;
        let clock = |place: &[u64]| place[0] as f64 / place[1].max(1) as f64 * 1e3;
        let clocks: Vec<f64> = words.chunks_exact(PLACE).map(clock).collect();
        Ok(Megahertz(quantile::median(&clocks)))
    }
}
