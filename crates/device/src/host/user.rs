//! Kernels of the host that a user brings: entries of a shared object, which each pinned thread
//! calls.

#![expect(unsafe_code, reason = "code of the user's is called by pointer")]

use super::{
    kernel::{HostKernel, KernelThreads},
    pool,
};
use crate::{DeviceError, Result, library, user::UserFile};
use fizeau_domain::{
    case::KernelName,
    kernel::{Operation, manifest::KernelRow},
    outcome::Code,
};
use std::{
    env,
    ffi::{c_int, c_void},
    mem,
    sync::Arc,
};

/// An entry, as examples/your-kernel/fizeau.h declares it: the operation's parameters, which block
/// of how many, how many iterations. It returns 0, or another number where it does not take the
/// shape.
type Entry = unsafe extern "C" fn(*const c_void, u32, u32, u64) -> c_int;

/// The kernel of an operation and a name, and its file.
pub fn find<'f>(
    files: &'f [UserFile],
    operation: Operation,
    kernel: &KernelName,
) -> Option<(&'f UserFile, &'f KernelRow)> {
    files.iter().find_map(|file| Some((file, file.row(operation, &kernel.0)?)))
}

/// Opens the library, which runs its initialisers, and finds the entry.
///
/// # Errors
///
/// [`DeviceError::Launch`] in the loader's words.
pub fn load(file: &UserFile, row: &KernelRow) -> Result<(HostKernel, Code)> {
    let refused = |why: String| DeviceError::Launch { kernel: row.name.clone(), why };
    let opened = library::open_file(&file.path).map_err(refused)?;
    let address = opened.address(&[row.entry.as_str()]);
    if address.is_null() {
        let path = file.path.display();
        return Err(refused(format!("{path} exports no symbol {:?}", row.entry)));
    }
    // SAFETY: the contract says that an entry is such a function; it stays loaded for good.
    let entry: Entry = unsafe { mem::transmute(address) };
    let name = row.name.clone();
    let run = move |block: &pool::Block<'_>| {
        let params = block.bytes().as_ptr().cast();
        // SAFETY: the parameters are those of the operation; what the entry does with them is the
        // user's, in a process that measures nothing else.
        let said = unsafe { entry(params, block.index, block.count, u64::from(block.repeat)) };
        if said != 0 {
            let needs = format!("another one: its entry returned {said}");
            pool::give_up(DeviceError::Unfit { kernel: name.clone(), needs });
        }
    };
    let kernel = HostKernel {
        operation: row.operation,
        // Once for each kernel that a process loads: as long as the library, which is not closed.
        name: row.name.clone().leak(),
        features: &[],
        threads: KernelThreads::User,
        run: Arc::new(run),
    };
    let code = Code::Image {
        sha256: file.told.sha256.clone(),
        target: env::consts::ARCH.into(),
        compiler: "the user".into(),
    };
    Ok((kernel, code))
}
