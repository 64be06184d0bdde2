//! A driver, opened, and the few facts that need no context.

#![expect(unsafe_code, reason = "the driver is a C library")]

use super::{
    table::Functions,
    vendor::{Peers, Vendor},
};
use crate::{
    DeviceError, Identity, Result,
    library::{self, Handle, Refusal},
};
use fizeau_domain::{
    node_state::Gpu,
    spec::{Properties, STUB},
};
use fizeau_record::{Environment, identity};
use std::{
    ffi::{CStr, c_char, c_int},
    io,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

/// The opened and initialised driver.
pub struct Driver {
    /// What it does.
    pub functions: Functions,
    /// The newest CUDA it can run, `13000` for 13.0.
    pub version: i32,
    /// Whether it is a stub for tests, which no number comes from.
    pub is_stub: bool,
    /// Whose it is.
    pub vendor: &'static Vendor,
}

impl Driver {
    /// Opens and initialises one.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Missing`] where no driver is installed, [`DeviceError::NoDevice`] where it
    /// shows no device, [`DeviceError::Broken`] for every other reason: it cannot be loaded, is too
    /// old, refuses to start, or does not answer.
    pub fn open(vendor: &'static Vendor) -> Result<Driver> {
        let silent = || DeviceError::Broken {
            what: vendor.named(),
            why: format!("it did not answer within {} s", ANSWER_MAX.as_secs()),
            remedy: vendor.check.into(),
        };
        let opened = within(ANSWER_MAX, move || Driver::open_now(vendor)).map_err(|error| {
            DeviceError::Driver(format!(
                "{} cannot be asked, since the system starts no thread ({error}): raise the limit \
                 on processes (ulimit -u, or pids.max of the control group)",
                vendor.named()
            ))
        })?;
        opened.unwrap_or_else(|| Err(silent()))
    }

    fn open_now(vendor: &'static Vendor) -> Result<Driver> {
        let functions = (vendor.functions)(&library::open(&vendor.library)?);
        let error = |refusal: Refusal| opening_error(vendor, &refusal);
        let mut version = 0;
        // SAFETY: the pointer is valid; a driver answers this call before it is initialised.
        unsafe { functions.version(&raw mut version) }.map_err(error)?;
        if version < vendor.version_min {
            return Err((vendor.too_old)(version));
        }
        // SAFETY: zero is the only flag there is; the stub's mark takes nothing.
        unsafe {
            functions.init(0).map_err(error)?;
            let is_stub = functions.stub().is_ok();
            Ok(Driver { functions, version, is_stub, vendor })
        }
    }

    /// Enqueues a copy between memories of any kind.
    ///
    /// # Safety
    ///
    /// Both ranges are alive until the copy is done.
    pub unsafe fn copy(
        &self,
        to: u64,
        from: u64,
        bytes: usize,
        stream: Handle,
    ) -> Result<(), Refusal> {
        let f = &self.functions;
        // SAFETY: the caller's promise.
        unsafe {
            match self.vendor.copy_kind {
                Some(kind) => f.copy_of_kind(to, from, bytes, kind, stream),
                None => f.copy(to, from, bytes, stream),
            }
        }
    }

    /// Brings another device's memory within the current one's reach.
    ///
    /// # Safety
    ///
    /// The context is alive, and of that device.
    pub unsafe fn enable_peer(&self, context: Handle, device: c_int) -> Result<(), Refusal> {
        let f = &self.functions;
        // SAFETY: the caller's promise; zero is the only flag there is.
        unsafe {
            match self.vendor.names_peers {
                Peers::ByContext => f.peer_enable(context, 0),
                Peers::ByDevice => f.peer_enable_device(device, 0),
            }
        }
    }

    /// How many devices there are, as `CUDA_VISIBLE_DEVICES` lets them be seen.
    ///
    /// # Errors
    ///
    /// As for [`Driver::open`].
    pub fn count(&self) -> Result<u32> {
        let mut count = 0;
        // SAFETY: the pointer is valid.
        unsafe { self.functions.device_count(&raw mut count) }
            .map_err(|refusal| opening_error(self.vendor, &refusal))?;
        Ok(count.max(0) as u32)
    }

    /// The driver's handle of a device.
    ///
    /// # Errors
    ///
    /// Where there are fewer.
    pub fn device(&self, ordinal: u32) -> Result<c_int> {
        let mut device = 0;
        // SAFETY: the pointer is valid.
        unsafe { self.functions.device(&raw mut device, ordinal as c_int) }
            .map_err(|refusal| self.vendor.error(&refusal))?;
        Ok(device)
    }

    /// An attribute by its number; none where the driver does not state it.
    pub fn number(&self, device: c_int, attribute: c_int) -> Option<u32> {
        let mut value = 0;
        // SAFETY: the pointer is valid.
        let said = unsafe { self.functions.attribute(&raw mut value, attribute, device) };
        said.ok().and_then(|()| u32::try_from(value).ok()).filter(|&value| value > 0)
    }

    /// The name, such as `NVIDIA H200`.
    pub fn name(&self, device: c_int) -> Option<String> {
        // SAFETY: the buffer is as long as is said.
        text(|buffer, length| unsafe { self.functions.device_name(buffer, length, device) }.is_ok())
    }

    /// The place on the PCI bus, such as `0000:1b:00.0`.
    pub fn pci(&self, device: c_int) -> Option<String> {
        // SAFETY: the buffer is as long as is said.
        text(|buffer, length| unsafe { self.functions.device_pci(buffer, length, device) }.is_ok())
            .map(|place| place.to_ascii_lowercase())
    }

    /// Where a device is on the PCI bus, by its ordinal.
    pub fn pci_of(&self, ordinal: u32) -> Option<String> {
        self.pci(self.device(ordinal).ok()?)
    }

    /// The device's own number, of a slice where it is one. AMD's driver writes it as text, 16
    /// hexadecimal digits in the place of 16 bytes.
    pub fn uuid(&self, device: c_int) -> Option<String> {
        let mut uuid = [0u8; 16];
        // SAFETY: the pointer is to 16 bytes.
        unsafe { self.functions.device_uuid(&raw mut uuid, device) }.ok()?;
        if uuid.iter().all(u8::is_ascii_hexdigit) {
            return Some(String::from_utf8_lossy(&uuid).into_owned());
        }
        let hex = |range: std::ops::Range<usize>| -> String {
            uuid[range].iter().map(|byte| format!("{byte:02x}")).collect()
        };
        Some([hex(0..4), hex(4..6), hex(6..8), hex(8..10), hex(10..16)].join("-"))
    }

    /// The driver's version, with the words before it that the vendor's users know it by.
    pub fn spelled(&self) -> String {
        format!("{}{}", self.vendor.before_version, (self.vendor.version)(self.version))
    }

    /// The driver, and which devices it shows.
    pub fn described(&self) -> String {
        let text = if self.is_stub { STUB.into() } else { self.spelled() };
        self.vendor.hidden().iter().fold(text, |text, hidden| format!("{text}; {hidden}"))
    }

    /// Warns in a record of what a GPU is only a part of, and of GPUs that are hidden. `part` is
    /// what the vendor calls such a part.
    pub fn warn(&self, properties: &Properties, part: &str, to: &mut Environment) {
        if let Some(hidden) = self.vendor.hidden() {
            to.warnings.push(format!("not all GPUs of this machine are visible: {hidden}"));
        }
        if let Some(mode) = &properties.virtualised {
            to.warnings.push(format!(
                "this is a {part} of a GPU ({mode}): its share of memory and clock is not stated"
            ));
        }
    }

    /// Who a GPU is, by what tells it from others and by what its board says.
    pub fn who(&self, ordinal: u32, own: Identity, board: identity::Gpu) -> identity::Gpu {
        identity::Gpu {
            device: self.place(ordinal),
            product: self.device(ordinal).ok().and_then(|device| self.name(device)),
            pci: own.pci,
            uuid: own.uuid,
            driver: own.driver,
            stub: self.is_stub,
            ..board
        }
    }

    /// A device as users name it, such as `cuda:0`.
    pub fn place(&self, ordinal: u32) -> String {
        format!("{}:{ordinal}", self.vendor.interface.to_ascii_lowercase())
    }

    /// A GPU at rest, as far as the driver tells without its sensors.
    pub fn shown(&self, ordinal: u32, identity: Identity) -> Gpu {
        Gpu {
            name: self.place(ordinal),
            pci: identity.pci,
            uuid: identity.uuid,
            has_driver: true,
            driver: identity.driver,
            peer_links: identity.links,
            stub: self.is_stub,
            ..Gpu::default()
        }
    }

    /// Memory in all.
    pub fn memory(&self, device: c_int) -> Option<u64> {
        let mut bytes = 0;
        // SAFETY: the pointer is valid.
        unsafe { self.functions.device_memory(&raw mut bytes, device) }.ok()?;
        Some(bytes as u64)
    }
}

/// The devices of a driver, at least one.
///
/// # Errors
///
/// Where there is no driver, it shows no device, or one cannot be read.
pub fn devices(
    driver: Result<Arc<Driver>>,
    read: impl Fn(&Driver, u32) -> Result<Properties>,
) -> Result<Vec<Properties>> {
    let driver = driver?;
    match driver.count()? {
        0 => Err(driver.vendor.none_shown()),
        count => (0..count).map(|ordinal| read(&driver, ordinal)).collect(),
    }
}

/// What is told of each device; nothing where there is no driver.
pub fn of_each<T>(driver: Result<Arc<Driver>>, tell: impl Fn(&Driver, u32) -> T) -> Vec<T> {
    let Ok(driver) = driver else { return Vec::new() };
    (0..driver.count().unwrap_or(0)).map(|ordinal| tell(&driver, ordinal)).collect()
}

/// The longest wait for a driver that starts. With GPUs that no process has used since the last one
/// ended (no persistence mode) a node of eight takes half a minute.
const ANSWER_MAX: Duration = Duration::from_secs(180);

/// What work comes to that has a thread of its own; `None` where it is not done in time. The thread
/// is then left behind, since a call that hangs in a driver cannot be ended.
///
/// # Errors
/// Where the system starts no thread.
fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Option<T>> {
    let (done, wait) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        // Whoever waited may have given up.
        let _ = done.send(work());
    })?;
    Ok(wait.recv_timeout(limit).ok())
}

/// A refusal while the driver is opened.
pub fn opening_error(vendor: &Vendor, refusal: &Refusal) -> DeviceError {
    if let Refusal::Code { code, .. } = refusal
        && vendor.no_device.contains(code)
    {
        return vendor.none_shown();
    }
    let broken = |why: String, remedy: &str| DeviceError::Broken {
        what: vendor.named(),
        why,
        remedy: remedy.into(),
    };
    match vendor.error(refusal) {
        DeviceError::Missing { what, remedy } => broken(format!("it has no {what}"), &remedy),
        DeviceError::Lost(why) | DeviceError::Driver(why) => broken(why, vendor.check),
        told => told,
    }
}

/// A text that a function writes into a buffer.
fn text(write: impl FnOnce(*mut c_char, c_int) -> bool) -> Option<String> {
    let mut buffer = [0u8; 256];
    if !write(buffer.as_mut_ptr().cast(), buffer.len() as c_int - 1) {
        return None;
    }
    let text = CStr::from_bytes_until_nul(&buffer).ok()?;
    Some(text.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_does_not_answer_is_waited_for_no_longer_than_the_limit() {
        assert_eq!(within(Duration::from_secs(60), || 7).expect("a thread"), Some(7));
        let (never, hangs) = mpsc::channel::<()>();
        let ended = within(Duration::from_millis(20), move || hangs.recv()).expect("a thread");
        assert_eq!(ended, None);
        drop(never);
    }
}
