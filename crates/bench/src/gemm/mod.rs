//! The operation `gemm`: `C = A B` on random data, or on lighter ones where a suite asks for them.
//!
//! The kernels of an element type are those the device lists under `gemm/<element type>`.

pub mod grouped;
mod reference;
mod scaled;
mod sums;
mod weights;

use self::{
    reference::{Reference, Roundoff},
    scaled::{Choice, Format, WhichOperand},
    sums::{Sums, Where},
};
use super::{
    Prepared, Rank, Unready, Workload, collected,
    element::{BF16_ROUNDOFF, E4M3_SUM_ROUNDOFF, E4m3, Element, Tf32, near_normal},
    filled,
    rotation::Turns,
};
use bytemuck::Zeroable;
use fizeau_device::{Buffer, DeviceError};
use fizeau_domain::{
    case::{Case, Contents, GemmPoint, KernelName, Point},
    dtype::Dtype,
    kernel::{GemmParams, Operation},
    outcome::Check,
    spec::Properties,
    suite::Suite,
    units::Bytes,
};
use half::{bf16, f16};
use std::{any::Any, cell::RefCell, rc::Rc};

/// The cases of a suite: every kernel the device has for an element type.
pub fn cases(suite: &Suite, rank: Rank<'_>) -> Vec<Case> {
    let mut cases = Vec::new();
    let Some(axes) = &suite.gemm else { return cases };
    for &dtype in &axes.dtypes {
        // No kernel of another layout stands in where the device has none of this one.
        let of = |layout| (layout, rank.device.kernels(Operation::Gemm(dtype, layout)));
        let layouts: Vec<_> = axes.layouts_of(dtype).into_iter().map(of).collect();
        for &[m, n, k] in &axes.shapes {
            for (layout, kernels) in &layouts {
                for &contents in &axes.contents {
                    let layout = *layout;
                    let point = Point::Gemm(GemmPoint { dtype, m, n, k, layout, contents });
                    let cases_of = |kernel: &KernelName| Case { kernel: kernel.clone(), point };
                    cases.extend(kernels.iter().map(cases_of));
                }
            }
        }
    }
    cases
}

/// Memory that kernels and libraries work in: OpenBLAS takes 128 MiB for its packed operands, and
/// retries without end where it gets none.
const WORKSPACE_MAX: Bytes = Bytes(160 << 20);

/// Memory beside operands and result: what is worked in, and the values that scaled elements stand
/// for.
pub fn beside(point: &GemmPoint) -> Bytes {
    let [m, n, k] = [point.m, point.n, point.k].map(u64::from);
    let values = match (point.dtype.scaling(), point.dtype.weights()) {
        (None, None) => 0,
        _ => (m + 2 * n) * k * size_of::<f32>() as u64,
    };
    WORKSPACE_MAX + Bytes(values)
}

/// Rows or columns up to which a product may be one of decoding: a token each for up to 256
/// sequences.
const DECODE_MAX: u32 = 256;

/// Copies of the operands together are this many times the last-level cache. A cache that replaces
/// lines at random and holds a share 1 / r of what is read in turn hits with the probability h that
/// solves h = exp(-r (1 - h)): below 1 % from r = 5 on.
const ROTATED: u64 = 5;

/// More copies than this are not made: operands so small are no weights of a model's layer, and
/// are measured in the caches, with the limit that holds there.
const COPIES_MAX: u64 = 64;

/// Copies of the operands that iterations take in turn. A product of few rows with a large matrix
/// reads that matrix once: repeated on the same one it would read it from a cache, and its rate
/// would say nothing of a model's layer, whose weights come from memory each time. One copy for
/// all other products.
pub fn copies(point: &GemmPoint, properties: &Properties) -> u32 {
    let all = Point::Gemm(*point).work().memory;
    let few = point.m.min(point.n);
    let (of_a, of_b) =
        (u64::from(point.m) * point.dtype.bits(), u64::from(point.n) * point.bits_of_b());
    let larger = of_a.max(of_b) * u64::from(point.k) / 8;
    if few > DECODE_MAX || larger * 2 < all.0 {
        return 1;
    }
    let wanted = (properties.last_level_cache() * ROTATED).0.div_ceil(all.0.max(1));
    if wanted > COPIES_MAX { 1 } else { wanted.max(2) as u32 }
}

/// A product made ready whose bits can be looked at.
pub(super) trait Product: Workload {
    /// C, and zeros behind it up to a multiple of [`LINE`] bytes.
    fn c(&self) -> &Buffer;

    /// A and B in the device's memory, and what should stand there.
    fn operands(&self) -> [(&Buffer, &[u8]); 2];

    /// Rows and columns of some C whose sums are wrong; `None` where elements have scales.
    fn wrong_sums(&self, c: &[u8]) -> Option<Where>;
}

/// Bytes that C is a multiple of.
pub(super) const LINE: u64 = 64;

/// Makes a case ready.
pub fn prepare<'r>(point: &GemmPoint, kernel: &KernelName, rank: Rank<'r>) -> Prepared<'r> {
    Ok(prepare_product(point, kernel, rank)?)
}

/// The same, for who looks at its bits.
pub(super) fn prepare_product<'r>(
    point: &GemmPoint,
    kernel: &KernelName,
    rank: Rank<'r>,
) -> Ready<'r> {
    match point.dtype {
        Dtype::F64 => ready(point, kernel, rank, plain::<f64>),
        Dtype::F32 => ready(point, kernel, rank, plain::<f32>),
        Dtype::Tf32 => ready(point, kernel, rank, plain::<Tf32>),
        Dtype::F16 => ready(point, kernel, rank, plain::<f16>),
        Dtype::Bf16 => ready(point, kernel, rank, plain::<bf16>),
        Dtype::Fp8 => ready(point, kernel, rank, plain::<E4m3>),
        Dtype::Int8 => ready(point, kernel, rank, plain::<i8>),
        other => match Format::of(other) {
            None if other.weights().is_some() => weights::prepare(point, kernel, rank),
            Some(format) if (point.k as usize).is_multiple_of(format.block) => {
                ready(point, kernel, rank, move |point| scaled(point, format))
            }
            Some(Format { block, .. }) => {
                let needs = format!("{other} has scales for whole blocks of {block} along k");
                Err(Unready::Unsupported(needs))
            }
            None => Err(Unready::Unsupported(format!("no kernel multiplies {other} matrices"))),
        },
    }
}

/// A prepared product, or the reason why there is none.
type Ready<'r> = Result<Box<dyn Product + 'r>, Unready>;

fn ready<'r, O: Element>(
    point: &GemmPoint,
    kernel: &KernelName,
    rank: Rank<'r>,
    make: impl Fn(&GemmPoint) -> Result<Made<O>, DeviceError>,
) -> Ready<'r> {
    Ok(Box::new(Gemm::new(point, kernel, rank, make)?))
}

/// Operands as the device gets them, and what comes out of them: the same for every kernel of a
/// point.
struct Made<O> {
    a: Vec<u8>,
    /// By columns where the element type or the point's layout wants it.
    b: Vec<u8>,
    /// Of A and B; nothing where elements have none.
    scales: [Vec<u8>; 2],
    /// See [`GemmParams::factor`].
    factor: f32,
    reference: Reference<O>,
    /// Makes the sums of rows and columns of A and B; none where elements have scales.
    sums: Option<SumsOf>,
}

/// Sums of operands and their shape.
type SumsOf = fn(&[u8], &[u8], [usize; 3]) -> Sums;

thread_local! {
    /// The point made last, until a case of another point is prepared: kernels of one point come
    /// one after the other, and to make a large one takes longer than to measure it.
    static LAST: RefCell<Option<(GemmPoint, Rc<dyn Any>)>> = const { RefCell::new(None) };
}

/// Gives back the operands of the point made last, unless they are those of this point: no other
/// case has its memory taken by them.
pub(super) fn keep_only(point: &Point) {
    let is_kept = LAST.with_borrow(|last| match (last, point) {
        (Some((of, _)), Point::Gemm(point)) => of == point,
        _ => false,
    });
    if !is_kept {
        LAST.set(None);
    }
}

/// Gives back the operands of the point made last.
pub(super) fn keep_none() {
    LAST.set(None);
}

/// What a point is made of: as it was made last, else anew.
fn made<O: Element>(
    point: &GemmPoint,
    make: impl Fn(&GemmPoint) -> Result<Made<O>, DeviceError>,
) -> Result<Rc<Made<O>>, DeviceError> {
    let last = LAST.with_borrow(|last| match last {
        Some((of, made)) if of == point => Rc::clone(made).downcast().ok(),
        _ => None,
    });
    if let Some(made) = last {
        return Ok(made);
    }
    // The one before is given back first: both may not fit.
    LAST.set(None);
    let made = Rc::new(make(point)?);
    LAST.set(Some((*point, Rc::clone(&made) as Rc<dyn Any>)));
    Ok(made)
}

fn shape(point: &GemmPoint) -> [usize; 3] {
    [point.m, point.n, point.k].map(|length| length as usize)
}

/// The same data for every kernel and run.
fn randomness(point: &GemmPoint) -> oorandom::Rand64 {
    oorandom::Rand64::new(u128::from(point.m) << 64 | u128::from(point.n))
}

/// A whole number from -4 to 4.
fn small(random: &mut oorandom::Rand64) -> i8 {
    random.rand_range(0..9) as i8 - 4
}

/// Elements by themselves.
fn plain<E: Element>(point: &GemmPoint) -> Result<Made<E::Output>, DeviceError> {
    let [m, n, k] = shape(point);
    let mut random = randomness(point);
    let mut draw = || match point.contents {
        Contents::Random => E::random(&mut random),
        Contents::Integers => E::whole(small(&mut random)),
        Contents::Zeros => E::whole(0),
    };
    let a = collected(m * k, (0..m * k).map(|_| draw()))?;
    let b = collected(k * n, (0..k * n).map(|_| draw()))?;
    let reference = Reference::new(&a, &b, [m, n, k], Roundoff::of::<E>(), &mut random);
    let b = if point.is_b_by_columns() { by_columns(&b, n)? } else { b };
    let bytes = |elements: &[E]| {
        let bytes: &[u8] = bytemuck::cast_slice(elements);
        collected(bytes.len(), bytes.iter().copied())
    };
    let sums: Option<SumsOf> = Some(match point.is_b_by_columns() {
        true => sums::of_operands::<E, true>,
        false => sums::of_operands::<E, false>,
    });
    let scales = [Vec::new(), Vec::new()];
    Ok(Made { a: bytes(&a)?, b: bytes(&b)?, scales, factor: 1.0, reference, sums })
}

/// Elements that share scales.
fn scaled(point: &GemmPoint, format: Format) -> Result<Made<bf16>, DeviceError> {
    let [m, n, k] = shape(point);
    let mut random = randomness(point);
    let mut draw = || match point.contents {
        Contents::Random => near_normal(&mut random) as f32,
        Contents::Integers => f32::from(small(&mut random)),
        Contents::Zeros => 0.0,
    };
    let choice = if point.contents.are_random() { Choice::Fitting } else { Choice::One };
    let mut operand = |lines: usize, side| {
        let values = collected(lines * k, (0..lines * k).map(|_| draw()))?;
        format.operand(values, k, side, choice)
    };
    let (a, b) = (operand(m, WhichOperand::A)?, operand(n, WhichOperand::B)?);
    // Nothing is published of how units add products of elements with scales: as 9.0 adds fp8.
    let roundoff = Roundoff { sum: E4M3_SUM_ROUNDOFF, output: BF16_ROUNDOFF };
    let values = by_columns(&b.values, k)?;
    let reference = Reference::new(&a.values, &values, [m, n, k], roundoff, &mut random);
    let factor = a.tensor_scale * b.tensor_scale;
    let reference = reference.times(f64::from(factor));
    let scales = [a.scales, b.scales];
    Ok(Made { a: a.elements, b: b.elements, scales, factor, reference, sums: None })
}

/// A product made ready.
struct Gemm<'r, O> {
    /// Of each copy of the operands; all have the same C.
    turns: Turns<'r, GemmParams>,
    c: Buffer,
    shape: [usize; 3],
    /// A, B and what scales they have.
    operands: Vec<Buffer>,
    made: Rc<Made<O>>,
}

impl<'r, O: Element> Gemm<'r, O> {
    fn new(
        point: &GemmPoint,
        kernel: &KernelName,
        rank: Rank<'r>,
        make: impl Fn(&GemmPoint) -> Result<Made<O>, DeviceError>,
    ) -> Result<Self, Unready> {
        let device = rank.device;
        let function = device.load(Operation::Gemm(point.dtype, point.layout), kernel)?;
        let dtype = Dtype::ALL.iter().position(|&dtype| dtype == point.dtype).unwrap_or(0) as u32;
        let GemmPoint { m, n, k, .. } = *point;
        // Before operands are made, which takes far longer than to be refused.
        let layout = point.layout as u32;
        let shape = GemmParams { m, n, k, dtype, layout, ..GemmParams::zeroed() };
        device.takes(&function, &shape.into())?;
        let made = made(point, make)?;
        let copies = u64::from(copies(point, device.properties()));
        let mut operands = Vec::new();
        // The address of the first copy, and how far the next one is.
        let mut place = |bytes: &[u8]| -> Result<[u64; 2], DeviceError> {
            if bytes.is_empty() {
                return Ok([0, 0]);
            }
            let apart = (bytes.len() as u64).next_multiple_of(PAGE);
            let buffer = device.allocate(Bytes(apart * copies))?;
            for copy in 0..copies {
                device.write(&buffer, Bytes(copy * apart), bytes)?;
            }
            let address = buffer.address;
            operands.push(buffer);
            Ok([address, apart])
        };
        let (a, b) = (place(&made.a)?, place(&made.b)?);
        let (scales_a, scales_b) = (place(&made.scales[0])?, place(&made.scales[1])?);
        let elements = u64::from(m) * u64::from(n);
        let size = (elements * size_of::<O>() as u64).next_multiple_of(LINE);
        let c = device.allocate(Bytes(size))?;
        let at = |[first, apart]: [u64; 2], copy: u64| first + copy * apart;
        let of_copy = |copy| GemmParams {
            a: at(a, copy),
            b: at(b, copy),
            c: c.address,
            scales_a: at(scales_a, copy),
            scales_b: at(scales_b, copy),
            factor: made.factor,
            ..shape
        };
        let params = (0..copies).map(of_copy).collect();
        let turns = Turns::new(device, function, params);
        let shape = self::shape(point);
        Ok(Gemm { turns, c, shape, operands, made })
    }
}

/// Copies of an operand begin at multiples of this many bytes: no kernel asks for more.
const PAGE: u64 = 4096;

/// A matrix of `columns` columns, column by column.
fn by_columns<E: Copy>(matrix: &[E], columns: usize) -> Result<Vec<E>, DeviceError> {
    let column = |at: usize| matrix[at..].iter().step_by(columns).copied();
    collected(matrix.len(), (0..columns).flat_map(column))
}

impl<O: Element> Workload for Gemm<'_, O> {
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        self.turns.enqueue(repeat)
    }

    fn copies(&self) -> u32 {
        self.turns.copies()
    }

    fn take_turns(&mut self, on: bool) {
        self.turns.take(on);
    }

    fn candidates(&self) -> Result<Vec<String>, DeviceError> {
        self.turns.candidates()
    }

    fn choose(&mut self, candidate: usize) -> Result<(), DeviceError> {
        self.turns.choose(candidate)
    }

    fn poison(&mut self) -> Result<(), DeviceError> {
        let poison = filled(O::POISON, self.made.reference.elements())?;
        self.turns.device.write(&self.c, Bytes(0), bytemuck::cast_slice(&poison))
    }

    fn verify(&mut self) -> Result<Check, DeviceError> {
        let mut output = filled(O::POISON, self.made.reference.elements())?;
        self.turns.device.read(&self.c, Bytes(0), bytemuck::cast_slice_mut(&mut output))?;
        Ok(self.made.reference.check(&output))
    }
}

impl<O: Element> Product for Gemm<'_, O> {
    fn c(&self) -> &Buffer {
        &self.c
    }

    fn operands(&self) -> [(&Buffer, &[u8]); 2] {
        [(&self.operands[0], &self.made.a), (&self.operands[1], &self.made.b)]
    }

    fn wrong_sums(&self, c: &[u8]) -> Option<Where> {
        let sums = self.made.sums?(&self.made.a, &self.made.b, self.shape);
        let elements = self.made.reference.elements() * size_of::<O>();
        let c: Vec<O> = bytemuck::pod_collect_to_vec(&c[..elements]);
        Some(sums.wrong(&c))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_come_one_after_the_other() {
        assert_eq!(by_columns(&[1i8, 2, 3, 4, 5, 6], 3), Ok(vec![1, 4, 2, 5, 3, 6]));
    }
}
