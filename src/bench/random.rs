//! Random operands. The same seed gives the same data on every machine.

/// Uniform in [-1, 1), by a counter-based generator (SplitMix64, Steele et al. 2014): element `at`
/// can be computed again by itself, so that a reference needs no copy of an array.
pub fn uniform(seed: u64, at: u64) -> f64 {
    // 53 bits of mantissa over [0, 2), less one.
    (bits(seed, at) >> 11) as f64 * (2.0 / (1u64 << 53) as f64) - 1.0
}

/// 64 random bits.
pub fn bits(seed: u64, at: u64) -> u64 {
    let mut z = (seed << 40).wrapping_add(at.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
