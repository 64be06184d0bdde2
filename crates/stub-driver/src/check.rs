//! The check of what ranks received, a second time: what they send is a function of rank and place.

use crate::{kernels::Parameters, memory::Memory};

/// An element type's bytes, the integers that it holds (0: fractions), and whether sums grow.
type Kind = (u64, u64, bool);

/// The element type of an entry.
pub fn kind(name: &str) -> Option<Kind> {
    Some(match name.strip_prefix("collective_check_")? {
        "f64" => (8, 0, true),
        "f32" => (4, 0, true),
        "bf16" => (2, 256, true),
        "f16" => (2, 2048, true),
        "int8" => (1, 127, false),
        "fp8" => (1, 16, false),
        _ => return None,
    })
}

/// The value of an element's bytes.
fn value(name: &str, bytes: &[u8]) -> Option<f64> {
    // Sign, exponent's bits and its offset, mantissa's bits.
    let float = |bits: u32, exponents: u32, offset: i32, mantissas: u32| {
        let exponent = (bits >> mantissas & ((1 << exponents) - 1)) as i32;
        let mantissa = f64::from(bits & ((1 << mantissas) - 1)) / f64::from(1 << mantissas);
        let sign = if bits >> (exponents + mantissas) & 1 == 1 { -1.0 } else { 1.0 };
        sign * match exponent {
            0 => mantissa * f64::from(1 - offset).exp2(),
            _ => (1.0 + mantissa) * f64::from(exponent - offset).exp2(),
        }
    };
    let infinite = |bits: u32, exponents: u32, mantissas: u32| {
        let all = (1 << exponents) - 1;
        (bits >> mantissas & all == all).then(|| match bits & ((1 << mantissas) - 1) {
            0 => f64::INFINITY,
            _ => f64::NAN,
        })
    };
    Some(match name.strip_prefix("collective_check_")? {
        "f64" => f64::from_le_bytes(bytes.try_into().ok()?),
        "f32" => f32::from_le_bytes(bytes.try_into().ok()?).into(),
        "bf16" => {
            f32::from_bits(u32::from(u16::from_le_bytes(bytes.try_into().ok()?)) << 16).into()
        }
        "f16" => {
            let bits = u16::from_le_bytes(bytes.try_into().ok()?).into();
            infinite(bits, 5, 10).unwrap_or_else(|| float(bits, 5, 15, 10))
        }
        "int8" => f64::from(bytes[0] as i8),
        _ if bytes[0] & 0x7f == 0x7f => f64::NAN,
        _ => float(bytes[0].into(), 4, 7, 3),
    })
}

/// What a rank sends at a place.
fn sent(rank: u64, at: u64, terms: u64, exact: u64, is_narrow: bool) -> f64 {
    let mut bits = (rank << 48 | at).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    let random = bits >> 32;
    match exact.checked_div(terms) {
        _ if exact == 0 => {
            let value = (bits >> 40) as f64 / f64::from(1 << 24) + 0.5;
            if is_narrow { f64::from(value as f32) } else { value }
        }
        Some(0) | None => f64::from(u8::from((rank + at) % terms < exact)),
        Some(most @ 1..4) => (random % (most + 1)) as f64,
        Some(most) => (1 + random % most) as f64,
    }
}

/// Values, where each block leaves how many are wrong and by how much, elements, a slice, the place
/// before, the first peer, ranks of a sum, whether it has grown, tolerance.
pub fn run(name: &str, params: Parameters<'_>, blocks: u64, memory: &mut Memory) -> Option<f64> {
    let (bytes, exact, grows) = kind(name)?;
    let params = params.sized(80)?;
    let word = |at: usize| params.u64(8 * at);
    let (values, wrong_at, error_at, length) = (word(0)?, word(1)?, word(2)?, word(3)?);
    let (slice, before, peer, ranks) = (word(4)?, word(5)?, word(6)?, word(7)?);
    let (grown, tolerance) = (word(8)? != 0, f64::from_bits(word(9)?));
    let all = memory.load::<u8>(values, length * bytes)?;
    let (mut wrong, mut largest) = (0u64, 0.0f64);
    for (at, element) in (0..length).zip(all.chunks_exact(bytes as usize)) {
        let received = value(name, element)?;
        let error = if ranks == 0 {
            let copied = sent(peer + at / slice, before + at % slice, 1, exact, bytes == 4);
            f64::from(u8::from(received != copied))
        } else {
            let term = |rank| sent(rank, before + at, ranks, exact, bytes == 4);
            let sum: f64 = (0..ranks).map(term).sum();
            let has_grown = grown && (received >= sum || !grows);
            if has_grown || received == sum { 0.0 } else { (received - sum).abs() / sum }
        };
        wrong += u64::from(error.is_nan() || error > tolerance);
        largest = largest.max(if error.is_nan() { 1e308 } else { error.min(1e308) });
    }
    for block in 0..blocks {
        // All by the first block, as far as anybody can tell.
        let is_first = block == 0;
        memory.store(wrong_at + 64 * block, &[if is_first { wrong } else { 0 }])?;
        memory.store(error_at + 64 * block, &[if is_first { largest } else { 0.0 }])?;
    }
    // Made up.
    Some(2_000.0 + (length * ranks.max(1)) as f64)
}
