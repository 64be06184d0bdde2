//! Recurrences on rows of states, written once for every kind of vector.
//!
//! Everything here is inlined into a function that has the vector's instructions enabled, and
//! reaches speed only there. Four rows are updated together, so that the sums along one wait less
//! for each other. A row is read twice: from memory for its sums, and then from the first cache.

use fizeau_domain::{case::limits::RECURRENCE_KEY_MAX, kernel::RecurrenceParams};
use half::bf16;
use std::{array::from_fn, marker::PhantomData, ops::Range};

/// Elements of a step along a row, of which a key has a whole number.
pub(super) const STEP: usize = 16;

/// Rows that are updated together.
pub(super) const ROWS: usize = 4;

/// Elements of the longest key.
const KEY_MAX: usize = RECURRENCE_KEY_MAX as usize;

/// A step of elements, as `f32`.
///
/// # Safety
///
/// Every function needs the vector's instructions; addresses are those of as many elements as a
/// step has, and where `PAST` at a multiple of their size together.
pub(super) trait Step: Copy {
    /// The same in every lane.
    unsafe fn all(value: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    /// From bf16.
    unsafe fn load_bf16(from: *const u16) -> Self;
    unsafe fn times(self, other: Self) -> Self;
    /// `self * factor + term`
    unsafe fn times_plus(self, factor: Self, term: Self) -> Self;
    unsafe fn sum(self) -> f32;
    unsafe fn store<const PAST: bool>(self, to: *mut f32);
    /// Rounded to bf16, ties to even.
    unsafe fn store_bf16<const PAST: bool>(self, to: *mut u16);
}

/// An element type of states.
pub(super) trait State: Copy {
    /// # Safety
    ///
    /// As for [`Step`].
    unsafe fn load<S: Step>(from: *const Self) -> S;
    /// # Safety
    ///
    /// As for [`Step`].
    unsafe fn store<S: Step, const PAST: bool>(to: *mut Self, value: S);
}

impl State for f32 {
    #[inline(always)]
    unsafe fn load<S: Step>(from: *const f32) -> S {
        // SAFETY: the caller's promise.
        unsafe { S::load(from) }
    }
    #[inline(always)]
    unsafe fn store<S: Step, const PAST: bool>(to: *mut f32, value: S) {
        // SAFETY: the caller's promise.
        unsafe { value.store::<PAST>(to) }
    }
}

impl State for u16 {
    #[inline(always)]
    unsafe fn load<S: Step>(from: *const u16) -> S {
        // SAFETY: the caller's promise.
        unsafe { S::load_bf16(from) }
    }
    #[inline(always)]
    unsafe fn store<S: Step, const PAST: bool>(to: *mut u16, value: S) {
        // SAFETY: the caller's promise.
        unsafe { value.store_bf16::<PAST>(to) }
    }
}

/// One iteration over some rows of all states.
///
/// # Safety
///
/// The arrays of the parameters are those of the operation, nobody else writes to these rows
/// meanwhile, and the CPU has the variant's instructions.
pub(super) type Body = unsafe fn(&RecurrenceParams, Range<usize>);

/// The bodies of one variant: each rule on states of f32 and of bf16.
pub(super) type Bodies = [Body; 6];

/// The bodies of a kind of vector, each a function `$run` that has its instructions.
macro_rules! bodies {
    ($run:ident, past $past:literal) => {{
        use $crate::host::recurrence::rows::{Body, Rule};
        [
            $run::<Rule<f32, true, false, $past>> as Body,
            $run::<Rule<u16, true, false, $past>>,
            $run::<Rule<f32, true, true, $past>>,
            $run::<Rule<u16, true, true, $past>>,
            $run::<Rule<f32, false, false, $past>>,
            $run::<Rule<u16, false, false, $past>>,
        ]
    }};
}
pub(super) use bodies;

/// A rule on rows of states.
pub(super) trait Rows {
    /// # Safety
    ///
    /// As for [`Body`] and [`Step`].
    unsafe fn run<S: Step>(params: &RecurrenceParams, rows: Range<usize>);
}

/// A rule: whether it takes what the state keeps of a key out of a value (`DELTA`), and whether
/// each element of a key has a decay of its own (`EACH`).
pub(super) struct Rule<T, const DELTA: bool, const EACH: bool, const PAST: bool>(PhantomData<T>);

/// What all rows of a head share.
#[repr(align(64))]
struct Head {
    keys: [f32; KEY_MAX],
    queries: [f32; KEY_MAX],
    decays: [f32; KEY_MAX],
    rate: f32,
    skip: f32,
    /// Of the query and the key.
    product: f32,
}

impl Head {
    /// The head of number `at` of all sequences.
    ///
    /// # Safety
    ///
    /// As for [`Body`].
    #[inline(always)]
    unsafe fn fill<const EACH: bool>(&mut self, params: &RecurrenceParams, at: usize) {
        let (heads, key) = (params.heads as usize, params.key as usize);
        let shared = heads / params.key_heads as usize;
        let (sequence, head) = (at / heads, at % heads);
        let of_keys = (sequence * params.key_heads as usize + head / shared) * key;
        // SAFETY: the arrays have an element for each head, and those of keys a row.
        unsafe {
            let keys = (params.keys as *const bf16).add(of_keys);
            let queries = (params.queries as *const bf16).add(of_keys);
            let decays = params.decays as *const f32;
            let mut product = 0.0;
            for column in 0..key {
                let (k, q) = ((*keys.add(column)).to_f32(), (*queries.add(column)).to_f32());
                let decay = if EACH { at * key + column } else { at };
                self.keys[column] = k;
                self.queries[column] = q;
                self.decays[column] = *decays.add(decay);
                product += k * q;
            }
            self.product = product;
            self.rate = *(params.rates as *const f32).add(at);
            self.skip = match params.skips {
                0 => 0.0,
                skips => *(skips as *const f32).add(head),
            };
        }
    }
}

impl<T: State, const DELTA: bool, const EACH: bool, const PAST: bool> Rule<T, DELTA, EACH, PAST> {
    /// Updates `COUNT` rows of one head, the first of number `row` of all.
    #[inline(always)]
    unsafe fn update<S: Step, const COUNT: usize>(
        params: &RecurrenceParams,
        head: &Head,
        row: usize,
        past: bool,
    ) {
        let key = params.key as usize;
        // SAFETY: the rows lie within the arrays.
        unsafe {
            let state = (params.state as *const T).add(row * key);
            let updated = (params.updated as *mut T).add(row * key);
            let mut kept = [S::all(0.0); COUNT];
            let mut read = [S::all(0.0); COUNT];
            for column in (0..key).step_by(STEP) {
                let decays = S::load(head.decays.as_ptr().add(column));
                let queries = S::load(head.queries.as_ptr().add(column));
                let keys = S::load(head.keys.as_ptr().add(column));
                for at in 0..COUNT {
                    let old = T::load::<S>(state.add(at * key + column)).times(decays);
                    read[at] = old.times_plus(queries, read[at]);
                    if DELTA {
                        kept[at] = old.times_plus(keys, kept[at]);
                    }
                }
            }
            let wanted: [f32; COUNT] =
                from_fn(|at| (*(params.values as *const bf16).add(row + at)).to_f32());
            let updates: [f32; COUNT] = from_fn(|at| {
                let kept = if DELTA { kept[at].sum() } else { 0.0 };
                head.rate * (wanted[at] - kept)
            });
            for column in (0..key).step_by(STEP) {
                let decays = S::load(head.decays.as_ptr().add(column));
                let keys = S::load(head.keys.as_ptr().add(column));
                for (at, &change) in updates.iter().enumerate() {
                    let place = at * key + column;
                    let old = T::load::<S>(state.add(place)).times(decays);
                    let new = keys.times_plus(S::all(change), old);
                    if PAST && past {
                        T::store::<S, true>(updated.add(place), new);
                    } else {
                        T::store::<S, false>(updated.add(place), new);
                    }
                }
            }
            let output = (params.output as *mut bf16).add(row);
            for at in 0..COUNT {
                let value = read[at].sum() + updates[at] * head.product + head.skip * wanted[at];
                *output.add(at) = bf16::from_f32(value);
            }
        }
    }
}

impl<T: State, const DELTA: bool, const EACH: bool, const PAST: bool> Rows
    for Rule<T, DELTA, EACH, PAST>
{
    #[inline(always)]
    unsafe fn run<S: Step>(params: &RecurrenceParams, rows: Range<usize>) {
        let value = params.value as usize;
        let past = params.updated.is_multiple_of(64);
        let mut head = Head {
            keys: [0.0; KEY_MAX],
            queries: [0.0; KEY_MAX],
            decays: [0.0; KEY_MAX],
            rate: 0.0,
            skip: 0.0,
            product: 0.0,
        };
        let mut row = rows.start;
        while row < rows.end {
            let at = row / value;
            let end = ((at + 1) * value).min(rows.end);
            // SAFETY: the caller's promise.
            unsafe {
                head.fill::<EACH>(params, at);
                while row + ROWS <= end {
                    Self::update::<S, ROWS>(params, &head, row, past);
                    row += ROWS;
                }
                while row < end {
                    Self::update::<S, 1>(params, &head, row, past);
                    row += 1;
                }
            }
        }
    }
}
