//! The operation `grouped`: a product for each group of rows, as the experts of a mixture need it.
//!
//! Every group has data of its own, so that one multiplied with another's matrix is wrong, and a
//! reference of its own. One group's operands are in the host's memory at a time. The matrices of
//! groups without rows are left as the device gives memory: nothing may come of them.

use super::{
    super::{
        Prepared, Rank, Unready, Workload, collected,
        element::{E4m3, Element, Tf32},
        filled, rotation,
    },
    WORKSPACE_MAX, by_columns,
    reference::{Reference, Roundoff},
};
use bytemuck::Zeroable;
use fizeau_device::{Buffer, Device, DeviceError, Function, Launch};
use fizeau_domain::{
    case::{Case, GroupedPoint, KernelName, Point},
    dtype::Dtype,
    kernel::{GroupedParams, Operation},
    outcome::Check,
    suite::Suite,
    units::Bytes,
};
use half::{bf16, f16};

/// The cases of a suite: every kernel the device has for an element type.
pub fn cases(suite: &Suite, rank: Rank<'_>) -> Vec<Case> {
    let mut cases = Vec::new();
    let Some(axes) = &suite.grouped else { return cases };
    for &dtype in &axes.dtypes {
        let kernels = rank.device.kernels(Operation::Grouped(dtype));
        for &[m, n, k, groups] in &axes.shapes {
            for &routing in &axes.routings {
                let point = Point::Grouped(GroupedPoint { dtype, m, n, k, groups, routing });
                cases.extend(kernels.iter().map(|kernel| Case { kernel: kernel.clone(), point }));
            }
        }
    }
    cases
}

/// Makes a case ready.
pub fn prepare<'r>(point: &GroupedPoint, kernel: &KernelName, rank: Rank<'r>) -> Prepared<'r> {
    Ok(match point.dtype {
        Dtype::F64 => Box::new(Grouped::<f64>::new(point, kernel, rank)?),
        Dtype::F32 => Box::new(Grouped::<f32>::new(point, kernel, rank)?),
        Dtype::Tf32 => Box::new(Grouped::<Tf32>::new(point, kernel, rank)?),
        Dtype::F16 => Box::new(Grouped::<f16>::new(point, kernel, rank)?),
        Dtype::Bf16 => Box::new(Grouped::<bf16>::new(point, kernel, rank)?),
        Dtype::Fp8 => Box::new(Grouped::<E4m3>::new(point, kernel, rank)?),
        Dtype::Int8 => Box::new(Grouped::<i8>::new(point, kernel, rank)?),
        other => {
            let why = format!("no kernel multiplies groups of {other} matrices");
            return Err(Unready::Unsupported(why));
        }
    })
}

/// Host memory that making one ready, working and checking it takes: of the largest group A, B
/// twice, and C as it is read back.
pub fn beside(point: &GroupedPoint) -> Bytes {
    let rows = point.rows().into_iter().max().unwrap_or(0);
    let group = GroupedPoint { m: rows, groups: 1, ..*point };
    let two = GroupedPoint { groups: 2, ..group };
    // What references keep: of each row products with random vectors and what rounding may do, and
    // for each group the vectors and its samples; while one is made, B's own products with them.
    let groups = u64::from(point.groups.min(point.m));
    let of_groups = groups.saturating_mul(u64::from(point.n) * 32 + (8 << 10));
    let kept = Bytes(of_groups.saturating_add(u64::from(point.m) * 48 + u64::from(point.k) * 32));
    two.memory() + kept + WORKSPACE_MAX
}

/// A group's rows in C, and what stands in them.
struct Group<O> {
    first: u32,
    reference: Reference<O>,
}

/// Products made ready.
struct Grouped<'r, E: Element> {
    device: &'r dyn Device,
    function: Function,
    params: GroupedParams,
    c: Buffer,
    /// Only the device looks into them.
    _operands: [Buffer; 3],
    /// Those with rows.
    groups: Vec<Group<E::Output>>,
}

impl<'r, E: Element> Grouped<'r, E> {
    fn new(point: &GroupedPoint, kernel: &KernelName, rank: Rank<'r>) -> Result<Self, Unready> {
        let device = rank.device;
        let function = device.load(Operation::Grouped(point.dtype), kernel)?;
        let dtype = Dtype::ALL.iter().position(|&dtype| dtype == point.dtype).unwrap_or(0) as u32;
        let GroupedPoint { m, n, k, groups, .. } = *point;
        let rows = point.rows();
        let rows_max = rows.iter().copied().max().unwrap_or(0);
        let shape = GroupedParams { m, n, k, groups, rows_max, dtype, ..GroupedParams::zeroed() };
        // Before operands are made, which takes far longer than to be refused.
        device.takes(&function, &shape.into())?;
        let allocate = |elements: [u32; 3], size: usize| {
            let bytes =
                elements.iter().fold(size as u64, |all, &more| all.saturating_mul(u64::from(more)));
            device.allocate(Bytes(bytes))
        };
        let a = allocate([m, k, 1], size_of::<E>())?;
        let b = allocate([groups, k, n], size_of::<E>())?;
        let c = allocate([m, n, 1], size_of::<E::Output>())?;
        let mut firsts = vec![0u32];
        firsts.extend(rows.iter().scan(0, |sum, rows| {
            *sum += rows;
            Some(*sum)
        }));
        let table = device.allocate(Bytes(firsts.len() as u64 * 4))?;
        device.write(&table, Bytes(0), bytemuck::cast_slice(&firsts))?;
        let groups = place::<E>(device, point, &firsts, [&a, &b])?;
        let params = GroupedParams {
            a: a.address,
            b: b.address,
            c: c.address,
            firsts: table.address,
            ..shape
        };
        Ok(Grouped { device, function, params, c, _operands: [a, b, table], groups })
    }

    /// Where a group's rows of C stand.
    fn at(&self, group: &Group<E::Output>) -> Bytes {
        let row = u64::from(self.params.n) * size_of::<E::Output>() as u64;
        Bytes(u64::from(group.first) * row)
    }
}

/// Draws the operands of one group after the other and writes them where they belong.
fn place<E: Element>(
    device: &dyn Device,
    point: &GroupedPoint,
    firsts: &[u32],
    [a, b]: [&Buffer; 2],
) -> Result<Vec<Group<E::Output>>, DeviceError> {
    let [n, k] = [point.n, point.k].map(|length| length as usize);
    let mut random = oorandom::Rand64::new(u128::from(point.m) << 64 | u128::from(point.n));
    let mut of_b = collected(k * n, (0..k * n).map(|_| E::random(&mut random)))?;
    let mut groups = Vec::new();
    for (group, pair) in firsts.windows(2).enumerate() {
        let (first, rows) = (pair[0], (pair[1] - pair[0]) as usize);
        // Moved on by a row and a column from group to group: to draw all of them anew would take
        // longer than to measure them.
        of_b.rotate_left((n + 1) % (k * n));
        if rows == 0 {
            continue;
        }
        let of_a = collected(rows * k, (0..rows * k).map(|_| E::random(&mut random)))?;
        let roundoff = Roundoff::of::<E>();
        let reference = Reference::new(&of_a, &of_b, [rows, n, k], roundoff, &mut random);
        let at = |elements: u64| Bytes(elements * size_of::<E>() as u64);
        device.write(a, at(u64::from(first) * k as u64), bytemuck::cast_slice(&of_a))?;
        let at_b = at(group as u64 * (k * n) as u64);
        if E::BY_COLUMNS {
            device.write(b, at_b, bytemuck::cast_slice(&by_columns(&of_b, n)?))?;
        } else {
            device.write(b, at_b, bytemuck::cast_slice(&of_b))?;
        }
        groups.push(Group { first, reference });
    }
    Ok(groups)
}

impl<E: Element> Workload for Grouped<'_, E> {
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        let blocks = self.device.properties().units;
        let (function, params) = (&self.function, &self.params);
        self.device.launch(&Launch { function, blocks, repeat, params: (*params).into() })
    }

    fn candidates(&self) -> Result<Vec<String>, DeviceError> {
        rotation::candidates(self.device, &self.function, self.params.into())
    }

    fn choose(&mut self, candidate: usize) -> Result<(), DeviceError> {
        rotation::choose(self.device, &self.function, candidate)
    }

    fn poison(&mut self) -> Result<(), DeviceError> {
        for group in &self.groups {
            let poison = filled(E::Output::POISON, group.reference.elements())?;
            self.device.write(&self.c, self.at(group), bytemuck::cast_slice(&poison))?;
        }
        Ok(())
    }

    fn verify(&mut self) -> Result<Check, DeviceError> {
        let mut all = Check { error: 0.0, tolerance: 0.0, compared: 0, wrong: 0 };
        for group in &self.groups {
            let mut output = filled(E::Output::POISON, group.reference.elements())?;
            let bytes = bytemuck::cast_slice_mut(&mut output);
            self.device.read(&self.c, self.at(group), bytes)?;
            let check = group.reference.check(&output);
            let worse = check.error.is_nan() || check.error > all.error;
            all = Check {
                error: if worse { check.error } else { all.error },
                tolerance: check.tolerance,
                compared: all.compared + check.compared,
                wrong: all.wrong + check.wrong,
            };
        }
        Ok(all)
    }
}
