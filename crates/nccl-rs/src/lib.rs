//! NCCL and RCCL, opened at run time.
//!
//! Both libraries export the same functions over the same types, so that one table serves both
//! vendors: `libnccl.so.2` with a CUDA stream, `librccl.so.1` with a HIP stream. Nothing is linked.
//! A library that is not there, a function that an older one lacks, a code that nobody has heard
//! of: each is an [`Error`], never a panic.
//!
//! What an older library cannot do by itself is made of what it can: all_to_all, gather and scatter
//! are grouped sends and receives where there is no call of their own.
//!
//! ```no_run
//! use nccl_rs::{Communicator, DataType, Library, Reduction, Stream};
//! use std::{sync::Arc, time::Duration};
//!
//! # fn main() -> Result<(), nccl_rs::Error> {
//! let library = Arc::new(Library::open(["libnccl.so.2"])?);
//! println!("NCCL {}", library.version());
//! let id = library.unique_id()?; // one rank makes it, all get it
//! let world = Communicator::new(&library, &id, 0, 1, Duration::from_secs(60))?;
//! # let (device_memory, stream) = (std::ptr::null_mut(), Stream(std::ptr::null_mut()));
//! // SAFETY: 1024 elements of device memory that live until the stream is done.
//! unsafe {
//!     let (data, sum) = (DataType::Float32, Reduction::Sum);
//!     world.all_reduce(device_memory, device_memory, 1024, data, sum, stream)?;
//! }
//! # Ok(())
//! # }
//! ```

#[cfg(test)]
mod bindings;
mod communicator;
mod composed;
mod library;
mod table;
mod types;

pub use communicator::{Communicator, Monitor, Registration};
pub use composed::{Peers, Slice};
pub use library::{Library, Memory};
pub use types::{DataType, Error, Reduction, Stream, UniqueId, Version};
