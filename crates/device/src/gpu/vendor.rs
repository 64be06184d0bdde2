//! What differs between drivers that speak the same language.
//!
//! HIP's driver interface is CUDA's by other names: the same functions with the same parameters,
//! the same opaque handles, the same codes. So one table of functions and what is built on it serve
//! both, and this is all that differs.

use super::{
    blas_lt::BlasLtDialect,
    compiler::{self, LazyCompiler},
    status::{Code, Meaning},
    table::Functions,
    tensor_map::Encoding,
};
use crate::{
    DeviceError, Finding, State,
    bundle::KernelFiles,
    library::{Handle, Opened, Refusal, Wanted},
    pci::{self, OnTheBus},
};
use fizeau_domain::{text::counted, units::Bytes};
use std::{
    env,
    ffi::{c_int, c_uint},
    path::Path,
};

/// Encodes a tensor map as a kernel takes it.
pub type Encode = unsafe fn(&Functions, &Encoding) -> Result<Vec<u8>, Refusal>;

/// One vendor's driver.
pub struct Vendor {
    /// Who makes the devices.
    pub maker: &'static str,
    /// The driver interface's name.
    pub interface: &'static str,
    /// The library.
    pub library: Wanted,
    /// Its functions, as the opened library exports them.
    pub functions: fn(&Opened) -> Functions,
    /// The oldest version that will do, as the library counts.
    pub version_min: i32,
    /// What to say of an older one, given its version.
    pub too_old: fn(i32) -> DeviceError,
    /// What its version is called, before the number.
    pub before_version: &'static str,
    /// A version as people write it.
    pub version: fn(i32) -> String,
    /// What to do about a library that lacks a function.
    pub newer: &'static str,
    /// Codes by which a driver that is opened says that it has no device.
    pub no_device: &'static [i32],
    /// What to do about that.
    pub no_device_remedy: &'static str,
    /// How its GPUs are told on the PCI bus.
    pub on_the_bus: OnTheBus,
    /// Variables by which users hide devices from the driver.
    pub hiding: &'static [&'static str],
    /// What to look at where the driver does not work and does not say why.
    pub check: &'static str,
    /// Its codes, each once, those of success and of what never comes left out.
    pub codes: &'static [Code],
    /// Numbers that its functions are given.
    pub flags: Flags,
    /// The limit that says how much of the last-level cache is set aside, where there is one.
    pub set_aside: Option<c_int>,
    /// Asks leave for what the launches of a function need beyond what every launch may have.
    pub allow: unsafe fn(&Functions, Handle, &Shape) -> Result<(), Refusal>,
    /// Asks what a function needs of its blocks; none where the driver has no such call.
    pub needs: Option<unsafe fn(&Functions, Handle) -> BlockNeeds>,
    /// Enqueues a function with its extras.
    pub launch: unsafe fn(&Functions, &Launching) -> Result<(), Refusal>,
    /// Encodes a tensor map, as a kernel takes it; none where devices have none.
    pub encode: Option<Encode>,
    /// The kind by which a copy finds out itself what memories it is between, where copies are told
    /// a kind.
    pub copy_kind: Option<i32>,
    /// How another device is named whose memory is to be reached.
    pub names_peers: Peers,
    /// Its library of matrix products.
    pub products: &'static BlasLtDialect,
    /// Its kernels.
    pub kernels: KernelSet,
}

/// What both vendors number in headers of their own.
#[derive(Clone, Copy, Debug)]
pub struct Flags {
    /// A stream that does not wait for the default one, which is not used.
    pub non_blocking: c_uint,
    /// A capture that is none of other threads' business.
    pub thread_local: c_int,
    /// Host memory that is pinned for every device.
    pub portable: c_uint,
    /// Host memory that a device reads while the host writes it.
    pub mapped: c_uint,
    /// Extras of a launch: the parameters' bytes, their number, the end of the list.
    pub extras: [usize; 3],
}

/// How a function is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block, in bytes.
    pub shared: u32,
    /// Blocks of a cluster; `[1, 1, 1]` for none.
    pub cluster: [u32; 3],
}

/// What a function's machine code says of the blocks that it runs in, as far as the driver tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockNeeds {
    /// The most threads that its registers, and the bounds that it was compiled with, leave it.
    pub threads_max: Option<u32>,
    /// Bytes of shared memory that its text declares, beside what a launch adds.
    pub shared: Option<u32>,
}

impl BlockNeeds {
    /// Why a block of this shape cannot be had, with what to change; `None` where it can.
    pub fn too_large(&self, shape: &Shape, block_memory: Option<Bytes>) -> Option<String> {
        let threads = shape.threads;
        if let Some(most) = self.threads_max.filter(|&most| threads > most) {
            return Some(format!(
                "its registers, or the launch bounds that it was compiled with, leave a block at \
                 most {}, and its launches have {threads}: give its blocks fewer \
                 threads, or compile it with __launch_bounds__({threads})",
                counted(most as usize, "thread")
            ));
        }
        let (own, more) = (self.shared?, shape.shared);
        let most = block_memory.filter(|most| u64::from(own) + u64::from(more) > most.0)?;
        Some(format!(
            "its blocks need {own} bytes of shared memory that it declares and {more} that its \
             launches add, and a block of this device has {}: lower either",
            most.0
        ))
    }
}

/// A launch.
#[derive(Clone, Copy, Debug)]
pub struct Launching {
    /// Of this function.
    pub function: Handle,
    /// On this stream.
    pub stream: Handle,
    /// In this shape.
    pub shape: Shape,
    /// The addresses of its parameters; null where they are one piece.
    pub params: *mut Handle,
    /// Its extras, which say where its parameters are in one piece; null where they are not.
    pub extra: *mut Handle,
}

/// How a driver is told of another device.
#[derive(Clone, Copy)]
pub enum Peers {
    /// By its context.
    ByContext,
    /// By its number.
    ByDevice,
}

/// Where a vendor's kernels are found.
#[derive(Clone, Copy)]
pub struct KernelSet {
    /// The list of kernels and the files that it names.
    pub files: fn() -> KernelFiles,
    /// Compilers for texts without a binary, given the driver's version: the one that suits the
    /// driver first. What one does not compile or the driver does not load, the next one may.
    pub compilers: fn(i32) -> Vec<&'static LazyCompiler>,
    /// What to do where the driver loads nothing that these compilers make.
    pub remedy: &'static str,
    /// The compiler that a build without binaries did not find.
    pub builder: &'static str,
}

impl Vendor {
    /// What hides devices from the driver, as the user wrote it: `CUDA_VISIBLE_DEVICES=1`; every
    /// variable that is set.
    pub fn hidden(&self) -> Option<String> {
        let set = self.hiding.iter();
        let set = set.filter_map(|name| Some(format!("{name}={}", env::var(name).ok()?)));
        let all: Vec<String> = set.collect();
        (!all.is_empty()).then(|| all.join(" and "))
    }

    /// What it means that the driver shows no device: nothing is there to measure, or it is hidden,
    /// or it is there and the driver lost it.
    pub fn none_shown(&self) -> DeviceError {
        match self.hidden() {
            Some(hidden) => DeviceError::NoDevice {
                what: format!("{} GPU ({hidden})", self.maker),
                remedy: self.no_device_remedy.into(),
            },
            None => {
                let devices = Path::new(pci::DEVICES);
                pci::none_shown(devices, self.on_the_bus, self.maker, self.no_device_remedy)
            }
        }
    }

    /// Whether its kernels can be run at all, for `doctor`: as binaries that the build made, or as
    /// texts that are compiled when they are needed. Without a driver nothing is amiss.
    pub fn kernels_finding(&self, has_driver: bool) -> Finding {
        let KernelSet { files, compilers, builder, .. } = self.kernels;
        let what = format!("{} kernels", self.interface);
        if let Some(binaries) = files().built_with() {
            return Finding::ok(&what, binaries);
        }
        let compilers = compilers(self.version_min);
        let name = compilers.first().map_or("a compiler", |compiler| compiler.name());
        if compiler::found(&compilers).is_ok() {
            let found = format!("texts, which {name} compiles when they are needed");
            return Finding::ok(&what, found);
        }
        let found = format!(
            "no binaries were built in, and {name}, which compiles their texts, is not there"
        );
        let remedy = format!("install {name}, or build fizeau where {builder} is found");
        let state = if has_driver { State::Warn } else { State::Absent };
        Finding { state, what, found, remedy }
    }

    fn code(&self, number: i32) -> Option<&'static Code> {
        self.codes.iter().find(|code| code.number == number)
    }

    /// What a code means.
    pub fn meaning(&self, number: i32) -> Meaning {
        self.code(number).map_or(Meaning::Unknown, |code| code.meaning)
    }

    /// Whether a call was refused with a code of this meaning.
    pub fn means(&self, refusal: &Refusal, meaning: Meaning) -> bool {
        matches!(refusal, Refusal::Code { code, .. } if self.meaning(*code) == meaning)
    }

    /// A code in words.
    pub fn words(&self, number: i32) -> String {
        let interface = self.interface;
        match self.code(number) {
            Some(code) => format!("{} ({interface} error {number})", code.words),
            None => {
                format!("{interface} error {number}, which this version of fizeau does not know")
            }
        }
    }

    /// The driver, as errors name it.
    pub fn named(&self) -> String {
        format!("the {} driver", self.maker)
    }

    /// A refusal that has nothing to do with a kernel or a size.
    pub fn error(&self, refusal: &Refusal) -> DeviceError {
        match refusal {
            Refusal::NoSymbol(name) => DeviceError::Missing {
                what: format!("{name} in {}", self.library.files[0]),
                remedy: self.newer.into(),
            },
            Refusal::Code { call, code } => {
                let said = format!("{call}: {}", self.words(*code));
                match self.meaning(*code) {
                    Meaning::Gone => DeviceError::Lost(said),
                    Meaning::Setup(remedy) => {
                        DeviceError::Broken { what: self.named(), why: said, remedy: remedy.into() }
                    }
                    _ => DeviceError::Driver(said),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BlockNeeds, Shape};
    use fizeau_domain::units::Bytes;

    #[test]
    fn a_block_that_needs_more_than_there_is_says_what_to_change() {
        let shape = Shape { grid: [4, 1, 1], threads: 256, shared: 1 << 17, cluster: [1, 1, 1] };
        let needs = |threads_max, shared| BlockNeeds {
            threads_max: Some(threads_max),
            shared: Some(shared),
        };
        let most = Some(Bytes(227 << 10));
        let told = |needs: BlockNeeds, most| needs.too_large(&shape, most);
        assert_eq!(told(needs(256, 99 << 10), most), None);
        assert_eq!(told(needs(256, 1 << 20), None), None);
        assert_eq!(told(BlockNeeds::default(), most), None);
        let registers = told(needs(255, 0), most).expect("too many");
        assert!(registers.contains("255 threads") && registers.contains("__launch_bounds__(256)"));
        let shared = told(needs(256, (99 << 10) + 1), most).expect("too much");
        assert!(shared.contains("101377 bytes") && shared.contains("has 232448"), "{shared}");
    }
}
