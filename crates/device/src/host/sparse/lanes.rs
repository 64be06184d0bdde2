//! The greatest of some numbers, and how vectors find them.
//!
//! A stream of numbers is filtered by what is known to be too small, and what passes is kept beside
//! its place until there is too much of it. Then the least that is still wanted is found by halving
//! the range of values, and all below it is dropped. What is kept stays in the order of its places,
//! so that of equal numbers the first ones are those that are wanted.
//!
//! Everything here is inlined into a function that has the vector's instructions enabled, and
//! reaches speed only there.

use std::ops::Range;

/// Numbers that are filtered between two looks at the room that is left.
const CHUNK: usize = 1024;

/// A vector of numbers.
///
/// # Safety
///
/// Every function needs the vector's instructions; addresses are those of [`Lanes::COUNT`]
/// elements.
pub(super) trait Lanes {
    /// Lanes of a vector, at most 32.
    const COUNT: usize;

    /// Stores the keys of the numbers that are greater than one, and the places of these, of which
    /// `first` is that of the first lane; gives how many there are. Whole vectors are written.
    unsafe fn keep(
        from: *const f32,
        first: u32,
        least: f32,
        keys: *mut i32,
        places: *mut u32,
    ) -> usize;

    /// Lanes whose keys are greater than one, and those whose keys are equal to it.
    unsafe fn compare(keys: *const i32, key: i32) -> [u32; 2];

    /// Stores some lanes of keys and places, one after the other. Whole vectors are written, after
    /// both were read.
    unsafe fn compress(from: (*const i32, *const u32), lanes: u32, to: (*mut i32, *mut u32));
}

/// A number as an integer of the same order; the same turns it back.
pub(super) fn turned(bits: i32) -> i32 {
    bits ^ (bits >> 31 & 0x7fff_ffff)
}

/// What was kept of the numbers seen so far.
pub(super) struct Kept {
    keys: Vec<i32>,
    places: Vec<u32>,
    count: usize,
    /// How many are wanted.
    wanted: usize,
    /// Numbers that are not greater than this are known not to be among them.
    least: f32,
}

impl Kept {
    /// Room for some that are wanted of many, or for `all` that are given at once.
    pub fn new(wanted: usize, all: usize) -> Kept {
        let room = (2 * wanted).max(2 * CHUNK).max(all) + 2 * CHUNK;
        Kept { keys: vec![0; room], places: vec![0; room], count: 0, wanted, least: LEAST }
    }

    pub fn clear(&mut self) {
        (self.count, self.least) = (0, LEAST);
    }

    /// Keeps those of a row at these places that may be wanted.
    ///
    /// # Safety
    ///
    /// The row has these places, all of its numbers are finite, and the CPU has the instructions.
    #[inline(always)]
    pub unsafe fn see<L: Lanes>(&mut self, row: *const f32, places: Range<usize>) {
        let mut at = places.start;
        while at < places.end {
            if self.count + 2 * CHUNK > self.keys.len() {
                // SAFETY: the caller's promise.
                unsafe { self.prune::<L>() };
            }
            let end = (at + CHUNK).min(places.end);
            // SAFETY: the caller's promise; a chunk and a vector more have room.
            unsafe {
                while at + L::COUNT <= end {
                    self.keep::<L>(row.add(at), at);
                    at += L::COUNT;
                }
                if at < end {
                    let mut rest = [f32::NEG_INFINITY; 32];
                    rest[..end - at]
                        .copy_from_slice(std::slice::from_raw_parts(row.add(at), end - at));
                    self.keep::<L>(rest.as_ptr(), at);
                    at = end;
                }
            }
        }
    }

    /// # Safety
    ///
    /// As for [`Lanes`]; a vector more has room.
    #[inline(always)]
    unsafe fn keep<L: Lanes>(&mut self, from: *const f32, at: usize) {
        let (keys, places) = (self.keys.as_mut_ptr(), self.places.as_mut_ptr());
        // SAFETY: the caller's promise.
        unsafe {
            let (keys, places) = (keys.add(self.count), places.add(self.count));
            self.count += L::keep(from, at as u32, self.least, keys, places);
        }
    }

    /// Adds what others kept, in the order of places.
    pub fn extend(&mut self, keys: &[i32], places: &[u32]) {
        let end = self.count + keys.len();
        self.keys[self.count..end].copy_from_slice(keys);
        self.places[self.count..end].copy_from_slice(places);
        self.count = end;
    }

    /// Drops all that are not wanted.
    ///
    /// # Safety
    ///
    /// The CPU has the instructions.
    #[inline(always)]
    pub unsafe fn prune<L: Lanes>(&mut self) {
        if self.count <= self.wanted {
            return;
        }
        // Behind the last key none counts.
        let end = self.count.next_multiple_of(L::COUNT);
        self.keys[self.count..end].fill(i32::MIN);
        // SAFETY: the caller's promise; there is room for whole vectors.
        unsafe {
            let (least, mut of_equal) = self.least_wanted::<L>(end);
            let (keys, places) = (self.keys.as_mut_ptr(), self.places.as_mut_ptr());
            let mut kept = 0;
            for at in (0..end).step_by(L::COUNT) {
                let [greater, mut equal] = L::compare(keys.add(at), least);
                while equal.count_ones() > of_equal {
                    equal &= !(1 << equal.ilog2());
                }
                of_equal -= equal.count_ones();
                let from = (keys.add(at).cast_const(), places.add(at).cast_const());
                L::compress(from, greater | equal, (keys.add(kept), places.add(kept)));
                kept += (greater | equal).count_ones() as usize;
            }
            self.count = kept;
            self.least = f32::from_bits(turned(least) as u32);
        }
    }

    /// The key such that what is wanted is all that is greater, and as many as are given beside it
    /// of those that are equal.
    ///
    /// # Safety
    ///
    /// As for [`Lanes`], for `end` keys.
    #[inline(always)]
    unsafe fn least_wanted<L: Lanes>(&self, end: usize) -> (i32, u32) {
        let (mut least, mut most) = (i32::MAX, i32::MIN);
        for &key in &self.keys[..self.count] {
            (least, most) = (least.min(key), most.max(key));
        }
        // More than are wanted are greater than `low`, fewer are greater than `high`.
        let (mut low, mut high, mut above) = (i64::from(least) - 1, i64::from(most), 0);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            // SAFETY: the caller's promise.
            let count = unsafe { self.greater::<L>(end, middle as i32) };
            if count == self.wanted {
                return (middle as i32, 0);
            }
            if count > self.wanted {
                low = middle;
            } else {
                (high, above) = (middle, count);
            }
        }
        (high as i32, (self.wanted - above) as u32)
    }

    /// How many keys are greater than one.
    ///
    /// # Safety
    ///
    /// As for [`Lanes`], for `end` keys.
    #[inline(always)]
    unsafe fn greater<L: Lanes>(&self, end: usize, key: i32) -> usize {
        let mut count = 0;
        for at in (0..end).step_by(L::COUNT) {
            // SAFETY: the caller's promise.
            count += unsafe { L::compare(self.keys.as_ptr().add(at), key) }[0].count_ones();
        }
        count as usize
    }

    /// What is kept, in the order of places.
    pub fn found(&self) -> (&[i32], &[u32]) {
        (&self.keys[..self.count], &self.places[..self.count])
    }
}

/// Less than every number.
const LEAST: f32 = f32::NEG_INFINITY;
