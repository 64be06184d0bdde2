//! Tokens of a cache of latents: as the bytes that kernels read, and as the values they stand for.

use crate::{
    attention::operands::Operand,
    element::{E4m3, near_normal},
};
use fizeau_domain::case::SparseDecode;
use half::bf16;
use std::array::from_fn;

/// Tokens after which random ones repeat: a prime, so that no wrong row, stride or page finds its
/// like.
const PERIOD: usize = 1021;

const LATENT: usize = SparseDecode::LATENT as usize;
const SCALED: usize = SparseDecode::SCALED as usize;
const KEY: usize = SparseDecode::KEY as usize;
#[cfg(test)]
const ROW: usize = SparseDecode::ROW as usize;

/// The largest 8-bit float.
const MOST: f32 = 448.0;

/// Some tokens, which a cache repeats.
pub(super) struct Tokens {
    /// As many as [`SparseDecode::ROW`] of each.
    pub bytes: Vec<u8>,
    /// What they stand for: [`KEY`] values of each.
    pub values: Vec<f32>,
}

impl Tokens {
    /// Near normal. Blocks of a latent are of different sizes, and scaled so that the largest
    /// element of each is the largest 8-bit float.
    pub fn random(random: &mut oorandom::Rand64) -> Tokens {
        let mut tokens = Tokens::none();
        for _ in 0..PERIOD {
            let mut elements = [0f32; KEY];
            for block in elements.chunks_mut(SCALED) {
                let size = 0.5 + random.rand_float();
                block.iter_mut().for_each(|one| *one = (near_normal(random) * size) as f32);
            }
            let scale = |block: usize| {
                let block = &elements[block * SCALED..][..SCALED];
                block.iter().fold(0f32, |most, one| most.max(one.abs())) / MOST
            };
            tokens.push(&elements, from_fn(scale));
        }
        tokens
    }

    /// These values, small whole numbers, by scales that are drawn for each block: powers of two,
    /// by which they are left exactly.
    pub fn exact(values: &[f64], random: &mut oorandom::Rand64) -> Tokens {
        let mut tokens = Tokens::none();
        for token in values.chunks_exact(KEY) {
            let elements: Vec<f32> = token.iter().map(|&value| value as f32).collect();
            let mut scale = || [0.5, 1.0, 2.0, 4.0][(random.rand_u64() >> 62) as usize];
            tokens.push(&elements, from_fn(|_| scale()));
        }
        tokens
    }

    fn none() -> Tokens {
        Tokens { bytes: Vec::new(), values: Vec::new() }
    }

    fn push(&mut self, elements: &[f32], scales: [f32; LATENT / SCALED]) {
        let (latent, rope) = elements.split_at(LATENT);
        let rope = rope.iter().map(|&element| bf16::from_f32(element));
        for (block, scale) in latent.chunks(SCALED).zip(scales) {
            for &element in block {
                let scaled = f64::from(element) / f64::from(scale);
                let code = E4m3::from_f64(scaled.clamp(-f64::from(MOST), f64::from(MOST)));
                self.bytes.push(code.bits());
                self.values.push(code.to_f64() as f32 * scale);
            }
        }
        scales.iter().for_each(|scale| self.bytes.extend(scale.to_le_bytes()));
        for element in rope {
            self.bytes.extend(element.to_bits().to_le_bytes());
            self.values.push(element.to_f32());
        }
    }

    /// What they stand for, as keys whose first elements are the values.
    pub fn keys(&self) -> Operand<f32> {
        Operand::given(self.values.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_exact_stays_so() {
        let mut random = oorandom::Rand64::new(3);
        let mut values = [-2.0, -1.0, 1.0, 2.0].repeat(KEY / 2);
        values[KEY - 1] = -256.0;
        let tokens = Tokens::exact(&values, &mut random);
        assert_eq!(tokens.bytes.len(), 2 * ROW);
        assert!(tokens.values.iter().zip(&values).all(|(got, wanted)| f64::from(*got) == *wanted));
    }
}
