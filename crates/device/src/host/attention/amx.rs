//! AMX, many rows of bfloat16: 2 x 2 tiles of sums from packed operands. Queries, keys, values and
//! weights are packed as AVX-512's are: in pairs, rows of queries and weights one after the other,
//! keys and values word by word, which are the two forms that a product of tiles takes.

use super::{
    avx512_packed::{self, COLUMNS, LANES},
    keys::{KEYS, Rows},
    packed::{PADDED, Packed, ScoreTile, SumTile},
    room,
};
use crate::host::{
    amx::{self, Tiles},
    kernel::HostKernel,
    pool::Block,
};
use half::bf16;
use std::arch::{asm, x86_64::*};

/// Rows of a tile of [`Packed`], which are two of the CPU's tiles.
const ROWS: usize = 2 * amx::ROWS;

/// Words along k of a product of tiles.
const WORDS: usize = amx::ROW_BYTES / 4;

/// Bytes of a row of a panel, of scores and of weights.
const PANEL_ROW: usize = COLUMNS * size_of::<f32>();
const SCORES_ROW: usize = KEYS * size_of::<f32>();

const _: () = assert!(room::ROWS.is_multiple_of(ROWS) && PADDED == WORDS && COLUMNS == 2 * LANES);

pub(super) const BF16: Packed<bf16> = Packed {
    rows: ROWS,
    values: values_bf16,
    scores: scores_bf16,
    accumulate: sums_bf16,
    ..avx512_packed::BF16
};

/// The same kernel on threads whose tiles are configured meanwhile.
pub(super) fn with_tiles(kernel: HostKernel) -> HostKernel {
    let run = kernel.run;
    HostKernel::new(kernel.operation, kernel.name, kernel.features, move |block: &Block<'_>| {
        // SAFETY: this kernel is listed where the process may use tiles.
        let _tiles = unsafe { Tiles::configure() };
        run(block);
    })
}

/// Fills the four tiles of sums by the instructions `$first`, adds the products of `$steps` steps
/// of [`WORDS`] words along k, and stores the sums. Rows of `$a` are `$row` bytes apart, rows of
/// `$sums` `$stride` bytes.
macro_rules! multiply {
    ([$($first:literal),*], $a:expr, $row:expr, $b:expr, $steps:expr, $sums:expr, $stride:expr) => {
        asm!(
            $($first,)*
            "2:",
            "tileloadd tmm4, [{a} + {row}]",
            "tileloadd tmm6, [{b} + {row_of_b}]",
            "tileloadd tmm7, [{b} + {row_of_b} + 64]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm5, [{below} + {row}]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {a}, 64",
            "add {below}, 64",
            "add {b}, 2048",
            "sub {steps}, 1",
            "jnz 2b",
            "tilestored [{sums} + {stride}], tmm0",
            "tilestored [{sums} + {stride} + 64], tmm1",
            "tilestored [{sums_below} + {stride}], tmm2",
            "tilestored [{sums_below} + {stride} + 64], tmm3",
            a = inout(reg) $a => _,
            below = inout(reg) $a.cast::<u8>().wrapping_add(amx::ROWS * $row) => _,
            row = in(reg) $row,
            b = inout(reg) $b => _,
            row_of_b = in(reg) PANEL_ROW,
            steps = inout(reg) $steps => _,
            sums = in(reg) $sums,
            sums_below = in(reg) $sums.cast::<u8>().wrapping_add(amx::ROWS * $stride),
            stride = in(reg) $stride,
            options(nostack)
        )
    };
}

/// [`Packed::scores`].
#[target_feature(enable = "avx512f")]
unsafe fn scores_bf16(tile: ScoreTile) {
    let row = tile.depth * size_of::<f32>();
    let factor = _mm512_set1_ps(tile.factor);
    // SAFETY: the caller's promise: whole steps, rows and columns; the tiles are configured, and
    // nothing else uses them.
    unsafe {
        multiply!(
            ["tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3"],
            tile.queries,
            row,
            tile.keys,
            tile.depth / WORDS,
            tile.scores,
            SCORES_ROW
        );
        for row in 0..ROWS {
            for half in 0..2 {
                let scores = tile.scores.add(row * KEYS + half * LANES);
                _mm512_storeu_ps(scores, _mm512_mul_ps(_mm512_loadu_ps(scores), factor));
            }
        }
    }
}

/// [`Packed::accumulate`]. Most corrections are one, because the largest score of a row is replaced
/// only by one that exceeds it by much; rows whose correction is one are left as they are.
#[target_feature(enable = "avx512f")]
unsafe fn sums_bf16(tile: SumTile) {
    let stride = tile.stride * size_of::<f32>();
    // SAFETY: as in `scores_bf16`; weights and values are nothing beyond the last key, up to a
    // whole step.
    unsafe {
        for row in 0..ROWS {
            let correction = *tile.corrections.add(row);
            if correction != 1.0 {
                for half in 0..2 {
                    let sums = tile.sums.add(row * tile.stride + half * LANES);
                    let corrected = _mm512_set1_ps(correction);
                    _mm512_storeu_ps(sums, _mm512_mul_ps(_mm512_loadu_ps(sums), corrected));
                }
            }
        }
        multiply!(
            [
                "tileloadd tmm0, [{sums} + {stride}]",
                "tileloadd tmm1, [{sums} + {stride} + 64]",
                "tileloadd tmm2, [{sums_below} + {stride}]",
                "tileloadd tmm3, [{sums_below} + {stride} + 64]"
            ],
            tile.weights,
            SCORES_ROW,
            tile.values,
            tile.depth.div_ceil(WORDS),
            tile.sums,
            stride
        );
    }
}

/// [`Packed::values`], and nothing for keys beyond the last one, up to a whole step.
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
unsafe fn values_bf16(values: &Rows<bf16>, to: *mut f32) {
    let words = values.count.div_ceil(2);
    let beyond = words.next_multiple_of(WORDS) - words;
    // SAFETY: the caller's promise: a panel has the words of all KEYS.
    unsafe {
        (avx512_packed::BF16.values)(values, to);
        if beyond > 0 {
            for at in (0..values.length).step_by(COLUMNS) {
                to.add(at * KEYS / 2 + words * COLUMNS).write_bytes(0, beyond * COLUMNS);
            }
        }
    }
}
