//! The bits that kernels of `sdc/*` agree on with the program: `kernels/sdc/portable.cu` has the
//! same for GPUs.

use crate::case::MemoryPattern;

/// Hashes that a tally has room for; products with any other hash are counted together.
pub const TALLY_ENTRIES: u64 = 8;

/// Words before the first hash of a tally: products, hashes known, others, and one that is unused.
pub const TALLY_HEAD: usize = 4;

/// Words of one hash of a tally: the hash, how many products had it, which was the first, and one
/// that is unused.
pub const TALLY_ENTRY: usize = 4;

/// Words of a whole tally.
pub const TALLY_WORDS: usize = TALLY_HEAD + TALLY_ENTRY * TALLY_ENTRIES as usize;

/// The end of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
/// 2014): a bijection, so that two words that differ stay different.
pub fn mixed(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// What a word at a place adds to a hash. One word that changes always changes the hash, since this
/// is a bijection of the word; several that change leave it as it was with a probability of 2^-64.
pub fn hashed(word: u64, at: u64) -> u64 {
    mixed(word.wrapping_add(at.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// The hash of some words, of which the first is at a place. Hashes of parts add up to that of the
/// whole, in any order.
pub fn hash_of(words: &[u64], first: u64) -> u64 {
    let places = (0..).map(|at: u64| first.wrapping_add(at));
    words.iter().zip(places).fold(0, |sum: u64, (&word, at)| sum.wrapping_add(hashed(word, at)))
}

/// A pattern's number in [`super::PatternParams`].
pub fn number(pattern: MemoryPattern) -> u32 {
    match pattern {
        MemoryPattern::Walking => 1,
        MemoryPattern::Address => 2,
        MemoryPattern::Random => 3,
        MemoryPattern::Moving => 4,
    }
}

/// The word that a pattern has at a place in a round. Of [`MemoryPattern::Moving`] every second
/// round is the inversion of the one before.
pub fn word_of(pattern: MemoryPattern, round: u64, at: u64) -> u64 {
    let inverted = |word: u64, is_inverted: bool| if is_inverted { !word } else { word };
    match pattern {
        MemoryPattern::Walking => inverted(1 << (round.wrapping_add(at) & 63), round >> 6 & 1 == 1),
        MemoryPattern::Address => inverted(at.wrapping_mul(8), round & 1 == 1),
        MemoryPattern::Random => hashed(round, at),
        MemoryPattern::Moving => inverted(mixed((round >> 1) + 1), round & 1 == 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_and_every_place_changes_the_hash() {
        let words: Vec<u64> = (0..200).map(|at| hashed(7, at)).collect();
        let right = hash_of(&words, 0);
        for at in 0..words.len() {
            for bit in 0..64 {
                let mut other = words.clone();
                other[at] ^= 1 << bit;
                assert_ne!(hash_of(&other, 0), right, "bit {bit} of word {at}");
            }
        }
        let mut exchanged = words.clone();
        exchanged.swap(3, 90);
        assert_ne!(hash_of(&exchanged, 0), right);
        let (one, two) = words.split_at(77);
        assert_eq!(hash_of(two, 77).wrapping_add(hash_of(one, 0)), right);
        // kernels/sdc/portable.cu leaves the same number of the same words (tests/kernel_model).
        assert_eq!(hash_of(&[1, 2, 3, u64::MAX], 0), 0x5adc_1010_30f8_dad6);
    }

    #[test]
    fn patterns_are_others_each_round_and_set_and_clear_every_bit() {
        for pattern in MemoryPattern::ALL {
            let rounds = if pattern == MemoryPattern::Walking { 128 } else { 2 };
            let (mut set, mut cleared) = (0, 0);
            for round in 0..rounds {
                let next = word_of(pattern, round + 1, 5);
                assert_ne!(word_of(pattern, round, 5), next, "{pattern}, round {round}");
                for at in 0..1 << 16 {
                    let word = word_of(pattern, round, at);
                    (set, cleared) = (set | word, cleared | !word);
                }
            }
            assert_eq!((set, cleared), (u64::MAX, u64::MAX), "{pattern}");
        }
        let moving = |round| word_of(MemoryPattern::Moving, round, 1);
        assert_eq!(moving(8), !moving(9));
    }
}
