//! Points of sparse latent attention (DSA: "DeepSeek Sparse Attention", of DeepSeek-V3.2 and
//! GLM-5.2), in which a query attends over the tokens that an indexer selected for it.

use super::Work;
use crate::units::{Bytes, Flops};
use std::fmt;

/// One step of sparse latent attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SparsePoint {
    /// Which tokens are selected: the greatest of their logits.
    TopK(SparseTopK),
    /// Attention over the tokens that were selected.
    Decode(SparseDecode),
}

/// The steps, as kernels are listed for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sparse {
    /// Which tokens are selected: the greatest of their logits.
    TopK,
    /// Attention over the tokens that were selected.
    Decode,
}

named!(Sparse { TopK => "top_k", Decode => "decode" });

/// The greatest of some numbers in `f32`: of each row of logits, one for each token of a context,
/// the places of those that are wanted. Of equal ones the first are taken, so that the set is
/// exact; it is written in any order. No logit is a negative zero or not a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SparseTopK {
    /// Rows: queries.
    pub rows: u32,
    /// Numbers of a row.
    pub context: u32,
    /// Places that are wanted of a row.
    pub selected: u32,
}

impl SparseTopK {
    /// Bytes that one iteration writes: a place of 4 bytes for each number that is wanted.
    pub fn written(&self) -> Bytes {
        Bytes(4 * u64::from(self.rows) * u64::from(self.selected))
    }

    /// Every logit read once.
    fn work(&self) -> Work {
        let logits = Bytes(4 * u64::from(self.rows) * u64::from(self.context));
        Work { memory: logits + self.written(), ..Work::default() }
    }
}

/// One query token of each of some sequences, whose heads all attend over the same selected tokens
/// of the sequence's context. A token of the cache is a row of 656 bytes: a latent of 512 8-bit
/// floats, an `f32` scale for each 128 of them, and 64 elements of RoPE in bf16. A key is the
/// dequantised latent and the elements of RoPE, a value is the dequantised latent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SparseDecode {
    /// Sequences.
    pub batch: u32,
    /// Query heads of a sequence.
    pub heads: u32,
    /// Tokens that a sequence attends over, no two of them the same.
    pub selected: u32,
    /// Tokens of a sequence's context, of which they are selected.
    pub context: u32,
}

impl SparseDecode {
    /// Elements of a latent.
    pub const LATENT: u32 = 512;
    /// Elements of a latent that share a scale.
    pub const SCALED: u32 = 128;
    /// Elements of RoPE.
    pub const ROPE: u32 = 64;
    /// Elements of a query and a key.
    pub const KEY: u32 = Self::LATENT + Self::ROPE;
    /// Bytes of a token of the cache.
    pub const ROW: u32 = Self::LATENT + 4 * (Self::LATENT / Self::SCALED) + 2 * Self::ROPE;

    /// Bytes that one iteration writes: an output of bf16 for each head.
    pub fn written(&self) -> Bytes {
        Bytes(2 * u64::from(self.batch) * u64::from(self.heads) * u64::from(Self::LATENT))
    }

    /// Bytes of all sequences' tokens.
    pub fn cache(&self) -> Bytes {
        Bytes(u64::from(self.batch) * u64::from(self.context) * u64::from(Self::ROW))
    }

    /// 2 (576 + 512) operations and an exponential for each head and selected token; selected rows
    /// and their numbers read once for all heads, queries read once, outputs written once.
    fn work(&self) -> Work {
        let [batch, heads, selected] = [self.batch, self.heads, self.selected].map(u64::from);
        let rows = batch * selected * u64::from(Self::ROW + 4);
        let queries = 2 * batch * heads * u64::from(Self::KEY);
        let pairs = (batch * heads) as f64 * selected as f64;
        Work {
            memory: Bytes(rows + queries) + self.written(),
            flops: Flops(2.0 * pairs * f64::from(Self::KEY + Self::LATENT)),
            exps: pairs,
            ..Work::default()
        }
    }
}

impl SparsePoint {
    /// Which step.
    pub fn step(&self) -> Sparse {
        match self {
            SparsePoint::TopK(_) => Sparse::TopK,
            SparsePoint::Decode(_) => Sparse::Decode,
        }
    }

    /// Bytes that one iteration has to write.
    pub fn written(&self) -> Bytes {
        match self {
            SparsePoint::TopK(point) => point.written(),
            SparsePoint::Decode(point) => point.written(),
        }
    }

    /// What one iteration must move and compute.
    pub fn work(&self) -> Work {
        match self {
            SparsePoint::TopK(point) => point.work(),
            SparsePoint::Decode(point) => point.work(),
        }
    }
}

impl fmt::Display for SparsePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.step())?;
        match self {
            SparsePoint::TopK(SparseTopK { rows, context, selected }) => {
                write!(f, "{rows}/{selected}of{context}")
            }
            SparsePoint::Decode(SparseDecode { batch, heads, selected, context }) => {
                write!(f, "{batch}x{heads}/{selected}of{context}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_are_read_once() {
        let point = SparsePoint::TopK(SparseTopK { rows: 3, context: 20, selected: 7 });
        assert_eq!(point.to_string(), "top_k/3/7of20");
        assert_eq!(point.work().memory, Bytes(3 * 20 * 4) + point.written());
        assert_eq!(point.written(), Bytes(3 * 7 * 4));
    }

    #[test]
    fn rows_are_read_once_for_all_heads() {
        assert_eq!(SparseDecode::ROW, 656);
        let decode = SparseDecode { batch: 3, heads: 16, selected: 7, context: 20 };
        let point = SparsePoint::Decode(decode);
        assert_eq!(point.to_string(), "decode/3x16/7of20");
        let written = 3 * 16 * 512 * 2;
        assert_eq!(point.written(), Bytes(written));
        let work = point.work();
        assert_eq!(work.memory, Bytes(3 * 7 * 660 + 3 * 16 * 576 * 2 + written));
        let pairs = f64::from(3 * 16 * 7);
        assert_eq!((work.flops, work.exps), (Flops(pairs * 2.0 * 1088.0), pairs));
        assert_eq!(decode.cache(), Bytes(3 * 20 * 656));
    }
}
