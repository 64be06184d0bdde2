//! What a driver's codes mean for a run. Which code means what, each vendor says by its own header.

/// What a code means for what comes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Work is not done yet: no error.
    NotReady,
    /// The device or its driver does not do this.
    NotSupported,
    /// A peer's memory is within reach already: no error.
    PeerWithinReach,
    /// Memory could not be had.
    OutOfMemory,
    /// The module was not made for this device or driver.
    WrongModule,
    /// This launch or call was refused; the next one may be right.
    Refused,
    /// A block of this launch needs more registers or shared memory than there is.
    TooLarge,
    /// A kernel broke its context: "the process must be terminated and relaunched".
    Broken,
    /// The device is gone, or its memory is.
    Gone,
    /// The driver cannot work on this machine as it is set up; with what to do about it.
    Setup(&'static str),
    /// A code that the vendor's header of this version does not list.
    Unknown,
}

/// One of a driver's codes.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    /// Its number.
    pub number: i32,
    /// In words.
    pub words: &'static str,
    /// What it means.
    pub meaning: Meaning,
}

/// Whether codes are in the order of their numbers, each once.
pub const fn are_in_order(codes: &[Code]) -> bool {
    let mut at = 1;
    while at < codes.len() {
        if codes[at - 1].number >= codes[at].number {
            return false;
        }
        at += 1;
    }
    true
}

/// Declares a vendor's codes, in the order of their numbers: what its header calls each, what it
/// means and its words.
macro_rules! codes {
    ($( $name:ident, $meaning:expr, $words:literal; )*) => {
        /// Codes, in their order.
        pub const CODES: &[Code] =
            &[$( Code { number: $name as i32, words: $words, meaning: $meaning }, )*];

        const _: () = assert!($crate::gpu::status::are_in_order(CODES));
    };
}
pub(crate) use codes;
