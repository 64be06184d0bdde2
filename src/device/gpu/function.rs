//! What a function of this backend does when it is launched: most are kernels.

use super::{
    blas_lt::{self, Kind},
    context::Context,
    graph::Graph,
    kernels::{Kernels, Loaded},
    products::Products,
};
use crate::{
    case::KernelName,
    device::{DeviceError, Launch},
    kernel::{GemmParams, LaunchParams, TransferParams},
};
use std::{cell::RefCell, rc::Rc};

/// The copy engines' name among kernels, as nvbandwidth abbreviates it.
const COPY_ENGINE: &str = "ce";
const COPY: &str = "transfer/copy";

/// The ways to launch next to nothing, all with the kernels of `launch`.
const QUEUED: &str = "launch/queued";
const WAITED: &str = "launch/waited";
const GRAPH: &str = "launch/graph";

/// One of them.
pub enum Action {
    /// A kernel.
    Kernel(Loaded),
    /// Copy engines.
    Copy,
    /// A kernel that the host waits for each time.
    Waited(Loaded),
    /// The vendor's matrix products.
    Library(Products),
    /// A kernel many times in a graph, which is made at its first launch.
    Graph(Loaded, RefCell<Option<(LaunchParams, Graph)>>),
}

/// Names of those for an operation, best guess first, on a device where the vendor's library,
/// called so among kernels, has products of these element types. It is named also where it is
/// missing: its cases then say what would bring it.
pub fn names(
    kernels: &Kernels,
    operation: &str,
    (library, kinds): (&str, &[Kind]),
) -> Vec<KernelName> {
    let mut names = match operation {
        QUEUED | WAITED | GRAPH => kernels.names("launch"),
        _ => kernels.names(operation),
    };
    if operation == COPY {
        names.insert(0, KernelName(COPY_ENGINE.into()));
    }
    if blas_lt::has(operation, kinds) {
        names.push(KernelName(library.into()));
    }
    names
}

/// Makes one ready.
///
/// # Errors
///
/// As for [`Kernels::load`].
pub fn load(
    kernels: &Kernels,
    context: &Rc<Context>,
    operation: &str,
    name: &str,
    kinds: &[Kind],
) -> Result<Action, DeviceError> {
    let of_launch = || kernels.load(context, "launch", name);
    Ok(match (operation, name) {
        (COPY, COPY_ENGINE) => Action::Copy,
        (_, name) if name == context.driver().vendor.products.name => {
            Action::Library(Products::new(context, kinds)?)
        }
        (QUEUED, _) => Action::Kernel(of_launch()?),
        (WAITED, _) => Action::Waited(of_launch()?),
        (GRAPH, _) => Action::Graph(of_launch()?, RefCell::new(None)),
        _ => Action::Kernel(kernels.load(context, operation, name)?),
    })
}

impl Action {
    /// Enqueues it.
    ///
    /// # Errors
    ///
    /// What the driver refuses.
    pub fn launch(&self, context: &Rc<Context>, launch: &Launch<'_>) -> Result<(), DeviceError> {
        let params = launch.params.any();
        let other = || DeviceError::Driver("parameters of another operation".into());
        match self {
            Action::Kernel(kernel) => kernel.launch(context, launch),
            Action::Library(products) => {
                let params: &GemmParams = params.downcast_ref().ok_or_else(other)?;
                products.launch(params, launch.repeat)
            }
            Action::Copy => {
                let params: &TransferParams = params.downcast_ref().ok_or_else(other)?;
                context.copy(params, launch.repeat)
            }
            Action::Waited(kernel) => (0..launch.repeat).try_for_each(|_| {
                kernel.launch(context, &Launch { repeat: 1, ..*launch })?;
                context.wait("a kernel")
            }),
            Action::Graph(kernel, made) => {
                let params: &LaunchParams = params.downcast_ref().ok_or_else(other)?;
                let mut made = made.borrow_mut();
                if made.as_ref().is_none_or(|(of, _)| of != params) {
                    *made = Some((*params, kernel.graph(context, params)?));
                }
                let graph = made.as_ref().map(|(_, graph)| graph);
                (0..launch.repeat).try_for_each(|_| graph.map_or(Ok(()), Graph::launch))
            }
        }
    }
}
