//! The arithmetic ceiling: multiply-adds on registers alone, on all units.

use super::{Prepared, Rank, Workload};
use fizeau_device::{Buffer, Device, DeviceError, Function, Launch};
use fizeau_domain::{
    case::{Case, ComputePoint, KernelName, Point},
    dtype::Dtype,
    kernel::{ComputeParams, Operation},
    outcome::Check,
    suite::Suite,
    units::Bytes,
};

/// The cases of a suite: each element type by every kernel that the device names.
pub fn cases(suite: &Suite, rank: Rank<'_>) -> Vec<Case> {
    let Some(axes) = &suite.compute else { return Vec::new() };
    let units = rank.device.properties().units;
    let cases = |&dtype: &Dtype| {
        let point = Point::Compute(ComputePoint { dtype, units });
        let kernels = rank.device.kernels(Operation::Compute(dtype)).into_iter();
        kernels.map(move |kernel| Case { kernel, point })
    };
    axes.dtypes.iter().flat_map(cases).collect()
}

/// Under which name a device lists the kernels of an element type.
struct ComputeWorkload<'d> {
    device: &'d dyn Device,
    function: Function,
    point: ComputePoint,
    params: ComputeParams,
    partial: Buffer,
}

/// Nothing but a place for each block's count.
pub fn prepare<'r>(
    point: &ComputePoint,
    kernel: &KernelName,
    Rank { device, .. }: Rank<'r>,
) -> Prepared<'r> {
    let function = device.load(Operation::Compute(point.dtype), kernel)?;
    let partial = device.allocate(Bytes(64 * u64::from(point.units)))?;
    let flops = ComputePoint::FLOPS_PER_UNIT as u64;
    let params = ComputeParams { partial: partial.address, flops };
    Ok(Box::new(ComputeWorkload { device, function, point: *point, params, partial }))
}

impl Workload for ComputeWorkload<'_> {
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        let (function, params) = (&self.function, &self.params);
        self.device.launch(&Launch {
            function,
            blocks: self.point.units,
            repeat,
            params: (*params).into(),
        })
    }

    fn poison(&mut self) -> Result<(), DeviceError> {
        for block in 0..u64::from(self.point.units) {
            self.device.write(&self.partial, Bytes(64 * block), &f64::NAN.to_le_bytes())?;
        }
        Ok(())
    }

    /// Every multiply-add counts one, exactly.
    fn verify(&mut self) -> Result<Check, DeviceError> {
        let mut check = Check::NONE;
        for block in 0..u64::from(self.point.units) {
            let mut bytes = [0u8; 8];
            self.device.read(&self.partial, Bytes(64 * block), &mut bytes)?;
            let counted = f64::from_le_bytes(bytes);
            check.count((counted - ComputePoint::FLOPS_PER_UNIT / 2.0).abs(), 0.0);
        }
        Ok(check)
    }
}
