//! Loaded modules, their entries, and what a launch is described by.

#![expect(unsafe_code, reason = "the driver is a C library")]

use super::{
    context::{Context, For},
    status::Meaning,
    vendor::Shape,
};
use crate::device::{
    DeviceError,
    library::{Handle, Refusal},
};
use std::{ffi::CStr, rc::Rc};

impl Context {
    /// Loads a module.
    ///
    /// # Errors
    ///
    /// The driver's code, for the caller to try another image.
    pub fn module(self: &Rc<Context>, image: &[u8], name: &str) -> Result<Module, NotLoaded> {
        let mut module = std::ptr::null_mut();
        // The driver finds the image's end in its own header, but for PTX, which ends with a zero.
        let mut ended = image.to_vec();
        ended.push(0);
        let f = self.current().map_err(NotLoaded::Device)?;
        // SAFETY: the image outlives the call, which copies it.
        match unsafe { f.module_load(&raw mut module, ended.as_ptr().cast()) } {
            Ok(()) => Ok(Module { context: Rc::clone(self), module }),
            Err(Refusal::Code { code, .. })
                if self.driver().vendor.meaning(code) == Meaning::WrongModule =>
            {
                Err(NotLoaded::WrongImage(self.driver().vendor.words(code)))
            }
            said => {
                let error = self.told(said, For::Kernel(name));
                Err(NotLoaded::Device(error.err().unwrap_or_else(|| {
                    DeviceError::Driver("a module that is neither loaded nor refused".into())
                })))
            }
        }
    }
}

/// Why an image was not loaded.
pub enum NotLoaded {
    /// It was made for another device or a newer driver, in the driver's words.
    WrongImage(String),
    /// Anything else.
    Device(DeviceError),
}

/// A loaded module, unloaded when dropped.
pub struct Module {
    context: Rc<Context>,
    module: Handle,
}

/// One entry of a module.
pub struct Entry {
    /// Its symbol.
    pub name: String,
    pub(super) function: Handle,
    /// Keeps the function's module loaded.
    _module: Rc<Module>,
}

impl Module {
    /// Finds an entry and allows it the shared memory and clusters that its launches will ask for.
    ///
    /// # Errors
    ///
    /// Where there is none of this name, or the device has less shared memory.
    pub fn entry(self: &Rc<Module>, name: &CStr, shape: &Shape) -> Result<Entry, DeviceError> {
        let context = &self.context;
        let f = context.current()?;
        let spelled = name.to_string_lossy().into_owned();
        let told = |said| context.told(said, For::Kernel(&spelled));
        let mut function = std::ptr::null_mut();
        // SAFETY: the name ends with a zero, the module is loaded.
        unsafe {
            told(f.module_function(&raw mut function, self.module, name.as_ptr()))?;
            // Now and not at its first launch, which would wait for a stream that is held. Drivers
            // before 12.4 have no such call; the gate gives up by itself.
            match f.function_load(function) {
                Err(Refusal::NoSymbol(_)) => {}
                said => told(said)?,
            }
            told((context.driver().vendor.allow)(f, function, shape))?;
        }
        Ok(Entry { name: spelled.clone(), function, _module: Rc::clone(self) })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if let Ok(functions) = self.context.current() {
            // SAFETY: loaded once, unloaded once.
            let _ = unsafe { functions.module_unload(self.module) };
        }
    }
}

/// A kernel's parameters: their bytes in one piece, or the address of each.
///
/// A tensor map has to be passed by its address. Compilers put it where its place in the GPU's
/// memory of parameters is a multiple of 64 bytes, and that memory begins at byte 0x210 on compute
/// capability 9.0, so that the offset is a multiple of 64 less 16: only the driver knows it, from
/// the machine code.
pub struct Arguments {
    words: Vec<Aligned>,
    length: usize,
    /// Where each begins, counted in units of 64 bytes; empty where all are one piece.
    starts: Vec<usize>,
}

#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Aligned([u8; 64]);

impl Arguments {
    /// In one piece: a kernel's struct, and what stands behind it without a gap.
    pub fn new(bytes: &[u8]) -> Arguments {
        let mut arguments =
            Arguments { words: Vec::new(), length: bytes.len(), starts: Vec::new() };
        arguments.push(bytes);
        arguments
    }

    /// Each by its address.
    pub fn apart<'a>(parameters: impl IntoIterator<Item = &'a [u8]>) -> Arguments {
        let mut arguments = Arguments { words: Vec::new(), length: 0, starts: Vec::new() };
        for bytes in parameters {
            arguments.starts.push(arguments.words.len());
            arguments.push(bytes);
        }
        arguments
    }

    fn push(&mut self, bytes: &[u8]) {
        self.words.extend(bytes.chunks(64).map(|chunk| {
            let mut word = Aligned([0; 64]);
            word.0[..chunk.len()].copy_from_slice(chunk);
            word
        }));
    }

    /// Their address and number of bytes, where they are one piece.
    pub(super) fn piece(&mut self) -> Option<(Handle, usize)> {
        self.starts.is_empty().then(|| (self.words.as_mut_ptr().cast(), self.length))
    }

    /// The address of each, where they are not.
    pub(super) fn addresses(&mut self) -> Vec<Handle> {
        let words = &mut self.words;
        self.starts.iter().map(|&start| (&raw mut words[start]).cast()).collect()
    }
}
