//! Lanes in plain Rust.

use super::lanes::{Lanes, turned};

/// As many as a loop without branches does well.
pub(super) struct Plain;

impl Lanes for Plain {
    const COUNT: usize = 8;

    #[inline(always)]
    unsafe fn keep(
        from: *const f32,
        first: u32,
        least: f32,
        keys: *mut i32,
        places: *mut u32,
    ) -> usize {
        let mut count = 0;
        // SAFETY: the caller's promise.
        unsafe {
            for lane in 0..Self::COUNT {
                let number = from.add(lane).read();
                keys.add(count).write(turned(number.to_bits() as i32));
                places.add(count).write(first + lane as u32);
                count += usize::from(number > least);
            }
        }
        count
    }

    #[inline(always)]
    unsafe fn compare(keys: *const i32, key: i32) -> [u32; 2] {
        let [mut greater, mut equal] = [0; 2];
        // SAFETY: the caller's promise.
        unsafe {
            for lane in 0..Self::COUNT {
                let one = keys.add(lane).read();
                greater |= u32::from(one > key) << lane;
                equal |= u32::from(one == key) << lane;
            }
        }
        [greater, equal]
    }

    #[inline(always)]
    unsafe fn compress(from: (*const i32, *const u32), lanes: u32, to: (*mut i32, *mut u32)) {
        // SAFETY: the caller's promise.
        unsafe {
            let keys = from.0.cast::<[i32; Self::COUNT]>().read_unaligned();
            let places = from.1.cast::<[u32; Self::COUNT]>().read_unaligned();
            let mut count = 0;
            for lane in 0..Self::COUNT {
                to.0.add(count).write(keys[lane]);
                to.1.add(count).write(places[lane]);
                count += (lanes >> lane & 1) as usize;
            }
        }
    }
}
