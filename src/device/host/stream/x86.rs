//! The vector variants of x86-64.

use super::{Bodies, Body};

type Variant = (&'static str, &'static [&'static str], Bodies);

mod avx512 {
    use std::arch::x86_64::{self as x86, __m512d as Vector, _mm512_storeu_pd as storeu};
    super::super::vector::bodies!(
        "avx512f", lanes 8, unroll 8,
        load x86::_mm512_loadu_pd, store x86::_mm512_storeu_pd, store_past x86::_mm512_stream_pd,
        set x86::_mm512_set1_pd, add x86::_mm512_add_pd, multiply x86::_mm512_mul_pd,
        multiply_add x86::_mm512_fmadd_pd, prefetch 512
    );
}

mod avx2 {
    use std::arch::x86_64::{self as x86, __m256d as Vector, _mm256_storeu_pd as storeu};
    super::super::vector::bodies!(
        "avx2,fma", lanes 4, unroll 8,
        load x86::_mm256_loadu_pd, store x86::_mm256_storeu_pd, store_past x86::_mm256_stream_pd,
        set x86::_mm256_set1_pd, add x86::_mm256_add_pd, multiply x86::_mm256_mul_pd,
        multiply_add x86::_mm256_fmadd_pd, prefetch 512
    );
}

macro_rules! through_caches {
    ($set:ident, $streams:literal) => {
        [
            Some($set::read::<$streams> as Body),
            Some($set::write::<false, $streams>),
            Some($set::copy::<false, $streams>),
            Some($set::scale::<false, $streams>),
            Some($set::add::<false, $streams>),
            Some($set::triad::<false, $streams>),
            Some($set::dot::<$streams>),
        ]
    };
}

macro_rules! past_caches {
    ($set:ident, $streams:literal) => {
        [
            None,
            Some($set::write::<true, $streams> as Body),
            Some($set::copy::<true, $streams>),
            Some($set::scale::<true, $streams>),
            Some($set::add::<true, $streams>),
            Some($set::triad::<true, $streams>),
            None,
        ]
    };
}

/// Best for memory first.
pub(super) fn variants() -> Vec<Variant> {
    vec![
        ("avx512_nt", &["avx512f"], past_caches!(avx512, 1)),
        ("avx512", &["avx512f"], through_caches!(avx512, 1)),
        ("avx512_4s", &["avx512f"], through_caches!(avx512, 4)),
        ("avx2_nt", &["avx2", "fma"], past_caches!(avx2, 1)),
        ("avx2", &["avx2", "fma"], through_caches!(avx2, 1)),
    ]
}
