//! Launches with clusters, and tensor maps: what NVIDIA's driver has beyond what it shares with
//! AMD's.

#![expect(unsafe_code, reason = "the driver is a C library")]

use crate::{
    gpu::{
        table::Functions,
        tensor_map::Encoding,
        vendor::{BlockNeeds, Launching, Shape},
    },
    library::{Handle, Refusal},
};
use cudarc::driver::sys::{
    CUfunction_attribute, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchAttributeValue,
    CUlaunchAttributeValue_union__bindgen_ty_1 as Cluster, CUlaunchConfig, CUtensorMap,
    CUtensorMapDataType as Type, CUtensorMapFloatOOBfill, CUtensorMapInterleave,
    CUtensorMapL2promotion, CUtensorMapSwizzle as Swizzle,
};
use fizeau_domain::dtype::Dtype;
use std::ffi::c_int;

/// Dynamic shared memory that needs no leave, and the largest cluster that every device has.
const SHARED_UNASKED: u32 = 48 << 10;
const CLUSTER_PORTABLE: u32 = 8;

/// Asks leave for more shared memory, and for larger clusters, than every launch may have.
///
/// # Safety
///
/// The function is loaded.
///
/// # Errors
///
/// Where the device has less.
pub unsafe fn allow(f: &Functions, function: Handle, shape: &Shape) -> Result<(), Refusal> {
    use CUfunction_attribute::*;
    let (shared, large) = (
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as c_int,
        CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED as c_int,
    );
    // SAFETY: the caller's promise.
    unsafe {
        if shape.shared > SHARED_UNASKED {
            f.function_set(function, shared, shape.shared as c_int)?;
        }
        if shape.cluster.iter().product::<u32>() > CLUSTER_PORTABLE {
            f.function_set(function, large, 1)?;
        }
    }
    Ok(())
}

/// What a function needs of its blocks.
///
/// # Safety
///
/// The function is loaded.
pub unsafe fn needs(f: &Functions, function: Handle) -> BlockNeeds {
    use CUfunction_attribute::*;
    let told = |attribute: CUfunction_attribute| {
        let mut value = 0;
        // SAFETY: the caller's promise; the pointer is valid.
        let said = unsafe { f.function_get(&raw mut value, attribute as c_int, function) };
        said.ok().and_then(|()| u32::try_from(value).ok())
    };
    BlockNeeds {
        threads_max: told(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
        shared: told(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
    }
}

/// A launch, in clusters where its shape has them.
///
/// # Safety
///
/// The function is loaded and the stream alive; the extras end with a zero, or there are as many
/// addresses as the kernel has parameters.
///
/// # Errors
///
/// What the driver refuses.
pub unsafe fn launch(f: &Functions, launching: &Launching) -> Result<(), Refusal> {
    let Launching { function, stream, shape, params, extra } = *launching;
    let [x, y, z] = shape.cluster;
    let mut value = CUlaunchAttributeValue { pad: [0; 64] };
    value.clusterDim = Cluster { x, y, z };
    let mut cluster = CUlaunchAttribute {
        id: CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
        pad: [0; 4],
        value,
    };
    let [grid_x, grid_y, grid_z] = shape.grid;
    let config = CUlaunchConfig {
        gridDimX: grid_x,
        gridDimY: grid_y,
        gridDimZ: grid_z,
        blockDimX: shape.threads,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: shape.shared,
        hStream: stream.cast(),
        attrs: &raw mut cluster,
        numAttrs: u32::from(shape.cluster != [1, 1, 1]),
    };
    // SAFETY: the caller's promise; the driver copies the configuration before it returns.
    unsafe { f.launch((&raw const config).cast(), function, params, extra) }
}

/// A matrix's descriptor.
///
/// # Safety
///
/// None is needed: the driver reads what it is given and writes the map.
///
/// # Errors
///
/// What the driver refuses.
pub unsafe fn encode(f: &Functions, encoding: &Encoding) -> Result<Vec<u8>, Refusal> {
    let mut map = CUtensorMap { opaque: [0; 16] };
    let Encoding { dtype, address, sizes, stride, tile, swizzle, atom } = *encoding;
    // What is fetched for one copy serves the next.
    let fetched = CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B as c_int;
    // SAFETY: the arrays are as long as the rank says (strides: one less).
    unsafe {
        f.tensor_map(
            (&raw mut map).cast(),
            data_type(dtype) as c_int,
            sizes.len() as u32,
            address,
            sizes.as_ptr(),
            &raw const stride,
            tile.as_ptr(),
            [1, 1].as_ptr(),
            CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE as c_int,
            swizzling(swizzle, atom) as c_int,
            fetched,
            CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE as c_int,
        )?;
    }
    Ok(bytemuck::bytes_of(&map.opaque).to_vec())
}

/// Integers of 32 bits are moved as floats are, elements of fewer bits than a byte has as the bytes
/// that they share.
fn data_type(dtype: Dtype) -> Type {
    match dtype {
        Dtype::F16 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        Dtype::Bf16 | Dtype::Bf16Fp8 | Dtype::Bf16Int4 | Dtype::Bf16Mxfp4 => {
            Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
        }
        Dtype::F32 | Dtype::Tf32 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        Dtype::F64 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        Dtype::Fp8 | Dtype::Fp6 | Dtype::Fp4 | Dtype::Int8 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT8,
        Dtype::Mxfp8 | Dtype::Mxfp4 | Dtype::Nvfp4 | Dtype::Fp8Block => {
            Type::CU_TENSOR_MAP_DATA_TYPE_UINT8
        }
    }
}

fn swizzling(bytes: u32, atom: u32) -> Swizzle {
    match (bytes, atom) {
        (32, _) => Swizzle::CU_TENSOR_MAP_SWIZZLE_32B,
        (64, _) => Swizzle::CU_TENSOR_MAP_SWIZZLE_64B,
        (128, 32) => Swizzle::CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B,
        (128, _) => Swizzle::CU_TENSOR_MAP_SWIZZLE_128B,
        _ => Swizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_32_bytes_have_a_pattern_of_their_own() {
        assert_eq!(swizzling(128, 16), Swizzle::CU_TENSOR_MAP_SWIZZLE_128B);
        assert_eq!(swizzling(128, 32), Swizzle::CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B);
    }

    #[test]
    fn elements_are_moved_by_their_width() {
        for dtype in Dtype::ALL.iter().map(|dtype| dtype.unscaled()) {
            let moved = match data_type(dtype) {
                Type::CU_TENSOR_MAP_DATA_TYPE_UINT8 => 8,
                Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16 => 16,
                Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 => 16,
                Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32 => 32,
                Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT64 => 64,
                other => panic!("{dtype:?} as {other:?}"),
            };
            assert_eq!(moved, dtype.bits().max(8), "{dtype:?}");
        }
    }
}
