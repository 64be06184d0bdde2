//! Loaded modules, their entries, and what a launch is described by.

#![expect(unsafe_code, reason = "the driver is a C library")]

use super::{
    context::{Context, For},
    status::Meaning,
    vendor::Shape,
};
use crate::{
    DeviceError, Result,
    library::{Handle, Refusal},
};
use fizeau_domain::units::Bytes;
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
    /// Why no block of its launches fits the device, where that is known beforehand.
    pub(super) too_large: Option<String>,
    /// Keeps the function's module loaded.
    module: Rc<Module>,
}

impl Module {
    /// Finds an entry and allows it the shared memory and clusters that its launches will ask for,
    /// on a device whose blocks have `block_memory` of shared memory at most. One that needs more
    /// than a block can have is found all the same, and refused when it is launched.
    ///
    /// # Errors
    ///
    /// Where there is none of this name, or the device has less shared memory.
    pub fn entry(
        self: &Rc<Module>,
        name: &CStr,
        shape: &Shape,
        block_memory: Option<Bytes>,
    ) -> Result<Entry> {
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
        }
        let vendor = context.driver().vendor;
        // SAFETY: the function is loaded.
        let needs = vendor.needs.map(|needs| unsafe { needs(f, function) }).unwrap_or_default();
        let too_large = needs.too_large(shape, block_memory);
        if too_large.is_none() {
            // SAFETY: the function is loaded.
            told(unsafe { (vendor.allow)(f, function, shape) })?;
        }
        Ok(Entry { name: spelled.clone(), function, too_large, module: Rc::clone(self) })
    }
}

/// More parameters than a kernel can have: they are 32,764 bytes at most.
const PARAMETERS_MAX: usize = 1 << 15;

impl Entry {
    /// Bytes of each of its parameters, as its machine code has them. `None` where the driver does
    /// not tell: NVIDIA's tells since CUDA 12.4, AMD's does not.
    pub fn parameters(&self) -> Result<Option<Vec<usize>>> {
        let context = &self.module.context;
        let (f, vendor) = (context.current()?, context.driver().vendor);
        let mut found = Vec::new();
        while found.len() < PARAMETERS_MAX {
            let (mut place, mut bytes) = (0, 0);
            let (place, size) = (&raw mut place, &raw mut bytes);
            // SAFETY: the function is loaded, the pointers are valid.
            match unsafe { f.function_parameter(self.function, found.len(), place, size) } {
                Ok(()) => found.push(bytes),
                Err(Refusal::NoSymbol(_)) => return Ok(None),
                Err(refusal) if vendor.means(&refusal, Meaning::NotSupported) => return Ok(None),
                // There is none of this number.
                Err(refusal) if vendor.means(&refusal, Meaning::Refused) => break,
                said => context.told(said, For::Kernel(&self.name))?,
            }
        }
        Ok(Some(found))
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
/// Zeros stand behind them: a driver reads as many parameters as the kernel has, and not every
/// driver tells beforehand how many those are of a kernel that a user brings.
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

/// Addresses behind those of the parameters, and bytes that each of them leads to.
const SPARE: usize = 64;
const SPARE_BYTES: usize = 4 << 10;

#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Aligned([u8; 64]);

impl Arguments {
    /// In one piece: a kernel's struct, and what stands behind it.
    pub fn new(bytes: &[u8]) -> Arguments {
        let mut arguments =
            Arguments { words: Vec::new(), length: bytes.len(), starts: Vec::new() };
        arguments.push(bytes);
        arguments.push(&[0; SPARE_BYTES]);
        arguments
    }

    /// In one piece: a kernel's struct, and numbers of four or eight bytes behind it, each at a
    /// multiple of its own size.
    pub fn packed(parameters: &[Vec<u8>]) -> Arguments {
        let mut piece = Vec::new();
        for bytes in parameters {
            piece.resize(piece.len().next_multiple_of(bytes.len().clamp(1, 8)), 0);
            piece.extend(bytes);
        }
        Arguments::new(&piece)
    }

    /// Each by its address.
    pub fn apart<'a>(parameters: impl IntoIterator<Item = &'a [u8]>) -> Arguments {
        let mut arguments = Arguments { words: Vec::new(), length: 0, starts: Vec::new() };
        for bytes in parameters {
            arguments.starts.push(arguments.words.len());
            arguments.push(bytes);
        }
        arguments.starts.resize(arguments.starts.len() + SPARE, arguments.words.len());
        arguments.push(&[0; SPARE_BYTES]);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_at_multiples_of_their_size() {
        let mut packed = Arguments::packed(&[vec![1; 56], vec![2; 4], vec![3; 8]]);
        let (_, length) = packed.piece().expect("one piece");
        assert_eq!(length, 72);
        let words: Vec<u8> = packed.words.iter().flat_map(|word| word.0).collect();
        assert_eq!(words[56..72], [2, 2, 2, 2, 0, 0, 0, 0, 3, 3, 3, 3, 3, 3, 3, 3]);
    }

    #[test]
    fn zeros_stand_behind_what_a_kernel_is_given() {
        let mut apart = Arguments::apart([&[1u8; 56][..], &[2; 128]]);
        let (first, addresses) = (apart.words.as_ptr() as usize, apart.addresses());
        let places: Vec<usize> = addresses.iter().map(|at| *at as usize - first).collect();
        assert_eq!(places[..3], [0, 64, 192]);
        assert!(places.len() == 2 + SPARE && places[2..].iter().all(|place| *place == 192));
        assert!(apart.words[3..].iter().all(|word| word.0 == [0; 64]));
        assert_eq!((apart.words.len() - 3) * 64, SPARE_BYTES);
        assert!(Arguments::new(&[1; 56]).words.len() * 64 >= SPARE_BYTES + 56);
    }
}
