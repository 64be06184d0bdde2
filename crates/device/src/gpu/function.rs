//! What a function of this backend does when it is launched: most are kernels.

use super::{
    blas_lt::{self, Kind},
    context::Context,
    graph::Graph,
    kernels::{Kernels, Loaded},
    products::Products,
    tuned::{self, Tuned},
};
use crate::{Launch, Result};
use fizeau_domain::{
    case::{KernelName, Launching},
    kernel::{GemmParams, LaunchParams, Operation, TransferParams},
    outcome::Code,
    tuning::TUNED,
};
use std::{cell::RefCell, rc::Rc};

/// The copy engines' name among kernels, as nvbandwidth abbreviates it.
const COPY_ENGINE: &str = "ce";

/// What launching a [`Function`](crate::Function) does.
pub enum Action {
    /// A kernel.
    Kernel(Loaded),
    /// The fastest of several kernels.
    Tuned(Tuned),
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
/// named so among kernels, has products of these element types. It is named also where it is
/// missing: its cases then say what would bring it. Where no kernel is made for the device's
/// architecture, the library is the better guess.
pub fn names(
    kernels: &Kernels,
    operation: Operation,
    (library, kinds): (&str, &[Kind]),
) -> Vec<KernelName> {
    let mut names = kernels.names(of_kernel(operation));
    if tuned::has(operation, kernels.bundled_names(operation).len()) {
        names.insert(0, KernelName(TUNED.into()));
    }
    if operation == Operation::Copy {
        names.insert(0, KernelName(COPY_ENGINE.into()));
    }
    if blas_lt::has(operation, kinds) {
        let place = if kernels.unknown_architecture().is_some() { 0 } else { names.len() };
        names.insert(place, KernelName(library.into()));
    }
    names
}

/// The operation that the list of kernels has a kernel for: all ways to launch next to nothing
/// share one.
fn of_kernel(operation: Operation) -> Operation {
    match operation {
        Operation::Launch(_) => Operation::Launch(Launching::Queued),
        other => other,
    }
}

/// Makes one ready.
///
/// # Errors
///
/// As for [`Kernels::load`].
pub fn load(
    kernels: &Kernels,
    context: &Rc<Context>,
    operation: Operation,
    name: &str,
    kinds: &[Kind],
) -> Result<Action> {
    let kernel = || kernels.load(context, of_kernel(operation), name);
    Ok(match (operation, name) {
        (Operation::Copy, COPY_ENGINE) => Action::Copy,
        (_, TUNED) => Action::Tuned(Tuned::new(kernels, context, operation)?),
        (_, name) if name == context.driver().vendor.products.name => {
            Action::Library(Products::new(context, kinds)?)
        }
        (Operation::Launch(Launching::Waited), _) => Action::Waited(kernel()?),
        (Operation::Launch(Launching::Graph), _) => Action::Graph(kernel()?, RefCell::new(None)),
        _ => Action::Kernel(kernel()?),
    })
}

impl Action {
    /// Blocks of a cluster of its launches; 1 where there are none.
    pub fn cluster(&self) -> u32 {
        match self {
            Action::Kernel(kernel) | Action::Waited(kernel) | Action::Graph(kernel, _) => {
                kernel.cluster()
            }
            Action::Library(_) | Action::Copy | Action::Tuned(_) => 1,
        }
    }

    /// What code it is; none of the driver's own copies, nor of what has several until one is
    /// chosen.
    pub fn code(&self) -> Option<Code> {
        match self {
            Action::Kernel(kernel) | Action::Waited(kernel) | Action::Graph(kernel, _) => {
                Some(kernel.code.clone())
            }
            Action::Library(products) => products.code(),
            Action::Copy | Action::Tuned(_) => None,
        }
    }

    /// Enqueues it.
    pub fn launch(&self, context: &Rc<Context>, launch: &Launch<'_>) -> Result<()> {
        match self {
            Action::Kernel(kernel) => kernel.launch(context, launch),
            Action::Tuned(tuned) => tuned.launch(context, launch),
            Action::Library(products) => {
                let params: &GemmParams = (&launch.params).try_into()?;
                products.launch(params, launch.repeat)
            }
            Action::Copy => {
                let params: &TransferParams = (&launch.params).try_into()?;
                context.copy(params, launch.repeat)
            }
            Action::Waited(kernel) => (0..launch.repeat).try_for_each(|_| {
                kernel.launch(context, &Launch { repeat: 1, ..*launch })?;
                context.wait("a kernel")
            }),
            Action::Graph(kernel, made) => {
                let params: &LaunchParams = (&launch.params).try_into()?;
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
