//! Descriptors by which the copy engine of sm_90 and newer finds the tiles of a matrix.

use fizeau_domain::{
    case::Layout,
    dtype::Dtype,
    kernel::{
        AttentionParams, GemmParams, GroupedParams,
        manifest::{Map, Operand},
    },
};

/// What a matrix's descriptor is encoded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// What is moved: elements of this type, never of one that has scales.
    pub dtype: Dtype,
    /// Where the matrix is.
    pub address: u64,
    /// Elements of a row, rows.
    pub sizes: [u64; 2],
    /// Bytes from one row to the next.
    pub stride: u64,
    /// Elements that one copy moves: along the row, rows.
    pub tile: [u32; 2],
    /// Bytes within which `atom` of them change places, so that threads meet no two in one bank; 0
    /// for none.
    pub swizzle: u32,
    /// See `swizzle`.
    pub atom: u32,
}

/// One matrix: its element type, address, rows and columns. None where an operation has no such.
type Matrix = (Dtype, u64, [u32; 2]);

fn matrix(gemm: &GemmParams, operand: Operand) -> Option<Matrix> {
    let dtype = Dtype::ALL.get(gemm.dtype as usize).copied().unwrap_or(Dtype::F32);
    let narrow = matches!(dtype.unscaled(), Dtype::Fp8 | Dtype::Fp6 | Dtype::Fp4);
    let by_columns = narrow || gemm.layout == Layout::Nt as u32;
    let of_weights = dtype.weights().map(|of| if of.bits == 8 { Dtype::Fp8 } else { Dtype::Fp4 });
    match operand {
        Operand::B if of_weights.is_some() => Some((of_weights?, gemm.b, [gemm.n, gemm.k])),
        Operand::A => Some((dtype, gemm.a, [gemm.m, gemm.k])),
        Operand::B if by_columns => Some((dtype, gemm.b, [gemm.n, gemm.k])),
        Operand::B => Some((dtype, gemm.b, [gemm.k, gemm.n])),
        Operand::C => Some((dtype.output(), gemm.c, [gemm.m, gemm.n])),
        Operand::Q | Operand::K | Operand::V => None,
    }
}

/// Of all groups together: those of A and C follow each other as rows do.
fn matrix_of_groups(p: &GroupedParams, operand: Operand) -> Option<Matrix> {
    let GroupedParams { a, b, c, m, n, k, dtype, .. } = *p;
    let gemm = GemmParams { a, b, c, m, n, k, dtype, ..bytemuck::Zeroable::zeroed() };
    let (dtype, address, [rows, columns]) = matrix(&gemm, operand)?;
    // No box can name a row beyond 32 bits, which a driver refuses.
    let rows = if operand == Operand::B { rows.saturating_mul(p.groups) } else { rows };
    Some((dtype, address, [rows, columns]))
}

/// Tokens are rows, heads beside each other columns.
fn tokens(p: &AttentionParams, operand: Operand) -> Option<Matrix> {
    let dtype = Dtype::ALL.get(p.dtype as usize).copied().unwrap_or(Dtype::F32);
    match operand {
        Operand::Q => Some((dtype, p.q, [p.query_tokens, p.heads * p.dim_qk])),
        Operand::K => Some((dtype, p.k, [p.key_tokens, p.kv_heads * p.dim_qk])),
        Operand::V => Some((dtype, p.v, [p.key_tokens, p.kv_heads * p.dim_v])),
        Operand::A | Operand::B | Operand::C => None,
    }
}

/// What the descriptor of a row of kernels.toml is encoded from; none where a product has no such
/// operand.
pub fn of(map: &Map, gemm: &GemmParams) -> Option<Encoding> {
    Some(encoding(map, matrix(gemm, map.operand)?))
}

/// The same for products of groups.
pub fn of_groups(map: &Map, params: &GroupedParams) -> Option<Encoding> {
    Some(encoding(map, matrix_of_groups(params, map.operand)?))
}

/// The same for attention.
pub fn of_attention(map: &Map, params: &AttentionParams) -> Option<Encoding> {
    Some(encoding(map, tokens(params, map.operand)?))
}

fn encoding(map: &Map, (dtype, address, [rows, columns]): Matrix) -> Encoding {
    let stride = u64::from(columns) * dtype.bits() / 8;
    let moved = if dtype.bits() < 8 { stride } else { u64::from(columns) };
    Encoding {
        dtype: dtype.unscaled(),
        address,
        sizes: [moved, u64::from(rows)],
        stride,
        tile: map.size,
        swizzle: map.swizzle,
        atom: map.atom,
    }
}

/// Bytes of a row of A, B and C.
pub fn row_bytes(gemm: &GemmParams) -> [u64; 3] {
    bytes_of_rows(|operand| matrix(gemm, operand))
}

/// The same for products of groups.
pub fn row_bytes_of_groups(params: &GroupedParams) -> [u64; 3] {
    bytes_of_rows(|operand| matrix_of_groups(params, operand))
}

fn bytes_of_rows(matrix: impl Fn(Operand) -> Option<Matrix>) -> [u64; 3] {
    let bytes = |(dtype, _, [_, columns]): Matrix| u64::from(columns) * dtype.bits() / 8;
    [Operand::A, Operand::B, Operand::C].map(|operand| matrix(operand).map_or(0, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gemm(dtype: Dtype) -> GemmParams {
        let dtype = Dtype::ALL.iter().position(|&one| one == dtype).expect("one of all") as u32;
        let (m, n, k) = (96, 256, 512);
        let zeroed = bytemuck::Zeroable::zeroed();
        GemmParams { a: 0x100, b: 0x200, c: 0x300, m, n, k, dtype, ..zeroed }
    }

    #[test]
    fn matrices_are_described_row_by_row() {
        let map = |operand| Map { operand, size: [64, 128], swizzle: 128, atom: 16 };
        let b = of(&map(Operand::B), &gemm(Dtype::Bf16));
        let (tile, swizzle) = ([64, 128], 128);
        let wanted = Encoding {
            dtype: Dtype::Bf16,
            address: 0x200,
            sizes: [256, 512],
            stride: 512,
            tile,
            swizzle,
            atom: 16,
        };
        assert_eq!(b, Some(wanted));
        // The second operand of narrow types is kept by columns, their product in bfloat16.
        let b = of(&map(Operand::B), &gemm(Dtype::Fp8)).expect("a product has a B");
        assert_eq!((b.dtype, b.sizes, b.stride), (Dtype::Fp8, [512, 256], 512));
        // Two of 4 bits are moved as a byte.
        let b = of(&map(Operand::B), &gemm(Dtype::Nvfp4)).expect("a product has a B");
        assert_eq!((b.dtype, b.sizes, b.stride), (Dtype::Fp4, [256, 256], 256));
        // B of `nt` too, whatever its type.
        let nt = GemmParams { layout: Layout::Nt as u32, ..gemm(Dtype::Bf16) };
        let b = of(&map(Operand::B), &nt).expect("a product has a B");
        assert_eq!((b.dtype, b.sizes, b.stride), (Dtype::Bf16, [512, 256], 1024));
        let c = of(&map(Operand::C), &gemm(Dtype::Fp8)).expect("a product has a C");
        assert_eq!((c.dtype, c.sizes, c.stride), (Dtype::Bf16, [256, 96], 512));
    }

    #[test]
    fn matrices_of_groups_follow_each_other() {
        let map = |operand| Map { operand, size: [64, 64], swizzle: 128, atom: 16 };
        let of = |dtype, operand| {
            let GemmParams { a, b, c, m, n, k, dtype, .. } = gemm(dtype);
            let zeroed: GroupedParams = bytemuck::Zeroable::zeroed();
            let params = GroupedParams { a, b, c, m, n, k, dtype, groups: 5, ..zeroed };
            assert_eq!(row_bytes_of_groups(&params), row_bytes(&gemm(Dtype::ALL[dtype as usize])));
            of_groups(&map(operand), &params).expect("a product has it").sizes
        };
        assert_eq!(of(Dtype::Bf16, Operand::A), [512, 96]);
        assert_eq!(of(Dtype::Bf16, Operand::B), [256, 5 * 512]);
        assert_eq!(of(Dtype::Fp8, Operand::B), [512, 5 * 256]);
        assert_eq!(of(Dtype::Fp8, Operand::C), [256, 96]);
    }

    #[test]
    fn tokens_are_rows() {
        let map = Map { operand: Operand::K, size: [64, 128], swizzle: 128, atom: 16 };
        let params = AttentionParams {
            k: 0x400,
            kv_heads: 8,
            dim_qk: 192,
            key_tokens: 1000,
            dtype: 4,
            ..bytemuck::Zeroable::zeroed()
        };
        let k = of_attention(&map, &params).expect("attention has keys");
        assert_eq!((k.address, k.sizes, k.stride), (0x400, [8 * 192, 1000], 8 * 192 * 2));
        assert_eq!(of(&map, &gemm(Dtype::Bf16)), None);
    }

    #[test]
    fn rows_have_their_bytes() {
        assert_eq!(row_bytes(&gemm(Dtype::F64)), [4096, 2048, 2048]);
        assert_eq!(row_bytes(&gemm(Dtype::Int8)), [512, 256, 1024]);
    }
}
