//! The operation `instruction`: how long an instruction takes whose operand is the result of the
//! one before. Nothing else is on the way: one unit, and no memory but what the instruction loads.

use super::{Prepared, Rank, Workload};
use fizeau_device::{Buffer, Device, DeviceError, Function, Launch};
use fizeau_domain::{
    case::{Case, InstructionPoint, KernelName, Point},
    kernel::{LatencyParams, Operation},
    outcome::Check,
    suite::Suite,
    units::Bytes,
};

/// Bytes that a chain leaves its value and its rounds in.
const LEFT: Bytes = Bytes(64);

/// The cases of a suite, by every kernel that the device names.
pub fn cases(suite: &Suite, rank: Rank<'_>) -> Vec<Case> {
    let Some(axes) = &suite.instruction else { return Vec::new() };
    let all = axes.instructions.iter().flat_map(|&instruction| {
        let dtypes = match instruction.has_types() {
            true => axes.dtypes.iter().copied().map(Some).collect(),
            false => vec![None],
        };
        dtypes.into_iter().map(move |dtype| InstructionPoint { instruction, dtype })
    });
    let cases = |point: InstructionPoint| {
        let operation = Operation::Instruction(point);
        let point = Point::Instruction(point);
        rank.device.kernels(operation).into_iter().map(move |kernel| Case { kernel, point })
    };
    all.flat_map(cases).collect()
}

/// A chain made ready.
struct Instructions<'d> {
    device: &'d dyn Device,
    function: Function,
    left: Buffer,
    /// Rounds of the last launch.
    rounds: u32,
}

/// Nothing but a place for what the chain leaves.
pub fn prepare<'r>(
    point: &InstructionPoint,
    kernel: &KernelName,
    Rank { device, .. }: Rank<'r>,
) -> Prepared<'r> {
    let operation = Operation::Instruction(*point);
    let function = device.load(operation, kernel)?;
    let left = device.allocate(LEFT)?;
    Ok(Box::new(Instructions { device, function, left, rounds: 0 }))
}

impl Workload for Instructions<'_> {
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        self.rounds = repeat / InstructionPoint::ROUND;
        let params = LatencyParams { position: self.left.address };
        let (function, repeat) = (&self.function, self.rounds);
        self.device.launch(&Launch { function, blocks: 1, repeat, params: params.into() })
    }

    fn granule(&self) -> u32 {
        InstructionPoint::ROUND
    }

    fn poison(&mut self) -> Result<(), DeviceError> {
        let nothing = [f64::NAN.to_le_bytes(), 0u64.to_le_bytes()].concat();
        self.device.write(&self.left, Bytes(0), &nothing)
    }

    /// Every round ends where it began, exactly, and all of them were made.
    fn verify(&mut self) -> Result<Check, DeviceError> {
        let mut words = [0u64; 2];
        self.device.read(&self.left, Bytes(0), bytemuck::bytes_of_mut(&mut words))?;
        let [value, rounds] = words;
        let mut check = Check::NONE;
        check.count((f64::from_bits(value) - InstructionPoint::START).abs(), 0.0);
        check.count(rounds.abs_diff(u64::from(self.rounds)) as f64, 0.0);
        Ok(check)
    }
}
