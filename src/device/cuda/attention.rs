//! How kernels of attention are launched: on how many blocks, and for which shapes.

use super::manifest::Row;
use crate::{device::DeviceError, kernel::AttentionParams};

/// Blocks of a kernel that takes a tile of queries of one head and sequence each; none for one that
/// finds its work by itself, as those do that follow a schedule.
pub fn blocks(row: &Row, params: &AttentionParams) -> Option<u32> {
    let tiles = params.queries.div_ceil(row.tile?);
    Some((tiles * params.heads * params.batch).max(1))
}

/// An error where a kernel is not made for a shape.
///
/// # Errors
///
/// [`DeviceError::Unsupported`], with what it is made for.
pub fn check(row: &Row, params: &AttentionParams) -> Result<(), DeviceError> {
    let unfit = |needs: String| Err(DeviceError::Unsupported { kernel: row.entry.clone(), needs });
    if !row.maps.is_empty() && params.pages != 0 {
        return unfit("keys and values in one piece, in rows that a tensor map can tell".into());
    }
    let [dim_qk, dim_v] = row.dims_max.unwrap_or([u32::MAX; 2]);
    if params.dim_qk > dim_qk || params.dim_v > dim_v {
        return unfit(format!("heads of at most {dim_qk} for queries and {dim_v} for values"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cuda::manifest::{self, Manifest};

    fn rows() -> Vec<Row> {
        let manifest: Manifest = toml::from_str(manifest::TEXT).expect("kernels.toml");
        let rows = manifest.file.into_iter().flat_map(|file| file.kernels);
        rows.filter(|row| row.operation.starts_with("attention/")).collect()
    }

    fn params(queries: u32, dim: u32) -> AttentionParams {
        AttentionParams {
            batch: 2,
            heads: 4,
            queries,
            dim_qk: dim,
            dim_v: dim,
            ..bytemuck::Zeroable::zeroed()
        }
    }

    #[test]
    fn every_tile_of_queries_has_a_block() {
        let rows = rows();
        let row = rows.iter().find(|row| row.tile == Some(128)).expect("a kernel with tiles");
        assert_eq!(blocks(row, &params(1, 128)), Some(8));
        assert_eq!(blocks(row, &params(129, 128)), Some(16));
        let portable = rows.iter().find(|row| row.name == "portable").expect("the reference");
        assert_eq!(blocks(portable, &params(129, 128)), None);
    }

    #[test]
    fn shapes_beyond_a_kernel_are_refused() {
        let rows = rows();
        let portable = rows.iter().find(|row| row.name == "portable").expect("the reference");
        assert_eq!(check(portable, &params(1, 512)), Ok(()));
        let mapped = rows.iter().find(|row| !row.maps.is_empty()).expect("a kernel with maps");
        assert_eq!(check(mapped, &params(1, 128)), Ok(()));
        let paged = AttentionParams { pages: 0x100, page: 64, ..params(1, 128) };
        assert!(check(mapped, &paged).is_err() && check(portable, &paged).is_ok());
        let error = check(portable, &params(1, 520)).expect_err("values are too long");
        assert!(error.to_string().contains("512 for values"), "{error}");
    }
}
