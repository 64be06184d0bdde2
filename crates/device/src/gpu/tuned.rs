//! The bundled kernels of an operation as one function, whose fastest kernel is found by trying.

use super::{
    context::Context,
    kernels::{Kernels, Loaded},
};
use crate::{DeviceError, Launch, Result};
use fizeau_domain::{
    case::KernelName,
    kernel::{Operation, Params},
    tuning::TUNED,
};
use std::{cell::RefCell, rc::Rc};

/// Candidates that are tried, at most: as many as algorithms are asked of a vendor's library.
pub const CANDIDATES_MAX: usize = 16;

/// Whether an operation has a tuned kernel where it has this many bundled ones.
pub fn has(operation: Operation, bundled: usize) -> bool {
    bundled > 1 && matches!(operation, Operation::Gemm(..) | Operation::Grouped(_))
}

/// All bundled kernels of an operation.
pub struct Tuned {
    operation: Operation,
    kernels: Vec<(KernelName, Result<Loaded>)>,
    /// Places of those that take the work, once it is known, and which of these is launched.
    fit: RefCell<(Vec<usize>, usize)>,
}

impl Tuned {
    /// Loads them. One that cannot be loaded is kept with the reason.
    ///
    /// # Errors
    ///
    /// Where the device is lost meanwhile.
    pub fn new(kernels: &Kernels, context: &Rc<Context>, operation: Operation) -> Result<Tuned> {
        let load = |name: KernelName| match kernels.load(context, operation, &name.0) {
            Err(error @ DeviceError::Lost(_)) => Err(error),
            loaded => Ok((name, loaded)),
        };
        let kernels = kernels.bundled_names(operation).into_iter().map(load);
        let kernels = kernels.collect::<Result<Vec<_>>>()?;
        Ok(Tuned { operation, kernels, fit: RefCell::default() })
    }

    /// Whether one of them takes the work.
    ///
    /// # Errors
    ///
    /// What the last of them says where none does.
    pub fn takes(&self, params: &Params, units: u32) -> Result<()> {
        let takes = |loaded: &Result<Loaded>| match loaded {
            Ok(kernel) => kernel.takes(params, units),
            // Tried, so that a record says why it was not chosen.
            Err(_) => Ok(()),
        };
        let mut refusal = Err(DeviceError::Unsupported {
            kernel: format!("{}/{TUNED}", self.operation),
            needs: "a kernel that takes this work".into(),
        });
        let mut fit = Vec::new();
        for (place, (_, loaded)) in self.kernels.iter().enumerate() {
            match takes(loaded) {
                Ok(()) => fit.push(place),
                refused => refusal = refused,
            }
        }
        fit.truncate(CANDIDATES_MAX);
        let is_loaded = |&place: &usize| self.kernels[place].1.is_ok();
        let Some(first) = fit.iter().position(is_loaded) else {
            let error = fit.first().map(|&place| self.kernels[place].1.as_ref().err().cloned());
            return error.flatten().map_or(refusal, Err);
        };
        self.fit.replace((fit, first));
        Ok(())
    }

    /// Names of those that take such work.
    ///
    /// # Errors
    ///
    /// As [`Tuned::takes`].
    pub fn candidates(&self, params: &Params, units: u32) -> Result<Vec<String>> {
        self.takes(params, units)?;
        let fit = self.fit.borrow();
        Ok(fit.0.iter().map(|&place| self.kernels[place].0.0.clone()).collect())
    }

    /// Takes one of them from now on.
    ///
    /// # Errors
    ///
    /// Why it could not be loaded.
    pub fn choose(&self, candidate: usize) -> Result<&Loaded> {
        self.fit.borrow_mut().1 = candidate;
        self.chosen()
    }

    fn chosen(&self) -> Result<&Loaded> {
        let fit = self.fit.borrow();
        let place = fit.0.get(fit.1).ok_or_else(|| {
            DeviceError::Driver("a candidate of a kernel that was not asked for any".into())
        })?;
        self.kernels[*place].1.as_ref().map_err(Clone::clone)
    }

    /// Enqueues the chosen one.
    ///
    /// # Errors
    ///
    /// As [`Loaded::launch`].
    pub fn launch(&self, context: &Rc<Context>, launch: &Launch<'_>) -> Result<()> {
        self.chosen()?.launch(context, launch)
    }
}
