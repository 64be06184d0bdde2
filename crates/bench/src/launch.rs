//! The operation `launch`: what it takes to have next to nothing done. Each launch counts, so that
//! one that did not happen is found out.

use super::{Prepared, Rank, Workload};
use fizeau_device::{Buffer, Device, DeviceError, Function, Launch};
use fizeau_domain::{
    case::{Case, KernelName, LaunchPoint, Launching, Point},
    kernel::{LaunchParams, Operation},
    outcome::Check,
    suite::Suite,
    units::Bytes,
};

/// The cases of a suite.
pub fn cases(suite: &Suite, rank: Rank<'_>) -> Vec<Case> {
    let Some(axes) = &suite.launch else { return Vec::new() };
    let mut cases = Vec::new();
    for &launching in &axes.ways {
        let counts = if launching == Launching::Graph { &axes.graph[..] } else { &[1] };
        for &kernels in counts {
            let point = Point::Launch(LaunchPoint { launching, kernels });
            let names = rank.device.kernels(Operation::Launch(launching)).into_iter();
            cases.extend(names.map(|kernel| Case { kernel, point }));
        }
    }
    cases
}

struct Launches<'d> {
    device: &'d dyn Device,
    function: Function,
    kernels: u32,
    count: Buffer,
    expected: u64,
}

/// A word to count in.
pub fn prepare<'r>(
    point: &LaunchPoint,
    kernel: &KernelName,
    Rank { device, .. }: Rank<'r>,
) -> Prepared<'r> {
    let function = device.load(Operation::Launch(point.launching), kernel)?;
    let count = device.allocate(Bytes(8))?;
    Ok(Box::new(Launches { device, function, kernels: point.kernels, count, expected: 0 }))
}

impl Workload for Launches<'_> {
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        let kernels = u64::from(self.kernels);
        let params = LaunchParams { count: self.count.address, kernels };
        self.expected += kernels * u64::from(repeat);
        let function = &self.function;
        self.device.launch(&Launch { function, blocks: 1, repeat, params: params.into() })
    }

    fn poison(&mut self) -> Result<(), DeviceError> {
        self.expected = 0;
        self.device.write(&self.count, Bytes(0), &[0; 8])
    }

    fn verify(&mut self) -> Result<Check, DeviceError> {
        let mut bytes = [0; 8];
        self.device.read(&self.count, Bytes(0), &mut bytes)?;
        let mut check = Check::NONE;
        check.count(u64::from_le_bytes(bytes).abs_diff(self.expected) as f64, 0.0);
        Ok(check)
    }
}
