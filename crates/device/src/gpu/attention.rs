//! How kernels of attention are launched: on how many blocks, and for which shapes.

use crate::{DeviceError, Result};
use fizeau_domain::{
    case::AttentionKind,
    kernel::{AttentionParams, Operation, manifest::KernelRow},
};

/// Blocks of a kernel that takes a tile of queries of one head and sequence each; none for one that
/// finds its work by itself, as those do that follow a schedule.
pub fn blocks(row: &KernelRow, params: &AttentionParams) -> Option<u32> {
    let tiles = params.queries.div_ceil(row.tile?);
    Some((tiles * params.heads * params.batch).max(1))
}

/// An error where a kernel is not made for a shape.
///
/// # Errors
///
/// [`DeviceError::Unfit`], with what it is made for.
pub fn check(row: &KernelRow, params: &AttentionParams) -> Result<()> {
    let unfit = |needs: String| Err(DeviceError::Unfit { kernel: row.entry.clone(), needs });
    // Decoding looks pages up, and uses its map where pages are large enough. Prefill does not.
    let is_prefill =
        matches!(row.operation, Operation::Attention { kind: Some(AttentionKind::Prefill), .. });
    if is_prefill && !row.maps.is_empty() && params.pages != 0 {
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
    use fizeau_domain::kernel::manifest::Manifest;

    fn rows() -> Vec<KernelRow> {
        let manifest: Manifest =
            toml::from_str(include_str!("../../../../kernels/kernels.toml")).expect("kernels.toml");
        let rows = manifest.file.into_iter().flat_map(|file| file.kernels);
        rows.filter(|row| matches!(row.operation, Operation::Attention { .. })).collect()
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

    /// Operations of attention for which a device with these targets has the portable kernel alone.
    fn left_to_the_portable_kernel(targets: &[&str]) -> Vec<String> {
        let targets: Vec<String> = targets.iter().map(|&target| target.to_owned()).collect();
        let manifest: Manifest =
            toml::from_str(include_str!("../../../../kernels/kernels.toml")).expect("kernels.toml");
        let runs = manifest.file.iter().filter(|file| !file.images(&targets).is_empty());
        let rows: Vec<&KernelRow> = runs.flat_map(|file| &file.kernels).collect();
        let heads = ["64x64", "128x128", "256x256"];
        let kinds = heads.map(|dims| ("prefill", dims)).into_iter();
        let kinds = kinds.chain([("prefill", "192x128"), ("mla", "576x512")]);
        let kinds = kinds.chain(heads.map(|dims| ("decode", dims)));
        let points = kinds.flat_map(|(kind, dims)| {
            ["bf16", "f16", "fp8"].map(|dtype| format!("attention/{kind}/{dtype}/{dims}"))
        });
        points.filter(|point| !rows.iter().any(|row| row.operation.to_string() == *point)).collect()
    }

    /// A generation without matrix units for a type has nothing else; what is missing beside that
    /// stands here, so that none is forgotten in silence.
    #[test]
    fn every_generation_has_kernels_of_its_own_or_of_an_older_one() {
        let ampere = left_to_the_portable_kernel(&["sm_86", "sm_80"]);
        assert_eq!(ampere.len(), 8);
        assert!(ampere.iter().all(|operation| operation.contains("/fp8/")), "{ampere:?}");
        let none: [&str; 0] = [];
        assert_eq!(left_to_the_portable_kernel(&["sm_89", "sm_86", "sm_80"]), none);
        assert_eq!(left_to_the_portable_kernel(&["sm_90a", "sm_90"]), none);
        assert_eq!(left_to_the_portable_kernel(&["sm_120a", "sm_120f", "sm_120"]), none);
        assert_eq!(left_to_the_portable_kernel(&["sm_121a", "sm_120f", "sm_121", "sm_120"]), none);
        for datacentre in ["sm_100a", "sm_103a", "sm_107a"] {
            let left = left_to_the_portable_kernel(&[datacentre]);
            assert_eq!(left, ["attention/prefill/fp8/256x256"]);
        }
    }

    #[test]
    fn shapes_beyond_a_kernel_are_refused() {
        let rows = rows();
        let portable = rows.iter().find(|row| row.name == "portable").expect("the reference");
        assert_eq!(check(portable, &params(1, 512)), Ok(()));
        let paged = AttentionParams { pages: 0x100, page: 64, ..params(1, 64) };
        assert_eq!(check(portable, &paged), Ok(()));
        // Every prefill that copies keys by a map, of whatever generation; latent decode looks
        // pages up.
        let mapped: Vec<_> = rows.iter().filter(|row| !row.maps.is_empty()).collect();
        assert!(mapped.len() > 10, "{} kernels with maps", mapped.len());
        for row in mapped {
            assert_eq!(check(row, &params(1, 64)), Ok(()), "{}", row.entry);
            let is_refused = check(row, &paged).is_err();
            assert_eq!(is_refused, row.entry.contains("prefill"), "{}", row.entry);
        }
        let error = check(portable, &params(1, 520)).expect_err("values are too long");
        assert!(error.to_string().contains("512 for values"), "{error}");
    }
}
