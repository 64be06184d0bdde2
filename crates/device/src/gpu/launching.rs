//! Launches: a kernel's entry on a stream, with its arguments and tensor maps.

#![expect(unsafe_code, reason = "the driver is a C library")]

use super::{
    context::{Context, For},
    module::{Arguments, Entry},
    table::Functions,
    tensor_map::Encoding,
    vendor::{Launching, Shape},
};
use crate::{
    DeviceError, Result,
    library::{Handle, Refusal},
};

impl Context {
    /// Enqueues a kernel `repeat` times.
    pub fn launch(
        &self,
        entry: &Entry,
        shape: &Shape,
        params: &mut Arguments,
        repeat: u32,
    ) -> Result<()> {
        self.launch_on(self.stream, entry, shape, params, repeat)
    }

    /// The same on another stream of this device.
    pub fn launch_on(
        &self,
        stream: Handle,
        entry: &Entry,
        shape: &Shape,
        params: &mut Arguments,
        repeat: u32,
    ) -> Result<()> {
        if let Some(why) = entry.too_large.clone() {
            return Err(DeviceError::Launch { kernel: entry.name.clone(), why });
        }
        let functions = self.current()?;
        let vendor = self.driver().vendor;
        let [bytes, size, end] = vendor.flags.extras;
        let mut length = 0;
        let mut piece = params.piece().map(|(address, count)| {
            length = count;
            [bytes as Handle, address, size as Handle, (&raw mut length).cast(), end as Handle]
        });
        let mut addresses = params.addresses();
        let null = std::ptr::null_mut();
        let launching = Launching {
            function: entry.function,
            stream,
            shape: *shape,
            params: if piece.is_none() { addresses.as_mut_ptr() } else { null },
            extra: piece.as_mut().map_or(null, |extra| extra.as_mut_ptr()),
        };
        for _ in 0..repeat {
            // SAFETY: the parameters are as long as is said or as the kernel has them, the list of
            // extras ends as the vendor has it, and the driver copies both before it returns.
            let said = unsafe { (vendor.launch)(functions, &launching) };
            self.told(said, For::Kernel(&entry.name))?;
            self.enqueued_one();
        }
        Ok(())
    }

    /// Encodes a tensor map.
    pub fn encode(&self, encoding: &Encoding, entry: &Entry) -> Result<Vec<u8>> {
        let Some(encode) = self.driver().vendor.encode else {
            let needs = "a device with tensor maps".into();
            return Err(DeviceError::Unsupported { kernel: entry.name.clone(), needs });
        };
        let mut map = Vec::new();
        // SAFETY: what is encoded is described in full; the matrix is not touched.
        let said = unsafe { encode(self.current()?, encoding) }.map(|bytes| map = bytes);
        self.told(said, For::Kernel(&entry.name))?;
        Ok(map)
    }
}

/// A launch without attributes.
///
/// # Safety
///
/// The function is loaded and the stream alive; the extras end as the vendor has it.
pub unsafe fn plain(f: &Functions, launching: &Launching) -> Result<(), Refusal> {
    let Launching { function, stream, shape, params, extra } = *launching;
    let Shape { grid: [x, y, z], threads, shared, .. } = shape;
    // SAFETY: the caller's promise.
    unsafe { f.launch_plain(function, x, y, z, threads, 1, 1, shared, stream, params, extra) }
}
