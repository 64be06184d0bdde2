//! One operation of a rank: what it sends, what it receives, and what becomes of it.

use crate::driver::Stream;
use half::{bf16, f16};
use std::sync::LazyLock;

/// Codes of this library (`ncclResult_t`).
pub const OK: i32 = 0;
pub const UNHANDLED_CUDA: i32 = 1;
pub const SYSTEM: i32 = 2;
pub const INVALID_ARGUMENT: i32 = 4;
pub const INVALID_USAGE: i32 = 5;
pub const IN_PROGRESS: i32 = 7;

/// An address that another thread may use: the driver's memory is the process's.
#[derive(Clone, Copy)]
pub struct At(pub usize);

/// Bytes for a rank.
#[derive(Clone)]
pub struct Send {
    pub to: usize,
    pub from: At,
    pub bytes: usize,
}

/// Bytes from a rank.
#[derive(Clone)]
pub struct Receive {
    pub from: usize,
    pub into: Target,
    pub bytes: usize,
}

/// Where bytes go.
#[derive(Clone)]
pub enum Target {
    /// Where they belong.
    Memory(At),
    /// Aside, to be reduced with the others'.
    Aside,
}

/// A reduction of what was received aside with what is here.
#[derive(Clone)]
pub struct Reduce {
    pub own: At,
    pub into: At,
    pub bytes: usize,
    pub data: i32,
    pub operation: i32,
}

/// What a rank copies for itself.
#[derive(Clone)]
pub struct Copy {
    pub from: At,
    pub into: At,
    pub bytes: usize,
}

/// All of it.
#[derive(Clone, Default)]
pub struct Job {
    /// The function that it was asked by, of a group the first.
    pub name: &'static str,
    /// Its element type.
    pub data: i32,
    pub sends: Vec<Send>,
    pub receives: Vec<Receive>,
    pub copies: Vec<Copy>,
    pub reduces: Vec<Reduce>,
    pub streams: Vec<Stream>,
    /// The operation's number.
    pub number: u64,
}

impl Job {
    /// Adds another operation of the same group.
    pub fn add(&mut self, mut other: Job) {
        self.sends.append(&mut other.sends);
        self.receives.append(&mut other.receives);
        self.copies.append(&mut other.copies);
        self.reduces.append(&mut other.reduces);
        self.streams.append(&mut other.streams);
    }

    /// Where the caller's buffers of it begin.
    pub fn addresses(&self) -> impl Iterator<Item = usize> {
        let received = self.receives.iter().filter_map(|receive| match receive.into {
            Target::Memory(at) => Some(at.0),
            Target::Aside => None,
        });
        let kept = self.copies.iter().flat_map(|copy| [copy.from.0, copy.into.0]);
        let reduced = self.reduces.iter().flat_map(|reduce| [reduce.own.0, reduce.into.0]);
        self.sends.iter().map(|send| send.from.0).chain(received).chain(kept).chain(reduced)
    }

    /// Bytes that it sends or receives, whichever are more: links go both ways at once.
    pub fn bytes(&self) -> usize {
        let sent: usize = self.sends.iter().map(|send| send.bytes).sum();
        sent.max(self.receives.iter().map(|receive| receive.bytes).sum())
    }

    /// The ranks that it exchanges bytes with.
    pub fn peers(&self) -> impl Iterator<Item = usize> {
        let sends = self.sends.iter().filter(|send| send.bytes > 0).map(|send| send.to);
        let receives = self.receives.iter().filter(|receive| receive.bytes > 0);
        sends.chain(receives.map(|receive| receive.from))
    }
}

/// Bytes of an element (`ncclDataType_t`).
pub fn width(data: i32) -> Option<usize> {
    Some(match data {
        0 | 1 | 10 | 11 => 1,
        6 | 9 => 2,
        2 | 3 | 7 => 4,
        4 | 5 | 8 => 8,
        _ => return None,
    })
}

/// Reduces buffers of one element type, in the order of ranks; what it knows is what fizeau uses.
pub fn reduce(parts: &[&[u8]], data: i32, operation: i32) -> Option<Vec<u8>> {
    macro_rules! of {
        ($type:ty) => {{
            let size = size_of::<$type>();
            let value = |bytes: &[u8], at: usize| {
                let bytes = &bytes[at * size..][..size];
                <$type>::from_le_bytes(bytes.try_into().expect("as long as it is"))
            };
            let mut result = Vec::with_capacity(parts[0].len());
            for at in 0..parts[0].len() / size {
                let mut all = parts.iter().map(|part| value(part, at));
                let first = all.next()?;
                let reduced = match operation {
                    0 => all.fold(first, |sum, next| sum + next),
                    2 => all.fold(first, |most, next| if next > most { next } else { most }),
                    3 => all.fold(first, |least, next| if next < least { next } else { least }),
                    _ => return None,
                };
                result.extend_from_slice(&reduced.to_le_bytes());
            }
            Some(result)
        }};
    }
    match data {
        2 => of!(i32),
        4 => of!(i64),
        5 => of!(u64),
        7 => of!(f32),
        8 => of!(f64),
        0 => {
            let sums = parts_summed(parts, 1, |bytes| f64::from(bytes[0] as i8), operation)?;
            Some(sums.iter().map(|&sum| (sum as i64) as u8).collect())
        }
        6 => {
            let value = |bytes: &[u8]| f16::from_le_bytes([bytes[0], bytes[1]]).to_f64();
            let sums = parts_summed(parts, 2, value, operation)?;
            Some(sums.iter().flat_map(|&sum| f16::from_f64(sum).to_le_bytes()).collect())
        }
        9 => {
            let value = |bytes: &[u8]| bf16::from_le_bytes([bytes[0], bytes[1]]).to_f64();
            let sums = parts_summed(parts, 2, value, operation)?;
            Some(sums.iter().flat_map(|&sum| bf16::from_f64(sum).to_le_bytes()).collect())
        }
        10 => {
            let sums = parts_summed(parts, 1, |bytes| of_e4m3(bytes[0]), operation)?;
            Some(sums.iter().map(|&sum| to_e4m3(sum)).collect())
        }
        _ => None,
    }
}

/// The sums of each element's values, in the order of ranks.
fn parts_summed(
    parts: &[&[u8]],
    width: usize,
    value: impl Fn(&[u8]) -> f64,
    operation: i32,
) -> Option<Vec<f64>> {
    let sum = |at| parts.iter().map(|part| value(&part[at * width..][..width])).sum();
    (operation == 0).then(|| (0..parts[0].len() / width).map(sum).collect())
}

/// A number of 4 exponent and 3 fraction bits (OCP E4M3), without its sign: sums of ours are not
/// negative.
fn of_e4m3(bits: u8) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 3 & 15), f64::from(bits & 7));
    match (bits & 0x7f, exponent) {
        (0x7f, _) => f64::NAN,
        (_, 0) => fraction * 2f64.powi(-9),
        _ => (8.0 + fraction) * 2f64.powi(exponent - 10),
    }
}

/// The largest such number that is not above a value: the nearest to one of them is itself.
fn to_e4m3(value: f64) -> u8 {
    static VALUES: LazyLock<Vec<f64>> = LazyLock::new(|| (0..0x7f).map(of_e4m3).collect());
    if value.is_nan() {
        return 0x7f;
    }
    VALUES.partition_point(|&known| known <= value).saturating_sub(1) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_reduced_in_their_type() {
        let bytes = |values: &[f32]| -> Vec<u8> {
            values.iter().flat_map(|value| value.to_le_bytes()).collect()
        };
        let parts = [bytes(&[1.0, -2.0]), bytes(&[0.5, 4.0])];
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        assert_eq!(reduce(&parts, 7, 0), Some(bytes(&[1.5, 2.0])));
        assert_eq!(reduce(&parts, 7, 2), Some(bytes(&[1.0, 4.0])));
        assert_eq!(reduce(&parts, 7, 1), None);
        let half = |value: f32| ((value.to_bits() >> 16) as u16).to_le_bytes().to_vec();
        let (one, two) = (half(1.0), half(2.0));
        assert_eq!(reduce(&[&one, &two], 9, 0), Some(half(3.0)));
        let half = |value: f32| f16::from_f32(value).to_le_bytes().to_vec();
        let (one, two) = (half(1.0), half(2.0));
        assert_eq!(reduce(&[&one, &two], 6, 0), Some(half(3.0)));
        assert_eq!(reduce(&[&[100u8][..], &[0xff]], 0, 0), Some(vec![99]));
        let (two, one) = ([0x40u8], [0x38u8]);
        assert_eq!(reduce(&[&two, &two, &one], 10, 0), Some(vec![0x4a]));
        assert_eq!((of_e4m3(0x7e), to_e4m3(9000.0), to_e4m3(448.0)), (448.0, 0x7e, 0x7e));
    }
}
