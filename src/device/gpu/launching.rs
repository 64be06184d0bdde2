//! Launches: a kernel's entry on a stream, with its arguments and tensor maps.

#![expect(unsafe_code, reason = "the driver is a C library")]

use super::{
    context::{Context, For},
    module::{Arguments, Entry, Shape},
    table::{CLUSTER_DIMENSION, LaunchAttribute, LaunchConfig, TensorMap},
    tensor_map::Encoding,
};
use crate::device::{DeviceError, library::Handle};
use std::ffi::{c_int, c_uint};

/// `CU_TENSOR_MAP_L2_PROMOTION_L2_256B`: what is fetched for one copy serves the next.
const PROMOTE_256_BYTES: c_int = 3;
/// `CU_LAUNCH_PARAM_BUFFER_POINTER`, `CU_LAUNCH_PARAM_BUFFER_SIZE`.
const PARAM_BUFFER_POINTER: usize = 1;
const PARAM_BUFFER_SIZE: usize = 2;

impl Context {
    /// Enqueues a kernel `repeat` times.
    ///
    /// # Errors
    ///
    /// What the driver refuses.
    pub fn launch(
        &self,
        entry: &Entry,
        shape: &Shape,
        params: &mut Arguments,
        repeat: u32,
    ) -> Result<(), DeviceError> {
        self.launch_on(self.stream(), entry, shape, params, repeat)
    }

    /// The same on another stream of this device.
    ///
    /// # Errors
    ///
    /// What the driver refuses.
    pub fn launch_on(
        &self,
        stream: Handle,
        entry: &Entry,
        shape: &Shape,
        params: &mut Arguments,
        repeat: u32,
    ) -> Result<(), DeviceError> {
        let functions = self.current()?;
        let [x, y, z] = shape.cluster;
        let mut value = [0; 16];
        value[..3].copy_from_slice(&[x, y, z]);
        let cluster = LaunchAttribute { id: CLUSTER_DIMENSION, padding: [0; 4], value };
        let config = LaunchConfig {
            grid: shape.grid,
            block: [shape.threads, 1, 1],
            shared: shape.shared,
            stream,
            attributes: &raw const cluster,
            attribute_count: c_uint::from(shape.cluster != [1, 1, 1]),
        };
        let mut size = params.length;
        let mut extra = [
            PARAM_BUFFER_POINTER as Handle,
            params.words.as_mut_ptr().cast(),
            PARAM_BUFFER_SIZE as Handle,
            (&raw mut size).cast(),
            self.driver().vendor.extras_end as Handle,
        ];
        let [x, y, z] = shape.grid;
        for _ in 0..repeat {
            // SAFETY: the parameters are as long as is said, the list of extras ends with a zero,
            // and the driver copies both before it returns.
            let said = unsafe {
                let (null, extra) = (std::ptr::null_mut(), extra.as_mut_ptr());
                let (entry, threads, shared) = (entry.function, shape.threads, shape.shared);
                if self.driver().vendor.has_attributes {
                    functions.launch(&raw const config, entry, null, extra)
                } else {
                    functions
                        .launch_plain(entry, x, y, z, threads, 1, 1, shared, stream, null, extra)
                }
            };
            self.told(said, For::Kernel(&entry.name))?;
            self.enqueued_one();
        }
        Ok(())
    }

    /// Encodes a tensor map.
    ///
    /// # Errors
    ///
    /// What the driver refuses.
    pub fn encode(&self, encoding: &Encoding, entry: &Entry) -> Result<TensorMap, DeviceError> {
        let mut map = TensorMap([0; 128]);
        let Encoding { data_type, address, sizes, stride, tile, swizzle } = *encoding;
        const PLAIN: c_int = 0;
        // SAFETY: the map is aligned as it has to be, and the arrays are as long as the rank says
        // (strides: one less).
        let said = unsafe {
            self.current()?.tensor_map(
                &raw mut map,
                data_type,
                2,
                address,
                sizes.as_ptr(),
                &raw const stride,
                tile.as_ptr(),
                [1, 1].as_ptr(),
                PLAIN,
                swizzle,
                PROMOTE_256_BYTES,
                PLAIN,
            )
        };
        self.told(said, For::Kernel(&entry.name))?;
        Ok(map)
    }
}
