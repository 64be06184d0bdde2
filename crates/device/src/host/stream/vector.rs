//! The loops of the vector variants, written once for every kind of vector.
//!
//! Everything here is inlined into a function that has the vector's instructions enabled, and
//! reaches speed only there.

use super::Part;

/// Elements of one turn in one stream: eight lines.
const TURN: usize = 64;

/// Sums kept apart: additions on two pipes need not wait for each other.
const SUMS: usize = 8;

/// Lanes of the widest vector.
const LANES_MAX: usize = 8;

/// A vector of `f64`, or one alone: what is left over at the end of a part.
///
/// # Safety
///
/// Every function needs the vector's instructions; addresses are those of as many elements as the
/// vector has, and for `store_past` aligned to the vector's size.
pub(super) trait Vector: Copy {
    const LANES: usize;
    unsafe fn load(from: *const f64) -> Self;
    unsafe fn store(self, to: *mut f64);
    /// Stores past the caches.
    unsafe fn store_past(self, to: *mut f64);
    /// The same in every lane.
    unsafe fn all(value: f64) -> Self;
    unsafe fn plus(self, other: Self) -> Self;
    /// The sum of the bits as integers, lane by lane.
    unsafe fn plus_words(self, other: Self) -> Self;
    unsafe fn times(self, other: Self) -> Self;
    /// `self * factor + term`
    unsafe fn times_plus(self, factor: Self, term: Self) -> Self;
}

/// An operation that gives `a` a value.
pub(super) trait Assign {
    /// Arrays read: `b`, then `c`.
    const SOURCES: usize;
    /// # Safety
    ///
    /// As for [`Vector`].
    unsafe fn value<V: Vector>(scale: V, b: V, c: V) -> V;
}

macro_rules! assign {
    ($name:ident, $sources:literal, |$scale:pat_param, $b:pat_param, $c:pat_param| $value:expr) => {
        pub(super) enum $name {}
        impl Assign for $name {
            const SOURCES: usize = $sources;
            #[inline(always)]
            unsafe fn value<V: Vector>($scale: V, $b: V, $c: V) -> V {
                $value
            }
        }
    };
}

assign!(Write, 0, |scale, _, _| scale);
assign!(Copied, 1, |_, b, _| b);
assign!(Scale, 1, |scale, b, _| {
    // SAFETY: the caller promises the vector's instructions.
    unsafe { scale.times(b) }
});
assign!(Add, 2, |_, b, c| {
    // SAFETY: the caller promises the vector's instructions.
    unsafe { b.plus(c) }
});
assign!(Triad, 2, |scale, b, c| {
    // SAFETY: the caller promises the vector's instructions.
    unsafe { scale.times_plus(c, b) }
});

/// An iteration of an operation that gives `a` a value, in `STREAMS` places at once.
///
/// # Safety
///
/// As for [`super::Body`] and [`Vector`].
#[inline(always)]
pub(super) unsafe fn assign<O: Assign, V: Vector, const PAST: bool, const STREAMS: usize>(
    part: &Part,
) -> u64 {
    // SAFETY: the caller's promise; every place lies below the part's length.
    unsafe {
        let scale = V::all(part.scale);
        let chunk = part.length / STREAMS / TURN * TURN;
        let mut within = 0;
        while within < chunk {
            for stream in 0..STREAMS {
                for lanes in 0..TURN / V::LANES {
                    let at = stream * chunk + within + lanes * V::LANES;
                    let b = if O::SOURCES > 0 { V::load(part.b.add(at)) } else { scale };
                    let c = if O::SOURCES > 1 { V::load(part.c.add(at)) } else { scale };
                    let value = O::value(scale, b, c);
                    if PAST {
                        value.store_past(part.a.add(at))
                    } else {
                        value.store(part.a.add(at))
                    }
                }
            }
            within += TURN;
        }
        for at in chunk * STREAMS..part.length {
            let b = if O::SOURCES > 0 { *part.b.add(at) } else { 0.0 };
            let c = if O::SOURCES > 1 { *part.c.add(at) } else { 0.0 };
            *part.a.add(at) = O::value(part.scale, b, c);
        }
    }
    0
}

/// An iteration of a sum of the bits of `a`, or of `a * b` where `PRODUCTS`, in `STREAMS` places at
/// once; its bits.
///
/// # Safety
///
/// As for [`super::Body`] and [`Vector`].
#[inline(always)]
pub(super) unsafe fn reduce<V: Vector, const PRODUCTS: bool, const STREAMS: usize>(
    part: &Part,
) -> u64 {
    let turn = SUMS * V::LANES;
    // SAFETY: the caller's promise; every place lies below the part's length.
    unsafe {
        let mut sums = [V::all(0.0); SUMS];
        let chunk = part.length / STREAMS / turn * turn;
        let mut within = 0;
        while within < chunk {
            for stream in 0..STREAMS {
                for (lanes, sum) in sums.iter_mut().enumerate() {
                    let at = stream * chunk + within + lanes * V::LANES;
                    let a = V::load(part.a.add(at));
                    *sum = if PRODUCTS {
                        a.times_plus(V::load(part.b.add(at)), *sum)
                    } else {
                        sum.plus_words(a)
                    };
                }
            }
            within += turn;
        }
        let (mut total, mut words) = (0.0, 0u64);
        for sum in sums {
            let mut lanes = [0.0; LANES_MAX];
            sum.store(lanes.as_mut_ptr());
            for lane in &lanes[..V::LANES] {
                if PRODUCTS {
                    total += lane;
                } else {
                    words = words.wrapping_add(lane.to_bits());
                }
            }
        }
        for at in chunk * STREAMS..part.length {
            let a = *part.a.add(at);
            if PRODUCTS {
                total += a * *part.b.add(at);
            } else {
                words = words.wrapping_add(a.to_bits());
            }
        }
        if PRODUCTS { f64::to_bits(total) } else { words }
    }
}

impl Vector for f64 {
    const LANES: usize = 1;
    #[inline(always)]
    unsafe fn load(from: *const f64) -> f64 {
        // SAFETY: the caller promises that `from` is the address of an element.
        unsafe { *from }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: the caller promises that `to` is the address of an element.
        unsafe { *to = self }
    }
    #[inline(always)]
    unsafe fn store_past(self, to: *mut f64) {
        // SAFETY: the caller promises that `to` is the address of an element.
        unsafe { *to = self }
    }
    #[inline(always)]
    unsafe fn all(value: f64) -> f64 {
        value
    }
    #[inline(always)]
    unsafe fn plus(self, other: f64) -> f64 {
        self + other
    }
    #[inline(always)]
    unsafe fn plus_words(self, other: f64) -> f64 {
        f64::from_bits(self.to_bits().wrapping_add(other.to_bits()))
    }
    #[inline(always)]
    unsafe fn times(self, other: f64) -> f64 {
        self * other
    }
    #[inline(always)]
    unsafe fn times_plus(self, factor: f64, term: f64) -> f64 {
        self * factor + term
    }
}
