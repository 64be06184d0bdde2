//! The loops of the vector variants, written once for every width of vector.
//!
//! `STREAMS` places are walked at once, [`TURN`] lines each. What is left at the end of a part is
//! done one element at a time.

/// Writes the bodies of one instruction set as functions of the module it stands in.
macro_rules! bodies {
    (
        $features:literal, lanes $lanes:literal, unroll $unroll:literal,
        load $load:path, store $store:path, store_past $stream:path, set $set:path,
        add $add:path, multiply $multiply:path, multiply_add $fma:path, prefetch $prefetch:literal
    ) => {
        use super::super::Part;
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch, _mm_sfence};

        const LANES: usize = $lanes;
        /// Vectors of one turn in one stream.
        const UNROLL: usize = $unroll;
        /// Elements of one turn in one stream.
        const TURN: usize = LANES * UNROLL;

        /// Walks `STREAMS` equal chunks of a part at once and calls `turn(element)`, then
        /// `rest(element)` for each one left.
        #[inline(always)]
        fn walk<const STREAMS: usize>(
            length: usize,
            mut turn: impl FnMut(usize, usize),
            rest: impl FnOnce(std::ops::Range<usize>),
        ) {
            let chunk = length / STREAMS / TURN * TURN;
            let mut at = 0;
            while at < chunk {
                for stream in 0..STREAMS {
                    turn(stream, stream * chunk + at);
                }
                at += TURN;
            }
            rest(chunk * STREAMS..length);
        }

        /// # Safety
        ///
        /// As for [`super::super::Body`], and for every other function here.
        #[target_feature(enable = $features)]
        pub unsafe fn read<const STREAMS: usize>(part: &Part) -> f64 {
            let a = part.a;
            let mut sums = [[$set(0.0); UNROLL]; STREAMS];
            let mut tail = 0.0;
            walk::<STREAMS>(
                part.length,
                |stream, at| unsafe {
                    if STREAMS > 1 {
                        _mm_prefetch::<_MM_HINT_T0>(a.wrapping_add(at + $prefetch).cast());
                    }
                    for (vector, sum) in sums[stream].iter_mut().enumerate() {
                        *sum = $add(*sum, $load(a.add(at + vector * LANES)));
                    }
                },
                |rest| rest.for_each(|at| tail += unsafe { *a.add(at) }),
            );
            tail + total(&sums)
        }

        #[target_feature(enable = $features)]
        pub unsafe fn dot<const STREAMS: usize>(part: &Part) -> f64 {
            let (a, b) = (part.a, part.b);
            let mut sums = [[$set(0.0); UNROLL]; STREAMS];
            let mut tail = 0.0;
            walk::<STREAMS>(
                part.length,
                |stream, at| unsafe {
                    for (vector, sum) in sums[stream].iter_mut().enumerate() {
                        let at = at + vector * LANES;
                        *sum = $fma($load(a.add(at)), $load(b.add(at)), *sum);
                    }
                },
                |rest| rest.for_each(|at| tail += unsafe { *a.add(at) * *b.add(at) }),
            );
            tail + total(&sums)
        }

        #[target_feature(enable = $features)]
        fn total<const STREAMS: usize>(sums: &[[Vector; UNROLL]; STREAMS]) -> f64 {
            let mut all = $set(0.0);
            for sum in sums.as_flattened() {
                all = $add(all, *sum);
            }
            let mut lanes = [0.0; LANES];
            // SAFETY: as many elements as a vector has.
            unsafe { storeu(lanes.as_mut_ptr(), all) };
            lanes.iter().sum()
        }

        /// Stores `value(element)` all over the part.
        macro_rules! filling {
            ($name:ident, $part:ident, $at:ident, $before:stmt, $value:expr, $scalar:expr) => {
                #[target_feature(enable = $features)]
                pub unsafe fn $name<const PAST: bool, const STREAMS: usize>($part: &Part) -> f64 {
                    let a = $part.a;
                    $before
                    walk::<STREAMS>(
                        $part.length,
                        |_, from| unsafe {
                            for vector in 0..UNROLL {
                                let $at = from + vector * LANES;
                                let value = $value;
                                if PAST {
                                    $stream(a.add($at), value);
                                } else {
                                    $store(a.add($at), value);
                                }
                            }
                        },
                        |rest| rest.for_each(|$at| unsafe { *a.add($at) = $scalar }),
                    );
                    if PAST {
                        // Stores past the caches are not ordered with what follows.
                        _mm_sfence();
                    }
                    0.0
                }
            };
        }

        filling!(write, part, at, let value = $set(part.scale), value, part.scale);
        filling!(copy, part, at, let b = part.b, $load(b.add(at)), *b.add(at));
        filling!(
            scale,
            part,
            at,
            let (b, factor) = (part.b, $set(part.scale)),
            $multiply(factor, $load(b.add(at))),
            part.scale * *b.add(at)
        );
        filling!(
            add,
            part,
            at,
            let (b, c) = (part.b, part.c),
            $add($load(b.add(at)), $load(c.add(at))),
            *b.add(at) + *c.add(at)
        );
        filling!(
            triad,
            part,
            at,
            let (b, c, factor) = (part.b, part.c, $set(part.scale)),
            $fma(factor, $load(c.add(at)), $load(b.add(at))),
            part.scale.mul_add(*c.add(at), *b.add(at))
        );
    };
}

pub(super) use bodies;
