//! The vector variants of x86-64.

use super::{Bodies, Body};

type Variant = (&'static str, &'static [&'static str], Bodies);

macro_rules! instruction_set {
    (
        $module:ident $features:literal: $lanes:literal lanes in $vector:ident,
        load $load:ident, store $store:ident, past $stream:ident, all $set:ident,
        plus $add:ident, times $multiply:ident, times_plus $fma:ident,
        words $words:ident, plus_words $add_words:ident, of_words $of_words:ident
    ) => {
        mod $module {
            use super::super::{
                Part,
                vector::{self, Vector},
            };
            use crate::host::kernel::inlined;
            use std::arch::x86_64::{
                _mm_sfence, $add, $add_words, $fma, $load, $multiply, $of_words, $set, $store,
                $stream, $vector, $words,
            };

            impl Vector for $vector {
                const LANES: usize = $lanes;
                inlined! {
                    fn load(from: *const f64) -> Self = $load(from);
                    fn store(self, to: *mut f64) = $store(to, self);
                    fn store_past(self, to: *mut f64) = $stream(to, self);
                    fn all(value: f64) -> Self = $set(value);
                    fn plus(self, other: Self) -> Self = $add(self, other);
                    fn plus_words(self, other: Self) -> Self =
                        $of_words($add_words($words(self), $words(other)));
                    fn times(self, other: Self) -> Self = $multiply(self, other);
                    fn times_plus(self, factor: Self, term: Self) -> Self =
                        $fma(self, factor, term);
                }
            }

            /// # Safety
            ///
            /// As for [`super::Body`].
            #[target_feature(enable = $features)]
            pub unsafe fn reduce<const PRODUCTS: bool, const STREAMS: usize>(part: &Part) -> u64 {
                // SAFETY: the caller's promise.
                unsafe { vector::reduce::<$vector, PRODUCTS, STREAMS>(part) }
            }

            /// # Safety
            ///
            /// As for [`super::Body`].
            #[target_feature(enable = $features)]
            pub unsafe fn assign<O: vector::Assign, const PAST: bool, const STREAMS: usize>(
                part: &Part,
            ) -> u64 {
                // SAFETY: the caller's promise.
                unsafe { vector::assign::<O, $vector, PAST, STREAMS>(part) };
                if PAST {
                    // Stores past the caches are not ordered with what follows.
                    _mm_sfence();
                }
                0
            }
        }
    };
}

instruction_set! {
    avx512 "avx512f": 8 lanes in __m512d,
    load _mm512_loadu_pd, store _mm512_storeu_pd, past _mm512_stream_pd, all _mm512_set1_pd,
    plus _mm512_add_pd, times _mm512_mul_pd, times_plus _mm512_fmadd_pd,
    words _mm512_castpd_si512, plus_words _mm512_add_epi64, of_words _mm512_castsi512_pd
}
instruction_set! {
    avx2 "avx2,fma": 4 lanes in __m256d,
    load _mm256_loadu_pd, store _mm256_storeu_pd, past _mm256_stream_pd, all _mm256_set1_pd,
    plus _mm256_add_pd, times _mm256_mul_pd, times_plus _mm256_fmadd_pd,
    words _mm256_castpd_si256, plus_words _mm256_add_epi64, of_words _mm256_castsi256_pd
}

macro_rules! bodies {
    ($set:ident, past $past:literal, streams $streams:literal) => {{
        use super::vector::{Add, Copied, Scale, Triad, Write};
        let stored = |body: Body| (!$past).then_some(body);
        [
            stored($set::reduce::<false, $streams>),
            Some($set::assign::<Write, $past, $streams> as Body),
            Some($set::assign::<Copied, $past, $streams>),
            Some($set::assign::<Scale, $past, $streams>),
            Some($set::assign::<Add, $past, $streams>),
            Some($set::assign::<Triad, $past, $streams>),
            stored($set::reduce::<true, $streams>),
        ]
    }};
}

/// Best for memory first.
pub(super) fn variants() -> Vec<Variant> {
    vec![
        ("avx512_nt", &["avx512f"], bodies!(avx512, past true, streams 1)),
        ("avx512_nt_4s", &["avx512f"], bodies!(avx512, past true, streams 4)),
        ("avx512", &["avx512f"], bodies!(avx512, past false, streams 1)),
        ("avx512_4s", &["avx512f"], bodies!(avx512, past false, streams 4)),
        ("avx2_nt", &["avx2", "fma"], bodies!(avx2, past true, streams 1)),
        ("avx2", &["avx2", "fma"], bodies!(avx2, past false, streams 1)),
    ]
}
