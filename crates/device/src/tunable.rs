//! Functions that can do their work in several ways.

use super::{Function, Result};
use fizeau_domain::kernel::Params;

/// A device with functions that can do their work in several ways, of which whoever times them
/// takes one. Until then a function takes the device's best guess.
pub trait Tunable {
    /// Names of the candidates of a function for such work, the best guess first; none where it
    /// has one way alone.
    ///
    /// # Errors
    ///
    /// Where a library cannot say what it offers for the work.
    fn candidates(&self, function: &Function, params: &Params) -> Result<Vec<String>>;

    /// Lets the candidate at that place do the function's work from now on.
    ///
    /// # Errors
    ///
    /// Where there is none, or it could not be loaded.
    fn choose(&self, function: &Function, candidate: usize) -> Result<()>;
}
