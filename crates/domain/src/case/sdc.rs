//! Silent data corruption (SDC): work that leaves the same bits each time, repeated and compared
//! bit by bit.

use super::compact;
use crate::{dtype::Dtype, units::Bytes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What is repeated and compared. One iteration of a case is this many rounds of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SdcPoint {
    /// The same matrix product again and again, by a kernel whose sums have one order.
    Product {
        /// Element type of A and B.
        dtype: Dtype,
        /// Rows of the output.
        m: u32,
        /// Columns of the output.
        n: u32,
        /// The dimension summed over.
        k: u32,
        /// Products of one iteration.
        rounds: u32,
    },
    /// Memory that is written with a pattern and read back.
    Memory {
        /// Which pattern.
        pattern: MemoryPattern,
        /// How much memory.
        size: Bytes,
        /// How often in one iteration.
        rounds: u32,
    },
    /// Copies from the host to the device, back, and to the device again.
    Copy {
        /// Bytes of one copy.
        size: Bytes,
        /// How often in one iteration.
        rounds: u32,
    },
    /// The same two all_reduces in turn, of elements whose sums every order of additions leaves
    /// exactly.
    AllReduce {
        /// Element type.
        dtype: Dtype,
        /// Bytes of one rank's message.
        size: Bytes,
        /// How many ranks.
        ranks: u32,
        /// How often in one iteration.
        rounds: u32,
    },
}

/// What memory is filled with. The classes of patterns are those of memory tests (van de Goor,
/// "Testing Semiconductor Memories", 1991; memtest86).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryPattern {
    /// One bit of each word, another one each round; after 64 rounds all bits but one.
    Walking,
    /// Each word's own place; every second round inverted.
    Address,
    /// Random words, others each round.
    Random,
    /// Moving inversions: a random word everywhere is inverted from the first word to the last,
    /// and back from the last to the first.
    Moving,
}

impl SdcPoint {
    /// Rounds of one iteration.
    pub fn rounds(&self) -> u32 {
        match self {
            SdcPoint::Product { rounds, .. }
            | SdcPoint::Memory { rounds, .. }
            | SdcPoint::Copy { rounds, .. }
            | SdcPoint::AllReduce { rounds, .. } => *rounds,
        }
    }

    /// What a rate of corruption is told for: `product`, `word` (of 8 bytes, each time it is read
    /// back), `copy`, `all_reduce` (what one rank received).
    pub fn unit(&self) -> &'static str {
        match self {
            SdcPoint::Product { .. } => "product",
            SdcPoint::Memory { .. } => "word",
            SdcPoint::Copy { .. } => "copy",
            SdcPoint::AllReduce { .. } => "all_reduce",
        }
    }
}

impl fmt::Display for SdcPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SdcPoint::Product { dtype, m, n, k, rounds } => {
                write!(f, "product/{dtype}/{m}x{n}x{k}/{rounds}r")
            }
            SdcPoint::Memory { pattern, size, rounds } => {
                write!(f, "memory/{pattern}/{}/{rounds}r", compact(*size))
            }
            SdcPoint::Copy { size, rounds } => write!(f, "copy/{}/{rounds}r", compact(*size)),
            SdcPoint::AllReduce { dtype, size, ranks, rounds } => {
                write!(f, "all_reduce/{dtype}/{}/{ranks}ranks/{rounds}r", compact(*size))
            }
        }
    }
}

named!(MemoryPattern {
    Walking => "walking", Address => "address", Random => "random", Moving => "moving",
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_stable() {
        let dtype = Dtype::Bf16;
        let product = SdcPoint::Product { dtype, m: 8192, n: 4096, k: 512, rounds: 200 };
        assert_eq!(product.to_string(), "product/bf16/8192x4096x512/200r");
        let pattern = MemoryPattern::Moving;
        let memory = SdcPoint::Memory { pattern, size: Bytes::GIB * 4, rounds: 2 };
        assert_eq!(memory.to_string(), "memory/moving/4GiB/2r");
        let (dtype, size, ranks, rounds) = (Dtype::Int8, Bytes::MIB * 16, 8, 32);
        let reduced = SdcPoint::AllReduce { dtype, size, ranks, rounds };
        assert_eq!(reduced.to_string(), "all_reduce/int8/16MiB/8ranks/32r");
        let copy = SdcPoint::Copy { size: Bytes::MIB * 256, rounds: 1 };
        assert_eq!((copy.to_string().as_str(), copy.unit()), ("copy/256MiB/1r", "copy"));
    }
}
