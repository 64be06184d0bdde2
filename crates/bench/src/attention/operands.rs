//! Random Q, K and V, and where their tokens stand.

use crate::element::E4m3;
use bytemuck::Pod;
use fizeau_device::{Buffer, Device, DeviceError};
use fizeau_domain::{
    case::{AttentionKind, AttentionPoint, Sequence},
    dtype::Dtype,
    units::Bytes,
};
use half::{bf16, f16};

/// Elements after which an operand repeats, where it is longer: the largest prime below 2^22, so
/// that no two tokens that a kernel could take for each other are equal.
const PERIOD: usize = 4_194_301;

/// An element type, with what data and checks need to know of it.
pub(crate) trait Element: Pod {
    fn of(value: f64) -> Self;
    fn value(self) -> f64;
}

/// One that an output may have.
pub(crate) trait Output: Element {
    /// What stands in O before it is written.
    const POISON: Self;
}

macro_rules! element {
    ($type:ty, $of:expr, $value:expr) => {
        impl Element for $type {
            fn of(value: f64) -> $type {
                $of(value)
            }
            fn value(self) -> f64 {
                $value(self)
            }
        }
    };
}

element!(f32, |value| value as f32, f64::from);
element!(f16, f16::from_f64, f16::to_f64);
element!(bf16, bf16::from_f64, bf16::to_f64);
element!(E4m3, |value: f64| E4m3::from_f64(value.clamp(-448.0, 448.0)), E4m3::to_f64);

impl Output for f32 {
    const POISON: f32 = f32::NAN;
}

impl Output for f16 {
    const POISON: f16 = f16::NAN;
}

impl Output for bf16 {
    const POISON: bf16 = bf16::NAN;
}

/// What rounding may do, by element type: of a weight before it is multiplied, of each sum, and of
/// the output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Roundoff {
    pub weights: f64,
    /// A weight is off by as much at least, relative to the largest: half the smallest number.
    pub weights_least: f64,
    pub sums: f64,
    /// Whether what a sum's rounding is relative to is its largest addend or partial sum, and not
    /// all addends together: matrix units of 8-bit floats align addends to the largest and cut
    /// them.
    pub is_aligned: bool,
    pub output: f64,
}

impl Roundoff {
    pub fn of(point: &AttentionPoint) -> Roundoff {
        let sums = f64::from(f32::EPSILON) / 2.0;
        let plain = Roundoff {
            weights: 0.0,
            weights_least: f64::from(f32::MIN_POSITIVE),
            sums,
            is_aligned: false,
            output: 0.0,
        };
        let (f16, bf16, e4m3) = (1.0 / 2048.0, 1.0 / 256.0, 1.0 / 16.0);
        match (point.dtype, point.attention) {
            (Dtype::F16, _) => {
                Roundoff { weights: f16, weights_least: 2f64.powi(-25), output: f16, ..plain }
            }
            // Weights are kept 2^8 times as large; the smallest number is 2^-9. Sums of products of
            // 8-bit floats keep 14 binary places; see `bench::element`.
            (Dtype::Fp8, AttentionKind::Prefill) => Roundoff {
                weights: e4m3,
                weights_least: 2f64.powi(-18),
                sums: 1.0 / 8192.0,
                is_aligned: true,
                output: bf16,
            },
            // As bfloat16, as the 16-bit floats that 8-bit ones become, or as sums of two 8-bit
            // ones, 2^8 times as large, of which the smallest is 2^-9.
            (Dtype::Fp8, _) => {
                Roundoff { weights: bf16, weights_least: 2f64.powi(-18), output: bf16, ..plain }
            }
            (Dtype::Bf16, _) => Roundoff { weights: bf16, output: bf16, ..plain },
            _ => plain,
        }
    }
}

/// Near normal with a variance of one (Irwin and Hall: the sum of four uniform values).
fn near_normal(random: &mut oorandom::Rand64) -> f64 {
    let halves = |bits: u64| (bits >> 32) + (bits & u64::from(u32::MAX));
    let sum = halves(random.rand_u64()) + halves(random.rand_u64());
    (sum as f64 / (1u64 << 32) as f64 - 2.0) * 3f64.sqrt()
}

/// An operand: its elements, or the first of them, which then repeat.
pub(crate) struct Operand<E>(Vec<E>);

impl<E: Element> Operand<E> {
    /// Near normal, `spread` times as large.
    pub fn random(length: u64, spread: f64, random: &mut oorandom::Rand64) -> Operand<E> {
        let made = length.min(PERIOD as u64);
        Operand((0..made).map(|_| E::of(near_normal(random) * spread)).collect())
    }

    /// These, which repeat.
    pub fn given(elements: Vec<E>) -> Operand<E> {
        Operand(elements)
    }

    /// The values of some elements, one after the other.
    pub fn values(&self, from: u64, count: usize) -> impl Iterator<Item = f64> + Clone + '_ {
        let start = (from % self.0.len() as u64) as usize;
        self.0[start..]
            .iter()
            .chain(self.0.iter().cycle())
            .take(count)
            .map(|element| element.value())
    }

    /// The largest magnitude.
    pub fn largest(&self) -> f64 {
        self.0.iter().map(|element| element.value().abs()).fold(0.0, f64::max)
    }

    /// Memory of the device with `count` elements.
    pub fn place(&self, device: &dyn Device, length: u64) -> Result<Buffer, DeviceError> {
        let buffer = device.allocate(Bytes(length * size_of::<E>() as u64))?;
        self.replace(device, &buffer)?;
        Ok(buffer)
    }

    /// Fills memory of the device.
    pub fn replace(&self, device: &dyn Device, buffer: &Buffer) -> Result<(), DeviceError> {
        let size = size_of::<E>() as u64;
        let length = buffer.size.0 / size;
        for from in (0..length).step_by(self.0.len()) {
            let count = (length - from).min(self.0.len() as u64) as usize;
            device.write(buffer, Bytes(from * size), bytemuck::cast_slice(&self.0[..count]))?;
        }
        Ok(())
    }
}

/// Where tokens stand, and how many there are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Places {
    pub sequences: Vec<Sequence>,
    /// The number of each page, in the order of tokens; none: in one piece.
    pub pages: Option<Vec<u32>>,
    pub page: u32,
    /// Of Q and O.
    pub query_tokens: u32,
    /// That K and V have room for.
    pub key_tokens: u32,
}

impl Places {
    /// Pages stand in no order.
    pub fn new(point: &AttentionPoint) -> Places {
        let sequences = point.sequences();
        let page = point.page.unwrap_or(0);
        let last = sequences.last().copied().unwrap_or_default();
        let key_tokens = (last.key_first + last.keys).next_multiple_of(page.max(1));
        let pages = (page > 0).then(|| {
            let mut pages: Vec<u32> = (0..key_tokens / page).collect();
            let mut random = oorandom::Rand64::new(u128::from(key_tokens));
            // Fisher and Yates.
            for at in (1..pages.len()).rev() {
                pages.swap(at, random.rand_range(0..at as u64 + 1) as usize);
            }
            pages
        });
        let query_tokens = last.query_first + last.queries;
        Places { sequences, pages, page, query_tokens, key_tokens }
    }

    /// Where a key of a sequence stands.
    pub fn key(&self, sequence: &Sequence, key: u32) -> u64 {
        let at = sequence.key_first + key;
        u64::from(match &self.pages {
            Some(pages) => pages[(at / self.page) as usize] * self.page + at % self.page,
            None => at,
        })
    }
}

/// Q, K and V in the layouts of [`fizeau_domain::kernel::AttentionParams`].
pub(crate) struct Operands<Q, C> {
    pub q: Operand<Q>,
    pub k: Operand<C>,
    /// None where they are a part of the keys.
    pub v: Option<Operand<C>>,
    pub places: Places,
}

/// Elements of Q, K, V and O.
pub(crate) fn lengths(point: &AttentionPoint, places: &Places) -> [u64; 4] {
    let [heads, kv_heads, dim_qk, dim_v] =
        [point.heads, point.kv_heads, point.dim_qk, point.dim_v].map(u64::from);
    let (queries, keys) = (u64::from(places.query_tokens), u64::from(places.key_tokens));
    [
        queries * heads * dim_qk,
        keys * kv_heads * dim_qk,
        keys * kv_heads * dim_v,
        queries * heads * dim_v,
    ]
}

impl<Q: Element, C: Element> Operands<Q, C> {
    /// Near normal; queries `spread` times as large.
    pub fn random(point: &AttentionPoint, spread: f64) -> Operands<Q, C> {
        let places = Places::new(point);
        let seed = u128::from(point.keys) << 64 | u128::from(point.queries);
        let mut random = oorandom::Rand64::new(seed);
        let [q, k, v, _] = lengths(point, &places);
        let q = Operand::random(q, spread, &mut random);
        let k = Operand::random(k, 1.0, &mut random);
        let v = match point.attention {
            AttentionKind::Mla => None,
            AttentionKind::Prefill | AttentionKind::Decode => {
                Some(Operand::random(v, 1.0, &mut random))
            }
        };
        Operands { q, k, v, places }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_repeat_where_they_are_long() {
        let operand = Operand::given(vec![1f32, 2.0, 3.0]);
        assert_eq!(operand.values(4, 5).collect::<Vec<_>>(), [2.0, 3.0, 1.0, 2.0, 3.0]);
        assert_eq!(operand.largest(), 3.0);
    }
}
