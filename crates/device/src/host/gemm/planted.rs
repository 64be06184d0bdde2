//! An unfinished sum of which a test build flips a bit, as a faulty adder would: what then comes of
//! it are the kernel's own roundings. A release build has no such sum.

use std::sync::{Mutex, PoisonError};

/// Which sum, by the address of its C and its place there, and which bit.
static PLANTED: Mutex<Option<[u64; 3]>> = Mutex::new(None);

/// Flips a bit of a sum of the next product whose C is at an address.
pub fn plant_in_sum(c: u64, element: u64, bit: u32) {
    if fizeau_domain::CAN_PLANT {
        let planted = Some([c, element, u64::from(bit)]);
        *PLANTED.lock().unwrap_or_else(PoisonError::into_inner) = planted;
    }
}

/// The element and the bit that are planted for a C, if `is_its` own; they are gone then.
pub(super) fn take(c: u64, is_its: impl Fn(usize) -> bool) -> Option<(usize, u32)> {
    let mut planted = PLANTED.lock().unwrap_or_else(PoisonError::into_inner);
    let [_, element, bit] =
        planted.filter(|[of, element, _]| *of == c && is_its(*element as usize))?;
    *planted = None;
    Some((element as usize, bit as u32))
}
